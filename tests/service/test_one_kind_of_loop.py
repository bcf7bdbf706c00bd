"""Fixed arms are the special case of rounds that bring their own: one request and one code for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loops import THOMPSON, change, decide, digests, reward
from helpers.loops_with_contexts import POLICIES, context_of, create, likes
from helpers.service_process import TOLERANT, FakeClock, opened

import linoto
from linoto.service.errors import Refused
from linoto.service.loops.loop import Loop
from linoto.service.loops.recipe_spec import as_spec, as_statistics
from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical
from linoto.service.loops.views import lift_view, loop_view
from linoto.service.server import Service

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
COIN = linoto.Gated(gate=linoto.Control(budget=30.0, share=0.4), confidence=CLICKS)
LOAN = linoto.Gated(gate=linoto.Control(budget=30.0, share=0.4, loan=5.0), confidence=CLICKS)
NAMES = ("a", "b", "c")
PLAYED = [0] * 50 + [1] * 30
EARNED = [1.0] * 30 + [0.0] * 20 + [1.0] * 10 + [0.0] * 20
SOLD = [0.75, 0.25, 0.0, 0.0, 0.5] * 16  # binary fractions: their sums are exact in any order


def by_arms(earned: list[float] = EARNED, **settings: Any) -> LoopSpec:
    """An A/B log as most people have it."""
    log = linoto.Offline.from_rows(PLAYED, earned, k=3)
    assert log.reward_squares is not None
    statistics = LogStatistics(
        pulls=log.pulls.tolist(),
        reward_sums=log.reward_sums.tolist(),
        reward_squares=log.reward_squares.tolist(),
    )
    return canonical(LoopSpec(arms=[Arm(name=name) for name in NAMES], offline=statistics, **settings))


def by_recipe(intercept: bool, earned: list[float] = EARNED, **settings: Any) -> LoopSpec:
    """The same log, with a recipe whose only column is the item."""
    recipe = linoto.Recipe(items=NAMES, intercept=intercept)
    rows = recipe.transform({}, [NAMES[arm] for arm in PLAYED])
    offline = linoto.Offline.from_rows(PLAYED, earned, k=3)
    moments = as_statistics(linoto.Moments.from_rows(rows, earned), offline)
    return canonical(LoopSpec(recipe=as_spec(recipe), moments=moments, **settings))


def played(path: Path, spec: LoopSpec) -> tuple[list[Any], Any]:
    """What a loop of this spec decides, and its numbers."""
    with opened(path, clock=FakeClock()) as service:
        service.store.write_sync(lambda c: service.loops.create(c, Loop.fresh("loop", spec)))
        rng, made = np.random.default_rng(0), []
        for n in range(60):
            asked: dict[str, Any] = {"arms": ["a", "c"]} if n % 7 == 0 else {}
            made.append(decide(service, **asked, **({"proposal": "c"} if n % 5 == 0 else {})))
            reward(service, made[-1].decision_id, float(rng.random() < 0.5))
        return made, loop_view(service.loops.get("loop"))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "policy", [TOLERANT, COIN, THOMPSON, LOAN], ids=["tolerance", "coin", "thompson", "loan"]
)
@pytest.mark.parametrize("earned", [EARNED, SOLD], ids=["clicks", "money"])
@pytest.mark.few(3)
def test_the_same_log_stated_both_ways_gives_the_same_loop(
    tmp_path: Path, policy: Any, intercept: bool, earned: list[float]
) -> None:
    """Money too: a Control gate that lends by the log counts how far its rewards scatter."""
    settings: dict[str, Any] = {"policy": linoto.to_dict(policy), "default_reward": 0.0, "seed": 3}
    one, other = by_arms(earned, **settings), by_recipe(intercept, earned, **settings)
    assert one == other and one.offline is not None and one.offline.reward_squares is not None
    if intercept:
        assert played(tmp_path / "x.sqlite", one) == played(tmp_path / "y.sqlite", other)


def test_squares_by_item_must_be_those_of_the_log() -> None:
    recipe = linoto.Recipe(items=NAMES)
    moments = linoto.Moments.from_rows(recipe.transform({}, [NAMES[arm] for arm in PLAYED]), SOLD)
    other = linoto.Offline.from_rows(PLAYED, EARNED, k=3)
    with pytest.raises(Refused, match="squares_by_item must be 3 numbers that add up to reward_squares"):
        settings: dict[str, Any] = {"policy": linoto.to_dict(COIN), "default_reward": 0.0}
        canonical(LoopSpec(recipe=as_spec(recipe), moments=as_statistics(moments, other), **settings))


def ask(service: Service, rng: np.random.Generator, practice: Any, given: bool) -> Any:
    context = context_of(rng)
    made = decide(service, context=context, **({"practice": practice} if given else {}))
    reward(service, made.decision_id, float(rng.random() < likes(made.arm, context["country"])))
    return made


@pytest.mark.parametrize("kind", ["model", "open"])
@pytest.mark.parametrize("given", [False, True], ids=["known", "sent"])
@pytest.mark.few(1)
def test_a_control_group_plays_as_practice_does_in_every_context(
    tmp_path: Path, kind: str, given: bool
) -> None:
    """A decision in three is held back, and a quarter of these play A: within 4 standard errors.

    By a seed: with a secret of every new database, one run in 7,000 would be beyond one or the other.
    """
    practice, rounds = {"A": 0.25, "C": 0.75}, 300
    with opened(tmp_path / "x.sqlite", snapshot_every=70) as service:
        settings = {"policy": POLICIES[kind], "practice": "given" if given else practice, "seed": 3}
        create(service, holdback=1 / 3, **settings)
        rng = np.random.default_rng(0)
        made = [ask(service, rng, practice, given) for _ in range(rounds)]
        held = [each for each in made if each.holdback]
        assert abs(len(held) - rounds / 3) <= 4 * np.sqrt(rounds * 2 / 9)
        assert {each.arm for each in held} == {"A", "C"} and {each.mode for each in held} == {"safe"}
        a = sum(each.arm == "A" for each in held)
        assert abs(a - len(held) / 4) <= 4 * np.sqrt(len(held) * 3 / 16)
        for each in made:
            assert each.propensity is not None and each.propensity >= practice.get(each.arm, 0.0) / 3 - 1e-12
        loop = service.loops.get("loop")
        assert loop_view(loop).groups["holdback"].plays == len(held) and loop.counts_control
        assert len(set(digests(service))) == 1


@pytest.mark.few(0)
def test_the_lift_over_practice_is_measured_with_contexts(tmp_path: Path) -> None:
    """Practice plays C, which earns 0.2; proposals are what each country likes, 0.65 more or less."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, holdback=0.4, policy=POLICIES["open"])
        rng = np.random.default_rng(1)
        for _ in range(500):
            country = str(rng.choice(["DE", "NO"]))
            asked = {"context": {"age": 30, "country": country}, "proposal": "A" if country == "DE" else "B"}
            made = decide(service, **asked)
            reward(service, made.decision_id, float(rng.random() < likes(made.arm, country)))
        found = lift_view(service.loops.get("loop"))
        assert found.lower is not None and found.upper is not None and found.control > 150
        assert 0 < found.lower < 0.5 < found.upper < 0.9


def test_where_nobody_knows_practice_there_is_no_control_group_and_the_view_says_why(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICIES["open"], practice=None)
        assert "practice is not known" in loop_view(service.loops.get("loop")).no_control
        with pytest.raises(Refused, match="holdback must be 0 where practice is not known"):
            change(service, holdback=0.1)
        create(service, "sure", policy=POLICIES["open"])
        assert loop_view(service.loops.get("sure")).no_control == ""
        change(service, "sure", holdback=0.1)


def test_a_dropped_model_leaves_a_practice_that_draws_at_work(tmp_path: Path) -> None:
    """Its draw stands once it is shown: the decision that is kept is that one."""
    with opened(tmp_path / "x.sqlite") as service:
        create(service, practice={"A": 0.25, "C": 0.75}, on_alarm="warn")
        service.loops.get("loop").agent.drop_model()
        for _ in range(20):
            made = decide(service, context={"age": 30, "country": "DE"})
            assert made.arm in "AC" and made.mode == "safe"
