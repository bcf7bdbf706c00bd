"""Least squares on the logged means, in coordinates in which ranks can be told from rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.offline import Offline
from linoto.core.one_hot import OneHotArms, one_hot

RANK = 1e-10  # of the largest direction: what is smaller is rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """The shortest parameter that fits the logged means best, in the coordinates of the actions as they are.

    With y the means times the roots of pulls: theta = basis @ root @ fitted.T @ y.
    """

    fitted: Floats  # (q, r) orthonormal: what y can be under the model
    values: Floats  # (r,) fitted.T @ y
    missed: float  # |y - fitted fitted.T y|^2
    basis: Floats  # (d, r) orthonormal: the directions the log knows
    root: Floats  # (r, r) noise of unit scale in `values` moves theta by root @ noise along the basis

    @property
    def rank(self) -> int:
        """Directions the log knows."""
        return self.values.size

    @property
    def along(self) -> Floats:
        """(r,) the parameter along the basis."""
        return np.asarray(self.root @ self.values)

    @property
    def theta(self) -> Floats:
        """(d,) the parameter."""
        return np.asarray(self.basis @ self.along)

    @property
    def widths(self) -> Floats:
        """(r,) how far noise of unit scale moves theta along each axis of its own."""
        return np.asarray(np.linalg.svd(self.root, compute_uv=False))

    @property
    def by_axes(self) -> tuple[Floats, Floats]:
        """(r,) the parameter along these axes, and their widths."""
        axes, widths, _ = np.linalg.svd(self.root)
        return np.asarray(axes.T @ self.along), np.asarray(widths)


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnMeans:
    """The same of arms which share no feature: each logged mean is fitted exactly, by its own feature."""

    places: Ints  # (r,) the features of logged arms
    along: Floats  # (r,) the parameter there
    widths: Floats  # (r,) how far noise of unit scale moves it
    d: int
    missed: float = 0.0

    @classmethod
    def of(cls, units: OneHotArms, offline: Offline) -> OwnMeans:
        """Fit the means of the logged arms."""
        seen = offline.pulls > 0
        pulls, scales = offline.pulls[seen], np.float64(units.scales[seen])
        along, widths = offline.reward_sums[seen] / pulls / scales, 1 / (np.sqrt(pulls) * np.abs(scales))
        return cls(places=units.places[seen], along=along, widths=widths, d=units.d)

    @property
    def rank(self) -> int:
        """Directions the log knows."""
        return self.along.size

    @property
    def fitted(self) -> Floats:
        """(r, r) what the means can be under the model: anything."""
        return one_hot(self.rank)

    @property
    def theta(self) -> Floats:
        """(d,) the parameter."""
        found = np.zeros(self.d)
        found[self.places] = self.along
        return found

    @property
    def by_axes(self) -> tuple[Floats, Floats]:
        """(r,) the parameter along the axes of its noise, which are those of features, and their widths."""
        return self.along, self.widths


def regress(actions: Floats, offline: Offline) -> Regression:
    """Fit the means of the logged arms, each with the weight of its pulls."""
    better, back = well_scaled(actions)
    seen = offline.pulls > 0
    weight = np.sqrt(offline.pulls[seen])
    y = offline.reward_sums[seen] / weight
    u, sizes, directions = np.linalg.svd(weight[:, None] * better[seen], full_matrices=False)
    known = sizes > RANK * sizes.max(initial=0.0)
    fitted = u[:, known]
    values = fitted.T @ y
    basis, triangle = np.linalg.qr((directions[known] @ back).T)
    return Regression(
        fitted=fitted,
        values=values,
        missed=float(((y - fitted @ values) ** 2).sum()),
        basis=basis,
        root=np.linalg.solve(triangle.T, np.diag(1 / sizes[known])),
    )


def well_scaled(actions: Floats) -> tuple[Floats, Floats]:
    """(k, d) the same arms with no entry beyond 1, and (d, d) the way back: actions = better @ back.

    Beside an intercept features are also centred: a year is 2020 and a little, and the little is what counts.
    """
    centres = np.zeros(actions.shape[1])
    constant = np.flatnonzero((actions == actions[0]).all(axis=0) & (actions[0] != 0))
    if constant.size:
        centres = actions.mean(axis=0)
        centres[constant[0]] = 0.0
    moved = actions - centres
    moved[:, np.abs(moved).max(axis=0) <= 1e-14 * np.abs(centres)] = 0.0  # rounding, not a feature
    largest = np.abs(moved).max(axis=0)
    scales = np.where(largest > 0, largest, 1.0)
    back = np.diag(scales)
    if constant.size:
        back[constant[0]] += centres * scales[constant[0]] / actions[0, constant[0]]
    return moved / scales, back
