"""Arms as a table: the encoding is kept, applies to new arms, and arm effects correct a wrong model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.core import kernels
from linoto.logs.arms import ArmTable, Encoding, arm_effects
from linoto.logs.saved import SavedLog, load
from linoto.logs.values import UnknownColumn

TABLE: dict[str, list[Any]] = {
    "id": ["a", "b", "c"],
    "price": [10, 20.0, "30"],
    "colour": ["red", "blue", "red"],
}


def test_numbers_stay_and_words_become_one_hot() -> None:
    arms = ArmTable.from_columns(TABLE)
    assert arms.labels == ("intercept", "price", "colour=blue", "colour=red")
    assert arms.actions.tolist() == [[1, 10, 0, 1], [1, 20, 1, 0], [1, 30, 0, 1]]
    assert ArmTable.from_columns(TABLE, intercept=False).labels == ("price", "colour=blue", "colour=red")


def test_the_id_is_the_first_column_unless_named() -> None:
    assert ArmTable.from_columns(TABLE, id="price").names == ("10", "20", "30")
    with pytest.raises(UnknownColumn, match=r"id must be a column of arms, .* 'idd': did you mean 'id'"):
        ArmTable.from_columns(TABLE, id="idd")


def test_a_number_can_be_named_categorical() -> None:
    arms = ArmTable.from_columns({"id": ["a", "b"], "zip": [1011, 9500]}, categorical=["zip"])
    assert arms.labels == ("intercept", "zip=1011", "zip=9500")
    with pytest.raises(UnknownColumn, match="categorical must be a column"):
        ArmTable.from_columns(TABLE, categorical=["color"])


def test_normalising_bounds_every_action_by_one_and_keeps_what_is_linear() -> None:
    plain, scaled = ArmTable.from_columns(TABLE), ArmTable.from_columns(TABLE, normalise=True)
    assert np.linalg.norm(scaled.actions, axis=1).max() == pytest.approx(1.0)
    ratio = scaled.actions / np.where(plain.actions == 0, 1, plain.actions)
    for column, used in zip(ratio.T, (plain.actions != 0).T, strict=True):
        assert np.ptp(column[used]) < 1e-15  # a factor for each feature, the same for all arms


@pytest.mark.parametrize("normalise", [False, True])
def test_an_encoding_survives_json_and_encodes_new_arms_alike(normalise: bool) -> None:
    features = {name: values for name, values in TABLE.items() if name != "id"}
    encoding = Encoding.fit(features, normalise=normalise)
    again = Encoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    assert again == encoding
    assert np.array_equal(again.encode(features), ArmTable.from_columns(TABLE, normalise=normalise).actions)
    new = again.encode({"colour": ["blue"], "price": [20.0], "unused": [1]})
    assert np.array_equal(new[0], again.encode(features)[1])


def test_what_an_encoding_has_never_met_is_named() -> None:
    encoding = ArmTable.from_columns(TABLE).encoding
    with pytest.raises(ValueError, match=r"new, row 2, column 'colour': 'rde' is none .* did you mean 'red'"):
        encoding.encode({"price": [1, 2], "colour": ["red", "rde"]}, where="new")
    with pytest.raises(ValueError, match="column 'price': must be a finite number, got 'cheap'"):
        encoding.encode({"price": ["cheap"], "colour": ["red"]})
    with pytest.raises(UnknownColumn, match="'price'"):
        encoding.encode({"colour": ["red"]})


def test_bad_tables_are_refused() -> None:
    for table, message in (
        ({}, "at least one arm"),
        ({"id": []}, "at least one arm"),
        ({"id": ["a", "a"], "x": [1, 2]}, "row 2, column 'id': the id 'a' is that of row 1 too"),
        ({"id": ["a", "b\tc"], "x": [1, 2]}, r"row 2, column 'id': the id must have no control characters"),
        ({"id": ["7", 7.0], "x": [1, 2]}, "the id '7' is that of row 1 too"),
        ({"id": ["a", None], "x": [1, 2]}, "row 2, column 'id': the id is missing"),
        ({"id": ["a", "b"], "x": [1, float("nan")]}, "row 2, column 'x': a feature is missing"),
        ({"id": ["a", "b", "c"], "x": [1, 2, "tall"]}, "row 3, column 'x': numbers and words are mixed"),
    ):
        with pytest.raises(ValueError, match=message):
            ArmTable.from_columns(table)


def test_arm_effects_append_a_scaled_one_hot() -> None:
    arms = ArmTable.from_columns(TABLE)
    with_effects = arms.with_effects(scale=2.0)
    assert np.array_equal(with_effects.actions, np.hstack([arms.actions, 2 * np.eye(3)]))
    assert with_effects.labels[-1] == "effect of c"
    assert np.array_equal(with_effects.actions, arm_effects(arms.actions, 2.0))
    with pytest.raises(ValueError, match="effects must be a positive number"):
        arms.with_effects(scale=0.0)


# -- a wrong model ----------------------------------------------------------------------------------------

EPSILON, K, ROUNDS = 0.05, 12, 1200


def nonlinear_world(seed: int) -> tuple[linoto.Bandit, linoto.Offline]:
    """Six logged arms rise along a line; six unlogged ones go on along it in their features, but not in what
    they earn. With arm effects it is a linear world, and 2 bounds its parameter (0.64 at the shortest)."""
    x = np.linspace(0, 1, K)
    means = np.where(np.arange(K) < 6, 0.3 + 0.6 * x, 0.1)
    bandit = linoto.Bandit(actions=np.column_stack([np.ones(K), x]), means=means, noise=0.3)
    return bandit, bandit.log(np.where(np.arange(K) < 6, 200, 0), np.random.default_rng(seed))


def excess(actions: np.ndarray, explorer: str, seed: int) -> float:
    """max_t R_t^off less what the certificate allows, of a greedy explorer or of an adversary."""
    bandit, log = nonlinear_world(seed)
    policy = linoto.Gated(
        explorer=linoto.Greedy(),
        gate=linoto.Tolerance(epsilon=EPSILON, evidence="model"),
        confidence=linoto.Confidence(noise=0.3, bound=2.0),
    )
    certificate = policy.certificate(actions, log)
    assert certificate.holds and certificate.constant is not None
    agent, reference = policy.start(actions, log), float(log.pulls @ bandit.means / log.total)
    draws = bandit.draw(ROUNDS, np.random.default_rng([seed, 1]))
    if explorer == "greedy":
        arms, _ = agent.play(bandit.means, draws)
    else:
        arms = np.array([play_worst(agent, bandit.means, draw) for draw in draws])
    lost = np.cumsum(reference - bandit.means[arms])
    return float((lost - EPSILON * np.arange(1, ROUNDS + 1) - certificate.constant).max())


def play_worst(agent: Any, means: np.ndarray, draw: float) -> int:
    """One round of an explorer that proposes the worst arm the gate would let through."""
    agent.decide()
    open_arms = np.flatnonzero(agent.running.state.arms[kernels.ROOM] > 0)
    decision = agent.guard(int(open_arms[means[open_arms].argmin()] if open_arms.size else means.argmin()))
    agent.update(decision, float(means[decision.arm] + draw))
    return int(decision.arm)


@pytest.mark.few(0)
def test_a_wrong_model_breaks_the_certificate_and_arm_effects_keep_it() -> None:
    """The plain model loses more than a hundred beyond the promise. With effects a run may fail with
    probability 0.05, but no run of 200 with either explorer came closer than ten rewards."""
    plain, with_effects = nonlinear_world(0)[0].actions, arm_effects(nonlinear_world(0)[0].actions)
    for explorer in ("greedy", "worst"):
        assert min(excess(plain, explorer, seed) for seed in range(3)) > 100
        assert max(excess(with_effects, explorer, seed) for seed in range(10)) <= 0


# -- on disk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", [None, 0.5])
def test_what_is_saved_is_what_is_loaded(effects: float | None, tmp_path: Path) -> None:
    arms = ArmTable.from_columns(TABLE, normalise=True)
    arms = arms if effects is None else arms.with_effects(effects)
    offline = linoto.Offline.from_rows([0, 1, 1], [0.5, 1.0, 0.25], k=3)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=3.0)
    path = SavedLog(arms=arms, offline=offline, confidence=confidence).save(tmp_path / "stats")
    again = load(path)
    assert np.array_equal(again.actions, arms.actions)
    assert again.offline == offline and again.confidence == confidence
    assert again.names == arms.names and again.encoding == arms.encoding
    agent = linoto.Gated(confidence=again.confidence).start(again.actions, again.offline, names=again.names)
    agent.update(agent.decide(), 1.0)


def test_what_is_no_saved_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stats.npz"
    path.write_bytes(b"PK no")
    with pytest.raises(ValueError, match=r"stats\.npz must be what linoto audit --save wrote"):
        load(path)
    np.savez(path, header=np.array(json.dumps({"format": 99})))
    with pytest.raises(ValueError, match="must be of format 1, got format 99"):
        load(path)
    whole = SavedLog(
        arms=ArmTable.from_columns(TABLE), offline=linoto.Offline.from_rows([0], [1.0], k=3)
    ).save(tmp_path / "whole.npz")
    with np.load(whole) as file:
        arrays = dict(file)
    for name in arrays.keys() - {"reward_squares"}:
        np.savez(path, **{other: arrays[other] for other in arrays if other != name})
        with pytest.raises(ValueError, match=r"stats\.npz must be what linoto audit --save wrote"):
            load(path)
    np.savez(path, **arrays, stranger=np.eye(2))
    with pytest.raises(ValueError, match=r"stats\.npz must be what linoto audit --save wrote"):
        load(path)
    np.savez(path, actions=np.eye(2))
    with pytest.raises(ValueError, match="must be what linoto audit --save wrote"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")
