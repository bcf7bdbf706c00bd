"""The audit of a log with contexts as one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linoto.audit.context_findings import shares_changed
from linoto.audit.contexts import ContextAudit
from linoto.audit.noise import arm_intervals
from linoto.core.hints import as_sure_as
from linoto.pages.audit import sentence
from linoto.pages.figures.audit import draw_drift, draw_spectrum
from linoto.pages.figures.pieces import as_svg
from linoto.pages.shell import write_page

LISTED = 200  # items in the table


def write_context_audit(
    path: Path,
    audit: ContextAudit,
    estimates: Sequence[dict[str, str]],
    *,
    cautions: Sequence[str] = (),
    source: str,
    command: str,
) -> Path:
    """Write the page; the same arguments write the same bytes."""
    elsewhere = ("verdict", "because")
    drawn = {"What the log knows": draw_spectrum}
    if audit.drift is not None:
        drawn["Early against late"] = draw_drift
    return write_page(
        path,
        "contexts.html",
        title=f"Audit of {source}",
        command=command,
        audit=audit,
        reasons=[sentence(reason) for reason in audit.reasons],
        pictures={
            title: as_svg(draw(audit), f"picture-{place}", title)
            for place, (title, draw) in enumerate(drawn.items())
        },
        found=[row for row in audit.facts() if row[0] not in elsewhere],
        heads=list(estimates[0]) if estimates else [],
        estimates=[list(found.values()) for found in estimates],
        cautions=[sentence(text) for text in cautions],
        items=item_rows(audit),
    )


def item_rows(audit: ContextAudit) -> list[list[str]]:
    """Each item's plays, mean and interval, most played first."""
    offline, names = audit.log.offline, audit.log.recipe.items
    listed = np.argsort(-offline.pulls, kind="stable")[:LISTED]
    adaptive = shares_changed(audit.log)
    mean, low, high = arm_intervals(offline, audit.confidence, arms=listed, adaptive=adaptive)
    rows = []
    for item in listed[offline.pulls[listed] > 0]:
        shown, least, most = as_sure_as(mean[item], low[item], high[item])
        rows.append([names[item], f"{offline.pulls[item]:,}", shown, f"{least} to {most}"])
    return rows
