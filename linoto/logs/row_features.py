"""The features of logged rows, of which most are 0, and what a parameter expects by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe

CHUNK = 2**14  # rows whose features are written down at a time
FEW_CELLS = 16  # of so many cells of a matrix one has a sum: fewer are found before they are summed
SPARSE_COST = 50  # of a product of two entries, in products of a matrix
EVERY_ARM = 2**16  # rows times arms whose features are written down at a time


class Sparse(NamedTuple):
    """Features of rows: which of them are not 0, and what they are. A place may be there twice with a 0."""

    places: Ints  # (n, m)
    values: Floats  # (n, m)

    def times(self, theta: Floats) -> Floats:
        """(n,) the products with a parameter."""
        return np.asarray((self.values * theta[self.places]).sum(axis=1))

    def of(self, chosen: npt.NDArray[Any]) -> Sparse:
        """Of some of the rows: a mask or positions."""
        return Sparse(self.places[chosen], self.values[chosen])

    def weighted_sum(self, weights: Floats, d: int) -> Floats:
        """(d,) the sum of the features of all rows, each with a weight."""
        found = np.bincount(self.places.ravel(), (self.values * weights[:, None]).ravel(), minlength=d)
        return found.astype(np.float64)

    def crossed(self, other: Sparse, width: int) -> Sparse:
        """All products with the features of another column, which has so many."""
        rows = len(self.places)
        places = self.places[:, :, None] * width + other.places[:, None, :]
        values = self.values[:, :, None] * other.values[:, None, :]
        return Sparse(places.reshape(rows, -1), values.reshape(rows, -1))


def ones(rows: int) -> Sparse:
    """A feature that is always 1."""
    return Sparse(np.zeros((rows, 1), dtype=np.int64), np.ones((rows, 1)))


def played_features(recipe: Recipe, columns: Mapping[str, Sparse], arms: Ints) -> Sparse:
    """The features of the arms that were played, from those of the columns of the context."""
    found = dict(columns)
    for name, matrix in recipe.item_matrices.items():
        if name == recipe.item:
            found[name] = Sparse(arms[:, None], np.ones((len(arms), 1)))
        else:
            values = matrix[arms]
            found[name] = Sparse(np.broadcast_to(np.arange(matrix.shape[1]), values.shape), values)
    blocks = []
    for term, place in recipe.slices.items():
        block = ones(len(arms))
        for name in term:
            block = block.crossed(found[name], len(recipe.labels[name]))
        blocks.append(Sparse(block.places + place.start, block.values))
    return Sparse(*(np.hstack(parts) for parts in zip(*blocks, strict=True)))


def every_arm_features(
    recipe: Recipe, columns: Mapping[str, Sparse], rows: int
) -> Iterator[tuple[slice, Sparse]]:
    """The features of every arm in every row, row by row, in parts."""
    k = len(recipe.items)
    size = max(EVERY_ARM // k, 1)
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        at = np.repeat(np.arange(part.start, part.stop), k)
        repeated = {name: column.of(at) for name, column in columns.items()}
        yield part, played_features(recipe, repeated, np.tile(np.arange(k), part.stop - part.start))


def gram_of(features: Sparse, d: int) -> Floats:
    """(d, d) X'X, by what is faster: all features, or only those that are not 0."""
    rows, entries = features.places.shape
    if SPARSE_COST * entries**2 < d**2:
        return sparse_gram(features, d)
    found = np.zeros((d, d))
    for start in range(0, rows, CHUNK):
        part = features.of(np.arange(start, min(start + CHUNK, rows)))
        cells = (np.arange(len(part.places)) * d)[:, None] + part.places
        table = np.bincount(cells.ravel(), part.values.ravel(), minlength=len(cells) * d).reshape(-1, d)
        found += table.T @ table
    return found


def sparse_gram(features: Sparse, d: int) -> Floats:
    """(d, d) X'X, with the same bits on every machine."""
    places, values = features
    gram = np.zeros(d * d)
    for column in range(places.shape[1]):
        cells = (places[:, column, None] * d + places).ravel()
        products = (values[:, column, None] * values).ravel()
        if FEW_CELLS * cells.size > d * d:
            gram += np.bincount(cells, weights=products, minlength=d * d)
        else:  # the same sums, of the cells alone that there are
            there, place = np.unique(cells, return_inverse=True)
            gram[there] += np.bincount(place, weights=products)
    return gram.reshape(d, d)


def moments_of(features: Sparse, rewards: Floats, chosen: npt.NDArray[Any], d: int) -> Moments:
    """The moments of some of the rows: a mask or positions."""
    y, some = rewards[chosen], features.of(chosen)
    return Moments(
        count=len(y),
        gram=sparse_gram(some, d),
        reward_vector=some.weighted_sum(y, d),
        reward_sum=float(y.sum()),
        reward_squares=float(y @ y),
    )


def scores_of(recipe: Recipe, columns: Mapping[str, Sparse], theta: Floats, rows: int) -> Floats:
    """(n, k) what a parameter expects of every item in every row."""
    found = np.zeros((rows, len(recipe.items)))
    for start in range(0, rows, CHUNK):
        part = slice(start, start + CHUNK)
        for term, place in recipe.slices.items():
            found[part] += term_scores(recipe, columns, term, theta[place], part)
    return found


def term_scores(
    recipe: Recipe, columns: Mapping[str, Sparse], term: Sequence[str], theta: Floats, part: slice
) -> Floats:
    """(n, k) or (1, k): what the features of one term add."""
    of_item = [name in recipe.item_matrices for name in term]
    order = sorted(range(len(term)), key=lambda place: not of_item[place])
    block = theta.reshape([len(recipe.labels[name]) for name in term]).transpose(order) if term else theta
    items = np.ones((len(recipe.items), 1))
    for name in (name for name, own in zip(term, of_item, strict=True) if own):
        items = (items[:, :, None] * recipe.item_matrices[name][:, None, :]).reshape(len(items), -1)
    by_item = (items @ block.reshape(items.shape[1], -1)).T  # (features of the context, k)
    known = [name for name, own in zip(term, of_item, strict=True) if not own]
    if not known:
        return np.asarray(by_item)
    sparse = ones(len(columns[known[0]].places[part]))
    for name in known:
        places, values = columns[name]
        sparse = sparse.crossed(Sparse(places[part], values[part]), len(recipe.labels[name]))
    features = zip(sparse.places.T, sparse.values.T, strict=True)
    return np.asarray(sum(by_item[places] * values[:, None] for places, values in features))
