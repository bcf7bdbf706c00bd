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
    project_arm,
)
from linoto.core.kernels.layout import (
    ALLOWED,
    BLOCK,
    CERTIFIED,
    CROSS,
    GRAM,
    INVERSE,
    LCB,
    LCB_ARM,
    LONG,
    LUCK,
    MEAN,
    OFFSETS,
    ROOM,
    ROUNDED,
    SCORE,
    SHORT,
    THETA,
    THOMPSON,
    TINY,
    TOLERANCE,
    UCB,
    VARIANCE,
    WIDTH,
    Lists,
    State,
)
from linoto.core.kernels.sampling import luck_of, noise_share, spread_of, thompson_spread

MANY_VALUES = 4096  # from which on they are counted in bins
SAMPLED = 65_536  # arms at least, of twice as many or more, that say where a list is to end
# Rows of `short`, the numbers of its arms.
S_MEAN, S_VARIANCE, S_WIDTH, S_LCB, S_SCORE, S_CROSS = range(6)
F_MEAN, F_WIDTH, F_ROW = range(3)  # rows of `fresh`, those of the long list when the short one is chosen
AWAY, IMAGE, DRAW, EXCESS_IMAGE = range(4)  # rows of `scratch`; the draw of the round, and V^-1 y of its gate


# -- what an arm has missed


@inner
def raised(lcb: float, mean: float, bonus: float, width: float) -> float:
    """The best lower bound so far, as `raise_bounds` has it without a floor, which only one-hot arms have."""
    lower = mean - bonus * width
    return lower if lower > lcb else lcb


@inner
def catch_up(p: Any, s: State, h: Lists, arm: int) -> None:
    """Repeat for one arm what it has missed, with the bits of plain rounds: O(d) a reward."""
    b = h.book[0]
    if h.places[arm] > 0 or h.stamps[arm] == b.steps:
        return
    d = s.vectors.shape[1]
    mean, variance, lcb = s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[LCB, arm]
    width = 0.0
    b.work += b.steps - h.stamps[arm]
    for t in range(h.stamps[arm], b.steps):
        anew = h.refreshed[t]
        if anew >= 0 and h.renewed[anew, 0] <= arm < h.renewed[anew, 1]:
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
def numbers_of(p: Any, s: State, h: Lists, arm: int) -> tuple[float, float, float]:
    """Mean, variance and width of an arm, with the bits of plain rounds."""
    catch_up(p, s, h, arm)
    j = h.places[arm] - 1
    if j >= 0:
        return h.short[S_MEAN, j], h.short[S_VARIANCE, j], h.short[S_WIDTH, j]
    return s.arms[MEAN, arm], s.arms[VARIANCE, arm], sqrt(s.arms[VARIANCE, arm])


@inner
def lcb_of(p: Any, s: State, h: Lists, arm: int) -> float:
    """The best lower bound of an arm so far."""
    catch_up(p, s, h, arm)
    j = h.places[arm] - 1
    return float(h.short[S_LCB, j] if j >= 0 else s.arms[LCB, arm])


@inner
def step_block(s: State, begin: int, end: int, gain: float, shrink: float, bonus: float) -> None:
    """One reward for arms that have all missed it, whose A V^-1 x is in `cross`: without a branch."""
    mean, variance, cross = s.arms[MEAN, begin:end], s.arms[VARIANCE, begin:end], s.arms[CROSS, begin:end]
    width, lcb = s.arms[WIDTH, begin:end], s.arms[LCB, begin:end]
    for a in range(mean.size):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        variance[a] = left if left > 0.0 else 0.0
        width[a] = sqrt(variance[a])
        lower = mean[a] - bonus * width[a]
        lcb[a] = lower if lower > lcb[a] else lcb[a]


@inner
def catch_up_block(p: Any, s: State, h: Lists, begin: int, end: int) -> None:
    """The same for the arms from `begin` to `end`, several at a time."""
    b, d, first = h.book[0], s.vectors.shape[1], h.book[0].steps
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    cross = s.arms[CROSS]
    latest = 0
    for a in range(begin, end):
        first, latest = min(first, h.stamps[a]), max(latest, h.stamps[a])
    for t in range(first, b.steps):
        anew, gain, shrink, bonus = h.refreshed[t], h.gains[t, 0], h.gains[t, 1], h.gains[t, 2]
        if anew < 0 and latest <= t:
            combine_part(s.actions, h.steps[t], 0, d, cross, begin, end)
            step_block(s, begin, end, gain, shrink, bonus)
            continue
        low, high = end, end  # the arms of this block that were computed anew
        if anew >= 0:
            low, high = max(begin, h.renewed[anew, 0]), min(end, h.renewed[anew, 1])
        if low < high:
            combine_part(s.actions, h.thetas[anew], 0, d, cross, low, high)
            for a in range(low, high):
                if h.stamps[a] <= t:
                    mean[a], variance[a] = cross[a], 0.0
            for i in range(d):
                combine_part(s.actions, h.roots[anew, i], 0, i + 1, cross, low, high)
                for a in range(low, high):
                    if h.stamps[a] <= t:
                        variance[a] += cross[a] * cross[a]
        if high - low < end - begin:
            combine_part(s.actions, h.steps[t], 0, d, cross, begin, end)
        for a in range(begin, end):
            if h.stamps[a] > t:
                continue
            if not low <= a < high:
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
def list_settle(params: Records, s: State, h: Lists, first: int, last: int) -> None:
    """Let the arms from `first` to `last` catch up: their rows are those of plain rounds."""
    write_back(s, h)
    for begin in range(first, last, BLOCK):
        catch_up_block(params[0], s, h, begin, min(begin + BLOCK, last))


@compiled
def list_meet(params: Records, s: State, h: Lists, arm: int) -> None:
    """Let one arm catch up."""
    mean, variance, width = numbers_of(params[0], s, h, arm)
    s.arms[LCB, arm] = lcb_of(params[0], s, h, arm)
    s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[WIDTH, arm] = mean, variance, width


# -- choosing a list


@inner
def usual_bonus(p: Any, s: State) -> float:
    """What the explorer adds for each unit of width; one that draws, where its draw has the usual length."""
    r = s.run[0]
    if p.explorer == THOMPSON:
        return float(thompson_spread(p, s) * sqrt(float(s.vectors.shape[1])))
    if p.explorer == LUCK:
        return float(thompson_spread(p, s))
    return float(p.scale * noise_share(p, r) * r.radius) if p.explorer == UCB else 0.0


@inner
def is_drawn(p: Any) -> bool:
    """Whether scores are drawn, and need the length of every arm."""
    return bool(p.explorer == THOMPSON or p.explorer == LUCK)


@inner
def scans(p: Any) -> bool:
    """Whether all arms outside of a list may be looked at in one round: where scores are drawn, and where
    the best affordable arm is asked for."""
    return bool(is_drawn(p) or p.gate == TOLERANCE)


@inner
def watches(p: Any) -> bool:
    """Whether the best lower bound of all arms is asked for."""
    return bool(p.fallback == LCB_ARM or p.fallback == CERTIFIED)


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
def threshold(
    mean: Floats, width: Floats, n: int, every: int, weight: float, wanted: int, bins: Floats
) -> float:
    """A number that at most so many of n values mean + weight width exceed, and not many fewer if it can.

    By one value of `every` so many. `bins` are scratch: counts between the least and the largest value spare
    most of the passes.
    """
    low, high, wanted = inf, -inf, max(wanted // every, 1)
    for j in range(0, n, every):
        value = mean[j] + weight * width[j]
        if value > -inf:
            low, high = min(low, value), max(high, value)
    if n // every > MANY_VALUES and (high - low) / bins.size > 0.0:
        unit, count, g = (high - low) / bins.size, 0, bins.size - 1
        bins[:] = 0.0
        for j in range(0, n, every):
            value = mean[j] + weight * width[j]
            if value > -inf:
                bins[min(int((value - low) / unit), bins.size - 1)] += 1.0
        while g > 0 and count + bins[g] <= wanted:
            count += int(bins[g])
            g -= 1
        low, high = low + (g - 1e-6) * unit, low + (g + 1 + 1e-6) * unit  # rounding moves none by more
        if 10 * count >= 9 * wanted:
            return high
    else:
        low -= 1.0 + abs(low)
    for _ in range(40):
        middle, count = 0.5 * (low + high), 0
        for j in range(0, n, every):
            count += mean[j] + weight * width[j] > middle
        if count > wanted:
            low = middle
        else:
            high = middle
            if 10 * count >= 9 * wanted:
                break
    return high


@inner
def widest_of(width: Floats, n: int) -> float:
    """The largest of n widths; four at a time, since each comparison waits for the last."""
    w0 = w1 = w2 = w3 = 0.0
    for j in range(0, n - 3, 4):
        w0, w1 = max(w0, width[j]), max(w1, width[j + 1])
        w2, w3 = max(w2, width[j + 2]), max(w3, width[j + 3])
    for j in range(n - n % 4, n):
        w0 = max(w0, width[j])
    return max(max(w0, w1), max(w2, w3))


@inner
def divide(p: Any, s: State, h: Lists, level: int, n: int, mean: Floats, width: Floats, every: int) -> bool:
    """Divide the n arms of a level: those of the next list, and a bound on all the others.

    Arms left out are put into classes by their width: the best mean of each class is enough for a bound.
    Where to divide is seen from one arm of `every` so many. False where the list has no room for those that
    it must hold.
    """
    b, r, next_list = h.book[0], s.run[0], LONG if level == 0 else SHORT
    bonus, around = usual_bonus(p, s), r.radius + r.lost_radius
    size, room = (b.long_size, h.fresh.shape[1]) if level == 0 else (b.short_size, h.short.shape[1])
    bins = h.fresh[F_ROW, : min(h.fresh.shape[1], 4096)]
    most = threshold(mean, width, n, every, bonus, (3 * size) // 4 if watches(p) else size, bins)
    least = threshold(mean, width, n, every, -around, size // 4, bins) if watches(p) else inf
    classes = bins[: min(max(n // 8, 64), 1024)]
    unit, margin = max(widest_of(width, n) / classes.size, TINY), variance_error(s)
    top, count, behind, share = classes.size - 1, 0, -inf, 0.0
    classes[:] = -inf
    for j in range(n):
        arm = j if level == 0 else h.members[LONG, j]
        m, w = mean[j], width[j]
        forced = arm == b.leader or (b.permanents > 0 and h.permanent[arm] == 1)
        if m == -inf and not forced:  # it was removed
            continue
        if forced or m + bonus * w > most or m - around * w > least:
            if count == room:
                return False
            h.members[next_list, count] = arm
            count += 1
            continue
        g = min(int(w / unit), top)
        classes[g] = max(classes[g], m)
        if watches(p):
            behind = max(behind, s.arms[LCB, arm])
        if is_drawn(p):
            share = max(share, (w * w + margin) / max(h.lengths[arm], TINY))
    if level == 0:
        b.long = count
    else:
        b.short = count
    b.behind[level], b.shares[level] = behind, share
    keep_epoch(p, s, h, level, classes, unit)
    return True


@inner
def keep_epoch(p: Any, s: State, h: Lists, level: int, best_means: Floats, step: float) -> None:
    """What was known when a list was chosen: G at nine c, of scores and of lower bounds, theta and V.

    `best_means` are those of arms whose width is between i and i + 1 steps.
    """
    b, r, margin = h.book[0], s.run[0], variance_error(s)
    bonus, around = usual_bonus(p, s), r.radius + r.lost_radius
    if p.explorer == LUCK:
        bonus = 0.0  # luck may be as small
    b.bases[level], b.lows[level], b.units[level] = bonus, -around, around + p.noise
    h.bounds[level] = -inf
    for i in range(best_means.size):
        m, upper, lower = best_means[i], step * (i + 1) * (1.0 + 1e-12), step * i * (1.0 - 1e-12)
        if m == -inf:
            continue
        wide, narrow = sqrt(upper * upper + margin), sqrt(max(lower * lower - margin, 0.0))
        for g in range(OFFSETS.size):
            c = -around + b.units[level] * OFFSETS[g]
            score = m + (bonus + b.units[level] * OFFSETS[g]) * wide
            h.bounds[level, 0, g] = max(h.bounds[level, 0, g], score)
            h.bounds[level, 1, g] = max(h.bounds[level, 1, g], m + c * (wide if c > 0.0 else narrow))
    b.spreads[level], b.scans[level] = 1.0, 0
    copy(s.vectors[THETA], h.anchors[level])
    for i in range(s.vectors.shape[1]):
        copy(s.square[GRAM, i], h.squares[level, 0, i])
        copy(s.square[INVERSE, i], h.squares[level, 1, i])


@inner
def gather(s: State, arms: Ints, n: int, rows: Floats) -> None:
    """The features of some arms, side by side."""
    for i in range(rows.shape[0]):
        source, out = s.actions[i], rows[i]
        for j in range(n):
            out[j] = source[arms[j]]


@inner
def choose_long(p: Any, s: State, h: Lists) -> bool:
    """A long list out of all arms, O(k d^2 / 2); O(k) where all are up to date, as when lists begin."""
    b, k = h.book[0], s.actions.shape[1]
    mean, width, row = s.arms[SCORE], s.arms[ROOM], s.arms[CROSS]
    b.work += 8.0 * k
    if b.steps > 0:
        b.work += 0.5 * s.vectors.shape[1] * k
        for begin in range(0, k, BLOCK):
            measure_fresh(s, s.actions, mean, width, row, begin, min(begin + BLOCK, k))
    elif s.run[0].restricted == 0:
        mean, width = s.arms[MEAN], s.arms[WIDTH]
    else:
        copy(s.arms[MEAN], mean)
        copy(s.arms[WIDTH], width)
    if s.run[0].restricted == 1:
        for a in range(k):
            if s.counts[ALLOWED, a] == 0:
                mean[a], width[a] = -inf, 0.0
    if scans(p):
        copy(width, h.widths)
    b.margin = variance_error(s)
    every = max(k // SAMPLED, 1)  # a sample may mislead where arms are in some order: then all of them
    if not divide(p, s, h, 0, k, mean, width, every) and (
        every == 1 or not divide(p, s, h, 0, k, mean, width, 1)
    ):
        return False
    for j in range(b.long):
        arm = h.members[LONG, j]
        h.fresh[F_MEAN, j], h.fresh[F_WIDTH, j] = mean[arm], width[arm]
    gather(s, h.members[LONG], b.long, h.long_rows)
    return True


@inner
def measure_long(s: State, h: Lists) -> None:
    """Mean and width of the long list, as they are now."""
    b, mean, width = h.book[0], h.fresh[F_MEAN], h.fresh[F_WIDTH]
    for begin in range(0, b.long, BLOCK):
        measure_fresh(s, h.long_rows, mean, width, h.fresh[F_ROW], begin, min(begin + BLOCK, b.long))
    b.work += 0.5 * s.vectors.shape[1] * b.long


@inner
def choose_short(p: Any, s: State, h: Lists) -> bool:
    """A short list out of the long one, whose means and widths are in `fresh`; its arms catch up."""
    b = h.book[0]
    b.work += 8.0 * b.long
    if not divide(p, s, h, 1, b.long, h.fresh[F_MEAN], h.fresh[F_WIDTH], 1):
        b.short = 0
        return False
    gather(s, h.members[SHORT], b.short, h.short_rows)
    for j in range(b.short):
        arm = h.members[SHORT, j]
        catch_up(p, s, h, arm)
        h.places[arm] = j + 1
        h.short[S_MEAN, j], h.short[S_VARIANCE, j] = s.arms[MEAN, arm], s.arms[VARIANCE, arm]
        h.short[S_WIDTH, j], h.short[S_LCB, j] = sqrt(s.arms[VARIANCE, arm]), s.arms[LCB, arm]
    return True


@inner
def choose_anew(p: Any, s: State, h: Lists, level: int) -> bool:
    """Choose the list of this level, and those inside it; twice as large if it was chosen just now."""
    b = h.book[0]
    write_back(s, h)
    for j in range(b.short):
        h.places[h.members[SHORT, j]] = 0
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
    else:
        measure_long(s, h)
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
def distance(s: State, h: Lists, level: int, scale: float) -> float:
    """How far theta, plus `scale` times the draw, is from theta of when a list was chosen, in V of then."""
    away, image = h.scratch[AWAY], h.scratch[IMAGE]
    for i in range(away.size):
        away[i] = s.vectors[THETA, i] + scale * h.scratch[DRAW, i] - h.anchors[level, i]
    combine_part(h.squares[level, 0], away, 0, away.size, image, 0, image.size)
    return float(sqrt(max(dot(away, image), 0.0)) * (1.0 + 1e-9))


@inner
def mean_error(s: State, h: Lists, level: int, scale: float) -> float:
    """What rounding may do to the mean of an arm, and to its score with so much of the draw."""
    r, theta, anchor, draw = s.run[0], s.vectors[THETA], h.anchors[level], h.scratch[DRAW]
    rough = 1e-10 + 1000.0 * variance_error(s) / (r.widest * r.longest)
    length = sqrt(dot(theta, theta)) + sqrt(dot(anchor, anchor)) + scale * sqrt(dot(draw, draw))
    return float(rough * length * sqrt(r.longest))


@inner
def outside(p: Any, s: State, h: Lists, level: int) -> float:
    """No arm that this level leaves out scores more now, rounding included.

    A draw moves theta; where it counts more for arms that are less known, as much as for the least known one.
    """
    b, far, most = h.book[0], 0.0, 0.0
    if p.explorer == THOMPSON:
        spread = thompson_spread(p, s)
        most = spread_of(p, spread, b.shares[level], 1.0)
        far = distance(s, h, level, spread)
        if most > spread:
            far = max(far, distance(s, h, level, most))
    elif p.explorer == LUCK:
        most = spread_of(p, thompson_spread(p, s), b.shares[level], 1.0)
        far, most = luck_of(s) * most + distance(s, h, level, 0.0), 0.0
    else:
        far = usual_bonus(p, s) + distance(s, h, level, 0.0)
    return mean_error(s, h, level, most) + between(h.bounds[level, 0], b.bases[level], b.units[level], far)


@inner
def outside_below(p: Any, s: State, h: Lists, level: int) -> float:
    """No arm that this level leaves out has a better lower bound now, rounding included."""
    b, r = h.book[0], s.run[0]
    far = distance(s, h, level, 0.0)
    c = far - (r.radius + r.lost_radius) / sqrt(b.spreads[level] * (1.0 + 1e-9))
    least = mean_error(s, h, level, 0.0) + between(h.bounds[level, 1], b.lows[level], b.units[level], c)
    return float(max(least, b.behind[level]))
