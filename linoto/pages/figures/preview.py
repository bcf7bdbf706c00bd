"""The figures of a preview: what is lost and gained against the parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.kernels import Floats
from linoto.pages.figures.pieces import COLOURS, panel, plain_numbers, styled, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linoto.worlds.preview import Preview

PARAMETERS = {
    "epsilon": "tolerance per round (epsilon)",
    "budget": "budget in all rounds together",
    "alpha": "the paper's parameter (alpha)",
}
BLACK: dict[str, Any] = {"color": "#000000", "linewidth": 1.0}


@styled()
def draw_tradeoff(preview: Preview, limit: float | None = None) -> Figure:
    """The gain at the end against the largest shortfall on the way in nine worlds of ten."""
    import matplotlib as mpl

    rows = preview.table()
    figure, axes = panel(extra=0.3)
    shortfall, gain = column(rows, "worst_loss_90"), column(rows, "gain_mean")
    axes.plot(shortfall, gain, color="#8d96a3", linewidth=0.8, zorder=1)
    colours = mpl.colormaps["viridis"](np.linspace(0.15, 0.9, len(rows)))
    for row, colour in zip(rows, colours, strict=True):
        draw_cross(axes, row, colour)
    if limit is not None and limit <= 2 * shortfall.max():
        axes.axvline(limit, **BLACK, linestyle="--", label="your limit")
    if axes.get_ylim()[0] < 0:
        axes.axhline(0, **BLACK)
    axes.set_xlim(left=0)
    axes.set_xlabel("largest shortfall below the log, 9 worlds of 10")
    axes.set_ylabel("gain over the log at the end (rewards)")
    return with_legend(figure, columns=4, title=PARAMETERS[preview.parameter])


@styled()
def draw_losses(preview: Preview, limit: float | None = None) -> Figure:
    """The largest shortfall below the log, and what is guaranteed, against the parameter."""
    rows = preview.table()
    figure, axes = panel(extra=0.3)
    bands = (column(rows, f"worst_loss_{part}") for part in ("10", "50", "90"))
    draw_band(axes, preview, *bands, label="median, 8 worlds of 10")
    dotted: dict[str, Any] = {"color": COLOURS["Gated"], "linewidth": 1.0, "linestyle": ":"}
    axes.plot(column(rows, "worst_loss_max"), **dotted, label="worst world")
    guaranteed = column(rows, "guaranteed_loss")
    if np.isfinite(guaranteed).any():
        axes.plot(guaranteed, color=COLOURS["LinOtO"], marker="s", markersize=4, label="guaranteed")
    if limit is not None:
        axes.axhline(limit, **BLACK, linestyle="--", label="your limit")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    plain_numbers(axes)
    axes.set_ylabel("largest shortfall below the log (rewards)")
    return with_legend(figure)


@styled()
def draw_share(preview: Preview) -> Figure:
    """The share of exploring rounds against the parameter."""
    figure, axes = panel()
    bands = (100 * column(preview.table(), name) for name in ("explored_10", "explored", "explored_90"))
    draw_band(axes, preview, *bands, label="mean, 8 worlds of 10")
    axes.set(ylim=(0, 104), ylabel="exploring rounds (%)")
    return with_legend(figure)


@styled()
def draw_first(preview: Preview) -> Figure:
    """The round of the first exploration against the parameter."""
    figure, axes = panel()
    bands = (column(preview.table(), f"first_explored{part}") for part in ("_10", "", "_90"))
    draw_band(axes, preview, *bands, label="median, 8 worlds of 10")
    if all(point.explored.any() for point in preview.points):
        axes.set_yscale("log")
    plain_numbers(axes)
    axes.set_ylabel("round of the first exploration")
    return with_legend(figure)


def draw_band(axes: Axes, preview: Preview, low: Floats, middle: Floats, high: Floats, *, label: str) -> None:
    """A line with a band over the values of the parameter, side by side: zero may be among them."""
    colour, places = COLOURS["Gated"], np.arange(middle.size)
    axes.plot(places, middle, color=colour, marker="o", markersize=4, label=label, linewidth=1.6)
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xticks(places, [f"{point.value:g}" for point in preview.points])
    if places.size > 6:
        axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel(PARAMETERS[preview.parameter])


def draw_cross(axes: Axes, row: dict[str, Any], colour: Any) -> None:
    """One value: mean gain, the loss that nine worlds of ten keep to, bars over eight worlds of ten."""
    x, y = row["worst_loss_90"], row["gain_mean"]
    left = [[x - row["worst_loss_10"]], [0.0]]
    around = [[max(y - row["gain_10"], 0.0)], [max(row["gain_90"] - y, 0.0)]]
    look: dict[str, Any] = {"fmt": "o", "markersize": 5.5, "color": colour, "ecolor": (*colour[:3], 0.4)}
    axes.errorbar(x, y, xerr=left, yerr=around, label=f"{row['knob']:g}", **look)


def column(rows: Sequence[dict[str, Any]], name: str) -> Floats:
    """One column of a table, NaN where there is nothing."""
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)
