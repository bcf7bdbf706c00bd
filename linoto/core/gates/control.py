"""Never further below what current practice earns now: a coin plays practice in some of the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from math import log as ln
from typing import Any, Literal

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.certificates import Promise, Situation
from linoto.core.confidence import Confidence, radius_terms, terms_of_log
from linoto.core.false_bounds import check_bound
from linoto.core.features.moments import Moments
from linoto.core.gates.gate import USUAL_BUDGET, USUAL_PART, USUAL_SHARE, Gate
from linoto.core.gates.tolerance import SHARES, check_logged_range
from linoto.core.guardrail import Guardrail
from linoto.core.hints import amount
from linoto.core.intervals import Limits, mean_from_total
from linoto.core.kernels import State
from linoto.core.offline import Offline
from linoto.core.opening import bet_fractions, opening_budget, spent_text, stakes_for
from linoto.core.validation import (
    check_choice,
    check_count,
    check_nonnegative,
    exact,
    interval_text,
    is_number,
    normalise,
)

PROMISES = ("realised", "expected")
PRACTICES = {
    "mixture": "an arm drawn by the log's shares",
    "lcb": "the pessimistic arm",
    "frozen": "the pessimistic arm of the log alone",
}


@dataclass(frozen=True, kw_only=True)
class Control(Gate):
    """Never more below what current practice earns now than a loss budget, plus epsilon per round.

    Practice is the fallback: by default an arm drawn in every round by the log's shares. Where the explorer
    wants another arm, a coin decides: a *control* round plays practice, an *explored* round the explorer's
    arm. What control rounds earn says what practice would have earned in the explored ones. With probability
    1 - delta, for every t at once, the explored rounds have earned at most budget + epsilon t less than
    practice would have in the same rounds: whatever the explorer does, however the world moves. No log, no
    model and no stationarity is assumed.

    `promise="realised"` counts rewards as they come, "expected" their means. `share` fixes how likely a round
    is a control round (otherwise: the more may still be lost, the less, from 0.9 to 0.05). With "cheap" there
    are fewer, down to 0.01, where explored plays earn much of the range, and more where rewards are rare;
    with contexts they are rather where the estimates say that practice costs little, fewer where these
    foresee a gain, and where the explorer hopes for little practice is played without a coin. `loan` lets the
    log (realised) or the linear model (expected) vouch for that much: it speeds up the start, and if they are
    wrong at most the loan is lost besides. With `every`, the promise holds for every stretch of rounds that
    starts at a multiple of `every`: an old gain cannot be lost again.

    >>> Control(budget=30)
    Control(budget=30, epsilon=0.0, promise='realised', share=None, loan=0.0, every=None)
    """

    code = kernels.CONTROL
    word = "control"
    throws_coin = True
    compares_with_log = False
    rows = kernels.COIN_ROWS
    parameters = ("epsilon", "budget")
    arms_may_change = True

    budget: float = 0.0
    epsilon: float = 0.0
    promise: Literal["realised", "expected"] = "realised"
    share: float | Literal["cheap"] | None = None
    loan: float = 0.0
    every: int | None = None

    def __post_init__(self) -> None:
        normalise(self)
        for name in ("budget", "epsilon", "loan"):
            check_nonnegative(name, getattr(self, name))
        check_choice("promise", self.promise, PROMISES)
        given: Any = self.share
        if given not in (None, "cheap") and not (is_number(given) and 0 < given < 1):
            raise ValueError(f"share must be in (0, 1), 'cheap' or None, got {self.share!r}")
        if self.every is None:
            return
        check_count("every", self.every)
        if self.promise != "realised":
            raise ValueError(f"promise must be 'realised' for stretches, got {self.promise!r}")
        if self.loan > 0:
            raise ValueError(f"loan must be 0 for stretches, got {self.loan!r}: no theorem covers both")

    @property
    def varied(self) -> str:
        """The budget where there is one, else epsilon."""
        return "budget" if self.budget > 0 else "epsilon"

    def usual(self, confidence: Confidence, *, earned: float = inf, rows: int = 0) -> Control:
        """100 times the noise, at most a tenth of what the log earned where rewards cannot be negative.

        100 times the noise of clicks is 50 of them, and a log of 10,000 views may hold 38. It needs what one
        round can lose, though: with less it never opens. And with less than a few times that it is closed
        again before it has learnt anything, for good: then a rate besides, a tenth of what a round of the log
        earns, or 2 % of the noise where that is not known.
        """
        low, high = confidence.reward_range or (-inf, 0.0)
        budget, rate = USUAL_BUDGET * confidence.scale, USUAL_SHARE * confidence.scale
        if low >= 0 and earned >= 0:
            budget = min(budget, float(f"{USUAL_PART * earned:.2g}"))
            rate = rate if rows == 0 else USUAL_PART * earned / rows
        if confidence.reward_range is None:  # it says itself that it cannot do without
            return replace(self, budget=budget)
        promise: Literal["realised", "expected"] = "realised" if confidence.noise == "bounded" else "expected"
        gate = Control(budget=max(budget, high - low), promise=promise)
        return gate if gate.opens(confidence) else replace(gate, epsilon=float(f"{rate:.2g}"))

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        rounds = horizon if self.varied == "budget" else 1
        return tuple(float(f"{share * earned * rounds:.1g}") for share in SHARES)

    @property
    def share_text(self) -> str:
        """How many rounds are control rounds, in words."""
        disputed = "of the rounds in which the explorer wants another arm and it is thrown"
        if is_number(self.share):
            return f"the coin plays practice in {self.share:.2g} {disputed}"
        least = f"{kernels.CHEAP_LEAST if self.share else kernels.LEAST_SHARE:g} {disputed}"
        return f"the coin plays practice in at least {least}, in more where less may still be lost"

    @property
    def loan_from(self) -> int:
        """Who vouches for the loan: the log knows rewards as they come, the model means."""
        if self.loan == 0:
            return kernels.NOBODY
        return kernels.THE_LOG if self.promise == "realised" else kernels.THE_MODEL

    @property
    def reads_squares(self) -> bool:
        """Where the log vouches for a loan: its squares narrow what its arms earned."""
        return self.loan_from == kernels.THE_LOG

    def reads_bounds(self, confidence: Confidence) -> bool:
        return self.loan_from == kernels.THE_MODEL

    def why_no_rounds(self, confidence: Confidence) -> str | None:
        if self.loan_from != kernels.THE_LOG:
            return None
        return (
            "promise must be 'expected' for a loan with contexts, got 'realised': a log cannot vouch for "
            "what practice earns in another context, only a model can"
        )

    def why_no_guardrails(self, confidence: Confidence, guardrails: Sequence[Guardrail]) -> str | None:
        return None

    def for_guardrail(self, guardrail: Guardrail) -> Control:
        return replace(self, budget=guardrail.budget, epsilon=guardrail.rate, loan=0.0)

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        super().fill(p, confidence, actions, offline)
        delta = self.fill_coin(p, confidence)
        terms = radius_terms(replace(confidence, delta=delta), actions, offline)
        p["gate_fixed"], p["gate_level"] = terms.fixed, terms.level
        check_logged_range(confidence, offline)
        if self.loan_from == kernels.THE_LOG and offline.total:
            squares = None if offline.reward_squares is None else float(offline.reward_squares.sum())
            total = float(offline.reward_sums.sum())
            upper = bounds_of(total, squares, offline.total, confidence, delta / 2)[1]
            p["log_upper"] = min(upper + confidence.shift, p["log_upper"])

    def fill_for_rounds(self, p: np.void, confidence: Confidence, moments: Moments) -> None:
        super().fill_for_rounds(p, confidence, moments)
        delta = self.fill_coin(p, confidence)
        terms = terms_of_log(replace(confidence, delta=delta), moments.d, moments.spectrum)
        p["gate_fixed"], p["gate_level"] = terms.fixed, terms.level

    def fill_coin(self, p: np.void, confidence: Confidence) -> float:
        """What needs neither arms nor log; the share of delta that is left for what vouches for a loan."""
        if confidence.reward_range is None:
            raise ValueError("reward_range must be given for a Control gate, got None: a round can lose that")
        if self.promise == "realised" and confidence.noise != "bounded":
            raise ValueError(f"noise must be 'bounded' for promise='realised', got {confidence.noise!r}")
        if self.loan_from == kernels.THE_MODEL and confidence.radius == "paper":
            raise ValueError("radius must be another than 'paper' for a loan: it leaves out the ridge's bias")
        low, high = confidence.reward_range
        self.check_budget((low, high), confidence.delta)
        delta = confidence.delta * (1.0 if self.loan == 0 else 0.5)
        budget = self.budget_for((low, high))
        p["budget"], p["epsilon"], p["realised"] = budget, self.epsilon, self.promise == "realised"
        p["bounded"], p["low"], p["unit"] = confidence.noise == "bounded", low, high - low
        p["share"] = kernels.CHEAP if self.share == "cheap" else self.share or 0.0
        p["loan"], p["every"] = self.loan, self.every or 0
        p["loan_from"] = self.loan_from
        p["coin_level"] = ln(kernels.COIN_BETS / delta)
        p["coin_stakes"] = np.log(kernels.COIN_BETS * stakes_for(self.budget / (high - low), delta))
        p["coin_fractions"] = bet_fractions(high - low)
        p["log_upper"] = high
        return delta

    def budget_for(self, limits: Limits) -> float:
        """The budget; where it was meant to be what one round can lose, that: 0.4 - 0.1 is above 0.3."""
        low, high = limits
        least = high - low - self.loan
        short = least - self.budget
        meant = self.epsilon == 0 and self.every is None and 0 < short <= 1e-15 * (abs(low) + abs(high))
        return least if meant else self.budget

    def check_budget(self, limits: Limits, delta: float) -> None:
        """Refuse a gate that could never open: one round can lose the width of the range."""
        unit = limits[1] - limits[0]
        if self.every is not None:
            least = opening_budget(unit, delta / 2)
            if self.budget < least:
                raise ValueError(f"budget must be at least {least:.4g} for stretches, got {self.budget:g}")
        elif self.epsilon == 0 and self.budget_for(limits) + self.loan < unit:
            raise ValueError(
                f"budget must be at least {unit:.12g}, what one round can lose, where epsilon is 0, "
                f"got {exact(self.budget)}; it learns from {amount(opening_budget(unit, delta))} on, or with "
                "a small epsilon"
            )

    def opening(self, confidence: Confidence) -> float:
        """What may be lost, at the least, for control rounds to prove anything where epsilon is 0."""
        low, high = confidence.reward_range or (0.0, 0.0)
        return opening_budget(high - low, confidence.delta * (1.0 if self.loan == 0 else 0.5))

    def opens(self, confidence: Confidence) -> bool:
        """Whether control rounds can prove something before all that may be lost is lost."""
        return self.epsilon > 0 or self.budget + self.loan >= self.opening(confidence)

    def hint(self, confidence: Confidence) -> str:
        """What would open a gate that stays closed once its budget is spent."""
        if self.opens(confidence):
            return ""
        return f"; {spent_text(self.opening(confidence), 'epsilon')}"

    def refusal(self, room: float | None) -> str:
        told = super().refusal(room)
        if self.epsilon > 0 or room is None or room >= 0:
            return told
        return f"{told} Without an epsilon it opens again only by rewards that are still to come."

    def bounds_sums(self, confidence: Confidence) -> bool:
        return self.loan_from == kernels.THE_MODEL

    def practice_bounds(self, confidence: Confidence, offline: Offline) -> Floats:
        """(2, k) upper and lower bounds on each arm's mean from the log, where it vouches for a loan."""
        low, high = confidence.reward_range or (0.0, 0.0)
        bounds = np.repeat([[high], [low]], offline.pulls.size, axis=1)
        logged = np.flatnonzero(offline.pulls)
        for arm in logged if self.loan_from == kernels.THE_LOG else ():
            error = confidence.delta / 4 / logged.size  # half of the log's half; the rest is its mean's
            pulls, total = int(offline.pulls[arm]), float(offline.reward_sums[arm])
            squares = None if offline.reward_squares is None else float(offline.reward_squares[arm])
            bounds[1, arm], bounds[0, arm] = bounds_of(total, squares, pulls, confidence, error)
            moved = confidence.shift * sqrt(offline.total / pulls)  # at most: no other row has moved
            bounds[:, arm] += moved, -moved
        return np.asarray(np.clip(bounds, low, high))

    def check_start(
        self, state: State, confidence: Confidence, offline: Offline, names: Sequence[str] | None
    ) -> None:
        if self.loan_from == kernels.THE_MODEL:
            check_bound(state, confidence, names)
        rows = [kernels.PRACTICE_UPPER, kernels.PRACTICE_LOWER]
        state.arms[rows] = self.practice_bounds(confidence, offline)

    def default_fallback(self, confidence: Confidence) -> str:
        return "mixture"

    def needs_logged_arms(self, plays_mixture: bool) -> bool:
        return plays_mixture

    def needs_model(self, situation: Situation) -> bool:
        return False  # a wrong one costs the loan at most, and that is in the promise

    def promised(self, situation: Situation) -> Promise:
        terms = [("budget", self.budget > 0), ("loan", self.loan > 0), ("epsilon t", self.epsilon > 0)]
        limit = " + ".join(name for name, there in terms if there)
        counted = "rewards as they come" if self.promise == "realised" else "mean rewards"
        when = "in the first t rounds, for every t"
        if self.every is not None:
            when = f"in t rounds from any multiple of {self.every} on"
        theorem = (
            f"{when}, the explored ones earn at most {limit} less than current practice would in the same "
            f"rounds, counted in {counted}"
        )
        if self.loan > 0:
            witness = "the log's arms earn what they did" if self.promise == "realised" else "the model holds"
            theorem = f"{theorem}; without the loan if {witness}"
        return Promise(
            theorem + self.hint(situation.confidence),
            self.epsilon,
            budget=self.budget + self.loan,
            realised=self.promise == "realised",
            every=self.every,
        )

    def assumptions(self, situation: Situation) -> tuple[str, ...]:
        fallback, confidence = situation.fallback, situation.confidence
        practice = f"arm {fallback}" if isinstance(fallback, int) else PRACTICES[fallback]
        practice = situation.given_practice or practice
        limits, bounded = interval_text(situation.limits), confidence.noise == "bounded"
        texts = {
            f"every reward lies in {limits}": bounded,
            f"mean rewards lie in {limits}": not bounded,
            f"rewards are sub-Gaussian around their means with scale {confidence.scale:g}": not bounded,
            "which rewards arrive, and when, does not depend on their values": not bounded,
            f"current practice is {practice}, and can still be played": True,
            self.share_text: True,
            "the coin is ours: nobody sees it before the decision, and what an arm would earn in a round "
            "does not depend on it": True,
            "practice is compared in the same round after the same history: what a play changes in later "
            "rounds is not counted": True,
            "every round is played as decided, and committed before the next one is asked for": True,
            "a reward is reported with its decision": True,
        }
        return tuple(text for text, applies in texts.items() if applies)

    def not_assumed(self, situation: Situation) -> tuple[str, ...]:
        texts = {
            "that the log still holds: the arms may earn anything else at any time": True,
            "a linear model": True,
            "anything about the explorer": True,
            "that rewards arrive, or which do": situation.confidence.noise == "bounded",
        }
        return tuple(text for text, applies in texts.items() if applies)


def bounds_of(
    total: float, squares: float | None, pulls: int, confidence: Confidence, error: float
) -> tuple[float, float]:
    """Bounds on the mean of logged rewards that hold but for this probability."""
    limits, adaptive = confidence.reward_range or (0.0, 1.0), confidence.design == "adaptive"
    return mean_from_total(
        total, pulls, squares=squares, reward_range=limits, level=1 - error, adaptive=adaptive
    )
