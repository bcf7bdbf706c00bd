from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cells import rows_of, wait_for_cells
from helpers.forks import ForkedCommand

from linoto import (
    Bandit,
    Confidence,
    Doubling,
    Engine,
    Gated,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Random,
    Tolerance,
    simulate,
)
from linoto.experiments.cells import CellStore
from linoto.experiments.results import mean_and_error
from linoto.experiments.run import CellFailed, draw_instance, run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.worlds.violations import promise_violation

POLICIES = {"LinOtO": LinOtO(), "LinUCB": LinUCB(scale=1.0), "LinTS": LinTS(), "Random": Random()}
SMALL = Setting(name="small", k=12, d=4, m=20, logged_arms=3, horizon=60, policies=POLICIES)
EXPERIMENT = Experiment(name="tiny", settings=(SMALL, replace(SMALL, name="larger", m=40)))
CELLS = "tiny.cells.sqlite"


@dataclass(frozen=True)
class FirstArm:
    """A policy of a user: plain Python, knows nothing of linoto."""

    fails: bool = False

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> FirstArm:
        return self

    def select(self) -> int:
        if self.fails:
            raise ArithmeticError("it does not add up")
        return 0

    def update(self, arm: int, reward: float) -> None:
        pass


# -- the same numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [2, 5])
def test_any_number_of_jobs_writes_the_same_file(tmp_path: Path, jobs: int) -> None:
    run_experiment(EXPERIMENT, runs=4, seed=3, engine=Engine(jobs=1), out=tmp_path / "one")
    run_experiment(EXPERIMENT, runs=4, seed=3, engine=Engine(jobs=jobs), out=tmp_path / "many")
    assert (tmp_path / "one" / CELLS).read_bytes() == (tmp_path / "many" / CELLS).read_bytes()


def test_a_cell_does_not_depend_on_what_else_is_run() -> None:
    alone = Experiment(name="alone", settings=(replace(SMALL, policies={"LinTS": LinTS()}),))
    everything = run_experiment(EXPERIMENT, runs=3, seed=1)
    by_itself = run_experiment(alone, runs=3, seed=1)
    for field in ("regret", "offline_regret", "explored"):
        one, other = (r.final("small", "LinTS", field) for r in (everything, by_itself))
        assert np.array_equal(one, other)


def test_more_runs_only_add_to_the_end(tmp_path: Path) -> None:
    run_experiment(EXPERIMENT, runs=2, out=tmp_path / "few")
    run_experiment(EXPERIMENT, runs=3, out=tmp_path / "more")
    few, more = (rows_of(tmp_path / name / CELLS) for name in ("few", "more"))
    assert more[: len(few)] == few and len(more) > len(few)


def test_settings_share_worlds_and_logged_arms() -> None:
    (bandit, log, seed), (same, longer, same_seed) = (draw_instance(s, 7, 2) for s in EXPERIMENT.settings)
    assert np.array_equal(bandit.actions, same.actions) and np.array_equal(bandit.theta, same.theta)
    assert seed == same_seed
    assert np.array_equal(log.pulls > 0, longer.pulls > 0)


def test_runs_and_seeds_give_different_worlds() -> None:
    seeds = {draw_instance(SMALL, seed, run)[2] for seed in range(5) for run in range(5)}
    assert len(seeds) == 25


def test_the_best_arm_is_logged_only_if_asked() -> None:
    for run in range(20):
        bandit, log, _ = draw_instance(SMALL, 0, run)
        assert log.pulls[bandit.best] == 0
        _, with_best, _ = draw_instance(replace(SMALL, include_best=True), 0, run)
        assert with_best.pulls[bandit.best] > 0 and with_best.total == log.total


# -- resuming ---------------------------------------------------------------------------------------------


def interrupt_after(cells: int) -> Any:
    def track(done: int, total: int) -> None:
        if done == cells:
            raise KeyboardInterrupt

    return track


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("cells", [0, 1, 9])
@pytest.mark.few(3)
def test_an_interrupted_experiment_goes_on_where_it_stopped(tmp_path: Path, jobs: int, cells: int) -> None:
    run_experiment(EXPERIMENT, runs=3, out=tmp_path / "whole", engine=Engine(jobs=jobs))
    with pytest.raises(KeyboardInterrupt):
        run_experiment(
            EXPERIMENT,
            runs=3,
            out=tmp_path / "cut",
            engine=Engine(jobs=jobs),
            track=interrupt_after(cells),
        )
    finished = len(rows_of(tmp_path / "cut" / CELLS))
    assert cells <= finished < 24
    seen: list[int] = []
    run_experiment(
        EXPERIMENT,
        runs=3,
        out=tmp_path / "cut",
        engine=Engine(jobs=jobs),
        resume=True,
        track=lambda done, _: seen.append(done),
    )
    assert seen == list(range(finished, 25))  # nothing was computed twice
    assert rows_of(tmp_path / "cut" / CELLS) == rows_of(tmp_path / "whole" / CELLS)


def test_resume_keeps_only_what_would_come_out_the_same(tmp_path: Path) -> None:
    run_experiment(EXPERIMENT, runs=2, out=tmp_path)
    changed = replace(SMALL, policies={**POLICIES, "LinOtO": LinOtO(alpha=3.0)})
    seen: list[int] = []
    experiment = replace(EXPERIMENT, settings=(changed, EXPERIMENT.settings[1]))
    results = run_experiment(
        experiment, runs=2, out=tmp_path, resume=True, track=lambda done, _: seen.append(done)
    )
    assert seen[0] == 14  # of 16, two cells of the changed policy are new
    fresh = run_experiment(experiment, runs=2)
    assert results.table() == fresh.table()
    seen.clear()
    run_experiment(experiment, runs=2, seed=1, out=tmp_path, resume=True, track=lambda d, _: seen.append(d))
    assert seen[0] == 0


def test_without_resume_our_file_is_replaced_and_counted(tmp_path: Path) -> None:
    run_experiment(EXPERIMENT, runs=2, out=tmp_path)
    results = run_experiment(EXPERIMENT, runs=2, seed=1, out=tmp_path)
    assert results.store.replaced == 16
    assert len(rows_of(tmp_path / CELLS)) == 16


def test_fewer_runs_never_replace_more(tmp_path: Path) -> None:
    run_experiment(EXPERIMENT, runs=2, out=tmp_path)
    before = rows_of(tmp_path / CELLS)
    with pytest.raises(ValueError, match=r"runs must be at least 2 to replace the 2 runs in .*: resume"):
        run_experiment(EXPERIMENT, runs=1, seed=1, out=tmp_path)
    assert rows_of(tmp_path / CELLS) == before
    assert run_experiment(EXPERIMENT, runs=1, out=tmp_path, resume=True).store.runs == 2


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("content", ["precious\n", "precious", '{"format": 1}\n{}\n'])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: str, resume: bool) -> None:
    (tmp_path / CELLS).write_text(content)
    with pytest.raises(ValueError, match="move it away"):
        run_experiment(EXPERIMENT, runs=1, out=tmp_path, resume=resume)
    assert (tmp_path / CELLS).read_text() == content


def test_a_process_that_is_killed_loses_no_finished_cell(tmp_path: Path) -> None:
    """One that is interrupted: tests/cli/test_commands.py."""
    words = ["reproduce", "horizon", "--runs", "1000", "--jobs", "2", "--out", str(tmp_path)]
    cells, log = tmp_path / "horizon.cells.sqlite", tmp_path / "log"
    process = ForkedCommand(words, tmp_path, {}, log=log, out=log)
    try:
        wait_for_cells(cells)
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = CellStore.open(cells, resume=True, keys={})  # checks every row
    finished.release()
    runs = [row[3] for row in rows_of(cells)]
    assert 4 < len(runs) < 12_000 and runs == sorted(runs)


# -- failing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failed_cell_fails_the_run_and_names_itself(tmp_path: Path, jobs: int) -> None:
    broken = replace(SMALL, name="odd", policies={"LinOtO": LinOtO(), "mine": FirstArm(fails=True)})
    experiment = Experiment(name="tiny", settings=(SMALL, broken))
    with pytest.raises(CellFailed, match="setting 'odd', policy 'mine', run 0 failed: ArithmeticError: it"):
        run_experiment(experiment, runs=2, engine=Engine(jobs=jobs), out=tmp_path)
    assert [row[1] for row in rows_of(tmp_path / CELLS)] == [*POLICIES, "LinOtO"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be a whole number >= 1, got 0"),
        ({"horizon": 1.5}, "horizon must be a whole number"),
        ({"logged_arms": 12}, "logged_arms must be at most 11 here, got 12"),
        ({"noise": -1.0}, "noise must be a number >= 0"),
        ({"rewards": "poisson"}, "rewards must be one of"),
        ({"include_best": 1}, "include_best must be true or false"),
        ({"points": 1}, r"points must be in \[2, 200\]"),
        ({"points": 201}, r"points must be in \[2, 200\]"),
        ({"d": 1, "rewards": "bernoulli"}, "d must be at least 2"),
        ({"policies": {}}, "policies must hold at least one policy"),
        ({"policies": {"x": LinOtO}}, "policies must have a start method"),
        ({"policies": [("x", LinOtO()), ("x", LinTS())]}, "distinct names, got 'x' twice"),
        ({"name": ""}, "name must be one line of text"),
    ],
)
def test_a_bad_setting_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)


def test_a_bad_experiment_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="name must be made of letters"):
        Experiment(name="../x", settings=(SMALL,))
    with pytest.raises(ValueError, match="distinct names, got 'small' twice"):
        Experiment(name="x", settings=(SMALL, SMALL))
    with pytest.raises(ValueError, match="at least one setting"):
        Experiment(name="x", settings=())
    for options in ({"runs": 0}, {"seed": -1}, {"engine": "threads"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            run_experiment(EXPERIMENT, **options)


# -- what comes out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 7, 160, 161, 8000, 1_000_003])
def test_curves_are_thin_and_keep_both_ends(horizon: int) -> None:
    rounds = replace(SMALL, horizon=horizon).rounds
    assert rounds[0] == 1 and rounds[-1] == horizon
    assert rounds.size <= 200 and (np.diff(rounds) > 0).all()


def test_the_paper_s_landmarks_are_kept_exactly() -> None:
    assert {1, 100, 1000, 4000, 7200, 8000} <= set(replace(SMALL, horizon=8000).rounds.tolist())


def test_tables_agree_with_the_cells() -> None:
    results = run_experiment(EXPERIMENT, runs=4, seed=5)
    row = next(r for r in results.table() if (r["setting"], r["policy"]) == ("larger", "LinUCB"))
    final = results.final("larger", "LinUCB", "regret")
    assert row["regret"] == pytest.approx(final.mean(), rel=1e-12)
    assert row["regret_se"] == pytest.approx(final.std(ddof=1) / 2, rel=1e-12)
    assert row["explored"] == 1.0 and row["runs"] == 4
    tidy = list(results.rows())
    assert len(tidy) == 2 * 4 * 4 * SMALL.rounds.size
    assert list(tidy[0]) == ["setting", "policy", "run", "round", "regret", "offline_regret", "explored"]


def test_one_run_has_no_standard_error() -> None:
    results = run_experiment(EXPERIMENT, runs=1)
    assert all(row["regret_se"] is None for row in results.table())
    assert np.isnan(results.curve("small", "LinOtO", "regret").error).all()


def test_the_largest_shortfall_is_over_all_rounds_and_never_negative() -> None:
    results = run_experiment(EXPERIMENT, runs=5)
    for label in POLICIES:
        worst = results.worst("small", label)
        curves = np.array([cell.offline_regret for cell in results.cells("small", label)])
        assert (worst >= np.maximum(curves.max(axis=1), 0.0)).all()


def test_regrets_at_one_round_differ_by_a_constant_of_the_world() -> None:
    results = run_experiment(EXPERIMENT, runs=3)
    gaps = [
        results.final("small", label, "regret") - results.final("small", label, "offline_regret")
        for label in POLICIES
    ]
    for gap in gaps[1:]:
        assert gap == pytest.approx(gaps[0], abs=1e-9)


def test_mean_and_error_are_those_of_numpy_even_far_from_zero() -> None:
    values = np.random.default_rng(0).normal(1e9, 1.0, size=(50, 3))
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(values.mean(axis=0), rel=1e-15)
    assert error == pytest.approx(values.std(axis=0, ddof=1) / np.sqrt(50), rel=1e-6)


def test_a_users_own_policy_and_world_need_a_few_lines() -> None:
    class Tied(Setting):
        def bandit(self, rng: np.random.Generator) -> Any:
            bandit = super().bandit(rng)
            return replace(bandit, theta=0 * bandit.theta)

    setting = Tied(name="tied", k=5, d=2, logged_arms=2, horizon=30, policies={"mine": FirstArm()})
    results = run_experiment(Experiment(name="own", settings=(setting,)), runs=2)
    assert results.final("tied", "mine", "regret").tolist() == [0.0, 0.0]
    assert results.final("tied", "mine", "explored").tolist() == [30.0, 30.0]


def test_bernoulli_worlds_have_means_between_0_and_1_that_differ() -> None:
    setting = replace(SMALL, rewards="bernoulli", policies={"LinLCB": LinLCB(), "LinTS": LinTS()})
    for run in range(20):
        means = draw_instance(setting, 0, run)[0].means
        assert means.min() >= 0 and means.max() <= 1 and np.ptp(means) > 0.1
    results = run_experiment(Experiment(name="coins", settings=(setting,)), runs=2)
    assert (results.final("small", "LinTS", "regret") >= 0).all()


@pytest.mark.slow
def test_a_cluster_plays_the_same_bits_as_threads(tmp_path: Path) -> None:
    """A real local Dask cluster of two processes; in the usual suite: the one of tests/test_engines.py."""
    setting = Setting(name="small", k=8, d=3, m=20, logged_arms=4, horizon=200, policies={"LinOtO": LinOtO()})
    experiment = Experiment(name="mine", settings=(setting,))
    here = run_experiment(experiment, runs=3, out=tmp_path / "here")
    there = run_experiment(experiment, runs=3, out=tmp_path / "there", engine=Engine(kind="dask", jobs=2))
    assert here.table() == there.table()
    files = [tmp_path / name / "mine.cells.sqlite" for name in ("here", "there")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_policy_that_promises_nothing_can_be_wrapped() -> None:
    setting = replace(SMALL, policies={"mine": FirstArm(), "in epochs": Doubling(policy=FirstArm())})
    results = run_experiment(Experiment(name="plain", settings=(setting,)), runs=1)
    assert results.final("small", "mine", "regret") == results.final("small", "in epochs", "regret")


def test_a_promise_about_realised_rewards_is_judged_by_rewards() -> None:
    """A world whose arms all earn .5 loses nothing in means; what it really earned differs by luck alone."""
    log = Offline(pulls=[40, 0], reward_sums=[20.0, 0.0])
    bandit = Bandit(actions=np.eye(2), means=[0.5, 0.5], rewards="bernoulli")
    confidence = Confidence(noise="bounded", reward_range=(0.0, 1.0))
    gaps = {}
    for promise in ("expected", "realised"):
        gate = Tolerance(budget=30.0, evidence="rewards", promise=promise)  # type: ignore[arg-type]
        policy = Gated(explorer=Random(), gate=gate, confidence=confidence)
        run = simulate(policy, bandit, log, horizon=200, seed=1)
        assert set(run.rewards.tolist()) == {0.0, 1.0}
        below = np.cumsum(np.where(run.explored, 0.5 - run.rewards, 0.0))
        limit = policy.certificate(bandit.actions, log).loss(1)
        gaps[promise] = promise_violation(policy, bandit, log, run) + limit
        wanted = below.max() if promise == "realised" else 0.0
        assert gaps[promise] == pytest.approx(wanted, abs=1e-9)
    assert gaps["realised"] > 1.0
