"""X'X and X'y of a log with contexts: the same rows give the same bits on any number of threads.

A log is cut into fixed parts, as in `logs/sums.py`. Nobody writes the feature vectors down: an entry of X'X
is a sum of products over the rows that have two levels in common, so DuckDB counts and sums by levels, once
for every set of columns that two terms of the recipe have together. What is known of items is a linear map of
their effects, and is applied at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import combinations_with_replacement
from math import prod
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe, Term
from linoto.core.offline import Offline
from linoto.engines import Engine, Track, tracked
from linoto.logs.context_queries import (
    ContextColumns,
    ContextRange,
    Sums,
    introduce_items,
    introduce_recipe,
    numerics,
    stage_part,
    sum_products,
)
from linoto.logs.parts import ask_parts
from linoto.logs.row_queries import ResultColumns
from linoto.logs.tables import Connection

OF_ROWS: tuple[Sums, ...] = ((), ("y",), ("y", "y"))
OF_ITEMS: tuple[Sums, ...] = (*OF_ROWS, ("w",), ("w", "w"))
Found = dict[tuple[str, ...], ResultColumns]  # what queries found, by their keys


class Block(NamedTuple):
    """A term as SQL has it: by the levels of which columns, and which numbers are multiplied."""

    keys: tuple[str, ...]
    numbers: Sums
    shape: tuple[int, ...]  # levels of each key
    start: int

    @property
    def width(self) -> int:
        """How many features it has."""
        return prod(self.shape)

    def features(self, found: ResultColumns) -> Ints:
        """(g,) the feature of each group; -1 where a level has none."""
        feature = np.zeros(len(found["s0"]), dtype=np.int64)
        unknown = np.zeros(feature.size, dtype=np.bool_)
        for key, levels in zip(self.keys, self.shape, strict=True):
            code = found[key].astype(np.int64)
            feature, unknown = feature * levels + code, unknown | (code < 0)
        return np.where(unknown, -1, self.start + feature)


@dataclass(frozen=True, kw_only=True, eq=False)
class SumPlan:
    """Which sums a recipe needs. What is known of items is left to the end: here items have effects."""

    recipe: Recipe
    columns: ContextColumns
    cut: float | None = None  # rows with a time at or after it are late; None: each part knows

    def base_term(self, term: Term) -> Term:
        """A term with the items in the place of what is known of them."""
        known = self.recipe.item_matrices
        names = [self.recipe.item if name in known else name for name in term]
        once = (name for i, name in enumerate(names) if name != self.recipe.item or i == names.index(name))
        return tuple(once)

    @cached_property
    def blocks(self) -> dict[Term, Block]:
        """The terms that are summed, in the order of their features."""
        keys = self.columns.keys
        numbers = {column.name: f"z{place}" for place, column in enumerate(numerics(self.recipe))}
        found: dict[Term, Block] = {}
        start = 0
        for term in dict.fromkeys(map(self.base_term, self.recipe.terms)):
            levels = [name for name in term if name in keys]
            block = Block(
                keys=tuple(keys[name] for name in levels),
                numbers=tuple(numbers[name] for name in term if name in numbers),
                shape=tuple(len(self.recipe.labels[name]) for name in levels),
                start=start,
            )
            found[term], start = block, start + block.width
        return found

    @property
    def d(self) -> int:
        """How many features are summed."""
        return sum(block.width for block in self.blocks.values())

    @cached_property
    def queries(self) -> dict[tuple[str, ...], list[Sums]]:
        """The products to be summed, by the keys that they are summed by."""
        found: dict[tuple[str, ...], dict[Sums, None]] = {(): dict.fromkeys(OF_ROWS)}
        for one, other in combinations_with_replacement(self.blocks.values(), 2):
            found.setdefault(joined(one, other), {})[product_of(one, other)] = None
        for block in self.blocks.values():
            found.setdefault(tuple(sorted(block.keys)), {})[(*block.numbers, "y")] = None
        if self.columns.item is not None:
            wanted = OF_ROWS if self.columns.propensity is None else OF_ITEMS
            found.setdefault(("item",), {}).update(dict.fromkeys(wanted))
        return {keys: [*products] for keys, products in found.items()}

    def moments(self, sums: HalfSums) -> Moments:
        """The moments of the recipe's features, from the sums of the terms that are summed."""
        gram, vector = sums.gram, sums.vector
        if self.recipe.item_columns:
            T = self.item_map()
            gram, vector = symmetric(T.T @ gram @ T), T.T @ vector
        count, total, squares = sums.totals.tolist()
        return Moments(
            count=int(count), gram=gram, reward_vector=vector, reward_sum=total, reward_squares=squares
        )

    def item_map(self) -> Floats:
        """(summed, d) which linear map of the summed features the recipe's features are."""
        recipe, found = self.recipe, np.zeros((self.d, self.recipe.d))
        for term, place in recipe.slices.items():
            base = self.base_term(term)
            block, leveled = self.blocks[base], [name for name in base if name in self.columns.keys]
            places = np.indices(block.shape).reshape(len(leveled), block.width)
            codes = dict(zip(leveled, places, strict=True))
            features = np.ones((block.width, 1))
            for name in term:
                if name in recipe.item_matrices:
                    factor = recipe.item_matrices[name][codes[recipe.item]]
                elif name in codes:
                    factor = np.eye(len(recipe.labels[name]))[codes[name]]
                else:
                    continue
                features = (features[:, :, None] * factor[:, None, :]).reshape(block.width, -1)
            found[block.start : block.start + block.width, place] = features
        return found


def joined(one: Block, other: Block) -> tuple[str, ...]:
    """The keys of two blocks together."""
    return tuple(sorted({*one.keys, *other.keys}))


def product_of(one: Block, other: Block) -> Sums:
    """The numbers of two blocks together."""
    return tuple(sorted((*one.numbers, *other.numbers)))


def symmetric(gram: Floats) -> Floats:
    """The same matrix without the last bits in which its halves differ."""
    return np.asarray((gram + gram.T) / 2)


class HalfSums(NamedTuple):
    """What some rows of one half add up to, as plain arrays."""

    gram: Floats  # (d, d)
    vector: Floats  # (d,)
    totals: Floats  # (3,) rows, rewards and their squares
    items: Floats  # (5, k) of each item: rows, rewards, squares, 1 / propensity, its square

    def added(self, other: HalfSums) -> HalfSums:
        """Of both."""
        return HalfSums(*(mine + yours for mine, yours in zip(self, other, strict=True)))

    @property
    def offline(self) -> Offline:
        """The rows by item alone."""
        return Offline(
            pulls=self.items[0].astype(np.int64), reward_sums=self.items[1], reward_squares=self.items[2]
        )


Halves = tuple[HalfSums, HalfSums]  # early, late


def sum_contexts(
    connection: Connection, parts: Sequence[ContextRange], plan: SumPlan, engine: Engine, track: Track | None
) -> Halves:
    """The sums of all parts, added in the order of their rows."""
    introduce_recipe(connection, plan.columns, plan.recipe)
    introduce = partial(introduce_items_and_recipe, items=parts[0].items, plan=plan)
    found = ask_parts(connection, engine, parts, partial(sum_part, plan=plan), introduce)
    return reduce(add_halves, tracked(found, track, total=len(parts)))


def add_halves(one: Halves, other: Halves) -> Halves:
    """The sums of two parts."""
    return one[0].added(other[0]), one[1].added(other[1])


def introduce_items_and_recipe(connection: Connection, items: Sequence[str], plan: SumPlan) -> None:
    """Tell a database which items there are, and what their features are."""
    introduce_items(connection, items)
    introduce_recipe(connection, plan.columns, plan.recipe)


def sum_part(connection: Connection, rows: ContextRange, plan: SumPlan) -> Halves:
    """The sums of a part."""
    table = stage_part(connection, rows, plan.recipe, plan.cut)
    halves: tuple[Found, Found] = ({}, {})
    for keys, products in plan.queries.items():
        by_half = keys if plan.cut is None else ("late", *keys)
        found = sum_products(connection, rows.file, table, by_half, products)
        found = {name: np.ma.filled(column, 0) for name, column in found.items()}
        late = found.pop("late") if plan.cut is not None else np.full(len(found["s0"]), rows.late)
        for half in (False, True):
            halves[half][keys] = {name: column[late == half] for name, column in found.items()}
    sums = gather(halves[0], plan), gather(halves[1], plan)
    if not all(np.isfinite(values).all() for half in sums for values in half):
        raise ValueError(f"{rows.file.name}: values are too large to be multiplied and summed")
    return sums


def gather(found: Found, plan: SumPlan) -> HalfSums:
    """The sums of a half, from groups to features and items."""
    sums: dict[tuple[str, ...], dict[Sums, Floats]] = {
        keys: {product: columns[f"s{place}"] for place, product in enumerate(plan.queries[keys])}
        for keys, columns in found.items()
    }
    gram, vector, items = np.zeros((plan.d, plan.d)), np.zeros(plan.d), np.zeros((5, len(plan.recipe.items)))
    blocks = [*plan.blocks.values()]
    for one, other in combinations_with_replacement(blocks, 2):
        keys = joined(one, other)
        at = one.features(found[keys]), other.features(found[keys])
        known = (at[0] >= 0) & (at[1] >= 0)
        left, right = at[0][known], at[1][known]  # each entry once: every key is of one of the two
        gram[left, right] = gram[right, left] = sums[keys][product_of(one, other)][known]
    for block in blocks:
        keys = tuple(sorted(block.keys))
        places = block.features(found[keys])
        vector[places[places >= 0]] = sums[keys][(*block.numbers, "y")][places >= 0]
    for place, product in enumerate(OF_ITEMS):
        if product in sums.get(("item",), {}):
            items[place, found[("item",)]["item"].astype(np.int64)] = sums[("item",)][product]
    totals = np.array([sums[()][product].sum() for product in OF_ROWS])  # of one number, or of none
    return HalfSums(gram, vector, totals, items)
