"""The page of a comparison: a league table and a picture for every setting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linoto.experiments.compare import Comparison, shown_rounds
from linoto.experiments.settings import Setting
from linoto.pages.figures.experiments import draw_both
from linoto.pages.figures.pieces import inline, save
from linoto.pages.report import write_csv, write_json
from linoto.pages.shell import write_page

TITLE = "The same problems, many policies"


def write_comparison(out: Path, found: Comparison, *, command: str) -> list[Path]:
    """Write pictures, tables, tidy curves and one page into a folder."""
    results, paths, sections = found.results, [], []
    for setting, stem in zip(results.experiment.settings, stems(results.experiment.settings), strict=True):
        pictures = save(draw_both(results, setting), out / f"compare-{stem}")
        paths += pictures
        sections.append(section(found, setting, pictures[1], stem))
    paths.append(write_csv(out / "compare.csv", results.rows()))
    paths.append(write_json(out / "compare.json", found.to_dict()))
    paths.append(out / "compare.md")
    paths[-1].write_text(markdown_tables(found), encoding="utf-8")
    page = write_page(
        out / "compare.html",
        "compare.html",
        title=TITLE,
        command=command,
        runs=results.runs,
        seed=results.seed,
        against=found.against,
        sections=sections,
    )
    return [*paths, page]


def stems(settings: Sequence[Setting]) -> list[str]:
    """A distinct name for the files of each setting, whatever people call it.

    >>> from linoto import Random
    >>> stems([Setting(name=name, policies={"any": Random()}) for name in ("a/b", "a b", "…")])
    ['a-b', 'a-b-2', 'setting-3']
    """
    found: list[str] = []
    for number, setting in enumerate(settings, start=1):
        plain = re.sub(r"[^A-Za-z0-9]+", "-", setting.name).strip("-") or f"setting-{number}"
        found.append(f"{plain}-{number}" if plain in found else plain)
    return found


def section(found: Comparison, setting: Setting, picture: Path, stem: str) -> dict[str, Any]:
    """What the page shows of one setting."""
    rows = [league_row(row, found.against) for row in found.league(setting)]
    early, half, last = shown_rounds(setting)
    return {
        "id": stem,
        "name": setting.name,
        "facts": f"{setting.k} arms, {setting.d} features, {setting.m} logged rewards, {setting.horizon} "
        f"rounds; regret at rounds {early}, {half} and {last}; shortfall below {setting.compares_with}",
        "left_out": left_out(setting),
        "columns": list(rows[0]),
        "rows": [list(row.values()) for row in rows],
        "svg": inline(
            picture.read_text("utf-8"),
            stem,
            f"Regret and shortfall below {setting.compares_with}: {setting.name}",
        ),
    }


def left_out(setting: Setting) -> list[tuple[str, str]]:
    """Who cannot play in a setting, and why: those with the same reason together.

    >>> from linoto import Random
    >>> left_out(Setting(name="a", policies={"any": Random()}, left_out={"x": "too short", "y": "too short"}))
    [('x; y', 'too short')]
    """
    absent = setting.absent
    return [
        ("; ".join(who for who, reason in absent.items() if reason == why), why)
        for why in dict.fromkeys(absent.values())
    ]


def league_row(row: dict[str, Any], against: str) -> dict[str, str]:
    """A row of a league table, for people."""
    promise, difference = row["promise"], row["difference"]
    early, half, last = row["regret"]
    return {
        "policy": row["policy"],
        "early": f"{early['mean']:.0f}",
        "half-way": f"{half['mean']:.0f}",
        "regret": with_error(last),
        "median": f"{row['median_regret']:.0f}",
        "worst run": f"{row['worst_regret']:.0f}",
        f"more than {against}": "" if difference is None else interval(difference),
        "shortfall": with_error(row["offline_regret"][-1]),
        "largest": f"{row['worst_offline_regret']:.0f}",
        **{f"more {name}": with_error(found) for name, found in row.get("metrics", {}).items()},
        "promise": "none" if promise is None else kept(promise),
        "µs": microseconds(row["seconds_per_round"]),
    }


def markdown_tables(found: Comparison) -> str:
    """The league tables for a page of text; times are left out, which belong to one machine."""
    texts = []
    for setting in found.results.experiment.settings:
        rows = [league_row(row, found.against) for row in found.league(setting)]
        kept = [{name: text for name, text in row.items() if name != "µs"} for row in rows]
        marks = ["---", *["---:"] * (len(kept[0]) - 2), "---"]
        lines = [[*kept[0]], marks, *(row.values() for row in kept)]
        texts.append(f"**{setting.name}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(texts) + "\n"


def microseconds(seconds: float) -> str:
    """Two digits, without an exponent.

    >>> microseconds(1.234e-6), microseconds(17.3e-6), microseconds(1.26e-3)
    ('1.2', '17', '1300')
    """
    return f"{float(f'{1e6 * seconds:.2g}'):g}"


def with_error(value: dict[str, Any]) -> str:
    """Mean ± standard error."""
    return f"{value['mean']:.0f}" + ("" if value["se"] is None else f" ± {value['se']:.0f}")


def interval(difference: dict[str, Any]) -> str:
    """A difference and its 95 % interval; nothing certain is said of a single run."""
    mean = f"{difference['mean']:+.0f}"
    if difference["low"] is None:
        return mean
    return f"{mean} [{difference['low']:+.0f}, {difference['high']:+.0f}]"


def kept(promise: dict[str, int]) -> str:
    """Whether a promise held, and where it did not, how often."""
    if promise["kept"] == promise["runs"]:
        return "kept"
    return f"broken in {promise['runs'] - promise['kept']} of {promise['runs']} runs"
