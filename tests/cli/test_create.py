"""`linoto create` makes the loop that the service then serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.exits import run

from linoto.service.server import open_service

STATS = {
    "actions": [[1, 0], [0.6, 0.8]],
    "pulls": [900, 100],
    "reward_sums": [310.0, 52.0],
    "names": ["a", "b"],
}
CLICKS = ("--noise", "bounded", "--reward-range", 0, 1)


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(STATS))
    return path


def test_a_loop_is_made_once_as_it_was_asked_for(stats: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = stats.with_name("loops.sqlite")
    words = (
        "create",
        "banner",
        stats,
        *CLICKS,
        "--budget",
        40,
        "--holdback",
        0.05,
        "--window",
        60,
        "--db",
        db,
    )
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"made loop 'banner' in {db}, from stats.json") and "most lost in all" in out
    service = open_service(db)
    try:
        loop = service.loops.get("banner")
        assert loop.names == ["a", "b"] and loop.spec.policy["gate"]["budget"] == 40
        assert (loop.spec.default_reward, loop.spec.window, loop.spec.holdback) == (0.0, 60.0, 0.05)
        assert run("create", "second", stats, *CLICKS, "--db", db) == 1  # while it is served
        assert "linoto:" in capsys.readouterr().err
    finally:
        service.close()
    assert run(*words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert not found["made"] and found["certificate"]["budget"] == 40


def test_a_loop_that_compares_with_practice_holds_back_the_share_of_its_coin(
    stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stats.with_name("loops.sqlite")
    words = ("create", "banner", stats, *CLICKS, "--gate", "control", "--db", db, "--holdback", 0.2)
    assert run(*words, "--budget", 0.5) == 1
    assert "budget must be at least 1, what one round can lose" in capsys.readouterr().err
    assert run(*words, "--budget", 40, "--json") == 0
    certificate = json.loads(capsys.readouterr().out)["certificate"]
    assert certificate["against"] == "current practice in the explored rounds"
    service = open_service(db)
    try:
        loop = service.loops.get("banner")
        assert loop.spec.holdback == 0.0 and loop.practice is not None
        assert (loop.spec.policy["gate"]["type"], loop.spec.policy["gate"]["share"]) == ("Control", 0.2)
    finally:
        service.close()


@pytest.mark.parametrize(
    "words, said",
    [
        (("--missing-reward", "default"), "earned -1 (the low end of the reward range; --default-reward"),
        (("--missing-reward", "default", "--default-reward", "-0.25"), "earned -0.25"),
        ((), None),
    ],
)
@pytest.mark.few(3)
def test_what_a_reward_that_never_comes_earns_is_said(
    words: tuple[str, ...], said: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of costs the low end is the worst, which is seldom what the default was meant to be."""
    stats = tmp_path / "costs.json"
    stats.write_text(json.dumps(STATS | {"reward_sums": [-310.0, -52.0]}))
    options = ("--noise", "bounded", "--reward-range", -1, 0, "--budget", 40, "--db", tmp_path / "x.sqlite")
    assert run("create", "delays", stats, *options, *words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert (f"a reward that never comes {said}" in out) if said else "never comes" not in out
    assert run("create", "delays", stats, *options, *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["missing_reward"] == ("default" if said else "unknown")
    assert found["default_reward"] == (-0.25 if "--default-reward" in words else -1.0)


def test_what_cannot_be_a_loop_is_refused_in_one_sentence(
    stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stats.with_name("loops.sqlite")
    assert run("create", "banner", stats, *CLICKS, "--budget", 40, "--db", db) == 0
    capsys.readouterr()
    for words, code, sentence in [
        (("banner", stats, *CLICKS, "--budget", 41), 1, "loop 'banner' exists with other arms, log, policy"),
        (("a b", stats, *CLICKS), 1, "name must match"),
        (("other", stats), 2, "give --default-reward, or --reward-range"),
        (("other", stats, *CLICKS, "--holdback", 1), 2, "must be a number from 0 to 0.9, got '1'"),
        (("other", stats, *CLICKS, "--default-reward", 7), 1, "reward must be"),
    ]:
        assert run("create", *words, "--db", db) == code
        err = capsys.readouterr().err
        assert sentence in err and err.count("\n") == 1 and "Traceback" not in err


def test_a_name_that_is_too_long_is_named_with_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = tmp_path / "stats.json"
    stats.write_text(json.dumps(STATS | {"names": ["a", "shoe " * 60]}))
    assert run("create", "banner", stats, *CLICKS, "--budget", 40, "--db", tmp_path / "loops.sqlite") == 1
    err = capsys.readouterr().err
    assert "names of arms must have at most 200 characters, got one of 300, which begins" in err
    assert "'shoe shoe" in err
    assert err.count("\n") == 1 and not (tmp_path / "loops.sqlite").exists()


@pytest.mark.parametrize("words", [("banner", "--bound", 0.01), ("no name", "--budget", 40)])
def test_what_is_refused_leaves_no_database(words: tuple[str | float, ...], stats: Path) -> None:
    name, *options = words
    gate = ("--gate", "tolerance", "--evidence", "model")
    assert run("create", name, stats, *CLICKS, *gate, *options, "--db", stats.with_name("loops.sqlite")) == 1
    assert [path.name for path in stats.parent.iterdir()] == ["stats.json"]
