"""Commands run in this process, by their exit codes."""

from __future__ import annotations

from linoto.cli import main


def run(*words: object) -> int:
    """The exit code of a command."""
    try:
        return main([str(word) for word in words])
    except SystemExit as stopped:
        return int(str(stopped.code))
