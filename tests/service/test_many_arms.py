"""Loops of thousands of arms without features: what an arm takes does not grow with how many there are."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from helpers.loops import THOMPSON, add_arms, decide, digests, remove_arms, reward
from helpers.service_process import TOLERANT, create, opened, spec_of

import linoto
from linoto.core.one_hot import is_compact
from linoto.service.errors import Refused
from linoto.service.loops.batches import most_in_batch
from linoto.service.loops.fixed_arms import check_added, checked_count
from linoto.service.loops.spec import MOST_ARMS, Arm, LogStatistics
from linoto.service.loops.starting import start_agent
from linoto.service.storage import sql
from linoto.service.storage.places import Place

CONTROL = linoto.Gated(
    explorer=linoto.Random(), gate=linoto.Control(budget=20, epsilon=0.1), confidence=TOLERANT.confidence
)
K = 4_000  # a table of so many arms times themselves has 128 MB


def many(k: int = K) -> dict[str, Any]:
    """What a loop of so many arms is made from."""
    log = LogStatistics(pulls=[5] * k, reward_sums=[float(arm % 3) for arm in range(k)])
    return {"arms": [Arm(name=f"arm-{arm}") for arm in range(k)], "offline": log}


@pytest.mark.parametrize("policy", [TOLERANT, THOMPSON, CONTROL], ids=["tolerance", "Thompson", "a coin"])
@pytest.mark.few(1)
def test_a_loop_of_thousands_of_arms_is_the_fold_of_its_events(place: Place, policy: Any) -> None:
    with opened(place, snapshot_every=7) as service:
        create(service, policy=policy, **many())
        for turn in range(20):
            reward(service, decide(service).decision_id, float(turn % 2))
        add_arms(service, "new", "newer")
        remove_arms(service, "arm-7", "new")
        open_one = decide(service)
        (digest,) = set(digests(service))
        assert is_compact(service.loops.get("loop").agent.actions)
        rows = service.store.write_sync(lambda c: [*sql.events_after(c, 1, 0)])
        assert max(len(body) for _, _, body in rows) < 2_000  # what an arm is, is not in events
    with opened(place) as service:
        assert set(digests(service)) == {digest}
        reward(service, open_one.decision_id, 1.0)


def test_thousands_of_arms_without_features_take_no_table() -> None:
    spec = spec_of(THOMPSON, **many())
    tracemalloc.start()
    try:
        agent = start_agent(spec)
        agent.update(agent.decide(), 1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32e6


def test_a_request_may_list_so_many_arms_and_no_more() -> None:
    assert checked_count(MOST_ARMS) == MOST_ARMS
    with pytest.raises(
        Refused, match="arms must have features where there are more than 100,000, got 100,001"
    ):
        checked_count(MOST_ARMS + 1)


def test_draws_of_many_arms_are_limited_by_what_they_take() -> None:
    """One number is drawn for each arm without features, and not one for each arm and feature."""
    wanted = f"redraws must be at most 50 for {5 * K} arms without features, got 100: give 50, or 0 where"
    with pytest.raises(Refused, match=wanted):
        start_agent(spec_of(THOMPSON, redraws=100, **many(5 * K)))
    assert start_agent(spec_of(THOMPSON, redraws=100, **many())).k == K


def test_a_batch_of_many_arms_is_no_smaller_than_the_arms_ask_for(place: Place) -> None:
    with opened(place) as service:
        create(service, policy=linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Open()), **many())
        assert 100 < most_in_batch(service.loops.get("loop")) < 1_000


def test_arms_without_features_come_a_few_at_once_where_there_are_many() -> None:
    check_added(5_000, 4_000)
    with pytest.raises(
        Refused, match="must come at most 250 at once where there are 80,000 without features"
    ):
        check_added(251, 80_000)
