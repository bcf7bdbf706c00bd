"""What the mean of a reward depends on, its arm alone or the context too, and what each test looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from linoto.audit.adaptive import share_p
from linoto.audit.common_shift import shift_of_chosen
from linoto.audit.context_drift import (
    ROWS_NEEDED,
    TOO_MANY,
    EqualContexts,
    are_too_many,
    at_equal_contexts,
    find_turned,
)
from linoto.audit.coverage import (
    Coverage,
    find_context_coverage,
    find_coverage,
    unknown_context_facts,
    unknown_facts,
)
from linoto.audit.curves import Curve, find_curves
from linoto.audit.directions import directions_of
from linoto.audit.drift import Drift, find_drift, size_of_drift, why_untested
from linoto.audit.fit import (
    LackOfFit,
    Linearity,
    LinearityOfContexts,
    fit_of_rows,
    halves_of_kinds,
    lack_of_fit,
    why_no_fit,
)
from linoto.audit.noise import (
    Noise,
    estimate_noise,
    least_scale,
    least_scale_of,
    noise_around_model,
    noisiest_arm,
)
from linoto.audit.promises import GatePromise, find_promise, find_promises
from linoto.audit.sentences import OF_ARMS, OF_MODEL, Centre
from linoto.audit.tails import Tails, find_tails, tails_around_model
from linoto.core.arrays import Floats
from linoto.core.certificates import PRACTICE, Certificate, mean_interval
from linoto.core.confidence import Confidence
from linoto.core.features.recipe import Recipe
from linoto.core.hints import shortened_list
from linoto.core.intervals import Limits
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log
from linoto.logs.rows import Rows


@dataclass(frozen=True, eq=False)
class MeansOfArms:
    """Every arm has one mean, in all rounds."""

    log: Log
    rows: Rows | None = None  # the statistics of such a log tell everything
    centre: Centre = OF_ARMS
    linearity: type[Linearity] = Linearity

    def design(self, *, adaptive: bool) -> Literal["fixed", "adaptive"]:
        """Whether what was played may have followed from anything that was seen before."""
        return "adaptive" if adaptive else "fixed"

    def noise(self, *, limits: Limits | None = None, adaptive: bool = False) -> Noise | None:
        """How much rewards scatter, with an interval for those within limits; None: it cannot be told."""
        return estimate_noise(self.log.offline, limits=limits, adaptive=adaptive)

    def least_noise(self, *, level: float, adaptive: bool) -> float:
        """The smallest sub-Gaussian scale that a log does not refute at this level."""
        return least_scale(self.log.offline, level=level, adaptive=adaptive)

    def noisiest(self) -> float:
        """The largest standard deviation of an arm with many pulls."""
        return noisiest_arm(self.log.offline)

    def tails(self) -> Tails | None:
        """How far rewards are from their means; None where that cannot be told."""
        return find_tails(self.log)

    def fit(self, *, adaptive: bool) -> LackOfFit | None:
        """The test of linearity; None where nothing can be tested."""
        return lack_of_fit(self.log.arms.actions, self.log.offline, adaptive=adaptive)

    def why_no_fit(self) -> str:
        """Why there is none where rounds differ."""
        return ""

    def curves(self) -> tuple[Curve, ...]:
        """Whether numbers of the context bend; none where there are none, or that cannot be told."""
        return ()

    @cached_property
    def compared(self) -> EqualContexts:
        """Early and late, as they are compared."""
        return EqualContexts((self.log.early, self.log.late))

    def drift(self) -> Drift | None:
        """Whether arms earn late what they earned early; None where that cannot be told."""
        return find_drift(self.log.early, self.log.late)

    def why_no_drift(self) -> str:
        """Why it cannot."""
        log = self.log
        for name, half in (("early", log.early), ("late", log.late)):
            if log.offline.total > 1 and not half.total:
                return f"no row is {name}, by {log.split}"
        return self.compared.why or why_untested(log.early, log.late)

    def size_of_drift(self) -> float | None:
        """How far an arm's mean wanders in as many rounds as the log has; None: unknown."""
        return None if self.compared.halves is None else size_of_drift(*self.compared.halves)

    def coverage(self, *, ridge: float, rounds: int) -> Coverage:
        """What the log has looked into."""
        return find_coverage(self.log.arms.actions, self.log.offline, ridge=ridge, rounds=rounds)

    def unknown(self, coverage: Coverage) -> Iterator[tuple[str, str]]:
        """What the log says little or nothing about."""
        return unknown_facts(coverage, self.log.arms)

    def promises(
        self, confidence: Confidence | None, *, budget: float | None, epsilon: float | None
    ) -> tuple[GatePromise, ...]:
        """What each gate that suits the log would promise."""
        return (find_promise(self.log, confidence, budget=budget, epsilon=epsilon),)

    def interval(
        self, certificate: Certificate | None, confidence: Confidence | None, *, adaptive: bool
    ) -> Limits | None:
        """Where the true mean of what was logged lies; None where that is not known."""
        if certificate is not None and certificate.against == PRACTICE:  # which knows nothing of the log
            return interval_of(self.log, confidence, adaptive=adaptive)
        return None if certificate is None else certificate.reference_interval

    def fitted(self) -> Floats | None:
        """(k,) what least squares on the features says of each arm; None where it depends on the context."""
        features = self.log.arms.features
        return np.asarray(features @ directions_of(features).regress(self.log.offline).theta)

    def facts(self) -> Iterator[tuple[str, str]]:
        """The features that contexts are made into."""
        yield from ()

    def recipe_dict(self) -> dict[str, Any] | None:
        """How they are made, as plain JSON data; None without contexts."""
        return None


@dataclass(frozen=True, eq=False)
class MeansOfContexts(MeansOfArms):
    """What an arm earns on average depends on the context: some tests take the rows themselves."""

    centre: Centre = OF_MODEL
    linearity: type[Linearity] = LinearityOfContexts

    def design(self, *, adaptive: bool) -> Literal["fixed", "adaptive"]:
        return "adaptive"  # what is played follows the context, if nothing else

    def noise(self, *, limits: Limits | None = None, adaptive: bool = False) -> Noise | None:
        return noise_around_model(self.log.moments, limits=limits, adaptive=adaptive)

    def least_noise(self, *, level: float, adaptive: bool) -> float:
        around, _ = self.log.moments.residuals()
        return least_scale_of(around, float(self.log.moments.count), level=level)

    def noisiest(self) -> float:
        """The same, less what a context explains on average."""
        own, by_arms, by_model = super().noisiest(), super().noise(), self.noise()
        if by_arms is None or by_model is None or by_arms.value == 0:
            return own
        return own * min(by_model.value / by_arms.value, 1.0)

    def tails(self) -> Tails | None:
        return None if self.rows is None else tails_around_model(self.rows)

    def fit(self, *, adaptive: bool) -> LackOfFit | None:
        return None if self.rows is None else fit_of_rows(self.rows, adaptive=adaptive)

    def why_no_fit(self) -> str:
        return why_no_fit(self.rows)

    def curves(self) -> tuple[Curve, ...]:
        return () if self.rows is None else find_curves(self.rows)

    @cached_property
    def compared(self) -> EqualContexts:
        return at_equal_contexts(self.log, self.rows)

    def drift(self) -> Drift | None:
        halves, late, _ = self.compared
        if halves is None:
            return None
        known = None if self.rows is None or late is None else find_turned(self.log, self.rows, late)
        found = find_drift(*halves, shares=share_p(self.log.early, self.log.late), turned=known)
        if found is None:
            return None
        if found.adaptive:  # what was played may follow what it earned in each context
            common = 1.0
            if self.rows is not None and late is not None:
                common = shift_of_chosen(*halves_of_kinds(self.rows, late)).p
            found = replace(found, common=common)
        why = "shares changed" if found.adaptive else ROWS_NEEDED if late is None else ""
        why = TOO_MANY if not why and are_too_many(self.log) else why
        return replace(
            found,
            early_reference=self.log.early.reference,
            late_reference=self.log.late.reference,
            unlooked=why and f"features are not compared: {why}",
        )

    def coverage(self, *, ridge: float, rounds: int) -> Coverage:
        found = find_context_coverage(self.log.recipe, self.log.moments, ridge=ridge)
        return replace(found, unseen=np.flatnonzero(self.log.offline.pulls == 0))

    def unknown(self, coverage: Coverage) -> Iterator[tuple[str, str]]:
        return unknown_context_facts(coverage, self.log.recipe)

    def promises(
        self, confidence: Confidence | None, *, budget: float | None, epsilon: float | None
    ) -> tuple[GatePromise, ...]:
        return find_promises(self.log, confidence, budget=budget, epsilon=epsilon)

    def interval(
        self, certificate: Certificate | None, confidence: Confidence | None, *, adaptive: bool
    ) -> Limits | None:
        return interval_of(self.log, confidence, adaptive=adaptive)

    def fitted(self) -> Floats | None:
        return None

    def facts(self) -> Iterator[tuple[str, str]]:
        yield "features", f"{self.log.recipe.d:,}: {shortened_list(self.log.recipe.names)}"

    def recipe_dict(self) -> dict[str, Any] | None:
        return self.log.recipe.to_dict()


def interval_of(log: Log, confidence: Confidence | None, *, adaptive: bool) -> Limits | None:
    """Where the true mean of what was logged lies, under these assumptions."""
    limits = None if confidence is None else confidence.reward_range
    if confidence is None or (confidence.noise == "bounded" and (limits is None or log.leaves(limits))):
        return None
    sums = log.totals
    known = replace(confidence, design="adaptive" if adaptive else "fixed")
    return mean_interval(sums.reward_sum, sums.count, sums.reward_squares, known, limits or (-np.inf, np.inf))


def means_of(log: Log, rows: Rows | None) -> MeansOfArms:
    """A log as it is judged: without columns of a context, its arms are fixed ones with these features.

    Where an effect of each item is all there is, the features say nothing and are left out.
    """
    if log.contexts is None:
        return MeansOfArms(log)
    if not log.recipe.items:
        raise ValueError("log must have items to be audited, got one of features alone: name the item column")
    if rows is not None:
        log.recipe.check_same(rows.recipe)
    if log.recipe.context or log.recipe.action:
        return MeansOfContexts(log, rows)
    if log.recipe.knows_items_only:
        return MeansOfArms(replace(log, contexts=None))
    return MeansOfArms(replace(log, contexts=None, arms=made_by(log.recipe)))


def made_by(recipe: Recipe) -> ArmTable:
    """The items of a recipe without columns of a context, as arms with the features that it makes."""
    columns = dict(zip(recipe.names, recipe.transform({}).T.tolist(), strict=True))
    return ArmTable.from_columns(
        {"": list(recipe.items), **columns}, id="", intercept=False, arm_effects=False
    )
