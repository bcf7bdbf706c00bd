"""What practice earns now, told by a coin: the books of a Control gate.

Needs Params and the run alone, so that a guard without arms or features keeps the same books.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p, sqrt
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.layout import (
    AGAINST,
    BELIEVED,
    CAUTION,
    CENTRE_MEMORY,
    CENTRE_WEIGHT,
    CHEAP_FEES,
    CHEAP_LEAST,
    CHEAP_PURSE,
    COIN_BETS,
    CONTROL,
    CONTROL_PLAY,
    EXPLORED_PLAY,
    FEES,
    FORESEEN_FEES,
    FORESEEN_MEMORY,
    FORESEEN_WEIGHT,
    FROM_CONTROL,
    FROM_EXPLORER,
    HOPED_GAP,
    LEAST_GAP,
    LEAST_MISSED,
    LEAST_SHARE,
    MOST_GROWN,
    MOST_PREFERRED,
    MOST_SHARE,
    NO_ENTRY,
    NO_LEVEL,
    PENDING,
    PENDING_MIXTURE,
    PRACTICE_PLAY,
    PURSE,
    SMALLEST_GAP,
    SURELY_LESS,
    TICKET,
    TICKET_CENTRE,
    TICKET_SHARE,
    UNASKED_PLAY,
    State,
)
from linoto.core.kernels.ledger import open_ledger


@inner
def open_control(p: Any, r: Any) -> None:
    """Nothing explored; practice is thought to earn the mean of the log, or the middle of the range.

    The bets begin with their shares of the stake, which sum to 1.
    """
    if p.gate != CONTROL:  # 0, as in the snapshots of versions that had no such fields
        return
    middle = p.low + 0.5 * p.unit
    mean = r.logged_rewards / r.logged if r.logged > 0 else middle
    r.centre = min(max(mean, p.low), p.low + p.unit)
    r.centre_weight = CENTRE_WEIGHT
    r.foreseen = r.practised_rewards = 0
    r.foreseen_own = r.foreseen_practice = r.practised_mean = 0.0
    r.upper_practice = 0.0
    r.stretches = r.coin_thrown = 0
    r.root_is_known = 0
    for j in range(COIN_BETS):
        r.coin_bets[j] = p.coin_stakes[j]
        r.coin_gains[j] = r.coin_hopes[j] = 0.0
        r.stretch_marks[j] = -inf
    if p.every > 0:
        mark_stretch(p, r)


@inner
def centre_weight(p: Any, odds: float, centre: float, fraction: float) -> float:
    """fraction * c_j: the centre, raised where (1 - share) exp(fraction (hi - c_j)) would reach 1.

    `odds` is log(1 - share).
    """
    return float(max(fraction * centre, fraction * (p.low + p.unit) + 0.95 * odds))


@inner
def control_bet(p: Any, share: float, odds: float, weight: float, fraction: float, reward: float) -> float:
    """The logarithm of what a bet of this fraction becomes by a control play that earned this much.

    `odds` is log(1 - share), and `weight` what `centre_weight` says: they are the same for other rewards.
    """
    if p.bounded == 1:
        return float(log(-expm1(odds + fraction * reward - weight) / share))
    lever, penalty = (1.0 - share) / share, 0.0
    for end in (p.low, p.low + p.unit):  # convex in the mean: the ends are enough
        away = fraction * end - weight
        penalty = max(penalty, log(share) - lever * away - log(-expm1(odds + away)))
    spread = lever * fraction * p.noise
    return float(-lever * (fraction * reward - weight) - 0.5 * spread * spread - penalty)


@inner
def multiply_bet(r: Any, j: int, change: float) -> None:
    """Multiply a bet by 1 + change; its logarithm is taken when many of them have come together."""
    gain = r.coin_gains[j] + (1.0 + r.coin_gains[j]) * change
    if not 1.0 / MOST_GROWN < 1.0 + gain < MOST_GROWN:
        r.coin_bets[j] += log(1.0 + gain)
        gain = 0.0
    r.coin_gains[j] = gain


@inner
def lower_bets(p: Any, r: Any, odds: float) -> None:
    """Make the bets of an explored play in realised books, where what it earns is counted by itself.

    A bet whose centre is not raised falls by fraction times the centre: if no other counts, the root moves by
    the centre. Fractions fall, so that the first bets are the ones with a raised centre.
    """
    fractions, bets = p.coin_fractions, r.coin_bets
    centre, high, raise_to = r.entry_centre, p.low + p.unit, 0.95 * odds
    j = 0
    while j < COIN_BETS and fractions[j] * high + raise_to > fractions[j] * centre:
        if bet_level(p, r, j, fractions[j], r.root) > NO_LEVEL:
            r.root_is_known = 0
        j += 1
    for j in range(COIN_BETS):  # as `centre_weight`, without a branch
        bets[j] -= max(fractions[j] * centre, fractions[j] * high + raise_to)


@inner
def place_explored(p: Any, r: Any, odds: float) -> None:
    """Make the bets of an explored play as if it earned the least; realised books leave that out."""
    if p.realised == 1:
        lower_bets(p, r, odds)
        return
    for j in range(COIN_BETS):
        fraction = p.coin_fractions[j]
        weight = centre_weight(p, odds, r.entry_centre, fraction)
        if p.bounded == 1:
            multiply_bet(r, j, fraction * p.low - weight)
        else:
            r.coin_bets[j] += fraction * p.low - weight - 0.5 * (fraction * p.noise) ** 2


@inner
def replace_explored(p: Any, r: Any, reward: float) -> None:
    """Make the bets of an explored play with its reward, where means are promised."""
    odds = log1p(-r.entry_share)
    for j in range(COIN_BETS):
        fraction = p.coin_fractions[j]
        more = fraction * (reward - p.low)
        if p.bounded == 1:
            weight = centre_weight(p, odds, r.entry_centre, fraction)
            multiply_bet(r, j, more / (1.0 + fraction * p.low - weight))
        else:
            r.coin_bets[j] += more


@inner
def lower_practice(p: Any, r: Any, guess: float) -> None:
    """Lower the bound to the root of (1/16) sum_j exp(fraction_j S + L_j) = 1/d, by Newton's method.

    The logarithm of the sum is convex: from the first step on, Newton's points are not below the root, so
    that each of them is a bound, wherever it stops.
    """
    point = guess
    for _ in range(8):
        total, slope = 0.0, 0.0
        for j in range(COIN_BETS):
            fraction = p.coin_fractions[j]
            level = bet_level(p, r, j, fraction, point)
            if level > NO_LEVEL:  # what is left out only makes the bound larger, by 1e-13 at the most
                wealth = exp(level) * (1.0 + r.coin_gains[j])
                total += wealth
                slope += fraction * wealth
        step = log(total) * total / slope
        point -= step
        if abs(step) <= 1e-4 * p.unit:  # the next one would be its square
            break
    r.root, r.root_is_known = point, 1 if abs(point) < inf else 0
    if point < r.upper_practice:  # never, where it is not a number
        r.upper_practice = point


@inner
def follow_root(p: Any, r: Any, guess: float) -> None:
    """Lower the bound to the root after a play: where it is known, it has moved by the centre."""
    if r.root_is_known == 0:
        lower_practice(p, r, guess)
        return
    r.root += r.entry_centre
    r.upper_practice = min(r.upper_practice, r.root)


@inner
def bet_level(p: Any, r: Any, j: int, fraction: float, point: float) -> float:
    """The logarithm of what a bet would be at this sum, over what the sum of all may be; without its gain."""
    return float(fraction * point + r.coin_bets[j] - p.coin_level)


@inner
def mark_stretch(p: Any, r: Any) -> None:
    """A stretch of rounds starts here: whatever is still pending may have been the best until now."""
    r.stretches += 1
    level = p.coin_level + log(float(r.stretches)) + log(r.stretches + 1.0)
    earned = r.earned + (p.low + p.unit) * r.pending
    for j in range(COIN_BETS):
        most = level - p.coin_stakes[j] + r.coin_bets[j] + r.coin_hopes[j]
        mark = most / p.coin_fractions[j] + p.epsilon * r.rounds + earned
        r.stretch_marks[j] = max(r.stretch_marks[j], mark)


@inner
def coin_room(p: Any, r: Any, vouched: float) -> float:
    """What may still be lost if the next round is explored and earns the least where practice earns the most.

    `vouched` is the room that the log or the model sees; it may spend a loan beyond what the coin has proven.
    """
    earned = r.earned + p.low * r.pending
    allowed = p.budget + p.epsilon * (r.rounds + 1)
    if p.every > 0:
        most, inverse = inf, p.unit / 0.9
        for j in range(COIN_BETS):
            most = min(most, r.stretch_marks[j] - r.coin_bets[j] * inverse)
            inverse /= 0.6
        return float(allowed - (most - earned) - p.unit)
    lost = r.upper_practice - earned if p.realised == 1 else r.upper_practice
    room = allowed - lost - p.unit
    return float(max(room, min(vouched, room + p.loan)))


@inner
def explored_mean(p: Any, r: Any) -> float:
    """What explored plays earned, from 0 to 1 in units of the range; few or late ones as if lower."""
    earned = r.earned - p.low * (r.explored_plays - r.pending)
    return float(min(max(earned / (p.unit * (r.explored_plays + CENTRE_WEIGHT)), 0.0), 1.0))


@inner
def in_units(p: Any, mean: float) -> float:
    """From 0 to 1 in units of the range."""
    return float(min(max((mean - p.low) / p.unit, 0.0), 1.0))


@inner
def practice_variance(p: Any, practice: float) -> float:
    """Of what practice earns, in units of the range."""
    return float((p.noise / p.unit) ** 2 if p.bounded == 0 else practice * (1.0 - practice))


@inner
def told_by_control(p: Any, practice: float, best: float) -> float:
    """How much a control play tells for what it costs: the variance of what practice earns over the gap."""
    return float((practice_variance(p, practice) + 0.01) / max(best - practice, LEAST_GAP))


@inner
def foresee(p: Any, r: Any, own: float, practice: float) -> None:
    """Count what the estimates say of an explored play, and of practice's arm in its place."""
    r.foreseen = min(r.foreseen + 1, FORESEEN_MEMORY)
    r.foreseen_own += (in_units(p, own) - r.foreseen_own) / r.foreseen
    r.foreseen_practice += (in_units(p, practice) - r.foreseen_practice) / r.foreseen


@inner
def foreseen_gain(r: Any) -> float:
    """What the estimates say explored plays gain, in units of the range; 0 where they have said nothing."""
    return float(r.foreseen_own - r.foreseen_practice)


@inner
def practice_level(p: Any, r: Any) -> float:
    """About what practice earns where the explorer wants another arm, in units of the range.

    By its rewards and, where estimates foresee it, by what they say in place of the mean of the log: practice
    is disputed where it is bad.
    """
    if r.foreseen == 0:
        return in_units(p, r.centre)
    told = r.practised_rewards * r.practised_mean + FORESEEN_WEIGHT * r.foreseen_practice
    return float(told / (r.practised_rewards + FORESEEN_WEIGHT))


@inner
def hoped_level(p: Any, r: Any, practice: float) -> float:
    """About what explored plays earn, in units of the range: the first ones as is hoped for."""
    few = CENTRE_WEIGHT / (r.explored_plays + CENTRE_WEIGHT)
    return float(explored_mean(p, r) + few * min(practice + max(BELIEVED * foreseen_gain(r), HOPED_GAP), 1.0))


@inner
def believed_level(p: Any, r: Any, practice: float) -> float:
    """The same for what they miss: where no estimates say more, the first ones earn nothing."""
    return hoped_level(p, r, practice) if r.foreseen > 0 else explored_mean(p, r)


@inner
def cheap_fees(p: Any, r: Any, practice: float) -> float:
    """How many times what was missed before a bet counts should fit into what may be lost.

    A bet falls behind by its fraction times the variance over twice the share, in every round. Where the gain
    is small the bet has to be small, and its fee is large.
    """
    gap, above = max(hoped_level(p, r, practice) - practice, SMALLEST_GAP), max(1.0 - practice, LEAST_GAP)
    fees = practice_variance(p, practice) / (gap * above * above)
    return float(max(FORESEEN_FEES, CAUTION * fees) if r.foreseen > 0 else max(CHEAP_FEES, fees))


@inner
def preference(p: Any, r: Any, best: float, practice: float) -> float:
    """How many times as often as usual a round with these estimates should be a control round.

    Where shares p cost p times the gap, and their noise is the variance over p, the cheapest ones are in
    proportion to the root of the variance over the gap. Estimates err: it is the root of that.
    """
    level = practice_level(p, r)
    usual = told_by_control(p, level, believed_level(p, r, level))
    here = told_by_control(p, in_units(p, practice), in_units(p, best))
    ratio = sqrt(sqrt(here / usual))  # a power has other bits on other processors
    return float(min(max(ratio, 1.0 / MOST_PREFERRED), MOST_PREFERRED))


@inner
def cheap_share(p: Any, r: Any, preferred: float) -> float:
    """As `share_of_control`, but what is lost before a bet counts is what explored plays really missed.

    It is preferred to play practice where the estimates say that it costs little.
    """
    practice, left = practice_level(p, r), r.room + p.unit
    missed = max(1.0 - believed_level(p, r, practice), LEAST_MISSED)
    fee = left / (cheap_fees(p, r, practice) * missed) + p.epsilon * r.rounds
    usable = -expm1(-p.coin_level * p.unit * (1.0 - practice) / fee)
    purse = 0.0 if r.foreseen > 0 else CHEAP_PURSE * p.unit / (CHEAP_PURSE * p.unit + left)
    return float(min(max(preferred * max(purse, usable), CHEAP_LEAST), MOST_SHARE))


@inner
def share_of_control(p: Any, r: Any, preferred: float) -> float:
    """How likely a round is a control round where the two arms differ; 1: the gate is closed.

    Until a bet of fraction f counts, its entrance fee log(1/(w d))/f is lost for sure, w its share of the
    stake, and none above -log(1 - share)/(hi - c) has its centre at c. So the share is such that, were
    w = 1/16, the fee of the first one that has is a third of what may be lost, and what the rate brings in as
    many rounds as there were. Only where the share is to be cheap does `preferred` count.
    """
    if not r.room >= 0.0:
        return 1.0
    if p.share > 0.0:
        return float(p.share)
    if p.share < 0.0:
        return cheap_share(p, r, preferred)
    left = r.room + p.unit
    least = max(LEAST_SHARE, PURSE * p.unit / (PURSE * p.unit + left))
    hazard = p.coin_level * (p.low + p.unit - r.centre) / (left / FEES + p.epsilon * r.rounds)
    usable = 0.0 if hazard < SURELY_LESS * least else -expm1(-hazard)  # it is below the hazard
    return float(max(least, min(usable, MOST_SHARE)))


@inner
def throw_coin(p: Any, r: Any, vouched: float, barred: bool, preferred: float) -> None:
    """Decide between `proposal` and practice's arm, `fallback`; once the coin is thrown, it stands."""
    r.arm, r.source, r.explored = r.fallback, r.fallback_source, 0
    r.room = coin_room(p, r, vouched)
    r.entry = NO_ENTRY if r.proposal == r.fallback else PRACTICE_PLAY
    r.entry_centre, r.entry_practice = r.centre, r.fallback
    r.fresh = 1
    r.entry_share = max(share_of_control(p, r, preferred), r.rails_share)
    if r.entry == NO_ENTRY or barred or r.entry_share == 1.0:
        return
    r.coin_thrown, r.thrown_at = 1, r.rewards
    if r.coin < r.entry_share:
        r.source, r.entry = FROM_CONTROL, CONTROL_PLAY
    else:
        r.arm, r.source, r.explored, r.entry = r.proposal, FROM_EXPLORER, 1, EXPLORED_PLAY


@inner
def place_control(p: Any, r: Any, odds: float) -> None:
    """Make the bets of a control play as if it earned the most, the worst for the bound.

    For stretches also: what a pending control play would add to the bets, were its reward the lowest.
    """
    high = p.low + p.unit
    for j in range(COIN_BETS):
        fraction = p.coin_fractions[j]
        weight = centre_weight(p, odds, r.entry_centre, fraction)
        bet = control_bet(p, r.entry_share, odds, weight, fraction, high)
        if p.every > 0:
            r.coin_hopes[j] += control_bet(p, r.entry_share, odds, weight, fraction, p.low) - bet
        r.coin_bets[j] += bet


@inner
def replace_control(p: Any, r: Any, reward: float) -> None:
    """Take back the bets at the worst of a control play, and make them with its reward."""
    odds, high = log1p(-r.entry_share), p.low + p.unit
    for j in range(COIN_BETS):
        fraction = p.coin_fractions[j]
        weight = centre_weight(p, odds, r.entry_centre, fraction)
        worst = control_bet(p, r.entry_share, odds, weight, fraction, high)
        bet = worst if reward == high else control_bet(p, r.entry_share, odds, weight, fraction, reward)
        if p.every > 0:
            best_bet = bet
            if reward != p.low:
                best_bet = control_bet(p, r.entry_share, odds, weight, fraction, p.low)
            r.coin_hopes[j] -= best_bet - worst
        if reward != high:
            r.coin_bets[j] -= worst
            r.coin_bets[j] += bet


@inner
def coin_odds(r: Any) -> float:
    """log(1 - share) of the play at hand, where its bets need it."""
    return log1p(-r.entry_share) if r.entry > PRACTICE_PLAY else 0.0


@inner
def enter_coin_play(p: Any, r: Any, odds: float) -> None:
    """A play whose reward is to come: an explored one counts at its lowest, a control at its highest.

    `odds` is what `coin_odds` says: the same for every metric.
    """
    if p.every > 0 and r.rounds > 0 and r.rounds % p.every == 0:
        mark_stretch(p, r)
    most = p.low + p.unit if p.realised == 1 else p.unit  # that a round can add to what is bounded
    if r.entry == CONTROL_PLAY:
        place_control(p, r, odds)
        r.root_is_known = 0
    elif r.entry == EXPLORED_PLAY or r.entry == UNASKED_PLAY:
        r.explored_plays += 1
        r.pending += 1
        guess = r.upper_practice + (r.entry_centre if p.realised == 1 else 0.0)
        r.upper_practice += most
        if r.entry == EXPLORED_PLAY:
            place_explored(p, r, odds)
        else:
            add_unasked(p, r, most, odds)
            r.root_is_known = 0
        if p.every == 0 and (p.realised == 1 or r.entry == UNASKED_PLAY):  # else, its reward will lower it
            follow_root(p, r, guess)


@inner
def add_unasked(p: Any, r: Any, most: float, odds: float) -> None:
    """A play that no coin decided: practice could have earned the most. A control play in its place is lost.

    Its share is above 0 where the coin had said control.
    """
    for j in range(COIN_BETS):
        fraction = p.coin_fractions[j]
        r.coin_bets[j] -= fraction * most
        if r.entry_share > 0.0:
            weight = centre_weight(p, odds, r.entry_centre, fraction)
            r.coin_bets[j] += control_bet(p, r.entry_share, odds, weight, fraction, p.low + p.unit)


@inner
def enter_coin_reward(p: Any, r: Any, reward: float) -> None:
    """The reward of an earlier play takes the place of its worst."""
    worst = p.low + p.unit if r.entry == CONTROL_PLAY else p.low
    means = r.entry == EXPLORED_PLAY and p.realised == 0
    if r.entry == EXPLORED_PLAY or r.entry == UNASKED_PLAY:
        r.pending -= 1
        r.earned += reward
    if means and reward != worst:
        replace_explored(p, r, reward)
    elif r.entry == CONTROL_PLAY and (p.every > 0 or reward != worst):
        replace_control(p, r, reward)
        r.root_is_known = 0
    if r.entry == CONTROL_PLAY or r.entry == PRACTICE_PLAY:
        r.centre_weight = min(r.centre_weight + 1.0, CENTRE_MEMORY)
        value = min(max(reward, p.low), p.low + p.unit)
        r.centre += (value - r.centre) / r.centre_weight
        if p.share < 0.0:
            r.practised_rewards = min(r.practised_rewards + 1, int(CENTRE_MEMORY - CENTRE_WEIGHT))
            r.practised_mean += (in_units(p, reward) - r.practised_mean) / r.practised_rewards
    if p.every == 0 and (means or (r.entry == CONTROL_PLAY and (p.realised == 0 or reward != worst))):
        before = r.upper_practice - p.unit + (r.entry_centre - reward)  # if nothing else is pending
        lower_practice(p, r, before if means else r.upper_practice)


@compiled
def draw_practice(logged: Ints, allowed: Ints, total: int, draw: float) -> int:
    """An arm by the log's shares among the allowed ones, or -1; `draw` is uniform in [0, 1).

    `total` is the sum of logged pulls, or -1 where not all arms are allowed.
    """
    if total < 0:
        total = 0
        for a in range(logged.size):
            total += logged[a] * allowed[a]
    left, arm = draw * total, -1
    for a in range(logged.size):
        if logged[a] * allowed[a] > 0:
            arm = a
            left -= logged[a]
            if left < 0.0:
                break
    return arm


@compiled
def most_by_practice(
    logged: Ints,
    total: int,
    rounds: int,
    against: Floats,
    upper: Floats,
    lower: Floats,
    upper_mean: float,
    arm: int,
) -> float:
    """The most that practice earns on average, by the log, in the explored rounds and, by `arm`, in this.

    By the bound of each arm; or by that of the mean of the log, as far as the rounds have the log's shares.
    """
    by_arm, away, share = 0.0, 0.0, rounds / max(total, 1)
    against[arm] += 1.0  # only while we look
    for a in range(logged.size):
        if logged[a] + against[a] > 0.0:  # a log has few arms, of many
            more = against[a] - share * logged[a]
            by_arm += against[a] * upper[a]
            away += more * (upper[a] if more > 0.0 else lower[a])
    against[arm] -= 1.0
    return float(min(by_arm, rounds * upper_mean + away))


@compiled
def coin_begin(params: Records, run: Records) -> None:
    """Books of their own, without arms or features; run holds `logged` and `logged_rewards`."""
    open_ledger(params[0], run[0], None)
    open_control(params[0], run[0])


@compiled
def coin_decide(params: Records, run: Records, vouched: float, preferred: float) -> None:
    """Decide between `proposal` and `fallback`."""
    if run[0].coin_thrown == 0:
        throw_coin(params[0], run[0], vouched, False, preferred)


@compiled
def coin_commit(params: Records, run: Records) -> None:
    """Enter a play."""
    enter_coin_play(params[0], run[0], coin_odds(run[0]))
    run[0].rounds += 1
    run[0].fresh = run[0].coin_thrown = 0


@compiled
def coin_observe(params: Records, run: Records, reward: float) -> None:
    """Enter a reward."""
    run[0].rewards += 1
    enter_coin_reward(params[0], run[0], reward)


@inner
def keep_ticket(s: State, arm: int) -> None:
    """What a reward needs that comes back by its arm alone, while the arm has no other pending play."""
    r = s.run[0]
    alone = s.counts[PENDING, arm] + s.counts[PENDING_MIXTURE, arm] == 0
    by_coin = r.entry != NO_ENTRY and r.entry != PRACTICE_PLAY
    s.arms[TICKET, arm] = r.entry if alone else -1.0
    s.arms[TICKET_SHARE, arm] = r.entry_share if by_coin else 0.0
    s.arms[TICKET_CENTRE, arm] = r.entry_centre if by_coin else 0.0
    if r.entry == EXPLORED_PLAY or r.entry == UNASKED_PLAY:
        s.arms[AGAINST, r.entry_practice] += 1.0
