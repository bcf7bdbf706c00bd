"""X'X and X'y of a log with contexts: the same rows give the same bits on any number of threads.

A log is cut into fixed parts, as in `logs/sums.py`. Nobody writes the feature vectors down: an entry of X'X
is a sum of products over the rows that have two levels in common, so DuckDB counts and sums by levels, once
for every set of columns that two terms of the recipe have together. What is known of items is a linear map of
their effects, and is applied at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial, reduce
from itertools import combinations_with_replacement, product
from math import prod
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.features.columns import Column, Spread
from linoto.core.features.columns import Found as Learned
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe, Term
from linoto.engines import Engine, Track, tracked
from linoto.logs.parts import ask_parts
from linoto.logs.queries import (
    Product,
    ResultColumns,
    RowRange,
    count_levels,
    describe_columns,
    introduce_arms,
    read_numbers,
    stage_part,
    sum_products,
)
from linoto.logs.tables import Connection, StagedFile

MOST_PLANNED = 500  # sums in a statement: DuckDB plans each for 0.2 ms, however few rows there are
MULTIPLIED = 2**12  # rows that are multiplied at a time where there are more sums
PART = 2**19  # rows of a part: 20 columns of them are 84 MB, for each thread
MOST_LEVELS = 100_000  # of a column that are counted at all
OF_ROWS: tuple[Product, ...] = ((), ("y",), ("y", "y"))
Found = dict[tuple[str, ...], ResultColumns]  # what queries found, by their keys
Seen = dict[str, Learned]  # what the values of each column are like


# -- what columns are like --------------------------------------------------------------------------------


def survey_columns(
    connection: Connection,
    parts: Sequence[RowRange],
    ids: Sequence[str],
    engine: Engine,
    *,
    names: Sequence[str],
    most_levels: int = MOST_LEVELS,
) -> Seen:
    """What these columns of the context hold in all parts: the spread of numbers, the rows of each level."""
    ask = partial(survey_part, names=names, most_levels=most_levels)
    merge = partial(merged, most_levels=most_levels)
    return reduce(merge, ask_parts(connection, engine, parts, ask, partial(introduce_arms, ids=ids)))


def survey_part(connection: Connection, rows: RowRange, names: Sequence[str], most_levels: int) -> Seen:
    """The same of one part."""
    columns = [column for column in rows.columns.context if column.name in names]
    found, seen = describe_columns(connection, rows, columns), Seen()
    for place, column in enumerate(columns):
        if column.learns == "levels":
            count, size = int(found[f"c{place}_levels"][0]), int(found["rows"][0])
            check_levels(column.name, count, size, most_levels)
            seen[column.name] = count_levels(connection, rows, rows.columns.value_sql(column))
        else:
            numbers = range(len(column.learns_sql(rows.columns.value_sql(column))))
            seen[column.name] = tuple(spread_of(found, f"c{place}_{number}_") for number in numbers)
    return seen


def spread_of(found: ResultColumns, prefix: str) -> Spread:
    """What a query found of a number of a column."""
    size = int(found[f"{prefix}size"][0])
    if not size:
        return Spread()
    mean, variance, low, high = (
        float(found[f"{prefix}{what}"][0]) for what in ("mean", "variance", "low", "high")
    )
    marks = found.get(f"{prefix}marks")
    known = () if marks is None else ((float(size), tuple(map(float, marks[0]))),)
    return Spread(size, mean, size * variance, low, high, known)


def merged(one: Seen, other: Seen, most_levels: int) -> Seen:
    """Of both parts, unless a column has too many levels."""
    both = Seen()
    for name, mine in one.items():
        yours = other[name]
        if isinstance(mine, tuple) and isinstance(yours, tuple):
            both[name] = tuple(one.merged(other) for one, other in zip(mine, yours, strict=True))
        elif not isinstance(mine, tuple) and not isinstance(yours, tuple):
            both[name] = levels = Counter(mine) + Counter(yours)
            check_levels(name, len(levels), levels.total(), most_levels)
    return both


def check_levels(name: str, count: int, rows: int, most: int) -> None:
    """Refuse a column with so many levels that even counting them would fill the memory."""
    if count > most:
        raise ValueError(
            f"column {name!r} must have at most {most:,} levels, got about {count:,} in {rows:,} "
            "rows: leave it out, or group or hash its values first"
        )


# -- which sums -------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Features as SQL has them: by the levels of which columns, and which numbers are multiplied."""

    keys: tuple[str, ...]
    numbers: Product
    strides: tuple[int, ...]  # by how many features the levels of each key lie apart
    start: int

    def features(self, found: ResultColumns) -> Ints:
        """(g,) the feature of each group; -1 where a level has none."""
        feature = np.full(len(found["s0"]), self.start, dtype=np.int64)
        unknown = np.zeros(feature.size, dtype=np.bool_)
        for key, stride in zip(self.keys, self.strides, strict=True):
            code = found[key].astype(np.int64)
            feature, unknown = feature + stride * code, unknown | (code < 0)
        return np.where(unknown, -1, feature)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumPlan:
    """Which sums a recipe needs. What is known of items is left to the end: here items have effects."""

    recipe: Recipe
    cut: float | None = None  # rows with a time at or after it are late; None: each part knows

    def base_term(self, term: Term) -> Term:
        """A term with the items in the place of what is known of them."""
        known = self.recipe.item_matrices
        names = [self.recipe.item if name in known else name for name in term]
        once = (name for i, name in enumerate(names) if name != self.recipe.item or i == names.index(name))
        return tuple(once)

    @cached_property
    def in_sql(self) -> dict[str, tuple[str, Column]]:
        """What each column is called in SQL, the items among them."""
        columns = {column.name: (f"c{i}", column) for i, column in enumerate(self.recipe.columns)}
        items = {self.recipe.item: ("item", self.recipe.items_as_column)} if self.recipe.items else {}
        return {**items, **columns}

    @cached_property
    def terms(self) -> dict[Term, slice]:
        """The terms that are summed, and which of the summed features each has."""
        found, start = dict[Term, slice](), 0
        for term in dict.fromkeys(map(self.base_term, self.recipe.terms)):
            width = prod(self.width(name) for name in term)
            found[term], start = slice(start, start + width), start + width
        return found

    def width(self, name: str) -> int:
        """How many features a column has."""
        return len(self.recipe.labels[name])

    @property
    def d(self) -> int:
        """How many features are summed."""
        return int([*self.terms.values()][-1].stop)

    @property
    def size(self) -> int:
        """How many features there are at the most: summed, or of the recipe."""
        return max(self.d, self.recipe.d)

    @cached_property
    def blocks(self) -> list[Block]:
        """The features of all terms: one block for each choice of a number of each column that has some."""
        return [block for term, place in self.terms.items() for block in self.blocks_of(term, place.start)]

    def blocks_of(self, term: Term, start: int) -> Iterator[Block]:
        """The same of one term."""
        strides = [prod(self.width(name) for name in term[place + 1 :]) for place in range(len(term))]
        parts = [(*self.in_sql[name], stride) for name, stride in zip(term, strides, strict=True)]
        leveled = [(sql, stride) for sql, column, stride in parts if column.leveled]
        numbers = [
            [(f"{sql}_{place}", place * stride) for place in range(len(column.labels))]
            for sql, column, stride in parts
            if not column.leveled
        ]
        for chosen in product(*numbers):
            yield Block(
                keys=tuple(sql for sql, _ in leveled),
                numbers=tuple(sql for sql, _ in chosen),
                strides=tuple(stride for _, stride in leveled),
                start=start + sum(offset for _, offset in chosen),
            )

    @cached_property
    def queries(self) -> dict[tuple[str, ...], list[Product]]:
        """The products to be summed, by the keys that they are summed by."""
        found: dict[tuple[str, ...], dict[Product, None]] = {(): dict.fromkeys(OF_ROWS)}
        for one, other in combinations_with_replacement(self.blocks, 2):
            found.setdefault(joined(one, other), {})[product_of(one, other)] = None
        for block in self.blocks:
            found.setdefault(tuple(sorted(block.keys)), {})[(*block.numbers, "y")] = None
        return {keys: [*products] for keys, products in found.items()}

    def moments(self, sums: HalfSums) -> Moments:
        """The moments of the recipe's features, from the sums of the terms that are summed."""
        gram, vector = sums.gram, sums.vector
        if self.recipe.item_columns:
            T = self.item_map()
            gram, vector = symmetric(T.T @ gram @ T), T.T @ vector
        count, total, squares = sums.totals.tolist()
        return Moments.unchecked(
            count=int(count), gram=gram, reward_vector=vector, reward_sum=total, reward_squares=squares
        )

    def item_map(self) -> Floats:
        """(summed, d) which linear map of the summed features the recipe's features are."""
        recipe, found = self.recipe, np.zeros((self.d, self.recipe.d))
        for term, place in recipe.slices.items():
            base = self.base_term(term)
            summed = self.terms[base]
            width = summed.stop - summed.start
            places = np.indices([self.width(name) for name in base]).reshape(len(base), width)
            codes = dict(zip(base, places, strict=True))
            features = np.ones((width, 1))
            for name in term:
                if name in recipe.item_matrices:
                    factor = recipe.item_matrices[name][codes[recipe.item]]
                else:
                    factor = np.eye(self.width(name))[codes[name]]
                features = (features[:, :, None] * factor[:, None, :]).reshape(width, -1)
            found[summed, place] = features
        return found


def joined(one: Block, other: Block) -> tuple[str, ...]:
    """The keys of two blocks together."""
    return tuple(sorted({*one.keys, *other.keys}))


def product_of(one: Block, other: Block) -> Product:
    """The numbers of two blocks together."""
    return tuple(sorted((*one.numbers, *other.numbers)))


def symmetric(gram: Floats) -> Floats:
    """The same matrix without the last bits in which its halves differ."""
    return np.asarray((gram + gram.T) / 2)


# -- the sums ---------------------------------------------------------------------------------------------


class HalfSums(NamedTuple):
    """What some rows of one half add up to, as plain arrays."""

    gram: Floats  # (d, d)
    vector: Floats  # (d,)
    totals: Floats  # (3,) rows, rewards and their squares

    def added(self, other: HalfSums) -> HalfSums:
        """Of both."""
        return HalfSums(*(mine + yours for mine, yours in zip(self, other, strict=True)))


Halves = tuple[HalfSums, HalfSums]  # early, late


def sum_features(
    connection: Connection,
    parts: Sequence[RowRange],
    plan: SumPlan,
    ids: Sequence[str],
    engine: Engine,
    track: Track | None,
) -> tuple[Moments, Moments]:
    """The moments of both halves: the sums of all parts, added in the order of their rows."""
    introduce = partial(introduce_arms, ids=ids)
    found = ask_parts(connection, engine, parts, partial(sum_part, plan=plan), introduce)
    early, late = reduce(add_halves, tracked(found, track, total=len(parts)))
    return plan.moments(early), plan.moments(late)


def add_halves(one: Halves, other: Halves) -> Halves:
    """The sums of two parts."""
    return one[0].added(other[0]), one[1].added(other[1])


def sum_part(connection: Connection, rows: RowRange, plan: SumPlan) -> Halves:
    """The sums of a part."""
    table = stage_part(connection, rows, plan.recipe, plan.cut)
    halves: tuple[Found, Found] = ({}, {})
    for keys, products in plan.queries.items():
        by_half = keys if plan.cut is None else ("late", *keys)
        many = len(products) > MOST_PLANNED and max(map(len, products)) <= 2
        ask = sum_pairs if many else sum_products
        found = ask(connection, rows.file, table, by_half, products)
        found = {name: np.ma.filled(column, 0) for name, column in found.items()}
        late = found.pop("late") if plan.cut is not None else np.full(len(found["s0"]), rows.late)
        for half in (False, True):
            halves[half][keys] = {name: column[late == half] for name, column in found.items()}
    sums = gather(halves[0], plan), gather(halves[1], plan)
    if not all(np.isfinite(values).all() for half in sums for values in half):
        raise ValueError(f"{rows.file.name}: values are too large to be multiplied and summed")
    return sums


def sum_pairs(
    connection: Connection, file: StagedFile, table: str, keys: Sequence[str], products: Sequence[Product]
) -> ResultColumns:
    """What `sum_products` finds of at most two numbers in each product, multiplied here."""
    names = sorted({name for product in products for name in product})
    sums: dict[tuple[float, ...], Floats] = {}
    for table_part in read_numbers(connection, file, table, [*keys, *names], MULTIPLIED):
        levels, groups = np.unique(table_part[:, : len(keys)], axis=0, return_inverse=True)
        for group, level in enumerate(map(tuple, levels.tolist())):
            numbers = table_part[groups.reshape(-1) == group, len(keys) :]
            known = np.hstack([np.ones((len(numbers), 1)), numbers])
            sums[level] = sums.get(level, 0.0) + np.einsum("ni,nj->ij", known, known)  # no BLAS: same bits
    order, at = sorted(sums), {name: place for place, name in enumerate(names, 1)}
    found = {key: np.array([level[place] for level in order]) for place, key in enumerate(keys)}
    for place, pair in enumerate(products):
        one, other = (*(at[name] for name in pair), 0, 0)[:2]
        found[f"s{place}"] = np.array([sums[level][one, other] for level in order])
    return found


def gather(found: Found, plan: SumPlan) -> HalfSums:
    """The sums of a half, from groups to features."""
    sums: dict[tuple[str, ...], dict[Product, Floats]] = {
        keys: {product: columns[f"s{place}"] for place, product in enumerate(plan.queries[keys])}
        for keys, columns in found.items()
    }
    gram, vector = np.zeros((plan.d, plan.d)), np.zeros(plan.d)
    totals = np.array([sums[()][product].sum() for product in OF_ROWS])  # of one number, or of none
    if not totals[0]:
        return HalfSums(gram, vector, totals)
    features = cache(lambda block, keys: block.features(found[keys]))
    for one, other in combinations_with_replacement(plan.blocks, 2):
        keys = joined(one, other)
        left, right = features(one, keys), features(other, keys)
        known = (left >= 0) & (right >= 0)
        left, right = left[known], right[known]  # each entry once: every key is of one of the two
        gram[left, right] = gram[right, left] = sums[keys][product_of(one, other)][known]
    for block in plan.blocks:
        keys = tuple(sorted(block.keys))
        places = features(block, keys)
        vector[places[places >= 0]] = sums[keys][(*block.numbers, "y")][places >= 0]
    return HalfSums(gram, vector, totals)
