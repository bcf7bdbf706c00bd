"""The tolerance gate against its oracle, rule by rule and round by round."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.reference import Problem
from helpers.reference_tolerance import (
    ToleranceReference,
    against_reference,
    against_sum,
    deficits_by_round,
    least_difference,
    rounding,
)
from helpers.reference_tolerance import rounding_below as reference_rounding_below
from hypothesis import given, settings
from hypothesis import strategies as st

import linoto
from linoto.core.gates import mixture_rounding
from linoto.core.gates.mixture import rounding_below
from linoto.core.kernels.ledger import least_by_bets
from linoto.research import OlderTolerance

K, D = 12, 4
EVERY = list(
    product(
        ("model", "rewards", "both"),
        (0.5, "bounded"),
        (False, True),  # relative
        ("affordable", "proposal"),
        ("self_normalised", "hkz"),
        ("auto", "mixture"),
        ("tight", "loose"),
        (0, 7),  # longest delay
    )
)


def problem(seed: int, k: int = K) -> tuple[np.ndarray, np.ndarray, linoto.Offline]:
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(k, D))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    actions[:, 0] = np.abs(actions[:, 0]) + 0.5
    means = np.clip(actions @ [0.5, 0.12, 0.0, 0.0], 0.05, 0.95)
    pulls = np.zeros(k, dtype=np.int64)
    pulls[[0, 1, 3, k - 1]] = [30, 20, 33, 17]
    sums = rng.binomial(pulls, means).astype(np.float64)
    return actions, means, linoto.Offline(pulls=pulls, reward_sums=sums)


def gate_of(bias: str, ledger: str) -> Any:
    """Today's gate, or that of versions 0.1 and 0.2 where one of these is as it was then."""
    if (bias, ledger) == ("tight", "joint"):
        return linoto.Tolerance
    return partial(OlderTolerance, bias=bias, ledger=ledger, rounding="low")


def agree(
    config: tuple[Any, ...],
    *,
    seed: int,
    rounds: int,
    explorer: str = "ucb",
    k: int = K,
    budget: float = 0.0,
    epsilon: float = 0.1,
    promise: Any = "expected",
    ledger: Any = "union",
    close: float = 1e-7,
) -> set[str]:
    """Play agent and oracle side by side; the sources that occurred. Joint bounds are `close`."""
    evidence, noise, relative, reach, kind, fallback, bias, delay = config
    actions, means, log = problem(seed, k)
    confidence = linoto.Confidence(noise=noise, reward_range=(0.0, 1.0), radius=kind, bound=2.0)
    agent = linoto.Gated(
        explorer=linoto.LinUCB(scale=0.5) if explorer == "ucb" else linoto.LinTS(scale=0.5),
        gate=gate_of(bias, ledger)(
            budget=budget, epsilon=epsilon, evidence=evidence, relative=relative, promise=promise
        ),
        reach=reach,
        fallback=fallback,
        confidence=confidence,
    ).start(actions, log, rng=0)
    oracle = ToleranceReference(
        problem=Problem(actions, log.pulls, log.reward_sums),
        epsilon=epsilon,
        budget=budget,
        promise=promise,
        ledger=ledger,
        evidence=evidence,
        relative=relative,
        bias=bias,
        fallback=fallback,
        reach=reach,
        explorer=explorer,
        scale=0.5,
        kind=kind,
        delta=0.05,
        ridge=confidence.ridge_for(D),
        noise=noise,
        bound=2.0,
        reward_range=(0.0, 1.0),
    )
    rng = np.random.default_rng(seed + 1)
    coming: list[tuple[int, int, float]] = []
    sources = set()
    for t in range(rounds):
        decision = agent.decide()
        randoms = (
            agent.running.state.vectors[linoto.core.kernels.NORMALS].copy()
            if explorer == "thompson"
            else None
        )
        arm, source = oracle.decide(randoms)
        assert (decision.arm, decision.source) == (arm, source), f"round {t}"
        asked = decision.arm if decision.mode == "explore" else decision.proposal
        assert decision.budget == pytest.approx(
            oracle.room(asked), rel=1e-7, abs=1e-9 if ledger == "union" else close
        )
        sources.add(source)
        agent.commit(decision)
        oracle.commit(arm, source)
        coming.append((t + int(rng.integers(0, delay + 1)), arm, float(rng.random() < means[arm])))
        for item in [item for item in coming if item[0] <= t]:
            coming.remove(item)
            agent.observe(item[1], item[2])
            oracle.observe(item[1], item[2])
    run = agent.running.run
    assert bool(run["vetoed"]) == oracle.vetoed
    return sources


@pytest.mark.parametrize("index", range(0, len(EVERY), 26))
@pytest.mark.few(6)
def test_every_kind_of_tolerance_agrees_with_the_oracle(index: int) -> None:
    assert agree(EVERY[index], seed=index, rounds=60)


@pytest.mark.parametrize("index", range(3, len(EVERY), 46))
def test_every_kind_of_loss_budget_agrees_with_the_oracle(index: int) -> None:
    """Alone, and beside a rate; a relative budget is in rounds' worth of the reference."""
    epsilon = 0.0 if index % 2 else 0.02
    assert agree(EVERY[index], seed=index, rounds=60, budget=6.0, epsilon=epsilon)


JOINT = [
    (evidence, noise, relative, "affordable", "self_normalised", "auto", "tight", delay)
    for evidence, noise, relative, delay in product(
        ("rewards", "both"), (0.5, "bounded"), (False, True), (0, 7)
    )
]


# Half of them have every pair of kinds of evidence, noise and promise; the others are in the slow suite.
PAIRED = (1, 7, 11, 13)


@pytest.mark.parametrize(
    "index", [*PAIRED, *(pytest.param(each, marks=pytest.mark.slow) for each in (3, 5, 9, 15))]
)
@pytest.mark.few(1)
def test_every_joint_bound_agrees_with_the_oracle(index: int) -> None:
    """With late rewards; the oracle finds the minimum over the region on ever finer grids, to about 1e-8."""
    budget, epsilon = [(0.0, 0.1), (6.0, 0.0), (3.0, 0.02)][index % 3]
    assert agree(JOINT[index], seed=index, rounds=25, budget=budget, epsilon=epsilon, ledger="joint")


@pytest.mark.parametrize("rounds", [1, 12, 90])
@pytest.mark.few(1)
def test_the_joint_bound_holds_wherever_the_search_stops_and_is_the_minimum_where_it_ends(
    rounds: int,
) -> None:
    rng = np.random.default_rng(rounds)
    log = linoto.Offline(pulls=[70, 30], reward_sums=[50.0, 12.0])
    guard = linoto.Guard(log, budget=60.0, reward_range=(0, 1), noise="bounded")
    rewards = [float(rng.random() < 0.55) for _ in range(rounds)]
    for reward in rewards:
        guard.update(guard.decide(1), reward)
    params, q, base = guard._params[0], rounds, float(guard._run[0]["bet_base"])
    for owed in (0.3, 1.0, q / 2, q + 1.0):
        exact = least_difference(
            owed,
            float(guard._run[0]["upper_reference"]),
            q,
            lambda s: against_sum(s, np.array(rewards), base),
            lambda u: against_reference(u, 62.0, 100, 0.0),
            np.log(1 / 0.05),
        )
        for s, u in [(0.0, base), (q / 2, 0.6), (0.0, 0.0), (float(q), 0.1), (3.0 * q, base)]:
            run = guard._run.copy()
            run["border_sum"], run["border_reference"] = s, u
            found = from_python(least_by_bets)(params, run[0], owed)
            assert found <= exact + 1e-7 * (1 + owed)
            if u == base and s == 0.0:
                assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("owed", [0.05, 0.3, 0.6])
def test_the_joint_bound_is_the_minimum_where_the_reference_may_earn_nothing(owed: float) -> None:
    """Little is owed, so the least is where the reference earns nothing. From the corner where explored plays
    earn nothing either, a search that moves the reference alone would not come back."""
    log = linoto.Offline(pulls=[70, 30], reward_sums=[50.0, 12.0])
    guard = linoto.Guard(log, budget=60.0, reward_range=(0, 1), noise="bounded")
    rewards = [1.0] * 12 + [0.0] * 6
    for reward in rewards:
        guard.update(guard.decide(1), reward)
    params, base = guard._params[0], float(guard._run[0]["bet_base"])
    exact = least_difference(
        owed,
        float(guard._run[0]["upper_reference"]),
        18,
        lambda s: against_sum(s, np.array(rewards), base),
        lambda u: against_reference(u, 62.0, 100, 0.0),
        np.log(1 / 0.05),
    )
    for s, u in [(0.0, base), (9.0, 0.6), (0.0, 0.0), (18.0, 0.1)]:
        run = guard._run.copy()
        run["border_sum"], run["border_reference"] = s, u
        assert from_python(least_by_bets)(params, run[0], owed) == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(JOINT)))
@pytest.mark.parametrize("budget, epsilon", [(0.0, 0.1), (6.0, 0.0), (3.0, 0.02)])
def test_every_joint_bound_agrees_with_the_oracle_for_long(budget: float, epsilon: float, index: int) -> None:
    """The kernel stops within 1e-9 of the border: by the tangent there, its bound is up to 1e-6 too low."""
    options: dict[str, Any] = {"budget": budget, "epsilon": epsilon, "ledger": "joint", "close": 1e-6}
    assert agree(JOINT[index], seed=9, rounds=100, **options)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("budget, epsilon", [(5.0, 0.0), (0.0, 0.1), (3.0, 0.02)])
@pytest.mark.few(2)
def test_every_realised_promise_agrees_with_the_oracle(
    budget: float, epsilon: float, delay: int, relative: bool
) -> None:
    config = ("rewards", "bounded", relative, "affordable", "self_normalised", "auto", "tight", delay)
    for ledger in ("union", "joint"):
        sources = agree(
            config, seed=9, rounds=60, budget=budget, epsilon=epsilon, promise="realised", ledger=ledger
        )
        assert sources == {"explorer", "mixture"}


LONG_RUNS = list(product(("model", "rewards", "both"), ("proposal", "affordable")))


def agree_for_long(evidence: str, reach: str, rounds: int) -> set[str]:
    config = (evidence, "bounded", False, reach, "self_normalised", "auto", "tight", 0)
    return agree(config, seed=3, rounds=rounds, k=5)


@pytest.mark.parametrize("evidence, reach", LONG_RUNS)
@pytest.mark.few(2)
def test_hundreds_of_rounds_agree_with_the_oracle(evidence: str, reach: str) -> None:
    assert "explorer" in agree_for_long(evidence, reach, 150)


@pytest.mark.slow
@pytest.mark.parametrize("evidence, reach", LONG_RUNS)
def test_a_thousand_rounds_agree_with_the_oracle(evidence: str, reach: str) -> None:
    assert "explorer" in agree_for_long(evidence, reach, 1000)


def test_thompson_behind_the_gate_agrees_with_the_oracle() -> None:
    config = ("both", 0.5, False, "affordable", "self_normalised", "auto", "tight", 3)
    assert "explorer" in agree(config, seed=5, rounds=200, explorer="thompson")


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(EVERY)))
def test_all_kinds_of_tolerance_agree_with_the_oracle(index: int) -> None:
    agree(EVERY[index], seed=index, rounds=80)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=9).filter(any))
def test_kappa_is_what_the_schedule_does(counts: list[int]) -> None:
    log = linoto.Offline(pulls=counts, reward_sums=np.zeros(len(counts)))
    kappa = mixture_rounding(log)
    assert kappa == pytest.approx(rounding(np.array(counts)))
    assert kappa <= np.count_nonzero(counts) / np.e


@pytest.mark.parametrize("n", [2, 4, 10, 36])
def test_kappa_of_equal_counts_is_a_quarter_of_their_number(n: int) -> None:
    assert mixture_rounding(linoto.Offline(pulls=[7] * n, reward_sums=[0.0] * n)) == pytest.approx(n / 4)


def test_kappa_of_a_log_too_long_to_count_is_bounded_all_the_same() -> None:
    pulls = np.arange(1, 201) * 100_003 + 1
    kappa = mixture_rounding(linoto.Offline(pulls=pulls, reward_sums=np.zeros(200)))
    assert 200 / 4 < kappa <= 200 / np.e


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=9),
    st.lists(st.sampled_from([0.0, 0.01, 0.3, 1.0]), min_size=9, max_size=9),
    st.floats(0.0, 0.2),
)
def test_a_low_mean_bounds_what_the_mixture_can_be_behind_and_ahead(
    counts: list[int], heights: list[float], slack: float
) -> None:
    means = np.array(heights[: len(counts)])
    log = linoto.Offline(pulls=counts, reward_sums=np.zeros(len(counts)))
    reference = float(np.array(counts) @ means / sum(counts))
    kappa = rounding_below(log, reference + slack)
    assert kappa == pytest.approx(reference_rounding_below(counts, reference + slack))
    owed = np.array(deficits_by_round(counts)) @ means  # q mu_off less what q mixture plays earn in the mean
    assert owed.max() <= kappa + 1e-9
    assert owed.min() >= -kappa - 1e-9
    assert kappa <= mixture_rounding(log)


def test_rare_clicks_have_a_small_rounding() -> None:
    """80 options at 0.5 % clicks: 20 clicks of rounding without the mean, less than one with it."""
    log = linoto.Offline(pulls=[100] * 80, reward_sums=[0.5] * 80)
    gates = [OlderTolerance(budget=30.0), linoto.Tolerance(budget=30.0)]
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    kappas = [linoto.Gated(gate=g, confidence=confidence).certificate(np.eye(80), log).kappa for g in gates]
    assert kappas[0] == 20.0
    assert kappas[1] is not None and 0.4 < kappas[1] < 0.8


def test_the_rounding_counterexample_is_covered_by_kappa() -> None:
    """Counts whose mixture falls 1.186 below mu_off although sum |mu - mu_off| = 1."""
    counts = np.array([1, 1, 1, 1, 1, 11, 1, 1, 931, 1, 1, 11, 43])
    means = np.zeros(13)
    means[12], means[8] = 0.956, -0.044
    log = linoto.Offline(pulls=counts, reward_sums=counts * means)
    agent = linoto.Gated(gate=linoto.Closed(), fallback="mixture").start(np.eye(13), log)
    reference = float(counts @ means / counts.sum())
    below = np.empty(1000)
    for q in range(1000):
        decision = agent.decide()
        assert decision.source == "mixture"
        agent.update(decision, 0.0)
        below[q] = reference - means[decision.arm]
    deepest = np.cumsum(below).max()
    assert deepest == pytest.approx(1.186, abs=1e-3)
    assert deepest <= mixture_rounding(log) * (means.max() - means.min())


@pytest.mark.parametrize("earned", [0.004, 0.9, 2300.0])
def test_a_preview_tries_shares_of_what_the_log_earns(earned: float) -> None:
    per_round = np.array(linoto.Tolerance(epsilon=0.1).grid(earned, 5000))
    in_all = np.array(linoto.Tolerance(budget=1.0).grid(earned, 5000))
    shares = np.array(linoto.Tolerance(epsilon=0.1, relative=True).grid(earned, 5000))
    assert shares.min() == 0.01 and shares.max() == 0.5
    np.testing.assert_allclose(per_round, shares * earned, rtol=0.34)
    np.testing.assert_allclose(in_all, shares * earned * 5000, rtol=0.34)
    np.testing.assert_allclose(
        linoto.Tolerance(budget=1.0, relative=True).grid(earned, 5000), shares * 5000, rtol=0.34
    )


def test_compiled_equals_interactive_behind_every_gate() -> None:
    actions, means, log = problem(1)
    draws = np.random.default_rng(0).random(600)
    for evidence, noise in product(("model", "rewards", "both"), (0.5, "bounded")):
        policy = linoto.Gated(
            gate=linoto.Tolerance(epsilon=0.1, evidence=evidence),  # type: ignore[arg-type]
            confidence=linoto.Confidence(noise=noise, reward_range=(0, 1), bound=2.0),  # type: ignore[arg-type]
        )
        fast, slow = policy.start(actions, log, rng=0), policy.start(actions, log, rng=0)
        arms, explored = fast.play(means, draws, bernoulli=True)
        for t in range(600):
            decision = slow.decide()
            assert (decision.arm, decision.mode == "explore") == (arms[t], explored[t])
            slow.update(decision, float(draws[t] < means[decision.arm]))
        assert fast.snapshot() == slow.snapshot()
        assert fast.running.run["secured"] == slow.running.run["secured"]


def test_an_arm_alone_counts_as_the_mixture_play_it_is() -> None:
    actions, _, log = problem(2)
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.1))
    by_arm, by_decision = (policy.start(actions, log) for _ in range(2))
    for _ in range(30):
        by_decision.update(by_decision.decide(), 0.5)
        by_arm.update(by_arm.select(), 0.5)
    assert by_arm.running.run["mixed"] == by_decision.running.run["mixed"] > 0


def test_tight_bias_never_has_less_room_than_loose() -> None:
    actions, means, log = problem(4)
    tight, loose = (
        linoto.Gated(gate=gate_of(bias, "joint")(epsilon=0.05, evidence="model")).start(actions, log)
        for bias in ("tight", "loose")
    )
    for t in range(300):
        arm = t % K
        assert (tight.guard(arm).budget or 0) >= (loose.guard(arm).budget or 0) - 1e-12
        for agent in (tight, loose):
            agent.update(arm, float(means[arm]))


def test_an_empty_log_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="offline must hold at least one reward"):
        linoto.Gated().start(np.eye(2), linoto.Offline.empty(2))


def test_rewards_alone_need_a_floor() -> None:
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.1, evidence="rewards"))
    with pytest.raises(ValueError, match="reward_range must be given"):
        policy.start(np.eye(2), linoto.Offline(pulls=[1, 1], reward_sums=[0.0, 0.0]))


def test_a_relative_epsilon_needs_rewards_that_are_not_negative() -> None:
    gate = linoto.Tolerance(epsilon=0.1, relative=True)
    log = linoto.Offline(pulls=[1, 1], reward_sums=[0.0, 0.0])
    for limits in (None, (-1.0, 1.0)):
        with pytest.raises(ValueError, match="reward_range must be given and start at 0"):
            linoto.Gated(gate=gate, confidence=linoto.Confidence(reward_range=limits)).start(np.eye(2), log)


def test_a_bounded_log_with_rewards_outside_the_range_is_refused() -> None:
    policy = linoto.Gated(confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1)))
    with pytest.raises(ValueError, match="offline must have rewards in reward_range"):
        policy.start(np.eye(2), linoto.Offline(pulls=[2, 2], reward_sums=[5.0, 1.0]))


def test_a_bounded_agent_refuses_a_reward_outside_its_range() -> None:
    actions, _, log = problem(6)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
    agent = linoto.Gated(confidence=confidence).start(actions, log)
    before = agent.snapshot()
    with pytest.raises(ValueError, match=r"reward must be in \[0, 1\], got 1.5"):
        agent.update(agent.select(), 1.5)
    with pytest.raises(ValueError, match="reward_range must hold every reward"):
        linoto.simulate(
            agent.policy, linoto.LinearBandit(actions=actions, theta=[0.5, 0, 0, 0]), log, horizon=5
        )
    assert linoto.restore(before).rounds == agent.rounds == 0
