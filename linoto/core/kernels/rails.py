"""Guardrails: a ledger for every metric besides the reward, all by the same coin.

A round is explored only where every room is open, with the most control that one of them asks for. The books
of a metric are those of a reward (`control`, `ledger`): its own Params and its own run, and nothing else.
"""

from __future__ import annotations

from math import inf

from linoto.core.arrays import Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.control import (
    coin_odds,
    coin_room,
    enter_coin_play,
    enter_coin_reward,
    open_control,
    share_of_control,
)
from linoto.core.kernels.layout import CONTROL, Rails
from linoto.core.kernels.ledger import enter_play, enter_reward, open_ledger, room_by_rewards


@compiled
def rails_begin(rails: Records, books: Records) -> None:
    """Nothing explored; books hold `logged` and `logged_rewards` of the metric."""
    for j in range(books.size):
        open_ledger(rails[j], books[j], 1)
        open_control(rails[j], books[j])


@compiled
def rails_measure(rails: Records, books: Records, run: Records) -> None:
    """What every metric makes of the next round; a coin that is thrown stands, and with it each centre."""
    if run[0].coin_thrown == 1:
        return
    most = 0.0
    for j in range(books.size):
        p, b = rails[j], books[j]
        if p.gate == CONTROL:
            b.room = coin_room(p, b, -inf)
            b.entry_centre = b.centre
            most = max(most, share_of_control(p, b, 1.0))
        else:
            b.room = room_by_rewards(p, b)
            most = max(most, 0.0 if b.room > 0.0 else 1.0)
    run[0].rails_share = most


@compiled
def rails_commit(rails: Records, books: Records, run: Records, mixture: bool) -> None:
    """Enter the play on the desk of `run`, before it is counted there; every value of it is to come."""
    entry, share, odds = run[0].entry, run[0].entry_share, coin_odds(run[0])
    for j in range(books.size):
        p, b = rails[j], books[j]
        if p.gate == CONTROL:
            b.entry, b.entry_share = entry, share
            enter_coin_play(p, b, odds)
            b.rounds += 1
        else:
            b.rounds += 1
            enter_play(p, b, mixture, 1)


@compiled
def rails_observe(
    rails: Records,
    books: Records,
    j: int,
    entry: int,
    share: float,
    centre: float,
    value: float,
    mixture: bool,
) -> None:
    """Enter the value of metric j of an earlier play; the desk of a round whose coin is thrown stays."""
    p, b = rails[j], books[j]
    b.rewards += 1
    if p.gate != CONTROL:
        enter_reward(p, b, value, mixture, 1)
        return
    kept = b.entry_centre
    b.entry, b.entry_share, b.entry_centre = entry, share, centre
    enter_coin_reward(p, b, value)
    b.entry_centre = kept


@inner
def rails_value(rails: Rails, j: int, mean: float, draw: float, two_point: bool) -> float:
    """What metric j of a play is in a known world, turned so that more is better."""
    turn, low, width = rails.scales[0, j], rails.scales[1, j], rails.scales[2, j]
    value = mean + draw
    if two_point:
        value = low + width if draw * width < mean - low else low
    return float(turn * value)
