"""`linoto preview`: what could be lost and gained, in worlds that the log finds plausible."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.audit import add_audited, audited_log, saved_log
from linoto.cli.log_options import COLUMNS, LEARNED
from linoto.cli.outputs import add_horizon, command_again
from linoto.cli.policy_options import AMOUNTS, add_stats_and_policy, read_policy, with_amounts
from linoto.cli.stats_file import (
    ENDINGS,
    FILE_HELP,
    Statistics,
    add_practice,
    assumption_facts,
    assumption_rows,
    practice_of,
    read_statistics,
    warn_of,
)
from linoto.cli.terminal import (
    above_zero,
    above_zero_or,
    file_to_write,
    grid,
    positive,
    print_facts,
    print_table,
    print_written,
    progress,
    whole_or_zero,
)
from linoto.cli.usage import Commands, add_command, add_engine, add_json, engine_of
from linoto.core.hints import UNIT, counted

if TYPE_CHECKING:
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.saved import SavedLog
    from linoto.worlds.gates import GatePreview
    from linoto.worlds.outcomes import GridPoint
    from linoto.worlds.plausible import Plausible
    from linoto.worlds.preview import Preview


OF_A_LOG = (*LEARNED, *COLUMNS, "id", "format", "query", "skip_bad", "rows")


def add_preview(commands: Commands) -> None:
    """`linoto preview`."""
    preview = add_command(
        commands,
        "preview",
        help="what could be lost and gained, in worlds that a log finds plausible",
        description="Draw worlds that could have written a log, play a policy in each over a grid of\n"
        "tolerances, and write one page: the most we can lose, what we stand to gain, and which\n"
        "tolerance fits a limit on the loss.\n\n" + FILE_HELP + "\n\n"
        "Instead of STATS it may be the LOG itself, with the options of `linoto audit`: then the rounds of\n"
        "the worlds are its rows, where it has contexts. Of STATS only sums are left to draw them by.",
        examples="  linoto preview --paper --limit 50\n"
        "  linoto preview log.npz --noise bounded --reward-range 0 1 --limit 100 --out page.html\n"
        "  linoto preview log.json --epsilon-grid 0.01,0.02,0.05 --horizon 2000 --worlds 100 --json\n"
        "  linoto preview clicks.csv --item item --reward click --category country",
    )
    add_stats_and_policy(preview)
    add_audited(preview)
    add_grids(preview)
    add_horizon(preview)
    preview.add_argument(
        "--limit", type=above_zero, metavar="LOSS", help="the most you can afford to lose, in all rounds"
    )
    add_worlds(preview)
    add_practice(preview)
    preview.add_argument("--unit", help="what rewards are counted in, as clicks or EUR")
    add_engine(preview, jobs="plays at a time")
    preview.add_argument("--out", type=file_to_write, default=Path("linoto-preview.html"), help="the page")
    add_json(preview)
    preview.set_defaults(run=run_preview, refuse=preview.error)


def add_grids(preview: argparse.ArgumentParser) -> None:
    """What is tried: one of the amounts that a gate may have."""
    group = preview.add_mutually_exclusive_group()
    group.add_argument("--budget-grid", type=grid, metavar="LIST", help="loss budgets to try, as 20,50,100")
    group.add_argument(
        "--epsilon-grid", type=grid, metavar="LIST", help="tolerances to try, as 0.01,0.02,0.05"
    )
    group.add_argument("--alpha-grid", type=grid, metavar="LIST", help="the same for LinOtO and Budget gates")


def add_worlds(preview: argparse.ArgumentParser) -> None:
    """In which worlds it is tried, and when it is told of rewards there."""
    preview.add_argument(
        "--worlds",
        type=positive,
        help="plausible worlds to play in (default: 30, fewer where many features make it slow)",
    )
    preview.add_argument(
        "--prior",
        type=above_zero,
        metavar="SD",
        help="how much the arms' average rewards differ, as a standard deviation (default: from the log)",
    )
    preview.add_argument(
        "--logged-arms",
        choices=("good", "random", "best"),
        help="how the logged arms were chosen: because somebody believed them good, so that untried ones are "
        "worse on average; at random; or as the best of all, so that no untried one is better than the worst "
        "of them (default: good; with contexts and --propensity, or --practice log, random)",
    )
    preview.add_argument(
        "--drift",
        type=above_zero_or("log"),
        metavar="SD|log",
        help="let average rewards move, so far until the last round (standard deviation), or as far as those "
        "of the log did (the word log), and play other gates in the same worlds",
    )
    preview.add_argument(
        "--delay",
        type=whole_or_zero,
        default=0,
        metavar="ROUNDS",
        help="rewards, and values of guardrails, are known so many rounds after the decision (default: at "
        "once); until then they count at their worst, or not at all",
    )


def run_preview(arguments: argparse.Namespace) -> None:
    """`linoto preview`."""
    show_preview(arguments)


def show_preview(arguments: argparse.Namespace) -> tuple[str, GridPoint | None]:
    """Print and write the preview: its verdict, and the best value that passes it whatever the limit is."""
    from linoto.pages.preview import TITLE, answers, judge, suggested, trust_text, write_preview
    from linoto.pages.shell import check_installed

    check_installed()
    found = read_statistics_or_log(arguments)
    log, source, _ = found
    policy = read_policy(arguments, log)
    result = preview_of(found, policy, arguments)
    unit = arguments.unit or UNIT
    gates = gates_of(log, result, arguments)
    path = write_preview(
        arguments.out,
        result,
        log.offline,
        names=log.names,
        source=source,
        command=command_again(arguments, "" if arguments.paper else str(arguments.stats)),
        limit=arguments.limit,
        unit=unit,
        gates=gates,
        audited=log,
    )
    lines = answers(result, arguments.limit, unit, log)
    verdict, _ = judge(result, arguments.limit, log)
    best = suggested(result)
    if arguments.json:
        facts = {"source": source, "answers": dict(lines), "unit": unit}
        facts |= result.to_dict(limit=arguments.limit) | assumption_facts(policy, log, arguments)
        facts |= {"verdict": verdict, "audited": log.verdict}
        facts |= {} if gates is None else {"gates": gates.to_dict()}
        print(json.dumps({**facts, "wrote": [str(path)]}))
        return verdict, best
    print(TITLE)
    rounds = ("Verdict", f"{verdict}, over {counted(result.horizon, 'round')} to come")
    beside = [] if result.no_better is None else [("Below", f"as above | {result.if_no_better}")]
    trust = ("How far to trust it", trust_text(result))
    print_facts([rounds, *lines, trust, *assumption_rows(policy, log, arguments), *beside])
    print()
    print_table([table_row(row, result) for row in result.table()])
    print_metrics(result)
    if gates is not None:
        print_gates(gates, unit)
    print_written([path])
    return verdict, best


def read_statistics_or_log(arguments: argparse.Namespace) -> Statistics:
    """What is known of a log: its statistics, or all that an audit finds in the log itself, and its rows."""
    path = None if arguments.stats is None else Path(arguments.stats)
    if path is None or (path.suffix.lower() in ENDINGS and arguments.reward is None):
        if said := arguments.command.as_typed(arguments, only=OF_A_LOG):
            arguments.refuse(f"{said[0]} describes a LOG, got {path or 'none'}: give --item and --reward too")
        return read_statistics(arguments)
    arguments.log = arguments.stats
    audit, rows = audited_log(arguments)
    log = saved_log(audit, arguments)
    warn_of(log)
    return Statistics(log, path.name, rows)


def preview_of(found: Statistics, policy: ComposedPolicy, arguments: argparse.Namespace) -> Preview:
    """The preview, with a bar."""
    from linoto.worlds.plausible import plausible
    from linoto.worlds.preview import preview

    log = found.log
    practice = practice_of(arguments, log)
    weights = {practice: 1.0} if isinstance(practice, str) else practice
    if practice == "given":  # it is in the rows, and what they played is all that is known of it
        weights = None
    rows: Any = found.rows
    known = plausible(log, None, rows=rows, practice=weights, seed=arguments.seed)
    name, asked = asked_grid(arguments)
    gate = known.gate_of(policy)
    if asked is not None and gate.parameters and name not in gate.parameters:
        raise ValueError(f"the parameter of this policy is {gate.varied}: give --{gate.varied}-grid")
    if asked is not None and name != gate.varied:  # the grid's parameter alone, with no other beside it
        policy = with_amounts(policy, {name: max(asked) or 1.0})
    if asked is None and arguments.policy == "Gated":
        policy = with_fitting_budget(policy, known, arguments)
    values = asked or values_to_try(policy, known, arguments)
    with progress("playing") as track:
        return preview(
            known,
            policy=policy,
            grid=values,
            horizon=arguments.horizon,
            worlds=arguments.worlds,
            prior=arguments.prior,
            logged_arms=arguments.logged_arms,
            drift=drift_of(log, arguments),
            delay=arguments.delay,
            least_misfit=log.least_misfit or 0.0,
            seed=arguments.seed,
            engine=engine_of(arguments),
            track=track,
        )


def drift_of(log: SavedLog, arguments: argparse.Namespace) -> float:
    """How far means move over the horizon: as given, as in the log if it lasted so long, or not at all."""
    if arguments.drift != "log":
        return arguments.drift or 0.0
    if log.drift is None:
        raise ValueError(
            "--drift log needs statistics that linoto audit --save wrote, of arms that were chosen early and "
            "late: give a number instead"
        )
    return float(log.drift * (arguments.horizon / log.offline.total) ** 0.5)


def gates_of(log: SavedLog, result: Preview, arguments: argparse.Namespace) -> GatePreview | None:
    """The gates in worlds that move, with the value that the answers are about; None without drift."""
    from linoto.pages.preview import chosen_point
    from linoto.worlds.gates import preview_gates

    chosen = chosen_point(result, arguments.limit)
    if result.drift == 0 or not chosen.certificate.holds:
        return None
    with progress("playing other gates") as track:
        return preview_gates(
            log.actions,
            log.offline,
            policy=without_guardrails(result.policy.with_parameter(result.parameter, chosen.value)),
            drift=result.drift,
            horizon=result.horizon,
            worlds=result.worlds,
            prior=arguments.prior,
            logged_arms=result.logged_arms,
            delay=result.delay,
            seed=result.seed,
            engine=engine_of(arguments),
            track=track,
        )


def without_guardrails(policy: ComposedPolicy) -> Any:
    """The policy that promises nothing but of the reward: gates are compared by it alone."""
    made: Any = policy
    return replace(made, guardrails=()) if getattr(policy, "guardrails", ()) else policy


def print_metrics(result: Preview) -> None:
    """What becomes of every guardrail."""
    from linoto.pages.preview import metric_tables

    for name, words, rows in metric_tables(result):
        print()
        below = [("below", "with guardrails | without any")] if result.unguarded else []
        print_facts([(name, words), *below])
        print()
        print_table(rows)


def print_gates(gates: GatePreview, unit: str) -> None:
    """Every gate in worlds that stand still and that move, and what kind of drift it is."""
    from linoto.pages.preview import gate_answer, gate_row
    from linoto.worlds.moving import drift_text

    print("\nIf the world moves")
    rows = [
        ("Drift", drift_text(gates.drift, unit, gates.horizon)),
        ("Gates", gate_answer(gates, unit)),
        ("Below", "in worlds that stand still | in the same worlds, moving"),
    ]
    print_facts([*rows, *((f"No {name}", why) for name, why in gates.missing.items())])
    print()
    print_table([short_row(gate_row(row, gates)) for row in gates.table()])


def short_row(row: dict[str, str]) -> dict[str, str]:
    """A gate on one line of a terminal: what it is in worlds that stand still, and in those that move."""
    gate, promised, still, moving, gain, moved, control = row.values()
    lost = f"{still.partition(' ')[0]} | {moving}"
    names = ("gate", "lose at most", "lost more", "mean gain", "control")
    return dict(zip(names, (gate, promised, lost, f"{gain} | {moved}", control), strict=True))


def asked_grid(arguments: argparse.Namespace) -> tuple[str, list[float] | None]:
    """The parameter whose grid was given, and its values."""
    for name in AMOUNTS:
        values = getattr(arguments, f"{name}_grid")
        if values is not None:
            return name, values
    return "", None


def with_fitting_budget(policy: ComposedPolicy, known: Plausible, arguments: argparse.Namespace) -> Any:
    """The usual policy with a loss budget that fits the log: one from the middle of the usual grid."""
    from linoto.worlds.preview import usual_grid

    budgeted = with_amounts(policy, {"budget": 1.0})
    values = usual_grid(budgeted, known, arguments.horizon)
    return budgeted.with_parameter("budget", values[len(values) // 2])


def values_to_try(policy: ComposedPolicy, known: Plausible, arguments: argparse.Namespace) -> list[float]:
    """The usual grid, and the value that just keeps to the limit."""
    from linoto.worlds.preview import usual_grid, value_for

    values = usual_grid(policy, known, arguments.horizon)
    if arguments.limit is None:
        return values
    exact = value_for(policy, known, limit=arguments.limit, horizon=arguments.horizon)
    return values if exact is None else [*values, exact]


def table_row(row: dict[str, Any], result: Preview) -> dict[str, str]:
    """A row of the terminal's table."""
    from linoto.pages.preview import heading, no_better_cells, value_cells
    from linoto.worlds.outcomes import FEW

    value, guaranteed, lost, _, gain, _, explored, first = value_cells(row, result)
    others = no_better_cells(row, result)
    return {
        heading(result.parameter): value,
        "lose at most": guaranteed,
        "9 worlds of 10" if result.worlds >= FEW else "worst world": " | ".join([lost, *others[:-1]]),
        "mean gain": " | ".join([gain, *others[-1:]]),
        "explored": explored,
        "first at": first,
    }
