"""What goes in and out of a terminal: argument types, progress, tables, and where things were written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    from linoto.engines import Track

Value = TypeVar("Value")
NO_BREAK_SPACE = "\u00a0"
UNPRINTED = {code: f"\\x{code:02x}" for code in (*range(10), *range(11, 32), *range(127, 160))}
EVERY = 30.0  # seconds between two lines of progress where nobody is looking
KEPT_SPACE = "\ue000"  # of no meaning: rich would break a line at a no-break space


# -- argument types ---------------------------------------------------------------------------------------


def whole(text: str) -> int:
    """A whole number, written with digits only."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    return [float(part) for part in text.split(",")]


class Unshown(argparse.ArgumentTypeError):
    """What is wrong with a value that may be secret, without the value."""


def argument_type(
    what: str, convert: Callable[[str], Value], fits: Callable[[Value], bool]
) -> Callable[[str], Value]:
    """A type for argparse: the value of a text, or a sentence about what it must be."""

    def value_of(text: str) -> Value:
        with suppress(ValueError):
            value = convert(text)
            if fits(value):
                return value
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}")

    return value_of


def above_zero_or(word: str) -> Callable[[str], float | str]:
    """A number > 0 or one word, for argparse."""

    def convert(text: str) -> float | str:
        return text if text == word else float(text)

    return argument_type(
        f"a number > 0 or the word {word}",
        convert,
        lambda value: value == word if isinstance(value, str) else 0 < value < inf,
    )


positive = argument_type("a whole number >= 1", whole, lambda value: value >= 1)
whole_or_zero = seed = argument_type("a whole number >= 0", whole, lambda value: value >= 0)
number = argument_type("a number", float, isfinite)
above_zero = argument_type("a number > 0", float, lambda value: 0 < value < inf)
at_least_zero = argument_type("a number >= 0", float, lambda value: 0 <= value < inf)
file_to_write = argument_type("a file, not a folder", Path, lambda path: not path.is_dir())
grid = argument_type(
    "numbers >= 0 with commas between them", numbers, lambda values: all(0 <= value < inf for value in values)
)


# -- printing ---------------------------------------------------------------------------------------------


def console() -> Console:
    """Plain words: no colours, and brackets are brackets. 80 columns where nobody says otherwise."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, no_color=True)


@contextmanager
def progress(what: str) -> Iterator[Track]:
    """A bar with the time left on stderr, where somebody is looking; else a line now and then."""
    if not sys.stderr.isatty():
        yield now_and_then(what)
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def now_and_then(what: str, clock: Callable[[], float] = monotonic) -> Track:
    """A line on stderr every half a minute: what is done sooner says nothing."""
    last = clock()

    def track(done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= EVERY and done < total:
            last = clock()
            print(f"{what}: {done / total:.0%} done", file=sys.stderr, flush=True)

    return track


def print_written(paths: Sequence[Path]) -> None:
    """Where everything is, one line for files that differ only in what follows the first dot."""
    endings: dict[Path, list[str]] = {}
    for path in paths:
        stem, dot, ending = path.name.partition(".")
        endings.setdefault(path.with_name(stem), []).append(dot + ending)
    for place, found in endings.items():
        print(f"wrote {place}{found[0]}" if len(found) == 1 else f"wrote {place} {' '.join(found)}")


def result_row(row: dict[str, Any]) -> dict[str, str]:
    """A row of an experiment's table, for people."""
    from linoto.experiments.results import final_value

    names = {"regret": "regret", "offline_regret": "shortfall below the log", "explored": "explored"}
    return {"policy": row["policy"], **{title: final_value(row, name) for name, title in names.items()}}


def print_table(rows: Sequence[dict[str, str]]) -> None:
    """Rows of equal keys, the first column left, the others right; row by row where it is too narrow."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for place, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(printed, row.values()))
    screen = console()
    if screen.measure(table, options=screen.options.update(max_width=10_000)).maximum <= screen.width:
        print_lines(table)
        return
    for row in rows:
        print_lines("\n".join(f"{name}: {printed(value)}" for name, value in row.items()) + "\n")


def printed(text: str) -> str:
    """A text with its control characters as Python writes them: names of a log must not move a terminal."""
    return text.translate(UNPRINTED)


def print_facts(rows: Sequence[tuple[str, str]]) -> None:
    """Names and texts side by side; long texts go on below themselves."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(printed(name), printed(text).replace(NO_BREAK_SPACE, KEPT_SPACE))
    print_lines(table)


def print_lines(content: Any) -> None:
    """A text or a table, without the spaces that fill its lines up to their ends."""
    screen = console()
    with screen.capture() as text:
        screen.print(content)
    for line in text.get().splitlines():
        print(line.rstrip().replace(KEPT_SPACE, NO_BREAK_SPACE))
