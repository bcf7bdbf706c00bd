"""Alarms: what one more reward says about the promise and about the log, and what follows from it."""

from __future__ import annotations

from linoto.service.loops.events import DecisionMade, Mode, RewardRecorded
from linoto.service.loops.loop_data import LoopData
from linoto.service.loops.readings import in_order, model_evidence, promise_evidence
from linoto.service.loops.restores import is_lost
from linoto.service.loops.state import Alarm, AlarmState, ModeChange

ALARMS = {
    "promise": "realised rewards are lower than what was promised allows",
    "drift": "safe plays (the log's mixture, or arms proven to be as good) no longer earn what the log did",
    "practice": "current practice would have earned more than the explored rounds did",
    "guardrail": "a metric besides the reward is worse than it would be with current practice",
    "restored": "the database was restored from a backup",
}
MODEL_REFUTED = "plays do not earn what the linear model of the log says they earn in their contexts"


def shows_drift(loop: LoopData, decision: DecisionMade) -> bool:
    """Whether a play must earn what the log earned; in version 1, alarms were raised by another rule."""
    if loop.spec.version == 1 or loop.watch.claim is None or not loop.watch.watches_drift:
        return False
    certified = loop.watch.certified and decision.mode == "safe" and decision.source == "lcb"
    return decision.source == "mixture" or certified


def check_claims(loop: LoopData, closed: DecisionMade, event: RewardRecorded, moved: bool) -> None:
    """What one more reward says about the promise, and about the log; `moved`: more of it is closed."""
    state, watch, m = loop.state, loop.watch, loop.state.mixture
    if loop.ledger is not None:
        evidence = loop.ledger.evidence(state.decided, moved)
        raise_alarm(loop, "practice", state.promise, state.promise.update(evidence, watch.threshold))
    elif (closed.counted or moved) and not state.promise_void:
        evidence = promise_evidence(loop, closed.counted, moved)
        due = state.promise.update(evidence, watch.threshold)
        raise_alarm(loop, "promise", state.promise, due)
        drop_model(loop, due)
    if watch.model is not None:
        due = state.drift.update(model_evidence(loop, moved), watch.threshold)
        raise_alarm(loop, "drift", state.drift, due, MODEL_REFUTED)
        drop_model(loop, due)
    elif watch.claim is not None and shows_drift(loop, closed):
        rewards = watch.rewards_of(event.reward, is_lost(loop, event))
        state.detector.add_reward(closed.number, closed.source == "mixture", rewards)
        if state.detector.is_due:
            evidence = state.detector.evidence(watch.claim, now=not in_order(loop))
            raise_alarm(loop, "drift", state.drift, state.drift.follow(evidence, watch.drift_threshold))
    elif loop.spec.version == 1 and closed.source == "mixture":
        evidence = watch.drift(m.plays, *watch.known(m))
        raise_alarm(loop, "drift", state.drift, state.drift.update(evidence, watch.threshold))


def raise_alarm(
    loop: LoopData, kind: str, alarm: AlarmState, due: bool, message: str = "", *, metric: str = ""
) -> None:
    """An alarm that is due, and what the loop does about it."""
    if not due:
        return
    state = loop.state
    said = message or ALARMS[kind]
    state.alarms.append(Alarm(kind=kind, at=state.at, seq=state.seq, message=said, metric=metric))
    anew = kind == "drift" and state.since_drift is None  # later ones say the same again
    if anew and loop.spec.version > 4:
        state.since_drift = loop.arms.totals_since_drift()
    if loop.spec.on_alarm == "safe-only":
        change_mode(loop, "safe-only", f"{kind} alarm")
    else:
        alarm.rearm()


def drop_model(loop: LoopData, refuted: bool) -> None:
    """A model that rewards have refuted pays for nothing any more, whatever an alarm does besides."""
    if refuted and in_order(loop) and loop.agent.gate.trusts_model:
        loop.agent.drop_model()
        loop.state.model_dropped = True


def change_mode(loop: LoopData, mode: Mode, by: str, *, answered: bool = False) -> None:
    """Another mode; `answered`: a person has set it, and knows of the alarms so far."""
    state = loop.state
    if mode == state.mode and not answered:
        return
    if mode != state.mode:
        state.mode, state.mode_change = mode, ModeChange(at=state.at, by=by)
    if answered:
        state.answered = len(state.alarms)
    elif mode == "safe-only":
        return
    for alarm in (state.promise, *(kept.alarm for kept in state.metrics.values())):
        alarm.acknowledge()
    if loop.spec.version == 1 or loop.watch.model is not None:
        state.drift.acknowledge()
    elif state.drift.raised or state.drift.next_threshold is not None:
        state.drift = AlarmState()
        state.detector.reset()
