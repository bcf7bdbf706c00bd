"""The figures of a preview: what is lost and gained against the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.hints import amount
from linoto.pages.figures.pieces import (
    COLOURS,
    number,
    panel,
    plain_log_ticks,
    plain_numbers,
    styled,
    with_legend,
)
from linoto.worlds.outcomes import quantile, worlds_shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linoto.worlds.gates import GatePreview
    from linoto.worlds.preview import Preview

PARAMETERS = {
    "epsilon": "tolerance per round ({unit})",
    "budget": "budget in all rounds ({unit})",
    "alpha": "the paper's parameter (alpha)",
}
SHARES = {
    "epsilon": "tolerance per round (share of the log's average)",
    "budget": "budget (rounds of the log's average)",
}
ABREAST = 24  # letters of the numbers below a panel; where there are more, they are slanted
WIDE = 5  # letters of a number in a legend, of which four fit abreast
FEW_DECADES = 100  # rounds up to which an axis of powers of ten would have one number, or two
BLACK: dict[str, Any] = {"color": "#000000", "linewidth": 1.0}


def draw_all(preview: Preview, limit: float | None, unit: str) -> dict[str, Figure]:
    """Every figure of the page by what it shows: over the grid, or over worlds where one value was tried."""
    unit = unit.replace("$", r"\$")  # no formula
    if len(preview.points) == 1:
        return {"gain and largest shortfall in each world": draw_cloud(preview, limit, unit)}
    name = parameter_name(preview, unit)
    return {
        "gain at the end against the largest shortfall": draw_tradeoff(preview, limit, unit),
        "largest shortfall seen and guaranteed": draw_losses(preview, limit, unit),
        "share of exploring rounds": draw_share(preview, name),
        "round of the first exploration": draw_first(preview, name),
    }


def parameter_name(preview: Preview, unit: str) -> str:
    """The parameter with its unit."""
    if getattr(preview.policy.composed().gate, "relative", False):
        return SHARES[preview.parameter]
    return PARAMETERS[preview.parameter].format(unit=unit)


def no_better(preview: Preview) -> str:
    """What the second kind of worlds is called in a legend."""
    return f"no {'other' if preview.rounds_from else 'untried'} arm is better"


@styled()
def draw_cloud(preview: Preview, limit: float | None, unit: str) -> Figure:
    """One point per world: the gain at the end against the largest shortfall on the way."""
    (point,) = preview.points
    figure, axes = panel(extra=0.3)
    axes.plot(point.worst_loss, -point.final_loss, "o", color=COLOURS["Gated"], alpha=0.7, label="a world")
    low, high = (quantile(-point.final_loss, q) for q in (0.1, 0.9))
    axes.axhspan(
        low, high, color=COLOURS["Gated"], alpha=0.12, linewidth=0, label=worlds_shown(8, preview.worlds)
    )
    most = float(point.worst_loss.max())
    for other in preview.no_better or ():
        look: dict[str, Any] = {"color": COLOURS["Gated"], "markerfacecolor": "none", "alpha": 0.7}
        axes.plot(other.worst_loss, -other.final_loss, "o", **look, label=no_better(preview))
        most = max(most, float(other.worst_loss.max()))
    finish_tradeoff(axes, preview, limit, most, unit)
    axes.set_xlabel(f"largest shortfall below {preview.baseline}\n({unit})")
    return with_legend(figure)


@styled()
def draw_tradeoff(preview: Preview, limit: float | None, unit: str) -> Figure:
    """The gain at the end against the largest shortfall on the way in nine worlds of ten."""
    import matplotlib as mpl

    rows = preview.table()
    figure, axes = panel(extra=0.3)
    shortfall, gain = column(rows, "worst_loss_90"), column(rows, "gain_mean")
    axes.plot(shortfall, gain, color="#8d96a3", linewidth=0.8, zorder=1)
    colours = mpl.colormaps["viridis"](np.linspace(0.15, 0.9, len(rows)))
    for row, colour in zip(rows, colours, strict=True):
        draw_cross(axes, row, colour)
    most = float(shortfall.max())
    if preview.no_better is not None:
        lost, ends = column(rows, "no_better_worst_loss_90"), column(rows, "no_better_gain_mean")
        for place, colour in enumerate(colours):
            axes.plot(lost[place], ends[place], "o", color=colour, markerfacecolor="none", markersize=5.5)
        most = max(most, float(lost.max()))
    finish_tradeoff(axes, preview, limit, most, unit)
    axes.set_xlabel(
        f"largest shortfall below {preview.baseline},\n{worlds_shown(9, preview.worlds)} ({unit})"
    )
    widest = max(len(amount(row["knob"])) for row in rows)
    return with_legend(figure, columns=4 if widest <= WIDE else 3, title=parameter_name(preview, unit))


def finish_tradeoff(axes: Axes, preview: Preview, limit: float | None, most: float, unit: str) -> None:
    """The limit where it is near, the line of no gain where it is inside, and what is on the axes."""
    if limit is not None and limit <= 2 * most:
        axes.axvline(limit, **BLACK, linestyle="--", label="your limit")
    if axes.get_ylim()[0] < 0:
        axes.axhline(0, **BLACK)
    axes.set_xlim(left=0)
    number(axes.xaxis)
    number(axes.yaxis)
    axes.set_ylabel(f"gain over {preview.baseline}\nat the end ({unit})")


@styled()
def draw_losses(preview: Preview, limit: float | None, unit: str) -> Figure:
    """The largest shortfall below the log, and what is guaranteed, against the parameter."""
    rows = preview.table()
    figure, axes = panel(extra=0.3)
    bands = (column(rows, f"worst_loss_{part}") for part in ("10", "50", "90"))
    draw_band(axes, preview, *bands, label=f"median, {worlds_shown(8, preview.worlds)}")
    dotted: dict[str, Any] = {"color": COLOURS["Gated"], "linewidth": 1.0, "linestyle": ":"}
    axes.plot(column(rows, "worst_loss_max"), **dotted, label="worst world")
    if preview.no_better is not None:
        dashed: dict[str, Any] = {"color": COLOURS["no gate"], "linewidth": 1.2, "linestyle": "--"}
        axes.plot(column(rows, "no_better_worst_loss_90"), **dashed, label=no_better(preview))
    guaranteed = column(rows, "guaranteed_loss")
    if np.isfinite(guaranteed).any():
        axes.plot(guaranteed, color=COLOURS["LinOtO"], marker="s", markersize=4, label="guaranteed")
    if limit is not None:
        axes.axhline(limit, **BLACK, linestyle="--", label="your limit")
    to_scale = most_of_a_round(preview)
    axes.set_yscale("symlog", linthresh=to_scale)
    axes.set_ylim(0, 2 * axes.get_ylim()[1])  # the highest point is not cut
    marks = [at for at in axes.get_yticks() if to_scale <= at <= axes.get_ylim()[1]]
    if marks:
        axes.set_yticks([0.0, *marks])  # none upon the other
    else:
        axes.set_yscale("linear")  # nothing is beyond what is drawn to scale
        axes.set_ylim(bottom=0)
    plain_numbers(axes)
    axes.set_xlabel(parameter_name(preview, unit))
    axes.set_ylabel(f"largest shortfall\nbelow {preview.baseline} ({unit})")
    return with_legend(figure)


def most_of_a_round(preview: Preview) -> float:
    """A power of ten that no round can lose, up to which losses are drawn to scale; 1 without an end."""
    low, high = preview.points[0].certificate.reward_range
    return float(10.0 ** np.ceil(np.log10(high - low))) if 0.0 < high - low < np.inf else 1.0


@styled()
def draw_share(preview: Preview, name: str) -> Figure:
    """The share of exploring rounds against the parameter."""
    figure, axes = panel()
    bands = (100 * column(preview.table(), name) for name in ("explored_10", "explored", "explored_90"))
    draw_band(axes, preview, *bands, label=f"mean, {worlds_shown(8, preview.worlds)}")
    axes.set(ylim=(0, 104), xlabel=name, ylabel="exploring rounds (%)")
    return with_legend(figure)


@styled()
def draw_first(preview: Preview, name: str) -> Figure:
    """The round of the first exploration against the parameter."""
    figure, axes = panel()
    bands = (column(preview.table(), f"first_explored{part}") for part in ("_10", "", "_90"))
    draw_band(axes, preview, *bands, label=f"median, {worlds_shown(8, preview.worlds)}")
    if all(point.explored.any() for point in preview.points):
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.9)  # there is no round before the first
        if axes.get_ylim()[1] <= FEW_DECADES:
            plain_log_ticks(axes)
    plain_numbers(axes)
    axes.set(xlabel=name, ylabel="round of the first exploration")
    return with_legend(figure)


@styled()
def draw_gates(gates: GatePreview, unit: str) -> Figure:
    """A point for each world: the largest shortfall behind each gate, standing still and moving."""
    figure, axes = panel(extra=0.3)
    limit, unit = gates.limit.loss(gates.horizon) or 0.0, unit.replace("$", r"\$")
    for place, outcome in enumerate(gates.outcomes):
        colour = COLOURS[outcome.gate]
        for side, point, look in ((-0.18, outcome.still, "none"), (0.18, outcome.moving, colour)):
            apart = side + 0.24 * (np.arange(gates.worlds) / max(gates.worlds - 1, 1) - 0.5)
            dots: dict[str, Any] = {"color": colour, "markerfacecolor": look, "markersize": 4, "alpha": 0.8}
            axes.plot(place + apart, point.worst_loss, "o", **dots)
    for label, look in (("standing still", "none"), ("moving", "#555555")):
        axes.plot([], [], "o", color="#555555", markerfacecolor=look, markersize=4, label=label)
    axes.axhline(limit, **BLACK, linestyle="--", label="limit")
    axes.set_yscale("symlog", linthresh=limit / 10 if limit else 1.0)
    axes.set_ylim(0, 1.5 * axes.get_ylim()[1])  # the highest point is not cut
    plain_numbers(axes)
    axes.set_xticks(range(len(gates.outcomes)), [outcome.gate for outcome in gates.outcomes])
    axes.set_ylabel(f"largest shortfall below\ncurrent practice ({unit})")
    return with_legend(figure, columns=3)


def draw_band(axes: Axes, preview: Preview, low: Floats, middle: Floats, high: Floats, *, label: str) -> None:
    """A line with a band over the values of the parameter, side by side: zero may be among them."""
    colour, places = COLOURS["Gated"], np.arange(middle.size)
    axes.plot(places, middle, color=colour, marker="o", markersize=4, label=label, linewidth=1.6)
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    labels = [amount(point.value) for point in preview.points]
    axes.set_xticks(places, labels)
    if places.size > 6:
        axes.tick_params(axis="x", labelsize=8)
    if sum(map(len, labels)) > ABREAST:
        axes.set_xticks(places, labels, rotation=35, ha="right", rotation_mode="anchor")


def draw_cross(axes: Axes, row: dict[str, Any], colour: Any) -> None:
    """One value: mean gain, the loss that nine worlds of ten keep to, bars over eight worlds of ten."""
    x, y = row["worst_loss_90"], row["gain_mean"]
    left = [[x - row["worst_loss_10"]], [0.0]]
    around = [[max(y - row["gain_10"], 0.0)], [max(row["gain_90"] - y, 0.0)]]
    look: dict[str, Any] = {"fmt": "o", "markersize": 5.5, "color": colour, "ecolor": (*colour[:3], 0.4)}
    axes.errorbar(x, y, xerr=left, yerr=around, label=amount(row["knob"]), **look)


def column(rows: Sequence[dict[str, Any]], name: str) -> Floats:
    """One column of a table, NaN where there is nothing."""
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)
