"""Pruning while a busy server works, and is killed."""

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
from helpers.service_process import Server, served

from linoto.client import ServiceError
from linoto.service.maintenance import check
from linoto.service.retention import prune
from linoto.service.storage.sqlite import connect


@dataclass
class Diary:
    """What one client was diary: (when it asked, key, decision, its reward if that was taken)."""

    made: list[tuple[float, str, Any, float | None]] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)


def work(server: Server, diary: Diary, seed: int) -> None:
    """Decide and reward until the server is gone; one decision in five gets no reward."""
    rng, client = random.Random(seed), server.client(retries=0)
    while True:
        asked, key = time.time(), f"{seed}-{rng.getrandbits(64)}"
        try:
            made = client.decide("loop", key=key)
            diary.made.append((asked, key, made, None))
            if rng.random() < 0.8:
                value = float(rng.random() < 0.6)
                client.reward("loop", made.decision_id, value)
                diary.made[-1] = (asked, key, made, value)
        except ServiceError as error:
            diary.surprises.append(str(error))
        except ConnectionError:
            client.close()
            return


@pytest.mark.slow  # without a server: test_pruning_can_be_interrupted_anywhere_and_is_finished_by_the_next
def test_pruning_while_a_busy_server_is_killed_loses_nothing_that_is_kept(tmp_path: Path) -> None:
    path, diaries = tmp_path / "x.sqlite", [Diary() for _ in range(6)]
    with served(path, snapshot_every=60) as server:
        setup = server.client()
        make_loop(setup)
        setup.close()
        threads = [threading.Thread(target=work, args=(server, diary, i)) for i, diary in enumerate(diaries)]
        for thread in threads:
            thread.start()
        cutoff = prune_until_killed(path, server, diaries)
        for thread in threads:
            thread.join(30)
    assert [diary.surprises for diary in diaries] == [[]] * len(diaries)
    check_kept(path, diaries, cutoff)
    _, short, long = state_on_disk(path)
    assert short == long
    old = next(made for _, _, made, value in diaries[0].made if value is not None)
    _, key, young, _ = diaries[0].made[-1]
    with served(path) as server:
        client = server.client()
        assert client.decide("loop", key=key) == young
        assert client.explain("loop", young.decision_id)["arm"] == young.arm
        with pytest.raises(ServiceError, match=r"there is no decision .*404"):
            client.explain("loop", old.decision_id)
        with pytest.raises(ServiceError, match=r"were pruned.*410 expired"):
            client.reward("loop", old.decision_id, 1.0)
        client.close()
        assert server.stop() == 0
    assert "snapshot, replay and tables agree" in list(check(path))[1]


def young_rewards(diaries: list[Diary], cutoff: float) -> int:
    """How many decisions asked for since the cutoff have their reward."""
    return sum(
        asked >= cutoff and value is not None for diary in diaries for asked, _, _, value in diary.made
    )


def prune_until_killed(path: Path, server: Server, diaries: list[Diary]) -> float:
    """Prune again and again, kill the server between two transactions of that; the last cutoff."""
    end, went, rests, cutoff = time.monotonic() + 240, 0, 0, 0.0

    def rest_or_kill(seconds: float) -> None:
        nonlocal rests
        rests += 1
        enough = went > 3 and rests > 60 and sum(len(diary.made) for diary in diaries) > 250
        if enough and young_rewards(diaries, cutoff) > 20:
            server.kill()
        time.sleep(seconds)

    while server.process.poll() is None:
        assert time.monotonic() < end, "too little load within four minutes"
        cutoff = time.time() - 0.3
        (line,) = prune(path, before=cutoff, now=cutoff, sleep=rest_or_kill, batch=20)
        went += "pruned 0" not in line and "not pruned" not in line
    return cutoff


def check_kept(path: Path, diaries: list[Diary], cutoff: float) -> None:
    """Everything acknowledged since the cutoff, and every decision still open, is there as it was said."""
    connection = connect(path)
    decisions = {
        key: (number, arm)
        for number, key, arm in connection.execute("SELECT number, key, arm FROM decisions").fetchall()
    }
    rewards = dict(connection.execute("SELECT number, reward FROM rewards").fetchall())
    decided = connection.execute("SELECT max(number) FROM decisions").fetchone()[0]
    connection.close()
    young = 0
    for diary in diaries:
        for asked, key, made, value in diary.made:
            if asked < cutoff and value is not None:
                continue
            number, arm = decisions[key]
            assert (made.decision_id, made.arm) == (f"1-{number}", "abc"[arm])
            assert value is None or rewards[number] == value
            young += asked >= cutoff and value is not None
    assert young > 10 and len(decisions) < 0.8 * decided
