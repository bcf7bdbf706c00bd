"""One loop with very many arms on a real server: python benchmarks/many_arms.py [--arms N] [--features D].

How long it takes to make, to start and to start again, what a decision and its reward take one after the
other, how large a snapshot is, and the same where decisions look at every arm (`--plain`).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from service import ask, start

import linoto


def spec_of(k: int, d: int, plain: bool) -> Any:
    """Arms on a sphere with a log of 20,000 rows; an explorer that draws by gaps looks at every arm."""
    from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical

    rng = np.random.default_rng(0)
    actions = rng.standard_normal((k, d))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    theta = rng.standard_normal(d)
    means = actions @ theta / np.linalg.norm(theta)
    pulls = np.bincount(rng.integers(k, size=20_000), minlength=k)
    explorer: Any = linoto.SquareCB() if plain else linoto.LinUCB()
    policy = linoto.Gated(explorer=explorer, gate=linoto.Open(), confidence=linoto.Confidence(noise=0.3))
    return canonical(
        LoopSpec(
            arms=[Arm(name=f"item {i}", features=row) for i, row in enumerate(actions.round(6).tolist())],
            policy=linoto.to_dict(policy),
            default_reward=0.0,
            offline=LogStatistics(pulls=pulls.tolist(), reward_sums=(pulls * means).tolist()),
        )
    )


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, default=80_000, metavar="N")
    parser.add_argument("--features", type=int, default=50, metavar="D")
    parser.add_argument("--pairs", type=int, default=1000, metavar="N")
    parser.add_argument("--plain", action="store_true", help="an explorer that looks at every arm")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    options = parser.parse_args()
    from linoto.service.maintenance import create_loop
    from linoto.service.storage import sql
    from linoto.service.storage.database import open_database

    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}", flush=True)
    found: dict[str, float] = {"arms": options.arms, "features": options.features}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.sqlite"
        spec, began = spec_of(options.arms, options.features, options.plain), time.perf_counter()
        create_loop(path, "bench", spec)
        found["made_s"] = time.perf_counter() - began
        for turn in ("first", "again"):
            began = time.perf_counter()
            process, port = start("linoto", path)
            found[f"{turn}_start_s"] = time.perf_counter() - began
            pairs(port, 3)  # compiled code is loaded
            for name, lags in zip(("decide", "reward"), pairs(port, options.pairs), strict=True):
                for share in (0.5, 0.95, 1.0):
                    found[f"{turn}_{name}_ms_{share:g}"] = 1e3 * float(np.quantile(lags, share))
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            process.wait()
            found[f"{turn}_stop_s"] = time.perf_counter() - began
        with open_database(path, readonly=True) as connection:
            found["snapshot_mb"] = len(sql.latest_snapshot(connection, 1)[2]) / 1e6  # type: ignore[index]
    for name, value in found.items():
        print(f"{name:22s} {value:,.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
