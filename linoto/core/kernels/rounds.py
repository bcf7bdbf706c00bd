"""Contexts: every round brings its own arms.

The rules of the other files on a State whose actions, arms and counts are those of one round: explorer, gate
and coin see no difference. What lasts is in square, vectors and run, and a reward brings its own action. XBAR
is what practice does in this round; R is kept after every reward, since widths of arms are computed from it.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

import numpy as np

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.clicks import begin_clicks_of_rounds, clicks_of, learn_clicks
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.control import (
    coin_odds,
    enter_coin_play,
    enter_coin_reward,
    foresee,
    foreseen_gain,
    open_control,
    preference,
    throw_coin,
)
from linoto.core.kernels.deciding import choose
from linoto.core.kernels.estimate import (
    add_action,
    block_begin,
    block_end,
    copy,
    dot,
    extent,
    in_fours,
    invert,
    is_worn,
    join_blocks,
    learn,
    noise_radius,
    online,
    solve,
    update_factor,
    whiten,
)
from linoto.core.kernels.explorers import best, cap_scores, score_arms
from linoto.core.kernels.gates import (
    is_certified,
    measure_room,
    measure_without_log,
    tell_online,
    vouched_room,
)
from linoto.core.kernels.hybrid import (
    begin_hybrid,
    follow,
    forget_hybrid,
    learn_hybrid,
    read_factor,
    rotate_in,
)
from linoto.core.kernels.layout import (
    ARM_ROWS,
    COUNT_ROWS,
    EXCESS,
    EXPLORED_PLAY,
    FACTOR,
    FROM_CONTROL,
    FROM_LCB,
    FROM_MIXTURE,
    GIVEN_SCORES,
    GRAM,
    HALF,
    INVERSE,
    LCB,
    LCB_ARM,
    LIFT,
    LOGISTIC,
    MEAN,
    MIXTURE,
    NORMALS,
    OPEN,
    PLACE,
    RECENT_FACTOR,
    RECENT_HALF,
    REFINED,
    RESIDUE,
    ROOM,
    SCORE,
    SCORE_DRAWS,
    SMALL_PART,
    STEP,
    TARGET,
    THE_MODEL,
    THETA,
    UCB,
    VALUE,
    WIDTH,
    WORK,
    XBAR,
    Part,
    Rails,
    State,
)
from linoto.core.kernels.layout import lost_row as where_lost
from linoto.core.kernels.measuring import (
    measure_all,
)
from linoto.core.kernels.rails import rails_commit, rails_measure, rails_observe, rails_value
from linoto.core.kernels.sampling import noise_share
from linoto.core.kernels.told import learn_metrics, propose_among, propose_told, told_compare

lost_row = inner(where_lost)


@compiled
def context_begin(params: Records, s: State, rows: Floats, outcomes: Floats, coin: Part, shift: Part) -> None:
    """Start from the log alone: `rows` (n, d) with `outcomes` (n,) have its X'X and X'y; destroys rows."""
    p = params[0]
    if p.explorer == LOGISTIC:
        begin_clicks_of_rounds(p, s, rows, outcomes)
    if shift is not None:
        begin_estimate(params[1], online(s), rows[:0], outcomes[:0])
    begin_estimate(p, s, rows, outcomes)
    if p.memory > 0 and p.fade == 0.0:
        begin_recent(p, s)
    widen_all(params, s, shift)
    if coin is not None:
        open_control(p, s.run[0])


@inner
def begin_estimate(p: Any, s: State, rows: Floats, outcomes: Floats) -> None:
    """V and theta of these rows, whose X'X is there already; destroys them."""
    r, d = s.run[0], s.vectors.shape[1]
    factor, half = s.square[FACTOR], s.vectors[HALF]
    for i in range(d):
        factor[i, i] = sqrt(p.ridge)
        s.square[GRAM, i, i] += p.ridge
    if r.border > 0:
        begin_hybrid(p, s, rows, outcomes)
    else:
        for j in range(outcomes.size):
            first, last = extent(rows[j])
            update_factor(factor, half, rows[j], outcomes[j], first, block_end(s, last - 1))
        invert(s)
    r.log_det_base = r.log_det if p.prior_is_log == 1 else d * log(p.ridge)


@inner
def begin_recent(p: Any, s: State) -> None:
    """Least squares that know no reward yet, beside those of the estimate."""
    factor = s.square[RECENT_FACTOR]
    factor[:] = 0.0
    s.vectors[RECENT_HALF] = 0.0
    for i in range(factor.shape[0]):
        factor[i, i] = sqrt(p.ridge)


@inner
def forget_rounds(p: Any, s: State) -> None:
    """Drop what is older than the last `memory` rewards, and what was lost so far: V = R'R of those alone."""
    r, d = s.run[0], s.vectors.shape[1]
    gram, factor, target, half = s.square[GRAM], s.square[FACTOR], s.vectors[TARGET], s.vectors[HALF]
    for i in range(d):
        copy(s.square[RECENT_FACTOR, i], factor[i])
    copy(s.vectors[RECENT_HALF], half)
    gram[:] = 0.0
    target[:] = 0.0
    begin_recent(p, s)
    r.lost_sum = r.lost_squares = 0.0
    s.square[lost_row(s)] = 0.0
    if r.border > 0:
        forget_hybrid(s)
    else:
        for i in range(d):
            end = block_end(s, i)
            for j in range(i, end):
                target[j] += factor[i, j] * half[i]
                for column in range(i, end):
                    gram[j, column] += factor[i, j] * factor[i, column]
        invert(s)
    if p.prior_is_log == 1:
        r.log_det_base = r.log_det


@inner
def fade_rounds(p: Any, s: State) -> None:
    """Let all that was learnt weigh `fade` times as much, the ridge aside: V = fade V + (1 - fade) ridge I.

    The square root of that is R with d more rows, O(d^3), or the cubes of its blocks.
    """
    r, d, border, fade, lost = s.run[0], s.vectors.shape[1], s.run[0].border, p.fade, s.square[lost_row(s)]
    gram, factor, half, x = s.square[GRAM], s.square[FACTOR], s.vectors[HALF], s.vectors[WORK]
    for i in range(d):
        s.vectors[TARGET, i] *= fade
        half[i] *= sqrt(fade)
        for j in range(d):
            gram[i, j] *= fade
            lost[i, j] *= fade
            factor[i, j] *= sqrt(fade)
    r.lost_sum *= fade
    r.lost_squares *= fade
    for i in range(d):
        gram[i, i] += (1.0 - fade) * p.ridge
        x[:] = 0.0
        x[i] = sqrt((1.0 - fade) * p.ridge)
        if border == 0:
            update_factor(factor, half, x, 0.0, i, block_end(s, i))
        elif i < border:
            rotate_in(factor, half, x, 0.0, i, block_end(s, i), border)
        else:
            rotate_in(factor, half, x, 0.0, border, border, border)
    if border > 0:
        read_factor(s)
        r.lost_trace = 0.0
        for i in range(d if r.lost_sum > 0.0 else 0):
            solve(s, lost[i], x)
            r.lost_trace += x[i]
    else:
        invert(s)
    if p.prior_is_log == 1:
        r.log_det_base = min(r.log_det_base, r.log_det)


@inner
def widen(p: Any, s: State, lost: Floats) -> None:
    """The radii of C_t, with what stand-ins for lost rewards may have moved the estimate, in the norm of V.

    Those are the rows x of X, each wrong by at most e: |X'e| in V^-1 is at most |e|, since X'X is part of V,
    and at most sqrt(sum of e times trace of V^-1 L), L = sum of e x x', which falls as others arrive.
    """
    r = s.run[0]
    r.lost_radius = 0.0
    if r.lost_sum > 0.0:
        trace = r.lost_trace if r.border > 0 else lost_trace(s, lost)
        r.lost_radius = sqrt(min(r.lost_squares, r.lost_sum * max(trace, 0.0)))
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.lost_radius


@inner
def lost_trace(s: State, lost: Floats) -> float:
    """The trace of V^-1 L."""
    trace, d = 0.0, s.vectors.shape[1]
    for i in range(d):
        first = block_begin(s, i)
        first -= first % 4
        last = in_fours(first, block_end(s, i), d)
        trace += dot(s.square[INVERSE, i, first:last], lost[i, first:last])
    return trace


@inner
def widen_all(params: Records, s: State, shift: Part) -> None:
    """The radii of the estimate, and of that without the log where it may have moved."""
    widen(params[0], s, s.square[lost_row(s)])
    if shift is not None:
        other = online(s)
        other.run[0].lost_sum, other.run[0].lost_squares = s.run[0].lost_sum, s.run[0].lost_squares
        widen(params[1], other, s.square[lost_row(s)])


@compiled
def context_widen(params: Records, s: State, shift: Part) -> None:
    """The radii anew, for who changed what they depend on."""
    widen_all(params, s, shift)


@compiled
def context_follow(s: State) -> None:
    """theta, where it is behind what R has learnt."""
    follow(s)


@compiled
def frame_arms(rows: Floats, places: Floats, border: int) -> int:
    """How many features from `places` (k,) on hold all of each arm (k, d) before `border` that is not 0.

    All of them where it is more than half. Places are multiples of four, where sums may begin without a bit
    of change.
    """
    width = 0
    for a in range(rows.shape[0]):
        first, last = extent(rows[a, :border])
        first -= first % 4
        places[a] = first
        width = max(width, (last - first + 3) // 4 * 4)
        if 2 * width > border:
            places[:] = 0.0
            return border
    return width


@compiled
def cut_arms(rows: Floats, places: Floats, border: int, columns: Floats) -> None:
    """The features of each arm (k, d) from its place on and from `border` on, one column (w, k) for each."""
    d = rows.shape[1]
    own = columns.shape[0] - (d - border)
    for a in range(rows.shape[0]):
        place = int(places[a])
        row = rows[a, place:]
        for i in range(own):
            columns[i, a] = row[i] if place + i < border else 0.0
        for i in range(border, d):
            columns[own + i - border, a] = rows[a, i]


@inner
def only_weight(weights: Floats) -> int:
    """The arm that has all the weight; -1 where several have some."""
    only = 0
    while only < weights.size - 1 and weights[only] == 0.0:
        only += 1
    for a in range(only + 1, weights.size):
        if weights[a] != 0.0:
            return -1
    return only


@inner
def mix_arms(s: State, weights: Floats, out: Floats) -> None:
    """out = the sum of all arms, each times its weight, in the four sums of `dot`."""
    if s.actions.shape[0] == out.size:
        for i in range(out.size):
            out[i] = dot(s.actions[i], weights)
        return
    k, only = weights.size, only_weight(weights)
    if only >= 0:
        out[:] = 0.0
        add_action(s, only, weights[only], out)
        return
    sums = s.vectors[STEP], s.vectors[WORK], s.vectors[RESIDUE], s.vectors[REFINED]
    for total in sums:
        total[:] = 0.0
    for a in range(k):
        if weights[a] != 0.0:
            add_action(s, a, weights[a], sums[a % 4 if a < k - k % 4 else 0])
    for i in range(out.size):
        out[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i])


@inner
def draw_for_arms(p: Any, s: State) -> None:
    """What the explorer draws for every arm, if it does."""
    if p.draws == SCORE_DRAWS:
        draw_scores(s.vectors[NORMALS, 0], s.arms[GIVEN_SCORES])


@inner
def draw_scores(seed: float, scores: Floats) -> None:
    """Uniform scores from one uniform number (splitmix64): how many arms come is not known before."""
    state = np.uint64(seed * 9007199254740992.0)  # 2^53
    for a in range(scores.size):
        state += np.uint64(0x9E3779B97F4A7C15)
        bits = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        scores[a] = (bits >> np.uint64(11)) / 9007199254740992.0


@compiled
def draw_arm(weights: Floats, draw: float) -> int:
    """An arm by its weight, or -1 where all are 0; `draw` is uniform in [0, 1)."""
    total = 0.0
    for a in range(weights.size):
        total += weights[a]
    left, arm = draw * total, -1
    for a in range(weights.size):
        if weights[a] > 0.0:
            arm = a
            left -= weights[a]
            if left < 0.0:
                break
    return arm


@inner
def fall_back_on_practice(params: Records, s: State, offered: int, shift: Part) -> None:
    """The pessimistic arm where that is the fallback, always or while it is proven; practice's otherwise."""
    p, r = params[0], s.run[0]
    if p.fallback == MIXTURE:
        return
    mean, width, lcb = s.arms[MEAN], s.arms[WIDTH], s.arms[LCB]
    bonus = r.radius + r.lost_radius
    for a in range(lcb.size):
        lcb[a] = mean[a] - bonus * width[a] if a < offered else -inf
    if shift is not None:
        raise_without_log(s, offered)
    arm = best(lcb)
    certified = p.fallback == LCB_ARM or is_certified(p, s, arm, shift)
    if shift is not None and not certified:  # by the estimate with the log or by that without it
        tell_online(s)
        certified = is_certified(params[1], online(s), arm, None)
    if certified:
        r.fallback, r.fallback_source = arm, FROM_LCB


@inner
def raise_without_log(s: State, offered: int) -> None:
    """The better lower bound of two: with the log and all that it may have moved, and without the log."""
    other, lcb = online(s), s.arms[LCB]
    mean, width, bonus = other.arms[MEAN], other.arms[WIDTH], other.run[0].radius + other.run[0].lost_radius
    for a in range(offered):
        lcb[a] = max(lcb[a] - s.arms[LIFT, a], mean[a] - bonus * width[a])


@compiled
def context_decide(
    params: Records,
    s: State,
    whitened: Floats,
    weights: Floats,
    offered: int,
    proposal: int,
    coin: Part,
    shift: Part,
) -> int:
    """The rules of `decide` for the arms of this round, of which the first `offered` may be proposed.

    `weights` (k,) are practice's; they are all 0 where there is none. `whitened` (d, k) is scratch.
    """
    if s.run[0].coin_thrown == 1:
        return int(s.run[0].arm)
    look_at_arms(params, s, whitened, shift)
    return decide_measured(params, s, weights, offered, proposal, coin, shift)


@inner
def look_at_arms(params: Records, s: State, whitened: Floats, shift: Part) -> None:
    """What is known of the arms of this round."""
    p = params[0]
    if s.run[0].behind == 1 and (p.by_model == 1 or p.loan_from == THE_MODEL):
        follow(s)
    measure_all(params, s, whitened, shift)


@compiled
def context_propose(
    params: Records, s: State, whitened: Floats, accepted: Ints, offered: int, shift: Part
) -> int:
    """What the explorer proposes of the accepted arms (k,), of which it destroys the marks."""
    look_at_arms(params, s, whitened, shift)
    draw_for_arms(params[0], s)
    return propose_among(params, s, accepted, offered, shift, None, 1, 1)


@inner
def preferred_by_estimates(p: Any, s: State, weights: Floats, offered: int) -> float:
    """How much rather than elsewhere practice should be played: by the best arm, and what practice has else.

    Whichever arms explorer and practice draw, so that a propensity needs no other share.
    """
    if p.share >= 0.0:
        return 1.0
    mean, favourite = s.arms[MEAN], best(s.arms[MEAN, :offered])
    total, weight = 0.0, 0.0
    for a in range(weights.size):
        if a != favourite:
            total, weight = total + weights[a] * mean[a], weight + weights[a]
    practice = total / weight if weight > 0.0 else mean[favourite]
    return preference(p, s.run[0], mean[favourite], practice)


@inner
def gains_little(p: Any, s: State, arm: int, practice: int) -> bool:
    """Whether this arm is hoped to gain too little on practice's to be worth a coin.

    Each coin makes what is known of practice's sum less certain, whatever its round gains: it is thrown where
    the estimates, and one deviation more that is known of the arm than of practice's, promise a part of what
    explored plays are foreseen to gain.
    """
    least = SMALL_PART * foreseen_gain(s.run[0]) * p.unit
    if p.gives_way == 0 or arm == practice or not least > 0.0:
        return False
    mean, width = s.arms[MEAN], s.arms[WIDTH]
    unknown = p.noise * noise_share(p, s.run[0]) * (width[arm] - width[practice])
    return bool(mean[arm] - mean[practice] + max(unknown, 0.0) < least)


@compiled
def context_gains(params: Records, s: State, arm: int, givers: Ints, takers: Ints) -> None:
    """Of arms that were looked at: which would give way to practice's `arm`, and to which `arm` would."""
    for a in range(givers.size):
        givers[a] = 1 if gains_little(params[0], s, a, arm) else 0
        takers[a] = 1 if gains_little(params[0], s, arm, a) else 0


@inner
def decide_measured(
    params: Records, s: State, weights: Floats, offered: int, proposal: int, coin: Part, shift: Part
) -> int:
    """Decide about arms that were looked at."""
    p, r = params[0], s.run[0]
    score, room = s.arms[SCORE], s.arms[ROOM]
    mix_arms(s, weights, s.vectors[XBAR])
    if coin is None:
        measure_room(p, s, None, shift, None, 1, None)
        if shift is not None and p.gate != OPEN:
            measure_without_log(params, s, None, None, 1, None)
        for a in range(offered, room.size):
            room[a] = -inf
    if proposal < 0:
        draw_for_arms(p, s)
        score_arms(p, s, offered, shift, None, 1, 1)
        if shift is not None and p.explorer == UCB:
            cap_scores(params, s)
        for a in range(offered, score.size):
            score[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)
    r.fallback, r.fallback_source = draw_arm(weights, r.practice_draw), FROM_MIXTURE
    if coin is not None:
        vouched = vouched_room(p, s, shift, 1)
        if shift is not None and p.loan_from == THE_MODEL:
            tell_online(s)
            vouched = max(vouched, vouched_room(params[1], online(s), None, 1))
        little = proposal < 0 and gains_little(p, s, r.proposal, r.fallback)
        throw_coin(p, r, vouched, little, preferred_by_estimates(p, s, weights, offered))
        return int(r.arm)
    fall_back_on_practice(params, s, offered, shift)
    choose(p, s, proposal)
    return int(r.arm)


@compiled
def context_commit(
    params: Records, s: State, action: Floats, practice: Floats, by_practice: bool, coin: Part
) -> None:
    """Count a decision when it is made; a play by practice is owed nothing."""
    p, r, excess = params[0], s.run[0], s.vectors[EXCESS]
    if coin is not None:
        if p.share < 0.0 and r.entry == EXPLORED_PLAY:
            if r.behind == 1:
                follow(s)
            theta = s.vectors[THETA]
            foresee(p, r, dot(theta, action), dot(theta, practice))
        enter_coin_play(p, r, coin_odds(r))
    r.rounds += 1
    r.fresh = r.coin_thrown = 0
    if not by_practice:
        for i in range(excess.size):
            excess[i] += action[i] - practice[i]


@inner
def learn_row(p: Any, s: State, action: Floats, reward: float) -> float:
    """V, R and theta after the reward of an action: det V_t / det V_{t-1}.

    An action inside a block of V costs the square of that block; one across several makes one block of them.
    """
    x, z, factor = s.vectors[WORK], s.vectors[REFINED], s.square[FACTOR]
    copy(action, x)
    copy(action, z)
    first, last = extent(x)
    join_blocks(s, first, last)
    begin, end = block_begin(s, first), block_end(s, first)
    whiten(factor, z, first, end)
    _, growth = learn(p, s, x, begin, end, dot(s.vectors[THETA], x), dot(z, z), reward, s.blocks)
    update_factor(factor, s.vectors[HALF], x, reward, first, end)
    return growth


@inner
def lose_row(s: State, action: Floats, error: float) -> None:
    """What is known of a reward that is lost: its stand-in is wrong by at most `error`."""
    r, lost = s.run[0], s.square[lost_row(s)]
    first, _ = extent(action)
    begin, end = block_begin(s, first), block_end(s, first)
    r.lost_sum += error
    r.lost_squares += error * error
    for i in range(begin, end):
        for j in range(begin, end):
            lost[i, j] += error * action[i] * action[j]


@inner
def write_arm(s: State, arm: int, out: Floats) -> None:
    """out = all features of an arm of this round."""
    d, rows = out.size, s.actions.shape[0]
    border = s.run[0].border if s.run[0].border > 0 else d
    own, place = rows - (d - border), int(s.arms[PLACE, arm])
    out[:] = 0.0
    for i in range(min(own, border - place)):
        out[place + i] = s.actions[i, arm]
    for i in range(own, rows):
        out[d - rows + i] = s.actions[i, arm]


@compiled
def context_observe(
    params: Records,
    s: State,
    action: Floats,
    practice: Floats,
    arm: int,
    compared: int,
    by_practice: bool,
    reward: float,
    error: float,
    played: bool,
    coin: Part,
    shift: Part,
) -> None:
    """Count the reward of an action, or with an `error` above 0 what stands in for it, O(d^2).

    So is its play, as by `context_commit`, unless it was `played` before. `arm` and `compared` are the arms
    of this round that are the action and practice, and are written there; or -1, where these are known.
    """
    if arm >= 0:
        write_arm(s, arm, action)
    if not played:
        owed = not by_practice and (
            arm < 0 or arm != compared
        )  # what is compared with itself is owed nothing
        if owed and compared >= 0:
            write_arm(s, compared, practice)
        context_commit(params, s, action, practice, not owed, coin)
    p, r, x, growth = params[0], s.run[0], s.vectors[WORK], 1.0
    if r.border > 0:
        learn_hybrid(p, s, action, reward, error)
    else:
        growth = learn_row(p, s, action, reward)
        if error > 0.0:
            lose_row(s, action, error)
        copy(action, x)
        if p.memory > 0 and p.fade == 0.0:
            factor, half, (first, _) = s.square[RECENT_FACTOR], s.vectors[RECENT_HALF], extent(x)
            update_factor(factor, half, x, reward, first, block_end(s, first))
        elif p.explorer == LOGISTIC and error == 0.0:
            learn_clicks(p, s, x, 1.0, clicks_of(p, reward, 1.0))
    if error == 0.0 and coin is not None:
        enter_coin_reward(p, r, reward)
    if p.memory > 0 and r.rewards % p.memory == 0:
        if p.fade > 0.0:
            fade_rounds(p, s)
        else:
            forget_rounds(p, s)
    elif is_worn(r, growth):
        invert(s)
    if shift is not None:
        other = online(s)
        if is_worn(other.run[0], learn_row(params[1], other, action, reward)):
            invert(other)
    widen_all(params, s, shift)


@inner
def context_pay(
    params: Records,
    s: State,
    reward: float,
    practice: Floats,
    action: Floats,
    coins: Floats,
    randoms: Floats,
    coin: Part,
    shift: Part,
) -> None:
    """Commit the decision in s.run, draw for the next round, and observe: what an agent does in `update`."""
    r = s.run[0]
    by_practice = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
    if r.coin_thrown == 0:
        r.entry_share = r.entry_centre = 0.0
    context_commit(params, s, action, practice, by_practice, coin)
    r.practice_draw, r.coin = coins[0], coins[1]
    for i in range(randoms.size):
        s.vectors[NORMALS, i] = randoms[i]
    context_observe(params, s, action, practice, -1, -1, by_practice, reward, 0.0, True, coin, shift)


@compiled
def context_play(
    params: Records,
    s: State,  # its arms and counts have room for the largest round
    ends: Ints,  # (n,) where the arms of each round end
    actions: Floats,  # (arms, d) those of all rounds
    weights: Floats,  # (arms,) practice's
    means: Floats,  # (arms,)
    draws: Floats,  # (n,) noise, or uniforms for rewards of 0 and 1
    two_point: bool,  # rewards are 0 or 1
    randoms: Floats,  # (n, d) normals, (n, 1) uniforms or (n, 0): what the explorer draws at each commit
    coins: Floats,  # (n, 2) uniforms: what practice and the gate draw at each commit
    scratch: Floats,  # (2, d most) for a round of `most` arms
    arms: Ints,  # (n,) out
    sources: Ints,  # (n,) out
    fallbacks: Ints,  # (n,) out
    rails: Rails | None,
    coin: Part,
    shift: Part,
) -> None:
    """Play n rounds that bring their own arms, in a known world."""
    r, d, begin, rows = s.run[0], actions.shape[1], 0, s.arms.shape[0]
    for t in range(ends.size):
        k, border = ends[t] - begin, r.border if r.border > 0 else d
        table = s.arms.reshape(-1)[: rows * k].reshape((rows, k))
        table[PLACE] = 0.0
        if shift is not None:
            table[len(ARM_ROWS) + PLACE] = 0.0
        own = border
        if r.split == 1:
            own = frame_arms(actions[begin : ends[t]], table[PLACE], border)
        width = own + d - border
        columns = scratch[0, : width * k].reshape((width, k))
        whitened = scratch[1, : d * k].reshape((d, k))
        cut_arms(actions[begin : ends[t]], table[PLACE], border, columns)
        counts = s.counts.reshape(-1)[: len(COUNT_ROWS) * k].reshape((len(COUNT_ROWS), k))
        now = State(columns, s.square, s.vectors, table, counts, s.run, s.blocks)
        look_at_arms(params, now, whitened, shift)
        proposal, practised = -1, weights[begin : ends[t]]
        if rails is not None:
            rails_measure(rails.params, rails.books, s.run)
            if rails.told.theta.shape[1] > 0:
                told, books, offered = rails.told, rails.books, rails.rows[begin : ends[t]]
                told_compare(told, offered, practised)
                draw_for_arms(params[0], now)
                proposal = propose_told(
                    params, now, told, books, offered, practised, shift, None, 1, 1, False
                )
        arm = decide_measured(params, now, practised, k, proposal, coin, shift)
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        mean = means[begin + arm]
        reward = mean + draws[t]
        if two_point:
            reward = 1.0 if draws[t] < mean else 0.0
        practice = s.vectors[XBAR]
        if coin is not None:
            practice = actions[begin + r.fallback]
        mixture = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
        if rails is not None:
            if r.coin_thrown == 0:
                r.entry_share = 0.0
            rails_commit(rails.params, rails.books, s.run, mixture)
        action = actions[begin + arm]
        context_pay(params, now, reward, practice, action, coins[t], randoms[t], coin, shift)
        if rails is not None:
            for j in range(rails.books.size):
                value = rails_value(rails, j, rails.means[begin + arm, j], rails.draws[t, j], two_point)
                centre = rails.books[j].entry_centre
                rails_observe(rails.params, rails.books, j, r.entry, r.entry_share, centre, value, mixture)
                rails.told.limits[VALUE, j] = value
            if rails.told.theta.shape[1] > 0:
                learn_metrics(rails.told, 0, rails.books.size, rails.rows[begin + arm])
        begin = ends[t]
