"""`linoto serve`: the decision service."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

from linoto.cli.database_option import DATABASE, place, service_needed
from linoto.cli.settings import add_settings, read_secret, read_settings, shown, unknown_variables
from linoto.cli.terminal import above_zero, positive
from linoto.cli.usage import Commands, Parser, described

DEMO = Path("linoto-demo.sqlite")
TIMES = (
    ("head", 10.0, "for the first line and the headers of a request"),
    ("body", 30.0, "for the body of a request, and one more for each 64 KiB"),
    ("idle", 75.0, "between two requests of a connection"),
    ("drain", 10.0, "for requests under way when the service is told to stop; a second signal stops at once"),
)


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
        "  linoto serve --demo\n  linoto serve --db loops.sqlite --logs logs\n"
        "  linoto serve --db loops.sqlite --host 0.0.0.0 --port 80",
    )
    serve.add_argument(
        "--db",
        type=place,
        help=f"database: a file, or postgresql://USER@HOST/NAME (default: {DATABASE}, or {DEMO} with --demo)",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address; wider than this machine needs tokens")
    serve.add_argument("--port", type=port, default=8080, help="port, 0 for any free one")
    serve.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="folder that new loops may read their logs from"
    )
    serve.add_argument(
        "--demo", action="store_true", help="make three loops that book flights, and simulate their traffic"
    )
    serve.add_argument(
        "--log-format",
        choices=("auto", "text", "json"),
        default="auto",
        help="of what is logged to stderr; auto is text on a terminal and JSON elsewhere",
    )
    serve.add_argument("--access-log", action="store_true", help="log every request, and show their times")
    serve.add_argument(
        "--traces", action="store_true", help="trace every request with OpenTelemetry (extra: traces)"
    )
    serve.add_argument(
        "--rate", type=above_zero, help="requests per second of each caller (default: unlimited)"
    )
    add_webhook(serve)
    serve.add_argument(
        "--accept-clock",
        action="store_true",
        help="start although by the clock every open decision of a loop is over",
    )
    add_backups(serve)
    serve.add_argument(
        "--tls-cert", type=Path, metavar="FILE", help="certificate chain in PEM; SIGHUP reads it again"
    )
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="the key of the certificate")
    serve.add_argument(
        "--advertise",
        metavar="URL",
        help="where other servers of the same PostgreSQL database reach this one (default: host and port)",
    )
    serve.add_argument(
        "--connections", type=positive, default=1000, help="connections at once; more are answered 503"
    )
    for name, seconds, what in TIMES:
        serve.add_argument(f"--{name}", type=above_zero, default=seconds, metavar="SECONDS", help=what)
    add_settings(serve)
    serve.set_defaults(run=run_serve)


def add_webhook(serve: Parser) -> None:
    """The options about where alarms go."""
    serve.add_argument(
        "--webhook",
        metavar="URL",
        help="where alarms are posted, signed with the secret in LINOTO_WEBHOOK_SECRET",
    )
    serve.add_argument(
        "--webhook-secret-file",
        type=Path,
        metavar="FILE",
        help="file with that secret, in place of the environment",
    )


def add_backups(serve: Parser) -> None:
    """Copies of the database, made while it is served."""
    serve.add_argument(
        "--backups", type=Path, metavar="FOLDER", help="where backups are written while it runs"
    )
    serve.add_argument(
        "--backup-every", type=above_zero, metavar="SECONDS", help="time between two of these backups"
    )
    serve.add_argument("--backups-kept", type=positive, default=7, help="how many of them are kept")


def run_serve(arguments: argparse.Namespace) -> None:
    """`linoto serve`."""
    settings = read_settings(arguments, os.environ)
    ignored = unknown_variables(arguments, os.environ)
    if arguments.show_config:
        print("\n".join([*shown(settings), *(f"# {each}" for each in ignored)]))
        return
    from linoto.service.sockets import open_socket

    chosen = {name: setting.value for name, setting in settings.items()}
    if not os.isatty(0):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # to read files again is nothing to end for, also now
    listening = open_socket(chosen.pop("host"), chosen.pop("port"), os.environ)  # what follows takes seconds
    with service_needed():
        from linoto.service.server import run
        from linoto.service.web.limits import Limits

    limits = Limits(**{name: chosen.pop(name) for name in ("connections", "head", "body", "idle")})
    path = chosen.pop("db") or (DEMO if chosen["demo"] else DATABASE)
    secret = chosen.pop("webhook_secret_file")
    if secret is not None:
        chosen["webhook_secret"] = read_secret(secret, "--webhook-secret-file")
    run(path, limits=limits, listening=listening, warnings=tuple(ignored), **chosen)
