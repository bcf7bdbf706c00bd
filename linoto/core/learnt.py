"""A policy that was learnt from logged rows: what it plays in a context, as an explorer and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.explorers import View
from linoto.core.features.recipe import Recipe
from linoto.core.validation import as_floats


@dataclass(frozen=True, kw_only=True)
class LearntPolicy:
    """A policy learnt from logged rows: in each context it plays the arm with the best score.

    `linoto.learn_policy` makes it. It does not learn any more, and draws nothing. It is a function of a
    context and the arms on offer, as `evaluate` and `practice=` take it; an explorer behind any gate; and
    plain JSON (`linoto.to_dict`).

    >>> how = {"method": "doubly robust", "model": "doubly robust", "imitation": 0, "clip": 10, "clipped": 0}
    >>> recipe = Recipe(items=("A", "B"), intercept=False)
    >>> LearntPolicy(recipe=recipe, theta=(0.2, 0.3), rows=100, **how)({}, ["A", "B"])
    'B'
    """

    recipe: Recipe  # of its features; arms that stay the same are a recipe of items alone
    theta: tuple[float, ...]  # (d,)
    method: str  # by which it was learnt
    model: str  # of rewards
    imitation: float  # the share of what was done, in [0, 1]; the rest is what rewards recommend
    rows: int  # from which it was learnt
    clip: float  # the most that a row could weigh
    clipped: int  # rows that would have weighed more
    built_by: Any = field(default=None, compare=False, repr=False)  # which rows these were; not in JSON

    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.recipe, Recipe):
            raise ValueError(f"recipe must be a linoto.Recipe, got {type(self.recipe).__name__}")
        theta = as_floats("theta", self.theta, ndim=1)
        if theta.size != self.recipe.d:
            raise ValueError(f"theta must have {self.recipe.d} entries like the recipe, got {theta.size}")
        object.__setattr__(self, "theta", tuple(theta.tolist()))

    @cached_property
    def parameter(self) -> Floats:
        """(d,) theta as an array."""
        return np.array(self.theta)

    def __call__(self, context: Mapping[str, Any] | None = None, arms: Sequence[str] | None = None) -> str:
        """The arm that it plays in a context, of these or of all."""
        names = self.recipe.items if arms is None else tuple(arms)
        return names[int((self.recipe.transform(context, list(names)) @ self.parameter).argmax())]

    def score(self, view: View) -> Floats:
        """(k,) what an explorer says of the arms of a round; of arms that stay the same, in their order."""
        stay = not np.isnan(view.counts).any()
        if not stay and view.actions.shape[1] == self.recipe.d:
            return np.asarray(view.actions @ self.parameter)
        if not stay or self.recipe.context or len(self.recipe.items) != len(view.actions):
            raise ValueError(
                f"arms must be those of the learnt policy, {len(self.recipe.items)} items with "
                f"{self.recipe.d} features, got {len(view.actions)} with {view.actions.shape[1]}"
            )
        return np.asarray(self.recipe.transform() @ self.parameter)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data, without which rows it was learnt from: there may be millions."""
        found = {part.name: getattr(self, part.name) for part in fields(self) if part.compare}
        data = {"type": type(self).__name__, **found, "recipe": self.recipe.to_dict()}
        plain: dict[str, Any] = json.loads(json.dumps(data))  # lists for tuples
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LearntPolicy:
        """What `to_dict` wrote."""
        given = {name: value for name, value in data.items() if name != "type"}
        known = {part.name for part in fields(cls) if part.compare}
        if set(given) != known:
            raise ValueError(f"LearntPolicy must have the fields {', '.join(sorted(known))}, got others")
        return cls(**{**given, "recipe": Recipe.from_dict(given["recipe"])})
