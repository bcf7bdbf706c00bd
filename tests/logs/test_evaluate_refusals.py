"""What offline evaluation needs, and the sentence for whatever is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.logged_rows import ALL, TARGET, logged

from linoto import Control, Guard, LinUCB, Offline, read_log, read_rows
from linoto.logs.evaluate import Interval, doubly_robust, evaluate, ips, replay, snips
from linoto.logs.rows import Rows, split

LOG = Offline(pulls=[9, 9, 9], reward_sums=[3.0, 4.0, 5.0])
GUARD = Guard(LOG, gate=Control(budget=9), reward_range=(0, 1), noise="bounded", rng=0)


@pytest.mark.parametrize("method", ALL)
def test_every_method_says_that_it_needs_propensities(method: Any) -> None:
    rows = Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2)
    name = {"doubly_robust": "dr"}.get(method.__name__, method.__name__)
    with pytest.raises(ValueError, match=f"propensities must be given for {name}"):
        method(rows, [0.5, 0.5])


def test_wrong_propensities_are_given_away_by_their_weights() -> None:
    rows = logged(2000, seed=19)
    assert all(found.weights_fit for found in evaluate(rows, TARGET))
    wrong = Rows(arms=rows.arms, rewards=rows.rewards, k=3, propensities="uniform")
    assert not any(found.weights_fit for found in evaluate(wrong, TARGET))


def test_an_interval_beyond_the_range_of_rewards_says_nothing() -> None:
    """Prices from 90 to 110 of an arm that was drawn in three tenths of rows; said is a fourth."""
    rng = np.random.default_rng(0)
    arms = (rng.random(20_000) > 0.3).astype(int)
    rows = Rows(
        arms=arms, rewards=rng.uniform(90, 110, arms.size), k=2, propensities=np.array([0.25, 0.75])[arms]
    )
    found = evaluate(rows, 0, methods=["ips"], interval=Interval(reward_range=(90, 110)))[0]
    assert (found.low, found.high, found.enough) == (90, 110, False)
    assert found.reason.startswith("cannot tell: its interval, [")
    assert found.reason.endswith("], is beyond the range of rewards, [90, 110]")


def test_a_target_that_plays_elsewhere_what_a_row_shows_is_refused() -> None:
    rows = Rows(arms=[0, 1] * 20, rewards=[1.0, 0.0] * 20, k=2, propensities="uniform")
    with pytest.raises(ValueError, match="rows must show at least one arm that the target plays there"):
        ips(rows, np.array([[0.0, 1.0], [1.0, 0.0]] * 20))


def test_a_target_on_arms_that_no_row_shows_says_so() -> None:
    rows = Rows(arms=[0, 1, 0, 1], rewards=[0.0, 1.0, 1.0, 0.0], k=3, propensities=[0.5] * 4)
    assert ips(rows, [0.2, 0.2, 0.6]).unseen == pytest.approx(0.6)
    with pytest.raises(ValueError, match="rows must show at least one arm that the target plays"):
        ips(rows, 2)


@pytest.mark.parametrize("propensity", [1.0, 0.5])
def test_a_target_that_no_row_shows_is_refused_with_what_they_do_show(propensity: float) -> None:
    rows = Rows(arms=[2, 1, 2], rewards=[0.0, 1.0, 0.0], k=4, propensities=[propensity] * 3)
    shown = r"got none: they show arm 2 \(2 times\), arm 1 \(1 times\)"
    advice = "; every propensity is 1: only what was logged" if propensity == 1 else "$"
    with pytest.raises(ValueError, match=shown + advice):
        snips(rows, 0)


def test_a_policy_that_waits_for_an_arm_nobody_logged_is_refused() -> None:
    rows = Rows(arms=[0] * 50, rewards=[0.1] * 50, k=2, propensities=[1.0] * 50)
    with pytest.raises(ValueError, match="got none of arm 1, which it waits for"):
        replay(rows, LinUCB(), actions=np.eye(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": [0, 2]}, r"arms must be in \[0, 2\), got 2"),
        ({"arms": []}, "arms must hold at least one row"),
        ({"rewards": [1.0]}, "rewards must have one entry for each of the 2 rows"),
        ({"rewards": [1.0, np.nan]}, "rewards must be finite"),
        ({"propensities": [0.5, 0.0]}, r"propensities must be in \(0, 1\], got 0 in row 1"),
        ({"propensities": [0.5, 1.5]}, r"propensities must be in \(0, 1\], got 1.5 in row 1"),
        ({"propensities": "even"}, "propensities must be one of 'uniform', got 'even'"),
        ({"ids": [1]}, "ids must have one entry for each of the 2 rows"),
        ({"ids": ["a", "a"]}, "ids must differ from row to row, got 'a' twice"),
        ({"k": 0}, "k must be a whole number >= 1"),
    ],
)
def test_bad_rows_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rows(**{"arms": [0, 1], "rewards": [1.0, 0.0], "k": 2, **change})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([0.5, 0.6, 0.0], "target must be probabilities that sum to 1"),
        ([1.5, -0.5, 0.0], "target must be probabilities, none below 0, got -0.5"),
        ([0.5, 0.5], r"target must have shape \(3,\), got \(2,\)"),
        (np.ones((2, 3)) / 3, r"target must have shape \(50, 3\), got \(2, 3\)"),
        (7, r"target must be in \[0, 3\), got 7"),
        (LinUCB(), "target must be an arm or probabilities for ips: a policy needs replay"),
    ],
)
def test_bad_targets_are_named(target: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ips(logged(50, seed=20), target)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: Interval(kind="exact"), "kind must be one of 'auto', 'normal', 'bernstein'"),  # type: ignore[arg-type]
        (lambda r: Interval(level=1.0), r"level must be in \(0, 1\), got 1.0"),
        (lambda r: Interval(kind="bernstein"), "reward_range must be given for a bernstein interval"),
        (
            lambda r: ips(r, TARGET, interval=Interval(reward_range=(0, 0.5))),
            "rewards must be in reward_range",
        ),
        (
            lambda r: snips(r, TARGET, interval=Interval(kind="hoeffding", reward_range=(0, 1))),
            "interval must be auto or normal for snips",
        ),
        (
            lambda r: doubly_robust(r, TARGET, interval=Interval(kind="bernstein", reward_range=(0, 1))),
            "model must be given for a bernstein interval",
        ),
        (
            lambda r: replay(
                r, LinUCB(), actions=np.eye(3), interval=Interval(kind="bernstein", reward_range=(0, 1))
            ),
            "interval must not be bernstein for a policy that learns",
        ),
        (lambda r: replay(r, LinUCB()), "actions must be given to replay a policy"),
        (
            lambda r: replay(r, LinUCB(), actions=np.eye(2)),
            "actions must have one row for each of the 3 arms",
        ),
        (lambda r: doubly_robust(r, TARGET, model=[1.0]), r"model must have shape \(3,\)"),
        (lambda r: doubly_robust(r, TARGET, folds=1), r"folds must be in \[2, 50\], got 1"),
        (lambda r: evaluate(r, TARGET, methods=("magic",)), "methods must be one of 'replay', 'ips'"),
        (
            lambda r: evaluate(r.take(np.arange(8)), "pessimistic"),
            "rows must be at least 10 for a pessimistic target, which is learnt from earlier ones",
        ),
        (lambda r: evaluate(r.take(np.arange(4)), "greedy"), "rows must be at least 5 for a greedy target"),
        (lambda r: split(r, share=1.0), r"share must be in \(0, 1\), got 1.0"),
        (lambda r: split(r, share=1e-12), "rows must fill both parts"),
        (
            lambda r: ips(r.take(np.arange(1)), TARGET, interval=Interval(kind="normal")),
            "rows must leave at least two to judge by, got 1",
        ),
    ],
)
def test_what_cannot_be_done_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(logged(50, seed=20))


def test_an_index_that_is_the_name_of_another_arm_is_refused() -> None:
    rows = Rows(
        arms=[0, 1, 2] * 4, rewards=[0.0, 1.0, 2.0] * 4, k=3, names=("1", "2", "7"), propensities="uniform"
    )
    with pytest.raises(ValueError, match=r"target must say which arm it means .* text, '2' or '1'"):
        evaluate(rows, 1)
    assert [evaluate(rows, target, methods=["snips"])[0].value for target in ("1", "2", 0, {1: 1.0})] == [
        0,
        1,
        0,
        0,
    ]


@pytest.mark.parametrize("target", [LinUCB(), "greedy"], ids=str)
def test_a_warm_start_has_the_arms_and_the_features_of_the_rows(target: Any) -> None:
    """The rewards of one arm were taken for those of another, and numbers of one scale for others."""
    table = pd.DataFrame({"arm": [*"ab"] * 40, "y": [0, 1, 1, 0] * 20, "x": np.arange(80.0), "id": range(80)})
    other = table.assign(arm=[*"bc"] * 40, x=3 * table["x"], id=range(80, 160))
    named: dict[str, Any] = {"item": "arm", "reward": "y"}
    rows, warm = (read_rows(some, **named, id="id") for some in (table, other))
    with pytest.raises(
        ValueError, match=r"warm_start must have the arms of the rows .*, got 'b' in the place"
    ):
        replay_or_all(rows, target, actions=np.eye(2), warm_start=warm)
    scaled = [
        read_rows(some, **named, id="id", recipe=read_log(some, **named, numeric=["x"]).recipe)
        for some in (table, other.assign(arm=table["arm"]))
    ]
    with pytest.raises(ValueError, match="warm_start must be read with the recipe of the rows"):
        replay_or_all(scaled[0], target, warm_start=scaled[1])


def replay_or_all(rows: Rows, target: Any, **given: Any) -> None:
    evaluate(replace(rows, propensities="uniform"), target, **given)


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        (
            0,
            {"interval": None},
            r"must be an Interval of linoto\.logs\.evaluate, such as Interval\(level=0\.9\), got None",
        ),
        (0, {"interval": (0, 1)}, r"interval must be an Interval of .*, got \(0, 1\)"),
        (0, {"methods": 3}, "methods must be some of replay, ips, snips, dr in a list, got 3"),
        (GUARD, {}, "decide by itself, got a Guard"),
        ({"a": "x"}, {}, "target must play arms with numbers as weights, got 'x' for 'a'"),
    ],
)
def test_what_an_evaluation_cannot_use_is_named(target: Any, given: Any, message: str) -> None:
    """These were errors of NumPy, and of attributes that None has not."""
    with pytest.raises(ValueError, match=message):
        evaluate(replace(logged(200, seed=1), names=("a", "b", "c")), target, **given)
