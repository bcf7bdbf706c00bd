"""The comparison on real tables: its problems, its arithmetic, what it keeps, and our own worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def real() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import real

        yield real
    finally:
        sys.path.remove(str(BENCHMARKS))


def rows_of(real: Any, n: int = 300) -> Any:
    """Three classes around three points of the plane."""
    from real_tables import Rows

    rng = np.random.default_rng(5)
    right = rng.integers(3, size=n)
    return Rows(np.eye(3)[right][:, :2] * 3 + rng.standard_normal((n, 2)), right)


def run_of(seed: int, earned: float, name: str = "linoto: Gated", **more: Any) -> dict[str, Any]:
    about = {"table": "t", "practice": "poor", "seed": seed, "name": name, "words": "", "settings": {}}
    measured = {"earned": earned, "below": 10 * seed, "seconds": 1e-3, "practice earned": 0.5}
    return {**about, **measured, "size": [10, 10], "version": "1", **more}


def bench_of(real: Any, table: Any, packages: tuple[str, ...]) -> Any:
    policies = [policy for policy in real.POLICIES if policy.package in packages]
    size = real.Size(seeds=2, slow_seeds=1, logged=60, rounds=40)
    return real.Bench([table], ["good"], policies, size, Path("."))


def test_a_log_is_what_practice_played_and_the_right_class_earns_one(real: Any) -> None:
    from real_problems import PRACTICES, problem_of

    problem = problem_of(rows_of(real), PRACTICES["mediocre"], seed=3, logged=400, rounds=200)
    again = problem_of(rows_of(real), PRACTICES["mediocre"], seed=3, logged=400, rounds=200)
    assert all(
        np.array_equal(one, other)
        for one, other in zip(vars(problem).values(), vars(again).values(), strict=True)
    )
    assert np.allclose(problem.practice.sum(axis=1), 1) and (problem.paid.sum(axis=1) == 1).all()
    assert set(np.round(problem.log_chances, 9)) == {round(0.2 / 3, 9), round(0.8 + 0.2 / 3, 9)}
    # In 400 draws the likely arm has 347 plays, with a deviation of 7: a false alarm is below 1e-6.
    assert abs((problem.log_chances > 0.5).sum() - 400 * (0.8 + 0.2 / 3)) < 35


def test_practice_that_learnt_more_rows_earns_more(real: Any) -> None:
    from real_problems import PRACTICES, problem_of

    def earned(quality: str) -> float:
        runs = (problem_of(rows_of(real), PRACTICES[quality], seed) for seed in range(10))
        return float(np.mean([(run.practice * run.paid).sum(axis=1).mean() for run in runs]))

    assert earned("poor") < earned("mediocre") < earned("good")


def test_only_runs_of_the_same_seed_are_compared(real: Any) -> None:
    from real_results import summaries

    cells = [run_of(0, 0.5), run_of(1, 0.7), run_of(1, 0.6, "other"), run_of(2, 0.1, "other")]
    found = summaries(cells)
    assert found["t", "poor", "other", ""]["against Gated()"] == pytest.approx(-0.1)
    assert found["t", "poor", "linoto: Gated", ""]["against Gated()"] == 0
    assert found["t", "poor", "other", ""]["worst below practice"] == 20


def test_an_interval_is_students(real: Any) -> None:
    from real_results import half_width

    assert half_width([1.0]) is None
    assert half_width([0.0, 1.0, 2.0]) == pytest.approx(4.30 / 3**0.5)


def test_the_best_setting_is_chosen_for_each_table(real: Any) -> None:
    from real_results import report

    worse, better = run_of(0, 0.2, "peer"), run_of(0, 0.9, "peer", words="alpha .1")
    text = report([run_of(0, 0.5), worse, better])[1]
    as_it_comes, best = text.split("With the best of the stated settings")
    assert ".200" in as_it_comes and ".900" in best and ".200" not in best.split("As it comes")[0]


def test_a_package_that_cannot_be_installed_is_in_the_table_with_the_reason(real: Any) -> None:
    from real_results import report

    failed = run_of(0, 0.0, "peer", reason="cannot be installed: no wheel")
    assert "cannot be installed: no wheel" in report([run_of(0, 0.5), failed])[1]


def test_other_groups_of_tables_are_played_only_when_asked_for(
    real: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*words: str) -> set[str]:
        parser = real.parser_of()
        return {table.name for table in real.bench_of(parser, parser.parse_args(words)).tables}

    groups = asked(), asked("--more"), asked("--held-out")
    assert min(map(len, groups)) >= 4 and sum(map(len, groups)) == len(set().union(*groups))
    with pytest.raises(SystemExit):
        asked("--tables", "pens")
    assert "must be some of digits" in capsys.readouterr().err


def test_every_table_says_its_licence_and_every_package_how_it_plays(real: Any) -> None:
    from real_tables import TABLES

    assert all(table.licence and table.source for table in TABLES)
    assert len({table.name for table in TABLES}) == len(TABLES) >= 8
    for policy in real.POLICIES:
        player = BENCHMARKS / "contestants" / f"play_{policy.package}.py"
        assert "\ndef table(" in player.read_text(encoding="utf-8")


def test_finished_runs_are_kept_and_one_that_was_cut_short_is_played_again(real: Any, tmp_path: Path) -> None:
    from real_tables import Table

    table = Table("t", "", "", lambda _: rows_of(real), "ours", "made up")
    bench, file = bench_of(real, table, ("numpy",)), tmp_path / "runs.jsonl"
    commands = {"numpy": [sys.executable]}

    def play() -> Any:
        with ExitStack() as stack:
            player = real.Player(real.Workers(commands, 60.0, stack), {}, file)
            player.play(bench)
        return player

    first = play()
    assert first.played == 8 and all(cell["earned"] > 1 / 3 for cell in first.done.values())
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1][:40] + "\n", encoding="utf-8")
    again = play()
    assert again.played == 1
    assert {key: cell["earned"] for key, cell in again.done.items()} == {
        key: cell["earned"] for key, cell in first.done.items()
    }


@pytest.mark.few(0)
def test_ours_plays_a_table_behind_its_gate_and_says_why_a_run_failed(real: Any, tmp_path: Path) -> None:
    from real_problems import PRACTICES, problem_of

    file = tmp_path / "problem.npz"
    problem_of(rows_of(real), PRACTICES["mediocre"], 0, logged=80, rounds=30).save(file)
    order = {"player": "play_linoto", "policy": "Gated", "settings": real.GATED["share .02"], "seed": 0}
    with ExitStack() as stack:
        workers = real.Workers({"linoto": [sys.executable]}, 300.0, stack)
        answer = workers.ask("linoto", {**order, "problem": str(file)})
        failed = workers.ask("linoto", {**order, "policy": "Nobody", "problem": str(file)})
    assert len(answer["rewards"]) == 30 and set(answer["rewards"]) <= {"0", "1"}
    assert "Nobody" in failed["reason"] and json.dumps(answer)
