"""What servers that share a PostgreSQL database do with 1,000 loops: pairs a second, joining, a kill.

    python benchmarks/spread.py --db postgresql://USER@HOST/EMPTY [--servers 3] [--loops 1000] [--seconds 15]

The database must be empty. Servers are started on this machine, so on few cores they compete with each other,
with the callers and, if it is here, with PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from service import free_port, wait_for

from linoto import Client

CALLERS = 16
SPEC: dict[str, Any] = {"arms": ["a", "b", "c"], "policy": {"type": "LinUCB"}, "default_reward": 0.0}
PARTS = "SELECT count(*) FROM linoto.parts WHERE server IS NOT NULL GROUP BY server"


class Server:
    """A server in a process of its own, which answers."""

    def __init__(self, db: str) -> None:
        port, silent = free_port(), subprocess.DEVNULL
        self.url = f"http://127.0.0.1:{port}"
        words = [sys.executable, "-m", "linoto.cli", "serve", "--db", db, "--port", str(port)]
        self.process, _ = wait_for(subprocess.Popen(words, stdout=silent, stderr=silent), port)
        with Client(self.url, deadline=300.0) as client:
            client.overview()


def wait_for_shares(db: str, servers: int) -> list[int]:
    """How many parts each server has, once they are spread."""
    with psycopg.connect(db, autocommit=True) as connection:
        while True:
            counts = [count for (count,) in connection.execute(PARTS)]
            if len(counts) == servers and max(counts) - min(counts) <= 1:
                return counts
            time.sleep(0.05)


def pairs_a_second(urls: list[str], loops: int, seconds: float) -> float:
    """Decisions with their rewards, in all loops in turn."""
    with Client(urls, deadline=300.0) as client:
        end = time.monotonic() + seconds

        def call(caller: int) -> int:
            done = 0
            while time.monotonic() < end:
                name = f"loop-{(caller + done * CALLERS) % loops}"
                client.reward(name, client.decide(name).decision_id, 1.0)
                done += 1
            return done

        with ThreadPoolExecutor(CALLERS) as pool:
            return sum(pool.map(call, range(CALLERS))) / seconds


def in_all(client: Client, loops: int, ask: Any) -> float:
    """Seconds until all loops have answered, some at a time."""
    began = time.monotonic()
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(ask, [f"loop-{n}" for n in range(loops)]))
    return round(time.monotonic() - began, 2)


def measure(db: str, count: int, loops: int, seconds: float, servers: list[Server]) -> dict[str, Any]:
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "loops": loops}
    servers.append(Server(db))
    with Client(servers[0].url, deadline=300.0) as client:
        found["s to make the loops"] = in_all(client, loops, lambda name: client.create(name, **SPEC))
    for _ in range(1, count):
        began = time.monotonic()
        servers.append(Server(db))
        parts = wait_for_shares(db, len(servers))
        found[f"s until server {len(servers)} has its share"] = round(time.monotonic() - began, 1)
        found["parts"] = parts
    urls = [server.url for server in servers]
    pairs_a_second(urls, loops, seconds / 4)
    found["pairs/s with all addresses"] = round(pairs_a_second(urls, loops, seconds))
    found["pairs/s with one address"] = round(pairs_a_second(urls[:1], loops, seconds))
    if count > 1:
        with Client(urls[1:], deadline=300.0) as client:
            servers[0].process.kill()
            found["s until all answer after a kill"] = in_all(client, loops, client.decide)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--json", type=argparse.FileType("w"))
    asked = parser.parse_args()
    servers: list[Server] = []
    try:
        found = measure(asked.db, asked.servers, asked.loops, asked.seconds, servers)
    finally:
        for server in servers:
            server.process.kill()
    for name, value in found.items():
        print(f"{name:<40} {value}")
    if asked.json:
        json.dump(found, asked.json)


if __name__ == "__main__":
    main()
