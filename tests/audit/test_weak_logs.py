"""What a log could not have shown is no reason to deploy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.audit_logs import ACTIONS, PULLS, THETA, K, clean_log, log_of
from scipy.special import fdtrc  # type: ignore[import-untyped]

from linoto.audit.audit import audit_log
from linoto.audit.fit import LackOfFit, lack_of_fit
from linoto.core.offline import Offline
from linoto.logs.read import Log

LINE = np.column_stack([np.ones(8), np.linspace(-1, 1, 8)])


def clicks_of(pulls: list[int], ones: list[float]) -> Offline:
    return Offline(pulls=pulls, reward_sums=ones, reward_squares=ones)


def pilot_and_winner() -> Log:
    """Eight arms of a pilot, then one of them alone; their means do not follow the feature."""
    early = clicks_of([35] * 8, [13.0, 20.0, 12.0, 19.0, 12.0, 12.0, 19.0, 13.0])
    late = clicks_of([0, 280, 0, 0, 0, 0, 0, 0], [0, 140.0, 0, 0, 0, 0, 0, 0])
    return log_of(early, late, LINE, extent=(0.0, 1.0))


def test_beside_f_stands_its_own_p_and_then_the_one_that_decides() -> None:
    audit = audit_log(pilot_and_winner())
    fit, shown = audit.fit, dict(audit.facts())["linear?"]
    assert fit is not None and fit.adaptive and not fit.rejected
    assert fit.cautious_p == pytest.approx(5 * max(fit.p, fit.p_unequal))
    own = f"F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}, p = {fdtrc(*fit.degrees, fit.f):.2g}"
    assert f"{own}; p = {fit.cautious_p:.2g} decides" in shown
    assert shown.endswith("times five because shares changed")
    assert audit.to_dict()["lack_of_fit"]["p_decides"] == fit.cautious_p
    plain = dict(audit_log(clean_log(), noise=0.5).facts())["linear?"]
    assert "times five" not in plain


@pytest.mark.parametrize(
    ("unequal", "adaptive", "text"),
    [
        (0.01, False, ""),
        (0.2, False, "; p = 0.2 decides, with a noise of its own for every arm"),
        (0.01, True, "; p = 0.15 decides, times five because shares changed"),
        (
            0.2,
            True,
            "; p = 1 decides, with a noise of its own for every arm and times five because shares changed",
        ),
    ],
)
def test_what_was_done_to_a_p_is_said_where_something_was_done(
    unequal: float, adaptive: bool, text: str
) -> None:
    facts = {"f": 2.42, "degrees": (6, 418), "misfit": 0.1, "rows": 426, "noise": 0.3}
    fit = LackOfFit(p=0.03, p_unequal=unequal, adaptive=adaptive, **facts)  # type: ignore[arg-type]
    assert fit.caution_text() == text


def test_a_pilot_and_its_winner_need_arm_effects_where_linearity_cannot_be_shown() -> None:
    log = pilot_and_winner()
    audit = audit_log(log)
    assert audit.adaptive and audit.linearity.blind
    assert audit.verdict == "deploy with arm effects" and "shares of arms changed" in audit.reasons[0]
    assert "cannot show that rewards are linear" in audit.caution  # nothing speaks against it either
    assert audit_log(replace(log, arms=log.arms.with_effects())).verdict == "deploy"


UNLIKE: dict[str, tuple[Any, Any, float]] = {
    "one noise": (PULLS, np.full(K, 0.4), 0.07),
    "few pulls": (np.full(K, 3), np.full(K, 1.0), 0.75),
    "a noise of its own for every arm": (np.full(K, 30), np.linspace(0.2, 2.0, K), 0.28),
    "noisy where pulled less": (np.where(np.arange(K) % 2, 5, 100), np.where(np.arange(K) % 2, 2, 0.5), 0.2),
}


@pytest.mark.parametrize("kind", UNLIKE)
@pytest.mark.few(1)
def test_power_is_how_often_a_misfit_is_seen(kind: str) -> None:
    """By the test that decides: two must agree, and the F test alone would see the last one in all logs.

    400 logs: three standard errors of the share are 0.075.
    """
    pulls, noise, size = UNLIKE[kind]
    wrong = np.random.default_rng(60).standard_normal(K)
    weight, rng = np.sqrt(pulls), np.random.default_rng(61)
    basis, _ = np.linalg.qr(weight[:, None] * ACTIONS)
    out = (weight * wrong - basis @ (basis.T @ (weight * wrong))) / weight
    means = ACTIONS @ THETA + size * out / np.sqrt((pulls * out**2).sum() / pulls.sum())
    arms = np.repeat(np.arange(K), pulls)
    fits = []
    for _ in range(400):
        rewards = means[arms] + noise[arms] * rng.standard_normal(arms.size)
        fits.append(lack_of_fit(ACTIONS, Offline.from_rows(arms, rewards, k=K)))
    found = [fit for fit in fits if isinstance(fit, LackOfFit)]
    seen = np.mean([fit.rejected for fit in found])
    assert 0.1 < seen < 0.9
    assert np.mean([fit.power(size) for fit in found]) == pytest.approx(seen, abs=0.075)
    assert found[0].power(0.0) <= 0.01 + 1e-9 and found[0].power(1e9) == pytest.approx(1.0)


def test_a_test_that_could_hardly_see_anything_is_no_proof() -> None:
    blind = audit_log(clean_log(), noise=0.5, epsilon=0.01)
    assert blind.linearity.blind and blind.verdict == "deploy with arm effects"
    assert "cannot show that rewards are linear" in blind.reasons[0]
    assert (
        "as large as the loss promised per round, is seen in 2% of such logs; it takes 50%"
        in blind.reasons[0]
    )
    assert blind.verdict_of_log == "deploy", "a promise that allows more may rest on the same features"
    sharp = audit_log(clean_log(), noise=0.5, epsilon=0.2)
    assert not sharp.linearity.blind and sharp.reasons[0].startswith("the logged means lie")


@pytest.mark.parametrize(
    "pulls, ones, arms, reason",
    [
        ([1, 1], [1.0, 0.0], np.array([[1.0, 1.0], [1.0, 2.0]]), "neither linearity nor drift"),
        ([50, 50], [50.0, 50.0], np.array([[1.0, 1.0], [1.0, 2.0]]), "every reward is 1"),
        ([500], [250.0], np.ones((1, 1)), "one arm only"),
    ],
)
def test_where_nothing_could_be_tested_it_is_not_yet(
    pulls: list[int], ones: list[float], arms: np.ndarray, reason: str
) -> None:
    extent = (1.0, 1.0) if reason.startswith("every") else (0.0, 1.0)
    halves = clicks_of(pulls, ones), clicks_of(pulls, ones if extent[0] else ones[::-1])
    audit = audit_log(log_of(*halves, arms, extent=extent))
    assert audit.verdict == "not yet" and reason in audit.reasons[0]


@pytest.mark.parametrize("rare, verdict", [(9, "not yet"), (10, "deploy")])
@pytest.mark.parametrize("views", [0, 10_000])
def test_fewer_than_ten_clicks_or_views_without_one_are_too_few(rare: int, views: int, verdict: str) -> None:
    halves = []
    for odd in (rare - 5, 5):  # rewards that are not the usual one, in each half
        halves.append(clicks_of([625] * 8, [abs(views / 16 - (arm < odd)) for arm in range(8)]))
    audit = audit_log(log_of(*halves, np.eye(8), extent=(0.0, 1.0)))
    few = [reason for reason in audit.reasons if "too few events" in reason]
    assert audit.verdict == verdict and len(few) == (verdict == "not yet")
    assert not few or f"{rare} {'zeros' if views else 'ones'} among 10,000 rewards" in few[0]


def test_a_few_sales_that_are_nearly_all_are_too_few() -> None:
    """Six sales of 50 among pennies: (sum)^2 / (sum of squares) is little above 6."""
    half = Offline(pulls=[500, 500], reward_sums=[75.0, 80.0], reward_squares=[3750.0, 3751.0])
    audit = audit_log(log_of(half, half, np.eye(2), extent=(0.0, 50.0)), reward_range=(0.0, 50.0))
    assert any("rewards above 0 that count as 6.4 among 2,000" in reason for reason in audit.reasons)


def test_that_drift_could_not_be_tested_is_a_note_and_no_reason() -> None:
    log = clean_log()
    audit = audit_log(log_of(log.offline, Offline.empty(K)), noise=0.5, epsilon=0.1)
    assert audit.drift is None and audit.verdict == "deploy"
    assert not any("drift" in reason for reason in audit.reasons)
    assert any("drift could not be tested" in note for note in audit.notes)


def test_a_stated_range_that_the_log_contradicts_is_named() -> None:
    audit = audit_log(pilot_and_winner(), reward_range=(0.0, 0.5))
    assert audit.verdict == "not yet"
    assert audit.reasons[0].startswith("rewards from 0 to 1 are outside the stated range [0, 0.5]")
    assert not any("nobody said" in reason for reason in audit.reasons)


@pytest.mark.parametrize("delta, level", [(0.05, "0.95"), (0.01, "0.99")])
def test_the_interval_of_the_true_mean_names_its_level(delta: float, level: str) -> None:
    audit = audit_log(clean_log(), noise=0.5, delta=delta)
    assert dict(audit.summary())["rewards: level"].endswith(f"with probability {level}")
    assert dict(audit.facts())["noise"].endswith("at 95%)")


def test_the_level_of_an_interval_that_rests_on_a_guessed_noise_says_so() -> None:
    # The mean of these Pareto rewards is 6 in truth, and above what the interval of this log allows.
    rng = np.random.default_rng(5)
    halves = [rng.pareto(1.2, (2, 500)) + 1 for _ in range(2)]
    early, late = (
        Offline(pulls=[500, 500], reward_sums=h.sum(axis=1), reward_squares=(h**2).sum(axis=1))
        for h in halves
    )
    ends = (float(np.min(halves)), float(np.max(halves)))
    audit = audit_log(log_of(early, late, np.eye(2), extent=ends))
    assert audit.certificate is not None and audit.certificate.reference_interval[1] < 6
    assert "only if the noise of" in dict(audit.facts())["rewards: level"]
    assert "guess" not in dict(audit_log(clean_log(), noise=0.5).facts())["rewards: level"]
    assert "guess" not in dict(audit_log(pilot_and_winner()).facts())["rewards: level"]


@pytest.mark.parametrize("part, verdict", [(0.4, "deploy"), (0.55, "not yet")])
def test_a_promise_must_not_allow_to_lose_half_of_what_the_log_earned(part: float, verdict: str) -> None:
    log = clean_log(extent=(0.0, 1.0))
    audit = audit_log(log, noise=0.6, reward_range=(0.0, 1.0), epsilon=part * log.offline.reference)
    assert audit.verdict == verdict
    assert any("half or more" in reason for reason in audit.reasons) == (verdict == "not yet")
