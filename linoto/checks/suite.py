"""Which laws there are, which of them apply to a policy, and a function that runs them.

A law takes a policy and raises where the policy breaks it. Laws about what an agent need not have (delayed
rewards, snapshots, bounds, a compiled loop) run only where it has it: an object whose `start` gives something
with `select` and `update` can be checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import wraps

from linoto.checks import (
    decisions,
    edge_cases,
    estimates,
    explorers,
    in_rounds,
    inputs,
    memory,
    records,
    rewards,
    snapshots,
    symmetries,
)
from linoto.checks.in_rounds import InRounds
from linoto.checks.problems import innermost, problem_for, takes_any_arms
from linoto.core.agent import Agent
from linoto.core.explorers import forgetting_of
from linoto.core.protocols import Policy, starts_without_arms

Law = Callable[[Policy], None]


LAWS_PAGE = "docs/laws.md"


class LawError(AssertionError):
    """A policy breaks a law: which one, what the law says, what was found, and where it is explained."""

    def __init__(self, policy: Policy, law: str, meaning: str, found: str) -> None:
        self.law, self.page = law, f"{LAWS_PAGE}#{law}"
        super().__init__(f"{policy!r} breaks {law}: {meaning} Found: {found}. Explained in {self.page}")


def check_policy(policy: Policy, *, skip: Collection[str] = ()) -> list[str]:
    """Run every law that applies, but those to skip, and return their names; LawError names a broken one.

    >>> from linoto import LinOtO
    >>> "compiled_equals_interactive" in check_policy(LinOtO())
    True
    """
    unknown = set(skip) - {law.__name__ for _, laws in LAWS for law in laws}
    if unknown:
        raise ValueError(f"skip must hold names of laws, got {', '.join(sorted(unknown))}")
    ran = []
    for name, law in all_checks(policy):
        if name in skip:
            continue
        try:
            law(policy)
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            raise LawError(policy, name, str(law.__doc__), found) from error
        ran.append(name)
    return ran


def all_checks(policy: Policy) -> Iterator[tuple[str, Law]]:
    """The laws that apply to a policy, each with its name: for `pytest.mark.parametrize`."""
    rounds = InRounds(policy=policy) if in_rounds.plays_rounds(policy) else None
    for applies, laws in LAWS:
        here = applies(policy)
        there = here and rounds is not None and applies(rounds)
        for law in laws:
            if there and law not in OF_ARMS_THAT_STAY:
                yield law.__name__, both_ways(law)
            elif here:
                yield law.__name__, law


def both_ways(law: Law) -> Law:
    """The law for arms that stay the same, and for rounds that bring the same arms."""

    @wraps(law)
    def checked(policy: Policy) -> None:
        law(policy)
        try:
            law(InRounds(policy=policy))
        except AssertionError as error:
            raise AssertionError(f"where rounds bring their own arms, {error}") from error

    return checked


def always(policy: Policy) -> bool:
    """Every policy."""
    return True


def agent_has(*names: str) -> Callable[[Policy], bool]:
    """Policies whose agent, or the one at work inside it, has these."""
    return lambda policy: all(
        hasattr(innermost(problem_for(policy).start_agent(policy)), name) for name in names
    )


def is_linear(policy: Policy) -> bool:
    """Policies whose agent runs on the kernels."""
    return isinstance(innermost(problem_for(policy).start_agent(policy)), Agent)


def is_compiled(policy: Policy) -> bool:
    """Policies whose agent has a compiled loop: one with an explorer of your own plays in Python."""
    return agent_has("play")(policy) and not has_own_explorer(policy)


def has_own_explorer(policy: Policy) -> bool:
    """Policies with an explorer of your own."""
    return explorers.own_explorer(policy) is not None


def remembers(policy: Policy) -> bool:
    """Policies whose estimate rests on every reward, the first as the last."""
    agent = innermost(problem_for(policy).start_agent(policy))
    return forgetting_of(getattr(agent, "explorer", None))[0] == 0


LAWS: tuple[tuple[Callable[[Policy], bool], tuple[Law, ...]], ...] = (
    (
        records.is_record,
        (records.cannot_be_changed, records.keyword_only, records.defaults_construct),
    ),
    (records.is_plain_record, (records.repr_round_trips, records.json_round_trips)),
    (
        always,
        (
            decisions.select_gives_an_arm,
            decisions.select_is_pure,
            decisions.selecting_more_changes_nothing,
            decisions.same_seed_same_run,
            decisions.agents_are_independent,
            inputs.inputs_are_not_mutated,
            inputs.inputs_are_not_aliased,
            inputs.bad_actions_are_refused,
            inputs.bad_logs_are_refused,
            inputs.bad_arms_are_refused,
            inputs.bad_rewards_are_refused,
            inputs.refused_calls_change_nothing,
            edge_cases.one_arm,
            edge_cases.empty_log,
            edge_cases.rank_deficient_log,
            memory.memory_is_constant,
        ),
    ),
    (takes_any_arms, (edge_cases.one_feature, edge_cases.duplicate_arms)),
    (
        has_own_explorer,
        (explorers.explorers_do_not_write_into_their_view, explorers.deterministic_explorers_draw_nothing),
    ),
    (starts_without_arms, (in_rounds.plays_or_says_why_not,)),
    (in_rounds.draws_nothing, (in_rounds.both_ways_play_the_same,)),
    (agent_has("play"), (decisions.compiled_equals_interactive,)),
    (is_compiled, (memory.memory_of_the_loop_is_constant,)),
    (
        agent_has("commit", "observe"),
        (
            rewards.update_is_commit_and_observe,
            rewards.lost_rewards_block_nothing,
            rewards.rewards_without_a_commit_are_refused,
        ),
    ),
    (agent_has("snapshot"), (snapshots.snapshots_have_the_same_future,)),
    (agent_has("snapshot", "commit", "observe"), (snapshots.snapshots_await_the_same_rewards,)),
    (
        lambda policy: remembers(policy) and agent_has("commit", "observe")(policy),
        (rewards.rewards_come_in_any_order,),
    ),
    (
        lambda policy: remembers(policy) and agent_has("lcb")(policy),
        (estimates.lower_bounds_never_fall,),
    ),
    (
        lambda policy: remembers(policy) and is_linear(policy),
        (estimates.estimate_matches_what_was_observed,),
    ),
    (
        is_linear,
        (
            estimates.bounds_enclose_the_estimate,
            estimates.inverse_is_inverse,
            estimates.estimate_matches_cholesky,
        ),
    ),
    (
        symmetries.is_deterministic,
        (
            symmetries.permuting_arms_permutes_decisions,
            symmetries.rotating_the_space_changes_no_decision,
        ),
    ),
)
OF_ARMS_THAT_STAY: tuple[Law, ...] = (  # about a record, about arms that are given once, or by their indices
    records.cannot_be_changed,
    records.keyword_only,
    records.defaults_construct,
    records.repr_round_trips,
    records.json_round_trips,
    inputs.bad_actions_are_refused,
    inputs.bad_logs_are_refused,
    inputs.inputs_are_not_aliased,
    in_rounds.plays_or_says_why_not,
    in_rounds.both_ways_play_the_same,
    rewards.rewards_without_a_commit_are_refused,
    snapshots.snapshots_await_the_same_rewards,
    estimates.bounds_enclose_the_estimate,
    estimates.estimate_matches_cholesky,
)
