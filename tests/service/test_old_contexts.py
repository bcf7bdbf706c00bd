"""A database with loops with contexts goes on, in every later version, as it did when it was written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, opened

from linoto.service.loops.events import DECISIONS
from linoto.service.maintenance import check, rebuild
from linoto.service.storage import sql

FOLDER = Path(__file__).parents[1] / "data" / "contexts"
RECORD: dict[str, Any] = json.loads((FOLDER / "loops.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "loops.sqlite", tmp_path / "loops.sqlite"))


@pytest.mark.parametrize("name", sorted(RECORD["loops"]))
def test_a_loop_with_contexts_goes_on(path: Path, name: str) -> None:
    """It goes on from its snapshot, and its next decisions are those that it would have made then."""
    wanted, clock = RECORD["loops"][name], FakeClock(RECORD["now"])
    with opened(path, clock=clock) as service:
        loop = service.loops.get(name)
        state, recorded = loop.state, (wanted["decided"], wanted["seq"], wanted["plays"])
        assert (state.decided, state.seq, state.plays) == recorded
        assert sorted(loop.pending) == wanted["open"]
        groups = {group: [t.plays, t.closed, t.rewards] for group, t in state.groups.items()}
        assert groups == wanted["groups"]
        np.testing.assert_allclose(loop.agent.theta, wanted["theta"], rtol=1e-9, atol=1e-12)
        for turn, (context, arm, mode, propensity, because) in enumerate(wanted["next"]):
            clock.now += 1
            made = decide(service, name, context=context, practice={"C": 0.5, "A": 0.5})
            assert (made.arm, made.mode, [each.part for each in made.because]) == (arm, mode, because)
            assert made.propensity is propensity is None or made.propensity == pytest.approx(propensity)
            reward(service, made.decision_id, float(turn % 2), name)
        memory, short, _ = digests(service, name)
        assert memory == short


def test_events_of_loops_with_contexts_replay(path: Path) -> None:
    """To the bits of a snapshot that is made by the same version, on the same machine."""
    list(rebuild(path))
    with opened(path, clock=FakeClock(RECORD["now"])) as service:
        for name, wanted in RECORD["loops"].items():
            assert len(set(digests(service, name))) == 1
            state = service.loops.get(name).state
            assert (state.decided, state.seq, state.plays) == (
                wanted["decided"],
                wanted["seq"],
                wanted["plays"],
            )
            np.testing.assert_allclose(
                service.loops.get(name).agent.theta, wanted["theta"], rtol=1e-9, atol=1e-12
            )


def test_a_key_gives_the_same_decision_again_and_the_check_agrees(path: Path) -> None:
    list(rebuild(path))
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
