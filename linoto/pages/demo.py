"""The page of the demo: who may take over flight bookings, and at what risk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoto.experiments import seasons, takeover
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


def season_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table of the seasons, for people."""
    return {
        "months": row["months"],
        "policy": row["policy"],
        "more on time": f"{row['gain']:+.0f}",
        "largest shortfall": f"{row['worst_shortfall']:.0f}",
        "over the limit": f"{row['runs_over_limit']} of {row['runs']}",
    }


def season_text(found: seasons.Seasons) -> str:
    """What the seasons show, in a paragraph."""
    limit = found.table()[0]["limit"]
    return (
        "And when the world moves? The same flights month by month, with the same bold explorer (LinUCB with "
        f"its full radius) and a limit of {limit:.0f} flights: forwards from April to December after a log "
        "of February and March, and backwards from October to February after a log of November and "
        "December, which were worse. What counts here is what current practice would have had on time in the "
        "same months."
    )


def write_story(
    path: Path,
    story: takeover.Story,
    *,
    picture: Path,
    command: str,
    audit: Sequence[str] = (),
    moving: tuple[seasons.Seasons, Path] | None = None,
) -> Path:
    """One page: what happened, what was promised, what the log was worth, and what moving months do."""
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
        moving=None if moving is None else moving_section(*moving),
    )


def moving_section(found: seasons.Seasons, picture: Path) -> dict[str, Any]:
    """What the page shows of the seasons."""
    rows = [season_row(row) for row in found.table()]
    return {
        "text": season_text(found),
        "columns": list(rows[0]),
        "rows": [list(row.values()) for row in rows],
        "reasons": [(label, seasons.WHY[label]) for label in found.labels if label in seasons.WHY],
        "svg": inline(picture.read_text("utf-8"), "seasons", "Shortfall below practice, month by month"),
    }
