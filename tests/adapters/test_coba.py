"""Our policies in coba, and coba's learners behind our guard: with coba itself."""

from __future__ import annotations

import pickle
from typing import Any

import coba
import numpy as np
import pytest
from coba.evaluators import SequentialCB
from coba.learners import BanditEpsilonLearner, LinUCBLearner, RandomLearner

import linoto
from linoto.adapters.coba import CobaLearner, GuardedLearner

POLICIES = [linoto.LinUCB(scale=0.5), linoto.LinTS(), linoto.Greedy()]
ARMS = ["a", "b", "c"]
MEANS = {"a": 0.6, "b": 0.4, "c": 0.1}


def synthetic(rounds: int = 200) -> Any:
    """Contexts and one-hot actions whose rewards are linear."""
    return coba.Environments.from_linear_synthetic(rounds, n_actions=4, n_context_features=2, seed=3)[0]


def earned(learner: Any, rounds: int = 200) -> float:
    rows = list(SequentialCB().evaluate(synthetic(rounds), learner))
    assert len(rows) == rounds
    return float(np.mean([row["reward"] for row in rows]))


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_coba_plays_our_policies_and_they_earn_more_than_chance(policy: Any) -> None:
    assert earned(CobaLearner(policy, seed=0)) > earned(RandomLearner()) + 0.05


def test_an_experiment_of_coba_has_our_policy_as_a_column() -> None:
    learners = [CobaLearner(linoto.Greedy(), seed=1), RandomLearner()]
    result = coba.Experiment(coba.Environments(synthetic(30)), learners).run(quiet=True)
    assert len(result.interactions) == 60
    assert any("Greedy" in str(row) for row in result.learners)


def test_its_decisions_are_those_of_our_agent() -> None:
    learner, rng = CobaLearner(linoto.LinUCB(), features=[1, "a", "ax"]), np.random.default_rng(0)
    agent = linoto.LinUCB().start(d=1 + 2 + 4, rng=0)
    for _ in range(30):
        context, actions = tuple(rng.normal(size=2)), [(1.0, 0.0), (0.0, 1.0)]
        action, likely, known = learner.predict(context, actions)
        assert learner.agent is not None and likely == 1.0
        crossed = [[part * entry for part in action for entry in context] for action in actions]
        table = [[1.0, *action, *products] for action, products in zip(actions, crossed, strict=True)]
        decision = agent.decide(actions=table)
        assert actions[int(decision.arm or 0)] == action
        reward = float(rng.normal())
        agent.update(decision, reward)
        learner.learn(context, action, reward, likely, **known)
    assert np.array_equal(agent.theta, learner.agent.theta)


def test_scores_of_all_actions_sum_to_one() -> None:
    learner, actions = CobaLearner(linoto.LinTS(), features=[1, "a"]), [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    scores = [learner.score(None, actions, action) for action in actions]
    assert sum(score for score in scores if score is not None) == pytest.approx(1.0)


def test_a_gate_plays_practice_until_it_can_afford_more() -> None:
    policy = linoto.Gated(
        gate=linoto.Tolerance(budget=5, evidence="model"),
        confidence=linoto.Confidence(noise=0.1, reward_range=(0, 1)),
    )
    with pytest.raises(ValueError, match="practice must be given"):
        CobaLearner(policy).predict((0.5,), [(1, 0), (0, 1)])
    learner = CobaLearner(policy, practice=lambda context, actions: 1)
    _, _, known = learner.predict((0.5,), [(1, 0), (0, 1)])
    assert known["decision"].fallback in (1, None) and known["decision"].practice is not None
    assert 0 <= earned(CobaLearner(policy, practice=lambda context, actions: 0), 60) <= 1


def test_what_cannot_be_used_is_refused_in_one_sentence() -> None:
    learner = CobaLearner(linoto.LinUCB())
    with pytest.raises(ValueError, match="decision must be one that predict returned, got none"):
        learner.learn((1.0,), (1, 0), 1.0, 0.5)
    with pytest.raises(ValueError, match="context and actions must be numbers, got words"):
        learner.predict(("Tom",), ["a", "b"])


def test_a_learner_is_copied_before_it_plays_as_coba_does() -> None:
    copy = pickle.loads(pickle.dumps(CobaLearner(linoto.LinTS(), seed=4)))
    assert copy.params == CobaLearner(linoto.LinTS(), seed=4).params
    assert earned(copy, 20) == earned(CobaLearner(linoto.LinTS(), seed=4), 20)


# -- their learners behind our guard ----------------------------------------------------------------------


class Hostile:
    """Always wants the worst arm."""

    @property
    def params(self) -> dict[str, str]:
        return {"family": "hostile"}

    def predict(self, context: Any, actions: Any) -> Any:
        return actions[-1], 1.0

    def learn(self, context: Any, action: Any, reward: float, probability: float) -> None:
        pass


def guard(epsilon: float = 0.05) -> linoto.Guard:
    log = linoto.Offline(pulls=[250, 250, 0], reward_sums=[150.0, 100.0, 0.0])
    return linoto.Guard(log, epsilon=epsilon, reward_range=(0, 1), noise="bounded")


def shortfalls(learner: Any, seed: int, rounds: int = 300) -> np.ndarray:
    """The summed expected shortfall below the log after each round."""
    rng, lost = np.random.default_rng(seed), []
    for _ in range(rounds):
        action, likely, known = learner.predict(None, ARMS)
        lost.append(0.5 - MEANS[action])
        learner.learn(None, action, float(rng.random() < MEANS[action]), likely, **known)
    return np.cumsum(lost)


@pytest.mark.parametrize("make", [Hostile, BanditEpsilonLearner, RandomLearner])
def test_the_promise_holds_with_any_learner_behind_the_guard(make: Any) -> None:
    """One run breaks it with probability 0.05 at most: 6 of 20 in fewer than 1 of 1,000 such tests."""
    promise = guard().certificate
    broken = 0
    for seed in range(20):
        found = shortfalls(GuardedLearner(make(), guard(), ARMS), seed)
        limits = [promise.loss(t) for t in range(1, found.size + 1)]
        broken += bool((found > np.array(limits) + 1e-9).any())
    assert broken < 6
    plain = np.cumsum([0.5 - MEANS["c"]] * 300)
    assert plain[-1] > promise.loss(300)  # without the guard the hostile one breaks it for sure


def test_a_good_learner_explores_more_as_rewards_pay_for_it() -> None:
    guarded = GuardedLearner(BanditEpsilonLearner(0.1), guard(), ARMS)
    found = shortfalls(guarded, 0, 600)
    assert found[-1] < -20  # it learnt that arm a is the best
    assert guarded.params["family"] == "guarded BanditEpsilon"


def test_our_own_learner_is_guarded_too() -> None:
    guarded = GuardedLearner(CobaLearner(linoto.LinUCB(), features=["a"]), guard(), ARMS)
    actions = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    guarded.actions = actions
    for _ in range(40):
        action, likely, known = guarded.predict(None, actions)
        guarded.learn(None, action, 0.5, likely, **known)
    assert guarded.guard.rounds == 40


def test_the_actions_must_be_those_of_the_log() -> None:
    guarded = GuardedLearner(LinUCBLearner(), guard(), ARMS)
    with pytest.raises(ValueError, match="actions must be those of the guard's log"):
        guarded.predict(None, ["a", "b"])
    log = linoto.Offline(pulls=[5, 5], reward_sums=[2.0, 1.0])
    coin = linoto.Guard(log, reward_range=(0, 1), noise="bounded", gate=linoto.Control(budget=5))
    with pytest.raises(ValueError, match="guard must be one without a coin"):
        GuardedLearner(RandomLearner(), coin, ["a", "b"])
