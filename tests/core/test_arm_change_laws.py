"""Laws of arms that come and go: what must change nothing, what is refused, what snapshots keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import linoto
from linoto import (
    Agent,
    Budget,
    Closed,
    Confidence,
    Control,
    Decision,
    Doubling,
    Gated,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Random,
    Tolerance,
    restore,
)
from linoto.core import kernels
from linoto.core.explorers import View

BOUNDED = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
POLICIES: dict[str, Any] = {
    "linoto": LinOtO(alpha=0.05),
    "ucb": LinUCB(scale=1.0, confidence=BOUNDED),
    "random": Random(),
    "thompson": LinTS(confidence=BOUNDED),
    "tolerance": Gated(explorer=LinTS(), gate=Tolerance(budget=3, epsilon=0.05), confidence=BOUNDED),
    "rewards": Gated(gate=Tolerance(budget=5, evidence="rewards"), confidence=BOUNDED),
    "control": Gated(explorer=Random(), gate=Control(budget=5, epsilon=0.1, loan=3), confidence=BOUNDED),
    "control-by-model": Gated(gate=Control(budget=5, promise="expected", loan=3), confidence=BOUNDED),
    "mixture": Gated(gate=Closed(), fallback="mixture", confidence=BOUNDED),
    "fixed": Gated(gate=Budget(), fallback=1, confidence=BOUNDED),
}
K, D = 6, 3
RNG = np.random.default_rng(1)
ACTIONS = RNG.random((K, D)) / D
NEW = RNG.random((2, D)) / D
THETA = np.array([0.8, 0.5, 0.9])
LOG = Offline.from_rows(RNG.integers(0, 4, 90), (RNG.random(90) < 0.5).astype(float), k=K)


class Stubborn:
    """An explorer that wants arm 3, whatever happens."""

    def propose(self, view: View) -> int:
        return 3


def play(agent: Agent, rounds: int, seed: int = 0, allowed: ArrayLike | None = None) -> list[Decision]:
    rng, decisions = np.random.default_rng(seed), []
    for _ in range(rounds):
        decision = agent.decide(allowed)
        agent.update(decision, float(rng.random() < 0.2 + 0.01 * decision.arm))
        decisions.append(decision)
    return decisions


def arms(decisions: list[Decision]) -> list[tuple[int, str]]:
    return [(decision.arm, decision.source) for decision in decisions]


def rooms(decisions: list[Decision]) -> list[float]:
    return [0.0 if decision.budget is None else decision.budget for decision in decisions]


def started(policy: Any, actions: ArrayLike = ACTIONS, log: Offline = LOG) -> Agent:
    agent: Agent = policy.start(actions, log, rng=7)
    return agent


@pytest.mark.parametrize("name", POLICIES)
def test_an_arm_that_is_never_allowed_changes_nothing(name: str) -> None:
    if "random" in name or name == "control":
        return  # one more arm is one more draw
    plain, other = started(POLICIES[name]), started(POLICIES[name])
    play(plain, 10)
    play(other, 10)
    other.add_arms(NEW)
    first, second = play(plain, 40, 3), play(other, 40, 3, list(range(K)))
    assert arms(first) == arms(second)
    np.testing.assert_allclose(rooms(first), rooms(second), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", POLICIES)
def test_an_arm_that_comes_and_goes_unplayed_changes_nothing(name: str) -> None:
    if "random" in name or name == "control":
        return
    plain, other = started(POLICIES[name]), started(POLICIES[name])
    assert arms(play(plain, 10)) == arms(play(other, 10))
    new = other.add_arms(NEW)
    other.remove_arms(new)
    first, second = play(plain, 40, 3), play(other, 40, 3)
    assert arms(first) == arms(second)
    np.testing.assert_allclose(rooms(first), rooms(second), rtol=1e-9, atol=1e-12)
    assert other.certificate.constant == plain.certificate.constant


@pytest.mark.parametrize("name", ["control", "control-by-model", "ucb", "random", "thompson"])
def test_a_removed_arm_is_one_that_is_never_allowed_again(name: str) -> None:
    """Where nothing is compared with the log: practice is drawn among the arms of the round anyhow."""
    stay = [1, 2, 4, 5]
    restricted, removed = started(POLICIES[name]), started(POLICIES[name])
    play(restricted, 10)
    play(removed, 10)
    removed.remove_arms([0, 3])
    assert play(restricted, 60, 3, stay) == [
        linoto.Decision(**{**vars(decision), "changes": 0}) for decision in play(removed, 60, 3)
    ]


@pytest.mark.parametrize("name", ["tolerance", "rewards", "ucb", "mixture"])
def test_an_arm_that_comes_later_is_as_if_it_had_been_there_and_not_allowed(name: str) -> None:
    """Where no running maximum of a lower bound decides; the estimate is the same, whatever the table."""
    policy = POLICIES[name]
    if isinstance(policy, Gated) and not isinstance(policy.gate, Closed):
        policy = Gated(explorer=LinUCB(scale=1.0), gate=policy.gate, fallback="mixture", confidence=BOUNDED)
    all_of_them = np.vstack([ACTIONS, NEW])
    log = Offline(pulls=[*LOG.pulls, 0, 0], reward_sums=[*LOG.reward_sums, 0, 0])
    known, later = started(policy, all_of_them, log), started(policy)
    assert arms(play(known, 30, 2, list(range(K)))) == arms(play(later, 30, 2))
    later.add_arms(NEW)
    np.testing.assert_allclose(known.ucb, later.ucb, rtol=1e-12)
    first, second = play(known, 60, 3), play(later, 60, 3)
    assert arms(first) == arms(second)
    np.testing.assert_allclose(rooms(first), rooms(second), rtol=1e-9, atol=1e-9)


def test_a_one_hot_arm_that_comes_later_is_as_if_it_had_been_there() -> None:
    confidence = Confidence(noise="bounded", reward_range=(0, 1), bound=3.0, ridge=0.25)
    policy = Gated(
        explorer=LinUCB(scale=1.0), gate=Tolerance(budget=8, evidence="model"), confidence=confidence
    )
    pulls, sums = [30, 20, 10], [15.0, 12.0, 3.0]
    known = started(policy, np.eye(5), Offline(pulls=[*pulls, 0, 0], reward_sums=[*sums, 0, 0]))
    later = started(policy, np.eye(3), Offline(pulls=pulls, reward_sums=sums))
    assert arms(play(known, 20, 2, [0, 1, 2])) == arms(play(later, 20, 2))
    assert later.add_arms(np.eye(5)[3:], bound=3.0) == (3, 4)
    np.testing.assert_allclose(known.ucb, later.ucb, rtol=1e-12)
    np.testing.assert_allclose(known.ellipsoid.V, later.ellipsoid.V, rtol=1e-12)
    assert arms(play(known, 80, 3)) == arms(play(later, 80, 3))


def test_the_order_in_which_new_arms_come_permutes_decisions() -> None:
    for name in ("linoto", "ucb", "tolerance", "rewards", "control-by-model"):
        policy = POLICIES[name]
        one, other = started(policy), started(policy)
        one.add_arms(NEW)
        other.add_arms(NEW[::-1])
        swap = {K: K + 1, K + 1: K}
        for step in range(60):
            first, second = one.decide(), other.decide()
            assert first.arm == swap.get(second.arm, second.arm)
            for agent, decision in ((one, first), (other, second)):
                agent.update(decision, float(step % 3 == 0))


CHANGES: dict[int, Callable[[Agent], Any]] = {
    5: lambda agent: agent.add_arms(NEW),
    11: lambda agent: agent.remove_arms([0, 6]),
    17: lambda agent: agent.add_arms([[0, 0, 0, 0.5]]),
    23: lambda agent: agent.remove_arms([2]),
}


@pytest.mark.parametrize("name", POLICIES)
def test_restored_at_any_round_it_has_the_same_future(name: str) -> None:
    agent = started(POLICIES[name])
    copies: list[Agent] = []
    rng = np.random.default_rng(4)
    for step in range(26):
        if {step, step - 1} & set(CHANGES):  # before a change, and after it
            copies = [restore(copy.snapshot()) for copy in (agent, *copies[-1:])]
        for each in (agent, *copies):
            if step in CHANGES:
                CHANGES[step](each)
        reward = float(rng.random() < 0.4)
        decision = agent.decide()
        agent.update(decision, reward)
        for copy in copies:
            assert copy.decide() == decision
            copy.update(decision, reward)
            assert copy.changes == agent.changes
    assert all(copy.snapshot() == agent.snapshot() for copy in copies)


@pytest.mark.parametrize("name", POLICIES)
def test_compiled_play_after_changes_is_play_by_hand(name: str) -> None:
    by_hand, compiled = started(POLICIES[name]), started(POLICIES[name])
    draws = np.random.default_rng(9).random(60)
    played: list[int] = []
    for step, make in ((20, None), (40, lambda agent: agent.add_arms(NEW)), (60, CHANGES[11])):
        for agent in (by_hand, compiled):
            if make is not None:
                make(agent)
        means = np.full(by_hand.k, 0.4)
        part = slice(step - 20, step)
        for draw in draws[part]:
            decision = by_hand.decide()
            played.append(decision.arm)
            by_hand.update(decision, float(draw < 0.4))
        found, _ = compiled.play(means, draws[part], bernoulli=True)
        assert found.tolist() == played[part]
    if not by_hand.gate.throws_coin:  # which keeps tickets of rewards that have come, and never reads them
        assert by_hand.snapshot() == compiled.snapshot()
    assert not {0, 6} & set(played[40:])


def test_late_rewards_of_a_removed_arm_still_count() -> None:
    agent = started(POLICIES["tolerance"])
    decision = agent.guard(4)
    while decision.arm != 4:
        agent.update(decision, 1.0)
        decision = agent.guard(4)
    agent.commit(decision)
    agent.remove_arms([4])
    mean = float(agent.actions[4] @ agent.theta)
    agent.observe(decision, 1.0)
    assert agent.actions[4] @ agent.theta > mean
    assert agent.pending.sum() == 0


def test_a_removed_arm_is_never_played() -> None:
    agent = started(Gated(explorer=Stubborn(), gate=Tolerance(budget=1e9), confidence=BOUNDED))
    assert agent.decide().arm == 3
    agent.remove_arms([3])
    assert all(decision.arm != 3 for decision in play(agent, 20))
    for ask in (lambda: agent.guard(3), lambda: agent.commit(3), lambda: agent.decide([3])):
        with pytest.raises(ValueError, match="removed"):
            ask()
    assert agent.present.tolist() == [True, True, True, False, True, True]
    assert agent.decide(np.ones(K, bool)) == agent.decide()


def test_a_decision_from_before_a_change_is_stale() -> None:
    agent = started(POLICIES["rewards"])
    decision = agent.decide()
    agent.remove_arms([5])
    with pytest.raises(ValueError, match="decision must be made after the arms changed"):
        agent.commit(decision)
    agent.commit(agent.decide())


def test_propensities_are_of_arms_that_are_present() -> None:
    agent = started(Random())
    agent.remove_arms([0, 1])
    assert [agent.propensity(arm) for arm in range(K)] == pytest.approx([0, 0, *[0.25] * 4])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.add_arms(np.zeros((0, D))), "actions must hold at least one new arm"),
        (lambda a: a.add_arms(np.zeros((1, D - 1))), "actions must have the 3 features of the arms so far"),
        (lambda a: a.add_arms([[np.nan] * D]), "actions must be finite"),
        (lambda a: a.add_arms([[1e200] * D]), "actions must be of a size"),
        (lambda a: a.add_arms(NEW, names=["x", "y"]), "names must be None"),
        (lambda a: a.add_arms(NEW, bound=3.0), "bound must be None where no feature is new"),
        (lambda a: a.add_arms(np.eye(4)[3:], bound=1.0), "bound must be at least 2"),
        (lambda a: a.remove_arms([]), "arms must hold at least one arm to remove"),
        (lambda a: a.remove_arms([9]), r"arms must be in \[0, 6\), got 9"),
        (lambda a: a.remove_arms(range(6)), "arms must leave at least one arm"),
        (lambda a: a.remove_arms([0, 1, 2, 3], fallback=4), "arms must leave one that the log has"),
        (lambda a: a.remove_arms([1]), "fallback must name another arm"),
        (lambda a: a.remove_arms([1], fallback=1), "fallback must be an arm that is present"),
        (lambda a: a.remove_arms([2], fallback=4), "fallback must be None where no fixed fallback"),
    ],
)
def test_a_change_that_cannot_work_is_refused_and_changes_nothing(
    change: Callable[[Agent], Any], message: str
) -> None:
    agent = started(POLICIES["fixed"])
    play(agent, 5)
    before = agent.snapshot()
    with pytest.raises(ValueError, match=message):
        change(agent)
    assert agent.snapshot() == before


def test_a_name_is_given_once() -> None:
    agent = LinUCB(scale=1.0).start(ACTIONS, LOG, names=list("abcdef"))
    agent.remove_arms(1)
    for names in (["b"], ["a"], ["x", "y"]):
        with pytest.raises(ValueError, match="names must be 1 that no arm has or had"):
            agent.add_arms(NEW[:1], names=names)
    with pytest.raises(ValueError, match="names must be given"):
        agent.add_arms(NEW)
    agent.add_arms(NEW, names=["g", "h"])
    assert agent.names == tuple("abcdefgh")
    with pytest.raises(ValueError, match="arms must be present, got 1, which was removed before"):
        agent.remove_arms([1, 2])


def test_a_fixed_fallback_that_goes_is_replaced_by_the_named_one() -> None:
    agent = started(Gated(gate=Closed(), fallback=1, confidence=BOUNDED))
    agent.remove_arms([1], fallback=2)
    assert {decision.arm for decision in play(agent, 10)} == {2}
    assert {decision.arm for decision in play(restore(agent.snapshot()), 10)} == {2}


def test_a_thrown_coin_and_epochs_refuse_changes() -> None:
    agent = started(POLICIES["control-by-model"])
    while not agent.running.run["coin_thrown"]:
        agent.update(agent.decide(), 0.5)
        agent.decide()
    with pytest.raises(ValueError, match="arms must change between rounds"):
        agent.add_arms(NEW)
    by_arm = linoto.research.OtO(horizon=50).start(
        np.eye(3), Offline(pulls=[9, 5, 0], reward_sums=[3.0, 2.0, 0])
    )
    with pytest.raises(ValueError, match="radius must be another than 'arms'"):
        by_arm.add_arms(np.eye(4)[3:])
    doubling = Doubling(policy=LinOtO()).start(ACTIONS, LOG)
    for change in (lambda: doubling.add_arms(NEW), lambda: doubling.remove_arms([0])):
        with pytest.raises(ValueError, match="policy must be another than Doubling"):
            change()


def test_the_certificate_says_what_changed() -> None:
    agent = started(POLICIES["tolerance"])
    before = agent.certificate
    assert before.changes == ()
    play(agent, 12)
    agent.remove_arms([0])
    after = agent.certificate
    left = 1 - LOG.pulls[0] / LOG.total
    assert after.changes[0].startswith(
        f"since round 13, without arm 0: practice is the log without it, {100 * left:.3g} % of its rows"
    )
    rest = Offline(pulls=[0, *LOG.pulls[1:]], reward_sums=np.zeros(K))
    kappa = linoto.core.gates.mixture_rounding(rest)
    assert after.constant == pytest.approx(before.constant + kappa)
    assert ("arms changed", after.changes[0]) in after.rows()
    assert restore(agent.snapshot()).certificate == after
    assert linoto.core.certificates.Certificate(**after.to_dict()) == after


def test_a_baseline_that_no_arm_left_can_keep_is_lowered_and_said() -> None:
    agent = started(Gated(gate=Budget(alpha=0.01), confidence=BOUNDED))
    best = int(agent.lcb.argmax())
    before, promised = agent.baseline, agent.certificate.per_round
    agent.remove_arms([best])
    assert agent.baseline == agent.lcb[agent.present].max() < before
    assert agent.certificate.per_round > promised
    assert "a round loses at most" in agent.certificate.changes[0]
    play(agent, 20)  # and there is always a safe arm


def test_new_features_bring_the_ridge_and_a_bound() -> None:
    agent = started(Gated(gate=Tolerance(budget=3), confidence=BOUNDED))
    play(agent, 7)
    ridge, V = agent.running.params[0]["ridge"], agent.ellipsoid.V
    agent.add_arms([[0, 0, 0, 0.5]])
    np.testing.assert_array_equal(
        agent.ellipsoid.V, np.block([[V, np.zeros((D, 1))], [np.zeros((1, D)), ridge]])
    )
    assert agent.confidence.bound == pytest.approx(np.hypot(2.0, 1 / 0.5))  # |theta| <= 2, and its own <= 2
    assert agent.running.params[0]["ridge"] == ridge
    agent.add_arms([[0.1, 0, 0, 0, 0.5]])  # shares a feature: the bound is assumed of the longer theta
    assert agent.changes[-1].bound == agent.changes[-2].bound


def test_one_hot_arms_stay_without_their_zeros() -> None:
    k = 3000
    log = Offline(pulls=np.full(k, 2), reward_sums=np.full(k, 1.0))
    agent = Gated(gate=Tolerance(budget=5), confidence=BOUNDED).start(linoto.one_hot(k), log)
    agent.add_arms(np.eye(1, k + 1, k))
    agent.remove_arms([0])
    play(agent, 3)
    assert agent.running.state.square.shape[1:] == (1, k + 1)
    assert agent.actions.shape == (k + 1, k + 1)
    agent = started(POLICIES["tolerance"], np.eye(3), Offline(pulls=[9, 5, 0], reward_sums=[3.0, 2.0, 0]))
    before = agent.ellipsoid.V
    agent.add_arms([[0.2, 0.0, 0.3]])  # shares features: from now on V has more than its diagonal
    np.testing.assert_array_equal(agent.ellipsoid.V, before)
    play(agent, 20)
    actions, seen = agent.actions, agent.running.state.arms[linoto.core.kernels.SEEN]
    ridge = agent.running.params[0]["ridge"]
    np.testing.assert_allclose(agent.ellipsoid.V, actions.T @ (seen[:, None] * actions) + ridge * np.eye(3))


def test_plays_of_arms_that_were_one_hot_until_another_came_are_counted_as_they_are() -> None:
    """Their places are none any more: each would be taken for another arm, and the gate misled."""
    agent = LinOtO(budget="aggregate").start(
        np.eye(3), Offline(pulls=[1, 1, 1], reward_sums=[0.5, 0.5, 0.5]), rng=0
    )
    assert agent.running.run["one_hot"]
    for arm in (0, 1, 1):
        agent.update(arm, 0.5)
    agent.add_arms(np.ones((1, 3)) / 3)
    for arm in (1, 3, 2):
        agent.update(arm, 0.5)
    state = agent.running.state
    np.testing.assert_allclose(state.vectors[kernels.PLAYED], state.arms[kernels.PLAYS] @ agent.actions)
