"""Arms that come and go, in plain NumPy: the two oracles with a table of arms that changes.

What differs from a fixed table is written out from the history: every play is compared with the practice of
its own round, lower bounds begin when an arm comes, and a baseline that no arm left can keep is lowered.
"""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import numpy.typing as npt
from helpers.reference import Floats, Reference, best
from helpers.reference_tolerance import Play, ToleranceReference, next_mixed


def grow(reference: Reference, new: Floats) -> None:
    """Further rows, and columns where they are longer; nothing was logged of them."""
    old = reference.actions
    actions = np.zeros((len(old) + len(new), new.shape[1]))
    actions[: len(old), : old.shape[1]], actions[len(old) :] = old, new
    zeros = np.zeros(len(new))
    reference.actions = reference.problem.actions = actions
    reference.pulls = reference.problem.pulls = np.append(reference.pulls, zeros.astype(np.int64))
    reference.problem.reward_sums = np.append(reference.problem.reward_sums, zeros)
    if reference.problem.reward_squares is not None:
        reference.problem.reward_squares = np.append(reference.problem.reward_squares, zeros)
    vars(reference).pop("kept", None)  # what was computed for the shorter table
    unknown = np.full(len(new), -np.inf)
    reference.lowers = [np.append(lower, unknown) for lower in reference.lowers]
    reference.lowers.append(np.append(np.full(len(old), -np.inf), reference.lower[len(old) :]))
    reference.came = np.append(
        getattr(reference, "came", reference.lowers[0][: len(old)]), reference.lower[len(old) :]
    )  # type: ignore[attr-defined]


class ChangingReference(Reference):
    """An agent with an open or closed gate, or a budget, whose arms come and go."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.present = list(range(len(self.actions)))
        self.came = self.lowers[0]  # (k,) the lower bounds of each arm when it came
        self.kept_up = Reference.baseline.fget(self)  # type: ignore[attr-defined]
        self.due: list[float] = []  # the baseline of every round so far

    @property
    def baseline(self) -> float:
        return float(self.kept_up)

    def add(self, new: Floats) -> None:
        """Arms that come."""
        self.present += range(len(self.actions), len(self.actions) + len(new))
        grow(self, new)

    def remove(self, arms: Sequence[int]) -> None:
        """Arms that go; the baseline is at most what the safest arm left is known to earn."""
        self.present = [arm for arm in self.present if arm not in arms]
        self.kept_up = min(self.kept_up, self.lcb[self.safe(self.present)])

    def safe(self, arms: list[int]) -> int:
        return best(self.came, arms) if self.fallback == "frozen" else super().safe(arms)

    def budget(self, arm: int) -> float:
        """B(t), where every round owes its own baseline."""
        past = self.actions[self.committed].sum(axis=0)
        owed = sum(self.due) + self.kept_up
        exact = sum(self.lcb[s] for s in self.committed) + self.lcb[arm] - owed
        aggregate = self.lower_of(past) + self.lcb[arm] - owed
        joint = self.lower_of(past + self.actions[arm]) - owed
        return float({"exact": exact, "aggregate": aggregate, "max": max(exact, aggregate, joint)}[self.form])

    def decide(
        self, randoms: Floats | None = None, allowed: npt.NDArray[np.bool_] | None = None
    ) -> tuple[int, bool]:
        mask = np.zeros(len(self.actions), dtype=np.bool_)
        mask[[arm for arm in self.present if allowed is None or allowed[arm]]] = True
        return super().decide(randoms, mask)

    def commit(self, arm: int) -> None:
        super().commit(arm)
        self.due.append(self.kept_up)


class ChangingTolerance(ToleranceReference):
    """An agent behind a tolerance gate whose arms come and go."""

    def __post_init__(self) -> None:
        self.first_mixed: list[Play] | None = None  # what the mixture knew of mu_off when it lost an arm
        self.practices: list[Floats] = []  # (d,) the mean action of practice in the round of each play
        self.gains: list[float] = []  # 1 + premium of each play
        self.gain = 1.0
        self.turns_from = 0  # the play from which on the mixture has its present arms
        super().__post_init__()
        self.weights = list(self.counts)
        self.present = list(range(len(self.counts)))
        self.logged_mean = self.xbar

    def add(self, new: Floats) -> None:
        """Arms that come; practice is as it was."""
        self.present += range(len(self.base.actions), len(self.base.actions) + len(new))
        wider = new.shape[1] - self.base.actions.shape[1]
        grow(self.base, new)
        vars(self).pop("kept", None)
        self.xbar, self.logged_mean = (np.pad(mean, (0, wider)) for mean in (self.xbar, self.logged_mean))
        self.practices = [np.pad(mean, (0, wider)) for mean in self.practices]
        self.counts, self.weights = (weights + [0] * len(new) for weights in (self.counts, self.weights))

    def remove(self, arms: Sequence[int]) -> None:
        """Arms that go; where the log has them, practice is the log without them from now on."""
        self.present = [arm for arm in self.present if arm not in arms]
        left = [weight * (arm in self.present) for arm, weight in enumerate(self.weights)]
        if left == self.weights:
            return
        self.first_mixed = deepcopy(self.mixed)
        self.weights, self.turns_from = left, len(self.plays)
        self.xbar = np.array(left) @ self.base.actions / sum(left)
        self.gain = self.m / sum(left)  # the arms that left may have earned the least
        if self.uses_rewards and self.joint:
            self.surplus = self.surplus_now

    @property
    def mixed(self) -> list[Play]:
        return super().mixed if self.first_mixed is None else self.first_mixed

    @property
    def unmixed_rounds(self) -> list[int]:
        return [t for t, play in enumerate(self.plays) if play.source != "mixture"]

    @property
    def extra(self) -> float:
        """What the explored plays, and one more, owe beyond mu_off less the lowest mean."""
        return sum(self.gains[t] - 1 for t in self.unmixed_rounds) + self.gain - 1

    def model_room(self, arm: int) -> float:
        """Every play is compared with the practice of its round; the allowance is in rounds of the log."""
        if self.vetoed:
            return -np.inf
        action = self.base.actions[arm]
        past = -self.xbar
        for t in self.unmixed_rounds:
            past = past + self.base.actions[self.plays[t].arm] - self.practices[t]
        if self.relative:
            past = past + self.allowance(self.t) * self.logged_mean
        shrinkage = self.ridge * self.short_norm(past) + np.sqrt(self.ridge) * self.norm(action)
        room = self.least(past + action, self.bound * shrinkage)
        return room if self.relative else room + self.allowance(self.t)

    @property
    def owed(self) -> float:
        return super().owed + self.extra

    def secure_surplus(self, plays: int, search: bool) -> None:
        if self.gain == 1.0:
            super().secure_surplus(plays, search)
        else:
            self.surplus = self.surplus_now

    @property
    def surplus_now(self) -> float:
        return super().surplus_now + self.low * self.extra

    def rewards_room(self) -> float:
        if self.joint:
            return super().rewards_room()
        rewards = self.filled(self.unmixed, self.low).sum()
        credit = rewards if self.promise == "realised" else self.secured
        most = self.low * self.extra + self.low + credit
        if not self.relative:
            return most - self.owed * self.upper_reference + self.allowance(self.t)
        return most - self.owed * (self.upper_reference if self.owed >= 0 else self.lower_reference)

    def refuted(self) -> bool:
        """The arms that left practice may have earned the most."""
        q, spent = len(self.unmixed), self.allowance(len(self.plays))
        premiums = self.extra - (self.gain - 1)
        most = self.filled(self.unmixed, self.high).sum() + self.boundary(q)
        most += premiums * (self.high - self.lower_reference)
        if not self.relative:
            return bool(most < q * self.lower_reference - spent)
        owed = q - spent
        return bool(most < owed * (self.lower_reference if owed >= 0 else self.upper_reference))

    def safe(self) -> tuple[int, str]:
        pessimistic = best(self.base.lcb, self.present)
        if self.fallback == "auto" and self.uses_model and self.certified(pessimistic):
            return pessimistic, "lcb"
        turns = [play.arm for play in self.plays[self.turns_from :] if play.source == "mixture"]
        return next_mixed(self.weights, [turns.count(arm) for arm in range(len(self.weights))]), "mixture"

    def decide(self, randoms: Floats | None = None) -> tuple[int, str]:
        scores = self.base.scores(randoms)
        asked = {"proposal": [best(scores, self.present)], "affordable": self.present}[self.reach]
        affordable = [arm for arm in asked if self.room(arm) > 0]
        return (best(scores, affordable), "explorer") if affordable else self.safe()

    def commit(self, arm: int, source: str) -> None:
        self.practices.append(self.xbar)
        self.gains.append(self.gain)
        super().commit(arm, source)

    def observe(self, arm: int, reward: float) -> None:
        mixed = [play for play in self.plays if play.source == "mixture"]
        play = next(play for play in self.unmixed + mixed if play.arm == arm and play.reward is None)
        self.base.observe(arm, reward)
        play.reward = reward
        self.learn(play)

    def learn(self, play: Play) -> None:
        if play.source == "mixture" and self.first_mixed is not None:
            return  # a mixture that lost an arm says nothing of mu_off
        super().learn(play)
