"""Rows of a log with contexts one by one: for what its statistics cannot answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import text_of
from linoto.core.features.columns import Category, Numeric
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.logs.context_queries import (
    ContextColumns,
    ContextRange,
    fetch_context_rows,
    introduce_items,
    numerics,
    refuse_bad_row,
)
from linoto.logs.notation import Notation
from linoto.logs.row_queries import ResultColumns
from linoto.logs.rows import Rows
from linoto.logs.tables import Connection, StagedFile, refuse_rejected
from linoto.logs.where import open_rows

CHUNK = 2**14  # rows whose features are written down at a time


class Sparse(NamedTuple):
    """Features of rows: which of them are not 0, and what they are. A place may be there twice with a 0."""

    places: Ints  # (n, m)
    values: Floats  # (n, m)

    def times(self, theta: Floats) -> Floats:
        """(n,) the products with a parameter."""
        return np.asarray((self.values * theta[self.places]).sum(axis=1))

    def crossed(self, other: Sparse, width: int) -> Sparse:
        """All products with the features of another column, which has so many."""
        rows = len(self.places)
        places = self.places[:, :, None] * width + other.places[:, None, :]
        values = self.values[:, :, None] * other.values[:, None, :]
        return Sparse(places.reshape(rows, -1), values.reshape(rows, -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextRows:
    """Logged decisions one by one, each with its context, as a recipe reads them."""

    recipe: Recipe
    context: dict[str, npt.NDArray[Any]]  # (n,) each column: numbers, or words with None where missing
    rows: Rows  # what was played and what it earned
    candidates: Bools | None = None  # (n, k) what could be played; None: every item

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: npt.NDArray[Any]) -> ContextRows:
        """Some of the rows: a mask or positions."""
        return replace(
            self,
            context={name: values[chosen] for name, values in self.context.items()},
            rows=self.rows.take(chosen),
            candidates=None if self.candidates is None else self.candidates[chosen],
        )

    def uniform(self) -> ContextRows:
        """The same rows, if every item that could be played was as likely as the others."""
        offered = len(self.recipe.items) if self.candidates is None else self.candidates.sum(axis=1)
        return replace(self, rows=replace(self.rows, propensities=np.ones(len(self)) / offered))

    def context_of(self, row: int) -> dict[str, Any]:
        """What was known before a row was decided, as a request would have it."""
        return {name: plain(values[row]) for name, values in self.context.items()}

    def offered(self, row: int) -> tuple[str, ...]:
        """The items that could be played in a row."""
        if self.candidates is None:
            return self.recipe.items
        return tuple(self.recipe.items[item] for item in np.flatnonzero(self.candidates[row]))

    @cached_property
    def columns(self) -> dict[str, Sparse]:
        """The features of each column of the context."""
        return {
            column.name: sparse_column(column, self.context[column.name]) for column in self.recipe.context
        }

    @cached_property
    def features(self) -> Sparse:
        """The features of what was played."""
        recipe, arms = self.recipe, self.rows.arms
        found = dict(self.columns)
        for name, matrix in recipe.item_matrices.items():
            if name == recipe.item:
                found[name] = Sparse(arms[:, None], np.ones((len(self), 1)))
            else:
                values = matrix[arms]
                found[name] = Sparse(np.broadcast_to(np.arange(matrix.shape[1]), values.shape), values)
        blocks = []
        for term, place in recipe.slices.items():
            block = Sparse(np.zeros((len(self), 1), dtype=np.int64), np.ones((len(self), 1)))
            for name in term:
                block = block.crossed(found[name], len(recipe.labels[name]))
            blocks.append(Sparse(block.places + place.start, block.values))
        return Sparse(*(np.hstack(parts) for parts in zip(*blocks, strict=True)))

    def moments(self, chosen: npt.NDArray[Any]) -> Moments:
        """Of some of the rows: a mask or positions."""
        d, y = self.recipe.d, self.rows.rewards[chosen]
        places, values = (part[chosen] for part in self.features)
        gram = np.zeros(d * d)
        for column in range(places.shape[1]):
            cells = places[:, column, None] * d + places
            gram += np.bincount(
                cells.ravel(), weights=(values[:, column, None] * values).ravel(), minlength=d * d
            )
        vector = np.bincount(places.ravel(), weights=(values * y[:, None]).ravel(), minlength=d)
        return Moments(
            count=len(y),
            gram=gram.reshape(d, d),
            reward_vector=vector.astype(np.float64),
            reward_sum=float(y.sum()),
            reward_squares=float(y @ y),
        )

    def scores(self, theta: Floats) -> Floats:
        """(n, k) what a parameter expects of every item in every row."""
        recipe = self.recipe
        found = np.zeros((len(self), len(recipe.items)))
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            for term, place in recipe.slices.items():
                found[part] += self.term_scores(term, theta[place], part)
        return found

    def term_scores(self, term: Sequence[str], theta: Floats, part: slice) -> Floats:
        """(n, k) or (1, k) or (n, 1): what the features of one term add."""
        recipe = self.recipe
        widths = [len(recipe.labels[name]) for name in term]
        of_item = [name in recipe.item_matrices for name in term]
        order = sorted(range(len(term)), key=lambda place: not of_item[place])
        block = theta.reshape(widths).transpose(order) if term else theta
        items = np.ones((len(recipe.items), 1))
        for name in (name for name, own in zip(term, of_item, strict=True) if own):
            items = (items[:, :, None] * recipe.item_matrices[name][:, None, :]).reshape(len(items), -1)
        by_item = items @ block.reshape(items.shape[1], -1)  # (k, features of the context)
        known = [name for name, own in zip(term, of_item, strict=True) if not own]
        if not known:
            return np.asarray(by_item.T)
        rows = len(self.columns[known[0]].places[part])
        sparse = Sparse(np.zeros((rows, 1), dtype=np.int64), np.ones((rows, 1)))
        for name in known:
            column = self.columns[name]
            sparse = sparse.crossed(
                Sparse(column.places[part], column.values[part]), len(recipe.labels[name])
            )
        return np.asarray(by_item.T[sparse.places[:, 0]] * sparse.values)  # one feature of each row is not 0


def sparse_column(column: Category | Numeric, values: npt.NDArray[Any]) -> Sparse:
    """The features of a column of the context."""
    if isinstance(column, Numeric):
        scaled = (values.astype(np.float64) - column.mean) / column.scale
        return Sparse(np.zeros((len(values), 1), dtype=np.int64), scaled[:, None])
    codes = {value: column.code(value) for value in set(values.tolist())}
    code = np.array([codes[value] for value in values.tolist()], dtype=np.int64)
    return Sparse(np.maximum(code, 0)[:, None], (code >= 0).astype(np.float64)[:, None])


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value


# -- from files -------------------------------------------------------------------------------------------


def read_context_rows(
    source: Any,
    *,
    recipe: Recipe,
    reward: str,
    propensity: str | None = None,
    candidates: str | None = None,
    time: str | None = None,
    where: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
) -> ContextRows:
    """The rows of a log with contexts, read by the recipe of this or of an earlier log.

    `candidates` is a column with the items that could be played in each row: a list, or words between bars as
    in A|C|D; where it is empty, as in an export, every item could. In the order of `time` where it is named.
    The first bad row is a ValueError that names it. The rest is that of `read_log`.
    """
    check_recipe(recipe)
    columns = ContextColumns(
        reward=reward,
        item=recipe.item,
        propensity=propensity,
        time=time,
        numbers=tuple(column.name for column in numerics(recipe)),
        categories=tuple(column.name for column in recipe.context if isinstance(column, Category)),
        candidates=candidates,
        notation=Notation(decimal, thousands),
    )
    with open_rows(source, columns, where) as (connection, files, _):
        introduce_items(connection, recipe.items)
        found = [fetch_good_rows(connection, file, columns, recipe) for file in files]
    values = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    rows = assembled(values, columns, recipe)
    return rows if time is None else rows.take(np.argsort(values["time"], kind="stable"))


def check_recipe(recipe: Any) -> None:
    """Refuse what has no items to choose from."""
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe must be a linoto.Recipe, got {type(recipe).__name__}")
    if not recipe.items or recipe.action:
        raise ValueError(
            "recipe must have items and no columns of the action itself: a log does not say what "
            "the columns of other actions were"
        )


def fetch_good_rows(
    connection: Connection, file: StagedFile, columns: ContextColumns, recipe: Recipe
) -> ResultColumns:
    """Rows of a file, by column; the first bad one is refused."""
    rows = ContextRange(file, columns, 0, file.rows, items=recipe.items)
    found = fetch_context_rows(connection, rows)
    if not np.ma.getmaskarray(found.pop("kind")).all():
        refuse_bad_row(connection, rows)
    refuse_rejected([file])
    return {name: with_none(column) for name, column in found.items()}


def with_none(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column with None where it is masked."""
    missing = np.ma.getmaskarray(column)
    if not missing.any():
        return np.asarray(column)
    words = np.ma.getdata(column).astype(object)
    words[missing] = None
    return words


def assembled(values: Mapping[str, npt.NDArray[Any]], columns: ContextColumns, recipe: Recipe) -> ContextRows:
    """The columns that were fetched as what they mean."""
    named = {name: f"n{place}" for place, name in enumerate(columns.numbers)} | columns.keys
    arms = np.array([recipe.item_places[item] for item in values["item"].tolist()], dtype=np.int64)
    propensities = None if columns.propensity is None else values["propensity"]
    offered = None
    if columns.candidates is not None:
        offered = read_candidates(values["candidates"].tolist(), arms, columns.candidates, recipe)
    return ContextRows(
        recipe=recipe,
        context={column.name: values[named[column.name]] for column in recipe.context},
        rows=Rows(
            arms=arms,
            rewards=values["reward"],
            k=len(recipe.items),
            propensities=propensities,
            names=recipe.items,
        ),
        candidates=offered,
    )


def read_candidates(texts: Sequence[str | None], arms: Ints, column: str, recipe: Recipe) -> Bools:
    """(n, k) which items could be played, all where nothing is said; each row must have the one that was."""
    known: dict[str | None, Bools] = {None: np.ones(len(recipe.items), dtype=np.bool_)}
    for text in texts:
        if text is not None and text not in known:
            mask = np.zeros(len(recipe.items), dtype=np.bool_)
            try:
                mask[recipe.item_indices([*words_of(text)])] = True
            except ValueError as error:
                raise ValueError(f"column {column!r}: candidates {error}") from None
            known[text] = mask
    found = np.array([known[text] for text in texts])
    played = found[np.arange(len(arms)), arms]
    if not played.all():
        row = int((~played).argmax())
        raise ValueError(
            f"row {row + 1}, column {column!r}: the candidates must have the item that was played, "
            f"{recipe.items[arms[row]]!r}, got {texts[row]!r}"
        )
    return found


def words_of(text: str) -> Iterator[str]:
    """The words of a list in JSON, or between bars."""
    try:
        listed = json.loads(text) if text.startswith("[") else text.split("|")
    except ValueError:
        listed = text.split("|")
    return (text_of(word).strip() for word in listed)
