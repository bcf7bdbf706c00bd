"""What the paper says its experiments show, sentence by sentence, and what the measurements say.

A sentence has one or more parts. Each part puts one quantity into an interval. The quantity is measured
once per run, all policies in the same worlds, and printed as mean ± margin: the half width of its 95 %
interval (Student's t, for a ratio by the delta method). What is printed decides, and nothing else does:

    holds          all of mean ± margin is inside what is claimed
    does not hold  all of it is outside
    undecided      otherwise, and where a single run or a unit of 0 leaves no margin

A quantity that is the same in every run has a margin of 0 and is always decided; one that is exactly at the
end of its interval is inside where the sentence says "at least", outside where it says "above". No
correction is made for asking many questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, inf, isfinite, isinf, log10, nan, sqrt
from typing import Any, Concatenate, Literal, ParamSpec

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.codec import finite
from linoto.core.intervals import student
from linoto.experiments import paper
from linoto.experiments.results import Results, mean_and_error

ClaimResult = Literal["holds", "does not hold", "undecided"]
RESULTS: tuple[ClaimResult, ...] = ("does not hold", "undecided", "holds")
SAME = 0.05  # "matching", "very similar": within 5 %
CLOSELY = 0.10  # "closely tracks", "nearly as well": within 10 %
EARLY = 100  # "early", "initially": the first hundred rounds
ROUNDING = 1e-9  # of a share or of a reward per round: less is a rounding error, not a difference
MOST_DIGITS = 9
NORMAL = 1.96


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A part of a sentence: a mean over runs, or a ratio of two means, and the interval that is claimed."""

    label: str
    values: Floats  # (runs,)
    per: Floats | None = None  # (runs,) the unit, none negative: the quantity is mean(values) / mean(per)
    low: float = -inf
    high: float = inf
    or_equal: bool = False  # whether the ends of the interval are inside
    percent: bool = True  # how to print it

    @property
    def mean(self) -> float:
        """The measured quantity; NaN where its unit is 0."""
        unit = self._unit.mean()
        return float(self.values.mean() / unit) if unit else nan

    @property
    def error(self) -> float:
        """Its standard error, for a ratio by the delta method; NaN for a single run."""
        unit = self._unit.mean()
        return float(mean_and_error((self.values - self.mean * self._unit) / unit)[1]) if unit else nan

    @property
    def margin(self) -> float:
        """Half the width of its 95 % interval: what is printed and what decides; NaN for a single run."""
        error = self.error
        return student(self.values.size - 1) * error if isfinite(error) else nan

    @property
    def result(self) -> ClaimResult:
        """By the rule at the top of this file."""
        mean, margin = self.mean, self.margin
        if not isfinite(margin):
            return "undecided"
        if margin <= ROUNDING:
            nearer = min((self.low, self.high), key=lambda end: abs(end - mean))
            if abs(nearer - mean) <= ROUNDING:  # exactly at an end
                return "holds" if self.or_equal else "does not hold"
        return result_of(mean - margin, mean + margin, self.low, self.high)

    def __str__(self) -> str:
        mean, margin, sign = self.mean, self.margin, " %" if self.percent else ""
        if not isfinite(mean):
            return "cannot be said: its unit is 0"
        if not isfinite(margin):
            return f"{self._number(mean)}{sign}"
        return f"{self._number(mean)} ± {self._number(margin)}{sign}"

    def _number(self, value: float) -> str:
        unit, digits = 100 if self.percent else 1, self._digits
        return f"{0.0 + round(unit * value, digits):.{digits}f}"  # 0.0 +: never -0.0

    @property
    def _digits(self) -> int:
        """So many that two of the margin are seen, and that what is printed gives the result by itself."""
        unit, usual = (100, 1) if self.percent else (1, 3)
        mean, margin = unit * self.mean, unit * self.margin
        if not margin > unit * ROUNDING:  # none, or a rounding error
            return usual
        digits = max(usual, 1 - floor(log10(margin)))
        low, high = unit * self.low, unit * self.high
        while digits < MOST_DIGITS:
            ends = round(mean, digits) - round(margin, digits), round(mean, digits) + round(margin, digits)
            if result_of(*ends, low, high) == self.result:
                break
            digits += 1
        return digits

    @property
    def wanted(self) -> str:
        """The interval of the claim, in words."""
        low, high = (f"{100 * end:.3g} %" if self.percent else f"{end:.3g}" for end in (self.low, self.high))
        if isinf(self.low):
            return f"{'at most' if self.or_equal else 'below'} {high}"
        return f"{'at least' if self.or_equal else 'above'} {low}" if isinf(self.high) else f"{low} to {high}"

    @property
    def turning(self) -> str:
        """What would change the result: another limit, or so many runs with this mean and spread."""
        if self.values.size < 2 or not isfinite(self.mean):
            return "more runs"
        if self.result == "undecided":
            return f"about {runs:,} runs" if (runs := self._runs_to_decide()) else "no number of runs"
        reach = self.margin
        gaps = {self.mean - reach: self.mean - self.low, self.mean + reach: self.high - self.mean}
        end = min(gaps, key=lambda limit: gaps[limit])  # towards the limit that is nearest, or exceeded most
        if self.result == "does not hold":
            end = 2 * self.mean - end
        return f"a limit of {self._number(end)}{' %' if self.percent else ''}"

    def _runs_to_decide(self) -> int:
        """How many runs decide every open side if mean and spread stay; 0: more than a million."""
        needed = 0.0
        for bound in (self.low, self.high):
            gap = abs(self.mean - bound)
            if gap > self.margin:
                continue
            ratio = NORMAL * self.error / gap if gap > ROUNDING else inf
            needed = max(needed, self.values.size * ratio**2)
        return 0 if needed > 1e6 else round_up(needed)

    @property
    def _unit(self) -> Floats:
        return np.ones(self.values.size) if self.per is None else self.per


Measure = Callable[[Results], Iterable[Measurement]]
Options = ParamSpec("Options")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence, where it stands, and how it is measured in the results of one experiment."""

    name: str
    quote: str
    source: str
    experiment: str
    measure: str
    measurements: Measure
    ours: bool = False  # not in the paper: an answer to a claim that does not hold


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedClaim:
    """A claim and what was measured."""

    claim: Claim
    measurements: tuple[Measurement, ...]
    with_exact: tuple[Measurement, ...] = ()  # with the exact budget in place of the paper's, if run with it

    @property
    def result(self) -> ClaimResult:
        """Of the sentence as a whole: the worst of its parts."""
        return worst_of(self.measurements)

    @property
    def exact(self) -> ClaimResult | None:
        """The result with the exact budget; None: not run with it."""
        return worst_of(self.with_exact) if self.with_exact else None

    @property
    def changed_by_exact(self) -> dict[str, ClaimResult]:
        """The parts that have another result with the exact budget, and that result."""
        pairs = zip(self.measurements, self.with_exact, strict=False)
        return {one.label: other.result for one, other in pairs if other.result != one.result}

    @property
    def parts(self) -> dict[ClaimResult, tuple[str, ...]]:
        """The labels of its parts by their result, those that fail first."""
        found = {
            result: tuple(part.label for part in self.measurements if part.result == result)
            for result in RESULTS
        }
        return {result: labels for result, labels in found.items() if labels}

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        claim = self.claim
        return {
            "name": claim.name,
            "experiment": claim.experiment,
            "quote": claim.quote,
            "source": claim.source,
            "ours": claim.ours,
            "measure": claim.measure,
            "verdict": self.result,
            "parts": {result: list(labels) for result, labels in self.parts.items()},
            "exact_budget": self.exact,
            "changed_by_exact": self.changed_by_exact,
            "measurements": [
                {
                    "label": measurement.label,
                    "mean": finite(measurement.mean),
                    "se": finite(measurement.error),
                    "margin": finite(measurement.margin),
                    "low": finite(measurement.low),
                    "high": finite(measurement.high),
                    "text": str(measurement),
                    "wanted": measurement.wanted,
                    "turning": measurement.turning,
                    "verdict": measurement.result,
                }
                for measurement in self.measurements
            ],
        }


def check_claims(claims: Iterable[Claim], results: Mapping[str, Results]) -> list[CheckedClaim]:
    """Those of the claims that these experiments, by name, can decide."""
    return [check_claim(claim, results[claim.experiment]) for claim in claims if claim.experiment in results]


def check_claim(claim: Claim, results: Results) -> CheckedClaim:
    """One claim, with the budget as the paper computes it, and with the exact one where that was run."""
    exact: tuple[Measurement, ...] = ()
    if all(paper.EXACT in setting.labels for setting in results.experiment.settings):
        exact = tuple(claim.measurements(replace(results, stand_ins={paper.LINOTO: paper.EXACT})))
    return CheckedClaim(claim=claim, measurements=tuple(claim.measurements(results)), with_exact=exact)


def worst_of(measurements: Iterable[Measurement]) -> ClaimResult:
    """One failure is enough, and all must hold."""
    found = {measurement.result for measurement in measurements}
    if "does not hold" in found:
        return "does not hold"
    return "undecided" if "undecided" in found else "holds"


def result_of(least: float, most: float, low: float, high: float) -> ClaimResult:
    """Whether all of an interval is inside what is claimed, or outside.

    >>> result_of(1, 2, low=0, high=5), result_of(6, 7, low=0, high=5), result_of(4, 6, low=0, high=5)
    ('holds', 'does not hold', 'undecided')
    """
    if low < least and most < high:
        return "holds"
    return "does not hold" if most < low or high < least else "undecided"


def round_up(runs: float) -> int:
    """To two digits.

    >>> round_up(1234.5), round_up(12.1)
    (1300, 13)
    """
    step = int(10 ** max(len(str(ceil(runs))) - 2, 0))
    return ceil(runs / step) * step


# -- quantities -------------------------------------------------------------------------------------------


Ratio = tuple[Floats, Floats]  # values and their unit, per run


def excess(results: Results, setting: str, label: str, over: str, round: int) -> Ratio:
    """How much larger the regret of one policy is than another's at a round, relative to the other's."""
    other = results.at(setting, over, "regret", round)
    return results.at(setting, label, "regret", round) - other, other


def saving(results: Results, setting: str, label: str, over: str, round: int) -> Ratio:
    """How much smaller the regret of one policy is than another's at a round, relative to the other's."""
    more, other = excess(results, setting, label, over, round)
    return -more, other


def distance(values: Floats, per: Floats) -> Floats:
    """(runs,) |mean(values)| / mean(per), with each run's part in it: by the delta method, the sign as it is.

    Their mean is the distance of the means, not the mean of the runs' distances, which noise alone keeps
    above 0; their standard error is that of the distance.
    """
    unit = float(per.mean()) or nan
    ratio = values.mean() / unit
    return np.asarray(np.copysign(1.0, ratio) * (ratio + (values - ratio * per) / unit))


def late_share(results: Results, setting: str, label: str) -> Ratio:
    """The share of the regret that falls in the second half of the rounds: one half where it is linear."""
    half = results.experiment.setting(setting).horizon // 2
    final = results.final(setting, label, "regret")
    return final - results.at(setting, label, "regret", half), final


def late_rate(results: Results, setting: str, label: str) -> Ratio:
    """Regret per round in the last tenth of the rounds, as a share of Random's."""
    horizon = results.experiment.setting(setting).horizon

    def last_tenth(name: str) -> Floats:
        before = results.at(setting, name, "regret", horizon - horizon // 10)
        return results.final(setting, name, "regret") - before

    return last_tenth(label), last_tenth("Random")


def explored_share(results: Results, setting: str, label: str, start: int, stop: int) -> Floats:
    """The share of the rounds after `start` and up to `stop` in which the explorer's arm was played."""
    before = results.at(setting, label, "explored", start) if start else 0.0
    return np.asarray((results.at(setting, label, "explored", stop) - before) / (stop - start))


def names(results: Results) -> list[str]:
    """The settings of an experiment."""
    return [setting.name for setting in results.experiment.settings]


# -- measurements -----------------------------------------------------------------------------------------


def measured(
    measure: Callable[Concatenate[Results, Options], Iterable[Measurement]],
) -> Callable[Options, Measure]:
    """The same measurements, of which the options are said first and the results come later."""

    def of_options(*given: Options.args, **named: Options.kwargs) -> Measure:
        return lambda results: measure(results, *given, **named)

    return of_options


@measured
def in_parts(results: Results, /, **parts: Measure) -> Iterable[Measurement]:
    """A sentence that says several things: each is measured, and each gets its own result."""
    for name, measured in parts.items():
        for part in measured(results):
            yield replace(part, label=f"{part.label}, {name.replace('_', ' ')}")


@measured
def within(
    results: Results, label: str, over: str, round: int, tolerance: float, only: tuple[str, ...] = ()
) -> Iterable[Measurement]:
    """One policy's regret within a tolerance of another's, in every setting or in some."""
    for setting in only or names(results):
        values, per = excess(results, setting, label, over, round)
        yield Measurement(label=setting, values=values, per=per, low=-tolerance, high=tolerance)


@measured
def linear(results: Results, label: str) -> Iterable[Measurement]:
    """Half of the regret in each half, give or take 2.5 %."""
    for setting in names(results)[-1:] if results.experiment.name == "horizon" else names(results):
        values, per = late_share(results, setting, label)
        yield Measurement(label=setting, values=values, per=per, low=0.475, high=0.525)


@measured
def sublinear(results: Results, label: str, *only: str) -> Iterable[Measurement]:
    """Less than half of the regret in the second half."""
    for setting in only or names(results):
        values, per = late_share(results, setting, label)
        yield Measurement(label=setting, values=values, per=per, high=0.5)


def similar_late(results: Results) -> Iterable[Measurement]:
    """LinOtO's regret in the second half of 8000 rounds within 10 % of LinUCB's."""
    ours, ucb = (late_share(results, "n=8000", label)[0] for label in ("LinOtO", "LinUCB"))
    yield Measurement(label="n=8000", values=ours - ucb, per=ucb, low=-CLOSELY, high=CLOSELY)


def between(results: Results) -> Iterable[Measurement]:
    """LinOtO's regret at least the smaller and at most the larger of the two others': equal is between."""
    for setting in names(results):
        ucb, lcb, ours = (results.final(setting, name, "regret") for name in ("LinUCB", "LinLCB", "LinOtO"))
        better, worse = (ucb, lcb) if ucb.mean() <= lcb.mean() else (lcb, ucb)
        below, above = ("LinUCB", "LinLCB") if better is ucb else ("LinLCB", "LinUCB")
        for name, values, per in (
            (f"above {below}", ours - better, better),
            (f"below {above}", worse - ours, worse),
        ):
            yield Measurement(label=f"{setting}, {name}", values=values, per=per, low=0, or_equal=True)


@measured
def improves(results: Results, label: str) -> Iterable[Measurement]:
    """The regret falls from each setting to the next."""
    for before, after in zip(names(results), names(results)[1:], strict=False):
        first = results.final(before, label, "regret")
        fall = first - results.final(after, label, "regret")
        yield Measurement(label=f"{before} to {after}", values=fall, per=first, low=0)


def nearly_the_better(results: Results) -> Iterable[Measurement]:
    """LinOtO's regret at most 10 % above that of the better of LinUCB and LinLCB, by their means.

    Measured the other way round, the better's as a share of LinOtO's: LinLCB's may be 0, LinOtO's is not.
    """
    for setting in names(results):
        rivals = [results.final(setting, name, "regret") for name in ("LinUCB", "LinLCB")]
        better = min(rivals, key=lambda values: float(values.mean()))
        ours = results.final(setting, "LinOtO", "regret")
        yield Measurement(label=setting, values=better, per=ours, low=1 / (1 + CLOSELY), or_equal=True)


def explores(results: Results) -> Iterable[Measurement]:
    """LinOtO explores in more than half of the last half of the rounds."""
    for setting in results.experiment.settings:
        n = setting.horizon
        late = explored_share(results, setting.name, "LinOtO", n // 2, n)
        yield Measurement(label=setting.name, values=late, low=0.5)


@measured
def loses(results: Results, label: str) -> Iterable[Measurement]:
    """The regret of a policy, as a share of Random's, is above 0."""
    for setting in names(results):
        values, per = (results.final(setting, name, "regret") for name in (label, "Random"))
        yield Measurement(label=setting, values=values, per=per, low=0)


def transition(results: Results) -> Iterable[Measurement]:
    """LinOtO explores more often in the last half of the longest horizon than in its first eighth."""
    setting, n = names(results)[-1], results.experiment.settings[-1].horizon
    late = explored_share(results, setting, "LinOtO", n // 2, n)
    yield Measurement(
        label=setting, values=late - explored_share(results, setting, "LinOtO", 0, n // 8), low=0
    )


def lower_start(results: Results) -> Iterable[Measurement]:
    """LinOtO's regret below LinUCB's in the first rounds."""
    values, per = saving(results, "n=8000", "LinOtO", "LinUCB", EARLY)
    yield Measurement(label=f"t={EARLY}", values=values, per=per, low=0)


def closer_with_size(results: Results) -> Iterable[Measurement]:
    """The mean regrets of LinOtO and LinUCB are nearer at m = 1000 than at m = 100, each pair by itself."""
    few, many = (distance(*excess(results, name, "LinOtO", "LinUCB", 8000)) for name in ("m=100", "m=1000"))
    yield Measurement(label="distance at m=100 less that at m=1000", values=few - many, low=0)


def safer_with_size(results: Results) -> Iterable[Measurement]:
    """The shortfall of LinOtO below the log falls with m, per round."""
    for before, after in zip(names(results), names(results)[1:], strict=False):
        fall = results.final(before, "LinOtO", "offline_regret") - results.final(
            after, "LinOtO", "offline_regret"
        )
        yield Measurement(label=f"{before} to {after}", values=fall / 8000, low=0, percent=False)


def pessimism_best(results: Results) -> Iterable[Measurement]:
    """LinLCB's regret below both others'."""
    for setting in names(results):
        for rival in ("LinUCB", "LinOtO"):
            values, per = saving(results, setting, "LinLCB", rival, 8000)
            yield Measurement(label=f"{setting}, below {rival}", values=values, per=per, low=0)


def near_zero(results: Results) -> Iterable[Measurement]:
    """LinLCB's regret at most 5 % of Random's."""
    for setting in names(results):
        values, per = (results.final(setting, name, "regret") for name in ("LinLCB", "Random"))
        yield Measurement(label=setting, values=values, per=per, high=SAME, or_equal=True)


@measured
def cheap(results: Results, scale: float) -> Iterable[Measurement]:
    """The regret of LinUCB and LinOtO, which is what exploring costs, at most 10 % of Random's."""
    for setting in names(results):
        for label in paper.smaller_radius(scale):
            values, per = (results.final(setting, name, "regret") for name in (label, "Random"))
            who = f"{setting}, {label.split(' ')[0]}"
            yield Measurement(label=who, values=values, per=per, high=CLOSELY, or_equal=True)


@measured
def converged(results: Results, scale: float) -> Iterable[Measurement]:
    """LinUCB and LinOtO, late, at most 10 % of Random's regret per round."""
    for setting in names(results):
        for label in paper.smaller_radius(scale):
            values, per = late_rate(results, setting, label)
            who = f"{setting}, {label.split(' ')[0]}"
            yield Measurement(label=who, values=values, per=per, high=CLOSELY, or_equal=True)


def flat_gap(results: Results) -> Iterable[Measurement]:
    """R_n(LinOtO) - R_n(LinUCB) no larger at n than at n/2, give or take 5 % of LinUCB's regret."""
    for setting in results.experiment.settings:
        n = setting.horizon
        gaps = [
            results.at(setting.name, "LinOtO", "regret", t) - results.at(setting.name, "LinUCB", "regret", t)
            for t in (n // 2, n)
        ]
        ucb = results.final(setting.name, "LinUCB", "regret")
        yield Measurement(label=setting.name, values=gaps[1] - gaps[0], per=ucb, high=SAME)


def doubling_cost(results: Results) -> Iterable[Measurement]:
    """The regret of doubling at most sqrt(2)/(sqrt(2)-1) times that of a known horizon."""
    most = sqrt(2) / (sqrt(2) - 1)
    for setting in names(results):
        values, per = (results.final(setting, name, "regret") for name in ("doubling", "known horizon"))
        yield Measurement(label=setting, values=values, per=per, high=most, percent=False)


def large_alpha(results: Results) -> Iterable[Measurement]:
    """At the largest alpha the regret is LinUCB's within 5 %, early and late."""
    for setting in names(results):
        for round in (1000, 8000):
            values, per = excess(results, setting, paper.named(paper.ALPHAS[-1]), "LinUCB", round)
            where = f"{setting}, t={round}"
            yield Measurement(label=where, values=values, per=per, low=-SAME, high=SAME)


def more_often_positive(results: Results) -> Iterable[Measurement]:
    """The budget is positive, and so the explorer's arm played, more often at the largest alpha."""
    small, large = paper.named(paper.ALPHAS[0]), paper.named(paper.ALPHAS[-1])
    for setting in results.experiment.settings:
        few, many = (
            explored_share(results, setting.name, label, 0, setting.horizon) for label in (small, large)
        )
        yield Measurement(label=setting.name, values=many - few, low=0)


@measured
def mostly_safe(results: Results, round: int) -> Iterable[Measurement]:
    """At the smallest alpha more than half of the rounds are played safe."""
    for setting in names(results):
        safe = 1 - explored_share(results, setting, paper.named(paper.ALPHAS[0]), 0, round)
        yield Measurement(label=setting, values=safe, low=0.5)


def tradeoff(results: Results) -> Iterable[Measurement]:
    """From the smallest to the largest alpha, regret falls while the early shortfall rises, per round."""
    small, large = paper.named(paper.ALPHAS[0]), paper.named(paper.ALPHAS[-1])
    for setting in names(results):
        gain = results.final(setting, small, "regret") - results.final(setting, large, "regret")
        cost = results.at(setting, large, "offline_regret", 1000) - results.at(
            setting, small, "offline_regret", 1000
        )
        yield Measurement(
            label=f"{setting}, regret per round falls by", values=gain / 8000, low=0, percent=False
        )
        yield Measurement(
            label=f"{setting}, shortfall below the log in 1000 rounds, per round, rises by",
            values=cost / 1000,
            low=0,
            percent=False,
        )
