"""Rows that are nearly all the same are kept by what differs, and read back to the bit."""

from __future__ import annotations

from typing import Any

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


SAID = {"row": ["<f8", 3, LARGE]}
KEPT = {"row.places": np.array([5], np.uint32), "row.values": np.array([2.0, 0.0])}


@pytest.mark.parametrize(
    "said",
    [5, *({"row": form} for form in (None, [], ["<f8"], ["<f8", -3, LARGE], ["zz", LARGE], ["<f8", 10**13]))],
)
def test_a_header_that_is_broken_is_refused_before_memory_is_taken(said: Any) -> None:
    with pytest.raises(ValueError, match="header of a snapshot must"):
        filled(said, KEPT)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"row.places": np.array([3 * LARGE], np.uint32)}, "places of 'row' below 12288"),
        ({"row.places": np.array([-1])}, "places of 'row' below 12288"),
        ({"row.values": np.array([0.0])}, "2 values of 'row' of type <f8"),
        ({"row.values": np.array([2, 0])}, "2 values of 'row' of type <f8"),
    ],
)
def test_places_and_values_that_do_not_belong_together_are_refused(changed: Any, what: str) -> None:
    assert filled(SAID, KEPT)["row"].sum() == 2.0
    with pytest.raises(ValueError, match=f"a snapshot must hold {what}, got something else"):
        filled(SAID, KEPT | changed)
    gone = next(iter(changed))
    with pytest.raises(ValueError, match="got something else"):
        filled(SAID, {name: array for name, array in KEPT.items() if name != gone})
