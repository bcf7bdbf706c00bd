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

INDEXES = {  # faiss's own words, and the settings that are tried
    "all arms": ("Flat", {"": 0}),
    "clusters": ("IVF1024,Flat", {"nprobe": (1, 8, 64)}),
    "graph": ("HNSW32,Flat", {"efSearch": (16, 64, 256)}),
}
CANDIDATES = 100


class Asked:
    """Parameters that may be asked for, each of a world of its own, and the best of all arms for each.

    Arms lie on a sphere, and a log of 20,000 rows of all of them has told the parameter up to noise of 0.3.
    """

    def __init__(self, k: int, d: int, questions: int) -> None:
        rng = np.random.default_rng(0)
        actions = rng.standard_normal((k, d), dtype=np.float32)
        actions /= np.linalg.norm(actions, axis=1, keepdims=True)
        rows = actions[rng.integers(k, size=20_000)].astype(np.float64)
        root = np.linalg.inv(np.linalg.cholesky(np.eye(d) + rows.T @ rows)).T  # V^-1 = root root'
        self.actions, self.root = actions, root.astype(np.float32)
        self.bonus = 0.25 * 0.3 * np.sqrt(d * np.log(1 + 20_000 / d))  # about that of LinUCB
        self.widths = np.linalg.norm(actions @ self.root, axis=1)
        truth = rng.standard_normal((questions, d))
        truth /= np.linalg.norm(truth, axis=1, keepdims=True)
        self.thetas = (truth + 0.3 * rng.standard_normal((questions, d)) @ root.T).astype(np.float32)
        noise = 0.3 * rng.standard_normal((questions, d)) @ root.T
        self.drawn = (self.thetas + noise).astype(np.float32)
        self.best_drawn = [int((actions @ drawn).argmax()) for drawn in self.drawn]
        self.best_bound = [int((actions @ t + self.bonus * self.widths).argmax()) for t in self.thetas]

    def bounds(self, arms: Any, t: int) -> Any:
        """What LinUCB makes of some arms for one question."""
        rows = self.actions[arms]
        return rows @ self.thetas[t] + self.bonus * np.linalg.norm(rows @ self.root, axis=1)


def milliseconds(job: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of this thread, and what the job found."""
    start = thread_time()
    found = job()
    return 1e3 * (thread_time() - start), found


def measured(index: Any, asked: Asked) -> dict[str, float]:
    """How long a query takes, and how often it finds the best arm."""
    took, hits, bound_took, bound_hits = [], 0, [], 0
    for t, (theta, drawn) in enumerate(zip(asked.thetas, asked.drawn, strict=True)):
        one, many = drawn[None, :], theta[None, :]
        ms, (_, found) = milliseconds(lambda: index.search(one, 1))  # noqa: B023
        took.append(ms)
        hits += int(found[0, 0]) == asked.best_drawn[t]
        ms, (_, found) = milliseconds(lambda: index.search(many, CANDIDATES))  # noqa: B023
        candidates = found[0][found[0] >= 0]
        more, scores = milliseconds(lambda: asked.bounds(candidates, t))  # noqa: B023
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
    parser.add_argument("--questions", type=int, default=200, metavar="N")
    parser.add_argument("--indexes", nargs="+", choices=INDEXES, default=list(INDEXES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    options = parser.parse_args()
    import faiss

    faiss.omp_set_num_threads(1)
    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}")
    asked, rows = Asked(options.arms, options.features, options.questions), []
    taken, _ = milliseconds(lambda: [(asked.actions @ drawn).argmax() for drawn in asked.drawn[:20]])
    print(f"NumPy, float32, one thread: Thompson {taken / 20:.3f} ms, right in all", flush=True)
    for name in options.indexes:
        words, settings = INDEXES[name]
        index = faiss.index_factory(options.features, words, faiss.METRIC_INNER_PRODUCT)
        built, _ = milliseconds(lambda: (index.train(asked.actions), index.add(asked.actions)))  # noqa: B023
        ((setting, values),) = settings.items()
        for value in values if isinstance(values, tuple) else (values,):
            if setting:
                faiss.ParameterSpace().set_index_parameter(index, setting, value)
            row = measured(index, asked) | {"index": name, setting: value, "built_s": built / 1e3}
            rows.append(row)
            drawn = f"Thompson {row['thompson_ms']:.3f} ms, right in {row['thompson_found']:.1%}"
            bound = f"LinUCB {row['ucb_ms']:.3f} ms, right in {row['ucb_found']:.1%}"
            print(f"{name} {setting} {value}: made in {built / 1e3:.0f} s; {drawn}; {bound}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
