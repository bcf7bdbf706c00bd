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


def blocks_of(matrix: Floats) -> list[slice]:
    """The runs of rows of a symmetric matrix that have nothing beside themselves, one after another.

    >>> blocks_of(np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    there = matrix != 0.0
    np.fill_diagonal(there, True)
    last = np.maximum.accumulate(len(there) - 1 - there[:, ::-1].argmax(axis=1))
    ends = np.flatnonzero(last == np.arange(len(there))) + 1
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def along_axes(matrix: Floats, vector: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues, and (d,) a vector along the axes that they belong to: block by block.

    >>> [part.tolist() for part in along_axes(np.diag([3.0, 0.0, 2.0]), np.array([1.0, 2.0, 4.0]))]
    [[0.0, 2.0, 3.0], [2.0, 4.0, 1.0]]
    """
    diagonal = diagonal_of(matrix)
    if diagonal is None:
        found = [(np.linalg.eigh(matrix[part, part]), vector[part]) for part in blocks_of(matrix)]
        spectrum = np.concatenate([values for (values, _), _ in found])
        parts = np.concatenate([axes.T @ own for (_, axes), own in found])
    else:
        spectrum, parts = diagonal, vector
    order = np.argsort(spectrum, kind="stable")
    return spectrum[order], parts[order]
