"""How likely an arm is, for all arms at once: what the plain sums say, and one pass over the arms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from linoto import Confidence, Gated, Moments, Random, SquareCB, Tolerance
from linoto.core.explorers import Odds, Rule, all_shares, certain, share_of, stated, uniform
from linoto.core.odds import mixed

CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
ASKED: list[int] = []  # of how many arms each time


def random_odds(rng: np.random.Generator, k: int, **changes: Any) -> Odds:
    """Some arms allowed, some of them affordable, and an explorer that may propose any."""
    allowed = rng.random(k) < 0.8
    allowed[0] = True
    affordable = allowed & (rng.random(k) < 0.5)
    affordable[0] = True
    found = Odds(
        played=0,
        fallback=int(rng.choice(np.flatnonzero(allowed))),
        allowed=allowed,
        affordable=affordable,
        best_affordable=bool(rng.random() < 0.5),
        chances=rng.random(k) * allowed,
        redrawn=None,
    )
    return replace(found, **changes)


def plainly(odds: Odds, arm: int) -> float:
    """The chance of one arm, proposal by proposal."""
    total, found = 0.0, 0.0
    for proposal, chance in enumerate(odds.chances.tolist()):
        if odds.affordable[proposal]:
            total, found = total + chance, found + chance * (proposal == arm)
        elif not odds.best_affordable and odds.fallback is not None:
            total, found = total + chance, found + chance * (odds.fallback == arm)
    return found / total


@pytest.mark.parametrize("seed", range(20))
def test_the_chances_of_all_arms_are_those_of_each_proposal_by_proposal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    odds, k = random_odds(rng, 30), 30
    wanted = [plainly(odds, arm) for arm in range(k)]
    assert all_shares(stated(odds), k) == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    assert [share_of(stated(odds), arm) for arm in range(k)] == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    alike = replace(odds, chances=odds.allowed * 1.0)
    assert all_shares(uniform(odds), k) == pytest.approx([plainly(alike, arm) for arm in range(k)])
    nothing_drawn = replace(odds, chances=np.zeros(k))
    for sure in (certain(odds), stated(nothing_drawn)):
        assert all_shares(sure, k).tolist() == [1.0, *[0.0] * (k - 1)]


@pytest.mark.parametrize("seed", range(20))
def test_practice_in_the_place_of_refused_proposals_is_the_plain_double_sum(seed: int) -> None:
    rng, k = np.random.default_rng(seed), 25
    odds = random_odds(rng, k, best_affordable=True)
    odds, offered = replace(odds, affordable=odds.allowed), odds.affordable
    practice = rng.dirichlet(np.ones(k))
    shares = all_shares(stated(odds), k)
    for arm in range(k):
        wanted = sum(
            plainly(odds, proposal) * (float(proposal == arm) if offered[proposal] else practice[arm])
            for proposal in range(k)
        )
        assert mixed(shares, offered, arm, practice[arm]) == pytest.approx(wanted, rel=1e-12)


def counting(odds: Odds) -> Any:
    ASKED.append(odds.allowed.size)
    return uniform(odds)


@dataclass(frozen=True, kw_only=True)
class Counted(Random):
    """A random explorer that notes when it is asked how likely its proposals are."""

    rule: ClassVar[Rule] = Random.rule._replace(propensity=counting)


@pytest.mark.parametrize("reach", ["proposal", "affordable"])
def test_an_explorer_says_once_how_likely_all_arms_are_where_practice_is_mixed_in(reach: Any) -> None:
    """Not once for each arm, each time with a sum over all of them."""
    rng, k = np.random.default_rng(0), 40
    gate = Tolerance(budget=2.0, evidence="model")
    log = Moments.from_rows(rng.standard_normal((200, 3)) / 2, rng.integers(0, 2, 200).astype(float))
    asked = {"actions": rng.standard_normal((k, 3)) / 2, "practice": rng.dirichlet(np.ones(k))}
    for explorer in (Counted(), SquareCB()):
        agent = Gated(explorer=explorer, gate=gate, reach=reach, confidence=CLICKS).start(log, rng=0)
        agent.decide(**asked)
        ASKED.clear()
        chances = [agent.propensity(arm, **asked) or 0.0 for arm in range(k)]
        assert sum(chances) == pytest.approx(1.0)
        assert [k] * k == ASKED or not isinstance(explorer, Counted)
