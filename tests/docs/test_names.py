"""What the pages name exists: files, modules, functions. Decision records may name what was."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
LIVING = [page for page in PAGES if not page.name.startswith("0")]
ROOMS = "|".join(folder.name for folder in (ROOT / "linoto").iterdir() if folder.is_dir())
FILE = re.compile(rf"`((?:linoto|tests|docs|scripts|benchmarks|examples|requirements|{ROOMS})/[\w./-]+)`")
NAME = re.compile(r"`(linoto(?:\.\w+)+)")
TEST = re.compile(r"`(test_\w+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def find(name: str) -> Any:
    """What a dotted name means: the longest module of it, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", LIVING, ids=name_of)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = FILE.findall(page.read_text(encoding="utf-8"))
    missing = [name for name in named if not (ROOT / name).exists() and not (ROOT / "linoto" / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", LIVING, ids=name_of)
def test_every_name_of_the_package_that_a_page_uses_exists(page: Path) -> None:
    for name in NAME.findall(page.read_text(encoding="utf-8")):
        find(name)


def test_every_extra_is_on_the_page_about_installing() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = config["project"]["optional-dependencies"].keys() - {"dev", "docs"}
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [extra for extra in sorted(extras) if f"\n| `{extra}` |" not in page] == []


def test_every_test_that_a_page_names_exists() -> None:
    written = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    named = {name for page in LIVING for name in TEST.findall(page.read_text(encoding="utf-8"))}
    assert [name for name in sorted(named) if f"def {name}(" not in written] == []
