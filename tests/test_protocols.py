"""Policies and agents are typed by what is asked of them."""

from __future__ import annotations

import ast
import re

from helpers.sources import PACKAGE, sources

PARTS = ("policy", "agent", "explorer", "gate", "gated", "policies", "agents", "inner")


def test_no_policy_agent_or_explorer_is_of_any_type() -> None:
    parameters = [(each, path) for path, source in sources().items() for each in source.parameters]
    assert {parameter.arg for parameter, _ in parameters} >= {"policy", "agent", "explorer", "gate"}
    untyped = [
        f"{path.relative_to(PACKAGE)}:{parameter.lineno} {parameter.arg}"
        for parameter, path in parameters
        if parameter.arg in PARTS
        and parameter.annotation is not None
        and re.search(r"\bAny\b", ast.unparse(parameter.annotation).replace("Mapping[str, Any]", "JSON"))
    ]
    assert untyped == []
