"""What speaks for a log and against it: the verdict, its reasons, and what is worth knowing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from linoto.audit.assume import has_rewards_outside, too_few_events
from linoto.audit.coverage import Coverage
from linoto.audit.drift import Drift, why_untested
from linoto.audit.fit import LackOfFit
from linoto.audit.noise import Noise
from linoto.audit.propensities import find_miscalibrated
from linoto.audit.tails import Tails, loss_survived
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.gates import Tolerance
from linoto.core.hints import amount, shortened_list
from linoto.core.kernels import Ints
from linoto.core.validation import exact, rounded_up
from linoto.logs.read import Log

SEEN = 0.5  # power of a test below which it would rather miss than see what matters
DOUBTFUL = 0.2  # p of linearity below which features are not believed where rewards decided what was pulled
AT_RISK = 0.5  # part of what the log earned that a promise must not allow to lose
DROPPED = 0.01  # share of bad rows from which what is left may be a selection
FAR = 10.0  # times as far apart as logged rewards, from which a range would promise much more
AuditVerdict = Literal["deploy", "deploy with arm effects", "not yet", "do not trust"]
VERDICTS: tuple[AuditVerdict, ...] = get_args(AuditVerdict)  # from the best to the worst


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditFindings:
    """What was found, before it is weighed."""

    log: Log
    gate: Tolerance
    noise: Noise | None
    least_noise: float  # what the noise is not below, as far as the log can tell
    tails: Tails | None
    fit: LackOfFit | None
    drift: Drift | None
    coverage: Coverage
    confidence: Confidence | None
    why: dict[str, str]  # where the proposals come from
    certificate: Certificate | None
    broken: str  # why there is none
    shortest: float  # what |theta| does not fall below, under these assumptions
    adaptive: bool  # whether arms were not pulled late in the shares of the early half

    @property
    def epsilon(self) -> float:
        """The tolerance per round."""
        return self.gate.epsilon

    @property
    def tolerated(self) -> str:
        """What may be lost, in words."""
        parts = (("budget", self.gate.budget), ("tolerance", self.gate.epsilon))
        return " and ".join(f"a {name} of {value:g}" for name, value in parts if value) or "a budget of 0"

    @property
    def bounded(self) -> bool:
        """Whether rewards are taken never to leave a range."""
        return self.confidence is not None and self.confidence.noise == "bounded"

    @property
    def survives(self) -> float | None:
        """The loss below an arm's mean that noise of this scale allows in 3 of as many rows as the log has;
        None where rewards never leave a range."""
        if self.confidence is None or self.bounded:
            return None
        return loss_survived(self.confidence.scale, self.log.offline.total)

    @property
    def fit_power(self) -> float | None:
        """In which part of such logs a misfit as large as the promise allows per round would be seen, over as
        many rounds as the log has rows; None where there is no test or no promise."""
        allowed = None if self.certificate is None else self.certificate.loss(self.log.offline.total)
        if self.fit is None or allowed is None:
            return None
        return self.fit.power(allowed / self.log.offline.total)

    @property
    def blind(self) -> bool:
        """Whether the test of linearity would rather miss than see a misfit that matters."""
        return self.fit_power is not None and self.fit_power < SEEN


def reach_verdict(found: AuditFindings) -> tuple[AuditVerdict, tuple[str, ...]]:
    """The verdict, and everything that speaks for it."""
    against = [*reasons_in_rows(found), *reasons_in_assumptions(found)]
    missing = [*reasons_in_tails(found), *reasons_in_tests(found), *reasons_in_promise(found)]
    nonlinear = reasons_for_effects(found)
    if against:
        return "do not trust", tuple(against + nonlinear)
    if missing:
        return "not yet", tuple(missing + nonlinear)
    if nonlinear:
        return "deploy with arm effects", tuple(nonlinear)
    steady = ["early and late rows agree"] if found.drift else []
    return "deploy", (fit_reason(found), *steady)


def reasons_in_rows(found: AuditFindings) -> list[str]:
    """What is wrong with the rows, whatever is assumed."""
    drift, reasons = found.drift, []
    dropped = dropped_share(found.log)
    if dropped > DROPPED:
        reasons.append(f"{dropped:.1%} of the rows are bad: what is left may not be like what was lost")
    if drift is not None and drift.rejected:
        together = ", and so did all together" if drift.common_moved else ""
        reasons.append(
            f"arms did not earn late what they earned early (p = {drift.combined:.2g}: {drift.moved.size} of "
            f"{drift.arms.size} arms changed for sure{together}): build on recent rows only, or promise less"
        )
    return reasons


def reasons_in_assumptions(found: AuditFindings) -> list[str]:
    """What is assumed and cannot be so."""
    given, least = found.confidence, found.least_noise
    if given is None:
        return [f"nothing is known of the noise ({found.why['noise']}): give it"]
    reasons, limits = [], given.reward_range
    if given.scale < least:
        reasons.append(f"the log is noisier ({needed(least)} at least) than assumed ({exact(given.scale)})")
    elif not found.bounded and "noise" not in found.why:
        reasons.extend(reasons_in_farthest(found, given.scale))
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


def reasons_in_farthest(found: AuditFindings, scale: float) -> list[str]:
    """A reward so far from its mean that the noise that was stated does not allow it."""
    tails = found.tails
    if tails is None or tails.distance <= tails.expected * scale:
        return []
    return [
        f"some reward is {amount(tails.distance)} from the mean of its arm, and a noise of "
        f"{amount(scale)} allows {amount(tails.expected * scale)} in {found.log.offline.total:,} rows"
    ]


def reasons_in_tails(found: AuditFindings) -> list[str]:
    """What no log can tell, and nobody said: how far a reward can be from its mean."""
    if found.survives is None or found.confidence is None or "noise" not in found.why:
        return []
    rows, limits = f"{found.log.offline.total:,}", found.confidence.reward_range
    said = "nobody said how large or small a reward can be"
    if limits is not None:
        low, high = (exact(end) for end in found.log.extent)
        said = f"rewards from {low} to {high} are outside the stated range [{limits[0]:g}, {limits[1]:g}]"
    return [
        f"{said}: the noise of {amount(found.confidence.scale)} is a "
        f"guess from {rows} rows, and what is rarer than that is not in them. State a reward range (and cap "
        "what leaves it), or the noise if you know it",
        f"with that guess the promise survives a loss of {amount(found.survives)} below an arm's mean in 3 "
        f"of {rows} rounds: one that is larger, or comes more often, can break it",
    ]


def reasons_in_tests(found: AuditFindings) -> list[str]:
    """Why nothing speaks against the log: nothing could."""
    log = found.log
    if len(log.arms.names) == 1:
        return ["there is one arm only, so there is nothing to decide: add the arms that could be played"]
    if log.extent[0] == log.extent[1]:
        return [f"every reward is {exact(log.extent[0])}, so nothing could be tested: more rows would help"]
    if found.fit is None and found.drift is None:
        return [
            "neither linearity nor drift could be tested, so nothing is known for or against this log "
            f"({why_untested(log.early, log.late)}): more rows would help"
        ]
    few = too_few_events(log)
    return [f"{few}: more rows would help"] if few else []


def reasons_in_promise(found: AuditFindings) -> list[str]:
    """Why what would be promised is worth nothing, and what would help."""
    promise, offline = found.certificate, found.log.offline
    if promise is None:
        return []
    if promise.vacuous:
        possible = promise.reference_interval[1] - promise.reward_range[0]
        return [
            f"{found.tolerated} promises nothing: no play could lose more than {amount(possible)} "
            f"per round. The log earns {amount(offline.reference)} per row: choose a part of that"
        ]
    allowed, earned = promise.loss(offline.total), float(offline.reward_sums.sum())
    if found.log.extent[0] < 0 or allowed is None or allowed < AT_RISK * earned:
        return []
    return [
        f"{at_risk_text(allowed, earned)} ({amount(promise.constant)} of the loss is allowed from the first "
        "round). More rows, fewer logged arms, a smaller reward range or a smaller tolerance would help"
    ]


def at_risk_text(allowed: float, earned: float) -> str:
    """That a promise allows to lose much of what there is."""
    return (
        f"over as many rounds as the log has rows, the promise allows a loss of {amount(allowed)}: half or "
        f"more of the {amount(earned)} that the log earned"
    )


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
    if found.fit is not None and found.adaptive and (found.blind or found.fit.cautious_p < DOUBTFUL):
        return [
            "shares of arms changed, and this log cannot show that rewards are linear in these features "
            f"(p = {found.fit.cautious_p:.2g}, times five; {seen_text(found)}), so give every arm an effect "
            "of its own"
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
    if found.blind:
        return (
            f"no sign against a linear model, but this log could hardly show one: {seen_text(found)}; "
            "--arm-effects, or evidence from rewards, does not rest on it"
        )
    return "the logged means lie where a linear model puts them"


def seen_text(found: AuditFindings) -> str:
    """How often the test of linearity would see a misfit that matters, in words."""
    part = 0.0 if found.fit_power is None else found.fit_power
    return f"a misfit as large as the loss promised per round is seen in {part:.0%} of such logs"


def audit_notes(found: AuditFindings) -> tuple[str, ...]:
    """What a deployer should know, without being a reason for or against."""
    log, names = found.log, found.log.arms.names
    notes = [*log.arms.notes, *log.notes]
    if 0 < dropped_share(log) <= DROPPED:
        lost = sum(log.bad.values())
        notes.append(f"bad rows were dropped ({lost:,}): which ones should not depend on the reward")
    if found.tails is not None and found.tails.heavy and not found.bounded:
        notes.append(
            "tails are heavy: cap rewards, and the cap is the end of a reward range; or take logarithms, and "
            "the promise is about those"
        )
    if found.adaptive:
        notes.append(
            "arms were pulled late in other shares than early, so rewards may have decided what was pulled: "
            "drift and linearity are judged by tests that allow for it, and see less"
        )
    limits = means_within(found)
    if limits is not None and has_rewards_outside(log, limits):
        notes.append(f"some rewards are outside [{limits[0]:g}, {limits[1]:g}]: only their means may not be")
    if allows_far_rewards(found):
        notes.append("the bound alone limits rewards, and loosely: a reward range would promise more")
    if found.drift is None:
        notes.append(f"drift could not be tested: {why_untested(log.early, log.late)}")
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


def names_of(names: tuple[str, ...], arms: Ints) -> str:
    """The names of some arms, a few of them where they are many."""
    return shortened_list([names[arm] for arm in arms])
