"""Radii as their papers write them, and the ellipsoid they belong to."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from helpers.problems import LAWS, problem
from hypothesis import given
from hypothesis import strategies as st

from linoto import PAPER, Agent, Confidence, Ellipsoid, LinOtO, LinTS, LinUCB, Offline

RADII = ("paper", "hkz", "self_normalised")


def radius_of(agent: Agent) -> float:
    return agent.ellipsoid.radius


def started(seed: int = 1, *, k: int = 20, d: int = 5, arms: int = 8, **confidence: Any) -> Agent:
    bandit, offline = problem(seed, k=k, d=d, arms=arms)
    return LinUCB(scale=1.0, confidence=Confidence(**confidence)).start(bandit.actions, offline)


def log_det(agent: Agent) -> float:
    return float(np.linalg.slogdet(agent.ellipsoid.V)[1])


# -- radii


def test_the_paper_radius_is_proposition_1() -> None:
    delta, d = 0.03, 5
    agent = started(radius="paper", ridge=1e-4, delta=delta)
    at_start = log_det(agent)
    beta_off = 8 * d * log(6) + 8 * log(2 / delta)
    assert radius_of(agent) == pytest.approx(sqrt(beta_off), rel=1e-12), "beta_1 = 0"
    for t in range(2, 60):
        agent.update(t % 20, 0.1 * t)
        beta_t = 2 * log(2 / delta) + log_det(agent) - at_start
        assert radius_of(agent) == pytest.approx(sqrt(beta_off) + sqrt(beta_t), rel=1e-9)


def test_the_paper_radius_knows_nothing_of_the_ridge_and_the_bound() -> None:
    radii = {
        radius_of(started(radius="paper", ridge=ridge, bound=bound))
        for ridge in (1e-4, 1.0)
        for bound in (1, 9)
    }
    assert len(radii) == 1


@pytest.mark.parametrize("arms", [2, 8])
def test_the_hkz_radius_is_the_tail_of_a_quadratic_form(arms: int) -> None:
    delta, ridge, noise, bound = 0.03, 0.2, 0.7, 1.3
    bandit, offline = problem(2, arms=arms)
    agent = LinUCB(
        confidence=Confidence(radius="hkz", delta=delta, ridge=ridge, noise=noise, bound=bound)
    ).start(bandit.actions, offline)
    rows = np.repeat(bandit.actions, offline.pulls, axis=0)
    hat = rows @ np.linalg.inv(rows.T @ rows + ridge * np.eye(5)) @ rows.T  # its spectrum is f, and zeros
    level = log(2 / delta)
    trace, square, largest = np.trace(hat), np.trace(hat @ hat), np.linalg.norm(hat, 2)
    offline_part = noise * sqrt(trace + 2 * sqrt(level * square) + 2 * level * largest)
    bias, at_start = sqrt(ridge) * bound, log_det(agent)
    assert radius_of(agent) == pytest.approx(offline_part + bias, rel=1e-9), "beta_1 = 0"
    for t in range(2, 30):
        agent.update(t % 20, 0.1 * t)
        online = noise * sqrt(2 * level + log_det(agent) - at_start)
        assert radius_of(agent) == pytest.approx(offline_part + online + bias, rel=1e-9)


def test_the_hkz_radius_depends_on_the_rank_of_the_log_and_not_on_the_dimension() -> None:
    level, ridge = log(2 / 0.05), 1e-8  # with no ridge to speak of, f is 1 in every direction seen
    for rank in range(1, 7):
        for d in (6, 12):
            pulls = np.where(np.arange(d) < rank, 1000, 0)
            agent = LinUCB(scale=1.0, confidence=Confidence(radius="hkz", ridge=ridge)).start(
                np.eye(d), Offline(pulls=pulls, reward_sums=0 * pulls)
            )
            expected = sqrt(rank + 2 * sqrt(level * rank) + 2 * level) + sqrt(ridge)
            assert radius_of(agent) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_the_hkz_radius_is_below_the_papers(d: int, delta: float) -> None:
    pulls = np.full(d, 10**6)
    for ridge in (1e-4, 1.0):
        radii = [
            radius_of(
                LinUCB(scale=1.0, confidence=Confidence(radius=radius, ridge=ridge, delta=delta)).start(
                    np.eye(d), Offline(pulls=pulls, reward_sums=0.0 * pulls)
                )
            )
            for radius in ("hkz", "paper")
        ]
        assert radii[0] < radii[1]


def test_the_self_normalised_radius_counts_the_log_from_the_ridge_on() -> None:
    delta, ridge, noise, bound, d = 0.03, 0.4, 0.7, 1.3, 5
    agent = started(radius="self_normalised", delta=delta, ridge=ridge, noise=noise, bound=bound)
    for t in range(30):
        beta = 2 * log(1 / delta) + log_det(agent) - d * log(ridge)
        assert radius_of(agent) == pytest.approx(noise * sqrt(beta) + sqrt(ridge) * bound, rel=1e-9)
        agent.update(t % 20, 0.1 * t)


def test_to_the_self_normalised_radius_a_log_is_as_good_as_the_same_rounds_online() -> None:
    bandit, _ = problem(3)
    rng = np.random.default_rng(4)
    arms, rewards = rng.integers(0, 20, 50), rng.standard_normal(50)
    policy = LinUCB(scale=1.0)
    logged = policy.start(bandit.actions, Offline.from_rows(arms, rewards, k=20))
    lived = policy.start(bandit.actions, Offline.empty(20))
    for arm, reward in zip(arms, rewards, strict=True):
        lived.update(arm, reward)
    np.testing.assert_allclose(logged.theta, lived.theta, rtol=1e-9)
    np.testing.assert_allclose(logged.ucb, lived.ucb, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 5, 20])
def test_the_default_ridge_is_the_prior_variance_of_a_coordinate(d: int) -> None:
    assert Confidence(noise=0.5, bound=2.0).ridge_for(d) == pytest.approx(0.5**2 * d / 2.0**2)
    assert Confidence(ridge=0.3).ridge_for(d) == 0.3
    agent = LinUCB(scale=1.0, confidence=Confidence(noise=0.5, bound=2.0)).start(np.eye(d), Offline.empty(d))
    np.testing.assert_allclose(agent.ellipsoid.V, Confidence(noise=0.5, bound=2.0).ridge_for(d) * np.eye(d))


def test_the_papers_preset_is_the_papers() -> None:
    assert (PAPER.radius, PAPER.ridge, PAPER.noise, LinOtO().confidence) == ("paper", 1e-4, 1.0, PAPER)


@pytest.mark.parametrize("radius", RADII)
def test_a_smaller_delta_gives_a_larger_radius(radius: Any) -> None:
    for played in (0, 10):
        radii = []
        for delta in (0.5, 0.1, 0.01, 1e-9):
            agent = started(radius=radius, delta=delta, ridge=1.0)
            for arm in range(played):
                agent.update(arm, 0.0)
            radii.append(radius_of(agent))
        assert radii == sorted(radii)
        assert len(set(radii)) == 4


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("c", [1e-3, 7.0])
def test_the_unit_of_reward_scales_every_bound_and_changes_no_decision(radius: Any, c: float) -> None:
    bandit, offline = problem(5)
    noise = np.random.default_rng(6).standard_normal(400)
    plain = Confidence(radius=radius, ridge=0.5)
    scaled = Confidence(radius=radius, ridge=0.5, noise=c, bound=c)
    other = Offline(pulls=offline.pulls, reward_sums=c * offline.reward_sums)
    for make in (
        lambda confidence: LinOtO(alpha=0.05, confidence=confidence),
        lambda confidence: LinTS(confidence=confidence),
    ):
        one, two = (
            make(plain).start(bandit.actions, offline, rng=0),
            make(scaled).start(bandit.actions, other, rng=0),
        )
        arms, _ = one.play(bandit.means, noise)
        again, _ = two.play(c * bandit.means, c * noise)
        np.testing.assert_array_equal(arms, again)
        for name in ("theta", "lcb", "ucb", "baseline"):
            np.testing.assert_allclose(getattr(two, name), c * getattr(one, name), rtol=1e-9)


# -- refusals


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("delta", value) for value in (0, 1, -0.1, 1.5, float("nan"), "0.05", None, True)),
        *((name, value) for name in ("ridge", "noise", "bound") for value in (0, -1.0, np.inf, np.nan, "1")),
        ("noise", None),
        ("bound", None),
        ("radius", "ellipse"),
        ("design", "random"),
        *(("reward_range", value) for value in ((1, 0), (0, 0), (0,), (0, 1, 2), (0, np.inf), "ab")),
    ],
)
def test_a_bad_confidence_is_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=argument):
        Confidence(**{argument: value})


@pytest.mark.parametrize("radius", ["paper", "hkz"])
def test_an_adaptive_design_refuses_radii_that_need_a_fixed_one(radius: Any) -> None:
    with pytest.raises(ValueError, match=r"radius.*adaptive"):
        Confidence(radius=radius, design="adaptive")
    assert Confidence(design="adaptive").radius == "self_normalised"


# -- the ellipsoid


Case = tuple[Ellipsoid, np.random.Generator]


@st.composite
def ellipsoids(draw: st.DrawFn) -> Case:
    d, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    radius = draw(st.floats(1e-3, 10))
    return Ellipsoid(center=rng.standard_normal(d), V=root @ root.T + 0.1 * np.eye(d), radius=radius), rng


def boundary(ball: Ellipsoid, rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, d) points on its surface."""
    directions = rng.standard_normal((n, ball.center.size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return ball.center + ball.radius * np.linalg.solve(np.linalg.cholesky(ball.V).T, directions.T).T


@LAWS
@given(ellipsoids())
def test_no_point_of_the_set_beats_its_bounds(case: Case) -> None:
    ball, rng = case
    x = rng.standard_normal(ball.center.size)
    values = boundary(ball, rng, 200) @ x
    slack = 1e-9 * (1 + ball.radius)
    assert ball.lower(x) - slack <= values.min() <= values.max() <= ball.upper(x) + slack


@LAWS
@given(ellipsoids())
def test_the_bounds_are_attained_inside_the_set(case: Case) -> None:
    ball, rng = case
    x = rng.standard_normal(ball.center.size)
    image = np.linalg.solve(ball.V, x)
    step = ball.radius * image / sqrt(x @ image)
    for theta, bound in ((ball.center + step, ball.upper(x)), (ball.center - step, ball.lower(x))):
        assert theta @ x == pytest.approx(bound, abs=1e-9 * (1 + ball.radius))
        assert ball.contains(ball.center + (1 - 1e-9) * (theta - ball.center))


@LAWS
@given(ellipsoids())
def test_the_set_contains_what_is_inside_and_nothing_else(
    case: Case,
) -> None:
    ball, rng = case
    surface = boundary(ball, rng, 20)
    assert ball.contains(ball.center)
    for theta in surface:
        assert ball.contains(ball.center + 0.999 * (theta - ball.center))
        assert not ball.contains(ball.center + 1.001 * (theta - ball.center))


@LAWS
@given(ellipsoids())
def test_the_bounds_of_minus_x_are_those_of_x_turned_round(
    case: Case,
) -> None:
    ball, rng = case
    x = rng.standard_normal(ball.center.size)
    assert ball.lower(-x) == pytest.approx(-ball.upper(x))
    assert ball.lower(0 * x) == ball.upper(0 * x) == 0


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("arms", [2, 8])
def test_the_agents_ellipsoid_gives_the_agents_bounds(radius: Any, arms: int) -> None:
    agent = started(arms=arms, radius=radius, ridge=0.01)
    rng = np.random.default_rng(7)
    for t in range(30):
        ball = agent.ellipsoid
        np.testing.assert_allclose(agent.ucb, [ball.upper(a) for a in agent.actions], rtol=1e-8)
        lower = np.array([ball.lower(a) for a in agent.actions])
        if t == 0:
            np.testing.assert_allclose(agent.lcb, lower, rtol=1e-8)
        assert (agent.lcb >= lower - 1e-8 * np.abs(lower)).all(), "the running maximum"
        agent.update(int(rng.integers(20)), rng.standard_normal())


def test_an_ellipsoid_is_a_copy() -> None:
    agent = started()
    ball = agent.ellipsoid
    before = ball.V.copy(), ball.center.copy()
    agent.update(0, 5.0)
    np.testing.assert_array_equal(ball.V, before[0])
    np.testing.assert_array_equal(ball.center, before[1])


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("center", {"center": [[1.0, 2.0]]}),
        ("center", {"center": [1.0, np.nan]}),
        ("V", {"V": np.eye(3)}),
        ("V", {"V": [1.0, 2.0]}),
        ("V", {"V": [[1.0, np.inf], [0.0, 1.0]]}),
        *(("radius", {"radius": value}) for value in (-1.0, np.nan, np.inf, "1")),
    ],
)
def test_a_bad_ellipsoid_is_refused_by_name(argument: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=argument):
        Ellipsoid(**{"center": [0.0, 0.0], "V": np.eye(2), "radius": 1.0, **change})


def test_questions_of_the_wrong_size_are_refused() -> None:
    ball = Ellipsoid(center=[0.0, 0.0], V=np.eye(2), radius=1.0)
    for ask in (ball.lower, ball.upper):
        with pytest.raises(ValueError, match="x must have 2 entries, got 3"):
            ask([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="theta must have 2 entries, got 1"):
        ball.contains([1.0])
