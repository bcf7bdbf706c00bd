"""Arms that need not be looked at: lists of those that can be the best, and a bound on all the others.

Three levels: the catalogue of all arms, a long list in it, a short list in that. A round updates the arms of
the short list alone. What it did is kept as history, and any other arm repeats it when it is needed: then its
numbers have the bits that a plain round would have given them. A bound of what arms outside of a list can
score says whether they may be left out; where it does not, the list is chosen anew (docs/maths.md).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.estimate import (
    combine_part,
    copy,
    dot,
    is_worn,
    learn,
    noise_radius,
    project_arm,
    refresh_estimate,
    solve,
)
from linoto.core.kernels.explorers import noise_share
from linoto.core.kernels.gates import budget_due, lower_bound
from linoto.core.kernels.layout import (
    AGGREGATE,
    ALLOWED,
    BLOCK,
    BUDGET,
    CROSS,
    EXACT,
    FIRST_LCB,
    FIXED_ARM,
    FROM_EXPLORER,
    FROM_FIXED,
    FROM_LCB,
    FROM_MIXTURE,
    FROZEN_ARM,
    GRAM,
    HISTORY_FULL,
    INVERSE,
    KEPT,
    LCB,
    LCB_ARM,
    LISTS_END,
    LISTS_FULL,
    LISTS_GO_ON,
    LONG,
    LOST,
    MAX,
    MEAN,
    OFFSETS,
    OPEN,
    PENDING,
    PENDING_MIXTURE,
    PLAYED,
    PLAYS,
    ROOM,
    ROOT_T,
    ROUNDED,
    SCORE,
    SEEN,
    SHORT,
    STEP,
    SUMS,
    THETA,
    UCB,
    VARIANCE,
    WIDTH,
    WORK,
    Lists,
    State,
)
from linoto.core.kernels.learning import commit

# Rows of `short`, the numbers of its arms.
S_MEAN, S_VARIANCE, S_WIDTH, S_LCB, S_SCORE, S_CROSS = range(6)
F_MEAN, F_WIDTH, F_ROW = range(3)  # rows of `fresh`, those of the long list when the short one is chosen


# -- what an arm has missed


@inner
def raised(lcb: float, mean: float, bonus: float, width: float) -> float:
    """The best lower bound so far, as `raise_bounds` has it without a floor, which only one-hot arms have."""
    lower = mean - bonus * width
    return lower if lower > lcb else lcb


@inner
def catch_up(p: Any, s: State, h: Lists, arm: int) -> None:
    """Repeat for one arm what it has missed, with the bits of plain rounds: O(d) a reward."""
    b, place = h.book[0], h.places[arm]
    if place >= 0 or h.stamps[arm] == b.steps:
        return
    d = s.vectors.shape[1]
    mean, variance, lcb = s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[LCB, arm]
    width = s.arms[WIDTH, arm]
    b.work += b.steps - h.stamps[arm]
    for t in range(h.stamps[arm], b.steps):
        anew = h.refreshed[t]
        if anew >= 0:
            mean = project_arm(s.actions, 0, arm, h.thetas[anew])
            variance = 0.0
            b.work += 0.5 * d
            for i in range(d):
                row = project_arm(s.actions[: i + 1], 0, arm, h.roots[anew, i])
                variance += row * row
        else:
            cross = project_arm(s.actions, 0, arm, h.steps[t])
            mean += h.gains[t, 0] * cross
            left = variance - h.gains[t, 1] * cross * cross
            variance = left if left > 0.0 else 0.0
        width = sqrt(variance)
        lcb = raised(lcb, mean, h.gains[t, 2], width)
    s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[LCB, arm] = mean, variance, lcb
    s.arms[WIDTH, arm] = width
    h.stamps[arm] = b.steps


@inner
def catch_up_block(p: Any, s: State, h: Lists, begin: int, end: int) -> None:
    """The same for the arms from `begin` to `end`, several at a time."""
    b, d, first = h.book[0], s.vectors.shape[1], h.book[0].steps
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    cross = s.arms[CROSS]
    for a in range(begin, end):
        first = min(first, h.stamps[a])
    for t in range(first, b.steps):
        anew, gain, shrink, bonus = h.refreshed[t], h.gains[t, 0], h.gains[t, 1], h.gains[t, 2]
        if anew >= 0:
            combine_part(s.actions, h.thetas[anew], 0, d, cross, begin, end)
            for a in range(begin, end):
                if h.stamps[a] <= t:
                    mean[a], variance[a] = cross[a], 0.0
            for i in range(d):
                combine_part(s.actions, h.roots[anew, i], 0, i + 1, cross, begin, end)
                for a in range(begin, end):
                    if h.stamps[a] <= t:
                        variance[a] += cross[a] * cross[a]
        else:
            combine_part(s.actions, h.steps[t], 0, d, cross, begin, end)
        for a in range(begin, end):
            if h.stamps[a] > t:
                continue
            if anew < 0:
                mean[a] += gain * cross[a]
                left = variance[a] - shrink * cross[a] * cross[a]
                variance[a] = left if left > 0.0 else 0.0
            width[a] = sqrt(variance[a])
            lcb[a] = raised(lcb[a], mean[a], bonus, width[a])
    for a in range(begin, end):
        h.stamps[a] = b.steps


@inner
def write_back(s: State, h: Lists) -> None:
    """The numbers of the short list into the rows of all arms."""
    b = h.book[0]
    for j in range(b.short):
        arm = h.members[SHORT, j]
        s.arms[MEAN, arm], s.arms[VARIANCE, arm] = h.short[S_MEAN, j], h.short[S_VARIANCE, j]
        s.arms[WIDTH, arm], s.arms[LCB, arm] = h.short[S_WIDTH, j], h.short[S_LCB, j]
        h.stamps[arm] = b.steps


@compiled
def list_settle(params: Records, s: State, h: Lists) -> None:
    """Let every arm catch up: its rows are those of plain rounds. The lists stay, the history is empty."""
    k = s.actions.shape[1]
    write_back(s, h)
    for begin in range(0, k, BLOCK):
        catch_up_block(params[0], s, h, begin, min(begin + BLOCK, k))
    h.stamps[:] = 0
    h.book[0].steps = h.book[0].refreshes = 0


@compiled
def list_meet(params: Records, s: State, h: Lists, arm: int) -> None:
    """Let one arm catch up."""
    j = h.places[arm]
    catch_up(params[0], s, h, arm)
    if j >= 0:
        s.arms[MEAN, arm], s.arms[WIDTH, arm] = h.short[S_MEAN, j], h.short[S_WIDTH, j]
        s.arms[LCB, arm] = h.short[S_LCB, j]


# -- choosing a list


@inner
def bonus_of(p: Any, r: Any) -> float:
    """What the explorer adds for each unit of width."""
    return float(p.scale * noise_share(p, r) * r.radius) if p.explorer == UCB else 0.0


@inner
def measure_fresh(
    s: State, rows: Floats, mean: Floats, width: Floats, row: Floats, begin: int, end: int
) -> None:
    """Mean and width of arms by theta and V^-1 of now, O(d^2 / 2) each: not the bits of plain rounds."""
    d, inverse = s.vectors.shape[1], s.square[INVERSE]
    combine_part(rows, s.vectors[THETA], 0, d, mean, begin, end)
    for a in range(begin, end):
        width[a] = 0.0
    for i in range(d):
        combine_part(rows, inverse[i], 0, i, row, begin, end)
        x, own = rows[i], inverse[i, i]
        for a in range(begin, end):
            width[a] += x[a] * (own * x[a] + 2.0 * row[a])
    for a in range(begin, end):
        width[a] = sqrt(max(width[a], 0.0))


@inner
def variance_error(s: State) -> float:
    """What rounding may do to |a|^2 in V^-1, the more the worse V is conditioned."""
    r, largest = s.run[0], 0.0
    for i in range(s.vectors.shape[1]):
        largest = max(largest, s.square[GRAM, i, i])
    return float(ROUNDED * (1000.0 + r.widest * largest) * r.widest * r.longest)


@inner
def threshold(mean: Floats, width: Floats, n: int, weight: float, wanted: int) -> float:
    """A number that at most so many of n values mean + weight width exceed, and not many fewer if it can."""
    low, high = inf, -inf
    for j in range(n):
        value = mean[j] + weight * width[j]
        if value > -inf:
            low, high = min(low, value), max(high, value)
    low -= 1.0 + abs(low)
    for _ in range(40):
        middle, count = 0.5 * (low + high), 0
        for j in range(n):
            count += mean[j] + weight * width[j] > middle
        if count > wanted:
            low = middle
        else:
            high = middle
            if 10 * count >= 9 * wanted:
                break
    return high


@inner
def divide(p: Any, s: State, h: Lists, level: int, n: int, mean: Floats, width: Floats) -> bool:
    """Divide the n arms of a level: those of the next list, and a bound on all the others.

    False where the list has no room for those that it must hold.
    """
    b, r, next_list = h.book[0], s.run[0], LONG if level == 0 else SHORT
    bonus, around = bonus_of(p, r), r.radius + r.lost_radius
    size, room = (b.long_size, h.fresh.shape[1]) if level == 0 else (b.short_size, h.short.shape[1])
    watches = p.fallback == LCB_ARM
    most = threshold(mean, width, n, bonus, (3 * size) // 4 if watches else size)
    least = threshold(mean, width, n, -around, size // 4) if watches else inf
    unit, margin = around + p.noise, variance_error(s)
    h.bounds[level] = -inf
    b.bases[level], b.lows[level], b.units[level] = bonus, -around, unit
    b.behind[level] = -inf
    count = 0
    for j in range(n):
        arm = j if level == 0 else h.members[LONG, j]
        m, w = mean[j], width[j]
        forced = h.kept[arm] == 1 or arm == b.leader
        if m == -inf and not forced:  # it was removed
            continue
        if forced or m + bonus * w > most or m - around * w > least:
            if count == room:
                return False
            h.members[next_list, count] = arm
            count += 1
            continue
        wide, narrow = sqrt(w * w + margin), sqrt(max(w * w - margin, 0.0))
        for g in range(OFFSETS.size):
            c = -around + unit * OFFSETS[g]
            h.bounds[level, 0, g] = max(h.bounds[level, 0, g], m + (bonus + unit * OFFSETS[g]) * wide)
            h.bounds[level, 1, g] = max(h.bounds[level, 1, g], m + c * (wide if c > 0.0 else narrow))
        b.behind[level] = max(b.behind[level], s.arms[LCB, arm])
    if level == 0:
        b.long = count
    else:
        b.short = count
    b.spreads[level] = 1.0
    copy(s.vectors[THETA], h.anchors[level])
    for i in range(s.vectors.shape[1]):
        copy(s.square[GRAM, i], h.squares[level, 0, i])
        copy(s.square[INVERSE, i], h.squares[level, 1, i])
    return True


@inner
def gather(s: State, arms: Ints, n: int, rows: Floats) -> None:
    """The features of some arms, side by side."""
    for i in range(rows.shape[0]):
        source, out = s.actions[i], rows[i]
        for j in range(n):
            out[j] = source[arms[j]]


@inner
def choose_long(p: Any, s: State, h: Lists) -> bool:
    """A long list out of all arms, O(k d^2 / 2)."""
    b, k = h.book[0], s.actions.shape[1]
    mean, width, row = s.arms[SCORE], s.arms[ROOM], s.arms[CROSS]
    for begin in range(0, k, BLOCK):
        measure_fresh(s, s.actions, mean, width, row, begin, min(begin + BLOCK, k))
    b.work += (0.5 * s.vectors.shape[1] + 8.0) * k
    if s.run[0].restricted == 1:
        for a in range(k):
            if s.counts[ALLOWED, a] == 0:
                mean[a], width[a] = -inf, 0.0
    if not divide(p, s, h, 0, k, mean, width):
        return False
    gather(s, h.members[LONG], b.long, h.long_rows)
    return True


@inner
def choose_short(p: Any, s: State, h: Lists) -> bool:
    """A short list out of the long one; its arms catch up."""
    b, mean, width = h.book[0], h.fresh[F_MEAN], h.fresh[F_WIDTH]
    for begin in range(0, b.long, BLOCK):
        measure_fresh(s, h.long_rows, mean, width, h.fresh[F_ROW], begin, min(begin + BLOCK, b.long))
    b.work += (0.5 * s.vectors.shape[1] + 8.0) * b.long
    if not divide(p, s, h, 1, b.long, mean, width):
        b.short = 0
        return False
    gather(s, h.members[SHORT], b.short, h.short_rows)
    for j in range(b.short):
        arm = h.members[SHORT, j]
        catch_up(p, s, h, arm)
        h.places[arm] = j
        h.short[S_MEAN, j], h.short[S_VARIANCE, j] = s.arms[MEAN, arm], s.arms[VARIANCE, arm]
        h.short[S_WIDTH, j], h.short[S_LCB, j] = s.arms[WIDTH, arm], s.arms[LCB, arm]
    return True


@inner
def mend(p: Any, s: State, h: Lists, level: int) -> bool:
    """Choose the list of this level anew, and those inside it; twice as large if it was chosen just now."""
    b = h.book[0]
    write_back(s, h)
    for j in range(b.short):
        h.places[h.members[SHORT, j]] = -1
    b.short = 0
    if b.chosen[level] == s.run[0].rewards + 1:
        if level == 0:
            b.long_size *= 2
        else:
            b.short_size *= 2
        if b.long_size > h.fresh.shape[1] or b.short_size > h.short.shape[1]:
            return False
    elif level == 1:
        keeping = b.short_size * (s.run[0].rewards + 1 - b.chosen[1])  # what the list has cost, and
        choosing = (0.5 * s.vectors.shape[1] + 8.0) * b.long  # what it cost to choose it
        if keeping < 0.5 * choosing and 2 * b.short_size <= h.short.shape[1]:
            b.short_size *= 2
        elif keeping > 4.0 * choosing and b.short_size > b.least_size:
            b.short_size //= 2
    if level == 0:
        b.chosen[0] = s.run[0].rewards + 1
        b.chosen_long += 1
        if not choose_long(p, s, h):
            return False
    b.chosen[1] = s.run[0].rewards + 1
    b.chosen_short += 1
    return choose_short(p, s, h)


# -- the certificate


@inner
def between(maxima: Floats, base: float, unit: float, c: float) -> float:
    """A bound on max (m + c w) from its values at some c: it rises with c and is convex."""
    x = (c - base) / unit
    if x <= 0.0:
        return float(maxima[0])
    g = 0
    while g + 1 < OFFSETS.size and OFFSETS[g + 1] < x:
        g += 1
    if g + 1 == OFFSETS.size:
        return inf if maxima[0] > -inf else -inf
    if maxima[0] == -inf:
        return -inf
    share = (x - OFFSETS[g]) / (OFFSETS[g + 1] - OFFSETS[g])
    return float(maxima[g] + share * (maxima[g + 1] - maxima[g]))


@inner
def outside(p: Any, s: State, h: Lists, level: int, upper: bool) -> float:
    """No arm that this level leaves out scores more now, or has a better lower bound; rounding included."""
    b, r = h.book[0], s.run[0]
    theta, anchor = s.vectors[THETA], h.anchors[level]
    away, image = h.scratch[0], h.scratch[1]
    for i in range(away.size):
        away[i] = theta[i] - anchor[i]
    combine_part(h.squares[level, 0], away, 0, away.size, image, 0, image.size)
    far = sqrt(max(dot(away, image), 0.0)) * (1.0 + 1e-9)
    rough = 1e-10 + 1000.0 * variance_error(s) / (r.widest * r.longest)
    error = rough * (sqrt(dot(theta, theta)) + sqrt(dot(anchor, anchor))) * sqrt(r.longest)
    if upper:
        return float(
            error + between(h.bounds[level, 0], b.bases[level], b.units[level], bonus_of(p, r) + far)
        )
    c = far - (r.radius + r.lost_radius) / sqrt(b.spreads[level] * (1.0 + 1e-9))
    least = error + between(h.bounds[level, 1], b.lows[level], b.units[level], c)
    return float(max(least, b.behind[level]))


@inner
def top_of(s: State, h: Lists, row: int) -> int:
    """The place of the largest value in the short list, of equal ones that of the smallest arm; -1: none."""
    values, arms, top = h.short[row], h.members[SHORT], -1
    for j in range(h.book[0].short):
        if s.counts[ALLOWED, arms[j]] == 0:
            continue
        if top < 0 or values[j] > values[top] or (values[j] == values[top] and arms[j] < arms[top]):
            top = j
    return top


@inner
def certified_top(p: Any, s: State, h: Lists, upper: bool) -> int:
    """The place in the short list of the best of all arms; lists are chosen anew until that is certain.

    -1 where they cannot be.
    """
    b, row = h.book[0], S_SCORE if upper else S_LCB
    bonus = bonus_of(p, s.run[0])
    for _ in range(16):
        if upper:
            for j in range(b.short):
                h.short[S_SCORE, j] = h.short[S_MEAN, j] + bonus * h.short[S_WIDTH, j]
        top, level = top_of(s, h, row), -1
        if top < 0:
            return -1
        value = h.short[row, top]
        for one in range(2):
            if not value > outside(p, s, h, 1 - one, upper):
                level = 1 - one
        if level < 0:
            return top
        if not mend(p, s, h, level):
            return -1
    return -1


# -- rounds


@compiled
def list_begin(params: Records, s: State, h: Lists) -> int:
    """The first lists, of a state in which every arm is up to date; 0 where there cannot be any."""
    p, b = params[0], h.book[0]
    b.steps = b.refreshes = b.short = b.long = b.chosen_long = b.chosen_short = 0
    b.work = 0.0
    b.begun = s.run[0].rewards
    b.chosen[0] = b.chosen[1] = -1
    b.leader = b.frozen = -1
    h.stamps[:] = 0
    h.places[:] = -1
    h.kept[:] = 0
    b.counted = 0
    for a in range(s.arms.shape[1]):
        if s.arms[LOST, a] != 0.0 or (p.gate == BUDGET and s.arms[PLAYS, a] != 0.0):
            if b.counted == h.short.shape[1]:
                return LISTS_END
            h.kept[a], h.members[KEPT, b.counted] = 1, a
            b.counted += 1
        if s.counts[ALLOWED, a] == 0:
            continue
        if b.leader < 0 or s.arms[LCB, a] > s.arms[LCB, b.leader]:
            b.leader = a
        if b.frozen < 0 or s.arms[FIRST_LCB, a] > s.arms[FIRST_LCB, b.frozen]:
            b.frozen = a
    if not mend(p, s, h, 0):
        return LISTS_END
    return hold(p, s, h)


@inner
def hold(p: Any, s: State, h: Lists) -> int:
    """Keep the arm with the best lower bound in the lists, where it is the fallback."""
    b = h.book[0]
    if p.fallback == LCB_ARM:
        top = certified_top(p, s, h, False)
        if top < 0:
            return LISTS_END
        b.leader = h.members[SHORT, top]
    return LISTS_GO_ON


@inner
def enter(s: State, h: Lists, arm: int) -> None:
    """Put an arm that is up to date at the end of the short list, and of the long one if it is not there."""
    b = h.book[0]
    i = 0
    while i < b.long and h.members[LONG, i] != arm:
        i += 1
    if i == b.long:
        h.members[LONG, i] = arm
        for row in range(h.long_rows.shape[0]):
            h.long_rows[row, i] = s.actions[row, arm]
        b.long += 1
    j = b.short
    h.places[arm], h.members[SHORT, j] = j, arm
    h.short[S_MEAN, j], h.short[S_VARIANCE, j] = s.arms[MEAN, arm], s.arms[VARIANCE, arm]
    h.short[S_WIDTH, j], h.short[S_LCB, j] = s.arms[WIDTH, arm], s.arms[LCB, arm]
    for row in range(h.short_rows.shape[0]):
        h.short_rows[row, j] = s.actions[row, arm]
    b.short += 1


@inner
def keep(s: State, h: Lists, arm: int) -> bool:
    """Never leave this arm out again: it was played, or lost a reward. False where the lists are full."""
    b, kept = h.book[0], h.members[KEPT]
    if h.kept[arm] == 1:
        return True
    full = b.short == h.short.shape[1] or b.long == h.fresh.shape[1]
    if b.counted == h.short.shape[1] or (h.places[arm] < 0 and full):
        return False
    if h.places[arm] < 0:
        enter(s, h, arm)
    i = b.counted
    while i > 0 and kept[i - 1] > arm:
        kept[i] = kept[i - 1]
        i -= 1
    kept[i], h.kept[arm] = arm, 1
    b.counted += 1
    return True


@inner
def sum_over_kept(s: State, h: Lists, row: int, by: int) -> float:
    """dot(s.arms[row], a row of the short list), with its bits: 0 adds nothing to any of its four sums."""
    s0 = s1 = s2 = s3 = 0.0
    weights, values = s.arms[row], h.short[by]
    fours = weights.size - weights.size % 4
    for i in range(h.book[0].counted):
        arm = h.members[KEPT, i]
        part, lane = weights[arm] * values[h.places[arm]], arm % 4 if arm < fours else 0
        if lane == 0:
            s0 += part
        elif lane == 1:
            s1 += part
        elif lane == 2:
            s2 += part
        else:
            s3 += part
    return (s0 + s1) + (s2 + s3)


@inner
def budget_room(p: Any, s: State, h: Lists, arm: int) -> float:
    """B(t) of eq. (5) for one arm in the place of U_t, as `measure_budget` has it for all."""
    r, past, j = s.run[0], -inf, h.places[arm]
    if r.logged == 0:
        return inf
    catch_up(p, s, h, arm)
    mean, variance, lcb = s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[LCB, arm]
    if j >= 0:
        mean, variance, lcb = h.short[S_MEAN, j], h.short[S_VARIANCE, j], h.short[S_LCB, j]
    due = budget_due(p, r)
    if p.form != AGGREGATE:
        past = sum_over_kept(s, h, PLAYS, S_LCB)
    if p.form != EXACT:
        past = max(past, lower_bound(p, s, s.vectors[PLAYED], None))
    room = past + lcb - due
    if p.form == MAX:
        total, image = s.vectors[PLAYED], s.vectors[STEP]
        solve(s, total, image)
        cross = project_arm(s.actions, 0, arm, image)
        base, square = dot(s.vectors[THETA], total), dot(total, image)
        bonus = r.radius + r.lost_radius
        room = max(room, base + mean - bonus * sqrt(max(square + 2.0 * cross + variance, 0.0)) - due)
    return float(room)


@inner
def list_lcb(p: Any, s: State, h: Lists, arm: int) -> float:
    """The best lower bound of an arm so far."""
    catch_up(p, s, h, arm)
    return float(h.short[S_LCB, h.places[arm]] if h.places[arm] >= 0 else s.arms[LCB, arm])


@compiled
def list_commit(params: Records, s: State, h: Lists, arm: int, mixture: bool) -> int:
    """Count a play, as `commit` does; a budget sums over played arms, which stay in the lists."""
    commit(params, s, arm, mixture, None, None)
    if params[0].gate != BUDGET:
        return LISTS_GO_ON
    catch_up(params[0], s, h, arm)
    return LISTS_GO_ON if keep(s, h, arm) else LISTS_END


@compiled
def list_decide(params: Records, s: State, h: Lists, proposal: int) -> int:
    """Algorithm 1 with a gate that asks about one arm, as `decide` does it; -1 where the lists do not say."""
    p, r, b = params[0], s.run[0], h.book[0]
    if proposal < 0:
        top = certified_top(p, s, h, True)
        if top < 0:
            return -1
        proposal = h.members[SHORT, top]
    r.proposal, r.fallback_source = proposal, FROM_LCB
    if p.fallback == FIXED_ARM:
        r.fallback, r.fallback_source = p.fixed_arm, FROM_FIXED
    else:
        r.fallback = b.frozen if p.fallback == FROZEN_ARM else b.leader
        if p.gate == BUDGET and r.restricted == 1 and list_lcb(p, s, h, r.fallback) < r.baseline:
            r.fallback = -1
    if r.fallback >= 0 and s.counts[ALLOWED, r.fallback] == 0:
        r.fallback = -1
    r.room = inf if p.gate == OPEN else -inf
    if p.gate == BUDGET:
        r.room = budget_room(p, s, h, proposal)
    r.arm, r.explored, r.source = proposal, 1, FROM_EXPLORER
    if not r.room > 0.0:
        r.arm, r.explored, r.source = r.fallback, 0, r.fallback_source
    r.fresh = 1
    return int(r.arm)


@inner
def update_short(s: State, h: Lists, gain: float, shrink: float) -> None:
    """Mean and variance of the short list after a reward, or after all was computed anew."""
    b, d = h.book[0], s.vectors.shape[1]
    mean, variance, width, cross = h.short[S_MEAN], h.short[S_VARIANCE], h.short[S_WIDTH], h.short[S_CROSS]
    if h.refreshed[b.steps] < 0:
        combine_part(h.short_rows, s.vectors[STEP], 0, d, cross, 0, b.short)
        for j in range(b.short):
            mean[j] += gain * cross[j]
            left = variance[j] - shrink * cross[j] * cross[j]
            variance[j] = left if left > 0.0 else 0.0
    else:
        combine_part(h.short_rows, s.vectors[THETA], 0, d, mean, 0, b.short)
        for j in range(b.short):
            variance[j] = 0.0
        for i in range(d):
            combine_part(h.short_rows, s.square[ROOT_T, i], 0, i + 1, cross, 0, b.short)
            for j in range(b.short):
                variance[j] += cross[j] * cross[j]
    for j in range(b.short):
        width[j] = sqrt(variance[j])
    b.work += b.short


@compiled
def list_observe(
    params: Records, s: State, h: Lists, arm: int, mixture: bool, reward: float, error: float, played: bool
) -> int:
    """A reward, as `observe` counts it, but for arms outside of the short list.

    Nothing is done where the history is full, or the lists are. Where they end, the reward is counted.
    """
    p, r, b, d = params[0], s.run[0], h.book[0], s.vectors.shape[1]
    if error > 0.0:
        catch_up(p, s, h, arm)
        if not keep(s, h, arm):
            return LISTS_FULL
    if b.steps == h.steps.shape[0] or b.refreshes == h.thetas.shape[0]:
        return HISTORY_FULL
    full = not played and list_commit(params, s, h, arm, mixture) == LISTS_END
    catch_up(p, s, h, arm)
    j = h.places[arm]
    mean, variance = s.arms[MEAN, arm], s.arms[VARIANCE, arm]
    if j >= 0:
        mean, variance = h.short[S_MEAN, j], h.short[S_VARIANCE, j]
    s.arms[SEEN, arm] += 1.0
    s.arms[SUMS, arm] += reward
    x, image, unsure = s.vectors[WORK], h.scratch[0], variance_error(s)
    for i in range(d):
        x[i] = s.actions[i, arm]
    for level in range(2):
        combine_part(h.squares[level, 1], x, 0, d, image, 0, d)
        b.spreads[level] += max(dot(x, image), 0.0) * (1.0 + 1e-9) + unsure
    gain, growth = learn(p, s, x, 0, d, mean, variance, reward)
    copy(s.vectors[STEP], h.steps[b.steps])
    s.counts[PENDING_MIXTURE if mixture else PENDING, arm] -= 1
    s.arms[LOST, arm] += error
    h.refreshed[b.steps] = -1
    if is_worn(r, growth):
        refresh_estimate(p, s)
        h.refreshed[b.steps] = b.refreshes
        copy(s.vectors[THETA], h.thetas[b.refreshes])
        for i in range(d):
            copy(s.square[ROOT_T, i], h.roots[b.refreshes, i])
        b.refreshes += 1
    update_short(s, h, gain, 1.0 / growth)
    r.lost_radius = sum_over_kept(s, h, LOST, S_WIDTH)
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.lost_radius
    bonus = r.radius + r.lost_radius
    h.gains[b.steps, 0], h.gains[b.steps, 1], h.gains[b.steps, 2] = gain, 1.0 / growth, bonus
    for i in range(b.short):
        h.short[S_LCB, i] = raised(h.short[S_LCB, i], h.short[S_MEAN, i], bonus, h.short[S_WIDTH, i])
    b.steps += 1
    if full or not pays(s, h):
        return LISTS_END
    return hold(p, s, h)


@inner
def pays(s: State, h: Lists) -> bool:
    """Whether lists have touched few arms since they began; what they cost at first is extra."""
    b, (d, k) = h.book[0], s.actions.shape
    return bool(b.work <= k * (d + 16.0 + 0.125 * (s.run[0].rewards - b.begun)))


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
    arms: Ints,  # (n,) out
    sources: Ints,  # (n,) out
    fallbacks: Ints,  # (n,) out
) -> tuple[int, int]:
    """Rounds against a known world, as `play` has them: how many, and whether the lists go on."""
    r, segment = s.run[0], 0
    for t in range(draws.size):
        if h.book[0].steps == h.steps.shape[0] or h.book[0].refreshes == h.thetas.shape[0]:
            return t, HISTORY_FULL
        while segment + 1 < starts.size and starts[segment + 1] <= first + t:
            segment += 1
        mean = means[segment]
        arm = list_decide(params, s, h, -1)
        if arm < 0:
            return t, LISTS_END
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        reward = mean[arm] + spread[arm] * draws[t]
        if two_point:
            reward = low + spread[arm] if draws[t] * spread[arm] < mean[arm] - low else low
        mixture = r.source == FROM_MIXTURE
        if list_observe(params, s, h, arm, mixture, reward, 0.0, False) == LISTS_END:
            return t + 1, LISTS_END
    return draws.size, LISTS_GO_ON
