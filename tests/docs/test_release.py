"""The version is one number, wherever it is written, and a release has all that it names."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from re import findall

import yaml
from hatchling.builders.sdist import SdistBuilder

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


def test_a_source_release_has_what_its_first_page_links_and_its_tests_read() -> None:
    builder = SdistBuilder(str(ROOT))
    contained = {file.distribution_path for file in builder.recurse_included_files()}
    contained |= {*builder.metadata.core.license_files}  # which are added as it is built
    linked = findall(r"\]\(([\w./-]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert {*linked, "schemathesis.toml"} <= contained
