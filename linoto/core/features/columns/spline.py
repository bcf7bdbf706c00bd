"""A number by a curve that bends at knots."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import text_of
from linoto.core.features.columns.column import Found, Learns, number_literal
from linoto.core.features.columns.numeric import NumberColumn, as_ends, horner_sql, rising, within_sql
from linoto.core.validation import check_count, is_number


@dataclass(frozen=True, kw_only=True)
class Spline(NumberColumn):
    """A curve of a number that bends at knots: lines between them, or with degree 3 a smooth cubic spline.

    `knots` are numbers that rise, or how many there are to be: then they are quantiles of the log, with its
    ends. Features are B-splines: each belongs to a place on the axis and is large near it; none is negative,
    and all sum to 1, so together they are not longer than 1. Every straight line is a sum of them. A number
    outside the knots is taken for the end that is nearest.

    >>> Spline(name="price", knots=(0, 10, 100)).labels
    ('price~0', 'price~10', 'price~100')
    >>> Spline(name="price", knots=(0, 10, 100)).vector(55).tolist()
    [0.0, 0.5, 0.5]
    """

    knots: int | tuple[float, ...] = 5
    degree: int = 1

    kind: ClassVar[str] = "spline"
    learns: ClassVar[Learns] = "quantiles"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = f"knots of {self.name!r}"
        if self.degree not in (1, 2, 3):
            raise ValueError(f"degree of {self.name!r} must be 1, 2 or 3, got {self.degree!r}")
        if not is_number(self.knots):
            knots = rising(name, self.knots, least=2)
            as_ends(name, (knots[0], knots[-1]))
            object.__setattr__(self, "knots", knots)
        else:
            check_count(name, self.knots)
            if self.knots == 1:
                raise ValueError(f"{name} must be at least 2, got 1")

    @property
    def draft(self) -> bool:
        """Whether its knots are to be those of a log."""
        return isinstance(self.knots, int)

    @property
    def known(self) -> tuple[float, ...]:
        """The knots, once they are known."""
        return () if isinstance(self.knots, int) else self.knots

    @property
    def sites(self) -> tuple[float, ...]:
        """(w,) where each feature belongs: a straight line is the sum of its values there (Greville)."""
        if not self.known:
            return ()
        ends = (self.known[:1], self.known[-1:])
        t = np.array((*ends[0] * (self.degree - 1), *self.known, *ends[1] * (self.degree - 1)))
        windows = np.lib.stride_tricks.sliding_window_view(t / self.degree, self.degree)
        return tuple(windows.sum(axis=1).tolist())

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The names of its features."""
        short = [text_of(float(f"{site:.6g}")) for site in self.sites]
        words = short if len({*short}) == len(short) else [text_of(site) for site in self.sites]
        return tuple(f"{self.name}~{word}" for word in words)

    @cached_property
    def pieces(self) -> Floats:
        """(pieces, degree + 1, w) between two knots: the coefficients of 1, u, ... in each feature.

        u runs from 0 to 1. By the recursion of de Boor (1978), in units of the whole range.
        """
        first, last, p = self.known[0], self.known[-1], self.degree
        inner = (np.array(self.known) - first) / (last - first)
        t = np.concatenate([np.zeros(p), inner, np.ones(p)])
        found = np.zeros((len(inner) - 1, p + 1, len(inner) + p - 1))
        for piece, (start, end) in enumerate(pairwise(inner.tolist())):
            basis = np.zeros((len(t) - 1, p + 1))
            basis[piece + p, 0] = 1.0
            for degree in range(1, p + 1):
                basis = raised(basis, t, degree, start, end - start)
            found[piece] = basis[: found.shape[2]].T
        return found

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, w) the features of numbers."""
        knots = np.array(self.known)
        inside = np.clip(numbers, knots[0], knots[-1])
        piece = np.searchsorted(knots[1:-1], inside, side="right")
        u = ((inside - knots[piece]) / np.diff(knots)[piece])[:, None]
        found = self.pieces[piece, self.degree]
        for power in reversed(range(self.degree)):
            found = found * u + self.pieces[piece, power]
        return np.asarray(found)

    def filled_vector(self, value: Any) -> Floats:
        """(w,) the same of one value, without the arrays of many."""
        knots = self.known
        inside = min(max(self.number(value), knots[0]), knots[-1])
        piece = bisect_right(knots, inside, 1, len(knots) - 1) - 1
        u = (inside - knots[piece]) / (knots[piece + 1] - knots[piece])
        curves = self.pieces[piece]
        found = curves[self.degree]
        for power in reversed(range(self.degree)):
            found = found * u + curves[power]
        return np.asarray(found)

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same: between which knots, and there a polynomial."""
        inside = within_sql(value, self.known[0], self.known[-1])
        steps = [*pairwise(self.known)]
        at = [f"(({inside} - {number_literal(a)}) / {number_literal(b - a)})" for a, b in steps]
        found = []
        for place in range(len(self.filled_labels)):
            curves = [
                horner_sql(u, piece[:, place].tolist()) if piece[:, place].any() else number_literal(0.0)
                for u, piece in zip(at, self.pieces, strict=True)
            ]
            tests = [
                f"WHEN {value} < {number_literal(end)} THEN {curve}"
                for (_, end), curve in zip(steps[:-1], curves, strict=False)
            ]
            found.append(f"CASE {' '.join(tests)} ELSE {curves[-1]} END" if tests else curves[-1])
        return tuple(found)

    def learned(self, found: Found, *, min_count: int) -> Spline:
        """With knots at quantiles of the log, the smallest and the largest number among them."""
        assert isinstance(found, tuple) and isinstance(self.knots, int)
        knots = found[0].quantiles(np.linspace(0.0, 1.0, self.knots))
        return replace(self, knots=knots if len(knots) > 1 else found[0].ends)

    def filled_possible(self, rows: int, rng: np.random.Generator) -> Floats:
        """(n, w) features of numbers between the knots: no others sum to 1."""
        places = rng.uniform(0, len(self.known) - 1, rows)
        return self.of_numbers(np.interp(places, np.arange(len(self.known)), self.known))

    def is_beyond(self, value: Any) -> bool:
        """Whether a number lies outside the knots."""
        return not self.lacks(value) and not self.known[0] <= self.number(value) <= self.known[-1]


def raised(basis: Floats, t: Floats, degree: int, start: float, step: float) -> Floats:
    """(m, p + 1) B-splines of a degree on one piece, from those of the degree below, with the knots t."""
    found = np.zeros_like(basis)
    for i in range(len(t) - 1 - degree):
        for below, rises in ((basis[i], True), (basis[i + 1], False)):
            near, far = (t[i], t[i + degree]) if rises else (t[i + 1], t[i + degree + 1])
            if below.any():
                width = far - near
                constant, slope = (
                    ((start - near) / width, step / width)
                    if rises
                    else ((far - start) / width, -step / width)
                )
                found[i] += constant * below
                found[i, 1:] += slope * below[:-1]
    return found
