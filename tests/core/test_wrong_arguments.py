"""Wrong arguments of an agent that runs: one sentence that names them, and nothing has changed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Control, Gated, Guardrail, Offline
from linoto.client.operations import told

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
LOG = Offline(pulls=[60, 30, 10], reward_sums=[18.0, 12.0, 2.0])
COMPLAINTS = Guardrail("complaints", reward_range=(0, 1), budget=20)


def agent_of(**parts: Any) -> Any:
    return Gated(gate=Control(budget=20), confidence=CLICKS, **parts).start(np.eye(3), LOG, rng=0)


NO_NUMBERS = ["1", " 0.5 ", "nan", b"1", bytearray(b"1"), True, np.True_, np.array(True), np.array("1"), 1j]


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
