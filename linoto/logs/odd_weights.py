"""Weights that are not 1 on average: what is then said of an estimate that takes them to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linoto.logs.estimates import CANNOT_TELL, Estimate
from linoto.logs.metrics import in_values
from linoto.logs.rows import Rows

ODD = "the propensities do not fit these rows, or were 0 for what the target plays"
BY_PLAY = "which values are missing depends on what was played"


def weights_of_1(found: Estimate) -> Estimate:
    """A ratio beside an interval that takes weights to be 1 on average: it holds the ratio, too.

    Where weights are not 1 on average the two are about different things, and neither is the answer.
    """
    found = replace(found, low=min(found.low, found.value), high=max(found.high, found.value))
    return only_if_weights_fit(found)


def only_if_weights_fit(found: Estimate) -> Estimate:
    """Not enough where weights are not 1 on average: the mean of w r, and a correction by it, need that.

    An arm that a log could only play in some rows, as where an explorer's luck never makes it the best, has
    no weight in the others, and would be said to earn next to nothing there.
    """
    if found.weights_fit or found.reason.startswith(CANNOT_TELL):
        return found
    why = f"{CANNOT_TELL}: {ODD} (weights average {found.mean_weight:.3g} instead of 1)"
    return replace(found, enough=False, reason=why)


def dr_if_weights_fit(found: Estimate) -> Estimate:
    """A correction by weights, not enough where they do not fit; of other methods that is known already."""
    return only_if_weights_fit(found) if found.method == "dr" else found


def of_metric(found: Estimate, metric: str, rows: Rows) -> Estimate:
    """An estimate by the rows that have a value of a metric, with what that takes for granted."""
    values, (holds, reason) = rows.metrics[metric], map(in_values, (found.holds, found.reason))
    missing = int(values.size - np.isfinite(values).sum())
    if missing:
        holds += (
            f"{', and' if ', if ' in holds else ','} if it is chance alone which values are missing, "
            f"whatever they are and whatever was played ({missing:,} of {values.size:,} values are missing)"
        )
    found = replace(found, metric=metric, holds=holds, reason=reason)
    return by_play(found) if missing and not found.weights_fit else dr_if_weights_fit(found)


def by_play(found: Estimate) -> Estimate:
    """An estimate of a metric whose values are missing as was played: ips takes mean weights to be 1.

    So does what could not tell before.
    """
    if found.method != "ips" and not found.reason.startswith(CANNOT_TELL):
        return found
    why = f"{CANNOT_TELL}: {BY_PLAY} (weights average {found.mean_weight:.3g} instead of 1)"
    return replace(found, enough=False, reason=why)
