"""Clicks: a Gaussian around the mode of their log-odds, for an explorer that draws from it.

An action x is clicked with probability 1 / (1 + exp(-odds - <mode, x>)). CLICK_FACTOR is R with R'R = W, the
precision of the Gaussian, and CLICK_ODDS its mode. Rewards in a range count as parts of a click.
"""

from __future__ import annotations

from math import exp, log1p, sqrt
from typing import Any

from linoto.core.arrays import Floats
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.estimate import (
    add_action,
    block_begin,
    block_end,
    copy,
    dot,
    extent,
    in_fours,
    update_factor,
    whiten,
)
from linoto.core.kernels.layout import (
    CLICK_FACTOR,
    CLICK_ODDS,
    LOGGED,
    NEWTON_STEPS,
    OFFLINE_SUMS,
    PLACE,
    REFINED,
    RESIDUE,
    STEP,
    TINY,
    WORK,
    State,
)

MOST_ODDS = 700.0  # exp of more is infinite


@inner
def chance_of(odds: float) -> float:
    """The probability of a click."""
    return float(1.0 / (1.0 + exp(-min(max(odds, -MOST_ODDS), MOST_ODDS))))


@inner
def updated_odds(odds: float, variance: float, rounds: float, clicks: float) -> float:
    """The log-odds at the mode, once an action of these log-odds had `clicks` in so many rounds.

    The root h of h - odds - variance (clicks - rounds chance(h)), which rises with h: Newton's steps, and
    halves of what is left where one leaves it.
    """
    low, high = odds + variance * (clicks - rounds), odds + variance * clicks
    h = odds
    for _ in range(2 * NEWTON_STEPS):
        chance = chance_of(h)
        beyond = h - odds - variance * (clicks - rounds * chance)
        if beyond > 0.0:
            high = h
        else:
            low = h
        step = beyond / (1.0 + variance * rounds * chance * (1.0 - chance))
        h -= step
        if not low <= h <= high:
            h = (low + high) / 2.0
        elif abs(step) <= 1e-14 * (1.0 + abs(h)):
            break
    return h


@inner
def solve_factor(factor: Floats, x: Floats, begin: int, end: int) -> None:
    """x = R^-1 x, in place, in one block; the same bits as in all features."""
    for i in range(end - 1, begin - 1, -1):
        last = in_fours(i + 1, end, x.size)
        x[i] = (x[i] - dot(factor[i, i + 1 : last], x[i + 1 : last])) / factor[i, i]


@inner
def learn_clicks(p: Any, s: State, x: Floats, rounds: float, clicks: float) -> None:
    """The mode and W after so many rounds of one action x, exactly for these; destroys x.

    O(d^2), or the square of its block: V has no fewer features in a block than W.
    """
    factor, mode, step = s.square[CLICK_FACTOR], s.vectors[CLICK_ODDS], s.vectors[REFINED]
    first, _ = extent(x)
    begin, end = block_begin(s, first), block_end(s, first)
    aligned = begin - begin % 4
    last = in_fours(aligned, end, x.size)
    copy(x, step)
    whiten(factor, step, first, end)
    variance = dot(step[aligned:last], step[aligned:last])
    solve_factor(factor, step, begin, end)  # W^-1 x
    odds = p.odds + dot(mode[aligned:last], x[aligned:last])
    chance = chance_of(updated_odds(odds, variance, rounds, clicks))
    root = sqrt(rounds * chance * (1.0 - chance))
    for i in range(begin, end):
        mode[i] += (clicks - rounds * chance) * step[i]
        x[i] *= root
    update_factor(factor, s.vectors[RESIDUE], x, 0.0, first, end)


@inner
def learn_clicks_of_arm(p: Any, s: State, arm: int, rounds: float, clicks: float) -> None:
    """The same for one of the arms that stay the same; O(1) where they are one-hot."""
    factor, mode, x = s.square[CLICK_FACTOR], s.vectors[CLICK_ODDS], s.vectors[WORK]
    if s.run[0].one_hot == 0:
        x[:] = 0.0
        add_action(s, arm, 1.0, x)
        learn_clicks(p, s, x, rounds, clicks)
        return
    i, scale = int(s.arms[PLACE, arm]), s.actions[0, arm]
    precision = factor[0, i] * factor[0, i]
    odds = p.odds + scale * mode[i]
    chance = chance_of(updated_odds(odds, scale * scale / precision, rounds, clicks))
    mode[i] += (clicks - rounds * chance) * scale / precision
    factor[0, i] = sqrt(precision + rounds * chance * (1.0 - chance) * scale * scale)


@inner
def clicks_of(p: Any, reward: float, rounds: float) -> float:
    """What a sum of rewards is in clicks."""
    return float(min(max((reward - p.low * rounds) / p.unit, 0.0), rounds))


@inner
def begin_clicks(p: Any, s: State) -> None:
    """Nothing is known."""
    factor = s.square[CLICK_FACTOR]
    factor[:] = 0.0
    s.vectors[CLICK_ODDS] = 0.0
    for i in range(factor.shape[1]):
        factor[0 if s.run[0].one_hot == 1 else i, i] = sqrt(p.precision)


@inner
def fit_clicks(p: Any, s: State) -> None:
    """The mode of the log's clicks, arm by arm, and W there: Newton's steps from what single arms say.

    One-hot arms are independent: one step each is exact.
    """
    begin_clicks(p, s)
    for a in range(s.counts.shape[1]):
        rounds = float(s.counts[LOGGED, a])
        if rounds > 0.0:
            learn_clicks_of_arm(p, s, a, rounds, clicks_of(p, s.arms[OFFLINE_SUMS, a], rounds))
    if s.run[0].one_hot == 1:
        return
    mode, wanted = s.vectors[CLICK_ODDS], s.vectors[STEP]
    for _ in range(NEWTON_STEPS):
        newton_mode(p, s, mode, wanted)
        largest, share = 0.0, 1.0
        before = log_posterior(p, s, mode)
        for i in range(mode.size):
            wanted[i] -= mode[i]
            largest = max(largest, abs(wanted[i]))
        for i in range(mode.size):
            mode[i] += wanted[i]
        while share > 1e-9 and log_posterior(p, s, mode) < before:
            share *= 0.5
            for i in range(mode.size):
                mode[i] -= share * wanted[i]
        if largest <= 1e-10:
            break


@inner
def newton_mode(p: Any, s: State, mode: Floats, out: Floats) -> None:
    """W at a mode, and out = the mode of the quadratic that touches the posterior there."""
    factor, x = s.square[CLICK_FACTOR], s.vectors[WORK]
    factor[:] = 0.0
    out[:] = 0.0
    for i in range(x.size):
        factor[i, i] = sqrt(p.precision)
    for a in range(s.counts.shape[1]):
        rounds = float(s.counts[LOGGED, a])
        if rounds == 0.0:
            continue
        x[:] = 0.0
        add_action(s, a, 1.0, x)
        along = dot(mode, x)
        chance = chance_of(p.odds + along)
        root = sqrt(rounds * max(chance * (1.0 - chance), TINY))
        clicks = clicks_of(p, s.arms[OFFLINE_SUMS, a], rounds)
        for i in range(x.size):
            x[i] *= root
        update_factor(factor, out, x, root * along + (clicks - rounds * chance) / root, 0, x.size)
    solve_factor(factor, out, 0, x.size)


@inner
def log_posterior(p: Any, s: State, mode: Floats) -> float:
    """Of a parameter, given the log's clicks; up to a constant."""
    x, found = s.vectors[WORK], -0.5 * p.precision * dot(mode, mode)
    for a in range(s.counts.shape[1]):
        rounds = float(s.counts[LOGGED, a])
        if rounds > 0.0:
            x[:] = 0.0
            add_action(s, a, 1.0, x)
            odds = min(max(p.odds + dot(mode, x), -MOST_ODDS), MOST_ODDS)
            found += clicks_of(p, s.arms[OFFLINE_SUMS, a], rounds) * odds
            found -= rounds * (max(odds, 0.0) + log1p(exp(-abs(odds))))
    return float(found)


@inner
def begin_clicks_of_rounds(p: Any, s: State, rows: Floats, outcomes: Floats) -> None:
    """W and its mode from X'X and X'y of the log, those of these rows.

    Near the log's rate p chances are linear in log-odds, with the slope p (1 - p): one of Newton's steps has
    W = precision I + slope X'X, and its mode solves W mode = X'y.
    """
    begin_clicks(p, s)
    factor, mode, x = s.square[CLICK_FACTOR], s.vectors[CLICK_ODDS], s.vectors[WORK]
    root = sqrt(p.curve)
    for j in range(outcomes.size):
        for i in range(x.size):
            x[i] = root * rows[j, i]
        update_factor(factor, mode, x, outcomes[j] / (root * p.unit), 0, x.size)
    solve_factor(factor, mode, 0, x.size)
