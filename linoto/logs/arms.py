"""Arms as a table: features become actions, and the encoding is kept for arms that come later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import has_controls, is_missing, number_of, text_of
from linoto.core.hints import nearest, shortened_list
from linoto.core.names import Names
from linoto.core.one_hot import in_float64
from linoto.core.one_hot import one_hot as unit_vectors
from linoto.core.validation import as_actions, as_arms, as_features, check_positive, stays_float32
from linoto.logs.notation import looks_like_compact_dates, looks_like_dates, other_notation
from linoto.logs.values import Table, check_columns

MOST_NUMBERS = 200_000_000  # of all features, where effects are added to them


@dataclass(frozen=True, kw_only=True)
class Column:
    """One feature column: a number as it is, or one feature for each level of a category."""

    name: str
    levels: tuple[str, ...] | None = None  # None: a number


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How a row of the arm table becomes an action: the same for arms that are added later.

    >>> table = {"size": [1.0, 2.0], "colour": ["red", "blue"]}
    >>> encoding = Encoding.fit(table)
    >>> encoding.features
    ('intercept', 'size', 'colour=blue', 'colour=red')
    >>> encoding.encode({"size": [3.0], "colour": ["blue"]}).tolist()
    [[1.0, 3.0, 1.0, 0.0]]
    """

    columns: tuple[Column, ...]
    intercept: bool = True
    scales: tuple[float, ...] | None = None  # one per feature, multiplied

    @classmethod
    def fit(
        cls,
        table: Table,
        *,
        intercept: bool = True,
        normalise: bool = False,
        categorical: Sequence[str] = (),
        where: str = "arms",
    ) -> Encoding:
        """Which columns are numbers, which are categories with which levels.

        `normalise` divides each numeric column by its largest absolute value and then everything by the
        longest action: no action is longer than 1, and what was linear in the features still is. (Scaling
        every arm by its own length would not keep that.)
        """
        for name in categorical:
            check_columns({"categorical": name}, list(table), where)
        columns = tuple(
            Column(name=name, levels=levels_of(values, name, where, forced=name in categorical))
            for name, values in table.items()
        )
        encoding = cls(columns=columns, intercept=intercept)
        if not normalise:
            return encoding
        features = np.abs(encoding.encode(table, where=where))
        largest = features.max(axis=0)
        scales = 1 / np.where(largest > 0, largest, 1.0)
        longest = float(np.linalg.norm(features * scales, axis=1).max())
        return replace(encoding, scales=tuple((scales / (longest or 1.0)).tolist()))

    @property
    def features(self) -> tuple[str, ...]:
        """(d,) a name for each feature."""
        names = ["intercept"] if self.intercept else []
        for column in self.columns:
            levels = column.levels
            names += [column.name] if levels is None else [f"{column.name}={level}" for level in levels]
        return tuple(names)

    def encode(self, table: Table, *, where: str = "arms") -> Floats:
        """(k, d) the actions of these rows. A level never met before is a ValueError that names it."""
        check_columns({column.name: column.name for column in self.columns}, list(table), where)
        rows = len(next(iter(table.values()), ()))
        blocks = list[Floats]()
        if self.intercept:
            blocks.append(np.ones((rows, 1), np.float32))  # as narrow as the others may be
        for column in self.columns:
            values = table[column.name]
            if column.levels is None:
                blocks.append(numbers_of(values, column.name, where)[:, None])
            else:
                blocks.append(one_hot(values, column.levels, column.name, where))
        features = np.hstack(blocks) if blocks else np.zeros((rows, 0))
        if not stays_float32(features):
            features = features.astype(np.float64)
        return np.ascontiguousarray(features if self.scales is None else features * np.array(self.scales))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Encoding:
        """What `to_dict` wrote."""
        columns = tuple(
            Column(name=column["name"], levels=None if column["levels"] is None else tuple(column["levels"]))
            for column in data["columns"]
        )
        scales = data["scales"]
        return cls(
            columns=columns,
            intercept=bool(data["intercept"]),
            scales=None if scales is None else tuple(scales),
        )


def levels_of(values: Sequence[Any], name: str, where: str, *, forced: bool) -> tuple[str, ...] | None:
    """The sorted levels of a category, or None for a column of numbers."""
    if isinstance(values, np.ndarray) and not forced and np.isfinite(values).all():
        return None
    for row, value in enumerate(values):
        if is_missing(value):
            raise ValueError(f"{where}, row {row + 1}, column {name!r}: a feature is missing")
        if isinstance(value, dict | list):
            got = type(value).__name__
            raise ValueError(f"{where}, column {name!r}: must be one value per row, got a {got}")
    numeric = [number_of(value) is not None for value in values]
    if all(numeric) and not forced:
        if looks_like_compact_dates(values):
            refuse_dates(values[0], name, where)
        return None
    if not forced:
        refuse_disguised([value for value in values if number_of(value) is None], name, where)
    if any(numeric) and not forced:
        row = numeric.index(False) if sum(numeric) * 2 >= len(numeric) else numeric.index(True)
        raise ValueError(
            f"{where}, row {row + 1}, column {name!r}: numbers and words are mixed, got {values[row]!r}; "
            f"name the column categorical if that is meant"
        )
    return tuple(sorted({text_of(value) for value in values}))


def refuse_disguised(words: Sequence[Any], name: str, where: str) -> None:
    """Refuse to take dates, or numbers in another notation, for words: one-hot they would fit anything."""
    if looks_like_dates(words):
        refuse_dates(words[0], name, where)
    look = other_notation(words)
    if look:
        raise ValueError(
            f"{where}, column {name!r}: must be numbers or words, got {text_of(words[0])!r}, which {look}: "
            "say so, or name the column categorical"
        )


def refuse_dates(value: Any, name: str, where: str) -> NoReturn:
    """Dates are neither words nor numbers: nothing is linear in 20260131."""
    raise ValueError(
        f"{where}, column {name!r}: must be numbers or words, got dates such as {text_of(value)!r}: make a "
        "number of them, such as an age in days, or name the column categorical"
    )


def numbers_of(values: Sequence[Any], name: str, where: str) -> Floats:
    """(k,) finite numbers, or a ValueError that names the row."""
    if isinstance(values, np.ndarray) and np.isfinite(values).all():
        return values
    numbers = [number_of(value) for value in values]
    for row, number in enumerate(numbers):
        if number is None or not np.isfinite(number):
            raise ValueError(
                f"{where}, row {row + 1}, column {name!r}: must be a finite number, got {values[row]!r}"
            )
    return np.array(numbers, dtype=np.float64)


def one_hot(values: Sequence[Any], levels: tuple[str, ...], name: str, where: str) -> Floats:
    """(k, levels) a one where the level is."""
    place = {level: index for index, level in enumerate(levels)}
    encoded = np.zeros((len(values), len(levels)))
    for row, value in enumerate(values):
        level = "" if is_missing(value) else text_of(value)
        if level not in place:
            raise ValueError(
                f"{where}, row {row + 1}, column {name!r}: {level!r} is none of its {len(levels)} levels"
                f"{nearest(level, levels)}"
            )
        encoded[row, place[level]] = 1.0
    return encoded


@dataclass(frozen=True, kw_only=True, eq=False)
class ArmTable:
    """The arms a log is about: their names, their features, and how those were encoded.

    >>> arms = ArmTable.from_columns({"id": ["a", "b"], "size": [1.0, 2.0]})
    >>> arms.names, arms.actions.tolist()
    (('a', 'b'), [[1.0, 1.0], [1.0, 2.0]])
    >>> arms.with_effects(scale=0.5).actions.tolist()
    [[1.0, 1.0, 0.5, 0.0], [1.0, 2.0, 0.0, 0.5]]

    Arms without features are one-hot, and arms with the same features have an effect each:

    >>> ArmTable.from_columns({"id": ["a", "b"]}).actions.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> ArmTable.from_columns({"id": ["a", "b", "c"], "size": [1.0, 1.0, 2.0]}).labels
    ('intercept', 'size', 'effect of a', 'effect of b')
    """

    names: Names  # (k,)
    features: Floats  # (k, d); float32 of many arms stays so, and a file that is mapped is not copied
    encoding: Encoding
    effects: float | None = None  # scale of the arm effects; None: without
    effects_of: tuple[int, ...] | None = None  # the arms that have one; None: all of them
    notes: tuple[str, ...] = ()  # what was noticed while reading

    def __post_init__(self) -> None:
        features = as_features(self.features)
        features.flags.writeable = False
        object.__setattr__(self, "features", features)
        if len(self.names) != len(features):
            raise ValueError(f"names must be one for each of {len(features)} arms, got {len(self.names)}")
        if self.effects is not None:
            check_positive("effects", self.effects)
        if self.effects_of is not None:
            some = as_arms("effects_of", np.array(self.effects_of), len(features)).tolist()
            object.__setattr__(self, "effects_of", None if len(some) == len(features) else tuple(some))

    @classmethod
    def from_columns(
        cls,
        table: Table,
        *,
        id: str | None = None,
        intercept: bool = True,
        normalise: bool = False,
        categorical: Sequence[str] = (),
        arm_effects: bool | None = None,
        where: str = "arms",
    ) -> ArmTable:
        """From columns: the ids are the first of them unless named, every other one is a feature.

        Without a feature column arms are one-hot. With `arm_effects` every arm has an effect of its own; if
        that is not said, those have one that share their features with another arm.
        """
        if not table or not len(next(iter(table.values()))):
            raise ValueError(f"{where} must have at least one arm, got none")
        key = next(iter(table)) if id is None else id
        check_columns({"id": key}, list(table), where)
        names = names_of(table[key], key, where)
        rest: dict[str, Sequence[Any]] = {name: table[name] for name in table if name != key}
        if not rest and arm_effects is False:
            raise ValueError(
                f"{where} must have a feature column beside the id without arm effects, got none"
            )
        for name in () if rest else categorical:
            check_columns({"categorical": name}, [], where)
        if not rest:
            return cls.one_hot(names, key)
        encoding = Encoding.fit(
            rest, intercept=intercept, normalise=normalise, categorical=categorical, where=where
        )
        found = cls(names=names, features=encoding.encode(rest, where=where), encoding=encoding)
        if arm_effects is None:
            return found.with_effects_where_needed()
        return found.with_effects() if arm_effects else found

    @classmethod
    def one_hot(cls, names: Sequence[str], column: str = "arm") -> ArmTable:
        """Arms that are known by their names alone: each is a feature of its own."""
        encoding = Encoding(columns=(Column(name=column, levels=tuple(names)),), intercept=False)
        return cls(names=tuple(names), features=unit_vectors(len(names)), encoding=encoding)

    def with_effects(self, scale: float = 1.0) -> ArmTable:
        """The same arms, each with an effect of its own: d + k features, and no linearity to get wrong."""
        return replace(self, effects=scale, effects_of=None)

    def with_effects_where_needed(self) -> ArmTable:
        """The same arms; those that share their features with another one have an effect of their own."""
        alike = arms_alike(self.features)
        if not alike:
            return self
        k, d = self.features.shape
        if k * (d + len(alike)) > MOST_NUMBERS:
            raise ValueError(
                f"arms must have features that tell them apart, got {len(alike):,} of {k:,} that share "
                "theirs with another one, too many for an effect each: say that no arm has one (arm_effects)"
            )
        named = shortened_list([self.names[arm] for arm in alike])
        note = f"some arms have the same features ({named}), so each of these has an effect of its own"
        return replace(self, effects=1.0, effects_of=alike, notes=(*self.notes, note))

    @property
    def featureless(self) -> bool:
        """Whether arms are known by their names alone."""
        columns = self.encoding.columns
        return not self.encoding.intercept and len(columns) == 1 and columns[0].levels == self.names

    @property
    def independent(self) -> bool:
        """Whether every arm has a feature that is its own, so that nothing is assumed to be linear."""
        return self.featureless or (self.effects is not None and self.effects_of is None)

    @property
    def actions(self) -> Floats:
        """(k, d) or, with arm effects, (k, d + k): one for each arm that has one."""
        if self.effects is None:
            return self.features if stays_float32(self.features) else as_actions(self.features)
        return arm_effects(self.features, self.effects, of=self.effects_of)

    @property
    def labels(self) -> tuple[str, ...]:
        """(d,) or (d + k,) a name for each feature of the actions."""
        if self.effects is None:
            return self.encoding.features
        having = range(len(self.names)) if self.effects_of is None else self.effects_of
        return self.encoding.features + tuple(f"effect of {self.names[arm]}" for arm in having)


def arms_alike(features: Floats) -> tuple[int, ...]:
    """The arms that have the same features as another one: of those that have the same sum of them."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, features.shape[1])
    sums = np.concatenate([(block * weights).sum(axis=1) for block in in_float64(features)])
    maybe = np.flatnonzero(repeated(*np.unique(sums, return_inverse=True, return_counts=True)[1:]))
    if not maybe.size:
        return ()
    rows = features[maybe] + 0.0
    return tuple(
        maybe[repeated(*np.unique(rows, axis=0, return_inverse=True, return_counts=True)[1:])].tolist()
    )


def repeated(place: Ints, count: Ints) -> Bools:
    """(n,) which values there are more than once, by where each is among the distinct ones."""
    return np.asarray(count[place.ravel()] > 1)


def arm_effects(actions: npt.ArrayLike, scale: float = 1.0, *, of: Sequence[int] | None = None) -> Floats:
    """(k, d + k) the actions with a scaled one-hot for each arm: what the features miss, the effect takes.

    With `of`, only these arms have one.

    An effect of size e along a one-hot of length `scale` makes the parameter e / scale longer in that
    direction: a larger scale lets arms differ more under the same bound.

    >>> arm_effects([[0.5], [1.0]], scale=2.0).tolist()
    [[0.5, 2.0, 0.0], [1.0, 0.0, 2.0]]
    """
    arms = as_actions(actions)
    check_positive("scale", scale)
    own = scale * np.eye(len(arms))
    return np.hstack([arms, own if of is None else own[:, list(of)]])


def named_features(name: str, width: int) -> tuple[str, ...]:
    """What the numbers of a vector are called.

    >>> named_features("taste", 2)
    ('taste[0]', 'taste[1]')
    """
    return tuple(f"{name}[{place}]" for place in range(width))


def names_of(values: Sequence[Any], column: str, where: str, *, stored: bool = False) -> tuple[str, ...]:
    """(k,) ids as text: none missing, none twice, all of them in one line."""
    seen: dict[str, int] = {}
    for row, value in enumerate(values):
        if is_missing(value):
            raise ValueError(f"{where}, row {row + 1}, column {column!r}: the id is missing")
        name = text_of(value)
        if not stored and has_controls(name):
            raise ValueError(
                f"{where}, row {row + 1}, column {column!r}: the id must have no control characters or line "
                f"ends, got {name!r}"
            )
        if name in seen:
            raise ValueError(
                f"{where}, row {row + 1}, column {column!r}: the id {name!r} is that of row {seen[name]} too"
            )
        seen[name] = row + 1
    return tuple(seen)
