"""An audit as one page: what a log says, what it cannot say, and whether to build on it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.audit import arm_intervals, regress, some
from linoto.audit.verdicts import UNTRUSTED, Audit
from linoto.core.kernels import Floats
from linoto.pages import figures
from linoto.pages.shell import inline, shell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ARMS = 40  # in the picture of means: those pulled most often
NAMED = 25  # arms whose names fit beside their means
LISTED = 200  # arms in the table
DATA, MODEL, MOVED, GREY = "#00798c", "#edae49", "#d1495b", "#8d96a3"
COLOURS = {"deploy": "good", "deploy with arm effects": "open", "do not trust": "bad"}
MEANING = {
    "deploy": "The log supports a linear model with these assumptions.",
    "deploy with arm effects": "The log is sound, but the features do not explain the rewards: start again "
    "with <code>--arm-effects</code>.",
    "do not trust": "A promise built on this log would rest on something that the log contradicts, "
    "or cannot tell.",
}


def write_page(path: Path, audit: Audit, *, source: str, command: str) -> Path:
    """Write the page; the same arguments write the same bytes."""
    body = "\n".join(
        (
            headline(audit, source),
            pictures(audit),
            facts_section(audit),
            certificate_section(audit),
            arms_section(audit),
            f"<section><h2>To have this page again</h2><pre><code>{escape(command)}</code></pre></section>",
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shell(title=f"Audit of {source}", body=body, style=STYLE), encoding="utf-8")
    return path


def headline(audit: Audit, source: str) -> str:
    """The verdict and its reasons first."""
    reasons = "".join(f"<li>{escape(sentence(reason))}</li>" for reason in audit.reasons)
    notes = "".join(f"<li>{escape(sentence(note))}</li>" for note in audit.notes)
    aside = f'<h3>Worth knowing</h3><ul class="notes">{notes}</ul>' if notes else ""
    offline = audit.log.offline
    return f"""<h1>Audit of {escape(source)}</h1>
<p>{offline.total:,} rewards of {int((offline.pulls > 0).sum()):,} arms out of {offline.pulls.size:,}.</p>
<div class="box {COLOURS[audit.verdict]}"><strong>{escape(audit.verdict.capitalize())}.</strong>
{MEANING[audit.verdict]}<ul>{reasons}</ul></div>
{aside}"""


def sentence(text: str) -> str:
    """A reason, as a sentence."""
    return text[:1].upper() + text[1:] + "."


# -- pictures ---------------------------------------------------------------------------------------------


def pictures(audit: Audit) -> str:
    """Four drawings with what to look for in each."""
    drawn: list[tuple[Figure, str, str, str]] = [
        (
            draw_means(audit),
            "means",
            "Mean reward of each arm",
            "What each arm earned, with its 95 % interval, and what a linear model says it earns. Crosses "
            "outside many of the intervals mean that the features miss something."
            + (f" The {MOST_ARMS} arms pulled most." if shown_arms(audit).size == MOST_ARMS else ""),
        ),
        (
            draw_spectrum(audit),
            "spectrum",
            "What the log knows",
            "How much the log looked into each direction of the feature space, in squared length of all its "
            "pulls. A missing bar is a direction it says nothing about.",
        ),
    ]
    if audit.drift is not None:
        text = (
            f"Each point is an arm pulled in both halves (by {escape(audit.log.split)}); on the line nothing "
            "changed. Larger points were pulled more often, red ones changed for sure."
        )
        drawn.append((draw_drift(audit), "drift", "Early against late", text))
    if audit.certificate is not None:
        text = (
            f"The most that a tolerance of {audit.epsilon:g} may lose below the log, and what a policy "
            "without any safety could lose."
        )
        drawn.append((draw_promise(audit), "promise", "What is promised", text))
    cells = "".join(
        f'<div><h3>{title}</h3><div class="figure">{as_svg(figure, prefix, title)}</div>'
        f'<p class="note">{text}</p></div>'
        for figure, prefix, title, text in drawn
    )
    return f'<section><h2>In pictures</h2><div class="pictures">{cells}</div></section>'


def as_svg(figure: Figure, prefix: str, label: str) -> str:
    """A figure as part of the page."""
    buffer = StringIO()
    with figures.styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return inline(buffer.getvalue(), prefix, label)


def shown_arms(audit: Audit) -> Any:
    """The logged arms in the picture, worst first."""
    offline = audit.log.offline
    seen = np.flatnonzero(offline.pulls > 0)
    most = seen[np.argsort(-offline.pulls[seen], kind="stable")[:MOST_ARMS]]
    means = offline.reward_sums[most] / offline.pulls[most]
    return most[np.argsort(means, kind="stable")]


def fitted(audit: Audit) -> Floats:
    """(k,) what least squares on the features says of each arm."""
    offline, actions = audit.log.offline, audit.log.arms.features
    return np.asarray(actions @ regress(actions, offline).theta)


def draw_means(audit: Audit) -> Figure:
    """Arm means with intervals, the model's values, and the reference."""
    arms, offline = shown_arms(audit), audit.log.offline
    mean, low, high = arm_intervals(offline)
    with figures.styled():
        figure, rows = figures.panels(1, 1, extra=0.11 * min(arms.size, MOST_ARMS))
        axes = rows[0][0]
        place = np.arange(arms.size)
        errors = np.abs(np.array([mean[arms] - low[arms], high[arms] - mean[arms]]))
        style = {"fmt": "o", "markersize": 3.5, "linewidth": 1.2}
        axes.errorbar(mean[arms], place, xerr=errors, color=DATA, label="logged mean", **style)
        axes.plot(fitted(audit)[arms], place, "x", color=MODEL, markersize=5, label="linear model")
        axes.axvline(offline.reference, color="#000000", linestyle=":", linewidth=1, label="reference")
        names = [audit.log.arms.names[arm] for arm in arms]
        axes.set_yticks(*((place, list(map(shortened, names))) if arms.size <= NAMED else ([], [])))
        figures.label_axes(axes, xlabel="reward", ylabel="" if arms.size <= NAMED else "arms, by mean")
        return figures.with_legend(figure, rows, columns=3)


def shortened(name: str) -> str:
    """A name that leaves room for the picture; no mathematics in it."""
    return (name if len(name) <= 14 else name[:13] + "…").replace("$", r"\$")


def draw_spectrum(audit: Audit) -> Figure:
    """Eigenvalues of the logged design, largest first."""
    values = audit.coverage.eigenvalues[::-1]
    known = np.arange(values.size) < audit.coverage.rank
    with figures.styled():
        figure, rows = figures.panels(1, 1)
        axes = rows[0][0]
        axes.bar(np.arange(1, values.size + 1)[known], values[known], color=DATA, width=0.8)
        axes.set(yscale="log", xlim=(0.3, values.size + 0.7))
        figures.label_axes(axes, xlabel="direction, best known first", ylabel="squared length of pulls")
        return figure


def draw_drift(audit: Audit) -> Figure:
    """Early against late means, sized by pulls."""
    drift, offline = audit.drift, audit.log.offline
    assert drift is not None  # only drawn where there is one
    pulls = offline.pulls[drift.arms]
    moved = np.isin(drift.arms, drift.moved)
    ends = [float(min(drift.early.min(), drift.late.min())), float(max(drift.early.max(), drift.late.max()))]
    with figures.styled():
        figure, rows = figures.panels(1, 1)
        axes = rows[0][0]
        axes.plot(ends, ends, color=GREY, linewidth=1)
        sizes = 6 + 60 * pulls / pulls.max()
        for part, colour, label in ((~moved, DATA, "steady"), (moved, MOVED, "changed for sure")):
            if part.any():
                axes.scatter(
                    drift.early[part], drift.late[part], s=sizes[part], color=colour, alpha=0.7, label=label
                )
        figures.label_axes(axes, xlabel="mean reward, early", ylabel="mean reward, late")
        return figures.with_legend(figure, rows)


def draw_promise(audit: Audit) -> Figure:
    """The promised limit on the loss over rounds, and the most any play could lose."""
    certificate = audit.certificate
    assert certificate is not None and certificate.per_round is not None  # only drawn where it holds
    horizon = max(audit.log.offline.total, 10)
    rounds = np.linspace(0, horizon, 50)
    promised = certificate.per_round * rounds + (certificate.constant or 0.0)
    worst = (certificate.reference_interval[1] - certificate.reward_range[0]) * rounds
    with figures.styled():
        figure, rows = figures.panels(1, 1)
        axes = rows[0][0]
        axes.plot(rounds, worst, color=GREY, linestyle="--", label="without a gate")
        axes.plot(rounds, promised, color=figures.COLOURS["Gated"], label="promised at most")
        axes.set(xlim=(0, horizon), ylim=(0, None))
        figures.label_axes(axes, xlabel="online round $t$", ylabel="reward lost below the log")
        return figures.with_legend(figure, rows)


# -- tables -----------------------------------------------------------------------------------------------


def facts_section(audit: Audit) -> str:
    """Everything that was found, line by line."""
    skipped = ("verdict", "because", "note")
    rows = [(name, text) for name, text in audit.facts() if name not in skipped]
    rows = [(name, text) for name, text in rows if not name.startswith("promise")]
    return f"<section><h2>What was found</h2>{table_of(rows)}</section>"


def certificate_section(audit: Audit) -> str:
    """The promise, and what it leans on."""
    if audit.certificate is None:
        return "<section><h2>The promise</h2><p>There is none: see the reasons above.</p></section>"
    rounds = max(audit.log.offline.total, 1)
    caution = "" if audit.verdict == "deploy" else f"<p><strong>{sentence(f'It {UNTRUSTED}')}</strong></p>"
    return f"""<section><h2>The promise, with a tolerance of {audit.epsilon:g}</h2>
<p>What is guaranteed before the first round. If one of its assumptions does not hold where you work, neither
does the guarantee.</p>{caution}{table_of(audit.certificate.rows(rounds=rounds))}</section>"""


def table_of(rows: Sequence[tuple[str, str]]) -> str:
    """Names and texts side by side."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>\n" for name, text in rows)
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def arms_section(audit: Audit) -> str:
    """Each arm's pulls, mean and interval."""
    offline, names = audit.log.offline, audit.log.arms.names
    mean, low, high = arm_intervals(offline)
    model = fitted(audit)
    order = np.argsort(-offline.pulls, kind="stable")[:LISTED]
    rows = "".join(
        f"<tr><td>{escape(names[arm])}</td><td>{offline.pulls[arm]:,}</td>"
        + (
            f"<td>{mean[arm]:.4g}</td><td>{low[arm]:.4g} to {high[arm]:.4g}</td>"
            if offline.pulls[arm]
            else "<td>–</td><td>–</td>"
        )
        + f"<td>{model[arm]:.4g}</td></tr>\n"
        for arm in order
    )
    more = names_left(audit, order.size)
    return f"""<section><h2>The arms</h2><details{" open" if order.size <= NAMED else ""}>
<summary>{order.size} of {len(names):,} arms, most pulled first{more}</summary>
<div class="scroll"><table class="arms"><thead><tr><th>arm</th><th>pulls</th><th>mean</th>
<th>95 % interval</th><th>linear model</th></tr></thead><tbody>{rows}</tbody></table></div></details>
</section>"""


def names_left(audit: Audit, shown: int) -> str:
    """Which arms were never pulled."""
    unseen = audit.coverage.unseen
    return f"; never pulled: {escape(some(audit.log.arms.names, unseen))}" if unseen.size and shown else ""


STYLE = """
h3 { font-size: 1rem; margin: .8rem 0 .2rem; }
.box { border-left: 5px solid var(--line); background: var(--box); border-radius: 6px; padding: .8rem 1.1rem;
  max-width: 56rem; }
.box.good { border-color: var(--good); } .box.open { border-color: var(--open); }
.box.bad { border-color: var(--bad); }
.box ul { margin: .4rem 0 0; padding-left: 1.2rem; } .notes { max-width: 56rem; padding-left: 1.2rem; }
.pictures { display: grid; gap: 1rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.facts th { padding-right: 1.4rem; } .facts td { max-width: 46rem; overflow-wrap: anywhere; }
.arms td { font-variant-numeric: tabular-nums; white-space: nowrap; }
.arms td:not(:first-child), .arms th:not(:first-child) { text-align: right; padding-left: 1rem; }
@media (max-width: 44rem) { .facts th, .facts td { display: block; border: 0; padding: .1rem 0;
  white-space: normal; }
  .facts tr { display: block; padding: .4rem 0; border-bottom: 1px solid var(--line); } }
"""
