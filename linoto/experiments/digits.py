"""Handwritten digits as a problem with contexts: read them better than a simple classifier does."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from linoto.experiments.settings import ContextualSetting
from linoto.worlds.digits import COMPONENTS, DIGITS, data_file, digits


@dataclass(frozen=True, kw_only=True)
class Digits(ContextualSetting):
    """Images in any order; practice is the nearest centroid of 60 images, others in every run."""

    k: int = DIGITS
    d: int = DIGITS * (1 + COMPONENTS)
    m: int = 1000
    horizon: int = 3000
    rewards: Literal["gaussian", "bernoulli"] = "bernoulli"
    turn: int | None = None  # the round from which on the right arm is the next digit
    source: str = ""  # checksum of the images

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "source", sha256(data_file().read_bytes()).hexdigest()[:24])

    def bandit(self, rng: np.random.Generator) -> Any:
        """The world of one run."""
        return digits(rng, turn=self.turn)
