"""What connections may take: how many there may be, and how long each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many connections there may be, and how many seconds each may take."""

    connections: int = 1000
    head: float = 10.0  # for the first line and the headers, also before the first byte
    body: float = 30.0  # for the body, and one more for each 64 KiB of it
    idle: float = 75.0  # between two requests, and for reading an answer
    stall: float = 1.0  # for the next part of a body, where somebody else needs the connection
