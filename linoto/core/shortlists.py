"""Lists of the arms that can be the best: what spares a large catalogue a look at every arm in every round.

The answers have the bits of plain rounds, so lists begin and end whenever that is cheaper (docs/maths.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Records
from linoto.core.kernels import Parts, State
from linoto.core.lean import give_back
from linoto.core.resting import Resting, give_scratch_back, known_sums, rest, wake
from linoto.core.validation import MANY_ARMS

P = ParamSpec("P")
T = TypeVar("T")
HISTORY, OF_REFRESHES = ("steps", "gains", "refreshed"), ("renewed", "thetas", "roots")
MADE_ANEW = ("long_rows", "short_rows", "fresh", "scratch")  # of the features, or for one call
NOT_KEPT = (*MADE_ANEW, "known", "known_sums")  # what rests is stored in its place
REST_AFTER = 32  # rewards since every arm was read: who reads them often lets nothing rest
DRAWING = kernels.THOMPSON, kernels.LUCK
TOGETHER = 64  # arms that do so at a time: fewer take longer each, more let a round wait


class Sizes(NamedTuple):
    """How long lists are at first, from how many arms on there are any, and how long history is."""

    short: int = 512
    long: int = 8192
    least_arms: int = MANY_ARMS
    memory: int = 32_768

    def of(self, d: int, k: int, slices: int = 0) -> tuple[int, int, int]:
        """The short and the long list out of k arms, and the rewards kept before arms repeat them in turn."""
        long = min(max(self.long, k // 32), max(k // 4, 1))
        matrices = d * max(slices, 1)  # that each 512 rewards bring, in numbers for each feature
        memory = max(min(self.memory, 2 * k), k // 2) * 512 // (512 + matrices)
        return min(self.short, max(long // 4, 1)), long, max(memory, 1)


def stored_kind(array: npt.NDArray[Any]) -> np.dtype[Any]:
    """The type in which an array of lists is stored: whole numbers take 8 bytes there, as in all versions."""
    return np.dtype(np.int64) if array.dtype.kind == "i" else array.dtype


def in_turn(method: Callable[Concatenate[Shortlists, P], T]) -> Callable[Concatenate[Shortlists, P], T]:
    """One thread at a time: with lists, to read an arm is to write what it has missed."""

    @wraps(method)
    def waiting(lists: Shortlists, /, *args: P.args, **options: P.kwargs) -> T:
        with lists.lock:
            return method(lists, *args, **options)

    return waiting


class Shortlists:
    """The lists of one agent, and what arms outside of them have missed."""

    def __init__(self, state: State, sizes: tuple[int, int, int], parts: Parts) -> None:
        self.lock = RLock()
        (d, k), self.books = state.actions.shape, parts[:2]  # the coin's and the ledger's
        self.sizes = sizes
        self.arrays = kernels.allocate_lists(k, d, *sizes[:2], state.actions.dtype.name)
        self.memory = sizes[2]
        self.resting: Resting | None = None
        self.chosen = 0  # how often the long list was chosen when scratch was last given back
        self.turn = 0  # arms before this one have repeated the first `memory` rewards

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock: a copy has its own."""
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept, lock=RLock())

    @staticmethod
    def suit(params: Records, state: State, sizes: Sizes) -> bool:
        """Whether there are kernels for lists with this policy, and enough arms."""
        p, k = params[0], state.actions.shape[1]
        gates = kernels.OPEN, kernels.CLOSED, kernels.TOLERANCE, kernels.CONTROL
        by_budget = p["gate"] == kernels.BUDGET and p["reach"] == kernels.PROPOSAL
        return bool(
            k >= sizes.least_arms
            and p["explorer"] in (kernels.UCB, kernels.GREEDY, *DRAWING)
            and not (p["explorer"] == kernels.LUCK and p["gate"] == kernels.CONTROL)  # it states chances
            and (by_budget or p["gate"] in gates)
            and p["memory"] == 0
            and not kernels.is_shifted(state)
            and state.run[0]["one_hot"] == state.run[0]["whitened"] == 0
            and p["floor"] == -np.inf
        )

    @property
    def book(self) -> np.void:
        """Their scalars: how long they are, how often they were chosen, how many arms were touched."""
        found: np.void = self.arrays.book[0]
        return found

    @staticmethod
    def spare_passes(params: Records) -> bool:
        """Whether a plain round goes through all features more than once: for a draw, or for rooms."""
        p = params[0]
        return bool(p["explorer"] in DRAWING or (p["gate"] == kernels.TOLERANCE and p["by_model"]))

    @staticmethod
    def scan(params: Records) -> bool:
        """Whether all arms outside of a list may be looked at in one round, as `lists.scans` says."""
        p = params[0]
        return bool(p["explorer"] in DRAWING or p["gate"] == kernels.TOLERANCE)

    @property
    def are_whole(self) -> bool:
        """Whether every decision looks at every arm: lists did not pay, and are to be tried again."""
        return bool(self.arrays.book["long"].item(0) == 0)

    def begin(self, params: Records, state: State, whole: bool = False) -> bool:
        """The first lists of a state in which every arm is up to date; False: it has none."""
        return bool(kernels.list_begin(params, state, self.arrays, whole) == kernels.LISTS_GO_ON)

    @in_turn
    def meet(self, params: Records, state: State, arm: int) -> None:
        """Let one arm catch up."""
        if self.arrays.book["steps"].item(0):
            kernels.list_meet(params, state, self.arrays, arm)

    @in_turn
    def catch_up(self, params: Records, state: State) -> None:
        """Let every arm catch up; nothing is kept for them any more."""
        if self.arrays.book["steps"].item(0):
            kernels.list_settle(params, state, self.arrays, 0, state.actions.shape[1])
            self.forget(self.arrays.book["steps"].item(0))
        if self.resting is not None:
            wake(state, self.resting)
            self.know(None)

    def know(self, resting: Resting | None) -> None:
        """What rests from now on."""
        nothing = np.zeros(0, np.int64), np.zeros((2, 0))
        arms, sums = nothing if resting is None else known_sums(resting)
        self.resting, self.arrays = resting, self.arrays._replace(known=arms, known_sums=sums)

    def spare_memory(self, params: Records, state: State) -> None:
        """Let rows rest that rounds do not read, and give back what a choice of the long list has written."""
        book = self.arrays.book
        if self.resting is not None:
            if book["chosen_long"].item(0) > self.chosen and not self.scan(params):
                give_scratch_back(state)
                self.chosen = book["chosen_long"].item(0)
        elif book["steps"].item(0) >= REST_AFTER and not self.are_whole:
            self.know(rest(params, state))
            self.chosen = book["chosen_long"].item(0)

    def forget(self, steps: int) -> None:
        """Keep the first rewards no longer: every arm has repeated them."""
        h, book, self.turn = self.arrays, self.arrays.book, 0
        kept, refreshes = int(book["steps"][0]) - steps, int(book["refreshes"][0])
        gone = int((h.refreshed[:steps] >= 0).sum())
        for names, first, left in ((HISTORY, steps, kept), (OF_REFRESHES, gone, refreshes - gone)):
            for rows in (getattr(h, name) for name in names):
                rows[:left] = rows[first : first + left].copy()
        h.refreshed[:kept][h.refreshed[:kept] >= 0] -= gone
        if kept == 0:
            give_back(h.stamps)
        else:
            np.maximum(h.stamps - steps, 0, out=h.stamps)  # the short list's are written when it is left
        book["steps"], book["refreshes"] = kept, refreshes - gone

    def take_turns(self, params: Records, state: State) -> None:
        """Once the history is long, let some arms catch up after each reward, and then forget its first half.

        All at once would let one round wait for as long as thousands of plain ones take.
        """
        steps, k = self.arrays.book["steps"].item(0), state.actions.shape[1]
        due = min((steps - self.memory + 1) * -(-k // self.memory), k)
        if steps < self.memory:
            self.turn = 0  # a decision may have let all arms catch up in the middle of their turns
            return
        if due < k and due < self.turn + TOGETHER:
            return
        kernels.list_settle(params, state, self.arrays, self.turn, due)
        self.turn = due
        if due == k:
            self.forget(self.memory)

    @property
    def most_rounds(self) -> int:
        """How many rounds may be played before arms take their turns."""
        left: int = self.memory - int(self.book["steps"])
        return max(left, TOGETHER)

    # -- keeping

    @in_turn
    def saved(self, params: Records, state: State) -> dict[str, npt.NDArray[Any]]:
        """Everything that lists need to go on, with the numbers of the short list in the rows of its arms."""
        kernels.list_settle(params, state, self.arrays, 0, 0)
        steps, refreshes = int(self.book["steps"]), int(self.book["refreshes"])
        lengths = dict.fromkeys(HISTORY, steps) | dict.fromkeys(OF_REFRESHES, refreshes)
        kept = {name: array for name, array in self.arrays._asdict().items() if name not in NOT_KEPT}
        kept = {name: array[: lengths.get(name, len(array))] for name, array in kept.items()}
        found = {f"lists.{name}": np.array(array, stored_kind(array)) for name, array in kept.items()}
        found["lists.places"] -= 1  # as every version has stored them
        return found | {"lists.sizes": np.array(self.sizes), "lists.turn": np.array(self.turn)}

    @classmethod
    def restored(cls, state: State, parts: Parts, arrays: dict[str, npt.NDArray[Any]]) -> Shortlists:
        """The lists of a state that was kept with them."""
        short, long, memory = arrays["lists.sizes"].tolist()
        lists = cls(state, (short, long, memory), parts)
        room, lists.turn = lists.arrays, int(arrays["lists.turn"])
        while len(room.steps) < len(arrays["lists.steps"]) or len(room.thetas) < len(arrays["lists.thetas"]):
            room = kernels.with_history(room)
        for name, array in room._asdict().items():
            if name in NOT_KEPT:
                continue
            kept = arrays[f"lists.{name}"]
            fits = kept.ndim == array.ndim and all(map(int.__le__, kept.shape, array.shape))
            if kept.dtype != stored_kind(array) or not fits:
                raise ValueError(f"snapshot must hold lists.{name} of {array.shape}, got {kept.shape}")
            array[tuple(map(slice, kept.shape))] = kept + 1 if name == "places" else kept
        for place, rows, count in (
            (kernels.LONG, room.long_rows, int(room.book["long"][0])),
            (kernels.SHORT, room.short_rows, int(room.book["short"][0])),
        ):
            rows[:, :count] = state.actions[:, room.members[place, :count]]
        lists.arrays = room
        return lists

    # -- rounds

    @in_turn
    def decide(self, params: Records, state: State, proposal: int) -> int:
        """The arm of the round, or what becomes of a proposal; -1 where plain rounds have to say it."""
        return int(kernels.list_decide(params, state, self.arrays, proposal, self.books[0]))

    @in_turn
    def commit(self, params: Records, state: State, arm: int, mixture: bool) -> int:
        """Count a play: whether the lists go on."""
        return int(kernels.list_commit(params, state, self.arrays, arm, mixture, *self.books))

    @in_turn
    def observe(self, params: Records, state: State, *reward: Any) -> int:
        """Count a reward, unless the lists are full: whether they go on."""
        told = int(kernels.list_observe(params, state, self.arrays, *(*reward, *self.books)))
        if told == kernels.HISTORY_FULL:
            self.make_room(params, state)
            return self.observe(params, state, *reward)
        self.take_turns(params, state)
        self.spare_memory(params, state)
        return told

    @in_turn
    def play(self, params: Records, state: State, *rounds: Any) -> tuple[int, int]:
        """Play some of these rounds: how many, and whether the lists go on."""
        count, told = kernels.list_play(params, state, self.arrays, *(*rounds, *self.books))
        if told == kernels.HISTORY_FULL:
            self.make_room(params, state)
            told = kernels.LISTS_GO_ON
        self.take_turns(params, state)
        self.spare_memory(params, state)
        return int(count), int(told)

    def make_room(self, params: Records, state: State) -> None:
        """More history; where it would take many times the memory of the features, all arms catch up."""
        often = max(8, 4 * int(state.run["slices"][0]))
        most = max(self.memory * often // 512, 8)  # times that all is computed anew
        if self.book["steps"] >= 4 * self.memory or self.book["refreshes"] >= most:
            self.catch_up(params, state)
        else:
            self.arrays = kernels.with_history(self.arrays)
