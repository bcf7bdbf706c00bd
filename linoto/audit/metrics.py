"""Are the metrics of guardrails to be counted on? The tests of the reward, of each metric in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from linoto.audit.assume import contradictions, limits_of_rewards
from linoto.audit.bound import shortest_parameter
from linoto.audit.content import DROPPED, dropped_reasons, dropped_share, nothing_tested, too_few_events
from linoto.audit.drift import REMEDY, Drift, drift_dict, drift_fact, drift_reasons
from linoto.audit.fit import Linearity
from linoto.audit.means import MeansOfArms, interval_of, means_of
from linoto.audit.noise import Noise, noise_fact
from linoto.audit.tails import Tails, tails_facts
from linoto.core.confidence import Confidence
from linoto.core.gates import Control
from linoto.core.guardrail import Guardrail
from linoto.core.hints import amount, as_sure_as
from linoto.core.intervals import Limits
from linoto.core.validation import rounded_up
from linoto.core.verdicts import HORIZON, Findings
from linoto.logs.many_tests import TEST_LEVEL
from linoto.logs.metrics import in_values
from linoto.logs.queries import MISSING
from linoto.logs.read import Log
from linoto.logs.rows import Rows

STILL_HOLDS = "its guardrail compares with practice in the same rounds, and does not rest on the log"
LEAVE_OUT = "or leave its bound out, so that its own values pay"
WIDE = 10.0  # times as wide as what the log has, from which a range is worth narrowing


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelFindings:
    """What was found of a linear model of a metric, which rests on the log as that of the reward does."""

    linearity: Linearity
    shortest: float  # what its parameter does not fall below, under these assumptions
    valueless: int  # rows with a reward and without a value of it


@dataclass(frozen=True, kw_only=True, eq=False)
class MetricFindings:
    """What was found of a metric."""

    guardrail: Guardrail
    means: MeansOfArms  # with its values in the place of rewards
    confidence: Confidence  # its part of delta
    interval: Limits | None  # where the true mean of what was logged lies; None: a value left the range
    noise: Noise | None
    tails: Tails | None
    drift: Drift | None
    model: ModelFindings | None = None  # where it has a bound, so that the model may pay

    @property
    def log(self) -> Log:
        """The log of the metric."""
        return self.means.log

    @property
    def gate(self) -> Control:
        """What keeps its promise."""
        return Control(budget=self.guardrail.budget, epsilon=self.guardrail.rate)

    def weighed(self) -> Findings:
        """What speaks against counting on it, each sentence with its name.

        Drift, missing values and too few events do not, unless the model may pay: a guardrail compares with
        practice in the same rounds, not with the log.
        """
        log, model = self.log, self.model
        shortest = 0.0 if model is None else model.shortest
        left = contradictions(log, self.confidence, least_noise=0.0, farthest=(), shortest=shortest)
        unread = {kind: count for kind, count in log.bad.items() if kind != MISSING}
        against = *dropped_reasons(replace(log, bad=unread)), *left
        if model is None:
            return Findings(against=self.told(*against), promise=self.told(*self.closed()))
        tested = model.linearity.fit is not None or self.drift is not None
        untested = "" if tested else self.means.why_no_drift()
        return Findings(
            against=self.told(*against, *self.against_model(model)),
            missing=self.told(*nothing_tested(log, untested=untested)),
            features=self.told(*(() if model.linearity.wrong() else model.linearity.features())),
        )

    def against_model(self, model: ModelFindings) -> Iterator[str]:
        """What contradicts that the model may pay."""
        if model.valueless:
            share = f"{model.valueless:,} of {self.log.offline.total + model.valueless:,} rows have no value"
            yield f"{share} of it, and the model takes one of every row: leave them out, {LEAVE_OUT}"
        yield from drift_reasons(self.drift, self.log, self.means.centre)
        if wrong := model.linearity.wrong():
            yield f"{wrong}, {LEAVE_OUT}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a deployer should know of it."""
        if self.model is not None:  # what is below counts, and another budget may do
            return self.told(*(f"{text}; behind a Tolerance the model may pay" for text in self.closed()))
        log, few = self.log, too_few_events(self.log)
        drifted = (text.removesuffix(REMEDY) for text in drift_reasons(self.drift, log, self.means.centre))
        found = [*self.missing(), *([few] if few else []), *drifted]
        return self.told(*(f"{text}; {STILL_HOLDS}" for text in found))

    def missing(self) -> Iterator[str]:
        """That so many values are missing that the others may be a selection."""
        log, missing = self.log, self.log.bad.get(MISSING, 0)
        if missing > DROPPED * log.rows:
            share = f"{missing:,} of {log.rows:,} values are missing ({missing / log.rows:.1%})"
            yield f"{share}, and those that are left may not be like them"

    def told(self, *sentences: str) -> tuple[str, ...]:
        """Sentences about this metric."""
        return tuple(f"{self.guardrail.label}: {in_values(text)}" for text in sentences)

    def closed(self) -> Iterator[str]:
        """Why its ledger would never open, if so."""
        if not self.gate.opens(self.confidence):
            yield (
                f"with a budget of {amount(self.guardrail.budget)} nothing is learned before it is spent: "
                f"give {amount(rounded_up(self.gate.opening(self.confidence)))} or more, or a small rate"
            )

    def facts(self) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        name, log = self.guardrail.label, self.log
        rows = [(name, self.headline), ("values", self.values_fact())]
        if log.bad:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in log.bad.items() if count)
            rows.append(("left out", f"{dropped_share(log):.2%} of {log.rows:,} rows: {kinds}"))
        if log.extent[1] - log.extent[0] < self.guardrail.width / WIDE:
            rows.append(("range", "much wider than what was logged: a budget is counted in its width"))
        rows.append(("noise", noise_fact(self.noise, self.means.centre)))
        rows += tails_facts(None if log.binary else self.tails, log, self.means.centre._replace(no_tails=""))
        if self.model is not None:
            rows.append(("linear?", self.model.linearity.fact()))
        rows.append(("steady?", drift_fact(self.drift, log, self.means.why_no_drift())))
        return [(part if part == name else f"{name}: {part}", in_values(text)) for part, text in rows]

    @property
    def headline(self) -> str:
        """What is better of it, what is promised, and that so little would never open it."""
        better = "lower" if self.guardrail.lower_is_better else "higher"
        closed = self.closed() if self.model is None else ()
        return "; ".join((f"{better} is better", self.guardrail.text("practice"), *closed))

    def values_fact(self) -> str:
        """The mean with its interval, the extremes and the range."""
        low, high = (end + 0.0 for end in self.log.extent)  # never "-0"
        mean, within = amount(self.log.offline.reference + 0.0), ""
        if self.interval is not None:
            mean, *ends = as_sure_as(self.log.offline.reference, *self.interval)
            within = f"; the true mean of what was logged lies in [{', '.join(ends)}]"
        ends = [amount(end) for end in self.guardrail.reward_range]
        return f"mean {mean}, from {amount(low)} to {amount(high)}, range [{', '.join(ends)}]{within}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        log, found, model = self.log, self.weighed(), self.model
        tested = (
            {} if model is None else {"lack_of_fit": model.linearity.to_dict(), "shortest": model.shortest}
        )
        return tested | {
            "guardrail": asdict(self.guardrail),
            "rows": {"used": log.offline.total, "bad": log.bad},
            "mean": log.offline.reference,
            "mean_interval": self.interval,
            "low": log.extent[0],
            "high": log.extent[1],
            "noise": None if self.noise is None else asdict(self.noise),
            "tails": None if self.tails is None else asdict(self.tails) | {"heavy": self.tails.heavy},
            "drift": None if self.drift is None else drift_dict(self.drift, log),
            "least_budget": self.gate.opening(self.confidence),
            "reasons": [*found.against, *found.missing, *found.features, *found.promise],
        }


def look_at_metrics(
    log: Log, rows: Rows | None, *, delta: float, adaptive: bool
) -> tuple[MetricFindings, ...]:
    """What the tests of the reward find in each metric of a log."""
    share = delta / (1 + len(log.guardrails))
    return tuple(look_at_metric(log, rows, rail, delta=share, adaptive=adaptive) for rail in log.guardrails)


def look_at_metric(
    log: Log, rows: Rows | None, rail: Guardrail, *, delta: float, adaptive: bool
) -> MetricFindings:
    """What they find in one."""
    own = rows.about(rail.name) if rows is not None and rail.name in rows.metrics else None
    means = means_of(log.metrics[rail.name], own)
    known = Confidence(
        noise="bounded",
        reward_range=rail.reward_range,
        bound=rail.bound or 1.0,
        delta=delta,
        design=means.design(adaptive=adaptive),
    )
    limits = limits_of_rewards(means.log, known)
    valueless = max(log.offline.total - means.log.offline.total, 0)
    return MetricFindings(
        guardrail=rail,
        means=means,
        confidence=known,
        interval=interval_of(means.log, known, adaptive=adaptive),
        noise=means.noise(limits=limits, adaptive=adaptive),
        tails=means.tails(),
        drift=means.drift(),
        model=None
        if rail.bound is None
        else look_at_model(means, known, valueless, loss=rail.loss(HORIZON), adaptive=adaptive),
    )


def look_at_model(
    means: MeansOfArms, known: Confidence, valueless: int, *, loss: float, adaptive: bool
) -> ModelFindings:
    """What the tests of the reward's model find in that of a metric, of which so many rows have no value.

    `loss` is the most that may be lost of it over the horizon.
    """
    log, fit = means.log, means.fit(adaptive=adaptive)
    ridge = known.ridge_for(len(log.features.labels))
    return ModelFindings(
        linearity=means.linearity(
            fit=fit,
            curves=means.curves(),
            log=log,
            centre=means.centre,
            adaptive=adaptive,
            untested=means.coverage(ridge=ridge, rounds=HORIZON).untested.size,
            certificate=None,
            horizon=HORIZON,
            allowed=loss,
            untestable="" if fit is not None else means.why_no_fit(),
        ),
        shortest=shortest_parameter(*log.features.design, noise=known.scale, delta=TEST_LEVEL),
        valueless=valueless,
    )
