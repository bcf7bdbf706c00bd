"""A policy on the command line: its name, its parts, what it may lose, and what it is told of rewards."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from linoto.cli.log_options import read_guardrails
from linoto.cli.terminal import above_zero, above_zero_or, at_least_zero, number, seed
from linoto.cli.usage import Parser, Words
from linoto.core.hints import nearest

if TYPE_CHECKING:
    from linoto.audit.promises import GateKind
    from linoto.core.composed import Composed
    from linoto.core.features.moments import Moments
    from linoto.core.features.recipe import Recipe
    from linoto.core.gates import Gate
    from linoto.core.guardrail import Guardrail
    from linoto.core.policies import Gated
    from linoto.core.protocols import ComposedPolicy
    from linoto.logs.saved import SavedLog

AMOUNTS = ("budget", "epsilon", "alpha")
REWARDS = ("noise", "bound", "delta", "reward_range", "shift")


def add_stats_and_policy(command: Parser) -> None:
    """The log, the policy, and what is assumed of the rewards."""
    command.add_argument("stats", nargs="?", metavar="STATS", help="statistics of a log")
    command.add_argument("--paper", action="store_true", help="use the paper's default problem instead")
    command.add_argument("--seed", type=seed, default=0, help="of everything random")
    command.add_argument(
        "--policy",
        default="Gated",
        help="Gated (a tolerance), LinOtO (the paper's), or a policy as JSON, as linoto.to_dict writes it",
    )
    command.add_argument(
        "--explorer",
        metavar="NAME",
        choices=Words(explorers),
        help="what Gated explores with: %(choices)s",
    )
    add_gate(command)
    command.add_argument("--evidence", choices=("model", "rewards", "both"), help="what pays for exploration")
    add_rewards(command, "from the audit, else 1")
    add_promise(command)


def add_arms_of_stats(command: Parser) -> None:
    """The features of the arms, apart from STATS."""
    command.add_argument(
        "--arms",
        metavar="ARMS",
        help="the features of the arms, where STATS has none: a table with an id first, or an .npy array",
    )
    command.add_argument("--no-intercept", action="store_true", help="no constant feature beside ARMS")


def add_gate(command: Parser) -> None:
    """What Gated compares with."""
    command.add_argument(
        "--gate",
        metavar="NAME",
        choices=Words(gates),
        help="what Gated compares with: the log (tolerance, the default), or current practice as it is now, "
        "which is played in some of the rounds (control); one of %(choices)s",
    )


def add_rewards(command: Parser, default: str) -> None:
    """What is known of rewards."""
    command.add_argument(
        "--noise",
        type=above_zero_or("bounded"),
        help=f"standard deviation of a reward, or the word bounded (default: {default})",
    )
    command.add_argument(
        "--reward-range", type=number, nargs=2, metavar=("LO", "HI"), help="where average rewards lie"
    )
    command.add_argument(
        "--bound",
        type=above_zero,
        help=f"of the vector that turns features into average rewards (default: {default})",
    )


def add_promise(command: Parser) -> None:
    """How surely a promise must hold, and whether the log still tells the truth."""
    command.add_argument(
        "--delta", type=above_zero, help="how improbable a broken promise must be (default: 0.05)"
    )
    command.add_argument(
        "--shift",
        type=at_least_zero,
        help="how far average rewards may have moved since the log: the root mean square over its rows "
        "(default: 0, they have not)",
    )


def add_amounts(command: Parser, *, alpha: bool = True) -> None:
    """How much may be lost."""
    command.add_argument(
        "--budget", type=at_least_zero, help="the most that may be lost in all, in units of the reward"
    )
    command.add_argument(
        "--epsilon",
        type=at_least_zero,
        help="the most that may be lost per round (default without --budget: what Gated allows)",
    )
    if alpha:
        command.add_argument(
            "--alpha", type=at_least_zero, help="the paper's parameter, for LinOtO and Budget gates"
        )


def explorers() -> Mapping[str, Composed]:
    """The explorers that --explorer names."""
    from linoto.core.policies import named_explorers

    return named_explorers()


def gates() -> Mapping[str, type[Gate]]:
    """The gates that --gate names."""
    from linoto.core.gates import GATES

    return {gate.word: gate for gate in GATES if gate.word}


# -- the policy that was asked for ------------------------------------------------------------------------


def read_policy(
    arguments: argparse.Namespace,
    log: SavedLog | None = None,
    *,
    rails: tuple[Guardrail, ...] = (),
    seen: Mapping[str, Any] | None = None,
    moments: Moments | None = None,
    recipe: Recipe | None = None,
) -> ComposedPolicy:
    """The policy that was asked for, with what the audit of the log found and what was said of rewards.

    Without a log its guardrails are `rails`, and `seen` is what rows say of rewards where nobody else does;
    with contexts `moments` are the sums that the policy starts from, of the features of `recipe`.
    Where the command has options for how much may be lost and none is given, it is what is usual.
    """
    from linoto.core.composed import Composed
    from linoto.core.confidence import with_assumptions
    from linoto.core.usual_confidence import with_usual_confidence

    policy: Any = named_policy(arguments.policy)
    if log is not None and log.confidence is not None:
        policy = with_assumptions(policy, log.confidence)
    stated = {**(seen or {}), **stated_rewards(arguments)}
    policy = with_explorer(with_rewards(policy, stated), arguments)
    rails = rails if log is None else guardrails_of(arguments, log)
    amounts = {name: value for name in AMOUNTS if (value := getattr(arguments, name, None)) is not None}
    plain = arguments.policy == "Gated"
    if log is not None and log.features.takes_practice:
        moments, recipe = log.features.moments, log.features.recipe
    if plain and moments is not None:
        summed, raw = moments, None if recipe is None else recipe.raw_features
        policy = with_amounts(with_gate_for(moments, policy, arguments), amounts)
        policy = with_usual_confidence(policy, moments.d, lambda: summed, raw, recipe)
        return with_guardrails(policy, rails, log)
    policy = with_evidence(with_gate(policy, arguments, guarded=bool(rails)), arguments)
    if log is not None:
        log.features.check_noise(policy.composed().assumed)
    if plain and not amounts and hasattr(arguments, "budget"):
        earned, rows = (inf, 0) if log is None else (float(log.offline.reward_sums.sum()), log.offline.total)
        policy = replace(policy, gate=policy.gate.usual(policy.assumed, earned=earned, rows=rows))
    policy = with_amounts(policy, amounts)
    if plain and log is not None:
        known = log.features
        policy = with_usual_confidence(policy, len(known.labels), lambda: known.moments, known.raw_features)
    elif log is not None and moments is not None and isinstance(policy, Composed):
        policy = policy.suited_to(moments, recipe)
    return with_guardrails(policy, rails, log)


def named_policy(text: str) -> Any:
    """A policy by name or as JSON: a record with a gate."""
    from linoto.core.gates import Tolerance
    from linoto.core.policies import Gated, LinOtO
    from linoto.core.protocols import ComposedPolicy
    from linoto.experiments.study import as_policy

    if text.lstrip().startswith("{"):
        try:
            policy = as_policy("--policy", json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"--policy is not valid JSON: {error}") from None
        if not isinstance(policy, ComposedPolicy):
            raise ValueError(f"--policy must be a policy with a gate, got {type(policy).__name__}")
        return policy
    known = {"Gated": Gated(gate=Tolerance(epsilon=0.1)), "LinOtO": LinOtO()}
    if text not in known:
        others = ": it must be Gated, LinOtO, or JSON in braces"
        raise ValueError(f"there is no policy {text!r}{nearest(text, known, others)}")
    return known[text]


def stated_rewards(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the options say of rewards."""
    return {name: value for name in REWARDS if (value := getattr(arguments, name, None)) is not None}


def with_rewards(policy: ComposedPolicy, stated: Mapping[str, Any]) -> Any:
    """The policy that assumes this of rewards."""
    from linoto.core.confidence import Confidence

    if not stated:
        return policy
    if not hasattr(policy, "confidence"):
        raise ValueError(
            f"--policy {type(policy).__name__} assumes nothing about rewards: leave --"
            f"{next(iter(stated)).replace('_', '-')} out"
        )
    made: Any = policy
    return replace(made, confidence=replace(made.composed().confidence or Confidence(), **stated))


def with_explorer(policy: ComposedPolicy, arguments: argparse.Namespace) -> Any:
    """The policy with the explorer that was asked for."""
    from linoto.core.policies import Gated

    if arguments.explorer is None:
        return policy
    if not isinstance(policy, Gated):
        raise ValueError(f"--explorer is for Gated, got --policy {type(policy).__name__}")
    return replace(policy, explorer=explorers()[arguments.explorer])


def guardrails_of(arguments: argparse.Namespace, log: SavedLog) -> tuple[Guardrail, ...]:
    """The guardrails of the log, with what the options say of them now."""
    from linoto.logs.metrics import restated

    try:
        return restated(log.guardrails, read_guardrails(arguments))
    except ValueError as error:
        arguments.refuse(f"argument --guardrail: {error}")
        raise  # mypy does not know that nobody comes here


def with_guardrails(
    policy: ComposedPolicy, rails: tuple[Guardrail, ...], log: SavedLog | None
) -> ComposedPolicy:
    """The policy that promises so of these metrics too; compared with the log, by what that had of them."""
    from linoto.core.policies import Gated

    if not rails:
        return policy
    if not isinstance(policy, Gated) or policy.guardrails:
        raise ValueError(
            f"--guardrail is for Gated without guardrails of its own, got --policy {type(policy).__name__}"
        )
    if log is not None and policy.composed().gate.compares_with_log:
        rails = tuple(log.logged(rail) for rail in rails)
        warn_of_models(log, [rail for rail in rails if policy.composed().gate.trusts_model_of(rail)])
    return replace(policy, guardrails=rails)


def warn_of_models(log: SavedLog, paid: Sequence[Guardrail]) -> None:
    """That the audit did not look at what these rest on, on stderr: their bounds were said after it."""
    tested = {rail.name for rail in log.guardrails if rail.bound is not None}
    for rail in paid if log.verdict is not None else ():
        if rail.name not in tested:
            print(
                f"linoto: warning: the audit did not test a model of {rail.name}, which is to pay now: give "
                f"--guardrail {rail.name}:bound={rail.bound:g} to linoto audit too",
                file=sys.stderr,
            )


def with_gate(policy: ComposedPolicy, arguments: argparse.Namespace, *, guarded: bool = False) -> Any:
    """The policy with the gate that was asked for; with guardrails one that takes them."""
    if arguments.gate is None:
        made: Any = policy
        gated = guarded and arguments.policy == "Gated"
        if gated and not made.gate.throws_coin:
            return replace(made, gate=gates()["control"]())
        return policy
    if arguments.policy != "Gated":
        raise ValueError(f"--gate is for Gated, got --policy {type(policy).__name__}")
    made = policy
    return replace(made, gate=gates()[arguments.gate]())


def with_evidence(policy: ComposedPolicy, arguments: argparse.Namespace) -> Any:
    """The policy with the evidence that was asked for."""
    from linoto.core.policies import Gated

    if arguments.evidence is None:
        return policy
    if not isinstance(policy, Gated) or not hasattr(policy.gate, "evidence"):
        raise ValueError(f"--evidence is for a Tolerance gate, got --policy {type(policy).__name__}")
    change: dict[str, Any] = {"evidence": arguments.evidence}
    return replace(policy, gate=replace(policy.gate, **change))


def with_gate_for(moments: Moments, policy: Gated, arguments: argparse.Namespace) -> Gated:
    """Gated with the gate for contexts that was asked for, or the one that fits: as the audit chooses it."""
    from linoto.audit.promises import contextual_gate

    if arguments.evidence not in (None, "model"):
        raise ValueError(
            f"--evidence {arguments.evidence} is not for contexts: give --gate tolerance, which is by the "
            "model"
        )
    kind: GateKind = arguments.gate or ("tolerance" if policy.assumed.reward_range is None else "control")
    return replace(policy, gate=contextual_gate(kind, policy.assumed, moments))


def with_amounts(policy: ComposedPolicy, amounts: Mapping[str, float]) -> ComposedPolicy:
    """The policy that may lose so much; of several parameters the others are 0, and of none all stay."""
    known = policy.composed().gate.parameters
    for name in amounts:
        if name not in known:
            has = " or ".join(f"--{other}" for other in known) or "none of these"
            raise ValueError(f"--{name} is not what this policy has: give {has}")
    for name in known if amounts else ():
        policy = policy.with_parameter(name, amounts.get(name, 0.0))
    return policy
