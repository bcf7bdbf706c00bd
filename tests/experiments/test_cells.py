"""The file of finished cells: a mistake costs nothing, no damage is believed, one writer at a time."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.cells import change, rows_of
from helpers.forks import run_forked

from linoto import Engine, LinOtO, Random
from linoto.cli import main
from linoto.experiments.cells import CellStore, folder_lock
from linoto.experiments.run import CellFailed, describe, run_experiment
from linoto.experiments.settings import Experiment, Setting

pytestmark = pytest.mark.usefixtures("blank_pictures")
SETTING = Setting(
    name="small",
    k=8,
    d=3,
    m=20,
    logged_arms=3,
    horizon=30,
    policies={"LinOtO": LinOtO(), "Random": Random()},
)
EXPERIMENT = Experiment(name="tiny", settings=(SETTING,))
RUNS = 3


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """A file of six finished cells."""
    run_experiment(EXPERIMENT, runs=RUNS, out=tmp_path)
    return tmp_path / "tiny.cells.sqlite"


def played(out: Path, experiment: Experiment = EXPERIMENT) -> int:
    """How many cells `resume` computes."""
    seen: list[int] = []
    run_experiment(experiment, runs=RUNS, out=out, resume=True, track=lambda done, _: seen.append(done))
    return seen[-1] - seen[0]


# -- a mistake costs nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": "spark"},
        {"engine": Engine(kind="dask", scheduler="foo")},
        {"seed": -1},
        {"runs": 0},
    ],
)
def test_a_wrong_option_leaves_finished_cells_alone(cells: Path, wrong: dict[str, Any], resume: bool) -> None:
    before = cells.read_bytes()
    with pytest.raises((ValueError, OSError), match=r"scheduler|engine|seed|runs"):
        run_experiment(EXPERIMENT, **{"runs": RUNS, "seed": 1, **wrong}, out=cells.parent, resume=resume)
    assert cells.read_bytes() == before
    assert played(cells.parent) == 0


class Fails:
    """A policy that cannot be started."""

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        raise ArithmeticError("it does not add up")


def test_only_a_finished_cell_replaces_finished_cells(cells: Path) -> None:
    before = cells.read_bytes()
    broken = replace(EXPERIMENT, settings=(replace(SETTING, policies={"mine": Fails()}),))
    with pytest.raises(CellFailed):
        run_experiment(broken, runs=RUNS, out=cells.parent)
    assert cells.read_bytes() == before


# -- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("numbers", b""),
        ("numbers", None),
        ("numbers", "text"),
        ("run", -1),
        ("run", 10**9),
        ("setting", b"\xff\xfe"),
        ("policy", "Randon"),
        ("key", ""),
        ("checksum", 0),
        ("checksum", None),
    ],
)
def test_a_row_that_is_not_as_it_was_written_is_refused(cells: Path, column: str, value: Any) -> None:
    change(cells, f"UPDATE cells SET {column} = ? WHERE rowid = 3", value)
    with pytest.raises(ValueError, match=r"tiny\.cells\.sqlite is damaged: move it away$"):
        played(cells.parent)
    change(cells, "DELETE FROM cells WHERE rowid = 3")
    assert played(cells.parent) == 1


def test_a_number_that_changed_is_never_shown(tmp_path: Path) -> None:
    results = run_experiment(EXPERIMENT, runs=1, out=tmp_path)
    path = tmp_path / "tiny.cells.sqlite"
    (numbers,) = {row[4] for row in rows_of(path) if row[1] == "Random"}
    for place in range(0, len(numbers), 7):
        hurt = bytearray(numbers)
        hurt[place] ^= 1
        change(path, "UPDATE cells SET numbers = ? WHERE policy = 'Random'", bytes(hurt))
        with pytest.raises(ValueError, match="is damaged"):
            results.store.read("small", "Random", 0)
    change(path, "UPDATE cells SET numbers = ? WHERE policy = 'Random'", numbers)
    assert results.store.read("small", "Random", 0).worst >= 0


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_that_is_cut_or_overwritten_is_refused_or_replaced_and_never_believed(
    cells: Path, resume: bool
) -> None:
    whole, table = cells.read_bytes(), rows_of(cells)
    for place in range(0, len(whole), 977):
        for hurt in (whole[:place], whole[:place] + bytes(600) + whole[place + 600 :]):
            cells.write_bytes(hurt)
            try:
                run_experiment(EXPERIMENT, runs=RUNS, out=cells.parent, resume=resume)
            except ValueError as error:
                assert "move it away" in str(error)
                assert cells.read_bytes() == hurt
            else:
                assert sorted(rows_of(cells)) == sorted(table)


@pytest.mark.parametrize("resume", [True, False])
def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path: Path, resume: bool) -> None:
    path = tmp_path / "tiny.cells.sqlite"
    change(path, "CREATE TABLE cells (precious)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="hold cells of format 3, got another file: move it away"):
        run_experiment(EXPERIMENT, runs=1, out=tmp_path, resume=resume)
    assert path.read_bytes() == before


def test_a_file_of_the_earlier_format_is_left_alone_and_named(tmp_path: Path) -> None:
    old = tmp_path / "tiny.cells.jsonl"
    old.write_bytes(b'{"linoto": "cells", "format": 2}\n{"setting":"small"}\n')
    for resume in (True, False):
        results = run_experiment(EXPERIMENT, runs=1, out=tmp_path, resume=resume)
        assert results.store.old_file == old
    assert old.read_bytes() == b'{"linoto": "cells", "format": 2}\n{"setting":"small"}\n'
    assert run_experiment(EXPERIMENT, runs=1, out=tmp_path / "new").store.old_file is None


def test_results_whose_file_was_replaced_say_so_and_show_nobody_else_s_numbers(tmp_path: Path) -> None:
    first = run_experiment(EXPERIMENT, runs=RUNS, out=tmp_path, seed=0)
    table = first.table()
    run_experiment(EXPERIMENT, runs=RUNS + 1, out=tmp_path, seed=0, resume=True)
    assert first.table() == table
    run_experiment(EXPERIMENT, runs=RUNS + 1, out=tmp_path, seed=1)
    with pytest.raises(ValueError, match=r"run 0 must be in .*tiny\.cells\.sqlite, got no such row"):
        first.table()


def test_with_resume_every_variant_keeps_its_cells(tmp_path: Path) -> None:
    other = replace(EXPERIMENT, settings=(replace(SETTING, policies={"LinOtO": LinOtO(alpha=3.0)}),))
    assert played(tmp_path) == 2 * RUNS
    assert played(tmp_path, other) == RUNS
    assert played(tmp_path) == played(tmp_path, other) == 0


# -- one writer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [True, False])
def test_a_file_has_one_writer_at_a_time(cells: Path, resume: bool) -> None:
    before = cells.read_bytes()
    code = (
        "import sys\nfrom pathlib import Path\nfrom linoto.experiments.cells import CellStore\n"
        f"CellStore.open(Path(sys.argv[1]), resume={resume}, keys={{}})"
    )
    command = [sys.executable, "-c", code, str(cells)]
    store = CellStore.open(cells, resume=True, keys=describe(EXPERIMENT, 0))
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "tiny.cells.sqlite is being written to by another run: wait for it" in other.stderr
    assert cells.read_bytes() == before
    store.release()
    subprocess.run(command, check=True)


def test_results_are_not_read_while_another_run_writes_and_are_afterwards(tmp_path: Path) -> None:
    results = run_experiment(EXPERIMENT, runs=1, out=tmp_path)
    store = CellStore.open(tmp_path / "tiny.cells.sqlite", resume=True, keys=describe(EXPERIMENT, 0))
    with pytest.raises(BlockingIOError, match="is being written to by another run"):
        results.table()
    store.release()
    assert len(results.table()) == 2


@pytest.mark.parametrize("fails", [True, False])
def test_a_run_that_ended_has_no_lock_however_it_ended(tmp_path: Path, fails: bool) -> None:
    policies = {"mine": Fails()} if fails else {"Random": Random()}
    experiment = replace(EXPERIMENT, settings=(replace(SETTING, policies=policies),))
    kept: list[Any] = []
    try:
        kept.append(run_experiment(experiment, runs=1, out=tmp_path))
    except CellFailed as error:
        kept.append(error)  # with all its frames
    assert played(tmp_path) == 2 * RUNS - (not fails) and kept


def test_a_damaged_file_is_not_locked_by_the_complaint(cells: Path) -> None:
    whole = cells.read_bytes()
    change(cells, "UPDATE cells SET checksum = 1")
    with pytest.raises(ValueError, match="damaged") as kept:
        played(cells.parent)
    cells.write_bytes(whole)
    assert played(cells.parent) == 0
    assert "tiny" in str(kept.value)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny.cells.sqlite").mkdir()
    with pytest.raises(OSError, match=r"tiny\.cells\.sqlite must be a file that can be read and written"):
        run_experiment(EXPERIMENT, runs=1, out=tmp_path)


def test_two_commands_cannot_share_a_folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    study = tmp_path / "mine.toml"
    study.write_text("[policies.x]\ntype = 'Random'\n[[setting]]\nk = 5\nlogged_arms = 2\nhorizon = 9\n")
    words = ["study", str(study), "--runs", "1", "--out", str(tmp_path)]
    with folder_lock(tmp_path):
        assert run_forked(words, tmp_path_factory.mktemp("printed")) == (
            1,
            f"linoto: {tmp_path} is being written to by another run: wait for it, or choose another folder\n",
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.toml"]
    assert main(words) == 0
    assert len(rows_of(tmp_path / "mine.cells.sqlite")) == 1


# -- whose code it was ------------------------------------------------------------------------------------

MINE = """
from linoto.experiments.run import Setting


class Agent:
    def select(self):
        return {arm}

    def update(self, arm, reward):
        pass


class Mine:
    def start(self, actions, offline, rng=0):
        return Agent()

    def __repr__(self):
        return "Mine()"


class World(Setting):
    pass
"""


@pytest.mark.parametrize(("kind", "again"), [("policy", RUNS), ("world", 2 * RUNS)])
def test_cells_of_classes_whose_file_changed_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, again: int
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def mine(arm: int, note: str = "") -> Experiment:
        (tmp_path / "file_of_mine.py").write_text(MINE.format(arm=arm) + note)
        sys.modules.pop("file_of_mine", None)
        importlib.invalidate_caches()
        module = importlib.import_module("file_of_mine")
        if kind == "world":
            return replace(EXPERIMENT, settings=(module.World(**vars(SETTING)),))
        policies = {"mine": module.Mine(), "Random": Random()}
        return replace(EXPERIMENT, settings=(replace(SETTING, policies=policies),))

    assert played(tmp_path, mine(0)) == 2 * RUNS
    assert played(tmp_path, mine(0)) == 0
    assert played(tmp_path, mine(1)) == again  # what is not of that file is kept
    assert played(tmp_path, mine(1, "# another helper\n")) == again
    sys.modules.pop("file_of_mine", None)
