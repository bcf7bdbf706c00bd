"""The colours of the dashboard: those of the figures, and readable ones. No browser is needed."""

from __future__ import annotations

import re
from importlib.resources import files

from linoto.pages.figures.pieces import COLOURS


def test_policies_have_the_colours_of_the_figures() -> None:
    text = (files("linoto.service") / "dashboard" / "colours.js").read_text(encoding="utf-8")
    drawn = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', text))
    assert len(drawn) >= 7 and drawn == {policy: COLOURS[policy] for policy in drawn}


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
