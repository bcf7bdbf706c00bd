"""Wrong arguments of an agent that runs: one sentence that names them, and nothing has changed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Control, Gated, Guardrail, LinTS, LinUCB, Numeric, Offline, Recipe
from linoto.client.operations import told

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
LOG = Offline(pulls=[60, 30, 10], reward_sums=[18.0, 12.0, 2.0])
COMPLAINTS = Guardrail("complaints", reward_range=(0, 1), budget=20)
RECIPE = Recipe(items=("A", "B", "C"), context=(Numeric(name="age"),), crosses=(("item", "age"),))


def agent_of(**parts: Any) -> Any:
    return Gated(gate=Control(budget=20), confidence=CLICKS, **parts).start(np.eye(3), LOG, rng=0)


NO_NUMBERS = ["1", " 0.5 ", "nan", b"1", bytearray(b"1"), np.array("1"), 1j]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_a_reward_is_a_number_as_the_value_of_a_metric_is(value: Any) -> None:
    agent = agent_of(guardrails=[COMPLAINTS])
    decision = agent.decide()
    before = agent.snapshot()
    for reward, metric, name in ((value, 0.0, "reward"), (1.0, value, "complaints")):
        with pytest.raises(ValueError, match=f"^{name} must be a number, got "):
            agent.update(decision, reward, metrics={"complaints": metric})
    assert agent.snapshot() == before
    if not isinstance(value, np.ndarray):  # which a client does without
        with pytest.raises(ValueError, match=r"^reward must be a finite number, got "):
            told(value)


@pytest.mark.parametrize(
    "value", [1, 0.5, np.float32(0.5), np.int8(1), np.array(0.5), Decimal("0.5")], ids=repr
)
def test_numbers_of_every_kind_are_rewards(value: Any) -> None:
    agent = agent_of(guardrails=[COMPLAINTS])
    agent.update(agent.decide(), value, metrics={"complaints": value})
    assert agent.rewards == 1 and told(value)["reward"] == float(value)


def test_look_is_called_or_nothing_is_decided() -> None:
    agent = agent_of()
    with pytest.raises(ValueError, match=r"^look must be a function of a decision, got 3$"):
        agent.decide_many(2, look=3)
    assert agent.rounds == 0


def test_a_decision_of_another_round_says_nothing_about_this_one() -> None:
    agent = agent_of(explorer=LinUCB())
    old = agent.decide_many(1)[0]
    decision = agent.decide()
    assert agent.propensity(decision.arm, decided=decision) == agent.propensity(decision.arm)
    with pytest.raises(ValueError, match=r"^decided must be of round 2, got a decision of round 1$"):
        agent.propensity(0, decided=old)
    with pytest.raises(ValueError, match=r"^decided must be what decide or guard just returned, got 3$"):
        agent.propensity(0, decided=3)


def test_what_was_decided_is_known_in_every_epoch() -> None:
    policy = Gated(explorer=LinUCB(), gate=Control(budget=20), confidence=CLICKS)
    agent = linoto.Doubling(policy=policy).start(np.eye(3), LOG, rng=0)
    for _ in range(6):
        decision = agent.decide()
        assert agent.propensity(decision.arm, decided=decision) == agent.propensity(decision.arm)
        agent.update(decision, 1.0)
    with pytest.raises(ValueError, match="must be of round 7, got one of round 6"):
        agent.propensity(0, decided=decision)


def test_so_many_redraws_as_memory_is_meant_for() -> None:
    agent = agent_of(explorer=LinTS())
    with pytest.raises(
        ValueError, match=r"^redraws must be at most 6,666,666 with 3 features, got 1,000,000,000"
    ):
        agent.propensity(0, redraws=10**9)
    assert agent.propensity(0, redraws=1000) is not None


def test_a_row_of_a_data_frame_is_a_context() -> None:
    pd = pytest.importorskip("pandas")
    agent = LinUCB().start(None, features=RECIPE, rng=0)
    row = pd.DataFrame({"age": [30.0, 50.0]}).iloc[1]
    assert agent.decide(context=row) == agent.decide(context={"age": 50.0})
    for odd in (pd.DataFrame({"age": [30.0]}), [30.0], "age", np.array([30.0])):
        with pytest.raises(
            ValueError, match=f"^context must be a mapping of fields, got {type(odd).__name__}$"
        ):
            agent.decide(context=odd)


def test_practice_may_be_weights_by_name() -> None:
    agent = Gated(gate=Control(budget=20), confidence=CLICKS).start(None, features=RECIPE, rng=0)
    context = {"age": 1.0}
    named = agent.decide(context=context, practice={"B": 0.25, "A": 0.75})
    assert named == agent.decide(context=context, practice=[0.75, 0.25, 0.0])
    again = Gated(gate=Control(budget=20), confidence=CLICKS).start(None, features=RECIPE, rng=0)
    some = again.decide(["C", "B"], context=context, practice={"B": 1})
    assert some == again.decide(["C", "B"], context=context, practice="B")
    for practice, message in (
        ({"Z": 1.0}, "practice must be of arms of this round, got 'Z'"),
        ({"A": 1.0}, "practice must be of arms of this round, got 'A'"),
        ({"B": 0.5}, r"practice must have weights >= 0 that sum to 1, got a sum of 0.5"),
        ({"B": "1"}, "practice must have a number for 'B', got '1'"),
        ({"B": np.nan}, "practice must be finite, got nan"),
        ({}, r"practice must have weights >= 0 that sum to 1, got a sum of 0"),
    ):
        with pytest.raises(ValueError, match=message):
            again.guard(0, ["C", "B"], context=context, practice=practice)
    bare = Gated(gate=Control(budget=20), confidence=CLICKS).start(None, d=3, rng=0)
    with pytest.raises(
        ValueError, match="practice must be an arm or 3 weights where arms have no names, got a map"
    ):
        bare.decide(actions=np.eye(3), practice={"A": 1.0})


@pytest.mark.parametrize("clicked", [True, np.True_, np.array(True)], ids=repr)
def test_whether_somebody_clicked_is_a_reward_and_no_value_of_a_metric(clicked: Any) -> None:
    agent = agent_of(guardrails=[COMPLAINTS])
    decision = agent.decide()
    with pytest.raises(ValueError, match=r"^complaints must be a number, got "):
        agent.update(decision, 1.0, metrics={"complaints": clicked})
    agent.update(decision, clicked, metrics={"complaints": 0.0})
    assert agent.rewards == 1
    assert isinstance(clicked, np.ndarray) or told(clicked)["reward"] == 1.0
