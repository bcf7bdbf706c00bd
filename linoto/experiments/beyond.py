"""What this package adds to the paper, as data: the experiments of `linoto study beyond`, and its claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from linoto.core.confidence import PAPER, Confidence
from linoto.core.gates import Budget, Tolerance
from linoto.core.gates.older import OlderTolerance
from linoto.core.offline import Offline
from linoto.core.policies import Explorer, Gated, Greedy, LinOtO, LinTS, LinUCB
from linoto.core.protocols import Policy
from linoto.experiments.claims import Claim, Measurement, measured, names
from linoto.experiments.paper import ALPHA, SIZES
from linoto.experiments.results import Results
from linoto.experiments.settings import Experiment, Setting
from linoto.worlds.bandits import Bandit, LinearBandit

BEST = "m=500, best action logged"
SHARP, POSTERIOR = LinUCB(scale=0.25), LinTS(scale=1.0, prior="scaled")
OURS = ("Tolerance 0.1", "Tolerance 0.02", "Tolerance 0.1, Thompson")


def contenders(alpha: float) -> dict[str, Policy]:
    """The paper's two, ours behind a tolerance, and our explorers without a gate."""
    return {
        "LinOtO": LinOtO(alpha=alpha),
        "LinUCB": LinUCB(scale=1.0, confidence=PAPER),
        "Tolerance 0.1": Gated(explorer=SHARP, gate=Tolerance(epsilon=0.1)),
        "Tolerance 0.02": Gated(explorer=SHARP, gate=Tolerance(epsilon=0.02)),
        "Tolerance 0.1, Thompson": Gated(explorer=POSTERIOR, gate=Tolerance(epsilon=0.1)),
        "0.25 UCB": SHARP,
        "Thompson": POSTERIOR,
    }


def settings(policies: Callable[[float], dict[str, Policy]]) -> tuple[Setting, ...]:
    """The paper's problems by the size of the log, and the one with the best action logged."""
    sized = (
        Setting(name=f"m={m}", m=m, policies=policies(0.01 if m == 1000 else ALPHA), points=81) for m in SIZES
    )
    return (*sized, Setting(name=BEST, m=500, include_best=True, policies=policies(ALPHA), points=81))


BEYOND = Experiment(
    name="beyond",
    title="The paper's problems: LinOtO and LinUCB as published, and ours",
    caption="LinOtO and LinUCB have the radius and the ridge of the paper (alpha = 0.01 at m = 1000). "
    "'Tolerance' explores while it is proven to stay within so much per round of what the log earns, with an "
    "optimistic explorer at a quarter of the radius or with Thompson sampling; the last two have no gate "
    "and promise nothing.",
    settings=settings(contenders),
)


def parts(alpha: float) -> dict[str, Policy]:
    """The tolerance gate with one of its two improvements taken away, and with both."""
    return {
        f"{epsilon:g}, {name}": Gated(explorer=SHARP, gate=kind(epsilon=epsilon), reach=reach)
        for epsilon in (0.1, 0.02)
        for name, reach, kind in PARTS
    }


Reach = Literal["affordable", "proposal"]
LOOSE = partial(OlderTolerance, bias="loose")
PARTS: tuple[tuple[str, Reach, Callable[..., Tolerance]], ...] = (
    ("as it is", "affordable", Tolerance),
    ("all or nothing", "proposal", Tolerance),
    ("loose bias", "affordable", LOOSE),
    ("neither", "proposal", LOOSE),
)

PIECES = Experiment(
    name="beyond-parts",
    title="What makes the tolerance cheap: the best affordable action, and a tight bound on the ridge's bias",
    caption="'All or nothing' asks about the explorer's favourite only, as the paper does, and falls back if "
    "it is too dear; 'loose bias' bounds the pull of the ridge in every direction alike. The promise is the "
    "same for all four.",
    settings=settings(parts),
    view="bars",
)


def behind_budget(explorer: Explorer) -> Gated:
    """An explorer behind the paper's budget, with our radius, over the best affordable action."""
    return Gated(explorer=explorer, gate=Budget(alpha=ALPHA), fallback="lcb")


GOOD_LOG = Experiment(
    name="beyond-good-log",
    title="When the best action is well logged, a budget saves early regret",
    caption="The first 1000 rounds at m = 500 with the best action among the ten that were logged. The gate "
    "is the paper's budget (alpha = 10^-4) with our radius and its lower-bound action to fall back on.",
    settings=(
        Setting(
            name=BEST,
            m=500,
            include_best=True,
            horizon=1000,
            policies={
                "0.25 UCB": SHARP,
                "Budget, 0.25 UCB": behind_budget(SHARP),
                "Thompson": POSTERIOR,
                "Budget, Thompson": behind_budget(POSTERIOR),
            },
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class OnTime(Setting):
    """Yes-or-no rewards of actions that have nothing in common: means from .803 to .957, around .88."""

    def bandit(self, rng: np.random.Generator) -> LinearBandit:
        means = np.append(0.957, rng.uniform(0.803, 0.957, self.k - 1))
        return LinearBandit(actions=np.eye(self.k), theta=means, rewards="bernoulli")


def rewards_pay(epsilon: float, noise: float | Literal["bounded"]) -> Gated:
    """Exploration paid for by realised rewards in [0, 1]."""
    return Gated(
        explorer=SHARP,
        gate=Tolerance(epsilon=epsilon, evidence="rewards"),
        confidence=Confidence(noise=noise, reward_range=(0, 1), bound=8.0),  # 60 means around .88: 6.8
    )


SUB_GAUSSIAN, BOUNDED = "rewards, sub-Gaussian", "rewards, bounded"

BERNOULLI = Experiment(
    name="beyond-bernoulli",
    title="Yes-or-no rewards around .88: knowing that they are bounded pays",
    caption="60 actions without common features, ten of them logged, the best not among them. Exploration is "
    "paid for by realised rewards, with no linear model in the promise. Below zero is a gain over the log. "
    "'Sub-Gaussian' knows only the scale of the noise, 'bounded' that every reward is in [0, 1]: it bets on "
    "what it sees, and its reference learns from mixture plays. Dotted: the worst run.",
    settings=tuple(
        OnTime(
            name=f"m={m}, epsilon={epsilon:g}",
            k=60,
            d=60,
            m=m,
            horizon=6000,
            rewards="bernoulli",
            policies={
                SUB_GAUSSIAN: rewards_pay(epsilon, 0.5),
                BOUNDED: rewards_pay(epsilon, "bounded"),
            },
        )
        for m, epsilon in ((100, 0.02), (500, 0.02), (500, 0.05))
    ),
    view="promise",
)


@dataclass(frozen=True, kw_only=True)
class WrongModel(Setting):
    """Two actions, [0.5] and [1]: a line through the logged first says that the second earns twice as much.

    It earns nothing.
    """

    def bandit(self, rng: np.random.Generator) -> Any:  # not linear, so no LinearBandit
        return Bandit(actions=np.array([[0.5], [1.0]]), means=np.array([0.5, 0.0]), noise=self.noise)

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        log: Offline = bandit.log([self.m, 0], rng)
        return log


def believer(evidence: Literal["model", "rewards", "both"]) -> Gated:
    """A greedy explorer that believes the line, behind a tolerance of 0.05."""
    return Gated(
        explorer=Greedy(),
        gate=Tolerance(epsilon=0.05, evidence=evidence),
        confidence=Confidence(noise=0.5, reward_range=(0, 1)),
    )


WRONG = Experiment(
    name="beyond-wrong-model",
    title="Where the linear model is wrong: three kinds of evidence",
    caption="The model is planted to be wrong: it expects twice the log's reward of an action that earns "
    "nothing. With the model as evidence the promise is broken for ever; realised rewards keep it; with both "
    "the model is dropped once rewards contradict it. Dotted: the worst run.",
    settings=(
        WrongModel(
            name="epsilon=0.05",
            k=2,
            d=1,
            m=400,
            logged_arms=1,
            noise=0.5,
            horizon=2000,
            policies={
                "model": believer("model"),
                "rewards": believer("rewards"),
                "both": believer("both"),
            },
        ),
    ),
    view="promise",
)

EXPERIMENTS = (BEYOND, PIECES, GOOD_LOG, BERNOULLI, WRONG)
"""What `linoto study beyond` runs, in the order of its report."""


# -- claims -----------------------------------------------------------------------------------------------


@measured
def regret_share(results: Results, label: str, most: float) -> Iterable[Measurement]:
    """A policy's final regret as a share of LinOtO's, on the paper's default problem."""
    values, per = (results.final("m=100", name, "regret") for name in (label, "LinOtO"))
    yield Measurement(label=f"m=100, {label}", values=values, per=per, high=most)


@measured
def kept(results: Results, *labels: str) -> Iterable[Measurement]:
    """The largest shortfall below the log less what was promised: below 0 in every run."""
    for setting in names(results):
        for label in labels:
            values = results.promise_violation(setting, label)
            yield Measurement(label=f"{setting}, {label}", values=values, high=0, percent=False)


@measured
def saved(results: Results, *pairs: tuple[str, str]) -> Iterable[Measurement]:
    """By how much the first policy's regret is below the second's, relative to it, in every setting."""
    for setting in names(results):
        for label, other in pairs:
            rival = results.final(setting, other, "regret")
            less = rival - results.final(setting, label, "regret")
            yield Measurement(label=f"{setting}, {label}", values=less, per=rival, low=0.0)


def lifts(results: Results) -> Iterable[Measurement]:
    """Mean reward above the log: bounded above 0, and by more than sub-Gaussian."""
    for setting in results.experiment.settings:
        plain, bounded = (
            -results.final(setting.name, label, "offline_regret") / setting.horizon
            for label in (SUB_GAUSSIAN, BOUNDED)
        )
        yield Measurement(label=f"{setting.name}, bounded", values=bounded, low=0, percent=False)
        yield Measurement(label=f"{setting.name}, more by", values=bounded - plain, low=0, percent=False)


def breaks(results: Results) -> Iterable[Measurement]:
    """With the model as evidence, more is lost than was promised."""
    (setting,) = names(results)
    values = results.promise_violation(setting, "model")
    yield Measurement(label="model", values=values, low=0, percent=False)


def vetoed(results: Results) -> Iterable[Measurement]:
    """With both, what is lost beyond the promise stays below a twentieth of what the model loses."""
    (setting,) = names(results)
    values, per = (results.promise_violation(setting, label) for label in ("both", "model"))
    yield Measurement(label="both, of what the model loses beyond it", values=values, per=per, high=0.05)


def claim(name: str, quote: str, experiment: Experiment, measure: str, measurements: Any) -> Claim:
    """A claim of ours."""
    return Claim(
        name=name,
        quote=quote,
        source="ours",
        experiment=experiment.name,
        measure=measure,
        measurements=measurements,
        ours=True,
    )


OF_LINOTO = "final regret as a share of the published LinOtO's, on the paper's default problem"
VIOLATION = "the largest shortfall below the log over all rounds, less what is promised then: below 0"

CLAIMS: tuple[Claim, ...] = (
    claim(
        "tolerance-0.1",
        "A tolerance of 0.1 with a quarter of the radius has at most 16 % of LinOtO's regret",
        BEYOND,
        OF_LINOTO,
        regret_share("Tolerance 0.1", 0.16),
    ),
    claim(
        "tolerance-0.1-thompson",
        "With Thompson sampling at most 23 %",
        BEYOND,
        OF_LINOTO,
        regret_share("Tolerance 0.1, Thompson", 0.23),
    ),
    claim(
        "tolerance-0.02",
        "At a tolerance of 0.02 at most 27 %",
        BEYOND,
        OF_LINOTO,
        regret_share("Tolerance 0.02", 0.27),
    ),
    claim(
        "tolerance-kept",
        "No run ever has a larger shortfall below the log than was promised before the first round",
        BEYOND,
        VIOLATION,
        kept(*OURS),
    ),
    *(
        claim(
            f"{short}-at-{epsilon:g}",
            f"At a tolerance of {epsilon:g}, {words}",
            PIECES,
            "by how much regret is lower; relative to the regret without it",
            saved((f"{epsilon:g}, as it is", f"{epsilon:g}, {other}")),
        )
        for epsilon in (0.1, 0.02)
        for short, words, other in (
            (
                "affordable",
                "the best affordable action has less regret than all or nothing",
                "all or nothing",
            ),
            ("tight-bias", "the tight bias has less regret than the loose one", "loose bias"),
        )
    ),
    claim(
        "budget-saves-early",
        "When the best action is well logged, a budget lowers the regret of the first 1000 rounds",
        GOOD_LOG,
        "by how much regret is lower; relative to the regret without a gate",
        saved(("Budget, 0.25 UCB", "0.25 UCB"), ("Budget, Thompson", "Thompson")),
    ),
    claim(
        "bounded-lifts",
        "Bounded rewards lift the mean reward over the log where their noise scale alone hardly does",
        BERNOULLI,
        "mean reward less the log's: above 0, and more than with the noise scale alone",
        lifts,
    ),
    claim(
        "bounded-kept",
        "and the promise is kept",
        BERNOULLI,
        VIOLATION,
        kept(SUB_GAUSSIAN, BOUNDED),
    ),
    claim(
        "wrong-model-breaks",
        "Where the model is wrong, a promise paid for by the model is broken",
        WRONG,
        "the largest shortfall below the log over all rounds, less what is promised then: above 0",
        breaks,
    ),
    claim(
        "wrong-model-rewards-kept",
        "one paid for by realised rewards is kept",
        WRONG,
        VIOLATION,
        kept("rewards"),
    ),
    claim(
        "wrong-model-vetoed",
        "and with both the damage is limited by the veto",
        WRONG,
        "what is lost beyond the promise, as a share of what the model alone loses beyond it: below 5 %",
        vetoed,
    ),
)
