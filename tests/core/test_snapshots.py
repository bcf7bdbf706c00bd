"""Snapshots: the same future from the bytes alone, or a clear refusal."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.problems import LAWS
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.recfunctions import repack_fields

from linoto.checks.problems import small_problem
from linoto.core import kernels
from linoto.core.confidence import PAPER, Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget, Closed, Control, Open, Tolerance
from linoto.core.guard import Guard
from linoto.core.offline import Offline
from linoto.core.policies import Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random
from linoto.core.saving import SNAPSHOT_FORMAT, lasting_arrays
from linoto.core.snapshots import from_dict, restore, to_dict

POLICIES = [
    LinOtO(alpha=0.1, budget="max"),
    LinTS(),
    Random(),
    Gated(explorer=LinTS(), gate=Budget(alpha=0.1), reach="proposal", fallback=1),
    Doubling(policy=LinTS(), delta="epoch"),
]
Header = dict[str, Any]
Arrays = dict[str, Any]


def agent_after(policy: Any, rounds: int, rng: Any = 0) -> Any:
    w = small_problem()
    agent = policy.start(w.actions, w.offline, rng=rng)
    w.play_rounds(agent, range(rounds))
    return agent


def unpack(blob: bytes) -> tuple[Header, Arrays]:
    with np.load(io.BytesIO(blob)) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop("header"))), arrays


def tampered(blob: bytes, change: Callable[[Header, Arrays], object]) -> bytes:
    header, arrays = unpack(blob)
    change(header, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array(json.dumps(header)), **arrays)
    return buffer.getvalue()


# -- the same future ----------------------------------------------------------------------------------------


@LAWS
@given(st.sampled_from(POLICIES), st.integers(0, 600), st.lists(st.integers(0, 5), max_size=8))
def test_a_snapshot_of_any_round_has_the_same_future(policy: Any, rounds: int, unpaid: list[int]) -> None:
    w, agent = small_problem(), agent_after(policy, rounds)
    for arm in unpaid:
        agent.commit(arm)
    restored = restore(agent.snapshot(), w.actions)
    for arm in unpaid[::2]:
        agent.observe(arm, 0.5)
        restored.observe(arm, 0.5)
    assert w.play_rounds(restored, range(60)) == w.play_rounds(agent, range(60))
    assert restored.snapshot() == agent.snapshot()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_snapshot_says_the_same_twice_and_of_its_copy(policy: Any) -> None:
    agent = agent_after(policy, 40)
    blob = agent.snapshot()
    assert blob == agent.snapshot() == restore(blob).snapshot()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_snapshot_knows_policy_names_and_arms(policy: Any) -> None:
    w = small_problem()
    names = tuple("abcdef")
    restored = restore(policy.start(w.actions, w.offline, rng=1, names=names).snapshot())
    assert (restored.policy, restored.names) == (policy, names)
    assert np.array_equal(restored.actions, w.actions)


def test_an_agent_and_its_copy_go_separate_ways() -> None:
    w, agent = small_problem(), agent_after(LinTS(), 20)
    restored = restore(agent.snapshot())
    before = agent.snapshot()
    w.play_rounds(restored, range(30))
    assert agent.snapshot() == before


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_every_numpy_generator_is_kept(bits: str) -> None:
    w = small_problem()
    agent = agent_after(LinTS(), 7, rng=np.random.Generator(getattr(np.random, bits)(3)))
    restored = restore(agent.snapshot())
    assert w.play_rounds(restored, range(40)) == w.play_rounds(agent, range(40))
    assert type(restored.running.rng.bit_generator).__name__ == bits


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"garbage",
        b"PK\x03\x04 not really",
        "text",
        None,
        pickle.dumps({"format": SNAPSHOT_FORMAT}),
        np.arange(3).tobytes(),
    ],
)
def test_what_is_no_snapshot_is_refused(blob: Any) -> None:
    with pytest.raises(ValueError, match="snapshot must be bytes written by agent"):
        restore(blob)


def test_arrays_that_are_no_snapshot_are_refused() -> None:
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, np.zeros(3))
    np.savez(npz, theta=np.zeros(3))
    for buffer in (npy, npz):
        with pytest.raises(ValueError, match="snapshot must be bytes written by agent"):
            restore(buffer.getvalue())


@pytest.mark.parametrize("policy", [LinOtO(), Doubling(policy=LinOtO())], ids=["linear", "doubling"])
def test_half_a_snapshot_is_refused(policy: Any) -> None:
    blob = agent_after(policy, 10).snapshot()
    for length in range(0, len(blob), 11):
        with pytest.raises(ValueError, match="snapshot must be"):
            restore(blob[:length])


@pytest.mark.parametrize("policy", [LinOtO(), Doubling(policy=LinOtO())], ids=["linear", "doubling"])
@pytest.mark.few(1)
def test_a_flipped_bit_is_refused_or_does_no_harm(policy: Any) -> None:
    agent = agent_after(policy, 10)
    blob = agent.snapshot()
    rng = np.random.default_rng(8)
    for place in rng.integers(len(blob), size=400):
        damaged = bytearray(blob)
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            restored = restore(bytes(damaged))  # a date inside the zip file, for example
        except ValueError:
            continue
        assert restored.snapshot() == blob


@pytest.mark.parametrize("found", [SNAPSHOT_FORMAT + 1, 0, str(SNAPSHOT_FORMAT), None])
def test_another_format_is_refused(found: Any) -> None:
    blob = tampered(agent_after(LinOtO(), 3).snapshot(), lambda header, _: header.update(format=found))
    with pytest.raises(
        ValueError, match=f"snapshot must be of format {SNAPSHOT_FORMAT} or older, got format {found!r}"
    ):
        restore(blob)


def test_another_arm_set_is_refused() -> None:
    w, blob = small_problem(), agent_after(LinOtO(), 3).snapshot()
    for other in (w.actions[::-1], w.actions[:-1], w.actions[:, :2], w.actions + 1e-12):
        with pytest.raises(ValueError, match="actions must be the arms of the snapshot"):
            restore(blob, other)
    with pytest.raises(ValueError, match="actions must be finite"):
        restore(blob, w.actions * np.nan)


LEFT_OUT = kernels.SCRATCH | kernels.TALLIES | kernels.GATE_ROWS | kernels.MEMORY_ROWS
LEFT_OUT |= kernels.PRACTICE_ROWS | {"place", "chance", "first_lcb"}  # which only some agents have
ARRAYS = [  # of plain coordinates, and of those of the last refresh
    (policy, name)
    for policy, without in ((LinOtO(budget="max"), set[str]()), (LinOtO(), kernels.WHITENED_ROWS))
    for name in sorted(lasting_arrays(agent_after(policy, 0).running.state, LEFT_OUT | without))
    if name != "arms.given"
]


@pytest.mark.parametrize(("policy", "name"), ARRAYS, ids=[f"{p.budget}-{name}" for p, name in ARRAYS])
@pytest.mark.few(9)
def test_a_missing_or_misshapen_array_is_refused(policy: LinOtO, name: str) -> None:
    blob = agent_after(policy, 3).snapshot()
    changes: list[Callable[[Header, Arrays], object]] = [
        lambda _, arrays: arrays.pop(name),
        lambda _, arrays: arrays.update({name: arrays[name][:0]}),
        lambda _, arrays: arrays.update({name: np.concatenate([arrays[name]] * 2)}),
        lambda _, arrays: arrays.update({name: arrays[name][None]}),
        lambda _, arrays: arrays.update({name: np.zeros(arrays[name].shape, dtype=np.float32)}),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="snapshot must hold"):
            restore(tampered(blob, change))


@pytest.mark.parametrize("name", ["actions", "pulls", "reward_sums", "stale", "inner"])
def test_a_doubling_with_a_missing_or_misshapen_array_is_refused(name: str) -> None:
    blob = agent_after(Doubling(policy=LinOtO()), 3).snapshot()
    changes: list[Callable[[Header, Arrays], object]] = [
        lambda _, arrays: arrays.pop(name),
        lambda _, arrays: arrays.update({name: arrays[name][:1]}),
        lambda _, arrays: arrays.update({name: np.stack([arrays[name]] * 2)}),
    ]
    for change in changes:
        with pytest.raises(ValueError):
            restore(tampered(blob, change))


@pytest.mark.parametrize("policy", [LinOtO(), Doubling(policy=LinOtO())], ids=["linear", "doubling"])
def test_every_part_of_the_header_is_needed(policy: Any) -> None:
    blob = agent_after(policy, 3).snapshot()
    for key in unpack(blob)[0]:
        with pytest.raises(ValueError, match="snapshot must be"):
            restore(tampered(blob, lambda header, _, key=key: header.pop(key)))  # type: ignore[misc]


def test_a_snapshot_cannot_make_a_kernel_read_past_the_end() -> None:
    def change(header: Header, _: Arrays) -> None:
        header["policy"]["fallback"] = 6

    with pytest.raises(ValueError, match=r"fallback must be in \[0, 6\), got 6"):
        restore(tampered(agent_after(Gated(fallback=5), 3).snapshot(), change))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda header: header.update(policy={"type": "system"}), "type must be one of"),
        (lambda header: header["policy"].update(alpha=-1.0), "alpha must be a number >= 0"),
        (lambda header: header["rng"].update(bit_generator="Dice"), "rng must be the state of"),
        (lambda header: header["rng"].update(state=3), "snapshot must be bytes"),
        (lambda header: header.update(agent="double"), "snapshot must be bytes"),
        (lambda header: header.update(names=7), "snapshot must be bytes"),
    ],
)
def test_a_header_with_another_content_is_refused(change: Callable[[Header], object], message: str) -> None:
    blob = agent_after(LinOtO(), 3).snapshot()
    with pytest.raises(ValueError, match=message):
        restore(tampered(blob, lambda header, _: change(header)))


class Bomb:
    """Would leave a mark if it were unpickled."""

    exploded: bool = False

    def __reduce__(self) -> Any:
        return (setattr, (Bomb, "exploded", True))


@pytest.mark.parametrize("name", ["header", "square.gram"])
def test_a_pickle_inside_is_never_opened(name: str) -> None:
    header, arrays = unpack(agent_after(LinOtO(), 3).snapshot())
    arrays["header"] = np.array(json.dumps(header))
    arrays[name] = np.array([Bomb()], dtype=object)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(ValueError, match="snapshot must be bytes written by agent"):
        restore(buffer.getvalue())
    assert not Bomb.exploded


def test_a_snapshot_holds_no_pickle() -> None:
    blob = agent_after(Doubling(policy=LinTS()), 5).snapshot()
    with zipfile.ZipFile(io.BytesIO(blob)) as file:
        assert all(name.endswith(".npy") for name in file.namelist())
    with np.load(io.BytesIO(blob), allow_pickle=False) as arrays:
        assert not any(arrays[name].dtype.hasobject for name in arrays.files)


def test_a_generator_that_cannot_be_kept_is_refused() -> None:
    class Custom(np.random.PCG64):
        @property
        def state(self) -> Any:
            return {"bit_generator": "Custom"}

    agent = agent_after(LinOtO(), 0, rng=np.random.Generator(Custom(1)))
    with pytest.raises(ValueError, match=r"rng must use one of PCG64, .*, got Custom"):
        agent.snapshot()


# -- what a later version may add ----------------------------------------------------------------------------


def test_a_row_or_field_that_a_snapshot_does_not_know_begins_at_zero() -> None:
    """One that was written before these were there; the rows are those of other gates and explorers."""
    blob = agent_after(LinTS(), 5).snapshot()
    rows = [name for name in kernels.ARM_ROWS if f"arms.{name}" not in unpack(blob)[1]]
    added = set(rows) - kernels.SCRATCH
    later = ("rewards", "widest")

    def before_them(header: Header, arrays: Arrays) -> None:
        run = arrays["run"]
        arrays["run"] = repack_fields(run[[name for name in run.dtype.names if name not in later]])

    state = restore(tampered(blob, before_them)).running.state
    assert state.arms.shape[0] == len(kernels.ARM_ROWS) and len(added) > 5
    assert not any(state.arms[kernels.ARM_ROWS.index(name)].any() for name in added)
    assert all(restore(blob).running.run[name] > 0 == state.run[0][name] for name in later)


def test_deciding_leaves_no_trace_in_a_snapshot() -> None:
    agent = agent_after(Gated(explorer=LinTS(), gate=Tolerance(epsilon=0.1)), 20)
    before = agent.snapshot()
    agent.decide()
    agent.guard(2)
    agent.decide([0, 1])
    agent.propensity(0, redraws=5)
    assert agent.snapshot() == before


# -- policies as plain data ---------------------------------------------------------------------------------

RECORDS = [
    *POLICIES,
    PAPER,
    Confidence(reward_range=(0.0, 1.0), ridge=2.0, design="adaptive"),
    Budget(alpha=0.5, form="max", slack="coverage"),
    Open(),
    Closed(),
    Greedy(),
    LinLCB(frozen=True),
    LinUCB(scale=0.5, confidence=PAPER),
    Doubling(policy=Doubling(policy=LinOtO())),
]


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_records_survive_json(record: Any) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(record)))) == record


def test_missing_fields_take_their_defaults() -> None:
    assert from_dict({"type": "LinOtO", "alpha": 0.5}) == LinOtO(alpha=0.5)


@pytest.mark.parametrize(
    "data, message",
    [
        ({"type": "Nothing"}, "type must be one of .*, Budget, .*, got 'Nothing'"),
        ({"scale": 1.0}, "type must be one of .*, Budget, .*, got None"),
        (
            {"type": "LinUCB", "size": 1.0},
            "LinUCB must have the fields scale, noise, memory, discount, confidence, got size",
        ),
        ({"type": "Random", "scale": 1.0}, r"Random must have the fields \(none\), got scale"),
        ({"type": "Doubling"}, "Doubling must have the fields policy, delta, got "),
        ({"type": "LinUCB", "scale": -1.0}, "scale must be a number >= 0, got -1.0"),
        ({"type": "LinUCB", "confidence": {"type": "Open"}}, "confidence must be a linoto.Confidence"),
        (
            {"type": "Gated", "gate": {"type": "Greedy"}},
            "gate must be Open, Closed, Budget, .* or \\w+, got",
        ),
        ([], "policy must be a dict with a type, got list"),
        (None, "policy must be a dict with a type, got NoneType"),
    ],
)
def test_other_data_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(data)


def test_a_log_is_kept_by_doubling() -> None:
    log = small_problem().offline
    restored = restore(agent_after(Doubling(policy=LinOtO()), 5).snapshot())
    assert restored.offline == Offline(pulls=log.pulls, reward_sums=log.reward_sums)
    whole = restore(agent_after(Doubling(policy=LinTS()), 5).snapshot())  # an epoch starts from its squares
    assert whole.offline == log


def test_an_agent_that_is_read_back_has_the_same_parameters_whatever_its_log_knows() -> None:
    """The squares of a log bound what it can vouch for: a snapshot that lost them would go on otherwise."""
    log = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0], reward_squares=[25.0, 12.0, 0.0])
    clicks = Confidence(noise="bounded", reward_range=(0, 1))
    for explorer in (LinUCB(scale=1.0), LinUCB(scale=0.25)):
        policy = Gated(explorer=explorer, gate=Control(budget=20.0, loan=5.0), confidence=clicks)
        agent = policy.start(np.eye(3), log, rng=0)
        assert restore(agent.snapshot()).running.params == agent.running.params
    guard = Guard(log, gate=Control(budget=20.0, loan=5.0), reward_range=(0, 1), noise="bounded", rng=0)
    assert restore(guard.snapshot())._params == guard._params


@pytest.mark.parametrize("policy", [LinOtO, LinUCB, Greedy, LinLCB, LinTS])
def test_an_agent_that_is_read_back_has_the_same_certificate(policy: Any) -> None:
    rng = np.random.default_rng(5)
    log = Offline.from_rows(rng.integers(0, 4, 300), (rng.random(300) < 0.3).astype(float), k=4)
    clicks = Confidence(noise="bounded", reward_range=(0, 1))
    agent = policy(confidence=clicks).start(np.eye(4), log, rng=0)
    assert restore(agent.snapshot()).certificate == agent.certificate


class Answering:
    """An explorer of somebody else, which has a `to_dict` of its own for something else."""

    called = False

    def score(self, view: Any) -> Any:
        return view.means

    def to_dict(self) -> dict[str, Any]:
        type(self).called = True
        return {"rows": 10**9}


def test_only_records_of_ours_are_asked_for_their_json() -> None:
    found = to_dict(Gated(explorer=Answering()))
    assert not Answering.called and found["explorer"]["type"].endswith(":Answering")
