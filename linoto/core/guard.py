"""A safety gate for any recommender: no features, no model, only arms, a log and the rewards that come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from linoto.core import codec, coins, kernels
from linoto.core.arrays import Ints, Records
from linoto.core.certificates import Certificate, Situation, certify
from linoto.core.coins import Coins
from linoto.core.confidence import Confidence
from linoto.core.decisions import SOURCES, Decision, check_reward, check_round, credit
from linoto.core.gates import Control, Gate, Tolerance
from linoto.core.guardrail import Guardrail, as_guardrails
from linoto.core.offline import Offline
from linoto.core.open_rounds import OpenRounds, check_awaited
from linoto.core.rails import Rails, promised_of, settle, share_of, values_for
from linoto.core.saving import SNAPSHOT_FORMAT, under_stored_names
from linoto.core.tickets import Ticket, Tickets, claims_of
from linoto.core.validation import as_arm, generator_for


class Guard:
    """Let any recommender explore, and never fall further below the log than was agreed.

    Each round it is asked about one proposed arm and answers with that arm, if realised rewards have paid for
    it, or else with the next arm of the logging mixture. With probability 1 - delta, for every t at once, the
    summed shortfall below the log is at most budget + epsilon t + kappa (hi - lo). Nothing is assumed of the
    recommender, nor of how rewards depend on features: the arms earn online what they earned in the log, and
    which rewards arrive does not depend on their values (the certificate has the whole list). `noise` is the
    sub-Gaussian scale of the rewards, or "bounded" where every single reward (and not only its mean) lies in
    `reward_range`, which lets it explore sooner.

    With `gate=Control(...)` it promises the same against what the mixture earns now, whatever the arms do
    since the log. Its coin is the system's own and nobody knows it, unless `rng` is a seed or a generator:
    then a run can be repeated, by whoever knows the seed. Report rewards with their decisions.

    >>> guard = Guard(Offline(pulls=[80, 20], reward_sums=[60.0, 5.0]), epsilon=0.1, reward_range=(0, 1),
    ...               noise="bounded")
    >>> decision = guard.decide(1)
    >>> decision.arm, decision.source
    (0, 'mixture')
    >>> guard.update(decision, reward=1.0)
    """

    def __init__(
        self,
        offline: Offline,
        *,
        reward_range: tuple[float, float],
        epsilon: float = 0.0,
        budget: float = 0.0,
        delta: float = 0.05,
        noise: float | str = 1.0,
        relative: bool = False,
        promise: Literal["expected", "realised"] = "expected",
        gate: Control | None = None,
        guardrails: Sequence[Guardrail] = (),
        rng: int | np.random.Generator | None = None,
    ) -> None:
        if not isinstance(offline, Offline):
            raise ValueError(f"offline must be a linoto.Offline, got {type(offline).__name__}")
        rates = {"budget": budget, "epsilon": epsilon, "relative": relative, "promise": promise}
        if gate is not None:
            check_gate(gate, rates)
        confidence = Confidence(delta=delta, noise=noise, reward_range=reward_range)  # type: ignore[arg-type]
        chosen = gate or Tolerance(evidence="rewards", **rates)  # type: ignore[arg-type]
        self._begin(offline, chosen, confidence, as_guardrails(guardrails))
        if self.gate.throws_coin:
            self._coins = coins.coins_for(rng, generator_for(rng))
            coins.draw_coins(self._run, self._coins)

    @classmethod
    def of(
        cls,
        offline: Offline,
        gate: Gate,
        confidence: Confidence,
        guardrails: tuple[Guardrail, ...] = (),
    ) -> Guard:
        """A guard with a gate that is there already."""
        guard = cls.__new__(cls)
        guard._begin(offline, gate, confidence, guardrails)
        return guard

    _coins: Coins | None

    def _begin(
        self, offline: Offline, gate: Gate, confidence: Confidence, guardrails: tuple[Guardrail, ...]
    ) -> None:
        self.offline, self.gate, self.confidence, self.guardrails = offline, gate, confidence, guardrails
        reason = gate.why_no_guardrails(confidence, guardrails) if guardrails else None
        if reason is not None:
            raise ValueError(reason)
        self._rails = Rails.begin(guardrails, gate, confidence, offline.pulls)
        self._of_gate = confidence = share_of(confidence, guardrails)
        k = offline.pulls.size
        self._logged = np.flatnonzero(offline.pulls)  # (n,) the arms of the mixture: no other is ever due
        self._shares = offline.pulls[self._logged]
        self._mixed = np.zeros_like(self._shares)
        self._counts = np.zeros((kernels.ALLOWED + 1, k), dtype=np.int64)  # pending plays, as in State
        self._params = np.zeros(1, dtype=kernels.PARAMS)
        self._params["noise"], self._params["shift"] = confidence.scale, confidence.shift
        gate.fill(self._params[0], confidence, np.ones((k, 1)), offline)
        self._run: Records = np.zeros(1, dtype=kernels.RUN)
        self._run["logged"] = offline.total
        self._run["logged_rewards"] = offline.reward_sums.sum()
        self._coins, self._open, self._tickets = None, OpenRounds(), Tickets()
        if not gate.throws_coin:
            kernels.ledger_begin(self._params, self._run)
            return
        if offline.total == 0:
            raise ValueError("offline must hold at least one reward: its shares are practice, got none")
        kernels.coin_begin(self._params, self._run)
        self._against = np.zeros(k)  # (k,) explored rounds in which practice would have played the arm
        self._bounds = gate.practice_bounds(confidence, offline)  # (2, k) on their means

    def decide(self, proposal: int) -> Decision:
        """That arm if it can be afforded, else the next arm of the mixture; the same until a commit."""
        decision = self._judged(proposal)
        self._tickets.offered.append(decision)
        return decision

    def _judged(self, proposal: int) -> Decision:
        arm = as_arm(proposal, self._counts.shape[1])
        if self.gate.throws_coin:
            return self._decide_by_coin(arm)
        room, run = float(kernels.ledger_room(self._params, self._run)), self._run[0]
        if self._rails is not None:
            self._rails.measure(self._run)
            room = min(room, 0.0) if run["rails_share"] == 1 else room
        index = kernels.most_behind(self._shares, self._mixed, int(run["logged"]), int(run["mixed"]))
        due = int(self._logged[index])
        return Decision(
            arm=arm if room > 0 else due,
            mode="explore" if room > 0 else "safe",
            source="explorer" if room > 0 else "mixture",
            proposal=arm,
            fallback=due,
            budget=room,
            round=self.rounds + 1,
        )

    def commit(self, decision: Decision) -> None:
        """Count a decision as played; its reward may come later through `observe`."""
        if not isinstance(decision, Decision):
            raise ValueError(f"decision must be what decide returned, got {decision!r}")
        check_round(decision, self.rounds + 1)
        arm, decision = as_arm(decision.arm, self._counts.shape[1]), self._tickets.as_offered(decision)
        if self._coins is not None:
            ticket = self._enter_by_coin(decision, arm, self._coins)
        else:
            ours = self._tickets.has_offered(decision)
            ours = ours or claims_of(decision) == claims_of(self._judged(decision.proposal))
            ticket = Ticket(arm, mixture=ours and decision.by_practice)
            if ticket.mixture:
                self._mixed[int(np.searchsorted(self._logged, arm))] += 1
            if self._rails is not None:
                ticket = self._rails.commit(self._run, decision, ticket)
            kernels.ledger_commit(self._params, self._run, ticket.mixture)
        self._counts[kernels.PENDING_MIXTURE if ticket.mixture else kernels.PENDING, arm] += 1
        self._open.open(self.rounds)
        self._tickets.keep(self.rounds, ticket)
        self._tickets.offered.clear()

    def observe(
        self,
        decision: Decision | int,
        reward: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """The reward of a decision committed earlier (or of an arm: then plays outside the mixture first).

        `metrics` are values of guardrails by their names: with the reward or without, each once.
        """
        values, played = values_for(self._rails, metrics), None
        if values and self._rails is not None:
            played = self._rails.check(decision, values, self._tickets)
        if reward is not None or not values:
            self._observe_reward(decision, check_reward(self._params, reward))
        if played is not None and self._rails is not None and isinstance(decision, Decision):
            self._rails.tell(decision.round, played, values)
            self._settle(decision.round)

    def _observe_reward(self, decision: Decision | int, value: float) -> None:
        if not isinstance(decision, Decision):
            if self.gate.throws_coin:
                raise ValueError(
                    f"decision must be what decide returned for a Control gate, got {decision!r}"
                )
            arm, mixture = credit(decision, self._counts)
            round, ticket = self._tickets.oldest(self._open, arm, mixture), None
            if round is not None:
                self._open.close(round)
                self._settle(round)
            if self.pending.sum() == 1:  # this one was the last
                self._open.clear()
                for kept in tuple(self._tickets.by_round):
                    self._settle(kept)
        else:
            check_awaited(self._open, decision.round)
            ticket = self._tickets.of(decision)
            arm, mixture = credit(decision, self._counts, None if ticket is None else ticket.mixture)
            self._open.close(decision.round)
            self._settle(decision.round)
        self._enter_reward(decision, ticket, arm, mixture, value)

    def _enter_reward(
        self, decision: Decision | int, ticket: Ticket | None, arm: int, mixture: bool, value: float
    ) -> None:
        self._counts[kernels.PENDING_MIXTURE if mixture else kernels.PENDING, arm] -= 1
        if isinstance(decision, Decision) and self.gate.throws_coin:
            self._observe_by_coin(decision, ticket, value)
            return
        kernels.ledger_observe(self._params, self._run, value, mixture)

    def _settle(self, round: int) -> None:
        """Forget what was played in a round, where nothing of it is to come any more."""
        settle(round, self._tickets, self._open, self._rails)

    def update(self, decision: Decision, reward: float, metrics: Mapping[str, float] | None = None) -> None:
        """Commit and observe at once: what comes is that of the play as it was committed."""
        value, values = check_reward(self._params, reward), values_for(self._rails, metrics)
        self.commit(decision)
        played = self._tickets.by_round[self.rounds]
        self._open.close(self.rounds)
        self._enter_reward(decision, played, played.play, played.mixture, value)
        if self._rails is not None:
            self._rails.tell(self.rounds, played, values)
        self._settle(self.rounds)

    @property
    def rooms(self) -> dict[str, float]:
        """What of each guardrail may still be lost, by name; where one is below 0, practice is played."""
        return {} if self._rails is None else self._rails.rooms(self._run)

    def __repr__(self) -> str:
        return f"<guard of {self.gate!r}: {self.rounds} rounds>"

    @property
    def rounds(self) -> int:
        """Decisions committed so far."""
        return int(self._run[0]["rounds"])

    @property
    def pending(self) -> Ints:
        """(k,) committed plays that await their reward."""
        return np.array(self._counts[kernels.PENDING] + self._counts[kernels.PENDING_MIXTURE])

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed."""
        found = certify(
            Situation(
                gate=self.gate,
                fallback="mixture",
                confidence=self._of_gate,
                params=self._params,
                run=self._run,
                state=None,
                offline=self.offline,
            )
        )
        found = replace(found, delta=self.confidence.delta, **promised_of(self._rails, self.gate))
        return coins.with_seed(found, self.gate, self._coins)

    def snapshot(self) -> bytes:
        """Everything needed to continue, as bytes that `linoto.restore` reads."""
        header = {
            "format": SNAPSHOT_FORMAT,
            "agent": "guard",
            "gate": codec.encode(self.gate),
            "confidence": codec.encode(self.confidence),
        }
        if self._coins is not None:
            header["coins"] = self._coins.encoded()
        arrays = {
            "counts": self._counts,
            "mixed": self._mixed,
            "run": under_stored_names(self._run),
            "pulls": self.offline.pulls,
            "reward_sums": self.offline.reward_sums,
        }
        if self.gate.throws_coin:
            arrays["against"] = self._against
        if self.gate.reads_squares and self.offline.reward_squares is not None:
            arrays["reward_squares"] = self.offline.reward_squares
        self._open.save(header, arrays)
        self._tickets.save(header, arrays)
        if self._rails is not None:
            header["guardrails"] = codec.encode(self.guardrails)
            self._rails.save(header, arrays, thrown=bool(self._run[0]["coin_thrown"]))
        return codec.pack(header, arrays)

    # -- with a coin

    def use_coins(self, source: Coins) -> None:
        """Other coins from now on: from the next round where that of this one is thrown, which stands.

        Where the gate throws no coin, nothing changes.
        """
        if self._coins is None:
            return
        self._coins = source
        if not self._run[0]["coin_thrown"]:
            coins.draw_coins(self._run, source)

    @property
    def practice(self) -> int | None:
        """The arm that practice plays in this round, which a recommender may know; None without a coin."""
        if self._coins is None:
            return None
        everywhere = np.ones_like(self._shares)
        draw = float(self._run[0]["practice_draw"])
        index = kernels.draw_practice(self._shares, everywhere, int(self.offline.total), draw)
        return int(self._logged[index])

    def _decide_by_coin(self, arm: int) -> Decision:
        run = self._run
        if run[0]["coin_thrown"]:
            coins.check_same_round(run, arm, None)
        else:
            if self._rails is not None:
                self._rails.measure(run)
            run["proposal"], run["fallback"], run["fallback_source"] = (
                arm,
                self.practice,
                kernels.FROM_MIXTURE,
            )
            kernels.coin_decide(self._params, run, self._vouched_room(), 1.0)
        decision = Decision(
            arm=int(run[0]["arm"]),
            mode="explore" if run[0]["explored"] else "safe",
            source=SOURCES[run[0]["source"]],  # type: ignore[arg-type]
            proposal=int(run[0]["proposal"]),
            fallback=int(run[0]["fallback"]),
            budget=float(run[0]["room"]),
            round=self.rounds + 1,
        )
        decision = coins.with_coin(decision, run)
        if self._rails is None or decision.control_share is None:
            return decision
        return replace(decision, centres=self._rails.centres)

    def _vouched_room(self) -> float:
        """The room that the log sees, where it vouches for a loan."""
        run, p = self._run[0], self._params[0]
        if p["loan_from"] != kernels.THE_LOG:
            return -np.inf
        upper, lower = self._bounds
        log = self.offline.pulls, int(self.offline.total), int(run["explored_plays"]) + 1, self._against
        most = kernels.most_by_practice(*log, upper, lower, float(p["log_upper"]), int(run["fallback"]))
        earned = run["earned"] + p["low"] * (run["pending"] + 1)
        return float(p["budget"] + p["epsilon"] * (run["rounds"] + 1) + earned - most)

    def _enter_by_coin(self, decision: Decision, arm: int, source: Coins) -> Ticket:
        """Count a decision, or the arm of one that was not made here: that is judged as what it proposes."""
        run, mixture = self._run, decision.by_practice
        if self._tickets.has_offered(decision):
            coins.enter_play(run, decision)
        else:
            if not run[0]["coin_thrown"]:
                self._judged(decision.proposal)
            mixture = coins.is_practice(run, arm)
            coins.enter_arm(run, arm)
        entry, share, centre = run[["entry", "entry_share", "entry_centre"]].item(0)
        ticket = Ticket(arm, entry, share, centre, mixture)
        if self._rails is not None:
            ticket = self._rails.commit(run, decision, ticket)
        self._commit_by_coin(source)
        return ticket

    def _commit_by_coin(self, source: Coins) -> None:
        if self._run[0]["entry"] in (kernels.EXPLORED_PLAY, kernels.UNASKED_PLAY):
            self._against[self._run[0]["entry_practice"]] += 1
        kernels.coin_commit(self._params, self._run)
        coins.draw_coins(self._run, source)

    def _observe_by_coin(self, decision: Decision, ticket: Ticket | None, reward: float) -> None:
        names = list(coins.DESK)
        before = self._run[names].copy()
        if ticket is None:
            coins.enter_decision(self._run, decision)
        else:
            coins.write(self._run, ticket.entry, ticket.share, ticket.centre, ticket.play)
        kernels.coin_observe(self._params, self._run, reward)
        for name in names:  # the desk of a round whose coin is thrown stays as it is
            self._run[name] = before[name]


def check_gate(gate: object, rates: Mapping[str, object]) -> None:
    """Refuse a gate that needs features, and numbers that the gate has already."""
    if not getattr(gate, "throws_coin", False) or getattr(gate, "loan_from", 0) == kernels.THE_MODEL:
        raise ValueError(f"gate must be a Control, and its loan not vouched for by a model, got {gate!r}")
    for name, value in rates.items():
        if value not in (0.0, False, "expected"):
            raise ValueError(f"{name} must be left out where a gate is given, got {value!r}")
