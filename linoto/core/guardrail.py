"""A metric besides the reward that must not suffer: what may be lost of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np

from linoto.core.features.moments import Moments
from linoto.core.hints import amount
from linoto.core.offline import Offline
from linoto.core.validation import (
    as_floats,
    as_range,
    as_reward,
    check_nonnegative,
    check_positive,
    exact,
    is_number,
    normalise,
)

LINES = frozenset(
    (
        *("verdict", "because", "rows", "arms", "contexts", "rewards", "reward", "noise", "tails", "design"),
        *("horizon", "promise", "gate", "note", "why", "vacuous", "kappa", "probability", "assumes", "bound"),
        *("compared with", "mean reward of the log", "not assumed", "arms changed", "reward range", "delta"),
        *("most lost in all", "most lost per round", "most lost in a stretch", "linear?", "steady?", "shift"),
        *("assumed bound", "assumed noise", "assumed reward_range", "assumed reward range", "cannot tell"),
        *("propensities", "features", "budget", "contexts help?", "possible cap"),
    )
)
"""What lines of audits and certificates are called: a metric of that name is told from them by quotes."""


@dataclass(frozen=True)
class Guardrail:
    """At most `budget`, plus `rate` per round, of a metric besides the reward is lost.

    It is given with a gate, and promised like the reward: with probability 1 - delta, for every round, the
    reward and every guardrail at once. Every value lies in `reward_range`. Where `lower_is_better`
    (complaints, refunds, seconds), what is lost is what there is *more* of. `mean` is about what practice has
    of it, where that is known: the books start with it, and no promise behind a `Control` gate needs it. A
    `Tolerance` compares with the log: there `mean` is that of the values in all its rows, `logged` of them.
    Where the model may pay, a `bound` on the length of the metric's own parameter lets it, given the `sums`
    of the values in the log: of each arm or, with contexts, of values times features (see `logged_in`).

    >>> Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=20).loss(1000)
    20.0
    """

    unsaid: ClassVar[tuple[str, ...]] = ("logged", "bound", "sums")  # stored only where they are known

    name: str
    _: KW_ONLY
    reward_range: tuple[float, float]
    lower_is_better: bool = False
    budget: float = 0.0
    rate: float = 0.0
    mean: float | None = None
    logged: int | None = None
    bound: float | None = None
    sums: tuple[float, ...] | None = None  # (k,), or (d,) with contexts

    def __post_init__(self) -> None:
        normalise(self)
        object.__setattr__(self, "name", as_metric_name(self.name))
        object.__setattr__(self, "reward_range", as_range(self.reward_range))
        for name in ("budget", "rate"):
            check_nonnegative(name, getattr(self, name))
        if not isinstance(self.lower_is_better, bool):
            raise ValueError(f"lower_is_better must be True or False, got {self.lower_is_better!r}")
        low, high = self.reward_range
        if self.rate >= self.width:
            raise ValueError(
                f"rate must be below {exact(self.width)}, the width of its range, got {exact(self.rate)}: "
                "no round could lose more, so nothing would be promised"
            )
        if self.mean is not None and not (is_number(self.mean) and low <= self.mean <= high):
            raise ValueError(f"mean must be in [{exact(low)}, {exact(high)}] or None, got {self.mean!r}")
        whole = isinstance(self.logged, int) and not isinstance(self.logged, bool)
        if self.logged is not None and not (whole and self.logged > 0):
            raise ValueError(f"logged must be a number of rows >= 1 or None, got {self.logged!r}")
        if self.bound is not None:
            check_positive("bound", self.bound)
        if self.sums is not None:
            object.__setattr__(self, "sums", tuple(as_floats("sums", self.sums, ndim=1).tolist()))

    def logged_in(self, log: Offline | Moments, *, bound: float | None = None) -> Guardrail:
        """The same with what a log had of it, with the values of the metric in the reward's place.

        >>> rail = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=20)
        >>> known = rail.logged_in(Offline(pulls=[30, 10], reward_sums=[3.0, 1.0]), bound=1.0)
        >>> known.mean, known.logged, known.sums
        (0.1, 40, (3.0, 1.0))
        """
        if not isinstance(log, Offline | Moments):
            raise ValueError(
                f"log must be an Offline or Moments with the values of {self.name} as rewards, got "
                f"{type(log).__name__}"
            )
        sums, rows = (
            (log.reward_sums, log.total) if isinstance(log, Offline) else (log.reward_vector, log.count)
        )
        low, high = self.reward_range
        known: dict[str, Any] = {"mean": min(max(log.reference, low), high), "logged": rows}
        if bound is not None or self.bound is not None:
            known |= {"bound": self.bound if bound is None else bound, "sums": tuple(sums.tolist())}
        return replace(self, **known)

    def loss(self, rounds: int) -> float:
        """The most that can be lost of it in so many rounds."""
        return self.budget + self.rate * rounds

    @property
    def width(self) -> float:
        """Of its range: what one round can lose."""
        low, high = self.reward_range
        return high - low

    @property
    def label(self) -> str:
        """Its name where lines have names."""
        return labelled(self.name)

    @property
    def turn(self) -> float:
        """-1 where lower is better: times that, more is better."""
        return -1.0 if self.lower_is_better else 1.0

    @property
    def limits(self) -> tuple[float, float]:
        """The range of its values, turned so that more is better."""
        low, high = self.reward_range
        return (-high, -low) if self.lower_is_better else (low, high)

    def turned(self, value: Any) -> float:
        """A value as the books have it, more being better; refuses one outside of the range."""
        if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_:
            raise ValueError(f"{self.name} must be a number, got {value!r}")  # as over HTTP
        number, (low, high) = as_reward(value, self.name), self.reward_range
        nearest = min(max(number, low), high)
        if abs(number - nearest) > 1e-15 * (abs(low) + abs(high)):  # as of rewards: 0.1 + 0.2 is above 0.3
            raise ValueError(f"{self.name} must be in [{exact(low)}, {exact(high)}], got {exact(number)}")
        return self.turn * nearest

    def text(self, against: str) -> str:
        """What is promised, for people."""
        terms = [amount(self.budget)] if self.budget > 0 or self.rate == 0 else []
        terms += [f"{amount(self.rate)} a round"] if self.rate > 0 else []
        direction = "more" if self.lower_is_better else "less"
        return f"at most {' and '.join(terms)} {direction} than {against}"


def labelled(name: str) -> str:
    """The name of a metric, in quotes where a line could be called so.

    >>> labelled("complaints"), labelled("noise")
    ('complaints', "'noise'")
    """
    return f"'{name}'" if name.partition(":")[0] in LINES else name


def as_metric_name(given: Any) -> str:
    """A name without spaces around it, and with one way to write each letter: two that look alike are one."""
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"name must be a text that is not empty, got {given!r}")
    return normalize("NFC", given.strip())


def as_guardrails(given: Any) -> tuple[Guardrail, ...]:
    """Guardrails with names of their own."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"guardrails must be a list of linoto.Guardrail, got {type(given).__name__}")
    rails = tuple(given)
    for rail in rails:
        if not isinstance(rail, Guardrail):
            raise ValueError(f"guardrails must be a list of linoto.Guardrail, got {rail!r} in it")
    names = [rail.name for rail in rails]
    if len(set(names)) < len(names):
        raise ValueError(f"guardrails must have names of their own, got {', '.join(names)}")
    return rails
