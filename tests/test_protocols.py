"""Policies and agents are typed by what is asked of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "linoto"
PARTS = ("policy", "agent", "explorer", "gate", "gated", "policies", "agents", "inner")


def test_no_policy_agent_or_explorer_is_of_any_type() -> None:
    parameters = [
        (argument, file)
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.arguments)
        for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)
    ]
    untyped = [
        f"{file.relative_to(PACKAGE)}:{argument.lineno} {argument.arg}"
        for argument, file in parameters
        if argument.arg in PARTS
        and argument.annotation is not None
        and re.search(r"\bAny\b", ast.unparse(argument.annotation).replace("Mapping[str, Any]", "JSON"))
    ]
    assert untyped == []
