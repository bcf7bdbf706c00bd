"""A database of an older version goes on: pruned loops, open decisions, keys; its draws are secret now."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, opened

from linoto import LinUCB, Numeric, Recipe, to_dict
from linoto.service.loops.context_arms import ContextArms
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, MomentStatistics
from linoto.service.maintenance import check

FOLDER = Path(__file__).parents[1] / "data" / "version-0.1"
RECORD: dict[str, Any] = json.loads((FOLDER / "loops.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "loops.sqlite", tmp_path / "loops.sqlite"))


@pytest.mark.parametrize("name", sorted(RECORD["loops"]))
def test_a_loop_of_version_0_1_goes_on(path: Path, name: str) -> None:
    wanted = RECORD["loops"][name]
    clock = FakeClock(wanted["clock"])
    with opened(path, clock=clock) as service:
        loop = service.loops.get(name)
        assert (loop.state.decided, loop.state.seq, loop.state.plays) == (
            wanted["decided"],
            wanted["seq"] + 1,  # it got a key
            wanted["plays"],
        )
        assert sorted(loop.pending) == wanted["open"]
        groups = {group: [t.plays, t.closed, t.rewards] for group, t in loop.state.groups.items()}
        assert groups == wanted["groups"]
        np.testing.assert_allclose(loop.agent.theta, wanted["theta"], rtol=1e-12)
        for turn, (arm, mode, propensity, holdback) in enumerate(wanted["next"]):
            clock.now += 1
            made = decide(service, name)
            if name != "thompson":  # which draws what nobody could know then
                wanted_now = (arm, mode, propensity, holdback)
                assert (made.arm, made.mode, made.propensity, made.holdback) == wanted_now
            reward(service, made.decision_id, float(turn % 2), name)
        assert len(set(digests(service, name))) == 1


def test_a_key_of_version_0_1_gives_the_same_decision_again(path: Path) -> None:
    with opened(path, clock=FakeClock(RECORD["now"])) as service:
        once, twice = (decide(service, "thompson", key="key 3") for _ in range(2))
        assert once == twice
        assert service.loops.get("thompson").state.decided == RECORD["loops"]["thompson"]["decided"]


def test_the_check_accepts_a_database_of_version_0_1(path: Path) -> None:
    _, *loops = check(path)
    assert len(loops) == 3
    assert all("agree" in line for line in loops)


def test_epochs_after_an_upgrade_keep_the_zeros_of_arms_without_features(tmp_path: Path) -> None:
    """Version 0.2 wrote it, with every agent in full: forty decisions later another epoch has begun."""
    folder = FOLDER.parent / "version-0.2"
    wanted: dict[str, Any] = json.loads((folder / "doubling.json").read_text())
    path = Path(shutil.copy(folder / "doubling.sqlite", tmp_path / "loops.sqlite"))
    clock = FakeClock(wanted["clock"])
    assert [line.endswith(("ok", "agree")) for line in check(path)] == [True, True]
    with opened(path, clock=clock, snapshot_every=60) as service:
        for turn, _ in enumerate(wanted["next"]):
            clock.now += 1
            made = decide(service, "doubling")
            reward(service, made.decision_id, float(turn % 2), "doubling")
        assert len(set(digests(service, "doubling"))) == 1
    assert [line.endswith(("ok", "agree")) for line in check(path)] == [True, True]


@pytest.mark.parametrize("version", [6, 7])
def test_only_loops_of_this_version_refresh_many_arms_in_slices(version: int) -> None:
    """A replay of an older loop from its first event has the bits that its database holds."""
    features = np.random.default_rng(0).standard_normal((1100, 64))
    spec = LoopSpec(
        arms=[Arm(f"arm {number}", row) for number, row in enumerate(features.tolist())],
        policy=to_dict(LinUCB()),
        default_reward=0.0,
        offline=LogStatistics(pulls=[1] * 1100, reward_sums=[0.5] * 1100),
        version=version,
    )
    agent: Any = Loop.fresh("loop", spec).agent
    assert (agent.running.run["slices"] > 0) == (version > 6)


@pytest.mark.parametrize("version", [7, 8])
def test_only_loops_of_this_version_learn_in_the_coordinates_of_the_last_refresh(version: int) -> None:
    spec = LoopSpec(
        arms=[Arm("red", [0.6, 0.8]), Arm("blue", [-0.8, 0.6]), Arm("green", [1.0, 0.0])],
        policy=to_dict(LinUCB()),
        default_reward=0.0,
        offline=LogStatistics(pulls=[2] * 3, reward_sums=[0.5] * 3),
        version=version,
    )
    agent: Any = Loop.fresh("loop", spec).agent
    assert agent.running.run["whitened"] == (version > 7)


def test_loops_of_every_kind_that_0_3_wrote_go_on_and_are_what_their_events_say(tmp_path: Path) -> None:
    """Ten of them: with and without contexts, coins, guardrails, arms that came and went, open decisions."""
    folder, path = FOLDER.parent / "version-0.3", tmp_path / "kinds.sqlite"
    path.write_bytes(gzip.decompress((folder / "kinds.sqlite.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:  # the next release has another number
        connection.execute("UPDATE promises SET version = '0.3.0, released'")
    wanted: dict[str, Any] = json.loads((folder / "kinds.json").read_text())
    assert [line.endswith(("ok", "agree")) for line in check(path)] == [True] * 11
    with opened(path, clock=FakeClock(wanted["clock"])) as service:
        for name, (decided, seq) in wanted["loops"].items():
            state = service.loops.get(name).state
            assert (state.decided, state.seq) == (decided, seq)
            context = {"context": {"age": 33, "country": "NO"}} if name.startswith("contexts") else {}
            for reported in (0.0, 1.0):
                reward(service, decide(service, name, **context).decision_id, reported, name)
    assert [line.endswith(("ok", "agree")) for line in check(path)] == [True] * 11


@pytest.mark.parametrize("version", [8, 9])
def test_only_loops_of_this_version_judge_what_sums_leave_by_their_rows(version: int) -> None:
    """Items add up to the intercept, but for rounding: the same is known before and after a restart."""
    recipe = Recipe(items=("a", "b"), context=(Numeric(name="age"),), crosses=())
    gram = np.array([[10_000.0, 5000, 5000, 0], [5000, 5000, 0, 0], [5000, 0, 5000, 0], [0, 0, 0, 9000]])
    gram[0, 0] *= 1 + 1e-13
    known = MomentStatistics(
        count=10_000,
        gram=gram.tolist(),
        reward_vector=[3000.0, 1000.0, 2000.0, 10.0],
        reward_sum=3000.0,
        reward_squares=3000.0,
        squares_by_item=None,
    )
    spec: Any = SimpleNamespace(policy=to_dict(LinUCB()), seed=1, moments=known, version=version)
    arms = ContextArms(recipe=recipe)
    agent: Any = arms.start(spec)
    assert recipe.d == 4
    again: Any = arms.restore(agent.snapshot(), spec)
    for one in (agent, again):
        assert len(one.driver.moments.as_rows()[0]) == (4 if version == 8 else 3)
    np.testing.assert_array_equal(agent.driver.at_start().theta, again.driver.at_start().theta)
