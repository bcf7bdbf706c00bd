"""What `linoto audit` prints and writes: words, JSON without NaN, and a page that stands alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.audit_logs import ACTIONS, THETA, K, clean_log, log_of, table_of
from helpers.html import Page

import linoto
from linoto.audit.audit import Audit, audit_log
from linoto.cli.audit import add_audit
from linoto.cli.usage import Parser
from linoto.core.offline import Offline
from linoto.logs.read import Log
from linoto.logs.saved import load

pytestmark = pytest.mark.usefixtures("blank_pictures")


def audits() -> list[Audit]:
    early, late = (Offline.from_rows([arm], [0.5], k=K) for arm in (0, 1))
    return [
        audit_log(clean_log()),
        audit_log(log_of(early, late)),
        audit_log(Log(**{**vars(clean_log()), "arms": table_of(ACTIONS).with_effects()})),
    ]


def test_an_audit_is_json_without_nan_and_facts_without_none() -> None:
    for audit in audits():
        data = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
        assert data["verdict"] == audit.verdict
        for name, text in audit.facts():
            assert name and text and "nan" not in text.split() and "None" not in text


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of clicks with names that a page must escape, and its arms."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    names = [f"<b>&{i}$" for i in range(K)]
    frame = pd.DataFrame({"name": names, **{f"x{j}": ACTIONS[:, j] for j in range(1, 4)}})
    frame.to_csv(folder / "arms.csv", index=False)
    arms = rng.choice(K - 2, 4000)
    clicks = (rng.random(4000) < (ACTIONS @ THETA)[arms]).astype(int)
    log = pd.DataFrame({"at": np.arange(4000), "shown": np.array(names)[arms], "clicked": clicks})
    log.assign(note="none").to_parquet(folder / "log.parquet")
    bad = log.astype({"clicked": object})
    bad.loc[2, "clicked"] = "oops"
    bad.to_csv(folder / "bad.csv", index=False)
    return folder


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `linoto audit`, with errors as the command line reports them."""
    top = Parser(prog="linoto", allow_abbrev=False)
    add_audit(top.add_subparsers(required=True, parser_class=Parser))
    words = ["audit", *map(str, arguments)]
    if "--arms" not in words:
        words += ["--arms", str(folder / "arms.csv"), "--action", "shown"]
    if "--reward" not in words:
        words += ["--reward", "clicked"]
    try:
        parsed = top.parse_args(words)
        parsed.run(parsed)
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except (ValueError, OSError, ImportError) as error:
        code = 1
        captured = capsys.readouterr()
        return code, captured.out, f"linoto: {error}\n"
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_and_writes(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    page, stats = tmp_path / "audit.html", tmp_path / "stats.npz"
    code, out, err = run(
        capsys,
        files,
        files / "log.parquet",
        "--time",
        "at",
        "--out",
        page,
        "--save",
        stats,
        "--epsilon",
        0.05,
    )
    assert (code, err) == (0, "")
    assert (
        out.startswith("verdict") and "deploy" in out and f"wrote {page}" in out and f"wrote {stats}" in out
    )
    saved = load(stats)
    agent = linoto.Gated(confidence=saved.confidence).start(saved.actions, saved.offline, names=saved.names)
    agent.update(agent.decide(), 1.0)


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, err = run(capsys, files, files / "log.parquet", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["rows"] == {"read": 4000, "used": 4000, "bad": {}, "unknown_ids": {}}
    assert data["arms"]["unseen"] == ["<b>&18$", "<b>&19$"]
    assert data["certificate"]["holds"] is True


def test_a_bad_row_writes_nothing_and_skipping_completes(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    page, stats = tmp_path / "audit.html", tmp_path / "stats.npz"
    code, out, err = run(capsys, files, files / "bad.csv", "--out", page, "--save", stats, "--json")
    assert (code, out) == (1, "")
    assert "bad.csv, row 3, column 'clicked': the reward must be a finite number, got 'oops'" in err
    assert not page.exists() and not stats.exists()
    code, out, _ = run(capsys, files, files / "bad.csv", "--skip-bad", "--json")
    assert code == 0 and json.loads(out)["rows"]["bad"] == {"reward not understood": 1}


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["log.parquet", "--reward", "clickd"], 2, "did you mean 'clicked'?"),
        (["log.parquet", "--id", "nam"], 2, "did you mean 'name'?"),
        (["log.parquet", "--time", "att"], 2, "did you mean 'at'?"),
        (["log.parquet", "--epsilon", "-1"], 2, "must be a number >= 0"),
        (["log.parquet", "--noise", "loud"], 2, "must be a number > 0 or the word bounded"),
        (["log.parquet", "--noise", "bounded"], 2, "--noise bounded needs --reward-range"),
        (["log.parquet", "--reward-range", "1", "0"], 2, "--reward-range must be LO HI with LO < HI"),
        (["log.parquet", "--arm-efects"], 2, "did you mean '--arm-effects'?"),
        (["log.parquet", "--numeric", "a", "b", "c"], 2, "b c: --numeric takes one, so say --numeric b as"),
        (["log.parquet", "--numeric", "a", "-s", "b"], 2, "arguments: -s b: did you mean '-h'?"),
        (["log.parquet", "--numeric=a", "b"], 2, "b: --numeric takes one, so say --numeric b as well"),
        (["none.parquet"], 1, "none.parquet must be a file or match some, got none"),
        (["log.parquet", "--reward", "shown"], 1, "'shown' must have one meaning, got item and reward"),
        (["log.parquet", "--reward", "note"], 1, "row 1, column 'note': the reward must be a finite number"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str], files: Path, arguments: list[str], code: int, message: str
) -> None:
    found, out, err = run(capsys, files, files / arguments[0], *arguments[1:])
    assert (found, out) == (code, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "options, limit, code",
    [
        (["--epsilon", "0.1"], "deploy-with-arm-effects", 0),  # the log is sound
        ([], "deploy-with-arm-effects", 3),  # what Gated promises breaks with a misfit that it cannot show
        (["--epsilon", "9"], "do-not-trust", 0),
        (["--epsilon", "9"], "not-yet", 3),  # an empty promise
        (["--bound", "0.001"], "not-yet", 3),  # refuted: worse than what was asked
        (["--bound", "0.001"], "do-not-trust", 3),
    ],
)
def test_a_verdict_that_is_bad_enough_fails_after_everything_is_written(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path, options: list[str], limit: str, code: int
) -> None:
    stats = tmp_path / "stats.npz"
    words = [files / "log.parquet", "--time", "at", "--save", stats, "--fail-on", limit, *options]
    found, out, err = run(capsys, files, *words)
    assert (found, err) == (code, "") and out.startswith("verdict") and stats.exists()


def test_what_is_assumed_stands_directly_below_the_verdict(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    path = tmp_path / "audit.html"
    _, out, _ = run(capsys, files, files / "log.parquet", "--time", "at", "--out", path)
    lines = [line.split("  ")[0] for line in out.splitlines() if not line.startswith(" ")]
    first = next(i for i, name in enumerate(lines) if name not in ("verdict", "because"))
    assert lines[first] == "assumed noise" and lines.index("promise: assumes") < lines.index("rows")
    text = Page(path.read_text("utf-8")).text
    assert text.index("What a promise would assume") < text.index("In pictures")
    _, out, _ = run(capsys, files, files / "log.parquet", "--json")
    names = list(json.loads(out))
    assert names.index("assumes") < names.index("rows")


def test_help_has_examples(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, _ = run(capsys, files, "--help")
    assert code == 0 and "examples:" in out and "None" not in out


def test_the_page_stands_alone_and_says_everything(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path, drawn: None
) -> None:
    path = tmp_path / "audit.html"
    run(capsys, files, files / "log.parquet", "--epsilon", 0.1, "--out", path)
    page = Page(path.read_text("utf-8"))
    assert page.outside == [] and all(link.startswith("#") for link in page.links)
    assert page.tags["svg"] == 4 and page.tags["script"] == page.tags["link"] == page.tags["b"] == 0
    for words in (
        "Deploy.",
        "linear?",
        "steady?",
        "most lost per round",
        "<b>&3$",
        "linoto audit log.parquet",
        "5,000 rounds to come",
    ):
        assert words in page.text
    assert str(files) not in path.read_text("utf-8")


def test_the_page_of_an_audit_without_a_promise_says_so(tmp_path: Path) -> None:
    from linoto.pages.audit import write_audit

    for number, audit in enumerate(audits()[1:], 1):  # the first has its page below
        path = write_audit(tmp_path / f"{number}.html", audit, source="log", command="linoto audit")
        assert Page(path.read_text("utf-8")).tags["svg"] >= 2
    unknown = (tmp_path / "1.html").read_text("utf-8")
    assert "There is none" in unknown
    assert "that the log contradicts, or cannot tell" in unknown  # here it cannot: the noise is unknown


def test_directions_that_are_known_alike_have_bars_of_like_height() -> None:
    """An axis that begins just below the shortest bar would make it look as if nothing was known."""
    from helpers.audit_logs import clean_log

    from linoto.audit.audit import audit_log
    from linoto.pages.figures.audit import draw_spectrum

    (axes,) = draw_spectrum(audit_log(clean_log())).axes
    low, high = axes.get_ylim()
    ends = [float(bar.get_height()) for bar in axes.patches]  # type: ignore[attr-defined]
    assert low <= min(ends) / 10 and low <= max(ends) / 1000 and max(ends) < high


@pytest.fixture(scope="module")
def of_many() -> Audit:
    """Of 1,200 arms in 12 rounds each; one of them earned everything early, and nothing late."""
    from linoto.logs.arms import ArmTable

    k, rng = 1_200, np.random.default_rng(0)
    names = [f"arm-{arm}" for arm in range(k)]
    rows = np.concatenate([np.tile(np.arange(k), 12), np.full(80, 7)])
    turn = np.concatenate([np.repeat(np.arange(12), k), np.tile(np.arange(12), 7)[:80]])
    click = np.where(rows == 7, turn < 6, rng.random(rows.size) < 0.3)
    order = np.argsort(turn, kind="stable")
    table = pd.DataFrame({"item": [names[arm] for arm in rows], "click": click.astype(int), "at": turn})
    named = {"item": "item", "reward": "click", "time": "at"}
    return audit_log(linoto.read_log(table.iloc[order], arms=ArmTable.one_hot(names), **named))


def test_pictures_of_thousands_of_arms_have_what_a_person_can_see(of_many: Audit, drawn: None) -> None:
    from linoto.pages.figures.audit import MOST_BARS, MOST_POINTS, draw_drift, draw_spectrum, shown_halves

    (axes,) = draw_spectrum(of_many).axes
    assert len(axes.patches) == 1 and of_many.coverage.rank > MOST_BARS
    (axes,) = draw_drift(of_many).axes
    points = sum(len(np.asarray(part.get_offsets())) for part in axes.collections)
    assert points == shown_halves(of_many).size <= 2 * MOST_POINTS < of_many.log.offline.pulls.size


def test_arms_that_changed_are_in_the_picture_however_many_there_are(of_many: Audit) -> None:
    from linoto.pages.figures.audit import shown_halves

    drift = of_many.drift
    assert drift is not None
    assert 7 in drift.moved and set(drift.moved) <= set(drift.arms[shown_halves(of_many)])


def test_the_page_of_thousands_of_arms_says_which_are_shown_and_where_the_rest_is(
    of_many: Audit, tmp_path: Path, drawn: None
) -> None:
    from linoto.pages.audit import write_audit

    text = write_audit(tmp_path / "many.html", of_many, source="log", command="linoto audit").read_text(
        "utf-8"
    )
    assert len(text) < 2_000_000
    page = Page(text)
    for words in ("200 of 1,200 arms", "of all are in the file that", "The 500 arms pulled most, and those"):
        assert words in page.text
    assert "a step stands for several directions" in page.text
