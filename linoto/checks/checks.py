"""What every policy promises, as laws to run on your own: `check_policy(policy)`, one law per function.

A law takes a policy and raises where the policy breaks it. Laws about what an agent need not have (delayed
rewards, snapshots, bounds, a compiled loop) run only where it has it: an object whose `start` gives something
with `select` and `update` can be checked too.
"""

from __future__ import annotations

import gc
import json
import math
import tracemalloc
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.agent import LinearAgent
from linoto.core.kernels import Floats
from linoto.core.offline import Offline
from linoto.core.policies import is_arm
from linoto.core.snapshots import KNOWN, from_dict, restore, to_dict
from linoto.worlds.bandits import LinearBandit, on_sphere
from linoto.worlds.simulate import by_hand, simulate

Law = Callable[[Any], None]

ROUNDS = 120
LONG = 700  # rewards; past the first refresh of the kernels
MEMORY_ROUNDS = 100_000  # compiled
MEMORY_STEPS = 2_400  # one decision at a time
MEMORY_LIMIT = 16_384  # bytes; a float a round, interactive, is already more


def check_policy(policy: Any, *, skip: Collection[str] = ()) -> list[str]:
    """Run every law that applies, but those to skip; return their names. AssertionError names the broken one.

    >>> from linoto import LinOtO
    >>> "compiled_equals_interactive" in check_policy(LinOtO())
    True
    """
    unknown = set(skip) - {law.__name__ for _, laws in LAWS for law in laws}
    if unknown:
        raise ValueError(f"skip must hold names of laws, got {', '.join(sorted(unknown))}")
    ran = []
    for name, law in all_checks(policy):
        if name in skip:
            continue
        try:
            law(policy)
        except Exception as error:
            raise AssertionError(f"{policy!r} breaks {name}: {law.__doc__} {error!r}") from error
        ran.append(name)
    return ran


def all_checks(policy: Any) -> Iterator[tuple[str, Law]]:
    """The laws that apply to a policy, each with its name: for `pytest.mark.parametrize`."""
    for applies, laws in LAWS:
        if applies(policy):
            yield from ((law.__name__, law) for law in laws)


# -- a world to try policies in -----------------------------------------------------------------------------


class World(NamedTuple):
    """A bandit, its log, and the noise of every round to come."""

    actions: Floats  # (k, d)
    means: Floats  # (k,)
    offline: Offline
    noise: Floats  # (n,)


@cache
def world(k: int = 6, d: int = 3, logged: tuple[int, ...] = (10, 5, 5)) -> World:
    """A tie-free instance on the unit sphere, whose first arms were logged this often."""
    rng = np.random.default_rng(6)
    bandit = LinearBandit(actions=on_sphere(k, d, rng), theta=on_sphere(1, d, rng)[0])
    pulls = np.zeros(k, dtype=np.int64)
    pulls[: len(logged)] = logged[:k]
    return World(bandit.actions, bandit.means, bandit.log(pulls, rng), rng.standard_normal(LONG))


def start(policy: Any, w: World, seed: int = 0) -> Any:
    """An agent in this world, with actions of its own."""
    return fit(policy, w).start(w.actions.copy(), w.offline, rng=seed)


def fit(policy: Any, w: World) -> Any:
    """The policy, the arms it names taken modulo k, so that every k will do."""
    return rename_arms(policy, lambda arm: arm % len(w.actions))


def rename_arms(policy: Any, new_name: Callable[[int], int]) -> Any:
    """The policy with the arm it names (a fixed fallback) called differently; most name none."""
    if not is_dataclass(policy) or isinstance(policy, type):
        return policy
    changes = {}
    for field in fields(policy):
        old = getattr(policy, field.name)
        new = new_name(int(old)) if field.name == "fallback" and is_arm(old) else rename_arms(old, new_name)
        if new is not old and new != old:
            changes[field.name] = new
    return replace(policy, **changes) if changes else policy


def play(agent: Any, w: World, rounds: range) -> list[int]:
    """The arms of these rounds, one decision at a time: select once, update once."""
    arms = []
    for t in rounds:
        arm = agent.select()
        agent.update(arm, float(w.means[arm] + w.noise[t]))
        arms.append(arm)
    return arms


def view(agent: Any) -> list[Floats]:
    """What an agent shows of its estimate."""
    return [getattr(agent, name) for name in ("theta", "lcb", "ucb") if hasattr(agent, name)]


def innermost(agent: Any) -> Any:
    """The agent itself, or the one at work inside it."""
    return innermost(agent.inner) if hasattr(agent, "inner") else agent


def expect(holds: bool, otherwise: str) -> None:
    """`assert`, which `python -O` would leave out of a suite that is used as a library."""
    if not holds:
        raise AssertionError(otherwise)


def expect_same(left: list[Any], right: list[Any], what: str) -> None:
    """Bit for bit."""
    same = len(left) == len(right) and all(map(np.array_equal, left, right))
    expect(same, f"{what} must be the same, got {left!s:.300} and {right!s:.300}")


def expect_close(found: Any, wanted: Any, what: str, tolerance: float = 1e-8) -> None:
    """Up to a tolerance, relative to the largest entry."""
    error = np.max(np.abs(np.asarray(found) - wanted)) / max(1e-300, float(np.max(np.abs(wanted))))
    expect(bool(error <= tolerance), f"{what} must agree to {tolerance:g}, off by {error:g}")


def expect_refusal(argument: str, call: Callable[[], object]) -> None:
    """A ValueError whose message names the argument."""
    try:
        call()
    except ValueError as error:
        expect(argument in str(error), f"the message must name {argument}, got: {error}")
    else:
        raise AssertionError(f"a bad {argument} must be a ValueError")


# -- a policy is a record -----------------------------------------------------------------------------------


def frozen(policy: Any) -> None:
    """A policy cannot be changed, and has a hash."""
    hash(policy)
    for name in [field.name for field in fields(policy)] or ["anything"]:
        try:
            setattr(policy, name, getattr(policy, name, None))
        except FrozenInstanceError:
            continue
        raise AssertionError(f"{name} can be set")


def keyword_only(policy: Any) -> None:
    """Hyperparameters are given by name."""
    positional = [field.name for field in fields(policy) if field.init and not field.kw_only]
    expect(not positional, f"{', '.join(positional)} can be given by position")


def repr_round_trips(policy: Any) -> None:
    """eval(repr(policy)) == policy."""
    names = {type(record).__name__: type(record) for record in records(policy)}
    expect(eval(repr(policy), {**names, "inf": math.inf}) == policy, f"{policy!r} is another policy")


def records(policy: Any) -> Iterator[Any]:
    """A record and all records in it."""
    if is_dataclass(policy):
        yield policy
        for field in fields(policy):
            yield from records(getattr(policy, field.name))


def json_round_trips(policy: Any) -> None:
    """A policy is plain JSON data, and comes back from it."""
    data = to_dict(policy)
    text = json.dumps(data, allow_nan=False)
    expect(json.loads(text) == data, f"{text} reads back as something else")
    if data["type"] in KNOWN:
        expect(from_dict(json.loads(text)) == policy, f"{text} gives another policy")


def defaults_construct(policy: Any) -> None:
    """A policy starts with its defaults, given no more than the fields that have none."""
    needed = [f.name for f in fields(policy) if f.default is MISSING and f.default_factory is MISSING]
    default = type(policy)(**{name: getattr(policy, name) for name in needed})
    start(default, world()).select()


# -- an agent decides ---------------------------------------------------------------------------------------


def select_gives_an_arm(policy: Any) -> None:
    """select() is a Python int in [0, k), in every round."""
    w = world()
    for arm in play(start(policy, w), w, range(ROUNDS)):
        expect(type(arm) is int and 0 <= arm < len(w.actions), f"select gave {arm!r}")


def select_is_pure(policy: Any) -> None:
    """Selecting twice is selecting once: the same arm until something is committed or observed."""
    w = world()
    agent = start(policy, w)
    for t in range(ROUNDS):
        arm = agent.select()
        again = agent.select()
        expect(arm == again, f"round {t} gave {arm}, then {again}")
        agent.update(arm, float(w.means[arm] + w.noise[t]))


def selecting_more_changes_nothing(policy: Any) -> None:
    """A run does not depend on how often its agent was asked."""
    w = world()
    asked, once = start(policy, w), start(policy, w)
    for t in range(ROUNDS):
        for _ in range(t % 3):
            asked.select()
        expect_same(play(asked, w, range(t, t + 1)), play(once, w, range(t, t + 1)), f"round {t}")


def inputs_are_not_mutated(policy: Any) -> None:
    """Starting and playing leave the actions as they were; logs are read-only anyway."""
    w, actions = world(), world().actions.copy()
    play(fit(policy, w).start(actions, w.offline, rng=0), w, range(ROUNDS))
    expect_same([actions], [w.actions], "actions before and after")


def inputs_are_not_aliased(policy: Any) -> None:
    """What happens to the actions after the start is none of the agent's business."""
    w, actions = world(), world().actions.copy()
    agent = fit(policy, w).start(actions, w.offline, rng=0)
    actions[:] = 7.0
    expect_same(play(agent, w, range(ROUNDS)), play(start(policy, w), w, range(ROUNDS)), "arms")


def same_seed_same_run(policy: Any) -> None:
    """The seed decides a run."""
    w = world()
    for seed in (0, 1):
        bandits = (LinearBandit(actions=w.actions, theta=w.actions[0]) for _ in range(2))
        one, two = (simulate(fit(policy, w), b, w.offline, horizon=ROUNDS, seed=seed) for b in bandits)
        expect_same([one.arms, one.explored], [two.arms, two.explored], f"arms of seed {seed}")


def agents_are_independent(policy: Any) -> None:
    """What one agent goes through does not reach another agent of the same policy."""
    w = world()
    alone = play(start(policy, w), w, range(ROUNDS))
    one, other = start(policy, w), start(policy, w, seed=1)
    for t, arm in enumerate(alone):
        other.update(t % len(w.actions), 5.0)
        expect_same(play(one, w, range(t, t + 1)), [arm], f"round {t}")


def compiled_equals_interactive(policy: Any) -> None:
    """play() gives the arms, the modes and the estimate of a loop by hand, bit for bit."""
    w = world()
    chances = np.clip(w.means, 0.1, 0.9)
    for means, draws, bernoulli in ((w.means, w.noise, False), (chances, np.abs(w.noise) % 1, True)):
        compiled, interactive = start(policy, w), start(policy, w)
        arms, explored = compiled.play(means, draws, bernoulli=bernoulli)
        by_steps = by_hand(interactive, means, draws, bernoulli=bernoulli)
        expect_same([arms, explored], list(by_steps), "arms and modes")
        expect_same(view(compiled), view(interactive), "theta and bounds")


def memory_is_constant(policy: Any) -> None:
    """An agent holds as much after many rounds as after few."""
    w = world()
    agent = start(policy, w)
    play(agent, w, range(300))
    expect_no_growth(lambda: [play(agent, w, range(300)) for _ in range(MEMORY_STEPS // 300)])


def memory_of_the_loop_is_constant(policy: Any) -> None:
    """play() leaves nothing behind but what it returns."""
    w = world()
    agent, draws = start(policy, w), np.resize(w.noise, MEMORY_ROUNDS)
    agent.play(w.means, draws[:300])
    expect_no_growth(lambda: agent.play(w.means, draws))


def expect_no_growth(action: Callable[[], object]) -> None:
    """Little more memory is held after an action than before it."""
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        if tracemalloc.get_traced_memory()[0] - before > MEMORY_LIMIT:
            gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        if not already:
            tracemalloc.stop()
    expect(held <= MEMORY_LIMIT, f"{held} bytes more are held")


# -- edge cases ---------------------------------------------------------------------------------------------


def plays_on(policy: Any, w: World) -> None:
    """Some rounds, every arm in range and every number finite."""
    agent = start(policy, w)
    arms = play(agent, w, range(ROUNDS))
    expect(all(0 <= arm < len(w.actions) for arm in arms), f"arms must be in range, got {set(arms)}")
    for estimate in view(agent):
        expect(bool(np.isfinite(estimate).all()), f"estimates must be finite, got {estimate}")


def one_arm(policy: Any) -> None:
    """k = 1 works: there is one arm to play."""
    plays_on(policy, world(k=1))


def one_feature(policy: Any) -> None:
    """d = 1 works."""
    plays_on(policy, world()._replace(actions=world().actions[:, :1]))


def empty_log(policy: Any) -> None:
    """Without a single logged pull, it starts from nothing, or refuses the empty log by name."""
    try:
        policy.start(world(logged=()).actions, world(logged=()).offline)
    except ValueError as error:
        expect("offline" in str(error), f"a refusal that names offline, not {error!r}")
        return
    plays_on(policy, world(logged=()))


def duplicate_arms(policy: Any) -> None:
    """Arms with the same action are allowed."""
    w = world()
    pulls, sums = w.offline.pulls, w.offline.reward_sums
    twice = Offline(pulls=np.r_[pulls, pulls], reward_sums=np.r_[sums, sums])
    plays_on(policy, World(np.r_[w.actions, w.actions], np.r_[w.means, w.means], twice, w.noise))


def rank_deficient_log(policy: Any) -> None:
    """A log that saw one direction only gives finite bounds."""
    plays_on(policy, world(k=8, d=5, logged=(40,)))


# -- bad input ----------------------------------------------------------------------------------------------


def bad_actions_are_refused(policy: Any) -> None:
    """NaN, infinite, misshapen or missing actions are a ValueError that names `actions`."""
    w = world()
    nan, inf = w.actions.copy(), w.actions.copy()
    nan[0, 0], inf[1, 1] = np.nan, -np.inf
    for bad in (nan, inf, w.actions[0], w.actions[None], w.actions[:0], w.actions[:, :0], "actions"):
        expect_refusal("actions", lambda bad=bad: policy.start(bad, w.offline, rng=0))  # type: ignore[misc]


def bad_logs_are_refused(policy: Any) -> None:
    """A log of other arms, or of another type, is a ValueError that names `offline`."""
    w = world()
    for bad in (Offline.empty(len(w.actions) + 1), w.offline.pulls, None):
        expect_refusal("offline", lambda bad=bad: policy.start(w.actions, bad, rng=0))  # type: ignore[misc]


BAD_ARMS = (-1, 6, 10**30, 1.0, "0", None, True)  # k is 6
BAD_REWARDS = (math.nan, math.inf, -math.inf, None, "high", 1j, 10**400)


def bad_arms_are_refused(policy: Any) -> None:
    """An arm out of range, or no integer, is a ValueError that names `arm`."""
    agent = start(policy, world())
    for bad in BAD_ARMS:
        expect_refusal("arm", lambda bad=bad: agent.update(bad, 0.5))  # type: ignore[misc]


def bad_rewards_are_refused(policy: Any) -> None:
    """A reward that is no finite number is a ValueError that names `reward`."""
    agent = start(policy, world())
    for bad in BAD_REWARDS:
        expect_refusal("reward", lambda bad=bad: agent.update(0, bad))  # type: ignore[misc]


def refused_calls_change_nothing(policy: Any) -> None:
    """After a refused update, the run goes on as if nobody had tried."""
    w = world()
    tried, untouched = start(policy, w), start(policy, w)
    for t in range(ROUNDS):
        for arm, reward in ((BAD_ARMS[t % len(BAD_ARMS)], 0.5), (t % 6, BAD_REWARDS[t % len(BAD_REWARDS)])):
            expect_refusal("", lambda arm=arm, reward=reward: tried.update(arm, reward))  # type: ignore[misc]
        expect_same(play(tried, w, range(t, t + 1)), play(untouched, w, range(t, t + 1)), f"round {t}")
    expect_same(view(tried), view(untouched), "theta and bounds")


# -- delayed, lost and out-of-order rewards -----------------------------------------------------------------

WARM, OPEN = 31, 24  # after 31 rounds a Doubling begins 32 more: those left open fit into one epoch


def committed(policy: Any) -> tuple[Any, list[tuple[int, float]]]:
    """An agent that awaits rewards, and those rewards in order."""
    w = world()
    agent = start(policy, w)
    play(agent, w, range(WARM))
    owed = []
    for t in range(WARM, WARM + OPEN):
        arm = agent.select() if t % 2 else t % len(w.actions)
        agent.commit(arm)
        owed.append((arm, float(w.means[arm] + w.noise[t])))
    return agent, owed


def update_is_commit_and_observe(policy: Any) -> None:
    """commit(arm) and observe(arm, reward) together are update(arm, reward), bit for bit."""
    w = world()
    one, two = start(policy, w), start(policy, w)
    for t in range(ROUNDS):
        arm = two.select()
        two.commit(arm)
        two.observe(arm, float(w.means[arm] + w.noise[t]))
        expect_same([arm], play(one, w, range(t, t + 1)), f"round {t}")
    expect_same(view(one), view(two), "theta and bounds")


def rewards_come_in_any_order(policy: Any) -> None:
    """Rewards out of order give the estimate that they give in order."""
    (in_order, owed), (shuffled, _) = committed(policy), committed(policy)
    for arm, reward in owed:
        in_order.observe(arm, reward)
    for i in np.random.default_rng(3).permutation(len(owed)):
        shuffled.observe(*owed[i])
    if hasattr(in_order, "theta"):
        expect_close(shuffled.theta, in_order.theta, "theta", 1e-9)
    if hasattr(in_order, "ellipsoid"):
        expect_close(shuffled.ellipsoid.V, in_order.ellipsoid.V, "V", 1e-9)


def lost_rewards_block_nothing(policy: Any) -> None:
    """Rewards that never come keep nobody from deciding, nor from learning of others."""
    w = world()
    agent, owed = committed(policy)
    for arm, reward in owed[::3]:
        agent.observe(arm, reward)
    arms = play(agent, w, range(ROUNDS))
    expect(all(0 <= arm < len(w.actions) for arm in arms), f"arms must be in range, got {set(arms)}")


def unowed_rewards_are_refused(policy: Any) -> None:
    """More rewards than commits of an arm are a ValueError that names `arm`."""
    agent, owed = committed(policy)
    for arm, reward in owed:
        agent.observe(arm, reward)
    for arm in {arm for arm, _ in owed}:
        expect_refusal("arm", lambda arm=arm: agent.observe(arm, 0.5))  # type: ignore[misc]


# -- snapshots ----------------------------------------------------------------------------------------------


def snapshots_have_the_same_future(policy: Any) -> None:
    """A snapshot of any round continues as its agent did."""
    w = world()
    agent = start(policy, w)
    blobs, arms = {}, []
    for t in range(ROUNDS):
        if t in (0, 1, 5, 40, ROUNDS - 1):
            blobs[t] = agent.snapshot()
        arms += play(agent, w, range(t, t + 1))
    for t, blob in blobs.items():
        restored = read(policy, blob)
        expect_same(play(restored, w, range(t, ROUNDS)), arms[t:], f"arms from round {t} on")
        expect_same(view(restored), view(agent), "theta and bounds")


def snapshots_await_the_same_rewards(policy: Any) -> None:
    """A snapshot takes the rewards that its agent was still owed."""
    w = world()
    agent, owed = committed(policy)
    restored = read(policy, agent.snapshot())
    for arm, reward in owed:
        agent.observe(arm, reward)
        restored.observe(arm, reward)
    expect_same(play(restored, w, range(ROUNDS)), play(agent, w, range(ROUNDS)), "arms")


def read(policy: Any, blob: bytes) -> Any:
    """The agent of a snapshot: by `policy.restore`, if yours has one, or `linoto.restore`."""
    return getattr(policy, "restore", restore)(blob)


# -- the estimate -------------------------------------------------------------------------------------------


def lower_bounds_never_fall(policy: Any) -> None:
    """The running lower bounds never fall, except where a Doubling starts anew."""
    w = world()
    agent = start(policy, w)
    for t in range(ROUNDS):
        before, epoch = agent.lcb, getattr(agent, "epoch", 0)
        play(agent, w, range(t, t + 1))
        restarted = getattr(agent, "epoch", 0) != epoch
        expect(restarted or bool((agent.lcb >= before).all()), f"{before} fell to {agent.lcb} in round {t}")


def bounds_enclose_the_estimate(policy: Any) -> None:
    """lower <= <theta, a> <= upper for every arm, and the upper bounds are those of the confidence set."""
    w = world()
    agent = start(policy, w)
    for t in range(0, ROUNDS, 10):
        ellipsoid, means = agent.ellipsoid, w.actions @ agent.theta
        lower, upper = (np.array([side(x) for x in w.actions]) for side in (ellipsoid.lower, ellipsoid.upper))
        expect(bool((lower <= means).all() and (means <= upper).all()), f"{lower}, {means}, {upper}")
        expect_close(agent.ucb, upper, "upper bounds")
        expect(bool((agent.lcb >= lower - 1e-8 * np.abs(lower)).all()), f"{agent.lcb} is below {lower}")
        play(agent, w, range(t, t + 10))


def played(policy: Any, w: World) -> tuple[kernels.State, list[int]]:
    """The state after many rounds, and the arms since it began: all of them, unless the agent starts anew."""
    agent = start(policy, w)
    arms = play(agent, w, range(LONG))
    inner = innermost(agent)  # what it knows is of its own rounds
    return inner._state, arms[len(arms) - inner.rounds :]


def inverse_is_inverse(policy: Any) -> None:
    """V times V^-1 is the identity."""
    state, _ = played(policy, world())
    product = state.square[kernels.GRAM] @ state.square[kernels.INVERSE]
    expect_close(product, np.eye(len(product)), "V V^-1")


def estimate_matches_what_was_observed(policy: Any) -> None:
    """V and b are the sums over the log and the rewards that came in."""
    w = world()
    state, arms = played(policy, w)
    k, d = w.actions.shape
    paid = w.means[arms] + w.noise[LONG - len(arms) : LONG]
    counts = w.offline.pulls + np.bincount(arms, minlength=k)
    sums = w.offline.reward_sums + np.bincount(arms, paid, k)
    ridge = float(innermost(start(policy, w))._params[0]["ridge"])
    expect_close(
        state.square[kernels.GRAM], w.actions.T @ (counts[:, None] * w.actions) + ridge * np.eye(d), "V"
    )
    expect_close(state.vectors[kernels.TARGET], w.actions.T @ sums, "b")


def estimate_matches_cholesky(policy: Any) -> None:
    """Means, variances and log det are those of a fresh Cholesky factorisation of V, whatever the log."""
    for w in (world(), world(k=8, d=5, logged=(10, 5, 5))):
        state, _ = played(policy, w)
        root = np.linalg.cholesky(state.square[kernels.GRAM])
        whitened = np.linalg.solve(root, w.actions.T)  # (d, k)
        means = np.linalg.solve(root, state.vectors[kernels.TARGET]) @ whitened
        expect_close(state.arms[kernels.MEAN], means, "means")
        expect_close(
            state.arms[kernels.VARIANCE] / (whitened**2).sum(axis=0), np.ones(len(means)), "variances"
        )
        expect_close(float(state.run[0]["log_det"]), 2 * np.log(np.diag(root)).sum(), "log det V")


# -- symmetry -----------------------------------------------------------------------------------------------


def permuting_arms_permutes_decisions(policy: Any) -> None:
    """An arm's index means nothing: other names for the arms, the same plays."""
    w = world(logged=(307, 199, 101))  # a prime in all: no ties in the logging mixture
    order = np.random.default_rng(1).permutation(len(w.actions))
    names = np.argsort(order)  # (k,) arm a is now called names[a]
    log = Offline(pulls=w.offline.pulls[order], reward_sums=w.offline.reward_sums[order])
    moved = World(w.actions[order], w.means[order], log, w.noise)
    renamed = rename_arms(policy, lambda arm: int(names[arm % len(names)]))
    arms = play(start(renamed, moved), moved, range(ROUNDS))
    expect_same(order[arms].tolist(), play(start(policy, w), w, range(ROUNDS)), "arms")


def rotating_the_space_changes_no_decision(policy: Any) -> None:
    """Features mean nothing one by one: other axes, the same plays."""
    w = world()
    d = w.actions.shape[1]
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    turned = w._replace(actions=w.actions @ rotation)
    expect_same(
        play(start(policy, turned), turned, range(ROUNDS)), play(start(policy, w), w, range(ROUNDS)), "arms"
    )


# -- which laws apply ---------------------------------------------------------------------------------------


def always(policy: Any) -> bool:
    """Every policy is checked."""
    return True


def is_record(policy: Any) -> bool:
    """Policies that are dataclasses."""
    return is_dataclass(policy)


def agent_has(*names: str) -> Callable[[Any], bool]:
    """Policies whose agent, or the one at work inside it, has these."""
    return lambda policy: all(hasattr(innermost(start(policy, world())), name) for name in names)


def is_linear(policy: Any) -> bool:
    """Agents that run on the kernels."""
    return isinstance(innermost(start(policy, world())), LinearAgent)


def is_deterministic(policy: Any) -> bool:
    """Policies that play the same whatever the seed."""
    w = world()
    runs = [play(start(policy, w, seed), w, range(ROUNDS)) for seed in range(4)]
    return all(arms == runs[0] for arms in runs)


LAWS: tuple[tuple[Callable[[Any], bool], tuple[Law, ...]], ...] = (
    (is_record, (frozen, keyword_only, repr_round_trips, json_round_trips, defaults_construct)),
    (always, (select_gives_an_arm, select_is_pure, selecting_more_changes_nothing, same_seed_same_run)),
    (always, (inputs_are_not_mutated, inputs_are_not_aliased, agents_are_independent, memory_is_constant)),
    (always, (one_arm, one_feature, empty_log, duplicate_arms, rank_deficient_log)),
    (always, (bad_actions_are_refused, bad_logs_are_refused, bad_arms_are_refused, bad_rewards_are_refused)),
    (always, (refused_calls_change_nothing,)),
    (agent_has("play"), (compiled_equals_interactive, memory_of_the_loop_is_constant)),
    (agent_has("commit", "observe"), (update_is_commit_and_observe, rewards_come_in_any_order)),
    (agent_has("commit", "observe"), (lost_rewards_block_nothing, unowed_rewards_are_refused)),
    (agent_has("snapshot"), (snapshots_have_the_same_future,)),
    (agent_has("snapshot", "commit", "observe"), (snapshots_await_the_same_rewards,)),
    (agent_has("lcb"), (lower_bounds_never_fall,)),
    (is_linear, (bounds_enclose_the_estimate, inverse_is_inverse, estimate_matches_cholesky)),
    (is_linear, (estimate_matches_what_was_observed,)),
    (is_deterministic, (permuting_arms_permutes_decisions, rotating_the_space_changes_no_decision)),
)
