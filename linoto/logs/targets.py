"""Targets: what another policy plays in logged rows."""

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
from linoto.core.validation import as_arm, as_floats, exact, is_number
from linoto.logs.plays import OneArm, Plays, Shares
from linoto.logs.row_kinds import Practice, kind_of
from linoto.logs.rows import Rows, check_others

GREEDY, DOUBLY_ROBUST, PESSIMISTIC = "greedy", "doubly robust", "pessimistic"
LEARNING = (DOUBLY_ROBUST, PESSIMISTIC)  # ways to learn a policy from rows
Target = Any
"""An arm by number or name, weights by name, (k,) or (n, k) probabilities, a function, an agent, a policy."""


class Word(str):
    """A word of `evaluate` that means itself, whatever arms are called.

    >>> Word("greedy") == "greedy"
    True
    """


def is_policy(target: Target) -> bool:
    """Whether a target learns as it goes."""
    return callable(getattr(target, "start", None))


def is_learnt(target: Target) -> bool:
    """Whether a target is what is learnt from earlier rows, by one of three words."""
    return isinstance(target, str) and target in (GREEDY, *LEARNING)


def as_plays(target: Target, rows: Rows, method: str, *, practice: Practice = None, seed: int = 0) -> Plays:
    """What a target plays in each row, on arms that were on offer.

    A running agent may need `practice`, and draws by `seed`.
    """
    if isinstance(target, Shares | OneArm):
        return target  # it was checked when it was made
    if is_policy(target):
        raise ValueError(f"target must be an arm or probabilities for {method}: a policy needs replay")
    if isinstance(target, Guard):
        raise ValueError("target must decide by itself, got a Guard, which is asked about proposals")
    check_not_taught_by(rows, target)
    if isinstance(target, int | np.integer):
        arm = as_arm(target, rows.k, "target")
        check_index("target", arm, rows.names)
        found: Plays = one_arm(arm, rows)
    elif isinstance(target, LearntPolicy):
        found = choices_of(target, rows)
    elif isinstance(target, str):
        found = one_arm(place_of(target, rows, places_in(rows)), rows)
    elif isinstance(target, Mapping):
        found = checked(weights_of(target, rows, places_in(rows)), rows)
    elif (agent := agent_of(target)) is not None:
        found = decided_by(agent, rows, practice, np.random.default_rng(seed))
    elif hasattr(target, "decide"):
        found = OneArm(np.array([kind_of(rows).ask(target, row)[1] for row in range(len(rows))]), rows.k)
    elif callable(target):
        found = answered(target, rows)
    else:
        found = checked(target, rows)
    return found.on_offer(rows)


def checked(value: npt.ArrayLike, rows: Rows) -> Shares:
    """Probabilities of arms, (k,) or (n, k)."""
    probabilities = per_arm("target", value, rows)
    if (probabilities < 0).any():
        least = exact(float(probabilities.min()))
        raise ValueError(f"target must be probabilities, none below 0, got {least}")
    if (abs(probabilities.sum(axis=-1) - 1) > 1e-6).any():
        raise ValueError("target must be probabilities that sum to 1, got some that do not")
    return Shares(probabilities)


def one_arm(arm: int, rows: Rows) -> Plays:
    """The same arm in every row."""
    if rows.candidates is not None:
        return OneArm(np.full(len(rows), arm), rows.k)
    weights = np.zeros(rows.k)
    weights[arm] = 1.0
    return Shares(weights)


def learnt_part(target: Target) -> LearntPolicy | None:
    """The part of a target that rows have taught: itself, or its explorer; None where there is none."""
    parts = (
        target,
        getattr(target, "explorer", None),
        getattr(getattr(target, "policy", None), "explorer", None),
    )
    return next((part for part in parts if isinstance(part, LearntPolicy)), None)


def taught(target: Target) -> str:
    """By how many rows a target was taught, and which: JSON does not keep their ids."""
    part = learnt_part(target)
    if part is None:
        return ""
    return f"{part.method}, from {part.rows} {'rows with other ids' if part.built_by else 'unnamed rows'}"


def check_not_taught_by(rows: Rows, target: Target) -> None:
    """Refuse to judge what was learnt by the rows that it was learnt from."""
    learnt = learnt_part(target)
    if learnt is not None and learnt.built_by is not None:
        check_others(rows, learnt.built_by, "a learnt policy", "it was learnt from")


def choices_of(policy: LearntPolicy, rows: Rows) -> OneArm:
    """The arm that a learnt policy plays in each row."""
    policy.recipe.check_same(rows.known_recipe)
    return OneArm(rows.best(rows.scores(policy.parameter)), rows.k)


def places_in(rows: Rows) -> dict[str, int]:
    """Which arm a name is; of rows without names none is known."""
    return {name: place for place, name in enumerate(rows.names or ())}


def place_of(name: Any, rows: Rows, places: Mapping[str, int]) -> int:
    """Which arm a target calls by this name."""
    if rows.names is None:
        raise ValueError("names must be given where a target plays arms by name, got None")
    known = name if name in places else text_of(name)
    if known not in places:
        hint = nearest(known, places)
        raise ValueError(f"target must play one of the {rows.k} arms, got {name!r}{hint}")
    return places[known]


def weights_of(answer: Mapping[str, float], rows: Rows, places: Mapping[str, int]) -> Floats:
    """(k,) weights by name."""
    if rows.names is None:
        raise ValueError("names must be given where a target plays arms by name, got None")
    weights = np.zeros(rows.k)
    for name, weight in answer.items():
        if not (is_number(weight) or isinstance(weight, bool | np.bool_)):
            raise ValueError(f"target must play arms with numbers as weights, got {weight!r} for {name!r}")
        weights[place_of(name, rows, places)] += weight
    return weights


def answered(target: Any, rows: Rows) -> Plays:
    """What a function answers in each row: one arm, or weights in some of them."""
    places = places_in(rows)
    answers = [answer_in(row, target, rows, places) for row in range(len(rows))]
    arms = [answer for answer in answers if isinstance(answer, int)]
    if len(arms) == len(answers):
        return OneArm(np.array(arms), rows.k)
    table = np.zeros((len(rows), rows.k))
    for row, answer in enumerate(answers):
        if isinstance(answer, int):
            table[row, answer] = 1.0
        else:
            table[row] = answer
    return checked(table, rows)


def answer_in(row: int, target: Any, rows: Rows, places: Mapping[str, int]) -> int | Floats:
    """The arm that a function answers in a row, or (k,) weights."""
    answer = target(rows.context_of(row), rows.offered(row))
    if isinstance(answer, str):
        return place_of(answer, rows, places)
    if isinstance(answer, Mapping):
        return weights_of(answer, rows, places)
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


def decided_by(agent: Agent, rows: Rows, practice: Practice, rng: np.random.Generator) -> OneArm:
    """What a copy of a running agent would decide in each row, with draws and a coin of its own.

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
    found = np.empty(len(rows), np.int64)
    for row in range(len(rows)):
        asked.use_draws(rng)
        asked.use_coins(KeyedCoins(rng.bytes(KEY_BYTES)))
        choice = asked.driver.peek(None, asked.driver.question(**asking.question_for(agent, row)))
        found[row] = asking.place(choice)
    return OneArm(found, rows.k)


def per_arm(name: str, value: npt.ArrayLike, rows: Rows) -> Floats:
    """(k,) values of arms, or (n, k) where they differ from row to row."""
    per_row = np.ndim(value) == 2
    array = as_floats(name, value, ndim=2 if per_row else 1)
    shape = (len(rows), rows.k) if per_row else (rows.k,)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def needed_propensities(rows: Rows, method: str) -> Floats:
    """(n,) the propensities, without which no method works."""
    if rows.propensities is None:
        raise ValueError(
            f"propensities must be given for {method}, got None: with which probability was each row's arm "
            "chosen? ('uniform' where every arm was as likely)"
        )
    return np.asarray(rows.propensities)
