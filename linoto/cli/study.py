"""`linoto study`: your own settings and policies, or a study that comes with the package."""

from __future__ import annotations

import argparse
from pathlib import Path

from linoto.cli.running import add_runner_options, run_and_report
from linoto.cli.usage import Commands, add_command
from linoto.core.hints import nearest

BUILT_IN = ("beyond",)


def add_study(commands: Commands) -> None:
    """`linoto study`."""
    study = add_command(
        commands,
        "study",
        help="your own settings and policies, from a TOML file; or beyond the paper",
        description="Run the settings and policies of a TOML file: [[setting]] tables, and one table for\n"
        "each policy.\n\n"
        "  [policies.LinOtO]\n"
        '  type = "LinOtO"\n'
        "  alpha = 0.01\n\n"
        "  [policies.Thompson]\n"
        '  type = "LinTS"\n\n'
        "  [policies.Mine]\n"
        '  type = "my_module:MyPolicy"   # my_module.py beside the file, or installed\n\n'
        "  [[setting]]\n"
        '  name = "small"\n'
        "  k = 50          # actions\n"
        "  d = 10          # dimensions\n"
        "  m = 200         # logged rewards\n"
        "  horizon = 2000  # online rounds\n"
        '  metrics = ["complaints"]      # besides the reward, for guardrails\n\n'
        "`linoto study beyond` needs no file: what this package adds to the paper, on the paper's problems.",
        examples="  linoto study mine.toml --runs 20\n  linoto study mine.toml --runs 50 --resume\n"
        "  linoto study beyond --runs 30",
    )
    study.add_argument("file", type=Path, metavar="FILE.toml", help="what to run, or the word beyond")
    add_runner_options(study, out="linoto-study")
    study.set_defaults(run=run_study)


def run_study(arguments: argparse.Namespace) -> None:
    """`linoto study`."""
    name = str(arguments.file)
    if name in BUILT_IN:
        run_beyond(arguments)
        return
    if not arguments.file.exists():
        raise ValueError(f"there is no file {name!r}{nearest(name, BUILT_IN)}")
    from linoto.experiments.study import read_study

    experiment = read_study(arguments.file)
    title, command = experiment.title or experiment.name, f"linoto study {arguments.file.name}"
    run_and_report([experiment], (), arguments, title=title, command=command)


def run_beyond(arguments: argparse.Namespace) -> None:
    """`linoto study beyond`."""
    from linoto.experiments import beyond

    words = {"title": "Beyond the paper", "command": "linoto study beyond"}
    run_and_report(beyond.EXPERIMENTS, beyond.CLAIMS, arguments, **words)
