"""How well the dashboard is read and handled: keyboard, phone, many loops, the words of the glossary."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from helpers.dashboard import (
    Page,
    make_loop,
    on_a_phone,
    play,
)
from helpers.service_process import TOLERANT, served
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import linoto
from linoto.client import Client

pytestmark = pytest.mark.browser
GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"


@pytest.mark.slow
def test_everything_that_matters_can_be_done_with_the_keyboard(page: Page, client: Client) -> None:
    make_loop(client, "keys")
    play(client, "keys", 3)
    page.open("keys")
    page.until(lambda: page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] button"))
    reached = []
    for _ in range(40):
        page.chrome.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.run("return document.activeElement.outerHTML.slice(0, 60)"))
        if "data-stop" in reached[-1]:
            break
    assert "data-stop" in reached[-1]
    page.chrome.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: client.loop("keys")["mode"] == "safe-only")
    page.run("document.querySelector('[data-decisions] button').focus()")
    page.chrome.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(lambda: "wanted to play" in page.text(".why"))
    assert page.run("return document.activeElement.getAttribute('aria-expanded')") == "true"


@pytest.mark.slow
def test_the_list_does_not_move_while_an_explanation_is_open(page: Page, client: Client) -> None:
    make_loop(client, "still")
    play(client, "still", 3)
    page.open("still")
    page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] > li")) == 3)
    page.click("[data-decisions] > li:nth-child(2) button")
    page.until(lambda: "The gate" in page.text(".why"))
    play(client, "still", 2)
    page.until(lambda: "of 5 decisions" in page.text("[data-tried-note]"))
    assert len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] > li")) == 3
    page.click("[data-follow]")
    page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] > li")) == 5)


@pytest.mark.slow
def test_it_fits_a_phone_and_follows_the_dark_mode(page: Page, client: Client) -> None:
    make_loop(client, "small")
    play(client, "small", 5)
    with on_a_phone(page, width=360):
        page.open("small")
        page.until(lambda: page.chrome.find_elements(By.CSS_SELECTOR, "[data-gain-chart] path"))
        assert page.run("return document.documentElement.scrollWidth") <= 360
        assert page.one("[data-stop]").rect["height"] >= 40  # pixels: a thumb must hit it
        dark = page.run("return getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 150


@pytest.mark.slow
def test_a_card_keeps_its_focus_while_numbers_move(page: Page, client: Client) -> None:
    make_loop(client, "focus")
    page.open("focus")
    page.run("document.querySelector('#loops [data-loop=focus]').focus()")
    for rounds in (1, 2):
        play(client, "focus", 1)
        page.until(lambda n=rounds: f"{n} decision" in page.text("#loops [data-loop=focus]"))
    assert page.run("return document.activeElement.dataset.loop") == "focus"


@pytest.mark.slow
def test_the_skip_link_and_broken_addresses_stay_on_the_page(page: Page, client: Client) -> None:
    for name in ("skip-a", "skip-b"):
        make_loop(client, name)
    page.open("skip-b")
    page.run("document.querySelector('.skip').click()")
    assert page.run("return document.activeElement.id") == "loop" and page.text("[data-name]") == "skip-b"
    page.chrome.get(f"{page.url}#/%")
    page.until(lambda: page.text("#connection") == "connected")


@pytest.mark.slow
def test_only_the_most_played_arms_are_asked_for_unless_more_are_wanted(page: Page, client: Client) -> None:
    names = [f"arm {i:03}" for i in range(40)]
    log = linoto.Offline(pulls=[10] * 40, reward_sums=[5.0] * 40)  # type: ignore[arg-type]
    client.create("wide", arms=names, policy=linoto.LinUCB(), offline=log, default_reward=0.0)
    client.reward("wide", client.decide("wide", allowed=["arm 033"]).decision_id, 1.0)
    page.open("wide")
    page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-arms] tr")) == 12)
    assert page.text("[data-arms] tr").startswith("arm 033")
    page.click("[data-all-arms]")
    page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-arms] tr")) == 40)
    page.one("[data-filter]").send_keys("arm 01")
    page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-arms] tr")) == 10)


@pytest.mark.slow
def test_the_latest_changes_of_the_arms_are_shown_and_the_others_counted(page: Page, client: Client) -> None:
    client.create("season", arms=["a"], rows=[("a", 1.0)] * 20, policy=TOLERANT, default_reward=0.0)
    for week in range(4):
        client.add_arms("season", [f"week {week}"])
        client.remove_arms("season", [f"week {week}"])
    page.open("season")
    page.until(lambda: "earlier changes" in page.text("[data-arm-changes]"))
    lines = page.text("[data-arm-changes]").splitlines()
    assert len(lines) == 6 and "without week 3" in lines[0]
    assert lines[-1].startswith("and 3 earlier changes, listed under")


@pytest.mark.slow
def test_charts_have_a_time_axis_whose_labels_do_not_overlap(page: Page, client: Client) -> None:
    make_loop(client, "timed")
    play(client, "timed", 40)
    with on_a_phone(page):
        page.open("timed")
        for chart in ("gain", "share", "budget"):
            page.until(
                lambda c=chart: len(page.chrome.find_elements(By.CSS_SELECTOR, f"[data-{c}-chart] .when")) > 3
            )
            boxes = page.run(
                f"return [...document.querySelectorAll('[data-{chart}-chart] text')].map((text) => "
                "{const box = text.getBoundingClientRect(); "
                "return [text.textContent, box.left, box.right, box.top, box.bottom];})"
            )
            assert any(re.fullmatch(r"\d\d:\d\d:\d\d", text) for text, *_ in boxes)
            assert all(left >= 0 and right <= 390 for _, left, right, *_ in boxes)
            for i, (_, left, right, top, bottom) in enumerate(boxes):
                for _, other_left, other_right, other_top, other_bottom in boxes[:i]:
                    apart = left >= other_right or other_left >= right
                    assert apart or top >= other_bottom - 3 or other_top >= bottom - 3  # lines' own margins


@pytest.mark.slow
def test_every_word_is_explained_as_in_the_glossary(page: Page, client: Client) -> None:
    make_loop(client, "words")
    page.open("words")
    words = page.run("return (await import('./dashboard/words.js')).WORDS")
    marked = page.run("return [...document.querySelectorAll('[data-word]')].map((node) => node.dataset.word)")
    assert set(marked) < set(words)
    page.click(".promise > summary")
    listed = page.texts("[data-words] dt")
    assert listed == sorted(words, key=str.lower)
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    known = {
        (re.sub(r" \(.*\)$", "", word), text.replace("`", ""))
        for names, text in rows
        for word in names.split(", ")
    }
    assert [word for word, text in words.items() if (word, text) not in known] == []
    with on_a_phone(page):
        for button in page.chrome.find_elements(By.CSS_SELECTOR, ".help"):
            if not button.is_displayed():
                continue  # a column that has no room on a phone
            page.run("arguments[0].focus(); arguments[0].scrollIntoView({block: 'center'})", button)
            button.send_keys(Keys.ENTER)
            word = button.get_attribute("data-explain") or ""
            assert page.text("#explanation") == f"{word}: {words[word]}"
            box = page.one("#explanation").rect
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390
            button.send_keys(Keys.ESCAPE)
            assert not page.one("#explanation").is_displayed()


@pytest.mark.slow
def test_with_fifty_loops_the_switch_stays_in_reach_and_loops_and_keys_are_found(
    browser: Chrome, tmp_path: Path
) -> None:
    name, arm = "n" * 64, "w" * 200
    with served(tmp_path / "x.sqlite") as server, closing(server.client()) as client:
        for i in range(51):
            client.create(f"loop-{i}", arms=["a"], policy=linoto.LinUCB(), default_reward=0.0)
        client.create(name, arms=[arm], policy=linoto.LinUCB(), default_reward=0.0, unit="u" * 40)
        for key in ("visit 1", "visit 2"):
            client.decide(name, key=key)
        page = Page(browser, f"http://127.0.0.1:{server.port}/")
        with on_a_phone(page):
            page.open(name)
            page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] li")) == 2)
            assert "The first 50" in page.text("#found")
            assert page.run("return document.documentElement.scrollWidth") <= 390
            for place in (0, 10**6):
                page.run(f"scrollTo(0, {place})")
                assert page.run(
                    "const {top, bottom} = document.querySelector('[data-stop]').getBoundingClientRect();"
                    "return top >= 0 && bottom <= innerHeight"
                )
            page.one("[data-key]").send_keys("visit 1")
            page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] li")) == 1)
            page.one("[data-key]").send_keys("7")
            page.until(
                lambda: "No decision of this loop has the key “visit 17”" in page.text("[data-listed]")
            )
        page.one("#find").send_keys("loop-49")
        page.until(lambda: len(page.chrome.find_elements(By.CSS_SELECTOR, "#loops a")) == 1)
        assert page.text("[data-name]") == name  # what is open stays open
        page.click("#loops a")
        page.until(lambda: page.text("[data-name]") == "loop-49")
