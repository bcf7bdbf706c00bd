"""Settings of a command that runs for long: by flag, by environment variable, by file; in this order."""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linoto.cli.terminal import Unshown
from linoto.cli.usage import Parser
from linoto.core.hints import closest, nearest

PREFIX = "LINOTO_"
ITS_OWN = ("help", "config", "show_config")  # options that say how settings are read
NO_SETTINGS = ("config", "token", "webhook_secret")  # variables that say something else
WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True)
class Unsaid:
    """A default in the place of what was not typed, so that it can be told from the same value typed."""

    value: Any

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Setting:
    """A value, and where it is from."""

    value: Any
    source: str


def add_settings(command: Parser) -> None:
    """Let every option of a command be set in these ways; after all of them were added."""
    for action in settings_of(command):
        if action.default not in (None, False):
            action.default = Unsaid(action.default)
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="a TOML file with settings, each under its name"
    )
    command.add_argument(
        "--show-config",
        action="store_true",
        help="print every setting and where it is from, and nothing else",
    )


def settings_of(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options of a command that are settings."""
    return [action for action in command._actions if action.option_strings and action.dest not in ITS_OWN]


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def read_settings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, Setting]:
    """Every setting by its name: as typed, else of the environment, else of the file, else its default."""
    actions = {action.dest: action for action in settings_of(arguments.command)}
    named = arguments.config or environment.get(variable_of("config"))
    file = {} if named is None else read_file(Path(named), actions)
    found = {}
    for name, action in actions.items():
        typed, variable = getattr(arguments, name), variable_of(name)
        if not (typed is None or typed is False or isinstance(typed, Unsaid)):
            found[name] = Setting(typed, action.option_strings[-1])
        elif environment.get(variable):
            found[name] = Setting(read_value(action, environment[variable], variable), variable)
        elif name in file:
            found[name] = Setting(read_value(action, file[name], f"{named}: {name}"), str(named))
        else:
            found[name] = Setting(typed.value if isinstance(typed, Unsaid) else typed, "default")
    return found


def unknown_variables(arguments: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """A sentence about each environment variable that begins as ours do and that nobody reads.

    It is not refused: others may set it, as Kubernetes does for a service that is called linoto.
    """
    known = [*(action.dest for action in settings_of(arguments.command)), *NO_SETTINGS]
    variables = {variable_of(name) for name in known}
    found = sorted(name for name in environment if name.startswith(PREFIX) and name not in variables)
    return [f"{name} is not a setting, and is ignored{meant(name, known)}" for name in found]


def meant(variable: str, known: Iterable[str]) -> str:
    """The variable that was probably meant, as the end of a sentence; what all begin with is not compared."""
    close = closest(variable.removeprefix(PREFIX).lower(), known)
    return "" if close is None else f": did you mean {variable_of(close)}?"


def read_file(path: Path, actions: Mapping[str, argparse.Action]) -> dict[str, Any]:
    """The settings in a file; refuses a name that none has."""
    try:
        data = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a TOML file, got something else: {error}") from None
    found = {name.replace("-", "_"): value for name, value in data.items()}
    for name in found:
        if name not in actions:
            raise ValueError(f"{path}: there is no setting {name!r}{nearest(name, list(actions))}")
    return found


def read_value(action: argparse.Action, value: Any, where: str) -> Any:
    """A value as the option itself would read it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    refusal = ValueError(
        f"{where} must be what {action.option_strings[-1]} takes, got {value!r}: {action.help}"
    )
    if action.nargs == 0:
        if text.lower() not in WORDS:
            raise ValueError(f"{where} must be true or false, got {value!r}")
        return WORDS[text.lower()]
    if isinstance(value, bool | list | dict):
        raise refusal
    try:
        read = action.type(text) if callable(action.type) else text
    except Unshown as error:
        raise ValueError(f"{where} {error}") from None
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        raise refusal from None
    if action.choices is not None and read not in action.choices:
        raise ValueError(f"{where} must be one of {', '.join(map(str, action.choices))}, got {value!r}")
    return read


def shown(settings: Mapping[str, Setting]) -> Iterator[str]:
    """The settings as a file that sets the same, each with where it is from; what is not set as a comment."""
    for name, setting in settings.items():
        value = setting.value
        if value is None:
            yield f"# {name} is not set"
            continue
        written = value if isinstance(value, bool | int | float) else str(value)
        yield f"{name} = {json.dumps(written)}  # {setting.source}"


def read_secret(path: Path, what: str) -> str:
    """A secret from its file, without the end of its line."""
    secret = path.read_text().strip()
    if not secret:
        raise ValueError(f"{what} must hold a secret, got an empty file: {path}")
    return secret
