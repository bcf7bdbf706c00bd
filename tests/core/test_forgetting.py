"""Explorers that forget: the estimate of the last one to two memories of rewards, whatever came before.

With a discount, that of all rewards, the less of one the older it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto.core.explorers import forgetting_of

K, D, MEMORY = 6, 3, 20
DISCOUNT, STEP = 0.97, 3  # a step is as many rewards as weigh 0.9 at the least after it: 0.97^3 = 0.913
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


def drifting(memory: int | None, discount: float | None = None) -> linoto.Gated:
    explorer = linoto.LinUCB(scale=0.25, memory=memory, discount=discount)
    return linoto.Gated(explorer=explorer, gate=linoto.Control(budget=20), confidence=CLICKS)


WAYS = (drifting(MEMORY), drifting(None, DISCOUNT))


@pytest.mark.parametrize("policy", WAYS)
def test_it_is_restored_in_the_middle_of_it_and_compiled_play_is_the_same(policy: Any) -> None:
    means = np.linspace(0.2, 0.8, K)
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


@pytest.mark.parametrize(("forgets", "runs"), [((250,), 40), ((None, 0.997), 20)])
def test_where_the_best_arm_changes_an_explorer_that_forgets_finds_the_new_one(
    forgets: tuple[Any, ...], runs: int
) -> None:
    # Seeds fixed; the mean gain is over 12 and 5 standard errors above the bar of 0.1 a round.
    early, late = np.array([0.7, 0.5, 0.4]), np.array([0.1, 0.5, 0.8])
    world = linoto.DriftingBandit(
        actions=np.eye(3), table=np.stack([early, late]), starts=np.array([0, 1500]), rewards="bernoulli"
    )
    log = linoto.Offline(pulls=[400, 400, 400], reward_sums=400 * early)
    gains = []
    for seed in range(runs):
        policies = drifting(None), drifting(*forgets)
        played = [linoto.simulate(policy, world, log, horizon=2500, seed=seed) for policy in policies]
        earned = [float(np.asarray(run.rewards)[1500:].mean()) for run in played]
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


@pytest.mark.parametrize("policy", WAYS)
def test_with_contexts_it_is_restored_in_the_middle_of_it_with_the_same_future(policy: Any) -> None:
    agent, rng = policy.start(ROWS, rng=2), np.random.default_rng(3)
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


# -- a discount: what is older weighs less


def weights_after(n: int) -> Any:
    """(1 + n,) what the log, and each of n rewards, weigh: all fade together, after every STEP of them."""
    steps = n // STEP - np.append(0, np.arange(n) // STEP)
    return DISCOUNT ** (STEP * steps)


def test_rewards_weigh_what_the_discount_says_within_a_tenth() -> None:
    n = 40
    ages = n - 1 - np.arange(n)
    exact = DISCOUNT**ages
    ratio = weights_after(n)[1:] / exact
    assert (ratio <= 1 / DISCOUNT).all()
    assert (ratio >= 0.9).all()
    assert forgetting_of(linoto.Greedy(discount=DISCOUNT)) == (STEP, DISCOUNT**STEP)
    assert forgetting_of(linoto.Greedy(discount=0.9)) == (1, 0.9)
    assert forgetting_of(linoto.Greedy(discount=1.0)) == forgetting_of(linoto.Greedy()) == (0, 0.0)


@pytest.mark.parametrize("arms", [ARMS, np.eye(K) * np.arange(1, K + 1)], ids=["features", "one-hot"])
@pytest.mark.parametrize(
    "explorer", [linoto.LinUCB(scale=1.0, discount=DISCOUNT), linoto.LinTS(discount=DISCOUNT)]
)
def test_a_discounted_estimate_is_that_of_weighted_least_squares(explorer: Any, arms: Any) -> None:
    agent, rng = explorer.start(arms, LOG, rng=0), np.random.default_rng(1)
    d = arms.shape[1]
    ridge = linoto.Confidence().ridge_for(d)
    history: list[tuple[int, float]] = []
    for _ in range(8 * STEP + 2):
        arm, reward = int(rng.integers(K)), float(rng.normal())
        agent.update(arm, reward)
        history.append((arm, reward))
        first, *weights = weights_after(len(history))
        gram, target = (
            ridge * np.eye(d) + first * (arms.T * LOG.pulls) @ arms,
            first * arms.T @ LOG.reward_sums,
        )
        for (played, paid), weight in zip(history, weights, strict=True):
            gram += weight * np.outer(arms[played], arms[played])
            target += weight * paid * arms[played]
        inverse = np.linalg.inv(gram)
        assert agent.theta == pytest.approx(inverse @ target, abs=1e-9)
        width = np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))
        assert agent.ucb - arms @ agent.theta == pytest.approx(agent.ellipsoid.radius * width, rel=1e-9)


def shapes_of_rounds(kind: str, rng: np.random.Generator) -> Any:
    """(k, d) the arms of a round: all features, or those of each arm. Borders are in `test_hybrid`."""
    if kind == "dense":
        return rng.normal(size=(4, D))
    return np.kron(np.eye(3), rng.normal(size=2))


@pytest.mark.parametrize("kind", ["dense", "blocks"])
def test_with_contexts_a_discounted_estimate_is_that_of_weighted_least_squares(kind: str) -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([shapes_of_rounds(kind, rng) for _ in range(12)])
    log = linoto.Moments.from_rows(rows, rng.random(len(rows)))
    agent = linoto.LinTS(discount=DISCOUNT).start(log, rng=0)
    ridge = linoto.Confidence().ridge_for(log.d)
    history: list[tuple[Any, float]] = []
    for _ in range(8 * STEP + 2):
        decision, reward = agent.decide(actions=shapes_of_rounds(kind, rng)), float(rng.normal())
        agent.update(decision, reward)
        history.append((np.array(decision.action), reward))
        first, *weights = weights_after(len(history))
        gram = ridge * np.eye(log.d) + first * log.gram
        target = first * log.reward_vector
        for (x, paid), weight in zip(history, weights, strict=True):
            gram, target = gram + weight * np.outer(x, x), target + weight * paid * x
        assert np.allclose(agent.ellipsoid.V, gram, rtol=1e-9, atol=1e-9)
        assert agent.theta == pytest.approx(np.linalg.solve(gram, target), abs=1e-9)


@pytest.mark.parametrize("kind", ["dense", "blocks"])
def test_a_lost_reward_moves_a_discounted_estimate_by_no_more_than_is_said(kind: str) -> None:
    rng = np.random.default_rng(5)
    rows = np.concatenate([shapes_of_rounds(kind, rng) for _ in range(4)])
    log = linoto.Moments.from_rows(rows, rng.random(len(rows)))
    policy = linoto.Greedy(discount=DISCOUNT, confidence=CLICKS)
    told, untold = (policy.start(log, rng=0) for _ in range(2))
    for number in range(6 * STEP):
        arms, reward = shapes_of_rounds(kind, rng), float(rng.random())
        for agent in (told, untold):
            decision = agent.decide(actions=arms[number % len(arms)][None])
            agent.commit(decision)
            if agent is untold and number == 4:
                agent.lose(decision, 0.5)
            else:
                agent.observe(decision, 1.0 if number == 4 else reward)
    V, apart = untold.ellipsoid.V, told.theta - untold.theta
    said = float(untold.running.run["lost_radius"])
    assert 0 < np.sqrt(apart @ V @ apart) <= said * (1 + 1e-9)
    assert said < 0.5 * DISCOUNT ** (STEP * 2)  # half a reward, which has faded


@pytest.mark.parametrize("log", [None, ROWS], ids=["arms that stay", "contexts"])
def test_a_discount_of_one_changes_no_bit(log: Any) -> None:
    agents = [
        linoto.LinTS(discount=discount).start(*((ARMS, LOG) if log is None else (log,)), rng=3)
        for discount in (None, 1.0)
    ]
    rng = np.random.default_rng(2)
    for _ in range(60):
        question, reward = {} if log is None else round_of(rng), float(rng.normal())
        decisions = [agent.decide(**question) for agent in agents]
        assert decisions[0] == decisions[1]
        for agent, decision in zip(agents, decisions, strict=True):
            agent.update(decision, reward)
    assert np.array_equal(agents[0].theta, agents[1].theta)


@pytest.mark.parametrize("given", [{"memory": 20}, {"discount": 0.97}])
def test_explorers_that_forget_keep_every_law_but_those_that_need_all_rewards(given: Any) -> None:
    ran = linoto.check_policy(linoto.LinUCB(**given))
    assert "estimate_matches_cholesky" in ran
    of_all = {"lower_bounds_never_fall", "rewards_come_in_any_order", "estimate_matches_what_was_observed"}
    assert not of_all & set(ran)


@pytest.mark.parametrize("given", [{"discount": 0.95, "memory": 7}, {"memory": 7}, {"discount": "of prices"}])
def test_attributes_of_an_explorer_of_your_own_are_its_own(given: Any) -> None:
    class Own:
        deterministic = True

        def score(self, view: Any) -> Any:
            return view.mean

    agents = []
    for attributes in ({}, given):
        own = Own()
        vars(own).update(attributes)
        policy = linoto.Gated(explorer=own, gate=linoto.Tolerance(budget=9.0), confidence=CLICKS)
        agent = policy.start(ARMS, LOG, rng=0)
        for number in range(30):
            agent.update(number % K, 0.5)
        assert linoto.restore(agent.snapshot(), policy=policy).snapshot() == agent.snapshot()
        agents.append(agent)
    assert np.array_equal(agents[0].ellipsoid.V, agents[1].ellipsoid.V)
    gram = CLICKS.ridge_for(D) * np.eye(D) + (ARMS.T * (LOG.pulls + 5)) @ ARMS
    assert np.allclose(agents[1].ellipsoid.V, gram)


def test_a_discount_of_one_beside_a_memory_is_that_memory() -> None:
    both = linoto.LinTS(discount=1.0, memory=MEMORY)
    assert forgetting_of(both) == forgetting_of(linoto.LinTS(memory=MEMORY)) == (MEMORY, 0.0)
    agent = both.start(ARMS, LOG, rng=0)
    for number in range(3 * MEMORY + 1):
        agent.update(number % K, 0.5)
    assert linoto.restore(agent.snapshot()).snapshot() == agent.snapshot()


def test_a_discount_is_refused_where_a_memory_is_and_written_down_only_where_there_is_one() -> None:
    with pytest.raises(ValueError, match="bounds that forget have no theorem"):
        linoto.Gated(
            explorer=linoto.LinTS(discount=0.99), gate=linoto.Tolerance(budget=9.0), confidence=CLICKS
        )
    with pytest.raises(ValueError, match="memory must be None with a discount, got 9"):
        linoto.LinTS(discount=0.99, memory=9)
    for wrong in (0.0, -0.5, 0.899, 1.01, float("nan"), "much", True):
        with pytest.raises(ValueError, match=r"discount must be at least 0\.9 and at most 1"):
            linoto.Greedy(discount=wrong)  # type: ignore[arg-type]
    policy = drifting(None, 0.99)
    stored = linoto.to_dict(policy)
    assert stored["explorer"]["discount"] == 0.99
    assert linoto.from_dict(stored) == policy
    assert "discount" not in linoto.to_dict(drifting(None))["explorer"]
