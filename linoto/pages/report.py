"""Everything a run leaves behind: tidy curves, tables, figures, and one self-contained page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.experiments import bounds
from linoto.experiments.claims import CheckedClaim
from linoto.experiments.results import Results
from linoto.pages.figures import experiments as figures
from linoto.pages.figures.pieces import inline, save
from linoto.pages.shell import write_page

BOUNDS = (
    "LinOtO beside Theorem 1 and beside (alpha + 2) S t, which bounds the shortfall below the log, both with "
    "their constants and averaged over the same worlds: dotted where a bound exceeds the largest regret any "
    "policy could have."
)
PART = 500  # runs that are written to Parquet at a time
MANY = 20  # rows of a table from which it is folded


def write_report(
    results: Sequence[Results],
    findings: Sequence[CheckedClaim],
    out: Path,
    *,
    title: str,
    command: str,
    with_bounds: bool = False,
    as_csv: bool = False,
) -> list[Path]:
    """Write every file of these experiments into a folder, `report.html` last; curves `as_csv` too."""
    out.mkdir(parents=True, exist_ok=True)
    written = [write_experiment(result, out, with_bounds, as_csv) for result in results]
    paths = [path for group in written for path in group]
    if findings:
        paths.append(write_json(out / "claims.json", [finding.to_dict() for finding in findings]))
    theirs = [finding for finding in findings if not finding.claim.ours]  # ours answer them
    page = write_page(
        out / "report.html",
        "report.html",
        title=title,
        command=command,
        runs=results[0].runs,
        seed=results[0].seed,
        findings=findings,
        theirs=theirs,
        counts=count_parts(theirs or findings),
        sections=[section(*pair) for pair in zip(results, written, strict=True)],
        many=MANY,
    )
    return [*paths, page]


def count_parts(findings: Iterable[CheckedClaim]) -> Counter[str]:
    """How many parts of these sentences have which result."""
    return Counter(part.result for finding in findings for part in finding.measurements)


def write_experiment(result: Results, out: Path, with_bounds: bool, as_csv: bool) -> list[Path]:
    """Figure, tidy curves and final table of one experiment, and the paper's bounds beside its regrets."""
    name, table = result.experiment.name, result.table()
    paths = [
        *save(figures.draw(result), out / name),
        *write_curves(result, out, as_csv),
        write_csv(out / f"{name}.table.csv", table),
        write_json(out / f"{name}.table.json", table),
    ]
    if with_bounds and any("LinOtO" in setting.labels for setting in result.experiment.settings):
        curves = bounds.bound_curves(result)
        paths += save(figures.draw_bounds(result, curves), out / f"{name}.bounds")
        paths.append(write_csv(out / f"{name}.bounds.csv", (row for curve in curves for row in curve.rows())))
    return paths


def section(result: Results, written: Sequence[Path]) -> dict[str, Any]:
    """What the page shows of one experiment: figures with their captions, final values."""
    title = result.experiment.title or result.experiment.name
    pictures = [path for path in written if path.suffix == ".svg"]
    return {
        "name": result.experiment.name,
        "title": title,
        "pictures": [
            (inline(path.read_text("utf-8"), path.stem, title), caption)
            for path, caption in zip(pictures, (result.experiment.caption, BOUNDS), strict=False)
        ],
        "rows": result.final_rows(),
    }


def write_curves(result: Results, out: Path, as_csv: bool) -> list[Path]:
    """The tidy curves as Parquet, in a seventh of the time of CSV; that on request, or where it is there.

    Without pyarrow there is CSV alone.
    """
    parquet, text = (out / f"{result.experiment.name}{ending}" for ending in (".parquet", ".csv"))
    try:
        import pyarrow as arrow
        import pyarrow.parquet as files
    except ImportError:
        return [write_csv(text, result.rows())]
    groups = (joined(group) for group in groups_of(result.columns(), PART))
    first = arrow.table(next(groups))
    with files.ParquetWriter(parquet, first.schema) as writer:
        for part in chain([first], map(arrow.table, groups)):
            writer.write_table(part)
    return [parquet, write_csv(text, result.rows())] if as_csv or text.exists() else [parquet]


def joined(parts: Sequence[dict[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    """Columns below each other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def groups_of(parts: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """So many at a time."""
    left = iter(parts)
    while group := list(islice(left, size)):
        yield group


def write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Rows of equal keys, one at a time."""
    left = iter(rows)
    first = next(left)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(first), lineterminator="\n")
        writer.writeheader()
        writer.writerows(chain([first], left))
    return path


def write_json(path: Path, data: Any) -> Path:
    """Plain data, for other programs."""
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path
