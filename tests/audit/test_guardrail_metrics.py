"""The metrics of guardrails are judged like the reward, by the same tests."""

from __future__ import annotations

import csv
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.guarded_logs import KINDS, guarded_table

from linoto import ArmTable, audit_log, read_log, read_rows
from linoto.audit.audit import Audit
from linoto.audit.metrics import MetricFindings
from linoto.audit.promises import UNTRUSTED
from linoto.core.hints import amount
from linoto.core.verdicts import BY_PRACTICE, HORIZON, reach_verdict

COLUMNS: dict[str, Any] = {"item": "arm", "reward": "click"}
COMPLAINTS = "complaint:lower:budget=20"


def audited(kind: str, *guardrails: str, **world: Any) -> Audit:
    table = guarded_table(**world)
    log = read_log(table, **COLUMNS, **KINDS[kind], guardrails=guardrails)
    rows = None
    if kind == "contexts":
        names = [rail.name for rail in log.guardrails]
        rows = read_rows(table, reward="click", recipe=log.recipe, metrics=names)
    return audit_log(log, rows)


def found_of(audit: Audit) -> MetricFindings:
    (metric,) = audit.metrics
    return metric


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["minutes", "complaint"])
def test_a_metric_is_judged_as_if_it_were_the_reward(kind: str, metric: str) -> None:
    metric_of = found_of(audited(kind, f"{metric}:lower:range=0..30:budget=900", missing=0.0))
    table = guarded_table(missing=0.0)
    log = read_log(table, item="arm", reward=metric, **KINDS[kind])
    rows = None
    if kind == "contexts":
        rows = read_rows(table, reward=metric, recipe=log.recipe)
    alone = audit_log(log, rows, noise="bounded", reward_range=(0.0, 30.0))
    assert metric_of.noise is not None and alone.noise is not None
    assert asdict(metric_of.noise) == asdict(alone.noise)
    assert metric_of.drift is not None and alone.drift is not None
    assert metric_of.drift.combined == alone.drift.combined
    assert (metric_of.tails is None) == (alone.tails is None)
    if metric_of.tails is not None and alone.tails is not None:
        assert metric_of.tails.farthest == alone.tails.farthest


@pytest.mark.parametrize("kind", KINDS)
def test_guardrails_of_a_sound_log_leave_its_verdict_alone(kind: str) -> None:
    plain, guarded = audited(kind), audited(kind, COMPLAINTS, "minutes:lower:range=0..30:budget=600")
    assert (guarded.verdict, guarded.reasons) == (plain.verdict, plain.reasons)
    names = [name for name, _ in guarded.facts()]
    assert {"complaint", "complaint: values", "complaint: steady?", "minutes: noise"} <= set(names)
    data = guarded.to_dict()["metrics"]
    assert [metric["guardrail"]["name"] for metric in data] == ["complaint", "minutes"]
    low, high = data[0]["mean_interval"]
    assert low < data[0]["mean"] < high
    assert "metrics" not in plain.to_dict()
    assert "reward" not in " ".join(text for name, text in guarded.facts() if name.startswith("complaint"))


SPOILT = {
    "a value left its range": ("minutes:lower:range=0..12:budget=300", {}, "do not trust", "never to leave"),
    "nothing may be lost": ("complaint:lower", {}, "not yet", "nothing is learned before it is spent"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", SPOILT)
def test_what_is_wrong_with_a_metric_is_said_by_its_name_and_weighed(kind: str, how: str) -> None:
    rail, world, verdict, reason = SPOILT[how]
    audit = audited(kind, rail, **world)
    assert audit.verdict == verdict
    name = rail.partition(":")[0]
    assert [text for text in audit.reasons if text.startswith(f"{name}: ") and reason in text]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", ["", ":budget=0", ":budget=0.5", ":budget=3"])
def test_a_budget_that_opens_nothing_is_named_whatever_the_verdict_is(kind: str, budget: str) -> None:
    wrong = audited(kind, f"complaint:lower{budget}", "minutes:lower:range=0..12:budget=300")
    assert wrong.verdict == "do not trust"
    said = dict(wrong.summary())["complaint"]
    assert "nothing is learned before it is spent: give 6.57 or more, or a small rate" in said
    assert "nothing is learned" not in dict(audited(kind, COMPLAINTS).summary())["complaint"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "world, said",
    [
        ({"missing": 0.05}, "98 of 2,000 values are missing (4.9%)"),
        ({"rate": 0.001}, "too few events to say: "),
    ],
)
def test_missing_values_and_rare_events_of_a_metric_are_a_note_and_no_verdict(
    kind: str, world: dict[str, float], said: str
) -> None:
    plain, guarded = audited(kind, **world), audited(kind, COMPLAINTS, **world)
    assert (guarded.verdict, guarded.reasons) == (plain.verdict, plain.reasons)
    (note,) = (note for note in guarded.notes if note.startswith("complaint: "))
    assert said in note and "does not rest on the log" in note


def test_values_of_a_metric_that_cannot_be_read_are_still_weighed(tmp_path: Path) -> None:
    table = guarded_table().to_pydict()
    table["complaint"] = ["?" if place % 20 == 0 else value for place, value in enumerate(table["complaint"])]
    path = tmp_path / "log.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(table), *zip(*table.values(), strict=True)])
    with pytest.raises(ValueError, match="complaint"):
        read_log(path, **COLUMNS, guardrails=[COMPLAINTS])
    audit = audit_log(read_log(path, **COLUMNS, guardrails=[COMPLAINTS], skip_bad=True))
    assert audit.verdict == "do not trust"
    assert [text for text in audit.reasons if text.startswith("complaint: 5.0% of the rows are bad")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_that_drifts_is_said_to_and_its_guardrail_still_holds(kind: str) -> None:
    audit, steady = audited(kind, COMPLAINTS, drift=0.2), audited(kind, COMPLAINTS)
    (note,) = (note for note in audit.notes if note.startswith("complaint: "))
    assert "did not have late what they had early" in note and "does not rest on the log" in note
    assert dict(audit.facts())["complaint: steady?"].startswith("no: p = ")
    assert audit.verdict == steady.verdict and not [n for n in steady.notes if n.startswith("complaint")]


def test_a_promise_by_control_is_not_doubted_because_arms_drift() -> None:
    audit = audited("arms", COMPLAINTS, fewer=0.2)
    assert audit.promise.kind == "control" and audit.drift is not None and audit.drift.rejected
    assert audit.verdict == audit.verdict_of_log == "deploy" and audit.caution == ""
    assert BY_PRACTICE in audit.reasons and "early and late rows agree" not in audit.reasons
    (note,) = (note for note in audit.notes if note.endswith(BY_PRACTICE))
    assert "arms did not earn late what they earned early" in note and "build on" not in note
    assert "promise" not in dict(audit.facts())
    assert audited("arms", fewer=0.2).verdict == "do not trust"  # Tolerance rests on the log


def test_what_control_assumes_of_rewards_still_speaks_against_it() -> None:
    log = read_log(guarded_table(fewer=0.2), **COLUMNS, guardrails=[COMPLAINTS])
    audit = audit_log(log, noise="bounded", reward_range=(0.0, 0.5))
    assert audit.verdict == "do not trust" and "said never to leave [0, 0.5]" in " ".join(audit.reasons)
    assert audit.caution == UNTRUSTED


def test_a_log_in_doubt_stays_so_for_gates_that_rest_on_it() -> None:
    saved = audited("arms", COMPLAINTS, fewer=0.2).saved("clicks.csv")
    assert reach_verdict(saved.findings(by_practice=True))[0] == "deploy"
    assert reach_verdict(saved.findings(by_practice=False))[0] == "do not trust"
    assert saved.warning.startswith(
        "the audit of clicks.csv says: deploy behind a Control gate only, because arms did not earn late"
    )


def test_a_promise_by_control_holds_for_the_guardrails_at_once() -> None:
    audit = audited("arms", COMPLAINTS)
    assert audit.certificate is not None
    assert [rail.name for rail in audit.certificate.guardrails] == ["complaint"]
    said = dict(audit.facts())["promise: probability"]
    assert said == "0.95, for every round, the reward and every guardrail at once"
    plain = dict(audited("arms").facts())["promise: probability"]
    assert plain == "0.95, for every round at once"


def test_a_cost_is_not_said_to_be_earned() -> None:
    facts = dict(audited("arms", "minutes:lower:range=0..30:budget=900").facts())
    assert "the top 1 % of rows have" in facts["minutes: tails"] and "earn" not in facts["minutes: tails"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_metric_is_called_like_a_line_of_the_audit_or_its_certificate(kind: str) -> None:
    audit = audited(kind, COMPLAINTS)
    metric = found_of(audit)
    plain = {name for name, _ in audited(kind).facts()}
    assert audit.certificate is not None
    plain |= {name for name, _ in replace(audit.certificate, guardrails=()).rows()}
    for line in plain:
        rail = replace(metric.guardrail, name=line)
        called = {name for name, _ in replace(metric, guardrail=rail).facts()}
        called |= {name for name, _ in replace(audit.certificate, guardrails=(rail,)).rows()} - plain
        assert f"'{line}'" in called and not called & plain


def test_the_least_budget_that_learns_is_what_the_gate_takes() -> None:
    least = found_of(audited("arms", COMPLAINTS)).to_dict()["least_budget"]
    for budget, verdict in ((least * 0.99, "not yet"), (least * 1.01, "deploy")):
        assert audited("arms", f"complaint:lower:budget={budget!r}").verdict == verdict
    wide = found_of(audited("arms", "complaint:lower:range=0..50:budget=9999"))
    assert wide.to_dict()["least_budget"] == pytest.approx(50 * least)
    assert [text for name, text in wide.facts() if name == "complaint: range"]
    assert np.isfinite(least)


# -- where the model may pay, it rests on the log


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_that_the_model_may_pay_for_is_weighed_as_the_reward_is(kind: str) -> None:
    plain, guarded = audited(kind, missing=0.0), audited(kind, f"{COMPLAINTS}:bound=5", missing=0.0)
    assert (guarded.verdict, guarded.reasons) == (plain.verdict, plain.reasons)
    assert "complaint: linear?" in dict(guarded.facts())
    assert "lack_of_fit" in guarded.to_dict()["metrics"][0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "world, verdict, said",
    [
        ({"missing": 0.05}, "do not trust", "98 of 2,000 rows have no value of it, and the model takes one"),
        ({"missing": 0.0, "drift": 0.2}, "do not trust", "did not have late what they had early"),
        ({"missing": 0.0, "rate": 0.001}, "not yet", "too few "),
    ],
)
def test_what_a_model_rests_on_counts_against_its_metric(
    kind: str, world: dict[str, float], verdict: str, said: str
) -> None:
    audit = audited(kind, f"{COMPLAINTS}:bound=5", **world)
    assert audit.verdict == verdict
    assert [text for text in audit.reasons if text.startswith("complaint: ") and said in text]
    assert not [note for note in audit.notes if note.startswith("complaint: ")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_of_a_metric_that_the_log_contradicts_counts(kind: str) -> None:
    rail = "minutes:lower:range=0..30:budget=900:bound=0.01"
    (reason,) = (text for text in audited(kind, rail, missing=0.0).reasons if "bound" in text)
    assert reason.startswith("minutes: the log contradicts bound=0.01: a linear model needs a parameter of")


def bent(rows: int = 3000) -> pa.Table:
    """Clicks are linear in the age; refunds of B come from the young and the old."""
    rng = np.random.default_rng(1)
    age, second = rng.uniform(-1, 1, rows), rng.random(rows) < 0.25
    refunds = np.where(second, np.where(np.abs(age) < 0.5, 0.02, 0.6), 0.1)
    return pa.table(
        {
            "arm": np.where(second, "B", "A"),
            "click": (rng.random(rows) < 0.4 + 0.2 * age * second).astype(float),
            "refund": (rng.random(rows) < refunds).astype(float),
            "age": age,
        }
    )


def test_a_metric_that_bends_is_not_vouched_for_where_the_model_pays() -> None:
    table = bent()
    said = {}
    for rail in ("refund:lower:budget=60", "refund:lower:budget=60:bound=1"):
        log = read_log(table, **COLUMNS, numeric=["age"], guardrails=[rail])
        rows = read_rows(table, reward="click", recipe=log.recipe, metrics=["refund"])
        said[rail[-1]] = audit_log(log, rows)
    assert said["1"].verdict == "do not trust" and said["0"].verdict != "do not trust"
    (reason,) = (text for text in said["1"].reasons if text.startswith("refund: "))
    assert "values are not linear in these features: 'age' bends" in reason
    assert reason.endswith("or leave its bound out, so that its own values pay")


def test_a_metric_that_features_of_arms_do_not_explain_is_not_vouched_for() -> None:
    rng = np.random.default_rng(2)
    arm = rng.integers(4, size=4000)
    values = (rng.random(4000) < np.array([0.1, 0.5, 0.1, 0.5])[arm]).astype(float)
    table = pa.table(
        {"arm": arm.astype(str), "click": (rng.random(4000) < 0.3).astype(float), "refund": values}
    )
    arms = ArmTable.from_columns(
        {"id": list("0123"), "size": [0.0, 1.0, 2.0, 3.0]}, id="id", arm_effects=False
    )
    log = read_log(table, **COLUMNS, arms=arms, guardrails=["refund:lower:budget=60:bound=5"])
    audit = audit_log(log)
    assert audit.verdict == "do not trust"
    (reason,) = (text for text in audit.reasons if text.startswith("refund: "))
    assert "values are not linear" in reason and "give every arm an effect of its own, or leave its" in reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_too_small_for_a_ledger_is_a_note_where_the_model_may_pay(kind: str) -> None:
    plain, guarded = (
        audited(kind, missing=0.0),
        audited(kind, "complaint:lower:budget=2:bound=5", missing=0.0),
    )
    assert (guarded.verdict, guarded.reasons) == (plain.verdict, plain.reasons)
    (note,) = (note for note in guarded.notes if note.startswith("complaint: "))
    assert "nothing is learned before it is spent" in note and note.endswith("the model may pay")


def test_the_linearity_of_a_metric_says_what_misfit_it_could_have_seen() -> None:
    """The power of the F test for the loss per round, at any size of the log."""
    found = {}
    for rows in (400, 8000):
        rng = np.random.default_rng(2)
        arm = rng.integers(6, size=rows)
        table = {name: (rng.random(rows) < 0.3).astype(float) for name in ("click", "refund")}
        sizes = {"id": list("012345"), "size": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}
        arms = ArmTable.from_columns(sizes, id="id", arm_effects=False)
        rail = "refund:lower:budget=100:rate=0.02:bound=5"
        log = read_log(pa.table({"arm": arm.astype(str)} | table), **COLUMNS, arms=arms, guardrails=[rail])
        audit = audit_log(log)
        model = found_of(audit).model
        assert model is not None and model.linearity.fit is not None
        allowed = found_of(audit).guardrail.loss(HORIZON) / HORIZON
        power = found[rows] = model.linearity.fit.power(allowed)
        said = (
            f"a misfit of {amount(allowed)}, as large as the loss promised per round, is seen in {power:.0%}"
        )
        assert said in dict(audit.facts())["refund: linear?"]
        assert found_of(audit).to_dict()["lack_of_fit"]["power"] == power
    assert found[400] < 0.3 < 0.8 < found[8000]
