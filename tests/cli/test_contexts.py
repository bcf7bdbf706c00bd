"""From a log with contexts to a loop on the command line: every command takes what the one before saved."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.exits import run

import linoto
from linoto.core.usual_confidence import with_usual_confidence
from linoto.service.loops.loop import Loop
from linoto.service.server import open_service

COLUMNS = ("--item", "item", "--reward", "click", "--numeric", "age", "--category", "country")
CROSSED = (*COLUMNS, "--cross", "item", "country", "--propensity", "p")
PRACTICE = ("--practice", "A=1", "--practice", "C=3")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clicks of three items, of which visitors from DE like A, and what their audit saved."""
    folder, rng = tmp_path_factory.mktemp("audited"), np.random.default_rng(0)
    lines = ["item,country,age,p,click"]
    for _ in range(1200):
        item, country, age = rng.choice(list("ABC")), rng.choice(["DE", "NO"]), int(rng.integers(18, 70))
        likes = 0.2 + 0.5 * ((item, country) == ("A", "DE"))
        lines.append(f"{item},{country},{age},{1 / 3},{int(rng.random() < likes)}")
    (folder / "june clicks.csv").write_text("\n".join(lines))
    assert run("audit", folder / "june clicks.csv", *CROSSED, "--save", folder / "stats.npz") == 0
    return folder


@pytest.fixture
def folder(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log and its statistics in a folder of their own."""
    for path in audited.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stats(folder: Path) -> Path:
    return Path("stats.npz")


def loop_in(db: Path | str, name: str) -> Loop:
    service = open_service(Path(db))
    loop = service.loops.get(name)
    service.close()
    return loop


def test_an_audit_says_what_each_gate_would_promise_and_which_fits(folder: Path, capsys: Captured) -> None:
    words = ("audit", "june clicks.csv", *CROSSED, "--budget", 30, "--epsilon", 0.01)
    assert run(*words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "promise Control: at most 30 in all and 0.01 a round less than practice" in out
    assert "promise Tolerance by the model: at most 30 in all and 0.01 a round" in out
    assert "gate Control fits" in out and re.search(
        r"budget 30 is what the log earns in 1\d\d rows, and what 30 rounds can lose", out
    )
    assert run(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gate"] == "control"
    policy = linoto.Gated(
        gate=linoto.Control(budget=30, epsilon=0.01, share="cheap"),
        confidence=linoto.Confidence(
            noise="bounded", reward_range=(0, 1), bound=found["proposed"]["bound"], design="adaptive"
        ),
    )
    log = linoto.read_log(
        "june clicks.csv",
        item="item",
        reward="click",
        numeric=["age"],
        categories=["country"],
        crosses=[("item", "country")],
    )
    told = json.loads(policy.certificate(log.moments).to_json())
    assert found["promises"]["Control"] == told


def test_a_gate_fits_only_where_what_it_rests_on_is_not_in_doubt(folder: Path, capsys: Captured) -> None:
    words = ("audit", "june clicks.csv", *COLUMNS, "--json")
    assert run(*words, "--noise", 2) == 0  # 0 and 1 are known to be the range
    assert json.loads(capsys.readouterr().out)["gate"] == "control"
    Path("money.csv").write_text(Path("june clicks.csv").read_text().replace(",1\n", ",7.5\n"))
    assert run("audit", "money.csv", *COLUMNS) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "verdict not yet" in out and "promise Control: none, state the reward range" in out
    assert "gate none fits yet" in out
    assert run("audit", "money.csv", *COLUMNS, "--noise", 4) == 0
    assert "gate Tolerance by the model fits" in " ".join(capsys.readouterr().out.split())


def test_numbers_that_are_not_to_be_acted_on_say_so(folder: Path, capsys: Captured) -> None:
    rows = Path("june clicks.csv").read_text().splitlines()
    few = [line[:-1] + ("1" if row % 100 == 0 else "0") for row, line in enumerate(rows[1:])]
    Path("few.csv").write_text("\n".join([rows[0], *few]))
    assert run("audit", "few.csv", *CROSSED, "--out", "page.html") == 0
    out, page = capsys.readouterr().out, Path("page.html").read_text()
    assert "caution" in out and "too few events to say:" in out.partition("would have earned")[2]
    assert "Too few events to say" in page


def test_a_budget_beyond_what_the_whole_log_earned_is_named(folder: Path, capsys: Captured) -> None:
    assert run("audit", "june clicks.csv", *COLUMNS, "--budget", 900) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"budget 900 is what the log earns in 3,\d\d\d rows, more than it has, and what", out)


def test_an_audit_refuses_to_write_over_what_it_reads(folder: Path, capsys: Captured) -> None:
    before = Path("june clicks.csv").read_bytes()
    for option in ("--save", "--out"):
        assert run("audit", "june clicks.csv", *CROSSED, option, "june clicks.csv") == 2
        assert "must be another file than june clicks.csv, which is read" in capsys.readouterr().err
    assert Path("june clicks.csv").read_bytes() == before


def by_log(policy: linoto.Gated, saved: Any) -> linoto.Gated:
    """With the ridge by which the log is the likeliest, where nothing is proved by it."""
    return with_usual_confidence(policy, saved.moments.d, lambda: saved.moments)


def test_create_knows_which_statistics_it_got(stats: Path, capsys: Captured) -> None:
    assert run("create", "shop", stats, *PRACTICE, "--budget", 40, "--unit", "clicks") == 0
    out = capsys.readouterr().out
    assert out.startswith("made loop with contexts 'shop' in loops.sqlite, from stats.npz")
    assert "compared with     current practice in the explored rounds" in out
    loop, saved = loop_in("loops.sqlite", "shop"), linoto.load(stats)
    agent, arms = loop.agent, loop.arms
    assert arms.recipe == saved.recipe and (agent.moments.gram == saved.moments.gram).all()
    assert arms.practice == {"A": 0.25, "C": 0.75} and loop.spec.default_reward == 0.0
    gate = linoto.Control(budget=40, share="cheap")
    assert agent.policy == by_log(linoto.Gated(gate=gate, confidence=saved.confidence), saved)
    assert run("create", "shop", stats, *PRACTICE, "--budget", 40, "--unit", "clicks", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["made"], found["contexts"], found["verdict"]) == (False, True, "deploy")


@pytest.mark.parametrize(
    ("options", "policy"),  # a budget of a tenth of 340 clicks
    [
        ((), {"gate": linoto.Control(budget=34, share="cheap")}),
        (("--gate", "tolerance"), {"gate": linoto.Tolerance(budget=34, evidence="model")}),
        (
            ("--gate", "tolerance", "--epsilon", 0.1, "--explorer", "thompson"),
            {"gate": linoto.Tolerance(epsilon=0.1, evidence="model"), "explorer": linoto.LinTS()},
        ),
    ],
)
def test_the_policy_is_the_one_that_was_asked_for_or_the_usual_one(
    stats: Path, capsys: Captured, options: tuple[Any, ...], policy: dict[str, Any]
) -> None:
    assert run("create", "shop", stats, "--practice", "C", *options) == 0
    saved = linoto.load(stats)
    wanted = by_log(linoto.Gated(**policy, confidence=saved.confidence), saved)
    assert (wanted.assumed.ridge is None) == isinstance(wanted.gate, linoto.Tolerance)
    assert loop_in("loops.sqlite", "shop").agent.policy == wanted
    assert run("certificate", stats, *options, "--json") == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])["certificate"]
    assert said == json.loads(wanted.certificate(saved.moments).to_json(rounds=5000))


WRONG = {
    (): (2, "needs --practice: the item that is played today"),
    ("--practice", "Q=1"): (1, "got 'Q=1': the items are A, B, C"),
    ("--practice", "A=x", "--practice", "B=1"): (1, "got 'A=x'"),
    ("--practice", "A=0.5", "--practice", "B=-0.1"): (1, "weights >= 0"),
    ("--practice", "A=0", "--practice", "B=0"): (1, "one of them above 0, got A=0 B=0"),
    ("--practice", "A=nan"): (1, "weights >= 0"),
    ("--practice", "A=1", "--practice", "A=2"): (1, "must name each item once, got 'A' twice"),
    ("--practice", "A", "--evidence", "both"): (1, "--evidence both is not for contexts"),
    ("--practice", "A", "--alpha", "0.1"): (1, "--alpha is not what this policy has: give --"),
    ("--practice", "A", "--policy", "LinOtO"): (1, "contexts"),
}


@pytest.mark.parametrize("options", WRONG)
def test_what_makes_no_loop_with_contexts_is_said_in_a_sentence(
    stats: Path, capsys: Captured, options: tuple[str, ...]
) -> None:
    code, message = WRONG[options]
    assert run("create", "shop", stats, *options) == code
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not Path("loops.sqlite").exists() or not open_names("loops.sqlite")


def open_names(db: str) -> list[str]:
    service = open_service(Path(db))
    names = list(service.loops.by_name)
    service.close()
    return names


def test_practice_may_be_what_the_log_did(folder: Path) -> None:
    """Its shares are those of the rows."""
    items = [line.split(",")[0] for line in (folder / "june clicks.csv").read_text().split("\n")[1:]]
    assert run("create", "shop", "stats.npz", "--practice", "log", "--budget", 40) == 0
    arms = loop_in("loops.sqlite", "shop").arms
    assert arms.practice == {item: items.count(item) / len(items) for item in "ABC"}


def test_practice_is_not_for_a_loop_of_fixed_arms(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"actions": [[1, 0], [0, 1]], "pulls": [9, 1], "reward_sums": [3, 1]}))
    assert run("create", "x", path, "--practice", "a", "--reward-range", 0, 1, "--noise", "bounded") == 2
    assert "--practice is for contexts: without them" in capsys.readouterr().err


@pytest.mark.few(0)
def test_a_launch_is_commands_that_do_the_same_alone(folder: Path, capsys: Captured) -> None:
    """So few rounds gain nothing, and --force goes on."""
    words = ("launch", "june clicks.csv", *CROSSED, "--budget", 30, "--horizon", 40, "--force")
    assert run(*words) == 2
    assert "a loop with contexts needs --practice" in capsys.readouterr().err
    options = (*PRACTICE, "--missing-reward", "default", "--unit", "clicks", "--window", 60)
    assert run(*words, *options) == 0
    out = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"^\$ linoto (.*)", out, re.MULTILINE)]
    assert [command[0] for command in commands] == ["audit", "certificate", "preview", "create"]
    assert " ".join(PRACTICE) in " ".join(commands[2]), "worlds have the practice of the loop"
    assert "To serve it: linoto serve --db linoto-launch/loops.sqlite" in out
    loop = loop_in("linoto-launch/loops.sqlite", "june-clicks")
    assert loop.certificate.budget == 30 and loop.spec.unit == "clicks"
    assert (loop.spec.missing_reward, loop.spec.window) == ("default", 60)
    assert run(*commands[-1]) == 0
    assert "there is already loop with contexts 'june-clicks'" in capsys.readouterr().out


def test_a_log_with_contexts_that_is_not_to_be_trusted_stops_the_launch(
    folder: Path, capsys: Captured
) -> None:
    words = (
        "launch",
        "june clicks.csv",
        *COLUMNS,
        *PRACTICE,
        "--reward-range",
        0,
        0.5,
        "--noise",
        "bounded",
    )
    assert run(*words) == 1
    assert "stopped at the verdict 'do not trust'" in capsys.readouterr().err


def test_evaluate_takes_the_recipe_of_an_audit(stats: Path, capsys: Captured) -> None:
    words = ("evaluate", "june clicks.csv", "--recipe", stats, "--reward", "click")
    rows = linoto.read_rows(
        "june clicks.csv", recipe=linoto.load(stats).recipe, reward="click", propensity="p"
    )
    Path("half.csv").write_text("item,probability\nA,0.5\nC,0.5\n")
    targets: list[tuple[tuple[str, ...], Any]] = [
        (("--greedy",), "greedy"),
        (("--play", "A"), "A"),
        (("--probabilities", "half.csv"), {"A": 0.5, "C": 0.5}),
    ]
    for options, target in targets:
        assert run(*words, "--propensity", "p", *options, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found["estimates"] == [each.to_dict() for each in linoto.evaluate(rows, target)]
        assert run(*words, "--uniform", *options, "--interval", "hoeffding", "--reward-range", 0, 1) == 0
        assert "ips" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--uniform", "--greedy"), "--item is needed, or --recipe for a log with contexts"),
        (
            ("--uniform", "--play", "A", "--recipe", "stats.npz", "--arms", "x"),
            "--arms is what --recipe knows: leave one of them out",
        ),
        (
            ("--uniform", "--greedy", "--recipe", "stats.npz", "--category", "country"),
            "--category is what --recipe knows: leave one of them out",
        ),
        (("--uniform", "--greedy", "--item", "item", "--contexts"), "--contexts is for a log of another"),
    ],
)
def test_what_a_recipe_knows_is_not_said_beside_it(
    stats: Path, capsys: Captured, options: tuple[str, ...], message: str
) -> None:
    assert run("evaluate", "june clicks.csv", "--reward", "click", *options) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("target", [("--greedy",), ("--play", "A")])
def test_columns_of_a_context_and_the_recipe_learned_from_them_evaluate_alike(
    stats: Path, capsys: Captured, target: tuple[str, ...]
) -> None:
    said = []
    for columns in (CROSSED, ("--recipe", stats, "--reward", "click", "--propensity", "p")):
        assert run("evaluate", "june clicks.csv", *columns, *target, "--json") == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]


SHORT = ("--worlds", 3, "--horizon", 60, "--budget-grid", 30, "--out", "page.html", "--json")


def test_a_preview_of_a_log_draws_its_rounds_from_the_rows(stats: Path, capsys: Captured) -> None:
    assert run("preview", "june clicks.csv", *CROSSED, *SHORT) == 0
    told = json.loads(capsys.readouterr().out)
    saved = linoto.load(stats)
    rows = linoto.read_rows("june clicks.csv", recipe=saved.recipe, reward="click")
    gate = linoto.Control(budget=30, share="cheap")
    policy = by_log(linoto.Gated(gate=gate, confidence=saved.confidence), saved)
    found = linoto.preview(saved, rows=rows, policy=policy, grid=[30], horizon=60, worlds=3)
    assert told["rounds_from"] == "rounds are drawn from the rows of the log, with what each offered"
    assert told["outlooks"] == json.loads(json.dumps(found.to_dict()["outlooks"]))
    assert "linoto preview 'june clicks.csv' " in html.unescape(Path("page.html").read_text())
    assert run("preview", stats, *SHORT) == 0
    assert "by the sums of the log" in json.loads(capsys.readouterr().out)["rounds_from"]


def test_a_preview_of_a_log_of_fixed_arms_is_that_of_its_statistics(folder: Path, capsys: Captured) -> None:
    log = ("june clicks.csv", "--item", "item", "--reward", "click")
    assert run("audit", *log, "--horizon", 60, "--save", "arms.npz") == 0
    said = []
    for words in (log, ("arms.npz",)):
        capsys.readouterr()
        assert run("preview", *words, *SHORT) == 0
        said.append(json.loads(capsys.readouterr().out) | {"source": ""})
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("june clicks.csv",), 2, "the following arguments are required: --item, --reward"),
        (("stats.npz", "--numeric", "age"), 2, "--numeric describes a LOG, got stats.npz"),
        (("june clicks.csv", *COLUMNS, "--drift", 0.1), 1, "--drift must be 0 for a log with contexts"),
        (("june clicks.csv", *COLUMNS[2:], "--item", "itme"), 2, "did you mean 'item'?"),
    ],
)
def test_what_cannot_be_previewed_is_said_in_a_sentence(
    stats: Path, capsys: Captured, words: tuple[Any, ...], code: int, message: str
) -> None:
    assert run("preview", *words, *SHORT) == code
    *warnings, said = capsys.readouterr().err.splitlines()
    assert message in said and all(line.startswith("linoto: warning: ") for line in warnings)


@pytest.mark.parametrize("command", ["certificate", "create", "preview"])
def test_a_control_gate_without_a_range_of_rewards_is_refused_in_a_sentence(
    command: str, folder: Path, capsys: Captured
) -> None:
    Path("own.json").write_text(json.dumps({"pulls": [9, 1], "reward_sums": [3, 1]}))
    Path("money.csv").write_text(Path("june clicks.csv").read_text().replace(",1\n", ",7.5\n"))
    assert run("audit", "money.csv", *COLUMNS, "--noise", 4, "--save", "money.npz") == 0
    loop = ("shop",) if command == "create" else ()
    reward = ("--default-reward", 0) if command == "create" else ()
    for stats, practice in (("own.json", ()), ("money.npz", ("--practice", "A"))):
        capsys.readouterr()
        more = practice if command == "create" else ()
        assert run(command, *loop, stats, "--gate", "control", *reward, *more) == 1
        said = capsys.readouterr().err
        assert "--reward-range must be given for a Control gate" in said and said.count("\n") == 1


def test_a_recipe_must_be_one(stats: Path, capsys: Captured) -> None:
    for wrong in ("june clicks.csv", "nothing.npz"):
        words = ("evaluate", "june clicks.csv", "--reward", "click", "--uniform", "--greedy")
        assert run(*words, "--recipe", wrong) == 1
        assert f"{wrong} must be what linoto audit --save wrote" in capsys.readouterr().err


def test_a_promise_that_does_not_rest_on_the_log_is_not_in_doubt_with_it(
    folder: Path, capsys: Captured
) -> None:
    words = ("audit", "june clicks.csv", *COLUMNS, "--reward-range", 0, 0.5, "--noise", "bounded")
    assert run(*words, "--save", "doubt.npz") == 0 and linoto.load("doubt.npz").verdict == "do not trust"
    options = ("--noise", "bounded", "--reward-range", 0, 1, "--budget", 30)
    for gate, text in (("control", "holds"), ("tolerance", "would hold, but the log is not to be trusted")):
        capsys.readouterr()
        assert run("certificate", "doubt.npz", "--gate", gate, *options) == 0
        assert f"promise {text}" in " ".join(capsys.readouterr().out.split())


def test_rows_that_are_skipped_hide_nothing_of_the_others(folder: Path, capsys: Captured) -> None:
    log = folder / "june clicks.csv"
    log.write_text(log.read_text() + "\nA,DE,33,0.3333333333333333,")
    found = []
    for options in (("--skip-bad",), ("--where", "click >= 0")):
        run("audit", log, *CROSSED, *options, "--json")
        found.append(json.loads(capsys.readouterr().out))
    skipped, others = found
    assert skipped["tails"] == others["tails"] is not None
    assert skipped["greedy"] == others["greedy"] != []


def test_a_recipe_of_fixed_arms_is_refused_as_what_it_is(folder: Path, capsys: Captured) -> None:
    plain = ("june clicks.csv", "--item", "item", "--reward", "click")
    assert run("audit", *plain, "--save", "arms.npz") == 0
    assert (
        run(
            "evaluate",
            "june clicks.csv",
            "--recipe",
            "arms.npz",
            "--reward",
            "click",
            "--uniform",
            "--greedy",
        )
        == 1
    )
    assert "log must have contexts to have a recipe, got one of fixed arms" in capsys.readouterr().err


def test_what_only_python_can_be_told_is_not_advised_at_the_command_line(
    folder: Path, capsys: Captured
) -> None:
    rows = "".join(f"{'ABC'[i % 3]},{i},{i % 2}\n" for i in range(1200))
    (folder / "wide.csv").write_text("item,user,click\n" + rows)
    named = ("wide.csv", "--item", "item", "--reward", "click")
    assert run("audit", *named, "--category", "user") == 1
    said = capsys.readouterr().err
    assert "must make at most 1,000 features, got 1,204" in said and "(--min-count)" in said
    assert run("evaluate", *named, "--uniform", "--row", "click", "--play", "A") == 1
    assert "--row must differ from row to row" in capsys.readouterr().err


CURVED = ("--column", "spline(age, knots=4)", "--cross", "item", "age", "--item", "item", "--reward", "click")


def test_every_command_takes_columns_of_any_kind(folder: Path, capsys: Captured) -> None:
    words = (*CURVED, "--propensity", "p")
    assert run("audit", "june clicks.csv", *words, "--save", "curved.npz") == 0
    recipe = linoto.load("curved.npz").recipe
    assert recipe is not None
    knots = recipe.context[0].to_dict()["knots"]
    assert recipe.context[0].kind == "spline" and (knots[0], len(knots), knots[-1]) == (18, 4, 69)
    assert run("evaluate", "june clicks.csv", *words, "--greedy") == 0
    assert run("preview", "june clicks.csv", *words, *SHORT) == 0
    assert run("create", "shop", "curved.npz", *PRACTICE, "--budget", 40) == 0
    assert loop_in("loops.sqlite", "shop").spec.recipe is not None
    capsys.readouterr()


@pytest.mark.parametrize("command", ["audit", "evaluate", "preview", "launch"])
def test_a_column_that_is_written_wrongly_is_a_matter_of_usage(
    folder: Path, capsys: Captured, command: str
) -> None:
    words = ("--item", "item", "--reward", "click", "--propensity", "p", "--column", "spine(age)")
    assert run(command, "june clicks.csv", *words, *(("--greedy",) if command == "evaluate" else ())) == 2
    assert "argument --column: column must be one of" in capsys.readouterr().err


def test_missing_numbers_are_refused_with_an_option_which_counts_them(folder: Path, capsys: Captured) -> None:
    rows = Path("june clicks.csv").read_text().splitlines()
    gone = [row.split(",") for row in rows[1:]]
    lines = [",".join([a, b, "NA" if i % 9 == 0 else c, *rest]) for i, (a, b, c, *rest) in enumerate(gone)]
    Path("gaps.csv").write_text("\n".join([rows[0], *lines]))
    words = ("audit", "gaps.csv", *COLUMNS)
    assert run(*words) == 1
    assert "got 'NA': read with --missing feature, such rows have a feature" in capsys.readouterr().err
    assert run(*words, "--cross", "item", "age", "--missing", "feature", "--save", "gaps.npz") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "missing values 'age' in 134 rows (11.2%); no sign that arms earn something else there" in out
    assert "age=(missing)" in out and "(--missing)" not in out
    recipe = linoto.load("gaps.npz").recipe
    assert "item=A × age=(missing)" in recipe.names
    assert run("create", "gaps", "gaps.npz", "--db", "gaps.sqlite", *PRACTICE) == 0
    loop = loop_in("gaps.sqlite", "gaps")
    assert loop.agent.features == recipe
    capsys.readouterr()
    assert run("audit", "gaps.csv", "--item", "item", "--reward", "click", "--missing", "feature") == 2
    assert "--missing is for contexts: give --numeric or --category" in capsys.readouterr().err
