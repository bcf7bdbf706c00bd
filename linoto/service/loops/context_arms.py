"""Arms that every round makes from its context, by the recipe of the loop; and how they are explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.agent import Agent
from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, level_of
from linoto.core.certificates import Certificate, why_refuted
from linoto.core.default_gate import usual_share
from linoto.core.false_bounds import at_any_ridge
from linoto.core.features.columns import MISSING, Column
from linoto.core.features.moments import Moments, counting_rounding
from linoto.core.item_changes import removed_by
from linoto.core.one_hot import recognising
from linoto.core.protocols import starts_without_arms
from linoto.core.rails import ridge_of_reward
from linoto.core.snapshots import from_dict, restore
from linoto.core.usual_confidence import confidence_from_log
from linoto.core.validation import as_generator
from linoto.service.errors import invalid
from linoto.service.loops.arms import Added, LoopArms
from linoto.service.loops.events import ArmsChanged, Context, Contribution
from linoto.service.loops.practice_weights import GIVEN, Practice, Weights, read_practice
from linoto.service.loops.questions import ContextQuestion
from linoto.service.loops.recipe_spec import check_size, read_moments
from linoto.service.loops.spec import MOST_FEATURES, LoopAgent, LoopSpec
from linoto.service.loops.state import RewardTotals
from linoto.service.loops.watch import Watch

if TYPE_CHECKING:
    from linoto.service.loops.keys import LoopKey
    from linoto.service.loops.references import ReferenceSince
    from linoto.service.loops.state import LoopState

MOST_PARTS = 3  # that an explanation names
ITSELF = "the arm itself"  # the part of an explanation that no field of the context has to do with
LEAST_WIDTH = 10  # features that an arm counts as, so that many arms with few features stay small too


@dataclass(frozen=True, kw_only=True)
class ContextArms(LoopArms):
    """The items of a recipe: each round has those that are allowed, with features made from its context."""

    # -- starting

    def start(self, spec: LoopSpec) -> LoopAgent:
        policy = from_dict(spec.policy, stored=True)
        if not starts_without_arms(policy):
            raise invalid(f"policy must be one that knows contexts, got a {spec.policy.get('type')}")
        rng = as_generator(spec.seed or 0)
        with (
            recognising(spec.version > 5),
            usual_share(spec.version > 6),
            at_any_ridge(spec.version > 7),
            counting_rounding(spec.version > 8),
            ridge_of_reward(spec.version > 6),
            confidence_from_log(False),
        ):
            agent: Agent = policy.start(offline=read_moments(spec.moments), features=self.recipe, rng=rng)
        return agent

    def restore(self, snapshot: bytes, spec: LoopSpec) -> LoopAgent:
        judged = counting_rounding(spec.version > 8)
        with ridge_of_reward(spec.version > 6), judged, confidence_from_log(False):
            agent: LoopAgent = restore(snapshot, features=self.recipe)
        return agent

    def check_gate(self, agent: LoopAgent) -> None:
        if agent.needs_practice and self.practice is None:
            raise invalid(
                f"practice must be given for a {type(agent.gate).__name__} gate, got none: an item, weights "
                f"of items, or {GIVEN!r} to send it with each decision"
            )

    def why_refuted(self, agent: LoopAgent) -> str:
        return why_refuted(agent.gate, agent.confidence, agent.moments)

    def why_practice_is_unknown(self, agent: LoopAgent) -> str:
        return "" if self.practice is not None else "where practice is not known, which it would play"

    def watch(
        self,
        agent: LoopAgent,
        certificate: Certificate,
        spec: LoopSpec,
        later: Sequence[ReferenceSince] = (),
        *,
        anew: bool = False,
    ) -> Watch:
        assert isinstance(agent, Agent)  # `start` refuses any other
        return Watch.over_rounds(agent, certificate, spec)

    def redraw_work(self, agent: LoopAgent, k: int, d: int) -> int:
        return k * d**2

    def work(self, agent: LoopAgent, k: int, d: int, redraws: int) -> int:
        return k * d * max(d * (1 + redraws), LEAST_WIDTH)

    def use_key(self, agent: LoopAgent, key: LoopKey) -> None:
        agent.use_coins(key.coins())

    # -- asking

    @property
    def context_fields(self) -> list[str]:
        return [*dict.fromkeys(field for column in self.recipe.context for field in column.reads)]

    def question(
        self, context: Context | None, allowed: list[str] | None, practice: Practice | None
    ) -> ContextQuestion:
        try:
            places = self.allowed_indices(allowed)
            items = None if places is None else self.names_of(places)
            actions = self.recipe.transform(context or {}, items)
        except ValueError as error:
            raise invalid(str(error)) from error
        return ContextQuestion(
            allowed=places,
            context=dict(context or {}),
            practice=self.weights_of(practice, places),
            arms=range(len(self.recipe.items)) if places is None else places,
            actions=actions,
            because=self.because,
        )

    def weights_of(self, given: Practice | None, allowed: list[int] | None) -> Weights | None:
        """What practice does in this round: as it was sent, or as the loop knows it."""
        if self.practice != GIVEN:
            if given is not None:
                raise invalid("practice must be left out: this loop knows what practice does")
            if self.practice is None or allowed is None:
                return self.usual_practice
            return read_practice(self.recipe, self.practice, allowed)
        if given is None:
            raise invalid(
                "practice must be sent with each decision of this loop, an item or weights, got none"
            )
        return read_practice(self.recipe, given, allowed)

    def removed(self, round: float = inf) -> frozenset[int]:
        return self.gone if round == inf else self.removed_by(round)

    def removed_by(self, round: float) -> frozenset[int]:
        """The items that were gone by a round."""
        return frozenset(self.recipe.item_places[name] for name in removed_by(self.changes, round))

    # -- what is known of them

    def known_of(self, arm: int, agent: LoopAgent) -> list[float]:
        return [number for column in self.recipe.item_columns for number in column.values[arm]]

    def first_centre(self, agent: LoopAgent, reference: float | None) -> float | None:
        moments = agent.moments
        return moments.reward_sum / moments.count if moments.count else None

    def totals(self) -> list[RewardTotals]:
        return [RewardTotals() for _ in self.recipe.items]

    # -- coming and going

    def after(self, agent: LoopAgent) -> ContextArms:
        recipe: Any = agent.features  # that of the loop, with the items of now
        found = replace(self, recipe=recipe, changes=agent.changes)
        return replace(found, gone=found.removed_by(inf))

    @cached_property
    def usual_practice(self) -> Weights | None:
        """What practice does among all items, unless it is sent with each decision or nobody knows."""
        if self.practice is None or self.practice == GIVEN:
            return None
        return read_practice(self.recipe, self.practice, None)

    @property
    def practice_left(self) -> float | None:
        known = self.usual_practice
        return None if known is None else sum(weight for item, weight in known if item not in self.gone)

    def check_growth(self, agent: LoopAgent, added: Added, redraws: int) -> None:
        try:
            larger = self.recipe.with_items(*split(added))
        except ValueError as error:
            raise invalid(str(error)) from error
        check_size(larger, MOST_FEATURES)
        self.check_redraws(redraws, agent, len(larger.items), larger.d)

    def add(self, agent: LoopAgent, state: LoopState, added: Added) -> None:
        names, values = split(added)
        agent.add_arms(names, values=values)
        state.items.extend(RewardTotals() for _ in names)
        if agent.changes[-1].places:
            state.spread(agent.changes[-1].places, agent.d)

    def remove(self, agent: LoopAgent, event: ArmsChanged) -> None:
        if event.fallback is not None:
            raise ValueError("fallback must be None in a loop with contexts: practice is what is safe")
        known, gone = self.usual_practice, self.gone.union(event.removed)
        if known is not None and not any(item not in gone for item, _ in known):
            raise ValueError(
                "arms must leave an item that practice plays, got all of them: there would be no practice to "
                "compare with; make a new loop, with the practice of then"
            )
        agent.remove_arms(self.names_of(event.removed))

    # -- explaining

    @cached_property
    def parts(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The parts of a context that features have to do with, and (d,) which of them each feature has."""
        columns = {column.name: column for column in self.recipe.context}
        found: dict[tuple[str, ...], int] = {}
        places: list[int] = []
        for term in self.recipe.terms:
            labels = [
                [
                    (columns[name].part(label),) if name in columns else ()
                    for label in self.recipe.labels[name]
                ]
                for name in term
            ]
            for combination in product(*labels):
                part = sum(combination, ())
                places.append(found.setdefault(part, len(found)))
        return list(found), np.array(places, dtype=np.int64)

    def because(self, theta: Floats, difference: Floats, context: Context) -> list[Contribution]:
        """The parts of the context that make most of the difference between two actions, largest first."""
        parts, places = self.parts
        amounts = np.bincount(places, theta * difference, minlength=len(parts))
        order = np.argsort(-np.abs(amounts), kind="stable")[:MOST_PARTS]
        return [
            Contribution(self.words(parts[place], context), float(amounts[place]))
            for place in order.tolist()
            if amounts[place] != 0
        ]

    def words(self, part: tuple[str, ...], context: Context) -> str:
        """A part as people read it: numbers with their value."""
        columns = {column.part(label): column for column in self.recipe.context for label in column.labels}
        shown = (columns[label].shown(label, columns[label].taken(context)) for label in part)
        return " × ".join(shown) or ITSELF

    def remarks(self, context: Context, agent: LoopAgent) -> list[str]:
        unseen, beyond = self.unseen(context), self.beyond(context, agent.moments)
        said = [f"Nothing is known of {' and '.join(unseen)}: the log has no such level."] if unseen else []
        they = f"{' and '.join(beyond)} {'are' if len(beyond) > 1 else 'is'}"
        far = f"{they} farther from the mean than any row of the log: are the units right?"
        return [*said, far] if beyond else said

    def unseen(self, context: Context) -> list[str]:
        """The values of a context that the recipe has no level for: a new word, or one that is misspelt."""
        given = ((column, column.taken(context)) for column in self.recipe.context)
        return [f"{column.name}={word_of(value)}" for column, value in given if column.is_new(value)]

    def is_longer(self, column: Column, value: Any, moments: Moments) -> bool:
        """Whether features of a value are longer than those of any row can be."""
        if column.leveled or column.lacks(value):
            return False
        place = self.recipe.slices[(column.name,)]
        longest = moments.gram.diagonal()[place] * (1 + 1e-9)
        return bool((column.vector(value) ** 2 > longest).any())

    def beyond(self, context: Context, moments: Moments) -> list[str]:
        """The numbers of a context that are farther from the mean than any of the log: in other units, maybe.

        No feature of a row is longer than the root of what all rows sum to in squares.
        """
        if moments.count == 0:
            return []
        found = []
        for column in self.recipe.context:
            value = column.taken(context)
            if column.is_beyond(value) or self.is_longer(column, value, moments):
                found.append(f"{column.name}={value}")
        return found


def word_of(value: Any) -> str:
    """A value of a category as people read it."""
    return MISSING if is_missing(value) else level_of(value)


def split(added: Added) -> tuple[list[str], list[list[float]] | None]:
    """The names of new arms, and what is known of each; None where nothing is said of any."""
    names, values = [name for name, _ in added], [row or [] for _, row in added]
    return names, values if any(values) else None
