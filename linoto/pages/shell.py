"""The common frame of our pages: one HTML file that needs nothing else, on a phone and at night too."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.pages.figures.pieces import styled

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, **data: Any) -> str:
    """A template with its data; in HTML every text is escaped."""
    return templates().get_template(template).render(data)


def write_page(path: Path, template: str, **data: Any) -> Path:
    """Write a filled template; the same data write the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fill(template, **data), encoding="utf-8")
    return path


@cache
def templates() -> Environment:
    """The templates of this folder."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    except ImportError:
        raise ImportError('pages need Jinja2: pip install "linoto[figures]"') from None
    found = Environment(
        loader=PackageLoader("linoto.pages"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,  # a misspelt name is an error, not a gap in the page
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["commas"] = "{:,}".format
    return found


def check_installed() -> None:
    """Fail before the work, not after it, where Jinja2 or matplotlib is missing."""
    templates()
    with styled():
        pass
