"""Servers that load this go on for ever with what they have in memory, whoever has taken over."""

from linoto.service.storage.postgres import DatabaseServer

DatabaseServer.leased = True  # type: ignore[assignment,method-assign]
DatabaseServer.cut = DatabaseServer.replaced = False  # type: ignore[assignment,method-assign]
