"""Questions to a loop: checked, made into the arms of a round, and explained."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf
from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, level_of
from linoto.core.features.columns import MISSING
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.hints import shortened_list
from linoto.core.item_changes import recipe_of, removed_by
from linoto.service.errors import invalid
from linoto.service.loops.context_practice import GIVEN, Practice, Weights, read_practice, spread
from linoto.service.loops.context_spec import read_recipe
from linoto.service.loops.events import Context, Contribution, DecisionMade
from linoto.service.loops.spec import LoopAgent, LoopSpec

MOST_PARTS = 3  # that an explanation names
ITSELF = "the arm itself"  # the part of an explanation that no field of the context has to do with


class Question(NamedTuple):
    """What a loop is asked: everything that its answer depends on."""

    context: Context | None
    among: list[int] | None  # the arms that were asked for; None: all
    practice: Weights | None
    items: Sequence[int]  # the arms of the round
    actions: Floats | None  # (k, d) their features; None: the agent knows them, because they stay the same

    def same_as(self, event: DecisionMade) -> bool:
        """Whether this was asked for when a decision was made."""
        return (self.context, self.among, self.practice) == (event.context, event.allowed, event.practice)

    def without(self, removed: Set[int], names: Sequence[str]) -> Question:
        """The same without arms that were removed; practice is what is left of it."""
        if not removed or (self.actions is None and self.among is None):  # the agent knows which are present
            return self
        places = [place for place, item in enumerate(self.items) if item not in removed]
        kept = [(item, weight) for item, weight in self.practice or () if item not in removed]
        if not places:
            gone = shortened_list([names[item] for item in self.items])
            raise invalid(f"arms must hold one that is present, got only arms that were removed: {gone}")
        if self.practice is not None and not kept:
            gone = shortened_list([names[item] for item, _ in self.practice])
            raise invalid(
                "practice must play an arm that is present, and that the decision may play, got only arms "
                f"that were removed: {gone}"
            )
        total = sum(weight for _, weight in kept)
        return self._replace(
            practice=self.practice and [(item, weight / total) for item, weight in kept],
            items=[self.items[place] for place in places],
            actions=None if self.actions is None else self.actions[places],
        )

    @property
    def weights(self) -> Floats | None:
        """(k,) what practice does, by arm of the round."""
        return None if self.practice is None else spread(self.practice, self.items)

    @property
    def asked(self) -> dict[str, Any]:
        """The same for an agent."""
        if self.actions is None:
            return {"allowed": self.among}
        return {"actions": self.actions, "practice": self.weights}

    def place(self, item: int | None) -> int | None:
        """What the agent calls an arm."""
        return item if item is None or self.actions is None else list(self.items).index(item)

    def item(self, place: int) -> int:
        """The arm that the agent means."""
        return place if self.actions is None else self.items[place]


@dataclass(frozen=True)
class LoopContexts:
    """What a loop is asked with, and how that becomes features.

    Arms that stay the same are a recipe whose only column is the item, or what is known of it.
    """

    recipe: Recipe
    practice: Practice | None = None  # "given": it is sent with each decision; None: nobody needs to know
    stay: bool = False  # whether the arms stay the same: then the agent knows their features
    changes: tuple[Any, ...] = ()  # of the arms so far
    gone: frozenset[int] = frozenset()  # the arms that were removed

    @classmethod
    def of(cls, spec: LoopSpec) -> LoopContexts:
        """Those of a loop before its first event."""
        if spec.recipe is not None:
            return cls(read_recipe(spec.recipe), spec.practice)
        names = tuple(arm.name for arm in spec.arms)
        return cls(Recipe(items=names, item="action", intercept=False), stay=True)

    def after(self, agent: LoopAgent) -> LoopContexts:
        """The same with the arms that have come and gone since."""
        if self.stay:
            gone = frozenset(np.flatnonzero(~agent.present).tolist())
            recipe = replace(self.recipe, items=tuple(agent.names or ()))
            return replace(self, recipe=recipe, changes=agent.changes, gone=gone)
        found = replace(self, recipe=recipe_of(agent.features), changes=agent.changes)
        return replace(found, gone=found.removed_by(inf))

    def removed(self, round: float = inf) -> frozenset[int]:
        """The arms that are gone; where rounds bring their own, those that were in an earlier round."""
        return self.gone if self.stay or round == inf else self.removed_by(round)

    def removed_by(self, round: float) -> frozenset[int]:
        """The items that were gone by a round."""
        return frozenset(self.recipe.item_places[name] for name in removed_by(self.changes, round))

    def known_practice(self) -> Weights | None:
        """What practice does, unless it is sent with each decision or nobody knows."""
        if self.practice is None or self.practice == GIVEN:
            return None
        return read_practice(self.recipe, self.practice, None)

    @property
    def practice_left(self) -> float | None:
        """The share of practice's weight on items that are present; None where practice is not known."""
        known = self.known_practice()
        return None if known is None else sum(weight for item, weight in known if item not in self.gone)

    @property
    def fields(self) -> list[str]:
        """What a context must have."""
        return [column.name for column in self.recipe.context]

    def question(
        self, context: Context | None, arms: list[str] | None, practice: Practice | None
    ) -> Question:
        """What is asked, checked; the order of the arms does not matter."""
        try:
            among = None if arms is None else sorted(set(self.recipe.item_indices(arms).tolist()))
            offered = range(len(self.recipe.items)) if among is None else among
            if self.stay:
                self._refuse_others(context, practice)
                return Question(None, among, None, offered, None)
            items = None if among is None else [self.recipe.items[item] for item in among]
            actions = self.recipe.transform(context or {}, items)
        except ValueError as error:
            raise invalid(str(error)) from error
        return Question(dict(context or {}), among, self.weights_of(practice, among), offered, actions)

    def _refuse_others(self, context: Context | None, practice: Practice | None) -> None:
        if context:
            raise ValueError(
                f"context must be empty or left out, because the arms of this loop stay the same: got "
                f"{shortened_list(list(context))}"
            )
        if practice is not None:
            raise ValueError("practice must be left out: this loop knows what practice does")

    def weights_of(self, given: Practice | None, among: list[int] | None) -> Weights | None:
        """What practice does in this round: as it was sent, or as the loop knows it."""
        if self.practice != GIVEN:
            if given is not None:
                raise invalid("practice must be left out: this loop knows what practice does")
            return None if self.practice is None else read_practice(self.recipe, self.practice, among)
        if given is None:
            raise invalid(
                "practice must be sent with each decision of this loop, an item or weights, got none"
            )
        return read_practice(self.recipe, given, among)

    def check_left(self, removed: Sequence[int]) -> None:
        """Refuse to remove all items that practice plays."""
        known, gone = self.known_practice(), self.gone.union(removed)
        if known is not None and not any(item not in gone for item, _ in known):
            raise ValueError(
                "arms must leave an item that practice plays, got all of them: there would be no practice to "
                "compare with; make a new loop, with the practice of then"
            )

    def known_of(self, item: int, agent: LoopAgent) -> list[float]:
        """The numbers that are known of an arm: its features, or those of the recipe's item columns."""
        if self.stay:
            return list(agent.actions[item].tolist())
        return [number for column in self.recipe.item_columns for number in column.values[item]]

    # -- explaining

    @cached_property
    def parts(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The parts of a context that features have to do with, and (d,) which of them each feature has."""
        fields = {column.name for column in self.recipe.context}
        found: dict[tuple[str, ...], int] = {}
        places: list[int] = []
        for term in self.recipe.terms:
            labels = [
                [(label,) if name in fields else () for label in self.recipe.labels[name]] for name in term
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
        columns = {label: column for column in self.recipe.context for label in column.labels}
        shown = (
            columns[label].shown(label, context[columns[label].name]) if label in columns else label
            for label in part
        )
        return " × ".join(shown) or ITSELF

    def unseen(self, context: Context) -> list[str]:
        """The values of a context that the recipe has no level for: a new word, or one that is misspelt."""
        given = ((column, context.get(column.name)) for column in self.recipe.context)
        return [f"{column.name}={word_of(value)}" for column, value in given if column.is_new(value)]

    def beyond(self, context: Context, moments: Moments) -> list[str]:
        """The numbers of a context that are farther from the mean than any of the log: in other units, maybe.

        No feature of a row is longer than the root of what all rows sum to in squares.
        """
        if moments.count == 0:
            return []
        found = []
        for column in self.recipe.context:
            if not column.leveled:
                place = self.recipe.slices[(column.name,)]
                longest = moments.gram.diagonal()[place] * (1 + 1e-9)
                if (column.vector(context.get(column.name)) ** 2 > longest).any():
                    found.append(f"{column.name}={context[column.name]}")
        return found

    # -- exporting

    def columns(self, context: Context) -> dict[str, str | float | None]:
        """The fields of a context as a log has them: numbers, or words."""
        return {column.name: column.cell(context.get(column.name)) for column in self.recipe.context}


def word_of(value: Any) -> str:
    """A value of a category as people read it."""
    return MISSING if is_missing(value) else level_of(value)
