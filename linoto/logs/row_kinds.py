"""What depends on whether rows have a context: how agents are asked in them, and what a model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.diagonals import diagonal_of
from linoto.core.features.moments import Moments
from linoto.core.learnt import LearntPolicy
from linoto.core.names import places_of
from linoto.core.offline import Offline, as_offline
from linoto.core.protocols import Policy, starts_without_arms
from linoto.core.validation import as_actions, as_arm
from linoto.logs.rows import Rows, WarmStart, check_others

MOST_CELLS = 50_000_000  # rows times arms: 400 MB for each matrix of them
Actions = npt.ArrayLike | None
Warm = Rows | WarmStart | None
Weights = Mapping[str, float]  # of arms, by name
Practice = Weights | Callable[[Mapping[str, Any], Sequence[str]], str | Weights] | None
"""Weights by name, or a function of a context and the arms on offer that answers an arm or weights."""


@dataclass(frozen=True, eq=False)
class RowsOfArms:
    """Rows without a context: arms are the same in every row."""

    rows: Rows
    practice: Practice = None  # what is done today, where a policy needs to know

    def check_practice(self) -> None:
        """Refuse practice that is not what rows of this kind need."""
        if self.practice is not None:
            raise ValueError(
                f"practice must be None for rows without contexts, got {self.practice!r}: the log of the "
                "start is what is done today"
            )

    @property
    def moments(self) -> Moments | None:
        """The sums of rewards and features, with contexts."""
        return None

    @property
    def varies(self) -> bool:
        """Whether every row asks something else: what an agent wants then changes without a reward."""
        return self.rows.candidates is not None

    def start(self, policy: Policy, actions: Actions, warm_start: Warm, rng: np.random.Generator) -> Any:
        """An agent that knows what the rows of the warm start say."""
        self.check_practice()
        if actions is None:
            raise ValueError("actions must be given to replay a policy, got None")
        arms, k = as_actions(actions), self.rows.k
        if len(arms) != k:
            raise ValueError(f"actions must have one row for each of the {k} arms, got {len(arms)}")
        offline = Offline.empty(k) if warm_start is None else warm_start.offline
        return policy.start(arms, as_offline(offline, k), rng=rng)

    def ask(self, agent: Agent, row: int) -> tuple[Any, int]:
        """What an agent wants to play in a row, as it says it and as an arm."""
        choice = self.choice(agent, row)
        return choice, self.place(choice)

    def place(self, choice: Any) -> int:
        """Which arm that is: by its name where both know names, which may have another order or number."""
        name, places = getattr(choice, "name", None), self.places
        if name is None or places is None:
            return as_arm(getattr(choice, "arm", choice), self.rows.k, "the arm of target")
        if name not in places:
            raise ValueError(f"target must play one of the {self.rows.k} arms of the rows, got {name!r}")
        return places[name]

    @cached_property
    def places(self) -> Mapping[str, int] | None:
        """The arms of the rows by name."""
        return None if self.rows.names is None else {name: at for at, name in enumerate(self.rows.names)}

    def check_agent(self, agent: Agent) -> None:
        """Refuse a running agent whose arms cannot be those of the rows."""
        if (agent.names is None or self.places is None) and agent.k != self.rows.k:
            raise ValueError(
                f"target must have the {self.rows.k} arms of the rows, got an agent of {agent.k} whose names "
                "are not known"
            )

    def question(self, row: int) -> dict[str, Any]:
        """What a row asks."""
        return {} if self.rows.candidates is None else {"allowed": np.flatnonzero(self.rows.candidates[row])}

    def question_for(self, agent: Agent, row: int) -> dict[str, Any]:
        """The same for a running agent, which may have the arms in another order."""
        asked = self.question(row)
        if not asked or agent.names is None or self.rows.names is None:
            return asked
        names, known = [self.rows.names[arm] for arm in asked["allowed"]], places_of(agent.names)
        return {"allowed": np.array([known[name] for name in names if name in known], dtype=np.int64)}

    def played(self, agent: Agent, row: int, choice: Any) -> Any:
        """The same for a row that is kept: what is to be told of it."""
        return choice

    def choice(self, agent: Agent, row: int) -> Any:
        """What it answers where the arms on offer are those of the row."""
        if hasattr(agent, "decide"):
            return agent.decide(**self.question(row))
        if self.rows.candidates is not None:
            raise ValueError(f"target must decide among the arms on offer, got {agent!r}, which only selects")
        return agent.select()

    def expected(self, parts: Sequence[Ints], used: Sequence[Sequence[int]], ridge: float) -> list[Floats]:
        """What a model of the parts in use expects in each part: (k,) means, shrunk by one row."""
        return [means_of(self.rows, [parts[other] for other in others]) for others in used]

    def check_end(self, agent: Agent, wanted: int, kept: Bools) -> None:
        """Refuse a policy that waits for an arm which no row shows."""
        if self.varies:
            return
        if kept[-1]:
            wanted = self.ask(agent, len(self.rows))[1]
        if wanted not in self.rows.arms:
            raise ValueError(
                f"rows must show every arm that the policy plays, got none of {self.rows.name(wanted)}, "
                f"which it waits for after {kept.sum()} rounds"
            )


class RowsInContexts(RowsOfArms):
    """Rows with contexts: an agent is asked in the context of each row."""

    varies = True

    def check_agent(self, agent: Agent) -> None:
        """Arms are told apart by name in each round."""

    def question_for(self, agent: Agent, row: int) -> dict[str, Any]:
        return self.question(row)

    def check_practice(self) -> None:
        if isinstance(self.practice, LearntPolicy) and self.practice.built_by is not None:
            check_others(self.rows, self.practice.built_by, "a learnt policy", "practice was learnt from")
        if self.practice is not None and not callable(self.practice):
            self.check_weights(self.practice)

    def check_weights(self, weights: Any) -> None:
        """Refuse what practice plays unless it is weights of arms that there are."""
        if not isinstance(weights, Mapping):
            raise ValueError(
                "practice must be weights of arms by name, or a function of a context and the arms on offer "
                f"that answers an arm or such weights, got {weights!r}"
            )
        for name in weights:
            if name not in (self.rows.names or ()):
                raise ValueError(f"practice must be weights of the arms of the rows, got {name!r}")

    def weights_in(self, context: Mapping[str, Any], offered: Sequence[str]) -> Weights:
        """The weights with which practice plays arms in a context."""
        if self.practice is None or not callable(self.practice):
            return self.practice or {}
        answer = self.practice(context, offered)
        weights = {answer: 1.0} if isinstance(answer, str) else answer
        self.check_weights(weights)
        return weights

    def start(self, policy: Policy, actions: Actions, warm_start: Warm, rng: np.random.Generator) -> Any:
        if not starts_without_arms(policy):
            raise ValueError(f"policy must be one for contexts to be replayed in them, got {policy!r}")
        if isinstance(warm_start, WarmStart):
            raise ValueError("warm_start must be Rows where rows have contexts, got a WarmStart")
        moments = None if warm_start is None else warm_start.moments(np.arange(len(warm_start)))
        start: Any = policy.start
        agent = start(offline=moments, features=self.rows.recipe, rng=rng)
        self.check_practice()
        if agent.needs_practice and self.practice is None:
            raise ValueError(
                "practice must be given to replay a policy that plays it, got None: rows say how likely what "
                "they played was, and not what would be played today in their place"
            )
        return agent

    @property
    def moments(self) -> Moments | None:
        return self.rows.moments(np.arange(len(self.rows)))

    def expected(self, parts: Sequence[Ints], used: Sequence[Sequence[int]], ridge: float) -> list[Floats]:
        """The same by a linear model of the features: (its rows, k)."""
        rows = self.rows
        if len(rows) * rows.k > MOST_CELLS:
            raise ValueError(
                f"rows times arms must be at most {MOST_CELLS:,}, got {len(rows):,} times {rows.k:,}: read "
                "some of the rows (where)"
            )
        sums, d = [rows.sums(part) for part in parts], rows.known_recipe.d
        return [
            rows.take(part).scores(ridge_estimate([sums[other] for other in others], ridge, d))
            for part, others in zip(parts, used, strict=True)
        ]

    def ask(self, agent: Agent, row: int) -> tuple[Any, int]:
        """Where practice is drawn, or a coin thrown, it is shown to nobody: most rows are not played.

        Whether a row is kept depends on no draw, so that those of a round may serve until one is.
        """
        asked = self.question(row)
        if "practice" in asked:
            choice = agent.driver.peek(None, agent.driver.question(**asked))
        else:
            choice = agent.decide(**asked)
        return choice, self.place(choice)

    def place(self, choice: Any) -> int:
        return self.rows.known_recipe.item_places[str(choice.name)]

    def played(self, agent: Agent, row: int, choice: Any) -> Any:
        asked = self.question(row)
        return agent.decide(**asked) if "practice" in asked else choice

    def question(self, row: int) -> dict[str, Any]:
        """What a row asks, with practice where that is known: its weights among the arms on offer."""
        offered = list(self.rows.offered(row))
        asked: dict[str, Any] = {"context": self.rows.context_of(row), "allowed": offered}
        if self.practice is None:
            return asked
        known = self.weights_in(asked["context"], offered)
        weights = np.array([known.get(name, 0.0) for name in offered])
        if not weights.any():
            raise ValueError(
                f"practice must have an arm on offer in every row, got none in row {row}, which has "
                f"{', '.join(offered)}"
            )
        return asked | {"practice": weights / weights.sum()}


def means_of(rows: Rows, parts: Sequence[Ints]) -> Floats:
    """(k,) the mean reward of each arm in some parts, shrunk towards that of all by one row."""
    if not parts:
        return np.zeros(rows.k)
    rest = rows.take(np.sort(np.concatenate(parts))).offline
    return np.asarray((rest.reward_sums + rest.reference) / (rest.pulls + 1))


def ridge_estimate(parts: Sequence[tuple[Floats, Floats]], ridge: float, d: int) -> Floats:
    """(d,) or (d, q) from X'X and X'y of several parts, y (n,) or (n, q)."""
    gram = ridge * np.eye(d) + sum(part[0] for part in parts)
    vectors = sum((part[1] for part in parts), np.zeros(d) if not parts else 0.0)
    diagonal = diagonal_of(gram)
    found = np.linalg.solve(gram, vectors) if diagonal is None else (np.transpose(vectors) / diagonal).T
    return np.asarray(found, dtype=np.float64)


def kind_of(rows: Rows, practice: Practice = None) -> RowsOfArms:
    """The rows, with everything that depends on whether they have a context."""
    return RowsInContexts(rows, practice) if rows.recipe else RowsOfArms(rows, practice)
