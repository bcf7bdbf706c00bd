"""The paper's formulas in plain NumPy: slow, explicit, and sharing no code with what it checks.

Equations are those of "Offline-to-Online Learning in Linear Bandits" (Chandak, Kitamura, Tan): (1) the
estimate, (2) the confidence set, (3) the bounds, (4) the baseline, (5) the budget; Algorithm 1 joins them.
Nothing is carried from round to round but the history itself, so there is nothing here that could drift.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.float64 | np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass
class Problem:
    """The actions and what the log says about them (section 3.1)."""

    actions: Floats  # (k, d)
    pulls: Counts  # (k,) m_a
    reward_sums: Floats  # (k,) sum over i of X_i^(a)
    reward_squares: Floats | None = None  # (k,) sum over i of the squares of X_i^(a)


def radius(
    kind: str,
    *,
    delta: float,
    ridge: float,
    noise: float,
    bound: float,
    actions: Floats,  # (k, d)
    pulls: Counts,  # (k,) m_a, offline only
    V: Floats,  # (d, d) V_{t-1}, offline and online
    rewards_seen: int,  # online only
) -> float:
    """sqrt(rho_t), the radius of the confidence set (2), by Proposition 1 or one of two alternatives."""
    d = actions.shape[1]
    gram = actions.T @ np.diag(pulls) @ actions  # (d, d) sum over a of m_a a a^T
    log_det = np.linalg.slogdet(V)[1]
    log_det_start = np.linalg.slogdet(gram + ridge * np.eye(d))[1]
    tail = np.log(2 / delta)

    beta = 2 * tail + log_det - log_det_start
    if rewards_seen == 0:
        beta = 0.0  # beta_1 = 0: until the first reward there is no online noise to cover
    bias = np.sqrt(ridge) * bound  # what shrinking towards zero costs; the paper leaves it out

    if kind == "paper":
        beta_off = 8 * d * np.log(6) + 8 * tail
        return float(noise * (np.sqrt(beta_off) + np.sqrt(beta)))
    if kind == "hkz":  # Hsu, Kakade, Zhang: the tail of a quadratic form in subgaussian noise
        eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0)  # (d,) rounding may leave -1e-15
        f = eigenvalues / (eigenvalues + ridge)  # (d,)
        beta_off = f.sum() + 2 * np.sqrt(tail * (f**2).sum()) + 2 * tail * f.max()
        return float(noise * (np.sqrt(beta_off) + np.sqrt(beta)) + bias)
    if kind == "self_normalised":  # Abbasi-Yadkori et al.: the log counts as if it were online
        return float(noise * np.sqrt(2 * np.log(1 / delta) + log_det - d * np.log(ridge)) + bias)
    raise ValueError(f"kind must be paper, hkz or self_normalised, got {kind!r}")


def best(scores: Floats, arms: list[int]) -> int:
    """The arm of the highest score among the given ones, which are in rising order: ties to the lowest."""
    return arms[int(np.argmax(scores[arms]))]


def inverse_gap_chances(mean: Floats, variance: Floats, spread: float) -> Floats:
    """(k,) 1 / (k + gamma gap), the best arm the rest; gamma^2 sum_a p_a spread^2 variance_a = 8 (k - 1)."""
    k, top = mean.size, int(mean.argmax())
    if k == 1:
        return np.ones(1)

    def chances(gamma: float) -> Floats:
        likely = 1 / (k + gamma * (mean[top] - mean))
        likely[top] += 1 - likely.sum()
        return likely

    low, high, goal = -700.0, 700.0, np.log(8 * (k - 1))  # the first two: logarithms of gamma
    for _ in range(200):
        middle = (low + high) / 2
        average = chances(np.exp(middle)) @ (spread**2 * variance)
        low, high = (middle, high) if 2 * middle + np.log(average) < goal else (low, middle)
    return chances(np.exp(low))


def of_history(compute: Callable[[Any], Any]) -> Any:
    """A property that only another reward can change: computed from scratch once after each."""

    def value(self: Any) -> Any:
        kept = vars(self).setdefault("kept", {})
        if kept.get("rewards") != len(self.rewards):
            kept.clear()
            kept["rewards"] = len(self.rewards)
        if compute not in kept:
            kept[compute] = compute(self)
        return kept[compute]

    return property(value, doc=compute.__doc__)


def spreads_of(spread: float, noise: float, ridge: float, actions: Floats, variance: Floats) -> Floats:
    """(k,) of Thompson sampling: noise^2 for the share of an arm's first variance |a|^2 / ridge that is left,
    spread^2 for the rest; never below spread."""
    first = np.array([action @ action for action in actions]) / ridge
    left = np.minimum(variance / first, 1.0)
    spreads: Floats = np.sqrt(left * max(noise, spread) ** 2 + (1 - left) * spread**2)
    return spreads


@dataclass(eq=False)
class Reference:
    """One agent, everything recomputed from scratch each round."""

    problem: Problem
    _: KW_ONLY
    explorer: str = "ucb"  # ucb | thompson | luck | squarecb | greedy | uniform
    scale: float = 1.0
    gate: str = "open"  # open | closed | budget
    alpha: float = 1e-4
    form: str = "exact"  # exact | aggregate | max
    slack: str = "paper"  # paper | coverage
    fallback: str | int = "lcb"  # lcb | frozen | an arm
    reach: str = "proposal"  # proposal | affordable
    kind: str = "paper"  # paper | hkz | self_normalised
    delta: float = 0.05
    ridge: float = 1e-4
    noise: float = 1.0
    bound: float = 1.0
    estimates_noise: bool = False  # the explorer scores with the noise that log and rewards show
    whole_prior: bool = False  # what is unknown of an arm is drawn as wide as before any reward

    def __post_init__(self) -> None:
        self.residuals: list[
            float
        ] = []  # of each reward, given what was known before, in units of its spread
        self.actions, self.pulls = self.problem.actions, self.problem.pulls  # (k, d), (k,)
        self.committed: list[int] = []  # A_1, ..., A_{t-1}
        self.observed: list[int] = []  # the arms whose reward has arrived, in order of arrival
        self.rewards: list[float] = []
        self.first_radius = self.radius  # sqrt(rho_1)
        self.first_variance = self.variance  # (k,) squared norms of a in V_0^{-1}
        self.lowers = [self.lower]  # (k,) each: at the start and after every reward

    @of_history
    def V(self) -> Floats:
        """(d, d) the design matrix V_t below (1), with the ridge that its footnote allows."""
        offline = self.actions.T @ np.diag(self.pulls) @ self.actions
        online = self.actions[self.observed].T @ self.actions[self.observed]
        return offline + self.ridge * np.eye(self.actions.shape[1]) + online

    @of_history
    def inverse(self) -> Floats:
        """(d, d) V_t^{-1}."""
        return np.linalg.inv(self.V)

    @of_history
    def theta(self) -> Floats:
        """(d,) the least squares estimate (1)."""
        offline = self.actions.T @ self.problem.reward_sums
        online = self.actions[self.observed].T @ np.array(self.rewards)
        return np.linalg.solve(self.V, offline + online)

    @of_history
    def log_det(self) -> float:
        """log det V_t, itself and not its ratio to log det V_0."""
        return float(np.linalg.slogdet(self.V)[1])

    @of_history
    def radius(self) -> float:
        """sqrt(rho_t) of (2), from what has been observed."""
        return radius(
            self.kind, delta=self.delta, ridge=self.ridge, noise=self.noise, bound=self.bound,
            actions=self.actions, pulls=self.pulls, V=self.V, rewards_seen=len(self.rewards),
        )  # fmt: skip

    # Arm by arm rather than as one product: equal actions then get equal bits, and ties stay ties.
    @of_history
    def mean(self) -> Floats:
        """(k,) the estimated mean rewards <theta, a>."""
        theta = self.theta
        return np.array([action @ theta for action in self.actions])

    @of_history
    def variance(self) -> Floats:
        """(k,) the squared norms of a in V_t^{-1}; the width of an arm is its root."""
        return np.array([action @ self.inverse @ action for action in self.actions])

    @property
    def lower(self) -> Floats:
        """(k,) the infimum of <theta, a> over the current confidence set, inside (3)."""
        return self.mean - self.radius * np.sqrt(self.variance)

    @property
    def upper(self) -> Floats:
        """(k,) UCB_t of (3), the supremum of <theta, a> over the current confidence set."""
        return self.mean + self.radius * np.sqrt(self.variance)

    @property
    def lcb(self) -> Floats:
        """(k,) LCB_t of (3), the maximum over t' <= t of the lower bounds."""
        highest: Floats = np.max(self.lowers, axis=0)
        return highest

    @property
    def baseline(self) -> float:
        """r_b of (4); without a log there is nothing to fall below."""
        m = self.pulls.sum()
        if m == 0:
            return -np.inf
        width = {
            "paper": np.sqrt(self.actions.shape[1] / m),
            "coverage": self.pulls @ np.sqrt(self.first_variance) / m,  # what Lemma 5 bounds by sqrt(d/m)
        }[self.slack]
        return float(self.lowers[0].max() - self.alpha * self.first_radius * width)  # S = radius * width

    def lower_of(self, vector: Floats) -> float:
        """The infimum of <theta, vector> over the current confidence set, for any (d,) vector."""
        norm = np.sqrt(vector @ self.inverse @ vector)
        return float(self.theta @ vector - self.radius * norm)

    def budget(self, arm: int) -> float:
        """B(t) of (5) with this arm in the place of U_t; aggregate is Remark 1, point 3."""
        t = len(self.committed) + 1
        lcb = self.lcb
        owed = t * self.baseline
        past = self.actions[self.committed].sum(axis=0)  # (d,) sum of A_s, zero in the first round

        exact = sum(lcb[s] for s in self.committed) + lcb[arm] - owed
        aggregate = self.lower_of(past) + lcb[arm] - owed
        joint = self.lower_of(past + self.actions[arm]) - owed
        return float({"exact": exact, "aggregate": aggregate, "max": max(exact, aggregate, joint)}[self.form])

    @property
    def seen_noise(self) -> float:
        """The noise of rewards around their arms' means and around predictions, at most the assumed one."""
        if not self.estimates_noise:
            return self.noise
        squares, count = self.noise**2, 1  # one row of the assumed noise
        if self.problem.reward_squares is not None:
            logged = zip(self.pulls, self.problem.reward_sums, self.problem.reward_squares, strict=True)
            for pulls, total, square in logged:
                if pulls > 1:
                    squares, count = squares + square - total**2 / pulls, count + pulls - 1
        squares, count = squares + sum(r**2 for r in self.residuals), count + len(self.residuals)
        return float(min(self.noise, np.sqrt(squares / count)))

    def choices(self, arms: list[int]) -> list[int]:
        """The arms among which an explorer that draws by gaps draws."""
        return [arm for arm in arms if self.reach == "affordable" and self.affords(arm)] or arms

    def chances(self, arms: list[int]) -> Floats:
        """(k,) how likely squarecb proposes each of these arms."""
        chances = np.zeros(len(self.actions))
        spread = self.scale * self.seen_noise
        chances[arms] = inverse_gap_chances(self.mean[arms], self.variance[arms], spread)
        return chances

    def scores(self, randoms: Floats | None, arms: list[int] | None = None) -> Floats:
        """(k,) what the explorer maximises over these arms; for ucb at scale 1 this is UCB_t of (3)."""
        scale = self.scale * self.seen_noise / self.noise
        if self.explorer == "ucb":
            return self.mean + scale * self.radius * np.sqrt(self.variance)
        if self.explorer == "greedy":
            return self.mean
        assert randoms is not None, f"the {self.explorer} explorer needs randoms"
        if self.explorer == "uniform":
            return randoms  # (k,) uniforms
        if self.explorer == "squarecb":  # an exponential with rate p_a comes first with chance p_a
            with np.errstate(divide="ignore"):
                return np.log(randoms) / self.chances(self.choices(arms or list(range(len(self.actions)))))
        if self.explorer == "luck":  # one |z| for all arms
            spreads = np.full(len(self.actions), scale * self.noise)
            if self.whole_prior:
                spreads = spreads_of(scale * self.noise, self.noise, self.ridge, self.actions, self.variance)
            return self.mean + abs(randoms[0]) * spreads * np.sqrt(self.variance)
        assert self.explorer == "thompson", f"no explorer is called {self.explorer}"
        root = np.linalg.cholesky(self.V)  # V = L L^T, so L^{-T} xi has covariance V^{-1}
        drawn = np.linalg.solve(root.T, randoms)  # xi: (d,) normals
        if self.whole_prior:
            spreads = spreads_of(scale * self.noise, self.noise, self.ridge, self.actions, self.variance)
            return self.mean + spreads * np.array([action @ drawn for action in self.actions])
        sample = self.theta + scale * self.noise * drawn
        return np.array([action @ sample for action in self.actions])

    def safe(self, arms: list[int]) -> int:
        """L_t of (3), or what replaces it: the pessimistic arm of the log alone, or a fixed one."""
        if self.fallback == "lcb":
            return best(self.lcb, arms)
        if self.fallback == "frozen":
            return best(self.lowers[0], arms)
        assert self.fallback in arms, f"the fallback {self.fallback} is no allowed arm"
        return int(self.fallback)

    def affords(self, arm: int) -> bool:
        """Whether the gate lets this arm through: B(t) > 0 in Algorithm 1."""
        if self.gate == "budget":
            return self.budget(arm) > 0
        return {"open": True, "closed": False}[self.gate]

    def decide(self, randoms: Floats | None = None, allowed: Bools | None = None) -> tuple[int, bool]:
        """The choice in Algorithm 1: the arm to play, and whether it is explored."""
        arms = [arm for arm in range(len(self.actions)) if allowed is None or allowed[arm]]
        scores = self.scores(randoms, arms)
        asked = {"proposal": [best(scores, arms)], "affordable": arms}[self.reach]
        affordable = [arm for arm in asked if self.affords(arm)]
        if affordable:
            return best(scores, affordable), True
        return self.safe(arms), False

    def commit(self, arm: int) -> None:
        """Play the arm: from here on it counts in the budget."""
        self.committed.append(arm)

    def observe(self, arm: int, reward: float) -> None:
        """Receive a reward, perhaps late: it enters (1), and the new bounds enter the maximum in (3)."""
        action = self.actions[arm]
        self.residuals.append((reward - action @ self.theta) / np.sqrt(1 + action @ self.inverse @ action))
        self.observed.append(arm)
        self.rewards.append(reward)
        self.lowers.append(self.lower)

    def update(self, arm: int, reward: float) -> None:
        """The end of a round of Algorithm 1: play and receive at once."""
        self.commit(arm)
        self.observe(arm, reward)
