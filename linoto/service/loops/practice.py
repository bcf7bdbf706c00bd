"""What practice would have earned in the rounds that a coin let the policy explore, as a range.

The coin of a `Control` gate plays practice in a known share of the rounds. What these earn bounds, by one
supermartingale (docs/control.md), the sum X of what practice would have earned in the explored rounds. With
every reward mirrored (-x for x) the same bets bound -X: two sides, each at half of the error, hold together
and at any time. The books are those of the gate, with the kernels of the gate, at another level.

The mirrored side is the watch as well. If practice would have earned at most what was earned, and epsilon
per round besides, -X is at least that much below 0, and the wealth of the mirrored bets there is at most the
supermartingale itself: above 1 / alarm_error it is an alarm. Rewards that are missing count at their worst
for each side, so it does not matter which come first. The wealth is also read at the last decision before the
oldest open one, where nothing is missing but what is lost: late rewards do not hide a loss. The range
is read in both places too, and the narrower one is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from struct import Struct as Packed
from typing import Any

import numpy as np
from msgspec import Struct, field

from linoto.core import coins, kernels
from linoto.core.arrays import Floats, Records
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision
from linoto.core.guardrail import Guardrail
from linoto.core.opening import bet_fractions
from linoto.service.loops.lift import LEVEL, Limits
from linoto.service.loops.log_sums import log_mean_exp
from linoto.service.loops.spec import LoopAgent

BOUND_LEVEL = log(2 * kernels.COIN_BETS / (1 - LEVEL))  # of either side: half of the error
MOST_STEPS, CLOSE = 60, 1e-12  # of Newton's method; six or so are enough
NUMBER, NUMBERS = Packed("=d"), Packed(f"={kernels.COIN_BETS}d")  # of a record, and where they are in it
RECORD: Any = kernels.RUN.fields
CENTRE, BOUND, BETS = (RECORD[name][1] for name in ("entry_centre", "upper_practice", "coin_bets"))
FRACTIONS = tuple(0.9 * 0.6**j for j in range(kernels.COIN_BETS))  # of the range, as in the kernels


class Side(Struct):
    """The bets of one side, and the bound that they have reached."""

    bound: float = 0.0
    bets: list[float] = field(default_factory=lambda: [0.0] * kernels.COIN_BETS)  # logarithms of wealth


class PracticeBooks(Struct):
    """What is kept of the rounds in which the coin was thrown."""

    explored: int = 0
    missing: int = 0  # explored rounds without a reward, whether it is to come or lost
    earned: float = 0.0  # by the others
    control: int = 0  # rewards of control rounds
    estimate: float = 0.0  # of what practice would have earned in the explored rounds
    above: Side = field(default_factory=Side)
    below: Side = field(default_factory=Side)  # mirrored


@dataclass(frozen=True, kw_only=True)
class PracticeTerms:
    """What the books need to know of a loop; made once."""

    limits: Limits  # of rewards, or of their means
    per_round: float  # that may be lost
    once: float | None  # and besides, in all; None: nothing is promised
    above: Records  # (1,) of kernels.PARAMS
    below: Records

    @classmethod
    def of(cls, agent: LoopAgent, c: Certificate) -> PracticeTerms | None:
        """Those of a loop whose gate throws a coin; None for any other."""
        limits = agent.confidence.reward_range
        if not agent.gate.throws_coin or limits is None:
            return None
        return cls.about(limits, agent.confidence, c.per_round or 0.0, c.constant if c.holds else None)

    @classmethod
    def of_guardrail(cls, rail: Guardrail, c: Certificate) -> PracticeTerms:
        """Those of a metric besides the reward."""
        bounded = Confidence(noise="bounded", reward_range=rail.limits)
        return cls.about(rail.limits, bounded, rail.rate, rail.budget if c.holds else None)

    @classmethod
    def about(
        cls, limits: Limits, confidence: Confidence, per_round: float, once: float | None
    ) -> PracticeTerms:
        """Those of a number within limits."""
        low, high = limits
        above, below = (params_of(confidence, end, high - low) for end in (low, -high))
        return cls(limits=limits, per_round=per_round, once=once, above=above, below=below)

    # -- entering

    def play(self, books: PracticeBooks, decision: Decision) -> None:
        """A round in which the coin was thrown; its reward is to come."""
        if decision.source == "explorer":
            books.explored += 1
            books.missing += 1
            books.estimate += decision.centre or 0.0
        self._enter(books, decision, None)

    def reward(self, books: PracticeBooks, decision: Decision, reward: float) -> None:
        """The reward of such a round; a lost one is never entered."""
        share, centre = decision.control_share, decision.centre
        if decision.source == "explorer":
            books.missing -= 1
            books.earned += reward
        elif share is not None and centre is not None:
            books.control += 1
            books.estimate += (1 - share) / share * (reward - centre)
        self._enter(books, decision, reward)

    def _enter(self, books: PracticeBooks, decision: Decision, reward: float | None) -> None:
        enter(books.above, self.above, decision, reward, 1.0)
        enter(books.below, self.below, decision, reward, -1.0)

    # -- reading

    def bounds(self, books: PracticeBooks) -> Limits:
        """What practice would have earned in the explored rounds whose reward is known: from, to."""
        (low, high), known = self.limits, books.explored - books.missing
        lower = -books.below.bound - high * books.missing
        upper = books.above.bound - low * books.missing
        return max(lower, low * known) + 0.0, min(upper, high * known) + 0.0  # never "-0"

    def estimate(self, books: PracticeBooks) -> float:
        """The same as one number, unbiased but for missing rewards."""
        lower, upper = self.bounds(books)
        known = books.estimate * (1 - books.missing / max(books.explored, 1))
        return min(max(known, lower), upper)

    def uncertainty(self, books: PracticeBooks) -> float:
        """How wide these bounds are for each decision whose reward is known."""
        (lower, upper), known = self.bounds(books), books.explored - books.missing
        return (upper - lower) / known if known else inf

    def promised_loss(self, rounds: int) -> float | None:
        """The most that the promise allows to lose in so many rounds."""
        return None if self.once is None else self.once + self.per_round * rounds

    def evidence(self, books: PracticeBooks, rounds: int) -> float:
        """log evidence that practice would have earned more, by more than epsilon per round."""
        if books.explored == 0:
            return -inf
        low, high = self.limits
        most = books.earned + high * books.missing + self.per_round * rounds
        pairs = zip(books.below.bets, FRACTIONS, strict=True)
        return log_mean_exp([bet - fraction / (high - low) * most for bet, fraction in pairs])

    def with_bounds(self, books: PracticeBooks) -> PracticeBooks:
        """Books that were read back from sums, with the bounds that their bets have reached."""
        fractions = np.array(FRACTIONS) / (self.limits[1] - self.limits[0])
        for side in (books.above, books.below):
            side.bound = highest_sum(np.array(side.bets), fractions)
        return books


# -- the same for a part of the rounds


def sums_of(books: PracticeBooks) -> list[float]:
    """All that can be summed over rounds."""
    counts = books.explored, books.missing, books.earned, books.control, books.estimate
    return [*map(float, counts), *books.below.bets, *books.above.bets]


def books_of(sums: list[float]) -> PracticeBooks:
    """Books with these sums, without their bounds."""
    explored, missing, earned, control, estimate, *bets = sums
    below, above = bets[: kernels.COIN_BETS], bets[kernels.COIN_BETS :]
    sides = {"above": Side(bets=above), "below": Side(bets=below)}
    counts = {"explored": round(explored), "missing": round(missing), "control": round(control)}
    return PracticeBooks(earned=earned, estimate=estimate, **counts, **sides)  # type: ignore[arg-type]


def highest_sum(bets: Floats, fractions: Floats) -> float:
    """The root S of sum_j exp(fraction_j S + L_j) = 16 / error; Newton's points come from above.

    A single bet gives a sum that is certainly high enough to begin from.
    """
    found = float(((BOUND_LEVEL - bets) / fractions).min())
    for _ in range(MOST_STEPS):
        logs = fractions * found + bets
        top = logs.max()
        weights = np.exp(logs - top)
        step = float((top + log(weights.sum()) - BOUND_LEVEL) * weights.sum() / (weights @ fractions))
        found -= step
        if step <= CLOSE * (1 + abs(found)):
            break
    return found


def params_of(confidence: Confidence, low: float, unit: float) -> Records:
    """The gate's books for rewards that begin at `low`, at half of the error of an interval."""
    params = np.zeros(1, dtype=kernels.PARAMS)
    p = params[0]
    p["gate"], p["realised"], p["low"], p["unit"] = kernels.CONTROL, 1, low, unit
    p["bounded"], p["noise"] = confidence.noise == "bounded", confidence.scale
    p["coin_level"], p["coin_fractions"] = BOUND_LEVEL, bet_fractions(unit)
    return params


def enter(side: Side, params: Records, decision: Decision, reward: float | None, sign: float) -> None:
    """A play, or its reward, in the books of one side; `sign` is -1 where rewards are mirrored."""
    desk = bytearray(kernels.RUN.itemsize)  # NumPy takes four times as long for all of this
    run = np.frombuffer(desk, dtype=kernels.RUN)
    coins.enter_decision(run, decision)
    NUMBER.pack_into(desk, CENTRE, sign * NUMBER.unpack_from(desk, CENTRE)[0])
    NUMBER.pack_into(desk, BOUND, side.bound)
    NUMBERS.pack_into(desk, BETS, *side.bets)
    if reward is None:
        kernels.coin_commit(params, run)
    else:
        kernels.coin_observe(params, run, sign * reward)
    side.bets, side.bound = list(NUMBERS.unpack_from(desk, BETS)), NUMBER.unpack_from(desk, BOUND)[0]
