"""Was a promise kept in a run? Judged by what the certificate promises, against what arms earned then."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, PRACTICE, SAME_ROUNDS, Certificate
from linoto.core.guardrail import Guardrail
from linoto.core.protocols import ComposedPolicy, Policy
from linoto.worlds.bandits import World
from linoto.worlds.contexts import ContextualBandit
from linoto.worlds.run import Run


def promise_violation(policy: Policy, bandit: World | ContextualBandit, offline: Any, run: Run) -> float:
    """The largest shortfall less what the policy promises then: above 0 it is a violation; NaN: no promise.

    The shortfall is that below the log, below the baseline of a Conservative gate, or below practice in the
    same rounds for a Control gate, whose stretches are judged one by one, and with contexts. Where the
    promise is about realised rewards, an explored play counts as what it really earned. Where metrics are
    promised too, it is that of the metric or the reward which is the largest.
    """
    promising = all(hasattr(each, "certificate") for each in (policy, getattr(policy, "policy", policy)))
    if not promising:  # a policy may wrap another
        return nan
    certain: Any = policy
    certificate = bandit.certificate(certain, offline)
    if not certificate.holds:
        return nan
    found = [float(certificate.excess(promised_shortfall(certain, certificate, bandit, run)))]
    return max([*found, *(metric_excess(rail, certificate, run) for rail in certificate.guardrails)])


def metric_excess(rail: Guardrail, certificate: Certificate, run: Run) -> float:
    """How far what a guardrail counts was ever above what it promises: below the log, or below practice."""
    names = [each.name for each in certificate.guardrails]
    rounding = dict(zip(names, certificate.roundings, strict=False)).get(rail.name, 0.0)
    lost = metric_loss(rail, certificate, run)
    limits = rail.budget + rounding + rail.rate * np.arange(1, lost.size + 1)
    return float((lost - limits).max())


def metric_loss(rail: Guardrail, certificate: Certificate, run: Run) -> Floats:
    """(n,) what was lost of a metric so far, as the promise counts it."""
    metric, by_log = run.metrics[rail.name], certificate.against == LOG
    more = metric.more if by_log else metric.in_explored - metric.luck
    return np.asarray(-rail.turn * (more + metric.luck if certificate.realised else more))


def promised_shortfall(
    policy: ComposedPolicy, certificate: Certificate, bandit: World | ContextualBandit, run: Run
) -> Floats:
    """(n,) the cumulative shortfall that a certificate is about."""
    lost = run.offline_regret
    if certificate.against in (PRACTICE, SAME_ROUNDS):
        lost = run.practice_shortfall
    elif certificate.against != LOG:
        gated = policy.composed()
        owed = gated.gate.owed(gated.resolved_fallback(), bandit.means, 0.0)  # type: ignore[union-attr]
        lost = np.cumsum(owed - run.means)
    return as_realised(lost, run) if certificate.realised else lost


def as_realised(shortfall: Floats, run: Run) -> Floats:
    """(n,) the same with explored plays as what they really earned."""
    return np.asarray(shortfall + np.cumsum(np.where(run.explored, run.means - run.rewards, 0.0)))
