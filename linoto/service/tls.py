"""Secure connections: a certificate that is read again without a restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

logger = logging.getLogger("linoto.service")


class Tls:
    """A certificate and its key, as connections use them."""

    def __init__(self, cert: Path, key: Path) -> None:
        self.cert, self.key = cert, key
        self.context = self._read(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))

    def _read(self, context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            what = f"the certificate {self.cert} and the key {self.key}"
            raise ValueError(f"{what} must be a pair in PEM, got an error: {error}") from error
        return context

    def reload(self) -> None:
        """Read both again; where that fails, connections go on with what there was."""
        try:
            self._read(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))  # it may leave half of a pair
            self._read(self.context)
            logger.info("certificate read again", extra={"cert": str(self.cert)})
        except ValueError as error:
            logger.error("certificate not read", extra={"error": str(error)})


def tls_of(cert: Path | None, key: Path | None) -> Tls | None:
    """The pair, if there is one."""
    if (cert is None) != (key is None):
        raise ValueError("tls_cert and tls_key must be given together, got one of them")
    return None if cert is None or key is None else Tls(Path(cert), Path(key))
