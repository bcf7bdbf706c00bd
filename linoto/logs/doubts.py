"""What estimates of one target say of the propensities: are they those by which arms were played?

docs/evaluation.md says how often a sound log is doubted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from linoto.core.arrays import Ints
from linoto.core.hints import amount, shortened_list
from linoto.logs.estimates import Estimate
from linoto.logs.rows import Rows
from linoto.logs.wrong_propensities import find_excess

FAR = 3.0  # standard errors of the mean weight: beyond it people are told, beyond five nothing is enough
BY_WEIGHTS = ("ips", "snips", "dr")  # replay has no weights of its own
CENTRED = ("snips", "dr")  # what weights miss on average moves ips alone
ROUNDING = 1e-9  # of the mean weight
FALSE_ALARM = 0.001  # of a test of the rows themselves: people read each of its sentences
LEAST_LEVEL = 0.9  # intervals of a lower level miss each other by chance


def doubts_of(estimates: Sequence[Estimate], rows: Rows) -> tuple[str, ...]:
    """What speaks against the propensities of rows and estimates by them, one sentence each.

    >>> from linoto import Rows, evaluate
    >>> rows = Rows(arms=[0] * 300 + [1] * 100, rewards=[1.0, 0.0] * 200, k=2, propensities="uniform")
    >>> for text in doubts_of(evaluate(rows, 1), rows):
    ...     print(text)
    these were played more often than their propensities allow: 0; believe no estimate by them
    """
    alone = [found for found in estimates if not found.beyond]
    by_metric = {found.metric: [e for e in alone if e.metric == found.metric] for found in alone}
    return (
        *too_often(rows),
        *(text for metric, found in by_metric.items() for text in far_weights(found, metric)),
        *(text for metric, found in by_metric.items() for text in far_apart(found, metric)),
        *dict.fromkeys(found.doubt for found in estimates if found.doubt and found.weights_fit),
    )


def too_often(rows: Rows) -> list[str]:
    """That arms were played more often than their propensities allow."""
    return [
        f"these were played more often than their propensities allow{with_some(field)}: {named(arms, rows)}; "
        "believe no estimate by them"
        for field, arms in find_excess(rows, FALSE_ALARM)
    ]


def with_some(field: str) -> str:
    """In which rows."""
    return f" in rows with some values of {field!r}" if field else ""


def named(arms: Ints, rows: Rows) -> str:
    """Arms as a sentence has them."""
    names = rows.names or range(rows.k)
    return shortened_list([str(names[arm]) for arm in arms.tolist()])


def far_weights(estimates: Sequence[Estimate], metric: str) -> list[str]:
    """That weights are hardly 1 on average. Methods of the same rows have the same weights."""
    about = f"of {metric}" if metric else ""
    for found in estimates:
        if found.weights_fit and found.method in BY_WEIGHTS:
            told = far_from_1(found.mean_weight, found.effective, found.rows, about)
            if told:
                return [told]
    return []


def far_from_1(mean: float, effective: float, rows: int, about: str) -> str:
    """That the mean weight of so many rows, worth so many, is far from 1, if it is."""
    errors = errors_from_1(mean, effective, rows)
    if errors <= FAR:
        return ""
    begin = f"{about}: weights" if about else "weights"
    return (
        f"{begin} average {mean:.3g} instead of 1, {errors:.2g} standard errors "
        "from it: the propensities may not be how arms were played"
    )


def errors_from_1(mean: float, effective: float, rows: int) -> float:
    """How many standard errors a mean weight is from 1, by the rows that it is worth."""
    away = abs(mean - 1)
    if not effective or away <= ROUNDING:
        return 0.0
    spread = mean * sqrt(max(1 / effective - 1 / rows, 0.0))
    return away / spread if spread > 0 else 0.0


def far_apart(estimates: Sequence[Estimate], metric: str) -> list[str]:
    """That the two methods that do not need weights to average 1 contradict each other, each with enough."""
    told = [
        found
        for found in estimates
        if found.method in CENTRED and found.level >= LEAST_LEVEL and found.enough
    ]
    if len(told) < 2 or max(each.low for each in told) <= min(each.high for each in told):
        return []
    about = f" of {metric}" if metric else ""
    ends = [f"{each.method} ([{amount(each.low)}, {amount(each.high)}])" for each in told]
    return [
        f"the intervals{about} of {' and '.join(ends)} do not meet, as they do where arms were "
        "played by these propensities: believe neither"
    ]
