"""What realised rewards have paid for: the books of a Tolerance gate."""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import Any

from linoto.core.arrays import Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.layout import BETS, GAP, HEAD_START, LOG_START, NEWTON_STEPS, TILT, TILTS, Part


@inner
def open_ledger(p: Any, r: Any, ledger: Part) -> None:
    """Begin with no explored plays, and with the reference that the log gives."""
    r.mixed = r.mixed_pending = r.explored_plays = r.pending = r.vetoed = 0
    r.mixed_rewards = r.earned = r.secured = 0.0
    r.upper_reference, r.lower_reference = inf, -inf
    if r.logged == 0:
        return
    move_reference(p, r)
    r.bet_base = (r.upper_reference - p.low) / p.unit
    for j in range(BETS):
        r.bets[j] = 0.0
    # elsewhere these stay 0, as in the snapshots of versions that had no such fields
    if ledger is not None and p.joint == 1:
        r.border_sum, r.border_reference, r.owed, r.surplus = 0.0, r.bet_base, 0.0, 0.0
        secure_surplus(p, r, 0, True)


@inner
def tilted_mean(total: float, rows: int, level: float) -> float:
    """An upper bound on the average mean of `rows` rewards in [0, 1] that sum to `total`, in any order.

    For each tilt l, E exp(-l x) <= 1 - mean (1 - exp(-l)); by Jensen the product over rows bounds it.
    """
    least, tilt = 1.0, 4.0
    for _ in range(TILTS):
        bound = (1.0 - exp(-(tilt * total + level) / rows)) / (1.0 - exp(-tilt))
        least = bound if bound < least else least
        tilt *= 0.7
    return least


@inner
def seen_by_reference(p: Any, r: Any) -> float:
    """The summed rewards of log and mixture so far, rescaled to [0, 1]."""
    seen = r.logged_rewards - p.low * r.logged + r.mixed_rewards - p.low * (r.mixed - r.mixed_pending)
    return float(seen / p.unit)


@inner
def move_reference(p: Any, r: Any) -> None:
    """Bounds on mu_off from the log and, for bounded rewards or a joint bound, from mixture plays since.

    A joint bound says something of the reference alone only while nothing was explored.
    """
    rows, joined = r.logged + r.mixed, p.joint == 1 and r.explored_plays > 0
    if p.bounded == 0:
        mean = r.logged_rewards / r.logged
        spread = p.noise * sqrt(2.0 * p.reference_level / r.logged) + p.shift
        r.lower_reference = mean - spread
        if p.joint == 1:  # log and mixture grow together: a boundary for every number of rows
            grown = rows + r.logged / LOG_START
            level = 2.0 * p.reference_level + log(grown * LOG_START / r.logged)
            mean, spread = reference_mean(p, r), p.noise * sqrt(grown * level) / rows
        r.upper_reference = r.upper_reference if joined else min(r.upper_reference, mean + spread)
        return
    seen = seen_by_reference(p, r)
    level = p.reference_level + log(float(TILTS))
    rounding = reference_error(p, r)
    below = 1.0 - tilted_mean(rows - seen, rows, level) - rounding  # a pending reward may be the lowest
    r.lower_reference = max(r.lower_reference, p.low + p.unit * below)
    if not joined:
        above = tilted_mean(seen + r.mixed_pending, rows, level) + rounding  # or the highest
        above = reference_at(p, r, above) if p.averaged == 1 else above
        above = min(above, 1.0) if p.shift > 0.0 else above
        r.upper_reference = min(r.upper_reference, p.low + p.unit * above)


@inner
def reference_error(p: Any, r: Any) -> float:
    """How far the mean of log and mixture may be from mu_off, rewards in [0, 1]: rounding, and the shift."""
    rows = r.logged + r.mixed
    return float((p.kappa / rows if r.mixed > 0 else 0.0) + p.shift * r.logged / (p.unit * rows))


@inner
def reference_mean(p: Any, r: Any) -> float:
    """The mean reward of log and mixture, a pending one at the high end, plus what they may be behind."""
    rounding = (p.kappa * p.unit if r.mixed > 0 else 0.0) + p.shift * r.logged
    pending = (p.low + p.unit) * r.mixed_pending
    return float((r.logged_rewards + r.mixed_rewards + pending + rounding) / (r.logged + r.mixed))


@inner
def reference_evidence(p: Any, r: Any, u: float) -> tuple[float, float, float]:
    """H(u), the log evidence that mu_off is below u in [0, 1], with two derivatives; it rises and is convex.

    The average over the tilts l of exp(-l Y) / (1 - (u - kappa / M) (1 - exp(-l)))^M, for M rows that sum to
    Y, in whatever order they came: a nonnegative supermartingale where u is mu_off.
    """
    rows, total = r.logged + r.mixed, seen_by_reference(p, r) + r.mixed_pending
    mean = min(u - reference_error(p, r), 1.0)
    top, mass, first, second = -inf, 0.0, 0.0, 0.0
    for j in range(TILTS):
        power, rate = -TILT[j] * total - rows * log1p(-mean * GAP[j]), GAP[j] / (1.0 - mean * GAP[j])
        if power > top:  # sums are in units of the largest term so far
            shrink = exp(top - power)
            top, mass, first, second = power, mass * shrink, first * shrink, second * shrink
        weight = exp(power - top)
        mass += weight
        first += weight * rows * rate
        second += weight * rows * rate * rate * (1.0 + rows)
    first /= mass
    return top + log(mass / TILTS), first, second / mass - first * first


@inner
def reference_at(p: Any, r: Any, above: float) -> float:
    """The u with H(u) = level by Newton's method from above: H is convex, so every step is a bound too."""
    for _ in range(NEWTON_STEPS):
        value, rate, _ = reference_evidence(p, r, above)
        step = (value - p.reference_level) / rate
        if step <= 1e-14:
            break
        above -= step
    return above


@inner
def explored_evidence(r: Any, total: float) -> tuple[float, float, float]:
    """F(s), the log evidence that explored means sum to more than s, with two derivatives; it falls, convex.

    The average over the bets of their wealth, each discounted by exp(-fraction (s - q u)).
    """
    top, mass, first, second, fraction = -inf, 0.0, 0.0, 0.0, 0.9 / r.bet_base
    for j in range(BETS):
        power = r.bets[j] - fraction * (total - r.explored_plays * r.bet_base)
        if power > top:
            shrink = exp(top - power)
            top, mass, first, second = power, mass * shrink, first * shrink, second * shrink
        weight = exp(power - top)
        mass += weight
        first += weight * fraction
        second += weight * fraction * fraction
        fraction *= 0.65
    first /= mass
    return top + log(mass / BETS), -first, second / mass - first * first


@inner
def least_by_bets(p: Any, r: Any, owed: float) -> float:
    """A lower bound on s - owed u, rewards in [0, 1], where F(s) + H(u) < level, s >= 0 and u <= U.

    Newton's method finds the minimum: there H'(u) = -owed F'(s) on the border, or s = 0, or u = U. The region
    is convex and lies on one side of the tangent at any point, so the bound holds wherever the method stops.
    """
    most = (r.upper_reference - p.low) / p.unit
    if r.explored_plays == 0:
        return float(-owed * most)
    s, u = r.border_sum, min(r.border_reference, most)
    f1 = h1 = over = 0.0
    for _ in range(NEWTON_STEPS):
        r.border_sum, r.border_reference = s, u
        f, f1, f2 = explored_evidence(r, s)
        h, h1, h2 = reference_evidence(p, r, u)
        over, turned, bend = f + h - p.reference_level, h1 + owed * f1, f1 * h2 - owed * f2 * h1
        to_s, to_u = s + (turned * h1 - over * h2) / bend, u + (owed * f2 * over - f1 * turned) / bend
        if s == 0.0 and u == 0.0 and over > 0.0:  # a corner outside: only a larger sum leads in
            to_s, to_u = -over / f1, 0.0
        elif s == 0.0 and to_s <= 0.0:
            to_u = u - over / h1
        elif (u == most and to_u >= most) or (u == 0.0 and to_u <= 0.0):
            to_s = s - over / f1
        to_s, to_u = max(to_s, 0.0), min(max(to_u, 0.0), most)
        if abs(to_s - s) + owed * abs(to_u - u) <= 1e-9 * (1.0 + s):
            break
        s, u = to_s, to_u
    s, u = r.border_sum, r.border_reference  # on the tangent over + f1 (s' - s) + h1 (u' - u) = 0
    first = min(max(u - (over - f1 * s) / h1, 0.0), most)  # the least u' where s' >= 0 is more than that
    at_first = max(s - (over + h1 * (first - u)) / f1, 0.0) - owed * first
    at_most = max(s - (over + h1 * (most - u)) / f1, 0.0) - owed * most
    return float(min(at_first, at_most))


@inner
def least_by_sums(p: Any, r: Any, owed: float) -> float:
    """The same for sub-Gaussian rewards, in their own units: a mixture over two normal tilts, an ellipse."""
    if r.explored_plays == 0:
        return float(-owed * r.upper_reference)
    rows, grown = r.logged + r.mixed, r.explored_plays + HEAD_START
    grown_rows = rows + r.logged / LOG_START
    level = 2.0 * p.reference_level + log(grown / HEAD_START) + log(grown_rows * LOG_START / r.logged)
    spread = p.noise * sqrt(level * (grown + owed * owed * grown_rows / (rows * rows)))
    return float(r.earned + p.low * r.pending - owed * reference_mean(p, r) - spread)


@inner
def allowance(p: Any, rounds: int) -> float:
    """Lambda(t), what may be lost in t rounds; relative to the reference it is in rounds' worth of that."""
    return float(p.budget + p.epsilon * rounds)


@inner
def secure_surplus(p: Any, r: Any, plays: int, search: bool) -> None:
    """Bound what explored plays, and one more, earn above what is owed for them; `plays` came since the last.

    What was secured once stays secured: a play since then earned the least, and owes the most. `search` is
    False where that is enough: a play whose own reward is all that is awaited, or one of the mixture. Once
    practice has lost an arm, every bound is found anew.
    """
    extra = r.premiums + r.premium
    owed = r.explored_plays + 1.0 + extra
    search = search or extra > 0.0
    if p.relative == 1:
        owed -= allowance(p, r.rounds + 1)
    change, before = owed - r.owed, r.owed
    r.owed = owed
    if r.border_sum > 0.0:
        r.border_sum += plays * r.border_reference  # where the search begins: any start is valid
    if owed <= 0.0:  # nothing can be lost yet, whatever the reference is
        least = p.low * (r.explored_plays + 1.0 + extra) - owed * r.lower_reference
        r.surplus = max(least, 1e-12 * p.unit)
        return
    kept = r.surplus + p.low * plays - change * (r.upper_reference if change > 0.0 else p.low)
    if before > 0.0 and not search:
        r.surplus = kept
        return
    if p.bounded == 0:
        least = p.low + least_by_sums(p, r, owed)
    else:
        least = p.low * (r.explored_plays + 1.0 - owed) + p.unit * least_by_bets(p, r, owed)
    if extra > 0.0:
        r.surplus = least + p.low * extra
        return
    r.surplus = max(kept, least) if before > 0.0 else least


@inner
def boundary(p: Any, plays: int) -> float:
    """b(q): how far q rewards can sum from their means at any time, by a mixture over normal tilts."""
    grown = plays + HEAD_START
    return float(p.noise * sqrt(grown * (2.0 * p.reward_level + log(grown / HEAD_START))))


@inner
def certain_sum(p: Any, r: Any) -> float:
    """A lower bound on the summed means of all plays but the mixture's; a pending reward is the lowest."""
    if p.bounded == 0:
        return float(r.earned + p.low * r.pending - boundary(p, r.explored_plays))
    wealth, fraction = -inf, 0.9 / r.bet_base
    for j in range(BETS):
        bound = (r.bets[j] - p.reward_level - log(float(BETS))) / fraction
        wealth = bound if bound > wealth else wealth
        fraction *= 0.65
    return float(p.low * r.explored_plays + p.unit * (r.explored_plays * r.bet_base + wealth))


@inner
def place_bets(r: Any, outcome: float, replace: bool) -> None:
    """Multiply each wealth by 1 + fraction (outcome - u); `replace` undoes the bet on a pending 0 first."""
    fraction = 0.9 / r.bet_base
    for j in range(BETS):
        r.bets[j] += log1p(fraction * (outcome - r.bet_base))
        if replace:
            r.bets[j] -= log1p(-fraction * r.bet_base)
        fraction *= 0.65


@inner
def close_books(p: Any, r: Any, plays: int, search: bool, mixture: bool) -> None:
    """What is secured after so many plays or a reward; and drop the model for good once rewards fall shorter
    than any right model would have let them."""
    if p.joint == 1:
        secure_surplus(p, r, plays, search)
    if p.by_rewards == 0 or mixture:
        return
    if p.joint == 0:
        r.secured = max(r.secured + p.low * plays, certain_sum(p, r))
    owed = r.explored_plays * r.lower_reference - allowance(p, r.rounds)
    if p.relative == 1:
        share = r.explored_plays - allowance(p, r.rounds)
        owed = share * (r.lower_reference if share >= 0.0 else r.upper_reference)
    if r.premiums > 0.0:  # what practice has lost may have earned the most
        owed -= r.premiums * (p.low + p.unit - r.lower_reference)
    highest = r.earned + (p.low + p.unit) * r.pending
    if highest + boundary(p, r.explored_plays) < owed:
        r.vetoed = 1


@inner
def enter_play(p: Any, r: Any, mixture: bool, ledger: Part) -> None:
    """A play whose reward is still to come; a mixture that lost an arm says nothing about mu_off."""
    if mixture and r.premium > 0.0:
        return
    if mixture:
        r.mixed += 1
        r.mixed_pending += 1
    else:
        r.explored_plays += 1
        r.pending += 1
        r.premiums += r.premium
        if ledger is not None and p.bounded == 1:
            place_bets(r, 0.0, mixture)
    if ledger is not None:
        close_books(p, r, 0 if mixture else 1, not mixture and r.pending > 1, mixture)


@inner
def enter_reward(p: Any, r: Any, reward: float, mixture: bool, ledger: Part) -> None:
    """The reward of an earlier play."""
    if mixture and r.premium > 0.0:
        return
    if mixture:
        r.mixed_pending -= 1
        r.mixed_rewards += reward
        if p.bounded == 1 or p.joint == 1:
            move_reference(p, r)
    else:
        r.pending -= 1
        r.earned += reward
        if ledger is not None and p.bounded == 1:
            place_bets(r, min(max((reward - p.low) / p.unit, 0.0), 1.0), not mixture)
    if ledger is not None:
        close_books(p, r, 0 * r.pending, r.rounds > 0, mixture)


@inner
def room_by_rewards(p: Any, r: Any) -> float:
    """What realised rewards have paid for if the next play earns the least; the same for every arm."""
    allowed = allowance(p, r.rounds + 1)
    if p.joint == 1:
        return float(r.surplus + (allowed if p.relative == 0 else 0.0))
    credit = r.earned + p.low * r.pending if p.realised == 1 else r.secured
    extra = r.premiums + r.premium
    plays = r.explored_plays + 1.0 + extra
    if extra > 0.0:
        credit += p.low * extra
    if p.relative == 0:
        return float(credit + p.low - plays * r.upper_reference + allowed)
    owed = plays - allowed
    return float(credit + p.low - owed * (r.upper_reference if owed >= 0.0 else r.lower_reference))


@compiled
def ledger_begin(params: Records, run: Records) -> None:
    """A ledger of its own, without arms or features; run holds `logged` and `logged_rewards`."""
    open_ledger(params[0], run[0], 1)


@compiled
def ledger_commit(params: Records, run: Records, mixture: bool) -> None:
    """Enter a play."""
    run[0].rounds += 1
    enter_play(params[0], run[0], mixture, 1)


@compiled
def ledger_observe(params: Records, run: Records, reward: float, mixture: bool) -> None:
    """Enter a reward."""
    run[0].rewards += 1
    enter_reward(params[0], run[0], reward, mixture, 1)


@compiled
def ledger_room(params: Records, run: Records) -> float:
    """What realised rewards have paid for."""
    return room_by_rewards(params[0], run[0])
