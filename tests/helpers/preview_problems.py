"""Problems of every kind that people preview, and how often the truth lies in the band of a preview."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import linoto
from linoto.worlds import digits
from linoto.worlds.contexts import ContextualBandit, nearest_centroid
from linoto.worlds.flights import LOGGED, PRACTICE, load
from linoto.worlds.plausible import Plausible, plausible
from linoto.worlds.preview import usual_grid

COMPONENTS = 5  # of an image: fewer than practice sees
MOVING = 1500  # rounds in which a moving problem moves
SHARE = 3  # the place of a tenth of what the log earns in the usual grid


class Problem(NamedTuple):
    """The truth, the log it wrote, and what its owner assumes."""

    bandit: Any
    log: Any
    confidence: linoto.Confidence
    drift: float = 0.0  # how far average rewards move until the last round, which its owner knows
    rows: Any = None  # of a log with contexts

    @property
    def known(self) -> Plausible:
        """What a preview knows of it."""
        if isinstance(self.log, linoto.Offline):
            return plausible(self.bandit.actions, self.log)
        return plausible(self.log, None, rows=self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shop(linoto.Bandit):
    """One visitor in twenty buys, and how much has a heavy tail: an arm changes all amounts in proportion."""

    def draw(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        amounts = np.exp(1.2 * rng.standard_normal(rounds) - 0.72)  # mean 1
        return np.where(rng.random(rounds) < 0.05, amounts / 0.05, 0.0) - 1


def clicks(rate: float, rng: np.random.Generator) -> Problem:
    """Unrelated arms whose rates differ by 15 to 120 % of the rate, pulled unevenly."""
    k, rows = int(rng.choice([10, 30])), int(rng.choice([3000, 8000, 20_000]))
    differ = np.exp(rng.uniform(np.log(0.15), np.log(1.2)))
    means = np.clip(rate * rng.gamma(1 / differ**2, differ**2, k), 0, 1)
    bandit = linoto.Bandit(actions=np.eye(k), means=means, rewards="bernoulli")
    log = bandit.log(rng.multinomial(rows, rng.dirichlet(np.full(k, 2.0))), rng)
    return Problem(bandit, log, linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0))


def prices(rng: np.random.Generator) -> Problem:
    """Sales with a heavy tail, at prices whose mean revenues differ by 10 to 50 %."""
    k, rows = int(rng.choice([8, 20])), int(rng.choice([2000, 10_000]))
    means = 2 * np.exp(rng.uniform(0.1, 0.5) * rng.standard_normal(k))
    bandit = Shop(actions=np.eye(k), means=means, spread=means)
    log = bandit.log(rng.multinomial(rows, rng.dirichlet(np.full(k, 3.0))), rng)
    squares, freedom = log.within_arms()
    noise = 1.5 * float(np.sqrt(squares / freedom))
    return Problem(bandit, log, linoto.Confidence(noise=noise, reward_range=(0, 20), bound=30.0))


def paper(m: int, rng: np.random.Generator) -> Problem:
    """The paper's instances with m logged rewards."""
    bandit = linoto.sphere_bandit(rng=rng)
    return Problem(bandit, bandit.log(linoto.logged_pulls(bandit, m=m, rng=rng), rng), linoto.Confidence())


def flights(rng: np.random.Generator) -> Problem:
    """60 of the arms; the twelve most punctual in January are booked, at the rates of April to December."""
    data = load()
    arms = np.sort(rng.choice(len(data.names), 60, replace=False))
    counts, on_time = data.counts[arms], data.on_time[arms]
    booked = np.argsort(-on_time[:, 0] / np.maximum(counts[:, 0], 1), kind="stable")[:PRACTICE]
    pulls = np.zeros(arms.size, dtype=np.int64)
    pulls[booked] = counts[booked, LOGGED].sum(axis=1)
    bandit = linoto.Bandit(actions=data.actions[arms], means=data.bandit.means[arms], rewards="bernoulli")
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
    return Problem(bandit, bandit.log(pulls, rng), confidence)


CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
IN_CONTEXTS = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=3.0)
WAYS = ("at random", "winners of a pilot", "the best")  # how the logged arms of a problem were chosen


def choose(how: str, means: np.ndarray, logged: int, rng: np.random.Generator) -> np.ndarray:
    """The logged arms: drawn at random, those with most clicks in a pilot of 200 rows each, or the best."""
    scores = {
        "at random": lambda: rng.random(means.size),
        "winners of a pilot": lambda: rng.binomial(200, means) + rng.random(means.size),
        "the best": lambda: means,
    }[how]()
    return np.argsort(-scores)[:logged]


def chosen(
    how: str, actions: np.ndarray, means: np.ndarray, rng: np.random.Generator, *, logged: int = 10
) -> Problem:
    """A log of 3000 rows of some arms, chosen in this way, and clicks."""
    pulls = np.zeros(means.size, dtype=np.int64)
    pulls[choose(how, means, logged, rng)] = 3000 // logged
    bandit = linoto.Bandit(actions=actions, means=means, rewards="bernoulli")
    return Problem(bandit, bandit.log(pulls, rng), CLICKS)


def unrelated(how: str, rng: np.random.Generator) -> Problem:
    """40 unrelated arms with about 10 % of clicks, which differ by 15 to 60 %."""
    differ = np.exp(rng.uniform(np.log(0.15), np.log(0.6)))
    means = np.clip(0.1 * np.exp(differ * rng.standard_normal(40) - differ**2 / 2), 0, 0.99)
    return chosen(how, np.eye(40), means, rng)


def leveled(how: str, rng: np.random.Generator) -> Problem:
    """The same at 30 %, with an intercept and five features that explain half of the difference."""
    actions = np.column_stack([np.ones(40), rng.standard_normal((40, 5))])
    explained = actions[:, 1:] @ rng.standard_normal(5) / np.sqrt(5)
    differ = np.exp(rng.uniform(np.log(0.15), np.log(0.6)))
    scores = np.sqrt(0.5) * (explained + rng.standard_normal(40))
    return chosen(how, actions, np.clip(0.3 * np.exp(differ * scores - differ**2 / 2), 0, 0.99), rng)


def pixels(how: str, rng: np.random.Generator) -> Problem:
    """The digits that come with the package: an arm guesses what an image shows from one of 64 pixels, taught
    by one half of the images, and is right as often as in the other half. Its features: row and column."""
    images = digits.load()
    half = rng.permutation(len(images.written)) % 2 == 0
    shades = np.minimum((images.pixels * 4).astype(int), 3)
    means = np.zeros(64)
    for pixel in range(64):
        for shade in range(4):
            mine = shades[:, pixel] == shade
            taught = np.bincount(images.written[mine & half], minlength=10)
            means[pixel] += (images.written[mine & ~half] == taught.argmax()).sum()
    row, column = np.divmod(np.arange(64), 8)
    actions = np.column_stack([np.eye(8)[row], np.eye(8)[column]])
    return chosen(how, actions, means / (~half).sum(), rng)


def prices_chosen(how: str, rng: np.random.Generator) -> Problem:
    """40 offers of which one visitor in ten buys, for 0 to 100: rewards of a range that are not 0 or 1."""
    means = 4 * np.exp(0.35 * rng.standard_normal(40))
    share = np.full(40, 0.25)
    bandit = linoto.Bandit(
        actions=np.eye(40), means=means, rewards="beta", reward_range=(0.0, 100.0), spread=share
    )
    pulls = np.zeros(40, dtype=np.int64)
    pilot = bandit.log(np.full(40, 200), rng).reward_sums
    scores = {"at random": rng.random(40), "winners of a pilot": pilot, "the best": means}[how]
    pulls[np.argsort(-scores)[:10]] = 300
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 100), bound=200.0)
    return Problem(bandit, bandit.log(pulls, rng), confidence)


def moving(rng: np.random.Generator) -> Problem:
    """20 unrelated arms with about 10 % of clicks, all logged, which wander in 30 steps after the log."""
    size = float(rng.choice([0.02, 0.05]))
    means = 0.1 * np.exp(0.35 * rng.standard_normal(20))
    common, own = rng.standard_normal((30, 1)), rng.standard_normal((30, 20))
    table = np.clip(means + np.cumsum((common + own) / np.sqrt(2), axis=0) * size / np.sqrt(30), 0, 1)
    log = linoto.Bandit(actions=np.eye(20), means=means, rewards="bernoulli").log(np.full(20, 150), rng)
    starts = np.arange(30) * MOVING // 30
    world = linoto.DriftingBandit(actions=np.eye(20), table=table, starts=starts, rewards="bernoulli")
    return Problem(world, log, CLICKS, size)


def images(uniform: float, kept: bool, rng: np.random.Generator) -> Problem:
    """The digits as rounds with contexts: practice is the nearest centroid of 60 images, by all pixels, and a
    share of its plays is drawn from all digits. A preview knows five components of an image."""
    table = digits.load()
    names = [f"c{place}" for place in range(COMPONENTS)]
    numbers = dict(zip(names, table.features[:, 1 : 1 + COMPONENTS].T, strict=True))
    columns = tuple(linoto.Numeric(name=name, scale=float(column.std())) for name, column in numbers.items())
    recipe = linoto.Recipe(
        items=tuple(map(str, range(10))), context=columns, crosses=tuple(("item", name) for name in names)
    )
    weights = (1 - uniform) * nearest_centroid(table.pixels, table.written, 10, 60, rng) + uniform / 10
    every = [
        recipe.transform({name: column[i] for name, column in numbers.items()}) for i in range(len(weights))
    ]
    actions = np.array(every)
    world = ContextualBandit.from_table(actions, table.written, practice=weights)
    drawn = rng.integers(len(weights), size=2000)
    arms = np.array([rng.choice(10, p=weights[row]) for row in drawn])
    moments = linoto.Moments.from_rows(actions[drawn, arms], table.written[drawn] == arms)
    context = {name: column[drawn] for name, column in numbers.items()}
    rows = SimpleNamespace(recipe=recipe, arms=arms, context=context, candidates=None)
    log = SimpleNamespace(contexts=True, recipe=recipe, moments=moments)
    return Problem(world, log, IN_CONTEXTS, rows=rows if kept else None)


KINDS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "clicks, 0.4 %": lambda rng: clicks(0.004, rng),
    "clicks, 4 %": lambda rng: clicks(0.04, rng),
    "prices, heavy tail": prices,
    "the paper's, 100 logged rewards": lambda rng: paper(100, rng),
    "the paper's, 500 logged rewards": lambda rng: paper(500, rng),
    "flights, resampled": flights,
    "clicks, 10 %, moving": moving,
    "digits as contexts, rows at hand": partial(images, 0.1, True),
    "digits as contexts, sums alone": partial(images, 0.1, False),
    "digits as contexts, played at random": partial(images, 1.0, True),
    **{f"unrelated arms, {how}": partial(unrelated, how) for how in WAYS},
    **{f"features and a level, {how}": partial(leveled, how) for how in WAYS},
    **{f"digits, one pixel each, {how}": partial(pixels, how) for how in WAYS},
    **{f"revenue, {how}": partial(prices_chosen, how) for how in WAYS},
}


class Foretold(NamedTuple):
    """The band of a preview and what happened."""

    low: float
    truth: float
    high: float
    shortfall: float  # that nine worlds of ten keep to
    fell: float  # what it really was

    @property
    def right(self) -> bool:
        return self.low <= self.truth <= self.high

    @property
    def kept(self) -> bool:
        return self.fell <= self.shortfall


def foretell(
    kind: str, seed: int, *, horizon: int, worlds: int, logged_arms: Any = "good"
) -> tuple[Foretold, Foretold]:
    """Preview a problem with a budget of a tenth of what the log earns, then play it in the truth.

    The second band is that of worlds in which no untried arm is better; the first again where all were tried.
    """
    problem = KINDS[kind](np.random.default_rng([seed, 7]))
    known = problem.known
    gate = linoto.Control(budget=1.0) if known.rounds_from else linoto.Tolerance(budget=1.0)
    policy = linoto.Gated(gate=gate, confidence=problem.confidence)
    budget = usual_grid(policy, known, horizon)[SHARE]
    sizes: dict[str, Any] = {"horizon": horizon, "worlds": worlds, "seed": seed, "logged_arms": logged_arms}
    shown = linoto.preview(known, policy=policy, grid=[budget], drift=problem.drift, **sizes)
    policy = policy.with_parameter("budget", budget)
    run = linoto.simulate(policy, problem.bandit, known.log, horizon=horizon, seed=seed)
    gain, fell = -float(run.offline_regret[-1]), max(0.0, float(run.offline_regret.max()))

    def band(point: Any, shortfall: float) -> Foretold:
        row = point.row(horizon)
        return Foretold(row["gain_10"], gain, row["gain_90"], shortfall, fell)

    first = shown.points[0]
    other = shown.beside(first) or first
    return band(first, shown.shortfall(first)), band(other, other.row(horizon)["worst_loss_90"] or 0.0)
