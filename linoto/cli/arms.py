"""`linoto arms`: the arms of a loop that is being served, and how they come and go."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from linoto.cli.terminal import argument_type, numbers, positive, print_table
from linoto.cli.usage import Commands, add_json, described

if TYPE_CHECKING:
    from linoto.client import Client

URL = "http://127.0.0.1:8080"
TOKEN = "LINOTO_TOKEN"  # an environment variable: an option would be seen by every user of the machine
EXAMPLES = """\
  linoto arms list banner
  linoto arms add banner violet orange
  linoto arms add banner violet --features 0.2,0.9 --url http://10.0.0.5:8080
  linoto arms remove banner red --fallback blue"""
features = argument_type("numbers with commas between them", numbers, bool)


def add_arms(commands: Commands) -> None:
    """`linoto arms`."""
    arms = described(
        commands, "arms", "list, add and remove the arms of a loop that is being served", EXAMPLES
    )
    actions = arms.add_subparsers(title="actions", required=True, metavar="ACTION")
    listed = described(actions, "list", "the arms with their plays and intervals")
    add = described(actions, "add", "arms that can be played from the next decision on")
    remove = described(
        actions, "remove", "arms that are not played again; what was played of them still counts"
    )
    for parser, run in ((listed, run_list), (add, run_add), (remove, run_remove)):
        parser.add_argument("loop", help="name of the loop")
        parser.add_argument("--url", default=URL, help=f"of the service; a token is read from {TOKEN}")
        add_json(parser)
        parser.set_defaults(run=run, refuse=parser.error)
    listed.add_argument(
        "--limit", type=positive, help="how many at most, the most played first, removed ones last"
    )
    for parser in (add, remove):
        parser.add_argument("arms", nargs="+", metavar="ARM", help="name of an arm")
    add.add_argument(
        "--features",
        type=features,
        action="append",
        default=[],
        metavar="X,X,...",
        help="of an arm, where the arms of the loop have some; once for each arm, in their order",
    )
    remove.add_argument("--fallback", metavar="ARM", help="in place of a fixed fallback that is removed")


@contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client of the service."""
    from linoto.client import Client

    with Client(arguments.url, token=os.environ.get(TOKEN) or None, retries=2) as client:
        yield client


def run_list(arguments: argparse.Namespace) -> None:
    """`linoto arms list`."""
    with connected(arguments) as client:
        found = client.arms(arguments.loop, limit=arguments.limit)
    if arguments.json:
        print(json.dumps(found))
    elif found:
        print_table([row_of(arm) for arm in found])


def row_of(arm: dict[str, Any]) -> dict[str, str]:
    """An arm, for people."""
    from linoto.core.hints import amount

    known = arm["lcb"] is not None and arm["ucb"] is not None
    return {
        "arm": arm["name"],
        "logged": "–" if arm["logged"] is None else f"{arm['logged']:,}",
        "plays": f"{arm['plays']:,}",
        "interval of its mean": f"[{amount(arm['lcb'])}, {amount(arm['ucb'])}]" if known else "–",
        "": "" if arm["present"] else "removed",
    }


def run_add(arguments: argparse.Namespace) -> None:
    """`linoto arms add`."""
    names, given = arguments.arms, arguments.features
    if given and len(given) != len(names):
        arguments.refuse(f"--features must be given once for each of {len(names)} arms, got {len(given)}")
    with connected(arguments) as client:
        arms = dict(zip(names, given, strict=True)) if given else names
        tell(arguments, client.add_arms(arguments.loop, arms), "added", names)


def run_remove(arguments: argparse.Namespace) -> None:
    """`linoto arms remove`."""
    with connected(arguments) as client:
        found = client.remove_arms(arguments.loop, arguments.arms, fallback=arguments.fallback)
    tell(arguments, found, "removed", arguments.arms)


def tell(arguments: argparse.Namespace, view: dict[str, Any], done: str, names: Sequence[str]) -> None:
    """What was done, and what it did to the promise."""
    if arguments.json:
        print(json.dumps(view))
        return
    print(f"{done} {', '.join(names)}: loop {arguments.loop!r} has {view['arms']:,} arms")
    for change in view["arm_changes"][-1:]:
        print(change["text"])
