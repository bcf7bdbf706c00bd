"""Experiments: settings as data, the same worlds for every policy, and a parallel runner that resumes.

A *cell* is one run of one policy in one setting. The world of run r depends on (seed, r) and the setting
alone, so every policy meets the same actions, the same log and the same noise, and the numbers are the same
bit for bit whatever the number of jobs and whatever was interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linoto.core.offline import Offline
from linoto.core.validation import check_count, check_seed
from linoto.engines import Engine, check_engine, map_cells
from linoto.experiments.cells import CellStore, Curves, code_of, digest
from linoto.experiments.results import Results
from linoto.experiments.settings import Experiment, Setting
from linoto.worlds.bandits import LinearBandit
from linoto.worlds.simulate import Run, simulate

Track = Callable[[int, int], None]  # cells finished, cells in all


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
    jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    track: Track | None = None,
    engine: Engine = "threads",
    scheduler: str | None = None,
) -> Results:
    """Play every cell of an experiment, `jobs` at a time (None: one for each core).

    `engine="dask"` plays them on a cluster (`linoto.engines`): the same numbers, bit for bit.

    With `out`, finished cells are kept in `<out>/<name>.cells.jsonl`, and `resume` takes from there every
    cell that is exactly what would be computed: same setting, policy, seed, run and version, and for classes
    of your own the same file that defines them. Without `resume` the first finished cell replaces what is
    there. `track` is told after each cell how many of how many are done.
    """
    check_count("runs", runs)
    check_seed(seed)
    workers = check_engine(engine, scheduler, jobs)
    keys = describe(experiment, seed)
    path = None if out is None else Path(out) / f"{experiment.name}.cells.jsonl"
    store = CellStore.open(path, resume=resume, keys=keys)
    try:
        where = {"engine": engine, "scheduler": scheduler, "jobs": workers}
        play_missing(experiment, store, runs=runs, seed=seed, track=track, **where)
    finally:
        store.release()
    return Results(experiment=experiment, runs=runs, seed=seed, store=store)


def play_missing(
    experiment: Experiment, store: CellStore, *, runs: int, seed: int, track: Track | None, **where: Any
) -> None:
    """Play and keep the cells that a store does not hold."""

    def finished(cell: Cell) -> bool:
        return store.holds(cell.setting.name, cell.label, cell.run)

    total = runs * sum(len(setting.labels) for setting in experiment.settings)
    counter = Counter(done=sum(map(finished, all_cells(experiment, runs))), total=total, track=track)

    def keep(cell: Cell, curves: Curves) -> None:
        store.append(cell.setting.name, cell.label, cell.run, curves)
        counter.step()

    missing = filterfalse(finished, all_cells(experiment, runs))
    if where["engine"] == "threads":
        play_all(missing, seed=seed, jobs=where["jobs"], keep=keep)
    else:
        play_elsewhere(list(missing), seed, keep, **where)


def all_cells(experiment: Experiment, runs: int) -> Iterator[Cell]:
    """Runs outermost: more runs only add to the end. One at a time, for there may be millions."""
    for run in range(runs):
        for setting in experiment.settings:
            for label in setting.labels:
                yield Cell(setting, label, run)


def play_all(cells: Iterator[Cell], *, seed: int, jobs: int, keep: Callable[[Cell, Curves], None]) -> None:
    """Play cells on threads (the kernels release the GIL) and keep them in the order given.

    What has started when something goes wrong, Ctrl-C included, is finished and kept: cells start in order,
    so the file never has a hole.
    """
    first = next(cells, None)
    if first is None:
        return
    keep(first, play(first, seed))  # alone: it loads or compiles the kernels, once
    waiting: deque[tuple[Cell, Future[Curves]]] = deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for cell in cells:
                waiting.append((cell, pool.submit(play, cell, seed)))
                if len(waiting) > 2 * jobs:
                    keep_first(waiting, keep)
            while waiting:
                keep_first(waiting, keep)
        except BaseException:
            for _, future in waiting:
                future.cancel()
            while waiting and not waiting[0][1].cancelled() and waiting[0][1].exception() is None:
                keep_first(waiting, keep)
            raise


def play_elsewhere(cells: list[Cell], seed: int, keep: Callable[[Cell, Curves], None], **where: Any) -> None:
    """Play cells on another engine and keep them in the order given."""
    for cell, curves in zip(cells, map_cells(partial(play, seed=seed), cells, **where), strict=True):
        keep(cell, curves)


def keep_first(waiting: deque[tuple[Cell, Future[Curves]]], keep: Callable[[Cell, Curves], None]) -> None:
    """Wait for the oldest cell, then keep it."""
    cell, future = waiting[0]
    curves = future.result()
    waiting.popleft()
    keep(cell, curves)


def play(cell: Cell, seed: int) -> Curves:
    """One cell, thinned."""
    setting = cell.setting
    try:
        bandit, offline, own = world(setting, seed, cell.run)
        policy = setting.policy(cell.label)
        run = simulate(policy, bandit, offline, horizon=setting.horizon, seed=own)
        over = overdrawn(policy, bandit, offline, run)
    except Exception as error:
        raise CellFailed(f"{cell} failed: {type(error).__name__}: {error}") from error
    kept = setting.rounds - 1
    return Curves(
        regret=run.regret[kept].tolist(),
        offline_regret=run.offline_regret[kept].tolist(),
        explored=np.cumsum(run.explored)[kept].tolist(),
        worst=max(0.0, float(run.offline_regret.max())),
        overdrawn=over,
    )


def overdrawn(policy: Any, bandit: LinearBandit, offline: Offline, run: Run) -> float | None:
    """The largest R_t^off less what the policy's certificate allows; above 0 the promise was broken."""
    if not hasattr(policy, "certificate"):
        return None
    certificate = policy.certificate(bandit.actions, offline)
    if not certificate.holds:
        return None
    rounds = np.arange(1, run.arms.size + 1)
    return float((run.offline_regret - certificate.per_round * rounds).max() - certificate.constant)


def world(setting: Setting, seed: int, run: int) -> tuple[LinearBandit, Offline, int]:
    """The world of a run: its bandit, its log, and the seed of its noise and of the policy's own draws."""
    instance, log, play = np.random.SeedSequence([seed, run]).spawn(3)
    bandit = setting.bandit(np.random.default_rng(instance))
    offline = setting.log(bandit, np.random.default_rng(log))
    return bandit, offline, int(play.generate_state(1, np.uint64)[0])


def describe(experiment: Experiment, seed: int) -> dict[tuple[str, str], str]:
    """A digest of everything that decides a cell's numbers besides its run, by setting and label."""
    keys = {}
    for setting in experiment.settings:
        world = {"world": type(setting).__qualname__, "code": code_of(type(setting))}
        problem = {name: value for name, value in vars(setting).items() if name not in ("name", "policies")}
        for label, policy in setting.pairs:
            facts = {**world, "problem": problem, "policy": policy, "seed": seed}
            keys[setting.name, label] = digest(facts)
    return keys


@dataclass(kw_only=True)
class Counter:
    """How many cells are done, and who wants to know."""

    done: int
    total: int
    track: Track | None = field(default=None)

    def __post_init__(self) -> None:
        if self.track is not None:
            self.track(self.done, self.total)

    def step(self) -> None:
        self.done += 1
        if self.track is not None:
            self.track(self.done, self.total)
