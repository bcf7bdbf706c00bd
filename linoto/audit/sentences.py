"""Words that several findings share."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Ints
from linoto.core.hints import shortened_list


class Centre(NamedTuple):
    """What rewards scatter around, and what follows from it, in the words of each sentence."""

    noise: str
    reward: str
    short: str
    below: str
    mean: str
    unknown_noise: str  # why nothing is known of the noise
    no_tails: str  # why nothing is known of the tails; nothing where there is nothing to say
    fewer: str  # what else would make a promise better
    baseline: str  # what is promised not to be lost
    alike: str  # where an arm is to earn late what it earned early
    bound_limits: bool  # whether the bound on the parameter limits rewards where no range does


OF_ARMS = Centre(
    noise="the mean of an arm",
    reward="the mean of its arm",
    short="its arm's mean",
    below="an arm's mean",
    mean="an arm's mean",
    unknown_noise="no arm was pulled twice",
    no_tails="",
    fewer="fewer logged arms, ",
    baseline="the log",
    alike="",
    bound_limits=True,
)
OF_MODEL = Centre(
    noise="the linear model",
    reward="where the linear model puts it",
    short="where the linear model puts it",
    below="its mean",
    mean="a mean",
    unknown_noise="there are not more rows than features",
    no_tails="cannot tell: that takes the rows themselves",
    fewer="",
    baseline="practice",
    alike=" in the same contexts",
    bound_limits=False,
)


def answer_text(rejected: bool) -> str:
    """What a test says of what it tests."""
    return "no" if rejected else "no sign against it"


def names_of(names: Sequence[str], arms: Ints | Sequence[int]) -> str:
    """The names of some arms or features, a few of them where they are many."""
    return shortened_list([names[arm] for arm in arms])


def without_nan(value: Any) -> Any:
    """The same with plain numbers and lists, and None for what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): without_nan(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
