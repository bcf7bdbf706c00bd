"""The conformance suite: every exported policy passes it, and every law catches the fault it is there for."""

import dataclasses
import inspect
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import linoto
from linoto.checks import checks
from linoto.checks.checks import LAWS, all_checks, check_policy
from linoto.core import kernels
from linoto.core.agent import LinearAgent
from linoto.core.confidence import PAPER, Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget, Closed, Open, Tolerance
from linoto.core.offline import as_offline
from linoto.core.policies import Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random
from linoto.core.snapshots import restore
from linoto.core.validation import as_actions, as_arm, as_generator, as_reward

ALL_LAWS = [law.__name__ for _, laws in LAWS for law in laws]
SYMMETRY = ["permuting_arms_permutes_decisions", "rotating_the_space_changes_no_decision"]

DETERMINISTIC = [
    LinOtO(),
    LinOtO(budget="aggregate", alpha=1.0),
    LinOtO(budget="max", alpha=0.1),
    LinUCB(),
    LinUCB(scale=0.25, confidence=PAPER),
    LinLCB(),
    LinLCB(frozen=True),
    LinTS(scale=0.0),
    Greedy(),
    Gated(),
    Gated(gate=Tolerance(epsilon=0.05, evidence="rewards"), confidence=Confidence(reward_range=(-1, 1))),
    Gated(gate=Tolerance(epsilon=0.05), confidence=Confidence(reward_range=(-1, 1), radius="hkz")),
    Gated(
        gate=Tolerance(epsilon=0.2, relative=True, bias="loose"),
        fallback="mixture",
        reach="proposal",
        confidence=Confidence(reward_range=(0, 1), bound=2.0),
    ),
    Gated(gate=Open(), reach="proposal"),
    Gated(gate=Closed()),
    Gated(gate=Budget(alpha=0.03, slack="coverage"), fallback=2, confidence=PAPER),
    Gated(gate=Budget(), fallback=0, reach="proposal"),
    Gated(explorer=LinUCB(), gate=Budget(form="aggregate"), fallback="frozen", reach="proposal"),
    Gated(
        explorer=Greedy(), gate=Budget(alpha=0.5, form="max"), confidence=Confidence(radius="hkz", ridge=1e-4)
    ),
    Doubling(policy=LinOtO(alpha=0.1)),
    Doubling(policy=LinUCB(), delta="epoch"),
    Doubling(policy=Gated(fallback=2), delta="epoch"),
]
RANDOMISED = [
    LinTS(),
    Random(),
    Gated(
        explorer=LinTS(scale=2.0), gate=Budget(alpha=1.0, slack="coverage"), confidence=Confidence(noise=0.5)
    ),
    Gated(explorer=Random(), gate=Budget(alpha=2.0, form="max"), fallback=2, reach="proposal"),
    Doubling(policy=LinTS()),
]


@pytest.mark.parametrize("policy", DETERMINISTIC, ids=str)
def test_deterministic_policies_obey_every_law(policy: Any) -> None:
    assert check_policy(policy) == ALL_LAWS


@pytest.mark.parametrize("policy", RANDOMISED, ids=str)
def test_randomised_policies_obey_every_law_but_symmetry(policy: Any) -> None:
    assert check_policy(policy) == [law for law in ALL_LAWS if law not in SYMMETRY]


def test_every_exported_policy_is_checked() -> None:
    exported = {getattr(linoto, name) for name in linoto.__all__ if inspect.isclass(getattr(linoto, name))}
    policies = {cls for cls in exported if dataclasses.is_dataclass(cls) and hasattr(cls, "start")}
    assert policies == {type(policy) for policy in DETERMINISTIC + RANDOMISED}


def test_the_world_of_the_checks_makes_gates_open_and_close() -> None:
    w = checks.world()
    for policy in (LinOtO(), LinOtO(budget="max", alpha=0.1), Doubling(policy=LinOtO(alpha=0.1))):
        _, explored = checks.start(policy, w).play(w.means, w.noise)
        assert 0 < explored.sum() < explored.size


# -- a policy in plain Python -------------------------------------------------------------------------------


class Leader:
    """Follows the best estimate. Plain Python: `start`, `select` and `update` are all there is."""

    def __init__(self, agent: type | None = None) -> None:
        self.agent = agent or LeaderAgent

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        arms = as_actions(actions)
        return self.agent(arms, as_offline(offline, len(arms)), as_generator(rng))


class LeaderAgent:
    def __init__(self, actions: Any, offline: Any, rng: np.random.Generator) -> None:
        self.actions, self.offline, self.rng = actions, offline, rng
        self.V = np.eye(actions.shape[1]) + actions.T @ (offline.pulls[:, None] * actions)
        self.b = actions.T @ offline.reward_sums

    @property
    def theta(self) -> Any:
        return np.linalg.solve(self.V, self.b)

    def scores(self) -> Any:
        return self.actions @ self.theta

    def select(self) -> int:
        return int(np.argmax(self.scores()))

    def update(self, arm: int, reward: float) -> None:
        self.learn(as_arm(arm, len(self.actions)), as_reward(reward))

    def learn(self, arm: int, reward: float) -> None:
        self.V += np.outer(self.actions[arm], self.actions[arm])
        self.b += reward * self.actions[arm]


class PatientAgent(LeaderAgent):
    """A leader that takes delayed rewards."""

    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.pending = np.zeros(len(self.actions), dtype=int)

    def commit(self, arm: int) -> None:
        self.pending[as_arm(arm, len(self.actions))] += 1

    def observe(self, arm: int, reward: float) -> None:
        arm, reward = as_arm(arm, len(self.actions)), as_reward(reward)
        if not self.pending[arm]:
            raise ValueError(f"arm {arm} awaits no reward")
        self.pending[arm] -= 1
        self.learn(arm, reward)

    def update(self, arm: int, reward: float) -> None:
        arm, reward = as_arm(arm, len(self.actions)), as_reward(reward)
        self.commit(arm)
        self.observe(arm, reward)


class KeptAgent(PatientAgent):
    """A patient leader with snapshots."""

    kept: ClassVar[tuple[str, ...]] = ("V", "b", "pending")

    def snapshot(self) -> bytes:
        return json.dumps({name: getattr(self, name).tolist() for name in self.kept}).encode()


class Kept(Leader):
    """Reads its own snapshots, as a policy that linoto does not know has to."""

    def restore(self, blob: bytes) -> Any:
        w = checks.world()
        agent = self.start(w.actions, w.offline)
        for name, value in json.loads(blob).items():
            setattr(agent, name, np.array(value))
        return agent


PLAIN_LAWS = list(all_checks(Kept(KeptAgent)))


@pytest.mark.parametrize("law", [law for _, law in PLAIN_LAWS], ids=[name for name, _ in PLAIN_LAWS])
def test_a_plain_python_policy_can_obey_the_laws(law: checks.Law) -> None:
    law(Kept(KeptAgent))


def test_laws_apply_where_the_agent_has_what_they_need() -> None:
    leader, patient, kept = (
        {name for name, _ in all_checks(p)} for p in (Leader(), Leader(PatientAgent), Kept(KeptAgent))
    )
    records = {name for name, _ in zip(ALL_LAWS, range(5), strict=False)}
    assert "frozen" in records and not leader & records
    assert "one_arm" in leader and not any(
        name.startswith(("compiled", "snapshots", "rewards", "inverse")) for name in leader
    )
    assert patient - leader == {
        name for name in ALL_LAWS if name.startswith(("update_is", "rewards_", "lost", "unowed"))
    }
    assert kept - patient == {name for name in ALL_LAWS if name.startswith("snapshots")}


def test_doubling_of_a_plain_python_policy_obeys_the_laws() -> None:
    assert check_policy(Doubling(policy=Leader()), skip=["repr_round_trips", "json_round_trips"])


# -- for every law a policy that breaks it ------------------------------------------------------------------


@dataclass(unsafe_hash=True, kw_only=True)
class Thawed(Leader):
    scale: float = 1.0
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True)
class Positional(Leader):
    scale: float = 1.0
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Secretive(Leader):
    scale: float = field(default=1.0, repr=False)
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Unwritable(Leader):
    tags: frozenset[str] = frozenset()
    agent: ClassVar[type] = LeaderAgent


@dataclass(frozen=True, kw_only=True)
class Unstartable(Leader):
    scale: float | None = None
    agent: ClassVar[type] = LeaderAgent

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        if self.scale is None:
            raise ValueError("scale must be given")
        return super().start(actions, offline, rng)


class NumpyArms(LeaderAgent):
    def select(self) -> Any:
        return np.argmax(self.scores())


class Fickle(LeaderAgent):
    asked = 0

    def select(self) -> int:
        self.asked += 1
        return (super().select() + self.asked - 1) % len(self.actions)

    def learn(self, arm: int, reward: float) -> None:
        self.asked = 0
        super().learn(arm, reward)


class BurnsDraws(LeaderAgent):
    """Keeps its arm until the next reward, and yet each question moves the generator."""

    arm: int | None = None

    def select(self) -> int:
        draw = int(self.rng.integers(len(self.actions)))
        self.arm = draw if self.arm is None else self.arm
        return self.arm

    def learn(self, arm: int, reward: float) -> None:
        self.arm = None


class Unseeded(Leader):
    """Takes a seed, but not a generator."""

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, np.random.default_rng(rng if isinstance(rng, int) else None))
        scores = agent.rng.random(len(agent.actions))
        agent.scores = lambda: scores
        return agent


class Rescales(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, rng)
        if np.asarray(actions).flags.writeable:
            actions *= 2.0
        return agent


class Borrows(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = super().start(actions, offline, rng)
        agent.actions = actions
        return agent


class SharedAlarm(LeaderAgent):
    alarm = [False]  # noqa: RUF012 - one for all agents: the fault

    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.alarm[0] = False

    def select(self) -> int:
        return 0 if self.alarm[0] else super().select()

    def learn(self, arm: int, reward: float) -> None:
        self.alarm[0] |= reward >= 5.0
        super().learn(arm, reward)


class Remembers(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.history: list[float] = []

    def learn(self, arm: int, reward: float) -> None:
        self.history.append(reward)
        super().learn(arm, reward)


class NeedsTwoArms(LeaderAgent):
    def select(self) -> int:
        np.partition(self.scores(), -2)
        return super().select()


class NeedsTwoFeatures(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() + 0.0 * self.actions[:, 1]


class NeedsALog(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.share = 1 / self.offline.total


class NeedsDistinctArms(LeaderAgent):
    def select(self) -> int:
        arms = {action.tobytes(): arm for arm, action in enumerate(self.actions)}
        return list(arms.values()).index(super().select())


class NeedsFullRank(LeaderAgent):
    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        k, d = self.actions.shape
        logged = self.actions[self.offline.pulls > 0]
        if k >= d > 1 and 0 < np.linalg.matrix_rank(logged) < d:
            raise np.linalg.LinAlgError("Singular matrix")


class AnyActions(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        return LeaderAgent(
            np.array(actions, dtype=float), as_offline(offline, len(actions)), as_generator(rng)
        )


class AnyLog(Leader):
    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        return LeaderAgent(as_actions(actions), offline, as_generator(rng))


class AnyArm(LeaderAgent):
    def update(self, arm: Any, reward: float) -> None:
        self.learn(arm, as_reward(reward))


class AnyReward(LeaderAgent):
    def update(self, arm: int, reward: Any) -> None:
        self.learn(as_arm(arm, len(self.actions)), float(reward))


class ChecksTooLate(LeaderAgent):
    def update(self, arm: int, reward: float) -> None:
        self.b += 0.1 * self.actions[as_arm(arm, len(self.actions))]
        super().update(arm, reward)


class LateDiscount(PatientAgent):
    """What comes late counts less, by the order of arrival."""

    arrived = 0

    def learn(self, arm: int, reward: float) -> None:
        self.arrived += 1
        super().learn(arm, reward / self.arrived)


class UnequalUpdate(PatientAgent):
    def update(self, arm: int, reward: float) -> None:
        super().update(arm, as_reward(reward) + 1e-6)


class Impatient(PatientAgent):
    clock = 0

    def commit(self, arm: int) -> None:
        super().commit(arm)
        self.clock = self.clock + 1 if self.pending.any() else 0

    def learn(self, arm: int, reward: float) -> None:
        self.clock = self.clock if self.pending.any() else 0
        super().learn(arm, reward)

    def select(self) -> int:
        if self.clock > 60:
            raise RuntimeError("a reward is overdue")
        return super().select()


class TakesAnything(PatientAgent):
    def observe(self, arm: int, reward: float) -> None:
        self.pending[as_arm(arm, len(self.actions))] = 1
        super().observe(arm, reward)


class ForgetsRewards(KeptAgent):
    kept = ("V", "pending")


class ForgetsPending(KeptAgent):
    kept = ("V", "b")


class LowIndexFirst(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() - np.arange(len(self.actions))


class LikesItsAxes(LeaderAgent):
    def scores(self) -> Any:
        return super().scores() + np.abs(self.actions).sum(axis=1)


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """LinUCB with an agent that is not what it should be."""

    agent: ClassVar[type[LinearAgent]]

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        agent = LinUCB().start(actions, offline, rng)
        agent.__class__ = self.agent
        return agent

    def restore(self, blob: bytes) -> Any:
        agent = restore(blob)
        agent.__class__ = self.agent
        return agent


def faulty(agent_class: type[LinearAgent]) -> Any:
    return dataclass(frozen=True, kw_only=True)(
        type(agent_class.__name__, (Faulty,), {"agent": agent_class})
    )()


class PlaysBackwards(LinearAgent):
    def play(self, means: Any, draws: Any, **rewards: Any) -> Any:
        return super().play(means, draws[::-1].copy(), **rewards)


class KeepsItsRuns(LinearAgent):
    def play(self, means: Any, draws: Any, **rewards: Any) -> Any:
        self.run = super().play(means, draws, **rewards)
        return self.run


class FallingBounds(LinearAgent):
    @property
    def lcb(self) -> Any:
        return 2 * self._state.arms[kernels.MEAN] - self.ucb


class NarrowBounds(LinearAgent):
    @property
    def ucb(self) -> Any:
        return self._state.arms[kernels.MEAN] + 0.9 * (super().ucb - self._state.arms[kernels.MEAN])


class DriftingInverse(LinearAgent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == checks.LONG:
            self._state.square[kernels.INVERSE] *= 1 + 1e-6


class DriftingDeterminant(LinearAgent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == checks.LONG:
            self._state.run["log_det"] *= 1 + 1e-6


class LosesAReward(LinearAgent):
    def update(self, decision: Any, reward: Any) -> None:
        super().update(decision, reward)
        if self.rewards == checks.LONG:
            self._state.arms[kernels.SUMS, decision] -= float(reward)
            kernels.refresh(self._params[0], self._state)


BROKEN: list[tuple[Any, set[str]]] = [
    (Thawed(), {"frozen"}),
    (Positional(), {"keyword_only"}),
    (Secretive(scale=2.0), {"repr_round_trips"}),
    (Unwritable(), {"json_round_trips"}),
    (Unstartable(scale=1.0), {"defaults_construct"}),
    (Leader(NumpyArms), {"select_gives_an_arm"}),
    (Leader(Fickle), {"select_is_pure", "selecting_more_changes_nothing"}),
    (Leader(BurnsDraws), {"selecting_more_changes_nothing"}),
    (Unseeded(), {"same_seed_same_run"}),
    (Rescales(), {"inputs_are_not_mutated"}),
    (Borrows(), {"inputs_are_not_aliased"}),
    (Leader(SharedAlarm), {"agents_are_independent"}),
    (Leader(Remembers), {"memory_is_constant"}),
    (Leader(NeedsTwoArms), {"one_arm"}),
    (Leader(NeedsTwoFeatures), {"one_feature"}),
    (Leader(NeedsALog), {"empty_log"}),
    (Leader(NeedsDistinctArms), {"duplicate_arms"}),
    (Leader(NeedsFullRank), {"rank_deficient_log"}),
    (AnyActions(), {"bad_actions_are_refused"}),
    (AnyLog(), {"bad_logs_are_refused"}),
    (Leader(AnyArm), {"bad_arms_are_refused", "refused_calls_change_nothing"}),
    (Leader(AnyReward), {"bad_rewards_are_refused", "refused_calls_change_nothing"}),
    (Leader(ChecksTooLate), {"refused_calls_change_nothing"}),
    (faulty(PlaysBackwards), {"compiled_equals_interactive"}),
    (faulty(KeepsItsRuns), {"memory_of_the_loop_is_constant"}),
    (Leader(UnequalUpdate), {"update_is_commit_and_observe"}),
    (Leader(LateDiscount), {"rewards_come_in_any_order"}),
    (Leader(Impatient), {"lost_rewards_block_nothing"}),
    (Leader(TakesAnything), {"unowed_rewards_are_refused"}),
    (Kept(ForgetsRewards), {"snapshots_have_the_same_future", "snapshots_await_the_same_rewards"}),
    (Kept(ForgetsPending), {"snapshots_await_the_same_rewards"}),
    (faulty(FallingBounds), {"lower_bounds_never_fall"}),
    (faulty(NarrowBounds), {"bounds_enclose_the_estimate"}),
    (faulty(DriftingInverse), {"inverse_is_inverse"}),
    (faulty(DriftingDeterminant), {"estimate_matches_cholesky"}),
    (faulty(LosesAReward), {"estimate_matches_what_was_observed", "compiled_equals_interactive"}),
    (Leader(LowIndexFirst), {"permuting_arms_permutes_decisions"}),
    (Leader(LikesItsAxes), {"rotating_the_space_changes_no_decision"}),
]


def fault(policy: Any) -> str:
    return (
        getattr(policy, "agent", type(policy)).__name__
        if type(policy) in (Leader, Kept)
        else type(policy).__name__
    )


@pytest.mark.parametrize("policy, laws", BROKEN, ids=[fault(policy) for policy, _ in BROKEN])
def test_the_right_law_catches_the_fault_and_no_other(policy: Any, laws: set[str]) -> None:
    for name, law in all_checks(policy):
        if name in laws:
            with pytest.raises(Exception):  # noqa: B017 - any exception is a broken law
                law(policy)
    ran = check_policy(policy, skip=laws)
    assert not set(ran) & laws
    with pytest.raises(AssertionError, match="breaks (" + "|".join(laws) + "): "):
        check_policy(policy)


def test_every_law_has_a_fault_that_it_catches() -> None:
    assert set().union(*(laws for _, laws in BROKEN)) == set(ALL_LAWS)


def test_only_laws_can_be_skipped() -> None:
    with pytest.raises(ValueError, match="skip must hold names of laws, got gravity"):
        check_policy(LinOtO(), skip=["gravity"])


def test_a_law_is_one_sentence() -> None:
    for _, laws in LAWS:
        for law in laws:
            assert law.__doc__ and law.__doc__.strip().endswith(".") and "\n" not in law.__doc__
