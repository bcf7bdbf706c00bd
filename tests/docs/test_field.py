"""The table of the field: what it says is called so here can be played, and is the published system."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.reference_conservative import ConservativeReference

import linoto
import linoto.research

PAGE = Path(__file__).parents[2] / "docs" / "field.md"
BASELINE = 1
GIVEN = {"mean=...": "mean=0.55", "shift=...": "shift=0.1", "alpha=...": "alpha=0.1"}
NAMES = {name: getattr(linoto, name) for name in linoto.__all__} | vars(linoto.research)
CLICKS = linoto.Confidence(noise=0.3, reward_range=(0.0, 1.0), bound=2.0)


def rows() -> list[tuple[str, str]]:
    """(system, expression) of every policy in the table."""
    table = PAGE.read_text().partition("| system | here |")[2].partition("\n\n")[0]
    lines = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return [(system.strip(), code) for system, here in lines for code in re.findall("`([^`]+)`", here)]


def policy_of(code: str) -> Any:
    """What an expression of the table says, with numbers for what it leaves open."""
    for left_open, number in GIVEN.items():
        code = code.replace(left_open, number)
    return eval(code, NAMES | {"arm": BASELINE, "n": 100})


def world(one_hot: bool) -> tuple[linoto.Bandit, linoto.Offline]:
    """Six arms with means in [0, 1], three of which were logged."""
    rng = np.random.default_rng(4)
    actions = np.eye(6) if one_hot else np.column_stack([np.ones(6), rng.uniform(-0.7, 0.7, (6, 2))])
    means = actions @ (rng.uniform(0.2, 0.6, 6) if one_hot else np.array([0.5, 0.3, -0.3]))
    bandit = linoto.Bandit(actions=actions, means=means, noise=0.3)
    return bandit, bandit.log([8, 5, 2, 0, 0, 0], rng)


@pytest.mark.parametrize(("system", "code"), rows())
def test_every_row_of_the_field_can_be_played_as_it_is_written(system: str, code: str) -> None:
    policy = policy_of(code)
    if isinstance(policy, linoto.Gated):
        policy = replace(policy, confidence=CLICKS)
    bandit, log = world(one_hot=getattr(policy, "needs_one_hot", False))
    if isinstance(policy, linoto.LogisticTS):
        bandit, log = replace(bandit, rewards="bernoulli"), linoto.Offline.empty(6)
    run = linoto.simulate(policy, bandit, log, horizon=20)
    assert run.arms.size == 20


@pytest.mark.parametrize("system", ["CLUCB", "CLUCB2"])
def test_clucb_as_it_is_written_plays_the_published_arm_in_every_round(system: str) -> None:
    """The optimistic arm if what is proven is enough for it, and the baseline otherwise."""
    bandit, log = world(one_hot=False)
    policy = replace(policy_of(dict(rows())[system]), confidence=CLICKS)
    gate = policy.gate
    agent = policy.start(bandit.actions, log)
    oracle = ConservativeReference(bandit.actions, log, CLICKS, gate.alpha, gate.mean, gate.form, BASELINE)
    rng, played = np.random.default_rng(5), set[bool]()
    for _ in range(80):
        favourite = int(np.argmax([optimistic(oracle, arm) for arm in range(6)]))
        arm = favourite if oracle.room(favourite) > 0 else BASELINE
        decision = agent.decide()
        assert decision.arm == arm
        reward = float(bandit.means[arm] + 0.3 * rng.standard_normal())
        agent.update(decision, reward)
        oracle.played.append((arm, arm == BASELINE, reward))
        played.add(arm == favourite)
    assert played == {True, False}


def optimistic(oracle: ConservativeReference, arm: int) -> float:
    """<theta, a> + (r + sqrt(ridge) B) |a| in V^-1: all of the radius, as of LinUCB."""
    return oracle.lower(oracle.actions[arm], sign=-1.0, arm=arm)
