"""The socket that connections come on: bound before anything large is loaded, or taken over from systemd.

From then on the system holds connections until they are taken, so callers wait instead of being refused.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping

BACKLOG = 1024  # connections that the system holds until they are taken
FIRST = 3  # the file descriptor of the first socket that is handed over


def open_socket(host: str, port: int, environment: Mapping[str, str]) -> socket.socket:
    """A socket that listens: the one that was handed over, or one at this address."""
    opened = inherited(environment) or bind("127.0.0.1" if host == "localhost" else host, port)
    opened.listen(BACKLOG)
    return opened


def inherited(environment: Mapping[str, str]) -> socket.socket | None:
    """The socket that whoever started this process has opened for it, as systemd does."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    if environment.get("LISTEN_FDS") != "1":
        raise ValueError(f"LISTEN_FDS must be 1 socket, got {environment.get('LISTEN_FDS')!r}")
    found = socket.socket(fileno=FIRST)
    os.set_inheritable(FIRST, False)
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
        raise ValueError("the socket that is handed over must be of TCP, got another")
    return found


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # by TCP, asyncio sends at once
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        hint = ", choose another port with --port" if error.errno == errno.EADDRINUSE else ""
        raise OSError(f"cannot serve on {host}:{port}: {error.strerror}{hint}") from error
    return bound
