"""`linoto evaluate`: what another policy would have earned, from logged rows alone."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from linoto.cli.log_options import (
    LEARNED,
    add_log_options,
    known_format,
    open_log,
    ranged_guardrails,
    read_guardrails,
    refused_columns,
    source_of,
)
from linoto.cli.outputs import limits_of
from linoto.cli.policy_options import add_amounts, add_promise, add_rewards, named_policy, read_policy
from linoto.cli.stats_file import add_practice, practice_among
from linoto.cli.terminal import above_zero, print_facts, print_table, seed
from linoto.cli.usage import Commands, Parser, add_command, add_json, shown
from linoto.core.hints import amount, nearest

if TYPE_CHECKING:
    from linoto.core.arrays import Floats
    from linoto.core.features.recipe import Recipe
    from linoto.core.guardrail import Guardrail
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.arms import ArmTable
    from linoto.logs.estimates import Estimate
    from linoto.logs.rows import Rows

WAYS_TO_LEARN = ("pessimistic", "doubly-robust")
BASELINES = ("against_log", "against", "against_learnt")
INTERVAL_KINDS = ("auto", "normal", "bernstein", "hoeffding")  # estimates.INTERVAL_KINDS, without its imports


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
        "Or it is what is learnt from one part of the rows and judged on the other (--learn), or the best\n"
        "arm by a model of earlier rows (--greedy): where columns of a context are named\n"
        "(--numeric, --category, --cross, as in `linoto audit`) the best in each context, by a linear\n"
        "model. With --recipe, what `linoto audit --save` wrote of a log, its columns are those of that\n"
        "log: such as for the export of a loop.\n\n"
        "With --against-log, --against or --against-learnt a second table says how much more the target\n"
        "earns than that: a difference on the same rows, with an interval of its own.\n\n"
        "With --guardrail every metric is estimated too, from the rows that have a value of it, and\n"
        "--policy Gated is replayed with these guardrails, behind a Control gate. With contexts a policy\n"
        "that plays what is done today needs to know that (--practice): rows do not say it, unless all\n"
        "arms were as likely (--uniform).\n\n"
        "A log of vowpalwabbit, or a table like the Open Bandit Dataset (--format), needs no names of\n"
        "columns.",
        examples="  linoto evaluate orders.csv --item variant --reward order --uniform --play B\n"
        "  linoto evaluate log.parquet --arms arms.csv --item arm --reward click "
        "--propensity p --play B\n"
        "  linoto evaluate log.csv --arms arms.csv --item arm --reward click --uniform "
        "--policy Gated --budget 40\n"
        "  linoto evaluate clicks.csv --item item --reward click --propensity p --category country "
        "--greedy\n"
        "  linoto evaluate played.parquet --recipe clicks.npz --reward reward --propensity propensity "
        "--greedy\n"
        "  linoto evaluate clicks.csv --item item --reward click --propensity p --category country "
        "--learn --warm 0.7\n"
        "  linoto evaluate news.dsjson --play sport",
    )
    add_rows_options(evaluate)
    add_target(evaluate)
    add_baseline(evaluate)
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
    add_json(evaluate)
    evaluate.set_defaults(run=run_evaluate, refuse=evaluate.error, explorer=None, evidence=None, gate=None)


def add_target(command: Parser) -> None:
    """What is judged: one of these."""
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--play", metavar="ARM", help="always this arm")
    target.add_argument(
        "--probabilities", type=Path, metavar="FILE", help="CSV with an arm and its probability in each row"
    )
    target.add_argument(
        "--greedy", action="store_true", help="the best arm by the rows' own model, in each context"
    )
    target.add_argument(
        "--learn",
        nargs="?",
        const=WAYS_TO_LEARN[0],
        choices=WAYS_TO_LEARN,
        help="what linoto.learn_policy learns from one part of the rows, judged on the other: pessimistic, "
        "which stays near to what was done where rows are few, or doubly-robust (default: pessimistic)",
    )
    target.add_argument(
        "--policy", help="Gated, LinOtO, or a policy as JSON, as linoto.to_dict writes it: it learns"
    )


def add_baseline(command: Parser) -> None:
    """What the target is to earn more than: one of these."""
    baseline = command.add_mutually_exclusive_group()
    baseline.add_argument(
        "--against-log", action="store_true", help="also how much more than what was logged, on the same rows"
    )
    baseline.add_argument("--against", metavar="ARM", help="how much more than this arm")
    baseline.add_argument(
        "--against-learnt",
        nargs="?",
        const=WAYS_TO_LEARN[0],
        choices=WAYS_TO_LEARN,
        help="how much more than what is learnt from one part of the rows (default: pessimistic)",
    )


def add_rows_options(command: Parser) -> None:
    """The rows, and what their columns mean."""
    command.add_argument("log", metavar="LOG", help="CSV, Parquet or JSON lines; also a glob in quotes")
    chances = add_log_options(command)
    chances.add_argument("--uniform", action="store_true", help="every arm was as likely in every row")
    command.add_argument(
        "--recipe", type=Path, metavar="STATS", help="of a log with contexts, instead of its columns and arms"
    )
    command.add_argument(
        "--candidates", metavar="COL", help="column of the arms on offer, as A|C|D; empty: all"
    )
    command.add_argument("--row", metavar="COL", help="column that tells rows apart (default: their place)")


def add_policy_options(command: Parser) -> None:
    """What a policy is told, and how many rows it starts from."""
    command.add_argument(
        "--warm", type=above_zero, help="share of rows that a policy starts or learns from (default: 0.5)"
    )
    add_practice(command, sent=False)
    add_amounts(command)
    add_rewards(command, "1")
    add_promise(command)


def run_evaluate(arguments: argparse.Namespace) -> None:
    """`linoto evaluate`."""
    check_options(arguments)
    with refused_columns(arguments):
        rows, estimates, warm, policy = estimate(arguments)
    if arguments.json:
        from linoto.logs.doubts import doubts_of
        from linoto.logs.tables import source_name

        log = source_name(source_of(arguments))  # without a password
        facts = {"log": log, "rows": len(rows), "warm_rows": warm, "target": target_of(arguments, policy)}
        if known := baseline_of(arguments):
            facts |= {"baseline": known, "verdict": dict(verdict_on(estimates))["verdict"]}
        facts |= {
            "every_propensity_is_1": rows.all_certain,
            "notes": (*rows.notes, *doubts_of(estimates, rows)),
        }
        print(json.dumps({**facts, "estimates": [found.to_dict() for found in estimates]}))
        return
    print_tables(estimates)
    notes = notes_on(estimates, warm, rows)
    if notes:
        print()
        print_facts(notes)


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse what is missing, and what would be ignored."""
    a, is_table = arguments, known_format(arguments, ("reward",)) is None
    if is_table and a.propensity is None and not a.uniform:
        a.refuse("one of the arguments --propensity --uniform is required")
    if is_table and a.recipe is None and a.item is None:
        a.refuse("--item is needed, or --recipe for a log with contexts")
    if a.recipe is not None and (known := a.command.as_typed(a, only=LEARNED)):
        a.refuse(f"{known[0]} is what --recipe knows: leave one of them out")
    if a.policy is None and a.learn is None and a.against_learnt is None and a.warm is not None:
        a.refuse("--warm is for --policy, --learn and --against-learnt")
    if a.policy is not None and (known := a.command.as_typed(a, only=BASELINES)):
        a.refuse(f"{known[0]} is not for --policy, which a replay judges by other rows than its baseline")
    for name in ("practice", "budget", "epsilon", "alpha", "noise", "bound", "delta", "shift"):
        if a.policy is None and getattr(a, name) not in (None, []):
            a.refuse(f"--{name} is for --policy")


def estimate(arguments: argparse.Namespace) -> tuple[Rows, list[Estimate], int, ComposedPolicy | None]:
    """The rows that were judged by, the estimates, how many rows went into a warm start, and the policy."""
    from linoto.logs.arms import ArmTable
    from linoto.logs.estimates import Interval
    from linoto.logs.evaluate import evaluate
    from linoto.logs.learning import learn_policy
    from linoto.logs.row_kinds import kind_of

    interval = Interval(kind=arguments.interval, level=arguments.level, reward_range=limits_of(arguments))
    options: dict[str, Any] = {"seed": arguments.seed, "interval": interval}
    refuse_bounds(arguments)
    options["guardrails"] = ranged_guardrails(arguments)
    rows, arms, in_time = read_rows_and_arms(arguments)
    if arguments.policy is None and interval.kind not in ("auto", "normal"):
        options["methods"] = ("ips",) if arguments.greedy else ("replay", "ips")
    if arguments.policy is None and arguments.learn is None and arguments.against_learnt is None:
        options["baseline"] = fixed_baseline(arguments, rows)
        return rows, evaluate(rows, fixed_target(arguments, rows), **options), 0, None
    warm, held_out = parts_of(rows, arguments, in_time=in_time)
    options["baseline"] = fixed_baseline(arguments, held_out)
    if arguments.against_learnt is not None:
        options["baseline"] = learn_policy(warm, method=arguments.against_learnt.replace("-", " "))
    if arguments.policy is None:
        way = arguments.learn and arguments.learn.replace("-", " ")
        target = learn_policy(warm, method=way) if way else fixed_target(arguments, held_out)
        return rows, evaluate(held_out, target, **options), len(warm), None
    actions = (arms or ArmTable.one_hot(list(rows.names or ()))).actions
    rails, moments = guardrails_in(rows, warm, arguments), kind_of(warm).moments
    coins = (bool(rails) or moments is not None) and arguments.policy == "Gated" and is_binary(rows.rewards)
    seen = {"noise": "bounded", "reward_range": (0.0, 1.0)} if coins else None  # as an audit has it
    policy = read_policy(arguments, rails=rails, seen=seen, moments=moments, recipe=warm.recipe)
    practice = practice_in(warm, arguments)
    found = evaluate(held_out, policy, actions=actions, warm_start=warm, practice=practice, **options)
    return rows, found, len(warm), policy


def practice_in(warm: Rows, arguments: argparse.Namespace) -> dict[str, float] | None:
    """What is done today where rows have contexts: as it is said, or all arms alike if these were uniform."""
    from linoto.logs.row_kinds import kind_of

    names, given = warm.names or (), list(arguments.practice)
    in_contexts = kind_of(warm).moments is not None
    if given and not in_contexts:
        arguments.refuse("--practice is for contexts: without them the early rows are what is done today")
    if given == ["given"]:
        arguments.refuse("--practice must be what can be played in rows, got given: nobody sends it there")
    if not given:
        return dict.fromkeys(names, 1.0) if in_contexts and arguments.uniform else None
    found = practice_among(given, names, warm.offline, sent=False)
    return {found: 1.0} if isinstance(found, str) else found


def refuse_bounds(arguments: argparse.Namespace) -> None:
    """No model pays here, so a bound of a metric would be ignored."""
    for rail in read_guardrails(arguments):
        if rail.bound is not None:
            arguments.refuse(
                f"argument --guardrail: {rail.name!r} must have no bound here, got {rail.bound:g}: policies "
                "are replayed behind a Control gate, where no model pays"
            )


def guardrails_in(rows: Rows, warm: Rows, arguments: argparse.Namespace) -> tuple[Guardrail, ...]:
    """The guardrails that were asked for, with what rows say of their ranges, and early ones of practice."""
    found = []
    for rail in read_guardrails(arguments):
        values, early = rows.about(rail.name).rewards, warm.about(rail.name).rewards
        ends, mean = (float(values.min()), float(values.max())), float(early.mean())
        found.append(rail.in_log(ends, binary=is_binary(values), mean=mean, where=arguments.log))
    return tuple(found)


def is_binary(values: Floats) -> bool:
    """Whether every value is 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())


def parts_of(rows: Rows, arguments: argparse.Namespace, *, in_time: bool) -> tuple[Rows, Rows]:
    """The rows that a policy starts or learns from, and those that judge it: the later ones in time."""
    from linoto.logs.rows import split

    share = 0.5 if arguments.warm is None else arguments.warm
    if share >= 1:
        raise ValueError(
            f"--warm must be less than 1, got {shown(share)}: some rows must be left to evaluate on"
        )
    return split(rows, share=share, by="order" if in_time else "id")


def read_rows_and_arms(arguments: argparse.Namespace) -> tuple[Rows, ArmTable | None, bool]:
    """The rows, their arms where these have features, and whether rows are in the order of their time."""
    opened = open_log(arguments)
    recipe = read_recipe(arguments.recipe) if arguments.recipe is not None else opened.recipe()
    options = {"id": arguments.row, "candidates": arguments.candidates}
    own = () if arguments.policy is None else getattr(named_policy(arguments.policy), "guardrails", ())
    options["metrics"] = [rail.name for rail in own]
    rows = opened.rows(recipe=recipe, **{name: value for name, value in options.items() if value is not None})
    arms = opened.arms if opened.other is None else opened.other.arms
    return rows.uniform() if arguments.uniform else rows, arms, opened.in_time


def read_recipe(path: Path) -> Recipe:
    """The recipe in what an audit saved of a log with contexts."""
    from linoto.logs.saved import SAVED, load

    try:
        log = load(path)
    except (OSError, ValueError):
        raise ValueError(f"{path} must be {SAVED}, got something else") from None
    return log.features.recipe


def fixed_target(arguments: argparse.Namespace, rows: Rows) -> Any:
    """A target that does not learn while it is judged: an arm, (k,) probabilities, or "greedy"."""
    from linoto.logs.targets import Word

    if arguments.greedy:
        return Word("greedy")
    if arguments.play is not None:
        return always(arguments.play, rows, "--play")
    return probabilities_of(arguments, rows.names or ())


def fixed_baseline(arguments: argparse.Namespace, rows: Rows) -> Any:
    """What the target is to earn more than, where no rows are needed to learn it."""
    from linoto.logs.targets import Word

    if arguments.against_log:
        return Word("logged")
    return None if arguments.against is None else always(arguments.against, rows, "--against")


def always(name: str, rows: Rows, option: str) -> Any:
    """The arm of this name in every row: an arm, whatever else its name may mean."""
    from linoto.logs.targets import one_arm

    arm = index_of(name, {known: place for place, known in enumerate(rows.names or ())}, option)
    return one_arm(arm, rows).on_offer(rows)


def probabilities_of(arguments: argparse.Namespace, names: Sequence[str]) -> Floats:
    """(k,) the probabilities in the file that was named."""
    import numpy as np

    place, seen = {name: arm for arm, name in enumerate(names)}, set()
    probabilities = np.zeros(len(place))
    with arguments.probabilities.open(encoding="utf-8-sig", newline="") as file:
        for line, name, text in two_columns(file, arguments.probabilities):
            where = f"{arguments.probabilities}, line {line}"
            arm = index_of(name, place, where)
            if arm in seen:
                raise ValueError(f"{where}: an arm must be named once, got {name!r} again")
            seen.add(arm)
            try:
                probabilities[arm] = float(text)
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
    if is_amount(header[1]):
        raise ValueError(f"{path} must begin with the names of its columns, got {','.join(header)}")
    for row in rows:
        if len(row) != 2:
            raise ValueError(f"{path}, line {reader.line_num}: must have two columns, got {len(row)}")
        yield reader.line_num, row[0], row[1]


def is_amount(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def index_of(name: str, place: dict[str, int], where: str) -> int:
    """The index of an arm, or a ValueError with the nearest name."""
    from linoto.core.cells import text_of

    arm = place.get(text_of(name))
    if arm is None:
        raise ValueError(f"{where}: there is no arm {name!r}{nearest(name, place)}")
    return arm


def target_of(arguments: argparse.Namespace, policy: ComposedPolicy | None) -> dict[str, Any]:
    """What was evaluated, for machines."""
    if policy is not None:
        from linoto.core.snapshots import to_dict

        return {"policy": to_dict(policy)}
    if arguments.greedy:
        return {"greedy": True}
    if arguments.learn is not None:
        return {"learn": arguments.learn}
    if arguments.play is not None:
        return {"arm": arguments.play}
    return {"probabilities": str(arguments.probabilities)}


def baseline_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What it was compared with, for machines; empty where nothing was."""
    if arguments.against_log:
        return {"logged": True}
    if arguments.against_learnt is not None:
        return {"learn": arguments.against_learnt}
    return {} if arguments.against is None else {"arm": arguments.against}


def row_of(found: Estimate) -> dict[str, str]:
    """An estimate, for people."""
    from linoto.core.guardrail import labelled

    what = labelled(found.metric) if found.metric else "reward"
    if found.beyond:
        what = f"more {what}" if found.metric else "gain"
    return {
        "method": found.method,
        f"{what} per round": "?" if is_unknown(found) else amount(found.value),
        f"{found.level:.3g} interval": interval_of(found),
        "rows": str(found.used),
        "worth": f"{found.effective:.0f}",
        "largest weight": f"{found.largest_weight:.3g}",
    }


def tables_of(estimates: Sequence[Estimate]) -> list[list[dict[str, str]]]:
    """What was estimated of the reward and of each metric, one table each, and beyond a baseline."""
    kinds = dict.fromkeys((found.beyond, found.metric) for found in estimates)
    return [[row_of(found) for found in estimates if (found.beyond, found.metric) == kind] for kind in kinds]


def print_tables(estimates: Sequence[Estimate]) -> None:
    """One table below the other."""
    for place, table in enumerate(tables_of(estimates)):
        if place:
            print()
        print_table(table)


def label_of(found: Estimate) -> str:
    """What an estimate is called in a note."""
    about = f" of {found.metric}" if found.metric else ""
    return f"{found.method}{about} beyond {found.beyond}" if found.beyond else f"{found.method}{about}"


def is_unknown(found: Estimate) -> bool:
    """Whether a method has no answer for these rows."""
    from linoto.logs.estimates import CANNOT_TELL

    return found.reason.startswith(CANNOT_TELL)


def interval_of(found: Estimate) -> str:
    """An interval for people; a normal one from few events would mislead them."""
    if is_unknown(found) or (found.interval == "normal" and not found.enough):
        return found.reason.partition(":")[0]
    return f"[{amount(found.low)}, {amount(found.high)}]"


def has_several(estimates: Sequence[Estimate]) -> bool:
    """Whether there are estimates of more than the reward."""
    return any(found.metric or found.beyond for found in estimates)


def said(name: str, texts: dict[str, str], *, several: bool) -> list[tuple[str, str]]:
    """One line for each different text, with what it is about, unless that is all of the reward."""
    methods = {text: [method for method in texts if texts[method] == text] for text in texts.values()}
    if len(methods) == 1 and not several:
        return [(name, text) for text in methods]
    return [(name, f"{', '.join(about)}: {text}") for text, about in methods.items()]


def cautions_on(estimates: Sequence[Estimate]) -> list[tuple[str, str]]:
    """Which of the numbers are not to be acted on, and why."""
    reasons = {label_of(found): found.reason for found in estimates if not found.enough}
    return said("caution", reasons, several=has_several(estimates))


def doubts_on(estimates: Sequence[Estimate], rows: Rows) -> list[tuple[str, str]]:
    """What speaks against the propensities that they rest on."""
    from linoto.logs.doubts import doubts_of

    return [("doubt", text) for text in doubts_of(estimates, rows)]


def notes_on(estimates: Sequence[Estimate], warm: int, rows: Rows) -> list[tuple[str, str]]:
    """What a reader should know before believing the numbers."""
    from linoto.logs.estimates import ALL_CERTAIN

    notes = [("propensities", ALL_CERTAIN)] if rows.all_certain else []
    if warm:
        started = any(found.learnt for found in estimates) and "learnt from"
        notes.append((started or "warm start", f"{warm} other rows; they judged nothing"))
    notes += verdict_on(estimates)
    holds = {label_of(found): found.holds for found in estimates}
    notes += said("intervals hold", holds, several=has_several(estimates))
    notes += cautions_on(estimates)
    notes += unseen_in(estimates)
    notes += [("note", note) for note in rows.notes]
    return [*notes, *odd_weights(estimates), *doubts_on(estimates, rows), *features_of(rows.recipe)]


def verdict_on(estimates: Sequence[Estimate]) -> list[tuple[str, str]]:
    """Whether the target earns more than its baseline, by what says most about it."""
    gains = [found for found in estimates if found.beyond and not found.metric]
    if not gains:
        return []
    sure = [found for found in reversed(gains) if found.enough]
    if gains[0].low == gains[0].high == gains[0].effective == 0 and gains[0].enough:
        return [("verdict", f"it plays the same as {gains[0].beyond} in each of these rows")]
    if not sure or sure[0].low <= 0 <= sure[0].high:
        return [("verdict", f"cannot tell whether it earns more or less than {gains[0].beyond}")]
    found, word = sure[0], "more" if sure[0].low > 0 else "less"
    ends = sorted((abs(found.low), abs(found.high)))
    text = f"{amount(ends[0])} to {amount(ends[1])} {word} per round than {found.beyond}"
    return [("verdict", f"{text} ({found.method}, {found.level:.3g} interval)")]


def unseen_in(estimates: Sequence[Estimate]) -> list[tuple[str, str]]:
    """How much of the target, or of it and its baseline, is on arms that no row shows."""
    alone = max(found.unseen for found in estimates if not found.beyond)
    worst = max(found.unseen for found in estimates)
    shares = [(alone, "the target")] if alone > 0 else []
    shares += [(worst, "the baseline")] if worst > alone else []
    return [("not seen", f"{share:.1%} of {what} is on arms that no row shows") for share, what in shares]


def features_of(recipe: Recipe | None) -> list[tuple[str, str]]:
    """What the models of this command are linear in, where rows have a context."""
    from linoto.core.hints import counted, shortened_list

    if recipe is None:
        return []
    crosses = shortened_list([" × ".join(cross) for cross in recipe.crosses])
    curves = shortened_list([column.name for column in recipe.context if column.kind == "spline"])
    parts = {"crossed": crosses or "nothing", "curves": curves}
    told = "; ".join(f"{name}: {text}" for name, text in parts.items() if text)
    return [("features", f"{counted(recipe.d, 'feature')}; {told}")]


def odd_weights(estimates: Sequence[Estimate]) -> list[tuple[str, str]]:
    """Weights that are not 1 on average, and why: of the reward, or of a metric whose values are missing."""
    from linoto.logs.odd_weights import BY_PLAY, ODD

    odd = {found.metric: found for found in reversed(estimates) if not found.weights_fit}
    if "" in odd:
        whose = " of the baseline" if odd[""].beyond else ""
        return [("propensities", f"weights{whose} average {odd[''].mean_weight:.3g} instead of 1: {ODD}")]
    return [
        ("missing values", f"of {metric}: weights average {found.mean_weight:.3g} instead of 1: {BY_PLAY}")
        for metric, found in odd.items()
    ]
