"""How a context and an item become a feature vector: written down once, the same for a log and for serving.

A recipe is a list of terms: an intercept, an effect of each item, what is known of items, the columns of the
context, columns of the action itself, and crosses of two of them. The features of a cross are all products of
a feature of the one with a feature of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import text_of
from linoto.core.features.columns import Category, Column, ItemColumn, Numeric
from linoto.core.features.digests import Digested
from linoto.core.hints import as_names, nearest, shortened_list
from linoto.core.names import Labelled, Names, Numbered, as_kept, places_of
from linoto.core.validation import LARGEST, MANY_ARMS, as_floats, check_count

Term = tuple[str, ...]  # the names of the columns whose features are multiplied; (): the intercept
Arms = Sequence[str] | Mapping[str, Mapping[str, Any]]


class Contribution(NamedTuple):
    """What one feature adds to the expected reward of an action."""

    name: str
    value: float  # of the feature
    amount: float  # value times parameter


@dataclass(frozen=True, kw_only=True)
class Recipe(Digested):
    """How context columns and items become features.

    >>> from linoto import Category, Numeric
    >>> age = Numeric(name="age", mean=40.0, scale=10.0)
    >>> country = Category(name="country", levels=("DE", "NO"))
    >>> recipe = Recipe(items=("A", "B"), context=(age, country), crosses=(("item", "age"),))
    >>> recipe.names
    ('intercept', 'item=A', 'item=B', 'age', 'country=DE', 'country=NO', 'item=A × age', 'item=B × age')
    >>> recipe.transform({"age": 45, "country": "NO"}, ["B"]).tolist()
    [[1.0, 0.0, 1.0, 0.5, 0.0, 1.0, 0.0, 0.5]]
    """

    item: str = "item"  # what the column of items is called
    items: Names = ()  # (k,)
    item_columns: tuple[ItemColumn, ...] = ()
    context: tuple[Column, ...] = ()
    action: tuple[Numeric, ...] = ()  # numbers that come with each arm of a round
    crosses: tuple[tuple[str, str], ...] = ()
    item_effects: bool = True  # one feature for each item
    intercept: bool = True

    def __post_init__(self) -> None:
        for name in ("item_columns", "context", "action"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "items", as_kept(self.items))
        object.__setattr__(self, "crosses", as_crosses(self.crosses))
        for draft in (column for column in self.columns if column.draft):
            raise ValueError(
                f"column {draft.name!r} must know the values of a log, got a {draft.kind} column that does "
                "not: read_log(..., columns=[...]) learns it"
            )
        if not isinstance(self.items, Numbered):
            check_distinct("items", self.items)
        check_distinct("columns", [*self.labels])
        for column in self.item_columns:
            if len(column.values) != len(self.items):
                raise ValueError(
                    f"values of {column.name!r} must have a row for each of {len(self.items)} items, "
                    f"got {len(column.values)}"
                )
        for cross in self.crosses:
            self.check_cross(cross)
        check_distinct("terms", [" × ".join(sorted(term)) for term in self.terms])
        if not self.terms:
            raise ValueError("recipe must have at least one feature, got none")

    def check_cross(self, cross: tuple[str, str]) -> None:
        """Refuse a cross of what is not there, or of a category with itself."""
        for name in cross:
            if name not in self.labels:
                known = shortened_list([*map(repr, self.labels)])
                raise ValueError(
                    f"crosses must be of columns of the recipe, got {name!r}"
                    + (nearest(name, self.labels) or f": it has {known}")
                )
        if cross[0] == cross[1] and len(self.labels[cross[0]]) > 1:
            some = any(c.name == cross[0] and isinstance(c, Numeric) for c in self.columns)
            hint = ", which may be missing: take powers of it" if some else ""
            raise ValueError(f"crosses must be of two columns or of a number with itself, got {cross}{hint}")

    # -- what the features are ------------------------------------------------------------------------

    @cached_property
    def labels(self) -> dict[str, Sequence[str]]:
        """The names of the features of each column."""
        named = Labelled(f"{self.item}=", self.items)
        items: dict[str, Sequence[str]] = {}
        if self.items:
            items[self.item] = named if len(named) >= MANY_ARMS else named[:]
        columns: tuple[Column | ItemColumn, ...] = (*self.item_columns, *self.columns)
        check_distinct("columns", [*items, *(column.name for column in columns)])
        return items | {column.name: column.labels for column in columns}

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What is multiplied, in the order of the features."""
        first: list[Term] = [()] if self.intercept else []
        if self.items and self.item_effects:
            first.append((self.item,))
        return (*first, *((name,) for name in self.labels if name != self.item), *self.crosses)

    @cached_property
    def slices(self) -> dict[Term, slice]:
        """Which features a term has."""
        found, start = {}, 0
        for term in self.terms:
            width = prod(len(self.labels[name]) for name in term)
            found[term] = slice(start, start + width)
            start += width
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(d,) a name for each feature."""
        parts = (product(*(self.labels[name] for name in term)) for term in self.terms)
        return tuple(" × ".join(names) or "intercept" for part in parts for names in part)

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.slices[self.terms[-1]].stop)

    @cached_property
    def item_matrices(self) -> dict[str, Floats]:
        """(k, w) the features of all items in each column that belongs to them."""
        effects = {self.item: np.eye(len(self.items))} if self.items else {}
        return effects | {column.name: np.array(column.values) for column in self.item_columns}

    @property
    def raw_features(self) -> Floats:
        """(k, 1 + w) what is known of items, as it came, beside a 1: the size of all other features."""
        values = (np.array(column.values) for column in self.item_columns)
        return np.hstack([np.ones((len(self.items), 1)), *values])

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that each row of a log has: of the context, and of the action itself."""
        return (*self.context, *self.action)

    @cached_property
    def items_as_column(self) -> Category:
        """The items as a column with a level for each."""
        return Category(name=self.item, levels=tuple(self.items))

    @cached_property
    def item_places(self) -> Mapping[str, int]:
        """Where an item is."""
        return places_of(self.items)

    # -- the features of each item ----------------------------------------------------------------------

    @cached_property
    def item_terms(self) -> tuple[Term, ...]:
        """The terms whose features belong to one item each."""
        return tuple(term for term in self.terms if self.item in term and self.items)

    @cached_property
    def own_width(self) -> int:
        """How many features each item has of its own."""
        return sum(
            prod(len(self.labels[name]) for name in term if name != self.item) for term in self.item_terms
        )

    @cached_property
    def by_item(self) -> Ints:
        """(d,) the features item by item, and after them those that belong to no item."""
        k, owners = len(self.items), np.full(self.d, len(self.items))
        for term in self.item_terms:
            shape = [len(self.labels[name]) for name in term]
            owner = np.arange(k).reshape([k if name == self.item else 1 for name in term])
            owners[self.slices[term]] = np.broadcast_to(owner, shape).ravel()
        return np.argsort(owners, kind="stable")

    def few(self, context: Mapping[str, Any] | None = None, arms: Arms | None = None) -> tuple[Floats, Ints]:
        """(k, w) the features of `transform` that are an arm's own or shared, and (k,) where its own begin.

        In the order of `by_item`: all others are 0.
        """
        factors, rows, places = self.read_factors(context, arms, without=self.item)
        return assembled(factors, self.few_terms, rows), places * self.own_width

    @cached_property
    def few_terms(self) -> tuple[Term, ...]:
        """What is multiplied for one item: its own terms, in which it counts 1, and those that are shared."""
        own = (tuple(name for name in term if name != self.item) for term in self.item_terms)
        return (*own, *(term for term in self.terms if term not in self.item_terms))

    # -- one round ------------------------------------------------------------------------------------

    def transform(self, context: Mapping[str, Any] | None = None, arms: Arms | None = None) -> Floats:
        """(k, d) the actions of a round: of all items, of these, or of arms with columns of their own."""
        factors, rows, _ = self.read_factors(context, arms)
        return self.assemble(factors, rows)

    def read_factors(
        self, context: Mapping[str, Any] | None, arms: Arms | None, without: str | None = None
    ) -> tuple[dict[str, Floats], int, Ints]:
        """The features of each column, (k, w) or (1, w); k; and (k,) which items these are."""
        factors = {name: vector[None, :] for name, vector in self.read_context(as_context(context)).items()}
        places, own = self.read_arms(arms)
        for name, matrix in self.item_matrices.items():
            if name != without:
                factors[name] = matrix[places]
        return factors | own, len(places) if self.items else len(arms or ()), places

    def read_context(self, context: Mapping[str, Any]) -> dict[str, Floats]:
        """(w,) the features of each column; a field too many or too few is refused by name."""
        return read_fields("context", context, self.context)

    def read_arms(self, arms: Arms | None) -> tuple[Ints, dict[str, Floats]]:
        """(k,) which items these are, and (k, 1) the columns that they bring with them."""
        if self.action:
            if not isinstance(arms, Mapping) or not arms:
                named = ", ".join(repr(column.name) for column in self.action)
                raise ValueError(f"arms must be a mapping from names to fields ({named}), got {shown(arms)}")
            found = [read_fields(f"arm {name!r}", values, self.action) for name, values in arms.items()]
            own = {column.name: np.array([fields[column.name] for fields in found]) for column in self.action}
        elif not self.items and arms is None:
            raise ValueError("arms must be given where the recipe has no items, got None")
        else:
            own = {}
        if arms is None:
            return np.arange(len(self.items)), own
        return self.item_indices(list(arms)), own

    def check_same(self, other: Recipe | None) -> None:
        """Refuse the recipe of some rows where it is not this one: numbers of two kinds would be mixed."""
        if other != self:
            raise ValueError("rows must be read with the recipe of the log (recipe=log.recipe), got others")

    @property
    def knows_items_only(self) -> bool:
        """Whether an effect of each item is all that it has: the intercept adds nothing to that."""
        others = self.context, self.crosses, self.item_columns, self.action
        return self.item_effects and not any(others)

    def item_indices(self, names: Sequence[Any]) -> Ints:
        """(k,) where these items are; without items nothing."""
        if not self.items:
            return np.zeros(0, dtype=np.int64)
        if not names:
            raise ValueError("arms must be at least one item, got none")
        known = self.item_places
        exact = (name if isinstance(name, str) and name in known else text_of(name) for name in names)
        places = [known.get(name, -1) for name in exact]
        if -1 in places:
            unknown = text_of(names[places.index(-1)])
            hint = nearest(unknown, self.items)
            raise ValueError(f"arms must be among the {len(self.items)} items, got {unknown!r}{hint}")
        return np.array(places, dtype=np.int64)

    def assemble(self, factors: Mapping[str, Floats], rows: int) -> Floats:
        """(n, d) from the features of each column, (n, w) or (1, w) where they are the same in all rows."""
        return assembled(factors, self.terms, rows)

    # -- items that come later ------------------------------------------------------------------------

    def with_items(self, names: Sequence[str], values: Sequence[Sequence[float]] | None = None) -> Recipe:
        """The same recipe with more items: each with the numbers of the item columns, in their order.

        >>> Recipe(items=("A", "B"), crosses=()).with_items(["C"]).names
        ('intercept', 'item=A', 'item=B', 'item=C')
        """
        added = [text_of(name) for name in as_names(names)]
        if not self.items or not added or not all(added):
            raise ValueError(f"items must be added to a recipe with items, and have names, got {added}")
        widths = [len(column.labels) for column in self.item_columns]
        rows = [[] for _ in added] if values is None else [list(row) for row in values]
        if len(rows) != len(added) or any(len(row) != sum(widths) for row in rows):
            labels = [repr(label) for column in self.item_columns for label in column.labels]
            must = f"have a number for each of {shortened_list(labels)}" if labels else "be left out"
            why = "" if labels else ": the recipe has no columns of items"
            got = shortened_list([str(len(row)) for row in rows])
            raise ValueError(f"features of new items must {must}, got {got} numbers{why}")
        ends = np.cumsum([0, *widths])
        columns = [
            replace(column, values=(*column.values, *(tuple(row[first:last]) for row in rows)))
            for column, first, last in zip(self.item_columns, ends, ends[1:], strict=False)
        ]
        return replace(self, items=(*self.items, *added), item_columns=tuple(columns))

    def places_in(self, larger: Recipe) -> Ints:
        """(d,) where each feature is in a recipe that has more items, and is the same otherwise."""
        found = []
        for term, place in larger.slices.items():
            widths = [len(larger.labels[name]) for name in term]
            features = np.arange(place.start, place.stop).reshape(widths or [1])
            found.append(features[tuple(slice(len(self.labels[name])) for name in term)].ravel())
        return np.concatenate(found)

    # -- what a parameter says ------------------------------------------------------------------------

    def explain(
        self,
        theta: npt.ArrayLike,
        vector: npt.ArrayLike | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        arm: str | None = None,
        most: int = 5,
    ) -> tuple[Contribution, ...]:
        """The features that add most to, or take most from, an expected reward: the largest first.

        Of a feature vector, or of an arm in a context. Give the difference of two vectors to see why one
        action is expected to earn more than the other.
        """
        check_count("most", most)
        if (vector is None) == (arm is None):
            raise ValueError("explain takes a vector, or a context and an arm, got both or neither")
        found = self.transform(context, [arm or ""])[0] if vector is None else vector
        x, parameter = as_floats("vector", found, ndim=1), as_floats("theta", theta, ndim=1)
        for name, array in (("vector", x), ("theta", parameter)):
            if array.size != self.d:
                raise ValueError(f"{name} must have {self.d} entries like the recipe, got {array.size}")
        amounts = x * parameter
        order = np.argsort(-np.abs(amounts), kind="stable")[:most]
        return tuple(
            Contribution(self.names[i], float(x[i]), float(amounts[i])) for i in order if amounts[i] != 0
        )

    # -- kept -----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        found = asdict(self)
        for name in ("item_columns", "context", "action"):
            found[name] = [column.to_dict() for column in getattr(self, name)]
        return {"type": "Recipe", **found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """What `to_dict` wrote."""
        try:
            given = {field.name: data[field.name] for field in fields(cls)}
            given["item_columns"] = tuple(ItemColumn.from_dict(column) for column in given["item_columns"])
            for name in ("context", "action"):
                given[name] = tuple(Column.from_dict(column) for column in given[name])
            given["crosses"] = tuple((a, b) for a, b in given["crosses"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"recipe must be what Recipe.to_dict writes, got data without {error}") from None
        return cls(**given)


ONE = np.ones((1, 1))  # the intercept


def assembled(factors: Mapping[str, Floats], terms: Sequence[Term], rows: int) -> Floats:
    """(rows, w) the features of these terms, one after the other."""
    blocks = []
    for term in terms:
        block = factors[term[0]] if term else ONE
        for name in term[1:]:
            block = (block[:, :, None] * factors[name][:, None, :]).reshape(
                max(len(block), len(factors[name])), -1
            )
        blocks.append(block)
    features, start = np.empty((rows, sum(block.shape[1] for block in blocks))), 0
    if rows and all(len(block) == 1 for block in blocks):
        np.concatenate(blocks, axis=1, out=features[:1])
        features[1:] = features[0]
        return features
    for block in blocks:
        features[:, start : start + block.shape[1]] = block
        start += block.shape[1]
    return features


def as_context(given: Any) -> Mapping[str, Any]:
    """The fields of a context; a row of a data frame is the mapping that it looks like."""
    if isinstance(given, Mapping):
        return given
    if given is None:
        return {}
    if getattr(given, "ndim", None) != 1 or not hasattr(given, "to_dict"):
        raise ValueError(f"context must be a mapping of fields, got {type(given).__name__}")
    fields: dict[str, Any] = given.to_dict()
    return fields


def read_fields(what: str, given: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Floats]:
    """(w,) the features of each column; a field too many, too few or of the wrong kind is refused."""
    known = dict.fromkeys(field for column in columns for field in column.reads)
    for name in given:
        if name not in known:
            hint = nearest(str(name), [*known]) or f": it has {shortened_list([*map(repr, known)]) or 'none'}"
            raise ValueError(f"{what} must have fields of the recipe only, got {name!r}{hint}")
    found = {}
    for column in columns:
        for field in column.reads:
            if field not in given:
                raise ValueError(f"{what} must have the field {field!r} ({column.expected}), got none")
            if getattr(given[field], "shape", ()) and column.holds != "vector":
                got = type(given[field]).__name__
                raise ValueError(f"{what} field {field!r} must be {column.expected}, got a {got}")
        try:
            found[column.name] = vector = column.vector(column.taken(given))
        except ValueError as error:
            raise ValueError(f"{what} field {error}") from None
        if not np.vdot(vector, vector) < LARGEST:
            fields, got = (
                ", ".join(map(repr, words)) for words in (column.reads, map(given.get, column.reads))
            )
            raise ValueError(f"{what} field {fields} must make features below {LARGEST**0.5:g}, got {got}")
    return found


def as_crosses(given: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of names; a name alone is none, also where it has two letters."""
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    pairs = [*given] if listed else [given]
    for pair in pairs:
        of_two = isinstance(pair, Collection) and not isinstance(pair, str | bytes) and len(pair) == 2
        if not of_two or any(name is None for name in pair):
            got = f"{pair!r} in it" if listed else f"{given!r}"
            raise ValueError(f"crosses must be a list of pairs such as [('item', 'age')], got {got}")
    return tuple((str(a), str(b)) for a, b in pairs)


def check_distinct(what: str, names: Sequence[str]) -> None:
    """Refuse a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} must differ from each other, got {name!r} twice")
        seen.add(name)


def shown(value: Any) -> str:
    """What was given, in a word."""
    return "None" if value is None else type(value).__name__ if value else "an empty one"
