"""One arm for each row is kept as one number for each row, and says what a table of probabilities says."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Rows, evaluate
from linoto.logs.estimates import Interval
from linoto.logs.fits import fit_earlier_blocks
from linoto.logs.plays import OneArm, Plays, Shares
from linoto.logs.targets import as_plays

K, N = 5, 200


def logged(k: int = K, n: int = N, *, offered: bool = False, **other: Any) -> Rows:
    rng = np.random.default_rng(0)
    arms, candidates = rng.integers(k, size=n), None
    if offered:
        candidates = rng.random((n, k)) < 0.7
        candidates[np.arange(n), arms] = True
    rewards = (rng.random(n) < 0.4).astype(float)
    names = [f"arm {arm}" for arm in range(k)]
    given: dict[str, Any] = {"propensities": "uniform", "names": names, "candidates": candidates, **other}
    return Rows(arms=arms, rewards=rewards, k=k, **given)


def as_table(plays: Plays, rows: Rows) -> Shares:
    """The same target as probabilities of every arm in every row."""
    if isinstance(plays, OneArm):
        return Shares(np.eye(rows.k)[plays.arms])
    return Shares(np.ascontiguousarray(np.broadcast_to(plays.values, (len(rows), rows.k))))


def best_on_offer(rows: Rows) -> OneArm:
    return OneArm(rows.best(np.random.default_rng(1).random((len(rows), rows.k))), rows.k)


@pytest.mark.parametrize("offered", [False, True])
def test_one_arm_for_each_row_has_the_bits_of_a_table(offered: bool) -> None:
    values = np.random.default_rng(2).random(N)
    values[::7] = np.nan
    rows = logged(offered=offered, metrics={"minutes": values})
    target = best_on_offer(rows)
    assert evaluate(rows, target) == evaluate(rows, as_table(target, rows).values)


@pytest.mark.parametrize("offered", [False, True])
@pytest.mark.parametrize("model", ["of arms", "of rows"])
def test_what_is_asked_of_one_arm_is_answered_as_of_a_table(model: str, offered: bool) -> None:
    rows = logged(offered=offered)
    one, some = best_on_offer(rows), np.arange(N) % 3 == 0
    table = as_table(one, rows)
    predicted = np.random.default_rng(3).normal(size=K if model == "of arms" else (N, K))
    np.testing.assert_array_equal(one.expected(predicted), table.expected(predicted))
    np.testing.assert_array_equal(one.most, table.most)
    np.testing.assert_array_equal(one.of_logged(rows), table.of_logged(rows))
    np.testing.assert_array_equal(as_table(one.take(some), rows.take(some)).values, table.take(some).values)
    for arms in np.random.default_rng(4).random((5, K)) < 0.5:
        assert one.share_of(arms) == table.share_of(arms)


def test_an_arm_that_was_not_on_offer_is_refused_alike() -> None:
    rows = logged(offered=True)
    offered = rows.candidates
    assert offered is not None
    row = int((~offered[:, 2]).argmax())
    said = rf"target must play arms that are on offer, got arm 'arm 2' in row {row + 1}$"
    for target in (2, "arm 2", {"arm 2": 1.0}, lambda context, arms: "arm 2", np.eye(K)[np.full(N, 2)]):
        with pytest.raises(ValueError, match=said):
            evaluate(rows, target)


def test_the_best_arm_is_the_first_of_equals_on_offer() -> None:
    rows, scores = logged(n=50, offered=True), np.array([1.0, 3.0, 3.0, 0.0, 3.0])
    offered = rows.candidates
    assert offered is not None
    assert rows.best(scores).tolist() == np.where(offered, scores, -np.inf).argmax(axis=1).tolist()
    assert replace(rows, candidates=None).best(scores).tolist() == [1] * 50


TARGETS: dict[str, Any] = {
    "greedy": "greedy",
    "a place": 3,
    "a name": "arm 3",
    "weights": {"arm 3": 0.5, "arm 7": 0.5},
    "shares": np.full(2_000, 1 / 2_000),
    "a function": lambda context, arms: "arm 3",
    "an agent": None,
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.few(3)
def test_no_target_of_many_arms_becomes_a_table(name: str) -> None:
    """A table of 4,000 rows and 2,000 arms has 64 MB, and so many arms times themselves 32."""
    rows = logged(k=2_000, n=4_000)
    rows = replace(rows, arms=np.where(np.arange(4_000) % 2, rows.arms, 3))  # one that is surely seen
    rows = replace(rows, rewards=(rows.arms == 3).astype(float))
    agent = linoto.Greedy().start(np.eye(2_000), rows.offline) if name == "an agent" else None
    tracemalloc.start()
    try:
        plays = as_plays(agent or TARGETS[name], rows, "a test") if name != "greedy" else None
        if plays is None:
            evaluate(rows, "greedy", methods=["dr"], interval=Interval(kind="normal"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6


def test_greedy_plays_one_arm_in_each_block() -> None:
    rows = logged()
    fitted, _ = fit_earlier_blocks(rows)
    for part, predicted in zip(fitted.parts, fitted.predicted, strict=True):
        assert set(fitted.choices().arms[part].tolist()) == {int(predicted.argmax())}
