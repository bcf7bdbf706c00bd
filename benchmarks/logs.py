"""How fast a log is read, against the bare DuckDB query: python benchmarks/logs.py [--contexts] [--rows N].

Both read the same Parquet file, take turns, and the fastest turn of each counts: what disturbs a shared
machine only ever adds time. The bare query may use every core and adds floats in whatever order its threads
finish; `read_log` gives the same bits every time, which is checked. Both are timed from opening a database to
the result, in a process of their own. With --contexts the log has 20 columns of numbers, the query sums all
their products, and `read_log` learns a recipe first. Memory is the most that process ever had
resident, libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import combinations_with_replacement
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ARMS, CHUNK, COLUMNS = 1000, 2**20, tuple(f"x{place}" for place in range(20))
QUERY = "SELECT action, count(*), sum(reward), sum(reward * reward) FROM '{}' GROUP BY action"


PRODUCTS = [f"sum({a} * {b})" for a, b in combinations_with_replacement((*COLUMNS, "reward"), 2)]
MOMENTS = (
    f"SELECT count(*), {', '.join(f'sum({name})' for name in COLUMNS)}, {', '.join(PRODUCTS)} FROM '{{}}'"
)


def write_log(path: Path, rows: int, *, contexts: bool = False) -> None:
    """A Parquet file of rows (action, reward), or (reward, x0, ..., x19)."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    writer = None
    for first in range(0, rows, CHUNK):
        n = min(CHUNK, rows - first)
        if contexts:
            table = pa.table({name: rng.standard_normal(n) for name in ("reward", *COLUMNS)})
        else:
            table = pa.table({"reward": rng.standard_normal(n), "action": rng.integers(0, ARMS, n)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


# -- contestants, each in a process of its own ------------------------------------------------------------


def bare(path: str, jobs: int, query: str = QUERY) -> Callable[[], str]:
    import duckdb

    def run() -> str:
        with duckdb.connect(config={"threads": jobs}) as connection:
            connection.execute(query.format(path)).fetchall()
        return ""

    return run


def bare_moments(path: str, jobs: int) -> Callable[[], str]:
    return bare(path, jobs, MOMENTS)


def our_moments(path: str, jobs: int) -> Callable[[], str]:
    from linoto.engines import Engine
    from linoto.logs.read import read_log

    def run() -> str:
        log = read_log(path, reward="reward", numeric=COLUMNS, engine=Engine(jobs=jobs))
        return (log.moments.gram.tobytes() + log.moments.reward_vector.tobytes()).hex()

    return run


def ours(path: str, jobs: int) -> Callable[[], str]:
    from linoto.engines import Engine
    from linoto.logs.arms import ArmTable
    from linoto.logs.read import read_log

    arms = ArmTable.from_columns({"id": [str(arm) for arm in range(ARMS)]})

    def run() -> str:
        log = read_log(path, item="action", reward="reward", arms=arms, engine=Engine(jobs=jobs)).offline
        assert log.reward_squares is not None
        return (log.pulls.tobytes() + log.reward_sums.tobytes() + log.reward_squares.tobytes()).hex()

    return run


CONTESTANTS: dict[str, Callable[[str, int], Callable[[], str]]] = {
    "bare": bare,
    "ours": ours,
    "bare moments": bare_moments,
    "our moments": our_moments,
}


def serve(name: str, path: str, jobs: int) -> None:
    """Run once for every line on stdin: seconds, megabytes resident at most, and a digest of the result."""
    import hashlib

    run = CONTESTANTS[name](path, jobs)
    for _ in sys.stdin:
        began, worked = perf_counter(), process_time()
        result = run()
        seconds, work = perf_counter() - began, process_time() - worked
        memory = most_resident()
        print(json.dumps([seconds, work, memory, hashlib.sha256(result.encode()).hexdigest()]), flush=True)


def most_resident() -> float:
    """Megabytes; on Linux of this program alone, where getrusage would count the parent before the exec."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


class Contestant:
    """A process that runs when asked."""

    def __init__(self, name: str, path: Path, jobs: int) -> None:
        command = [sys.executable, __file__, "--serve", name, str(path), str(jobs)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds: list[float] = []
        self.work: list[float] = []  # processor time of all threads
        self.memory = 0.0
        self.digests: set[str] = set()

    def turn(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, work, self.memory, digest = json.loads(self.process.stdout.readline())
        self.seconds.append(seconds)
        self.work.append(work)
        self.digests.add(digest)

    def close(self) -> None:
        self.process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--contexts", action="store_true", help="a log with 20 columns of numbers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve[0], arguments.serve[1], int(arguments.serve[2]))
        return
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="linoto-benchmark-") as folder:
        results = measure(Path(folder), arguments, cores)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {arguments.json}")


def row_of(contestant: Contestant, base: Contestant) -> dict[str, float]:
    """The fastest turn by either clock, and how that compares with the bare query's."""
    return {
        "wall s": min(contestant.seconds),
        "processor s": min(contestant.work),
        "speed by wall": min(base.seconds) / min(contestant.seconds),
        "speed by processor": min(base.work) / min(contestant.work),
        "resident MB": contestant.memory,
    }


def measure(folder: Path, arguments: argparse.Namespace, cores: int) -> dict[str, Any]:
    log, rows, contexts = folder / "log.parquet", arguments.rows, arguments.contexts
    write_log(log, rows, contexts=contexts)
    base_name, our_name = ("bare moments", "our moments") if contexts else ("bare", "ours")
    rivals = {
        "bare DuckDB query": Contestant(base_name, log, cores),
        "ours": Contestant(our_name, log, cores),
        "ours, one thread": Contestant(our_name, log, 1),
    }
    for _ in range(arguments.rounds):
        for contestant in rivals.values():
            contestant.turn()
    for contestant in rivals.values():
        contestant.close()
    base = rivals["bare DuckDB query"]
    digests = {name: contestant.digests for name, contestant in rivals.items()}
    same = digests["ours"] == digests["ours, one thread"] and len(digests["ours"]) == 1
    print(f"{rows:,} rows, {cores} cores, {platform.machine()}, Python {platform.python_version()}")
    table = {name: row_of(contestant, base) for name, contestant in rivals.items()}
    for name, row in table.items():
        speeds = "".join(f" {row[f'speed by {clock}']:6.2f} x" for clock in ("wall", "processor"))
        times = f"{row['wall s']:6.2f} s wall {row['processor s']:6.2f} s processor"
        print(f"{name:26}{times} {speeds:20} {row['resident MB']:5.0f} MB")
    print(f"same bits on every run and thread count: {same}")
    return {"rows": rows, "cores": cores, "same bits": same, "table": table}


if __name__ == "__main__":
    main()
