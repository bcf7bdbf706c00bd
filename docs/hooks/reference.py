"""Writes the reference of the command line and of HTTP while the site is built, from the program itself."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from linoto.cli.commands import parser
from linoto.cli.settings import settings_of, variable_of

MARK = re.compile(r"<!-- generated: (\w+) -->")
Schema = dict[str, Any]  # a JSON schema, or a part of one


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replace each mark by what it names; other pages stay as they are."""
    return MARK.sub(lambda mark: generate(mark[1], page.file.src_uri), markdown)


def generate(name: str, where: str) -> str:
    """The text of one mark."""
    if name == "commands":
        return command_reference()
    if name == "routes":
        return route_reference(served_description())
    if name == "settings":
        return setting_reference()
    raise PluginError(f"{where}: a mark must name commands, routes or settings, got {name}")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, empty where there are no rows."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    head = list(head)
    return "\n".join(["| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *lines])


# -- the command line


def command_reference() -> str:
    """Every command with its description, its arguments and its examples."""
    return "\n\n".join(part for command in commands(parser()) for part in describe(command) if part)


def commands(command: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command and everything below it, in the order of the help."""
    yield command
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from commands(below)


def describe(command: argparse.ArgumentParser) -> Iterator[str]:
    """The paragraphs about one command."""
    yield f"## `{command.prog}`"
    yield command.description or ""
    yield table(("argument", "meaning", "default"), (argument(command, a) for a in arguments(command)))
    if command.epilog:
        _, examples = command.epilog.split("\n", 1)  # after the word "examples:"
        yield "```text\n" + re.sub(r"^  ", "", examples, flags=re.MULTILINE) + "\n```"


def arguments(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes, apart from help and the commands below it."""
    left_out = (argparse._HelpAction, argparse._SubParsersAction)
    return [
        action
        for action in command._actions
        if not isinstance(action, left_out) and action.help != argparse.SUPPRESS  # of earlier versions
    ]


def argument(command: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str]:
    """One argument: how it is written, what it means, what it is if left out."""
    form = command._get_formatter()
    if action.option_strings:
        value = form._format_args(action, form._get_default_metavar_for_optional(action))
    else:
        value = form._format_args(action, form._get_default_metavar_for_positional(action))
    written = f"{', '.join(action.option_strings)} {value}".strip()
    return f"`{written}`", (action.help or "").replace("%%", "%"), if_left_out(action)


def if_left_out(action: argparse.Action) -> str:
    """The default of an argument, where it says something."""
    if action.required and action.option_strings:
        return "must be given"
    silent = action.default is None or action.default is False or action.default in ([], argparse.SUPPRESS)
    return "" if silent else f"`{action.default}`"


def setting_reference() -> str:
    """Every setting of the service, by file, environment variable and flag."""
    serve = next(command for command in commands(parser()) if command.prog == "linoto serve")
    rows = (
        (f"`{action.dest}`", f"`{variable_of(action.dest)}`", *argument(serve, action))
        for action in settings_of(serve)
    )
    return table(("in the file", "in the environment", "on the command line", "meaning", "default"), rows)


# -- HTTP


def served_description() -> Schema:
    """The OpenAPI description as a real server gives it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "linoto.cli", "serve", "--db", str(Path(folder, "empty.sqlite"))]
        server = subprocess.Popen(
            [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            line = server.stdout.readline() if server.stdout else ""
            address = re.search(r"http://\S+", line)
            if address is None:
                raise PluginError(f"linoto serve must print its address first, got {line!r}")
            with urlopen(f"{address[0]}/v1/openapi.json", timeout=60) as answer:
                return dict(json.load(answer))
        finally:
            server.terminate()
            server.communicate()


def route_reference(description: Schema) -> str:
    """Every route with its parameters, its body and its answer, then every shape."""
    parts = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts += route(f"{method.upper()} {path}", operation)
    parts += ["## Errors", errors(description["paths"]), "## Bodies and answers"]
    for name, schema in sorted(description["components"]["schemas"].items()):
        parts += shape(name, schema)
    return "\n\n".join(part for part in parts if part)


def route(title: str, operation: Schema) -> list[str]:
    """The paragraphs about one route."""
    given = [
        (f"`{p['name']}`", kind(p["schema"]), p.get("description", ""))
        for p in operation.get("parameters", [])
        if p["in"] == "query"
    ]
    return [
        f"## `{title}`",
        operation["description"],
        table(("parameter", "type", "meaning"), given),
        content("Body", operation.get("requestBody", {})),
        content("Answer", operation["responses"]["200"]),
    ]


def errors(paths: Schema) -> str:
    """Every status that is not 200, and what it means."""
    said = {
        status: answer["description"]
        for methods in paths.values()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if status != "200"
    }
    return table(("status", "meaning"), sorted(said.items()))


def content(title: str, message: Schema) -> str:
    """What a body or an answer holds."""
    kinds = [kind(part["schema"]) for part in message.get("content", {}).values()]
    return f"{title}: {', '.join(kinds)}" if kinds else ""


def shape(name: str, schema: Schema) -> list[str]:
    """The paragraphs about one JSON object."""
    needed = schema.get("required", [])
    rows = []
    for field, part in schema.get("properties", {}).items():
        default = f"`{json.dumps(part['default'])}`" if "default" in part else ""
        rows.append(
            (
                f"`{field}`",
                kind(part),
                "always there" if field in needed else default,
                part.get("description", ""),
            )
        )
    return [
        f"### {name}",
        schema.get("description", ""),
        table(("field", "type", "default", "meaning"), rows),
    ]


def kind(schema: Schema) -> str:
    """A JSON schema in a few words, with a link where it is a shape of ours."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(kind(part) for part in schema[union])) + limits(schema)
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "prefixItems" in schema:
        return f"[{', '.join(kind(part) for part in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything")) + limits(schema)


def limits(schema: Schema) -> str:
    """The least and the greatest value, where there are any."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None and most is None:
        return ""
    return f", {'' if least is None else f'from {least:g} '}{'' if most is None else f'to {most:g}'}".rstrip()
