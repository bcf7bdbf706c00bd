"""Figures of experiments: one way to draw each kind, and the story of the flights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.experiments.claims import late_rate
from linoto.experiments.field import EMPHASISED
from linoto.experiments.results import Curve, Results, mean_and_error
from linoto.experiments.run import draw_instance
from linoto.experiments.settings import Setting
from linoto.pages.figures import pieces
from linoto.pages.figures.pieces import COLOURS, STYLES, panels, styled, with_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linoto.experiments.bounds import BoundCurves
    from linoto.experiments.guarded import Guarded
    from linoto.experiments.seasons import Seasons
    from linoto.experiments.takeover import Story

SHORTFALL = "shortfall below the log"  # R_t^off


@styled()
def draw(results: Results) -> Figure:
    """The figure of an experiment, in the way the experiment asks for."""
    views = {
        "curves": draw_regret,
        "field": draw_field,
        "alpha": draw_alpha,
        "radius": draw_radius,
        "pareto": draw_pareto,
        "bars": draw_bars,
        "promise": draw_promise,
    }
    return views[results.experiment.view](results)


def setting_panels(
    results: Results, rows: int = 1, **options: Any
) -> tuple[Figure, Any, list[tuple[Any, Setting]]]:
    """A column of panels for each setting, its name above it."""
    settings = results.experiment.settings
    figure, grid = panels(rows, len(settings), **options)
    for axes, setting in zip(grid[0], settings, strict=True):
        axes.set_title(pieces.spaced(setting.name))
    return figure, grid, list(zip(grid.T, settings, strict=True))


def draw_regret(results: Results) -> Figure:
    """R_t of every policy, one panel for each setting."""
    same = len({setting.horizon for setting in results.experiment.settings}) == 1
    figure, grid, columns = setting_panels(results, sharey=same)
    for (axes,), setting in columns:
        pieces.draw_curves(axes, [results.curve(setting.name, label, "regret") for label in setting.labels])
        axes.set(ylim=(0, None), xlabel="online round $t$")
    grid[0][0].set_ylabel("cumulative regret $R_t$")
    return with_legend(figure)


def draw_field(results: Results) -> Figure:
    """R_t of many policies: the paper's own thick, the others thin, each named where its line ends."""
    figure, grid, columns = setting_panels(results, width=5.2, height=3.6)
    for (axes,), setting in columns:
        curves = [results.curve(setting.name, label, "regret") for label in setting.labels]
        pieces.draw_curves(axes, curves, thick=EMPHASISED)
        axes.set(ylim=(0, None), xlabel="online round $t$")
        pieces.name_ends(axes, curves, thick=EMPHASISED)
    grid[0][0].set_ylabel("cumulative regret $R_t$")
    return figure


@styled()
def draw_both(results: Results, setting: Setting | None = None) -> Figure:
    """R_t and R_t^off of every policy in a setting, the first one unless told otherwise."""
    setting = setting or results.experiment.settings[0]
    shortfall = f"shortfall below {setting.compares_with}"
    names = {"regret": "$R_t$, against the best action", "offline_regret": shortfall}
    figure, grid = panels(1, 2)
    for axes, (field, title) in zip(grid[0], names.items(), strict=True):
        pieces.draw_curves(axes, [results.curve(setting.name, label, field) for label in setting.labels])
        axes.set(title=title, xlabel="online round $t$")
    grid[0][0].set_ylabel("cumulative regret")
    return with_legend(figure)


@styled()
def draw_story(story: Story) -> Figure:
    """How far each contender got ahead of current practice, its punctuality, and how it explored."""
    fields = {
        "shortfall": "more on time than\ncurrent practice",
        "reward": "share on time so far",
        "explored": "exploring bookings",
    }
    figure, grid = panels(1, 3)
    for axes, (field, name) in zip(grid[0], fields.items(), strict=True):
        curves = [story.curve(label, field) for label in story.labels]
        pieces.draw_curves(axes, [upside_down(c) for c in curves] if field == "shortfall" else curves)
        axes.set(xlabel="booking", ylabel=name)
    grid[0][0].axhline(0, color="#000000", linewidth=0.8)
    limit = story.limit("Gated")
    if limit is not None:
        dashed = {"color": COLOURS["Gated"], "linestyle": "--", "linewidth": 1.2}
        grid[0][0].plot(limit.rounds, -limit.mean, **dashed, label="promised limit of Gated")
    reward = [story.curve(label, "reward").mean[5:] for label in story.labels]
    low, high = float(np.min(reward)), float(np.max(reward))
    grid[0][1].set_ylim(low - 0.2 * (high - low), high + 0.2 * (high - low))
    return with_legend(figure)


@styled()
def draw_seasons(seasons: Seasons) -> Figure:
    """How many more were on time than with practice, by explorer (rows) and order of the months (columns)."""
    results, rows = seasons.results, seasons.table()
    explorers = list(dict.fromkeys(row["explorer"] for row in rows))
    figure, grid, columns = setting_panels(results, rows=len(explorers), sharey="row")
    for down, setting in columns:
        for axes, explorer in zip(down, explorers, strict=True):
            ours = [row for row in rows if (row["explorer"], row["months"]) == (explorer, setting.name)]
            pieces.draw_curves(axes, [more_on_time(results, setting.name, row) for row in ours])
            dashed = {"color": COLOURS["Control"], "linestyle": "--", "linewidth": 1.2}
            axes.axhline(-ours[0]["limit"], **dashed, label="promised limit of Control")
            axes.axhline(0, color="#000000", linewidth=0.8)
        down[-1].set(xlabel="booking")
    for (axes, *_), explorer in zip(grid, explorers, strict=True):
        axes.set_ylabel(f"{explorer} explorer:\nmore on time than practice\nin the same months")
    return with_legend(figure)


@styled()
def draw_guarded(guarded: Guarded) -> Figure:
    """How many more were on time than with practice, and how many more planes were old."""
    figure, grid = panels(1, 2)
    (setting,) = guarded.results.experiment.settings
    gains, old = grid[0]
    shortfalls = (guarded.results.curve(setting.name, x, "offline_regret") for x in setting.labels)
    pieces.draw_curves(gains, [upside_down(shortfall) for shortfall in shortfalls])
    pieces.draw_curves(old, [guarded.more_old(label) for label in setting.labels])
    dashed = {"color": COLOURS["guardrail"], "linestyle": "--", "linewidth": 1.2}
    old.axhline(guarded.table()[0]["limit"], **dashed, label="limit of the guardrail")
    for axes, name in ((gains, "more on time than practice"), (old, "more old planes than practice")):
        axes.axhline(0, color="#000000", linewidth=0.8)
        axes.set(xlabel="booking", ylabel=name)
    return with_legend(figure)


def more_on_time(results: Results, setting: str, row: dict[str, Any]) -> Curve:
    """A contender's line, under the name of its gate: up is better than practice."""
    return replace(upside_down(results.curve(setting, row["policy"], "offline_regret")), label=row["gate"])


def upside_down(shortfall: Curve) -> Curve:
    """A shortfall as what was earned more."""
    return replace(shortfall, mean=-shortfall.mean)


def draw_alpha(results: Results) -> Figure:
    """Regret and safe rounds against alpha, one column for each setting, at n/8 and at n."""
    figure, grid, columns = setting_panels(results, 2, sharex=True, sharey="row")
    for (top, bottom), setting in columns:
        swept = labels_by_alpha(setting)
        for round, style in ((setting.horizon, "-"), (setting.horizon // 8, "--")):
            regrets = [results.at(setting.name, label, "regret", round) for label in swept.values()]
            safe = [1 - results.at(setting.name, x, "explored", round) / round for x in swept.values()]
            line: dict[str, Any] = {"color": COLOURS["LinOtO"], "linestyle": style}
            pieces.draw_points(top, list(swept), regrets, label=f"LinOtO, n = {round}", **line)
            pieces.draw_points(bottom, list(swept), safe, **line)
            for rival in ("LinUCB", "LinLCB"):
                line = {"color": COLOURS[rival], "linestyle": style, "linewidth": 1.2}
                level = results.at(setting.name, rival, "regret", round).mean()
                top.axhline(level, label=f"{rival}, n = {round}", **line)
        top.set(xscale="log", yscale="log")
        bottom.set_xlabel(r"$\alpha$")
    pieces.plain_log_ticks(grid[0][0])
    grid[0][0].set_ylabel("cumulative regret $R_n$ (log scale)")
    grid[1][0].set_ylabel("share of safe rounds")
    return with_legend(figure, columns=6)


def draw_radius(results: Results) -> Figure:
    """Late regret per round against the scale of the optimistic radius, one panel for each setting."""
    figure, grid, columns = setting_panels(results, sharey=True)
    for (axes,), setting in columns:
        for policy in ("LinUCB", "LinOtO"):
            labels = [label for label in setting.labels if label.startswith(policy)]
            scaled = dict(sorted((float(label.split(" x ")[1]), label) for label in labels))
            rates = [late_rate(results, setting.name, label) for label in scaled.values()]
            shares = [100 * late / random.mean() for late, random in rates]
            line = {"color": COLOURS[policy], "linestyle": STYLES.get(policy, "-")}
            pieces.draw_points(axes, list(scaled), shares, label=policy, **line)
        axes.axhline(10, color="#000000", linewidth=0.9, linestyle=":", label="10 % of Random's: converged")
        axes.set(xscale="log", ylim=(0, None), xlabel="scale of the optimistic radius (paper: 1)")
        axes.set_xticks(list(scaled), [f"{scale:g}" for scale in scaled])
        axes.minorticks_off()
    grid[0][0].set_ylabel("late regret per round,\n% of Random's")
    return with_legend(figure)


def draw_pareto(results: Results) -> Figure:
    """What alpha buys and costs, against LinUCB in the same worlds, one column for each setting."""
    import matplotlib as mpl

    figure, grid, columns = setting_panels(results, 2, extra=0.75)
    for column, setting in columns:
        swept = labels_by_alpha(setting)
        colours = mpl.colormaps["viridis"](np.linspace(0, 0.95, len(swept)))
        for axes, early in zip(column, (setting.horizon, setting.horizon // 8), strict=True):
            points = [
                (
                    *versus(results, setting.name, label, "offline_regret", early),
                    *versus(results, setting.name, label, "regret", setting.horizon),
                )
                for label in swept.values()
            ]
            draw_path(axes, np.array(points), colours, [f"{alpha:g}" for alpha in swept])
            axes.set_xlabel(f"{SHORTFALL} at n = {early},\nless LinUCB's")
    for axes in grid[:, 0]:
        axes.set_ylabel(f"$R_n$ at n = {columns[0][1].horizon},\nless LinUCB's")
    return with_legend(figure, columns=12, title=r"$\alpha$ of LinOtO")


def draw_bars(results: Results) -> Figure:
    """R_n of every policy as a bar with one standard error, one panel for each setting."""
    figure, grid, columns = setting_panels(results, sharey=True)
    for (axes,), setting in columns:
        samples = [results.final(setting.name, label, "regret") for label in setting.labels]
        means, errors = np.array([mean_and_error(values) for values in samples]).T
        kinds = [label.rpartition(", ")[2] for label in setting.labels]  # one colour whatever comes first
        colours = [pieces.colour_of(kind, list(dict.fromkeys(kinds))) for kind in kinds]
        bars = {"xerr": errors} if np.isfinite(errors).all() else {}
        axes.barh(setting.labels, means, height=0.7, color=colours, ecolor="#000000", **bars)
        inside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "color": "w"}
        for place, mean in enumerate(means):
            axes.annotate(f"{mean:.0f}", (0, place), **inside)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"regret after {setting.horizon} rounds")
    grid[0][0].invert_yaxis()
    return figure


def draw_promise(results: Results) -> Figure:
    """R_t^off of every policy beside what it promised, the worst run as a thin line."""
    figure, grid, columns = setting_panels(results, sharey=True)
    for (axes,), setting in columns:
        curves = [results.curve(setting.name, label, "offline_regret") for label in setting.labels]
        pieces.draw_curves(axes, curves)
        for label in setting.labels:
            runs = np.array([cell.offline_regret for cell in results.cells(setting.name, label)])
            colour = pieces.colour_of(label, setting.labels)
            axes.plot(setting.rounds, runs.max(axis=0), color=colour, linewidth=0.7, linestyle=":")
        for per_round, constant in promises(results, setting):
            line = per_round * setting.rounds + constant
            axes.plot(setting.rounds, line, color="#000000", linewidth=1.2, linestyle="--", label="promised")
            if axes.get_ylim()[1] > 2 * line[-1]:  # a policy that breaks it leaves the picture
                axes.set_ylim(min(0.0, *(curve.mean.min() for curve in curves)), 2 * line[-1])
        axes.set_xlabel("online round $t$")
    grid[0][0].set_ylabel(SHORTFALL)
    return with_legend(figure)


@styled()
def draw_bounds(results: Results, bounds: Sequence[BoundCurves]) -> Figure:
    """LinOtO's regrets beside what is proved about them, and what no policy can exceed."""
    names = {"regret": "$R_t$", "offline_regret": SHORTFALL}
    figure, grid = panels(2, len(bounds), sharey="row", extra=0.25)
    for column, curves in zip(grid.T, bounds, strict=True):
        for axes, field in zip(column, names, strict=True):
            pieces.draw_curves(axes, [results.curve(curves.setting, "LinOtO", field)])
            bound, most = getattr(curves, field), getattr(curves, f"most_{field}")
            grey = {"color": "#8d96a3", "linewidth": 1.0, "linestyle": "--"}
            axes.plot(curves.rounds, most, **grey, label="largest possible")
            vacuous = bound >= most
            for part, style, label in ((vacuous, ":", "bound, vacuous"), (~vacuous, "-", "bound")):
                if part.any():
                    line = np.where(part, bound, np.nan)
                    axes.plot(curves.rounds, line, color="#8e63b8", linestyle=style, label=label)
            axes.set_xscale("log")
            axes.set_yscale("log") if field == "regret" else axes.set_yscale("symlog", linthresh=10)
        column[0].set_title(pieces.spaced(curves.setting))
        column[1].set_xlabel("online round $t$")
    for axes, name in zip(grid[:, 0], names.values(), strict=True):
        axes.set_ylabel(name)
    return with_legend(figure)


# -- what is drawn ----------------------------------------------------------------------------------------


def labels_by_alpha(setting: Setting) -> dict[float, str]:
    """The policies that have an alpha, by its value."""
    return dict(sorted((policy.alpha, label) for label, policy in setting.pairs if hasattr(policy, "alpha")))


def promises(results: Results, setting: Setting) -> set[tuple[float, float]]:
    """What these policies promise per round and once, in the world of the first run."""
    bandit, offline, _ = draw_instance(setting, results.seed, 0)
    certificates = [
        policy.certificate(bandit.actions, offline)
        for _, policy in setting.pairs
        if hasattr(policy, "certificate")
    ]
    return {
        (found.per_round, found.constant)
        for found in certificates
        if found.per_round is not None and found.constant is not None
    }


def draw_path(axes: Axes, points: Floats, colours: Any, labels: Sequence[str]) -> None:
    """Points (p, 4) = x, its error, y, its error, joined in order."""
    axes.plot(points[:, 0], points[:, 2], color="#8d96a3", linewidth=0.8, zorder=1)
    for (x, dx, y, dy), colour, label in zip(points, colours, labels, strict=True):
        bars = {"xerr": dx, "yerr": dy} if np.isfinite(dx) else {}
        look: dict[str, Any] = {"color": colour, "ecolor": (*colour[:3], 0.35), "fmt": "o", "markersize": 4.5}
        axes.errorbar(x, y, **bars, **look, label=label)


def versus(results: Results, setting: str, label: str, field: str, round: int) -> tuple[float, float]:
    """Mean and error of a policy's value less LinUCB's in the same worlds."""
    own, ucb = (results.at(setting, name, field, round) for name in (label, "LinUCB"))
    mean, error = mean_and_error(own - ucb)
    return float(mean), float(error)
