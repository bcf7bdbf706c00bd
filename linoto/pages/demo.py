"""The page of the demo: who may take over flight bookings, and at what risk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoto.experiments import guarded, seasons, takeover
from linoto.pages.figures.pieces import inline
from linoto.pages.shell import write_page
from linoto.worlds import flights
from linoto.worlds.gates import CONTROL, NO_GATE, OF_LOG


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
        "Gated tries options behind a gate, with a budget. With a probability of "
        f"{1 - story.certificates['Gated'].delta:.0%} it has at most {gated['promised_limit']:.0f} fewer "
        "flights on time than current practice, at any time; what that assumes is on the page. LinUCB x 0.25 "
        "is the same explorer without a gate, LinUCB a bolder one; LinOtO is the paper's algorithm; LinLCB "
        "tries nothing new.",
    ]


def season_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table of the seasons, for people."""
    return {
        "months": row["months"],
        "gate": row["gate"],
        "more on time": f"{row['gain']:+.0f}",
        "largest shortfall": f"{row['worst_shortfall']:.0f}",
        "over the limit": f"{row['runs_over_limit']} of {row['runs']}",
    }


def season_parts(found: seasons.Seasons) -> list[tuple[str, list[dict[str, str]]]]:
    """What the seasons show: the question, the usual explorer, then the bold one, each with its rows."""
    rows = {name: [row for row in found.table() if row["explorer"] == name] for name in ("usual", "bold")}
    return [
        (season_question(rows["usual"][0]["limit"]), []),
        (usual_text(rows["usual"]), [season_row(row) for row in rows["usual"]]),
        (bold_text(rows["bold"]), [season_row(row) for row in rows["bold"]]),
    ]


def season_question(limit: float) -> str:
    """What is asked."""
    return (
        "And when the world moves? The same flights month by month: forwards from April to December after a "
        "log of February and March, and backwards from October to February after a log of November and "
        "December, which were worse. What counts is what current practice would have had on time in the "
        f"same months. Control promises, with a probability of {1 - seasons.DELTA:.0%}, never to be more "
        f"than {limit:.0f} flights behind that."
    )


def usual_text(rows: Sequence[dict[str, Any]]) -> str:
    """What Control costs and promises where the explorer is good."""
    return (
        "In flights on time, compared with practice: the usual explorer behind Control ends at "
        f"{ends(rows, CONTROL)}, and is never more than {behind(rows, CONTROL)} behind. Without a gate it "
        f"ends at {ends(rows, NO_GATE)}, and nothing was promised."
    )


def bold_text(rows: Sequence[dict[str, Any]]) -> str:
    """What a gate is for."""
    return (
        "A warning: a bold explorer (LinUCB with its full radius, which tries everything) ends at "
        f"{ends(rows, NO_GATE)} without a gate, and is up to {behind(rows, NO_GATE)} behind. A gate that "
        f"compares with the log lets it fall {behind(rows, OF_LOG)} behind. With Control it ends at "
        f"{ends(rows, CONTROL)}, and is never more than {behind(rows, CONTROL)} behind: a gate does not "
        "make a bad explorer good, it limits what one costs."
    )


def ends(rows: Sequence[dict[str, Any]], gate: str) -> str:
    """How far ahead of practice a contender ends, in each order of the months."""
    return " and ".join(f"{row['gain']:+.0f} {row['months']}" for row in rows if row["gate"] == gate)


def behind(rows: Sequence[dict[str, Any]], gate: str) -> str:
    """How far behind practice a contender ever was, in any run of any order."""
    return f"{max(row['worst_shortfall'] for row in rows if row['gate'] == gate):.0f}"


def guarded_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table of old planes, for people."""
    return {
        "gate": row["policy"],
        "more on time": f"{row['gain']:+.0f}",
        "more old planes": f"{row['more_old']:+.0f}",
        "most": f"{row['most_old']:.0f}",
        "over the limit": f"{row['runs_over_limit']} of {row['runs']}",
    }


def guarded_text(rows: Sequence[dict[str, Any]]) -> str:
    """What a guardrail is for, and what it costs here."""
    by = {row["policy"]: row for row in rows}
    free, held = by[guarded.NO_GATE], by[guarded.GUARDED]
    return (
        "And a second number? From Kennedy, practice books as everybody did in February and March. Some of "
        "the options that are on time most often fly planes of more than 20 years; others are as "
        f"punctual and do not. At most {guarded.LIMIT:.0f} more flights than with practice may have an old "
        f"plane. Without a gate the explorer has {free['gain']:+.0f} on time and {free['more_old']:+.0f} old "
        f"planes, and is above the limit in {free['runs_over_limit']} of {free['runs']} runs. With a "
        f"guardrail it has {held['gain']:+.0f} on time and {held['more_old']:+.0f} old planes, and is above "
        f"the limit in {held['runs_over_limit']} of {held['runs']}."
    )


def write_story(
    path: Path,
    story: takeover.Story,
    *,
    picture: Path,
    command: str,
    audit: Sequence[str] = (),
    moving: tuple[seasons.Seasons, Path] | None = None,
    metric: tuple[guarded.Guarded, Path] | None = None,
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
        metric=None if metric is None else metric_section(*metric),
    )


def metric_section(found: guarded.Guarded, picture: Path) -> dict[str, Any]:
    """What the page shows of old planes."""
    rows = [guarded_row(row) for row in found.table()]
    return {
        "text": guarded_text(found.table()),
        "columns": list(rows[0]),
        "rows": [list(row.values()) for row in rows],
        "reasons": list(guarded.WHY.items()),
        "svg": inline(picture.read_text("utf-8"), "guardrail", "More on time, and more old planes"),
    }


def moving_section(found: seasons.Seasons, picture: Path) -> dict[str, Any]:
    """What the page shows of the seasons."""
    parts = season_parts(found)
    return {
        "parts": [(text, [list(row.values()) for row in rows]) for text, rows in parts],
        "columns": list(parts[1][1][0]),
        "reasons": list(seasons.WHY.items()),
        "svg": inline(picture.read_text("utf-8"), "seasons", "More on time than practice, month by month"),
    }
