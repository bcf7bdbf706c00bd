"""Runs the code of a Markdown page as a reader would: in order, in one empty folder.

`python` blocks share one namespace. In `console` blocks a line after `$ ` is a command (`> ` continues it),
and the lines below it are its output, where `...` stands for anything; a command that ends in ` &` stays
until the end of the page. An `output` block is what the Python block above it printed, and a block with a
title is a file. `<!-- not run: REASON -->` above a block says why it is not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.forks import ForkedCommand
from helpers.service_process import free_port

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w*)(?P<title> title=\"[^\"]+\")?\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (?P<line>.*(?:\n> .*)*)\n?(?P<output>(?:(?!\$ ).*\n?)*)", re.MULTILINE)
LANGUAGES = {"python", "console", "output", "text", "json", "toml"}
PLAIN = re.compile(r"linoto [^|&;<>$`*?~]+")
SHOWN = {"COLUMNS": "80", "NO_COLOR": "1"}
PORT = "8080"  # of the pages; each page is run with a free one


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    code: str
    file: str | None  # the file that it shows
    reason: str | None  # why it is not run

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each command of a console block, with its output."""
        return [
            (found["line"].replace("\n> ", "\n"), found["output"]) for found in COMMAND.finditer(self.code)
        ]


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            language=found["language"],
            code=re.sub(rf"^{found['indent']}", "", found["code"], flags=re.MULTILINE),
            file=found["title"] and found["title"].split('"')[1],
            reason=found["reason"],
        )
        for found in FENCE.finditer(text)
    ]


def check_output(shown: str, printed: str, what: str) -> None:
    """Compare what a page shows with what was printed; `...` stands for anything."""
    pattern = re.escape(tidy(shown)).replace(r"\.\.\.", ".*?")
    assert re.fullmatch(pattern, tidy(printed), re.DOTALL), f"{what} printed:\n{printed}"


def tidy(text: str) -> str:
    """Without spaces at the ends of lines and empty lines around; every space is a plain one."""
    return "\n".join(line.rstrip() for line in text.replace("\u00a0", " ").strip().splitlines())


@dataclass
class Reader:
    """Somebody who types in a page, block by block."""

    folder: Path
    port: str = field(default_factory=lambda: str(free_port()))
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    servers: list[ForkedCommand] = field(default_factory=list)

    def read(self, block: Block) -> None:
        """Do what one block asks for."""
        if block.file:
            (self.folder / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            self.run_python(block.code.replace(PORT, self.port))
        elif block.language == "output":
            check_output(block.code, self.printed, "the Python block")
        elif block.language == "console":
            for line, output in block.commands:
                self.run_command(line.replace(PORT, self.port), output.replace(PORT, self.port))

    def run_python(self, code: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "<page>", "exec"), self.names)
        self.printed = printed.getvalue()

    def run_command(self, line: str, output: str) -> None:
        if line.startswith("curl ") and shutil.which("curl") is None:
            return  # the only program here that a machine with Python and bash may lack
        if line.endswith(" &"):
            self.start_server(line.removesuffix(" &"), output)
            return
        code, printed, errors = self.run_linoto(line) if PLAIN.fullmatch(line) else self.run_shell(line)
        assert code == 0, f"{line} exited with {code}:\n{printed}{errors}"
        if output.strip():
            check_output(output, printed, line)

    def run_shell(self, line: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def run_linoto(self, line: str) -> tuple[int, str, str]:
        """A command of ours without anything that only a shell does, forked: it starts at once."""
        out, errors = self.folder / ".out", self.folder / ".errors"
        for file in (out, errors):
            file.write_text("")
        code = ForkedCommand(words_of(line), self.folder, SHOWN, log=errors, out=out).wait(280)
        return code, out.read_text(), errors.read_text()

    def start_server(self, line: str, output: str) -> None:
        """Start what stays, and wait for the lines that the page shows."""
        if "--port" not in line:
            line += f" --port {self.port}"
        assert PLAIN.fullmatch(line), f"{line} must be a command of ours"
        printed = self.folder / f".server-{len(self.servers)}"
        printed.touch()
        server = ForkedCommand(words_of(line), self.folder, SHOWN, log=printed, out=printed)
        self.servers.append(server)
        shown = tidy(output).splitlines()[-1]
        for _ in range(1200):
            if shown in printed.read_text() or server.poll() is not None:
                break
            time.sleep(0.1)
        assert shown in printed.read_text(), f"{line} printed:\n{printed.read_text()}"

    def leave(self) -> None:
        """End what was started."""
        self.names.clear()
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            server.wait()


def words_of(line: str) -> list[str]:
    """What follows `linoto` in a line, its continuations and without its comment."""
    return shlex.split(line.replace("\\\n", " "), comments=True)[1:]


def environment() -> dict[str, str]:
    """The commands of this Python first, and tables 80 columns wide."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **SHOWN}


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """A reader who starts in this folder, and leaves nothing running."""
    before, known = Path.cwd(), set(sys.modules)
    reader = Reader(folder)
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # the files of a page can be imported, as where a script lies
    try:
        yield reader
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
                del sys.modules[name]
        reader.leave()
