"""One loop with very many arms on a real server: python benchmarks/many_arms.py [--arms N] [--features D].

Its arms come as a file in float32. How long it takes to send that and to make the loop, and to start after a
kill; what a decision and its reward take one after the other, and twelve arms of the page; how large a
snapshot is and what it takes; and the server's memory. `--policy SquareCB` and `--policy Gated`
look at every arm: the one because it draws by gaps, the other because its decisions state propensities.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from service import ask, start

import linoto

POLICIES: dict[str, Any] = {
    "LinUCB": lambda: linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Open(), confidence=NOISE),
    "SquareCB": lambda: linoto.Gated(explorer=linoto.SquareCB(), gate=linoto.Open(), confidence=NOISE),
    "Gated": lambda: linoto.Gated(gate=linoto.Tolerance(budget=100.0), confidence=NOISE),
}
NOISE = linoto.Confidence(noise=0.3, reward_range=(-1.0, 1.0))


def world(k: int, d: int) -> tuple[Any, linoto.Offline]:
    """Arms on a sphere, and a log of 20,000 rows."""
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((k, d), dtype=np.float32)
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    theta = rng.standard_normal(d)
    pulls = np.bincount(rng.integers(k, size=20_000), minlength=k)
    means = actions @ (theta / np.linalg.norm(theta))
    return np.asfortranarray(actions), linoto.Offline(pulls=pulls, reward_sums=pulls * means)


def pairs(port: int, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each decision and of each reward, one after the other."""
    connection, lags = http.client.HTTPConnection("127.0.0.1", port, timeout=600), ([], [])
    for n in range(count):
        began = time.perf_counter()
        made = ask(connection, "POST", "/v1/loops/bench/decide", {})
        middle = time.perf_counter()
        path = f"/v1/loops/bench/decisions/{made['decision_id']}/reward"
        ask(connection, "PUT", path, {"reward": 0.1 * (n % 7)})
        lags[0].append(middle - began)
        lags[1].append(time.perf_counter() - middle)
    connection.close()
    return lags


def timed(found: dict[str, float], name: str, work: Any, pid: int | None = None) -> Any:
    """What some work gives; noted is how long it took, and the processor time of a process, or of this."""
    began, before = time.perf_counter(), time.process_time() if pid is None else processor_of(pid)
    result = work()
    found[f"{name}_s"] = time.perf_counter() - began
    found[f"{name}_processor_s"] = (time.process_time() if pid is None else processor_of(pid)) - before
    return result


def processor_of(pid: int) -> float:
    """The processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """The memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1e3


def show_arms(port: int) -> None:
    """What the page asks for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    assert len(ask(connection, "GET", "/v1/loops/bench/arms?limit=12", {})) == 12
    connection.close()


def measure(path: Path, options: argparse.Namespace) -> dict[str, float]:
    """Everything, by name."""
    from linoto.client import Client

    found: dict[str, float] = {"arms": options.arms, "features": options.features}
    items, (actions, log) = path.with_suffix(".npy"), world(options.arms, options.features)
    np.save(items, actions)
    process, port = start("linoto", path)
    with Client(f"http://127.0.0.1:{port}", timeout=600) as client:
        digest = timed(found, "send", lambda: client.store_features(items), process.pid)
        loop = {"policy": POLICIES[options.policy](), "features": digest, "redraws": options.redraws}
        make = partial(client.create, "bench", offline=log, default_reward=0.0, **loop)
        timed(found, "make", make, process.pid)
    for turn in ("first", "again"):
        if turn == "again":
            began = time.perf_counter()
            process, port = start("linoto", path)
            found["start_after_kill_s"] = time.perf_counter() - began
            found["start_after_kill_processor_s"] = processor_of(process.pid)
        pairs(port, 3)  # compiled code is loaded, and lists are chosen
        lags = timed(found, f"{turn}_pairs", partial(pairs, port, options.pairs), process.pid)
        for name, some in zip(("decide", "reward"), lags, strict=True):
            for share in (0.5, 0.95, 1.0):
                found[f"{turn}_{name}_ms_{share:g}"] = 1e3 * float(np.quantile(some, share))
        found[f"{turn}_pair_processor_ms"] = 1e3 * found.pop(f"{turn}_pairs_processor_s") / options.pairs
        timed(found, f"{turn}_page_of_12_arms", partial(show_arms, port), process.pid)
        found[f"{turn}_memory_mb"] = memory_of(process.pid)
        process.send_signal(signal.SIGKILL if turn == "first" else signal.SIGTERM)
        timed(found, f"{turn}_stop", process.wait)
    measure_snapshot(path, found)
    return found


def measure_snapshot(path: Path, found: dict[str, float]) -> None:
    """What one takes, in this process."""
    from linoto.service.loops.records import recover
    from linoto.service.storage import sql
    from linoto.service.storage.database import open_database

    with open_database(path, readonly=True) as connection:
        loop = timed(found, "recover", lambda: recover(connection, sql.one_loop(connection, 1)))  # type: ignore[arg-type]
        state, agent = timed(found, "snapshot", loop.snapshot)
        found["snapshot_mb"] = (len(state) + len(agent)) / 1e6
        found["spec_mb"] = len(sql.one_loop(connection, 1)[2]) / 1e6  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--features", type=int, default=50, metavar="D")
    parser.add_argument("--pairs", type=int, default=300, metavar="N")
    parser.add_argument("--policy", choices=list(POLICIES), default="LinUCB")
    parser.add_argument("--redraws", type=int, default=0, metavar="N", help="of each decision, for Gated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    options = parser.parse_args()
    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "bench.sqlite", options)
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    for name, value in found.items():
        print(f"{name:26s} {value:,.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
