"""One-hot arms: their diagonals tell an audit what all their zeros tell it; thousands of them are audited."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from linoto import Offline, audit_log, read_log
from linoto.audit.audit import Audit, look_at
from linoto.audit.bound import propose_bound, shortest_parameter
from linoto.audit.coverage import find_coverage
from linoto.audit.directions import OneHotDirections, SharedDirections, directions_of
from linoto.audit.fit import lack_of_fit
from linoto.core.one_hot import is_compact, one_hot, recognising
from linoto.core.verdicts import judged
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log
from linoto.logs.saved import load, read_saved

REWARDS = ("clicks", "real", "constant", "grades")
SIZES = (1, 2, 3, 7, 40)


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The arms and rewards of some rows, and how many arms there are: some never logged, many once."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.choice(SIZES)), int(rng.choice([3, 30, 400]))
    seen = rng.permutation(k)[: max(1, int(k * rng.choice([0.3, 0.8, 1.0])))]
    arms, means = rng.choice(seen, n, p=rng.dirichlet(np.ones(seen.size))), rng.uniform(-0.5, 0.5, k)
    rewards = {
        "clicks": (rng.random(n) < 0.4 + means[arms] / 2).astype(float),
        "real": means[arms] + rng.normal(0, 0.3, n),
        "constant": np.full(n, 0.7),
        "grades": rng.integers(0, 3, n) / 2,
    }
    return arms, rewards[REWARDS[seed % len(REWARDS)]], k


def scaled_and_permuted(rng: np.random.Generator, k: int) -> np.ndarray:
    """Arms that are multiples of unit vectors, of more features than arms."""
    actions = np.zeros((k, k + 2))
    actions[np.arange(k), rng.permutation(k + 2)[:k]] = rng.uniform(-2, 2, k)
    return actions


def log_of(arms: np.ndarray, rewards: np.ndarray, table: ArmTable) -> Log:
    rows = pd.DataFrame({"arm": [table.names[arm] for arm in arms], "reward": rewards})
    return read_log(rows, arms=table, item="arm", reward="reward")


@pytest.mark.parametrize("form", ["identity", "permuted", "scaled"])
def test_diagonals_tell_what_all_zeros_tell(form: str) -> None:
    for seed in range(30):
        arms, rewards, k = drawn(seed)
        rng, log = np.random.default_rng(seed), Offline.from_rows(arms, rewards, k=k)
        order = rng.permutation(k) if form == "permuted" else np.arange(k)
        actions = scaled_and_permuted(rng, k) if form == "scaled" else np.eye(k)[order]
        assert isinstance(directions_of(actions), OneHotDirections)
        exact, close = told(actions, log)
        with recognising(False):
            assert isinstance(directions_of(actions), SharedDirections)
            exactly, closely = told(actions, log)
        assert exact == exactly
        for name, values in close.items():
            assert values == pytest.approx(closely[name], rel=1e-9, abs=1e-9), name


def told(actions: np.ndarray, log: Offline) -> tuple[list[Any], dict[str, Any]]:
    """What an audit finds by the features of arms: what must be the same, and what up to rounding."""
    found, line = find_coverage(actions, log, ridge=1.5, rounds=300), directions_of(actions).regress(log)
    unknown = found.directions if found.unknown.size <= 8 else found.directions[:0]  # of equal size: no order
    exact = [line.rank, found.rank, found.weak, found.effective, lack_of_fit(actions, log), sorted(unknown)]
    exact += [arms.tolist() for arms in (found.unseen, found.unknown, found.untested)]
    return exact, {
        "eigenvalues": found.eigenvalues,
        "theta": line.theta,
        "widths": np.sort(line.widths),
        "length": np.linalg.norm(line.by_axes[0]),
        "bound": propose_bound(actions, log, noise=0.3),
        "shortest": [shortest_parameter(actions, log, noise=noise, delta=0.01) for noise in (0.3, 0.01)],
    }


OPTIONS: list[dict[str, Any]] = [{}, {"budget": 5.0}, {"noise": 0.2}, {"noise": 0.2, "bound": 0.1}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_audit_says_the_same_by_diagonals_and_by_all_zeros(options: dict[str, Any]) -> None:
    """The verdict, every sentence and every number."""
    for seed in range(12):
        arms, rewards, k = drawn(seed)
        own = audit_log(log_of(arms, rewards, ArmTable.one_hot([f"arm {a}" for a in range(k)])), **options)
        with recognising(False):
            asked = {"adaptive": own.adaptive, "horizon": own.horizon}
            shared = replace(own, **look_at(own.means, own.confidence, **asked))
        shared = replace(shared, coverage=replace(shared.coverage, directions=own.coverage.directions))
        assert shared.facts() == own.facts() and judged(shared.judged_by()) == verdicts_of(own)
        one, other = flat(shared.to_dict()), flat(own.to_dict())
        assert one.keys() == other.keys()
        assert all(same(value, other[path]) for path, value in one.items())


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, numbers up to rounding."""
    close = isinstance(one, float) and isinstance(other, int | float)
    return bool(one == pytest.approx(other, rel=1e-9, abs=1e-9) if close else one == other)


def verdicts_of(audit: Audit) -> dict[str, Any]:
    names = ("verdict", "reasons", "verdict_of_log", "reasons_of_log")
    return {name: getattr(audit, name) for name in names}


def flat(data: Any, at: str = "") -> dict[str, Any]:
    """Nested data as one dictionary, by the path to each value."""
    if isinstance(data, dict | list | tuple):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        return {path: leaf for key, value in pairs for path, leaf in flat(value, f"{at}/{key}").items()}
    return {at: data}


def test_thousands_of_arms_take_no_array_of_k_by_k() -> None:
    """20,000 arms: their identity alone would be 3.2 GB."""
    rng, k = np.random.default_rng(0), 20_000
    arms, table = rng.integers(0, k, 2 * k), ArmTable.one_hot([f"arm {place}" for place in range(k)])
    tracemalloc.start()
    audit = audit_log(log_of(arms, (rng.random(2 * k) < 0.4).astype(float), table))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 200e6
    assert audit.coverage.rank == np.unique(arms).size and audit.coverage.eigenvalues.size == k
    assert isinstance(directions_of(one_hot(k)), OneHotDirections)


def test_a_saved_log_holds_no_zeros_of_one_hot_arms(tmp_path: Path) -> None:
    """3,000 arms took 72 MB. What holds them in full, as older versions wrote it, is read as before."""
    rng, k = np.random.default_rng(0), 3000
    table = ArmTable.one_hot([f"arm {place}" for place in range(k)])
    saved = audit_log(log_of(rng.integers(0, k, 4 * k), rng.integers(0, 2, 4 * k), table)).saved()
    path = saved.save(tmp_path / "stats.npz")
    assert path.stat().st_size < 1e6
    with np.load(path) as file:
        arrays = dict(file)
    for again in (load(path), read_saved({**arrays, "actions": np.eye(k)})):
        assert again.names == saved.names and again.offline == saved.offline
        assert is_compact(again.actions) and again.arms.featureless
    features = ArmTable.from_columns({"id": ["a", "b"], "size": [1.0, 2.0]})
    header, stored = log_of(np.array([0, 1]), np.array([0.0, 1.0]), features).saved().packed()
    del stored["actions"]
    with pytest.raises(ValueError, match="a part of it"):
        read_saved({**stored, "header": np.array(json.dumps(header))})
