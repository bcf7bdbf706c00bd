"""Rows a second by which a log is read from where it is.

    nice -n 10 python benchmarks/places.py --rows 2000000 --turns 3

One log of an item, a reward, a number and a word is put where logs are: a CSV file, a Parquet file, several
of them, an Arrow stream, PostgreSQL (a server of its own). Each is read by `read_log`, as fixed arms and with
contexts; medians. `log sql` is the statement of `linoto log sql` and the reading of what comes back. Beside
seconds of wall clock are those of processor, those of the database server and of Dask's workers among them:
on a busy machine only these say something.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow.parquet as pq

import linoto
from linoto.logs.dialects import DIALECTS
from linoto.logs.statement import Question, statement_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
FILES = 8
KINDS: dict[str, dict[str, Any]] = {
    "fixed arms": {},
    "contexts": {"numeric": ["age"], "categories": ["country"], "crosses": [("item", "country")]},
}
SERVERS: list[int] = []  # whose finished children count
Read = Callable[[dict[str, Any]], Any]


def write_log(folder: Path, rows: int) -> None:
    """The log as Parquet, in parts, and as CSV."""
    with duckdb.connect() as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            f"""CREATE TABLE visits AS SELECT 'v' || (i * 7919 % 20) AS variant,
            (random() < 0.1)::INT AS clicked, round(20 + 50 * random(), 1) AS age,
            'c' || (i * 104729 % 12) AS country, i AS place, i // 10000 AS day FROM range({rows}) r(i)"""
        )
        connection.execute(f"COPY visits TO '{folder}/visits.parquet'")
        connection.execute(f"COPY visits TO '{folder}/visits.csv'")
        (folder / "parts").mkdir()
        for part in range(FILES):
            bounds = f"place >= {rows * part // FILES} AND place < {rows * (part + 1) // FILES}"
            connection.execute(f"COPY (FROM visits WHERE {bounds}) TO '{folder}/parts/{part}.parquet'")


def read(source: Any) -> Read:
    """The rows of a source, each time anew."""
    return lambda columns: linoto.read_log(
        source() if callable(source) else source, item="variant", reward="clicked", **columns
    )


def summed(run: Callable[[str], Any], dialect: str, table: str) -> Read:
    """What a warehouse makes of the rows, and reading that."""

    def ask(columns: dict[str, Any]) -> Any:
        question = Question(table=table, item="variant", reward="clicked", time="day", **columns)
        return linoto.read_log(run(statement_of(question, DIALECTS[dialect])))

    return ask


@contextmanager
def in_postgres(folder: Path) -> Iterator[str]:
    """A database with the log."""
    import psycopg
    from helpers.postgres import cluster

    with cluster() as server:
        url = server.database().url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                """CREATE TABLE visits
                (variant text, clicked int, age float8, country text, place int, day int)"""
            )
            with connection.cursor().copy("COPY visits FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write((folder / "visits.csv").read_bytes())
            connection.execute("ANALYZE visits")
        SERVERS.append(int((server.data / "postmaster.pid").read_text().split()[0]))
        yield url


def in_duckdb(folder: Path) -> Callable[[str], Any]:
    """DuckDB as the warehouse, on one thread."""

    def run(statement: str) -> Any:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute(f"CREATE VIEW visits AS FROM '{folder}/visits.parquet'")
            return connection.sql(statement).to_arrow_table()

    return run


def places(folder: Path, stack: ExitStack, *, database: bool) -> dict[str, Read]:
    """Every way there is on this machine."""
    found = {
        "CSV file": read(folder / "visits.csv"),
        "Parquet file": read(folder / "visits.parquet"),
        f"{FILES} Parquet files": read(str(folder / "parts" / "*.parquet")),
        "Arrow stream": read(lambda: stream(folder / "visits.parquet")),
        "log sql, DuckDB": summed(in_duckdb(folder), "duckdb", "visits"),
        "Dask, 2 workers": lambda columns: linoto.read_log(
            str(folder / "parts" / "*.parquet"),
            item="variant",
            reward="clicked",
            engine=linoto.Engine(kind="dask", jobs=2),
            **columns,
        ),
    }
    if database:
        url = stack.enter_context(in_postgres(folder))
        asked = "SELECT variant, clicked, age, country FROM visits ORDER BY place"
        found["PostgreSQL, rows by ADBC"] = read(linoto.Query(url, asked))
        found["PostgreSQL, log sql"] = summed(lambda sql: linoto.Query(url, sql), "postgres", "visits")
    return found


def stream(path: Path) -> Any:
    """Record batches, as another program hands them on."""
    import pyarrow as arrow

    file = pq.ParquetFile(path)
    return arrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(2**16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--no-database", action="store_true", help="without PostgreSQL")
    a = parser.parse_args()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        write_log(Path(folder), a.rows)
        known = places(Path(folder), stack, database=not a.no_database)
        print(f"{'million rows a second':<26}" + "".join(f"{kind:>14}{'processor':>12}" for kind in KINDS))
        for name, way in known.items():
            line = f"{name:<26}"
            for columns in KINDS.values():
                walls, cpus = zip(*(timed(way, columns, a.rows) for _ in range(a.turns)), strict=True)
                wall, cpu = (a.rows / statistics.median(turns) / 1e6 for turns in (walls, cpus))
                line += f"{wall:14.2f}{cpu:12.2f}"
            print(line, flush=True)


def timed(way: Read, columns: dict[str, Any], rows: int) -> tuple[float, float]:
    """Seconds of wall clock and of processor."""
    wall, cpu = time.perf_counter(), processor()
    log = way(columns)
    assert log.rows == rows
    end = time.perf_counter()
    time.sleep(0.2)  # until a server has buried the process of the connection
    return end - wall, processor() - cpu


def processor() -> float:
    """Seconds of this process, of those that it started, and of connections to a server of ours."""
    found = sum(os.times()[:4])
    for pid in SERVERS:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")  # cutime, cstime
    return found


if __name__ == "__main__":
    main()
