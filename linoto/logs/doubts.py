"""What estimates of one target say of each other: are the propensities those by which arms were played?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

from linoto.core.hints import amount
from linoto.logs.estimates import CANNOT_TELL, Estimate

FAR = 3.0  # standard errors of the mean weight: beyond it people are told, beyond five nothing is enough
ALIKE = ("ips", "snips", "dr")  # replay asks a target that learns from fewer rows
LEAST_LEVEL = 0.9  # intervals of a lower level miss each other by chance


def doubts_of(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """What speaks against the propensities where nothing refutes them, one sentence each."""
    by_metric = {found.metric: [e for e in estimates if e.metric == found.metric] for found in estimates}
    return (
        *(text for metric, found in by_metric.items() for text in far_weights(found, metric)),
        *(text for metric, found in by_metric.items() for text in far_apart(found, metric)),
    )


def far_weights(estimates: Sequence[Estimate], metric: str) -> list[str]:
    """That weights are hardly 1 on average. Methods of the same rows have the same weights."""
    for found in estimates:
        errors = errors_from_1(found)
        if found.weights_fit and found.method in ALIKE and errors > FAR:
            about = f"of {metric}: " if metric else ""
            return [
                f"{about}weights average {found.mean_weight:.3g} instead of 1, {errors:.2g} standard errors "
                "from it: the propensities may not be how arms were played"
            ]
    return []


def errors_from_1(found: Estimate) -> float:
    """How many standard errors the mean weight is from 1, by the rows that it is worth."""
    if not found.effective or found.mean_weight <= 0:
        return 0.0
    spread = found.mean_weight * sqrt(max(1 / found.effective - 1 / found.rows, 0.0))
    return abs(found.mean_weight - 1) / spread if spread > 0 else 0.0


def far_apart(estimates: Sequence[Estimate], metric: str) -> list[str]:
    """That two methods contradict each other, though each says that it is enough."""
    told = [
        found
        for found in estimates
        if found.method in ALIKE and found.level >= LEAST_LEVEL and not found.reason.startswith(CANNOT_TELL)
    ]
    for one, other in combinations(told, 2):
        if max(one.low, other.low) > min(one.high, other.high):
            about = f" of {metric}" if metric else ""
            return [
                f"the intervals{about} of {one.method} ([{amount(one.low)}, {amount(one.high)}]) and "
                f"{other.method} ([{amount(other.low)}, {amount(other.high)}]) do not meet: they rest on the "
                "propensities in other ways, so these are not how arms were played; believe neither"
            ]
    return []
