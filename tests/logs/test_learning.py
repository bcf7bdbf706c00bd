"""Policies learnt from logged rows: what they find, what they risk, and who may judge them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.selection import sizes

import linoto
from linoto import Numeric, Recipe, Rows, evaluate, learn_policy
from linoto.core.learnt import LearntPolicy
from linoto.logs.estimates import Interval
from linoto.logs.learning import doubly_robust_scores
from linoto.logs.row_features import Sparse, sparse_gram
from linoto.logs.row_kinds import ridge_estimate
from linoto.logs.rows import split
from linoto.logs.targets import LEARNING, choices_of

K = 3
RECIPE = Recipe(
    items=("A", "B", "C"), context=(Numeric(name="x"),), crosses=(("item", "x"),), intercept=False
)
LINES = np.array([[0.5, 0.0], [0.4, 0.3], [0.4, -0.3]])  # a mean and a slope in x of each item


def means_of(x: np.ndarray) -> np.ndarray:
    """(n, 3) the chance of a reward of each item."""
    return LINES[:, 0] + x[:, None] * LINES[:, 1]


def logged(n: int, rng: np.random.Generator, *, explore: float = 1.0, contexts: bool = True) -> Rows:
    """Rows of a practice that is right in most contexts, and plays any item in a share of the rounds."""
    x = rng.uniform(-1, 1, n) if contexts else np.zeros(n)
    means = means_of(x) if contexts else np.tile([0.3, 0.6, 0.5], (n, 1))
    shares = np.full((n, K), explore / K)
    shares[np.arange(n), np.where(x > 0.2, 1, np.where(x < -0.2, 2, 0))] += 1 - explore
    arms = (shares.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    rewards = (rng.random(n) < means[np.arange(n), arms]).astype(float)
    given: dict[str, Any] = {"recipe": RECIPE, "context": {"x": x}} if contexts else {"names": RECIPE.items}
    own = shares[np.arange(n), arms]
    return Rows(arms=arms, rewards=rewards, k=K, propensities=own, ids=np.arange(n), **given)


def worth(policy: LearntPolicy) -> float:
    """What a policy earns per round, over a grid of contexts."""
    x = np.linspace(-1, 1, 401)
    names = [policy({"x": float(value)}) for value in x]
    return float(means_of(x)[np.arange(x.size), [RECIPE.items.index(name) for name in names]].mean())


BEST = float(means_of(np.linspace(-1, 1, 401)).max(axis=1).mean())


@pytest.mark.parametrize("contexts", [True, False], ids=["contexts", "fixed arms"])
@pytest.mark.parametrize("method", LEARNING)
@pytest.mark.few(1)
def test_many_uniform_rows_teach_the_best_linear_policy(method: str, contexts: bool) -> None:
    # 20,000 rows: each slope is known to 0.02, a boundary of 1/3 to 0.07. What that costs is second order,
    # 0.3 * 0.07^2 / 2 < 0.001; five times that is allowed, so a false alarm is below 1e-4.
    policy = learn_policy(logged(20_000, np.random.default_rng(1), contexts=contexts), method=method)
    if contexts:
        assert BEST - worth(policy) < 0.005
    else:
        assert policy({}) == "B"  # 0.6, the next has 0.5: 14 standard errors


@pytest.mark.parametrize("logs", sizes(60, 200))
@pytest.mark.parametrize("right", ["model", "propensities"])
def test_doubly_robust_scores_are_unbiased_if_model_or_propensities_are_right(right: str, logs: int) -> None:
    # Both sides of one comparison are independent of ours: the true means, and NumPy's mean. Of 60 logs of
    # 300 rows the mean of scores of each of 3 arms is within 4.5 standard errors: a false alarm in 1e-4.
    found = []
    for seed in range(logs):
        rows = logged(300, np.random.default_rng([2, seed]), explore=0.5, contexts=False)
        weights = 1 / np.asarray(rows.propensities)
        if right == "model":  # weights are wrong by a factor that depends on the arm: the means are right
            weights = weights * np.array([0.5, 1.5, 2.0])[rows.arms]
        else:  # a ridge of a thousand rows makes the model wrong
            rows = rows.in_contexts()
        scores = doubly_robust_scores(rows, weights, ridge=1e3, folds=5)
        found.append(scores.mean(axis=0))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    bias = abs(np.mean(found, axis=0) - [0.3, 0.6, 0.5])
    shrunk = 0.02 if right == "model" else 0.0  # means of arms are shrunk by one row of 50
    assert (bias < 4.5 * error + shrunk).all()


def test_scores_are_those_of_plain_numpy() -> None:
    rows = logged(60, np.random.default_rng(3), explore=0.6)
    weights = 1 / np.asarray(rows.propensities)
    x = np.asarray(rows.context["x"])

    def features(arm: int, value: float) -> np.ndarray:
        one = np.eye(K)[arm]
        return np.concatenate([one, [value], one * value])

    expected = np.empty((60, K))
    for i in range(60):
        others = [j for j in range(60) if j % 5 != i % 5]
        table = np.array([features(int(rows.arms[j]), x[j]) for j in others])
        theta = np.linalg.solve(table.T @ table + np.eye(7), table.T @ rows.rewards[others])
        expected[i] = [features(arm, x[i]) @ theta for arm in range(K)]
        played = int(rows.arms[i])
        expected[i, played] += weights[i] * (rows.rewards[i] - expected[i, played])
    np.testing.assert_allclose(doubly_robust_scores(rows, weights, 1.0, 5), expected, atol=1e-10)
    scores = doubly_robust_scores(rows, weights, 1.0, 5)  # and the parameter is the line through them
    every = np.array([features(arm, value) for value in x for arm in range(K)])
    line = np.linalg.solve(every.T @ every + K * np.eye(7), every.T @ scores.ravel())
    policy = learn_policy(rows, method="doubly robust", clip=1e9)
    np.testing.assert_allclose(np.array(policy.theta) * rows.rewards.std(), line, atol=1e-9)


@pytest.mark.few(0)
def test_a_pessimistic_policy_is_hardly_ever_much_below_the_log_and_a_doubly_robust_one_often_is() -> None:
    # Of 40 logs of 60 rows, nearly all by a practice that is right: at most 4 may lead to 0.05 less than the
    # log's policy earns. If the true rate is 2 % that is a false alarm in 1e-3. (Measured: 0 of 100 logs,
    # and 27 of 100 by doubly robust scores alone.)
    below = dict.fromkeys(LEARNING, 0)
    x = np.linspace(-1, 1, 401)
    practice = np.where(x > 0.2, 1, np.where(x < -0.2, 2, 0))
    mean = means_of(x)
    earned = float(0.9 * mean[np.arange(401), practice].mean() + 0.1 * mean.mean())
    for seed in range(40):
        rows = logged(60, np.random.default_rng([4, seed]), explore=0.1)
        for method in LEARNING:
            below[method] += worth(learn_policy(rows, method=method)) < earned - 0.05
    assert below["pessimistic"] <= 4 < below["doubly robust"]


@pytest.mark.parametrize("method", LEARNING)
def test_neither_the_unit_nor_the_zero_of_rewards_changes_what_is_played(method: str) -> None:
    rows = logged(200, np.random.default_rng(5), explore=0.5)
    policy = learn_policy(rows, method=method)
    for other in (rows.rewards * 1e6, rows.rewards * 1e-6, rows.rewards + 100, 3 - 2 * (1 - rows.rewards)):
        moved = learn_policy(replace(rows, rewards=other), method=method)
        np.testing.assert_allclose(moved.theta, policy.theta, rtol=1e-6, atol=1e-9)


def test_only_arms_on_offer_teach_and_are_played() -> None:
    rows = logged(300, np.random.default_rng(6))
    offered = np.ones((300, K), np.bool_)
    offered[:, 2] = rows.arms == 2  # C is on offer only where it was played
    rows = replace(rows, candidates=offered)
    for method in LEARNING:
        chosen = choices_of(learn_policy(rows, method=method), rows)
        assert offered[np.arange(300), chosen.arms].all()


# -- who may judge


def test_the_rows_that_taught_a_policy_may_not_judge_it() -> None:
    rows = logged(200, np.random.default_rng(7))
    taught, held_out = split(rows)
    policy = learn_policy(taught)
    assert {found.learnt for found in evaluate(held_out, policy)} == {
        f"pessimistic, from {len(taught)} rows with other ids"
    }
    with pytest.raises(ValueError, match=f"those that it was learnt from, got {len(taught)} of 200"):
        evaluate(rows, policy)
    explored = linoto.Gated(explorer=policy, gate=linoto.Open())
    agent = explored.start(d=policy.recipe.d, features=policy.recipe, rng=0)
    for target in (explored, agent):
        with pytest.raises(ValueError, match=f"those that it was learnt from, got {len(taught)} of 200"):
            evaluate(rows, target)
    with pytest.raises(ValueError, match="ids must be given where there is a learnt policy"):
        evaluate(replace(held_out, ids=None), policy)


def best_on_noise(seed: int) -> tuple[Rows, LearntPolicy]:
    """Rows of 20 arms that are all coin tosses, and what is learnt from them."""
    rng = np.random.default_rng([8, seed])
    arms, rewards = rng.integers(20, size=400), (rng.random(400) < 0.5).astype(float)
    rows = Rows(arms=arms, rewards=rewards, k=20, propensities="uniform", ids=np.arange(400))
    return rows, learn_policy(rows, method="doubly robust")


@pytest.mark.few(0)
def test_later_rows_cover_the_truth_and_the_same_rows_do_not() -> None:
    """Whatever is played on coin tosses earns a half; the arm that was lucky in these rows looks better.

    Each interval holds at 80 %. Of 20 logs a valid one misses in more than 10 with a probability of 6e-4. The
    best of 20 arms by the rows that judge it is about two standard errors above the truth: most are missed.
    """
    missed, sure = {"later rows": 0, "the same rows": 0}, Interval(kind="normal", level=0.8)
    for seed in range(20):
        rows, policy = best_on_noise(seed)
        (honest,) = evaluate(rows, "doubly robust", methods=["snips"], interval=sure)
        missed["later rows"] += not honest.low <= 0.5 <= honest.high
        (naive,) = evaluate(rows, np.eye(20)[choices_of(policy, rows).arms], methods=["snips"], interval=sure)
        missed["the same rows"] += not naive.low <= 0.5 <= naive.high
    assert missed["later rows"] <= 10 < missed["the same rows"]


@pytest.mark.parametrize("target", ["greedy", *LEARNING])
def test_a_way_to_learn_is_judged_by_rows_after_those_it_learnt_from(target: str) -> None:
    rows = logged(500, np.random.default_rng(9))
    for found in evaluate(rows, target):
        assert found.rows == 400
        assert found.learnt == f"{target}, before each of 4 blocks from all earlier rows; 100 judge nothing"
        assert found.low <= BEST + 0.05
    spoilt = replace(rows, rewards=np.where(np.arange(500) < 400, rows.rewards, 1 - rows.rewards))
    assert [e.weights_fit for e in evaluate(spoilt, target)] == [
        e.weights_fit for e in evaluate(rows, target)
    ]


@pytest.mark.parametrize("target", ["greedy", *LEARNING])
@pytest.mark.parametrize("stated", [1.0, 1.5])  # times the true propensities
def test_a_ratio_lies_in_its_interval_or_is_withheld(stated: float, target: str) -> None:
    rows = logged(4_000, np.random.default_rng(10), explore=0.5, contexts=False)
    rows = replace(rows, propensities=np.minimum(np.asarray(rows.propensities) * stated, 1.0))
    (found,) = evaluate(rows, target, methods=["snips"])
    assert found.low <= found.value <= found.high and found.weights_fit == (stated == 1.0)
    withheld = found.reason.startswith("cannot tell: the propensities do not fit these rows, or were 0 for")
    assert withheld == (not found.weights_fit) and found.enough == found.weights_fit


# -- where it is used


@pytest.mark.parametrize("method", LEARNING)
def test_a_learnt_policy_comes_back_from_json(method: str) -> None:
    policy = learn_policy(logged(100, np.random.default_rng(10)), method=method)
    data = linoto.to_dict(policy)
    again = linoto.from_dict(json.loads(json.dumps(data, allow_nan=False)))
    assert again == policy
    assert again.built_by is None
    gated = linoto.Gated(explorer=policy, gate=linoto.Tolerance(budget=5))
    assert linoto.from_dict(json.loads(json.dumps(linoto.to_dict(gated)))) == gated


@pytest.mark.parametrize(
    "gate", [linoto.Tolerance(budget=5, evidence="model"), linoto.Control(budget=10)], ids=["model", "coin"]
)
def test_it_explores_behind_a_gate_with_contexts(gate: Any) -> None:
    rows = logged(300, np.random.default_rng(11))
    policy = learn_policy(rows)
    bounded = linoto.Confidence(reward_range=(0.0, 1.0), noise="bounded")
    gated = linoto.Gated(explorer=policy, gate=gate, confidence=bounded)
    agent = gated.start(rows.moments(np.arange(300)), features=RECIPE, rng=0)
    for value in np.linspace(-1, 1, 30):
        context = {"x": float(value)}
        decision = agent.decide(context=context, practice="A")
        assert decision.name in ("A", policy(context))
        agent.update(decision, 1.0)


def test_the_promise_is_kept_with_a_policy_that_was_taught_lies() -> None:
    """Behind a Tolerance gate, what a policy wants that prefers the worst arm loses no more than promised."""
    bandit = linoto.sphere_bandit(k=6, d=3, rng=np.random.default_rng(12))
    log = bandit.log([30, 30, 30, 0, 0, 0], np.random.default_rng(13))
    lies = np.argsort(np.argsort(-bandit.means)).astype(float)
    arms = np.tile(np.arange(6), 50)
    rows = Rows(arms=arms, rewards=lies[arms], k=6, propensities="uniform")
    worst = learn_policy(rows)
    assert worst({}) == str(int(bandit.means.argmin()))
    gated = linoto.Gated(explorer=worst, gate=linoto.Tolerance(budget=10))
    run = linoto.simulate(gated, bandit, log, horizon=500)
    assert run.offline_regret.max() <= gated.certificate(bandit.actions, log).loss(500)


def test_it_is_practice_in_an_agent_and_in_a_preview() -> None:
    rows = logged(300, np.random.default_rng(14))
    policy = learn_policy(rows)
    closed = linoto.Gated(gate=linoto.Closed(), fallback="mixture")
    agent = closed.start(rows.moments(np.arange(300)), features=RECIPE, rng=0)
    for value in (-0.9, 0.0, 0.9):
        decision = agent.decide(context={"x": value}, practice=policy)
        assert decision.name == policy({"x": value})
        assert agent.decide(["A", "B"], context={"x": value}, practice=policy).name in ("A", "B")
        agent.update(decision, 1.0)
    from linoto.worlds.logged_rounds import rounds_of_rows

    rounds = rounds_of_rows(rows, policy, np.random.default_rng(0))
    np.testing.assert_array_equal(rounds.weights.reshape(-1, K), np.eye(K)[choices_of(policy, rows).arms])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "dr"}, "method must be"),
        ({"clip": 0.0}, "clip must be"),
        ({"ridge": -1.0}, "ridge must be"),
        ({"folds": 1}, "rows and folds must be at least two"),
        ({"level": 1.0}, "level must be"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        learn_policy(logged(20, np.random.default_rng(15)), **given)


def test_rows_without_propensities_teach_nothing() -> None:
    rows = replace(logged(20, np.random.default_rng(16)), propensities=None)
    with pytest.raises(ValueError, match="propensities must be given for learning"):
        learn_policy(rows)


def test_weights_above_the_clip_are_counted() -> None:
    rows = logged(100, np.random.default_rng(17), explore=0.1)
    policy = learn_policy(rows, clip=5.0)
    assert (policy.clip, policy.clipped) == (5.0, int((np.asarray(rows.propensities) < 0.2).sum()))
    assert learn_policy(rows).clip == 10.0  # the square root of 100


def test_sums_of_few_features_among_many_have_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    features = Sparse(rng.integers(0, 20, (400, 3)), rng.normal(size=(400, 3)))
    few, many = sparse_gram(features, 20), sparse_gram(features, 2000)
    assert np.array_equal(many[:20, :20], few) and not many[20:].any() and not many[:, 20:].any()


def test_a_model_of_arms_alone_is_their_shrunk_means() -> None:
    counts, sums = np.array([4.0, 0.0, 1.0]), np.array([[2.0, 4.0], [0.0, 0.0], [3.0, 1.0]])
    gram = np.diag(counts)
    found = ridge_estimate([(gram, sums), (gram, sums)], 0.5, 3)
    assert found == pytest.approx(np.linalg.solve(2 * gram + 0.5 * np.eye(3), 2 * sums))
    assert ridge_estimate([(gram, sums[:, 0])], 0.5, 3) == pytest.approx(sums[:, 0] / (counts + 0.5))
