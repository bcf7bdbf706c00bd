"""Targets: the probabilities with which another policy plays each arm in logged rows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.cells import text_of
from linoto.core.coins import KEY_BYTES, KeyedCoins
from linoto.core.doubling import DoublingAgent
from linoto.core.guard import Guard
from linoto.core.hints import nearest
from linoto.core.learnt import LearntPolicy
from linoto.core.names import check_index
from linoto.core.validation import as_arm, as_floats, is_number
from linoto.logs.row_kinds import Practice, kind_of
from linoto.logs.rows import Rows, check_others

GREEDY, DOUBLY_ROBUST, PESSIMISTIC = "greedy", "doubly robust", "pessimistic"
LEARNING = (DOUBLY_ROBUST, PESSIMISTIC)  # ways to learn a policy from rows
Target = Any
"""An arm by number or name, weights by name, (k,) or (n, k) probabilities, a function, an agent, a policy."""


def is_policy(target: Target) -> bool:
    """Whether a target learns as it goes."""
    return callable(getattr(target, "start", None))


def is_learnt(target: Target) -> bool:
    """Whether a target is what is learnt from earlier rows, by one of three words."""
    return isinstance(target, str) and target in (GREEDY, *LEARNING)


def as_probabilities(
    target: Target, rows: Rows, method: str, *, practice: Practice = None, seed: int = 0
) -> Floats:
    """(k,) or (n, k) the probabilities with which a target plays each arm; 0 for those not on offer.

    A running agent may need `practice`, and draws by `seed`.
    """
    if is_policy(target):
        raise ValueError(f"target must be an arm or probabilities for {method}: a policy needs replay")
    if isinstance(target, Guard):
        raise ValueError("target must decide by itself, got a Guard, which is asked about proposals")
    check_not_taught_by(rows, target)
    if isinstance(target, int | np.integer):
        arm = as_arm(target, rows.k, "target")
        check_index("target", arm, rows.names)
        found: Any = np.eye(rows.k)[arm]
    elif isinstance(target, LearntPolicy):
        found = choices_of(target, rows)
    elif isinstance(target, str | Mapping):
        found = weights_of(target, rows)
    elif (agent := agent_of(target)) is not None:
        found = decided_by(agent, rows, practice, np.random.default_rng(seed))
    elif callable(target) or hasattr(target, "decide"):
        found = np.array([answer_in(row, target, rows) for row in range(len(rows))])
    else:
        found = target
    probabilities = per_arm("target", found, rows)
    wrong = (probabilities < 0).any() or (abs(probabilities.sum(axis=-1) - 1) > 1e-6).any()
    if wrong:
        raise ValueError("target must be probabilities that sum to 1, got some that do not")
    return on_offer(probabilities, rows)


def learnt_part(target: Target) -> LearntPolicy | None:
    """The part of a target that rows have taught: itself, or its explorer; None where there is none."""
    parts = (
        target,
        getattr(target, "explorer", None),
        getattr(getattr(target, "policy", None), "explorer", None),
    )
    return next((part for part in parts if isinstance(part, LearntPolicy)), None)


def check_not_taught_by(rows: Rows, target: Target) -> None:
    """Refuse to judge what was learnt by the rows that it was learnt from."""
    learnt = learnt_part(target)
    if learnt is not None and learnt.built_by is not None:
        check_others(rows, learnt.built_by, "a learnt policy", "it was learnt from")


def choices_of(policy: LearntPolicy, rows: Rows) -> Floats:
    """(n, k) 1 for the arm that a learnt policy plays in each row."""
    policy.recipe.check_same(rows.known_recipe)
    return rows.best(rows.scores(policy.parameter))


def on_offer(probabilities: Floats, rows: Rows) -> Floats:
    """The same, if they are on arms that could be played."""
    if rows.candidates is None:
        return probabilities
    every = np.ascontiguousarray(np.broadcast_to(probabilities, rows.candidates.shape))
    outside = (every > 0) & ~rows.candidates
    if outside.any():
        row, arm = np.argwhere(outside)[0].tolist()
        raise ValueError(f"target must play arms that are on offer, got {rows.name(arm)} in row {row + 1}")
    return every


def weights_of(answer: str | Mapping[str, float], rows: Rows) -> Floats:
    """(k,) an arm by its name, or weights by name."""
    if rows.names is None:
        raise ValueError("names must be given where a target plays arms by name, got None")
    places = {name: place for place, name in enumerate(rows.names)}
    weights = np.zeros(rows.k)
    for name, weight in {answer: 1.0}.items() if isinstance(answer, str) else answer.items():
        known = name if name in places else text_of(name)
        if known not in places:
            hint = nearest(known, places)
            raise ValueError(f"target must play one of the {rows.k} arms, got {name!r}{hint}")
        if not (is_number(weight) or isinstance(weight, bool | np.bool_)):
            raise ValueError(f"target must play arms with numbers as weights, got {weight!r} for {name!r}")
        weights[places[known]] += weight
    return weights


def answer_in(row: int, target: Any, rows: Rows) -> Floats:
    """(k,) what a function or an agent answers in a row, without learning from it."""
    if hasattr(target, "decide"):
        return np.asarray(np.eye(rows.k)[kind_of(rows).ask(target, row)[1]])
    answer = target(rows.context_of(row), rows.offered(row))
    if isinstance(answer, str | Mapping):
        return weights_of(answer, rows)
    weights = as_floats("target's answer", answer, ndim=1)
    if weights.size != rows.k:
        raise ValueError(
            f"target must answer an arm, weights by name, or {rows.k} weights, got {weights.size}"
        )
    return weights


def agent_of(target: Target) -> Agent | None:
    """Who decides now, where a target is a running agent of ours."""
    now = target.inner if isinstance(target, DoublingAgent) else target
    return now if isinstance(now, Agent) else None


def decided_by(agent: Agent, rows: Rows, practice: Practice, rng: np.random.Generator) -> Floats:
    """(n, k) 1 for what a copy of a running agent would decide in each row, with draws and a coin of its own.

    The agent goes on as if nobody had asked, and nobody is shown what it has drawn for its next round.
    """
    if agent.driver.coin_is_thrown:
        raise ValueError(
            "target must be between two rounds, got an agent whose round is decided: commit its decision "
            "first"
        )
    asking, asked = kind_of(rows, practice), deepcopy(agent)
    asking.check_practice()
    asking.check_agent(agent)
    found = np.zeros((len(rows), rows.k))
    for row in range(len(rows)):
        asked.use_draws(rng)
        asked.use_coins(KeyedCoins(rng.bytes(KEY_BYTES)))
        choice = asked.driver.peek(None, asked.driver.question(**asking.question_for(agent, row)))
        found[row, asking.place(choice)] = 1.0
    return found


def per_arm(name: str, value: npt.ArrayLike, rows: Rows) -> Floats:
    """(k,) values of arms, or (n, k) where they differ from row to row."""
    per_row = np.ndim(value) == 2
    array = as_floats(name, value, ndim=2 if per_row else 1)
    shape = (len(rows), rows.k) if per_row else (rows.k,)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def of_logged(values: Floats, rows: Rows) -> Floats:
    """(n,) the entries of (k,) or (n, k) values that belong to the logged arms."""
    return np.asarray(values[rows.arms] if values.ndim == 1 else values[np.arange(len(rows)), rows.arms])


def needed_propensities(rows: Rows, method: str) -> Floats:
    """(n,) the propensities, without which no method works."""
    if rows.propensities is None:
        raise ValueError(
            f"propensities must be given for {method}, got None: with which probability was each row's arm "
            "chosen? ('uniform' where every arm was as likely)"
        )
    return np.asarray(rows.propensities)
