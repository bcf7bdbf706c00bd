"""Rows a second by which files elsewhere are read: http:// and s3://, from servers of this machine.

    nice -n 10 python benchmarks/elsewhere.py --rows 1000000 --turns 3

It needs DuckDB's extension httpfs and, for s3://, `pip install "moto[server,s3]"`: a store in memory. The log
is that of `places.py`, and so is what is measured; the servers' own time is not among that of the processor.
A line between two machines is slower than one inside of this one: what is left is what reading costs.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from places import FILES, KINDS, Read, read, timed, write_log

BUCKET = "visits"


class Ranges(SimpleHTTPRequestHandler):
    """Files, of which parts can be asked for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        """A file, or the part of it that is asked for."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), min(int(asked[2] or size), size - 1)) if asked else (0, size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if body:
            with path.open("rb") as file:
                file.seek(first)
                self.wfile.write(file.read(last - first + 1))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(*words: str) -> Iterator[None]:
    """A program, until the end."""
    started = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.kill()
        started.wait()


def in_store(folder: Path, stack: ExitStack) -> None:
    """The log in a store of this machine, whose keys DuckDB finds in a home of our own."""
    import boto3

    port, known = free_port(), Path.home() / ".duckdb" / "extensions"
    home = folder / "home" / ".duckdb"
    home.mkdir(parents=True)
    (home / "extensions").symlink_to(known)
    os.environ["HOME"] = str(home.parent)
    stack.enter_context(process("-m", "moto.server", "-p", str(port)))
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    store = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
    for _ in range(60):
        try:
            store.create_bucket(Bucket=BUCKET)
            break
        except Exception:  # it is not there yet
            time.sleep(0.5)
    for path in [folder / "visits.parquet", *(folder / "parts").iterdir()]:
        store.upload_file(str(path), BUCKET, str(path.relative_to(folder)))
    with duckdb.connect() as connection:
        connection.execute("LOAD httpfs")
        where = f"ENDPOINT '127.0.0.1:{port}', URL_STYLE 'path', USE_SSL false"
        secret = f"TYPE s3, KEY_ID 'a', SECRET 'b', REGION 'us-east-1', {where}"
        connection.execute(f"CREATE PERSISTENT SECRET here ({secret})")


def ways(folder: Path, stack: ExitStack) -> dict[str, Read]:
    """Every way there is on this machine."""
    port = free_port()
    stack.enter_context(process(__file__, "--serve", str(folder), str(port)))
    time.sleep(1.0)
    found = {
        "Parquet file here": read(folder / "visits.parquet"),
        "http://, Parquet": read(f"http://127.0.0.1:{port}/visits.parquet"),
        "http://, CSV": read(f"http://127.0.0.1:{port}/visits.csv"),
    }
    try:
        in_store(folder, stack)
    except ModuleNotFoundError as error:
        print(f"without s3://, which needs {error.name}")
        return found
    found["s3://, Parquet"] = read(f"s3://{BUCKET}/visits.parquet")
    found[f"s3://, {FILES} Parquet files"] = read(f"s3://{BUCKET}/parts/*.parquet")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.serve:
        handler = partial(Ranges, directory=a.serve[0])
        ThreadingHTTPServer(("127.0.0.1", int(a.serve[1])), handler).serve_forever()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        write_log(Path(folder), a.rows)
        known = ways(Path(folder), stack)
        print(f"{'million rows a second':<26}" + "".join(f"{kind:>14}{'processor':>12}" for kind in KINDS))
        for name, way in known.items():
            line = f"{name:<26}"
            for columns in KINDS.values():
                walls, cpus = zip(*(timed(way, columns, a.rows) for _ in range(a.turns)), strict=True)
                wall, cpu = (a.rows / statistics.median(turns) / 1e6 for turns in (walls, cpus))
                line += f"{wall:14.2f}{cpu:12.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
