"""The paper's bounds as numbers: the constants of its proofs, corrected where they slip (docs/bounds.md).

All follow by algebra from one event, theta* in C_t for every t, whatever the radius of C_t: a run on that
event never breaks one. The scale of the noise and the bias of the ridge enter through the radius alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.confidence import PAPER, Confidence, RadiusTerms, radius_terms
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import (
    as_actions,
    as_floats,
    check_choice,
    check_count,
    check_nonnegative,
    check_positive,
)

# -- how much n rounds can teach: log det V_n - log det V_0 -------------------------------------------------


def spectrum(actions: npt.ArrayLike, offline: Offline, *, ridge: float) -> Floats:
    """(d,) the eigenvalues of V_0, ascending."""
    arms = as_actions(actions)
    check_positive("ridge", ridge)
    pulls = as_offline(offline, len(arms)).pulls
    gram = arms.T @ (pulls[:, None] * arms)
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram), 0.0) + ridge)  # rounding may leave -1e-15


def effective_dimension(eigenvalues: npt.ArrayLike, *, rounds: int, norm: float) -> int:
    """d_eff of V_0: the largest i with (i - 1) lambda_i <= n L^2 / log(1 + n L^2 / lambda_1).

    It belongs to its horizon: the same log has a larger d_eff over more rounds, up to d.

    >>> [effective_dimension([1.0, 1e4, 1e6], rounds=n, norm=1.0) for n in (1000, 1_000_000, 100_000_000)]
    [1, 2, 3]
    """
    ascending, total = as_spectrum(eigenvalues), squared_norms(rounds, norm)
    threshold = total / log(1 + total / ascending[0])
    return int(np.flatnonzero(np.arange(ascending.size) * ascending <= threshold)[-1]) + 1


def log_det_growth(eigenvalues: npt.ArrayLike, *, rounds: int, norm: float) -> float:
    """The largest log det V_n - log det V_0 that n actions no longer than `norm` can cause.

    Their squared norms n L^2 are poured over the spectrum like water: the smallest eigenvalues rise to a
    common level. Attained whenever n >= d, so every line of the proofs can be held against it.

    >>> round(log_det_growth([1.0, 100.0], rounds=1, norm=1.0), 4)  # log 2
    0.6931
    """
    ascending, total = as_spectrum(eigenvalues), squared_norms(rounds, norm)
    levels = (total + np.cumsum(ascending)) / np.arange(1, ascending.size + 1)
    under = int(np.flatnonzero(levels > ascending)[-1]) + 1  # eigenvalues below the water
    return float(np.log(levels[under - 1] / ascending[:under]).sum())


def potential_bound(eigenvalues: npt.ArrayLike, *, rounds: int, norm: float) -> float:
    """d log(1 + n L^2 / (d lambda_min)), the elliptical potential: never below `log_det_growth`."""
    ascending, total = as_spectrum(eigenvalues), squared_norms(rounds, norm)
    d = ascending.size
    return d * log(1 + total / (d * float(ascending[0])))


def effective_growth_bound(eigenvalues: npt.ArrayLike, *, rounds: int, norm: float) -> float:
    """2 d_eff log(1 + n L^2 / lambda_min): never below `log_det_growth`, and the 2 is needed."""
    ascending, total = as_spectrum(eigenvalues), squared_norms(rounds, norm)
    d_eff = effective_dimension(ascending, rounds=rounds, norm=norm)
    return 2 * d_eff * log(1 + total / float(ascending[0]))


def as_spectrum(eigenvalues: npt.ArrayLike) -> Floats:
    """Positive eigenvalues in ascending order."""
    values = np.sort(as_floats("eigenvalues", eigenvalues, ndim=1))
    if values.size == 0 or values[0] <= 0:
        raise ValueError(f"eigenvalues must be positive, got {values[:1].tolist()}")
    return values


def squared_norms(rounds: int, norm: float) -> float:
    """n L^2, what n actions can add to the trace of V."""
    check_count("rounds", rounds)
    check_positive("norm", norm)
    return rounds * norm**2


# -- what the bounds are made of ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What all bounds share, worked out once from a log and a radius; `Problem.of` makes one."""

    eigenvalues: Floats  # (d,) of V_0, ascending
    norm: float  # L, the length of the longest action
    noise: float
    terms: RadiusTerms
    log_det: float  # log det V_0 above what the radius counts from: 0 where that is V_0
    first_radius: float  # sqrt(rho_1)
    slack: float  # S
    baseline: float  # r_b at alpha = 0: lcb_1(L_off)
    widest: float  # the largest |a| in V_0^-1, at most L / sqrt(lambda_min): no arm is wider in any round
    best_width: float  # |a*| in V_0^-1
    gap: float  # Delta_off, the best mean minus that of the offline pessimistic arm
    largest_gap: float  # the best mean minus the worst
    largest_shortfall: float  # mu_off minus the worst mean

    @classmethod
    def of(
        cls,
        actions: npt.ArrayLike,
        offline: Offline,
        *,
        confidence: Confidence = PAPER,
        slack: Literal["paper", "coverage"] = "paper",
        theta: npt.ArrayLike | None = None,
    ) -> Problem:
        """From arms (k, d), a log, a radius, and the true parameter (d,) where it is known.

        Without `theta` the unknown quantities take their worst values: Delta_off = 0, the widest arm for the
        best, and `reward_range` (or 2 L B) for the gaps. The bounds then hold in every world.

        >>> log = Offline(pulls=[50, 50], reward_sums=[20.0, 10.0])
        >>> problem = Problem.of(np.eye(2), log, theta=[0.4, 0.2])
        >>> round(problem.slack, 3), round(problem.gap, 3), round(problem.largest_gap, 3)
        (1.079, 0.0, 0.2)
        """
        arms = as_actions(actions)
        logged = as_offline(offline, len(arms))
        check_choice("slack", slack, ("paper", "coverage"))
        if logged.total == 0:
            raise ValueError("offline must hold at least one pull: without a log nothing is promised")
        d = arms.shape[1]
        ridge, norm = confidence.ridge_for(d), float(np.linalg.norm(arms, axis=1).max())
        terms, eigenvalues = radius_terms(confidence, arms, logged), spectrum(arms, logged, ridge=ridge)
        log_det = 0.0 if terms.prior_is_log else float(np.log(eigenvalues / ridge).sum())
        online = 0.0 if terms.prior_is_log else sqrt(terms.level + log_det)  # beta_1 = 0
        radius = terms.fixed + terms.bias + confidence.scale * online
        V = arms.T @ (logged.pulls[:, None] * arms) + ridge * np.eye(d)
        widths = np.sqrt((arms * np.linalg.solve(V, arms.T).T).sum(axis=1))
        lcb = arms @ np.linalg.solve(V, arms.T @ logged.reward_sums) - radius * widths  # lcb_1
        width = sqrt(d / logged.total) if slack == "paper" else float(logged.pulls @ widths) / logged.total
        world = unknown_world(confidence, norm, widths)
        if theta is not None:
            world = known_world(arms, as_floats("theta", theta, ndim=1), logged, widths, int(lcb.argmax()))
        return cls(
            eigenvalues=eigenvalues,
            norm=norm,
            noise=confidence.scale,
            terms=terms,
            log_det=log_det,
            first_radius=radius,
            slack=radius * width,
            baseline=float(lcb.max()),
            widest=float(widths.max()),
            **world,
        )

    def radius(self, rounds: int) -> float:
        """The largest sqrt(rho_n) that n rounds can lead to: V_{n-1} holds n - 1 actions."""
        check_count("rounds", rounds)
        if rounds == 1:
            return self.first_radius
        growth = log_det_growth(self.eigenvalues, rounds=rounds - 1, norm=self.norm)
        fixed = self.terms.fixed + self.terms.bias
        return fixed + self.noise * sqrt(self.terms.level + self.log_det + growth)


def known_world(
    actions: Floats, theta: Floats, offline: Offline, widths: Floats, pessimistic: int
) -> dict[str, float]:
    """The fields of a Problem that depend on the true parameter."""
    if theta.size != actions.shape[1]:
        raise ValueError(f"theta must have {actions.shape[1]} entries like actions, got {theta.size}")
    means = actions @ theta
    reference = float(offline.pulls @ means) / offline.total  # mu_off
    return {
        "best_width": float(widths[means.argmax()]),
        "gap": float(means.max() - means[pessimistic]),
        "largest_gap": float(means.max() - means.min()),
        "largest_shortfall": max(reference - float(means.min()), 0.0),  # a mean of equals may round below
    }


def unknown_world(confidence: Confidence, norm: float, widths: Floats) -> dict[str, float]:
    """The same fields at their worst, where only a log is known."""
    low, high = confidence.reward_range or (-confidence.bound * norm, confidence.bound * norm)
    return {
        "best_width": float(widths.max()),
        "gap": 0.0,
        "largest_gap": high - low,
        "largest_shortfall": high - low,
    }


# -- regret against the log ---------------------------------------------------------------------------------


def offline_regret_bound(*, alpha: float, slack: float, rounds: int) -> float:
    """R_t^off <= (alpha + 2) S t behind a Budget gate: every t at once, any explorer, half of Theorem 2."""
    check_gate(alpha, slack, rounds)
    return (alpha + 2) * slack * rounds


def published_offline_regret_bound(*, alpha: float, slack: float, rounds: int) -> float:
    """Theorem 2 as its proof ends, 2 (alpha + 2) S n: right, and twice what is needed."""
    return 2 * offline_regret_bound(alpha=alpha, slack=slack, rounds=rounds)


def lcb_offline_regret_bound(*, slack: float, rounds: int) -> float:
    """Proposition 3: R_t^off <= 2 S t for LinLCB, for every t at once, with rho_1 in place of rho_n."""
    return offline_regret_bound(alpha=0.0, slack=slack, rounds=rounds)


def lcb_shortfall_bound(*, slack: float) -> float:
    """Proposition 2: mu_off - mu(L_t) <= 2 S, for L_off and for every later pessimistic arm."""
    return lcb_offline_regret_bound(slack=slack, rounds=1)


# -- regret against the best arm ----------------------------------------------------------------------------


def lcb_suboptimality_bound(problem: Problem) -> float:
    """Lemma 1: mu* - mu(L_t) <= 2 sqrt(rho_1) |a*| in V_0^-1, for every t."""
    return 2 * problem.first_radius * problem.best_width


def unplayed_deficit(problem: Problem, *, rounds: int) -> float:
    """What the last refused proposal can owe: 2 (sqrt(rho_1) W - sqrt(rho_n))^+, W = `widest`.

    The paper's proof leaves it out. Only lower bounds clipped at the least possible reward would do without.
    """
    return 2 * max(problem.first_radius * problem.widest - problem.radius(rounds), 0.0)


def is_well_covered(problem: Problem, *, alpha: float, rounds: int) -> bool:
    """Whether Delta_off + alpha S > 2 sqrt(rho_n) W, W = `widest`: then the budget never runs out."""
    check_gate(alpha, problem.slack, rounds)
    return problem.gap + alpha * problem.slack > 2 * problem.radius(rounds) * problem.widest


def lcb_rounds_bound(problem: Problem, *, alpha: float, rounds: int) -> float:
    """|L_n|, the safe rounds of LinOtO (budget "exact" or "max") among n; n where nothing better is known.

    With N optimistic rounds, (|L_n| - 1) alpha S <= -c N + b sqrt(N) + `unplayed_deficit`, c = Delta_off +
    alpha S: a quadratic in sqrt(N), taken at its top. No round at all where the right side is negative.
    """
    if is_well_covered(problem, alpha=alpha, rounds=rounds):
        return 0.0
    gain = alpha * problem.slack
    if gain == 0.0:
        return float(rounds)  # nothing is ever earned, and the bound says nothing
    radius = problem.radius(rounds)
    growth = log_det_growth(problem.eigenvalues, rounds=rounds, norm=problem.norm)
    cost = problem.gap + gain
    width = (problem.largest_gap + 2 * radius) * sqrt(2 * growth)  # b
    root = min(max(width / (2 * cost), 1.0), sqrt(rounds))  # sqrt(N) in [1, sqrt(n)]
    debt = (width - cost * root) * root + unplayed_deficit(problem, rounds=rounds)
    return 0.0 if debt < 0 else min(float(rounds), 1 + debt / gain)


def ucb_regret_bound(problem: Problem, *, rounds: int) -> float:
    """sqrt(16 n rho_n d_eff log(1 + n L^2 / lambda_min)), the price of the optimistic rounds: R_n of LinUCB.

    Where 2 sqrt(rho_n) is below the largest gap, the gap takes its place: a round can cost that much.
    """
    growth = effective_growth_bound(problem.eigenvalues, rounds=rounds, norm=problem.norm)
    return max(2 * problem.radius(rounds), problem.largest_gap) * sqrt(2 * rounds * growth)


def regret_bound(problem: Problem, *, alpha: float, rounds: int) -> float:
    """Theorem 1: the optimistic rounds, and |L_n| times what a pessimistic round can cost."""
    safe_rounds = lcb_rounds_bound(problem, alpha=alpha, rounds=rounds)
    return ucb_regret_bound(problem, rounds=rounds) + lcb_suboptimality_bound(problem) * safe_rounds


def covered_regret_bound(problem: Problem, *, alpha: float, rounds: int) -> float:
    """Theorem 1, second claim: 2 n sqrt(rho_n) W, W = `widest`, where `is_well_covered`; inf elsewhere."""
    if not is_well_covered(problem, alpha=alpha, rounds=rounds):
        return inf
    return 2 * rounds * problem.radius(rounds) * problem.widest


# -- all at once --------------------------------------------------------------------------------------------


def is_vacuous(bound: float, *, rounds: int, largest_gap: float) -> bool:
    """Whether a bound on a regret says nothing: no n rounds can cost more than n times the largest gap.

    >>> is_vacuous(900.0, rounds=1000, largest_gap=1.5), is_vacuous(1500.0, rounds=1000, largest_gap=1.5)
    (False, True)
    """
    check_count("rounds", rounds)
    check_nonnegative("largest_gap", largest_gap)
    return bound >= rounds * largest_gap


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Every bound of the paper for LinOtO over n rounds, and for LinLCB where it says so."""

    rounds: int  # n
    alpha: float
    effective_dimension: int  # d_eff at this n
    radius: float  # sqrt(rho_n) at its largest
    slack: float  # S
    baseline: float  # r_b
    lcb_rounds: float  # |L_n|
    regret: float  # R_n, Theorem 1
    covered_regret: float  # R_n, Theorem 1, second claim; inf where its conditions fail
    ucb_regret: float  # R_n of LinUCB
    offline_regret: float  # R_n^off
    published_offline_regret: float  # R_n^off, Theorem 2 as published
    lcb_offline_regret: float  # R_n^off of LinLCB, Proposition 3
    lcb_shortfall: float  # mu_off - mu(L_t), Proposition 2
    lcb_suboptimality: float  # mu* - mu(L_t), Lemma 1
    vacuous: tuple[str, ...]  # the names of those above that exceed what is possible


def all_bounds(problem: Problem, *, alpha: float, rounds: int) -> Bounds:
    """Every bound for this problem, with the vacuous ones named.

    >>> log = Offline(pulls=[100_000, 100_000], reward_sums=[40_000.0, 20_000.0])
    >>> found = all_bounds(Problem.of(np.eye(2), log, theta=[0.4, 0.2]), alpha=10.0, rounds=1000)
    >>> round(found.covered_regret), found.lcb_rounds, "covered_regret" in found.vacuous
    (65, 0.0, False)
    """
    slack = problem.slack
    regrets = {
        "regret": regret_bound(problem, alpha=alpha, rounds=rounds),
        "covered_regret": covered_regret_bound(problem, alpha=alpha, rounds=rounds),
        "ucb_regret": ucb_regret_bound(problem, rounds=rounds),
    }
    offline_regrets = {
        "offline_regret": offline_regret_bound(alpha=alpha, slack=slack, rounds=rounds),
        "published_offline_regret": published_offline_regret_bound(alpha=alpha, slack=slack, rounds=rounds),
        "lcb_offline_regret": lcb_offline_regret_bound(slack=slack, rounds=rounds),
    }
    counts = {"lcb_rounds": lcb_rounds_bound(problem, alpha=alpha, rounds=rounds)}
    shortfall = {"lcb_shortfall": lcb_shortfall_bound(slack=slack)}
    suboptimality = {"lcb_suboptimality": lcb_suboptimality_bound(problem)}
    possible = (
        (regrets, rounds, problem.largest_gap),
        (offline_regrets, rounds, problem.largest_shortfall),
        (counts, rounds, 1.0),
        (shortfall, 1, problem.largest_shortfall),
        (suboptimality, 1, problem.largest_gap),
    )
    return Bounds(
        rounds=rounds,
        alpha=alpha,
        effective_dimension=effective_dimension(problem.eigenvalues, rounds=rounds, norm=problem.norm),
        radius=problem.radius(rounds),
        slack=slack,
        baseline=problem.baseline - alpha * slack,
        **regrets,
        **offline_regrets,
        **counts,
        **shortfall,
        **suboptimality,
        vacuous=tuple(
            name
            for group, n, most in possible
            for name, bound in group.items()
            if is_vacuous(bound, rounds=n, largest_gap=most)
        ),
    )


def check_gate(alpha: float, slack: float, rounds: int) -> None:
    """Refuse what is no Budget gate over some rounds."""
    check_nonnegative("alpha", alpha)
    check_nonnegative("slack", slack)
    check_count("rounds", rounds)
