"""A running agent as a target: a copy is asked, with draws of its own; it goes on as if nobody had asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from linoto import (
    Category,
    Confidence,
    Control,
    Doubling,
    Gated,
    LinTS,
    LinUCB,
    Log,
    Offline,
    Random,
    Recipe,
    Rows,
    Tolerance,
    evaluate,
    read_log,
)
from linoto.logs.targets import as_plays

ITEMS, COUNTRIES = ("A", "B", "C"), ("DE", "NO")
RECIPE = Recipe(
    items=ITEMS, context=(Category(name="country", levels=COUNTRIES),), crosses=(("item", "country"),)
)
CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
COIN = Gated(explorer=Random(), gate=Control(budget=200.0), confidence=CLICKS)
LOG = Offline(pulls=[300, 400, 300], reward_sums=[60.0, 120.0, 90.0])
ROWS = 4_000


def rows(**other: Any) -> Rows:
    rng = np.random.default_rng(0)
    arms = rng.integers(3, size=ROWS)
    rewards = (rng.random(ROWS) < np.array([0.2, 0.3, 0.4])[arms]).astype(float)
    return Rows(arms=arms, rewards=rewards, k=3, names=ITEMS, propensities="uniform", **other)


def in_contexts() -> Rows:
    countries = np.random.default_rng(1).integers(2, size=ROWS)
    return rows(recipe=RECIPE, context={"country": np.array(COUNTRIES)[countries]})


@pytest.mark.parametrize("policy", [COIN, LinTS(scale=3.0)], ids=["a coin", "Thompson"])
def test_an_agent_that_draws_is_judged_by_how_often_it_plays_each_arm(policy: Any) -> None:
    """Shares of 4,000 rows are within 4.5 deviations: one run in 20,000 fails by chance, for three arms."""
    agent = policy.start(np.eye(3), LOG, rng=0)
    shares = [as_plays(agent, rows(), "a test").share_of(np.arange(3) == arm) for arm in range(3)]
    expected = [agent.propensity(arm, redraws=20_000, rng=3) for arm in range(3)]
    assert min(expected) > 0.01
    assert shares == pytest.approx(expected, abs=4.5 * np.sqrt(0.25 / ROWS + 0.25 / 20_000))


@pytest.mark.parametrize("policy", [COIN, Doubling(policy=COIN)], ids=["one", "by epochs"])
@pytest.mark.few(2)
def test_nothing_changes_for_an_agent_that_is_judged(policy: Any) -> None:
    agent = policy.start(np.eye(3), LOG, rng=1)
    before = agent.snapshot()
    evaluate(rows(), agent, methods=["snips"])
    assert agent.snapshot() == before
    assert agent.play_safe(agent.decide(safe=True)).mode == "safe"  # refused once the coin is thrown


@pytest.mark.parametrize("gate", [Control(budget=200.0), Tolerance(budget=20.0, evidence="model")])
def test_with_contexts_it_is_told_what_is_done_today(gate: Any) -> None:
    agent = Gated(gate=gate, confidence=CLICKS).start(d=RECIPE.d, features=RECIPE, rng=0)
    before = agent.snapshot()
    with pytest.raises(ValueError, match="practice must be given"):
        evaluate(in_contexts(), agent)
    found = evaluate(in_contexts(), agent, practice={"A": 1.0, "B": 3.0}, seed=1)
    assert found == evaluate(in_contexts(), agent, practice={"A": 1.0, "B": 3.0}, seed=1)
    assert 0.2 < found[0].value < 0.4
    assert agent.snapshot() == before
    with pytest.raises(ValueError, match="practice must be weights of the arms of the rows, got 'D'"):
        evaluate(in_contexts(), agent, practice={"D": 1.0})


def test_what_it_plays_without_contexts_is_its_own_log() -> None:
    agent = COIN.start(np.eye(3), LOG, rng=0)
    with pytest.raises(ValueError, match="practice must be None for rows without contexts"):
        evaluate(rows(), agent, practice={"A": 1.0})


def test_an_agent_with_other_arms_is_judged_by_their_names() -> None:
    """Of a log without its first arm, the index of another one was taken for it."""
    played = {"arm": np.repeat([*ITEMS], 200), "r": np.repeat([0.2, 0.3, 0.4], 200)}
    some = {name: values[played["arm"] != "A"] for name, values in played.items()}
    first, fewer = (read_log(pa.table(table), item="arm", reward="r") for table in (played, some))
    offered = np.ones((ROWS, 3), dtype=bool)
    offered[::2, 2] = rows().arms[::2] == 2
    for given in (rows(), rows(candidates=offered)):
        agents = [LinUCB().start(log, rng=0) for log in (first, fewer)]
        wanted, found = (as_plays(agent, given, "a test").arms for agent in agents)
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="target must play one of the 2 arms of the rows, got 'C'"):
        kept = rows().take(rows().arms < 2)
        evaluate(replace(kept, k=2, names=ITEMS[:2]), agents[0])
    unnamed = LinUCB().start(np.eye(2), Offline(pulls=[3, 3], reward_sums=[1.0, 1.0]), rng=0)
    with pytest.raises(ValueError, match="target must have the 3 arms of the rows, got an agent of 2 whose"):
        evaluate(rows(), unnamed)


def test_an_agent_whose_round_is_decided_is_refused() -> None:
    agent = COIN.start(np.eye(3), LOG, rng=0)
    while agent.decide().control_share is None:
        agent.update(agent.decide(), 0.0)
    with pytest.raises(ValueError, match="target must be between two rounds"):
        evaluate(rows(), agent)


def test_a_log_is_shown_in_one_line() -> None:
    table = pa.table({"arm": ["a", "b", "a"], "r": [0.0, 1.0, 0.5]})
    log = read_log(table, item="arm", reward="r")
    assert isinstance(log, Log)
    assert repr(log) == "<log of 3 rows: 2 arms, rewards from 0 to 1 with a mean of 0.5>"
