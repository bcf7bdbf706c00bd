"""What can a log not tell: which directions and arms are out of its reach?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.audit.directions import SHOWN_DIRECTIONS, directions_of, main_features
from linoto.audit.sentences import names_of
from linoto.core.arrays import Floats, Ints
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.hints import amount, counted
from linoto.core.offline import Offline, as_offline
from linoto.core.theory import effective_dimension
from linoto.core.validation import as_actions
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log

NOTHING = 1e-9  # of the largest eigenvalue: what is smaller is rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Which directions of the arm set, or of what features can be, the log has looked into."""

    eigenvalues: Floats  # of the logged design, ascending, one for each direction that there is
    rank: int  # directions the log knows
    unseen: Ints  # arms without a pull
    unknown: Ints  # arms whose action is not a combination of logged ones; none with contexts
    untested: Ints  # unseen arms the log judges by the model alone; none with contexts
    directions: tuple[tuple[int, ...], ...]  # features of each unknown direction, or weak one with contexts
    ridge: float
    effective: int | None = None  # d_eff over the horizon; None with contexts: no action is the longest
    never: tuple[int, ...] = ()  # with contexts: features that are 0 in all rows

    @property
    def weak(self) -> int:
        """Directions of which the log says less than the ridge does."""
        return int((self.eigenvalues < self.ridge).sum())

    @property
    def determined(self) -> float:
        """The sum of eigenvalue / (eigenvalue + ridge): so many features the log determines."""
        return float((self.eigenvalues / (self.eigenvalues + self.ridge)).sum())


def find_coverage(actions: npt.ArrayLike, offline: Offline, *, ridge: float, rounds: int) -> Coverage:
    """Rank, spectrum, and the arms and directions that are out of reach."""
    arms = as_actions(actions)
    log, directions = as_offline(offline, len(arms)), directions_of(arms)
    if directions.longest == 0 and not arms.any():
        raise ValueError("actions must have a feature that is not 0, got none")
    found, unseen = directions.reach(log.pulls), log.pulls == 0
    return Coverage(
        eigenvalues=found.eigenvalues,
        rank=found.rank,
        unseen=np.flatnonzero(unseen),
        unknown=found.unknown,
        untested=np.flatnonzero(unseen & found.touched),
        directions=found.hidden,
        ridge=ridge,
        effective=effective_dimension(found.eigenvalues + ridge, rounds=rounds, norm=directions.longest),
    )


# -- with contexts ----------------------------------------------------------------------------------------


def find_context_coverage(recipe: Recipe, moments: Moments, *, ridge: float) -> Coverage:
    """The spectrum of X'X within what features can be: one-hot features have sums that never change."""
    possible = possible_rows(recipe)
    sizes, axes = np.linalg.eigh(possible.T @ possible)
    basis = axes[:, sizes > NOTHING * sizes[-1]]
    eigenvalues, directions = np.linalg.eigh(basis.T @ moments.gram @ basis)
    known = eigenvalues > NOTHING * eigenvalues[-1]
    none = np.zeros(0, dtype=np.int64)
    found = Coverage(
        eigenvalues=np.where(known, eigenvalues, 0.0),
        rank=int(known.sum()),
        unseen=none,
        unknown=none,
        untested=none,
        directions=(),
        ridge=ridge,
        never=tuple(np.flatnonzero(np.diag(moments.gram) == 0).tolist()),
    )
    weakest = range(min(found.weak, SHOWN_DIRECTIONS))
    return replace(found, directions=tuple(main_features(basis @ directions[:, place]) for place in weakest))


def possible_rows(recipe: Recipe) -> Floats:
    """(n, d) features of made-up contexts and items that together span all there can be.

    Each feature is there once on purpose; all the rest of a row is drawn.
    """
    rng = np.random.default_rng(0)
    n = 3 * recipe.d
    levels = {column.name: len(column.labels) for column in recipe.context if column.leveled}
    if recipe.items:
        levels[recipe.item] = len(recipe.items)
    codes = {name: rng.integers(0, count, n) for name, count in levels.items()}
    for term, place in recipe.slices.items():
        leveled = [name for name in term if name in levels]
        shape = [levels[name] for name in leveled]
        cells = np.indices(shape).reshape(len(shape), prod(shape))
        for name, code in zip(leveled, cells, strict=True):
            codes[name][place.start : place.start + len(code)] = code[: place.stop - place.start]
    factors = {name: np.eye(levels[name])[code] for name, code in codes.items() if name != recipe.item}
    for name, matrix in recipe.item_matrices.items():
        factors[name] = matrix[codes[recipe.item]]
    for column in recipe.columns:
        if column.name not in factors:
            factors[column.name] = column.possible(n, rng)
    return recipe.assemble(factors, n)


# -- what a person reads ----------------------------------------------------------------------------------


def design_fact(coverage: Coverage, horizon: int) -> str:
    """How much of what there is the log has looked into."""
    if coverage.effective is not None:
        return (
            f"the log knows {coverage.rank} of the {coverage.eigenvalues.size} directions the arms have; "
            f"effective dimension {coverage.effective} over {counted(horizon, 'round')}"
        )
    weak = f", and of {coverage.weak:,} it says less than the ridge of {amount(coverage.ridge)}"
    return (
        f"the log knows {coverage.rank:,} of the {coverage.eigenvalues.size:,} directions that features "
        f"can have{weak if coverage.weak else ''}; it determines as much as "
        f"{counted(coverage.determined, 'free feature')}"
    )


def unknown_facts(coverage: Coverage, arms: ArmTable) -> Iterator[tuple[str, str]]:
    """Directions and arms that the log says nothing about."""
    for direction in () if arms.independent else coverage.directions:
        yield "cannot tell", f"anything along {' and '.join(arms.labels[i] for i in direction)}"
    if coverage.unknown.size:
        yield "cannot tell", f"how good these are: {names_of(arms.names, coverage.unknown)}"


def unknown_context_facts(coverage: Coverage, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Features that the log never has, and directions it says little about."""
    names = recipe.names
    if coverage.never:
        yield "cannot tell", f"anything about {names_of(names, coverage.never)}: never in the log"
    for direction in coverage.directions:
        if not {*direction} & {*coverage.never}:
            yield "cannot tell", f"much along {' and '.join(names[i] for i in direction)}"


def design_dict(coverage: Coverage, log: Log) -> dict[str, Any]:
    """The spectrum, and what is out of reach by its name."""
    labels = log.features.labels
    return {
        "dimension": len(labels),
        "rank": coverage.rank,
        "rank_of_arms": coverage.eigenvalues.size,
        "eigenvalues": coverage.eigenvalues,
        "effective_dimension": coverage.effective,
        "unknown_arms": [log.arms.names[arm] for arm in coverage.unknown],
        "unknown_directions": [[labels[i] for i in direction] for direction in coverage.directions],
        "never_seen": [labels[i] for i in coverage.never],
        "weak": coverage.weak,
        "ridge": coverage.ridge,
        "determined": coverage.determined,
    }
