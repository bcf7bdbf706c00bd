"""One package in a process of its own on real tables: a line of JSON in, a line of JSON out.

A line {"player": "play_river", "package": "river", "policy": "LinUCB", "settings": {}, "seed": 0,
"problem": "FILE.npz"} is answered by what that run earned: the reward of each round as a string of 0 and 1,
and the processor time of a decision with its update; or by {"failed": why}. A first line {"package": NAME} is
answered by its version.
"""

from __future__ import annotations

import os

# BLAS reads its settings when NumPy is imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import json
import sys
import warnings
from importlib import import_module, metadata
from time import process_time
from typing import Any

import numpy as np


def play(order: dict[str, Any]) -> dict[str, Any]:
    """One run: learn the log, then decide and learn round by round."""
    module = import_module(order["player"])
    with np.load(order["problem"]) as arrays:
        problem = dict(arrays)
    contexts, paid, practice = problem["contexts"], problem["paid"], problem["practice"]
    shape = (paid.shape[1], contexts.shape[1])
    player = module.table(order["policy"], order["settings"], *shape, order["seed"])
    begin = process_time()
    logged = (problem[f"log_{name}"] for name in ("contexts", "arms", "rewards", "chances"))
    player.learn_log(*logged)
    start = process_time()
    arms = []
    for context, rewards, weights in zip(contexts, paid, practice, strict=True):
        arm = player.decide(context, weights)
        player.update(context, arm, float(rewards[arm]))
        arms.append(arm)
    taken = process_time() - start
    earned = paid[np.arange(len(paid)), arms]
    return {
        "rewards": "".join(str(int(one)) for one in earned),
        "seconds": taken / len(paid),
        "start": start - begin,
    }


def answer(order: dict[str, Any]) -> dict[str, Any]:
    """What one line is answered by."""
    try:
        if "problem" in order:
            return play(order)
        return {"version": metadata.version(order["package"])}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def main() -> None:
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")  # what a package prints must not get between the answers
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
