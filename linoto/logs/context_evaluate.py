"""What would another policy have earned in the logged contexts? IPS, SNIPS and doubly robust, cross-fitted.

The methods are those of `linoto.evaluate`. Here a target may look at the context, and the model of doubly
robust is linear in the features of a recipe, fitted for each row without the rows of its own fold. A greedy
target is judged as it would have gone: each block of rows by the model of the blocks before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import text_of
from linoto.core.features.moments import Moments
from linoto.core.hints import nearest
from linoto.core.validation import as_floats, check_choice, check_count, check_positive
from linoto.logs.context_rows import ContextRows
from linoto.logs.estimates import Estimate, Interval, Weighted, of_logged
from linoto.logs.evaluate import corrected, ips_of, snips_of
from linoto.logs.rows import Rows

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
        check_fit(rows, folds, ridge)
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


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierFit:
    """The rows after the first block, and what a linear model of all blocks before its own expects of each.

    Given all rows before its block, what a greedy target does in a row is fixed; so its terms are, but for
    the value of the target, differences of a martingale. No block is used twice: it is judged first, and
    then joins the model.
    """

    rows: ContextRows
    scores: Floats  # (n, k)
    before: Rows  # the first block

    @classmethod
    def of(cls, rows: ContextRows, *, blocks: int = 5, ridge: float = 1.0) -> EarlierFit:
        """Ridge regression on the features of what was played, in blocks of the same length."""
        check_fit(rows, blocks, ridge)
        starts = [len(rows) * block // blocks for block in range(blocks + 1)]
        places = [np.arange(start, end) for start, end in pairwise(starts)]
        parts = [rows.moments(mine) for mine in places]
        scores = [
            rows.take(mine).scores(fit(parts[: number + 1], ridge)) for number, mine in enumerate(places[1:])
        ]
        later = rows.take(np.arange(starts[1], len(rows)))
        return cls(rows=later, scores=np.concatenate(scores), before=rows.rows.take(places[0]))


def check_fit(rows: ContextRows, folds: int, ridge: float) -> None:
    """Refuse parts that rows cannot be divided into."""
    check_count("folds", folds)
    check_positive("ridge", ridge)
    if not 2 <= folds <= len(rows):
        raise ValueError(f"folds must be in [2, {len(rows)}], got {folds}")


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

    The target is "greedy" (in each of so many blocks the best item by a linear model of all earlier ones, see
    below), the name of an item, weights of items by name, a parameter (d,) whose best item is played,
    probabilities (n, k), a function of a context and the items on offer that returns an item or weights, or a
    running agent, asked as it is, without learning.

    A greedy target is what would have happened if the model had been fitted anew before each block, and then
    trusted: the value is the average of these policies over the rows after the first block, which has no
    earlier ones. Rows must be in the order in which they were logged (`time=`), or in one that has nothing to
    do with what they say.
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
    before, scores = None, None
    if isinstance(target, str) and target == GREEDY:
        earlier = EarlierFit.of(rows, blocks=folds, ridge=ridge)
        rows, scores, before = earlier.rows, earlier.scores, earlier.before
    elif "dr" in methods:
        scores = CrossFit.of(rows, folds=folds, ridge=ridge).scores()
    chosen = as_choices(rows, target, scores)
    calls: dict[str, Callable[[Weighted], Estimate]] = {
        "ips": ips_of,
        "snips": snips_of,
        "dr": lambda seen: doubly_robust(seen, scores),
    }
    return [
        calls[method](Weighted.of(rows.rows, chosen, method, interval, before=before)) for method in methods
    ]


def doubly_robust(seen: Weighted, scores: Floats | None) -> Estimate:
    """The model's answer, corrected by weighted residuals; proven where the model is of earlier rows only."""
    assert scores is not None  # made where this method is asked for
    if seen.interval.kind not in ("auto", "normal"):
        raise ValueError(
            f"interval must be auto or normal for dr with a fitted model, got {seen.interval.kind!r}"
        )
    predicted = np.clip(scores, *seen.limits)
    expected = np.einsum("nk,nk->n", seen.target, predicted)
    return corrected(seen, expected, of_logged(predicted, seen.rows), predicted, proven=seen.learns)


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
