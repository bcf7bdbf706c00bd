"""A clock that is set wrong closes nothing unseen, and is seen."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from helpers.forks import run_forked
from helpers.http import ask
from helpers.loops import decide
from helpers.service_process import FakeClock, create, opened, served

DAY = 86_400.0


def with_open_decisions(path: Path, ago: float, window: float = 3600.0) -> None:
    """Two decisions made so many seconds ago, whose rewards never came."""
    with opened(path, clock=FakeClock(time.time() - ago)) as service:
        create(service, window=window)
        decide(service), decide(service)


def open_after(path: Path, accept: bool) -> int:
    """How many decisions are open once the service has looked for what is due."""
    with served(path, settings={"accept_clock": accept}) as server, server.client() as client:
        deadline = time.monotonic() + 60
        while (pending := client.loop("loop")["pending"]) and time.monotonic() < deadline and accept:
            time.sleep(0.05)
        return int(pending)


def test_a_start_a_month_ahead_closes_nothing_before_somebody_says_that_the_clock_is_right(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.sqlite"
    with_open_decisions(path, 30 * DAY)
    code, said = run_forked(["serve", "--db", str(path), "--port", "0"], tmp_path)
    assert code == 1 and "30.0 days after the last event of loop 'loop'" in said and "--accept-clock" in said
    with opened(path, clock=FakeClock(time.time() - 30 * DAY)) as service:  # the clock was set right
        assert len(service.loops.get("loop").pending) == 2
    assert open_after(path, accept=True) == 0


@pytest.mark.parametrize(
    ("ago", "window"), [(7200.0, 3600.0), (20 * DAY, 30 * DAY)], ids=["off", "long window"]
)
def test_a_service_that_was_off_for_a_while_starts_without_a_question(
    tmp_path: Path, ago: float, window: float
) -> None:
    with_open_decisions(tmp_path / "x.sqlite", ago, window)
    with served(tmp_path / "x.sqlite") as server:
        assert ask(server, "GET", "/v1/loops/loop")[0] == 200


@pytest.mark.parametrize("ahead", [0.0, 30 * DAY])
def test_metrics_say_how_far_the_time_of_a_loop_is_ahead_of_the_clock(tmp_path: Path, ahead: float) -> None:
    """Its windows are longer by as much."""
    path = tmp_path / "x.sqlite"
    with_open_decisions(path, -ahead)
    with served(path) as server:
        text = ask(server, "GET", "/metrics")[1]
        found = re.search(r'^linoto_clock_ahead_seconds{loop="loop"} (\S+)$', text, re.MULTILINE)
        assert found is not None and abs(float(found[1]) - ahead) < DAY / 2
