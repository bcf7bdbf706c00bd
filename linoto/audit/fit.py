"""Are rewards linear in the features?"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from linoto.audit.noise import scatter_of
from linoto.audit.pvalues import SURE, TEST_LEVEL, SquaresLaw, unequal_law
from linoto.audit.regression import regress
from linoto.core.arrays import Floats
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions

ADAPTIVE_FACTOR = 5.0  # arms that stop being pulled after bad luck raise 2 to 4 % false alarms at 1 %


@dataclass(frozen=True, kw_only=True)
class LackOfFit:
    """Do the arms' means lie where a linear model puts them? Tested against the scatter within arms."""

    f: float
    p: float  # of the F test: exact for Gaussian rewards with the same noise in every arm
    p_unequal: float  # with a noise of its own for every arm; p itself where too few arms were pulled twice
    adaptive: bool  # whether arms may have been chosen by their rewards
    degrees: tuple[int, int]
    misfit: float  # root mean square over logged rows of what the model misses, noise taken out
    rows: int
    noise: float  # pooled standard deviation within arms
    unequal: SquaresLaw | None = None  # of what the test with unequal noise looks at; None: no such test
    unequal_rows: int = 0  # of the arms that it looks at, those pulled twice

    @property
    def factor(self) -> float:
        """What p-values are multiplied by."""
        return ADAPTIVE_FACTOR if self.adaptive else 1.0

    @property
    def cautious_p(self) -> float:
        """The p that decides: the larger one, which allows for unequal noise, times the factor."""
        return min(max(self.p, self.p_unequal) * self.factor, 1.0)

    def caution_text(self) -> str:
        """Where another p than that of F decides: which one, and what was done to it."""
        why = ["with a noise of its own for every arm"] if self.p_unequal > self.p else []
        if self.adaptive:
            why.append("times five because shares changed")
        return f"; p = {self.cautious_p:.2g} decides, {' and '.join(why)}" if why else ""

    def power(self, misfit: float) -> float:
        """In which part of such logs the test would see a model that misses means by this much.

        `misfit` is a root mean square over rows, as above: the squares that are looked at grow by rows
        misfit^2, and their F is noncentral. Two tests must agree: both look at the same squares, up to arms
        pulled once, so what the less powerful one sees the other sees as well.
        """
        between, within = self.degrees
        level, square = TEST_LEVEL / self.factor, misfit**2
        found = SquaresLaw(between * self.noise**2, between, within).power(self.rows * square, level)
        if self.unequal is None:
            return found
        return min(found, self.unequal.power(self.unequal_rows * square, level))

    def least_misfit(self, power: float) -> float:
        """The smallest misfit that the test sees in this part of such logs, as `power` has it."""
        between = self.degrees[0]
        low, high = 0.0, self.noise * sqrt((SURE + 10.0 * between) / self.rows)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(middle) >= power else (middle, high)
        return high

    @property
    def rejected(self) -> bool:
        """Whether a linear model would look this wrong less than once in a hundred logs."""
        return self.cautious_p < TEST_LEVEL


def lack_of_fit(actions: npt.ArrayLike, offline: Offline, *, adaptive: bool = False) -> LackOfFit | None:
    """The F test of linearity from arms pulled more than once; None where the log leaves nothing to test.

    With `adaptive`, arms may have been chosen by their rewards.

    >>> log = Offline.from_rows([0, 0, 1, 1, 2, 2], [0.1, -0.1, 1.1, 0.9, 0.1, -0.1], k=3)
    >>> lack_of_fit([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], log).rejected
    True
    """
    from scipy.special import fdtrc  # type: ignore[import-untyped]

    arms = as_actions(actions)
    log = as_offline(offline, len(arms))
    scatter, line = scatter_of(log), regress(arms, log)
    between, within = scatter.pulls.size - line.rank, scatter.degrees
    if between == 0 or within == 0:
        return None
    whole = float((scatter.pulls * scatter.mean**2).sum())
    missed = line.missed if line.missed > 1e-20 * whole else 0.0
    noise = float(scatter.most.sum()) / within
    f = (missed / between) / noise if missed > 0 else 0.0
    p = float(fdtrc(between, within, f))
    unequal = unequal_fit(arms, log)
    excess = max(missed - between * float(scatter.around.sum()) / within, 0.0)
    return LackOfFit(
        f=f,
        p=p,
        p_unequal=p if unequal is None else unequal[0],
        unequal=None if unequal is None else unequal[1],
        unequal_rows=int(log.pulls[log.pulls > 1].sum()),
        adaptive=adaptive,
        degrees=(between, within),
        misfit=sqrt(excess / log.total),
        rows=log.total,
        noise=sqrt(float(scatter.around.sum()) / within),
    )


def unequal_fit(arms: Floats, log: Offline) -> tuple[float, SquaresLaw] | None:
    """The test from the arms whose noise can be known, those pulled twice: p, and the law that it is by.

    None where too few are left.
    """
    twice = np.flatnonzero(log.pulls > 1)
    pulls, sums = np.zeros_like(log.pulls), np.zeros_like(log.reward_sums)
    pulls[twice], sums[twice] = log.pulls[twice], log.reward_sums[twice]
    line, scatter = regress(arms, Offline(pulls=pulls, reward_sums=sums)), scatter_of(log, twice)
    if twice.size <= line.rank:
        return None
    missed = line.missed if line.missed > 1e-20 * float((scatter.pulls * scatter.mean**2).sum()) else 0.0
    degrees = scatter.pulls - 1
    law = unequal_law(scatter.most / degrees, degrees, line.fitted)
    return law.p(missed), law
