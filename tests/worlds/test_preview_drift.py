"""Previews in worlds whose means move: the same worlds, promises judged against practice as it is then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.chance import most

import linoto
from linoto.audit.drift import size_of_drift
from linoto.worlds.moving import STEPS, drift_text, first_rounds, moving_world, wander
from linoto.worlds.reward_laws import measure_law

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
ARMS = np.eye(4)
SUMS = np.array([12_000.0, 8_000.0, 0.0, 0.0])
LOG = linoto.Offline(pulls=[20_000, 20_000, 0, 0], reward_sums=SUMS, reward_squares=SUMS)


def behind(gate: Any, explorer: Any = None) -> linoto.Gated:
    return linoto.Gated(explorer=explorer or linoto.Random(), gate=gate, confidence=CLICKS)


def preview(**changes: Any) -> linoto.Preview:
    options: dict[str, Any] = {"horizon": 200, "worlds": 6, "grid": [5.0, 20.0], **changes}
    return linoto.preview(ARMS, LOG, policy=behind(linoto.Tolerance(budget=5.0)), **options)


def test_no_drift_is_the_preview_of_worlds_that_stand_still() -> None:
    still, plain = preview(drift=0.0), preview()
    assert still.table() == plain.table() and still.drift == 0.0
    np.testing.assert_array_equal(still.headroom, plain.headroom)
    assert preview(drift=0.1).table() != plain.table()
    nearly = preview(drift=1e-12)
    for one, two in zip(plain.table(), nearly.table(), strict=True):
        assert one == pytest.approx(two, abs=1e-6, nan_ok=True)


def test_means_wander_as_far_as_is_said() -> None:
    """4,000 walks: the variance of the end is within 4 % (four standard errors 2.2 %, and half is shared)."""
    rng = np.random.default_rng(0)
    walks = np.array([wander(3, STEPS, 0.2, rng) for _ in range(4000)])
    last = walks[:, -1]
    np.testing.assert_allclose(last.std(axis=0), 0.2, rtol=0.05)
    np.testing.assert_allclose(walks[:, STEPS // 2 - 1].std(axis=0), 0.2 / np.sqrt(2), rtol=0.05)
    assert np.corrcoef(last.T)[np.triu_indices(3, 1)] == pytest.approx(0.5, abs=0.06)
    assert abs(last.mean()) < 0.01


def test_a_moving_world_begins_at_its_means_and_stays_in_its_range() -> None:
    law, rng = measure_law(LOG, CLICKS), np.random.default_rng(1)
    means = np.array([0.6, 0.4, 0.99, 0.01])
    world = moving_world(law, ARMS, means, size=0.3, horizon=1000, rng=rng)
    assert world.starts.tolist() == list(range(0, 1000, 50))
    assert world.table.min() >= 0 and world.table.max() <= 1
    assert np.abs(world.table[0] - means).max() < 5 * 0.3 / np.sqrt(STEPS)
    prices = linoto.Offline(pulls=[50, 50], reward_sums=[500.0, 700.0], reward_squares=[9e3, 12e3])
    paid = measure_law(prices, linoto.Confidence(noise=5.0, reward_range=(0.0, 1e4)))
    dear = moving_world(paid, np.eye(2), np.array([10.0, 14.0]), size=20.0, horizon=7, rng=rng)
    assert first_rounds(7).tolist() == list(range(7)) and (dear.table >= 0).all()
    assert dear.rewards == "beta" and (dear.steps > 0).all()  # every arm has noise, wherever it goes
    assert dear.table.max() <= dear.reward_range[1]


def direct(gate: str, drift: float, *, runs: int, horizon: int, budget: float) -> int:
    """In how many plain simulations a random explorer loses more than promised, one round at a time.

    Means begin at .6 and .4 (known: the log is long), the others vary by 0.1 around the middle.
    """
    broken = 0
    gates: dict[str, Any] = {"Control": linoto.Control(budget=budget)}
    policy = behind(gates.get(gate, linoto.Tolerance(budget=budget)))
    promised = policy.certificate(ARMS, LOG).loss(horizon) or 0.0  # there is no rate
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        means = np.array([0.6, 0.4, 0.5, 0.5])
        policy = behind(
            linoto.Control(budget=budget) if gate == "Control" else linoto.Tolerance(budget=budget)
        )
        agent = policy.start(ARMS, LOG, rng=run)
        lost, level = 0.0, means
        for t in range(horizon):
            if t * STEPS % horizon == 0:
                means = means + drift / np.sqrt(STEPS) * np.sqrt(0.5) * (rng.normal() + rng.normal(size=4))
                level = np.clip(means, 0, 1)
            decision = agent.decide()
            reward = float(rng.random() < level[decision.arm])
            agent.update(decision, reward)
            if gate == "Control":
                lost += level[decision.fallback] - reward if decision.mode == "explore" else 0.0
            else:
                lost += level[:2].mean() - level[decision.arm]
            if lost > promised:
                broken += 1
                break
    return broken


HORIZON, DRIFT, BUDGET = 300, 0.5, 5.0


def broken_promises(worlds: int) -> dict[str, dict[str, Any]]:
    """What a preview of so many worlds says of each gate."""
    policy = behind(linoto.Control(budget=BUDGET))
    options: dict[str, Any] = {"drift": DRIFT, "horizon": HORIZON, "worlds": worlds, "prior": 0.1}
    return {row["gate"]: row for row in linoto.preview_gates(ARMS, LOG, policy=policy, **options).table()}


@pytest.mark.parametrize("worlds", [50, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.few(0)
def test_only_the_logs_gate_breaks_its_promise_where_the_world_moves(worlds: int) -> None:
    """Promises at 5 %: broken more often in one of 100,000 choices of seeds."""
    rows, limit = broken_promises(worlds), most(worlds, 0.05, alarm=1e-5)
    assert rows["Control"]["broken_moving"] <= limit
    assert rows["Control"]["broken_still"] <= limit and rows["the log's gate"]["broken_still"] <= limit
    assert rows["the log's gate"]["broken_moving"] > limit


@pytest.mark.slow
def test_broken_promises_are_as_many_as_in_a_direct_simulation() -> None:
    """A sixth of the worlds: shares of 200 and of 30 differ by 0.3 with probability 1e-4 at most."""
    rows = broken_promises(200)
    for gate in ("the log's gate", "Control"):
        played = direct(gate, DRIFT, runs=30, horizon=HORIZON, budget=BUDGET) / 30
        assert rows[gate]["broken_moving"] / 200 == pytest.approx(played, abs=0.3)


def test_gates_meet_the_same_worlds_and_have_the_same_limit() -> None:
    options: dict[str, Any] = {"drift": 0.1, "horizon": 200, "worlds": 5}
    asked = behind(linoto.Tolerance(budget=12.0))
    found = linoto.preview_gates(ARMS, LOG, policy=asked, **options)
    assert [outcome.gate for outcome in found.outcomes] == ["no gate", "the log's gate", "Control"]
    control = found.of("Control")
    assert control is not None and control.still.certificate.budget == 12.0
    alone = linoto.preview(ARMS, LOG, policy=asked, grid=[12.0], **options).points[0]
    of_log = found.of("the log's gate")
    assert of_log is not None
    np.testing.assert_array_equal(of_log.moving.worst_loss, alone.worst_loss)
    np.testing.assert_array_equal(of_log.moving.excess, alone.excess)
    assert found.price == pytest.approx(control.still.final_loss.mean() - of_log.still.final_loss.mean())
    assert "Control" in found._repr_html_() and found.to_dict()["gates"] == found.table()


def test_a_gate_that_cannot_be_made_is_named() -> None:
    policy = linoto.Gated(gate=linoto.Tolerance(budget=9.0), confidence=linoto.Confidence(bound=2.0))
    found = linoto.preview_gates(ARMS, LOG, policy=policy, drift=0.1, horizon=50, worlds=2)
    assert found.of("Control") is None and found.price is None
    assert "reward_range must be given" in found.missing["Control"]
    with pytest.raises(ValueError, match="policy must promise something to be compared"):
        linoto.preview_gates(ARMS, LOG, policy=linoto.LinUCB(scale=1.0), drift=0.1)
    with pytest.raises(ValueError, match="drift must be a positive number"):
        linoto.preview_gates(ARMS, LOG, policy=policy, drift=0.0)
    with pytest.raises(ValueError, match="prior must be a positive number"):
        linoto.preview_gates(ARMS, LOG, policy=policy, drift=0.1, prior=-1.0)
    with pytest.raises(ValueError, match="drift must be a number >= 0"):
        preview(drift=-0.1)


def test_the_kind_of_drift_is_said() -> None:
    text = drift_text(0.05, "clicks", 5000)
    assert "to a standard deviation of 0.05\u00a0clicks at the end of 5,000 rounds" in text
    assert "in 20 equal steps" in text and "common to all arms" in text


def noisy_half(means: np.ndarray, rng: np.random.Generator) -> linoto.Offline:
    """Two rewards of each arm in each step (n, k), with a noise of 0.4."""
    rewards = np.repeat(means, 2, axis=0)
    rewards = rewards + 0.4 * rng.standard_normal(rewards.shape)
    counts = np.full(means.shape[1], len(rewards))
    return linoto.Offline(pulls=counts, reward_sums=rewards.sum(0), reward_squares=(rewards**2).sum(0))


@pytest.mark.parametrize("size", [0.0, 0.2])
def test_the_drift_of_a_log_is_found_from_its_halves(size: float) -> None:
    """300 logs of 8 arms that wander: the mean square is right within five standard errors."""
    rng, squares = np.random.default_rng(2), []
    for _ in range(300):
        table = 0.5 + wander(8, 200, size, rng)
        halves = [noisy_half(part, rng) for part in (table[:100], table[100:])]
        squares.append((size_of_drift(*halves) or 0.0) ** 2)
    if size == 0:
        assert np.mean(squares) < 3 * 0.16 / 100  # the variance of a gap: what chance leaves is cut at 0
    else:
        assert np.mean(squares) == pytest.approx(size**2, abs=5 * np.std(squares) / np.sqrt(300))


def test_a_log_without_two_halves_has_no_drift() -> None:
    one = linoto.Offline(pulls=[1, 0], reward_sums=[1.0, 0.0], reward_squares=[1.0, 0.0])
    assert size_of_drift(one, one) is None
