"""At most epsilon per round below the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from math import log as ln
from typing import Any, ClassVar, Literal

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.certificates import SAME_ROUNDS, Promise, Situation
from linoto.core.confidence import Confidence, radius_terms, terms_of_log
from linoto.core.false_bounds import check_bound
from linoto.core.features.moments import Moments
from linoto.core.gates.gate import USUAL_BUDGET, USUAL_SHARE, Gate
from linoto.core.gates.mixture import mixture_rounding, rounding_below
from linoto.core.guardrail import Guardrail
from linoto.core.kernels import State
from linoto.core.offline import Offline
from linoto.core.plain_python import run_once
from linoto.core.validation import check_choice, check_nonnegative, exact, normalise

EVIDENCE = ("model", "rewards", "both")
PROMISES = ("expected", "realised")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of what the log earns: what a preview tries to lose
SURELY = 1e-6  # how often a right range may be refused because of the log's noise


@dataclass(frozen=True, kw_only=True)
class Tolerance(Gate):
    """Never more below what the log earned than a loss budget, plus epsilon per round.

    With probability 1 - delta, for every t at once, the summed shortfall below the mean reward of the log is
    at most budget + epsilon t + kappa (hi - lo), whatever the explorer proposes; kappa is in the certificate.
    `budget` is what may be lost in all: it pays for exploring at once, where a rate makes exploring wait.
    With `epsilon=0` the promise never grows. With `relative`, both are shares of the log's mean reward: the
    budget in rounds' worth of it.

    `evidence` is what may pay for exploration: "model" trusts the linear model, "rewards" counts realised
    rewards and needs no model at all (but a `reward_range`), "both" accepts either and drops the model for
    good once realised rewards contradict it. Without a `reward_range`, "both" is the model alone.

    `promise` is what the shortfall is counted in: "expected" compares means, "realised" what the explored
    plays really earned, as a person reads it in the books. Realised is cheaper (nothing has to be inferred),
    and needs `evidence="rewards"` and bounded rewards.

    >>> Tolerance(budget=80) == Tolerance(budget=80.0, epsilon=0.0, evidence="both")
    True
    """

    before: ClassVar[dict[str, Any]] = {"ledger": "union", "rounding": "any"}
    gone: ClassVar[dict[str, Any]] = {"bias": "tight", "ledger": "joint", "rounding": "low"}
    older: ClassVar[str] = "OlderTolerance"  # what stored gates are that had another value of these

    code = kernels.TOLERANCE
    word = "tolerance"
    keeps_ledger = True
    trusts_model = True
    fallbacks = ("certified", "mixture")
    parameters = ("epsilon", "budget")
    arms_may_change = True

    budget: float = 0.0
    epsilon: float = 0.0
    evidence: Literal["model", "rewards", "both"] = "both"
    relative: bool = False
    promise: Literal["expected", "realised"] = "expected"

    def __post_init__(self) -> None:
        normalise(self)
        check_nonnegative("budget", self.budget)
        check_nonnegative("epsilon", self.epsilon)
        check_choice("evidence", self.evidence, EVIDENCE)
        check_choice("promise", self.promise, PROMISES)
        if not isinstance(self.relative, bool):
            raise ValueError(f"relative must be True or False, got {self.relative!r}")
        if self.relative and self.epsilon > 1:
            raise ValueError(f"epsilon must be at most 1 where it is relative, got {self.epsilon!r}")
        if self.promise == "realised" and self.evidence != "rewards":
            raise ValueError(
                f"evidence must be 'rewards' for promise='realised', got {self.evidence!r}: a model knows "
                "means only"
            )

    @property
    def varied(self) -> str:
        """The budget where there is one, else epsilon."""
        return "budget" if self.budget > 0 else "epsilon"

    def usual(self, confidence: Confidence, *, earned: float = inf, rows: int = 0) -> Tolerance:
        """The same evidence, and what 100 rounds are worth may be lost.

        Where rewards cannot be negative (a `reward_range` from 0 or above) a round is worth the log's mean
        reward, and 2 % of that may be lost per round besides: rare clicks need it. Elsewhere a round is worth
        the noise scale.
        """
        if confidence.reward_range is not None and confidence.reward_range[0] >= 0:
            return Tolerance(budget=USUAL_BUDGET, epsilon=USUAL_SHARE, relative=True, evidence=self.evidence)
        return Tolerance(budget=USUAL_BUDGET * confidence.scale, evidence=self.evidence)

    def grid(self, earned: float, horizon: int) -> tuple[float, ...]:
        unit = 1.0 if self.relative else earned
        rounds = horizon if self.varied == "budget" else 1
        return tuple(float(f"{share * unit * rounds:.1g}") for share in SHARES)

    def uses(self, confidence: Confidence) -> tuple[bool, bool]:
        """Whether the model and whether realised rewards can open this gate; rewards need a floor."""
        if self.promise == "realised" and confidence.noise != "bounded":
            raise ValueError(f"noise must be 'bounded' for promise='realised', got {confidence.noise!r}")
        if self.evidence == "rewards" and confidence.reward_range is None:
            raise ValueError("reward_range must be given for evidence='rewards', got None: it is the floor")
        by_rewards = self.evidence != "model" and confidence.reward_range is not None
        return self.evidence != "rewards", by_rewards

    def reads_bounds(self, confidence: Confidence) -> bool:
        return self.uses(confidence)[0]

    def why_no_guardrails(self, confidence: Confidence, guardrails: Sequence[Guardrail]) -> str | None:
        if confidence.shift > 0:
            return (
                f"shift must be 0 for guardrails behind a Tolerance gate, got {exact(confidence.shift)}: it "
                "says how far rewards have moved since the log, and nothing of other metrics"
            )
        for rail in guardrails:
            if rail.bound is not None and rail.sums is None and self.evidence != "rewards":
                return (
                    f"guardrail {rail.name!r}: sums must be given with a bound for a Tolerance gate by the "
                    "model, got None: what its values sum to in the log (Guardrail.logged_in)"
                )
            if rail.mean is None or rail.logged is None:
                return (
                    f"guardrail {rail.name!r}: mean and logged must be given for a Tolerance gate, got "
                    f"{rail.mean} and {rail.logged}: it compares with the log (a Control gate does not)"
                )
        return None

    def trusts_model_of(self, guardrail: Guardrail) -> bool:
        """Where it trusts the model of the reward, and the metric says how long its parameter can be."""
        return self.evidence != "rewards" and guardrail.bound is not None and guardrail.sums is not None

    def for_guardrail(self, guardrail: Guardrail) -> Tolerance:
        """Paid for by its own values, whatever pays for the reward, unless the model is trusted."""
        budget, rate = guardrail.budget, guardrail.rate
        if self.trusts_model_of(guardrail):
            return Tolerance(budget=budget, epsilon=rate, evidence="model")
        return Tolerance(budget=budget, epsilon=rate, evidence="rewards", promise=self.promise)

    def shares(self, by_model: bool, by_rewards: bool) -> tuple[float, float, float]:
        """The parts of delta: for the model, for the boundary b(q), and for the joint bound of rewards.

        They need not sum to 1: b(q) decides about the veto alone, which no promise rests on.
        """
        return 0.5 if by_rewards else 1.0, 0.25 if by_model else 0.5, 0.5 if by_model else 1.0

    def fill_ledger(self, p: np.void, by_rewards: bool) -> None:
        """How realised rewards are bounded: explored plays and the log's mean together."""
        p["averaged"], p["joint"] = 1, by_rewards and self.promise == "expected"

    def fill_rounding(self, p: np.void, offline: Offline, by_rewards: bool) -> None:
        """kappa: rewards know that arms whose average is low cannot all be high, which matters for clicks."""
        p["kappa"] = mixture_rounding(offline)
        if by_rewards and self.knows_low_arms:
            p["kappa"] = rounding_below(offline, first_reference(p, offline))

    @property
    def knows_low_arms(self) -> bool:
        """Whether kappa knows that arms whose average is low cannot all be high."""
        return True

    def why_no_rounds(self, confidence: Confidence) -> str | None:
        if self.evidence != "model":
            return (
                f"evidence must be 'model' with contexts, got {self.evidence!r}: what practice earns depends "
                "on the context, so the log's mean is no reference for rewards (a Control gate needs none)"
            )
        if self.relative:
            return "relative must be False with contexts, got True: every round has its own reference"
        if confidence.radius == "paper":
            return "radius must be another than 'paper' with contexts: it leaves out the ridge's bias"
        return None

    def fill_for_rounds(self, p: np.void, confidence: Confidence, moments: Moments) -> None:
        """The model alone pays, and what practice earns is bounded in each round."""
        super().fill_for_rounds(p, confidence, moments)
        terms = terms_of_log(confidence, moments.d, moments.spectrum)
        p["by_model"], p["gate_fixed"], p["gate_level"] = 1, terms.fixed, terms.level
        p["budget"], p["epsilon"] = self.budget, self.epsilon

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        super().fill(p, confidence, actions, offline)
        if offline.total == 0:
            raise ValueError("offline must hold at least one reward for a Tolerance gate, got an empty log")
        low, high = confidence.reward_range or (0.0, 1.0)
        if self.relative and (confidence.reward_range is None or low < 0):
            raise ValueError(
                f"reward_range must be given and start at 0 or above for a relative promise, got "
                f"{confidence.reward_range!r}: a share of a negative reward promises nothing"
            )
        check_logged_range(confidence, offline)
        by_model, by_rewards = self.uses(confidence)
        model_share, reward_share, reference_share = self.shares(by_model, by_rewards)
        terms = radius_terms(replace(confidence, delta=confidence.delta * model_share), actions, offline)
        p["gate_fixed"], p["gate_level"] = terms.fixed, terms.level
        p["budget"], p["epsilon"], p["relative"] = self.budget, self.epsilon, self.relative
        p["realised"] = self.promise == "realised"
        p["by_model"], p["by_rewards"] = by_model, by_rewards
        self.fill_ledger(p, by_rewards)
        p["bounded"] = confidence.noise == "bounded"
        p["low"], p["unit"] = low, high - low
        p["reward_level"] = ln(1 / (confidence.delta * reward_share))
        p["reference_level"] = ln(1 / (confidence.delta * reference_share))
        self.fill_rounding(p, offline, by_rewards)

    @property
    def terms(self) -> list[str]:
        """What of the allowance is above 0."""
        terms = {"budget": self.budget > 0, "epsilon t": self.epsilon > 0}
        return [name for name, there in terms.items() if there]

    def check_start(
        self, state: State, confidence: Confidence, offline: Offline, names: Sequence[str] | None
    ) -> None:
        if self.uses(confidence)[0]:
            check_bound(state, confidence, names)

    def rounding_after(self, practice: Offline, situation: Situation) -> float:
        if not self.uses(situation.confidence)[1] or not self.knows_low_arms:
            return super().rounding_after(practice, situation)
        most = first_reference(situation.params[0], situation.offline) * (1 + situation.run[0]["premium"])
        return rounding_below(practice, min(float(most), 1.0))

    def default_fallback(self, confidence: Confidence) -> str:
        return "certified" if self.uses(confidence)[0] else "mixture"

    def bounds_sums(self, confidence: Confidence) -> bool:
        return self.uses(confidence)[0]

    def needs_model(self, situation: Situation) -> bool:
        return self.uses(situation.confidence)[0]

    def promised(self, situation: Situation) -> Promise:
        if situation.against == SAME_ROUNDS:
            limit = " + ".join(self.terms) or "0"
            least = f"in every t rounds, plays earn at most {limit} less on average than practice"
            return Promise(f"{least} in the same rounds", self.epsilon, budget=self.budget)
        uses = zip(("the model", "realised rewards"), self.uses(situation.confidence), strict=True)
        payers = " or ".join(name for name, pays in uses if pays)
        limit = " + ".join([*self.terms, "kappa (hi - lo)"])
        theorem = f"R_off_t <= {limit}, paid for by {payers}"
        if self.evidence == "both" and not self.uses(situation.confidence)[1]:
            theorem = f"{theorem} alone: without a reward_range realised rewards prove nothing"
        realised = self.promise == "realised"
        if realised:
            theorem = f"{theorem}, where plays outside the mixture count as what they really earned"
        unit = self.most_reference(situation) if self.relative else 1.0
        return Promise(theorem, self.epsilon * unit, situation.rounding, self.budget * unit, realised)

    def most_reference(self, situation: Situation) -> float:
        """The largest reference on the events that the gate itself pays for, at least 0."""
        run, params = situation.run[0], situation.params[0]
        by_model, by_rewards = self.uses(situation.confidence)
        bounds = [situation.limits[1]]
        if by_rewards:
            bounds.append(float(run["upper_reference"]))
        if by_model:
            bounds.append(situation.upper_reference(float(run["gate_radius"] + params["bias"])))
        return max(min(bounds), 0.0)

    def not_assumed(self, situation: Situation) -> tuple[str, ...]:
        if situation.against != SAME_ROUNDS:
            return ()
        return "anything about the explorer", "anything about which contexts and arms come"

    def assumptions(self, situation: Situation) -> tuple[str, ...]:
        return situation.assumptions(by_rewards=self.uses(situation.confidence)[1])


def first_reference(p: np.void, offline: Offline) -> float:
    """The upper bound of the log's mean on the event of the promise, before the first round, in [0, 1]."""
    params, run = np.array([p]), np.zeros(1, kernels.RUN)
    run["logged"], run["logged_rewards"] = offline.total, offline.reward_sums.sum()
    run_once(kernels.ledger_begin, params, run, steps=1)
    return float(np.clip((run[0]["upper_reference"] - p["low"]) / p["unit"], 0.0, 1.0))


def check_logged_range(confidence: Confidence, offline: Offline) -> None:
    """Refuse a log that surely contradicts the range its rewards, or their means, are said to lie in."""
    if confidence.reward_range is None:
        return
    low, high = confidence.reward_range
    give = 2e-9 * (abs(low) + abs(high)) * offline.pulls
    if confidence.noise != "bounded":  # each mean may be off by its noise
        level = 2 * ln(2 * offline.pulls.size / SURELY)
        give = confidence.scale * np.sqrt(level * offline.pulls)
        give = give + confidence.shift * np.sqrt(offline.total * offline.pulls)
    outside = (offline.reward_sums < low * offline.pulls - give) | (
        offline.reward_sums > high * offline.pulls + give
    )
    if outside.any():
        arm = int(outside.argmax())
        mean = offline.reward_sums[arm] / offline.pulls[arm]
        raise ValueError(
            f"offline must have rewards in reward_range {(low, high)}, "
            f"got a mean of {exact(mean)} for arm {arm}"
        )
