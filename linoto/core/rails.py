"""The books of guardrails while a policy runs: one ledger for each metric, by the coin of the reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import inf
from typing import Any, Protocol

import numpy as np

from linoto.core import kernels
from linoto.core.acceptable import MOST_FEATURES, Estimates
from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision
from linoto.core.gates import Gate
from linoto.core.guardrail import Guardrail, as_metric_name
from linoto.core.hints import nearest
from linoto.core.offline import Offline
from linoto.core.open_rounds import OpenRounds
from linoto.core.plain_python import is_only_looking, run_once
from linoto.core.tickets import Ticket, Tickets
from linoto.core.warm_up import warm_up_rails
from linoto.core.within import within

Values = Mapping[int, float]  # by the place of a guardrail, turned so that more is better


class Models(Protocol):
    """What pays for some guardrails in place of their books: `MetricModels`, which know drivers."""

    drivers: dict[int, Any]  # by the place of the guardrail

    def affordable(self, asked: Any) -> Bools: ...

    def rooms_in(self, asked: Any) -> Iterator[tuple[int, float]]: ...

    def rooms(self) -> Iterator[tuple[int, float]]: ...

    def commit(self, decision: Any, ticket: Ticket) -> None: ...

    def learn(self, decision: Any, ticket: Ticket, values: Values) -> None: ...

    def lose(self, decision: Any, ticket: Ticket, places: list[int]) -> None: ...

    def save(self, arrays: dict[str, Any]) -> None: ...


def share_of(confidence: Confidence, guardrails: Sequence[Guardrail]) -> Confidence:
    """What the promise of one metric may fail with: reward and guardrails have equal parts of delta."""
    if not guardrails:
        return confidence
    return replace(confidence, delta=confidence.delta / (1 + len(guardrails)))


def values_for(rails: Rails | None, metrics: Mapping[str, Any] | None) -> Values:
    """Values by the name of their metric, checked; none may be given where there are no guardrails."""
    if rails is None and metrics:
        raise ValueError(f"metrics must be left out without guardrails, got {metrics!r}")
    return {} if rails is None else rails.values_of(metrics)


def check_decision(decision: Any) -> None:
    """Refuse an arm where values of guardrails are told: they belong to a round."""
    if not isinstance(decision, Decision):
        raise ValueError(f"decision must be what decide returned for metrics, got {decision!r}")


def check_logged(rail: Guardrail, rows: int) -> None:
    """Refuse a metric of which the log does not have a value in every row."""
    if rail.logged != rows:
        raise ValueError(
            f"logged must be {rows}, the rows of this log, got {rail.logged}: a value that is missing may be "
            "any"
        )


def logged_values(rail: Guardrail, pulls: Ints) -> Offline:
    """What a log of so many pulls (k,) had of a metric, more being better; of each arm it is not known."""
    check_logged(rail, int(pulls.sum()))
    sums: Floats = rail.turn * float(rail.mean or 0.0) * pulls.astype(np.float64)
    return Offline(pulls=pulls, reward_sums=sums)


def promised_of(rails: Rails | None, gate: Gate) -> dict[str, Any]:
    """What a certificate says of guardrails: a bound where the model pays, and nothing of a log's sums."""
    if rails is None:
        return {}
    found = rails.params["kappa"] * rails.params["unit"]
    said = [
        replace(rail, sums=None, bound=rail.bound if gate.trusts_model_of(rail) else None)
        for rail in rails.guardrails
    ]
    return {"guardrails": tuple(said), "roundings": found.tolist() if found.any() else ()}


def settle(round: int, tickets: Tickets, awaiting: OpenRounds, rails: Rails | None) -> None:
    """Forget what was played in a round, where neither its reward nor a value of it is to come any more."""
    if not awaiting.awaits(round) and (rails is None or not rails.awaits(round)):
        tickets.drop(round)


RIDGE_OF_REWARD: ContextVar[bool] = ContextVar("RIDGE_OF_REWARD", default=True)


def ridge_of_reward(wanted: bool) -> AbstractContextManager[None]:
    """Whether what explorers are told of guardrails has the ridge of the reward: in 0.3.0 it was 1."""
    return within(RIDGE_OF_REWARD, wanted)


class Rails:
    """What every guardrail has counted so far, and which of its values are still to come."""

    def __init__(self, guardrails: tuple[Guardrail, ...], params: Records, confidence: Confidence) -> None:
        self.guardrails, self.params, self.confidence = guardrails, params, confidence
        self.books: Records = np.zeros(len(guardrails), dtype=kernels.RUN)
        self.open_rounds = [OpenRounds() for _ in guardrails]
        self.estimates: Estimates | None = None  # what explorers are told
        self.ridge: float | None = None  # of these; None: as for the reward
        self.needs_models = False
        self.models: Models | None = None  # what pays in place of the books, where the model does
        self.places = {rail.name: place for place, rail in enumerate(guardrails)}
        if not is_only_looking():
            warm_up_rails()

    @classmethod
    def begin(
        cls, guardrails: tuple[Guardrail, ...], gate: Gate, confidence: Confidence, pulls: Ints
    ) -> Rails | None:
        """Books in which nothing is explored yet, after a log of so many `pulls` (k,); None without any."""
        if not guardrails:
            return None
        params = np.zeros(len(guardrails), dtype=kernels.PARAMS)
        rails, delta = cls(guardrails, params, confidence), share_of(confidence, guardrails).delta
        if not RIDGE_OF_REWARD.get():
            rails.ridge = confidence.ridge or 1.0
        for rail, p, books in zip(guardrails, params, rails.books, strict=True):
            bounded = Confidence(noise="bounded", reward_range=rail.limits, delta=delta)
            p["noise"] = bounded.scale
            by_model = gate.trusts_model_of(rail)
            try:
                rows = np.array([rail.logged]) if by_model and not pulls.size else pulls
                logged = logged_values(rail, rows) if gate.compares_with_log else Offline.empty(1)
                gate.for_guardrail(rail).fill(p, bounded, np.ones((len(logged.pulls), 1)), logged)
            except ValueError as error:
                reason = str(error).replace("epsilon", "rate")  # as guardrails call it
                raise ValueError(f"guardrail {rail.name!r}: {reason}") from None
            if by_model:
                p["budget"], rails.needs_models = inf, True  # these books are not asked
            if rail.mean is not None:
                count = int(logged.total) if gate.compares_with_log else 1
                books["logged"], books["logged_rewards"] = count, rail.turn * rail.mean * count
        run_once(kernels.rails_begin, params, rails.books, steps=1)
        return rails

    # -- what explorers are told

    def accepted(self, actions: Floats, weights: Floats) -> Bools:
        """(k,) the actions (k, d) that every guardrail may accept; practice plays them by weights (k,)."""
        if self.estimates is None or not self.estimates.is_known:
            return np.ones(len(actions), np.bool_)
        return self.estimates.among(actions, weights, self.books)

    def learn(self, action: Floats, values: Values) -> None:
        """What was told of an action (d,)."""
        for place, value in values.items():
            self.estimates_for(action.size).learn(action, place, value)

    def estimates_for(self, d: int) -> Estimates:
        """What is known of every guardrail, for so many features."""
        if self.estimates is None:
            self.estimates = Estimates(self.guardrails, d, self.ridge or self.confidence.ridge_for(d))
        return self.estimates

    def grow(self, places: Ints, d: int) -> None:
        """Go on with d features, of which those known so far are at these places."""
        if self.estimates is not None:
            self.estimates = self.estimates.grown(self.guardrails, places, d) if d <= MOST_FEATURES else None

    # -- a round

    def measure(self, run: Records) -> None:
        """Tell the kernels how much control the next round needs; not where its coin is thrown."""
        kernels.rails_measure(self.params, self.books, run)
        if self.models is None and self.needs_models:
            run["rails_share"] = 1.0  # nobody pays

    def affordable(self, asked: Any) -> Bools | None:
        """(k,) the arms of a round that every model can afford; None: no model pays."""
        if self.models is None:
            return None
        paid = self.models.affordable(asked)
        for place, room in self.models.rooms_in(asked):
            self.books[place]["room"] = room
        return paid

    def commit(self, run: Records, decision: Decision | int, ticket: Ticket) -> Ticket:
        """Count the play that is on the desk of `run`, before it is counted there; its values are to come.

        Its ticket, with what they need.
        """
        if ticket.thrown and not run[0]["coin_thrown"]:
            self.books["entry_centre"] = self.centres_of(decision)
        kernels.rails_commit(self.params, self.books, run, ticket.mixture)
        for rounds in self.open_rounds:
            rounds.open(int(run[0]["rounds"]) + 1)
        if self.models is not None:
            self.models.commit(decision, ticket)
        return ticket._replace(centres=self.centres if ticket.thrown else (0.0,) * len(self.guardrails))

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
        values: dict[int, float] = {}
        for name, value in given.items():
            place = self.place_of(as_metric_name(name))
            if place in values:
                raise ValueError(f"metrics must have one value of {self.guardrails[place].name}, got two")
            values[place] = self.guardrails[place].turned(value)
        return values

    def place_of(self, name: str) -> int:
        """The place of a metric."""
        if name not in self.places:
            known = ", ".join(self.places)
            raise ValueError(f"metrics must be of {known}, got {name!r}{nearest(str(name), self.places)}")
        return self.places[name]

    def check(self, decision: Any, values: Values, tickets: Tickets) -> Ticket:
        """The play that awaits these values; refuses another decision than was committed in its round."""
        check_decision(decision)
        for place in values:
            if not self.open_rounds[place].awaits(decision.round) or decision.round not in tickets.by_round:
                raise ValueError(
                    f"decision must await its {self.guardrails[place].name}, got one of round "
                    f"{decision.round}, which does not: it was told before, is too old, or the round was not "
                    "played"
                )
        return tickets.of(decision) or tickets.by_round[decision.round]

    def check_lost(self, decision: Any, tickets: Tickets) -> Ticket | None:
        """The play whose values never come, as `check`; None: nothing is known of it, and it is believed."""
        check_decision(decision)
        if not tickets.believes(decision.round) and not self.awaits(decision.round):
            raise ValueError(
                f"decision must be committed and await a metric, got one of round {decision.round}, which "
                "does not: all were told or lost before, or it was not played"
            )
        return tickets.of(decision) or tickets.by_round.get(decision.round)

    def awaits(self, round: int) -> bool:
        """Whether a value of a round may still come."""
        return any(rounds.awaits(round) for rounds in self.open_rounds)

    def tell(self, round: int, ticket: Ticket, values: Values) -> None:
        """Values of one round, each once."""
        for place, value in values.items():
            self.open_rounds[place].close(round)
            known = ticket.entry, ticket.share, float(ticket.centres[place])
            kernels.rails_observe(self.params, self.books, place, *known, value, ticket.mixture)

    def awaited(self, round: int) -> tuple[str, ...]:
        """The metrics whose value of a round may still come."""
        pairs = zip(self.guardrails, self.open_rounds, strict=True)
        return tuple(rail.name for rail, open in pairs if open.awaits(round))

    def lose(self, round: int) -> None:
        """What has not come of a round never will: it stays at its worst, and nothing is kept for it."""
        for rounds in self.open_rounds:
            rounds.close(round)

    # -- looking

    def rooms(self, run: Records) -> dict[str, float]:
        """What of each metric may still be lost, in any round to come."""
        looked, unthrown = self.books.copy(), run.copy()
        unthrown["coin_thrown"] = 0
        kernels.rails_measure(self.params, looked, unthrown)
        for place, room in () if self.models is None else self.models.rooms():
            looked[place]["room"] = room
        return {rail.name: float(room) for rail, room in zip(self.guardrails, looked["room"], strict=True)}

    @contextmanager
    def in_world(
        self, means: Floats, draws: Floats, rows: Floats, weights: Floats, most: int
    ) -> Iterator[kernels.Rails]:
        """What the kernels play in a known world, where these are the means and the draws of each metric.

        Explorers are told by the rows (arms, d), where these have features; practice plays them by weights. A
        round has at `most` so many arms.
        """
        ranges = [(rail.turn, rail.reward_range[0], np.ptp(rail.reward_range)) for rail in self.guardrails]
        world = self.params, self.books, means, draws, np.array(ranges).T.copy()
        tells = rows.shape[1] > 0
        estimates = self.estimates_for(rows.shape[1]) if tells else Estimates(self.guardrails, 0, 1.0)
        with estimates.in_loop(most, same_arms=weights.size > 0) as told:
            yield kernels.Rails(*world, told, rows, weights)

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
        if self.models is not None:
            self.models.save(arrays)
        if self.estimates is not None and self.estimates.is_known:
            known = self.estimates.told
            arrays["rails.inverse"], arrays["rails.theta"] = known.inverse, known.theta

    def load(self, header: dict[str, Any], arrays: Mapping[str, Any]) -> None:
        """Read them back."""
        stored = arrays.get("rails", np.zeros(0))
        if stored.shape != self.books.shape or not stored.dtype.names:
            raise ValueError(f"snapshot must hold the books of {len(self.guardrails)} guardrails, got none")
        for name in stored.dtype.names:
            if name in (self.books.dtype.names or ()):
                self.books[name] = stored[name]
        if "rails.inverse" in arrays:
            inverse = arrays["rails.inverse"]
            found = self.estimates_for(inverse.shape[1])
            sums = arrays.get("rails.sums")  # version 0.3.0 kept them
            theta = arrays["rails.theta"] if sums is None else np.einsum("mij,mj->mi", inverse, sums)
            found.told.inverse[:], found.told.theta[:], found.is_known = inverse, theta, True
        for place, part in enumerate(header["rails"]):
            bits = {"open": arrays[f"rails.{place}.open"]} if f"rails.{place}.open" in arrays else {}
            rounds = int(self.books[place]["rounds"])
            self.open_rounds[place] = OpenRounds.of(header | part, bits, rounds)
