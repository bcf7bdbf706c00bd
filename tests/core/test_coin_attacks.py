"""Callers who have read the code try to know a coin, and still to choose what becomes of its round.

Where it works, rounds of one outcome of the coin are missing in the books. So the share of control among
the rounds that a coin has decided must be the one that was agreed, whatever the caller does. All coins here
come from fixed keys or seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.coin_kinds import KINDS, Fixed

import linoto
from linoto import Control, Gated, LinUCB, Moments, Offline, Tolerance
from linoto.core import kernels
from linoto.core.coins import KEY_BYTES, SEEDED, GeneratorCoins, KeyedCoins

every_kind = pytest.mark.parametrize("kind", KINDS)
ROUNDS, SHARE = 120, 0.5
Attack = Callable[[Fixed, str, Any], Any]


def is_wanted(decision: Any, wanted: str) -> bool:
    return bool((decision.source == "control") == (wanted == "control"))


def take_the_safe_one(play: Fixed, wanted: str, spare: Any) -> Any:
    """Practice in place of what the coin has said: without a trace, they hope."""
    decision = play.ask()
    return decision if is_wanted(decision, wanted) else play.safe(decision)


def take_the_safe_one_and_ask_again(play: Fixed, wanted: str, spare: Any) -> Any:
    """As above, and then another proposal at the same coin."""
    decision = play.ask()
    if is_wanted(decision, wanted):
        return decision
    play.safe(decision)
    return play.ask(play.practice())


def keep_one_in_reserve(play: Fixed, wanted: str, spare: Any) -> Any:
    """Practice's arm, decided before the throw, is committed in its place."""
    decision = play.ask()
    return decision if is_wanted(decision, wanted) else spare


def ask_how_likely_it_is(play: Fixed, wanted: str, spare: Any) -> Any:
    """A propensity throws the coin in secret: is anything of it left?"""
    if hasattr(play.agent, "propensity"):
        play.likely()
    decision = play.ask(1 - play.practice()) if play.run["coin_thrown"] else play.ask()
    return decision if is_wanted(decision, wanted) else play.ask(play.practice())


def say_safe_and_look(play: Fixed, wanted: str, spare: Any) -> Any:
    """In a round that was said to be safe the coin is shown: then it must not be played."""
    decision = play.ask(safe=True)
    return decision if is_wanted(decision, wanted) else play.safe(decision)


def say_safe_afterwards(play: Fixed, wanted: str, spare: Any) -> Any:
    """Safe, but only once the coin is known."""
    decision = play.ask()
    return decision if is_wanted(decision, wanted) else play.safe(play.ask(safe=True))


def play_another_arm(play: Fixed, wanted: str, spare: Any) -> Any:
    """An arm by its number is no decision."""
    decision = play.ask()
    return decision if is_wanted(decision, wanted) else play.practice()


def change_the_arms(play: Fixed, wanted: str, spare: Any) -> Any:
    """A decision from before a change of the arms is stale: the round is asked about again."""
    decision = play.ask()
    if not is_wanted(decision, wanted):
        play.agent.add_arms([[0.5, 0.5]])
    return decision


def update_the_one_in_reserve(play: Fixed, wanted: str, spare: Any) -> Any:
    """As above, with its reward at once."""
    decision = play.ask()
    if is_wanted(decision, wanted):
        return decision
    play.agent.update(spare, 1.0)
    return None


def ask_something_else(play: Fixed, wanted: str, spare: Any) -> Any:
    """The plainest one."""
    decision = play.ask()
    return decision if is_wanted(decision, wanted) else play.ask(play.practice())


ATTACKS: tuple[Attack, ...] = (
    take_the_safe_one,
    take_the_safe_one_and_ask_again,
    keep_one_in_reserve,
    ask_how_likely_it_is,
    say_safe_and_look,
    say_safe_afterwards,
    play_another_arm,
    change_the_arms,
    update_the_one_in_reserve,
    ask_something_else,
)


def entries_of(kind: str, attack: Attack, wanted: str) -> tuple[int, int]:
    """Explored and control rounds in the books after some rounds of an attack on one outcome."""
    play = KINDS[kind](Control(budget=500.0, share=SHARE))
    play.agent.use_coins(KeyedCoins(bytes(range(32))))
    found = np.zeros(2, np.int64)
    while play.agent.rounds < ROUNDS:
        spare, before = play.ask(play.practice()), play.agent.rounds
        try:
            chosen = attack(play, wanted, spare)
            if chosen is not None:
                play.agent.update(chosen, 1.0)
        except (ValueError, TypeError, AttributeError):
            pass  # refused: what stands is all there is
        if play.agent.rounds == before:
            standing = play.ask()
            stays_safe = kind != "guard" and play.agent.running.stays_safe
            play.agent.update(play.safe(standing) if stays_safe else standing, 1.0)
        entry, share = play.run["entry"], play.run["entry_share"]
        found[0] += entry == kernels.EXPLORED_PLAY
        found[1] += entry == kernels.CONTROL_PLAY or (entry == kernels.UNASKED_PLAY and share > 0)
    return int(found[0]), int(found[1])


@every_kind
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("wanted", ["explored", "control"])
@pytest.mark.few(15)
def test_no_caller_takes_a_round_out_of_the_books(kind: str, attack: Attack, wanted: str) -> None:
    """The coin of half of the rounds says control, give or take 4 standard errors: false alarms 6e-5 each."""
    explored, control = entries_of(kind, attack, wanted)
    if attack is say_safe_and_look and kind != "guard":
        assert explored == control == 0  # such rounds are in no book
        return
    decided = explored + control
    assert decided > ROUNDS / 2
    assert abs(control - SHARE * decided) <= 4 * np.sqrt(SHARE * (1 - SHARE) * decided)


# -- a coin that is recomputed


def beyond_the_promise(kind: str, key: bytes | None = None, **rng: Any) -> float:
    """A recommender that recomputes `default_rng(0)` as published, and asks only if it will be heard.

    Practice earned .5 in the log and earns 1 now; what is proposed earns .65, so that the books, which see
    practice in control rounds only, find nothing wrong. The most lost above the budget and epsilon t.
    """
    gate = Control(epsilon=0.05, budget=5.0, share=0.3)
    play = KINDS[kind](gate, Offline(pulls=[100, 0, 0], reward_sums=[50.0, 0.0, 0.0]), **rng)
    if key is not None:
        play.agent.use_coins(KeyedCoins(key))
    foreseen = GeneratorCoins.spawned(np.random.default_rng(0)).rows(1, 300)[:, 1]
    lost = over = 0.0
    for t, coin in enumerate(foreseen):
        decision = play.ask(2 if coin >= 0.3 else 0)
        play.agent.update(decision, 0.65 if decision.arm == 2 else 1.0)
        lost += 0.35 * (decision.mode == "explore" and decision.arm == 2)
        over = max(over, lost - 5.0 - 0.05 * (t + 1))
    return over


@every_kind
def test_whoever_knows_the_seed_breaks_the_promise_and_the_certificate_says_so(kind: str) -> None:
    assert beyond_the_promise(kind, rng=0) > 30.0
    assert SEEDED in KINDS[kind](rng=0).agent.certificate.assumes
    generator = np.random.default_rng()
    assert SEEDED in KINDS[kind](rng=generator).agent.certificate.assumes


def test_what_a_policy_promises_before_it_is_started_names_no_seed() -> None:
    """Nobody gave one; with contexts the same."""
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policy = Gated(gate=Control(budget=30.0), confidence=sure)
    log = Offline(pulls=[80, 20], reward_sums=[60.0, 5.0])
    for found in (policy.certificate(np.eye(2), log), policy.certificate(d=2)):
        assert found.holds and SEEDED not in found.assumes
    assert policy.certificate(d=2) == policy.start(d=2).certificate


@every_kind
def test_without_a_seed_nobody_knows_the_coin(kind: str) -> None:
    """Of 5 runs, 3 or more break a promise that holds with a probability of 1.2e-3 at most.

    With keys that the caller does not know, but the same in every run of the test.
    """
    over = [beyond_the_promise(kind, key=bytes([run + 1]) * KEY_BYTES) for run in range(5)]
    assert sum(excess > 1e-9 for excess in over) < 3
    assert max(over) < 15.0  # the coin closes the gate soon


@every_kind
def test_the_systems_entropy_is_the_default(kind: str) -> None:
    one, two = KINDS[kind](), KINDS[kind]()
    assert one.run["coin"] != two.run["coin"]
    assert one.coins.encoded() != two.coins.encoded()
    assert KINDS[kind](rng=0).run["coin"] == KINDS[kind](rng=0).run["coin"]


@every_kind
def test_what_a_seed_gives_away_is_said_after_a_restore_too(kind: str) -> None:
    for rng in (None, 0):
        agent = KINDS[kind](rng=rng).agent
        restored = linoto.restore(agent.snapshot())
        assert restored.certificate == agent.certificate
        assert (SEEDED in restored.certificate.assumes) == (rng is not None)
    restored.use_coins(KeyedCoins(bytes(32)))
    assert SEEDED not in restored.certificate.assumes


@every_kind
def test_no_readable_spec_holds_a_seed_or_a_key(kind: str) -> None:
    agent = KINDS[kind](rng=987654321).agent
    shown = [repr(agent), str(agent.certificate), str(agent.certificate.to_dict())]
    if hasattr(agent, "policy"):
        shown.append(str(linoto.to_dict(agent.policy)))
    assert "987654321" not in " ".join(shown)


def test_a_doubling_has_secret_coins_of_its_own_in_every_epoch() -> None:
    """And a restored one has the same future."""
    policy = linoto.Doubling(
        policy=Gated(
            gate=Control(budget=9.0), confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
        )
    )
    agent: Any = policy.start(np.eye(2), Offline(pulls=[9, 1], reward_sums=[4.0, 0.5]))
    twin: Any = linoto.restore(agent.snapshot())
    thrown = set()
    for _ in range(40):
        thrown.add(float(agent.inner.running.run["coin"]))
        decision = agent.guard(1)
        assert decision == twin.guard(1)
        agent.update(decision, 1.0)
        twin.update(decision, 1.0)
    assert len(thrown) == 40
    agent.use_coins(KeyedCoins(bytes(32)))
    inner = agent.inner
    assert inner.running.run["coin"] == KeyedCoins(bytes(32)).derived(agent.epoch).at(inner.rounds + 1)[1]


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_a_round_that_was_said_to_be_safe_is_committed_as_safe_only(kind: str) -> None:
    """After a restore too; and it is over with the commit."""
    play = KINDS[kind](rng=0)
    stakes = play.run["coin_bets"].copy()
    shown = play.ask(safe=True)
    assert shown.control_share is not None
    play.agent = linoto.restore(play.agent.snapshot())
    with pytest.raises(ValueError, match="decision must be one that plays safe"):
        play.agent.commit(shown)
    assert play.ask(play.practice()).mode == "safe"  # asked freely: nothing depends on the coin
    safe = play.safe(play.ask())
    assert (safe.arm, safe.mode, safe.control_share) == (play.practice(), "safe", None)
    play.agent.update(safe, 1.0)
    assert not play.run["coin_gains"].any() and (play.run["coin_bets"] == stakes).all()  # no entry
    play.agent.update(play.ask(), 1.0)  # the next round throws its coin again


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_safe_is_said_before_the_coin_is_thrown(kind: str) -> None:
    play = KINDS[kind](rng=0)
    decision = play.ask()
    with pytest.raises(ValueError, match="safe must be said before the coin of a round is thrown"):
        play.ask(safe=True)
    assert play.ask() == decision


# -- practice's draw, where no coin is thrown


def shown_then_avoided(agent: Any, question: dict[str, Any], how: str) -> tuple[int, int]:
    """Good and bad draws that were played by who wants the bad ones only."""
    good = bad = 0
    for _ in range(160):
        try:
            if how == "ask about what is refused":
                decision = agent.guard(2, **question)
                if decision.source == "practice" and decision.arm == 0:
                    decision = agent.guard(3, **question)
            else:
                explored = agent.guard(3, **question)
                decision = agent.play_safe(explored)
                decision = explored if decision.arm == 0 else decision
            agent.update(decision, 0.5)
        except ValueError:
            decision = agent.decide(**question)
            agent.update(decision, 0.5)
        good += decision.source == "practice" and decision.arm == 0
        bad += decision.source == "practice" and decision.arm == 1
    return good, bad


@pytest.mark.parametrize("how", ["ask about what is refused", "look at what is safe"])
def test_who_is_shown_the_draw_of_practice_cannot_avoid_it(how: str) -> None:
    """Half of the draws are good, give or take 4 standard errors: false alarms 6e-5. One arm is unknown and
    refused; one is known to earn what practice does on average, and is let through.
    """
    rows = np.repeat(np.eye(3)[:2], 4000, axis=0)
    log = Moments.from_rows(rows, np.repeat([0.8, 0.2], 4000))
    gate = Tolerance(budget=0.5, evidence="model")
    sure = linoto.Confidence(noise=0.1, bound=2.0, reward_range=(0.0, 1.0))
    policy = Gated(explorer=LinUCB(scale=1.0), gate=gate, fallback="mixture", confidence=sure)
    agent = policy.start(log, rng=4)
    arms = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    question = {"actions": arms, "practice": np.array([0.5, 0.5, 0.0, 0.0])}
    assert agent.guard(3, **question).mode == "explore"
    good, bad = shown_then_avoided(agent, question, how)
    assert good + bad > 100
    assert abs(good - bad) <= 4 * np.sqrt(good + bad)


# -- a reward that is told twice


def committed(play: Fixed, rounds: int = 12) -> list[Any]:
    decisions = []
    for _ in range(rounds):
        decisions.append(play.ask())
        play.agent.commit(decisions[-1])
    return decisions


@every_kind
@pytest.mark.parametrize("restored", [False, True])
def test_a_reward_that_is_told_twice_is_refused_and_changes_nothing(kind: str, restored: bool) -> None:
    """Though other plays of the same arm await theirs: those are still taken, each once."""
    play = KINDS[kind](rng=0)
    decisions = committed(play)
    play.agent.observe(decisions[3], 1.0)
    if restored:
        play.agent = linoto.restore(play.agent.snapshot())
    before = play.agent.snapshot()
    told = "decision must be committed and await its reward, got one of round 4, which does not"
    for again in (decisions[3], replace(decisions[3])):
        with pytest.raises(ValueError, match=told):
            play.agent.observe(again, 0.0)
        if hasattr(play.agent, "lose"):
            with pytest.raises(ValueError, match=told):
                play.agent.lose(again, 0.5)
    assert play.agent.snapshot() == before
    for t in (11, 0, 5, 1, 2, 4, 6, 7, 8, 9, 10):
        play.agent.observe(decisions[t], 1.0)
    with pytest.raises(ValueError, match=r"got one of round 1[, ]"):
        play.agent.observe(decisions[0], 1.0)


@pytest.mark.parametrize("kind", ["fixed arms", "contexts"])
def test_a_lost_reward_that_comes_after_all_is_refused(kind: str) -> None:
    play = KINDS[kind](rng=0)
    decisions = committed(play)
    play.agent.lose(decisions[2], 0.5)
    with pytest.raises(ValueError, match="got one of round 3, which does not"):
        play.agent.observe(decisions[2], 1.0)


@every_kind
def test_the_reward_of_an_update_is_not_told_again(kind: str) -> None:
    play = KINDS[kind](rng=0)
    decision = play.ask()
    play.agent.update(decision, 1.0)
    committed(play)
    with pytest.raises(ValueError, match="got one of round 1, which does not"):
        play.agent.observe(decision, 1.0)


def test_a_doubling_refuses_a_reward_that_is_told_twice_in_a_later_epoch() -> None:
    agent: Any = linoto.Doubling(policy=linoto.LinUCB(scale=1.0)).start(np.eye(2), Offline.empty(2))
    decisions = []
    for _ in range(12):
        decisions.append(agent.guard(1))
        agent.commit(decisions[-1])
    for decision in (decisions[2], decisions[9]):
        agent.observe(decision, 0.5)
        with pytest.raises(ValueError, match=f"got one of round {decision.round}, which does not"):
            agent.observe(decision, 0.5)


def test_arms_given_by_number_keep_their_rule() -> None:
    agent = linoto.LinUCB(scale=1.0).start(np.eye(2), Offline.empty(2))
    for _ in range(3):
        agent.commit(1)
    for _ in range(3):
        agent.observe(1, 0.5)
    with pytest.raises(ValueError, match="got 1, which has none"):
        agent.observe(1, 0.5)
    assert len(agent.running.open_rounds._bits) == 0
