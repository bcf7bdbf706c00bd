"""An audit as one page: what a log says, what it cannot say, and whether to build on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linoto.audit.noise import arm_intervals
from linoto.audit.reasons import names_of
from linoto.audit.verdicts import Audit
from linoto.core.certificates import Certificate
from linoto.core.hints import amount, as_sure_as
from linoto.pages.figures import audit as figures
from linoto.pages.figures.pieces import as_svg
from linoto.pages.shell import write_page

LISTED = 200  # arms in the table


def write_audit(path: Path, audit: Audit, *, source: str, command: str) -> Path:
    """Write the page; the same arguments write the same bytes."""
    offline, unseen, certificate = audit.log.offline, audit.coverage.unseen, audit.certificate
    assumed, elsewhere = ("assumed", "promise: assumes", "promise: survives"), ("verdict", "because", "note")
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
        assumed=[row for row in audit.facts() if row[0].startswith(assumed)],
        found=[
            row
            for row in audit.facts()
            if row[0] not in elsewhere and not row[0].startswith(("promise", "assumed"))
        ],
        promise=[] if certificate is None else promise_rows(certificate, audit.horizon),
        arms=arm_rows(audit),
        never_pulled=f"; never pulled: {names_of(audit.log.arms.names, unseen)}" if unseen.size else "",
        named=figures.NAMED,
        most_arms=figures.MOST_ARMS,
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
    if audit.certificate is not None:
        drawn["What is promised"] = figures.draw_promise
    return {
        title: as_svg(draw(audit), f"picture-{i}", title) for i, (title, draw) in enumerate(drawn.items())
    }


def arm_rows(audit: Audit) -> list[list[str]]:
    """Each arm's pulls, mean and interval, most pulled first."""
    pulls, names = audit.log.offline.pulls, audit.log.arms.names
    listed = np.argsort(-pulls, kind="stable")[:LISTED]
    mean, low, high = arm_intervals(audit.log.offline, audit.confidence, arms=listed)
    model = figures.fitted(audit)
    rows = []
    for arm in listed:
        shown, least, most = as_sure_as(mean[arm], low[arm], high[arm])
        logged = [shown, f"{least} to {most}"] if pulls[arm] else ["–", "–"]
        rows.append([names[arm], f"{pulls[arm]:,}", *logged, amount(model[arm])])
    return rows
