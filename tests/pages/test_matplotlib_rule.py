"""matplotlib is reached from pages/figures and from nowhere else, however it is spelt."""

from __future__ import annotations

import pytest
from helpers.odd_pages import PACKAGE, PAGES, callers, written
from helpers.sources import Source, source_of, sources

from linoto.pages.figures import pieces

FIGURES = PACKAGE / "pages" / "figures"
WORDS = ("matplotlib", "pyplot", "pylab", "mpl_toolkits")


def mentions(source: str) -> list[str]:
    """Imports, names and strings that reach matplotlib, type checking and importlib included."""
    return mentioned(source_of(source))


def mentioned(source: Source) -> list[str]:
    """The same of what a file is made of."""
    imported = [f"{module}.{name}" for module, name in source.imported]
    found = (*imported, *source.names, *source.texts)
    return [text for text in found if any(word in text for word in WORDS)]


@pytest.mark.few(0)
def test_no_other_file_names_matplotlib() -> None:
    files = {path: source for path, source in sources().items() if not path.is_relative_to(FIGURES)}
    assert len(files) > 50
    assert {str(path): found for path, source in files.items() if (found := mentioned(source))} == {}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.few(2)  # those of test_escaping.py, which are written by then
def test_no_other_file_draws(name: str) -> None:
    found = written(name).callers
    assert found and all(path.is_relative_to(FIGURES) for path in found)


@pytest.mark.parametrize(
    "evasion",
    [
        "import matplotlib.pyplot as plt",
        "from matplotlib.figure import Figure",
        "if TYPE_CHECKING:\n    from matplotlib.figure import Figure",
        "import importlib\nimportlib.import_module('matplotlib.pyplot')",
        "__import__('matplotlib')",
        "from linoto.pages.figures import pieces\npieces.matplotlib.figure",
        "from linoto.pages.figures.pieces import pyplot",
    ],
)
def test_an_evasion_is_found_in_the_text(evasion: str) -> None:
    assert mentions(evasion)


def test_drawing_through_another_module_is_found_when_it_runs() -> None:
    source = "figure, axes = pieces.panel()\naxes.plot([1, 2])\n"
    assert mentions(source) == []
    evader = PACKAGE / "pages" / "evader.py"
    code = compile(source, str(evader), "exec")
    assert evader in callers(lambda: exec(code, {"pieces": pieces}))
