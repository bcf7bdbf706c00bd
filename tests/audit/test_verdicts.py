"""The audit finds what was planted, and contradicts what the log contradicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.audit_logs import ACTIONS, PULLS, THETA, K, clean_log, draw_log, log_of

import linoto
from linoto.audit.audit import audit_log
from linoto.audit.coverage import find_coverage
from linoto.audit.noise import estimate_noise
from linoto.core.offline import Offline
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log

# -- what the log cannot tell -----------------------------------------------------------------------------


def test_directions_and_arms_without_information_are_named() -> None:
    actions = np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0], [0, 0, 2.0], [1.0, 0, 0.5]])
    log = Offline(pulls=[5, 5, 0, 0, 0], reward_sums=[1.0, 2.0, 0, 0, 0])
    found = find_coverage(actions, log, ridge=1.0, rounds=100)
    assert found.rank == 2
    np.testing.assert_allclose(found.eigenvalues, [0.0, 5.0, 5.0], atol=1e-12)
    assert found.unseen.tolist() == [2, 3, 4]
    assert found.unknown.tolist() == [3, 4]
    assert found.untested.tolist() == [2, 4]
    assert found.directions == ((2,),)


def test_redundant_features_are_no_missing_directions() -> None:
    arms = ArmTable.from_columns(
        {"id": list("abcd"), "x": list("uuvv"), "y": list("ppqq")}, arm_effects=False
    )
    log = Offline(pulls=[9, 9, 9, 9], reward_sums=[1.0, 1.0, 2.0, 2.0])
    found = find_coverage(arms.actions, log, ridge=1.0, rounds=100)
    assert arms.actions.shape == (4, 5)
    assert found.rank == found.eigenvalues.size == 2 and not found.unknown.size and not found.directions


# -- the verdict ------------------------------------------------------------------------------------------


def test_a_sound_log_is_deployed() -> None:
    audit = audit_log(clean_log(), epsilon=0.05, noise=0.5)
    assert audit.verdict == "deploy", audit.reasons
    assert audit.certificate is not None and audit.certificate.per_round == 0.05
    assert audit.confidence is not None and audit.noise is not None
    assert audit.confidence.scale >= audit.noise.value
    assert audit.confidence.bound >= float(np.linalg.norm(THETA))


def test_a_nonlinear_log_needs_arm_effects_and_is_sound_with_them() -> None:
    nonlinear = ACTIONS @ THETA + 0.2 * np.where(np.arange(K) % 2, 1, -1)
    log = log_of(*(draw_log(nonlinear, PULLS, half) for half in (0, 1)))
    audit = audit_log(log, noise=0.5)
    assert audit.verdict == "deploy with arm effects" and "speaks against" in audit.caution
    assert "not linear" in audit.reasons[0]
    with_effects = replace(log, arms=log.arms.with_effects())
    assert audit_log(with_effects, noise=0.5).verdict == "deploy"


def test_linearity_that_cannot_be_tested_needs_arm_effects_only_where_it_is_used() -> None:
    pulls = np.where(np.arange(K) < 4, 30, 0)  # as many logged arms as features
    audit = audit_log(log_of(*(draw_log(ACTIONS @ THETA, pulls, half) for half in (0, 1))), noise=0.6)
    assert audit.verdict == "deploy with arm effects" and "cannot be tested" in audit.reasons[0]
    alone = log_of(*(draw_log(np.array([0.4, 0.6]), np.array([50, 50]), half) for half in (0, 1)), np.eye(2))
    assert audit_log(alone, noise=0.6).verdict == "deploy"


def test_drift_is_not_to_be_trusted() -> None:
    moved = ACTIONS @ THETA + 0.4 * (np.arange(K) < 10)
    audit = audit_log(log_of(draw_log(ACTIONS @ THETA, PULLS, 0), draw_log(moved, PULLS, 1)))
    assert audit.verdict == "do not trust"
    assert "did not earn late what they earned early" in audit.reasons[0]


@pytest.mark.parametrize(
    "given, log, reason",
    [
        ({"noise": 0.05}, {}, "the log is noisier"),
        ({"bound": 0.01}, {}, "the assumptions contradict the log"),
        ({}, {"rows": 10_000, "bad": {"missing reward": 500}}, "5.0% of the rows are bad"),
        ({"noise": "bounded", "reward_range": (5.0, 6.0)}, {}, "the assumptions contradict the log"),
    ],
)
def test_what_the_log_contradicts_is_not_to_be_trusted(
    given: dict[str, Any], log: dict[str, Any], reason: str
) -> None:
    audit = audit_log(clean_log(**log), **given)
    assert audit.verdict == "do not trust"
    assert any(reason in text for text in audit.reasons), audit.reasons


def test_unknown_noise_is_not_to_be_trusted() -> None:
    early, late = (Offline.from_rows([arm], [0.5], k=K) for arm in (0, 1))
    audit = audit_log(log_of(early, late))
    assert audit.verdict == "do not trust" and audit.certificate is None
    assert "nothing is known of the noise" in audit.reasons[0]
    assert audit_log(log_of(early, late), noise=1.0).certificate is not None


def test_clicks_are_recognised() -> None:
    bandit = linoto.Bandit(actions=ACTIONS, means=ACTIONS @ THETA, rewards="bernoulli")
    halves = (bandit.log(PULLS, np.random.default_rng(half)) for half in (0, 1))
    audit = audit_log(log_of(*halves, extent=(0.0, 1.0)))
    assert audit.confidence is not None
    assert audit.confidence.noise == "bounded" and audit.confidence.reward_range == (0.0, 1.0)


def test_what_is_worth_knowing_is_noted() -> None:
    audit = audit_log(clean_log(extent=(-2.0, 100.0), bad={"missing reward": 1}), epsilon=50.0)
    text = " ".join(audit.notes)
    assert "tails are heavy" in text and "bad rows were dropped" in text


@pytest.mark.parametrize("epsilon", [50.0, 0.48, 0.1])
def test_deploy_never_stands_beside_an_empty_promise(epsilon: float) -> None:
    """Arms that earn 0.5 a row: a tolerance above that allows to lose all of it, and says what would help."""
    audit = audit_log(clean_log(extent=(0.0, 1.0)), noise=0.6, reward_range=(0.0, 1.0), epsilon=epsilon)
    assert (audit.verdict == "deploy") == (epsilon == 0.1), audit.reasons
    assert audit.verdict in ("deploy", "not yet")
    helps = {50.0: "choose a part of that", 0.48: "a smaller tolerance would help", 0.1: ""}
    assert helps[epsilon] in " ".join(audit.reasons)


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-3.0, 3.0), None])
def test_what_is_promised_by_default_is_what_gated_promises(limits: tuple[float, float] | None) -> None:
    log = clean_log(extent=(0.0, 1.0))
    audit = audit_log(log, noise=0.6, reward_range=limits)
    assert audit.certificate == linoto.Gated(confidence=audit.confidence).certificate(
        log.arms.actions, log.offline
    )


# -- what was given is held against the log ---------------------------------------------------------------


def priced_log(seed: int = 0, *, zero_one: bool = False, level: float = 0.0) -> Log:
    """A linear world with an intercept and prices of 50 to 150: |theta| = 1.1, the cheaper half logged."""
    rng, price = np.random.default_rng([30, seed]), np.linspace(50, 150, K)
    means, arms = 0.9 - 0.004 * (price - 50), rng.integers(0, K // 2, 1000)
    rewards = rng.random(1000) < means[arms] if zero_one else means[arms] + 0.3 * rng.standard_normal(1000)
    early, late = (
        Offline.from_rows(arms[part], rewards[part] + level, k=K) for part in np.split(np.r_[:1000], 2)
    )
    table = np.column_stack([np.ones(K), price])
    return log_of(early, late, table, extent=(float(rewards.min() + level), float(rewards.max() + level)))


@pytest.mark.parametrize("zero_one", [False, True])
def test_a_bound_too_short_for_the_log_is_not_to_be_trusted(zero_one: bool) -> None:
    log = priced_log(zero_one=zero_one)
    audit = audit_log(log, bound=0.015)
    assert audit.verdict == "do not trust"
    assert any("the log contradicts bound=0.015" in reason for reason in audit.reasons), audit.reasons
    for bound in (1.11, None):
        assert audit_log(log, bound=bound, noise=0.5, epsilon=0.1).verdict == "deploy"


def test_the_proposed_bound_covers_prices() -> None:
    """It may fail once in twenty logs: of 20, more than six with probability 3e-5."""
    proposed = [audit_log(priced_log(seed)).confidence for seed in range(20)]
    assert sum(given is not None and given.bound < 1.1 for given in proposed) <= 6


def test_a_promise_that_only_the_bound_limits_asks_for_a_range() -> None:
    """Prices of 150 and a bound of 1.3 allow rewards of 195, and so does the constant of the promise."""
    log, asks = priced_log(), "a reward range would promise more"
    assert any(asks in note for note in audit_log(log).notes)
    assert not any(asks in note for note in audit_log(log, reward_range=(0.0, 1.0)).notes)
    assert not any(asks in note for note in audit_log(clean_log()).notes)


def test_bounded_rewards_that_leave_their_range_are_not_to_be_trusted() -> None:
    log = clean_log(extent=(-2.0, 3.0))
    audit = audit_log(log, noise="bounded", reward_range=(-1.0, 2.0))
    assert audit.verdict == "do not trust"
    assert any("never to leave [-1, 2]" in reason for reason in audit.reasons)
    assert not any("only their means" in note for note in audit.notes)
    fair = audit_log(
        log, noise=0.6, reward_range=(-1.0, 2.0), epsilon=0.1
    )  # then only means must stay inside
    assert fair.verdict == "deploy" and any("only their means" in note for note in fair.notes)
    assert audit_log(log, noise="bounded", reward_range=(-2.0, 3.0), epsilon=0.1).verdict == "deploy"


@pytest.mark.parametrize("level", [1e7, 1e9])
def test_rewards_too_large_for_their_noise_say_so_and_raise_no_other_alarm(level: float) -> None:
    """Squares of 1e14 hold sixteen digits: a scatter of 0.3 is lost in them."""
    log = priced_log(level=level)
    audit = audit_log(log)
    assert audit.verdict == "do not trust" and len(audit.reasons) == 1
    assert "rounding hides how they differ" in audit.reasons[0]
    around = (level - 2.0, level + 3.0)
    assert audit_log(log, noise=0.3, reward_range=around, epsilon=0.1).verdict == "deploy"


def test_noise_is_seen_beside_large_rewards() -> None:
    noise = estimate_noise(priced_log(level=1e5).offline)
    assert noise is not None and noise.value == pytest.approx(0.3, rel=0.1)


def test_tails_are_heavy_beyond_what_sub_gaussian_noise_allows_from_any_arm() -> None:
    """Arms whose means are far apart have no heavy tails; a reward beyond every mean may have. In 800 rows
    the largest sub-Gaussian reward is 4.9 standard deviations away once in a hundred logs: that is 2."""
    means = np.where(np.arange(K) == 0, 100.0, 0.0)
    halves = [draw_log(means, np.full(K, 20), half) for half in (0, 1)]
    columns = np.column_stack([np.ones(K), means])
    for extent, heavy in (
        ((-1.0, 101.0), False),
        ((-1.8, 101.8), False),
        ((-1.0, 102.4), True),
        ((-5.0, 99.0), True),
    ):
        notes = audit_log(log_of(*halves, columns, extent=extent)).notes
        assert any("tails are heavy" in note for note in notes) == heavy, extent


@pytest.mark.parametrize("lost, trusted", [(90, True), (110, False), (300, False)])
def test_one_bad_row_in_a_hundred_is_the_most_that_is_trusted(lost: int, trusted: bool) -> None:
    audit = audit_log(clean_log(rows=10_000, bad={"missing reward": lost}), noise=0.5, epsilon=0.1)
    assert (audit.verdict == "deploy") == trusted
    assert any(f"bad rows were dropped ({lost})" in note for note in audit.notes) == trusted


def test_the_effective_dimension_is_that_of_the_horizon() -> None:
    """Two axes, pulled 60 and 40 times in each half. With ridge 2, d_eff is 2 where 122 log(1 + n / 82) is at
    most n: not in one round, but in 200."""
    half = Offline(pulls=[60, 40], reward_sums=[0.0, 0.0], reward_squares=[60.0, 40.0])
    found = [find_coverage(np.eye(2), half + half, ridge=2.0, rounds=n).effective for n in (1, 200)]
    assert found == [1, 2]
    log = log_of(half, half, np.eye(2))
    assert audit_log(log, noise=1.0, bound=1.0).coverage.effective == 2
    assert audit_log(log, noise=1.0, bound=1.0, horizon=1).coverage.effective == 1


def test_ranks_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(31)
    features, pulls = rng.uniform(-1, 1, (K, 2)), np.where(np.arange(K) < 10, 5, 0)
    log = draw_log(np.zeros(K), pulls, 31)
    for centre, unit in (
        ([0, 0], [1, 1]),
        ([1.7e9, 0], [1e6, 1e-6]),
        ([0, 0], [1e6, 1e-5]),
        ([1e12, 0], [9, 1]),
    ):
        moved = np.column_stack([np.ones(K), np.array(centre) + np.array(unit) * features])
        found = find_coverage(moved, log, ridge=1.0, rounds=100)
        assert found.rank == found.eigenvalues.size == 3 and not found.unknown.size
        same_price = moved.copy()
        same_price[:10, 1] = moved[0, 1]  # never varied where it was logged
        found = find_coverage(same_price, log, ridge=1.0, rounds=100)
        assert (found.rank, found.eigenvalues.size) == (2, 3) and found.directions == ((1,),)
        assert found.unknown.tolist() == list(range(10, K))


def test_a_budget_is_promised_in_place_of_a_rate() -> None:
    log = clean_log(extent=(0.0, 1.0))
    audit = audit_log(log, noise=0.6, reward_range=(0.0, 1.0), budget=20.0)
    assert audit.certificate is not None
    assert (audit.certificate.budget, audit.certificate.per_round) == (20.0, 0.0)
    assert (audit.promise.tolerated, audit.to_dict()["budget"]) == ("a budget of 20", 20.0)
    both = audit_log(log, noise=0.6, reward_range=(0.0, 1.0), budget=20.0, epsilon=0.01)
    assert both.promise.tolerated == "a budget of 20 and a tolerance of 0.01"
    with pytest.raises(ValueError, match="budget must be"):
        audit_log(log, budget=-1.0)
