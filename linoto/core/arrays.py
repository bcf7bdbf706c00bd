"""The types of arrays, by what they hold: cheap to import, since nothing is compiled for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]
