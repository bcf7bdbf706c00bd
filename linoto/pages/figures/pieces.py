"""What every figure is made of: our style, panels, one legend, one colour per policy, and files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.experiments.results import Curve, mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = {
    "LinOtO": "#d1495b",
    "LinOtO, exact budget": "#5c1a26",
    "LinUCB": "#00798c",
    "LinLCB": "#edae49",
    "Random": "#8d96a3",
    "LinOtO, sharp": "#ff8fa3",
    "RandUCB": "#3a0ca3",
    "LinTS": "#6a4c93",
    "LinTS, posterior": "#c77dff",
    "LinTS, Agrawal-Goyal": "#b07aa1",
    "LinTS, Abeille-Lazaric": "#8d5a97",
    "LinUCB, rarely switching": "#43aa8b",
    "LinUCB x 0.25": "#577590",
    "LinUCB x 0.25, shift stated": "#03045e",
    "Gated, shift stated": "#1b4332",
    "OFUL": "#0a9396",
    "OFUL, rarely switching": "#90be6d",
    "OOPE": "#9c6644",
    "OOPE, Frank-Wolfe": "#c98b5e",
    "Greedy": "#30638e",
    "Gated": "#2e7d32",
    "Gated, 0.25 UCB": "#90be6d",
    "Gated, LinTS": "#74c69d",
    "Control": "#c2571a",
    "Gated, by the model": "#b5179e",
    "the log's gate": "#edae49",
    "no gate": "#00798c",
    "guardrail": "#2e7d32",
    "exact": "#d1495b",
    "known horizon": "#d1495b",
    "as it is": "#2e7d32",
    "Tolerance 0.1": "#2e7d32",
    "Tolerance 0.02": "#90be6d",
    "Tolerance 0.1, Thompson": "#f3722c",
    "0.25 UCB": "#30638e",
    "Thompson": "#6a4c93",
    "Budget, 0.25 UCB": "#2e7d32",
    "Budget, Thompson": "#f3722c",
}
"""One colour per policy, in every figure."""
STYLES = {
    "LinOtO, exact budget": ":",  # lies on LinOtO's in most figures
    "LinUCB": "--",
    "LinLCB": "-.",
    "Random": ":",
    "aggregate": "--",
    "max": ":",
    "0.25 UCB": "--",
    "Thompson": "--",
    "LinUCB x 0.25": ":",  # these two may lie on the line of a gate that never refused
    "LinTS, posterior": ":",
    "the log's gate": "-.",  # may lie on the line without a gate
}
OTHER_COLOURS = ("#6a4c93", "#f3722c", "#4d908e", "#577590", "#90be6d", "#9c6644")

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.hashsalt": "linoto",  # the same figure is the same file
    "svg.fonttype": "path",
}
LACKING = r"Glyph \d+ .* missing from font"  # as matplotlib warns of what is drawn as an empty box
PANEL = (3.6, 3.0)  # inches
LEGEND = 0.45  # inches above the panels
NARROW = 400  # points: a picture of one panel, which need not fill the page
THEMED = {"#ffffff": "var(--paper)", "#e6e6e6": "var(--line)", "#000000": "currentColor"}


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save under our style, whatever the user's is."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError('figures need matplotlib: pip install "linoto[figures]"') from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def panels(
    rows: int,
    columns: int,
    *,
    extra: float = 0.0,
    width: float = PANEL[0],
    height: float = PANEL[1],
    **options: Any,
) -> tuple[Figure, Any]:
    """An empty figure with its axes (rows, columns), each so many inches wide and high."""
    from matplotlib.figure import Figure

    size = (width * columns + 0.3, height * rows + LEGEND + extra)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def panel(**options: Any) -> tuple[Figure, Any]:
    """A figure of one panel."""
    figure, ((axes,),) = panels(1, 1, **options)
    return figure, axes


def with_legend(figure: Figure, *, columns: int = 0, title: str | None = None) -> Figure:
    """One legend above all panels, each label once, by default two labels to a panel."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    most = columns or 2 * int(figure.get_figwidth() // PANEL[0])
    place: dict[str, Any] = {"loc": "outside upper center", "columnspacing": 1.4, "handletextpad": 0.5}
    figure.legend(found.values(), found.keys(), ncols=min(most, len(found)), title=title, **place)
    return figure


def draw_curves(axes: Axes, curves: Sequence[Curve], thick: Sequence[str] | None = None) -> None:
    """Lines with one standard error shaded; where some are `thick`, the others are thin."""
    labels = [curve.label for curve in curves]
    for curve in curves:
        style: dict[str, Any] = {
            "color": colour_of(curve.label, labels),
            "linestyle": STYLES.get(curve.label, "-"),
        }
        width = 1.6 if thick is None else 2.4 if curve.label in thick else 0.9
        axes.plot(curve.rounds, curve.mean, label=curve.label, linewidth=width, **style)
        shade(axes, curve.rounds, curve.mean - curve.error, curve.mean + curve.error, style["color"])
    axes.margins(x=0)


def name_ends(axes: Axes, curves: Sequence[Curve], thick: Sequence[str]) -> None:
    """The name of each curve at the right of its end, moved apart where ends are close."""
    labels, top = [curve.label for curve in curves], axes.get_ylim()[1]
    ordered = sorted(curves, key=lambda curve: curve.mean[-1])
    places = moved_apart([float(curve.mean[-1]) / top for curve in ordered], gap=0.062)
    for curve, place in zip(ordered, places, strict=True):
        end, colour = (1.0, float(curve.mean[-1]) / top), colour_of(curve.label, labels)
        weight = "bold" if curve.label in thick else "normal"
        axes.annotate(
            f"{curve.label} {curve.mean[-1]:,.0f}",
            xy=end,
            xytext=(1.07, place),
            xycoords="axes fraction",
            va="center",
            fontsize=7.5,
            fontweight=weight,
            color=colour,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),  # from the left end of the name
            },
        )


def moved_apart(places: Sequence[float], gap: float) -> list[float]:
    """Rising numbers, moved so that none is closer than `gap` to the next, and none is above 1.

    >>> [round(place, 2) for place in moved_apart([0.1, 0.1, 0.5, 1.0, 1.0], gap=0.1)]
    [0.1, 0.2, 0.5, 0.9, 1.0]
    """
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    limit = 1.0
    for index in range(len(found) - 1, -1, -1):
        found[index] = min(found[index], limit)
        limit = found[index] - gap
    return found


def draw_points(axes: Axes, x: Sequence[float], samples: Sequence[Floats], **style: Any) -> None:
    """A line through means over runs, one standard error shaded."""
    means, errors = np.array([mean_and_error(values) for values in samples]).T
    axes.plot(x, means, marker="o", markersize=3, linewidth=1.4, **style)
    shade(axes, x, means - errors, means + errors, style["color"])


def shade(axes: Axes, x: Any, low: Floats, high: Floats, colour: str) -> None:
    """A band around a line, where its width is known."""
    if np.isfinite(low).all():
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def colour_of(label: str, labels: Sequence[str]) -> str:
    """The colour of a policy: its own, or the next free one."""
    if label in COLOURS:
        return COLOURS[label]
    unnamed = [other for other in labels if other not in COLOURS]
    return OTHER_COLOURS[unnamed.index(label) % len(OTHER_COLOURS)]


def plain_numbers(axes: Axes) -> None:
    """1000 and 20,000, not a power of ten, on the upright axis."""
    number(axes.yaxis)


def number(axis: Axis) -> None:
    """The same on any axis."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """A number beside an axis, with the commas that it has in a table.

    >>> tick(0.25), tick(1000.0), tick(20_000.0), tick(-1_250_000.0)
    ('0.25', '1000', '20,000', '-1,250,000')
    """
    return f"{value:,.10g}" if abs(value) >= 1e4 else f"{value:g}"


def plain_log_ticks(axes: Axes) -> None:
    """200, 500, 1000: numbers people read, on a log axis that spans little more than a decade."""
    from matplotlib.ticker import LogLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    plain_numbers(axes)


def spaced(name: str) -> str:
    """m=100 as a title."""
    return name.replace("=", " = ")


@styled()
def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    figure.savefig(paths[0])
    figure.set_layout_engine("none")  # the layout is found, and the same for both
    write_svg(figure, paths[1])
    return paths


@styled()
def as_svg(figure: Figure, name: str, label: str) -> str:
    """A figure as part of a page."""
    buffer = StringIO()
    write_svg(figure, buffer)
    return inline(buffer.getvalue(), name, label)


def write_svg(figure: Figure, out: Path | StringIO) -> None:
    """A figure as SVG. Where the font lacks a letter, texts stay texts: who shows them has other fonts."""
    from matplotlib import rc_context

    with warnings.catch_warnings():
        warnings.filterwarnings("error", LACKING, UserWarning)
        try:
            svg = drawn(figure)
        except UserWarning:
            warnings.filterwarnings("ignore", LACKING, UserWarning)
            with rc_context({"svg.fonttype": "none"}):
                svg = drawn(figure)
    if isinstance(out, Path):
        out.write_text(svg, encoding="utf-8")
    else:
        out.write(svg)


def drawn(figure: Figure) -> str:
    """What `figure.savefig` writes, which draws everything twice: a fifth of the time less."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    canvas: Any = FigureCanvasSVG(figure)
    buffer = StringIO()
    canvas.print_svg(buffer, metadata={"Date": None})
    return buffer.getvalue()


def inline(svg: str, name: str, label: str) -> str:
    """A matplotlib SVG as part of a page: no prolog, ids of its own, and colours that follow the theme."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", svg, count=3)
    width = re.search(r'\swidth="([\d.]+)pt"', svg)
    kind = ' class="narrow"' if width and float(width[1]) < NARROW else ""
    svg = re.sub(r'\s(?:width|height)="[^"]*pt"', "", svg, count=2)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", svg)
    for colour, themed in THEMED.items():
        svg = svg.replace(colour, themed)
    return svg.replace("<svg", f'<svg{kind} role="img" aria-label="{escape(label)}"', 1)
