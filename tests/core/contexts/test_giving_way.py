"""No coin is thrown for an arm that is hoped to gain little, and propensities know it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.contexts import Clicks

from linoto import (
    Agent,
    Confidence,
    Control,
    Decision,
    Gated,
    Greedy,
    Guardrail,
    LinTS,
    LinUCB,
    Moments,
    RandUCB,
    SquareCB,
    Tolerance,
    restore,
)

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
CHEAP = Control(budget=30.0, share="cheap")
Played = tuple[dict[str, Any], Decision, bytes]  # what was asked, what was decided, and the agent before


def rounds_of(policy: Any, n: int = 120) -> Iterator[Played]:
    """What an agent of this policy decides in rounds of four arms."""
    world = Clicks(1)
    agent: Agent = policy.start(world.log, rng=2)
    for _ in range(n):
        asked = {"actions": world.arms(4), "practice": world.rng.dirichlet(np.ones(4))}
        before = agent.snapshot()
        decision = agent.decide(**asked)
        yield asked, decision, before
        agent.update(decision, world.reward(decision))


def gave_way(decision: Decision) -> bool:
    """Whether practice is played without a coin, where the explorer wanted another arm."""
    return decision.control_share is None and decision.arm != decision.proposal


def test_an_arm_gives_way_by_the_formula() -> None:
    """In NumPy: what it gains, and a deviation of what is unknown of it, is below a tenth of the usual."""
    world, gains, kinds = Clicks(1), [], {True: 0, False: 0}
    V, b = np.eye(3) * 3 / 16 + world.rows.T @ world.rows, world.rows.T @ world.outcomes
    agent = Gated(explorer=LinTS(noise="assumed"), gate=CHEAP, confidence=CLICKS).start(world.log, rng=2)
    for _ in range(150):
        actions, weights = world.arms(4), world.rng.dirichlet(np.ones(4))
        decision = agent.decide(actions=actions, practice=weights)
        assert decision.fallback is not None and decision.budget is not None and decision.budget >= 0
        theta, inverse = np.linalg.solve(V, b), np.linalg.inv(V)
        arm, practice = actions[decision.proposal], actions[decision.fallback]
        wider = np.sqrt(arm @ inverse @ arm) - np.sqrt(practice @ inverse @ practice)
        hoped, least = (arm - practice) @ theta + 0.5 * max(wider, 0.0), 0.1 * np.mean(gains or [0.0])
        if decision.proposal != decision.fallback and abs(hoped - least) > 1e-9:
            assert gave_way(decision) == (hoped < least and least > 0)
            kinds[gave_way(decision)] += 1
        if decision.mode == "explore" and decision.control_share is not None:
            gains.append(np.diff(np.clip([practice @ theta, arm @ theta], 0, 1))[0])
        reward, x = world.reward(decision), np.array(decision.action)
        agent.update(decision, reward)
        V, b = V + np.outer(x, x), b + reward * x
    assert kinds[True] > 5 and kinds[False] > 20


def test_what_gave_way_enters_no_book() -> None:
    """The bets, the bound and what was earned stay; only what practice earns is learnt of."""
    seen = 0
    for asked, decision, before in rounds_of(Gated(explorer=RandUCB(), gate=CHEAP, confidence=CLICKS)):
        if gave_way(decision):
            agent = restore(before)
            run = agent.running.run.copy()
            agent.update(agent.decide(**asked), 1.0)
            after = agent.running.run
            for name in ("coin_bets", "upper_practice", "earned", "explored_plays", "foreseen"):
                assert np.array_equal(after[name], run[name]), name
            assert (decision.mode, decision.source) == ("safe", "practice")
            assert after["practised_rewards"] == run["practised_rewards"] + 1
            seen += 1
    assert seen > 3


def test_a_caller_who_proposes_the_same_arm_gets_its_coin() -> None:
    """Whose proposal it is knows what it is worth."""
    thrown = [
        restore(before).guard(decision.proposal, **asked).control_share
        for asked, decision, before in rounds_of(Gated(explorer=Greedy(), gate=CHEAP, confidence=CLICKS))
        if gave_way(decision)
    ]
    assert len(thrown) > 3 and None not in thrown


RAIL = Guardrail(name="complaints", budget=50.0, reward_range=(0.0, 1.0), lower_is_better=True)


@pytest.mark.parametrize(
    "policy",
    [
        Gated(explorer=LinUCB(), gate=Control(budget=30.0), confidence=CLICKS),
        Gated(explorer=SquareCB(), gate=CHEAP, confidence=CLICKS),
        Gated(explorer=LinUCB(), gate=CHEAP, confidence=CLICKS, guardrails=(RAIL,)),
    ],
    ids=["another share", "chances that every arm is owed", "guardrails"],
)
def test_others_never_give_way(policy: Any) -> None:
    assert not any(gave_way(decision) for _, decision, _ in rounds_of(policy, 60))


def outcomes(asked: dict[str, Any], before: bytes) -> np.ndarray[Any, Any]:
    """(4,) how likely each arm is where the explorer draws nothing: over practice's draws and the coin."""
    chances, ends = np.zeros(4), np.append(0.0, asked["practice"].cumsum())
    for practice, weight in enumerate(asked["practice"]):
        for coin in (0.0, 1.0 - 1e-12):
            agent = restore(before)
            run = agent.running.state.run
            run["practice_draw"], run["coin"] = (ends[practice] + ends[practice + 1]) / 2, coin
            decision = agent.decide(**asked)
            share = decision.control_share
            if share is None:
                chances[decision.arm] += weight / 2
            else:
                chances[decision.arm] += weight * (share if coin == 0.0 else 1 - share)
    return chances


@pytest.mark.parametrize("explorer", [Greedy(), LinUCB()], ids=["greedy", "optimism"])
def test_propensities_are_those_of_all_draws_of_practice_and_the_coin(explorer: Any) -> None:
    """Every outcome is played, in rounds in which some of the pairs give way."""
    looked = 0
    for asked, decision, before in rounds_of(Gated(explorer=explorer, gate=CHEAP, confidence=CLICKS)):
        if gave_way(decision) and looked < 4:
            agent = restore(before)
            stated = [agent.propensity(arm, **asked) for arm in range(4)]
            np.testing.assert_allclose(stated, outcomes(asked, before), atol=1e-9)
            looked += 1
    assert looked == 4


@pytest.mark.parametrize("explorer", [RandUCB(), LinTS()], ids=["one luck", "draws"])
def test_propensities_of_draws_add_up_to_1_and_average_those_of_each_draw(explorer: Any) -> None:
    """300 draws in two rounds: one of 8 is off by 4.5 deviations in one of 10,000 right programs."""
    looked = 0
    for number, (asked, decision, before) in enumerate(
        rounds_of(Gated(explorer=explorer, gate=CHEAP, confidence=CLICKS))
    ):
        if number < 20 or not gave_way(decision) or looked == 2:
            continue
        agent, played, looked = restore(before), np.zeros((300, 4)), looked + 1
        stated = np.array([agent.propensity(arm, redraws=1_000, **asked) for arm in range(4)])
        for draw in range(300):
            other = restore(before)
            other.use_draws(np.random.default_rng([number, draw]))
            run = other.running.state.run
            run["practice_draw"], run["coin"] = np.random.default_rng([number, draw, 1]).random(2)
            played[draw, other.decide(**asked).arm] = 1.0
        assert stated.sum() == pytest.approx(1.0)
        error = np.sqrt(stated * (1 - stated) * (1 / 300 + 1 / 1_000)) + 2e-3
        assert (np.abs(played.mean(axis=0) - stated) < 4.5 * error).all()
    assert looked == 2


@pytest.mark.parametrize("explorer", [Greedy(), LinUCB(), RandUCB()], ids=["greedy", "optimism", "one luck"])
def test_a_restored_agent_whose_coin_is_thrown_states_the_same_propensities(explorer: Any) -> None:
    """Its arms are not in the state until they are asked about."""
    stood, world = 0, Clicks(1)
    agent: Agent = Gated(explorer=explorer, gate=CHEAP, confidence=CLICKS).start(world.log, rng=2)
    for _ in range(60):
        asked = {"actions": world.arms(4), "practice": world.rng.dirichlet(np.ones(4))}
        decision = agent.decide(**asked)
        stated = [agent.propensity(arm, **asked) for arm in range(4)]
        other = restore(agent.snapshot())
        np.testing.assert_allclose([other.propensity(arm, **asked) for arm in range(4)], stated, rtol=1e-9)
        assert sum(stated) == pytest.approx(1.0)
        stood += decision.control_share is not None
        agent.update(decision, world.reward(decision))
    assert stood > 20


def test_an_arm_that_nobody_knows_does_not_give_way() -> None:
    """Its estimate is 0: what is unknown of it is counted as a hope."""
    world = Clicks(1)
    agent = Gated(explorer=LinUCB(scale=1.0), gate=CHEAP, confidence=CLICKS).start(world.log, rng=2)
    run = agent.running.state.run
    run["foreseen"], run["foreseen_own"], run["foreseen_practice"] = 50, 0.6, 0.4
    known = world.rows[:1]
    inverse = np.linalg.inv(np.eye(3) * 3 / 16 + world.rows.T @ world.rows)
    rare = np.linalg.eigh(inverse)[1][:, -1:].T * 3.0
    decision = agent.decide(actions=np.vstack([known, rare, -rare]), practice=0)
    assert decision.proposal > 0 and not gave_way(decision)


def test_units_of_rewards_change_no_decision() -> None:
    """Rewards in [0, 1], and a thousand times as large."""
    played = []
    for unit in (1.0, 1000.0):
        world = Clicks(1)
        confidence = Confidence(noise="bounded", reward_range=(0, unit), bound=2.0 * unit)
        policy = Gated(
            explorer=Greedy(), gate=Control(budget=30.0 * unit, share="cheap"), confidence=confidence
        )
        agent = policy.start(Moments.from_rows(world.rows, world.outcomes * unit), rng=2)
        ways = []
        for _ in range(120):
            decision = agent.decide(actions=world.arms(4), practice=world.rng.dirichlet(np.ones(4)))
            ways.append((decision.arm, gave_way(decision), decision.control_share or 0.0))
            agent.update(decision, unit * world.reward(decision))
        played.append(np.array(ways))
    np.testing.assert_allclose(played[0], played[1], atol=1e-6)
    assert played[0][:, 1].sum() > 3


@pytest.mark.parametrize("explorer", [RandUCB(), SquareCB(), LinUCB(), LinTS()])
def test_a_question_about_bounds_leaves_propensities_as_they_were(explorer: Any) -> None:
    """Also of a restored agent, which has to look at the arms again."""
    policy, coins = Gated(explorer=explorer, gate=CHEAP, confidence=CLICKS), 0
    for asked, decision, before in rounds_of(policy, 60):
        again = restore(before)
        wanted = shares_of_arms(again, asked, again.decide(**asked))
        restored = restore(again.snapshot())
        same = restored.decide(**asked)
        assert restored.bounds(same) == again.bounds(decision)
        for agent in (again, restored):
            assert shares_of_arms(agent, asked, decision) == wanted
        coins += decision.control_share is not None
    assert coins > 10


@pytest.mark.parametrize("explorer", [RandUCB(), SquareCB(), LinUCB(), LinTS()])
def test_what_is_learnt_while_a_coin_stands_changes_no_propensity(explorer: Any) -> None:
    """Nobody can say what other draws, or arms looked at again, would have been: then there is none."""
    policy, world, waiting, unknown = (
        Gated(explorer=explorer, gate=CHEAP, confidence=CLICKS),
        Clicks(1),
        [],
        0,
    )
    agent = policy.start(world.log, rng=2)
    for _ in range(60):
        asked = {"actions": world.arms(4), "practice": world.rng.dirichlet(np.ones(4))}
        decision = agent.decide(**asked)
        wanted, restored = shares_of_arms(agent, asked, decision), restore(agent.snapshot())
        looked = restore(agent.snapshot())
        if len(waiting) > 2 and decision.control_share is not None:
            late = waiting.pop(0)
            for one in (agent, restored):
                one.observe(late, world.reward(late))
                found = shares_of_arms(one, asked, decision)
                assert found in (wanted, [None] * 4)
                unknown += found != wanted
            assert (found == wanted) or one.rule.needs_redraws or one is restored
            assert shares_of_arms(restore(restored.snapshot()), asked, decision) in (wanted, [None] * 4)
            looked.observe(late, 1.0)
            looked.bounds(looked.decide(**asked))  # which looks at the arms again
            assert shares_of_arms(looked, asked, decision) in (wanted, [None] * 4)
        agent.commit(decision)
        waiting.append(decision)
    assert (unknown > 0) == (not isinstance(explorer, SquareCB))


def shares_of_arms(agent: Agent, asked: dict[str, Any], decided: Decision) -> list[float | None]:
    """How likely each of four arms is."""
    return [agent.propensity(arm, decided=decided, redraws=30, rng=1, **asked) for arm in range(4)]


def test_a_draw_of_practice_that_stands_has_no_propensity_by_later_estimates() -> None:
    """Behind a gate without a coin: whom practice's arm was shown cannot ask anew."""
    stood, question = 0, {"actions": np.eye(4), "practice": [0.5, 0.5, 0.0, 0.0]}
    tight = Gated(
        explorer=LinUCB(),
        gate=Tolerance(budget=0.01, evidence="model"),
        fallback="mixture",
        confidence=CLICKS,
    )
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arms = rng.integers(2, size=2000)
        log = Moments.from_rows(np.eye(4)[arms], (rng.random(2000) < np.array([0.5, 0.6])[arms]) * 1.0)
        agent, waiting = tight.start(log, d=4, rng=seed), []
        for _ in range(20):
            decision = agent.decide(**question)
            if decision.source == "practice" and waiting:
                assert all(agent.propensity(arm, **question) is not None for arm in range(4))
                agent.observe(waiting.pop(), 1.0)
                assert agent.decide(**question).arm == decision.arm
                assert [agent.propensity(arm, **question) for arm in range(4)] == [None] * 4
                stood += 1
            agent.commit(decision)
            waiting.append(decision)
    assert stood > 10


def test_a_safe_play_stands_from_its_own_round_on() -> None:
    """What stood in an earlier round, and how much was known then, is over with its commit."""
    world, question = Clicks(1), {"actions": np.eye(4, 3), "practice": [0.5, 0.5, 0.0, 0.0]}
    gate = Tolerance(budget=50.0, evidence="model")
    agent = Gated(explorer=LinUCB(), gate=gate, fallback="mixture", confidence=CLICKS).start(world.log, rng=2)
    decision = agent.decide(**question)
    assert decision.mode == "explore"
    agent.driver.stood_at = 0  # as practice's draw would have left it
    agent.update(decision, 1.0)
    safe = agent.play_safe(agent.decide(**question))
    assert safe.mode == "safe" and agent.driver.standing is not None
    assert all(agent.propensity(arm, **question) is not None for arm in range(4))
    assert agent.decide(**question) == safe
