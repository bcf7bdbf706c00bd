"""Logs whose arms were chosen by their rewards are marked, and steady ones are not called unsteady."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audit_logs import K, log_of
from helpers.audit_worlds import FIT, STEADY, alarm_rate, pilot

from linoto.audit.adaptive import STRENGTHS, click_evidence, gaussian_evidence, share_p
from linoto.audit.audit import audit_log
from linoto.audit.drift import find_drift
from linoto.audit.noise import Scatter
from linoto.core.offline import Offline


def test_shares_that_changed_are_seen_and_others_are_not() -> None:
    """Level 0.01: a binomial(500, 0.01) exceeds 16 with probability 3e-5."""
    found = []
    for seed in range(500):
        early, late = (
            np.random.default_rng([seed, half]).multinomial(400, np.full(20, 0.05)) for half in (0, 1)
        )
        halves = [
            Offline(pulls=n, reward_sums=np.zeros(20), reward_squares=np.zeros(20)) for n in (early, late)
        ]
        found.append(share_p(*halves))
    assert sum(p < 0.01 for p in found) <= 16
    winners = Offline(pulls=[190, 210, *[0] * 18], reward_sums=np.zeros(20), reward_squares=np.zeros(20))
    assert share_p(halves[0], winners) < 1e-10
    assert share_p(Offline.empty(3), Offline.empty(3)) == 1.0


def scatter(pulls: int, ones: int) -> Scatter:
    return Scatter(np.array([float(pulls)]), np.array([ones / pulls]), np.zeros(1), np.zeros(1))


@pytest.mark.parametrize("early, late", [((200, 10), (300, 40)), ((50, 25), (300, 80))])
def test_the_evidence_of_clicks_is_the_smallest_ratio_of_a_mixture(
    early: tuple[int, int], late: tuple[int, int]
) -> None:
    """Against the mixtures integrated numerically, over a fine grid of means."""
    from scipy.stats import beta

    p = (np.arange(2000) + 0.5) / 2000
    m = np.linspace(early[1] / early[0], late[1] / late[0], 101)[:, None]
    found = []
    for r in STRENGTHS:
        prior, total = beta.pdf(p, r * m, r * (1 - m)), np.zeros(len(m))
        for n, x in (early, late):
            ratio = x * np.log(p / m) + (n - x) * np.log((1 - p) / (1 - m))
            total += np.log((np.exp(ratio) * prior).mean(axis=1))
        found.append(total.min())
    expected = np.log(np.mean(np.exp(found)))
    assert click_evidence(scatter(*early), scatter(*late))[0] == pytest.approx(expected, abs=0.01)


def test_the_evidence_of_means_is_the_smallest_ratio_of_a_mixture() -> None:
    n, mean = np.array([30.0, 200.0]), np.array([0.1, 0.9])
    m = np.linspace(-1, 2, 30001)
    found = []
    for r in STRENGTHS:
        logs = [a**2 / (a + r) * (x - m) ** 2 / 2 - np.log1p(a / r) / 2 for a, x in zip(n, mean, strict=True)]
        found.append((logs[0] + logs[1]).min())
    expected = np.log(np.mean(np.exp(found)))
    assert gaussian_evidence(n[:1], n[1:], np.array([0.64]))[0] == pytest.approx(expected, abs=1e-6)


def test_evidence_holds_for_whoever_stops_when_it_looks_best() -> None:
    """An adversary pulls an arm of known noise until the evidence is largest: over 1 / alpha with probability
    alpha at most. At alpha = 0.1, a binomial(400, 0.1) exceeds 66 with probability 2e-5."""
    rng, high = np.random.default_rng(3), 0
    early = np.array([20.0])
    pulls = np.arange(1.0, 1001)
    for _ in range(400):
        means = np.cumsum(rng.standard_normal(1000)) / pulls
        gaps = (means - rng.standard_normal() / np.sqrt(20)) ** 2
        high += bool(gaussian_evidence(np.full(1000, early[0]), pulls, gaps).max() > np.log(10))
    assert high <= 66


@pytest.mark.parametrize("world", STEADY)
@pytest.mark.few(2)
def test_steady_worlds_raise_few_alarms_however_arms_were_chosen(world: str) -> None:
    """A binomial(30, 0.01) exceeds 4 with probability 1e-5; p-values raised them in 36 to 99 % of pilots."""
    assert alarm_rate(STEADY[world], 30) <= 4 / 30


@pytest.mark.parametrize("world", FIT)
@pytest.mark.few(1)
def test_linear_worlds_raise_few_alarms_however_arms_were_chosen(world: str) -> None:
    """A binomial(30, 0.01) exceeds 4 with probability 1e-5."""
    assert alarm_rate(FIT[world], 30) <= 4 / 30


def test_a_pilot_and_its_winners_are_marked() -> None:
    early, late = pilot(np.random.default_rng(1), k=K, n=2000, clicks=0.3)
    audit = audit_log(log_of(early, late, extent=(0.0, 1.0)))
    assert audit.adaptive and audit.drift is not None and audit.drift.adaptive and not audit.drift.rejected
    assert any("other shares" in note for note in audit.notes)
    assert "by what holds however arms were chosen" in dict(audit.facts())["steady?"]
    data = audit.to_dict()
    assert data["shares_changed"] and data["drift"]["adaptive"] and data["drift"]["p_common"] == 1.0
    assert audit.confidence is not None and audit.confidence.design == "adaptive"


def test_a_winner_that_collapses_is_found_though_arms_were_chosen() -> None:
    """A pilot of a fifth of the rows; its winners fall from 0.3 to 0.1 in the late half."""
    for seed in range(10):
        early, late = pilot(np.random.default_rng([4, seed]), k=10, n=4000, clicks=0.3, share=0.2, drop=0.2)
        drift = find_drift(early, late)
        assert drift is not None and drift.adaptive and drift.rejected
