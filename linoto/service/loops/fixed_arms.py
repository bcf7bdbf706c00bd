"""Arms that stay the same from round to round: the agent knows their features, and what each has earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.arrays import Floats, Ints
from linoto.core.certificates import LOG, PRACTICE, Certificate, mean_interval
from linoto.core.confidence import why_noise_refuted
from linoto.core.doubling import DoublingAgent
from linoto.core.false_bounds import at_any_ridge
from linoto.core.hints import shortened_list
from linoto.core.one_hot import find_one_hot, is_compact, one_hot, recognising
from linoto.core.rails import ridge_of_reward
from linoto.core.slices import slicing
from linoto.core.snapshots import from_dict, resume
from linoto.core.usual_confidence import confidence_from_log
from linoto.core.validation import MANY_ARMS, as_generator
from linoto.core.whitening import whitening
from linoto.service.errors import invalid
from linoto.service.loops.arms import Added, LoopArms
from linoto.service.loops.events import ArmsChanged, Context, DecisionMade
from linoto.service.loops.practice_weights import Practice
from linoto.service.loops.questions import FixedQuestion
from linoto.service.loops.spec import MOST_ARMS, MOST_FEATURES, LoopAgent, LoopSpec, log_of
from linoto.service.loops.state import RewardTotals
from linoto.service.loops.watch import Watch
from linoto.service.storage.features import StoredArms, known_arms

if TYPE_CHECKING:
    from linoto.service.loops.keys import LoopKey
    from linoto.service.loops.references import ReferenceSince
    from linoto.service.loops.state import LoopState

MOST_NUMBERS = 4_000_000  # of all features together
MOST_ADDED = 20_000_000  # numbers of arms without features that come at once, with their zeros: 160 MB
DRAW_WORK = 50  # multiplications that take as long as one number drawn, of an arm without features


@dataclass(frozen=True, kw_only=True)
class FixedArms(LoopArms):
    """Arms with features of their own, or with none: then every arm is its own."""

    logged: Ints = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)  # (k,) rows of those
    # that are present
    redraws: int = 1  # of each decision, for its propensity
    stored: StoredArms | None = field(default=None, compare=False, repr=False)  # where they are by file

    # -- starting

    def start(self, spec: LoopSpec) -> LoopAgent:
        today = spec.version > 7
        with (
            recognising(spec.version > 2),
            slicing(spec.version > 6),
            whitening(today),
            at_any_ridge(today),
            ridge_of_reward(spec.version > 6),
            confidence_from_log(False),
        ):
            agent: Any = from_dict(spec.policy, stored=True).start(
                features(spec),
                log_of(spec.offline, len(self.recipe.items)),
                rng=as_generator(spec.seed or 0),
                names=self.recipe.items,
            )
        if not isinstance(agent, Agent | DoublingAgent) or not hasattr(agent, "gate"):
            raise invalid(f"policy must be one that a loop can run, got {spec.policy}")
        return agent

    def restore(self, snapshot: bytes, spec: LoopSpec) -> LoopAgent | None:
        with ridge_of_reward(spec.version > 6), confidence_from_log(False):
            agent: LoopAgent = resume(snapshot, features(spec))
        names = self.recipe.items
        k, came = len(names), sum(len(change.added) for change in agent.changes)
        known = agent.names or ()
        same = known == names or known[:k] == names
        return agent if same and agent.k == k + came else None

    def keeps_lists(self, agent: LoopAgent) -> bool:
        """A propensity is asked of all arms, and so is a coin; an epoch of Doubling is kept as a whole."""
        rule = agent.rule
        costly = rule.needs_redraws or self.has_costly_propensities(agent)
        states_none = rule.deterministic or (costly and not self.redraws)
        return isinstance(agent, Agent) and states_none and not agent.gate.throws_coin

    def has_costly_propensities(self, agent: LoopAgent) -> bool:
        return agent.rule.looks_at_all and agent.k >= MANY_ARMS

    def check_gate(self, agent: LoopAgent) -> None:
        if agent.gate.throws_coin and isinstance(agent, DoublingAgent):
            raise invalid("policy must not begin anew in epochs where its gate throws a coin, got a Doubling")
        if agent.against not in (LOG, PRACTICE):  # every number of a loop is told beside one of these
            raise invalid(
                "gate must compare with the log or with current practice in a loop, got "
                f"{type(agent.gate).__name__} against {agent.against}"
            )

    def why_refuted(self, agent: LoopAgent) -> str:
        return why_noise_refuted(agent.confidence, agent.offline)

    def why_practice_is_unknown(self, agent: LoopAgent) -> str:
        return "" if agent.offline.total else "where there is no log, whose mixture it would play"

    def watch(
        self,
        agent: LoopAgent,
        certificate: Certificate,
        spec: LoopSpec,
        later: Sequence[ReferenceSince] = (),
        *,
        anew: bool = False,
    ) -> Watch:
        return Watch.over_arms(agent, certificate, spec, later, anew=anew)

    def redraw_work(self, agent: LoopAgent, k: int, d: int) -> int:
        return DRAW_WORK * k if is_compact(agent.actions) else d * (k + d)

    def work(self, agent: LoopAgent, k: int, d: int, redraws: int) -> int:
        once = 3 * DRAW_WORK * k if is_compact(agent.actions) else k * d  # an explorer may draw twice
        return once + self.redraw_work(agent, k, d) * redraws

    def use_key(self, agent: LoopAgent, key: LoopKey) -> None:
        if agent.gate.throws_coin:
            agent.use_coins(key.coins())

    # -- asking

    def question(
        self, context: Context | None, allowed: list[str] | None, practice: Practice | None
    ) -> FixedQuestion:
        if context:
            raise invalid(
                f"context must be empty or left out, because the arms of this loop stay the same: got "
                f"{shortened_list(list(context))}"
            )
        if practice is not None:
            raise invalid("practice must be left out: this loop knows what practice does")
        try:
            return self.usual if allowed is None else self.question_among(self.allowed_indices(allowed))
        except ValueError as error:
            raise invalid(str(error)) from error

    @cached_property
    def usual(self) -> FixedQuestion:
        """What is asked where nothing is said."""
        return self.question_among(None)

    def question_among(self, allowed: list[int] | None) -> FixedQuestion:
        """A round of these arms; None: all."""
        return FixedQuestion(allowed=allowed, logged=self.logged)

    def removed(self, round: float = inf) -> frozenset[int]:
        return self.gone if round == inf else frozenset()  # the agent knows which a round had

    def is_beyond_promise(self, event: DecisionMade, agent: LoopAgent) -> bool:
        return event.allowed is not None and agent.gate.needs_every_arm

    # -- what is known of them

    def known_of(self, arm: int, agent: LoopAgent) -> list[float]:
        return list(agent.actions[arm].tolist())

    def log_mean(self, agent: LoopAgent) -> float | None:
        log = agent.offline
        return None if log.total == 0 else log.reference

    def log_interval(self, agent: LoopAgent, certificate: Certificate) -> tuple[float, float]:
        if certificate.against == LOG or agent.offline.total == 0:
            return certificate.reference_interval
        log = agent.offline.totals
        sums = log.reward_sum, log.count, log.reward_squares
        return mean_interval(*sums, agent.confidence, certificate.reward_range)

    def counts_control(self, agent: LoopAgent) -> bool:
        return agent.counts_control

    def room_to_show(self, agent: LoopAgent, last: float | None) -> float | None:
        """What the gate sees now, unless that tells what is drawn for the next decision: then at the last.

        Each arm has its own room, and a loan is vouched for against practice's arm; a coin is not in it.
        """
        if agent.gate.throws_coin or agent.rule.draws != kernels.NO_DRAWS:
            return super().room_to_show(agent, last)
        return agent.budget

    def totals_since_drift(self) -> dict[int, RewardTotals]:
        return {}

    # -- coming and going

    def after(self, agent: LoopAgent) -> FixedArms:
        gone = frozenset(np.flatnonzero(~agent.present).tolist())
        items = agent.names or ()
        recipe = self.recipe if items == self.recipe.items else replace(self.recipe, items=items)
        logged = agent.offline.pulls * agent.present
        return replace(self, recipe=recipe, changes=agent.changes, gone=gone, logged=logged)

    def add(self, agent: LoopAgent, state: LoopState, added: Added) -> None:
        agent.add_arms(new_features(agent, added), names=[name for name, _ in added])

    def remove(self, agent: LoopAgent, event: ArmsChanged) -> None:
        agent.remove_arms(event.removed, fallback=event.fallback)

    def practice_lost_an_arm(self, agent: LoopAgent) -> bool:
        return bool(agent.changes[-1].left)  # and something is left


def features(spec: LoopSpec) -> Floats:
    """(k, d) the actions; the identity where no arm has features."""
    if spec.features is not None:
        return features_by_file(spec.features)
    k, given = len(spec.arms), [arm.features for arm in spec.arms]
    missing = [vector is None for vector in given]
    if any(missing) and not all(missing):
        raise invalid(
            f"arms must all have features or none, got none for {spec.arms[missing.index(True)].name!r}"
        )
    if all(missing):
        return one_hot(checked_count(k))
    widths = {len(vector or ()) for vector in given}
    if len(widths) > 1:
        raise invalid(f"features must be equally many for every arm, got {sorted(widths)}")
    d = widths.pop()
    if not 1 <= d <= MOST_FEATURES or k * d > MOST_NUMBERS:
        raise invalid(
            f"arms must have 1 to {MOST_FEATURES} features and {MOST_NUMBERS} numbers in all, got {k} x {d}"
        )
    return np.array(given, dtype=np.float64)


def checked_count(k: int) -> int:
    """So many arms without features, each of which is one; more are refused."""
    if k > MOST_ARMS:
        raise invalid(
            f"arms must have features where there are more than {MOST_ARMS:,}, got {k:,} without: "
            "one reward then teaches about many of them"
        )
    return k


def check_added(count: int, k: int) -> None:
    """Refuse arms without features of which fewer must come at once: each has its zeros for a moment."""
    most = max(MOST_ADDED // k, 1)
    if count > most:
        raise invalid(
            f"arms must come at most {most} at once where there are {k:,} without features, got {count}"
        )


def features_by_file(digest: str) -> Floats:
    """(k, d) the actions of a file that is in memory."""
    found = known_arms(digest).features
    if found.shape[1] > MOST_FEATURES:
        raise invalid(f"arms must have 1 to {MOST_FEATURES} features, got {found.shape[1]}")
    return found


def new_features(agent: LoopAgent, added: Added) -> Floats:
    """(j, d + n) the actions of arms that come: without features, each brings one of its own."""
    k, d = agent.actions.shape
    given = [features for _, features in added]
    without = find_one_hot(agent.actions) is not None and not any(given)
    if not without and any(features is None or len(features) != d for features in given):
        raise invalid(f"features must be the {d} numbers that the arms of this loop have, for every new arm")
    width = d + len(given) if without else d
    if without and is_compact(agent.actions):
        check_added(len(given), checked_count(width))
    elif width > MOST_FEATURES or (k + len(given)) * width > MOST_NUMBERS:
        raise invalid(
            f"arms must have at most {MOST_FEATURES} features and {MOST_NUMBERS} numbers in all, got "
            f"{k + len(given)} x {width}"
        )
    return np.eye(len(given), width, d) if without else np.array(given, dtype=np.float64)
