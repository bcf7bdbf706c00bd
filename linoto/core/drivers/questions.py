"""The arms of one round, and what practice does in it, as the kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.validation import as_arm, as_floats, as_names, exact

LARGEST = 1e100  # squared length of all arms of a round
SUMS_TO_ONE = 1e-6  # how far weights may be from it: they come from somebody's floats


class Features(Protocol):
    """What turns a context into the arms of a round: any object with these two will do."""

    @property
    def d(self) -> int: ...

    def transform(self, context: Any, arms: Sequence[str] | None = None) -> npt.ArrayLike:
        """(k, d) one row for each arm that may be played in this context."""


class Round(NamedTuple):
    """One round: its arms, and the weights with which practice plays them."""

    actions: Floats  # (d, n) one column per arm, and one more where practice's action is none of them
    weights: Floats  # (n,) practice's; all 0 where there is none
    offered: int  # k, the arms that may be explored
    names: tuple[str, ...] | None
    peak: float  # the largest weight: 0 where there is no practice, 1 where it is certain

    @property
    def has_practice(self) -> bool:
        """Whether it is known what practice does."""
        return self.peak > 0.0

    def play(self, arm: int) -> dict[str, Any]:
        """What a decision says of the arm that it plays; practice's own action is none of the arms."""
        offered, action = arm < self.offered, tuple(self.actions[:, arm].tolist())
        name = self.names[arm] if self.names and offered else None
        return {"arm": arm if offered else None, "name": name, "action": action}

    def same_as(self, other: Round) -> bool:
        """Whether this is the same question."""
        return np.array_equal(self.actions, other.actions) and np.array_equal(self.weights, other.weights)


def as_round(actions: Any, practice: Any, names: Sequence[str] | None, d: int) -> Round:
    """Check the arms (k, d) of a round, and what practice does in it."""
    arms = np.asarray(actions, dtype=np.float64) if isinstance(actions, np.ndarray) else as_rows(actions)
    if arms.ndim != 2 or arms.shape[1] != d or not len(arms):
        raise ValueError(f"actions must have shape (k, {d}) with k >= 1, got {arms.shape}")
    known = as_names(names, len(arms))
    weights, vector = as_practice(practice, len(arms), d, known)
    columns = np.array(arms.T if vector is None else np.vstack([arms, vector]).T, order="C")
    if not np.vdot(columns, columns) < LARGEST:  # the fastest way to see a number that is none, too
        as_rows(actions)  # says where
        raise ValueError(f"actions must have entries of a size below {LARGEST**0.5:g}, got larger ones")
    certain = practice is None or vector is not None or isinstance(practice, int | str)
    peak = (0.0 if practice is None else 1.0) if certain else float(weights.max())
    return Round(columns, weights, len(arms), known, peak)


def as_rows(actions: Any) -> Floats:
    """The arms of a round as an array."""
    return as_floats("actions", actions, ndim=2)


def as_practice(practice: Any, k: int, d: int, names: tuple[str, ...] | None) -> tuple[Floats, Floats | None]:
    """The weights of practice over the arms of a round, and its own action where it is none of them.

    An array of length k is weights; a row (1, d), or (d,) where d is not k, is an action.
    """
    if practice is None:
        return np.zeros(k), None
    if type(practice) is int and 0 <= practice < k:  # the usual case
        weights = np.zeros(k)
        weights[practice] = 1.0
        return weights, None
    if isinstance(practice, str):
        if names is None or practice not in names:
            raise ValueError(f"practice must be one of this round's arms, got {practice!r}")
        practice = names.index(practice)
    if isinstance(practice, int | np.integer | bool):
        return as_practice(as_arm(practice, k, "practice"), k, d, None)
    array = as_floats("practice", practice, ndim=np.ndim(practice))
    if array.shape == (k,):
        return as_weights(array), None
    if array.shape in ((d,), (1, d)):
        return np.append(np.zeros(k), 1.0), array.reshape(d)
    raise ValueError(
        f"practice must be an arm, {k} weights, or the {d} features of an action, got shape {array.shape}"
    )


def as_weights(weights: Floats) -> Floats:
    """Probabilities: none negative, and together 1."""
    total = float(weights.sum())
    if (weights < 0).any() or abs(total - 1) > SUMS_TO_ONE:
        wrong = (
            f"a weight of {exact(float(weights.min()))}"
            if (weights < 0).any()
            else f"a sum of {exact(total)}"
        )
        raise ValueError(f"practice must have weights >= 0 that sum to 1, got {wrong}")
    return weights / total


def dimension(d: int | None, features: Any) -> int | None:
    """The number of features, where it is given."""
    if features is None:
        return d
    if not callable(getattr(features, "transform", None)) or not hasattr(features, "d"):
        raise ValueError(f"features must have d and transform(context, arms), got {type(features).__name__}")
    if d is not None and d != features.d:
        raise ValueError(f"d must be {features.d} like that of features, got {d}")
    return int(features.d)
