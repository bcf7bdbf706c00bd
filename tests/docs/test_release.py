"""The version is one number, wherever it is written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import yaml

import linoto

ROOT = Path(__file__).parents[2]


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == linoto.__version__
    assert date.fromisoformat(citation["date-released"])


def test_the_changelog_has_a_section_for_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {linoto.__version__} - {citation['date-released']}\n" in changelog
