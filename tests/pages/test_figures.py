from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from helpers.fakes import fake_results

from linoto.core.arrays import Floats
from linoto.experiments import bounds, paper
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.pages.figures import experiments as figures
from linoto.pages.figures.pieces import colour_of, save, styled, write_svg

EXPERIMENTS = {experiment.name: experiment for group in paper.FIGURES.values() for experiment in group}
PANEL = replace(EXPERIMENTS["horizon"], settings=EXPERIMENTS["horizon"].settings[:1])


def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
    rng = np.random.default_rng([run, setting.m, sum(map(ord, label))])
    return np.asarray(rng.uniform(0.2, 0.5) * rounds)


@pytest.mark.parametrize("name, runs", [*((name, 3) for name in EXPERIMENTS), ("horizon", 1), ("alpha", 1)])
def test_every_experiment_has_a_figure(name: str, runs: int) -> None:
    experiment = EXPERIMENTS[name]
    figure = figures.draw(fake_results(experiment, formula, runs=runs))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [setting.name.replace("=", " = ") for setting in experiment.settings]
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert len(labels) == len(set(labels)) >= 3


def test_the_same_results_are_the_same_files(tmp_path: Path) -> None:
    for name in ("once", "again"):
        results = fake_results(PANEL, formula)
        paths = save(figures.draw(results), tmp_path / name)
        assert [path.suffix for path in paths] == [".png", ".svg"]
    for suffix in (".png", ".svg"):
        assert (tmp_path / f"once{suffix}").read_bytes() == (tmp_path / f"again{suffix}").read_bytes()


def test_an_svg_has_the_bytes_that_matplotlib_would_save() -> None:
    with styled():
        once, buffer = StringIO(), StringIO()
        results = fake_results(PANEL, formula, runs=1)
        write_svg(figures.draw(results), once)
        figures.draw(results).savefig(buffer, format="svg", metadata={"Date": None})
    assert once.getvalue() == buffer.getvalue()


def test_letters_that_the_font_lacks_stay_text_and_nobody_is_warned(recwarn: pytest.WarningsRecorder) -> None:
    with styled():
        out, figure = StringIO(), figures.draw(fake_results(PANEL, formula, runs=1))
        figure.axes[0].set_title("日本 <b>")
        write_svg(figure, out)
    assert ">日本 &lt;b&gt;</text>" in out.getvalue() and not recwarn.list


@pytest.mark.few(0)
def test_the_user_s_own_style_changes_nothing(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    results = fake_results(PANEL, formula)
    save(figures.draw(results), tmp_path / "plain")
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.facecolor": "black", "font.size": 30}):
        save(figures.draw(results), tmp_path / "styled")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "styled.svg").read_bytes()


def test_a_policy_has_one_colour_in_every_figure() -> None:
    seen: dict[str, set[str]] = {}
    for name in ("horizon", "offline-size", "dimension"):
        figure = figures.draw(fake_results(EXPERIMENTS[name], formula))
        for axes in figure.axes:
            for line in axes.get_lines():
                seen.setdefault(str(line.get_label()), set()).add(str(line.get_color()))
    assert {label: len(colours) for label, colours in seen.items()} == dict.fromkeys(paper.contenders(), 1)
    assert len(set.union(*seen.values())) == len(paper.contenders())


def test_unknown_policies_get_colours_of_their_own() -> None:
    labels = ["LinOtO", "mine", "yours", "theirs"]
    assert len({colour_of(label, labels) for label in labels}) == 4


def test_the_error_is_shaded_and_a_single_run_has_none() -> None:
    many = figures.draw(fake_results(EXPERIMENTS["horizon"], formula, runs=3)).axes[0]
    one = figures.draw(fake_results(EXPERIMENTS["horizon"], formula, runs=1)).axes[0]
    assert len(many.collections) == len(paper.contenders()) and len(one.collections) == 0


def test_sensitivity_to_alpha_has_a_log_scale() -> None:
    figure = figures.draw(fake_results(EXPERIMENTS["alpha"], formula))
    assert figure.axes[0].get_yscale() == "log" and figure.axes[0].get_xscale() == "log"


def test_bounds_are_above_what_is_measured_and_marked_where_they_say_nothing() -> None:
    setting = Setting(name="m=100", horizon=200, policies=paper.contenders())
    results = run_experiment(Experiment(name="x", settings=(setting,)), runs=2)
    (curves,) = bounds.bound_curves(results)
    measured = results.curve("m=100", "LinOtO", "regret")
    assert (np.interp(measured.rounds, curves.rounds, curves.regret) >= measured.mean).all()
    offline = results.curve("m=100", "LinOtO", "offline_regret")
    assert (np.interp(offline.rounds, curves.rounds, curves.offline_regret) >= offline.mean).all()
    assert all(row["offline_regret_bound_vacuous"] for row in curves.rows())  # S is 8 here, rewards at most 1
    figure = figures.draw_bounds(results, [curves])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["LinOtO", "largest possible", "bound, vacuous"]


def test_a_study_of_one_setting_shows_both_regrets() -> None:
    setting = Setting(name="only", horizon=30, policies=paper.contenders())
    figure = figures.draw_both(run_experiment(Experiment(name="x", settings=(setting,)), runs=2))
    assert len(figure.axes) == 2
