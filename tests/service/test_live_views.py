"""The numbers of many loops: exact, kept until something happens, and never in the way of others."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

import msgspec
import pytest
from helpers.loops import change
from helpers.service_process import opened, served, spec_of
from prometheus_client.parser import text_string_to_metric_families

from linoto.service.loops import views
from linoto.service.loops.loop import Loop
from linoto.service.loops.state import Alarm
from linoto.service.server import Service
from linoto.service.web.live_views import LiveViews, Shown, page_of, search
from linoto.service.web.metrics import FAMILIES, NUMBERS, MetricsPage


def add_loops(service: Service, count: int) -> None:
    """Loops that have decided once, made in one transaction."""
    described = [spec_of(description=text) for text in ("Banners", "mails")]

    def job(connection: Connection) -> None:
        for n in range(count):
            service.loops.create(connection, Loop.fresh(f"loop-{n}", described[n % 2]))
            service.loops.decide(connection, f"loop-{n}")

    service.store.write_sync(job)


@contextmanager
def with_loops(path: Path, count: int) -> Iterator[tuple[Service, LiveViews]]:
    with opened(path) as service:
        add_loops(service, count)
        yield service, LiveViews(service.loops, service.store)


def show(shown: LiveViews, service: Service) -> list[Shown]:
    return asyncio.run(shown.of(list(service.loops.by_name)))


def test_what_is_shown_is_exact_and_only_computed_where_something_happened(tmp_path: Path) -> None:
    with with_loops(tmp_path / "x.sqlite", 12) as (service, shown):
        before = show(shown, service)
        assert [each.view for each in before] == [
            views.loop_view(loop) for loop in service.loops.by_name.values()
        ]
        change(service, name="loop-3", mode="shadow")
        after = show(shown, service)
        assert [n for n in range(12) if after[n] is not before[n]] == [3]
        assert after[3].view.mode == "shadow" and msgspec.json.decode(after[3].body)["mode"] == "shadow"
        with pytest.raises(KeyError):
            service.store.write_sync(lambda c: [service.loops.archive(c, "loop-5", "me"), {}["undone"]])
        again = show(shown, service)
        assert [each.view for each in again] == [each.view for each in after]


def test_a_page_computes_its_own_loops_alone_and_the_same_page_again_none(tmp_path: Path) -> None:
    with with_loops(tmp_path / "x.sqlite", 30) as (service, shown):
        names = search(service.loops, None)
        first = asyncio.run(shown.of(page_of(names, None, 7)))
        assert [each.view.name for each in first] == names[:7] and shown.computed == 7
        assert asyncio.run(shown.of(page_of(names, None, 7))) == first and shown.computed == 7
        change(service, name="loop-3", mode="shadow")
        change(service, name="loop-20", mode="shadow")
        assert asyncio.run(shown.of(page_of(names, None, 7)))[3].view.mode == "shadow" and shown.computed == 8
        asyncio.run(shown.lines(names))
        assert shown.computed == 8
        asyncio.run(shown.of(search(service.loops, "oop-2")))
        assert shown.computed == 8 + 10  # loop-2 is known, loop-20 to loop-29 are not


def test_nothing_is_kept_of_loops_that_have_moved_to_another_server(tmp_path: Path) -> None:
    with with_loops(tmp_path / "x.sqlite", 12) as (service, shown):
        show(shown, service)
        gone = [weakref.ref(service.loops.by_name.pop(f"loop-{n}")) for n in range(9)]
        show(shown, service)
        gc.collect()
        assert [each() for each in gone] == [None] * 9


def test_a_line_of_a_loop_says_what_its_live_numbers_say(tmp_path: Path) -> None:
    with with_loops(tmp_path / "x.sqlite", 6) as (service, shown):
        change(service, name="loop-3", mode="shadow")
        service.store.write_sync(lambda c: service.loops.archive(c, "loop-5", "me"))
        lines = asyncio.run(shown.lines([*service.loops.by_name, "gone"]))
        for line, loop in zip(lines, service.loops.by_name.values(), strict=True):
            view = views.loop_view(loop)
            same = ("name", "description", "mode", "archived", "decisions", "pending")
            assert all(getattr(line, field) == getattr(view, field) for field in same)
            assert line.alarms == sum(not alarm.answered for alarm in view.alarms) == 0
        state = service.loops.get("loop-1").state
        state.alarms = [Alarm(kind="drift", at=0.0, seq=1, message="") for _ in range(3)]
        for state.answered in (0, 2, 3):
            (line,) = asyncio.run(shown.lines(["loop-1"]))
            assert line.alarms == 3 - state.answered


def test_showing_many_loops_gives_others_their_turn(tmp_path: Path) -> None:
    """Others look in between and never see all of them shown at once."""

    async def scene(shown: LiveViews, names: list[str]) -> int:
        task, seen, most = asyncio.create_task(shown.of(names)), 0, 0
        while not task.done():
            await asyncio.sleep(0)
            most, seen = max(most, shown.computed - seen), shown.computed
        assert len(task.result()) == len(names) == seen
        return most

    with with_loops(tmp_path / "x.sqlite", 60) as (service, shown):
        assert asyncio.run(scene(shown, list(service.loops.by_name))) < 60


def test_loops_are_found_by_text_and_given_in_pages(tmp_path: Path) -> None:
    names = [f"loop-{n}" for n in range(25)]
    with with_loops(tmp_path / "x.sqlite", 25) as (service, _):
        assert search(service.loops, None) == names
        assert search(service.loops, "BANNER") == names[::2]
        assert search(service.loops, "oop-2") == [
            "loop-2",
            "loop-20",
            "loop-21",
            "loop-22",
            "loop-23",
            "loop-24",
        ]
        assert search(service.loops, "nothing") == []
    for limit in (1, 7, 25, 100):
        pages, last = [], None
        while page := page_of(names, last, limit):
            assert len(page) <= limit
            pages += page
            last = page[-1]
        assert pages == names


def test_pages_of_loops_over_http(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        add_loops(service, 5)
    with served(tmp_path / "x.sqlite") as server:
        client = server.client()
        assert [loop["name"] for loop in client.loops(limit=2, after="loop-1")] == ["loop-2", "loop-3"]
        assert [loop["name"] for loop in client.loops(search="mails")] == ["loop-1", "loop-3"]
        assert [line["name"] for line in client.overview(limit=2, after="loop-1")] == ["loop-2", "loop-3"]
        assert [line["decisions"] for line in client.overview(search="mails")] == [1, 1]
        client.close()


@pytest.mark.slow
def test_a_thousand_loops_are_computed_once_and_then_listed_as_they_are_known(tmp_path: Path) -> None:
    """In the usual suite: a page of thirty, above."""
    with with_loops(tmp_path / "x.sqlite", 1000) as (service, shown):
        first = show(shown, service)
        assert len(first) == shown.computed == 1000
        again = show(shown, service)
        assert len(again) == 1000 and all(one is other for one, other in zip(first, again, strict=True))
        lines = asyncio.run(shown.lines(list(service.loops.by_name)))
        assert [line.name for line in lines] == list(service.loops.by_name) and shown.computed == 1000
        change(service, name="loop-500", mode="shadow")
        assert show(shown, service)[500].view.mode == "shadow" and shown.computed == 1001


def test_the_page_of_prometheus_is_what_its_own_parser_reads_and_follows_every_event(tmp_path: Path) -> None:
    with with_loops(tmp_path / "x.sqlite", 15) as (service, shown):
        page = MetricsPage(service.store)
        for mode in ("live", "shadow"):
            change(service, name="loop-3", mode=mode)
            text = page.render(show(shown, service), None, {"loop-3": 7.5}).decode()
            families = {family.name: family for family in text_string_to_metric_families(text)}
            assert len(families) == text.count("# TYPE ") and len(FAMILIES) <= len(families)
            told = {
                (sample.name, *sorted(sample.labels.values())): sample.value
                for family in families.values()
                for sample in family.samples
            }
            for loop in service.loops.by_name.values():
                view = views.loop_view(loop)
                assert told["linoto_mode", *sorted((view.name, view.mode))] == 1
                for field in NUMBERS:
                    assert told.get((f"linoto_{field}", view.name)) == getattr(view, field)
                for group, totals in view.groups.items():
                    assert told["linoto_decisions_total", *sorted((view.name, group))] == totals.plays
            assert told["linoto_clock_ahead_seconds", "loop-3"] == 7.5
            assert told["linoto_alarms_unanswered", "loop-3"] == 0


def test_readers_of_many_loops_take_turns_and_rest(tmp_path: Path) -> None:
    """However many read at once, requests have the service to themselves for most of the time."""

    async def scene(shown: LiveViews, service: Service, names: list[str]) -> float:
        async def read_for_ever() -> None:
            while True:
                await shown.of(names)

        readers = [asyncio.create_task(read_for_ever()) for _ in range(5)]
        await asyncio.sleep(0.1)
        began, busy = time.perf_counter(), time.thread_time()
        await asyncio.sleep(0.5)
        share = (time.thread_time() - busy) / (time.perf_counter() - began)
        for reader in readers:
            reader.cancel()
        return share

    with with_loops(tmp_path / "x.sqlite", 60) as (service, shown):
        assert asyncio.run(scene(shown, service, list(service.loops.by_name))) < 0.6
