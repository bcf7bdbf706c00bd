"""What restores of a backup have lost of a loop, and what that may have cost at the worst.

A decision that is lost may have cost the whole width of the range of mean rewards, unless what it played is
what it is compared with: where a coin decides, only explored decisions can cost anything.
"""

from __future__ import annotations

from linoto.core.hints import counted
from linoto.service.loops.events import DecisionMade, Event, LoopRestored, RewardRecorded
from linoto.service.loops.loop_data import LoopData
from linoto.service.loops.state import Epoch
from linoto.service.storage.expected import Note, tag_of


def restores_of(loop: LoopData) -> list[Epoch]:
    """The epochs that began with a restore."""
    return [epoch for epoch in loop.state.epochs if epoch.restored_at is not None]


def first_since_restore(loop: LoopData) -> int:
    """The first decision after the last restore; 1 if there was none."""
    restores = restores_of(loop) if loop.state.epochs else []
    return restores[-1].first if restores else 1


def is_unheard(loop: LoopData, event: RewardRecorded) -> bool:
    """Whether a reward may have been told and lost with the database, as the decision was open then."""
    return event.origin == "default" and event.number < first_since_restore(loop)


def is_lost(loop: LoopData, event: RewardRecorded) -> bool:
    """Whether nobody knows the reward that closed a decision."""
    unknown = event.origin == "default" and loop.spec.missing_reward == "unknown"
    return unknown or is_unheard(loop, event)


def may_have_lost(loop: LoopData, now: float) -> bool:
    """Whether a decision that nobody knows may be one that a restore has lost, and still await its reward."""
    return any(
        epoch.missing != 0 and now < (epoch.restored_at or 0.0) + loop.spec.window
        for epoch in restores_of(loop)
    )


# -- what it may have cost


def debt(loop: LoopData) -> float:
    """What decisions that restores have lost may have cost, at the worst."""
    return debt_at(loop, loop.state.decided + 1) if loop.state.epochs else 0.0


def debt_at(loop: LoopData, number: int) -> float:
    """The same by the time of a decision; 0 where nothing is promised.

    A play loses at most the width of the range of mean rewards below what it is compared with.
    """
    if not loop.state.epochs or not loop.first_certificate.holds:
        return 0.0
    low, high = loop.certificate.reward_range
    lost = sum(lost_by(epoch) for epoch in restores_of(loop) if epoch.first <= number)
    return lost * (high - low) if lost else 0.0


def lost_by(epoch: Epoch) -> int:
    """The decisions that may have cost something, of those that a restore has lost."""
    return (epoch.missing or 0) if epoch.costly is None else epoch.costly


def costly(loop: LoopData) -> int:
    """How many decisions may have cost something so far, those that restores have lost too."""
    made = loop.state.groups["explore"].plays if loop.agent.gate.throws_coin else loop.state.decided
    return made + sum(map(lost_by, restores_of(loop)))


def decided(loop: LoopData) -> int | None:
    """How many decisions there were so far, those that restores have lost too; None: not known."""
    lost = [0 if epoch.missing == 0 else epoch.decided for epoch in restores_of(loop)]
    known = [number for number in lost if number is not None]
    return None if len(known) < len(lost) else loop.state.decided + sum(known)


def is_spent(loop: LoopData) -> bool:
    """Whether a gate that throws a coin has no room besides the debt; known before it is thrown.

    Or a guardrail has none besides its own.
    """
    if not loop.state.epochs or not loop.agent.gate.throws_coin or debt(loop) == 0:
        return False
    return loop.agent.proven_room < debt(loop) or bool(shut_guardrails(loop))


def rooms_now(loop: LoopData) -> dict[str, float]:
    """What of each guardrail may still be lost in any round to come, less what restores may have lost."""
    if not loop.metrics:
        return {}
    lost = sum(map(lost_by, restores_of(loop))) if loop.state.epochs else 0
    limits = {name: metric.terms.limits for name, metric in loop.metrics.items()}
    return {
        name: room - lost * (limits[name][1] - limits[name][0]) for name, room in loop.agent.rooms.items()
    }


def shut_guardrails(loop: LoopData) -> list[str]:
    """Those of which nothing more may be lost: known before a coin is thrown."""
    return [name for name, room in rooms_now(loop).items() if room < 0] if loop.metrics else []


def lacks_room(loop: LoopData, budget: float | None) -> bool:
    """Whether any other gate, which sees this much room, has none besides the debt."""
    if not loop.state.epochs or loop.agent.gate.throws_coin or budget is None:
        return False
    return debt(loop) > 0 and budget <= debt(loop)


def is_unsure(loop: LoopData, proposal: int | None) -> bool:
    """Whether another draw of the explorer may have found an arm with room besides the debt."""
    if not loop.state.epochs or loop.agent.rule.deterministic or proposal is not None:
        return False
    return not loop.agent.gate.throws_coin and debt(loop) > 0


def budget_of(loop: LoopData, event: DecisionMade) -> float | None:
    """The room that the gate saw, less what restores before the decision had lost."""
    if event.budget is None or not loop.state.epochs:
        return event.budget
    return event.budget - debt_at(loop, event.number)


# -- what is noted beside the database


def note_of(loop: LoopData) -> Note:
    """What is noted of a loop: which one it is, its last event, and what may have cost something."""
    first = loop.state.epochs[0] if loop.state.epochs else None
    born = "" if first is None or first.restored_at is not None else first.name
    tag = tag_of(loop.name, loop.created_at, born)
    return Note(loop.id, tag, loop.state.seq, costly(loop), is_unsure_what_is_lost(loop), decided(loop))


def is_unsure_what_is_lost(loop: LoopData) -> bool:
    """Whether a restore has lost events, and nobody knows how many."""
    return any(epoch.missing is None for epoch in restores_of(loop))


def restored_event(loop: LoopData, epoch: str, noted: Note | None) -> LoopRestored:
    """What a restore does to a loop of the backup, by what was noted of it beside the database that is gone.

    Nobody knows what is lost where another loop had its id, or where the note is that of a restore that did
    not know it, and the backup is older.
    """
    mine = note_of(loop)
    if noted is None or noted.tag != mine.tag or noted.seq < mine.seq or (noted.unsure and not mine.unsure):
        return LoopRestored(epoch=epoch, missing=None)
    missing = noted.seq - mine.seq
    lost = min(max(noted.costly - mine.costly, 0), missing)
    if noted.decided is None or mine.decided is None:
        return LoopRestored(epoch=epoch, missing=missing, costly=lost)
    made = min(max(noted.decided - mine.decided, lost), missing)
    return LoopRestored(epoch=epoch, missing=missing, costly=lost, decided=made)


def skipped_by(event: Event) -> int:
    """How many numbers of events are left out before one: those of events that a restore has lost."""
    return (event.missing or 0) if isinstance(event, LoopRestored) else 0


def restored_text(missing: int | None, costly: int | None, decided: int | None = None) -> str:
    """What a restore means for a loop, in a sentence; without `decided` as earlier versions said it."""
    if missing is None:
        lost = "how many events came after it is not known"
    elif missing == 0:
        lost = "no event came after it"
    elif costly is None:
        lost = f"what came after it is lost: {counted(missing, 'event')}, each counted as a play at its worst"
    elif decided is not None:
        events, decisions = counted(missing, "event"), counted(decided, "decision")
        lost = f"what came after it is lost: {events}, among them {decisions}{at_worst(decided, costly)}"
    else:
        events, decisions = counted(missing, "event"), counted(costly, "decision")
        lost = f"what came after it is lost: {events}, among them {decisions}, counted at the worst"
    return f"the database was restored from a backup: {lost}; set the mode to go on"


def at_worst(decided: int, costly: int) -> str:
    """Which of the decisions that are lost count at their worst: not those that played practice itself."""
    if costly == decided:
        return ", counted at the worst" if costly else ""
    explored = f"{costly:,} of them, which explored, are" if costly > 1 else "1 of them, which explored, is"
    others = "practice itself was played"
    return f"; {explored} counted at the worst, in the others {others}" if costly else f", in which {others}"
