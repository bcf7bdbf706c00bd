"""Rows a second by which files elsewhere are read: http://, https:// and s3://, from servers of this machine.

    nice -n 10 python benchmarks/elsewhere.py --rows 1000000 --turns 3

It needs DuckDB's extension httpfs; for https:// `openssl`, which makes a certificate of our own, and for
s3:// `pip install "moto[server,s3]"`: a store in memory. The log
is that of `places.py`, and so is what is measured; the servers' own time is not among that of the processor.
A line between two machines is slower than one inside of this one: what is left is what reading costs.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import ssl
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


def trusted(folder: Path) -> Path:
    """A certificate of this machine with its key, which those who read find as they find any of their own."""
    file = folder / "here.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*words, *names, "-keyout", file, "-out", file], check=True, capture_output=True)
    os.environ["SSL_CERT_FILE"] = str(file)
    return file


def ways(folder: Path, stack: ExitStack) -> dict[str, Read]:
    """Every way there is on this machine."""
    port, secure = free_port(), free_port()
    stack.enter_context(process(__file__, "--serve", str(folder), str(port)))
    stack.enter_context(process(__file__, "--serve", str(folder), str(secure), str(trusted(folder))))
    time.sleep(1.0)
    found = {"Parquet file here": read(folder / "visits.parquet")}
    for place in (f"http://127.0.0.1:{port}", f"https://localhost:{secure}"):
        for kind, name in (("Parquet", "visits.parquet"), ("CSV", "visits.csv")):
            found[f"{place.partition('://')[0]}://, {kind}"] = read(f"{place}/{name}")
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
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.serve:
        handler = partial(Ranges, directory=a.serve[0])
        server = ThreadingHTTPServer(("127.0.0.1", int(a.serve[1])), handler)
        for certificate in a.serve[2:]:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve_forever()
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
