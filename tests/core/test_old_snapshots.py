"""A snapshot of every format there ever was has the future that it had when it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.core import codec
from linoto.core.snapshots import read_snapshot

FOLDER = Path(__file__).parents[1] / "data" / "version-0.1" / "snapshots"
RECORD: dict[str, Any] = json.loads((FOLDER / "future.json").read_text())
AGENTS = sorted(set(RECORD["agents"]) - {"guard"})
PLAYED = 26  # rounds before each snapshot was taken, the last of them without its reward


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_of_version_0_1_has_the_same_future(name: str) -> None:
    wanted = RECORD["agents"][name]
    agent = linoto.restore((FOLDER / f"{name}.npz").read_bytes())
    assert agent.policy == linoto.from_dict(wanted["policy"], stored=True)
    assert agent.names == tuple("abcdef")
    assert (agent.rounds, agent.pending.tolist()) == (PLAYED, wanted["pending"])
    for (arm, mode, source), reward in zip(wanted["decisions"], RECORD["rewards"][PLAYED:], strict=False):
        decision = agent.decide()
        assert (decision.arm, decision.mode, decision.source) == (arm, mode, source)
        agent.update(decision, reward)
    np.testing.assert_allclose(agent.theta, wanted["theta"], rtol=1e-12)


def test_a_guard_of_version_0_1_has_the_same_future() -> None:
    wanted = RECORD["agents"]["guard"]
    guard = linoto.restore((FOLDER / "guard.npz").read_bytes())
    assert (guard.rounds, guard.pending.tolist()) == (PLAYED, wanted["pending"])
    future = zip(wanted["decisions"], wanted["proposals"][PLAYED:], RECORD["rewards"][PLAYED:], strict=False)
    for (arm, mode, source), proposal, reward in future:
        decision = guard.decide(proposal)
        assert (decision.arm, decision.mode, decision.source) == (arm, mode, source)
        guard.update(decision, reward)


def test_statistics_saved_by_version_0_1_are_read() -> None:
    saved = linoto.load(FOLDER.parent / "stats.npz")
    assert saved.names == ("a", "b", "c", "d")
    assert saved.offline.total == 400
    assert saved.confidence is not None
    linoto.Gated(confidence=saved.confidence).start(saved.actions, saved.offline)


BEFORE_LEDGERS = Path(__file__).parents[1] / "data" / "version-0.2" / "snapshots"
GATES: dict[str, Any] = json.loads((BEFORE_LEDGERS / "future.json").read_text())


@pytest.mark.parametrize("name", GATES["agents"])
def test_a_gate_of_version_0_2_keeps_the_ledger_that_it_had(name: str) -> None:
    """It bounds explored plays and reference each by itself, to the same room in every round."""
    agent = linoto.restore((BEFORE_LEDGERS / f"{name}.npz").read_bytes())
    assert agent.gate.ledger == "union"
    rewards = GATES["rewards"][GATES["played"] :]
    for (arm, mode, source, room), reward in zip(GATES["agents"][name]["decisions"], rewards, strict=True):
        decision = agent.decide()
        assert (decision.arm, decision.mode, decision.source) == (arm, mode, source)
        assert decision.budget == pytest.approx(room, abs=1e-8)
        agent.update(decision, reward)


WITH_SUMS = Path(__file__).parents[1] / "data" / "version-0.3" / "snapshots"
RAILS: dict[str, Any] = json.loads((WITH_SUMS / "future.json").read_text())


@pytest.mark.few(3)
@pytest.mark.parametrize("name", RAILS["agents"])
def test_an_agent_of_version_0_3_has_the_same_future(name: str) -> None:
    """Its guardrails were estimated by sums, and its Thompson sampling scaled what nobody knows, too."""
    agent = linoto.restore((WITH_SUMS / f"{name}.npz").read_bytes())
    assert agent.rounds == RAILS["played"]
    for t, (arm, mode) in enumerate(RAILS["agents"][name], RAILS["played"]):
        decision = agent.decide()
        assert (decision.arm, decision.mode) == (arm, mode)
        metrics = {"complaints": RAILS["complaints"][t], "margin": RAILS["margin"][t]}
        agent.update(decision, RAILS["rewards"][t], metrics=metrics if agent.policy.guardrails else None)


@pytest.mark.parametrize("gate", [linoto.Tolerance(budget=3.0), linoto.research.OlderTolerance(budget=3.0)])
def test_a_gate_that_is_stored_today_is_read_as_what_it_is(gate: Any) -> None:
    """Today's records lack fields that are gone, as those of 0.1 lacked fields that had not come yet."""
    for policy in (gate, linoto.Gated(gate=gate), linoto.LinTS(scale=0.5)):
        assert linoto.from_dict(linoto.to_dict(policy), stored=True) == policy


class LeastSeen:
    """An explorer that is not of this package."""

    deterministic = True

    def score(self, view: Any) -> Any:
        return -view.counts


def test_a_snapshot_with_an_explorer_of_your_own_needs_no_field_that_came_later() -> None:
    """What a field meant before it existed is what the given policy must say, and what it says by default."""
    gate, confidence = linoto.research.OlderTolerance(epsilon=0.1), linoto.Confidence()
    policy = linoto.Gated(explorer=LeastSeen(), gate=gate, confidence=confidence)
    log = linoto.Offline(pulls=[5, 5], reward_sums=[2.0, 3.0])
    agent = policy.start([[1.0, 0.2], [0.3, 1.0]], log, rng=0)
    header, arrays = read_snapshot(agent.snapshot())
    del header["policy"]["confidence"]["horizon"]
    header["policy"]["gate"] = {"type": "Tolerance", "epsilon": 0.1, "bias": "tight"}  # as it was stored
    assert linoto.restore(codec.pack(header, arrays), policy=policy).policy == policy
    other = replace(policy, gate=linoto.Tolerance(epsilon=0.1))
    with pytest.raises(ValueError, match="policy must be the one of the snapshot"):
        linoto.restore(codec.pack(header, arrays), policy=other)
