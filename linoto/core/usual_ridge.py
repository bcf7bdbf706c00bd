"""The ridge of a policy that starts from a log: the likeliest one, where no promise is proved by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.evidence import likeliest_ridge
from linoto.core.explorers import rule_of
from linoto.core.features.moments import Moments
from linoto.core.protocols import Composition
from linoto.core.within import within

P = TypeVar("P", bound=Any)  # a policy of explorer and gate
FROM_LOG: ContextVar[bool] = ContextVar("FROM_LOG", default=True)
ONE_SIZE = 4.0  # times the smallest feature of arms that the largest may be
MOST_FEATURES = 2_000  # beyond, the eigenvalues of a log take longer than a person waits


def with_usual_ridge(policy: P, d: int, log: Callable[[], Moments], raw: Floats | None = None) -> P:
    """The policy with the ridge by which its log of d features is the likeliest, unless it says one.

    `raw` (k, w) are features of arms in the units in which they came. One ridge for all is judged by the
    large ones: it holds the parameters of small ones at 0, and that of a year, far from 0, as well.

    noise^2 d / bound^2 is as good as the bound, and a bound that is guessed from a log is too long rather
    than too short. A ridge that follows rewards is outside the theorem of a confidence set, so this is for
    gates that read none (Control, whose promise is kept by a coin) and explorers that read none either.
    """
    if not needs_no_bounds(policy) or d > MOST_FEATURES:
        return policy
    if raw is not None and not are_of_one_size(raw):
        return policy
    summed = log()
    if not summed.count or summed.reward_squares is None:
        return policy
    return replace(policy, confidence=replace(policy.assumed, ridge=likeliest_ridge(summed)))


def ridge_from_log(wanted: bool) -> AbstractContextManager[None]:
    """Whether policies that start in here look for one: what is stored says its own or has that of before."""
    return within(FROM_LOG, wanted)


def with_ridge_of(policy: P, log: Moments, features: object) -> P:
    """The same where a policy with the usual gate starts from a log of rounds; its gate stays unsaid."""
    if policy.gate is not None or not FROM_LOG.get():
        return policy
    raw = getattr(features, "raw_features", None)
    if raw is None:
        width = getattr(features, "own_width", 0) or log.d  # the same numbers of a context for every arm
        squares = np.diagonal(log.gram)[: log.d // width * width].reshape(-1, width)
        raw = np.sqrt(squares.sum(axis=0))[None]
    composed = policy.composed_for_rounds()
    found = with_usual_ridge(composed, log.d, lambda: log, raw)
    return policy if found is composed else replace(policy, confidence=found.confidence)


def needs_no_bounds(policy: Composition) -> bool:
    """Whether nothing in it rests on a confidence set, and nobody said which ridge."""
    gate: Any = policy.gate  # None until it is composed
    confidence = policy.assumed
    return (
        gate is not None
        and gate.throws_coin
        and not gate.reads_bounds(confidence)
        and policy.resolved_fallback() == "mixture"
        and rule_of(policy.explorer).by_estimate
        and confidence.ridge is None
        and confidence.radius != "arms"
        and confidence.shift == 0
    )


def are_of_one_size(features: Floats) -> bool:
    """Whether the features of arms (k, w) have about the same size where they are not 0."""
    used = np.maximum(np.count_nonzero(features, axis=0), 1)
    sizes = np.sqrt(np.einsum("kw,kw->w", features, features, dtype=np.float64) / used)
    return bool(sizes.max(initial=0.0) <= ONE_SIZE * sizes[sizes > 0].min(initial=np.inf))
