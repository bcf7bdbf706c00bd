"""The history of a loop in a bounded number of points, enough for a chart."""

from __future__ import annotations

from msgspec import Struct, field

MOST_POINTS = 256  # when there are more, every second one is dropped


class Point(Struct, array_like=True, frozen=True):
    """A loop after some of its decisions were closed."""

    at: float
    decisions: int
    explored: int
    held: int  # plays of the control group
    closed: int  # of the plays that the promise is about
    rewards: float  # their sum
    budget: float | None  # what the gate saw at the last decision
    earned: float | None = None  # by explored decisions, where a coin compares them with practice
    practice: tuple[float, float] | None = None  # what practice would have earned in them: from, to
    lost: int = 0  # of the closed ones: nobody knows their reward
    tried: float | None = 0.0  # decisions that played another arm than the safe choice; None: not known


class History(Struct):
    """Points at equal distances, counted in closed decisions; the distance doubles as the loop grows."""

    points: list[Point] = field(default_factory=list)
    stride: int = 1

    def wants(self, closed: int) -> bool:
        """Whether a point after so many closed decisions is kept."""
        return closed % self.stride == 0

    def add(self, point: Point) -> None:
        """Keep a point that is wanted."""
        self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self.stride *= 2
            self.points = [kept for kept in self.points if kept.closed % self.stride == 0]
