"""Do arms earn late what they earned early?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linoto.audit.adaptive import SHARE_LEVEL, average, click_evidence, gaussian_evidence, share_p
from linoto.audit.common_shift import common_shift, shift_of_chosen
from linoto.audit.context_drift import Turned
from linoto.audit.noise import Scatter, scatter_of
from linoto.audit.pvalues import fisher, unequal_law
from linoto.audit.sentences import Centre, answer_text, names_of
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.hints import amount, counted
from linoto.core.offline import Offline
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.read import Log
from linoto.logs.sums import sums_equal_squares

PULLS_ALONE = 10  # pulls in each half from which an arm is judged on its own
RARE_ALONE = 5  # of the rarer of 0 and 1 from which an arm of such rewards is
RARE_GAUSSIAN = 25  # of it expected in the smaller half from which means are Gaussian enough
VARIANCE_TOGETHER = 10.0  # variance from which rarer arms of 0/1 rewards together are close to Gaussian
FEWEST_CLICKS = 2.0  # variance of late ones (8 ones in equal halves) below which a common shift cannot show
COMMON_SHARE = 0.7  # of the false alarms, for the shift that arms have in common
SINGLE_SHARE = 0.15  # for single arms, and as much for all of them in any direction
FEATURES_SHARE = 0.3  # of all false alarms, for what features of contexts are worth; the rest is for arms
REMEDY = ": build on recent rows only, or promise less"


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """The comparison of two halves: one test per arm, one of all arms together, one of their common shift.

    Where arms were not pulled late in the shares of the early half, what is pulled may follow what was
    earned. Then p-values are replaced by evidence that holds however arms were chosen (`adaptive.py`), and
    the common shift is one beyond what choosing could make of none (`common_shift.py`).
    """

    arms: Ints  # (q,) the arms that could be compared
    early: Floats  # (q,) means
    late: Floats  # (q,)
    p: Floats  # (q,) of each arm, adjusted for their number (Holm); 1 where one alone could not show it
    overall: float  # of all arms, each in its own direction
    common: float  # of the shift that arms have in common
    shares: float  # of the shares in which arms were pulled
    early_reference: float  # mean rewards of the halves: they also change with what is pulled
    late_reference: float
    turned: Turned | None = None  # what features are worth; None without contexts, or where nobody looked
    unlooked: str = ""  # why nobody looked, where there are contexts

    @property
    def adaptive(self) -> bool:
        """Whether arms were pulled late in other shares than early, perhaps for what they had earned."""
        return self.shares < SHARE_LEVEL

    @property
    def moved(self) -> Ints:
        """The arms that changed, the surest first."""
        share = 1 - COMMON_SHARE if self.adaptive else SINGLE_SHARE * self.arms_share
        level = TEST_LEVEL * share
        order = np.argsort(self.p, kind="stable")
        return np.asarray(self.arms[order][self.p[order] < level])

    @property
    def arms_share(self) -> float:
        """The part of the false alarms that is for arms."""
        return 1.0 if self.turned is None else 1.0 - FEATURES_SHARE

    @property
    def common_moved(self) -> bool:
        """Whether all arms together earn more late than early, or less."""
        return self.common < TEST_LEVEL * COMMON_SHARE * self.arms_share

    @property
    def features_turned(self) -> bool:
        """Whether features of contexts are not worth late what they were early."""
        return self.turned is not None and self.turned.combined < TEST_LEVEL * FEATURES_SHARE

    @property
    def combined(self) -> float:
        """One p-value: each test counts as much as its part of the false alarms."""
        if self.adaptive:
            return float(min(self.overall / (1 - COMMON_SHARE), self.common / COMMON_SHARE, 1.0))
        single = min(self.overall, float(self.p.min(initial=1.0))) / SINGLE_SHARE
        features = 1.0 if self.turned is None else self.turned.combined / FEATURES_SHARE
        return float(
            min(single / self.arms_share, self.common / COMMON_SHARE / self.arms_share, features, 1.0)
        )

    @property
    def rejected(self) -> bool:
        """Whether steady arms would look this unsteady less than once in a hundred logs."""
        return self.combined < TEST_LEVEL


def size_of_drift(early: Offline, late: Offline) -> float | None:
    """How far an arm's mean wanders in as many rounds as the log has: a standard deviation; None: unknown.

    For a random walk that is D away after the log, the means of its two halves differ by D / sqrt(3). Of the
    squared gaps, what the scatter of rewards explains is taken off; what is left may be nothing.
    """
    both = np.flatnonzero((early.pulls > 0) & (late.pulls > 0) & (early.pulls + late.pulls > 2))
    if both.size == 0:
        return None
    before, after = scatter_of(early, both), scatter_of(late, both)
    variance = (before.around + after.around) / (before.pulls + after.pulls - 2)
    weight = before.pulls * after.pulls / (before.pulls + after.pulls)
    moved = (weight * (after.mean - before.mean) ** 2 - variance).sum() / weight.sum()
    return float(np.sqrt(3 * max(moved, 0.0)))


class Comparison(NamedTuple):
    """The p-values of some arms."""

    tested: Bools  # (q,)
    alone: Bools  # (q,) those judged on their own
    p: Floats  # (q,) of these, 1 for the others
    overall: float


def find_drift(
    early: Offline, late: Offline, *, shares: float | None = None, turned: Turned | None = None
) -> Drift | None:
    """Compare two halves of a log arm by arm; None where no arm was pulled in both often enough.

    An arm is only ever held against its own scatter: arms differ in theirs. Its noise is taken to be the same
    in both halves, and rewards that are not 0 or 1 to have means that are about Gaussian. With contexts the
    halves are those `at_equal_contexts`, with the p of the `shares` as they were, and with what was found of
    the features.
    """
    both = np.flatnonzero((early.pulls > 0) & (late.pulls > 0))
    before, after = scatter_of(early, both), scatter_of(late, both)
    clicks = sums_equal_squares(early) and sums_equal_squares(late)
    shares = share_p(early, late) if shares is None else shares
    if shares < SHARE_LEVEL:
        found, turned = compare_chosen(before, after, clicks=clicks, k=early.pulls.size), None
        shift = shift_of_chosen(early, late)
    else:
        found = compare_clicks(before, after) if clicks else compare_means(before, after)
        shift = common_shift(before, after, clicks=clicks)
    if clicks and shift.variance >= FEWEST_CLICKS:
        found = found._replace(tested=np.ones(both.size, dtype=bool))
    if not found.tested.any() and (clicks or turned is None):
        return None
    adjusted = np.ones(both.size)
    adjusted[found.alone] = found.p[found.alone] if shares < SHARE_LEVEL else holm(found.p[found.alone])
    return Drift(
        arms=both[found.tested],
        early=before.mean[found.tested],
        late=after.mean[found.tested],
        p=adjusted[found.tested],
        overall=found.overall,
        common=shift.p,
        shares=shares,
        early_reference=early.reference,
        late_reference=late.reference,
        turned=turned,
    )


def drift_reasons(drift: Drift | None, log: Log, centre: Centre) -> tuple[str, ...]:
    """That the log is not of one piece."""
    if drift is None or not drift.rejected:
        return ()
    moved, tested = drift.moved.size, drift.arms.size
    together = ", and so did all together" if drift.common_moved else ""
    arms = f"{moved} of {tested} arms changed for sure{together}"
    if together and not moved:
        arms = f"all together, though none of {tested} arms for sure by itself"
    what = f"arms did not earn late what they earned early{centre.alike}"
    found = f"p = {drift.combined:.2g}: {arms}"
    if drift.features_turned:
        also = f"features of the context are not worth late what they were early{turned_text(drift, log)}"
        what = also if not (drift.moved.size or drift.common_moved) else f"{what}, and {also}"
    return (f"{what} ({found}){REMEDY}",)


def turned_text(drift: Drift, log: Log) -> str:
    """The features that changed, by name, where some did for sure."""
    turned = drift.turned
    if turned is None or not (sure := turned.surest(TEST_LEVEL * FEATURES_SHARE)).size:
        return ""
    return f": {names_of(log.recipe.names, sure)}"


def drift_fact(drift: Drift | None, log: Log, untested: str) -> str:
    """The comparison of the halves, or why there is none."""
    if drift is None:
        return f"cannot tell: {untested}"
    moved = f"; changed: {names_of(log.arms.names, drift.moved)}" if drift.moved.size else ""
    how = f"all together {drift.common:.2g}"
    if drift.adaptive:
        how = f"their shares changed, so by what holds however arms were chosen; {how}"
    features, turned = drift.unlooked and f" ({drift.unlooked})", ""
    if drift.turned is not None:
        features = f" and {counted(drift.turned.features.size, 'feature')} ({drift.turned.combined:.2g})"
        turned = turned_text(drift, log) and f"; turned{turned_text(drift, log)}"
    return (
        f"{answer_text(drift.rejected)}: p = {drift.combined:.2g} over "
        f"{counted(drift.arms.size, 'arm')} ({how}){features}, early and late by {log.split}, means "
        f"{amount(drift.early_reference)} and {amount(drift.late_reference)}{moved}{turned}"
    )


def drift_dict(drift: Drift, log: Log) -> dict[str, Any]:
    """The drift, the arms that moved by name."""
    return {
        "split": log.split,
        "tested_arms": drift.arms.size,
        "p": drift.combined,
        "p_arms": drift.overall,
        "p_common": drift.common,
        "p_features": None if drift.turned is None else drift.turned.combined,
        "p_shares": drift.shares,
        "adaptive": drift.adaptive,
        "rejected": drift.rejected,
        "moved": [
            {
                "arm": log.arms.names[drift.arms[i]],
                "early": drift.early[i],
                "late": drift.late[i],
                "p": drift.p[i],
            }
            for i in np.searchsorted(drift.arms, drift.moved)
        ],
        "early_reference": drift.early_reference,
        "late_reference": drift.late_reference,
    }


def why_untested(early: Offline, late: Offline) -> str:
    """Why two halves could not be compared."""
    both = (early.pulls > 0) & (late.pulls > 0)
    if not both.any():
        return "no arm was pulled in both halves"
    if not (sums_equal_squares(early) and sums_equal_squares(late)):
        return "no arm was pulled often enough in both halves"
    of_arm, ones_of_arm = (early.pulls + late.pulls)[both], (early.reward_sums + late.reward_sums)[both]
    pulls, ones = int(of_arm.sum()), float(ones_of_arm.sum())
    unusual = float(np.minimum(ones_of_arm, of_arm - ones_of_arm).sum())
    if unusual < min(ones, pulls - ones):  # as where one arm always earns 1, and another always 0
        return f"too few rewards differ from what their arm usually earns: {unusual:,.0f} of {pulls:,}"
    rare = "ones" if 2 * ones <= pulls else "zeros"
    return f"too few {rare} to say: {min(ones, pulls - ones):,.0f} among {pulls:,} rewards"


def compare_chosen(early: Scatter, late: Scatter, *, clicks: bool, k: int) -> Comparison:
    """Arms that may have been chosen by their rewards: evidence by betting, an average over all k arms.

    Arms with too little to tell count as no evidence at all, which is never more than they have.
    """
    from scipy.special import ndtri  # type: ignore[import-untyped]

    pulls = early.pulls + late.pulls
    if clicks:
        ones = np.rint(early.pulls * early.mean + late.pulls * late.mean)
        tested = np.minimum(ones, pulls - ones) >= RARE_ALONE
        evidence = click_evidence(early, late)
    else:
        tested = (early.pulls >= PULLS_ALONE) & (late.pulls >= PULLS_ALONE)
        p = np.clip(student_p(gaps_of(early, late), early.most + late.most, pulls - 2), 1e-300, 1.0)
        squared = ndtri(p / 2) ** 2 * (1 / early.pulls + 1 / late.pulls)  # as if the noise were known
        evidence = gaussian_evidence(early.pulls, late.pulls, squared)
    p = np.minimum(k * np.exp(-np.maximum(evidence, 0.0)), 1.0)
    if not tested.any():
        return Comparison(tested, tested, p, 1.0)
    total = average(evidence[tested]) + np.log(tested.sum() / k)
    return Comparison(tested, tested, p, float(np.exp(-max(total, 0.0))))


def gaps_of(early: Scatter, late: Scatter) -> Floats:
    """(q,) squared gaps between the halves, in units in which each has the variance of one reward."""
    gap = np.abs(late.mean - early.mean)
    gap[gap <= 1e-12 * (np.abs(early.mean) + np.abs(late.mean))] = 0.0
    return np.asarray(gap**2 / (1 / early.pulls + 1 / late.pulls))


def student_p(squared: Floats, around: Floats, degrees: Floats) -> Floats:
    """(q,) p-values of squared gaps against the arms' own scatter; 1 where there is none."""
    from scipy.special import stdtr

    ratio = np.divide(squared * degrees, around, out=np.zeros_like(squared), where=around > 0)
    return np.asarray(2 * stdtr(np.maximum(degrees, 1), -np.sqrt(ratio)))


def compare_means(early: Scatter, late: Scatter) -> Comparison:
    """Student's t for arms pulled often; the others together, by two tests that must agree.

    With few pulls, t is exact for Gaussian rewards of any noise, and jumpy for discrete or skewed ones; the
    sum of squared gaps is the other way round. (One pull in each half tells nothing of noise.)
    """
    squared, degrees = gaps_of(early, late), early.pulls + late.pulls - 2
    tested = degrees >= 2
    alone = (early.pulls >= PULLS_ALONE) & (late.pulls >= PULLS_ALONE)
    rest = tested & ~alone
    around = np.where(alone, early.most + late.most, early.around + late.around)
    p = student_p(squared, around, degrees)
    parts = p[alone]
    if rest.any():
        variance, nothing = around[rest] / degrees[rest], np.zeros((int(rest.sum()), 0))
        together = unequal_law(variance, degrees[rest], nothing).p(float(squared[rest].sum()))
        parts = np.append(parts, max(together, fisher(p[rest])))
    return Comparison(tested, alone, p, fisher(parts))


def compare_clicks(early: Scatter, late: Scatter) -> Comparison:
    """0/1 rewards: given how often the rarer of them came at all, how often it came early is binomial, or
    closer to its mean. So no pull is too few and no chance too small; where both are many, Student's t.

    All together count by mid-p-values, whose Fisher sum has no more spread than it should (Rubin-Delanchy,
    Heard and Lawson, 2019); arms in which the rarer reward hardly came count by their common shift.
    """
    from scipy.special import ndtr

    pulls = early.pulls + late.pulls
    ones, share = np.rint(early.pulls * early.mean), early.pulls / pulls
    all_ones = ones + np.rint(late.pulls * late.mean)
    zeros_are_rare = 2 * all_ones > pulls
    here = np.where(zeros_are_rare, early.pulls - ones, ones)
    total = np.where(zeros_are_rare, pulls - all_ones, all_ones)
    p, middle = binomial(here, total, share)
    often = total * np.minimum(share, 1 - share) >= RARE_GAUSSIAN
    t = student_p(gaps_of(early, late), early.around + late.around, pulls - 2)
    p, middle = np.where(often, t, p), np.where(often, t, middle)
    alone = total >= RARE_ALONE
    parts = middle[alone]
    shift = (np.where(zeros_are_rare, -1, 1) * (here - total * share))[~alone].sum()
    variance = float((total * share * (1 - share))[~alone].sum())
    if variance >= VARIANCE_TOGETHER:
        parts = np.append(parts, 2 * ndtr(-max(abs(shift) - 0.5, 0.0) / np.sqrt(variance)))
    tested = alone | (variance >= VARIANCE_TOGETHER)
    return Comparison(tested, alone, p, fisher(parts))


def binomial(here: Floats, total: Floats, share: Floats) -> tuple[Floats, Floats]:
    """(q,) two-sided p-values of binomial counts, and their mid-p-values."""
    from scipy.special import bdtr, bdtrc

    size, before = total.astype(np.int64), np.maximum(here - 1, 0)
    up_to, beyond = bdtr(here, size, share), bdtrc(here, size, share)
    below = np.where(here > 0, bdtr(before, size, share), 0.0)
    from_here = np.where(here > 0, bdtrc(before, size, share), 1.0)
    p = np.minimum(2 * np.minimum(up_to, from_here), 1.0)
    return p, np.asarray(np.minimum(up_to + below, beyond + from_here))
