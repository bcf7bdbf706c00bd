"""Every kernel as plain Python: for many small worlds, where compiling would take longer than playing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from linoto.core import calls, kernels
from linoto.core.drivers import fixed, listing
from linoto.core.kernels import Lists
from linoto.core.plain_python import in_python, with_attributes


def uncompiled(kernel: Any, files: dict[int, dict[str, Any]]) -> Callable[..., Any]:
    """The same kernel, and all that it calls, without a compiler; `files` as `in_python` has them."""
    function = in_python(kernel, files)

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*map(with_fields, arguments))

    return call


def with_fields(value: Any) -> Any:
    return Lists(*map(with_attributes, value)) if isinstance(value, Lists) else with_attributes(value)


@pytest.fixture
def in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code with the same bits, uncompiled, as long as a test lasts."""
    files: dict[int, dict[str, Any]] = {}
    for file, names in kernels.COMPILED.items():
        module = import_module(f"{kernels.__name__}.{file}")
        for name in names:
            monkeypatch.setattr(kernels, name, uncompiled(getattr(module, name), files), raising=False)
    monkeypatch.setattr(calls, "ENTRIES", {})
    monkeypatch.setattr(calls, "entry_of", lambda kernel, *_: kernel)
    for place, names in ((fixed, ("warm_up", "warm_up_loop")), (listing, ("warm_up_lists",))):
        for name in names:
            monkeypatch.setattr(place, name, lambda *_: None)
