"""The likeliest ridge is for policies that prove nothing by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linoto
from linoto import Confidence, Control, Gated, Greedy, LinTS, LinUCB, LogisticTS, Moments, SquareCB, Tolerance
from linoto.core.evidence import likeliest_ridge
from linoto.core.usual_ridge import MOST_FEATURES, with_usual_ridge

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
BEHIND_A_COIN: dict[str, Any] = {"gate": Control(budget=20), "confidence": CLICKS}


def summed() -> Moments:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((200, 6))
    return Moments.from_rows(x, (rng.random(200) < 0.5 + 0.1 * np.tanh(x[:, 0])).astype(np.float64))


LOG = summed()


@pytest.mark.parametrize("explorer", [LinTS(), Greedy(), SquareCB()])
def test_a_coin_promises_whatever_the_ridge_is(explorer: Any) -> None:
    policy = with_usual_ridge(Gated(explorer=explorer, **BEHIND_A_COIN), LOG.d, lambda: LOG)
    assert policy.confidence is not None and policy.confidence.ridge == likeliest_ridge(LOG)
    assert policy.confidence.ridge != CLICKS.ridge_for(LOG.d)


@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=Tolerance(budget=20, evidence="model"), confidence=CLICKS),
        Gated(gate=Tolerance(budget=20), confidence=CLICKS),
        Gated(gate=Control(promise="expected", budget=20, loan=10), confidence=CLICKS),
        Gated(explorer=LinUCB(), **BEHIND_A_COIN),
        Gated(explorer=LogisticTS(), **BEHIND_A_COIN),
        Gated(fallback="lcb", **BEHIND_A_COIN),
        Gated(gate=Control(budget=20), confidence=Confidence(reward_range=(0, 1), ridge=7.0)),
        Gated(confidence=CLICKS),
    ],
    ids=["model", "log", "loan", "LinUCB", "LogisticTS", "fallback", "said", "no gate yet"],
)
def test_who_reads_bounds_or_says_a_ridge_keeps_it(policy: Gated) -> None:
    assert with_usual_ridge(policy, LOG.d, lambda: LOG) is policy


def test_a_log_that_cannot_tell_leaves_the_rule() -> None:
    policy = Gated(**BEHIND_A_COIN)
    unsquared = Moments(count=2, gram=np.eye(2), reward_vector=np.ones(2), reward_sum=2.0)
    for log in (Moments.empty(2), unsquared):
        assert with_usual_ridge(policy, 2, lambda log=log: log) is policy  # type: ignore[misc]
    assert with_usual_ridge(policy, MOST_FEATURES + 1, pytest.fail) is policy


@pytest.mark.parametrize(
    ("column", "of_one_size"),
    [([0.5, 1.0, 2.0], True), ([0.01, 0.02, 0.12], False), ([2019.0, 2020.0, 2021.0], False)],
)
def test_one_ridge_is_for_features_of_one_size(column: list[float], of_one_size: bool) -> None:
    raw, policy = np.column_stack([np.ones(3), column]), Gated(**BEHIND_A_COIN)
    assert (with_usual_ridge(policy, LOG.d, lambda: LOG, raw) != policy) == of_one_size
    one_hot = np.eye(3) * [[1.0], [1.0], [2.0]]  # an arm that was seldom logged is no small feature
    assert with_usual_ridge(policy, LOG.d, lambda: LOG, one_hot) != policy


def log_of_clicks(**columns: Any) -> linoto.Log:
    rng = np.random.default_rng(8)
    arms, age = rng.integers(3, size=600), rng.standard_normal(600)
    clicked = rng.random(600) < 0.4 + 0.2 * np.tanh(age * (arms - 1))
    table = pa.table({"ad": [f"ad {arm}" for arm in arms], "age": age, "clicked": clicked.astype(int)})
    return linoto.read_log(table, item="ad", reward="clicked", **columns)


def test_an_audit_has_the_policy_that_the_commands_make() -> None:
    log = log_of_clicks(numeric=["age"])
    audit = linoto.audit_log(log)
    policy = audit.policy
    assert policy is not None and policy.gate == audit.gate and isinstance(policy.gate, Control)
    assert policy.confidence is not None and policy.confidence.ridge == likeliest_ridge(log.features.moments)
    assert audit.confidence is not None and audit.confidence.ridge is None  # a Tolerance may be made of it
    agent = policy.start(log, rng=0)
    assert agent.decide(context={"age": 1.0}, practice=[1 / 3] * 3).arm in range(3)


def test_an_audit_of_arms_that_stay_proposes_the_gate_it_judged() -> None:
    audit = linoto.audit_log(log_of_clicks())
    policy = audit.policy
    assert policy == Gated(gate=audit.gate, confidence=audit.confidence)  # type: ignore[arg-type]


def test_arms_and_rounds_state_the_same_ridge() -> None:
    """A log of arms has the same sums whether they stay or come with each round."""
    log = log_of_clicks()
    actions, offline = log.arms.actions, log.offline
    arms, rounds = np.repeat(np.arange(3), offline.pulls), Moments.of_arms(actions, offline)
    rewards = np.concatenate(
        [np.arange(n) < s for n, s in zip(offline.pulls, offline.reward_sums, strict=True)]
    )
    again = Moments.from_rows(actions[arms], rewards.astype(np.float64))
    assert likeliest_ridge(rounds) == likeliest_ridge(again)
