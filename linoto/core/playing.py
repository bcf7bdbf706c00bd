"""Rounds in a known world: what is in it, and what an agent that is asked in each round plays there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.decisions import source_code
from linoto.core.guardrail import Guardrail
from linoto.core.protocols import AnyAgent, RoundAgent
from linoto.core.validation import as_arm, as_counts, as_floats, exact


class Rounds(NamedTuple):
    """What was played in some rounds, (n,) each."""

    arms: Ints
    sources: Ints  # where each arm came from, as an index of SOURCES
    fallbacks: Ints  # the safe arm, or practice's; -1 where there was none

    @property
    def explored(self) -> Bools:
        """(n,) where the explorer's arm was played."""
        return np.asarray(self.sources == kernels.FROM_EXPLORER)


class Metric(NamedTuple):
    """What a metric besides the reward is in some rounds."""

    guardrail: Guardrail
    means: Floats  # (segments, k), or of the arms that rounds bring (arms,)
    draws: Floats  # (n,) what decides its values

    def value(self, mean: float, draw: float, bernoulli: bool) -> float:
        """That of one play, as a person reads it."""
        low, high = self.guardrail.reward_range
        if bernoulli:
            return low + (high - low) if draw * (high - low) < mean - low else low
        return mean + draw


def as_metrics(
    given: Mapping[str, tuple[Any, Any]] | None, guardrails: Sequence[Guardrail], means: Floats, n: int
) -> tuple[Metric, ...]:
    """What guardrails are in a world of these means, by their names: means and draws of each."""
    named = dict(given or {})
    names = [rail.name for rail in guardrails]
    if set(named) != set(names):
        told, known = ", ".join(named) or "none", ", ".join(names) or "none"
        raise ValueError(f"metrics must be those of the guardrails, {known}, got {told}")
    found = []
    for rail in guardrails:
        own, draws = (np.asarray(part, dtype=np.float64) for part in named[rail.name])
        if own.shape not in (means.shape, means.shape[1:]) or draws.shape != (n,):
            raise ValueError(
                f"metrics must have means of shape {means.shape} and {n} draws for {rail.name!r}, got "
                f"{own.shape} and {draws.shape}"
            )
        found.append(Metric(rail, np.broadcast_to(own, means.shape), draws))
    return tuple(found)


def check_metrics(metrics: Sequence[Metric], bernoulli: bool) -> None:
    """Refuse values beyond the range that they are said never to leave."""
    for rail, means, draws in metrics:
        low, high = rail.reward_range
        least, most = (0.0, 0.0) if bernoulli or not draws.size else (draws.min(), draws.max())
        if means.size and not (low <= means.min() + least and means.max() + most <= high):
            raise ValueError(f"reward_range of {rail.name!r} must hold every value, got a world beyond it")


class World(NamedTuple):
    """What arms that stay the same earn in some rounds."""

    means: Floats  # (segments, k)
    draws: Floats  # (n,) what decides the rewards
    starts: Ints  # (segments,) the round from which each row of means holds
    first: int  # the number of the first round here
    bernoulli: bool
    reward_range: tuple[float, float]
    spread: Floats  # (k,)
    metrics: tuple[Metric, ...] = ()

    @property
    def extent(self) -> tuple[float, float]:
        """The least and the most that a reward can be."""
        least = self.reward_range[0]
        if self.bernoulli:
            return least, least + float(self.spread.max())
        low, high = self.draws.min(), self.draws.max()
        return float((self.means + self.spread * low).min()), float((self.means + self.spread * high).max())


class GivenRounds(NamedTuple):
    """Some rounds that bring their own arms: the arms of all of them, one round below the other."""

    ends: Ints  # (n,) where the arms of each round end
    actions: Floats  # (arms, d)
    weights: Floats  # (arms,) practice's, with the sum 1 in every round
    means: Floats  # (arms,) the mean reward of each

    def each(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Round by round: the arms (k, d), practice's weights (k,) and the means (k,)."""
        begin = 0
        for end in self.ends.tolist():
            yield self.actions[begin:end], self.weights[begin:end], self.means[begin:end]
            begin = end


def as_world(
    means: Floats,
    draws: Floats,
    k: int,
    *,
    starts: Ints | None = None,
    first: int = 0,
    bernoulli: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    spread: Floats | None = None,
    metrics: Mapping[str, tuple[Any, Any]] | None = None,
    guardrails: Sequence[Guardrail] = (),
) -> World:
    """A world of k arms, checked."""
    draws = as_floats("draws", draws, ndim=1)
    means = as_floats("means", means, ndim=1 if starts is None else 2).reshape(-1, np.shape(means)[-1])
    if means.shape[1] != k:
        raise ValueError(f"means must have one entry for each of the {k} arms, got {means.shape[1]}")
    starts = np.zeros(1, np.int64) if starts is None else as_counts("starts", starts)
    usual = np.full(k, reward_range[1] - reward_range[0] if bernoulli else 1.0)
    steps = usual if spread is None else as_floats("spread", spread, ndim=1)
    if steps.size != k:
        raise ValueError(f"spread must have one entry for each of the {k} arms, got {steps.size}")
    besides = as_metrics(metrics, guardrails, means, draws.size)
    check_metrics(besides, bernoulli)
    return World(means, draws, starts, first, bernoulli, reward_range, steps, besides)


def check_rewards(params: Records, least: float, most: float) -> None:
    """Refuse a world with rewards beyond the range they are said never to leave."""
    p = params[0]
    if p["bounded"] and not (p["low"] <= least and most <= p["low"] + p["unit"]):
        raise ValueError(
            f"reward_range must hold every reward where noise is 'bounded', got a world with rewards in "
            f"[{exact(least)}, {exact(most)}]"
        )


# -- asked one by one


def segments(starts: Ints, first: int, rounds: int) -> Ints:
    """(rounds,) which segment each round from `first` on is in, where `starts` are the first of each."""
    return np.asarray(np.searchsorted(starts, np.arange(first, first + rounds), side="right") - 1)


def play_in_python(agent: AnyAgent, means: Floats, draws: Floats, **world: Any) -> tuple[Ints, Bools]:
    """Select, pay, update: the arms (n,) of these rounds, and which of them were explored."""
    rounds = rounds_in_python(agent, means, draws, **world)
    return rounds.arms, rounds.explored


def rounds_in_python(agent: AnyAgent, means: Floats, draws: Floats, **world: Any) -> Rounds:
    """The same, with where each arm came from; the world is that of `as_world`."""
    return ask_in_world(agent, as_world(means, draws, np.shape(means)[-1], **world))


def ask_in_world(agent: AnyAgent, world: World) -> Rounds:
    """What any agent plays in a world where arms stay the same: it is asked in each round."""
    draws = world.draws
    rounds = Rounds(*np.full((3, draws.size), [[0], [kernels.FROM_EXPLORER], [-1]], dtype=np.int64))
    reasons = hasattr(getattr(agent, "inner", agent), "decide")
    decide = getattr(agent, "decide", None) if reasons else None
    low, rows = world.reward_range[0], segments(world.starts, world.first, draws.size).tolist()
    for t, draw in enumerate(draws.tolist()):
        if decide:
            decision = decide()
            arm, rounds.sources[t] = decision.arm, source_code(decision.source)
            played = decision if world.metrics else arm
            rounds.fallbacks[t] = -1 if decision.fallback is None else decision.fallback
        else:
            arm = played = as_arm(agent.select(), world.means.shape[1])
        rounds.arms[t] = arm
        mean, step = float(world.means[rows[t], arm]), float(world.spread[arm])
        reward = mean + step * draw
        if world.bernoulli:
            reward = low + step if draw * step < mean - low else low
        if not world.metrics:
            agent.update(arm, reward)
            continue
        metrics = {
            metric.guardrail.name: metric.value(
                float(metric.means[rows[t], arm]), float(metric.draws[t]), world.bernoulli
            )
            for metric in world.metrics
        }
        agent.update(played, reward, metrics=metrics)  # type: ignore[call-arg] # who has guardrails takes them
    return rounds


def ask_in_rounds(
    agent: RoundAgent,
    rounds: Iterable[tuple[Floats, Floats, Floats]],
    draws: Floats,
    bernoulli: bool,
    metrics: Sequence[Metric] = (),
) -> Rounds:
    """What any agent plays in rounds that bring arms (k, d), practice's weights (k,) and means (k,).

    It is asked with `decide(actions=..., practice=...)`, and told by `update`. A decision must have an `arm`;
    where it has a `source` and a `fallback` as ours have, they are kept.
    """
    played = Rounds(*np.full((3, draws.size), [[0], [kernels.FROM_EXPLORER], [-1]], dtype=np.int64))
    begin = 0
    for t, ((actions, weights, means), draw) in enumerate(zip(rounds, draws.tolist(), strict=True)):
        decision = agent.decide(actions=actions, practice=weights)
        arm = as_arm(decision.arm, len(actions), "the arm of a decision")
        fallback = getattr(decision, "fallback", None)
        played.arms[t], played.fallbacks[t] = arm, -1 if fallback is None else fallback
        played.sources[t] = source_code(getattr(decision, "source", "explorer"))
        mean = float(means[arm])
        reward = float(draw < mean) if bernoulli else mean + draw
        if not metrics:
            agent.update(decision, reward)
            continue
        values = {
            metric.guardrail.name: metric.value(
                float(metric.means[begin + arm]), float(metric.draws[t]), bernoulli
            )
            for metric in metrics
        }
        agent.update(decision, reward, metrics=values)  # type: ignore[call-arg] # as above
        begin += len(actions)
    return played
