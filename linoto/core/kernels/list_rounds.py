"""Rounds by lists of arms: the explorer's favourite, what the gate makes of it, a play and its reward.

The same answers as `deciding` and `learning` have, from the arms of the short list and, where these are not
enough, from bounds on what each other arm scores: the best of those repeat what they have missed.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.control import enter_coin_reward
from linoto.core.kernels.deciding import fall_back, pessimistic, settle_by_coin
from linoto.core.kernels.estimate import (
    combine_part,
    copy,
    dot,
    is_worn,
    learn,
    noise_radius,
    project_arm,
    renew_estimate,
    solve,
    update_factor,
)
from linoto.core.kernels.explorers import best
from linoto.core.kernels.gates import (
    budget_due,
    excess_owed,
    excess_room,
    excess_terms,
    lower_bound,
)
from linoto.core.kernels.layout import (
    AFFORDABLE,
    AGGREGATE,
    ALLOWED,
    BEYOND_CACHE,
    BLOCK,
    BUDGET,
    CROSS,
    EXACT,
    FACTOR,
    FIRST_LCB,
    FIXED_ARM,
    FROM_CONTROL,
    FROM_EXPLORER,
    FROM_MIXTURE,
    FROZEN_ARM,
    HALF,
    HISTORY_FULL,
    LCB,
    LISTS_END,
    LISTS_FULL,
    LISTS_GO_ON,
    LONG,
    LOST,
    LUCK,
    MAX,
    MEAN,
    MIXTURE,
    MOST_TRIED,
    NORMAL_DRAWS,
    NORMALS,
    ONE_DRAW,
    OPEN,
    PENDING,
    PENDING_MIXTURE,
    PERMANENT,
    PLAYED,
    PLAYS,
    ROOM,
    ROOT_T,
    SCORE,
    SEEN,
    SHORT,
    STEP,
    SUMS,
    THETA,
    THOMPSON,
    TOLERANCE,
    VARIANCE,
    WIDTH,
    WORK,
    Lists,
    Part,
    State,
)
from linoto.core.kernels.learning import commit
from linoto.core.kernels.ledger import enter_reward, room_by_rewards
from linoto.core.kernels.lists import (
    DRAW,
    EXCESS_IMAGE,
    F_MEAN,
    F_ROW,
    F_WIDTH,
    IMAGE,
    S_CROSS,
    S_LCB,
    S_MEAN,
    S_SCORE,
    S_VARIANCE,
    S_WIDTH,
    catch_up,
    choose_anew,
    is_drawn,
    lcb_of,
    mean_error,
    numbers_of,
    outside,
    outside_below,
    raised,
    usual_bonus,
    variance_error,
    watches,
)
from linoto.core.kernels.sampling import lift_of, spread_of, square_lengths, thompson_spread, unwhiten
from linoto.core.kernels.whole_rounds import is_whole, look_at_all

Terms = tuple[float, float, float, float]  # of `excess_terms`


# -- the best arm


@inner
def top_of(s: State, h: Lists, row: int) -> int:
    """The place of the largest value in the short list, of equal ones that of the smallest arm; -1: none."""
    values, arms, top, some = h.short[row], h.members[SHORT], -1, s.run[0].restricted == 1
    for j in range(h.book[0].short):
        if some and s.counts[ALLOWED, arms[j]] == 0:
            continue
        if top < 0 or values[j] > values[top] or (values[j] == values[top] and arms[j] < arms[top]):
            top = j
    return top


@inner
def score_short(p: Any, s: State, h: Lists) -> None:
    """What the explorer makes of the arms in the short list."""
    n, mean, score, bonus = h.book[0].short, h.short[S_MEAN], h.short[S_SCORE], usual_bonus(p, s)
    spread, draw = thompson_spread(p, s), h.scratch[DRAW]
    if p.explorer != THOMPSON:
        for j in range(n):
            length, width = h.lengths[h.members[SHORT, j]], h.short[S_WIDTH, j]
            if p.explorer == LUCK:
                score[j] = mean[j] + lift_of(p, s, spread, h.short[S_VARIANCE, j], length, width)
            else:
                score[j] = mean[j] + bonus * width
        return
    combine_part(h.short_rows, draw, 0, draw.size, score, 0, n)
    for j in range(n):
        length = h.lengths[h.members[SHORT, j]]
        score[j] = mean[j] + spread_of(p, spread, h.short[S_VARIANCE, j], length) * score[j]


@inner
def score_of(p: Any, s: State, h: Lists, arm: int) -> float:
    """The same of any arm."""
    mean, variance, width = numbers_of(p, s, h, arm)
    spread, length = thompson_spread(p, s), h.lengths[arm]
    if p.explorer == LUCK:
        return float(mean + lift_of(p, s, spread, variance, length, width))
    if p.explorer != THOMPSON:
        return float(mean + usual_bonus(p, s) * width)
    spread = spread_of(p, spread, variance, length)
    return float(mean + spread * project_arm(s.actions, 0, arm, h.scratch[DRAW]))


@inner
def doubted(p: Any, s: State, h: Lists, value: float) -> int:
    """The outermost list outside of which an arm may score as much; -1: none."""
    for level in range(2):
        if not value > outside(p, s, h, level):
            return level
    return -1


@inner
def bounded_top(p: Any, s: State, h: Lists) -> int:
    """The arm with the best score of all; lists are chosen anew until that is certain. -1: they cannot be."""
    for _ in range(16):
        score_short(p, s, h)
        top = top_of(s, h, S_SCORE)
        if top < 0:
            return -1
        level = doubted(p, s, h, h.short[S_SCORE, top])
        if level < 0:
            return int(h.members[SHORT, top])
        if not choose_anew(p, s, h, level):
            return -1
    return -1


@inner
def drawn_top(p: Any, s: State, h: Lists) -> int:
    """The same where the score is drawn: another draw is no reason for other lists, many of them are.

    All arms outside of a list that is in doubt are looked at.
    """
    b, now, cost = h.book[0], s.run[0].rewards + 1, 0.5 * s.vectors.shape[1] + 8.0
    for _ in range(3):
        score_short(p, s, h)
        top = top_of(s, h, S_SCORE)
        value, arm = (h.short[S_SCORE, top], h.members[SHORT, top]) if top >= 0 else (-inf, -1)
        level = doubted(p, s, h, value)
        if level < 0:
            return int(arm)
        kept = now - b.chosen[level]
        if kept == 0 or b.scans[level] < cost * (b.patience if level == 0 else 1):
            break
        if level == 0:
            often = 4 * b.scans[0] > kept
            b.patience = 2 * b.patience if often else max(b.patience // 2, 1)
            if often and 2 * b.long_size <= h.fresh.shape[1]:
                b.long_size *= 2
        if not choose_anew(p, s, h, level):
            return -1
    b.scans[level] += 1
    return scan(p, s, h, level, arm, value, (0.0, 0.0, 0.0, 0.0), False)


@inner
def scan(p: Any, s: State, h: Lists, level: int, arm: int, value: float, terms: Terms, gated: bool) -> int:
    """The best of `arm` (-1: none), which scores `value`, and all arms outside of a list, in O(d) each.

    `gated`: only those that the gate affords count. -2 where too many would have to be looked at singly.
    """
    b, n, score = h.book[0], s.arms.shape[1], s.arms[SCORE]
    if level == 1:
        n, score = b.long, h.fresh[F_MEAN, : b.long]
    for begin in range(0, n, BLOCK):
        bound_scores(p, s, h, level, begin, min(begin + BLOCK, n), terms, gated)
    b.work += (1.4 if gated else 0.7) * n
    error = 2.0 * mean_error(s, h, level, max(thompson_spread(p, s), p.noise))
    for _ in range(MOST_TRIED):
        j = best(score)
        if score[j] == -inf or score[j] + error < value:
            return arm
        other = j if level == 0 else h.members[LONG, j]
        score[j] = -inf
        exact = score_of(p, s, h, other)
        if exact < value or (gated and not excess_of(p, s, h, other, terms) > 0.0):
            continue
        if exact > value or arm < 0 or other < arm:
            arm, value = other, exact
    return -2


@inner
def bound_scores(
    p: Any, s: State, h: Lists, level: int, begin: int, end: int, terms: Terms, gated: bool
) -> None:
    """At least what arms can score that are not in the short list; -inf where the gate affords none of it."""
    at, of = (level, begin, end), (terms, gated)
    if level == 1:
        numbers = h.fresh[F_MEAN], h.fresh[F_WIDTH], h.fresh[F_ROW]
        bound_rows(p, s, h, h.long_rows, numbers, at, of)
    else:  # another kind of array, where features are float32
        bound_rows(p, s, h, s.actions, (s.arms[SCORE], s.arms[ROOM], s.arms[CROSS]), at, of)


@inner
def bound_rows(
    p: Any,
    s: State,
    h: Lists,
    rows: Floats,  # (d, n) the features of these arms
    numbers: tuple[Floats, Floats, Floats],  # (n,) out: the bound on the score; scratch
    at: tuple[int, int, int],  # level, begin, end
    of: tuple[Terms, bool],
) -> None:
    """The same from the features of the level."""
    (score, room, row), (level, begin, end), (terms, gated) = numbers, at, of
    r, b, d = s.run[0], h.book[0], s.vectors.shape[1]
    margin, grown = max(variance_error(s), b.margin), b.spreads[0] * (1.0 + 1e-9)
    combine_part(rows, s.vectors[THETA], 0, d, score, begin, end)
    if gated:
        slack = 2.0 * mean_error(s, h, level, 0.0) + 1e-9 * (abs(terms[0]) + r.gate_radius * sqrt(terms[1]))
        combine_part(rows, h.scratch[EXCESS_IMAGE], 0, d, row, begin, end)
        for j in range(begin, end):
            width = h.widths[j if level == 0 else h.members[LONG, j]]
            least = max((width * width - margin) / grown - margin, 0.0)
            room[j] = excess_room(p, r, terms, (score[j], least, sqrt(least)), row[j]) + slack
    if p.explorer == THOMPSON:
        spread = thompson_spread(p, s)
        combine_part(rows, h.scratch[DRAW], 0, d, row, begin, end)
        for j in range(begin, end):
            arm = j if level == 0 else h.members[LONG, j]
            wide = h.widths[arm] * h.widths[arm] + margin
            score[j] += (spread_of(p, spread, wide, h.lengths[arm]) if row[j] > 0.0 else spread) * row[j]
    elif p.explorer == LUCK:
        spread = thompson_spread(p, s)
        for j in range(begin, end):
            arm = j if level == 0 else h.members[LONG, j]
            wide = h.widths[arm] * h.widths[arm] + margin
            score[j] += lift_of(p, s, spread, wide, h.lengths[arm], sqrt(wide))
    else:
        bonus = usual_bonus(p, s)
        for j in range(begin, end):
            width = h.widths[j if level == 0 else h.members[LONG, j]]
            score[j] += bonus * sqrt(width * width + margin)
    for j in range(begin, end):
        arm = j if level == 0 else h.members[LONG, j]
        barred = r.restricted == 1 and s.counts[ALLOWED, arm] == 0
        if barred or h.places[arm] > 0 or (gated and room[j] <= 0.0):
            score[j] = -inf


@inner
def leader_below(p: Any, s: State, h: Lists) -> int:
    """The arm with the best lower bound of all; lists are chosen anew until that is certain. -1: they cannot
    be."""
    for _ in range(16):
        top = top_of(s, h, S_LCB)
        if top < 0:
            return -1
        level = -1
        for outer in range(2):
            if level < 0 and not h.short[S_LCB, top] > outside_below(p, s, h, outer):
                level = outer
        if level < 0:
            return int(h.members[SHORT, top])
        if not choose_anew(p, s, h, level):
            return -1
    return -1


# -- every arm, where lists do not pay


@inner
def affordable_of_all(p: Any, s: State, h: Lists, terms: Terms) -> int:
    """The arm with the best score of those that the model affords; -1: none. `look_at_all` has scored them.

    Where no arm of a block scores more than the best so far, its rooms are not asked for.
    """
    r, score, cross, image = s.run[0], s.arms[SCORE], s.arms[CROSS], h.scratch[EXCESS_IMAGE]
    arm, value = -1, -inf
    for begin in range(0, score.size, BLOCK):
        part = score[begin : begin + BLOCK]
        if not part[best(part)] > value:
            continue
        end = begin + part.size
        combine_part(s.actions, image, 0, image.size, cross, begin, end)
        for a in range(begin, end):
            now = s.arms[MEAN, a], s.arms[VARIANCE, a], s.arms[WIDTH, a]
            if score[a] > value and excess_room(p, r, terms, now, cross[a]) > 0.0:
                arm, value = a, score[a]
    return arm


# -- arms that are never left out


@compiled
def list_begin(params: Records, s: State, h: Lists, whole: bool) -> int:
    """The first lists, in fresh memory, of a state in which every arm is up to date.

    `whole`: every decision looks at every arm. LISTS_END where there cannot be any.
    """
    p, b = params[0], h.book[0]
    b.steps = b.refreshes = b.short = b.long = b.chosen_long = b.chosen_short = 0
    b.work, b.patience = 0.0, 1
    b.begun = s.run[0].rewards
    b.chosen[0] = b.chosen[1] = -1
    b.permanents = 0
    if is_drawn(p):  # nobody else reads them
        square_lengths(s, h.lengths)
    for a in range(s.arms.shape[1]):
        if s.arms[LOST, a] != 0.0 or (p.gate == BUDGET and s.arms[PLAYS, a] != 0.0):
            if b.permanents == h.short.shape[1]:
                return LISTS_END
            h.permanent[a], h.members[PERMANENT, b.permanents] = 1, a
            b.permanents += 1
    b.leader = pessimistic(s, s.arms[LCB])
    b.frozen = pessimistic(s, s.arms[FIRST_LCB]) if p.fallback == FROZEN_ARM else -1
    if whole:
        for i in range(b.permanents):
            enter(s, h, h.members[PERMANENT, i])
        return LISTS_GO_ON
    if not choose_anew(p, s, h, 0):
        return LISTS_END
    return hold_leader(p, s, h)


@inner
def hold_leader(p: Any, s: State, h: Lists) -> int:
    """Keep the arm with the best lower bound in the lists, where a fallback may ask for it."""
    if watches(p):
        leader = leader_below(p, s, h)
        if leader < 0:
            return LISTS_END
        h.book[0].leader = leader
    return LISTS_GO_ON


@inner
def enter(s: State, h: Lists, arm: int) -> None:
    """Put an arm that is up to date at the end of the short list, and of the long one if it is not there."""
    b = h.book[0]
    i = 0
    while i < b.long and h.members[LONG, i] != arm:
        i += 1
    if i == b.long and not is_whole(h):
        h.members[LONG, i] = arm
        for row in range(h.long_rows.shape[0]):
            h.long_rows[row, i] = s.actions[row, arm]
        b.long += 1
    j = b.short
    h.places[arm], h.members[SHORT, j] = j + 1, arm
    h.short[S_MEAN, j], h.short[S_VARIANCE, j] = s.arms[MEAN, arm], s.arms[VARIANCE, arm]
    h.short[S_WIDTH, j], h.short[S_LCB, j] = sqrt(s.arms[VARIANCE, arm]), s.arms[LCB, arm]
    for row in range(h.short_rows.shape[0]):
        h.short_rows[row, j] = s.actions[row, arm]
    b.short += 1


@inner
def keep_for_good(p: Any, s: State, h: Lists, arm: int) -> bool:
    """Never leave this arm out again: it was played, or lost a reward. False where the lists are full."""
    b, members = h.book[0], h.members[PERMANENT]
    catch_up(p, s, h, arm)
    if h.permanent[arm] == 1:
        return True
    full = b.short == h.short.shape[1] or b.long == h.fresh.shape[1]
    if b.permanents == h.short.shape[1] or (h.places[arm] == 0 and full):
        return False
    if h.places[arm] == 0:
        enter(s, h, arm)
    i = b.permanents
    while i > 0 and members[i - 1] > arm:
        members[i] = members[i - 1]
        i -= 1
    members[i], h.permanent[arm] = arm, 1
    b.permanents += 1
    return True


@inner
def sum_over_permanent(s: State, h: Lists, row: int, by: int) -> float:
    """dot(s.arms[row], a row of the short list), with its bits: 0 adds nothing to any of its four sums."""
    s0 = s1 = s2 = s3 = 0.0
    weights, values = s.arms[row], h.short[by]
    fours = weights.size - weights.size % 4
    for i in range(h.book[0].permanents):
        arm = h.members[PERMANENT, i]
        part, lane = weights[arm] * values[h.places[arm] - 1], arm % 4 if arm < fours else 0
        if lane == 0:
            s0 += part
        elif lane == 1:
            s1 += part
        elif lane == 2:
            s2 += part
        else:
            s3 += part
    return (s0 + s1) + (s2 + s3)


# -- what the gate makes of an arm


@inner
def budget_room(p: Any, s: State, h: Lists, arm: int) -> float:
    """B(t) of eq. (5) for one arm in the place of U_t, as `measure_budget` has it for all."""
    r, past = s.run[0], -inf
    if r.logged == 0:
        return inf
    mean, variance, _ = numbers_of(p, s, h, arm)
    due = budget_due(p, r)
    if p.form != AGGREGATE:
        past = sum_over_permanent(s, h, PLAYS, S_LCB)
    if p.form != EXACT:
        past = max(past, lower_bound(p, s, s.vectors[PLAYED], None))
    room = past + lcb_of(p, s, h, arm) - due
    if p.form == MAX:
        total, image = s.vectors[PLAYED], s.vectors[STEP]
        solve(s, total, image)
        cross = project_arm(s.actions, 0, arm, image)
        base, square = dot(s.vectors[THETA], total), dot(total, image)
        bonus = r.radius + r.lost_radius
        room = max(room, base + mean - bonus * sqrt(max(square + 2.0 * cross + variance, 0.0)) - due)
    return float(room)


@inner
def excess_of(p: Any, s: State, h: Lists, arm: int, terms: Terms) -> float:
    """The room of one arm by the model, as `measure_excess` has it for all."""
    cross = project_arm(s.actions, 0, arm, h.scratch[EXCESS_IMAGE])
    return excess_room(p, s.run[0], terms, numbers_of(p, s, h, arm), cross)


@inner
def affordable_top(p: Any, s: State, h: Lists, terms: Terms) -> int:
    """The arm with the best score of those that the model affords; -1: none, -2: too many are in doubt."""
    b, r, image, cross = h.book[0], s.run[0], h.scratch[EXCESS_IMAGE], h.short[S_CROSS]
    arm, value = -1, -inf
    combine_part(h.short_rows, image, 0, image.size, cross, 0, b.short)
    for j in range(b.short):
        other, score = h.members[SHORT, j], h.short[S_SCORE, j]
        now = h.short[S_MEAN, j], h.short[S_VARIANCE, j], h.short[S_WIDTH, j]
        barred = r.restricted == 1 and s.counts[ALLOWED, other] == 0
        if barred or not excess_room(p, r, terms, now, cross[j]) > 0.0:
            continue
        if score > value or (score == value and other < arm):
            arm, value = other, score
    level = doubted(p, s, h, value)
    return int(arm) if level < 0 else scan(p, s, h, level, arm, value, terms, True)


@inner
def choose_in_lists(p: Any, s: State, h: Lists, asked: bool) -> bool:
    """The proposal if it is affordable, the best affordable arm, or else the fallback, as `choose` has it.

    False where the lists do not say.
    """
    r = s.run[0]
    r.arm, r.room = r.proposal, inf if p.gate == OPEN else -inf
    if p.gate == BUDGET:
        r.room = budget_room(p, s, h, r.proposal)
    elif p.gate == TOLERANCE:
        by_model, terms = p.by_model == 1 and r.vetoed == 0, (0.0, 0.0, 0.0, 0.0)
        if by_model:
            owed, besides = excess_owed(p, r)
            terms = excess_terms(p, s, owed, besides)
            copy(s.vectors[STEP], h.scratch[EXCESS_IMAGE])
            r.room = excess_of(p, s, h, r.proposal, terms)
        if p.by_rewards == 1:
            paid = room_by_rewards(p, r)
            r.room = paid if paid > r.room else r.room
        if by_model and asked and p.reach == AFFORDABLE and not r.room > 0.0:
            arm = affordable_of_all(p, s, h, terms) if is_whole(h) else affordable_top(p, s, h, terms)
            if arm == -2:
                return False
            if arm >= 0:
                r.arm, r.room = arm, excess_of(p, s, h, arm, terms)
    r.explored, r.source = 1, FROM_EXPLORER
    if not r.room > 0.0:
        r.arm, r.explored, r.source = r.fallback, 0, r.fallback_source
    r.fresh = 1
    return True


# -- rounds


@inner
def safest_in_lists(p: Any, s: State, h: Lists) -> int:
    """What `safest` says, with its lower bound up to date."""
    if p.fallback == FIXED_ARM or p.fallback == MIXTURE:
        return int(p.fixed_arm) if p.fallback == FIXED_ARM else -1
    arm = int(h.book[0].frozen if p.fallback == FROZEN_ARM else h.book[0].leader)
    s.arms[LCB, arm] = lcb_of(p, s, h, arm)
    return arm


@compiled
def list_decide(params: Records, s: State, h: Lists, proposal: int, coin: Part) -> int:
    """Algorithm 1 as `decide` does it; -1 where the lists do not say."""
    p, r = params[0], s.run[0]
    if coin is not None and r.coin_thrown == 1:
        return int(r.arm)
    r.proposal = proposal
    if p.explorer == THOMPSON:
        unwhiten(s, s.square[FACTOR], s.vectors[NORMALS], h.scratch[DRAW], None)
    if is_whole(h):
        look_at_all(p, s, h)
        r.proposal = best(s.arms[SCORE]) if proposal < 0 else proposal
    elif proposal < 0:
        r.proposal = drawn_top(p, s, h) if is_drawn(p) else bounded_top(p, s, h)
        if r.proposal < 0:
            return -1
    arm = safest_in_lists(p, s, h)
    if coin is not None:
        return settle_by_coin(params, s, arm, None, 1)
    fall_back(params, s, arm, None, 1)
    return int(r.arm) if choose_in_lists(p, s, h, proposal < 0) else -1


@compiled
def list_commit(
    params: Records, s: State, h: Lists, arm: int, mixture: bool, coin: Part, ledger: Part
) -> int:
    """Count a play, as `commit` does; a budget sums over played arms, which stay in the lists."""
    commit(params, s, arm, mixture, coin, ledger)
    if params[0].gate != BUDGET:
        return LISTS_GO_ON
    return LISTS_GO_ON if keep_for_good(params[0], s, h, arm) else LISTS_END


@inner
def update_short(s: State, h: Lists, gain: float, shrink: float) -> None:
    """Mean and variance of the short list after a reward, and of those arms that it computes anew."""
    b, d, anew = h.book[0], s.vectors.shape[1], h.refreshed[h.book[0].steps]
    mean, variance, width, cross = h.short[S_MEAN], h.short[S_VARIANCE], h.short[S_WIDTH], h.short[S_CROSS]
    combine_part(h.short_rows, s.vectors[STEP], 0, d, cross, 0, b.short)
    for j in range(b.short):
        mean[j] += gain * cross[j]
        left = variance[j] - shrink * cross[j] * cross[j]
        variance[j] = left if left > 0.0 else 0.0
    if anew >= 0:
        for j in range(b.short):
            if h.renewed[anew, 0] <= h.members[SHORT, j] < h.renewed[anew, 1]:
                mean[j] = project_arm(h.short_rows, 0, j, s.vectors[THETA])
                variance[j] = 0.0
                for i in range(d):
                    row = project_arm(h.short_rows[: i + 1], 0, j, s.square[ROOT_T, i])
                    variance[j] += row * row
    for j in range(b.short):
        width[j] = sqrt(variance[j])
    b.work += b.short


@inner
def recall(s: State, h: Lists, arm: int) -> None:
    """The rewards of an arm so far into its rows, where these rest."""
    low, high = 0, h.known.size
    while low < high:
        middle = (low + high) // 2
        if h.known[middle] < arm:
            low = middle + 1
        else:
            high = middle
    if low < h.known.size and h.known[low] == arm and s.arms[SEEN, arm] == 0.0:
        s.arms[SEEN, arm], s.arms[SUMS, arm] = h.known_sums[0, low], h.known_sums[1, low]


@compiled
def list_observe(
    params: Records,
    s: State,
    h: Lists,
    arm: int,
    mixture: bool,
    reward: float,
    error: float,
    played: bool,
    coin: Part,
    ledger: Part,
) -> int:
    """A reward, as `observe` counts it, but for arms outside of the short list.

    Nothing is done where the history is full, or the lists are. Where they end, the reward is counted.
    """
    p, r, b, d = params[0], s.run[0], h.book[0], s.vectors.shape[1]
    if error > 0.0 and not keep_for_good(p, s, h, arm):
        return LISTS_FULL
    if b.steps == h.steps.shape[0] or b.refreshes == h.thetas.shape[0]:
        return HISTORY_FULL
    full = not played and list_commit(params, s, h, arm, mixture, coin, ledger) == LISTS_END
    mean, variance, _ = numbers_of(p, s, h, arm)
    recall(s, h, arm)
    s.arms[SEEN, arm] += 1.0
    s.arms[SUMS, arm] += reward
    x, image, unsure = s.vectors[WORK], h.scratch[IMAGE], variance_error(s)
    for i in range(d):
        x[i] = s.actions[i, arm]
    for level in range(2):
        combine_part(h.squares[level, 1], x, 0, d, image, 0, d)
        b.spreads[level] += max(dot(x, image), 0.0) * (1.0 + 1e-9) + unsure
    gain, growth = learn(p, s, x, 0, d, mean, variance, reward, None)
    copy(s.vectors[STEP], h.steps[b.steps])
    s.counts[PENDING_MIXTURE if mixture else PENDING, arm] -= 1
    s.arms[LOST, arm] += error
    if error == 0.0:
        if coin is not None:
            enter_coin_reward(p, r, reward)
        if coin is None and (mixture or p.keeps_ledger == 1):
            enter_reward(p, r, reward, mixture, ledger)
    h.refreshed[b.steps] = -1
    if is_worn(r, growth):
        h.renewed[b.refreshes, 0], h.renewed[b.refreshes, 1] = renew_estimate(p, s, growth, reward)
        h.refreshed[b.steps] = b.refreshes
        copy(s.vectors[THETA], h.thetas[b.refreshes])
        for i in range(d):
            copy(s.square[ROOT_T, i], h.roots[b.refreshes, i])
        b.refreshes += 1
    elif p.keeps_factor == 1 or r.slices > 0:
        update_factor(s.square[FACTOR], s.vectors[HALF], x, reward, 0, d)
    update_short(s, h, gain, 1.0 / growth)
    r.lost_radius = sum_over_permanent(s, h, LOST, S_WIDTH)
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.lost_radius
    bonus = r.radius + r.lost_radius
    h.gains[b.steps, 0], h.gains[b.steps, 1], h.gains[b.steps, 2] = gain, 1.0 / growth, bonus
    for i in range(b.short):
        h.short[S_LCB, i] = raised(h.short[S_LCB, i], h.short[S_MEAN, i], bonus, h.short[S_WIDTH, i])
    b.steps += 1
    if full:
        return LISTS_END
    if is_whole(h):
        return LISTS_GO_ON
    return hold_leader(p, s, h) if pays(p, s, h) else LISTS_END


@inner
def pays(p: Any, s: State, h: Lists) -> bool:
    """Whether lists have touched few arms since they began; what they cost at first is extra.

    A draw, or the length of every arm, makes a plain round twice as long, and features beyond the cache three
    times: then a look at every arm may pay, since it takes what arms have missed block by block.
    """
    b, (d, k), share = h.book[0], s.actions.shape, 0.125
    if is_drawn(p):
        share = 1.0
    elif k * d >= BEYOND_CACHE:
        share = 1.25
    return bool(b.work <= k * (d + 16.0 + share * (s.run[0].rewards - b.begun)))


@compiled
def list_play(
    params: Records,
    s: State,
    h: Lists,
    means: Floats,  # (segments, k)
    starts: Ints,  # (segments,) the first round of each, from 0
    first: int,  # which round the first one here is
    draws: Floats,  # (n,) noise, or uniforms for rewards of two values
    two_point: bool,
    low: float,
    spread: Floats,  # (k,)
    randoms: Floats,  # (n, d) normals, (n, 1), or (n, 0)
    coins: Floats,  # (n, 2) uniforms, or (n, 0)
    arms: Ints,  # (n,) out
    sources: Ints,  # (n,) out
    fallbacks: Ints,  # (n,) out
    coin: Part,
    ledger: Part,
) -> tuple[int, int]:
    """Rounds against a known world, as `play` has them: how many, and whether the lists go on."""
    p, r, segment = params[0], s.run[0], 0
    for t in range(draws.size):
        if h.book[0].steps == h.steps.shape[0] or h.book[0].refreshes == h.thetas.shape[0]:
            return t, HISTORY_FULL
        while segment + 1 < starts.size and starts[segment + 1] <= first + t:
            segment += 1
        mean = means[segment]
        arm = list_decide(params, s, h, -1, coin)
        if arm < 0:
            return t, LISTS_END
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        reward = mean[arm] + spread[arm] * draws[t]
        if two_point:
            reward = low + spread[arm] if draws[t] * spread[arm] < mean[arm] - low else low
        mixture = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
        told = list_observe(params, s, h, arm, mixture, reward, 0.0, False, coin, ledger)
        if coin is not None:
            r.practice_draw, r.coin = coins[t, 0], coins[t, 1]
        if p.draws == NORMAL_DRAWS:
            copy(randoms[t], s.vectors[NORMALS])
        elif p.draws == ONE_DRAW:
            s.vectors[NORMALS, 0] = randoms[t, 0]
        if told == LISTS_END:
            return t + 1, LISTS_END
    return draws.size, LISTS_GO_ON
