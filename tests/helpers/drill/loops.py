"""The loops of a drill, one for each way to draw, and what visitors ask them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.loops_with_contexts import POLICIES, RECIPE, log_of
from helpers.service_process import TOLERANT

import linoto
from linoto.client import Client

LOG = {"arms": ["a", "b", "c"], "offline": linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])}
MOMENTS = {"recipe": RECIPE, "practice": "C"}
WINDOW = 1e6  # seconds: none ends meanwhile


def nothing(_: random.Random) -> dict[str, Any]:
    return {}


def somebody(rng: random.Random) -> dict[str, Any]:
    return {"context": {"age": rng.randrange(18, 70), "country": rng.choice(["DE", "NO", None])}}


@dataclass(frozen=True)
class Kind:
    """How a loop is made, and with what it is asked."""

    policy: linoto.Gated
    settings: dict[str, Any]
    question: Callable[[random.Random], dict[str, Any]] = nothing

    def create(self, client: Client, name: str) -> None:
        settings = self.settings if "recipe" not in self.settings else self.settings | {"moments": log_of()}
        client.create(name, policy=self.policy, default_reward=0.0, window=WINDOW, **settings)


def fixed(gate: Any, explorer: Any) -> linoto.Gated:
    return linoto.Gated(explorer=explorer, gate=gate, confidence=TOLERANT.confidence)


KINDS = {
    "tolerance": Kind(TOLERANT, LOG | {"holdback": 0.1}),
    "coins": Kind(fixed(linoto.Control(budget=30.0, epsilon=0.1), linoto.LinUCB()), LOG),
    "thompson": Kind(fixed(linoto.Control(budget=30.0, epsilon=0.1), linoto.LinTS()), LOG | {"redraws": 20}),
    "contexts": Kind(POLICIES["coin"], MOMENTS, somebody),
}
