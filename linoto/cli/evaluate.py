"""`linoto evaluate`: what another policy would have earned, from logged rows alone."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from linoto.cli.contextual import read_contexts
from linoto.cli.log_and_policy import add_gate_options, noise, read_policy, with_gate_options
from linoto.cli.outputs import limits_of, with_known_columns
from linoto.cli.reading import (
    add_arm_effects,
    add_arms_notation,
    add_format,
    add_id,
    add_item,
    add_reading_options,
    known_format,
    named_columns,
    own_arms,
    read_known,
    read_known_arms,
)
from linoto.cli.terminal import above_zero, at_least_zero, number, print_facts, print_table, seed
from linoto.cli.usage import Commands, Parser, add_command, shown
from linoto.core.hints import amount, nearest

if TYPE_CHECKING:
    from linoto.core.arrays import Floats
    from linoto.logs.arms import ArmTable
    from linoto.logs.estimates import Estimate, Interval
    from linoto.logs.rows import Rows

INTERVAL_KINDS = ("auto", "normal", "bernstein", "hoeffding")  # estimates.INTERVAL_KINDS, without its imports

ONLY_FIXED = ("arms", "item", "id", "row", "policy", "arm_effects")
ONLY_CONTEXTS = ("candidates", "greedy")


def add_evaluate(commands: Commands) -> None:
    """`linoto evaluate`."""
    evaluate = add_command(
        commands,
        "evaluate",
        help="what another policy would have earned, from a log with propensities",
        description="Estimate what a target earns per round from rows that somebody else logged: by replay,\n"
        "inverse propensities (ips), self-normalised (snips) and doubly robust (dr), with intervals.\n\n"
        "The target is one arm (--play), a distribution over arms (--probabilities), or a policy that\n"
        "learns (--policy). A policy is warm-started from one part of the rows and replayed on the other:\n"
        "rows that a policy started from never evaluate it.\n\n"
        "With --recipe, what `linoto audit --save` wrote, LOG is one with contexts, such as the\n"
        "export of a loop: the target is then one item, a distribution over items, or the best item in\n"
        "each context by a linear model of earlier rows (--greedy).\n\n"
        "A log of vowpalwabbit, or a table like the Open Bandit Dataset (--format), needs no names of\n"
        "columns.",
        examples="  linoto evaluate orders.csv --item variant --reward order --uniform --play B\n"
        "  linoto evaluate log.parquet --arms arms.csv --item arm --reward click "
        "--propensity p --play B\n"
        "  linoto evaluate log.csv --arms arms.csv --item arm --reward click --uniform "
        "--policy Gated --budget 40\n"
        "  linoto evaluate played.parquet --recipe clicks.npz --reward reward --propensity propensity "
        "--greedy\n"
        "  linoto evaluate news.dsjson --play sport",
    )
    add_log_options(evaluate)
    target = evaluate.add_mutually_exclusive_group(required=True)
    target.add_argument("--play", metavar="ARM", help="always this arm")
    target.add_argument(
        "--probabilities", type=Path, metavar="FILE", help="CSV with an arm and its probability in each row"
    )
    target.add_argument(
        "--greedy", action="store_true", help="with contexts: the best item by the rows' own model"
    )
    target.add_argument(
        "--policy", help="Gated, LinOtO, or a policy as JSON, as linoto.to_dict writes it: it learns"
    )
    add_policy_options(evaluate)
    evaluate.add_argument(
        "--interval",
        choices=INTERVAL_KINDS,
        default="auto",
        help="kind of the intervals (default: auto, which holds for any number of rows if rewards are 0 or "
        "1 or have a --reward-range, and is normal elsewhere)",
    )
    evaluate.add_argument("--level", type=above_zero, default=0.95, help="how surely they cover")
    evaluate.add_argument("--seed", type=seed, default=0, help="of rejection, and of the policy")
    evaluate.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    evaluate.set_defaults(run=run_evaluate, refuse=evaluate.error, explorer=None, evidence=None)


def add_log_options(command: Parser) -> None:
    """The rows, and what their columns mean."""
    command.add_argument("log", metavar="LOG", help="CSV, Parquet or JSON lines; also a glob in quotes")
    command.add_argument(
        "--arms", help="one row per arm: its id and its features (default: the values of --item)"
    )
    add_id(command)
    add_arm_effects(command)
    add_item(command)
    command.add_argument(
        "--recipe", type=Path, metavar="STATS", help="of a log with contexts, instead of --arms"
    )
    command.add_argument(
        "--candidates",
        metavar="COL",
        help="with contexts: column of the items on offer, as A|C|D; empty: all",
    )
    command.add_argument("--reward", metavar="COL", help="column of what it earned; a table needs it")
    known = command.add_mutually_exclusive_group()
    known.add_argument("--propensity", metavar="COL", help="column of the probability of that choice")
    known.add_argument("--uniform", action="store_true", help="every arm was as likely in every row")
    command.add_argument("--row", metavar="COL", help="column that tells rows apart (default: their place)")
    command.add_argument(
        "--time", metavar="COL", help="column of the time: earlier rows warm-start, later ones evaluate"
    )
    add_format(command)
    add_reading_options(command)
    add_arms_notation(command)


def add_policy_options(command: Parser) -> None:
    """What a policy is told, and how many rows it starts from."""
    command.add_argument("--warm", type=above_zero, help="share of rows a policy starts from (default: 0.5)")
    add_gate_options(command)
    command.add_argument("--noise", type=noise, help="of a reward, or the word bounded (default: 1)")
    command.add_argument("--bound", type=above_zero, help="of the parameter (default: 1)")
    command.add_argument("--delta", type=above_zero, help="of the policy's promise (default: 0.05)")
    command.add_argument("--shift", type=at_least_zero, help="of average rewards since the log (default: 0)")
    command.add_argument(
        "--reward-range", type=number, nargs=2, metavar=("LO", "HI"), help="where rewards lie"
    )


def run_evaluate(arguments: argparse.Namespace) -> None:
    """`linoto evaluate`."""
    check_kind(arguments)
    check_options(arguments)
    rows, estimates, warm = with_known_columns(estimate, arguments)
    if arguments.json:
        facts = {"log": arguments.log, "rows": len(rows), "warm_rows": warm, "target": target_of(arguments)}
        facts["every_propensity_is_1"] = rows.all_certain
        print(json.dumps({**facts, "estimates": [found.to_dict() for found in estimates]}))
        return
    print_table([row_of(found) for found in estimates])
    notes = notes_on(estimates, warm, rows)
    if notes:
        print()
        print_facts(notes)


def check_kind(arguments: argparse.Namespace) -> None:
    """Refuse options of fixed arms beside a recipe, and the other way round."""
    other_package = known_format(arguments, ("reward",)) is not None
    if not other_package and arguments.propensity is None and not arguments.uniform:
        arguments.refuse("one of the arguments --propensity --uniform is required")
    if arguments.recipe is None and not other_package and arguments.item is None:
        arguments.refuse("--item is needed, or --recipe for a log with contexts")
    wrong, why = (
        (ONLY_CONTEXTS, "is for a log with contexts: give --recipe")
        if arguments.recipe is None
        else (ONLY_FIXED, "is for a log of fixed arms: leave it out beside --recipe")
    )
    for name in wrong:
        if getattr(arguments, name):
            arguments.refuse(f"--{name.replace('_', '-')} {why}")


def read_rows_in_context(arguments: argparse.Namespace) -> Rows:
    """The rows of a log, read by the recipe of this or of an earlier one."""
    from linoto.logs.read_rows import read_rows

    asked = argparse.Namespace(stats=arguments.recipe, paper=False)
    found = read_contexts(asked)
    if found is None:
        raise ValueError(f"{arguments.recipe} must be what linoto audit --save wrote, got something else")
    columns = named_columns(arguments)
    if arguments.candidates is not None:
        columns["candidates"] = arguments.candidates
    if known_format(arguments, ()) is None:
        rows = read_rows(arguments.log, recipe=found.recipe, **columns)
    else:
        rows = read_known(arguments).rows(recipe=found.recipe, **columns)
    return rows.uniform() if arguments.uniform else rows


def estimate_in_context(rows: Rows, target: Any, interval: Interval) -> list[Estimate]:
    """What the target would have earned, by each method whose interval is of this kind."""
    from linoto.logs.evaluate import evaluate

    methods = None if interval.kind in ("auto", "normal") else ("ips",)
    return evaluate(rows, target, methods=methods, interval=interval)


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse what would be ignored."""
    if arguments.policy is not None:
        return
    for name in ("warm", "budget", "epsilon", "alpha", "noise", "bound", "delta", "shift"):
        if getattr(arguments, name) is not None:
            arguments.refuse(f"--{name} is for --policy")


def estimate(arguments: argparse.Namespace) -> tuple[Rows, list[Estimate], int]:
    """The rows that were judged by, the estimates, and how many rows went into a warm start."""
    from linoto.logs.estimates import Interval

    interval = Interval(kind=arguments.interval, level=arguments.level, reward_range=limits_of(arguments))
    if arguments.recipe is None:
        arms, rows, in_time = read_arms_and_rows(arguments)
        return rows, *estimate_arms(rows, arms, in_time, arguments, interval)
    found = read_rows_in_context(arguments)
    if arguments.greedy:
        target: Any = "greedy"
    elif arguments.play is not None:
        target = arguments.play
    else:
        target = probabilities_of(arguments, found.names or ())
    return found, estimate_in_context(found, target, interval), 0


def read_arms_and_rows(arguments: argparse.Namespace) -> tuple[ArmTable, Rows, bool]:
    """The arms, the rows, and whether these are in the order of their time."""
    from dataclasses import replace

    from linoto.logs.arms import ArmTable
    from linoto.logs.read_rows import read_rows

    made = {"arm_effects": arguments.arm_effects}
    arms, options = own_arms(arguments, **made), {"id": arguments.row, **named_columns(arguments)}
    in_time = arguments.time is not None
    if known_format(arguments, ()) is None:
        rows = read_rows(arguments.log, arms=arms, **options)
        arms = arms or ArmTable.one_hot(list(rows.names or ()))
    else:
        found = read_known_arms(arguments, arms, **made)
        if found.candidates is not None:
            raise ValueError(
                f"{arguments.log}: not every action could be played in every row, so a target must choose "
                "among those that could: give --recipe, what linoto audit --save writes"
            )
        arms, rows, in_time = found.arms, found.rows(**options), in_time or found.time is not None
    return arms, replace(rows, propensities="uniform") if arguments.uniform else rows, in_time


def estimate_arms(
    rows: Rows, arms: ArmTable, in_time: bool, arguments: argparse.Namespace, interval: Interval
) -> tuple[list[Estimate], int]:
    """The estimates of a target among fixed arms, and how many rows went into a warm start."""
    from linoto.logs.evaluate import METHODS, evaluate
    from linoto.logs.rows import split

    if arguments.policy is not None:
        share = 0.5 if arguments.warm is None else arguments.warm
        if share >= 1:
            raise ValueError(
                f"--warm must be less than 1, got {shown(share)}: some rows must be left to evaluate on"
            )
        warm, held_out = split(rows, share=share, by="order" if in_time else "id")
        options: dict[str, Any] = {"actions": arms.actions, "warm_start": warm, "methods": ("replay",)}
        policy = policy_of(arguments)
        return evaluate(held_out, policy, seed=arguments.seed, interval=interval, **options), len(warm)
    methods = METHODS if interval.kind in ("auto", "normal") else ("replay", "ips")
    target = fixed_target(arguments, arms)
    return evaluate(rows, target, methods=methods, seed=arguments.seed, interval=interval), 0


def policy_of(arguments: argparse.Namespace) -> Any:
    """The policy that was asked for, with what it may lose."""
    return with_gate_options(read_policy(arguments), arguments)


def fixed_target(arguments: argparse.Namespace, arms: ArmTable) -> Any:
    """An arm's index, or (k,) probabilities."""
    if arguments.play is not None:
        return index_of(arguments.play, {name: arm for arm, name in enumerate(arms.names)}, "--play")
    return probabilities_of(arguments, arms.names)


def probabilities_of(arguments: argparse.Namespace, names: Sequence[str]) -> Floats:
    """(k,) the probabilities in the file that was named."""
    import numpy as np

    place = {name: arm for arm, name in enumerate(names)}
    probabilities = np.zeros(len(place))
    with arguments.probabilities.open(encoding="utf-8-sig", newline="") as file:
        for line, name, text in two_columns(file, arguments.probabilities):
            where = f"{arguments.probabilities}, line {line}"
            arm = index_of(name, place, where)
            try:
                probabilities[arm] += float(text)
            except ValueError:
                raise ValueError(f"{where}: a probability must be a number, got {text!r}") from None
    if not np.isfinite(probabilities).all() or abs(probabilities.sum() - 1) > 1e-6:
        raise ValueError(
            f"{arguments.probabilities}: probabilities must sum to 1, got {shown(float(probabilities.sum()))}"
        )
    return probabilities


def two_columns(file: TextIO, path: Path) -> Iterator[tuple[int, str, str]]:
    """The rows of a CSV file below its header, each with its line; empty lines are none."""
    reader = csv.reader(file)
    rows = (row for row in reader if any(cell.strip() for cell in row))
    header = next(rows, None)
    if header is None or len(header) != 2:
        raise ValueError(f"{path} must have two columns, an arm and its probability")
    for row in rows:
        if len(row) != 2:
            raise ValueError(f"{path}, line {reader.line_num}: must have two columns, got {len(row)}")
        yield reader.line_num, row[0], row[1]


def index_of(name: str, place: dict[str, int], where: str) -> int:
    """The index of an arm, or a ValueError with the nearest name."""
    from linoto.core.cells import text_of

    arm = place.get(text_of(name))
    if arm is None:
        raise ValueError(f"{where}: there is no arm {name!r}{nearest(name, place)}")
    return arm


def target_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was evaluated, for machines."""
    if arguments.policy is not None:
        from linoto.core.snapshots import to_dict

        return {"policy": to_dict(policy_of(arguments))}
    if arguments.greedy:
        return {"greedy": True}
    if arguments.play is not None:
        return {"arm": arguments.play}
    return {"probabilities": str(arguments.probabilities)}


def row_of(found: Estimate) -> dict[str, str]:
    """An estimate, for people."""
    return {
        "method": found.method,
        "reward per round": f"{amount(found.value)}",
        f"{found.level:.3g} interval": interval_of(found),
        "rows": str(found.used),
        "worth": f"{found.effective:.0f}",
        "largest weight": f"{found.largest_weight:.3g}",
    }


def interval_of(found: Estimate) -> str:
    """An interval for people; a normal one from few events would mislead them."""
    if found.interval == "normal" and not found.enough:
        return found.reason.partition(":")[0]
    return f"[{amount(found.low)}, {amount(found.high)}]"


def said(name: str, texts: dict[str, str]) -> list[tuple[str, str]]:
    """One line for each different text, with the methods it is about where there are several texts."""
    methods = {text: [method for method in texts if texts[method] == text] for text in texts.values()}
    if len(methods) == 1:
        return [(name, text) for text in methods]
    return [(name, f"{', '.join(about)}: {text}") for text, about in methods.items()]


def cautions_on(estimates: Sequence[Estimate]) -> list[tuple[str, str]]:
    """Which of the numbers are not to be acted on, and why."""
    return said("caution", {found.method: found.reason for found in estimates if not found.enough})


def notes_on(estimates: Sequence[Estimate], warm: int, rows: Rows) -> list[tuple[str, str]]:
    """What a reader should know before believing the numbers."""
    from linoto.logs.estimates import ALL_CERTAIN

    notes = [("propensities", ALL_CERTAIN)] if rows.all_certain else []
    if warm:
        notes.append(("warm start", f"{warm} other rows; they judged nothing"))
    notes += said("intervals hold", {found.method: found.holds for found in estimates})
    notes += cautions_on(estimates)
    worst = max(estimates, key=lambda found: found.unseen)
    if worst.unseen > 0:
        notes.append(("not seen", f"{worst.unseen:.1%} of the target is on arms that no row shows"))
    odd = next((found for found in estimates if not found.weights_fit), None)
    if odd is not None:
        text = f"weights average {odd.mean_weight:.3g} instead of 1: the propensities do not fit these rows"
        notes.append(("propensities", text))
    return notes
