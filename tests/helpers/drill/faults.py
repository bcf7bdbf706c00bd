"""What may happen to servers, to their database and to what is between them."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from helpers.drill.fleet import Fleet
from helpers.drill.visits import Diary
from helpers.postgres import Cluster, name_of

LEASE = 3.0  # seconds that an owner may be silent for, as docs/service.md says
THE_ONE_THAT_ANSWERS = 0.7  # how often a fault is of the server that was heard last
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"


@dataclass
class Scene:
    """Where faults happen, and what draws them."""

    cluster: Cluster
    fleet: Fleet
    diary: Diary
    rng: random.Random

    def server(self) -> int:
        """The one to be hit."""
        if self.rng.random() < THE_ONE_THAT_ANSWERS:
            return self.diary.heard_from
        return self.rng.randrange(len(self.fleet.servers))

    def sessions(self) -> list[int]:
        """The processes of PostgreSQL that serve our servers."""
        said = self.cluster.psql("postgres", SESSIONS.format(name_of(self.fleet.address)))
        return [int(line) for line in said.stdout.split()]


Strike = Iterator[str]  # says what happened as soon as it has, and mends what it must when it goes on


def kill(scene: Scene) -> Strike:
    """As by kill -9."""
    n = scene.server()
    scene.fleet.signal(n, signal.SIGKILL)
    yield f"server {n} killed"


def terminate(scene: Scene) -> Strike:
    """As by a planned restart."""
    n = scene.server()
    scene.fleet.signal(n, signal.SIGTERM)
    yield f"server {n} told to stop"


def pause_for(scene: Scene, seconds: float) -> Strike:
    """As a machine that stands still."""
    n = scene.server()
    scene.fleet.signal(n, signal.SIGSTOP)
    yield f"server {n} stands still for {seconds:.1f} s"
    time.sleep(seconds)
    scene.fleet.signal(n, signal.SIGCONT)


def pause(scene: Scene) -> Strike:
    """Longer than a lease, so that another one takes over."""
    return pause_for(scene, LEASE + scene.rng.uniform(1.0, 2.5))


def hiccup(scene: Scene) -> Strike:
    """Shorter than a lease."""
    return pause_for(scene, scene.rng.uniform(0.1, 1.5))


def cut(scene: Scene) -> Strike:
    """Some or all sessions end at once."""
    sessions = scene.sessions()
    ended = [pid for pid in sessions if scene.rng.random() < 0.6] or sessions
    for pid in ended:
        scene.cluster.psql("postgres", f"SELECT pg_terminate_backend({pid})")
    yield f"{len(ended)} of {len(sessions)} sessions cut"


def crash_database(scene: Scene) -> Strike:
    """A process of PostgreSQL is killed, so that it ends all others and recovers."""
    sessions = scene.sessions()
    if sessions:
        os.kill(scene.rng.choice(sessions), signal.SIGKILL)
    yield "a process of PostgreSQL killed"


def restart_database(scene: Scene) -> Strike:
    """PostgreSQL ends as by a power failure of its own, and comes back."""
    away = scene.rng.uniform(0.1, 2.0)
    scene.cluster.stop()
    yield f"PostgreSQL away for {away:.1f} s"
    time.sleep(away)
    scene.cluster.start()


Fault = Callable[[Scene], Strike]
OFTEN: dict[Fault, int] = {  # how many of 20
    kill: 6,
    terminate: 3,
    pause: 4,
    hiccup: 3,
    cut: 2,
    crash_database: 1,
    restart_database: 1,
}
