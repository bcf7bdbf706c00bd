"""Begin from a log, count a play, learn from its reward; arms that come and go; the loop of a simulation."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.clicks import clicks_of, fit_clicks, learn_clicks_of_arm
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.control import (
    coin_odds,
    enter_coin_play,
    enter_coin_reward,
    keep_ticket,
    open_control,
)
from linoto.core.kernels.deciding import decide, pessimistic
from linoto.core.kernels.estimate import (
    add_action,
    clear,
    copy,
    dot,
    forget,
    gather_sums,
    is_worn,
    learn_arm,
    learn_one_hot,
    noise_radius,
    online,
    raise_bounds,
    refine,
    refresh,
    renew,
    solve,
    update_factor,
)
from linoto.core.kernels.explorers import best, keep_scores
from linoto.core.kernels.gates import bound_arm, is_baseline, measure_room
from linoto.core.kernels.layout import (
    AFFORDABLE,
    ALLOWED,
    BUDGET,
    CONSERVATIVE,
    CONTROL,
    EXCESS,
    FACTOR,
    FIRST_LCB,
    FIXED_ARM,
    FROM_CONTROL,
    FROM_MIXTURE,
    FROZEN_ARM,
    GIVEN_SCORES,
    HALF,
    LCB,
    LOG_GRAM,
    LOG_ROOT,
    LOGGED,
    LOGISTIC,
    LOST,
    MEAN,
    MIXED,
    NORMAL_DRAWS,
    NORMALS,
    OFFLINE_SUMS,
    ONE_DRAW,
    PENDING,
    PENDING_MIXTURE,
    PLACE,
    PLAYED,
    PLAYS,
    PRACTICE_MEAN,
    PRACTICE_PULLS,
    RECENT_SEEN,
    RECENT_SUMS,
    SCORE_DRAWS,
    SEEN,
    STEP,
    SUMS,
    THETA,
    VALUE,
    VARIANCE,
    WIDTH,
    WORK,
    XBAR,
    Part,
    Rails,
    State,
)
from linoto.core.kernels.ledger import enter_play, enter_reward, open_ledger, secure_surplus
from linoto.core.kernels.rails import rails_commit, rails_measure, rails_observe, rails_value
from linoto.core.kernels.told import learn_metrics, propose_told, told_compare
from linoto.core.kernels.whitened import learn_whitened


@inner
def begin_online(params: Records, s: State, own: Part, extras: Part) -> None:
    """X'X of the log and its root, and a state that knows no reward at all."""
    p, other = params[1], online(s)
    x, nothing = s.vectors[WORK], s.vectors[HALF]
    gram, root = s.square[LOG_GRAM], s.square[LOG_ROOT]
    gram[:] = 0.0
    root[:] = 0.0
    for i in range(root.shape[0]):
        root[i, i] = 1e-100  # a pivot of 0 would not be a number
    for a in range(s.counts.shape[1]):
        pulls = s.counts[LOGGED, a]
        if pulls == 0:
            continue
        x[:] = 0.0
        add_action(s, a, sqrt(float(pulls)), x)
        if s.run[0].one_hot == 1:
            gram[0, int(s.arms[PLACE, a])] = pulls * s.actions[0, a] ** 2
            continue
        for i in range(x.size):
            for j in range(x.size):
                gram[i, j] += x[i] * x[j]
        update_factor(root, nothing, x, 0.0, 0, x.size)
    copy(s.arms[PLACE], other.arms[PLACE])
    other.arms[LCB] = -inf
    other.run[0].rewards = 0
    refresh(p, other, None, extras)
    other.run[0].log_det_base = s.vectors.shape[1] * log(p.ridge)
    raise_bounds(p, other, None)
    if own is not None:
        for a in range(s.counts.shape[1]):
            bound_arm(p, other, a)


@compiled
def begin(
    params: Records,
    s: State,
    coin: Part,
    ledger: Part,
    shift: Part,
    own: Part,
    extras: Part,
) -> None:
    """Start from the log alone: theta_0, V_0, C_1, and the baseline r_b of eq. (4)."""
    p, r = params[0], s.run[0]
    (rows, k), d = s.actions.shape, s.vectors.shape[1]
    xbar = s.vectors[XBAR]
    s.vectors[:] = 0.0
    clear(s.arms[SEEN:])
    s.arms[LCB] = -inf
    clear(s.counts[PENDING : MIXED + 1])
    r.rounds = r.rewards = r.logged = r.fresh = r.practised = r.turns = 0
    r.logged_rewards = r.earlier_baselines = r.premium = r.premiums = 0.0
    for a in range(k):
        pulls = s.counts[LOGGED, a]
        s.arms[SEEN, a] = pulls
        s.arms[SUMS, a] = s.arms[OFFLINE_SUMS, a]
        r.logged += pulls
        r.logged_rewards += s.arms[OFFLINE_SUMS, a]
        add_action(s, a, float(pulls), xbar)
    for i in range(d):
        xbar[i] /= max(r.logged, 1)
    if p.gate == CONSERVATIVE and p.fallback == FIXED_ARM:
        xbar[:] = 0.0
        add_action(s, p.fixed_arm, 1.0, xbar)
    r.longest = 0.0
    for a in range(k):
        square = 0.0
        for i in range(rows):
            square += float(s.actions[i, a]) * float(s.actions[i, a])
        r.longest = max(r.longest, square)
    if shift is not None:
        begin_online(params, s, own, extras)
    refresh(p, s, shift, extras)
    if r.whitened == 1:
        gather_sums(p, s)
    r.log_det_base = r.log_det if p.prior_is_log == 1 else d * log(p.ridge)
    raise_bounds(p, s, shift)
    if p.fallback == FROZEN_ARM:  # nobody else reads them
        copy(s.arms[LCB], s.arms[FIRST_LCB])
    r.scorings = 0
    if extras is not None:
        keep_scores(p, s, shift)
        if p.explorer == LOGISTIC:
            fit_clicks(p, s)
    if own is not None:
        for a in range(k):
            bound_arm(p, s, a)
    open_ledger(p, r, ledger)
    if coin is not None:
        open_control(p, r)
    if r.logged == 0:
        r.slack, r.baseline = inf, -inf  # nothing was promised: the budget is open
        return
    radius = r.radius + p.shift * sqrt(float(r.logged))  # |X V^-1 a| is at most the width of a
    r.slack = radius * sqrt(d / r.logged)
    if p.coverage_slack == 2:
        r.slack = radius / sqrt(float(r.logged))
    elif p.coverage_slack == 1:
        logged_width = 0.0
        for a in range(k):
            logged_width += s.counts[LOGGED, a] * s.arms[WIDTH, a]
        r.slack = radius * logged_width / r.logged
    r.baseline = s.arms[LCB, best(s.arms[LCB])] - p.alpha * r.slack


@inner
def add_excess(p: Any, s: State, arm: int) -> None:
    """Z grows by the action, less what it is compared with: practice's action, or xbar."""
    r, excess = s.run[0], s.vectors[EXCESS]
    xbar = s.vectors[XBAR if r.premium == 0.0 else PRACTICE_MEAN]
    if r.one_hot == 1:
        add_action(s, arm, 1.0, excess)
        if p.gate == CONTROL:
            add_action(s, r.entry_practice, -1.0, excess)
            return
        for i in range(excess.size):
            excess[i] -= xbar[i]
        return
    for i in range(excess.size):
        owed = s.actions[i, r.entry_practice] if p.gate == CONTROL else xbar[i]
        excess[i] += s.actions[i, arm] - owed


@compiled
def commit(params: Records, s: State, arm: int, mixture: bool, coin: Part, ledger: Part) -> None:
    """Count a decision when it is made: budgets do not wait for its reward."""
    p, r = params[0], s.run[0]
    if r.whitened == 0:
        add_action(s, arm, 1.0, s.vectors[PLAYED])
    s.arms[PLAYS, arm] += 1.0
    if coin is not None:
        keep_ticket(s, arm)
        enter_coin_play(p, r, coin_odds(r))
    r.rounds += 1
    r.fresh = r.coin_thrown = 0
    if mixture:  # counts as xbar itself: its rounding is nobody's to spend (H1)
        s.counts[MIXED, arm] += 1
        s.counts[PENDING_MIXTURE, arm] += 1
        r.turns += 1 if r.premium > 0.0 else 0
    else:
        s.counts[PENDING, arm] += 1
        if r.whitened == 0:  # else no gate reads Z
            add_excess(p, s, arm)
    if coin is None and (mixture or p.keeps_ledger == 1):
        enter_play(p, r, mixture, ledger)
    elif p.gate == CONSERVATIVE and not is_baseline(p, arm):
        r.explored_plays += 1


@compiled
def observe(
    params: Records,
    s: State,
    arm: int,
    mixture: bool,
    reward: float,
    error: float,
    played: bool,
    coin: Part,
    ledger: Part,
    shift: Part,
    own: Part,
    extras: Part,
    budget: Part,
) -> None:
    """Count a reward when it arrives: V_t, theta_t, the bounds, and what it pays for.

    A decision that is not `played` yet is committed first. With an `error` above 0 the reward stands in for
    one that was lost, and may be wrong by as much. The ledger then waits for ever: what it counts for a
    pending reward is the worst.
    """
    p, r = params[0], s.run[0]
    if not played:
        commit(params, s, arm, mixture, coin, ledger)
    s.arms[SEEN, arm] += 1.0
    s.arms[SUMS, arm] += reward
    if r.one_hot == 1:
        growth = learn_one_hot(p, s, arm, reward, extras)
    elif budget is not None and r.whitened == 1:
        growth = learn_whitened(p, s, arm, reward, error)
    else:
        growth = learn_arm(p, s, arm, reward, shift)
    if p.memory > 0 and p.fade == 0.0:
        s.arms[RECENT_SEEN, arm] += 1.0
        s.arms[RECENT_SUMS, arm] += reward
    s.counts[PENDING_MIXTURE if mixture else PENDING, arm] -= 1
    s.arms[LOST, arm] += error
    if own is not None:
        bound_arm(p, s, arm)
    if error == 0.0:  # a lost reward is pending for ever in the books of a promise
        if coin is not None:
            enter_coin_reward(p, r, reward)
        if coin is None and (mixture or p.keeps_ledger == 1):
            enter_reward(p, r, reward, mixture, ledger)
    if extras is not None and p.memory > 0 and r.rewards % p.memory == 0:
        forget(p, s, shift, extras)
    elif is_worn(r, growth):
        renew(p, s, growth, reward, shift, extras)
    elif (p.keeps_factor == 1 or r.slices > 0) and r.one_hot == 0:
        update_factor(s.square[FACTOR], s.vectors[HALF], s.vectors[WORK], reward, 0, s.vectors.shape[1])
    if shift is not None:
        observe_online(params, s, arm, reward, error, own, extras)
    if r.whitened == 0 or r.since_refresh == 0 or r.lost_sum > 0.0:  # else `learn_whitened` did
        raise_bounds(p, s, shift)
    if extras is not None:
        keep_scores(p, s, shift)
        if p.explorer == LOGISTIC and error == 0.0:
            learn_clicks_of_arm(p, s, arm, 1.0, clicks_of(p, reward, 1.0))


@inner
def observe_online(
    params: Records, s: State, arm: int, reward: float, error: float, own: Part, extras: Part
) -> None:
    """What the reward says without the log."""
    p, other = params[1], online(s)
    other.arms[SEEN, arm] += 1.0
    other.arms[SUMS, arm] += reward
    other.arms[LOST, arm] += error
    if s.run[0].one_hot == 1:
        growth = learn_one_hot(p, other, arm, reward, extras)
    else:
        growth = learn_arm(p, other, arm, reward, None)
    if is_worn(other.run[0], growth):
        refresh(p, other, None, extras)
    if own is not None:
        bound_arm(p, other, arm)
    raise_bounds(p, other, None)


@compiled
def meet_arms(params: Records, s: State, first: int) -> None:
    """What the estimate says of the arms from `first` on, O(d^2) each; lower bounds are current ones."""
    p, r = params[0], s.run[0]
    x, step = s.vectors[WORK], s.vectors[STEP]
    if r.whitened == 1:
        refresh(p, s, None, None)
        for a in range(first):
            s.arms[WIDTH, a] = sqrt(s.arms[VARIANCE, a])
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.lost_radius
    r.fresh = 0
    for a in range(first, s.arms.shape[1]):
        x[:] = 0.0
        add_action(s, a, 1.0, x)
        if r.whitened == 0:
            solve(s, x, step)
            if r.one_hot == 0:
                refine(s, x, step, 0, x.size)
            s.arms[MEAN, a] = dot(s.vectors[THETA], x)
            s.arms[VARIANCE, a] = max(dot(x, step), 0.0)
        s.arms[WIDTH, a] = sqrt(s.arms[VARIANCE, a])
        s.arms[LCB, a] = s.arms[MEAN, a] - (r.radius + r.lost_radius) * s.arms[WIDTH, a]
        s.arms[FIRST_LCB, a] = s.arms[LCB, a]
        r.longest = max(r.longest, dot(x, x))


@compiled
def lose_arms(params: Records, s: State, ledger: Part) -> None:
    """Go on without the arms that are not allowed any more: another practice, a baseline that can be kept."""
    p, r = params[0], s.run[0]
    xbar, left = s.vectors[PRACTICE_MEAN], 0
    r.restricted, r.fresh = 1, 0
    for a in range(s.arms.shape[1]):
        left += s.counts[LOGGED, a] * s.counts[ALLOWED, a]
    if left < (r.logged if r.premium == 0.0 else r.practised):
        xbar[:] = 0.0
        for a in range(s.arms.shape[1]):
            s.counts[PRACTICE_PULLS, a] = s.counts[LOGGED, a] * s.counts[ALLOWED, a]
            s.counts[MIXED, a] = 0
            add_action(s, a, s.counts[PRACTICE_PULLS, a] / max(left, 1), xbar)
        r.practised, r.turns, r.premium = left, 0, r.logged / max(left, 1) - 1.0
        if ledger is not None and p.joint == 1:
            secure_surplus(p, r, 0, True)
    if p.gate == BUDGET and r.logged > 0:
        safe = pessimistic(s, s.arms[FIRST_LCB] if p.fallback == FROZEN_ARM else s.arms[LCB])
        if s.arms[LCB, safe] < r.baseline:
            r.earlier_baselines += r.rounds * (r.baseline - s.arms[LCB, safe])
            r.baseline = s.arms[LCB, safe]


@compiled
def play(
    params: Records,
    s: State,
    means: Floats,  # (segments, k)
    starts: Ints,  # (segments,) the first round of each, from 0
    first: int,  # which round the first one here is
    noise: Floats,  # (n,) or uniforms for rewards of two values
    two_point: bool,  # rewards are low or low + spread, and no other
    low: float,
    spread: Floats,  # (k,) what the noise of an arm is multiplied by, or the step between its two values
    randoms: Floats,  # (n, d) normals, (n, k) scores, or (n, 0): what the explorer draws at each commit
    coins: Floats,  # (n, 2) uniforms, or (n, 0): what the gate draws at each commit
    arms: Ints,  # (n,) out
    sources: Ints,  # (n,) out
    fallbacks: Ints,  # (n,) out
    rails: Rails | None,
    coin: Part,
    ledger: Part,
    shift: Part,
    own: Part,
    extras: Part,
    budget: Part,
    draws: Part,
    model: Part,
) -> None:
    """Play n rounds against a known world: the loop of Algorithm 1."""
    p, r = params[0], s.run[0]
    segment = 0
    if rails is not None and rails.told.theta.shape[1] > 0:
        told_compare(rails.told, rails.rows, rails.weights)
    for t in range(noise.size):
        while segment + 1 < starts.size and starts[segment + 1] <= first + t:
            segment += 1
        mean, proposal = means[segment], -1
        if rails is not None:
            rails_measure(rails.params, rails.books, s.run)
            if rails.told.theta.shape[1] > 0:
                told, rows, weights = rails.told, rails.rows, rails.weights
                if coin is None:
                    measure_room(p, s, ledger, shift, own, model, budget)
                reaches = coin is None and p.reach == AFFORDABLE
                proposal = propose_told(
                    params, s, told, rails.books, rows, weights, shift, extras, draws, extras, reaches
                )
        arm = decide(params, s, proposal, coin, ledger, shift, own, extras, budget, draws, model)
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        mixture = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
        if rails is not None:
            rails_commit(rails.params, rails.books, s.run, mixture)
        commit(params, s, arm, mixture, coin, ledger)
        if coin is not None:
            r.practice_draw, r.coin = coins[t, 0], coins[t, 1]
        if p.draws == NORMAL_DRAWS:
            copy(randoms[t], s.vectors[NORMALS])
        elif p.draws == SCORE_DRAWS:
            copy(randoms[t], s.arms[GIVEN_SCORES])
        elif p.draws == ONE_DRAW:
            s.vectors[NORMALS, 0] = randoms[t, 0]
        reward = mean[arm] + spread[arm] * noise[t]
        if two_point:
            reward = low + spread[arm] if noise[t] * spread[arm] < mean[arm] - low else low
        observe(params, s, arm, mixture, reward, 0.0, True, coin, ledger, shift, own, extras, budget)
        if rails is not None:
            for j in range(rails.books.size):
                value = rails_value(rails, j, rails.means[segment, j, arm], rails.draws[t, j], two_point)
                centre = rails.books[j].entry_centre
                rails_observe(rails.params, rails.books, j, r.entry, r.entry_share, centre, value, mixture)
                rails.told.limits[VALUE, j] = value
            if rails.told.theta.shape[1] > 0:
                learn_metrics(rails.told, 0, rails.books.size, rails.rows[arm])
