"""What the rewards of a log are linear in: features of its arms, or those that a recipe makes of contexts.

Everything that depends on which of the two a log has is a method here, with one answer for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence, check_noise
from linoto.core.default_gate import default_gate_in_rounds
from linoto.core.features.moments import SUMS, Moments
from linoto.core.features.recipe import Recipe
from linoto.core.gates import Gate
from linoto.core.offline import Offline, Totals
from linoto.core.one_hot import is_compact
from linoto.logs.arms import ArmTable

OF_MOMENTS = "moments_"  # before the names of the arrays that are sums of features
Stored = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]  # the header of a file, and its arrays


@dataclass(frozen=True, eq=False)
class ArmFeatures:
    """Rows have no context: the features are those of the arms."""

    arms: ArmTable
    offline: Offline

    judged_by_rows: ClassVar[bool] = False  # whether single rows say more of the model than sums
    takes_practice: ClassVar[bool] = False  # whether somebody must say what is done today
    loop: ClassVar[str] = "loop"  # what the service calls one that starts from it

    @property
    def recipe(self) -> Recipe:
        """There is none."""
        raise ValueError("log must have contexts to have a recipe, got one of fixed arms")

    @property
    def labels(self) -> tuple[str, ...]:
        """(d,) the names of the features."""
        return self.arms.labels

    @property
    def moments(self) -> Moments:
        """The whole log by its features."""
        return Moments.of_arms(self.arms.actions, self.offline)

    @property
    def totals(self) -> Totals:
        """The whole log by its rewards alone: no sum of features is made for it."""
        return self.offline.totals

    @property
    def raw_features(self) -> Floats:
        """(k, w) what is known of arms in the units in which it came: nothing has scaled it."""
        return self.arms.actions

    @property
    def design(self) -> tuple[Floats, Offline]:
        """Arms and a log of them with the same X'X and X'y: those that there are."""
        return self.arms.actions, self.offline

    @property
    def to_start(self) -> dict[str, Any]:
        """What it says to `policy.start`."""
        return {"actions": self.arms.actions, "offline": self.offline, "names": self.arms.names}

    @property
    def to_create(self) -> dict[str, Any]:
        """What a loop of the service is made from."""
        actions = dict(zip(self.arms.names, self.arms.actions.tolist(), strict=True))
        return {"arms": actions, "offline": self.offline}

    def default_gate(self, confidence: Confidence) -> Gate | None:
        """The gate that suits this log better than what `Gated` takes by itself; None: there is none."""
        return None

    def check_noise(self, confidence: Confidence) -> None:
        """Refuse noise that the rewards of some arm contradict."""
        check_noise(confidence, self.offline)

    def table(self, names: Sequence[str]) -> ArmTable:
        """The arms with what only their table knows of them."""
        return self.arms

    @property
    def stored(self) -> Stored:
        """What a file holds of it, beside the counts of its arms: of arms without features nothing."""
        actions = self.arms.actions
        known = self.arms.featureless and is_compact(actions)
        return {}, {} if known else {"actions": actions}

    def with_items(self, names: Sequence[str], values: Sequence[Sequence[float]] | None) -> ContextFeatures:
        """The same with items that came later."""
        raise ValueError("items must be added to a log with contexts, got one of fixed arms")


@dataclass(frozen=True, eq=False)
class ContextFeatures:
    """Rows have a context: a recipe makes features of it, of which sums are kept."""

    recipe: Recipe
    moments: Moments  # the whole log by its features

    judged_by_rows: ClassVar[bool] = True
    takes_practice: ClassVar[bool] = True
    loop: ClassVar[str] = "loop with contexts"

    @property
    def labels(self) -> tuple[str, ...]:
        """(d,) the names of the features."""
        return self.recipe.names

    @property
    def totals(self) -> Moments:
        """The whole log by its rewards alone."""
        return self.moments

    @property
    def raw_features(self) -> Floats:
        """(k, w) what is known of arms in the units in which it came; a context is scaled by its recipe."""
        return self.recipe.raw_features

    @property
    def design(self) -> tuple[Floats, Offline]:
        """Arms and a log of them with the same X'X and X'y: one arm for each direction."""
        actions, outcomes = self.moments.as_rows()
        return actions, Offline(pulls=np.ones(len(outcomes), dtype=np.int64), reward_sums=outcomes)

    @property
    def to_start(self) -> dict[str, Any]:
        """What it says to `policy.start`."""
        return {"actions": None, "offline": self.moments, "features": self.recipe}

    @property
    def to_create(self) -> dict[str, Any]:
        """What a loop of the service is made from."""
        return {"recipe": self.recipe, "moments": self.moments}

    def default_gate(self, confidence: Confidence) -> Gate:
        """The usual one for what this log earned."""
        return default_gate_in_rounds(self.moments, confidence)

    def check_noise(self, confidence: Confidence) -> None:
        """The means of arms are no model here, so nothing is contradicted by them."""

    def table(self, names: Sequence[str]) -> ArmTable:
        """The arms with what only their table knows of them: their names, as the recipe knows the rest."""
        return ArmTable.one_hot(names, self.recipe.item)

    @property
    def stored(self) -> Stored:
        """What a file holds of it; arms are known by their names, and by what the recipe knows of them."""
        sums = {name: getattr(self.moments, name) for name in SUMS}
        arrays = {f"{OF_MOMENTS}{name}": np.asarray(sum) for name, sum in sums.items() if sum is not None}
        return {"recipe": self.recipe.to_dict()}, arrays

    def with_items(self, names: Sequence[str], values: Sequence[Sequence[float]] | None) -> ContextFeatures:
        """The same with items that came later."""
        larger = self.recipe.with_items(names, values)
        return ContextFeatures(larger, self.moments.with_features(self.recipe.places_in(larger), larger.d))


LogFeatures = ArmFeatures | ContextFeatures


class LoggedArms(NamedTuple):
    """What a log of fixed arms knows of them, early and late."""

    arms: ArmTable
    early: Offline
    late: Offline

    @property
    def features(self) -> ArmFeatures:
        """Those of the whole log."""
        return ArmFeatures(self.arms, self.early + self.late)

    @property
    def halves(self) -> tuple[Moments, Moments]:
        """Early and late by its features."""
        actions = self.arms.actions
        return Moments.of_arms(actions, self.early), Moments.of_arms(actions, self.late)


class LoggedContexts(NamedTuple):
    """What a log with contexts has beside its arms: the recipe of its features, and their sums by half."""

    recipe: Recipe
    early: Moments
    late: Moments

    @property
    def features(self) -> ContextFeatures:
        """Those of the whole log."""
        return ContextFeatures(self.recipe, self.early + self.late)

    @property
    def halves(self) -> tuple[Moments, Moments]:
        """Early and late by its features."""
        return self.early, self.late
