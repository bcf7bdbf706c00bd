"""A column as a person writes it in one line: spline(price, knots=5)."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import Any

from linoto.core.features.columns import Category, Column, Numeric
from linoto.core.hints import nearest

PLAIN = (Numeric.kind, Category.kind)  # which have options of their own
GRAMMAR = "KIND(FIELD, OPTION=VALUE, ...) such as spline(price, knots=5)"


def column_of(text: str) -> Column:
    """The column that a text asks for; what it does not say, a log will.

    Fields are names, in quotes where they are not words. The column is called like its field, or as `name=`
    says.

    >>> column_of("bands(age, edges=[18, 65])").labels
    ('age<18', 'age 18 to 65', 'age>=65')
    >>> column_of('spline("unit price", knots=6, name=price)').reads
    ('unit price',)
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"column must be {GRAMMAR}, got {text!r}")
    kinds = {kind: cls for kind, cls in Column.kinds().items() if kind not in PLAIN}
    if call.func.id not in kinds:
        hint = nearest(call.func.id, kinds)
        raise ValueError(f"column must be one of {', '.join(sorted(kinds))}, got {call.func.id!r}{hint}")
    kind = kinds[call.func.id]
    named = tuple(read_value(node, text) for node in call.args)
    options = {str(keyword.arg): read_value(keyword.value, text) for keyword in call.keywords}
    known = [field.name for field in fields(kind) if field.name != "fields"]
    for option in options:
        if option not in known:
            hint = nearest(option, known) or f": it has {', '.join(known)}"
            raise ValueError(f"options of {call.func.id} must be known, got {option!r}{hint}")
    if not named or not all(isinstance(field, str) for field in named):
        raise ValueError(f"column must name its fields first, as in {GRAMMAR}, got {text!r}")
    for needed in (field for field in fields(kind) if field.default is field.default_factory):  # none of both
        if needed.name not in ("name", *options):
            raise ValueError(f"{call.func.id} must have {needed.name}, as in {needed.name}=8, got {text!r}")
    return kind(**{"name": "+".join(named), **options, "fields": named})


def read_value(node: ast.expr, text: str) -> Any:
    """A name, a text in quotes, a number, or a list of these."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(read_value(part, text) for part in node.elts)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"column must be {GRAMMAR}, got {text!r}") from None
