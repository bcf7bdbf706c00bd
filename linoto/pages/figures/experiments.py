"""Figures of experiments: one way to draw each kind, and the story of the flights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from linoto.core.kernels import Floats
from linoto.experiments.claims import late_rate
from linoto.experiments.results import Results, mean_and_error
from linoto.experiments.run import world
from linoto.experiments.settings import Setting
from linoto.pages.figures.pieces import (
    COLOURS,
    STYLES,
    colour_of,
    draw_curves,
    draw_points,
    label_axes,
    panels,
    plain_log_ticks,
    spaced,
    styled,
    with_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linoto.experiments.bounds import BoundCurves
    from linoto.experiments.takeover import Story


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
