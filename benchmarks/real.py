"""Our policies and other packages on real tables, from a log of practice: python benchmarks/real.py.

Tables come out of packages of PyPI (`real_tables.py`), peers live in environments of their own. Every run
starts from 1,000 logged rows of a practice of a stated quality and plays 1,500 rounds; contestants of one
seed see the same log and the same rounds. Each policy is played as it comes and with a few stated settings.
Every run is kept as soon as it is finished, so the same command goes on where it was stopped. There are six
open tables, six more (`--more`), and six that are held out (`--held-out`): no default is chosen by those.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from peer_turns import StoppedError, Worker
from peers import PRESENT, commands_of, compile_ours, keep, machine
from real_problems import LOGGED, PRACTICES, ROUNDS, problem_of
from real_results import Cell, report
from real_tables import TABLES, Table

import linoto

WORKER = Path(__file__).parent / "contestants" / "table_worker.py"
Settings = dict[str, Any]
SLOW = ("mabwiser", "bayesianbandits", "contextualbandits", "coba")  # over 1 ms a decision: fewer runs


@dataclass(frozen=True)
class Policy:
    """A policy of a package: as it comes, and with a few other settings."""

    package: str
    policy: str
    settings: dict[str, Settings] = field(default_factory=dict)  # by the words of the table
    as_it_comes: Settings = field(default_factory=dict)
    title: str = ""

    @property
    def name(self) -> str:
        """As the table names it."""
        return f"{self.package}: {self.title or self.policy}"

    def variants(self) -> Iterator[tuple[str, Settings]]:
        """Every setting by its words; as it comes has none."""
        yield "", self.as_it_comes
        yield from self.settings.items()


def alphas(*values: float) -> dict[str, Settings]:
    """How far a package goes beyond its estimate."""
    return {f"alpha {value:g}": {"alpha": value} for value in values}


def scales(*values: float) -> dict[str, Settings]:
    """The same for ours."""
    return {f"scale {value:g}": {"scale": value} for value in values}


GATED = {
    "LinTS()": {"explorer": {"explorer": "LinTS"}},
    "LinUCB(scale=.25)": {"explorer": {"explorer": "LinUCB", "scale": 0.25}},
    "LinTS(scale=.5)": {"explorer": {"explorer": "LinTS", "scale": 0.5}},
    "LinTS(scale=1, prior='scaled')": {"explorer": {"explorer": "LinTS", "scale": 1.0, "prior": "scaled"}},
    "LinTS(scale=.5, prior='scaled')": {"explorer": {"explorer": "LinTS", "scale": 0.5, "prior": "scaled"}},
    "SquareCB()": {"explorer": {"explorer": "SquareCB"}},
    "the coin of 0.3": {"budget": 50},
    "share .02": {"budget": 50, "share": 0.02},
    "budget 50": {"budget": 50, "share": "cheap"},
    "budget 100": {"budget": 100, "share": "cheap"},
    "budget 200": {"budget": 200, "share": "cheap"},
    "products, ridge of an arm": {"products": True, "ridge": "of an arm"},
}
RIDGES = {  # noise^2 d / bound^2 with the features of all arms, noise^2 / bound^2, and that of most evidence
    "ridge of all features": {"ridge": "of all features"},
    "ridge of a feature": {"ridge": "of a feature"},
    "ridge of the log": {"ridge": "of the log"},
}
BENT = {  # with the products of every two columns, where they make no more than 2,000 features
    "products": {"products": True},
    "products, ridge of all features": {"products": True, "ridge": "of all features"},
    "products, ridge of the log": {"products": True, "ridge": "of the log"},
}
PRODUCTS = "--interactions cca"  # of every two columns, for each arm
POLICIES = (
    Policy("linoto", "Gated", GATED),
    Policy("linoto", "created", {"no crosses": {"crosses": []}}),
    Policy("linoto", "LinUCB", scales(0.1, 1.0)),
    Policy("linoto", "RandUCB", scales(0.5) | RIDGES),
    Policy("linoto", "LinTS", scales(0.5, 0.25) | RIDGES | BENT),
    Policy("linoto", "SquareCB", scales(0.05)),
    Policy("linoto", "LogisticTS", scales(0.5)),
    Policy("linoto", "Greedy", RIDGES),
    Policy("linoto", "learn_policy", {"doubly robust": {"method": "doubly robust"}}),
    Policy("numpy", "LinUCB", alphas(0.25, 0.1, 0.0), title="ridge per arm"),
    Policy(
        "vowpalwabbit",
        "SquareCB",
        {
            "gamma 100": {"options": "--squarecb --gamma_scale 100"},
            "gamma 1000": {"options": "--squarecb --gamma_scale 1000"},
            "gamma 1000, rate 2": {"options": "--squarecb --gamma_scale 1000 -l 2"},
            "products": {"options": f"--squarecb {PRODUCTS}"},
            "products, gamma 1000": {"options": f"--squarecb --gamma_scale 1000 {PRODUCTS}"},
        },
        {"options": "--squarecb"},
    ),
    Policy(
        "vowpalwabbit",
        "epsilon-greedy",
        {"epsilon .01": {"options": "--epsilon 0.01"}, "bag of 5": {"options": "--bag 5"}},
        {"options": ""},
    ),
    Policy("river", "LinUCB", alphas(0.25, 0.1)),
    Policy("mabwiser", "LinUCB", alphas(0.25)),
    Policy("mabwiser", "LinTS", alphas(0.25)),
    Policy("mabwiser", "LinGreedy"),
    Policy("bayesianbandits", "ThompsonSampling", {"noise .25": {"noise": 0.25}}),
    Policy("bayesianbandits", "UpperConfidenceBound"),
    Policy("contextualbandits", "LinUCB", alphas(0.25)),
    Policy("contextualbandits", "LinTS"),
    Policy("coba", "LinUCB", alphas(0.25)),
    Policy("coba", "LinTS"),
)
PEERS = tuple(dict.fromkeys(one.package for one in POLICIES if one.package not in PRESENT))


@dataclass(frozen=True)
class Size:
    """How much is played."""

    seeds: int = 20
    slow_seeds: int = 4  # of packages that take over 1 ms a decision
    first: int = 0  # seed
    logged: int = LOGGED
    rounds: int = ROUNDS

    def plays(self, policy: Policy, seed: int) -> bool:
        """Whether this policy plays the run with this seed."""
        return seed - self.first < (self.slow_seeds if policy.package in SLOW else self.seeds)


QUICK = Size(seeds=2, slow_seeds=1, logged=200, rounds=100)


# -- runs, kept one by one -----------------------------------------------------------------------------------


def key_of(cell: Cell) -> str:
    """What a run is known by: everything that decides its rewards, versions aside."""
    return json.dumps([cell[name] for name in ("table", "practice", "seed", "name", "settings", "size")])


def kept_cells(file: Path) -> dict[str, Cell]:
    """The runs of earlier commands; a line that was cut short is played again."""
    found: dict[str, Cell] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                cell = json.loads(line)
                found[key_of(cell)] = cell
            except (ValueError, KeyError):
                continue
    return found


class Workers:
    """One process for each package, started when it is first asked, and anew after it has stopped."""

    def __init__(self, commands: dict[str, list[str]], patience: float, stack: ExitStack) -> None:
        self.commands, self.patience, self.stack = commands, patience, stack
        self.running: dict[str, tuple[Worker, str]] = {}

    def ask(self, package: str, order: dict[str, Any]) -> dict[str, Any]:
        """The answer with the version of the package, or the reason why there is none."""
        try:
            if package not in self.running:
                worker = self.stack.enter_context(
                    Worker([self.commands[package][0], str(WORKER)], self.patience)
                )
                self.running[package] = worker, worker.ask({"package": package})["version"]
            worker, version = self.running[package]
            return {**worker.ask(order), "version": version}
        except StoppedError as reason:
            if package in self.running:
                self.running.pop(package)[0].process.kill()
            return {"reason": str(reason)}


@dataclass(frozen=True)
class Bench:
    """What one command plays."""

    tables: Sequence[Table]
    practices: Sequence[str]
    policies: Sequence[Policy]
    size: Size
    wheels: Path
    plain: bool = False  # only as it comes

    def seeds(self) -> Iterator[tuple[Table, str, int]]:
        """Seed by seed over all tables, so that a stopped command has the same runs of each."""
        for seed in range(self.size.first, self.size.first + self.size.seeds):
            for practice in self.practices:
                for table in self.tables:
                    yield table, practice, seed

    def wanted(self, table: Table, practice: str, seed: int) -> Iterator[tuple[Policy, Cell]]:
        """The runs of one seed, without what they earn."""
        for policy in self.policies:
            if self.size.plays(policy, seed):
                for words, settings in islice(policy.variants(), 1 if self.plain else None):
                    yield (
                        policy,
                        {
                            "table": table.name,
                            "practice": practice,
                            "seed": seed,
                            "name": policy.name,
                            "words": words,
                            "settings": settings,
                            "size": [self.size.logged, self.size.rounds],
                        },
                    )


class Player:
    """Plays runs, and keeps each of them as it is finished."""

    def __init__(self, workers: Workers, missing: dict[str, str], file: Path) -> None:
        self.workers, self.missing, self.file = workers, missing, file
        self.done, self.played = kept_cells(file), 0

    def play(self, bench: Bench) -> None:
        """Play what is not kept yet, seed by seed."""
        begin, runs = perf_counter(), list(bench.seeds())
        with TemporaryDirectory() as folder:
            for number, run in enumerate(runs, start=1):
                cells = [one for one in bench.wanted(*run) if key_of(one[1]) not in self.done]
                if cells:
                    self.play_seed(bench, *run, cells, Path(folder) / "problem.npz")
                    pace = (perf_counter() - begin) / self.played
                    where = f"{run[0].name} {run[1]} {run[2]}"
                    print(f"\r{number}/{len(runs)} {where}, {pace:.2f} s a run  ", end="")
                    sys.stdout.flush()
        print()

    def play_seed(
        self,
        bench: Bench,
        table: Table,
        practice: str,
        seed: int,
        cells: Sequence[tuple[Policy, Cell]],
        place: Path,
    ) -> None:
        """All contestants on one log and its rounds."""
        rows, (logged, rounds) = table.rows(bench.wheels), (bench.size.logged, bench.size.rounds)
        problem = problem_of(rows, PRACTICES[practice], seed, logged=logged, rounds=rounds)
        problem.save(place)
        expected = (problem.practice * problem.paid).sum(axis=1)
        for policy, cell in cells:
            order = {"player": f"play_{policy.package}", "policy": policy.policy, "problem": str(place)}
            why = self.missing.get(policy.package)
            asked = {**order, "settings": cell["settings"], "seed": seed}
            answer = {"reason": why} if why else self.workers.ask(policy.package, asked)
            self.keep({**cell, **answer}, expected)

    def keep(self, cell: Cell, expected: Any) -> None:
        """Write one run: what it earned, and how far it ever was below what practice earns on average."""
        earned = np.array([float(one) for one in cell.pop("rewards", "")])
        if earned.size:
            below = (expected - earned).cumsum().max()
            cell |= {"earned": float(earned.mean()), "below": max(0.0, round(float(below), 6))}
        cell["practice earned"] = float(expected.mean())
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(cell) + "\n")
        self.done[key_of(cell)] = cell
        self.played += 1


# -- the command ---------------------------------------------------------------------------------------------


def parser_of() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    say, packages = parser.add_argument, (*PRESENT, *PEERS)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--held-out", action="store_true", help="tables by which no default is chosen")
    group.add_argument("--more", action="store_true", help="the tables that were opened last")
    say("--tables", default="", metavar="NAMES", help="some of them (default: all of the group)")
    say("--practice", default="mediocre", metavar="NAMES", help=f"some of {','.join(PRACTICES)}")
    say("--packages", default=",".join(packages), metavar="NAMES", help="some of them (default all)")
    say("--seeds", type=int, default=Size().seeds, help=f"runs of each (default {Size().seeds})")
    say(
        "--slow-seeds",
        type=int,
        default=Size().slow_seeds,
        help=f"runs of {', '.join(SLOW)}, whose decision takes over 1 ms (default {Size().slow_seeds})",
    )
    say("--first", type=int, default=0, metavar="SEED", help="of the runs (default 0)")
    say("--as-it-comes", action="store_true", help="no other settings")
    say("--quick", action="store_true", help="a few short runs: shows that everything works")
    say("--patience", type=float, default=120.0, help="seconds for one run (default 120)")
    kept = Path(".benchmarks/peers")
    say("--environments", type=Path, default=kept, metavar="DIR", help=f"of the peers (default {kept})")
    wheels = Path(".benchmarks/wheels")
    say("--wheels", type=Path, default=wheels, metavar="DIR", help=f"of the tables (default {wheels})")
    out = Path("results/real")
    say("--out", type=Path, default=out, metavar="DIR", help=f"runs, summary and table (default {out})")
    say("--silent", action="store_true", help="play and keep, but show no result")
    return parser


def some(parser: argparse.ArgumentParser, option: str, given: str, known: Sequence[str]) -> list[str]:
    """The names after an option, all of which must be known."""
    named = [one for one in given.split(",") if one]
    if unknown := [one for one in named if one not in known]:
        parser.error(f"--{option} must be some of {', '.join(known)}, got {', '.join(unknown)}")
    return named


def group_of(options: argparse.Namespace) -> str:
    """Which tables were asked for."""
    return "held out" if options.held_out else "more" if options.more else "open"


def bench_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Bench:
    """What was asked for."""
    group = [table for table in TABLES if table.group == group_of(options)]
    tables = some(parser, "tables", options.tables, [table.name for table in group])
    packages = some(parser, "packages", options.packages, (*PRESENT, *PEERS))
    asked = Size(seeds=options.seeds, slow_seeds=options.slow_seeds, first=options.first)
    size = QUICK if options.quick else asked
    if min(size.seeds, size.slow_seeds) < 1:
        parser.error("--seeds and --slow-seeds must be at least 1")
    return Bench(
        tables=[table for table in group if not tables or table.name in tables],
        practices=some(parser, "practice", options.practice, list(PRACTICES)),
        policies=[policy for policy in POLICIES if policy.package in packages],
        size=size,
        wheels=options.wheels,
        plain=options.as_it_comes,
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = parser_of()
    options = parser.parse_args(given)
    bench = bench_of(parser, options)
    for folder in (options.out, options.wheels):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"{machine()}, linoto {linoto.__version__}, load {os.getloadavg()[0]:.1f}, {asdict(bench.size)}")
    packages = dict.fromkeys(policy.package for policy in bench.policies)
    if "linoto" in packages:
        compile_ours()
    peers = [package for package in packages if package not in PRESENT]
    commands, missing = commands_of(peers, options.environments)
    file = options.out / "runs.jsonl"
    with ExitStack() as stack:
        player = Player(Workers(commands, options.patience, stack), missing, file)
        player.play(bench)
    if options.silent:
        print(f"kept {len(player.done)} runs in {file}")
        return
    wanted = [key_of(cell) for run in bench.seeds() for _, cell in bench.wanted(*run)]
    summary, text = report([player.done[key] for key in wanted])
    name = group_of(options).replace(" ", "-")
    about = {"machine": machine(), "size": asdict(bench.size)}
    keep(options.out / f"{name}.json", json.dumps({**about, **summary}, indent=1) + "\n")
    keep(options.out / f"{name}.md", text)
    print(f"\n{text}\nwrote {options.out / name}.json and .md; every run is in {file}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped: the same command goes on after the last run that was finished")
    except OSError as error:
        sys.exit(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
