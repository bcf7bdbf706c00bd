"""The page of the laws explains every law that an error can name, in the words of the error."""

import re
from pathlib import Path

import pytest

from linoto.checks.promises import MEANING
from linoto.checks.suite import LAWS, LAWS_PAGE

MEANINGS = {law.__name__: str(law.__doc__) for _, laws in LAWS for law in laws} | {"promise_is_kept": MEANING}
TEXT = (Path(__file__).parents[2] / LAWS_PAGE).read_text(encoding="utf-8")
SECTIONS = {
    section.partition("`")[0]: re.sub(r"\s+", " ", section.partition("`")[2])
    for section in re.split(r"^### `", TEXT, flags=re.MULTILINE)[1:]
}


def test_the_page_has_every_law_and_no_other() -> None:
    assert sorted(SECTIONS) == sorted(MEANINGS)


@pytest.mark.parametrize("law", MEANINGS)
def test_a_law_is_explained_in_the_words_of_its_error(law: str) -> None:
    assert SECTIONS[law].strip().startswith(MEANINGS[law])
