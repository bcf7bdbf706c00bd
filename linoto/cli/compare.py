"""`linoto compare`: policies on the same problems, in league tables."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linoto.cli.running import add_runner_options, say_what_was_there
from linoto.cli.terminal import print_table, print_written, progress
from linoto.cli.usage import Commands, add_command, engine_of

if TYPE_CHECKING:
    from linoto.core.protocols import Policy
    from linoto.experiments.compare import Comparison
    from linoto.experiments.settings import Setting

DESCRIPTION = """\
Play policies on the same worlds, logs and noise, and rank them: regret and shortfall below the
log at three rounds with standard errors, the difference from one of them run by run with its
95 % interval, whether promises were kept, and the time of a round. Writes one page with pictures.

Without options everybody plays everything. POLICY is the name of one of these, a policy as JSON
(as linoto.to_dict writes it), or a class of your own as module:Class; LABEL=POLICY names it.
FILE.toml has policies and settings in the form of `linoto study`."""

ON_THE_PAGE = (
    "early",
    "half-way",
    "median",
    "worst run",
    "largest",
)  # columns for which a terminal has no room

EXAMPLES = """\
  linoto compare --runs 30
  linoto compare --setting flights --policy Gated --policy LinTS --runs 20
  linoto compare --policy LinOtO --policy 'mine=my_module:MyPolicy' --against LinOtO
  linoto compare mine.toml --runs 20"""


def add_compare(commands: Commands) -> None:
    """`linoto compare`."""
    compare = add_command(
        commands,
        "compare",
        help="any policies on the same problems: league tables, paired differences, promises, times",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    compare.add_argument("file", nargs="?", type=Path, metavar="FILE.toml", help="policies and settings")
    compare.add_argument("--policy", action="append", metavar="POLICY", help="who plays (default: everybody)")
    compare.add_argument("--setting", action="append", metavar="NAME", help="where (default: everywhere)")
    compare.add_argument(
        "--against", metavar="LABEL", help="whom the others are compared with (default: the first)"
    )
    add_runner_options(compare, out="linoto-compare", curves=False)
    compare.set_defaults(run=run_compare, refuse=compare.error)


def run_compare(arguments: argparse.Namespace) -> None:
    """`linoto compare`."""
    from linoto.experiments.cells import folder_lock
    from linoto.experiments.compare import compare
    from linoto.pages.compare import write_comparison
    from linoto.pages.shell import check_installed

    check_installed()
    settings = chosen_settings(arguments)
    labels = dict.fromkeys(label for setting in settings for label in setting.labels)
    if arguments.against is not None and arguments.against not in labels:
        raise ValueError(f"--against must be one of {', '.join(labels)}, got {arguments.against!r}")
    with folder_lock(arguments.out):
        with progress("playing") as track:
            found = compare(
                settings,
                against=arguments.against,
                runs=arguments.runs,
                seed=arguments.seed,
                out=arguments.out,
                resume=arguments.resume,
                engine=engine_of(arguments),
                track=track,
            )
        say_what_was_there(found.results)
        paths = write_comparison(arguments.out, found, command=command_of(arguments))
    if arguments.json:
        print(json.dumps({**found.to_dict(), "wrote": [str(path) for path in paths]}))
        return
    print_leagues(found)
    print_written(paths)


def print_leagues(found: Comparison) -> None:
    """One table per setting."""
    from linoto.pages.compare import league_row, left_out

    for setting in found.results.experiment.settings:
        print(f"\n{setting.name}: {setting.horizon} rounds, {found.results.runs} runs, mean ± standard error")
        if setting.compares_with != "the log":
            print(f"the shortfall is below {setting.compares_with} in the same rounds")
        rows = [league_row(row, found.against) for row in found.league(setting)]
        print_table([{name: text for name, text in row.items() if name not in ON_THE_PAGE} for row in rows])
        for labels, why in left_out(setting):
            print(f"left out: {labels}: {why}")


def chosen_settings(arguments: argparse.Namespace) -> list[Setting]:
    """What was asked for: a file, or some or all of the problems that come with the package."""
    from linoto.core.hints import nearest
    from linoto.experiments.compare import choose, everyone, problems
    from linoto.experiments.study import read_study

    if arguments.file is not None:
        if arguments.policy:
            arguments.refuse("--policy is for the problems that come with the package: FILE.toml has its own")
        found = {setting.name: setting for setting in read_study(arguments.file).settings}
    else:
        chosen = choose(chosen_policies(arguments)) if arguments.policy else everyone
        found = problems(chosen)
    for name in arguments.setting or ():
        if name not in found and arguments.file is None and name in problems():
            arguments.refuse(f"--policy must name somebody who can play in the setting {name!r}")
        if name not in found:
            others = f": it must be one of {', '.join(found)}"
            arguments.refuse(f"there is no setting {name!r}{nearest(name, found, others)}")
    return [found[name] for name in arguments.setting or found]


def chosen_policies(arguments: argparse.Namespace) -> dict[str, Policy | None]:
    """The policies that were named, by label: no two have the same."""
    found: dict[str, Policy | None] = {}
    for text in arguments.policy:
        label, policy = labelled(text)
        if label in found:
            arguments.refuse(
                f"two policies are called {label!r}: give one a name, as in --policy NAME=POLICY"
            )
        found[label] = policy
    return found


def labelled(text: str) -> tuple[str, Policy | None]:
    """A label and a policy of somebody's own, or None for one of ours."""
    from linoto.core.hints import nearest
    from linoto.core.snapshots import KNOWN
    from linoto.experiments.compare import CLICKS, everyone
    from linoto.experiments.study import as_policy

    ours = {**everyone(), **everyone(CLICKS, one_hot=True, contexts=True, shift=1.0)}
    label, word = re.fullmatch(r"(?:([^={}]+)=)?(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if word in ours and label in (None, word):
        return word, None
    if not re.search("[:{]", word) and word not in KNOWN:
        raise ValueError(f"--policy: there is no policy {word!r}{nearest(word, [*ours, *KNOWN])}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the caller, as `python -m` finds them
    try:
        table = json.loads(word) if word.lstrip().startswith("{") else {"type": word}
    except json.JSONDecodeError as error:
        raise ValueError(f"--policy is not valid JSON: {error}") from None
    return label or str(table.get("type", word)).rpartition(":")[2], as_policy("--policy", table)


def command_of(arguments: argparse.Namespace) -> str:
    """The command as it would be typed again."""
    words = ["linoto", "compare", *([] if arguments.file is None else [arguments.file.name])]
    for name in ("policy", "setting"):
        for value in getattr(arguments, name) or ():
            words += [f"--{name}", value]
    against = [] if arguments.against is None else ["--against", arguments.against]
    return shlex.join([*words, *against, "--runs", str(arguments.runs), "--seed", str(arguments.seed)])
