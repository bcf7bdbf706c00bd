"""Phased elimination that starts from a log. Experimental: the constants are ours, and it learns slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.confidence import Confidence, check_confidence
from linoto.core.designs import Design, optimal_design, sparse_design
from linoto.core.names import Names
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions, as_arm, as_names, as_reward, check_choice, generator_for

DESIGNS = {"optimal": optimal_design, "frank_wolfe": sparse_design}
BOUNDS = ("proven", "fixed_design")
LAST_PHASE = 30  # 2^-30: from here on arms that are left are alike
MOST_PULLS = 2.0**50  # of one phase


@dataclass(frozen=True, kw_only=True)
class OOPE:
    """Experimental, after Vijayan, Suggala, Shanmugam and Pal (2025): eliminate arms in phases, with a log.

    Phase l pulls the arms that are left by a D-optimal design on top of the log, until every one of them is
    known to 2^-l, and drops those that are 2 * 2^-l below the best: with probability 1 - delta never the best
    arm itself. `design="frank_wolfe"` pulls few different arms, so that less is rounded up.

    The trap: which arms are left depends on the noise of the log, and every phase uses the log again. A bound
    for a fixed design does not allow for that. `bound="proven"` takes the self-normalised radius, which holds
    however arms were chosen; "fixed_design" is the smaller one, proven in the first phase only.
    """

    design: Literal["optimal", "frank_wolfe"] = "optimal"
    bound: Literal["proven", "fixed_design"] = "proven"
    confidence: Confidence | None = None

    def __post_init__(self) -> None:
        check_choice("design", self.design, tuple(DESIGNS))
        check_choice("bound", self.bound, BOUNDS)
        check_confidence(self.confidence)
        if self.confidence is not None and self.confidence.shift > 0:
            raise ValueError(
                f"shift must be 0 for OOPE, got {self.confidence.shift:g}: it eliminates arms for good, by "
                "the log"
            )

    def start(
        self,
        actions: npt.ArrayLike,
        offline: Offline,
        rng: int | np.random.Generator | None = None,
        names: Sequence[str] | None = None,
    ) -> OOPEAgent:
        """A running agent; it draws no random numbers."""
        arms = as_actions(actions)
        generator_for(rng)  # refuses what is none
        return OOPEAgent(
            policy=self,
            actions=arms,
            offline=as_offline(offline, len(arms)),
            names=as_names(names, len(arms)),
        )


class OOPEAgent:
    """Pulls the arms of a phase, then drops those that are too far below the best."""

    def __init__(self, *, policy: OOPE, actions: Floats, offline: Offline, names: Names | None) -> None:
        self.policy, self.actions, self.offline, self.names = policy, actions, offline, names
        confidence = policy.confidence or Confidence()
        k, d = actions.shape
        self.scale, self.delta = confidence.scale, confidence.delta
        self.ridge, self.length = confidence.ridge_for(d), confidence.bound
        self.known = self.ridge * np.eye(d) + actions.T @ (offline.pulls[:, None] * actions)  # V_off
        self.active: Bools = np.ones(k, np.bool_)
        self.phase, self.rounds = 0, 0
        self.due: Ints = np.zeros(k, np.int64)  # pulls that this phase still owes
        self.order: Floats = np.zeros(k)  # arms of a phase are pulled from the largest on
        self.counts, self.sums = np.zeros(k), np.zeros(k)  # of this phase
        self.leader = self._estimate()
        self._next_phase()

    def select(self) -> int:
        """The next arm of this phase, or the best one when it is over."""
        if not self.due.any():
            return self.leader
        return int(np.where(self.due > 0, self.order, -np.inf).argmax())

    def update(self, arm: int, reward: float) -> None:
        """Learn; the last reward of a phase ends it."""
        index, value = as_arm(arm, len(self.actions)), as_reward(reward)
        self.rounds += 1
        self.counts[index] += 1
        self.sums[index] += value
        if not self.due[index]:
            return
        self.due[index] -= 1
        if not self.due.any():
            self._eliminate()
            self._next_phase()

    def __repr__(self) -> str:
        return f"<agent of {self.policy!r}: {self.rounds} rounds, {self.active.sum()} arms left>"

    # -- inside

    def _estimate(self) -> int:
        """theta from the log and this phase: the arm that is best by it, among those that are left."""
        seen, sums = self.counts, self.offline.reward_sums + self.sums
        W = self.known + self.actions.T @ (seen[:, None] * self.actions)
        self.theta: Floats = np.asarray(np.linalg.solve(W, self.actions.T @ sums), np.float64)
        return int(np.where(self.active, self.actions @ self.theta, -np.inf).argmax())

    def _eliminate(self) -> None:
        """Drop what is 2 * 2^-l below the best."""
        self.leader = self._estimate()
        means = self.actions @ self.theta
        self.active &= means[self.leader] - means <= 2 * 2.0**-self.phase
        self.counts[:], self.sums[:] = 0.0, 0.0

    def _next_phase(self) -> None:
        """Plan the next phase that needs pulls; those for which the log is enough are over at once."""
        while self.active.sum() > 1 and self.phase < LAST_PHASE:
            self.phase += 1
            pulls, design = self._plan(2.0**-self.phase)
            if pulls > 0:
                arms = np.flatnonzero(self.active)
                self.due[arms] = np.ceil(pulls * design.weights - 1e-9).astype(np.int64)
                self.order[arms] = design.weights + 1e-9 * design.gains  # no two alike, whatever their names
                return
            self._eliminate()

    def _plan(self, precision: float) -> tuple[float, Design]:
        """The fewest pulls after which every arm that is left is known to this precision; their design."""
        high = 1.0
        if self._error(self._designed(1e-9)[1], 1e-9) <= precision:
            return 0.0, self._designed(1.0)[1]
        while self._error(self._designed(high)[1], high) > precision and high < MOST_PULLS:
            high *= 2
        low = high / 2
        for _ in range(12):
            middle = (low + high) / 2
            enough = self._error(self._designed(middle)[1], middle) <= precision
            low, high = (low, middle) if enough else (middle, high)
        return self._designed(high)

    def _designed(self, pulls: float) -> tuple[float, Design]:
        return pulls, DESIGNS[self.policy.design](self.actions[self.active], self.known, pulls)

    def _error(self, design: Design, pulls: float) -> float:
        """How far the mean of any arm that is left can be off, after so many pulls by this design."""
        widths = sqrt(design.widest / pulls)
        share = self.delta / (self.phase * (self.phase + 1))
        bias = sqrt(self.ridge) * self.length
        if self.policy.bound == "fixed_design":
            return (self.scale * sqrt(2 * log(2 * int(self.active.sum()) / share)) + bias) * widths
        actions = self.actions[self.active]
        W = self.known + actions.T @ ((np.ceil(pulls * design.weights))[:, None] * actions)
        growth = float(np.linalg.slogdet(W)[1]) - len(W) * log(self.ridge)
        return (self.scale * sqrt(2 * log(1 / share) + growth) + bias) * widths
