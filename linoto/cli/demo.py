"""`linoto demo`: the first thing to run."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linoto.cli.terminal import positive, print_lines, print_table, print_written, progress, result_row, seed
from linoto.cli.usage import Commands, add_command

if TYPE_CHECKING:
    from linoto.experiments.guarded import Guarded
    from linoto.experiments.seasons import Seasons
    from linoto.experiments.takeover import Story


def add_demo(commands: Commands) -> None:
    """`linoto demo`."""
    demo = add_command(
        commands,
        "demo",
        help="real flights: who may take over from current practice, and at what risk",
        description="Current practice books January's twelve most punctual flights out of New York. LinUCB,\n"
        "LinLCB, LinOtO and Gated take over for 6000 bookings: what they gain, how far they ever fall\n"
        "behind, and what was promised. Then the same month by month, as the world moves: the usual\n"
        "explorer, and a bold one as a warning; and how many planes are old, with a guardrail and\n"
        "without. Writes a page with pictures.\n\n"
        "With --paper: the paper's default problem instead (100 actions in 20 dimensions, 100 logged\n"
        "rewards of 10 suboptimal actions, 8000 rounds).",
        examples="  linoto demo\n  linoto demo --runs 20 --json\n  linoto demo --paper --runs 30",
    )
    demo.add_argument("--paper", action="store_true", help="the paper's default problem")
    demo.add_argument("--runs", type=positive, default=5, help="independent runs")
    demo.add_argument("--horizon", type=positive, default=None, help="online rounds in each")
    demo.add_argument("--seed", type=seed, default=0, help="of everything random")
    demo.add_argument("--out", type=Path, default=Path("linoto-demo"), help="folder for what is written")
    demo.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    demo.set_defaults(run=run_demo)


def run_demo(arguments: argparse.Namespace) -> None:
    """`linoto demo`."""
    run = run_paper if arguments.paper else run_flights
    run(arguments)


def run_flights(arguments: argparse.Namespace) -> None:
    """The takeover of the flight bookings."""
    from linoto.experiments import guarded, seasons, takeover
    from linoto.pages.demo import write_story
    from linoto.pages.figures.experiments import draw_guarded, draw_seasons, draw_story
    from linoto.pages.figures.pieces import save
    from linoto.pages.report import write_json
    from linoto.pages.shell import check_installed
    from linoto.worlds import flights

    check_installed()
    horizon = arguments.horizon or 6000
    everyone = takeover.contenders()
    with progress("taking over") as track:
        story = takeover.story(
            runs=arguments.runs,
            horizon=horizon,
            seed=arguments.seed,
            policies={label: everyone[label] for label in takeover.WHY},
            track=track,
        )
    with progress("month by month") as track:
        found = seasons.play(runs=arguments.runs, horizon=horizon, seed=arguments.seed, track=track)
    with progress("with a guardrail") as track:
        metric = guarded.play(runs=arguments.runs, horizon=horizon, seed=arguments.seed, track=track)
    paths = save(draw_story(story), arguments.out / "demo")
    moving = save(draw_seasons(found), arguments.out / "seasons")
    second = save(draw_guarded(metric), arguments.out / "guardrail")
    command = f"linoto demo --runs {arguments.runs} --horizon {horizon} --seed {arguments.seed}"
    saved = flights.load().save(arguments.out)
    page = arguments.out / "demo.html"
    write_story(
        page,
        story,
        picture=paths[1],
        command=command,
        audit=audit_lines(*saved),
        moving=(found, moving[1]),
        metric=(metric, second[1]),
    )
    table = story.table()
    booked = flights.load().save_booked(arguments.out)
    paths += [*moving, *second, page, write_json(arguments.out / "demo.json", table), *saved, booked]
    if arguments.json:
        facts = {"runs": arguments.runs, "horizon": horizon, "seed": arguments.seed}
        tables = {"table": table, "seasons": found.table(), "guarded": metric.table()}
        print(json.dumps({**facts, **tables, "wrote": [str(path) for path in paths]}))
        return
    print_flights(story, found, metric)
    print_written(paths)
    print(f"To look at it, open {page} in a browser. Your own log is next: linoto launch --help")


def print_flights(story: Story, found: Seasons, metric: Guarded) -> None:
    """What each contender gained, month by month too, and how many planes were old."""
    from linoto.pages.demo import guarded_row, guarded_text, introduction, season_parts, story_row

    for text in introduction(story):
        print_lines(f"{text}\n")
    print_table([story_row(row) for row in story.table()])
    for text, rows in season_parts(found):
        print_lines(f"\n{text}\n" if rows else f"\n{text}")
        if rows:
            print_table(rows)
    print_lines(f"\n{guarded_text(metric.table())}\n")
    print_table([guarded_row(row) for row in metric.table()])


def audit_lines(log_file: Path, arms_file: Path) -> list[str]:
    """What the audit says of the log, as it would of a user's own file; nothing where DuckDB is missing."""
    try:
        from linoto.audit.audit import audit_log
        from linoto.logs.read import read_arms, read_log
    except ImportError as error:
        print(f"linoto: the audit is left out: {error}", file=sys.stderr)
        return []
    log = read_log(log_file, item="arm", reward="on_time", arms=read_arms(arms_file), time="month")
    audit = audit_log(log, epsilon=0.02)
    return [f"Verdict: {audit.verdict}.", *audit.reasons, *audit.notes]


def run_paper(arguments: argparse.Namespace) -> None:
    """The paper's default problem."""
    from linoto.experiments.paper import default_problem
    from linoto.experiments.run import run_experiment
    from linoto.pages.figures.experiments import draw_both
    from linoto.pages.figures.pieces import save
    from linoto.pages.shell import check_installed

    check_installed()
    horizon = arguments.horizon or 8000
    with progress("playing") as track:
        results = run_experiment(
            default_problem(horizon), runs=arguments.runs, seed=arguments.seed, track=track
        )
    table = results.table()
    paths = save(draw_both(results), arguments.out / "paper")
    if arguments.json:
        facts = {"runs": arguments.runs, "horizon": horizon, "seed": arguments.seed}
        print(json.dumps({**facts, "table": table, "wrote": [str(path) for path in paths]}))
        return
    print(f"Paper's default problem, runs: {arguments.runs}, mean ± standard error")
    print_table([result_row(row) for row in table])
    print_written(paths)
