"""What is known of some arms that stay the same, without looking at all others."""

from __future__ import annotations

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.drivers.driver import bounds_of, of_radius
from linoto.core.running import Running


def interval_of(running: Running, arm: int) -> tuple[float, float]:
    """The best lower bound on the mean reward of an arm so far, and the upper bound of now."""
    held = running.held
    read = held.arms.item
    if running.lists is not None:
        running.lists.meet(running.params, held, arm)
    if kernels.is_shifted(held):
        alone = held._replace(arms=held.arms[:, [arm]])
        return read(kernels.LCB, arm), bounds_of(alone)[1].item()
    radius, lost = of_radius(held.run)
    upper = read(kernels.MEAN, arm) + (radius + lost) * read(kernels.WIDTH, arm)
    return read(kernels.LCB, arm), upper


def estimates_of(running: Running, arms: Ints) -> Floats:
    """(3, n) of these arms: the estimate of each mean reward, and both ends of its interval of now.

    Where that by rewards since the log is apart from the other, the log has moved further than was said: the
    former stands alone. Of a few among many, no other arm is looked at.
    """
    few = arms.size < running.held.arms.shape[1]
    if few and running.lists is not None:
        for arm in arms.tolist():
            running.lists.meet(running.params, running.held, arm)
    state = running.held if few else running.state
    some = state._replace(arms=state.arms[:, arms])
    found = np.array([some.arms[kernels.MEAN], *bounds_of(some)])
    if kernels.is_shifted(some):
        online = kernels.online_part(some)
        alone = np.array([online.arms[kernels.MEAN], *bounds_of(online)])
        found = np.where(found[1] > found[2], alone, found)
        found[0] = np.clip(found[0], found[1], found[2])
    return found


def own_rewards_of(running: Running, arms: Ints) -> Floats | None:
    """(3, n) of these arms: rewards, in the log and here, their sums, and how far lost ones may be off.

    None where an arm is not known by its own rewards alone: it shares features, or some are forgotten.
    """
    if not running.held.run[0]["one_hot"] or running.params[0]["memory"] > 0:
        return None
    return np.array(running.state.arms[[kernels.SEEN, kernels.SUMS, kernels.LOST]][:, arms])
