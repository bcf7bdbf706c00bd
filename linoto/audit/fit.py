"""Are rewards linear in the features?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.audit.curves import Curve
from linoto.audit.directions import directions_of
from linoto.audit.noise import scatter_of
from linoto.audit.pvalues import SURE, SquaresLaw, unequal_law
from linoto.audit.sentences import Centre, answer_text
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.hints import amount, shortened_list
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions
from linoto.core.verdicts import is_blind
from linoto.logs.many_tests import TEST_LEVEL
from linoto.logs.read import Log
from linoto.logs.rows import Rows

SEEN = 0.5  # power of a test below which it would rather miss than see what matters
DOUBTFUL = 0.2  # p of linearity below which features are not believed where rewards decided what was pulled
FEWEST_ROWS = 10  # with the same features, from which they are a kind of row whose mean is looked at
LIKELY = 0.05  # p of a number that bends, below which it is named where the model was found wrong
MOST_KINDS = 1000  # of rows, those with most of them: a test of more would take minutes
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
    scatter, line = scatter_of(log), directions_of(arms).regress(log)
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
    line = directions_of(arms).regress(Offline(pulls=pulls, reward_sums=sums))
    scatter = scatter_of(log, twice)
    if twice.size <= line.rank:
        return None
    missed = line.missed if line.missed > 1e-20 * float((scatter.pulls * scatter.mean**2).sum()) else 0.0
    degrees = scatter.pulls - 1
    law = unequal_law(scatter.most / degrees, degrees, line.fitted)
    return law.p(missed), law


# -- with contexts ----------------------------------------------------------------------------------------


def fit_of_rows(rows: Rows, *, adaptive: bool) -> LackOfFit | None:
    """The same test for rows with contexts: rows with the same features are the pulls of one arm."""
    kinds = kinds_of(rows)
    return None if kinds is None else lack_of_fit(*kinds, adaptive=adaptive)


def why_no_fit(rows: Rows | None) -> str:
    """Why there is no such test, where there is none."""
    if rows is None:
        return "cannot tell: that takes the rows themselves"
    if (kinds := kinds_of(rows)) is None:
        return f"cannot tell: fewer than two kinds of rows with the same features have {FEWEST_ROWS} rows"
    many = f"the {len(kinds[0])} kinds of rows with {FEWEST_ROWS} or more rows"
    return f"cannot tell: {many} may have any means in this model"


def kinds_of(rows: Rows) -> tuple[Floats, Offline] | None:
    """The features of the kinds of rows that are looked at, and a log of them; None: fewer than two.

    Which ones is decided by features alone, so that the test keeps its level.
    """
    d, (first, kind, count) = rows.known_recipe.d, numbered(rows)
    order = np.argsort(-count, kind="stable")[:MOST_KINDS]
    order = order[count[order] >= FEWEST_ROWS]
    if order.size < 2:
        return None
    place = np.full(count.size, -1)
    place[order] = np.arange(order.size)
    kept = place[kind] >= 0
    actions, shown = np.zeros((order.size, d)), first[order]
    places = rows.features.places[shown]
    np.add.at(actions, (np.arange(order.size)[:, None], places), rows.features.values[shown])
    return actions, Offline.from_rows(place[kind][kept], rows.rewards[kept], k=order.size)


def numbered(rows: Rows) -> tuple[Ints, Ints, Ints]:
    """(m,) a row of each kind of rows with the same features, (n,) the kind of each row, (m,) how many."""
    # equal features give equal sums; different ones do not, but with probability 0
    mark = rows.features.times(np.random.default_rng(0).standard_normal(rows.known_recipe.d))
    _, first, kind, count = np.unique(mark, return_index=True, return_inverse=True, return_counts=True)
    return first, kind, count


def halves_of_kinds(rows: Rows, late: Bools) -> tuple[Offline, Offline]:
    """The early and the late rows, as pulls of arms that are the kinds of all rows."""
    _, kind, count = numbered(rows)
    early, later = (Offline.from_rows(kind[part], rows.rewards[part], k=count.size) for part in (~late, late))
    return early, later


# -- what rests on it, and what a person reads ------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Linearity:
    """The test of linearity, what it could have seen, and what rests on it."""

    fit: LackOfFit | None
    curves: tuple[Curve, ...]  # whether numbers of the context bend
    log: Log
    centre: Centre
    adaptive: bool  # whether arms were not pulled late in the shares of the early half
    untested: int  # unlogged arms that are judged by the model alone
    certificate: Certificate | None
    horizon: int
    untestable: str  # why there is no test with contexts
    allowed: float | None = None  # what a guardrail may lose over the horizon, where the model pays for it

    @property
    def rejected(self) -> bool:
        """Whether rewards are not linear in the features, for sure."""
        return self.fit is not None and self.fit.rejected

    @property
    def misfit_that_matters(self) -> float | None:
        """The misfit that breaks the promise: as much per round as it allows to lose over the horizon."""
        allowed = self.allowed if self.certificate is None else self.certificate.loss(self.horizon)
        return None if allowed is None else allowed / self.horizon

    @property
    def power(self) -> float | None:
        """In which part of such logs a misfit that matters would be seen; None where there is no test or no
        promise."""
        if self.fit is None or self.misfit_that_matters is None:
            return None
        return self.fit.power(self.misfit_that_matters)

    @property
    def needed(self) -> bool:
        """Whether fixed arms are judged by features that they share."""
        return not self.log.arms.independent

    @property
    def least_misfit(self) -> float:
        """The smallest misfit that the test of linearity rather sees than misses; 0 where nothing is linear,
        or no arm is judged by that alone."""
        return self.fit.least_misfit(SEEN) if self.fit is not None and self.needed else 0.0

    @property
    def blind(self) -> bool:
        """Whether the test of linearity would rather miss than see a misfit that matters."""
        promise = self.certificate
        return promise is not None and is_blind(promise, least_misfit=self.least_misfit, horizon=self.horizon)

    def features(self) -> tuple[str, ...]:
        """Why the features of arms alone should not be believed."""
        if not self.needed:
            return ()
        if self.fit is not None and self.fit.rejected:
            return (f"{self.rejected_text(self.fit)}, so give every arm an effect of its own",)
        if self.fit is not None and self.adaptive and self.fit.cautious_p < DOUBTFUL:
            return (self.blind_text,)
        if self.fit is None and self.untested:
            return (
                f"whether rewards are linear cannot be tested, and {self.untested} unlogged arms "
                "are judged by that alone, so give every arm an effect of its own",
            )
        return ()

    def wrong(self) -> str:
        """That the model is wrong for sure, by how much, and what may help; nothing if it is not."""
        if self.fit is None or not (self.needed and self.fit.rejected):
            return ""
        return f"{self.rejected_text(self.fit)}: give every arm an effect of its own"

    def missing(self) -> tuple[str, ...]:
        """Why a promise by a model of contexts is not to be made yet."""
        return ()

    def unseen(self) -> tuple[str, ...]:
        """Why they should not be believed for this promise: the log could not have shown what breaks it."""
        return (self.blind_text,) if self.blind and not self.features() else ()

    def support(self) -> tuple[str, ...]:
        """Why the model may be believed."""
        if not self.needed:
            return ("every arm has an effect of its own, so no linearity is needed",)
        if self.fit is None:
            return ("no unlogged arm is judged by the linear model alone",)
        return (f"the logged means lie where a linear model puts them ({self.seen_text})",)

    def notes(self) -> tuple[str, ...]:
        """What matters to whoever rests on a model of contexts, and not to this promise."""
        return ()

    def rejected_text(self, fit: LackOfFit) -> str:
        """That a linear model looks wrong, and by how much."""
        wrong = f"rewards are not linear in these features (p = {fit.cautious_p:.2g})"
        return f"{wrong}: {self.missed_text(fit)}"

    def missed_text(self, fit: LackOfFit) -> str:
        """How far a linear model is from the means."""
        return f"the model misses {self.centre.mean} by {fit.misfit:.2g} on average"

    @property
    def blind_text(self) -> str:
        """That the log cannot show that rewards are linear."""
        changed = "shares of arms changed, and " if self.adaptive else ""
        p = "" if self.fit is None else f"p = {self.fit.cautious_p:.2g}" + ", times five" * self.adaptive
        seen = "" if self.power is None else f"; {self.seen_text}"
        return (
            f"{changed}this log cannot show that rewards are linear in these features ({p}{seen}), so give "
            "every arm an effect of its own"
        )

    @property
    def seen_text(self) -> str:
        """How often the test would see a misfit that matters, in words, and what is asked for."""
        part = 0.0 if self.power is None else self.power
        size = "" if self.misfit_that_matters is None else f" of {amount(self.misfit_that_matters)}"
        return (
            f"a misfit{size}, as large as the loss promised per round, is seen in {part:.0%} of such logs; "
            f"it takes {SEEN:.0%}"
        )

    @property
    def no_test(self) -> str:
        """Why there is no test of linearity; nothing where there is one."""
        if not self.needed:
            return "not needed: every arm has an effect of its own"
        if self.fit is not None:
            return ""
        return "cannot be tested: it needs more logged arms than features, and arms pulled more than once"

    def fact(self) -> str:
        """The test of linearity."""
        fit = self.fit
        if fit is None or self.no_test:
            return self.no_test
        misfit = f"; {self.missed_text(fit)}" if fit.rejected else ""
        f = f"F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}"
        seen = "" if self.allowed is None or fit.rejected else f"; {self.seen_text}"
        return f"{answer_text(fit.rejected)}: {f}, p = {fit.p:.2g}{fit.caution_text()}{misfit}{seen}"

    def to_dict(self) -> dict[str, Any] | None:
        """The test, with the p that decides and what the test could have seen."""
        if self.fit is None:
            return None
        return asdict(self.fit) | {
            "p_decides": self.fit.cautious_p,
            "power": self.power,
            "misfit_that_matters": self.misfit_that_matters,
            "least_misfit": self.least_misfit,
            "rejected": self.fit.rejected,
        }


class LinearityOfContexts(Linearity):
    """The same for a model of contexts: a Control gate does without it, so it counts for some promises."""

    @property
    def needed(self) -> bool:
        return False

    @property
    def rejected(self) -> bool:
        """By rows that are alike; where there are too few of them, by numbers that bend."""
        return bool(self.bent) if self.fit is None else self.fit.rejected

    @property
    def bent(self) -> tuple[Curve, ...]:
        """The numbers that bend for sure; where rows that are alike said no, those that are likely why."""
        if self.fit is not None:
            return tuple(curve for curve in self.curves if self.fit.rejected and curve.p < LIKELY)
        factor = ADAPTIVE_FACTOR if self.adaptive else 1.0
        return tuple(curve for curve in self.curves if curve.p * factor < TEST_LEVEL)

    @property
    def bent_text(self) -> str:
        """Which numbers bend."""
        return f"{' and '.join(repr(c.column) for c in self.bent)} bend{'s' if len(self.bent) == 1 else ''}"

    @property
    def wrong_text(self) -> str:
        """That a linear model looks wrong, and why."""
        if self.fit is not None:
            return self.rejected_text(self.fit) + (f"; {self.bent_text}" if self.bent else "")
        return f"rewards are not linear in these features: {self.bent_text} (p = {self.bent[0].p:.2g})"

    @property
    def remedy(self) -> str:
        """What may help the model."""
        if not self.bent:
            return "cross columns"
        return f"take {' and '.join(curve.remedy for curve in self.bent)} (columns) instead"

    def wrong(self) -> str:
        return f"{self.wrong_text}: {self.remedy}" if self.rejected else ""

    def missing(self) -> tuple[str, ...]:
        by_model = self.certificate is not None and self.certificate.by_model
        if not (self.rejected and by_model):
            return ()
        return (f"{self.wrong_text}: {self.remedy}, or state a reward range: a Control gate needs no model",)

    def support(self) -> tuple[str, ...]:
        return ()

    def notes(self) -> tuple[str, ...]:
        if not self.rejected or self.missing():
            return ()
        return (f"{self.wrong_text}: a promise by the model would not hold; {self.remedy}",)

    @property
    def no_test(self) -> str:
        return "" if self.fit is not None else self.untestable

    def fact(self) -> str:
        if self.fit is not None or not self.curves:
            return super().fact() + (f"; {self.bent_text}" if self.bent else "")
        if self.bent:
            return f"no: {self.bent_text} (p = {self.bent[0].p:.2g})"
        names = shortened_list([curve.column for curve in self.curves])
        return f"no sign against it: no number bends ({names}; p = {self.curves[0].p:.2g})"
