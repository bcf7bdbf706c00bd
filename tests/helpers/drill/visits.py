"""Who asks the servers of a drill, and what they were told."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

from helpers.drill.loops import KINDS

from linoto.client import Client, ServedDecision, ServiceError

T = TypeVar("T")
TIMEOUT = 1.0  # seconds after which a visitor asks another server: one that stands still keeps connections
HASTE = 0.004  # seconds after which somebody who is hasty hangs up
HASTY, BATCHES, AGAIN = 0.03, 0.2, 0.15  # shares of visits
PAUSE = 0.03  # seconds between two attempts
LOOK = 0.03  # seconds between two looks at the numbers of a server
NOT_NOW = (429, 502, 503, 504)


class GaveUpError(Exception):
    """No server answers any more."""


@dataclass(frozen=True)
class Answer:
    """A decision, and when the request was sent that got it: by the clock that the database has too."""

    made: ServedDecision
    sent: float
    hung_up: bool  # whether who asked had hung up before
    dropped: bool  # whether an earlier answer had come, and was thrown away as if it had not


@dataclass
class Diary:
    """All that visitors were told, written down when they were told so."""

    loops: list[str]
    patience: float  # seconds without an answer after which a visitor gives up
    decisions: dict[tuple[str, str], Answer] = field(default_factory=dict)  # by loop and key
    rewards: dict[tuple[str, str], float] = field(default_factory=dict)  # by loop and decision_id
    dropped: int = 0  # answers that came while nobody could hear them
    rewards_repeated: int = 0  # the answer was lost after the commit: the next one says so
    changed: list[str] = field(default_factory=list)  # the same key got something else
    stale: list[str] = field(default_factory=list)  # answers from a time before what was acknowledged
    refused: list[str] = field(default_factory=list)  # what nobody expects a server to say
    shown: dict[str, int] = field(default_factory=dict)  # the most decisions that anybody was shown
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)  # decisions, rewards, by loop
    silence: float = 0.0  # seconds: the longest of any loop
    heard_at: dict[str, float] = field(default_factory=dict)  # when a loop last answered
    heard_from: int = 0  # which server answered last

    def __post_init__(self) -> None:
        self.lock, self.deaf = threading.Lock(), threading.Event()
        for loop in self.loops:
            self.counts[loop], self.shown[loop] = (0, 0), 0
        self.begin()

    def begin(self) -> None:
        """From now on silence is counted."""
        self.heard_at = dict.fromkeys(self.loops, time.monotonic())

    def _heard(self, loop: str, server: int | None) -> None:
        now = time.monotonic()
        self.silence = max(self.silence, now - self.heard_at[loop])
        self.heard_at[loop], self.heard_from = now, self.heard_from if server is None else server

    def wait_for_more(self, acknowledged: int, patience: float) -> None:
        """Until so many more requests were answered."""
        wanted, end = self.total + acknowledged, time.monotonic() + patience
        while self.total < wanted and time.monotonic() < end:
            time.sleep(0.01)

    @property
    def total(self) -> int:
        """Decisions and rewards that were acknowledged."""
        return len(self.decisions) + len(self.rewards)

    def drop(self) -> bool:
        """Whether an answer that has just come is lost, as where the network fails before a server does."""
        if not self.deaf.is_set():
            return False
        with self.lock:
            self.dropped += 1
        return True

    def decided(self, loop: str, answers: dict[str, Answer], server: int | None) -> None:
        """Keys that were acknowledged for the first time."""
        with self.lock:
            self._heard(loop, server)
            self.decisions.update({(loop, key): answer for key, answer in answers.items()})
            decisions, rewards = self.counts[loop]
            self.counts[loop] = decisions + len(answers), rewards

    def rewarded(self, loop: str, decision_id: str, value: float, repeated: bool, server: int | None) -> None:
        """A reward that was acknowledged; whether it had been taken before, when no answer came."""
        with self.lock:
            self._heard(loop, server)
            self.rewards[loop, decision_id] = value
            self.rewards_repeated += repeated
            decisions, rewards = self.counts[loop]
            self.counts[loop] = decisions, rewards + 1

    def saw(self, loop: str, before: tuple[int, int], view: dict[str, Any], server: int) -> None:
        """Numbers that somebody was shown who knows what was acknowledged before he asked."""
        shown = view["decisions"], view["rewards"]
        with self.lock:
            self.shown[loop] = max(self.shown[loop], shown[0])
            if shown[0] < before[0] or shown[1] < before[1]:
                self.stale.append(
                    f"server {server} shows {shown[0]} decisions and {shown[1]} rewards of {loop} "
                    f"after {before[0]} and {before[1]} were acknowledged"
                )


@dataclass(frozen=True)
class Told(Generic[T]):
    """An answer at last."""

    answer: T
    sent: float  # when it was asked for
    failures: int  # how often before
    lost: list[T]  # answers that were not heard


class Asker(threading.Thread):
    """Somebody with a client for each server, or with one that knows them all and asks again by itself."""

    def __init__(
        self, urls: list[str], diary: Diary, stop: threading.Event, seed: int, *, trusting: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self.diary, self.stop, self.rng, self.trusting = diary, stop, random.Random(seed), trusting
        self.clients = [Client(url, retries=0, timeout=TIMEOUT) for url in urls]
        self.hasty = [Client(url, retries=0, timeout=HASTE) for url in urls]
        if trusting:
            self.clients = [Client(urls, timeout=TIMEOUT, deadline=diary.patience)]
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error
        finally:
            for client in (*self.clients, *self.hasty):
                client.close()

    def work(self) -> None:
        raise NotImplementedError


class Visitor(Asker):
    """Decides and rewards in one loop, and asks one server after another until it is answered."""

    def __init__(self, name: str, loop: str, rest: float, *args: Any, trusting: bool) -> None:
        super().__init__(*args, trusting=trusting)
        self.label, self.loop, self.rest, self.question = name, loop, rest, KINDS[loop].question
        self.server = self.rng.randrange(len(self.clients))
        self.mine: list[tuple[str, dict[str, Any]]] = []  # keys and what was asked with them

    @property
    def heard_from(self) -> int | None:
        """Which server has answered, if that is known."""
        return None if self.trusting else self.server

    def insist(self, ask: Callable[[Client], T], *, hasty: bool = False) -> Told[T]:
        """What the first server says that answers and is heard, with what was lost before."""
        began, lost = time.monotonic(), list[T]()
        for failures in count():
            hasty = hasty and failures == 0 and not self.trusting
            clients = self.hasty if hasty else self.clients
            sent = time.time()
            try:
                answer = ask(clients[self.server])
                if not self.diary.drop():
                    return Told(answer, sent, failures, lost)
                lost.append(answer)
                while self.diary.deaf.is_set():
                    time.sleep(0.005)
            except ConnectionError:
                pass
            except ServiceError as error:
                if error.status not in NOT_NOW:
                    raise
            if time.monotonic() - began > self.diary.patience:
                raise GaveUpError(f"{self.label}: no answer for {self.diary.patience:g} s")
            if not hasty:
                self.server = (self.server + 1) % len(self.clients)
            time.sleep(PAUSE)
        raise AssertionError

    def work(self) -> None:
        for number in count():
            if self.stop.wait(self.rng.uniform(0.0, 2.0 * self.rest)):
                return
            try:
                self.visit(number)
            except ServiceError as error:
                self.diary.refused.append(f"{self.label}: {error}")
                time.sleep(PAUSE)

    def visit(self, number: int) -> None:
        size = 3 if self.rng.random() < BATCHES else 1
        asked = {f"{self.label}-{number}-{n}": self.question(self.rng) for n in range(size)}
        made = self.decide(asked)
        self.mine += asked.items()
        for key, answer in made.items():
            self.reward(answer.made, float(self.rng.random() < 0.6), key)
        if self.rng.random() < AGAIN:
            self.repeat()

    def decide(self, asked: dict[str, dict[str, Any]]) -> dict[str, Answer]:
        hasty = self.rng.random() < HASTY
        requests = [{"key": key, **question} for key, question in asked.items()]

        def ask(client: Client) -> list[ServedDecision]:
            if len(requests) == 1:
                return [client.decide(self.loop, **requests[0])]
            return client.decide_many(self.loop, requests)

        told = self.insist(ask, hasty=hasty)
        if any(lost != told.answer for lost in told.lost):
            self.diary.changed.append(f"{list(asked)} got {told.lost}, then {told.answer}")
        how = told.sent, hasty and told.failures > 0, bool(told.lost)
        made = {key: Answer(each, *how) for key, each in zip(asked, told.answer, strict=True)}
        self.diary.decided(self.loop, made, self.heard_from)
        return made

    def reward(self, made: ServedDecision, value: float, key: str) -> None:
        hasty = self.rng.random() < HASTY
        told = self.insist(lambda client: client.reward(self.loop, made.decision_id, value), hasty=hasty)
        result, repeated = told.answer, told.answer.status == "duplicate"
        strange = repeated and told.failures == 0 and not self.trusting
        if strange or (told.lost and not repeated) or result.reward != value:
            self.diary.changed.append(f"the reward of {key} was {result.status}, {result.reward}")
        self.diary.rewarded(self.loop, made.decision_id, value, repeated, self.heard_from)

    def repeat(self) -> None:
        """Ask again for what was acknowledged: any server must say the same, once it says something."""
        key, question = self.rng.choice(self.mine)
        before = self.diary.decisions[self.loop, key].made
        self.server = self.rng.randrange(len(self.clients))
        again = self.insist(lambda client: client.decide(self.loop, key=key, **question)).answer
        if again != before:
            self.diary.changed.append(f"{key} was {before.decision_id} {before.arm}, is {again.decision_id}")
        value = self.diary.rewards[self.loop, before.decision_id]
        told = self.insist(lambda client: client.reward(self.loop, before.decision_id, value)).answer
        if told.status != "duplicate":
            self.diary.changed.append(f"the second reward of {key} was {told.status}")


class Watcher(Asker):
    """Looks at the numbers that one server shows, also when it is not the one to ask."""

    def __init__(self, server: int, *args: Any) -> None:
        super().__init__(*args)
        self.server = server

    def work(self) -> None:
        while not self.stop.wait(LOOK):
            loop = self.rng.choice(self.diary.loops)
            before = self.diary.counts[loop]
            try:
                self.diary.saw(loop, before, self.clients[self.server].loop(loop), self.server)
            except ConnectionError:
                continue
            except ServiceError as error:
                if error.status not in NOT_NOW:
                    self.diary.refused.append(f"server {self.server}: {error}")
