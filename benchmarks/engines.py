"""decide + reward on PostgreSQL, against a bare insert on the same server and stack, and against SQLite.

    python benchmarks/engines.py --db postgresql://USER@HOST/EMPTY [--clients 64] [--seconds 2] [--rounds 7]

The database must be empty. The bare endpoint inserts one row for each request, in one of 16 sessions that
commit each by itself: the server commits them together. All take turns in this one call, so that a busy
machine is as busy for one as for the others. With `--keys` each decision is asked for with a key of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from pairs import Work, load
from service import ask, cpu_seconds, free_port, make_loop, start, wait_for

SESSIONS = 16
NAMES = ("bare on PostgreSQL", "service on PostgreSQL", "service on SQLite")


def serve_bare(db: str, port: str) -> None:
    """The floor: parse, insert one row, answer."""
    import psycopg
    from litestar import Litestar, get, post

    from linoto.service.loops.operations import RewardResult
    from linoto.service.sockets import open_socket
    from linoto.service.web.listener import Limits, Listener
    from linoto.service.web.messages import RewardValue
    from linoto.service.web.routing import Json

    idle: asyncio.Queue[Any] = asyncio.Queue()

    @get("/readyz")
    async def ready() -> None:
        return None

    @post("/row", status_code=200)
    async def insert(data: Json[RewardValue]) -> RewardResult:
        session = await idle.get()
        try:
            await session.execute("INSERT INTO bare_rows (reward) VALUES (%s)", (data.reward,), prepare=True)
        finally:
            idle.put_nowait(session)
        return RewardResult(decision_id="1-1", status="applied", code=200)

    names = {"Json": Json, "RewardValue": RewardValue, "RewardResult": RewardResult}
    app = Litestar([insert, ready], openapi_config=None, signature_namespace=names)

    async def serve() -> None:
        for number in range(SESSIONS):
            session = await psycopg.AsyncConnection.connect(db, autocommit=True)
            if number == 0:
                key = "id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY"
                await session.execute(f"CREATE TABLE IF NOT EXISTS bare_rows ({key}, reward float8)")
            idle.put_nowait(session)
        listener = Listener(app, open_socket("127.0.0.1", int(port), {}), Limits())
        listener.start()
        await listener.watch()

    asyncio.run(serve())


def start_bare(db: str) -> tuple[subprocess.Popen[bytes], int]:
    """The bare endpoint in a process of its own."""
    port = free_port()
    words = [sys.executable, __file__, "--db", db, "--bare", str(port)]
    return wait_for(subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True), port)


def two_rows(connection: http.client.HTTPConnection, pairs: list[float]) -> None:
    """As many requests as a pair has."""
    for _ in range(2):
        ask(connection, "POST", "/row", {"reward": 1.0})
    pairs.append(1.0)


def pair(keys: bool) -> Work:
    """A decision and its reward."""

    def work(connection: http.client.HTTPConnection, pairs: list[float]) -> None:
        asked = {"key": os.urandom(16).hex()} if keys else {}
        made = ask(connection, "POST", "/v1/loops/bench/decide", asked)
        address = f"/v1/loops/bench/decisions/{made['decision_id']}/reward"
        ask(connection, "PUT", address, {"reward": 1.0})
        pairs.append(1.0)

    return work


def measure(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Pairs a second and processor time of a pair, medians over turns."""
    servers = [start_bare(asked.db), start("service", asked.db), start("service", folder / "x.sqlite")]
    works = [two_rows, pair(asked.keys), pair(asked.keys)]
    rates: list[list[float]] = []
    spent: list[list[float]] = []
    try:
        for _, port in servers[1:]:
            make_loop(port)
        for turn in range(asked.rounds + 1):  # the first is left out
            now: list[tuple[float, float]] = []
            for (process, port), work in zip(servers, works, strict=True):
                before = cpu_seconds(process)
                done, elapsed = load(port, work, asked.seconds if turn else 0.5, asked.clients)
                now.append((done / elapsed, (cpu_seconds(process) - before) / done * 1e6))
            if turn:
                rates.append([rate for rate, _ in now])
                spent.append([cpu for _, cpu in now])
    finally:
        for process, _ in servers:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    table, cpu = np.array(rates), np.median(spent, axis=0)
    found: dict[str, Any] = {"clients": asked.clients, "keys": asked.keys, "load": os.getloadavg()[0]}
    for place, name in enumerate(NAMES):
        found[f"{name}: pairs/s"] = round(float(np.median(table[:, place])))
        found[f"{name}: cpu us a pair"] = round(float(cpu[place]))
    for other in (0, 2):
        ratios = table[:, 1] / table[:, other]
        found[f"PostgreSQL against {NAMES[other]}"] = round(float(np.median(ratios)), 2)
        found[f"PostgreSQL against {NAMES[other]}, turns"] = np.sort(ratios).round(2).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--db", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--json", type=argparse.FileType("w"))
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        serve_bare(asked.db, asked.bare)
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), asked)
    for name, value in found.items():
        print(f"{name:<50} {value}")
    if asked.json:
        json.dump(found, asked.json)


if __name__ == "__main__":
    main()
