"""`linoto certificate`: what is guaranteed, before the first round."""

from __future__ import annotations

import argparse
import json

from linoto.cli.assumptions import assumption_rows, audit_facts, promise_rows
from linoto.cli.contextual import CONTEXTS_HELP, ContextsAndLog, read_contexts, read_contextual_policy
from linoto.cli.log_and_policy import (
    FILE_HELP,
    ArmsAndLog,
    add_gate_options,
    add_log_and_policy,
    read_policy,
    read_statistics,
    with_gate_options,
)
from linoto.cli.outputs import add_horizon
from linoto.cli.terminal import print_facts
from linoto.cli.usage import Commands, add_command


def add_certificate(commands: Commands) -> None:
    """`linoto certificate`."""
    certificate = add_command(
        commands,
        "certificate",
        help="the most that can be lost below a log, guaranteed before the first round",
        description="Print what a policy guarantees on a log: the most it can lose below the log's mean\n"
        "reward, per round and over a horizon, with what probability, and what that assumes.\n\n"
        + FILE_HELP
        + "\n\n"
        + CONTEXTS_HELP,
        examples="  linoto certificate --paper --budget 80\n"
        "  linoto certificate --paper --epsilon 0.1 --horizon 8000\n"
        "  linoto certificate stats.npz --budget 40 --horizon 8000\n"
        "  linoto certificate log.npz --epsilon 0.02 --noise bounded --reward-range 0 1 --json\n"
        "  linoto certificate log.json --policy LinOtO --alpha 0.01",
    )
    add_log_and_policy(certificate)
    add_gate_options(certificate)
    add_horizon(certificate)
    certificate.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    certificate.set_defaults(run=run_certificate, refuse=certificate.error)


def run_certificate(arguments: argparse.Namespace) -> None:
    """`linoto certificate`."""
    from linoto.core.snapshots import to_dict

    with_contexts = read_contexts(arguments)
    log: ArmsAndLog | ContextsAndLog
    if with_contexts is not None:
        log, policy = with_contexts, read_contextual_policy(arguments, with_contexts)
        found = policy.certificate(log.moments, features=log.recipe)
    else:
        log = read_statistics(arguments)
        policy = with_gate_options(read_policy(arguments, log), arguments, log)
        found = policy.certificate(log.actions, log.offline)
    if arguments.json:
        facts = {"source": log.source, "policy": to_dict(policy), **audit_facts(policy, log, arguments)}
        print(json.dumps({**facts, "certificate": found.to_dict(rounds=arguments.horizon)}))
        return
    promised = promise_rows(found, found.rows(rounds=arguments.horizon), log)
    print_facts([*assumption_rows(policy, log, arguments), *promised])
