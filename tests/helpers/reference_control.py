"""The control gate in plain NumPy: slow, explicit, and sharing no code with what it checks.

The promise: with probability 1 - delta, in every round t, the explored rounds so far have earned at most
budget + epsilon t less than practice would have in the same rounds. Nothing is carried from round to round
but the history, the bound that holds for good once it was reached, the marks of stretches, and the centre.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from helpers.reference import Floats

FRACTIONS = 0.9 * 0.6 ** np.arange(16)  # (16,) lambda_j, in units of 1 / (hi - lo)


@dataclass
class Entry:
    """One committed round."""

    kind: str  # agreed | closed | control | explored
    share: float = 1.0  # p
    centre: float = 0.0  # c
    reward: float | None = None  # None while pending


@dataclass(eq=False)
class ControlReference:
    """The books of one gate, everything recomputed from the history."""

    _: KW_ONLY
    budget: float = 0.0
    epsilon: float = 0.0
    promise: str = "realised"
    share: float | str | None = None
    every: int | None = None
    delta: float = 0.05
    low: float = 0.0
    high: float = 1.0
    noise: float | None = None  # sub-Gaussian scale; None: every reward lies in [low, high]
    centre: float = 0.5  # the mean of the log
    equal: bool = False  # the same stake on every bet, whatever the budget is

    def __post_init__(self) -> None:
        self.unit = self.high - self.low
        self.fractions = FRACTIONS / self.unit  # (16,)
        self.weight = 20
        self.entries: list[Entry] = []
        self.foreseen: list[tuple[float, float]] = []  # of explored plays, from 0 to 1
        self.upper = 0.0
        self.marks = np.full(16, -np.inf)
        self.stretches = 0
        if self.every:
            self.mark()

    @property
    def stakes(self) -> Floats:
        """(16,) shares of the stake, most on the bet whose fee is a third of the budget; they sum to 1."""
        if self.equal:
            return np.full(16, 1 / 16)
        level = np.log(16 / self.delta)
        wanted = 0.95 * 3 * level / max(self.budget / self.unit, 1e-9)  # the fraction with that fee
        first = 0.0 if wanted >= 0.9 else min(np.log(wanted / 0.9) / np.log(0.6), 15.0)
        steps = [j - first for j in range(16)]
        shares = np.array([0.6**step if step >= 0 else 0.4**-step for step in steps])
        return shares / shares.sum()

    # The bets: what each round multiplies exp(lambda X) with, so that the product never grows on average.

    def centres(self, entry: Entry) -> Floats:
        """(16,) c_j, which keeps (1 - p) exp(lambda_j (hi - c_j)) below 1."""
        return np.maximum(entry.centre, self.high + 0.95 * np.log(1 - entry.share) / self.fractions)

    def control(self, entry: Entry, reward: float) -> Floats:
        """(16,) the logarithms for a control play that earned this much."""
        away, p = reward - self.centres(entry), entry.share
        if self.noise is None:
            return np.log((1 - (1 - p) * np.exp(self.fractions * away)) / p)
        a = self.fractions * (1 - p) / p
        penalty = np.zeros(16)
        for m in (self.low - self.centres(entry), self.high - self.centres(entry)):
            penalty = np.maximum(
                penalty, np.log(p) - a * m - np.log(1 - (1 - p) * np.exp(self.fractions * m))
            )
        return -a * away - a**2 * self.noise**2 / 2 - penalty

    def explored(self, entry: Entry, reward: float) -> Floats:
        """(16,) the logarithms for an explored play that earned this much."""
        if self.promise == "realised":
            return -self.fractions * self.centres(entry)
        away = reward - self.centres(entry)
        if self.noise is None:
            return np.log(1 + self.fractions * away)
        return self.fractions * away - self.fractions**2 * self.noise**2 / 2

    def wealth(self, *, best: bool = False) -> Floats:
        """(16,) L_j with pending rewards at their worst, or at their best; in 16ths of the stake."""
        total = np.log(16 * self.stakes)
        for entry in self.entries:
            if entry.kind == "control":
                missing = self.low if best else self.high
                total += self.control(entry, missing if entry.reward is None else entry.reward)
            if entry.kind == "explored":
                missing = self.high if best else self.low
                total += self.explored(entry, missing if entry.reward is None else entry.reward)
        return total

    def earned(self, *, best: bool = False) -> float:
        """What the explored plays earned."""
        missing = self.high if best else self.low
        return sum(
            missing if entry.reward is None else entry.reward
            for entry in self.entries
            if entry.kind == "explored"
        )

    def bound(self) -> float:
        """S: the root of (1/16) sum_j exp(lambda_j S + L_j) = 1/delta, by bisection."""
        wealth, level = self.wealth(), np.log(16 / self.delta)
        high = float(np.min((level - wealth) / self.fractions))
        low = high - 1.0
        while np.logaddexp.reduce(self.fractions * low + wealth) > level:
            low -= 2 * (high - low)
        for _ in range(100):
            middle = (low + high) / 2
            if np.logaddexp.reduce(self.fractions * middle + wealth) > level:
                high = middle
            else:
                low = middle
        return high

    def mark(self) -> None:
        """A stretch starts: pending rewards of earlier rounds may have been the best."""
        self.stretches += 1
        level = np.log(self.stretches * (self.stretches + 1) / self.delta / self.stakes)
        best = (level + self.wealth(best=True)) / self.fractions
        self.marks = np.maximum(self.marks, best + self.epsilon * len(self.entries) + self.earned(best=True))

    # A round.

    @property
    def room(self) -> float:
        """What may still be lost after the next round at its worst; the gate is open from 0 on."""
        next_round = self.epsilon * (len(self.entries) + 1)
        if self.every:
            most = np.min(self.marks - self.wealth() / self.fractions - self.earned() - next_round)
            return float(self.budget - most - self.unit)
        lost = self.upper - self.earned() if self.promise == "realised" else self.upper
        return float(next_round + self.budget - lost - self.unit)

    @property
    def next_share(self) -> float:
        """p of the next round; 1 where the gate is closed."""
        if self.room < 0:
            return 1.0
        if self.share == "cheap":
            return self.cheap_share()
        if self.share is not None:
            return float(self.share)
        left = self.room + self.unit  # what may be lost before the next round is played
        fee = left / 3 + self.epsilon * len(self.entries)
        dearest = np.log(16 / self.delta) * (self.high - self.centre) / fee
        return max(0.05, 4 * self.unit / (4 * self.unit + left), min(0.9, 1 - np.exp(-dearest)))

    @property
    def explored_mean(self) -> float:
        """What explored plays earned in units of the range, with 20 more that earned nothing."""
        explored = [entry for entry in self.entries if entry.kind == "explored"]
        rewards = [(entry.reward - self.low) / self.unit for entry in explored if entry.reward is not None]
        return float(np.clip(sum(rewards) / (len(explored) + 20), 0, 1))

    def told(self, practice: float, best: float) -> float:
        """How much a control play tells for what it costs, for means in units of the range."""
        variance = practice * (1 - practice) if self.noise is None else (self.noise / self.unit) ** 2
        return (variance + 0.01) / max(best - practice, 0.05)

    @property
    def foreseen_gain(self) -> float:
        """What estimates said that explored plays gain, in units of the range."""
        own, practice = np.mean(self.foreseen[-200:], axis=0) if self.foreseen else (0.0, 0.0)
        return float(own - practice)

    @property
    def levels(self) -> tuple[float, float, float]:
        """What practice earns, what explored plays earn, and the same for what they miss, from 0 to 1."""
        few = 20 / (sum(entry.kind == "explored" for entry in self.entries) + 20)
        practice = (self.centre - self.low) / self.unit
        if not self.foreseen:
            return practice, self.explored_mean + few * min(practice + 0.25, 1.0), self.explored_mean
        told = [
            (entry.reward - self.low) / self.unit
            for entry in self.entries
            if entry.kind in ("closed", "control") and entry.reward is not None
        ]
        practice = (sum(told) + 40 * np.mean(self.foreseen, axis=0)[1]) / (len(told) + 40)
        hoped = self.explored_mean + few * min(practice + max(self.foreseen_gain / 2, 0.25), 1.0)
        return practice, hoped, hoped

    def cheap_share(self, practice: float | None = None, best: float | None = None) -> float:
        """The share of a cheap coin, in a round whose estimates are these (as usual where there are none)."""
        preferred, (level, hoped, believed) = 1.0, self.levels
        if practice is not None and best is not None:
            here = np.clip([practice - self.low, best - self.low], 0, self.unit) / self.unit
            ratio = self.told(*here) / self.told(level, believed)
            preferred = float(np.clip(np.sqrt(np.sqrt(ratio)), 0.5, 2.0))
        left, fees, purse = self.room + self.unit, (1.0, 4.0), 2 * self.unit
        if self.foreseen:
            fees, purse = (1.5, 2.5), 0.0
        variance = level * (1 - level) if self.noise is None else (self.noise / self.unit) ** 2
        need = max(fees[1], fees[0] * variance / (max(hoped - level, 0.02) * max(1 - level, 0.05) ** 2))
        fee = left / (need * max(1 - believed, 0.1)) + self.epsilon * len(self.entries)
        dearest = np.log(16 / self.delta) * self.unit * (1 - level) / fee
        share = preferred * max(purse / (purse + left), 1 - np.exp(-dearest))
        return float(np.clip(share, 0.01, 0.9))

    def foresee(self, own: float, practice: float) -> None:
        """What the estimates say of an explored play, and of practice's arm in its place."""
        seen = np.clip([own - self.low, practice - self.low], 0, self.unit) / self.unit
        self.foreseen.append((float(seen[0]), float(seen[1])))

    def commit(self, kind: str, share: float | None = None) -> None:
        """A round is played, by this share of control if others have a say too; its reward is to come."""
        entry = Entry(kind, self.next_share if share is None else share, self.centre)  # as it was decided
        if self.every and self.entries and len(self.entries) % self.every == 0:
            self.mark()
        self.entries.append(entry)
        if kind == "explored":
            self.upper += self.high if self.promise == "realised" else self.unit
        if self.promise == "realised":  # in means, an explored play says nothing before its reward
            self.upper = min(self.upper, self.bound())

    def observe(self, index: int, reward: float) -> None:
        """The reward of round `index`, counted from 0."""
        entry = self.entries[index]
        entry.reward = reward
        if entry.kind in ("closed", "control"):
            self.weight = min(self.weight + 1, 200)
            self.centre += (reward - self.centre) / self.weight
        if entry.kind in ("control", "explored"):
            self.upper = min(self.upper, self.bound())
