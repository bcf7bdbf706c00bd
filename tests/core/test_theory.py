"""Every bound against what it bounds: lemmas on random instances, theorems on runs, constants where tight."""

from dataclasses import replace
from math import inf, log, pi, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linoto.core import theory
from linoto.core.confidence import PAPER, Confidence
from linoto.core.gates import Budget
from linoto.core.offline import Offline
from linoto.core.policies import Gated, LinLCB, LinOtO, LinUCB
from linoto.core.theory import Problem
from linoto.worlds.bandits import LinearBandit, logged_pulls, on_sphere, sphere_bandit
from linoto.worlds.simulate import simulate

Floats = npt.NDArray[np.float64]
ROUNDING = 1 + 1e-9
seeds = st.integers(0, 2**32 - 1)
RADII = [
    PAPER,
    Confidence(),
    Confidence(radius="hkz", ridge=0.1, noise=0.3, bound=2.0),
    Confidence(radius="paper", ridge=2.0, noise=0.5, delta=0.5),
]


# -- instances


def random_world(rng: np.random.Generator, *, noise: float = 1.0) -> LinearBandit:
    """A few arms of different lengths up to 1, in up to five dimensions, with a parameter inside the ball."""
    d, k = int(rng.integers(1, 6)), int(rng.integers(2, 9))
    lengths = rng.uniform(0.2, 1.0, size=(k, 1))
    theta = on_sphere(1, d, rng)[0] * rng.uniform(0.1, 1.0)
    return LinearBandit(actions=on_sphere(k, d, rng) * lengths, theta=theta, noise=noise)


def random_log(bandit: LinearBandit, rng: np.random.Generator) -> Offline:
    """Anything from one row to thousands, over some of the arms."""
    k = len(bandit.actions)
    pulls = rng.integers(0, int(10 ** rng.uniform(0.5, 3.5)), size=k) * rng.integers(0, 2, size=k)
    pulls[rng.integers(k)] += 1
    return bandit.log(pulls, rng)


def random_spectrum(rng: np.random.Generator) -> Floats:
    return 10 ** rng.uniform(-4, 4, size=int(rng.integers(1, 9)))


LINE = np.array([[1.0], [0.0]])  # two arms in one dimension; the second pays nothing and teaches nothing


def edge_log(mean: float, *, side: int, pulls: int = 10**6) -> Offline:
    """A log of the first arm of LINE that is as wrong as the good event allows: theta* on the edge of C_1.

    The estimate is too low for side -1, too high for +1; one part in 1e9 inside, for the rounding.
    """
    radius = Problem.of(LINE, Offline(pulls=[pulls, 0], reward_sums=[0.0, 0.0])).first_radius
    V = pulls + PAPER.ridge_for(1)
    return Offline(pulls=[pulls, 0], reward_sums=[V * mean + side * radius * sqrt(V) * (1 - 1e-9), 0.0])


LINE_PROBLEM = Problem.of(LINE, edge_log(0.0, side=1))
INSIDE = 1 - 1e-6


# -- the good event, computed from scratch


def on_good_event(
    bandit: LinearBandit, offline: Offline, noise: Floats, arms: npt.NDArray[np.int64], confidence: Confidence
) -> bool:
    """Whether theta* was in C_1, ..., C_n of this run, from the history and Proposition 1 alone."""
    actions, d, c = bandit.actions, bandit.actions.shape[1], confidence
    ridge = c.ridge_for(d)
    played = actions[arms[:-1]]  # C_t knows rounds before t
    rewards = bandit.means[arms[:-1]] + noise[:-1]
    first = actions.T @ np.diag(offline.pulls) @ actions + ridge * np.eye(d)
    V = first + np.concatenate(
        [np.zeros((1, d, d)), np.cumsum(played[:, :, None] * played[:, None, :], axis=0)]
    )
    b = actions.T @ offline.reward_sums + np.vstack(
        [np.zeros(d), np.cumsum(played * rewards[:, None], axis=0)]
    )  # (n, d)
    away = np.linalg.solve(V, b[:, :, None])[:, :, 0] - bandit.theta
    distance = np.sqrt(np.einsum("ti,tij,tj->t", away, V, away))
    log_det = np.linalg.slogdet(V)[1]
    if c.radius == "self_normalised":
        radius = c.noise * np.sqrt(2 * log(1 / c.delta) + log_det - d * log(ridge)) + sqrt(ridge) * c.bound
    else:
        beta = 2 * log(2 / c.delta) + log_det - log_det[0]
        beta[0] = 0.0
        radius = Problem.of(actions, offline, confidence=c).first_radius + c.noise * np.sqrt(beta)
    return bool((distance <= radius).all())


# -- the shared quantities are those of the running agent


@pytest.mark.parametrize("confidence", RADII)
@pytest.mark.parametrize("slack", ["paper", "coverage"])
def test_slack_baseline_and_radius_are_those_of_the_agent(confidence, slack):
    rng = np.random.default_rng(1)
    for _ in range(6):
        bandit = random_world(rng)
        offline = random_log(bandit, rng)
        problem = Problem.of(bandit.actions, offline, confidence=confidence, slack=slack, theta=bandit.theta)
        gated = Gated(gate=Budget(alpha=0.5, slack=slack), confidence=confidence)
        agent = gated.start(bandit.actions, offline)
        assert problem.first_radius == pytest.approx(agent.ellipsoid.radius)
        assert problem.baseline - 0.5 * problem.slack == pytest.approx(agent.baseline)
        assert problem.eigenvalues == pytest.approx(np.linalg.eigvalsh(agent.ellipsoid.V), rel=1e-6, abs=1e-9)
        pessimistic = int(agent.lcb.argmax())
        assert problem.gap == pytest.approx(bandit.means.max() - bandit.means[pessimistic])


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seeds)
def test_no_run_has_a_radius_above_the_worst_case(seed):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline, confidence = random_log(bandit, rng), RADII[seed % len(RADII)]
    problem = Problem.of(bandit.actions, offline, confidence=confidence)
    agent = LinUCB(scale=1.0, confidence=confidence).start(bandit.actions, offline)
    for n in range(1, 30):
        assert agent.ellipsoid.radius <= problem.radius(n) * ROUNDING
        arm = int(rng.integers(agent.k))
        agent.update(arm, rng.standard_normal())


# -- Lemma 5: the average width of the log


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seeds)
@pytest.mark.few(0)
def test_logged_widths_average_at_most_the_root_of_d_over_m(seed):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline = random_log(bandit, rng)
    confidence = replace(PAPER, ridge=10 ** rng.uniform(-6, 1))
    paper = Problem.of(bandit.actions, offline, confidence=confidence)
    coverage = Problem.of(bandit.actions, offline, confidence=confidence, slack="coverage")
    assert coverage.slack <= paper.slack * ROUNDING


def test_an_even_log_of_orthogonal_arms_attains_the_average_width():
    log_ = Offline(pulls=[50] * 4, reward_sums=[0.0] * 4)
    paper, coverage = (Problem.of(np.eye(4), log_, slack=slack) for slack in ("paper", "coverage"))
    assert coverage.slack == pytest.approx(paper.slack, rel=1e-5)


# -- the potential: how fast log det can grow


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seeds)
def test_log_det_grows_no_faster_than_water_and_water_no_faster_than_both_lines(seed):
    rng = np.random.default_rng(seed)
    eigenvalues, n, norm = random_spectrum(rng), int(rng.integers(1, 60)), 10 ** rng.uniform(-1, 1)
    d = eigenvalues.size
    actions = on_sphere(n, d, rng) * norm
    if seed % 2:  # a spread over few directions does most
        actions = norm * np.eye(d)[rng.integers(0, min(d, 3), size=n)]
    growth = np.linalg.slogdet(np.eye(d) + (actions / eigenvalues).T @ actions)[1]
    water = theory.log_det_growth(eigenvalues, rounds=n, norm=norm)
    assert growth <= water * ROUNDING + 1e-12
    assert water <= theory.potential_bound(eigenvalues, rounds=n, norm=norm) * ROUNDING
    assert water <= theory.effective_growth_bound(eigenvalues, rounds=n, norm=norm) * ROUNDING


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seeds)
def test_the_water_level_is_attained(seed):
    """Columns of a Hadamard matrix spread any share of the squared norms over n equally long actions."""
    rng = np.random.default_rng(seed)
    hadamard = np.ones((1, 1))
    for _ in range(3):
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    n, norm = 8, 10 ** rng.uniform(-1, 1)
    eigenvalues = np.sort(10 ** rng.uniform(-2, 2, size=int(rng.integers(1, 9))))
    low, high = 0.0, eigenvalues.max() + n * norm**2
    for _ in range(200):  # the level, by bisection
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(level - eigenvalues, 0).sum() < n * norm**2 else (low, level)
    share = np.maximum(low - eigenvalues, 0)
    actions = hadamard[:, : eigenvalues.size] * np.sqrt(share / n)
    assert np.linalg.norm(actions, axis=1) == pytest.approx(norm)
    growth = np.linalg.slogdet(np.eye(eigenvalues.size) + (actions / eigenvalues).T @ actions)[1]
    assert theory.log_det_growth(eigenvalues, rounds=n, norm=norm) == pytest.approx(growth)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seeds)
def test_clipped_widths_obey_the_elliptical_potential(seed):
    rng = np.random.default_rng(seed)
    eigenvalues, n = random_spectrum(rng), int(rng.integers(1, 60))
    d = eigenvalues.size
    V, widths = np.diag(eigenvalues), []
    for action in on_sphere(n, d, rng):
        widths.append(sqrt(action @ np.linalg.solve(V, action)))
        V = V + np.outer(action, action)
    clipped = np.minimum(1, widths)
    water = theory.log_det_growth(eigenvalues, rounds=n, norm=1.0)
    assert (clipped**2).sum() <= 2 * water * ROUNDING
    assert clipped.sum() <= sqrt(2 * n * water) * ROUNDING


@pytest.mark.parametrize("eigenvalues", [(1e-4, 1e4), (1.0, 100.0)])
def test_the_published_line_with_the_root_of_det_is_false_for_uneven_logs(eigenvalues):
    """One action along the weak direction. The second log is ordinary: one row there, a hundred elsewhere."""
    d, n, norm = 2, 1, 1.0
    published = d * log(1 + n * norm**2 / (d * sqrt(np.prod(eigenvalues))))
    growth = log(1 + 1 / eigenvalues[0])
    assert growth > 5 * published
    assert growth <= theory.potential_bound(eigenvalues, rounds=n, norm=norm)
    if eigenvalues == (1.0, 100.0):  # even the sum of clipped widths, here 1, is above its bound
        assert sqrt(2 * n * published) < 0.45
        assert sqrt(2 * n * theory.potential_bound(eigenvalues, rounds=n, norm=norm)) > 1


# -- the effective dimension


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seeds)
def test_effective_dimension_grows_with_the_horizon_up_to_d(seed):
    rng = np.random.default_rng(seed)
    eigenvalues = random_spectrum(rng)
    over = [theory.effective_dimension(eigenvalues, rounds=10**p, norm=1.0) for p in range(13)]
    assert over == sorted(over) and over[0] >= 1 and over[-1] == eigenvalues.size


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seeds)
def test_effective_dimension_is_its_definition_in_any_order(seed):
    rng = np.random.default_rng(seed)
    eigenvalues, n, norm = random_spectrum(rng), int(rng.integers(1, 10**5)), 10 ** rng.uniform(-1, 1)
    ascending = sorted(eigenvalues)
    most = n * norm**2 / log(1 + n * norm**2 / ascending[0])
    fits = [i for i in range(1, len(ascending) + 1) if (i - 1) * ascending[i - 1] <= most]
    assert theory.effective_dimension(rng.permutation(eigenvalues), rounds=n, norm=norm) == max(fits)
    assert fits == list(range(1, max(fits) + 1))


@pytest.mark.parametrize(("d", "depth", "ratio"), [(2, 5, 1.11), (100, 20, 1.7), (2000, 80, 1.9)])
def test_without_its_factor_two_the_effective_dimension_bounds_nothing(d, depth, ratio):
    """One weak direction, d - 1 that just miss being counted: d_eff = 1, yet they take half of the growth.

    The ratio tends to 2, so no smaller constant than sqrt(16) comes out of this argument.
    """
    n = d
    eigenvalues = np.full(d, 1.0001 * n / depth)
    eigenvalues[0] = n / np.expm1(depth)  # log(1 + n / lambda_1) = depth
    growth = theory.log_det_growth(eigenvalues, rounds=n, norm=1.0)
    bound = theory.effective_growth_bound(eigenvalues, rounds=n, norm=1.0)
    assert theory.effective_dimension(eigenvalues, rounds=n, norm=1.0) == 1
    assert ratio * (bound / 2) < growth <= bound


# -- Lemma 1, the monotone bounds and the budget, round by round


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seeds)
def test_every_safe_play_earns_alpha_times_the_slack(seed):
    """Here and in the next test nothing is assumed of the good event: both are facts about the rule."""
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline, alpha = random_log(bandit, rng), 10 ** rng.uniform(-3, 1)
    agent = LinOtO(alpha=alpha).start(bandit.actions, offline)
    earned = alpha * Problem.of(bandit.actions, offline).slack
    realised = 0.0  # B_+(t), what all plays so far are worth above t r_b
    plays = np.zeros(agent.k)
    for t in range(1, 60):
        before, decision = agent.lcb, agent.decide()
        agent.update(decision, bandit.means[decision.arm] + rng.standard_normal())
        plays[decision.arm] += 1
        now = float(plays @ before) - t * agent.baseline
        tolerance = 1e-9 * (1 + abs(t * agent.baseline))
        assert now >= -tolerance
        if decision.mode == "safe":
            assert before[decision.arm] - agent.baseline >= earned - tolerance
            assert now >= realised + earned - tolerance
        realised = now


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seeds)
def test_lower_bounds_never_fall(seed):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    agent = LinOtO(alpha=0.1).start(bandit.actions, random_log(bandit, rng))
    for _ in range(40):
        before, arm = agent.lcb, agent.select()
        agent.update(arm, bandit.means[arm] + 3 * rng.standard_normal())
        assert (agent.lcb >= before).all()


# -- the theorems on runs


def run_and_check(seed: int, rounds: int = 300) -> bool:
    """Play LinOtO and LinLCB in a random world; on the good event hold every bound against the run.

    The bounds follow from the event by algebra, so the false-alarm rate is 0. Large delta makes them sharp:
    the event fails often, and the runs in which it holds are close to its edge.
    """
    rng = np.random.default_rng(seed)
    sigma = float(rng.choice([0.1, 1.0]))
    bandit = random_world(rng, noise=sigma)
    offline = random_log(bandit, rng)
    confidence = Confidence(
        radius=str(rng.choice(["paper", "hkz", "self_normalised"])),  # type: ignore[arg-type]
        delta=float(rng.choice([0.05, 0.9, 0.999])),
        ridge=float(10 ** rng.uniform(-4, 1)),
        noise=sigma,
    )
    alpha = float(rng.choice([0.0, 1e-4, 0.03, 0.3, 1.0, 10.0]))
    form = str(rng.choice(["exact", "max"]))
    noise = sigma * rng.standard_normal(rounds)
    problem = Problem.of(bandit.actions, offline, confidence=confidence, theta=bandit.theta)
    at_all = np.arange(1, rounds + 1)

    oto = LinOtO(alpha=alpha, budget=form, confidence=confidence)  # type: ignore[arg-type]
    run = simulate(oto, bandit, offline, noise=noise)
    good = on_good_event(bandit, offline, noise, run.arms, confidence)
    if good:
        assert (run.offline_regret <= (alpha + 2) * problem.slack * at_all + 1e-9).all()
        for n in (1, 2, 10, 50, rounds):
            found = theory.all_bounds(problem, alpha=alpha, rounds=n)
            assert (~run.explored[:n]).sum() <= found.lcb_rounds
            assert run.regret[n - 1] <= min(found.regret, found.covered_regret) + 1e-9
            assert run.offline_regret[n - 1] <= found.offline_regret <= found.published_offline_regret
        safe = run.arms[~run.explored]
        assert (
            bandit.means.max() - bandit.means[safe] <= theory.lcb_suboptimality_bound(problem) + 1e-9
        ).all()

    lcb = simulate(LinLCB(confidence=confidence), bandit, offline, noise=noise)
    if on_good_event(bandit, offline, noise, lcb.arms, confidence):
        reference = float(offline.pulls @ bandit.means) / offline.total
        assert (
            reference - bandit.means[lcb.arms] <= theory.lcb_shortfall_bound(slack=problem.slack) + 1e-9
        ).all()
        assert (lcb.offline_regret <= 2 * problem.slack * at_all + 1e-9).all()

    ucb = simulate(LinUCB(scale=1.0, confidence=confidence), bandit, offline, noise=noise)
    if on_good_event(bandit, offline, noise, ucb.arms, confidence):
        for n in (1, 2, 10, 50, rounds):
            assert ucb.regret[n - 1] <= theory.ucb_regret_bound(problem, rounds=n) + 1e-9
    return good


def test_no_run_on_the_good_event_breaks_a_bound():
    assert sum(run_and_check(seed) for seed in range(120)) >= 75


@pytest.mark.slow
def test_no_run_of_many_on_the_good_event_breaks_a_bound():
    assert sum(run_and_check(seed, rounds=600) for seed in range(1000, 4000)) >= 1800


def test_no_explorer_breaks_the_offline_bound():
    """Whoever proposes the worst arm every round is let through only while (alpha + 2) S t allows it."""
    checked = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        bandit = random_world(rng, noise=0.1)
        offline, alpha = random_log(bandit, rng), float(rng.choice([0.0, 0.1, 1.0, 5.0]))
        confidence = Confidence(noise=0.1, delta=0.9)
        slack = Problem.of(bandit.actions, offline, confidence=confidence).slack
        agent = LinOtO(
            alpha=alpha, confidence=confidence, budget=("exact", "aggregate", "max")[seed % 3]
        ).start(bandit.actions, offline)
        reference, worst = float(offline.pulls @ bandit.means) / offline.total, int(bandit.means.argmin())
        regret, good = 0.0, True
        for t in range(1, 121):
            good = good and agent.ellipsoid.contains(bandit.theta)
            arm = agent.guard(worst).arm
            regret += reference - bandit.means[arm]
            if good:
                assert regret <= theory.offline_regret_bound(alpha=alpha, slack=slack, rounds=t) + 1e-9
            agent.update(arm, bandit.means[arm] + 0.1 * rng.standard_normal())
        checked += good
    assert checked >= 16


# -- where the constants are tight: each of these fails if one is made smaller


def test_the_offline_bound_is_attained():
    """Somebody proposes the second arm for ever: R_t^off is (alpha + 2) S t within one part in 500,000."""
    alpha, slack = 10.0, LINE_PROBLEM.slack
    mean = (alpha + 2) * slack * INSIDE
    agent = LinOtO(alpha=alpha).start(LINE, edge_log(mean, side=-1))
    for t in range(1, 201):
        assert agent.ellipsoid.contains([mean])
        assert agent.guard(1).arm == 1
        bound = theory.offline_regret_bound(alpha=alpha, slack=slack, rounds=t)
        assert (1 - 2e-6) * bound <= t * mean <= bound
        agent.update(1, 0.0)


def test_the_pessimistic_bounds_are_attained():
    """LinLCB prefers a certain 0 to nearly 2 S: Lemma 1 and Propositions 2 and 3 are equalities."""
    mean = 2 * LINE_PROBLEM.slack * INSIDE
    bandit, offline = LinearBandit(actions=LINE, theta=[mean]), edge_log(mean, side=-1)
    problem = Problem.of(LINE, offline, theta=bandit.theta)
    run = simulate(LinLCB(confidence=PAPER), bandit, offline, noise=np.zeros(100))
    assert on_good_event(bandit, offline, np.zeros(100), run.arms, PAPER)
    assert run.regret[-1] == run.offline_regret[-1] == pytest.approx(100 * mean)
    for bound in (theory.lcb_shortfall_bound(slack=problem.slack), theory.lcb_suboptimality_bound(problem)):
        assert (1 - 2e-6) * bound <= mean <= bound
    bound = theory.lcb_offline_regret_bound(slack=problem.slack, rounds=100)
    assert (1 - 2e-6) * bound <= run.offline_regret[-1] <= bound


@pytest.mark.parametrize(("inside", "safe"), [(1 - 1e-5, True), (1 + 1e-5, False)])
def test_coverage_is_enough_exactly_from_its_condition_on(inside, safe):
    """Delta_off + alpha S just below 2 sqrt(rho_1) W, and the first round is played safe; just above, not."""
    alpha, widest = 1.5, LINE_PROBLEM.first_radius * LINE_PROBLEM.widest
    mean = (2 * widest - alpha * LINE_PROBLEM.slack) * inside  # Delta_off: the safe arm is the second
    offline = edge_log(mean, side=-1)
    problem = Problem.of(LINE, offline, theta=[mean])
    agent = LinOtO(alpha=alpha).start(LINE, offline)
    assert agent.ellipsoid.contains([mean]) and agent.decide().fallback == 1
    assert (agent.decide().mode == "safe") == safe
    assert theory.is_well_covered(problem, alpha=alpha, rounds=1) == (not safe)
    assert theory.lcb_rounds_bound(problem, alpha=alpha, rounds=1) == (1 if safe else 0)


def test_the_regret_of_a_well_covered_log_is_attained():
    """An arm 2 sqrt(rho_1) W below the other, overestimated as far as C_1 allows, is played at that price."""
    mean = -2 * LINE_PROBLEM.first_radius * LINE_PROBLEM.widest * INSIDE
    bandit, offline = LinearBandit(actions=LINE, theta=[mean]), edge_log(mean, side=1)
    run = simulate(LinOtO(alpha=2.1), bandit, offline, noise=np.zeros(1))
    assert on_good_event(bandit, offline, np.zeros(1), run.arms, PAPER)
    bound = theory.covered_regret_bound(Problem.of(LINE, offline, theta=[mean]), alpha=2.1, rounds=1)
    assert (1 - 2e-6) * bound <= run.regret[0] <= bound


def unlogged_direction() -> tuple[LinearBandit, Offline, Confidence, float]:
    """Arm 0 logged a million times, arm 1 never: its lower bound is 1 / sqrt(ridge) = 1e4 radii down."""
    bandit = LinearBandit(actions=np.eye(2), theta=[0.5, 0.4])
    confidence = Confidence(radius="paper", ridge=1e-8)
    offline = Offline(pulls=[10**6, 0], reward_sums=[0.5e6, 0.0])
    slack = Problem.of(bandit.actions, offline, confidence=confidence).slack
    return bandit, offline, confidence, 100.0 / slack  # alpha S = 100


def test_safe_rounds_exceed_the_bound_without_the_unplayed_proposal():
    """Error (a): the refused arm must be paid for before it is played, and its width is not clipped at 1."""
    bandit, offline, confidence, alpha = unlogged_direction()
    n = 4000
    problem = Problem.of(bandit.actions, offline, confidence=confidence, theta=bandit.theta)
    run = simulate(LinOtO(alpha=alpha, confidence=confidence), bandit, offline, noise=np.zeros(n))
    assert on_good_event(bandit, offline, np.zeros(n), run.arms, confidence)
    safe = int((~run.explored).sum())
    bound = theory.lcb_rounds_bound(problem, alpha=alpha, rounds=n)
    missing = theory.unplayed_deficit(problem, rounds=n) / (alpha * problem.slack)
    assert safe > 100 * (bound - missing)
    assert bound / 2.1 < safe <= bound < n


def test_the_first_proposal_of_the_papers_experiment_is_below_the_published_floor():
    """Error (a) in the paper's own setting: lcb_1(U_1) >= ucb_1(U_1) - 4 sqrt(rho_1) is false by far."""
    rng = np.random.default_rng(0)
    bandit = sphere_bandit(rng=rng)
    agent = LinOtO().start(bandit.actions, bandit.log(logged_pulls(bandit, rng=rng), rng))
    proposal = agent.decide().proposal
    assert agent.lcb[proposal] < agent.ucb[proposal] - 100 * agent.ellipsoid.radius


def test_a_round_costs_more_than_the_radius_where_noise_is_small():
    """sqrt(16 n rho_n ...) alone needs 2 sqrt(rho_n) >= the largest gap, as unit noise and [0, 1] ensure."""
    confidence = Confidence(noise=1e-6, ridge=1e-4)
    bandit = LinearBandit(actions=np.eye(2), theta=[0.0, -0.999], noise=0.0)
    offline = Offline(pulls=[100, 0], reward_sums=[0.0, 0.0])
    problem = Problem.of(bandit.actions, offline, confidence=confidence, theta=bandit.theta)
    run = simulate(LinUCB(scale=1.0, confidence=confidence), bandit, offline, noise=np.zeros(3))
    assert on_good_event(bandit, offline, np.zeros(3), run.arms, confidence)
    bound = theory.ucb_regret_bound(problem, rounds=1)
    published = bound * 2 * problem.radius(1) / problem.largest_gap
    assert published < 0.2 < 0.9 < run.regret[0] <= bound


# -- the bounds as functions


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seeds)
def test_safe_rounds_are_the_top_of_the_quadratic(seed):
    """Against every number of optimistic rounds, one by one."""
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline, alpha, n = random_log(bandit, rng), 10 ** rng.uniform(-2, 3), int(rng.integers(1, 400))
    problem = Problem.of(bandit.actions, offline, theta=bandit.theta)
    radius, gain = problem.radius(n), alpha * problem.slack
    worst = max(
        -(problem.gap + gain) * N
        + (problem.largest_gap + 2 * radius)
        * sqrt(2 * N * theory.log_det_growth(problem.eigenvalues, rounds=N, norm=problem.norm))
        for N in range(1, n + 1)
    ) + theory.unplayed_deficit(problem, rounds=n)
    bound = theory.lcb_rounds_bound(problem, alpha=alpha, rounds=n)
    if theory.is_well_covered(problem, alpha=alpha, rounds=n):
        assert bound == 0
    else:
        assert bound >= min(n, 0 if worst < 0 else 1 + worst / gain) * (1 - 1e-9)


def test_the_optimistic_part_has_the_constant_sixteen():
    rng = np.random.default_rng(3)
    bandit = sphere_bandit(rng=rng)
    problem = Problem.of(bandit.actions, bandit.log(logged_pulls(bandit, rng=rng), rng), theta=bandit.theta)
    n = 8000
    d_eff = theory.effective_dimension(problem.eigenvalues, rounds=n, norm=1.0)
    rho = problem.radius(n) ** 2
    expected = sqrt(16 * n * rho * d_eff * log(1 + n / problem.eigenvalues[0]))
    assert theory.ucb_regret_bound(problem, rounds=n) == pytest.approx(expected)


def test_theorem_1_is_its_two_parts():
    bandit, offline, confidence, alpha = unlogged_direction()
    problem = Problem.of(bandit.actions, offline, confidence=confidence, theta=bandit.theta)
    parts = theory.ucb_regret_bound(problem, rounds=500) + theory.lcb_rounds_bound(
        problem, alpha=alpha, rounds=500
    ) * theory.lcb_suboptimality_bound(problem)
    assert theory.regret_bound(problem, alpha=alpha, rounds=500) == pytest.approx(parts)


def test_theorem_2_as_published_is_twice_the_bound():
    sharp = theory.offline_regret_bound(alpha=0.3, slack=0.2, rounds=10)
    assert sharp == pytest.approx(4.6)
    assert theory.published_offline_regret_bound(alpha=0.3, slack=0.2, rounds=10) == pytest.approx(9.2)


def test_a_budget_that_cannot_be_spent_leaves_no_safe_round():
    """Not well covered, and still the quadratic is negative at its top."""
    confidence = Confidence(radius="hkz", ridge=0.01)
    problem = Problem.of(
        [[1.0], [0.001]], Offline(pulls=[0, 1], reward_sums=[0.0, 0.0]), confidence=confidence
    )
    alpha = 40 / problem.slack
    assert not theory.is_well_covered(problem, alpha=alpha, rounds=2)
    assert theory.lcb_rounds_bound(problem, alpha=alpha, rounds=2) == 0


def test_alpha_zero_bounds_no_number_of_safe_rounds():
    bandit, offline, confidence, _ = unlogged_direction()
    problem = Problem.of(bandit.actions, offline, confidence=confidence)
    assert theory.lcb_rounds_bound(problem, alpha=0.0, rounds=77) == 77


def test_a_well_covered_log_is_never_safe_and_has_a_bound_that_says_something():
    rng = np.random.default_rng(5)
    angles = np.arange(12) * pi / 6
    actions = np.column_stack([np.cos(angles), np.sin(angles)])
    bandit = LinearBandit(actions=actions, theta=[0.6, 0.3])
    offline = bandit.log(np.full(12, 20_000), rng)
    problem = Problem.of(actions, offline, theta=bandit.theta)
    n, alpha = 2000, 10.0
    assert theory.is_well_covered(problem, alpha=alpha, rounds=n)
    assert not theory.is_well_covered(problem, alpha=0.1, rounds=n)
    run = simulate(LinOtO(alpha=alpha), bandit, offline, horizon=n)
    bound = theory.covered_regret_bound(problem, alpha=alpha, rounds=n)
    assert run.explored.all() and theory.lcb_rounds_bound(problem, alpha=alpha, rounds=n) == 0
    assert run.regret[-1] <= bound < 0.1 * n * problem.largest_gap
    assert theory.covered_regret_bound(problem, alpha=0.1, rounds=n) == inf
    # The published form of this claim, n sqrt(rho_n d d_eff / m), is the weaker one.
    d_eff = theory.effective_dimension(problem.eigenvalues, rounds=n, norm=1.0)
    warm = sqrt(16 * n * problem.radius(n) ** 2 * d_eff * n / problem.eigenvalues[0])
    assert bound <= warm / 2 * ROUNDING


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seeds, st.floats(0.01, 100))
def test_bounds_scale_with_rewards_and_ignore_the_unit_of_the_features(seed, unit):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline, alpha, n = random_log(bandit, rng), float(rng.uniform(0, 5)), int(rng.integers(1, 1000))
    confidence = replace(RADII[seed % len(RADII)], ridge=float(10 ** rng.uniform(-3, 1)))
    assert confidence.ridge is not None

    def bounds_of(c: Confidence, actions: Floats, log_: Offline, theta: Floats) -> Floats:
        found = theory.all_bounds(Problem.of(actions, log_, confidence=c, theta=theta), alpha=alpha, rounds=n)
        rewards = [found.regret, found.offline_regret, found.lcb_suboptimality, found.slack, found.baseline]
        return np.array([*rewards, found.lcb_rounds, found.effective_dimension])

    plain = bounds_of(confidence, bandit.actions, offline, bandit.theta)
    richer = bounds_of(
        replace(confidence, noise=unit * confidence.noise, bound=unit * confidence.bound),
        bandit.actions,
        Offline(pulls=offline.pulls, reward_sums=unit * offline.reward_sums),
        unit * bandit.theta,
    )
    assert richer == pytest.approx(plain * np.array([unit] * 5 + [1] * 2), rel=1e-6)
    longer = bounds_of(
        replace(confidence, ridge=confidence.ridge * unit**2, bound=confidence.bound / unit),
        unit * bandit.actions,
        offline,
        bandit.theta / unit,
    )
    assert longer == pytest.approx(plain, rel=1e-6)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seeds)
def test_no_arm_is_wider_than_the_weakest_direction_allows(seed):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    problem = Problem.of(bandit.actions, random_log(bandit, rng), theta=bandit.theta)
    assert problem.best_width <= problem.widest <= problem.norm / sqrt(problem.eigenvalues[0]) * ROUNDING


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seeds)
def test_without_the_truth_no_bound_is_smaller(seed):
    rng = np.random.default_rng(seed)
    bandit = random_world(rng)
    offline, alpha, n = random_log(bandit, rng), float(rng.uniform(0, 5)), int(rng.integers(1, 1000))
    known = theory.all_bounds(Problem.of(bandit.actions, offline, theta=bandit.theta), alpha=alpha, rounds=n)
    unknown = theory.all_bounds(Problem.of(bandit.actions, offline), alpha=alpha, rounds=n)
    names = ("regret", "covered_regret", "ucb_regret", "lcb_rounds", "lcb_suboptimality", "offline_regret")
    for name in names:
        assert getattr(unknown, name) >= getattr(known, name) * (1 - 1e-12)


# -- vacuity


def test_a_bound_is_vacuous_from_the_largest_possible_regret_on():
    assert theory.is_vacuous(10.0, rounds=5, largest_gap=2.0)
    assert not theory.is_vacuous(np.nextafter(10.0, 0), rounds=5, largest_gap=2.0)
    assert theory.is_vacuous(inf, rounds=5, largest_gap=2.0)


def test_every_bound_is_vacuous_on_the_papers_default_problem():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        bandit = sphere_bandit(rng=rng)
        offline = bandit.log(logged_pulls(bandit, rng=rng), rng)
        problem = Problem.of(bandit.actions, offline, theta=bandit.theta)
        found = theory.all_bounds(problem, alpha=1e-4, rounds=8000)
        assert found.slack == pytest.approx(7.952, abs=1e-3) and found.baseline < -1
        assert found.lcb_rounds == 8000 and len(found.vacuous) == 9


def test_a_generous_log_has_no_vacuous_bound():
    confidence = Confidence(radius="hkz", noise=0.1, ridge=1.0)
    offline = Offline(pulls=[10**6, 10**6], reward_sums=[0.9e6, 0.1e6])
    problem = Problem.of(np.eye(2), offline, confidence=confidence, theta=[0.9, 0.1])
    assert theory.all_bounds(problem, alpha=30.0, rounds=10**4).vacuous == ()


def test_offline_bounds_are_measured_against_the_log_and_not_the_best_arm():
    """A log of the worst arm cannot be fallen below: any bound on it is vacuous, however small."""
    offline = Offline(pulls=[0, 10**8], reward_sums=[0.0, 0.1e8])
    problem = Problem.of(np.eye(2), offline, theta=[0.9, 0.1])
    found = theory.all_bounds(problem, alpha=0.0, rounds=100)
    assert found.offline_regret < 100 * problem.largest_gap and "offline_regret" in found.vacuous


def test_a_log_of_the_worst_arm_leaves_no_room_below_whatever_the_rounding():
    for mean in (0.1, 1 / 3, 0.7):
        for pulls in (3, 7, 49):
            offline = Offline(pulls=[pulls], reward_sums=[0.0])
            assert Problem.of([[mean]], offline, theta=[mean]).largest_shortfall == pytest.approx(
                0, abs=1e-15
            )
            assert theory.all_bounds(Problem.of([[mean]], offline, theta=[mean]), alpha=1.0, rounds=5).vacuous


# -- at the edge


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.effective_dimension([0.0, 1.0], rounds=1, norm=1.0), "eigenvalues must be positive"),
        (lambda: theory.effective_dimension([], rounds=1, norm=1.0), "eigenvalues must be positive"),
        (lambda: theory.effective_dimension([1.0], rounds=0, norm=1.0), "rounds must be"),
        (lambda: theory.log_det_growth([1.0], rounds=1, norm=-1.0), "norm must be"),
        (lambda: theory.offline_regret_bound(alpha=-1.0, slack=1.0, rounds=1), "alpha must be"),
        (lambda: theory.offline_regret_bound(alpha=1.0, slack=inf, rounds=1), "slack must be"),
        (lambda: theory.is_vacuous(1.0, rounds=1, largest_gap=-1.0), "largest_gap must be"),
        (lambda: theory.spectrum(np.eye(2), Offline.empty(2), ridge=0.0), "ridge must be"),
        (lambda: Problem.of(np.eye(2), Offline.empty(2)), "offline must hold at least one pull"),
        (lambda: Problem.of(np.eye(2), Offline.empty(3)), "offline must cover the 2 arms"),
        (
            lambda: Problem.of(np.eye(1), Offline(pulls=[1], reward_sums=[0]), theta=[1, 2]),
            "theta must have 1",
        ),
        (
            lambda: Problem.of(np.eye(1), Offline(pulls=[1], reward_sums=[0]), slack="big"),
            "slack must be one of",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
