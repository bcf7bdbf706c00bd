"""What came out of an experiment: curves with standard errors, final tables, tidy rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.codec import finite
from linoto.core.notebook import html_table
from linoto.experiments.cells import CellStore, Curves
from linoto.experiments.settings import Experiment, Setting

FIELDS = ("regret", "offline_regret", "explored")


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One policy's line: its mean over runs and one standard error around it, NaN for a single run."""

    label: str
    rounds: Ints  # (p,)
    mean: Floats  # (p,)
    error: Floats  # (p,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """What came out. Curves stay on disk and are read one at a time, so memory does not grow with them."""

    experiment: Experiment
    runs: int
    seed: int
    store: CellStore
    stand_ins: Mapping[str, str] = dataclasses.field(default_factory=dict)  # whose runs a label shows

    def cells(self, setting: str, label: str) -> Iterator[Curves]:
        """Each run's curves, in order."""
        played = self.stand_ins.get(label, label)
        return (self.store.read(setting, played, run) for run in range(self.runs))

    def final(self, setting: str, label: str, field: str) -> Floats:
        """(runs,) the last value of regret, offline_regret or explored."""
        return np.array([float(getattr(cell, field)[-1]) for cell in self.cells(setting, label)])

    def at(self, setting: str, label: str, field: str, round: int) -> Floats:
        """(runs,) the value at a round, between two kept rounds on the line that joins them."""
        rounds = self.experiment.setting(setting).rounds
        cells = self.cells(setting, label)
        return np.array([float(np.interp(round, rounds, getattr(cell, field))) for cell in cells])

    def worst(self, setting: str, label: str) -> Floats:
        """(runs,) the largest shortfall below the log (R_t^off) over all rounds, from 0."""
        return np.array([cell.worst for cell in self.cells(setting, label)])

    def promise_violation(self, setting: str, label: str) -> Floats:
        """(runs,) the largest shortfall less what was promised: above 0 a violation, NaN: no promise."""
        return np.array([cell.promise_violation for cell in self.cells(setting, label)])

    def metric(self, setting: str, label: str, name: str) -> Floats:
        """(runs,) how much more of a metric there was in all than with the log's arms, or practice."""
        place = self.experiment.setting(setting).metrics.index(name)
        return np.array([cell.metrics[place, -1] for cell in self.cells(setting, label)])

    def curve(self, setting: str, label: str, field: str) -> Curve:
        """Mean and standard error over runs."""
        rounds = self.experiment.setting(setting).rounds
        mean, error = mean_and_error(getattr(cell, field) for cell in self.cells(setting, label))
        return Curve(label=label, rounds=rounds, mean=mean, error=error)

    def table(self) -> list[dict[str, Any]]:
        """Final values with standard errors, one row for each setting and policy."""
        return [self._row(setting, label) for setting in self.experiment.settings for label in setting.labels]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Everything kept, tidy: one row for each setting, policy, run and round."""
        for columns in self.columns():
            values = [column.tolist() for column in columns.values()]
            yield from (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))

    def columns(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """The same as columns, for one run of a policy in a setting at a time."""
        for setting in self.experiment.settings:
            rounds = setting.rounds
            for label in setting.labels:
                for run, cell in enumerate(self.cells(setting.name, label)):
                    names = {"setting": setting.name, "policy": label, "run": run}
                    constant = {name: np.full(rounds.size, value) for name, value in names.items()}
                    curves = (cell.regret, cell.offline_regret, cell.explored.astype(np.int64))
                    yield {**constant, "round": rounds, **dict(zip(FIELDS, curves, strict=True))}

    def final_rows(self) -> list[list[str]]:
        """The table for people: setting and policy, regret, shortfall, largest shortfall, explored."""
        names = ("regret", "offline_regret", "worst_offline_regret", "explored")
        return [
            [row["setting"], row["policy"], *(final_value(row, name) for name in names)]
            for row in self.table()
        ]

    def _repr_html_(self) -> str:
        below = " or ".join(dict.fromkeys(setting.compares_with for setting in self.experiment.settings))
        shortfall = (f"shortfall below {below}", f"largest shortfall below {below}")
        columns = ("setting", "policy", "regret", *shortfall, "explored")
        name = self.experiment.title or self.experiment.name
        caption = f"{name}: {self.runs} runs, mean ± standard error"
        return html_table(self.final_rows(), columns=columns, caption=caption)

    def _row(self, setting: Setting, label: str) -> dict[str, Any]:
        row: dict[str, Any] = {"setting": setting.name, "policy": label, "horizon": setting.horizon}
        columns = {
            "regret": self.final(setting.name, label, "regret"),
            "offline_regret": self.final(setting.name, label, "offline_regret"),
            "worst_offline_regret": self.worst(setting.name, label),
            "explored": self.final(setting.name, label, "explored") / setting.horizon,
            **{f"more {name}": self.metric(setting.name, label, name) for name in setting.metrics},
        }
        for name, values in columns.items():
            mean, error = mean_and_error(values)
            row |= {name: finite(mean), f"{name}_se": finite(error)}
        return {**row, "runs": self.runs}


def final_value(row: dict[str, Any], name: str) -> str:
    """Mean ± standard error of a column of the table; the share of explored rounds in percent."""
    mean, error = row[name], row[f"{name}_se"]
    if mean is None:
        return "–"
    if name == "explored":
        return f"{mean:.1%}"
    return f"{mean:.0f}" + ("" if error is None else f" ± {error:.0f}")


def mean_and_error(values: Iterable[Any]) -> tuple[Any, Any]:
    """Mean and standard error over the first axis, in one pass; the error is NaN for a single value.

    Sums are taken of differences from the first value, so that nothing cancels.
    """
    rows = iter(values)
    first = next(rows)
    n, total, squares = 1, np.zeros(np.shape(first)), np.zeros(np.shape(first))
    for value in rows:
        away = value - first
        n, total, squares = n + 1, total + away, squares + away**2
    if n == 1:
        return first, np.full(np.shape(first), np.nan)[()]
    spread = np.maximum(squares - total**2 / n, 0.0)
    return first + total / n, np.sqrt(spread / (n - 1) / n)
