"""`linoto reproduce`: every figure of the paper."""

from __future__ import annotations

import argparse

from linoto.cli.running import add_runner_options, run_and_report
from linoto.cli.usage import Commands, add_command
from linoto.core.hints import nearest

RUNS = 30  # at the paper's 5 most questions are undecided
FIGURES = ("horizon", "offline-size", "offline-size-best", "dimension", "alpha", "remarks")  # paper.FIGURES


def add_reproduce(commands: Commands) -> None:
    """`linoto reproduce`."""
    reproduce = add_command(
        commands,
        "reproduce",
        help="every figure of the paper, and what of its claims holds",
        description="Run the paper's experiments again: figures, tables, and a report that says, sentence\n"
        "by sentence, what holds.\n\n"
        "  horizon            n = 1000, 4000, 8000\n"
        "  offline-size       m = 100, 500, 1000 logged rewards, without the best action\n"
        "  offline-size-best  the same with the best action, and a smaller radius\n"
        "  dimension          d = 10, 20, 50\n"
        "  alpha              sensitivity of LinOtO to alpha\n"
        "  remarks            forms of the budget, doubling, the trade-off in alpha\n"
        "  all                everything above\n\n"
        "All of it at 30 runs takes about four minutes of one core, and 30 runs decide most questions.\n"
        "A bar shows how far it is. Ctrl-C keeps what is finished: the same command with --resume goes on\n"
        "from there, with more --runs too.",
        examples="  linoto reproduce\n  linoto reproduce all --runs 120 --resume --out paper\n"
        "  linoto reproduce horizon alpha --runs 10 --bounds\n"
        "  linoto reproduce dimension --runs 10 --field",
    )
    reproduce.add_argument(
        "figure",
        nargs="*",
        metavar="FIGURE",
        help="one or more of the above (default: all)",
        default=argparse.SUPPRESS,
    )
    add_runner_options(reproduce, out="linoto-reproduce", runs=RUNS)
    reproduce.add_argument(
        "--bounds", action="store_true", help="draw the paper's bounds beside the measured regrets"
    )
    reproduce.add_argument(
        "--field",
        action="store_true",
        help="draw the figures by horizon, size and dimension again with the systems that the paper cites",
    )
    reproduce.set_defaults(run=run_reproduce, refuse=reproduce.error)


def unknown_figure(name: str) -> str:
    """What to say where there is no figure of this name."""
    names = ("all", *FIGURES)
    return f"there is no figure {name!r}" + nearest(name, names, f": it must be one of {', '.join(names)}")


def run_reproduce(arguments: argparse.Namespace) -> None:
    """`linoto reproduce`."""
    asked = getattr(arguments, "figure", None) or ["all"]
    for name in asked:
        if name not in ("all", *FIGURES):  # only now, so that a wrong option is named first
            arguments.refuse(unknown_figure(name))
    from linoto.experiments import field, paper, sentences

    chosen = FIGURES if "all" in asked else [name for name in FIGURES if name in asked]
    experiments = [experiment for name in chosen for experiment in paper.FIGURES[name]]
    words = "all" if "all" in asked else " ".join(chosen)
    if arguments.field:
        added = [field.FIELD[name] for name in chosen if name in field.FIELD]
        if not added:
            arguments.refuse(f"--field is for {', '.join(field.FIELD)}, got {words}")
        experiments += added
        words = f"{words} --field"
    run_and_report(
        experiments,
        sentences.CLAIMS,
        arguments,
        title="Offline-to-Online Learning in Linear Bandits, run again",
        command=f"linoto reproduce {words}",
    )
