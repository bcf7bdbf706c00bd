"""Arms that come and go: what a change does to the state, to the assumptions, and to the promise.

An arm keeps its index and its name for ever. A removed one is never played again, but what was played of it
stays owed, and its late rewards still count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.certificates import Certificate, Situation
from linoto.core.confidence import Confidence
from linoto.core.explorers import rule_of
from linoto.core.gates import Gate
from linoto.core.hints import amount, shortened_list
from linoto.core.kernels import State
from linoto.core.names import Names
from linoto.core.offline import Offline
from linoto.core.one_hot import OneHotArms
from linoto.core.validation import MANY_ARMS, as_arm, as_arms, as_floats, exact, is_number

Arm = TypeVar("Arm", int, str)


@dataclass(frozen=True, kw_only=True)
class ArmChange(Generic[Arm]):
    """One change of the arms, and what is different from `round` on.

    Arms are known by their places, or by their names where rounds bring their own.
    """

    round: int  # the first round that it holds for
    added: tuple[Arm, ...] = ()
    removed: tuple[Arm, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()  # of each that came, where a recipe has item columns
    features: int = 0  # new ones; the arms before have 0 there
    places: tuple[int, ...] = ()  # of the features before, where new ones are not all behind them
    ridge: float | None = None  # as it was: the usual one would change with the number of features
    bound: float | None = None  # on |theta|, from here on
    fallback: int | None = None  # the fixed fallback from here on
    left: float | None = None  # the share of the log that practice still has, where it lost an arm
    kappa: float | None = None  # rounding of that mixture, where it is played in turns
    per_round: float | None = None  # what a round can lose from here on, where that depends on the arms left

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ArmChange[Arm]:
        """The change that `asdict` wrote."""
        lists = {name: tuple(part) for name, part in data.items() if isinstance(part, list)}
        return cls(**{**data, **lists, "values": tuple(map(tuple, data.get("values", ())))})


# -- what may change


def check_change(gate: Gate, explorer: object, confidence: Confidence, thrown: bool) -> None:
    """Refuse where no theorem knows changes, or where a round is decided but not yet played."""
    if not gate.arms_may_change:
        raise ValueError(
            f"gate must be one that knows arms that come and go, got {type(gate).__name__}, whose "
            "theorem does not: start a new agent from the rewards so far"
        )
    if rule_of(explorer).keeps_scores:
        raise ValueError(
            f"explorer must score the arms in every round where they come and go, got {explorer!r}"
        )
    if confidence.shift > 0:
        raise ValueError(
            f"shift must be 0 for arms that come and go, got {confidence.shift:g}: the estimate "
            "without the log is kept for the arms of the start; start a new agent from the rewards so far"
        )
    if confidence.radius == "arms":
        raise ValueError("radius must be another than 'arms' for arms that come and go: it counts the arms")
    if thrown:
        raise ValueError("arms must change between rounds, got a coin that is thrown: commit its decision")


def as_new_actions(actions: npt.ArrayLike, d: int) -> Floats:
    """(j, d + n) at least one new arm; further columns are features that the arms so far do not have."""
    new = as_floats("actions", actions, ndim=2)
    if new.shape[0] == 0:
        raise ValueError("actions must hold at least one new arm, got none")
    if new.shape[1] < d:
        raise ValueError(
            f"actions must have the {d} features of the arms so far, or more for new ones, got {new.shape[1]}"
        )
    return new


def names_with(names: Names | None, new: Sequence[str] | None, j: int) -> Names | None:
    """The names of all arms; a name is never given twice, not even that of a removed arm."""
    if (names is None) != (new is None):
        wanted = (
            "None, as the arms so far have none" if names is None else "given, as the arms so far have some"
        )
        raise ValueError(f"names must be {wanted}, got {new!r}")
    if names is None or new is None:
        return None
    result = (*names, *(str(name) for name in new))
    if len(new) != j or len(set(result)) != len(result):
        got = shortened_list([str(name) for name in new])
        raise ValueError(f"names must be {j} that no arm has or had, got {got}")
    return result


def as_leaving(arms: npt.ArrayLike, present: Bools) -> Ints:
    """Distinct arms that are present, at least one of which stays."""
    leaving = np.unique(as_arms("arms", np.atleast_1d(np.asarray(arms)), present.size))
    if leaving.size == 0:
        raise ValueError("arms must hold at least one arm to remove, got none")
    if not present[leaving].all():
        gone = leaving[~present[leaving]]
        raise ValueError(f"arms must be present, got {gone[0]}, which was removed before")
    if leaving.size == present.sum():
        raise ValueError("arms must leave at least one arm to play, got all that are left")
    return leaving


def as_fallback(fallback: int | None, present: Bools, leaving: int) -> int:
    """The arm that takes the place of a fixed fallback that is removed."""
    if fallback is None:
        raise ValueError(
            f"fallback must name another arm where arm {leaving}, the fallback, is removed, got None"
        )
    arm = as_arm(fallback, present.size, "fallback")
    if not present[arm]:
        raise ValueError(f"fallback must be an arm that is present, got {arm}, which is removed")
    return arm


def check_practice(logged: Ints, stay: Bools) -> None:
    """Refuse to remove the last arm of the log where practice is what is left of it."""
    if logged.sum() > 0 and (logged * stay).sum() == 0:
        raise ValueError(
            "arms must leave one that the log has, got all of them: there would be no practice left to "
            "compare with; start a new agent from the rewards so far"
        )


def addition(
    state: State, params: Records, confidence: Confidence, new: Floats, bound: float | None
) -> ArmChange[int]:
    """What it is to add these arms (j, d + n) now."""
    k, d = state.arms.shape[1], state.vectors.shape[1]
    added = tuple(range(k, k + len(new)))
    change = ArmChange(round=int(state.run[0]["rounds"]) + 1, added=added)
    if new.shape[1] == d and bound is not None:
        raise ValueError(f"bound must be None where no feature is new, got {bound!r}")
    if new.shape[1] == d:
        return change
    longer = as_bound(bound, confidence, grown_bound(confidence, new, d))
    return replace(change, features=new.shape[1] - d, ridge=float(params[0]["ridge"]), bound=longer)


def removal(state: State, params: Records, arms: npt.ArrayLike, fallback: int | None) -> ArmChange[int]:
    """What it is to remove these arms now."""
    present, fixed = state.counts[kernels.ALLOWED] == 1, int(params[0]["fixed_arm"])
    leaving = as_leaving(arms, present)
    present[leaving] = False
    change = ArmChange(round=int(state.run[0]["rounds"]) + 1, removed=tuple(leaving.tolist()))
    if params[0]["fallback"] == kernels.FIXED_ARM and not present[fixed]:
        return replace(change, fallback=as_fallback(fallback, present, fixed))
    if fallback is not None:
        raise ValueError(f"fallback must be None where no fixed fallback is removed, got {fallback!r}")
    return change


# -- the state


def grown(state: State, new: Floats, ridge: float, precision: float) -> State:
    """The state with new arms (j, d + n), of which nothing is known yet.

    V is `ridge` in new features, and W, where clicks have one, `precision`.
    """
    k, d, width = state.arms.shape[1], state.vectors.shape[1], new.shape[1]
    larger = empty_state(state, new)
    larger.vectors[:, :d] = state.vectors
    rows = kernels.WHITE if state.run[0]["whitened"] else len(state.arms)  # `meet_arms` fills those behind
    larger.arms[:rows, :k] = state.arms[:rows]
    larger.counts[:, :k], larger.counts[kernels.ALLOWED, k:] = state.counts, 1
    one_hot, whitened = bool(larger.run[0]["one_hot"]), bool(larger.run[0]["whitened"])
    if one_hot:
        larger.arms[kernels.PLACE, k:] = find_places(new)
    else:
        larger.arms[kernels.PLACE] = 0  # those of arms that were one-hot until now
    larger.run[:] = state.run
    larger.run["one_hot"], larger.run["whitened"] = one_hot, whitened
    for row in range(len(larger.square)):
        square = state.square[row] if one_hot else kernels.square_of(state, row)
        larger.square[row, : len(square), :d] = square
    extend_ridge(larger, d, width, ridge)
    if kernels.has_more(state):
        features = np.arange(d, width)
        larger.square[-1, np.zeros_like(features) if one_hot else features, features] = precision**0.5
    return larger


def empty_state(state: State, new: Floats) -> State:
    """Zeros for the arms of a state and new ones; without the zeros of one-hot arms, where all are."""
    k, (j, width) = state.arms.shape[1], new.shape
    d, places = state.vectors.shape[1], find_places(new)
    if state.run[0]["one_hot"] and places is not None:
        together = np.append(state.arms[kernels.PLACE].astype(np.int64), places)
        if np.unique(together).size == k + j:
            scales = np.append(state.actions[0], new[np.arange(j), places])
            return kernels.empty_state(new, OneHotArms(together, scales, width), more=kernels.has_more(state))
    actions = np.zeros((k + j, width))
    actions[:k, :d], actions[k:] = kernels.actions_of(state), new
    whitened = bool(state.run[0]["whitened"]) and k + j < MANY_ARMS
    return kernels.empty_state(actions, None, more=kernels.has_more(state), whitened=whitened)


def find_places(new: Floats) -> Ints | None:
    """(j,) the only feature of each arm, or None where one has several."""
    alone = (np.count_nonzero(new, axis=1) == 1).all()
    return (new != 0).argmax(axis=1) if alone else None


def extend_ridge(state: State, d: int, width: int, ridge: float) -> None:
    """V, V^-1 and R of the features from `d` on, of which nothing is known."""
    features, run = np.arange(d, width), state.run[0]
    rows = np.zeros_like(features) if run["one_hot"] else features
    for row, value in ((kernels.GRAM, ridge), (kernels.INVERSE, 1 / ridge), (kernels.FACTOR, ridge**0.5)):
        state.square[row, rows, features] = value
    if not features.size:
        return
    more = features.size * float(np.log(ridge))
    run["log_det"], run["log_det_base"] = run["log_det"] + more, run["log_det_base"] + more
    run["widest"] = max(float(run["widest"]), 1 / ridge)


def grown_bound(confidence: Confidence, new: Floats, d: int) -> float:
    """A bound on |theta| with the new features, where each belongs to one new arm that has no other.

    That arm's mean is all there is of the feature, and the range of rewards bounds it. Otherwise the bound
    stays: it is then assumed of the longer theta.
    """
    limits, alone = confidence.reward_range, new[:, d:]
    one_each = (np.count_nonzero(alone, axis=0) == 1).all() and (np.count_nonzero(alone, axis=1) == 1).all()
    if limits is None or new[:, :d].any() or not one_each:
        return confidence.bound
    most = max(abs(limits[0]), abs(limits[1]))
    return hypot(confidence.bound, *(most / np.abs(alone).max(axis=1)))


def as_bound(bound: float | None, confidence: Confidence, usual: float) -> float:
    """The bound on |theta| with new features: as given, no less than before, or the usual one."""
    if bound is None:
        return usual
    if not is_number(bound) or not confidence.bound <= bound < np.inf:
        raise ValueError(f"bound must be at least {exact(confidence.bound)}, as before, got {bound!r}")
    return float(bound)


def composition_after(composition: Any, changes: Iterable[Any]) -> Any:
    """The composition with the ridge, the bound and the fixed fallback that changes of arms have left."""
    for change in changes:
        if getattr(change, "fallback", None) is not None:
            composition = replace(composition, fallback=change.fallback)
        if change.features:
            confidence = replace(composition.assumed, ridge=change.ridge, bound=change.bound)
            composition = replace(composition, confidence=confidence)
    return composition


# -- the promise


def with_effect(change: ArmChange[int], situation: Situation, before: float) -> ArmChange[int]:
    """A removal with what it just did to practice and to the promise; `before` it, this was the premium."""
    run, state = situation.run[0], situation.state
    assert state is not None  # a change of arms is one of a state
    change = replace(change, per_round=situation.gate.per_round_after(situation))
    if run["premium"] == before:
        return change
    change = replace(change, left=float(run["practised"] / run["logged"]))
    if not situation.rounds_mixture:
        return change
    pulls = state.counts[kernels.PRACTICE_PULLS]
    practice = Offline(pulls=pulls, reward_sums=np.zeros(pulls.size))
    return replace(change, kappa=situation.gate.rounding_after(practice, situation))


def amended(
    certificate: Certificate, changes: tuple[ArmChange[int], ...], texts: tuple[str, ...]
) -> Certificate:
    """A certificate from before the first round, and what the changes since have done to it."""
    if not changes:
        return certificate
    low, high = certificate.reward_range
    if not certificate.holds or certificate.per_round is None or certificate.constant is None:
        return replace(certificate, changes=texts)
    rates = [change.per_round for change in changes if change.per_round is not None]
    rounding = sum(change.kappa * (high - low) for change in changes if change.kappa is not None)
    per_round = max(certificate.per_round, *rates, 0.0)
    return replace(
        certificate,
        per_round=per_round,
        constant=certificate.constant + rounding,
        vacuous=certificate.vacuous or per_round >= certificate.possible,
        changes=texts,
    )


def text_of(change: ArmChange[int], names: Names | None) -> str:
    """A change for people: which arms, and what practice and the promise are since then.

    >>> text_of(ArmChange(round=7, removed=(1,), left=0.75), ("red", "blue"))
    'since round 7, without blue: practice is the log without it, 75 % of its rows'
    """
    shown = {
        word: shortened_list([names[arm] if names else f"arm {arm}" for arm in arms])
        for word, arms in (("with", change.added), ("without", change.removed))
        if arms
    }
    parts = []
    if change.left is not None:
        it = "it" if len(change.removed) == 1 else "them"
        parts.append(f"practice is the log without {it}, {100 * change.left:.3g} % of its rows")
    if change.kappa is not None:
        parts.append(f"its rounding adds {amount(change.kappa)} (hi - lo)")
    if change.per_round is not None:
        parts.append(f"a round loses at most {amount(change.per_round)}")
    if change.fallback is not None:
        parts.append(f"the fallback is {names[change.fallback] if names else f'arm {change.fallback}'}")
    if change.features:
        more = f"{change.features} more feature{'s' if change.features > 1 else ''}"
        parts.append(f"estimates assume |theta| <= {amount(change.bound)}, with {more}")
    about = ", ".join(f"{word} {arms}" for word, arms in shown.items())
    return f"since round {change.round:,}, {about}" + (f": {'; '.join(parts)}" if parts else "")
