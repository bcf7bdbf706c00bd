"""The paper's figures with the systems that it cites: who plays, who cannot, and how it is drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from helpers.fakes import fake_results

from linoto import Conservative, Gated, LinUCB, simulate
from linoto.core.arrays import Floats
from linoto.experiments import field, paper
from linoto.experiments.run import draw_instance
from linoto.experiments.settings import Setting
from linoto.pages.figures import experiments as figures
from linoto.research import HUCB1, UCB1, MinUCB, OtO


def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
    rng = np.random.default_rng([run, setting.m, sum(map(ord, label))])
    return np.asarray(rng.uniform(0.2, 0.3) * rounds)


def test_the_paper_s_policies_are_its_own_and_the_cited_are_beside_them() -> None:
    for name, experiment in field.FIELD.items():
        (original, *_) = paper.FIGURES[name]
        for setting, before in zip(experiment.settings, original.settings, strict=True):
            own = {label: policy for label, policy in before.pairs if label in field.PAPERS}
            assert dict(setting.pairs) == {**own, **field.cited()}
            assert (setting.m, setting.d, setting.horizon) == (before.m, before.d, before.horizon)


@pytest.mark.parametrize("label", field.cited())
@pytest.mark.few(1)
def test_every_cited_system_plays_the_paper_s_problem(label: str) -> None:
    bandit, offline, _ = draw_instance(paper.HORIZON.settings[0], 0, 0)
    run = simulate(field.cited()[label], bandit, offline, horizon=40)
    assert run.arms.shape == (40,)


def test_those_that_are_left_out_cannot_play_it() -> None:
    bandit, offline, _ = draw_instance(paper.HORIZON.settings[0], 0, 0)
    for policy in (UCB1(), HUCB1(), MinUCB(), OtO()):
        with pytest.raises(ValueError, match="actions must be one-hot"):
            policy.start(bandit.actions, offline)
    with pytest.raises(ValueError, match="reward_range must be given and start at 0 or above"):
        Gated(explorer=LinUCB(scale=1.0), gate=Conservative()).start(bandit.actions, offline)


def test_every_line_is_named_at_its_end_and_no_two_names_overlap() -> None:
    results = fake_results(field.FIELD["dimension"], formula, runs=2)
    figure = figures.draw(results)
    for axes, setting in zip(figure.axes, results.experiment.settings, strict=True):
        places = sorted(text.xyann[1] for text in axes.texts)  # type: ignore[attr-defined]
        named = {str(text.get_text()).rpartition(" ")[0] for text in axes.texts}
        assert named == set(setting.labels)
        assert all(after - before > 0.06 for before, after in pairwise(places))
        thick = {line.get_label() for line in axes.get_lines() if line.get_linewidth() > 2}
        assert thick == set(field.EMPHASISED)
