"""Every arm at once, in one pass over the features, where lists do not pay."""

from __future__ import annotations

from math import inf
from typing import Any

from linoto.core.kernels.compiling import inner
from linoto.core.kernels.deciding import pessimistic
from linoto.core.kernels.estimate import combine_part
from linoto.core.kernels.layout import (
    ALLOWED,
    BLOCK,
    LCB,
    LUCK,
    MEAN,
    SCORE,
    THOMPSON,
    VARIANCE,
    WIDTH,
    Lists,
    State,
)
from linoto.core.kernels.lists import (
    DRAW,
    catch_up_block,
    usual_bonus,
    watches,
    write_back,
)
from linoto.core.kernels.sampling import lift_of, spread_of, thompson_spread


@inner
def is_whole(h: Lists) -> bool:
    """Whether every decision looks at every arm: there is no long list, and only what must stay is listed."""
    return bool(h.book[0].long == 0)


@inner
def look_at_all(p: Any, s: State, h: Lists) -> None:
    """Let every arm catch up and have its score, in one pass over the features; find the best lower bound.

    A plain round takes one pass for what a reward does, one for a draw, and one for the room of every arm.
    """
    b, k, score, allowed = h.book[0], s.actions.shape[1], s.arms[SCORE], s.counts[ALLOWED]
    write_back(s, h)
    for begin in range(0, k, BLOCK):
        end = min(begin + BLOCK, k)
        catch_up_block(p, s, h, begin, end)
        score_block(p, s, h, begin, end)
        for a in range(begin, end):
            h.stamps[a] = 0
    b.steps = b.refreshes = 0
    b.work += 1.5 * k
    if s.run[0].restricted == 1:
        for a in range(k):
            score[a] = score[a] if allowed[a] == 1 else -inf
    if watches(p):
        b.leader = pessimistic(s, s.arms[LCB])


@inner
def score_block(p: Any, s: State, h: Lists, begin: int, end: int) -> None:
    """What the explorer makes of the arms from `begin` to `end`, which are up to date."""
    mean, score, draw = s.arms[MEAN], s.arms[SCORE], h.scratch[DRAW]
    if p.explorer == THOMPSON:
        spread, variance = thompson_spread(p, s), s.arms[VARIANCE]
        combine_part(s.actions, draw, 0, draw.size, score, begin, end)
        for a in range(begin, end):
            score[a] = mean[a] + spread_of(p, spread, variance[a], h.lengths[a]) * score[a]
    elif p.explorer == LUCK:
        spread, variance, width = thompson_spread(p, s), s.arms[VARIANCE], s.arms[WIDTH]
        for a in range(begin, end):
            score[a] = mean[a] + lift_of(p, s, spread, variance[a], h.lengths[a], width[a])
    else:
        bonus, width = usual_bonus(p, s), s.arms[WIDTH]
        for a in range(begin, end):
            score[a] = mean[a] + bonus * width[a]
