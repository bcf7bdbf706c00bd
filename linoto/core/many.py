"""Many rounds at once: each is decided and counted before the next is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from linoto.core.decisions import Decision, NoSafeArm
from linoto.core.drivers.driver import Driver
from linoto.core.hints import nearest
from linoto.core.rails import Values
from linoto.core.tickets import Ticket

Look = Callable[[Decision], object]
ARGUMENTS = ("allowed", "actions", "practice", "names", "context", "safe")  # of `Agent.decide`
Report = tuple[Decision, float | None, Values, Ticket | None]


def decide_many(
    driver: Driver[Any], questions: Any, same: Mapping[str, Any], look: Look | None
) -> list[Decision]:
    """One decision for each question, as `Agent.decide_many` says."""
    if look is not None and not callable(look):
        raise ValueError(f"look must be a function of a decision, got {look!r}")
    asked, made = as_questions(driver, questions, same), list[Decision]()
    may_end = look is not None or any(driver.may_refuse(question) for question, _ in asked)
    throws = driver.running.coins is not None  # a coin that was thrown is not given back
    before = driver.marked() if may_end and len(asked) > 1 and not throws else None
    try:
        for question, safe in asked:
            with naming("questions", len(made)):
                decision = driver.answer(None, question, safe)
                decision = driver.play_safe(decision) if safe else decision
            try:
                if look is not None:
                    look(decision)
            except BaseException:
                if throws:
                    driver.commit(decision)
                raise
            driver.commit(decision)
            made.append(decision)
    except BaseException:
        if made and before is not None:
            driver.go_back(before)
        raise
    return made


def as_questions(driver: Driver[Any], questions: Any, same: Mapping[str, Any]) -> list[tuple[Any, bool]]:
    """What is asked in each round, checked, and whether it is to be safe."""
    if isinstance(questions, int | np.integer) and not isinstance(questions, bool) and questions >= 0:
        return repeated(as_question(driver, same), int(questions))
    if isinstance(questions, int | np.integer | float | str | Mapping) or not isinstance(questions, Iterable):
        raise ValueError(
            f"questions must be a whole number >= 0 or a list with the arguments of each, got {questions!r}"
        )
    found = []
    for place, each in enumerate(questions):
        with naming("questions", place):
            if not isinstance(each, Mapping):
                raise ValueError(f"a question must be a mapping of arguments of decide, got {each!r}")
            found.append(as_question(driver, {**same, **each}))
    return found


def repeated(question: tuple[Any, bool], times: int) -> list[tuple[Any, bool]]:
    """The same question so many times."""
    try:
        return [question] * times
    except (OverflowError, MemoryError):
        raise ValueError("questions must be as many as memory can hold, got more") from None


def as_question(driver: Driver[Any], given: Mapping[str, Any]) -> tuple[Any, bool]:
    """One of them."""
    for name in given:
        if name not in ARGUMENTS:
            raise ValueError(
                f"a question must have the arguments of decide, got {name!r}{nearest(str(name), ARGUMENTS)}"
            )
    return driver.question(**{name: given[name] for name in given if name != "safe"}), bool(given.get("safe"))


def observe_many(
    driver: Driver[Any],
    decisions: Sequence[Decision],
    rewards: Sequence[float | None],
    metrics: Sequence[Mapping[str, float] | None] | None,
) -> None:
    """The rewards of as many decisions, as `Agent.observe_many` says."""
    lists: dict[str, Any] = {"decisions": decisions, "rewards": rewards}
    for name, given in (lists if metrics is None else lists | {"metrics": metrics}).items():
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise ValueError(f"{name} must be a list, got {given!r}")
        if len(given) != len(decisions):
            raise ValueError(f"{name} must be as many as decisions, {len(decisions)}, got {len(given)}")
    told = metrics if metrics is not None else [None] * len(decisions)
    for decision, value, values, ticket in checked(driver, decisions, rewards, told):
        if value is not None:
            driver.observe(decision, value)
        driver.observe_metrics(decision, values, ticket)


def checked(
    driver: Driver[Any], decisions: Sequence[Any], rewards: Sequence[Any], metrics: Sequence[Any]
) -> list[Report]:
    """All that is told, before any of it is learnt from."""
    found, rounds = list[Report](), set[int]()
    for place, (decision, reward, told) in enumerate(zip(decisions, rewards, metrics, strict=True)):
        with naming("decisions", place):
            if not isinstance(decision, Decision):
                raise ValueError(f"decision must be what decide_many returned, got {decision!r}")
            if decision.round in rounds:
                raise ValueError(f"decision must be there once, got that of round {decision.round} twice")
            rounds.add(decision.round)
            values = driver.values_of(told)
            value = None if reward is None and values else driver.running.check_reward(reward)
            found.append((decision, value, values, driver.check_metrics(decision, values)))
    driver.check_owed([decision for decision, value, *_ in found if value is not None])
    return found


@contextmanager
def naming(list_name: str, place: int) -> Iterator[None]:
    """Let a refusal name what it is about."""
    try:
        yield
    except ValueError as error:
        kind = NoSafeArm if isinstance(error, NoSafeArm) else ValueError
        raise kind(f"{list_name}[{place}]: {error}") from error
