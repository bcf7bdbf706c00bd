"""What would another policy have earned in the logged contexts? IPS, SNIPS and doubly robust, cross-fitted.

The methods are those of `linoto.evaluate`. Here a target may look at the context, and the model of doubly
robust is linear in the features of a recipe, fitted for each row without the rows of its own fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.cells import text_of
from linoto.core.contexts.moments import Moments
from linoto.core.hints import nearest
from linoto.core.kernels import Floats, Ints
from linoto.core.validation import as_floats, check_choice, check_count, check_positive
from linoto.logs.context_rows import ContextRows
from linoto.logs.estimates import Estimate, Interval, Weighted, of_logged
from linoto.logs.evaluate import corrected, ips, snips

METHODS = ("ips", "snips", "dr")
GREEDY = "greedy"
MOST_CELLS = 50_000_000  # rows times items: 400 MB for each matrix of them
ContextTarget = (
    Any  # "greedy", an item, weights of items, theta (d,), (n, k) probabilities, a function, an agent
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossFit:
    """A linear model of each fold, fitted on the other folds; row i is in fold i mod folds."""

    rows: ContextRows
    thetas: Floats  # (folds, d)

    @classmethod
    def of(cls, rows: ContextRows, *, folds: int = 5, ridge: float = 1.0) -> CrossFit:
        """Ridge regression on the features of what was played."""
        check_count("folds", folds)
        check_positive("ridge", ridge)
        if not 2 <= folds <= len(rows):
            raise ValueError(f"folds must be in [2, {len(rows)}], got {folds}")
        parts = [rows.moments(np.arange(len(rows)) % folds == fold) for fold in range(folds)]
        found = [
            fit([part for place, part in enumerate(parts) if place != fold], ridge) for fold in range(folds)
        ]
        return cls(rows=rows, thetas=np.array(found))

    @property
    def folds(self) -> Ints:
        """(n,) the fold of each row."""
        return np.asarray(np.arange(len(self.rows)) % len(self.thetas))

    def scores(self) -> Floats:
        """(n, k) what the other folds expect of every item."""
        found = np.empty((len(self.rows), len(self.rows.recipe.items)))
        for fold, theta in enumerate(self.thetas):
            mine = self.folds == fold
            found[mine] = self.rows.take(mine).scores(theta)
        return found

    def of_played(self) -> Floats:
        """(n,) what the other folds expect of what was played."""
        found = np.empty(len(self.rows))
        for fold, theta in enumerate(self.thetas):
            mine = self.folds == fold
            found[mine] = self.rows.take(mine).features.times(theta)
        return found


def fit(parts: Sequence[Moments], ridge: float) -> Floats:
    """(d,) the ridge estimate from the moments of several parts."""
    gram = sum(part.gram for part in parts) + ridge * np.eye(parts[0].d)
    return np.asarray(np.linalg.solve(gram, sum(part.reward_vector for part in parts)), dtype=np.float64)


def evaluate_contexts(
    rows: ContextRows,
    target: ContextTarget = GREEDY,
    *,
    methods: Sequence[str] = METHODS,
    folds: int = 5,
    ridge: float = 1.0,
    interval: Interval = Interval(),  # noqa: B008 - frozen, so safe to share
) -> list[Estimate]:
    """What a target would have earned per round in the contexts of these rows, by several methods.

    The target is "greedy" (in each fold the best item by a linear model of the other folds), the name of an
    item, weights of items by name, a parameter (d,) whose best item is played, probabilities (n, k), a
    function of a context and the items on offer that returns an item or weights, or a running agent, asked as
    it is, without learning.
    """
    if not isinstance(rows, ContextRows):
        raise ValueError(f"rows must be linoto.ContextRows, got {type(rows).__name__}")
    for method in methods:
        check_choice("methods", method, METHODS)
    if len(rows) * len(rows.recipe.items) > MOST_CELLS:
        raise ValueError(
            f"rows times items must be at most {MOST_CELLS:,}, got {len(rows):,} times "
            f"{len(rows.recipe.items):,}: read some of the rows (where)"
        )
    needs_model = "dr" in methods or (isinstance(target, str) and target == GREEDY)
    scores = CrossFit.of(rows, folds=folds, ridge=ridge).scores() if needs_model else None
    chosen = as_choices(rows, target, scores)
    calls: dict[str, Callable[[], Estimate]] = {
        "ips": lambda: ips(rows.rows, chosen, interval=interval),
        "snips": lambda: snips(rows.rows, chosen, interval=interval),
        "dr": lambda: doubly_robust(rows, chosen, scores, interval),
    }
    return [calls[method]() for method in methods]


def doubly_robust(rows: ContextRows, chosen: Floats, scores: Floats | None, interval: Interval) -> Estimate:
    """The model's answer, corrected by weighted residuals."""
    assert scores is not None  # made where this method is asked for
    if interval.kind not in ("auto", "normal"):
        raise ValueError(f"interval must be auto or normal for dr with a fitted model, got {interval.kind!r}")
    seen = Weighted.of(rows.rows, chosen, "dr", interval)
    predicted = np.clip(scores, *seen.limits)
    expected = np.einsum("nk,nk->n", chosen, predicted)
    return corrected(seen, expected, of_logged(predicted, rows.rows), predicted, proven=False)


# -- targets ----------------------------------------------------------------------------------------------


def as_choices(rows: ContextRows, target: ContextTarget, scores: Floats | None) -> Floats:
    """(n, k) the probabilities with which a target plays each item in each row; 0 for those not on offer."""
    recipe = rows.recipe
    if isinstance(target, str) and target == GREEDY:
        assert scores is not None
        chosen = best_of(rows, scores)
    elif isinstance(target, str | Mapping):
        chosen = np.broadcast_to(weights_of(rows, target), (len(rows), len(recipe.items)))
    elif callable(target) or hasattr(target, "decide"):
        chosen = asked(rows, target)
    elif np.ndim(target) == 1:
        theta = as_floats("target", target, ndim=1)
        if theta.size != recipe.d:
            raise ValueError(f"target must be a parameter of {recipe.d} entries, got {theta.size}")
        chosen = best_of(rows, rows.scores(theta))
    else:
        chosen = as_floats("target", target, ndim=2)
    return on_offer(rows, np.ascontiguousarray(chosen))


def on_offer(rows: ContextRows, chosen: Floats) -> Floats:
    """The same probabilities, if they are on items that could be played."""
    if rows.candidates is None or chosen.shape != rows.candidates.shape:
        return chosen
    outside = (chosen > 0) & ~rows.candidates
    if outside.any():
        row, item = np.argwhere(outside)[0]
        raise ValueError(
            f"target must play items that are on offer, got {rows.recipe.items[item]!r} in row {row + 1}"
        )
    return chosen


def best_of(rows: ContextRows, scores: Floats) -> Floats:
    """(n, k) 1 for the best item on offer, the first of equals."""
    offered = scores if rows.candidates is None else np.where(rows.candidates, scores, -np.inf)
    chosen = np.zeros_like(scores)
    chosen[np.arange(len(rows)), offered.argmax(axis=1)] = 1.0
    return chosen


def weights_of(rows: ContextRows, answer: str | Mapping[str, float]) -> Floats:
    """(k,) an item, or weights by item."""
    items = rows.recipe.item_places
    weights = np.zeros(len(items))
    for name, weight in {answer: 1.0}.items() if not isinstance(answer, Mapping) else answer.items():
        if text_of(name) not in items:
            hint = nearest(text_of(name), items)
            raise ValueError(f"target must play one of the {len(items)} items, got {name!r}{hint}")
        weights[items[text_of(name)]] += weight
    return weights


def asked(rows: ContextRows, target: Any) -> Floats:
    """(n, k) what a function or an agent answers, row by row."""
    found = np.zeros((len(rows), len(rows.recipe.items)))
    for row in range(len(rows)):
        context, offered = rows.context_of(row), rows.offered(row)
        if hasattr(target, "decide"):
            answer: Any = target.decide(context=context, arms=list(offered)).name
        else:
            answer = target(context, offered)
        found[row] = (
            weights_of(rows, answer) if isinstance(answer, str | Mapping) else as_weights(answer, rows)
        )
    return found


def as_weights(answer: npt.ArrayLike, rows: ContextRows) -> Floats:
    """(k,) weights that a function returned."""
    weights = as_floats("target's answer", answer, ndim=1)
    if weights.size != len(rows.recipe.items):
        raise ValueError(
            f"target must answer an item, weights by item, or {len(rows.recipe.items)} weights, "
            f"got {weights.size}"
        )
    return weights
