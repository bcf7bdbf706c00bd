"""Items that come and go while an agent with contexts runs; new ones may need features of their own.

V is extended by the ridge in new features. That is what it would have been if they had been there all the
time, 0 in every row: log det V / ridge^d, the radius, and the event that they rest on stay what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf, log
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from linoto.core import kernels
from linoto.core.arm_changes import ArmChange
from linoto.core.arrays import Floats, Ints, Records
from linoto.core.decisions import Decision
from linoto.core.explorers import is_users_own
from linoto.core.hints import amount, as_names, shortened_list
from linoto.core.kernels import State

if TYPE_CHECKING:
    from linoto.core.drivers.questions import Items
    from linoto.core.learnt import LearntPolicy


def has_items(features: Any) -> TypeGuard[Items]:
    """Whether items may come."""
    return hasattr(features, "with_items")


def learnt_policy(explorer: object) -> LearntPolicy | None:
    """The explorer, if it was learnt from rows; it has a recipe, too."""
    if not is_users_own(explorer):
        return None
    from linoto.core.learnt import LearntPolicy

    return explorer if isinstance(explorer, LearntPolicy) else None


def check_may_grow(explorer: object) -> None:
    """Refuse new arms where the explorer can say nothing of any: the agent could not decide any more."""
    if learnt_policy(explorer) is not None:
        raise ValueError(
            "explorer must be one that knows new arms, got a LearntPolicy, which knows the arms of its rows "
            "only: learn another from rows with them, and start with it"
        )


def items_of(features: Any) -> Items:
    """The features whose items come and go; refuses others."""
    if has_items(features):
        return features
    if features is None:
        raise ValueError("arms must come with each decision: this agent was started without features")
    raise ValueError(
        "features must have items that come and go, as a linoto.Recipe and linoto.OwnFeatures have, got "
        f"{type(features).__name__}: let its transform offer those there are"
    )


def offered(features: Any, allowed: Any, gone: Collection[str]) -> Any:
    """The items of a round: those that were asked for, or all; none that was removed."""
    if not gone:
        return allowed
    if allowed is None:
        return [name for name in items_of(features).items if name not in gone]
    for name in allowed:
        if name in gone:
            raise ValueError(f"allowed must be present, got {name!r}, which was removed")
    return allowed


def as_removed(names: Sequence[str], known: Items, gone: frozenset[str]) -> tuple[str, ...]:
    """The items to remove: known, not removed before, and not all that are left."""
    places = known.item_indices(as_names(names))
    leaving = tuple(dict.fromkeys(known.items[place] for place in places.tolist()))
    for name in leaving:
        if name in gone:
            raise ValueError(f"arms must be present, got {name!r}, which was removed before")
    if len(leaving) + len(gone) == len(known.items):
        raise ValueError("arms must leave one that can be played, got all of them")
    return leaving


def removed_by(changes: Iterable[ArmChange[str]], before: float = inf) -> frozenset[str]:
    """The items that were gone in round `before`; without it, now."""
    return frozenset(name for change in changes if change.round <= before for name in change.removed)


def features_after(features: Any, changes: Iterable[ArmChange[str]]) -> Any:
    """The features that an agent began with, or has now, with all items that came since."""
    for change in changes:
        if change.added and has_items(features) and change.added[0] not in features.items:
            features = features.with_items(change.added, change.values or None)
    return features


def older_places(changes: Iterable[ArmChange[str]]) -> dict[int, Ints]:
    """Where the features of a decision are now, by how many there were when it was made."""
    found: dict[int, Ints] = {}
    for change in changes:
        if change.places:
            places = np.array(change.places)
            found = {d: places[before] for d, before in found.items()} | {places.size: places}
    return found


def vectors_now(decision: Decision, older: dict[int, Ints], d: int) -> tuple[Floats, Floats]:
    """What a decision plays and what practice does, with the features of now."""
    places = older.get(len(decision.action or ()))
    if places is None:
        return decision.vectors(d)
    longer = np.zeros((2, d))
    longer[:, places] = decision.vectors(places.size)
    return longer[0], longer[1]


def grown(state: State, places: Ints, change: ArmChange[str], params: Records, border: int = 0) -> State:
    """The state with new features, of which nothing is known yet: V is the ridge there.

    `places` (d,) says where its features are now, and `border` from where on they are shared.
    """
    ridge = change.ridge or 0.0
    d = places.size + change.features
    larger = kernels.allocate_rounds(params, np.zeros((d, d)), np.zeros(d))
    larger.square[:, places[:, None], places] = state.square
    larger.vectors[:, places] = state.vectors
    larger.vectors[kernels.NORMALS, 0] = state.vectors[kernels.NORMALS, 0]  # what a uniform explorer drew
    new = np.setdiff1d(np.arange(d), places)
    larger.run[:] = state.run
    larger.run["border"] = border
    for part in (larger, *((kernels.online_part(larger),) if kernels.is_shifted(larger) else ())):
        for row, value in ((kernels.GRAM, ridge), (kernels.INVERSE, 1 / ridge), (kernels.FACTOR, ridge**0.5)):
            part.square[row, new, new] = value
        run = part.run[0]
        for name in ("log_det", "log_det_base"):
            run[name] += new.size * log(ridge)
        run["widest"] = max(float(run["widest"]), 1 / ridge)
    if kernels.keeps_more(params):
        larger.square[-1, new, new] = ridge**0.5 if params[0]["memory"] else params[0]["precision"] ** 0.5
    kernels.mark_blocks(larger)
    return larger


def text_of(change: ArmChange[str], trusts_model: bool) -> str:
    """A change for people: which items, and what is assumed of them.

    >>> text_of(ArmChange(round=7, removed=("blue",)), True)
    'since round 7, without blue'
    """
    about = [
        f"{word} {shortened_list([*names])}"
        for word, names in (("with", change.added), ("without", change.removed))
        if names
    ]
    text = f"since round {change.round:,}, {', '.join(about)}"
    if not change.places:
        return text
    more = f"{change.features} more feature{'s' if change.features > 1 else ''}"
    return f"{text}: {more}" + (
        f", |theta| <= {amount(change.bound)} is assumed with them" if trusts_model else ""
    )
