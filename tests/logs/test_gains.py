"""What a target earns beyond a baseline: the difference of both values, surer than two intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.logged_rows import logged

from linoto import (
    Confidence,
    Control,
    Gated,
    LinUCB,
    Numeric,
    Recipe,
    Rows,
    evaluate,
    learn_policy,
)
from linoto.logs.doubts import doubts_of
from linoto.logs.estimates import Estimate, Interval, Weighted
from linoto.logs.fits import Fitted
from linoto.logs.gains import Pair
from linoto.logs.row_kinds import kind_of
from linoto.logs.rows import split

MIXTURE = [0.2, 0.3, 0.5]
CHANCES = np.array([0.5, 0.3, 0.2])


def by_method(found: list[Estimate], metric: str = "") -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """What was said of the target alone, and beyond its baseline."""
    ours = [one for one in found if one.metric == metric]
    return {one.method: one for one in ours if not one.beyond}, {
        one.method: one for one in ours if one.beyond
    }


@pytest.mark.parametrize("model", [None, [0.3, 0.5, 0.1]])
def test_a_gain_is_the_difference_of_both_values(model: Any) -> None:
    rows = logged(400, seed=3)
    wide = Interval(reward_range=(-5, 5))  # no value is at an end of it
    found = evaluate(rows, MIXTURE, baseline=1, model=model, interval=wide)
    alone, gains = by_method(found)
    other, _ = by_method(evaluate(rows, 1, model=model, interval=wide))
    assert list(gains) == ["ips", "dr"]
    for method, gain in gains.items():
        assert gain.value == pytest.approx(alone[method].value - other[method].value)
        assert gain.beyond == "arm 1"
        assert gain.low < gain.value < gain.high
    assert alone == by_method(evaluate(rows, MIXTURE, model=model, interval=wide))[0]


def test_beyond_what_was_logged_every_row_counts_as_it_is() -> None:
    rows = logged(400, seed=4)
    alone, gains = by_method(evaluate(rows, MIXTURE, baseline="logged"))
    for method, gain in gains.items():
        assert gain.value == pytest.approx(alone[method].value - rows.rewards.mean())
        assert gain.beyond == "what was logged"
        assert gain.to_dict()["beyond"] == "what was logged"
        assert "beyond" not in alone[method].to_dict()


def test_swapping_both_turns_the_interval_around() -> None:
    rows = logged(300, seed=5)
    _, forth = by_method(evaluate(rows, MIXTURE, baseline=[0.6, 0.2, 0.2]))
    _, back = by_method(evaluate(rows, [0.6, 0.2, 0.2], baseline=MIXTURE))
    for method, gain in forth.items():
        assert (gain.low, gain.high) == pytest.approx((-back[method].high, -back[method].low), abs=1e-9)


def test_a_difference_is_surer_than_two_intervals() -> None:
    rows = logged(1000, seed=6)
    alike = [0.25, 0.25, 0.5]
    alone, gains = by_method(evaluate(rows, MIXTURE, baseline=alike))
    other, _ = by_method(evaluate(rows, alike))
    for method, gain in gains.items():
        side_by_side = alone[method].high - alone[method].low + other[method].high - other[method].low
        assert gain.high - gain.low < side_by_side / 4


@pytest.mark.parametrize("seed", range(20))
def test_no_row_leaves_the_limits_of_a_term(seed: int) -> None:
    """Whatever was played and earned, and whatever the model says of it."""
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.normal(size=2).tolist())
    n, chances = 60, rng.dirichlet(np.ones(3)) * 0.7 + 0.1
    arms = np.concatenate((np.arange(3), rng.choice(3, size=n - 3, p=chances)))
    ends = rng.choice([low, high], size=n)
    rows = Rows(arms=arms, rewards=ends, k=3, propensities=chances[arms])
    model = rng.choice([low, high, (low + high) / 2], size=(n, 3))
    fitted = Fitted(rows=rows, parts=[np.arange(n)], predicted=[model])
    interval = Interval(reward_range=(low, high))
    targets = rng.dirichlet(np.ones(3) / 3, size=2) * 0.999 + 0.001 / 3
    mine, other = (Weighted.of(rows, target, "a gain", interval) for target in targets)
    for base in (other, None):
        pair = Pair(mine=mine, other=base, beyond="", learnt="")
        others = rows.rewards if base is None else fitted.corrected(base.target, base.weights)
        terms = fitted.corrected(mine.target, mine.weights) - others
        least, largest = pair.limits_by(fitted)
        assert least <= terms.min() <= terms.max() <= largest
        pair.by_weights()  # its interval refuses terms beyond its limits
        pair.by_model(fitted, proven=True)


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.few(30)
def test_terms_at_their_limits_are_no_error(seed: int) -> None:
    """The same numbers added in another order may be a last digit beyond them."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    chances, model = rng.dirichlet(np.ones(k)), rng.random(k).round(1)
    arms, rewards = np.tile(np.arange(k), 10), np.repeat([1.0, 0.0], 5 * k)
    rows = Rows(arms=arms, rewards=rewards, k=k, propensities=chances[arms])
    evaluate(rows, 0, baseline=1, model=model, methods=["dr"])
    mixture = rng.random(k)
    constant = replace(rows, rewards=np.ones(10 * k), propensities=np.full(10 * k, 1 / k))
    evaluate(constant, mixture / mixture.sum(), methods=["ips", "dr"], model=model)


@pytest.mark.parametrize("kind", ["hoeffding", "bernstein", "auto"])
def test_every_interval_that_holds_knows_arms_that_no_row_shows(kind: Any) -> None:
    """The third arm always earns 1 and was never logged: the gain is .25, in each of 20 logs."""
    rng = np.random.default_rng(16)
    for _ in range(20):
        rewards = (rng.random(500) < 0.5).astype(float)
        rows = Rows(arms=rng.integers(2, size=500), rewards=rewards, k=3, propensities=np.full(500, 0.5))
        interval = Interval(kind=kind, reward_range=(0, 1), level=0.99)
        _, gains = by_method(evaluate(rows, [0.5, 0, 0.5], baseline=0, methods=["ips"], interval=interval))
        assert gains["ips"].low <= 0.25 <= gains["ips"].high


def test_a_logger_that_stops_when_it_is_ahead_misleads_nobody() -> None:
    """What was logged depends on what was earned. 100 logs at level .8; one false alarm in a million."""
    rng, misses = np.random.default_rng(17), 0
    for _ in range(100):
        arms, rewards, chances, value = [], [], [], []
        ahead = 0.0
        for _ in range(120):
            share = 0.9 if ahead > 3 else 0.5  # of the worse arm, from there on
            arm = int(rng.random() > share)
            reward = float(rng.random() < (0.3, 0.7)[arm])
            ahead += reward - 0.5
            for values, one in ((arms, arm), (rewards, reward), (chances, (share, 1 - share)[arm])):
                values.append(one)
            value.append(share * 0.3 + (1 - share) * 0.7)
        rows = Rows(arms=np.array(arms), rewards=np.array(rewards), k=2, propensities=np.array(chances))
        options: dict[str, Any] = {"interval": Interval(level=0.8), "methods": ["ips"]}
        _, gains = by_method(evaluate(rows, 1, baseline="logged", **options))
        misses += not gains["ips"].low <= 0.7 - np.mean(value) <= gains["ips"].high
    assert misses <= most(100, 0.2)


def test_intervals_of_gains_hold_the_truth() -> None:
    """At level 0.8 in 150 logs of rare clicks: a false alarm in one of a million for each method."""
    rng, rates = np.random.default_rng(7), np.array([0.02, 0.05, 0.1])
    truth = {"logged": float((MIXTURE - CHANCES) @ rates), "arm": float(MIXTURE @ rates - rates[0])}
    misses = dict.fromkeys(("ips", "dr", "ips logged", "dr logged"), 0)
    for _ in range(150):
        arms = rng.choice(3, size=300, p=CHANCES)
        clicks = (rng.random(300) < rates[arms]).astype(float)
        rows = Rows(arms=arms, rewards=clicks, k=3, propensities=CHANCES[arms])
        for baseline, name in ((0, "arm"), ("logged", "logged")):
            options: dict[str, Any] = {"baseline": baseline, "interval": Interval(level=0.8)}
            _, gains = by_method(evaluate(rows, MIXTURE, **options))
            for method, gain in gains.items():
                label = method if name == "arm" else f"{method} logged"
                misses[label] += not gain.low <= truth[name] <= gain.high
    assert max(misses.values()) <= most(150, 0.2), misses


def test_what_is_learnt_block_by_block_is_compared_on_the_rows_after_the_first() -> None:
    rows = logged(500, seed=8)
    alone, gains = by_method(evaluate(rows, "greedy", baseline="logged"))
    later = rows.rewards[100:]
    assert gains["ips"].rows == 400
    assert gains["dr"].learnt == alone["dr"].learnt != ""
    assert gains["ips"].interval == "anytime"
    assert gains["ips"].value == pytest.approx(alone["ips"].value - later.mean())
    _, gains = by_method(evaluate(rows, 2, baseline="doubly robust"))
    taught, _ = by_method(evaluate(rows, "doubly robust"))
    last = rows.take(np.arange(100, 500))
    fixed, _ = by_method(evaluate(last, 2))
    assert gains["ips"].value == pytest.approx(fixed["ips"].value - taught["ips"].value)
    assert gains["ips"].beyond == "what is learnt (doubly robust)"


def test_a_learnt_policy_is_a_baseline_of_other_rows() -> None:
    rng = np.random.default_rng(9)
    age, arms = rng.uniform(-1, 1, 1200), rng.integers(2, size=1200)
    clicks = (rng.random(1200) < 0.5 + 0.4 * np.where(arms == 1, age, -age)).astype(float)
    recipe = Recipe(items=("A", "B"), context=(Numeric(name="age"),), crosses=(("item", "age"),))
    known: dict[str, Any] = {"recipe": recipe, "context": {"age": age}, "ids": np.arange(1200)}
    rows = Rows(arms=arms, rewards=clicks, k=2, propensities="uniform", **known)
    taught, held_out = split(rows)
    policy = learn_policy(taught)
    _, gains = by_method(evaluate(held_out, "A", baseline=policy))
    assert gains["dr"].high < 0  # it earns .2 more than A
    assert gains["dr"].learnt.startswith("baseline: pessimistic, from ")
    with pytest.raises(ValueError, match="rows must not be among those"):
        evaluate(rows, "A", baseline=policy)


def test_a_metric_has_a_gain_too() -> None:
    rows = logged(400, seed=10)
    cost = np.where(np.arange(400) % 7 == 0, np.nan, 2.0 * rows.rewards)
    found = evaluate(replace(rows, metrics={"cost": cost}), MIXTURE, baseline="logged")
    alone, gains = by_method(found, "cost")
    assert list(gains) == ["ips"]
    assert gains["ips"].value == pytest.approx(alone["ips"].value - np.nanmean(cost))
    assert "missing" in gains["ips"].holds


@pytest.mark.parametrize("alike", [[0.0, 1.0, 0.0], lambda context, arms: [0.0, 1.0, 0.0], 1])
def test_the_same_plays_have_no_gain(alike: Any) -> None:
    rows = logged(400, seed=11)
    _, gains = by_method(evaluate(rows, lambda context, arms: [0.0, 1.0, 0.0], baseline=alike))
    for gain in gains.values():
        assert (gain.low, gain.value, gain.high, gain.enough) == (0, 0, 0, True)
    assert gains["ips"].beyond == ("arm 1" if alike == 1 else "the baseline")


def test_other_plays_that_no_row_tells_apart_are_not_the_same() -> None:
    """Both play an arm that no row shows with probability .5, but not the same one."""
    rng = np.random.default_rng(15)
    rows = Rows(arms=rng.integers(2, size=300), rewards=np.ones(300), k=4, propensities=np.full(300, 0.5))
    _, gains = by_method(evaluate(rows, [0.5, 0, 0.5, 0], baseline=[0.5, 0, 0, 0.5]))
    for gain in gains.values():
        assert gain.effective == 0 and not gain.enough
        assert gain.low <= -0.5 and gain.high >= 0.5


def test_weights_that_do_not_fit_the_baseline_are_told() -> None:
    rows = logged(2000, seed=12)
    wrong = replace(rows, propensities=np.where(rows.arms == 1, 0.9, np.asarray(rows.propensities)))
    _, gains = by_method(evaluate(wrong, 2, baseline=1))
    assert not gains["ips"].weights_fit
    assert not gains["dr"].enough
    assert "weights average" in gains["dr"].reason


def test_arms_that_no_row_shows_may_earn_anything() -> None:
    rng = np.random.default_rng(13)
    arms = rng.integers(2, size=400)
    rows = Rows(arms=arms, rewards=(rng.random(400) < 0.5) * 1.0, k=3, propensities=np.full(400, 0.5))
    _, gains = by_method(evaluate(rows, 0, baseline=[0.5, 0.0, 0.5]))
    known, _ = by_method(evaluate(rows, 0, baseline=[0.5, 0.5, 0.0])), None
    for method, gain in gains.items():
        assert gain.unseen == 0.5
        assert gain.high - gain.low > known[1][method].high - known[1][method].low + 0.4


def test_a_baseline_whose_weights_are_hardly_1_is_doubted() -> None:
    rng = np.random.default_rng(18)
    arms = np.concatenate((np.zeros(890, np.int64), rng.integers(1, 10, size=9110)))
    rows = Rows(arms=arms, rewards=(rng.random(10_000) < 0.3) * 1.0, k=10, propensities="uniform")
    found = evaluate(rows, 5, baseline=0)
    told = [text for text in doubts_of(found, rows) if "of the baseline: weights average 0.89" in text]
    assert len(told) == 1
    assert not any("baseline" in text for text in doubts_of(evaluate(rows, 5), rows))


def test_an_agent_that_plays_what_is_done_today_can_be_a_baseline() -> None:
    rng = np.random.default_rng(19)
    age, arms = rng.uniform(-1, 1, 400), rng.integers(2, size=400)
    clicks = (rng.random(400) < 0.5 + 0.4 * np.where(arms == 1, age, -age)).astype(float)
    recipe = Recipe(items=("A", "B"), context=(Numeric(name="age"),), crosses=(("item", "age"),))
    known: dict[str, Any] = {"recipe": recipe, "context": {"age": age}, "names": ["A", "B"]}
    rows = Rows(arms=arms, rewards=clicks, k=2, propensities="uniform", **known)
    clicked = Confidence(noise="bounded", reward_range=(0, 1))
    agent = Gated(gate=Control(budget=20), confidence=clicked).start(
        kind_of(rows).moments, features=recipe, rng=0
    )
    for target, baseline in (("A", agent), (agent, "A")):
        _, gains = by_method(evaluate(rows, target, baseline=baseline, practice={"B": 1.0}))
        assert gains["dr"].used == 400
    with pytest.raises(ValueError, match="practice must be None for a target that does not learn or decide"):
        evaluate(rows, "A", baseline="B", practice={"B": 1.0})


def test_a_function_is_asked_once_in_a_row() -> None:
    rows, asked = logged(100, seed=20), []

    def draws(context: Any, arms: Any) -> Any:
        asked.append(context)
        return np.eye(3)[len(asked) % 3]

    alone, gains = by_method(evaluate(rows, draws, baseline="logged"))
    assert len(asked) == 100
    assert gains["ips"].value == pytest.approx(alone["ips"].value - rows.rewards.mean())


@pytest.mark.parametrize("word", ["logged", "greedy", "pessimistic"])
def test_a_word_that_is_an_arm_too_is_refused(word: str) -> None:
    rows = replace(logged(100, seed=21), names=(word, "B", "C"))
    with pytest.raises(ValueError, match="baseline must be clear"):
        evaluate(rows, "B", baseline=word)
    _, gains = by_method(evaluate(rows, "B", baseline={word: 1}))
    assert gains["ips"].beyond == f"arm {word!r}"
    if word != "logged":
        with pytest.raises(ValueError, match="target must be clear"):
            evaluate(rows, word)


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (
            "greedy",
            {"baseline": 1, "interval": Interval(kind="bernstein", reward_range=(0, 1)), "methods": ["ips"]},
            "bernstein",
        ),
        (LinUCB(), {"baseline": 1}, "baseline must be None for a policy that learns as it plays"),
        (1, {"baseline": LinUCB()}, "got LinUCB, which learns as it plays"),
        (1, {"baseline": 7}, r"baseline must be an arm in \[0, 2\], got 7|baseline .* got 7"),
        (1, {"baseline": [0.5, 0.2]}, "baseline must have shape"),
        (1, {"baseline": "D"}, "names must be given where a baseline plays"),
        (1, {"baseline": 0, "methods": ["snips"]}, "methods must have ips or dr for a baseline, got snips"),
    ],
)
def test_what_has_no_difference_row_by_row_is_refused(target: Any, options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluate(logged(100, seed=14), target, **options)
