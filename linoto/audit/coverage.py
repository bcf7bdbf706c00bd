"""What a log cannot tell: directions and arms out of its reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linoto.audit.regression import RANK, well_scaled
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.offline import Offline, as_offline
from linoto.core.theory import effective_dimension
from linoto.core.validation import as_actions

SHOWN_DIRECTIONS = 8  # directions that are described


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Which directions of the arm set the log has looked into."""

    eigenvalues: Floats  # of the logged design, ascending, one for each direction that the arms have
    rank: int  # directions the log knows
    unseen: Ints  # arms without a pull
    unknown: Ints  # arms whose action is not a combination of logged ones
    untested: Ints  # unseen arms the log judges by the model alone
    directions: tuple[tuple[int, ...], ...]  # features that make up each unknown direction, the largest first
    effective: int  # d_eff over as many rounds as the log has rows


def find_coverage(actions: npt.ArrayLike, offline: Offline, *, ridge: float, rounds: int) -> Coverage:
    """Rank, spectrum, and the arms and directions that are out of reach.

    Ranks are told in coordinates of like size; the spectrum is that of the actions as they are.
    """
    arms = as_actions(actions)
    if not arms.any():
        raise ValueError("actions must have a feature that is not 0, got none")
    log = as_offline(offline, len(arms))
    better, _ = well_scaled(arms)
    unseen, lengths = log.pulls == 0, np.linalg.norm(better, axis=1)
    known = row_basis(better[~unseen])
    outside = better - (better @ known.T) @ known
    away = np.linalg.norm(outside, axis=1)
    varying = (better != better[0]).any(axis=0)  # an intercept is part of every direction, and of none
    hidden = row_basis(outside * varying, least=1e-8 * float(lengths.max()))
    eigenvalues = np.zeros(len(row_basis(better)))
    sizes = np.linalg.svd(np.sqrt(log.pulls)[:, None] * arms, compute_uv=False)
    eigenvalues[: len(known)] = sizes[: len(known)] ** 2
    longest = float(np.linalg.norm(arms, axis=1).max())
    return Coverage(
        eigenvalues=eigenvalues[::-1].copy(),
        rank=len(known),
        unseen=np.flatnonzero(unseen),
        unknown=np.flatnonzero(away > 1e-8 * lengths),
        untested=np.flatnonzero(unseen & touched(arms, log)),
        directions=tuple(main_features(direction) for direction in hidden[:SHOWN_DIRECTIONS]),
        effective=effective_dimension(eigenvalues[::-1] + ridge, rounds=rounds, norm=longest),
    )


def row_basis(rows: Floats, *, least: float = 0.0) -> Floats:
    """(rank, d) an orthonormal basis of what the rows span, the largest direction first."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[sizes > max(RANK * float(sizes.max(initial=0.0)), least)])


def touched(arms: Floats, log: Offline) -> Bools:
    """(k,) which arms the model carries something over to: those not orthogonal to every logged action."""
    lengths = np.linalg.norm(arms, axis=1)
    unit = arms / np.where(lengths > 0, lengths, 1.0)[:, None]
    _, triangle = np.linalg.qr(unit[log.pulls > 0])
    return np.asarray(np.linalg.norm(unit @ triangle.T, axis=1) > 1e-8)


def main_features(direction: Floats) -> tuple[int, ...]:
    """The features that make up most of a direction, at most three."""
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    return tuple(int(i) for i in order if abs(direction[i]) > 0.3 * abs(direction[order[0]]))
