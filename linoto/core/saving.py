"""What a snapshot keeps of an agent: everything that its future depends on, each row under its name."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import codec, kernels
from linoto.core.arrays import Floats, Records
from linoto.core.drivers.driver import Driver
from linoto.core.explorers import Rule
from linoto.core.features.digests import digests_of
from linoto.core.gates import Gate
from linoto.core.kernels import State
from linoto.core.protocols import PolicyWithPromise
from linoto.core.thin_rows import thinned

# 1 held whole arrays and the parameters, 2 knew nothing of lost rewards, 3 held the zeros of one-hot arms and
# knew nothing of arms that come and go, 4 knew coins of a generator
# only, and not which rounds await their reward, 5 knew neither guardrails nor what was played in open rounds,
# 6 held V, V^-1, b and theta of every agent with fixed arms
SNAPSHOT_FORMAT = 7
# how fields of a run are named in files, where that is not what they are called here
STORED_NAMES = {
    "explored_plays": "ventured",
    "coin_thrown": "thrown",
    "lost_radius": "doubt",
    "earlier_baselines": "arrears",
}


SQUARES_OF_ROUNDS = ("gram", "inverse", "factor")
VECTORS_OF_ROUNDS = ("target", "theta", "half", "excess", "normals")  # the others are of one round, or unused
ONLINE_VECTORS_OF_ROUNDS = ("target", "theta", "half")


def snapshot_of(policy: PolicyWithPromise, driver: Driver[Any], *, arms_are_known: bool = False) -> bytes:
    """An agent as bytes; what only one call needs, and what is recomputed, is left out.

    `arms_are_known`: so are the features that it was started with, and of rows that are nearly all the same
    only the others are kept.
    """
    running = driver.running
    header, arrays = driver.kept() if arms_are_known else driver.saved()
    header |= {
        "format": SNAPSHOT_FORMAT,
        "policy": codec.encode(policy),
        "rng": codec.encode_rng(running.rng),
    }
    if running.coins is not None:
        header["coins"] = running.coins.encoded()
    if running.params[0]["share"] == kernels.CHEAP:
        header["cheap"] = True  # where no gate was given, the usual one had another share before
    if driver.changes:
        header["changes"] = [asdict(change) for change in driver.changes]
    if (digests := digests_of(getattr(driver, "features", None))) is not None:
        header["features"] = digests  # of now, with all items that came
    if running.stays_safe:
        header["stays_safe"] = True
    running.open_rounds.save(header, arrays)
    running.tickets.save(header, arrays)
    if running.rails is not None:
        running.rails.save(header, arrays, thrown=driver.coin_is_thrown)
        if driver.accepted is not None and driver.coin_is_thrown:
            arrays["accepted"] = driver.accepted
    if arms_are_known:
        header["thin"], arrays = thinned(arrays)
    return codec.pack(header, arrays)


def digest_of(features: Floats) -> str:
    """What tells these features (d, k) from all others."""
    digest = blake2b(repr(features.shape).encode(), digest_size=16)
    for row in features:
        digest.update(np.ascontiguousarray(row, dtype=np.float64).data)
    return digest.hexdigest()


def rows_left_out(state: State, params: np.void, gate: Gate, rule: Rule, *, own: bool) -> set[str]:
    """The rows of fixed arms that their future does not depend on; `own`: the explorer is the caller's."""
    run = state.run[0]
    return {
        *kernels.SCRATCH,
        *kernels.TALLIES,
        *(kernels.GATE_ROWS - gate.rows),
        *({"given"} if own else ()),  # made anew for each decision
        *(() if run["coin_thrown"] and rule.states_chances else {"chance"}),
        *(() if kernels.keeps_recent(params) else kernels.MEMORY_ROWS),
        *(() if run["one_hot"] else {"place"}),
        *(() if params["fallback"] == kernels.FROZEN_ARM else {"first_lcb"}),
        *(kernels.WHITENED_ROWS if run["whitened"] else ()),
        *(() if run["premium"] > 0 else kernels.PRACTICE_ROWS),
    }


def is_lasting(name: str, without: set[str]) -> bool:
    """Whether a row is stored; of the estimate without the log, only what rewards have taught."""
    own = name.removeprefix("online_")
    return own not in without and (own == name or own in kernels.ONLINE_ROWS)


def lasting_arrays(state: State, without: set[str]) -> dict[str, Any]:
    """The state row by row, each under its name, but for some rows and a decision that may change."""
    run = state.run.copy()
    for name in () if run[0]["coin_thrown"] else kernels.DECIDED:
        run[name] = 0
    for name in set(kernels.RUN.names or ()) - kernels.ONLINE_FIELDS:
        run[1:][name] = 0
    rows = {
        f"{group}.{name}": getattr(state, group)[index]
        for group, names in kernels.row_names(state).items()
        for index, name in enumerate(names)
        if is_lasting(name, without)
    }
    return {"actions": state.actions, "run": under_stored_names(run), **rows}


def under_stored_names(run: Records) -> Records:
    """The same numbers with their fields named as every version has stored them; of no coin, no moment."""
    kept = run.copy()
    kept["thrown_at"] *= kept["coin_thrown"]
    fields = [(STORED_NAMES.get(name, name), run.dtype[name]) for name in run.dtype.names or ()]
    return kept.view(np.dtype(fields))


def lasting_run(state: State) -> Records:
    """The run of rounds that bring their own arms, without a decision that may change."""
    run = state.run.copy()
    for name in (*kernels.DECIDED, "longest", "split"):
        run[name] = 0
    for name in set(kernels.RUN.names or ()) - kernels.ONLINE_FIELDS:
        run[1:][name] = 0
    return under_stored_names(run)


def lasting_rows(state: State, params: Records) -> dict[str, npt.NDArray[Any]]:
    """The rows of rounds that bring their own arms that a snapshot holds, each under its name: views.

    There is no V^-1 where V has a border.
    """
    rows = rows_of_estimate(state, "", VECTORS_OF_ROUNDS) | {
        "square.lost": state.square[kernels.lost_row(state)]
    }
    if kernels.is_shifted(state):
        rows |= rows_of_estimate(kernels.online_part(state), "online_", ONLINE_VECTORS_OF_ROUNDS)
    if state.run["border"][0] > 0:
        del rows["square.inverse"]
    if kernels.keeps_more(params):
        name = "recent" if params[0]["memory"] else "clicks"
        rows[f"square.{name}"], rows[f"vectors.{name}"] = state.square[-1], state.vectors[-1]
    return rows


def rows_of_estimate(state: State, prefix: str, vectors: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Those of one estimate."""
    return {
        f"{group}.{prefix}{name}": getattr(state, group)[kernels.ROWS[group].index(name)]
        for group, names in (("square", SQUARES_OF_ROUNDS), ("vectors", vectors))
        for name in names
    }
