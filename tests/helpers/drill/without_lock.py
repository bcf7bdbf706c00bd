"""Servers that load this write to a database that another one owns."""

from linoto.service.storage.postgres import ServerConnection

ServerConnection._lock = lambda self, raw: None  # type: ignore[assignment,method-assign]
