"""The audit finds what was planted, raises false alarms no more often than it says, and speaks JSON."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto.audit import (
    arm_intervals,
    estimate_noise,
    find_coverage,
    find_drift,
    find_miscalibrated,
    holm,
    lack_of_fit,
    propose_bound,
)
from linoto.cli.audit import add_audit
from linoto.cli.usage import Parser
from linoto.data import Offline
from linoto.features import ArmTable, load
from linoto.kernels import Floats, Ints
from linoto.logs import Log, Propensities
from linoto.verdicts import Audit, audit_log

K = 20
ACTIONS = np.column_stack([np.ones(K), np.random.default_rng(0).uniform(-1, 1, (K, 3))])
THETA = np.array([0.5, 0.1, -0.1, 0.1])
PULLS = np.random.default_rng(1).integers(2, 60, K)


def draw_log(means: Floats, pulls: Ints, seed: Any, noise: float = 0.4) -> Offline:
    return linoto.Bandit(actions=np.ones((len(means), 1)), means=means, noise=noise).log(
        pulls, np.random.default_rng(seed)
    )


def table_of(actions: Floats) -> ArmTable:
    columns: dict[str, Any] = {"id": [f"arm {i}" for i in range(len(actions))]}
    columns |= {f"x{j}": column.tolist() for j, column in enumerate(actions.T)}
    return ArmTable.from_columns(columns, intercept=False)


def log_of(early: Offline, late: Offline, actions: Floats = ACTIONS, **more: Any) -> Log:
    facts = {"rows": early.total + late.total, "extent": (-2.0, 3.0), **more}
    return Log(arms=table_of(actions), early=early, late=late, **facts)


def clean_log(seed: int = 0, **more: Any) -> Log:
    halves = (draw_log(ACTIONS @ THETA, PULLS, [seed, half]) for half in (0, 1))
    return log_of(*halves, **more)


# -- the tests are as wrong as they say -------------------------------------------------------------------


def test_the_test_of_linearity_keeps_its_size() -> None:
    """2000 linear worlds: a binomial(2000, 0.05) leaves [62, 139] with probability 1e-4."""
    p = np.array(
        [lack_of_fit(ACTIONS, draw_log(ACTIONS @ THETA, PULLS, seed)).p for seed in range(2000)]  # type: ignore[union-attr]
    )
    assert 62 <= (p < 0.05).sum() <= 139
    assert 0.47 < p.mean() < 0.53  # uniform; its standard error is 0.0065


def test_the_test_of_linearity_has_power() -> None:
    """Arms off the plane by 0.15 at noise 0.4: with a noncentrality of 70 a test at level 0.01 misses it with
    probability 1e-4, and 4 of 100 with probability 4e-10."""
    crooked = ACTIONS @ THETA + 0.15 * np.where(np.arange(K) % 2, 1, -1)
    found = [lack_of_fit(ACTIONS, draw_log(crooked, PULLS, seed)) for seed in range(100)]
    assert sum(test is not None and test.rejected for test in found) >= 97
    misfits = [test.misfit for test in found if test is not None]
    assert 0.12 < np.mean(misfits) < 0.16


def test_the_test_of_linearity_is_the_textbook_one() -> None:
    """Against the residual sums of squares of two regressions on the rows themselves."""
    from scipy.stats import f as fisher

    rng = np.random.default_rng(3)
    arms = np.repeat(np.arange(K), PULLS)
    rewards = rng.standard_normal(arms.size)
    log = Offline.from_rows(arms, rewards, k=K)
    linear = np.linalg.lstsq(ACTIONS[arms], rewards)[1][0]
    saturated = np.linalg.lstsq(np.eye(K)[arms], rewards)[1][0]
    between, within = K - 4, arms.size - K
    expected = ((linear - saturated) / between) / (saturated / within)
    found = lack_of_fit(ACTIONS, log)
    assert found is not None and found.degrees == (between, within)
    assert found.f == pytest.approx(expected) and found.p == pytest.approx(
        fisher.sf(expected, between, within)
    )


def test_linearity_is_not_tested_where_nothing_is_left_over() -> None:
    assert lack_of_fit(np.eye(3), Offline.from_rows([0, 0, 1], [1.0, 2.0, 3.0], k=3)) is None
    assert lack_of_fit(ACTIONS, draw_log(ACTIONS @ THETA, np.ones(K, int), 0)) is None


def test_rewards_without_any_noise_are_judged_exactly() -> None:
    pulls = np.full(K, 5)
    straight, crooked = ACTIONS @ THETA, np.arange(K) ** 2.0
    good, bad = (
        lack_of_fit(ACTIONS, Offline(pulls=pulls, reward_sums=5 * mu, reward_squares=5 * mu**2))
        for mu in (straight, crooked)
    )
    assert good is not None and bad is not None
    assert good.p == 1.0 and bad.p == 0.0


def test_the_test_of_drift_keeps_its_size() -> None:
    """2000 steady worlds at 0.01: a binomial(2000, 0.01) exceeds 40 with probability 3e-5."""
    found = []
    for seed in range(2000):
        halves = (draw_log(ACTIONS @ THETA, PULLS, [seed, half]) for half in (0, 1))
        found.append(find_drift(*halves))
    assert sum(drift is not None and drift.rejected for drift in found) <= 40
    overall = np.array([drift.overall for drift in found if drift is not None])
    assert 62 <= (overall < 0.05).sum() <= 139


def test_one_arm_that_moved_is_found_and_named() -> None:
    """A move of six standard errors, found and nothing else in 98 % of 2000 worlds: 40 of 50 are asked for,
    and fewer have probability below 1e-6."""
    pulls = np.full(K, 100)
    moved = ACTIONS @ THETA + np.where(np.arange(K) == 7, 6 * 0.4 * np.sqrt(2 / 100), 0)
    hits = 0
    for seed in range(50):
        drift = find_drift(draw_log(ACTIONS @ THETA, pulls, [seed, 0]), draw_log(moved, pulls, [seed, 1]))
        assert drift is not None
        hits += drift.moved.tolist() == [7]
    assert hits >= 40


def test_many_small_moves_are_found_together() -> None:
    """Each arm moves by two standard errors: all together are below 1e-4 in 99.8 % of 2000 worlds, so that
    fewer than 18 of 20 have probability 4e-6."""
    pulls = np.full(K, 100)
    moved = ACTIONS @ THETA + 2 * 0.4 * np.sqrt(2 / 100)
    found = 0
    for seed in range(20):
        drift = find_drift(draw_log(ACTIONS @ THETA, pulls, [seed, 0]), draw_log(moved, pulls, [seed, 1]))
        found += drift is not None and drift.overall < 1e-4
    assert found >= 18


def test_holm_never_calls_more_than_bonferroni_would_miss() -> None:
    p = np.array([0.001, 0.02, 0.02, 0.9])
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= np.minimum(4 * p, 1)).all()
    assert adjusted[0] == pytest.approx(0.004)


def test_the_noise_interval_covers() -> None:
    """1000 Gaussian logs at 95 %: a binomial(1000, 0.95) is below 920 with probability 2e-5."""
    hits = 0
    for seed in range(1000):
        noise = estimate_noise(draw_log(ACTIONS @ THETA, PULLS, seed))
        assert noise is not None
        hits += noise.low <= 0.4 <= noise.high
    assert hits >= 920


def test_noise_needs_an_arm_pulled_twice() -> None:
    assert estimate_noise(Offline.from_rows([0, 1], [1.0, 2.0], k=2)) is None
    with pytest.raises(ValueError, match="offline must know reward_squares"):
        estimate_noise(Offline(pulls=[3], reward_sums=[1.0]))


def test_the_proposed_bound_covers_the_parameter() -> None:
    """At delta = 0.05 it may fall short once in 20 logs; it is loose, and did in none of 5000."""
    for seed in range(300):
        bandit = linoto.sphere_bandit(k=12, d=4, rng=np.random.default_rng(seed), noise=0.5)
        log = bandit.log(np.full(12, 30), np.random.default_rng([seed, 1]))
        assert 1.0 <= propose_bound(bandit.actions, log, noise=0.5) < 3.0


def test_an_arms_interval_covers_its_mean() -> None:
    """20 arms x 200 logs at 95 %: a binomial(4000, 0.95) is below 3745 with probability 1e-4."""
    hits = 0
    for seed in range(200):
        _, low, high = arm_intervals(draw_log(ACTIONS @ THETA, PULLS, seed))
        hits += int(((low <= ACTIONS @ THETA) & (high >= ACTIONS @ THETA)).sum())
    assert hits >= 3745


# -- what the log cannot tell -----------------------------------------------------------------------------


def test_directions_and_arms_without_information_are_named() -> None:
    actions = np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0], [0, 0, 2.0], [1.0, 0, 0.5]])
    log = Offline(pulls=[5, 5, 0, 0, 0], reward_sums=[1.0, 2.0, 0, 0, 0])
    found = find_coverage(actions, log, ridge=1.0, rounds=100)
    assert found.rank == 2
    np.testing.assert_allclose(found.eigenvalues, [0.0, 5.0, 5.0], atol=1e-12)
    assert found.unseen.tolist() == [2, 3, 4]
    assert found.unknown.tolist() == [3, 4]
    assert found.untested.tolist() == [2, 4]
    assert found.directions == ((2,),)


def test_redundant_features_are_no_missing_directions() -> None:
    arms = ArmTable.from_columns({"id": list("abcd"), "x": list("uuvv"), "y": list("ppqq")})
    log = Offline(pulls=[9, 9, 9, 9], reward_sums=[1.0, 1.0, 2.0, 2.0])
    found = find_coverage(arms.actions, log, ridge=1.0, rounds=100)
    assert arms.actions.shape == (4, 5)
    assert found.rank == found.eigenvalues.size == 2 and not found.unknown.size and not found.directions


def test_propensities_that_cannot_be_right_are_named() -> None:
    """False alarms at 0.01: a binomial(2000, 0.01) exceeds 40 with probability 2e-5. The wrong arm is 17
    standard errors off and always named."""
    rng = np.random.default_rng(0)
    chances, told = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.3, 0.3])
    alarms = 0
    for _ in range(2000):
        pulls = rng.multinomial(5000, chances)
        right, wrong = (
            Propensities(low=0.2, high=0.5, inverse=pulls / p, inverse_squares=pulls / p**2)
            for p in (chances, told)
        )
        alarms += bool(find_miscalibrated(right, 5000).size)
        assert 2 in find_miscalibrated(wrong, 5000)
    assert alarms <= 40


# -- the verdict ------------------------------------------------------------------------------------------


def test_a_sound_log_is_deployed() -> None:
    audit = audit_log(clean_log(), epsilon=0.05)
    assert audit.verdict == "deploy", audit.reasons
    assert audit.certificate is not None and audit.certificate.per_round == 0.05
    assert audit.confidence is not None and audit.noise is not None
    assert audit.confidence.scale >= audit.noise.value
    assert audit.confidence.bound >= float(np.linalg.norm(THETA))


def test_a_crooked_log_wants_arm_effects_and_is_sound_with_them() -> None:
    crooked = ACTIONS @ THETA + 0.2 * np.where(np.arange(K) % 2, 1, -1)
    log = log_of(*(draw_log(crooked, PULLS, half) for half in (0, 1)))
    audit = audit_log(log)
    assert audit.verdict == "deploy with arm effects"
    assert "not linear" in audit.reasons[0]
    mended = Log(**{**vars(log), "arms": log.arms.with_effects()})
    assert audit_log(mended).verdict == "deploy"


def test_linearity_that_cannot_be_tested_wants_arm_effects_only_where_it_is_leaned_on() -> None:
    pulls = np.where(np.arange(K) < 4, 30, 0)  # as many logged arms as features
    audit = audit_log(log_of(*(draw_log(ACTIONS @ THETA, pulls, half) for half in (0, 1))))
    assert audit.verdict == "deploy with arm effects" and "cannot be tested" in audit.reasons[0]
    alone = log_of(*(draw_log(np.array([0.4, 0.6]), np.array([50, 50]), half) for half in (0, 1)), np.eye(2))
    assert audit_log(alone).verdict == "deploy"


def test_drift_is_not_to_be_trusted() -> None:
    moved = ACTIONS @ THETA + 0.4 * (np.arange(K) < 10)
    audit = audit_log(log_of(draw_log(ACTIONS @ THETA, PULLS, 0), draw_log(moved, PULLS, 1)))
    assert audit.verdict == "do not trust"
    assert "did not earn late what they earned early" in audit.reasons[0]


@pytest.mark.parametrize(
    "given, log, reason",
    [
        ({"noise": 0.05}, {}, "the log is noisier"),
        ({"bound": 0.01}, {}, "the assumptions contradict the log"),
        ({}, {"rows": 10_000, "bad": {"missing reward": 500}}, "5.0% of the rows are bad"),
        ({"noise": "bounded", "reward_range": (5.0, 6.0)}, {}, "the assumptions contradict the log"),
    ],
)
def test_what_the_log_contradicts_is_not_to_be_trusted(
    given: dict[str, Any], log: dict[str, Any], reason: str
) -> None:
    audit = audit_log(clean_log(**log), **given)
    assert audit.verdict == "do not trust"
    assert any(reason in text for text in audit.reasons), audit.reasons


def test_unknown_noise_is_not_to_be_trusted() -> None:
    early, late = (Offline.from_rows([arm], [0.5], k=K) for arm in (0, 1))
    audit = audit_log(log_of(early, late))
    assert audit.verdict == "do not trust" and audit.certificate is None
    assert "nothing is known of the noise" in audit.reasons[0]
    assert audit_log(log_of(early, late), noise=1.0).certificate is not None


def test_clicks_are_recognised() -> None:
    bandit = linoto.Bandit(actions=ACTIONS, means=ACTIONS @ THETA, rewards="bernoulli")
    halves = (bandit.log(PULLS, np.random.default_rng(half)) for half in (0, 1))
    audit = audit_log(log_of(*halves, extent=(0.0, 1.0)))
    assert audit.confidence is not None
    assert audit.confidence.noise == "bounded" and audit.confidence.reward_range == (0.0, 1.0)


def test_what_is_worth_knowing_is_noted() -> None:
    audit = audit_log(clean_log(extent=(-2.0, 100.0), bad={"missing reward": 1}), epsilon=50.0)
    text = " ".join(audit.notes)
    assert "tails are heavy" in text and "bad rows were dropped" in text and "promises nothing" in text


# -- words, JSON and the page -----------------------------------------------------------------------------


def audits() -> list[Audit]:
    early, late = (Offline.from_rows([arm], [0.5], k=K) for arm in (0, 1))
    return [
        audit_log(clean_log()),
        audit_log(log_of(early, late)),
        audit_log(Log(**{**vars(clean_log()), "arms": table_of(ACTIONS).with_effects()})),
    ]


def test_an_audit_is_json_without_nan_and_facts_without_none() -> None:
    for audit in audits():
        data = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
        assert data["verdict"] == audit.verdict
        for name, text in audit.facts():
            assert name and text and "nan" not in text.split() and "None" not in text


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of clicks with names that a page must escape, and its arms."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    names = [f"<b>&{i}$" for i in range(K)]
    frame = pd.DataFrame({"name": names, **{f"x{j}": ACTIONS[:, j] for j in range(1, 4)}})
    frame.to_csv(folder / "arms.csv", index=False)
    arms = rng.choice(K - 2, 4000)
    clicks = (rng.random(4000) < (ACTIONS @ THETA)[arms]).astype(int)
    log = pd.DataFrame({"at": np.arange(4000), "shown": np.array(names)[arms], "clicked": clicks})
    log.to_parquet(folder / "log.parquet")
    bad = log.astype({"clicked": object})
    bad.loc[2, "clicked"] = "oops"
    bad.to_csv(folder / "bad.csv", index=False)
    return folder


def run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: Any) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `linoto audit`, with errors as the command line reports them."""
    top = Parser(prog="linoto", allow_abbrev=False)
    add_audit(top.add_subparsers(required=True, parser_class=Parser))
    words = ["audit", *map(str, arguments)]
    if "--arms" not in words:
        words += ["--arms", str(folder / "arms.csv"), "--action", "shown"]
    if "--reward" not in words:
        words += ["--reward", "clicked"]
    try:
        parsed = top.parse_args(words)
        code = parsed.run(parsed)
    except SystemExit as stop:
        code = int(stop.code or 0)
    except (ValueError, OSError, ImportError) as error:
        code = 1
        captured = capsys.readouterr()
        return code, captured.out, f"linoto: {error}\n"
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_and_writes(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    page, stats = tmp_path / "new" / "audit.html", tmp_path / "stats.npz"
    code, out, err = run(
        capsys,
        files,
        files / "log.parquet",
        "--time",
        "at",
        "--out",
        page,
        "--save",
        stats,
        "--epsilon",
        0.05,
    )
    assert (code, err) == (0, "")
    assert (
        out.startswith("verdict") and "deploy" in out and f"wrote {page}" in out and f"wrote {stats}" in out
    )
    saved = load(stats)
    agent = linoto.Gated(confidence=saved.confidence).start(saved.actions, saved.offline, names=saved.names)
    agent.update(agent.decide(), 1.0)
    again = tmp_path / "again.html"
    run(capsys, files, files / "log.parquet", "--time", "at", "--out", again, "--epsilon", 0.05)
    assert again.read_bytes() == page.read_bytes()


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, err = run(capsys, files, files / "log.parquet", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["rows"] == {"read": 4000, "used": 4000, "bad": {}, "unknown_ids": {}}
    assert data["arms"]["unseen"] == ["<b>&18$", "<b>&19$"]
    assert data["certificate"]["holds"] is True


def test_a_bad_row_writes_nothing_and_skipping_completes(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    page, stats = tmp_path / "audit.html", tmp_path / "stats.npz"
    code, out, err = run(capsys, files, files / "bad.csv", "--out", page, "--save", stats, "--json")
    assert (code, out) == (1, "")
    assert "bad.csv, row 3, column 'clicked': the reward must be a finite number, got 'oops'" in err
    assert not page.exists() and not stats.exists()
    code, out, _ = run(capsys, files, files / "bad.csv", "--skip-bad", "--json")
    assert code == 0 and json.loads(out)["rows"]["bad"] == {"reward not understood": 1}


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["log.parquet", "--reward", "clickd"], 2, "did you mean 'clicked'?"),
        (["log.parquet", "--id", "nam"], 2, "did you mean 'name'?"),
        (["log.parquet", "--time", "att"], 2, "did you mean 'at'?"),
        (["log.parquet", "--epsilon", "-1"], 2, "must be a number >= 0"),
        (["log.parquet", "--noise", "loud"], 2, "must be a number > 0 or the word bounded"),
        (["log.parquet", "--noise", "bounded"], 2, "--noise bounded needs --reward-range"),
        (["log.parquet", "--reward-range", "1", "0"], 2, "--reward-range must be LO HI with LO < HI"),
        (["log.parquet", "--arm-efects"], 2, "did you mean '--arm-effects'?"),
        (["none.parquet"], 1, "none.parquet must be a file or match some, got none"),
        (
            ["log.parquet", "--reward", "shown"],
            1,
            "row 1, column 'shown': the reward must be a finite number",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str], files: Path, arguments: list[str], code: int, message: str
) -> None:
    found, out, err = run(capsys, files, files / arguments[0], *arguments[1:])
    assert (found, out) == (code, "")
    assert message in err and err.count("\n") == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    code, out, _ = run(capsys, files, "--help")
    assert code == 0 and "examples:" in out and "None" not in out


class Page(HTMLParser):
    """What a browser would fetch, and the text it would show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.pictures = 0
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        self.outside += [
            value for name, value in attributes if name in ("src", "href") and value and value[0] != "#"
        ]
        assert tag not in ("script", "link", "b")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone_and_says_everything(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    path = tmp_path / "audit.html"
    run(capsys, files, files / "log.parquet", "--out", path)
    page = Page(path.read_text("utf-8"))
    assert page.outside == [] and page.pictures == 4
    for words in (
        "Deploy.",
        "linear?",
        "steady?",
        "most lost per round",
        "<b>&3$",
        "linoto audit log.parquet",
    ):
        assert words in page.text
    assert str(files) not in path.read_text("utf-8")


def test_the_page_of_an_audit_without_a_promise_says_so(tmp_path: Path) -> None:
    from linoto.audit_page import write_page

    for number, audit in enumerate(audits()):
        path = write_page(tmp_path / f"{number}.html", audit, source="log", command="linoto audit")
        assert Page(path.read_text("utf-8")).pictures >= 2
    assert "There is none" in (tmp_path / "1.html").read_text("utf-8")
