"""The shell of every page we write: one HTML file that needs nothing else, on a phone and at night too."""

from __future__ import annotations

import re
from html import escape


def shell(*, title: str, body: str, style: str = "") -> str:
    """A whole page around a body of HTML; `style` is CSS of its own."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{CSS}{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def inline(svg: str, prefix: str, label: str) -> str:
    """A matplotlib SVG as part of a page: no prolog, ids of its own, and colours that follow the theme."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", svg, count=3)
    width = re.search(r'\swidth="([\d.]+)pt"', svg)
    narrow = width is not None and float(width[1]) < NARROW
    svg = re.sub(r'\s(?:width|height)="[^"]*pt"', "", svg, count=2)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    for colour, themed in (
        ("#ffffff", "var(--paper)"),
        ("#e6e6e6", "var(--line)"),
        ("#000000", "currentColor"),
    ):
        svg = svg.replace(colour, themed)
    kind = ' class="narrow"' if narrow else ""
    return svg.replace("<svg", f'<svg{kind} role="img" aria-label="{label}"', 1)


NARROW = 400  # points: a picture of one panel, which need not fill the page

CSS = """
:root { --paper: #ffffff; --ink: #1b1f24; --soft: #5b6570; --line: #e6e6e6; --box: #f6f7f9; --link: #00657a;
  --good: #1a7f37; --bad: #c0303f; --open: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e4e7ea; --soft: #9aa4ae;
  --line: #31373e; --box: #1d2127; --link: #5cc0d0; --good: #57c278; --bad: #ff7b86; --open: #e0b04b; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.5rem 0 .25rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
a { color: var(--link); }
pre { background: var(--box); padding: .7rem .9rem; border-radius: 6px; overflow-x: auto; }
nav ul { padding-left: 1.1rem; margin: .5rem 0; }
.note { color: var(--soft); font-size: .85rem; }
.figure { overflow-x: auto; margin: .5rem 0 1rem; }
.figure svg { display: block; width: 100%; min-width: 40rem; height: auto; fill: currentColor; }
.figure svg.narrow { min-width: 0; max-width: 34rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
.final td { white-space: nowrap; font-variant-numeric: tabular-nums; }
.final td:nth-child(n+3), .final th:nth-child(n+3) { text-align: right; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; margin: .3rem 0; }
@media print { details:not([open]) > * { display: none; } .figure svg { min-width: 0; } }
"""
