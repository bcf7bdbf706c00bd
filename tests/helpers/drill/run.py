"""One drill from its first request to its verdict."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path

from helpers.drill.faults import OFTEN, Fault, Scene
from helpers.drill.fleet import Fleet
from helpers.drill.loops import KINDS
from helpers.drill.verdict import Verdict, read_books
from helpers.drill.visits import Asker, Diary, Visitor, Watcher
from helpers.postgres import Cluster, name_of

from linoto.client import Client

AT_ONCE = 0.2  # share of faults that follow before everything answers again
TOO_MANY = 100  # refusals that nobody expects, after which there is no point in going on
DEAF = 1.0  # seconds in which no answer is heard before a fault, at the most


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is done, and how often."""

    seed: int
    seconds: float = inf  # of faults; or
    faults: int = 10**9  # so many
    often: tuple[tuple[Fault, int], ...] = tuple(OFTEN.items())  # what happens, and how often
    servers: int = 3
    visitors: int = 12
    rest: float = 0.0  # seconds that a visitor rests between two visits, on average
    load: int = 40  # acknowledgements between two faults, at the most, once everything answers
    generic: bool = False  # whether one of the servers has kernels compiled for another processor
    without: tuple[str, ...] = ()  # safeguards that its servers do not have
    statements: tuple[str, ...] = ()  # what is done to the database before the first fault
    patience: float = 60.0  # seconds without an answer after which it has failed


Tell = Callable[[str], None]


def run(plan: Plan, cluster: Cluster, folder: Path, tell: Tell = lambda _: None) -> Verdict:
    """Play it on a database of its own, and read the books."""
    address = cluster.database()
    try:
        diary = Diary(list(KINDS), plan.patience)
        fleet = Fleet(address, folder, size=plan.servers, generic=plan.generic, without=plan.without)
        try:
            verdict = play(plan, Scene(cluster, fleet, diary, random.Random(plan.seed)), tell)
            fleet.stop()
        finally:
            fleet.kill()
        read_books(verdict, address)
        return verdict
    finally:
        cluster.drop(address)


def play(plan: Plan, scene: Scene, tell: Tell) -> Verdict:
    """Make the loops, and let faults happen while visitors come."""
    make_loops(scene, plan)
    scene.fleet.start_others()
    began, faults = time.monotonic(), Counter[str]()
    tell(f"{plan.servers} servers answer for {len(KINDS)} loops, {plan.visitors} visitors, seed {plan.seed}")
    scene.diary.begin()
    with visited(plan, scene) as askers:
        wait_for_all(scene.diary, began, plan.patience)
        for number in count(1):
            if number > plan.faults or time.monotonic() - began > plan.seconds:
                break
            if not all(asker.is_alive() for asker in askers) or len(scene.diary.refused) > TOO_MANY:
                break
            faults[let_happen(plan, scene, began, tell)] += 1
        wait_for_all(scene.diary, time.monotonic(), plan.patience)
    verdict = Verdict(plan.seed, time.monotonic() - began, faults, scene.diary)
    verdict.unfinished = [repr(asker.error) for asker in askers if asker.error is not None]
    return verdict


def make_loops(scene: Scene, plan: Plan) -> None:
    """By the first server, so that every other one finds them."""
    with Client(scene.fleet.wait(), deadline=300.0) as client:  # kernels may have to be compiled
        for name, kind in KINDS.items():
            kind.create(client, name)
    for statement in plan.statements:
        done = scene.cluster.psql(name_of(scene.fleet.address), statement)
        assert done.returncode == 0, done.stderr


@contextmanager
def visited(plan: Plan, scene: Scene) -> Iterator[list[Asker]]:
    """Visitors of every loop and a watcher of every server, until they are told to stop."""
    stop, urls, diary = threading.Event(), scene.fleet.urls, scene.diary
    rest = [(urls, diary, stop, plan.seed * 1000 + n) for n in range(plan.visitors + len(urls))]
    askers: list[Asker] = [
        Visitor(f"visitor-{n}", diary.loops[n % len(diary.loops)], plan.rest, *rest[n], trusting=n % 3 == 2)
        for n in range(plan.visitors)
    ]
    askers += [Watcher(n, *rest[plan.visitors + n]) for n in range(len(urls))]
    for asker in askers:
        asker.start()
    try:
        yield askers
    finally:
        stop.set()
        for asker in askers:
            asker.join()


def let_happen(plan: Plan, scene: Scene, began: float, tell: Tell) -> str:
    """One fault, and mostly until every loop answers again; the name of the fault."""
    kinds, weights = zip(*plan.often, strict=True)
    (fault,) = scene.rng.choices(kinds, weights)
    at, strike = time.monotonic(), fault(scene)
    lose_answers(scene.diary)
    said = f"{at - began:6.1f} s  {next(strike):<34}"
    scene.diary.deaf.clear()
    for _ in strike:
        raise AssertionError
    if scene.rng.random() < AT_ONCE:
        tell(f"{said}  the next one at once")
    else:
        wait_for_all(scene.diary, time.monotonic(), plan.patience)
        tell(f"{said}  every loop answers {time.monotonic() - at:4.1f} s after it began")
        scene.diary.wait_for_more(scene.rng.randrange(plan.load), plan.patience)
    return str(fault.__name__)


def lose_answers(diary: Diary) -> None:
    """Until one was lost after its commit, if one comes: then the same is asked of who is left."""
    before, end = diary.dropped, time.monotonic() + DEAF
    diary.deaf.set()
    while diary.dropped == before and time.monotonic() < end:
        time.sleep(0.001)


def wait_for_all(diary: Diary, since: float, patience: float) -> None:
    """Until every loop has answered since then; visitors give up before this does."""
    while min(diary.heard_at.values()) < since and time.monotonic() < since + 2 * patience:
        time.sleep(0.01)
