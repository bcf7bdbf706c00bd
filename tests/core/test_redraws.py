"""Fresh draws of an explorer, together and each alone: a propensity does not depend on how they are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import (
    Category,
    Confidence,
    Control,
    Gated,
    LinTS,
    LogisticTS,
    Moments,
    Numeric,
    Offline,
    Open,
    Recipe,
    Tolerance,
)
from linoto.core import kernels

CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
MOVED = Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0, shift=0.01)
POLICIES: dict[str, Any] = {
    "open": Gated(explorer=LinTS(), gate=Open(), confidence=CLICKS),
    "coin": Gated(explorer=LinTS(), gate=Control(budget=4.0), confidence=CLICKS),
    "tolerance, affordable": Gated(
        explorer=LinTS(), gate=Tolerance(budget=8.0, evidence="model"), reach="affordable", confidence=CLICKS
    ),
    "tolerance, proposal": Gated(
        explorer=LinTS(), gate=Tolerance(budget=8.0, evidence="model"), reach="proposal", confidence=CLICKS
    ),
    "a log that may have moved": Gated(
        explorer=LinTS(), gate=Tolerance(budget=8.0, evidence="model"), confidence=MOVED
    ),
    "clicks": Gated(explorer=LogisticTS(), gate=Open(), confidence=CLICKS),
}


def fixed_arms(policy: Any) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(3)
    log = Offline(pulls=[30, 20, 0, 0, 5], reward_sums=[15.0, 8.0, 0.0, 0.0, 3.0])
    return policy.start(rng.standard_normal((5, 3)) / 2, log, rng=0), {"allowed": [0, 2, 3, 4]}


def in_rounds(policy: Any) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(8)
    log = Moments.from_rows(rng.standard_normal((12, 3)) / 2, rng.integers(0, 2, 12).astype(float))
    asked = {"actions": rng.standard_normal((4, 3)) / 2, "practice": [0.1, 0.2, 0.3, 0.4]}
    return policy.start(log, rng=0), asked


def with_a_recipe(policy: Any) -> tuple[Any, dict[str, Any]]:
    """Features of each item and some that all share: V has a border."""
    recipe = Recipe(
        items=("a", "b", "c", "d"),
        context=(Numeric(name="age"), Category(name="country", levels=("DE", "NO"))),
        crosses=(("item", "age"),),
    )
    return policy.start(None, features=recipe, rng=0), {
        "context": {"age": 0.7, "country": "NO"},
        "practice": "b",
    }


@pytest.mark.parametrize("make", [fixed_arms, in_rounds, with_a_recipe])
@pytest.mark.parametrize("name", POLICIES)
def test_draws_that_are_made_together_choose_what_each_of_them_would_alone(name: str, make: Any) -> None:
    """One by one each of them decides the whole round; the state is as it was afterwards."""
    agent, asked = make(POLICIES[name])
    for reward in (1.0, 0.0, 1.0, 1.0):
        agent.update(agent.decide(**asked), reward)
    driver = agent.driver
    question, before = driver.question(**asked), agent.snapshot()
    draws = np.random.default_rng(1).standard_normal((200, agent.d))
    for chosen in ("proposal",) if agent.gate.throws_coin else ("proposal", "arm"):
        driver.peek(None, question)
        alone = [arm for row in draws for arm in driver.redrawn(question, chosen, row[None])]
        assert driver.redrawn(question, chosen, draws) == alone
        assert len(set(alone)) > 1
    assert agent.snapshot() == before


@pytest.mark.parametrize("make", [fixed_arms, in_rounds, with_a_recipe])
def test_no_propensity_waits_for_the_compiler_once_an_agent_is_started(make: Any) -> None:
    agent, asked = make(POLICIES["coin"])
    compiled = set(kernels.redraw.signatures)  # type: ignore[attr-defined]
    agent.propensity(0, redraws=20, rng=3, **asked)
    assert compiled == set(kernels.redraw.signatures)  # type: ignore[attr-defined]
