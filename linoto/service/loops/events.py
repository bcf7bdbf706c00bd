"""What happens to a loop, as it is stored; the tags in the stored JSON are those of version 0.1."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from linoto.core.decisions import Decision

Mode = Literal["live", "shadow", "safe-only"]
Group = Literal["explore", "safe", "holdback"]
GROUPS: tuple[Group, ...] = ("explore", "safe", "holdback")
Origin = Literal["reported", "default"]
Context = dict[str, str | int | float | bool | list[float] | None]  # what is known of who is asking, by field
FORGOTTEN: Context = {"forgotten": True}  # in the place of a context that was erased


class Contribution(Struct, frozen=True):
    """What a part of the context adds to what is expected of an arm, compared with practice."""

    part: str
    amount: float


class DecisionMade(Struct, tag_field="kind", tag="decided", frozen=True, omit_defaults=True, gc=False):
    """A decision: enough to play it again, to explain it, to answer the same key and to take its reward."""

    number: int
    arm: int
    mode: Literal["explore", "safe"]
    source: Literal["explorer", "lcb", "mixture", "fixed", "control", "practice"]
    round: int
    group: Group
    counted: bool  # whether the agent counts the play: a control play that its promise does not know is not
    favourite: int  # what the explorer, or the caller, wanted
    fallback: int | None
    budget: float | None
    loop_mode: Mode
    live_arm: int  # what live mode would have played
    live_mode: Literal["explore", "safe"]
    propensity: float | None
    lcb: float | None  # None where it is not finite
    ucb: float | None
    version: int
    expires_at: float
    control_chance: float | None = None  # of being drawn for the control group; None: not compared with it
    key: str | None = None
    proposal: int | None = None
    allowed: list[int] | None = None
    control_share: float | None = None  # how likely a coin made it a control round; None: no coin was thrown
    centre: float | None = None  # about what practice earned then: the reward is weighed with it
    centres: list[float] | None = None  # the same as `centre` for each guardrail
    shut: list[str] = []  # guardrails of which nothing more may be lost: nothing is tried
    lift_centre: float | None = None  # about what decisions earned then: the same for the lift
    # How likely the safe choice would have been another arm; None: certainly, as earlier versions wrote it.
    tried: float | None = 0.0
    context: Context | None = None  # from here on: only in loops with contexts, where `allowed` are the arms
    practice: list[tuple[int, float]] | None = None  # (item, weight), as it was in this round
    action: list[float] | None = None  # (d,) the features of what is played
    practice_action: list[float] | None = None  # (d,) those of practice; None: there is none
    gain: float | None = None  # how much more than practice it is expected to earn
    because: list[Contribution] = []  # the largest parts of that

    def as_decision(self, changes: int = 0, removed: Set[int] = frozenset()) -> Decision:
        """The play, as the agent commits it after so many changes of its arms, and learns from it.

        Where the round brought its arms they are counted among those, without any that was gone.
        """
        known: dict[str, Any] = {
            "arm": self.arm,
            "mode": self.mode,
            "source": "mixture" if self.source == "practice" and self.action is None else self.source,
            "proposal": self.favourite,
            "fallback": self.fallback,
            "budget": self.budget,
            "round": self.round,
            "control_share": self.control_share,
            "centre": self.centre,
            "centres": None if self.centres is None else tuple(self.centres),
            "changes": changes,
            "action": None,
            "practice": None,
        }
        if self.action is None:
            return Decision.of(known)
        del known["changes"]
        known["arm"], known["proposal"] = self.place(self.arm, removed), self.place(self.favourite, removed)
        known["fallback"] = None if self.fallback is None else self.place(self.fallback, removed)
        known["action"] = tuple(self.action)
        known["practice"] = None if self.practice_action is None else tuple(self.practice_action)
        return Decision.of(known)

    def without_person(self, said: Context | None) -> DecisionMade:
        """The decision without who asked, the features made from that, what they explain, and the key.

        `said` is in the place of the context.
        """
        made = {"action": self.action, "practice_action": self.practice_action}
        features: dict[str, Any] = {name: None if each is None else [] for name, each in made.items()}
        return replace(self, context=said, because=[], key=None, **features)

    def place(self, item: int, removed: Set[int]) -> int:
        """Where an arm is among those that the round brought."""
        if self.action is None:
            return item
        before = range(item) if self.allowed is None else self.allowed[: self.allowed.index(item)]
        return sum(other not in removed for other in before) if removed else len(before)


class RewardRecorded(Struct, tag_field="kind", tag="closed", frozen=True, gc=False):
    """The reward that closes a decision: reported, or the default after the window."""

    number: int
    reward: float
    origin: Origin


class MetricsRecorded(Struct, tag_field="kind", tag="measured", frozen=True, omit_defaults=True, gc=False):
    """Values of guardrails by name, as people count them; after the window, those that are lost."""

    number: int
    values: dict[str, float] = {}
    lost: list[str] = []  # all that have not come


class SettingsChanged(Struct, tag_field="kind", tag="switched", frozen=True, omit_defaults=True):
    """Another mode, or another share of the control group; or the answer to alarms, whatever else."""

    mode: Mode
    holdback: float
    by: str
    answers: bool = True  # the alarms so far; each event of earlier versions does


class ArmsChanged(Struct, tag_field="kind", tag="arms", frozen=True, omit_defaults=True):
    """Arms that come, by name and features (None: each is its own), or arms that go."""

    by: str
    added: list[tuple[str, list[float] | None]] = []
    removed: list[int] = []
    fallback: int | None = None  # in place of a fixed one that goes


class LoopArchived(Struct, tag_field="kind", tag="archived", frozen=True):
    """The end: no more decisions, but rewards are still taken."""

    by: str


class LoopKeyed(Struct, tag_field="kind", tag="keyed", frozen=True, omit_defaults=True):
    """From here on every draw is made from the secret of the database; the key itself is nowhere."""

    epoch: str = ""


class WatchBegun(Struct, tag_field="kind", tag="watched", frozen=True):
    """From here on drift is watched for by the right claim; what an earlier version found is forgotten."""


class LoopRestored(Struct, tag_field="kind", tag="restored", frozen=True, omit_defaults=True):
    """A backup took the place of the database: what came after it is lost, and a new epoch begins."""

    epoch: str
    missing: int | None  # events that are lost, whose numbers are not given again; None: nobody knows
    costly: int | None = None  # of these, decisions that may have cost something; None: maybe all
    decided: int | None = None  # of these, all decisions; None: an earlier version did not note them


class DrawnAnew(Struct, tag_field="kind", tag="drawn", frozen=True):
    """The round was drawn again, because a refusal told the caller something about the first draw."""


Event = (
    DecisionMade
    | RewardRecorded
    | MetricsRecorded
    | SettingsChanged
    | ArmsChanged
    | LoopArchived
    | LoopKeyed
    | WatchBegun
    | LoopRestored
    | DrawnAnew
)
EVENTS: Decoder[Event] = Decoder(Event)
DECISIONS: Decoder[DecisionMade] = Decoder(DecisionMade)
