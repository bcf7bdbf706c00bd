"""Symmetric matrices by their axes: where all but the diagonal is 0, the axes are known."""

from __future__ import annotations

import numpy as np

from linoto.core.arrays import Floats


def diagonal_of(matrix: Floats) -> Floats | None:
    """(d,) the diagonal of a matrix (d, d) that has nothing beside it; None: it has."""
    diagonal = np.diagonal(matrix)
    return diagonal.copy() if np.count_nonzero(matrix) == np.count_nonzero(diagonal) else None


def eigenvalues(matrix: Floats) -> Floats:
    """(d,) of a symmetric matrix, ascending.

    >>> eigenvalues(np.diag([3.0, 0.0, 2.0])).tolist()
    [0.0, 2.0, 3.0]
    """
    diagonal = diagonal_of(matrix)
    return np.asarray(np.linalg.eigvalsh(matrix) if diagonal is None else np.sort(diagonal))


def along_axes(matrix: Floats, vector: Floats) -> tuple[Floats, Floats]:
    """The same, and (d,) a vector along the axes that they belong to.

    >>> [part.tolist() for part in along_axes(np.diag([3.0, 0.0, 2.0]), np.array([1.0, 2.0, 4.0]))]
    [[0.0, 2.0, 3.0], [2.0, 4.0, 1.0]]
    """
    diagonal = diagonal_of(matrix)
    if diagonal is None:
        spectrum, axes = np.linalg.eigh(matrix)
        return spectrum, np.asarray(axes.T @ vector)
    order = np.argsort(diagonal, kind="stable")
    return diagonal[order], vector[order]
