"""The command line: each command parses, calls, prints, and imports what is heavy only when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 failed, 2 usage, 3 a verdict of --fail-on, 130 interrupted."""
    try:
        from linoto.cli.commands import run

        return run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # while all this was imported
        print("linoto: interrupted", file=sys.stderr)
        return 130
