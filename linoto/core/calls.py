"""Kernels that Python calls in every round: what their arguments are is found out once for a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.kernels import Part, Parts, State

Entry = Callable[..., Any]
ENTRIES: dict[Any, tuple[Entry, Entry, Entry]] = {}  # of `decide`, `commit` and `observe`


class Calls:
    """One decision, play or reward of arms that stay the same, with the parts of one policy.

    numba looks at every array of every call to find the code that was compiled for such arguments, which
    takes three times as long as a small decision. A state is looked at when it is first seen instead.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.books, self.learning = parts, parts[:2], parts[:6]
        self.known: State | None = None

    def __reduce__(self) -> tuple[type[Calls], tuple[Parts]]:
        """Code is found again wherever an agent is copied to."""
        return Calls, (self.parts,)

    def look_at(self, params: Records, state: State) -> None:
        """Find the code for such a state; compile it where that is the first of its kind."""
        key = (kind_of(params), kind_of(state), self.parts)
        if key not in ENTRIES:
            ENTRIES[key] = (
                entry_of(kernels.decide, params, state, -1, *self.parts),
                entry_of(kernels.commit, params, state, 0, False, *self.books),
                entry_of(kernels.observe, params, state, 0, False, 0.0, 0.0, False, *self.learning),
            )
        self._decide, self._commit, self._observe = ENTRIES[key]
        self.known = state

    def decide(self, params: Records, state: State, proposal: int) -> int:
        """Decide about the explorer's favourite, or about a proposal that is not -1."""
        if state is not self.known:
            self.look_at(params, state)
        arm: int = self._decide(params, state, proposal, *self.parts)
        return arm

    def commit(self, params: Records, state: State, arm: int, mixture: bool) -> None:
        """Count a play."""
        if state is not self.known:
            self.look_at(params, state)
        self._commit(params, state, arm, mixture, *self.books)

    def observe(
        self, params: Records, state: State, arm: int, mixture: bool, value: float, error: float, played: bool
    ) -> None:
        """Count a reward, and the play where that is not `played` yet."""
        if state is not self.known:
            self.look_at(params, state)
        self._observe(params, state, arm, mixture, value, error, played, *self.learning)


class RoundCalls:
    """The same where rounds bring their own arms, which are arrays of one kind in every round.

    A state is looked at when its matrices are other ones: `with_arms` makes a new one for each round.
    """

    def __init__(self, coin: Part, shift: Part) -> None:
        self.coin, self.shift = coin, shift
        self.known: Floats | None = None

    def __reduce__(self) -> tuple[type[RoundCalls], tuple[Part, Part]]:
        """Code is found again wherever an agent is copied to."""
        return RoundCalls, (self.coin, self.shift)

    def look_at(self, params: Records, state: State) -> None:
        """Find the code for such a state; compile it where that is the first of its kind."""
        key = (kind_of(params), kind_of(state[1:]), self.coin, self.shift)
        if key not in ENTRIES:
            parts, one, seen = (self.coin, self.shift), np.zeros(1), state._replace(actions=np.zeros((1, 1)))
            told = False, 0.0, 0.0, True
            ENTRIES[key] = (
                entry_of(kernels.context_decide, params, seen, np.zeros((1, 1)), one, 1, -1, *parts),
                entry_of(kernels.context_commit, params, seen, one, one, False, self.coin),
                entry_of(kernels.context_observe, params, seen, one, one, 0, 0, *told, *parts),
            )
        self._decide, self._commit, self._observe = ENTRIES[key]
        self.known = state.square

    def decide(
        self, params: Records, state: State, whitened: Floats, weights: Floats, offered: int, proposal: int
    ) -> None:
        """Decide about the arms in the state."""
        if state.square is not self.known:
            self.look_at(params, state)
        self._decide(params, state, whitened, weights, offered, proposal, self.coin, self.shift)

    def commit(
        self, params: Records, state: State, action: Floats, practice: Floats, by_practice: bool
    ) -> None:
        """Count a play."""
        if state.square is not self.known:
            self.look_at(params, state)
        self._commit(params, state, action, practice, by_practice, self.coin)

    def observe(self, params: Records, state: State, action: Floats, value: float, error: float) -> None:
        """Count a reward."""
        if state.square is not self.known:
            self.look_at(params, state)
        told = False, value, error, True
        self._observe(params, state, action, action, -1, -1, *told, self.coin, self.shift)

    def take(
        self,
        params: Records,
        state: State,
        action: Floats,
        practice: Floats,
        arm: int,
        compared: int,
        by_practice: bool,
        value: float,
    ) -> None:
        """Count a play and its reward. Where `arm` is not -1 it is an arm of this round, written to `action`.

        So is `compared`, to `practice`.
        """
        if state.square is not self.known:
            self.look_at(params, state)
        told = by_practice, value, 0.0, False
        self._observe(params, state, action, practice, arm, compared, *told, self.coin, self.shift)


def kind_of(value: Any) -> Any:
    """What values have in common for which numba compiles a kernel once."""
    if isinstance(value, tuple):
        return (type(value), *map(kind_of, value))
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    return type(value)


def entry_of(kernel: Any, *args: Any) -> Entry:
    """The compiled code for arguments of these types, which it takes on trust."""
    entry: Entry = kernel.compile(tuple(map(kernel.typeof_pyval, args)))
    return entry
