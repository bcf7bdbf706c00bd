"""Conservative gates: the formulas of their papers, what they have in common with ours, and the promise."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.reference_conservative import ConservativeReference

import linoto
from linoto import Confidence, Conservative, Gated, LinUCB, Offline, Tolerance
from linoto.core import kernels
from linoto.core.kernels import gates
from linoto.research import ArmUCB

SHARES = Confidence(noise=0.3, reward_range=(0.0, 1.0), bound=2.0)
KINDS = list(product(("joint", "separate", "arms"), (None, "known"), ("mixture", 1)))


def world(seed: int, k: int = 7) -> tuple[linoto.LinearBandit, Offline]:
    """Means in [0, 1] that are linear in features with a constant, and a log of three arms."""
    rng = np.random.default_rng(seed)
    around = rng.uniform(-1, 1, (k, 2)) / np.sqrt(2)
    direction = rng.standard_normal(2)
    theta = np.append(0.5, 0.5 * direction / np.linalg.norm(direction))
    bandit = linoto.LinearBandit(actions=np.column_stack([np.ones(k), around]), theta=theta, noise=0.3)
    return bandit, bandit.log([40, 25, 10] + [0] * (k - 3), rng)


def clicks_world(seed: int) -> tuple[linoto.LinearBandit, Offline]:
    """Arms without features."""
    rng = np.random.default_rng(seed)
    bandit = linoto.LinearBandit(actions=np.eye(7), theta=rng.uniform(0.2, 0.6, 7), noise=0.3)
    return bandit, bandit.log([40, 25, 10, 0, 0, 0, 0], rng)


def true_mean(bandit: Any, log: Offline, fallback: str | int) -> float:
    means = bandit.means
    return float(means[fallback] if isinstance(fallback, int) else log.pulls @ means / log.total)


ONE_HOT = [(form, None, 1, clicks_world) for form in ("joint", "separate", "arms")]


def rooms(agent: Any) -> np.ndarray:
    agent.decide()
    return np.array(agent.running.state.arms[kernels.ROOM])


@pytest.mark.parametrize("form, known, fallback, make", [(*kind, world) for kind in KINDS] + ONE_HOT)
def test_every_room_is_that_of_the_paper(form: Any, known: str | None, fallback: Any, make: Any) -> None:
    bandit, log = make(1)
    mean = None if known is None else true_mean(bandit, log, fallback)
    gate = Conservative(alpha=0.2, mean=mean, form=form)
    agent = Gated(explorer=LinUCB(scale=1.0), gate=gate, fallback=fallback, confidence=SHARES).start(
        bandit.actions, log
    )
    oracle = ConservativeReference(bandit.actions, log, SHARES, 0.2, mean, form, fallback)
    rng, modes = np.random.default_rng(2), set()
    for t in range(150):
        if t % 10 == 0:
            np.testing.assert_allclose(
                rooms(agent), [oracle.room(arm) for arm in range(7)], rtol=1e-9, atol=1e-9
            )
        decision = agent.decide() if t % 3 else agent.guard(int(rng.integers(7)))
        reward = float(bandit.means[decision.arm] + 0.3 * rng.standard_normal())
        is_baseline = decision.source == "mixture" or decision.arm == fallback
        agent.update(decision, reward)
        oracle.played.append((decision.arm, is_baseline, reward))
        modes.add(decision.mode)
    assert modes == {"explore", "safe"}


@pytest.mark.parametrize("known", [None, "known"])
@pytest.mark.parametrize("fallback", ["mixture", 1])
@pytest.mark.parametrize("make", [world, clicks_world])
def test_cucb_plays_as_published(make: Any, fallback: Any, known: str | None) -> None:
    """The whole system of Wu et al. in plain NumPy, with the gate's margins of ours: arm for arm, by either.

    psi(s) = 2 ln(K s^3 / delta) has K arms of unknown mean, and a known mean is its own upper bound.
    """
    bandit, log = make(1)
    mean = None if known is None else true_mean(bandit, log, fallback)
    gate = Conservative(alpha=0.6, mean=mean, form="arms")
    system = Gated(explorer=ArmUCB(), gate=gate, fallback=fallback, reach="proposal", confidence=SHARES)
    agent = system.start(bandit.actions, log, rng=0)
    oracle = ConservativeReference(bandit.actions, log, SHARES, 0.6, mean, "arms", fallback)
    by_known_mean = known is not None and fallback == 1
    rng, modes = np.random.default_rng(3), set()
    for _ in range(300):
        counts, sums = oracle.counts_and_sums()
        n = np.maximum(counts, 1)
        psi = 2 * np.log((7 - by_known_mean) * n**3 / SHARES.delta)
        upper = np.where(counts > 0, sums / n + SHARES.scale * np.sqrt(psi / n), np.inf)
        if by_known_mean and mean is not None:
            upper[1] = mean
        favourite = int(upper.argmax())
        decision = agent.decide()
        assert decision.proposal == favourite
        assert (decision.mode == "explore") == (oracle.room(favourite) > 0)
        reward = float(bandit.means[decision.arm] + 0.3 * rng.standard_normal())
        agent.update(decision, reward)
        oracle.played.append((decision.arm, decision.source == "mixture" or decision.arm == fallback, reward))
        modes.add(decision.mode)
    assert modes == {"explore", "safe"}


def test_arms_of_their_own_rewards_must_stay_the_same() -> None:
    with pytest.raises(
        ValueError, match=r"^explorer must score arms by their features with contexts, got ArmUCB$"
    ):
        ArmUCB().start(d=3)


def test_jointly_bounded_it_is_a_relative_tolerance_paid_for_by_the_model() -> None:
    """CLUCB2 with one bound for the whole sum, and the log as the baseline: the same bits."""
    for seed in range(3):
        bandit, log = world(seed)
        same: dict[str, Any] = {"explorer": LinUCB(scale=1.0), "fallback": "mixture", "confidence": SHARES}
        ours = Gated(gate=Conservative(alpha=0.2), **same)
        tolerant = Gated(gate=Tolerance(epsilon=0.2, relative=True, evidence="model"), **same)
        runs = [linoto.simulate(policy, bandit, log, horizon=600) for policy in (ours, tolerant)]
        np.testing.assert_array_equal(runs[0].arms, runs[1].arms)
        np.testing.assert_array_equal(runs[0].explored, runs[1].explored)
        agents = [policy.start(bandit.actions, log) for policy in (ours, tolerant)]
        for agent in agents:
            agent.play(bandit.means, np.random.default_rng(seed).standard_normal(300) * 0.3)
        np.testing.assert_array_equal(rooms(agents[0]), rooms(agents[1]))
        mine, theirs = (policy.certificate(bandit.actions, log) for policy in (ours, tolerant))
        assert (mine.per_round, mine.constant) == (theirs.per_round, theirs.constant)


def test_one_joint_bound_leaves_more_room_than_two() -> None:
    """A minimum of a sum is at least the sum of minima, while the baseline is proven to earn something."""
    bandit, log = world(3)
    forms: tuple[Any, ...] = ("joint", "separate")
    first, second = (
        Gated(gate=Conservative(form=form), fallback=0, confidence=SHARES).start(bandit.actions, log)
        for form in forms
    )
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert first.interval(0)[0] > 0
        assert (rooms(first) >= rooms(second) - 1e-9).all()
        arm = second.select()
        reward = float(bandit.means[arm] + 0.3 * rng.standard_normal())
        for agent in (first, second):
            agent.update(arm, reward)


def test_the_most_optimistic_safe_arm_is_played_where_the_reach_is_affordable() -> None:
    """The restriction of Garcelon et al. (2020)."""
    bandit, log = world(5)
    agent = Gated(
        explorer=LinUCB(scale=1.0), gate=Conservative(alpha=0.05), fallback=2, confidence=SHARES
    ).start(bandit.actions, log)
    rng, restricted = np.random.default_rng(0), 0
    for _ in range(300):
        room = rooms(agent)
        decision = agent.decide()
        safe = np.flatnonzero(room > 0)
        expected = safe[agent.ucb[safe].argmax()] if safe.size else 2
        assert decision.arm == expected
        restricted += decision.mode == "explore" and decision.arm != decision.proposal
        agent.update(decision, float(bandit.means[decision.arm] + 0.3 * rng.standard_normal()))
    assert restricted > 0


def test_the_chances_of_all_margins_of_an_arm_sum_to_its_share() -> None:
    """Two sides of every count s = 1, 2, ..., for each of k arms: d in all."""
    bandit, log = world(0)
    agent = Gated(gate=Conservative(form="arms"), confidence=SHARES).start(bandit.actions, log)
    params = agent.running.params[0]
    margins = np.array([from_python(gates.arm_margin)(params, float(s)) for s in range(1, 2001)])
    chances = 2 * np.exp(-(margins**2) * np.arange(1, 2001) / (2 * 0.3**2))
    assert 7 * chances.sum() == pytest.approx(0.025 * (1 - 1 / 2001), rel=1e-9)


def shortfall(policy: Gated, bandit: Any, log: Offline, baseline: float, rng: Any, rounds: int) -> float:
    """The largest promise violation of a run in which the worst accepted arm is explored; <= 0: none."""
    agent, certificate = policy.start(bandit.actions, log), policy.certificate(bandit.actions, log)
    gate: Any = policy.gate
    constant = certificate.constant or 0.0
    earned, worst = 0.0, -np.inf
    for t, draw in enumerate(rng.standard_normal(rounds) * 0.3, start=1):
        affordable = np.flatnonzero(rooms(agent) > 0)
        wanted = affordable[bandit.means[affordable].argmin()] if affordable.size else 0
        decision = agent.guard(int(wanted))
        agent.update(decision, float(bandit.means[decision.arm] + draw))
        earned += bandit.means[decision.arm]
        worst = max(worst, (1 - gate.alpha) * t * baseline - constant - earned)
    return float(worst)


@pytest.mark.parametrize("form, known, fallback", KINDS)
@pytest.mark.few(4)
def test_an_adversary_breaks_no_promise(form: Any, known: str | None, fallback: Any) -> None:
    """A run may fail with probability 0.05: P(binomial(10, 0.05) > 4) = 6.4e-5, twelve times."""
    broken = 0
    for seed in range(10):
        bandit, log = world(seed)
        baseline = true_mean(bandit, log, fallback)
        gate = Conservative(alpha=0.3, mean=None if known is None else baseline, form=form)
        policy = Gated(gate=gate, fallback=fallback, confidence=SHARES)
        assert policy.certificate(bandit.actions, log).holds
        broken += shortfall(policy, bandit, log, baseline, np.random.default_rng(seed), 80) > 1e-9
    assert broken <= 4


@pytest.mark.slow
@pytest.mark.parametrize("form, known, fallback", KINDS)
def test_an_adversary_breaks_no_promise_in_many_runs(form: Any, known: str | None, fallback: Any) -> None:
    """At delta 0.5, where half of the runs may fail: P(binomial(200, 0.5) > 129) = 1.5e-5, twelve times."""
    broken, half = 0, Confidence(noise=0.3, reward_range=(0.0, 1.0), bound=2.0, delta=0.5)
    for seed in range(200):
        bandit, log = world(seed)
        baseline = true_mean(bandit, log, fallback)
        gate = Conservative(alpha=0.1, mean=None if known is None else baseline, form=form)
        policy = Gated(gate=gate, fallback=fallback, confidence=half)
        broken += shortfall(policy, bandit, log, baseline, np.random.default_rng(seed), 250) > 1e-9
    assert broken <= 129


def test_a_gate_that_forgets_its_margins_breaks_the_promise() -> None:
    """The adversary can break one: with hardly a margin, more than 4 of 10 runs break it."""
    broken = 0
    for seed in range(10):
        bandit, log = world(seed)
        baseline = true_mean(bandit, log, 1)
        careless = Confidence(noise=1e-3, reward_range=(0.0, 5.0), bound=2.0, ridge=1e-6)
        policy = Gated(gate=Conservative(alpha=0.02), fallback=1, confidence=careless)
        broken += shortfall(policy, bandit, log, baseline, np.random.default_rng(seed), 80) > 1e-9
    assert broken > 4


def test_the_public_check_knows_what_the_promise_compares_with() -> None:
    report = linoto.check_promise(
        Gated(gate=Conservative(alpha=0.2), fallback=1, confidence=SHARES), runs=10, rounds=250
    )
    assert report.violations <= report.limit and report.at_risk > 0


def test_an_arm_needs_no_log_to_be_a_baseline() -> None:
    bandit, _ = world(0)
    empty = Offline.empty(7)
    policy = Gated(gate=Conservative(alpha=0.3), fallback=3, confidence=SHARES)
    run = linoto.simulate(policy, bandit, empty, horizon=1000)
    assert run.arms[0] == 3 and run.explored.any()
    earned = np.cumsum(bandit.means[run.arms])
    assert (earned >= 0.7 * bandit.means[3] * np.arange(1, 1001) - 1e-9).all()
    assert policy.certificate(bandit.actions, empty).against == "arm 3 in every round"


def test_the_certificate_says_what_it_compares_with() -> None:
    bandit, log = world(0)
    texts = {
        "the mean reward of the log": Gated(gate=Conservative(), confidence=SHARES),
        "arm 1 in every round": Gated(gate=Conservative(form="arms"), fallback=1, confidence=SHARES),
        "0.4 per round, what the baseline is said to earn": Gated(
            gate=Conservative(mean=0.4), confidence=SHARES
        ),
    }
    for against, policy in texts.items():
        certificate = policy.certificate(bandit.actions, log)
        assert certificate.holds and certificate.against == against
        assert certificate.per_round is not None and 0.0 < certificate.per_round <= 0.1
    assert "a linear model" in texts["arm 1 in every round"].certificate(bandit.actions, log).not_assumed
    none = Gated(gate=Conservative(), fallback="lcb", confidence=SHARES).certificate(bandit.actions, log)
    assert not none.holds and "mixture or an arm" in none.theorem


@pytest.mark.parametrize(
    "options, confidence, message",
    [
        ({"alpha": 1.5}, SHARES, r"alpha must be in \[0, 1\], got 1.5"),
        ({"mean": -0.1}, SHARES, "mean must be a number >= 0, got -0.1"),
        ({"form": "both"}, SHARES, "form must be one of 'joint', 'separate', 'arms', got 'both'"),
        ({}, Confidence(), "reward_range must be given and start at 0 or above for a Conservative gate"),
        ({"mean": 0.4, "form": "arms"}, Confidence(), "reward_range must be given for form='arms'"),
    ],
)
def test_what_can_promise_nothing_is_refused(options: Any, confidence: Confidence, message: str) -> None:
    bandit, log = world(0)
    with pytest.raises(ValueError, match=message):
        Gated(gate=Conservative(**options), confidence=confidence).start(bandit.actions, log)


def test_arms_cannot_come_and_go() -> None:
    """Neither theorem is about that: the margins count the arms, and scores are of an earlier round."""
    bandit, log = world(0)
    for policy, message in (
        (Gated(gate=Conservative(), confidence=SHARES), "come and go, got Conservative"),
        (linoto.research.RareLinUCB(), "come and go, got RareLinUCB"),
    ):
        agent = policy.start(bandit.actions, log)
        for change in (lambda a=agent: a.add_arms([[1.0, 0.0, 0.0]]), lambda a=agent: a.remove_arms([6])):
            with pytest.raises(ValueError, match=message):
                change()
