"""The coin of a Control gate: drawn ahead, thrown once per round, and kept until the reward comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.decisions import SOURCES, Decision
from linoto.core.kernels import Bools, Records, State

DESK = ("entry", "entry_share", "entry_centre", "entry_practice")
ENTRIES = {"explorer": kernels.EXPLORED_PLAY, "control": kernels.CONTROL_PLAY}


def coins_from(rng: np.random.Generator) -> np.random.Generator:
    """A generator for coins alone: they are drawn in blocks or one by one, whatever the explorer draws."""
    return np.random.default_rng(rng.integers(2**63, size=4))


def draw_coins(run: Records, coins: np.random.Generator) -> None:
    """Practice's arm and the coin of the next round, as uniform numbers that nobody is shown."""
    run["practice_draw"][0], run["coin"][0] = coins.random(2).tolist()


def check_same_round(run: Records, proposal: int, mask: Bools | None) -> None:
    """Refuse to ask again with other input once the coin is thrown: it would be known beforehand."""
    thrown = run[0]
    if proposal >= 0 and proposal != thrown["proposal"]:
        raise ValueError(
            f"arm must be {thrown['proposal']}, for which the coin of this round is thrown, got {proposal}: "
            "commit that decision first"
        )
    if mask is not None and not mask[thrown["arm"]]:
        raise ValueError(
            f"allowed must hold arm {thrown['arm']}, which the coin of this round has decided, got "
            f"{np.flatnonzero(mask).tolist()}: commit that decision first"
        )


def with_coin(decision: Decision, run: Records) -> Decision:
    """A decision with what its reward needs, where the coin is thrown."""
    if not run[0]["thrown"]:
        return decision
    return replace(decision, control_share=float(run[0]["entry_share"]), centre=float(run[0]["entry_centre"]))


def enter_play(run: Records, decision: Decision) -> None:
    """Put a decision that is played now on the kernels' desk.

    Where the coin of this round is thrown, that is what counts: a decision of the same round from before the
    throw must not take its place, or who keeps one in reserve could let every control round disappear.
    """
    if run[0]["thrown"]:
        enter_arm(run, decision.arm)
    else:
        enter_decision(run, decision)


def enter_decision(run: Records, decision: Decision) -> None:
    """Put a decision on the desk: what it, or its reward, is in the ledger."""
    entry = ENTRIES.get(decision.source, kernels.PRACTICE_PLAY)
    share, centre = decision.control_share, decision.centre
    if entry == kernels.PRACTICE_PLAY and decision.proposal == decision.arm:
        entry = kernels.NO_ENTRY
    if entry in ENTRIES.values() and (share is None or centre is None):
        entry, share = kernels.UNASKED_PLAY, 0.0
    practice = decision.arm if decision.fallback is None else decision.fallback
    write(run, entry, share or 0.0, centre or 0.0, practice)


def enter_arm(run: Records, arm: int) -> None:
    """Put an arm that is played now on the desk, where `run` holds the decision of this round.

    Another arm than the decided one is an explored play if the coin had said so, or else one that nobody
    asked the coin about, which counts at its worst.
    """
    decided = run[0]
    if arm == decided["arm"] or decided["entry"] == kernels.EXPLORED_PLAY:
        return
    lost = decided["entry_share"] if decided["entry"] == kernels.CONTROL_PLAY else 0.0
    write(run, kernels.UNASKED_PLAY, float(lost), float(decided["entry_centre"]), int(decided["fallback"]))


def enter_ticket(state: State, arm: int) -> None:
    """Put the only pending play of an arm on the desk.

    Where there are several, nobody knows whose reward it is: it counts as lost in the ledger, which is never
    too hopeful, and only the estimate learns from it.
    """
    ticket = int(state.arms[kernels.TICKET, arm])
    share, centre = (float(state.arms[row, arm]) for row in (kernels.TICKET_SHARE, kernels.TICKET_CENTRE))
    write(state.run, max(ticket, kernels.NO_ENTRY), share, centre, arm)


def is_practice(run: Records, arm: int) -> bool:
    """Whether this arm, played now, is counted apart as the logging mixture's or a control play."""
    source: Any = SOURCES[run[0]["source"]]
    return bool(arm == run[0]["arm"] and source in ("mixture", "control"))


def write(run: Records, entry: int, share: float, centre: float, practice: int) -> None:
    """What the kernels' next commit or observe is about."""
    run["entry"][0], run["entry_share"][0], run["entry_centre"][0] = entry, share, centre
    run["entry_practice"][0] = practice


def mixed_propensity(chosen: float, share: float, practice: float) -> float:
    """How likely an arm is played: by the explorer with probability `chosen`, by practice with `practice`."""
    return chosen * (practice + (1 - practice) * (1 - share)) + (1 - chosen) * share * practice
