"""All compiled code: the arithmetic of every policy, written once.

The simulator's loop (`play`) and one decision at a time (`decide`, `commit`, `observe`) run the same
functions on the same state, so both give the same arms bit for bit. Everything is in this one file because
a cached function does not notice that a function it calls in *another* file has changed.

Shapes: k arms, d features. Rows of the packed arrays have names (`s.arms[LCB]`); few arrays make a call from
Python cheap. Nothing here checks its input: the agent does, once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, expm1, inf, log, log1p, sqrt
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from linoto.core.units import Units, dense, find_units

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]

BETS = 12  # betting fractions of the bounded-reward boundary
TILTS = 20  # exponential tilts of the bounded-reward reference
HEAD_START = 50.0  # w, rounds' worth of variance in the mixture boundary b(q)
COIN_BETS = 16  # betting fractions of a Control gate: 0.9 / unit, each 0.6 of the one before
NO_LEVEL = -40.0  # below, a bet does not count beside the others
MOST_GROWN = 1e4  # times that a bet grows, or shrinks, before its logarithm is taken
PURSE, LEAST_SHARE = 4.0, 0.05  # of control plays: the more room is left, the fewer, never fewer than that
FEES, MOST_SHARE = 3.0, 0.9  # an entrance fee is a third of what may be lost, with no more control than that
CENTRE_WEIGHT, CENTRE_MEMORY = 20.0, 200.0  # rewards that the log's mean stands for; rewards remembered
LOG_START = 8.0  # the same for the reference: this part of the log's rows
TILT = 4.0 * 0.7 ** np.arange(TILTS)  # (TILTS,) the tilts l, and
GAP = -np.expm1(-TILT)  # 1 - exp(-l): constants once compiled
NEWTON_STEPS = 40  # at most: three or four are enough from where the last reward left off

# What a rule is called in Params. Codes and branches, not function arguments: those would never be cached.
UCB, THOMPSON, GREEDY, GIVEN, RARE = range(5)  # explorer; the last two take the scores in the state
UCB1, HUCB1, MIN_UCB = range(100, 103)  # explorers of one-hot arms
POSTERIOR, AGRAWAL_GOYAL, ABEILLE_LAZARIC = range(3)  # how wide Thompson sampling draws
NO_DRAWS, NORMAL_DRAWS, SCORE_DRAWS = range(3)  # what an explorer draws at each commit: nothing, (d,), (k,)
OPEN, CLOSED, BUDGET, TOLERANCE, CONTROL, CONSERVATIVE = range(6)  # gate
EXACT, AGGREGATE, MAX = range(3)  # form of the budget
JOINT, SEPARATE, BY_ARM = range(3)  # form of a Conservative gate
PROPOSAL, AFFORDABLE = range(2)  # reach
LCB_ARM, FROZEN_ARM, FIXED_ARM, MIXTURE, CERTIFIED = range(5)  # fallback; the last is lcb or mixture
FROM_EXPLORER, FROM_LCB, FROM_MIXTURE, FROM_FIXED, FROM_CONTROL = range(5)  # source of the decided arm
NO_ENTRY, PRACTICE_PLAY, EXPLORED_PLAY, CONTROL_PLAY, UNASKED_PLAY = range(5)  # a play in the control ledger
NOBODY, THE_LOG, THE_MODEL = range(3)  # who vouches for the loan of a Control gate

PARAMS = np.dtype(
    [
        ("explorer", np.int64),
        ("draws", np.int64),
        ("keeps_factor", np.int64),  # 1: the explorer reads R, so that it follows every reward
        ("scale", np.float64),  # of the optimistic or sampled bonus
        ("estimates_noise", np.int64),  # 1: the explorer scores with the noise it sees, not the assumed one
        ("gate", np.int64),
        ("keeps_ledger", np.int64),  # 1: the gate counts every play and reward, not only the mixture's
        ("form", np.int64),
        ("reach", np.int64),
        ("fallback", np.int64),
        ("fixed_arm", np.int64),
        ("alpha", np.float64),  # eq. (4)
        ("coverage_slack", np.int64),  # S: 0 the paper's sqrt(d/m), 1 averaged over the log, 2 sqrt(1/m)
        ("horizon", np.float64),  # rounds whose alpha S a Budget credits in advance; 0: none
        ("noise", np.float64),
        ("memory", np.int64),  # rewards after which the explorer forgets older ones; 0: never
        ("ridge", np.float64),
        ("bias", np.float64),  # sqrt(ridge) bound, or 0 where the paper leaves it out
        ("radius_fixed", np.float64),  # the offline part of the radius
        ("radius_level", np.float64),  # 2 log(2/delta) or 2 log(1/delta)
        ("fixed_radius", np.int64),  # 1: it does not grow with log det V
        ("floor", np.float64),  # no lower bound is below it
        ("log_shift", np.float64),  # how far an arm's mean may be from that in the log, by MIN-UCB
        ("shift", np.float64),  # how far logged means may have moved: the root mean square over the rows
        ("prior_is_log", np.int64),  # 1: log det is counted from V_0 and beta_1 = 0; 0: from ridge * I
        ("gate_fixed", np.float64),  # radius_fixed and radius_level at the gate's share of delta
        ("gate_level", np.float64),
        ("budget", np.float64),  # what may be lost in all, and
        ("epsilon", np.float64),  # per round
        ("relative", np.int64),  # 1: both are shares of the reference
        ("realised", np.int64),  # 1: the promise is about rewards as they came, not about their means
        ("loose_bias", np.int64),  # 1: bound the ridge bias by sqrt(ridge) bound |y| alone
        ("by_model", np.int64),  # which evidence may open a Tolerance gate
        ("by_rewards", np.int64),
        ("averaged", np.int64),  # 1: the tilts of the reference are averaged; 0: the best of them is taken
        ("joint", np.int64),  # 1: explored plays and reference are bounded together; 0: each by itself
        ("bounded", np.int64),  # 1: every reward lies in [low, low + unit]
        ("low", np.float64),  # of mean rewards: what a pending reward is worth at least
        ("unit", np.float64),  # width of the reward range
        ("reward_level", np.float64),  # log(1/d1)
        ("reference_level", np.float64),  # log(1/d2)
        ("kappa", np.float64),  # rounding of the logging mixture
        ("share", np.float64),  # of control plays; 0: as the room asks for
        ("loan", np.float64),  # what evidence other than the coin's may spend beyond the coin's own
        ("vouched_by", np.int64),
        ("every", np.int64),  # rounds between the starts of stretches; 0: only the first round is one
        ("coin_level", np.float64),  # log(16/d), d the share of delta of the coin
        ("coin_stakes", np.float64, (COIN_BETS,)),  # log(16 w_j), w_j the share of the stake on bet j
        ("log_upper", np.float64),  # on mu_off, where the log vouches
        ("law", np.int64),  # of Thompson sampling's draws
        ("level", np.float64),  # log(1/delta)
        ("growth", np.float64),  # of log det V, from which on a RARE explorer scores anew
        ("baseline_known", np.int64),  # 1: what the baseline of a Conservative gate earns is known:
        ("baseline_mean", np.float64),
        ("arm_level", np.float64),  # log(2 k/d), d the share of delta of the bounds from arms' own rewards
    ]
)

RUN = np.dtype(
    [
        ("rounds", np.int64),  # commits so far; the next round is t = rounds + 1
        ("rewards", np.int64),  # rewards so far
        ("since_refresh", np.int64),
        ("one_hot", np.int64),  # 1: every arm is a scaled unit vector of a feature of its own
        ("longest", np.float64),  # largest |a|^2
        ("widest", np.float64),  # largest diagonal entry of V^-1 at the last refresh; it only falls
        ("logged", np.int64),  # m, rows in the log
        ("log_det", np.float64),  # log det V_t
        ("log_det_base", np.float64),  # log det of what the radius counts from
        ("radius", np.float64),  # sqrt(rho_t)
        ("gate_radius", np.float64),  # its noise part at the gate's share of delta
        (
            "doubt",
            np.float64,
        ),  # how much lost rewards may have moved the estimate; in gate_radius too
        ("lost_sum", np.float64),  # with contexts: how wrong stand-ins for lost rewards can be, summed, and
        ("lost_squares", np.float64),  # the same squared
        ("slack", np.float64),  # S
        ("baseline", np.float64),  # r_b, eq. (4)
        ("arrears", np.float64),  # what earlier, higher baselines add to t r_b
        ("logged_rewards", np.float64),  # sum of the logged rewards
        ("mixed", np.int64),  # mixture plays so far
        ("mixed_pending", np.int64),
        ("mixed_rewards", np.float64),  # sum of the observed rewards of mixture plays
        ("ventured", np.int64),  # q, all other plays so far
        ("pending", np.int64),  # of those, rewards still to come
        ("earned", np.float64),  # sum of the observed rewards of those plays
        ("premium", np.float64),  # above 0: practice lost arms, and earns at most 1 + premium times mu_off
        ("premiums", np.float64),  # the sum of it over all other plays, each at its time
        ("practised", np.int64),  # logged rows of practice's arms, and
        ("turns", np.int64),  # mixture plays, since then
        ("secured", np.float64),  # C, a lower bound on their summed means
        ("surplus", np.float64),  # joint: on the same with one more play, less `owed` times mu_off
        ("owed", np.float64),
        ("upper_reference", np.float64),  # on mu_off
        ("lower_reference", np.float64),
        ("bet_base", np.float64),  # u, the reference that bets are made against
        ("bets", np.float64, (BETS,)),  # log wealth of each bet
        ("border_sum", np.float64),  # where the joint bound was last found: the sum of means, and
        ("border_reference", np.float64),  # mu_off, with rewards rescaled to [0, 1]
        ("residuals", np.float64),  # summed squares of rewards around what was expected of them
        ("residual_count", np.float64),
        ("vetoed", np.int64),  # 1: realised rewards contradict the model, which has no say any more
        ("practice_draw", np.float64),  # uniform: which arm practice plays in the next round
        ("coin", np.float64),  # uniform: whether it is a control play
        ("thrown", np.int64),  # 1: the coin is thrown, and the decision below stands until it is committed
        ("centre", np.float64),  # c, about what practice earns now
        ("centre_weight", np.float64),
        (
            "upper_practice",
            np.float64,
        ),  # on what practice would have earned (expected: more) in explored rounds
        ("root", np.float64),  # S, where the bets reach 1/d
        ("root_is_known", np.int64),  # 1: since it was looked for, no bet changed, or all by the centre
        ("coin_bets", np.float64, (COIN_BETS,)),  # L_j, pending rewards at their worst
        ("coin_gains", np.float64, (COIN_BETS,)),  # L_j lacks log(1 + gain): plays multiply, without a log
        ("coin_hopes", np.float64, (COIN_BETS,)),  # what L_j would gain if they came at their best
        ("stretch_marks", np.float64, (COIN_BETS,)),  # W_j
        ("stretches", np.int64),
        ("entry", np.int64),  # the play, or the reward, at hand: what it is in the control ledger
        ("entry_share", np.float64),
        ("entry_centre", np.float64),
        ("entry_practice", np.int64),  # the arm that practice would have played
        ("scored_at", np.float64),  # log det V when a RARE explorer last scored the arms, and
        ("scorings", np.int64),  # how often it did
        ("restricted", np.int64),  # 1: only the arms in counts[ALLOWED] may be played
        ("fresh", np.int64),  # 1: nothing happened since the decision below
        ("arm", np.int64),  # -1: refused, and no safe arm is allowed
        ("explored", np.int64),
        ("source", np.int64),
        ("proposal", np.int64),  # U_t
        ("fallback", np.int64),  # L_t, or -1
        ("fallback_source", np.int64),
        ("room", np.float64),  # B(t) of the arm the gate was asked about
    ]
)

# Rows of the packed arrays, by name. Snapshots store the rows by these names: a new row goes anywhere, an old
# one keeps its name. SCRATCH rows hold nothing that lasts from one call to the next.
SQUARE_ROWS = ("gram", "inverse", "factor", "root", "root_t")  # V, V^-1, R with V = R'R, scratch
GRAM, INVERSE, FACTOR, ROOT, ROOT_T = range(5)
VECTOR_ROWS = (
    "target",  # b
    "theta",
    "half",  # R theta
    "xbar",  # the mean logged action, or the arm that a Conservative gate compares with
    "played",  # the sum of all played actions
    "excess",  # Z
    "normals",  # xi
    "practice",  # xbar of the arms that are left, once practice has lost one
    "step",
    "work",
    "residue",
    "refined",
)
(
    TARGET,
    THETA,
    HALF,
    XBAR,
    PLAYED,
    EXCESS,
    NORMALS,
    PRACTICE_MEAN,
    STEP,
    WORK,
    RESIDUE,
    REFINED,
) = range(12)
ARM_ROWS = (
    "offline_sums",  # logged reward per arm
    "place",  # its feature, where arms are one-hot
    "own_mean",  # of its rewards online, or with the log: what the explorers of one-hot arms score by
    "own_width",
    "pooled_mean",  # of all rewards and the shift, for MIN-UCB
    "pooled_width",  # for HUCB1, times the logged rewards
    "seen",  # rewards per arm, logged and online
    "sums",  # their sum
    "plays",  # commits per arm, as floats for the dot product of the budget
    "mean",  # <theta, a>
    "variance",  # |a|^2 in V^-1
    "width",  # its root
    "lcb",  # the best lower bound so far
    "first_lcb",  # lower bounds from the log alone
    "score",  # what the explorer makes of each arm
    "room",  # what the gate makes of each arm: affordable where positive
    "given",  # scores drawn or made outside the kernels
    "cross",  # A V^-1 x
    "lost",  # for each lost reward, the most that its stand-in can be wrong; summed
    "ticket",  # the only pending play of an arm as an entry of the control ledger; -1: there are several
    "ticket_share",
    "ticket_centre",
    "against",  # explored rounds in which practice would have played the arm
    "practice_upper",  # bounds on its mean from the log, where that vouches for a loan
    "practice_lower",
    "recent_seen",  # the part of `seen` and of `sums` that outlives the next forgetting
    "recent_sums",
    "arm_upper",  # bounds on its mean from all its own rewards, of a Conservative gate without a model
    "arm_lower",
)
(
    OFFLINE_SUMS,
    PLACE,
    OWN_MEAN,
    OWN_WIDTH,
    POOLED_MEAN,
    POOLED_WIDTH,
    SEEN,
    SUMS,
    PLAYS,
    MEAN,
    VARIANCE,
    WIDTH,
    LCB,
    FIRST_LCB,
    SCORE,
    ROOM,
    GIVEN_SCORES,
    CROSS,
    LOST,
    TICKET,
    TICKET_SHARE,
    TICKET_CENTRE,
    AGAINST,
    PRACTICE_UPPER,
    PRACTICE_LOWER,
    RECENT_SEEN,
    RECENT_SUMS,
    ARM_UPPER,
    ARM_LOWER,
) = range(29)
COUNT_ROWS = (
    "logged",
    "pending",
    "pending_mixture",
    "mixed",  # mixture plays; since practice last lost an arm
    "allowed",  # in this round; between calls, the arms that were not removed
    "practice",  # logged pulls, 0 where the arm was removed, once practice has lost one
)
LOGGED, PENDING, PENDING_MIXTURE, MIXED, ALLOWED, PRACTICE_PULLS = range(6)
ROWS = {"square": SQUARE_ROWS, "vectors": VECTOR_ROWS, "arms": ARM_ROWS, "counts": COUNT_ROWS}
COIN_ROWS = {"ticket", "ticket_share", "ticket_centre", "against", "practice_upper", "practice_lower"}
MEMORY_ROWS = {"recent_seen", "recent_sums"}
ARM_BOUND_ROWS = {"arm_upper", "arm_lower"}
GATE_ROWS = COIN_ROWS | ARM_BOUND_ROWS  # kept by some gates only
TALLIES = {"own_mean", "own_width", "pooled_mean", "pooled_width"}  # of counts and sums: made anew by `tally`
PRACTICE_ROWS = {"practice"}  # of vectors and of counts
# Where the log may have moved, a second state lies behind the rows above: that of online rewards alone. Then:
SHIFT_SQUARES = ("log_gram", "log_root")  # X'X of the logged rows X, and R_0 with R_0'R_0 = X'X
SHIFT_ARMS = ("moved", "lift", "move")  # |X V^-1 a|^2; shift sqrt(m) |X V^-1 a|; scratch: that of y + a
LOG_GRAM, LOG_ROOT = range(2 * len(SQUARE_ROWS), 2 * len(SQUARE_ROWS) + 2)
MOVED, LIFT, MOVE = range(2 * len(ARM_ROWS), 2 * len(ARM_ROWS) + 3)
ONLINE_ROWS = {  # of the second state, that rewards have taught; `tell_online` brings the others
    *("gram", "inverse", "target", "theta", "seen", "sums", "mean", "variance", "width", "lcb", "lost"),
    *("place", *ARM_BOUND_ROWS),
}
ONLINE_FIELDS = {
    *("rewards", "since_refresh", "one_hot", "widest", "log_det", "log_det_base"),
    *("radius", "gate_radius", "doubt"),
}
SCRATCH = {"root", "root_t", "step", "work", "residue", "refined", "score", "room", "cross", "move"}
DECIDED = (  # the fields of RUN that `decide` writes, and nothing later reads without deciding again
    "restricted",
    "fresh",
    "arm",
    "explored",
    "source",
    "proposal",
    "fallback",
    "fallback_source",
    "room",
    "entry",
    "entry_share",
    "entry_centre",
    "entry_practice",
)

REFRESH_EVERY = 512  # rewards; keeps |V V^-1 - I| near 1e-14 for about 2 % of the time
ROUNDING = 8 * 2.2e-16  # of a quadratic form in V^-1, relative to its largest entry
TINY = 1e-300  # times an infinite width it is infinite, where 0 would not be a number
STIFF = 1e-4  # share of the largest variance below which an arm's own needs refinement
REFRESH_ABOVE = 10.0  # 1 + x'V^-1 x from which one rank-one step costs digits


class State(NamedTuple):
    """Everything an agent needs to continue, besides its generator."""

    actions: Floats  # (d, k) one column per arm: the long loops run over arms; one-hot: (1, k) the scales
    square: Floats  # (rows, d, d); one-hot: (rows, 1, d) the diagonals, there is nothing else
    vectors: Floats  # (rows, d)
    arms: Floats  # (rows, k)
    counts: Ints  # (rows, k)
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


def allocate(actions: Floats, pulls: Ints, reward_sums: Floats, shifted: bool = False) -> State:
    """An empty state for these arms (k, d) and their log, which may have moved; `begin` fills it."""
    state = empty_state(actions, find_units(actions), shifted)
    state.counts[LOGGED] = pulls
    state.counts[ALLOWED] = 1
    state.arms[OFFLINE_SUMS] = reward_sums
    return state


def empty_state(actions: Floats, units: Units | None, shifted: bool = False) -> State:
    """Zeros for these arms: (k, d), of which nothing is read where they are given as units."""
    k, d = actions.shape if units is None else (units.scales.size, units.d)
    squares, rows = len(SQUARE_ROWS), len(ARM_ROWS)
    if shifted:
        squares, rows = 2 * squares + len(SHIFT_SQUARES), 2 * rows + len(SHIFT_ARMS)
    states = 2 if shifted else 1
    state = State(
        actions=np.ascontiguousarray(actions.T) if units is None else np.array(units.scales[None, :]),
        square=np.zeros((squares, d if units is None else 1, d)),
        vectors=np.zeros((states * len(VECTOR_ROWS), d)),
        arms=np.zeros((rows, k)),
        counts=np.zeros((len(COUNT_ROWS), k), dtype=np.int64),
        run=np.zeros(states, dtype=RUN),
    )
    if units is not None:
        state.arms[PLACE], state.run["one_hot"] = units.places, 1
    return state


def actions_of(s: State) -> Floats:
    """(k, d) the arms; of one-hot ones the compact form, where there is one."""
    if s.run[0]["one_hot"] == 0:
        return np.array(s.actions.T, order="C")  # a copy, with one arm or one feature too
    return dense(Units(s.arms[PLACE].astype(np.int64), s.actions[0], s.vectors.shape[1]))


def is_shifted(s: State) -> bool:
    """Whether the log of this state may have moved."""
    return s.run.size > 1


def row_names(shifted: bool) -> dict[str, tuple[str, ...]]:
    """The names of all rows in their order, those of the second state as `online_...`."""
    if not shifted:
        return ROWS
    online_rows = {group: tuple(f"online_{name}" for name in names) for group, names in ROWS.items()}
    return {
        "square": ROWS["square"] + online_rows["square"] + SHIFT_SQUARES,
        "vectors": ROWS["vectors"] + online_rows["vectors"],
        "arms": ROWS["arms"] + online_rows["arms"] + SHIFT_ARMS,
        "counts": ROWS["counts"],
    }


def lifts(s: State) -> Floats | float:
    """(k,) how far the log's shift may have moved the estimate of each arm; 0 without one."""
    return s.arms[LIFT] if is_shifted(s) else 0.0


def square_of(s: State, row: int) -> Floats:
    """(d, d) one of the square arrays, with all its zeros where arms are one-hot."""
    return np.diag(s.square[row, 0]) if s.run[0]["one_hot"] == 1 else s.square[row]


# -- estimate ---------------------------------------------------------------------------------------------


def online_part(s: State) -> State:
    """The state of online rewards alone, where the log may have moved."""
    squares, vectors, arms = len(SQUARE_ROWS), len(VECTOR_ROWS), len(ARM_ROWS)
    rows = s.arms[arms : 2 * arms]
    return State(s.actions, s.square[squares : 2 * squares], s.vectors[vectors:], rows, s.counts, s.run[1:])


online = compiled(online_part)


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
def solve(s: State, y: Floats, out: Floats) -> None:
    """out = V^-1 y."""
    if s.run[0].one_hot == 0:
        combine(s.square[INVERSE], y, out)
        return
    inverse = s.square[INVERSE, 0]
    for i in range(y.size):
        out[i] = inverse[i] * y[i]


@compiled
def project(s: State, v: Floats, out: Floats) -> None:
    """out = <a, v> for every arm a."""
    if s.run[0].one_hot == 0:
        combine(s.actions, v, out)
        return
    scale, place = s.actions[0], s.arms[PLACE]
    for a in range(out.size):
        out[a] = scale[a] * v[int(place[a])]


@compiled
def add_action(s: State, arm: int, weight: float, out: Floats) -> None:
    """out += weight a."""
    if s.run[0].one_hot == 1:
        out[int(s.arms[PLACE, arm])] += weight * s.actions[0, arm]
        return
    for i in range(out.size):
        out[i] += weight * s.actions[i, arm]


@compiled
def update_factor(factor: Floats, half: Floats, x: Floats, y: float) -> None:
    """Add a row x with outcome y to the least squares R theta = half, V = R'R, in O(d^2); destroys x."""
    d = x.size
    for j in range(d):
        row = factor[j]
        pivot = sqrt(row[j] * row[j] + x[j] * x[j])
        cosine, sine = row[j] / pivot, x[j] / pivot  # a Givens rotation of the row and x: stable
        row[j] = pivot
        for i in range(j + 1, d):
            row[i], x[i] = cosine * row[i] + sine * x[i], cosine * x[i] - sine * row[i]
        half[j], y = cosine * half[j] + sine * y, cosine * y - sine * half[j]


@compiled
def gather(p: Any, s: State) -> None:
    """b, V and the least squares R theta = half, V = R'R, from the counts and sums of each arm.

    However many rewards there were, no rounding piles up. R is built row by row from sqrt(ridge) I, never
    from V: where the log is silent V holds the ridge beside counts that drown it, and R does not. Its pivots
    only grow, so no log can give a NaN.
    """
    d, k = s.actions.shape
    gram, factor = s.square[GRAM], s.square[FACTOR]
    target, half, x = s.vectors[TARGET], s.vectors[HALF], s.vectors[WORK]
    gram[:] = 0.0
    factor[:] = 0.0
    target[:] = 0.0
    half[:] = 0.0
    for i in range(d):
        factor[i, i] = sqrt(p.ridge)
    for a in range(k):
        seen = s.arms[SEEN, a]
        if seen == 0.0:
            continue
        for i in range(d):
            x[i] = s.actions[i, a]
        for i in range(d):
            target[i] += s.arms[SUMS, a] * x[i]
            weight, row = seen * x[i], gram[i]
            for j in range(d):
                row[j] += weight * x[j]
        root = sqrt(seen)
        for i in range(d):
            x[i] *= root
        update_factor(factor, half, x, s.arms[SUMS, a] / root)
    for i in range(d):
        gram[i, i] += p.ridge


@compiled
def settle(p: Any, s: State, arm: int) -> None:
    """What is known of a one-hot arm, from its own counts: no other arm shares its feature."""
    i, scale, seen, total = int(s.arms[PLACE, arm]), s.actions[0, arm], s.arms[SEEN, arm], s.arms[SUMS, arm]
    gram = p.ridge + seen * scale * scale
    root = sqrt(gram)
    s.square[GRAM, 0, i], s.square[INVERSE, 0, i], s.square[FACTOR, 0, i] = gram, 1.0 / gram, root
    s.vectors[TARGET, i], s.vectors[HALF, i] = total * scale, total * scale / root
    s.vectors[THETA, i] = total * scale / gram
    s.arms[MEAN, arm] = scale * s.vectors[THETA, i]
    s.arms[VARIANCE, arm] = scale * scale / gram
    s.arms[WIDTH, arm] = abs(scale) / root
    if p.explorer >= UCB1:
        tally_arm(p, s, arm)
    if p.shift > 0.0:
        s.arms[MOVED, arm] = s.square[LOG_GRAM, 0, i] * (scale / gram) ** 2


@compiled
def tally_arm(p: Any, s: State, arm: int) -> None:
    """Mean and width, 1 / sqrt(n), of the rewards of one arm: n = 0 is infinitely wide."""
    seen, total, logged = s.arms[SEEN, arm], s.arms[SUMS, arm], float(s.counts[LOGGED, arm])
    own, own_total = seen, total
    if p.explorer != HUCB1:
        own, own_total = seen - logged, total - s.arms[OFFLINE_SUMS, arm]
    s.arms[OWN_MEAN, arm] = own_total / own if own > 0.0 else 0.0
    s.arms[OWN_WIDTH, arm] = 1.0 / sqrt(own) if own > 0.0 else inf
    if p.explorer == HUCB1:
        s.arms[POOLED_WIDTH, arm] = logged * s.arms[OWN_WIDTH, arm] if logged > 0.0 else 0.0
    elif p.explorer == MIN_UCB:
        s.arms[POOLED_MEAN, arm] = (total + logged * p.log_shift) / seen if logged > 0.0 else 0.0
        s.arms[POOLED_WIDTH, arm] = 1.0 / sqrt(seen) if logged > 0.0 else inf


@compiled
def tally(params: Records, s: State) -> None:
    """The same for every arm."""
    for a in range(s.arms[SEEN].size):
        tally_arm(params[0], s, a)


@compiled
def refresh_one_hot(p: Any, s: State) -> None:
    """The same where V is diagonal; a feature that no arm has keeps the ridge."""
    r, gram = s.run[0], s.square[GRAM, 0]
    gram[:] = p.ridge
    s.square[INVERSE] = 1.0 / p.ridge
    s.square[FACTOR] = sqrt(p.ridge)
    for a in range(s.arms[MEAN].size):
        settle(p, s, a)
    r.log_det = r.widest = 0.0
    r.since_refresh = 0
    for i in range(gram.size):
        r.log_det += log(gram[i])
        r.widest = max(r.widest, s.square[INVERSE, 0, i])


@compiled
def invert(s: State) -> None:
    """V^-1, theta and log det V from the least squares R theta = half."""
    r, d = s.run[0], s.vectors.shape[1]
    factor, inverse = s.square[FACTOR], s.square[INVERSE]
    upper, lower = s.square[ROOT], s.square[ROOT_T]  # R^-1 and its transpose
    r.log_det = 0.0
    r.since_refresh = 0
    r.widest = 0.0
    for i in range(d - 1, -1, -1):  # row i of R^-1 from the rows below it
        row = upper[i]
        combine(upper[i + 1 :], factor[i, i + 1 :], row)
        for j in range(d):
            row[j] = ((1.0 if i == j else 0.0) - row[j]) / factor[i, i]
            lower[j, i] = row[j]
        r.log_det += 2.0 * log(factor[i, i])
    for i in range(d):
        for j in range(i + 1):
            inverse[i, j] = inverse[j, i] = dot(upper[i, i:], upper[j, i:])
        r.widest = max(r.widest, inverse[i, i])
    theta, half = s.vectors[THETA], s.vectors[HALF]
    for i in range(d):
        theta[i] = dot(upper[i, i:], half[i:])


@compiled
def refresh_moved(s: State) -> None:
    """|X V^-1 a|^2 of every arm, from R_0 V^-1."""
    moved, row, image = s.arms[MOVED], s.vectors[STEP], s.arms[CROSS]
    moved[:] = 0.0
    for i in range(row.size):
        combine(s.square[INVERSE, i:], s.square[LOG_ROOT, i, i:], row)
        combine(s.actions, row, image)
        for a in range(moved.size):
            moved[a] += image[a] * image[a]


@compiled
def refresh(p: Any, s: State) -> None:
    """Recompute everything from the counts, exactly as a fresh start would: rank-one steps drift."""
    if s.run[0].one_hot == 1:
        refresh_one_hot(p, s)
        return
    gather(p, s)
    invert(s)
    d, k = s.actions.shape
    lower = s.square[ROOT_T]
    combine(s.actions, s.vectors[THETA], s.arms[MEAN])
    variance, row = s.arms[VARIANCE], s.arms[CROSS]
    variance[:] = 0.0
    for i in range(d):
        combine(s.actions[: i + 1], lower[i, : i + 1], row)
        for a in range(k):
            variance[a] += row[a] * row[a]
    if p.shift > 0.0:
        refresh_moved(s)


@compiled
def refine(s: State, x: Floats, step: Floats) -> None:
    """One step of iterative refinement of V^-1 x, for a log that knows some directions much better.

    V^-1 is as large as 1/ridge where the log is silent, and its rounding swamps the small variance of a
    well-known arm; the residual x - V step is computed from V, which is exact.
    """
    residue, change = s.vectors[RESIDUE], s.vectors[REFINED]
    combine(s.square[GRAM], step, residue)
    for i in range(x.size):
        residue[i] = x[i] - residue[i]
    combine(s.square[INVERSE], residue, change)
    for i in range(x.size):
        step[i] += change[i]


@compiled
def noise_radius(p: Any, s: State, fixed: float, level: float) -> float:
    """sqrt(rho_t) of Proposition 1, or of the radius chosen in its place, without the ridge bias."""
    r = s.run[0]
    if p.fixed_radius == 1 or (p.prior_is_log == 1 and r.rewards == 0):
        return fixed  # beta_1 = 0
    growth = max(r.log_det - r.log_det_base, 0.0)
    return float(fixed + p.noise * sqrt(level + growth))


@compiled
def raise_bounds(p: Any, s: State) -> None:
    """The widths of C_t, and lcb_t = max over t' <= t, eq. (3).

    A stand-in that is wrong by at most e moves theta by e |a| in V^-1, in the norm of V: these add up.
    """
    r = s.run[0]
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    if r.one_hot == 0:  # else `settle` did: a reward changes one of them
        for a in range(mean.size):
            width[a] = sqrt(variance[a])
    r.doubt = dot(s.arms[LOST], width)
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.doubt
    bonus = r.radius + r.doubt
    if p.shift > 0.0:
        raise_by_both(p, s, bonus)
        return
    for a in range(mean.size):
        lower = mean[a] - bonus * width[a]
        lower = lower if lower > p.floor else p.floor
        lcb[a] = lower if lower > lcb[a] else lcb[a]


@compiled
def raise_by_both(p: Any, s: State, bonus: float) -> None:
    """The better lower bound of two: with the log and all that it may have moved, and without the log."""
    mean, width, lcb, without = s.arms[MEAN], s.arms[WIDTH], s.arms[LCB], online(s).arms[LCB]
    moved, lift, scale = s.arms[MOVED], s.arms[LIFT], p.shift * sqrt(float(s.run[0].logged))
    for a in range(mean.size):
        lift[a] = scale * sqrt(moved[a])
        lower = max(mean[a] - bonus * width[a] - lift[a], p.floor)
        lcb[a] = max(lower, lcb[a], without[a])
        without[a] = lcb[a]  # what the gate asks both states about


@compiled
def forget(p: Any, s: State) -> None:
    """Drop what is older than the last `memory` rewards; what it taught about lower bounds is gone too."""
    r = s.run[0]
    copy(s.arms[RECENT_SEEN], s.arms[SEEN])
    copy(s.arms[RECENT_SUMS], s.arms[SUMS])
    s.arms[RECENT_SEEN] = 0.0
    s.arms[RECENT_SUMS] = 0.0
    s.arms[LCB] = -inf
    refresh(p, s)
    if p.prior_is_log == 1:
        r.log_det_base = r.log_det


@compiled
def begin_online(params: Records, s: State) -> None:
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
        update_factor(root, nothing, x, 0.0)
    copy(s.arms[PLACE], other.arms[PLACE])
    other.arms[LCB] = -inf
    other.run[0].rewards = 0
    refresh(p, other)
    other.run[0].log_det_base = s.vectors.shape[1] * log(p.ridge)
    raise_bounds(p, other)
    if p.gate == CONSERVATIVE:
        for a in range(s.counts.shape[1]):
            bound_arm(p, other, a)


@compiled
def begin(params: Records, s: State) -> None:
    """Start from the log alone: theta_0, V_0, C_1, and the baseline r_b of eq. (4)."""
    p, r = params[0], s.run[0]
    (rows, k), d = s.actions.shape, s.vectors.shape[1]
    xbar = s.vectors[XBAR]
    s.vectors[:] = 0.0
    s.arms[SEEN:] = 0.0
    s.arms[LCB] = -inf
    s.counts[PENDING] = 0
    s.counts[PENDING_MIXTURE] = 0
    s.counts[MIXED] = 0
    r.rounds = r.rewards = r.logged = r.fresh = r.practised = r.turns = 0
    r.logged_rewards = r.arrears = r.premium = r.premiums = 0.0
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
            square += s.actions[i, a] ** 2
        r.longest = max(r.longest, square)
    if p.shift > 0.0:
        begin_online(params, s)
    refresh(p, s)
    r.log_det_base = r.log_det if p.prior_is_log == 1 else d * log(p.ridge)
    raise_bounds(p, s)
    copy(s.arms[LCB], s.arms[FIRST_LCB])
    r.scorings = 0
    if p.explorer == RARE:
        keep_scores(p, s)
    if p.gate == CONSERVATIVE:
        for a in range(k):
            bound_arm(p, s, a)
    open_ledger(p, r)
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


@compiled
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
def commit(params: Records, s: State, arm: int, mixture: bool) -> None:
    """Count a decision when it is made: budgets do not wait for its reward."""
    p, r = params[0], s.run[0]
    add_action(s, arm, 1.0, s.vectors[PLAYED])
    s.arms[PLAYS, arm] += 1.0
    if p.gate == CONTROL:
        keep_ticket(s, arm)
        enter_coin_play(p, r)
    r.rounds += 1
    r.fresh = r.thrown = 0
    if mixture:  # counts as xbar itself: its rounding is nobody's to spend (H1)
        s.counts[MIXED, arm] += 1
        s.counts[PENDING_MIXTURE, arm] += 1
        r.turns += 1 if r.premium > 0.0 else 0
    else:
        s.counts[PENDING, arm] += 1
        add_excess(p, s, arm)
    if p.gate != CONTROL and (mixture or p.keeps_ledger == 1):
        enter_play(p, r, mixture)
    elif p.gate == CONSERVATIVE and not is_baseline(p, arm):
        r.ventured += 1


@compiled
def learn(p: Any, s: State, x: Floats, mean: float, variance: float, reward: float) -> tuple[float, float]:
    """V, V^-1 and theta by one rank-one step, O(d^2), for a row x of known mean and variance.

    Leaves V^-1 x, from before, in `step`; returns what theta moved along it, and det V_t / det V_{t-1}.
    """
    r = s.run[0]
    gram, inverse = s.square[GRAM], s.square[INVERSE]
    target, theta, step = s.vectors[TARGET], s.vectors[THETA], s.vectors[STEP]
    combine(inverse, x, step)  # V^-1 x, by symmetry
    if variance < STIFF * r.widest * dot(x, x):
        refine(s, x, step)
    growth = 1.0 + dot(x, step)
    gain = (reward - mean) / growth
    if p.estimates_noise == 1:
        r.residuals += (reward - mean) * gain  # its mean is the variance of a reward, however known x is
        r.residual_count += 1.0
    for i in range(x.size):
        target[i] += reward * x[i]
        theta[i] += gain * step[i]
        pull, shrink = x[i], step[i] / growth
        gram_row, inverse_row = gram[i], inverse[i]
        for j in range(x.size):
            gram_row[j] += pull * x[j]
            inverse_row[j] -= shrink * step[j]
    r.log_det += log(growth)
    r.rewards += 1
    r.since_refresh += 1
    r.fresh = 0
    return gain, growth


@compiled
def learn_one_hot(p: Any, s: State, arm: int, reward: float) -> float:
    """The same where V is diagonal, from counts that hold the reward already, O(1)."""
    r, i, surprise = s.run[0], int(s.arms[PLACE, arm]), reward - s.arms[MEAN, arm]
    before = s.square[GRAM, 0, i]
    settle(p, s, arm)
    growth = s.square[GRAM, 0, i] / before
    if p.estimates_noise == 1:
        r.residuals += surprise * surprise / growth
        r.residual_count += 1.0
    r.log_det += log(growth)
    r.rewards += 1
    r.since_refresh += 1
    r.fresh = 0
    return float(growth)


@compiled
def learn_arm(p: Any, s: State, arm: int, reward: float) -> float:
    """A rank-one step, and what it does to the mean and the variance of every arm; x stays in `work`."""
    x, mean, variance, cross = s.vectors[WORK], s.arms[MEAN], s.arms[VARIANCE], s.arms[CROSS]
    for i in range(x.size):
        x[i] = s.actions[i, arm]
    gain, growth = learn(p, s, x, mean[arm], variance[arm], reward)
    combine(s.actions, s.vectors[STEP], cross)
    shrink = 1.0 / growth
    for a in range(mean.size):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        variance[a] = left if left > 0.0 else 0.0
    if p.shift > 0.0:
        update_moved(s, shrink)
    return growth


@compiled
def log_image(s: State, y: Floats, out: Floats) -> None:
    """out = X'X y, X the logged rows."""
    if s.run[0].one_hot == 0:
        combine(s.square[LOG_GRAM], y, out)
        return
    for i in range(y.size):
        out[i] = s.square[LOG_GRAM, 0, i] * y[i]


@compiled
def update_moved(s: State, shrink: float) -> None:
    """|X V^-1 a|^2 after a rank-one step u, with c = <a, u> / growth: less 2 c a'V^-1 X'X u + c^2 |X u|^2."""
    step, image, back = s.vectors[STEP], s.vectors[RESIDUE], s.vectors[REFINED]
    cross, moved, change = s.arms[CROSS], s.arms[MOVED], s.arms[MOVE]
    log_image(s, step, image)
    solve(s, image, back)
    project(s, back, change)
    square = dot(step, image)
    for a in range(moved.size):
        share = shrink * cross[a]
        left = moved[a] - share * (2.0 * change[a] + share * square)
        moved[a] = left if left > 0.0 else 0.0


@compiled
def observe(params: Records, s: State, arm: int, mixture: bool, reward: float, error: float) -> None:
    """Count a reward when it arrives: V_t, theta_t, the bounds, and what it pays for.

    With an `error` above 0 it stands in for a reward that was lost, and may be wrong by as much. The ledger
    then waits for ever: what it counts for a pending reward is the worst.
    """
    p, r = params[0], s.run[0]
    s.arms[SEEN, arm] += 1.0
    s.arms[SUMS, arm] += reward
    growth = learn_one_hot(p, s, arm, reward) if r.one_hot == 1 else learn_arm(p, s, arm, reward)
    if p.memory > 0:
        s.arms[RECENT_SEEN, arm] += 1.0
        s.arms[RECENT_SUMS, arm] += reward
    s.counts[PENDING_MIXTURE if mixture else PENDING, arm] -= 1
    s.arms[LOST, arm] += error
    if p.gate == CONSERVATIVE:
        bound_arm(p, s, arm)
    if error == 0.0 and p.gate == CONTROL:  # a lost reward is pending for ever in the books of a promise
        enter_coin_reward(p, r, reward)
    elif error == 0.0 and (mixture or p.keeps_ledger == 1):
        enter_reward(p, r, reward, mixture)
    if p.memory > 0 and r.rewards % p.memory == 0:
        forget(p, s)
    elif is_worn(r, growth):
        refresh(p, s)
    elif p.keeps_factor == 1 and r.one_hot == 0:
        update_factor(s.square[FACTOR], s.vectors[HALF], s.vectors[WORK], reward)
    if p.shift > 0.0:
        observe_online(params, s, arm, reward, error)
    raise_bounds(p, s)
    if p.explorer == RARE:
        keep_scores(p, s)


@compiled
def observe_online(params: Records, s: State, arm: int, reward: float, error: float) -> None:
    """What the reward says without the log."""
    p, other = params[1], online(s)
    other.arms[SEEN, arm] += 1.0
    other.arms[SUMS, arm] += reward
    other.arms[LOST, arm] += error
    one_hot = s.run[0].one_hot == 1
    growth = learn_one_hot(p, other, arm, reward) if one_hot else learn_arm(p, other, arm, reward)
    if is_worn(other.run[0], growth):
        refresh(p, other)
    if p.gate == CONSERVATIVE:
        bound_arm(p, other, arm)
    raise_bounds(p, other)


@compiled
def is_worn(r: Any, growth: float) -> bool:
    """Whether rank-one steps may have cost digits: there were many, or one that changed much."""
    leapt = not 1.0 <= growth <= REFRESH_ABOVE
    return bool(r.since_refresh >= REFRESH_EVERY or (leapt and r.one_hot == 0))


@compiled
def update(params: Records, s: State, arm: int, mixture: bool, reward: float) -> None:
    """A decision and its reward at once."""
    commit(params, s, arm, mixture)
    observe(params, s, arm, mixture, reward, 0.0)


# -- ledger: what realised rewards have paid for (Tolerance) ----------------------------------------------


@compiled
def open_ledger(p: Any, r: Any) -> None:
    """Nothing ventured, nothing earned; the reference as the log gives it."""
    r.mixed = r.mixed_pending = r.ventured = r.pending = r.vetoed = 0
    r.mixed_rewards = r.earned = r.secured = 0.0
    r.upper_reference, r.lower_reference = inf, -inf
    if r.logged == 0:
        return
    move_reference(p, r)
    r.bet_base = (r.upper_reference - p.low) / p.unit
    for j in range(BETS):
        r.bets[j] = 0.0
    if p.joint == 1:  # elsewhere these stay 0, as in the snapshots of versions that had no such fields
        r.border_sum, r.border_reference, r.owed, r.surplus = 0.0, r.bet_base, 0.0, 0.0
        secure_surplus(p, r, 0, True)


@compiled
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


@compiled
def seen_by_reference(p: Any, r: Any) -> float:
    """The summed rewards of log and mixture so far, rescaled to [0, 1]."""
    seen = r.logged_rewards - p.low * r.logged + r.mixed_rewards - p.low * (r.mixed - r.mixed_pending)
    return float(seen / p.unit)


@compiled
def move_reference(p: Any, r: Any) -> None:
    """Bounds on mu_off from the log and, for bounded rewards or a joint bound, from mixture plays since.

    A joint bound says something of the reference alone only while nothing was explored.
    """
    rows, joined = r.logged + r.mixed, p.joint == 1 and r.ventured > 0
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


@compiled
def reference_error(p: Any, r: Any) -> float:
    """How far the mean of log and mixture may be from mu_off, rewards in [0, 1]: rounding, and the shift."""
    rows = r.logged + r.mixed
    return float((p.kappa / rows if r.mixed > 0 else 0.0) + p.shift * r.logged / (p.unit * rows))


@compiled
def reference_mean(p: Any, r: Any) -> float:
    """The mean reward of log and mixture, a pending one at the high end, plus what they may be behind."""
    rounding = (p.kappa * p.unit if r.mixed > 0 else 0.0) + p.shift * r.logged
    pending = (p.low + p.unit) * r.mixed_pending
    return float((r.logged_rewards + r.mixed_rewards + pending + rounding) / (r.logged + r.mixed))


@compiled
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


@compiled
def reference_at(p: Any, r: Any, above: float) -> float:
    """The u with H(u) = level by Newton's method from above: H is convex, so every step is a bound too."""
    for _ in range(NEWTON_STEPS):
        value, rate, _ = reference_evidence(p, r, above)
        step = (value - p.reference_level) / rate
        if step <= 1e-14:
            break
        above -= step
    return above


@compiled
def explored_evidence(r: Any, total: float) -> tuple[float, float, float]:
    """F(s), the log evidence that explored means sum to more than s, with two derivatives; it falls, convex.

    The average over the bets of their wealth, each discounted by exp(-fraction (s - q u)).
    """
    top, mass, first, second, fraction = -inf, 0.0, 0.0, 0.0, 0.9 / r.bet_base
    for j in range(BETS):
        power = r.bets[j] - fraction * (total - r.ventured * r.bet_base)
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


@compiled
def least_by_bets(p: Any, r: Any, owed: float) -> float:
    """A lower bound on s - owed u, rewards in [0, 1], where F(s) + H(u) < level, s >= 0 and u <= U.

    Newton's method finds the minimum: there H'(u) = -owed F'(s) on the border, or s = 0, or u = U. The region
    is convex and lies on one side of the tangent at any point, so the bound holds wherever the method stops.
    """
    most = (r.upper_reference - p.low) / p.unit
    if r.ventured == 0:
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


@compiled
def least_by_sums(p: Any, r: Any, owed: float) -> float:
    """The same for sub-Gaussian rewards, in their own units: a mixture over two normal tilts, an ellipse."""
    if r.ventured == 0:
        return float(-owed * r.upper_reference)
    rows, grown = r.logged + r.mixed, r.ventured + HEAD_START
    grown_rows = rows + r.logged / LOG_START
    level = 2.0 * p.reference_level + log(grown / HEAD_START) + log(grown_rows * LOG_START / r.logged)
    spread = p.noise * sqrt(level * (grown + owed * owed * grown_rows / (rows * rows)))
    return float(r.earned + p.low * r.pending - owed * reference_mean(p, r) - spread)


@compiled
def secure_surplus(p: Any, r: Any, plays: int, search: bool) -> None:
    """Bound what explored plays, and one more, earn above what is owed for them; `plays` came since the last.

    What was secured once stays secured: a play since then earned the least, and owes the most. `search` is
    False where that is enough: a play whose own reward is all that is awaited, or one of the mixture. Once
    practice has lost an arm, every bound is found anew.
    """
    extra = r.premiums + r.premium
    owed = r.ventured + 1.0 + extra
    search = search or extra > 0.0
    if p.relative == 1:
        owed -= allowance(p, r.rounds + 1)
    change, before = owed - r.owed, r.owed
    r.owed = owed
    if r.border_sum > 0.0:
        r.border_sum += plays * r.border_reference  # where the search begins: any start is valid
    if owed <= 0.0:  # nothing can be lost yet, whatever the reference is
        least = p.low * (r.ventured + 1.0 + extra) - owed * r.lower_reference
        r.surplus = max(least, 1e-12 * p.unit)
        return
    kept = r.surplus + p.low * plays - change * (r.upper_reference if change > 0.0 else p.low)
    if before > 0.0 and not search:
        r.surplus = kept
        return
    if p.bounded == 0:
        least = p.low + least_by_sums(p, r, owed)
    else:
        least = p.low * (r.ventured + 1.0 - owed) + p.unit * least_by_bets(p, r, owed)
    if extra > 0.0:
        r.surplus = least + p.low * extra
        return
    r.surplus = max(kept, least) if before > 0.0 else least


@compiled
def boundary(p: Any, plays: int) -> float:
    """b(q): how far q rewards can sum from their means at any time, by a mixture over normal tilts."""
    grown = plays + HEAD_START
    return float(p.noise * sqrt(grown * (2.0 * p.reward_level + log(grown / HEAD_START))))


@compiled
def certain_sum(p: Any, r: Any) -> float:
    """A lower bound on the summed means of all plays but the mixture's; a pending reward is the lowest."""
    if p.bounded == 0:
        return float(r.earned + p.low * r.pending - boundary(p, r.ventured))
    wealth, fraction = -inf, 0.9 / r.bet_base
    for j in range(BETS):
        bound = (r.bets[j] - p.reward_level - log(float(BETS))) / fraction
        wealth = bound if bound > wealth else wealth
        fraction *= 0.65
    return float(p.low * r.ventured + p.unit * (r.ventured * r.bet_base + wealth))


@compiled
def place_bets(r: Any, outcome: float, replace: bool) -> None:
    """Multiply each wealth by 1 + fraction (outcome - u); `replace` undoes the bet on a pending 0 first."""
    fraction = 0.9 / r.bet_base
    for j in range(BETS):
        r.bets[j] += log1p(fraction * (outcome - r.bet_base))
        if replace:
            r.bets[j] -= log1p(-fraction * r.bet_base)
        fraction *= 0.65


@compiled
def enter_play(p: Any, r: Any, mixture: bool) -> None:
    """A play whose reward is still to come; a mixture that lost an arm says nothing about mu_off."""
    if mixture and r.premium > 0.0:
        return
    if mixture:
        r.mixed += 1
        r.mixed_pending += 1
    else:
        r.ventured += 1
        r.pending += 1
        r.premiums += r.premium
        if p.bounded == 1:
            place_bets(r, 0.0, False)
    if p.joint == 1:
        secure_surplus(p, r, 0 if mixture else 1, not mixture and r.pending > 1)
    elif p.by_rewards == 1 and not mixture:
        r.secured = max(r.secured + p.low, certain_sum(p, r))
    if p.by_rewards == 1 and not mixture:
        consider_veto(p, r)


@compiled
def enter_reward(p: Any, r: Any, reward: float, mixture: bool) -> None:
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
        if p.bounded == 1:
            place_bets(r, min(max((reward - p.low) / p.unit, 0.0), 1.0), True)
    if p.joint == 1:
        secure_surplus(p, r, 0, True)
    elif p.by_rewards == 1 and not mixture:
        r.secured = max(r.secured, certain_sum(p, r))
    if p.by_rewards == 1 and not mixture:
        consider_veto(p, r)


@compiled
def allowance(p: Any, rounds: int) -> float:
    """Lambda(t), what may be lost in t rounds; relative to the reference it is in rounds' worth of that."""
    return float(p.budget + p.epsilon * rounds)


@compiled
def consider_veto(p: Any, r: Any) -> None:
    """Drop the model for good once rewards fall shorter than any right model would have let them."""
    owed = r.ventured * r.lower_reference - allowance(p, r.rounds)
    if p.relative == 1:
        share = r.ventured - allowance(p, r.rounds)
        owed = share * (r.lower_reference if share >= 0.0 else r.upper_reference)
    if r.premiums > 0.0:  # what practice has lost may have earned the most
        owed -= r.premiums * (p.low + p.unit - r.lower_reference)
    highest = r.earned + (p.low + p.unit) * r.pending
    if highest + boundary(p, r.ventured) < owed:
        r.vetoed = 1


@compiled
def room_by_rewards(p: Any, r: Any) -> float:
    """What realised rewards have paid for if the next play earns the least; the same for every arm."""
    allowed = allowance(p, r.rounds + 1)
    if p.joint == 1:
        return float(r.surplus + (allowed if p.relative == 0 else 0.0))
    credit = r.earned + p.low * r.pending if p.realised == 1 else r.secured
    extra = r.premiums + r.premium
    plays = r.ventured + 1.0 + extra
    if extra > 0.0:
        credit += p.low * extra
    if p.relative == 0:
        return float(credit + p.low - plays * r.upper_reference + allowed)
    owed = plays - allowed
    return float(credit + p.low - owed * (r.upper_reference if owed >= 0.0 else r.lower_reference))


@compiled
def ledger_begin(params: Records, run: Records) -> None:
    """A ledger of its own, without arms or features; run holds `logged` and `logged_rewards`."""
    open_ledger(params[0], run[0])


@compiled
def ledger_commit(params: Records, run: Records, mixture: bool) -> None:
    """Enter a play."""
    run[0].rounds += 1
    enter_play(params[0], run[0], mixture)


@compiled
def ledger_observe(params: Records, run: Records, reward: float, mixture: bool) -> None:
    """Enter a reward."""
    run[0].rewards += 1
    enter_reward(params[0], run[0], reward, mixture)


@compiled
def ledger_room(params: Records, run: Records) -> float:
    """What realised rewards have paid for."""
    return room_by_rewards(params[0], run[0])


# -- control: what practice earns now, told by a coin (Control) -------------------------------------------
# Needs Params and the run alone, so that a guard without arms or features keeps the same books.


@compiled
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
    r.upper_practice = 0.0
    r.stretches = r.thrown = 0
    r.root_is_known = 0
    for j in range(COIN_BETS):
        r.coin_bets[j] = p.coin_stakes[j]
        r.coin_gains[j] = r.coin_hopes[j] = 0.0
        r.stretch_marks[j] = -inf
    if p.every > 0:
        mark_stretch(p, r)


@compiled
def centre_weight(p: Any, odds: float, centre: float, fraction: float) -> float:
    """fraction * c_j: the centre, raised where (1 - share) exp(fraction (hi - c_j)) would reach 1.

    `odds` is log(1 - share).
    """
    return float(max(fraction * centre, fraction * (p.low + p.unit) + 0.95 * odds))


@compiled
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


@compiled
def multiply_bet(r: Any, j: int, change: float) -> None:
    """Multiply a bet by 1 + change; its logarithm is taken when many of them have come together."""
    gain = r.coin_gains[j] + (1.0 + r.coin_gains[j]) * change
    if not 1.0 / MOST_GROWN < 1.0 + gain < MOST_GROWN:
        r.coin_bets[j] += log(1.0 + gain)
        gain = 0.0
    r.coin_gains[j] = gain


@compiled
def place_explored(p: Any, r: Any) -> None:
    """Make the bets of an explored play as if it earned the least; realised books leave that out.

    There, a bet whose centre is not raised falls by fraction times the centre: if no other counts, the root
    moves by the centre.
    """
    fraction, odds = 0.9 / p.unit, log1p(-r.entry_share)
    for j in range(COIN_BETS):
        weight = centre_weight(p, odds, r.entry_centre, fraction)
        if p.realised == 1:
            if weight > fraction * r.entry_centre and bet_level(p, r, j, fraction, r.root) > NO_LEVEL:
                r.root_is_known = 0
            r.coin_bets[j] -= weight
        elif p.bounded == 1:
            multiply_bet(r, j, fraction * p.low - weight)
        else:
            r.coin_bets[j] += fraction * p.low - weight - 0.5 * (fraction * p.noise) ** 2
        fraction *= 0.6


@compiled
def replace_explored(p: Any, r: Any, reward: float) -> None:
    """Make the bets of an explored play with its reward, where means are promised."""
    fraction, odds = 0.9 / p.unit, log1p(-r.entry_share)
    for j in range(COIN_BETS):
        more = fraction * (reward - p.low)
        if p.bounded == 1:
            weight = centre_weight(p, odds, r.entry_centre, fraction)
            multiply_bet(r, j, more / (1.0 + fraction * p.low - weight))
        else:
            r.coin_bets[j] += more
        fraction *= 0.6


@compiled
def lower_practice(p: Any, r: Any, guess: float) -> None:
    """Lower the bound to the root of (1/16) sum_j exp(fraction_j S + L_j) = 1/d, by Newton's method.

    The logarithm of the sum is convex: from the first step on, Newton's points are not below the root, so
    that each of them is a bound, wherever it stops.
    """
    point = guess
    for _ in range(8):
        total, slope, fraction = 0.0, 0.0, 0.9 / p.unit
        for j in range(COIN_BETS):
            level = bet_level(p, r, j, fraction, point)
            if level > NO_LEVEL:  # what is left out only makes the bound larger, by 1e-13 at the most
                wealth = exp(level) * (1.0 + r.coin_gains[j])
                total += wealth
                slope += fraction * wealth
            fraction *= 0.6
        step = log(total) * total / slope
        point -= step
        if abs(step) <= 1e-4 * p.unit:  # the next one would be its square
            break
    r.root, r.root_is_known = point, 1 if abs(point) < inf else 0
    if point < r.upper_practice:  # never, where it is not a number
        r.upper_practice = point


@compiled
def follow_root(p: Any, r: Any, guess: float) -> None:
    """Lower the bound to the root after a play: where it is known, it has moved by the centre."""
    if r.root_is_known == 0:
        lower_practice(p, r, guess)
        return
    r.root += r.entry_centre
    r.upper_practice = min(r.upper_practice, r.root)


@compiled
def bet_level(p: Any, r: Any, j: int, fraction: float, point: float) -> float:
    """The logarithm of what a bet would be at this sum, over what the sum of all may be; without its gain."""
    return float(fraction * point + r.coin_bets[j] - p.coin_level)


@compiled
def mark_stretch(p: Any, r: Any) -> None:
    """A stretch of rounds starts here: whatever is still pending may have been the best until now."""
    r.stretches += 1
    level = p.coin_level + log(float(r.stretches)) + log(r.stretches + 1.0)
    earned = r.earned + (p.low + p.unit) * r.pending
    fraction = 0.9 / p.unit
    for j in range(COIN_BETS):
        most = level - p.coin_stakes[j] + r.coin_bets[j] + r.coin_hopes[j]
        mark = most / fraction + p.epsilon * r.rounds + earned
        r.stretch_marks[j] = max(r.stretch_marks[j], mark)
        fraction *= 0.6


@compiled
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


@compiled
def share_of_control(p: Any, r: Any) -> float:
    """How likely a round is a control round where the two arms differ; 1: the gate is closed.

    Until a bet of fraction f counts, its entrance fee log(16/d)/f is lost for sure, and none above
    -log(1 - share)/(hi - c) has its centre at c. So the share is such that the fee of the first one that has
    is a third of what may be lost, and what the rate brings in as many rounds as there were.
    """
    if not r.room >= 0.0:
        return 1.0
    if p.share > 0.0:
        return float(p.share)
    left = r.room + p.unit
    fee = left / FEES + p.epsilon * r.rounds
    usable = -expm1(-p.coin_level * (p.low + p.unit - r.centre) / fee)
    return float(max(LEAST_SHARE, PURSE * p.unit / (PURSE * p.unit + left), min(usable, MOST_SHARE)))


@compiled
def throw_coin(p: Any, r: Any, vouched: float, barred: bool) -> None:
    """Decide between `proposal` and practice's arm, `fallback`; once the coin is thrown, it stands."""
    r.arm, r.source, r.explored = r.fallback, r.fallback_source, 0
    r.room = coin_room(p, r, vouched)
    r.entry = NO_ENTRY if r.proposal == r.fallback else PRACTICE_PLAY
    r.entry_centre, r.entry_practice = r.centre, r.fallback
    r.fresh = 1
    r.entry_share = share_of_control(p, r)
    if r.entry == NO_ENTRY or barred or r.entry_share == 1.0:
        return
    r.thrown = 1
    if r.coin < r.entry_share:
        r.source, r.entry = FROM_CONTROL, CONTROL_PLAY
    else:
        r.arm, r.source, r.explored, r.entry = r.proposal, FROM_EXPLORER, 1, EXPLORED_PLAY


@compiled
def place_control(p: Any, r: Any) -> None:
    """Make the bets of a control play as if it earned the most, the worst for the bound.

    For stretches also: what a pending control play would add to the bets, were its reward the lowest.
    """
    fraction, odds, high = 0.9 / p.unit, log1p(-r.entry_share), p.low + p.unit
    for j in range(COIN_BETS):
        weight = centre_weight(p, odds, r.entry_centre, fraction)
        bet = control_bet(p, r.entry_share, odds, weight, fraction, high)
        if p.every > 0:
            r.coin_hopes[j] += control_bet(p, r.entry_share, odds, weight, fraction, p.low) - bet
        r.coin_bets[j] += bet
        fraction *= 0.6


@compiled
def replace_control(p: Any, r: Any, reward: float) -> None:
    """Take back the bets at the worst of a control play, and make them with its reward."""
    fraction, odds, high = 0.9 / p.unit, log1p(-r.entry_share), p.low + p.unit
    for j in range(COIN_BETS):
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
        fraction *= 0.6


@compiled
def enter_coin_play(p: Any, r: Any) -> None:
    """A play whose reward is to come: an explored one counts at its lowest, a control at its highest."""
    if p.every > 0 and r.rounds > 0 and r.rounds % p.every == 0:
        mark_stretch(p, r)
    most = p.low + p.unit if p.realised == 1 else p.unit  # that a round can add to what is bounded
    if r.entry == CONTROL_PLAY:
        place_control(p, r)
        r.root_is_known = 0
    elif r.entry == EXPLORED_PLAY or r.entry == UNASKED_PLAY:
        r.ventured += 1
        r.pending += 1
        guess = r.upper_practice + (r.entry_centre if p.realised == 1 else 0.0)
        r.upper_practice += most
        if r.entry == EXPLORED_PLAY:
            place_explored(p, r)
        else:
            add_unasked(p, r, most)
            r.root_is_known = 0
        if p.every == 0 and (p.realised == 1 or r.entry == UNASKED_PLAY):  # else, its reward will lower it
            follow_root(p, r, guess)


@compiled
def add_unasked(p: Any, r: Any, most: float) -> None:
    """A play that no coin decided: practice could have earned the most. A control play in its place is lost.

    Its share is above 0 where the coin had said control.
    """
    fraction, odds = 0.9 / p.unit, log1p(-r.entry_share)
    for j in range(COIN_BETS):
        r.coin_bets[j] -= fraction * most
        if r.entry_share > 0.0:
            weight = centre_weight(p, odds, r.entry_centre, fraction)
            r.coin_bets[j] += control_bet(p, r.entry_share, odds, weight, fraction, p.low + p.unit)
        fraction *= 0.6


@compiled
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
    open_ledger(params[0], run[0])
    open_control(params[0], run[0])


@compiled
def coin_decide(params: Records, run: Records, vouched: float) -> None:
    """Decide between `proposal` and `fallback`."""
    if run[0].thrown == 0:
        throw_coin(params[0], run[0], vouched, False)


@compiled
def coin_commit(params: Records, run: Records) -> None:
    """Enter a play."""
    enter_coin_play(params[0], run[0])
    run[0].rounds += 1
    run[0].fresh = run[0].thrown = 0


@compiled
def coin_observe(params: Records, run: Records, reward: float) -> None:
    """Enter a reward."""
    run[0].rewards += 1
    enter_coin_reward(params[0], run[0], reward)


# -- decide -----------------------------------------------------------------------------------------------


@compiled
def best(values: Floats) -> int:
    """The first index of the largest value; four at a time, since each comparison waits for the last."""
    arm, top, a = 0, values[0], 0
    while a + 4 <= values.size:
        left = values[a] if values[a] > values[a + 1] else values[a + 1]
        right = values[a + 2] if values[a + 2] > values[a + 3] else values[a + 3]
        left = left if left > right else right
        if left > top:
            arm, top = a, left
        a += 4
    while a < values.size:
        if values[a] > top:
            arm, top = a, values[a]
        a += 1
    while values[arm] < top:
        arm += 1
    return arm


@compiled
def noise_share(p: Any, r: Any) -> float:
    """The noise that log and rewards show, as a share of the assumed one; one row stands for the latter."""
    if p.estimates_noise == 0:
        return 1.0
    square = p.noise * p.noise
    return float(min(sqrt((square + r.residuals) / (square * (1.0 + r.residual_count))), 1.0))


@compiled
def unwhiten(s: State, normals: Floats, out: Floats) -> None:
    """out = R^-1 normals: a draw with covariance V^-1.

    Four rows at a time: each division waits for the one before it, and the sums to their right do not.
    """
    factor, i, d = s.square[FACTOR], out.size, out.size
    if s.run[0].one_hot == 1:
        for i in range(d):
            out[i] = normals[i] / factor[0, i]
        return
    while i >= 4:
        i -= 4
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        z0, z1, z2, z3 = normals[i], normals[i + 1], normals[i + 2], normals[i + 3]
        for j in range(d - 1, i + 3, -1):
            z0 -= r0[j] * out[j]
            z1 -= r1[j] * out[j]
            z2 -= r2[j] * out[j]
            z3 -= r3[j] * out[j]
        z3 /= r3[i + 3]
        z2 = (z2 - r2[i + 3] * z3) / r2[i + 2]
        z1 = (z1 - r1[i + 3] * z3 - r1[i + 2] * z2) / r1[i + 1]
        out[i + 1], out[i + 2], out[i + 3] = z1, z2, z3
        out[i] = (z0 - r0[i + 3] * z3 - r0[i + 2] * z2 - r0[i + 1] * z1) / r0[i]
    while i > 0:
        i -= 1
        out[i] = (normals[i] - dot(factor[i, i + 1 :], out[i + 1 :])) / factor[i, i]


@compiled
def score_by_rounds(p: Any, s: State) -> None:
    """UCB1: mean + sqrt(8 noise^2 ln t / n), n and mean online. No reward yet: infinite."""
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    spread = p.noise * sqrt(8.0 * log(float(max(s.run[0].rounds, 1)))) + TINY
    for a in range(score.size):
        score[a] = mean[a] + spread * width[a]


@compiled
def history_score(p: Any, s: State, arm: int) -> float:
    """HUCB1: mean + sqrt(8 noise^2 ln(t + h) / (n + h)), h logged rewards of the arm among its n + h."""
    grown = max(s.run[0].rounds, 1) + float(s.counts[LOGGED, arm])
    return float(s.arms[OWN_MEAN, arm] + (p.noise * sqrt(8.0 * log(grown)) + TINY) * s.arms[OWN_WIDTH, arm])


@compiled
def score_with_history(p: Any, s: State) -> None:
    """HUCB1 for every arm; where all are affordable, one that cannot be the best gets a bound of its score.

    A logarithm for each arm took most of a round. With ln(t + h) <= ln t + h / t and sqrt(1 + x) <= 1 + x / 2
    one is enough for a bound.
    """
    r, score, t = s.run[0], s.arms[SCORE], float(s.run[0].rounds)
    if p.gate != OPEN or r.restricted == 1 or t < 3.0:  # ln t must be well above 0
        for a in range(score.size):
            score[a] = history_score(p, s, a)
        return
    mean, width, longer = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[POOLED_WIDTH]
    logarithm = log(t)
    spread = p.noise * sqrt(8.0 * logarithm) * (1.0 + 1e-12)
    rise = spread / (2.0 * t * logarithm)
    for a in range(score.size):
        score[a] = mean[a] + spread * width[a] + rise * longer[a]
    top = history_score(p, s, r.proposal)  # the last favourite: hardly any other has to be looked at
    for a in range(score.size):
        if score[a] > top:
            score[a] = history_score(p, s, a)
            top = score[a] if score[a] > top else top


@compiled
def score_by_smaller_bound(p: Any, s: State) -> None:
    """MIN-UCB: the smaller of the upper bound online, and of that with the log and its shift."""
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    pooled_mean, pooled_width = s.arms[POOLED_MEAN], s.arms[POOLED_WIDTH]
    t = s.run[0].rounds + 1.0
    spread = p.noise * sqrt(2.0 * log(4.0 * score.size * t * t * t))  # log(2 t / d), d = 1 / (2 k t^2)
    for a in range(score.size):
        online = mean[a] + spread * width[a]
        pooled = pooled_mean[a] + spread * pooled_width[a]
        score[a] = online if online < pooled else pooled


@compiled
def optimistic(p: Any, s: State, out: Floats) -> None:
    """out = the upper bound of every arm, with the explorer's own scale."""
    mean, width = s.arms[MEAN], s.arms[WIDTH]
    bonus = p.scale * noise_share(p, s.run[0]) * s.run[0].radius
    for a in range(mean.size):
        out[a] = mean[a] + bonus * width[a]
    if p.shift > 0.0:
        for a in range(mean.size):
            out[a] += p.scale * s.arms[LIFT, a]


@compiled
def cap_scores(params: Records, s: State) -> None:
    """No score is above what it would be without the log: the smaller of two upper bounds."""
    p, other, score = params[1], online(s), s.arms[SCORE]
    other.run[0].residuals, other.run[0].residual_count = s.run[0].residuals, s.run[0].residual_count
    optimistic(p, other, other.arms[SCORE])
    for a in range(score.size):
        score[a] = min(score[a], other.arms[SCORE, a])


@compiled
def keep_scores(p: Any, s: State) -> None:
    """Score anew if det V has grown by the factor since the last time; before the first reward, anyway."""
    r = s.run[0]
    if r.rewards > 0 and r.log_det <= r.scored_at + p.growth:
        return
    optimistic(p, s, s.arms[GIVEN_SCORES])
    r.scored_at = r.log_det
    r.scorings += 1


@compiled
def thompson_spread(p: Any, s: State) -> float:
    """v: a draw is theta + v R^-1 xi, V = R'R."""
    r = s.run[0]
    spread = p.noise
    if p.law == AGRAWAL_GOYAL:
        spread *= sqrt(9.0 * s.vectors.shape[1] * (log(r.rounds + 1.0) + p.level))
    elif p.law == ABEILLE_LAZARIC:
        spread = r.radius
    return float(p.scale * noise_share(p, r) * spread)


@compiled
def score_arms(p: Any, s: State) -> None:
    """What the explorer makes of every arm."""
    mean, score = s.arms[MEAN], s.arms[SCORE]
    if p.explorer == UCB:
        optimistic(p, s, score)
    elif p.explorer == THOMPSON:
        spread, draw = thompson_spread(p, s), s.vectors[STEP]
        unwhiten(s, s.vectors[NORMALS], draw)
        project(s, draw, score)
        for a in range(mean.size):
            score[a] = mean[a] + spread * score[a]
    elif p.explorer == GREEDY:
        copy(mean, score)
    elif p.explorer == GIVEN or p.explorer == RARE:
        copy(s.arms[GIVEN_SCORES], score)
    elif p.explorer == UCB1:
        score_by_rounds(p, s)
    elif p.explorer == HUCB1:
        score_with_history(p, s)
    elif p.explorer == MIN_UCB:
        score_by_smaller_bound(p, s)
    else:  # no such explorer: nothing that it proposes is affordable
        s.arms[ROOM] = -inf


@compiled
def move_of(p: Any, s: State, y: Floats, image: Floats) -> float:
    """How far the log's shift may have moved <theta, y>: shift sqrt(m) |X V^-1 y|; image = V^-1 y.

    With m rows and errors e of their means, X'e moves it by <X V^-1 y, e>, and |e| <= shift sqrt(m).
    """
    if p.shift == 0.0:
        return 0.0
    r, back = s.run[0], s.vectors[RESIDUE]
    log_image(s, image, back)
    return float(p.shift * sqrt(r.logged * (max(dot(image, back), 0.0) + ROUNDING * r.widest * dot(y, y))))


@compiled
def move_with_arms(p: Any, s: State, y: Floats, image: Floats) -> None:
    """The same for y + a, for every arm a, into `move`."""
    r, log_of, back = s.run[0], s.vectors[RESIDUE], s.vectors[REFINED]
    moved, move = s.arms[MOVED], s.arms[MOVE]
    log_image(s, image, log_of)
    solve(s, log_of, back)
    project(s, back, move)
    base, doubt = dot(image, log_of), ROUNDING * r.widest * (dot(y, y) + r.longest)
    for a in range(move.size):
        square = max(base + 2.0 * move[a] + moved[a], 0.0) + doubt
        move[a] = p.shift * sqrt(r.logged * square)


@compiled
def lower_bound(p: Any, s: State, y: Floats) -> float:
    """inf over C_t of <theta, y>."""
    image = s.vectors[STEP]
    solve(s, y, image)
    bonus = s.run[0].radius + s.run[0].doubt
    least = dot(s.vectors[THETA], y) - bonus * sqrt(max(dot(y, image), 0.0))
    return float(least - move_of(p, s, y, image))


@compiled
def measure_budget(p: Any, s: State) -> None:
    """B(t) of eq. (5) for every arm a in the place of U_t: sum_s lcb_t(A_s) + lcb_t(a) - t r_b."""
    r = s.run[0]
    lcb, room = s.arms[LCB], s.arms[ROOM]
    if r.logged == 0:  # nothing was promised
        room[:] = inf
        return
    due = (r.rounds + 1) * r.baseline + r.arrears  # t r_b
    if p.horizon > 0.0:
        due -= (p.horizon - r.rounds - 1.0) * p.alpha * r.slack
    past = -inf
    if p.form != AGGREGATE:
        past = dot(s.arms[PLAYS], lcb)  # equal arms grouped: the sum over s < t is a dot product
    if p.form != EXACT:
        past = max(past, lower_bound(p, s, s.vectors[PLAYED]))
    for a in range(lcb.size):
        room[a] = past + lcb[a] - due
    if p.form == MAX:
        join_aggregate(p, s, due)


@compiled
def join_aggregate(p: Any, s: State, due: float) -> None:
    """Raise the room of each arm to the lower bound of its sum with all past actions, minus t r_b."""
    total, image, cross = s.vectors[PLAYED], s.vectors[STEP], s.arms[CROSS]
    mean, variance, room = s.arms[MEAN], s.arms[VARIANCE], s.arms[ROOM]
    solve(s, total, image)
    project(s, image, cross)
    base, square = dot(s.vectors[THETA], total), dot(total, image)
    bonus = s.run[0].radius + s.run[0].doubt
    if p.shift > 0.0:
        move_with_arms(p, s, total, image)
    for a in range(room.size):
        joint = base + mean[a] - bonus * sqrt(max(square + 2.0 * cross[a] + variance[a], 0.0)) - due
        joint -= s.arms[MOVE, a] if p.shift > 0.0 else 0.0
        room[a] = joint if joint > room[a] else room[a]


@compiled
def cautious_square(s: State, y: Floats, image: Floats) -> float:
    """|y|^2 in V^-1, rounded up: where V^-1 is large, its rounding must not open a gate."""
    return float(max(dot(y, image), 0.0) + ROUNDING * s.run[0].widest * dot(y, y))


@compiled
def measure_by_model(p: Any, s: State) -> None:
    """The least that all plays but the mixture's, arm a included, earn above mu_off, plus the allowance.

    With y = Z + a - xbar: <theta, y> - r |y|_{V^-1} - bias, where the ridge biases <theta, y> by at most
    ridge bound |V^-1 y|_2 and by at most sqrt(ridge) bound |y|_{V^-1}. Relative to the reference, the
    allowance is in xbar instead.
    """
    allowed = allowance(p, s.run[0].rounds + 1)
    if p.relative == 1:
        measure_excess(p, s, 1.0 - allowed, 0.0)
    else:
        measure_excess(p, s, 1.0, allowed)


@compiled
def measure_excess(p: Any, s: State, owed: float, besides: float) -> None:
    """The least that y = Z + a - owed xbar earns, for every arm a, and what there is `besides`."""
    r = s.run[0]
    y, image, cross = s.vectors[WORK], s.vectors[STEP], s.arms[CROSS]
    mean, variance, width, room = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[ROOM]
    for i in range(y.size):
        y[i] = s.vectors[EXCESS, i] - owed * s.vectors[XBAR, i]
    if r.premium > 0.0:  # this round is compared with what is left of practice, the allowance is as it was
        for i in range(y.size):
            y[i] += s.vectors[XBAR, i] - s.vectors[PRACTICE_MEAN, i]
    solve(s, y, image)
    project(s, image, cross)
    base, square = dot(s.vectors[THETA], y) + besides, cautious_square(s, y, image)
    shared = inf if p.loose_bias == 1 else p.bias * sqrt(p.ridge * dot(image, image))
    doubt = ROUNDING * r.widest * (dot(y, y) + r.longest)
    for a in range(room.size):
        spread = sqrt(max(square + 2.0 * cross[a] + variance[a], 0.0) + doubt)
        bias = min(p.bias * spread, shared + p.bias * width[a])
        room[a] = base + mean[a] - r.gate_radius * spread - bias
    if p.shift > 0.0:
        move_with_arms(p, s, y, image)
        for a in range(room.size):
            room[a] -= s.arms[MOVE, a]


@compiled
def measure_tolerance(p: Any, s: State) -> None:
    """Affordable by either kind of evidence; the model has no say once it is vetoed."""
    r, room = s.run[0], s.arms[ROOM]
    if p.by_model == 1 and r.vetoed == 0:
        measure_by_model(p, s)
    else:
        room[:] = -inf
    if p.by_rewards == 1:
        paid = room_by_rewards(p, r)
        for a in range(room.size):
            room[a] = paid if paid > room[a] else room[a]


@compiled
def is_baseline(p: Any, arm: int) -> bool:
    """Whether this arm is what a Conservative gate compares with."""
    return bool(p.fallback == FIXED_ARM and arm == p.fixed_arm)


@compiled
def measure_conservative(p: Any, s: State) -> None:
    """The least that the explored plays and arm a earn, less what they must: (1 - alpha) t baselines.

    Baseline plays pay for themselves, so h of them leave (1 - alpha) t - h to be earned. A known mean
    multiplies that. Otherwise it is in y (joint), or bounded apart, as Kazerouni et al. (2017) do.
    """
    r = s.run[0]
    owed, held = (1.0 - p.epsilon) * (r.rounds + 1), r.rounds - r.ventured
    if p.form == BY_ARM:
        measure_by_arms(p, s, owed, held)
    elif p.baseline_known == 1:
        measure_excess(p, s, -1.0 * r.ventured, (held - owed) * p.baseline_mean)
    elif p.form == JOINT:
        measure_by_model(p, s)
    else:
        xbar, image = s.vectors[XBAR], s.vectors[STEP]
        solve(s, xbar, image)
        spread = sqrt(cautious_square(s, xbar, image))
        bias = inf if p.loose_bias == 1 else p.bias * sqrt(p.ridge * dot(image, image))
        margin = r.gate_radius * spread + min(p.bias * spread, bias) + move_of(p, s, xbar, image)
        middle = dot(s.vectors[THETA], xbar)
        saved = p.epsilon * max(held * (middle - margin), 0.0)
        measure_excess(p, s, -1.0 * r.ventured, saved - (owed - (1.0 - p.epsilon) * held) * (middle + margin))


@compiled
def arm_margin(p: Any, seen: float) -> float:
    """How far the mean of so many rewards of an arm can be from its own, at all counts of all arms at once.

    The chance is at most d / (k s (s + 1)) for s rewards of one of k arms, and these sum to d.
    """
    return float(p.noise * sqrt(2.0 * (p.arm_level + log(seen) + log1p(seen)) / seen))


@compiled
def bound_arm(p: Any, s: State, arm: int) -> None:
    """Bounds on an arm's mean from its own rewards; no mean leaves its range, and lost rewards widen them."""
    seen, low, high = s.arms[SEEN, arm], p.low, p.low + p.unit
    if seen > 0.0:
        mean, margin = s.arms[SUMS, arm] / seen, arm_margin(p, seen) + s.arms[LOST, arm] / seen
        margin += p.shift * sqrt(s.run[0].logged * float(s.counts[LOGGED, arm])) / seen
        low, high = max(mean - margin, low), min(mean + margin, high)
    s.arms[ARM_LOWER, arm], s.arms[ARM_UPPER, arm] = low, high


@compiled
def measure_by_arms(p: Any, s: State, owed: float, held: int) -> None:
    """The same from each arm's own rewards, without a model (Wu et al. 2016)."""
    r, room, plays, mixed = s.run[0], s.arms[ROOM], s.arms[PLAYS], s.counts[MIXED]
    lower, low, high = s.arms[ARM_LOWER], p.low, p.low + p.unit
    least, most = max(r.lower_reference, low), min(r.upper_reference, high)
    earned = 0.0
    for a in range(room.size):
        earned += (plays[a] - mixed[a]) * lower[a]
    if p.fallback == FIXED_ARM:
        least, most = lower[p.fixed_arm], s.arms[ARM_UPPER, p.fixed_arm]
        earned -= plays[p.fixed_arm] * least
    mean = least if held >= owed else most
    if p.baseline_known == 1:
        mean = p.baseline_mean
    earned += (held - owed) * mean
    for a in range(room.size):
        room[a] = earned + lower[a]
    if p.fallback == FIXED_ARM and p.baseline_known == 1:
        room[p.fixed_arm] = earned + mean


@compiled
def tell_online(s: State) -> None:
    """What a gate asks besides the estimate, for the state of online rewards alone."""
    other = online(s)
    r, o = s.run[0], other.run[0]
    o.rounds, o.ventured, o.logged, o.longest = r.rounds, r.ventured, r.logged, r.longest
    o.vetoed, o.premium, o.slack, o.baseline, o.arrears = r.vetoed, r.premium, r.slack, r.baseline, r.arrears
    o.lower_reference, o.upper_reference = r.lower_reference, r.upper_reference
    o.proposal, o.fallback = r.proposal, r.fallback
    copy(s.arms[PLAYS], other.arms[PLAYS])
    for row in (XBAR, PLAYED, EXCESS, PRACTICE_MEAN):
        copy(s.vectors[row], other.vectors[row])


@compiled
def measure_without_log(params: Records, s: State) -> None:
    """An arm is affordable by either estimate: both hold at once."""
    other, room = online(s), s.arms[ROOM]
    tell_online(s)
    measure_room(params[1], other)
    for a in range(room.size):
        room[a] = max(room[a], other.arms[ROOM, a])


@compiled
def measure_room(p: Any, s: State) -> None:
    """What the gate makes of every arm: it is affordable where its room is positive."""
    if p.gate == TOLERANCE:
        measure_tolerance(p, s)
    elif p.gate == BUDGET:
        measure_budget(p, s)
    elif p.gate == CONSERVATIVE:
        measure_conservative(p, s)
    elif p.gate == OPEN:
        s.arms[ROOM] = inf
    else:  # closed, and any code that no branch knows
        s.arms[ROOM] = -inf


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
    """L_t, eq. (3): the allowed arm with the best lower bound."""
    if s.run[0].restricted == 0:
        return best(lcb)
    arm = -1
    for a in range(lcb.size):
        if s.counts[ALLOWED, a] == 1 and (arm < 0 or lcb[a] > lcb[arm]):
            arm = a
    return arm


@compiled
def is_certified(p: Any, s: State, arm: int) -> bool:
    """Whether the model proves that this arm earns at least mu_off."""
    if p.by_model == 0 or s.run[0].vetoed == 1:
        return False
    y, image = s.vectors[WORK], s.vectors[STEP]
    xbar = s.vectors[XBAR if s.run[0].premium == 0.0 else PRACTICE_MEAN]
    for i in range(y.size):
        y[i] = -xbar[i]
    add_action(s, arm, 1.0, y)
    solve(s, y, image)
    spread = sqrt(cautious_square(s, y, image))
    bias = p.bias * spread
    if p.loose_bias == 0:
        bias = min(bias, p.bias * sqrt(p.ridge * dot(image, image)))
    least = dot(s.vectors[THETA], y) - s.run[0].gate_radius * spread - bias
    return bool(least - move_of(p, s, y, image) >= 0.0)


@compiled
def is_certified_by_either(params: Records, s: State, arm: int) -> bool:
    """The same, by the estimate with the log or by that without it."""
    if is_certified(params[0], s, arm):
        return True
    if params[0].shift == 0.0:
        return False
    tell_online(s)
    return is_certified(params[1], online(s), arm)


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
def rounding(logged: Ints, mixed: Ints) -> tuple[float, float]:
    """The most that mixture plays are behind the log's shares, over all arms and of one; `mixed` is scratch.

    The deficits return to zero after sum(logged) plays, so one period is all there is.
    """
    total = 0
    for a in range(logged.size):
        total += logged[a]
        mixed[a] = 0
    worst = single = 0
    for plays in range(total):
        mixed[most_behind(logged, mixed, total, plays)] += 1
        behind = 0
        for a in range(logged.size):
            own = max(logged[a] * (plays + 1) - total * mixed[a], 0)
            behind, single = behind + own, max(single, own)
        worst = max(worst, behind)
    return worst / total, single / total


@compiled
def fall_back(params: Records, s: State) -> None:
    """The safe arm and where it comes from; -1 where no safe arm is allowed."""
    p, r = params[0], s.run[0]
    r.fallback_source = FROM_LCB
    if p.fallback == FIXED_ARM:
        r.fallback, r.fallback_source = p.fixed_arm, FROM_FIXED
    elif p.fallback != MIXTURE:
        r.fallback = pessimistic(s, s.arms[FIRST_LCB] if p.fallback == FROZEN_ARM else s.arms[LCB])
        if p.gate == BUDGET and r.restricted == 1 and s.arms[LCB, r.fallback] < r.baseline:
            r.fallback = -1
    if p.fallback == MIXTURE or (
        p.fallback == CERTIFIED and not is_certified_by_either(params, s, r.fallback)
    ):
        if r.premium == 0.0:
            r.fallback = most_behind(s.counts[LOGGED], s.counts[MIXED], r.logged, r.mixed)
        else:
            r.fallback = most_behind(s.counts[PRACTICE_PULLS], s.counts[MIXED], r.practised, r.turns)
        r.fallback_source = FROM_MIXTURE
    if r.fallback >= 0 and s.counts[ALLOWED, r.fallback] == 0:
        r.fallback = -1


@compiled
def keep_ticket(s: State, arm: int) -> None:
    """What a reward needs that comes back by its arm alone, while the arm has no other pending play."""
    r = s.run[0]
    alone = s.counts[PENDING, arm] + s.counts[PENDING_MIXTURE, arm] == 0
    s.arms[TICKET, arm] = r.entry if alone else -1.0
    s.arms[TICKET_SHARE, arm] = r.entry_share
    s.arms[TICKET_CENTRE, arm] = r.entry_centre
    if r.entry == EXPLORED_PLAY or r.entry == UNASKED_PLAY:
        s.arms[AGAINST, r.entry_practice] += 1.0


@compiled
def vouched_room(p: Any, s: State) -> float:
    """The room that the log, or the model, sees for the proposal in place of practice's arm."""
    r = s.run[0]
    allowed = p.budget + p.epsilon * (r.rounds + 1)
    if p.vouched_by == THE_LOG:
        upper, lower = s.arms[PRACTICE_UPPER], s.arms[PRACTICE_LOWER]
        counts, logged = s.arms[AGAINST], s.counts[LOGGED]
        rounds = r.ventured + 1  # the explored ones, and this
        most = most_by_practice(logged, r.logged, rounds, counts, upper, lower, p.log_upper, r.fallback)
        return float(allowed + r.earned + p.low * (r.pending + 1) - most)
    if p.vouched_by == THE_MODEL:
        y, image = s.vectors[WORK], s.vectors[STEP]
        copy(s.vectors[EXCESS], y)
        add_action(s, r.proposal, 1.0, y)
        add_action(s, r.fallback, -1.0, y)
        solve(s, y, image)
        spread = sqrt(cautious_square(s, y, image))
        bias = min(p.bias * spread, p.bias * sqrt(p.ridge * dot(image, image)))
        least = allowed + dot(s.vectors[THETA], y) - r.gate_radius * spread - bias
        return float(least - move_of(p, s, y, image))
    return -inf


@compiled
def decide_by_coin(params: Records, s: State, proposal: int) -> int:
    """The explorer's favourite or practice's arm: where they differ and there is room, the coin decides."""
    p, r, score = params[0], s.run[0], s.arms[SCORE]
    if r.thrown == 1:
        return int(r.arm)
    if proposal < 0:
        score_arms(p, s)
        if p.shift > 0.0 and p.explorer == UCB:
            cap_scores(params, s)
        if r.restricted == 1:
            for a in range(score.size):
                if s.counts[ALLOWED, a] == 0:
                    score[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)
    if p.fallback == MIXTURE:
        total = -1 if r.restricted == 1 else r.logged
        r.fallback = draw_practice(s.counts[LOGGED], s.counts[ALLOWED], total, r.practice_draw)
        r.fallback_source = FROM_MIXTURE
    else:
        fall_back(params, s)
    if r.fallback < 0:
        r.arm, r.explored, r.fresh = -1, 0, 1
        return -1
    vouched = vouched_room(p, s)
    if p.shift > 0.0 and p.vouched_by == THE_MODEL:
        tell_online(s)
        vouched = max(vouched, vouched_room(params[1], online(s)))
    throw_coin(p, r, vouched, s.counts[ALLOWED, r.proposal] == 0)
    return int(r.arm)


@compiled
def choose(p: Any, s: State, proposal: int) -> None:
    """The best affordable arm, or the proposal if it is affordable, or else the fallback."""
    r, score, room = s.run[0], s.arms[SCORE], s.arms[ROOM]
    r.arm = r.proposal if room[r.proposal] > 0.0 else -1  # B(t) > 0
    if r.arm < 0 and p.reach == AFFORDABLE and proposal < 0:
        r.arm = best_affordable(score, room)
    r.explored = 1 if r.arm >= 0 else 0
    r.room = room[r.arm] if r.explored == 1 else room[r.proposal]
    r.source = FROM_EXPLORER
    if r.explored == 0:
        r.arm, r.source = r.fallback, r.fallback_source
    r.fresh = 1


@compiled
def decide(params: Records, s: State, proposal: int) -> int:
    """Algorithm 1: score the arms, keep the affordable ones, play the best of them or else the fallback.

    `proposal` is somebody else's arm, or -1 to ask the explorer. Writes the whole decision into s.run.
    """
    p, r = params[0], s.run[0]
    if p.gate == CONTROL:
        return decide_by_coin(params, s, proposal)
    score, room = s.arms[SCORE], s.arms[ROOM]
    measure_room(p, s)
    if p.shift > 0.0 and p.gate != OPEN:
        measure_without_log(params, s)
    if proposal < 0:
        score_arms(p, s)
        if p.shift > 0.0 and p.explorer == UCB:
            cap_scores(params, s)
    if r.restricted == 1:
        for a in range(score.size):
            if s.counts[ALLOWED, a] == 0:
                score[a] = room[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)  # U_t
    fall_back(params, s)  # L_t
    choose(p, s, proposal)
    return int(r.arm)


# -- arms that come and go --------------------------------------------------------------------------------


@compiled
def meet_arms(params: Records, s: State, first: int) -> None:
    """What the estimate says of the arms from `first` on, O(d^2) each; lower bounds are current ones."""
    p, r = params[0], s.run[0]
    x, step = s.vectors[WORK], s.vectors[STEP]
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.doubt
    r.fresh = 0
    for a in range(first, s.arms.shape[1]):
        x[:] = 0.0
        add_action(s, a, 1.0, x)
        solve(s, x, step)
        if r.one_hot == 0:
            refine(s, x, step)
        s.arms[MEAN, a] = dot(s.vectors[THETA], x)
        s.arms[VARIANCE, a] = max(dot(x, step), 0.0)
        s.arms[WIDTH, a] = sqrt(s.arms[VARIANCE, a])
        s.arms[LCB, a] = s.arms[MEAN, a] - (r.radius + r.doubt) * s.arms[WIDTH, a]
        s.arms[FIRST_LCB, a] = s.arms[LCB, a]
        r.longest = max(r.longest, dot(x, x))


@compiled
def lose_arms(params: Records, s: State) -> None:
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
        if p.joint == 1:
            secure_surplus(p, r, 0, True)
    if p.gate == BUDGET and r.logged > 0:
        safe = pessimistic(s, s.arms[FIRST_LCB] if p.fallback == FROZEN_ARM else s.arms[LCB])
        if s.arms[LCB, safe] < r.baseline:
            r.arrears += r.rounds * (r.baseline - s.arms[LCB, safe])
            r.baseline = s.arms[LCB, safe]


# -- simulate ---------------------------------------------------------------------------------------------


@compiled
def play(
    params: Records,
    s: State,
    means: Floats,  # (segments, k)
    starts: Ints,  # (segments,) the first round of each, from 0
    first: int,  # which round the first one here is
    draws: Floats,  # (n,) noise, or uniforms for rewards of two values
    two_point: bool,  # rewards are low or low + spread, and no other
    low: float,
    spread: Floats,  # (k,) what the noise of an arm is multiplied by, or the step between its two values
    randoms: Floats,  # (n, d) normals, (n, k) scores, or (n, 0): what the explorer draws at each commit
    coins: Floats,  # (n, 2) uniforms, or (n, 0): what the gate draws at each commit
    arms: Ints,  # (n,) out
    sources: Ints,  # (n,) out
    fallbacks: Ints,  # (n,) out
) -> None:
    """Play n rounds against a known world: the loop of Algorithm 1."""
    p, r = params[0], s.run[0]
    segment = 0
    for t in range(draws.size):
        while segment + 1 < starts.size and starts[segment + 1] <= first + t:
            segment += 1
        mean = means[segment]
        arm = decide(params, s, -1)
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        mixture = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
        commit(params, s, arm, mixture)
        if p.gate == CONTROL:
            r.practice_draw, r.coin = coins[t, 0], coins[t, 1]
        if p.draws == NORMAL_DRAWS:
            copy(randoms[t], s.vectors[NORMALS])
        elif p.draws == SCORE_DRAWS:
            copy(randoms[t], s.arms[GIVEN_SCORES])
        reward = mean[arm] + spread[arm] * draws[t]
        if two_point:
            reward = low + spread[arm] if draws[t] * spread[arm] < mean[arm] - low else low
        observe(params, s, arm, mixture, reward, 0.0)


# -- contexts: every round brings its own arms --------------------------------------------------------------
# The rules above on a State whose actions, arms and counts are those of one round: explorer, gate and coin
# see no difference. What lasts is in square, vectors and run, and a reward brings its own action. XBAR is
# what practice does in this round; R is kept after every reward, since widths of arms are computed from it.

LOST_GRAM = len(SQUARE_ROWS)  # one more square: the sum of e x x' over lost rewards
RECENT_FACTOR, RECENT_HALF = LOST_GRAM + 1, len(VECTOR_ROWS)  # with a memory: R and half of the last rewards


def allocate_rounds(gram: Floats, target: Floats, forgets: bool = False) -> State:
    """A state without arms that knows the log's X'X and X'y; `context_begin` starts it."""
    d = target.size
    state = State(
        actions=np.zeros((d, 0)),
        square=np.zeros((len(SQUARE_ROWS) + 1 + forgets, d, d)),
        vectors=np.zeros((len(VECTOR_ROWS) + forgets, d)),
        arms=np.zeros((len(ARM_ROWS), 0)),
        counts=np.zeros((len(COUNT_ROWS), 0), dtype=np.int64),
        run=np.zeros(1, dtype=RUN),
    )
    state.square[GRAM], state.vectors[TARGET] = gram, target
    return state


def with_arms(state: State, actions: Floats) -> State:
    """The same state before these arms (d, k)."""
    k = actions.shape[1]
    if k == state.arms.shape[1]:
        return state._replace(actions=actions)
    counts = np.ones((len(COUNT_ROWS), k), dtype=np.int64)
    return state._replace(actions=actions, arms=np.zeros((len(ARM_ROWS), k)), counts=counts)


@compiled
def context_begin(params: Records, s: State, rows: Floats, outcomes: Floats) -> None:
    """Start from the log alone: `rows` (n, d) with `outcomes` (n,) have its X'X and X'y; destroys rows."""
    p, r = params[0], s.run[0]
    d = s.vectors.shape[1]
    factor, half = s.square[FACTOR], s.vectors[HALF]
    for i in range(d):
        factor[i, i] = sqrt(p.ridge)
        s.square[GRAM, i, i] += p.ridge
    for j in range(outcomes.size):
        update_factor(factor, half, rows[j], outcomes[j])
    if p.memory > 0:
        begin_recent(p, s)
    invert(s)
    r.log_det_base = r.log_det if p.prior_is_log == 1 else d * log(p.ridge)
    widen(p, s)
    open_control(p, r)


@compiled
def begin_recent(p: Any, s: State) -> None:
    """Least squares that know no reward yet, beside those of the estimate."""
    factor = s.square[RECENT_FACTOR]
    factor[:] = 0.0
    s.vectors[RECENT_HALF] = 0.0
    for i in range(factor.shape[0]):
        factor[i, i] = sqrt(p.ridge)


@compiled
def forget_rounds(p: Any, s: State) -> None:
    """Drop what is older than the last `memory` rewards, and what was lost so far: V = R'R of those alone."""
    r, d = s.run[0], s.vectors.shape[1]
    gram, factor, target, half = s.square[GRAM], s.square[FACTOR], s.vectors[TARGET], s.vectors[HALF]
    for i in range(d):
        copy(s.square[RECENT_FACTOR, i], factor[i])
    copy(s.vectors[RECENT_HALF], half)
    gram[:] = 0.0
    target[:] = 0.0
    for i in range(d):
        for j in range(i, d):
            target[j] += factor[i, j] * half[i]
            for column in range(i, d):
                gram[j, column] += factor[i, j] * factor[i, column]
    begin_recent(p, s)
    r.lost_sum = r.lost_squares = 0.0
    s.square[LOST_GRAM] = 0.0
    invert(s)
    if p.prior_is_log == 1:
        r.log_det_base = r.log_det


@compiled
def widen(p: Any, s: State) -> None:
    """The radii of C_t, with what stand-ins for lost rewards may have moved the estimate, in the norm of V.

    Those are the rows x of X, each wrong by at most e: |X'e| in V^-1 is at most |e|, since X'X is part of V,
    and at most sqrt(sum of e times trace of V^-1 L), L = sum of e x x', which falls as others arrive.
    """
    r = s.run[0]
    r.doubt = 0.0
    if r.lost_sum > 0.0:
        trace = 0.0
        for i in range(s.vectors.shape[1]):
            trace += dot(s.square[INVERSE, i], s.square[LOST_GRAM, i])
        r.doubt = sqrt(min(r.lost_squares, r.lost_sum * max(trace, 0.0)))
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.doubt


@compiled
def context_widen(params: Records, s: State) -> None:
    """The radii anew, for who changed what they depend on."""
    widen(params[0], s)


@compiled
def measure_arms(s: State, whitened: Floats) -> None:
    """Mean and variance of every arm, O(k d^2): |x|^2 in V^-1 is |z|^2 with R'z = x, solved for all at once.

    No digits cancel, however much better the log knows some directions than others.
    """
    r = s.run[0]
    d, k = s.actions.shape
    factor, columns = s.square[FACTOR], s.square[ROOT_T]
    variance, width = s.arms[VARIANCE], s.arms[WIDTH]
    combine(s.actions, s.vectors[THETA], s.arms[MEAN])
    variance[:] = 0.0
    width[:] = 0.0
    for i in range(d):
        for j in range(i):
            columns[i, j] = factor[j, i]
        z, x, pivot = whitened[i], s.actions[i], 1.0 / factor[i, i]
        combine(whitened[:i], columns[i, :i], z)
        for a in range(k):
            z[a] = (x[a] - z[a]) * pivot
            variance[a] += z[a] * z[a]
            width[a] += x[a] * x[a]
    r.longest = width[best(width)]
    for a in range(k):
        width[a] = sqrt(variance[a])


@compiled
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


@compiled
def fall_back_on_practice(p: Any, s: State, offered: int) -> None:
    """The pessimistic arm where that is the fallback, always or while it is proven; practice's otherwise."""
    r = s.run[0]
    if p.fallback == MIXTURE:
        return
    mean, width, lcb = s.arms[MEAN], s.arms[WIDTH], s.arms[LCB]
    bonus = r.radius + r.doubt
    for a in range(lcb.size):
        lcb[a] = mean[a] - bonus * width[a] if a < offered else -inf
    arm = best(lcb)
    if p.fallback == LCB_ARM or is_certified(p, s, arm):
        r.fallback, r.fallback_source = arm, FROM_LCB


@compiled
def context_decide(
    params: Records, s: State, whitened: Floats, weights: Floats, offered: int, proposal: int
) -> int:
    """The rules of `decide` for the arms of this round, of which the first `offered` may be proposed.

    `weights` (k,) are practice's; they are all 0 where there is none. `whitened` (d, k) is scratch.
    """
    p, r = params[0], s.run[0]
    if r.thrown == 1:
        return int(r.arm)
    measure_arms(s, whitened)
    score, room = s.arms[SCORE], s.arms[ROOM]
    for i in range(s.actions.shape[0]):
        s.vectors[XBAR, i] = dot(s.actions[i], weights)
    if proposal < 0:
        if p.draws == SCORE_DRAWS:
            draw_scores(s.vectors[NORMALS, 0], s.arms[GIVEN_SCORES])
        score_arms(p, s)
        for a in range(offered, score.size):
            score[a] = -inf
    r.proposal = proposal if proposal >= 0 else best(score)
    r.fallback, r.fallback_source = draw_arm(weights, r.practice_draw), FROM_MIXTURE
    if p.gate == CONTROL:
        throw_coin(p, r, vouched_room(p, s), False)
        return int(r.arm)
    measure_room(p, s)
    for a in range(offered, room.size):
        room[a] = -inf
    fall_back_on_practice(p, s, offered)
    choose(p, s, proposal)
    return int(r.arm)


@compiled
def context_commit(params: Records, s: State, action: Floats, practice: Floats, by_practice: bool) -> None:
    """Count a decision when it is made; a play by practice is owed nothing."""
    p, r, excess = params[0], s.run[0], s.vectors[EXCESS]
    if p.gate == CONTROL:
        enter_coin_play(p, r)
    r.rounds += 1
    r.fresh = r.thrown = 0
    if not by_practice:
        for i in range(excess.size):
            excess[i] += action[i] - practice[i]


@compiled
def context_observe(params: Records, s: State, action: Floats, reward: float, error: float) -> None:
    """Count the reward of an action, or with an `error` above 0 what stands in for it, O(d^2)."""
    p, r, x, z = params[0], s.run[0], s.vectors[WORK], s.vectors[REFINED]
    factor = s.square[FACTOR]
    copy(action, x)
    copy(action, z)
    for i in range(z.size):  # R'z = x, row by row
        z[i] /= factor[i, i]
        for j in range(i + 1, z.size):
            z[j] -= factor[i, j] * z[i]
    _, growth = learn(p, s, x, dot(s.vectors[THETA], x), dot(z, z), reward)
    if error > 0.0:
        r.lost_sum += error
        r.lost_squares += error * error
        for i in range(x.size):
            for j in range(x.size):
                s.square[LOST_GRAM, i, j] += error * x[i] * x[j]
    elif p.gate == CONTROL:
        enter_coin_reward(p, r, reward)
    update_factor(factor, s.vectors[HALF], x, reward)
    if p.memory > 0:
        copy(action, x)
        update_factor(s.square[RECENT_FACTOR], s.vectors[RECENT_HALF], x, reward)
    if p.memory > 0 and r.rewards % p.memory == 0:
        forget_rounds(p, s)
    elif is_worn(r, growth):
        invert(s)
    widen(p, s)


@compiled
def context_pay(
    params: Records, s: State, reward: float, practice: Floats, action: Floats, coin: Floats, randoms: Floats
) -> None:
    """Commit the decision in s.run, draw for the next round, and observe: what an agent does in `update`."""
    r = s.run[0]
    by_practice = r.source == FROM_MIXTURE or r.source == FROM_CONTROL
    if r.thrown == 0:
        r.entry_share = r.entry_centre = 0.0
    context_commit(params, s, action, practice, by_practice)
    r.practice_draw, r.coin = coin[0], coin[1]
    for i in range(randoms.size):
        s.vectors[NORMALS, i] = randoms[i]
    context_observe(params, s, action, reward, 0.0)


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
) -> None:
    """Play n rounds that bring their own arms, in a known world."""
    p, r, d, begin = params[0], s.run[0], actions.shape[1], 0
    for t in range(ends.size):
        k = ends[t] - begin
        columns = scratch[0, : d * k].reshape((d, k))
        whitened = scratch[1, : d * k].reshape((d, k))
        for a in range(k):
            for i in range(d):
                columns[i, a] = actions[begin + a, i]
        table = s.arms.reshape(-1)[: len(ARM_ROWS) * k].reshape((len(ARM_ROWS), k))
        counts = s.counts.reshape(-1)[: len(COUNT_ROWS) * k].reshape((len(COUNT_ROWS), k))
        now = State(columns, s.square, s.vectors, table, counts, s.run)
        arm = context_decide(params, now, whitened, weights[begin : ends[t]], k, -1)
        arms[t], sources[t], fallbacks[t] = arm, r.source, r.fallback
        mean = means[begin + arm]
        reward = mean + draws[t]
        if two_point:
            reward = 1.0 if draws[t] < mean else 0.0
        practice = actions[begin + r.fallback] if p.gate == CONTROL else s.vectors[XBAR]
        context_pay(params, now, reward, practice, actions[begin + arm], coins[t], randoms[t])
        begin = ends[t]
