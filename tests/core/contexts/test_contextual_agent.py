"""Rounds that bring their own arms: the formulas against plain NumPy, and the laws that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.contexts import World, played
from helpers.problems import problem
from helpers.reference_contexts import ContextReference

from linoto import (
    Agent,
    Closed,
    Confidence,
    Ellipsoid,
    Gated,
    Greedy,
    LinLCB,
    LinTS,
    LinUCB,
    Moments,
    Numeric,
    Offline,
    Open,
    OwnFeatures,
    Random,
    Recipe,
    Tolerance,
)
from linoto.core import kernels

SURE = Confidence(noise=0.5)
MODEL: dict[str, Any] = {"budget": 3.0, "epsilon": 0.02}


def gated(explorer: Any, gate: Any, **parts: Any) -> Gated:
    return Gated(explorer=explorer, gate=gate, confidence=SURE, **parts)


HALF = {"explorer": "thompson", "scale": 0.5, "whole_prior": True}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "ucb": (LinUCB(scale=1.0, confidence=SURE), {}),
    "greedy": (Greedy(confidence=SURE), {"explorer": "greedy"}),
    "thompson": (
        LinTS(scale=1.0, prior="scaled", noise="assumed", confidence=SURE),
        {"explorer": "thompson"},
    ),
    "thompson, whole prior": (
        LinTS(scale=0.5, prior="whole", noise="assumed", confidence=SURE),
        HALF,
    ),
    "pessimist": (LinLCB(confidence=SURE), {"gate": "closed", "fallback": "lcb"}),
    "practice": (
        gated(LinUCB(scale=1.0), Closed(), fallback="mixture"),
        {"gate": "closed", "fallback": "practice"},
    ),
    "model": (gated(LinUCB(scale=1.0), Tolerance(**MODEL, evidence="model")), {"gate": "model", **MODEL}),
    "model, thompson": (
        gated(
            LinTS(scale=0.5, prior="whole", noise="assumed"),
            Tolerance(epsilon=0.1, evidence="model"),
            fallback="mixture",
        ),
        {"gate": "model", "epsilon": 0.1, "fallback": "practice", **HALF},
    ),
    "model, proposal": (
        gated(LinUCB(scale=1.0), Tolerance(epsilon=0.1, evidence="model"), reach="proposal"),
        {"gate": "model", "epsilon": 0.1, "reach": "proposal"},
    ),
    "model, scaled": (
        gated(LinUCB(scale=0.3, noise="assumed"), Tolerance(budget=6.0, evidence="model")),
        {"gate": "model", "scale": 0.3, "budget": 6.0},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.few(3)
def test_every_decision_is_that_of_the_formulas(name: str) -> None:
    policy, parts = CASES[name]
    world = World(3)
    agent = policy.start(world.log, rng=1)
    oracle = ContextReference(world.rows, world.outcomes, noise=0.5, ridge=0.25 * world.d, **parts)
    late: list[Any] = []
    for t, (actions, practice, mean) in enumerate(world.rounds(60)):
        decision = agent.decide(actions=actions, practice=practice)
        arm, explored, room = oracle.decide(actions, mean, agent.running.state.vectors[kernels.NORMALS])
        assert (decision.mode == "explore") == explored
        assert decision.by_practice == (arm is None)
        if arm is not None:
            assert decision.arm == arm
        if decision.budget is not None:
            assert decision.budget == pytest.approx(room, abs=1e-6)  # rounding is counted against y = 0
        np.testing.assert_allclose(decision.practice, mean, atol=1e-15)
        agent.commit(decision)
        oracle.commit(np.array(decision.action), mean, decision.by_practice)
        late.append((decision, world.reward(decision)))
        if t % 4 == 3:  # rewards come late, the last ones first, and one in five never
            while late:
                before, reward = late.pop()
                if before.round % 5:
                    agent.observe(before, reward)
                    oracle.observe(np.array(before.action), reward)
            np.testing.assert_allclose(agent.theta, oracle.theta, rtol=1e-9)
    assert agent.ellipsoid.radius == pytest.approx(oracle.radius + np.sqrt(oracle.ridge), rel=1e-10)


def test_the_cases_explore_and_fall_back_on_arms_and_on_practice() -> None:
    seen = set()
    for policy, _ in CASES.values():
        world = World(3)
        seen |= {decision.source for decision in played(policy.start(world.log, rng=0), world, 60)}
    assert seen == {"explorer", "lcb", "practice"}


@pytest.mark.parametrize("reach", ["affordable", "proposal"])
@pytest.mark.parametrize("explorer", [LinUCB(scale=1.0), Greedy(), LinUCB(scale=0.3, noise="assumed")])
def test_with_the_same_arms_in_every_round_it_is_the_agent_of_fixed_arms(explorer: Any, reach: Any) -> None:
    bandit, _ = problem(5, k=12, d=4, noise=0.3)
    log = Offline.from_rows([2] * 40, np.linspace(-0.2, 0.6, 40), k=12)
    gate = Tolerance(budget=1.0, epsilon=0.02, evidence="model")
    policy = Gated(explorer=explorer, gate=gate, fallback="mixture", reach=reach, confidence=SURE)
    fixed = policy.start(bandit.actions, log)
    moments = Moments.from_rows(np.repeat(bandit.actions[[2]], 40, axis=0), np.linspace(-0.2, 0.6, 40))
    agent = policy.start(moments)
    rng = np.random.default_rng(2)
    modes = set()
    for _ in range(300):
        before, decision = fixed.decide(), agent.decide(actions=bandit.actions, practice=2)
        assert (decision.arm, decision.mode, decision.proposal) == (before.arm, before.mode, before.proposal)
        assert decision.budget == pytest.approx(before.budget, abs=1e-8)
        reward = float(bandit.means[before.arm] + 0.3 * rng.normal())
        fixed.update(before, reward)
        agent.update(decision, reward)
        modes.add(decision.mode)
    assert modes == {"explore", "safe"} or explorer != LinUCB(scale=1.0)
    np.testing.assert_allclose(agent.theta, fixed.theta, rtol=1e-8)


@pytest.mark.parametrize("name", ["ucb", "greedy", "pessimist", "model", "model, proposal"])
def test_the_order_of_arms_does_not_matter(name: str) -> None:
    world, policy = World(8), CASES[name][0]
    one, other = policy.start(world.log), policy.start(world.log)
    for actions, _, _ in world.rounds(40):
        order = world.rng.permutation(len(actions))
        practice = int(world.rng.integers(len(actions)))
        decision = one.decide(actions=actions, practice=practice)
        shuffled = other.decide(actions=actions[order], practice=int(np.flatnonzero(order == practice)[0]))
        assert decision.arm == order[shuffled.arm or 0]
        assert decision.action == shuffled.action
        reward = world.reward(decision)
        one.update(decision, reward)
        other.update(shuffled, reward)


@pytest.mark.parametrize("name", ["ucb", "greedy", "pessimist", "model", "model, proposal"])
def test_turning_all_features_changes_no_decision(name: str) -> None:
    world, policy = World(9), CASES[name][0]
    turn = np.linalg.qr(world.rng.normal(size=(world.d, world.d)))[0]
    one = policy.start(world.log)
    other = policy.start(Moments.from_rows(world.rows @ turn, world.outcomes))
    for actions, _, _ in world.rounds(40):
        decision = one.decide(actions=actions, practice=0)
        turned = other.decide(actions=actions @ turn, practice=0)
        assert (decision.arm, decision.mode) == (turned.arm, turned.mode)
        reward = world.reward(decision)
        one.update(decision, reward)
        other.update(turned, reward)


def test_the_order_in_which_rewards_come_does_not_matter() -> None:
    world = World(4)
    agents = [LinUCB(scale=1.0, confidence=SURE).start(world.log) for _ in range(2)]
    decisions = []
    for actions, _, _ in world.rounds(30):
        decision = agents[0].decide(actions=actions)
        decisions.append((decision, world.reward(decision)))
        for agent in agents:
            agent.commit(decision)
    for decision, reward in decisions:
        agents[0].observe(decision, reward)
    for decision, reward in reversed(decisions):
        agents[1].observe(decision, reward)
    np.testing.assert_allclose(agents[0].theta, agents[1].theta, rtol=1e-10)
    assert agents[0].awaited == 0


def test_asking_twice_gives_the_same_answer_and_changes_nothing() -> None:
    world = World(5)
    for explorer in (LinTS(), Random()):
        agent = explorer.start(world.log, rng=3)
        for actions, _, _ in world.rounds(20):
            decision = agent.decide(actions=actions)
            agent.decide(actions=world.arms(3))  # another question between
            assert agent.decide(actions=actions) == decision
            agent.update(decision, world.reward(decision))


def test_chance_plays_every_arm_alike() -> None:
    """Chi-square with 6 degrees of freedom, above 27.9 in one of 10,000 right programs."""
    world = World(6)
    agent = Random().start(world.log, rng=0)
    actions, counts = world.arms(7), np.zeros(7)
    for _ in range(2000):
        decision = agent.decide(actions=actions)
        counts[decision.arm] += 1
        agent.update(decision, 0.0)
    assert ((counts - 2000 / 7) ** 2 / (2000 / 7)).sum() < 27.9


def test_practice_is_drawn_with_its_weights() -> None:
    """Each count is 4 standard deviations off in fewer than one of 5,000 right programs."""
    world, weights = World(6), np.array([0.5, 0.0, 0.2, 0.3])
    policy = Gated(gate=Closed(), fallback="mixture", confidence=SURE)
    agent = policy.start(world.log, rng=0)
    actions, counts = world.arms(4), np.zeros(4)
    for _ in range(2000):
        decision = agent.decide(actions=actions, practice=weights)
        counts[decision.arm] += 1
        agent.update(decision, 0.0)
    assert counts[1] == 0
    assert (np.abs(counts - 2000 * weights) <= 4 * np.sqrt(2000 * weights * (1 - weights))).all()


def test_the_draw_of_practice_is_shown_only_where_it_is_played() -> None:
    world = World(7)
    agent = CASES["model"][0].start(world.log, rng=0)
    for actions, _, _ in world.rounds(40):
        k = len(actions)
        decision = agent.decide(actions=actions, practice=np.full(k, 1 / k))
        assert (decision.fallback is None) == (decision.mode == "explore" and k > 1)
        agent.update(decision, world.reward(decision))


class Worst:
    """An explorer that knows the world, and proposes what is worst."""

    def __init__(self, world: World) -> None:
        self.world = world

    def propose(self, view: Any) -> int:
        return int(np.argmin(view.actions @ self.world.theta))


def broken(runs: int, delta: float, rounds: int) -> tuple[int, int]:
    """Runs in which the promise of the model gate was exceeded, and the rounds that were explored in all."""
    violations = explored = 0
    for seed in range(runs):
        world = World(seed, d=3, m=20)
        confidence = Confidence(noise=0.5, delta=delta)
        gate = Tolerance(budget=2.0, epsilon=0.05, evidence="model")
        policy = Gated(explorer=Worst(world), gate=gate, confidence=confidence)
        lost, worst = 0.0, -np.inf
        agent, late = policy.start(world.log, rng=seed), []
        for t, (actions, practice, _) in enumerate(world.rounds(rounds)):
            decision = agent.decide(actions=actions, practice=practice)
            agent.commit(decision)
            explored += decision.mode == "explore"
            lost += world.shortfall(decision)
            worst = max(worst, lost - 2.0 - 0.05 * (t + 1))
            late.append(decision)
            if len(late) > 5:  # five rounds late, and every seventh never
                due = late.pop(0)
                if due.round % 7:
                    agent.observe(due, world.reward(due))
        violations += worst > 1e-9
    return violations, explored


@pytest.mark.parametrize("delta", [0.05, 0.5])
@pytest.mark.few(1)
def test_the_model_gate_keeps_its_promise_whatever_is_proposed(delta: float) -> None:
    """A right program fails with a probability below 1e-3: 8 of 30 at 0.05, 26 of 30 at 0.5."""
    violations, explored = broken(30, delta, 60)
    assert explored > 100
    assert violations < (8 if delta == 0.05 else 26)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_the_model_gate_keeps_its_promise_in_hundreds_of_runs(delta: float) -> None:
    """A false alarm in one of 100,000."""
    violations, _ = broken(250, delta, 150)
    assert violations <= most(250, delta, alarm=1e-5)


@pytest.mark.few(0)
def test_the_set_holds_the_parameter_in_every_round() -> None:
    """At delta 0.5, more than 38 of 50 runs leave the set in one of 10,000 right programs."""
    outside = 0
    for seed in range(50):
        world = World(100 + seed, d=3, m=5)
        agent = LinUCB(scale=1.0, confidence=Confidence(noise=0.5, delta=0.5)).start(world.log)
        left = False
        for actions, _, _ in world.rounds(40):
            decision = agent.decide(actions=actions)
            agent.update(decision, world.reward(decision))
            left |= not agent.ellipsoid.contains(world.theta)
        outside += left
    assert outside <= 38


def test_bounds_allow_for_how_wrong_a_stand_in_can_be() -> None:
    """What lost rewards can move the estimate, in the norm of V, is in the radius, and falls again."""
    world = World(11)
    confidence = Confidence(noise=0.5, reward_range=(-1.0, 1.0))
    right, wrong = (LinUCB(scale=1.0, confidence=confidence).start(world.log) for _ in range(2))
    assert right.ellipsoid.radius == wrong.ellipsoid.radius
    doubts = []
    for t, (actions, _, _) in enumerate(world.rounds(200)):
        decision = right.decide(actions=actions)
        reward = float(np.clip(world.reward(decision), -1, 1))
        for agent in (right, wrong):
            agent.commit(decision)
        right.observe(decision, reward)
        if t < 20:
            wrong.lose(decision, -1.0)
        else:
            wrong.observe(decision, reward)
        away = right.theta - wrong.theta
        moved = np.sqrt(away @ right.ellipsoid.V @ away)
        doubts.append(wrong.ellipsoid.radius - right.ellipsoid.radius)
        assert moved <= doubts[-1] + 1e-12
    assert doubts[-1] < 0.9 * max(doubts)


def test_widths_are_exact_where_the_log_knows_one_direction_a_billion_times_better() -> None:
    rows = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1e-3]])
    log = Moments(
        count=10**9, gram=1e9 * rows[:1].T @ rows[:1], reward_vector=[1e6, 1e6, 0.0], reward_sum=1e6
    )
    agent = LinUCB(scale=1.0, confidence=Confidence(ridge=1e-3, noise=0.5)).start(log)
    agent.decide(actions=rows)
    exact = 2 / (1e-3 + 2e9)  # |x|^2 in V^-1 along an eigenvector
    assert agent.running.state.arms[kernels.VARIANCE, 0] == pytest.approx(exact, rel=1e-6)
    assert agent.running.state.arms[kernels.VARIANCE, 1] == pytest.approx((2 + 1e-6) / 1e-3, rel=1e-6)


def test_rounding_does_not_pile_up() -> None:
    world = World(12, d=6)
    agent = LinTS(confidence=Confidence(noise=0.5, ridge=1e-4)).start(None, d=6, rng=0)
    actions = world.arms(50)
    for _ in range(1500):
        decision = agent.decide(actions=actions)
        agent.update(decision, world.reward(decision))
    square = agent.running.state.square
    assert np.abs(square[kernels.GRAM] @ square[kernels.INVERSE] - np.eye(6)).max() < 1e-9
    np.testing.assert_allclose(
        square[kernels.FACTOR].T @ square[kernels.FACTOR], square[kernels.GRAM], rtol=1e-9
    )
    exact = np.linalg.solve(square[kernels.GRAM], agent.running.state.vectors[kernels.TARGET])
    np.testing.assert_allclose(agent.theta, exact, rtol=1e-8)


def test_the_shortest_parameter_of_a_set_is_found() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        root = rng.normal(size=(3, 3))
        V, center = root @ root.T + 0.1 * np.eye(3), rng.normal(size=3)
        least = Ellipsoid(center=center, V=V, radius=0.7).least_length()
        directions = rng.normal(size=(20_000, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        border = center + 0.7 * np.linalg.solve(np.linalg.cholesky(V).T, directions.T).T
        inside = center @ V @ center <= 0.49
        assert least == pytest.approx(0.0 if inside else np.linalg.norm(border, axis=1).min(), abs=2e-2)


def test_an_explorer_of_your_own_sees_the_arms_of_the_round() -> None:
    world, seen = World(13), []

    class Own:
        def score(self, view: Any) -> Any:
            seen.append((view.actions, view.mean, view.ucb - view.lcb, view.round))
            return view.ucb

    own = Gated(explorer=Own(), gate=Open(), confidence=SURE).start(world.log, rng=0)
    known = LinUCB(scale=1.0, confidence=SURE).start(world.log)
    for actions, _, _ in world.rounds(20):
        decision = own.decide(actions=actions)
        assert decision.arm == known.decide(actions=actions).arm
        assert np.array_equal(seen[-1][0], actions)
        assert seen[-1][3] == decision.round
        reward = world.reward(decision)
        own.update(decision, reward)
        known.update(decision, reward)


RECIPE = Recipe(items=("a", "b"), context=(Numeric(name="x"),), crosses=())


class Doubled:
    """Features of a context: its number beside that of each arm."""

    d = 2
    items = ("low", "high")

    def transform(self, context: Any, arms: Any = None) -> Any:
        numbers = {"low": 0.1, "high": 0.9}
        return [[context["age"], numbers[arm]] for arm in arms or self.items]


def test_features_turn_a_context_into_arms() -> None:
    agent = Gated(confidence=SURE).start(None, features=Doubled())
    decision = agent.decide(context={"age": 0.5}, practice="low")
    assert decision == agent.decide(actions=[[0.5, 0.1], [0.5, 0.9]], practice=0, names=("low", "high"))
    assert agent.decide(context={"age": 0.5}, allowed=["high"], practice="high").name == "high"
    assert agent.select(context={"age": 0.5}, practice="low") == decision.arm


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"allowed": 3}, "^allowed must be names of items in a list, got 3$"),
        ({"allowed": "ab"}, "^allowed must be names of items in a list, got the text 'ab'$"),
        ({"names": ["a", "b"]}, "^names must be None where a context or allowed is given, got both$"),
        ({"names": 5}, "^names must be None where a context or allowed is given, got both$"),
        ({"practice": [[1, 2], [3]]}, "^practice must be an array of numbers, got list$"),
    ],
)
@pytest.mark.parametrize("features", [OwnFeatures(items=("a", "b"), width=2), RECIPE], ids=["own", "recipe"])
def test_what_is_wrong_beside_a_context_is_named(question: Any, message: str, features: Any) -> None:
    agent = agent_of(d=None, features=features)
    context: Any = {"x": 1.0} if features is RECIPE else [1.0, 0.5]
    with pytest.raises(ValueError, match=message):
        agent.decide(**{"context": context, "practice": 0, **question})
    assert agent.decide(["b"], context=context, practice="b").name == "b"


def test_a_proposal_is_played_or_practice_is() -> None:
    world = World(14)
    closed = Gated(gate=Tolerance(epsilon=1e-6, evidence="model"), fallback="mixture", confidence=SURE)
    shut = closed.start(None, d=4)
    wide = Gated(gate=Tolerance(budget=1e3, evidence="model"), confidence=SURE).start(world.log)
    actions = world.arms(5)
    for arm in range(5):
        assert shut.guard(arm, actions=actions, practice=4).arm == 4
        assert wide.guard(arm, actions=actions, practice=4).arm == arm


def agent_of(policy: Any = None, **start: Any) -> Agent:
    default = Gated(gate=Tolerance(budget=5.0, evidence="model"), confidence=SURE)
    agent: Agent = (policy or default).start(None, **{"d": 2, "rng": 0, **start})
    return agent


QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "actions must be given"),
    "no practice": ({"actions": np.eye(2)}, "practice must be given for a Tolerance gate"),
    "three features": ({"actions": np.eye(3), "practice": 0}, r"actions must have shape \(k, 2\)"),
    "one dimension": ({"actions": [1.0, 2.0], "practice": 0}, "actions must have 2 dimension"),
    "no arms": ({"actions": np.zeros((0, 2)), "practice": 0}, r"actions must have shape \(k, 2\)"),
    "not a number": (
        {"actions": [[1.0, np.nan]], "practice": 0},
        r"actions must be finite, got nan at \[0, 1\]",
    ),
    "words": ({"actions": [["a", "b"]], "practice": 0}, "actions must be an array of numbers"),
    "huge": ({"actions": [[1e60, 0.0]], "practice": 0}, "actions must have entries of a size below"),
    "arm outside": ({"actions": np.eye(2), "practice": 2}, r"practice must be in \[0, 2\), got 2"),
    "true": ({"actions": np.eye(2), "practice": True}, "practice must be an integer"),
    "weights below 0": ({"actions": np.eye(2), "practice": [1.5, -0.5]}, "got a weight of -0.5"),
    "weights of 2": (
        {"actions": np.eye(2), "practice": [1.0, 1.0]},
        "weights >= 0 that sum to 1, got a sum of 2",
    ),
    "weights of another round": (
        {"actions": np.eye(2), "practice": [0.5, 0.25, 0.25]},
        "practice must be an arm, 2",
    ),
    "no such name": (
        {"actions": np.eye(2), "practice": "x"},
        "practice must be one of this round's arms, got 'x'",
    ),
    "one name": ({"actions": np.eye(2), "practice": 0, "names": ["x"]}, "names must be 2 distinct names"),
    "names in no list": (
        {"actions": np.eye(2), "practice": 0, "names": 5},
        "^names must be .* in a list, got 5$",
    ),
    "ragged practice": (
        {"actions": np.eye(2), "practice": [[1, 2], [3]]},
        "^practice must be an array of numbers, got list$",
    ),
    "no recipe": ({"context": {"age": 1}, "practice": 0}, "this agent was started without features"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_wrong_question_is_refused_in_one_sentence(name: str) -> None:
    question, message = QUESTIONS[name]
    agent = agent_of()
    with pytest.raises(ValueError, match=message):
        agent.decide(**question)
    agent.decide(actions=np.eye(2), practice=[0.5, 0.5])  # and nothing is broken


def test_a_row_is_an_action_also_where_it_could_be_weights() -> None:
    assert agent_of().decide(actions=np.eye(2), practice=[[0.5, 0.5]]).practice == (0.5, 0.5)
    closed = agent_of(Gated(gate=Closed(), fallback="mixture"))
    decision = closed.decide(actions=np.eye(2), practice=[[0.3, 0.4]])
    assert (decision.arm, decision.action, decision.by_practice) == (None, (0.3, 0.4), True)


def test_a_decision_is_committed_in_its_round_and_rewarded_once() -> None:
    agent = agent_of()
    first = agent.decide(actions=np.eye(2), practice=0)
    with pytest.raises(ValueError, match="decision must be committed"):
        agent.observe(first, 0.5)
    agent.update(first, 0.5)
    with pytest.raises(ValueError, match="decision must be of round 2, got one of round 1"):
        agent.commit(first)
    with pytest.raises(ValueError, match="decision must be committed and await its reward"):
        agent.observe(first, 0.5)
    with pytest.raises(ValueError, match="decision must be a Decision, got int"):
        agent.commit(1)  # type: ignore[arg-type]
    second = agent.decide(actions=np.eye(2), practice=0)
    for reward in (np.nan, "much"):
        with pytest.raises(ValueError, match="reward must be"):
            agent.update(second, reward)  # type: ignore[arg-type]
    assert (agent.rounds, agent.rewards) == (1, 1)


def test_a_policy_is_started_with_what_fits() -> None:
    for start, message in (
        ({}, "d must be given"),
        ({"d": 0}, "d must be a whole number >= 1"),
        ({"offline": Offline.empty(2)}, "actions must be given with a log of fixed arms"),
        ({"offline": [1, 2]}, "offline must be a linoto.Moments or None"),
        ({"actions": np.eye(2), "offline": Offline.empty(2), "d": 2}, "d and features must be None"),
        ({"offline": Moments.empty(2), "d": 3}, "offline must have 3 features, got 2"),
        ({"features": Doubled(), "d": 3}, "d must be 2 like that of features"),
        ({"features": 5}, "features must have d and transform"),
        ({"d": 2, "rng": -1}, "rng must be a seed"),
    ):
        with pytest.raises(ValueError, match=message):
            LinUCB(scale=1.0).start(**start)
    rows = np.repeat(np.eye(2), 500, axis=0)
    with pytest.raises(ValueError, match="bound must be at least"):
        Gated(gate=Tolerance(budget=5, evidence="model"), confidence=SURE).start(
            Moments.from_rows(rows, 5 * np.ones(1000))
        )
