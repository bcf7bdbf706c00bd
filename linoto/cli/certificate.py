"""`linoto certificate`: what is guaranteed, before the first round."""

from __future__ import annotations

import argparse
import json

from linoto.cli.problem import FILE_HELP, add_problem_options, read_policy, read_problem
from linoto.cli.terminal import at_least_zero, positive, print_facts
from linoto.cli.usage import Commands, add_command


def add_certificate(commands: Commands) -> None:
    """`linoto certificate`."""
    certificate = add_command(
        commands,
        "certificate",
        help="the most that can be lost below a log, guaranteed before the first round",
        description="Print what a policy guarantees on a log: the most it can lose below the log's mean\n"
        "reward, per round and over a horizon, with what probability, and what that assumes.\n\n" + FILE_HELP,
        examples="  linoto certificate --paper --epsilon 0.1 --rounds 8000\n"
        "  linoto certificate log.npz --epsilon 0.02 --noise bounded --reward-range 0 1 --json\n"
        "  linoto certificate log.json --policy LinOtO --alpha 0.01",
    )
    add_problem_options(certificate)
    group = certificate.add_mutually_exclusive_group()
    group.add_argument("--epsilon", type=at_least_zero, help="tolerance per round (default: 0.1)")
    group.add_argument(
        "--alpha", type=at_least_zero, help="the paper's parameter, for LinOtO and Budget gates"
    )
    certificate.add_argument("--rounds", type=positive, help="also the most lost in so many rounds")
    certificate.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    certificate.set_defaults(run=run_certificate, refuse=certificate.error)


def run_certificate(arguments: argparse.Namespace) -> int:
    """`linoto certificate`."""
    from linoto.core.snapshots import to_dict
    from linoto.worlds.preview import parameter_of

    problem, policy = read_problem(arguments), read_policy(arguments)
    for parameter in ("epsilon", "alpha"):
        value = getattr(arguments, parameter)
        if value is not None:
            has, _ = parameter_of(policy, [value])
            if has != parameter:
                raise ValueError(f"--{parameter} is not what this policy has: give --{has}")
            policy = policy.with_parameter(parameter, value)
    found = policy.certificate(problem.actions, problem.offline)
    if arguments.json:
        facts = {"source": problem.source, "policy": to_dict(policy)}
        print(json.dumps({**facts, "certificate": found.to_dict(rounds=arguments.rounds)}))
        return 0
    print_facts(found.rows(rounds=arguments.rounds))
    return 0
