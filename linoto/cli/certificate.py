"""`linoto certificate`: what is guaranteed, before the first round."""

from __future__ import annotations

import argparse
import json
from typing import Any

from linoto.cli.log_options import add_guardrails
from linoto.cli.outputs import add_horizon
from linoto.cli.policy_options import add_amounts, add_arms_of_stats, add_stats_and_policy, read_policy
from linoto.cli.stats_file import (
    FILE_HELP,
    assumption_facts,
    assumption_rows,
    promise_rows,
    read_statistics,
)
from linoto.cli.terminal import print_facts
from linoto.cli.usage import Commands, add_command, add_json


def add_certificate(commands: Commands) -> None:
    """`linoto certificate`."""
    certificate = add_command(
        commands,
        "certificate",
        help="the most that can be lost below a log, guaranteed before the first round",
        description="Print what a policy guarantees on a log: the most it can lose below the log's mean\n"
        "reward, per round and over a horizon, with what probability, and what that assumes.\n\n" + FILE_HELP,
        examples="  linoto certificate --paper --budget 80\n"
        "  linoto certificate --paper --epsilon 0.1 --horizon 8000\n"
        "  linoto certificate stats.npz --budget 40 --horizon 8000\n"
        "  linoto certificate log.npz --epsilon 0.02 --noise bounded --reward-range 0 1 --json\n"
        "  linoto certificate stats.npz --gate control --budget 40 --guardrail complaint:budget=20\n"
        "  linoto certificate log.json --policy LinOtO --alpha 0.01",
    )
    add_stats_and_policy(certificate)
    add_arms_of_stats(certificate)
    add_amounts(certificate)
    add_guardrails(certificate)
    add_horizon(certificate)
    add_json(certificate)
    certificate.set_defaults(run=run_certificate, refuse=certificate.error)


def run_certificate(arguments: argparse.Namespace) -> None:
    """`linoto certificate`."""
    from linoto.core.snapshots import to_dict

    log, source, _ = read_statistics(arguments)
    policy: Any = read_policy(arguments, log)
    found = policy.certificate(log)
    if arguments.json:
        facts = {"source": source, "policy": to_dict(policy), **assumption_facts(policy, log, arguments)}
        print(json.dumps({**facts, "certificate": found.to_dict(rounds=arguments.horizon)}))
        return
    promised = promise_rows(found, found.rows(rounds=arguments.horizon), log)
    print_facts([*assumption_rows(policy, log, arguments), *promised])
