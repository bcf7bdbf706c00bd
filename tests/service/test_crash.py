"""kill -9 at random moments under load: nothing acknowledged is lost, nothing counts twice."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from helpers.disk import state_on_disk
from helpers.loop_of_three import make_loop
from helpers.service_process import TOLERANT, Server, served, spec_of

import linoto
from linoto.client import Client, ServedDecision, ServiceError
from linoto.service.loops.events import EVENTS, DecisionMade, MetricsRecorded, RewardRecorded
from linoto.service.loops.starting import start_agent
from linoto.service.storage import sql
from linoto.service.storage.sqlite import connect

SPEC = spec_of()
LOAD = 11  # rewards that are acknowledged before each kill


@dataclass
class Diary:
    """What one client was told, and what it never heard back about."""

    name: int
    decisions: dict[str, ServedDecision] = field(default_factory=dict)  # by key
    rewards: dict[str, float] = field(default_factory=dict)  # by decision_id
    unanswered: list[str] = field(default_factory=list)  # keys
    surprises: list[str] = field(default_factory=list)
    metrics: tuple[str, ...] = ()  # guardrails whose values are told after the reward
    values: dict[tuple[str, str], float] = field(default_factory=dict)  # by decision_id and guardrail


def work(client: Client, diary: Diary, stop: threading.Event, seed: int) -> None:
    """Decide and reward until told to stop or until the server is gone."""
    rng = random.Random(seed)
    while not stop.is_set():
        key = diary.unanswered[0] if diary.unanswered else f"{diary.name}-{rng.getrandbits(64)}"
        try:
            if not diary.unanswered:
                diary.unanswered.append(key)
            diary.decisions[key] = made = client.decide("loop", key=key)
            diary.unanswered.clear()
            old = rng.choice(list(diary.decisions))
            if client.decide("loop", key=old) != diary.decisions[old]:
                diary.surprises.append(f"{old} changed")
            value = float(rng.random() < 0.6)
            result = client.reward("loop", made.decision_id, value)
            diary.rewards[made.decision_id] = value
            for name in diary.metrics:
                client.reward("loop", made.decision_id, metrics={name: 1 - value})
                diary.values[made.decision_id, name] = 1 - value
            if result.status == "duplicate":
                diary.surprises.append(f"{made.decision_id} was rewarded before")
        except ServiceError as error:
            diary.surprises.append(str(error))
        except ConnectionError:
            return


def rewards_in(diaries: list[Diary]) -> int:
    """How many rewards were acknowledged."""
    return sum(len(diary.rewards) for diary in diaries)


def crash_repeatedly(path: Path, kills: int, seed: int, policy: linoto.Gated) -> list[Diary]:
    """Serve, load, kill; again and again on the same database."""
    metrics = tuple(rail.name for rail in policy.guardrails)
    rng, diaries = random.Random(seed), [Diary(name, metrics=metrics) for name in range(8)]
    for kill in range(kills):
        server = Server(path, snapshot_every=60)
        try:
            server.wait()
            setup = server.client()
            make_loop(setup, policy)
            setup.close()
            stop = threading.Event()
            threads = [
                threading.Thread(target=work_and_close, args=(server, diary, stop, kill * 100 + diary.name))
                for diary in diaries
            ]
            wanted = rewards_in(diaries) + LOAD
            for thread in threads:
                thread.start()
            while rewards_in(diaries) < wanted and any(thread.is_alive() for thread in threads):
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.2))  # killed at any moment
        finally:
            server.kill()
        stop.set()
        for thread in threads:
            thread.join()
    return diaries


def work_and_close(server: Server, diary: Diary, stop: threading.Event, seed: int) -> None:
    client = server.client(retries=0)
    work(client, diary, stop, seed)
    client.close()


def check_diaries(path: Path, diaries: list[Diary]) -> None:
    """Everything acknowledged is on disk, once, as it was said."""
    connection = connect(path)
    rows = [EVENTS.decode(body) for _, _, body in sql.events_after(connection, 1, 0)]
    connection.close()
    decided = [event for event in rows if isinstance(event, DecisionMade)]
    closed = [event for event in rows if isinstance(event, RewardRecorded)]
    assert [event.number for event in decided] == list(range(1, len(decided) + 1))
    assert len({event.number for event in closed}) == len(closed)
    keys = {event.key: event for event in decided}
    rewards = {f"1-{event.number}": event.reward for event in closed}
    assert len(keys) == len(decided)
    measured = [event for event in rows if isinstance(event, MetricsRecorded)]
    values = {
        (f"1-{event.number}", name): value for event in measured for name, value in event.values.items()
    }
    assert len(values) == sum(len(event.values) for event in measured)
    for diary in diaries:
        assert diary.surprises == []
        for key, answer in diary.decisions.items():
            assert answer.decision_id == f"1-{keys[key].number}"
            assert answer.arm == "abc"[keys[key].arm] and answer.propensity == keys[key].propensity
        for decision_id, value in diary.rewards.items():
            assert rewards[decision_id] == value
        assert {place: values.get(place) for place in diary.values} == diary.values


def run_crashes(path: Path, kills: int, seed: int, policy: linoto.Gated = TOLERANT) -> None:
    diaries = crash_repeatedly(path, kills, seed, policy)
    assert rewards_in(diaries) >= LOAD * kills, "too little load to learn from"
    check_diaries(path, diaries)
    _, short, long = state_on_disk(path)
    assert short == long


def test_two_kills_under_load_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    run_crashes(tmp_path / "x.sqlite", kills=2, seed=0)


def test_two_kills_of_a_loop_that_throws_coins_throw_no_coin_twice(tmp_path: Path) -> None:
    """The same key gets the same decision after a crash, and a replay of the events the same coins."""
    policy = linoto.Gated(gate=linoto.Control(budget=30.0, epsilon=0.1), confidence=TOLERANT.confidence)
    run_crashes(tmp_path / "x.sqlite", kills=2, seed=2, policy=policy)


def test_two_kills_between_rewards_and_values_of_guardrails_lose_none_of_them(tmp_path: Path) -> None:
    rails = tuple(linoto.Guardrail(name, reward_range=(0, 1), budget=30) for name in ("calls", "margin"))
    policy = linoto.Gated(
        gate=linoto.Control(budget=30.0, epsilon=0.1), confidence=TOLERANT.confidence, guardrails=rails
    )
    run_crashes(tmp_path / "x.sqlite", kills=2, seed=3, policy=policy)


@pytest.mark.slow
def test_fifty_kills_under_load_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    run_crashes(tmp_path / "x.sqlite", kills=50, seed=1)


def test_sixty_four_clients_never_spend_the_budget_twice(tmp_path: Path) -> None:
    """Played again one by one, every decision and its budget come out as served, in the order of the log.

    No reward is below the log's mean, whoever comes first: books below the promise would leave less than the
    agent's budget, and the agent alone does not know them.
    """
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        setup = server.client()
        make_loop(setup)
        setup.close()
        barrier, failures = threading.Barrier(64), []

        def play(seed: int) -> None:
            client, rng = server.client(), random.Random(seed)
            barrier.wait()
            try:
                for _ in range(3):
                    made = client.decide("loop", proposal=rng.choice([None, "c"]))
                    client.reward("loop", made.decision_id, rng.uniform(0.5, 0.7))
            except Exception as error:  # a thread's exception would vanish
                failures.append(error)
            client.close()

        threads = [threading.Thread(target=play, args=(seed,)) for seed in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.stop() == 0
    assert failures == []
    explored = replay_one_by_one(path)
    assert explored > 0


def replay_one_by_one(path: Path) -> int:
    """Decide everything again in the order of the events; the number of explorations."""
    connection = connect(path)
    rows = list(sql.events_after(connection, 1, 0))
    connection.close()
    agent, plays, explored = start_agent(SPEC), {}, 0
    for _, _, body in rows:
        event: Any = EVENTS.decode(body)
        if isinstance(event, DecisionMade):
            decision = agent.decide() if event.proposal is None else agent.guard(event.proposal)
            assert (decision.arm, decision.mode, decision.budget) == (event.arm, event.mode, event.budget)
            assert decision.mode == "safe" or decision.budget > 0
            agent.commit(decision)
            plays[event.number] = decision
            explored += decision.mode == "explore"
        else:
            agent.observe(plays[event.number], event.reward)
    assert len(plays) == 64 * 3
    return explored
