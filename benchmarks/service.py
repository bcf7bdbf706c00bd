"""Durable decide + reward over HTTP, against a bare endpoint on the same stack that inserts one row.

Both run in this one call, in alternation, with the same web server, the same writer and group commit, and the
same clients: 16 threads with one kept connection each. Also: recovery of a long event log with a snapshot.

    python benchmarks/service.py [--seconds 1] [--rounds 15] [--events 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import linoto

CLIENTS = 16
HEADERS = {"content-type": "application/json"}


def serve_bare(path: str, port: str) -> None:
    """The floor: parse, insert one row, commit with whoever else waits, answer."""
    from litestar import Litestar, post

    from linoto.service.loops.operations import RewardResult
    from linoto.service.sockets import open_socket
    from linoto.service.storage.store import Store
    from linoto.service.web.access import AnyRequest
    from linoto.service.web.listener import Limits, Listener
    from linoto.service.web.messages import RewardValue
    from linoto.service.web.routing import Json

    store = Store(Path(path))
    store.write_sync(lambda c: c.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, reward REAL)"))

    @post("/row", status_code=200)
    async def insert(request: AnyRequest, data: Json[RewardValue]) -> RewardResult:
        await store.write(
            lambda c: c.execute("INSERT INTO rows (reward) VALUES (?)", (data.reward,)) and None
        )
        return RewardResult(decision_id="1-1", status="applied", code=200)

    names = {"AnyRequest": AnyRequest, "Json": Json, "RewardValue": RewardValue, "RewardResult": RewardResult}
    app = Litestar([insert], openapi_config=None, signature_namespace=names)

    async def serve() -> None:
        listener = Listener(app, open_socket("127.0.0.1", int(port), {}), Limits())
        listener.start()
        await listener.watch()

    asyncio.run(serve())


def free_port() -> int:
    """A port of this machine that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(function: str, path: Path | str, ahead: float = 0.0) -> tuple[subprocess.Popen[bytes], int]:
    """A server process, once it listens and has read its loops; its clock is so many seconds ahead."""
    port = free_port()
    if function == "bare":
        command = [sys.executable, __file__, "--bare", str(path), str(port)]
    else:
        code = "import sys, time; from linoto.service.server import run; "
        code += "from linoto.service.storage.places import place_of; "
        code += "ahead = float(sys.argv[3]); clock = (lambda: time.time() + ahead) if ahead else None; "
        code += "run(place_of(sys.argv[1]), port=int(sys.argv[2]), clock=clock)"
        command = [sys.executable, "-c", code, str(path), str(port), str(ahead)]
    return wait_for(subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True), port)


def wait_for(process: subprocess.Popen[bytes], port: int) -> tuple[subprocess.Popen[bytes], int]:
    """The same once it answers."""
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with suppress(OSError):
            connection.request("GET", "/readyz")
            if connection.getresponse().status != 503:
                return process, port
        connection.close()
        time.sleep(0.05)
    raise RuntimeError("the server did not start")


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> Any:
    connection.request(method, path, json.dumps(body), HEADERS)
    response = connection.getresponse()
    data = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status} {data[:200]!r}")
    return json.loads(data)


def row_twice(connection: http.client.HTTPConnection, lags: list[float]) -> None:
    for _ in range(2):
        began = time.perf_counter()
        ask(connection, "POST", "/row", {"reward": 1.0})
        lags.append(time.perf_counter() - began)


def decide_and_reward(connection: http.client.HTTPConnection, lags: list[float]) -> None:
    began = time.perf_counter()
    made = ask(connection, "POST", "/v1/loops/bench/decide", {})
    middle = time.perf_counter()
    ask(connection, "PUT", f"/v1/loops/bench/decisions/{made['decision_id']}/reward", {"reward": 1.0})
    lags += [middle - began, time.perf_counter() - middle]


def load(port: int, work: Any, seconds: float) -> tuple[float, list[float]]:
    """(requests per second, seconds of each) of all clients together."""
    lags: list[list[float]] = [[] for _ in range(CLIENTS)]
    end = time.perf_counter() + seconds

    def client(mine: list[float]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while time.perf_counter() < end:
            work(connection, mine)
        connection.close()

    threads = [threading.Thread(target=client, args=(mine,)) for mine in lags]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_lags = [lag for mine in lags for lag in mine]
    return len(all_lags) / seconds, all_lags


def make_loop(port: int, k: int = 100, d: int = 20, *, name: str = "bench", policy: Any = None) -> None:
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((k, d))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    pulls = np.zeros(k, dtype=int)
    pulls[:10] = 20
    spec = {
        "arms": [{"name": f"arm {i}", "features": row} for i, row in enumerate(actions.tolist())],
        "policy": linoto.to_dict(policy or linoto.Gated(gate=linoto.Tolerance(epsilon=0.1))),
        "offline": {"pulls": pulls.tolist(), "reward_sums": (0.5 * pulls).tolist()},
        "default_reward": 0.0,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    ask(connection, "PUT", f"/v1/loops/{name}", spec)
    connection.close()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """What a process has computed so far: steadier than the clock on a machine that others use too."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def throughput(folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Both servers up, loaded in turn, so that a busy machine is as busy for one as for the other."""
    bare, bare_port = start("bare", folder / "bare.sqlite")
    full, full_port = start("service", folder / "full.sqlite")
    try:
        make_loop(full_port)
        load(bare_port, row_twice, 0.5)
        load(full_port, decide_and_reward, 0.5)
        ratios, floors, rates, lags = [], [], [], []
        spent = [cpu_seconds(bare), cpu_seconds(full)]
        for _ in range(rounds):
            floor, _ = load(bare_port, row_twice, seconds)
            rate, some = load(full_port, decide_and_reward, seconds)
            ratios.append(rate / floor)
            floors.append(floor)
            rates.append(rate)
            lags += some
        bare_cpu = (cpu_seconds(bare) - spent[0]) / (sum(floors) * seconds) * 1e6
        full_cpu = (cpu_seconds(full) - spent[1]) / (sum(rates) * seconds) * 1e6
    finally:
        for process in (bare, full):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    p50, p99 = np.quantile(lags, [0.5, 0.99]) * 1e3
    return {
        "bare req/s": np.median(floors).round(),
        "decide+reward req/s": np.median(rates).round(),
        "ratio": float(np.median(ratios).round(3)),
        "ratios": np.round(ratios, 3).tolist(),
        "bare cpu us/req": round(bare_cpu),
        "decide+reward cpu us/req": round(full_cpu),
        "p50 ms": float(p50.round(2)),
        "p99 ms": float(p99.round(2)),
    }


def recovery(folder: Path, events: int) -> dict[str, Any]:
    """Seconds to open a database of so many events: with its snapshot, and from the first event."""
    from linoto.service.loops.events import RewardRecorded
    from linoto.service.loops.loop import Loop
    from linoto.service.loops.records import recover
    from linoto.service.loops.spec import Arm, LoopSpec, canonical
    from linoto.service.server import open_service
    from linoto.service.storage.sql import one_loop

    arms = [Arm(name=str(i)) for i in range(20)]
    spec = canonical(LoopSpec(arms=arms, policy={"type": "LinUCB"}, default_reward=0.0))
    path = folder / "long.sqlite"
    service = open_service(path)
    service.store.write_sync(lambda c: service.loops.create(c, Loop.fresh("long", spec)))
    loop = service.loops.get("long")

    def some(connection: sqlite3.Connection) -> None:
        for _ in range(500):
            service.loops.decide(connection, "long")
            service.loops.record(connection, loop, RewardRecorded(loop.state.decided, 0.5, "reported"))

    for _ in range(events // 1000):
        service.store.write_sync(some)
    for _ in range(3):  # a tail after the last snapshot
        service.store.write_sync(some)
    service.store.close()  # as a crash would: no last snapshot
    began = time.perf_counter()
    service = open_service(path)
    opened = time.perf_counter() - began
    row = service.store.read_database(lambda c: one_loop(c, 1))
    began = time.perf_counter()
    long = service.store.read_database(lambda c: recover(c, row, from_scratch=True))  # type: ignore[arg-type]
    scratch = time.perf_counter() - began
    same = long.digest() == service.loops.get("long").digest()
    service.close()
    size = path.stat().st_size / 1e6
    return {
        "events": loop.state.seq,
        "MB": round(size),
        "with snapshot s": round(opened, 2),
        "from scratch s": round(scratch, 1),
        "equal": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--events", type=int, default=1_000_000, help="0 to leave recovery out")
    parser.add_argument("--bare", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        serve_bare(*arguments.bare)
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {CLIENTS} clients"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, value in throughput(Path(folder), arguments.seconds, arguments.rounds).items():
            print(f"{name:<24}{value}")
        if arguments.events:
            for name, value in recovery(Path(folder), arguments.events).items():
                print(f"{name:<24}{value}")


if __name__ == "__main__":
    main()
