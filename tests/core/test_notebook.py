"""In a notebook every object shows itself as one small table, with every name escaped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.audit_logs import ACTIONS, clean_log
from helpers.html import Page

import linoto
from linoto.audit.audit import audit_log
from linoto.core.notebook import html_table
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log

ODD = "<script>\"&'</script>"
LOG = linoto.Offline(pulls=[40, 40, 0], reward_sums=[20.0, 8.0, 0.0])


def an_audit() -> Any:
    names = [f"{ODD}{arm}" for arm in range(len(ACTIONS))]
    arms = ArmTable.from_columns({"id": names, ODD: ACTIONS[:, 1].tolist()})
    pulls = np.array([2, 2, *[0] * 18])
    halves = [linoto.Offline(pulls=pulls, reward_sums=pulls / 2, reward_squares=pulls / 3)] * 2
    return audit_log(Log(**{**vars(clean_log()), "arms": arms, "early": halves[0], "late": halves[1]}))


def a_run(offline: linoto.Offline = LOG) -> linoto.Run:
    bandit = linoto.LinearBandit(actions=np.eye(3), theta=[0.5, 0.2, 0.9])
    return linoto.simulate(linoto.LinUCB(scale=1.0), bandit, offline, horizon=20)


def some_results() -> Any:
    setting = Setting(name=ODD, k=5, d=2, logged_arms=3, horizon=9, policies={ODD: linoto.LinUCB(scale=1.0)})
    return run_experiment(Experiment(name="odd", title=ODD, settings=(setting,)), runs=2)


SHOWN = {
    "Certificate": lambda: linoto.Gated().certificate(np.eye(3), LOG),
    "Audit": an_audit,
    "Preview": lambda: linoto.preview(np.eye(3), LOG, grid=[0.05, 0.2], horizon=20, worlds=3),
    "Run": a_run,
    "Results": some_results,
}


@pytest.mark.parametrize("name", SHOWN)
def test_every_object_is_one_short_table_without_a_script(name: str) -> None:
    html = SHOWN[name]()._repr_html_()
    page = Page(html)
    assert html.startswith("<table>") and html.endswith("</table>") and not page.open
    assert set(page.tags) <= {"table", "caption", "tr", "th", "td"}
    assert page.tags["tr"] <= 25 and len(html) < 5000
    assert "nan" not in html and "None" not in html


@pytest.mark.parametrize("name", ["Audit", "Results"])
def test_names_that_a_user_chose_are_escaped(name: str) -> None:
    assert "&lt;script&gt;&quot;&amp;&#x27;&lt;/script&gt;" in SHOWN[name]()._repr_html_()


def test_a_table_escapes_its_caption_columns_and_cells() -> None:
    html = html_table([(ODD, ODD)], columns=[ODD, ODD], caption=ODD)
    assert Page(html).tags["script"] == 0 and html.count("&lt;script&gt;") == 5


def test_a_run_without_a_log_has_no_shortfall() -> None:
    assert "shortfall" in a_run()._repr_html_()
    empty = linoto.Offline(pulls=[0, 0, 0], reward_sums=[0.0, 0.0, 0.0])
    assert "shortfall" not in a_run(empty)._repr_html_()


def test_a_printed_audit_is_short_and_its_full_text_says_everything() -> None:
    audit = audit_log(clean_log(), noise=0.5, epsilon=0.1)
    lines = str(audit).splitlines()
    assert len(lines) <= 12 and lines[0].split() == ["verdict", "deploy"]
    assert "assumes" not in str(audit) and "most lost per round" in str(audit)
    assert "most lost in all" in str(audit_log(clean_log(), noise=0.5, epsilon=0.0))
    for name, text in audit.facts():
        assert name in audit.full_text() and text in audit.full_text()
