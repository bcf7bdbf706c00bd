"""Guardrails: one coin, and for each metric a ledger that an oracle keeps too."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.own_explorers import Optimist
from helpers.reference_control import ControlReference

import linoto
from linoto import Certificate, Confidence, Control, Decision, Gated, Guard, Guardrail, LinTS, LinUCB, Offline
from linoto.core import kernels
from linoto.core.coins import KeyedCoins
from linoto.core.snapshots import read_snapshot

LOG = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
MEANS = np.array([0.6, 0.5, 0.7])
ACTIONS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
COMPLAINTS = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=8, rate=0.02, mean=0.1)
MARGIN = Guardrail("margin", reward_range=(-2, 4), budget=40, rate=0.1)
RAILS = (COMPLAINTS, MARGIN)
COMPLAINED = np.array([0.1, 0.05, 0.15])  # the mean of each metric by arm
EARNED = np.array([1.0, 1.2, 0.9])
GATES: dict[str, dict[str, Any]] = {
    "a rate": {"epsilon": 0.05, "budget": 4.0},
    "expected": {"epsilon": 0.05, "budget": 4.0, "promise": "expected"},
    "a fixed share": {"epsilon": 0.05, "budget": 2.0, "share": 0.1},
    "stretches": {"epsilon": 0.05, "budget": 15.0, "every": 40},
}
LARGE = (replace(COMPLAINTS, budget=15), replace(MARGIN, budget=120))  # what stretches need


def rails_for(name: str) -> tuple[Guardrail, ...]:
    return LARGE if name == "stretches" else RAILS


def guard(name: str, seed: int = 3, **other: Any) -> Guard:
    options: dict[str, Any] = {"gate": Control(**GATES[name]), "guardrails": rails_for(name), **other}
    return Guard(LOG, reward_range=(0, 1), noise="bounded", rng=seed, **options)


def gated(name: str = "a rate", **other: Any) -> Gated:
    options: dict[str, Any] = {"gate": Control(**GATES[name]), "guardrails": rails_for(name), **other}
    return Gated(confidence=CLICKS, **{"explorer": LinUCB(scale=0.25), **options})


def oracles(name: str) -> dict[str, ControlReference]:
    """The books of the reward and of each guardrail, each with a third of delta."""
    reward = ControlReference(**GATES[name], centre=0.56, delta=0.05 / 3)
    found = {"reward": reward}
    for rail in rails_for(name):
        low, high = rail.limits
        centre = (low + high) / 2 if rail.mean is None else rail.turn * rail.mean
        own = {"budget": rail.budget, "epsilon": rail.rate}
        found[rail.name] = ControlReference(
            **(GATES[name] | own), centre=centre, delta=0.05 / 3, low=low, high=high
        )
    return found


def kind_of(decision: Decision) -> str:
    if decision.source in ("mixture", "practice"):
        return "agreed" if decision.arm == decision.proposal else "closed"
    return {"explorer": "explored", "control": "control"}[decision.source]


def metrics_of(arm: int, rng: np.random.Generator) -> dict[str, float]:
    margin = float(np.clip(EARNED[arm] + rng.normal(), -2, 4))
    return {"complaints": float(rng.random() < COMPLAINED[arm]), "margin": margin}


# -- the oracle


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.few(1)
def test_the_books_of_every_metric_are_those_of_its_oracle(name: str, late: bool) -> None:
    """Rooms, centres and the share; `late`: each value comes by itself, in any order, or never."""
    rng, watch, books = np.random.default_rng(5), guard(name), oracles(name)
    waiting: list[tuple[int, int, Decision, str, float]] = []
    kinds: Counter[str] = Counter()
    for t in range(150):
        decision = watch.decide(int(rng.choice([0, 2, 2])))
        rooms = {"reward": decision.budget, **watch.rooms}
        for metric, oracle in books.items():
            assert rooms[metric] == pytest.approx(oracle.room, abs=1e-6), metric
        share = max(oracle.next_share for oracle in books.values())
        kind = kind_of(decision)
        if decision.control_share is not None and decision.centres is not None:
            assert decision.control_share == pytest.approx(share, abs=1e-7)
            known = (decision.centre, *decision.centres)
            assert known == pytest.approx([oracle.centre for oracle in books.values()], abs=1e-12)
        assert (kind in ("agreed", "closed")) == (decision.control_share is None)
        assert kind == "agreed" or (share == 1) == (kind == "closed")
        watch.commit(decision)
        kinds[kind] += 1
        values = {"reward": float(rng.random() < MEANS[decision.arm]), **metrics_of(decision.arm, rng)}
        for metric, oracle in books.items():
            oracle.commit(kind, share)
            if not late or rng.random() < 0.9:
                waiting.append(
                    (t + (int(rng.integers(1, 25)) if late else 0), t, decision, metric, values[metric])
                )
        for item in [item for item in waiting if item[0] <= t]:
            _, then, earlier, metric, value = item
            if metric == "reward":
                watch.observe(earlier, value)
            else:
                watch.observe(earlier, metrics={metric: value})
            turn = -1.0 if metric == "complaints" else 1.0
            books[metric].observe(then, turn * value)
            waiting.remove(item)
    assert kinds["explored"] >= 5 and kinds["control"] >= 2


def test_a_guardrail_on_the_reward_itself_changes_its_delta_and_nothing_else() -> None:
    twin = Guardrail("again", reward_range=(0, 1), budget=4.0, rate=0.05, mean=0.56)
    both = guard("a rate", guardrails=[twin])
    alone = Guard(
        LOG, gate=Control(**GATES["a rate"]), reward_range=(0, 1), noise="bounded", delta=0.025, rng=3
    )
    rng = np.random.default_rng(0)
    for _ in range(300):
        mine, theirs = both.decide(2), alone.decide(2)
        assert replace(mine, centres=None) == theirs
        assert both.rooms == {"again": mine.budget}
        reward = float(rng.random() < MEANS[mine.arm])
        both.update(mine, reward, {"again": reward})
        alone.update(theirs, reward)


def test_lower_is_better_is_the_same_metric_turned_around() -> None:
    turned = Guardrail("peace", reward_range=(-1, 0), budget=8, rate=0.02, mean=-0.1)
    first, second = guard("a rate", guardrails=[COMPLAINTS]), guard("a rate", guardrails=[turned])
    rng = np.random.default_rng(1)
    for _ in range(200):
        mine, theirs = first.decide(2), second.decide(2)
        assert mine == theirs and first.rooms["complaints"] == second.rooms["peace"]
        reward, complained = float(rng.random() < 0.6), float(rng.random() < COMPLAINED[mine.arm])
        first.update(mine, reward, {"complaints": complained})
        second.update(theirs, reward, {"peace": -complained})


def test_the_order_of_guardrails_does_not_matter() -> None:
    """Nor does the order in which the values of one round are told."""
    first, second = guard("a rate"), guard("a rate", guardrails=RAILS[::-1])
    rng = np.random.default_rng(2)
    for _ in range(200):
        mine, theirs = first.decide(2), second.decide(2)
        assert replace(mine, centres=None) == replace(theirs, centres=None)
        assert first.rooms == second.rooms
        values = metrics_of(mine.arm, rng)
        first.update(mine, 1.0, values)
        second.update(theirs, 1.0, dict(reversed(values.items())))


def test_a_metric_that_never_comes_closes_the_gate_and_no_other_book() -> None:
    watch, full = guard("a rate", guardrails=[COMPLAINTS]), guard("a rate", guardrails=[COMPLAINTS])
    for _ in range(400):
        watch.update(watch.decide(2), 1.0)
        full.update(full.decide(2), 1.0, {"complaints": 0.0})
    assert watch.rooms["complaints"] < 1 < 4 < (watch.decide(2).budget or 0.0)
    assert watch._run[0]["explored_plays"] < 20 < 100 < full._run[0]["explored_plays"]


# -- the same everywhere


def books_of(agent: Any) -> bytes:
    return bytes(read_snapshot(agent.snapshot())[1]["rails"].tobytes())


POLICIES: dict[str, Gated] = {
    "ucb": gated(),
    "thompson": gated("expected", explorer=LinTS()),
    "stretches": gated("stretches"),
    "loan": gated(gate=Control(budget=2.0, loan=10.0)),
    "own": gated(explorer=Optimist()),
}


@pytest.mark.parametrize("name", POLICIES)
def test_compiled_equals_interactive_equals_restored(name: str) -> None:
    """Bit for bit, through blocks and snapshots of rounds with and without a thrown coin."""
    policy, rng, n = POLICIES[name], np.random.default_rng(0), 300
    draws, besides = rng.random(n), rng.random((2, n))
    metrics = {"complaints": (COMPLAINED, besides[0]), "margin": (EARNED, besides[1])}
    compiled, interactive = (policy.start(ACTIONS, LOG, rng=7) for _ in range(2))
    rounds = compiled.play_rounds(MEANS, draws, bernoulli=True, metrics=metrics)
    for t in range(n):
        decision = interactive.decide()
        assert decision.arm == rounds.arms[t] and decision.fallback == rounds.fallbacks[t]
        if t % 57 == 0:
            own = policy if name == "own" else None
            interactive = linoto.restore(interactive.snapshot(), policy=own)
            assert interactive.decide() == decision
        values = {
            "complaints": float(besides[0, t] < COMPLAINED[decision.arm]),
            "margin": 4.0 if besides[1, t] * 6 < EARNED[decision.arm] + 2 else -2.0,
        }
        interactive.update(decision, float(draws[t] < MEANS[decision.arm]), values)
    assert books_of(compiled) == books_of(interactive)
    assert compiled.rooms == interactive.rooms and {0, 4} <= set(rounds.sources.tolist())


def test_so_it_is_where_rounds_bring_their_arms() -> None:
    rng, n, k, d = np.random.default_rng(4), 200, 3, 4
    arms, besides, draws = rng.normal(size=(n * k, d)), rng.random((2, n)), rng.random(n)
    means, complained, earned = rng.random((3, n * k))
    weights = np.tile([0.5, 0.25, 0.25], n)
    metrics = {"complaints": (complained / 4, besides[0]), "margin": (earned, besides[1])}
    world = {"ends": k * np.arange(1, n + 1), "actions": arms, "weights": weights}
    policy = gated(explorer=LinUCB(scale=0.25))
    compiled, interactive = (policy.start(d=d, rng=7) for _ in range(2))
    rounds = compiled.play_rounds(means, draws, bernoulli=True, metrics=metrics, **world)
    for t in range(n):
        here = slice(t * k, (t + 1) * k)
        decision = interactive.decide(actions=arms[here], practice=weights[here])
        assert (
            decision.arm == rounds.arms[t]
            and decision.source == ("explorer", "lcb", "practice", "fixed", "control")[rounds.sources[t]]
        )
        if t % 37 == 0:
            interactive = linoto.restore(interactive.snapshot())
            assert interactive.decide(actions=arms[here], practice=weights[here]) == decision
            decision = Decision.from_dict(decision.to_dict())
        arm = t * k + decision.arm
        values = {
            "complaints": float(besides[0, t] < complained[arm] / 4),
            "margin": 4.0 if besides[1, t] * 6 < earned[arm] + 2 else -2.0,
        }
        interactive.commit(decision)
        interactive.observe(decision, float(draws[t] < means[arm]))
        for name in ("margin", "complaints"):
            interactive.observe(decision, metrics={name: values[name]})
    assert compiled.rooms == interactive.rooms and {0, 4} <= set(rounds.sources.tolist())


def test_a_guard_and_an_agent_keep_the_same_books() -> None:
    agent, watch, rng = gated().start(ACTIONS, LOG, rng=4), guard("a rate", 4), np.random.default_rng(3)
    for _ in range(200):
        run = agent.running.run
        watch._run["coin"], watch._run["practice_draw"] = run["coin"], run["practice_draw"]
        mine = agent.decide()
        theirs = watch.decide(mine.proposal)
        assert replace(mine, budget=None, centre=None) == replace(theirs, budget=None, centre=None)
        assert agent.rooms == watch.rooms
        reward, values = float(rng.random() < MEANS[mine.arm]), metrics_of(mine.arm, rng)
        agent.update(mine, reward, values)
        watch.update(theirs, reward, values)


def test_a_guard_survives_its_snapshot_in_any_round() -> None:
    """With values that are told before and after it."""
    watch, rng, waiting = guard("a rate"), np.random.default_rng(2), []
    for step in range(150):
        decision = watch.decide(2)
        if step % 19 == 0:
            twin = linoto.restore(watch.snapshot())
            assert twin.decide(2) == decision and twin.snapshot() == watch.snapshot()
            watch = twin
        watch.commit(decision)
        waiting += [(decision, name) for name in ("reward", "complaints", "margin")]
        for _ in range(2):
            earlier, name = waiting.pop(int(rng.integers(len(waiting))))
            if name == "reward":
                watch.observe(earlier, float(rng.random() < 0.6))
            else:
                watch.observe(earlier, metrics={name: 0.0})
    assert watch.rounds == 150


def test_a_value_between_the_throw_and_the_commit_changes_nothing() -> None:
    """Who has seen the coin and could move the centre of its bet would win money from it."""
    for seed in range(10):
        agent = gated(gate=Control(budget=20.0)).start(ACTIONS, LOG, rng=seed)
        first = agent.guard(2)
        agent.commit(first)
        second = agent.guard(2)
        agent.observe(first, 1.0, {"complaints": 1.0})
        agent.propensity(2, proposal=2)
        assert agent.guard(2) == second
        twin = linoto.restore(agent.snapshot())
        for each in (agent, twin):
            each.commit(second)
            each.observe(second, 1.0, {"complaints": 0.0, "margin": 1.0})
        assert agent.snapshot() == twin.snapshot()


def test_a_value_is_told_once() -> None:
    agent = gated().start(ACTIONS, LOG, rng=0)
    decision = agent.decide()
    with pytest.raises(ValueError, match="decision must await its margin, got one of round 1"):
        agent.observe(decision, metrics={"margin": 1.0})
    agent.update(decision, 1.0, {"margin": 1.0})
    with pytest.raises(ValueError, match="decision must await its margin, got one of round 1"):
        agent.observe(decision, metrics={"complaints": 1.0, "margin": 1.0})
    agent.observe(decision, metrics={"complaints": 1.0})
    with pytest.raises(ValueError, match="decision must await its complaints"):
        agent.observe(decision, metrics={"complaints": 1.0})


@pytest.mark.parametrize("odd", ["1", True, np.True_])
def test_words_and_truths_are_no_values_of_a_metric(odd: Any) -> None:
    agent = gated().start(ACTIONS, LOG, rng=0)
    with pytest.raises(ValueError, match="complaints must be a number, got"):
        agent.update(agent.decide(), 1.0, {"complaints": odd})


def test_a_reward_beside_a_value_that_is_refused_is_not_counted() -> None:
    agent = gated().start(ACTIONS, LOG, rng=0)
    decision = agent.decide()
    agent.commit(decision)
    for metrics in ({"margin": 9.0}, {"margins": 1.0}):
        with pytest.raises(ValueError, match="margin"):
            agent.observe(decision, 1.0, metrics)
    assert agent.rewards == 0
    with pytest.raises(ValueError, match="margin must be in"):
        agent.update(agent.decide(), 1.0, {"margin": 9.0})
    assert agent.rounds == 1


# -- whose values they are


def told(agent: Any, decision: Any, value: float = 0.0) -> None:
    agent.observe(decision, metrics={"complaints": value})


def test_values_are_told_by_the_decision_that_was_committed() -> None:
    """Else what was only shown, or overruled, would pay for what is explored."""
    agent, other = gated().start(ACTIONS, LOG, rng=3), r"must be the one that was committed in round \d+"
    thrown = Counter[str]()
    for _ in range(40):
        shown = agent.guard(2, safe=True)
        agent.commit(agent.play_safe(shown))
        before = agent.rooms
        if shown.control_share is not None:
            thrown[shown.source] += 1
            with pytest.raises(ValueError, match=other):
                told(agent, shown)
        assert agent.rooms == before
        asked = agent.guard(2)
        if asked.source == "control":
            thrown["overruled"] += 1
            agent.commit(2)
            with pytest.raises(ValueError, match=other):
                told(agent, asked)
        else:
            agent.update(asked, 1.0, metrics={"complaints": 0.0, "margin": 1.0})
    assert min(thrown["explorer"] + thrown["control"], thrown["overruled"]) > 0


def test_values_of_a_play_that_a_restored_snapshot_forgot_are_refused() -> None:
    agent = gated().start(ACTIONS, LOG, rng=3)
    kept = agent.snapshot()
    lost = agent.guard(2)
    while lost.control_share is None:
        agent.update(lost, 1.0)
        kept, lost = agent.snapshot(), agent.guard(2)
    agent.commit(lost)
    again = linoto.restore(kept)
    again.commit(again.guard(int(lost.fallback or 0)))  # another visitor came in that round
    before = again.rooms
    with pytest.raises(ValueError, match="must be the one that was committed in round"):
        told(again, lost)
    assert again.rooms == before


@pytest.mark.parametrize("centre", [-100.0, 2.0])
def test_a_centre_that_a_decision_claims_is_not_believed(centre: float) -> None:
    agent = gated().start(ACTIONS, LOG, rng=3)
    decision = agent.guard(2)
    while decision.control_share is None:
        agent.update(decision, 1.0)
        decision = agent.guard(2)
    agent.commit(decision)
    with pytest.raises(ValueError, match="must be the one that was committed in round"):
        told(agent, replace(decision, centres=(centre, centre)))
    told(agent, decision)


def asked_for_the_worst(kind: str) -> tuple[Any, Any]:
    """Who plays, and how it is asked about arm 2, which loses the whole range of the metric in a round."""
    rails = [Guardrail("kept", reward_range=(0, 1), budget=8, mean=1.0)]
    if kind == "a guard":
        watch = guard("a rate", guardrails=rails, gate=Control(budget=20))
        return watch, lambda: watch.decide(2)
    policy = gated(guardrails=rails, gate=Control(budget=20))
    if kind == "arms that stay":
        agent = policy.start(ACTIONS, LOG, rng=3)
        return agent, lambda: agent.guard(2)
    agent = policy.start(d=2, rng=3)
    return agent, lambda: agent.guard(2, actions=ACTIONS, practice=0)


@pytest.mark.parametrize("claimed", ["control", "explorer", "lcb", "fixed"])
@pytest.mark.parametrize("kind", ["arms that stay", "rounds that bring arms", "a guard"])
def test_a_source_that_a_decision_claims_is_not_believed(kind: str, claimed: Any) -> None:
    """Where the gate is closed, practice was decided: a play that says otherwise is entered as just that."""
    (honest, asks), (liar, asks_too) = asked_for_the_worst(kind), asked_for_the_worst(kind)
    closed = 0
    for step in range(120):
        decision, same = asks(), asks_too()
        assert decision == same
        if decision.control_share is None and decision.arm != 2:
            same, closed = replace(same, source=claimed), closed + 1
        values = {"kept": float(decision.arm != 2)}
        if step % 2:
            honest.update(decision, 1.0, values)
            liar.update(same, 1.0, values)
        else:
            for runs, played in ((honest, decision), (liar, same)):
                runs.commit(played)
                runs.observe(played, 1.0, values)
    assert closed > 50
    assert liar.rooms == honest.rooms and liar.snapshot() == honest.snapshot()


def test_a_value_that_rounding_moved_out_of_its_range_is_its_end() -> None:
    """As it is of rewards; what is further away is refused."""
    for lower in (False, True):
        rail = Guardrail("x", reward_range=(0, 0.3), lower_is_better=lower, budget=4)
        assert rail.turned(0.1 + 0.2) == rail.turned(0.3)
        with pytest.raises(ValueError, match=r"x must be in \[0, 0.3\], got 0.3000001"):
            rail.turned(0.3000001)


def test_what_is_refused_counts_nothing() -> None:
    """Neither the metric where the reward is refused, nor the reward where the metric is."""
    agent, keeper = gated().start(ACTIONS, LOG, rng=3), guard("a rate")
    metrics: Any = {"complaints": 1.0}
    for runs, decision in ((agent, agent.guard(2)), (keeper, keeper.decide(2))):
        runs.commit(decision)
        runs.observe(decision, 1.0)
        before = runs.snapshot()
        for played, reward, values in (
            (decision, 1.0, metrics),  # its reward was told
            (0, 1.0, metrics),
            (replace(decision, round=9), None, metrics),
            (decision, None, "complaints"),
        ):
            with pytest.raises(ValueError, match="must"):
                runs.observe(played, reward, metrics=values)
        assert runs.snapshot() == before


@pytest.mark.parametrize("explorer", [LinUCB(scale=0.25), LinTS()], ids=["ucb", "thompson"])
def test_propensities_are_the_frequencies(explorer: Any) -> None:
    """2,000 agents that differ in their draws alone: |frequency - propensity| <= .055, which is 4.9 standard
    deviations of both together at most; false alarm 1e-6 for each arm. The share is that of the guardrail.
    """
    tight = replace(COMPLAINTS, budget=3)
    agent = gated(explorer=explorer, gate=Control(budget=40.0), guardrails=[tight]).start(ACTIONS, LOG, rng=0)
    said = np.array([agent.propensity(arm, redraws=2000) for arm in range(3)])
    counts, shares = np.zeros(3), set()
    for turn in range(2000):
        agent.running.state.run["coin_thrown"], agent.running.coins = 0, KeyedCoins(turn.to_bytes(32, "big"))
        agent.driver.draw()
        counts[agent.decide().arm] += 1
        shares.add(float(agent.running.run["entry_share"]))
    assert shares == {float(agent.running.run["rails_share"])}
    np.testing.assert_allclose(counts / 2000, said, atol=0.055)


def test_a_closed_guardrail_has_the_propensities_of_practice() -> None:
    agent = gated(guardrails=[replace(COMPLAINTS, budget=0)]).start(ACTIONS, LOG, rng=0)
    assert [agent.propensity(arm) for arm in range(3)] == [0.6, 0.4, 0.0]


def test_no_call_compiles_a_kernel_anew() -> None:
    """It would be a stall of seconds in the middle of a run."""
    agent = gated().start(ACTIONS, LOG, rng=0)
    names = ("rails_begin", "rails_measure", "rails_commit", "rails_observe")
    for _ in range(3):
        agent.update(agent.decide(), 1, {"complaints": 1, "margin": np.float32(1)})
    agent.commit(agent.decide())
    assert agent.rooms and agent.propensity(0) is not None
    assert all(len(getattr(kernels, name).signatures) == 1 for name in names)


# -- what it says


def test_the_certificate_has_a_line_for_each_guardrail() -> None:
    certificate = gated().certificate(ACTIONS, LOG)
    lines = dict(certificate.rows(rounds=1000))
    practice = "current practice in the explored rounds"
    assert lines["complaints"] == (
        f"at most 8 and 0.02 a round more than {practice}; every value lies in [0, 1]; in 1,000 rounds 28"
    )
    assert lines["margin"].startswith(f"at most 40 and 0.1 a round less than {practice}")
    assert lines["probability"] == "0.95, for every round, the reward and every guardrail at once"
    assert certificate.delta == 0.05 and certificate.guardrails == RAILS
    assert Certificate(**certificate.to_dict()) == certificate
    assert "guardrails" not in gated(guardrails=()).certificate(ACTIONS, LOG).to_dict()
    assert gated().start(ACTIONS, LOG, rng=0).certificate.guardrails == RAILS
    assert guard("a rate").certificate.guardrails == RAILS


def test_the_certificate_says_from_which_budget_on_a_guardrail_learns() -> None:
    """As it does of the reward. What it names is enough, and less of it is not: the formula of the docs."""
    small = Guardrail("small", reward_range=(0, 2), budget=3)
    lines = dict(gated(guardrails=[small, MARGIN]).certificate(ACTIONS, LOG).rows())
    told = re.search(
        r"so small a budget is spent .* it learns with a budget of ([\d.]+) or more", lines["small"]
    )
    assert told is not None and "so small" not in lines["margin"]
    first = (1 - 0.6) / (1 - 0.6**16)  # the stake on the first of 16 bets
    least = 2 * (1 + np.log(3 / (first * 0.05)) / 0.9)
    assert least <= float(told[1]) <= 1.01 * least
    enough = replace(small, budget=float(told[1]))
    for rail in (enough, replace(small, rate=0.001)):
        assert "so small" not in str(gated(guardrails=[rail, MARGIN]).certificate(ACTIONS, LOG))


def test_the_certificate_says_where_a_guardrail_promises_nothing() -> None:
    rail = Guardrail("x", reward_range=(-1, 1), budget=20, rate=0.5)
    certificate = gated(guardrails=[rail]).certificate(ACTIONS, LOG)
    told = "vacuous: no play could lose more than 20"
    assert told in dict(certificate.rows(rounds=10))["x"]
    assert "vacuous" not in dict(certificate.rows(rounds=14))["x"] + dict(certificate.rows())["x"]


def test_a_policy_with_guardrails_is_plain_data() -> None:
    policy = gated()
    assert linoto.from_dict(linoto.to_dict(policy)) == policy
    without = linoto.to_dict(gated(guardrails=()))
    assert "guardrails" not in without and linoto.from_dict(without) == gated(guardrails=())
    agent = gated(guardrails=()).start(ACTIONS, LOG, rng=0)
    assert linoto.restore(agent.snapshot(), policy=agent.policy).snapshot() == agent.snapshot()
    agent = policy.start(ACTIONS, LOG, rng=0)
    assert linoto.restore(agent.snapshot(), policy=policy).snapshot() == agent.snapshot()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Guardrail("", reward_range=(0, 1)), "name must be a text that is not empty, got ''"),
        (lambda: Guardrail("x", reward_range=(1, 0)), r"reward_range must be \(lo, hi\)"),
        (lambda: Guardrail("x", reward_range=(0, 1), budget=-1), "budget must be a number >= 0, got -1"),
        (
            lambda: Guardrail("x", reward_range=(0, 1), rate=2),
            "rate must be below 1, the width of its range",
        ),
        (lambda: Guardrail("x", reward_range=(0, 1), rate=1), "rate must be below 1, .*, got 1"),
        (lambda: Guardrail("x", reward_range=(0, 1), mean=2), r"mean must be in \[0, 1\] or None, got 2"),
        (lambda: Guardrail("x", reward_range=(0, 1), lower_is_better=1), "lower_is_better must be True or"),  # type: ignore[arg-type]
        (lambda: gated(guardrails=[COMPLAINTS, COMPLAINTS]), "guardrails must have names of their own"),
        (lambda: gated(guardrails=["x"]), "guardrails must be a list of linoto.Guardrail, got 'x' in it"),
        (lambda: gated(gate=linoto.Open()), "gate must be a Control or a Tolerance for guardrails, got Open"),
        (lambda: gated().start(ACTIONS, LOG).play(MEANS, np.zeros(3)), "metrics must be those of the guard"),
        (
            lambda: gated(guardrails=()).start(ACTIONS, LOG).update(0, 1.0, {"x": 1.0}),
            "metrics must be left out without guardrails, got {'x': 1.0}",
        ),
        (lambda: linoto.Doubling(policy=gated()), "policy must have no guardrails for Doubling"),
        (
            lambda: gated(guardrails=[Guardrail("x", reward_range=(0, 1))]).start(ACTIONS, LOG),
            "guardrail 'x': budget must be at least 1, what one round can lose",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_values_that_never_come_leave_nothing_but_their_worst() -> None:
    """Nothing is kept for them any more, no room changes, and they are refused if they come after all."""
    agent = gated().start(ACTIONS, LOG, rng=1)
    decision = agent.decide()
    agent.update(decision, 1.0, metrics={"margin": 1.0})
    assert agent.awaits_metrics(decision) == ("complaints",)
    rooms = agent.rooms
    agent.lose_metrics(decision)
    assert (
        agent.awaits_metrics(decision) == () and agent.rooms == rooms and not agent.running.tickets.by_round
    )
    with pytest.raises(ValueError, match="decision must await its complaints"):
        agent.observe(decision, metrics={"complaints": 0.0})
    again = agent.snapshot()
    with pytest.raises(ValueError, match="decision must be committed and await a metric, got one of round 1"):
        agent.lose_metrics(decision)
    assert agent.snapshot() == again
