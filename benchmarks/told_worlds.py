"""What it brings to tell explorers of guardrails: python benchmarks/told_worlds.py [--worlds N] [--explorer].

Ten arms, of which practice plays the first (clicked by 30 %, complained about by 3 %), and seven kinds of
worlds, one of them with contexts. Each world is played with the guardrail and an explorer that is told, with
the guardrail and one that is not, and without any guardrail; nothing is chosen but the default ridge.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

import linoto
from linoto.core import acceptable
from linoto.core.arrays import Floats
from linoto.core.playing import GivenRounds
from linoto.worlds.bandits import Bandit
from linoto.worlds.contexts import PooledRounds

K, ROUNDS, BUDGET = 10, 3000, 60.0
LOG = linoto.Offline(pulls=[1000, *[0] * (K - 1)], reward_sums=[300.0, *[0.0] * (K - 1)])
RAIL = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=BUDGET, mean=0.03)
EXPLORERS = {"ucb": linoto.LinUCB(scale=0.25), "ts": linoto.LinTS()}
Rates = tuple[Floats, Floats]  # (k,) each: clicked, and complained about


def clicked_by(rng: np.random.Generator, best: float = 0.45) -> Floats:
    """(k,) practice's first, the others around it, the last one the best."""
    return np.array([0.3, *rng.uniform(0.2, 0.4, K - 2), best])


def annoying(rng: np.random.Generator) -> Rates:
    """The most clicked arm annoys one in five; the next is a little better than practice."""
    return clicked_by(rng, 0.6), np.array([0.03, *rng.uniform(0.01, 0.04, K - 2), 0.2])


def apart(rng: np.random.Generator) -> Rates:
    """Complaints have nothing to do with clicks."""
    return clicked_by(rng), np.array([0.03, *rng.uniform(0.0, 0.06, K - 1)])


def little(rng: np.random.Generator) -> Rates:
    """Every better arm is a little worse."""
    clicked = clicked_by(rng)
    return clicked, np.where(clicked > 0.3, 0.04, 0.03)


def nobody(rng: np.random.Generator) -> Rates:
    """Nothing annoys anybody."""
    return clicked_by(rng), np.full(K, 0.03)


def together(rng: np.random.Generator) -> Rates:
    """The more clicks, the more complaints."""
    clicked = clicked_by(rng)
    return clicked, np.clip(0.03 + 0.6 * (clicked - 0.3), 0.0, 1.0)


def against(rng: np.random.Generator) -> Rates:
    """The more clicks, the fewer complaints."""
    clicked = clicked_by(rng)
    return clicked, np.clip(0.03 - 0.1 * (clicked - 0.3), 0.0, 1.0)


def fixed(rates: Callable[[np.random.Generator], Rates], rng: np.random.Generator) -> tuple[Bandit, object]:
    """A world of one-hot arms, and its log."""
    clicked, complained = rates(rng)
    metric = Bandit(actions=np.eye(K), means=complained, rewards="bernoulli")
    world = Bandit(actions=np.eye(K), means=clicked, rewards="bernoulli", metrics={"complaints": metric})
    return world, LOG


def in_contexts(rng: np.random.Generator) -> tuple[PooledRounds, object]:
    """Two contexts with five arms each, all with features of their own: one arm of each annoys."""
    ends, actions = np.array([5, 10]), np.eye(10)
    weights = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 2)
    clicked = np.concatenate([[0.3, *rng.uniform(0.2, 0.45, 3), 0.6] for _ in range(2)])
    complained = np.concatenate([[0.03, *rng.uniform(0.01, 0.04, 3), 0.2] for _ in range(2)])

    def pool(means: Floats, **more: object) -> PooledRounds:
        given = GivenRounds(ends=ends, actions=actions, weights=weights, means=means)
        return PooledRounds(pool=given, chances=np.array([0.5, 0.5]), rewards="bernoulli", **more)  # type: ignore[arg-type]

    return pool(clicked, metrics={"complaints": pool(complained)}), None


KINDS: dict[str, Callable[[np.random.Generator], tuple[object, object]]] = {
    "the most clicked arm annoys one in five": lambda rng: fixed(annoying, rng),
    "the same with contexts, five arms": in_contexts,
    "complaints have nothing to do with clicks": lambda rng: fixed(apart, rng),
    "every better arm is a little worse": lambda rng: fixed(little, rng),
    "nothing annoys anybody": lambda rng: fixed(nobody, rng),
    "the more clicks, the more complaints": lambda rng: fixed(together, rng),
    "the more clicks, the fewer complaints": lambda rng: fixed(against, rng),
}


def played(explorer: object, kind: str, seed: int, *, guarded: bool, told: bool) -> tuple[float, float]:
    """What was gained of clicks above practice in one world, and the most complaints beyond practice's."""
    world, log = KINDS[kind](np.random.default_rng([seed, *map(ord, kind[:20])]))
    policy = linoto.Gated(
        explorer=explorer,  # type: ignore[arg-type]
        gate=linoto.Control(budget=BUDGET),
        confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1)),
        guardrails=(RAIL,) if guarded else (),
    )
    most = acceptable.MOST_FEATURES if told else 0
    with patch.object(acceptable, "MOST_FEATURES", most):
        run = linoto.simulate(policy, world, log, horizon=ROUNDS, seed=seed)  # type: ignore[arg-type]
    return -float(run.practice_shortfall[-1]), float(run.metrics["complaints"].in_explored.max())


def main() -> None:
    """Print one row for each kind of world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20, help="of each kind")
    parser.add_argument("--explorer", choices=EXPLORERS, default="ucb")
    arguments = parser.parse_args()
    explorer, ways = EXPLORERS[arguments.explorer], ((True, False), (True, True), (False, False))
    print("| world | explorer not told | told | without a guardrail |\n| --- | --- | --- | --- |")
    for kind in KINDS:
        cells = []
        for guarded, told in ways:
            found = np.array(
                [played(explorer, kind, seed, guarded=guarded, told=told) for seed in range(arguments.worlds)]
            )
            error = found[:, 0].std(ddof=1) / np.sqrt(len(found))
            cells.append(f"{found[:, 0].mean():.0f} ({error:.0f}), {found[:, 1].max():.0f}")
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
