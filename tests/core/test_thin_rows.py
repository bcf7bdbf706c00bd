"""Rows that are nearly all the same are kept by what differs, and read back to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import linoto
from linoto.core.thin_rows import LARGE, filled, thinned

K, D = 5000, 4


@pytest.mark.parametrize("share", [0.0, 0.01, 0.24, 0.26, 1.0])
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_arrays_come_back_to_the_bit(share: float, kind: type) -> None:
    rng = np.random.default_rng(7)
    for usual in (0, 1, -3):
        array = np.full((3, LARGE), usual, kind)
        places = rng.random(array.shape) < share
        array[places] = rng.integers(1, 2**40, size=int(places.sum()))
        if kind is np.float64:
            array[0, :3] = -0.0, np.nan, np.inf
        said, kept = thinned({"row": array, "small": array[:, :5]})
        again = filled(said, kept)
        assert again["row"].tobytes() == array.tobytes() and again["row"].dtype == array.dtype
        assert again.keys() == {"row", "small"} and again["row"].flags.writeable
        assert bool(said) == (share < 0.25)
        assert sum(part.nbytes for part in kept.values()) <= 1.01 * array.nbytes + 400


def test_a_checkpoint_of_many_arms_holds_what_was_learnt_of_them() -> None:
    features = np.random.default_rng(1).standard_normal((K, D)).astype(np.float32)
    pulls = np.zeros(K)
    pulls[:100] = 5
    log = linoto.Offline(pulls=pulls, reward_sums=pulls * features[:, 0])
    agent = linoto.LinUCB(confidence=linoto.Confidence(noise=0.3)).start(features, log)
    for n in range(30):
        agent.update(agent.decide(), 0.1 * n)
    kept = agent.checkpoint()
    assert len(kept) < 90 * K  # means, variances, widths, bounds twice, and two rows of lists: 56 of them
    again = linoto.restore(kept, features)
    assert again.snapshot() == agent.snapshot()
    assert [again.decide().arm, again.lcb.tobytes()] == [agent.decide().arm, agent.lcb.tobytes()]
