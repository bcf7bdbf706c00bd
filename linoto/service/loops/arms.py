"""The arms of a loop: what its rounds choose from, and everything that depends on where they come from.

There are two kinds: arms that stay the same (`fixed_arms`), and arms that each round makes from its context
(`context_arms`). Nobody else asks which of the two a loop has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Self

from linoto.core.features.recipe import Recipe
from linoto.core.names import Numbered
from linoto.core.one_hot import is_compact
from linoto.service.errors import invalid
from linoto.service.loops.events import ArmsChanged, Context, DecisionMade
from linoto.service.loops.practice_weights import Practice
from linoto.service.loops.questions import Question
from linoto.service.loops.spec import LoopAgent, LoopSpec
from linoto.service.loops.state import RewardTotals

if TYPE_CHECKING:
    from linoto.core.certificates import Certificate
    from linoto.service.loops.keys import LoopKey
    from linoto.service.loops.references import ReferenceSince
    from linoto.service.loops.state import LoopState
    from linoto.service.loops.watch import Watch

MOST_DRAWN = 50_000_000  # multiplications of all redraws: some thirty milliseconds
Added = list[tuple[str, list[float] | None]]  # arms that come: their names, and what is known of each


@dataclass(frozen=True, kw_only=True)
class LoopArms(ABC):
    """The arms of a loop, with those that have come and gone since it was made.

    Arms that stay the same are a recipe whose only column is the item. What only one of the two kinds has is
    answered here for the other.
    """

    recipe: Recipe
    practice: Practice | None = None  # "given": it is sent with each decision; None: nobody needs to know
    changes: tuple[Any, ...] = ()  # of the arms so far
    gone: frozenset[int] = frozenset()  # the arms that were removed

    # -- starting

    @abstractmethod
    def start(self, spec: LoopSpec) -> LoopAgent:
        """The agent of a canonical spec, before its first decision."""

    def prepare(self, agent: LoopAgent) -> None:
        """Let an agent work for a loop: an event is what was decided, and nobody hands in another."""
        agent.trust_decisions()
        if not self.keeps_lists(agent):
            agent.look_at_every_arm()

    def keeps_lists(self, agent: LoopAgent) -> bool:
        """Whether its decisions may leave arms out that cannot be the best."""
        return False

    def has_costly_propensities(self, agent: LoopAgent) -> bool:
        """Whether a propensity looks at many arms where a decision would not."""
        return False

    @abstractmethod
    def restore(self, snapshot: bytes, spec: LoopSpec) -> LoopAgent | None:
        """The agent of a snapshot; None where it has other arms."""

    @abstractmethod
    def check_gate(self, agent: LoopAgent) -> None:
        """Refuse a promise that a loop could not tell or keep."""

    @abstractmethod
    def why_refuted(self, agent: LoopAgent) -> str:
        """How the log contradicts the noise that is assumed, or nothing."""

    @abstractmethod
    def why_practice_is_unknown(self, agent: LoopAgent) -> str:
        """Why nobody knows what a control group would play; "" where it is known."""

    def why_no_control(self, agent: LoopAgent) -> str:
        """Why a loop can have no control group of its own; "" where it can."""
        if agent.gate.throws_coin:
            return (
                "in a loop whose gate throws a coin: its control rounds are the control group, by their share"
            )
        return self.why_practice_is_unknown(agent)

    def check_holdback(self, holdback: float, agent: LoopAgent) -> None:
        """Refuse a control group where nobody knows what it would play, or the gate has its own."""
        why = self.why_no_control(agent)
        if holdback > 0 and why:
            raise invalid(f"holdback must be 0 {why}, got {holdback:g}")

    def check_redraws(self, redraws: int, agent: LoopAgent, k: int, d: int) -> None:
        """Refuse draws that would keep every caller waiting at each decision."""
        most = MOST_DRAWN // self.redraw_work(agent, k, d)
        if agent.rule.needs_redraws and redraws > most:
            features = "without" if is_compact(agent.actions) else f"with {d}"
            raise invalid(
                f"redraws must be at most {most} for {k} arms {features} features, got {redraws}: give "
                f"{f'{most}, or 0' if most else '0'} where decisions need no propensity"
            )

    @abstractmethod
    def watch(
        self,
        agent: LoopAgent,
        certificate: Certificate,
        spec: LoopSpec,
        later: Sequence[ReferenceSince] = (),
        *,
        anew: bool = False,
    ) -> Watch:
        """What the loop is watched for; `later` references are since practice lost arms.

        `anew`: what an earlier version watched for wrongly is watched for as today.
        """

    @abstractmethod
    def redraw_work(self, agent: LoopAgent, k: int, d: int) -> int:
        """Multiplications of one redraw, for k arms with d features."""

    @abstractmethod
    def work(self, agent: LoopAgent, k: int, d: int, redraws: int) -> int:
        """Multiplications of one decision, with its redraws."""

    @abstractmethod
    def use_key(self, agent: LoopAgent, key: LoopKey) -> None:
        """Let the agent draw practice and its coin with the key of the loop, where it draws any."""

    # -- asking

    @property
    def context_fields(self) -> list[str] | None:
        """What a decision is asked for with; None: nothing."""
        return None

    @abstractmethod
    def question(
        self, context: Context | None, allowed: list[str] | None, practice: Practice | None
    ) -> Question:
        """What is asked, checked; `allowed` are the arms that may be played, in any order."""

    def allowed_indices(self, allowed: list[str] | None) -> list[int] | None:
        """The arms of these names; None: all of them."""
        return None if allowed is None else sorted(set(self.recipe.item_indices(allowed).tolist()))

    @abstractmethod
    def removed(self, round: float = inf) -> frozenset[int]:
        """The arms that cannot be played now, or could not in an earlier round."""

    def is_beyond_promise(self, event: DecisionMade, agent: LoopAgent) -> bool:
        """Whether a decision was asked for in a way that the promise of the gate does not cover."""
        return False

    def remarks(self, context: Context, agent: LoopAgent) -> list[str]:
        """What the log never had of a context, in sentences."""
        return []

    # -- what is known of them

    @abstractmethod
    def known_of(self, arm: int, agent: LoopAgent) -> list[float]:
        """The numbers that are known of an arm."""

    def log_mean(self, agent: LoopAgent) -> float | None:
        """The mean reward of the log, which all rounds are compared with; None: every round has its own."""
        return None

    def log_interval(self, agent: LoopAgent, certificate: Certificate) -> tuple[float, float]:
        """Where that lies, with the confidence of the promise."""
        return certificate.reference_interval

    def first_centre(self, agent: LoopAgent, reference: float | None) -> float | None:
        """About what a decision earns before any reward has come; None without a log."""
        return reference

    def counts_control(self, agent: LoopAgent) -> bool:
        """Whether the agent counts plays of the control group, like its own safe ones."""
        return True

    def room_to_show(self, agent: LoopAgent, last: float | None) -> float | None:
        """The room that the gate sees now, or that of the last decision where nobody may know it.

        What a loan adds depends on the next question: of the last room it is what its decision has left at
        its worst.
        """
        if not agent.gate.throws_coin:
            return last
        proven, limits = agent.proven_room, agent.confidence.reward_range
        if last is None or limits is None or getattr(agent.gate, "loan", 0.0) == 0.0:
            return proven
        return max(proven, last - (limits[1] - limits[0]))

    def totals(self) -> list[RewardTotals]:
        """A total for each arm, where the agent does not know what each of them earns."""
        return []

    def totals_since_drift(self) -> dict[int, RewardTotals] | None:
        """What the arms have earned since a drift alarm that is raised now; None: it is not counted."""
        return None

    # -- coming and going

    @abstractmethod
    def after(self, agent: LoopAgent) -> Self:
        """The same with the arms that have come and gone since."""

    @property
    def practice_left(self) -> float | None:
        """The share of practice's weight on arms that are present; None where practice is not known."""
        return None

    def check_growth(self, agent: LoopAgent, added: Added, redraws: int) -> None:  # noqa: B027
        """Refuse new arms with which a decision would take too long; `add` refuses what cannot be added."""

    @abstractmethod
    def add(self, agent: LoopAgent, state: LoopState, added: Added) -> None:
        """Let arms come."""

    @abstractmethod
    def remove(self, agent: LoopAgent, event: ArmsChanged) -> None:
        """Let arms go."""

    def practice_lost_an_arm(self, agent: LoopAgent) -> bool:
        """Whether the last change took an arm from practice: rounds are compared with what is left."""
        return False

    @property
    def listed(self) -> Sequence[str]:
        """The names of all arms; of those that are numbered none is in memory."""
        items = self.recipe.items
        return items if isinstance(items, Numbered) else list(items)

    def names_of(self, arms: Sequence[int]) -> list[str]:
        """The names of some arms."""
        return [self.recipe.items[arm] for arm in arms]
