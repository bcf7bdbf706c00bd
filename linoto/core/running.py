"""What changes while a policy runs: everything that its next decision depends on, in one place."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Bools, Ints, Records, reader
from linoto.core.coins import Coins, draw_coins
from linoto.core.decisions import check_reward
from linoto.core.kernels import State
from linoto.core.lean import lean_copy
from linoto.core.open_rounds import OpenRounds
from linoto.core.plain_python import run_once
from linoto.core.rails import Rails, Values, settle
from linoto.core.resting import Resting
from linoto.core.shortlists import Shortlists
from linoto.core.tickets import Ticket, Tickets
from linoto.core.whitening import white_steps

of_rounds, of_rewards = reader(kernels.RUN, "rounds"), reader(kernels.RUN, "rewards")
NOBODY_ELSE = nullcontext()


@dataclass(kw_only=True, eq=False, slots=True)
class Running:
    """A policy at work, as the kernels see it."""

    params: Records  # (1,) of kernels.PARAMS; (2,) where the log may have moved
    held: State  # as the kernels left it: arms outside of the lists may have missed some rewards
    rng: np.random.Generator  # what the explorer draws comes from here
    coins: Coins | None = None  # practice's draws, and the coin of a gate that throws one
    open_rounds: OpenRounds = field(default_factory=OpenRounds)  # those that await their reward
    tickets: Tickets = field(default_factory=Tickets)  # what was played in them
    stays_safe: bool = False  # in this round
    rails: Rails | None = None  # the books of guardrails, where there are any
    lists: Shortlists | None = None  # of the arms that can be the best, while they pay

    def copied(self) -> Running:
        """The same, which stays as it is now; what is drawn from goes on."""
        held = self.held  # no round changes its actions
        parts: dict[str, Any] = {
            name: lean_copy(getattr(held, name)) for name in ("square", "vectors", "arms", "counts")
        }
        parts["run"] = held.run.copy()
        parts["blocks"] = None if held.blocks is None else held.blocks.copy()
        return replace(
            self,
            held=held._replace(**parts),
            open_rounds=copy(self.open_rounds),
            tickets=copy(self.tickets),
            rails=deepcopy(self.rails),
            lists=deepcopy(self.lists),
        )

    def become(self, other: Running) -> None:
        """Stand where a copy does; others know this one."""
        for part in fields(self):
            setattr(self, part.name, getattr(other, part.name))

    @property
    def state(self) -> State:
        """The state, every arm up to date."""
        lists = self.lists  # a round in another thread may end them
        if lists is not None:
            lists.catch_up(self.params, self.held)
        return self.held

    @state.setter
    def state(self, state: State) -> None:
        self.held = state

    @property
    def resting(self) -> Resting | None:
        """The rows of `held` that rest, if any do."""
        return None if self.lists is None else self.lists.resting

    @property
    def present(self) -> Bools:
        """(k,) the arms that can be played: all but those that were removed."""
        with self.undisturbed():
            return np.array((self.held.counts[kernels.ALLOWED] == 1) | self.all_present)

    def are_present(self, arms: Ints) -> Bools:
        """Which of these arms can be played."""
        with self.undisturbed():
            return np.array((self.held.counts[kernels.ALLOWED, arms] == 1) | self.all_present)

    def has(self, arm: int) -> bool:
        """Whether one arm can be played."""
        with self.undisturbed():
            return bool(self.held.counts.item(kernels.ALLOWED, arm) or self.all_present)

    @property
    def all_present(self) -> bool:
        """Whether it rests which arms were removed: none were."""
        resting = self.resting
        return resting is not None and resting.all_present

    def undisturbed(self) -> AbstractContextManager[object]:
        """No read in another thread wakes what rests meanwhile, whoever looks at both."""
        return NOBODY_ELSE if self.lists is None else self.lists.lock

    @property
    def estimate(self) -> State:
        """The same, with V, V^-1, b and theta, which are made when they are read where it is whitened.

        They are in a copy: whoever reads changes nothing that a round needs, in another thread either.
        """
        state = self.state
        if not state.run["whitened"].item(0):
            return state
        own = state._replace(square=state.square.copy(), vectors=state.vectors.copy())
        run_once(kernels.white_estimate, self.params, own, steps=white_steps(state))
        return own

    @property
    def run(self) -> Any:
        """The scalars of the state."""
        return self.held.run[0]

    @property
    def rounds(self) -> int:
        """Decisions committed so far."""
        found: int = of_rounds(self.held.run)[0]
        return found

    @property
    def rewards(self) -> int:
        """Rewards observed so far, and those that a value stands in for."""
        found: int = of_rewards(self.held.run)[0]
        return found

    @property
    def by_model(self) -> bool:
        """Whether something is promised that rests on the linear model."""
        p = self.params[0]
        return bool(p["by_model"] or p["loan_from"] == kernels.THE_MODEL)

    def check_reward(self, reward: Any) -> float:
        """One reward as a number, or why it cannot be one."""
        return check_reward(self.params, reward)

    def draw_coins(self) -> None:
        """Practice's draw and the coin of the next round, where there are any."""
        if self.coins is not None:
            draw_coins(self.held.run, self.coins)

    @property
    def keeps_tickets(self) -> bool:
        """Whether it is remembered what was played in a round: not where every decision is believed."""
        return self.rails is not None or not self.tickets.trusts

    def begin_waiting(self, ticket: Ticket | None) -> None:
        """The play that was just committed awaits its reward; a ticket is kept until all of it has come."""
        round = self.rounds
        self.open_rounds.open(round)
        if ticket is not None:
            self.tickets.keep(round, ticket)

    def tell(self, round: int, ticket: Ticket, values: Values) -> None:
        """Values of guardrails of a round, as it was committed."""
        if self.rails is not None and values:
            self.rails.tell(round, ticket, values)
        self.settle(round)

    def close(self, round: int) -> None:
        """The reward of a round has come, or never will."""
        self.open_rounds.close(round)
        if self.keeps_tickets:
            self.settle(round)

    def close_by_arm(self, arm: int, mixture: bool) -> None:
        """The reward of an arm has come: its oldest open play, of the mixture or not, is told."""
        round = self.tickets.oldest(self.open_rounds, arm, mixture)
        if round is not None:
            self.close(round)
        if self.rounds == self.rewards + 1:  # this one was the last
            self.open_rounds.clear()
            for round in tuple(self.tickets.by_round):
                self.settle(round)

    def settle(self, round: int) -> None:
        """Forget what was played in a round, where nothing of it is to come any more."""
        settle(round, self.tickets, self.open_rounds, self.rails)

    def forget_decision(self) -> None:
        """Decide the next question from the beginning."""
        self.held.run["fresh"] = 0
