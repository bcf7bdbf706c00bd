"""Processor time of decide + reward over HTTP, by kind of loop: one by one, and in batches of 1,000.

It is compared with two requests to a bare endpoint of the same framework that inserts one row. All run in
this one call, in alternation, with 16 kept connections, or 2 that send batches; `benchmarks/service.py` has
the endpoint.

    python benchmarks/pairs.py [--seconds 1] [--rounds 6] [--size 1000] [--only plain]
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from service import CLIENTS, ask, cpu_seconds, make_loop, row_twice, start

import linoto

RECIPE = linoto.Recipe(
    items=("A", "B", "C", "D", "E"),
    context=(
        linoto.Numeric(name="age", mean=40.0, scale=10.0),
        linoto.Category(name="country", levels=("DE", "NO"), missing=True),
    ),
    crosses=(("item", "country"), ("item", "age")),
)
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
UCB, CONTROL = linoto.LinUCB(), linoto.Control(epsilon=0.1)
LOOPS: dict[str, dict[str, Any]] = {
    "plain": {"policy": linoto.Gated(explorer=UCB, gate=linoto.Tolerance(epsilon=0.1))},
    "Control": {"policy": linoto.Gated(explorer=UCB, gate=CONTROL, confidence=CLICKS)},
    "contexts, Control": {"policy": linoto.Gated(explorer=UCB, gate=CONTROL, confidence=CLICKS)},
    "contexts, LinTS": {
        "policy": linoto.Gated(explorer=linoto.LinTS(), gate=CONTROL, confidence=CLICKS),
    },
}
Work = Callable[[http.client.HTTPConnection, list[float]], None]


def moments() -> linoto.Moments:
    """A log in which items were drawn."""
    rng = np.random.default_rng(0)
    rows = [RECIPE.transform(context(rng), [str(rng.choice(RECIPE.items))])[0] for _ in range(400)]
    return linoto.Moments.from_rows(np.array(rows), (rng.random(400) < 0.4).astype(float))


def context(rng: np.random.Generator) -> dict[str, Any]:
    return {"age": int(rng.integers(18, 70)), "country": str(rng.choice(["DE", "NO"]))}


def create(port: int, name: str) -> dict[str, Any]:
    """Make a loop: what a decision of it is asked for with."""
    if "contexts" not in name:
        make_loop(port, name=name.lower(), policy=LOOPS[name]["policy"])
        return {}
    with linoto.Client(f"http://127.0.0.1:{port}") as client:
        parts = {"recipe": RECIPE, "moments": moments(), "practice": "A", "default_reward": 0.0}
        client.create(path_of(name), **parts, **LOOPS[name])
    return {"context": context(np.random.default_rng(1))}


def path_of(name: str) -> str:
    """The name of a loop in an address."""
    return name.lower().replace(", ", "-")


def singles(name: str, asked: dict[str, Any]) -> Work:
    """A pair: two requests."""
    loop = f"/v1/loops/{path_of(name)}"

    def work(connection: http.client.HTTPConnection, pairs: list[float]) -> None:
        made = ask(connection, "POST", f"{loop}/decide", asked)
        ask(connection, "PUT", f"{loop}/decisions/{made['decision_id']}/reward", {"reward": 1.0})
        pairs.append(1.0)

    return work


def batches(name: str, asked: dict[str, Any], size: int) -> Work:
    """As many pairs as a batch has: two requests."""
    loop = f"/v1/loops/{path_of(name)}"

    def work(connection: http.client.HTTPConnection, pairs: list[float]) -> None:
        keys = [os.urandom(16).hex() for _ in range(size)]
        body = {"decisions": [{"key": key, **asked} for key in keys]}
        made = ask(connection, "POST", f"{loop}/decisions", body)["decisions"]
        rewards = [{"decision_id": each["decision_id"], "reward": 1.0} for each in made]
        ask(connection, "POST", f"{loop}/rewards", {"rewards": rewards})
        pairs += [1.0] * size

    return work


def load(port: int, work: Work, seconds: float, clients: int) -> tuple[int, float]:
    """What so many clients do in about so many seconds, and in how many it was done."""
    done: list[list[float]] = [[] for _ in range(clients)]
    began = time.perf_counter()

    def client(mine: list[float]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while time.perf_counter() < began + seconds:
            work(connection, mine)
        connection.close()

    threads = [threading.Thread(target=client, args=(mine,)) for mine in done]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(map(len, done)), time.perf_counter() - began


def measure(folder: Path, seconds: float, rounds: int, size: int, only: str | None) -> None:
    """Print a line for each kind of loop."""
    bare, bare_port = start("bare", folder / "bare.sqlite")
    full, port = start("service", folder / "full.sqlite")
    servers = {True: (bare, bare_port), False: (full, port)}
    try:
        works: dict[str, Work] = {"bare": row_twice}
        for name in [only] if only else LOOPS:
            asked = create(port, name)
            most = min(size, 400) if "LinTS" in name else size  # redraws take long: a loop says how many
            works |= {name: singles(name, asked), f"{name}, batches": batches(name, asked, most)}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        for _ in range(rounds):
            for name, work in works.items():
                process, at = servers[name == "bare"]
                clients = 2 if name.endswith("batches") else CLIENTS
                before = cpu_seconds(process)
                done, elapsed = load(at, work, seconds, clients)
                pairs = done / 2 if name == "bare" else done
                found[name].append(((cpu_seconds(process) - before) / pairs * 1e6, pairs / elapsed))
    finally:
        for process in (bare, full):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    report(found)


def report(found: dict[str, list[tuple[float, float]]]) -> None:
    """Medians, and ratios of what was measured in the same turn."""
    print(f"{'a pair':<28}{'cpu us':>8}{'x bare':>8}{'pairs/s':>9}{'x one by one':>14}")
    for name, turns in found.items():
        cpu, rate = np.median(turns, axis=0)
        ratio = np.median([mine[0] / floor[0] for mine, floor in zip(turns, found["bare"], strict=True)])
        single = found.get(name.removesuffix(", batches"), turns)
        faster = np.median([mine[1] / one[1] for mine, one in zip(turns, single, strict=True)])
        print(f"{name:<28}{cpu:>8.0f}{ratio:>8.2f}{rate:>9.0f}{faster:>14.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--size", type=int, default=1000, help="of a batch")
    parser.add_argument("--only", choices=LOOPS, help="one kind of loop")
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {CLIENTS} clients"
    )
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.seconds, arguments.rounds, arguments.size, arguments.only)


if __name__ == "__main__":
    main()
