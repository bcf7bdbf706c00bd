"""Words that the tables of commands use are in the glossary, and it is in alphabetical order."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.snippets import blocks_of

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
PAGES = sorted(page for page in DOCS.glob("*.md") if any(block.commands for block in blocks_of(page)))


def heads_and_labels(output: str) -> set[str]:
    """The column heads of a table that a command printed, and the labels of its facts."""
    lines = output.splitlines()
    heads = {
        head
        for line, rule in pairwise(lines)
        if re.fullmatch(r"[─\- ]{8,}", rule)
        for head in re.split(r"\s{2,}", line.strip())
    }
    labels = {found[1] for line in lines if (found := re.match(r"([a-z][\w :?]*?)\s{2,}\S", line))}
    return heads | labels


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_head_and_label_of_a_table_is_in_the_glossary(page: Path) -> None:
    outputs = [output for block in blocks_of(page) for _, output in block.commands]
    words = {word for output in outputs for word in heads_and_labels(output)}
    plain = {re.sub(r"^(promise|assumed):? ", "", re.sub(r"\b\d{3,}\b", "n", word)) for word in words}
    assert sorted(word for word in plain if word not in GLOSSARY) == []


def test_the_words_of_each_section_are_in_alphabetical_order() -> None:
    for section in GLOSSARY.split("\n## ")[1:]:
        words = re.findall(r"^\| \*\*(.+?)\*\* \|", section, re.MULTILINE)
        assert words == sorted(words, key=str.lower), section.split("\n")[0]
