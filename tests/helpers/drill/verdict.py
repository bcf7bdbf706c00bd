"""What is in the database after a drill, against what visitors were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import psycopg
from helpers.drill.visits import Diary

from linoto.service.loops.events import EVENTS, DecisionMade, RewardRecorded
from linoto.service.loops.records import recover
from linoto.service.storage import sql
from linoto.service.storage.database import open_database
from linoto.service.storage.places import Address

ROWS = """
SELECT l.name, e.seq, e.body, extract(epoch FROM pg_xact_commit_timestamp(e.xmin))::float8
FROM linoto.events e JOIN linoto.loops l ON l.id = e.loop ORDER BY l.id, e.seq
"""
SHOWN = 5  # examples of what is wrong


@dataclass
class Found:
    """What the events of all loops say, by SQL alone."""

    events: list[tuple[str, int]] = field(default_factory=list)  # loop and number of each event
    numbers: list[tuple[str, int]] = field(default_factory=list)  # of decisions
    keys: list[tuple[str, str]] = field(default_factory=list)
    decisions: dict[tuple[str, str], tuple[int, int, float | None, float]] = field(default_factory=dict)
    closed: list[tuple[str, int]] = field(default_factory=list)  # loop and decision of each reward
    rewards: dict[tuple[str, int], float] = field(default_factory=dict)

    def add(self, loop: str, seq: int, body: bytes, committed: float) -> None:
        self.events.append((loop, seq))
        event = EVENTS.decode(body)
        if isinstance(event, DecisionMade) and event.key is not None:
            self.numbers.append((loop, event.number))
            self.keys.append((loop, event.key))
            self.decisions[loop, event.key] = event.number, event.arm, event.propensity, committed
        if isinstance(event, RewardRecorded):
            self.closed.append((loop, event.number))
            self.rewards[loop, event.number] = event.reward


def found_in(address: Address) -> Found:
    found = Found()
    with psycopg.connect(address.url) as connection:
        for row in connection.execute(ROWS):
            found.add(*row)
    return found


def number_of(decision_id: str) -> int:
    return int(decision_id.rpartition("-")[2])


def more_than_once(things: Iterable[tuple[str, int | str]]) -> list[str]:
    return [f"{loop} {thing}: {n} times" for (loop, thing), n in Counter(things).items() if n > 1]


def replay_all(address: Address) -> Iterator[tuple[str, int, str]]:
    """(loop, events, what is wrong): its state when it was last served against all events from the first."""
    with open_database(address, readonly=True) as connection:
        for row in sql.all_loops(connection):
            try:
                long = recover(connection, row, from_scratch=True)
                saved, last = sql.latest_snapshot(connection, row[0]), long.state.seq
                wrong = "" if saved and saved[0] == last else f"its last state was not kept at event {last}"
                if recover(connection, row).digest() != long.digest():
                    wrong = "its state is not what its events make of it"
            except Exception as error:  # events that nobody can replay are a result too
                last, wrong = 0, f"its events cannot be replayed: {error}"
            yield row[1], last, wrong


@dataclass
class Verdict:
    """The end of a drill, in numbers; what must be empty is named with what is in it."""

    seed: int
    seconds: float
    faults: Counter[str]
    diary: Diary
    acknowledged: int = 0
    found: int = 0
    rewards_acknowledged: int = 0
    rewards_found: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    rewards_lost: list[str] = field(default_factory=list)
    rewards_doubled: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # decisions found in each loop
    repeated: int = 0  # keys that were committed before the request was sent that got the answer
    dropped: int = 0  # of these, the answer had come when nobody could hear it
    hung_up: int = 0  # and after who asked had hung up
    replays: list[tuple[str, int, str]] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # visitors that ended with an error

    @property
    def wrong(self) -> dict[str, list[str]]:
        """All that must not be."""
        shown = [f"{loop}: {n}" for loop, n in self.diary.shown.items() if n > self.counts[loop]]
        groups = {
            "decisions lost": self.lost,
            "events or decisions doubled": self.doubled,
            "rewards lost": self.rewards_lost,
            "rewards doubled": self.rewards_doubled,
            "stale answers": self.diary.stale,
            "answers that changed": self.diary.changed,
            "decisions shown that are not there": shown,
            "unexpected refusals": self.diary.refused,
            "visitors that gave up": self.unfinished,
            "replays that differ": [f"{loop}: {wrong}" for loop, _, wrong in self.replays if wrong],
        }
        return {name: group for name, group in groups.items() if group}

    @property
    def answers_repeated(self) -> int:
        """Answers that were lost after the commit, and came when the same was asked again."""
        return self.repeated + self.diary.rewards_repeated

    def lines(self) -> Iterator[str]:
        kinds = ", ".join(f"{n} {name}" for name, n in self.faults.items())
        yield f"{sum(self.faults.values())} faults in {self.seconds:.0f} s, seed {self.seed}: {kinds}"
        for name, told, found, lost, doubled in (
            ("decisions", self.acknowledged, self.found, self.lost, self.doubled),
            (
                "rewards",
                self.rewards_acknowledged,
                self.rewards_found,
                self.rewards_lost,
                self.rewards_doubled,
            ),
        ):
            counts = f"{told:,} acknowledged, {found:,} found, {len(lost)} lost, {len(doubled)} doubled"
            yield f"{name:<10} {counts}"
        yield (
            f"answers    {self.answers_repeated} lost after the commit, and the same when asked again: "
            f"{self.repeated} decisions ({self.repeated - self.dropped - self.hung_up} with a server, "
            f"{self.dropped} on the way, {self.hung_up} hung up), {self.diary.rewards_repeated} rewards"
        )
        yield f"silence    {self.diary.silence:.2f} s was the longest time in which a loop gave no answer"
        for loop, events, wrong in self.replays:
            yield f"replay     {loop}: {events:,} events from the first, {wrong or 'equal bit for bit'}"
        for name, group in self.wrong.items():
            yield f"WRONG      {len(group)} {name}: " + "; ".join(group[:SHOWN])
        yield "FAILED" if self.wrong else "PASSED: nothing lost, nothing doubled, nothing stale"


def read_books(verdict: Verdict, address: Address) -> None:
    """Compare what is in the database with what was told."""
    found, diary = found_in(address), verdict.diary
    verdict.acknowledged, verdict.found = len(diary.decisions), len(found.decisions)
    verdict.rewards_acknowledged, verdict.rewards_found = len(diary.rewards), len(found.rewards)
    for things in (found.events, found.numbers, found.keys):
        verdict.doubled += more_than_once(things)
    verdict.rewards_doubled += more_than_once(found.closed)
    verdict.counts = Counter(loop for loop, _ in found.keys)
    for (loop, key), answer in diary.decisions.items():
        there, made = found.decisions.get((loop, key)), answer.made
        told = number_of(made.decision_id), "abc".index(made.arm.lower()), made.propensity
        if there is None or there[:3] != told:
            verdict.lost.append(f"{loop} {key} was {told}, there is {there}")
        elif there[3] < answer.sent:
            verdict.repeated += 1
            verdict.dropped += answer.dropped
            verdict.hung_up += answer.hung_up and not answer.dropped
    for (loop, decision_id), value in diary.rewards.items():
        kept = found.rewards.get((loop, number_of(decision_id)))
        if kept != value:
            verdict.rewards_lost.append(f"{loop} {decision_id} was {value}, there is {kept}")
    verdict.replays = list(replay_all(address))
