"""How commands are declared: help with examples, and one sentence for what is wrong."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from linoto.cli.terminal import positive
from linoto.core.hints import nearest

if TYPE_CHECKING:
    from linoto.engines import Engine

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$", re.IGNORECASE)
FEW_OPTIONS = 12  # more than these are not named in the first line of a help page
ELSEWHERE = {
    "categories": "category",
    "columns": "column",
    "crosses": "cross",
    "ids": "row",
}  # by other names
CALLED = {  # commands, by what others call them
    "deploy": "launch",
    "replay": "evaluate",
    "run": "launch",
    "server": "serve",
    "simulate": "preview",
    "start": "serve",
}


class Words(Collection[str]):
    """The choices of an option, looked up where they are needed: who has them imports NumPy."""

    def __init__(self, find: Callable[[], Collection[str]]) -> None:
        self.find = find

    def __contains__(self, word: object) -> bool:
        return word in self.find()

    def __iter__(self) -> Iterator[str]:
        return iter(self.find())

    def __len__(self) -> int:
        return len(self.find())


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and what was probably meant."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = NEGATIVE  # argparse's own takes -1e-3 for an option

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what the command itself does not know, before it asks for what is missing."""
        if args and not any(isinstance(action, argparse._SubParsersAction) for action in self._actions):
            self.refuse_unknown(args)
        found, others = super().parse_known_args(args, namespace)
        if others:
            self.error(f"unrecognized arguments: {' '.join(others)}{self.each_again(args or (), others)}")
        return found, others

    def each_again(self, args: Sequence[str], others: Sequence[str]) -> str:
        """Where words follow the first value of an option that may be repeated, how to say them all."""
        before = list(takewhile(lambda word: word != others[0], args))
        option = next((word.partition("=")[0] for word in reversed(before) if word.startswith("-")), "")
        for action in self._actions:
            repeated = isinstance(action, argparse._AppendAction) and action.nargs is None
            if repeated and option in action.option_strings and not others[0].startswith("-"):
                return f": {option} takes one, so say {option} {others[0]} as well"
        return ""

    def refuse_unknown(self, args: Sequence[str]) -> None:
        """Refuse options that the command does not have: a misspelt --help is no reason to ask for --arms."""
        options = list(takewhile(lambda word: word != "--", args))
        known = self.words()
        for word in (word for word in options if word.startswith("-") and not NEGATIVE.match(word)):
            if word.partition("=")[0] not in known and Path(word).is_file():
                self.error(f"a file must not begin with a dash, as options do, got {word}: say ./{word}")
        for option in (word.partition("=")[0] for word in options if word.startswith("--")):
            if option not in known:
                self.error(f"unrecognized arguments: {option}")

    def error(self, message: str) -> NoReturn:
        """Exit 2."""
        wrong = re.search(r"(?:invalid choice: '|unrecognized arguments: )([^' ]*)", message)
        option = re.match(r"argument (-\S+): invalid choice", message)
        known = self.choices_of(option[1]) if option else self.words()
        if wrong and option:
            message = f"{option[1]} must be one of {', '.join(known)}, got {wrong[1]!r}"
        elif wrong and "choice" in message:
            message, known = f"there is no command {wrong[1]!r}", [*self.commands()]
        meant = self.what_was_meant(wrong[1], known) if wrong else ""
        self.exit(2, f"{self.prog}: {message}{meant} (see {self.prog} --help)\n")

    def what_was_meant(self, word: str, known: Collection[str]) -> str:
        """What a word that is not known was to be, as the end of a sentence."""
        option = word.partition("=")[0]
        if option.startswith("-") and option in known:  # after -- every word is a name
            return f": {option} must stand before --"
        other = CALLED.get(word)
        return self.longer(word) or (f": did you mean {other!r}?" if other in known else nearest(word, known))

    def in_options(self, message: str) -> str:
        """A sentence about arguments of Python, with the options that were typed in their place."""
        known = {
            action.dest: action.option_strings[-1]
            for action in self._actions
            if action.option_strings and action.help != argparse.SUPPRESS
        }
        others = {name: known[option] for name, option in ELSEWHERE.items() if option in known}
        message = message.replace(" (max_features)", "").replace(" (folds)", "")  # that is for Python alone
        ways = ", ".join(known[name] for name in ("skip_bad", "where") if name in known)
        message = message.replace("(skip_bad, where)", f"({ways})" if ways else "")
        for name, option in {**known, **others, "offline": "the log"}.items():
            message = re.sub(rf"\b{name}='(\w+)'", rf"{option} \1", message)
            message = re.sub(rf"\b{name}=(?:True|False)", option, message)
            # not "guardrail 'x': bound must", which is another than that of the reward
            message = re.sub(rf"(^|(?<!'): )({name})(?= must)", rf"\1{option}", message)
            # not "age=(missing)", which is a level
            message = re.sub(rf"(?<!=)\({name}\)", f"({option})", message)
            if "_" in name:
                message = re.sub(rf"\b{name}\b", option, message)
        return message

    def as_typed(
        self, arguments: argparse.Namespace, *, only: Collection[str] | None = None, but: Collection[str] = ()
    ) -> list[str]:
        """Options of this command as they would be typed again, without those at their defaults."""
        words: list[str] = []
        for action in self._actions:
            value = getattr(arguments, action.dest, action.default)
            wanted = action.dest not in but and (only is None or action.dest in only)
            if wanted and action.option_strings and action.help != argparse.SUPPRESS:
                words += [] if value == action.default else option_again(action, value)
        return words

    def words(self) -> list[str]:
        """Every command and option that could have been meant."""
        words: list[str] = []
        for action in self._actions:
            words += action.option_strings
        for name, command in self.commands().items():
            words += [name, *command.words()]
        return words

    def longer(self, action: str) -> str:
        """Where only the command above an action is missing, what to type, as the end of a sentence."""
        above = [
            f": did you mean `{command.prog} {action}`?"
            for command in self.commands().values()
            if action in command.commands()
        ]
        return above[0] if above else ""

    def commands(self) -> dict[str, Parser]:
        """The commands, or the actions of a command, by name."""
        below = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return {name: command for action in below for name, command in action.choices.items()}

    def choices_of(self, option: str) -> list[str]:
        """The words an option takes."""
        return [
            str(choice)
            for action in self._actions
            if option in action.option_strings
            for choice in action.choices or ()
        ]


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults where they say something, examples as they are written, and no list of forty options."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        plain = action.default is None or action.default is False or action.default == []
        return action.help if plain else super()._get_help_string(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs as wide as the terminal; those with lines that begin with a space as they are."""
        parts = text.split("\n\n")
        return "\n\n".join(
            part if "\n " in f"\n{part}" else fill(" ".join(part.split()), width, break_on_hyphens=False)
            for part in parts
        )

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any) -> str:
        """What must be given; of many options only that there are some."""
        if usage is None and len(actions) > FEW_OPTIONS:
            words = [" ".join([self._prog, "[options]"])]
            words += [self._format_args(one, one.dest) for one in actions if not one.option_strings]
            usage = " ".join(words).replace("%", "%%")
        return super()._format_usage(usage, actions, groups, prefix)


def add_command(commands: Commands, name: str, *, help: str, description: str, examples: str) -> Parser:
    """A command with its help; what follows the options are examples."""
    made = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=Help,
        allow_abbrev=False,
    )
    made.set_defaults(command=made)
    return made


def described(commands: Commands, name: str, text: str, examples: str = "") -> Parser:
    """A command whose one line of help says everything."""
    description = text[0].upper() + text[1:] + "."
    return add_command(commands, name, help=text, description=description, examples=examples)


def add_json(command: Parser) -> None:
    """For programs."""
    command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def add_engine(command: Parser, *, jobs: str, runs: bool = True) -> None:
    """Where work is done: here, or on a cluster. `runs` hold the interpreter's lock at times."""
    command.add_argument("--jobs", type=positive, help=f"{jobs} (default: one per core)")
    usual = "threads up to 3 at a time, processes above" if runs else "threads"
    command.add_argument(
        "--engine",
        choices=("threads", "processes", "dask"),
        default=None if runs else "threads",
        help=f"where work is done (default: {usual})" if runs else "where work is done",
    )
    command.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: one of its own)")


def engine_of(arguments: argparse.Namespace) -> Engine:
    """The engine that was asked for."""
    from linoto.engines import Engine

    return Engine.for_runs(arguments.engine, jobs=arguments.jobs, scheduler=arguments.scheduler)


def option_again(action: argparse.Action, value: Any) -> list[str]:
    """One option as it would be typed again."""
    if isinstance(value, bool):
        return [action.option_strings[0 if value else -1]]
    words: list[str] = []
    for one in value if isinstance(action, argparse._AppendAction) else [value]:
        parts = [shown(part) for part in one] if isinstance(one, list) else [shown(one)]
        words += spelled(action.option_strings[0], parts if action.nargs else [",".join(parts)])
    return words


def spelled(option: str, values: Sequence[str]) -> list[str]:
    """An option with its values as words: in one where the only value would be read as an option."""
    if len(values) == 1 and values[0].startswith("-") and not NEGATIVE.match(values[0]):
        return [f"{option}={values[0]}"]
    return [option, *values]


def shown(value: Any) -> str:
    """A number in the digits that it needs, a word as it is."""
    from linoto.core.validation import exact

    return exact(value) if isinstance(value, float) else str(value)
