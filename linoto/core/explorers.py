"""Explorers: what would we try? Each has a rule: how it scores, what it draws, how likely its choice was.

An explorer of your own is any object with `score(view) -> (k,)` or `propose(view) -> arm`. It is played
through the same gate as ours, so the promise is the same: no proof uses how the explored arm was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import log
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats
from linoto.core.kernels import State
from linoto.core.validation import as_arm, as_floats, as_generator

FEW = 10  # times that an arm must come again for a share of draws to be believed
TIMES = 4, 16, 64  # so many times the draws that were asked for are made until it does
FADED = 0.9  # how little rewards weigh after one step of a discount, against before


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What an explorer of your own sees before each decision: copies, nothing it does changes the agent."""

    actions: Floats  # (k, d)
    mean: Floats  # (k,) the estimate of each mean reward
    width: Floats  # (k,) |a| in V^-1: how little is known of each arm
    lcb: Floats  # (k,) the best lower bound so far
    ucb: Floats  # (k,) the current upper bound
    counts: Floats  # (k,) rewards seen, logged and online
    reward_sums: Floats  # (k,) their sums
    allowed: Bools  # (k,) the arms that may be played in this round
    round: int
    noise: float  # the sub-Gaussian scale
    rng: np.random.Generator  # the same numbers until something is committed


@runtime_checkable
class Scorer(Protocol):
    """An explorer that gives every arm a score; the gate keeps the affordable ones, the best is played."""

    def score(self, view: View) -> npt.ArrayLike: ...


@runtime_checkable
class Proposer(Protocol):
    """An explorer that names one arm; it is played if the gate accepts it, otherwise the fallback is."""

    def propose(self, view: View) -> int: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Odds:
    """A decision, and what else its explorer could have drawn in its place."""

    played: int
    fallback: int | None
    allowed: Bools  # (k,)
    affordable: Bools  # (k,) of the allowed arms
    best_affordable: bool  # False: only the explorer's favourite is asked about
    chances: Floats  # (k,) of each to be proposed, by an explorer that states them
    redrawn: Callable[[int], Sequence[int]] | None  # the arms of fresh draws, so many times those that were
    # asked for, or as many as there is time for; None where none were asked for


Shares: TypeAlias = "Floats | dict[int, float]"  # of every arm, or of those whose share is not 0


def share_of(shares: Shares | None, arm: int) -> float | None:
    """The share of one arm; None where nobody knows any."""
    if shares is None:
        return None
    return shares.get(arm, 0.0) if isinstance(shares, dict) else float(shares[arm])


def all_shares(shares: Shares, k: int) -> Floats:
    """(k,) the share of each arm."""
    if not isinstance(shares, dict):
        return shares
    found = np.zeros(k)
    found[list(shares)] = list(shares.values())
    return found


def certain(odds: Odds) -> Shares:
    """A deterministic explorer plays what it played."""
    return {odds.played: 1.0}


def stated(odds: Odds) -> Shares:
    """Exact: the chance of each proposal, and for the fallback also of all those that the gate refuses."""
    if not odds.chances.any():  # the caller has proposed
        return certain(odds)
    served = odds.chances * odds.affordable
    if odds.best_affordable or odds.fallback is None:  # without a fallback, refusals are not served
        return np.asarray(served / served.sum())
    served[odds.fallback] += odds.chances[~odds.affordable].sum()
    return np.asarray(served / odds.chances.sum())


def uniform(odds: Odds) -> Shares:
    """The same where every allowed arm is as likely."""
    return stated(replace(odds, chances=odds.allowed.astype(np.float64)))


def by_redrawing(odds: Odds) -> Shares | None:
    """The share of fresh draws, and of the one that decided, in which each arm is played."""
    return None if odds.redrawn is None else shares_of(odds.played, odds.redrawn)


def shares_of(played: int, redrawn: Callable[[int], Sequence[int]]) -> dict[int, float]:
    """The share of every arm in fresh draws and the one that decided.

    If the arm that was played seldom comes again, it is FEW by how many draws that takes: a share of so few
    draws would be too large. The others share what is left. Of all draws the mean of 1 / propensity of what
    is played is 1 / chance, but for chances that all the draws together do not reach (docs/evaluation.md).
    """
    fresh = redrawn(1)
    counts = Counter(fresh)
    for times in TIMES if counts[played] < FEW else ():
        fresh = redrawn(times)
        counts = Counter(fresh)
        if counts[played] >= FEW:
            places = (place for place, arm in enumerate(fresh, 1) if arm == played)
            chance = FEW / next(islice(places, FEW - 1, None))
            rest = (1.0 - chance) / max(len(fresh) - counts[played], 1)
            return {arm: rest * count for arm, count in counts.items()} | {played: chance}
    counts[played] += 1
    return {arm: count / (len(fresh) + 1) for arm, count in counts.items()}


def unknown(odds: Odds) -> None:
    """Nobody said how an explorer of the caller's own draws: no number is better than a wrong one."""
    return None


class Rule(NamedTuple):
    """What an explorer tells the kernels, and the log, about itself."""

    code: int  # its branch in the kernels' `score_arms`
    draws: int = kernels.NO_DRAWS
    keeps_factor: bool = False  # whether its branch reads R, V = R'R
    propensity: Callable[[Odds], Shares | None] = certain  # of all arms at once: some are added up
    one_hot: bool = False  # whether it needs arms that share no feature
    by_arm: bool = False  # whether it scores an arm by its own rewards alone: the arms must stay the same
    bounded: bool = False  # whether it needs rewards in a known range
    keeps_scores: bool = False  # whether it scores in some rounds only: the arms must stay the same
    reads_bounds: bool = False  # whether it scores by the bounds of the confidence, as they are in each round
    by_estimate: bool = False  # whether it scores by the linear estimate and what is left of it to learn
    gives_way: bool = False  # whether it may leave practice the rounds in which it hopes for little: what it
    # plays is what it believes in, not a draw that every arm is owed
    looks_at_all: bool = False  # whether its propensities take a look at every arm where a decision does not

    @property
    def deterministic(self) -> bool:
        """Whether it always plays what it played, so that its propensity is 1 without asking."""
        return self.propensity is certain

    @property
    def needs_redraws(self) -> bool:
        """Whether a propensity takes fresh draws, which cost a decision each."""
        return self.propensity is by_redrawing

    @property
    def states_chances(self) -> bool:
        """Whether its branch writes how likely each proposal was."""
        return self.propensity is stated


OWN = Rule(code=kernels.GIVEN, draws=kernels.NORMAL_DRAWS, propensity=unknown, reads_bounds=True)
OWN_DETERMINISTIC = OWN._replace(propensity=certain)


def has_rule(explorer: object) -> bool:
    """Whether this is an explorer that the kernels know."""
    return isinstance(getattr(type(explorer), "rule", None), Rule)


def forgetting_of(explorer: object) -> tuple[int, float]:
    """After how many rewards it forgets (0: never), and what all of them weigh from then on.

    With a discount they fade in steps of a tenth at most. An explorer of your own forgets by itself, if at
    all: its attributes are not read.
    """
    if not has_rule(explorer):
        return 0, 0.0
    discount = getattr(explorer, "discount", None) or 1.0
    if discount == 1.0:
        return getattr(explorer, "memory", None) or 0, 0.0
    every = max(int(log(FADED) / log(discount)), 1)
    return every, discount**every


def is_users_own(explorer: object) -> bool:
    """Whether this is an explorer that somebody else wrote."""
    return (
        not has_rule(explorer) and not isinstance(explorer, type) and isinstance(explorer, Scorer | Proposer)
    )


def is_proposer(explorer: object) -> TypeGuard[Proposer]:
    """`isinstance` of a protocol looks at every attribute: too slow to be asked in each round."""
    return hasattr(explorer, "propose")


def ask_own(explorer: Scorer | Proposer, view: View, scores: Floats) -> int:
    """The arm that an explorer of the caller's own proposes, or -1 once its scores are filled in."""
    if is_proposer(explorer):
        return as_arm(explorer.propose(view), scores.size, "what explorer.propose returns")
    given = as_floats("what explorer.score returns", cast("Scorer", explorer).score(view), ndim=1)
    if given.size != scores.size:
        raise ValueError(f"what explorer.score returns must have {scores.size} entries, got {given.size}")
    scores[:] = given
    return -1


def redraws_for(rng: Any, state: State) -> np.random.Generator:
    """Where fresh draws of an explorer come from; where nobody says, they are the same until a commit."""
    if rng is not None:
        return as_generator(rng)
    return np.random.default_rng(np.append(state.vectors[kernels.NORMALS].view(np.uint64), np.uint64(1)))


def rule_of(explorer: object) -> Rule:
    """The rule of an explorer; one of your own is random unless it says `deterministic = True`."""
    rule = getattr(type(explorer), "rule", None)
    if isinstance(rule, Rule):
        return rule
    return OWN_DETERMINISTIC if getattr(explorer, "deterministic", False) is True else OWN
