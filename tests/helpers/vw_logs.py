"""The same decisions as vowpalwabbit would have logged them, in each of its formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

TOPICS = ("politics", "sport", "music")


class Logged(NamedTuple):
    """One decision."""

    user: str
    age: int
    played: int
    cost: float
    propensity: float
    offered: int  # the first so many topics


def decisions(count: int, *, seed: int = 0, varied: bool = False) -> list[Logged]:
    """Decisions of a logger that likes one topic more than the others."""
    rng = np.random.default_rng(seed)
    found = []
    for row in range(count):
        offered = 2 if varied and row % 2 else 3
        chances = np.full(offered, 0.4 / offered)
        chances[rng.integers(offered)] += 0.6
        played = int(rng.choice(offered, p=chances))
        cost = round(float(rng.normal(played - 1)), 3)
        user, age = str(rng.choice(["Tom", "Anna"])), int(rng.integers(18, 70))
        found.append(Logged(user, age, played, cost, round(float(chances[played]), 4), offered))
    return found


def as_dsjson(row: Logged, **other: object) -> str:
    """One line of a decision service."""
    event = {
        "_label_cost": row.cost,
        "_label_probability": row.propensity,
        "_label_Action": row.played + 1,
        "_labelIndex": row.played,
        "Timestamp": f"2026-03-01T12:{row.age % 60:02d}:00.0000000Z",
        "a": list(range(1, row.offered + 1)),
        "c": {
            "User": {"name": row.user, "age": row.age},
            "_multi": [{"Action": {"topic": topic, "price": 2.5}} for topic in TOPICS[: row.offered]],
        },
        "p": [1 / row.offered] * row.offered,
    }
    return json.dumps(event | other)


def as_block(row: Logged) -> str:
    """Lines of `--cb_adf`."""
    label = f"0:{row.cost}:{row.propensity} "
    lines = [
        f"{label if place == row.played else ''}|Action topic={topic} price:2.5"
        for place, topic in enumerate(TOPICS[: row.offered])
    ]
    return "\n".join([f"shared |User name={row.user} age:{row.age}", *lines]) + "\n"


def as_line(row: Logged) -> str:
    """A line of `--cb`."""
    return f"{row.played + 1}:{row.cost}:{row.propensity} |User name={row.user} age:{row.age}"


FORMS = {"vw-dsjson": as_dsjson, "adf": as_block, "cb": as_line}
ENDINGS = {"vw-dsjson": ".dsjson", "adf": ".vw", "cb": ".cb.vw"}


def write_log(folder: Path, rows: list[Logged], form: str) -> Path:
    """A log in one of the three forms."""
    path = folder / f"log{ENDINGS[form]}"
    path.write_text("\n".join(FORMS[form](row) for row in rows) + "\n")
    return path
