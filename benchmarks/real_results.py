"""From runs on real tables to tables of results: rewards, paired differences, loss below practice, time."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, median, stdev
from typing import Any

from peer_table import spell

Cell = dict[str, Any]  # one run
REFERENCE = "linoto: Gated"  # as it comes: differences are against it, seed by seed
ALLOWED = 50  # rewards below practice, above which a run is counted
# Student's 0.975 quantiles by degrees of freedom; in between, the next smaller one is the wider interval.
QUANTILES = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09, 29: 2.05}


def half_width(values: Sequence[float]) -> float | None:
    """Of a 95 % interval of the mean; None for a single run."""
    free = len(values) - 1
    if free < 1:
        return None
    known = max(number for number in QUANTILES if number <= free)
    return QUANTILES[known] * stdev(values) / sqrt(len(values))


def by_seed(cells: Sequence[Cell]) -> dict[int, Cell]:
    """The finished runs of one contestant on one problem."""
    return {cell["seed"]: cell for cell in cells if not cell.get("reason")}


def summary_of(cells: Sequence[Cell], reference: dict[int, Cell]) -> dict[str, Any]:
    """One contestant with one setting on one problem."""
    runs = by_seed(cells)
    if not runs:
        return {"runs": 0, "reason": next((cell["reason"] for cell in cells if cell.get("reason")), "")}
    earned = [cell["earned"] for cell in runs.values()]
    paired = [cell["earned"] - reference[seed]["earned"] for seed, cell in runs.items() if seed in reference]
    below = [cell["below"] for cell in runs.values()]
    return {
        "runs": len(runs),
        "version": next(iter(runs.values()))["version"],
        "earned": mean(earned),
        "interval": half_width(earned),
        "against Gated()": mean(paired) if paired else None,
        "interval of it": half_width(paired) if paired else None,
        "practice earned": mean(cell["practice earned"] for cell in runs.values()),
        "median below practice": median(below),
        "worst below practice": max(below),
        f"runs over {ALLOWED} below": sum(value > ALLOWED for value in below),
        "seconds": median(cell["seconds"] for cell in runs.values()),
        "failed": len(cells) - len(runs),
    }


Key = tuple[str, str, str, str]  # table, practice, contestant, words of its settings


def grouped(cells: Sequence[Cell]) -> dict[Key, list[Cell]]:
    """Runs of the same contestant on the same problem, in the order in which tables name them."""
    groups: dict[Key, list[Cell]] = {}
    for cell in cells:
        key = cell["table"], cell["practice"], cell["name"], cell["words"]
        groups.setdefault(key, []).append(cell)
    return groups


def summaries(cells: Sequence[Cell]) -> dict[Key, dict[str, Any]]:
    """Every contestant with every setting on every problem."""
    groups = grouped(cells)
    references = {key[:2]: by_seed(runs) for key, runs in groups.items() if key[2:] == (REFERENCE, "")}
    return {key: summary_of(runs, references.get(key[:2], {})) for key, runs in groups.items()}


# -- text ----------------------------------------------------------------------------------------------------


def three(value: float) -> str:
    """Three digits after the point, and no zero before it."""
    return f"{value:.3f}".replace("0.", ".", 1)


def with_interval(found: dict[str, Any]) -> str:
    """A reward per round and its interval, in thousandths; few runs are said."""
    if not found["runs"]:
        return found["reason"] or "not played"
    width = found["interval"]
    return three(found["earned"]) + (f" ± {three(width)}" if width is not None else "")


def difference(found: dict[str, Any]) -> str:
    """What a contestant earns more than Gated() in the same runs."""
    if not found["runs"] or found["against Gated()"] is None:
        return ""
    width = found["interval of it"]
    value = f"{found['against Gated()']:+.3f}"
    return value + (f" ± {three(width)}" if width is not None else "")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def best_words(found: dict[Key, dict[str, Any]], problem: tuple[str, str], name: str) -> str:
    """The setting of a contestant that earned most on a problem, with hindsight."""
    settings = {
        key[3]: value["earned"]
        for key, value in found.items()
        if key[:2] == problem and key[2] == name and value["runs"]
    }
    return max(settings, key=lambda words: settings[words], default="")


def matrix(
    found: dict[Key, dict[str, Any]],
    problems: Sequence[tuple[str, str]],
    names: Sequence[str],
    *,
    best: bool,
    paired: bool,
) -> str:
    """A row for each contestant, a column for each problem."""
    rows = []
    for name in names:
        cells, runs = [], set()
        for problem in problems:
            words = best_words(found, problem, name) if best else ""
            one = found.get((*problem, name, words))
            runs.add(one["runs"] if one else 0)
            cells.append("" if one is None else difference(one) if paired else with_interval(one))
        rows.append([f"{name} ({max(runs)} run{'s' * (max(runs) != 1)})", *cells])
    single = len({practice for _, practice in problems}) == 1
    return markdown(["", *(table if single else f"{table} {practice}" for table, practice in problems)], rows)


def promises(found: dict[Key, dict[str, Any]], names: Sequence[str]) -> str:
    """How far each fell below practice as it comes, over all problems; and how long a decision takes."""
    rows = []
    for name in names:
        own = [value for key, value in found.items() if key[2:] == (name, "") and value["runs"]]
        if own:
            over, runs = (sum(one[word] for one in own) for word in (f"runs over {ALLOWED} below", "runs"))
            worst = max(one["worst below practice"] for one in own)
            middle = median(one["median below practice"] for one in own)
            time = spell(median(one["seconds"] for one in own))
            rows.append([name, f"{over} of {runs}", f"{middle:.0f}", f"{worst:.0f}", time])
    head = ["as it comes", f"runs over {ALLOWED} below practice", "median", "worst", "time of a decision"]
    return markdown(head, rows)


def best_settings(found: dict[Key, dict[str, Any]], names: Sequence[str]) -> str:
    """Which setting was the best one where."""
    problems = list(dict.fromkeys(key[:2] for key in found))
    lines = []
    for name in names:
        chosen = [best_words(found, problem, name) or "as it comes" for problem in problems]
        if len({key[3] for key in found if key[2] == name}) > 1:
            counts = {words: chosen.count(words) for words in dict.fromkeys(chosen)}
            lines.append(f"* {name}: " + ", ".join(f"{words} ({n})" for words, n in counts.items()))
    return "\n".join(lines)


def report(cells: Sequence[Cell]) -> tuple[dict[str, Any], str]:
    """Everything as JSON, and the tables."""
    ordered = sorted(cells, key=lambda cell: (cell["table"], cell["practice"], cell["seed"]))
    found = summaries(ordered)
    problems = list(dict.fromkeys(key[:2] for key in found))
    names = list(dict.fromkeys(key[2] for key in found))
    names.sort(key=lambda name: (not name.startswith("linoto"), not name.startswith("numpy")))
    practice = {key[:2]: value["practice earned"] for key, value in found.items() if value["runs"]}
    earned = ", ".join(f"{' '.join(problem)} {three(value)}" for problem, value in practice.items())
    parts = [
        f"Practice earned: {earned}.",
        "Reward per round, as it comes (± 95 % interval):",
        matrix(found, problems, names, best=False, paired=False),
        "With the best of the stated settings, chosen with hindsight for each table:",
        matrix(found, problems, names, best=True, paired=False),
        "As it comes, against Gated() in the same runs:",
        matrix(found, problems, names, best=False, paired=True),
        promises(found, names),
        "Which setting was best, on how many problems:",
        best_settings(found, names),
    ]
    listed = [
        dict(zip(("table", "practice", "name", "settings"), key, strict=True)) | value
        for key, value in found.items()
    ]
    return {"contestants": listed}, "\n\n".join(parts) + "\n"
