"""Logs of other packages: of vowpalwabbit, and tables with the columns of the Open Bandit Dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linoto.core.hints import nearest
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log, read_arms, read_log
from linoto.logs.read_rows import read_rows
from linoto.logs.rows import Rows
from linoto.logs.tables import find_files, source_name
from linoto.logs.text_files import read_header
from linoto.logs.vw import read_vw

FORMATS = ("vw-dsjson", "vw-text", "open-bandit")
ENDINGS = {".dsjson": "vw-dsjson", ".vw": "vw-text"}
ITEM_CONTEXT = "item_context.csv"  # what the Open Bandit Dataset calls its items


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeignLog:
    """A log of another package: what `read_log` and its siblings take, and the names of its columns."""

    source: Any
    arms: ArmTable
    item: str
    reward: str
    propensity: str | None
    time: str | None
    candidates: str | None = None  # column of what could be played; None: every arm
    numeric: tuple[str, ...] = ()  # columns of the context
    categories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what was noticed, and what rewards mean

    def columns(self) -> dict[str, Any]:
        """Which column has which meaning, as keywords."""
        return {"reward": self.reward, "propensity": self.propensity, "time": self.time}

    def log(self, *, contexts: bool = False, **options: Any) -> Log:
        """Statistics of it; options are those of `read_log`. With `contexts` all columns of the context are
        taken, unless some are named."""
        given = {"item": self.item, "arms": self.arms, **self.columns(), **options}
        if contexts and not any(options.get(name) for name in ("numeric", "categories", "columns")):
            given |= {"numeric": self.numeric, "categories": self.categories}
        found = read_log(self.source, **given)
        return replace(found, **self.noticed(found))

    def noticed(self, found: Log) -> dict[str, Any]:
        """What statistics keep of it. Their check of propensities is for arms that could always be played."""
        if self.candidates is None:
            return {"notes": found.notes + self.notes}
        note = "not every action could be played in every row, so propensities were not checked by action"
        return {"notes": (*found.notes, *self.notes, note), "propensities": None}

    def rows(self, **options: Any) -> Rows:
        """The rows one by one, each with what could be played; options are those of `read_rows`."""
        own = {"item": self.item, "arms": self.arms, "candidates": self.candidates}
        return read_rows(self.source, **{**own, **self.columns(), **options})


def format_of(source: Any, format: str | None = None) -> str | None:
    """The format of a log: as said, or by the ending of its name; None for a table."""
    if format is not None:
        if format not in FORMATS:
            hint = nearest(format, FORMATS)
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}{hint}")
        return format
    name = Path(source_name(source))
    return ENDINGS.get((name.with_suffix("") if name.suffix == ".gz" else name).suffix)


def read_foreign(
    source: Any,
    *,
    format: str | None = None,
    id: str | None = None,
    arms: Any = None,
    intercept: bool = True,
    normalise: bool = False,
    arm_effects: bool | None = None,
) -> ForeignLog:
    """A log of vowpalwabbit (dsjson or text), or a table with the columns of the Open Bandit Dataset.

    Without a `format` the ending of the name says it: .dsjson or .vw. `id` is the feature that names an
    action of a vowpalwabbit log; without it, an action is known by all its features. `arms` is the file of
    the items of an Open Bandit table; without it, item_context.csv beside the log. `arm_effects` is that of
    `read_arms`. Rewards are minus the costs that vowpalwabbit logs.
    """
    known = format_of(source, format)
    if known is None:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got None for {source_name(source)}")
    if known == "open-bandit":
        return read_open_bandit(
            source, arms, intercept=intercept, normalise=normalise, arm_effects=arm_effects
        )
    found = read_vw(find_files(source), known, id)
    return ForeignLog(
        source=found.transcripts,
        arms=found.arm_table(intercept=intercept, normalise=normalise, arm_effects=arm_effects),
        item="item",
        reward="reward",
        propensity="propensity",
        time="time" if found.timed else None,
        candidates="candidates" if found.varied else None,
        numeric=found.numeric,
        categories=found.categories,
        notes=found.notes,
    )


def read_open_bandit(source: Any, arms: Any, **made: Any) -> ForeignLog:
    """A table with item_id, position, click, propensity_score and user_feature columns, and its items.

    A propensity is that of the item at its position, so the position belongs to the context.
    """
    files = find_files(source)
    names = read_header(files[0], None).names
    items = files[0].with_name(ITEM_CONTEXT) if arms is None else arms
    if arms is None and not items.is_file():
        raise ValueError(f"arms must be the file of the items, got none and there is no {items}")
    indexed = read_header(Path(items), None).names[1:2] == ["item_id"]  # the index before it is left out
    users = tuple(name for name in names if name.startswith("user_feature"))
    left = sum(name.startswith("user-item_affinity") for name in names)
    note = f"{left} columns user-item_affinity were left out: each of them is about one item only"
    return ForeignLog(
        source=source,
        arms=read_arms(items, id=None if indexed else "item_id", **made),
        item="item_id",
        reward="click",
        propensity="propensity_score",
        time="timestamp" if "timestamp" in names else None,
        categories=(*(("position",) if "position" in names else ()), *users),
        notes=(note,) if left else (),
    )
