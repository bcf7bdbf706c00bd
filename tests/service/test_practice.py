"""What practice would have earned: a range that holds at any time, and the alarm that is its lower side."""

from __future__ import annotations

from itertools import product
from math import exp, log

import msgspec
import numpy as np
import pytest
from helpers import loop_in_memory as memory
from helpers import loops_with_contexts as contexts
from helpers.reference_control import ControlReference, Entry
from scipy.stats import binom

import linoto
from linoto.core.decisions import Decision
from linoto.service.loops import practice, views
from linoto.service.loops.choice import make_decision
from linoto.service.loops.loop import Loop
from linoto.service.loops.practice import PracticeBooks, PracticeTerms
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.views import practice_view
from linoto.service.web.metrics import NUMBERS

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
FRACTIONS = np.array(practice.FRACTIONS)
WORDS = {"control": "control", "explorer": "explored"}


def controlled(**gate: object) -> linoto.Gated:
    return linoto.Gated(gate=linoto.Control(**{"budget": 20.0, **gate}), confidence=CLICKS)  # type: ignore[arg-type]


def terms_of(confidence: linoto.Confidence = CLICKS, **gate: object) -> PracticeTerms:
    control = linoto.Control(**{"budget": 20.0, "promise": "expected", **gate})  # type: ignore[arg-type]
    policy = linoto.Gated(gate=control, confidence=confidence)
    agent = policy.start(np.eye(2), linoto.Offline(pulls=[9, 0], reward_sums=[4.0, 0.0]))
    found = PracticeTerms.of(agent, agent.certificate)
    assert found is not None
    return found


def thrown(control: bool, *, share: float, centre: float) -> Decision:
    arm, source = (0, "control") if control else (1, "explorer")
    mode = "safe" if control else "explore"
    coin = {"control_share": share, "centre": centre}
    return Decision(arm=arm, mode=mode, source=source, proposal=1, fallback=0, budget=9.0, round=1, **coin)  # type: ignore[arg-type]


# -- the interval


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-2.0, 3.0)])
@pytest.mark.parametrize("noise", ["bounded", 0.7])
@pytest.mark.few(2)
def test_both_bounds_are_those_of_the_oracle(limits: tuple[float, float], noise: str | float) -> None:
    """The upper side at half of the error, the lower one the same with every reward mirrored."""
    (low, high), rng = limits, np.random.default_rng(3)
    terms = terms_of(linoto.Confidence(noise=noise, reward_range=limits))  # type: ignore[arg-type]
    books, scale = PracticeBooks(), None if noise == "bounded" else float(noise)
    sides = {
        1: ControlReference(delta=0.025, low=low, high=high, noise=scale, equal=True),
        -1: ControlReference(delta=0.025, low=-high, high=-low, noise=scale, equal=True),
    }
    waiting: list[tuple[int, Decision, float]] = []
    for t in range(60):
        share, centre = float(rng.uniform(0.05, 0.6)), float(rng.uniform(low, high))
        decision = thrown(bool(rng.random() < share), share=share, centre=centre)
        terms.play(books, decision)
        for sign, oracle in sides.items():
            oracle.entries.append(Entry(WORDS[decision.source], share, sign * centre))
            oracle.upper += oracle.high * (decision.source == "explorer")
            oracle.upper = min(oracle.upper, oracle.bound())
        waiting.append((t, decision, float(rng.uniform(low, high))))
        if rng.random() < 0.8:  # some rewards stay missing, others come in another order
            index, decision, reward = waiting.pop(int(rng.integers(len(waiting))))
            terms.reward(books, decision, reward)
            for sign, oracle in sides.items():
                oracle.observe(index, sign * reward)
        assert books.above.bound == pytest.approx(sides[1].upper, abs=1e-3 * (high - low))
        assert -books.below.bound == pytest.approx(-sides[-1].upper, abs=1e-3 * (high - low))
    missing = sum(1 for _, decision, _ in waiting if decision.source == "explorer")
    assert books.missing == missing > 0
    known = books.explored - missing
    wanted = (-sides[-1].upper - high * missing, sides[1].upper - low * missing)
    assert terms.bounds(books) == pytest.approx(
        (max(wanted[0], low * known), min(wanted[1], high * known)), abs=2e-3 * (high - low)
    )


def test_the_bets_of_both_sides_are_fair_over_all_paths_of_the_coin() -> None:
    """E exp(fraction (+-X) + L) = 1 for every bet, whatever practice would earn, over three rounds."""
    rewards, rounds = (0.9, 0.0, 0.4), ((0.3, 0.5), (0.05, 0.8), (0.6, 0.2))
    terms, means = terms_of(promise="realised"), np.zeros((2, 16))
    for path in product([True, False], repeat=3):
        books, likely, total = PracticeBooks(), 1.0, 0.0
        for control, reward, (share, centre) in zip(path, rewards, rounds, strict=True):
            decision = thrown(control, share=share, centre=centre)
            terms.play(books, decision)
            terms.reward(books, decision, reward if control else 0.1)
            likely *= share if control else 1 - share
            total += 0.0 if control else reward
        means[0] += likely * np.exp(FRACTIONS * total + books.above.bets)
        means[1] += likely * np.exp(-FRACTIONS * total + books.below.bets)
    np.testing.assert_allclose(means, 1.0, rtol=1e-12)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.few(0)
def test_the_interval_holds_at_all_times_at_once(lost: bool) -> None:
    """60 runs of 120 rounds; practice moves, and with the shares of the coin; `lost`: good controls are.

    At a level of .95, more than 9 runs in which it ever misses have a probability below .002.
    """
    assert binom.sf(9, 60, 0.05) < 0.002
    assert sum(misses(run, lost) for run in range(60)) <= 9


@pytest.mark.few(0)
def test_the_interval_holds_against_practice_that_watches_the_books() -> None:
    """Practice earns 1 or 0 as the last coin and the ends of the interval are; 60 runs, as above."""
    assert sum(misses_by_watching(run) for run in range(60)) <= 9


def misses_by_watching(run: int) -> bool:
    terms, books, rng = terms_of(promise="realised"), PracticeBooks(), np.random.default_rng([5, run])
    known, last, kept = 0.0, False, []
    for _ in range(120):
        lower, upper = terms.bounds(books)
        if not lower - 1e-9 <= known <= upper + 1e-9:
            return True
        near_top = upper - known < known - lower
        share, centre = (0.05, 1.0) if near_top else (0.7, 0.0)
        practice = float(last if rng.random() < 0.3 else near_top)
        last = bool(rng.random() < share)
        decision = thrown(last, share=share, centre=centre)
        terms.play(books, decision)
        if decision.source == "explorer":
            known += practice
            terms.reward(books, decision, 0.0)
            continue
        kept.append((decision, practice))  # controls are told in blocks, the latest first, and some never
        while len(kept) >= 5 and rng.random() < 0.9:
            terms.reward(books, *kept.pop())
    return False


def misses(run: int, lost: bool) -> bool:
    terms, books, rng = terms_of(promise="realised"), PracticeBooks(), np.random.default_rng(run)
    known, missed = 0.0, False
    for t in range(120):
        share, centre = (0.4, 0.3) if t % 7 else (0.1, 0.9)
        practice = float(rng.random() < (0.9 if share == 0.1 else 0.2 + t / 200))
        decision = thrown(bool(rng.random() < share), share=share, centre=centre)
        terms.play(books, decision)
        if lost and decision.source == "control" and practice == 1.0:
            continue
        known += practice * (decision.source == "explorer")
        terms.reward(books, decision, practice if decision.source == "control" else 0.0)
        lower, upper = terms.bounds(books)
        missed = missed or not lower - 1e-9 <= known <= upper + 1e-9
    return missed


def test_the_interval_becomes_useful() -> None:
    """3,000 rounds at a share of .3: practice earns .6, and lies in an interval of .15 per explored round."""
    terms, books, rng = terms_of(promise="realised"), PracticeBooks(), np.random.default_rng(0)
    for _ in range(3000):
        decision = thrown(bool(rng.random() < 0.3), share=0.3, centre=0.6)
        terms.play(books, decision)
        terms.reward(books, decision, float(rng.random() < 0.6))
    lower, upper = np.array(terms.bounds(books)) / books.explored
    assert lower < 0.6 < upper and upper - lower < 0.15
    assert terms.estimate(books) / books.explored == pytest.approx(0.6, abs=0.05)


# -- the alarm


def test_evidence_is_the_wealth_of_the_mirrored_bets_where_practice_earned_no_more() -> None:
    terms, books = terms_of(promise="realised", epsilon=0.1), PracticeBooks()
    assert terms.evidence(books, 0) == -np.inf
    for control, reward in ((True, 1.0), (False, 0.25), (True, 0.5), (False, None)):
        decision = thrown(control, share=0.2, centre=0.5)
        terms.play(books, decision)
        if reward is not None:
            terms.reward(books, decision, reward)
    most = 0.25 + 1.0 + 0.1 * 4  # the missing one counts as the best
    wealth = [exp(-f * most + bet) for f, bet in zip(FRACTIONS, books.below.bets, strict=True)]
    assert terms.evidence(books, 4) == pytest.approx(log(sum(wealth) / 16))


def test_an_explorer_that_loses_raises_the_alarm_and_one_that_earns_as_much_does_not() -> None:
    """Practice earns .9, the proposed arm .1 or .9; 6 quiet runs at an error of .01 each."""
    noisy = memory.fresh(policy=controlled(budget=400.0, share=0.3))
    assert alarm_after(noisy, 0.1, 400, seed=0) < 300
    (alarm,) = noisy.state.alarms
    assert alarm.kind == "practice" and "practice would have earned more" in alarm.message
    assert noisy.state.mode == "safe-only"
    quiet = [memory.fresh(policy=controlled(budget=400.0, share=0.3), seed=seed) for seed in range(6)]
    assert [alarm_after(loop, 0.9, 200, seed=7) for loop in quiet] == [200] * 6


def alarm_after(loop: memory.Loop, mean: float, rounds: int, *, seed: int) -> int:
    """Decisions until the first alarm."""
    for event in memory.play(loop, rounds, [0.9, 0.9, mean], seed=seed, proposal=2):
        if loop.state.alarms:
            return event.number
    return rounds


def test_a_storm_that_hits_practice_too_raises_no_alarm() -> None:
    """What fools a comparison with the log: all arms earn half, and so do the control rounds."""
    loop = memory.fresh(policy=controlled())
    for _ in memory.play(loop, 150, [0.9, 0.9, 0.95], proposal=2):
        pass
    for _ in memory.play(loop, 250, [0.45, 0.45, 0.475], proposal=2, seed=1):
        pass
    assert loop.state.alarms == [] and loop.state.mode == "live"
    view = views.loop_view(loop)
    assert view.evidence_of_drift is None and view.evidence_against_promise is None
    assert view.evidence_for_practice is not None and view.evidence_for_practice < view.practice_alarm_at


# -- what is shown


def test_views_tell_what_was_earned_and_what_practice_would_have() -> None:
    loop = memory.fresh(policy=controlled(budget=30.0, epsilon=0.05))
    events = list(
        memory.play(loop, 200, [0.5, 0.5, 0.7], proposal=2, lost=lambda event, _: event.number % 9 == 0)
    )
    explored = [event for event in events if event.source == "explorer" and event.number % 9]
    view, lift = views.loop_view(loop), views.lift_view(loop)
    seen = view.practice
    assert seen is not None and seen.explored == len(explored) == lift.policy
    assert seen.missing == sum(event.source == "explorer" for event in events) - len(explored)
    assert seen.control == lift.control == sum(e.source == "control" and e.number % 9 > 0 for e in events)
    assert seen.lower <= seen.estimate <= seen.upper
    per_round = [(seen.earned - end) / seen.explored for end in (seen.upper, seen.estimate, seen.lower)]
    assert [lift.lower, lift.mean, lift.upper] == pytest.approx(per_round)
    assert view.promised_loss == pytest.approx(30.0 + 0.05 * 200)
    assert loop.agent.budget is not None and view.promised_loss is not None
    assert view.left_to_lose == pytest.approx(min(loop.agent.budget + 1.0, view.promised_loss))
    assert seen.counts_rewards
    last = views.history(loop).points[-1]
    assert (last.earned, last.practice_lower, last.practice_upper) == (seen.earned, seen.lower, seen.upper)
    assert (last.promised_loss, last.left_to_lose) == (view.promised_loss, view.left_to_lose)
    assert {"evidence_for_practice"} <= set(NUMBERS) <= set(msgspec.structs.asdict(view))


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["arms", "loan", "contexts"])
def test_the_books_count_the_decision_that_was_just_lost(kind: str) -> None:
    """Explored decisions earn 0 and control rounds 1, so each loses 1: A_t is that much, at every point."""
    if kind == "contexts":
        policy = contexts.POLICIES["coin"]
        loop = Loop.fresh("loop", contexts.spec_of(policy, moments=None))
    else:
        log = LogStatistics(pulls=[500, 500, 0], reward_sums=[480.0, 480.0, 0.0])
        gate = {"budget": 6.0, "loan": 2.0 if kind == "loan" else 0.0}
        loop = memory.fresh(policy=controlled(**gate), offline=log)
    rng, shown = np.random.default_rng(0), []
    for _ in range(120):
        context = contexts.context_of(rng) if kind == "contexts" else None
        question = loop.arms.question(context, None, None)
        event, _ = make_decision(loop, question, key=None, proposal=None, expires_at=0.0)
        loop.apply(event, float(event.number))
        memory.close(loop, event.number, float(event.source != "explorer"))
        view = views.loop_view(loop)
        assert view.practice is not None and view.promised_loss is not None and view.left_to_lose is not None
        assert view.promised_loss - view.left_to_lose >= view.practice.explored - 1e-9
        shown.append(view.practice.explored)
    assert shown[0] == 0 < shown[-1]
    for point in views.history(loop).points:
        if point.left_to_lose is not None and point.promised_loss is not None:
            assert point.promised_loss - point.left_to_lose >= point.explored - 1e-9


def test_a_loop_without_a_coin_keeps_its_views() -> None:
    loop = memory.fresh()
    for _ in memory.play(loop, 20, [0.5, 0.5, 0.7]):
        pass
    view, point = views.loop_view(loop), views.history(loop).points[-1]
    assert loop.state.practice is None and practice_view(loop) is None
    assert (view.practice, view.evidence_for_practice) == (None, None)
    assert (point.earned, point.practice_lower, point.promised_loss) == (None, None, None)
    assert view.evidence_against_promise is not None and view.left_lower is not None


def test_before_the_first_reward_there_is_no_lift() -> None:
    loop = memory.fresh(policy=controlled())
    memory.decide(loop, proposal=2)
    lift = views.lift_view(loop)
    assert (lift.policy, lift.mean, lift.lower, lift.upper) == (0, None, None, None)
