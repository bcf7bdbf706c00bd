"""A reward is that of a play which happened: callers try to tell one of a play that did not.

They show decisions and play others, change them by hand, overrule them by the number of an arm, restore
snapshots and hand in decisions of the other time. Whatever is refused changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.coin_kinds import ACTIONS, CLICKS, KINDS, LOG, Fixed

import linoto
from linoto import Control, Decision, Gated, Guardrail, LinUCB, Moments, Tolerance
from linoto.core import codec, kernels
from linoto.core.snapshots import read_snapshot
from linoto.core.tickets import MOST_TICKETS, Ticket, Tickets

every_kind = pytest.mark.parametrize("kind", KINDS)
ANOTHER = r"decision must be the one that was committed in round \d+, got another"


def refused(play: Fixed, decision: Any, match: str = ANOTHER) -> None:
    """Nothing is told by this decision, and nothing has changed."""
    before = play.agent.snapshot()
    with pytest.raises(ValueError, match=match):
        play.agent.observe(decision, 1.0)
    if hasattr(play.agent, "lose"):
        with pytest.raises(ValueError, match=match):
            play.agent.lose(decision, 1.0)
    assert play.agent.snapshot() == before


def thrown(play: Fixed) -> Any:
    """The next decision about which the coin was asked."""
    decision = play.ask()
    while decision.control_share is None:
        play.agent.update(decision, 1.0)
        decision = play.ask()
    return decision


def playing(decision: Any, arm: int) -> Any:
    """The same decision with another arm, by hand."""
    action = None if decision.action is None else tuple(ACTIONS[arm].tolist())
    return replace(decision, arm=arm, action=action)


def explored_plays(play: Fixed) -> int:
    return int(play.run["explored_plays"])


# -- one by one


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_a_decision_that_was_only_shown_has_no_reward(kind: str) -> None:
    play, kinds = KINDS[kind](rng=0), set()
    for _ in range(20):
        shown = play.ask(safe=True)
        safe = play.safe(shown)
        play.agent.commit(safe)
        if shown.control_share is not None:
            kinds.add(shown.source)
            refused(play, shown)
        play.agent.observe(safe, 1.0)
    assert kinds == {"explorer", "control"}


def test_a_decision_that_was_overruled_has_no_reward() -> None:
    play = KINDS["fixed arms"](rng=0)
    decision = thrown(play)
    other = (decision.arm + 1) % 3
    play.agent.commit(other)
    refused(play, decision)
    play.agent.observe(other, 1.0)


@every_kind
@pytest.mark.parametrize(
    "change",
    [{"control_share": 0.5}, {"control_share": 0.999}, {"centre": -3.0}, {"centre": 0.9}, {"source": 0}],
)
def test_a_coin_that_a_decision_claims_is_not_believed(kind: str, change: dict[str, Any]) -> None:
    play = KINDS[kind](rng=0)
    decision = thrown(play)
    play.agent.commit(decision)
    other = "explorer" if decision.source == "control" else "control"
    refused(play, replace(decision, **({"source": other} if "source" in change else change)))
    play.agent.observe(decision, 1.0)


@every_kind
def test_a_reward_goes_to_the_arm_that_was_played(kind: str) -> None:
    play = KINDS[kind](rng=0)
    decision = play.ask()
    play.agent.commit(decision)
    for arm in range(3):
        if arm != decision.arm:
            refused(play, playing(decision, arm))
    play.agent.observe(decision, 1.0)


@every_kind
def test_a_decision_that_a_snapshot_forgot_has_no_reward(kind: str) -> None:
    play = KINDS[kind](rng=0)
    kept, lost = play.agent.snapshot(), play.ask()
    while lost.source != "explorer":
        play.agent.update(lost, 1.0)
        kept, lost = play.agent.snapshot(), play.ask()
    play.agent.commit(lost)
    play.agent = linoto.restore(kept)
    refused(play, lost, f"got one of round {lost.round}, which does not|after {lost.round - 1} rounds")
    play.agent.commit(play.ask(play.practice()))  # another visitor came in that round
    refused(play, lost)


@every_kind
@pytest.mark.parametrize("restored", [False, True])
def test_an_arm_that_is_changed_in_a_closed_round_counts_at_its_worst(kind: str, restored: bool) -> None:
    """Practice was decided; something else is played in its name. With contexts, a restored agent knows of a
    round what the decision says: practice there is what it says, and the same arm.
    """
    play = KINDS[kind](gate=Control(budget=1.0), rng=0)
    while (decision := play.ask()).budget >= 0 or decision.proposal == decision.fallback:
        play.agent.update(decision, 0.0)
    assert decision.control_share is None and decision.arm != 2
    before = explored_plays(play)
    if restored:
        play.agent = linoto.restore(play.agent.snapshot())
    changed = playing(decision, 2)
    play.agent.commit(changed)
    assert explored_plays(play) == before + 1
    play.agent.observe(changed, 1.0)
    assert play.ask().mode == "safe"


@every_kind
def test_a_decision_from_before_a_restore_is_what_it_was(kind: str) -> None:
    """Nobody has asked the restored agent: where the gate was closed, it was practice that was played."""
    play = KINDS[kind](gate=Control(budget=1.0), rng=0)
    for t in range(30):
        decision = play.ask()
        again = KINDS[kind](gate=Control(budget=1.0), rng=0)
        again.agent = linoto.restore(play.agent.snapshot())
        for each in (play, again):
            each.agent.commit(decision)
            each.agent.observe(decision, float(t % 2))
        assert again.agent.snapshot() == play.agent.snapshot()


def test_the_practice_of_a_round_is_the_one_that_was_asked_with() -> None:
    """By the model, what is lost is the difference to practice: a decision cannot have another one."""
    rows = np.repeat(np.eye(2), 50, axis=0)
    policy = Gated(gate=Tolerance(budget=50.0, evidence="model"), confidence=replace(CLICKS, noise=0.5))
    agent = policy.start(Moments.from_rows(rows, np.repeat([0.8, 0.2], 50)), rng=0)
    decision = agent.guard(1, actions=np.eye(2), practice=0)
    assert decision.mode == "explore"
    with pytest.raises(ValueError, match="decision must have the practice of what was asked in round 1"):
        agent.commit(replace(decision, practice=decision.action))
    agent.commit(replace(decision, source="practice"))  # in the name of practice: it is no play of practice
    excess = agent.running.state.vectors[kernels.EXCESS].tolist()
    assert excess == [-1.0, 1.0]


def test_a_play_in_the_name_of_the_mixture_is_none() -> None:
    policy = Gated(
        gate=Tolerance(budget=30.0, evidence="rewards"), explorer=LinUCB(scale=1.0), confidence=CLICKS
    )
    for runs in (
        policy.start(ACTIONS, LOG, rng=0),
        linoto.Guard(LOG, budget=30.0, reward_range=(0, 1), noise="bounded"),
    ):
        decision = runs.guard(2) if hasattr(runs, "guard") else runs.decide(2)
        assert decision.source == "explorer"
        runs.commit(replace(decision, source="mixture"))
        run = runs.running.run if hasattr(runs, "running") else runs._run[0]
        assert (int(run["mixed"]), int(run["explored_plays"])) == (0, 1)


TOLD = "got one of round {}, which does not: its reward was told before, or it was not played"


@pytest.mark.parametrize("how", ["observe", "lose"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_reward_by_its_arm_is_not_told_again_by_its_decision(how: str, restored: bool) -> None:
    """Whatever else is open, and whatever is played of the same arm later."""
    for seed in range(5):
        play = KINDS["fixed arms"](rng=seed)
        play.agent.commit(2)  # stays open: no telling is the last one
        decision = play.ask()
        while decision.source != "control":
            play.agent.update(decision, 1.0)
            decision = play.ask()
        play.agent.commit(decision)
        if restored:
            play.agent = linoto.restore(play.agent.snapshot())
        getattr(play.agent, how)(decision.arm, 0.0)
        play.agent.commit(play.ask(play.practice()))
        play.agent.commit(decision.arm)
        refused(play, decision, TOLD.format(decision.round))


def test_control_that_lost_is_told_twice_by_nobody() -> None:
    """An attack: every control reward of 0 is told by arm and by decision. It lost 900 of a budget of 20."""
    log = linoto.Offline(pulls=[100, 0, 0], reward_sums=[60.0, 0.0, 0.0])
    agent = Gated(gate=Control(budget=20.0), confidence=CLICKS).start(np.eye(3), log, rng=0)
    rng, lost, told_twice = np.random.default_rng(100), 0.6, 0
    agent.commit(1)
    for _ in range(1500):
        decision = agent.guard(2)
        lost += 0.18 * (decision.arm == 2)
        reward = float(rng.random() < (0.42 if decision.arm == 2 else 0.6))
        if decision.source != "control" or reward:
            agent.update(decision, reward)
            continue
        agent.commit(decision)
        agent.observe(0, reward)
        agent.commit(agent.guard(0))
        with pytest.raises(ValueError, match="its reward was told before"):
            agent.observe(decision, reward)
        told_twice += 1
        agent.observe(0, 1.0)
    assert told_twice > 20 and lost <= 20.0


def test_a_guard_hears_of_each_play_once_by_arm_or_by_decision() -> None:
    log = linoto.Offline(pulls=[100, 0], reward_sums=[60.0, 0.0])
    guard = linoto.Guard(log, budget=30.0, promise="realised", reward_range=(0, 1), noise="bounded")
    plays = []
    for _ in range(3):
        plays.append(guard.decide(1))
        guard.commit(plays[-1])
    guard.observe(1, 1.0)
    with pytest.raises(ValueError, match="got one of round 1, which does not"):
        guard.observe(plays[0], 1.0)
    for play in plays[1:]:
        guard.observe(play, 0.0)
    assert guard._run[0]["earned"] == 1.0 and guard.pending.sum() == 0


def test_control_of_another_time_is_no_control_where_something_else_is_played() -> None:
    """Contexts, between decide and commit a crash: the coin is right, the action is another."""
    play = KINDS["contexts"](rng=0)
    kept, decision = play.agent.snapshot(), play.ask()
    while decision.source != "control":
        play.agent.update(decision, 1.0)
        kept, decision = play.agent.snapshot(), play.ask()
    play.agent = linoto.restore(kept)
    play.agent.commit(playing(decision, 2))
    assert play.agent.running.tickets.by_round[decision.round].entry == kernels.UNASKED_PLAY
    play.agent = linoto.restore(kept)
    play.agent.commit(decision)
    assert play.agent.running.tickets.by_round[decision.round].entry == kernels.CONTROL_PLAY


@pytest.mark.parametrize("entry", [float("nan"), float("inf"), 1e60])
@pytest.mark.parametrize("name", ["action", "practice"])
def test_what_no_question_could_hold_is_not_learnt(name: str, entry: float) -> None:
    for gate in (Control(budget=20.0), linoto.Open()):
        rows = np.repeat([0, 1], 50)
        moments = Moments.from_rows(ACTIONS[rows], np.full(100, 0.5))
        agent = Gated(gate=gate, explorer=LinUCB(), confidence=CLICKS).start(moments, rng=0)
        decision = agent.decide(actions=ACTIONS, practice=0)
        before, changed = agent.snapshot(), replace(decision, **{name: (entry, 0.0)})
        told = f"decision must have an? {name} of numbers of a size below"
        with pytest.raises(ValueError, match=told):
            agent.commit(changed)
        with pytest.raises(ValueError, match=told):
            agent.update(changed, 1.0)
        assert agent.snapshot() == before
        agent.commit(decision)
        with pytest.raises(ValueError, match=told):
            agent.observe(changed, 1.0)


@every_kind
@pytest.mark.parametrize("change", [{"centre": 0.9}, {"control_share": 0.01}])
def test_an_update_is_done_or_changes_nothing(kind: str, change: dict[str, Any]) -> None:
    """A coin that was changed by hand: the books have the one that was thrown."""
    play = KINDS[kind](rng=0)
    decision = thrown(play)
    before = play.agent.snapshot()
    try:
        play.agent.update(replace(decision, **change), 1.0)
    except ValueError:
        assert play.agent.snapshot() == before
        return
    changed, play.agent = play.agent.snapshot(), linoto.restore(before)
    play.agent.update(decision, 1.0)
    assert changed == play.agent.snapshot()


def test_an_update_of_a_guard_is_a_commit_and_an_observation() -> None:
    rail = Guardrail("margin", reward_range=(-2, 4), budget=40)
    for more in ({"gate": Control(budget=20.0), "guardrails": [rail], "rng": 0}, {"budget": 30.0}):
        one, two = (linoto.Guard(LOG, reward_range=(0, 1), noise="bounded", **more) for _ in range(2))
        for t in range(40):
            metrics = {"margin": float(t % 3)} if t % 2 and "gate" in more else None
            one.update(one.decide(2), float(t % 2), metrics)
            decision = two.decide(2)
            two.commit(decision)
            two.observe(decision, float(t % 2), metrics)
            assert one.snapshot() == two.snapshot()


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_what_was_shown_before_a_simulation_was_not_made_after_it(kind: str) -> None:
    play = KINDS[kind](rng=3)
    play.ask(play.practice())  # no coin
    draws = np.random.default_rng(0).random(5)
    if kind == "fixed arms":
        play.agent.play(np.array([0.6, 0.5, 0.0]), draws, bernoulli=True)
    else:
        rounds = {"actions": np.tile(ACTIONS, (5, 1)), "weights": np.tile(play.shares, 5)}
        play.agent.play(
            np.tile([0.6, 0.5, 0.0], 5), draws, ends=np.arange(3, 16, 3), bernoulli=True, **rounds
        )
    assert play.agent.rounds == 5 and not play.agent.running.tickets.offered


# -- all together


class Caller:
    """Somebody who does everything at once, and an oracle that remembers what was really played."""

    def __init__(self, kind: str, seed: int) -> None:
        self.play, self.rng = (
            KINDS[kind](gate=Control(budget=6.0, epsilon=0.01), rng=seed),
            np.random.default_rng(seed),
        )
        self.by_number = kind == "fixed arms"
        self.seen: list[Any] = []  # every decision there ever was, of all times
        self.truth: dict[int, int] = {}  # round -> arm, in this time
        self.open: set[int] = set()
        self.saved = self.memory()
        self.told = self.refused = 0

    def memory(self) -> tuple[bytes, dict[int, int], set[int]]:
        return self.play.agent.snapshot(), dict(self.truth), set(self.open)

    def step(self) -> None:
        """One thing."""
        if self.rng.random() < 0.05:
            self.saved = self.memory()
        if self.rng.random() < 0.04:
            blob, truth, opened = self.saved
            self.play.agent, self.truth, self.open = linoto.restore(blob), dict(truth), set(opened)
        decision = self.play.ask(int(self.rng.integers(3)) if not self.is_thrown else self.wanted)
        self.wanted = decision.proposal
        self.seen.append(decision)
        choice = self.rng.random()
        if choice < 0.2:
            decision = playing(decision, int(self.rng.integers(3)))
        elif choice < 0.3 and self.by_number:
            decision = int(self.rng.integers(3))
        self.commit(decision)
        for _ in range(3):
            self.tell(self.seen[int(self.rng.integers(len(self.seen)))])

    wanted = 0

    @property
    def is_thrown(self) -> bool:
        return bool(self.play.run["coin_thrown"])

    def commit(self, decision: Any) -> None:
        arm = decision if isinstance(decision, int) else decision.arm
        try:
            self.play.agent.commit(decision)
        except ValueError:  # with contexts, once the coin is thrown
            decision = self.seen[-1]
            arm = decision.arm
            self.play.agent.commit(decision)
        self.truth[self.play.agent.rounds] = arm
        self.open.add(self.play.agent.rounds)
        self.seen += [decision] if isinstance(decision, Decision) else []

    def tell(self, decision: Any) -> None:
        if self.rng.random() < 0.3:
            decision = playing(decision, int(self.rng.integers(3)))
        if self.rng.random() < 0.2:
            decision = replace(decision, control_share=0.9, centre=0.0)
        try:
            self.play.agent.observe(decision, float(self.rng.random() < 0.5))
        except ValueError:
            self.refused += 1
            return
        assert decision.round in self.open and self.truth[decision.round] == decision.arm
        self.open.remove(decision.round)
        self.told += 1


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_caller_does_only_plays_that_happened_are_learnt_from(kind: str, seed: int) -> None:
    """And every play of the arm that practice never has is an explored one in the books."""
    caller = Caller(kind, seed)
    for _ in range(150):
        caller.step()
        never_practice = sum(arm == 2 for arm in caller.truth.values())
        assert explored_plays(caller.play) >= never_practice
        assert caller.play.agent.rounds == len(caller.truth)
    assert min(caller.told, caller.refused) > 30


# -- what is kept


def test_plays_of_which_nothing_comes_cost_no_more_memory_than_was_agreed() -> None:
    tickets = Tickets()
    for round in range(1, MOST_TICKETS + 11):
        tickets.keep(round, Ticket(round % 3))
    assert len(tickets.by_round) == MOST_TICKETS and next(iter(tickets.by_round)) == 11


@every_kind
def test_nothing_is_kept_of_what_has_come(kind: str) -> None:
    play, decisions = KINDS[kind](rng=0), []
    for _ in range(8):
        decisions.append(play.ask())
        play.agent.commit(decisions[-1])
    assert len(read_snapshot(play.agent.snapshot())[1]["tickets"]) == 8
    for decision in decisions[::-1]:
        play.agent.observe(decision, 1.0)
    assert "tickets" not in read_snapshot(play.agent.snapshot())[1]


@every_kind
def test_a_snapshot_of_the_version_before_goes_on_as_it_did(kind: str) -> None:
    """It does not say what was played in its open rounds: they are what their decisions say."""
    play = KINDS[kind](rng=0)
    first = play.ask()
    play.agent.commit(first)
    header, arrays = read_snapshot(play.agent.snapshot())
    del header["tickets"], arrays["tickets"]
    play.agent = linoto.restore(codec.pack(header | {"format": 5}, arrays))
    second = play.ask()
    play.agent.commit(second)
    play.agent.observe(first, 1.0)
    refused(play, playing(second, (second.arm + 1) % 3))
    play.agent.observe(json_copy(second), 1.0)


def json_copy(decision: Decision) -> Decision:
    return Decision.from_dict(json.loads(json.dumps(decision.to_dict())))


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_who_keeps_decisions_itself_is_believed_and_its_snapshots_do_not_grow(kind: str) -> None:
    play, sizes = KINDS[kind](rng=0), []
    play.agent.trust_decisions()
    for _ in range(40):
        play.agent.commit(play.ask())
        sizes.append(len(read_snapshot(play.agent.snapshot())[1].get("tickets", ())))
    assert sizes == [0] * 40


# -- guardrails


def test_a_snapshot_with_guardrails_is_of_a_format_that_older_versions_refuse() -> None:
    rail = Guardrail("margin", reward_range=(-2, 4), budget=40)
    guard = linoto.Guard(
        LOG, gate=Control(budget=20.0), reward_range=(0, 1), noise="bounded", guardrails=[rail], rng=0
    )
    assert read_snapshot(guard.snapshot())[0]["format"] >= 6


def test_a_budget_of_a_guardrail_that_cannot_open_is_named_as_it_is() -> None:
    rail = Guardrail("margin", reward_range=(-2, 4), budget=5)
    told = "guardrail 'margin': budget must be at least 6, what one round can lose, where rate is 0, got 5"
    with pytest.raises(ValueError, match=told) as error:
        Gated(gate=Control(budget=20.0), confidence=CLICKS, guardrails=[rail]).start(ACTIONS, LOG)
    assert "epsilon" not in str(error.value)


def test_names_that_look_alike_are_one() -> None:
    """Without spaces around them, and one way to write each letter."""
    rail = Guardrail(" r\u0065\u0301fund ", reward_range=(0, 1), budget=9)
    assert rail.name == "r\u00e9fund"
    with pytest.raises(ValueError, match="name must be a text that is not empty, got ' '"):
        replace(rail, name=" ")
    twins = [rail, replace(rail, name="r\u00e9fund")]
    with pytest.raises(ValueError, match="guardrails must have names of their own"):
        Gated(gate=Control(budget=20.0), confidence=CLICKS, guardrails=twins)
    agent = Gated(gate=Control(budget=20.0), confidence=CLICKS, guardrails=[rail]).start(ACTIONS, LOG)
    agent.update(agent.decide(), 1.0, {"r\u0065\u0301fund": 0.0})
    with pytest.raises(ValueError, match="metrics must have one value of r\u00e9fund, got two"):
        agent.update(agent.decide(), 1.0, {"r\u0065\u0301fund": 0.0, "r\u00e9fund": 1.0})
