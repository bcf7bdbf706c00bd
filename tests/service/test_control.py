"""A loop whose gate throws a coin: its events hold what the rewards need, and no coin is thrown twice."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from helpers import loop_in_memory as memory
from helpers.chance import most
from helpers.loops import change, decide, digests, reward, run_mixed_traffic
from helpers.selection import sizes
from helpers.service_process import FakeClock, close_due, create, opened, spec_of

import linoto
from linoto.service.errors import Refused
from linoto.service.loops.events import DECISIONS, DecisionMade
from linoto.service.loops.explanations import explain
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.starting import start_agent
from linoto.service.storage import sql

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
NORMAL = linoto.Confidence(noise=0.5, reward_range=(0.0, 1.0))
VARIANTS: dict[str, tuple[dict[str, Any], linoto.Confidence]] = {
    "realised": ({"budget": 4.0, "epsilon": 0.1}, CLICKS),
    "expected": ({"budget": 12.0, "promise": "expected"}, CLICKS),
    "sub-Gaussian": ({"budget": 12.0, "promise": "expected"}, NORMAL),
    "stretches": ({"budget": 20.0, "every": 20}, CLICKS),
    "loan": ({"budget": 2.0, "epsilon": 0.05, "loan": 4.0}, CLICKS),
}


def controlled(confidence: linoto.Confidence = CLICKS, **gate: Any) -> linoto.Gated:
    return linoto.Gated(
        explorer=linoto.LinTS(), gate=linoto.Control(**{"budget": 5.0, **gate}), confidence=confidence
    )


def bets(loop: Loop) -> Any:
    return loop.agent.running.run["coin_bets"].copy()


# -- stored and replayed


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.few(2)
def test_state_is_the_fold_of_its_events_bit_for_bit(tmp_path: Path, name: str) -> None:
    """Proposals, allowed arms, every mode, rewards that are late, lost or repeated; and after a restart."""
    clock, (gate, confidence) = FakeClock(), VARIANTS[name]
    with opened(tmp_path / "x.sqlite", clock=clock, snapshot_every=7) as service:
        create(service, window=10.0, policy=controlled(confidence, **gate))
        run_mixed_traffic(service, clock)
        change(service, mode="live")
        run_mixed_traffic(service, clock)
        memory, short, long = digests(service)
        assert memory == short == long
        groups = service.loops.get("loop").state.groups
        assert groups["explore"].plays > 3 and groups["holdback"].plays > 3
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        assert set(digests(service)) == {memory}


def test_rewards_in_another_order_leave_the_same_rounds_pending_and_the_same_fold(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite", snapshot_every=11) as service:
        create(service, policy=controlled())
        rng = np.random.default_rng(0)
        made = [decide(service, proposal="c").decision_id for _ in range(40)]
        for decision_id in rng.permutation(made).tolist():
            reward(service, decision_id, float(rng.random() < 0.5))
        loop = service.loops.get("loop")
        assert loop.agent.running.run["pending"] == 0 and not loop.pending
        assert len(set(digests(service))) == 1


# -- one round, one coin


def test_asking_again_throws_no_coin(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=controlled())
        for number in range(30):
            first = decide(service, key=f"k{number}", proposal="c")
            assert decide(service, key=f"k{number}", proposal="c") == first
            with pytest.raises(Refused, match="another proposal"):
                decide(service, key=f"k{number}", proposal="b")
        assert service.loops.get("loop").agent.rounds == 30


def test_a_transaction_that_was_undone_throws_the_same_coins_again(tmp_path: Path) -> None:
    """Many decisions in one transaction; nobody was told of those that are undone, and they come again."""
    seen: list[list[DecisionMade]] = []
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service, policy=controlled(budget=50.0))

        def ask(connection: Connection) -> None:
            seen.append([service.loops.decide(connection, "loop", proposal="c") for _ in range(12)])

        def fail(connection: Connection) -> None:
            ask(connection)
            connection.execute("INSERT INTO loops VALUES (1, 'loop', x'00', 0.0)")

        with pytest.raises(Exception, match="UNIQUE"):
            service.store.write_sync(fail)
        service.store.write_sync(ask)
        assert {event.source for event in seen[-1]} == {"explorer", "control"}
        assert all(tried == seen[-1] for tried in seen)


def test_a_reward_that_never_comes_counts_at_its_worst_for_ever(tmp_path: Path) -> None:
    """An expired round is no second chance: the room stays as if its reward were still awaited."""
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service, policy=controlled(budget=8.0), window=10.0)
        made = [decide(service, proposal="c") for _ in range(12)]
        loop = service.loops.get("loop")
        before, room = bets(loop), loop.agent.budget
        clock.now += 10.0
        assert close_due(service) == 12
        np.testing.assert_array_equal(bets(loop), before)
        assert loop.agent.budget == room and not loop.pending
        assert reward(service, made[0].decision_id, 1.0).status == "expired"
        np.testing.assert_array_equal(bets(loop), before)
        assert len(set(digests(service))) == 1


def test_a_default_that_is_a_reward_counts_as_one() -> None:
    """Where only clicks are reported, no click is a reward of 0, also of a control round."""
    loops = [memory.fresh(policy=controlled(budget=8.0), missing_reward="default") for _ in range(2)]
    for number in range(1, 13):
        for loop, value in zip(loops, (None, 0.0), strict=True):
            memory.decide(loop, proposal=2)
            memory.close(loop, number, value)
    np.testing.assert_array_equal(bets(loops[0]), bets(loops[1]))
    assert loops[0].state.groups["holdback"].closed > 0


@pytest.mark.parametrize("mode", ["shadow", "safe-only"])
def test_without_exploration_no_coin_is_thrown(mode: Any) -> None:
    loop = memory.fresh(policy=controlled(budget=50.0), mode=mode)
    stakes = bets(loop).copy()
    events = list(memory.play(loop, 200, [0.6, 0.5, 0.7], proposal=2))
    assert {event.source for event in events} == {"mixture"} and np.array_equal(bets(loop), stakes)
    assert {event.control_share for event in events} == {None}
    assert {event.group for event in events} == {"safe"}
    assert {event.live_mode for event in events} == {"explore", "safe"}, "shadow tells what live would do"
    shares = np.bincount([event.arm for event in events], minlength=3) / 200
    np.testing.assert_allclose(shares, [50 / 80, 30 / 80, 0.0], atol=0.17)  # 5 standard deviations
    assert {event.propensity for event in events} == {50 / 80, 30 / 80}


# -- the promise, through the loop


@pytest.mark.parametrize("lost", ["none", "controls that earned"])
@pytest.mark.few(0)
@pytest.mark.parametrize("runs", sizes(20, 40))
def test_the_promise_holds_at_its_rate_whatever_is_lost(lost: str, runs: int) -> None:
    """Practice earns 1 whenever the caller's arm earns 0, which the caller foresees near the boundary.

    At delta = .5 there are by chance more violations once in 300.
    """
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), delta=0.5)
    broken = sum(violates(controlled(confidence, budget=3.0, epsilon=0.05), lost, run) for run in range(runs))
    assert broken <= most(runs, 0.5, 0.003)


def violates(policy: linoto.Gated, lost: str, run: int) -> bool:
    """Whether the explored rounds of one run ever earn too little; practice's reward is fixed beforehand."""
    loop, rng, shortfall, worst = memory.fresh(policy=policy, seed=run), np.random.default_rng(run), 0.0, -1.0
    for t, draw in enumerate(rng.random(100).tolist(), start=1):
        event = memory.decide(loop, proposal=2)
        practice = float(draw < 0.7)
        own = 1 - practice if (event.budget or 0.0) < 2.0 else float(draw > 0.2)
        shortfall += (practice - own) * (event.source == "explorer")
        worst = max(worst, shortfall - 3.0 - 0.05 * t)
        value = own if event.source == "explorer" else practice
        gone = lost != "none" and event.source == "control" and value == 1.0
        memory.close(loop, event.number, None if gone else value)
    return worst > 1e-9


# -- one control group


def test_a_share_held_back_is_the_share_of_the_coin() -> None:
    spec = spec_of(controlled(), holdback=0.3)
    assert spec.holdback == 0.0 and spec.policy["gate"]["share"] == 0.3
    assert spec_of(controlled(share=0.3), holdback=0.3) == spec
    loop = Loop.fresh("loop", spec)
    assert {memory.decide(loop, proposal=2).control_share for _ in range(5)} <= {0.3, None}
    with pytest.raises(Refused, match=r"must be the share of the gate, 0\.1, or left out, got 0\.3"):
        spec_of(controlled(share=0.1), holdback=0.3)


def test_a_share_is_not_held_back_twice(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=controlled())
        with pytest.raises(Refused, match="holdback must be 0 in a loop whose gate throws a coin"):
            change(service, holdback=0.2)
        change(service, holdback=0.0)


def test_epochs_are_refused() -> None:
    policy = linoto.Doubling(policy=controlled())
    with pytest.raises(Refused, match="must not begin anew in epochs"):
        start_agent(spec_of(policy))


def test_a_named_arm_can_be_practice_without_a_log() -> None:
    policy = linoto.Gated(gate=linoto.Control(budget=5.0), fallback=1, confidence=CLICKS)
    none = LogStatistics(pulls=[0, 0, 0], reward_sums=[0.0, 0.0, 0.0])
    loop = memory.fresh(policy=policy, offline=none)
    events = list(memory.play(loop, 60, [0.6, 0.5, 0.7], proposal=2))
    assert {event.fallback for event in events} == {1}
    assert {event.source for event in events} >= {"explorer", "control"}


# -- what is told of a decision


@pytest.mark.few(0)
def test_propensities_are_the_frequencies() -> None:
    """Of the first decision of 200 loops that differ in their seed alone: within 5 standard deviations."""
    counts, said = np.zeros(3), np.zeros(3)
    for seed in range(200):
        event = memory.decide(memory.fresh(policy=controlled(), seed=seed), proposal=2)
        counts[event.arm] += 1
        assert event.propensity is not None
        said[event.arm] = event.propensity
    np.testing.assert_allclose(counts / 200, said, atol=5 * 0.5 / 200**0.5)
    assert said.sum() == pytest.approx(1.0)


def test_a_decision_says_that_a_coin_was_thrown(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=controlled(budget=90.0))
        for _ in range(40):
            decide(service, proposal="c")
        decide(service, proposal="a", allowed=["a"])
        change(service, mode="safe-only")
        decide(service, proposal="c")
        loop = service.loops.get("loop")

        def read(connection: Connection) -> dict[str, list[str]]:
            found = {}
            for number in range(1, 43):
                row = sql.event_of_decision(connection, loop.id, number)
                assert row is not None
                name = "last" if number == 42 else DECISIONS.decode(row[1]).source
                found[name] = explain(connection, loop, loop.decision_id(number)).reasons
            return found

        reasons = service.store.write_sync(read)
    assert "threw a coin between it and" in reasons["explorer"][1]
    assert reasons["control"][2].startswith("This decision is a control round, so ")
    assert reasons["mixture"][1:] == [
        "Current practice would play a too, so there was nothing to decide.",
        "a was played as the safe arm: it is what current practice plays in this round.",
    ]
    assert reasons["last"][1].startswith("No coin was thrown: ")
