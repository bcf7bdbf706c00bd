"""A spec at work: the arms of a loop, and the agent that it starts with."""

from __future__ import annotations

from linoto.core.features.recipe import Recipe
from linoto.service.errors import invalid
from linoto.service.loops.arms import LoopArms
from linoto.service.loops.context_arms import ContextArms
from linoto.service.loops.fixed_arms import FixedArms
from linoto.service.loops.recipe_spec import read_recipe
from linoto.service.loops.spec import LoopAgent, LoopSpec, names_of
from linoto.service.storage.features import known_arms


def arms_of(spec: LoopSpec) -> LoopArms:
    """The arms of a loop before its first event."""
    if spec.recipe is not None:
        return ContextArms(recipe=read_recipe(spec.recipe), practice=spec.practice)
    stored = None if spec.features is None else known_arms(spec.features)
    recipe = Recipe(items=names_of(spec), item="action", intercept=False)
    return FixedArms(recipe=recipe, redraws=spec.redraws, stored=stored)


def start_agent(spec: LoopSpec) -> LoopAgent:
    """The agent of a canonical spec; what it draws is of no use once the loop has its key."""
    arms = arms_of(spec)
    try:
        agent = arms.start(spec)
    except (ValueError, MemoryError) as error:
        raise invalid(str(error)) from error
    try:
        agent.check_reward(spec.default_reward)
    except ValueError as error:
        raise invalid(f"default_{error}") from error
    arms.check_holdback(spec.holdback, agent)
    arms.check_gate(agent)
    if getattr(agent.policy, "guardrails", ()) and not agent.gate.throws_coin:
        raise invalid(
            f"gate must be a Control for guardrails in a loop, got {type(agent.gate).__name__}: without a "
            "coin nobody knows what a metric would have been with practice"
        )
    arms.check_redraws(spec.redraws, agent, len(arms.recipe.items), agent.d)
    return agent
