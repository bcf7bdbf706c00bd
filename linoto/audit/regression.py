"""Least squares on the logged means, in coordinates in which ranks can be told from rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.offline import Offline

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
