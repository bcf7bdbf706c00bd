"""What a command writes: where it may, what it says of that, and how it ends."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from linoto.cli.terminal import file_to_write, positive
from linoto.cli.usage import Parser, shown

FAILING = ("deploy with arm effects", "not yet", "do not trust")  # verdicts that can fail, the worst last
FAILED = 3  # the exit code then
HORIZON = 5000  # core.verdicts.HORIZON, without its imports
WHERE_AND_HOW = ("out", "save", "json", "fail_on", "jobs", "engine", "scheduler")  # they decide no number


def add_horizon(command: Parser) -> None:
    """Over how many rounds a promise is judged: the same for every verdict."""
    command.add_argument(
        "--horizon", type=positive, default=HORIZON, help="rounds to come, over which a promise is judged"
    )


def add_outputs(command: Parser) -> None:
    """What is written, and what is a failure."""
    command.add_argument("--out", type=file_to_write, metavar="PAGE.html", help="write a page with pictures")
    command.add_argument(
        "--save", type=file_to_write, metavar="STATS.npz", help="write what linoto.load reads"
    )
    command.add_argument(
        "--fail-on",
        choices=[verdict.replace(" ", "-") for verdict in FAILING],
        help="exit with 3 if the verdict is this, or worse: for scripts",
    )


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

    taken = {path.resolve(): f"{path}, which is read" for path in (find_files(list(read)) if read else [])}
    for option in ("out", "save"):
        path: Path | None = getattr(arguments, option, None)
        if path is None:
            continue
        for other, what in taken.items():
            if path.resolve() == other or (path.exists() and other.exists() and path.samefile(other)):
                arguments.refuse(f"--{option} must be another file than {what}")
        if not path.parent.is_dir():
            arguments.refuse(f"--{option} must be in a folder that is there: there is no {path.parent}")
        taken[path.resolve()] = f"--{option}"
    save: Path | None = getattr(arguments, "save", None)
    if save is not None and save.suffix.lower() != ".npz":
        arguments.refuse(f"--save must end in .npz, by which other commands know it, got {str(save)!r}")


def command_again(arguments: argparse.Namespace, file: str) -> str:
    """The command that writes the same page about a file: without folders, and what decides no number."""
    plain = argparse.Namespace(**vars(arguments))
    if getattr(plain, "arms", None) is not None:
        plain.arms = Path(plain.arms).name
    words = arguments.command.as_typed(plain, but=WHERE_AND_HOW)
    return shlex.join([*arguments.command.prog.split(), *([Path(file).name] if file else []), *words])


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
