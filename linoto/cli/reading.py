"""How the files of a log are read: what `linoto audit` and `linoto evaluate` share."""

from __future__ import annotations

import argparse
from typing import Any


def add_reading_options(command: Any) -> None:
    """Which rows, and how numbers are written."""
    command.add_argument(
        "--where",
        metavar="ROWS",
        help="rows of LOG to read, as in \"month >= 6 and country = 'NO'\" (default: all)",
    )
    command.add_argument("--decimal", choices=(".", ","), help="mark before decimals in text (default: .)")
    command.add_argument(
        "--thousands",
        choices=(".", ",", " ", "'", "_"),
        help="mark between thousands in text (default: none)",
    )


def notation_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The marks in numbers, as `read_log` takes them."""
    return {"decimal": arguments.decimal or ".", "thousands": arguments.thousands}
