"""A composition with contexts as the kernels read it: codes and scalars."""

from __future__ import annotations

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Records
from linoto.core.confidence import Confidence, terms_of_log
from linoto.core.contexts.certificates import check_range
from linoto.core.features.moments import Moments
from linoto.core.parameters import explorer_params
from linoto.core.protocols import Composition

FALLBACK_CODES = {
    "lcb": kernels.LCB_ARM,
    "mixture": kernels.MIXTURE,  # of the log, which with contexts is practice, as the caller gives it
    "certified": kernels.CERTIFIED,
}


def contextual_params(gated: Composition, moments: Moments) -> Records:
    """A composition as the kernels read it, for rounds that bring their own arms."""
    confidence: Confidence = gated.assumed
    if confidence.shift > 0:
        raise ValueError(
            f"shift must be 0 with contexts, got {confidence.shift:g}: one estimate is kept there, and it "
            "uses the log"
        )
    ridge = confidence.ridge_for(moments.d)
    largest = float(np.abs(moments.gram).max()) / ridge
    if not largest < 1e100 or ridge < 1e-100:
        raise ValueError(
            f"gram must be of a size that ridge {ridge:g} can regularise, got gram / ridge = {largest:g}"
        )
    if gated.gate.measures:
        check_range(confidence, moments)
    params: Records = explorer_params(gated, moments.d, terms_of_log(confidence, moments.d, moments.spectrum))
    params[0]["memory"] = getattr(gated.explorer, "memory", None) or 0
    gated.gate.fill_contextual(params[0], confidence, moments)
    fallback = gated.resolved_fallback()
    if fallback not in FALLBACK_CODES or (gated.gate.throws_coin and fallback != "mixture"):
        words = "'auto' or 'mixture'" if gated.gate.throws_coin else "'auto', 'lcb' or 'mixture'"
        raise ValueError(
            f"fallback must be {words} with contexts, got {fallback!r}: practice is given with each decision"
        )
    params[0]["fallback"] = FALLBACK_CODES[fallback]
    return params
