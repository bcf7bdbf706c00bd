"""Asking a service without HTTP, and traffic of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.service_process import FakeClock

import linoto
from linoto.service.errors import Refused
from linoto.service.loops.events import Mode
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import RewardResult
from linoto.service.loops.records import recover
from linoto.service.loops.spec import Arm
from linoto.service.server import Service
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection
from linoto.service.web.messages import DecisionResponse, decision_response

THOMPSON = linoto.Gated(explorer=linoto.LinTS(), gate=linoto.Open())


def decide(service: Service, name: str = "loop", **request: Any) -> DecisionResponse:
    loops = service.loops
    event = service.store.write_sync(lambda c: loops.decide(c, name, **request))
    return decision_response(loops.get(name), event)


def reward(
    service: Service, decision_id: str, value: float | None, name: str = "loop", **metrics: float
) -> RewardResult:
    return service.store.write_sync(lambda c: service.loops.reward(c, name, decision_id, value, metrics))


def change(
    service: Service, name: str = "loop", *, mode: Mode | None = None, holdback: float | None = None
) -> None:
    changes = {"by": "test", "mode": mode, "holdback": holdback}
    service.store.write_sync(lambda c: service.loops.change(c, name, **changes))


def add_arms(service: Service, *names: str, features: list[float] | None = None) -> None:
    arms = [Arm(name=name, features=features) for name in names]
    service.store.write_sync(lambda c: service.loops.add_arms(c, "loop", by="ann", arms=arms))


def remove_arms(service: Service, *names: str, fallback: str | None = None) -> None:
    service.store.write_sync(
        lambda c: service.loops.remove_arms(c, "loop", by="ann", arms=list(names), fallback=fallback)
    )


def digests(service: Service, name: str = "loop") -> tuple[str, str, str]:
    """The state in memory, from the last snapshot, and from the first event."""
    loops = service.store.write_sync(lambda connection: recovered(connection, service.loops.get(name)))
    return loops[0].digest(), loops[1].digest(), loops[2].digest()


def recovered(connection: Connection, loop: Loop) -> tuple[Loop, Loop, Loop]:
    """The loop, the same from its last snapshot, and from its first event."""
    row = sql.one_loop(connection, loop.id)
    assert row is not None
    return loop, recover(connection, row), recover(connection, row, from_scratch=True)


def run_mixed_traffic(service: Service, clock: FakeClock, rounds: int = 60) -> None:
    """Decisions of every kind, rewards late, lost, repeated and refused."""
    rng = np.random.default_rng(5)
    for t in range(rounds):
        clock.now += 1.0
        options: dict[str, Any] = {}
        if rng.random() < 0.3:
            options["proposal"] = str(rng.choice(["a", "b", "c"]))
        elif rng.random() < 0.3:
            options["allowed"] = ["a", "b"]
        try:
            made = decide(service, **options)
        except Refused as refusal:
            assert refusal.code == "no_safe_arm"
            continue
        if rng.random() < 0.7:
            reward(service, made.decision_id, float(rng.random() < 0.6))
        if t % 20 == 10:
            change(service, mode=["shadow", "live", "safe-only"][t // 20 % 3])
