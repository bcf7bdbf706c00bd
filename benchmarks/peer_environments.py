"""An environment for each peer: made once, used again, and never half-made."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PINS = Path(__file__).parent / "contestants" / "requirements"
MINUTES = 20  # for one installation; some packages compile
ADDRESS = re.compile(r"\s*\((from )?\w+://[^)]*\)|\w+://\S+")


class InstallationError(Exception):
    """A peer cannot be installed on this Python; the text says why."""


def pins_of(peer: str) -> str:
    """The pinned packages of a peer, as pip reads them."""
    file = PINS / f"{peer}.txt"
    if not file.exists():
        raise ValueError(f"peer must be one with a file in {PINS.name}/, got {peer!r}")
    return file.read_text(encoding="utf-8")


def reason_in(output: str) -> str:
    """What pip complains about, in one line and without addresses."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error)\b", line)] or lines or ["pip said nothing"]
    return re.sub(r"^(ERROR|error):\s*", "", ADDRESS.sub("", errors[0])).strip()[:160]


def call(command: list[str]) -> None:
    """Run a command of the installation, or say why it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES, check=False)
    except subprocess.TimeoutExpired:
        raise InstallationError(f"not installed within {MINUTES} minutes") from None
    if done.returncode:
        raise InstallationError(reason_in(done.stderr or done.stdout))


def install(peer: str, folder: Path) -> None:
    """Make the environment of a peer in this folder."""
    call([sys.executable, "-m", "venv", str(folder)])
    pip = [str(interpreter(folder)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    call([*pip, "--requirement", str(PINS / f"{peer}.txt")])


def interpreter(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / "bin" / "python"


def environment_of(peer: str, cache: Path, install: Callable[[str, Path], None] = install) -> Path:
    """The Python of a peer's environment, which is made if it is not there or has other pins.

    The file `ready` is written last: an environment without it is thrown away, whatever stopped its making.
    """
    folder = cache / f"{peer}-{sys.version_info.major}.{sys.version_info.minor}"
    ready, pins = folder / "ready", pins_of(peer)
    if ready.exists() and ready.read_text(encoding="utf-8") == pins:
        return interpreter(folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        install(peer, folder)
        ready.write_text(pins, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return interpreter(folder)
