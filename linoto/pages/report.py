"""Everything a run leaves behind: tidy curves, tables, figures, and one self-contained page."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from linoto.experiments import bounds
from linoto.experiments.claims import Finding
from linoto.experiments.results import Results, final_value
from linoto.pages import figures
from linoto.pages.shell import inline, shell

INTRODUCTION = (
    "Every policy meets the same actions, logs and noise. Curves are means over runs with one standard error "
    "shaded; numbers are mean ± standard error."
)
BOUNDS = (
    "LinOtO beside Theorem 1 and beside (alpha + 2) S t, which bounds R_t^off, both with their constants and "
    "averaged over the same worlds: dotted where a bound exceeds the largest regret any policy could have."
)
MANY = 20  # rows of a table from which it is folded
RULE = (
    "A claim puts one or more quantities into intervals. It holds if every quantity is surely inside its "
    "interval, does not hold if some quantity is surely outside, and is undecided otherwise. Surely: the "
    "mean difference over runs from the end of the interval exceeds its 95 % margin (Student’s t), or all of "
    "at least six runs agree. No correction is made for asking many questions."
)


def write_report(
    results: Sequence[Results],
    findings: Sequence[Finding],
    out: Path,
    *,
    title: str,
    command: str,
    with_bounds: bool = False,
) -> list[Path]:
    """Write every file of these experiments into a folder, `report.html` last."""
    out.mkdir(parents=True, exist_ok=True)
    paths, sections = [], []
    for result in results:
        written = write_experiment(result, out)
        pictures = {out / f"{result.experiment.name}.svg": result.experiment.caption}
        if with_bounds and any("LinOtO" in setting.labels for setting in result.experiment.settings):
            written += write_bounds(result, out)
            pictures[out / f"{result.experiment.name}.bounds.svg"] = BOUNDS
        sections.append(section(result, [(path.read_text("utf-8"), text) for path, text in pictures.items()]))
        paths += written
    if findings:
        paths.append(write_json(out / "claims.json", [finding.to_dict() for finding in findings]))
    html = page(title=title, command=command, results=results, findings=findings, sections=sections)
    paths.append(out / "report.html")
    paths[-1].write_text(html, encoding="utf-8")
    return paths


def write_experiment(result: Results, out: Path) -> list[Path]:
    """Figure, tidy curves and final table of one experiment."""
    name = result.experiment.name
    table = result.table()
    return [
        *figures.save(figures.draw(result), out / name),
        write_csv(out / f"{name}.csv", result.rows()),
        write_csv(out / f"{name}.table.csv", table),
        write_json(out / f"{name}.table.json", table),
    ]


def write_bounds(result: Results, out: Path) -> list[Path]:
    """The paper's bounds beside the measured regrets, as figure and table."""
    stem = f"{result.experiment.name}.bounds"
    curves = bounds.bound_curves(result)
    return [
        *figures.save(figures.draw_bounds(result, curves), out / stem),
        write_csv(out / f"{stem}.csv", (row for curve in curves for row in curve.rows())),
    ]


def write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Rows of equal keys, one at a time."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
    return path


def write_json(path: Path, data: Any) -> Path:
    """Plain data, for other programs."""
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


# -- the page ---------------------------------------------------------------------------------------------


def page(
    *,
    title: str,
    command: str,
    results: Sequence[Results],
    findings: Sequence[Finding],
    sections: Sequence[str],
) -> str:
    """One HTML page that needs nothing else."""
    runs, seed = results[0].runs, results[0].seed
    links = "".join(
        f'<li><a href="#{escape(result.experiment.name)}">{heading(result)}</a></li>' for result in results
    )
    claims = f'<li><a href="#claims">Claims</a></li>{links}' if findings else links
    body = f"""<h1>{escape(title)}</h1>
<p>{runs} {"run" if runs == 1 else "runs"}, seed {seed}. {INTRODUCTION}</p>
<pre><code>{escape(command)}</code></pre>
<nav><ul>{claims}</ul></nav>
{claims_section(findings, runs) if findings else ""}
{"".join(sections)}"""
    return shell(title=title, body=body, style=CLAIMS_CSS)


def heading(result: Results) -> str:
    """The title of an experiment, or its name."""
    return escape(result.experiment.title or result.experiment.name)


def claims_section(findings: Sequence[Finding], runs: int) -> str:
    """Every claim with its verdict; ours, which answer the paper's, are marked and counted only alone."""
    theirs = [finding for finding in findings if not finding.claim.ours]
    counts: Counter[str] = Counter(finding.verdict for finding in theirs or findings)
    asked = "What the paper says its experiments show" if theirs else "What we set out to show"
    summary = ", ".join(
        f'<span class="{verdict_class(verdict)}">{counts[verdict]} {words}</span>'
        for verdict, words in (
            ("holds", "hold"),
            ("does not hold", "do not hold"),
            ("undecided", "undecided"),
        )
    )
    rows = "".join(claim_row(finding) for finding in findings)
    return f"""<section id="claims">
<h2>Claims</h2>
<p>{asked}, in {sum(counts.values())} tests at {runs} runs: {summary}.</p>
<p class="note">{RULE}</p>
<table class="claims">
<thead><tr><th>Sentence</th><th>Measured</th><th>Verdict</th></tr></thead>
<tbody>{rows}</tbody>
</table>
</section>
"""


def claim_row(finding: Finding) -> str:
    """One claim: the sentence, the numbers, the verdict."""
    claim = finding.claim
    sentence = escape(claim.quote) if claim.ours else f"“{escape(claim.quote)}”"
    numbers = "".join(
        f'<li><span class="{verdict_class(part.verdict)}">{MARKS[part.verdict]}</span> '
        f"{escape(part.label)}: <b>{escape(str(part))}</b> "
        f'<span class="note">(claimed: {escape(part.wanted)})</span></li>'
        for part in finding.measurements
    )
    return (
        f'<tr id="{escape(claim.name)}"{" class=ours" if claim.ours else ""}>'
        f'<td>{sentence}<div class="note">{escape(claim.source)} · '
        f'<a href="#{escape(claim.experiment)}">{escape(claim.experiment)}</a></div></td>'
        f'<td><div class="note">{escape(claim.measure)}</div><ul class="numbers">{numbers}</ul></td>'
        f'<td><span class="verdict {verdict_class(finding.verdict)}">{finding.verdict}</span></td></tr>\n'
    )


def verdict_class(verdict: str) -> str:
    """The CSS class of a verdict."""
    return verdict.replace(" ", "-")


def section(result: Results, pictures: Sequence[tuple[str, str]]) -> str:
    """One experiment: figures with their captions, final table."""
    name = escape(result.experiment.name)
    shown = "".join(
        f"<p>{escape(caption)}</p>\n"
        f'<div class="figure">{inline(svg, f"{name}-{index}", heading(result))}</div>\n'
        for index, (svg, caption) in enumerate(pictures)
    )
    return f"""<section id="{name}">
<h2>{heading(result)}</h2>
{shown}{final_table(result)}
</section>
"""


def final_table(result: Results) -> str:
    """Final values, mean ± standard error."""
    columns = {
        "regret": "regret R<sub>n</sub>",
        "offline_regret": "R<sub>n</sub><sup>off</sup>",
        "worst_offline_regret": "largest R<sub>t</sub><sup>off</sup>",
        "explored": "explored",
    }
    head = "".join(f"<th>{name}</th>" for name in ("setting", "policy", *columns.values()))
    rows = result.table()
    body = "".join(
        f"<tr><td>{escape(row['setting'])}</td><td>{escape(row['policy'])}</td>"
        + "".join(f"<td>{final_value(row, name)}</td>" for name in columns)
        + "</tr>\n"
        for row in rows
    )
    return (
        f"<details{' open' if len(rows) <= MANY else ''}><summary>Final values</summary>"
        f'<div class="scroll"><table class="final">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}

CLAIMS_CSS = """.claims { width: 100%; }
.claims td:first-child { width: 40%; }
.claims .ours td:first-child { padding-left: 1.2rem; }
.numbers { list-style: none; margin: .1rem 0; padding: 0; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 700; white-space: nowrap; }
.holds { color: var(--good); } .does-not-hold { color: var(--bad); } .undecided { color: var(--open); }
@media (max-width: 44rem) {
  .claims thead { display: none; }
  .claims tr { display: block; padding: .7rem 0; border-bottom: 1px solid var(--line); }
  .claims td, .claims td:first-child { display: block; width: auto; border: 0; padding: .15rem 0; }
}
"""
