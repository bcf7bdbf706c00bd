"""Who waits for the compiler is told so; who waits for the disk is not told something untrue."""

from __future__ import annotations

import gc
import subprocess
import sys

import numba

from linoto.core.warm_up import SELDOM, any_compiled, seldom_collected, warm_up

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


def test_python_collects_as_before_once_kernels_are_compiled() -> None:
    before = gc.get_threshold()
    with seldom_collected():
        assert gc.get_threshold() == (SELDOM, *before[1:])
        with seldom_collected():  # as in another thread
            pass
        assert gc.get_threshold() == (SELDOM, *before[1:])
    assert gc.get_threshold() == before


def test_nothing_is_collected_where_somebody_wants_that() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    with seldom_collected():
        assert gc.get_threshold()[0] == 0
    gc.set_threshold(*before)
