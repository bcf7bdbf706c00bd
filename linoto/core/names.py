"""The names of arms: one each, or their numbers, which need no memory."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, overload


class Numbered(Sequence[str]):
    """The names "0", "1", ... of k arms that have no others.

    >>> names = Numbered(3)
    >>> list(names), names[-1], "2" in names, "02" in names, names == ("0", "1", "2")
    (['0', '1', '2'], '2', True, False, True)
    """

    def __init__(self, k: int) -> None:
        self.k = k

    def __len__(self) -> int:
        return self.k

    @overload
    def __getitem__(self, place: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> str | tuple[str, ...]:
        found = range(self.k)[place]
        return str(found) if isinstance(found, int) else tuple(map(str, found))

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.k))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in Places(self.k)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbered):
            return self.k == other.k
        return isinstance(other, tuple) and len(other) == self.k and all(map(str.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Numbered({self.k})"


class Places(Mapping[str, int]):
    """Where each of these names is."""

    def __init__(self, k: int) -> None:
        self.k = k

    def __getitem__(self, name: str) -> int:
        whole = name.isascii() and name.isdigit() and len(name) < 16
        place = int(name) if whole else -1
        if not 0 <= place < self.k or str(place) != name:
            raise KeyError(name)
        return place

    def __len__(self) -> int:
        return self.k

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.k))


class Labelled(Sequence[str]):
    """Names after a word, as features are called: "item=0", "item=1", ..."""

    def __init__(self, word: str, names: Names) -> None:
        self.word, self.names = word, names

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> str | tuple[str, ...]:
        found = self.names[place]
        return self.word + found if isinstance(found, str) else tuple(self.word + name for name in found)


Names = tuple[str, ...] | Numbered


def as_kept(names: Sequence[Any]) -> Names:
    """Names as they are kept: numbers in no memory, others as texts."""
    return names if isinstance(names, Numbered) else tuple(names)


def places_of(names: Names) -> Mapping[str, int]:
    """Where each name is."""
    return (
        Places(names.k) if isinstance(names, Numbered) else {name: place for place, name in enumerate(names)}
    )


def check_index(
    argument: str, index: Any, names: Sequence[str] | None, every: Container[str] | None = None
) -> None:
    """Refuse an index that is the name of another arm: of items called 1, 2 and 3 it may mean either.

    `names` are those of a round, and `every` all there are. What is no index is none of its business.
    """
    if names is None or type(index) is not int or not 0 <= index < len(names):
        return
    name = str(index)
    if names[index] == name or name not in (names if every is None else every):
        return
    raise ValueError(
        f"{argument} must say which arm it means where names are numbers, got {index}: give the name as "
        f"text, {names[index]!r} or {name!r}"
    )


def as_stored(names: Names | None) -> tuple[str, ...] | int | None:
    """Names as a file holds them: of numbers, how many."""
    return names.k if isinstance(names, Numbered) else names


def from_stored(names: Sequence[str] | int | None, k: int) -> Names | None:
    """What a file holds as names of k arms."""
    if names is None:
        return None
    if names == k:
        return Numbered(k)
    return tuple(names)  # type: ignore[arg-type] # another number is none of a file of ours
