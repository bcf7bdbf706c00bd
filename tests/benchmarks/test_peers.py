"""The comparison with other packages: its arithmetic, its manners when a peer fails, and our own workers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

FAKE = """
import json, sys, time
for line in sys.stdin:
    order = json.loads(line)
    {before}
    answer = {{"seconds": {seconds}, "units": 1}} if "turn" in order else {{"ready": True, "version": "1.0"}}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def peers() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import peers

        yield peers
    finally:
        sys.path.remove(str(BENCHMARKS))


def fake(seconds: str, before: str = "pass") -> list[str]:
    return [sys.executable, "-c", FAKE.format(seconds=seconds, before=before)]


def outcome(*seconds: float, reason: str = "") -> dict[str, Any]:
    return {"turns": [{"seconds": one, "units": 1} for one in seconds], "reason": reason, "version": "1"}


def limits(peers: Any, patience: float = 20.0) -> Any:
    return peers.Limits(seconds=0.05, patience=patience, gibibytes=8)


def test_a_ratio_is_the_median_of_ratios_within_turns(peers: Any) -> None:
    from peer_table import cell, ratio_of, seconds_of

    reference = outcome(1.0, 2.0, 4.0)
    assert ratio_of(outcome(3.0, 4.0, 16.0), reference) == 3.0  # of 3, 2 and 4; the ratio of medians is 2
    assert ratio_of(outcome(7.0), reference) == 7.0  # a single long turn is paired with the first
    assert seconds_of(outcome(3.0, 4.0, 16.0)) == 4.0
    assert ratio_of(outcome(1.0, reason="over 60 s"), reference) is None
    assert cell(outcome(reason="over 60 s"), reference) == "over 60 s"
    assert cell(outcome(2e-6, 4e-6, 8e-6), outcome(1e-3, 2e-3, 4e-3)) == "0.002 (4.0 µs)"
    assert cell({**outcome(), "turns": [{"seconds": 30.0, "computed": True}]}, outcome(0.1)) == "≈ 300 (30 s)"
    assert cell(outcome(1.0), outcome(3.48e-5)) == "29,000 (1.0 s)"


def test_workers_take_turns_and_one_that_fails_stops_nobody_else(peers: Any) -> None:
    commands = {
        "steady": fake("0.5 + order['turn']"),
        "broken": fake("1.0", before="if 'turn' in order: raise SystemExit('out of luck')"),
        "unable": fake(
            "1.0", before="""print('{"impossible": "no features of arms"}', flush=True); raise SystemExit"""
        ),
    }
    said: list[str] = []
    outcomes = peers.take_turns(
        [peers.Contestant(package, "policy") for package in commands],
        commands,
        {},
        limits=limits(peers),
        turns=3,
        tell=said.append,
    )
    assert [turn["seconds"] for turn in outcomes["steady: policy"].turns] == [0.5, 1.5, 2.5]
    assert outcomes["steady: policy"].version == "1.0"
    reasons = [outcomes[f"{name}: policy"].reason for name in ("broken", "unable")]
    assert reasons == ["failed: ended with code 1: out of luck", "no features of arms"]
    assert len(said) == 2


def test_a_worker_that_does_not_answer_in_time_is_ended(peers: Any) -> None:
    silent = peers.Contestant("silent", "policy")
    commands = {"silent": fake("1.0", before="time.sleep(60)")}
    found = peers.take_turns([silent], commands, {}, limits=limits(peers, patience=0.2), turns=3)
    assert found[silent.name].reason == "over 0.2 s" and found[silent.name].turns == []


def test_after_a_long_turn_there_is_no_other(peers: Any) -> None:
    slow = peers.Contestant("slow", "policy")
    bounds = peers.Limits(seconds=1, patience=20, gibibytes=8, long=0.01)
    commands = {"slow": fake("1.0", before="time.sleep(0.05)")}
    found = peers.take_turns([slow], commands, {}, limits=bounds, turns=3)
    assert len(found[slow.name].turns) == 1


def test_a_peer_that_cannot_be_installed_is_in_the_table_with_the_reason(peers: Any) -> None:
    def write(problem: Path) -> None:
        problem.write_bytes(b"")

    contestants = (peers.REFERENCE, peers.Contestant("river", "LinUCBDisjoint", "a model per arm"))
    workload = peers.Workload("one run", "run", write, 2, contestants)
    missing = {"river": "cannot be installed: no matching distribution"}
    done = {workload.title: peers.measure(workload, {"numpy": fake("1e-3")}, missing, limits(peers))}
    row = "| river: LinUCBDisjoint | cannot be installed: no matching distribution |"
    assert row in peers.tables([workload], done)
    assert "| numpy: LinUCB | 1 (1.0 ms) |" in peers.tables([workload], done)


def test_who_ran_out_of_time_is_not_asked_at_a_larger_size(peers: Any) -> None:
    workload = peers.Workload("a larger one", "decide", Path.touch, 1, (peers.REFERENCE, peers.FIXED_ARMS[0]))
    smaller = {"linoto: LinUCB": outcome(reason="over 60 s"), "numpy: LinUCB": outcome(1.0)}
    commands = {"numpy": fake("1e-3"), "linoto": ["this would not start"]}
    done = peers.measure(workload, commands, {}, limits(peers), smaller)
    assert done["linoto: LinUCB"]["reason"] == "over 60 s" and done["numpy: LinUCB"]["turns"]


def test_every_cell_in_which_a_peer_is_faster_is_said(peers: Any) -> None:
    times = {"linoto: LinUCB": outcome(2.0), "numpy: LinUCB": outcome(1.0), "coba: LinUCB": outcome(0.5)}
    column = peers.Column("one run", times)
    said = list(peers.slower_cells([column], "linoto"))
    assert said == ["one run: coba: LinUCB is 4.0 × as fast as linoto: LinUCB"]  # NumPy is no peer


def test_an_environment_that_was_not_finished_is_made_again(peers: Any, tmp_path: Path) -> None:
    made: list[str] = []

    def stopped(peer: str, folder: Path) -> None:
        (folder / "bin").mkdir(parents=True)
        raise KeyboardInterrupt

    def finished(peer: str, folder: Path) -> None:
        made.append(peer)
        (folder / "bin").mkdir(parents=True)

    with pytest.raises(KeyboardInterrupt):
        peers.environment_of("river", tmp_path, stopped)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        python = peers.environment_of("river", tmp_path, finished)
    assert made == ["river"] and python.name == "python"
    (python.parents[1] / "ready").write_text("river==0.1\n")  # the pins of an earlier checkout
    peers.environment_of("river", tmp_path, finished)
    assert made == ["river", "river"]


def test_what_pip_says_is_told_in_one_line_without_addresses(peers: Any) -> None:
    from peer_environments import reason_in

    said = (
        "WARNING: slow\nERROR: No matching distribution for x (from https://host.example/simple)\nERROR: more"
    )
    assert reason_in(said) == "No matching distribution for x"


def test_every_peer_has_a_worker_and_exact_pins(peers: Any) -> None:
    for peer in peers.PEERS:
        assert (BENCHMARKS / "contestants" / f"play_{peer}.py").exists()
        pins = (BENCHMARKS / "contestants" / "requirements" / f"{peer}.txt").read_text().splitlines()
        assert any(pin.startswith(f"{peer}==") for pin in pins)
        assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []


def test_finished_workloads_are_used_again_and_foreign_files_refused(peers: Any, tmp_path: Path) -> None:
    file, settings = tmp_path / "peers.json", {"sizes": 1}
    assert peers.earlier(file, settings) == {}
    peers.keep(file, json.dumps({"settings": settings, "workloads": {"one run": {}}}))
    assert peers.earlier(file, settings) == {"one run": {}}
    assert peers.earlier(file, {"sizes": 2}) == {}
    peers.keep(file, "[]")
    with pytest.raises(SystemExit, match=r"peers\.json must be a result of this command"):
        peers.earlier(file, settings)
    assert [path.name for path in file.parent.iterdir()] == ["peers.json"]


def test_unknown_peers_and_workloads_are_refused(peers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for given in (["--peers", "obp"], ["--only", "walk"], ["--seconds", "0"]):
        with pytest.raises(SystemExit):
            peers.arguments(given)
        assert re.search(r"must be (some of|above 0)", capsys.readouterr().err)


@pytest.mark.few(0)
def test_the_reference_does_every_workload_and_ours_its_own(peers: Any, tmp_path: Path) -> None:
    here = [sys.executable, str(peers.WORKER)]
    patient = limits(peers, patience=250)  # on a new machine our code is compiled first
    ours = peers.Contestant("linoto", "LinUCB")
    by_kind = {workload.kind: workload for workload in peers.workloads_of(peers.QUICK)}
    for workload in by_kind.values():
        problem = tmp_path / "problem.npz"
        workload.write(problem)
        with_ours = workload.kind in ("contexts", "own")
        contestants = [peers.REFERENCE, ours] if with_ours else [peers.REFERENCE]
        task = {"workload": workload.kind, "problem": str(problem)}
        commands = {"numpy": here, "linoto": here}
        found = peers.take_turns(contestants, commands, task, limits=patient, turns=2)
        assert [one.reason for one in found.values()] == [""] * len(contestants)
        assert all(turn["seconds"] > 0 for one in found.values() for turn in one.turns)
        if workload.kind == "contexts":
            means = np.load(problem)["means"]
            by_chance = float((means.max(axis=2) - means.mean(axis=2)).sum(axis=1).mean())
            for one in found.values():
                assert np.mean([turn["regret"] for turn in one.turns]) < by_chance
