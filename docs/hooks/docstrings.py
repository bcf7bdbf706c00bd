"""Docstrings as the reference shows them: examples as code, comments beside fields as their meaning."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Docstring, ExprSubscript, Extension, Function, Object

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n(?!>>> )|\Z)", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r".*?\s{2}# (?!noqa|type:)(?P<text>.*)")


class PlainDocstrings(Extension):
    """Our docstrings are sentences and doctests, without the section headers that other projects use."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Mark examples as code, for which Markdown would see quotations."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Take the comment that ends the line of a field as what it means."""
        comment = COMMENT.fullmatch(attr.source) if attr.docstring is None else None
        if comment:
            attr.docstring = Docstring(comment["text"], parent=attr, lineno=attr.lineno)

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Show the result of a client's method where its source has the request for it."""
        decorators = [str(decorator.value) for decorator in func.decorators]
        if isinstance(func.returns, ExprSubscript) and "operation" in decorators:
            func.returns = func.returns.slice
