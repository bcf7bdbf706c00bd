"""One contestant in a process of its own: a line of JSON in, a line of JSON out.

The first line says what to prepare:
{"player": "play_river", "package": "river", "policy": "LinUCBDisjoint", "workload": "run",
 "problem": "FILE.npz", "seconds": 1.0, "gibibytes": 4}; the answer is {"ready": true, "version": "0.26.1"}.
Each further line {"turn": N} is answered by what that turn took: {"seconds": of one unit, "units": how many}.
Whatever goes wrong is answered by {"impossible": why} or {"failed": why}, and ends the worker.
"""

from __future__ import annotations

import os

# BLAS reads its settings when NumPy is imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import json
import resource
import sys
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import ImpossibleError

Turn = Callable[[int], dict[str, Any]]
WARM_UP = 20  # rounds before anything is timed: what is loaded or compiled on first use is not a round


def timed_rounds(player: Any, means: Any, draws: Any, seconds: float) -> dict[str, Any]:
    """Decide and update until the draws or the seconds are used up; processor time of one round."""
    earned, played, end = 0.0, 0, perf_counter() + seconds
    means = means.tolist()
    start = process_time()
    for draw in draws.tolist():
        arm = player.decide()
        player.update(arm, means[arm] + draw)
        earned += means[arm]
        played += 1
        if perf_counter() > end:
            break
    return {"seconds": (process_time() - start) / played, "units": played, "mean reward": earned / played}


def run(module: Any, policy: str, problem: Any, seconds: float) -> Turn:
    """One simulated run from the first round on; where a package has a loop of its own, in that loop."""
    actions, means, draws = problem["actions"], problem["means"], problem["draws"]

    def play(draws: Any) -> dict[str, Any]:
        player = module.fixed(policy, actions)
        if not hasattr(player, "run"):
            return timed_rounds(player, means, draws, seconds)
        start = process_time()
        arms = player.run(means, draws)
        taken = process_time() - start
        return {"seconds": taken / len(draws), "units": len(draws), "mean reward": float(means[arms].mean())}

    play(draws[:WARM_UP])
    return lambda _: play(draws)


def decide(module: Any, policy: str, problem: Any, seconds: float) -> Turn:
    """Single decisions, each with its update, of a policy that has played some rounds before."""
    means, draws = problem["means"], problem["draws"]
    player = module.fixed(policy, problem["actions"])
    timed_rounds(player, means, draws[:WARM_UP], seconds)
    return lambda number: timed_rounds(player, means, np.roll(draws, -997 * number), seconds)


def row_by_row(learn: Callable[[int, float], None], arms: Any, rewards: Any, seconds: float) -> int:
    """Learn as many rows as there is time for, and say how many."""
    end = perf_counter() + seconds
    for row, (arm, reward) in enumerate(zip(arms.tolist(), rewards.tolist(), strict=True), start=1):
        learn(arm, reward)
        if perf_counter() > end:
            return row
    return len(arms)


def warm(module: Any, policy: str, problem: Any, seconds: float) -> Turn:
    """Start from a log and decide once; who learns row by row gets as many rows as there is time for."""
    actions, arms, rewards = problem["actions"], problem["arms"], problem["rewards"]
    features = actions[arms]

    def turn(_: int) -> dict[str, Any]:
        player = module.fixed(policy, actions)
        start = process_time()
        if hasattr(player, "fit"):
            player.fit(arms, rewards, features)
            learnt = len(arms)
        else:
            learnt = row_by_row(getattr(player, "learn", player.update), arms, rewards, seconds)
        player.decide()
        taken = (process_time() - start) * len(arms) / learnt
        return {"seconds": taken, "units": learnt, "computed": learnt < len(arms)}

    return turn


def contexts(module: Any, policy: str, problem: Any, _: float) -> Turn:
    """One whole run with contexts: time per round, and the regret."""
    actions, means, uniforms = (
        problem["actions"],
        problem["means"],
        problem["uniforms"],
    )  # (runs, n, k, d), ...

    def play(number: int, n: int) -> dict[str, Any]:
        tables, paid, coins = actions[number, :n], means[number, :n], uniforms[number, :n]
        player = module.contextual(policy, *tables.shape[1:])
        chosen, start = [], process_time()
        for table, mean, coin in zip(tables, paid, coins, strict=True):
            arms = player.describe(table)
            arm = player.decide(arms)
            player.update(arms, arm, float(coin < mean[arm]))
            chosen.append(arm)
        taken = process_time() - start
        lost = paid.max(axis=1) - paid[np.arange(len(paid)), chosen]
        return {"seconds": taken / len(paid), "units": len(paid), "regret": float(lost.sum())}

    play(0, WARM_UP)
    return lambda number: play(number, actions.shape[1])


def own(module: Any, policy: str, problem: Any, seconds: float) -> Turn:
    """Single decisions and updates where every arm has a model of its own: one context, k arms."""
    table, k = problem["contexts"], int(problem["k"])
    options = getattr(module, "OPTIONS", {}).get(policy)
    player = module.table(policy, {} if options is None else {"options": options}, k, table.shape[1], 0)
    player.learn_log(table[:k], np.arange(k), np.full(k, 0.5), np.full(k, 1 / k))
    practice = np.full(k, 1 / k)

    def play(first: int) -> dict[str, Any]:
        played, end, start = 0, perf_counter() + seconds, process_time()
        for context in np.roll(table, -first, axis=0):
            player.update(context, player.decide(context, practice), 0.5)
            played += 1
            if perf_counter() > end:
                break
        return {"seconds": (process_time() - start) / played, "units": played}

    play(0)
    return lambda number: play(997 * number)


WORKLOADS = {"run": run, "decide": decide, "warm": warm, "contexts": contexts, "own": own}


def prepare(order: dict[str, Any]) -> tuple[Turn, dict[str, Any]]:
    """The turn of the workload that is asked for, and the answer that it is ready."""
    limit = int(order["gibibytes"] * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    module = import_module(order["player"])
    needed = {"contexts": "contextual", "own": "table"}.get(order["workload"], "fixed")
    if not hasattr(module, needed):
        raise ImpossibleError(module.WITHOUT[needed])
    with np.load(order["problem"]) as arrays:
        problem = dict(arrays)
    turn = WORKLOADS[order["workload"]](module, order["policy"], problem, order["seconds"])
    return turn, {"ready": True, "version": metadata.version(order["package"])}


def main() -> None:
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")  # what a package prints must not get between the answers
    os.dup2(2, 1)
    turn: Turn | None = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if turn is None:
                turn, answer = prepare(order)
            else:
                answer = turn(order["turn"])
        except ImpossibleError as reason:
            answer = {"impossible": str(reason)}
        except MemoryError:
            answer = {"impossible": "needs more memory than it may have"}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)
        if "impossible" in answer or "failed" in answer:
            return


if __name__ == "__main__":
    main()
