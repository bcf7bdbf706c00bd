"""The page of a preview: three lines that answer, nothing from elsewhere, the same bytes every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.html import Page
from markupsafe import escape
from matplotlib.text import Text

import linoto
from linoto.cli.stats_file import Statistics, arms_of
from linoto.logs.saved import Audited, SavedLog
from linoto.pages.figures.preview import draw_all
from linoto.pages.preview import (
    TITLE,
    TRUSTED,
    amount,
    answers,
    chosen_point,
    gate_answer,
    gate_row,
    judge,
    no_better_cells,
    signed,
    value_cells,
    value_text,
    write_preview,
)
from linoto.worlds.plausible import plausible
from linoto.worlds.preview import value_for

pytestmark = pytest.mark.usefixtures("blank_pictures")
NAMES = ("<script>alert(1)</script>", 'a "quoted" & odd one', *(f"arm {arm}" for arm in range(2, 12)))


def statistics() -> Statistics:
    rng = np.random.default_rng(0)
    bandit = linoto.sphere_bandit(k=12, d=4, rng=rng)
    pulls = np.array([60, 40, 40, 60, *[0] * 8])
    arms = arms_of(bandit.actions, NAMES, 12)
    return Statistics(SavedLog(arms=arms, offline=bandit.log(pulls, rng)), "<b>log</b>.npz")


def result(**changes: Any) -> linoto.Preview:
    facts: dict[str, Any] = {"horizon": 300, "worlds": 6, "grid": [0.0, 0.02, 0.3], **changes}
    return linoto.preview(statistics().log.actions, statistics().log.offline, **facts)


@pytest.fixture(scope="module")
def preview() -> linoto.Preview:
    return result()


def write(path: Path, preview: linoto.Preview, limit: float | None = None) -> str:
    p = statistics()
    write_preview(
        path,
        preview,
        p.log.offline,
        names=p.log.names,
        source=p.source,
        command="linoto <preview>",
        limit=limit,
    )
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(preview: linoto.Preview, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page for who can lose 20."""
    return write(tmp_path_factory.mktemp("preview") / "page.html", preview, limit=20.0)


def test_the_page_needs_nothing_from_elsewhere_and_every_name_is_escaped(text: str) -> None:
    page = Page(text)
    assert not page.outside and not page.open
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    assert page.tags["svg"] == 4 and max(page.ids.values()) == 1
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "a &#34;quoted&#34; &amp; odd one" in text
    assert "&lt;b&gt;log&lt;/b&gt;.npz" in text and "linoto &lt;preview&gt;" in text


@pytest.mark.few(0)
def test_the_same_arguments_write_the_same_bytes(tmp_path: Path, drawn: None) -> None:
    first = write(tmp_path / "one.html", result(engine=linoto.Engine(jobs=1)), limit=20.0)
    assert write(tmp_path / "two.html", result(engine=linoto.Engine(jobs=2)), limit=20.0) == first
    other = answers(result(seed=1), 20.0)
    assert any(escape(line) not in first for _, line in other), "other arguments, other sentences"


def test_the_question_is_answered_in_the_first_lines(preview: linoto.Preview, text: str) -> None:
    top = text[text.index("<h1>") : text.index("</ol>")]
    assert f"<h1>{TITLE}</h1>" in top and top.count("<li>") == 4 and 'class="verdict' in top
    names = ("What to do", "The most we can lose", "What to expect", "What we stand", "Untried")  # six worlds
    for (name, _), start in zip(answers(preview, 20.0), names, strict=True):
        assert name.startswith(start)
    sure = preview.guaranteed(20.0)
    assert sure is not None and f"With a tolerance of {sure.value:g}\u00a0units of reward per round" in top


def test_the_prior_is_named_with_its_warning_and_the_certificate_is_there(
    preview: linoto.Preview, text: str
) -> None:
    said = f"the average rewards of arms differ by {amount(preview.prior)}\u00a0units of reward"
    assert said in text and "(--prior)" in text and 'class="warning"' in text
    for name, line in chosen_point(preview, 20.0).certificate.rows(rounds=300):
        assert f"<tr><th>{escape(name)}</th><td>{escape(line)}</td></tr>" in text
    for symbol in (
        "R_off_t: the shortfall",
        "epsilon: the tolerance",
        "kappa: how far",
        "|theta|: the length",
    ):
        assert symbol in text


def test_both_beliefs_about_untried_arms_are_said_and_shown(tmp_path: Path) -> None:
    """What was drawn stands beside what follows if no untried arm is better; neither where all were tried."""
    rows = np.array([90, 70, 0, 0])
    log = linoto.Offline(pulls=rows, reward_sums=rows * 0.5, reward_squares=rows * 0.5)
    clicks = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    policy = linoto.Gated(gate=linoto.Tolerance(budget=5.0), confidence=clicks)
    facts: dict[str, Any] = {"policy": policy, "grid": [2.0, 5.0], "horizon": 200, "worlds": 6}
    shown, plain = (linoto.preview(np.eye(4), log, **facts, logged_arms=how) for how in ("good", "random"))
    said, otherwise = (dict(answers(each))["Untried arms"] for each in (shown, plain))
    assert "because somebody believed them good" in said and "chosen at random" in otherwise
    assert "If no untried arm is better than the worst logged one, it" in said
    text = write(tmp_path / "page.html", shown)
    assert "gain if no untried arm is better*" in text and "--logged-arms" in text
    rows = shown.table()
    for row, point in zip(rows, shown.no_better or (), strict=True):
        assert row["no_better_gain_mean"] == point.row(200)["gain_mean"]
        assert all(f"<td>{escape(cell)}</td>" in text for cell in no_better_cells(row, shown))
    assert len(json.loads(json.dumps(shown.to_dict()))["no_better"]) == 2
    tried = linoto.preview(np.eye(2), linoto.Offline(pulls=[90, 70], reward_sums=[45.0, 35.0]), **facts)
    assert tried.no_better is None and "Untried arms" not in dict(answers(tried))
    assert no_better_cells(tried.table()[0], tried) == []


def test_arms_known_by_features_alone_are_not_said_to_be_worse(preview: linoto.Preview) -> None:
    assert preview.features_alone
    assert "by their features alone" in dict(answers(preview))["Untried arms"]


def test_a_limit_nothing_can_keep_is_said_plainly(preview: linoto.Preview) -> None:
    todo, first, second, third, _ = (text for _, text in answers(preview, 1e-9))
    assert todo.startswith("Do not deploy")
    assert first.startswith("None of the values tried is guaranteed")
    assert re.match("None of the values (tried|worth having) stayed within your limit", second)
    assert third.endswith(".")


def test_without_a_limit_the_policys_own_value_is_described(preview: linoto.Preview) -> None:
    _, first, _, third, _ = (text for _, text in answers(preview))
    assert "a tolerance of 0.02\u00a0units of reward per round" in first  # nearest to Gated's 0.1
    assert "--limit" in third


def test_a_relative_tolerance_is_a_share_in_words() -> None:
    policy = linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.1, relative=True),
        confidence=linoto.Confidence(noise=0.5, reward_range=(0, 1), bound=2.0),
    )
    log = linoto.Offline(pulls=[40, 40, 0], reward_sums=[20.0, 30.0, 0.0])
    shown = linoto.preview(np.eye(3), log, policy=policy, grid=[0.1], horizon=50, worlds=3)
    assert "10\u00a0% of the log's average reward" in answers(shown, 1e6)[1][1]


def test_a_budget_is_a_sum_in_words(tmp_path: Path) -> None:
    policy = linoto.Gated(gate=linoto.Tolerance(budget=20.0))
    shown = result(policy=policy, grid=[5.0, 20.0])
    said = answers(shown, unit="clicks")[1][1]
    assert said.startswith("With a budget of 5\u00a0clicks in all, 300 rounds together earn at most")
    text = write(tmp_path / "page.html", shown, limit=50.0)
    assert "What each budget brings" in text and "The budget is how much less than that, in all" in text
    assert "budget: the loss that is accepted in all rounds together" in text


def test_a_promise_about_practice_is_not_said_of_the_log() -> None:
    clicks = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    policy = linoto.Gated(gate=linoto.Control(budget=5.0), confidence=clicks)
    log = linoto.Offline(pulls=[40, 40, 0], reward_sums=[20.0, 30.0, 0.0])
    shown = linoto.preview(np.eye(3), log, policy=policy, grid=[5.0], horizon=50, worlds=3)
    said = answers(shown)[1][1]
    assert (
        "the explored ones of 50 rounds earn at most 5\u00a0units of reward less than current practice"
        in said
    )
    assert "log's average" not in said and "in the same rounds (" in said


def test_a_gate_without_a_theorem_is_not_dressed_up() -> None:
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.1), fallback="lcb")
    shown = result(policy=policy, grid=[0.1])
    todo, first, *_ = (text for _, text in answers(shown))
    assert todo.startswith("Do not deploy this: nothing is guaranteed")
    assert first.startswith("With a tolerance of 0.1\u00a0units of reward per round, nothing is guaranteed")
    assert answers(shown, 5.0)[1][1].startswith("Nothing is guaranteed here")
    assert value_cells(shown.table()[0], shown)[1] == "no promise"


def test_a_policy_that_never_explores_has_a_page_too(tmp_path: Path) -> None:
    shown = result(policy=linoto.LinOtO(), grid=[0.0], horizon=3)
    assert np.isnan(shown.points[0].first_explored).all()
    assert ">never</td>" in write(tmp_path / "page.html", shown)


def test_the_papers_promise_is_called_empty_where_it_is(tmp_path: Path) -> None:
    shown = result(policy=linoto.LinOtO(), grid=[0.01])
    todo, first, *_ = (text for _, text in answers(shown))
    assert "says nothing: no play could lose more" in first and todo.startswith("Do not deploy yet")
    assert "alpha: the paper" in write(tmp_path / "page.html", shown)


def test_a_preview_is_plain_data(preview: linoto.Preview) -> None:
    data = preview.to_dict(limit=20.0)
    assert json.loads(json.dumps(data, allow_nan=False)).keys() == data.keys()
    assert data["policy"]["type"] == "Gated" and len(data["best"]) == len(data["headroom"]) == 6
    never = [point for point in preview.points if np.isnan(point.first_explored).all()]
    assert all(point.row(300)["first_explored"] is None for point in never)


@pytest.mark.parametrize("limit", [6.0, 20.0, 123.4])
@pytest.mark.parametrize("parameter", ["epsilon", "budget"])
def test_the_limits_own_value_just_keeps_to_it(parameter: str, limit: float) -> None:
    p = statistics()
    policy = linoto.Gated(gate=linoto.Tolerance(**{parameter: 0.1}))
    found = value_for(policy, plausible(p.log.actions, p.log.offline), limit=limit, horizon=300)
    assert found is not None

    def promised(value: float) -> float:
        return (
            policy.with_parameter(parameter, value).certificate(p.log.actions, p.log.offline).loss(300) or 0.0
        )

    assert promised(found) <= limit < promised(found * 1.11)


def test_there_is_no_tolerance_for_what_is_lost_once() -> None:
    p = statistics()
    assert value_for(linoto.Gated(), plausible(p.log.actions, p.log.offline), limit=1e-3, horizon=300) is None
    assert value_for(linoto.LinOtO(), plausible(p.log.actions, p.log.offline), limit=9.0, horizon=300) is None


def test_amounts_are_what_a_person_wants_to_read() -> None:
    assert [amount(v, 1e-9) for v in (12345.6, 85.0, 2.04, 1.0, 0.123, 0.0, -0.0, -1e-17, -7.77)] == [
        "12,346",
        "85",
        "2",
        "1",
        "0.12",
        "0",
        "0",
        "0",
        "-7.8",
    ]
    assert [signed(v) for v in (3.21, -3.21, 0.0)] == ["+3.2", "-3.2", "0"]


def test_deploy_never_stands_beside_an_empty_promise() -> None:
    """80 arms and 25 clicks: the rounding of the mixture alone may cost more than the log earns."""
    rng = np.random.default_rng(3)
    pulls = rng.multinomial(8000, np.full(80, 1 / 80))
    clicks = rng.binomial(pulls, 0.004).astype(float)
    log = linoto.Offline(pulls=pulls, reward_sums=clicks, reward_squares=clicks)
    policy = linoto.Gated(
        gate=linoto.research.OlderTolerance(budget=2.0, evidence="rewards", ledger="joint"),
        confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0),
    )
    shown = linoto.preview(np.eye(80), log, policy=policy, grid=[2.0, 8.0], horizon=1000, worlds=6)
    todo = dict(answers(shown, unit="clicks"))["What to do"]
    assert todo.startswith("Do not deploy yet") and "fewer arms" in todo
    assert all(shown.is_empty(point) for point in shown.points) and not shown.worth_having()
    assert shown.earned == pytest.approx(1000 * clicks.sum() / 8000)


def test_deploy_stands_beside_a_promise_within_the_limit(preview: linoto.Preview) -> None:
    for limit in (6.0, 20.0, 1e6):
        todo = dict(answers(preview, limit))["What to do"]
        fits = preview.worth_having(limit)
        assert todo.startswith("Deploy" if fits else "Do not deploy")
        assert all((point.certificate.loss(300) or 0.0) <= limit for point in fits)


def test_one_value_is_shown_world_by_world(tmp_path: Path, drawn: None) -> None:
    text = write(tmp_path / "page.html", result(grid=[0.1]), limit=20.0)
    assert Page(text).tags["svg"] == 1 and "One tolerance was tried" in text


def test_numbers_carry_the_unit_that_was_named(preview: linoto.Preview, tmp_path: Path) -> None:
    p = statistics()
    odd = "<US$ & cents$>"
    facts: dict[str, Any] = {
        "names": p.log.names,
        "source": "log",
        "command": "linoto preview",
        "limit": 20.0,
    }
    text = write_preview(tmp_path / "page.html", preview, p.log.offline, unit=odd, **facts).read_text("utf-8")
    assert "20\u00a0&lt;US$ &amp; cents$&gt;" in text and odd not in text
    assert all("units of reward" not in line for _, line in answers(preview, 20.0, "EUR"))


@pytest.fixture(scope="module")
def unsupported() -> linoto.Preview:
    """A logged arm that a linear model cannot describe: most worlds keep its effect, the promise does not."""
    place = [-0.36, -0.09, -0.29, -0.08, 0.51, -0.31, -0.26, 0.98]
    earned = [8.0, 6.0, 202.0, 4.0, 7.0, 5.0, 4.0, 9.0]
    log = linoto.Offline(pulls=[20, 20, 420, 20, 20, 20, 20, 20], reward_sums=earned, reward_squares=earned)
    policy = linoto.Gated(
        gate=linoto.Tolerance(budget=5.0),
        confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=1.0),
    )
    arms = np.column_stack([np.ones(8), place])
    return linoto.preview(arms, log, policy=policy, grid=[5.0], horizon=800, worlds=20)


def test_with_contexts_the_way_out_is_one_that_they_allow(unsupported: linoto.Preview) -> None:
    todo = dict(answers(replace(unsupported, rounds_from="rows of a log")))["What to do"]
    assert "a linear model that this log does not support" in todo and "(--gate control)" in todo
    assert "--evidence" not in todo and "--arm-effects" not in todo


def test_a_preview_that_says_too_little_where_the_truth_is_known_says_so(preview: linoto.Preview) -> None:
    """As the table of such problems has it: all that came was more."""
    said = "; on a table of digits, where the truth is known, such previews said too little)"
    for way, expected in {"random": True, "good": False}.items():
        shown = replace(preview, rounds_from="rows of a log", logged_arms=way)
        assert (said in dict(answers(shown))["What we stand to gain"]) is expected


def test_worlds_that_break_the_promise_speak_first(unsupported: linoto.Preview, tmp_path: Path) -> None:
    shown = unsupported
    (count,) = shown.to_dict()["broken_in"]
    assert count == (shown.points[0].worst_loss > (shown.points[0].certificate.loss(800) or 0)).sum() > 6
    todo, most, *_ = (text for _, text in answers(shown))
    assert todo.startswith(
        f"Do not deploy: in {count} of 20 plausible worlds the loss was larger than promised"
    )
    assert "a linear model that this log does not support" in todo and "--arm-effects" in todo
    assert f"{count} of 20 plausible worlds lost more" in most and "if rewards are linear in these" in most
    facts: dict[str, Any] = {"names": list("abcdefgh"), "source": "log", "command": "linoto preview"}
    log = linoto.Offline(pulls=[1] * 8, reward_sums=[0.0] * 8)
    page = write_preview(tmp_path / "broken.html", shown, log, **facts).read_text("utf-8")
    assert 'class="verdict open"' in page and "does not hold in these worlds" in page


def test_as_many_broken_worlds_as_chance_explains_are_no_alarm(unsupported: linoto.Preview) -> None:
    """Of 20 worlds at delta 0.05, five or more break a promise with probability 0.3 %, four with 1.6 %."""
    (point,) = unsupported.points
    loss = point.certificate.loss(800) or 0.0
    for broken, alarm in ((0, False), (4, False), (5, True), (20, True)):
        worst = np.where(np.arange(20) < broken, 2 * loss, loss)
        again = replace(unsupported, points=(replace(point, excess=worst - loss),))
        assert (again.refuted() is not None) == alarm


def test_fewer_than_ten_worlds_are_not_spoken_of_as_ten(preview: linoto.Preview, text: str) -> None:
    for limit in (None, 20.0):
        for shown in (preview, result(worlds=1)):
            said = " ".join(f"{name}: {line}" for name, line in answers(shown, limit))
            assert "In nine" not in said and "eight worlds of ten" not in said and "(--worlds)" in said
    assert "In nine worlds of ten" in dict(answers(result(worlds=10, horizon=20), 20.0))
    assert "worlds of 10</th>" not in text and "eight worlds of ten" not in text.split("<svg")[0]


def test_what_gains_nothing_is_not_deployed() -> None:
    shown = result(policy=linoto.Gated(gate=linoto.Tolerance(budget=1.0)), grid=[0.0])
    (point,) = shown.points
    idle = replace(shown, points=(replace(point, final_loss=np.full(6, -1e-15)),))
    assert answers(idle)[0][1].startswith("Do not deploy yet: with none of the values tried does it gain")
    assert "a budget of 0" in answers(idle)[1][1]


def test_what_gains_too_little_to_notice_or_by_chance_is_not_deployed() -> None:
    """A tenth of a per cent of what the log earns, one click, and what the worlds leave open of the mean."""
    shown = result(policy=linoto.Gated(gate=linoto.Tolerance(budget=1.0)), grid=[0.0], worlds=12)
    (point,) = shown.points
    for gain, scatter, said in (
        (
            0.02,
            0.0,
            "Do not deploy yet: with none of the values tried does it gain more than 0.02\u00a0units",
        ),
        (0.2, 0.0, "Deploy with a budget of 0"),
        (0.2, 1.0, "Do not deploy yet: with none of the values tried does it gain more than 0.2\u00a0units"),
        (5.0, 1.0, "Deploy with a budget of 0"),
    ):
        losses = -gain + scatter * np.tile([-1.0, 1.0], 6)
        other = replace(shown, points=(replace(point, final_loss=losses),), earned=100.0)
        todo = answers(other)[0][1]
        assert todo.startswith(said)
        assert ("(0.02\u00a0% of what the log earns in as many rounds), too little" in todo) == (gain == 0.02)
        assert ("12 worlds cannot tell whether that is chance" in todo) == (scatter == 1.0 and gain == 0.2)


def test_nobody_is_told_to_stake_ten_for_one() -> None:
    shown = result(policy=linoto.Gated(gate=linoto.Tolerance(budget=1.0)), grid=[4.0, 8.0], worlds=12)
    low, high = (point.certificate.loss(300) or 0.0 for point in shown.points)

    def gaining(*gains: float) -> linoto.Preview:
        pairs = zip(shown.points, gains, strict=True)
        points = tuple(replace(point, final_loss=np.full(12, -gain)) for point, gain in pairs)
        return replace(shown, points=points, earned=300.0)

    dear = gaining(low / 11, high / 12)
    todo = answers(dear)[0][1]
    assert todo.startswith("Do not deploy yet: all that was tried may lose far more than it gains.")
    assert "The most favourable is a budget of 4\u00a0units" in todo and "11 times as much" in todo
    assert dear.worth_having() == [] and judge(dear)[0] == "not yet"
    one = gaining(low / 9, high / 12)  # the second gains more, and is not advised
    said = answers(one)[0][1]
    assert said.startswith("Deploy with a budget of 4\u00a0units") and one.too_dear() is None
    assert "It is the smallest value that was tried: a smaller one may gain as much (--budget-grid)." in said
    assert "Smaller ones can be tried (--budget-grid)" in answers(one, limit=low / 2)[0][1]
    within = dict(answers(gaining(low / 11, high / 2), limit=(low + high) / 2))["What to do"]
    assert f"the smallest promise worth having allows a loss of {high:.1f}\u00a0units" in within
    both = gaining(low / 9, high / 2)
    assert "that was tried" not in answers(both)[0][1] and "can be tried" not in answers(both)[0][1]


def test_few_worlds_are_all_of_them_in_legends() -> None:
    for worlds, wanted in ((1, "the one world"), (6, "all 6 worlds"), (10, "worlds of 10")):
        for grid in ([1.0], [0.0, 1.0]):
            shown = result(policy=linoto.Gated(gate=linoto.Tolerance(budget=1.0)), grid=grid, worlds=worlds)
            for figure in draw_all(shown, None, "clicks").values():
                texts = " ".join(text.get_text() for text in figure.findobj(Text))
                assert wanted in texts and (worlds == 10 or "of 10" not in texts)


def test_values_are_written_without_powers_of_ten() -> None:
    assert [value_text(v) for v in (1e9, 12345.0, 1000.0, 45.0, 0.025, 0.0)] == [
        *("1,000,000,000", "12,345", "1,000", "45", "0.025", "0")
    ]


CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
CLICK_LOG = linoto.Offline(pulls=[400, 400, 0], reward_sums=[200.0, 240.0, 0.0])


def moving_page(path: Path, gate: Any) -> tuple[str, linoto.GatePreview, linoto.Preview]:
    """The page of a preview with drift, and what it is made of."""
    policy = linoto.Gated(explorer=linoto.Random(), gate=gate, confidence=CLICKS)
    options: dict[str, Any] = {"policy": policy, "drift": 0.5, "horizon": 400, "worlds": 12}
    shown = linoto.preview(np.eye(3), CLICK_LOG, grid=[5.0], **options)
    gates = linoto.preview_gates(np.eye(3), CLICK_LOG, **options)
    facts: dict[str, Any] = {"names": list("abc"), "source": "log", "command": "linoto preview"}
    page = write_preview(path, shown, CLICK_LOG, unit="clicks", gates=gates, **facts)
    return page.read_text("utf-8"), gates, shown


def test_worlds_that_move_are_compared_with_practice_and_with_other_gates(
    tmp_path: Path, drawn: None
) -> None:
    page, gates, shown = moving_page(tmp_path / "page.html", linoto.Tolerance(budget=5.0))
    assert "If the world moves" in page and "These worlds move" in page
    assert "to a standard deviation of 0.5\u00a0clicks at the end of 400 rounds" in page
    assert Page(page).tags["svg"] == 2
    rows = {row["gate"]: gate_row(row, gates) for row in gates.table()}
    broken = shown.points[0].broken_in(400)
    assert broken == gates.table()[1]["broken_moving"] > 0
    assert (
        list(rows["the log's gate"].values())[3] == f"{broken} of 12" and f"<td>{broken} of 12</td>" in page
    )
    assert f"{broken} of 12 lost more than that below current practice" in answers(shown)[1][1]
    said = gate_answer(gates, "clicks")
    assert (
        f"The log's gate lost more than promised in 0 of 12 worlds that stand still, and in {broken}" in said
    )
    assert "Control kept its promise in every world" in said and "the price of control" in said
    assert "shortfall below the log" not in " ".join(text for _, text in answers(shown))


def test_a_control_gate_in_moving_worlds_keeps_its_sentence(tmp_path: Path) -> None:
    page, _, shown = moving_page(tmp_path / "page.html", linoto.Control(budget=5.0))
    assert "but only while the arms earn" not in answers(shown)[1][1]
    assert "the true average of" not in page  # a Control gate does not ask the log


def test_a_refuted_promise_of_moving_worlds_points_to_control() -> None:
    policy = linoto.Gated(explorer=linoto.Random(), gate=linoto.Tolerance(budget=2.0), confidence=CLICKS)
    shown = linoto.preview(np.eye(3), CLICK_LOG, policy=policy, grid=[2.0], drift=1.0, horizon=50, worlds=12)
    shown = replace(shown, points=(replace(shown.points[0], excess=np.ones(12)),))
    assert shown.refuted() is not None
    assert "(--gate control)" in answers(shown)[0][1]


@pytest.mark.parametrize("verdict", ["not yet", "do not trust"])
def test_a_promise_on_assumptions_that_the_audit_doubts_is_not_called_guaranteed(
    preview: linoto.Preview, verdict: str
) -> None:
    doubted = Audited(
        source="log.csv", verdict=verdict, reasons=("a",), verdict_of_log=verdict, reasons_of_log=("a",)
    )
    for limit in (None, 1e6):
        said = dict(answers(preview, limit, audited=doubted))["The most we can lose"]
        assert "probability of 95\u00a0% if what it assumes is true" in said
        assert "if what it assumes" not in dict(answers(preview, limit))["The most we can lose"]


def test_a_page_claims_what_the_table_of_known_truths_shows() -> None:
    """The smallest and the largest share of every kind of problem in docs/preview.md."""
    text = (Path(__file__).parents[2] / "docs" / "preview.md").read_text(encoding="utf-8")
    found: dict[str, list[tuple[int, int]]] = {}
    for line in re.findall(r"^\| (.*%.*) \|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 10:
            shares = int(cells[2].rstrip("%")), int(cells[7].rstrip("%"))
            found.setdefault(kind_of_line(cells[0], cells[1]), []).append(shares)
    for kind, said in TRUSTED.items():
        for shares, words in zip(zip(*found[kind], strict=True), said, strict=True):
            ends = sorted({min(shares), max(shares)})
            assert words.partition("\u00a0%")[0] == " to ".join(map(str, ends)), kind


def kind_of_line(problems: str, worlds: str) -> str:
    """Which kind of preview a line of the table is about; "" where nobody is told so."""
    if "contexts" in problems:
        ways = {"`good`": "were believed good", "`random`": "were drawn at random"}
        at_random = "at random" in problems and worlds == "second band"
        way = ways.get(worlds, "are the best")
        return "" if at_random else f"rounds bring their own arms and those played {way}"
    if worlds == "second band":
        return "the logged arms are the best" if problems.endswith("the best") else ""
    kinds = {
        "all arms tried": "averages move" if "moving" in problems else "every arm was tried",
        "features alone": "untried arms are known by their features alone",
        "`good`": "the logged arms were believed good",
        "`random`": "the logged arms were drawn at random",
    }
    return kinds[worlds]


# -- units


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e9])
def test_a_page_says_the_same_in_other_units(unit: float) -> None:
    """Amounts below 1e-9 were written as 0, and the page said that no arm earns more than the log."""

    def in_units(unit: float) -> linoto.Preview:
        confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, unit), bound=2 * unit)
        policy = linoto.Gated(gate=linoto.Tolerance(budget=8 * unit), confidence=confidence)
        sums = unit * np.array([90.0, 60.0, 10.0])
        log = linoto.Offline(pulls=[200, 100, 40], reward_sums=sums, reward_squares=unit * sums)
        grid = [2 * unit, 8 * unit, 30 * unit]
        return linoto.preview(np.eye(3), log, policy=policy, grid=grid, horizon=300, worlds=12)

    def numbers(cell: str) -> list[float]:
        found = re.findall(r"[-+]?[\d.,]*\d(?:e-\d+)?(?!%)", cell)
        return [float(number.replace(",", "")) for number in found]

    plain, other = in_units(1.0), in_units(unit)
    for row, wanted in zip(other.table(), plain.table(), strict=True):
        for cell, text in list(zip(value_cells(row, other), value_cells(wanted, plain), strict=True))[:6]:
            assert numbers(cell) == pytest.approx([unit * number for number in numbers(text)], rel=0.06)
    first, second = answers(other)[0][1], answers(plain)[0][1]
    assert re.sub(r"[\d.,+-]+(e-\d+)?", "#", first) == re.sub(r"[\d.,+-]+(e-\d+)?", "#", second)
    drawn: Any = draw_all(other, None, "euros")["largest shortfall seen and guaranteed"].axes[0].yaxis
    assert drawn.get_transform().linthresh == pytest.approx(unit)  # what one round can lose


@pytest.mark.parametrize("width", [11.0, 200.0, 900.0, 1.1e6])
@pytest.mark.parametrize("rounds", [(1.1, 1.5, 2.0), (2.0, 40.0, 900.0)])
def test_an_axis_of_losses_has_numbers_that_can_be_read(width: float, rounds: tuple[float, ...]) -> None:
    """Of budgets of so many of the largest losses of a round: two numbers or more, none upon another, with
    the commas that tables have."""
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 3, 500)
    rewards = np.clip((0.2 + 0.03 * arms + 0.15 * rng.normal(size=500)) * width, 0, width)
    sure = linoto.Confidence(noise="bounded", reward_range=(0, width), bound=width)
    grid = [share * width for share in rounds]
    policy = linoto.Gated(gate=linoto.Control(budget=grid[0]), confidence=sure)
    offline = linoto.Offline.from_rows(arms, rewards, k=3)
    found = linoto.preview(np.eye(3), offline, policy=policy, worlds=10, horizon=50, grid=grid)
    figure = draw_all(found, None, "EUR")["largest shortfall seen and guaranteed"]
    figure.draw_without_rendering()
    labels = [label for label in figure.axes[0].yaxis.get_ticklabels() if label.get_text()]
    low, high = figure.axes[0].get_window_extent().intervaly
    boxes = sorted(label.get_window_extent().intervaly.tolist() for label in labels)
    inside = [ends for ends in boxes if low - 9 <= ends[0] and ends[1] <= high + 9]
    assert len(inside) >= 2
    assert all(before[1] <= after[0] for before, after in pairwise(inside))
    assert not any("e+" in label.get_text() for label in labels)
    if width > 1e6:
        assert any(",000" in label.get_text() for label in labels)
