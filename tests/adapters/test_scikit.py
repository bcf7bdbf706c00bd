"""A policy as an estimator of scikit-learn: with scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

import linoto
from linoto.adapters.scikit import BanditEstimator

CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""Those that do not call fit(X, y)."""
WITH_TARGETS = (
    "check_complex_data",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
)


class WithTargets(BanditEstimator):
    """fit(X, y) for those checks: two arms were played in turns, and earned y."""

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        return super().fit(X, np.arange(len(y)) % 2, y)

    def partial_fit(self, X: Any, actions: Any, rewards: Any = None) -> Any:
        if rewards is None:
            actions, rewards = np.arange(len(actions)) % 2, actions
        return super().partial_fit(X, actions, rewards)


def rows(n: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    """Contexts, arms played at random, and rewards: arm "b" is better where the first column is positive."""
    rng = np.random.default_rng(seed)
    X, actions = rng.normal(size=(n, 3)), rng.choice(["a", "b"], size=n)
    rewards = np.where(actions == "b", X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, actions, rewards


@pytest.mark.parametrize("name", CHECKS)
def test_checks_of_scikit_learn_pass(name: str) -> None:
    estimator = BanditEstimator(linoto.Greedy(), arms=3)
    getattr(estimator_checks, name)("BanditEstimator", estimator)


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_checks_of_scikit_learn_that_fit_pass(name: str) -> None:
    getattr(estimator_checks, name)("BanditEstimator", WithTargets(linoto.Greedy()))


def test_a_clone_has_the_parameters_and_nothing_that_was_learnt() -> None:
    estimator = BanditEstimator(linoto.LinTS(), arms=["a", "b"], random_state=3).fit(*rows())
    copy = clone(estimator)
    assert repr(copy.get_params()) == repr(estimator.get_params())
    with pytest.raises(NotFittedError):
        copy.predict([[0.0, 0.0, 0.0]])
    assert copy.set_params(arms=4, intercept=False).get_params()["arms"] == 4


@pytest.mark.parametrize("intercept", [True, False])
def test_every_arm_has_the_ridge_regression_of_its_own_rows(intercept: bool) -> None:
    X, actions, rewards = rows()
    policy = linoto.Greedy(confidence=linoto.Confidence(ridge=0.5))
    estimator = BanditEstimator(policy, arms=["a", "b"], intercept=intercept).fit(X, actions, rewards)
    table = np.hstack([np.ones((len(X), 1)), X]) if intercept else X
    expected = []
    for arm in ("a", "b"):
        own = table[actions == arm]
        theta = np.linalg.solve(own.T @ own + 0.5 * np.eye(own.shape[1]), own.T @ rewards[actions == arm])
        expected.append(table @ theta)
    assert np.allclose(estimator.decision_function(X), np.transpose(expected))
    best = np.array(["a", "b"])[np.argmax(expected, axis=0)]
    assert (estimator.predict(X) == best).all()
    assert (best == np.where(X[:, 0] > 0, "b", "a")).mean() > 0.95


def test_rows_may_come_in_parts_and_fit_forgets() -> None:
    X, actions, rewards = rows()
    whole = BanditEstimator(linoto.LinUCB(), arms=["a", "b"]).fit(X, actions, rewards)
    parts = BanditEstimator(linoto.LinUCB(), arms=["a", "b"]).fit(*rows(seed=5))
    parts.fit(X[:100], actions[:100], rewards[:100]).partial_fit(X[100:], actions[100:], rewards[100:])
    assert np.allclose(whole.decision_function(X), parts.decision_function(X))
    assert parts.n_features_in_ == 3


def test_thompson_sampling_draws_by_its_seed() -> None:
    X, actions, rewards = rows(20)
    policy = linoto.LinTS(scale=5.0)
    played = [
        BanditEstimator(policy, arms=["a", "b"], random_state=seed)
        .fit(X, actions, rewards)
        .predict(X)
        .tolist()
        for seed in (0, 0, 1, 2, 3)
    ]
    assert played[0] == played[1] and len({tuple(found) for found in played}) > 1


def test_predicting_learns_nothing() -> None:
    estimator = BanditEstimator(arms=["a", "b"]).fit(*rows())
    X = rows(50, seed=1)[0]
    assert (estimator.predict(X) == estimator.predict(X)).all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"actions": ["c"] * 300}, r"actions must be among \['a', 'b'\], got 'c' in row 0"),
        ({"actions": ["a"]}, "actions must be one for each of 300 rows"),
        ({"rewards": [1.0]}, "rewards must be one for each of 300 rows, got 1"),
        ({"rewards": [np.nan] * 300}, "rewards"),
        ({"X": [[np.nan] * 3] * 300}, "NaN"),
    ],
)
def test_bad_rows_are_refused(change: dict[str, Any], why: str) -> None:
    given = dict(zip(("X", "actions", "rewards"), rows(), strict=True)) | change
    with pytest.raises(ValueError, match=why):
        BanditEstimator(arms=["a", "b"]).fit(**given)


def test_other_columns_and_a_gate_are_refused() -> None:
    estimator = BanditEstimator(arms=["a", "b"]).fit(*rows())
    with pytest.raises(ValueError, match="3 features"):
        estimator.predict([[0.0]])
    gated = linoto.Gated(
        gate=linoto.Tolerance(budget=5, evidence="model"), confidence=linoto.Confidence(bound=10.0)
    )
    with pytest.raises(ValueError, match="policy must be one without a gate"):
        BanditEstimator(gated, arms=["a", "b"]).fit(*rows())


@pytest.mark.parametrize("policy", [None, linoto.Greedy()])
def test_a_model_for_each_arm_has_the_ridge_of_one_arm(policy: Any) -> None:
    """Four features, three columns and a constant, of which the other arm's say nothing about it."""
    agent = BanditEstimator(policy, arms=["a", "b"]).fit(*rows())._started()
    assumed = agent.policy.composed_for_rounds().assumed
    assert agent.d == 8 and assumed.ridge == assumed.scale**2 * 4 / assumed.bound**2
    assert assumed.radius == ("own" if policy is None else "self_normalised")
