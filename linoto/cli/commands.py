"""All commands, and how one of them is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from linoto import __version__
from linoto.cli.arms import add_arms
from linoto.cli.audit import add_audit
from linoto.cli.certificate import add_certificate
from linoto.cli.compare import add_compare
from linoto.cli.create import add_create
from linoto.cli.database import add_db
from linoto.cli.demo import add_demo
from linoto.cli.evaluate import add_evaluate
from linoto.cli.launch import add_launch
from linoto.cli.log import add_log
from linoto.cli.preview import add_preview
from linoto.cli.reproduce import add_reproduce
from linoto.cli.serve import add_serve
from linoto.cli.study import add_study
from linoto.cli.usage import Commands, Parser

COMMANDS: tuple[Callable[[Commands], None], ...] = (
    add_demo,
    add_audit,
    add_log,
    add_certificate,
    add_preview,
    add_evaluate,
    add_reproduce,
    add_study,
    add_compare,
    add_launch,
    add_create,
    add_serve,
    add_arms,
    add_db,
)
"""What adds each command, in the order of the help."""


def run(words: Sequence[str]) -> int:
    """Run one command, and say in one sentence why it failed. Without a command, say what there is."""
    arguments = parser().parse_args(words or ["--help"])
    try:
        arguments.run(arguments)
        return 0
    except KeyboardInterrupt:
        print(f"linoto: interrupted{how_to_resume(arguments)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: no message from the interpreter either
        return 1
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"linoto: {arguments.command.in_options(sentence(error))}", file=sys.stderr)
        return 1


def sentence(error: Exception) -> str:
    """What went wrong; of a file its name and why, without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


def how_to_resume(arguments: argparse.Namespace) -> str:
    """What to do after Ctrl-C, for commands that keep what is finished."""
    if not hasattr(arguments, "resume"):
        return ""
    return f": what is finished is kept in {arguments.out}, give the same command with --resume to go on"


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog="linoto",
        description="Learn online from a log of past decisions: explore when you can afford it, "
        "otherwise play safe.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"linoto {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    for add in COMMANDS:
        add(commands)
    return top
