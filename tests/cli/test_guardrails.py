"""`--guardrail`: one option wherever a log is read; what was said once is used by the next command."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.exits import run
from helpers.guarded_logs import guarded_table, write_guarded

from linoto import Confidence, Control, Gated, Guardrail, to_dict
from linoto.cli.database_option import DATABASE
from linoto.logs.saved import load
from linoto.service.server import open_service

LOG = ["--item", "arm", "--reward", "click"]
RAILS = ["--guardrail", "complaint:lower:budget=20", "--guardrail", "minutes:lower:range=0..30:budget=600"]
CONTEXTS = {"arms": [], "contexts": ["--category", "country", "--cross", "item", "country"]}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_guarded(tmp_path_factory.mktemp("log") / "clicks.csv", guarded_table())


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.few(1)
def test_an_audit_has_a_section_for_each_metric_and_saves_them(
    kind: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, stats = tmp_path / "audit.html", tmp_path / "stats.npz"
    words = [*LOG, *CONTEXTS[kind], "--propensity", "p", *RAILS]
    assert run("audit", log, *words, "--out", str(page), "--save", str(stats)) == 0
    text = capsys.readouterr().out
    assert "complaint: values" in text and "minutes: steady?" in text
    html = page.read_text()
    assert "The guardrail complaint" in html and "The guardrail minutes" in html
    assert [rail.name for rail in load(stats).guardrails] == ["complaint", "minutes"]
    assert ("complaint per round" in text) == (kind == "contexts")  # what its own model would have of it
    assert run("audit", log, *words, "--json") == 0
    assert [one["guardrail"]["name"] for one in json.loads(capsys.readouterr().out)["metrics"]] == [
        "complaint",
        "minutes",
    ]
    assert run("certificate", str(stats), "--budget", "40", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [rail["name"] for rail in found["certificate"]["guardrails"]] == ["complaint", "minutes"]
    assert found["policy"]["gate"]["type"] == "Control"


def test_a_certificate_has_a_line_for_each_metric_with_what_is_said_now(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = str(tmp_path / "stats.npz")
    assert run("audit", log, *LOG, *RAILS, "--save", stats) == 0
    capsys.readouterr()
    assert run("certificate", stats, "--budget", "40", "--guardrail", "complaint:rate=0.01") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "complaint at most 20 and 0.01 a round more than current practice" in text
    assert "minutes at most 600 more than current practice" in text


@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_tolerance_takes_the_metrics_of_the_log_by_the_model_where_they_have_a_bound(
    kind: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = str(tmp_path / "stats.npz")
    words = [*LOG, *CONTEXTS[kind], "--guardrail", "minutes:lower:range=0..30:budget=600", "--save", stats]
    assert run("audit", log, *words) == 0
    capsys.readouterr()
    asked = ["certificate", stats, "--gate", "tolerance", "--budget", "40", "--bound", "2"]
    assert run(*asked, "--guardrail", "minutes:bound=60", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["certificate"]["holds"] and found["certificate"]["guardrails"][0]["bound"] == 60.0
    assert "warning: the audit did not test a model of minutes" in err
    assert run(*asked) == (0 if kind == "arms" else 1)
    text = " ".join("".join(capsys.readouterr()).split())
    assert ("minutes at most 600 more than the log" in text) == (kind == "arms")
    assert ("gate must be a Control for guardrails with contexts" in text) == (kind == "contexts")


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.few(1)
def test_evaluate_has_a_table_for_each_metric(
    kind: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*LOG, *CONTEXTS[kind], "--propensity", "p", "--play", "b", "--guardrail", "complaint:lower"]
    assert run("evaluate", log, *words) == 0
    assert "complaint per round" in capsys.readouterr().out
    assert run("evaluate", log, *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)["estimates"]
    assert [one.get("metric", "") for one in found] == [""] * 4 + ["complaint"] * 4


def test_values_that_are_missing_as_was_played_are_named_and_ips_of_them_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = guarded_table(missing=0.0).to_pandas()
    hidden = (table["arm"] == "a") & (table.index % 2 == 0)
    log = write_guarded(
        tmp_path / "log.csv", pa.Table.from_pandas(table.assign(complaint=table["complaint"].mask(hidden)))
    )
    words = [*LOG, "--propensity", "p", "--play", "b", "--guardrail", "complaint:lower"]
    assert run("evaluate", log, *words) == 0
    text = " ".join(capsys.readouterr().out.split())
    depends = "which values are missing depends on what was played"
    assert f"missing values of complaint: weights average 1.35 instead of 1: {depends}" in text
    assert "ips ? cannot tell" in text and "snips 0.18" in text
    assert f"caution ips of complaint: cannot tell: {depends} (weights average 1.35 instead of 1)" in text
    assert "the propensities do not fit" not in text
    assert run("evaluate", log, *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)["estimates"]
    assert [one["method"] for one in found if one.get("metric") and not one["enough"]] == ["ips"]


def test_evaluate_replays_the_policy_that_a_certificate_is_about(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats, columns = str(tmp_path / "stats.npz"), [*LOG, "--propensity", "p"]
    assert run("audit", log, *columns, *RAILS, "--save", stats) == 0
    capsys.readouterr()
    assert run("certificate", stats, "--budget", "40", "--json") == 0
    promised = json.loads(capsys.readouterr().out)["policy"]
    assert run("evaluate", log, *columns, *RAILS, "--policy", "Gated", "--budget", "40", "--json") == 0
    replayed = json.loads(capsys.readouterr().out)["target"]["policy"]
    for rail in (*promised["guardrails"], *replayed["guardrails"]):
        del rail["mean"]  # of all rows, and of those it starts from
    for part in ("gate", "guardrails"):
        assert replayed[part] == promised[part]
    for name in ("noise", "reward_range"):
        assert replayed["confidence"][name] == promised["confidence"][name]


def test_guardrails_of_a_policy_in_json_are_replayed_and_no_others_beside_them(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rails = [Guardrail("complaint", reward_range=(0, 1), lower_is_better=True, budget=20)]
    known = Confidence(noise="bounded", reward_range=(0, 1))
    policy = to_dict(Gated(gate=Control(budget=40), confidence=known, guardrails=rails))
    words = ["evaluate", log, *LOG, "--propensity", "p", "--policy", json.dumps(policy), "--json"]
    assert run(*words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one.get("metric", "") for one in found["estimates"]] == ["", "complaint"]
    assert found["target"]["policy"]["guardrails"] == policy["guardrails"]
    assert run(*words, *RAILS[:2]) == 1
    assert "--guardrail is for Gated without guardrails of its own" in capsys.readouterr().err


def test_a_policy_with_guardrails_is_replayed_in_contexts_where_practice_is_said(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        *LOG,
        *CONTEXTS["contexts"],
        "--propensity",
        "p",
        *RAILS[:2],
        "--policy",
        "Gated",
        "--budget",
        "40",
    ]
    assert run("evaluate", log, *words) == 1
    assert "practice must be given to replay a policy that plays it, got None" in capsys.readouterr().err
    assert run("evaluate", log, *words, "--practice", "b", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one.get("metric", "") for one in found["estimates"]] == ["", "complaint"]
    assert found["target"]["policy"]["gate"]["type"] == "Control"
    assert run("evaluate", log, *words, "--practice", "given") == 2
    capsys.readouterr()
    assert run("evaluate", log, *LOG, "--propensity", "p", "--play", "b", "--practice", "b") == 2
    assert "--practice is for --policy" in capsys.readouterr().err


def test_a_metric_is_called_as_its_column_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = guarded_table(500)
    table = table.append_column("waited_for", table["complaint"]).append_column(
        "waited for", table["complaint"]
    )
    log = write_guarded(tmp_path / "log.csv", table)
    rails = ["--guardrail", "waited_for:lower:budget=20", "--guardrail", "waited for:lower:budget=20"]
    assert run("audit", log, *LOG, *rails) == 0
    text = capsys.readouterr().out
    assert "waited_for: values " in text and "waited for: values " in text and "assumed reward range " in text


def test_a_caution_about_a_metric_alone_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rare = write_guarded(tmp_path / "rare.csv", guarded_table(rate=0.0005))
    words = [*LOG, "--propensity", "p", "--play", "b", "--guardrail", "complaint:lower"]
    assert run("evaluate", rare, *words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "caution replay of complaint, ips of complaint" in text
    assert "values that count differ from 0" in text and "rewards that count" not in text


@pytest.mark.parametrize(
    "said, why",
    [
        ("complaint:lowr", "did you mean 'lower'?"),
        ("complaint:lower:budget=few", ": its budget must be a number"),
        ("complaint:lower:budget=-3", "'complaint:lower:budget=-3': its budget must be a number >= 0"),
        ("complaint:lower:bound=-1", "'complaint:lower:bound=-1': its bound must be a number > 0, got '-1'"),
        ("complaint:lower:bound=0", "its bound must be a number > 0, got '0'"),
        ("complaint:lower:rate=inf", "its rate must be a number >= 0"),
        ("complaint:lower:rate=2", "rate must be below 1, the width of its range"),
        ("complaint:lower:range=1..0", "its range must be LOW..HIGH with LOW below HIGH"),
        ("complaint", "must say whether lower or higher is better"),
        ("minutes:lower", "must have a range"),
        ("complaints:lower", "did you mean 'complaint'?"),
    ],
)
def test_a_wrong_guardrail_is_one_sentence(
    said: str, why: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", log, *LOG, "--guardrail", said) in (1, 2)
    told = capsys.readouterr().err
    assert "--budget" not in told and "--reward-range" not in told
    assert why in told and told.count("\n") == 1 and "Traceback" not in told


def test_guardrails_are_for_a_gate_that_takes_them(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = str(tmp_path / "stats.npz")
    assert run("audit", log, *LOG, *RAILS, "--save", stats) == 0
    capsys.readouterr()
    assert run("certificate", stats, "--policy", "LinOtO") == 1
    assert "--guardrail is for Gated" in capsys.readouterr().err


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.few(1)
def test_a_preview_has_a_table_for_each_metric_with_guardrails_and_without(
    kind: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "preview.html"
    words = [log, *LOG, *CONTEXTS[kind], *RAILS, "--budget-grid", "40", "--horizon", "100", "--worlds", "3"]
    assert run("preview", *words, "--explorer", "scaled-ucb", "--out", page) == 0
    text = capsys.readouterr().out
    assert "with guardrails | without any" in text and "lower is better" in text
    assert "The guardrail complaint" in page.read_text()
    assert run("preview", *words, "--explorer", "scaled-ucb", "--out", page, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["metrics"]) == {"complaint", "minutes"}
    assert found["metrics"]["complaint"][0]["guaranteed_loss"] == 20


def test_a_budget_too_small_to_learn_is_named_by_preview_and_create(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More rounds, more rows or a wider budget of the reward would not open it."""
    stats, small = str(tmp_path / "stats.npz"), ["--guardrail", "complaint:lower:budget=2"]
    assert run("audit", log, *LOG, *small, "--save", stats) == 0
    capsys.readouterr()
    for worlds, told in (("1", "What would help:"), ("10", "More can be learned with")):
        words = [log, *LOG, *small, "--budget-grid", "20", "--horizon", "300", "--worlds", worlds]
        assert run("preview", *words, "--out", tmp_path / "preview.html") == 0
        text = " ".join(capsys.readouterr().out.split())
        assert f"{told} a budget of 6.12 or more for the guardrail complaint (or a small rate): a" in text
        assert "more logged rows" not in text
        assert "at most 2 more than practice; so small a budget is spent before" in text
    assert run("create", "clicks", stats, "--budget", "3", "--db", tmp_path / "loops.sqlite") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("so small a budget is spent before control rounds can prove anything") == 2
    assert "with a small epsilon besides" in text and "with a small rate besides" in text


def test_a_launch_leads_from_a_column_to_a_loop_that_guards_it(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*LOG, *RAILS[:2], "--budget", "40", "--horizon", "60", "--force", "--out", tmp_path / "launch"]
    assert run("launch", log, *words) == 0
    text = capsys.readouterr().out
    made = text.rpartition("$ linoto create")[2]
    assert "complaint" in made and "at most 20 more than current practice" in " ".join(made.split())
    service = open_service(tmp_path / "launch" / DATABASE)
    try:
        rails = service.loops.get("clicks").certificate.guardrails
        assert [(rail.name, rail.budget) for rail in rails] == [("complaint", 20.0)]
    finally:
        service.close()


def test_arms_that_drift_stop_no_launch_behind_control_and_are_held_against_a_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_guarded(tmp_path / "clicks.csv", guarded_table(fewer=0.2, missing=0.0))
    stats, page = str(tmp_path / "stats.npz"), tmp_path / "audit.html"
    rail = ["--guardrail", "complaint:lower:budget=60"]
    assert run("audit", log, *LOG, *rail, "--save", stats, "--out", page, "--fail-on", "not-yet") == 0
    assert "Nothing speaks against a promise by a Control gate" in page.read_text()
    for gate, text in (("control", "holds"), ("tolerance", "would hold, but the log is not to be trusted")):
        capsys.readouterr()
        assert run("certificate", stats, "--gate", gate, "--budget", "60", "--bound", "2") == 0
        out, err = capsys.readouterr()
        assert f"promise {text}" in " ".join(out.split())
        assert "deploy behind a Control gate only, because arms did not earn late" in err
    words = ["--budget", "60", "--horizon", "2000", "--out", str(tmp_path / "here")]
    assert run("launch", log, *LOG, *rail, *words) == 0
    assert "Deploy with a budget of" in " ".join(capsys.readouterr().out.split())


def test_a_model_that_the_audit_has_tested_is_not_warned_of(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats, rail = str(tmp_path / "stats.npz"), "minutes:lower:range=0..30:budget=600:bound=60"
    assert run("audit", log, *LOG, "--guardrail", rail, "--save", stats) == 0
    assert run("certificate", stats, "--gate", "tolerance", "--budget", "40", "--bound", "2") == 0
    assert "did not test" not in capsys.readouterr().err


def test_evaluate_refuses_what_it_would_ignore(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*LOG, "--propensity", "p", "--play", "b", "--guardrail", "complaint:lower:bound=1"]
    assert run("evaluate", log, *words) == 2
    assert "'complaint' must have no bound here, got 1: policies are replayed" in capsys.readouterr().err


def test_evaluate_says_which_practice_it_takes(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*LOG, *CONTEXTS["contexts"], "--propensity", "p", "--policy", "Gated", "--practice", "z"]
    assert run("evaluate", log, *words) == 1
    assert "ITEM=WEIGHT for each item, or log, got 'z': the items are a, b, c" in capsys.readouterr().err
