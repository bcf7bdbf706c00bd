"""What the files of the package are made of, each of them read once for all tests that ask."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import linoto

PACKAGE = Path(linoto.__file__).parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """The parts of a program that laws are about."""

    imported: list[tuple[str, str]]  # (module, name) of `from module import name`; ("", module) of `import`
    names: set[str]  # of variables, attributes, classes, functions and imports
    texts: list[str]  # but for docstrings
    parameters: list[ast.arg]
    functions: list[Function]


class Function(NamedTuple):
    """How long a function is."""

    name: str
    lines: int  # after its signature and its docstring


def source_of(text: str) -> Source:
    """What a program is made of."""
    found = Source([], set(), [], [], [])
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):  # what is outside comes first
        if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(id(node.body[0].value))
        note(node, found, docstrings)
    return found


def note(node: ast.AST, found: Source, docstrings: set[int]) -> None:
    """One part of a program."""
    for field in ("id", "attr", "name"):
        if isinstance(word := getattr(node, field, None), str):
            found.names.add(word)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and id(node) not in docstrings:
            found.texts.append(node.value)
    elif isinstance(node, ast.ImportFrom):
        found.imported.extend((str(node.module), alias.name) for alias in node.names)
    elif isinstance(node, ast.Import):
        found.imported.extend(("", alias.name) for alias in node.names)
    elif isinstance(node, ast.arguments):
        found.parameters.extend((*node.posonlyargs, *node.args, *node.kwonlyargs))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        begins = (ast.get_docstring(node) and node.body[0].end_lineno) or node.body[0].lineno - 1
        found.functions.append(Function(node.name, (node.end_lineno or 0) - begins))


@cache
def sources() -> dict[Path, Source]:
    """Every file of the package."""
    return {path: source_of(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
