"""Bad input: a ValueError that names the argument, what was expected and what came; nothing has changed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from linoto.checks.problems import small_problem
from linoto.core.confidence import PAPER, Confidence, Ellipsoid
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget
from linoto.core.offline import Offline
from linoto.core.policies import Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random
from linoto.worlds.bandits import LinearBandit, logged_pulls, sphere_bandit
from linoto.worlds.simulate import simulate

NAN, INF = math.nan, math.inf
Case = tuple[Callable[[], object], str]


def start(actions: Any, policy: Any = LinOtO()) -> Any:  # noqa: B008 - frozen
    return policy.start(actions, Offline.empty(2))


def started(policy: Any) -> Any:
    w = small_problem()
    return policy.start(w.actions, w.offline, rng=0)


def bandit(**changes: Any) -> LinearBandit:
    return LinearBandit(**{"actions": np.eye(2), "theta": [0.5, 0.2], **changes})


def run(**changes: Any) -> Any:
    settings: dict[str, Any] = {"horizon": 5, **changes}
    return simulate(LinOtO(), bandit(), settings.pop("offline", Offline.empty(2)), **settings)


def log(pulls: Any = (1, 1), reward_sums: Any = (0.5, 0.5), **more: Any) -> Offline:
    return Offline(pulls=pulls, reward_sums=reward_sums, **more)


RNG = np.random.default_rng(0)

CASES: dict[str, Case] = {
    # the arm set
    "NaN action": (lambda: start([[1.0, NAN], [0.0, 1.0]]), r"actions must be finite, got nan at \[0, 1\]"),
    "infinite action": (
        lambda: start([[1.0, 0.0], [INF, 1.0]]),
        r"actions must be finite, got inf at \[1, 0\]",
    ),
    "flat actions": (lambda: start([1.0, 2.0]), r"actions must have 2 dimension.*, got shape \(2,\)"),
    "deep actions": (
        lambda: start(np.ones((2, 2, 2))),
        r"actions must have 2 dimension.*, got shape \(2, 2, 2\)",
    ),
    "ragged actions": (lambda: start([[1.0], [1.0, 2.0]]), "actions must be an array of numbers, got list"),
    "words for actions": (lambda: start([["a", "b"]]), "actions must be an array of numbers, got list"),
    "no actions": (lambda: start(None), "actions must be given with a log of fixed arms, got None"),
    "no arm": (lambda: start(np.ones((0, 3))), r"actions must hold at least one arm .*, got shape \(0, 3\)"),
    "no feature": (lambda: start(np.ones((2, 0))), r"actions must hold .* one feature, got shape \(2, 0\)"),
    "huge action": (lambda: start([[10**400, 1], [0, 1]]), "actions must be an array of numbers, got list"),
    "log of other arms": (lambda: start(np.eye(3)), "offline must cover the 3 arms of actions, got 2"),
    "log of another kind": (
        lambda: LinOtO().start(np.eye(2), [3, 4]),  # type: ignore[arg-type]
        "offline must be a linoto.Offline, got list",
    ),
    "negative seed": (lambda: LinOtO().start(np.eye(2), Offline.empty(2), rng=-1), "rng must be .*, got -1"),
    "fractional seed": (
        lambda: LinOtO().start(np.eye(2), Offline.empty(2), rng=0.5),
        "rng must be .*, got 0.5",
    ),  # type: ignore[arg-type]
    "a seed in words": (
        lambda: LinOtO().start(np.eye(2), Offline.empty(2), rng="one"),  # type: ignore[arg-type]
        "rng must be .*, got 'one'",
    ),
    "too few names": (
        lambda: LinOtO().start(np.eye(2), Offline.empty(2), names=["a"]),
        "names must be 2 distinct names, got 1 with 1 distinct",
    ),
    "equal names": (
        lambda: LinOtO().start(np.eye(2), Offline.empty(2), names=["a", "a"]),
        "names must be 2 distinct names, got 2 with 1 distinct: 'a' more than once",
    ),
    "fallback out of range": (
        lambda: start(np.eye(2), Gated(fallback=2, gate=Budget())),
        r"fallback must be in \[0, 2\), got 2",
    ),
    # logs
    "negative pulls": (lambda: log(pulls=[-1, 2]), "pulls must be whole numbers >= 0, got -1"),
    "fractional pulls": (lambda: log(pulls=[1.5, 2]), "pulls must be whole numbers >= 0, got 1.5"),
    "NaN pulls": (lambda: log(pulls=[NAN, 2]), r"pulls must be finite, got nan at \[0\]"),
    "infinite pulls": (lambda: log(pulls=[1, INF]), r"pulls must be finite, got inf at \[1\]"),
    "misshapen pulls": (lambda: log(pulls=[[1, 2]]), r"pulls must have 1 dimension.*, got shape \(1, 2\)"),
    "no pulls": (lambda: log(pulls=[], reward_sums=[]), "pulls must hold at least one arm, got none"),
    "far too many pulls": (
        lambda: log(pulls=[2.0**60, 1]),
        r"pulls must be at most 2\*\*53, got 1.15292e\+18",
    ),
    "NaN reward sum": (lambda: log(reward_sums=[NAN, 1]), r"reward_sums must be finite, got nan at \[0\]"),
    "infinite reward sum": (
        lambda: log(reward_sums=[1, -INF]),
        r"reward_sums must be finite, got -inf at \[1\]",
    ),
    "too many reward sums": (
        lambda: log(reward_sums=[1, 2, 3]),
        r"reward_sums must have shape \(2,\) like pulls, got \(3,\)",
    ),
    "rewards of an unpulled arm": (
        lambda: log(pulls=[1, 0], reward_sums=[1, 2]),
        "reward_sums must be 0 where pulls is 0, got 2 for arm 1",
    ),
    "too many squares": (
        lambda: log(reward_squares=[1, 1, 1]),
        r"reward_squares must have shape \(2,\), got \(3,\)",
    ),
    "impossible squares": (
        lambda: log(reward_squares=[0.1, 1.0]),
        r"reward_squares must be at least reward_sums\*\*2 / pulls, got 0.1 < 0.25 for arm 0",
    ),
    "squares of an unpulled arm": (
        lambda: log(pulls=[1, 0], reward_sums=[1, 0], reward_squares=[1, 2]),
        "reward_squares must be 0 where pulls is 0, got 2 for arm 1",
    ),
    "logged arm out of range": (
        lambda: Offline.from_rows([0, 2], [1, 1], k=2),
        r"arms must be in \[0, 2\), got 2",
    ),
    "logged arm negative": (
        lambda: Offline.from_rows([0, -1], [1, 1], k=2),
        r"arms must be in \[0, 2\), got -1",
    ),
    "logged arm fractional": (
        lambda: Offline.from_rows([0.5], [1], k=2),
        "arms must be .* indices, got float64",
    ),
    "logged reward missing": (
        lambda: Offline.from_rows([0, 1], [1], k=2),
        "rewards must .*: 2 arms, 1 rewards",
    ),
    "logged reward NaN": (lambda: Offline.from_rows([0], [NAN], k=2), "rewards must be finite, got nan"),
    "logs of other arms": (
        lambda: Offline.empty(2) + Offline.empty(3),
        "logs must have the same arms, got 2 and 3",
    ),
    # confidence
    **{
        f"delta {bad!r}": (lambda bad=bad: Confidence(delta=bad), rf"delta must be in \(0, 1\), got {bad!r}")  # type: ignore[misc]
        for bad in (0, 1, 0.0, 1.0, -0.1, 1.5, NAN, None, True, "0.1")
    },
    **{
        f"{name} {bad!r}": (
            lambda name=name, bad=bad: Confidence(**{name: bad}),  # type: ignore[misc]
            f"{name} must be a positive number.*, got {bad!r}",
        )
        for name in ("ridge", "noise", "bound")
        for bad in (0, -1.0, NAN, INF, "1", True)
    },
    "unknown radius": (
        lambda: Confidence(radius="pythagoras"),  # type: ignore[arg-type]
        "radius must be one of 'self_normalised', 'hkz', 'paper', 'arms', 'own', got 'pythagoras'",
    ),
    "unknown design": (
        lambda: Confidence(design="chaotic"),  # type: ignore[arg-type]
        "design must be one of 'fixed', 'adaptive', got 'chaotic'",
    ),
    "empty reward range": (
        lambda: Confidence(reward_range=(1.0, 1.0)),
        r"reward_range must be \(lo, hi\) with lo < hi, got \(1.0, 1.0\)",
    ),
    "endless reward range": (
        lambda: Confidence(reward_range=(0.0, INF)),
        "reward_range must be finite, got inf",
    ),
    "one-sided reward range": (
        lambda: Confidence(reward_range=(0.0,)),  # type: ignore[arg-type]
        r"reward_range must be \(lo, hi\) with lo < hi, got \(0.0,\)",
    ),
    "an ellipsoid of nothing": (
        lambda: Ellipsoid(center=[], V=np.zeros((0, 0)), radius=1.0),  # type: ignore[arg-type]
        "center must have at least one entry",
    ),
    "a matrix in small units that is not symmetric": (
        lambda: Ellipsoid(center=[0.0, 0.0], V=[[1e-12, 5e-9], [0.0, 1e-12]], radius=1.0),  # type: ignore[arg-type]
        "V must be symmetric and positive definite",
    ),
    "misshapen V": (
        lambda: Ellipsoid(center=[0.0, 0.0], V=np.eye(3), radius=1.0),
        r"V must have shape \(2, 2\)",
    ),  # type: ignore[arg-type]
    "vector of another space": (
        lambda: Ellipsoid(center=[0.0], V=[[1.0]], radius=1.0).lower([1.0, 2.0]),  # type: ignore[arg-type]
        "x must have 1 entries, got 2",
    ),
    # policies
    **{
        f"alpha {bad!r}": (lambda bad=bad: LinOtO(alpha=bad), f"alpha must be a number >= 0, got {bad!r}")  # type: ignore[misc]
        for bad in (-1e-9, NAN, INF, None, "small", True)
    },
    "unknown budget of LinOtO": (
        lambda: LinOtO(budget="infinite"),  # type: ignore[arg-type]
        "budget must be one of 'exact', 'aggregate', 'max', got 'infinite'",
    ),
    "unknown form": (
        lambda: Budget(form="infinite"),  # type: ignore[arg-type]
        "form must be one of 'exact', 'aggregate', 'max', got 'infinite'",
    ),
    "unhashable form": (lambda: Budget(form=[]), r"form must be one of .*, got \[\]"),  # type: ignore[arg-type]
    "unknown slack": (
        lambda: Budget(slack="none"),  # type: ignore[arg-type]
        "slack must be one of 'paper', 'coverage', got 'none'",
    ),
    "negative scale of LinUCB": (lambda: LinUCB(scale=-1.0), "scale must be a number >= 0, got -1.0"),
    "NaN scale of LinTS": (lambda: LinTS(scale=NAN), "scale must be a number >= 0, got nan"),
    "half frozen": (lambda: LinLCB(frozen=0.5), "frozen must be True or False, got 0.5"),  # type: ignore[arg-type]
    "confidence as a number": (
        lambda: Greedy(confidence=0.95),  # type: ignore[arg-type]
        "confidence must be a linoto.Confidence or None, got 0.95",
    ),
    "policy as explorer": (lambda: Gated(explorer=LinOtO()), "explorer must be LinUCB, .*, got LinOtO"),  # type: ignore[arg-type]
    "class as gate": (lambda: Gated(gate=Budget), "gate must be Open, .*, got <class"),  # type: ignore[arg-type]
    "unknown fallback": (lambda: Gated(fallback="hope"), "fallback must be one of .*, got 'hope'"),  # type: ignore[arg-type]
    "unknown reach": (lambda: Gated(reach="far"), "reach must be one of .*, got 'far'"),  # type: ignore[arg-type]
    # worlds
    "NaN theta": (lambda: bandit(theta=[NAN, 1.0]), r"theta must be finite, got nan at \[0\]"),
    "theta of another space": (lambda: bandit(theta=[1.0]), "theta must have 2 entries like actions, got 1"),
    "negative noise": (lambda: bandit(noise=-1.0), "noise must be a number >= 0, got -1.0"),
    "unknown rewards": (lambda: bandit(rewards="cauchy"), "rewards must be one of .*, got 'cauchy'"),
    "chance above one": (
        lambda: bandit(theta=[1.5, 0.2], rewards="bernoulli"),
        r"theta must give means in \[0, 1\] for Bernoulli rewards, got \[0.2, 1.5\]",
    ),
    "log of pulls of other arms": (lambda: bandit().log([1, 2, 3], RNG), "pulls must have .* 2 arms, got 3"),
    "no arms on the sphere": (lambda: sphere_bandit(k=0, rng=RNG), "k must be a whole number >= 1, got 0"),
    "half a dimension": (lambda: sphere_bandit(d=2.5, rng=RNG), "d must be a whole number >= 1, got 2.5"),  # type: ignore[arg-type]
    "more logged arms than arms": (
        lambda: logged_pulls(bandit(), arms=5, rng=RNG),
        "arms must be at most 1 here, got 5",
    ),
    "an empty design": (
        lambda: logged_pulls(bandit(), m=0, arms=1, rng=RNG),
        "m must be a whole number >= 1, got 0",
    ),
    # what NumPy would take half of
    "rewards behind a mask": (
        lambda: Offline.from_rows([0, 0], np.ma.masked_array([1.0, 9.0], mask=[0, 1]), k=1),
        "rewards must have no missing numbers, got some behind a mask",
    ),
    "complex arms of a round": (
        lambda: LinTS().start(None, d=2, rng=0).decide(actions=np.eye(2) + 5j),
        "actions must be real numbers, got complex ones",
    ),
    "arms of a round behind a mask": (
        lambda: LinTS().start(None, d=2, rng=0).decide(actions=np.ma.masked_array(np.eye(2), mask=True)),
        "actions must have no missing numbers, got some behind a mask",
    ),
    **{
        f"plays of {len(plays)} arms": (
            lambda plays=plays: started(LinOtO()).next_mixture_arm(plays),
            f"plays must have 6 entries, got {len(plays)}",
        )  # type: ignore[misc]
        for plays in ([], [1], [5] * 7)
    },
    # simulations
    **{
        f"horizon {bad!r}": (
            lambda bad=bad: run(horizon=bad),
            f"horizon must be a whole number >= 1, got {bad!r}",
        )  # type: ignore[misc]
        for bad in (0, -3, 2.5, None, True, "9")
    },
    "another horizon than the noise": (
        lambda: run(noise=np.zeros(4)),
        "horizon must be 4, the length of noise, got 5",
    ),
    "no noise": (lambda: run(noise=[], horizon=None), "horizon must be a whole number >= 1, got 0"),
    "NaN noise": (lambda: run(noise=[0.0, NAN], horizon=None), r"noise must be finite, got nan at \[1\]"),
    "misshapen noise": (
        lambda: run(noise=[[0.0]], horizon=None),
        r"noise must have 1 dimension.*, got shape",
    ),
    "simulated log of other arms": (
        lambda: run(offline=Offline.empty(3)),
        "offline must cover the 2 arms .*, got 3",
    ),
    "simulated log of another kind": (
        lambda: run(offline=None),
        "offline must be a linoto.Offline, got NoneType",
    ),
}


@pytest.mark.parametrize("call, message", CASES.values(), ids=CASES.keys())
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


AGENTS = [
    LinOtO(),
    LinTS(),
    Random(),
    Gated(fallback=1),
    LinUCB(scale=1.0, confidence=PAPER),
    Doubling(policy=LinOtO()),
]

CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    **{
        f"{verb} arm {bad!r}": (
            lambda agent, verb=verb, bad=bad: getattr(agent, verb)(
                bad, *([] if verb in ("commit", "guard") else [0.5])
            ),  # type: ignore[misc]
            rf"arm must be (an integer )?in \[0, 6\), got {bad!r}",
        )
        for verb in ("update", "commit", "observe", "guard")
        for bad in (-1, 6, 10**30, 0.0, NAN, None, "0", True)
    },
    **{
        f"{verb} reward {bad!r}": (
            lambda agent, verb=verb, bad=bad: getattr(agent, verb)(4, bad),  # type: ignore[misc]
            f"reward must be (finite|a number), got {bad!r}",
        )
        for verb in ("update", "observe")
        for bad in (NAN, INF, -INF, None, "high", 1j)
    },
    "update reward that is too large": (
        lambda agent: agent.update(4, 10**400),
        "reward must be a number, got 1000",
    ),
    "observe what was not committed": (lambda agent: agent.observe(0, 0.5), "arm must have .*, got 0"),
    "bounds of a number": (lambda agent: agent.bounds(0), "^decision must be a Decision, got int$"),
    "decide among nothing": (lambda agent: agent.decide([]), "allowed must hold at least one arm, got none"),
    "decide among others": (lambda agent: agent.decide([6]), r"allowed must be in \[0, 6\), got 6"),
    "select with a short mask": (
        lambda agent: agent.select(np.ones(5, dtype=bool)),
        r"allowed must be .* a mask of shape \(6,\), got shape \(5,\)",
    ),
}


@pytest.mark.parametrize("policy", AGENTS, ids=[str(policy)[:24] for policy in AGENTS])
def test_a_refused_call_names_its_argument_and_changes_nothing(policy: Any) -> None:
    w, agent = small_problem(), started(policy)
    w.play_rounds(agent, range(20))
    agent.commit(4)  # one reward is owed
    agent.select()
    before = agent.snapshot()
    for name, (call, message) in CALLS.items():
        with pytest.raises(ValueError, match=message):
            call(agent)
        assert agent.snapshot() == before, name
    agent.observe(4, 0.5)
