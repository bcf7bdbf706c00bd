"""Pictures that nobody looks at are not drawn: tests/pages is about pictures, tests of commands are not."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest

BLANK = '<?xml version="1.0"?>\n<svg width="360pt" height="300pt" version="1.1"></svg>\n'


def write_blank(_: Any, target: Path | StringIO, **options: Any) -> None:
    """Instead of finding a place for every label and writing every letter."""
    if isinstance(target, Path):
        target.write_text(BLANK)
    else:
        target.write(BLANK)


@pytest.fixture
def drawn() -> None:
    """Asked for by a test whose pictures are drawn where those of others are blank."""


@pytest.fixture
def blank_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made as ever, with every line and label; matplotlib does not put them on paper."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(FigureCanvasSVG, "print_svg", write_blank)
        monkeypatch.setattr(Figure, "savefig", write_blank)
