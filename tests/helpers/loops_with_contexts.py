"""A loop with contexts: two countries, an age, three items, of which each country likes another."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
from helpers.loops import change, decide, reward
from helpers.service_process import FakeClock

import linoto
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import RewardResult
from linoto.service.loops.recipe_spec import RecipeSpec, as_statistics
from linoto.service.loops.spec import LoopSpec, canonical
from linoto.service.server import Service
from linoto.service.web.messages import DecisionResponse

RECIPE = linoto.Recipe(
    items=("A", "B", "C"),
    context=(
        linoto.Numeric(name="age", mean=40.0, scale=10.0),
        linoto.Category(name="country", levels=("DE", "NO"), missing=True),
    ),
    crosses=(("item", "country"), ("item", "age")),
)
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
POLICIES = {
    "model": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0),
        gate=linoto.Tolerance(budget=40.0, evidence="model"),
        confidence=CLICKS,
    ),
    "coin": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0), gate=linoto.Control(budget=6.0), confidence=CLICKS
    ),
    "Thompson": linoto.Gated(
        explorer=linoto.LinTS(),
        gate=linoto.Control(budget=6.0, loan=2.0, promise="expected"),
        confidence=CLICKS,
    ),
    "cheap coin": linoto.Gated(gate=linoto.Control(budget=20.0, share="cheap"), confidence=CLICKS),
    "open": linoto.Gated(explorer=linoto.LinTS(), gate=linoto.Open(), confidence=CLICKS),
    "by gaps": linoto.Gated(
        explorer=linoto.SquareCB(scale=1.0), gate=linoto.Control(budget=6.0), confidence=CLICKS
    ),
    "clicks, moved": linoto.Gated(
        explorer=linoto.LogisticTS(),
        gate=linoto.Control(budget=6.0),
        confidence=replace(CLICKS, shift=0.1),
    ),
    "random": linoto.Gated(explorer=linoto.Random(), gate=linoto.Open(), confidence=CLICKS),
    "closed": linoto.Gated(gate=linoto.Closed(), fallback="mixture", confidence=CLICKS),
}


def likes(item: str, country: str | None) -> float:
    """How often an item is clicked."""
    return 0.2 + 0.5 * ((item, country) in (("A", "DE"), ("B", "NO")))


def context_of(rng: np.random.Generator) -> dict[str, Any]:
    """Somebody who asks."""
    return {"age": int(rng.integers(18, 70)), "country": rng.choice(["DE", "NO", None], p=[0.5, 0.4, 0.1])}


@cache
def log_of(rows: int = 400, seed: int = 0) -> linoto.Moments:
    """A log in which items were drawn."""
    rng = np.random.default_rng(seed)
    played, rewards = [], []
    for _ in range(rows):
        context, item = context_of(rng), str(rng.choice(RECIPE.items))
        played.append(RECIPE.transform(context, [item])[0])
        rewards.append(float(rng.random() < likes(item, context["country"])))
    return linoto.Moments.from_rows(np.array(played), rewards)


def spec_of(policy: Any = POLICIES["model"], **changes: Any) -> LoopSpec:
    fields: dict[str, Any] = {
        "recipe": msgspec.convert(RECIPE.to_dict(), RecipeSpec),
        "moments": as_statistics(log_of()),
        "practice": "C",
        "policy": linoto.to_dict(policy),
        "default_reward": 0.0,
        "window": 60.0,
        "seed": 0,
    }
    return canonical(LoopSpec(**{**fields, **changes}))


def create(service: Service, name: str = "loop", **changes: Any) -> None:
    spec = spec_of(**changes)
    service.store.write_sync(lambda connection: service.loops.create(connection, Loop.fresh(name, spec)))


def run_traffic(
    service: Service, clock: FakeClock, rounds: int = 60, seed: int = 5, given: bool = False
) -> None:
    """Contexts of every kind, candidates, proposals, modes; rewards late, lost, repeated and refused."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        clock.now += 1.0
        options: dict[str, Any] = {"context": context_of(rng)}
        if rng.random() < 0.3:
            options["proposal"] = str(rng.choice(["A", "C"]))
        if rng.random() < 0.3:
            options["arms"] = ["C", "A"]
        if given:
            options["practice"] = "C" if rng.random() < 0.5 else {"C": 0.75, "A": 0.25}
        made = decide(service, **options)
        if rng.random() < 0.7:
            assert rewarded(service, made, options["context"], rng).status == "applied"
        if t % 20 == 10:
            change(service, mode=["shadow", "safe-only", "live"][t // 20 % 3])


def rewarded(
    service: Service, made: DecisionResponse, context: dict[str, Any], rng: np.random.Generator
) -> RewardResult:
    return reward(service, made.decision_id, float(rng.random() < likes(made.arm, context["country"])))
