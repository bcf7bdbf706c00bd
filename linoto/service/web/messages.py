"""What goes over the wire: every field typed, unknown fields refused."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from linoto.service.errors import invalid
from linoto.service.loops.batches import MOST_IN_BATCH
from linoto.service.loops.events import Contribution, DecisionMade, Mode
from linoto.service.loops.explanations import reason
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import NOTHING_TOLD, Loops, RewardResult
from linoto.service.loops.recipe_spec import Number
from linoto.service.loops.restores import budget_of
from linoto.service.loops.shown import bounds_of
from linoto.service.loops.spec import MOST_METRICS, Arm, ArmName, PracticeGiven, Share
from linoto.service.storage.connection import Connection

Key = Annotated[str, Meta(min_length=1, max_length=200)]
ArmNames = Annotated[list[ArmName], Meta(min_length=1, max_length=100_000)]
FieldName = Annotated[str, Meta(min_length=1, max_length=200)]
FieldValue = (
    Annotated[str, Meta(max_length=1000)]
    | Annotated[int, Meta(ge=-(10**15), le=10**15)]
    | Annotated[float, Meta(ge=-1e15, le=1e15)]
    | bool
    | Annotated[list[Annotated[float, Meta(ge=-1e15, le=1e15)]], Meta(max_length=10_000)]
    | None
)

Metrics = Annotated[
    dict[ArmName, Number],
    Meta(max_length=MOST_METRICS, description="values of guardrails by their names, each once"),
]


class DecideRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Ask for a decision. The same key always gets the same answer."""

    key: Key | None = None
    proposal: ArmName | None = None  # the arm that the caller's own model would play
    allowed: Annotated[ArmNames, Meta(description="the name of `arms` in version 0.2")] | None = None
    context: (
        Annotated[
            dict[FieldName, FieldValue],
            Meta(max_length=1000, description="who is asking: the fields of the loop's recipe, no other"),
        ]
        | None
    ) = None
    arms: Annotated[ArmNames, Meta(description="those that may be played; all if left out")] | None = None
    practice: (
        Annotated[
            PracticeGiven, Meta(description="an item or weights of items, in a loop that has practice given")
        ]
        | None
    ) = None


class DecideBatch(Struct, forbid_unknown_fields=True):
    """Many requests at once, answered as if they came one after the other: all of them, or none."""

    decisions: Annotated[list[DecideRequest], Meta(min_length=1, max_length=MOST_IN_BATCH)]


class DecisionResponse(Struct, omit_defaults=True, gc=False):
    """The answer to `decide`."""

    decision_id: str
    arm: str
    mode: Literal["explore", "safe"]
    propensity: float | None
    lcb: float | None
    ucb: float | None
    budget: float | None
    reference: float | None
    model_version: int
    expires_at: float
    loop_mode: Mode
    holdback: bool
    reason: str | None = None  # in a loop with contexts: why this arm
    because: list[Contribution] = []  # what that is due to, the largest part first


class DecisionBatch(Struct):
    """In the order of the request."""

    decisions: list[DecisionResponse]


def decision_response(loop: Loop, event: DecisionMade) -> DecisionResponse:
    """A decision as the caller sees it."""
    lower, upper = bounds_of(loop, event)
    return DecisionResponse(
        decision_id=loop.decision_id(event.number),
        arm=loop.names[event.arm],
        mode=event.mode,
        propensity=event.propensity,
        lcb=lower,
        ucb=upper,
        budget=budget_of(loop, event),
        reference=loop.reference,
        model_version=event.version,
        expires_at=event.expires_at,
        loop_mode=event.loop_mode,
        holdback=event.group == "holdback",
        reason=None if event.context is None else reason(event, loop),
        because=event.because,
    )


class RewardReport(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False):
    """A reward, or values of guardrails, and the decision they are for: by its id or by its key."""

    decision_id: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    key: Key | None = None
    reward: Number | None = None
    metrics: Metrics | None = None

    def check(self, where: str = "") -> None:
        """Refuse one that does not say which decision it is for, or tells nothing."""
        if (self.key is None) == (self.decision_id is None):
            raise invalid(f"{where}a reward must have a decision_id or a key, got both or neither")
        if self.reward is None and not self.metrics:
            raise invalid(f"{where}{NOTHING_TOLD}")

    def record(self, loops: Loops, connection: Connection, name: str) -> RewardResult:
        """Close the decision that is meant."""
        self.check()
        if self.key is not None:
            return loops.reward_by_key(connection, name, self.key, self.reward, self.metrics)
        return loops.reward(connection, name, self.decision_id or "", self.reward, self.metrics)


class RewardValue(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A reward whose decision is in the address, values of its guardrails, or both."""

    reward: Number | None = None
    metrics: Metrics | None = None


class RewardBatch(Struct, forbid_unknown_fields=True):
    """Many rewards at once; each gets its own answer."""

    rewards: Annotated[list[RewardReport], Meta(min_length=1, max_length=1000)]


class RewardResults(Struct):
    """In the order of the request."""

    results: list[RewardResult]


class Change(Struct, forbid_unknown_fields=True):
    """A new mode, a new share of the control group, an answer to alarms, or several of them."""

    mode: Mode | None = None
    holdback: Share | None = None
    answer_alarms: Annotated[
        bool, Meta(description="the alarms so far are known; another mode says so too")
    ] = False


class FeatureFile(Struct):
    """Arms by file that are stored: their hash, which a loop names, how many they are, and their features."""

    sha256: str
    arms: int
    features: int


class Readiness(Struct):
    """A loop that would decide now, and in which mode."""

    loop: str
    mode: Mode


class NewArms(Struct, forbid_unknown_fields=True):
    """Arms that come; with features where the arms of the loop have some."""

    arms: Annotated[list[Arm], Meta(min_length=1, max_length=10_000)]


class Failure(Struct, omit_defaults=True):
    """Why not, for a program and for a person."""

    code: str
    message: str
    request_id: str | None = None  # as in the header X-Request-Id, and in the log of the service


class ErrorBody(Struct):
    """The shape of every error."""

    error: Failure


def error_body(code: str, message: str, request_id: str | None = None) -> bytes:
    """An error as it is sent."""
    return msgspec.json.encode(ErrorBody(Failure(code, message, request_id)))
