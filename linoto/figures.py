"""Results in, pictures out: the only file that knows matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.claims import late_rate
from linoto.experiments import Setting, world
from linoto.kernels import Floats
from linoto.results import Curve, Results, mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linoto.bounds import BoundCurves
    from linoto.flights import Story
    from linoto.outlook import Preview

COLOURS = {
    "LinOtO": "#d1495b",
    "LinUCB": "#00798c",
    "LinLCB": "#edae49",
    "Random": "#8d96a3",
    "LinTS": "#6a4c93",
    "Greedy": "#30638e",
    "Gated": "#2e7d32",
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
    "LinUCB": "--",
    "LinLCB": "-.",
    "Random": ":",
    "aggregate": "--",
    "max": ":",
    "0.25 UCB": "--",
    "Thompson": "--",
}
OTHERS = ("#6a4c93", "#f3722c", "#4d908e", "#577590", "#90be6d", "#9c6644")

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
KNOBS = {"epsilon": "tolerance per round (epsilon)", "alpha": "the paper's knob (alpha)"}
PANEL = (3.6, 3.0)  # inches
LEGEND = 0.45  # inches above the panels


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


def draw(results: Results) -> Figure:
    """The figure of an experiment, in the way the experiment asks for."""
    views = {
        "curves": draw_regret,
        "alpha": draw_alpha,
        "radius": draw_radius,
        "pareto": draw_pareto,
        "bars": draw_bars,
        "promise": draw_promise,
    }
    with styled():
        return views[results.experiment.view](results)


def draw_regret(results: Results) -> Figure:
    """R_t of every policy, one panel for each setting."""
    settings = results.experiment.settings
    same = len({setting.horizon for setting in settings}) == 1
    figure, row = panels(1, len(settings), sharey=same)
    for axes, setting in zip(row[0], settings, strict=True):
        curves = [results.curve(setting.name, label, "regret") for label in setting.labels]
        draw_curves(axes, curves)
        axes.set_ylim(bottom=0)
        label_axes(axes, title=spaced(setting.name), xlabel="online round $t$")
    label_axes(row[0][0], ylabel="cumulative regret $R_t$")
    return with_legend(figure, row)


def draw_both(results: Results) -> Figure:
    """R_t and R_t^off of every policy in the first setting."""
    setting = results.experiment.settings[0]
    names = {
        "regret": "$R_t$, against the best action",
        "offline_regret": r"$R_t^{\mathrm{off}}$, against the log",
    }
    with styled():
        figure, row = panels(1, 2)
        for axes, (field, title) in zip(row[0], names.items(), strict=True):
            draw_curves(axes, [results.curve(setting.name, label, field) for label in setting.labels])
            label_axes(axes, title=title, xlabel="online round $t$")
        label_axes(row[0][0], ylabel="cumulative regret")
        return with_legend(figure, row)


def draw_story(story: Story) -> Figure:
    """How far each contender fell behind current practice, its punctuality, and how it explored."""
    fields = {
        "shortfall": "fewer on time than\ncurrent practice",
        "reward": "share on time so far",
        "explored": "exploring bookings",
    }
    with styled():
        figure, row = panels(1, 3)
        for axes, (field, name) in zip(row[0], fields.items(), strict=True):
            draw_curves(axes, [story.curve(label, field) for label in story.labels])
            label_axes(axes, xlabel="booking", ylabel=name)
        limit = story.limit("Gated")
        if limit is not None:
            dashed = {"color": COLOURS["Gated"], "linestyle": "--", "linewidth": 1.2}
            row[0][0].plot(limit.rounds, limit.mean, **dashed, label="promised limit of Gated")
        reward = [story.curve(label, "reward").mean[5:] for label in story.labels]
        low, high = float(np.min(reward)), float(np.max(reward))
        row[0][1].set_ylim(low - 0.2 * (high - low), high + 0.2 * (high - low))
        return with_legend(figure, row)


def draw_alpha(results: Results) -> Figure:
    """Regret and safe rounds against alpha, one column for each setting, at n/8 and at n."""
    settings = results.experiment.settings
    figure, rows = panels(2, len(settings), sharex=True, sharey="row")
    for (top, bottom), setting in zip(rows.T, settings, strict=True):
        swept = {policy.alpha: label for label, policy in setting.pairs if hasattr(policy, "alpha")}
        alphas = np.array(sorted(swept))
        for round, style in ((setting.horizon, "-"), (setting.horizon // 8, "--")):
            at_end = f"n = {round}"
            regrets = [results.at(setting.name, swept[alpha], "regret", round) for alpha in alphas]
            safe = [1 - results.at(setting.name, swept[alpha], "explored", round) / round for alpha in alphas]
            draw_points(
                top, alphas, regrets, label=f"LinOtO, {at_end}", colour=COLOURS["LinOtO"], style=style
            )
            draw_points(bottom, alphas, safe, label="", colour=COLOURS["LinOtO"], style=style)
            for rival in ("LinUCB", "LinLCB"):
                level = results.at(setting.name, rival, "regret", round).mean()
                label = f"{rival}, {at_end}"
                top.axhline(level, color=COLOURS[rival], linestyle=style, linewidth=1.2, label=label)
        top.set(xscale="log", yscale="log")
        label_axes(top, title=spaced(setting.name))
        label_axes(bottom, xlabel=r"$\alpha$")
    plain_log_ticks(rows[0][0])
    label_axes(rows[0][0], ylabel="cumulative regret $R_n$ (log scale)")
    label_axes(rows[1][0], ylabel="share of safe rounds")
    return with_legend(figure, rows, columns=6)


def draw_radius(results: Results) -> Figure:
    """Late regret per round against the scale of the optimistic radius, one panel for each setting."""
    settings = results.experiment.settings
    figure, row = panels(1, len(settings), sharey=True)
    for axes, setting in zip(row[0], settings, strict=True):
        for policy in ("LinUCB", "LinOtO"):
            scaled = {
                float(label.split(" x ")[1]): label for label in setting.labels if label.startswith(policy)
            }
            scales = np.array(sorted(scaled))
            shares = []
            for scale in scales:
                late, random = late_rate(results, setting.name, scaled[scale])
                shares.append(100 * late / random.mean())
            style = STYLES.get(policy, "-")
            draw_points(axes, scales, shares, label=policy, colour=COLOURS[policy], style=style)
        axes.axhline(10, color="#000000", linewidth=0.9, linestyle=":", label="10 % of Random's: converged")
        axes.set(xscale="log", ylim=(0, None))
        label_axes(axes, title=spaced(setting.name), xlabel="scale of the optimistic radius (paper: 1)")
        axes.set_xticks(scales, [f"{scale:g}" for scale in scales])
        axes.minorticks_off()
    label_axes(row[0][0], ylabel="late regret per round,\n% of Random's")
    return with_legend(figure, row)


def draw_pareto(results: Results) -> Figure:
    """What alpha buys and costs, against LinUCB in the same worlds, one column for each setting."""
    import matplotlib as mpl

    settings = results.experiment.settings
    figure, rows = panels(2, len(settings), extra=0.75)
    for column, setting in zip(rows.T, settings, strict=True):
        swept = {policy.alpha: label for label, policy in setting.pairs if hasattr(policy, "alpha")}
        colours = mpl.colormaps["viridis"](np.linspace(0, 0.95, len(swept)))
        for axes, early in zip(column, (setting.horizon, setting.horizon // 8), strict=True):
            points = []
            for alpha in sorted(swept):
                off = versus(results, setting.name, swept[alpha], "offline_regret", early)
                end = versus(results, setting.name, swept[alpha], "regret", setting.horizon)
                points.append((*off, *end))
            draw_path(axes, np.array(points), colours, [f"{alpha:g}" for alpha in sorted(swept)])
            label_axes(axes, xlabel=rf"$R_n^{{\mathrm{{off}}}}$ at n = {early}, less LinUCB's")
        label_axes(column[0], title=spaced(setting.name))
    for axes in rows[:, 0]:
        label_axes(axes, ylabel=f"$R_n$ at n = {settings[0].horizon},\nless LinUCB's")
    return with_legend(figure, rows, columns=12, title=r"$\alpha$ of LinOtO")


def draw_bars(results: Results) -> Figure:
    """R_n of every policy as a bar with one standard error, one panel for each setting."""
    settings = results.experiment.settings
    figure, row = panels(1, len(settings), sharey=True)
    for axes, setting in zip(row[0], settings, strict=True):
        samples = [results.final(setting.name, label, "regret") for label in setting.labels]
        means, errors = np.array([mean_and_error(values) for values in samples]).T
        kinds = [label.rpartition(", ")[2] for label in setting.labels]  # one colour whatever comes first
        colours = [colour_of(kind, list(dict.fromkeys(kinds))) for kind in kinds]
        bars = {"xerr": errors} if np.isfinite(errors).all() else {}
        axes.barh(setting.labels, means, height=0.7, color=colours, ecolor="#000000", **bars)
        for place, mean in enumerate(means):
            axes.annotate(
                f"{mean:.0f}", (0, place), xytext=(4, 0), textcoords="offset points", va="center", color="w"
            )
        axes.grid(axis="y", visible=False)
        label_axes(axes, title=spaced(setting.name), xlabel=f"regret after {setting.horizon} rounds")
    row[0][0].invert_yaxis()
    return figure


def draw_promise(results: Results) -> Figure:
    """R_t^off of every policy beside what it promised, the worst run as a thin line."""
    settings = results.experiment.settings
    figure, row = panels(1, len(settings), sharey=True)
    for axes, setting in zip(row[0], settings, strict=True):
        curves = [results.curve(setting.name, label, "offline_regret") for label in setting.labels]
        draw_curves(axes, curves)
        for label in setting.labels:
            runs = np.array([cell.offline_regret for cell in results.cells(setting.name, label)])
            colour = colour_of(label, setting.labels)
            axes.plot(setting.rounds, runs.max(axis=0), color=colour, linewidth=0.7, linestyle=":")
        for per_round, constant in promises(results, setting):
            line = per_round * setting.rounds + constant
            axes.plot(setting.rounds, line, color="#000000", linewidth=1.2, linestyle="--", label="promised")
            if axes.get_ylim()[1] > 2 * line[-1]:  # who breaks it leaves the picture
                axes.set_ylim(min(0.0, *(curve.mean.min() for curve in curves)), 2 * line[-1])
        label_axes(axes, title=spaced(setting.name), xlabel="online round $t$")
    label_axes(row[0][0], ylabel=r"below the log, $R_t^{\mathrm{off}}$")
    return with_legend(figure, row)


def promises(results: Results, setting: Setting) -> set[tuple[float, float]]:
    """What these policies promise per round and once, in the world of the first run."""
    bandit, offline, _ = world(setting, results.seed, 0)
    certificates = [policy.certificate(bandit.actions, offline) for _, policy in setting.pairs]
    return {
        (found.per_round, found.constant)
        for found in certificates
        if found.per_round is not None and found.constant is not None
    }


def draw_tradeoff(preview: Preview, limit: float | None = None) -> Figure:
    """The gain at the end against the deepest loss on the way in nine worlds of ten."""
    import matplotlib as mpl

    rows = preview.table()
    with styled():
        figure, ((axes,),) = panels(1, 1, extra=0.3)
        loss, gain = column(rows, "worst_loss_90"), column(rows, "gain_mean")
        axes.plot(loss, gain, color="#8d96a3", linewidth=0.8, zorder=1)
        colours = mpl.colormaps["viridis"](np.linspace(0.15, 0.9, len(rows)))
        for row, colour in zip(rows, colours, strict=True):
            draw_cross(axes, row, colour)
        if limit is not None and limit <= 2 * column(rows, "worst_loss_90").max():
            axes.axvline(limit, color="#000000", linewidth=1.0, linestyle="--", label="your limit")
        if axes.get_ylim()[0] < 0:
            axes.axhline(0, color="#000000", linewidth=0.8)
        axes.set_xlim(left=0)
        label_axes(
            axes,
            xlabel="deepest below the log, 9 worlds of 10",
            ylabel="gain over the log at the end (rewards)",
        )
        return with_legend(figure, np.array([axes]), columns=4, title=KNOBS[preview.knob])


def draw_losses(preview: Preview, limit: float | None = None) -> Figure:
    """What was lost at the deepest point, and what is guaranteed, against the knob."""
    rows = preview.table()
    with styled():
        figure, ((axes,),) = panels(1, 1, extra=0.3)
        bands = (column(rows, f"worst_loss_{part}") for part in ("10", "50", "90"))
        draw_band(axes, preview, *bands, label="median, 8 worlds of 10")
        worst = column(rows, "worst_loss_max")
        axes.plot(worst, color=COLOURS["Gated"], linewidth=1.0, linestyle=":", label="worst world")
        guaranteed = column(rows, "guaranteed_loss")
        if np.isfinite(guaranteed).any():
            colour = COLOURS["LinOtO"]
            axes.plot(guaranteed, color=colour, marker="s", markersize=4, label="guaranteed")
        if limit is not None:
            axes.axhline(limit, color="#000000", linewidth=1.0, linestyle="--", label="your limit")
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0)
        plain_numbers(axes)
        label_axes(axes, ylabel="deepest point below the log (rewards)")
        return with_legend(figure, np.array([axes]), columns=2)


def draw_share(preview: Preview) -> Figure:
    """The share of exploring rounds against the knob."""
    rows = preview.table()
    with styled():
        figure, ((axes,),) = panels(1, 1)
        bands = (100 * column(rows, name) for name in ("explored_10", "explored", "explored_90"))
        draw_band(axes, preview, *bands, label="mean, 8 worlds of 10")
        axes.set_ylim(0, 104)
        label_axes(axes, ylabel="exploring rounds (%)")
        return with_legend(figure, np.array([axes]))


def draw_first(preview: Preview) -> Figure:
    """The round of the first exploration against the knob."""
    rows = preview.table()
    with styled():
        figure, ((axes,),) = panels(1, 1)
        bands = (column(rows, f"first_explored{part}") for part in ("_10", "", "_90"))
        draw_band(axes, preview, *bands, label="median, 8 worlds of 10")
        if all(outlook.explored.any() for outlook in preview.outlooks):
            axes.set_yscale("log")
        plain_numbers(axes)
        label_axes(axes, ylabel="round of the first exploration")
        return with_legend(figure, np.array([axes]))


def draw_bounds(results: Results, bounds: Sequence[BoundCurves]) -> Figure:
    """LinOtO's regrets beside what is proved about them, and what no policy can exceed."""
    names = {"regret": "$R_t$", "offline_regret": r"$R_t^{\mathrm{off}}$"}
    with styled():
        figure, rows = panels(2, len(bounds), sharey="row", extra=0.25)
        for column, curves in zip(rows.T, bounds, strict=True):
            for axes, field in zip(column, names, strict=True):
                measured = results.curve(curves.setting, "LinOtO", field)
                draw_curves(axes, [measured])
                bound, most = getattr(curves, field), getattr(curves, f"most_{field}")
                vacuous = bound >= most
                grey = {"color": "#8d96a3", "linewidth": 1.0, "linestyle": "--"}
                axes.plot(curves.rounds, most, **grey, label="largest possible")
                for part, style, label in ((vacuous, ":", "bound, vacuous"), (~vacuous, "-", "bound")):
                    if part.any():
                        line = np.where(part, bound, np.nan)
                        axes.plot(curves.rounds, line, color="#8e63b8", linestyle=style, label=label)
                axes.set_xscale("log")
                axes.set_yscale("log") if field == "regret" else axes.set_yscale("symlog", linthresh=10)
            label_axes(column[0], title=spaced(curves.setting))
            label_axes(column[1], xlabel="online round $t$")
        for axes, name in zip(rows[:, 0], names.values(), strict=True):
            label_axes(axes, ylabel=name)
        return with_legend(figure, rows)


# -- pieces -----------------------------------------------------------------------------------------------


def panels(rows: int, columns: int, *, extra: float = 0.0, **options: Any) -> tuple[Figure, Any]:
    """An empty figure with its axes (rows, columns)."""
    from matplotlib.figure import Figure

    size = (PANEL[0] * columns + 0.3, PANEL[1] * rows + LEGEND + extra)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def with_legend(figure: Figure, rows: Any, *, columns: int | None = None, title: str | None = None) -> Figure:
    """One legend above all panels, each label once, by default two labels to a panel."""
    found: dict[str, Any] = {}
    for axes in rows.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside upper center",
        ncols=min(columns or 2 * rows.shape[-1], len(found)),
        title=title,
        columnspacing=1.4,
        handletextpad=0.5,
    )
    return figure


def draw_curves(axes: Axes, curves: Sequence[Curve]) -> None:
    """Lines with one standard error shaded."""
    labels = [curve.label for curve in curves]
    for curve in curves:
        colour, style = colour_of(curve.label, labels), STYLES.get(curve.label, "-")
        axes.plot(curve.rounds, curve.mean, color=colour, linestyle=style, label=curve.label, linewidth=1.6)
        if np.isfinite(curve.error).all():
            low, high = curve.mean - curve.error, curve.mean + curve.error
            axes.fill_between(curve.rounds, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.margins(x=0)


def draw_points(
    axes: Axes, x: Floats, samples: Sequence[Floats], *, label: str, colour: str, style: str
) -> None:
    """A line through means over runs, one standard error shaded."""
    means, errors = np.array([mean_and_error(values) for values in samples]).T
    axes.plot(x, means, color=colour, linestyle=style, marker="o", markersize=3, label=label, linewidth=1.4)
    if np.isfinite(errors).all():
        axes.fill_between(x, means - errors, means + errors, color=colour, alpha=0.18, linewidth=0)


def draw_band(axes: Axes, preview: Preview, low: Floats, middle: Floats, high: Floats, *, label: str) -> None:
    """A line with a band over the values of the knob, side by side: zero may be among them."""
    colour, places = COLOURS["Gated"], np.arange(middle.size)
    axes.plot(places, middle, color=colour, marker="o", markersize=4, label=label, linewidth=1.6)
    axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xticks(places, [f"{outlook.knob:g}" for outlook in preview.outlooks])
    if places.size > 6:
        axes.tick_params(axis="x", labelsize=8)
    label_axes(axes, xlabel=KNOBS[preview.knob])


def draw_cross(axes: Axes, row: dict[str, Any], colour: Any) -> None:
    """One value of the knob: mean gain, the loss that nine worlds of ten keep to, bars over eight of ten."""
    x, y = row["worst_loss_90"], row["gain_mean"]
    axes.errorbar(
        x,
        y,
        xerr=[[x - row["worst_loss_10"]], [0.0]],
        yerr=[[max(y - row["gain_10"], 0.0)], [max(row["gain_90"] - y, 0.0)]],
        fmt="o",
        markersize=5.5,
        color=colour,
        ecolor=(*colour[:3], 0.4),
        label=f"{row['knob']:g}",
    )


def column(rows: Sequence[dict[str, Any]], name: str) -> Floats:
    """One column of a table, NaN where there is nothing."""
    return np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)


def plain_numbers(axes: Axes) -> None:
    """1000, not a power of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def draw_path(axes: Axes, points: Floats, colours: Any, labels: Sequence[str]) -> None:
    """Points (p, 4) = x, its error, y, its error, joined in order."""
    axes.plot(points[:, 0], points[:, 2], color="#8d96a3", linewidth=0.8, zorder=1)
    for (x, dx, y, dy), colour, label in zip(points, colours, labels, strict=True):
        bars = {"xerr": dx, "yerr": dy} if np.isfinite(dx) else {}
        axes.errorbar(
            x, y, **bars, color=colour, ecolor=(*colour[:3], 0.35), fmt="o", markersize=4.5, label=label
        )


def versus(results: Results, setting: str, label: str, field: str, round: int) -> tuple[float, float]:
    """Mean and error of a policy's value less LinUCB's in the same worlds."""
    own, ucb = (results.at(setting, name, field, round) for name in (label, "LinUCB"))
    mean, error = mean_and_error(own - ucb)
    return float(mean), float(error)


def colour_of(label: str, labels: Sequence[str]) -> str:
    """The colour of a policy: its own, or the next free one."""
    if label in COLOURS:
        return COLOURS[label]
    unnamed = [other for other in labels if other not in COLOURS]
    return OTHERS[unnamed.index(label) % len(OTHERS)]


def label_axes(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Set what is given, leave the rest."""
    given = {"title": title, "xlabel": xlabel, "ylabel": ylabel}
    axes.set(**{name: text for name, text in given.items() if text})


def plain_log_ticks(axes: Axes) -> None:
    """200, 500, 1000: numbers people read, on a log axis that spans little more than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def spaced(name: str) -> str:
    """m=100 as a title."""
    return name.replace("=", " = ")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    with styled():
        figure.savefig(paths[0])
        figure.set_layout_engine("none")  # the layout is found, and the same for both
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
