"""Certificates: what is guaranteed, said before the first round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.confidence import Confidence
from linoto.core.gates import Budget, Closed, Gate, Open, Tolerance
from linoto.core.kernels import Records, State
from linoto.core.notebook import html_table

NEGLIGIBLE = 0.05  # of the radius: how much ridge bias the paper's radius may leave out and still hold


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """With probability 1 - delta, for every t at once, the first t rounds together earn at most
    `per_round * t + constant` less than as many rounds of the log's mean reward.

    Where `holds` is False there is no such promise and `theorem` says why.
    """

    holds: bool
    theorem: str
    delta: float
    reference: float | None  # mean logged reward, the estimate of mu_off; None without a log
    reference_interval: tuple[float, float]  # of mu_off, at the same delta, whatever the dimension
    per_round: float | None
    constant: float | None
    kappa: float | None  # of the logging mixture, where it is the fallback: constant = kappa (hi - lo)
    reward_range: tuple[float, float]  # of mean rewards: as given, or as bound and actions allow
    vacuous: bool  # no play could lose more than this promises
    assumes: tuple[str, ...]

    def loss(self, rounds: int) -> float | None:
        """The most that can be lost below the log in so many rounds."""
        if self.per_round is None or self.constant is None:
            return None
        return self.per_round * rounds + self.constant

    def to_dict(self, *, rounds: int | None = None) -> dict[str, Any]:
        """Plain JSON data, with the loss over a horizon if one is given."""
        data = asdict(self)
        if rounds is not None:
            data["rounds"], data["loss"] = rounds, self.loss(rounds)
        return data

    def to_json(self, *, rounds: int | None = None) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(rounds=rounds), indent=2, allow_nan=False)

    def rows(self, *, rounds: int | None = None) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        low, high = self.reference_interval
        lines = [("promise", "holds" if self.holds else "none"), ("why", self.theorem)]
        if self.reference is not None:
            lines.append(("mean reward of the log", f"{self.reference:.4g}, within [{low:.4g}, {high:.4g}]"))
        if not self.holds:
            return lines
        lines.append(("most lost per round", f"{self.per_round:.4g}, plus {self.constant:.4g} once"))
        if self.kappa is not None:
            lines.append(("kappa", f"{self.kappa:.4g} (rounding of the logging mixture)"))
        if rounds is not None:
            lines.append((f"most lost in {rounds} rounds", f"{self.loss(rounds):.4g}"))
        possible = high - self.reward_range[0]
        verdict = "yes: no play could lose more" if self.vacuous else f"no: a play could lose {possible:.4g}"
        lines.append(("vacuous", verdict))
        lines.append(("probability", f"{1 - self.delta:g}, for every round at once"))
        lines.extend(("assumes", text) for text in self.assumes)
        return lines

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)

    def _repr_html_(self) -> str:
        return html_table(self.rows(), caption="What is guaranteed before the first round")


class Situation(NamedTuple):
    """What a certificate is about: a composition, and what it knows from the log alone."""

    gate: Gate
    fallback: str | int  # "certified" is what "auto" means for a Tolerance with a model
    confidence: Confidence
    params: Records
    run: Records
    state: State | None  # None where there are no features

    @property
    def limits(self) -> tuple[float, float]:
        """Where mean rewards lie: as given, or |<theta, a>| <= bound |a|."""
        if self.confidence.reward_range is not None or self.state is None:
            return self.confidence.reward_range or (-np.inf, np.inf)
        longest = float(np.sqrt((self.state.actions**2).sum(axis=0)).max())
        return -self.confidence.bound * longest, self.confidence.bound * longest

    def upper_reference(self, radius: float) -> float:
        """The largest mu_off = <theta, xbar> over a confidence set of this radius."""
        if self.state is None:
            return np.inf
        xbar = self.state.vectors[kernels.XBAR]
        width = sqrt(max(float(xbar @ self.state.square[kernels.INVERSE] @ xbar), 0.0))
        return float(self.state.vectors[kernels.THETA] @ xbar) + radius * width


class Promise(NamedTuple):
    """The loss a theorem allows."""

    theorem: str
    per_round: float
    constant: float = 0.0


def certify(situation: Situation) -> Certificate:
    """The certificate of a composition on a log."""
    confidence, limits = situation.confidence, situation.limits
    reference, interval = reference_of(situation)
    reason = why_not(situation)
    promise = None if reason else promise_of(situation)
    mixture = situation.fallback in ("mixture", "certified")
    return Certificate(
        holds=promise is not None,
        theorem=promise.theorem if promise else reason,
        delta=confidence.delta,
        reference=reference,
        reference_interval=interval,
        per_round=promise.per_round if promise else None,
        constant=promise.constant if promise else None,
        kappa=float(situation.params[0]["kappa"]) if promise and mixture else None,
        reward_range=limits,
        vacuous=promise is not None and bool(promise.per_round >= interval[1] - limits[0]),
        assumes=assumptions(situation) if promise else (),
    )


def reference_of(situation: Situation) -> tuple[float | None, tuple[float, float]]:
    """The mean logged reward and an interval for mu_off: one scalar, so no dimension enters."""
    run, (low, high), confidence = situation.run[0], situation.limits, situation.confidence
    if run["logged"] == 0:
        return None, (low, high)
    mean = float(run["logged_rewards"] / run["logged"])
    spread = confidence.scale * sqrt(2 * log(2 / confidence.delta) / float(run["logged"]))
    if mean - spread > high or mean + spread < low:  # contradicted: `why_not` says so
        return mean, (mean - spread, mean + spread)
    return mean, (max(mean - spread, low), min(mean + spread, high))


def why_not(situation: Situation) -> str:
    """Why there is no theorem, or nothing."""
    gate, fallback, run = situation.gate, situation.fallback, situation.run[0]
    if run["logged"] == 0:
        return "no log, so nothing to compare with"
    if isinstance(gate, Open):
        return "an open gate promises nothing about the log"
    if isinstance(gate, Budget) and fallback not in ("lcb", "frozen"):
        return "a Budget gate is proven with the lcb or frozen fallback only"
    if isinstance(gate, Tolerance) and fallback not in ("certified", "mixture"):
        return "a Tolerance gate is proven with the auto or mixture fallback only"
    mean, interval = reference_of(situation)
    low, high = situation.limits
    if interval[0] > high or interval[1] < low:
        return f"the log contradicts its range: a mean reward of {mean:.4g} outside [{low:g}, {high:g}]"
    if not leans_on_model(situation) or situation.state is None:
        return ""
    if contradicts_bound(situation.state, situation.confidence.bound):
        return f"the log contradicts bound={situation.confidence.bound:g}: some arm earns more than it allows"
    params = situation.params[0]
    bias = sqrt(params["ridge"]) * situation.confidence.bound
    if situation.confidence.radius == "paper" and bias > NEGLIGIBLE * params["radius_fixed"]:
        return "the paper's radius leaves out the bias of the ridge, which is not negligible here"
    return ""


def leans_on_model(situation: Situation) -> bool:
    """Whether the promise needs rewards that are linear in the features."""
    if isinstance(situation.gate, Tolerance):
        return situation.gate.uses(situation.confidence)[0]
    return not (isinstance(situation.gate, Closed) and situation.fallback == "mixture")


def contradicts_bound(state: State, bound: float) -> bool:
    """Whether some arm's mean is surely larger than a parameter of this length allows."""
    return bool((bound_excess(state, bound) > 0).any())


def bound_excess(state: State, bound: float) -> kernels.Floats:
    """(k,) how far each arm's interval from the log lies beyond bound |a|."""
    possible = bound * np.sqrt((state.actions**2).sum(axis=0))
    mean, half = state.arms[kernels.MEAN], float(state.run[0]["radius"]) * state.arms[kernels.WIDTH]
    return np.asarray(np.abs(mean) - half - possible)


def promise_of(situation: Situation) -> Promise:
    """The theorem and the loss it allows, where there is one."""
    gate, run, params = situation.gate, situation.run[0], situation.params[0]
    low, high = situation.limits
    rounding = float(params["kappa"]) * (high - low)
    if isinstance(gate, Tolerance):
        by_model, by_rewards = gate.uses(situation.confidence)
        payers = [name for name, pays in (("the model", by_model), ("realised rewards", by_rewards)) if pays]
        theorem = f"R_off_t <= epsilon t + kappa (hi - lo), paid for by {' or '.join(payers)}"
        return Promise(theorem, tolerated(situation), rounding)
    if situation.fallback == "mixture":
        return Promise("the log's own proportions, up to rounding", 0.0, rounding)
    upper = situation.upper_reference(float(run["radius"]))  # on the same event as every lower bound
    if isinstance(gate, Budget):
        loss = min((gate.alpha + 2) * float(run["slack"]), upper - float(run["baseline"]))
        return Promise("R_off_t <= (alpha + 2) S t: every prefix earns t r_b", max(loss, 0.0))
    assert situation.state is not None  # only Guard has none, and it has a Tolerance
    lcb = situation.state.arms[kernels.LCB]
    arm = situation.fallback if isinstance(situation.fallback, int) else int(lcb.argmax())
    return Promise("the lower bound of the arm that is played never falls", max(upper - float(lcb[arm]), 0.0))


def tolerated(situation: Situation) -> float:
    """epsilon, or a share epsilon of the largest reference on the events the gate itself pays for."""
    gate, run, params = situation.gate, situation.run[0], situation.params[0]
    assert isinstance(gate, Tolerance)
    if not gate.relative:
        return float(gate.epsilon)
    by_model, by_rewards = gate.uses(situation.confidence)
    bounds = [situation.limits[1]]
    if by_rewards:
        bounds.append(float(run["upper_reference"]))
    if by_model:
        bounds.append(situation.upper_reference(float(run["gate_radius"] + params["bias"])))
    return float(gate.epsilon) * max(min(bounds), 0.0)


def interval_text(limits: tuple[float, float]) -> str:
    """[lo, hi] in the digits a person reads."""
    return f"[{limits[0]:.4g}, {limits[1]:.4g}]"


def assumptions(situation: Situation) -> tuple[str, ...]:
    """What the promise leans on, in words a deployer can check."""
    gate, confidence = situation.gate, situation.confidence
    bounded, linear = confidence.noise == "bounded", leans_on_model(situation)
    mixture = situation.fallback in ("mixture", "certified")
    by_rewards = isinstance(gate, Tolerance) and gate.uses(confidence)[1]
    texts = {
        f"every reward lies in {interval_text(situation.limits)}": bounded,
        f"rewards are sub-Gaussian around their means with scale {confidence.scale:g}": not bounded,
        f"mean rewards lie in {interval_text(situation.limits)}": mixture and not bounded,
        f"mean rewards are linear in the features with |theta| <= {confidence.bound:g}": linear,
        "which rewards arrive, and when, does not depend on their values": linear or not bounded,
        "rewards are reported with their decision, or which of them arrive does not depend on their values": (
            bounded and not linear
        ),
        "the logged actions were chosen independently of the logged rewards": (
            linear and confidence.radius != "self_normalised"
        ),
        "the bias of the ridge is negligible": linear and confidence.radius == "paper",
        "the number of logged rewards was not chosen by looking at them": by_rewards and not bounded,
        "the arms earn online what they earned in the log: no drift": True,
        "the logged arms can still be played": mixture,
        "no round is restricted to other arms": isinstance(gate, Closed),
        "every round is played as decided, and committed before the next one is asked for": True,
    }
    return tuple(text for text, applies in texts.items() if applies)
