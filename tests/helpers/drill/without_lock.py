"""Servers that load this write in any session that they can have, whoever has the locks."""

from linoto.service.storage.postgres import ServerConnection

ServerConnection._lock = lambda self, raw: None  # type: ignore[assignment,method-assign]
