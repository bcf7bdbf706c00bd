"""The page of the demo: who may take over flight bookings, and at what risk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoto.experiments import takeover
from linoto.pages.figures.pieces import inline
from linoto.pages.shell import write_page
from linoto.worlds import flights


def story_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the story's table, for people."""
    limit = row["promised_limit"]
    return {
        "policy": row["policy"],
        "on time": f"{row['mean_reward']:.1%}",
        "largest shortfall": f"{row['worst_shortfall_of_all']:.0f}",
        "promised limit": "none" if limit is None else f"{limit:.0f}{' (vacuous)' if row['vacuous'] else ''}",
        "explored": f"{row['explored']:.0%}",
    }


def introduction(story: takeover.Story) -> list[str]:
    """The story in sentences, for the terminal and the page."""
    world, horizon = flights.load(), story.setting.horizon
    gated = next(row for row in story.table() if row["policy"] == "Gated")
    return [
        f"Current practice books the {len(world.practice)} of {len(world.names)} options (carrier, airport, "
        "hours) out of New York that were most punctual in January 2013. Its log: their "
        f"{world.log.total} real flights of February and March, {world.log.reference:.1%} of them on time.",
        f"From April on somebody else books {horizon} flights, among all options; real flights of April to "
        f"December decide which are on time. Current practice would have {world.reference:.1%}.",
        f"Gated may explore. With a probability of {1 - story.certificates['Gated'].delta:.0%} it has at "
        f"most {gated['promised_limit']:.0f} fewer flights on time than current practice, at any time; what "
        "that assumes is on the page.",
    ]


def write_story(
    path: Path, story: takeover.Story, *, picture: Path, command: str, audit: Sequence[str] = ()
) -> Path:
    """One page: what happened, what was promised, and what the log was worth."""
    rows = [story_row(row) for row in story.table()]
    return write_page(
        path,
        "demo.html",
        title="Who may book the flights?",
        introduction=introduction(story),
        command=command,
        runs=story.results.runs,
        columns=list(rows[0]),
        rows=[list(row.values()) for row in rows],
        reasons=[(label, takeover.WHY[label]) for label in story.labels if label in takeover.WHY],
        svg=inline(picture.read_text("utf-8"), "story", "Shortfall, punctuality and exploration"),
        promise=story.certificates["Gated"].rows(rounds=story.setting.horizon),
        audit=audit,
    )
