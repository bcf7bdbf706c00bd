"""Experiments: settings as data, the same worlds for every policy, and a parallel runner that resumes.

A *cell* is one run of one policy in one setting. The world of run r depends on (seed, r) and the setting
alone, so every policy meets the same actions, the same log and the same noise, and the numbers are the same
bit for bit whatever the number of jobs and whatever was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import filterfalse, tee
from pathlib import Path
from typing import NamedTuple

import numpy as np

from linoto.core.offline import Offline
from linoto.core.validation import check_count, check_seed
from linoto.engines import THREADS, Engine, Track, map_cells, tracked
from linoto.experiments.cells import CellStore, Curves, code_of, digest
from linoto.experiments.results import Results
from linoto.experiments.settings import Experiment, Setting
from linoto.worlds.bandits import LinearBandit
from linoto.worlds.simulate import simulate
from linoto.worlds.violations import promise_violation

UNPLAYED = ("name", "policies", "left_out")  # of a setting: what does not decide the numbers of a cell


class CellFailed(RuntimeError):  # noqa: N818 - what happened, like KeyboardInterrupt
    """A run of a policy in a setting raised; the message names all three."""


class Cell(NamedTuple):
    """One run of one policy in one setting."""

    setting: Setting
    label: str
    run: int

    def __str__(self) -> str:
        return f"setting {self.setting.name!r}, policy {self.label!r}, run {self.run}"


def run_experiment(
    experiment: Experiment,
    *,
    runs: int = 5,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    track: Track | None = None,
    engine: Engine = THREADS,
) -> Results:
    """Run every cell of an experiment: the same numbers, bit for bit, on every engine.

    With `out`, finished cells are kept in `<out>/<name>.cells.sqlite`, and `resume` takes from there every
    cell that is exactly what would be computed: same setting, policy, seed, run and version, and for classes
    of your own the same file that defines them. Without `resume` the first finished cell replaces what is
    there, unless that has more runs: then it is refused. `track` is called after each cell with how many of
    how many are done.
    """
    check_count("runs", runs)
    check_seed(seed)
    path = None if out is None else Path(out) / f"{experiment.name}.cells.sqlite"
    counts = {setting.name: len(setting.metrics) for setting in experiment.settings}
    store = CellStore.open(path, resume=resume, keys=describe(experiment, seed), metrics=counts)
    try:
        if store.replaced and store.runs > runs:
            raise ValueError(
                f"runs must be at least {store.runs} to replace the {store.runs} runs in {path}, got {runs}: "
                "resume to keep them, choose another folder, or remove the file"
            )
        run_missing(experiment, store, runs=runs, seed=seed, track=track, engine=engine)
    finally:
        store.release()
    return Results(experiment=experiment, runs=runs, seed=seed, store=store)


def run_missing(
    experiment: Experiment, store: CellStore, *, runs: int, seed: int, track: Track | None, engine: Engine
) -> None:
    """Play and keep the cells that a store does not hold."""

    def finished(cell: Cell) -> bool:
        return store.holds(cell.setting.name, cell.label, cell.run)

    done = sum(map(finished, all_cells(experiment, runs)))
    total = runs * sum(len(setting.labels) for setting in experiment.settings)
    missing, names = tee(filterfalse(finished, all_cells(experiment, runs)))
    with closing(map_cells(partial(run_cell, seed=seed), missing, engine=engine)) as results:
        for curves in tracked(results, track, total=total, done=done):
            cell = next(names)
            store.append(cell.setting.name, cell.label, cell.run, curves)


def all_cells(experiment: Experiment, runs: int) -> Iterator[Cell]:
    """Runs outermost: more runs only add to the end. One at a time, for there may be millions."""
    for run in range(runs):
        for setting in experiment.settings:
            for label in setting.labels:
                yield Cell(setting, label, run)


def run_cell(cell: Cell, seed: int) -> Curves:
    """Simulate one cell, and keep some rounds of its curves."""
    setting = cell.setting
    try:
        bandit, offline, own = draw_instance(setting, seed, cell.run)
        policy = setting.policy(cell.label)
        run = simulate(policy, bandit, offline, horizon=setting.horizon, seed=own)
        violation = promise_violation(policy, bandit, offline, run)
    except Exception as error:
        raise CellFailed(f"{cell} failed: {type(error).__name__}: {error}") from error
    kept = setting.rounds - 1
    return Curves(
        regret=run.regret[kept],
        offline_regret=run.offline_regret[kept],
        explored=np.cumsum(run.explored, dtype=np.float64)[kept],
        worst=max(0.0, float(run.offline_regret.max())),
        promise_violation=violation,
        metrics=np.array([run.metrics[name].more[kept] for name in setting.metrics]),
    )


def draw_instance(setting: Setting, seed: int, run: int) -> tuple[LinearBandit, Offline, int]:
    """The instance of a run: its bandit, its log, and the seed of its noise and of the policy's own draws."""
    instance, log, own, metrics = np.random.SeedSequence([seed, run]).spawn(4)
    bandit = setting.bandit(np.random.default_rng(instance))
    offline = setting.log(bandit, np.random.default_rng(log))
    whole = setting.with_metrics(bandit, np.random.default_rng(metrics))
    return whole, offline, int(own.generate_state(1, np.uint64)[0])


def describe(experiment: Experiment, seed: int) -> dict[tuple[str, str], str]:
    """A digest of everything that decides a cell's numbers besides its run, by setting and label."""
    keys = {}
    for setting in experiment.settings:
        world = {"world": type(setting).__qualname__, "code": code_of(type(setting))}
        problem = {name: value for name, value in vars(setting).items() if name not in UNPLAYED}
        if not setting.metrics:
            del problem["metrics"]  # cells of earlier versions have none
        for label, policy in setting.pairs:
            facts = {**world, "problem": problem, "policy": policy, "seed": seed}
            keys[setting.name, label] = digest(facts)
    return keys
