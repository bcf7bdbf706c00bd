"""Algorithm 1: score the arms, keep the affordable ones, play the best of them or else the fallback."""

from __future__ import annotations

from math import inf
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.control import draw_practice, throw_coin
from linoto.core.kernels.estimate import copy, online
from linoto.core.kernels.explorers import best, cap_scores, score_arms
from linoto.core.kernels.gates import (
    is_certified,
    measure_room,
    measure_without_log,
    tell_online,
    vouched_room,
)
from linoto.core.kernels.layout import (
    AFFORDABLE,
    ALLOWED,
    BUDGET,
    CERTIFIED,
    FIRST_LCB,
    FIXED_ARM,
    FROM_EXPLORER,
    FROM_FIXED,
    FROM_LCB,
    FROM_MIXTURE,
    FROZEN_ARM,
    LCB,
    LOGGED,
    MIXED,
    MIXTURE,
    NORMALS,
    OPEN,
    PRACTICE_PULLS,
    ROOM,
    SCORE,
    THE_MODEL,
    UCB,
    Part,
    State,
)


@inner
def pessimistic(s: State, lcb: Floats) -> int:
    """L_t, eq. (3): the allowed arm with the best lower bound."""
    if s.run[0].restricted == 0:
        return best(lcb)
    arm = -1
    for a in range(lcb.size):
        if s.counts[ALLOWED, a] == 1 and (arm < 0 or lcb[a] > lcb[arm]):
            arm = a
    return arm


@compiled
def most_behind(logged: Ints, mixed: Ints, total: int, plays: int) -> int:
    """The logged arm furthest behind its share at the next mixture play; whole numbers, no drift."""
    arm, most = -1, 0
    for a in range(logged.size):
        behind = logged[a] * (plays + 1) - total * mixed[a]
        if logged[a] > 0 and (arm < 0 or behind > most):
            arm, most = a, behind
    return arm


@compiled
def rounding(logged: Ints, mixed: Ints, total: int) -> tuple[float, float]:
    """The most that mixture plays are behind the log's shares, over all arms and of one; `mixed` is scratch.

    The deficits return to zero after `total` = sum(logged) plays, so one period is all there is.
    """
    mixed[:] = 0
    worst = single = 0
    for plays in range(total):
        mixed[most_behind(logged, mixed, total, plays)] += 1
        behind = 0
        for a in range(logged.size):
            own = max(logged[a] * (plays + 1) - total * mixed[a], 0)
            behind, single = behind + own, max(single, own)
        worst = max(worst, behind)
    return worst / total, single / total


@inner
def safest(p: Any, s: State) -> int:
    """The arm that a fallback by lower bounds, or a fixed one, names; -1 where it is the mixture's turn."""
    if p.fallback == FIXED_ARM or p.fallback == MIXTURE:
        return int(p.fixed_arm) if p.fallback == FIXED_ARM else -1
    return pessimistic(s, s.arms[FIRST_LCB] if p.fallback == FROZEN_ARM else s.arms[LCB])


@inner
def fall_back(params: Records, s: State, arm: int, shift: Part, model: Part) -> None:
    """The safe arm, which is the `safest` unless that is not safe enough, and where it comes from.

    -1 where no safe arm is allowed.
    """
    p, r = params[0], s.run[0]
    r.fallback, r.fallback_source = arm, FROM_FIXED if p.fallback == FIXED_ARM else FROM_LCB
    bounded = p.gate == BUDGET and p.fallback != FIXED_ARM and p.fallback != MIXTURE
    if bounded and r.restricted == 1 and s.arms[LCB, r.fallback] < r.baseline:
        r.fallback = -1
    by_mixture = p.fallback == MIXTURE or p.fallback == CERTIFIED
    if model is not None and p.fallback == CERTIFIED:
        by_mixture = not is_certified(p, s, r.fallback, shift)
        if shift is not None and by_mixture:  # by the estimate with the log or by that without it
            tell_online(s)
            by_mixture = not is_certified(params[1], online(s), r.fallback, None)
    if by_mixture:
        pulls, total, plays = s.counts[LOGGED], r.logged, r.mixed
        if r.premium > 0.0:
            pulls, total, plays = s.counts[PRACTICE_PULLS], r.practised, r.turns
        r.fallback, r.fallback_source = most_behind(pulls, s.counts[MIXED], total, plays), FROM_MIXTURE
    if r.restricted == 1 and r.fallback >= 0 and s.counts[ALLOWED, r.fallback] == 0:
        r.fallback = -1


@inner
def decide_by_coin(
    params: Records,
    s: State,
    proposal: int,
    shift: Part,
    extras: Part,
    draws: Part,
    model: Part,
) -> int:
    """The explorer's favourite or practice's arm: where they differ and there is room, the coin decides."""
    p, r, score = params[0], s.run[0], s.arms[SCORE]
    if r.coin_thrown == 1:
        return int(r.arm)
    if proposal < 0:
        score_arms(p, s, score.size, shift, extras, draws, extras)
        if shift is not None and p.explorer == UCB:
            cap_scores(params, s)
        if r.restricted == 1:
            for a in range(score.size):
                if s.counts[ALLOWED, a] == 0:
                    score[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)
    return settle_by_coin(params, s, safest(p, s), shift, model)


@inner
def settle_by_coin(params: Records, s: State, arm: int, shift: Part, model: Part) -> int:
    """The proposal or practice's arm, of which `arm` is what `safest` says."""
    p, r = params[0], s.run[0]
    if p.fallback == MIXTURE:
        total = -1 if r.restricted == 1 else r.logged
        r.fallback = draw_practice(s.counts[LOGGED], s.counts[ALLOWED], total, r.practice_draw)
        r.fallback_source = FROM_MIXTURE
    else:
        fall_back(params, s, arm, shift, model)
    if r.fallback < 0:
        r.arm, r.explored, r.fresh = -1, 0, 1
        return -1
    vouched = vouched_room(p, s, shift, model)
    if shift is not None and p.loan_from == THE_MODEL:
        tell_online(s)
        vouched = max(vouched, vouched_room(params[1], online(s), None, model))
    throw_coin(p, r, vouched, s.counts[ALLOWED, r.proposal] == 0, 1.0)
    return int(r.arm)


@inner
def choose(p: Any, s: State, proposal: int) -> None:
    """The best affordable arm, or the proposal if it is affordable, or else the fallback."""
    r, score, room = s.run[0], s.arms[SCORE], s.arms[ROOM]
    if r.rails_share == 1.0:  # no arm is affordable where a guardrail is closed
        for a in range(room.size):
            room[a] = min(room[a], 0.0)
    r.arm = r.proposal if room[r.proposal] > 0.0 else -1  # B(t) > 0
    if r.arm < 0 and p.reach == AFFORDABLE and proposal < 0:
        for a in range(score.size):  # the first best score among the arms with room
            if room[a] > 0.0 and (r.arm < 0 or score[a] > score[r.arm]):
                r.arm = a
    r.explored = 1 if r.arm >= 0 else 0
    r.room = room[r.arm] if r.explored == 1 else room[r.proposal]
    r.source = FROM_EXPLORER
    if r.explored == 0:
        r.arm, r.source = r.fallback, r.fallback_source
    r.fresh = 1


@compiled
def decide(
    params: Records,
    s: State,
    proposal: int,
    coin: Part,
    ledger: Part,
    shift: Part,
    own: Part,
    extras: Part,
    budget: Part,
    draws: Part,
    model: Part,
) -> int:
    """Algorithm 1: score the arms, keep the affordable ones, play the best of them or else the fallback.

    `proposal` is somebody else's arm, or -1 to ask the explorer. Writes the whole decision into s.run.
    """
    p, r = params[0], s.run[0]
    if coin is not None:
        return decide_by_coin(params, s, proposal, shift, extras, draws, model)
    score, room = s.arms[SCORE], s.arms[ROOM]
    measure_room(p, s, ledger, shift, own, model, budget)
    if shift is not None and p.gate != OPEN:
        measure_without_log(params, s, ledger, own, model, budget)
    if proposal < 0:
        score_arms(p, s, score.size, shift, extras, draws, extras)
        if shift is not None and p.explorer == UCB:
            cap_scores(params, s)
    if r.restricted == 1:
        for a in range(score.size):
            if s.counts[ALLOWED, a] == 0:
                score[a] = room[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)  # U_t
    fall_back(params, s, safest(p, s), shift, model)  # L_t
    choose(p, s, proposal)
    return int(r.arm)


@compiled
def redraw(
    params: Records,
    s: State,
    normals: Floats,
    offered: int,
    plays: bool,
    found: Ints,
    shift: Part,
    draws: Part,
    chances: Part,
) -> None:
    """What a draw by each of these normals (n, d) would have proposed or, with `plays`, played: `found` (n,).

    The round is decided, with another draw. Nothing but scores depends on that: rooms and the fallback stand.
    """
    p, r, score = params[0], s.run[0], s.arms[SCORE]
    for j in range(found.size):
        copy(normals[j], s.vectors[NORMALS])
        score_arms(p, s, offered, shift, None, draws, chances)
        for a in range(score.size):
            if a >= offered or (r.restricted == 1 and s.counts[ALLOWED, a] == 0):
                score[a] = -inf
        r.proposal = found[j] = best(score)
        if plays:
            choose(p, s, -1)
            found[j] = r.arm
