"""`linoto token` and `linoto db`: what can be done to the database of the service, served or not."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linoto.cli.terminal import above_zero, at_least_zero, print_facts
from linoto.cli.usage import Commands, described

DATABASE = Path("loops.sqlite")
PRUNE_EXAMPLES = "  linoto db prune --days 90 --dry-run\n  linoto db prune --days 90"


@contextmanager
def service_needed() -> Iterator[None]:
    """Say which extra is missing where the service cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'the service needs {error.name}: pip install "linoto[service]"') from None


def add_database(parser: Any) -> None:
    """The option that every command of the service has."""
    parser.add_argument("--db", type=Path, default=DATABASE, help="database file")


def add_token(commands: Commands) -> None:
    """`linoto token`."""
    token = described(
        commands,
        "token",
        "make, list and revoke the tokens of the service",
        "  linoto token create shop --role writer --rate 50\n  linoto token list\n  linoto token revoke shop",
    )
    actions = token.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = described(actions, "create", "make a token and print it, once")
    create.add_argument("name", help="whose token it is")
    create.add_argument(
        "--role", choices=("reader", "writer", "admin"), default="writer", help="what it may do"
    )
    create.add_argument(
        "--rate", type=above_zero, help="requests per second it may make (default: the server's)"
    )
    revoke = described(actions, "revoke", "make a token worthless, within a second")
    revoke.add_argument("name", help="whose token it was")
    listed = described(actions, "list", "who has a token, and for what")
    for parser, run in ((create, run_create_token), (revoke, run_revoke_token), (listed, run_list_tokens)):
        add_database(parser)
        parser.set_defaults(run=run)


def run_create_token(arguments: argparse.Namespace) -> None:
    """`linoto token create`."""
    from linoto.service.storage.database import open_database
    from linoto.service.web.access import create_token

    with open_database(arguments.db, create=True) as connection:
        print(create_token(connection, arguments.name, arguments.role, time.time(), arguments.rate))


def run_revoke_token(arguments: argparse.Namespace) -> None:
    """`linoto token revoke`."""
    from linoto.service.storage import tokens
    from linoto.service.storage.database import open_database

    with open_database(arguments.db) as connection:
        if not tokens.revoke_token(connection, arguments.name, time.time()):
            raise ValueError(f"there is no token {arguments.name!r}")
    print(f"revoked {arguments.name}")


def run_list_tokens(arguments: argparse.Namespace) -> None:
    """`linoto token list`."""
    from linoto.service.storage import tokens
    from linoto.service.storage.database import open_database

    with open_database(arguments.db) as connection:
        found = tokens.all_tokens(connection)
    rates = {rate: "" if rate is None else f"  (at most {rate:g} per second)" for *_, rate in found}
    print_facts([(role, name + rates[rate]) for name, role, _, _, rate in found])


def add_db(commands: Commands) -> None:
    """`linoto db`."""
    db = described(
        commands,
        "db",
        "back up, restore, check, prune and renew the database of the service",
        "  linoto db backup copy.sqlite\n  linoto db check\n  linoto db prune --days 90",
    )
    actions = db.add_subparsers(title="actions", required=True, metavar="ACTION")
    backup = described(actions, "backup", "copy the database while it is served")
    backup.add_argument("out", type=Path, help="file to write; must not exist")
    restore = described(actions, "restore", "put a backup in the place of a database that is gone")
    restore.add_argument("copy", type=Path, help="file that `linoto db backup` wrote")
    check = described(actions, "check", "check file and tables, and replay every loop from its first event")
    rebuild = described(
        actions, "rebuild", "replay every loop and renew its snapshot; not while it is served"
    )
    migrate = described(actions, "migrate", "bring an older database up to date; not while it is served")
    prune = described(
        actions,
        "prune",
        "delete what was closed long ago, also while it is served",
        PRUNE_EXAMPLES,
    )
    add_prune_options(prune)
    runs = ((backup, run_backup), (check, run_check), (rebuild, run_rebuild), (migrate, run_migrate))
    for parser, run in (*runs, (restore, run_restore), (prune, run_prune)):
        add_database(parser)
        parser.set_defaults(run=run)


def add_prune_options(prune: Any) -> None:
    """What goes, and whether it really does."""
    prune.add_argument(
        "--days", type=at_least_zero, required=True, help="keep decisions closed in the last so many days"
    )
    prune.add_argument("--loop", metavar="NAME", help="only of this loop (default: of each)")
    how = prune.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only say what would go")
    how.add_argument(
        "--shrink", action="store_true", help="make the file smaller too; not while it is served"
    )


def run_backup(arguments: argparse.Namespace) -> None:
    """`linoto db backup`."""
    from linoto.service.maintenance import backup

    backup(arguments.db, arguments.out)
    print(f"wrote {arguments.out}")


def run_restore(arguments: argparse.Namespace) -> None:
    """`linoto db restore`."""
    from linoto.service.maintenance import restore

    print(restore(arguments.copy, arguments.db))


def run_check(arguments: argparse.Namespace) -> None:
    """`linoto db check`."""
    from linoto.service.maintenance import check

    for line in check(arguments.db):
        print(line)


def run_rebuild(arguments: argparse.Namespace) -> None:
    """`linoto db rebuild`."""
    from linoto.service.maintenance import rebuild

    for line in rebuild(arguments.db):
        print(line)


def run_migrate(arguments: argparse.Namespace) -> None:
    """`linoto db migrate`."""
    from linoto.service.maintenance import migrate

    print(migrate(arguments.db))


def run_prune(arguments: argparse.Namespace) -> None:
    """`linoto db prune`."""
    from linoto.service.retention import prune, prune_and_shrink

    now = time.time()
    before = now - 86400 * arguments.days
    if arguments.shrink:
        lines = prune_and_shrink(arguments.db, before=before, now=now, loop=arguments.loop)
    else:
        lines = prune(arguments.db, before=before, now=now, loop=arguments.loop, dry_run=arguments.dry_run)
    for line in lines:
        print(line)
