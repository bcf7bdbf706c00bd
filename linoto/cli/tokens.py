"""`linoto db token`: who may use the service, and for what."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from linoto.cli.database_option import add_database
from linoto.cli.terminal import above_zero, at_least_zero, print_facts
from linoto.cli.usage import Commands, add_json, described

EXAMPLES = """  linoto db token create shop --role writer --rate 50
  linoto db token list
  linoto db token revoke shop"""


def add_token(commands: Commands) -> None:
    """`linoto db token`."""
    token = described(
        commands,
        "token",
        "make, list and revoke the tokens of the service",
        EXAMPLES,
    )
    actions = token.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = described(actions, "create", "make a token and print it, once")
    create.add_argument("name", help="whose token it is")
    create.add_argument(
        "--role", choices=("viewer", "reader", "writer", "admin"), default="writer", help="what it may do"
    )
    create.add_argument(
        "--rate", type=above_zero, help="requests per second it may make (default: the server's)"
    )
    create.add_argument("--days", type=above_zero, help="days until it expires (default: never)")
    create.add_argument(
        "--loop", action="append", metavar="NAME", help="only for this loop; may be repeated (default: all)"
    )
    revoke = described(actions, "revoke", "make a token worthless, within a second")
    revoke.add_argument("name", help="whose token it was")
    rotate = described(actions, "rotate", "make another token of a name and print it, once")
    rotate.add_argument("name", help="whose token it is")
    rotate.add_argument(
        "--overlap",
        type=at_least_zero,
        default=3600.0,
        metavar="SECONDS",
        help="how long the old one is valid",
    )
    listed = described(actions, "list", "who has a token, and for what")
    runs = ((create, run_create_token), (rotate, run_rotate_token), (revoke, run_revoke_token))
    for parser, run in (*runs, (listed, run_list_tokens)):
        add_database(parser)
        add_json(parser)
        parser.set_defaults(run=run)


def run_create_token(arguments: argparse.Namespace) -> None:
    """`linoto db token create`."""
    from linoto.service.storage.database import open_database
    from linoto.service.web.access import create_token

    now, a = time.time(), arguments
    expires_at = None if a.days is None else now + 86400 * a.days
    with open_database(a.db, create=True) as connection:
        token = create_token(connection, a.name, a.role, now, a.rate, expires_at=expires_at, loops=a.loop)
    said = {"name": a.name, "role": a.role, "token": token, "expires_at": expires_at, "loops": a.loop}
    print(json.dumps(said) if a.json else token)


def run_rotate_token(arguments: argparse.Namespace) -> None:
    """`linoto db token rotate`."""
    from linoto.service.storage.database import open_database
    from linoto.service.web.access import rotate_token

    with open_database(arguments.db) as connection:
        connection.add_tables()
        connection.begin()
        token = rotate_token(connection, arguments.name, time.time(), arguments.overlap)
        connection.commit()
    said = {"name": arguments.name, "token": token, "overlap": arguments.overlap}
    print(json.dumps(said) if arguments.json else token)


def run_revoke_token(arguments: argparse.Namespace) -> None:
    """`linoto db token revoke`."""
    from linoto.service.storage import tokens
    from linoto.service.storage.database import open_database

    with open_database(arguments.db) as connection:
        if not tokens.revoke_token(connection, arguments.name, time.time()):
            raise ValueError(f"there is no token {arguments.name!r}")
    print(json.dumps({"revoked": arguments.name}) if arguments.json else f"revoked {arguments.name}")


def run_list_tokens(arguments: argparse.Namespace) -> None:
    """`linoto db token list`."""
    from linoto.service.storage import tokens
    from linoto.service.storage.database import open_database

    with open_database(arguments.db) as connection:
        connection.add_tables()
        found = [token_facts(row) for row in tokens.all_tokens(connection)]
    if arguments.json:
        print(json.dumps(found))
        return
    now = time.time()
    print_facts([(facts["role"], facts["name"] + token_limits(facts, now)) for facts in found])


def token_facts(row: Any) -> dict[str, Any]:
    """A token as JSON, without its digest."""
    name, role, _, created_at, rate, expires_at, loops = row
    found = {"name": name, "role": role, "created_at": created_at, "rate": rate, "expires_at": expires_at}
    return {**found, "loops": None if loops is None else json.loads(loops)}


def token_limits(facts: dict[str, Any], now: float) -> str:
    """What a token is limited to, in brackets; nothing where it is not."""
    limits = []
    if facts["rate"] is not None:
        limits.append(f"at most {facts['rate']:g} per second")
    if facts["loops"] is not None:
        limits.append(f"only {', '.join(facts['loops'])}")
    if facts["expires_at"] is not None:
        left = (facts["expires_at"] - now) / 86400
        limits.append(f"expires in {left:.1f} days" if left > 0 else "expired")
    return f"  ({'; '.join(limits)})" if limits else ""
