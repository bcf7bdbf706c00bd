"""Handwritten digits as a world: what is in the table, what practice knows, and how the world turns."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

from linoto.worlds.digits import BOUND, DIGITS, digits, features_of, load


def test_the_table_is_that_of_its_source() -> None:
    pixels, written = load_digits(return_X_y=True)
    assert np.array_equal(load().pixels, pixels / 16) and np.array_equal(load().written, written)


def test_features_are_a_constant_and_uncorrelated_components_of_falling_variance() -> None:
    images = load()
    assert np.ptp(images.features[:, 0]) == 0.0
    covariance = np.cov(images.features[:, 1:].T)
    assert np.allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert (np.diff(np.diag(covariance)) < 0).all()
    assert np.isclose(np.linalg.norm(images.features, axis=1).mean(), 1.0)
    turned = features_of(images.pixels[::-1])  # the order of the rows, and the sign of an axis, say nothing
    assert np.allclose(turned[::-1], images.features, atol=1e-9)


def test_the_bound_holds_for_the_linear_model_that_fits_best() -> None:
    images = load()
    right = np.eye(DIGITS)[images.written]
    theta = np.linalg.lstsq(images.features, right, rcond=None)[0]
    assert 2.8 < np.linalg.norm(theta) < BOUND
    assert 0.90 < ((images.features @ theta).argmax(axis=1) == images.written).mean() < 0.91


def test_practice_is_right_in_five_images_of_six() -> None:
    """Fixed seeds: the mean over 20 ways to teach it, whose standard error is below .006."""
    shares = [
        (digits(np.random.default_rng(seed)).weights.argmax(axis=1) == load().written).mean()  # type: ignore[attr-defined]
        for seed in range(20)
    ]
    assert 0.81 < np.mean(shares) < 0.85


def test_when_the_world_turns_practice_earns_the_same_and_the_old_arm_nothing() -> None:
    still, turning = (digits(np.random.default_rng(0), turn=turn) for turn in (None, 1))
    before = still.rounds(50, np.random.default_rng(1))
    after = turning.rounds(50, np.random.default_rng(1), first=1)
    assert np.array_equal(before.actions, after.actions)
    assert np.isclose(before.means @ before.weights, after.means @ after.weights)
    assert before.means @ after.means == 0.0


def test_a_smaller_turn_leaves_the_other_digits_as_they_are() -> None:
    rounds = [
        digits(np.random.default_rng(0), turn=1, turning=turning).rounds(
            200, np.random.default_rng(1), first=1
        )
        for turning in (DIGITS, 5, 1)
    ]
    still = digits(np.random.default_rng(0)).rounds(200, np.random.default_rng(1))
    same = [
        (other.means.reshape(-1, DIGITS) == still.means.reshape(-1, DIGITS)).all(axis=1) for other in rounds
    ]
    written = still.means.reshape(-1, DIGITS).argmax(axis=1)
    assert not same[0].any() and same[2].all()
    assert np.array_equal(same[1], written >= 5)
    assert np.isclose(still.means @ still.weights, rounds[1].means @ rounds[1].weights)
