"""Control: the books against an independent oracle, the proof by brute force, the order in a round."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import expm1
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.own_explorers import Optimist
from helpers.reference_control import ControlReference

import linoto
from linoto import Confidence, Control, Decision, Gated, Greedy, Guard, LinTS, LinUCB, Offline, Random
from linoto.core import codec, kernels
from linoto.core.coins import KeyedCoins
from linoto.core.kernels import control
from linoto.core.opening import bet_fractions, stakes_for
from linoto.core.plain_python import in_python
from linoto.core.snapshots import read_snapshot

LOG = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
MEANS = np.array([0.6, 0.5, 0.7])
ACTIONS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
GATES: dict[str, dict[str, Any]] = {
    "a rate": {"epsilon": 0.05},
    "a budget": {"budget": 6.0},
    "a fixed share": {"epsilon": 0.05, "budget": 2.0, "share": 0.1},
    "expected": {"epsilon": 0.05, "budget": 2.0, "promise": "expected"},
    "stretches": {"epsilon": 0.05, "budget": 15.0, "every": 40},
    "a cheap share": {"epsilon": 0.01, "budget": 20.0, "share": "cheap"},
}


def guard(seed: int = 0, offline: Offline = LOG, **gate: Any) -> Guard:
    return Guard(offline, gate=Control(**gate), reward_range=(0, 1), noise="bounded", rng=seed)


def kind_of(decision: Decision) -> str:
    if decision.source == "mixture":
        return "agreed" if decision.arm == decision.proposal else "closed"
    return {"explorer": "explored", "control": "control"}[decision.source]


def log_bets(run: Any) -> Any:
    """The logarithm of each bet, (16,)."""
    return run["coin_bets"] + np.log1p(run["coin_gains"])


# -- the oracle


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.few(2)
def test_the_books_are_those_of_the_oracle(name: str, late: bool) -> None:
    """Room, share and centre in every round; `late`: rewards come in any order, or never."""
    rng, watch = np.random.default_rng(5), guard(3, **GATES[name])
    oracle = ControlReference(**GATES[name], centre=0.56)
    waiting: list[tuple[int, int, Decision]] = []
    kinds: Counter[str] = Counter()
    for t in range(220):
        decision = watch.decide(int(rng.choice([0, 2, 2])))
        assert decision.budget == pytest.approx(oracle.room, abs=1e-7)
        kind = kind_of(decision)
        if decision.control_share is not None:
            assert decision.control_share == pytest.approx(oracle.next_share, abs=1e-8)
            assert decision.centre == pytest.approx(oracle.centre, abs=1e-12)
        assert (kind in ("agreed", "closed")) == (decision.control_share is None)
        watch.commit(decision)
        oracle.commit(kind)
        kinds[kind] += 1
        delay = int(rng.integers(1, 25)) if late else 0
        if not late or rng.random() < 0.9:
            waiting.append((t + delay, t, decision))
        for due in [item for item in waiting if item[0] <= t]:
            reward = float(rng.random() < MEANS[due[2].arm])
            watch.observe(due[2], reward)
            oracle.observe(due[1], reward)
            waiting.remove(due)
    assert kinds["explored"] >= 10 and kinds["control"] >= 5


@pytest.mark.parametrize("promise", ["realised", "expected"])
@pytest.mark.few(1)
def test_the_books_are_those_of_the_oracle_after_many_rounds(promise: Any) -> None:
    """By then most large bets are lost, the root moves without being searched for, and logarithms are due."""
    gate: dict[str, Any] = {"epsilon": 0.1, "budget": 5.0, "share": 0.2, "promise": promise}
    rng, watch, oracle = np.random.default_rng(5), guard(3, **gate), ControlReference(**gate, centre=0.56)
    known = grown = 0
    for t in range(300):
        decision = watch.decide(2)
        if t % 10 == 0:
            assert decision.budget == pytest.approx(oracle.room, abs=1e-7)
        reward = float(rng.random() < MEANS[decision.arm])
        known += int(watch._run[0]["root_is_known"])
        watch.update(decision, reward)
        grown += bool(watch._run[0]["coin_gains"].any() and (watch._run[0]["coin_bets"] != 0).any())
        oracle.commit(kind_of(decision))
        oracle.observe(t, reward)
    assert known > 200 and (promise == "realised" or grown > 200)


@pytest.mark.parametrize("scale", [0.4, 1.0])
@pytest.mark.few(1)
def test_the_books_of_sub_gaussian_rewards_are_those_of_the_oracle(scale: float) -> None:
    gate = {"epsilon": 0.1, "budget": 4.0, "promise": "expected"}
    watch = Guard(LOG, gate=Control(**gate), reward_range=(-1, 2), noise=scale, rng=1)  # type: ignore[arg-type]
    oracle = ControlReference(**gate, low=-1.0, high=2.0, noise=scale, centre=0.56)  # type: ignore[arg-type]
    rng, explored = np.random.default_rng(0), 0
    for t in range(300):
        decision = watch.decide(2)
        assert decision.budget == pytest.approx(oracle.room, abs=1e-7)
        explored += decision.mode == "explore"
        reward = float(MEANS[decision.arm] + scale * rng.standard_normal())
        watch.update(decision, reward)
        oracle.commit(kind_of(decision))
        clipped = min(max(reward, -1.0), 2.0) if kind_of(decision) == "closed" else reward
        oracle.observe(t, clipped) if kind_of(decision) != "control" else observe_control(oracle, t, reward)
    assert explored > 5


def observe_control(oracle: ControlReference, index: int, reward: float) -> None:
    """Gaussian rewards leave the range: the bets take them as they are, the centre what is inside."""
    centre, weight = oracle.centre, min(oracle.weight + 1, 200)
    oracle.observe(index, reward)
    oracle.centre = centre + (min(max(reward, oracle.low), oracle.high) - centre) / weight


# -- the proof


@pytest.mark.parametrize("promise", ["realised", "expected"])
@pytest.mark.parametrize("share", [None, 0.3])
def test_the_bets_are_fair_over_all_paths_of_the_coin(promise: str, share: float | None) -> None:
    """E (1/16) sum_j exp(lambda_j X + L_j) over all 2^7 paths is 1, and never more.

    Practice and explorer earn what a table says, so that the coin is all that is random. Realised it is 1 to
    the last digit; expected it is at most 1, since 1 + z <= e^z.
    """
    practice, explorer = np.array([0.2, 1.0, 0.0, 0.7, 0.9, 0.1, 1.0]), np.full(7, 0.4)
    expectation = 0.0
    for path in product([0.0, 1.0 - 1e-12], repeat=7):  # the coin says control, or not
        watch = guard(budget=20.0, promise=promise, share=share)
        likely, owed = 1.0, 0.0
        for t, coin in enumerate(path):
            watch._run["coin"], watch._run["practice_draw"] = coin, 0.0
            decision = watch.decide(2)
            assert decision.control_share is not None
            likely *= decision.control_share if coin == 0 else 1 - decision.control_share
            if coin > 0:
                owed += practice[t] - (0.0 if promise == "realised" else explorer[t])
            watch.update(decision, float((explorer if coin else practice)[t]))
        fractions = 0.9 * 0.6 ** np.arange(16)
        expectation += likely * np.exp(fractions * owed + log_bets(watch._run[0])).mean()
    if promise == "realised":
        assert expectation == pytest.approx(1.0, abs=1e-12)
    assert 0.7 < expectation <= 1.0 + 1e-12


def test_pending_rewards_are_never_too_hopeful() -> None:
    """Whatever late rewards turn out to be, the room was not larger before they came."""
    rng = np.random.default_rng(2)
    for gate in GATES.values():
        watch, waiting = guard(**gate), []
        for _ in range(150):
            decision = watch.decide(2)
            watch.commit(decision)
            waiting.append(decision)
        before = watch.decide(2).budget
        assert before is not None
        for i in rng.permutation(len(waiting)):
            watch.observe(waiting[i], float(rng.random()))
            after = float(from_python(control.coin_room)(watch._params[0], watch._run[0], -np.inf))
            assert after >= before - 1e-9
            before = after


# -- the order inside a round


def opened(seed: int = 0, **gate: Any) -> Guard:
    return guard(seed, **({"budget": 20.0} | gate))


def test_the_coin_is_thrown_once_for_a_round() -> None:
    watch = opened()
    decision = watch.decide(2)
    assert decision.control_share is not None
    assert watch.decide(2) == decision
    with pytest.raises(ValueError, match="arm must be 2, for which the coin of this round is thrown, got"):
        watch.decide(1 if watch.practice != 1 else 0)
    watch.update(decision, 1.0)
    watch.decide(1)


def test_a_reward_between_the_throw_and_the_commit_changes_nothing() -> None:
    for seed in range(20):
        watch = opened(seed)
        first = watch.decide(2)
        watch.commit(first)
        second = watch.decide(2)
        watch.observe(first, 1.0)
        assert watch.decide(2) == second
        watch.update(second, 0.0)
        assert watch.rounds == 2


def test_an_agent_is_asked_once_as_well() -> None:
    agent = Gated(gate=Control(budget=20.0), confidence=CLICKS).start(ACTIONS, LOG, rng=0)
    while True:
        decision = agent.guard(2)
        if decision.control_share is not None:
            break
        agent.update(decision, 0.5)
    assert agent.guard(2) == decision == agent.decide() == agent.decide([decision.arm])
    assert agent.select() == decision.arm
    with pytest.raises(ValueError, match="arm must be 2, for which the coin"):
        agent.guard(1)
    others = [arm for arm in range(3) if arm != decision.arm]
    with pytest.raises(ValueError, match="allowed must hold arm"):
        agent.decide(others)
    assert agent.budget == decision.budget
    agent.update(decision, 1.0)


def test_a_decision_kept_in_reserve_cannot_make_a_control_round_disappear() -> None:
    """Who agrees first, then asks for another arm, and plays the first answer where the coin says control."""
    watch, controls, lost = guard(3, epsilon=0.05, budget=5.0), 0, 0.0
    for t in range(1, 400):
        reserve = watch.decide(watch.practice or 0)
        decision = watch.decide(2)
        if decision.source == "control":
            controls += 1
            decision = reserve
        watch.update(decision, 0.0 if decision.arm == 2 else 0.9)
        lost += 0.9 * (decision.arm == 2)
        assert lost <= 5.0 + 0.05 * t
    assert controls > 5
    kept = 0
    for seed in range(60):
        agent = Gated(gate=Control(budget=20.0), confidence=CLICKS).start(ACTIONS, LOG, rng=seed)
        reserve, stakes = agent.guard(0), log_bets(agent.running.run)
        if reserve.control_share is None and agent.guard(2).source == "control":
            agent.commit(reserve)
            kept += bool((log_bets(agent.running.run) < stakes).all())
    assert kept > 2


@pytest.mark.few(0)
def test_practice_and_coin_have_their_frequencies() -> None:
    """4,000 rounds with a share of .3: each count within 4.5 standard deviations, false alarm 1e-5 each."""
    watch = opened(1, budget=3000.0, share=0.3)
    practice, control = 0, 0
    for _ in range(4000):
        practice += watch.practice == 0
        decision = watch.decide(2)
        control += decision.source == "control"
        watch.update(decision, 0.5)
    assert abs(practice - 4000 * 0.6) <= 4.5 * np.sqrt(4000 * 0.24)
    assert abs(control - 4000 * 0.3) <= 4.5 * np.sqrt(4000 * 0.21)


def test_where_the_explorer_agrees_there_is_no_coin_and_no_entry() -> None:
    watch = opened()
    before = log_bets(watch._run[0])
    for _ in range(30):
        decision = watch.decide(watch.practice or 0)
        assert (decision.mode, decision.source, decision.control_share) == ("safe", "mixture", None)
        watch.update(decision, 0.0)
    np.testing.assert_array_equal(log_bets(watch._run[0]), before)
    assert watch._run[0]["centre"] == pytest.approx(0.56)


# -- the same everywhere


POLICIES: dict[str, Any] = {
    "ucb": Gated(explorer=LinUCB(scale=0.25), gate=Control(epsilon=0.1), confidence=CLICKS),
    "thompson": Gated(explorer=LinTS(), gate=Control(budget=5.0, promise="expected"), confidence=CLICKS),
    "random": Gated(explorer=Random(), gate=Control(epsilon=0.1, share=0.2), confidence=CLICKS),
    "stretches": Gated(gate=Control(budget=15.0, every=30), confidence=CLICKS),
    "loan": Gated(gate=Control(budget=2.0, loan=10.0), confidence=CLICKS),
    "model": Gated(gate=Control(budget=2.0, loan=10.0, promise="expected"), confidence=CLICKS),
    "fixed": Gated(gate=Control(budget=5.0), confidence=CLICKS, fallback=1),
    "pessimistic": Gated(gate=Control(budget=5.0), confidence=CLICKS, fallback="lcb"),
    "gaussian": Gated(
        gate=Control(epsilon=0.3, budget=3.0, promise="expected"),
        confidence=Confidence(reward_range=(0.0, 1.0), noise=0.3),
    ),
}


def state_of(agent: Any) -> tuple[list[float], list[float]]:
    run = agent.running.run
    return [run["upper_practice"], run["earned"], run["centre"], run["coin"]], log_bets(run).tolist()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(3)
def test_compiled_equals_interactive_equals_restored(name: str) -> None:
    """Bit for bit, through blocks and snapshots of rounds with and without a thrown coin."""
    policy, rng = POLICIES[name], np.random.default_rng(0)
    draws = rng.random(400)
    world = {"bernoulli": True, "starts": np.array([0, 150]), "first": 0}
    table = np.array([MEANS, MEANS[::-1]])
    compiled, interactive = (policy.start(ACTIONS, LOG, rng=7) for _ in range(2))
    rounds = compiled.play_rounds(table, draws, **world)
    for t in range(400):
        decision = interactive.decide()
        assert decision.arm == rounds.arms[t]
        assert ("explorer", "lcb", "mixture", "fixed", "control")[rounds.sources[t]] == decision.source
        assert decision.fallback == rounds.fallbacks[t]
        if t % 57 == 0:  # with the coin thrown
            interactive = linoto.restore(interactive.snapshot())
            assert interactive.decide() == decision
        interactive.update(decision, float(draws[t] < table[int(t >= 150), decision.arm]))
    assert state_of(compiled) == state_of(interactive)
    assert {0, 4} <= set(rounds.sources.tolist())


def test_the_compiled_loop_leaves_the_bytes_of_single_rounds() -> None:
    """After any number of rounds: the last one may have thrown a coin, met a shut gate, or needed none."""
    draws, sources = np.random.default_rng(0).random(40), set()
    for rounds in range(1, 41):
        compiled, interactive = (POLICIES["ucb"].start(ACTIONS, LOG, rng=7) for _ in range(2))
        compiled.play_rounds(MEANS, draws[:rounds], bernoulli=True)
        for draw in draws[:rounds]:
            decision = interactive.decide()
            interactive.update(decision, float(draw < MEANS[decision.arm]))
        sources.add(decision.source)
        assert compiled.snapshot() == interactive.snapshot()
    assert sources == {"explorer", "control", "mixture"}


def test_a_snapshot_without_its_tickets_is_refused() -> None:
    """And one of another gate holds none, so that its bytes are those of earlier versions."""
    agent = POLICIES["ucb"].start(ACTIONS, LOG, rng=0)
    header, arrays = read_snapshot(agent.snapshot())
    for name in sorted(kernels.COIN_ROWS):
        rest = {key: array for key, array in arrays.items() if key != f"arms.{name}"}
        with pytest.raises(ValueError, match=f"snapshot must hold arms.{name}, got none"):
            linoto.restore(codec.pack(header, rest))
    _, others = read_snapshot(Gated().start(ACTIONS, LOG).snapshot())
    assert not {f"arms.{name}" for name in kernels.COIN_ROWS} & set(others)


def test_blocks_of_rounds_are_the_same_run() -> None:
    draws = np.random.default_rng(1).random(9000)
    whole, parts = (POLICIES["thompson"].start(ACTIONS, LOG, rng=7) for _ in range(2))
    arms = whole.play(MEANS, draws, bernoulli=True)[0]
    pieces = [parts.play(MEANS, draws[i : i + 3000], bernoulli=True)[0] for i in range(0, 9000, 3000)]
    np.testing.assert_array_equal(np.concatenate(pieces), arms)


@pytest.mark.parametrize("own", [False, True])
def test_a_guard_and_an_agent_keep_the_same_books(own: bool) -> None:
    """The same coins, proposals and rewards: the agent's features add nothing to the gate."""
    explorer: Any = Optimist() if own else LinUCB(scale=0.25)
    agent = Gated(explorer=explorer, gate=Control(epsilon=0.1), confidence=CLICKS).start(ACTIONS, LOG, rng=4)
    watch, rng = guard(4, epsilon=0.1), np.random.default_rng(3)
    for _ in range(300):
        run = agent.running.run
        watch._run["coin"], watch._run["practice_draw"] = run["coin"], run["practice_draw"]
        mine = agent.decide()
        theirs = watch.decide(mine.proposal)
        assert replace(mine, budget=None, centre=None) == replace(theirs, budget=None, centre=None)
        assert mine.budget == pytest.approx(theirs.budget, abs=1e-9)
        reward = float(rng.random() < MEANS[mine.arm])
        agent.update(mine, reward)
        watch.update(theirs, reward)


def test_a_guard_survives_its_snapshot_in_any_round() -> None:
    for name, gate in {**GATES, "loan": {"budget": 2.0, "loan": 8.0}}.items():
        watch, rng, waiting = guard(2, **gate), np.random.default_rng(2), []
        for step in range(200):
            decision = watch.decide(2)
            if step % 19 == 0:
                twin = linoto.restore(watch.snapshot())
                assert twin.decide(2) == decision, name
                assert twin.snapshot() == watch.snapshot()
                watch = twin
            watch.commit(decision)
            waiting.append(decision)
            if rng.random() < 0.7:  # tickets of before the snapshot are taken after it
                watch.observe(waiting.pop(int(rng.integers(len(waiting)))), float(rng.random() < 0.6))
        assert watch.rounds == 200


def test_a_reward_by_its_arm_is_credited_where_it_is_clear_whose_it_is() -> None:
    policy = POLICIES["ucb"]
    one, two = (policy.start(ACTIONS, LOG, rng=1) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(120):
        decision = one.decide()
        reward = float(rng.random() < MEANS[decision.arm])
        one.update(decision, reward)
        arm = two.select()
        two.commit(arm)
        two = linoto.restore(two.snapshot())
        two.observe(arm, reward)
    assert state_of(one) == state_of(two)
    for _ in range(3):  # several plays of one arm: nobody can say whose reward it is
        two.commit(two.guard(2))
    room = two.budget
    assert room is not None
    for arm in np.repeat(np.arange(3), two.pending):
        two.observe(int(arm), 1.0)
    assert two.pending.sum() == 0


def test_a_lost_reward_stays_at_its_worst_in_the_books() -> None:
    agent = POLICIES["ucb"].start(ACTIONS, LOG, rng=1)
    for t in range(60):
        decision = agent.decide()
        agent.commit(decision)
        before = state_of(agent)
        if t % 2:
            agent.lose(decision, 1.0)
            assert state_of(agent) == before
        else:
            agent.observe(decision, 1.0)
    assert agent.pending.sum() == 0


def test_an_arm_that_was_not_decided_counts_at_its_worst() -> None:
    """Played against the decision: practice could have earned 1, and a control play in its place is lost."""
    for seed in range(30):
        agent = Gated(explorer=Greedy(), gate=Control(budget=20.0), confidence=CLICKS).start(
            ACTIONS, LOG, rng=seed
        )
        decision = agent.decide()
        before = agent.running.run.copy()
        agent.update((decision.arm + 1) % 3, 0.25)
        after = agent.running.run
        if decision.mode == "explore":  # the coin had said that something is tried
            assert after["upper_practice"] - after["earned"] <= 1.0 - 0.25
        else:
            assert after["upper_practice"] == pytest.approx(1.0, abs=1e-12)
        worst = before["coin_bets"] - 0.9 * 0.6 ** np.arange(16)
        if decision.source == "mixture":
            np.testing.assert_allclose(after["coin_bets"], worst)
        if decision.source == "control":
            assert (after["coin_bets"] < worst).all()


# -- propensities


@pytest.mark.parametrize(
    "explorer", [LinUCB(scale=0.25), LinTS(), Random()], ids=["ucb", "thompson", "random"]
)
@pytest.mark.parametrize("allowed", [None, [0, 2]])
@pytest.mark.few(2)
def test_propensities_are_the_frequencies(explorer: Any, allowed: Any) -> None:
    """2,000 agents that differ in their draws alone: |frequency - propensity| <= .055, which is 4.9 standard
    deviations of both together at most; false alarm 1e-6 for each arm.
    """
    policy = Gated(explorer=explorer, gate=Control(budget=4.0), confidence=CLICKS)
    agent = policy.start(ACTIONS, LOG, rng=0)
    said = np.array([agent.propensity(arm, allowed, redraws=2000) for arm in range(3)])
    assert agent.running.run["coin_thrown"] == 0  # nobody was shown the coin
    counts = np.zeros(3)
    for turn in range(2000):
        agent.running.state.run["coin_thrown"], agent.running.coins = 0, KeyedCoins(turn.to_bytes(32, "big"))
        agent.driver.draw()
        counts[agent.decide(allowed).arm] += 1
    assert said.sum() == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(counts / 2000, said, atol=0.055)


@pytest.mark.parametrize("explorer", [LinUCB(scale=0.25), LinTS()], ids=["ucb", "thompson"])
@pytest.mark.parametrize("loan", [0.0, 3.0])
def test_propensities_of_a_proposal_are_the_frequencies(explorer: Any, loan: float) -> None:
    """As above, for somebody else's arm; with a loan the share depends on the arm that practice draws."""
    policy = Gated(explorer=explorer, gate=Control(budget=15.0, loan=loan), confidence=CLICKS)
    agent = policy.start(ACTIONS, LOG, rng=0)
    said = np.array([agent.propensity(arm, proposal=0) for arm in range(3)])
    counts, shares = np.zeros(3), set()
    for turn in range(2000):
        agent.running.state.run["coin_thrown"], agent.running.coins = 0, KeyedCoins(turn.to_bytes(32, "big"))
        agent.driver.draw()
        decision = agent.guard(0)
        counts[decision.arm] += 1
        shares.add(agent.running.run["entry_share"])
    assert said.sum() == pytest.approx(1.0) and len(shares) == (2 if loan else 1)
    np.testing.assert_allclose(counts / 2000, said, atol=0.055)


def test_where_the_share_depends_on_the_draw_of_the_explorer_nobody_knows_the_propensity() -> None:
    policy = Gated(explorer=LinTS(), gate=Control(budget=1.5, loan=3.0), confidence=CLICKS)
    assert policy.start(ACTIONS, LOG, rng=0).propensity(0) is None


def test_practice_can_be_played_whatever_the_coin_says() -> None:
    """Said before it is thrown, it leaves no entry, and the next round has a coin of its own."""
    agent = Gated(gate=Control(budget=9.0), confidence=CLICKS).start(ACTIONS, LOG, rng=0)
    stakes = log_bets(agent.running.run)
    for _ in range(50):
        decision = agent.guard(2, safe=True)
        safe = agent.play_safe(decision)
        assert (safe.arm, safe.source, safe.control_share) == (decision.fallback, "mixture", None)
        agent.update(safe, 1.0)
    assert np.array_equal(log_bets(agent.running.run), stakes) and agent.rounds == 50


def test_a_closed_gate_has_the_propensities_of_practice() -> None:
    agent = Gated(gate=Control(epsilon=0.01), confidence=CLICKS).start(ACTIONS, LOG, rng=0)
    assert [agent.propensity(arm) for arm in range(3)] == [0.6, 0.4, 0.0]
    assert agent.propensity(0, [0, 2]) == 1.0


# -- what it says


def test_the_certificate_says_what_is_promised_and_what_is_not_needed() -> None:
    certificate = Gated(gate=Control(budget=30.0, epsilon=0.01), confidence=CLICKS).certificate(ACTIONS, LOG)
    assert certificate.holds and not certificate.vacuous
    assert (certificate.per_round, certificate.constant, certificate.kappa) == (0.01, 30.0, None)
    assert certificate.against == "current practice in the explored rounds"
    assert certificate.reference is None
    text = str(certificate)
    for words in (
        "the explored ones earn at most budget + epsilon t less than current practice would in the same",
        "rewards as they come",
        "an arm drawn by the log's shares, and can still be played",
        "every reward lies in [0, 1]",
        "the coin is ours",
        "not assumed",
        "that the log still holds",
        "a linear model",
    ):
        assert words in text
    assert "no drift" not in text


def test_the_certificate_names_loan_stretches_and_practice() -> None:
    def of(gate: Control, **parts: Any) -> str:
        parts = {"confidence": CLICKS} | parts
        return str(Gated(gate=gate, **parts).certificate(ACTIONS, LOG))

    loan = of(Control(budget=5.0, loan=20.0))
    assert "budget + loan" in loan and "without the loan if the log's arms earn what they did" in loan
    assert "25, however many rounds" in loan
    model = of(Control(budget=5.0, loan=20.0, promise="expected"))
    assert "without the loan if the model holds" in model and "mean rewards" in model
    stretches = of(Control(budget=30.0, every=100))
    assert "in t rounds from any multiple of 100 on" in stretches and "for every t" not in stretches
    assert "most lost in a stretch" in stretches and "30, however long it is" in stretches
    assert "0.01, plus 30 in each stretch" in of(Control(budget=30.0, epsilon=0.01, every=100))
    assert "the coin plays practice in 0.2 of the rounds" in of(Control(budget=30.0, share=0.2))
    assert "the coin plays practice in at least 0.01 of the rounds" in of(Control(budget=30.0, share="cheap"))
    assert "the coin plays practice in at least 0.05 of the rounds" in stretches
    assert "current practice is arm 1" in of(Control(budget=5.0), fallback=1)
    gaussian = Confidence(reward_range=(0, 1), noise=0.3)
    subgaussian = of(Control(budget=5.0, promise="expected"), confidence=gaussian)
    assert "sub-Gaussian" in subgaussian and "that rewards arrive" not in subgaussian
    assert guard(budget=30.0).certificate.holds


def test_a_named_practice_needs_no_log() -> None:
    empty = Offline.empty(3)
    policy = Gated(explorer=Random(), gate=Control(budget=5.0), confidence=CLICKS, fallback=1)
    agent = policy.start(ACTIONS, empty, rng=0)
    assert agent.running.run["centre"] == 0.5
    assert policy.certificate(ACTIONS, empty).holds
    with pytest.raises(ValueError, match="offline must hold at least one reward"):
        replace(policy, fallback="mixture").start(ACTIONS, empty)


@pytest.mark.few(0)
def test_a_better_arm_is_explored_more_and_more_and_a_worse_one_hardly() -> None:
    for mean, least, most in ((0.9, 0.75, 0.96), (0.3, 0.0, 0.2)):
        world = linoto.Bandit(actions=np.eye(2), means=[0.6, mean], rewards="bernoulli")
        log = Offline(pulls=[50, 0], reward_sums=[30.0, 0.0])
        policy = Gated(explorer=Always(1), gate=Control(epsilon=0.05), confidence=CLICKS)
        run = linoto.simulate(policy, world, log, horizon=1500, seed=3)
        assert least <= run.explored[-500:].mean() <= most
        assert run.practice_shortfall.max() <= 0.05 * 1500


class Always:
    """Proposes one arm."""

    deterministic = True

    def __init__(self, arm: int) -> None:
        self.arm = arm

    def propose(self, view: Any) -> int:
        return self.arm


# -- the loan


def test_a_loan_is_spent_where_the_log_vouches_and_no_further() -> None:
    """An arm that earns nothing: the log sees it and stops at the budget, a wrong log at budget and loan."""
    for offline, limit in (
        (Offline(pulls=[4000, 0], reward_sums=[3200.0, 0.0]), 4.0),  # practice still earns what it did
        (Offline(pulls=[4000, 0], reward_sums=[0.0, 0.0]), 14.0),  # the log says that practice earns nothing
    ):
        watch, lost = guard(0, offline, budget=4.0, loan=10.0), 0.0
        for _ in range(1500):
            decision = watch.decide(1)
            watch.update(decision, 0.8 if decision.arm == 0 else 0.0)
            lost += 0.8 * (decision.mode == "explore")
        assert limit - 3.0 <= lost <= limit


def test_what_the_log_vouches_for_is_known_by_how_its_rewards_scatter() -> None:
    """Rewards of 0.5, give or take 0.05: with squares the bounds of arms and log are a third as wide."""
    by_sum = Offline(pulls=[600, 400, 0], reward_sums=[300.0, 200.0, 0.0])
    known = replace(by_sum, reward_squares=[151.5, 101.0, 0.0])
    policy = Gated(gate=Control(budget=2.0, loan=10.0), confidence=CLICKS)
    agents = [policy.start(ACTIONS, log, rng=0) for log in (by_sum, known)]
    rows = [kernels.PRACTICE_UPPER, kernels.PRACTICE_LOWER]
    wide, narrow = (agent.running.state.arms[rows] - 0.5 for agent in agents)
    assert (np.abs(narrow[:, :2]) < np.abs(wide[:, :2]) / 3).all() and (narrow[:, 2] == wide[:, 2]).all()
    far, near = (float(agent.running.params[0]["log_upper"]) - 0.5 for agent in agents)
    assert 0 < near < far / 3
    assert (guard(0, known, budget=2.0, loan=10.0)._bounds - 0.5 == narrow).all()


def test_a_loan_by_the_model_is_spent_no_further() -> None:
    for actions, limit in ((np.array([[0.8], [0.05]]), 4.0), (np.array([[0.8], [1.0]]), 14.0)):
        confidence = replace(CLICKS, bound=1.2)
        log = Offline(pulls=[4000, 0], reward_sums=[3200.0, 0.0])
        gate = Control(budget=4.0, loan=10.0, promise="expected")
        agent = Gated(explorer=Always(1), gate=gate, confidence=confidence).start(actions, log, rng=0)
        lost = 0.0
        for _ in range(1500):
            decision = agent.decide()
            agent.update(decision, 0.8 if decision.arm == 0 else 0.0)
            lost += 0.8 * (decision.mode == "explore")
        assert lost <= limit


def test_the_log_knows_practice_by_arm_and_as_a_whole() -> None:
    """Both bounds are on what practice earns on average in rounds that the explorer may have picked."""
    logged, upper, lower = np.array([60, 40]), np.array([0.7, 0.55]), np.array([0.5, 0.45])
    args = logged, 100, 5, np.array([3.0, 1.0]), upper, lower, 0.58
    by_arm = 4 * 0.7 + 0.55
    whole = 5 * 0.58 + (4 - 3.0) * 0.7 + (1 - 2.0) * 0.45
    assert kernels.most_by_practice(*args, 0) == pytest.approx(min(by_arm, whole))
    picked = logged, 100, 31, np.array([30.0, 0.0]), upper, lower, 0.58
    whole = 31 * 0.58 + (31 - 18.6) * 0.7 - 12.4 * 0.45  # the mean, and what arm 1 is at least, bound arm 0
    assert kernels.most_by_practice(*picked, 0) == pytest.approx(min(31 * 0.7, whole))


# -- refusals


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Control(budget=-1), "budget must be a number >= 0"),
        (lambda: Control(epsilon=float("nan")), "epsilon must be"),
        (lambda: Control(promise="mean"), "promise must be one of"),
        (lambda: Control(share=1.0), r"share must be in \(0, 1\), 'cheap' or None, got 1.0"),
        (lambda: Control(loan=-2), "loan must be a number >= 0"),
        (lambda: Control(every=0), "every must be a whole number >= 1"),
        (lambda: Control(every=10, promise="expected"), "promise must be 'realised' for stretches"),
        (lambda: Control(every=10, loan=3.0), "loan must be 0 for stretches"),
        (lambda: guard(budget=0.5), "budget must be at least 1, what one round can lose"),
        (lambda: guard(budget=5.0, every=10), "budget must be at least 6.117 for stretches, got 5"),
        (lambda: Gated(gate=Control(budget=5)).start(ACTIONS, LOG), "reward_range must be given"),
        (
            lambda: Gated(gate=Control(budget=5), confidence=Confidence(reward_range=(0, 1))).start(
                ACTIONS, LOG
            ),
            "noise must be 'bounded'",
        ),
        (
            lambda: Gated(gate=Control(budget=5, promise="expected")).start(ACTIONS, LOG),
            "reward_range must be given",
        ),
        (lambda: guard(budget=5.0, loan=1.0, promise="expected"), "gate must be a Control, and its loan"),
        (
            lambda: Guard(LOG, gate=Control(budget=5), epsilon=0.1, reward_range=(0, 1), noise="bounded"),
            "epsilon must be left out where a gate is given",
        ),
        (lambda: Guard(LOG, gate=linoto.Open(), reward_range=(0, 1)), "gate must be a Control"),  # type: ignore[arg-type]
        (
            lambda: Gated(
                gate=Control(budget=5, loan=5, promise="expected"), confidence=replace(CLICKS, radius="paper")
            ).start(ACTIONS, LOG),
            "radius must be another than 'paper' for a loan",
        ),
        (lambda: guard(0, Offline.empty(2), budget=5.0), "offline must hold at least one reward"),
        (lambda: guard(budget=5.0).observe(0, 1.0), "decision must be what decide returned"),
        (lambda: opened().update(opened().decide(0), 7.0), r"reward must be in \[0, 1\]"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# -- small budgets


def explored_of(gate: Control, means: tuple[float, float], seed: int, rounds: int = 1500) -> int:
    """In how many rounds a guard let through an arm that somebody always wants, the second of these."""
    log = Offline(pulls=[200, 0], reward_sums=[200 * means[0], 0.0])
    watch = Guard(log, gate=gate, reward_range=(0, 1), noise="bounded", rng=seed)
    rng, explored = np.random.default_rng(seed), 0
    for _ in range(rounds):
        decision = watch.decide(1)
        watch.update(decision, float(rng.random() < means[decision.arm]))
        explored += decision.arm == 1
    return explored


@pytest.mark.parametrize("means", [(0.3, 0.5), (0.05, 0.2)])
@pytest.mark.few(1)
def test_a_small_budget_is_not_spent_before_control_rounds_have_told_anything(
    means: tuple[float, float],
) -> None:
    """With the least share of control, 8 of 10 such guards (6 of 10 for rare clicks) closed for good within
    500 rounds; of ten now none. A false alarm needs three of six: 2e-3 if one in twenty closes."""
    explored = [explored_of(Control(budget=20.0), means, seed) for seed in range(6)]
    assert sorted(explored)[2] > 600, explored


@pytest.mark.parametrize("delta", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("budget", [0.0, 1.0, 7.0, 60.0, 1e3, 1e9])
def test_the_stakes_are_one_in_all_and_largest_where_the_fee_is_a_third_of_the_budget(
    budget: float, delta: float
) -> None:
    stakes = stakes_for(budget, delta)
    assert stakes.sum() == pytest.approx(1.0, abs=1e-12) and (stakes > 0).all()
    fees = np.log(16 / delta) / (0.9 * 0.6 ** np.arange(16))  # in units of the range
    wanted = int(np.abs(np.log(3 * fees * 0.95 / max(budget, 1e-9))).argmin())
    assert abs(int(stakes.argmax()) - wanted) <= 1


def test_the_certificate_says_what_would_open_a_gate_that_is_closed_for_good_too_soon() -> None:
    def why(gate: Control) -> str:
        return Gated(gate=gate, confidence=CLICKS).certificate(ACTIONS, LOG).theorem

    assert "it learns with a budget of 5.35 or more, or with a small epsilon" in why(Control(budget=5.0))
    for gate in (Control(budget=5.4), Control(budget=1.0, epsilon=0.001), Control(budget=3.0, loan=9.0)):
        assert "it learns" not in why(gate)
    contextual = Gated(gate=Control(budget=3.8), confidence=CLICKS).certificate(None, d=2)
    assert "it learns with a budget of 5.35" in contextual.theorem
    assert Control(budget=5.0).refusal(-0.5).endswith("only by rewards that are still to come.")
    assert Control(budget=5.0, epsilon=0.1).refusal(-0.5) == Control(epsilon=0.1).refusal(-0.5)
    with pytest.raises(ValueError, match=r"epsilon is 0, got 0\.5; it learns from 5"):
        guard(budget=0.5)


def test_a_share_that_is_the_least_needs_no_exponential() -> None:
    """Where the hazard is below the least share, so is 1 - exp(-hazard): the bits of the plain formula."""
    rng, share, shortened = np.random.default_rng(0), in_python(control.share_of_control, {}), 0
    for _ in range(2000):
        params, run = (
            np.zeros(1, kernels.PARAMS).view(np.recarray),
            np.zeros(1, kernels.RUN).view(np.recarray),
        )
        p, r = params[0], run[0]
        p.unit, p.low, p.coin_level = rng.uniform(0.1, 5), rng.uniform(-2, 2), rng.uniform(3, 9)
        p.epsilon, r.rounds = rng.choice([0.0, 0.05]), rng.integers(10_000)
        r.room, r.centre = 10.0 ** rng.uniform(-2, 4), p.low + p.unit * rng.random()
        left = r.room + p.unit
        hazard = p.coin_level * (p.low + p.unit - r.centre) / (left / 3.0 + p.epsilon * r.rounds)
        least = max(0.05, 4.0 * p.unit / (4.0 * p.unit + left))
        shortened += hazard < least
        assert share(p, r, 1.0) == max(least, min(-expm1(-hazard), 0.9))
    assert 200 < shortened < 1800


@pytest.mark.parametrize("unit", [1.0, 2.0, 0.3, 180.0])
def test_each_bet_stakes_six_tenths_of_the_one_before(unit: float) -> None:
    fraction, found = 0.9 / unit, bet_fractions(unit)
    assert found.shape == (kernels.COIN_BETS,)
    for each in found:
        assert each == fraction
        fraction *= 0.6
