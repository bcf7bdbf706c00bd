"""The dashboard as a person uses it, in a real browser; and loops to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from helpers.service_process import TOLERANT
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

import linoto
from linoto.client import Client

NASTY = '<img src=x onerror="window.hacked=1">'
LOG = linoto.Offline(pulls=[300, 200, 0], reward_sums=[270.0, 180.0, 0.0])  # type: ignore[arg-type]


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
