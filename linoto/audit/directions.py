"""What a log says of each direction of its arms; of one-hot arms, which share no feature, by diagonals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from linoto.audit.regression import RANK, OwnMeans, Regression, regress, well_scaled
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline
from linoto.core.one_hot import OneHotArms, find_one_hot

SHOWN_DIRECTIONS = 8  # directions that are described


class Reach(NamedTuple):
    """Which directions and arms a log knows, by how often it pulled each arm."""

    rank: int  # directions it knows
    eigenvalues: Floats  # of the logged design, ascending, one for each direction that there is
    unknown: Ints  # arms whose action is not a combination of logged ones
    touched: Bools  # (k,) arms that are not orthogonal to every logged one
    hidden: tuple[tuple[int, ...], ...]  # features of each unknown direction, the first few


class Directions(Protocol):
    """What an audit asks of an arm set."""

    @property
    def count(self) -> int:
        """Directions that the arms have."""

    @property
    def longest(self) -> float:
        """The length of the longest arm."""

    def regress(self, offline: Offline) -> Regression | OwnMeans:
        """Fit the means of the logged arms, each with the weight of its pulls."""

    def reach(self, pulls: Ints) -> Reach:
        """What so many pulls of each arm look into."""


def directions_of(actions: Floats) -> Directions:
    """Those of one-hot arms take k steps, those of any others k d^2."""
    units = find_one_hot(actions)
    return SharedDirections(actions) if units is None else OneHotDirections(units)


@dataclass(frozen=True, eq=False)
class OneHotDirections:
    """Every arm is a multiple of a unit vector of its own."""

    units: OneHotArms

    @property
    def count(self) -> int:
        return self.units.scales.size

    @property
    def longest(self) -> float:
        return float(np.abs(self.units.scales).max())

    def regress(self, offline: Offline) -> OwnMeans:
        return OwnMeans.of(self.units, offline)

    def reach(self, pulls: Ints) -> Reach:
        unseen, places = pulls == 0, self.units.places
        hidden = np.sort(places[unseen]) if self.count > 1 else places[:0]  # one arm is as an intercept
        return Reach(
            rank=int((~unseen).sum()),
            eigenvalues=np.sort(pulls * np.float64(self.units.scales) ** 2),
            unknown=np.flatnonzero(unseen),
            touched=~unseen,
            hidden=tuple((feature,) for feature in hidden[:SHOWN_DIRECTIONS].tolist()),
        )


@dataclass(frozen=True, eq=False)
class SharedDirections:
    """Arms with any features. Ranks are told in coordinates of like size; the spectrum is that of the actions
    as they are."""

    arms: Floats  # (k, d)

    @property
    def count(self) -> int:
        return len(row_basis(well_scaled(self.arms)[0]))

    @property
    def longest(self) -> float:
        return float(np.linalg.norm(self.arms, axis=1).max())

    def regress(self, offline: Offline) -> Regression:
        return regress(self.arms, offline)

    def reach(self, pulls: Ints) -> Reach:
        better, _ = well_scaled(self.arms)
        seen, lengths = pulls > 0, np.linalg.norm(better, axis=1)
        known = row_basis(better[seen])
        outside = better - (better @ known.T) @ known
        away = np.linalg.norm(outside, axis=1)
        varying = (better != better[0]).any(axis=0)  # an intercept is part of every direction, and of none
        hidden = row_basis(outside * varying, least=1e-8 * float(lengths.max()))
        eigenvalues = np.zeros(len(row_basis(better)))
        sizes = np.linalg.svd(np.sqrt(pulls)[:, None] * self.arms, compute_uv=False)
        eigenvalues[: len(known)] = sizes[: len(known)] ** 2
        return Reach(
            rank=len(known),
            eigenvalues=eigenvalues[::-1].copy(),
            unknown=np.flatnonzero(away > 1e-8 * lengths),
            touched=touched(self.arms, seen),
            hidden=tuple(main_features(direction) for direction in hidden[:SHOWN_DIRECTIONS]),
        )


def row_basis(rows: Floats, *, least: float = 0.0) -> Floats:
    """(rank, d) an orthonormal basis of what the rows span, the largest direction first."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[sizes > max(RANK * float(sizes.max(initial=0.0)), least)])


def touched(arms: Floats, seen: Bools) -> Bools:
    """(k,) which arms the model carries something over to: those not orthogonal to every logged action."""
    lengths = np.linalg.norm(arms, axis=1)
    unit = arms / np.where(lengths > 0, lengths, 1.0)[:, None]
    _, triangle = np.linalg.qr(unit[seen])
    return np.asarray(np.linalg.norm(unit @ triangle.T, axis=1) > 1e-8)


def main_features(direction: Floats) -> tuple[int, ...]:
    """The features that make up most of a direction, at most three."""
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    return tuple(int(i) for i in order if abs(direction[i]) > 0.3 * abs(direction[order[0]]))
