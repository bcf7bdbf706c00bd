"""What speaks for a log and against it: the verdict, its reasons, and what is worth knowing."""

from __future__ import annotations

from dataclasses import dataclass

from linoto.audit.assume import has_rewards_outside, too_few_events
from linoto.audit.coverage import Coverage
from linoto.audit.drift import Drift, why_untested
from linoto.audit.fit import LackOfFit
from linoto.audit.noise import Noise
from linoto.audit.propensities import find_miscalibrated
from linoto.audit.tails import Tails, loss_survived
from linoto.core.arrays import Ints
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.gates import Tolerance
from linoto.core.hints import amount, shortened_list
from linoto.core.validation import exact, rounded_up
from linoto.core.verdicts import Findings, is_blind, surely_earned, why_worthless
from linoto.logs.read import Log

SEEN = 0.5  # power of a test below which it would rather miss than see what matters
DOUBTFUL = 0.2  # p of linearity below which features are not believed where rewards decided what was pulled
DROPPED = 0.01  # share of bad rows from which what is left may be a selection
HEAVY = (
    "tails are heavy: cap rewards, and the cap is the end of a reward range; or take logarithms, and the "
    "promise is about those"
)
FAR = 10.0  # times as far apart as logged rewards, from which a range would promise much more


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
    horizon: int  # rounds to come that the promise is judged by

    @property
    def tolerated(self) -> str:
        """What may be lost, in words."""
        if self.gate.relative:
            return (
                f"a budget of {self.gate.budget:g} rounds and a tolerance of {self.gate.epsilon:.0%} of what "
                "the log earns per round"
            )
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
    def misfit_that_matters(self) -> float | None:
        """The misfit that breaks the promise: as much per round as it allows to lose over the horizon."""
        allowed = None if self.certificate is None else self.certificate.loss(self.horizon)
        return None if allowed is None else allowed / self.horizon

    @property
    def fit_power(self) -> float | None:
        """In which part of such logs a misfit that matters would be seen; None where there is no test or no
        promise."""
        if self.fit is None or self.misfit_that_matters is None:
            return None
        return self.fit.power(self.misfit_that_matters)

    @property
    def least_misfit(self) -> float:
        """The smallest misfit that the test of linearity rather sees than misses; 0 where nothing is linear,
        or no arm is judged by that alone."""
        return 0.0 if self.fit is None or self.log.arms.independent else self.fit.least_misfit(SEEN)

    @property
    def blind(self) -> bool:
        """Whether the test of linearity would rather miss than see a misfit that matters."""
        promise = self.certificate
        return promise is not None and is_blind(promise, least_misfit=self.least_misfit, horizon=self.horizon)


def weigh(found: AuditFindings) -> Findings:
    """What speaks for a log and against it, for the one rule of `core.verdicts`."""
    steady = ["early and late rows agree"] if found.drift else []
    return Findings(
        against=(*reasons_in_rows(found), *reasons_in_assumptions(found)),
        missing=(*reasons_in_tails(found), *reasons_in_tests(found)),
        features=tuple(reasons_for_effects(found)),
        blind=tuple(reasons_in_blindness(found)),
        promise=tuple(reasons_in_promise(found)),
        support=(fit_reason(found), *steady),
    )


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
    reasons.extend(bound_reasons(given.bound, found.shortest))
    if found.broken:
        reasons.append(f"the assumptions contradict the log: {found.broken}")
    return reasons


def bound_reasons(bound: float, shortest: float) -> list[str]:
    """That no parameter as short as was said explains the log."""
    if bound >= shortest:
        return []
    return [
        f"the log contradicts bound={exact(bound)}: a linear model needs a parameter of length "
        f"{needed(shortest)} at least"
    ]


def needed(value: float) -> str:
    """A number that something must reach, rounded up: never the same text as one that is too small."""
    return exact(rounded_up(value))


def reasons_in_farthest(found: AuditFindings, scale: float) -> list[str]:
    """A reward so far from its mean that the noise that was stated does not allow it."""
    return farthest_reasons(found.tails, scale, found.log.offline.total, "the mean of its arm")


def farthest_reasons(tails: Tails | None, scale: float, rows: int, centre: str) -> list[str]:
    """A reward so far from where it belongs that noise of this scale does not allow it."""
    if tails is None or tails.distance <= tails.expected * scale:
        return []
    return [
        f"some reward is {amount(tails.distance)} from {centre}, and a noise of {amount(scale)} allows "
        f"{amount(tails.expected * scale)} in {rows:,} rows"
    ]


def reasons_in_tails(found: AuditFindings) -> list[str]:
    """What no log can tell, and nobody said: how far a reward can be from its mean."""
    if found.survives is None or found.confidence is None or "noise" not in found.why:
        return []
    return unstated_reasons(found.confidence, found.log.extent, found.log.offline.total, "an arm's mean")


def unstated_reasons(
    confidence: Confidence, extent: tuple[float, float], count: int, centre: str
) -> list[str]:
    """That the noise is a guess, and what a promise on it survives."""
    rows, limits = f"{count:,}", confidence.reward_range
    said = "nobody said how large or small a reward can be"
    if limits is not None:
        low, high = (exact(end) for end in extent)
        said = f"rewards from {low} to {high} are outside the stated range [{limits[0]:g}, {limits[1]:g}]"
    survives = loss_survived(confidence.scale, count)
    return [
        f"{said}: the noise of {amount(confidence.scale)} is a "
        f"guess from {rows} rows, and what is rarer than that is not in them. State a reward range (and cap "
        "what leaves it), or the noise if you know it",
        f"with that guess the promise survives a loss of {amount(survives)} below {centre} in 3 "
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
    why = why_worthless(promise, earned=surely_earned(offline, found.confidence), horizon=found.horizon)
    if not why:
        return []
    if promise.vacuous:
        part = f". The log earns {amount(offline.reference)} per row: choose a part of that"
        return [f"with {found.tolerated}, {why}" + (part if offline.reference > 0 else "")]
    return [
        f"{why} ({amount(promise.constant)} of the loss is allowed from the first round). More rows, fewer "
        "logged arms, a smaller reward range or a smaller tolerance would help"
    ]


def dropped_share(log: Log) -> float:
    """How many of the rows were bad."""
    return sum(log.bad.values()) / max(log.rows, 1)


def reasons_for_effects(found: AuditFindings) -> list[str]:
    """Why the features alone should not be believed."""
    if found.log.arms.independent:
        return []
    if found.fit is not None and found.fit.rejected:
        return [
            f"rewards are not linear in these features (p = {found.fit.cautious_p:.2g}): the model misses an "
            f"arm's mean by {found.fit.misfit:.2g} on average, so give every arm an effect of its own"
        ]
    if found.fit is not None and found.adaptive and found.fit.cautious_p < DOUBTFUL:
        return [blind_text(found)]
    if found.fit is None and found.coverage.untested.size:
        return [
            f"whether rewards are linear cannot be tested, and {found.coverage.untested.size} unlogged arms "
            "are judged by that alone, so give every arm an effect of its own"
        ]
    return []


def reasons_in_blindness(found: AuditFindings) -> list[str]:
    """Why they should not be believed for this promise: the log could not have shown what breaks it."""
    return [blind_text(found)] if found.blind and not reasons_for_effects(found) else []


def blind_text(found: AuditFindings) -> str:
    """That the log cannot show that rewards are linear."""
    changed = "shares of arms changed, and " if found.adaptive else ""
    p = "" if found.fit is None else f"p = {found.fit.cautious_p:.2g}" + ", times five" * found.adaptive
    return (
        f"{changed}this log cannot show that rewards are linear in these features ({p}; {seen_text(found)}), "
        "so give every arm an effect of its own"
    )


def fit_reason(found: AuditFindings) -> str:
    """Why the model may be believed."""
    if found.log.arms.independent:
        return "every arm has an effect of its own, so no linearity is needed"
    if found.fit is None:
        return "no unlogged arm is judged by the linear model alone"
    return f"the logged means lie where a linear model puts them ({seen_text(found)})"


def seen_text(found: AuditFindings) -> str:
    """How often the test of linearity would see a misfit that matters, in words, and what is asked for."""
    part = 0.0 if found.fit_power is None else found.fit_power
    size = "" if found.misfit_that_matters is None else f" of {amount(found.misfit_that_matters)}"
    return (
        f"a misfit{size}, as large as the loss promised per round, is seen in {part:.0%} of such logs; "
        f"it takes {SEEN:.0%}"
    )


def audit_notes(found: AuditFindings) -> tuple[str, ...]:
    """What a deployer should know, without being a reason for or against."""
    log, names = found.log, found.log.arms.names
    notes = [*log.arms.notes, *log.notes]
    if 0 < dropped_share(log) <= DROPPED:
        lost = sum(log.bad.values())
        notes.append(f"bad rows were dropped ({lost:,}): which ones should not depend on the reward")
    if found.tails is not None and found.tails.heavy and not found.bounded:
        notes.append(HEAVY)
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
