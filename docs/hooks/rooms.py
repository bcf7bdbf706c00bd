"""Draws the rooms of the package on the page about architecture, from what `make lint` checks."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
MARK = "<!-- generated: rooms -->"
WIDTH, HEIGHT, GAP = 720, 44, 14


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replace the mark by a picture and a table; other pages stay as they are."""
    return (
        markdown.replace(MARK, f"{picture(layers())}\n\n{table(layers())}") if MARK in markdown else markdown
    )


def layers() -> list[list[str]]:
    """The rooms from the top to the bottom, those that are independent of each other in one row."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    found = next(contract for contract in contracts if contract.get("containers") == ["linoto"])
    return [[room.strip() for room in layer.split("|")] for layer in found["layers"]]


def question(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = ROOT / "linoto" / room
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "The version."
    return said.split("\n")[0]


def table(rows: list[list[str]]) -> str:
    """One line per room."""
    lines = [f"| `linoto/{room}` | {question(room)} |" for row in rows for room in row]
    return "\n".join(["| room | question that it answers |", "| --- | --- |", *lines])


def picture(rows: list[list[str]]) -> str:
    """Boxes from the top to the bottom, in the colours of the page."""
    boxes = []
    for level, row in enumerate(rows):
        width = (WIDTH - GAP * (len(row) - 1)) / len(row)
        for place, room in enumerate(row):
            x, y = place * (width + GAP), level * (HEIGHT + GAP)
            boxes.append(
                f'<rect x="{x + 1:.0f}" y="{y + 1}" width="{width - 2:.0f}" height="{HEIGHT - 2}" rx="6"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + HEIGHT / 2 + 5:.0f}">{room}</text>'
            )
    height = len(rows) * (HEIGHT + GAP) - GAP
    return (
        f'<svg class="rooms" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="The rooms of linoto: each may import those below it">{"".join(boxes)}</svg>'
    )
