"""A policy that plays what is done today, replayed in rows with contexts: as if it had been online."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.selection import sizes

from linoto import (
    Category,
    Closed,
    Confidence,
    Control,
    Gated,
    Guardrail,
    LinUCB,
    Recipe,
    Rows,
    Tolerance,
    evaluate,
    learn_policy,
)

ITEMS, COUNTRIES = ("A", "B", "C"), ("DE", "NO")
RECIPE = Recipe(
    items=ITEMS, context=(Category(name="country", levels=COUNTRIES),), crosses=(("item", "country"),)
)
CLICKED = np.array([[0.3, 0.6, 0.2], [0.3, 0.1, 0.7]])  # by country
COMPLAINED = np.array([[0.05, 0.3, 0.05], [0.05, 0.05, 0.1]])
CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
RAIL = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=15, mean=0.05)
PRACTICE = {"A": 3.0, "C": 1.0}


def policy(**other: Any) -> Gated:
    options: dict[str, Any] = {"gate": Control(budget=12), "explorer": LinUCB(scale=0.25)}
    return Gated(**{"confidence": CLICKS, **options, **other})


def logged(rows: int, rng: np.random.Generator, chances: Any = (0.2, 0.3, 0.5)) -> Rows:
    countries, arms = rng.integers(2, size=rows), rng.choice(3, rows, p=chances)
    return Rows(
        arms=arms,
        rewards=(rng.random(rows) < CLICKED[countries, arms]).astype(float),
        k=3,
        names=ITEMS,
        ids=np.arange(rows).astype(str),
        propensities=np.array(chances)[arms],
        recipe=RECIPE,
        context={"country": np.array(COUNTRIES)[countries]},
        metrics={"complaints": (rng.random(rows) < COMPLAINED[countries, arms]).astype(float)},
    )


def online(chosen: Gated, rounds: int, seed: int) -> tuple[float, float]:
    """What it earns, and has of the metric, if it is really asked."""
    rng, agent = np.random.default_rng([seed, 1]), chosen.start(d=RECIPE.d, features=RECIPE, rng=seed)
    found = np.zeros(2)
    for _ in range(rounds):
        country = int(rng.integers(2))
        decision = agent.decide(context={"country": COUNTRIES[country]}, practice=[0.75, 0.0, 0.25])
        arm = ITEMS.index(str(decision.name))
        reward, value = (float(rng.random() < table[country, arm]) for table in (CLICKED, COMPLAINED))
        agent.update(decision, reward, metrics={"complaints": value} if chosen.guardrails else None)
        found += reward, value
    return found[0] / rounds, found[1] / rounds


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("runs", sizes(4, 200))
def test_replay_earns_what_the_policy_earns_online(runs: int, guarded: bool) -> None:
    """Within 5 standard errors: false alarm 6e-7 for normal differences, 2 % for the t of 4 quick runs."""
    chosen, differences = policy(guardrails=[RAIL] if guarded else []), []
    for seed in range(runs):
        rows = logged(150, np.random.default_rng(seed))
        reward, metric = evaluate(rows, chosen, practice=PRACTICE, seed=seed)
        earned = online(chosen, reward.used, 1000 + seed)
        differences.append((reward.value - earned[0], metric.value - earned[1]))
    error = np.std(differences, axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs(np.mean(differences, axis=0)) <= 5 * error).all(), np.mean(differences, axis=0) / error


def test_behind_a_closed_gate_practice_is_judged() -> None:
    """What is safe is all that is played: rows that show it, by rejection as likely as any."""
    rows = logged(2000, np.random.default_rng(0), (1 / 3, 1 / 3, 1 / 3))
    closed = policy(gate=Closed(), fallback="mixture")
    found = evaluate(rows, closed, practice={"B": 1.0}, seed=1)[0]
    assert found.value == pytest.approx(rows.rewards[rows.arms == 1].mean()) and found.used > 500


def test_a_tolerance_by_the_model_is_replayed_too() -> None:
    rows = logged(400, np.random.default_rng(3))
    warm, rest = rows.take(np.arange(200)), rows.take(np.arange(200, 400))
    by_model = policy(gate=Tolerance(budget=20.0, evidence="model"))
    assert evaluate(rest, by_model, warm_start=warm, practice=PRACTICE)[0].used > 10


@pytest.mark.parametrize(
    "target, practice, message",
    [
        (policy(), None, "practice must be given to replay a policy that plays it, got None"),
        (policy(), {"D": 1.0}, "practice must be weights of the arms of the rows, got 'D'"),
        (0, PRACTICE, "practice must be None for a target that does not learn"),
    ],
)
def test_what_rows_cannot_tell_is_refused(target: Any, practice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(logged(50, np.random.default_rng(0)), target, practice=practice)


def test_practice_must_be_on_offer_in_every_row() -> None:
    rows = logged(50, np.random.default_rng(0))
    offers = np.ones((50, 3), np.bool_)
    offers[7, 0] = rows.arms[7] == 0
    some = Rows(**{**vars(rows), "candidates": offers})
    if rows.arms[7] != 0:
        with pytest.raises(
            ValueError, match="practice must have an arm on offer in every row, got none in row 7"
        ):
            evaluate(some, policy(), practice={"A": 1.0})


def test_a_function_that_always_answers_the_same_is_these_weights() -> None:
    rows = logged(600, np.random.default_rng(7))
    for weights, answer in ((PRACTICE, PRACTICE), ({"B": 1.0}, "B")):
        known = evaluate(rows, policy(), practice=weights, seed=3)
        assert evaluate(rows, policy(), practice=lambda _, arms, answer=answer: answer, seed=3) == known


def test_what_was_learnt_from_other_rows_may_be_practice() -> None:
    rows = logged(1500, np.random.default_rng(8))
    warm, rest = rows.take(np.arange(500)), rows.take(np.arange(500, 1500))
    best = learn_policy(warm)
    closed = policy(gate=Closed(), fallback="mixture")
    played = evaluate(rest, closed, practice=best, seed=1)[0]
    assert played.value == pytest.approx(evaluate(rest, best, methods=["snips"])[0].value, abs=0.05)
    with pytest.raises(ValueError, match="practice was learnt from"):
        evaluate(rows, closed, practice=best)


@pytest.mark.parametrize(
    ("practice", "message"),
    [
        (3, "practice must be weights of arms by name, or a function"),
        (lambda context, arms: 1, "practice must be weights of arms by name, or a function"),
        (lambda context, arms: "D", "practice must be weights of the arms of the rows, got 'D'"),
    ],
)
def test_practice_must_answer_arms_of_the_rows(practice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(logged(50, np.random.default_rng(0)), policy(), practice=practice)
