"""What speaks for a log and against it: the verdict, its reasons, and what is worth knowing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from linoto.audit.assume import has_rewards_outside
from linoto.audit.coverage import Coverage
from linoto.audit.drift import Drift
from linoto.audit.fit import LackOfFit
from linoto.audit.noise import Noise, noisiest_arm, scatter_of
from linoto.audit.propensities import find_miscalibrated
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.hints import shortened_list
from linoto.core.kernels import Ints
from linoto.core.validation import exact, rounded_up
from linoto.logs.read import Log

DROPPED = 0.01  # share of bad rows from which what is left may be a selection
FAR = 10.0  # standard deviations from its arm's mean that no sub-Gaussian reward should be
AuditVerdict = Literal["deploy", "deploy with arm effects", "do not trust"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditFindings:
    """What was found, before it is weighed."""

    log: Log
    epsilon: float
    noise: Noise | None
    fit: LackOfFit | None
    drift: Drift | None
    coverage: Coverage
    confidence: Confidence | None
    why: dict[str, str]  # where the proposals come from
    certificate: Certificate | None
    broken: str  # why there is none
    shortest: float  # what |theta| does not fall below, under these assumptions


def reach_verdict(found: AuditFindings) -> tuple[AuditVerdict, tuple[str, ...]]:
    """The verdict, and everything that speaks for it."""
    against = [*reasons_in_rows(found), *reasons_in_assumptions(found)]
    nonlinear = reasons_for_effects(found)
    if against:
        return "do not trust", tuple(against + nonlinear)
    if nonlinear:
        return "deploy with arm effects", tuple(nonlinear)
    good = [fit_reason(found), "early and late rows agree" if found.drift else "drift could not be tested"]
    return "deploy", tuple(good)


def reasons_in_rows(found: AuditFindings) -> list[str]:
    """What is wrong with the rows, whatever is assumed."""
    drift, reasons = found.drift, []
    dropped = dropped_share(found.log)
    if dropped > DROPPED:
        reasons.append(f"{dropped:.1%} of the rows are bad: what is left may not be like what was lost")
    if drift is not None and drift.rejected:
        reasons.append(
            f"arms did not earn late what they earned early (p = {drift.overall:.2g}, {drift.moved.size} of "
            f"{drift.arms.size} arms changed for sure): build on recent rows only, or promise less"
        )
    return reasons


def reasons_in_assumptions(found: AuditFindings) -> list[str]:
    """What is assumed and cannot be so."""
    given, noise = found.confidence, found.noise
    if given is None:
        return [f"nothing is known of the noise ({found.why['noise']}): give it"]
    reasons, limits = [], given.reward_range
    if noise is not None and given.scale < noise.low:
        reasons.append(
            f"the log is noisier ({needed(noise.low)} at least) than assumed ({exact(given.scale)})"
        )
    if given.noise == "bounded" and limits is not None and has_rewards_outside(found.log, limits):
        low, high = found.log.extent
        reasons.append(
            f"rewards are said never to leave [{exact(limits[0])}, {exact(limits[1])}], and the log has them "
            f"from {exact(low)} to {exact(high)}"
        )
    if given.bound < found.shortest:
        reasons.append(
            f"the log contradicts bound={exact(given.bound)}: a linear model needs a parameter of length "
            f"{needed(found.shortest)} at least"
        )
    if found.broken:
        reasons.append(f"the assumptions contradict the log: {found.broken}")
    return reasons


def needed(value: float) -> str:
    """A number that something must reach, rounded up: never the same text as one that is too small."""
    return exact(rounded_up(value))


def dropped_share(log: Log) -> float:
    """How many of the rows were bad."""
    return sum(log.bad.values()) / max(log.rows, 1)


def reasons_for_effects(found: AuditFindings) -> list[str]:
    """Why the features alone should not be believed."""
    if found.log.arms.effects is not None:
        return []
    if found.fit is not None and found.fit.rejected:
        return [
            f"rewards are not linear in these features (p = {found.fit.cautious_p:.2g}): the model misses an "
            f"arm's mean by {found.fit.misfit:.2g} on average, so give every arm an effect of its own"
        ]
    if found.fit is None and found.coverage.untested.size:
        return [
            f"whether rewards are linear cannot be tested, and {found.coverage.untested.size} unlogged arms "
            "are judged by that alone, so give every arm an effect of its own"
        ]
    return []


def fit_reason(found: AuditFindings) -> str:
    """Why the model may be believed."""
    if found.log.arms.effects is not None:
        return "every arm has an effect of its own, so no linearity is needed"
    if found.fit is None:
        return "no unlogged arm is judged by the linear model alone"
    return "the logged means lie where a linear model puts them"


def audit_notes(found: AuditFindings) -> tuple[str, ...]:
    """What a deployer should know, without being a reason for or against."""
    log, names, notes = found.log, found.log.arms.names, []
    if 0 < dropped_share(log) <= DROPPED:
        lost = sum(log.bad.values())
        notes.append(f"bad rows were dropped ({lost:,}): which ones should not depend on the reward")
    if farthest_reward(log) > FAR * largest_noise(found) > 0:
        notes.append(f"some reward is over {FAR:g} standard deviations from its arm's mean: tails are heavy")
    limits = means_within(found)
    if limits is not None and has_rewards_outside(log, limits):
        notes.append(f"some rewards are outside [{limits[0]:g}, {limits[1]:g}]: only their means may not be")
    if found.certificate is not None and found.certificate.vacuous:
        notes.append(f"a tolerance of {found.epsilon:g} promises nothing: no play could lose more")
    if allows_far_rewards(found):
        notes.append("the bound alone limits rewards, and loosely: a reward range would promise more")
    if found.drift is None:
        notes.append("drift could not be tested: too few arms were pulled in both halves")
    if log.propensities is not None:
        wrong = find_miscalibrated(log.propensities, log.offline.total)
        if wrong.size:
            notes.append(f"propensities do not fit how often these were pulled: {names_of(names, wrong)}")
    return tuple(notes)


def means_within(found: AuditFindings) -> tuple[float, float] | None:
    """The range of mean rewards, where rewards themselves may leave it."""
    given = found.confidence
    return None if given is None or given.noise == "bounded" else given.reward_range


def allows_far_rewards(found: AuditFindings) -> bool:
    """Whether mean rewards may lie, as far as is assumed, much further apart than any logged rewards do."""
    if found.certificate is None or found.confidence is None or found.confidence.reward_range is not None:
        return False
    low, high = found.certificate.reward_range
    return high - low > FAR * (found.log.extent[1] - found.log.extent[0])


def largest_noise(found: AuditFindings) -> float:
    """The noise of the noisiest arm, or of all together if larger; 0 where nothing is known."""
    return max(found.noise.value, noisiest_arm(found.log.offline)) if found.noise else 0.0


def farthest_reward(log: Log) -> float:
    """How far some reward is at least from the mean of its arm, whichever arm it came from."""
    means = scatter_of(log.offline).mean
    return max(log.extent[1] - float(means.max()), float(means.min()) - log.extent[0])


def names_of(names: tuple[str, ...], arms: Ints) -> str:
    """The names of some arms, a few of them where they are many."""
    return shortened_list([names[arm] for arm in arms])
