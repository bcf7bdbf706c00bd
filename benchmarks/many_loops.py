"""What pages, lists and windows that end cost a service of 1,000 loops, against the same traffic without.

Traffic is 16 clients that decide and reward in all loops. Three pages ask every second what the page in a
browser asks, from a process of their own; windows with and without them take turns. Then 129,000 open
decisions of one loop expire at once, and the decisions of other loops are timed before and meanwhile.

    python benchmarks/many_loops.py [--loops 1000] [--rounds 15] [--seconds 2] [--expiring 129000]
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import multiprocessing
import os
import platform
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
from service import ask, load, start

PAGES, EVERY = 3, 1.0  # as many pages, and seconds between two looks of each
WINDOW = 3600.0  # seconds for a reward
LEAD = 20.0  # seconds for the start, and of traffic before the windows end


def make_database(path: Path, loops: int, expiring: int, now: float) -> None:
    """Loops and, in the first of them, open decisions that were all made at this time."""
    import linoto
    from linoto.service.loops.loop import Loop
    from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical
    from linoto.service.server import open_service

    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    spec = canonical(
        LoopSpec(
            arms=[Arm(name=f"arm {i}") for i in range(10)],
            policy=linoto.to_dict(linoto.Gated(gate=linoto.Tolerance(budget=50.0), confidence=confidence)),
            default_reward=0.0,
            offline=LogStatistics(pulls=[100] * 10, reward_sums=[10.0 + i for i in range(10)]),
            window=WINDOW,
            holdback=0.05,
        )
    )
    service = open_service(path, clock=lambda: now)

    def make(connection: sqlite3.Connection) -> None:
        for n in range(loops):
            service.loops.create(connection, Loop.fresh(f"loop-{n}", spec))

    def decide(connection: sqlite3.Connection) -> None:
        for _ in range(500):
            service.loops.decide(connection, "loop-0")

    service.store.write_sync(make)
    for _ in range(expiring // 500):
        service.store.write_sync(decide)
    service.close()


def pair(connection: http.client.HTTPConnection, lags: list[float], loops: int) -> None:
    """Decide and reward in some loop, the first one excepted."""
    address = f"/v1/loops/loop-{random.randrange(1, loops)}"
    began = time.perf_counter()
    made = ask(connection, "POST", f"{address}/decide", {})
    middle = time.perf_counter()
    ask(connection, "PUT", f"{address}/decisions/{made['decision_id']}/reward", {"reward": 1.0})
    lags += [middle - began, time.perf_counter() - middle]


def get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status} {body[:200]!r}")
    return body


def look(port: int, loop: str, wanted: Event) -> None:
    """A page: the list, then the four answers about the loop that is open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    parts = "history", "arms?limit=20", "decisions?limit=15", "report"
    while True:
        wanted.wait()
        get(connection, "/v1/overview?limit=51&search=")
        for part in parts:
            get(connection, f"/v1/loops/{loop}/{part}")
        time.sleep(EVERY)


def look_as_pages(port: int, wanted: Event) -> None:
    for n in range(PAGES):
        threading.Thread(target=look, args=(port, f"loop-{n + 1}", wanted)).start()


def cost_of_pages(port: int, loops: int, seconds: float, rounds: int) -> dict[str, Any]:
    """Pairs per second with the pages open against without, window by window."""
    wanted = multiprocessing.Event()
    pages = multiprocessing.Process(target=look_as_pages, args=(port, wanted), daemon=True)
    pages.start()
    rates: dict[bool, list[float]] = {False: [], True: []}

    def work(connection: http.client.HTTPConnection, lags: list[float]) -> None:
        pair(connection, lags, loops)

    load(port, work, 2.0)
    for turn in range(rounds):
        for opened in (False, True) if turn % 2 else (True, False):  # neither is always the first
            wanted.set() if opened else wanted.clear()
            time.sleep(0.2)
            rates[opened].append(load(port, work, seconds)[0] / 2)
    pages.kill()
    ratios = [with_pages / without for with_pages, without in zip(rates[True], rates[False], strict=True)]
    return {
        "pairs/s without a page": round(statistics.median(rates[False])),
        "pairs/s with three pages": round(statistics.median(rates[True])),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 2) for ratio in ratios],
    }


def change_all(connection: http.client.HTTPConnection, loops: int) -> None:
    """A decision and its reward in every loop."""
    for n in range(loops):
        made = ask(connection, "POST", f"/v1/loops/loop-{n}/decide", {})
        path = f"/v1/loops/loop-{n}/decisions/{made['decision_id']}/reward"
        ask(connection, "PUT", path, {"reward": float(n % 3 == 0)})


def lists(port: int, loops: int) -> dict[str, Any]:
    """Milliseconds of lists, after every loop has changed and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    change_all(connection, loops)
    paths = {
        f"all {loops} in a line": "/v1/overview",
        f"all {loops}, live numbers": "/v1/loops",
        "a page of 50": f"/v1/loops?limit=50&after=loop-{loops // 2}",
        "found by text": "/v1/loops?search=oop-77",
    }
    table: dict[str, Any] = {}
    for name, path in paths.items():
        taken = []
        for _ in range(15):
            began = time.perf_counter()
            get(connection, path)
            taken.append(1e3 * (time.perf_counter() - began))
        table[f"{name}: ms, first, median"] = (round(taken[0], 1), round(statistics.median(taken), 1))
    return table


def numbers(path: Path, rounds: int = 7) -> dict[str, Any]:
    """Microseconds of the live numbers of a loop that has changed: in a list, and by itself."""
    from linoto.service.loops import limits, views
    from linoto.service.server import open_service
    from linoto.service.web.live_views import TOGETHER

    service = open_service(path, clock=lambda: time.time() + 2 * WINDOW)  # after the last event
    loops = list(service.loops.by_name.values())
    for n, loop in enumerate(loops):  # no two alike, as after some days
        for totals in (*loop.state.groups.values(), loop.state.counted):
            totals.plays = totals.closed = 100 + n
            totals.rewards = 10.0 + n % 90
    taken: dict[int, list[float]] = {TOGETHER: [], 1: []}
    for _ in range(rounds):
        for size, mine in taken.items():
            limits.mean_interval_of.forget()
            limits.alarm_value_of.forget()
            began = time.process_time()
            for n in range(0, len(loops), size):
                views.loop_views(loops[n : n + size])
            mine.append(1e6 * (time.process_time() - began) / len(loops))
    service.close(snapshots=False)
    together, alone = (statistics.median(mine) for mine in taken.values())
    return {
        "numbers of a loop, in a list: us": round(together),
        "numbers of a loop, by itself: us": round(alone),
        "numbers, ratio": round(together / alone, 2),
    }


def starting(path: Path, rounds: int = 5) -> dict[str, Any]:
    """Milliseconds of processor time in which a start reads a loop, against numpy reading its snapshot."""
    from linoto.service.server import open_service

    with sqlite3.connect(path) as connection:
        blobs = [row[0] for row in connection.execute("SELECT agent FROM snapshots GROUP BY loop")]
    taken: dict[str, list[float]] = {"start": [], "numpy": []}
    for _ in range(rounds):
        began = time.process_time()
        service = open_service(path, clock=lambda: time.time() + 2 * WINDOW)
        taken["start"].append(1e3 * (time.process_time() - began) / len(service.loops.by_name))
        service.close(snapshots=False)
        began = time.process_time()
        for blob in blobs:
            with np.load(io.BytesIO(blob)) as file:
                dict(file)
        taken["numpy"].append(1e3 * (time.process_time() - began) / len(blobs))
    start, numpy = (statistics.median(mine) for mine in taken.values())
    return {
        "a start: ms of a loop": round(start, 2),
        "numpy reads its snapshot: ms": round(numpy, 2),
        "start, ratio": round(start / numpy, 2),
    }


def expiry(port: int, loops: int, ends: float) -> dict[str, Any]:
    """Milliseconds of decisions in other loops before the windows end, and while decisions are closed."""

    def work(other: http.client.HTTPConnection, lags: list[float]) -> None:
        pair(other, lags, loops)

    def still_open() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)  # an idle one is closed
        return int(json.loads(get(connection, "/v1/overview?search=loop-0&limit=1"))[0]["pending"])

    before: list[float] = []
    during: list[float] = []
    waiting = still_open()
    while time.time() < ends - 1.5:
        before += load(port, work, 1.0)[1][::2]  # every other one is a reward
    time.sleep(max(ends - time.time(), 0.0))
    began = time.time()
    while still_open():
        during += load(port, work, 1.0)[1][::2]
    took = time.time() - began
    quiet, busy = (np.quantile(lags, [0.5, 0.99]) * 1e3 for lags in (before, during))
    return {
        "open decisions": waiting,
        "closed within s": round(took, 1),
        "decisions timed before, meanwhile": (len(before), len(during)),
        "decide: p50, p99 ms before": quiet.round(1).tolist(),
        "decide: p50, p99 ms meanwhile": busy.round(1).tolist(),
        "p99 ratio": round(float(busy[1] / quiet[1]), 2),
    }


def show(table: dict[str, Any]) -> None:
    for name, value in table.items():
        print(f"{name:<44}{value}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=15, help="0 to leave pages and lists out")
    parser.add_argument("--expiring", type=int, default=129_000, help="0 to leave the expiry out")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server ends with us
    cores, busy = os.cpu_count(), os.getloadavg()[0]
    print(f"{platform.machine()}, {cores} cores, load {busy:.1f}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        path, made = Path(folder) / "many.sqlite", time.time()
        make_database(path, arguments.loops, arguments.expiring, made)
        print(f"{'made within s':<44}{time.time() - made:.1f}", flush=True)
        # the pages and the lists come before the windows end: the server's clock is set to when that is
        planned = (
            2 * arguments.rounds * (arguments.seconds + 0.5)
            + (arguments.loops / 30 + 20 if arguments.rounds else 0)
            + LEAD
        )
        ends = time.time() + planned
        process, port = start("service", path, ahead=made + WINDOW - ends)
        try:
            if arguments.rounds:
                show(cost_of_pages(port, arguments.loops, arguments.seconds, arguments.rounds))
                show(lists(port, arguments.loops))
            if arguments.expiring:
                show(expiry(port, arguments.loops, ends))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        show(numbers(path))
        show(starting(path))


if __name__ == "__main__":
    main()
