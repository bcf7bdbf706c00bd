"""Evidence, at any time, that realised rewards contradict what was promised or what the log said.

An e-process: a number that starts at 1 and is, if the claim is true, above 1/a at any time ever with
probability at most a. Many looks cost nothing, and the claim may be about a sum of means that the policy
itself steers: only the sum enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import e, exp, expm1, inf, isfinite, log, log1p
from typing import Any

import numpy as np

from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.certificates import Certificate
from linoto.core.doubling import DoublingAgent
from linoto.service.loops.detector import Claim
from linoto.service.loops.log_sums import log_mean_exp
from linoto.service.loops.model_watch import ModelClaim
from linoto.service.loops.references import ReferenceSince, beyond_first
from linoto.service.loops.spec import WATCHED, LoopAgent, LoopSpec
from linoto.service.loops.state import RewardTotals

TILTS = tuple(4.0 * 0.7**j for j in range(20))  # l, of a reward scaled to [0, 1], or in units of its noise
WEIGHTS = tuple(-expm1(-tilt) for tilt in TILTS)  # 1 - exp(-l)
HALF_SQUARES = tuple(tilt * tilt / 2 for tilt in TILTS)
MOST_STEPS, CLOSE = 60, 1e-13  # of Newton's method; six or so are enough


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How far rewards stray from their means: never out of a range, or sub-Gaussian."""

    low: float
    high: float  # of mean rewards
    noise: float
    bounded: bool


def log_evidence(scale: Scale, rewards: float, count: int, least: float) -> float:
    """log of the evidence that `count` rewards, summing to `rewards`, have means that sum to below `least`.

    For x in [0, 1] with mean m, E exp(-l x) <= 1 - m (1 - exp(-l)); for sub-Gaussian x it is at most
    exp(-l m + l^2 s^2 / 2). Products over plays are supermartingales, and so is their average over tilts l.
    The log of the first bound is concave in m, so among means with the same sum equal ones make it largest:
    the sum alone is enough, however the means were steered.
    """
    if count == 0 or least <= rewards:  # every tilt would give at most 1
        return -inf
    if not scale.bounded:
        behind = (least - rewards) / scale.noise
        pairs = zip(TILTS, HALF_SQUARES, strict=True)
        return log_mean_exp([behind * tilt - count * half for tilt, half in pairs])
    unit = scale.high - scale.low
    seen, mean = (rewards - count * scale.low) / unit, min((least / count - scale.low) / unit, 1.0)
    pairs = zip(TILTS, WEIGHTS, strict=True)
    return log_mean_exp([-count * log1p(-mean * weight) - seen * tilt for tilt, weight in pairs])


def log_factors(scale: Scale, count: Floats, least: Floats) -> Floats:
    """(n, tilts) log of the supermartingale of each tilt, for rewards that sum to 0."""
    if not scale.bounded:
        return np.multiply.outer(least / scale.noise, TILTS) - np.multiply.outer(count, HALF_SQUARES)
    unit = scale.high - scale.low
    mean = np.minimum((least / np.maximum(count, 1) - scale.low) / unit, 1.0)
    logs = -np.log1p(-np.multiply.outer(mean, WEIGHTS)) * count[:, None]
    return np.asarray(logs + np.multiply.outer(count * scale.low / unit, TILTS))


def alarm_sums(scale: Scale, count: Floats, least: Floats, threshold: float) -> Floats:
    """(n,) the summed rewards of `count` plays at which the evidence reaches the threshold, as Newton does.

    The log of the average over tilts is convex and falls with the rewards, so that steps from below never go
    too far. A single tilt gives a sum that is certainly low enough to begin from. For a bounded reward that
    may be a sum that is not possible: there is no alarm then, and the answer is NaN.
    """
    at_none, tilts = log_factors(scale, count, least), np.array(TILTS)  # falls by TILTS per unit of reward
    unit = scale.high - scale.low if scale.bounded else scale.noise
    sums = ((at_none - threshold - log(tilts.size)) / tilts).max(axis=-1)
    for _ in range(MOST_STEPS):
        logs = at_none - np.multiply.outer(sums, tilts)
        top = logs.max(axis=-1, keepdims=True)
        weights = np.exp(logs - top)
        over = top[..., 0] + np.log(weights.mean(axis=-1)) - threshold
        step = over * weights.sum(axis=-1) / (weights @ tilts)
        sums += step
        if (step <= CLOSE * (1 + np.abs(sums))).all():
            break
    sums *= unit
    possible = count * scale.low if scale.bounded else -inf
    return np.where((count > 0) & (sums >= possible), sums, np.nan)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What a loop is watched for; made once from its certificate.

    `error` is the chance of each false alarm, besides the chance (1.5 delta, or 2.5 delta once arms of the
    log were removed) that the promise or an interval of the reference fails by itself.
    """

    scale: Scale
    error: float
    reference: tuple[float, float]  # an interval for the mean reward of the log
    default_reward: float  # what closes a decision whose reward never came
    loses_defaults: bool  # whether its reward is unknown then; else only where a restore may have lost it
    watches_drift: bool  # whether enough is known of rewards to recognise drift
    run: float  # plays between two false alarms of drift, on average
    later: tuple[ReferenceSince, ...] = ()  # what is left of practice, each time it has lost an arm
    per_round: float | None = None  # None: nothing is promised
    constant: float = 0.0
    kappa: float = 0.0  # rounding of the mixture, in plays
    claim: Claim | None = None  # what plays earn while there is no drift; None: with contexts nobody knows
    certified: bool = False  # whether safe plays outside the mixture are proven to earn as much as the log
    model: ModelClaim | None = None  # with contexts: what the log says of plays, where a promise rests on it

    @classmethod
    def over_rounds(cls, agent: Agent, c: Certificate, spec: LoopSpec) -> Watch:
        """The watch over an agent whose rounds bring their own arms: every round has its own mean."""
        model = ModelClaim.of(agent) if c.holds else None
        return cls(watches_drift=model is not None, model=model, **watched_always(agent, c, spec))

    @classmethod
    def over_arms(
        cls,
        agent: LoopAgent,
        c: Certificate,
        spec: LoopSpec,
        later: Sequence[ReferenceSince] = (),
        *,
        anew: bool = False,
    ) -> Watch:
        """The watch over arms that stay the same; `later` references are since practice lost arms."""
        with_log = agent.gate.compares_with_log and agent.offline.total > 0
        rounding = most_rounding(agent, spec.version)
        promised = with_log and c.holds and c.per_round is not None
        return cls(
            later=tuple(later),
            per_round=c.per_round if promised else None,
            constant=c.constant or 0.0,
            kappa=rounding,
            claim=claim_of(agent, c, spec, later, 2 * rounding, anew),
            certified=promised and agent.gate.keeps_ledger,
            watches_drift=(promised or (with_log and range_is_given(agent, c)))
            and not (spec.version == 1 and later),  # its rule knows one reference for all plays
            **watched_always(agent, c, spec),
        )

    def known(self, totals: RewardTotals) -> tuple[int, float]:
        """How many rewards are known, and their sum: a lost one is as open as one that has yet to come."""
        lost = self.lost(totals)
        return totals.closed - lost, totals.rewards - lost * self.default_reward

    def lost(self, totals: RewardTotals) -> int:
        """How many rewards of those that are closed nobody knows."""
        return totals.defaults if self.loses_defaults else totals.unheard

    def promise(self, plays: int, closed: int, rewards: float) -> float:
        """log evidence that all plays together earned less than promised.

        Open plays count as the best they can be, so that it does not matter which rewards come first: every
        number is at most the one that knows all rewards. Where rewards are not bounded, only their means
        are, and which rewards are still open must not depend on their values.
        """
        if self.per_round is None:
            return -inf
        least = self.least(plays)
        return log_evidence(self.scale, rewards + (plays - closed) * self.scale.high, plays, least)

    def left_at_most(self, plays: int, known: int, rewards: float) -> float:
        """How much more so many plays may lose, if those that are not known earned the most they can."""
        best = (plays - known) * self.scale.high if plays > known else 0.0
        return float(rewards + best - self.least(plays))

    def least(self, plays: Any) -> Any:
        """The least that so many plays earn on average by the promise."""
        low = self.reference[0]
        later = beyond_first(low, self.later, "low", plays) if self.later else 0.0
        return plays * (low - (self.per_round or 0.0)) - self.constant + later

    def alarm_below(self, closed: Floats, threshold: float) -> Floats | None:
        """(n,) summed rewards of so many plays below which a promise alarm is raised; NaN where none is."""
        if self.per_round is None:
            return None
        counts = np.asarray(closed, dtype=np.float64)
        return alarm_sums(self.scale, counts, self.least(counts), threshold)

    def drift(self, plays: int, closed: int, rewards: float) -> float:
        """log evidence that plays which must earn what the log earned no longer do."""
        if not self.watches_drift:
            return -inf
        rounding = self.kappa * (self.scale.high - self.scale.low)
        low, high = plays * self.reference[0] - rounding, plays * self.reference[1] + rounding
        return self.outside(plays, closed, rewards, low, high)

    def model_drift(self, plays: int, closed: int, rewards: float, played: Sequence[float]) -> float:
        """log evidence against what the model of the log says of plays whose features sum to `played`."""
        if self.model is None:
            return -inf
        return self.outside(plays, closed, rewards, *self.model.bounds(np.array(played)))

    def outside(self, plays: int, closed: int, rewards: float, low: float, high: float) -> float:
        """log evidence that the means of plays sum to below `low`, or to above `high`.

        Open plays count as the best or the worst they can be; nothing is said while that is unknown.
        """
        s, open_plays = self.scale, plays - closed
        if open_plays and not (isfinite(s.low) and isfinite(s.high)):
            return -inf
        best, worst = (open_plays * end if open_plays else 0.0 for end in (s.high, s.low))
        below = log_evidence(s, rewards + best, plays, low)
        mirrored = Scale(low=-s.high, high=-s.low, noise=s.noise, bounded=s.bounded)
        above = log_evidence(mirrored, -(rewards + worst), plays, -high)
        return max(below, above) - log(2.0)

    def rewards_of(self, reward: float, lost: bool) -> tuple[float, float]:
        """The worst and the best that a reward can have been."""
        return (self.scale.low, self.scale.high) if lost else (reward, reward)

    @cached_property
    def threshold(self) -> float:
        """log evidence from which it is an alarm."""
        return -log(self.error)

    @property
    def drift_threshold(self) -> float:
        """The same for drift, where evidence begins anew at all times."""
        return log(self.run) if self.model is None else self.threshold


def watched_always(agent: LoopAgent, c: Certificate, spec: LoopSpec) -> dict[str, Any]:
    """What every watch knows, wherever the arms come from."""
    (low, high), assumed = c.reward_range, agent.confidence
    return {
        "scale": Scale(low=low, high=high, noise=assumed.scale, bounded=assumed.noise == "bounded"),
        "error": spec.alarm_error / (1 + len(c.guardrails)),  # of each: one for the reward and each guardrail
        "reference": c.reference_interval,
        "default_reward": spec.default_reward,
        "loses_defaults": spec.missing_reward == "unknown",
        "run": spec.alarm_run,
    }


def claim_of(
    agent: LoopAgent,
    c: Certificate,
    spec: LoopSpec,
    later: Sequence[ReferenceSince],
    rounding: float,
    anew: bool,
) -> Claim:
    """No drift: the mixture earns what the log earned. A stretch of it lacks what two prefixes lack."""
    bounded = agent.confidence.noise == "bounded"
    if c.kappa is not None and agent.counts_control and not later:
        rounding = 2 * c.kappa
    noise = None if bounded else agent.confidence.scale
    low, high = (later[-1].low, later[-1].high) if later else c.reference_interval
    interval = low - spec.drift_allowed, high + spec.drift_allowed
    as_before = spec.version < WATCHED and not anew
    return Claim.about(interval, c.reward_range, noise, rounding, as_before=as_before)


def most_rounding(agent: LoopAgent, version: int) -> float:
    """How many plays the mixture can be behind its shares: at most n / e for n logged arms, whatever the log.

    Where the agent does not count control plays, they have a schedule of their own, which adds as much.
    Loops of version 1 were watched without it, and what they saw then stands.
    """
    schedules = 1 if agent.counts_control or version == 1 else 2
    return schedules * float((agent.offline.pulls > 0).sum()) / e


def range_is_given(agent: LoopAgent, c: Certificate) -> bool:
    """Whether the range of rewards was given, and the log keeps to it: a guess would look like drift.

    A policy that begins anew in every epoch leaves the mixture's schedule each time, and is not watched.
    """
    if isinstance(agent, DoublingAgent) or agent.confidence.reward_range is None:
        return False
    (low, high), (least, most) = c.reference_interval, c.reward_range
    return least <= low and high <= most


def as_factor(evidence: float) -> float:
    """Log evidence as a factor, capped where a float ends."""
    return exp(min(evidence, 700.0))
