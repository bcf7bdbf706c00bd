"""Certificates: what is guaranteed, said before the first round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import floor, isfinite, log, nan, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.confidence import REFUTED, Confidence, least_scale, why_noise_refuted
from linoto.core.false_bounds import contradicts_bound
from linoto.core.features.moments import Moments
from linoto.core.guardrail import Guardrail
from linoto.core.hints import amount, as_sure_as, counted
from linoto.core.intervals import mean_from_total
from linoto.core.kernels import State
from linoto.core.notebook import html_table, text_table
from linoto.core.offline import Offline
from linoto.core.one_hot import summed_squares
from linoto.core.opening import opening_budget, spent_text
from linoto.core.validation import exact, interval_text, rounded_up

LOG, PRACTICE = "the mean reward of the log", "current practice in the explored rounds"
SAME_ROUNDS = "what practice earns on average in the same rounds"
OF_METRICS = {LOG: "the log", SAME_ROUNDS: "what practice has on average in the same rounds"}
MODEL_OF_METRIC = (
    "by the model: its means are linear in the features, |theta| is at most {}, no drift of this metric "
    "since the log, and it is by chance that a value does not come"
)
NEGLIGIBLE = 0.05  # of the radius: how much ridge bias the paper's radius may leave out and still hold


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """With probability 1 - delta, for every t at once, the first t rounds together earn at most
    `per_round * t + constant` less than as many rounds of the log's mean reward.

    A gate may compare with something else: then `against` says with what, there is no `reference`, and
    `theorem` says what is counted. Where `holds` is False there is no promise and `theorem` says why.
    """

    holds: bool
    theorem: str
    delta: float
    reference: float | None  # mean logged reward, the estimate of mu_off; None without a log
    reference_interval: tuple[float, float]  # of mu_off, at the same delta, whatever the dimension
    per_round: float | None
    constant: float | None  # the budget, and the rounding of the logging mixture
    budget: float | None
    kappa: float | None  # of the logging mixture, where it is the fallback: its rounding is kappa (hi - lo)
    reward_range: tuple[float, float]  # of mean rewards: as given, or as bound and actions allow
    vacuous: bool  # no play could lose more than this promises, in however many rounds
    realised: bool  # explored plays count as what they really earned, not as their mean rewards
    assumes: tuple[str, ...]
    not_assumed: tuple[str, ...] = ()
    against: str = LOG
    changes: tuple[str, ...] = ()  # of the arms since the first round, and what they did to the promise
    every: int | None = None  # the same is promised of each stretch of rounds from a multiple of this on
    by_model: bool = False  # whether it breaks where mean rewards are not linear in the features
    guardrails: tuple[Guardrail, ...] = ()  # metrics besides the reward, promised with it
    roundings: tuple[float, ...] = ()  # what of each is lost besides, where the mixture is rounded

    def __post_init__(self) -> None:
        rails = [Guardrail(**rail) if isinstance(rail, dict) else rail for rail in self.guardrails]
        object.__setattr__(self, "guardrails", tuple(rails))
        object.__setattr__(self, "roundings", tuple(self.roundings))

    def loss(self, rounds: int) -> float | None:
        """The most that can be lost, below what `against` names, in so many rounds."""
        if self.per_round is None or self.constant is None:
            return None
        return self.per_round * rounds + self.constant

    def excess(self, shortfall: Floats) -> float:
        """How far a shortfall (n,), cumulative, was ever above what is promised: > 0 is a violation.

        NaN where nothing is promised.
        """
        if self.per_round is None or self.constant is None:
            return nan
        return largest_excess(shortfall, per_round=self.per_round, once=self.constant, every=self.every)

    @property
    def possible(self) -> float:
        """The most that a round can lose: the upper end of what the log earns, less the worst reward."""
        return self.reference_interval[1] - self.reward_range[0]

    @property
    def says_something_from(self) -> int | None:
        """The first round from which on less is promised to be lost than any play could lose; None: never."""
        if self.per_round is None or self.constant is None or self.vacuous or not isfinite(self.constant):
            return None
        return floor(self.constant / (self.possible - self.per_round)) + 1

    def to_dict(self, *, rounds: int | None = None) -> dict[str, Any]:
        """Plain JSON data; for a horizon also the loss over it, and from where on that says something."""
        data = asdict(self)  # without a horizon no more than this: Certificate(**data) must read it
        for name in ("guardrails", "roundings"):
            if not data[name]:
                del data[name]
        if rounds is not None:
            data |= {"rounds": rounds, "loss": self.loss(rounds)}
            data["says_something_from"] = self.says_something_from
        return data

    def to_json(self, *, rounds: int | None = None) -> str:
        """The same as text; the end of a range that nobody knows is null."""
        data = self.to_dict(rounds=rounds)
        for name in ("reward_range", "reference_interval"):
            data[name] = [end if isfinite(end) else None for end in data[name]]
        return json.dumps(data, indent=2, allow_nan=False)

    def rows(self, *, rounds: int | None = None) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        low, high = self.reference_interval
        lines = [("promise", "holds" if self.holds else "none"), ("why", self.theorem)]
        if self.holds and self.against != LOG:
            lines.append(("compared with", self.against))
        if self.reference is not None:
            mean, least, most = as_sure_as(self.reference, low, high)
            lines.append(("mean reward of the log", f"{mean}, within [{least}, {most}]"))
        if not self.holds:
            return lines
        if self.per_round:
            once = "once" if self.every is None else "in each stretch"
            lines.append(
                ("most lost per round", f"{amount(self.per_round)}, plus {amount(self.constant)} {once}")
            )
        elif self.every is not None:
            lines.append(("most lost in a stretch", f"{amount(self.constant)}, however long it is"))
        else:
            lines.append(("most lost in all", f"{amount(self.constant)}, however many rounds"))
        if self.kappa is not None:
            lines.append(("kappa", f"{amount(self.kappa)} (rounding of the logging mixture)"))
        if rounds is not None:
            plural = "" if rounds == 1 else "s"
            lines.append((f"most lost in {rounds} round{plural}", self.lost_text(rounds)))
        lines.append(("vacuous", self.vacuous_text(rounds)))
        lines.extend((rail.label, self.guardrail_text(rail, rounds)) for rail in self.guardrails)
        all_at_once = "for every round at once"
        if self.guardrails:
            all_at_once = "for every round, the reward and every guardrail at once"
        lines.append(("probability", f"{1 - self.delta:g}, {all_at_once}"))
        lines.extend(("arms changed", text) for text in self.changes)
        lines.extend(("assumes", text) for text in self.assumes)
        lines.extend(("not assumed", text) for text in self.not_assumed)
        return lines

    def guardrail_text(self, rail: Guardrail, rounds: int | None) -> str:
        """What is promised of a metric, and in so many rounds."""
        rounding = dict(zip(self.guardrails, self.roundings, strict=False)).get(rail, 0.0)
        against = OF_METRICS.get(self.against, self.against)
        text = f"{rail.text(against)}; every value lies in {interval_text(rail.reward_range)}"
        if rail.bound is not None:  # the model pays
            text = f"{text}; {MODEL_OF_METRIC.format(amount(rail.bound))}"
        if rounding:
            text = f"{text}; {amount(rounding)} besides, by the rounding of the logging mixture"
        if rounds is not None:
            most = rail.loss(rounds) + rounding
            text = f"{text}; in {counted(rounds, 'round')} {amount(most)}"
            if most >= rail.width * rounds:
                text = f"{text}, which is vacuous: no play could lose more than {amount(rail.width * rounds)}"
        least = self.never_opens.get(rail.name)
        return text if least is None else f"{text}; {spent_text(least, 'rate')}"

    @property
    def never_opens(self) -> dict[str, float]:
        """The budget from which on it learns, of each guardrail whose own is spent before that."""
        if self.against == LOG:  # there the log has proven something before
            return {}
        delta = self.delta / (1 + len(self.guardrails))
        starved = [rail for rail in self.guardrails if rail.rate == 0 and rail.bound is None]
        least = {rail: opening_budget(rail.width, delta) for rail in starved}
        return {rail.name: needed for rail, needed in least.items() if rail.budget < needed}

    def lost_text(self, rounds: int) -> str:
        """The most lost in so many rounds, and how much of what the log earns that is."""
        part, earned = self.part_of_log(rounds), (self.reference or 0.0) * rounds
        of_all = f": {part} of the {amount(earned)} that the log earns in as many" if part else ""
        return f"{amount(self.loss(rounds))}{of_all}"

    def part_of_log(self, rounds: int) -> str:
        """The most lost, as a part of what the log earns in as many rounds: "6 lost" says nothing to somebody
        who does not know that there are 19. Empty where rewards may be negative, or nothing is known."""
        lost, earned = self.loss(rounds), (self.reference or 0.0) * rounds
        if lost is None or self.reward_range[0] < 0 or earned <= 0:
            return ""
        return f"{amount(float(f'{100 * lost / earned:.2g}'))} %"

    def vacuous_text(self, rounds: int | None) -> str:
        """Whether the promise says anything, from which round on, and whether in so many rounds."""
        first = self.says_something_from
        if first is None:
            return "yes: no play could lose more"
        if rounds is not None and rounds < first:
            return (
                f"yes: in {counted(rounds, 'round')} no play could lose more than "
                f"{amount(rounds * self.possible)}; "
                f"it says something from round {first:,} on"
            )
        if first == 1:
            return "no: a play could lose more, from the first round on"
        return f"no, from round {first:,} on: in fewer rounds no play could lose that much"

    def __str__(self) -> str:
        return text_table(self.rows())

    def _repr_html_(self) -> str:
        return html_table(self.rows(), caption="What is guaranteed before the first round")


def largest_excess(shortfall: Floats, *, per_round: float, once: float, every: int | None = None) -> float:
    """The most that a cumulative shortfall (n,) rose above `per_round` a round and `once`.

    It is counted from the first round on, or in every stretch that begins at a multiple of `every`.
    """
    above = np.append(0.0, shortfall - per_round * np.arange(1, shortfall.size + 1))  # [t] after t rounds
    if every is None:
        return float(above[1:].max() - once)
    begins = np.where(np.arange(above.size) % every == 0, above, np.inf)
    return float((above[1:] - np.minimum.accumulate(begins)[:-1]).max() - once)


class Promise(NamedTuple):
    """The loss a theorem allows."""

    theorem: str
    per_round: float
    rounding: float = 0.0  # kappa (hi - lo), where the mixture is played
    budget: float = 0.0  # what may be lost in all besides
    realised: bool = False  # explored plays count as what they really earned
    every: int | None = None  # of each stretch that begins at a multiple of this


class Promising(Protocol):
    """What a certificate asks of a gate: whatever differs from gate to gate is the gate's to say."""

    @property
    def trusts_model(self) -> bool: ...

    @property
    def compares_with_log(self) -> bool: ...

    def compared_with(self, fallback: str | int) -> str: ...

    def not_assumed(self, situation: Situation) -> tuple[str, ...]: ...

    def why_unproven(self, situation: Situation) -> str: ...

    def promised(self, situation: Situation) -> Promise: ...

    def needs_model(self, situation: Situation) -> bool: ...

    def assumptions(self, situation: Situation) -> tuple[str, ...]: ...

    def per_round_after(self, situation: Situation) -> float | None: ...

    def rounding_after(self, practice: Offline, situation: Situation) -> float: ...


class Situation(NamedTuple):
    """What a certificate is about: a composition, and what it knows from the log alone."""

    gate: Promising
    fallback: str | int  # "certified": the pessimistic arm while it is proven, else the mixture
    confidence: Confidence
    params: Records
    run: Records
    state: State | None  # None where there are no features, or rounds bring their own arms
    offline: Offline

    @property
    def limits(self) -> tuple[float, float]:
        """Where mean rewards lie: as given, or |<theta, a>| <= bound |a|."""
        if self.state is None:
            return self.confidence.reward_range or (-np.inf, np.inf)
        return limits_of(self.confidence, self.state.actions)

    @property
    def one_hot(self) -> bool:
        """Whether every arm is a feature of its own, so that any mean rewards are linear."""
        state = self.state
        return state is not None and state.run[0]["one_hot"] == 1 and bool((state.actions == 1).all())

    @property
    def by_model(self) -> bool:
        """Whether the promise needs rewards that are linear in features which arms share."""
        needed = self.gate.needs_model(self) and self.confidence.radius != "arms"
        return needed and not self.one_hot

    @property
    def plays_mixture(self) -> bool:
        """Whether the logging mixture is what is safe, always or at times."""
        return self.fallback in ("mixture", "certified")

    @property
    def rounds_mixture(self) -> bool:
        """Whether it is played in the log's proportions, up to rounding; a Control gate draws it instead."""
        return self.plays_mixture and self.against != PRACTICE

    @property
    def against(self) -> str:
        """What is promised is a distance to this."""
        return self.gate.compared_with(self.fallback)

    @property
    def given_practice(self) -> str:
        """What practice is, where the caller says it; empty: the fallback is."""
        return ""

    @property
    def contradicted(self) -> str:
        """How the log contradicts the noise that is assumed, or nothing."""
        return why_noise_refuted(self.confidence, self.offline)

    @property
    def mixture_promise(self) -> Promise:
        """What is promised where practice is played whatever happens."""
        return Promise("the log's own proportions, up to rounding", 0.0, self.rounding)

    def assumptions(self, *, by_rewards: bool = False, every_arm: bool = False) -> tuple[str, ...]:
        """What a promise needs, in words a deployer can check.

        `by_rewards`: realised rewards pay; `every_arm`: it is about rounds in which every arm is allowed.
        """
        return stationary_assumptions(self, by_rewards=by_rewards, every_arm=every_arm)

    @property
    def rounding(self) -> float:
        """kappa (hi - lo): how far mixture plays can fall behind the log's mean."""
        low, high = self.limits
        return float(self.params[0]["kappa"]) * (high - low)

    def upper_reference(self, radius: float) -> float:
        """The largest mu_off = <theta, xbar> over a confidence set of this radius; of practice's arms."""
        if self.state is None:
            return np.inf
        run = self.state.run[0]
        changed = run["premium"] > 0
        xbar = self.state.vectors[kernels.PRACTICE_MEAN if changed else kernels.XBAR]
        if self.confidence.radius == "arms":  # each arm has its own interval, and no ellipsoid holds them all
            weights = self.state.counts[kernels.PRACTICE_PULLS if changed else kernels.LOGGED]
            half = radius * self.state.arms[kernels.WIDTH] + kernels.lifts(self.state)
            mean = float(self.state.vectors[kernels.THETA] @ xbar)
            return mean + float(weights @ half) / max(int(weights.sum()), 1)
        inverse = self.state.square[kernels.INVERSE]
        image = inverse[0] * xbar if run["one_hot"] else xbar @ inverse
        width = sqrt(max(float(image @ xbar), 0.0))
        return float(self.state.vectors[kernels.THETA] @ xbar) + radius * width + self.moved(image)

    def moved(self, image: Floats) -> float:
        """How far the log's shift may have moved <theta, y>, where this is V^-1 y."""
        if self.state is None or self.confidence.shift == 0:
            return 0.0
        rows = self.state.square[kernels.LOG_GRAM]
        square = rows[0] @ image**2 if self.state.run[0]["one_hot"] else image @ rows @ image
        return self.confidence.shift * sqrt(self.offline.total * max(float(square), 0.0))


class RoundsSituation(Situation):
    """The same where every round brings its own arms; what practice does in it is what is compared with."""

    moments: Moments  # the log

    @classmethod
    def of(cls, moments: Moments, **known: Any) -> RoundsSituation:
        """What a promise is about where this is the log."""
        situation = cls(state=None, offline=Offline.empty(1), **known)
        situation.moments = moments
        return situation

    @property
    def rounds_mixture(self) -> bool:
        return False

    @property
    def against(self) -> str:
        return SAME_ROUNDS if self.gate.compares_with_log else super().against

    @property
    def given_practice(self) -> str:
        return "what the caller gives with each decision"

    @property
    def contradicted(self) -> str:
        return why_refuted(self.gate, self.confidence, self.moments)

    @property
    def mixture_promise(self) -> Promise:
        return Promise("practice is played in every round", 0.0)

    def assumptions(self, *, by_rewards: bool = False, every_arm: bool = False) -> tuple[str, ...]:
        return assumptions_in_rounds(self.confidence) if self.gate.needs_model(self) else ()


def limits_of(confidence: Confidence, actions: Floats) -> tuple[float, float]:
    """Where the mean rewards of these actions (d, k) lie: as given, or |<theta, a>| <= bound |a|."""
    if confidence.reward_range is not None:
        return confidence.reward_range
    longest = float(np.sqrt(summed_squares(actions)).max())
    return -confidence.bound * longest, confidence.bound * longest


def certify(situation: Situation) -> Certificate:
    """The certificate of a composition on a log."""
    confidence, limits = situation.confidence, situation.limits
    reference, interval = reference_of(situation)
    reason = why_not(situation)
    promise = None if reason else situation.gate.promised(situation)
    return Certificate(
        holds=promise is not None,
        theorem=promise.theorem if promise else reason,
        delta=confidence.delta,
        reference=reference,
        reference_interval=interval,
        per_round=promise.per_round if promise else None,
        constant=promise.rounding + promise.budget if promise else None,
        budget=promise.budget if promise else None,
        kappa=float(situation.params[0]["kappa"]) if promise and situation.rounds_mixture else None,
        reward_range=limits,
        vacuous=promise is not None and bool(promise.per_round >= interval[1] - limits[0]),
        realised=promise is not None and promise.realised,
        assumes=situation.gate.assumptions(situation) if promise else (),
        not_assumed=situation.gate.not_assumed(situation) if promise else (),
        against=situation.against,
        every=promise.every if promise else None,
        by_model=promise is not None and situation.by_model,
    )


def reference_of(situation: Situation) -> tuple[float | None, tuple[float, float]]:
    """The mean logged reward and an interval for mu_off: one scalar, so no dimension enters."""
    run = situation.run[0]
    if run["logged"] == 0 or situation.against != LOG:
        return None, situation.limits
    total, n, squares = float(run["logged_rewards"]), int(run["logged"]), situation.offline.reward_squares
    known = None if squares is None or situation.offline.total != n else float(squares.sum())
    return total / n, mean_interval(total, n, known, situation.confidence, situation.limits)


def mean_interval(
    total: float, n: int, squares: float | None, confidence: Confidence, limits: tuple[float, float]
) -> tuple[float, float]:
    """Where the true mean of n logged rewards lies, with probability 1 - delta; `limits` of mean rewards."""
    mean, (low, high) = total / n, limits
    if confidence.noise == "bounded" and low <= mean <= high:
        options: dict[str, Any] = {"reward_range": limits, "level": 1 - confidence.delta, "squares": squares}
        least, most = mean_from_total(total, n, adaptive=confidence.design == "adaptive", **options)
        return max(least - confidence.shift, low), min(most + confidence.shift, high)
    spread = confidence.scale * sqrt(2 * log(2 / confidence.delta) / n) + confidence.shift
    if mean - spread > high or mean + spread < low:  # contradicted: `why_not` says so
        return mean - spread, mean + spread
    return max(mean - spread, low), min(mean + spread, high)


def why_not(situation: Situation) -> str:
    """Why there is no theorem, or nothing."""
    if situation.run[0]["logged"] == 0 and situation.against == LOG:
        return "no log, so nothing to compare with"
    reason = situation.gate.why_unproven(situation) or situation.contradicted
    if reason:
        return reason
    mean, interval = reference_of(situation)
    low, high = situation.limits
    if interval[0] > high or interval[1] < low:
        outside = interval_text((low, high))
        return f"the log contradicts its range: a mean reward of {amount(mean)} outside {outside}"
    return why_no_model(situation) if situation.gate.needs_model(situation) else ""


def why_no_model(situation: Situation) -> str:
    """Why the linear model cannot carry a promise here, or nothing."""
    if situation.state is None:
        return ""
    if contradicts_bound(situation.state, situation.confidence):
        bound = exact(situation.confidence.bound)
        return f"the log contradicts bound={bound}: some arm earns more than it allows"
    params = situation.params[0]
    bias = sqrt(params["ridge"]) * situation.confidence.bound
    if situation.confidence.radius == "paper" and bias > NEGLIGIBLE * params["radius_fixed"]:
        return "the paper's radius leaves out the bias of the ridge, which is not negligible here"
    return ""


def stationary_assumptions(
    situation: Situation, *, by_rewards: bool = False, every_arm: bool = False
) -> tuple[str, ...]:
    """What a promise about the log's mean needs; `Situation.assumptions` says what is asked."""
    confidence, linear = situation.confidence, situation.gate.needs_model(situation)
    bounded, mixture = confidence.noise == "bounded", situation.plays_mixture
    texts = {
        f"every reward lies in {interval_text(situation.limits)}": bounded,
        f"rewards are sub-Gaussian around their means with scale {confidence.scale:g}": not bounded,
        f"mean rewards lie in {interval_text(situation.limits)}": mixture and not bounded,
        f"mean rewards are linear in the features with |theta| <= {confidence.bound:g}": situation.by_model,
        f"the squares of the arms' mean rewards have a sum of at most {confidence.bound:g}^2": (
            linear and confidence.radius != "arms" and situation.one_hot
        ),
        f"no mean reward is above {confidence.bound:g} or below -{confidence.bound:g}": (
            linear and confidence.radius == "arms"
        ),
        "which rewards arrive, and when, does not depend on their values": linear or not bounded,
        "rewards are reported with their decision, or which of them arrive does not depend on their values": (
            bounded and not linear
        ),
        "the logged actions were chosen independently of the logged rewards": (
            linear and confidence.radius != "self_normalised"
        ),
        f"no more than {confidence.horizon or 0:,} rounds are played": confidence.horizon is not None,
        "the bias of the ridge is negligible": linear and confidence.radius == "paper",
        "the number of logged rewards was not chosen by looking at them": by_rewards and not bounded,
        "the arms earn online what they earned in the log: no drift": confidence.shift == 0,
        f"{moved_text(confidence)}; the log's mean reward is what its arms earn online": confidence.shift > 0,
        "the logged arms can still be played": mixture,
        "no round is restricted to other arms": every_arm,
        "every round is played as decided, and committed before the next one is asked for": True,
    }
    return tuple(text for text, applies in texts.items() if applies)


def moved_text(confidence: Confidence) -> str:
    """How far a log may have moved, for people."""
    return (
        f"the mean rewards of the log's rows differ from those online by at most {amount(confidence.shift)} "
        "(root mean square over the rows)"
    )


def assumptions_in_rounds(confidence: Confidence) -> tuple[str, ...]:
    """What a promise by the model needs where rounds bring their own arms."""
    bounded, radius = confidence.noise == "bounded", confidence.radius
    length = f"|theta| <= {confidence.bound:g}"
    texts = {
        f"every reward lies in {interval_text(confidence.reward_range or (0, 0))}": bounded,
        f"rewards are sub-Gaussian around their means with scale {confidence.scale:g}": not bounded,
        f"mean rewards are linear in the features, in every context, with {length}": True,
        "which rewards arrive, and when, does not depend on their values": True,
        "the logged actions were chosen independently of the logged rewards": radius != "self_normalised",
        "an action with the same features earns online what it earned in the log: no drift": (
            confidence.shift == 0
        ),
        moved_text(confidence): confidence.shift > 0,
        "practice is what the caller says; where it is drawn, nobody knows the draw before it is decided "
        "whether to explore": True,
        "what a play changes in later rounds is not counted": True,
        "every round is played as decided, and committed before the next one is asked for": True,
    }
    return tuple(text for text, applies in texts.items() if applies)


def why_refuted(gate: Promising, confidence: Confidence, moments: Moments) -> str:
    """How the log contradicts the noise that a promise by the model rests on, or nothing."""
    around, _ = moments.residuals()
    if not gate.trusts_model or confidence.noise == "bounded" or moments.count == 0:
        return ""
    least = least_scale(around * (1 - 1e-9), moments.count)
    if confidence.scale >= least:
        return ""
    return (
        f"noise must be at least {exact(rounded_up(least))} for this log, got {exact(confidence.scale)}: "
        "its rewards scatter more around the linear model"
    )


def check_range(confidence: Confidence, moments: Moments) -> None:
    """Refuse a log that surely contradicts the range its rewards, or their means, are said to lie in."""
    if confidence.reward_range is None or moments.count == 0:
        return
    (low, high), mean = confidence.reward_range, moments.reference
    give = 2e-9 * (abs(low) + abs(high))
    if confidence.noise != "bounded":  # the mean may be off by its noise
        give = confidence.scale * sqrt(2 * log(2 / REFUTED) / moments.count)
    if not low - give <= mean <= high + give:
        raise ValueError(
            f"offline must have rewards in reward_range {(low, high)}, got a mean of {exact(mean)}"
        )
    squares = moments.reward_squares
    if confidence.noise != "bounded" or squares is None:
        return
    inside = (low + high) * moments.reward_sum - squares - low * high * moments.count
    if inside < -1e-9 * (squares + (low * low + high * high) * moments.count):
        raise ValueError(
            f"reward_range must hold every logged reward where noise is 'bounded', got "
            f"[{exact(low)}, {exact(high)}]: the squares show rewards outside"
        )
