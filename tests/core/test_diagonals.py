"""Diagonal sums of features: what is known of their axes at once is what a decomposition finds."""

from __future__ import annotations

import numpy as np
import pytest

from linoto import Moments, Offline
from linoto.core.diagonals import along_axes, blocks_of, diagonal_of, eigenvalues
from linoto.core.evidence import evidence
from linoto.core.one_hot import one_hot, recognising


def a_log(seed: int, k: int) -> Offline:
    rng = np.random.default_rng(seed)
    return Offline.from_rows(rng.integers(0, max(k - 2, 1), 5 * k), rng.normal(size=5 * k), k=k)


@pytest.mark.parametrize("k", [1, 2, 30])
def test_sums_of_one_hot_arms_have_the_bits_of_all_their_zeros(k: int) -> None:
    rng, log = np.random.default_rng(k), a_log(k, k)
    scaled = np.zeros((k, k + 1))
    scaled[np.arange(k), rng.permutation(k + 1)[:k]] = rng.normal(size=k)
    for actions in (one_hot(k), np.eye(k), np.eye(k)[rng.permutation(k)], scaled):
        own = Moments.of_arms(actions, log)
        with recognising(False):
            assert own == Moments.of_arms(actions, log)
        assert diagonal_of(own.gram) is not None


def test_axes_are_those_of_a_decomposition() -> None:
    rng = np.random.default_rng(0)
    gram, vector = np.diag(rng.integers(0, 4, 12).astype(float)), rng.normal(size=12)
    spectrum, axes = np.linalg.eigh(gram)
    found, parts = along_axes(gram, vector)
    assert found == pytest.approx(spectrum) and eigenvalues(gram) == pytest.approx(spectrum)
    for size in np.unique(found):  # those of equal size span one space
        along = (axes[:, np.isclose(spectrum, size)].T @ vector) ** 2
        assert (parts[found == size] ** 2).sum() == pytest.approx(along.sum())
    bent = gram + 1e-30 * (1 - np.eye(12))
    assert diagonal_of(bent) is None and eigenvalues(bent) == pytest.approx(spectrum)


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1, 4, 1, 2)], ids=str)
def test_axes_of_blocks_are_those_of_the_whole(sizes: tuple[int, ...]) -> None:
    """Blocks without a gap between them, and one inside which features are in any order."""
    rng, d = np.random.default_rng(sum(sizes)), sum(sizes)
    matrix, first = np.zeros((d, d)), 0
    for size in sizes:
        rows = rng.standard_normal((size + 2, size))
        matrix[first : first + size, first : first + size] = rows.T @ rows
        first += size
    vector = rng.standard_normal(d)
    assert [part.stop - part.start for part in blocks_of(matrix)] == list(sizes)
    found, parts = along_axes(matrix, vector)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(matrix), rtol=1e-12)
    for ridge in (0.1, 1.0, 30.0):
        solved = vector @ np.linalg.solve(matrix + ridge * np.eye(d), vector)
        assert (parts**2 / (found + ridge)).sum() == pytest.approx(solved)
    mixed = rng.permutation(d)
    values, along = along_axes(matrix[np.ix_(mixed, mixed)], vector[mixed])
    np.testing.assert_allclose(values, found, rtol=1e-10)
    assert (along**2 / (values + 1)).sum() == pytest.approx((parts**2 / (found + 1)).sum())


def test_a_log_is_as_likely_by_its_diagonal() -> None:
    """Turned, the same log has other features and no diagonal."""
    moments = Moments.of_arms(one_hot(20), a_log(1, 20))
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(20, 20)))
    turned = Moments.of_arms(turn, a_log(1, 20))
    assert diagonal_of(turned.gram) is None
    assert evidence(turned) == pytest.approx(evidence(moments), rel=1e-9)
