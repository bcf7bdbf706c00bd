"""Every size and power in the documentation's table is measured again."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import audit_worlds
from helpers.audit_worlds import World, alarm_rate

PAGE = Path(__file__).parents[2] / "docs" / "logs.md"
SOUND: dict[str, dict[str, World]] = {
    "steady": audit_worlds.STEADY,
    "linear": audit_worlds.FIT,
    "noise as stated": audit_worlds.NOISE,
}
UNSOUND: dict[str, dict[str, World]] = {
    "changed": audit_worlds.UNSTEADY,
    "not linear": audit_worlds.BENT,
    "louder than stated": audit_worlds.LOUD,
}
CASES = [
    (kind, world, worlds[world])
    for kinds in (SOUND, UNSOUND)
    for kind, worlds in kinds.items()
    for world in worlds
]
WORLDS = 500  # logs of each kind


def documented() -> dict[tuple[str, str], float]:
    """The shares of logs with an alarm, as the table has them."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines()]
    return {
        (row[0], row[1]): float(row[2].removesuffix("%")) / 100
        for row in rows
        if len(row) == 3 and row[2].endswith("%") and row[0] in {*SOUND, *UNSOUND}
    }


def test_the_table_has_every_world() -> None:
    assert documented().keys() == {(kind, world) for kind, world, _ in CASES}
    assert max(rate for (kind, _), rate in documented().items() if kind in SOUND) <= 0.012


@pytest.mark.slow
@pytest.mark.parametrize("kind, world, alarm", CASES, ids=[f"{kind}: {world}" for kind, world, _ in CASES])
def test_the_table_is_right(kind: str, world: str, alarm: World) -> None:
    """A binomial(500, 0.01) exceeds 16 with probability 3e-5: a margin of 2.2 points. The same worlds are
    drawn again, so the table is exact; other versions of NumPy may draw others, within four standard errors.
    """
    measured, told = alarm_rate(alarm, WORLDS), documented()[kind, world]
    if kind in SOUND:
        assert measured <= 16 / WORLDS
    assert abs(measured - told) <= max(0.01, 4 * (told * (1 - told) / WORLDS) ** 0.5), measured
