"""The coin of a Control gate: a secret of each round, thrown once, and kept until the reward comes."""

from __future__ import annotations

import secrets
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from linoto.core import codec, kernels
from linoto.core.arrays import Bools, Floats, Records, reader, writer
from linoto.core.certificates import Certificate
from linoto.core.decisions import SOURCES, Decision
from linoto.core.gates import Gate
from linoto.core.kernels import State

DESK = ("entry", "entry_share", "entry_centre", "entry_practice")
ENTRIES = {"explorer": kernels.EXPLORED_PLAY, "control": kernels.CONTROL_PLAY}
KEY_BYTES = 32
DRAWN_AT_ONCE = 64  # rounds of a generator's coins: to draw two numbers takes as long as to commit a round
of_rounds, write_draws = reader(kernels.RUN, "rounds"), writer(kernels.RUN, "practice_draw", "coin")


# -- where coins come from


class Coins(Protocol):
    """Two numbers in [0, 1) for each round: practice's draw, and the coin. Nobody is shown them."""

    seeded: bool  # whether somebody chose where they come from, and so may know them beforehand

    def at(self, round: int) -> tuple[float, float]:
        """Those of one round, the first being 1."""

    def rows(self, first: int, rounds: int) -> Floats:
        """(rounds, 2) those of the rounds from `first` on."""

    def encoded(self) -> dict[str, Any]:
        """Everything needed to continue, as JSON data for a snapshot, and for nothing else."""


class KeyedCoins:
    """Coins by a keyed hash of the round's number: no state, and no way to them without the key.

    >>> coins = KeyedCoins(bytes(32))
    >>> coins.at(7) == coins.at(7)
    True
    >>> coins
    KeyedCoins(...)
    """

    seeded = False

    def __init__(self, key: bytes) -> None:
        given: Any = key
        if not isinstance(given, bytes) or len(given) != KEY_BYTES:
            raise ValueError(f"key must be {KEY_BYTES} bytes, got another value")  # which is not to be shown
        self._key = key

    @classmethod
    def fresh(cls) -> KeyedCoins:
        """With a key that the system draws, and that nobody has seen."""
        return cls(secrets.token_bytes(KEY_BYTES))

    def derived(self, number: int) -> KeyedCoins:
        """Independent coins for a part of a run with its own count of rounds."""
        data = b"part" + number.to_bytes(8, "big")
        return KeyedCoins(blake2b(data, key=self._key, digest_size=KEY_BYTES).digest())

    def at(self, round: int) -> tuple[float, float]:
        """Practice's draw and the coin of one round: 53 bits each."""
        digest = blake2b(round.to_bytes(8, "big"), key=self._key, digest_size=16).digest()
        draw, coin = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
        return (draw >> 11) * 2.0**-53, (coin >> 11) * 2.0**-53

    def rows(self, first: int, rounds: int) -> Floats:
        """(rounds, 2) those of the rounds from `first` on."""
        return np.array([self.at(t) for t in range(first, first + rounds)]).reshape(rounds, 2)

    def encoded(self) -> dict[str, Any]:
        """The key: a snapshot is as secret as the coins."""
        return {"key": self._key.hex()}

    def __repr__(self) -> str:
        return "KeyedCoins(...)"


class GeneratorCoins:
    """Coins by a generator, for studies: who knows its seed knows every coin. A round is asked for once."""

    seeded = True

    def __init__(self, generator: np.random.Generator, *, next: int = 1) -> None:
        self._generator = generator  # nobody else draws from it
        self._next = next  # the first round that is not asked for yet
        self._ahead: list[tuple[float, float]] = []  # the next rounds, the last one first, and
        self._before: Any = None  # the state of the generator before the first that was drawn with them

    @classmethod
    def spawned(cls, rng: np.random.Generator) -> GeneratorCoins:
        """A generator for coins alone: they come in blocks or one by one, whatever the explorer draws."""
        return cls(np.random.default_rng(rng.integers(2**63, size=4)))

    def at(self, round: int) -> tuple[float, float]:
        """Practice's draw and the coin of one round."""
        if round != self._next:
            draw, coin = self.rows(round, 1)[0].tolist()
            return draw, coin
        if not self._ahead:
            self._before = self._generator.bit_generator.state
            self._ahead = [*map(tuple, self._generator.random((DRAWN_AT_ONCE, 2))[::-1].tolist())]
        self._next = round + 1
        return self._ahead.pop()

    def rows(self, first: int, rounds: int) -> Floats:
        """(rounds, 2) those of the rounds from `first` on; rounds before it are passed over."""
        if first < self._next:
            raise ValueError(f"round must be {self._next} or later: a generator draws once, got {first}")
        self._step_back()
        if first > self._next:
            self._generator.random((first - self._next, 2))
        self._next = first + rounds
        return self._generator.random((rounds, 2))

    def _step_back(self) -> None:
        """Let the generator stand before the next round, as if none was drawn ahead."""
        if self._ahead:
            self._generator.bit_generator.state = self._before
            self._generator.random((DRAWN_AT_ONCE - len(self._ahead), 2))
            self._ahead = []

    def encoded(self) -> dict[str, Any]:
        """The state of the generator."""
        self._step_back()
        return {"generator": codec.encode_rng(self._generator), "next": self._next}

    def __repr__(self) -> str:
        return "GeneratorCoins(...)"


def coins_for(rng: Any, generator: np.random.Generator) -> KeyedCoins | GeneratorCoins:
    """The coins of an agent that was started with `rng`: secret unless it is a seed or a generator."""
    return KeyedCoins.fresh() if rng is None else GeneratorCoins.spawned(generator)


def decode_coins(data: dict[str, Any], rounds: int) -> KeyedCoins | GeneratorCoins:
    """The coins of a snapshot, after so many rounds; up to format 4 it held a generator's state alone."""
    if "key" in data:
        return KeyedCoins(bytes.fromhex(data["key"]))
    if "generator" in data:
        return GeneratorCoins(codec.decode_rng(data["generator"]), next=int(data["next"]))
    return GeneratorCoins(codec.decode_rng(data), next=rounds + 2)  # that of the next round was in the state


def draw_coins(run: Records, coins: Coins) -> None:
    """Practice's arm and the coin of the next round, as uniform numbers that nobody is shown."""
    write_draws(run, *coins.at(of_rounds(run)[0] + 1))


SEEDED = (
    "nobody who chooses a proposal knows the seed, or the generator, that was given: whoever knows it "
    "knows the coin"
)


def with_seed(certificate: Certificate, gate: Gate, coins: Coins | None) -> Certificate:
    """A certificate that says what a seed gives away, where there is a coin and it comes from one."""
    if coins is None or not coins.seeded or not gate.throws_coin or not certificate.holds:
        return certificate
    return replace(certificate, assumes=(*certificate.assumes, SEEDED))


def proven_room(params: Records, run: Records) -> float:
    """What the books of the coin leave to lose, whatever the next round is asked; no coin is thrown."""
    looked = run.copy()
    looked["coin_thrown"] = 0
    kernels.coin_decide(params, looked, -np.inf, 1.0)
    return float(looked[0]["room"])


# -- a round


def check_same_round(run: Records, proposal: int, mask: Bools | None) -> None:
    """Refuse to ask again with other input once the coin is thrown: it would be known beforehand."""
    thrown = run[0]
    if proposal >= 0 and proposal != thrown["proposal"]:
        raise ValueError(
            f"arm must be {thrown['proposal']}, for which the coin of this round is thrown, got {proposal}: "
            "commit that decision first"
        )
    if mask is not None and not mask[thrown["arm"]]:
        raise ValueError(
            f"allowed must hold arm {thrown['arm']}, which the coin of this round has decided, got "
            f"{np.flatnonzero(mask).tolist()}: commit that decision first"
        )


def with_coin(decision: Decision, run: Records) -> Decision:
    """A decision with what its reward needs, where the coin is thrown."""
    if not run[0]["coin_thrown"]:
        return decision
    return replace(decision, control_share=float(run[0]["entry_share"]), centre=float(run[0]["entry_centre"]))


def play_practice(run: Records) -> None:
    """Let practice be played in the round whose coin is thrown: the books keep what the coin has said."""
    run["arm"], run["explored"] = run["fallback"], 0


def forget_coin(run: Records) -> None:
    """Make the decision in `run` one of practice, in a round that plays safe whatever the coin says."""
    agreed = run[0]["proposal"] == run[0]["fallback"]
    run["arm"], run["explored"], run["source"] = run["fallback"], 0, run["fallback_source"]
    write(run, kernels.NO_ENTRY if agreed else kernels.PRACTICE_PLAY, 0.0, 0.0, int(run[0]["fallback"]))
    run["coin_thrown"] = 0


def check_before_coin(safe: bool, thrown: bool) -> None:
    """Refuse to play safe without a trace once the coin is known: control rounds could disappear."""
    if safe and thrown:
        raise ValueError("safe must be said before the coin of a round is thrown: commit that decision first")


def check_stays_safe(safe: bool) -> None:
    """Refuse a decision that is not safe in a round that was said to be."""
    if not safe:
        raise ValueError(
            "decision must be one that plays safe: this round was asked for with safe=True, got another"
        )


def enter_play(run: Records, decision: Decision) -> None:
    """Put a decision that is played now on the kernels' desk.

    Where the coin of this round is thrown, that is what counts: a decision of the same round from before the
    throw must not take its place, or who keeps one in reserve could let every control round disappear.
    """
    if run[0]["coin_thrown"]:
        enter_arm(run, decision.arm)
    else:
        enter_decision(run, decision)


def agrees(params: Records, run: Records, decision: Decision) -> bool:
    """Whether the coin of this round, which is not thrown, says what a decision claims; a loan may vouch.

    A cheap share depends on arms that are not known here: who could state any in its range would choose it
    when the coin is known.
    """
    if params[0]["share"] == kernels.CHEAP:
        return False
    shares = []
    for vouched in (np.inf, -np.inf):
        looked = run.copy()
        looked["coin_thrown"], looked["proposal"], looked["fallback"] = 0, 1, 0
        kernels.coin_decide(params, looked, vouched, 1.0)
        shares.append(float(looked[0]["entry_share"]))
    share = decision.control_share or 0.0
    control = run["coin"].item(0) < share
    known = decision.centre == looked[0]["entry_centre"] and control == (decision.source == "control")
    return bool(known and shares[0] <= share <= shares[1] and share < 1.0)


def enter_round(run: Records, decision: Decision, *, asked: bool = True) -> None:
    """Put a decision whose round brought its arms on the desk: what it, or its reward, is in the ledger.

    `asked`: whether the coin was asked about it. What was not counts at its worst.
    """
    entry = kernels.UNASKED_PLAY
    if not asked:
        write(run, entry, 0.0, 0.0, 0)
        return
    if decision.control_share is not None:
        entry = kernels.CONTROL_PLAY if decision.source == "control" else kernels.EXPLORED_PLAY
    elif decision.by_practice:  # without a coin, whichever of its sources it claims
        entry = kernels.NO_ENTRY if decision.arm == decision.proposal else kernels.PRACTICE_PLAY
    write(run, entry, decision.control_share or 0.0, decision.centre or 0.0, 0)


def enter_decision(run: Records, decision: Decision) -> None:
    """Put a decision on the desk: what it, or its reward, is in the ledger."""
    entry = ENTRIES.get(decision.source, kernels.PRACTICE_PLAY)
    share, centre = decision.control_share, decision.centre
    if entry == kernels.PRACTICE_PLAY and decision.proposal == decision.arm:
        entry = kernels.NO_ENTRY
    if entry in ENTRIES.values() and (share is None or centre is None):
        entry, share = kernels.UNASKED_PLAY, 0.0
    practice = decision.arm if decision.fallback is None else decision.fallback
    write(run, entry, share or 0.0, centre or 0.0, practice)


def enter_arm(run: Records, arm: int) -> None:
    """Put an arm that is played now on the desk, where `run` holds the decision of this round.

    Another arm than the decided one is an explored play if the coin had said so, or else one that nobody
    asked the coin about, which counts at its worst.
    """
    decided = run[0]
    if arm == decided["arm"] or decided["entry"] == kernels.EXPLORED_PLAY:
        if not decided["coin_thrown"]:
            run["entry_share"], run["entry_centre"] = 0.0, 0.0  # as in a decision without a coin
        return
    lost = decided["entry_share"] if decided["entry"] == kernels.CONTROL_PLAY else 0.0
    write(run, kernels.UNASKED_PLAY, float(lost), float(decided["entry_centre"]), int(decided["fallback"]))


def enter_ticket(state: State, arm: int) -> None:
    """Put the only pending play of an arm on the desk.

    Where there are several, nobody knows whose reward it is: it counts as lost in the ledger, which is never
    too hopeful, and only the estimate learns from it.
    """
    ticket = int(state.arms[kernels.TICKET, arm])
    share, centre = (float(state.arms[row, arm]) for row in (kernels.TICKET_SHARE, kernels.TICKET_CENTRE))
    write(state.run, max(ticket, kernels.NO_ENTRY), share, centre, arm)


def is_practice(run: Records, arm: int) -> bool:
    """Whether this arm, played now, is counted apart as the logging mixture's or a control play."""
    source: Any = SOURCES[run[0]["source"]]
    return bool(arm == run[0]["arm"] and source in ("mixture", "control"))


def write(run: Records, entry: int, share: float, centre: float, practice: int) -> None:
    """What the kernels' next commit or observe is about."""
    run["entry"][0], run["entry_share"][0], run["entry_centre"][0] = entry, share, centre
    run["entry_practice"][0] = practice


def mixed_propensity(chosen: float, share: float, practice: float) -> float:
    """How likely an arm is played: by the explorer with probability `chosen`, by practice with `practice`."""
    return chosen * (practice + (1 - practice) * (1 - share)) + (1 - chosen) * share * practice
