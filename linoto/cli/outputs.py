"""What both audits share: what they are told of rewards, what they write, and how they end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from linoto.cli.log_and_policy import noise
from linoto.cli.terminal import above_zero, at_least_zero, file_to_write, number, positive, print_facts
from linoto.cli.usage import Parser, shown

FAILING = ("deploy with arm effects", "not yet", "do not trust")  # verdicts that can fail, the worst last
FAILED = 3  # the exit code then
HORIZON = 5000  # core.verdicts.HORIZON, without its imports
Found = TypeVar("Found")


class Saved(Protocol):
    """What an audit keeps."""

    def save(self, path: str | Path) -> Path: ...


def add_allowance(command: Parser, usual: str) -> None:
    """How much may be lost."""
    command.add_argument("--budget", type=at_least_zero, help="the most that may be lost in all")
    command.add_argument(
        "--epsilon",
        type=at_least_zero,
        help=f"the most that may be lost per round (default without --budget: {usual})",
    )


def add_horizon(command: Parser) -> None:
    """Over how many rounds a promise is judged: the same for every verdict."""
    command.add_argument(
        "--horizon", type=positive, default=HORIZON, help="rounds to come, over which a promise is judged"
    )


def horizon_again(arguments: argparse.Namespace) -> list[str]:
    """The horizon as it would be typed again, if it is not the usual one."""
    return [] if arguments.horizon == HORIZON else ["--horizon", str(arguments.horizon)]


def add_assumed(command: Parser) -> None:
    """What is known of rewards."""
    command.add_argument("--noise", type=noise, help="scale of a reward, or bounded (default: from the log)")
    command.add_argument("--bound", type=above_zero, help="of the parameter (default: from the log)")
    command.add_argument(
        "--reward-range", type=number, nargs=2, metavar=("LO", "HI"), help="where average rewards lie"
    )


def add_outputs(command: Parser, failing: Sequence[str] = FAILING) -> None:
    """What is written, and what is a failure."""
    command.add_argument("--out", type=file_to_write, metavar="PAGE.html", help="write a page with pictures")
    command.add_argument(
        "--save", type=file_to_write, metavar="STATS.npz", help="write what linoto.load reads"
    )
    command.add_argument(
        "--fail-on",
        choices=[verdict.replace(" ", "-") for verdict in failing],
        help="exit with 3 if the verdict is this, or worse: for scripts",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def limits_of(arguments: argparse.Namespace) -> tuple[float, float] | None:
    """The range of rewards, if it was given."""
    return None if arguments.reward_range is None else tuple(arguments.reward_range)


def check_first(arguments: argparse.Namespace, read: Sequence[str]) -> None:
    """Refuse what can be refused before the log is read; `read` are the files that are."""
    limits = limits_of(arguments)
    if limits is not None and not limits[0] < limits[1]:
        arguments.refuse(
            f"--reward-range must be LO HI with LO < HI, got {shown(limits[0])} {shown(limits[1])}"
        )
    if arguments.noise == "bounded" and limits is None:
        arguments.refuse("--noise bounded needs --reward-range LO HI")
    check_outputs(arguments, read)
    if arguments.out is not None:
        from linoto.pages.shell import check_installed

        check_installed()


def check_outputs(arguments: argparse.Namespace, read: Sequence[str]) -> None:
    """Refuse to write over what is read, or one file over the other."""
    from linoto.logs.tables import find_files

    taken = {path.resolve(): f"{path}, which is read" for path in find_files(list(read))}
    for option in ("out", "save"):
        path: Path | None = getattr(arguments, option)
        if path is None:
            continue
        for other, what in taken.items():
            if path.resolve() == other or (path.exists() and other.exists() and path.samefile(other)):
                arguments.refuse(f"--{option} must be another file than {what}")
        if not path.parent.is_dir():
            arguments.refuse(f"--{option} must be in a folder that is there: there is no {path.parent}")
        taken[path.resolve()] = f"--{option}"


def with_known_columns(make: Callable[[argparse.Namespace], Found], arguments: argparse.Namespace) -> Found:
    """What is made of a log; a wrong column name is a matter of usage."""
    from linoto.logs.values import UnknownColumn

    try:
        return make(arguments)
    except UnknownColumn as error:
        arguments.refuse(str(error))
        raise


def save(saved: Callable[[str], Saved], arguments: argparse.Namespace) -> list[Path]:
    """The statistics, where they were asked for; they know which rows they are of."""
    if arguments.save is None:
        return []
    rows = "" if arguments.where is None else f" where {arguments.where}"
    return [saved(Path(arguments.log).name + rows).save(arguments.save)]


def print_found(rows: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> None:
    """What an audit says, in the words of the command."""
    print_facts([(name.replace("_", " "), arguments.command.in_options(text)) for name, text in rows])


def print_json(facts: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Everything that was found and written, for machines."""
    print(json.dumps({**facts, "wrote": [str(path) for path in paths]}, allow_nan=False))


def fail_on(verdict: str, arguments: argparse.Namespace) -> None:
    """Exit if the verdict is what was asked for, or worse."""
    if arguments.fail_on is None:
        return
    least = FAILING.index(arguments.fail_on.replace("-", " "))
    if verdict in FAILING[least:]:
        raise SystemExit(FAILED)
