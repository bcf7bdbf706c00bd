"""What is to be read at once can be: the sizes that docs/adr/0059-size-and-start.md promises."""

from __future__ import annotations

import pytest
from helpers.sources import PACKAGE, source_of, sources

import linoto

MOST_LINES_OF_A_FILE = 800
MOST_LINES_OF_A_BODY = 60
MOST_PUBLIC_NAMES = 75


def test_no_file_is_longer_than_can_be_read_at_once() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FILE} == {}


def test_no_body_of_a_function_is_longer_than_a_screen() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), function)
        for path, source in sources().items()
        for function in source.functions
        if function.lines > MOST_LINES_OF_A_BODY
    ]
    assert found == []


def test_public_names_are_few() -> None:
    assert len(linoto.__all__) <= MOST_PUBLIC_NAMES


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n    return 1", 1),
        ('def f(\n    a,\n    b,\n):\n    """Two\n\n    lines."""\n    c = a\n    return b', 2),
        ("async def f():\n    pass\n\n    pass", 3),
        ('def f():\n    """Nothing else."""', 0),
    ],
)
def test_a_body_begins_after_the_signature_and_the_docstring(text: str, lines: int) -> None:
    assert [function.lines for function in source_of(text).functions] == [lines]
