"""The story of the flights: what each contender gains, and that every promise is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from linoto import Confidence, Gated, LinUCB, Tolerance, simulate
from linoto.experiments import takeover
from linoto.experiments.run import run_experiment
from linoto.worlds import flights


@pytest.fixture(scope="module")
def told() -> takeover.Story:
    return takeover.story(runs=2, horizon=1500, seed=3)


def test_every_promise_of_the_story_is_kept_at_every_booking(told: takeover.Story) -> None:
    for label in told.labels:
        limit = told.limit(label)
        if limit is None:
            continue
        for run in told.results.cells("bookings", label):
            assert (np.array(run.offline_regret) <= limit.mean + 1e-9).all()
            assert run.worst <= limit.mean[-1] + 1e-9


def test_without_a_gate_the_story_goes_far_below_what_a_gate_promises(told: takeover.Story) -> None:
    rows = {row["policy"]: row for row in told.table()}
    assert rows["LinUCB"]["promised_limit"] is None
    assert rows["LinUCB"]["worst_shortfall"] > rows["Gated, 0.02 a round"]["promised_limit"]
    for label in told.labels:
        if label.startswith("Gated"):
            assert rows[label]["worst_shortfall_of_all"] <= rows[label]["promised_limit"]
    assert rows["LinLCB"]["explored"] == 0
    assert rows["LinUCB"]["explored"] == 1


def test_the_table_is_what_simulate_says(told: takeover.Story) -> None:
    found = flights.load()
    policy = takeover.contenders()["Gated"]
    worst, rewards = [], []
    for run in range(2):
        play = np.random.SeedSequence([3, run]).spawn(3)[2]
        own = int(play.generate_state(1, np.uint64)[0])
        alone = simulate(policy, found.bandit, found.log, horizon=1500, seed=own)
        worst.append(max(0.0, alone.offline_regret.max()))
        rewards.append(found.bandit.means[alone.arms].mean())
    row = next(row for row in told.table() if row["policy"] == "Gated")
    assert row["mean_reward"] == pytest.approx(np.mean(rewards))
    assert row["worst_shortfall"] == pytest.approx(np.mean(worst))
    assert row["promised_limit"] == policy.certificate(found.actions, found.log).loss(1500)


def test_curves_end_where_the_table_does(told: takeover.Story) -> None:
    for row in told.table():
        label = row["policy"]
        reward, explored = told.curve(label, "reward"), told.curve(label, "explored")
        assert reward.mean[-1] == pytest.approx(row["mean_reward"])
        assert explored.mean[-1] == pytest.approx(1500 * row["explored"])
        assert told.curve(label, "safe").mean[-1] == pytest.approx(1500 * (1 - row["explored"]))
        assert told.curve(label, "shortfall").mean.max() <= row["worst_shortfall_of_all"] + 1e-9
        assert reward.rounds[-1] == 1500
    with pytest.raises(ValueError, match="field must be reward, shortfall, explored or safe, got 'regret'"):
        told.curve("Gated", "regret")


def test_the_story_takes_other_contenders_and_resumes_like_any_experiment(tmp_path: Path) -> None:
    mine = {"mine": Gated(gate=Tolerance(epsilon=0.1), confidence=Confidence(noise=0.5, bound=2.0))}
    assert takeover.story(runs=1, horizon=50, policies=mine).labels == ("mine",)
    plan = takeover.experiment(horizon=60, policies={"LinUCB": LinUCB(scale=1.0)})
    first = run_experiment(plan, runs=1, out=tmp_path)
    seen: list[tuple[int, int]] = []
    again = run_experiment(plan, runs=1, out=tmp_path, resume=True, track=lambda *n: seen.append(n))
    assert seen == [(1, 1)], "nothing was played again"
    assert again.table() == first.table()
    changed = replace(plan, settings=(replace(plan.settings[0], source="another file"),))  # type: ignore[call-arg]
    run_experiment(changed, runs=1, out=tmp_path, resume=True, track=lambda *n: seen.append(n))
    assert seen[1:] == [(0, 1), (1, 1)], "other flights are another experiment"


def test_rows_of_the_story_are_its_table() -> None:
    policies = {"LinUCB": LinUCB(scale=1.0)}
    rows = takeover.table(runs=1, horizon=20, policies=policies)
    assert rows == takeover.story(runs=1, horizon=20, policies=policies).table()
