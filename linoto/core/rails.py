"""The books of guardrails while a policy runs: one ledger for each metric, by the coin of the reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision
from linoto.core.gates import Gate
from linoto.core.guardrail import Guardrail
from linoto.core.hints import nearest
from linoto.core.offline import Offline
from linoto.core.open_rounds import OpenRounds
from linoto.core.plain_python import is_only_looking, run_once
from linoto.core.warm_up import warm_up_rails

Values = Mapping[int, float]  # by the place of a guardrail, turned so that more is better
MOST_TICKETS = 2**17  # rounds whose values may still come: older ones count at their worst


class Ticket(NamedTuple):
    """What a committed play is in the books, whatever its decision says when its values come."""

    entry: int
    share: float
    mixture: bool
    centres: tuple[float, ...]

    @property
    def thrown(self) -> bool:
        """Whether its coin was thrown."""
        return self.entry in (kernels.EXPLORED_PLAY, kernels.CONTROL_PLAY)


def share_of(confidence: Confidence, guardrails: Sequence[Guardrail]) -> Confidence:
    """What the promise of one metric may fail with: reward and guardrails have equal parts of delta."""
    if not guardrails:
        return confidence
    return replace(confidence, delta=confidence.delta / (1 + len(guardrails)))


class Rails:
    """What every guardrail has counted so far, and which of its values are still to come."""

    def __init__(self, guardrails: tuple[Guardrail, ...], params: Records) -> None:
        self.guardrails, self.params = guardrails, params
        self.books: Records = np.zeros(len(guardrails), dtype=kernels.RUN)
        self.open_rounds = [OpenRounds() for _ in guardrails]
        self.tickets: dict[int, Ticket] = {}  # by round, oldest first
        self.places = {rail.name: place for place, rail in enumerate(guardrails)}
        if not is_only_looking():
            warm_up_rails()

    @classmethod
    def begin(cls, guardrails: tuple[Guardrail, ...], gate: Gate, confidence: Confidence) -> Rails | None:
        """Books in which nothing is explored yet; None without guardrails."""
        if not guardrails:
            return None
        params = np.zeros(len(guardrails), dtype=kernels.PARAMS)
        rails, delta = cls(guardrails, params), share_of(confidence, guardrails).delta
        for rail, p, books in zip(guardrails, params, rails.books, strict=True):
            bounded = Confidence(noise="bounded", reward_range=rail.limits, delta=delta)
            p["noise"] = bounded.scale
            try:
                gate.for_guardrail(rail).fill(p, bounded, np.ones((1, 1)), Offline.empty(1))
            except ValueError as error:
                raise ValueError(f"guardrail {rail.name!r}: {error}") from None
            if rail.mean is not None:
                books["logged"], books["logged_rewards"] = 1, rail.turn * rail.mean
        run_once(kernels.rails_begin, params, rails.books, steps=1)
        return rails

    # -- a round

    def measure(self, run: Records) -> None:
        """Tell the kernels how much control the next round needs; not where its coin is thrown."""
        kernels.rails_measure(self.params, self.books, run)

    def commit(self, run: Records, decision: Decision | int) -> None:
        """Count the play that is on the desk of `run`, before it is counted there; its values are to come."""
        thrown = run[0]["entry"] in (kernels.EXPLORED_PLAY, kernels.CONTROL_PLAY)
        if thrown and not run[0]["coin_thrown"]:
            self.books["entry_centre"] = self.centres_of(decision)
        mixture = isinstance(decision, Decision) and decision.by_practice
        kernels.rails_commit(self.params, self.books, run, mixture)
        round = int(run[0]["rounds"]) + 1
        for rounds in self.open_rounds:
            rounds.open(round)
        ticket = Ticket(int(run[0]["entry"]), float(run[0]["entry_share"]), mixture, self.centres)
        self.tickets[round] = ticket if ticket.thrown else ticket._replace(centres=self.no_centres)
        if len(self.tickets) > MOST_TICKETS:
            del self.tickets[next(iter(self.tickets))]

    @property
    def centres(self) -> tuple[float, ...]:
        """What the books thought of practice when the coin of this round was thrown: a decision holds it."""
        return tuple(self.books["entry_centre"].tolist())

    def centres_of(self, decision: Any) -> tuple[float, ...]:
        """Those of a decision whose coin was thrown."""
        centres: tuple[float, ...] | None = getattr(decision, "centres", None)
        m = len(self.guardrails)
        if centres is None or len(centres) != m:
            raise ValueError(f"decision must have a centre for each of {m} guardrails, got {centres}")
        return centres

    def values_of(self, metrics: Mapping[str, Any] | None) -> Values:
        """Values by the names of their metrics as the books have them, checked."""
        given = {} if metrics is None else metrics
        if not isinstance(given, Mapping):
            raise ValueError(f"metrics must be values by their names, got {given!r}")
        places = {name: self.place_of(name) for name in given}
        return {place: self.guardrails[place].turned(given[name]) for name, place in places.items()}

    def place_of(self, name: str) -> int:
        """The place of a metric."""
        if name not in self.places:
            known = ", ".join(self.places)
            raise ValueError(f"metrics must be of {known}, got {name!r}{nearest(str(name), self.places)}")
        return self.places[name]

    @property
    def no_centres(self) -> tuple[float, ...]:
        """Those of a round without a coin."""
        return (0.0,) * len(self.guardrails)

    def check(self, desk: np.void, decision: Decision, values: Values) -> None:
        """Refuse a value that was told before, or of another decision than was committed in its round.

        `desk` is what the decision says of itself. A coin that it claims must be the one of that round.
        """
        round = decision.round
        for place in values:
            if not self.open_rounds[place].awaits(round) or round not in self.tickets:
                raise ValueError(
                    f"decision must await its {self.guardrails[place].name}, got one of round {round}, which "
                    "does not: it was told before, is too old, or the round was not played"
                )
        kept = self.tickets[round]
        claimed = kept._replace(entry=int(desk["entry"]), share=float(desk["entry_share"]))
        if not (kept.thrown or claimed.thrown):
            return
        if claimed.thrown:
            claimed = claimed._replace(centres=tuple(self.centres_of(decision)))
        if claimed != kept:
            raise ValueError(
                f"decision must be the one that was committed in round {round}, got another: values of a "
                "round are told by its own decision"
            )

    def observe(self, round: int, values: Values) -> None:
        """Values of an earlier round, as it was committed."""
        if values:
            self.tell(round, self.tickets[round], values)

    def observe_latest(self, run: Records, values: Values) -> None:
        """Values of the play that was just committed."""
        self.observe(int(run[0]["rounds"]), values)

    def tell(self, round: int, ticket: Ticket, values: Values) -> None:
        """Values of one round, each once."""
        for place, value in values.items():
            self.open_rounds[place].close(round)
            known = ticket.entry, ticket.share, float(ticket.centres[place])
            kernels.rails_observe(self.params, self.books, place, *known, value, ticket.mixture)
        if not any(rounds.awaits(round) for rounds in self.open_rounds):
            del self.tickets[round]

    def awaited(self, round: int) -> tuple[str, ...]:
        """The metrics whose value of a round may still come."""
        pairs = zip(self.guardrails, self.open_rounds, strict=True)
        return tuple(rail.name for rail, open in pairs if round in self.tickets and open.awaits(round))

    def lose(self, round: int) -> None:
        """What has not come of a round never will: it stays at its worst, and nothing is kept for it."""
        for rounds in self.open_rounds:
            rounds.close(round)
        self.tickets.pop(round, None)

    # -- looking

    def rooms(self, run: Records) -> dict[str, float]:
        """What of each metric may still be lost, in any round to come."""
        looked, unthrown = self.books.copy(), run.copy()
        unthrown["coin_thrown"] = 0
        kernels.rails_measure(self.params, looked, unthrown)
        return {rail.name: float(room) for rail, room in zip(self.guardrails, looked["room"], strict=True)}

    def in_world(self, means: Floats, draws: Floats) -> kernels.Rails:
        """What the kernels play in a known world, where these are the means and the draws of each metric."""
        ranges = [(rail.turn, rail.reward_range[0], np.ptp(rail.reward_range)) for rail in self.guardrails]
        return kernels.Rails(self.params, self.books, means, draws, np.array(ranges).T.copy())

    # -- keeping

    def save(self, header: dict[str, Any], arrays: dict[str, Any], *, thrown: bool) -> None:
        """Write the books into a snapshot; a desk is kept while the coin of its round is thrown."""
        books = self.books.copy()
        for name in kernels.DECIDED:
            if name != "entry_centre" or not thrown:
                books[name] = 0
        arrays["rails"] = books
        parts: list[dict[str, Any]] = [{} for _ in self.guardrails]
        for place, (part, rounds) in enumerate(zip(parts, self.open_rounds, strict=True)):
            bits: dict[str, Any] = {}
            rounds.save(part, bits)
            arrays |= {f"rails.{place}.{name}": array for name, array in bits.items()}
        header["rails"] = parts
        if self.tickets:
            rows = [(round, *ticket[:3], *ticket.centres) for round, ticket in self.tickets.items()]
            arrays["rails.tickets"] = np.array(rows, dtype=np.float64)

    def load(self, header: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        """Read them back."""
        stored = arrays.get("rails", np.zeros(0))
        if stored.shape != self.books.shape or not stored.dtype.names:
            raise ValueError(f"snapshot must hold the books of {len(self.guardrails)} guardrails, got none")
        for name in stored.dtype.names:
            if name in (self.books.dtype.names or ()):
                self.books[name] = stored[name]
        for place, part in enumerate(header["rails"]):
            bits = {"open": arrays[f"rails.{place}.open"]} if f"rails.{place}.open" in arrays else {}
            rounds = int(self.books[place]["rounds"])
            self.open_rounds[place] = OpenRounds.of(header | part, bits, rounds)
        for row in arrays.get("rails.tickets", np.zeros((0, 4))).tolist():
            round, entry, share, mixture, *centres = row
            self.tickets[int(round)] = Ticket(int(entry), share, bool(mixture), tuple(centres))
