"""`linoto create`: a loop of the service from the statistics of a log."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from linoto.cli.database_option import add_database, service_needed
from linoto.cli.log_options import add_guardrails
from linoto.cli.policy_options import add_amounts, add_arms_of_stats, add_stats_and_policy, read_policy
from linoto.cli.stats_file import (
    FILE_HELP,
    add_practice,
    assumption_facts,
    assumption_rows,
    practice_of,
    promise_rows,
    read_statistics,
)
from linoto.cli.terminal import above_zero, argument_type, number, print_facts, whole_or_zero
from linoto.cli.usage import Commands, Parser, add_command, add_json

if TYPE_CHECKING:
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.saved import SavedLog
    from linoto.service.loops.loop import Loop
    from linoto.service.storage.features import StoredArms

SHOWN = (
    "promise",
    "compared with",
    "most lost in all",
    "most lost in a stretch",
    "most lost per round",
    "probability",
)  # of the certificate


share = argument_type("a number from 0 to 0.9", float, lambda value: 0 <= value <= 0.9)  # of practice


def add_create(commands: Commands) -> None:
    """`linoto create`."""
    create = add_command(
        commands,
        "create",
        help="make a loop of the service from the statistics of a log",
        description="Make a loop that decides with a policy and starts from a log, in a database that is\n"
        "not being served; `linoto serve` then serves it. To add a loop to a running service, use\n"
        "the service itself: PUT /v1/loops/NAME, or linoto.Client.\n\n"
        + FILE_HELP
        + "\nThen --practice says what is done today.",
        examples="  linoto create banner stats.npz --budget 40\n"
        "  linoto create banner stats.npz --budget 40 --holdback 0.05 --window 3600 --db loops.sqlite\n"
        "  linoto create banner stats.npz --gate control --budget 40 --noise bounded --reward-range 0 1\n"
        "  linoto create shop clicks.npz --practice A=0.5 --practice B=0.5 --budget 40",
    )
    create.add_argument("name", metavar="NAME", help="of the loop, in addresses")
    add_stats_and_policy(create)
    add_arms_of_stats(create)
    add_amounts(create)
    add_guardrails(create)
    add_loop_options(create)
    add_database(create)
    add_json(create)
    create.set_defaults(run=run_create, refuse=create.error)


def add_loop_options(command: Parser) -> None:
    """What a loop needs beside its policy and its log."""
    add_practice(command)
    command.add_argument(
        "--default-reward",
        type=number,
        metavar="REWARD",
        help="of a decision whose reward never comes (default: the low end of the reward range)",
    )
    command.add_argument(
        "--missing-reward",
        choices=("unknown", "default"),
        default="unknown",
        help="what a decision means whose reward never comes: its reward is unknown (it was lost), or it did "
        "earn the default reward (only clicks are reported)",
    )
    command.add_argument("--unit", default="", help="what rewards are counted in: clicks, EUR")
    command.add_argument("--window", type=above_zero, default=86400.0, help="seconds that a reward may take")
    command.add_argument(
        "--holdback",
        type=share,
        default=0.0,
        help="share of decisions that current practice keeps, from 0 to 0.9; with --gate control, of those "
        "in which the policy wants another arm (default there: as the gate chooses)",
    )
    command.add_argument(
        "--redraws",
        type=whole_or_zero,
        default=100,
        help="draws of each decision that Thompson sampling made, for its propensity; 0: it has none",
    )


def run_create(arguments: argparse.Namespace) -> None:
    """`linoto create`."""
    from linoto.core.opening import SPENT

    log, source, _ = read_statistics(arguments)
    policy = read_policy(arguments, log)
    parts, stored = loop_parts(arguments, log)
    loop, made = make_loop(arguments, policy, parts, source, stored)
    certificate = loop.certificate
    if arguments.json:
        facts = {"loop": loop.name, "db": str(arguments.db), "made": made, "contexts": "recipe" in parts}
        facts |= {"missing_reward": loop.spec.missing_reward, "default_reward": loop.spec.default_reward}
        facts |= assumption_facts(policy, log, arguments)
        print(json.dumps({**facts, "certificate": certificate.to_dict()}))
        return
    found = f"{'made' if made else 'there is already'} {log.features.loop}"
    print(f"{found} {loop.name!r} in {arguments.db}, from {source}")
    why = {"why"} if SPENT in certificate.theorem else set()  # what the gate warns of
    named = {*SHOWN, *why, *(rail.label for rail in certificate.guardrails)}
    promised = promise_rows(certificate, [row for row in certificate.rows() if row[0] in named], log)
    print_facts([*assumption_rows(policy, log, arguments), *default_rows(loop, arguments), *promised])


def default_rows(loop: Loop, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """What a reward that never comes earns: of costs the low end is the worst, and seldom what is meant."""
    from linoto.core.validation import exact

    if loop.spec.missing_reward == "default":
        low = arguments.default_reward is None
        taken = " (the low end of the reward range; --default-reward says another)" if low else ""
        yield "a reward that never comes", f"earned {exact(loop.spec.default_reward)}{taken}"


def loop_parts(arguments: argparse.Namespace, log: SavedLog) -> tuple[dict[str, Any], StoredArms | None]:
    """What the loop starts from: its log, and what is done today where somebody must say so.

    Of very many arms their file too, which the database then has.
    """
    from linoto.core.one_hot import is_compact

    with service_needed():
        from linoto.service.loops import recipe_spec, spec
        from linoto.service.loops.fixed_arms import checked_count
        from linoto.service.storage.features import check_lengths

    practice = practice_of(arguments, log, needed=True)
    check_lengths(log.names)
    stored = by_file(log)
    if stored is not None:
        return {"features": stored.sha256, "offline": spec.as_statistics(log.offline)}, stored
    if log.recipe is None and is_compact(log.actions):  # without features others can be added
        checked_count(len(log.names))
        arms = [spec.Arm(name=name) for name in log.names]
        return {"arms": arms, "offline": spec.as_statistics(log.offline), "practice": practice}, None
    written: dict[str, Callable[[Any], Any]] = {
        "arms": lambda arms: [spec.Arm(name=name, features=arms[name]) for name in arms],
        "offline": spec.as_statistics,
        "recipe": recipe_spec.as_spec,
        "moments": lambda moments: recipe_spec.as_statistics(moments, log.offline),
    }
    parts = {name: written[name](part) for name, part in log.features.to_create.items()}
    return {**parts, "practice": practice}, None


def by_file(log: SavedLog) -> StoredArms | None:
    """The arms as a file, where they are too many for a list."""
    import numpy as np

    from linoto.service.loops.fixed_arms import MOST_NUMBERS
    from linoto.service.storage.features import arms_of_file

    if log.recipe is not None or log.arms.featureless:
        return None
    actions = log.actions
    large = actions.dtype == np.float32 or actions.size > MOST_NUMBERS
    return arms_of_file(actions, log.names) if large else None


def make_loop(
    arguments: argparse.Namespace,
    policy: ComposedPolicy,
    parts: dict[str, Any],
    source: str,
    stored: StoredArms | None,
) -> tuple[Loop, bool]:
    """The loop, in the database, and whether it is new."""
    from linoto.core.snapshots import to_dict

    with service_needed():
        from linoto.service.loops.spec import LoopSpec, canonical
        from linoto.service.maintenance import create_loop

    spec = LoopSpec(
        policy=to_dict(policy),
        default_reward=default_reward(arguments, policy),
        description=f"from {source}",
        missing_reward=arguments.missing_reward,
        unit=arguments.unit,
        window=arguments.window,
        holdback=arguments.holdback,
        redraws=arguments.redraws,
        **parts,
    )
    return create_loop(arguments.db, arguments.name, canonical(spec), arms=stored)


def default_reward(arguments: argparse.Namespace, policy: ComposedPolicy) -> float:
    """What a decision counts as whose reward never comes: the worst there is, unless told otherwise."""
    if arguments.default_reward is not None:
        return float(arguments.default_reward)
    limits = policy.composed().assumed.reward_range
    if limits is not None:
        return float(limits[0])
    raise arguments.refuse("give --default-reward, or --reward-range whose low end it then is")  # it exits
