"""The three answers of the page against the numbers of the API, in a real browser."""

from __future__ import annotations

import re
from itertools import pairwise
from math import ceil, floor, log10
from random import Random
from typing import Any

import numpy as np
import pytest
from helpers.dashboard import LOG, Page, make_loop, on_a_phone, play
from helpers.loops_with_contexts import POLICIES, RECIPE, context_of, likes, log_of
from helpers.service_process import TOLERANT

import linoto
from linoto.client import Client

pytestmark = pytest.mark.browser
NUMBER = r"[+−]?\d[\d,]*(?:\.\d+)?"


def numbers_in(text: str) -> list[float]:
    return [float(found.replace(",", "").replace("−", "-")) for found in re.findall(NUMBER, text)]


def step_of(lower: float, upper: float) -> float:
    return float(10.0 ** floor(log10((upper - lower) / 5)))


def make_coin(client: Client, name: str, budget: float = 40.0, **settings: Any) -> None:
    policy = linoto.Gated(gate=linoto.Control(budget=budget, share=0.4), confidence=TOLERANT.confidence)
    fixed: dict[str, Any] = {"default_reward": 0.0, "seed": 1}  # where names stand depends on the coins
    client.create(name, arms=["a", "b", "c"], policy=policy, offline=LOG, **fixed, **settings)


def play_coin(client: Client, name: str, rounds: int, *, tried: float, practice: float) -> None:
    """Arm c is proposed in batches; rewards are their means, so that only the coin is by chance."""
    for _ in range(0, rounds, 20):
        made = client.decide_many(name, [{"proposal": "c"}] * 20)
        client.rewards(name, [(one.decision_id, tried if one.arm == "c" else practice) for one in made])


GAINED = """
    const {gainedOf} = await import("./dashboard/answers.js");
    return arguments[0].map(([loop, lift]) => gainedOf(loop, lift));
"""


def test_gained_and_lost_are_said_only_where_the_whole_interval_says_so(page: Page, client: Client) -> None:
    make_loop(client, "laws")
    page.open("laws")
    rng, cases = Random(0), []
    for number in range(300):
        mean, away = rng.gauss(0, 10) * 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-4, 4)
        ends = {"lower": mean - away * rng.random(), "upper": mean + away * rng.random()}
        if number % 10 == 0:  # with an end so near 0 that it is shown as 0
            near = away * 1e-5
            ends = {"lower": near, "upper": away} if number % 20 else {"lower": -away, "upper": -near}
            mean = (ends["lower"] + ends["upper"]) / 2
        lift = {"policy": 90, "control": 10, "mean": mean, "level": 0.95, **ends}
        cases.append([{"practice": None, "unit": "clicks", "lost": 0}, lift])
    for (_, lift), said in zip(cases, page.run(GAINED, cases), strict=True):
        lower, upper, step = lift["lower"], lift["upper"], step_of(lift["lower"], lift["upper"])
        side = (floor(lower / step) > 0) - (ceil(upper / step) < 0)
        assert said["side"] == side
        word = {1: "Gained: ", -1: "Lost: ", 0: "It is between "}[side]
        assert said["verdict"].startswith(word)
        *shown, level = numbers_in(said["verdict"].removeprefix(word))
        least, most = shown if side >= 0 else (-shown[1], -shown[0])
        assert level == 95
        assert least == pytest.approx(floor(lower / step) * step, abs=step * 1e-6), "rounded outwards"
        assert most == pytest.approx(ceil(upper / step) * step, abs=step * 1e-6)
        if side == 0:
            assert said["value"] == "not clear yet", "and no point in it"
        else:
            assert abs(numbers_in(said["value"])[0] - lift["mean"]) <= step * 0.500001


SIDES = """
    const {sidesOf} = await import("./dashboard/answers.js");
    return arguments[0].map((loop) => sidesOf(loop));
"""


def test_what_practice_would_have_earned_keeps_its_sign(page: Page, client: Client) -> None:
    """Of costs both ends are below 0, of mixed rewards perhaps one."""
    make_loop(client, "signs")
    page.open("signs")
    rng, cases = Random(1), []
    for _ in range(300):
        size = 10 ** rng.uniform(-3, 5)
        lower, upper = sorted((rng.gauss(0, size), rng.gauss(0, size)))
        earned = rng.uniform(lower, upper)
        seen = {"lower": lower, "upper": upper, "earned": earned, "counts_rewards": False, "level": 0.95}
        seen |= {"explored": 90, "control": 10, "missing": 0}
        cases.append({"practice": seen, "unit": "EUR", "promised_loss": None})
    for case, said in zip(cases, page.run(SIDES, cases), strict=True):
        lower, upper = case["practice"]["lower"], case["practice"]["upper"]
        step = step_of(lower, upper)
        ends = [floor(lower / step) * step, ceil(upper / step) * step]
        assert numbers_in(said["would"]) == pytest.approx(ends, abs=step * 1e-6), "rounded outwards"
        assert "+" not in said["would"], "it is an amount, and no difference"


def test_costs_are_shown_below_zero(page: Page, client: Client) -> None:
    confidence = linoto.Confidence(noise="bounded", reward_range=(-100.0, 0.0), bound=150.0)
    policy = linoto.Gated(gate=linoto.Control(budget=4000.0, share=0.4), confidence=confidence)
    log = linoto.Offline(pulls=[300, 200, 0], reward_sums=[-18_000.0, -10_000.0, 0.0])  # type: ignore[arg-type]
    client.create(
        "costs", arms=["a", "b", "c"], policy=policy, offline=log, default_reward=-100.0, seed=1, unit="EUR"
    )
    play_coin(client, "costs", 200, tried=-40.0, practice=-60.0)
    seen = client.loop("costs")["practice"]
    assert seen["lower"] < seen["upper"] < 0
    page.open("costs")
    page.until(lambda: page.text("[data-earned]").startswith("−"))
    step = step_of(seen["lower"], seen["upper"])
    ends = [floor(seen["lower"] / step) * step, ceil(seen["upper"] / step) * step]
    assert numbers_in(page.text("[data-would]")) == ends


def test_the_answers_are_the_numbers_of_the_api(page: Page, client: Client) -> None:
    make_coin(client, "answers", unit="clicks")
    page.open("answers")
    page.until(lambda: page.text("[data-act]") == "Connect it")
    play_coin(client, "answers", 200, tried=1.0, practice=0.0)
    report = client.report("answers")
    seen, loop = report["loop"]["practice"], report["loop"]
    lower, upper = seen["earned"] - seen["upper"], seen["earned"] - seen["lower"]
    assert lower > 0, "200 rounds of 1 against 0 are clear"
    page.until(lambda: f"the same {seen['explored']} explored" in page.text("[data-lift-verdict]"))
    step = step_of(lower, upper)
    value, sentence = page.text("[data-lift]"), page.text("[data-lift-verdict]")
    assert numbers_in(value)[0] == pytest.approx(round((seen["earned"] - seen["estimate"]) / step) * step)
    least, most, explored, level = numbers_in(sentence)
    assert (least, most) == (floor(lower / step) * step, ceil(upper / step) * step)
    assert (explored, level) == (seen["explored"], 95)
    assert numbers_in(page.text("[data-left]")) == pytest.approx([loop["left_to_lose"]], rel=5e-3)
    share = numbers_in(page.one("[data-gauge]").get_attribute("aria-label"))[0]
    assert share == pytest.approx(100 * loop["left_to_lose"] / loop["promised_loss"], abs=0.5)
    assert page.text("[data-act]") == "✓ Nothing" and "more than current practice" in page.text(
        "[data-act-note]"
    )
    assert not page.run("return document.querySelector('[data-stop]').classList.contains('urgent')")


@pytest.mark.few(0)
def test_an_alarm_says_what_to_do_once_for_each_kind(page: Page, client: Client) -> None:
    make_coin(client, "act", budget=200.0, on_alarm="warn")
    while len(client.loop("act")["alarms"]) < 2:
        play_coin(client, "act", 100, tried=0.0, practice=1.0)
    page.open("act")
    page.until(lambda: page.text("[data-act]") == "⚠ Act now")
    count = len(client.loop("act")["alarms"])
    assert page.texts(".alarm-box strong") == ["⚠ Alarm (practice):", "What to do:"], "one box"
    box = page.text(".alarm-box")
    assert f"{count} times, from" in box and "stop it above unless you know why" in box
    assert "what was tried" in box and page.text("[data-lift-verdict]").startswith("Lost: ")
    assert page.run("return document.querySelector('[data-stop]').classList.contains('urgent')")
    page.click("[data-answer]")
    page.until(lambda: page.text("[data-act]") == "⚠ Stop exploring")
    page.click("[data-stop]")
    page.until(lambda: page.text("[data-act]") == "Decide whether to explore")


@pytest.mark.few(0)
def test_the_picture_has_every_name_at_its_line_and_shows_what_the_history_says(
    page: Page, client: Client
) -> None:
    make_coin(client, "picture")
    play_coin(client, "picture", 100, tried=1.0, practice=0.5)
    with on_a_phone(page):
        check_names(page, client, 390, ["at most", "at least", "practice", "promise"])
    order = ["we, at the most", "we, at the least", "current practice", "the promise: not below"]
    check_names(page, client, page.run("return innerWidth"), order)


BOXES = """
    const chart = document.querySelector("[data-gain-chart]");
    const box = (node) => node.getBoundingClientRect(), at = ({left, right, top}) => [left, right, top];
    return [
      [...chart.querySelectorAll(".name")].map((text) => [text.textContent, ...at(box(text))]),
      Math.max(...[...chart.querySelectorAll(".line")].map((line) => box(line).right)),
    ];
"""


def check_names(page: Page, client: Client, width: int, order: list[str]) -> None:
    """Each once, beside its line and not on it, in the order of the lines, and none touches another."""
    page.open("picture")
    page.until(lambda: set(page.texts("[data-gain-chart] .name")) == set(order))
    assert page.run("return document.documentElement.scrollWidth") <= width
    boxes, lines_end = page.run(BOXES)
    assert all(left >= lines_end and right <= width for _, left, right, _ in boxes)
    assert all(below - above >= 15 for above, below in pairwise(top for *_, top in boxes))
    names = [name for name, *_ in boxes]
    assert sorted(names) == sorted(order), "each once"
    point = client.history("picture")["points"][-1]
    most, least, practice, promise = order
    ends = {
        most: point["earned"] - point["practice_lower"],
        least: max(point["earned"] - point["practice_upper"], -point["promised_loss"]),
        practice: 0.0,
        promise: -point["promised_loss"],
    }
    shown = [ends[name] for name in names]
    assert shown == sorted(shown, reverse=True), "names are in the order of their lines"


def test_a_budget_is_shown_as_the_number_that_was_given(page: Page, client: Client) -> None:
    """The promise has room for the rounding of the log's mixture too, which nobody budgets with."""
    policy = linoto.Gated(gate=linoto.Tolerance(budget=80), confidence=TOLERANT.confidence)
    client.create(
        "eighty", arms=["a", "b", "c"], policy=policy, offline=LOG, default_reward=0.0, unit="clicks"
    )
    play(client, "eighty", 10, reward=1.0)
    assert 80 < client.loop("eighty")["promised_loss"] < 81
    page.open("eighty")
    page.until(lambda: page.text("[data-left]") == "80 clicks")
    note = page.text("[data-left-note]")
    assert note == "The promise allows a loss of 80 clicks so far, against the log: none of it is used."
    play(client, "eighty", 30, reward=0.0)
    loop, certificate = client.loop("eighty"), client.report("eighty")["certificate"]
    rounding = certificate["constant"] - certificate["budget"]
    page.until(lambda: numbers_in(page.text("[data-left]")) == [round(loop["left_to_lose"] - rounding, 1)])
    assert "a loss of 80 clicks so far, against the log." in page.text("[data-left-note]")


def test_rounding_that_is_much_of_a_budget_is_said(page: Page, client: Client) -> None:
    """Subtracted, it would say that nothing may be lost, where the promise allows it."""
    policy = linoto.Gated(gate=linoto.Tolerance(budget=2), confidence=TOLERANT.confidence)
    client.create("two", arms=["a", "b", "c"], policy=policy, offline=LOG, default_reward=0.0, unit="clicks")
    play(client, "two", 10, reward=1.0)
    certificate, promised = client.report("two")["certificate"], client.loop("two")["promised_loss"]
    rounding = certificate["constant"] - certificate["budget"]
    assert rounding > 0.02 and promised == pytest.approx(certificate["constant"])
    page.open("two")
    page.until(lambda: numbers_in(page.text("[data-left]")) == [round(promised, 2)])
    note = page.text("[data-left-note]")
    assert numbers_in(note) == [round(promised, 2), round(rounding, 2)]
    assert note.startswith(
        "The promise allows a loss of 2.4 clicks so far, against the log: none of it is used. "
    )
    assert note.endswith("of that loss are beyond the budget, for the rounding of the log's mixture.")


@pytest.mark.few(0)
def test_rewards_read_well_with_a_unit_and_without(page: Page, client: Client) -> None:
    for name, unit, shown in (("euros", "EUR", "EUR"), ("no-unit", "", "units of reward")):
        make_coin(client, name, unit=unit)
        play_coin(client, name, 200, tried=0.9, practice=0.8)
        page.open(name)
        page.until(lambda shown=shown: re.fullmatch(rf"{NUMBER} {shown}", page.text("[data-earned]")))
        means = page.text("[data-arms-unit]")
        assert means.startswith("Average reward per play" + (", in EUR;" if unit else ";"))
        assert shown in page.text("[data-left]") and shown in page.text("[data-gain-chart]")
        assert not re.search(rf"{NUMBER} rewards?\b(?! of)", page.text("[data-loop]") or page.text("body"))


@pytest.mark.few(0)
def test_what_the_model_of_a_log_tells_is_told_where_no_control_group_does(
    page: Page, client: Client
) -> None:
    """With contexts and a Tolerance gate: what was gained at the least, what may be lost, and a picture."""
    settings = {"policy": POLICIES["model"], "default_reward": 0.0, "unit": "clicks", "practice": "C"}
    client.create("modelled", recipe=RECIPE, moments=log_of(4000), **settings)  # type: ignore[arg-type]
    rng = np.random.default_rng(3)
    page.open("modelled")
    page.until(lambda: page.text("[data-left]") == "40 clicks")
    assert page.text("[data-lift]") == "not measured"
    for _ in range(4):
        asked = [context_of(rng) for _ in range(50)]
        asked = [{"age": each["age"], "country": each["country"] and str(each["country"])} for each in asked]
        made = client.decide_many("modelled", [{"context": each} for each in asked])
        pairs = zip(made, asked, strict=True)
        client.rewards(
            "modelled", [(one.decision_id, likes(one.arm, each["country"])) for one, each in pairs]
        )
    room, promised = client.loop("modelled")["budget"], client.report("modelled")["certificate"]["constant"]
    assert room > promised + 10
    page.until(lambda: page.text("[data-lift]") == f"+{floor(room - promised)} clicks at least")
    assert "by the linear model of the log, 95 % sure" in page.text("[data-lift-verdict]")
    assert page.text("[data-left]") == "40 clicks" and page.text("[data-act]") == "✓ Nothing"
    assert "in the same contexts: none of it is used." in page.text("[data-left-note]")
    assert set(page.texts("[data-gain-chart] .name")) == {
        "we, at the least",
        "current practice",
        "the promise: not below",
    }
    client.change("modelled", holdback=0.05)  # which measures it: the model is asked no more


def test_a_list_of_loops_has_room_for_some_on_a_phone(page: Page, client: Client) -> None:
    for number in range(8):
        make_loop(client, f"listed-{number}")
    with on_a_phone(page):
        page.open("listed-7")
        find = page.one("#find")
        find.send_keys("listed-")
        page.until(lambda: len(page.texts("#loops a")) == 8)
        inside = page.run(
            "const box = document.getElementById('loops').getBoundingClientRect(); return [...document"
            ".querySelectorAll('#loops a')].filter((card) => card.getBoundingClientRect().top >= box.top "
            "&& card.getBoundingClientRect().bottom <= box.bottom).map((card) => card.dataset.loop)"
        )
        assert len(inside) >= 4


def test_against_the_log_more_or_less_is_said_only_where_the_log_is_known_well_enough(
    page: Page, client: Client
) -> None:
    make_loop(client, "as-much")
    play(client, "as-much", 10, reward=0.9)  # the log earned 0.9, from 500 rows
    page.open("as-much")
    page.until(lambda: "as much as the log's average" in page.text("[data-story]"))
    loop = client.loop("as-much")
    assert loop["gain_lower"] < 0 < loop["gain_upper"] and loop["gain"] == pytest.approx(0.0)
    play(client, "as-much", 10, reward=0.0)
    page.until(lambda: "In 20 rewarded decisions" in page.text("[data-story]"))
    story = page.text("[data-story]")
    assert "less than the log's average" in story and "luck of these rewards included" in story
    loop = client.loop("as-much")
    assert loop["gain_lower"] < loop["gain"] < loop["gain_upper"] < 0
    step = step_of(loop["gain_lower"], loop["gain_upper"])
    assert numbers_in(page.text("[data-gain]"))[0] == pytest.approx(round(loop["gain"] / step) * step)
