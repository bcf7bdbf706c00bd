"""Sessions of PostgreSQL: how they are opened, and which errors may pass."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from linoto.service.storage import postgres_sql as own_sql
from linoto.service.storage.connection import InUseError
from linoto.service.storage.places import REFUSAL, Address

USUAL = {  # unless the address says otherwise: that a machine is gone is noticed
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "linoto",
}
Raw = psycopg.Connection[Any]
PASSING = re.compile(  # what libpq says of a server that is not there: it has no code before a session
    "failed: (Connection refused|No such file or directory|Connection reset|No route to host)|"
    "timeout expired|the database system is|too many clients|connection slots|closed the connection|"
    "terminating connection|connection is (lost|closed)"
)
PASSING_STATES = ("08", "53300", "55P03", "57P")  # of connections, of too many, of locks, of operators


def open_session(address: Address, *, readonly: bool, hasty: bool = False) -> Raw:
    """A session in our schema, in which a commit is on disk; its transactions are ours to begin and end.

    A hasty one waits a second for the locks of others, as a server does: its callers wait too.
    """
    try:
        given = conninfo_to_dict(address.url)
    except psycopg.ProgrammingError:  # it says which part is wrong, which may be the password
        raise ValueError(f"db {REFUSAL}") from None
    try:
        usual = {name: value for name, value in USUAL.items() if name not in given}
        if not readonly and "target_session_attrs" not in given:
            usual["target_session_attrs"] = "read-write"
        raw = psycopg.connect(address.url, autocommit=True, cursor_factory=psycopg.RawCursor, **usual)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise OSError(f"cannot open the database {address}: {one_line(error)}") from error
    try:
        raw.execute(f"SET search_path = {own_sql.SCHEMA}".encode())
        raw.execute("SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'")  # fmt: skip
        if hasty:
            raw.execute(own_sql.HASTE.encode())
        if readonly:
            raw.execute("SET default_transaction_isolation = 'repeatable read'")
            raw.execute("SET default_transaction_read_only = on")
        else:
            raw.execute(own_sql.BY_KEYS.encode())
    except psycopg.Error as error:
        raw.close()
        raise OSError(f"cannot open the database {address}: {one_line(error)}") from error
    return raw


def one_line(error: Exception) -> str:
    """The first line of what the server says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def may_pass(error: BaseException | None) -> bool:
    """Whether another owner or the absence of PostgreSQL is at fault, and not the address."""
    while error is not None and not isinstance(error, InUseError | psycopg.Error):
        error = error.__cause__
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate.startswith(PASSING_STATES)
    said = str(error).splitlines()
    refused = any("FATAL" in line and not PASSING.search(line) for line in said)
    return isinstance(error, InUseError) or (not refused and any(PASSING.search(line) for line in said))
