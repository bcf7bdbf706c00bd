"""Everything that a page tells the reader to run does run, and prints what the page shows."""

from __future__ import annotations

import gc
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from helpers.snippets import LANGUAGES, Block, blocks_of, reading

from linoto.cli.commands import parser

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
WITH_CODE = [page for page in PAGES if blocks_of(page)]
# Their commands take three seconds of a core and more: .ci/run asks for them, and make test does not.
LONG = {
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "beyond",
            "laws",
            "logs",
            "other-packages",
            "preview",
            "reproduction",
            "tutorial",
            "your-own",
        )
    ),
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def marked(page: Path) -> Any:
    return pytest.param(page, marks=[pytest.mark.slow] if name_of(page) in LONG else [], id=name_of(page))


@pytest.mark.filterwarnings("default")  # a page may be shorter than what closes every file
@pytest.mark.parametrize("page", [marked(page) for page in WITH_CODE])
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        for block in blocks_of(page):
            if block.reason is None:
                reader.read(block)
    gc.collect()


def test_the_python_of_the_first_page_runs(tmp_path: Path) -> None:
    """Of its launch, `tests/cli/test_launch.py` has a shorter one."""
    with reading(tmp_path) as reader:
        for block in blocks_of(ROOT / "README.md"):
            if block.language == "python" and block.reason is None:
                reader.read(block)


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_every_block_has_a_language_that_says_whether_it_is_run(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= LANGUAGES
    fences = len(re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert fences == 2 * len(blocks_of(page))


def test_the_long_pages_are_there() -> None:
    assert {name_of(page) for page in WITH_CODE} >= LONG


def left_out(page: Path) -> list[Block]:
    """The blocks that make test does not run."""
    long = name_of(page) in LONG
    return [block for block in blocks_of(page) if block.reason is not None or long]


@pytest.mark.parametrize("page", [page for page in WITH_CODE if left_out(page)], ids=name_of)
def test_what_is_not_run_is_at_least_a_command_that_exists(page: Path) -> None:
    for block in left_out(page):
        if block.language == "python":
            compile(block.code, name_of(page), "exec")
        for line, _ in block.commands:
            command, *rest = shlex.split(line.removesuffix(" &").replace("\\\n", " "), comments=True)
            if command == "linoto":
                rest = rest[: rest.index(">")] if ">" in rest else rest  # the shell's
                parser().parse_args(rest)  # exits where an option does not exist
            if command == "make":
                assert {word for word in rest if "=" not in word} <= TARGETS
