"""Logged rows, and which of them built what: rows that built a warm start cannot also judge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import text_of
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.offline import Offline
from linoto.core.validation import as_arms, as_floats, check_choice, check_count, exact, is_number
from linoto.logs.row_features import (
    Sparse,
    every_arm_features,
    gram_of,
    moments_of,
    played_features,
    scores_of,
)

CELLS = 2**20  # rows times arms that are compared at a time
Ids = Sequence[Any] | npt.NDArray[Any]  # what tells one row from another: 17, 17.0 and "17" are the same row


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Logged decisions one by one. `propensities="uniform"` is short for the same chance of every arm.

    Rows with contexts have a recipe, whose items are the arms, and the columns of its context.

    >>> rows = Rows(arms=[0, 1, 1], rewards=[1.0, 0.0, 1.0], k=2, propensities="uniform")
    >>> len(rows), rows.offline.pulls.tolist()
    (3, [1, 2])
    """

    arms: Ints  # (n,)
    rewards: Floats  # (n,)
    k: int
    propensities: Floats | Literal["uniform"] | None = None  # (n,) of the logged arms, in (0, 1]
    ids: Ids | None = None  # (n,) all different
    names: Sequence[str] | None = None  # (k,) of the arms
    recipe: Recipe | None = None  # how contexts become features; None: rows have no context
    context: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)  # (n,) each column of the recipe
    candidates: Bools | None = None  # (n, k) what could be played; None: every arm
    left_out: int = 0  # bad rows of the source, which are not among these
    notes: tuple[str, ...] = ()  # what was noticed while reading
    metrics: Mapping[str, Floats] = field(default_factory=dict)  # (n,) besides the reward; NaN: no value

    def __post_init__(self) -> None:
        check_count("k", self.k)
        arms = as_arms("arms", self.arms, self.k)
        if arms.size == 0:
            raise ValueError("arms must hold at least one row, got none")
        rewards = as_floats("rewards", self.rewards, ndim=1)
        check_length("rewards", rewards, arms.size)
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "rewards", rewards)
        if self.recipe is not None:
            check_recipe(self.recipe, self.k)
            object.__setattr__(self, "names", self.recipe.items)
            for field in (field for column in self.recipe.context for field in column.reads):
                check_length(f"context[{field!r}]", np.asarray(self.context[field]), arms.size)
        if self.propensities is not None:
            object.__setattr__(self, "propensities", as_propensities(self.propensities, self))
        if self.ids is not None:
            object.__setattr__(self, "ids", as_ids(self.ids, arms.size))
        for name, values in self.metrics.items():
            check_length(f"metrics[{name!r}]", np.asarray(values), arms.size)
        if self.names is not None and len(self.names) != self.k:
            raise ValueError(f"names must be one for each of the {self.k} arms, got {len(self.names)}")

    def __len__(self) -> int:
        return int(self.arms.size)

    def name(self, arm: int) -> str:
        """An arm as messages call it."""
        return f"arm {arm}" if self.names is None else f"arm {self.names[arm]!r}"

    @property
    def offline(self) -> Offline:
        """These rows by arm, as what every policy of fixed arms starts from."""
        return Offline.from_rows(self.arms, self.rewards, k=self.k)

    @property
    def all_certain(self) -> bool:
        """Whether every propensity is 1: such rows say nothing of any other policy."""
        return self.propensities is not None and bool((np.asarray(self.propensities) == 1).all())

    @property
    def fingerprint(self) -> Fingerprint:
        """Which rows these are."""
        if self.ids is None:
            raise ValueError("ids must be given to tell rows apart, got None: give ids=, or use split")
        return Fingerprint.of(self.ids)

    def take(self, chosen: npt.NDArray[Any]) -> Rows:
        """Some of the rows: a mask or positions."""
        return replace(
            self,
            arms=self.arms[chosen],
            rewards=self.rewards[chosen],
            propensities=None if self.propensities is None else np.asarray(self.propensities)[chosen],
            ids=None if self.ids is None else some_of(as_texts(self.ids), chosen),
            context={name: values[chosen] for name, values in self.context.items()},
            candidates=None if self.candidates is None else self.candidates[chosen],
            metrics={name: np.asarray(values)[chosen] for name, values in self.metrics.items()},
        )

    def about(self, metric: str) -> Rows:
        """The rows that have a value of a metric, with it in the place of the reward."""
        values = np.asarray(self.metrics[metric])
        known = np.isfinite(values)
        if not known.any():
            raise ValueError(f"rows must have a value of {metric!r}, got none")
        found = replace(self.take(known), rewards=values[known], metrics={})
        return replace(found, left_out=self.left_out + int((~known).sum()))

    def uniform(self) -> Rows:
        """The same rows, if every arm that could be played was as likely as the others."""
        return replace(self, propensities="uniform")

    def numbered(self) -> Rows:
        """These rows with their ids, or where they have none with their positions in exactly this log."""
        if self.ids is not None:
            return self
        digest = blake2b(self.arms.tobytes() + self.rewards.tobytes(), digest_size=8).hexdigest()
        return replace(self, ids=[f"{digest}:{i}" for i in range(len(self))])

    # -- what was on offer, and in which context

    def context_of(self, row: int) -> dict[str, Any]:
        """What was known before a row was decided, as a request would have it."""
        return {name: plain(values[row]) for name, values in self.context.items()}

    def offered(self, row: int) -> tuple[str, ...]:
        """The names of the arms that could be played in a row."""
        names = self.names or tuple(map(str, range(self.k)))
        if self.candidates is None:
            return tuple(names)
        return tuple(names[arm] for arm in np.flatnonzero(self.candidates[row]).tolist())

    def on_offer(self, chosen: slice) -> Bools:
        """(n, k) which arms could be played in some of the rows."""
        size = len(range(len(self))[chosen]), self.k
        return np.ones(size, np.bool_) if self.candidates is None else self.candidates[chosen]

    def best(self, scores: Floats) -> Ints:
        """(n,) the arm on offer with the best score, (k,) or (n, k); the first of equals."""
        if scores.ndim == 1 and self.candidates is None:
            return np.full(len(self), scores.argmax())
        every, found = np.broadcast_to(scores, (len(self), self.k)), np.empty(len(self), np.int64)
        size = max(CELLS // self.k, 1)
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            found[part] = np.where(self.on_offer(part), every[part], -np.inf).argmax(axis=1)
        return found

    # -- features

    @cached_property
    def columns(self) -> dict[str, Sparse]:
        """The features of each column of the context."""
        fields = {field: np.asarray(values) for field, values in self.context.items()}
        return {
            column.name: Sparse(*column.features_of(column.taken(fields)))
            for column in self.known_recipe.context
        }

    @cached_property
    def features(self) -> Sparse:
        """The features of what was played."""
        return played_features(self.known_recipe, self.columns, self.arms)

    def moments(self, chosen: npt.NDArray[Any]) -> Moments:
        """Of some of the rows: a mask or positions."""
        return moments_of(self.features, self.rewards, chosen, self.known_recipe.d)

    def sums(self, chosen: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """(d, d) X'X and (d,) X'y of some of the rows."""
        some, d = self.features.of(chosen), self.known_recipe.d
        return gram_of(some, d), some.weighted_sum(self.rewards[chosen], d)

    def scores(self, theta: Floats) -> Floats:
        """(n, k) what a parameter expects of every arm in every row: read only, as rows may share it."""
        rows = len(self) if self.known_recipe.context else 1  # without a context all rows are alike
        found = scores_of(self.known_recipe, self.columns, theta, rows)
        return np.broadcast_to(found, (len(self), self.k))

    def every_arm(self) -> Iterator[tuple[slice, Sparse]]:
        """The features of every arm in every row, in parts of rows."""
        return every_arm_features(self.known_recipe, self.columns, len(self))

    def in_contexts(self) -> Rows:
        """These rows with their features in any case, also where arms are all there is."""
        return replace(self, recipe=self.known_recipe)

    @cached_property
    def known_recipe(self) -> Recipe:
        """The recipe; of rows without a context one in which each arm has a feature of its own."""
        return self.recipe or Recipe(items=tuple(self.names or map(str, range(self.k))), intercept=False)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Which rows built something: 64 bits of each row's id. Fingerprints of parts merge with `|`.

    >>> Fingerprint.of(["a", "b"]).shares(["b", "c"]).tolist()
    [True, False]
    """

    hashes: npt.NDArray[np.uint64]  # (n,) sorted, distinct

    @classmethod
    def of(cls, ids: Ids) -> Fingerprint:
        """Of rows with these ids."""
        return cls(np.unique(hashed(ids)))

    def __or__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(np.union1d(self.hashes, other.hashes))

    def shares(self, ids: Ids) -> Bools:
        """(n,) which of these rows are among them."""
        return np.isin(hashed(ids), self.hashes)


@dataclass(frozen=True, kw_only=True, eq=False)
class WarmStart:
    """Statistics of a log, and which rows they came from: for logs too large to keep as rows."""

    offline: Offline
    fingerprint: Fingerprint


def hashed(ids: Ids) -> npt.NDArray[np.uint64]:
    """(n,) 64 bits of each id, the same on every machine."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in as_texts(ids).tolist())
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def split(rows: Rows, *, share: float = 0.5, by: Literal["id", "order"] = "id") -> tuple[Rows, Rows]:
    """Two disjoint parts of a log: rows to build a warm start from, and rows to judge it by.

    By "id", a row's side follows from its id alone: the same on every machine, for every order and every part
    of the log. By "order", the first rows build and the later ones judge.

    >>> rows = Rows(arms=[0, 1] * 50, rewards=[0.0, 1.0] * 50, k=2)
    >>> warm, held_out = split(rows, by="order")
    >>> len(warm), bool(warm.fingerprint.shares(held_out.ids).any())
    (50, False)
    """
    check_choice("by", by, ("id", "order"))
    if not is_number(share) or not 0 < share < 1:
        raise ValueError(f"share must be in (0, 1), got {share!r}")
    known = rows.numbered()
    if by == "order":
        first = np.arange(len(rows)) < round(share * len(rows))
    else:
        first = hashed(np.asanyarray(known.ids)) < share * 2.0**64
    if first.all() or not first.any():
        raise ValueError(f"rows must fill both parts, got {len(rows)} for a share of {exact(share)}")
    return known.take(first), known.take(~first)


def check_disjoint(rows: Rows, warm_start: Rows | WarmStart | None) -> None:
    """Refuse to judge by rows that built the warm start: they would repeat what it already believes."""
    if warm_start is None:
        return
    if not isinstance(warm_start, Rows | WarmStart):
        got = type(warm_start).__name__
        raise ValueError(f"warm_start must be Rows or a WarmStart, to say which rows built it, got {got}")
    check_others(rows, warm_start.fingerprint, "a warm start", "built the warm start")
    if isinstance(warm_start, Rows):
        check_same_arms(rows, warm_start)


def check_same_arms(rows: Rows, warm_start: Rows) -> None:
    """Refuse a warm start whose arms or features are others at the same places."""
    known, names = warm_start.names, rows.names
    if known is not None and names is not None and tuple(known) != tuple(names):
        mine, other = next(pair for pair in zip_longest(names, known) if pair[0] != pair[1])
        raise ValueError(
            f"warm_start must have the arms of the rows in their order, got {other!r} in the place of "
            f"{mine!r}: read both with one file of arms (arms=), or all rows at once, and split them"
        )
    if warm_start.recipe != rows.recipe:
        raise ValueError(
            "warm_start must be read with the recipe of the rows (recipe=log.recipe, of one log), got others"
        )


def check_others(rows: Rows, fingerprint: Fingerprint, what: str, did: str) -> None:
    """Refuse to judge what some rows did by rows that are among them."""
    if rows.ids is None:
        raise ValueError(
            f"ids must be given where there is {what}, to show that these rows are not among those that "
            f"{did}, got None: give ids=, or use split"
        )
    both = fingerprint.shares(rows.ids)
    if both.any():
        first = str(np.asarray(rows.ids)[both.argmax()])
        raise ValueError(
            f"rows must not be among those that {did}, got {both.sum()} of {len(rows)} that are, the first "
            f"with id {first!r}"
        )


# -- checks -----------------------------------------------------------------------------------------------


def check_recipe(recipe: Any, k: int | None = None) -> None:
    """Refuse what has no items to choose from, or others than there are arms."""
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe must be a linoto.Recipe, got {type(recipe).__name__}")
    if not recipe.items or recipe.action:
        raise ValueError(
            "recipe must have items and no columns of the action itself: a log does not say what "
            "the columns of other actions were"
        )
    if k is not None and len(recipe.items) != k:
        raise ValueError(f"recipe must have {k} items, one for each arm, got {len(recipe.items)}")


def as_propensities(value: Any, rows: Rows) -> Floats:
    """(n,) probabilities of what was chosen."""
    n = len(rows)
    if isinstance(value, str):
        check_choice("propensities", value, ("uniform",))
        offered = rows.k if rows.candidates is None else rows.candidates.sum(axis=1)
        return np.asarray(np.ones(n) / offered)
    propensities = as_floats("propensities", value, ndim=1)
    check_length("propensities", propensities, n)
    wrong = (propensities <= 0) | (propensities > 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"propensities must be in (0, 1], got {exact(propensities[row])} in row {row}")
    return propensities


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


class Texts(np.ndarray[tuple[int], np.dtype[Any]]):
    """Ids that are texts already, and so is what is taken of them: to write them again takes seconds."""

    distinct = False  # whether all are known to differ; of what is taken of them nobody knows


def as_texts(ids: Ids) -> Texts:
    """(n,) of each id, the text by which it is known."""
    if isinstance(ids, Texts) and ids.dtype.kind == "U":  # not numbers that somebody made of them
        return ids
    return np.asarray([text_of(row) for row in ids]).view(Texts)


def as_ids(value: Ids, n: int) -> Texts:
    """(n,) texts that all differ."""
    ids = as_texts(value)
    check_length("ids", ids, n)
    if ids.distinct:  # to sort a million texts takes a second, and parts of rows are taken by the dozen
        return ids
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"ids must differ from row to row, got {str(values[counts > 1][0])!r} twice")
    return known_to_differ(ids.copy() if ids is value else ids)


def some_of(ids: Texts, chosen: npt.NDArray[Any]) -> Texts:
    """Those of some rows: a mask or positions; not known to differ where a position may be there twice."""
    found = ids[chosen]
    once = chosen.dtype == np.bool_ or ((chosen[:1] >= 0).all() and (np.diff(chosen) > 0).all())
    return known_to_differ(found) if ids.distinct and once else found


def known_to_differ(ids: Texts) -> Texts:
    """The same ids, which nobody can change any more."""
    found = ids.view()
    found.flags.writeable, found.distinct = False, True
    return found


def check_length(name: str, values: npt.NDArray[Any], n: int) -> None:
    """Refuse a column of another length."""
    if values.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} rows, got shape {values.shape}")
