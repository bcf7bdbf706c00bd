"""Logs of other packages, read as they read them themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.exits import run
from helpers.vw_logs import FORMS, TOPICS, as_block, as_dsjson, as_line, decisions, write_log
from vowpalwabbit import Workspace
from vowpalwabbit.dftovw import ContextualbanditLabel, DFtoVW, Feature

from linoto import LinUCB, audit_log, evaluate, read_foreign
from linoto.cli.log_options import FORMATS as FORMATS_OF_COMMANDS
from linoto.logs.foreign import FORMATS
from linoto.logs.rows import split
from linoto.logs.vw_lines import Decided, read_decisions

pytestmark = pytest.mark.usefixtures("blank_pictures")
ARGUMENTS = {"vw-dsjson": "--dsjson --cb_adf", "adf": "--cb_adf", "cb": "--cb 3"}
ROWS = decisions(60)


def format_of(form: str) -> str:
    return "vw-dsjson" if form == "vw-dsjson" else "vw-text"


def vowpal_labels(text: str, form: str) -> tuple[list[tuple[int, float, float]], int]:
    """The labels that vowpalwabbit sees in one decision, with their lines, and how many features it sees."""
    workspace = Workspace(f"{ARGUMENTS[form]} --quiet --noconstant")
    parsed = workspace.parse(text)
    examples = parsed if isinstance(parsed, list) else [parsed]
    labels, features = [], 0
    for place, example in enumerate(examples):
        for number in range(example.get_cbandits_num_costs()):
            cost, likely = example.get_cbandits_cost(number), example.get_cbandits_probability(number)
            if likely > 0:  # the label of what is shared has -1
                where = place - 1 if form != "cb" else example.get_cbandits_class(number) - 1
                labels.append((where, cost, likely))
        features += len(list(example.iter_features()))
    workspace.finish_example(parsed)
    workspace.finish()
    return labels, features


@pytest.mark.parametrize("form", FORMS)
def test_labels_and_features_are_those_that_vowpalwabbit_sees(form: str, tmp_path: Path) -> None:
    rows = ROWS[:8]
    path = write_log(tmp_path, rows, form)
    found = [decided for _, decided in read_decisions(path, format_of(form))]
    for row, decided in zip(rows, found, strict=True):
        assert isinstance(decided, Decided)
        labels, features = vowpal_labels(FORMS[form](row), form)
        assert [(row.played, pytest.approx(decided.cost), pytest.approx(decided.propensity))] == labels
        actions = 0 if form == "cb" else sum(map(len, decided.actions))
        assert len(decided.context) + actions == features


@pytest.mark.parametrize("form", FORMS)
def test_vowpalwabbit_learns_from_the_whole_file(form: str, tmp_path: Path) -> None:
    path = write_log(tmp_path, ROWS, form)
    workspace = Workspace(f"{ARGUMENTS[form]} --quiet -d {path}")
    workspace.finish()
    assert workspace.get_weighted_examples() == len(read_foreign(path).rows())


@pytest.mark.parametrize("form", FORMS)
def test_a_reward_is_minus_the_cost_and_propensities_are_kept(form: str, tmp_path: Path) -> None:
    found = read_foreign(write_log(tmp_path, ROWS, form)).rows()
    assert found.rewards.tolist() == [-row.cost for row in sorted_by_time(ROWS, form)]
    assert np.asarray(found.propensities).tolist() == [row.propensity for row in sorted_by_time(ROWS, form)]


def sorted_by_time(rows: list[Any], form: str) -> list[Any]:
    return sorted(rows, key=lambda row: row.age % 60) if form == "vw-dsjson" else rows


@pytest.mark.parametrize("form", FORMS)
def test_statistics_by_arm_are_sums_over_its_rows(form: str, tmp_path: Path) -> None:
    found = read_foreign(write_log(tmp_path, ROWS, form))
    log = found.log()
    for place, topic in enumerate(TOPICS):
        name = str(place + 1) if form == "cb" else f"Action.topic={topic}, Action.price=2.5"
        arm = log.arms.names.index(name)
        costs = [row.cost for row in ROWS if row.played == place]
        assert log.offline.pulls[arm] == len(costs)
        assert math.isclose(log.offline.reward_sums[arm], -sum(costs), abs_tol=1e-9)
    assert any("minus the cost" in note for note in log.notes)
    assert log.propensities is not None and audit_log(log).log is log


def test_what_vowpalwabbit_makes_of_a_data_frame_is_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2, 2], "c": [0.5, -1.0, 0.25], "p": [0.4, 0.6, 0.6], "age": [30, 40, 50]})
    label = ContextualbanditLabel("a", "c", "p")
    lines = DFtoVW(df=frame, label=label, features=Feature("age")).convert_df()
    (tmp_path / "log.vw").write_text("\n".join(lines))
    found = read_foreign(tmp_path / "log.vw")
    log = found.log()
    assert log.arms.names == ("1", "2") and log.offline.reward_sums.tolist() == [-0.5, 0.75]
    assert found.numeric == ("age",)
    assert found.log(contexts=True).moments.count == 3


def test_numbers_that_are_absent_are_zero_and_words_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("1:1:0.5 |u age:30 member\n2:1:0.5 |u country=NO\n")
    found = read_foreign(path)
    rows = found.rows(recipe=found.log(contexts=True).recipe)
    assert rows.context["u.age"].tolist() == [30.0, 0.0] and rows.context["u.member"].tolist() == [1.0, 0.0]
    assert rows.context["u.country"].tolist() == [None, "NO"]


def test_features_of_dsjson_are_those_of_the_text(tmp_path: Path) -> None:
    context = {
        "User": {"member": True, "gone": None, "no": False, "emb": [0.5, 2.0], "tags": ["x", "y"]},
        "_text": "good day",
        "_tag": "left out",
        "_multi": [{"t": "a"}, {"t": "b"}],
    }
    event = {"_label_cost": 0, "_label_probability": 1.0, "_label_Action": 1, "c": context}
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(event))
    [(line, decided)] = read_decisions(path, "vw-dsjson")
    assert isinstance(decided, Decided) and line == 1
    ones = ("User.member", "User.tags.x", "User.tags.y", "good", "day")
    assert decided.context == {"User.emb.0": 0.5, "User.emb.1": 2.0} | dict.fromkeys(ones, 1.0)


# -- what cannot be used ----------------------------------------------------------------------------------

WRONG = {
    "log.dsjson": {
        '{"_label_cost": 1': "must be one JSON object, got something else",
        "[1]": "must be one JSON object, got something else",
        as_dsjson(ROWS[0], _label_probability=0): "the probability must be in (0, 1], got 0",
        as_dsjson(ROWS[0], _label_cost="x"): "cost and probability must be numbers, got 'x'",
        as_dsjson(ROWS[0], _label_cost=float("nan")): "the cost must be finite, got nan",
        as_dsjson(ROWS[0], _label_Action=9): "_label_Action must be in [1, 3]",
        as_dsjson(ROWS[0], _labelIndex=7): "one more than _labelIndex",
        as_dsjson(ROWS[0], c={}): "must have its actions in c._multi",
        as_dsjson(ROWS[0], pdrop=0.5): "pdrop must be 0",
        as_dsjson(ROWS[0], c={"_multi": [{"x": 1}] * 3}): "the actions of a decision must differ",
    },
    "log.vw": {
        "1:x:0.4 | a": "cost and probability must be numbers, got 'x'",
        "1:1:1.4 | a": "the probability must be in (0, 1], got 1.4",
        "1:1 | a": "must have one label action:cost:probability, got 1:1",
        "0:1:0.5 | a": "actions must be numbers from 1, got 0",
        "1:1:0.5 a b": "must have a bar (|) before its features",
        "1:1:0.5 | a:x": "the value of a feature must be a finite number, got 'x'",
        "1:1:0.5 |n:2 a": "the weight of namespace 'n' must be 1, got 2",
        "1:1:0.5 2:1:0.5 | a": "must have one label",
        "1:1:0.5 | c=x c=y": "feature 'c' must be there once, got 'x' and 'y'",
    },
}


@pytest.mark.parametrize(
    ("name", "line", "why"), [(name, line, why) for name, bad in WRONG.items() for line, why in bad.items()]
)
@pytest.mark.few(2)
def test_a_malformed_line_is_named_by_its_number(name: str, line: str, why: str, tmp_path: Path) -> None:
    good = as_dsjson if name == "log.dsjson" else as_line
    path = tmp_path / name
    path.write_text("\n".join([good(ROWS[0]), good(ROWS[1]), line, good(ROWS[2])]))
    with pytest.raises(ValueError, match=r"log\.\w+, line 3: ") as refused:
        read_foreign(path).log()
    assert why in str(refused.value) and "\n" not in str(refused.value)
    log = read_foreign(path).log(skip_bad=True)
    assert log.bad == {"malformed row": 1} and log.offline.total == 3
    assert len(log.arms.names) == 3 if name == "log.dsjson" else len(log.arms.names) <= 3


def test_a_block_with_two_costs_is_named_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text(as_block(ROWS[0]) + "\nshared | a\n0:1:0.5 | b\n0:1:0.5 | c\n")
    with pytest.raises(ValueError, match=r"log\.vw, line 6: must have one action with a cost in each block"):
        read_foreign(path).log()


def test_decisions_without_a_cost_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    dangling = '{"RewardValue": 1.0, "EventId": "x"}'
    path.write_text("\n".join([as_dsjson(ROWS[0]), dangling, as_dsjson(ROWS[1], _skipLearn=True)]))
    found = read_foreign(path)
    assert len(found.rows()) == 1 and "2 decisions without a cost were left out" in found.notes


def test_a_log_without_any_cost_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("| a\n| b\n")
    with pytest.raises(ValueError, match="must have at least one decision with a cost, got none"):
        read_foreign(path)


# -- which action it is -----------------------------------------------------------------------------------


def test_one_feature_can_name_actions_and_what_changes_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("0:1:0.5 | id=a price:1 size:3\n| id=b price:2 size:4\n\n0:1:0.5 | id=a price:7 size:3\n")
    found = read_foreign(path, id="id")
    assert found.arms.names == ("a", "b") and found.arms.labels == ("intercept", "size")
    assert "features of actions that change were left out: price" in " ".join(found.notes)
    assert len(read_foreign(path).arms.names) == 3
    with pytest.raises(
        ValueError, match=r"line 1: every action must have the feature 'name', got one without"
    ):
        read_foreign(path, id="name").log()


def test_only_what_was_offered_is_chosen_by_another_policy(tmp_path: Path) -> None:
    rows = decisions(80, varied=True)
    found = read_foreign(write_log(tmp_path, rows, "adf"))
    log = found.log(contexts=True)
    assert log.propensities is None  # an item that is not always offered would look as if it did not fit
    known = found.rows(recipe=log.recipe)
    assert known.candidates is not None and known.candidates.sum(axis=1).tolist() == [r.offered for r in rows]
    names = found.arms.names
    target = {name: 0.5 for name in names if "music" not in name}
    ips = next(found for found in evaluate(known, target) if found.method == "ips")
    by_hand = np.mean([-r.cost * (r.played < 2) / 2 / r.propensity for r in rows])
    assert ips.value == pytest.approx(by_hand)


# -- tables like the Open Bandit Dataset ------------------------------------------------------------------


@pytest.fixture
def open_bandit(tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """A table with the columns of the dataset, its index among them, and its items beside it."""
    rng = np.random.default_rng(0)
    n, k = 300, 4
    frame = pd.DataFrame(
        {
            "timestamp": pd.date_range("2019-11-24", periods=n, freq="min", tz="UTC"),
            "item_id": rng.integers(k, size=n),
            "position": rng.integers(1, 4, size=n),
            "click": rng.integers(2, size=n),
            "propensity_score": 1 / k,
            "user_feature_0": rng.choice(["81ce", "03a5"], size=n),
            "user_feature_1": rng.choice(["c2e4", "f975"], size=n),
        }
    )
    for item in range(k):
        frame[f"user-item_affinity_{item}"] = 0.0
    frame.to_csv(tmp_path / "all.csv")
    items = {"item_id": range(k), "item_feature_0": [0.1, -0.2, 0.5, 0.0], "item_feature_1": list("abab")}
    pd.DataFrame(items).to_csv(tmp_path / "item_context.csv")
    return tmp_path / "all.csv", frame


def test_an_open_bandit_table_is_a_log_of_arms(open_bandit: tuple[Path, pd.DataFrame]) -> None:
    path, frame = open_bandit
    found = read_foreign(path, format="open-bandit")
    log = found.log()
    assert log.offline.pulls.tolist() == frame.groupby("item_id").size().tolist()
    assert log.offline.reward_sums.tolist() == frame.groupby("item_id").click.sum().tolist()
    assert log.arms.labels == ("intercept", "item_feature_0", "item_feature_1=a", "item_feature_1=b")
    assert log.propensities is not None and log.split.startswith("timestamp")
    assert "4 columns user-item_affinity were left out" in " ".join(log.notes)


def test_an_open_bandit_table_is_a_log_with_contexts(open_bandit: tuple[Path, pd.DataFrame]) -> None:
    path, frame = open_bandit
    found = read_foreign(path, format="open-bandit")
    log = found.log(contexts=True, crosses=[("item_feature_1", "user_feature_0")])
    assert {"position=1", "user_feature_0=81ce", "item_feature_0"} <= set(log.recipe.names)
    names = list(log.recipe.names)
    gram = log.moments.gram[names.index("position=2"), names.index("item_feature_1=b")]
    assert gram == ((frame.position == 2) & (frame.item_id % 2 == 1)).sum()
    rows = found.rows(recipe=log.recipe)
    assert len(rows) == len(frame) and rows.propensities is not None


def test_an_open_bandit_table_needs_its_items(open_bandit: tuple[Path, pd.DataFrame]) -> None:
    path, _ = open_bandit
    path.with_name("item_context.csv").rename(path.with_name("items.csv"))
    with pytest.raises(ValueError, match="arms must be the file of the items, got none"):
        read_foreign(path, format="open-bandit")
    assert len(read_foreign(path, format="open-bandit", arms=path.with_name("items.csv")).arms.names) == 4


# -- commands ---------------------------------------------------------------------------------------------


def test_commands_know_the_formats() -> None:
    assert FORMATS_OF_COMMANDS == FORMATS
    with pytest.raises(ValueError, match="format must be one of vw-dsjson, vw-text, open-bandit, got 'vw'"):
        read_foreign("log.csv", format="vw")
    with pytest.raises(ValueError, match=r"format must be one of .*, got None for log\.csv"):
        read_foreign("log.csv")


@pytest.mark.parametrize("contexts", [(), ("--contexts",)], ids=["arms", "contexts"])
@pytest.mark.parametrize("form", ["vw-dsjson", "adf"])
def test_commands_read_a_vowpalwabbit_log_by_its_ending(
    contexts: tuple[str, ...], form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, ROWS, form)
    assert run("audit", path, *contexts, "--noise", 1, "--save", tmp_path / "stats.npz", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] and "vowpalwabbit logs costs: a reward is minus the cost" in found["notes"]
    other = path.rename(tmp_path / "log.txt")
    assert run("audit", other, *contexts, "--format", format_of(form), "--noise", 1) == 0


def test_commands_read_an_open_bandit_table(
    open_bandit: tuple[Path, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = open_bandit
    page = path.with_name("page.html")
    words = ("--format", "open-bandit", "--reward-range", 0, 1)
    assert run("audit", path, *words, "--out", page) == 0
    assert "linoto audit all.csv --format open-bandit --reward-range 0 1" in page.read_text()
    assert run("audit", path, *words, "--cross", "item_feature_1", "position") == 0
    assert "What the best items by the log's own model would have earned" in capsys.readouterr().out
    items = path.with_name("item_context.csv")
    assert run("audit", path, "--format", "open-bandit", "--save", items) == 2


def test_some_rows_and_arms_of_your_own_are_taken_as_for_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, arms = write_log(tmp_path, ROWS, "cb"), tmp_path / "arms.csv"
    arms.write_text("id,price\n1,2\n2,3\n3,7\n")
    words = ("--arms", arms, "--where", "User.age >= 40", "--noise", 1, "--json")
    assert run("audit", path, *words) == 0
    found = json.loads(capsys.readouterr().out)
    older = sum(row.age >= 40 for row in ROWS)
    assert f"where User.age >= 40 kept {older} of 60 rows" in found["notes"]


def test_a_malformed_line_is_one_sentence_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.vw"
    path.write_text(f"{as_line(ROWS[0])}\n1:x:0.4 | a\n")
    assert run("audit", path) == 1
    assert f"{path}, line 2: cost and probability must be numbers" in capsys.readouterr().err
    assert run("audit", path, "--format", "csv") == 2


def test_a_table_needs_the_names_of_its_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,r\na,1\n")
    assert run("audit", path, "--action", "arm") == 2
    assert "the following arguments are required: --reward" in capsys.readouterr().err
    assert run("audit", path) == 2
    assert "the following arguments are required: --item, --reward" in capsys.readouterr().err


# -- evaluate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_evaluate_reads_a_vowpalwabbit_log_as_python_does(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, ROWS, form)
    found = read_foreign(path)
    words = ("--play", found.arms.names[0], "--json")
    assert run("evaluate", path, *words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == len(ROWS)
    assert told["estimates"] == [each.to_dict() for each in evaluate(found.rows(), 0)]
    other = path.rename(tmp_path / "log.txt")
    assert run("evaluate", other, "--format", format_of(form), *words) == 0
    assert json.loads(capsys.readouterr().out)["estimates"] == told["estimates"]


def test_evaluate_by_hand_agrees_with_the_costs_and_propensities_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, ROWS, "cb")
    assert run("evaluate", path, "--play", "2", "--json") == 0
    by_method = {each["method"]: each for each in json.loads(capsys.readouterr().out)["estimates"]}
    weighted = [-row.cost / row.propensity for row in ROWS if row.played == 1]
    assert by_method["ips"]["value"] == pytest.approx(sum(weighted) / len(ROWS))


def test_a_policy_starts_from_the_earlier_rows_of_a_log_that_knows_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, ROWS, "vw-dsjson")
    assert run("evaluate", path, "--policy", '{"type": "LinUCB"}', "--json") == 0
    told = json.loads(capsys.readouterr().out)
    found = read_foreign(path)
    warm, held_out = split(found.rows(), share=0.5, by="order")
    options: dict[str, Any] = {"actions": found.arms.actions, "warm_start": warm, "methods": ("replay",)}
    assert told["estimates"] == [each.to_dict() for each in evaluate(held_out, LinUCB(), seed=0, **options)]


@pytest.mark.parametrize("contexts", [False, True], ids=["arms", "contexts"])
def test_a_target_chooses_among_what_was_offered_with_contexts_or_without(
    contexts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_log(tmp_path, decisions(60, varied=True), "adf")
    how = ["--contexts"] if contexts else []
    assert run("evaluate", path, *how, "--play", "x") == 1
    assert "there is no arm 'x'" in capsys.readouterr().err
    found = read_foreign(path)
    rows = found.rows(recipe=found.log(contexts=True).recipe if contexts else None)
    assert rows.candidates is not None and not rows.candidates.all()
    rare = rows.names[int(rows.candidates.all(axis=0).argmin())]  # type: ignore[index]
    assert run("evaluate", path, *how, "--play", rare) == 1
    assert "target must play arms that are on offer" in capsys.readouterr().err
    assert run("evaluate", path, *how, "--greedy", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["estimates"] == [each.to_dict() for each in evaluate(rows, "greedy")]


def test_evaluate_judges_among_what_was_offered_by_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stats = write_log(tmp_path, decisions(60, varied=True), "adf"), tmp_path / "stats.npz"
    assert run("audit", path, "--contexts", "--noise", 1, "--save", stats) == 0
    capsys.readouterr()
    assert run("evaluate", path, "--recipe", stats, "--greedy", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    found = read_foreign(path)
    rows = found.rows(recipe=found.log(contexts=True).recipe)
    assert told["estimates"] == [each.to_dict() for each in evaluate(rows, "greedy")]


def test_evaluate_reads_an_open_bandit_table(
    open_bandit: tuple[Path, pd.DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    path, frame = open_bandit
    assert run("evaluate", path, "--format", "open-bandit", "--play", "2", "--json") == 0
    by_method = {each["method"]: each for each in json.loads(capsys.readouterr().out)["estimates"]}
    clicks = frame.click[frame.item_id == 2].sum()
    assert by_method["ips"]["value"] == pytest.approx(4 * clicks / len(frame))


def test_evaluate_of_a_table_needs_names_and_propensities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,r\na,1\n")
    assert run("evaluate", path, "--play", "a", "--uniform") == 2
    assert "the following arguments are required: --reward" in capsys.readouterr().err
    assert run("evaluate", path, "--play", "a", "--reward", "r") == 2
    assert "one of the arguments --propensity --uniform is required" in capsys.readouterr().err
    assert run("evaluate", path, "--play", "a", "--reward", "r", "--uniform") == 2
    assert "--item is needed" in capsys.readouterr().err


def test_an_evaluation_has_arm_effects_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two arms with the same feature: without effects a policy cannot tell them apart."""
    rows = "".join(f"{'ab'[row % 2]},{int(row % 20 < (row % 2) * 14)}\n" for row in range(400))
    (tmp_path / "log.csv").write_text("arm,r\n" + rows)
    (tmp_path / "arms.csv").write_text("id,x\na,1\nb,1\n")
    words = ("evaluate", tmp_path / "log.csv", "--action", "arm", "--reward", "r", "--uniform", "--json")
    policy = ("--policy", "Gated", "--budget", 20, "--noise", "bounded", "--reward-range", 0, 1)
    found = {}
    for option in ((), ("--arm-effects",), ("--no-arm-effects",)):
        assert run(*words, "--arms", tmp_path / "arms.csv", *policy, *option) == 0
        found[option] = json.loads(capsys.readouterr().out)["estimates"][0]["value"]
    assert found[()] == found[("--arm-effects",)] > found[("--no-arm-effects",)]
    assert run(*words, *policy) == 0, "no second file"
    assert run(*words, *policy, "--no-arm-effects") == 2
    assert "--no-arm-effects is for arms with features" in capsys.readouterr().err
