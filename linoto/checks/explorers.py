"""An explorer of your own reads its view, and says truly whether it draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from linoto.checks.problems import expect, expect_same, innermost, problem_for
from linoto.checks.rewards import BEFORE, PENDING
from linoto.checks.symmetries import is_deterministic
from linoto.core.agent import Agent
from linoto.core.explorers import View, is_proposer, is_users_own
from linoto.core.protocols import Policy


def explorers_do_not_write_into_their_view(policy: Policy) -> None:
    """An explorer of your own leaves every array of its view as it was."""
    problem = problem_for(policy)
    agent = problem.start_agent(policy)
    problem.play_rounds(agent, range(BEFORE))
    driver = cast("Agent", innermost(agent)).driver
    method = "propose" if is_proposer(driver.explorer) else "score"
    driver.explorer = SimpleNamespace(**{method: partial(call_and_compare, getattr(driver.explorer, method))})
    problem.play_rounds(agent, range(BEFORE, BEFORE + PENDING))


def deterministic_explorers_draw_nothing(policy: Policy) -> None:
    """An explorer of your own that says `deterministic = True` plays the same for every seed."""
    says_so = getattr(own_explorer(policy), "deterministic", False) is True
    expect(not says_so or is_deterministic(policy), "other seeds play other arms")


def own_explorer(policy: Policy) -> Any:
    """The explorer of a policy, if it is one of your own, or None."""
    agent = innermost(problem_for(policy).start_agent(policy))
    return agent.explorer if isinstance(agent, Agent) and is_users_own(agent.explorer) else None


def call_and_compare(method: Callable[[View], Any], view: View) -> Any:
    """What the explorer answers, if it leaves the view as it was."""
    before = bytes_of(view)
    answer = method(view)
    expect_same(bytes_of(view), before, "the arrays of the view before and after")
    return answer


def bytes_of(view: View) -> list[Any]:
    """Everything in a view that can be written into; an arm that a round brought has counts of NaN."""
    arrays = (value for value in vars(view).values() if isinstance(value, np.ndarray))
    return [np.frombuffer(array.tobytes(), np.uint8) for array in arrays]
