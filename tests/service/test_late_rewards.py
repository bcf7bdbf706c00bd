"""Late rewards hide nothing that earlier decisions tell, and when rewards come raises no alarm."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from helpers import loops_with_contexts as contexts
from helpers.loop_in_memory import Loop, close, decide, fresh
from helpers.loops import add_arms, digests
from helpers.loops import decide as ask
from helpers.loops import reward as tell
from helpers.service_process import create as make
from helpers.service_process import opened

import linoto
from linoto.service.loops import views
from linoto.service.loops.books import Books, Entry
from linoto.service.loops.detector import Claim, Detector
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.practice import books_of, sums_of
from linoto.service.loops.recipe_spec import as_statistics
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.views import practice_view
from linoto.service.loops.watch import Watch

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
LOG = LogStatistics(pulls=[6000, 4000, 0], reward_sums=[3000.0, 2000.0, 0.0])


def play_late(
    loop: Loop, rounds: int, means: list[float], late: int, *, seed: int = 0, **request: Any
) -> Iterator[DecisionMade]:
    """Every reward comes `late` decisions after its own."""
    waiting: deque[tuple[int, float]] = deque()
    for draw in np.random.default_rng(seed).random(rounds).tolist():
        event = decide(loop, **request)
        waiting.append((event.number, float(draw < means[event.arm])))
        if len(waiting) > late:
            close(loop, *waiting.popleft())
        yield event


def alarm_after(events: Iterator[DecisionMade], loop: Loop, kind: str) -> int | None:
    """The decision at which there is an alarm of this kind."""
    return next((e.number for e in events if kind in [alarm.kind for alarm in loop.state.alarms]), None)


# -- alarms


def drift_noticed(late: int, *, now: bool) -> int | None:
    """Plays after a fall from 0.05 to 0.02 until it is noticed; 1,000 good ones before."""
    rng, detector = np.random.default_rng(0), Detector()
    claim = Claim.about((0.045, 0.055), (0.0, 1.0), None, 0.0)
    clicks = (rng.random(5000) < np.repeat([0.05, 0.02], [1000, 4000])).astype(float).tolist()
    for t in range(5000):
        detector.add_play(t + 1, True)
        if t < late:
            continue
        detector.add_reward(t + 1 - late, True, (clicks[t - late], clicks[t - late]))
        if detector.is_due and detector.evidence(claim, now=now) > np.log(1e5):
            return t - 1000
    return None


def test_drift_is_noticed_as_much_later_as_rewards_are_late() -> None:
    """At the last decision alone, with 200 open ones at their best, it is never noticed."""
    prompt, late = drift_noticed(0, now=False), drift_noticed(200, now=False)
    assert prompt is not None and late is not None and late <= prompt + 2 * 200
    assert drift_noticed(200, now=True) is None


@pytest.mark.parametrize("evidence", ["model", "both"])
@pytest.mark.few(1)
def test_a_broken_promise_is_noticed_as_much_later_as_rewards_are_late(evidence: Any) -> None:
    """Plays earn 0.2 in place of 0.5, and 300 rewards are open at any time."""
    policy = linoto.Gated(gate=linoto.Tolerance(budget=5.0, evidence=evidence), confidence=CLICKS)
    found = []
    for late in (0, 300):
        loop = fresh(policy=policy, offline=LOG, on_alarm="warn")
        found.append(alarm_after(play_late(loop, 700, [0.2] * 3, late), loop, "promise"))
    prompt, later = found
    assert prompt is not None and later is not None and later <= prompt + 1.2 * 300


def test_an_explorer_that_loses_to_practice_is_noticed_although_rewards_are_late() -> None:
    """Practice earns 0.9, what is proposed 0.1; 300 rewards are open at any time, as many as are closed."""
    policy = linoto.Gated(gate=linoto.Control(budget=2000.0, share=0.3), confidence=CLICKS)
    loop = fresh(policy=policy)
    found = alarm_after(play_late(loop, 700, [0.9, 0.9, 0.1], 300, proposal=2), loop, "practice")
    assert found is not None and found < 600


def test_a_coin_has_the_same_books_for_what_is_closed_as_for_all() -> None:
    """Once nothing is open, what is closed has the sums of all, and bounds no tighter than theirs."""
    policy = linoto.Gated(gate=linoto.Control(budget=200.0), confidence=CLICKS)
    loop = fresh(policy=policy)
    numbers = [event.number for event in play_late(loop, 120, [0.5] * 3, 40, proposal=2)]
    for number in numbers[-40:]:
        close(loop, number, None if number % 3 else 1.0)
    assert loop.ledger is not None
    terms, books = loop.ledger.terms, loop.ledger.practice
    found = books_of(loop.state.books.closed.coin)
    assert (found.explored, found.missing, found.control) == (books.explored, books.missing, books.control)
    assert found.missing > 0 and loop.state.books.closed.decisions == 120
    np.testing.assert_allclose(sums_of(found), sums_of(books), rtol=1e-9, atol=1e-9)
    assert terms.evidence(found, 120) == pytest.approx(terms.evidence(books, 120))
    terms.with_bounds(found)
    for side in ("above", "below"):
        assert getattr(found, side).bound >= getattr(books, side).bound - 1e-6


def test_what_practice_would_have_earned_is_known_although_rewards_are_late() -> None:
    """It earns 0.5, and half of 800 rewards are open: the closed half says more than all with open ones."""
    policy = linoto.Gated(gate=linoto.Control(budget=2000.0, share=0.3), confidence=CLICKS)
    loop = fresh(policy=policy)
    for _ in play_late(loop, 800, [0.5] * 3, 400, proposal=2):
        pass
    seen, lift = practice_view(loop), views.lift_view(loop)
    assert seen is not None and loop.ledger is not None
    terms, books = loop.ledger.terms, loop.ledger.practice
    assert seen.explored + seen.missing == books.explored and 0 < seen.explored < books.explored
    lower, upper = terms.bounds(books)
    assert upper - lower > 1.2 * (seen.upper - seen.lower)
    assert seen.lower <= 0.5 * seen.explored <= seen.upper
    assert lift.lower is not None and lift.upper is not None and lift.lower < 0 < lift.upper


@pytest.mark.few(0)
def test_a_world_that_no_longer_fits_the_logs_model_is_noticed_although_rewards_are_late(
    tmp_path: Path,
) -> None:
    """With contexts: plays earn 0.05 where the log says 0.2 to 0.7, and 150 rewards are open at any time."""
    with opened(tmp_path / "x.sqlite", snapshot_every=90) as service:
        contexts.create(service, moments=as_statistics(contexts.log_of(4000)))
        loops, rng = service.loops, np.random.default_rng(1)

        def job(connection: Connection) -> int | None:
            waiting: deque[int] = deque()
            for t in range(400):
                made = loops.decide(connection, "loop", context=contexts.context_of(rng))
                waiting.append(made.number)
                if len(waiting) > 150:
                    loops.reward(connection, "loop", f"1-{waiting.popleft()}", float(rng.random() < 0.05))
                if loops.get("loop").open_alarms:
                    return t
            return None

        found = service.store.write_sync(job)
        assert found is not None and found < 350
        assert loops.get("loop").open_alarms[0].kind == "drift"
        add_arms(service, "D")  # features of open decisions get new places
        assert len(loops.get("loop").state.books.pages[0].played) == loops.get("loop").agent.d
        assert len(set(digests(service))) == 1


@pytest.mark.parametrize("gate", [linoto.Tolerance(budget=20.0), linoto.Control(budget=20.0)])
def test_books_survive_a_restart_with_rewards_that_came_before_their_turn(tmp_path: Path, gate: Any) -> None:
    rng = np.random.default_rng(2)
    policy = linoto.Gated(gate=gate, confidence=CLICKS)
    with opened(tmp_path / "x.sqlite", snapshot_every=17) as service:
        make(service, policy=policy, offline=LOG, holdback=0.3)
        waiting: list[str] = []
        for _ in range(160):
            waiting.append(ask(service).decision_id)
            if len(waiting) > 5 and rng.random() < 0.8:  # the first one stays open
                tell(service, waiting.pop(int(rng.integers(1, len(waiting)))), float(rng.random() < 0.5))
        books = service.loops.get("loop").state.books
        assert books.closed.decisions == 0 and 0 < len(books.pages) <= 64 and books.size > 1
        assert len(set(digests(service))) == 1
        tell(service, waiting.pop(0), 1.0)
        assert books.closed.decisions > 0 and len(set(digests(service))) == 1


# -- no alarm by the order alone

Choice = Callable[[dict[int, float]], int | None]  # which open reward is told next; None: wait
ORDERS: dict[str, Choice] = {
    "ones first": lambda waiting: next((n for n, x in waiting.items() if x == 1.0), None),
    "zeros first": lambda waiting: next((n for n, x in waiting.items() if x == 0.0), None),
    "the oldest last": lambda waiting: max(waiting),
    "while it looks bad": lambda waiting: min(waiting) if waiting[min(waiting)] == 0.0 else None,
    "while it looks good": lambda waiting: min(waiting) if waiting[min(waiting)] == 1.0 else None,
}


def known_watch() -> Watch:
    """A watch that knows the mean of the log, 0.5, very well, and is promised that nothing is lost."""
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.0), confidence=CLICKS)
    log = LogStatistics(pulls=[10**9, 0, 0], reward_sums=[0.5e9, 0.0, 0.0])
    return fresh(policy=policy, offline=log, alarm_error=0.1).watch


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.few(2)
def test_a_caller_who_chooses_the_order_of_rewards_raises_no_more_false_alarms(order: str) -> None:
    """30 true worlds of 300 plays at level 0.1, the window 100 plays: more than 9 have a chance of 5e-4."""
    watch, rng = known_watch(), np.random.default_rng(5)
    assert sum(raises(watch, order, rng) for _ in range(30)) <= 9


def raises(watch: Watch, order: str, rng: np.random.Generator) -> bool:
    books, waiting = Books(), dict[int, float]()
    known, earned = 0, 0.0

    def tell(number: int) -> bool:
        nonlocal known, earned
        reward = waiting.pop(number)
        known, earned = known + 1, earned + reward
        books.close(Entry(number, True), reward)
        page = books.closed
        evidence = watch.promise(page.plays, page.known, page.rewards)
        return max(evidence, watch.promise(plays, known, earned)) > watch.threshold

    for plays in range(1, 301):
        waiting[plays] = float(rng.random() < 0.5)
        books.open(Entry(plays, True))
        for _ in range(2):
            chosen = ORDERS[order](waiting) if waiting else None
            if chosen is not None and tell(chosen):
                return True
        if waiting and min(waiting) <= plays - 100 and tell(min(waiting)):
            return True
    return False


# -- the lift of a loop


def test_the_lift_of_a_loop_holds_where_control_is_told_at_once_and_the_policy_late() -> None:
    """The level moves, the lift is 0: as they come, control has good times while ours are still bad."""
    loop = fresh(policy=linoto.LinUCB(confidence=CLICKS), offline=LOG, holdback=0.5)
    rng, waiting = np.random.default_rng(0), deque[tuple[int, float]]()
    for t in range(700):
        event = decide(loop)
        reward = float(rng.random() < (0.1 if t < 350 else 0.7))
        if event.group == "holdback":
            close(loop, event.number, reward)
        else:
            waiting.append((event.number, reward))
        if len(waiting) > 150:
            close(loop, *waiting.popleft())
    told = views.report(loop).lift
    assert told.lower is not None and told.upper is not None and told.mean is not None
    assert told.lower <= 0 <= told.upper and told.lower <= told.mean <= told.upper
    assert told.upper - told.lower < 0.8 and 0 < told.policy < 700
    assert loop.state.lift.closed == 0  # nothing is summed as it comes


def test_a_centre_is_that_of_the_decision_whatever_comes_before_its_reward() -> None:
    loop = fresh(policy=linoto.LinUCB(), offline=LOG, holdback=0.5)
    first = decide(loop)
    for _ in range(20):
        close(loop, decide(loop).number, 1.0)
    late = decide(loop)
    assert first.lift_centre == 0.5 and late.lift_centre == pytest.approx(20.5 / 21)
    close(loop, first.number, 0.0)
    assert loop.pending[late.number].lift_centre == late.lift_centre
    lift = loop.state.books.closed.lift
    assert lift is not None and lift.decisions == 21


def test_decisions_that_0_2_made_stay_in_the_sums_that_it_began() -> None:
    """They have no centre: the lift of a loop begins anew with the decisions of this version."""
    import msgspec

    loop = fresh(policy=linoto.LinUCB(), offline=LOG, holdback=0.5)
    old = Loop.fresh("loop", msgspec.structs.replace(loop.asked, version=4))
    for number in range(1, 41):
        made = decide(loop)
        old.apply(msgspec.structs.replace(made, lift_centre=None), float(number))
        close(loop, made.number, 1.0)
        close(old, made.number, 1.0)
    assert (old.state.lift.closed, old.state.books) == (40, Books())
    assert views.lift_view(old).policy + views.lift_view(old).control == 40
    close(old, decide(old).number, 1.0)
    assert old.state.lift.closed == 40
    assert views.lift_view(old).policy + views.lift_view(old).control == 1
