"""Settings and experiments as data: which problems, which policies, for how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.offline import Offline
from linoto.core.protocols import Policy, starts_without_arms
from linoto.core.validation import check_choice, check_count, check_nonnegative
from linoto.worlds.bandits import Bandit, LinearBandit, logged_pulls, on_sphere, sphere_bandit
from linoto.worlds.contexts import ContextualBandit, LinearRounds

Policies = tuple[tuple[str, Policy], ...]
Reasons = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One problem and the policies that play it. The defaults are the paper's.

    For another kind of world, override `bandit` or `log` in a subclass.
    """

    compares_with: ClassVar[str] = "the log"  # what the shortfall is below

    name: str
    policies: Policies | Mapping[str, Policy]  # kept as (label, policy) pairs
    k: int = 100  # actions
    d: int = 20
    m: int = 100  # logged rewards
    logged_arms: int = 10  # over how many actions they are spread
    include_best: bool = False  # whether the best action is one of them
    horizon: int = 8000
    noise: float = 1.0
    rewards: Literal["gaussian", "bernoulli"] = "gaussian"
    points: int = 161  # rounds kept of each curve, the first and the last among them
    left_out: Reasons | Mapping[str, str] = ()  # who cannot play here, and why; kept as pairs
    metrics: tuple[str, ...] = ()  # besides the reward: 0 or 1, more often along a direction of its own

    def __post_init__(self) -> None:
        for name in ("k", "d", "m", "logged_arms", "horizon"):
            check_count(name, getattr(self, name))
        check_nonnegative("noise", self.noise)
        check_choice("rewards", self.rewards, ("gaussian", "bernoulli"))
        check_flag("include_best", self.include_best)
        check_count("points", self.points)
        if not 2 <= self.points <= 200:
            raise ValueError(f"points must be in [2, 200], got {self.points}")
        if self.rewards == "bernoulli" and self.d < 2:
            raise ValueError(f"d must be at least 2 for Bernoulli rewards, got {self.d}")
        most = self.k - 1 + self.include_best
        if self.logged_arms > most:
            raise ValueError(f"logged_arms must be at most {most} here, got {self.logged_arms}")
        check_label("name", self.name)
        object.__setattr__(self, "policies", as_policies(self.policies))
        object.__setattr__(self, "metrics", as_metric_names(self.metrics))
        for label, policy in self.pairs:
            for rail in getattr(policy, "guardrails", ()):
                if rail.name not in self.metrics:
                    known = ", ".join(self.metrics) or "none"
                    raise ValueError(f"metrics must have {rail.name!r}, which {label!r} guards, got {known}")
        reasons = self.left_out
        object.__setattr__(
            self, "left_out", tuple(reasons.items() if isinstance(reasons, Mapping) else reasons)
        )

    def bandit(self, rng: np.random.Generator) -> LinearBandit:
        """The world of one run: actions and parameter uniform on the unit sphere.

        For Bernoulli rewards the first feature is constant, so that means fill [0, 1]: (1 + <u, v>) / 2.
        """
        if self.rewards == "gaussian":
            return sphere_bandit(k=self.k, d=self.d, rng=rng, noise=self.noise)
        points = on_sphere(self.k + 1, self.d - 1, rng)
        lifted = np.column_stack([np.ones(self.k + 1), points]) / sqrt(2)
        return LinearBandit(actions=lifted[:-1], theta=lifted[-1], rewards="bernoulli")

    def log(self, bandit: LinearBandit, rng: np.random.Generator) -> Offline:
        """The log of one run: m pulls spread evenly over a few actions. The actions do not depend on m."""
        pulls = logged_pulls(bandit, m=self.m, arms=self.logged_arms, include_best=self.include_best, rng=rng)
        return bandit.log(pulls, rng)

    def with_metrics(self, bandit: Any, rng: np.random.Generator) -> Any:
        """The same world with the metrics of this setting: a mean is (1 + <v, a>) / 2, v uniform on the
        sphere."""
        if not self.metrics:
            return bandit
        directions = zip(self.metrics, on_sphere(len(self.metrics), self.direction(bandit), rng), strict=True)
        return replace(bandit, metrics={name: self.metric(bandit, v) for name, v in directions})

    def direction(self, bandit: Any) -> int:
        """How many entries a direction has."""
        return int(bandit.actions.shape[1])

    def metric(self, bandit: Any, direction: Floats) -> Any:
        """What the plays of a world have of a metric along a direction."""
        means = np.clip((1 + bandit.actions @ direction) / 2, 0.0, 1.0)
        return Bandit(actions=bandit.actions, means=means, rewards="bernoulli")

    def policy(self, label: str) -> Policy:
        """The policy with this label."""
        return dict(self.pairs)[label]

    @property
    def pairs(self) -> Policies:
        """The policies with their labels, in order."""
        return as_policies(self.policies)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the policies, in order."""
        return tuple(label for label, _ in self.pairs)

    @property
    def absent(self) -> dict[str, str]:
        """Why somebody cannot play here, by label."""
        return dict(self.left_out)

    @property
    def rounds(self) -> Ints:
        """(p,) the rounds kept of each curve: 1 and the multiples of horizon / (points - 1), rounded up."""
        steps = np.ceil(np.arange(1, self.points) * (self.horizon / (self.points - 1)) - 1e-9)
        return np.unique(np.append(1, np.minimum(steps, self.horizon))).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class ContextualSetting(Setting):
    """A problem whose rounds bring their own arms, and the policies that play it.

    For another world with contexts, override `bandit`. The shortfall is below practice in the same rounds,
    and that is what promises are checked against.

    >>> from linoto import LinTS, Random, run_experiment
    >>> small = ContextualSetting(name="small", horizon=50, policies={"LinTS": LinTS(), "Random": Random()})
    >>> results = run_experiment(Experiment(name="mine", settings=(small,)), runs=2)
    >>> results.final("small", "LinTS", "regret").shape
    (2,)
    """

    compares_with: ClassVar[str] = "practice"

    k: int = 10
    d: int = 10
    logged_arms: int = 1  # not used: practice says what is logged
    error: float = 1.0  # how wrong practice's parameter is
    uniform: float = 0.0  # share of the log in which any arm was played

    def __post_init__(self) -> None:
        super().__post_init__()
        for label, policy in self.pairs:
            if not starts_without_arms(policy):
                raise ValueError(f"policies must start without arms here, got {policy!r} for {label!r}")

    def bandit(self, rng: np.random.Generator) -> Any:
        """The world of one run: the parameter and every round's arms uniform on the unit sphere."""
        return ContextualBandit.synthetic(
            k=self.k, d=self.d, rng=rng, error=self.error, noise=self.noise, rewards=self.rewards
        )

    def log(self, bandit: Any, rng: np.random.Generator) -> Any:
        """The log of one run: m rounds of practice, as moments."""
        return bandit.log(self.m, rng, uniform=self.uniform)

    def direction(self, bandit: Any) -> int:
        if not isinstance(bandit, LinearRounds):
            raise ValueError(f"metrics must be left out in a {type(bandit).__name__}, got some")
        return int(bandit.theta.size)

    def metric(self, bandit: Any, direction: Floats) -> Any:
        return replace(bandit, theta=direction, rewards="bernoulli", metrics={})


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure: settings side by side. `name` is also the name of its files.

    >>> from linoto import LinOtO, LinTS, run_experiment
    >>> small = Setting(name="small", horizon=50, policies={"LinOtO": LinOtO(), "LinTS": LinTS()})
    >>> results = run_experiment(Experiment(name="mine", settings=(small,)), runs=3)
    >>> results.table()[0]["policy"], results.final("small", "LinTS", "regret").shape
    ('LinOtO', (3,))
    """

    name: str
    settings: tuple[Setting, ...]
    title: str = ""
    caption: str = ""  # what a reader should know to read the figure
    view: Literal["curves", "field", "alpha", "pareto", "radius", "bars", "promise"] = "curves"  # of figures

    def __post_init__(self) -> None:
        check_label("name", self.name)
        for name in ("title", "caption"):
            check_text(name, getattr(self, name))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", self.name):
            raise ValueError(f"name must be made of letters, digits, - and _, got {self.name!r}")
        settings = tuple(self.settings)
        if not settings:
            raise ValueError("settings must hold at least one setting, got none")
        check_distinct("settings", [setting.name for setting in settings])
        object.__setattr__(self, "settings", settings)

    def setting(self, name: str) -> Setting:
        """The setting with this name."""
        return next(setting for setting in self.settings if setting.name == name)


def as_policies(policies: Policies | Mapping[str, Policy]) -> Policies:
    """(label, policy) pairs with distinct labels, each policy one that can be started."""
    pairs = tuple(policies.items() if isinstance(policies, Mapping) else policies)
    if not pairs:
        raise ValueError("policies must hold at least one policy, got none")
    for label, policy in pairs:
        check_label("policies", label)
        if isinstance(policy, type) or not callable(getattr(policy, "start", None)):
            raise ValueError(f"policies must have a start method, got {policy!r} for {label!r}")
    check_distinct("policies", [label for label, _ in pairs])
    return pairs


def as_metric_names(names: Any) -> tuple[str, ...]:
    """Names of metrics, each once."""
    if isinstance(names, str):
        raise ValueError(f"metrics must be a list of names, got the text {names!r}")
    found = tuple(names)
    for name in found:
        check_label("metrics", name)
    check_distinct("metrics", list(found))
    return found


def check_label(name: str, label: Any) -> None:
    """Refuse a label that is empty, no text, or more than one line."""
    if not isinstance(label, str) or not label.strip() or not label.isprintable():
        raise ValueError(f"{name} must be one line of text, got {label!r}")


def check_text(name: str, text: Any) -> None:
    """Refuse anything but text."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text, got {text!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")


def check_distinct(name: str, labels: list[str]) -> None:
    """Refuse the same name twice."""
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{name} must have distinct names, got {label!r} twice")
