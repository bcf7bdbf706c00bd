"""What the kernels work on: the records and rows of a state, by name. No compiled code, so cheap to import.

Shapes: k arms, d features. Rows of the packed arrays have names (`s.arms[LCB]`); few arrays make a call from
Python cheap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.lean import lean_zeros
from linoto.core.one_hot import OneHotArms, dense, find_one_hot
from linoto.core.slices import slices_for

BETS = 12  # betting fractions of the bounded-reward boundary
TILTS = 20  # exponential tilts of the bounded-reward reference
HEAD_START = 50.0  # w, rounds' worth of variance in the mixture boundary b(q)
COIN_BETS = 16  # betting fractions of a Control gate: 0.9 / unit, each 0.6 of the one before
NO_LEVEL = -40.0  # below, a bet does not count beside the others
MOST_GROWN = 1e4  # times that a bet grows, or shrinks, before its logarithm is taken
PURSE, LEAST_SHARE = 4.0, 0.05  # of control plays: the more room is left, the fewer, never fewer than that
FEES, MOST_SHARE = 3.0, 0.9  # an entrance fee is a third of what may be lost, with no more control than that
SURELY_LESS = 0.999  # times a number: smaller in spite of all rounding
CHEAP = -1.0  # in place of a share: as many as a bet needs to pay, and rather where it costs little
CHEAP_PURSE, CHEAP_LEAST, CHEAP_FEES = 2.0, 0.01, 4.0  # the same three for that
LEAST_MISSED, LEAST_GAP, MOST_PREFERRED = 0.1, 0.05, 2.0  # units; how many times more, or less, than usual
HOPED_GAP, SMALLEST_GAP = 0.25, 0.02  # units: what exploring gains a round before that is seen, and at least
FORESEEN_MEMORY, FORESEEN_WEIGHT, BELIEVED = 200, 40.0, 0.5  # plays; rewards that these stand for; of a gain
FORESEEN_FEES, CAUTION, SMALL_PART = 2.5, 1.5, 0.1  # of the usual gain: less is not worth a coin
CENTRE_WEIGHT, CENTRE_MEMORY = 20.0, 200.0  # rewards that the log's mean stands for; rewards remembered
LOG_START = 8.0  # the same for the reference: this part of the log's rows
TILT = 4.0 * 0.7 ** np.arange(TILTS)  # (TILTS,) the tilts l, and
GAP = -np.expm1(-TILT)  # 1 - exp(-l): constants once compiled
OPTIMISM = 1.5  # standard errors in favour of an arm of which guardrails do not know enough
CLEAR = 1e-9  # of a range: by how much more than rounding an arm must be refused by a variance of before
PATIENCE = 500.0  # rounds in which what may still be lost of a guardrail could be spent
NEWTON_STEPS = 40  # at most: three or four are enough from where the last reward left off
# What a rule is called in Params. Codes and branches, not function arguments: those would never be cached.
UCB, THOMPSON, GREEDY, GIVEN, RARE, SQUARE_CB, LOGISTIC, LUCK = range(8)  # explorer; GIVEN, RARE: scores kept
UCB1, HUCB1, MIN_UCB, KL_UCB, UCB_V, ARM_UCB = range(100, 106)  # explorers by each arm's own rewards
POSTERIOR, AGRAWAL_GOYAL, ABEILLE_LAZARIC, WHOLE_PRIOR = range(4)  # how wide Thompson sampling draws
NO_DRAWS, NORMAL_DRAWS, SCORE_DRAWS, ONE_DRAW = range(4)  # at each commit, by an explorer: 0, (d,), (k,), 1
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
        ("fade", np.float64),  # what all of them weigh from then on; 0: those since the last time stay, alone
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
        ("share", np.float64),  # of control plays; 0: as the room asks for; CHEAP
        ("gives_way", np.int64),  # 1: the explorer leaves practice the rounds in which it hopes for little
        ("loan", np.float64),  # what evidence other than the coin's may spend beyond the coin's own
        ("loan_from", np.int64),
        ("every", np.int64),  # rounds between the starts of stretches; 0: only the first round is one
        ("coin_level", np.float64),  # log(16/d), d the share of delta of the coin
        ("coin_stakes", np.float64, (COIN_BETS,)),  # log(16 w_j), w_j the share of the stake on bet j
        ("coin_fractions", np.float64, (COIN_BETS,)),  # lambda_j
        ("log_upper", np.float64),  # on mu_off, where the log vouches
        ("law", np.int64),  # of Thompson sampling's draws
        ("level", np.float64),  # log(1/delta)
        ("growth", np.float64),  # of log det V, from which on a RARE explorer scores anew
        ("odds", np.float64),  # log-odds of a click of an action of which nothing is known, and
        ("curve", np.float64),  # p (1 - p) of the log's rate of clicks p
        ("precision", np.float64),  # of log-odds before anything is seen: 1 / variance
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
        ("slices", np.int64),  # above 0: R follows every reward, and a refresh is as many smaller ones
        ("slice", np.int64),  # the arms that the next of those computes anew
        ("whitened", np.int64),  # 1: rewards are learnt in coordinates in which V was I at the last refresh
        ("one_hot", np.int64),  # 1: every arm is a scaled unit vector of a feature of its own
        ("split", np.int64),  # 1: V has several blocks on its diagonal, and nothing beside them
        ("border", np.int64),  # above 0: features from here on are shared by arms, and all is kept in R alone
        ("own_features", np.int64),  # above 0: of each arm's own, by whose radius alone arms are scored
        ("behind", np.int64),  # 1: theta is to follow what R has learnt since, where V has a border
        ("longest", np.float64),  # largest |a|^2
        ("widest", np.float64),  # largest diagonal entry of V^-1 at the last refresh; it only falls
        ("logged", np.int64),  # m, rows in the log
        ("log_det", np.float64),  # log det V_t
        ("log_det_base", np.float64),  # log det of what the radius counts from
        ("radius", np.float64),  # sqrt(rho_t)
        ("gate_radius", np.float64),  # its noise part at the gate's share of delta
        (
            "lost_radius",
            np.float64,
        ),  # how much lost rewards may have moved the estimate; in gate_radius too
        ("lost_sum", np.float64),  # with contexts, or whitened: how wrong stand-ins for lost rewards can be,
        # summed; and with contexts
        ("lost_squares", np.float64),  # the same squared
        ("lost_trace", np.float64),  # where V has a border: of V^-1 L, L the sum of e x x' over lost rewards
        ("slack", np.float64),  # S
        ("baseline", np.float64),  # r_b, eq. (4)
        ("earlier_baselines", np.float64),  # what earlier, higher baselines add to t r_b
        ("logged_rewards", np.float64),  # sum of the logged rewards
        ("mixed", np.int64),  # mixture plays so far
        ("mixed_pending", np.int64),
        ("mixed_rewards", np.float64),  # sum of the observed rewards of mixture plays
        ("explored_plays", np.int64),  # q, all other plays so far
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
        ("coin_thrown", np.int64),  # 1: the decision below stands until it is committed
        ("thrown_at", np.int64),  # how many rewards there were then
        ("centre", np.float64),  # c, about what practice earns now
        ("centre_weight", np.float64),
        ("foreseen", np.int64),  # explored plays of which the estimates said, in units from 0 to 1, what
        ("foreseen_own", np.float64),  # they would earn on average, and
        ("foreseen_practice", np.float64),  # practice's arm in their place
        ("practised_rewards", np.int64),  # of plays of practice where the explorer wanted another arm
        ("practised_mean", np.float64),  # what they earned, in the same units
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
        ("rails_share", np.float64),  # the most control that a guardrail asks for; 1: one of them is closed
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
WHITE_INVERSE = 5  # of a whitened state: W = R V^-1 R', R of the last refresh; I then
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
    "place",  # the first feature of those in `actions`
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
    "chance",  # how likely an explorer that draws by gaps has proposed each arm
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
    CHANCE,
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
) = range(30)
WHITE = len(ARM_ROWS)  # of a whitened state: the first of d rows, R'^-1 a of every arm a
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
# not kept by a whitened state: made of R, W and R theta, and of counts and sums
WHITENED_ROWS = {"gram", "inverse", "target", "theta", "played", "excess"}
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
    *("radius", "gate_radius", "lost_radius"),
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
    "rails_share",
)
REFRESH_EVERY = 512  # rewards; keeps |V V^-1 - I| near 1e-14 for about 2 % of the time
REFRESH_WHITENED = 2048  # the same where W, which starts as I, is all that rounding can spoil
ROUNDING = 8 * 2.2e-16  # of a quadratic form in V^-1, relative to its largest entry
TINY = 1e-300  # times an infinite width it is infinite, where 0 would not be a number
STIFF = 1e-4  # share of the largest variance below which an arm's own needs refinement
FALLEN = 1e6  # times that a variance is less than at the refresh: six digits of it are gone
REFRESH_ABOVE = 10.0  # 1 + x'V^-1 x from which one rank-one step costs digits

# Lists of arms (`lists`): levels, how far the certificate reaches, and what a kernel answers.
LONG, SHORT, PERMANENT = range(3)
OFFSETS = np.array([0.0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0])  # of c, in radii
ROUNDED = 1e-15  # of a variance made from V^-1, relative to its largest entry and to the condition of V
BLOCK = 256  # arms that are measured together, so that their features stay in the cache
LISTS_GO_ON, LISTS_END, LISTS_FULL, HISTORY_FULL = range(4)
BEYOND_CACHE = 2**22  # features of all arms, from which on a round waits for memory
MOST_TRIED = 256  # arms that are looked at one by one in a decision before lists end


Part = int | None  # of a policy: 1, or None where it has none
Blocks = Any  # R with its blocks beside each other, Floats as `beside` has them; None: arms stay the same
BESIDE = 4  # layers of these behind the rows of R
NO_BLOCKS = (0, 1, 1)  # the shape where they are not kept


class Parts(NamedTuple):
    """What some policies need beyond the others.

    numba leaves out what stands behind `if part is not None` where a part is None: the rules that a policy
    does not have are not compiled for it. `commit` takes the first two, `begin` five, `observe` six:
    what a kernel does not read would only have it compiled once more.
    """

    coin: Part = None  # a Control gate's
    ledger: Part = None  # of what rewards have paid for, and what they say of the log's mean
    shift: Part = None  # the log may have moved
    own: Part = None  # bounds of each arm from its own rewards: a Conservative gate's
    extras: Part = None  # what some explorers need: counts, old scores, gaps, log-odds, what to forget
    budget: Part = None  # the paper's B(t), or no gate: only then may rewards be learnt in other coordinates
    draws: Part = None  # of one parameter, or of luck; whoever has the extras has these
    model: Part = None  # bounds on sums of plays by the linear model: a Tolerance, a certified fallback, a
    # loan, a budget that is not exact


def parts_of(params: Records) -> Parts:
    """The parts that these parameters ask for; few combinations, since each is compiled once."""
    p = params[0]
    gate, fallback, explorer = p["gate"], p["fallback"], p["explorer"]
    by_plays, sums = gate in (TOLERANCE, CONSERVATIVE), gate == BUDGET and p["form"] != EXACT
    extras = p["memory"] > 0 or explorer in (RARE, SQUARE_CB, LOGISTIC) or explorer >= UCB1
    asked = Parts(
        coin=gate == CONTROL,
        ledger=p["by_rewards"] == 1 or gate == CONSERVATIVE,
        shift=p["shift"] > 0,
        own=gate == CONSERVATIVE,
        extras=extras,
        budget=gate in (OPEN, CLOSED, BUDGET),
        draws=extras or explorer in (THOMPSON, LUCK),
        model=by_plays or fallback == CERTIFIED or p["loan_from"] == THE_MODEL or sums,
    )
    return Parts(*(1 if part else None for part in asked))


class State(NamedTuple):
    """Everything an agent needs to continue, besides its generator."""

    actions: Floats  # (d, k) one column per arm: the long loops run over arms; or (w, k), its features from
    # arms[PLACE] on, where all others are 0; one-hot: (1, k) the scales
    square: Floats  # (rows, d, d); one-hot: (rows, 1, d) the diagonals, there is nothing else
    vectors: Floats  # (rows, d)
    arms: Floats  # (rows, k)
    counts: Ints  # (rows, k)
    run: Records  # (1,) of RUN
    blocks: Blocks = (
        None  # where rounds bring their own arms: V may have blocks and a border, no arm is one-hot
    )

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats, Ints, Records]:
        """What changes from round to round; the rest only says what is compiled."""
        return self.actions, self.square, self.vectors, self.arms, self.counts, self.run


LISTS = np.dtype(
    [
        ("long", np.int64),  # arms in the long list, and
        ("short", np.int64),  # in the short one
        ("long_size", np.int64),  # how many are wanted
        ("short_size", np.int64),
        ("least_size", np.int64),  # no short list is made smaller than that
        ("steps", np.int64),  # rewards in the history, and
        ("refreshes", np.int64),  # how often arms were computed anew among them
        ("begun", np.int64),  # rewards when the lists began
        ("leader", np.int64),  # the arm with the best lower bound so far
        ("frozen", np.int64),  # the one that had it before the first round
        ("permanents", np.int64),  # arms that are never left out
        ("chosen", np.int64, (2,)),  # one more than the rewards when each list was chosen
        ("chosen_long", np.int64),  # how often
        ("chosen_short", np.int64),
        ("scans", np.int64, (2,)),  # how often arms outside of each list were looked at since
        ("patience", np.int64),  # how long the long list is kept in spite of that: 1, 2, 4, ... times
        ("work", np.float64),  # arms touched, one reward each
        ("bases", np.float64, (2,)),  # c of the first maximum of scores, at each level
        ("lows", np.float64, (2,)),  # the same of lower bounds
        ("units", np.float64, (2,)),  # what OFFSETS are multiplied by
        ("behind", np.float64, (2,)),  # the best lower bound outside, of before
        ("spreads", np.float64, (2,)),  # at least the largest eigenvalue of V relative to that of before
        ("margin", np.float64),  # how wrong the square of a width may have been when the long list was chosen
        ("shares", np.float64, (2,)),  # the largest |a|^2 in V^-1 over |a|^2 outside, then
    ]
)


class Lists(NamedTuple):
    """Arms that can be the best, a bound on all others, and what these have missed."""

    book: Records  # (1,) of LISTS
    members: Ints  # (3, long) the arms of each list, and in order those that are never left out
    places: Ints  # (k,) one more than the place in the short list; 0: not there
    stamps: Ints  # (k,) up to which reward of the history the rows of an arm are those of plain rounds
    permanent: Ints  # (k,) 1: never left out
    widths: Floats  # (k,) |a| in V^-1 when the long list was chosen
    lengths: Floats  # (k,) |a|^2
    long_rows: Floats  # (d, long) the features of the long list
    short_rows: Floats  # (d, short)
    short: Floats  # (6, short) mean, variance, width, lcb, score, cross
    fresh: Floats  # (3, long) scratch
    bounds: Floats  # (2, 2, offsets) the largest m + c w of scores and of lower bounds outside of each list
    anchors: Floats  # (2, d) theta when each list was chosen
    squares: Floats  # (2, 2, d, d) V and V^-1 then
    scratch: Floats  # (4, d)
    steps: Floats  # (n, d) V^-1 x of each reward
    gains: Floats  # (n, 3) what theta moved along it, 1 / growth, the radius after it
    refreshed: Ints  # (n,) where arms were computed anew after it: which time; else -1
    renewed: Ints  # (m, 2) the first of those arms, and where they end
    thetas: Floats  # (m, d) theta then
    roots: Floats  # (m, d, d) R'^-1 then
    known: Ints  # (n,) in order, the arms with rewards while the rows of those rest; (0,) while they do not
    known_sums: Floats  # (2, n) how many rewards they have, and their sum


def allocate_lists(k: int, d: int, short: int, long: int, numbers: str = "float64") -> Lists:
    """Room for lists that may grow to 4 and 16 times that, and for some history; `list_begin` fills it.

    `numbers`: the type of the features.
    """
    wide, narrow = min(4 * long, k), min(16 * short, k)
    book = np.zeros(1, dtype=LISTS)
    book["long_size"], book["short_size"], book["least_size"] = min(long, k), min(short, k), short // 4
    return Lists(
        book=book,
        members=lean_zeros((3, wide), np.int64),
        places=lean_zeros((k,), np.int32),
        stamps=lean_zeros((k,), np.int32),
        permanent=lean_zeros((k,), np.int8),
        widths=lean_zeros((k,)),
        lengths=lean_zeros((k,)),
        long_rows=lean_zeros((d, wide), numbers),
        short_rows=lean_zeros((d, narrow)),
        short=lean_zeros((6, narrow)),
        fresh=lean_zeros((3, wide)),
        bounds=np.zeros((2, 2, OFFSETS.size)),
        anchors=np.zeros((2, d)),
        squares=np.zeros((2, 2, d, d)),
        scratch=np.zeros((4, d)),
        steps=np.zeros((256, d)),
        gains=np.zeros((256, 3)),
        refreshed=np.zeros(256, dtype=np.int64),
        renewed=np.zeros((4, 2), dtype=np.int64),
        thetas=np.zeros((4, d)),
        roots=np.zeros((4, d, d)),
        known=np.zeros(0, dtype=np.int64),
        known_sums=np.zeros((2, 0)),
    )


def with_history(h: Lists) -> Lists:
    """The same with twice the room for history."""

    grown: dict[str, Any] = {}
    for name in ("steps", "gains", "refreshed", "renewed", "thetas", "roots"):
        array = getattr(h, name)
        grown[name] = np.concatenate([array, np.zeros_like(array)])
    return h._replace(**grown)


LOW, HIGH, START, RATE, PRACTISED, VALUE = range(6)  # of Told.limits


class Told(NamedTuple):
    """What explorers know of guardrails: a ridge regression of every metric, more being better."""

    limits: Floats  # (6, m) the range, what was first thought of practice, the rate; scratch: what practice
    # is thought to be now, less that, and the value that is told, or a mean
    inverse: Floats  # (m, d, d) of V
    theta: Floats  # (m, d) of values less what was first thought
    scratch: Floats  # (2, d) a step, and what practice does on average
    accepted: Ints  # (k,) scratch
    variances: Floats  # (k,) at least what the variance of each arm is now; (0,) where rounds bring their own
    shared: int = 0  # 1: all metrics know the same plays, and the first V is that of each


class Rails(NamedTuple):
    """Guardrails in a known world: their parameters, their books, and what every arm does to each metric."""

    params: Records  # (m,) of PARAMS, better values turned to be the larger ones
    books: Records  # (m,) of RUN
    means: Floats  # (segments, m, k) as people wrote them; (arms, m) where rounds bring their own arms
    draws: Floats  # (n, m) noise, or uniforms for values of two kinds
    scales: Floats  # (3, m) -1 where lower is better, else 1; the low end of the range; its width
    told: Told  # without features where the explorer is not told
    rows: Floats  # (k, d) all arms, in the order of what is told
    weights: Floats  # (k,) practice's; not read where rounds bring their own


def allocate(
    actions: Floats,
    pulls: Ints,
    reward_sums: Floats,
    shifted: bool = False,
    more: bool = False,
    whitened: bool = False,
) -> State:
    """An empty state for these arms (k, d) and their log, which may have moved; `begin` fills it.

    One-hot arms are never `whitened`: V is diagonal, and there is nothing to gain.
    """
    units = find_one_hot(actions)
    state = empty_state(actions, units, shifted, more, whitened and units is None)
    state.counts[LOGGED] = pulls
    state.counts[ALLOWED] = 1
    state.arms[OFFLINE_SUMS] = reward_sums
    if not (shifted or whitened) and state.run["one_hot"][0] == 0:
        state.run["slices"] = slices_for(*actions.shape)
    return state


def empty_state(
    actions: Floats,
    units: OneHotArms | None,
    shifted: bool = False,
    more: bool = False,
    whitened: bool = False,
) -> State:
    """Zeros for these arms: (k, d), of which nothing is read where they are given as units."""
    k, d = actions.shape if units is None else (units.scales.size, units.d)
    squares, rows = len(SQUARE_ROWS), len(ARM_ROWS)
    if shifted:
        squares, rows = 2 * squares + len(SHIFT_SQUARES), 2 * rows + len(SHIFT_ARMS)
    states = 2 if shifted else 1
    state = State(
        actions=features_of(actions) if units is None else np.array(units.scales[None, :]),
        square=np.zeros((squares + more + whitened, d if units is None else 1, d)),
        vectors=np.zeros((states * len(VECTOR_ROWS) + more, d)),
        arms=lean_zeros((rows + d * whitened, k)),
        counts=lean_zeros((len(COUNT_ROWS), k), np.int64),
        run=np.zeros(states, dtype=RUN),
    )
    state.run["whitened"] = whitened
    if units is not None:
        state.arms[PLACE], state.run["one_hot"] = units.places, 1
    return state


def features_of(actions: Floats) -> Floats:
    """(d, k) the features of these arms (k, d): owned, or read-only memory of somebody's file.

    Where they are float32 they stay so, and are read-only: kernels are compiled once more for that.
    """
    features = np.ascontiguousarray(actions.T)
    if features.dtype != np.float64:
        if actions.flags.writeable and np.may_share_memory(features, actions):
            features = features.copy()
        features.flags.writeable = False
    return features


def actions_in(s: State) -> Floats:
    """The same as `actions_of`, without a copy where features are float32."""
    return actions_of(s) if s.actions.dtype == np.float64 else s.actions.T


def actions_of(s: State) -> Floats:
    """(k, d) the arms; of one-hot ones the compact form, where there is one."""
    if s.run[0]["one_hot"] == 0:
        return np.array(s.actions.T, np.float64, order="C")  # a copy, with one arm or one feature too
    return dense(OneHotArms(s.arms[PLACE].astype(np.int64), s.actions[0], s.vectors.shape[1]))


def is_shifted(s: State) -> bool:
    """Whether the log of this state may have moved."""
    return s.run.size > 1


def row_names(s: State) -> dict[str, tuple[str, ...]]:
    """The names of all rows of fixed arms in their order, those of the second state as `online_...`."""
    shifted, names = is_shifted(s), dict(ROWS)
    if shifted:
        online_rows = {group: tuple(f"online_{name}" for name in names) for group, names in ROWS.items()}
        names["square"] += online_rows["square"] + SHIFT_SQUARES
        names["vectors"] += online_rows["vectors"]
        names["arms"] += online_rows["arms"] + SHIFT_ARMS
    if s.run[0]["whitened"]:
        names["square"] += ("white_inverse",)
    if has_more(s):
        names["square"], names["vectors"] = (names[group] + ("clicks",) for group in ("square", "vectors"))
    return names


def has_more(s: State) -> bool:
    """Whether the explorer of fixed arms keeps a factor and a vector of its own, behind all others."""
    return len(s.vectors) > s.run.size * len(VECTOR_ROWS)


def lifts(s: State) -> Floats | float:
    """(k,) how far the log's shift may have moved the estimate of each arm; 0 without one."""
    return s.arms[LIFT] if is_shifted(s) else 0.0


def square_of(s: State, row: int) -> Floats:
    """(d, d) one of the square arrays, with all its zeros where arms are one-hot."""
    return np.diag(s.square[row, 0]) if s.run[0]["one_hot"] == 1 else s.square[row]


def online_part(s: State) -> State:
    """The state of online rewards alone, where the log may have moved."""
    squares, vectors, arms = len(SQUARE_ROWS), len(VECTOR_ROWS), len(ARM_ROWS)
    rows = s.arms[arms : 2 * arms]
    square, vectors_behind = s.square[squares : 2 * squares], s.vectors[vectors:]
    return State(s.actions, square, vectors_behind, rows, s.counts, s.run[1:], s.blocks)


# Rounds that bring their arms have one more square: the sum of e x x' over lost rewards. What an explorer
# keeps besides comes last: with a memory, R and half of the last rewards; of clicks, R and the mode.
LOST_GRAM, LOST_GRAM_SHIFTED = len(SQUARE_ROWS), 2 * len(SQUARE_ROWS) + len(SHIFT_SQUARES)
BLOCK_BEGIN, BLOCK_END = len(VECTOR_ROWS), len(VECTOR_ROWS) + 1  # of each feature; read where V is split
GROWN = BLOCK_END + 1  # 2 log R_ii of each feature, where V has a border
RECENT_FACTOR = RECENT_HALF = CLICK_FACTOR = CLICK_ODDS = -1


def keeps_recent(p: Any) -> bool:
    """Whether the last rewards are counted by themselves, since all others will be forgotten."""
    return bool(p["memory"] > 0 and p["fade"] == 0.0)


def keeps_more(params: Records) -> bool:
    """Whether the explorer keeps a factor and a vector of its own, where rounds bring their arms."""
    return keeps_recent(params[0]) or bool(params[0]["explorer"] == LOGISTIC)


def allocate_rounds(params: Records, gram: Floats, target: Floats, border: int = 0) -> State:
    """A state without arms that knows the log's X'X and X'y; `context_begin` starts it.

    `border`: where features that arms share begin, if what is before has blocks; else 0.
    """
    shifted, more, d = params.size > 1, keeps_more(params), target.size
    lost = LOST_GRAM_SHIFTED if shifted else LOST_GRAM
    state = State(
        actions=np.zeros((d, 0)),
        square=np.zeros((lost + 1 + more, d, d)),
        vectors=np.zeros(((2 * len(VECTOR_ROWS) if shifted else GROWN + 1) + more, d)),
        arms=np.zeros((2 * len(ARM_ROWS) + len(SHIFT_ARMS) if shifted else len(ARM_ROWS), 0)),
        counts=np.zeros((len(COUNT_ROWS), 0), dtype=np.int64),
        run=np.zeros(params.size, dtype=RUN),
        blocks=np.zeros(NO_BLOCKS),
    )
    state.square[GRAM], state.vectors[TARGET], state.run["border"] = gram, target, border
    mark_blocks(state)
    return state


def lost_row(s: State) -> int:
    """Where the sum of e x x' over lost rewards is, where rounds bring their arms."""
    return LOST_GRAM if s.run.size == 1 else LOST_GRAM_SHIFTED


def mark_blocks(state: State) -> None:
    """Find the blocks of V: runs of features that no row has had together with a feature outside.

    What is 0 beside the blocks is 0 exactly, so sums may leave it out and keep every bit. Blocks only grow.
    Where the log may have moved there is one.
    """
    if is_shifted(state):
        return
    lasting = [GRAM, INVERSE, FACTOR, *range(LOST_GRAM, len(state.square))]
    border = int(state.run["border"][0])
    used = (state.square[lasting] != 0.0).any(axis=0)
    used |= used.T | np.eye(len(used), dtype=np.bool_)
    if border:
        used[:border, border:] = used[border:, :border] = False
        used[border:, border:] = True
    d = len(used)
    reach = np.maximum.accumulate(d - used[:, ::-1].argmax(axis=1))  # where a block ends at the earliest
    ends = np.flatnonzero(reach == np.arange(1, d + 1)) + 1
    sizes = np.diff(ends, prepend=0)
    state.vectors[BLOCK_BEGIN], state.vectors[BLOCK_END] = (
        np.repeat(ends - sizes, sizes),
        np.repeat(ends, sizes),
    )
    state.run["split"] = ends.size > 1
    state.square[ROOT] = 0.0  # of the blocks of before
    if border:
        state.vectors[GROWN] = 2.0 * np.log(np.maximum(np.diagonal(state.square[FACTOR]), TINY))
    lay_beside(state)


def with_blocks(state: State, p: int) -> State:
    """The same state with R kept beside itself, where each arm has p features of its own and shares none."""
    k = state.vectors.shape[1] // p
    found = state._replace(blocks=np.zeros((p + BESIDE, max(p, 4), k)))
    lay_beside(found)
    return found


def lay_beside(state: State) -> None:
    """Fill in these blocks, if there are any, from R and R theta."""
    blocks, each = state.blocks, np.arange(state.square.shape[-1])
    if blocks is None or not blocks.size:
        return
    p, k = len(blocks) - BESIDE, blocks.shape[2]
    of_arms = each.reshape(k, p)
    blocks[:p, :p] = np.moveaxis(state.square[FACTOR][of_arms[:, :, None], of_arms[:, None]], 0, 2)
    blocks[p + 1, :p] = state.vectors[HALF].reshape(k, p).T
    begins, ends, single = state.vectors[BLOCK_BEGIN], state.vectors[BLOCK_END], each + 1
    starts = np.repeat(of_arms[:, 0], p)
    fits = (begins >= starts) & ((ends == starts + p) | (ends == single))
    blocks[p + 3, 0], blocks[p + 3, 1] = (
        (ends == single).reshape(k, p).all(axis=1),
        fits.reshape(k, p).all(axis=1),
    )


def with_arms(state: State, actions: Floats, places: Floats | Ints | None = None) -> State:
    """The same state before these arms: (d, k), or (w, k) the features from `places` (k,) on."""
    k = actions.shape[1]
    if k != state.arms.shape[1]:
        counts = np.ones((len(COUNT_ROWS), k), dtype=np.int64)
        state = state._replace(arms=np.zeros((len(state.arms), k)), counts=counts)
    state.arms[PLACE] = 0.0 if places is None else places
    return state._replace(actions=actions)
