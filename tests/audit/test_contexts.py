"""The audit of a log with contexts: it sees what was planted, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto import Category, Numeric, Recipe, audit_log, read_log, read_rows
from linoto.audit.coverage import design_fact, find_context_coverage, possible_rows
from linoto.audit.gain import Gain, gain_facts
from linoto.cli import main
from linoto.core.features.moments import Moments
from linoto.core.intervals import mean_from_total

OPTIONS: dict[str, Any] = {"reward": "y", "propensity": "p"}
COLUMNS: dict[str, Any] = {
    "item": "item",
    "numeric": ["age"],
    "categories": ["country"],
    "crosses": [("item", "country")],
}


pytestmark = pytest.mark.usefixtures("blank_pictures")


def frame(rows: int = 3000, *, effect: float = 0.4, drift: float = 0.0, p: float = 0.5) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    item, country = rng.choice(["A", "B"], rows), rng.choice(["DE", "NO"], rows)
    chance = 0.3 + effect * ((item == "A") & (country == "DE")) + drift * (np.arange(rows) > rows / 2)
    clicks = (rng.random(rows) < chance).astype(int)
    return pd.DataFrame(
        {"item": item, "country": country, "age": rng.integers(20, 60, rows), "p": p, "y": clicks}
    )


def audited(table: pd.DataFrame, **stated: Any) -> Any:
    log = read_log(table, **COLUMNS, **OPTIONS)
    return audit_log(log, read_rows(table, recipe=log.recipe, **OPTIONS), **stated)


def test_a_sound_log_may_be_built_on_and_contexts_are_seen_to_help() -> None:
    found = audited(frame())
    assert found.verdict == "deploy"
    assert found.gain.low > 0.02 and found.gain.low < found.gain.share < found.gain.high
    assert found.reasons[0] == "contexts explain rewards that the means of arms do not"
    assert found.confidence.noise == "bounded" and found.confidence.design == "adaptive"
    assert found.confidence.bound >= np.linalg.norm([0.3, 0.2])


def test_contexts_that_say_nothing_are_not_said_to_help() -> None:
    found = audited(frame(effect=0.0))
    assert found.gain.low < 0 and "would do as well" in found.reasons[0]


def test_a_log_with_a_handful_of_clicks_is_not_said_to_show_anything() -> None:
    table = frame()
    table["y"] = [1 if row % 500 == 0 else 0 for row in range(len(table))]
    found = audited(table)
    assert found.verdict == "not yet"
    assert found.reasons[0].startswith("too few events to say: 6 ones among 3,000 rewards; it takes 10")
    assert found.gain.reason.startswith("too few events to say: 6 of")
    table["y"] = [1 if row % 250 == 0 else 0 for row in range(len(table))]  # 12 clicks
    few = audited(table)
    assert few.verdict == "deploy"
    assert few.reasons[0].startswith(
        "whether contexts help could not be tested: too few events to say: 12 of"
    )


def test_a_log_without_any_click_is_said_to_have_none_and_allows_what_one_round_can_lose() -> None:
    found = audited(frame().assign(y=0), reward_range=(0, 1))
    none = "every reward is 0, so nothing could be tested: more rows would help"
    assert found.verdict == "not yet" and found.reasons == (none,)
    assert {promise.certificate.budget for promise in found.promises} == {1.0}
    assert dict(found.facts())["budget"].startswith("1 is what 1 round can lose at the most; so small")


def test_a_model_that_misses_by_more_than_the_means_is_said_to_be_above_them() -> None:
    better = Gain(share=0.0312, low=-0.01, high=0.0724, rows=100, reason="")
    worse = Gain(share=-0.0016, low=-0.02, high=0.0168, rows=100, reason="")
    ((_, below),), ((_, above),) = gain_facts(better), gain_facts(worse)
    assert "is 3.12% below that of" in below and "[-1.00%, 7.24%] at 95% (negative: above)" in below
    assert "is 0.16% above that of" in above and "[-1.68%, 2.00%] at 95% (negative: below)" in above


def test_the_usual_budget_is_a_part_of_what_the_log_earned() -> None:
    table = frame()
    rich, poor = audited(table), table.assign(y=[1 if row % 50 == 0 else 0 for row in range(len(table))])
    assert {promise.certificate.budget for promise in rich.promises} == {50.0}  # 100 times the noise
    few = audited(poor)
    assert {promise.certificate.budget for promise in few.promises} == {6.0}  # a tenth of 60 clicks
    told = dict(few.facts())["budget"]
    assert told.startswith("6 is what the log earns in 300 rows, and what 6 rounds can lose at the most")
    assert "little is explored" in told and "little" not in dict(rich.facts())["budget"]


def test_a_budget_of_half_of_what_the_log_earned_is_not_a_promise_to_deploy_with() -> None:
    table = frame(effect=0.0)
    earned = 5000 * float(table["y"].mean())  # over the horizon
    assert audited(table, budget=0.4 * earned).verdict == "deploy"
    found = audited(table, budget=0.6 * earned)
    assert found.verdict == "not yet" and "half or more of the" in found.reasons[0]


@pytest.mark.few(0)
def test_the_mean_of_the_log_has_an_interval_that_holds_for_few_clicks() -> None:
    """Clopper and Pearson's, as in an audit of arms; where shares of items changed, wider, at most twice."""
    table = frame().assign(y=[1 if row % 100 == 0 else 0 for row in range(3000)])
    found = audited(table)
    low, high = found.to_dict()["rewards"]["mean_interval"]
    exact = mean_from_total(30, 3000, binary=True, level=0.975)  # half of the error: nobody said 0 or 1
    assert (low, high) == pytest.approx(exact)
    assert dict(found.facts())["rewards"].startswith(
        "mean 0.0100, from 0 to 1; the true mean of what was logged lies in [0.0063, 0.0149]"
    )
    late = np.arange(3000) >= 1500
    moved = audited(table.assign(item=np.where(late & (np.arange(3000) % 3 > 0), "A", table["item"])))
    least, most = moved.mean_interval
    assert 0 < least < exact[0] < 0.01 < exact[1] < most and most - least < 2 * (exact[1] - exact[0])
    low, high = audited(table.assign(y=table["y"] * 3.0), noise=2.0).mean_interval  # by the noise alone
    assert high - low == pytest.approx(2 * 2.0 * np.sqrt(2 * np.log(2 / 0.05) / 3000))


def test_drift_is_a_reason_against_a_log_and_wrong_propensities_are_worth_knowing() -> None:
    found = audited(frame(drift=0.3, p=0.9))
    assert found.verdict == "do not trust" and len(found.reasons) == 1 and found.drift.rejected
    assert found.to_dict()["propensities"]["wrong"] == ["A", "B"]
    assert "propensities do not fit how often these were pulled: A, B" in found.notes
    assert dict(found.facts())["propensities"].endswith("they do not fit A, B")


def test_the_noise_is_that_around_the_least_squares_fit() -> None:
    table = frame()
    log = read_log(table, **COLUMNS, **OPTIONS)
    rows = read_rows(table, recipe=log.recipe, **OPTIONS)
    places, values = rows.features
    X = np.zeros((len(rows), log.recipe.d))
    np.add.at(X, (np.arange(len(rows))[:, None], places), values)
    theta, _, rank, _ = np.linalg.lstsq(X, table["y"].to_numpy(), rcond=None)
    around = float(((table["y"] - X @ theta) ** 2).sum())
    found = audit_log(log)
    assert found.noise is not None and found.gain is None
    assert found.noise.value == pytest.approx(np.sqrt(around / (len(rows) - rank)), rel=1e-9)
    assert audit_log(log, noise=0.1).verdict == "do not trust"
    assert audit_log(log, noise=found.noise.high_if_normal).verdict == "deploy"


def test_rewards_of_any_size_must_be_stated_first() -> None:
    table = frame()
    table["y"] = table["y"] * 2.5 + np.random.default_rng(0).normal(size=len(table))
    assert audited(table).verdict == "not yet"
    assert audited(table, noise=2.0).verdict == "deploy"
    outside = audited(table, reward_range=(0, 1))
    assert outside.verdict == "not yet" and "are outside the stated range [0, 1]" in outside.reasons[0]
    assert audited(table, reward_range=(0, 1), noise="bounded").verdict == "do not trust"


def test_coverage_is_about_what_features_can_be() -> None:
    recipe = Recipe(
        items=("A", "B", "C"),
        context=(Numeric(name="age"), Category(name="country", levels=("DE", "NO"))),
        crosses=(("item", "country"), ("item", "age")),
    )
    # 3 x 2 cells, and a slope for each item: the rest are sums of these
    assert np.linalg.matrix_rank(possible_rows(recipe)) == 9
    contexts = [{"age": age, "country": word} for age in (-1.0, 0.0, 1.0) for word in ("DE", "NO")]
    every = np.vstack([recipe.transform(context) for context in contexts])
    found = find_context_coverage(recipe, Moments.from_rows(every, np.zeros(len(every))), ridge=0.1)
    assert found.rank == found.eigenvalues.size == 9 and found.never == () and found.weak == 0
    assert design_fact(found, 5000).startswith(
        "the log knows 9 of the 9 directions that features can have; it "
    )
    some = np.vstack([recipe.transform(context, ["A", "B"]) for context in contexts])
    part = find_context_coverage(recipe, Moments.from_rows(some, np.zeros(len(some))), ridge=0.1)
    assert "can have, and of 3 it says less than the ridge of" in design_fact(part, 5000)
    assert part.rank == 6 and part.weak == 3 and recipe.names[part.never[0]] == "item=C"


def test_the_command_writes_page_and_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame(800).to_csv(tmp_path / "log.csv", index=False)
    words = [
        "audit",
        str(tmp_path / "log.csv"),
        "--item",
        "item",
        "--reward",
        "y",
        "--propensity",
        "p",
    ]
    words += ["--numeric", "age", "--category", "country", "--cross", "item", "country", "--json"]
    page, stats = tmp_path / "audit.html", tmp_path / "log.npz"
    assert main([*words, "--out", str(page), "--save", str(stats)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["verdict"] == "deploy" and [found["method"] for found in facts["greedy"]] == [
        "ips",
        "snips",
        "dr",
    ]
    saved = linoto.load(stats)
    assert (saved.verdict, saved.source) == ("deploy", "log.csv") and saved.confidence is not None
    text = page.read_text(encoding="utf-8")
    assert "What the log knows" in text and "--cross item country" in text and "Deploy." in text


@pytest.mark.parametrize("rows", [1, 4])
def test_a_log_of_a_few_rows_has_a_verdict_and_what_it_cannot_tell_is_said(
    rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = frame(rows).assign(item=["A", "B", "A", "B"][:rows])
    found = audited(table)
    assert found.verdict == "not yet" and found.gain.reason.startswith("too few")
    log, page = tmp_path / "log.csv", tmp_path / "audit.html"
    table.to_csv(log, index=False)
    words = ["audit", str(log), "--item", "item", "--reward", "y", "--propensity", "p"]
    words += ["--numeric", "age", "--category", "country", "--out", str(page)]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "contexts help? too few" in said and f"it takes 5 to judge them, got {rows}" in said
    assert f"it takes 5 to judge them, got {rows}." in page.read_text(encoding="utf-8")
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["greedy"] == [] and facts["greedy_notes"][0].startswith("cannot tell")


def test_a_page_that_says_deploy_does_not_deny_its_notes(tmp_path: Path) -> None:
    """By a Control gate neither the model nor the propensities matter; other uses of the log rest on them."""
    from linoto.pages.audit import write_audit

    said = {}
    curved = frame()
    middle = (curved["age"] - 40).abs() < 8
    curved["y"] = np.random.default_rng(4).binomial(1, np.where(middle, 0.8, 0.2))
    for name, table in (("sound", frame()), ("wrong", frame(p=0.9)), ("curved", curved)):
        found = audited(table)
        assert found.verdict == "deploy"
        page = write_audit(tmp_path / f"{name}.html", found, source="log", command="linoto audit")
        said[name] = " ".join(page.read_text("utf-8").split())
    assert "Nothing speaks against the log, and over 5,000 rounds" in said["sound"]
    assert "Nothing speaks against the log" not in said["wrong"]
    assert (
        "Nothing speaks against what the promise rests on, and over 5,000 rounds it is worth something. "
        "The log does speak against an estimate by its propensities: see below."
    ) in said["wrong"]
    assert "The log does speak against a promise by the model: see below." in said["curved"]
