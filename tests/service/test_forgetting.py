"""Erasing one person: nothing of them is left in the files, and the loop goes on as before."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from helpers.loops import change, decide, digests, reward
from helpers.loops_with_contexts import CLICKS, spec_of
from helpers.service_process import FakeClock, create, opened

import linoto
from linoto.cli import main
from linoto.service.forgetting import forget, is_said
from linoto.service.loops import explanations
from linoto.service.loops.loop import Loop
from linoto.service.loops.recipe_spec import RecipeSpec
from linoto.service.maintenance import check, rebuild
from linoto.service.retention import prune
from linoto.service.server import Service
from linoto.service.web.export import parquet

RECIPE = linoto.Recipe(
    items=("A", "B", "C"),
    context=(
        linoto.Numeric(name="age", mean=40.0, scale=10.0),
        linoto.Category(name="visitor", levels=("known-1", "known-2"), missing=True),
    ),
)
PERSON, OTHER = "visitor-4711", "visitor-4712"
AGE = 61.53219  # whose feature nobody else has
POLICIES = {
    "coin": linoto.Gated(gate=linoto.Control(budget=6.0), confidence=CLICKS),
    "model": linoto.Gated(gate=linoto.Tolerance(budget=40.0, evidence="model"), confidence=CLICKS),
}


def start(service: Service, policy: str = "coin") -> None:
    recipe = msgspec.convert(RECIPE.to_dict(), RecipeSpec)
    spec = spec_of(POLICIES[policy], recipe=recipe, moments=None)
    service.store.write_sync(lambda c: service.loops.create(c, loop=Loop.fresh("loop", spec)))


def play(service: Service, rounds: int, *, first: int = 0) -> None:
    for i in range(first, first + rounds):
        who = PERSON if i % 5 == 0 else OTHER
        context = {"visitor": who, "age": AGE if who == PERSON else 20 + i % 7}
        made = decide(service, key=f"{who} {i}", context=context)
        reward(service, made.decision_id, float(made.arm == "A"))


def left_of(path: Path, text: str) -> list[str]:
    """The files beside a database, itself included, that hold these bytes."""
    files = [file for file in path.parent.iterdir() if file.is_file()]
    return sorted(file.name for file in files if text.encode() in file.read_bytes())


def exported(service: Service) -> Any:
    pieces = parquet(service.store, service.loops.get("loop"), pending=True)
    return pq.read_table(io.BytesIO(b"".join(pieces))).to_pylist()


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_of_a_person_is_left_and_the_loop_goes_on_as_before(tmp_path: Path, policy: str) -> None:
    path, whole = tmp_path / "a" / "x.sqlite", tmp_path / "b" / "x.sqlite"
    for place in (path, whole):
        place.parent.mkdir()
        with opened(place, clock=FakeClock(), snapshot_every=7) as service:
            start(service, policy)
            play(service, 40)
            before = digests(service)
    feature = repr((AGE - 40.0) / 10.0)
    assert left_of(path, PERSON) and left_of(path, feature)
    lines = list(forget(path, {"visitor": PERSON}))
    assert lines[0] == "loop: 8 decisions forgotten; what was learnt from them stays, in sums"
    assert "backups" in lines[-1]
    assert left_of(path, PERSON) == left_of(path, feature) == left_of(path, repr(AGE)) == []
    assert left_of(path, OTHER), "others stay"
    assert "agree" in list(check(path))[-1]
    list(rebuild(path))
    again = {}
    for place in (path, whole):
        with opened(place, clock=FakeClock(2000.0), snapshot_every=7) as service:
            assert digests(service) == before
            play(service, 10, first=40)
            again[place] = digests(service)
    assert again[path] == again[whole], "the next decisions and what is learnt from them too"


def test_what_stays_of_a_decision_is_shown_without_the_person(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path, clock=FakeClock()) as service:
        start(service)
        play(service, 10)
    list(forget(path, {"visitor": PERSON}))
    with opened(path, clock=FakeClock()) as service:
        loop = service.loops.get("loop")
        rows = service.store.read_database(lambda c: explanations.recent(c, loop, None, 100))
        gone = [row for row in rows if row.context == {"forgotten": True}]
        assert len(gone) == 2 and all(row.key is None and row.reward is not None for row in gone)
        why = service.store.read_database(lambda c: explanations.explain(c, loop, gone[0].decision_id))
        assert "Who asked was forgotten" in why.reasons[-1] and why.because == []
        file = exported(service)
        assert sorted(str(row["visitor"]) for row in file) == ["None"] * 2 + [OTHER] * 8
        assert sum(row["age"] is None for row in file) == 2
        made = decide(service, key=f"{PERSON} 0", context={"visitor": PERSON, "age": 30})
        assert made.decision_id == loop.decision_id(11), "the key is free again"


def test_an_open_decision_is_forgotten_once_it_is_closed_and_again_finds_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock) as service:
        start(service)
        play(service, 6)
        made = decide(service, context={"visitor": PERSON, "age": AGE})
    lines = list(forget(path, {"visitor": PERSON, "age": repr(AGE)}, loop="loop"))
    assert "2 decisions forgotten" in lines[0] and "1 decisions await a reward" in lines[1]
    assert left_of(path, PERSON) == ["x.sqlite"]
    with opened(path, clock=clock) as service:
        reward(service, made.decision_id, 1.0)
        before = digests(service)
    assert "1 decisions forgotten" in next(forget(path, {"visitor": PERSON}))
    assert left_of(path, PERSON) == []
    (again,) = forget(path, {"visitor": PERSON})
    assert "found nothing" in again and "without it" not in again
    assert "agree" in list(check(path))[-1]
    with opened(path, clock=clock) as service:
        assert digests(service) == before
    list(prune(path, before=5000.0, now=5000.0, sleep=lambda _: None))
    assert "agree" in list(check(path))[-1]


def test_a_served_database_forgets_nothing_and_a_command_says_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.sqlite"
    command = ["db", "forget", "--db", str(path), "--context", f"visitor={PERSON}"]
    with opened(path, clock=FakeClock()) as service:
        start(service)
        play(service, 6)
        change(service, mode="safe-only")
        assert main(command) == 1 and "in use by another server" in capsys.readouterr().err
    assert main([*command[:-1], "visitor"]) == 1
    assert "--context must be FIELD=VALUE, got 'visitor'" in capsys.readouterr().err
    assert main([*command, "--loop", "no"]) == 1 and "there is no loop 'no'" in capsys.readouterr().err
    assert main([*command[:-1], "visitor=known-1"]) == 0
    assert "has a level for visitor=known-1, which stays" in capsys.readouterr().out
    assert main(command) == 0 and "2 decisions forgotten" in capsys.readouterr().out
    with pytest.raises(ValueError, match="at least one field"):
        list(forget(path, {}))


def test_a_command_that_could_not_forget_says_so_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field that nobody has, loops without contexts, nobody found, and a decision that is still open."""
    path = tmp_path / "x.sqlite"
    command = ["db", "forget", "--db", str(path), "--context"]
    with opened(path, clock=FakeClock()) as service:
        create(service, "fixed")
    assert main([*command, "visitor=1"]) == 1
    assert "a loop with contexts, got 'fixed' without any" in capsys.readouterr().err
    with opened(path, clock=FakeClock()) as service:
        start(service)
        play(service, 6)
        decide(service, context={"visitor": PERSON, "age": AGE})
    assert main([*command, "nofield=1"]) == 1
    assert "known fields (age, visitor), got 'nofield'" in capsys.readouterr().err
    assert main([*command, "visitor=1", "--loop", "fixed"]) == 1
    assert "got 'fixed' without any" in capsys.readouterr().err
    assert main([*command, "visitor=nobody"]) == 0
    said = capsys.readouterr().out
    assert "found nothing" in said and "without it" not in said
    assert main([*command, f"visitor={PERSON}"]) == 1
    told = capsys.readouterr()
    assert "2 decisions forgotten" in told.out and "without it" not in told.out
    assert "1 decisions still hold it" in told.out and "1 decisions still hold it" in told.err
    assert main([*command, f"visitor={PERSON}", "--json"]) == 1
    assert "await a reward" in json.loads(capsys.readouterr().out)["lines"][0]


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        ("31", "31", True),
        (31, "31", True),
        (31.0, "31", True),
        (31, "DE", False),
        (True, "true", True),
        (True, "1", False),
        (None, "None", False),
        ([1.0], "1", False),
    ],
)
def test_a_value_is_compared_as_it_was_sent(value: Any, text: str, same: bool) -> None:
    assert is_said(value, text) is same
