"""All compiled code: the arithmetic of every policy, written once.

The simulator's loop (`play`) and one decision at a time (`decide`, `commit`, `observe`) run the same
functions on the same state, so both give the same arms bit for bit. Nothing here checks its input: the agent
does, once. What a state looks like is in `layout`, which compiles nothing; the functions below are imported
when they are first used, and numba with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linoto.core.kernels.layout import *  # noqa: F403 - the names of rows and rules

if TYPE_CHECKING:
    from linoto.core.kernels.control import *  # noqa: F403
    from linoto.core.kernels.deciding import *  # noqa: F403
    from linoto.core.kernels.estimate import *  # noqa: F403
    from linoto.core.kernels.learning import *  # noqa: F403
    from linoto.core.kernels.ledger import *  # noqa: F403
    from linoto.core.kernels.list_rounds import *  # noqa: F403
    from linoto.core.kernels.lists import *  # noqa: F403
    from linoto.core.kernels.measuring import *  # noqa: F403
    from linoto.core.kernels.one_hot import *  # noqa: F403
    from linoto.core.kernels.own_radius import *  # noqa: F403
    from linoto.core.kernels.rails import *  # noqa: F403
    from linoto.core.kernels.rounds import *  # noqa: F403
    from linoto.core.kernels.told import *  # noqa: F403
    from linoto.core.kernels.whitened import *  # noqa: F403

COMPILED = {  # what Python calls, by file
    "estimate": ("combine", "dot"),
    "one_hot": ("tally",),
    "ledger": ("ledger_begin", "ledger_commit", "ledger_observe", "ledger_room"),
    "control": (
        "coin_begin",
        "coin_commit",
        "coin_decide",
        "coin_observe",
        "draw_practice",
        "most_by_practice",
    ),
    "deciding": ("decide", "most_behind", "redraw", "rounding"),
    "learning": ("begin", "commit", "lose_arms", "meet_arms", "observe", "play"),
    "lists": ("list_meet", "list_settle"),
    "list_rounds": ("list_begin", "list_commit", "list_decide", "list_observe", "list_play"),
    "rails": ("rails_begin", "rails_commit", "rails_measure", "rails_observe"),
    "measuring": ("measure_all",),
    "rounds": (
        "context_begin",
        "context_commit",
        "context_gains",
        "context_decide",
        "context_observe",
        "context_play",
        "context_propose",
        "context_follow",
        "context_widen",
        "cut_arms",
        "draw_arm",
        "frame_arms",
    ),
    "own_radius": ("own_radii",),
    "told": ("told_accept", "told_compare", "told_learn"),
    "whitened": ("white_arms", "white_estimate"),
}


def __getattr__(name: str) -> Any:
    """A compiled function, with its file."""
    for file, functions in COMPILED.items():
        if name in functions:
            globals()[name] = found = getattr(import_module(f"linoto.core.kernels.{file}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
