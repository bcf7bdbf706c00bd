"""`linoto demo`: the first thing to run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from linoto.cli.terminal import positive, print_table, print_written, progress, result_row, seed
from linoto.cli.usage import Commands, add_command


def add_demo(commands: Commands) -> None:
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
    print_table([result_row(row) for row in table])
    print_written(paths)
    return 0
