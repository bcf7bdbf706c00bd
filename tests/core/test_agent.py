"""A running policy: what it decides, what it may decide among, and what it does with commits and rewards."""

import copy
import itertools
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linoto.checks.problems import small_problem
from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.confidence import PAPER, Confidence
from linoto.core.decisions import Decision, NoSafeArm
from linoto.core.gates import Budget, Tolerance
from linoto.core.kernels import Parts, State
from linoto.core.kernels.compiling import compiled
from linoto.core.offline import Offline
from linoto.core.policies import Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random, SquareCB
from linoto.core.warm_up import all_kernels, warm_up_loop


def agent_of(policy: Any, rounds: int = 0, **start: Any) -> Agent:
    w = small_problem()
    agent: Agent = policy.start(w.actions, w.offline, **{"rng": 0, **start})
    w.play_rounds(agent, range(rounds))
    return agent


def poor(**settings: Any) -> Agent:
    """An agent that can afford nothing: a good arm, logged often, and a guess that failed."""
    offline = Offline(pulls=[400, 1, 0], reward_sums=[200.0, 0.0, 0.0])
    return LinOtO(**settings).start(np.eye(3), offline)


# -- deciding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [LinOtO(), LinUCB(scale=1.0), LinTS(), LinLCB(), Random(), Gated(fallback=2)], ids=str
)
def test_select_is_decide(policy: Any) -> None:
    w, agent = small_problem(), agent_of(policy)
    for t in range(100):
        decision = agent.decide()
        assert decision.arm == agent.select() and type(decision.arm) is int
        agent.update(decision, float(w.means[decision.arm] + w.noise[t]))
    assert agent.rounds == agent.rewards == 100


def test_a_decision_gives_its_reasons() -> None:
    decision = poor().decide()
    assert decision == Decision(
        arm=0, mode="safe", source="lcb", proposal=2, fallback=0, budget=decision.budget, round=1
    )
    assert decision.budget is not None and decision.budget < 0
    free = LinUCB(scale=1.0).start(np.eye(3), Offline.empty(3)).decide()
    assert (free.mode, free.source, free.arm, free.proposal, free.budget) == (
        "explore",
        "explorer",
        0,
        0,
        None,
    )
    closed = LinLCB().start(np.eye(3), Offline.empty(3)).decide()
    assert (closed.mode, closed.source, closed.budget) == ("safe", "lcb", None)
    fixed = Gated(explorer=LinUCB(scale=1.0), fallback=1, reach="proposal", confidence=PAPER)
    decision = fixed.start(np.eye(3), Offline(pulls=[400, 1, 0], reward_sums=[200.0, 0.0, 0.0])).decide()
    assert (decision.arm, decision.mode, decision.source, decision.fallback) == (1, "safe", "fixed", 1)


def test_a_decision_has_the_name_of_its_arm_and_so_has_what_is_safe_instead() -> None:
    log = Offline(pulls=[9, 1], reward_sums=[4.0, 0.5])
    agent = LinUCB(scale=1.0).start(np.eye(2), log, rng=0, names=("red", "blue"))
    for arm, name in enumerate(("red", "blue")):
        decision = agent.decide([arm])
        assert (decision.arm, decision.name) == (arm, name)
        assert Decision.from_dict(decision.to_dict()) == decision
    safe = agent.play_safe(agent.guard(1))
    assert safe.name == ("red", "blue")[safe.arm]
    assert LinUCB(scale=1.0).start(np.eye(2), log, rng=0).decide().name is None


def test_a_decision_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        poor().decide().arm = 2


def test_looking_changes_nothing() -> None:
    agent = agent_of(LinTS(), 50)
    arm = agent.select()
    before = agent.snapshot()
    for name in (
        "k",
        "rounds",
        "rewards",
        "pending",
        "actions",
        "theta",
        "lcb",
        "ucb",
        "baseline",
        "ellipsoid",
    ):
        value = getattr(agent, name)
        if isinstance(value, np.ndarray):
            value[:] = 7  # a copy: writing into it does not reach the agent
    for _ in range(3):
        agent.decide(), agent.decide([0, 1]), agent.guard(2), agent.select([3])
    assert agent.select() == arm and agent.snapshot() == before


# -- allowed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [LinUCB(scale=1.0), LinTS(), SquareCB(), Greedy(), Random()], ids=str)
def test_an_explorer_takes_its_best_among_the_allowed(policy: Any) -> None:
    agent = agent_of(policy, 30)
    everything = agent.decide()
    assert agent.decide(range(6)) == agent.decide(np.ones(6, dtype=bool)) == everything
    rest = [arm for arm in range(6) if arm != everything.arm]
    restricted = agent.decide(rest)
    assert restricted.arm in rest and restricted.proposal == restricted.arm
    for arm in range(6):
        assert agent.select([arm]) == agent.select(np.arange(6) == arm) == arm
    if policy == LinUCB(scale=1.0):
        assert restricted.arm == max(rest, key=lambda arm: agent.ucb[arm])


@pytest.mark.parametrize("reach", ["proposal", "affordable"])
@pytest.mark.parametrize("form", ["exact", "aggregate", "max"])
def test_what_is_played_is_always_allowed(reach: Any, form: Any) -> None:
    w, rng = small_problem(), np.random.default_rng(5)
    agent = agent_of(Gated(explorer=LinUCB(scale=1.0), gate=Budget(form=form), reach=reach, confidence=PAPER))
    seen = set()
    for t in range(300):
        allowed = rng.permutation(6)[: rng.integers(1, 7)]
        try:
            decision = agent.decide(allowed)
        except NoSafeArm:
            seen.add("none")
            decision = agent.decide()
        else:
            seen.add(decision.mode)
            assert decision.arm in allowed and decision.proposal in allowed
            assert decision.fallback is None or decision.fallback in allowed
            if decision.mode == "explore":
                assert agent.guard(decision.arm).mode == "explore"
            else:
                assert agent.lcb[decision.arm] >= agent.baseline
        agent.update(decision, float(w.means[decision.arm] + w.noise[t]))
    assert {"none", "explore"} <= seen and (reach == "affordable" or "safe" in seen)


def test_where_nothing_safe_is_allowed_it_says_so_and_changes_nothing() -> None:
    agent = poor()
    agent.select()
    before = agent.snapshot()
    for allowed in ([1, 2], [2], np.array([False, True, True])):
        with pytest.raises(NoSafeArm, match=r"allowed must hold an arm that is safe to .*, got (1, )?2:"):
            agent.decide(allowed)
        with pytest.raises(NoSafeArm):
            agent.select(allowed)
    assert agent.select() == 0 and agent.snapshot() == before
    assert agent.decide([0, 2]).arm == 0
    assert issubclass(NoSafeArm, ValueError)
    agent.driver.names = ("bus", "train", "plane")
    with pytest.raises(NoSafeArm, match="got train, plane: the gate refused them all"):
        agent.decide([1, 2])


def test_a_fixed_fallback_that_is_not_allowed_is_no_fallback() -> None:
    policy = Gated(explorer=LinUCB(scale=1.0), fallback=0, reach="proposal", confidence=PAPER)
    agent = policy.start(np.eye(3), Offline(pulls=[400, 1, 0], reward_sums=[200.0, 0.0, 0.0]))
    assert agent.decide([0, 2]).arm == 0
    with pytest.raises(NoSafeArm):
        agent.decide([1, 2])


def test_an_open_gate_needs_no_safe_arm() -> None:
    agent = LinUCB(scale=1.0, confidence=PAPER).start(
        np.eye(3), Offline(pulls=[400, 1, 0], reward_sums=[200.0, 0.0, 0.0])
    )
    decision = agent.decide([2])
    assert (decision.arm, decision.mode, decision.fallback) == (2, "explore", 2)


@pytest.mark.parametrize(
    "allowed, message",
    [
        ([], "allowed must hold at least one arm, got none"),
        (np.zeros(6, dtype=bool), "allowed must hold at least one arm, got none"),
        (np.ones(5, dtype=bool), r"allowed must be arm indices or a mask of shape \(6,\), got shape \(5,\)"),
        ([6], r"allowed must be in \[0, 6\), got 6"),
        ([-1], r"allowed must be in \[0, 6\), got -1"),
        ([0.5], "allowed must be a list of arm indices, got float64"),
        ([[0, 1]], "allowed must be a list of arm indices, got int64 of shape"),
        (3, "allowed must be a list of arm indices"),
        ("ab", "allowed must be a list of arm indices"),
    ],
)
def test_other_restrictions_are_refused(allowed: Any, message: str) -> None:
    agent = agent_of(LinOtO(), 10)
    agent.select()
    before = agent.snapshot()
    with pytest.raises(ValueError, match=message):
        agent.decide(allowed)
    assert agent.snapshot() == before


# -- guarding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", ["proposal", "affordable"])
def test_a_guarded_proposal_is_played_or_replaced_by_the_fallback(reach: Any) -> None:
    w = small_problem()
    agent = agent_of(
        Gated(explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.01), reach=reach, confidence=PAPER)
    )
    modes = set()
    for t in range(200):
        arm = t % 6
        decision = agent.guard(arm)
        modes.add(decision.mode)
        assert decision.proposal == arm and decision.fallback == np.argmax(agent.lcb)
        assert decision.budget is not None and (decision.budget > 0) == (decision.mode == "explore")
        assert decision.arm == (arm if decision.mode == "explore" else decision.fallback)
        agent.update(decision, float(w.means[decision.arm] + w.noise[t]))
    assert modes == {"explore", "safe"}


def test_a_guarded_proposal_stays_within_the_allowed_arms_or_changes_nothing() -> None:
    w, agent = (
        small_problem(),
        agent_of(Gated(explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.01), confidence=PAPER)),
    )
    refused = 0
    for t in range(200):
        allowed = [t % 6, (t + 2) % 6]
        agent.decide()
        before, free = agent.snapshot(), agent.guard(t % 6)
        try:
            decision = agent.guard(t % 6, allowed)
        except NoSafeArm:
            refused += 1
            assert free.mode == "safe" and free.fallback not in allowed
            agent.decide()
            assert agent.snapshot() == before
            decision = agent.decide()
        else:
            assert decision.arm in allowed and decision.proposal == t % 6
            assert decision.mode == free.mode or free.fallback not in allowed
        agent.update(decision, float(w.means[decision.arm] + w.noise[t]))
    assert 0 < refused < 200


def test_an_open_gate_lets_everything_through_and_a_closed_one_nothing() -> None:
    for arm in range(6):
        assert agent_of(Random()).guard(arm).arm == arm
        agent = agent_of(LinLCB())
        assert agent.guard(arm).arm == np.argmax(agent.lcb)


def test_guarding_the_explorer_s_proposal_is_deciding() -> None:
    w, agent = small_problem(), agent_of(LinOtO(alpha=0.01))
    for t in range(150):
        decision = agent.decide()
        assert agent.guard(decision.proposal) == decision
        agent.update(decision, float(w.means[decision.arm] + w.noise[t]))


# -- learning -----------------------------------------------------------------------------------------------


def test_commits_count_in_the_budget_and_rewards_in_the_estimate() -> None:
    agent = agent_of(LinOtO(), 20)
    theta, lcb, budget = agent.theta, agent.lcb, agent.guard(0).budget
    agent.commit(4)
    assert (agent.rounds, agent.rewards) == (21, 20)
    assert np.array_equal(agent.theta, theta) and np.array_equal(agent.lcb, lcb)
    assert agent.guard(0).budget == pytest.approx(budget + lcb[4] - agent.baseline)  # type: ignore[operator]
    assert agent.pending.tolist() == [0, 0, 0, 0, 1, 0]
    agent.observe(4, 0.3)
    assert (agent.rounds, agent.rewards, agent.pending.sum()) == (21, 21, 0)
    assert not np.array_equal(agent.theta, theta)


def test_the_radius_waits_for_the_first_reward() -> None:
    agent = agent_of(LinOtO())
    first = agent.ellipsoid.radius
    for arm in range(6):
        agent.commit(arm)
    assert agent.ellipsoid.radius == first
    agent.observe(0, 0.5)
    assert agent.ellipsoid.radius > first


def test_a_decision_or_its_arm_can_be_committed() -> None:
    by_decision, by_arm = agent_of(LinTS()), agent_of(LinTS())
    for t in range(50):
        decision = by_decision.decide()
        by_decision.update(decision, np.sin(t))
        by_arm.select()
        by_arm.update(decision.arm, np.sin(t))
    decision = by_decision.decide()
    by_decision.commit(decision)
    by_arm.select()
    by_arm.commit(decision.arm)
    assert by_decision.select() == by_arm.select()
    assert by_decision.snapshot() == by_arm.snapshot()


def test_any_kind_of_number_is_the_same_reward() -> None:
    agents = [agent_of(LinUCB(scale=1.0)) for _ in range(5)]
    for agent, one in zip(agents, (1, 1.0, True, np.int32(1), np.float32(1)), strict=True):
        agent.update(np.int8(2), one)  # type: ignore[arg-type]
        assert np.array_equal(agent.theta, agents[0].theta)


def test_a_reward_nobody_waits_for_is_refused() -> None:
    agent = agent_of(LinOtO(), 10)
    agent.commit(3)
    before = agent.snapshot()
    with pytest.raises(ValueError, match="arm must have a committed play that awaits its reward, got 2"):
        agent.observe(2, 0.5)
    assert agent.snapshot() == before
    agent.observe(3, 0.5)
    with pytest.raises(ValueError, match="arm must have a committed play that awaits its reward, got 3"):
        agent.observe(3, 0.5)


# -- starting -----------------------------------------------------------------------------------------------


def test_names_are_kept_and_checked() -> None:
    assert agent_of(LinOtO()).names is None
    assert agent_of(LinOtO(), names=list("abcdef")).names == tuple("abcdef")
    for bad in ("abcde", "abcdee"):
        with pytest.raises(ValueError, match="names must be 6 distinct names"):
            agent_of(LinOtO(), names=list(bad))


def test_a_seed_is_a_generator() -> None:
    w = small_problem()
    seeded, given = agent_of(LinTS(), rng=7), agent_of(LinTS(), rng=np.random.default_rng(7))
    assert w.play_rounds(seeded, range(50)) == w.play_rounds(given, range(50))


def test_any_array_of_actions_will_do() -> None:
    w = small_problem()
    rounded = w.actions.astype(np.float32)
    frozen = np.asfortranarray(rounded.astype(np.float64))
    frozen.flags.writeable = False
    strided = np.repeat(rounded.astype(np.float64), 2, axis=0)[::2]
    runs = [
        w.play_rounds(LinUCB(scale=1.0).start(actions, w.offline), range(60))
        for actions in (rounded, frozen, strided, rounded.tolist())
    ]
    assert all(run == runs[0] for run in runs)


# -- the compiled loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [LinOtO(), LinTS(), Random(), Gated(explorer=LinTS())], ids=str)
def test_the_compiled_loop_leaves_the_same_bytes(policy: Any) -> None:
    w = small_problem()
    compiled, interactive = agent_of(policy, rng=3), agent_of(policy, rng=3)
    arms, _ = compiled.play(w.means, w.noise)
    assert arms.tolist() == w.play_rounds(interactive, range(w.noise.size))
    assert compiled.snapshot() == interactive.snapshot()


def test_the_loop_can_stop_and_go_on() -> None:
    w = small_problem()
    draws = np.random.default_rng(1).standard_normal(9000)  # more than one block of random numbers
    whole, parts = agent_of(LinTS(), rng=3), agent_of(LinTS(), rng=3)
    arms = whole.play(w.means, draws)[0]
    cut = [
        parts.play(w.means, draws[part])[0] for part in (slice(0, 4000), slice(4000, 4001), slice(4001, 9000))
    ]
    assert np.array_equal(arms, np.concatenate(cut))
    assert whole.snapshot() == parts.snapshot()


def test_means_of_other_arms_are_refused() -> None:
    agent = agent_of(LinOtO(), 5)
    before = agent.snapshot()
    for means in (np.zeros(5), np.zeros(7), np.zeros((6, 1)), np.full(6, np.nan)):
        with pytest.raises(ValueError, match="means must"):
            agent.play(means, np.zeros(3))
    with pytest.raises(ValueError, match="draws must be finite"):
        agent.play(np.zeros(6), np.array([0.0, np.inf]))
    assert agent.snapshot() == before


def test_two_threads_are_two_runs() -> None:
    w = small_problem()
    draws = np.random.default_rng(2).standard_normal(20_000)

    def run(policy: Any) -> tuple[list[int], list[int]]:
        agent = agent_of(policy, rng=5)
        by_hand = w.play_rounds(agent, range(300))
        return by_hand, agent.play(w.means, draws)[0].tolist()

    policies = [LinTS(), LinOtO(), LinTS(), LinUCB(scale=1.0)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, policies)) == [run(policy) for policy in policies]


def signatures() -> dict[str, int]:
    """How many versions of each kernel there are."""
    found = (kernel for kernel in all_kernels() if hasattr(kernel, "signatures"))
    return {kernel.__name__: len(kernel.signatures) for kernel in found}


def test_no_call_compiles_a_kernel_anew() -> None:
    """It would be a stall of seconds in the middle of a run; whatever is needed, warming up has loaded."""
    w = small_problem()
    frozen = w.actions.copy()
    frozen.flags.writeable = False
    offline = Offline(pulls=[1, 2, 3, 0, 0, 0], reward_sums=np.float32([1, 0, 1, 0, 0, 0]))
    for policy in (LinOtO(budget="max"), LinTS(), Random(), Gated(fallback=2), LinLCB(frozen=True)):
        agent = policy.start(frozen, offline, rng=np.int64(1))
        warm_up_loop(agent.driver.parts)
        before = signatures()
        agent.update(agent.decide(), 1.0)
        for arm in (1, np.int8(1), np.uint64(1)):
            for reward in (1, 1.0, True, np.float32(0.5), np.int16(1), np.float64(0.5)):
                agent.update(arm, reward)  # type: ignore[arg-type]
            agent.commit(arm)  # type: ignore[arg-type]
            agent.observe(agent.pending.argmax(), 1)  # type: ignore[arg-type]
        agent.decide([0, 1, 2]), agent.guard(np.int64(2)), agent.select()  # type: ignore[arg-type]
        readonly = w.noise[:50]
        readonly.flags.writeable = False
        agent.play(w.means, readonly)
        agent.play(w.means, w.noise[::2])
        agent.play(w.means.astype(np.float32), w.noise[:10], bernoulli=True)  # type: ignore[arg-type]
        assert len(before) > 10 and signatures() == before
    every = len(Parts._fields)
    taken = {"begin": 5, "decide": every, "commit": 2, "observe": 6, "play": every + 1}  # and guardrails
    for name, parts in taken.items():
        found = {without_kind(each[:-parts]) for each in getattr(kernels, name).signatures}
        assert len(found) == 1, f"{name}: one for each set of parts and kind of state"


def without_kind(signature: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a kernel takes, whatever kind of state other tests have played with in this process."""
    params, state, *rest = signature
    stays = [name not in ("actions", "blocks") for name in State._fields]
    return (params, *itertools.compress(state.types, stays), *rest)


# -- found by breaking it ------------------------------------------------------------------------------------


def test_a_round_that_is_refused_leaves_every_byte_as_it_was() -> None:
    """Or an arm committed by number would be booked as another kind of play than it is."""
    policy = Gated(
        gate=Tolerance(epsilon=0.0, evidence="rewards"),
        confidence=Confidence(reward_range=(0, 1), noise=0.5),
    )
    agent = policy.start(np.eye(2), Offline(pulls=[500, 500], reward_sums=[50.0, 450.0]))
    lost = 0.0
    for _ in range(100):
        arm = agent.select()
        before = agent.snapshot()
        with pytest.raises(NoSafeArm):
            agent.decide(allowed=[1 - arm])
        assert agent.snapshot() == before
        agent.update(arm, [0.1, 0.9][arm])
        lost += 0.5 - [0.1, 0.9][arm]
        assert lost <= (agent.certificate.constant or 0.0) + 1e-9


def test_an_arm_by_number_is_judged_by_decide_and_not_by_guard() -> None:
    agent = Gated(
        gate=Tolerance(epsilon=0.1, evidence="rewards"),
        confidence=Confidence(reward_range=(0, 1), noise=0.5),
    ).start(np.eye(2), Offline(pulls=[50, 50], reward_sums=[25.0, 25.0]))
    due = agent.decide()
    assert due.source == "mixture"
    agent.guard(due.arm)
    agent.commit(due.arm)
    assert agent.running.run["mixed"] == 1


@pytest.mark.parametrize(
    "policy", [LinOtO(), Gated(gate=Tolerance(epsilon=0.1)), LinUCB(scale=1.0)], ids=repr
)
def test_the_budget_is_that_of_the_next_decision_and_reading_it_changes_nothing(policy: Any) -> None:
    agent = agent_of(policy, rounds=7)
    agent.decide([0, 1])
    before = [
        array.tobytes()
        for array in (agent.running.state.run, agent.running.state.arms, agent.running.state.counts)
    ]
    budget = agent.budget
    assert before == [
        array.tobytes()
        for array in (agent.running.state.run, agent.running.state.arms, agent.running.state.counts)
    ]
    assert budget == agent.decide().budget


def test_an_agent_says_what_it_is() -> None:
    agent = LinOtO().start(np.eye(2), Offline.empty(2))
    assert repr(agent).startswith("<agent of LinOtO(") and "0 rounds" in repr(agent)


@pytest.mark.parametrize(
    "actions, confidence, message",
    [
        (1e160 * np.eye(2), Confidence(), "actions must be of a size that ridge"),
        (np.eye(2), Confidence(noise=1e-170), "noise / bound must give a ridge"),
        (np.eye(2), Confidence(bound=1e-200), "noise / bound must give a ridge"),
        (1e-2 * np.eye(2), Confidence(ridge=1e-300), "actions must be of a size that ridge"),
    ],
)
def test_numbers_beyond_all_scales_are_refused(actions: Any, confidence: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinUCB(scale=1.0, confidence=confidence).start(actions, Offline(pulls=[1, 1], reward_sums=[0.5, 0.5]))


# -- without a cache ----------------------------------------------------------------------------------------


def test_a_function_without_a_home_is_compiled_all_the_same() -> None:
    """What numba cannot cache (here: code that is in no file) is compiled without a cache."""
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec("def twice(x):\n    return 2.0 * x", space)
    assert compiled(space["twice"])(2.0) == 4.0


@pytest.mark.slow
def test_where_nothing_can_be_written_it_compiles_for_the_process(tmp_path: Path) -> None:
    """A file where the cache folders should be: not even root can write there."""
    source, copy = Path(kernels.__file__).parents[2], tmp_path / "linoto"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    script = (
        "import numpy as np, linoto\n"
        "agent = linoto.LinOtO().start(np.eye(2), linoto.Offline(pulls=[9, 1], reward_sums=[4.0, 0.5]))\n"
        "agent.update(agent.select(), 0.5)\n"
        "print(agent.rounds, linoto.core.kernels.decide.stats.cache_path)\n"
    )
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), f"{os.devnull}/nowhere")
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "None"]
    assert "once on this machine" in done.stderr


@pytest.mark.parametrize("start", [{"actions": np.eye(2), "offline": Offline.empty(2)}, {"d": 2}])
def test_an_agent_is_copied_and_says_what_it_does_not_have(start: Any) -> None:
    agent = LinUCB(scale=1.0).start(**start, rng=0)
    again = copy.deepcopy(agent)
    assert again.snapshot() == agent.snapshot() and again.running is not agent.running
    missing, kind = (
        ("lcb", "rounds bring their own arms") if "d" in start else ("moments", "arms stay the same")
    )
    with pytest.raises(AttributeError, match=f"an Agent whose {kind} has no attribute '{missing}'"):
        getattr(again, missing)
    with pytest.raises(AttributeError, match="an Agent has no attribute 'wings'"):
        agent.wings  # type: ignore[attr-defined]  # noqa: B018
