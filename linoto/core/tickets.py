"""What each committed play was, until all of it has come: what is told by another decision is refused.

A decision that was changed before it is played is no error: what it plays is judged by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.decisions import Decision
from linoto.core.open_rounds import OpenRounds

MOST_TICKETS = 2**17  # rounds of which something may still come: what is older is never told
MOST_OFFERED = 64  # decisions of one round that are remembered until its commit
COLUMNS = [
    *(("round", "i8"), ("play", "i8"), ("entry", "i1")),
    *(("share", "f8"), ("centre", "f8"), ("mixture", "i1")),
]


class Ticket(NamedTuple):
    """A committed play as the books have it, whatever its decision says when its reward comes."""

    play: int  # its arm or, where rounds bring their own, a digest of its action
    entry: int = kernels.NO_ENTRY
    share: float = 0.0
    centre: float = 0.0
    mixture: bool = False
    centres: tuple[float, ...] = ()  # of guardrails

    @property
    def thrown(self) -> bool:
        """Whether its coin was thrown."""
        return self.entry in (kernels.EXPLORED_PLAY, kernels.CONTROL_PLAY)

    def is_play_of(self, decision: Decision) -> bool:
        """Whether a decision is this play; a coin that it claims must be the one of its round."""
        if play_of(decision) != self.play:
            return False
        if self.entry == kernels.UNASKED_PLAY or decision.control_share is None:
            return True  # the books know better
        claimed = decision.control_share, decision.centre, decision.centres or ()
        return claimed == (self.share, self.centre, self.centres) and self.entry == coin_of(decision)


def play_of(decision: Decision) -> int:
    """What a decision plays, as a number: 64 bits of a digest tell actions apart."""
    if decision.action is None:
        return decision.arm
    data = np.array(decision.action, dtype="<f8").tobytes()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def coin_of(decision: Decision) -> int:
    """What the coin said, by a decision that claims one."""
    return kernels.CONTROL_PLAY if decision.source == "control" else kernels.EXPLORED_PLAY


class Tickets:
    """One ticket for each committed round of which something is still to come, the oldest first."""

    def __init__(self, *, known_from: int = 1) -> None:
        self.known_from = known_from  # an older version kept nothing of the rounds before
        self.trusts = False  # whether every decision is taken for what it says
        self.by_round: dict[int, Ticket] = {}
        self.offered: deque[Decision] = deque(maxlen=MOST_OFFERED)  # in the round to come

    def __copy__(self) -> Tickets:
        found = Tickets(known_from=self.known_from)
        found.trusts, found.by_round, found.offered = self.trusts, self.by_round.copy(), self.offered.copy()
        return found

    def keep(self, round: int, ticket: Ticket) -> None:
        """A round is committed."""
        self.by_round[round] = ticket
        if len(self.by_round) > MOST_TICKETS:
            del self.by_round[next(iter(self.by_round))]

    def drop(self, round: int) -> None:
        """Nothing of it is to come any more."""
        self.by_round.pop(round, None)

    def oldest(self, awaiting: OpenRounds, arm: int, mixture: bool) -> int | None:
        """The round whose reward has come by its arm alone: the oldest open one; None: it is not known."""
        if self.trusts:
            return None
        plays = (round for round, of in self.by_round.items() if (of.play, of.mixture) == (arm, mixture))
        return next(filter(awaiting.awaits, plays), None)

    def believes(self, round: int) -> bool:
        """Whether a decision of this round is taken for what it says."""
        return self.trusts or 1 <= round < self.known_from

    def of(self, decision: Decision) -> Ticket | None:
        """The play of a decision that awaits something; None: it is what it says. Refuses any other."""
        if self.believes(decision.round):
            return None
        found = self.by_round.get(decision.round)
        if found is None:
            raise ValueError(
                f"decision must be one of the last {MOST_TICKETS} rounds of which something is to come, got "
                f"one of round {decision.round}"
            )
        if not found.is_play_of(decision):
            raise ValueError(
                f"decision must be the one that was committed in round {decision.round}, got another: what "
                "comes of a round is told by its own decision"
            )
        return found

    def has_offered(self, decision: Decision) -> bool | None:
        """Whether this decision was made for the round to come; None: nobody has asked in it."""
        if self.trusts:
            return True
        if not self.offered:
            return None
        if decision is self.offered[-1] or any(decision is other for other in self.offered):
            return True
        return claims_of(decision) in map(claims_of, self.offered)

    def is_latest(self, decision: Decision) -> bool:
        """Whether this is the last decision of the round to come, of those that were made for it."""
        return bool(self.offered) and decision is self.offered[-1]

    def as_offered(self, decision: Decision) -> Decision:
        """The decision of the round to come that this one is, whatever source it claims; or itself."""
        latest = self.offered[-1] if self.offered else None
        if self.trusts or decision is latest or any(decision is other for other in self.offered):
            return decision
        claimed = played(decision)
        same = [other for other in self.offered if played(other) == claimed]
        return next((other for other in same if other.source == decision.source), (same or [decision])[-1])

    # -- keeping

    def save(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write them into a snapshot."""
        header["tickets"] = None if self.trusts else self.known_from
        if not self.by_round:
            return
        rows = [(round, *ticket[:5], *ticket.centres) for round, ticket in self.by_round.items()]
        centres = [(f"centre_{place}", "f8") for place in range(len(rows[0]) - len(COLUMNS))]
        arrays["tickets"] = np.array(rows, dtype=[*COLUMNS, *centres])

    @classmethod
    def load(cls, header: Mapping[str, Any], arrays: Mapping[str, Any], rounds: int) -> Tickets:
        """Those of a snapshot after so many rounds; an older one holds none."""
        known_from = header["tickets"] if header["format"] > 5 else None
        found = cls(known_from=rounds + 1 if known_from is None else int(known_from))
        for round, *ticket in arrays["tickets"].tolist() if "tickets" in arrays else ():
            play, entry, share, centre, mixture, *centres = ticket
            found.by_round[round] = Ticket(play, entry, share, centre, bool(mixture), tuple(centres))
        return found


def claims_of(decision: Decision) -> tuple[Any, ...]:
    """All of a decision that the books read."""
    return decision.source, *played(decision)


def played(decision: Decision) -> tuple[Any, ...]:
    """The same but for where its arm came from, which only who made it knows."""
    d = decision
    coin = d.control_share, d.centre, d.centres
    return d.arm, d.proposal, d.fallback, *coin, d.action, d.practice
