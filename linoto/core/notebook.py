"""How an object shows itself: names and texts side by side in a terminal, an HTML table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def text_table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and texts side by side.

    >>> print(text_table([("arm", "3"), ("reward", "0.5")]))
    arm     3
    reward  0.5
    """
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def html_table(rows: Iterable[Sequence[str]], *, columns: Sequence[str] = (), caption: str = "") -> str:
    """Rows of text as an HTML table, every word escaped; the first cell of each row is its name.

    >>> html_table([("a < b", "yes")])
    '<table><tr><th>a &lt; b</th><td>yes</td></tr></table>'
    """
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = [f"<tr>{head}</tr>"] if columns else []
    for name, *cells in rows:
        texts = "".join(f"<td>{escape(text)}</td>" for text in cells)
        lines.append(f"<tr><th>{escape(name)}</th>{texts}</tr>")
    return f"<table>{title}{''.join(lines)}</table>"
