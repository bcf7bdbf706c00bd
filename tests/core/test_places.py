"""A new explorer or gate is written in few places: everything else asks its record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.sources import PACKAGE, sources

from linoto.core.gates import GATES
from linoto.core.policies import EXPLORERS
from linoto.core.research import RESEARCH_EXPLORERS

ROOT = Path(__file__).parents[2]
PLAYED = ("experiments", "worlds")  # who plays what there is, and need not play what is new


def places_of(*words: str) -> list[str]:
    """The files of the package whose code has one of these names; texts and comments do not count."""
    named = {path.relative_to(PACKAGE): source.names for path, source in sources().items()}
    return [
        place.as_posix()
        for place, names in named.items()
        if place.parts[0] not in PLAYED and names & {*words}
    ]


@pytest.mark.parametrize(
    ("words", "most"), [(("RareLinUCB", "RARE"), 4), (("Conservative", "CONSERVATIVE"), 6)]
)
def test_an_explorer_is_written_in_four_places_and_a_gate_in_six(words: tuple[str, ...], most: int) -> None:
    """The youngest of each; who plays them in a comparison need not be counted."""
    assert len(places_of(*words)) <= most, places_of(*words)


def test_a_kind_of_column_is_written_in_four_files() -> None:
    """Its own file, the list beside it, its public name, and what a loop may have: as the page says."""
    for kind in ("Fourier", "Hashed", "Embedding"):
        found = places_of(kind, f"{kind}Column")
        own = f"core/features/columns/{kind.lower()}.py"
        assert {own, "core/features/columns/__init__.py", "service/loops/recipe_spec.py"} <= {*found}
        assert {*found} - {own, "core/features/columns/__init__.py"} <= {
            "columns.py",
            "service/loops/recipe_spec.py",
        }
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "four files at most" in text


def test_contributing_lists_the_places_that_a_new_part_is_written_in() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for part, words in {"explorer": ("RareLinUCB", "RARE"), "gate": ("Conservative", "CONSERVATIVE")}.items():
        found = re.search(rf"A new {part} is written in (\d) places: (.*?)\n\d\.", text, re.DOTALL)
        assert found is not None
        listed = re.findall(r"`([\w/]+\.py)`", re.sub(r"\([^)]*\)", "", found[2]))
        own = ["core/gates/conservative.py"] if part == "gate" else []
        assert int(found[1]) == len(listed) + len(own)
        assert sorted([*listed, *own]) == places_of(*words)


def test_words_of_commands_are_those_of_the_records() -> None:
    """No two explorers, and no two gates, have the same word."""
    words = [word for explorer in (*EXPLORERS, *RESEARCH_EXPLORERS) for word in explorer.words]
    assert words == [
        "scaled-ucb",
        "ucb",
        "scaled-thompson",
        "thompson",
        "rand-ucb",
        "logistic",
        "squarecb",
        "greedy",
        "random",
    ]
    assert sorted(gate.word for gate in GATES if gate.word) == ["control", "tolerance"]
