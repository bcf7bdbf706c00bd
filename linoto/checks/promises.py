"""Is the promise of a certificate kept as often as it says? Many short runs against an adversary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from linoto.checks.in_rounds import InRounds, SameArms
from linoto.checks.problems import assumptions_of, bandit_as_assumed
from linoto.checks.suite import LawError
from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.certificates import Certificate
from linoto.core.composed import Composed
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision
from linoto.core.features.moments import Moments
from linoto.core.intervals import chance_of_at_least
from linoto.core.offline import Offline
from linoto.core.protocols import Policy, PolicyWithPromise
from linoto.core.validation import check_count, check_seed
from linoto.worlds.bandits import LinearBandit, logged_pulls

FALSE_ALARM = 1e-6
MEANING = "At most a share delta of all runs violates the promise of the certificate."
LOG_SIZES = (40, 1_000)  # rewards in the logs of every other run, where the noise is as large as the range
MOST_LOGGED = 50_000  # enough for a noise of seven times the range; more would take seconds a run
ARMS, LOGGED_ARMS, FEATURES = 8, 4, 4


@dataclass(frozen=True, kw_only=True)
class PromiseReport:
    """How often a promise was violated, and how often it may be by chance."""

    runs: int
    rounds: int
    violations: int  # runs in which the shortfall below the log was ever larger than promised
    limit: int  # a promise that holds has more violations with probability `false_alarm` at most
    false_alarm: float
    delta: float  # the share of runs that may violate the promise
    explored: float  # the share of rounds in which the gate accepted an arm
    at_risk: int  # runs in which the worst arm, played in every round, would have violated the promise
    adversary: bool  # False where an agent has no `guard`: then it played what it selects
    in_rounds: PromiseReport | None = None  # the same where rounds bring the arms, if that is promised too

    def __str__(self) -> str:
        return (
            f"{self.violations} of {self.runs} runs violated the promise, {self.limit} may (false alarm "
            f"{self.false_alarm:g}); {self.rounds} rounds each, {self.explored:.0%} of them exploring, "
            f"{self.at_risk} runs at risk, {'an adversary explored' if self.adversary else 'no adversary'}"
        )


def check_promise(
    policy: PolicyWithPromise, *, runs: int = 100, rounds: int = 200, seed: int = 0
) -> PromiseReport:
    """Count how often the promise of a policy is violated; LawError where chance does not explain it.

    Every run has a problem and a log of its own, as the policy's `Confidence` assumes them. In every round an
    adversary who knows the means plays the worst arm that the gate accepts. A promise that holds fails this
    check for one seed in a million. Where the policy promises something about rounds that bring their own
    arms, as many runs have the same arms in every round, and practice as the log's shares.

    >>> import linoto
    >>> check_promise(linoto.Gated(), runs=20).violations
    0
    """
    for name, count in (("runs", runs), ("rounds", rounds)):
        check_count(name, count)
    check_seed(seed)
    report = kept_promises(policy, runs=runs, rounds=rounds, seed=seed)
    if not promises_in_rounds(policy):
        return report
    there = kept_promises(InRounds(policy=policy), runs=runs, rounds=rounds, seed=seed)
    return replace(report, in_rounds=there)


def promises_in_rounds(policy: PolicyWithPromise) -> bool:
    """Whether a policy of ours promises something where rounds bring their own arms."""
    if not isinstance(policy, Composed) or policy.why_not(Moments.empty(FEATURES)):
        return False
    return policy.certificate(d=FEATURES).holds


def kept_promises(policy: PolicyWithPromise, *, runs: int, rounds: int, seed: int) -> PromiseReport:
    """The report of one way to state a log; LawError where its promise is broken too often."""
    generators = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(runs)]
    played = [play_run(policy, rounds, LOG_SIZES[i % 2], rng) for i, rng in enumerate(generators)]
    promised = [run for run in played if run.certificate.holds]
    if not promised:
        raise ValueError(f"policy must promise something, got {policy!r}: {played[0].certificate.theorem}")
    delta = promised[0].certificate.delta
    report = PromiseReport(
        runs=runs,
        rounds=rounds,
        violations=sum(run.violated_by(run.shortfall) for run in promised),
        limit=most_by_chance(runs, delta),
        false_alarm=FALSE_ALARM,
        delta=delta,
        explored=float(np.mean([run.explored for run in played])),
        at_risk=sum(run.violated_by(run.largest_shortfall) for run in promised),
        adversary=played[0].adversary,
    )
    if report.at_risk == 0:
        raise ValueError(f"rounds must be so many that the worst arm violates the promise, got {rounds}")
    if report.violations > report.limit:
        raise LawError(policy, "promise_is_kept", MEANING, str(report))
    return report


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayedRun:
    """What was promised in one run, and what came of it."""

    certificate: Certificate
    shortfall: Floats  # (n,) below the log, or what else it is compared with, cumulative
    largest_shortfall: Floats  # (n,) the same where the worst arm is played in every round
    explored: float
    adversary: bool

    def violated_by(self, shortfall: Floats) -> bool:
        """Whether the promise is violated by such a shortfall in any round, or stretch of them."""
        rounding = 1e-9 * (1 + (self.certificate.loss(shortfall.size) or 0.0))
        return self.certificate.excess(shortfall) > rounding


def play_run(policy: PolicyWithPromise, rounds: int, logged: int, rng: np.random.Generator) -> PlayedRun:
    """One run on a problem of its own."""
    bandit, offline = problem_as_assumed(assumptions_of(policy), logged, rng)
    means = bandit.means
    reference = float(offline.pulls @ means / offline.total)
    agent = cast("Agent", policy.start(bandit.actions, offline, rng=rng))  # asked before `guard` is used
    certificate = policy.certificate(bandit.actions, offline)
    baseline = baseline_of(policy, means, reference)
    earned, owed, explored = np.empty(rounds), np.full(rounds, baseline), 0
    for t, draw in enumerate(bandit.draw(rounds, rng)):
        decision = worst_decision(agent, means)
        arm = decision.arm if isinstance(decision, Decision) else decision
        reward = float(bandit.pay(np.array([arm]), np.array([draw]))[0])
        agent.update(decision, reward)
        explored += getattr(decision, "mode", "explore") == "explore"
        as_earned = certificate.realised and getattr(decision, "source", "") != "mixture"
        earned[t] = reward if as_earned else means[arm]
        if throws_coin(agent):  # against practice's arm of the same round, in explored rounds alone
            assert isinstance(decision, Decision) and decision.fallback is not None
            owed[t] = means[decision.fallback] if decision.mode == "explore" else earned[t]
        elif isinstance(agent, SameArms) and isinstance(decision, Decision) and decision.by_practice:
            owed[t] = earned[t]  # a play of practice's own loses nothing below practice
    return PlayedRun(
        certificate=certificate,
        shortfall=np.cumsum(owed - earned),
        largest_shortfall=(baseline - means.min()) * np.arange(1, rounds + 1),
        explored=explored / rounds,
        adversary=hasattr(agent, "guard"),
    )


def baseline_of(policy: Policy, means: Floats, reference: float) -> float:
    """What a round is compared with: the log's mean, unless the gate says otherwise."""
    if not hasattr(policy, "composed"):
        return reference
    gated = policy.composed()
    return float(gated.gate.owed(gated.resolved_fallback(), means, reference))


def worst_decision(agent: Agent, means: Floats) -> Decision | int:
    """What an adversary gets through the gate: the worst accepted arm, or the fallback if that is worse.

    Without a `guard` it is what the agent selects.
    """
    if not hasattr(agent, "guard"):
        return int(agent.select())
    if throws_coin(agent) or isinstance(agent, SameArms):  # who asks about every arm would know what is drawn
        decision: Decision = agent.guard(int(means.argmin()))
        return decision
    decisions: list[Decision] = [agent.guard(arm) for arm in range(means.size)]
    return min(decisions, key=lambda decision: float(means[decision.arm]))


def throws_coin(agent: object) -> bool:
    """Whether its gate decides by a coin, which is thrown once in a round."""
    return bool(getattr(getattr(agent, "gate", None), "throws_coin", False))


def problem_as_assumed(
    confidence: Confidence, logged: int, rng: np.random.Generator
) -> tuple[LinearBandit, Offline]:
    """A problem with |theta| = bound and means all over the assumed range, and a log of some of its arms."""
    bandit = bandit_as_assumed(confidence, ARMS, FEATURES, rng)
    low, high = bandit.reward_range
    m = min(int(logged * max(1.0, confidence.scale / ((high - low) / 2)) ** 2), MOST_LOGGED)
    return bandit, bandit.log(logged_pulls(bandit, m=m, arms=LOGGED_ARMS, rng=rng), rng)


def most_by_chance(runs: int, rate: float) -> int:
    """The least c with P(Binomial(runs, rate) > c) <= FALSE_ALARM."""
    return next(c for c in range(runs + 1) if chance_of_at_least(c + 1, runs, rate) <= FALSE_ALARM)
