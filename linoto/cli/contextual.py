"""STATS of a log with contexts: what `linoto certificate` and `linoto create` do with one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from linoto.cli.log_and_policy import explorers, named_policy, read_npz, told, with_facts, with_gate_options

if TYPE_CHECKING:
    from linoto.audit.promises import GateKind
    from linoto.core.features.moments import Moments
    from linoto.core.features.recipe import Recipe
    from linoto.core.policies import Gated
    from linoto.logs.saved import SavedLog

CONTEXTS_HELP = (
    "STATS that `linoto audit --save` wrote of a log with contexts: they hold the recipe\n"
    "of its features, and Gated then compares with practice in the same rounds."
)

PRACTICE = "the item that is played today, ITEM=WEIGHT for each of several, or the word log or given"


@dataclass(frozen=True, kw_only=True)
class ContextsAndLog:
    """A recipe and the log that was read by it, and where both come from."""

    saved: SavedLog
    recipe: Recipe
    moments: Moments
    source: str


def read_contexts(arguments: argparse.Namespace) -> ContextsAndLog | None:
    """STATS of a log with contexts; None for those of fixed arms, and for what cannot be read at all."""
    from linoto.logs.saved import read_saved

    path = arguments.stats
    if arguments.paper or path is None or path.suffix.lower() != ".npz":
        return None
    try:
        entries = read_npz(path)
    except (OSError, ValueError):  # whoever reads it next says what is wrong
        return None
    if "header" not in entries:
        return None
    try:
        saved = read_saved(entries)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if saved.recipe is None or saved.moments is None:
        return None
    if saved.warning:
        print(f"linoto: warning: {saved.warning}", file=sys.stderr)
    return ContextsAndLog(saved=saved, recipe=saved.recipe, moments=saved.moments, source=path.name)


def read_contextual_policy(arguments: argparse.Namespace, log: ContextsAndLog) -> Any:
    """The policy that was asked for, with what the audit found and what was said about rewards."""
    from linoto.core.confidence import with_assumptions
    from linoto.core.policies import Gated

    plain = arguments.policy == "Gated"
    policy = Gated() if plain else named_policy(arguments.policy)
    if log.saved.confidence is not None:
        policy = with_assumptions(policy, log.saved.confidence)
    policy = with_facts(policy, told(arguments))
    if not plain:
        for option in ("explorer", "gate", "evidence"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"--{option} is for Gated, got --policy {type(policy).__name__}")
        return with_gate_options(policy, arguments)
    if arguments.explorer is not None:
        policy = replace(policy, explorer=explorers()[arguments.explorer])
    return with_contextual_gate(policy, log.moments, arguments)


def with_contextual_gate(policy: Gated, moments: Moments, arguments: argparse.Namespace) -> Gated:
    """Gated with the gate that was asked for, or the one that fits: as the audit chooses it."""
    from linoto.audit.promises import contextual_gate

    for option, words in {
        "alpha": "budget or --epsilon",
        "evidence": "gate tolerance, which is by the model",
    }.items():
        if getattr(arguments, option) not in (None, "model"):
            raise ValueError(f"--{option} {getattr(arguments, option)} is not for contexts: give --{words}")
    kind: GateKind = arguments.gate or ("tolerance" if policy.assumed.reward_range is None else "control")
    allowed = {"budget": arguments.budget, "epsilon": arguments.epsilon}
    return replace(policy, gate=contextual_gate(kind, policy.assumed, moments, **allowed))


def practice_of(given: Sequence[str], log: ContextsAndLog) -> str | dict[str, float] | None:
    """What is done today: an item, "given", the shares of the "log", or weights as ITEM=WEIGHT."""
    items = log.recipe.items
    if not given:
        return None
    if len(given) == 1 and (given[0] in items or given[0] == "given"):
        return given[0]
    if list(given) == ["log"]:
        return logged_shares(log)
    weights = dict[str, float]()
    for word in given:
        item, _, text = word.rpartition("=")
        if item in weights:
            raise ValueError(f"--practice must name each item once, got {item!r} twice")
        try:
            weights[item] = float(text)
        except ValueError:
            item = ""
        if item not in items:
            some = ", ".join(items[:5]) + (" ..." if len(items) > 5 else "")
            raise ValueError(
                f"--practice must be an item, ITEM=WEIGHT for each item, or log or given, got {word!r}: "
                f"the items are {some}"
            )
    total = sum(weights.values())
    if not 0 < total < inf or min(weights.values()) < 0:
        raise ValueError(f"--practice must have weights >= 0, one of them above 0, got {' '.join(given)}")
    return {item: weight / total for item, weight in weights.items()}


def logged_shares(log: ContextsAndLog) -> dict[str, float]:
    """How often each item was played in the log."""
    offline = log.saved.offline
    counts = zip(log.recipe.items, offline.pulls.tolist(), strict=True)
    return {item: n / offline.total for item, n in counts if n > 0}
