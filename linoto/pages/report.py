"""Everything a run leaves behind: tidy curves, tables, figures, and one self-contained page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

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
MANY = 20  # rows of a table from which it is folded


def write_report(
    results: Sequence[Results],
    findings: Sequence[CheckedClaim],
    out: Path,
    *,
    title: str,
    command: str,
    with_bounds: bool = False,
) -> list[Path]:
    """Write every file of these experiments into a folder, `report.html` last."""
    out.mkdir(parents=True, exist_ok=True)
    written = [write_experiment(result, out, with_bounds) for result in results]
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


def write_experiment(result: Results, out: Path, with_bounds: bool) -> list[Path]:
    """Figure, tidy curves and final table of one experiment, and the paper's bounds beside its regrets."""
    name, table = result.experiment.name, result.table()
    paths = [
        *save(figures.draw(result), out / name),
        write_csv(out / f"{name}.csv", result.rows()),
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
