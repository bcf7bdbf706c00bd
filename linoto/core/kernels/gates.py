"""What a gate makes of every arm: its room, affordable where positive; and which arms are proven safe."""

from __future__ import annotations

from math import inf, log, log1p, sqrt
from typing import Any

from linoto.core.arrays import Floats, Records
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.control import most_by_practice
from linoto.core.kernels.estimate import add_action, copy, dot, log_image, online, project, solve
from linoto.core.kernels.layout import (
    AGAINST,
    AGGREGATE,
    ARM_LOWER,
    ARM_UPPER,
    BUDGET,
    BY_ARM,
    CONSERVATIVE,
    CROSS,
    EXACT,
    EXCESS,
    FIXED_ARM,
    JOINT,
    LCB,
    LOGGED,
    LOST,
    MAX,
    MEAN,
    MIXED,
    MOVE,
    MOVED,
    OPEN,
    PLAYED,
    PLAYS,
    PRACTICE_LOWER,
    PRACTICE_MEAN,
    PRACTICE_UPPER,
    REFINED,
    RESIDUE,
    ROOM,
    ROUNDING,
    SEEN,
    STEP,
    SUMS,
    THE_LOG,
    THE_MODEL,
    THETA,
    TOLERANCE,
    VARIANCE,
    WIDTH,
    WORK,
    XBAR,
    Part,
    State,
)
from linoto.core.kernels.ledger import allowance, room_by_rewards


@inner
def move_of(p: Any, s: State, y: Floats, image: Floats, shift: Part) -> float:
    """How far the log's shift may have moved <theta, y>: shift sqrt(m) |X V^-1 y|; image = V^-1 y.

    With m rows and errors e of their means, X'e moves it by <X V^-1 y, e>, and |e| <= shift sqrt(m).
    """
    if shift is None:
        return 0.0
    r, back = s.run[0], s.vectors[RESIDUE]
    log_image(s, image, back)
    return float(p.shift * sqrt(r.logged * (max(dot(image, back), 0.0) + ROUNDING * r.widest * dot(y, y))))


@inner
def move_with_arms(p: Any, s: State, y: Floats, image: Floats) -> None:
    """The same for y + a, for every arm a, into `move`."""
    r, log_of, back = s.run[0], s.vectors[RESIDUE], s.vectors[REFINED]
    moved, move = s.arms[MOVED], s.arms[MOVE]
    log_image(s, image, log_of)
    solve(s, log_of, back)
    project(s, back, move)
    base, rounding = dot(image, log_of), ROUNDING * r.widest * (dot(y, y) + r.longest)
    for a in range(move.size):
        square = max(base + 2.0 * move[a] + moved[a], 0.0) + rounding
        move[a] = p.shift * sqrt(r.logged * square)


@inner
def lower_bound(p: Any, s: State, y: Floats, shift: Part) -> float:
    """inf over C_t of <theta, y>."""
    image = s.vectors[STEP]
    solve(s, y, image)
    bonus = s.run[0].radius + s.run[0].lost_radius
    least = dot(s.vectors[THETA], y) - bonus * sqrt(max(dot(y, image), 0.0))
    return float(least - move_of(p, s, y, image, shift))


@inner
def budget_due(p: Any, r: Any) -> float:
    """t r_b of eq. (5), less what a known horizon credits in advance."""
    due = (r.rounds + 1) * r.baseline + r.earlier_baselines
    if p.horizon > 0.0:
        due -= (p.horizon - r.rounds - 1.0) * p.alpha * r.slack
    return float(due)


@inner
def measure_budget(p: Any, s: State, shift: Part, model: Part) -> None:
    """B(t) of eq. (5) for every arm a in the place of U_t: sum_s lcb_t(A_s) + lcb_t(a) - t r_b."""
    r = s.run[0]
    lcb, room = s.arms[LCB], s.arms[ROOM]
    if r.logged == 0:  # nothing was promised
        room[:] = inf
        return
    due, past = budget_due(p, r), -inf
    if p.form != AGGREGATE:
        past = dot(s.arms[PLAYS], lcb)  # equal arms grouped: the sum over s < t is a dot product
    if model is not None and p.form != EXACT:
        past = max(past, lower_bound(p, s, s.vectors[PLAYED], shift))
    for a in range(lcb.size):
        room[a] = past + lcb[a] - due
    if model is not None and p.form == MAX:
        join_aggregate(p, s, due, shift)


@inner
def join_aggregate(p: Any, s: State, due: float, shift: Part) -> None:
    """Raise the room of each arm to the lower bound of its sum with all past actions, minus t r_b."""
    total, image, cross = s.vectors[PLAYED], s.vectors[STEP], s.arms[CROSS]
    mean, variance, room = s.arms[MEAN], s.arms[VARIANCE], s.arms[ROOM]
    solve(s, total, image)
    project(s, image, cross)
    base, square = dot(s.vectors[THETA], total), dot(total, image)
    bonus = s.run[0].radius + s.run[0].lost_radius
    if shift is not None:
        move_with_arms(p, s, total, image)
    for a in range(room.size):
        joint = base + mean[a] - bonus * sqrt(max(square + 2.0 * cross[a] + variance[a], 0.0)) - due
        if shift is not None:
            joint -= s.arms[MOVE, a]
        room[a] = joint if joint > room[a] else room[a]


@inner
def cautious_square(s: State, y: Floats, image: Floats) -> float:
    """|y|^2 in V^-1, rounded up: where V^-1 is large, its rounding must not open a gate."""
    return float(max(dot(y, image), 0.0) + ROUNDING * s.run[0].widest * dot(y, y))


@inner
def excess_terms(p: Any, s: State, owed: float, besides: float) -> tuple[float, float, float, float]:
    """What the rooms of all arms share where y = Z - owed xbar is what they are added to.

    Its mean and what there is `besides`, its square in V^-1, its share of the bias, and rounding; leaves y in
    `work` and V^-1 y in `step`.
    """
    r, y, image = s.run[0], s.vectors[WORK], s.vectors[STEP]
    for i in range(y.size):
        y[i] = s.vectors[EXCESS, i] - owed * s.vectors[XBAR, i]
    if r.premium > 0.0:  # this round is compared with what is left of practice, the allowance is as it was
        for i in range(y.size):
            y[i] += s.vectors[XBAR, i] - s.vectors[PRACTICE_MEAN, i]
    solve(s, y, image)
    base, square = dot(s.vectors[THETA], y) + besides, cautious_square(s, y, image)
    shared = inf if p.loose_bias == 1 else p.bias * sqrt(p.ridge * dot(image, image))
    return base, square, shared, ROUNDING * r.widest * (dot(y, y) + r.longest)


@inner
def excess_room(
    p: Any, r: Any, terms: tuple[float, float, float, float], arm: tuple[float, float, float], cross: float
) -> float:
    """The room of an arm of this mean, variance and width, where `cross` = <a, V^-1 y>."""
    (base, square, shared, rounding), (mean, variance, width) = terms, arm
    spread = sqrt(max(square + 2.0 * cross + variance, 0.0) + rounding)
    bias = min(p.bias * spread, shared + p.bias * width)
    return float(base + mean - r.gate_radius * spread - bias)


@inner
def measure_excess(p: Any, s: State, owed: float, besides: float, shift: Part) -> None:
    """The least that y = Z + a - owed xbar earns, for every arm a, and what there is `besides`.

    <theta, y> - r |y|_{V^-1} - bias, where the ridge biases <theta, y> by at most ridge bound |V^-1 y|_2 and
    by at most sqrt(ridge) bound |y|_{V^-1}.
    """
    r, cross = s.run[0], s.arms[CROSS]
    mean, variance, width, room = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[ROOM]
    terms = excess_terms(p, s, owed, besides)
    project(s, s.vectors[STEP], cross)
    for a in range(room.size):
        room[a] = excess_room(p, r, terms, (mean[a], variance[a], width[a]), cross[a])
    if shift is not None:
        move_with_arms(p, s, s.vectors[WORK], s.vectors[STEP])
        for a in range(room.size):
            room[a] -= s.arms[MOVE, a]


@inner
def is_baseline(p: Any, arm: int) -> bool:
    """Whether this arm is what a Conservative gate compares with."""
    return bool(p.fallback == FIXED_ARM and arm == p.fixed_arm)


@inner
def measure_conservative(p: Any, s: State, shift: Part) -> None:
    """The least that the explored plays and arm a earn, less what they must: (1 - alpha) t baselines.

    Baseline plays pay for themselves, so h of them leave (1 - alpha) t - h to be earned. A known mean
    multiplies that. Otherwise it is in y (joint), or bounded apart, as Kazerouni et al. (2017) do.
    """
    r = s.run[0]
    owed, held = (1.0 - p.epsilon) * (r.rounds + 1), r.rounds - r.explored_plays
    if p.form == BY_ARM:
        measure_by_arms(p, s, owed, held)
    elif p.baseline_known == 1:
        measure_excess(p, s, -1.0 * r.explored_plays, (held - owed) * p.baseline_mean, shift)
    elif p.form == JOINT:
        measure_excess(p, s, 1.0 - allowance(p, r.rounds + 1), 0.0, shift)
    else:
        xbar, image = s.vectors[XBAR], s.vectors[STEP]
        solve(s, xbar, image)
        spread = sqrt(cautious_square(s, xbar, image))
        bias = p.bias * sqrt(p.ridge * dot(image, image))
        margin = r.gate_radius * spread + min(p.bias * spread, bias) + move_of(p, s, xbar, image, shift)
        middle = dot(s.vectors[THETA], xbar)
        saved = p.epsilon * max(held * (middle - margin), 0.0)
        due = (owed - (1.0 - p.epsilon) * held) * (middle + margin)
        measure_excess(p, s, -1.0 * r.explored_plays, saved - due, shift)


@inner
def arm_margin(p: Any, seen: float) -> float:
    """How far the mean of so many rewards of an arm can be from its own, at all counts of all arms at once.

    The chance is at most d / (k s (s + 1)) for s rewards of one of k arms, and these sum to d.
    """
    return float(p.noise * sqrt(2.0 * (p.arm_level + log(seen) + log1p(seen)) / seen))


@inner
def bound_arm(p: Any, s: State, arm: int) -> None:
    """Bounds on an arm's mean from its own rewards; no mean leaves its range, and lost rewards widen them."""
    seen, low, high = s.arms[SEEN, arm], p.low, p.low + p.unit
    if seen > 0.0:
        mean, margin = s.arms[SUMS, arm] / seen, arm_margin(p, seen) + s.arms[LOST, arm] / seen
        margin += p.shift * sqrt(s.run[0].logged * float(s.counts[LOGGED, arm])) / seen
        low, high = max(mean - margin, low), min(mean + margin, high)
    s.arms[ARM_LOWER, arm], s.arms[ARM_UPPER, arm] = low, high


@inner
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


@inner
def tell_online(s: State) -> None:
    """What a gate asks besides the estimate, for the state of online rewards alone."""
    other = online(s)
    r, o = s.run[0], other.run[0]
    o.rounds, o.explored_plays, o.logged, o.longest = r.rounds, r.explored_plays, r.logged, r.longest
    o.vetoed, o.premium, o.slack = r.vetoed, r.premium, r.slack
    o.baseline, o.earlier_baselines = r.baseline, r.earlier_baselines
    o.lower_reference, o.upper_reference = r.lower_reference, r.upper_reference
    o.proposal, o.fallback = r.proposal, r.fallback
    copy(s.arms[PLAYS], other.arms[PLAYS])
    for row in (XBAR, PLAYED, EXCESS, PRACTICE_MEAN):
        copy(s.vectors[row], other.vectors[row])


@inner
def measure_without_log(
    params: Records, s: State, ledger: Part, own: Part, model: Part, budget: Part
) -> None:
    """An arm is affordable by either estimate: both hold at once."""
    other, room = online(s), s.arms[ROOM]
    tell_online(s)
    measure_room(params[1], other, ledger, None, own, model, budget)
    for a in range(room.size):
        room[a] = max(room[a], other.arms[ROOM, a])


@inner
def excess_owed(p: Any, r: Any) -> tuple[float, float]:
    """How often mu_off is owed for an explored play, by a Tolerance, and what may be lost besides."""
    allowed = allowance(p, r.rounds + 1)
    share = allowed if p.relative == 1 else 0.0
    return 1.0 - share, allowed - share


@inner
def measure_room(p: Any, s: State, ledger: Part, shift: Part, own: Part, model: Part, budget: Part) -> None:
    """What the gate makes of every arm: it is affordable where its room is positive.

    A Tolerance takes either kind of evidence: the least that all plays but the mixture's, arm a included,
    earn above mu_off by the model, plus the allowance (relative to the reference, it is in xbar instead); and
    what rewards have paid for. The model has no say once it is vetoed.
    """
    r, room = s.run[0], s.arms[ROOM]
    if p.gate == TOLERANCE:
        room[:] = -inf
        if model is not None and p.by_model == 1 and r.vetoed == 0:
            owed, besides = excess_owed(p, r)
            measure_excess(p, s, owed, besides, shift)
        if ledger is not None and p.by_rewards == 1:
            paid = room_by_rewards(p, r)
            for a in range(room.size):
                room[a] = paid if paid > room[a] else room[a]
    elif budget is not None and p.gate == BUDGET:
        measure_budget(p, s, shift, model)
    elif own is not None and p.gate == CONSERVATIVE:
        measure_conservative(p, s, shift)
    elif p.gate == OPEN:
        room[:] = inf
    else:  # closed, and any code that no branch knows
        room[:] = -inf


@inner
def is_certified(p: Any, s: State, arm: int, shift: Part) -> bool:
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
    return bool(least - move_of(p, s, y, image, shift) >= 0.0)


@inner
def vouched_room(p: Any, s: State, shift: Part, model: Part) -> float:
    """The room that the log, or the model, sees for the proposal in place of practice's arm."""
    r = s.run[0]
    allowed = p.budget + p.epsilon * (r.rounds + 1)
    if p.loan_from == THE_LOG:
        upper, lower = s.arms[PRACTICE_UPPER], s.arms[PRACTICE_LOWER]
        counts, logged = s.arms[AGAINST], s.counts[LOGGED]
        rounds = r.explored_plays + 1  # the explored ones, and this
        most = most_by_practice(logged, r.logged, rounds, counts, upper, lower, p.log_upper, r.fallback)
        return float(allowed + r.earned + p.low * (r.pending + 1) - most)
    if model is not None and p.loan_from == THE_MODEL:
        y, image = s.vectors[WORK], s.vectors[STEP]
        copy(s.vectors[EXCESS], y)
        add_action(s, r.proposal, 1.0, y)
        add_action(s, r.fallback, -1.0, y)
        solve(s, y, image)
        spread = sqrt(cautious_square(s, y, image))
        bias = min(p.bias * spread, p.bias * sqrt(p.ridge * dot(image, image)))
        least = allowed + dot(s.vectors[THETA], y) - r.gate_radius * spread - bias
        return float(least - move_of(p, s, y, image, shift))
    return -inf
