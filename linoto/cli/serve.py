"""`linoto serve`: the decision service."""

from __future__ import annotations

import argparse

from linoto.cli.database import add_database
from linoto.cli.usage import Commands, described


def port(text: str) -> int:
    """A port, 0 for any that is free."""
    value = int(text)
    if not 0 <= value < 65536:
        raise ValueError(text)
    return value


def add_serve(commands: Commands) -> None:
    """`linoto serve`."""
    serve = described(
        commands,
        "serve",
        "serve the loops of a database: decide, learn, report",
        "  linoto serve --db loops.sqlite\n  linoto serve --db loops.sqlite --host 0.0.0.0 --port 80",
    )
    add_database(serve)
    serve.add_argument("--host", default="127.0.0.1", help="address; wider than this machine needs tokens")
    serve.add_argument("--port", type=port, default=8080, help="port, 0 for any free one")
    serve.set_defaults(run=run_serve)


def run_serve(arguments: argparse.Namespace) -> int:
    """`linoto serve`."""
    from linoto.service.server import run

    run(arguments.db, host=arguments.host, port=arguments.port)
    return 0
