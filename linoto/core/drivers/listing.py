"""When rounds go by lists of arms: they begin where that may pay, and end where it does not."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from linoto.core import kernels
from linoto.core.kernels import Part, Parts
from linoto.core.running import Running
from linoto.core.shortlists import Shortlists, Sizes
from linoto.core.warm_up import Kind, warm_up_list_loop, warm_up_lists

FIRST_WAIT, WAIT_FOR_FEATURE = 128, 5  # rewards before lists that did not pay are tried again, at the least


class Listing:
    """The lists of one driver: which there are now, and when they are tried next.

    Whatever it says, the answers have the bits of plain rounds.
    """

    def __init__(self, running: Running, parts: Parts, *, is_possible: bool) -> None:
        self.running, self.parts, self.is_possible = running, parts, is_possible
        self.use(Sizes())

    def use(self, sizes: Sizes | None) -> None:
        """Lists of these sizes from the next decision on, where they suit; None: plain rounds."""
        self.end()
        running, self.sizes = self.running, sizes
        self.next_try: int | None = None  # the number of rewards from which on there are lists; None: never
        # a try costs about d plain rounds
        self.wait = max(FIRST_WAIT, WAIT_FOR_FEATURE * running.held.vectors.shape[1])
        if sizes is not None and self.is_possible and Shortlists.suit(running.params, running.held, sizes):
            self.next_try = 0

    @property
    def compiled_for(self) -> tuple[Part, Part, Kind]:
        """What these kernels are compiled once more for."""
        return self.parts.coin, self.parts.ledger, Kind.of(self.running.held)

    def warm_up(self) -> None:
        """Load (or compile) what decisions will need, where they may go by lists."""
        if self.next_try is not None:
            warm_up_lists(*self.compiled_for)

    def now(self) -> Shortlists | None:
        """The lists that this decision is made with, if any."""
        lists = self.running.lists
        if self.next_try is None or (lists is not None and not lists.are_whole):
            return lists
        if self.running.rewards >= self.next_try and not self.begin(whole=False):
            self.give_up()
        return self.running.lists

    def begin(self, *, whole: bool) -> bool:
        """New lists, or one that is `whole`; False where there cannot be any."""
        assert self.sizes is not None
        self.end()
        running, (d, k) = self.running, self.running.held.actions.shape
        sizes = self.sizes.of(d, k, slices=int(running.run["slices"]))
        lists = Shortlists(running.held, sizes, self.parts)
        warm_up_lists(*self.compiled_for)
        if lists.begin(running.params, running.held, whole):
            running.lists = lists
        return running.lists is not None

    def resume(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Go on with lists that were kept; arms outside of them have not caught up."""
        warm_up_lists(*self.compiled_for)
        self.running.lists = Shortlists.restored(self.running.held, self.parts, arrays)

    def end(self) -> None:
        """Plain rounds from here on: every arm catches up first."""
        running = self.running
        if running.lists is not None:
            running.lists.catch_up(running.params, running.held)
            running.lists = None

    def give_up(self, *, full: bool = False) -> None:
        """The same where they do not pay; they are tried again, each time after twice as many rewards.

        Until then every arm is looked at, in fewer passes than plain rounds take where that can be.
        """
        self.end()
        self.next_try, self.wait = self.running.rewards + self.wait, 2 * self.wait
        if not full and Shortlists.spare_passes(self.running.params):
            self.begin(whole=True)

    def decide(self, proposal: int) -> int:
        """The arm, -1 where plain rounds have to say it."""
        running, lists = self.running, self.now()
        if lists is None:
            return -1
        arm = lists.decide(running.params, running.held, proposal)
        if arm < 0:
            self.give_up()
        return arm

    def commit(self, arm: int, mixture: bool) -> bool:
        """Count a play; False where there are no lists that do."""
        running = self.running
        if running.lists is None:
            return False
        if running.lists.commit(running.params, running.held, arm, mixture) != kernels.LISTS_GO_ON:
            self.give_up()
        return True

    def observe(self, *reward: Any) -> bool:
        """Count a reward; False where there are no lists that do."""
        running = self.running
        if running.lists is None:
            return False
        told = running.lists.observe(running.params, running.held, *reward)
        if told != kernels.LISTS_GO_ON:
            self.give_up(full=told == kernels.LISTS_FULL)
        return told != kernels.LISTS_FULL

    def most_rounds(self, rounds: int) -> int:
        """How many of so many rounds are played before lists are tried, or have something else to do."""
        lists = self.running.lists
        if lists is not None:
            rounds = min(rounds, lists.most_rounds)
        if self.next_try is None or self.next_try <= self.running.rewards:
            return rounds
        return min(rounds, self.next_try - self.running.rewards)

    def play(self, *rounds: Any) -> int | None:
        """Play some of these rounds, at most all of them: how many; None where there are no lists."""
        running, lists = self.running, self.now()
        if lists is None:
            return None
        warm_up_list_loop(*self.compiled_for)
        count, told = lists.play(running.params, running.held, *rounds)
        if told != kernels.LISTS_GO_ON:
            self.give_up()
        return count
