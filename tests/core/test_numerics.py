"""Rounding: what is carried from round to round is what exact arithmetic says, after a million rounds too."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.problems import LAWS, problem
from hypothesis import given
from hypothesis import strategies as st

from linoto import PAPER, Agent, Confidence, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Offline
from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.kernels import estimate, explorers

MILLION = 1_000_000


@dataclass
class Exact:
    """What an agent should know, in rational arithmetic: nothing is rounded before the end."""

    variance: Floats  # (k,)
    mean: Floats  # (k,)
    inverse: Floats  # (d, d)
    log_det: float


def exactly(actions: Floats, counts: Ints, reward_sums: Floats, ridge: float) -> Exact:
    """Solve V X = [A', b, I] by elimination on fractions, with V and b summed exactly over the arms."""
    k, d = actions.shape
    arms = [[Fraction(x) for x in row] for row in actions.tolist()]
    pulls, sums = [int(n) for n in counts], [Fraction(r) for r in reward_sums.tolist()]
    rows = []
    for i in range(d):
        gram = [sum(n * a[i] * a[j] for n, a in zip(pulls, arms, strict=True)) for j in range(d)]
        gram[i] += Fraction(ridge)
        target = sum(r * a[i] for r, a in zip(sums, arms, strict=True))
        unit = [Fraction(i == j) for j in range(d)]
        rows.append([*gram, *(a[i] for a in arms), target, *unit])
    det = Fraction(1)
    for j in range(d):
        pivot = rows[j][j]
        det *= pivot
        rows[j] = [value / pivot for value in rows[j]]
        for i in range(d):
            if i != j:
                factor = rows[i][j]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[j], strict=True)]
    images = [[rows[i][d + a] for i in range(d)] for a in range(k)]  # V^-1 a
    theta = [rows[i][d + k] for i in range(d)]
    return Exact(
        variance=np.array([float(dot(a, image)) for a, image in zip(arms, images, strict=True)]),
        mean=np.array([float(dot(a, theta)) for a in arms]),
        inverse=np.array([[float(x) for x in rows[i][d + k + 1 :]] for i in range(d)]),
        log_det=log(det.numerator) - log(det.denominator),
    )


def dot(x: list[Fraction], y: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def assert_exact(agent: Agent, counts: Ints, reward_sums: Floats, *, digits: float = 1e-8) -> None:
    """Means, variances, V^-1 and log det agree with exact arithmetic on the same rewards."""
    state = agent.running.estimate
    truth = exactly(agent.actions, counts, reward_sums, float(agent.running.params[0]["ridge"]))
    np.testing.assert_allclose(state.arms[kernels.VARIANCE], truth.variance, rtol=digits)
    np.testing.assert_allclose(state.arms[kernels.MEAN], truth.mean, atol=digits * np.abs(truth.mean).max())
    size = np.abs(truth.inverse).max()
    np.testing.assert_allclose(state.square[kernels.INVERSE], truth.inverse, atol=digits * size)
    assert state.run[0]["log_det"] == pytest.approx(truth.log_det, rel=digits, abs=digits)


def play(agent: Agent, bandit: Any, offline: Offline, rounds: int) -> tuple[Ints, Floats]:
    """Play compiled; the pulls and reward sums of each arm, the log's included."""
    noise = bandit.noise * np.random.default_rng(1).standard_normal(rounds)
    arms, _ = agent.play(bandit.means, noise)
    rewards = bandit.means[arms] + noise
    k = len(bandit.actions)
    return (
        offline.pulls + np.bincount(arms, minlength=k),
        offline.reward_sums + np.bincount(arms, weights=rewards, minlength=k),
    )


EXPLORERS = {
    "linoto": LinOtO(),
    "linoto-max": LinOtO(budget="max"),
    "linucb": LinUCB(scale=1.0, confidence=PAPER),
    "thompson": LinTS(confidence=PAPER),
}
STUBBORN = {  # these play one arm for ever, and leave the ridge alone in the directions nobody ever saw
    "linlcb": LinLCB(confidence=PAPER),
    "greedy": Greedy(confidence=PAPER),
}


@pytest.mark.parametrize("rounds", [100_000, pytest.param(MILLION, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*EXPLORERS, *STUBBORN])
def test_many_rounds_on_a_rank_deficient_log_lose_no_digits(name: str, rounds: int) -> None:
    bandit, offline = problem(0, k=9, d=5, m=90, arms=3)
    agent = {**EXPLORERS, **STUBBORN}[name].start(bandit.actions, offline, rng=0)
    counts, sums = play(agent, bandit, offline, rounds)
    assert_exact(agent, counts, sums)
    assert agent.rounds == agent.rewards == rounds
    V, inverse = (agent.running.estimate.square[row] for row in (kernels.GRAM, kernels.INVERSE))
    np.testing.assert_array_equal(inverse, inverse.T)
    if name in EXPLORERS:
        np.testing.assert_allclose(V @ inverse, np.eye(5), atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-4, 1.0])
@pytest.mark.parametrize("arms", [2, 8])
@pytest.mark.parametrize("rounds", [1, 7, 511, 512, 513, 2047, 2048, 5000])
@pytest.mark.few(8)
def test_between_refreshes_no_digits_are_lost_either(ridge: float, arms: int, rounds: int) -> None:
    bandit, offline = problem(3, k=9, d=6, m=40, arms=arms)
    for policy in (LinUCB, LinTS, LinLCB):
        agent = policy(confidence=Confidence(ridge=ridge)).start(bandit.actions, offline, rng=0)
        assert_exact(agent, *play(agent, bandit, offline, rounds))


def test_the_factor_is_that_of_v_while_thompson_samples() -> None:
    bandit, offline = problem(4, k=9, d=5, m=90, arms=3)
    agent = LinTS(confidence=PAPER).start(bandit.actions, offline, rng=0)
    for rounds in (1, 10, 400, 513, 5000):
        play(agent, bandit, offline, rounds)
        factor, V = agent.running.state.square[kernels.FACTOR], agent.running.state.square[kernels.GRAM]
        np.testing.assert_allclose(factor.T @ factor, V, atol=1e-12 * V.max())
        np.testing.assert_array_equal(factor, np.triu(factor))


def test_a_refresh_is_never_far_away() -> None:
    bandit, offline = problem(5)
    for policy, every in ((LinUCB(), kernels.REFRESH_WHITENED), (LinTS(), kernels.REFRESH_EVERY)):
        agent = policy.start(bandit.actions, offline, rng=0)
        since = []
        for _ in range(2 * every + 76):
            agent.update(agent.select(), 0.0)
            since.append(int(agent.running.run["since_refresh"]))
        assert max(since) < every
        assert since.count(0) >= 2


def test_a_leap_into_an_unseen_direction_refreshes_at_once() -> None:
    offline = Offline(pulls=[50, 0], reward_sums=[10.0, 0.0])
    actions = np.array([[0.6, 0.8], [-0.8, 0.6]])  # one-hot arms take no steps
    agent = LinUCB(scale=1.0, confidence=PAPER).start(actions, offline)
    agent.update(0, 0.2)
    assert agent.running.run["since_refresh"] == 1
    agent.update(1, 0.2)  # its variance falls from 1e4 to 1: four digits in one step
    assert agent.running.run["since_refresh"] == 0


# -- ill-conditioned starts


def finite(agent: Agent) -> bool:
    """Whether everything the agent knows is a number."""
    state, run = agent.running.state, agent.running.run
    numbers = [
        state.square,
        state.vectors,
        state.arms[: kernels.SCORE],
        run["radius"],
        run["log_det"],
        agent.ucb,
    ]
    return all(np.isfinite(part).all() for part in numbers)


ILL = {
    "a billion pulls of one arm": lambda A: (A, [10**9] + [0] * (len(A) - 1)),
    "a billion pulls of two arms": lambda A: (A, [10**9, 10**9] + [0] * (len(A) - 2)),
    "huge actions": lambda A: (1e6 * A, [3] * len(A)),
    "tiny actions": lambda A: (1e-6 * A, [3] * len(A)),
    "huge and tiny features": lambda A: (A * np.logspace(-6, 6, A.shape[1]), [3] * len(A)),
    "duplicated arms": lambda A: (np.repeat(A[:3], 3, axis=0), [5] * 9),
    "nearly duplicated arms": lambda A: (A[0] + 1e-9 * A, [1000] * len(A)),
    "a zero action": lambda A: (np.vstack([np.zeros(A.shape[1]), A[1:]]), [4] * len(A)),
    "only zero actions": lambda A: (0 * A, [4] * len(A)),
    "an unseen space": lambda A: (A, [0] * len(A)),
}
RECKLESS = {
    "linoto": lambda c: LinOtO(confidence=c),
    "linoto-aggregate": lambda c: LinOtO(confidence=c, budget="aggregate"),
    "linoto-max": lambda c: LinOtO(confidence=c, budget="max"),
    "thompson": lambda c: LinTS(confidence=c),
    "linlcb": lambda c: LinLCB(confidence=c),
}


@pytest.mark.parametrize("radius", ["paper", "hkz", "self_normalised"])
@pytest.mark.parametrize("ridge", [1e-12, 1e-4, None])
@pytest.mark.parametrize("start", ILL)
@pytest.mark.few(18)
def test_an_ill_conditioned_start_never_gives_a_nan(start: str, ridge: float | None, radius: Any) -> None:
    rng = np.random.default_rng(6)
    actions, pulls = ILL[start](rng.standard_normal((9, 4)))
    rewards = np.where(np.array(pulls) > 0, np.array(pulls) * rng.standard_normal(9), 0.0)
    offline = Offline(pulls=pulls, reward_sums=rewards)
    for make in RECKLESS.values():
        agent = make(Confidence(ridge=ridge, radius=radius)).start(actions, offline, rng=0)
        assert finite(agent)
        for t in range(40):
            decision = agent.decide()
            assert decision.budget is None or not np.isnan(decision.budget)
            agent.update(t % 9 if t % 2 else decision.arm, float(rng.standard_normal()))
            assert finite(agent), t
        agent.play(np.zeros(9), rng.standard_normal(600))
        assert finite(agent)
        assert (agent.running.state.arms[kernels.VARIANCE] >= 0).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_units_of_the_features_change_no_decision(scale: float) -> None:
    bandit, offline = problem(7)
    noise = np.random.default_rng(8).standard_normal(1000)
    for plain, scaled in (
        (
            LinUCB(scale=1.0),
            LinUCB(scale=1.0, confidence=Confidence(bound=1 / scale)),
        ),  # ridge None: noise^2 d / bound^2
        (LinOtO(), LinOtO(confidence=Confidence(radius="paper", ridge=1e-4 * scale**2))),
    ):
        arms, _ = plain.start(bandit.actions, offline).play(bandit.means, noise)
        again, _ = scaled.start(scale * bandit.actions, offline).play(bandit.means, noise)
        np.testing.assert_array_equal(arms, again)


def test_one_hot_arms_have_the_widths_of_independent_arms() -> None:
    pulls = np.array([10**9, 0, 7])
    offline = Offline(pulls=pulls, reward_sums=[5e8, 0.0, 3.0])
    agent = LinUCB(scale=1.0, confidence=Confidence(ridge=1e-12)).start(np.eye(3), offline)
    np.testing.assert_allclose(agent.running.state.arms[kernels.VARIANCE], 1 / (pulls + 1e-12), rtol=1e-14)
    np.testing.assert_allclose(agent.theta, [0.5, 0.0, 3 / 7], rtol=1e-9)


# -- the building blocks


@st.composite
def shapes_and_seeds(draw: st.DrawFn) -> tuple[int, int, np.random.Generator]:
    """d in 1..9 (every remainder of the unrolled loops, twice), k in 1..17, and a generator."""
    d, k = draw(st.integers(1, 9)), draw(st.integers(1, 17))
    return d, k, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@LAWS
@given(shapes_and_seeds())
def test_dot_is_the_inner_product(case: tuple[int, int, np.random.Generator]) -> None:
    d, _, rng = case
    x, y = rng.standard_normal((2, d))
    assert estimate.dot(x, y) == pytest.approx(x @ y, abs=1e-14 * d)


@LAWS
@given(shapes_and_seeds())
def test_combine_is_a_product_of_a_vector_and_a_matrix(case: tuple[int, int, np.random.Generator]) -> None:
    d, k, rng = case
    rows, weights, out = rng.standard_normal((d, k)), rng.standard_normal(d), rng.standard_normal(k)
    estimate.combine(rows, weights, out)
    np.testing.assert_allclose(out, weights @ rows, atol=1e-14 * d)


@LAWS
@given(shapes_and_seeds(), st.floats(1e-6, 1e6))
def test_update_factor_adds_a_row_to_the_least_squares(
    case: tuple[int, int, np.random.Generator], size: float
) -> None:
    d, k, rng = case
    points, x, y = rng.standard_normal((k, d)), size * rng.standard_normal(d), float(rng.standard_normal())
    gram, target = points.T @ points + np.eye(d), rng.standard_normal(d)
    factor = np.ascontiguousarray(np.linalg.cholesky(gram).T)
    half = np.linalg.solve(factor.T, target)
    from_python(estimate.update_factor)(factor, half, x.copy(), y, 0, d)
    total = gram + np.outer(x, x)
    np.testing.assert_allclose(factor.T @ factor, total, atol=1e-13 * np.abs(total).max() * d)
    np.testing.assert_allclose(factor.T @ half, target + y * x, atol=1e-12 * (1 + size) * d)
    np.testing.assert_array_equal(factor, np.triu(factor))


@LAWS
@given(shapes_and_seeds())
def test_best_is_the_first_of_the_largest(case: tuple[int, int, np.random.Generator]) -> None:
    _, k, rng = case
    values = rng.integers(0, 3, k).astype(np.float64)
    assert from_python(explorers.best)(values) == values.argmax()
