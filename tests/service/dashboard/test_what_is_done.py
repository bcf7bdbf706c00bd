"""The dashboard in a real browser: create a loop, see its numbers change, stop exploring, see the alarm.

A browser takes seconds of a core for each test. What decides whether somebody is misled or cannot stop is in
the usual suite; how well it is read and handled is behind the slow marker, and .ci/run asks for it.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from helpers.command import Process
from helpers.dashboard import (
    NASTY,
    Page,
    forget_complaints,
    make_loop,
    play,
)
from helpers.service_process import create, opened, served
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from linoto.client import Client
from linoto.service.maintenance import backup, restore

pytestmark = pytest.mark.browser
ROLES = ("viewer", "reader", "writer", "admin")


def test_a_loop_made_on_the_page_decides_and_its_numbers_move(page: Page, client: Client) -> None:
    page.open()
    page.click("#new")
    page.fill("name", "banner")
    page.fill("arms", "blue, 800, many")
    page.click("#create .main")
    page.until(lambda: "Line 1 of the arms must be" in page.text("#create .wrong"))
    page.fill("arms", 'blue, 800, 640\n"green, dark", 200, 120\nred')
    page.fill("budget", "9")
    page.fill("unit", "clicks")
    page.click("#create .main")
    page.until(lambda: page.text("[data-name]") == "banner" and "decide" in page.text("[data-hint]"))
    assert [arm["name"] for arm in client.arms("banner")] == ["blue", "green, dark", "red"]
    assert [arm["logged"] for arm in client.arms("banner")] == [800, 200, 0]
    for rounds in (5, 12):
        play(client, "banner", rounds - client.loop("banner")["decisions"])
        page.until(lambda rounds=rounds: f"of {rounds} decisions" in page.text("[data-tried-note]"))
    # Twelve rewards of 1 against a mean of 0.76.
    page.until(lambda: page.text("[data-gain]") == "+2.9 clicks")
    # A budget of 9, and 0.05 for each of twelve; what was gained is not added.
    assert page.text("[data-left]") == "9.6 clicks" and "none of it is used" in page.text("[data-left-note]")
    assert page.one("[data-gauge]").get_attribute("aria-label").startswith("100 %")
    assert page.one("[data-gain-chart] path").get_attribute("d")
    assert len(page.chrome.find_elements(By.CSS_SELECTOR, "[data-decisions] > li")) == 12


def test_a_csv_log_is_counted_in_the_browser(page: Page, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text('when,arm,reward\n1,"a ""x"", y",1\n2,b,0.5\n3,b,0\n', encoding="utf-8")
    page.open()
    page.click("#new")
    page.one("#create [name=file]").send_keys(str(log))
    page.until(lambda: "3 rows of 2 arms" in page.text("#create [data-count]"))
    assert page.one("#create [name=arms]").get_attribute("value") == '"a ""x"", y", 1, 1\nb, 2, 0.5'
    log.write_text("arm,click\nb,1\n", encoding="utf-8")
    page.one("#create [name=file]").clear()
    page.one("#create [name=file]").send_keys(str(log))
    page.until(lambda: "must have the columns arm and reward" in page.text("#create .wrong"))


def test_the_kill_switch_stops_exploring_from_the_next_decision_on(page: Page, client: Client) -> None:
    make_loop(client, "switch")
    page.open("switch")
    page.click("[data-stop]")
    page.until(lambda: page.text("[data-mode]") == "safe-only")
    assert client.decide("switch").loop_mode == "safe-only"
    page.until(lambda: "by local" in page.text("[data-switched]"))
    page.click("[data-stop]")
    page.until(lambda: page.text("[data-mode]") == "live")
    assert client.decide("switch").loop_mode == "live"


@pytest.mark.slow
def test_an_alarm_is_seen_and_says_that_exploring_was_stopped(page: Page, client: Client) -> None:
    make_loop(client, "storm", on_alarm="safe-only")
    page.open("storm")
    assert page.text("[data-alarms]") == "" and "alarm" not in page.text("#loops a[aria-current]")
    play(client, "storm", 120, reward=0.0)
    page.until(lambda: "Alarm" in page.text("[data-alarms]"))
    assert "Exploring was stopped at once" in page.text("[data-alarms]")
    page.until(lambda: page.text("[data-mode]") == "safe-only" and "alarm" in page.text("[data-switched]"))
    page.until(lambda: "alarm" in page.text("#loops a[aria-current]"))
    page.click("[data-answer]")
    page.until(lambda: "answered" in page.text("[data-answered]"))
    assert page.text("[data-alarms]") == "" and not page.one("[data-answer]").is_displayed()
    page.until(lambda: "alarm" not in page.text("#loops a[aria-current]"))
    assert page.text("[data-mode]") == "safe-only"


@pytest.mark.slow
def test_a_restored_loop_says_so_until_somebody_goes_on(browser: Chrome, tmp_path: Path) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with served(path) as server, closing(server.client()) as client:
        make_loop(client, "shop")
        backup(path, copy)
        play(client, "shop", 2)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    restore(copy, path)
    with served(path) as server:
        page = Page(browser, f"http://127.0.0.1:{server.port}/")
        page.open("shop")
        page.until(lambda: "Restored: the database was restored" in page.text("[data-alarms]"))
        assert "lost: 4 events, among them 2 decisions, counted at the worst" in page.text("[data-alarms]")
        assert "Exploring was stopped at once" in page.text("[data-alarms]")
        page.click("[data-stop]")
        page.until(lambda: page.text("[data-mode]") == "live" and page.text("[data-alarms]") == "")


def test_a_damaged_loop_is_shown_with_what_is_wrong_and_what_to_do(browser: Chrome, tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        for name in ("broken", "sound", "stale"):
            create(service, name)
            service.store.write_sync(lambda c, name=name: service.loops.decide(c, name))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM snapshots WHERE loop < 3")
        connection.execute("UPDATE snapshots SET agent = CAST('{' AS BLOB)")
        connection.execute("UPDATE events SET body = CAST('{' AS BLOB) WHERE loop = 1")
    with served(path) as server:
        page = Page(browser, f"http://127.0.0.1:{server.port}/")
        page.open()
        page.until(lambda: "This loop cannot be served" in page.text("[data-damage]"))
        assert "loop 'broken', event 1 is damaged" in page.text("[data-damage]")
        assert "What to do: Let callers do what they did before" in page.text("[data-damage]")
        assert page.text("#connection") == "connected"
        assert "`" not in page.text("[data-damage]") and "rebuild" not in page.text("[data-damage]")
        assert page.texts("[data-damage] code") == [
            "linoto db restore",
            "linoto db check",
            "linoto db restore",
        ]
        assert page.texts("#loops .badge:not([hidden])") == ["damaged", "live", "damaged"]
        page.click("#loops a:last-child")
        page.until(lambda: "run linoto db rebuild, which" in page.text("[data-damage]"))
        page.click("#loops a:nth-child(2)")
        page.until(lambda: page.text("[data-name]") == "sound" and page.text("[data-mode]") == "live")
        page.click("#loops a:first-child")
        page.until(lambda: "cannot be served" in page.text("[data-damage]"))


def test_names_are_shown_as_text_and_nothing_is_loaded_from_elsewhere(page: Page, client: Client) -> None:
    make_loop(client, "names")
    client.reward("names", client.decide("names", proposal=NASTY).decision_id, 1.0)
    page.open("names")
    page.until(lambda: NASTY in page.text("[data-arms]"))
    assert page.run("return window.hacked") is None
    assert page.chrome.find_elements(By.CSS_SELECTOR, "img") == []
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded and all(name.startswith(page.url) for name in loaded)
    page.run(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked=1'}))"
    )
    assert page.run("return window.hacked") is None
    page.chrome.get_log("browser")  # the refusal of that script, which is what we want


@pytest.mark.slow
def test_buttons_act_on_the_loop_that_is_shown_however_slow_the_answers(page: Page, client: Client) -> None:
    for name in ("first", "second"):
        make_loop(client, name)
    page.open("first")
    page.until(lambda: page.one("[data-stop]").is_enabled())
    page.run("""
        window.kept = [];
        window.asked = window.fetch;
        window.fetch = async (...each) => {
          await new Promise((release) => kept.push(release));
          return asked(...each);
        };
    """)
    page.click("#loops [data-loop=second]")
    page.until(lambda: page.text("[data-name]") == "second")
    assert not page.one("[data-stop]").is_enabled()
    assert page.one("#loops [aria-current]").get_attribute("data-loop") == "second"
    page.run("window.fetch = asked; kept.forEach((release) => release())")
    page.until(lambda: page.one("[data-stop]").is_enabled())
    page.click("[data-stop]")
    page.until(lambda: client.loop("second")["mode"] == "safe-only")
    assert client.loop("first")["mode"] == "live"


@contextmanager
def guarded_page(browser: Chrome, folder: Path) -> Iterator[tuple[Page, dict[str, str]]]:
    """A page of one loop, "safe", that asks for a token, and the tokens by role."""
    from linoto.service.storage.database import open_database
    from linoto.service.web.access import create_token

    path = folder / "x.sqlite"
    with open_database(path, create=True) as connection:
        connection.add_tables()
        tokens = {role: create_token(connection, role, role, 0.0) for role in ROLES}
    with served(path) as server:
        with closing(server.client(token=tokens["admin"])) as admin:
            make_loop(admin, "safe")
        yield Page(browser, f"http://127.0.0.1:{server.port}/"), tokens
    forget_complaints(browser)  # refusals, as wanted


@pytest.mark.few(0)
def test_what_a_role_may_not_do_is_not_offered(browser: Chrome, tmp_path: Path) -> None:
    offers = {"[data-key]": "reader", "[data-stop]": "writer"}
    offers |= dict.fromkeys(("#new", "[data-archive]", "[data-modes]", "[data-answer]"), "admin")
    with guarded_page(browser, tmp_path) as (page, tokens):
        page.open()
        for role in ROLES:
            page.run("sessionStorage.setItem('linoto-token', arguments[0])", tokens[role])
            page.open("safe")
            page.until(lambda: page.text("[data-policy]"))
            for offer, needed in offers.items():
                may = ROLES.index(role) >= ROLES.index(needed)
                assert page.one(offer).is_enabled() == may, (role, offer)
                assert (f"needs the role {needed}" in page.one(offer).get_attribute("title")) != may


@pytest.mark.slow
def test_a_token_is_asked_for_and_its_role_is_respected(browser: Chrome, tmp_path: Path) -> None:
    with guarded_page(browser, tmp_path) as (page, tokens):
        for token in (tokens["reader"], tokens["writer"]):
            page.open()
            page.run("sessionStorage.clear()")
            page.open()
            page.until(lambda: page.one("#token").is_displayed())
            page.one("#token input").send_keys("wrong" + Keys.ENTER)
            page.until(lambda: "does not know that token" in page.text("#token .wrong"))
            page.one("#token input").send_keys(token + Keys.ENTER)
            page.until(lambda: page.text("[data-name]") == "safe")
        page.click("[data-stop]")
        page.until(lambda: page.text("[data-mode]") == "safe-only")
        assert page.text("[data-refused]") == ""
        assert tokens["writer"] not in page.run("return document.documentElement.outerHTML")


@pytest.mark.slow
def test_a_refusal_of_the_token_before_does_not_ask_for_another(browser: Chrome, tmp_path: Path) -> None:
    """A look with the wrong token is under way when the right one is typed in, and is answered after it."""
    with guarded_page(browser, tmp_path) as (page, tokens):
        page.open()
        page.until(lambda: page.one("#token").is_displayed())
        page.run("""
            const ask = window.fetch, held = window.held = [];
            window.fetch = async (...asked) => {
              const answer = await ask(...asked);
              if (answer.status === 401) await new Promise((release) => held.push(release));
              return answer;
            };
        """)
        page.until(lambda: page.run("return held.length") == 1)
        page.one("#token input").send_keys(tokens["reader"] + Keys.ENTER)
        page.until(lambda: not page.one("#token").is_displayed())
        page.run("held.forEach((release) => release())")
        page.until(lambda: page.text("[data-name]") == "safe")
        assert not page.one("#token").is_displayed()


@pytest.mark.slow
def test_a_lost_connection_is_shown_until_it_is_back(browser: Chrome, tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server:
        with closing(server.client()) as client:
            make_loop(client, "lost")
        page = Page(browser, f"http://127.0.0.1:{server.port}/")
        page.open("lost")
        page.until(lambda: page.text("#connection") == "connected")
        server.stop()
        page.until(lambda: "no connection" in page.text("#connection"))
        with served(tmp_path / "x.sqlite", port=server.port):
            page.until(lambda: page.text("#connection") == "connected")
    forget_complaints(browser)


@pytest.mark.slow
def test_the_example_on_the_empty_page_runs_as_it_stands(browser: Chrome, tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server:
        page = Page(browser, f"http://127.0.0.1:{server.port}/")
        page.open()
        page.until(lambda: page.text("pre code"))
        exec(page.text("pre code"), {})
        page.until(lambda: page.text("[data-name]") == "banner")
        page.until(lambda: "In 1 rewarded decision it earned 1 clicks" in page.text("[data-story]"))


@pytest.mark.slow
def test_the_demo_looks_healthy_from_the_start_and_can_be_stopped(browser: Chrome, tmp_path: Path) -> None:
    """Twenty seconds of the demo, four times as fast; seeds are fixed, and the storm is another loop's."""
    red = "return [...document.querySelectorAll('.alarm-box, [aria-current] .alarm, .bad, .wrong, .lost')]"
    red += ".filter((one) => one.checkVisibility() && one.textContent.trim()).map((one) => one.outerHTML)"
    forget_complaints(browser)
    with Process(tmp_path / "demo.sqlite", demo=True, pace=4.0) as demo:
        page = Page(browser, f"http://127.0.0.1:{demo.port}/")
        page.open("flights")
        began, seen = time.monotonic(), 0
        while time.monotonic() - began < 5 or seen < 500:
            assert page.run(red) == []
            count = re.search(r"([\d,]+) decisions", page.text("#loops a[aria-current]"))
            seen = int(count[1].replace(",", "")) if count else 0
            time.sleep(0.2)
        assert page.text("#connection") == "connected" and page.text("[data-mode]") == "live"
        assert "flights" in page.text("[data-left]")
        assert "flights per decision" in page.text("[data-lift-verdict]")
        page.click("[data-stop]")
        page.until(lambda: page.text("[data-mode]") == "safe-only")
        page.until(lambda: "safe-only" in page.text("#loops a[aria-current]"))
        assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
        forget_complaints(browser)
