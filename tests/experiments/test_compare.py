"""Comparisons: the same worlds for everybody, differences run by run, and honest words about promises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.html import Page

from linoto import Confidence, Doubling, Gated, LinOtO, LinTS, LinUCB, Random, to_dict
from linoto.cli import main
from linoto.cli.compare import print_leagues
from linoto.experiments.compare import (
    CLICKS,
    choose,
    compare,
    everyone,
    problems,
    promise_kept,
    shown_rounds,
)
from linoto.experiments.settings import Setting
from linoto.pages.compare import interval, kept, league_row, markdown_tables, write_comparison

pytestmark = pytest.mark.usefixtures("blank_pictures")
SMALL = Setting(
    name="small",
    k=12,
    d=4,
    m=20,
    logged_arms=3,
    horizon=80,
    policies={"UCB": LinUCB(scale=1.0), "again": LinUCB(scale=1.0), "Random": Random(), "Gated": Gated()},
)


def clock_of(*steps: float) -> object:
    """A clock that advances by these steps, again and again."""
    now, calls = 0.0, 0

    def clock() -> float:
        nonlocal now, calls
        now, calls = now + steps[calls % len(steps)], calls + 1
        return now

    return clock


@pytest.fixture(scope="module")
def found() -> object:
    return compare([SMALL], runs=4, clock=clock_of(0.0, 80e-6))  # type: ignore[arg-type]


def test_the_same_policy_twice_has_a_difference_of_nothing_at_all(found) -> None:  # type: ignore[no-untyped-def]
    rows = {row["policy"]: row for row in found.league(SMALL)}
    assert found.against == "UCB" and rows["UCB"]["difference"] is None
    assert rows["again"]["difference"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert rows["again"]["regret"] == rows["UCB"]["regret"]


def test_differences_are_taken_run_by_run_with_students_interval(found) -> None:  # type: ignore[no-untyped-def]
    from scipy import stats  # type: ignore[import-untyped]

    mine, theirs = (found.results.final("small", label, "regret") for label in ("Random", "UCB"))
    row = next(row for row in found.league(SMALL) if row["policy"] == "Random")
    low, high = stats.ttest_rel(mine, theirs).confidence_interval(0.95)
    assert row["difference"]["mean"] == pytest.approx((mine - theirs).mean())
    assert (row["difference"]["low"], row["difference"]["high"]) == pytest.approx((low, high), rel=3e-3)


def test_the_league_is_ranked_and_says_what_was_seen(found) -> None:  # type: ignore[no-untyped-def]
    rows = found.league(SMALL)
    last = [row["regret"][-1]["mean"] for row in rows]
    assert last == sorted(last) and rows[-1]["policy"] == "Random"
    assert [point["round"] for point in rows[0]["regret"]] == [10, 40, 80] == list(shown_rounds(SMALL))
    by_label = {row["policy"]: row for row in rows}
    assert by_label["Random"]["promise"] is None
    assert by_label["Gated"]["promise"] == {"kept": 4, "runs": 4}
    assert by_label["UCB"]["seconds_per_round"] == pytest.approx(1e-6)
    assert json.loads(json.dumps(found.to_dict()))["leagues"]["small"] == rows


def test_a_league_has_the_numbers_of_the_results(found) -> None:  # type: ignore[no-untyped-def]
    for row in found.league(SMALL):
        name = row["policy"]
        for field in ("regret", "offline_regret"):
            for entry in row[field]:
                values = found.results.at("small", name, field, entry["round"])
                assert entry["mean"] == pytest.approx(values.mean())
                assert entry["se"] == pytest.approx(values.std(ddof=1) / 2)
        assert row["worst_offline_regret"] == found.results.worst("small", name).max()
        explored = found.results.final("small", name, "explored").mean() / SMALL.horizon
        assert row["explored"] == pytest.approx(explored)


def test_a_broken_promise_is_counted_and_named() -> None:
    for unit in (1.0, 1e-12, 1e12):  # 3e-12 was below a billionth, and 1e-3 of 4e12 above it
        broken = unit * np.array([-1.0, 0.0, 1e-15, 3.0, np.nan])
        assert promise_kept(broken, unit * np.full(5, 4.0)) == {"kept": 3, "runs": 4}
    counted = promise_kept(np.array([-1.0, 0.0, 3.0, np.nan]), np.ones(4))
    assert counted == {"kept": 2, "runs": 3}
    assert kept(counted) == "broken in 1 of 3 runs" and kept({"kept": 3, "runs": 3}) == "kept"


def test_a_single_run_has_no_interval() -> None:
    one = compare([SMALL], runs=1)
    row = next(row for row in one.league(SMALL) if row["policy"] == "Random")
    assert row["difference"]["low"] is None and "[" not in interval(row["difference"])
    assert "±" not in league_row(row, "UCB")["regret"]


def test_every_problem_has_everybody_who_can_play_it() -> None:
    sizes = {name: len(setting.labels) for name, setting in problems().items()}
    least, most = len(everyone()), len(everyone(CLICKS, one_hot=True))
    assert sizes["poor log"] == least == sizes["biased log"] - 2  # who are told that the log is wrong
    assert least < sizes["clicks"] == sizes["flights"] < most
    assert sizes["one-hot"] == most
    for setting in problems().values():  # with contexts, who does not play is named with a reason
        known = everyone(CLICKS, contexts=True) if setting.absent else setting.labels
        assert {*setting.labels, *setting.absent} == set(known), setting.name


def test_who_is_not_set_up_as_in_the_paper_assumes_the_same_of_rewards() -> None:
    """A league in which one has another ridge than the others compares ridges."""
    sharp = (
        "Gated",
        "Gated, 0.25 UCB",
        "LinOtO, sharp",
        "LinUCB x 0.25",
        "LinTS",
        "LinTS, posterior",
        "Greedy",
    )
    for confidence in (None, CLICKS):
        found: dict[str, Any] = everyone(confidence)
        assert {found[label].composed().assumed for label in sharp} == {confidence or Confidence()}
    assert everyone()["OFUL"] == LinUCB(scale=1.0, confidence=Confidence())


def test_the_sharp_rule_of_the_paper_differs_in_radius_and_explorer_alone() -> None:
    found: dict[str, Any] = everyone()
    sharp, paper = found["LinOtO, sharp"].composed(), found["LinOtO"].composed()
    assert replace(sharp, explorer=paper.explorer, confidence=paper.confidence) == paper
    assert sharp.explorer == found["Gated"].explorer


def test_everybody_in_a_league_can_be_asked_for_by_name() -> None:
    from linoto.cli.compare import labelled

    for setting in problems().values():
        for label in setting.labels:
            assert labelled(label) == (label, None)


def test_tables_of_text_have_what_the_league_has() -> None:
    found = compare([SMALL], runs=3)
    head, _, *rows = markdown_tables(found).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {row['policy']}" for row in found.league(SMALL)]
    assert "| median | worst run |" in head and "µs" not in head
    for row in found.league(SMALL):
        assert row["median_regret"] <= row["worst_regret"]


@pytest.mark.parametrize(
    "some",
    [("biased log", "one-hot", "contexts"), pytest.param((), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_everybody_plays_every_problem(some: tuple[str, ...]) -> None:
    """A few rounds each, of fewer arms where these are drawn: whether they can play, not how well or fast."""
    drawn = {
        name: {"k": 15, "d": 4}
        for name in ("poor log", "rich log", "best action logged", "biased log", "clicks")
    }
    names = some or tuple(problems())
    short = [replace(problems()[name], horizon=12, points=2, **drawn.get(name, {})) for name in names]
    found = compare(short, runs=1, timed_runs=1)
    for setting in short:
        assert len(found.league(setting)) == len(setting.labels)
    data = json.loads(json.dumps(found.to_dict()))
    assert set(data["left_out"]) == {"contexts", "digits", "flights by time"} & set(names)
    for name, absent in data["left_out"].items():
        assert {"LinOtO", "OOPE"} <= set(absent)
        promises = {row["policy"]: row["promise"] for row in data["leagues"][name]}
        assert promises["Control"] == promises["Gated, by the model"] == {"kept": 1, "runs": 1}
        assert promises["LinUCB"] is None


def test_a_policy_plays_where_it_can() -> None:
    found = problems(choose({"UCB1": None, "Control": None}))
    assert {name: setting.labels for name, setting in found.items()} == {
        "clicks": ("Control",),
        "one-hot": ("UCB1", "Control"),
        "flights": ("Control",),
        "flights, a log of a worse season": ("Control",),
        "contexts": ("Control",),
        "digits": ("Control",),
        "flights by time": ("Control",),
    }


def test_who_cannot_play_contexts_says_why_in_its_own_words() -> None:
    class Fixed:
        def start(self, actions: object, offline: object, rng: int = 0) -> object: ...

    own = {"LinOtO": None, "mine": Fixed(), "twice": Doubling(policy=LinUCB(scale=1.0)), "LinTS": None}
    contexts = problems(choose(own))["contexts"]  # type: ignore[arg-type]
    assert contexts.labels == ("LinTS",)
    for label, start in (("LinOtO", LinOtO().start), ("twice", own["twice"].start)):  # type: ignore[union-attr]
        with pytest.raises(ValueError) as refused:
            start(None, d=10)
        assert contexts.absent[label] == str(refused.value)
    assert contexts.absent["mine"] == "it starts on fixed arms only"


def test_a_league_with_contexts_is_printed_and_shown_with_who_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = problems(choose({"Gated": None, "OOPE": None, "LinOtO": None}))["contexts"]
    found = compare([replace(asked, horizon=40)], runs=2)
    write_comparison(tmp_path / "linoto-compare", found, command="linoto compare")
    print_leagues(found)
    out = capsys.readouterr().out
    assert "the shortfall is below practice in the same rounds" in out
    assert "left out: OOPE: it starts on fixed arms only" in out
    assert "left out: LinOtO: gate must be Open, Closed, Tolerance or Control" in out
    page = (tmp_path / "linoto-compare" / "compare.html").read_text()
    assert "Left out: <b>OOPE</b>: it starts on fixed arms only." in page
    assert "shortfall below practice" in page
    with pytest.raises(SystemExit):
        main(["compare", "--setting", "digits", "--policy", "OOPE"])
    assert "--policy must name somebody who can play in the setting 'digits'" in capsys.readouterr().err


@pytest.mark.parametrize("first", [0, 20])
def test_a_biased_log_is_one_that_no_gate_refuses(first: int) -> None:
    """Of logs that are moved at random, about one in thirty contradicts the bound."""
    setting = problems()["biased log"]
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        bandit = setting.bandit(rng)
        log = setting.log(bandit, rng)
        gated: Any = setting.policy("Gated")
        assert gated.certificate(bandit.actions, log).budget == 100.0


def test_a_shift_beyond_every_bound_is_drawn_all_the_same() -> None:
    """Every gate refuses such a log, and says why."""
    setting: Any = replace(problems()["biased log"], shift=20.0)
    rng = np.random.default_rng(0)
    bandit = setting.bandit(rng)
    with pytest.raises(ValueError, match="bound must be at least"):
        setting.policy("Gated").certificate(bandit.actions, setting.log(bandit, rng))


def test_a_biased_log_is_a_right_one_moved_by_its_shift() -> None:
    setting = problems()["biased log"]
    bandit = setting.bandit(np.random.default_rng(1))
    right = Setting.log(setting, bandit, np.random.default_rng(2))
    wrong = setting.log(bandit, np.random.default_rng(2))
    assert np.array_equal(right.pulls, wrong.pulls)
    seen = right.pulls > 0
    moved = (wrong.reward_sums - right.reward_sums)[seen] / right.pulls[seen]
    assert np.allclose(abs(moved), 0.5) and np.ptp(moved) == 1.0
    assert wrong.within_arms() == pytest.approx(right.within_arms())


def test_the_command_writes_one_page_and_takes_a_policy_of_your_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_compared.py").write_text(
        "from linoto import LinUCB\n\nclass Mine:\n"
        "    def start(self, actions, offline, rng=0):\n"
        "        return LinUCB(scale=0.1).start(actions, offline, rng=rng)\n"
    )
    monkeypatch.chdir(tmp_path)
    text = json.dumps(to_dict(LinTS(scale=0.5)))
    words = ["compare", "--setting", "one-hot", "--policy", "Greedy", "--policy", "mine=own_compared:Mine"]
    assert main([*words, "--policy", f"half={text}", "--against", "mine", "--runs", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["policy"] for row in found["leagues"]["one-hot"]} == {"Greedy", "mine", "half"}
    page = Page((tmp_path / "linoto-compare" / "compare.html").read_text())
    assert not page.outside and not page.open and "one-hot" in page.ids
    assert main([*words, "--runs", "2"]) == 0
    assert "compare: 6 earlier runs were replaced; --resume would have kept" in capsys.readouterr().err
    assert main([*words, "--against", "nobody", "--runs", "2", "--out", "other"]) == 1
    assert "against must be one of Greedy, mine, got 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--policy", "Linucb"), "there is no policy 'Linucb': did you mean 'LinUCB'?"),
        (("--policy", "Gated 0.25 UCB"), "did you mean 'Gated, 0.25 UCB'?"),
        (
            ("--policy", "LinTS", "--policy", '{"type": "LinTS", "scale": 2}'),
            "two policies are called 'LinTS'",
        ),
        (("--policy", "LinTS", "--against", "LinUCB"), "--against must be one of LinTS, got 'LinUCB'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code: object = None
    try:
        code = main(["compare", *words, "--runs", "1", "--out", str(tmp_path / "out")])
    except SystemExit as stopped:
        code = stopped.code
    assert code in (1, 2) and why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
