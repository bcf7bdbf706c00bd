"""Servers are killed and paused under load: nothing is lost, doubled or stale; and what would be is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.drill.faults import cut, hiccup, kill, pause, terminate
from helpers.drill.run import Plan, run
from helpers.drill.verdict import Verdict
from helpers.postgres import Cluster

WITHOUT_KEYS = (  # what keeps a second writer out, whoever thinks that he owns a loop
    "ALTER TABLE linoto.events DROP CONSTRAINT events_pkey",
    "ALTER TABLE linoto.decisions DROP CONSTRAINT decisions_pkey",
    "ALTER TABLE linoto.rewards DROP CONSTRAINT rewards_pkey",
    "DROP INDEX linoto.decision_keys",
)


def check(verdict: Verdict, *, faults: int) -> None:
    assert verdict.wrong == {}, "\n".join(verdict.lines())
    assert sum(verdict.faults.values()) == faults
    assert verdict.acknowledged == verdict.found and verdict.rewards_acknowledged == verdict.rewards_found
    assert verdict.answers_repeated >= faults / 4


@pytest.mark.timeout(900)  # the first time, kernels are compiled
@pytest.mark.few(0)
def test_three_faults_of_servers_lose_nothing_and_double_nothing(postgres: Cluster, tmp_path: Path) -> None:
    often = ((kill, 1), (terminate, 1), (hiccup, 1), (cut, 1))
    check(run(Plan(seed=1, faults=3, often=often, load=20), postgres, tmp_path), faults=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_kills_and_pauses_lose_nothing_and_double_nothing(
    postgres: Cluster, tmp_path: Path
) -> None:
    """With kernels compiled for another processor in one server, whose bits must be those of the others.

    Four in five faults are of servers; that fewer than 200 of 280 are has a chance of 1 in 5,000.
    """
    verdict = run(Plan(seed=2, faults=280, generic=True), postgres, tmp_path)
    check(verdict, faults=280)
    assert sum(verdict.faults[fault.__name__] for fault in (kill, terminate, pause, hiccup)) >= 200


IDLE = {"faults": 2, "often": ((pause, 1),), "visitors": 4, "rest": 0.3}  # who is paused has nothing to write


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_drill_finds_what_a_server_without_a_lease_says_from_its_memory(
    postgres: Cluster, tmp_path: Path
) -> None:
    verdict = run(Plan(seed=3, without=("lease",), **IDLE), postgres, tmp_path)
    assert set(verdict.wrong) == {"stale answers"}, "\n".join(verdict.lines())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_drill_finds_what_is_doubled_where_nothing_keeps_a_second_writer_out(
    postgres: Cluster, tmp_path: Path
) -> None:
    plan = Plan(seed=4, without=("lease", "lock"), statements=WITHOUT_KEYS, **IDLE)
    verdict = run(plan, postgres, tmp_path)
    assert verdict.doubled, "\n".join(verdict.lines())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_primary_keys_alone_let_nothing_be_lost_or_doubled(postgres: Cluster, tmp_path: Path) -> None:
    """Whoever believes to own a loop: only what is shown or refused may then be old."""
    verdict = run(Plan(seed=4, without=("lease", "lock"), **IDLE), postgres, tmp_path)
    assert set(verdict.wrong) <= {"stale answers", "unexpected refusals"}, "\n".join(verdict.lines())
