"""A noise that the log's own squares contradict is refused; a right one is not, in a million logs but one."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from linoto import Confidence, Gated, Guard, LinOtO, LinUCB, Offline, Random, Tolerance
from linoto.core.confidence import (
    PAPER,
    REFUTED,
    check_noise,
    least_noise,
    why_noise_refuted,
    with_assumptions,
)
from linoto.core.doubling import Doubling

BOUNDED = Confidence(noise="bounded", reward_range=(0, 1))


def logged(n: int, k: int = 4, *, noise: float = 1.0, mean: float = 0.0, seed: int = 0) -> Offline:
    rng = np.random.default_rng(seed)
    return Offline.from_rows(rng.integers(0, k, n), mean + noise * rng.normal(size=n), k=k)


@pytest.mark.parametrize("n", [1, 2, 10, 300, 100_000])
def test_the_limit_is_where_the_tail_bound_is_one_in_a_million(n: int) -> None:
    offline = logged(n, k=1)
    around = float(
        (np.asarray(offline.reward_squares) - offline.reward_sums**2 / offline.pulls.clip(1)).sum()
    )
    least = least_noise(offline)
    if n == 1:
        assert least == 0
        return
    u = around / n / least**2
    assert (u * exp(1 - u)) ** (n / 2) == pytest.approx(REFUTED, rel=1e-6)


def test_gaussian_noise_is_refused_as_rarely_as_the_chi_square_law_says() -> None:
    from scipy.stats import chi2

    # The squared noise of n Gaussian rewards has a chi-square law: its tail beyond the limit is the false
    # alarm of a logger that knows all means, and is larger than that of any other.
    for n in (1, 2, 5, 30, 1000, 10**6):
        level = 2 * log(1 / REFUTED) / n
        low, high = 1.0, 2 + 2 * level + 2 * np.sqrt(level)
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if middle - 1 - log(middle) < level else (low, middle)
        assert REFUTED / 1000 < chi2.sf(n * high, n) < REFUTED


def test_the_limit_comes_close_to_the_true_noise_and_stays_below() -> None:
    found = [least_noise(logged(n, noise=3.0, mean=50.0, seed=7)) for n in (30, 300, 3000, 300_000)]
    assert found == sorted(found)
    assert 2.95 < found[-1] < 3.0


def test_equal_rewards_however_large_refute_nothing() -> None:
    for value in (0.1, 1e6 / 3, 1e12 / 7):
        assert least_noise(Offline.from_rows([0] * 5000, [value] * 5000, k=1)) == 0


def test_a_log_without_squares_refutes_nothing() -> None:
    offline = Offline(pulls=[500, 500], reward_sums=[10.0, 5000.0])
    assert why_noise_refuted(Confidence(noise=1e-6), offline) == ""
    assert why_noise_refuted(Confidence(noise=1e-6), Offline.empty(2)) == ""


def test_the_noise_that_the_refusal_asks_for_is_accepted() -> None:
    offline = logged(2000, noise=0.37)
    with pytest.raises(ValueError, match=r"noise must be at least \S+ for this log, got 0.1:") as refused:
        check_noise(Confidence(noise=0.1), offline)
    asked = float(str(refused.value).split()[5])
    check_noise(Confidence(noise=asked), offline)


@pytest.mark.parametrize("limits", [(0.0, 1.0), (-2.0, 3.0), (-1e200, 1e200)])
def test_rewards_inside_their_range_never_refute_it(limits: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    width = min(limits[1], 1e6) - max(limits[0], -1e6)
    for n in (1, 3, 400):
        ends = max(limits[0], -1e6) + width * (rng.random(n) < 0.5)
        confidence = Confidence(noise="bounded", reward_range=limits)
        assert why_noise_refuted(confidence, Offline.from_rows([0] * n, ends, k=1)) == ""


def test_squares_that_no_rewards_of_a_range_have_refute_it() -> None:
    offline = Offline.from_rows([0] * 10 + [1] * 10, [0.5] * 10 + [-1.0, 2.0] * 5, k=2)
    assert "the squares of arm 1 show rewards outside" in why_noise_refuted(BOUNDED, offline)


@pytest.mark.parametrize("policy", [Gated, LinOtO, LinUCB])
def test_a_certificate_promises_nothing_where_the_noise_is_refuted(policy: type) -> None:
    actions, offline = np.eye(4), logged(1000, noise=2.0)
    small, right = (policy(confidence=Confidence(noise=noise, bound=9.0)) for noise in (0.5, 2.0))
    found = small.certificate(actions, offline)
    assert not found.holds and found.per_round is None
    assert policy is LinUCB or "noise must be at least" in found.theorem
    assert right.certificate(actions, offline).holds == (policy is not LinUCB)


def test_a_guard_promises_nothing_where_the_range_is_refuted() -> None:
    offline = Offline.from_rows([0] * 10, [-1.0, 2.0] * 5, k=2)
    found = Guard(offline, epsilon=0.1, reward_range=(0, 1), noise="bounded").certificate
    assert not found.holds and "reward_range must hold every logged reward" in found.theorem


# -- what was found is used where nothing else is said


def test_a_policy_without_a_confidence_takes_all_that_was_found() -> None:
    found = Confidence(noise=0.3, bound=2.0, delta=0.01, design="adaptive")
    assert with_assumptions(Gated(), found).confidence == found
    assert with_assumptions(Doubling(policy=LinUCB(scale=1.0)), found).policy.confidence == found
    assert with_assumptions(Random(), found) == Random()
    assert with_assumptions(Gated(), found).explorer.confidence is None


def test_the_papers_confidence_keeps_its_radius_and_one_of_your_own_everything() -> None:
    paper = with_assumptions(LinOtO(), BOUNDED).confidence
    assert (paper.radius, paper.ridge, paper.noise, paper.scale) == ("paper", PAPER.ridge, "bounded", 0.5)
    own = Gated(gate=Tolerance(budget=3), confidence=Confidence(noise=5.0))
    assert with_assumptions(own, BOUNDED) == own
