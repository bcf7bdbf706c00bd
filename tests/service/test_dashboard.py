"""The dashboard in a real browser: create a loop, see its numbers change, stop exploring, see the alarm.

A browser takes seconds of a core for each test. What decides whether somebody is misled or cannot stop is in
the usual suite; how well it is read and handled is behind the slow marker, and .ci/run asks for it.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from helpers.command import Process
from helpers.loops_with_contexts import POLICIES, RECIPE, log_of
from helpers.service_process import TOLERANT, Server, served
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

import linoto
from linoto.client import Client
from linoto.pages.figures.pieces import COLOURS
from linoto.service.maintenance import backup, restore

pytestmark = pytest.mark.browser
FLAGS = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-sync disable-dev-shm-usage "
FLAGS += "disable-background-networking disable-component-update window-size=1200,1400"
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
# The page looks again after a second; here after a quarter of one. Its other timers are as they were.
HURRY = """
    const later = window.setTimeout;
    window.setTimeout = (work, pause, ...rest) => later(work, pause === 1000 ? 250 : pause, ...rest);
"""
NASTY = '<img src=x onerror="window.hacked=1">'
LOG = linoto.Offline(pulls=[300, 200, 0], reward_sums=[270.0, 180.0, 0.0])  # type: ignore[arg-type]


def find_browser() -> tuple[str, str]:
    """Paths of a browser and its driver; where they must be there, their absence is a failure."""
    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    message = (
        "THE DASHBOARD IS NOT TESTED: it needs chromium and chromedriver (Debian: chromium chromium-driver)"
    )
    if os.environ.get("LINOTO_BROWSER") == "required":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def browser(shared_folder: Path) -> Iterator[Chrome]:
    program, driver = find_browser()
    options = Options()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in [*FLAGS.split(), f"user-data-dir={shared_folder / 'profile'}"]:
        options.add_argument(f"--{flag}")
    chrome = Chrome(options=options, service=Service(driver))
    chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HURRY})
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def server(shared_folder: Path) -> Iterator[Server]:
    with served(shared_folder / "x.sqlite") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with closing(server.client()) as client:
        yield client


@pytest.fixture
def page(browser: Chrome, server: Server) -> Iterator[Page]:
    page = Page(browser, f"http://127.0.0.1:{server.port}/")
    yield page
    logged = [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert logged == [], "the page must not complain"


class Part:
    """What a selector finds, looked for at every question: the page draws itself anew in between."""

    def __init__(self, chrome: Chrome, selector: str) -> None:
        self.chrome, self.selector = chrome, selector

    def ask(self, question: Callable[[WebElement], Any]) -> Any:
        while True:
            with suppress(StaleElementReferenceException):
                return question(self.chrome.find_element(By.CSS_SELECTOR, self.selector))

    def click(self) -> None:
        self.ask(lambda found: found.click())

    def clear(self) -> None:
        self.ask(lambda found: found.clear())

    def send_keys(self, keys: str) -> None:
        self.ask(lambda found: found.send_keys(keys))

    def is_displayed(self) -> bool:
        return bool(self.ask(lambda found: found.is_displayed()))

    def is_enabled(self) -> bool:
        return bool(self.ask(lambda found: found.is_enabled()))

    def get_attribute(self, name: str) -> str:
        return self.ask(lambda found: found.get_attribute(name)) or ""

    @property
    def rect(self) -> dict[str, float]:
        return dict(self.ask(lambda found: found.rect))


class Page:
    """The page as a person uses it: looks, waits, clicks."""

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome, self.url = chrome, url

    def open(self, loop: str = "") -> None:
        self.chrome.get("about:blank")
        self.chrome.get(f"{self.url}#/{loop}")
        if loop:
            self.until(lambda: self.text("[data-name]") == loop)

    def one(self, selector: str) -> Part:
        return Part(self.chrome, selector)

    def texts(self, selector: str) -> list[str]:
        while True:
            with suppress(StaleElementReferenceException):
                return [found.text for found in self.chrome.find_elements(By.CSS_SELECTOR, selector)]

    def text(self, selector: str) -> str:
        return next(iter(self.texts(selector)), "")

    def click(self, selector: str) -> None:
        self.until(lambda: self.one(selector).is_enabled())
        self.one(selector).click()

    def until(self, condition: Callable[[], Any]) -> None:
        WebDriverWait(self.chrome, 60, poll_frequency=0.1).until(lambda _: condition())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.chrome.execute_script(script, *arguments)

    def fill(self, name: str, value: str) -> None:
        field = self.one(f"#create [name={name}]")
        field.clear()
        field.send_keys(value)


def forget_complaints(browser: Chrome) -> None:
    """Leave a page whose server may be gone, so that it complains no more, and what it complained of."""
    browser.get("about:blank")
    browser.get_log("browser")


@contextmanager
def on_a_phone(page: Page, width: int = 390) -> Iterator[None]:
    """A small screen, at night."""
    phone = {"width": width, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    night = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    try:
        page.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        page.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", night)
        yield
    finally:
        page.chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def make_loop(client: Client, name: str, **settings: Any) -> None:
    client.create(name, arms=["a", "b", NASTY], policy=TOLERANT, offline=LOG, default_reward=0.0, **settings)


def play(client: Client, name: str, rounds: int, reward: float = 1.0) -> None:
    for _ in range(rounds):
        client.reward(name, client.decide(name).decision_id, reward)


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
    page.until(lambda: page.text("[data-gain]") == "+2.88 clicks")
    # A budget of 9, 0.05 for each of twelve, two arms' rounding; what was gained is not added.
    assert page.text("[data-left]") == "10 clicks" and "none of it is used" in page.text("[data-left-note]")
    assert "You may still lose 10 clicks." in page.text("[data-story]")
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


def test_lost_rewards_are_counted_as_lost_and_not_as_a_loss(page: Page, client: Client) -> None:
    make_loop(client, "forgetful", window=3.0, holdback=0.5)
    for _ in range(3):  # in batches: rewards then come without new decisions in between
        made = client.decide_many("forgetful", [{} for _ in range(20)])
        client.rewards("forgetful", [(decision.decision_id, 1.0) for decision in made[::2]])
    page.open("forgetful")
    page.until(lambda: "30 have theirs, 30 lost it" in page.text("[data-pending-note]"))
    view = client.loop("forgetful")
    assert view["lost"] == view["closed"] - view["known"] and view["left_to_lose"] == view["promised_loss"]
    assert "nobody knows the reward: it was lost" in page.text("[data-story]")
    assert "more than the promise allows" not in page.text("body")
    assert "a lost reward may have been any" in page.text("[data-lift-note]")
    drawn = page.one("[data-share-chart] path").get_attribute("d")
    assert drawn.count("M") == 1, "a chart without gaps"
    assert "across: closed decisions" in page.text("[data-share-chart]"), "60, of which 30 were rewarded"


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


@pytest.mark.slow
def test_the_skip_link_and_broken_addresses_stay_on_the_page(page: Page, client: Client) -> None:
    for name in ("skip-a", "skip-b"):
        make_loop(client, name)
    page.open("skip-b")
    page.run("document.querySelector('.skip').click()")
    assert page.run("return document.activeElement.id") == "loop" and page.text("[data-name]") == "skip-b"
    page.chrome.get(f"{page.url}#/%")
    page.until(lambda: page.text("#connection") == "connected")


def test_a_loop_without_log_or_promise_is_shown_without_claims(page: Page, client: Client) -> None:
    client.create("plain", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
    play(client, "plain", 3, reward=-2e9)
    page.open("plain")
    page.until(lambda: "of 3 decisions" in page.text("[data-tried-note]"))
    assert "there is no log to compare with" in page.text("[data-story]")
    assert "afford" not in page.text("[data-story]") and "Nothing is watched" in page.text("[data-watch]")
    assert page.text("[data-gain]") == "–" and not page.one("[data-holdback]").is_enabled()


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


@contextmanager
def guarded_page(browser: Chrome, folder: Path) -> Iterator[tuple[Page, dict[str, str]]]:
    """A page of one loop, "safe", that asks for a token, and the tokens by role."""
    from linoto.service.storage import schema
    from linoto.service.storage.database import open_database
    from linoto.service.web.access import create_token

    path = folder / "x.sqlite"
    with open_database(path, create=True) as connection:
        schema.add_tables(connection)
        tokens = {role: create_token(connection, role, role, 0.0) for role in ("reader", "writer", "admin")}
    with served(path) as server:
        with closing(server.client(token=tokens["admin"])) as admin:
            make_loop(admin, "safe")
        yield Page(browser, f"http://127.0.0.1:{server.port}/"), tokens
    forget_complaints(browser)  # refusals, as wanted


def test_a_token_is_asked_for_and_its_role_is_respected(browser: Chrome, tmp_path: Path) -> None:
    with guarded_page(browser, tmp_path) as (page, tokens):
        for token, sentence in ((tokens["reader"], "needs the role writer"), (tokens["writer"], "")):
            page.open()
            page.run("sessionStorage.clear()")
            page.open()
            page.until(lambda: page.one("#token").is_displayed())
            page.one("#token input").send_keys("wrong" + Keys.ENTER)
            page.until(lambda: "does not know that token" in page.text("#token .wrong"))
            page.one("#token input").send_keys(token + Keys.ENTER)
            page.until(lambda: page.text("[data-name]") == "safe")
            page.click("[data-stop]")
            page.until(lambda s=sentence: s in page.text("[data-refused]"))
        page.until(lambda: page.text("[data-mode]") == "safe-only")
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


def test_policies_have_the_colours_of_the_figures() -> None:
    text = (files("linoto.service") / "dashboard" / "colours.js").read_text(encoding="utf-8")
    drawn = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', text))
    assert len(drawn) >= 7 and drawn == {policy: COLOURS[policy] for policy in drawn}


def test_lift_is_first_then_the_promise_each_in_the_unit_of_the_loop(page: Page, client: Client) -> None:
    make_loop(client, "units", holdback=0.5, unit="clicks")
    play(client, "units", 30, reward=0.8)  # the log earned 0.9
    page.open("units")
    page.until(lambda: "24 clicks" in page.text("[data-story]"))
    heads = [head.rstrip(" ?") for head in page.texts(".numbers dt")]
    assert heads[:2] == ["Lift over current practice", "You may still lose"]
    assert page.text("[data-lift]") == "not clear yet"
    between = r"It is between −\S+ and \+\S+ clicks per decision, 95 % sure\."
    assert re.fullmatch(between, page.text("[data-lift-verdict]")), "where it lies, and no point in it"
    for tile in ("left", "gain", "budget"):
        assert page.text(f"[data-{tile}]").endswith(" clicks")
    assert page.text("[data-gain-chart] text") == "clicks"
    # Fewer clicks than by the log, but not than by the control group: nothing is wrong, nothing is red.
    assert page.chrome.find_elements(By.CSS_SELECTOR, ".bad, .alarm-box") == []
    # What groups earned at different times is not set side by side.
    assert "0.8" not in page.text("[data-groups]") and "not compared" in page.text("[data-period]")


COIN = """
    const practice = {explored: 100, missing: 3, control: 9, earned: 40, estimate: 45, lower: 10, upper: 95,
      level: 0.95, counts_rewards: true, ...arguments[0]};
    const loop = {practice, promised_loss: 30, left_to_lose: 12, unit: "clicks", lost: 0};
    const {sidesOf, liftOf} = await import("./dashboard/words.js");
    const {rewardChart} = await import("./dashboard/loop.js");
    const {earned, lower, upper, estimate, explored, control} = practice;
    const [mean, least, most] = [estimate, upper, lower].map((end) => (earned - end) / explored);
    const lift = {policy: explored, control, mean, lower: least, upper: most, level: 0.95};
    const points = [{earned, practice_lower: lower, practice_upper: upper, promised_loss: 30}];
    const {lines} = rewardChart({...loop, closed: 1, groups: {}}, points, "");
    return {sides: sidesOf(loop), lift: liftOf(loop, lift), drawn: lines.map(({values}) => values[0])};
"""


def test_at_the_least_is_never_shown_below_the_promise(page: Page, client: Client) -> None:
    """By control rounds alone 55 may have been lost, of which the promise, 30, is as sure."""
    make_loop(client, "least")
    page.open("least")
    seen = page.run(COIN, {})
    assert seen["drawn"] == [30, -30, -30], "at the most, at the least, the promise"
    assert seen["sides"]["would"] == "10 to 70 clicks" and "by the promise" in seen["sides"]["range"]
    assert "between −0.3 (by the promise) and +0.3 clicks" in seen["lift"]["verdict"]
    means = page.run(COIN, {"counts_rewards": False})  # of which luck is no part: nothing can be cut
    assert means["drawn"] == [30, -55, -30] and means["sides"]["would"] == "10 to 95 clicks"


def test_a_point_is_shown_only_where_the_lift_is_clear(page: Page, client: Client) -> None:
    make_loop(client, "points")
    page.open("points")
    unclear = page.run(COIN, {"upper": 60})
    assert unclear["lift"]["value"] == "not clear yet" and unclear["sides"]["would"] == "10 to 60 clicks"
    assert "45" not in str(unclear["sides"]) and "0.05" not in str(unclear["lift"]), "the estimate, nowhere"
    clear = page.run(COIN, {"upper": 35, "estimate": 22})
    assert clear["lift"]["value"] == "+0.18 clicks per explored decision"
    assert clear["sides"]["would"] == "about 22 clicks" and "10 to 35 clicks" in clear["sides"]["range"]


def test_after_a_drift_alarm_arms_show_what_they_earned_since(page: Page, client: Client) -> None:
    make_loop(client, "moved", on_alarm="warn")
    page.open("moved")
    page.until(lambda: "dotted line" in page.text("[data-arms-unit]"))
    assert "drift" not in page.text("[data-arms-unit]")
    while client.loop("moved")["drifted_at"] is None:
        play(client, "moved", 20, reward=0.0)  # the log earned 0.9
    play(client, "moved", 20, reward=0.0)
    page.until(lambda: "since the drift alarm of" in page.text("[data-arms-unit]"))
    assert "the log is from before the change" in page.text("[data-arms-unit]")
    page.until(lambda: set(page.texts("[data-arms] td.fixed:nth-child(3)")) <= {"0", "–"})


def test_what_is_counted_as_tried_is_another_arm_than_the_safe_choice(page: Page, client: Client) -> None:
    """The policy may play the best arm of the log all the time."""
    make_loop(client, "best")
    play(client, "best", 12)
    page.open("best")
    page.until(lambda: "of 12 decisions" in page.text("[data-tried-note]"))
    heads = [head.rstrip(" ?") for head in page.texts(".numbers dt, h3")]
    assert "Other than the safe choice" in heads and not [head for head in heads if "xplored" in head]
    assert page.text("[data-tried-note]").startswith(f"about {client.loop('best')['tried']:.0f} of")
    assert set(page.texts("[data-decisions] .badge")) <= {"policy", "safe", "control"}


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2 counts it."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_live_has_a_readable_colour_that_is_not_a_warnings() -> None:
    text = (files("linoto.service") / "dashboard" / "style.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in text.split("@media")[:2]]
    named = dict(re.findall(r"\.badge\.([\w-]+) \{ color: var\(--(\w+)\); \}", text))
    assert named["live"] not in (named["alarm"], named["explore"], "open")
    for theme in themes:
        for behind in ("paper", "box"):
            assert contrast(theme[named["live"]], theme[behind]) >= 4.5


def test_without_a_control_group_the_page_says_what_would_give_one(page: Page, client: Client) -> None:
    make_loop(client, "alone")
    play(client, "alone", 3)
    page.open("alone")
    page.until(lambda: "Choose 5 % under" in page.text("[data-lift-verdict]"))
    assert page.text("[data-gain]").endswith(" reward") and "control" not in page.text("[data-groups]")
    client.change("alone", mode="safe-only", holdback=0.05)
    page.until(lambda: "none in safe-only mode; 5 % again in live mode" in page.text("[data-no-control]"))
    assert not page.one("[data-holdback]").is_displayed()
    client.change("alone", mode="live")
    page.until(lambda: page.one("[data-holdback]").is_displayed())
    assert page.one("[data-holdback]").get_attribute("value") == "0.05"


def test_a_loop_that_throws_coins_shows_what_practice_would_have_earned(page: Page, client: Client) -> None:
    policy = linoto.Gated(gate=linoto.Control(budget=40.0, share=0.4), confidence=TOLERANT.confidence)
    client.create("coin", arms=["a", "b", "c"], policy=policy, offline=LOG, default_reward=0.0, unit="clicks")
    page.open("coin")
    page.until(lambda: page.text("[data-would]") == "not known yet")
    assert page.text("[data-left]") == "40 clicks" and not page.one("[data-log]").is_displayed()
    while client.loop("coin")["practice"]["explored"] < 12 or client.loop("coin")["practice"]["control"] < 4:
        made = client.decide("coin", proposal="c")
        client.reward("coin", made.decision_id, float(made.arm == "c"))
    seen = client.loop("coin")["practice"]
    page.until(lambda: page.text("[data-earned]") == f"{seen['explored']} clicks")
    clear = page.text("[data-lift]") != "not clear yet"  # as the coin fell
    assert re.fullmatch(r"about \S+ clicks" if clear else r"\S+ to \S+ clicks", page.text("[data-would]"))
    assert "95 % sure" in page.text("[data-would-range]")
    assert page.text("[data-earned-same]") == f"In the same {seen['explored']} explored decisions."
    assert "against current practice" in page.text("[data-left-note]")
    assert "explored decisions and" in page.text("[data-lift-note]")
    assert not page.one("[data-holdback]").is_displayed(), "there is one control group, and the gate draws it"
    assert page.text("[data-gain-title]") == "Reward against current practice, and what the promise allows"
    assert "at the least" in page.text("[data-gain-chart]") and "the promise" in page.text(
        "[data-gain-chart]"
    )
    assert "practice would have earned more" in page.text("[data-watch]")
    make_loop(client, "without-coin")
    page.open("without-coin")
    page.until(lambda: page.text("[data-gain-title]").startswith("Reward against the log"))
    assert not page.one("[data-coin]").is_displayed() and page.one("[data-log]").is_displayed()


def test_a_loop_with_contexts_says_who_asked_and_why(page: Page, client: Client) -> None:
    client.create(
        "contexts",
        policy=POLICIES["model"],
        recipe=RECIPE,
        moments=log_of(2000),
        practice="C",
        default_reward=0.0,
        unit="clicks",
    )
    made = client.decide("contexts", context={"age": 25, "country": "DE"})
    assert made.arm == "A" and made.because[0]["part"] == "country=DE"
    client.reward("contexts", made.decision_id, 1.0)
    page.open("contexts")
    page.until(lambda: "asked with age, country" in page.text("[data-policy]"))
    page.until(lambda: "age=25, country=DE" in page.text("[data-decisions]"))
    page.click("[data-decisions] button")
    page.until(lambda: "because of country=DE" in page.text(".why"))
    assert "the world is not the log's any more" in page.text("[data-watch]")
    assert "practice in the same contexts" in page.text("[data-story]")
    assert not page.one("[data-log]").is_displayed(), "the mean of the log is no reference with contexts"
    client.create("unwatched", policy=linoto.LinTS(), recipe=RECIPE, default_reward=0.0)
    page.open("unwatched")
    page.until(lambda: "every context has its own mean reward" in page.text("[data-watch]"))


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
