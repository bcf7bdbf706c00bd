"""The arithmetic no round can do without: A V^-1 x for all arms, and one rank-one step of V^-1."""

from __future__ import annotations

import numba
import numpy as np

from linoto.core.arrays import Floats
from linoto.core.kernels.estimate import combine


@numba.njit(nogil=True, error_model="numpy", _nrt=False)  # as the kernels; a cache would go stale
def multiply_adds(actions: Floats, inverse: Floats, step: Floats, out: Floats, rounds: int) -> None:
    """kd + d^2 multiply-adds per round, on actions (d, k) and inverse (d, d), and nothing else."""
    d = step.size
    for t in range(rounds):
        step[t % d] += 1e-9  # or the compiler would do it once for all rounds
        combine(actions, step, out)
        for i in range(d):
            row, weight = inverse[i], 1e-9 * step[i]
            for j in range(d):
                row[j] -= weight * step[j]


class Floor:
    """Arrays of the right size, and the loop over them."""

    def __init__(self, k: int, d: int) -> None:
        self.actions, self.inverse = np.ones((d, k)), np.eye(d)
        self.step, self.out = np.zeros(d), np.empty(k)
        self.run(1)

    def run(self, rounds: int) -> None:
        multiply_adds(self.actions, self.inverse, self.step, self.out, rounds)
