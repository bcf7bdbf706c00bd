"""Was a promise kept in a run? Judged by what the certificate promises, against what arms earned then."""

from __future__ import annotations

from math import nan
from typing import cast

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.certificates import LOG, PRACTICE, Certificate
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline
from linoto.core.protocols import ComposedPolicy, Policy
from linoto.worlds.bandits import World
from linoto.worlds.contexts import ContextualBandit
from linoto.worlds.run import Run


def promise_violation(policy: Policy, bandit: World, offline: Offline, run: Run) -> float:
    """The largest shortfall less what the policy promises then: above 0 it is a violation; NaN: no promise.

    The shortfall is that below the log, below the baseline of a Conservative gate, or below practice in the
    same rounds for a Control gate, whose stretches are judged one by one. Where the promise is about realised
    rewards, an explored play counts as what it really earned.
    """
    promising = hasattr(getattr(policy, "policy", policy), "certificate")  # a policy may wrap another
    if not promising or not hasattr(policy, "certificate"):
        return nan
    certificate = policy.certificate(bandit.actions, offline)
    if not certificate.holds:
        return nan
    return float(
        certificate.excess(promised_shortfall(cast(ComposedPolicy, policy), certificate, bandit, run))
    )


def promised_shortfall(policy: ComposedPolicy, certificate: Certificate, bandit: World, run: Run) -> Floats:
    """(n,) the cumulative shortfall that a certificate is about."""
    lost = run.offline_regret
    if certificate.against == PRACTICE:
        lost = run.practice_shortfall
    elif certificate.against != LOG:
        gated = policy.composed()
        owed = gated.gate.owed(gated.resolved_fallback(), bandit.means, 0.0)
        lost = np.cumsum(owed - run.means)
    return as_realised(lost, run) if certificate.realised else lost


def as_realised(shortfall: Floats, run: Run) -> Floats:
    """(n,) the same with explored plays as what they really earned."""
    return np.asarray(shortfall + np.cumsum(np.where(run.explored, run.means - run.rewards, 0.0)))


def contextual_violation(policy: Policy, bandit: ContextualBandit, offline: Moments, run: Run) -> float:
    """The same with contexts, where every promise is about practice in the same rounds."""
    certify = getattr(policy, "certificate", None)
    certificate: Certificate | None = certify(offline=offline, d=bandit.d) if callable(certify) else None
    if certificate is None or not certificate.holds:
        return nan
    lost = run.practice_shortfall
    return float(certificate.excess(as_realised(lost, run) if certificate.realised else lost))
