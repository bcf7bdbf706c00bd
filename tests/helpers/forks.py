"""Servers and commands that start at once: forks of a process that has loaded everything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from linoto.service.storage.places import Address, Place

PARENT = """
import atexit, gc, json, os, sys
from importlib import import_module
from pathlib import Path

code = 0

def leave():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

atexit.register(leave)  # first, so called last: a process that ends need not clear all that was loaded
for name in sys.argv[1:]:
    import_module(name)

from litestar import Litestar
from linoto.cli import main
from linoto.core.warm_up import warm_up_loop, warm_up_usual
from linoto.service.server import run
from linoto.service.storage.places import place_of

warm_up_usual()
warm_up_loop()
Litestar()  # which imports what its plugins need
gc.freeze()  # else a child copies all of it when it looks for garbage
for line in sys.stdin:
    request = json.loads(line)
    if "child" in request:
        pid, status = os.waitpid(request["child"], os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        code = 1
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for handle, name in ((1, "out"), (2, "log")):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), handle)
        if "words" in request:
            os.chdir(request["folder"])
            os.environ.update(request["environment"])
            try:
                code = main(request["words"])
            except SystemExit as end:
                code = int(end.code or 0)
            sys.exit(code)
        logs = {"logs": Path(request["logs"])} if "logs" in request else {}
        run(place_of(request["path"]), **logs, **request["options"])
        code = 0
        sys.exit()
    print(pid, flush=True)
"""
# What commands import when they need it. None of these starts a thread, which a fork would not have.
OFTEN_NEEDED = (
    "aiohttp",
    "duckdb",
    "jinja2",
    "linoto.service.storage.postgres",
    "litestar._kwargs",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "rich.progress",
    "rich.table",
    "scipy.special",
    "uvicorn.lifespan.on",
)


class Parent:
    """The process that forks; it ends when its standard input does, with this one.

    It is in a group of its own: Ctrl-C is for who started it, who still has to end what was forked.
    """

    def __init__(self, environment: Mapping[str, str], modules: tuple[str, ...]) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        words = [sys.executable, "-c", PARENT, *OFTEN_NEEDED, *modules]
        paths = os.pathsep.join(path for path in sys.path if path)  # helpers may be among the modules
        settings = os.environ | ({"PYTHONPATH": paths} if modules else {}) | environment
        self.process = subprocess.Popen(words, env=settings, start_new_session=True, **pipes)
        self.lock = threading.Lock()

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.lock:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())


@cache
def parent(environment: tuple[tuple[str, str], ...] = (), modules: tuple[str, ...] = ()) -> Parent:
    """The one that has loaded these modules too, with these variables beside its environment."""
    return Parent(dict(environment), modules)


def text_of(path: Place) -> str:
    """What is typed to name it; what is shown of an address is not all of it."""
    return path.url if isinstance(path, Address) else str(path)


class ForkedServer:
    """A server in a process and a group of its own, as `subprocess.Popen` shows them."""

    def __init__(
        self,
        path: Place,
        *,
        log: Path,
        out: str = os.devnull,
        forked_by: Parent | None = None,
        **options: Any,
    ) -> None:
        folder = {"logs": str(options.pop("logs"))} if "logs" in options else {}
        self.parent = forked_by or parent()
        self.pid: int = self.parent.ask(path=text_of(path), log=str(log), out=out, **folder, options=options)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.parent.ask(child=self.pid)
        return self.returncode

    def wait(self, timeout: float = 240.0) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < end, f"the server is still there after {timeout:g} seconds"
            time.sleep(0.01)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class ForkedCommand(ForkedServer):
    """`linoto WORDS` in a process of its own, in this folder."""

    def __init__(
        self, words: list[str], folder: Path, environment: dict[str, str], *, log: Path, out: Path
    ) -> None:
        where = {"folder": str(folder), "environment": environment, "log": str(log), "out": str(out)}
        self.parent = parent()
        self.pid = self.parent.ask(words=words, **where)
        self.returncode = None

    def end(self) -> None:
        """Kill it where it is still there."""
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)
            self.wait()


def run_forked(words: list[str], folder: Path) -> tuple[int, str]:
    """How `linoto WORDS` ends in a process of its own, and all that it prints."""
    printed = folder / "printed"
    code = ForkedCommand(words, folder, {}, log=printed, out=printed).wait()
    return code, printed.read_text()
