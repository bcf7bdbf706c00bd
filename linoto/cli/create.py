"""`linoto create`: a loop of the service from the statistics of a log."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from linoto.cli.assumptions import assumption_rows, audit_facts, promise_rows
from linoto.cli.database import add_database, service_needed
from linoto.cli.log_and_policy import (
    FILE_HELP,
    ArmsAndLog,
    add_gate_options,
    add_log_and_policy,
    read_policy,
    read_statistics,
    with_gate_options,
)
from linoto.cli.terminal import above_zero, number, print_facts
from linoto.cli.usage import Commands, add_command

if TYPE_CHECKING:
    from linoto.core.protocols import ComposedPolicy
    from linoto.service.loops.loop import Loop

SHOWN = ("promise", "most lost in all", "most lost per round", "probability")  # of the certificate


def add_create(commands: Commands) -> None:
    """`linoto create`."""
    create = add_command(
        commands,
        "create",
        help="make a loop of the service from the statistics of a log",
        description="Make a loop that decides with a policy and starts from a log, in a database that is\n"
        "not being served; `linoto serve` then serves it. To add a loop to a running service, use\n"
        "the service itself: POST /v1/loops, or linoto.Client.\n\n" + FILE_HELP,
        examples="  linoto create banner stats.npz --budget 40\n"
        "  linoto create banner stats.npz --budget 40 --holdback 0.05 --window 3600 --db loops.sqlite\n"
        "  linoto create banner stats.npz --gate control --budget 40 --noise bounded --reward-range 0 1",
    )
    create.add_argument("name", metavar="NAME", help="of the loop, in addresses")
    add_log_and_policy(create)
    add_gate_options(create)
    add_loop_options(create)
    add_database(create)
    create.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    create.set_defaults(run=run_create, refuse=create.error)


def add_loop_options(command: Any) -> None:
    """What a loop needs beside its policy and its log."""
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


def share(text: str) -> float:
    """A share that a control group may have, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 0.9:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 0.9, got {text!r}")
    return value


def run_create(arguments: argparse.Namespace) -> None:
    """`linoto create`."""
    log = read_statistics(arguments)
    policy = with_gate_options(read_policy(arguments, log), arguments)
    loop, made = make_loop(arguments, log, policy)
    certificate = loop.certificate
    if arguments.json:
        facts = {"loop": loop.name, "db": str(arguments.db), "made": made}
        facts |= audit_facts(policy, log, arguments)
        print(json.dumps({**facts, "certificate": certificate.to_dict()}))
        return
    print(f"{'made' if made else 'there is already'} loop {loop.name!r} in {arguments.db}, from {log.source}")
    promised = promise_rows([row for row in certificate.rows() if row[0] in SHOWN], log)
    print_facts([*assumption_rows(policy, log, arguments), *promised])


def make_loop(arguments: argparse.Namespace, log: ArmsAndLog, policy: ComposedPolicy) -> tuple[Loop, bool]:
    """The loop, in the database, and whether it is new."""
    from linoto.core.snapshots import to_dict

    with service_needed():
        from linoto.service.loops.spec import Arm, LoopSpec, as_statistics, canonical
        from linoto.service.maintenance import create_loop

    arms = zip(log.names, log.actions.tolist(), strict=True)
    spec = LoopSpec(
        arms=[Arm(name=name, features=action) for name, action in arms],
        policy=to_dict(policy),
        default_reward=default_reward(arguments, policy),
        offline=as_statistics(log.offline),
        description=f"from {log.source}",
        missing_reward=arguments.missing_reward,
        unit=arguments.unit,
        window=arguments.window,
        holdback=arguments.holdback,
    )
    return create_loop(arguments.db, arguments.name, canonical(spec))


def default_reward(arguments: argparse.Namespace, policy: ComposedPolicy) -> float:
    """What a decision counts as whose reward never comes: the worst there is, unless told otherwise."""
    if arguments.default_reward is not None:
        return float(arguments.default_reward)
    limits = policy.composed().assumed.reward_range
    if limits is not None:
        return float(limits[0])
    raise arguments.refuse("give --default-reward, or --reward-range whose low end it then is")  # it exits
