"""How far the estimate can be from the truth: radius recipes, reduced to the scalars the kernels use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, log1p, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.hints import amount
from linoto.core.offline import Offline
from linoto.core.one_hot import find_one_hot
from linoto.core.validation import (
    as_floats,
    as_range,
    check_choice,
    check_count,
    check_nonnegative,
    check_positive,
    exact,
    is_number,
    normalise,
    rounded_up,
)

ASSUMED = ("noise", "bound", "reward_range")  # what must be known of rewards before anything is promised
REFUTED = 1e-6  # how often a right noise or range may be refused because of what the log happened to hold
RADII = ("self_normalised", "hkz", "paper", "arms", "own")
ARM_RIDGE = 0.01  # of (noise / bound)^2: its bias is a tenth of the noise
DESIGNS = ("fixed", "adaptive")
NEAR = 1e-9  # part of a distance that makes no difference


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """What is assumed of the noise and the parameter, and which radius follows from it.

    >>> Confidence(delta=0.01).ridge_for(d=20)
    20.0
    """

    delta: float = 0.05  # the bounds hold with probability 1 - delta
    ridge: float | None = None  # None: noise^2 d / bound^2, or what `start` finds better and says
    noise: float | Literal["bounded"] = 1.0  # sub-Gaussian scale; "bounded": rewards never leave reward_range
    bound: float = 1.0  # B >= |theta*|
    radius: Literal["self_normalised", "hkz", "paper", "arms", "own"] = "self_normalised"
    design: Literal["fixed", "adaptive"] = "fixed"  # of the log: chosen ahead, or as rewards came in
    reward_range: tuple[float, float] | None = None  # of the mean rewards, where known
    horizon: int | None = None  # rounds that the radius "arms" holds for: it bounds one-hot arms one by one
    shift: float = (
        0.0  # how far logged means may have moved since: their root mean square over the log's rows
    )

    def __post_init__(self) -> None:
        normalise(self)
        if not is_number(self.delta) or not 0 < self.delta < 1:
            raise ValueError(f"delta must be in (0, 1), got {self.delta!r}")
        if self.ridge is not None:
            check_positive("ridge", self.ridge)
        if isinstance(self.noise, str) and self.noise != "bounded":
            raise ValueError(f"noise must be a positive number or 'bounded', got {self.noise!r}")
        if not isinstance(self.noise, str):
            check_positive("noise", self.noise)
        elif self.reward_range is None:
            raise ValueError("reward_range must be given where noise is 'bounded', got None")
        check_positive("bound", self.bound)
        check_choice("radius", self.radius, RADII)
        check_choice("design", self.design, DESIGNS)
        if (self.radius == "arms") != (self.horizon is not None):
            raise ValueError(
                f"horizon must be given for radius 'arms' and for no other, got {self.horizon!r}"
            )
        if self.horizon is not None:
            check_count("horizon", self.horizon)
        check_nonnegative("shift", self.shift)
        if self.radius == "own" and self.shift > 0:
            raise ValueError(f"shift must be 0 for radius 'own', got {exact(self.shift)}")
        if self.design == "adaptive" and self.radius not in ("self_normalised", "own"):
            raise ValueError(
                f"radius must be 'self_normalised' for an adaptive design, got {self.radius!r}, "
                "which holds only for actions chosen independently of the logged noise"
            )
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", as_range(self.reward_range))

    @property
    def radius_delta(self) -> float:
        """The share of delta of one confidence set: with a shift there are two, with the log and without."""
        return self.delta / 2 if self.shift > 0 else self.delta

    def without_log(self) -> Confidence:
        """The same for online rewards alone: arms were chosen as they came, no design was fixed."""
        return self if self.radius == "arms" else replace(self, radius="self_normalised")

    @property
    def scale(self) -> float:
        """The sub-Gaussian scale of the rewards: half the range where they are bounded."""
        if self.noise == "bounded" and self.reward_range is not None:
            return (self.reward_range[1] - self.reward_range[0]) / 2
        return float(self.noise)

    def assumptions(self) -> dict[str, str]:
        """Noise, bound and reward range for people; a range that noise is bounded in is said with the noise.

        >>> Confidence(noise="bounded", reward_range=(0, 1)).assumptions()
        {'noise': 'bounded in [0, 1]', 'bound': '1'}
        """
        limits = self.reward_range
        shown = "" if limits is None else f"[{exact(limits[0])}, {exact(limits[1])}]"
        bounded = self.noise == "bounded"
        texts = {
            "noise": f"bounded in {shown}" if bounded else f"{amount(self.scale)}",
            "bound": f"{amount(self.bound)}",
            "reward_range": "" if bounded else shown,
            "shift": f"{amount(self.shift)}" if self.shift > 0 else "",
        }
        return {name: text for name, text in texts.items() if text}

    def ridge_for(self, d: int) -> float:
        """The ridge in d dimensions: as asked for, or noise^2 d / bound^2; less for arms one by one."""
        if self.ridge is not None:
            return float(self.ridge)
        ratio = self.scale / self.bound
        if not 1e-150 < ratio < 1e150:
            raise ValueError(f"noise / bound must give a ridge that is a number > 0, got {ratio:g}")
        return ratio**2 * (d if self.radius != "arms" else ARM_RIDGE)


PAPER = Confidence(radius="paper", ridge=1e-4)
"""The paper's experiments to the letter: its covering radius, ridge 1e-4, no bias term."""


def least_noise(offline: Offline, shift: float = 0.0) -> float:
    """The smallest sub-Gaussian scale that the squares of a log do not refute; 0 where they are not known.

    Squares around the means of arms are at most the squared noise, and of n rewards with scale s
    P(sum of squared noise >= n u s^2) <= (u e^(1 - u))^(n / 2) for u > 1, however arms were chosen. What
    their means have moved by is part of what they scatter.
    """
    if offline.reward_squares is None or offline.total == 0:
        return 0.0
    pulls, squares = np.maximum(offline.pulls, 1), offline.reward_squares
    rounding = (1e-13 + 4e-16 * pulls) * squares  # of both sums, at worst
    means = offline.reward_sums / pulls
    around = float(np.maximum(squares - offline.reward_sums * means - rounding, 0.0).sum())
    return least_scale(max(sqrt(around) - shift * sqrt(offline.total), 0.0) ** 2, offline.total)


def least_scale(around: float, total: int) -> float:
    """The smallest scale of `total` rewards whose summed squared noise is at least `around`."""
    level = 2 * log(1 / REFUTED) / total
    excess = sqrt(2 * level) + level  # u - 1: from here Newton's steps come down to u - 1 - log u = level
    for _ in range(60):
        excess -= (excess - log1p(excess) - level) * (1 + excess) / excess
    return sqrt(around / total / (1 + excess))


def why_noise_refuted(confidence: Confidence, offline: Offline) -> str:
    """How the squares of a log contradict what is assumed of the noise, or nothing."""
    if confidence.noise == "bounded":
        return why_range_refuted(confidence, offline)
    least = least_noise(offline, confidence.shift)
    if confidence.scale >= least:
        return ""
    return (
        f"noise must be at least {exact(rounded_up(least))} for this log, got {exact(confidence.scale)}: "
        "its rewards scatter more around the means of their arms"
    )


def why_range_refuted(confidence: Confidence, offline: Offline) -> str:
    """How the squares of a log show rewards outside the range that they never leave, or nothing."""
    if confidence.reward_range is None or offline.reward_squares is None:
        return ""
    low, high = confidence.reward_range
    sums, squares, pulls = offline.reward_sums, offline.reward_squares, offline.pulls
    with np.errstate(over="ignore", invalid="ignore"):
        inside = (low + high) * sums - squares - low * high * pulls  # (k,) sums of (x - low) (high - x)
        rounding = 1e-9 * (squares + (low * low + high * high) * pulls)
        outside = np.flatnonzero(inside < -rounding)
    if not outside.size:
        return ""
    return (
        f"reward_range must hold every logged reward where noise is 'bounded', got "
        f"[{exact(low)}, {exact(high)}]: the squares of arm {outside[0]} show rewards outside"
    )


def check_noise(confidence: Confidence, offline: Offline) -> None:
    """Refuse an assumed noise that the log contradicts: a promise that needs it would be broken."""
    reason = why_noise_refuted(confidence, offline)
    if reason:
        raise ValueError(reason)


def check_confidence(confidence: object) -> None:
    """Refuse anything that is not a Confidence or None."""
    if confidence is not None and not isinstance(confidence, Confidence):
        raise ValueError(f"confidence must be a linoto.Confidence or None, got {confidence!r}")


def with_assumptions(record: Any, found: Confidence) -> Any:
    """A policy that assumes what was found of a log, where it says nothing of its own.

    One that has the paper's confidence keeps its radius and ridge, and takes noise, bound and range.
    """
    inner, own = getattr(record, "policy", None), getattr(record, "confidence", None)
    if inner is not None:
        return replace(record, policy=with_assumptions(inner, found))
    if not hasattr(record, "confidence"):
        return record
    if own is None:
        return replace(record, confidence=found)
    if own != type(record)().confidence:
        return record
    facts: dict[str, Any] = {name: getattr(found, name) for name in ASSUMED}
    return replace(record, confidence=replace(own, **facts))


class RadiusTerms(NamedTuple):
    """radius_t = fixed + noise sqrt(level + log det V_t - log det base) + bias, without the root before the
    first reward where the base is V_0."""

    fixed: float
    level: float
    bias: float  # sqrt(ridge) bound; the paper leaves it out
    prior_is_log: bool  # the base is V_0 (beta_1 = 0), not ridge * I
    constant: bool = False  # only `fixed` and `bias`, whatever is observed


def radius_terms(confidence: Confidence, actions: Floats, log: Offline) -> RadiusTerms:
    """The scalars of a radius for these arms (k, d) and this log."""
    if confidence.horizon is not None:
        if find_one_hot(actions) is None:
            raise ValueError("actions must be one-hot for radius 'arms', got arms that share features")
        return terms_of_arms(confidence, len(actions), confidence.horizon)
    if confidence.radius == "own":
        raise ValueError("radius must be another than 'own' for arms that stay: it is for contexts")
    spectrum = design_spectrum(actions, log) if confidence.radius == "hkz" else np.zeros(1)
    return terms_of_log(confidence, actions.shape[1], spectrum)


def terms_of_arms(confidence: Confidence, k: int, horizon: int) -> RadiusTerms:
    """The scalars that bound k one-hot arms one by one: two sides, k arms, and n + 1 counts of each."""
    c, ridge = confidence, confidence.ridge_for(k)
    fixed = c.scale * sqrt(2 * log(2 * k * (horizon + 1) / c.radius_delta))
    return RadiusTerms(fixed, 0.0, sqrt(ridge) * c.bound, prior_is_log=False, constant=True)


def terms_of_log(confidence: Confidence, d: int, spectrum: Floats) -> RadiusTerms:
    """The scalars of a radius for a log whose X'X has these eigenvalues, which only an hkz radius reads."""
    c, ridge, delta = confidence, confidence.ridge_for(d), confidence.radius_delta
    bias = sqrt(ridge) * c.bound
    if c.radius in ("self_normalised", "own"):
        return RadiusTerms(0.0, 2 * log(1 / delta), bias, prior_is_log=False)
    if c.radius == "paper":  # Proposition 1: sqrt(beta_off) + sqrt(beta_t)
        fixed = c.scale * sqrt(covering(d, delta / 2))
        return RadiusTerms(fixed, 2 * log(2 / delta), 0.0, prior_is_log=True)
    offline_part = c.scale * sqrt(quadratic_form(spectrum, ridge, delta / 2))
    return RadiusTerms(offline_part, 2 * log(2 / delta), bias, prior_is_log=True)


def covering(d: int, delta: float) -> float:
    """beta_off(delta) = 8 d log 6 + 8 log(1/delta), by a covering of the sphere."""
    return 8 * d * log(6) + 8 * log(1 / delta)


def quadratic_form(spectrum: Floats, ridge: float, delta: float) -> float:
    """The bound of Hsu, Kakade and Zhang (2012) on |sum of logged noise * action|^2 in V_0^-1.

    With f_i = l_i / (l_i + ridge) over the eigenvalues l_i of the logged design and L = log(1/delta):
    tr f + 2 sqrt(L sum f^2) + 2 L max f. It knows the rank of the log, which a covering does not.
    """
    spectrum = np.maximum(spectrum, 0.0)
    share = spectrum / (spectrum + ridge)
    level = log(1 / delta)
    return float(share.sum() + 2 * sqrt(level * (share**2).sum()) + 2 * level * share.max())


def design_spectrum(actions: Floats, offline: Offline) -> Floats:
    """The eigenvalues of the logged design, those that must be 0 for one-hot arms left out."""
    units = find_one_hot(actions)
    if units is not None:
        return np.asarray(offline.pulls * units.scales**2)
    rows = np.ascontiguousarray(actions, dtype=np.float64)
    return np.asarray(np.linalg.eigvalsh(rows.T @ (offline.pulls[:, None] * rows)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Ellipsoid:
    """A confidence set C_t = {theta : |theta - center|_V <= radius}, eq. (2).

    >>> ball = Ellipsoid(center=[1.0, 0.0], V=[[4.0, 0.0], [0.0, 1.0]], radius=2.0)
    >>> ball.lower([1.0, 0.0]), ball.upper([1.0, 0.0]), ball.contains([1.0, 1.9])
    (0.0, 2.0, True)
    """

    center: Floats  # (d,)
    V: Floats  # (d, d)
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", as_floats("center", self.center, ndim=1))
        object.__setattr__(self, "V", as_floats("V", self.V, ndim=2))
        d = self.center.size
        if d == 0:
            raise ValueError("center must have at least one entry, got none")
        if self.V.shape != (d, d):
            raise ValueError(f"V must have shape {(d, d)} like center, got {self.V.shape}")
        spectrum, near = np.linalg.eigvalsh(self.V), 1e-8 * np.abs(self.V).max()  # in the units of V
        symmetric = np.allclose(self.V, self.V.T, atol=near)
        if not symmetric or spectrum[0] < -1e-9 * spectrum[-1] or spectrum[-1] <= 0:
            raise ValueError("V must be symmetric and positive definite, got one that is not")
        check_nonnegative("radius", self.radius)

    def lower(self, x: npt.ArrayLike) -> float:
        """The least <theta, x> over the set."""
        return self._middle(x) - self._half_width(x)

    def upper(self, x: npt.ArrayLike) -> float:
        """The largest <theta, x> over the set."""
        return self._middle(x) + self._half_width(x)

    def contains(self, theta: npt.ArrayLike) -> bool:
        """Whether this parameter is in the set."""
        away = self._vector("theta", theta) - self.center
        return bool(away @ self.V @ away <= self.radius**2)

    def least_length(self) -> float:
        """The length of the shortest parameter in the set, rounded down.

        It is (V + I / t)^-1 V center for the t at which its distance from the center is the radius.
        """
        spectrum, axes = np.linalg.eigh(self.V)
        return least_length(np.maximum(spectrum, 0.0), axes.T @ self.center, self.radius)

    def _middle(self, x: npt.ArrayLike) -> float:
        return float(self._vector("x", x) @ self.center)

    def _half_width(self, x: npt.ArrayLike) -> float:
        vector = self._vector("x", x)
        return self.radius * sqrt(max(float(vector @ np.linalg.solve(self.V, vector)), 0.0))

    def _vector(self, name: str, value: npt.ArrayLike) -> Floats:
        vector = as_floats(name, value, ndim=1)
        if vector.size != self.center.size:
            raise ValueError(f"{name} must have {self.center.size} entries, got {vector.size}")
        return vector


def least_length(spectrum: Floats, parts: Floats, radius: float) -> float:
    """The same of an ellipsoid in the axes of V: its eigenvalues (d,) and its center (d,).

    1 / distance is a concave function of t that rises from t = 0, so Newton's steps never pass the t that is
    looked for, but for rounding: that of a slightly longer distance, whose parameter is shorter.
    """
    if radius == 0.0:
        return float(np.linalg.norm(parts))
    longest = spectrum.max()
    relative = spectrum / longest  # and t in parts of 1 / longest: no number gets too large
    weights, t = relative * (parts * (np.sqrt(longest) / (radius * (1.0 + NEAR)))) ** 2, np.float64(0.0)
    while True:
        shrunk = 1.0 + relative * t
        square = (weights / shrunk**2).sum()  # of the distance
        beyond = np.sqrt(square) - 1.0
        if not beyond > NEAR:  # nor where it is not a number
            return float(np.linalg.norm(parts * (relative * t / shrunk)))
        t += beyond * (square / (weights * relative / shrunk**3).sum())
