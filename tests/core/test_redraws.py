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
from linoto.core.explorers import Odds, by_redrawing, share_of

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


def stated(chance: float, rng: np.random.Generator) -> float:
    """What is said of an arm that was played and has this chance, with a hundred redraws."""
    fresh: list[int] = []

    def redrawn(times: int) -> list[int]:
        fresh.extend((rng.random(max(100 * times - len(fresh), 0)) < chance).astype(int).tolist())
        return fresh[: 100 * times]

    every = np.ones(2, dtype=bool)
    odds = Odds(
        played=1,
        fallback=None,
        allowed=every,
        affordable=every,
        best_affordable=True,
        chances=np.zeros(2),
        redrawn=redrawn,
    )
    return share_of(by_redrawing(odds), 1) or 0.0


@pytest.mark.parametrize("chance", [0.001, 0.005, 0.02, 0.1, 0.5])
def test_weights_by_what_is_stated_have_the_right_mean(chance: float) -> None:
    """Also of arms that come more seldom than redraws are made, where a share of them would be too large.

    A mean of 3,000 weights is five standard errors away in fewer than one of a million such tests.
    """
    rng = np.random.default_rng(7)
    weights = np.array([1.0 / stated(chance, rng) for _ in range(3000)])
    reached = 1.0 - (1.0 - chance) ** 6401  # what all the draws leave out
    error = 5 * weights.std() / np.sqrt(weights.size)
    assert abs(weights.mean() - reached / chance) < error
    assert error < 0.06 / chance


def test_a_rare_arm_has_its_own_propensity() -> None:
    """Its chance is .0027, of which a hundred redraws with the one that decided say .01 at the least."""
    log = Offline(pulls=[400, 400, 400], reward_sums=[240.0, 230.0, 215.0])
    policy = Gated(explorer=LinTS(), gate=Open(), confidence=CLICKS)
    agents = (policy.start(np.eye(3), log, rng=seed) for seed in range(20_000))
    agent = next(each for each in agents if each.decide().arm == 2)
    many = np.random.default_rng(0).standard_normal((200_000, 3))
    chance = agent.driver.redrawn(None, "arm", many).count(2) / len(many)
    found = [agent.propensity(2, rng=seed) for seed in range(200)]
    assert 0.002 < chance < 0.0035
    assert np.mean(1.0 / np.array(found)) == pytest.approx(1.0 / chance, rel=0.15)
    assert sum(agent.propensity(arm, rng=5) for arm in range(3)) == pytest.approx(1.0)


def test_the_share_of_redraws_is_said_where_there_are_enough() -> None:
    agent, asked = fixed_arms(POLICIES["open"])
    arm, other = agent.decide(**asked).arm, 4
    assert arm != other
    draws = np.random.default_rng(5).standard_normal((100, 3))
    fresh = agent.driver.redrawn(agent.driver.question(**asked), "arm", draws)
    assert fresh.count(arm) > 10
    assert agent.propensity(arm, rng=5, **asked) == (fresh.count(arm) + 1) / 101
    assert agent.propensity(other, rng=5, **asked) == fresh.count(other) / 101
