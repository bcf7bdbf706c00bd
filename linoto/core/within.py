"""Settings that hold within a block, for this thread alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def within(setting: ContextVar[T], value: T) -> Iterator[None]:
    """The setting has this value in here, and then the one that it had.

    >>> colour = ContextVar("colour", default="red")
    >>> with within(colour, "blue"):
    ...     print(colour.get())
    blue
    >>> colour.get()
    'red'
    """
    before = setting.set(value)
    try:
        yield
    finally:
        setting.reset(before)
