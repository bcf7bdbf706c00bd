"""Real flights as a problem with contexts: the month and the part of the day of each trip are known."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from linoto.experiments.settings import ContextualSetting
from linoto.worlds.flights import data_file
from linoto.worlds.flights_by_time import flights_by_time


@dataclass(frozen=True, kw_only=True)
class FlightsByTime(ContextualSetting):
    """Trips of a year in the shares of the real flights; practice books what most fly."""

    k: int = 28  # at most
    d: int = 51
    m: int = 2000
    horizon: int = 6000
    rewards: Literal["gaussian", "bernoulli"] = "bernoulli"
    source: str = ""  # checksum of the flights

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "source", sha256(data_file().read_bytes()).hexdigest()[:24])

    def bandit(self, rng: np.random.Generator) -> Any:
        """The same world in every run: only its rounds are drawn."""
        return flights_by_time()
