"""One-hot arms are kept without their zeros, and everything is as it would be with them."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import (
    Budget,
    Closed,
    Confidence,
    Conservative,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    Offline,
    Open,
    Tolerance,
)
from linoto.core import codec, gates, kernels
from linoto.core.one_hot import compact_form, find_one_hot, one_hot, same_arms, squared_lengths
from linoto.core.policies import EXPLORERS
from linoto.core.snapshots import read_snapshot
from linoto.research import OlderTolerance
from linoto.worlds.posterior import are_unrelated

BOUNDED = Confidence(noise="bounded", reward_range=(0, 1), bound=3.0)
LOG = Offline(pulls=[30, 10, 4, 0, 7, 0], reward_sums=[15.0, 6.0, 1.0, 0.0, 3.0, 0.0])
MEANS = np.array([0.5, 0.55, 0.4, 0.8, 0.3, 0.6])
IDENTITY = np.eye(6)
MOVED = np.zeros((6, 8))
MOVED[np.arange(6), [3, 0, 5, 1, 7, 2]] = [1.0, 2.0, -0.5, 1.5, 0.7, 1.0]
GATES = {
    "open": Open(),
    "closed": Closed(),
    **{f"budget-{form}": Budget(alpha=2.0, form=form) for form in ("exact", "aggregate", "max")},
    "budget-coverage": Budget(alpha=2.0, slack="coverage"),
    **{f"tolerance-{kind}": Tolerance(epsilon=0.1, evidence=kind) for kind in ("model", "rewards", "both")},
    "tolerance-relative": OlderTolerance(budget=20, epsilon=0.1, relative=True, bias="loose"),
    **{f"conservative-{form}": Conservative(alpha=0.2, form=form) for form in ("joint", "separate", "arms")},
    "control": Control(budget=10),
    "control-loan": Control(budget=10, promise="expected", loan=5),
}
FALLBACKS: tuple[Any, ...] = ("auto", "lcb", "frozen", "mixture", 1)
OLD = Path(__file__).parents[1] / "data" / "one-hot"


def with_zeros(actions: Any) -> Any:
    """The same arms, stored with all their zeros: one is so small a number that its products are 0."""
    full = actions.copy()
    full[5, 0] = 1e-300
    return full


def future(agent: Any, uniform: Any) -> list[tuple[Any, ...]]:
    """What is decided, the room of every decision and the bounds, with a lost reward now and then."""
    shown: list[tuple[Any, ...]] = []
    for t, draw in enumerate(uniform):
        decision = agent.decide([0, 1, 2, 4] if t % 5 == 4 and not agent.gate.throws_coin else None)
        shown.append((decision.arm, decision.source, decision.fallback, decision.budget))
        agent.commit(decision)
        reward = float(draw < MEANS[decision.arm])
        (agent.lose if t % 7 == 6 else agent.observe)(decision, reward)
    return shown


def same_futures(left: Any, right: Any, rounds: int = 80) -> None:
    uniform = np.random.default_rng(3).random(rounds)
    for one, other in zip(future(left, uniform), future(right, uniform), strict=True):
        assert one[:3] == other[:3]
        assert one[3] == other[3] or one[3] == pytest.approx(other[3], rel=1e-8, abs=1e-8)
    for name in ("theta", "lcb", "ucb", "baseline"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-9, atol=1e-12)


def both_agents(policy: Any, actions: Any) -> tuple[Any, Any]:
    compact, full = (policy.start(arms, LOG, rng=1) for arms in (actions, with_zeros(actions)))
    assert (compact.running.state.square.shape[1], full.running.state.square.shape[1]) == (
        1,
        actions.shape[1],
    )
    return compact, full


def test_every_gate_is_among_those_that_are_tried() -> None:
    assert {type(gate) for gate in GATES.values()} == {*gates.GATES, OlderTolerance}


@pytest.mark.parametrize("actions", [IDENTITY, MOVED], ids=["identity", "moved"])
@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_every_gate_decides_as_with_all_the_zeros(gate: Any, actions: Any) -> None:
    fallback: Any = 1 if isinstance(gate, Conservative) else "auto"
    policy = Gated(explorer=LinTS(), gate=gate, fallback=fallback, confidence=BOUNDED)
    same_futures(*both_agents(policy, actions))


@pytest.mark.parametrize("explorer", EXPLORERS, ids=lambda explorer: explorer.__name__)
def test_every_explorer_decides_as_with_all_the_zeros(explorer: Any) -> None:
    for fallback in FALLBACKS:
        gate = Budget(alpha=2.0) if fallback in ("lcb", "frozen", 1) else Tolerance(epsilon=0.2)
        policy = Gated(explorer=explorer(), gate=gate, fallback=fallback, confidence=BOUNDED)
        same_futures(*both_agents(policy, MOVED))


@pytest.mark.parametrize("radius", ["self_normalised", "hkz", "paper"])
def test_every_radius_and_certificate_is_as_with_all_the_zeros(radius: Any) -> None:
    confidence = Confidence(radius=radius, bound=3.0, ridge=0.01, reward_range=(0, 1))
    for gate in (Budget(alpha=0.1), Tolerance(epsilon=0.1, evidence="model"), Closed()):
        policy = Gated(gate=gate, confidence=confidence)
        compact, full = (policy.certificate(arms, LOG) for arms in (MOVED, with_zeros(MOVED)))
        assert (compact.theorem, compact.assumes) == (full.theorem, full.assumes)
        assert (compact.per_round, compact.constant) == pytest.approx((full.per_round, full.constant))


def test_the_estimate_is_the_ridge_estimate_of_each_arm_alone() -> None:
    agent = LinUCB(scale=1.0, confidence=Confidence(ridge=2.0)).start(MOVED, LOG)
    rng = np.random.default_rng(0)
    for arm in rng.integers(6, size=600):  # past the refresh after 512 rewards
        agent.update(int(arm), 1.0)
    _, scales, _ = find_one_hot(MOVED) or pytest.fail("not found")
    seen = LOG.pulls + np.bincount(np.random.default_rng(0).integers(6, size=600), minlength=6)
    sums = LOG.reward_sums + (seen - LOG.pulls)
    np.testing.assert_allclose(MOVED @ agent.theta, scales**2 * sums / (2 + seen * scales**2), rtol=1e-12)
    log_det = np.log(2 + seen * scales**2).sum() + 2 * np.log(2)  # two features have no arm
    assert agent.running.run["log_det"] == pytest.approx(log_det, rel=1e-12)


def test_the_compiled_loop_is_the_interactive_one() -> None:
    draws = np.random.default_rng(4).random(700)
    policy = Gated(explorer=LinTS(), gate=Tolerance(epsilon=0.2), confidence=BOUNDED)
    looped, asked = (policy.start(IDENTITY, LOG, rng=2) for _ in range(2))
    arms, _ = looped.play(MEANS, draws, bernoulli=True)
    for arm, draw in zip(arms, draws, strict=True):
        decision = asked.decide()
        assert decision.arm == arm
        asked.update(decision, float(draw < MEANS[arm]))
    assert np.array_equal(asked.lcb, looped.lcb)


@pytest.mark.parametrize("version", ["version-0.1", "version-0.2"])
def test_snapshots_that_held_the_zeros_have_the_same_future(version: str) -> None:
    record = json.loads((OLD / version / "future.json").read_text())
    for name, wanted in record["agents"].items():
        agent = linoto.restore((OLD / version / f"{name}.npz").read_bytes())
        again = linoto.restore(agent.snapshot(), agent.actions)  # and one of this version, in between
        for (arm, mode, source, room), draw in zip(
            wanted["decisions"], record["uniform"][record["played"] :], strict=True
        ):
            for one in (agent, again):
                decision = one.decide()
                assert (decision.arm, decision.mode, decision.source) == (arm, mode, source)
                assert room is None or decision.budget == pytest.approx(room, rel=1e-8, abs=1e-8)
                one.update(decision, float(draw < record["means"][arm]))
        for shown in ("theta", "lcb", "ucb"):
            np.testing.assert_allclose(getattr(agent, shown), wanted[shown], rtol=1e-9, atol=1e-12)


def test_a_snapshot_in_the_middle_changes_nothing() -> None:
    for actions in (IDENTITY, MOVED):
        agent = Gated(explorer=LinTS(), gate=Budget(), confidence=BOUNDED).start(actions, LOG, rng=1)
        future(agent, np.full(20, 0.5))
        restored = linoto.restore(agent.snapshot(), actions)
        assert restored.snapshot() == agent.snapshot()
        same_futures(agent, restored)


def test_a_snapshot_without_the_places_or_with_others_is_refused() -> None:
    header, arrays = read_snapshot(Greedy().start(MOVED, LOG).snapshot())
    for places in (None, arrays["arms.place"][:2], arrays["arms.place"] + 0.5):
        changed = {name: rows for name, rows in arrays.items() if name != "arms.place"}
        changed |= {} if places is None else {"arms.place": places}
        with pytest.raises(ValueError, match="snapshot must hold"):
            linoto.restore(codec.pack(header, changed))


def test_a_snapshot_with_features_that_are_not_there_is_refused() -> None:
    agent = Greedy().start(MOVED, LOG)
    agent.running.state.arms[kernels.PLACE, 0] = 8
    with pytest.raises(ValueError, match=r"arms\.place"):
        linoto.restore(agent.snapshot())


def test_only_scaled_unit_vectors_of_their_own_are_one_hot() -> None:
    shared, several, zero, endless = IDENTITY.copy(), IDENTITY.copy(), IDENTITY.copy(), IDENTITY.copy()
    shared[1], several[5, 0], zero[2], endless[3, 3] = IDENTITY[0], 1e-300, 0.0, np.inf
    for actions in (shared, several, zero, endless, IDENTITY[:, :3], np.ones((6, 1))):
        assert find_one_hot(actions) is None
    assert find_one_hot(MOVED) is not None
    assert find_one_hot(-2 * IDENTITY[:4]) is not None


def test_the_compact_identity_is_the_identity() -> None:
    for k in (1, 2, 7):
        arms = one_hot(k)
        assert np.array_equal(arms, np.eye(k)) and not arms.flags.writeable
        assert compact_form(arms) is arms and same_arms(np.eye(k), arms)
        assert np.array_equal(compact_form(np.eye(k)), np.eye(k))
        np.testing.assert_array_equal(arms @ np.arange(k), np.arange(k))
    assert (
        compact_form(MOVED) is None and compact_form(2 * IDENTITY) is None and compact_form([[1.0]]) is None
    )
    assert not same_arms(IDENTITY, IDENTITY[::-1].copy())
    np.testing.assert_array_equal(squared_lengths(MOVED), (MOVED**2).sum(axis=1))


def test_one_hot_refuses_what_is_no_number_of_arms() -> None:
    for bad in (0, -1, 2.0, True, None):
        with pytest.raises(ValueError, match="k must be a whole number >= 1"):
            one_hot(bad)  # type: ignore[arg-type]


def test_worlds_of_ten_thousand_arms_take_no_square_array() -> None:
    k = 10_000
    tracemalloc.start()
    world = linoto.LinearBandit(actions=one_hot(k), theta=np.linspace(0, 1, k))
    assert np.array_equal(world.means, np.linspace(0, 1, k))
    assert are_unrelated(one_hot(k))  # what a preview asks first; it makes nothing of d x d then
    assert tracemalloc.get_traced_memory()[1] < 8 * k * k / 100
    tracemalloc.stop()
    assert not are_unrelated(MOVED)
    scaled = linoto.LinearBandit(actions=MOVED, theta=np.arange(8.0))
    np.testing.assert_array_equal(scaled.means, MOVED @ np.arange(8.0))


def test_thousands_of_arms_take_no_square_array() -> None:
    """d x d numbers would be 128 MB: start, rounds, certificate and snapshot stay below a quarter of it."""
    k = 4_000
    actions, log = one_hot(k), Offline(pulls=np.arange(k) % 3, reward_sums=np.arange(k) % 3 * 0.5)
    policies = (
        linoto.LinOtO(),
        Gated(explorer=LinTS(), gate=Tolerance(epsilon=0.1), confidence=BOUNDED),
        Gated(
            gate=Control(budget=10, promise="expected", loan=5),
            confidence=Confidence(radius="hkz", reward_range=(0, 1)),
        ),
    )
    policies[1].start(np.eye(2), Offline.from_rows([0], [1.0], k=2), rng=0).play(np.zeros(2), np.zeros(1))
    tracemalloc.start()
    for policy in policies:
        agent: Any = policy.start(actions, log, rng=0)
        agent.play(np.full(k, 0.5), np.full(5, 0.1))
        agent.update(agent.decide(), 0.5)
        assert agent.certificate.theorem
        linoto.restore(agent.snapshot(), actions).decide()
    assert tracemalloc.get_traced_memory()[1] < 8 * k * k / 4  # the loop's draws are 13 MB
    tracemalloc.stop()
