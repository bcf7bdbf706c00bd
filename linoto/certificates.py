"""Certificates: what is guaranteed, said before the first round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import log, sqrt
from typing import Any

import numpy as np

from linoto import kernels
from linoto.confidence import Confidence
from linoto.gates import Budget, Closed, Gate, Open, Tolerance
from linoto.kernels import Records, State


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """With probability 1 - delta, for every t at once, the first t rounds together earn at most
    `per_round * t + constant` less than as many rounds of the log's mean reward.

    Where `holds` is False there is no such promise and `theorem` says why.
    """

    holds: bool
    theorem: str
    delta: float
    reference: float  # mean logged reward, the estimate of mu_off
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
        return json.dumps(self.to_dict(rounds=rounds), indent=2)

    def rows(self, *, rounds: int | None = None) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        low, high = self.reference_interval
        lines = [
            ("promise", "holds" if self.holds else "none"),
            ("why", self.theorem),
            ("mean reward of the log", f"{self.reference:.4g}, within [{low:.4g}, {high:.4g}]"),
        ]
        if self.per_round is not None and self.constant is not None:
            lines.append(("most lost per round", f"{self.per_round:.4g}, plus {self.constant:.4g} once"))
        if self.kappa is not None:
            lines.append(("kappa", f"{self.kappa:.4g} (rounding of the logging mixture)"))
        if rounds is not None and self.holds:
            lines.append((f"most lost in {rounds} rounds", f"{self.loss(rounds):.4g}"))
        if self.holds:
            possible = high - self.reward_range[0]
            verdict = (
                "yes: no play could lose more" if self.vacuous else f"no: a play could lose {possible:.4g}"
            )
            lines.append(("vacuous", verdict))
            lines.append(("probability", f"{1 - self.delta:g}, for every round at once"))
        lines.extend(("assumes", text) for text in self.assumes)
        return lines

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def certify(
    *, gate: Gate, fallback: str | int, confidence: Confidence, params: Records, state: State
) -> Certificate:
    """The certificate of a composition on a state that has seen the log and nothing else."""
    p = params[0]
    low, high = mean_range(confidence, state)
    reference, interval = reference_of(confidence, state, (low, high))
    holds, theorem, per_round, constant = promise(gate, fallback, p, state, interval, (low, high))
    most = min(interval[1], high) - low
    return Certificate(
        holds=holds,
        theorem=theorem,
        delta=confidence.delta,
        reference=reference,
        reference_interval=interval,
        per_round=per_round,
        constant=constant,
        kappa=float(p["kappa"]) if fallback in ("mixture", "certified") else None,
        reward_range=(low, high),
        vacuous=holds and per_round is not None and bool(per_round >= most),
        assumes=assumptions(gate, fallback, confidence) if holds else (),
    )


def mean_range(confidence: Confidence, state: State) -> tuple[float, float]:
    """Where mean rewards lie: as given, or |<theta, a>| <= bound |a|."""
    if confidence.reward_range is not None:
        return confidence.reward_range
    longest = float(np.sqrt((state.actions**2).sum(axis=0)).max())
    return -confidence.bound * longest, confidence.bound * longest


def reference_of(
    confidence: Confidence, state: State, limits: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    """The mean logged reward and an interval for mu_off: one scalar, so no dimension enters."""
    r = state.run[0]
    if r["logged"] == 0:
        return float("nan"), limits
    mean = float(r["logged_rewards"] / r["logged"])
    spread = confidence.scale * sqrt(2 * log(2 / confidence.delta) / float(r["logged"]))
    return mean, (max(mean - spread, limits[0]), min(mean + spread, limits[1]))


Promise = tuple[bool, str, float | None, float | None]


def promise(
    gate: Gate,
    fallback: str | int,
    p: Any,
    state: State,
    interval: tuple[float, float],
    limits: tuple[float, float],
) -> Promise:
    """Whether there is a theorem, which, and the loss it allows per round and once."""
    r = state.run[0]
    if r["logged"] == 0:
        return False, "no log, so nothing to compare with", None, None
    if isinstance(gate, Open):
        return False, "an open gate promises nothing about the log", None, None
    if isinstance(gate, Tolerance):
        return tolerance_promise(gate, fallback, p, interval, limits)
    if isinstance(gate, Budget):
        if fallback not in ("lcb", "frozen"):
            return False, "a Budget gate is proven with the lcb or frozen fallback only", None, None
        known = upper_reference(state) - float(r["baseline"])
        per_round = min((gate.alpha + 2) * float(r["slack"]), known)
        return True, "R_off_t <= (alpha + 2) S t: every prefix earns t r_b", per_round, 0.0
    if fallback == "mixture":
        kappa = float(p["kappa"])
        return True, "the log's own proportions, up to rounding", 0.0, kappa * (limits[1] - limits[0])
    arm = int(state.arms[kernels.LCB].argmax()) if isinstance(fallback, str) else fallback
    per_round = max(upper_reference(state) - float(state.arms[kernels.LCB, arm]), 0.0)
    return True, "the lower bound of the arm that is played never falls", per_round, 0.0


def tolerance_promise(
    gate: Tolerance, fallback: str | int, p: Any, interval: tuple[float, float], limits: tuple[float, float]
) -> Promise:
    """epsilon t + kappa (hi - lo), for any explorer."""
    if fallback not in ("certified", "mixture"):
        return False, "a Tolerance gate is proven with the auto or mixture fallback only", None, None
    by = {(1, 0): "the model", (0, 1): "realised rewards", (1, 1): "the model or realised rewards"}
    theorem = (
        f"R_off_t <= epsilon t + kappa (hi - lo), paid for by {by[int(p['by_model']), int(p['by_rewards'])]}"
    )
    per_round = gate.epsilon * interval[1] if gate.relative else gate.epsilon
    return True, theorem, float(per_round), float(p["kappa"]) * (limits[1] - limits[0])


def upper_reference(state: State) -> float:
    """The largest mu_off = <theta, xbar> over C_1: on the same event as every lower bound."""
    xbar = state.vectors[kernels.XBAR]
    width = sqrt(max(float(xbar @ state.square[kernels.INVERSE] @ xbar), 0.0))
    return float(state.vectors[kernels.THETA] @ xbar) + float(state.run[0]["radius"]) * width


def assumptions(gate: Gate, fallback: str | int, confidence: Confidence) -> tuple[str, ...]:
    """What the promise leans on, in words a deployer can check."""
    texts = []
    only_rewards = isinstance(gate, Tolerance) and gate.evidence == "rewards"
    if confidence.noise == "bounded":
        texts.append(f"every reward lies in {confidence.reward_range}")
    else:
        texts.append(f"rewards are sub-Gaussian around their means with scale {confidence.scale:g}")
    if not only_rewards and not (isinstance(gate, Closed) and fallback == "mixture"):
        texts.append(f"mean rewards are linear in the features with |theta| <= {confidence.bound:g}")
        texts.append("which rewards arrive, and when, does not depend on their values")
    elif isinstance(gate, Tolerance):
        texts.append(
            "rewards are reported with their decision, or which of them arrive does not depend on them"
        )
    if confidence.radius != "self_normalised":
        texts.append("the logged actions were chosen independently of the logged rewards")
    if confidence.radius == "paper":
        texts.append("the bias of the ridge is negligible")
    texts.append("the arms earn online what they earned in the log: no drift")
    if isinstance(gate, Tolerance):
        if confidence.noise != "bounded" and gate.uses(confidence)[1]:
            texts.append("the number of logged rewards was not chosen by looking at them")
        if confidence.reward_range is not None:
            texts.append(f"mean rewards lie in {confidence.reward_range}")
        texts.append("the logged arms can still be played")
    texts.append("each decision is committed before the next one is made")
    return tuple(texts)
