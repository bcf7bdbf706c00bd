"""Workers in processes of their own, who take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from time import perf_counter
from types import TracebackType
from typing import Any

WORKER = Path(__file__).parent / "contestants" / "worker.py"


class StoppedError(Exception):
    """A worker takes no further part; the text says why."""


@dataclass(frozen=True)
class Contestant:
    """One row of a table: a policy of a package."""

    package: str
    policy: str
    solves: str = ""  # where that is another problem than ours

    @property
    def name(self) -> str:
        """As the table names it."""
        return f"{self.package}: {self.policy}"

    def order(self) -> dict[str, Any]:
        """What its worker must know."""
        return {"player": f"play_{self.package}", "package": self.package, "policy": self.policy}


@dataclass(frozen=True)
class Limits:
    """What a worker may use."""

    seconds: float  # of a turn, where a turn may end early
    patience: float  # seconds for one answer
    gibibytes: float
    long: float = 10.0  # seconds: after a turn that took longer, there is no other


@dataclass
class Outcome:
    """What one contestant did in one workload: a number for each turn, or why there is none."""

    turns: list[dict[str, Any]] = field(default_factory=list)
    version: str = ""
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return {"version": self.version, "reason": self.reason, "turns": self.turns}


def surroundings(python: str) -> dict[str, str]:
    """The environment variables of a worker: a peer must not see what is put in the way of our Python."""
    own = python == sys.executable
    return {name: value for name, value in os.environ.items() if own or name != "PYTHONPATH"}


class Worker:
    """One process that answers a line of JSON with a line of JSON, within a time."""

    def __init__(self, command: Sequence[str], patience: float) -> None:
        self.patience, self.late = patience, False
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the worker)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=surroundings(command[0]),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.complaints):
            if stream is not None:
                stream.close()

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order, or StoppedError."""
        assert self.process.stdin is not None and self.process.stdout is not None
        timer = Timer(self.patience, self.give_up)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise StoppedError(self.last_words())
        answer: dict[str, Any] = json.loads(line)
        if "impossible" in answer:
            raise StoppedError(answer["impossible"])
        if "failed" in answer:
            raise StoppedError(f"failed: {answer['failed']}")
        return answer

    def give_up(self) -> None:
        """End a worker that takes too long."""
        self.late = True
        self.process.kill()

    def last_words(self) -> str:
        """Why a worker ended."""
        if self.late:
            return f"over {self.patience:g} s"
        code = self.process.wait()
        self.complaints.seek(0)
        lines = self.complaints.read().strip().splitlines() or ["it said nothing"]
        return f"failed: ended with code {code}: {lines[-1][:160]}"


def take_turns(
    contestants: Sequence[Contestant],
    commands: Mapping[str, Sequence[str]],  # of the worker of each package
    task: Mapping[str, Any],  # "workload" and "problem"
    *,
    limits: Limits,
    turns: int,
    tell: Callable[[str], None] = print,
) -> dict[str, Outcome]:
    """Start a worker for each contestant, then let all of them take one turn after the other."""
    outcomes = {contestant.name: Outcome() for contestant in contestants}
    share = {"seconds": limits.seconds, "gibibytes": limits.gibibytes}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}

        def ask(name: str, order: dict[str, Any]) -> dict[str, Any] | None:
            try:
                return workers[name].ask(order)
            except StoppedError as reason:
                outcomes[name].reason = str(reason)
                workers.pop(name).process.kill()
                tell(f"  {name}: {reason}")
                return None

        for contestant in contestants:
            name = contestant.name
            workers[name] = stack.enter_context(Worker(commands[contestant.package], limits.patience))
            if ready := ask(name, {**contestant.order(), **task, **share}):
                outcomes[name].version = ready["version"]
        for number in range(turns):
            for name in list(workers):
                start = perf_counter()
                if taken := ask(name, {"turn": number}):
                    outcomes[name].turns.append(taken)
                    if perf_counter() - start > limits.long:
                        workers.pop(name)
    return outcomes
