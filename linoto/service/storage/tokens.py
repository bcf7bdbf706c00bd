"""SQL of tokens: one statement per named function of a connection."""

from __future__ import annotations

from linoto.service.storage.connection import Connection, Row

BEFORE = " (before "  # in the name of a token that another one follows


def insert_token(connection: Connection, values: Row) -> bool:
    """(name, role, digest, created_at, rate), if the name has no token or one that was revoked."""
    return (
        connection.execute(
            "INSERT INTO tokens (name, role, digest, created_at, rate) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET "
            "role = excluded.role, digest = excluded.digest, created_at = excluded.created_at, "
            "rate = excluded.rate, revoked_at = NULL WHERE tokens.revoked_at IS NOT NULL",
            values,
        ).rowcount
        == 1
    )


def put_limits(connection: Connection, name: str, expires_at: float | None, loops: str | None) -> None:
    """Until when a token is valid, and for which loops (a JSON list); None: for ever, for all of them."""
    connection.execute(
        "INSERT INTO token_limits VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
        "expires_at = excluded.expires_at, loops = excluded.loops",
        (name, expires_at, loops),
    )


def one_token(connection: Connection, name: str) -> Row | None:
    """What `all_tokens` says of one."""
    return next((row for row in all_tokens(connection) if row[0] == name), None)


def rename_token(connection: Connection, name: str, other: str) -> None:
    """Another name for a token, which a new one may then have."""
    connection.execute("UPDATE tokens SET name = ? WHERE name = ?", (other, name))
    connection.execute("DELETE FROM token_limits WHERE name = ?", (name,))


def revoke_token(connection: Connection, name: str, at: float) -> bool:
    """Whether there was such a token; earlier ones of the name are revoked too.

    Rows stay, so that it is known that there were tokens.
    """
    return (
        connection.execute(
            "UPDATE tokens SET revoked_at = ?1 WHERE revoked_at IS NULL "
            "AND (name = ?2 OR substr(name, 1, length(?3)) = ?3)",
            (at, name, name + BEFORE),
        ).rowcount
        > 0
    )


def revoke_all(connection: Connection, at: float) -> None:
    """Make every token worthless."""
    connection.execute("UPDATE tokens SET revoked_at = ? WHERE revoked_at IS NULL", (at,))


def all_tokens(connection: Connection) -> list[Row]:
    """(name, role, digest, created_at, rate, expires_at, loops) of those that were not revoked."""
    return connection.execute(
        "SELECT t.name, t.role, t.digest, t.created_at, t.rate, l.expires_at, l.loops FROM tokens t "
        "LEFT JOIN token_limits l ON l.name = t.name WHERE t.revoked_at IS NULL ORDER BY t.created_at, t.name"
    ).fetchall()


def had_tokens(connection: Connection) -> bool:
    """Whether a token was ever made."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM tokens)").fetchone()[0])
