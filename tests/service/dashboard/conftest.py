"""One browser and one server for the tests of this folder: each takes its own loops."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.dashboard import Page
from helpers.folders import folder_in_memory
from helpers.service_process import Server, served
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from linoto.client import Client

FLAGS = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-sync disable-dev-shm-usage "
FLAGS += "disable-background-networking disable-component-update window-size=1200,1400"
# The page looks again after a second; here after a quarter of one. Its other timers are as they were.
HURRY = """
    const later = window.setTimeout;
    window.setTimeout = (work, pause, ...rest) => later(work, pause === 1000 ? 250 : pause, ...rest);
"""
# One folder, browser and server while tests of this directory run: a browser takes a second to start.
shared_folder = pytest.fixture(folder_in_memory, scope="package", name="shared_folder")


def find_browser() -> tuple[str, str]:
    """Paths of a browser and its driver; where they must be there, their absence is a failure."""
    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    message = (
        "THE DASHBOARD IS NOT TESTED: it needs chromium and chromedriver (Debian: chromium chromium-driver)"
    )
    if os.environ.get("TEST_BROWSER") == "required":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def server(shared_folder: Path) -> Iterator[Server]:
    with served(shared_folder / "x.sqlite") as server:
        yield server


@pytest.fixture(scope="package")
def client(server: Server) -> Iterator[Client]:
    with closing(server.client()) as client:
        yield client


@pytest.fixture
def page(browser: Chrome, server: Server) -> Iterator[Page]:
    browser.get("about:blank")  # the page of an earlier test may ask a service that has ended
    browser.get_log("browser")
    page = Page(browser, f"http://127.0.0.1:{server.port}/")
    yield page
    logged = [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert logged == [], "the page must not complain"
