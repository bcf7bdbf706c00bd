"""What estimates of one target say of the propensities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest
from helpers.logged_rows import MEANS, TARGET, logged

import linoto
from linoto.core.features.columns import Category, Numeric
from linoto.core.features.recipe import Recipe
from linoto.logs.doubts import doubts_of, far_weights, too_often
from linoto.logs.estimates import Interval
from linoto.logs.evaluate import evaluate, ips
from linoto.logs.rows import Rows
from linoto.logs.wrong_propensities import Weighed

EVEN = np.full(3, 1 / 3)
LOOSE = Interval(level=0.5)


@pytest.mark.parametrize(
    "errors, told", [(0.0, False), (2.9, False), (-2.9, False), (3.2, True), (-4.5, True)]
)
def test_weights_that_hardly_average_1_are_told(errors: float, told: bool) -> None:
    """Ten thousand rows of two arms that both were called 1/2: weights average 1 + errors / 100."""
    n = 10_000
    played = round(n / 2 * (1 + errors / sqrt(n)))
    rows = Rows(arms=np.repeat([0, 1], [played, n - played]), rewards=np.ones(n), k=2, propensities="uniform")
    found = ips(rows, 0)
    assert found.weights_fit
    doubts = [text for text in doubts_of([found], rows) if "weights" in text]
    assert len(doubts) == told
    if told:
        assert f"weights average {1 + errors / 100:.3g} instead of 1, {abs(errors):.2g} standard" in doubts[0]


def test_weights_that_do_not_fit_are_told_once() -> None:
    """Beyond five standard errors nothing is enough, and that says why. Which arms are meant is told."""
    rows = Rows(arms=np.repeat([0, 1], [6000, 4000]), rewards=np.ones(10_000), k=2, propensities="uniform")
    found = ips(rows, 0)
    assert not found.weights_fit and not found.enough
    assert doubts_of([found], rows) == (
        "these were played more often than their propensities allow: 0; believe no estimate by them",
    )


def amounts(n: int, seed: int, *, level: float, played: Any = EVEN, more: float = 0.0) -> Rows:
    """Rewards around a level, `more` for each next arm; propensities say that all were as likely."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(3, size=n, p=played)
    return Rows(arms=arms, rewards=level + more * arms + rng.normal(size=n), k=3, propensities=EVEN[arms])


def test_methods_that_contradict_each_other_are_told() -> None:
    """`snips` divides by what weights are worth, `dr` adds what a model says: where arms were played in other
    shares than are said, they are about different mixtures."""
    rows = amounts(2000, 0, level=0.0, played=[0.5, 0.3, 0.2], more=2.0)
    found = evaluate(rows, [0.5, 0.0, 0.5])
    of = {each.method: each for each in found}
    assert of["snips"].high < of["dr"].low
    (text,) = [text for text in doubts_of(found, rows) if "do not meet" in text]
    assert text.startswith("the intervals of snips ([") and " and dr ([" in text
    loose = evaluate(rows, [0.5, 0.0, 0.5], interval=LOOSE)
    assert not any("meet" in text for text in doubts_of(loose, rows))


@pytest.mark.parametrize("level", [0.0, 10.0, 1000.0])
def test_a_sound_log_of_amounts_raises_few_doubts(level: float) -> None:
    """Mean weights beyond three standard errors: one in 370; of 100 logs 5 or more with probability 1e-5
    (tests of the rows themselves add one in 1,000).
    Of intervals that do not meet there was none in 1,200 such logs."""
    told = []
    for seed in range(100):
        rows = amounts(600, seed, level=level)
        told.append(doubts_of(evaluate(rows, [0.0, 0.5, 0.5]), rows))
    assert sum(map(bool, told)) <= 4 and not any("meet" in text for texts in told for text in texts)


def test_a_sound_log_of_clicks_raises_few_doubts() -> None:
    """The same of 200 logs: 7 or more with probability 1e-5."""
    logs = [logged(400, seed) for seed in range(200)]
    assert sum(bool(doubts_of(evaluate(rows, TARGET), rows)) for rows in logs) <= 6


@pytest.mark.parametrize("k, n, digits", [(7, 100_000, 10), (6, 1_000_000, 16)])
def test_weights_that_are_1_but_for_rounding_are_1(k: int, n: int, digits: int) -> None:
    arms = np.random.default_rng(0).integers(0, k, n)
    rows = Rows(arms=arms, rewards=np.ones(n), k=k, propensities=np.full(n, round(1 / k, digits)))
    assert doubts_of([ips(rows, np.full(k, 1 / k))], rows) == ()


# -- by the rows themselves


def visits(n: int, seed: int, *, follows: bool = False, told: bool = True, offered: bool = False) -> Rows:
    """Rows with an income of heavy tails, a city (some are rare) and a day; arms may follow the income.

    Told are propensities as they were, or the shares of the arms over all rows.
    """
    rng = np.random.default_rng(seed)
    income = rng.lognormal(sigma=2.0, size=n)
    city = rng.choice(["rome", "oslo", "lima", "bern"], size=n, p=[0.6, 0.38, 0.019, 0.001])
    day = np.datetime64("2026-01-01") + np.arange(n)
    scores = np.outer(np.argsort(np.argsort(income)) / n - 0.5, [2.0, 0.0, -1.0]) * follows
    scores[:, 0] += 2.0 * (city == "lima")
    candidates = rng.random((n, 3)) < 0.7 if offered else np.ones((n, 3), bool)
    candidates[:, 1] |= ~candidates.any(axis=1)
    shares = np.exp(scores) * candidates
    shares /= shares.sum(axis=1, keepdims=True)
    arms = (rng.random((n, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    said = shares if told else np.broadcast_to(np.bincount(arms, minlength=3) / n, (n, 3))
    columns = Numeric(name="income"), Category(name="city", levels=("rome", "oslo"))
    recipe = Recipe(items=("a", "b", "c"), context=columns)
    return Rows(
        arms=arms,
        rewards=rng.normal(size=n),
        k=3,
        propensities=said[np.arange(n), arms],
        recipe=recipe,
        context={"income": income, "city": city, "day": day},
        candidates=candidates if offered else None,
    )


def sound(logs: int, *, offered: bool) -> Iterator[Rows]:
    return (visits(600, seed, follows=bool(seed % 2), offered=offered) for seed in range(logs))


@pytest.mark.parametrize("offered", [False, True])
def test_propensities_that_know_the_context_are_seldom_doubted(offered: bool) -> None:
    """A false alarm in one log of 1,000; of 150 two or more with probability 0.01."""
    told = [too_often(rows) for rows in sound(150, offered=offered)]
    assert sum(map(bool, told)) <= 1, told


def test_arms_that_follow_what_propensities_do_not_know_are_found_by_the_field() -> None:
    """Their shares over all rows are right, so every weight is 1 on average."""
    for seed in range(20):
        texts = too_often(visits(1500, seed, follows=True, told=False))
        assert any("in rows with some values of 'income': a" in text for text in texts)
        assert not any("'day'" in text or "allow:" in text for text in texts)


def test_one_share_for_every_arm_is_refuted_arm_by_arm() -> None:
    """A target may give each wrong share its right weight on average: then no weight tells."""
    rng = np.random.default_rng(0)
    arms = rng.choice(5, size=3000, p=[0.05, 0.2, 0.5, 0.2, 0.05])
    rows = Rows(arms=arms, rewards=rng.normal(size=3000), k=5, propensities="uniform")
    found = evaluate(rows, [0.1, 0.1, 0.2, 0.3, 0.3])
    assert not far_weights(found, "")
    (text,) = too_often(rows)
    assert text == (
        "these were played more often than their propensities allow: 2; believe no estimate by them"
    )
    assert text in doubts_of(found, rows)


def test_an_arm_that_could_not_be_played_everywhere_is_no_doubt() -> None:
    """Its sum is too small, and that refutes no propensity: whoever decided never had it in those rows."""
    rows = visits(3000, 0, offered=True)
    assert not too_often(rows) and not too_often(replace(rows, candidates=None))
    income = np.random.default_rng(1).normal(size=3000)
    always = Rows(
        arms=(income > 0).astype(int),
        rewards=income,
        k=2,
        propensities=np.ones(3000),
        recipe=Recipe(items=("a", "b"), context=(Numeric(name="income"),)),
        context={"income": income},
    )
    assert not too_often(always)


@pytest.mark.parametrize(
    "policy", [linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Control(budget=20.0)), linoto.RandUCB()]
)
def test_what_our_own_policies_write_down_is_no_doubt(policy: Any) -> None:
    """A gate that is shut, and arms that are given up: chances of 0 that no row shows."""
    rng = np.random.default_rng(0)
    for seed in range(4):
        range_of = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
        agent = replace(policy, confidence=range_of).start(
            linoto.one_hot(3), logged(200, seed).offline, rng=seed
        )
        arms, rewards, propensities = [], [], []
        for _ in range(1500):
            decision = agent.decide()
            propensities.append(agent.propensity(decision.arm))
            rewards.append(float(rng.random() < MEANS[decision.arm]))
            agent.update(decision, rewards[-1])
            arms.append(decision.arm)
        rows = Rows(
            arms=np.array(arms),
            rewards=np.array(rewards),
            k=3,
            propensities=np.array(propensities),
            recipe=Recipe(items=tuple("abc"), context=(Numeric(name="round"),)),
            context={"round": np.arange(1500.0)},
        )
        assert not too_often(rows)


def test_rows_of_one_context_and_rows_without_propensities_say_nothing() -> None:
    rows = visits(50, 0)
    same = replace(rows, context={"income": np.ones(50), "city": np.full(50, "rome")})
    assert not too_often(same) and not too_often(replace(rows, propensities=None))


def test_a_text_of_many_values_is_no_doubt_and_a_long_one_takes_no_memory() -> None:
    """Of a value that an arm was never played in, nothing is known of the variance."""
    rng = np.random.default_rng(0)
    n, levels = 20_000, 400
    cities = np.array([f"city{i}" for i in range(levels)], dtype=object)[rng.integers(0, levels, n)]
    cities[0], cities[1], cities[2] = "x" * 1_000_000, None, ["a", "list"]
    arms = rng.integers(0, 10, n)
    rows = Rows(
        arms=arms,
        rewards=rng.normal(size=n),
        k=10,
        propensities="uniform",
        recipe=Recipe(items=tuple("abcdefghij"), context=(Category(name="city", levels=("city0",)),)),
        context={"city": cities},
    )
    assert not too_often(rows)
    common = np.where(rng.random(n) < 0.3, np.where(arms < 5, "left", "right"), "elsewhere")
    (text,) = too_often(replace(rows, context={"city": common}))
    assert "some values of 'city': a, b, c, d, e, f, g, h and 2 more" in text


def test_a_field_is_weighed_as_it_is_written_down() -> None:
    """The deviations by their definition, one arm and one feature at a time."""
    rows = visits(6000, 1, follows=True, offered=True)
    weights = 1 / np.asarray(rows.propensities)
    found = {field: Weighed.of(rows).of_field(values) for field, values in rows.context.items()}
    ranks = (np.argsort(np.argsort(rows.context["income"])) + 0.5) / len(rows)
    cities = rows.context["city"]
    first = list(dict.fromkeys(cities.tolist()))
    order = sorted(("rome", "oslo"), key=first.index)  # as they come; the rare ones are too few
    assert found["income"].shape == (2, 3) and found["city"].shape == (2, 3)
    assert rows.candidates is not None and sum(np.isfinite(each).sum() for each in found.values()) > 5
    features = {"income": (ranks, 1 - ranks), "city": tuple((cities == each).astype(float) for each in order)}
    for field, each in features.items():
        for place, g in enumerate(each):
            for arm in range(3):
                played = rows.arms == arm
                off = (weights * played - rows.candidates[:, arm]) @ g
                by_hand = off / sqrt((played * weights * (weights - 1)) @ g**2)
                assert found[field][place, arm] in (
                    pytest.approx(by_hand),
                    pytest.approx(np.nan, nan_ok=True),
                )
