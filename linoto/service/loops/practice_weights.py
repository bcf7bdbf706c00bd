"""What current practice does in a context: an item, or weights of items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.drivers.questions import as_weights
from linoto.core.features.recipe import Recipe
from linoto.service.errors import invalid

GIVEN = "given"  # in a spec: practice is sent with each decision
Practice = str | dict[str, float]
Weights = list[tuple[int, float]]  # items by their place, with what they weigh if that is above 0


def read_practice(recipe: Recipe, practice: Practice, allowed: Sequence[int] | None) -> Weights:
    """The weights of practice, of these items only: what it would do if there were no others."""
    given = {practice: 1.0} if isinstance(practice, str) else practice
    try:
        places = recipe.item_indices(list(given)).tolist()
        weights = as_weights(np.array(list(given.values()), dtype=np.float64))
    except ValueError as error:
        raise invalid(str(error).replace("arms must", "practice must")) from error
    found = [(place, weight) for place, weight in zip(places, weights.tolist(), strict=True) if weight > 0]
    left = range(len(recipe.items)) if allowed is None else set(allowed)
    kept = sorted((place, weight) for place, weight in found if place in left)
    if not kept:
        raise invalid(f"arms must hold an item that practice plays, got none: it plays {practice!r}")
    return kept if len(kept) == len(found) else rescaled(kept)


def rescaled(weights: Weights) -> Weights:
    """Weights that sum to 1 again, after some items have gone."""
    total = sum(weight for _, weight in weights)
    return [(place, weight / total) for place, weight in weights]


def spread(weights: Weights, items: Sequence[int]) -> Floats:
    """(k,) the same for the items of a round, in their order."""
    known = dict(weights)
    return np.array([known.get(item, 0.0) for item in items])
