"""A server in a process of its own, known by the line that it prints for people."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

LINE = r"linoto: serving (\d+) loops? of (.+) at http://127\.0\.0\.1:(\d+) \(Ctrl-C stops\)\n"
CODE = """
import json, sys
from pathlib import Path
from linoto.service.server import run
path, options = json.loads(sys.argv[1])
run(Path(path), **{name: Path(value) if name == "logs" else value for name, value in options.items()})
"""


class Process:
    """A server in a process group of its own, known by the line that it prints for people."""

    def __init__(self, path: Path, **options: Any) -> None:
        options = {name: str(o) if isinstance(o, Path) else o for name, o in options.items()}
        arguments = json.dumps([str(path), {"port": 0, **options}])
        self.start([sys.executable, "-c", CODE, arguments], path.with_suffix(".err"), path.parent)

    def start(self, command: list[str], log: Path, folder: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, text=True, start_new_session=True
            )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        found = re.fullmatch(LINE, self.line)
        assert found, f"{self.line!r}: {log.read_text()}"
        self.loops, self.port = int(found[1]), int(found[3])

    def kill(self) -> None:
        """kill -9 of the whole group."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Command(Process):
    """The same from the command line."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.start([sys.executable, "-m", "linoto.cli", "serve", *words], folder / "err", folder)
