"""Kernels that Python calls in every round: what their arguments are is found out once for a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linoto.core import kernels
from linoto.core.arrays import Records
from linoto.core.kernels import Parts, State

Entry = Callable[..., Any]
ENTRIES: dict[Any, tuple[Entry, Entry, Entry]] = {}  # of `decide`, `commit` and `observe`


class Calls:
    """One decision, play or reward of arms that stay the same, with the parts of one policy.

    numba looks at every array of every call to find the code that was compiled for such arguments, which
    takes three times as long as a small decision. A state is looked at when it is first seen instead.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.books, self.learning = parts, parts[:2], parts[:5]
        self.known: State | None = None

    def __reduce__(self) -> tuple[type[Calls], tuple[Parts]]:
        """Code is found again wherever an agent is copied to."""
        return Calls, (self.parts,)

    def look_at(self, params: Records, state: State) -> None:
        """Find the code for such a state; compile it where that is the first of its kind."""
        kinds = tuple((array.dtype, array.ndim, array.flags.num) for array in (params, *state))
        if (kinds, self.parts) not in ENTRIES:
            ENTRIES[kinds, self.parts] = (
                entry_of(kernels.decide, params, state, -1, *self.parts),
                entry_of(kernels.commit, params, state, 0, False, *self.books),
                entry_of(kernels.observe, params, state, 0, False, 0.0, 0.0, False, *self.learning),
            )
        self._decide, self._commit, self._observe = ENTRIES[kinds, self.parts]
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


def entry_of(kernel: Any, *args: Any) -> Entry:
    """The compiled code for arguments of these types, which it takes on trust."""
    entry: Entry = kernel.compile(tuple(map(kernel.typeof_pyval, args)))
    return entry
