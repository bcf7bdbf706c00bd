"""What was compiled before counts while no kernel has changed, and nothing is compiled that nobody needs."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linoto.core import kernels
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates import Control, Tolerance
from linoto.core.kernels import estimate, learning
from linoto.core.kernels.compiling import STAMP, CodeFiles, Inner, stamp_of
from linoto.core.offline import Offline
from linoto.core.parameters import params_for_rounds
from linoto.core.plain_python import run_in_python
from linoto.core.policies import Gated, LinOtO
from linoto.core.warm_up import (
    BY_COIN,
    PLAIN,
    all_kernels,
    warm_up,
    warm_up_context_loop,
    warm_up_contexts,
    warm_up_loop,
)

COMPILED_FOR = """
import sys
import linoto
from linoto.core.warm_up import all_kernels

policy = getattr(linoto, sys.argv[1])()
agent = policy.start([[1.0, 0.5], [0.5, 1.0]], linoto.Offline(pulls=[9, 1], reward_sums=[6.0, 0.0]), rng=0)
agent.update(agent.decide(), 1.0)
print(*{kernel.__name__ for kernel in all_kernels() if getattr(kernel, "signatures", ())})
"""
PLAYED = """
import hashlib
import sys
import linoto
from linoto.core.warm_up import all_kernels

policy = getattr(linoto, sys.argv[1])()
log = linoto.Offline(pulls=[9, 1, 3], reward_sums=[6.0, 0.0, 1.2])
agent = policy.start([[1.0, 0.5], [0.5, 1.0], [0.3, -0.2]], log, rng=0)
for _ in range(40):
    agent.update(agent.decide(), 0.25)
bits = b"".join(array.tobytes() for array in agent.running.state.arrays)
missed = {kernel for kernel in all_kernels() if hasattr(kernel, "stats") and kernel.stats.cache_misses}
print(hashlib.sha256(bits).hexdigest(), len(missed), int("numba.np.linalg" in sys.modules))
"""
LINKED = """
import sys
import numpy as np
from linoto.core.kernels.deciding import most_behind, rounding
from linoto.core.plain_python import run_in_python

logged, mixed = np.array([5, 3, 1]), np.zeros(3, dtype=np.int64)
print(most_behind(logged, mixed, 9, 0))
if sys.argv[1] == "both":
    assert rounding(logged, mixed, 9) == run_in_python(rounding, logged, mixed, 9)
print(sum(most_behind.stats.cache_hits.values()), sum(most_behind.stats.cache_misses.values()))
"""
CERTIFIED = """
import linoto
from linoto.core.warm_up import all_kernels

clicks = linoto.Confidence(noise="bounded", reward_range=(0, 1))
control = linoto.Gated(gate=linoto.Control(budget=9.0, loan=2.0), confidence=clicks)
moments = linoto.Moments.from_rows([[1.0, 0.5], [0.5, 1.0]], [1.0, 0.0])
for policy in (linoto.Gated(), linoto.Gated(confidence=clicks), linoto.LinOtO(), linoto.LinLCB(), control):
    policy.certificate([[1.0, 0.5], [0.5, 1.0]], linoto.Offline(pulls=[9, 1], reward_sums=[6.0, 0.0]))
for policy in (linoto.Gated(), linoto.Gated(confidence=clicks), linoto.LinUCB(scale=1.0)):
    policy.certificate(moments)
print([kernel.__name__ for kernel in all_kernels() if getattr(kernel, "signatures", ())])
"""
LIGHT = """
import sys
import linoto

linoto.Gated(gate=linoto.Tolerance(budget=5.0), confidence=linoto.Confidence(noise=0.5))
linoto.Offline(pulls=[9, 1], reward_sums=[6.0, 0.0])
print("numba" in sys.modules)
"""


def test_a_change_in_any_kernel_file_changes_the_stamp(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1")
    (tmp_path / "other.py").write_text("y = 1")
    first = stamp_of(tmp_path)
    assert stamp_of(tmp_path) == first
    (tmp_path / "other.py").write_text("y = 2")
    assert stamp_of(tmp_path) != first


def test_every_kernel_is_kept_under_the_stamp_of_all() -> None:
    LinOtO().start([[1.0]], Offline.empty(1), rng=0)
    stamps = {kernel._cache._cache_file._source_stamp for kernel in all_kernels() if hasattr(kernel, "stats")}
    assert stamps == {STAMP}


class Watched(CodeFiles):
    """Files of kernels; before each step of a save, something else happens."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def _save_data(self, name: str, data: Any) -> None:
        self.meanwhile()
        super()._save_data(name, data)
        self.meanwhile()

    def _save_index(self, overloads: dict[str, str]) -> None:
        self.meanwhile()
        super()._save_index(overloads)
        self.meanwhile()


def test_code_of_older_kernels_is_never_read_and_is_removed(tmp_path: Path) -> None:
    CodeFiles(tmp_path, "kernel", "old").save("types", "old code")
    writer, reader, read = Watched(tmp_path, "kernel", "new"), CodeFiles(tmp_path, "kernel", "new"), []
    writer.meanwhile = lambda: read.append(reader.load("types"))
    writer.save("types", "new code")
    assert read == [None, None, None, "new code"] and reader.load("types") == "new code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


def test_processes_that_compile_at_a_time_do_not_mix_up_their_code(tmp_path: Path) -> None:
    """At whichever step of one the other one saves. What is lost is compiled again."""
    for step in range(4):
        one, other = Watched(tmp_path, f"k{step}", "x"), CodeFiles(tmp_path, f"k{step}", "x")
        steps = iter(range(4))
        one.meanwhile = lambda: other.save("int", "of int") if next(steps) == step else None  # noqa: B023
        one.save("float", "of float")
        found = one.load("float"), other.load("int")
        assert found[0] in ("of float", None) and found[1] in ("of int", None)
        one.meanwhile = lambda: None
        for files, kind in ((one, "float"), (other, "int")):
            if files.load(kind) is None:
                files.save(kind, f"of {kind}")
        assert (one.load("float"), one.load("int")) == ("of float", "of int")


def test_policies_and_logs_are_made_without_the_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_a_certificate_compiles_nothing_and_loads_nothing_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", CERTIFIED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]


def test_what_is_going_to_play_is_started_compiled_however_small_it_is() -> None:
    command = [sys.executable, "-c", COMPILED_FOR, "Gated"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {"begin", "rounding"} <= set(done.stdout.split())


SURE = Confidence(noise="bounded", reward_range=(0.0, 1.0))


@pytest.mark.parametrize(
    "policy",
    [LinOtO(), Gated(), Gated(gate=Control(budget=5.0), confidence=SURE)],
    ids=["LinOtO", "Gated", "Control"],
)
def test_a_kernel_gives_the_same_bits_compiled_and_as_plain_python(policy: LinOtO | Gated) -> None:
    rng = np.random.default_rng(0)
    actions, log = rng.normal(size=(4, 3)), Offline(pulls=[9, 0, 4, 1], reward_sums=[6.0, 0.0, 1.2, 0.3])
    params = policy.composed().params(actions, log)
    states = [kernels.allocate(actions, log.pulls, log.reward_sums, False) for _ in range(2)]
    parts = kernels.parts_of(params)
    kernels.begin(params, states[0], *parts[:5])
    run_in_python(kernels.begin, params, states[1], *parts[:5])
    for compiled, plain in zip(*(state.arrays for state in states), strict=True):
        assert compiled.tobytes() == plain.tobytes()


@pytest.mark.parametrize("gate", [Control(budget=5.0), Tolerance(budget=5.0, evidence="model")])
def test_so_it_does_where_rounds_bring_their_arms(gate: Any) -> None:
    rng = np.random.default_rng(0)
    moments = Moments.from_rows(rng.normal(size=(20, 3)), rng.random(20))
    params = params_for_rounds(Gated(gate=gate, confidence=SURE).composed_for_rounds(), moments)
    states = [kernels.allocate_rounds(params, moments.gram, moments.reward_vector) for _ in range(2)]
    coin = kernels.parts_of(params).coin
    kernels.context_begin(params, states[0], *moments.as_rows(), coin, None)
    run_in_python(kernels.context_begin, params, states[1], *moments.as_rows(), coin, None)
    for compiled, plain in zip(*(state.arrays for state in states), strict=True):
        assert compiled.tobytes() == plain.tobytes()


def test_no_kernel_is_compiled_apart_for_a_constant() -> None:
    """A loop asks the explorer by the constant -1, a caller by any number: that is one `decide`, not two."""
    for parts in (PLAIN, BY_COIN):
        warm_up(parts)
        warm_up_loop(parts)
    for coin in (None, 1):
        warm_up_contexts(coin)
        warm_up_context_loop(coin)
    found = [kind for kernel in all_kernels() for each in versions_of(kernel) for kind in each]
    assert len(found) > 500 and not [kind for kind in found if "Literal" in str(kind)]


def versions_of(kernel: Any) -> list[Any]:
    """The types that a kernel was compiled for: those that are loaded, and those in the cache on disk."""
    if not hasattr(kernel, "signatures"):
        return []
    stored = getattr(kernel._cache, "_cache_file", None)
    return [*kernel.signatures, *(key[0] for key in (stored._load_index() if stored else ()))]


OF_ROUNDS = {"whiten_all", "unwhiten_all", "whiten_part", "project_arm"}  # fixed arms have no blocks


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy, needed, left_out",
    [
        (
            "LinOtO",
            {"measure_budget", "learn_whitened"},
            {"enter_coin_play", "allowance", "begin_online", "measure_excess", *OF_ROUNDS},
        ),
        (
            "Gated",
            {"allowance", "measure_excess"},
            {"enter_coin_play", "begin_online", "measure_budget", "learn_whitened", *OF_ROUNDS},
        ),
    ],
)
def test_what_a_policy_has_no_use_for_is_not_compiled(
    policy: str, needed: set[str], left_out: set[str], tmp_path: Path
) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILED_FOR, policy]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert needed <= found and not left_out & found


@pytest.mark.slow
def test_inner_kernels_are_taken_from_the_cache_into_other_kernels(tmp_path: Path) -> None:
    """A process that finds some of the kernels compiled makes what one makes that compiles all.

    One that finds all of them does not get ready to compile.
    """
    played = {}
    for cache, policies in (("one", ["LinOtO", "Gated", "Gated"]), ("other", ["Gated"])):
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)}
        for policy in policies:
            command = [sys.executable, "-c", PLAYED, policy]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            played[cache, policy, len(played)] = done.stdout.split()
    (_, gated, again, alone) = played.values()
    assert gated[0] == again[0] == alone[0]
    assert int(again[1]) == 0 < int(gated[1]) < int(alone[1])
    assert [int(each[2]) for each in played.values()] == [1, 1, 0, 1]


@pytest.mark.few(0)
def test_a_kernel_that_python_calls_is_taken_from_the_cache_into_another(tmp_path: Path) -> None:
    """What is linked of it is read when the other is compiled, and not before."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = []
    for which in ("one", "both", "both"):
        command = [sys.executable, "-c", LINKED, which]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        printed.append(done.stdout.split())
    assert printed == [["0", "0", "1"], ["0", "1", "0"], ["0", "1", "0"]]


def test_code_from_the_cache_is_not_read_for_linking() -> None:
    LinOtO().start([[1.0]], Offline.empty(1), rng=0).decide()
    key = next(iter(learning.begin._cache._cache_file._load_index()))
    target = learning.begin.targetctx
    code = learning.begin._cache.load_overload(key[0], target).library
    assert code._shared_module is None
    linked = code._get_module_for_linking()
    assert linked is code._shared_module and "linoto" in str(linked)


def test_no_inner_kernel_has_machine_code_of_its_own() -> None:
    LinOtO().start([[1.0]], Offline.empty(1), rng=0).decide()
    of_inner, of_entry = (machine_code_of(kernel) for kernel in (estimate.refresh, learning.begin))
    assert of_inner and not any(b"_ZN6linoto" in code for code in of_inner)
    assert of_entry and all(b"_ZN6linoto" in code for code in of_entry)


def machine_code_of(kernel: Any) -> list[bytes]:
    """Of each version of a kernel in the cache on disk; what it has of our functions has their names."""
    files = kernel._cache._cache_file
    return [files.load(key)[0][2][0] for key in files._load_index()]


def test_kernels_that_may_not_be_compiled_say_so_in_one_sentence() -> None:
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", "from linoto.core import kernels; kernels.decide"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "RuntimeError: kernels must be compiled, got NUMBA_DISABLE_JIT=1: unset it and start again"
    )


def test_a_kernel_that_only_kernels_call_is_copied_as_a_function_is() -> None:
    """It hung: a copy asked for what it is made of, and so for itself."""
    kernel = estimate.refresh
    assert isinstance(kernel, Inner)
    assert copy.copy(kernel) is kernel and copy.deepcopy({"of": kernel})["of"] is kernel
    assert pickle.loads(pickle.dumps(kernel)) is kernel
    with pytest.raises(AttributeError, match="kernel"):
        Inner.__new__(Inner).targetoptions  # noqa: B018 - that it answers at all
