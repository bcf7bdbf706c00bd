"""From turns to tables: medians, ratios against the reference in the same turn, reasons for empty cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any, NamedTuple

Outcomes = Mapping[str, Mapping[str, Any]]  # contestant: {"turns": [...], "reason": "..."}


class Column(NamedTuple):
    """One measured workload."""

    title: str
    outcomes: Outcomes


def seconds_of(outcome: Mapping[str, Any]) -> float | None:
    """The median seconds of one unit, or None where the contestant did not finish."""
    if outcome["reason"] or not outcome["turns"]:
        return None
    return median(turn["seconds"] for turn in outcome["turns"])


def ratio_of(outcome: Mapping[str, Any], reference: Mapping[str, Any]) -> float | None:
    """The median, over turns, of the time against that of the reference in the same turn.

    A contestant with long turns has fewer of them.
    """
    if seconds_of(outcome) is None or seconds_of(reference) is None:
        return None
    pairs = zip(outcome["turns"], reference["turns"], strict=False)
    return median(own["seconds"] / other["seconds"] for own, other in pairs)


def spell(seconds: float) -> str:
    """A time with a unit and two or three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            number = seconds / size
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    raise AssertionError


def spell_ratio(ratio: float) -> str:
    """Two significant digits, without exponents."""
    return f"{ratio:.2g}" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f}"


def cell(outcome: Mapping[str, Any] | None, reference: Mapping[str, Any]) -> str:
    """Ratio and time, or why there is neither."""
    if outcome is None:
        return ""
    seconds, ratio = seconds_of(outcome), ratio_of(outcome, reference)
    if seconds is None:
        return str(outcome["reason"]) or "not measured"
    if ratio is None:
        return spell(seconds)
    about = "≈ " if outcome["turns"][0].get("computed") else ""  # from fewer rows
    return f"{about}{spell_ratio(ratio)} ({spell(seconds)})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown: words to the left, numbers to the right."""
    marks = ["---", *("---:" for _ in head[1:-1]), "---"]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *rows))


def speed_table(columns: Sequence[Column], reference: str, solves: Mapping[str, str]) -> str:
    """Every contestant beside the reference, in every workload."""
    head = ["", *(column.title for column in columns), "solves something else"]
    rows = [
        [
            name,
            *(cell(column.outcomes.get(name), column.outcomes[reference]) for column in columns),
            words,
        ]
        for name, words in solves.items()
    ]
    return table(head, rows)


def regret_of(outcome: Mapping[str, Any]) -> str:
    """The mean regret of the runs, with its standard error."""
    if seconds_of(outcome) is None:
        return str(outcome["reason"]) or "not measured"
    found = [turn["regret"] for turn in outcome["turns"]]
    error = stdev(found) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return f"{mean(found):.0f} ± {error:.0f}"


def regret_table(outcomes: Outcomes, reference: str, solves: Mapping[str, str]) -> str:
    """Regret and time of one decision with its update."""
    head = ["with contexts", "regret", "time ÷ reference (time)", "solves something else"]
    rows = [
        [name, regret_of(outcomes[name]), cell(outcomes[name], outcomes[reference]), words]
        for name, words in solves.items()
        if name in outcomes
    ]
    return table(head, rows)


def slower_cells(columns: Sequence[Column], ours: str) -> Iterator[str]:
    """Every cell in which a peer is faster than one of our policies, in words."""
    for column in columns:
        times = {name: seconds_of(outcome) for name, outcome in column.outcomes.items()}
        for name, seconds in times.items():
            for peer, other in times.items():
                if not name.startswith(f"{ours}: ") or peer.startswith((f"{ours}: ", "numpy: ")):
                    continue
                if seconds is not None and other is not None and other < seconds:
                    yield f"{column.title}: {peer} is {seconds / other:.1f} × as fast as {name}"
