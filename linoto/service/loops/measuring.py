"""Values of guardrails as they come: each once, in any order, late, or never.

What never comes stays at its worst in the books of its own metric, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from linoto.core.agent import Agent
from linoto.core.decisions import Decision
from linoto.service.loops.alarms import raise_alarm
from linoto.service.loops.books import Entry
from linoto.service.loops.events import DecisionMade, MetricsRecorded
from linoto.service.loops.loop_data import LoopData, Unmeasured
from linoto.service.loops.state import MetricBooks, RewardTotals


def open_metrics(loop: LoopData, event: DecisionMade) -> None:
    """A decision is made: its values are to come."""
    for name, metric in loop.metrics.items():
        ledger = metric.ledger(loop.state.metrics[name])
        ledger.books.open(Entry(event.number, False), ledger.enter(metric.play(event), None))
    if loop.metrics:
        loop.unmeasured[event.number] = Unmeasured(event, tuple(loop.metrics))


def close_metrics(loop: LoopData, event: MetricsRecorded, play: Decision) -> None:
    """Values of a decision, or that some of them are lost; `play` is the decision as the agent knows it."""
    waiting, agent = loop.unmeasured[event.number], loop.agent
    assert isinstance(agent, Agent)  # a loop refuses guardrails elsewhere
    awaited = agent.awaits_metrics(play)  # of one that is too old the gate does not know any more
    known = {name: value for name, value in event.values.items() if name in awaited}
    if known:
        agent.observe(play, metrics=known)
    if event.lost:
        agent.lose_metrics(play)
    for name in loop.metrics:
        if name in event.values or name in event.lost:
            close_one(loop, name, waiting.decision, event.values.get(name))
    missing = tuple(name for name in waiting.missing if name not in event.values and name not in event.lost)
    if missing:
        loop.unmeasured[event.number] = Unmeasured(waiting.decision, missing)
    else:
        del loop.unmeasured[event.number]


def close_one(loop: LoopData, name: str, decision: DecisionMade, value: float | None) -> None:
    """The value of one metric, None if it is lost, and what it says about practice."""
    state, metric, kept = loop.state, loop.metrics[name], loop.state.metrics[name]
    ledger = metric.ledger(kept)
    coin: Sequence[float] = ()
    if value is None:
        kept.lost += 1
        if loop.spec.version > 7:  # before, nobody counted of which arm a value was lost
            totals_of(kept, decision).add(metric.default, default=True)
    else:
        kept.told += 1
        kept.total += value
        totals_of(kept, decision).add(value, default=False)
        coin = ledger.enter(metric.play(decision), metric.guardrail.turned(value))
    moved = ledger.books.close(Entry(decision.number, False), None, coin)
    due = kept.alarm.update(ledger.evidence(state.decided, moved), loop.watch.threshold)
    raise_alarm(loop, "guardrail", kept.alarm, due, metric.alarm_text, metric=name)


def totals_of(kept: MetricBooks, decision: DecisionMade) -> RewardTotals:
    """The values that plays of this arm had."""
    return kept.arms.setdefault(decision.arm, RewardTotals())
