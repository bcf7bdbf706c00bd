"""Reports: one page that needs nothing from elsewhere."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.fakes import fake_results
from helpers.html import Page

from linoto import Engine, LinOtO, LinTS, LinUCB
from linoto.core.arrays import Floats
from linoto.experiments import paper
from linoto.experiments.claims import check_claims
from linoto.experiments.run import run_experiment
from linoto.experiments.sentences import CLAIMS
from linoto.experiments.settings import Experiment, Setting
from linoto.pages.report import write_report

EXPERIMENTS = {experiment.name: experiment for group in paper.FIGURES.values() for experiment in group}
SHOWN = ("horizon", "remark-budget")  # some of them: a figure takes most of a second


def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
    rng = np.random.default_rng([run, setting.m, sum(map(ord, label))])
    return np.asarray(rng.uniform(0.2, 0.5) * rounds)


def write(out: Path, names: Iterable[str]) -> Path:
    """The report of these experiments of the paper, with what it says about them."""
    results = {name: fake_results(EXPERIMENTS[name], formula) for name in names}
    claims = [claim for claim in CLAIMS if claim.experiment in results]
    found = check_claims(claims, results)
    write_report([*results.values()], found, out, title="The paper", command="linoto reproduce all --runs 6")
    return out


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("report"), SHOWN)


def test_the_page_needs_nothing_from_elsewhere(written: Path) -> None:
    text = (written / "report.html").read_text()
    page = Page(text)
    assert not page.outside and not page.open
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?:|@import|url\((?!#)", text)


def test_every_link_has_its_target_and_every_id_is_one(written: Path) -> None:
    page = Page((written / "report.html").read_text())
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert max(page.ids.values()) == 1


def assert_complete(folder: Path, names: Iterable[str]) -> None:
    text = (folder / "report.html").read_text()
    page, shown = Page(text), set(names)
    assert {claim.name for claim in CLAIMS if claim.experiment in shown} | shown <= set(page.ids)
    assert page.tags["svg"] == len(shown)
    assert "linoto reproduce all --runs 6" in text
    for word in ("holds", "does not hold", "undecided"):
        assert f">{word}</span>" in text


def test_every_claim_and_every_figure_is_there(written: Path) -> None:
    assert_complete(written, SHOWN)


@pytest.mark.slow
def test_every_claim_and_every_figure_of_the_paper_is_there(tmp_path: Path) -> None:
    assert_complete(write(tmp_path, EXPERIMENTS), EXPERIMENTS)


def test_every_part_of_every_sentence_has_its_result_on_the_page(written: Path) -> None:
    text = (written / "report.html").read_text()
    data = json.loads((written / "claims.json").read_text())
    for result, sign in (("holds", "✓"), ("does not hold", "✗"), ("undecided", "?")):
        parts = [part for entry in data for part in entry["measurements"] if part["verdict"] == result]
        assert text.count(f">{sign} {result}</span></li>") == len(parts) > 0


def test_it_is_readable_on_a_phone_and_at_night(written: Path) -> None:
    text = (written / "report.html").read_text()
    assert 'name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text
    assert "#000000" not in text.split("</style>")[1]  # figures follow the theme


def test_claims_are_also_data(written: Path) -> None:
    data = json.loads((written / "claims.json").read_text())
    assert [entry["name"] for entry in data] == [claim.name for claim in CLAIMS if claim.experiment in SHOWN]


def test_tables_are_tidy(written: Path) -> None:
    rows = pq.read_table(written / "horizon.parquet").to_pylist()
    assert list(rows[0]) == ["setting", "policy", "run", "round", "regret", "offline_regret", "explored"]
    assert {row["setting"] for row in rows} == {"n=1000", "n=4000", "n=8000"}
    with (written / "horizon.table.csv").open() as file:
        table = list(csv.DictReader(file))
    same = json.loads((written / "horizon.table.json").read_text())
    assert [float(row["regret"]) for row in table] == [row["regret"] for row in same]


def test_curves_are_parquet_and_csv_where_it_is_asked_for_or_was_there(tmp_path: Path) -> None:
    """A CSV of an earlier version would show earlier runs, so it is renewed."""
    results = run_experiment(Experiment(name="same", settings=(ODD,)), runs=3, engine=Engine(jobs=1))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "same.csv").write_text("setting,policy\n")
    for folder, as_csv in (("plain", False), ("asked", True), ("old", False)):
        write_report([results], [], tmp_path / folder, title="t", command="c", as_csv=as_csv)
        assert pq.read_table(tmp_path / folder / "same.parquet").to_pylist() == list(results.rows())
    assert not (tmp_path / "plain" / "same.csv").exists()
    for folder in ("asked", "old"):
        with (tmp_path / folder / "same.csv").open() as file:
            found = [
                {
                    name: value if name in ("setting", "policy") else float(value)
                    for name, value in row.items()
                }
                for row in csv.DictReader(file)
            ]
        assert found == list(results.rows())


def test_without_pyarrow_curves_are_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    results = run_experiment(Experiment(name="same", settings=(ODD,)), runs=1, engine=Engine(jobs=1))
    paths = write_report([results], [], tmp_path, title="t", command="c")
    assert tmp_path / "same.csv" in paths and not (tmp_path / "same.parquet").exists()


POLICIES: dict[str, Any] = {"LinOtO": LinOtO(), "LinUCB": LinUCB(), "a <b> & c": LinTS()}
ODD = Setting(name='<script>alert("x")</script>', k=9, d=3, logged_arms=3, horizon=40, policies=POLICIES)


@pytest.mark.few(0)
def test_the_same_arguments_write_the_same_files(tmp_path: Path) -> None:
    experiment = Experiment(name="same", settings=(ODD,))
    for name, jobs in (("one", 1), ("two", 2)):
        out = tmp_path / name
        results = run_experiment(experiment, runs=3, engine=Engine(jobs=jobs), out=out)
        paths = write_report([results], [], out, title="t", command="c", with_bounds=True)
        assert set(paths) == set(out.iterdir()) - {out / "same.cells.sqlite"}
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir()) and len(names) == 10
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_one_run_has_tables_without_errors(tmp_path: Path) -> None:
    results = run_experiment(Experiment(name="one", settings=(ODD,)), runs=1)
    write_report([results], [], tmp_path, title="t", command="c")
    assert json.loads((tmp_path / "one.table.json").read_text())[0]["regret_se"] is None
