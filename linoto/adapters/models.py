"""Models of scikit-learn as explorers: what they would try goes through our gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.explorers import View

try:
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter
except ImportError:
    raise ImportError('scikit-learn must be installed: pip install "linoto[adapters]"') from None


@dataclass(frozen=True)
class ModelExplorer:
    """A scikit-learn regressor as an explorer: it says what to try, the gate says whether we can afford it.

    For fixed arms it is fitted before every decision, to the mean rewards of the arms that have some,
    weighted by how many these are where the model takes weights. A model that is `fitted` already is only
    asked: this works in contexts too, where the rows of `view.actions` are features of this round's arms.
    """

    model: Any
    fitted: bool = False

    @property
    def deterministic(self) -> bool:
        """Whether the model draws no random numbers."""
        return self.fitted or "random_state" not in self.model.get_params()

    def score(self, view: View) -> Floats:
        """(k,) what the model expects of each arm; without any reward, how little is known of it."""
        if self.fitted:
            return np.asarray(self.model.predict(view.actions), dtype=np.float64)
        if np.isnan(view.counts).any():
            raise ValueError("model must be fitted where rounds bring their own arms, got fitted=False")
        seen = view.counts > 0
        if not seen.any():
            return view.width
        model, counts = clone(self.model), view.counts[seen]
        if not self.deterministic:
            model.set_params(random_state=int(view.rng.integers(2**31)))  # the same until the next commit
        weights = {"sample_weight": counts} if has_fit_parameter(model, "sample_weight") else {}
        model.fit(view.actions[seen], view.reward_sums[seen] / counts, **weights)
        return np.asarray(model.predict(view.actions), dtype=np.float64)
