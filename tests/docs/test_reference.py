"""The reference leaves nothing out: no public name, no argument of a command, no route."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hooks import reference

import linoto
from linoto.cli.commands import parser
from linoto.service.server import open_service

DOCS = Path(__file__).parents[2] / "docs"
HTTP = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")]
    names = [name for page in pages for name in re.findall(r"^::: linoto\.(\w+)$", page, re.MULTILINE)]
    assert sorted(names) == sorted(linoto.__all__)


def functions_of(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class that were written here."""
    found = {}
    for name, member in inspect.getmembers(kind):
        function = member.fget if isinstance(member, property) else member
        ours = str(getattr(function, "__module__", "")).startswith("linoto")
        if not name.startswith("_") and ours and inspect.isroutine(function):
            found[name] = function
    return found


@pytest.mark.parametrize("name", linoto.__all__)
def test_every_public_method_says_what_it_is_for(name: str) -> None:
    value = getattr(linoto, name)
    members = functions_of(value) if inspect.isclass(value) else {}
    assert [member for member, function in members.items() if not inspect.getdoc(function)] == []


@pytest.mark.parametrize("command", list(reference.commands(parser())), ids=lambda command: command.prog)
def test_every_command_and_every_argument_says_what_it_is_for(command: Any) -> None:
    assert command.description
    silent = [action.dest for action in reference.arguments(command) if not (action.help or "").strip()]
    assert silent == []


def test_the_reference_of_commands_has_every_command_and_every_argument() -> None:
    text = reference.command_reference()
    for command in reference.commands(parser()):
        section = text.split(f"## `{command.prog}`\n")[1].split("\n## ")[0]
        for action in reference.arguments(command):
            assert all(word in section for word in action.option_strings or [action.metavar or action.dest])


@pytest.fixture(scope="module")
def description() -> Any:
    return reference.served_description()


def test_every_route_is_in_the_reference(description: Any, tmp_path: Path) -> None:
    service = open_service(tmp_path / "loops.sqlite")
    try:
        paths = {re.sub(r":\w+}", "}", route.path): route.methods for route in service.app.routes}
    finally:
        service.close()
    text = reference.route_reference(description)
    described_elsewhere = {"/v1", "/v1/{path}"}  # the description itself, and what is not found
    for path in paths.keys() - described_elsewhere:
        assert re.search(rf"`(?:[A-Z]+ )?{re.escape(path)}`", text + HTTP), path


def test_every_route_is_on_the_page_about_the_service(description: Any) -> None:
    page = (DOCS / "service.md").read_text(encoding="utf-8").replace("{id}", "{decision_id}")
    routes = [
        f"{method.upper()} {path}" for path, methods in description["paths"].items() for method in methods
    ]
    assert [route for route in routes if f"| `{route}` |" not in page] == []


def test_every_route_says_what_it_does_and_every_query_parameter_what_it_means(description: Any) -> None:
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation["description"].strip(), path
            silent = [p["name"] for p in operation.get("parameters", []) if not p.get("description")]
            assert silent == [], path


def test_every_change_of_the_api_since_0_2_is_listed(description: Any) -> None:
    """Routes, parameters and fields that came or went, by the description that 0.2.0 gave of itself."""
    before = json.loads((DOCS.parent / "tests/data/version-0.2/api.json").read_text(encoding="utf-8"))
    changes = HTTP.partition("## Changes since 0.2")[2]
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    assert set(before["routes"]) <= set(operations), "within /v1 nothing is taken away"
    changed = [f"`{route}`" for route in operations.keys() - set(before["routes"])]
    for route in before["routes"]:
        parameters = {p["name"] for p in operations[route].get("parameters", []) if p["in"] == "query"}
        changed += [f"`{name}`" for name in parameters ^ set(before["parameters"].get(route, []))]
    rows = "\n".join(line for line in changes.splitlines() if line.startswith("| `"))
    for shape, fields in before["fields"].items():
        now = set(description["components"]["schemas"][shape]["properties"])
        of_shape = " ".join(line for line in rows.splitlines() if line.startswith(f"| `{shape}` |"))
        changed += [f"{shape}.{name}" for name in now ^ set(fields) if f"`{name}`" not in of_shape]
    assert [each for each in changed if each not in changes] == []
    assert description["info"]["version"] == linoto.__version__
