"""Any explorer means any: one of the caller's own plays through the same gate, with the same promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.own_explorers import Dice, Optimist, Worst
from helpers.problems import problem

import linoto
from linoto import Budget, Closed, Confidence, Gated, LinearBandit, LinUCB, Offline, Open, Random, Tolerance
from linoto.core import kernels, snapshots
from linoto.core.certificates import Promise, Situation
from linoto.core.codec import type_name
from linoto.core.explorers import Rule, View
from linoto.core.gates import GATES, Gate
from linoto.core.policies import EXPLORERS, Composed

ACTIONS = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
LOG = Offline(pulls=[60, 30, 0, 0], reward_sums=[30.0, 12.0, 0.0, 0.0])


@pytest.mark.parametrize("reach", ["proposal", "affordable"])
@pytest.mark.parametrize("gate", [Open(), Tolerance(epsilon=0.1), Budget(alpha=10.0)], ids=str)
def test_an_explorer_of_ones_own_plays_the_arms_that_ours_would(gate: Any, reach: Any) -> None:
    bandit, log = problem(7, k=12, d=4, m=60)
    mine = Gated(explorer=Optimist(scale=0.5), gate=gate, reach=reach)
    ours = Gated(explorer=LinUCB(scale=0.5, noise="assumed"), gate=gate, reach=reach)
    runs = [linoto.simulate(policy, bandit, log, horizon=300, seed=3) for policy in (mine, ours)]
    np.testing.assert_array_equal(runs[0].arms, runs[1].arms)
    np.testing.assert_array_equal(runs[0].explored, runs[1].explored)


def test_a_proposal_is_played_or_the_fallback_is() -> None:
    agent = Gated(explorer=Worst(), gate=Tolerance(epsilon=0.3)).start(ACTIONS, LOG, rng=0)
    modes = set()
    for t in range(60):
        decision = agent.decide()
        assert decision.proposal == int((agent.actions @ agent.theta).argmin())
        assert decision.arm == (decision.proposal if decision.mode == "explore" else decision.fallback)
        modes.add(decision.mode)
        agent.update(decision, float(t % 2))
    assert modes == {"explore", "safe"}


@pytest.mark.parametrize("explorer", [Dice(), Optimist(), Worst()], ids=lambda e: type(e).__name__)
def test_selecting_twice_is_selecting_once(explorer: Any) -> None:
    agent = Gated(explorer=explorer, gate=Open()).start(ACTIONS, LOG, rng=4)
    for _ in range(20):
        arms = {agent.select() for _ in range(3)}
        assert len(arms) == 1
        agent.update(arms.pop(), 0.5)


def test_an_explorer_may_draw_and_draws_anew_in_every_round() -> None:
    arms = [
        linoto.simulate(
            Gated(explorer=Dice(), gate=Open()),
            LinearBandit(actions=ACTIONS, theta=[0.5, 0.2]),
            LOG,
            horizon=40,
            seed=seed,
        ).arms.tolist()
        for seed in (1, 1, 2)
    ]
    assert arms[0] == arms[1] != arms[2]
    assert len(set(arms[0])) == 4


def test_a_restored_agent_has_the_same_future_and_needs_its_policy() -> None:
    policy = Gated(explorer=Dice(), gate=Tolerance(epsilon=0.2))
    agent = policy.start(ACTIONS, LOG, rng=5)
    for t in range(10):
        agent.update(agent.decide(), t % 3 / 2)
    blob = agent.snapshot()
    with pytest.raises(ValueError, match="policy must be given"):
        linoto.restore(blob)
    with pytest.raises(ValueError, match="policy must be the one of the snapshot"):
        linoto.restore(blob, policy=Gated(explorer=Worst(), gate=Tolerance(epsilon=0.2)))
    twin = linoto.restore(blob, policy=policy)
    for t in range(20):
        assert agent.decide() == twin.decide()
        agent.update(agent.decide(), t % 2 / 2)
        twin.update(twin.decide(), t % 2 / 2)


@pytest.mark.parametrize("actions", [[[1.0], [0.5]], [[1.0, 0.5]]], ids=["one feature", "one arm"])
def test_what_an_explorer_does_to_its_view_does_not_reach_the_agent(actions: Any) -> None:
    class Eraser:
        def propose(self, view: View) -> int:
            for shown in vars(view).values():
                if isinstance(shown, np.ndarray):
                    shown[:] = 0
            return 0

    log = Offline(pulls=[5] * len(actions), reward_sums=[2.0] * len(actions))
    agent = Gated(explorer=Eraser(), gate=Open()).start(actions, log, rng=0)
    before = agent.snapshot()
    agent.decide()
    assert agent.actions.tolist() == actions
    assert agent.snapshot() == before


def test_a_promise_holds_with_the_worst_explorer() -> None:
    """Rewards are the means themselves, so the promise cannot fail by chance."""
    bandit, log = problem(7, k=12, d=4, m=60)
    policy = Gated(explorer=Worst(), gate=Tolerance(epsilon=0.05, evidence="model"))
    certificate = policy.certificate(bandit.actions, log)
    run = linoto.simulate(policy, bandit, log, horizon=400, noise=np.zeros(400))
    assert run.explored.any()
    assert all(run.offline_regret <= [certificate.loss(t) for t in range(1, 401)])


class Broken:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def score(self, view: View) -> Any:
        return self.answer


@pytest.mark.parametrize(
    "answer, message",
    [
        ([1.0, 2.0], "what explorer.score returns must have 4 entries, got 2"),
        ([1.0, 2.0, np.nan, 0.0], "what explorer.score returns must be finite, got nan"),
        ("high", "what explorer.score returns must be an array of numbers, got str"),
    ],
)
def test_a_score_that_is_none_is_refused(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gated(explorer=Broken(answer), gate=Open()).start(ACTIONS, LOG, rng=0).decide()


def test_what_cannot_explore_is_refused() -> None:
    for other in (object(), Dice, "LinUCB", linoto.LinOtO()):
        with pytest.raises(ValueError, match=r"explorer must be LinUCB, LinTS, .* or \w+, or have a"):
            Gated(explorer=other)  # type: ignore[arg-type]


# -- how likely an arm was -----------------------------------------------------------------------------------


def test_nobody_claims_to_know_the_propensity_of_an_unknown_explorer() -> None:
    agent = Gated(explorer=Dice(), gate=Open()).start(ACTIONS, LOG, rng=0)
    assert [agent.propensity(arm) for arm in range(4)] == [None] * 4
    sure = Gated(explorer=Optimist(), gate=Open()).start(ACTIONS, LOG, rng=0)
    assert [sure.propensity(arm) for arm in range(4)] == [float(arm == sure.select()) for arm in range(4)]


def test_every_explorer_that_draws_has_a_propensity_that_is_not_certainty() -> None:
    """A random explorer logged with propensity 1 would spoil every later evaluation without a word."""
    for explorer in EXPLORERS:
        if explorer.rule.draws != kernels.NO_DRAWS:
            assert not explorer.rule.deterministic, explorer


@pytest.mark.parametrize("explorer", [explorer() for explorer in EXPLORERS], ids=str)
@pytest.mark.parametrize("allowed", [None, [0, 2, 3]], ids=str)
def test_propensities_sum_to_one(explorer: Any, allowed: Any) -> None:
    clicks = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    confidence = clicks if explorer.rule.bounded else linoto.Confidence()
    agent = Gated(explorer=explorer, gate=Open(), confidence=confidence).start(ACTIONS, LOG, rng=2)
    total = sum(agent.propensity(arm, allowed, redraws=200) or 0.0 for arm in range(4))
    assert total == pytest.approx(1.0)


@pytest.mark.few(0)
def test_a_propensity_is_the_share_of_plays() -> None:
    """800 fresh agents: each share is within 4.5 standard errors, so a false alarm is rarer than 1e-4."""
    policy = Gated(explorer=linoto.LinTS(), gate=Open())
    plays = np.bincount([policy.start(ACTIONS, LOG, rng=seed).select() for seed in range(800)], minlength=4)
    agent = policy.start(ACTIONS, LOG, rng=0)
    for arm in range(4):
        claimed = agent.propensity(arm, redraws=8_000)
        assert claimed is not None
        assert (
            abs(plays[arm] / 800 - claimed) < 4.5 * np.sqrt(max(claimed * (1 - claimed), 1e-4) / 800) + 1e-4
        )


def test_uniform_propensities_are_exact_behind_a_gate() -> None:
    agent = Gated(explorer=Random(), gate=Closed()).start(ACTIONS, LOG, rng=0)
    assert [agent.propensity(arm) for arm in range(4)] == [float(arm == agent.select()) for arm in range(4)]


# -- what it takes to add one --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Newcomer(Composed):
    """A new explorer: a record with a rule."""

    rule: ClassVar[Rule] = Rule(code=kernels.GREEDY)

    def composed(self) -> Gated:
        return Gated(explorer=self, gate=Open())


@dataclass(frozen=True, kw_only=True)
class Patient(Gate):
    """A new gate: a record that fills the parameters and says what it promises."""

    code = kernels.CLOSED
    parameters = ("patience",)
    patience: float = 1.0

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        return 1.0, 2.0

    def promised(self, situation: Situation) -> Promise:
        return Promise("patience is a promise", self.patience)


def test_a_new_explorer_is_a_record_with_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(snapshots.KNOWN, type_name(Newcomer), Newcomer)
    bandit, log = problem(7, k=8, d=3, m=40, arms=4)
    new = linoto.simulate(Newcomer(), bandit, log, horizon=60)
    np.testing.assert_array_equal(new.arms, linoto.simulate(linoto.Greedy(), bandit, log, horizon=60).arms)
    gated = Gated(explorer=Newcomer(), gate=Tolerance(epsilon=0.1))
    agent = gated.start(bandit.actions, log)
    assert linoto.restore(agent.snapshot()).decide() == agent.decide()
    assert agent.propensity(agent.select()) == 1.0


def test_a_new_gate_is_a_record_that_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(snapshots.KNOWN, type_name(Patient), Patient)
    policy = Gated(gate=Patient(patience=0.25))
    certificate = policy.certificate(ACTIONS, LOG)
    assert (certificate.holds, certificate.theorem, certificate.per_round) == (
        True,
        "patience is a promise",
        0.25,
    )
    agent = policy.start(ACTIONS, LOG)
    assert agent.decide().budget is not None
    assert linoto.restore(agent.snapshot()).policy == policy
    assert linoto.from_dict(linoto.to_dict(policy)) == policy
    points = linoto.preview(ACTIONS, LOG, policy=policy, horizon=20, worlds=2).points
    assert [point.value for point in points] == [1.0, 2.0]


def test_a_code_that_no_kernel_knows_explores_nothing() -> None:
    for field, code in (("explorer", 99), ("gate", 99)):
        agent = Gated(gate=Open()).start(ACTIONS, LOG)
        agent.running.params[field] = code
        assert agent.decide().mode == "safe"


def test_every_gate_and_explorer_has_a_code_of_its_own() -> None:
    assert len({gate.code for gate in GATES}) == len(GATES)
    assert len({explorer.rule.code for explorer in EXPLORERS}) == len(EXPLORERS)


def test_an_explorer_may_be_used_by_a_bounded_gate() -> None:
    sure = Confidence(noise="bounded", reward_range=(0.0, 1.0))
    gate = Tolerance(epsilon=0.1, evidence="rewards")
    agent = Gated(explorer=Dice(), gate=gate, confidence=sure).start(ACTIONS, LOG, rng=0)
    for _ in range(50):
        agent.update(agent.decide(), 1.0)
    assert agent.rounds == 50
