"""One rule, over one horizon: is a log to be built on, and is what would be promised on it worth having?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

from linoto.core.certificates import Certificate, mean_interval
from linoto.core.confidence import Confidence
from linoto.core.hints import amount, counted
from linoto.core.offline import Offline

HORIZON = 5000  # rounds to come that every verdict is about, unless somebody says otherwise
AT_RISK = 0.5  # part of what the log earns that a promise must not allow to lose
BY_PRACTICE = "a Control gate compares with practice in the same rounds, and does not rest on the log"
Verdict = Literal["deploy", "deploy with arm effects", "not yet", "do not trust"]  # the worst last


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was found of a log and of what would be promised on it, as sentences."""

    against: tuple[str, ...] = ()  # what contradicts the log, or what a promise assumes of it
    missing: tuple[str, ...] = ()  # what must be stated, logged or left out first
    features: tuple[str, ...] = ()  # why features alone are not to be believed
    blind: tuple[str, ...] = ()  # why they are not to be believed for what is promised
    promise: tuple[str, ...] = ()  # why what is promised is worth nothing over the horizon
    support: tuple[str, ...] = ()  # what speaks for the log
    log_only: tuple[str, ...] = ()  # those of `against` that count only for a promise that rests on the log

    @property
    def of_log(self) -> Findings:
        """The same whatever is promised."""
        return replace(self, promise=(), blind=())

    @property
    def spared(self) -> tuple[str, ...]:
        """What a promise by practice in the same rounds does not rest on."""
        return (*self.log_only, *self.features, *self.blind)

    @property
    def by_practice(self) -> Findings:
        """The same for such a promise."""
        if not self.spared:
            return self
        against = tuple(reason for reason in self.against if reason not in self.log_only)
        support = (*self.support, BY_PRACTICE)
        return replace(self, against=against, features=(), blind=(), log_only=(), support=support)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What became of promises in worlds that a log finds plausible."""

    refuted: str = ""  # that they were broken more often than chance explains
    worthless: str = ""  # that none of them is worth having
    blind: str = ""  # that those worth having rest on features that the log cannot vouch for
    gain: str = ""  # what the best of them gains


def reach_verdict(found: Findings, simulated: Simulated | None = None) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and everything that speaks for it."""
    seen = simulated or Simulated()
    against, missing = one(seen.refuted), one(seen.worthless)
    features = (*found.features, *found.blind, *one(seen.blind))
    if found.against or against:
        return "do not trust", (*found.against, *against, *features)
    if found.missing or found.promise or missing:
        return "not yet", (*found.missing, *found.promise, *missing, *features)
    if features:
        return "deploy with arm effects", features
    return "deploy", (*found.support, *one(seen.gain))


def judged(found: Findings) -> dict[str, Any]:
    """What an audit says: the verdict and its reasons, and the same whatever is promised."""
    verdict, reasons = reach_verdict(found)
    of_log, why_log = reach_verdict(found.of_log)
    return {
        "verdict": verdict,
        "reasons": reasons,
        "verdict_of_log": of_log,
        "reasons_of_log": why_log,
    }


def one(text: str) -> tuple[str, ...]:
    """A sentence, if there is one."""
    return (text,) if text else ()


def findings_of(verdict: str | None, reasons: Sequence[str]) -> Findings:
    """What an earlier verdict was reached by, as far as it tells."""
    kinds = {"do not trust": "against", "not yet": "missing", "deploy with arm effects": "features"}
    return Findings(**{kinds.get(str(verdict), "support"): tuple(reasons)})


def surely_earned(offline: Offline, confidence: Confidence | None) -> float:
    """What a log earns per round on average: below 0 a cost, and 0 where nobody knows which of the two."""
    if offline.total == 0 or offline.reference == 0 or confidence is None:
        return 0.0
    squares = None if offline.reward_squares is None else float(offline.reward_squares.sum())
    limits = confidence.reward_range or (-inf, inf)
    total = float(offline.reward_sums.sum())
    least, most = mean_interval(total, offline.total, squares, confidence, limits)
    earns, costs = limits[0] >= 0 or least > 0, limits[1] <= 0 or most < 0
    return offline.reference if earns or costs else 0.0


def why_worthless(certificate: Certificate, *, earned: float, horizon: int) -> str:
    """Why a promise is worth nothing over so many rounds; nothing if it is worth something.

    `earned` is what the log surely earns per round (`surely_earned`): a part of nothing says nothing.
    """
    allowed, rounds = certificate.loss(horizon), counted(horizon, "round")
    if allowed is None:
        return f"nothing is promised: {certificate.theorem}"
    first = certificate.says_something_from
    if first is None or horizon < first:
        return (
            f"over {rounds} the promise says nothing: no play could lose more than "
            f"{amount(certificate.possible)} per round"
        )
    size, does = abs(earned) * horizon, "earns" if earned > 0 else "loses"
    if earned == 0 or allowed < AT_RISK * size:
        return ""
    return (
        f"over {rounds} the promise allows a loss of {amount(allowed)}: half or more of the "
        f"{amount(size)} that the log {does} in as many"
    )


def is_blind(certificate: Certificate, *, least_misfit: float, horizon: int) -> bool:
    """Whether a promise by a linear model breaks with a misfit that its log could not have shown.

    A model that misses means by more than the loss promised per round breaks the promise; `least_misfit` is
    the smallest that the test of linearity rather sees than misses.
    """
    allowed = certificate.loss(horizon)
    return certificate.by_model and allowed is not None and allowed / horizon < least_misfit
