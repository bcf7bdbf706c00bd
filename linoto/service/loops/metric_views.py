"""What can be seen of the guardrails of a loop: each beside what it would be with practice."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from linoto.service.loops.ledgers import Ledger
from linoto.service.loops.lift import LEVEL
from linoto.service.loops.loop import Loop
from linoto.service.loops.restores import rooms_now
from linoto.service.loops.rooms import left_of
from linoto.service.loops.watch import as_factor


class PracticeView(Struct):
    """What a coin has told of current practice, in the explored decisions whose reward is known."""

    explored: int  # how many these are
    missing: int  # other explored decisions: their reward is to come, or lost, or came before its turn
    control: int  # rewards of control rounds
    earned: float  # what the explored decisions earned
    estimate: float  # what practice would have earned in them
    lower: float  # and where that lies, at any time
    upper: float
    level: float
    counts_rewards: bool  # the promise counts rewards as they come, as these numbers do; else their means


class LiftView(Struct):
    """How much more per decision the policy earns than the control group, weighted by the chance of it.

    Only live decisions count, and only those that could have been drawn for the control group. Where the gate
    throws a coin: how much more an explored decision earned than practice would have in its place.
    """

    policy: int  # rewards of the policy
    control: int  # rewards of the control group
    mean: float | None
    lower: float | None  # of an interval for it; None where there are too few rewards to say
    upper: float | None
    level: float


class MetricView(Struct):
    """A guardrail so far: `practice` and `lift` as people count it, what is gained so that more is better."""

    name: str
    lower_is_better: bool
    told: int  # values
    lost: int  # those that never came
    open: int  # those that are to come
    mean: float | None  # of the values that were told
    practice: PracticeView
    lift: LiftView
    gained: float  # of explored decisions: how much better they were than with practice, in all
    gained_lower: float  # and where that lies, at any time
    gained_upper: float
    promised_loss: float | None  # the most that the promise allows to lose of it
    left_to_lose: float | None
    shut: bool  # whether that is less than one more round can cost, so that nothing is tried
    evidence_for_practice: float
    practice_alarm_at: float


def metric_views(loop: Loop) -> list[MetricView]:
    """Every guardrail, in the order of the policy."""
    rooms, state, found = rooms_now(loop), loop.state, list[MetricView]()
    for name, metric in loop.metrics.items():
        kept = state.metrics[name]
        inside = practice_told(loop, metric.ledger(kept))
        left = left_of(metric.terms, state.decided, rooms[name])
        practice = inside if metric.guardrail.turn > 0 else turned(inside)
        found.append(
            MetricView(
                name=name,
                lower_is_better=metric.guardrail.lower_is_better,
                told=kept.told,
                lost=kept.lost,
                open=state.decided - kept.told - kept.lost,
                mean=kept.total / kept.told if kept.told else None,
                practice=practice,
                lift=lift_over(practice),
                gained=inside.earned - inside.estimate,
                gained_lower=inside.earned - inside.upper,
                gained_upper=inside.earned - inside.lower,
                promised_loss=left.promised,
                left_to_lose=left.now,
                shut=bool(rooms[name] < 0),
                evidence_for_practice=as_factor(kept.alarm.evidence),
                practice_alarm_at=as_factor(kept.alarm.threshold(loop.watch.threshold)),
            )
        )
    return found


def practice_told(loop: Loop, ledger: Ledger) -> PracticeView:
    """What the coin has told of one number so far, the reward or a metric."""
    terms, books = ledger.terms, ledger.told
    known = books.explored - books.missing
    lower, upper = terms.bounds(books)
    return PracticeView(
        explored=known,
        missing=ledger.practice.explored - known,
        control=books.control,
        earned=books.earned,
        estimate=terms.estimate(books),
        lower=lower,
        upper=upper,
        level=LEVEL,
        counts_rewards=getattr(loop.agent.gate, "promise", "realised") == "realised",
    )


def turned(view: PracticeView) -> PracticeView:
    """The same where people count what there should be less of."""
    ends = {"lower": 0.0 - view.upper, "upper": 0.0 - view.lower}  # never "-0"
    return replace(view, earned=0.0 - view.earned, estimate=0.0 - view.estimate, **ends)


def lift_over(seen: PracticeView) -> LiftView:
    """How much more an explored decision had than it would have had with practice."""
    n, ends = seen.explored, (seen.estimate, seen.upper, seen.lower)
    mean, lower, upper = ((seen.earned - end) / n if n else None for end in ends)
    return LiftView(n, seen.control, mean, lower, upper, LEVEL)
