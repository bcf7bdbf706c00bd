"""Explorers that forget: the estimate of the last one to two memories of rewards, whatever came before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto

K, D, MEMORY = 6, 3, 20
ARMS = np.random.default_rng(0).normal(size=(K, D))
LOG = linoto.Offline(pulls=[9, 0, 4, 0, 0, 2], reward_sums=[3.0, 0.0, 2.5, 0.0, 0.0, 1.0])
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))


def remembered(history: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """What came since the last forgetting and in the stretch before it; the log is in the first stretch."""
    done = len(history) // MEMORY * MEMORY
    return history[max(done - MEMORY, 0) :]


@pytest.mark.parametrize("explorer", [linoto.LinUCB(scale=1.0, memory=MEMORY), linoto.LinTS(memory=MEMORY)])
def test_the_estimate_is_that_of_the_last_rewards_alone(explorer: Any) -> None:
    agent, rng = explorer.start(ARMS, LOG, rng=0), np.random.default_rng(1)
    ridge = linoto.Confidence().ridge_for(D)
    history: list[tuple[int, float]] = []
    for _ in range(3 * MEMORY + 7):
        arm, reward = int(rng.integers(K)), float(rng.normal())
        agent.update(arm, reward)
        history.append((arm, reward))
        log = LOG if len(history) < MEMORY else linoto.Offline.empty(K)
        rows = remembered(history)
        fresh = linoto.Offline.from_rows([a for a, _ in rows], [x for _, x in rows], k=K)
        counts, sums = log.pulls + fresh.pulls, log.reward_sums + fresh.reward_sums
        gram = ridge * np.eye(D) + (ARMS.T * counts) @ ARMS
        inverse = np.linalg.inv(gram)
        assert agent.theta == pytest.approx(inverse @ ARMS.T @ sums, abs=1e-9)
        width = np.sqrt(np.einsum("kd,de,ke->k", ARMS, inverse, ARMS))
        assert agent.ucb - ARMS @ agent.theta == pytest.approx(agent.ellipsoid.radius * width, rel=1e-9)


def test_a_memory_that_never_ends_changes_nothing() -> None:
    agents = [linoto.LinTS(memory=memory).start(ARMS, LOG, rng=3) for memory in (None, 10**6)]
    rng = np.random.default_rng(2)
    for _ in range(60):
        decisions = [agent.decide() for agent in agents]
        assert decisions[0] == decisions[1]
        reward = float(rng.normal())
        for agent, decision in zip(agents, decisions, strict=True):
            agent.update(decision, reward)
    assert np.array_equal(agents[0].ucb, agents[1].ucb)


def drifting(memory: int | None) -> linoto.Gated:
    explorer = linoto.LinUCB(scale=0.25, memory=memory)
    return linoto.Gated(explorer=explorer, gate=linoto.Control(budget=20), confidence=CLICKS)


def test_it_is_restored_in_the_middle_of_it_and_compiled_play_is_the_same() -> None:
    means = np.linspace(0.2, 0.8, K)
    policy = drifting(MEMORY)
    one, other = (policy.start(np.eye(K), LOG, rng=5) for _ in range(2))
    draws = np.random.default_rng(4).random(110)
    arms, _ = one.play(means, draws[:50], bernoulli=True)
    for arm, draw in zip(arms, draws[:50], strict=True):
        decision = other.decide()
        assert decision.arm == arm
        other.update(decision, float(draw < means[arm]))
    again = linoto.restore(other.snapshot())
    assert again.snapshot() == one.snapshot()
    assert np.array_equal(
        again.play(means, draws[50:], bernoulli=True)[0], one.play(means, draws[50:], bernoulli=True)[0]
    )


def test_where_the_best_arm_changes_an_explorer_that_forgets_finds_the_new_one() -> None:
    # 40 runs each; the mean gain is 12 standard errors above the bar of 0.1 a round (seeds fixed).
    early, late = np.array([0.7, 0.5, 0.4]), np.array([0.1, 0.5, 0.8])
    world = linoto.DriftingBandit(
        actions=np.eye(3), table=np.stack([early, late]), starts=np.array([0, 1500]), rewards="bernoulli"
    )
    log = linoto.Offline(pulls=[400, 400, 400], reward_sums=400 * early)
    gains = []
    for seed in range(40):
        runs = [linoto.simulate(drifting(w), world, log, horizon=2500, seed=seed) for w in (None, 250)]
        earned = [float(np.asarray(run.rewards)[1500:].mean()) for run in runs]
        gains.append(earned[1] - earned[0])
    assert np.mean(gains) > 0.1


@pytest.mark.parametrize(
    ("gate", "fallback", "reason"),
    [
        (None, "auto", "bounds that forget have no theorem"),
        (linoto.Budget(), "auto", "bounds that forget have no theorem"),
        (linoto.Tolerance(budget=9.0), "auto", "evidence='rewards'"),
        (linoto.Control(budget=9.0, loan=3.0, promise="expected"), "auto", "without a loan in means"),
        (linoto.Control(budget=9.0), "lcb", "fallback must be 'mixture' or an arm"),
    ],
)
def test_a_gate_that_trusts_the_bounds_is_refused(gate: Any, fallback: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        linoto.Gated(explorer=linoto.LinTS(memory=9), gate=gate, fallback=fallback, confidence=CLICKS)


def test_a_gate_that_does_not_is_accepted() -> None:
    for gate in (linoto.Open(), linoto.Tolerance(budget=9.0, evidence="rewards"), linoto.Control(budget=9.0)):
        policy = linoto.Gated(explorer=linoto.Greedy(memory=9), gate=gate, confidence=CLICKS)
        assert linoto.from_dict(linoto.to_dict(policy)) == policy
    with pytest.raises(ValueError, match="memory must be"):
        linoto.LinUCB(scale=1.0, memory=0)


# -- contexts: every round brings its own arms


ROWS = linoto.Moments.from_rows(np.random.default_rng(6).normal(size=(30, D)), np.linspace(0, 1, 30))


def round_of(rng: np.random.Generator) -> dict[str, Any]:
    return {"actions": rng.normal(size=(4, D)), "practice": int(rng.integers(4))}


@pytest.mark.parametrize("explorer", [linoto.LinUCB(scale=1.0, memory=MEMORY), linoto.LinTS(memory=MEMORY)])
def test_with_contexts_the_estimate_is_that_of_the_last_rewards_alone(explorer: Any) -> None:
    agent, rng = explorer.start(ROWS, rng=0), np.random.default_rng(1)
    ridge = linoto.Confidence().ridge_for(D)
    history: list[tuple[Any, float]] = []
    for _ in range(3 * MEMORY + 7):
        decision, reward = agent.decide(**round_of(rng)), float(rng.normal())
        agent.update(decision, reward)
        history.append((np.array(decision.action), reward))
        last = history[max(len(history) // MEMORY * MEMORY - MEMORY, 0) :]
        gram, target = (0.0, 0.0) if len(history) >= MEMORY else (ROWS.gram, ROWS.reward_vector)
        gram = ridge * np.eye(D) + gram + sum(np.outer(x, x) for x, _ in last)
        target = target + sum(x * y for x, y in last)
        assert agent.theta == pytest.approx(np.linalg.solve(gram, target), abs=1e-9)
        assert np.allclose(agent.ellipsoid.V, gram, atol=1e-9)


def test_with_contexts_it_is_restored_in_the_middle_of_it_with_the_same_future() -> None:
    agent, rng = drifting(MEMORY).start(ROWS, rng=2), np.random.default_rng(3)
    late = []
    for number in range(3 * MEMORY):
        decision = agent.decide(**round_of(rng))
        agent.commit(decision)
        late.append(decision)
        if number % 3 == 2:  # rewards come late, and not in their order
            agent.observe(late.pop(0 if number % 2 else -1), float(rng.random()))
        if number == MEMORY + 5:
            agent.lose(late.pop(), 0.5)
        agent = linoto.restore(agent.snapshot()) if number % 7 == 0 else agent
        assert linoto.restore(agent.snapshot()).snapshot() == agent.snapshot()
    question = round_of(rng)
    assert linoto.restore(agent.snapshot()).decide(**question) == agent.decide(**question)


def test_with_contexts_a_memory_that_never_ends_changes_nothing() -> None:
    agents = [linoto.LinTS(memory=memory).start(ROWS, rng=3) for memory in (None, 10**6)]
    rng = np.random.default_rng(2)
    for _ in range(60):
        question, reward = round_of(rng), float(rng.normal())
        decisions = [agent.decide(**question) for agent in agents]
        assert decisions[0] == decisions[1]
        for agent, decision in zip(agents, decisions, strict=True):
            agent.update(decision, reward)
    assert np.array_equal(agents[0].theta, agents[1].theta)


def test_where_labels_turn_an_explorer_that_forgets_finds_the_new_ones() -> None:
    """Fixed seeds; in each of the three runs the gain is above 0.2 a round, ten times the bar's noise."""
    rng = np.random.default_rng(7)
    labels = rng.integers(3, size=300)
    features = np.column_stack([np.ones(300), np.eye(3)[labels] + 0.2 * rng.normal(size=(300, 3))]) / 2
    for seed in range(3):
        wrong = rng.random(300) < 0.3
        now, then = (
            linoto.ContextualBandit.from_table(features, right, practice=(right + wrong) % 3)
            for right in (labels, (labels + 1) % 3)
        )
        world = now.until(1500, then)
        log = world.log(300, rng=seed)
        runs = [linoto.simulate(drifting(w), world, log, horizon=2500, seed=seed) for w in (None, 200)]
        earned = [float(np.asarray(run.rewards)[1500:].mean()) for run in runs]
        assert earned[1] > earned[0] + 0.05
