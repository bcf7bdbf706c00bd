"""What goes over the wire and into the event log: every field typed, unknown fields refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from linoto.service.storage.log_files import LONGEST_NAME

ArmName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
ColumnName = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]  # a square must stay finite
Total = Annotated[float, Meta(ge=-1e100, le=1e100)]  # of many numbers, or of their squares
Count = Annotated[int, Meta(ge=0, le=2**53)]
Mode = Literal["live", "shadow", "safe-only"]
Group = Literal["explore", "safe", "holdback"]
GROUPS: tuple[Group, ...] = ("explore", "safe", "holdback")
Source = Literal["explorer", "lcb", "mixture", "fixed"]
Origin = Literal["reported", "default"]
Share = Annotated[float, Meta(ge=0.0, le=0.9)]


class Arm(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One thing that can be played; without features every arm is its own."""

    name: ArmName
    features: list[Number] | None = None


class LogStatistics(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """What the log says of each arm, in the order of the arms."""

    pulls: list[Count]
    reward_sums: list[Total]
    reward_squares: list[Total] | None = None


class LogFile(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A log in the server's log folder: which file, and which columns hold the arm played and its reward."""

    file: Annotated[str, Meta(min_length=1, max_length=1000, description="relative to the log folder")]
    action: ColumnName
    reward: ColumnName


class LoopSpec(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True):
    """Everything that defines a loop. `default_reward` closes decisions whose reward never comes.

    The log is given in one of three forms, `offline`, `rows` or `log`. With `log` the arms may be left out:
    they are then the distinct actions of the file, in alphabetical order.
    """

    arms: Annotated[list[Arm], Meta(min_length=1, max_length=100_000)] = field(default_factory=list)
    policy: dict[str, Any]
    default_reward: Number
    offline: LogStatistics | None = None
    rows: list[tuple[ArmName, Number]] | None = None  # a log as (arm name, reward), instead of `offline`
    log: LogFile | None = None
    description: Annotated[str, Meta(max_length=1000, description="for those who look at it")] = ""
    window: Annotated[float, Meta(ge=0.001, le=3.2e7, description="seconds a reward may take")] = 86400.0
    mode: Mode = "live"
    holdback: Share = 0.0
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    redraws: Annotated[int, Meta(ge=0, le=10_000, description="for Thompson's propensities")] = 100
    on_alarm: Literal["warn", "safe-only"] = "warn"
    alarm_error: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.01


class DecideRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Ask for a decision. The same key always gets the same answer."""

    key: Key | None = None
    proposal: ArmName | None = None  # the arm that the caller's own model would play
    allowed: Annotated[list[ArmName], Meta(min_length=1, max_length=100_000)] | None = None


class Decided(Struct, tag_field="kind", tag="decided", frozen=True, omit_defaults=True):
    """The event of a decision: enough to play it again, to explain it and to answer the same key."""

    number: int
    arm: int
    mode: Literal["explore", "safe"]
    source: Source
    round: int
    group: Group
    counted: bool  # whether the agent counts the play: a control play outside its theory is not
    favourite: int  # what the explorer, or the caller, wanted
    fallback: int | None
    budget: float | None
    loop_mode: Mode
    live_arm: int  # what live mode would have played
    live_mode: Literal["explore", "safe"]
    propensity: float | None
    lcb: float | None  # None where it is no number
    ucb: float | None
    version: int
    expires_at: float
    compared: bool = False  # whether it could have been drawn for the control group
    key: str | None = None
    proposal: int | None = None
    allowed: list[int] | None = None


class Closed(Struct, tag_field="kind", tag="closed", frozen=True):
    """The event of a reward: reported, or the default after the window."""

    number: int
    reward: float
    origin: Origin


class Switched(Struct, tag_field="kind", tag="switched", frozen=True):
    """The event of a change of mode or of the share that is held back."""

    mode: Mode
    holdback: float
    by: str


class Archived(Struct, tag_field="kind", tag="archived", frozen=True):
    """The event of an end: no more decisions, rewards still welcome."""

    by: str


Event = Decided | Closed | Switched | Archived


class Decision(Struct):
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


class RewardReport(Struct, forbid_unknown_fields=True):
    """A reward and the decision it is for."""

    decision_id: Annotated[str, Meta(min_length=1, max_length=100)]
    reward: Number


class RewardValue(Struct, forbid_unknown_fields=True):
    """A reward whose decision is in the address."""

    reward: Number


class RewardBatch(Struct, forbid_unknown_fields=True):
    """Many rewards at once; each gets its own answer."""

    rewards: Annotated[list[RewardReport], Meta(min_length=1, max_length=1000)]


class RewardResult(Struct, omit_defaults=True):
    """What became of a reward: `code` is the status it would have alone."""

    decision_id: str
    status: Literal["applied", "duplicate", "conflict", "expired", "unknown", "invalid"]
    code: int
    reward: float | None = None  # the value that stands
    message: str | None = None


class RewardResults(Struct):
    """In the order of the request."""

    results: list[RewardResult]


class Change(Struct, forbid_unknown_fields=True):
    """A new mode, a new share to hold back, or both."""

    mode: Mode | None = None
    holdback: Share | None = None


class Failure(Struct):
    """Why not, for a program and for a person."""

    code: str
    message: str


class ErrorBody(Struct):
    """The shape of every error."""

    error: Failure
