"""The arms of one round, and what practice does in it, as the kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.decisions import UNREAD
from linoto.core.drivers.order import Order
from linoto.core.names import Names, places_of
from linoto.core.validation import LARGEST, as_arm, as_floats, as_names, exact, is_number

SUMS_TO_ONE = 1e-6  # how far weights may be from it: they come from somebody's floats


class Features(Protocol):
    """What turns a context into the arms of a round: any object with these two will do."""

    @property
    def d(self) -> int: ...

    def transform(self, context: Any, arms: Sequence[str] | None = None) -> npt.ArrayLike:
        """(k, d) one row for each arm that may be played in this context."""


class FewFeatures(Features, Protocol):
    """What knows which features are an arm's own, besides; `order_for` looks for it."""

    @property
    def own_width(self) -> int: ...

    @property
    def by_item(self) -> Ints: ...

    def few(self, context: Any, arms: Sequence[str] | None = None) -> tuple[Floats, Ints]:
        """(k, w) an arm's own features and the shared ones, which nobody else holds; (k,) where own begin."""


class Items(FewFeatures, Protocol):
    """Features of items that are known by name, to which others may come."""

    @property
    def items(self) -> tuple[str, ...]: ...

    def item_indices(self, names: Sequence[Any]) -> Ints: ...

    def with_items(self, names: Sequence[str], values: Sequence[Sequence[float]] | None = None) -> Items: ...

    def places_in(self, larger: Any) -> Ints: ...


Few = Callable[[Any, Sequence[str] | None], tuple[Floats, Ints]]  # the method of these


class Round(NamedTuple):
    """One round: its arms, and the weights with which practice plays them."""

    actions: Floats  # (d, n) one column per arm, and one more where practice's action is none of them; or
    # (w, n) the features of each from its place on, where all others are 0
    weights: Floats  # (n,) practice's; all 0 where there is none
    offered: int  # k, the arms that may be explored
    names: Names | None
    peak: float  # the largest weight: 0 where there is no practice, 1 where it is certain
    d: int
    places: Floats | Ints | None = None  # (n,) where the features of each arm begin; None: at the first
    order: Order | None = None  # of the features in `actions`, where it is another; then shared ones end each
    practised: int | None = None  # the arm that practice plays, where that was said

    @property
    def has_practice(self) -> bool:
        """Whether it is known what practice does."""
        return self.peak > 0.0

    def lies_as(self, other: Round) -> bool:
        """Whether its arms have their features where those of another round have them."""
        return self.places is other.places and self.actions.shape == other.actions.shape

    def play(self, arm: int) -> dict[str, Any]:
        """What a decision says of the arm that it plays; practice's own action is none of the arms."""
        return {**self.named(arm), "action": self.entries(arm)}

    def named(self, arm: int) -> dict[str, Any]:
        """The same without its features."""
        offered = arm < self.offered
        return {"arm": arm if offered else None, "name": self.names[arm] if self.names and offered else None}

    def write(self, fields: dict[str, Any], field: str, arm: int) -> None:
        """The features of an arm as a field of a decision: when they are read, where zeros are left out."""
        if self.places is None:
            fields[field] = self.entries(arm)
        else:
            fields[UNREAD[field]] = Round.entries, self, arm

    def entries(self, arm: int) -> tuple[float, ...]:
        """(d,) all features of an arm, as a decision holds them."""
        if self.order is not None and self.places is not None:
            return self.reordered(arm, int(self.places[arm]), self.order)
        known = tuple(self.actions[:, arm].tolist())
        if self.places is None:
            return known
        place = int(self.places[arm])
        known = known[: self.d - place]
        return (0.0,) * place + known + (0.0,) * (self.d - place - len(known))

    def reordered(self, arm: int, place: int, order: Order) -> tuple[float, ...]:
        """The same where the state has another order: what is not 0 is put in its place, without NumPy."""
        found, values = [0.0] * self.d, self.actions[:, arm].tolist()
        own = len(values) - (self.d - order.border)
        for feature, value in zip(order.places[place : place + own].tolist(), values, strict=False):
            found[feature] = value
        for feature, value in zip(order.places[order.border :].tolist(), values[own:], strict=True):
            found[feature] = value
        return tuple(found)

    def action(self, arm: int) -> Floats:
        """(d,) the same as an array of its own, in the order of the state."""
        if self.places is None:
            return self.actions[:, arm].copy()
        if self.order is None:
            place, column, vector = int(self.places.item(arm)), self.actions[:, arm], np.zeros(self.d)
            stop = place + column.size
            vector[place:stop] = column if stop <= self.d else column[: self.d - stop]
            return vector
        border, place, vector = self.order.border, int(self.places[arm]), np.zeros(self.d)
        own = len(self.actions) - (self.d - border)
        part = vector[place : min(place + own, border)]
        part[:] = self.actions[: part.size, arm]
        vector[border:] = self.actions[own:, arm]
        return vector

    @property
    def only_practice(self) -> int:
        """What practice plays, where that is certain and its few features are known; else -1."""
        if self.places is None or self.peak != 1.0:
            return -1
        if self.practised is not None:
            return self.practised
        arm = int(self.weights.argmax())
        return arm if np.count_nonzero(self.weights) == 1 else -1

    @property
    def columns(self) -> Floats:
        """(d, n) all features of all arms."""
        if self.places is None:
            return self.actions
        rows = np.array([self.action(arm) for arm in range(self.weights.size)])
        return (rows if self.order is None else self.order.outside(rows)).T.copy()

    def same_as(self, other: Round) -> bool:
        """Whether this is the same question."""
        return self is other or (
            np.array_equal(self.columns, other.columns) and np.array_equal(self.weights, other.weights)
        )


class Checked(NamedTuple):
    """A question that is asked several times, until the arms change."""

    round: Round
    by: object  # whose question it is
    changes: int  # of the arms before


def as_round(
    actions: Any,
    practice: Any,
    names: Sequence[str] | None,
    d: int,
    *,
    split: bool = False,
    order: Order | None = None,
) -> Round:
    """Check the arms (k, d) of a round, and what practice does in it; `split`: where few features may do."""
    if type(actions) is not np.ndarray or actions.dtype.kind not in "fiu":
        actions = as_rows(actions)
    arms = np.asarray(actions, dtype=np.float64)
    if arms.ndim != 2 or arms.shape[1] != d or not len(arms):
        raise ValueError(f"actions must have shape (k, {d}) with k >= 1, got {arms.shape}")
    known = as_names(names, len(arms))
    weights, vector = as_practice(practice, len(arms), d, known)
    rows = arms if vector is None else np.vstack([arms, vector])
    columns: Floats
    places: Floats | None
    if order is not None:
        columns, places = framed_in(order, rows)
    elif split:
        columns, places = framed(np.ascontiguousarray(rows), d)
    else:
        columns, places = np.array(rows.T, order="C"), None
    if not np.vdot(columns, columns) < LARGEST:  # the fastest way to see a number that is none, too
        as_rows(actions)  # says where
        raise ValueError(f"actions must have entries of a size below {LARGEST**0.5:g}, got larger ones")
    certain = practice is None or vector is not None or isinstance(practice, int | str)
    peak = (0.0 if practice is None else 1.0) if certain else float(weights.max())
    return Round(columns, weights, len(arms), known, peak, d, places, order)


def as_few(
    found: tuple[Floats, Ints], practice: Any, names: Sequence[str] | None, order: Order
) -> Round | None:
    """The same of arms that are given by their few features; None where all of them have to be looked at."""
    (rows, places), needed, k, d = found, None if order.is_plain else order, len(found[0]), order.places.size
    known = names if isinstance(names, tuple) else as_names(names, k)  # a tuple: those of the recipe
    columns, begins = np.ascontiguousarray(rows.T), places.copy() if places.flags.writeable else places
    entries = columns.reshape(-1)
    small = entries.dot(entries) < LARGEST
    if small and type(practice) is int and 0 <= practice < k:  # the usual case
        return Round(columns, certain_weights(k, practice), k, known, 1.0, d, begins, needed, practice)
    weights, vector = as_practice(practice, k, d, known)
    if vector is not None or not small:
        return None
    certain = isinstance(practice, str | int)
    peak = 1.0 if certain else 0.0 if practice is None else float(np.maximum.reduce(weights))
    return Round(columns, weights, k, known, peak, d, begins, needed)


@lru_cache(maxsize=64)
def certain_weights(k: int, arm: int) -> Floats:
    """(k,) the weights of practice where it plays one arm; nobody writes into them."""
    weights = np.zeros(k)
    weights[arm] = 1.0
    return weights


def framed_in(order: Order, rows: Floats) -> tuple[Floats, Floats]:
    """Arms (n, d) as columns in the order of a state: own features, shared ones, and where the own begin."""
    columns, places = framed(order.inside(rows), order.border)
    return columns, np.zeros(len(rows)) if places is None else places


def framed(rows: Floats, border: int) -> tuple[Floats, Floats | None]:
    """Arms (n, d) as columns: the few features that hold all of each, and where those begin; or all."""
    places, shared = np.empty(len(rows)), rows.shape[1] - border
    width = kernels.frame_arms(rows, places, border)
    if width == rows.shape[1]:
        return np.array(rows.T, order="C"), None
    columns = np.empty((width + shared, len(rows)))
    kernels.cut_arms(rows, places, border, columns)
    return columns, places


def as_rows(actions: Any) -> Floats:
    """The arms of a round as an array."""
    return as_floats("actions", actions, ndim=2)


def as_practice(practice: Any, k: int, d: int, names: Names | None) -> tuple[Floats, Floats | None]:
    """The weights of practice over the arms of a round, and its own action where it is none of them.

    An array of length k is weights; a row (1, d), or (d,) where d is not k, is an action.
    """
    if (usual := usual_weights(practice, k)) is not None:
        return usual, None
    if practice is None:
        return np.zeros(k), None
    if type(practice) is int and 0 <= practice < k:  # the usual case
        weights = np.zeros(k)
        weights[practice] = 1.0
        return weights, None
    if isinstance(practice, str):
        if names is None or practice not in names:
            raise ValueError(f"practice must be one of this round's arms, got {practice!r}")
        return as_practice(names.index(practice), k, d, None)
    if isinstance(practice, int | np.integer | bool):
        return as_practice(as_arm(practice, k, "practice"), k, d, None)
    if isinstance(practice, Mapping):
        return weights_by_name(practice, k, names), None
    array = as_floats("practice", practice, ndim=dimensions_of(practice))
    if array.shape == (k,):
        return as_weights(array), None
    if array.shape in ((d,), (1, d)):
        return np.append(np.zeros(k), 1.0), array.reshape(d)
    raise ValueError(
        f"practice must be an arm, {k} weights, or the {d} features of an action, got shape {array.shape}"
    )


def weights_by_name(practice: Mapping[str, Any], k: int, names: Names | None) -> Floats:
    """The weights that a mapping names; the arms of the round that it leaves out have none."""
    if names is None:
        raise ValueError(f"practice must be an arm or {k} weights where arms have no names, got a mapping")
    known, weights = places_of(names), np.zeros(k)
    for name, weight in practice.items():
        if name not in known:
            raise ValueError(f"practice must be of arms of this round, got {name!r}")
        if not is_number(weight):
            raise ValueError(f"practice must have a number for {name!r}, got {weight!r}")
        weights[known[name]] = weight
    return as_weights(as_floats("practice", weights, ndim=1))


def dimensions_of(value: Any) -> int:
    """How many dimensions an array has; 1 where rows differ in length, which `as_floats` refuses by name."""
    try:
        return np.ndim(value)
    except ValueError:
        return 1


def check_listed(must: str, names: Any) -> None:
    """Refuse names that are not in a list: a text would be as many as it has letters."""
    if isinstance(names, str):
        raise ValueError(f"{must} in a list, got the text {names!r}")
    if names is not None and not isinstance(names, Iterable):
        raise ValueError(f"{must} in a list, got {names!r}")


def usual_weights(practice: Any, k: int) -> Floats | None:
    """Probabilities (k,) in an array, in half the time; None for all else, right or wrong."""
    if type(practice) is not np.ndarray or practice.dtype != np.float64 or practice.shape != (k,):
        return None
    total, least = float(np.add.reduce(practice)), float(np.minimum.reduce(practice))
    return practice / total if least >= 0 and abs(total - 1) <= SUMS_TO_ONE else None


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
