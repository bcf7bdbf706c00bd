"""Columns of a log as guardrails: each is read as the reward is, in its place."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.guarded_logs import KINDS, guarded_table

import linoto
from linoto import Guardrail, evaluate, read_log, read_rows
from linoto.logs.metrics import AskedGuardrail, restated
from linoto.logs.saved import load

COLUMNS: dict[str, Any] = {"item": "arm", "reward": "click"}
COMPLAINTS = "complaint:lower:budget=20"
MINUTES = Guardrail("minutes", reward_range=(0, 60), lower_is_better=True, budget=500)


def same_sums(one: Any, other: Any) -> None:
    assert np.array_equal(one.pulls, other.pulls)
    assert np.array_equal(one.reward_sums, other.reward_sums)
    assert np.array_equal(one.reward_squares, other.reward_squares)


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_is_summed_as_if_it_were_the_reward(kind: str) -> None:
    table = guarded_table()
    log = read_log(table, **COLUMNS, **KINDS[kind], guardrails=[COMPLAINTS, MINUTES])
    without = table.filter(table["complaint"].is_valid())
    for name, rows in (("complaint", without), ("minutes", table)):
        metric = log.metrics[name]
        alone = read_log(rows, item="arm", reward=name, **KINDS[kind])
        same_sums(metric.offline, alone.offline)
        assert metric.extent == alone.extent
        if kind == "contexts":
            assert metric.recipe == log.recipe
            assert np.array_equal(metric.moments.reward_vector, alone.moments.reward_vector)
            assert np.array_equal(metric.moments.gram, alone.moments.gram)


@pytest.mark.parametrize("kind", KINDS)
def test_guardrails_change_nothing_of_the_log_itself(kind: str) -> None:
    plain = read_log(guarded_table(), **COLUMNS, **KINDS[kind])
    log = read_log(guarded_table(), **COLUMNS, **KINDS[kind], guardrails=[COMPLAINTS, MINUTES])
    same_sums(log.early, plain.early)
    same_sums(log.late, plain.late)
    assert (log.rows, log.bad, log.extent, log.notes) == (plain.rows, plain.bad, plain.extent, plain.notes)
    assert np.array_equal(log.moments.gram, plain.moments.gram)


def test_the_mean_of_practice_and_the_range_of_zeros_and_ones_come_from_the_log() -> None:
    table = guarded_table()
    log = read_log(table, **COLUMNS, guardrails=[COMPLAINTS, MINUTES])
    complaints, minutes = log.guardrails
    assert complaints.reward_range == (0.0, 1.0) and complaints.lower_is_better and complaints.budget == 20
    known = [value for value in table["complaint"].to_pylist() if value is not None]
    assert complaints.mean == pytest.approx(np.mean(known))
    assert minutes.mean == pytest.approx(np.mean(table["minutes"].to_pylist()))
    policy = linoto.Gated(gate=linoto.Control(budget=40), confidence=BOUNDED, guardrails=log.guardrails)
    assert set(policy.start(log, rng=0).rooms) == {"complaint", "minutes"}


BOUNDED = linoto.Confidence(noise="bounded", reward_range=(0, 1))


def test_a_value_that_is_missing_is_left_out_of_its_metric_alone() -> None:
    table = guarded_table(missing=0.1)
    log = read_log(table, **COLUMNS, guardrails=[COMPLAINTS])
    lost = table["complaint"].null_count
    assert log.metrics["complaint"].bad == {"missing value": lost} and lost > 100
    assert log.bad == {} and log.offline.total == table.num_rows


def test_a_value_that_is_not_a_number_is_refused_by_row_unless_bad_rows_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,click,complaint\na,1,\nb,0,0\na,1,many\nb,1,1\na,0,0\n")
    with pytest.raises(ValueError, match=r"row 3, column 'complaint': the value must be a finite number"):
        read_log(path, **COLUMNS, guardrails=[COMPLAINTS])
    log = read_log(path, **COLUMNS, guardrails=[COMPLAINTS], skip_bad=True)
    assert log.metrics["complaint"].bad == {"missing value": 1, "value not understood": 1}
    assert log.offline.total == 5
    with pytest.raises(ValueError, match=r"row 3, column 'complaint': the value must be a finite number"):
        read_rows(path, **COLUMNS, metrics=["complaint"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_read_back_with_its_metrics(kind: str, tmp_path: Path) -> None:
    log = read_log(guarded_table(), **COLUMNS, **KINDS[kind], guardrails=[COMPLAINTS, MINUTES])
    back = load(log.save(tmp_path / "log.npz"))
    assert back.guardrails == log.guardrails
    for name, metric in log.metrics.items():
        same_sums(back.metrics[name].offline, metric.offline)
        if kind == "contexts":
            assert np.array_equal(back.metrics[name].features.moments.gram, metric.moments.gram)
    same_sums(back.offline, log.offline)


def test_a_log_without_guardrails_is_saved_as_before(tmp_path: Path) -> None:
    read_log(guarded_table(), **COLUMNS).save(tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as file:
        assert not [name for name in file.files if name.startswith("metric")]
        assert "guardrails" not in str(file["header"]) and "metrics" not in str(file["header"])


def test_the_order_of_guardrails_does_not_matter() -> None:
    one = read_log(guarded_table(), **COLUMNS, guardrails=[COMPLAINTS, MINUTES])
    other = read_log(guarded_table(), **COLUMNS, guardrails=[MINUTES, COMPLAINTS])
    assert set(one.guardrails) == set(other.guardrails)
    for name in one.metrics:
        same_sums(one.metrics[name].offline, other.metrics[name].offline)


WRONG = {
    "complaint": "must say whether lower or higher is better",
    "complaint:lowr": "did you mean 'lower'",
    "complaint:lower:higher": "must say its direction once",
    "complaint:lower:budget=few": "budget must be a number >= 0, got 'few'",
    "complaint:lower:budget=-1": "budget must be",
    "complaint:lower:range=1": "range must be LOW..HIGH",
    "complaint:lower:range=3..1": "with LOW below HIGH",
    "minutes:lower": "its values in the Table are from",
    "nothing:lower": "must be a column of",
    ":lower": "a guardrail must be COLUMN:lower",
    "click:lower": "another column than the reward",
    "arm:lower": "must be a column of its own",
}


@pytest.mark.parametrize("text", WRONG)
def test_each_wrong_form_is_refused_in_a_sentence_that_says_why(text: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + WRONG[text].replace("(", r"\(")) as caught:
        read_log(guarded_table(100), **COLUMNS, guardrails=[text])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["time", "propensity"])
def test_a_column_that_says_when_or_how_likely_is_no_guardrail(part: str) -> None:
    with pytest.raises(ValueError, match="'p' must be a column of its own"):
        read_log(guarded_table(100), **COLUMNS, **{part: "p"}, guardrails=["p:lower"])
    with pytest.raises(ValueError, match="'p' must be a column of its own"):
        read_rows(guarded_table(100), **COLUMNS, **{part: "p"}, metrics=["p"])


def test_a_column_of_the_context_is_no_guardrail() -> None:
    with pytest.raises(ValueError, match="'minutes' must be a column of its own"):
        read_log(guarded_table(100), **COLUMNS, numeric=["minutes"], guardrails=[MINUTES])


@pytest.mark.parametrize("name", ["shop:complaint", "a:b:c", "shop:change", "2024-01-01T10:30", "shop:power"])
def test_a_column_with_colons_is_a_guardrail(name: str) -> None:
    table = guarded_table(200, missing=0.0)
    table = table.rename_columns([name if column == "complaint" else column for column in table.column_names])
    (rail,) = read_log(table, **COLUMNS, guardrails=[f"{name}:lower:budget=20"]).guardrails
    assert (rail.name, rail.lower_is_better, rail.budget) == (name, True, 20.0)


@pytest.mark.parametrize(
    "said, part, hint",
    [
        ("x:lower:bugdet=20", "bugdet=20", "did you mean 'budget'"),
        ("x:bugdet=20:lower", "bugdet=20", "did you mean 'budget'"),
        ("x:lower:budget", "budget", "did you mean 'budget'"),
        ("x:lower:often", "often", "it must be COLUMN:lower"),
        ("x:highr:budget=20", "highr", "did you mean 'higher'"),
    ],
)
def test_a_misspelt_setting_is_not_taken_for_a_part_of_the_name(said: str, part: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"has a part '{part}' that is not known: {hint}"):
        AskedGuardrail.of(said)


def test_what_is_not_said_of_a_known_guardrail_stays_as_it_was() -> None:
    known = Guardrail("x", reward_range=(0, 1), lower_is_better=True, budget=20, rate=0.1, mean=0.3)
    (found,) = restated([known], [AskedGuardrail.of("x:rate=0.2")])
    assert (found.budget, found.rate, found.mean, found.lower_is_better) == (20.0, 0.2, 0.3, True)
    for said in ("budget=500", "rate=0.2", "range=0..2", "higher"):
        (found,) = restated([known], [AskedGuardrail.of(f"x:{said}")])
        assert sum(one != other for one, other in zip(astuple(found), astuple(known), strict=True)) == 1
    with pytest.raises(ValueError, match=r"guardrail 'x': its range must hold the mean in the log, 0\.3"):
        restated([known], [AskedGuardrail.of("x:range=1..2")])
    assert restated([known], []) == (known,)
    with pytest.raises(ValueError, match="there is no guardrail 'xx' in the statistics: did you mean 'x'"):
        restated([known], [AskedGuardrail.of("xx:lower:range=0..1")])
    assert restated([], [AskedGuardrail.of("y:higher:range=0..1:budget=9")]) == (
        Guardrail("y", reward_range=(0, 1), budget=9),
    )


# -- estimates --------------------------------------------------------------------------------------------


def rows_of(kind: str) -> Any:
    recipe = read_log(guarded_table(), **COLUMNS, **KINDS[kind]).recipe if kind == "contexts" else None
    named: dict[str, Any] = {"reward": "click"} if recipe else COLUMNS
    return read_rows(
        guarded_table(missing=0.02), **named, recipe=recipe, propensity="p", metrics=["complaint", "minutes"]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["b", {"a": 0.5, "c": 0.5}, "by row"])
def test_a_metric_is_estimated_as_if_it_were_the_reward(kind: str, target: Any) -> None:
    rows = rows_of(kind)
    if target == "by row":
        target = np.eye(3)[np.arange(len(rows)) % 3]
    found = evaluate(rows, target, guardrails=[MINUTES])
    assert [estimate.metric for estimate in found] == [""] * 4 + ["complaint"] * 4 + ["minutes"] * 4
    known = np.isfinite(rows.metrics["complaint"])
    part = target[known] if isinstance(target, np.ndarray) else target
    alone = evaluate(rows.about("complaint"), part)
    words = ("holds", "reason")  # are said of values
    for estimate, other in zip(found[4:8], alone, strict=True):
        assert estimate.to_dict() == other.to_dict() | {"metric": "complaint"} | {
            word: getattr(estimate, word) for word in words
        }
    assert all("[0, 60]" in estimate.holds for estimate in found[8:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["b", "greedy"])
def test_an_interval_says_how_many_values_are_missing_and_what_that_takes_for_granted(
    kind: str, target: str
) -> None:
    rows = rows_of(kind)
    judged = rows.take(np.arange(len(rows) // 5, len(rows))) if target == "greedy" else rows
    values = judged.metrics["complaint"]
    missing = f"({int(np.isnan(values).sum()):,} of {values.size:,} values are missing)"
    for found in evaluate(rows, target, guardrails=[MINUTES]):
        assert (missing in found.holds and "chance alone" in found.holds) == (found.metric == "complaint")
        assert ("reward" in found.holds) == (not found.metric)


def test_a_range_that_values_leave_is_named_by_its_guardrail() -> None:
    narrow = Guardrail("minutes", reward_range=(0, 5), lower_is_better=True)
    with pytest.raises(
        ValueError, match=r"guardrail 'minutes': its range must hold every value, from .* got 0\.\.5"
    ):
        evaluate(rows_of("arms"), "b", guardrails=[narrow])


@pytest.mark.parametrize("kind", KINDS)
def test_what_greedy_rows_would_have_of_a_metric_is_estimated_for_what_rewards_teach(kind: str) -> None:
    rows = rows_of(kind)
    found = evaluate(rows, "greedy", guardrails=[MINUTES])
    assert [(one.method, one.metric) for one in found[3:]] == [
        (method, metric) for metric in ("complaint", "minutes") for method in ("ips", "snips")
    ]
    for estimate in found[3:5]:  # it plays b, of which 21 % complain: false alarm about 1 in 20
        assert estimate.low <= 0.21 <= estimate.high


class Told:
    """A policy of somebody's own that plays one arm, and keeps what it is told."""

    def __init__(self, *guardrails: Guardrail) -> None:
        self.guardrails = guardrails
        self.told: list[tuple[float, Any]] = []

    def start(self, actions: Any, offline: Any, *, rng: Any) -> Told:
        return self

    def select(self) -> int:
        return 1

    def update(self, arm: int, reward: float, *, metrics: Any = None) -> None:
        self.told.append((reward, metrics))


def test_a_policy_with_guardrails_is_told_the_values_of_the_rows_that_it_plays() -> None:
    rows = rows_of("arms")
    policy = Told(Guardrail("complaint", reward_range=(0, 1), lower_is_better=True, budget=8))
    reward, complaints, minutes = evaluate(rows, policy, actions=np.eye(3))
    assert (reward.metric, complaints.metric, minutes.metric) == ("", "complaint", "minutes")
    assert "values are missing" in complaints.holds and "missing" not in reward.holds + minutes.holds
    known = [metrics["complaint"] for _, metrics in policy.told if metrics]
    assert len(known) == complaints.used < len(policy.told) == reward.used
    assert complaints.value == pytest.approx(np.mean(known))
    alone = Told()
    found = [estimate.value for estimate in evaluate(rows, alone, actions=np.eye(3))]
    assert found == [reward.value, complaints.value, minutes.value]
    assert alone.told == [(value, None) for value, _ in policy.told]


def test_rows_without_the_metric_of_a_guardrail_judge_no_policy_that_has_it() -> None:
    bare = read_rows(guarded_table(), **COLUMNS, propensity="p")
    policy = linoto.Gated(gate=linoto.Control(budget=40), confidence=BOUNDED, guardrails=[MINUTES])
    with pytest.raises(ValueError, match="rows must have the metric 'minutes'"):
        evaluate(bare, policy, actions=np.eye(3))
