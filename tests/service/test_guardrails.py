"""Guardrails of a loop: every value once, in any order, late or never, in books of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers import loop_in_memory as memory
from helpers import loops_with_contexts as contexts
from helpers.loops import add_arms, change, decide, digests, remove_arms, reward
from helpers.service_process import FakeClock, close_due, create, opened, spec_of
from prometheus_client.parser import text_string_to_metric_families

import linoto
from linoto.service import maintenance, retention
from linoto.service.errors import Refused
from linoto.service.loops import views
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.events import MetricsRecorded
from linoto.service.loops.explanations import explain
from linoto.service.loops.loop import Loop
from linoto.service.loops.means import Earned
from linoto.service.loops.operations import RewardResult
from linoto.service.loops.restores import rooms_now
from linoto.service.loops.state import RewardTotals
from linoto.service.server import Service
from linoto.service.storage.places import Place
from linoto.service.web.export import parquet
from linoto.service.web.metrics import METRICS, NUMBERS, lines_of
from linoto.service.webhook import id_of, message_of

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
COMPLAINTS = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=30, mean=0.1)
MARGIN = linoto.Guardrail("margin", reward_range=(-1, 3), budget=200.0)


def guarded(*guardrails: linoto.Guardrail, budget: float = 30.0, **gate: Any) -> linoto.Gated:
    return linoto.Gated(
        explorer=linoto.LinTS(),
        gate=linoto.Control(budget=budget, **gate),
        confidence=CLICKS,
        guardrails=guardrails or (COMPLAINTS, MARGIN),
    )


def create_with_contexts(service: Service, **changes: Any) -> None:
    contexts.create(service, **changes)


MAKE: dict[str, Callable[..., None]] = {"arms": create, "contexts": create_with_contexts}


class Asked:
    """Decisions of a loop of either kind."""

    def __init__(self, service: Service, kind: str) -> None:
        self.service, self.kind, self.rng = service, kind, np.random.default_rng(3)

    def decide(self) -> Any:
        if self.kind == "arms":
            return decide(self.service)
        return decide(self.service, context=contexts.context_of(self.rng))


def run_traffic(asked: Asked, clock: FakeClock, rounds: int = 60) -> None:
    """Rewards and values together, apart, in both orders, lost, told again; every mode."""
    rng, service = np.random.default_rng(7), asked.service
    late: list[str] = []
    for t in range(rounds):
        clock.now += 1.0
        made = asked.decide().decision_id
        value, complaint = float(rng.random() < 0.6), float(rng.random() < 0.1)
        way = rng.integers(6)
        if way == 0:
            reward(service, made, value, complaints=complaint, margin=1.5)
        elif way == 1:
            reward(service, made, None, margin=-0.5)
            reward(service, made, value)
            late.append(made)
        elif way == 2:
            reward(service, made, value, complaints=complaint)
        elif way == 3:
            reward(service, made, None, complaints=complaint)
        elif way == 4:
            reward(service, made, value)
            late.append(made)
        if late and rng.random() < 0.3:
            reward(service, late.pop(0), None, complaints=complaint)
        if t % 20 == 10:
            change(service, mode=["shadow", "live", "safe-only"][t // 20 % 3])


# -- stored and replayed


@pytest.mark.parametrize("kind", MAKE)
def test_state_is_the_fold_of_its_events_bit_for_bit(any_place: Place, kind: str) -> None:
    """Also from any snapshot, after a restart, and after old records were pruned."""
    clock, path = FakeClock(), any_place
    with opened(path, clock=clock, snapshot_every=7) as service:
        MAKE[kind](service, window=10.0, policy=guarded(), on_alarm="warn")
        asked = Asked(service, kind)
        run_traffic(asked, clock)
        change(service, mode="live")
        run_traffic(asked, clock)
        memory, short, long = digests(service)
        assert memory == short == long
        loop = service.loops.get("loop")
        assert loop.state.groups["explore"].plays > 3 and loop.state.groups["holdback"].plays > 0
        assert loop.state.metrics["margin"].lost > 0 < loop.state.metrics["margin"].told
        assert loop.unmeasured
        kept = len(loop.unmeasured)
    with opened(path, clock=clock) as service:
        assert set(digests(service)) == {memory} and len(service.loops.get("loop").unmeasured) == kept
    assert any("agree" in line for line in maintenance.check(path))
    list(retention.prune_and_shrink(path, before=clock.now - 5.0, now=clock.now))
    assert any("after pruning, snapshot, replay and tables agree" in line for line in maintenance.check(path))
    with opened(path, clock=clock) as service:
        assert set(digests(service)) == {memory}
        run_traffic(Asked(service, kind), clock, rounds=20)
        assert len(set(digests(service))) == 1


@pytest.mark.parametrize("kind", MAKE)
def test_a_restart_between_a_reward_and_its_metrics_changes_nothing(tmp_path: Path, kind: str) -> None:
    found = []
    for restarts in (False, True):
        clock, path = FakeClock(), tmp_path / f"{restarts}.sqlite"

        @contextmanager
        def again(service: Service, path: Path = path, clock: FakeClock = clock) -> Any:
            service.close()
            with opened(path, clock=clock, snapshot_every=5) as later:
                yield later

        with opened(path, clock=clock, snapshot_every=5) as service:
            MAKE[kind](service, policy=guarded(), seed=3)
            asked = Asked(service, kind)
            made = [asked.decide().decision_id for _ in range(12)]
            for each in made:
                reward(service, each, 1.0)
            if not restarts:
                tell_later(service, made)
                found.append(digests(service)[0])
                continue
            with again(service) as later:
                tell_later(later, made)
                assert len(set(digests(later))) == 1
                found.append(digests(later)[0])
    assert found[0] == found[1]


def tell_later(service: Service, made: list[str]) -> None:
    for place, each in enumerate(made):
        reward(service, each, None, complaints=float(place % 3 == 0), margin=0.5 * place % 2)


def test_the_order_of_metrics_and_of_the_reward_does_not_matter(tmp_path: Path) -> None:
    """All orders in which the parts of each decision can come leave the same books, bit for bit."""

    def books(order: Callable[[int], list[dict[str, Any]]], file: str) -> tuple[Any, ...]:
        with opened(tmp_path / file, clock=FakeClock()) as service:
            create(service, policy=guarded())
            for number in range(30):
                made = decide(service, proposal="c").decision_id
                for part in order(number):
                    assert reward(service, made, part.pop("reward", None), **part).status == "applied"
            loop = service.loops.get("loop")
            return loop.state.metrics, loop.agent.snapshot(), loop.agent.rooms

    def parts(number: int) -> list[dict[str, Any]]:
        return [{"reward": number % 2}, {"complaints": float(number % 5 == 0)}, {"margin": number % 3}]

    told = books(parts, "a")
    assert books(lambda number: parts(number)[::-1], "b") == told
    assert books(lambda number: [{k: v for part in parts(number) for k, v in part.items()}], "c") == told


def test_a_loop_without_guardrails_is_the_same_as_before_bit_for_bit(tmp_path: Path) -> None:
    """Its spec and its events say nothing of them."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=linoto.Gated(gate=linoto.Control(budget=9.0), confidence=CLICKS))
        reward(service, decide(service).decision_id, 1.0)

        def job(connection: Any) -> list[bytes]:
            rows = connection.execute("SELECT body FROM events UNION ALL SELECT spec FROM loops")
            return [bytes(row[0]) for row in rows]

        for body in service.store.write_sync(job):
            assert b"guardrails" not in body and b"centres" not in body and b"metrics" not in body


# -- each value once


def status(found: RewardResult) -> tuple[str, int]:
    return found.status, found.code


def test_every_value_counts_once_and_the_first_one_stands(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded())
        made = decide(service).decision_id
        assert status(reward(service, made, 1.0, complaints=0.0)) == ("applied", 200)
        seq = service.loops.get("loop").state.seq
        assert status(reward(service, made, 1.0, complaints=0.0)) == ("duplicate", 200)
        assert status(reward(service, made, None, complaints=0.0)) == ("duplicate", 200)
        other = reward(service, made, None, complaints=1.0)
        assert status(other) == ("conflict", 409)
        assert other.message == "the first value of complaints stands: 0.0"
        assert other.metrics == {"complaints": 0.0}
        assert service.loops.get("loop").state.seq == seq
        assert status(reward(service, made, 1.0, complaints=0.0, margin=2.0)) == ("applied", 200)
        assert not service.loops.get("loop").unmeasured
        assert status(reward(service, made, None, margin=2.0, complaints=0.0)) == ("duplicate", 200)
        assert status(reward(service, made, 0.0, margin=2.0)) == ("conflict", 409)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"complaint": 0.0}, "metrics must be of complaints, margin, got 'complaint': did you mean"),
        ({"complaints": 2.0}, "complaints must be in [0, 1], got 2"),
        ({"margin": 0.0, "complaints": -1.0}, "complaints must be in [0, 1], got -1"),
    ],
)
def test_one_value_that_is_refused_refuses_its_whole_report(
    tmp_path: Path, told: dict[str, float], message: str
) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded())
        made = decide(service).decision_id
        before = digests(service)
        found = reward(service, made, 1.0, **told)
        assert status(found) == ("invalid", 422) and message in (found.message or "")
        assert digests(service) == before


def test_a_loop_without_guardrails_refuses_metrics_in_one_sentence(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        found = reward(service, decide(service).decision_id, 1.0, complaints=0.0)
        assert found.code == 422
        assert found.message == "metrics must be left out in a loop without guardrails, got 'complaints'"


def test_only_a_gate_with_a_coin_has_guardrails_in_a_loop(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service, pytest.raises((ValueError, Refused), match="Control"):
        create(service, policy=linoto.Gated(gate=linoto.Tolerance(budget=9.0), guardrails=(COMPLAINTS,)))


# -- never


@pytest.mark.parametrize("told", [True, False])
def test_a_value_that_never_comes_counts_at_its_worst_in_its_own_ledger_for_ever(
    tmp_path: Path, told: bool
) -> None:
    """The window closes it, with the reward or without; then it is refused, and the rooms are as before."""
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service, window=10.0, policy=guarded())
        made = [decide(service, proposal="c").decision_id for _ in range(20)]
        for each in made:
            reward(service, each, 1.0 if told else None, margin=1.0)
        loop = service.loops.get("loop")
        rooms = loop.agent.rooms
        clock.now += 20.0
        late = reward(service, made[0], None, complaints=0.0)
        assert status(late) == ("expired", 410)
        assert late.message == "the window is over: complaints counts at its worst"
        close_due(service)
        assert not loop.unmeasured and not loop.pending
        assert loop.state.metrics["complaints"].lost == 20 and loop.state.metrics["margin"].lost == 0
        assert loop.agent.rooms == rooms and not loop.agent.running.tickets.by_round
        assert len(set(digests(service))) == 1


def test_values_of_explored_rounds_close_a_guardrail_and_practice_is_played(tmp_path: Path) -> None:
    """Arm c annoys everybody: at 30 complaints the guardrail shuts, and says so; the reward has room."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded(COMPLAINTS, budget=500.0), on_alarm="warn")
        for _ in range(120):
            made = decide(service, proposal="c")
            reward(service, made.decision_id, 1.0, complaints=float(made.arm == "c"))
        loop = service.loops.get("loop")
        assert loop.agent.rooms["complaints"] < 0 < (loop.agent.budget or 0.0)
        explored = loop.state.groups["explore"].plays
        assert explored <= 30
        last = decide(service, proposal="c")
        assert last.mode == "safe" and loop.state.groups["explore"].plays == explored


# -- restored


def lose(path: Path) -> None:
    """The disk of the database is gone; the note beside it is on another one."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def test_what_lost_decisions_may_have_cost_a_guardrail_is_not_spent_again(tmp_path: Path) -> None:
    """Its room is that of the backup, less a whole complaint for each lost decision that was explored."""
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service, policy=guarded(COMPLAINTS, budget=500.0))
        for _ in range(10):
            reward(service, decide(service, proposal="c").decision_id, 1.0, complaints=0.0)
        room = rooms_now(service.loops.get("loop"))["complaints"]
        maintenance.backup(path, copy)
        made = [decide(service, proposal="c") for _ in range(25)]
        spent = sum(each.mode == "explore" for each in made)
    lose(path)
    maintenance.restore(copy, path)
    with opened(path) as service:
        change(service, mode="live")
        loop = service.loops.get("loop")
        assert rooms_now(loop)["complaints"] == room - spent and 0 < spent < 25
        assert reward(service, made[0].decision_id, None, complaints=0.0).status == "restored"
        later = [decide(service, proposal="c").mode for _ in range(40)]  # none of them is told anything
        assert later.count("explore") <= room - spent + 1 and set(later[-5:]) == {"safe"}
        assert len(set(digests(service))) == 1


# -- what is seen


def play(service: Service, rounds: int, annoys: float, **options: Any) -> None:
    """Arm c is clicked as often as the others, and complained about so often; the others in a tenth."""
    rng = np.random.default_rng(11)
    for _ in range(rounds):
        made = decide(service, proposal="c", **options)
        complaint = float(rng.random() < (annoys if made.arm == "c" else 0.1))
        reward(service, made.decision_id, float(rng.random() < 0.5), complaints=complaint)


def test_what_is_seen_of_a_metric_is_as_people_count_it(tmp_path: Path) -> None:
    """Where lower is better, fewer complaints than with practice are gained: c has none, practice a tenth."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded(COMPLAINTS, budget=500.0, share=0.3), on_alarm="warn")
        play(service, 400, annoys=0.0)
        loop = service.loops.get("loop")
        view = views.loop_view(loop)
        (seen,) = view.metrics
        assert (seen.name, seen.lower_is_better, seen.told, seen.lost, seen.open) == (
            "complaints", True, 400, 0, 0,
        )  # fmt: skip
        explored = loop.state.groups["explore"].plays
        assert seen.practice.explored == explored and seen.practice.earned == 0.0
        assert seen.practice.lower <= 0.1 * explored <= seen.practice.upper
        assert seen.gained == seen.practice.estimate - seen.practice.earned > 0
        assert seen.gained_lower <= 0.1 * explored <= seen.gained_upper
        assert seen.lift.mean is not None and seen.lift.mean < 0  # fewer for each decision
        assert seen.left_to_lose == seen.promised_loss == 30.0
        assert view.practice is not None and view.practice.explored == explored
        arms = {arm.name: arm.metrics["complaints"] for arm in arm_views(loop)}
        assert {name: had.told for name, had in arms.items()} == dict(
            zip("abc", loop.state.plays, strict=True)
        )
        assert arms["c"].mean == 0.0 and arms["c"].upper is not None and arms["c"].upper < 0.05
        assert arms["a"].lower is not None and 0.0 < arms["a"].lower < 0.1 < (arms["a"].upper or 0.0)


def lose_complaints(loop: Loop, rounds: int) -> None:
    """Every arm is complained about in half of its plays, and half of the complaints never come."""
    rng = np.random.default_rng(13)
    for complaint, late in rng.random((rounds, 2)) < 0.5:
        number = memory.decide(loop, proposal=2).number
        lost = bool(complaint and late)
        values = {} if lost else {"complaints": float(complaint)}
        loop.apply(
            MetricsRecorded(number=number, values=values, lost=["complaints"] if lost else []), loop.state.at
        )


def test_values_of_arms_that_are_lost_count_at_both_ends() -> None:
    """A third of what comes is a complaint, but half of all are: an interval misses that 1 time in 20."""
    loop = memory.fresh(policy=guarded(COMPLAINTS, budget=500.0), on_alarm="warn")
    lose_complaints(loop, 1000)
    arms = {arm.name: arm for arm in arm_views(loop) if arm.plays > 50}
    for arm in arms.values():
        had = arm.metrics["complaints"]
        assert had.told + had.lost == arm.plays and had.lost > 0
        assert had.mean is not None and had.lower is not None and had.upper is not None
        assert had.lower < had.mean < 0.45 and had.lower < 0.5 < had.upper
        alike = RewardTotals()  # a reward of that kind is shown in the same way
        ones = round(had.mean * had.told)
        for value in [1.0] * ones + [0.0] * (had.told - ones + had.lost):
            alike.add(value, default=False)
        shown = Earned(alike, (0.0, 1.0), had.lost)
        assert (had.lower, had.upper) == pytest.approx(shown.interval) and had.mean == pytest.approx(
            shown.mean
        )
    assert (
        sum(arm.metrics["complaints"].lost for arm in arms.values()) <= loop.state.metrics["complaints"].lost
    )
    assert arms


def test_an_arm_of_which_all_values_are_lost_says_nothing_but_that() -> None:
    loop = memory.fresh(policy=guarded(COMPLAINTS, MARGIN))
    event = memory.decide(loop)
    loop.apply(MetricsRecorded(number=event.number, values={}, lost=["complaints", "margin"]), 1.0)
    for had in arm_views(loop)[event.arm].metrics.values():
        assert (had.told, had.lost, had.mean, had.lower, had.upper) == (0, 1, None, None, None)


def test_a_loop_that_did_not_count_lost_values_by_arm_gives_no_interval_for_them() -> None:
    """Its state stays what its events made of it, so that snapshots of earlier versions are right."""
    spec = msgspec.structs.replace(
        spec_of(policy=guarded(COMPLAINTS, budget=500.0), on_alarm="warn"), version=7
    )
    loop = Loop.fresh("loop", spec)
    lose_complaints(loop, 40)
    kept = loop.state.metrics["complaints"]
    assert kept.lost > 0 and sum(totals.closed for totals in kept.arms.values()) == kept.told
    for had in (arm.metrics["complaints"] for arm in arm_views(loop) if arm.metrics):
        assert had.mean is not None and (had.lost, had.lower, had.upper) == (0, None, None)


def test_an_alarm_says_which_metric_is_worse_and_only_that(tmp_path: Path) -> None:
    """c annoys nine of ten. The budget is large: it is noticed long before the promise would be broken."""
    rails = (replace(COMPLAINTS, budget=400.0), replace(MARGIN, budget=2000.0))
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded(*rails, budget=500.0, share=0.3))
        for number in range(300):
            made = decide(service, proposal="c")
            told = {"complaints": float(made.arm == "c" and number % 10 > 0), "margin": 1.0}
            reward(service, made.decision_id, 0.5, **told)
            loop = service.loops.get("loop")
            if loop.state.alarms:
                break
        (alarm,) = loop.state.alarms
        assert (alarm.kind, alarm.metric, loop.state.mode) == ("guardrail", "complaints", "safe-only")
        assert alarm.message.startswith("complaints went up: the explored rounds had more than")
        assert msgspec.json.decode(message_of(loop, alarm))["metric"] == "complaints"
        assert id_of(loop, alarm).endswith("guardrail-complaints")
        assert loop.state.metrics["margin"].alarm.evidence < loop.watch.threshold / 2
        shown = views.loop_view(loop)
        assert [each.metric for each in shown.alarms] == ["complaints"]
        assert shown.metrics[0].left_to_lose is not None and shown.metrics[0].left_to_lose > 0
        change(service, mode="live")
        assert not loop.state.metrics["complaints"].alarm.raised and not loop.open_alarms
        assert len(set(digests(service))) == 1


def test_a_complaint_that_comes_late_does_not_hide_that_there_are_more(tmp_path: Path) -> None:
    """Values come 150 decisions later: those before the oldest open one are enough for the alarm."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded(replace(COMPLAINTS, budget=900.0), budget=900.0, share=0.3))
        waiting: list[Any] = []
        for _ in range(500):
            waiting.append(decide(service, proposal="c"))
            reward(service, waiting[-1].decision_id, 0.5)
            if len(waiting) > 150:
                made = waiting.pop(0)
                reward(service, made.decision_id, None, complaints=float(made.arm == "c"))
        assert [alarm.metric for alarm in service.loops.get("loop").state.alarms] == ["complaints"]


def test_alarms_of_all_metrics_together_have_the_level_that_was_asked_for(tmp_path: Path) -> None:
    """A union over the reward and each guardrail: everyone's share of the level is the same."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=guarded(), alarm_error=0.03)
        view = views.loop_view(service.loops.get("loop"))
        levels = [view.practice_alarm_at, *(each.practice_alarm_at for each in view.metrics)]
        assert levels == pytest.approx([100.0] * 3)


def test_a_decision_is_explained_with_its_metrics_and_what_is_shut(tmp_path: Path) -> None:
    """A budget of 8 complaints is soon used up by an arm that everybody complains about."""
    with opened(tmp_path / "x.sqlite") as service:
        rails = replace(COMPLAINTS, budget=8.0), replace(MARGIN, budget=900.0)
        create(service, policy=guarded(*rails, budget=900.0), on_alarm="warn")
        for _ in range(60):
            made = decide(service, proposal="c")
            reward(service, made.decision_id, None, complaints=float(made.arm == "c"))
        reward(service, made.decision_id, None, margin=2.0)
        loop = service.loops.get("loop")
        found = service.store.write_sync(lambda connection: explain(connection, loop, made.decision_id))
        assert found.metrics == {"complaints": 0.0, "margin": 2.0}
        assert "Nothing more may be lost of complaints, so nothing is tried." in found.reasons


# -- arms that come and go, older databases, level


@pytest.mark.parametrize("kind", MAKE)
def test_values_of_arms_that_have_gone_since_still_count(tmp_path: Path, kind: str) -> None:
    """Arms come and go between a decision and its values; a replay gives the same books."""
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock, snapshot_every=9) as service:
        MAKE[kind](service, policy=guarded())
        asked, (gone, new) = Asked(service, kind), ("b", "d") if kind == "arms" else ("B", "D")
        made = [asked.decide().decision_id for _ in range(25)]
        remove_arms(service, gone)
        add_arms(service, new)
        made += [asked.decide().decision_id for _ in range(10)]
        tell_later(service, made)
        for each in made:
            assert reward(service, each, 1.0).status == "applied"
        loop = service.loops.get("loop")
        assert not loop.unmeasured and not loop.agent.running.tickets.by_round
        assert len(set(digests(service))) == 1


@pytest.mark.parametrize("version", ["version-0.1", "version-0.2"])
def test_a_database_of_an_older_version_takes_a_loop_with_guardrails(tmp_path: Path, version: str) -> None:
    """Its own loops have none, and their numbers say so."""
    stored = sorted((Path(__file__).parents[1] / "data" / version).glob("*.sqlite"))[0]
    path, clock = Path(shutil.copy(stored, tmp_path / "x.sqlite")), FakeClock(2e9)
    with opened(path, clock=clock) as service:
        old = list(service.loops.by_name.values())
        assert old and all(not views.loop_view(loop).metrics for loop in old)
        create(service, "guarded", policy=guarded())
        made = decide(service, "guarded").decision_id
        assert reward(service, made, 1.0, "guarded", complaints=0.0, margin=1.0).status == "applied"
        assert len(set(digests(service, "guarded"))) == 1
    said = [line for line in maintenance.check(path) if line.startswith("guarded: ")]
    assert len(said) == 1 and "snapshot, replay and tables agree" in said[0]


def false_alarms(runs: int, rounds: int) -> int:
    """Runs with an alarm, of a loop whose metrics are worse by nothing: opposed, and late at random."""
    found = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rails = tuple(
            linoto.Guardrail(name, reward_range=(0, 1), lower_is_better=name == "low", budget=900.0)
            for name in ("low", "high")
        )
        loop = memory.fresh(
            policy=guarded(*rails, budget=900.0, share=0.3), alarm_error=0.3, on_alarm="warn", seed=seed
        )
        waiting: list[Any] = []
        for draw in rng.random(rounds).tolist():
            event = memory.decide(loop, proposal=2)
            memory.close(loop, event.number, float(draw < 0.5))
            waiting.append((event.number, draw))
            while waiting and rng.random() < 0.5:
                number, known = waiting.pop(int(rng.integers(len(waiting))))
                values = {"low": float(known < 0.5), "high": float(known < 0.2)}
                loop.apply(MetricsRecorded(number=number, values=values), loop.state.at)
        found += any(alarm.kind in ("guardrail", "practice") for alarm in loop.state.alarms)
    return found


@pytest.mark.few(0)
def test_no_metric_rings_by_chance_more_often_than_all_of_them_may(tmp_path: Path) -> None:
    """At most 0.3 of runs may; 13 of 20 would be a false alarm of this test with probability 0.002."""
    assert false_alarms(20, 80) <= 12


@pytest.mark.slow
def test_no_metric_rings_by_chance_in_many_long_runs(tmp_path: Path) -> None:
    """At most 0.3 of runs may; 28 of 60 would be a false alarm of this test with probability 0.005."""
    assert false_alarms(60, 300) <= 27


# -- for other programs


def test_prometheus_reads_every_metric_under_its_name(tmp_path: Path) -> None:
    """Whatever the name is: it is a label, and quoted."""
    odd = linoto.Guardrail('"back\\slash"', reward_range=(0, 1), budget=30)
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service, policy=guarded(COMPLAINTS, odd))
        reward(service, decide(service).decision_id, 1.0, complaints=1.0)
        view = views.loop_view(service.loops.get("loop"))
        text = "".join(lines_of(view).values())
        found = {
            (sample.name, sample.labels.get("metric"), sample.labels.get("origin")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert found["linoto_metric_values_total", "complaints", "reported"] == 1.0
        assert found["linoto_metric_values_total", odd.name, "reported"] == 0.0
        assert found["linoto_metric_left_to_lose", "complaints", None] == view.metrics[0].left_to_lose
        assert found["linoto_metric_alarms_total", odd.name, None] == 0.0
        for field in METRICS:
            assert (f"linoto_metric_{field}", "complaints", None) in found


def test_what_prometheus_is_told_of_an_alarm_is_true_after_the_first_too() -> None:
    for texts in (NUMBERS, METRICS):
        text = texts["evidence_for_practice"]
        assert "(1 + guardrails) / alarm_error, and above more after the first alarm (practice_alarm" in text


def test_a_metric_is_exported_under_its_name_unless_another_column_has_it(tmp_path: Path) -> None:
    """What was exported is a log with guardrails again."""
    named = linoto.Guardrail("mode", reward_range=(0, 1), budget=30)
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service, policy=guarded(COMPLAINTS, named))
        for number in range(6):
            told = {"complaints": float(number % 2), "mode": 0.5} if number < 4 else {}
            reward(service, decide(service).decision_id, 1.0, **told)
        pieces = parquet(service.store, service.loops.get("loop"), pending=False)
        (tmp_path / "x.parquet").write_bytes(b"".join(pieces))
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["complaints"] for row in rows] == [0.0, 1.0, 0.0, 1.0, None, None]
    assert [row["metric_mode"] for row in rows] == [0.5] * 4 + [None] * 2
    assert {row["mode"] for row in rows} <= {"safe", "explore"}


def test_names_of_metrics_are_read_as_those_of_guardrails(tmp_path: Path) -> None:
    """Without spaces around them, and with one way to write each letter."""
    cafe, apart = "caf\u00e9", "cafe\u0301"
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service, policy=guarded(linoto.Guardrail(apart, reward_range=(0, 1), budget=30)))
        for name, other in ((apart, cafe), (f" {cafe} ", apart)):
            made = decide(service).decision_id
            told = reward(service, made, 1.0, **{name: 0.5})
            assert (told.status, told.metrics) == ("applied", {cafe: 0.5})
            assert reward(service, made, None, **{other: 0.5}).status == "duplicate"
        twice = reward(service, decide(service).decision_id, 1.0, **{cafe: 0.5, apart: 0.5})
        assert (twice.status, twice.message) == ("invalid", f"metrics must have one value of {cafe}, got two")


@pytest.mark.parametrize("names", [("reward", "metric_reward"), ("metric_reward", "reward")])
def test_every_metric_has_a_column_of_its_own_in_an_export(tmp_path: Path, names: tuple[str, str]) -> None:
    rails = (linoto.Guardrail(name, reward_range=(0, 1), budget=30) for name in names)
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service, policy=guarded(*rails))
        told = {"reward": 0.25, "metric_reward": 0.75}
        made = decide(service).decision_id
        service.store.write_sync(lambda c: service.loops.reward(c, "loop", made, 1.0, told))
        pieces = parquet(service.store, service.loops.get("loop"), pending=False)
        (tmp_path / "x.parquet").write_bytes(b"".join(pieces))
    (row,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert (row["reward"], row["metric_reward"], row["metric_metric_reward"]) == (1.0, 0.75, 0.25)


@pytest.mark.parametrize("name", ["x" * 201, "a\nb", "\ud800"])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / "x.sqlite") as service, pytest.raises(Refused, match="names of guardrails must"):
        create(service, policy=guarded(replace(COMPLAINTS, name=name)))
