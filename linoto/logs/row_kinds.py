"""What depends on whether rows have a context: how agents start and are asked in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.agent import Agent
from linoto.core.arrays import Bools
from linoto.core.offline import Offline, as_offline
from linoto.core.protocols import Policy, starts_without_arms
from linoto.core.validation import as_actions, as_arm
from linoto.logs.rows import Rows, WarmStart

Actions = npt.ArrayLike | None
Warm = Rows | WarmStart | None


@dataclass(frozen=True, eq=False)
class RowsOfArms:
    """Rows without a context: arms are the same in every row."""

    rows: Rows

    @property
    def varies(self) -> bool:
        """Whether every row asks something else: what an agent wants then changes without a reward."""
        return self.rows.candidates is not None

    def start(self, policy: Policy, actions: Actions, warm_start: Warm, rng: np.random.Generator) -> Any:
        """An agent that knows what the rows of the warm start say."""
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
        return choice, as_arm(getattr(choice, "arm", choice), self.rows.k, "the arm of target")

    def choice(self, agent: Agent, row: int) -> Any:
        """What it answers where the arms on offer are those of the row."""
        if self.rows.candidates is None:
            return agent.decide() if hasattr(agent, "decide") else agent.select()
        if not hasattr(agent, "decide"):
            raise ValueError(f"target must decide among the arms on offer, got {agent!r}, which only selects")
        return agent.decide(np.flatnonzero(self.rows.candidates[row]))

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

    def start(self, policy: Policy, actions: Actions, warm_start: Warm, rng: np.random.Generator) -> Any:
        if not starts_without_arms(policy):
            raise ValueError(f"policy must be one for contexts to be replayed in them, got {policy!r}")
        if isinstance(warm_start, WarmStart):
            raise ValueError("warm_start must be Rows where rows have contexts, got a WarmStart")
        moments = None if warm_start is None else warm_start.moments(np.arange(len(warm_start)))
        start: Any = policy.start
        agent = start(offline=moments, features=self.rows.recipe, rng=rng)
        if agent.needs_practice:
            raise ValueError("policy must be one that needs no practice to be replayed, got one that does")
        return agent

    def ask(self, agent: Agent, row: int) -> tuple[Any, int]:
        rows = self.rows
        choice = agent.decide(context=rows.context_of(row), allowed=list(rows.offered(row)))
        return choice, rows.known_recipe.item_places[str(choice.name)]


def kind_of(rows: Rows) -> RowsOfArms:
    """The rows, with everything that depends on whether they have a context."""
    return RowsInContexts(rows) if rows.recipe else RowsOfArms(rows)
