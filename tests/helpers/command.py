"""A server in a process of its own, known by the line that it prints for people."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from helpers.forks import ForkedCommand, ForkedServer

LINE = r"linoto: serving (\d+) loops? of (.+) at http://127\.0\.0\.1:(\d+) \(Ctrl-C stops\)\n"


class Process:
    """A server in a process group of its own, known by the line that it prints for people."""

    process: ForkedServer | subprocess.Popen[bytes]

    def __init__(self, path: Path, **options: Any) -> None:
        self.log, out = path.with_suffix(".err"), path.with_suffix(".out")
        out.unlink(missing_ok=True)
        self.process = ForkedServer(path, log=self.log, out=str(out), port=0, **options)
        self.read_line(out)

    def read_line(self, out: Path) -> None:
        """Wait for the line, as long as the server lives."""
        self.line = ""
        while not self.line.endswith("\n") and self.process.poll() is None:
            time.sleep(0.02)
            self.line = out.read_text() if out.exists() else ""
        found = re.fullmatch(LINE, self.line)
        assert found, f"{self.line!r}: {self.log.read_text()}"
        self.loops, self.port = int(found[1]), int(found[3])

    def kill(self) -> None:
        """kill -9 of the whole group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Command(Process):
    """The same from the command line."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.log, out = folder / "err", folder / "out"
        command = [sys.executable, "-m", "linoto.cli", "serve", *words]
        with self.log.open("ab") as errors, out.open("wb") as printed:
            self.process = subprocess.Popen(
                command, stdout=printed, stderr=errors, cwd=folder, start_new_session=True
            )
        self.read_line(out)


class ForkedProcess(Process):
    """The same by its words, without the start of an interpreter."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.log, out = folder / "err", folder / "out"
        self.process = ForkedCommand(["serve", *words], folder, {}, log=self.log, out=out)
        self.read_line(out)
