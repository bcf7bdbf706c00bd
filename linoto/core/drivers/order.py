"""The order of features in a state: those of each item together, and those that items share last."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.one_hot import RECOGNISED

LEAST_FEATURES = 64  # fewer are as fast in one block
MOST_SHARE = 0.5  # of all features that one arm may have, where blocks pay


class Order(NamedTuple):
    """Where features are outside: in actions, decisions, logs and parameters."""

    places: Ints  # (d,)
    border: int  # the features from here on are shared
    is_plain: bool = False  # the same order inside, and nothing is shared

    def inside(self, vectors: Floats) -> Floats:
        """(..., d) the same vectors in the order of the state."""
        return np.ascontiguousarray(vectors[..., self.places])

    def outside(self, vectors: Floats) -> Floats:
        """(..., d) the same vectors in the order of everybody else."""
        found = np.empty_like(vectors)
        found[..., self.places] = vectors
        return found

    def outside_square(self, square: Floats) -> Floats:
        """(d, d) the same matrix in the order of everybody else."""
        return self.outside(self.outside(square).T).T

    def after(self, later: Order, places: Ints) -> Ints:
        """(d,) where each feature of this state is in a later one; `places` says it outside."""
        inside = np.empty(later.places.size, np.int64)
        inside[later.places] = np.arange(inside.size)
        return np.asarray(inside[places[self.places]])

    @classmethod
    def of(cls, places: Ints, border: int) -> Order:
        """The order with these places."""
        return cls(places, border, border == places.size and bool((np.diff(places) == 1).all()))

    @classmethod
    def by_item(cls, recipe: Any) -> Order:
        """That of a recipe."""
        return cls.of(recipe.by_item, recipe.own_width * len(recipe.items))


def order_for(features: Any, *, needed: bool = False) -> Order | None:
    """The order by items, where it pays or is needed: with many features of which an arm has few."""
    own = getattr(features, "own_width", 0)
    if not own or not (needed or (RECOGNISED.get() and features.d >= LEAST_FEATURES)):
        return None
    order = Order.by_item(features)
    pays = own + features.d - order.border <= MOST_SHARE * features.d
    return order if needed or pays else None


def entries_of(vector: Floats, order: Order | None) -> tuple[float, ...]:
    """(d,) a vector of a state as a decision holds it."""
    return tuple((vector if order is None else order.outside(vector)).tolist())
