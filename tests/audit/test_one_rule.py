"""One rule for every verdict: what a log cannot show is no reason to deploy; no budget that fails is advised.

Arms without features earn what was promised, however few rows there are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto.audit.audit import Audit, audit_log
from linoto.cli.outputs import HORIZON as HORIZON_OF_COMMANDS
from linoto.core.verdicts import (
    AT_RISK,
    HORIZON,
    Findings,
    Simulated,
    is_blind,
    reach_verdict,
    surely_earned,
    why_worthless,
)
from linoto.logs.read import read_log
from linoto.logs.read_rows import read_rows
from linoto.pages.preview import answers, judge
from linoto.worlds.bandits import Bandit
from linoto.worlds.preview import preview
from linoto.worlds.simulate import simulate

RATES = np.array([0.10, 0.15])


def ab_audit(seed: int, rows: int = 600) -> Audit:
    """Two variants, known by their ids alone."""
    rng = np.random.default_rng([9, seed])
    arms = rng.integers(0, 2, rows)
    table = pd.DataFrame({"variant": np.array(["A", "B"])[arms], "order": rng.random(rows) < RATES[arms]})
    ids = linoto.read_arms(pd.DataFrame({"id": ["A", "B"]}))
    return audit_log(linoto.read_log(table, item="variant", reward="order", arms=ids))


def test_the_simplest_log_keeps_its_promise() -> None:
    """Every action was [1.]: 30 of 40 such logs were said to deploy, and all 30 promises were broken. A
    promise may fail in one log of twenty: of 10 such logs, in four or more with probability 0.001. Drift is
    seen in one steady log of a hundred: in two of 10 or more with probability 0.004."""
    broken = doubted = 0
    for seed in range(10):
        audit = ab_audit(seed)
        assert audit.log.arms.independent and audit.verdict in ("deploy", "do not trust")
        doubted += audit.verdict == "do not trust"
        policy = linoto.Gated(gate=audit.gate, confidence=audit.confidence)
        world = Bandit(actions=audit.log.arms.actions, means=RATES, rewards="bernoulli")
        run = simulate(policy, world, audit.log.offline, horizon=3000, seed=seed)
        assert audit.certificate is not None
        broken += audit.certificate.excess(run.offline_regret) > 0
    assert broken < 4 and doubted < 2


def test_features_are_believed_only_where_the_log_could_have_contradicted_them() -> None:
    """Three arms on a line: the same log shows a misfit of 0.1, and no misfit of 0.01."""
    rng = np.random.default_rng(5)
    arms = rng.integers(0, 3, 3000)
    table = pd.DataFrame({"arm": arms, "r": (rng.random(3000) < 0.3 + 0.1 * arms).astype(int)})
    known = linoto.read_arms(pd.DataFrame({"id": [0, 1, 2], "x": [0.0, 1.0, 2.0]}))
    log = linoto.read_log(table, item="arm", reward="r", arms=known)
    wide, narrow = audit_log(log, epsilon=0.1), audit_log(log, epsilon=0.01)
    assert wide.verdict == "deploy" and narrow.verdict == "deploy with arm effects"
    assert wide.least_misfit == narrow.least_misfit and 0.01 < wide.least_misfit < 0.1
    assert wide.fit is not None and wide.fit.power(wide.least_misfit) == pytest.approx(0.5)
    assert audit_log(log, budget=100.0, horizon=1000).verdict == "deploy"
    assert audit_log(log, budget=100.0, horizon=10_000).verdict == "deploy with arm effects"
    effects = linoto.read_log(table, item="arm", reward="r", arms=known.with_effects())
    assert audit_log(effects, epsilon=0.01).verdict == "deploy"


def test_a_promise_is_worth_nothing_from_half_of_what_the_log_earns_on() -> None:
    audit = ab_audit(0)
    arms, log = audit.log.arms.actions, audit.log.offline
    earned = log.reference * HORIZON
    for budget, worth in ((0.9 * AT_RISK * earned, True), (1.1 * AT_RISK * earned, False)):
        policy = linoto.Gated(gate=linoto.Tolerance(budget=budget), confidence=audit.confidence)
        why = why_worthless(policy.certificate(arms, log), earned=log.reference, horizon=HORIZON)
        assert (why == "") == worth
        assert (audit_log(audit.log, budget=budget).verdict == "deploy") == worth
        seen = preview(arms, log, policy=policy, grid=[budget], worlds=3)
        assert seen.is_empty(seen.points[0]) == (not worth)
        assert (judge(seen)[0] == "deploy") == bool(seen.worth_having())
        assert worth or judge(seen)[0] == "not yet"


def test_no_budget_is_advised_that_fails() -> None:
    audit = ab_audit(1)
    arms, log = audit.log.arms.actions, audit.log.offline
    policy = linoto.Gated(gate=linoto.Tolerance(budget=1.0), confidence=audit.confidence)
    half = AT_RISK * log.reference * 1000
    seen = preview(arms, log, policy=policy, grid=[0.4 * half, 2 * half], horizon=1000, worlds=10)
    for limit in (0.5 * half, 3 * half):
        for found in (seen.recommend(limit), seen.guaranteed(limit)):
            assert found is None or found.value == 0.4 * half


def test_what_the_audit_says_of_a_log_stands_in_the_preview_of_it() -> None:
    audit = ab_audit(2)
    saved = audit.saved("orders.csv")
    policy = linoto.Gated(gate=linoto.Tolerance(budget=40.0), confidence=audit.confidence)
    seen = preview(audit.log.arms.actions, audit.log.offline, policy=policy, grid=[40.0], worlds=3)
    doubted = type(saved)(
        **{**vars(saved), "verdict_of_log": "do not trust", "reasons_of_log": ("rows are bad",)}
    )
    assert judge(seen, audited=doubted)[0] == "do not trust"
    first = dict(answers(seen, audited=doubted))["What to do"]
    assert first == "Do not deploy: the audit of orders.csv says do not trust, because rows are bad."


@pytest.mark.parametrize(
    ("found", "simulated", "verdict"),
    [
        (Findings(), None, "deploy"),
        (Findings(features=("x",)), None, "deploy with arm effects"),
        (Findings(blind=("x",)), Simulated(gain="y"), "deploy with arm effects"),
        (Findings(features=("x",), missing=("y",)), None, "not yet"),
        (Findings(promise=("x",)), None, "not yet"),
        (Findings(), Simulated(worthless="x"), "not yet"),
        (Findings(), Simulated(blind="x"), "deploy with arm effects"),
        (Findings(missing=("x",)), Simulated(refuted="y"), "do not trust"),
        (Findings(against=("x",), missing=("y",)), Simulated(gain="z"), "do not trust"),
    ],
)
def test_the_worst_that_was_found_decides(found: Findings, simulated: Simulated, verdict: str) -> None:
    assert reach_verdict(found, simulated)[0] == verdict
    assert reach_verdict(found.of_log)[0] in (verdict, "deploy") or simulated is not None


def test_a_promise_says_whether_it_rests_on_a_linear_model() -> None:
    """Of its gate, arms and confidence; whatever its sentences say, and with the keys of older files too."""
    log = linoto.Offline(pulls=[300, 300], reward_sums=[90.0, 100.0], reward_squares=[90.0, 100.0])
    line = np.array([[1.0, 0.0], [1.0, 1.0]])
    clicks = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    by_model = linoto.Tolerance(budget=9.0, evidence="model")
    for gate, actions, expected in (
        (by_model, line, True),
        (by_model, np.eye(2), False),
        (linoto.Tolerance(budget=9.0, evidence="rewards"), line, False),
        (linoto.Control(budget=9.0), line, False),
    ):
        found = linoto.Gated(gate=gate, confidence=clicks).certificate(actions, log)
        assert found.by_model == expected
        assert is_blind(replace(found, assumes=()), least_misfit=1.0, horizon=HORIZON) == expected
        told = {key: part for key, part in found.to_dict().items() if key != "by_model"}
        assert not type(found)(**told).by_model


def test_costs_are_weighed_as_what_is_earned_is() -> None:
    """Failures as -1 and successes as 1 state the same log: what is promised is worth the same."""
    costs = linoto.Offline(pulls=[900, 100], reward_sums=[-200.0, -20.0], reward_squares=[200.0, 20.0])
    known = linoto.Confidence(noise="bounded", reward_range=(-1.0, 0.0))
    size = surely_earned(costs, known)
    assert size == costs.reference == -0.22
    policy = linoto.Gated(gate=linoto.Tolerance(budget=30.0), confidence=known)
    for budget, worthless in ((0.4, False), (0.6, True)):
        certificate = replace(policy.certificate(np.eye(2), costs), constant=budget * 0.22 * 5000)
        why = why_worthless(certificate, earned=size, horizon=5000)
        assert bool(why) == worthless and ("1100 that the log loses" in why) == worthless
    wide = replace(known, reward_range=(-1.0, 1.0))
    assert (
        surely_earned(costs, wide) < 0 and surely_earned(replace(costs, reward_sums=[1.0, -1.0]), wide) == 0
    )


@pytest.mark.parametrize("mean, earns", [(0.005, False), (0.2, True)])
def test_audit_and_preview_ask_in_one_way_whether_a_log_earns_more_than_nothing(
    mean: float, earns: bool
) -> None:
    """Rewards from -1 to 1, whose mean may be 0 or is not; without negative ones any mean above 0 will do."""
    rng = np.random.default_rng(3)
    rewards = np.clip(mean + 0.3 * rng.standard_normal(1000), -1, 1)
    log = linoto.Offline.from_rows(np.arange(1000) % 2, rewards, k=2)
    assert log.reference > 0
    known = linoto.Confidence(noise="bounded", reward_range=(-1.0, 1.0))
    assert surely_earned(log, known) == (log.reference if earns else 0.0)
    assert surely_earned(log, replace(known, reward_range=(0.0, 1.0))) == log.reference
    policy = linoto.Gated(gate=linoto.Tolerance(budget=30.0), confidence=known)
    seen = preview(np.eye(2), log, policy=policy, grid=[30.0], horizon=100, worlds=2)
    assert (seen.earned > 0) == earns
    half = 100 * surely_earned(log, known)  # a budget of all that is earned is worthless, if that is known
    certificate = replace(policy.certificate(np.eye(2), log), constant=half or 30.0)
    assert bool(why_worthless(certificate, earned=surely_earned(log, known), horizon=100)) == earns


def test_every_command_has_the_same_horizon() -> None:
    assert HORIZON_OF_COMMANDS == HORIZON


# -- with contexts ----------------------------------------------------------------------------------------


def student(freedom: float, n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    item, age = rng.choice(["A", "B"], n), rng.normal(size=n)
    reward = age * (item == "A") + rng.standard_t(freedom, n)
    return pd.DataFrame({"item": item, "age": age, "y": reward})


@pytest.mark.parametrize(("freedom", "verdict"), [(1.6, "do not trust"), (200.0, "deploy")])
def test_heavy_tails_are_seen_with_contexts_as_without(freedom: float, verdict: str) -> None:
    """The noise is stated as large as the rewards scatter: only the farthest reward speaks against it."""
    table = student(freedom)
    told = {"noise": 1.05 * float(table["y"].std()), "epsilon": 0.1}
    columns = {"numeric": ["age"], "crosses": [("item", "age")]}
    log = read_log(table, item="item", reward="y", **columns)
    rows = read_rows(table, recipe=log.recipe, reward="y")
    found = audit_log(log, rows, **told)
    assert found.verdict == verdict, found.reasons
    fixed = audit_log(linoto.read_log(table, item="item", reward="y"), **told)
    assert fixed.verdict == verdict
    if verdict == "do not trust":
        assert "where the linear model puts it, and a noise of" in found.reasons[0]
        assert "the mean of its arm, and a noise of" in fixed.reasons[0]
        assert any("tails are heavy" in note for note in found.notes)
    assert dict(found.facts())["tails"].startswith("heavy" if freedom < 2 else "no sign of heavy ones")


def test_the_farthest_reward_is_that_of_least_squares() -> None:
    """Against residuals over the root of 1 - leverage, computed with the whole hat matrix."""
    table = student(5.0, n=60)
    log = read_log(table, item="item", reward="y", numeric=["age"], crosses=())
    rows = read_rows(table, recipe=log.recipe, reward="y")
    found = audit_log(log, rows, noise=3.0).tails
    one = (table["item"] == "A").to_numpy(dtype=float)
    design = np.column_stack([one, 1 - one, table["age"]])
    hat = design @ np.linalg.pinv(design)
    left = (table["y"] - hat @ table["y"]).to_numpy() / np.sqrt(1 - np.diag(hat))
    assert found is not None and found.distance == pytest.approx(np.abs(left).max())


def test_a_bound_that_the_log_contradicts_is_seen_with_contexts_too() -> None:
    table = student(200.0)
    log = read_log(table, item="item", reward="y", numeric=["age"], crosses=[("item", "age")])
    found = audit_log(log, noise=1.2, bound=0.01)
    assert found.verdict == "do not trust" and "the log contradicts bound=0.01" in found.reasons[0]
