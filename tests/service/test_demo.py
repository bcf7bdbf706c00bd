"""`linoto serve --demo`: decisions at once, an alarm within a minute, and nothing lost after a kill."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pty
import re
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.command import Command, ForkedProcess, Process
from helpers.forks import ForkedCommand, run_forked
from helpers.http import ask
from helpers.loops import change
from helpers.service_process import FakeClock, close_due, create, opened

from linoto.service import server as serving
from linoto.service.log_lines import JsonLines, TextLines
from linoto.service.loops.views import practice_view
from linoto.service.maintenance import check
from linoto.service.server import Service
from linoto.service.traffic import (
    CATCH_UP,
    SCENES,
    SLOWEST_REWARD,
    STORM,
    Pacer,
    book,
    create_loops,
    delay_of,
    scene_reward,
)
from linoto.worlds import flights

HEALTHY, STORMY, CONTROLLED = SCENES


def numbers(server: Process) -> dict[str, Any]:
    """The live numbers by loop."""
    return {loop["name"]: loop for loop in ask(server, "GET", "/v1/loops")[1]}


def wait_for(condition: Callable[[], Any], seconds: float = 240.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {seconds:g} seconds"
        time.sleep(0.2)  # to look is work for the server, too


def test_the_demo_starts_decides_and_stops_at_control_c(tmp_path: Path) -> None:
    with ForkedProcess(tmp_path, "--demo", "--port", "0") as demo:
        assert demo.loops == 3 and "linoto-demo.sqlite" in demo.line
        assert set(numbers(demo)) == {"flights", "flights-storm", "flights-storm-control"}
        wait_for(lambda: all(loop["rewards"] > 0 for loop in numbers(demo).values()))
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(timeout=240) == 0
    assert (tmp_path / "linoto-demo.sqlite").exists() and not (tmp_path / "loops.sqlite").exists()
    lines = [json.loads(line) for line in demo.log.read_text().splitlines()]
    assert [line["message"] for line in lines][-2:] == ["serving", "stopped"]


@pytest.mark.slow
def test_a_server_of_its_own_interpreter_stops_at_control_c(tmp_path: Path) -> None:
    with Command(tmp_path, "--demo", "--port", "0") as demo:
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(timeout=240) == 0


@pytest.mark.slow
def test_only_the_storm_raises_an_alarm_and_a_kill_loses_nothing(tmp_path: Path) -> None:
    path, told = tmp_path / "demo.sqlite", {}
    with Process(path, demo=True, pace=20.0, snapshot_every=500) as demo:
        wait_for(lambda: numbers(demo)["flights-storm"]["decisions"] > 200)
        before = numbers(demo)
        for name in before:
            told[name] = ask(demo, "GET", f"/v1/loops/{name}/decisions?limit=300")[1]
        demo.kill()
    with Process(path, demo=True, pace=20.0, snapshot_every=500) as demo:
        for name, loop in numbers(demo).items():
            assert loop["decisions"] >= before[name]["decisions"]
            assert loop["rewards"] >= before[name]["rewards"]
        for name, rows in told.items():
            check_rows(demo, name, rows)
        wait_for(lambda: numbers(demo)["flights-storm"]["mode"] == "safe-only")
        wait_for(lambda: numbers(demo)["flights"]["decisions"] > 800)
        after = numbers(demo)
        assert {alarm["kind"] for alarm in after["flights-storm"]["alarms"]} <= {"promise", "drift"}
        assert (after["flights"]["alarms"], after["flights"]["mode"]) == ([], "live")
        controlled = after["flights-storm-control"]
        assert (controlled["alarms"], controlled["mode"]) == ([], "live"), "the storm hits practice too"
        assert controlled["practice"]["explored"] > 0 and controlled["practice"]["control"] > 0
        assert after["flights-storm"]["realised"] < 0.9 * after["flights-storm"]["expected_by_log"]
        demo.kill()
    assert [line.endswith(("ok", "agree")) for line in check(path)] == [True] * 4
    assert "no traffic" not in demo.log.read_text()


def check_rows(demo: Process, name: str, rows: list[dict[str, Any]]) -> None:
    """Decisions told before the kill are as they were, and get the reward that the world has for them."""
    scene = next(scene for scene in SCENES if scene.name == name)
    arms = {arm: index for index, arm in enumerate(flights.load().names)}
    pending = [row for row in rows if row["reward"] is None]
    assert pending, "nothing was open when it was killed: too slow to learn from"
    for row in rows[-3:] + pending[:10]:
        number = int(row["decision_id"].split("-")[1])
        address = f"/v1/loops/{name}/decisions/{row['decision_id']}"
        wait_for(lambda address=address: ask(demo, "GET", address)[1]["reward"] is not None)
        found = ask(demo, "GET", address)[1]
        assert (found["arm"], found["at"], found["group"]) == (row["arm"], row["at"], row["group"])
        assert found["origin"] == "reported"
        assert found["reward"] == scene_reward(scene, number, arms[row["arm"]])


def test_a_port_in_use_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, printed = run_forked(["serve", "--port", port], tmp_path)
    reason = "Address already in use, choose another port with --port"
    assert (code, printed) == (1, f"linoto: cannot serve on 127.0.0.1:{port}: {reason}\n")


def test_a_terminal_gets_text(tmp_path: Path) -> None:
    """stderr is a terminal here."""
    ours, theirs = pty.openpty()
    words, out = ["serve", "--port", "0"], tmp_path / "out"
    served = ForkedCommand(words, tmp_path, {}, log=Path(os.ttyname(theirs)), out=out)
    try:
        wait_for(lambda: out.exists() and "serving" in out.read_text())
        served.send_signal(signal.SIGTERM)
        assert served.wait() == 0
    finally:
        served.end()
    os.close(theirs)
    lines = read_terminal(ours).splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d stopped, db loops.sqlite", lines[-1])
    assert not any("{" in line or "Traceback" in line for line in lines)


def read_terminal(handle: int) -> str:
    """What was written to a terminal whose writers are gone."""
    text = b""
    while select.select([handle], [], [], 1.0)[0]:
        try:
            text += os.read(handle, 4096)
        except OSError:  # how a terminal without writers ends
            break
    os.close(handle)
    return text.decode()


def step(service: Service, scene: Any, count: int) -> None:
    service.store.write_sync(lambda connection: book(connection, service.loops, scene, count, 1.0))


def test_every_reward_is_reported_once(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        loop = service.loops.get("flights")
        for _ in range(10):
            step(service, HEALTHY, 25)
            clock.now += 1.0
        open_yet = [n for n in range(1, 251) if 9 - (n - 1) // 25 < delay_of(HEALTHY, n)]
        assert loop.state.decided == 250 and list(loop.pending) == open_yet
        clock.now += SLOWEST_REWARD
        step(service, HEALTHY, 0)
        groups = list(loop.state.groups.values())
        assert not loop.pending and sum(group.closed for group in groups) == 250
        assert sum(group.defaults for group in groups) == 0


def test_the_storm_raises_an_alarm_that_stops_exploring(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        state = service.loops.get("flights-storm").state
        while state.decided < STORMY.storm_after:
            step(service, STORMY, 10)
            clock.now += 1.0
        assert state.mode == "live" and not state.alarms
        while state.mode == "live" and state.decided < 600:
            step(service, STORMY, 10)
            clock.now += 1.0
        explored = state.groups["explore"].plays
        step(service, STORMY, 50)
        assert state.mode == "safe-only" and state.alarms
        assert state.groups["explore"].plays == explored > 100


@pytest.mark.few(0)
def test_control_rounds_show_that_the_storm_hits_practice_too(tmp_path: Path) -> None:
    """The alarm about practice has an error of .01; the seed of the loop is fixed."""
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        loop = service.loops.get("flights-storm-control")
        for _ in range(90):
            step(service, CONTROLLED, 10)
            clock.now += 1.0
        assert loop.state.mode == "live" and loop.state.alarms == []
        before = loop.state.groups["explore"].plays
        step(service, CONTROLLED, 50)
        assert loop.state.groups["explore"].plays > before > 300
        seen = practice_view(loop)
        assert seen is not None and seen.lower < seen.earned and seen.control > 20


def test_a_pause_of_days_raises_no_alarm_in_fair_weather(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        step(service, HEALTHY, 60)
    clock.now += 7 * 86400
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        close_due(service)
        step(service, HEALTHY, 0)
        loop = service.loops.get("flights")
        assert not loop.pending and not loop.state.alarms
        assert sum(group.defaults for group in loop.state.groups.values()) == 0


def fly(service: Service, clock: FakeClock, seconds: int) -> Any:
    """So many seconds of fair weather."""
    create_loops(service.loops, service.store)
    for _ in range(seconds):
        step(service, HEALTHY, int(HEALTHY.rate))
        clock.now += 1.0
    return service.loops.get("flights").state


@pytest.mark.few(0)
def test_fair_weather_raises_no_alarm(tmp_path: Path) -> None:
    """At an error of 0.01 a healthy loop would raise one in a hundred times at the most, and here in none."""
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        state = fly(service, clock, 60)
        assert state.decided == 1500 and not state.alarms and state.mode == "live"


@pytest.mark.slow
def test_twenty_thousand_bookings_in_fair_weather_raise_no_alarm(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        state = fly(service, clock, 800)
        assert state.decided == 20_000 and not state.alarms
        watch = service.loops.get("flights").watch
        assert state.drift.evidence < watch.drift_threshold / 2 and state.promise.evidence < 0


def test_an_archived_loop_gets_its_rewards_and_no_more_decisions(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create_loops(service.loops, service.store)
        step(service, HEALTHY, 10)
        service.store.write_sync(lambda connection: service.loops.archive(connection, "flights", "test"))
        clock.now += SLOWEST_REWARD
        step(service, HEALTHY, 10)
        loop = service.loops.get("flights")
        assert loop.state.decided == 10 and not loop.pending


def test_the_demo_finds_its_loops_as_they_were_and_touches_no_others(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock) as service:
        create_loops(service.loops, service.store)
        change(service, "flights", mode="shadow")
    with opened(path, clock=clock) as service:
        create_loops(service.loops, service.store)
        assert service.loops.get("flights").state.mode == "shadow"
    with opened(tmp_path / "y.sqlite", clock=clock) as service:
        create(service, "flights-storm")
        with pytest.raises(
            ValueError, match=r"'flights-storm' of .*y.sqlite must be the demo's, got another"
        ):
            create_loops(service.loops, service.store)


def test_rewards_and_delays_depend_on_loop_number_and_arm_only() -> None:
    """Rates of 4000 flights: three standard errors are 0.024."""
    means = flights.load().bandit.means
    for arm in (0, 60, 136):
        fair = [scene_reward(HEALTHY, number, arm) for number in range(4000)]
        foul = [scene_reward(STORMY, number, arm) for number in range(301, 4301)]
        assert fair == [scene_reward(HEALTHY, number, arm) for number in range(4000)]
        assert abs(sum(fair) / 4000 - means[arm]) < 0.024
        assert abs(sum(foul) / 4000 - STORM * means[arm]) < 0.024
        calm = [scene_reward(STORMY, number, arm) for number in range(1, 301)]
        assert sum(calm) / 300 > 0.7 * means[arm]
    delays = [delay_of(HEALTHY, number) for number in range(1000)]
    assert all(0 <= delay < SLOWEST_REWARD for delay in delays)


def test_decisions_are_made_at_the_rate_of_the_clock() -> None:
    clock = FakeClock()
    pacer, made = Pacer(clock, 25.0), 0
    for _ in range(100):
        clock.now += 0.1
        made += pacer.take()
    assert 249 <= made <= 250
    clock.now += 3600.0  # the machine slept
    assert pacer.take() <= 25 * CATCH_UP + 1
    clock.now -= 3600.0
    assert pacer.take() <= 1


def test_work_that_fails_stops_the_server_and_is_raised() -> None:
    stopped = []

    async def fail() -> None:
        raise ZeroDivisionError("as it happens")

    async def go_on() -> None:
        await asyncio.sleep(3600)

    async def serve() -> None:
        tasks = [serving.run_in_background(work, lambda: stopped.append(1)) for work in (fail(), go_on())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        assert stopped == [1]
        await serving.stop_tasks(tasks)

    with pytest.raises(ZeroDivisionError, match="as it happens"):
        asyncio.run(serve())


def test_a_log_line_is_one_line_whatever_it_contains() -> None:
    record = logging.makeLogRecord(
        {"msg": "alarm", "levelno": logging.WARNING, "levelname": "WARNING", "loop": "a", "why": "\x1b[2J\nb"}
    )
    line = TextLines().format(record)
    assert line.isprintable() and "warning: alarm, loop a" in line
    assert json.loads(JsonLines().format(record))["why"] == "\x1b[2J\nb"
