"""What a vector index answers instead: python benchmarks/nearest.py [--arms N] [--features D] [--json FILE].

An index of nearest neighbours finds arms with a large inner product, and that is all that it knows. Thompson
sampling asks for the largest <theta + z, a>: the index is asked for it. LinUCB asks for the largest
<theta, a> + b |a| in V^-1, of which an index does not know the second part: it is asked for the 100 arms with
the largest <theta, a>, and the best of these is taken. What it finds is compared with the best of all arms.
Needs faiss-cpu, which linoto never does.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

import linoto

INDEXES = {  # faiss's own words, and the settings that are tried
    "all arms": ("Flat", {"": 0}),
    "clusters": ("IVF1024,Flat", {"nprobe": (1, 8, 64)}),
    "graph": ("HNSW32,Flat", {"efSearch": (16, 64, 256)}),
}
CANDIDATES = 100


def world(k: int, d: int) -> tuple[Any, linoto.Offline, Any]:
    """Arms on a sphere, a log of 20,000 rows, and means, as in items.py."""
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((k, d))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    theta = rng.standard_normal(d)
    means = actions @ theta / np.linalg.norm(theta)
    pulls = np.bincount(rng.integers(k, size=20_000), minlength=k)
    sums = pulls * means + 0.3 * np.sqrt(pulls) * rng.standard_normal(k)
    return actions.astype(np.float32), linoto.Offline(pulls=pulls, reward_sums=sums), means


class Asked:
    """Parameters that were asked for in some rounds, and the best of all arms for each."""

    def __init__(self, actions: Any, log: linoto.Offline, means: Any, rounds: int) -> None:
        agent, rng = linoto.LinUCB().start(actions, log, rng=0), np.random.default_rng(1)
        self.thetas, self.drawn, self.roots, self.bonus = [], [], [], []
        self.best_drawn, self.best_bound = [], []
        for _ in range(rounds):
            agent.play(means, 0.3 * rng.standard_normal(5))
            root = np.linalg.inv(np.linalg.cholesky(agent.ellipsoid.V)).T  # V^-1 = root root'
            drawn = agent.theta + 0.3 * root @ rng.standard_normal(root.shape[0])
            self.thetas.append(agent.theta)
            self.drawn.append(drawn)
            self.roots.append(root)
            self.bonus.append(0.25 * agent.ellipsoid.radius)
            self.best_drawn.append(int((actions @ drawn.astype(np.float32)).argmax()))
            self.best_bound.append(int(self.bounds(actions, -1).argmax()))

    def bounds(self, actions: Any, t: int) -> Any:
        """What LinUCB makes of some arms in a round."""
        widths = np.linalg.norm(actions @ self.roots[t].astype(np.float32), axis=1)
        return actions @ self.thetas[t].astype(np.float32) + self.bonus[t] * widths


def milliseconds(job: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of this thread, and what the job found."""
    start = thread_time()
    found = job()
    return 1e3 * (thread_time() - start), found


def measured(index: Any, actions: Any, asked: Asked) -> dict[str, float]:
    """How long a query takes, and how often it finds the best arm."""
    took, hits, bound_took, bound_hits = [], 0, [], 0
    for t, (theta, drawn) in enumerate(zip(asked.thetas, asked.drawn, strict=True)):
        one, many = drawn[None, :].astype(np.float32), theta[None, :].astype(np.float32)
        ms, (_, found) = milliseconds(lambda: index.search(one, 1))  # noqa: B023
        took.append(ms)
        hits += int(found[0, 0]) == asked.best_drawn[t]
        ms, (_, found) = milliseconds(lambda: index.search(many, CANDIDATES))  # noqa: B023
        candidates = found[0][found[0] >= 0]
        more, scores = milliseconds(lambda: asked.bounds(actions[candidates], t))  # noqa: B023
        bound_took.append(ms + more)
        bound_hits += int(candidates[scores.argmax()]) == asked.best_bound[t]
    n = len(took)
    return {
        "thompson_ms": float(np.median(took)),
        "thompson_found": hits / n,
        "ucb_ms": float(np.median(bound_took)),
        "ucb_found": bound_hits / n,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, default=100_000, metavar="N")
    parser.add_argument("--features", type=int, default=50, metavar="D")
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="each after 5 more rewards")
    parser.add_argument("--indexes", nargs="+", choices=INDEXES, default=list(INDEXES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    options = parser.parse_args()
    import faiss

    faiss.omp_set_num_threads(1)
    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}")
    actions, log, means = world(options.arms, options.features)
    asked, rows = Asked(actions, log, means, options.rounds), []
    for name in options.indexes:
        words, settings = INDEXES[name]
        index = faiss.index_factory(options.features, words, faiss.METRIC_INNER_PRODUCT)
        built, _ = milliseconds(lambda: (index.train(actions), index.add(actions)))  # noqa: B023
        ((setting, values),) = settings.items()
        for value in values if isinstance(values, tuple) else (values,):
            if setting:
                faiss.ParameterSpace().set_index_parameter(index, setting, value)
            row = measured(index, actions, asked) | {"index": name, setting: value, "built_s": built / 1e3}
            rows.append(row)
            drawn = f"Thompson {row['thompson_ms']:.3f} ms, right in {row['thompson_found']:.1%}"
            bound = f"LinUCB {row['ucb_ms']:.3f} ms, right in {row['ucb_found']:.1%}"
            print(f"{name} {setting} {value}: made in {built / 1e3:.0f} s; {drawn}; {bound}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
