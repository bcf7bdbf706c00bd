"""What the log's linear model says that plays in their contexts earn.

With probability 1 - delta the parameter lies in the confidence set of the log, fixed before the first round.
The means of all plays so far sum to <theta, S>, S the sum of their features; on the set that is within
r |S| + bias of <center, S>, with |S| in the norm of V^-1, and the bias of the ridge as in the gate. Evidence
that rewards sum to less, or to more, is that of any sum of means: the watch over promises has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.arrays import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelClaim:
    """The confidence set of the log."""

    center: Floats  # (d,)
    inverse: Floats  # (d, d) V^-1
    radius: float  # of the noise
    bias: float  # sqrt(ridge) bound
    ridge: float

    @classmethod
    def of(cls, agent: Agent) -> ModelClaim | None:
        """That of a loop whose promise rests on the model of its log; None for any other."""
        if not agent.gate.trusts_model or agent.gate.throws_coin or agent.moments.count == 0:
            return None
        start = agent.at_start().running
        state, params = start.state, start.params[0]
        return cls(
            center=np.array(state.vectors[kernels.THETA]),
            inverse=np.array(state.square[kernels.INVERSE]),
            radius=float(state.run[0]["gate_radius"]),
            bias=float(params["bias"]),
            ridge=float(params["ridge"]),
        )

    def bounds(self, played: Floats) -> tuple[float, float]:
        """The least and the most that plays whose features sum to `played` earn on average."""
        image = np.empty_like(played)
        kernels.combine(self.inverse, played, image)  # not by NumPy: the same bits on any processor
        middle = kernels.dot(self.center, played)
        spread = sqrt(max(kernels.dot(played, image), 0.0))
        shared = sqrt(self.ridge * kernels.dot(image, image))
        width = self.radius * spread + self.bias * min(spread, shared)
        return middle - width, middle + width
