"""A database with loops with contexts goes on, in every later version, as it did when it was written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loops import decide, recovered, reward
from helpers.service_process import FakeClock, opened

from linoto.service.loops.closeness import same_state
from linoto.service.loops.events import DECISIONS
from linoto.service.loops.loop import Loop
from linoto.service.maintenance import check
from linoto.service.server import Service
from linoto.service.storage import sql

FOLDER = Path(__file__).parents[1] / "data" / "contexts"
RECORD: dict[str, Any] = json.loads((FOLDER / "loops.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "loops.sqlite", tmp_path / "loops.sqlite"))


def check_states(service: Service, loop: Loop) -> None:
    """What it is after a start, and almost the same after a replay of everything."""
    _, short, long = service.store.write_sync(lambda connection: recovered(connection, loop))
    assert loop.digest() == short.digest()
    assert same_state(short, long)


@pytest.mark.parametrize("name", sorted(RECORD["loops"]))
def test_a_loop_with_contexts_goes_on(path: Path, name: str) -> None:
    """Its events replay to its snapshot, up to the last digits of the processor that wrote it.

    It decides on, by draws that nobody knows now.
    """
    wanted, clock = RECORD["loops"][name], FakeClock(RECORD["now"])
    with opened(path, clock=clock) as service:
        loop = service.loops.get(name)
        check_states(service, loop)
        state, recorded = loop.state, (wanted["decided"], wanted["seq"] + 1, wanted["plays"])
        assert (state.decided, state.seq, state.plays) == recorded
        assert sorted(loop.pending) == wanted["open"]
        groups = {group: [t.plays, t.closed, t.rewards] for group, t in state.groups.items()}
        assert groups == wanted["groups"]
        np.testing.assert_allclose(loop.agent.theta, wanted["theta"], rtol=1e-9, atol=1e-12)
        for turn, (context, *_) in enumerate(wanted["next"]):
            clock.now += 1
            made = decide(service, name, context=context, practice={"C": 0.5, "A": 0.5})
            reward(service, made.decision_id, float(turn % 2), name)
        check_states(service, loop)


def test_a_key_gives_the_same_decision_again_and_the_check_agrees(path: Path) -> None:
    with opened(path, clock=FakeClock(RECORD["now"])) as service:
        loop = service.loops.get("coin")
        found = service.store.read_database(lambda c: sql.event_of_key(c, loop.id, "key 7"))
        assert found is not None
        event = DECISIONS.decode(found)
        assert event.practice is not None
        again = decide(
            service,
            "coin",
            key="key 7",
            context=event.context,
            arms=None if event.allowed is None else [loop.names[arm] for arm in event.allowed],
            practice={loop.names[arm]: weight for arm, weight in event.practice},
        )
        assert again.decision_id == loop.decision_id(event.number)
        assert loop.state.decided == RECORD["loops"]["coin"]["decided"]
    _, *loops = check(path)
    assert len(loops) == len(RECORD["loops"]) and all("agree" in line for line in loops)
