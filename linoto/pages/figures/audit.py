"""The figures of an audit: arms, directions, the two halves of the log, and what is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.audit.audit import Audit
from linoto.audit.noise import arm_intervals
from linoto.core.arrays import Ints
from linoto.pages.figures.pieces import COLOURS, panel, styled, with_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ARMS = 40  # in the picture of means: those pulled most often
MOST_BARS = 200  # directions with a bar of their own; of more, as many steps
MOST_POINTS = 500  # arms in the picture of early and late: those pulled most often, and so many that changed
NAMED = 25  # arms that the page lists without being asked
DATA, MODEL, MOVED, GREY = "#00798c", "#edae49", "#d1495b", "#8d96a3"


@styled()
def draw_means(audit: Audit) -> Figure:
    """Arm means with intervals, the model's values, and the reference."""
    arms, offline = shown_arms(audit), audit.log.offline
    intervals = arm_intervals(offline, audit.confidence, arms=arms, adaptive=audit.adaptive)
    mean, low, high = (values[arms] for values in intervals)
    figure, axes = panel(extra=0.13 * arms.size)
    place = np.arange(arms.size)
    look: dict[str, Any] = {"fmt": "o", "markersize": 3.5, "linewidth": 1.2, "color": DATA}
    axes.errorbar(mean, place, xerr=np.abs([mean - low, high - mean]), label="logged mean", **look)
    if (model := audit.means.fitted()) is not None:
        axes.plot(model[arms], place, "x", color=MODEL, markersize=5, label="linear model")
    axes.axvline(offline.reference, color="#000000", linestyle=":", linewidth=1, label="reference")
    axes.set_xlabel("reward")
    axes.set_yticks(place, [shortened(audit.log.arms.names[arm]) for arm in arms])
    return with_legend(figure, columns=3)


@styled()
def draw_spectrum(audit: Audit) -> Figure:
    """Eigenvalues of the logged design, largest first."""
    values = audit.coverage.eigenvalues[::-1]
    known = audit.coverage.rank
    figure, axes = panel()
    if known <= MOST_BARS:
        axes.bar(np.arange(1, known + 1), values[:known], color=DATA, width=0.8)
    else:  # one line around all of them: thousands of bars are thinner than a pixel
        ends = np.linspace(0, known, MOST_BARS + 1).round().astype(np.int64)
        axes.stairs(values[ends[:-1]], ends + 0.5, fill=True, color=DATA)
    axes.set(yscale="log", xlim=(0.3, values.size + 0.7))
    if known:  # three decades at least: a bar that begins just below its end says nothing of its height
        axes.set_ylim(min(values[known - 1] / 10, values[0] / 1000), 2 * values[0])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="direction, best known first", ylabel="squared length of pulls")
    return figure


@styled()
def draw_drift(audit: Audit) -> Figure:
    """Early against late means, sized by pulls."""
    drift = audit.drift
    assert drift is not None  # only drawn where there is one
    shown = shown_halves(audit)
    pulls = audit.log.offline.pulls[drift.arms[shown]]
    changed = np.isin(drift.arms[shown], drift.moved)
    both = np.array([drift.early[shown], drift.late[shown]])
    figure, axes = panel()
    axes.plot([both.min(), both.max()], [both.min(), both.max()], color=GREY, linewidth=1)
    sizes = 6 + 60 * pulls / pulls.max()
    for part, colour, label in ((~changed, DATA, "no sure change"), (changed, MOVED, "changed for sure")):
        if part.any():
            axes.scatter(*both[:, part], s=sizes[part], color=colour, alpha=0.7, label=label)
    axes.set(xlabel="mean reward, early", ylabel="mean reward, late")
    return with_legend(figure)


@styled()
def draw_promise(audit: Audit) -> Figure:
    """The promised limit of the shortfall below the log, and the most that any play could lose."""
    certificate = audit.certificate
    assert certificate is not None and certificate.per_round is not None  # only drawn where it holds
    horizon = max(audit.horizon, 10)
    rounds = np.linspace(0, horizon, 50)
    promised = certificate.per_round * rounds + (certificate.constant or 0.0)
    worst = (certificate.reference_interval[1] - certificate.reward_range[0]) * rounds
    figure, axes = panel()
    axes.plot(rounds, worst, color=GREY, linestyle="--", label="without a gate")
    axes.plot(rounds, promised, color=COLOURS["Gated"], label="promised at most")
    axes.set(xlim=(0, horizon), ylim=(0, None))
    below = audit.means.centre.baseline
    axes.set(xlabel="online round $t$", ylabel=f"shortfall below {below} (rewards)")
    return with_legend(figure)


def shown_arms(audit: Audit) -> Ints:
    """The logged arms in the picture, worst first."""
    offline = audit.log.offline
    seen = np.flatnonzero(offline.pulls > 0)
    most = seen[np.argsort(-offline.pulls[seen], kind="stable")[:MOST_ARMS]]
    means = offline.reward_sums[most] / offline.pulls[most]
    return np.asarray(most[np.argsort(means, kind="stable")])


def shown_halves(audit: Audit) -> Ints:
    """The places, among arms pulled in both halves, of those in the picture: most pulled, and changed."""
    drift = audit.drift
    assert drift is not None  # only asked for where there is one
    most = np.argsort(-audit.log.offline.pulls[drift.arms], kind="stable")
    changed = np.isin(drift.arms[most], drift.moved)
    return np.sort(np.concatenate([most[~changed][:MOST_POINTS], most[changed][:MOST_POINTS]]))


def shortened(name: str) -> str:
    """A name that leaves room for the picture; no mathematics in it."""
    return (name if len(name) <= 18 else name[:17] + "…").replace("$", r"\$")
