"""What the service logs, as lines on stderr: JSON for programs, short text for people."""

from __future__ import annotations

import json
import logging
import sys
from asyncio import CancelledError
from typing import Any, Literal

SERVING = "serving"
LogFormat = Literal["auto", "text", "json"]
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and whatever was given as `extra`."""
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line.update((key, value) for key, value in vars(record).items() if key not in STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """The same for people: one short line, without control characters of a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Time of day, level if it matters, message, and whatever was given as `extra`."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        extra = [f"{key} {value}" for key, value in vars(record).items() if key not in STANDARD]
        line = f"{self.formatTime(record, '%H:%M:%S')} {level}{', '.join([record.getMessage(), *extra])}"
        line = line if line.isprintable() else repr(line)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to_stderr(chosen: LogFormat = "json") -> None:
    """Logs of the service, and nothing of the libraries below warnings; `auto` is text on a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    if chosen == "text" or (chosen == "auto" and sys.stderr.isatty()):
        handler.setFormatter(TextLines())
        handler.addFilter(lambda record: record.msg != SERVING)  # people read the same on stdout
    for name, level in (("linoto", logging.INFO), ("uvicorn.error", logging.ERROR)):
        root = logging.getLogger(name)
        root.handlers, root.propagate = [handler], False
        root.setLevel(level)
    root.addFilter(is_not_cancelled)


def is_not_cancelled(record: logging.LogRecord) -> bool:
    """Whether it is more than a request that was given up at the end."""
    return not (record.exc_info and isinstance(record.exc_info[1], CancelledError))
