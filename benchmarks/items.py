"""Lists of arms against plain rounds: python benchmarks/items.py [--json FILE] [--only SIZE] [--memory].

Both play the same rounds of the same world in one run, and are charged the processor time of one thread.
Their arms are checked to be the same before a ratio is printed. The first ratio holds the time of the first
choice of the lists, which touches every arm; the last number is the share of arms touched in a round.
`--worlds 5 --rounds 10000` plays so many worlds, each for so long.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import linoto
from linoto.core.shortlists import Sizes

SIZES = {"10000x20": (10_000, 20, 3000), "100000x50": (100_000, 50, 2000), "1000000x50": (1_000_000, 50, 200)}
POLICIES: dict[str, Any] = {
    "LinUCB": linoto.LinUCB(),
    "LinLCB": linoto.LinLCB(),
    "LinTS": linoto.LinTS(),
    "Gated": linoto.Gated(),
    "LinOtO": linoto.LinOtO(alpha=0.1, confidence=linoto.Confidence(noise=0.3)),
    "LinOtO-scaled": linoto.Gated(  # a quarter of the radius, and all else as in LinUCB()
        explorer=linoto.LinUCB(), gate=linoto.Budget(alpha=0.1), fallback="lcb", reach="proposal"
    ),
}


def world(k: int, d: int, poor: bool, seed: int = 0) -> tuple[Any, linoto.Offline, Any]:
    """Arms on a sphere, a log of 20,000 rows or of 1,000 rows of ten arms, and means."""
    rng = np.random.default_rng(seed)
    actions = rng.standard_normal((k, d))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    theta = rng.standard_normal(d)
    means = actions @ theta / np.linalg.norm(theta)
    pulls = np.zeros(k, dtype=np.int64)
    np.add.at(pulls, rng.choice(k, 10) if poor else rng.integers(k, size=20_000), 100 if poor else 1)
    sums = pulls * means + 0.3 * np.sqrt(pulls) * rng.standard_normal(k) + 0.0  # -0 is another number
    return actions, linoto.Offline(pulls=pulls, reward_sums=sums), means


def seconds(job: Callable[[], object]) -> float:
    """Processor time of this thread."""
    start = thread_time()
    job()
    return thread_time() - start


def measured(name: str, k: int, d: int, rounds: int, poor: bool, seed: int = 0) -> dict[str, Any]:
    """One policy in one world, with lists and without."""
    actions, log, means = world(k, d, poor, seed)
    draws = 0.3 * np.random.default_rng(1).standard_normal(rounds)
    took, arms, first = {}, {}, 0.0
    for sizes in (Sizes(), None):
        agent = POLICIES[name].start(actions, log, rng=0)
        agent.driver.listing.use(sizes)
        first = seconds(agent.driver.listing.now) if sizes is not None else first
        took[sizes] = seconds(lambda: arms.update({sizes: agent.play(means, draws)[0]}))  # noqa: B023
        if sizes is not None:
            lists = agent.running.lists
            touched = None if lists is None else float(lists.book["work"]) / (k * rounds)
    listed, plain = took
    if not np.array_equal(arms[listed], arms[plain]):
        raise AssertionError(f"arms must be the same with lists and without, got others for {name}")
    return {
        "policy": name,
        "arms": k,
        "features": d,
        "log": "poor" if poor else "good",
        "rounds": rounds,
        "plain_ms": 1e3 * took[plain] / rounds,
        "first_ms": 1e3 * first,
        "lists_ms": 1e3 * took[listed] / rounds,
        "ratio": took[plain] / (took[listed] + first),
        "ratio_later": took[plain] / took[listed],
        "touched": touched,
    }


def asked(k: int, d: int) -> dict[str, float]:
    """Microseconds of a question about one arm or three, and of the same by a look at every arm."""
    actions, log, _ = world(k, d, False)
    agent = POLICIES["LinUCB"].start(actions, log, rng=0)
    mask = agent.driver.present_among([3, 4, 5])
    questions: dict[str, Callable[[], object]] = {
        "interval": lambda: agent.interval(7),
        "all bounds": lambda: agent.ucb[7],
        "three allowed": lambda: agent.select(allowed=[3, 4, 5]),
        "three allowed, by a look at all": lambda: agent.driver.peek(None, mask),
    }
    return {name: 1e6 * min(seconds(question) for _ in range(30)) for name, question in questions.items()}


def written() -> int:
    """Bytes of memory that this process has written to, files that it mapped not counted; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def kept(k: int, d: int) -> tuple[float, float]:
    """Bytes that an agent keeps of an arm beside its features: after the start, and after 50 rounds."""
    actions, log, _ = world(k, d, False)
    before = written()
    agent = POLICIES["LinUCB"].start(actions, log, rng=0)
    started = written()
    for _ in range(50):
        agent.update(agent.select(), 0.1)
    return (started - before) / k - 8 * d, (written() - before) / k - 8 * d


def rows(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All that is measured."""
    for size, name in product(asked.only, asked.policies):
        k, d, usual = SIZES[size]
        for poor in (log == "poor" for log in asked.logs if k < 1_000_000 or log == "good"):
            rounds = asked.rounds or usual * (5 if poor and k <= 10_000 else 1)
            for seed in range(asked.worlds):
                yield measured(name, k, d, rounds, poor, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES), help="sizes, k x d")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--memory", action="store_true", help="only what an agent keeps of an arm")
    parser.add_argument("--logs", nargs="+", choices=("good", "poor"), default=["good", "poor"])
    parser.add_argument("--worlds", type=int, default=1, help="how many")
    parser.add_argument("--rounds", type=int, help="of each, in place of the usual number")
    options = parser.parse_args()
    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}")
    for name in options.policies:
        measured(name, 5000, 4, 10, False)  # compiled code is loaded before anything is timed
    if options.memory:
        for size in options.only:
            started, later = kept(*SIZES[size][:2])
            print(f"{size}: {started:.0f} bytes an arm beside its features, {later:.0f} after 50 rounds")
        return
    for size in options.only if options.worlds == 1 else ():
        told = asked(*SIZES[size][:2]).items()
        print(f"{size}: " + ", ".join(f"{name} {value:,.0f} µs" for name, value in told), flush=True)
    found = []
    for row in rows(options):
        share = "ended" if row["touched"] is None else f"{row['touched']:.2%} touched"
        what = f"{row['policy']:13s} {row['arms']:>9,} x {row['features']} {row['log']:5s}"
        times = f"plain {row['plain_ms']:.3f} ms, lists {row['lists_ms']:.3f} after {row['first_ms']:.0f} ms"
        print(f"{what} {row['rounds']:6d} rounds: {times}", flush=True)
        print(
            f"   {row['ratio']:.1f} times faster, {row['ratio_later']:.1f} once chosen; {share}", flush=True
        )
        found.append(row)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
