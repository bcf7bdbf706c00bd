"""A name in a log, a study or a command never becomes markup, and a page needs nothing from elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from helpers.html import Page
from helpers.odd_pages import ODD, PAGES, written

import linoto.pages
from linoto.pages.shell import check_installed, fill, templates

TEMPLATES = Path(linoto.pages.__file__).parent / "templates"
OWN_DRAWINGS = {"svg", "pictures[title]", "gate_picture"}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.few(1)
def test_an_odd_name_is_shown_as_it_is_and_never_markup(name: str) -> None:
    text = written(name).text
    page = Page(text)
    assert page.tags["script"] == page.tags["img"] == 0 and not page.outside and not page.open
    assert "onerror" not in page.attributes
    assert page.text.count(ODD) >= 3  # in the command, and where the page names arms or policies
    assert not re.search(r"https?:|@import|url\((?!#)", text)


def test_every_html_template_escapes_and_only_our_own_drawings_pass() -> None:
    names = [path.name for path in TEMPLATES.iterdir()]
    assert {f"{page}.html" for page in PAGES} < set(names)
    for name in names:
        source = (TEMPLATES / name).read_text("utf-8")
        assert "autoescape" not in source and "Markup" not in source
        assert set(re.findall(r"{{ *([^}]*?) *\| *safe", source)) <= OWN_DRAWINGS
    assert all(templates().autoescape(name) for name in names if name.endswith(".html"))  # type: ignore[operator]


def test_a_missing_value_is_an_error_and_not_a_gap() -> None:
    with pytest.raises(Exception, match="'title' is undefined"):
        fill("shell.html")


@pytest.mark.parametrize("package, name", [("jinja2", "Jinja2"), ("matplotlib", "matplotlib")])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    templates.cache_clear()
    with pytest.raises(ImportError, match=rf'need {name}: pip install "linoto\[figures\]"'):
        check_installed()
