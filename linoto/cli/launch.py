"""`linoto launch`: from a log to a served loop, one step after the other."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from linoto.cli.audit import add_audit, add_audited, add_what_is_judged
from linoto.cli.certificate import add_certificate
from linoto.cli.create import add_create, add_loop_options, loop_parts
from linoto.cli.database_option import DATABASE, service_needed
from linoto.cli.policy_options import add_gate, read_policy
from linoto.cli.preview import add_preview, show_preview
from linoto.cli.serve import add_serve, port
from linoto.cli.stats_file import read_statistics
from linoto.cli.usage import Commands, Parser, add_command, shown

DESCRIPTION = """\
Audit a log, choose a policy, print what it promises, preview what it could lose and gain, make a
loop of it and serve it. Every step is a command of its own, and is printed before it runs: to do
one again with other options, copy the line. Nothing is served before you say yes.

With contexts, --practice says what is done today, which a promise is then compared with. Without
--budget or --epsilon it takes the budget that the preview finds best. A verdict other than
"deploy", of the audit or of the preview, stops the launch; --force goes on."""

EXAMPLES = """\
  linoto launch orders.csv --item variant --reward order
  linoto launch log.csv --arms arms.csv --item arm --reward clicked --budget 40 --yes
  linoto launch clicks.csv --item item --reward click --category country \\
    --practice A=0.5 --practice B=0.5 --budget 40"""


OF_THE_LOOP = (
    "gate",
    "budget",
    "epsilon",
    "practice",
    "default_reward",
    "missing_reward",
    "unit",
    "window",
    "holdback",
    "redraws",
)
GO_ON = "--force goes on all the same"


def add_launch(commands: Commands) -> None:
    """`linoto launch`."""
    launch = add_command(
        commands,
        "launch",
        help="from a log to a served loop: audit, certificate, preview, create and serve",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    launch.add_argument("log", metavar="LOG", help="the log: a file, or a pattern in quotes")
    add_audited(launch)
    add_what_is_judged(launch)
    add_launching(launch)
    launch.set_defaults(run=run_launch, refuse=launch.error)


def add_launching(launch: Parser) -> None:
    """The loop, where everything is written, and when to go on."""
    launch.add_argument("--name", help="of the loop (default: the name of LOG)")
    add_gate(launch)
    add_loop_options(launch)
    launch.add_argument("--out", type=Path, default=Path("linoto-launch"), help="folder for all files")
    launch.add_argument("--port", type=port, default=8080, help="port to serve on, 0 for any free one")
    launch.add_argument("--force", action="store_true", help="go on whatever a verdict is")
    launch.add_argument("--yes", action="store_true", help="serve without asking")


def run_launch(arguments: argparse.Namespace) -> None:
    """`linoto launch`."""
    arguments.name = arguments.name or loop_name(arguments.log)
    check_name(arguments.name)
    stats = audited(arguments)
    loop_parts(arguments, load(stats))  # says what is wrong with --practice now, not after all else
    if arguments.budget is None and arguments.epsilon is None:
        arguments.budget = previewed(arguments, stats, [])
        run_step("What is promised?", certificate_of(arguments, stats))
    else:
        certificate = certificate_of(arguments, stats)
        run_step("What is promised?", certificate)
        previewed(arguments, stats, [*grid_of(arguments), *limit_of(arguments, certificate)])
    make_and_serve(arguments, stats)


def check_name(name: str) -> None:
    """Refuse a name that `create` would refuse, before anything is written."""
    with service_needed():
        from linoto.service.loops.operations import check_loop_name

    check_loop_name(name)


def certificate_of(arguments: argparse.Namespace, stats: Path) -> list[Any]:
    """The command that prints what is promised."""
    return ["certificate", stats, *again(arguments, ("gate", "budget", "epsilon", "horizon"))]


def again(arguments: argparse.Namespace, only: Sequence[str]) -> list[str]:
    """Options of the launch as a step is told them."""
    words: list[str] = arguments.command.as_typed(arguments, only=only)
    return words


def previewed(arguments: argparse.Namespace, stats: Path, options: Sequence[str]) -> float | None:
    """Preview, and stop where its verdict says so; the budget that it finds best, if there is one."""
    told = again(arguments, ("gate", "horizon", "unit", "practice"))
    words = ["preview", stats, *told, *options, "--out", arguments.out / "preview.html"]
    verdict, best = show_preview(announced("What could be lost and gained?", words))
    by_budget = best is not None and arguments.epsilon is None
    if verdict != "deploy" and not arguments.force:
        found = f": --{'budget' if by_budget else 'epsilon'} {shown(best.value)} would pass" if best else ""
        raise ValueError(f"stopped at the verdict {verdict!r} of the preview{found}; {GO_ON}")
    return best.value if best is not None and by_budget else None


def make_and_serve(arguments: argparse.Namespace, stats: Path) -> None:
    """The last two steps."""
    name, db = arguments.name, arguments.out / DATABASE
    run_step("Make the loop", ["create", name, stats, *again(arguments, OF_THE_LOOP), "--db", db])
    serve = ["serve", "--db", db, "--port", arguments.port]
    if arguments.yes or agreed(f"Serve loop {name!r} now?"):
        run_step("Serve it", serve)
    else:
        print(f"\nTo serve it: {shlex.join(['linoto', *map(str, serve)])}")


def files_in(folder: Path) -> tuple[Path, Path]:
    """Where the audit writes its statistics and its page."""
    if (folder / DATABASE).exists():
        raise ValueError(
            f"--out must be a folder without a launch in it, got {str(folder)!r}, which has {DATABASE}: give "
            f"another one, or go on with what is there: linoto serve --db {folder / DATABASE}"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out must be a folder, got the file {str(folder)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "stats.npz", folder / "audit.html"


def audited(arguments: argparse.Namespace) -> Path:
    """The statistics of the log, audited, with arm effects where the audit asks for them."""
    is_new = not arguments.out.exists()
    stats, page = files_in(arguments.out)
    told = steps()[1]["audit"].as_typed(arguments, but=("out",))
    words = ["audit", arguments.log, *told, "--save", stats, "--out", page]
    try:
        run_step("Is the log worth building on?", words)
    except BaseException:
        if is_new and not any(arguments.out.iterdir()):  # a log that cannot be read leaves nothing behind
            arguments.out.rmdir()
        raise
    if load(stats).verdict == "deploy with arm effects" and arguments.arm_effects is None:
        run_step("Every arm gets an effect of its own, as the verdict says", [*words, "--arm-effects"])
    asked = arguments.budget is not None or arguments.epsilon is not None
    saved = load(stats)  # a budget that nobody chose yet is not judged
    check_verdict(saved.verdict if asked else saved.verdict_of_log, arguments)
    return stats


def check_verdict(verdict: str, arguments: argparse.Namespace) -> None:
    """Stop at a verdict that says so."""
    if verdict != "deploy" and not arguments.force:
        raise ValueError(f"stopped at the verdict {verdict!r}; {GO_ON}")


def load(stats: Path) -> Any:
    """What the audit saved."""
    from linoto.logs.saved import load

    return load(stats)


def grid_of(arguments: argparse.Namespace) -> list[str]:
    """The budget among smaller and larger ones, so that the preview shows whether it is a good one.

    Nothing is a part of 0: then it is the only one.
    """
    given = {name: getattr(arguments, name) for name in ("budget", "epsilon")}
    name = next(
        (name for name, value in given.items() if value), "epsilon" if given["budget"] is None else "budget"
    )
    shares = (0.25, 0.5, 1, 2, 4) if given[name] else (1,)
    return [f"--{name}-grid", ",".join(f"{share * given[name]:g}" for share in shares)]


def limit_of(arguments: argparse.Namespace, certificate: Sequence[Any]) -> list[str]:
    """What is promised as the limit: a larger budget is shown, but not advised."""
    from linoto.core.validation import rounded_up

    asked = steps()[0].parse_args([str(word) for word in certificate])
    log = read_statistics(asked).log
    policy: Any = read_policy(asked, log)
    loss = policy.certificate(log).loss(arguments.horizon)
    return ["--limit", f"{rounded_up(loss, 4):g}"] if loss else []


def run_step(title: str, words: Sequence[Any]) -> None:
    """Print a command, and run it."""
    arguments = announced(title, words)
    arguments.run(arguments)


def announced(title: str, words: Sequence[Any]) -> argparse.Namespace:
    """What a command that is printed asks for."""
    line = [str(word) for word in words]
    print(f"\n== {title}\n$ {shlex.join(['linoto', *line])}", flush=True)
    return steps()[0].parse_args(line)


@cache
def steps() -> tuple[Parser, dict[str, Parser]]:
    """The commands that a launch is made of: all together, and each by its name."""
    top = Parser(prog="linoto", allow_abbrev=False)
    commands = top.add_subparsers(required=True, parser_class=Parser)
    for add in (add_audit, add_certificate, add_preview, add_create, add_serve):
        add(commands)
    return top, commands.choices


def loop_name(log: str) -> str:
    """A name for a loop, from the name of its log."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(log).name.partition(".")[0]).strip("-._")
    return plain[:64] or "loop"


def agreed(question: str) -> bool:
    """Whether somebody at a terminal says yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"\n{question} [y/N] ").strip().lower() in ("y", "yes")
