"""What long commands say on their way, to people and to the logs of a job."""

from __future__ import annotations

import pytest

from linoto.cli import terminal


def test_a_job_says_now_and_then_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    with terminal.progress("playing") as track:
        assert track is not None
        for done in range(1, 1001):
            now[0] = done / 10
            track(done, 1000)
    assert capsys.readouterr() == (
        "",
        "playing: 300 of 1,000\nplaying: 600 of 1,000\nplaying: 900 of 1,000\n",
    )


def test_what_is_soon_done_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("playing") as track:
        assert track is not None
        track(1, 2)
        track(2, 2)
    assert capsys.readouterr() == ("", "")
