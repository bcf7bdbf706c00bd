"""`linoto db`: what can be done to the database of the service, served or not."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from linoto.cli.database_option import DATABASE, add_database, place
from linoto.cli.terminal import at_least_zero, file_to_write
from linoto.cli.tokens import add_token
from linoto.cli.usage import Commands, Parser, add_json, described

RESTORED = "next: `{serve}`, then set the mode of each loop, on its page or with PATCH /v1/loops/NAME"
DB_EXAMPLES = "  linoto db token create shop\n  linoto db backup copy.sqlite\n  linoto db check"
FORGET_EXAMPLES = "  linoto db forget --context visitor=4711"
PRUNE_EXAMPLES = "  linoto db prune --days 90 --dry-run\n  linoto db prune --days 90"


def add_db(commands: Commands) -> None:
    """`linoto db`."""
    db = described(
        commands,
        "db",
        "tokens of the service; back up, restore, check, prune, forget in and renew its database",
        DB_EXAMPLES,
    )
    actions = db.add_subparsers(title="actions", required=True, metavar="ACTION")
    backup = described(actions, "backup", "copy the database while it is served")
    backup.add_argument("out", type=file_to_write, help="file to write; must not exist")
    restore = described(actions, "restore", "put a backup in the place of a database that is gone")
    restore.add_argument(
        "copy", type=Path, nargs="?", help="file that `linoto db backup` wrote; none after pg_restore"
    )
    restore.add_argument(
        "--keep-tokens", action="store_true", help="keep the tokens of the backup, revoked since or not"
    )
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
    add_copy(actions)
    add_token(actions)
    forget = described(
        actions, "forget", "erase who asked for decisions; not while it is served", FORGET_EXAMPLES
    )
    forget.add_argument(
        "--context",
        metavar="FIELD=VALUE",
        action="append",
        required=True,
        help="decisions that were asked for with this; may be given again, then all must hold",
    )
    forget.add_argument("--loop", metavar="NAME", help="only of this loop (default: of each)")
    runs = ((backup, run_backup), (check, run_check), (rebuild, run_rebuild), (migrate, run_migrate))
    for parser, run in (*runs, (restore, run_restore), (prune, run_prune), (forget, run_forget)):
        add_database(parser)
        add_json(parser)
        parser.set_defaults(run=run)


def add_copy(actions: Commands) -> None:
    """`linoto db copy`."""
    copy = described(
        actions,
        "copy",
        "copy a database to another engine or file; not while it is served",
        "  linoto db copy loops.sqlite postgresql://linoto@db.example/loops",
    )
    copy.add_argument("source", type=place, help="database to read: a file, or postgresql://USER@HOST/NAME")
    copy.add_argument("db", type=place, metavar="target", help="where there is none yet")
    add_json(copy)
    copy.set_defaults(run=run_copy)


def run_copy(arguments: argparse.Namespace) -> None:
    """`linoto db copy`."""
    from linoto.service.copying import copy

    print_lines(copy(arguments.source, arguments.db), arguments)


def add_prune_options(prune: Parser) -> None:
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
    print_lines([f"wrote {arguments.out}"], arguments)


def run_restore(arguments: argparse.Namespace) -> None:
    """`linoto db restore`."""
    from linoto.service.maintenance import restore, restored_elsewhere

    if isinstance(arguments.db, Path) != isinstance(arguments.copy, Path):
        raise ValueError(
            "restore must have the file of a backup for a file, and none for a PostgreSQL server, where "
            "pg_restore comes first"
        )
    if arguments.copy is None:
        lines = restored_elsewhere(arguments.db, keep_tokens=arguments.keep_tokens)
    else:
        lines = restore(arguments.copy, arguments.db, keep_tokens=arguments.keep_tokens)
    other = [] if arguments.db == DATABASE else ["--db", str(arguments.db)]
    next_step = RESTORED.format(serve=shlex.join(["linoto", "serve", *other]))
    print_lines([*lines, next_step], arguments)


def run_check(arguments: argparse.Namespace) -> None:
    """`linoto db check`."""
    from linoto.service.maintenance import check

    print_lines(check(arguments.db), arguments)


def run_rebuild(arguments: argparse.Namespace) -> None:
    """`linoto db rebuild`."""
    from linoto.service.maintenance import rebuild

    print_lines(rebuild(arguments.db), arguments)


def run_migrate(arguments: argparse.Namespace) -> None:
    """`linoto db migrate`."""
    from linoto.service.maintenance import migrate

    print_lines([migrate(arguments.db)], arguments)


def run_prune(arguments: argparse.Namespace) -> None:
    """`linoto db prune`."""
    from linoto.service.retention import prune, prune_and_shrink

    now = time.time()
    before = now - 86400 * arguments.days
    if arguments.shrink:
        lines = prune_and_shrink(arguments.db, before=before, now=now, loop=arguments.loop)
    else:
        lines = prune(arguments.db, before=before, now=now, loop=arguments.loop, dry_run=arguments.dry_run)
    print_lines(lines, arguments)


def run_forget(arguments: argparse.Namespace) -> None:
    """`linoto db forget`."""
    from linoto.service.forgetting import forget

    wanted = {}
    for given in arguments.context:
        field, equals, value = given.partition("=")
        if not field or not equals:
            raise ValueError(f"--context must be FIELD=VALUE, got {given!r}")
        wanted[field] = value
    left = list[int]()

    def told() -> Iterator[str]:
        left.append((yield from forget(arguments.db, wanted, loop=arguments.loop)))

    print_lines(told(), arguments)
    if any(left):
        raise ValueError(f"{left[0]} decisions still hold it until they are closed: forget again then")


def print_lines(lines: Iterable[str], arguments: argparse.Namespace) -> None:
    """What was done: a line each as it happens, or a JSON object with all of them at the end."""
    if arguments.json:
        said = list[str]()
        try:
            said.extend(lines)
        finally:
            if said:  # also of what has failed
                print(json.dumps({"db": str(arguments.db), "lines": said}))
        return
    for line in lines:
        print(line)
