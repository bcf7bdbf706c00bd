"""What long commands say on their way, to people and to the logs of a job."""

from __future__ import annotations

import pytest

from linoto.cli.terminal import now_and_then, progress


def test_a_job_says_now_and_then_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    track = now_and_then("playing", lambda: now[0])
    for done in range(1, 1001):
        now[0] = done / 10
        track(done, 1000)
    assert capsys.readouterr() == ("", "playing: 30% done\nplaying: 60% done\nplaying: 90% done\n")


def test_what_is_soon_done_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("playing") as track:
        track(1, 2)
        track(2, 2)
    assert capsys.readouterr() == ("", "")
