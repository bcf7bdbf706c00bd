"""Rows of the arms that no round by lists reads: they rest, kept for the arms alone that have a number there.

A row that rests is 0 in the state. `seen` and `sums` are brought back arm by arm, by a reward of the arm; all
rows when somebody reads every arm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels import State
from linoto.core.lean import give_back
from linoto.core.offline import Offline

ARMS, COUNTS = "arms", "counts"
Row = tuple[str, int]
LOGGED, OFFLINE_SUMS = (COUNTS, kernels.LOGGED), (ARMS, kernels.OFFLINE_SUMS)
SEEN, SUMS = (ARMS, kernels.SEEN), (ARMS, kernels.SUMS)
SHARE = 4  # of the arms, a fourth may have a number there at the most
BY_LOG = kernels.MIXTURE, kernels.CERTIFIED  # fallbacks that read the log


class Resting(NamedTuple):
    """What rests of a state; widths do too, which are roots of variances."""

    arms: Ints  # (n,) in order: those with another number than 0 in one of these rows
    rows: dict[Row, npt.NDArray[Any]]  # (n,) each
    all_present: bool  # which arms are present rests too: all of them are

    def at_rest(self, state: State, row: Row) -> npt.NDArray[np.bool_]:
        """(n,) the arms whose number in a row was not brought back."""
        if row not in (SEEN, SUMS):
            return np.ones(self.arms.size, np.bool_)
        return np.asarray(state.arms[kernels.SEEN, self.arms] == 0.0)

    def whole(self, state: State, row: Row) -> npt.NDArray[Any]:
        """(k,) a row as it would be if it did not rest."""
        found = row_of(state, row)
        if row in self.rows:
            found, here = found.copy(), self.at_rest(state, row)
            found[self.arms[here]] = self.rows[row][here]
        return found


def row_of(state: State, row: Row) -> npt.NDArray[Any]:
    """(k,) one row of a state."""
    found: npt.NDArray[Any] = getattr(state, row[0])[row[1]]
    return found


def rest(params: Records, state: State) -> Resting:
    """Let rows rest that rounds by lists do not read, where few arms have a number in them."""
    p, run = params[0], state.run[0]
    throws_coin, k = p["gate"] == kernels.CONTROL, state.actions.shape[1]
    names = [OFFLINE_SUMS]
    if not throws_coin and p["fallback"] not in BY_LOG:
        names.append(LOGGED)
    if run["slices"] > 0:  # else a refresh reads them
        names += [SEEN, SUMS]
    used = np.zeros(k, np.bool_)
    for name in names:
        used |= row_of(state, name).view(np.int64) != 0  # of which -0 is none
    arms = np.flatnonzero(used)
    rows = {name: row_of(state, name)[arms] for name in names if SHARE * arms.size <= k}
    for name in rows:
        give_back(row_of(state, name))
    all_present = not throws_coin and not run["restricted"]
    if all_present:
        give_back(state.counts[kernels.ALLOWED])
    give_back(state.arms[kernels.WIDTH])
    give_scratch_back(state)
    return Resting(arms, rows, all_present)


def give_scratch_back(state: State) -> None:
    """Rows that a look at every arm leaves behind."""
    for row in (kernels.SCORE, kernels.ROOM, kernels.CROSS):
        give_back(state.arms[row])


def wake(state: State, resting: Resting) -> None:
    """Bring every row back."""
    for row in sorted(resting.rows, key=lambda row: row == SEEN):  # which says what is in `sums`
        here = resting.at_rest(state, row)
        row_of(state, row)[resting.arms[here]] = resting.rows[row][here]
    if resting.all_present:
        state.counts[kernels.ALLOWED] = 1
    np.sqrt(state.arms[kernels.VARIANCE], out=state.arms[kernels.WIDTH])


def known_sums(resting: Resting) -> tuple[Ints, Floats]:
    """(n,) the arms whose rewards rest, and (2, n) how many they have and their sum."""
    if SEEN not in resting.rows:
        return np.zeros(0, np.int64), np.zeros((2, 0))
    return resting.arms, np.stack([resting.rows[SEEN], resting.rows[SUMS]])


def pulls_of(state: State, resting: Resting | None) -> Ints:
    """(k,) logged rows of each arm."""
    return state.counts[kernels.LOGGED] if resting is None else resting.whole(state, LOGGED)


def offline_of(state: State, squares: Floats | None, resting: Resting | None = None) -> Offline:
    """The log that a state was started from, whose squares (k,) may be known."""
    sums: Floats = state.arms[kernels.OFFLINE_SUMS]
    sums = sums if resting is None else resting.whole(state, OFFLINE_SUMS)
    return Offline(pulls=pulls_of(state, resting), reward_sums=sums, reward_squares=squares)


def stored_rows(state: State, resting: Resting | None) -> dict[str, npt.NDArray[Any]]:
    """The rows that rest as a checkpoint holds them, by name."""
    if resting is None:
        return {}
    found = {
        f"{group}.{kernels.ROWS[group][row]}": resting.whole(state, (group, row))
        for group, row in resting.rows
    }
    if resting.all_present:
        found["counts.allowed"] = np.ones(state.actions.shape[1], np.int64)
    return found
