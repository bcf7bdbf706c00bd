"""Rounds of a known world, all at once: the same bits as asking round by round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from linoto.core import coins, kernels
from linoto.core.arrays import Floats
from linoto.core.drivers.order import Order
from linoto.core.drivers.round_states import normalised
from linoto.core.playing import GivenRounds, Metric, Rounds, check_rewards
from linoto.core.running import Running
from linoto.core.warm_up import warm_up_context_loop


class PlaysRounds(Protocol):
    """What of a driver they change."""

    running: Running
    brought: Any
    standing: Any

    @property
    def order(self) -> Order | None: ...

    @property
    def d(self) -> int: ...

    @property
    def coin(self) -> kernels.Part: ...

    @property
    def shift(self) -> kernels.Part: ...

    @property
    def why_it_stands(self) -> str: ...

    @property
    def tells_explorer(self) -> bool: ...

    def coin_rows(self, rounds: int) -> Floats: ...

    def random_rows(self, rounds: int) -> Floats: ...


def check_given(driver: PlaysRounds, given: GivenRounds, draws: Floats, bernoulli: bool) -> None:
    """Refuse to play while a round is decided already, and rewards beyond their range."""
    coins.check_stays_safe(not driver.running.stays_safe)
    if driver.standing is not None:
        raise ValueError(f"rounds must begin after a commit, got a round in which {driver.why_it_stands}")
    if bernoulli:
        check_rewards(driver.running.params, 0.0, 1.0)
    elif given.means.size and driver.running.params[0]["bounded"]:
        rewards = given.means + np.repeat(draws, np.diff(given.ends, prepend=0))
        check_rewards(driver.running.params, float(rewards.min()), float(rewards.max()))


def play_compiled(
    driver: PlaysRounds, given: GivenRounds, draws: Floats, bernoulli: bool, metrics: tuple[Metric, ...]
) -> Rounds:
    """What is played in rounds that bring their arms: the same bits as asking round by round."""
    warm_up_context_loop(driver.coin, driver.shift)
    running, ends = driver.running, given.ends
    running.tickets.offered.clear()
    driver.brought = None
    most = int(np.diff(ends, prepend=0).max())
    running.state = kernels.with_arms(running.state, np.zeros((driver.d, most)))
    coin_rows, randoms = driver.coin_rows(ends.size), driver.random_rows(ends.size)
    played = Rounds(*np.empty((3, ends.size), dtype=np.int64))
    actions = given.actions if driver.order is None else driver.order.inside(given.actions)
    table = ends, actions, normalised(ends, given.weights), given.means, draws, bernoulli
    scratch = np.empty((2, driver.d * most))
    with rails_in(driver, metrics, given, most) as rails:
        kernels.context_play(
            *(running.params, running.state, *table, randoms, coin_rows, scratch, *played),
            *(rails, driver.coin, driver.shift),
        )
    return played


@contextmanager
def rails_in(
    driver: PlaysRounds, metrics: tuple[Metric, ...], given: GivenRounds, most: int
) -> Iterator[kernels.Rails | None]:
    """The guardrails of a known world as the kernels play them, in rounds of at `most` so many arms."""
    if driver.running.rails is None:
        yield None
        return
    means = np.stack([metric.means for metric in metrics], axis=1)
    draws = np.stack([metric.draws for metric in metrics], axis=1)
    rows = np.array(given.actions, order="C") if driver.tells_explorer else np.empty((0, 0))
    with driver.running.rails.in_world(means, draws, rows, np.empty(0), most) as found:
        yield found
