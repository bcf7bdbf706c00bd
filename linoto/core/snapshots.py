"""Reading snapshots back: the same future, or a clear refusal."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Set
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import codec, kernels, policies, research
from linoto.core.agent import Agent
from linoto.core.arm_changes import ArmChange, composition_after
from linoto.core.arrays import Bools, Floats, Records
from linoto.core.codec import foreign_types
from linoto.core.coins import KeyedCoins, decode_coins
from linoto.core.confidence import Confidence
from linoto.core.decisions import Decision
from linoto.core.default_gate import usual_share
from linoto.core.doubling import Doubling, DoublingAgent
from linoto.core.drivers.fixed import FixedArms
from linoto.core.drivers.metric_models import begin_models_of_arms, begin_models_of_rounds, stored_of
from linoto.core.drivers.order import Order
from linoto.core.drivers.questions import Features, Round, framed_in
from linoto.core.drivers.round_states import empty_state
from linoto.core.drivers.rounds import RoundArms
from linoto.core.explorers import forgetting_of
from linoto.core.features.digests import check_same_features
from linoto.core.features.moments import Moments
from linoto.core.gates import GATES, Gate
from linoto.core.gates.older import OlderTolerance
from linoto.core.guard import Guard
from linoto.core.guardrail import Guardrail
from linoto.core.item_changes import features_after
from linoto.core.kernels import State
from linoto.core.learnt import LearntPolicy
from linoto.core.names import from_stored
from linoto.core.npz import read_members
from linoto.core.offline import Offline
from linoto.core.one_hot import OneHotArms, find_one_hot, is_compact, same_arms
from linoto.core.oope import OOPE
from linoto.core.open_rounds import OpenRounds
from linoto.core.parameters import params_for_rounds
from linoto.core.plain_python import run_once
from linoto.core.protocols import Composition, Policy
from linoto.core.rails import Rails
from linoto.core.resting import offline_of
from linoto.core.running import Running
from linoto.core.saving import SNAPSHOT_FORMAT, STORED_NAMES, digest_of, lasting_rows
from linoto.core.slices import is_wide, slices_for, slicing
from linoto.core.thin_rows import filled
from linoto.core.tickets import Tickets
from linoto.core.usual_confidence import says_as_much
from linoto.core.validation import as_features, stays_float32
from linoto.core.whitening import is_whitened, white_steps, whitening

SHORT = 4096  # characters of a policy that is kept for the next one: one that was learnt may have millions
KNOWN: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Confidence,
        Doubling,
        *GATES,
        OlderTolerance,
        *policies.EXPLORERS,
        *research.RESEARCH_EXPLORERS,
        research.OtO,
        OOPE,
        policies.LinOtO,
        policies.LinLCB,
        policies.Gated,
        Guardrail,
        LearntPolicy,
    )
}
OLDER_ROWS = {  # format 1 held the rows by their place
    "square": ("gram", "inverse", "factor", "root", "root_t"),
    "vectors": (
        *("target", "theta", "half", "xbar", "played", "excess", "normals"),
        *("step", "work", "residue", "refined"),
    ),
    "arms": (
        *("offline_sums", "seen", "sums", "plays", "mean", "variance", "width", "lcb", "first_lcb"),
        *("score", "room", "given", "cross"),
    ),
    "counts": ("logged", "pending", "pending_mixture", "mixed", "allowed"),
}
SINCE = {"lost": 3}  # rows that came later, and the format that must hold them
NOT_ALWAYS = kernels.SCRATCH | {"given", "first_lcb"}  # rows that a snapshot may leave out
ALWAYS_SHIFTED = {  # rows of every agent whose log may have moved
    *("log_gram", "log_root", "moved", "lift"),
    *(f"online_{name}" for name in kernels.ONLINE_ROWS - kernels.ARM_BOUND_ROWS - {"place"}),
}
KINDS = {  # of snapshots: in words, and what may be given to restore one
    "linear": ("an agent with fixed arms", "actions"),
    "doubling": ("an agent with fixed arms", "actions"),
    "guard": ("a Guard, which has no features", ""),
    "contextual": ("an agent whose rounds bring their arms", "features"),
}
Arrays = dict[str, npt.NDArray[Any]]


def to_dict(policy: Policy | Gate | Confidence) -> dict[str, Any]:
    """A policy, gate or confidence as plain JSON data.

    >>> to_dict(policies.Random())
    {'type': 'Random'}
    """
    data: dict[str, Any] = codec.encode(policy)
    return data


def from_dict(data: dict[str, Any], *, stored: bool = False) -> Any:
    """The policy, gate or confidence that `to_dict` wrote.

    A missing field takes its default; in data that an older version `stored`, what it meant then.

    >>> from_dict({"type": "LinTS", "scale": 0.5}) == policies.LinTS(scale=0.5)
    True
    """
    if not isinstance(data, dict):
        raise ValueError(f"policy must be a dict with a type, got {type(data).__name__}")
    return codec.decode(data, KNOWN, stored=stored)


def stored_policy(data: dict[str, Any]) -> Any:
    """The same for a policy as a snapshot or a loop holds it."""
    text = json.dumps(data)
    return short_policy(text) if len(text) < SHORT else from_dict(data, stored=True)


@lru_cache(256)
def short_policy(text: str) -> Any:
    """Thousands of loops of one service share a few policies, and none of these can be changed."""
    return from_dict(json.loads(text), stored=True)


def resume(blob: bytes, actions: npt.ArrayLike) -> Any:
    """The agent whose `checkpoint()` this is, or `snapshot()` however many arms came since its start."""
    arms = as_features(actions)
    agent, header = restored(blob, arms, None, None)
    k, d = arms.shape
    if "first_arms" not in header and not same_arms(arms, agent.actions[:k, :d]):
        raise ValueError("actions must be the arms that the agent was started with, got another arm set")
    return agent


def restore(
    blob: bytes,
    actions: npt.ArrayLike | None = None,
    *,
    policy: Policy | None = None,
    features: Features | None = None,
) -> Any:
    """The agent whose `snapshot()` this is. Give `actions` to insist that the arm set is unchanged.

    A `checkpoint()` needs them: those that the agent was started with. Give `policy` where it has an explorer
    of your own, and `features` where the agent was started with some: neither holds code.
    """
    given = None if actions is None else as_features(actions)
    agent, header = restored(blob, given, policy, features)
    kind, takes = KINDS[header["agent"]]
    for name, value in {"features": features, "actions": actions}.items():
        if value is not None and name != takes:
            raise ValueError(f"{name} must be None for the snapshot of {kind}")
    if given is not None and "first_arms" not in header and not same_arms(given, agent.actions):
        raise ValueError("actions must be the arms of the snapshot, got another arm set")
    return agent


def restored(
    blob: bytes, first: Floats | None, policy: Policy | None, features: Features | None
) -> tuple[Any, dict[str, Any]]:
    """The agent that was kept, and its header; `first` (k, d) are the arms of a checkpoint."""
    readers: dict[str, Callable[..., Any]] = {
        "linear": restore_fixed,
        "doubling": restore_doubling,
        "guard": restore_guard,
        "contextual": partial(restore_rounds, features=features),
    }
    try:
        header, arrays = read_snapshot(blob)
        if "first_arms" in header:
            arrays["actions"] = with_first_arms(header["first_arms"], arrays, first)
        return readers[header["agent"]](header, arrays, policy), header
    except ValueError:
        raise
    except Exception as error:  # zip, npy, JSON and the generators each complain in their own way
        raise ValueError("snapshot must be bytes written by agent.snapshot(), got something else") from error


def with_first_arms(digest: str, arrays: Arrays, first: Floats | None) -> Floats:
    """(d, k) the features of all arms: those that a checkpoint left out, and those that came later."""
    if first is None:
        raise ValueError("snapshot must hold its arms, got a checkpoint: give those of the agent's start")
    if digest_of(first.T) != digest:
        raise ValueError("actions must be the arms that the agent was started with, got another arm set")
    later = arrays["actions"]
    if later.shape[1] == 0:
        return first.T
    features = np.zeros((len(later), len(first) + later.shape[1]))
    features[: first.shape[1], : len(first)] = first.T
    features[:, len(first) :] = later
    return features


def read_snapshot(blob: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a snapshot of this format."""
    try:
        begins, members = read_members(blob)
        arrays = {name.removesuffix(".npy"): read_array(data) for name, data in members.items()}
        header = json.loads(str(arrays.pop("header")))
    except (ValueError, zipfile.BadZipFile):
        raise ValueError("snapshot must be bytes written by agent.snapshot(), got something else") from None
    if begins != 0:  # half a Doubling's snapshot would pass for the whole one of the agent inside
        raise ValueError("snapshot must be complete, got a part of one")
    if header["format"] not in range(1, SNAPSHOT_FORMAT + 1):
        raise ValueError(
            f"snapshot must be of format {SNAPSHOT_FORMAT} or older, got format {header['format']!r}"
        )
    return header, filled(header.get("thin", {}), arrays)


def read_array(data: bytes) -> npt.NDArray[Any]:
    """An array as numpy writes it, never an object; numpy evaluates its description each time as Python."""
    if not data.startswith(b"\x93NUMPY\x01\x00"):  # a description that is longer than any of ours
        return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
    begins = 10 + int.from_bytes(data[8:10], "little")
    shape, by_columns, kind = described_array(data[8:begins])
    flat = np.frombuffer(data, kind, offset=begins)
    return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")


@lru_cache(4096)
def described_array(description: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether columns come first, type): thousands of agents of one service share a few of these."""
    return np.lib.format.read_array_header_1_0(io.BytesIO(description))


def restore_fixed(header: dict[str, Any], arrays: Arrays, given: Policy | None) -> Agent:
    """An agent of fixed arms from its header and arrays; its parameters are made anew from its policy."""
    policy = known_policy(header["policy"], given)
    changes = tuple(ArmChange[int].from_dict(change) for change in header.get("changes", ()))
    composition, names = composition_after(policy.composed(), changes), header["names"]
    every, weight = forgetting_of(composition.explorer)
    windowed = every > 0 and weight == 0.0
    needed = composition.gate.rows | (kernels.MEMORY_ROWS if windowed else set())
    if any(change.left is not None for change in changes):
        needed |= kernels.PRACTICE_ROWS
    if composition.resolved_fallback() == "frozen":
        needed |= {"first_lcb"}
    rows = by_name(arrays) if header["format"] == 1 else arrays
    state = restored_state(rows, header["format"], needed, shifted=composition.assumed.shift > 0)
    squares = arrays.get("reward_squares")
    known = squares if header.get("by_squares", False) else None  # older versions bounded nothing by them
    params = composition.params(kernels.actions_in(state), offline_of(state, known))
    if params[0]["explorer"] >= kernels.UCB1:
        kernels.tally(params, state)
    if state.run["whitened"][0]:
        run_once(kernels.white_arms, state, steps=white_steps(state))
        run_once(kernels.white_estimate, params, state, steps=white_steps(state))
    driver = FixedArms(
        composition=composition,
        running=running_of(header, arrays, composition, params, state),
        names=from_stored(names, state.actions.shape[1]),
        reward_squares=squares,
        changes=changes,
    )
    restore_models_of_arms(driver, arrays, header["format"])
    driver.accepted = accepted_arms(arrays, driver.k)
    driver.first_arms = header.get("first_arms", "")
    if "lists.book" in arrays:
        driver.listing.resume(arrays)
    return Agent(policy, driver)


def accepted_arms(arrays: Arrays, k: int) -> Bools | None:
    """(k,) what guardrails let the explorer propose in the round whose coin is thrown, where they did."""
    if "accepted" not in arrays:
        return None
    accepted = np.zeros(k, np.bool_)
    copy_exactly("accepted", arrays, accepted)
    return accepted


def running_of(
    header: dict[str, Any], arrays: Arrays, composition: Composition, params: Records, state: kernels.State
) -> Running:
    """What a snapshot holds of any agent that runs."""
    rounds = int(state.run[0]["rounds"])
    pulls = state.counts[kernels.LOGGED]
    rails = Rails.begin(composition.guardrails, composition.gate, composition.assumed, pulls)
    if rails is not None:
        rails.load(header, arrays)
    return Running(
        params=params,
        held=state,
        rng=codec.decode_rng(header["rng"]),
        coins=decode_coins(header["coins"], rounds) if "coins" in header else None,
        open_rounds=OpenRounds.of(header, arrays, rounds),
        tickets=Tickets.load(header, arrays, rounds),
        stays_safe=bool(header.get("stays_safe", False)),
        rails=rails,
    )


def known_policy(data: dict[str, Any], given: Policy | None) -> Any:
    """The policy of a snapshot, or the given one if that was written, or what it was started as."""
    if given is None:
        try:
            return stored_policy(data)
        except ValueError:
            foreign = [name for name in foreign_types(data) if name not in KNOWN]
            if not foreign:
                raise
            raise ValueError(
                f"policy must be given for a snapshot with {foreign[0]}, which holds no code, got None"
            ) from None
    written = codec.completed(data, KNOWN)
    if codec.encode(given) == written:
        return given
    if (started := as_started(given, written)) is None:
        raise ValueError(f"policy must be the one of the snapshot, {data}, got {given!r}")
    return started


def as_started(given: Any, written: dict[str, Any]) -> Any:
    """The given policy with the confidence that its start found and wrote; None: another one was written."""
    found = codec.decode(written.get("confidence"), KNOWN)
    if not isinstance(found, Confidence) or not hasattr(given, "confidence"):
        return None
    started = replace(given, confidence=found)
    if codec.encode(started) != written or not says_as_much(found, given.composed().assumed):
        return None
    return started


def by_name(arrays: Arrays) -> Arrays:
    """The arrays of format 1 with each row under its name."""
    rows = {
        f"{group}.{name}": arrays[group][index]
        for group, names in OLDER_ROWS.items()
        for index, name in enumerate(names)
    }
    return {"actions": arrays["actions"], "run": arrays["run"], **rows}


def restored_state(arrays: Arrays, format: int, special: Set[str], *, shifted: bool) -> kernels.State:
    """A state with every row and field that the snapshot holds; those of later versions begin at 0.

    `special` rows are those that its gate, its explorer or its changes of arms need besides.
    """
    actions = arrays.get("actions", np.zeros(0))
    kind_fits = actions.dtype == np.float64 or stays_float32(actions.T)
    if actions.ndim != 2 or 0 in actions.shape or not kind_fits:
        raise ValueError(f"snapshot must hold the actions of an agent, got shape {actions.shape}")
    units = units_of(arrays)
    more, whitened = "square.clicks" in arrays, "square.white_inverse" in arrays
    state = kernels.empty_state(actions.T, units, shifted, more, whitened)
    may_lack = NOT_ALWAYS | (kernels.WHITENED_ROWS if whitened else set())
    may_lack |= {"width"} if "lists.book" in arrays else set()
    for group, names in kernels.row_names(state).items():
        for index, name in enumerate(names):
            known = name in OLDER_ROWS[group] or SINCE.get(name, format + 1) <= format
            needed = name in special or (known and name not in may_lack) or name in ALWAYS_SHIFTED
            unread = name == "first_lcb" and name not in special
            if needed or (f"{group}.{name}" in arrays and not unread):
                copy_exactly(f"{group}.{name}", arrays, getattr(state, group)[index])
    if "arms.width" not in arrays:  # lists leave them out
        np.sqrt(state.arms[kernels.VARIANCE], out=state.arms[kernels.WIDTH])
    copy_fields(arrays, state.run)
    state.run["one_hot"], state.run["whitened"] = units is not None, whitened
    state.run["restricted"] = not state.counts[kernels.ALLOWED].all()  # some were removed
    return state


def units_of(arrays: Arrays) -> OneHotArms | None:
    """One-hot arms as they are stored, by place and scale; those stored with all their zeros keep them.

    Without them the same rewards would give other last digits, and a service compares to the last one.
    """
    actions, places, target = arrays["actions"], arrays.get("arms.place"), arrays.get("vectors.target")
    if places is None:
        return None
    d = 0 if target is None else target.size
    if places.shape != actions.shape[1:] or not np.isin(places, np.arange(d)).all():
        raise ValueError(f"snapshot must hold arms.place of {actions.shape[1]} features, got another array")
    return OneHotArms(places.astype(np.int64), actions[0], d)


def copy_exactly(name: str, arrays: Arrays, target: npt.NDArray[Any]) -> None:
    """One array of a snapshot into its place, if it is there and fits."""
    if name not in arrays:
        raise ValueError(f"snapshot must hold {name}, got none")
    if arrays[name].shape != target.shape or arrays[name].dtype != target.dtype:
        raise ValueError(f"snapshot must hold {name} of shape {target.shape}, got {arrays[name].shape}")
    np.copyto(target, arrays[name])


def copy_fields(arrays: Arrays, target: npt.NDArray[Any]) -> None:
    """The stored run into today's, field by field: fields come and go between versions."""
    source = arrays.get("run", np.zeros(0))
    if source.shape != target.shape or not source.dtype.names:
        raise ValueError(f"snapshot must hold run of shape {target.shape}, got {source.shape}")
    for name in target.dtype.names or ():
        if (stored := STORED_NAMES.get(name, name)) in source.dtype.names:
            target[name] = source[stored]
    if "thrown_at" not in source.dtype.names and "thrown_at" in (target.dtype.names or ()):
        target["thrown_at"] = target["rewards"]  # nobody knows, and as a rule nothing came in between


def restore_rounds(
    header: dict[str, Any], arrays: Arrays, given: Policy | None, *, features: Features | None
) -> Agent:
    """An agent whose rounds bring their arms, from its log, its estimate and its books."""
    policy = known_policy(header["policy"], given)
    changes = tuple(ArmChange[str].from_dict(change) for change in header.get("changes", ()))
    with usual_share(header.get("cheap", False)):
        composition = composition_after(policy.composed_for_rounds(), changes)
    features = features_after(features, changes)
    scalars = {name: header[name] for name in ("count", "reward_sum", "reward_squares")}
    moments = Moments(gram=arrays["gram"], reward_vector=arrays["reward_vector"], **scalars)
    if features is not None and features.d != moments.d:
        raise ValueError(f"features must have d = {moments.d} like the snapshot, got {features.d}")
    check_same_features(header.get("features"), features, "the snapshot")
    params = params_for_rounds(composition, moments)
    state = empty_state(params, moments)
    copy_fields(arrays, state.run)
    for name, row in lasting_rows(state, params).items():
        copy_exactly(name, arrays, row)
    order = stored_order(arrays, state)
    kernels.mark_blocks(state)
    if order is not None:
        copy_exactly("blocks", arrays, state.vectors[kernels.BLOCK_BEGIN : kernels.BLOCK_END + 1])
    driver = RoundArms(
        composition=composition,
        running=running_of(header, arrays, composition, params, state),
        moments=moments,
        features=features,
        changes=changes,
        order=order,
    )
    restore_models_of_rounds(driver, arrays)
    if header.get("thrown") is not None:
        names = None if header["names"] is None else tuple(header["names"])
        actions, weights = arrays["actions"], arrays["weights"]
        asked = Round(actions, weights, header["offered"], names, float(weights.max()), moments.d)
        if order is not None:
            columns, places = framed_in(order, actions.T)
            asked = asked._replace(actions=columns, places=places, order=order)
        driver.standing = driver.shown = asked, Decision.from_dict(header["thrown"])
        driver.accepted = accepted_arms(arrays, asked.offered)
        if "chances" in arrays:
            held = driver.running.held
            driver.running.state = kernels.with_arms(held, asked.actions, asked.places)
            driver.running.state.arms[kernels.CHANCE, : asked.offered] = arrays["chances"]
    return Agent(policy, driver)


def restore_models_of_arms(driver: FixedArms, arrays: Arrays, format: int) -> None:
    """What pays for guardrails in place of their own values, where the model does."""
    begin_models_of_arms(driver, kernels.actions_in(driver.running.held))
    models = None if driver.running.rails is None else driver.running.rails.models
    for place, metric in () if models is None else models.drivers.items():
        stored = {"actions": arrays["actions"], **stored_of(arrays, place)}
        metric.running.held = restored_state(stored, format, metric.gate.rows, shifted=False)


def restore_models_of_rounds(driver: RoundArms, arrays: Arrays) -> None:
    """The same where rounds bring their own arms."""
    begin_models_of_rounds(driver)
    models = None if driver.running.rails is None else driver.running.rails.models
    for place, metric in () if models is None else models.drivers.items():
        stored, state = stored_of(arrays, place), metric.running.held
        copy_fields(stored, state.run)
        for name, row in lasting_rows(state, metric.running.params).items():
            copy_exactly(name, stored, row)
        kernels.mark_blocks(state)
        if stored_order(stored, state) is not None:
            copy_exactly("blocks", stored, state.vectors[kernels.BLOCK_BEGIN : kernels.BLOCK_END + 1])


def stored_order(arrays: Arrays, state: State) -> Order | None:
    """The order of the features in a state that has blocks and a border."""
    border, order = int(state.run["border"][0]), arrays.get("order")
    if border == 0:
        return None
    d = state.vectors.shape[1]
    if order is None or not np.array_equal(np.sort(order), np.arange(d)) or border > d:
        raise ValueError(f"snapshot must hold the order of {d} features, got none or another")
    return Order.of(order.astype(np.int64), border)


def restore_doubling(header: dict[str, Any], arrays: Arrays, given: Policy | None) -> DoublingAgent:
    """A DoublingAgent, and inside it the agent of its epoch."""
    policy = known_policy(header["policy"], given)
    inner_policy = None if given is None else policy.in_epoch(header["epoch"])
    inner = restore(arrays["inner"].tobytes(), policy=inner_policy)
    actions = arrays["actions"] if "actions" in arrays else compact_arms(inner)
    coins = header["coins"] if header["format"] > 4 else None
    agent = DoublingAgent(
        policy=policy,
        actions=actions,
        offline=stored_log(arrays),
        rng=inner._rng if isinstance(inner, DoublingAgent) else inner.running.rng,
        coins=None if coins is None else KeyedCoins(bytes.fromhex(coins["key"])),
        extra=header["extra"],
        recognises=not keeps_zeros(inner, actions),
        sliced=keeps_slices(inner, actions),
        whitened=is_as_whitened(inner, actions),
    )
    agent.inner, agent.epoch, agent.played = inner, header["epoch"], header["played"]
    if arrays["stale"].shape != agent.stale.shape or arrays["stale"].dtype != agent.stale.dtype:
        raise ValueError(
            f"snapshot must hold stale of shape {agent.stale.shape}, got {arrays['stale'].shape}"
        )
    agent.stale[:] = arrays["stale"]
    agent._open = OpenRounds.of(header, arrays, agent.rounds)
    return agent


def stored_log(arrays: Arrays) -> Offline:
    """The log of fixed arms that a snapshot holds."""
    squares = arrays.get("reward_squares")
    return Offline(pulls=arrays["pulls"], reward_sums=arrays["reward_sums"], reward_squares=squares)


def keeps_zeros(agent: Agent | DoublingAgent, actions: kernels.Floats) -> bool:
    """Whether an agent goes on with the zeros of one-hot arms, because an older version began it so."""
    if isinstance(agent, DoublingAgent):
        return not agent.recognises
    return not agent.running.run["one_hot"] and find_one_hot(actions) is not None


def keeps_slices(agent: Agent | DoublingAgent, actions: kernels.Floats) -> bool:
    """Whether an agent has the slices that as many arms have today: an older version began it without."""
    if isinstance(agent, DoublingAgent):
        return agent.sliced
    run = agent.running.run
    whole = run["whitened"] and is_wide(*actions.shape)
    return bool(whole or run["slices"] >= slices_for(*actions.shape))


def is_as_whitened(agent: Agent | DoublingAgent, actions: kernels.Floats) -> bool:
    """Whether an agent learns as it would today: an older version began it without these coordinates."""
    if isinstance(agent, DoublingAgent):
        return agent.whitened
    run = agent.running.run
    with whitening(True), slicing(keeps_slices(agent, actions)):
        today = is_whitened(agent.running.params, actions)
    return bool(run["whitened"] or run["one_hot"] or not today)


def compact_arms(agent: Agent) -> kernels.Floats:
    """The one-hot arms of the agent inside, which a snapshot holds once."""
    if not is_compact(agent.actions):
        raise ValueError("snapshot must hold actions, got none")
    return agent.actions


def restore_guard(header: dict[str, Any], arrays: Arrays, policy: Policy | None) -> Guard:
    """A Guard from its gate, its confidence and its books."""
    if policy is not None:
        raise ValueError("policy must be None for the snapshot of a Guard, which has none")
    guard = Guard.of(
        stored_log(arrays),
        from_dict(header["gate"], stored=True),
        from_dict(header["confidence"], stored=True),
        tuple(from_dict(rail, stored=True) for rail in header.get("guardrails", ())),
    )
    copy_exactly("counts", arrays, guard._counts)
    copy_exactly("mixed", arrays, guard._mixed)
    copy_fields(arrays, guard._run)
    guard._open = OpenRounds.of(header, arrays, guard.rounds)
    guard._tickets = Tickets.load(header, arrays, guard.rounds)
    if guard._rails is not None:
        guard._rails.load(header, arrays)
    if guard.gate.throws_coin:
        copy_exactly("against", arrays, guard._against)
        guard._coins = decode_coins(header["coins"], guard.rounds)
    return guard
