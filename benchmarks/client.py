"""Decisions per second through the clients, against the clients of another checkout and bare HTTP libraries.

Every contestant has a process of its own and keeps 64 requests in flight (those with threads: 16). They take
turns in this one call, so that a busy machine is as busy for each. The server is a tiny one that always gives
the same answer, so that the clients are what is measured; with --service it is the real one.

    python benchmarks/client.py [--against CHECKOUT] [--bare] [--service] [--seconds 0.5] [--rounds 12]

niquests replaces the module urllib3 by one of its own: where it is installed, "urllib3" is not urllib3.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

IN_FLIGHT, THREADS = 64, 16
PATH = "/v1/loops/bench/decide"
HEADERS = {"accept": "application/json", "content-type": "application/json"}
DECISION = {"decision_id": "1-1", "arm": "a", "mode": "safe", "propensity": 1.0, "lcb": 0.0, "ucb": 1.0}
DECISION |= {"budget": None, "reference": None, "model_version": 0, "expires_at": 1.0}
DECISION |= {"loop_mode": "live", "holdback": False}
LIBRARIES = ("aiohttp", "httpx", "niquests")
LIBRARIES_WITH_THREADS = ("urllib3", "httpx", "niquests")

Turn = tuple[float, float]  # requests per second, microseconds of processor time for each


# -- servers


class Canned(asyncio.Protocol):
    """Gives the same answer to every request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.data = transport, b""
        body = json.dumps(DECISION).encode()
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, found, rest = self.data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if found and len(rest) >= size:
            self.data = rest[size:]
            self.transport.write(self.answer)  # type: ignore[attr-defined]


async def serve_canned() -> None:
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def canned() -> Iterator[str]:
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"  # type: ignore[union-attr]
        finally:
            process.kill()


@contextmanager
def service() -> Iterator[str]:
    code = "import sys; from pathlib import Path; from linoto.service.server import run; "
    code += "run(Path(sys.argv[1]), port=8977)"
    url = "http://127.0.0.1:8977"
    spec = {"arms": [{"name": name} for name in "abc"], "policy": {"type": "LinUCB"}, "default_reward": 0.0}
    make = urllib.request.Request(f"{url}/v1/loops/bench", json.dumps(spec).encode(), HEADERS, method="PUT")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code, f"{folder}/bench.sqlite"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(600):
                    try:
                        urllib.request.urlopen(make).close()
                        break
                    except OSError:
                        time.sleep(0.05)
                yield url
            finally:
                process.kill()


# -- contestants


def body() -> bytes:
    return json.dumps({"key": uuid.uuid4().hex, "proposal": None}).encode()


def async_sender(name: str, url: str) -> Callable[[], Awaitable[object]]:
    if name == "aiohttp":
        import aiohttp

        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT))

        async def send() -> object:
            async with session.post(url + PATH, data=body(), headers=HEADERS) as answer:
                return json.loads(await answer.read())

        return send
    if name == "linoto":
        import linoto

        client = linoto.AsyncClient(url)
        return lambda: client.decide("bench")
    library = __import__(name)
    if name == "httpx":
        limits = library.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
        other = library.AsyncClient(limits=limits)
    else:
        other = library.AsyncSession(pool_connections=1, pool_maxsize=IN_FLIGHT)

    async def send_other() -> object:
        return json.loads((await other.post(url + PATH, data=body(), headers=HEADERS)).content)

    return send_other


def thread_sender(name: str, url: str) -> Callable[[], object]:
    if name == "linoto":
        import linoto

        client = linoto.Client(url)
        return lambda: client.decide("bench")
    library = __import__(name)
    if name == "urllib3":
        pool = library.connection_from_url(url, maxsize=THREADS)
        return lambda: json.loads(pool.request("POST", PATH, body=body(), headers=HEADERS).data)
    make = library.Client if name == "httpx" else library.Session
    session = make()
    return lambda: json.loads(session.post(url + PATH, data=body(), headers=HEADERS).content)


def measured(count: int, wall: float, processor: float) -> Turn:
    return count / (time.perf_counter() - wall), (time.process_time() - processor) / count * 1e6


async def play_async(name: str, url: str) -> None:
    send = async_sender(name, url)

    async def work(end: float) -> int:
        count = 0
        while time.perf_counter() < end:
            await send()
            count += 1
        return count

    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        counts = await asyncio.gather(*(work(wall + float(line)) for _ in range(IN_FLIGHT)))
        print(json.dumps(measured(sum(counts), wall, processor)), flush=True)


def play_threads(name: str, url: str) -> None:
    send = thread_sender(name, url)

    def work(end: float, counts: list[int]) -> None:
        while time.perf_counter() < end:
            send()
            counts.append(1)

    for line in sys.stdin:
        wall, processor, counts = time.perf_counter(), time.process_time(), list[int]()
        threads = [threading.Thread(target=work, args=(wall + float(line), counts)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(measured(len(counts), wall, processor)), flush=True)


# -- the comparison


def contestants(against: Path | None, bare: bool) -> dict[str, tuple[str, str, Path | None]]:
    """Label: (how it is asked, library, checkout of linoto); the one that the ratios are to comes first."""
    found = {}
    for how, libraries in (("async", LIBRARIES), ("threads", LIBRARIES_WITH_THREADS)):
        if against is not None:
            found[f"{how}: linoto in {against.name}"] = (how, "linoto", against)
        found[f"{how}: linoto"] = (how, "linoto", None)
        for name in libraries:
            if bare and importlib.util.find_spec(name) is not None:
                found[f"{how}: bare {name}"] = (how, name, None)
    return found


def start(how: str, name: str, checkout: Path | None, url: str) -> subprocess.Popen[str]:
    path = os.environ.get("PYTHONPATH", "") if checkout is None else str(checkout)
    command = [sys.executable, __file__, "--play", how, name, url]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def turn(process: subprocess.Popen[str], seconds: float) -> Turn:
    process.stdin.write(f"{seconds}\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    rate, cost = json.loads(process.stdout.readline())  # type: ignore[union-attr]
    return rate, cost


def compare(
    url: str, who: dict[str, tuple[str, str, Path | None]], seconds: float, rounds: int
) -> dict[str, dict[str, float]]:
    players = {label: start(*one, url) for label, one in who.items()}
    turns: dict[str, list[Turn]] = {label: [] for label in players}
    try:
        for process in players.values():
            turn(process, 0.3)
        for _ in range(rounds):
            for label, process in players.items():
                turns[label].append(turn(process, seconds))
    finally:
        for process in players.values():
            process.kill()
            process.communicate()
    table = {}
    for label, mine in turns.items():
        first = next(turns[other] for other in turns if other.split(":")[0] == label.split(":")[0])
        table[label] = {
            "requests/s": round(statistics.median(rate for rate, _ in mine)),
            "processor us": round(statistics.median(cost for _, cost in mine)),
            "ratio": round(statistics.median(a / b for (a, _), (b, _) in zip(mine, first, strict=True)), 2),
            "processor ratio": round(
                statistics.median(b / a for (_, a), (_, b) in zip(mine, first, strict=True)), 2
            ),
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="folder of another checkout of linoto")
    parser.add_argument("--bare", action="store_true", help="also the HTTP libraries that are installed")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--service", action="store_true", help="ask the real service, which is on disk")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--play", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve_canned())
    if arguments.play:
        how, name, url = arguments.play
        asyncio.run(play_async(name, url)) if how == "async" else play_threads(name, url)
        return
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}")
    against = arguments.against and arguments.against.resolve()
    with service() if arguments.service else canned() as url:
        table = compare(url, contestants(against, arguments.bare), arguments.seconds, arguments.rounds)
    for label, row in table.items():
        numbers = "  ".join(f"{name} {value}" for name, value in row.items())
        print(f"{label:<28}{numbers}")
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
