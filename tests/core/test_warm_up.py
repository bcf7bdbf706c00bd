"""Who waits for the compiler is told so; who waits for the disk is not told something untrue."""

from __future__ import annotations

import subprocess
import sys

import numba

from linoto.core.warm_up import any_compiled, warm_up

IMPATIENT = "from linoto.core import warm_up; warm_up.PATIENCE = 0.01; warm_up.warm_up()"


def test_loading_the_kernels_says_nothing_however_long_it_takes() -> None:
    warm_up()  # so that they are on disk
    done = subprocess.run([sys.executable, "-c", IMPATIENT], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_function_counts_as_compiled_from_its_first_call_on() -> None:
    function = numba.njit(lambda x: x + 1)
    assert not any_compiled([function, 3])
    function(1)
    assert any_compiled([3, function])
