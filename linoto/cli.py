"""The command line: each command parses, calls, prints, and imports what is heavy only when it runs."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from linoto import __version__

if TYPE_CHECKING:
    from linoto.experiments import Experiment, Track
    from linoto.results import Results

FIGURES = ("horizon", "offline-size", "offline-size-best", "dimension", "alpha", "remarks")  # paper.FIGURES


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 failed, 2 usage, 130 interrupted."""
    arguments = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except KeyboardInterrupt:
        print(f"linoto: interrupted{how_to_resume(arguments)}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads any more: no message from the interpreter either
        return 1
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"linoto: {error}", file=sys.stderr)
        return 1


def how_to_resume(arguments: argparse.Namespace) -> str:
    """What to do after Ctrl-C, for commands that keep what is finished."""
    if not hasattr(arguments, "resume"):
        return ""
    return f": what is finished is kept in {arguments.out}, give the same command with --resume to go on"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Exit 2."""
        wrong = re.search(r"(?:invalid choice: '|unrecognized arguments: )([^' ]*)", message)
        close = get_close_matches(wrong[1], self.words(), n=1, cutoff=0.5) if wrong else []
        message = f"there is no command {wrong[1]!r}" if wrong and "choice" in message else message
        hint = f": did you mean {close[0]!r}?" if close else ""
        self.exit(2, f"{self.prog}: {message}{hint} (see {self.prog} --help)\n")

    def words(self) -> list[str]:
        """Every command and option that could have been meant."""
        words: list[str] = []
        for action in self._actions:
            words += action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                words += action.choices
                words += [word for command in action.choices.values() for word in command.words()]
        return words


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults shown where they say something, examples left as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        plain = action.default is None or action.default is False
        return action.help if plain else super()._get_help_string(action)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = Parser(
        prog="linoto",
        description="Learn online from a log of past decisions: explore when you can afford it, "
        "otherwise play safe.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"linoto {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    add_demo(commands)
    add_reproduce(commands)
    add_study(commands)
    return top


def add_command(commands: Any, name: str, *, help: str, description: str, examples: str) -> Any:
    """A command with its help; what follows the options are examples."""
    return commands.add_parser(
        name,
        help=help,
        description=description,
        epilog="examples:\n" + examples,
        formatter_class=Help,
        allow_abbrev=False,
    )


def add_demo(commands: Any) -> None:
    """`linoto demo`."""
    demo = add_command(
        commands,
        "demo",
        help="LinOtO against LinUCB, LinLCB and Random on the paper's default problem",
        description="Play the paper's default problem (100 actions in 20 dimensions, 100 logged rewards of\n"
        "10 suboptimal actions), print both regrets, and draw them.",
        examples="  linoto demo\n  linoto demo --runs 30 --horizon 2000 --json",
    )
    demo.add_argument("--runs", type=positive, default=10, help="independent instances")
    demo.add_argument("--horizon", type=positive, default=8000, help="online rounds in each")
    demo.add_argument("--seed", type=seed, default=0, help="of everything random")
    demo.add_argument("--out", type=Path, default=Path("linoto-demo"), help="folder for the figure")
    demo.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    demo.set_defaults(run=run_demo)


def add_reproduce(commands: Any) -> None:
    """`linoto reproduce`."""
    reproduce = add_command(
        commands,
        "reproduce",
        help="every figure of the paper, and what of its claims holds",
        description="Run the paper's experiments again: figures, tables, and a report that says, sentence\n"
        "by sentence, what holds.\n\n"
        "  horizon            n = 1000, 4000, 8000\n"
        "  offline-size       m = 100, 500, 1000 logged rewards, the optimal action not among them\n"
        "  offline-size-best  the same with the optimal action logged, and with a smaller radius\n"
        "  dimension          d = 10, 20, 50\n"
        "  alpha              sensitivity of LinOtO to alpha\n"
        "  remarks            forms of the budget, doubling, the trade-off in alpha\n"
        "  all                everything above",
        examples="  linoto reproduce\n  linoto reproduce all --runs 30 --out paper\n"
        "  linoto reproduce horizon alpha --runs 10 --bounds",
    )
    reproduce.add_argument(
        "figure",
        nargs="*",
        metavar="FIGURE",
        help="one or more of the above (default: all)",
        default=argparse.SUPPRESS,
    )
    add_runner_options(reproduce, out="linoto-reproduce")
    reproduce.add_argument(
        "--bounds", action="store_true", help="draw the paper's bounds beside the measured regrets"
    )
    reproduce.set_defaults(run=run_reproduce, refuse=reproduce.error)


def add_study(commands: Any) -> None:
    """`linoto study`."""
    study = add_command(
        commands,
        "study",
        help="your own settings and policies, from a TOML file",
        description="Run the settings and policies of a TOML file: [[setting]] tables, and one table for\n"
        "each policy.\n\n"
        "  [policies.LinOtO]\n"
        '  type = "LinOtO"\n'
        "  alpha = 0.01\n\n"
        "  [policies.Thompson]\n"
        '  type = "LinTS"\n\n'
        "  [[setting]]\n"
        '  name = "small"\n'
        "  k = 50          # actions\n"
        "  d = 10          # dimensions\n"
        "  m = 200         # logged rewards\n"
        "  horizon = 2000  # online rounds",
        examples="  linoto study mine.toml --runs 20\n  linoto study mine.toml --runs 50 --resume",
    )
    study.add_argument("file", type=Path, metavar="FILE.toml", help="what to run")
    add_runner_options(study, out="linoto-study")
    study.set_defaults(run=run_study)


def add_runner_options(command: Any, *, out: str) -> None:
    """What every experiment can be told."""
    command.add_argument("--runs", type=positive, default=5, help="independent runs of each policy")
    command.add_argument("--seed", type=seed, default=0, help="of everything random")
    command.add_argument("--jobs", type=positive, default=None, help="runs at a time (default: one per core)")
    command.add_argument("--out", type=Path, default=Path(out), help="folder for everything written")
    command.add_argument("--resume", action="store_true", help="keep the runs already finished there")
    command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def positive(text: str) -> int:
    """A whole number >= 1, for argparse."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1, got {text!r}")
    return value


def seed(text: str) -> int:
    """A whole number >= 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"must be a whole number >= 0, got {text!r}")
    return int(text)


def unknown_figure(name: str) -> str:
    """What to say about a figure there is none of."""
    names = ("all", *FIGURES)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"it must be one of {', '.join(names)}"
    return f"there is no figure {name!r}: {hint}"


# -- commands ---------------------------------------------------------------------------------------------


def run_demo(arguments: argparse.Namespace) -> int:
    """`linoto demo`."""
    from linoto import figures
    from linoto.demo import demo
    from linoto.experiments import run_experiment

    with figures.styled(), progress("playing") as track:
        results = run_experiment(
            demo(arguments.horizon), runs=arguments.runs, seed=arguments.seed, track=track
        )
    table = results.table()
    paths = figures.save(figures.draw_both(results), arguments.out / "demo")
    if arguments.json:
        facts = {"runs": arguments.runs, "horizon": arguments.horizon, "seed": arguments.seed}
        print(json.dumps({**facts, "table": table, "wrote": [str(path) for path in paths]}))
        return 0
    print(f"Paper's default problem, runs: {arguments.runs}, mean ± standard error")
    print_table([demo_row(row) for row in table])
    print_written(paths)
    return 0


def demo_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table, for people."""
    return {
        "policy": row["policy"],
        "regret": with_error(row, "regret"),
        "below the log": with_error(row, "offline_regret"),
        "explored": f"{row['explored']:.1%}",
    }


def run_reproduce(arguments: argparse.Namespace) -> int:
    """`linoto reproduce`."""
    asked = getattr(arguments, "figure", None) or ["all"]
    for name in asked:
        if name not in ("all", *FIGURES):  # only now, so that a wrong option is named first
            arguments.refuse(unknown_figure(name))
    from linoto import claims, paper, sentences

    chosen = FIGURES if "all" in asked else [name for name in FIGURES if name in asked]
    experiments = [experiment for name in chosen for experiment in paper.FIGURES[name]]
    words = "all" if "all" in asked else " ".join(chosen)
    results = run_all(experiments, arguments)
    findings = claims.judge(sentences.CLAIMS, {result.experiment.name: result for result in results})
    return publish(
        results,
        findings,
        arguments,
        title="Offline-to-Online Learning in Linear Bandits, run again",
        command=f"linoto reproduce {words}",
    )


def run_study(arguments: argparse.Namespace) -> int:
    """`linoto study`."""
    from linoto.studies import read_study

    experiment = read_study(arguments.file)
    results = run_all([experiment], arguments)
    command = f"linoto study {arguments.file.name}"
    return publish(results, [], arguments, title=experiment.title or experiment.name, command=command)


def run_all(experiments: Sequence[Experiment], arguments: argparse.Namespace) -> list[Results]:
    """Run experiments one after the other, with one bar for each."""
    from linoto import figures
    from linoto.experiments import run_experiment

    results = []
    with figures.styled():  # fails before hours of work, not after
        pass
    for experiment in experiments:
        with progress(experiment.name) as track:
            result = run_experiment(
                experiment,
                runs=arguments.runs,
                seed=arguments.seed,
                jobs=arguments.jobs,
                out=arguments.out,
                resume=arguments.resume,
                track=track,
            )
        if result.store.replaced:
            print(
                f"{experiment.name}: {result.store.replaced} earlier runs were replaced; "
                "--resume would have kept what still applies",
                file=sys.stderr,
            )
        results.append(result)
    return results


def publish(
    results: Sequence[Results],
    findings: Sequence[Any],
    arguments: argparse.Namespace,
    *,
    title: str,
    command: str,
) -> int:
    """Write the report and say what is in it."""
    from linoto.report import write_report

    with_bounds = getattr(arguments, "bounds", False)
    line = f"{command} --runs {arguments.runs} --seed {arguments.seed}{' --bounds' if with_bounds else ''}"
    paths = write_report(results, findings, arguments.out, title=title, command=line, with_bounds=with_bounds)
    if arguments.json:
        tables = {result.experiment.name: result.table() for result in results}
        found = [finding.to_dict() for finding in findings]
        facts = {"command": line, "runs": arguments.runs, "seed": arguments.seed, "tables": tables}
        print(json.dumps({**facts, "claims": found, "wrote": [str(path) for path in paths]}))
        return 0
    if not findings:
        for result in results:
            print_table([study_row(row) for row in result.table()])
    else:
        print_table([{"claim": found.claim.name, "verdict": found.verdict} for found in findings])
    print_written(paths)
    return 0


def study_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of a study's table, for people."""
    return {"setting": row["setting"], **demo_row(row)}


# -- printing ---------------------------------------------------------------------------------------------


@contextmanager
def progress(what: str) -> Iterator[Track | None]:
    """A bar with the time left on stderr, where somebody is looking."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        yield None
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_written(paths: Sequence[Path]) -> None:
    """Where everything is, one line for files that differ only in what follows the first dot."""
    endings: dict[Path, list[str]] = {}
    for path in paths:
        stem, dot, ending = path.name.partition(".")
        endings.setdefault(path.with_name(stem), []).append(dot + ending)
    for place, found in endings.items():
        print(f"wrote {place}{found[0]}" if len(found) == 1 else f"wrote {place} {' '.join(found)}")


def with_error(row: dict[str, Any], name: str) -> str:
    """Mean ± standard error, where there is one."""
    if row[name] is None:
        return "–"
    error = row[f"{name}_se"]
    return f"{row[name]:.0f}" + ("" if error is None else f" ± {error:.0f}")


def print_table(rows: Sequence[dict[str, str]]) -> None:
    """Rows of equal keys, the first column left, the others right; row by row where it is too narrow."""
    columns = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    if sum(widths.values()) + 3 * (len(columns) - 1) > shutil.get_terminal_size().columns:
        for row in rows:
            print("\n".join(f"{name}: {value}" for name, value in row.items()), end="\n\n")
        return
    for row in [
        dict(zip(columns, columns, strict=True)),
        {name: "-" * widths[name] for name in columns},
        *rows,
    ]:
        first, *others = columns
        cells = [row[first].ljust(widths[first]), *(row[name].rjust(widths[name]) for name in others)]
        print("   ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
