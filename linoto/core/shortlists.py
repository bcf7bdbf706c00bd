"""Lists of the arms that can be the best: what spares a large catalogue a look at every arm in every round.

The answers have the bits of plain rounds, so lists begin and end whenever that is cheaper (docs/maths.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Records
from linoto.core.kernels import Parts, State


class Sizes(NamedTuple):
    """How long lists are at first, and from how many arms on there are any."""

    short: int = 512
    long: int = 8192
    least_arms: int = 4096

    def of(self, k: int) -> tuple[int, int]:
        """The short and the long list out of k arms."""
        long = min(self.long, max(k // 4, 1))
        return min(self.short, max(long // 4, 1)), long


class Shortlists:
    """The lists of one agent, and what arms outside of them have missed."""

    def __init__(self, state: State, sizes: Sizes, parts: Parts) -> None:
        (d, k), self.books = state.actions.shape, parts[:2]  # the coin's and the ledger's
        self.arrays = kernels.allocate_lists(k, d, *sizes.of(k))

    @staticmethod
    def suit(params: Records, state: State, sizes: Sizes) -> bool:
        """Whether there are kernels for lists with this policy, and enough arms."""
        p, k = params[0], state.actions.shape[1]
        gates = kernels.OPEN, kernels.CLOSED, kernels.TOLERANCE, kernels.CONTROL
        by_budget = p["gate"] == kernels.BUDGET and p["reach"] == kernels.PROPOSAL
        return bool(
            k >= sizes.least_arms
            and p["explorer"] in (kernels.UCB, kernels.GREEDY, kernels.THOMPSON)
            and (by_budget or p["gate"] in gates)
            and p["memory"] == 0
            and not kernels.is_shifted(state)
            and state.run[0]["one_hot"] == 0
            and p["floor"] == -np.inf
        )

    @property
    def book(self) -> np.void:
        """Their scalars: how long they are, how often they were chosen, how many arms were touched."""
        found: np.void = self.arrays.book[0]
        return found

    def begin(self, params: Records, state: State) -> bool:
        """The first lists of a state in which every arm is up to date; False: it has none."""
        return bool(kernels.list_begin(params, state, self.arrays) == kernels.LISTS_GO_ON)

    def meet(self, params: Records, state: State, arm: int) -> None:
        """Let one arm catch up."""
        if self.arrays.book["steps"].item(0):
            kernels.list_meet(params, state, self.arrays, arm)

    def catch_up(self, params: Records, state: State) -> None:
        """Let every arm catch up."""
        if self.arrays.book["steps"].item(0):
            kernels.list_settle(params, state, self.arrays)

    def decide(self, params: Records, state: State, proposal: int) -> int:
        """The arm of the round, or what becomes of a proposal; -1 where plain rounds have to say it."""
        return int(kernels.list_decide(params, state, self.arrays, proposal, self.books[0]))

    def commit(self, params: Records, state: State, arm: int, mixture: bool) -> int:
        """Count a play: whether the lists go on."""
        return int(kernels.list_commit(params, state, self.arrays, arm, mixture, *self.books))

    def observe(self, params: Records, state: State, *reward: Any) -> int:
        """Count a reward, unless the lists are full: whether they go on."""
        told = int(kernels.list_observe(params, state, self.arrays, *(*reward, *self.books)))
        if told != kernels.HISTORY_FULL:
            return told
        self.make_room(params, state)
        return self.observe(params, state, *reward)

    def play(self, params: Records, state: State, *rounds: Any) -> tuple[int, int]:
        """Play some of these rounds: how many, and whether the lists go on."""
        count, told = kernels.list_play(params, state, self.arrays, *(*rounds, *self.books))
        if told != kernels.HISTORY_FULL:
            return int(count), int(told)
        self.make_room(params, state)
        return int(count), kernels.LISTS_GO_ON

    def make_room(self, params: Records, state: State) -> None:
        """More history, until it takes as much memory as the features: then all arms catch up."""
        d, k = state.actions.shape
        if self.book["steps"] >= k or self.book["refreshes"] >= max(k // d, 4):
            self.catch_up(params, state)
        else:
            self.arrays = kernels.with_history(self.arrays)
