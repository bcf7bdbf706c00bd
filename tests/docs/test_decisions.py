"""Decision records are numbered one after the other, and their titles say the number."""

from __future__ import annotations

import re
from pathlib import Path

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "adr").glob("0*.md"))


def test_numbers_of_decision_records_follow_each_other() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_titles_of_decision_records_have_their_numbers() -> None:
    titles = {record.name: record.read_text(encoding="utf-8").split("\n")[0] for record in RECORDS}
    assert [name for name, title in titles.items() if not re.match(rf"# {int(name[:4])}\. \S", title)] == []
