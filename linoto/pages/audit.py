"""An audit as one page: what a log says, what it cannot say, and whether to build on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linoto.audit.audit import Audit
from linoto.audit.noise import arm_intervals
from linoto.audit.sentences import names_of
from linoto.core.certificates import Certificate
from linoto.core.hints import amount, as_sure_as
from linoto.pages.figures import audit as figures
from linoto.pages.figures.pieces import as_svg
from linoto.pages.shell import write_page

LISTED = 200  # arms in the table
ASSUMED = ("assumed", "promise: assumes", "promise: survives")
GATES = ("promise", "gate", "budget")  # what each gate promises, and which of them fits


def write_audit(
    path: Path,
    audit: Audit,
    estimates: Sequence[Sequence[dict[str, str]]] = (),
    *,
    cautions: Sequence[str] = (),
    source: str,
    command: str,
) -> Path:
    """Write the page; the same arguments write the same bytes.

    `estimates` are what the log's own model would earn, and have of each metric: tables of one row for each
    method, with `cautions` about them.
    """
    offline, unseen, certificate = audit.log.offline, audit.coverage.unseen, audit.certificate
    metrics = [(metric.guardrail.name, metric.facts()) for metric in audit.metrics]
    of_metrics = [fact for _, rows in metrics for fact in rows]
    facts, elsewhere = audit.facts(), ("verdict", "because", "note", *GATES)
    return write_page(
        path,
        "audit.html",
        title=f"Audit of {source}",
        command=command,
        audit=audit,
        offline=offline,
        seen=int((offline.pulls > 0).sum()),
        reasons=[sentence(reason) for reason in audit.reasons],
        notes=[sentence(note) for note in audit.notes],
        pictures=pictures(audit),
        assumed=[row for row in facts if row[0].startswith(ASSUMED)],
        found=[
            row
            for row in facts
            if row[0] not in elsewhere
            and not row[0].startswith((*ASSUMED, "promise"))
            and row not in of_metrics
        ],
        metrics=metrics,
        promise=[] if certificate is None else promise_rows(certificate, audit.horizon),
        gates=[row for row in facts if row[0] in GATES] if audit.several_gates else [],
        estimates=[(list(rows[0]), [list(found.values()) for found in rows]) for rows in estimates],
        cautions=[sentence(text) for text in cautions],
        arms=arm_rows(audit),
        never_pulled=f"; never pulled: {names_of(audit.log.arms.names, unseen)}" if unseen.size else "",
        named=figures.NAMED,
        most_arms=figures.MOST_ARMS,
        most_points=figures.MOST_POINTS,
        many_directions=audit.coverage.rank > figures.MOST_BARS,
        halves_left=audit.drift is not None and figures.shown_halves(audit).size < audit.drift.arms.size,
    )


def promise_rows(certificate: Certificate, rounds: int) -> list[tuple[str, str]]:
    """What is promised; what it assumes stands above it."""
    return [row for row in certificate.rows(rounds=rounds) if row[0] != "assumes"]


def sentence(text: str) -> str:
    """A reason, as a sentence."""
    return text[:1].upper() + text[1:] + "."


def pictures(audit: Audit) -> dict[str, str]:
    """The drawings by their titles; of drift and of the promise only where there is one."""
    drawn = {"Mean reward of each arm": figures.draw_means, "What the log knows": figures.draw_spectrum}
    if audit.drift is not None:
        drawn["Early against late"] = figures.draw_drift
    if audit.certificate is not None and np.isfinite(audit.certificate.possible):
        drawn["What is promised"] = figures.draw_promise
    return {
        title: as_svg(draw(audit), f"picture-{i}", title) for i, (title, draw) in enumerate(drawn.items())
    }


def arm_rows(audit: Audit) -> list[list[str]]:
    """Each arm's pulls, mean and interval, most pulled first; and what a linear model says of fixed arms."""
    pulls, names = audit.log.offline.pulls, audit.log.arms.names
    listed = np.argsort(-pulls, kind="stable")[:LISTED]
    offline, adaptive = audit.log.offline, audit.adaptive
    mean, low, high = arm_intervals(offline, audit.confidence, arms=listed, adaptive=adaptive)
    model = audit.means.fitted()
    rows = []
    for arm in listed:
        shown, least, most = as_sure_as(mean[arm], low[arm], high[arm])
        logged = [shown, f"{least} to {most}"] if pulls[arm] else ["–", "–"]
        fitted = [] if model is None else [amount(model[arm])]
        rows.append([names[arm], f"{pulls[arm]:,}", *logged, *fitted])
    return rows
