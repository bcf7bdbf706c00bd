"""Rounds like those of a log with contexts: its own rows, or what its sums say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.learnt import LearntPolicy
from linoto.core.validation import as_floats
from linoto.worlds.posterior import Choice, Draws, beta_shapes, choose
from linoto.worlds.reward_laws import RewardLaw

EDGE = 1e-6  # of a range: how near to its ends an average is, at the most
MOST_ROUNDS = 1000  # from which those of a world are drawn
MOST_NUMBERS = 4_000_000  # features of all their arms
PracticeInLog = Mapping[str, float] | LearntPolicy  # weights of items, or what was learnt from rows


class RowsOfLog(Protocol):
    """Decisions of a log one by one, as `read_rows` gives them."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def arms(self) -> Ints: ...  # (n,) which item was played
    @property
    def context(self) -> Mapping[str, npt.NDArray[Any]]: ...  # (n,) each column
    @property
    def candidates(self) -> Bools | None: ...  # (n, k) what could be played; None: every item


class LoggedRounds(NamedTuple):
    """Rounds from which worlds draw: the arms of all of them, one round below the other."""

    ends: Ints  # (n,) where the arms of each round end
    actions: Floats  # (arms, d)
    weights: Floats  # (arms,) practice's, with the sum 1 in every round
    items: Ints  # (arms,) which item each is
    played: Bools  # (arms,) what the log played in its round

    @property
    def begins(self) -> Ints:
        """(n,) where the arms of each round begin."""
        return np.append(0, self.ends[:-1])

    def every(self, values: Floats) -> Floats:
        """(arms,) what is known of each round (n,), for each of its arms."""
        return np.repeat(values, np.diff(self.ends, prepend=0))

    def best_by(self, theta: Floats) -> Floats:
        """(arms,) 1 for the best arm of each round by a parameter, the first of equals."""
        weights, scores = np.zeros(self.items.size), self.actions @ theta
        for begin, end in zip(self.begins, self.ends, strict=True):
            weights[begin + scores[begin:end].argmax()] = 1.0
        return weights

    def prospects(self, means: Floats) -> tuple[int, float]:
        """The item that is best in most rounds, and how much more the best arms earn than practice does."""
        best = np.maximum.reduceat(means, self.begins)
        practice = np.add.reduceat(self.weights * means, self.begins)
        winners = self.items[means >= self.every(best)]
        return int(np.bincount(winners).argmax()), float((best - practice).mean())

    def spread_within(self, means: Floats) -> float:
        """How much the arms of a round differ: a standard deviation, over all rounds."""
        counts = np.diff(self.ends, prepend=0)
        around = means - self.every(np.add.reduceat(means, self.begins) / counts)
        return float(np.sqrt(around @ around / max(means.size - counts.size, 1)))

    def chosen(
        self,
        means: Floats,
        choice: Choice,
        own: float,
        limits: tuple[float, float] | None,
        rng: np.random.Generator,
    ) -> Floats:
        """(arms,) the same means with effects of a standard deviation `own` that no feature shows.

        Whoever chose what was played knew of them as `choice` says: so the other arms of its round have less.
        Within limits they are Beta laws, whose mean a limit does not move: what was played earns on
        average what it earned in the log.
        """
        lower = means - np.where(self.played, 0.0, choice.apart * own)
        spread = own * np.where(self.played, choice.logged, choice.untried)
        if limits is None:
            return np.asarray(lower + spread * rng.standard_normal(means.size))
        low, width = limits[0], limits[1] - limits[0]
        centre = np.clip((lower - low) / width, EDGE, 1 - EDGE)
        return np.asarray(low + width * rng.beta(*beta_shapes(centre, np.maximum(spread / width, EDGE))))

    def capped(self, means: Floats) -> Floats:
        """(arms,) the same, where no arm of a round is better than the one that was played."""
        return np.minimum(means, self.every(means[self.played]))


def check_recipe(recipe: Recipe) -> None:
    """Refuse logs that do not tell which arms a round offered."""
    if not recipe.items or recipe.action:
        raise ValueError(
            "log must have items, and no columns that come with each arm, for a preview: only then does it "
            "tell what a round could have played"
        )


def most_rounds(recipe: Recipe) -> int:
    """How many rounds are kept, so that their features do not fill the memory."""
    return int(np.clip(MOST_NUMBERS // (len(recipe.items) * recipe.d), 50, MOST_ROUNDS))


def rounds_of_rows(rows: RowsOfLog, practice: PracticeInLog | None, rng: np.random.Generator) -> LoggedRounds:
    """Rows of the log, each with what it offered; practice plays what was logged, unless it is given."""
    recipe = rows.recipe
    check_recipe(recipe)
    n, most = len(rows.arms), most_rounds(recipe)
    if n == 0:
        raise ValueError("rows must hold at least one decision, got none")
    chosen = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    every = np.arange(len(recipe.items))
    parts = []
    for row in chosen.tolist():
        offered = every if rows.candidates is None else np.flatnonzero(rows.candidates[row])
        fields = {name: column[row] for name, column in rows.context.items()}
        factors = {name: vector[None, :] for name, vector in recipe.read_context(fields).items()}
        parts.append((actions_of(recipe, factors, offered), offered == rows.arms[row], offered))
    return together(parts, recipe, practice)


def rounds_of_moments(
    recipe: Recipe, moments: Moments, practice: PracticeInLog | None, rng: np.random.Generator
) -> LoggedRounds:
    """Rounds like those of a log of which only sums are left: of each item as often as it was played.

    Its numbers are normal around the averages of that item, with the covariances that all items have within
    them; categories have the shares of the item and are drawn on their own; every item is offered.
    """
    check_recipe(recipe)
    place = recipe.slices.get((recipe.item,))
    if place is None or moments.count == 0:
        raise ValueError("rows must be given where items have no effects, or none was logged")
    counts, n = np.maximum(moments.gram.diagonal()[place], 0.0), most_rounds(recipe)
    played = rng.choice(counts.size, size=n, p=counts / counts.sum())
    averages = moments.gram[place] / np.maximum(counts, 1.0)[:, None]  # (k, d)
    drawn = {
        column.name: draw_levels(averages[:, recipe.slices[column.name,]], played, rng)
        for column in recipe.context
        if column.leveled
    }
    numbers = {column.name: recipe.slices[column.name,] for column in recipe.context if not column.leveled}
    places = np.concatenate([np.arange(0), *(np.arange(p.start, p.stop) for p in numbers.values())])
    around = moments.gram[np.ix_(places, places)] - averages[:, places].T @ (
        counts[:, None] * averages[:, places]
    )
    table = averages[played][:, places] + draw_normal(around / moments.count, n, rng)
    ends = np.cumsum([place.stop - place.start for place in numbers.values()])[:-1]
    drawn |= dict(zip(numbers, np.split(table, ends, axis=1), strict=False))
    every = np.arange(counts.size)
    parts = [
        (
            actions_of(recipe, {name: part[t, None] for name, part in drawn.items()}, every),
            every == played[t],
            every,
        )
        for t in range(n)
    ]
    return together(parts, recipe, practice)


def draw_normal(covariance: Floats, n: int, rng: np.random.Generator) -> Floats:
    """(n, w) normal vectors around 0 with this covariance (w, w)."""
    if covariance.size == 0:
        return np.zeros((n, 0))
    values, axes = np.linalg.eigh(covariance)
    return np.asarray((rng.standard_normal((n, values.size)) * np.sqrt(np.maximum(values, 0.0))) @ axes.T)


def draw_levels(shares: Floats, played: Ints, rng: np.random.Generator) -> Floats:
    """(n, w) the features of a category, by the shares of each item (k, w): one level each, or none."""
    edges = np.cumsum(np.clip(shares, 0.0, 1.0), axis=1)[played]
    level = (rng.random(played.size)[:, None] >= edges).sum(axis=1)
    return np.asarray(level[:, None] == np.arange(shares.shape[1]), dtype=np.float64)


def item_weights(practice: PracticeInLog, recipe: Recipe) -> Floats:
    """(k,) the weights that practice gives to items."""
    if not isinstance(practice, Mapping):
        raise ValueError(f"practice must be a mapping from items to weights, got {practice!r}")
    weights = np.zeros(len(recipe.items))
    weights[recipe.item_indices(list(practice))] = as_floats("practice", list(practice.values()), ndim=1)
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.sum() > 0):
        raise ValueError(f"practice must be weights >= 0 of items, one of them above 0, got {dict(practice)}")
    return np.asarray(weights / weights.sum())


def plays_shares(practice: PracticeInLog | None, recipe: Recipe, moments: Moments) -> bool:
    """Whether practice plays every item in its share of the log, whoever asks.

    Then no feature chose what was played, and nothing else that a round shows.
    """
    place = recipe.slices.get((recipe.item,))
    if not isinstance(practice, Mapping) or place is None or moments.count == 0:
        return False
    shares = moments.gram.diagonal()[place] / moments.count
    return bool((shares > 0).all() and np.allclose(item_weights(practice, recipe), shares, rtol=0, atol=1e-6))


def actions_of(recipe: Recipe, factors: Mapping[str, Floats], items: Ints) -> Floats:
    """(k, d) these items in a context of which the features are known."""
    own = {name: matrix[items] for name, matrix in recipe.item_matrices.items()}
    return recipe.assemble({**factors, **own}, items.size)


def together(
    parts: list[tuple[Floats, Bools, Ints]], recipe: Recipe, practice: PracticeInLog | None
) -> LoggedRounds:
    """Rounds one below the other, where practice can play something in them: what was logged, or given."""
    learnt = practice if isinstance(practice, LearntPolicy) else None
    shares = item_weights(practice, recipe) if practice is not None and not learnt else None
    kept = [part for part in parts if (part[1] if shares is None else shares[part[2]]).any()]
    if not kept:
        raise ValueError("practice must be able to play what the log offered, got no row where it can")
    actions, played, items = (np.concatenate(column) for column in zip(*kept, strict=True))
    ends = np.cumsum([part[2].size for part in kept])
    found = LoggedRounds(ends, actions, played.astype(np.float64), items, played)
    if learnt:
        learnt.recipe.check_same(recipe)
        return found._replace(weights=found.best_by(learnt.parameter))
    if shares is None:
        return found
    sums = np.add.reduceat(shares[items], found.begins)
    return found._replace(weights=shares[items] / found.every(sums))


# -- which parameters could have written the log ----------------------------------------------------------


def draw_parameters(
    recipe: Recipe,
    moments: Moments,
    law: RewardLaw,
    spreads: Floats,  # that are possible
    log_prior: Floats,  # of each
    *,
    worlds: int,
    rng: np.random.Generator,
) -> Draws:
    """Draws from the posterior of the log's linear model, over a grid of how much features explain.

    theta is normal around 0 with variance s^2 / (mean |x|^2), but for the intercept, of which nothing is
    known: s is the standard deviation between average rewards that features make. Given s the posterior is
    that of a ridge regression, and s is drawn by its prior times the probability of the log.
    """
    free = np.ones(recipe.d, dtype=np.bool_)
    if recipe.intercept:
        free[0] = False
    size = float(moments.gram.diagonal()[free].sum()) / max(moments.count, 1) or 1.0
    wide = (1e4 * (law.noise + abs(moments.reference if moments.count else 0.0))) ** -2
    fits = []
    for spread in spreads.tolist():
        prior = np.where(free, size / spread**2, wide)
        root = np.linalg.cholesky(moments.gram / law.variance + np.diag(prior))
        half = np.linalg.solve(root, moments.reward_vector / law.variance)
        evidence = np.log(prior).sum() / 2 - np.log(root.diagonal()).sum() + half @ half / 2
        fits.append((root, half, float(evidence)))
    chosen = choose(log_prior + np.array([evidence for *_, evidence in fits]), worlds, rng)
    thetas = [
        np.linalg.solve(fits[i][0].T, fits[i][1] + rng.standard_normal(recipe.d)) for i in chosen.tolist()
    ]
    return Draws(np.array(thetas), spreads[chosen])
