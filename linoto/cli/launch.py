"""`linoto launch`: from a log to a served loop, one step after the other."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoto.cli.audit import add_audit, add_log_options, log_options_again
from linoto.cli.certificate import add_certificate
from linoto.cli.contexts import add_audit_contexts, add_columns, columns_again
from linoto.cli.contextual import PRACTICE
from linoto.cli.create import add_create, add_loop_options, loop_options_again
from linoto.cli.log_and_policy import add_gate, read_policy, read_statistics, with_gate_options
from linoto.cli.preview import add_preview
from linoto.cli.serve import add_serve, port
from linoto.cli.terminal import positive
from linoto.cli.usage import Commands, Parser, add_command, typed_again

DESCRIPTION = """\
Audit a log, choose a policy, print what it promises, preview what it could lose and gain, make a
loop of it and serve it. Every step is a command of its own, and is printed before it runs: to do
one again with other options, copy the line. Nothing is served before you say yes.

A log whose verdict is "not yet" or "do not trust" stops the launch; --anyway goes on."""

CONTEXTS_DESCRIPTION = """\
Audit a log with contexts, print what would be promised against what is done today (--practice),
make a loop of it and serve it. Every step is a command of its own, and is printed before it runs: to
do one again with other options, copy the line. Nothing is served before you say yes.

A log whose verdict is "not yet" or "do not trust" stops the launch; --anyway goes on."""

CONTEXTS_EXAMPLES = """\
  linoto launch-contexts clicks.csv --item item --reward click --numeric age --category country \\
    --cross item country --practice A=0.5 --practice B=0.5 --budget 40"""

EXAMPLES = """\
  linoto launch log.csv --arms arms.csv --action arm --reward clicked --reward-range 0 1
  linoto launch log.csv --arms arms.csv --action arm --reward clicked --budget 40 --yes"""


def add_launch(commands: Commands) -> None:
    """`linoto launch`."""
    launch = add_command(
        commands,
        "launch",
        help="from a log to a served loop: audit, certificate, preview, create and serve",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    add_log_options(launch)
    launch.add_argument("--horizon", type=positive, default=5000, help="rounds to come, for the preview")
    add_launching(launch)
    launch.set_defaults(run=run_launch)


def add_launch_contexts(commands: Commands) -> None:
    """`linoto launch-contexts`."""
    launch = add_command(
        commands,
        "launch-contexts",
        help="from a log with user columns to a served loop: audit, certificate, create and serve",
        description=CONTEXTS_DESCRIPTION,
        examples=CONTEXTS_EXAMPLES,
    )
    add_columns(launch)
    add_launching(launch)
    launch.set_defaults(run=run_launch_contexts, refuse=launch.error)


def add_launching(launch: Any) -> None:
    """The loop, where everything is written, and when to go on."""
    launch.add_argument("--name", help="of the loop (default: the name of LOG)")
    add_gate(launch)
    add_loop_options(launch)
    launch.add_argument("--out", type=Path, default=Path("linoto-launch"), help="folder for all files")
    launch.add_argument("--port", type=port, default=8080, help="port to serve on, 0 for any free one")
    launch.add_argument("--anyway", action="store_true", help="go on whatever the verdict is")
    launch.add_argument("--yes", action="store_true", help="serve without asking")


def run_launch(arguments: argparse.Namespace) -> None:
    """`linoto launch`."""
    stats = audited(arguments)
    gate = typed_again(arguments, ["gate"])
    budget = typed_again(arguments, ["gate", "budget", "epsilon"])
    certificate = ["certificate", stats, *budget, "--rounds", arguments.horizon]
    run_step("What is promised?", certificate)
    page = arguments.out / "preview.html"
    run_step(
        "What could be lost and gained?",
        [
            *("preview", stats, *gate, *grid_of(arguments), *limit_of(arguments, certificate)),
            *("--horizon", arguments.horizon, "--out", page),
            *(("--unit", arguments.unit) if arguments.unit else ()),
        ],
    )
    make_and_serve(arguments, stats)


def run_launch_contexts(arguments: argparse.Namespace) -> None:
    """`linoto launch-contexts`."""
    if not arguments.practice:
        arguments.refuse(f"the following arguments are required: --practice ({PRACTICE})")
    stats, page = files_in(arguments.out)
    words = ["audit-contexts", arguments.log, *columns_again(arguments), "--save", stats, "--out", page]
    run_step("Is the log worth building on?", words)
    check_verdict(stats, arguments)
    run_step(
        "What is promised?", ["certificate", stats, *typed_again(arguments, ["gate", "budget", "epsilon"])]
    )
    make_and_serve(arguments, stats)


def make_and_serve(arguments: argparse.Namespace, stats: Path) -> None:
    """The last two steps."""
    name = arguments.name or loop_name(arguments.log)
    db = arguments.out / "loops.sqlite"
    options = [*typed_again(arguments, ["gate", "budget", "epsilon"]), *loop_options_again(arguments)]
    run_step("Make the loop", ["create", name, stats, *options, "--db", db])
    serve = ["serve", "--db", db, "--port", arguments.port]
    if arguments.yes or agreed(f"Serve loop {name!r} now?"):
        run_step("Serve it", serve)
    else:
        print(f"\nTo serve it: {shlex.join(['linoto', *map(str, serve)])}")


def files_in(folder: Path) -> tuple[Path, Path]:
    """Where the audit writes its statistics and its page."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "stats.npz", folder / "audit.html"


def audited(arguments: argparse.Namespace) -> Path:
    """The statistics of the log, audited, with arm effects where the audit asks for them."""
    from linoto.logs.saved import load

    stats, page = files_in(arguments.out)
    words = ["audit", arguments.log, *log_options_again(arguments), "--save", stats, "--out", page]
    run_step("Is the log worth building on?", words)
    if load(stats).verdict == "deploy with arm effects" and not arguments.arm_effects:
        run_step("Every arm gets an effect of its own, as the verdict says", [*words, "--arm-effects"])
    check_verdict(stats, arguments)
    return stats


def check_verdict(stats: Path, arguments: argparse.Namespace) -> None:
    """Stop at a verdict that says so."""
    from linoto.logs.saved import load

    verdict = load(stats).verdict
    if verdict in ("not yet", "do not trust") and not arguments.anyway:
        raise ValueError(f"stopped at the verdict {verdict!r}; --anyway goes on all the same")


def grid_of(arguments: argparse.Namespace) -> list[str]:
    """The budget among smaller and larger ones, so that the preview shows whether it is a good one."""
    if not arguments.budget:
        return []
    return ["--budget-grid", ",".join(f"{share * arguments.budget:g}" for share in (0.25, 0.5, 1, 2, 4))]


def limit_of(arguments: argparse.Namespace, certificate: Sequence[Any]) -> list[str]:
    """What the budget promises as the limit: a larger budget is shown, but not advised."""
    if not arguments.budget:
        return []
    from linoto.core.validation import rounded_up

    asked = steps().parse_args([str(word) for word in certificate])
    log = read_statistics(asked)
    policy = with_gate_options(read_policy(asked, log), asked, log)
    loss = policy.certificate(log.actions, log.offline).loss(arguments.horizon)
    return ["--limit", f"{rounded_up(loss, 4):g}"] if loss else []


def run_step(title: str, words: Sequence[Any]) -> None:
    """Print a command, and run it."""
    line = [str(word) for word in words]
    print(f"\n== {title}\n$ {shlex.join(['linoto', *line])}", flush=True)
    arguments = steps().parse_args(line)
    arguments.run(arguments)


def steps() -> argparse.ArgumentParser:
    """The commands that a launch is made of."""
    top = Parser(prog="linoto", allow_abbrev=False)
    commands = top.add_subparsers(required=True, parser_class=Parser)
    for add in (add_audit, add_audit_contexts, add_certificate, add_preview, add_create, add_serve):
        add(commands)
    return top


def loop_name(log: str) -> str:
    """A name for a loop, from the name of its log."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(log).name.partition(".")[0]).strip("-._")
    return plain[:64] or "loop"


def agreed(question: str) -> bool:
    """Whether somebody at a terminal says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"\n{question} [y/N] ").strip().lower() in ("y", "yes")
