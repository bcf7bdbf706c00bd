"""Handwritten digits as a problem with contexts: read them better than a simple classifier does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Tolerance
from linoto.core.policies import Gated, LinTS
from linoto.experiments.settings import ContextualSetting, Experiment
from linoto.worlds.digits import BOUND, COMPONENTS, DIGITS, data_file, digits


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


def experiment(horizon: int = 6000, m: int = 1000) -> Experiment:
    """Thompson sampling without a gate, behind the model's and behind a coin; as it is, and turning half-way.

    Both gates allow 2 wrong images in 100 more than practice has.
    """
    confidence = Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=BOUND)
    explorer = LinTS(scale=0.5, prior="scaled")
    policies = {
        "no gate": replace(explorer, confidence=confidence),
        "model": Gated(
            explorer=explorer, gate=Tolerance(epsilon=0.02, evidence="model"), confidence=confidence
        ),
        "control": Gated(explorer=explorer, gate=Control(epsilon=0.02), confidence=confidence),
    }
    settings = (
        Digits(name=name, policies=policies, horizon=horizon, m=m, turn=turn)
        for name, turn in (("as it is", None), ("turning", horizon // 2))
    )
    return Experiment(name="digits", title="Handwritten digits", settings=tuple(settings))
