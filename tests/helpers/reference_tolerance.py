"""The tolerance gate in plain NumPy: slow, explicit, and sharing no code with what it checks.

The promise: with probability 1 - delta, in every round t, the plays so far have earned at most epsilon t
(relative: epsilon t mu_off) plus a rounding term below what the log would have, whose mean reward is mu_off.
Exploring is paid for by the model (bounds on <theta, y>), by the rewards themselves (no model), or by either.
Nothing is carried from round to round but the history, and the bounds that hold for good once they were
reached (as the running lower bounds of `Reference`): each is computed from the whole history when it arises.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
from helpers.reference import Counts, Floats, Problem, Reference, best, of_history, radius

PRIOR_ROUNDS = 50  # w of the boundary b(q), which is tightest near w rounds
BETS = 0.65 ** np.arange(12)  # (12,) the betting grid, in units of 0.9 / u
TILTS = 4 * 0.7 ** np.arange(20)  # (20,) l_j of the bounded reference


@dataclass
class Play:
    """One committed round."""

    arm: int
    source: str  # explorer | lcb | mixture
    reward: float | None = None  # None while pending


def next_mixed(counts: list[int], mixed: list[int]) -> int:
    """The logged arm with the largest deficit m_a (q + 1) - m q_a after q_a mixture plays of each arm."""
    m, q = sum(counts), sum(mixed)
    logged = [arm for arm, count in enumerate(counts) if count > 0]
    deficits = [counts[arm] * (q + 1) - m * mixed[arm] for arm in logged]  # integers: ties stay ties
    return logged[deficits.index(max(deficits))]


def deficits_by_round(counts: list[int]) -> list[list[float]]:
    """(period + 1, k) e_a(q) = m_a q / m - q_a for q = 0, 1, ...: what mixture plays still owe each arm."""
    m, mixed = sum(counts), [0] * len(counts)
    rows = [[0.0] * len(counts)]
    for q in range(1, m // gcd(*counts) + 1):
        mixed[next_mixed(counts, mixed)] += 1
        rows.append([(count * q - m * times) / m for count, times in zip(counts, mixed, strict=True)])
    return rows


def rounding(counts: list[int]) -> float:
    """kappa: q mixture plays earn at least q mu_off - kappa (highest logged mean - lowest), for every q."""
    return max(sum(max(deficit, 0) for deficit in row) for row in deficits_by_round(counts))


def rounding_below(counts: list[int], mean: float) -> float:
    """kappa if the logged means, placed in [0, 1], are `mean` on average: how much of them can be behind."""
    left, heights = mean * sum(counts), 0.0
    for count in sorted(count for count in counts if count > 0):  # rare arms are high at the least expense
        height = min(left / count, 1.0)
        left, heights = left - height * count, heights + height
    most = max(deficit for row in deficits_by_round(counts) for deficit in row)
    return min(rounding(counts), max(most, 1.0) * heights)


def whole(pulls: Counts) -> list[int]:
    """(k,) the logged counts as integers; there has to be a log."""
    counts = [int(count) for count in pulls]
    if sum(counts) == 0 or any(count != pull for count, pull in zip(counts, pulls, strict=True)):
        raise ValueError(f"pulls must be whole numbers, not all zero, got {pulls}")
    return counts


def mean_at_most(total: float, rows: int, delta: float) -> float:
    """An upper bound on the mean of the means of rewards in [0, 1] with this sum, at all times at once."""
    reach = 1 - np.exp(-(TILTS * total + np.log(len(TILTS) / delta)) / rows)  # (20,)
    return float(min(1.0, np.min(reach / (1 - np.exp(-TILTS)))))


def share(evidence: str, delta: float) -> tuple[float, float, float]:
    """The parts of delta: for the model, for the noise of online rewards (d1), for the reference (d2)."""
    if evidence == "both":
        return delta / 2, delta / 4, delta / 4
    return {"model": (delta, 0.0, 0.0), "rewards": (0.0, delta / 2, delta / 2)}[evidence]


def log_mean_exp(powers: Floats) -> Floats:
    """(n,) the logarithm of the average over the last axis of exp(powers)."""
    top = powers.max(axis=-1)
    return np.asarray(top + np.log(np.exp(powers - top[..., None]).mean(axis=-1)))


def first_true(holds: Callable[[Floats], npt.NDArray[np.bool_]], low: Floats, high: Floats) -> Floats:
    """(n,) where each condition, false below and true above, becomes true, to the last digits."""
    for _ in range(60):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high


def against_reference(u: Floats, total: float, rows: int, skew: float) -> Floats:
    """(n,) H(u): the log of the average over tilts of evidence against a mean of u, for rows in [0, 1]."""
    means = np.minimum(np.atleast_1d(u) - skew, 1.0)
    return log_mean_exp(-TILTS * total - rows * np.log(1 - np.outer(means, 1 - np.exp(-TILTS))))


def against_sum(s: Floats, x: Floats, u: float) -> Floats:
    """(n,) F(s): the log of the average over bets of evidence that the means of x sum to more than s."""
    bets = 0.9 / u * BETS
    wealth = np.array([np.log1p(bet * (x - u)).sum() for bet in bets])
    return log_mean_exp(wealth - np.outer(np.atleast_1d(s) - x.size * u, bets))


def least_difference(
    owed: float, most: float, plays: int, sums: Callable[[Floats], Floats], means: Callable[[Floats], Floats],
    level: float,
) -> float:  # fmt: skip
    """The least s - owed u, s >= 0, u in [0, most], with sums(s) + means(u) <= level, on ever finer grids."""
    low, high, found = 0.0, most, np.inf
    for _ in range(8):
        grid = np.linspace(low, high, 25)  # (25,) values of u
        allowed = level - means(grid)
        zero, far = np.zeros(grid.size), np.full(grid.size, plays + 1e3)
        s = np.where(sums(zero) <= allowed, 0.0, first_true(lambda s, a=allowed: sums(s) <= a, zero, far))  # type: ignore[misc]
        at = int((s - owed * grid).argmin())
        found = float((s - owed * grid)[at])
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)]
    return found


@dataclass(eq=False)
class ToleranceReference:
    """One agent behind a tolerance gate, everything recomputed from scratch each round."""

    problem: Problem
    _: KW_ONLY
    epsilon: float
    ridge: float
    budget: float = 0.0
    promise: str = (
        "expected"  # expected | realised: all of delta is the reference's, and rewards count as earned
    )
    evidence: str = "both"  # model | rewards | both
    relative: bool = False  # epsilon as a share of mu_off
    bias: str = "tight"  # tight | loose
    ledger: str = "joint"  # joint | union: explored plays and reference bounded together, or each by itself
    rounding: str = "low"  # low | any: whether kappa knows that the log's mean is low
    fallback: str = "auto"  # auto | mixture | lcb
    reach: str = "affordable"  # affordable | proposal
    explorer: str = "ucb"
    scale: float = 1.0
    kind: str = "self_normalised"  # self_normalised | hkz | paper
    delta: float = 0.05
    noise: float | str = 1.0  # or "bounded": every reward lies in the reward range
    bound: float = 1.0
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self.bounded = self.noise == "bounded"
        if self.reward_range is None and (self.bounded or self.evidence == "rewards"):
            raise ValueError("reward_range must be given for bounded noise and for evidence from rewards")
        evidence = "model" if self.reward_range is None else self.evidence
        self.uses_model, self.uses_rewards = evidence != "rewards", evidence != "model"
        self.low, self.high = self.reward_range or (-np.inf, np.inf)
        self.sigma = (self.high - self.low) / 2 if self.bounded else float(self.noise)
        self.model_share, self.noise_share, self.reference_share = share(evidence, self.delta)
        if self.promise == "realised" or self.ledger == "joint":
            self.reference_share = self.delta - self.model_share  # nothing else can fail
        if self.relative and self.ledger == "union":
            self.reference_share /= 2  # both sides of the reference are in the promise, not only the upper
        self.joint = self.ledger == "joint" and self.promise == "expected"

        self.counts = whole(self.problem.pulls)  # (k,) m_a
        self.m = sum(self.counts)
        self.kappa = rounding(self.counts)
        self.xbar: Floats = self.counts @ self.problem.actions / self.m  # (d,) the mean logged action
        self.base = Reference(
            self.problem, explorer=self.explorer, scale=self.scale, kind=self.kind, delta=self.delta,
            ridge=self.ridge, noise=self.sigma, bound=self.bound, estimates_noise=True,
            whole_prior=True,  # of Thompson sampling
        )  # fmt: skip
        self.plays: list[Play] = []
        self.vetoed = False
        self.secured_then: list[tuple[int, float]] = [(0, 0.0)]  # (q, the bound on their means) over time
        if self.uses_rewards:
            self.references = [self.reference_now]  # (lower, upper): at the start, after mixture rewards
            self.first_upper = self.upper_reference
            if self.rounding == "low":  # no mixture play has used kappa yet
                place = (self.first_upper - self.low) / (self.high - self.low)
                self.kappa = rounding_below(self.counts, min(max(place, 0.0), 1.0))
            self.was_owed, self.surplus = 0.0, 0.0  # what is owed, and the best bound above that so far
            self.secure_surplus(plays=0, search=True)

    @property
    def t(self) -> int:
        """The number of the round to be decided; the first is 1."""
        return len(self.plays) + 1

    @property
    def unmixed(self) -> list[Play]:
        """The q plays that have to be paid for, explored or pessimistic."""
        return [play for play in self.plays if play.source != "mixture"]

    @property
    def mixed(self) -> list[Play]:
        """The plays of the logging mixture, each of which counts as xbar in the gate."""
        return [play for play in self.plays if play.source == "mixture"]

    def allowance(self, t: int) -> float:
        """What may be lost in t rounds; relative, in rounds' worth of mu_off."""
        return self.budget + self.epsilon * t

    # The model: bounds on <theta, y> from the estimate.

    @property
    def rewards(self) -> list[float]:
        """Those of every kind of play."""
        return self.base.rewards

    @of_history
    def root(self) -> Floats:
        """(d, d) L of V = L L^T."""
        return np.linalg.cholesky(self.base.V)

    @of_history
    def noise_radius(self) -> float:
        """The radius at the model's share of delta, without what the ridge costs."""
        return radius(
            self.kind, delta=self.model_share, ridge=self.ridge, noise=self.sigma, bound=0.0,
            actions=self.base.actions, pulls=self.base.pulls, V=self.base.V,
            rewards_seen=len(self.base.rewards),
        )  # fmt: skip

    def norm(self, y: Floats) -> float:
        """The norm of a (d,) vector in V^{-1}."""
        return float(np.linalg.norm(np.linalg.solve(self.root, y)))  # which cannot be the root of -1e-18

    def short_norm(self, y: Floats) -> float:
        """The Euclidean norm of V^{-1} y, which is at most the norm in V^{-1} over sqrt(ridge)."""
        return float(np.linalg.norm(np.linalg.solve(self.base.V, y)))

    def least(self, y: Floats, tight_bias: float) -> float:
        """A lower bound on <theta*, y>: the estimate, less its noise, less what the ridge costs."""
        loose_bias = np.sqrt(self.ridge) * self.bound * self.norm(y)
        cost = {"tight": min(loose_bias, tight_bias), "loose": loose_bias}[self.bias]
        if self.kind == "paper":
            cost = 0.0  # as the paper leaves it out
        return float(self.base.theta @ y - self.noise_radius * self.norm(y) - cost)

    def model_room(self, arm: int) -> float:
        """What the model says is left for this arm, at least; below zero for good once vetoed."""
        if self.vetoed:
            return -np.inf
        action = self.base.actions[arm]  # (d,)
        gained = sum((self.base.actions[play.arm] - self.xbar for play in self.unmixed), 0 * self.xbar)
        owed = (1 - self.allowance(self.t)) * self.xbar if self.relative else self.xbar  # (d,)
        earned = 0.0 if self.relative else self.allowance(self.t)
        past = gained - owed  # (d,) Z - xbar
        shrinkage = self.ridge * self.short_norm(past) + np.sqrt(self.ridge) * self.norm(action)
        return self.least(past + action, self.bound * shrinkage) + earned

    def certified(self, arm: int) -> bool:
        """Whether the model proves this arm no worse than the log, so that playing it costs nothing."""
        y = self.base.actions[arm] - self.xbar  # (d,)
        return not self.vetoed and self.least(y, self.ridge * self.bound * self.short_norm(y)) >= 0

    # The rewards: bounds on sums of means from what was earned, and on mu_off from the log.

    def boundary(self, q: int) -> float:
        """b(q): how far the noise of q rewards may carry their sum, at all q at once (method of mixtures)."""
        tail = 2 * np.log(1 / self.noise_share) + np.log((q + PRIOR_ROUNDS) / PRIOR_ROUNDS)
        return float(self.sigma * np.sqrt((q + PRIOR_ROUNDS) * tail))

    def filled(self, plays: list[Play], pending: float) -> Floats:
        """(n,) the rewards of these plays, with this number in the place of each that has not arrived."""
        return np.array([pending if play.reward is None else play.reward for play in plays], dtype=np.float64)

    @property
    def secured_now(self) -> float:
        """A lower bound on the sum of the means of the plays to be paid for, from all rewards so far."""
        q, rewards = len(self.unmixed), self.filled(self.unmixed, self.low)  # (q,)
        if not self.bounded:
            return float(rewards.sum() - self.boundary(q))
        spread = self.high - self.low
        u = (self.first_upper - self.low) / spread
        x = (rewards - self.low) / spread  # (q,) in [0, 1]
        bets = 0.9 / u * BETS  # (12,) any bet below 1 / u keeps the wealth positive
        wealth = np.array([np.log1p(bet * (x - u)).sum() for bet in bets])  # (12,) logarithms
        surplus = np.max((wealth - np.log(len(bets) / self.noise_share)) / bets)
        return float(self.low * q + spread * (q * u + surplus))

    @property
    def secured(self) -> float:
        """C: the best of these bounds, where every play since then counts as the lowest mean there is."""
        q = len(self.unmixed)
        return max(bound + self.low * (q - then) for then, bound in self.secured_then)

    @property
    def owed(self) -> float:
        """How often the reference is owed if one more play is explored, in the next round."""
        return len(self.unmixed) + 1 - (self.allowance(self.t) if self.relative else 0.0)

    def secure_surplus(self, plays: int, search: bool) -> None:
        """Bound what explored plays earn above what is owed; what was secured stays, `plays` later."""
        owed, change = self.owed, self.owed - self.was_owed
        kept = self.surplus + self.low * plays - change * (self.upper_reference if change > 0 else self.low)
        no_history = owed <= 0 or self.was_owed <= 0
        if no_history or search:
            now = self.surplus_now
            self.surplus = now if no_history else max(now, kept)
        else:
            self.surplus = kept
        self.was_owed = owed

    @property
    def surplus_now(self) -> float:
        """The least that q plays and one more of the lowest mean earn above what is owed for them."""
        q, owed, spread = len(self.unmixed), self.owed, self.high - self.low
        if owed <= 0:  # nothing can be lost, whatever the reference is
            return max(self.low * (q + 1) - owed * self.lower_reference, 1e-12 * spread)
        if q == 0:
            return self.low - owed * self.upper_reference
        if not self.bounded:
            return self.low + self.least_by_ellipse(q, owed)
        rows, total, skew = self.reference_rows(self.high)
        x = (self.filled(self.unmixed, self.low) - self.low) / spread
        base = (self.first_upper - self.low) / spread
        least = least_difference(
            owed, (self.upper_reference - self.low) / spread, q, lambda s: against_sum(s, x, base),
            lambda u: against_reference(u, total, rows, skew), np.log(1 / self.reference_share),
        )  # fmt: skip
        return self.low * (q + 1 - owed) + spread * least

    def least_by_ellipse(self, q: int, owed: float) -> float:
        """The least sum of q means less owed mu_off: noise sums of both lie in an ellipse at all times."""
        rows, head = self.m + len(self.mixed), self.m / 8
        volume = np.log((q + PRIOR_ROUNDS) / PRIOR_ROUNDS * (rows + head) / head)
        radius = self.sigma * np.sqrt(2 * np.log(1 / self.reference_share) + volume)
        axes = np.array([np.sqrt(q + PRIOR_ROUNDS), np.sqrt(rows + head)])
        direction = np.array([1.0, owed / rows])  # how the two noise sums enter
        middle = self.filled(self.unmixed, self.low).sum() - owed * self.mean_of_reference
        return float(middle - radius * np.linalg.norm(axes * direction))

    @property
    def mean_of_reference(self) -> float:
        """The mean of log and mixture plays, a pending reward the highest, with what the mixture may lack."""
        skew = self.kappa * (self.high - self.low) if self.mixed else 0.0
        total = self.problem.reward_sums.sum() + self.filled(self.mixed, self.high).sum() + skew
        return float(total / (self.m + len(self.mixed)))

    def reference_rows(self, pending: float) -> tuple[int, float, float]:
        """The rows that speak of mu_off, their sum in [0, 1] with pending ones so, and their rounding."""
        spread, rows = self.high - self.low, self.m + len(self.mixed)
        logged = (self.problem.reward_sums.sum() - self.m * self.low) / spread
        mixed = ((self.filled(self.mixed, pending) - self.low) / spread).sum()
        return rows, float(logged + mixed), self.kappa / rows if self.mixed else 0.0

    @property
    def reference_now(self) -> tuple[float, float]:
        """A lower and an upper bound on mu_off; for bounded rewards mixture plays count as further log."""
        delta = self.reference_share
        if not self.bounded:
            mean, width = self.problem.reward_sums.sum() / self.m, np.sqrt(2 * np.log(1 / delta) / self.m)
            upper = mean + self.sigma * width
            if self.joint:  # a boundary for every number of mixture plays that may come
                rows, head = self.m + len(self.mixed), self.m / 8
                volume = 2 * np.log(1 / delta) + np.log((rows + head) / head)
                upper = self.mean_of_reference + self.sigma * np.sqrt((rows + head) * volume) / rows
            return float(mean - self.sigma * width), float(upper)
        spread, (rows, at_least, skew) = self.high - self.low, self.reference_rows(self.low)
        _, at_most, _ = self.reference_rows(self.high)
        lower = 1 - mean_at_most(rows - at_least, rows, delta) - skew
        upper = mean_at_most(at_most, rows, delta) + skew
        if self.ledger == "joint":
            beyond = np.array([np.log(1 / delta)])
            upper = first_true(
                lambda u: against_reference(u, at_most, rows, skew) >= beyond, np.zeros(1), np.array([upper])
            )[0]
        return self.low + spread * lower, self.low + spread * upper

    @property
    def lower_reference(self) -> float:
        """L_ref: the highest lower bound on mu_off so far."""
        return max(lower for lower, _ in self.references)

    @property
    def upper_reference(self) -> float:
        """U_ref: the lowest upper bound on mu_off so far; jointly, of when nothing was explored yet."""
        return min(upper for _, upper in self.references)

    def rewards_room(self) -> float:
        """What the rewards say is left for any arm, at least: the next play may earn the lowest mean."""
        if self.joint:
            return self.surplus + (0.0 if self.relative else self.allowance(self.t))
        after = len(self.unmixed) + 1
        credit = self.filled(self.unmixed, self.low).sum() if self.promise == "realised" else self.secured
        if not self.relative:
            return credit + self.low - after * self.upper_reference + self.allowance(self.t)
        owed = after - self.allowance(self.t)  # in units of mu_off
        return credit + self.low - owed * (self.upper_reference if owed >= 0 else self.lower_reference)

    def refuted(self) -> bool:
        """Whether the rewards prove that the promise is broken already: then the model must be wrong."""
        q, spent = len(self.unmixed), self.allowance(len(self.plays))
        most = self.filled(self.unmixed, self.high).sum() + self.boundary(q)
        if not self.relative:
            return bool(most < q * self.lower_reference - spent)
        owed = q - spent  # in units of mu_off
        return bool(most < owed * (self.lower_reference if owed >= 0 else self.upper_reference))

    # The decision, and what follows it.

    def room(self, arm: int) -> float:
        """What is left for this arm by the better of the two rules; affordable means above zero."""
        rules: list[Callable[[], float]] = []
        if self.uses_model:
            rules.append(lambda: self.model_room(arm))
        if self.uses_rewards:
            rules.append(self.rewards_room)
        return max(rule() for rule in rules)

    def safe(self) -> tuple[int, str]:
        """The pessimistic arm where it is certified, or else the next arm of the logging mixture."""
        pessimistic = best(self.base.lcb, list(range(len(self.counts))))
        if self.fallback == "lcb":
            return pessimistic, "lcb"
        if self.fallback == "auto" and self.uses_model and self.certified(pessimistic):
            return pessimistic, "lcb"
        times = [sum(play.arm == arm for play in self.mixed) for arm in range(len(self.counts))]
        return next_mixed(self.counts, times), "mixture"

    def decide(self, randoms: Floats | None = None) -> tuple[int, str]:
        """The arm to play, and where it comes from: explorer, lcb or mixture."""
        arms = list(range(len(self.counts)))
        scores = self.base.scores(randoms)
        asked = {"proposal": [best(scores, arms)], "affordable": arms}[self.reach]
        affordable = [arm for arm in asked if self.room(arm) > 0]
        if affordable:
            return best(scores, affordable), "explorer"
        return self.safe()

    def learn(self, play: Play) -> None:
        """Note the bounds that this play, or its reward, has brought."""
        if not self.uses_rewards:
            return
        if play.source == "mixture" and play.reward is not None:
            lower, upper = self.reference_now
            self.references.append((lower, np.inf if self.joint and self.unmixed else upper))
        if self.joint:
            played = play.source != "mixture" and play.reward is None
            waiting = sum(other.reward is None for other in self.unmixed)
            self.secure_surplus(plays=int(played), search=play.reward is not None or (played and waiting > 1))
        if play.source != "mixture":
            self.secured_then.append((len(self.unmixed), self.secured_now))
            self.vetoed = self.vetoed or self.refuted()

    def commit(self, arm: int, source: str) -> None:
        """Play the arm: from here on it counts in the gate, its reward pending."""
        self.base.commit(arm)
        self.plays.append(Play(arm, source))
        self.learn(self.plays[-1])

    def observe(self, arm: int, reward: float) -> None:
        """Receive a reward, perhaps late: it pays for a play that has to be paid for, if one is pending."""
        pending = [play for play in self.unmixed + self.mixed if play.arm == arm and play.reward is None]
        if not pending:
            raise ValueError(f"arm must have a pending play, got {arm}")
        if self.bounded and not self.low <= reward <= self.high:
            raise ValueError(f"reward must be in [{self.low}, {self.high}], got {reward}")
        self.base.observe(arm, reward)
        pending[0].reward = reward
        self.learn(pending[0])

    def update(self, arm: int, source: str, reward: float) -> None:
        """Play and receive at once."""
        self.commit(arm, source)
        self.observe(arm, reward)
