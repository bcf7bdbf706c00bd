"""Which policy would you choose? Policies on the same problems, ranked, and compared pair by pair.

Every policy meets the same worlds, the same logs and the same noise, so a difference between two of them is
measured run by run, and luck that both share drops out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, cast

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.codec import finite
from linoto.core.composed import Composed
from linoto.core.confidence import PAPER, Confidence
from linoto.core.false_bounds import FalseBoundError
from linoto.core.features.moments import Moments
from linoto.core.gates import Budget, Conservative, Control, Tolerance
from linoto.core.intervals import student
from linoto.core.offline import Offline
from linoto.core.oope import OOPE
from linoto.core.policies import Explorer, Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random, RandUCB
from linoto.core.protocols import Policy, PolicyForRounds, starts_without_arms
from linoto.core.research import HUCB1, UCB1, ArmUCB, MinUCB, OtO, RareLinUCB, WideLinTS
from linoto.engines import THREADS, Engine, Track
from linoto.experiments import seasons as season
from linoto.experiments import takeover
from linoto.experiments.cells import Curves
from linoto.experiments.digits import Digits
from linoto.experiments.flights_by_time import FlightsByTime
from linoto.experiments.results import Results, mean_and_error
from linoto.experiments.run import draw_instance, run_experiment
from linoto.experiments.settings import ContextualSetting, Experiment, Setting
from linoto.worlds import digits
from linoto.worlds.bandits import Bandit
from linoto.worlds.flights import BOUND
from linoto.worlds.simulate import simulate

CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=BOUND)
MOST_REFUSED = 100  # logs that are drawn in place of one that is refused
ALPHA = LinOtO.alpha
USUAL_LOSS = 100.0  # rewards: the budget of Control here
TIMED_ROUNDS = 2000  # of the runs that are timed


# -- who plays, and where ---------------------------------------------------------------------------------


def everyone(
    confidence: Confidence | None = None, one_hot: bool = False, contexts: bool = False, shift: float = 0.0
) -> dict[str, Policy]:
    """Every policy that can play, as the paper sets it up, or with a confidence that suits the rewards.

    Where rewards are never negative, the gates that need this play too, on one-hot arms the policies for
    arms without features, and with contexts the gate by the model (there the usual gate is a Control gate).
    Where the log is wrong by a `shift`, those play too who are told so. "LinOtO, sharp" is the paper's rule
    with the radius and the explorer of Gated; "OFUL" is LinUCB with the radius and the ridge of its authors,
    which it has anyway where it is not set up as in the paper.
    """
    paper, usual = confidence or PAPER, confidence or Confidence()
    alpha: dict[str, Any] = {} if confidence is None else {"confidence": confidence}
    return {
        "Gated": Gated(confidence=usual),
        "Gated, 0.25 UCB": Gated(explorer=LinUCB(scale=0.25), confidence=usual),
        "Gated, LinTS": Gated(explorer=LinTS(), confidence=usual),
        **({} if confidence is None else shares_and_coins(confidence)),
        **(featureless(usual, OneHot.horizon) if one_hot else {}),
        **({"Gated, by the model": by_model(usual)} if contexts else {}),
        **(told_of(shift, usual) if shift else {}),
        "LinOtO": LinOtO(**alpha),
        "LinOtO, sharp": Gated(gate=Budget(alpha=ALPHA), fallback="lcb", reach="proposal", confidence=usual),
        "LinUCB": LinUCB(scale=1.0, confidence=paper),
        "LinUCB, rarely switching": RareLinUCB(confidence=paper),
        **({"OFUL": LinUCB(scale=1.0, confidence=usual)} if confidence is None else {}),
        "LinUCB x 0.25": LinUCB(scale=0.25, confidence=confidence),
        "RandUCB": RandUCB(confidence=confidence),
        "LinTS": LinTS(confidence=confidence),
        "LinTS, posterior": LinTS(scale=1.0, prior="scaled", confidence=confidence),
        "LinTS, Agrawal-Goyal": WideLinTS(law="agrawal-goyal", confidence=confidence),
        "LinTS, Abeille-Lazaric": WideLinTS(law="abeille-lazaric", confidence=confidence),
        "LinLCB": LinLCB(confidence=paper),
        "OOPE": OOPE(confidence=confidence),
        "OOPE, Frank-Wolfe": OOPE(design="frank_wolfe", confidence=confidence),
        "Greedy": Greedy(confidence=confidence),
        "Random": Random(),
    }


def shares_and_coins(confidence: Confidence) -> dict[str, Policy]:
    """Gates that promise something about a baseline's share, or about practice as it is now."""
    return {
        "Control": Gated(gate=Control(budget=USUAL_LOSS), confidence=confidence),
        "CLUCB2": conservative("separate", LinUCB(scale=1.0), "mixture", "proposal", confidence),
        "CUCB": conservative("arms", ArmUCB(), "mixture", "proposal", confidence),
        "Conservative, 0.25 UCB": conservative(
            "joint", LinUCB(scale=0.25), "mixture", "affordable", confidence
        ),
    }


def by_model(confidence: Confidence) -> Gated:
    """A budget that the linear model guards alone."""
    return Gated(gate=Tolerance(budget=USUAL_LOSS, evidence="model"), confidence=confidence)


def conservative(form: Any, explorer: Explorer, fallback: Any, reach: Any, confidence: Confidence) -> Gated:
    """At least nine tenths of what the log's shares would have earned."""
    gate = Conservative(alpha=0.1, form=form)
    return Gated(explorer=explorer, gate=gate, fallback=fallback, reach=reach, confidence=confidence)


def told_of(shift: float, confidence: Confidence) -> dict[str, Policy]:
    """The same gate and explorer, told how wrong the log may be."""
    stated = replace(confidence, shift=shift)
    return {
        "Gated, shift stated": Gated(confidence=stated),
        "LinUCB x 0.25, shift stated": LinUCB(scale=0.25, confidence=stated),
    }


def featureless(confidence: Confidence, horizon: int) -> dict[str, Policy]:
    """Policies for arms without features."""
    return {
        "UCB1": UCB1(confidence=confidence),
        "HUCB1": HUCB1(confidence=confidence),
        "MIN-UCB": MinUCB(confidence=confidence),
        "OtO": OtO(horizon=horizon, confidence=confidence),
    }


@dataclass(frozen=True, kw_only=True)
class OneHot(Setting):
    """Arms that say nothing about each other: every arm is its own feature, rewards are 0 or 1."""

    k: int = 20
    d: int = 20

    def bandit(self, rng: np.random.Generator) -> Any:
        """Click rates drawn evenly from [0, 1]."""
        return Bandit(actions=np.eye(self.k), means=rng.random(self.k), rewards="bernoulli")


@dataclass(frozen=True, kw_only=True)
class BiasedLog(Setting):
    """A log that is wrong: its rewards were `shift` too high for some arms and too low for the others.

    One that no parameter within the bound explains is refused by every gate that reads bounds, and is not
    among them, unless a shift is so large that nearly all of them are.
    """

    shift: float = 0.5

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """The log as it would be, moved up or down for each arm at random."""
        right = super().log(bandit, rng)
        found = self.moved(right, rng)
        for _ in range(MOST_REFUSED):
            try:
                Gated().certificate(bandit.actions, found)
            except FalseBoundError:
                found = self.moved(right, rng)
            else:
                break
        return found

    def moved(self, right: Offline, rng: np.random.Generator) -> Offline:
        """A right log with each arm moved."""
        moved = self.shift * rng.choice([-1.0, 1.0], size=self.k)
        squares = None if right.reward_squares is None else right.reward_squares
        if squares is not None:
            squares = squares + 2 * moved * right.reward_sums + moved**2 * right.pulls
        sums = right.reward_sums + moved * right.pulls
        return Offline(pulls=right.pulls, reward_sums=sums, reward_squares=squares)


Chosen = Callable[[Confidence | None, bool, bool, float], Mapping[str, Policy]]
"""The policies of a problem: what is known of its rewards (None: as in the paper), if it is one-hot, if its
rounds bring their own arms, and how wrong its log is."""


def problems(chosen: Chosen = everyone) -> dict[str, Setting]:
    """The problems by name: the paper's, a log that is wrong, clicks, arms without features, real flights,
    and those with contexts. A problem that nobody of the chosen can play is not there."""
    paper, clicks = chosen(None, False, False, 0.0), chosen(CLICKS, False, False, 0.0)
    moved = chosen(None, False, False, BiasedLog.shift)
    flights, backwards = takeover.experiment().settings[0], season.experiment().setting("backwards")
    found: tuple[tuple[Mapping[str, Policy], Callable[..., Setting]], ...] = (
        (paper, partial(Setting, name="poor log", m=100)),
        (paper, partial(Setting, name="rich log", m=1000)),
        (paper, partial(Setting, name="best action logged", m=500, include_best=True)),
        (moved, partial(BiasedLog, name="biased log", m=1000)),
        (clicks, partial(Setting, name="clicks", m=500, rewards="bernoulli")),
        (chosen(CLICKS, True, False, 0.0), partial(OneHot, name="one-hot", m=200, rewards="bernoulli")),
        (clicks, partial(replace, flights, name="flights")),
        (clicks, partial(replace, backwards, name="flights, a log of a worse season")),
    )
    played = [make(policies=policies) for policies, make in found if policies]
    return {setting.name: setting for setting in played} | contextual_problems(chosen)


def contextual_problems(chosen: Chosen) -> dict[str, Setting]:
    """The problems whose rounds bring their own arms, with those who can play them."""
    images = replace(CLICKS, bound=digits.BOUND)
    found: tuple[tuple[Confidence, int, Callable[..., Setting]], ...] = (
        (CLICKS, 10, partial(ContextualSetting, name="contexts", m=500, rewards="bernoulli")),
        (images, Digits.d, partial(Digits, name="digits")),
        (CLICKS, FlightsByTime.d, partial(FlightsByTime, name="flights by time")),
    )
    played = {}
    for confidence, d, make in found:
        policies = chosen(confidence, False, True, 0.0)
        reasons = {label: why_not_with_contexts(policy, d) for label, policy in policies.items()}
        able = {label: policy for label, policy in policies.items() if not reasons[label]}
        if able:
            setting = make(policies=able, left_out={who: why for who, why in reasons.items() if why})
            played[setting.name] = setting
    return played


def why_not_with_contexts(policy: Policy, d: int) -> str:
    """Why a policy cannot play rounds that bring their own arms of d features, or nothing."""
    if not starts_without_arms(policy):
        return "it starts on fixed arms only"
    if isinstance(policy, Composed):
        return policy.why_not(Moments.empty(d)) or ""
    try:
        cast(PolicyForRounds, policy).start(offline=None, d=d, rng=0)
    except ValueError as error:
        return str(error)
    return ""


def choose(own: Mapping[str, Policy | None]) -> Chosen:
    """Policies by label: your own, or None for the one of this package with that label, where it can play."""

    def chosen(
        confidence: Confidence | None, one_hot: bool, contexts: bool, shift: float
    ) -> dict[str, Policy]:
        known = everyone(confidence, one_hot, contexts, shift)
        found = {label: known.get(label) if policy is None else policy for label, policy in own.items()}
        return {label: policy for label, policy in found.items() if policy is not None}

    return chosen


# -- what comes out ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The results of a comparison: league tables, and differences from one policy."""

    results: Results
    against: str  # the policy that the others are compared with
    seconds: Mapping[tuple[str, str], float]  # per round, by setting and policy

    def league(self, setting: Setting) -> list[dict[str, Any]]:
        """One row per policy, the smallest regret first."""
        rows = [self._row(setting, label) for label in setting.labels]
        return sorted(rows, key=lambda row: row["regret"][-1]["mean"])

    def _row(self, setting: Setting, label: str) -> dict[str, Any]:
        cells = [*self.results.cells(setting.name, label)]  # once: reading them is what a league costs
        return {
            "policy": label,
            "regret": [at_round(cells, "regret", setting, round) for round in shown_rounds(setting)],
            "offline_regret": [
                at_round(cells, "offline_regret", setting, round) for round in shown_rounds(setting)
            ],
            "median_regret": float(np.median([cell.regret[-1] for cell in cells])),
            "worst_regret": max(float(cell.regret[-1]) for cell in cells),
            "worst_offline_regret": max(cell.worst for cell in cells),
            "promise": promise_kept(
                np.array([cell.promise_violation for cell in cells]),
                np.array([max(cell.worst, cell.regret[-1]) for cell in cells]),
            ),
            "explored": float(np.mean([cell.explored[-1] for cell in cells]) / setting.horizon),
            "seconds_per_round": self.seconds[setting.name, label],
            **self._metrics(setting, cells),
            "difference": self._difference(setting, label),
        }

    def _metrics(self, setting: Setting, cells: Sequence[Curves]) -> dict[str, Any]:
        """How much more of each metric there was in all than with the log's arms, or practice."""
        if not setting.metrics:
            return {}
        found = {}
        for place, name in enumerate(setting.metrics):
            mean, error = mean_and_error([cell.metrics[place, -1] for cell in cells])
            found[name] = {"mean": float(mean), "se": finite(error)}
        return {"metrics": found}

    def _difference(self, setting: Setting, label: str) -> dict[str, Any] | None:
        """How much more regret than the reference at the end, run by run, with a 95 % interval."""
        if label == self.against or self.against not in setting.labels:
            return None
        mine, theirs = (self.results.final(setting.name, who, "regret") for who in (label, self.against))
        mean, error = mean_and_error(mine - theirs)
        if mine.size < 2:
            return {"mean": float(mean), "low": None, "high": None}
        reach = student(mine.size - 1) * error
        return {"mean": float(mean), "low": float(mean - reach), "high": float(mean + reach)}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: the league of every setting."""
        settings = self.results.experiment.settings
        return {
            "runs": self.results.runs,
            "seed": self.results.seed,
            "against": self.against,
            "leagues": {setting.name: self.league(setting) for setting in settings},
            "left_out": {setting.name: setting.absent for setting in settings if setting.absent},
        }


def at_round(cells: Sequence[Curves], field: str, setting: Setting, round: int) -> dict[str, Any]:
    """Mean and standard error over runs at a round, between two kept rounds on the line that joins them."""
    values = [np.interp(round, setting.rounds, getattr(cell, field)) for cell in cells]
    mean, error = mean_and_error(values)
    return {"round": round, "mean": float(mean), "se": finite(error)}


def shown_rounds(setting: Setting) -> tuple[int, ...]:
    """Early, half-way and at the end."""
    return max(setting.horizon // 8, 1), max(setting.horizon // 2, 1), setting.horizon


def promise_kept(violation: Floats, lost: Floats) -> dict[str, int] | None:
    """In how many of how many runs a promise was kept; None where nothing is promised.

    A billionth of what was lost in a run is rounding, whatever rewards are counted in.
    """
    promised = ~np.isnan(violation)
    if not promised.any():
        return None
    kept = violation[promised] <= 1e-9 * lost[promised]
    return {"kept": int(kept.sum()), "runs": int(kept.size)}


def compare(
    settings: Iterable[Setting],
    *,
    against: str | None = None,
    runs: int = 5,
    seed: int = 0,
    out: Any = None,
    resume: bool = False,
    engine: Engine = THREADS,
    track: Track | None = None,
    clock: Callable[[], float] = perf_counter,
    timed_runs: int = 3,
) -> Comparison:
    """Play every policy of these settings, and time each of them alone afterwards, the best of some runs.

    >>> from linoto import LinTS, LinUCB
    >>> from linoto.experiments.settings import Setting
    >>> small = Setting(name="small", horizon=50, policies={"LinUCB": LinUCB(scale=1.0), "LinTS": LinTS()})
    >>> found = compare([small], runs=3)
    >>> sorted(row["policy"] for row in found.league(small)), found.against
    (['LinTS', 'LinUCB'], 'LinUCB')
    """
    plan = tuple(settings)
    labels = dict.fromkeys(label for setting in plan for label in setting.labels)
    reference = next(iter(labels)) if against is None else against
    if reference not in labels:
        raise ValueError(f"against must be one of {', '.join(labels)}, got {reference!r}")
    experiment = Experiment(
        name="compare",
        title="The same problems, many policies",
        caption="Cumulative regret: mean over runs, one standard error shaded.",
        settings=plan,
    )
    results = run_experiment(
        experiment, runs=runs, seed=seed, out=out, resume=resume, engine=engine, track=track
    )
    seconds = {
        (setting.name, label): time_policy(setting, label, clock, timed_runs)
        for setting in plan
        for label in setting.labels
    }
    return Comparison(results=results, against=reference, seconds=seconds)


def time_policy(setting: Setting, label: str, clock: Callable[[], float], runs: int) -> float:
    """Seconds per simulated round: the quickest of a few runs on this machine, starting included."""
    bandit, offline, own = draw_instance(setting, 0, 0)
    policy, rounds = setting.policy(label), min(setting.horizon, TIMED_ROUNDS)
    spent = []
    for _ in range(runs):
        began = clock()
        simulate(policy, bandit, offline, horizon=rounds, seed=own)
        spent.append(clock() - began)
    return min(spent) / rounds
