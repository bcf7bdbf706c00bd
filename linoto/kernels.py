"""All compiled code: the arithmetic of every policy, written once.

The simulator's loop (`play`) and one decision at a time (`decide`, `commit`, `observe`) run the same
functions on the same state, so both give the same arms bit for bit. Everything is in this one file because
a cached function does not notice that a function it calls in *another* file has changed.

Shapes: k arms, d features. Rows of the packed arrays have names (`s.arms[LCB]`); few arrays make a call from
Python cheap. Nothing here checks its input: the agent does, once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sqrt
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]

# What a rule is called in Params. Codes and branches, not function arguments: those would never be cached.
UCB, THOMPSON, GREEDY, UNIFORM = range(4)  # explorer
OPEN, CLOSED, BUDGET = range(3)  # gate
EXACT, AGGREGATE, MAX = range(3)  # form of the budget
PROPOSAL, AFFORDABLE = range(2)  # reach
LCB_ARM, FROZEN_ARM, FIXED_ARM = range(3)  # fallback
FROM_EXPLORER, FROM_LCB, FROM_MIXTURE, FROM_FIXED = range(4)  # source of the decided arm

PARAMS = np.dtype(
    [
        ("explorer", np.int64),
        ("scale", np.float64),  # of the optimistic or sampled bonus
        ("gate", np.int64),
        ("form", np.int64),
        ("reach", np.int64),
        ("fallback", np.int64),
        ("fixed_arm", np.int64),
        ("alpha", np.float64),  # eq. (4)
        ("coverage_slack", np.int64),  # 1: S is averaged over the log, 0: the paper's sqrt(d/m)
        ("noise", np.float64),
        ("ridge", np.float64),
        ("radius_fixed", np.float64),  # the part that does not grow: offline radius and ridge bias
        ("radius_level", np.float64),  # 2 log(2/delta) or 2 log(1/delta)
        ("prior_is_log", np.int64),  # 1: log det is counted from V_0 and beta_1 = 0; 0: from ridge * I
    ]
)

RUN = np.dtype(
    [
        ("rounds", np.int64),  # commits so far; the next round is t = rounds + 1
        ("rewards", np.int64),  # rewards so far
        ("since_refresh", np.int64),
        ("logged", np.int64),  # m, rows in the log
        ("log_det", np.float64),  # log det V_t
        ("log_det_base", np.float64),  # log det of what the radius counts from
        ("radius", np.float64),  # sqrt(rho_t)
        ("slack", np.float64),  # S
        ("baseline", np.float64),  # r_b, eq. (4)
        ("restricted", np.int64),  # 1: only the arms in counts[ALLOWED] may be played
        ("fresh", np.int64),  # 1: nothing happened since the decision below
        ("arm", np.int64),  # -1: refused, and no safe arm is allowed
        ("explored", np.int64),
        ("source", np.int64),
        ("proposal", np.int64),  # U_t
        ("fallback", np.int64),  # L_t, or -1
        ("room", np.float64),  # B(t) of the arm the gate was asked about
    ]
)

GRAM, INVERSE, FACTOR, ROOT, ROOT_T = range(5)  # rows of State.square: V, V^-1, L with V = L L', scratch
# rows of State.vectors: b, theta, the mean logged action, the sum of all played ones, xi, scratch
TARGET, THETA, XBAR, PLAYED, NORMALS, STEP, WORK = range(7)
(
    OFFLINE_SUMS,  # logged reward per arm
    PLAYS,  # commits per arm, as floats for the dot product of the budget
    MEAN,  # <theta, a>
    VARIANCE,  # |a|^2 in V^-1
    WIDTH,  # its root
    LCB,  # the best lower bound so far
    FIRST_LCB,  # lower bounds from the log alone
    SCORE,  # what the explorer makes of each arm
    ROOM,  # what the gate makes of each arm: affordable where positive
    UNIFORMS,
    CROSS,  # A V^-1 x, scratch of observe
) = range(11)  # rows of State.arms
LOGGED, PENDING, ALLOWED = range(3)  # rows of State.counts

REFRESH_EVERY = 512  # rewards; keeps |V V^-1 - I| near 1e-14 for about 2 % of the time
REFRESH_ABOVE = 10.0  # 1 + x'V^-1 x from which one rank-one step costs digits


class State(NamedTuple):
    """Everything an agent needs to continue, besides its generator."""

    actions: Floats  # (d, k) one column per arm: the long loops run over arms
    square: Floats  # (5, d, d)
    vectors: Floats  # (7, d)
    arms: Floats  # (11, k)
    counts: Ints  # (3, k)
    run: Records  # (1,) of RUN


F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile with an on-disk cache, or without one where no folder is writable.

    `_nrt=False` leaves reference counting out: a third of the time of a round went into counting views of
    arrays, and an allocation in a kernel is now a compile error (docs/adr/0004).
    """
    options: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
    try:
        return cast(F, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(F, numba.njit(**options)(function))


def allocate(actions: Floats, pulls: Ints, reward_sums: Floats) -> State:
    """An empty state for these arms (k, d) and their log; `begin` fills it."""
    k, d = actions.shape
    state = State(
        actions=np.ascontiguousarray(actions.T),
        square=np.zeros((5, d, d)),
        vectors=np.zeros((7, d)),
        arms=np.zeros((11, k)),
        counts=np.zeros((3, k), dtype=np.int64),
        run=np.zeros(1, dtype=RUN),
    )
    state.counts[LOGGED] = pulls
    state.counts[ALLOWED] = 1
    state.arms[OFFLINE_SUMS] = reward_sums
    return state


# -- estimate ---------------------------------------------------------------------------------------------


@compiled
def copy(source: Floats, out: Floats) -> None:
    """out[:] = source, without the allocation that NumPy's overlap check would bring."""
    for i in range(out.size):
        out[i] = source[i]


@compiled
def combine(rows: Floats, weights: Floats, out: Floats) -> None:
    """out = weights @ rows, four rows at a time: one pass over `out` for four of `rows`."""
    d, k = rows.shape
    out[:] = 0.0
    i = 0
    while i + 4 <= d:
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for a in range(k):
            out[a] += w0 * r0[a] + w1 * r1[a] + w2 * r2[a] + w3 * r3[a]
        i += 4
    while i < d:
        w0, r0 = weights[i], rows[i]
        for a in range(k):
            out[a] += w0 * r0[a]
        i += 1


@compiled
def dot(x: Floats, y: Floats) -> float:
    """<x, y> in four running sums."""
    n = x.size
    s0 = s1 = s2 = s3 = 0.0
    i = 0
    while i + 4 <= n:
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        s0 += x[i] * y[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def factorise(gram: Floats, ridge: float, factor: Floats) -> float:
    """Cholesky: fill the lower `factor` and return log det.

    V = ridge * I + (positive semidefinite), so no pivot is below ridge in exact arithmetic: the floor only
    undoes rounding, and an ill-conditioned log can never give a NaN.
    """
    d = gram.shape[0]
    log_det = 0.0
    for i in range(d):
        for j in range(i):
            factor[i, j] = (gram[i, j] - dot(factor[i, :j], factor[j, :j])) / factor[j, j]
        pivot = max(gram[i, i] - dot(factor[i, :i], factor[i, :i]), ridge)
        factor[i, i] = sqrt(pivot)
        factor[i, i + 1 :] = 0.0
        log_det += log(pivot)
    return log_det


@compiled
def refresh(p: Any, s: State) -> None:
    """Recompute everything from V and b, exactly as a fresh start would: rank-one steps drift."""
    d, k = s.actions.shape
    factor, inverse = s.square[FACTOR], s.square[INVERSE]
    s.run[0].log_det = factorise(s.square[GRAM], p.ridge, factor)
    s.run[0].since_refresh = 0
    root, upper = s.square[ROOT], s.square[ROOT_T]  # L^-1 and its transpose
    root[:] = 0.0
    for i in range(d):
        root[i, i] = 1.0 / factor[i, i]
        for j in range(i):
            root[i, j] = -dot(factor[i, j:i], root[j:i, j]) / factor[i, i]
    for i in range(d):
        for j in range(d):
            upper[i, j] = root[j, i]
    for i in range(d):
        for j in range(i + 1):
            inverse[i, j] = dot(upper[i, i:], upper[j, i:])
            inverse[j, i] = inverse[i, j]
    theta, half = s.vectors[THETA], s.vectors[WORK]
    for i in range(d):
        half[i] = dot(root[i, : i + 1], s.vectors[TARGET, : i + 1])
    for i in range(d):
        theta[i] = dot(upper[i, i:], half[i:])
    combine(s.actions, theta, s.arms[MEAN])
    variance, row = s.arms[VARIANCE], s.arms[CROSS]
    variance[:] = 0.0
    for i in range(d):
        combine(s.actions[: i + 1], root[i, : i + 1], row)
        for a in range(k):
            variance[a] += row[a] * row[a]


@compiled
def update_factor(factor: Floats, x: Floats) -> None:
    """Cholesky of L L' + x x' in O(d^2), destroying x: Thompson's sampling needs the factor every round."""
    d = x.size
    for j in range(d):
        pivot = sqrt(factor[j, j] ** 2 + x[j] ** 2)
        cosine, sine = pivot / factor[j, j], x[j] / factor[j, j]
        factor[j, j] = pivot
        for i in range(j + 1, d):
            factor[i, j] = (factor[i, j] + sine * x[i]) / cosine
            x[i] = cosine * x[i] - sine * factor[i, j]


@compiled
def radius(p: Any, s: State) -> float:
    """sqrt(rho_t) of Proposition 1, or of the radius chosen in its place."""
    r = s.run[0]
    if p.prior_is_log == 1 and r.rewards == 0:
        return float(p.radius_fixed)  # beta_1 = 0
    growth = max(r.log_det - r.log_det_base, 0.0)
    return float(p.radius_fixed + p.noise * sqrt(p.radius_level + growth))


@compiled
def raise_bounds(p: Any, s: State) -> None:
    """The widths of C_t, and lcb_t = max over t' <= t, eq. (3)."""
    bonus = radius(p, s)
    s.run[0].radius = bonus
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    for a in range(mean.size):
        width[a] = sqrt(variance[a])
        lower = mean[a] - bonus * width[a]
        lcb[a] = lower if lower > lcb[a] else lcb[a]


@compiled
def begin(params: Records, s: State) -> None:
    """Start from the log alone: theta_0, V_0, C_1, and the baseline r_b of eq. (4)."""
    p, r = params[0], s.run[0]
    d, k = s.actions.shape
    gram, target, xbar = s.square[GRAM], s.vectors[TARGET], s.vectors[XBAR]
    gram[:] = 0.0
    s.vectors[:] = 0.0
    s.arms[PLAYS:] = 0.0
    s.arms[LCB] = -inf
    s.counts[PENDING] = 0
    r.rounds = r.rewards = r.logged = r.fresh = 0
    x = s.vectors[WORK]
    for a in range(k):
        pulls = s.counts[LOGGED, a]
        if pulls == 0:
            continue
        r.logged += pulls
        copy(s.actions[:, a], x)
        for i in range(d):
            target[i] += s.arms[OFFLINE_SUMS, a] * x[i]
            xbar[i] += pulls * x[i]
            for j in range(d):
                gram[i, j] += pulls * x[i] * x[j]
    for i in range(d):
        gram[i, i] += p.ridge
        xbar[i] /= max(r.logged, 1)
    refresh(p, s)
    r.log_det_base = r.log_det if p.prior_is_log == 1 else d * log(p.ridge)
    raise_bounds(p, s)
    copy(s.arms[LCB], s.arms[FIRST_LCB])
    if r.logged == 0:
        r.slack, r.baseline = inf, -inf  # nothing was promised: the budget is open
        return
    r.slack = r.radius * sqrt(d / r.logged)
    if p.coverage_slack == 1:
        logged_width = 0.0
        for a in range(k):
            logged_width += s.counts[LOGGED, a] * s.arms[WIDTH, a]
        r.slack = r.radius * logged_width / r.logged
    r.baseline = s.arms[LCB, best(s.arms[LCB])] - p.alpha * r.slack


@compiled
def commit(params: Records, s: State, arm: int) -> None:
    """Count a decision when it is made: budgets do not wait for its reward."""
    r = s.run[0]
    aggregate = s.vectors[PLAYED]
    for i in range(aggregate.size):
        aggregate[i] += s.actions[i, arm]
    s.arms[PLAYS, arm] += 1.0
    s.counts[PENDING, arm] += 1
    r.rounds += 1
    r.fresh = 0


@compiled
def observe(params: Records, s: State, arm: int, reward: float) -> None:
    """Count a reward when it arrives: V_t, theta_t and the bounds by one rank-one step, O(d^2 + kd)."""
    p, r = params[0], s.run[0]
    d, k = s.actions.shape
    gram, inverse = s.square[GRAM], s.square[INVERSE]
    target, theta, step, x = s.vectors[TARGET], s.vectors[THETA], s.vectors[STEP], s.vectors[WORK]
    mean, variance, cross = s.arms[MEAN], s.arms[VARIANCE], s.arms[CROSS]
    for i in range(d):
        x[i] = s.actions[i, arm]
    combine(inverse, x, step)  # V^-1 x, by symmetry
    growth = 1.0 + dot(x, step)  # det V_t / det V_{t-1}
    gain = (reward - mean[arm]) / growth
    combine(s.actions, step, cross)
    for i in range(d):
        target[i] += reward * x[i]
        theta[i] += gain * step[i]
        pull, shrink = x[i], step[i] / growth
        gram_row, inverse_row = gram[i], inverse[i]
        for j in range(d):
            gram_row[j] += pull * x[j]
            inverse_row[j] -= shrink * step[j]
    shrink = 1.0 / growth
    for a in range(k):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        variance[a] = left if left > 0.0 else 0.0
    r.log_det += log(growth)
    r.rewards += 1
    r.since_refresh += 1
    r.fresh = 0
    s.counts[PENDING, arm] -= 1
    if r.since_refresh >= REFRESH_EVERY or not 1.0 <= growth <= REFRESH_ABOVE:
        refresh(p, s)
    elif p.explorer == THOMPSON:
        update_factor(s.square[FACTOR], x)
    raise_bounds(p, s)


@compiled
def update(params: Records, s: State, arm: int, reward: float) -> None:
    """A decision and its reward at once."""
    commit(params, s, arm)
    observe(params, s, arm, reward)


# -- decide -----------------------------------------------------------------------------------------------


@compiled
def best(values: Floats) -> int:
    """The first index of the largest value."""
    arm, top = 0, values[0]
    for a in range(1, values.size):
        if values[a] > top:
            arm, top = a, values[a]
    return arm


@compiled
def score_arms(p: Any, s: State) -> None:
    """What the explorer makes of every arm."""
    mean, score = s.arms[MEAN], s.arms[SCORE]
    if p.explorer == UCB:
        bonus, width = p.scale * s.run[0].radius, s.arms[WIDTH]
        for a in range(mean.size):
            score[a] = mean[a] + bonus * width[a]
    elif p.explorer == THOMPSON:
        spread, draw = p.scale * p.noise, s.vectors[STEP]  # theta + spread * L'^-1 xi
        copy(s.vectors[NORMALS], draw)
        factor = s.square[FACTOR]
        for i in range(draw.size - 1, -1, -1):
            draw[i] /= factor[i, i]
            for j in range(i):
                draw[j] -= factor[i, j] * draw[i]
        combine(s.actions, draw, score)
        for a in range(mean.size):
            score[a] = mean[a] + spread * score[a]
    elif p.explorer == GREEDY:
        copy(mean, score)
    else:
        copy(s.arms[UNIFORMS], score)


@compiled
def lower_bound(s: State, y: Floats) -> float:
    """inf over C_t of <theta, y>."""
    image = s.vectors[STEP]
    combine(s.square[INVERSE], y, image)
    return float(dot(s.vectors[THETA], y) - s.run[0].radius * sqrt(max(dot(y, image), 0.0)))


@compiled
def measure_budget(p: Any, s: State) -> None:
    """B(t) of eq. (5) for every arm a in the place of U_t: sum_s lcb_t(A_s) + lcb_t(a) - t r_b."""
    r = s.run[0]
    lcb, room = s.arms[LCB], s.arms[ROOM]
    due = (r.rounds + 1) * r.baseline  # t r_b
    past = -inf
    if p.form != AGGREGATE:
        past = dot(s.arms[PLAYS], lcb)  # equal arms grouped: the sum over s < t is a dot product
    if p.form != EXACT:
        past = max(past, lower_bound(s, s.vectors[PLAYED]))
    for a in range(lcb.size):
        room[a] = past + lcb[a] - due
    if p.form == MAX:
        join_aggregate(s, due)


@compiled
def join_aggregate(s: State, due: float) -> None:
    """Raise the room of each arm to the lower bound of its sum with all past actions, minus t r_b."""
    total, image, cross = s.vectors[PLAYED], s.vectors[STEP], s.arms[CROSS]
    mean, variance, room = s.arms[MEAN], s.arms[VARIANCE], s.arms[ROOM]
    combine(s.square[INVERSE], total, image)
    combine(s.actions, image, cross)
    base, square, bonus = dot(s.vectors[THETA], total), dot(total, image), s.run[0].radius
    for a in range(room.size):
        joint = base + mean[a] - bonus * sqrt(max(square + 2.0 * cross[a] + variance[a], 0.0)) - due
        room[a] = joint if joint > room[a] else room[a]


@compiled
def measure_room(p: Any, s: State) -> None:
    """What the gate makes of every arm: it is affordable where its room is positive."""
    if p.gate == OPEN or (p.gate == BUDGET and s.run[0].logged == 0):
        s.arms[ROOM] = inf
    elif p.gate == CLOSED:
        s.arms[ROOM] = -inf
    else:
        measure_budget(p, s)


@compiled
def best_affordable(score: Floats, room: Floats) -> int:
    """The first best score among the arms with room, or -1."""
    arm, top = -1, -inf
    for a in range(score.size):
        if room[a] > 0.0 and (arm < 0 or score[a] > top):
            arm, top = a, score[a]
    return arm


@compiled
def pessimistic(s: State, lcb: Floats) -> int:
    """L_t, eq. (3): the arm with the best lower bound; of those allowed, -1 unless it keeps the baseline."""
    r = s.run[0]
    if r.restricted == 0:
        return best(lcb)
    arm = -1
    for a in range(lcb.size):
        if s.counts[ALLOWED, a] == 1 and (arm < 0 or lcb[a] > lcb[arm]):
            arm = a
    return arm if s.arms[LCB, arm] >= r.baseline else -1


@compiled
def fall_back(p: Any, s: State) -> int:
    """The safe arm, or -1 where none is allowed."""
    if p.fallback == LCB_ARM:
        return pessimistic(s, s.arms[LCB])
    if p.fallback == FROZEN_ARM:
        return pessimistic(s, s.arms[FIRST_LCB])
    return p.fixed_arm if s.counts[ALLOWED, p.fixed_arm] == 1 else -1


@compiled
def decide(params: Records, s: State, proposal: int) -> int:
    """Algorithm 1: score the arms, keep the affordable ones, play the best of them or else the fallback.

    `proposal` is somebody else's arm, or -1 to ask the explorer. Writes the whole decision into s.run.
    """
    p, r = params[0], s.run[0]
    score, room = s.arms[SCORE], s.arms[ROOM]
    measure_room(p, s)
    if proposal < 0:
        score_arms(p, s)
    if r.restricted == 1:
        for a in range(score.size):
            if s.counts[ALLOWED, a] == 0:
                score[a] = room[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)  # U_t
    r.fallback = fall_back(p, s)  # L_t
    if p.reach == AFFORDABLE and proposal < 0:
        r.arm = best_affordable(score, room)
    else:
        r.arm = r.proposal if room[r.proposal] > 0.0 else -1  # B(t) > 0
    r.explored = 1 if r.arm >= 0 else 0
    r.room = room[r.arm] if r.explored == 1 else room[r.proposal]
    r.source = FROM_EXPLORER
    if r.explored == 0:
        r.arm = r.fallback
        r.source = FROM_FIXED if p.fallback == FIXED_ARM else FROM_LCB
    r.fresh = 1
    return int(r.arm)


# -- simulate ---------------------------------------------------------------------------------------------


@compiled
def play(
    params: Records,
    s: State,
    means: Floats,  # (k,)
    draws: Floats,  # (n,) additive noise, or uniforms for Bernoulli rewards
    bernoulli: bool,
    randoms: Floats,  # (n, d) normals, (n, k) uniforms, or (n, 0): what the explorer draws at each commit
    arms: Ints,  # (n,) out
    explored: Bools,  # (n,) out
) -> None:
    """Play n rounds against a known world: the loop of Algorithm 1."""
    p = params[0]
    for t in range(draws.size):
        arm = decide(params, s, -1)
        arms[t] = arm
        explored[t] = s.run[0].explored == 1
        commit(params, s, arm)
        if p.explorer == THOMPSON:
            copy(randoms[t], s.vectors[NORMALS])
        elif p.explorer == UNIFORM:
            copy(randoms[t], s.arms[UNIFORMS])
        reward = means[arm] + draws[t]
        if bernoulli:
            reward = 1.0 if draws[t] < means[arm] else 0.0
        observe(params, s, arm, reward)
