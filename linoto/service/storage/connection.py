"""What jobs, commands and the writer need of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Literal, Protocol

from linoto.service.storage.parts import View

Row = tuple[Any, ...]
Table = Literal["events", "decisions", "rewards", "metrics"]  # what a log is made of
Answered = tuple[int, bytes]  # the number and the event of the decision that a key got
NEVER: Answered = (0, b"")  # no decision has this number: the key got none
Keys = Sequence[tuple[str, str]]  # (loop, key): what a job will look up


class LateRowError(Exception):
    """A row was refused that may have been appended by an earlier job."""


class InDoubtError(OSError):
    """Nobody can tell whether a transaction was kept."""


class AwayError(OSError):
    """The database cannot be had now, which may pass: servers wait for that."""


class InUseError(AwayError):
    """Another server owns it, and may end."""


class Rows(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Statements and transactions of one database; values are `?`, or `?1`, `?2` where one comes twice."""

    @property
    def in_transaction(self) -> bool: ...
    @property
    def total_changes(self) -> int: ...

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Rows:
        """One statement; it sees all that this transaction has appended."""
        ...

    def executemany(self, statement: str, rows: Iterable[Row], /) -> object:
        """The same with each of these."""
        ...

    def stream(self, statement: str, values: Row) -> Iterator[Row]:
        """The rows of an answer that may be larger than memory."""
        ...

    def append(self, table: Table, row: Row) -> None:
        """One more row, in the order of the columns; in the database when the transaction is committed."""
        ...

    def recall(self, loop: int, key: str) -> Answered | None:
        """What a key got, where that is known without a statement; `NEVER` where it got nothing."""
        ...

    def has_table(self, name: str) -> bool:
        """Whether there is such a table: some were added later."""
        ...

    def add_tables(self) -> None:
        """What was added to the schema without a new version of it, and the secret of the database."""
        ...

    def count_on(self) -> None:
        """Let the number of the next loop follow those that were copied here."""
        ...

    def note(self) -> Path | None:
        """The file beside the database that says which events it must have, if it has one."""
        ...

    def check_writable(self) -> None:
        """An error where a decision would be one."""
        ...

    def check_integrity(self) -> str:
        """'ok', or what is wrong with it."""
        ...

    def size(self) -> int:
        """Its bytes."""
        ...

    def shrink(self) -> None:
        """Give back what is free."""
        ...

    def rewrite(self) -> str:
        """Write all rows anew, so that no place of an older one holds it; what still may, in words."""
        ...

    def begin(self, keys: Keys = ()) -> None:
        """A transaction that writes, and will look these keys up: a hint, which others may be added to."""
        ...

    def commit(self) -> None:
        """On disk when this returns."""
        ...

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Engine(Protocol):
    """A database that one server owns, or parts of it, and the connection that writes."""

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...  # of a database that cannot be used
    @property
    def connection(self) -> Connection: ...
    @property
    def remote(self) -> bool: ...  # whether a statement waits for a network
    @property
    def leased(self) -> bool: ...  # whether nobody else can have taken the database over
    @property
    def replaced(self) -> bool: ...  # whether somebody has, for good
    @property
    def cut(self) -> bool: ...  # whether the connection that writes is known to be lost
    @property
    def leads(self) -> bool: ...  # whether what is done once for the whole database is done here
    @property
    def shared(self) -> bool: ...  # whether several servers may have parts of it
    @property
    def view(self) -> View | None: ...  # the servers that share it, once this one has joined them
    @property
    def held(self) -> Set[int]: ...  # the parts that are this server's, where it is shared

    def join(self) -> None:
        """Be one of the servers that share it; called once, when this one can take parts."""
        ...

    def take(self, parts: list[int]) -> None:
        """Take those of these parts that nobody has; they are held when the transaction is committed."""
        ...

    def give_up(self, parts: list[int]) -> None:
        """Let others have these parts, when the transaction is committed."""
        ...

    def knows(self, keys: Keys) -> bool:
        """Whether a transaction that looks these up can begin without waiting; a hint."""
        ...

    def retire(self) -> None:
        """Tell the others that this server is about to end, when the transaction is committed."""
        ...

    def prepare(self) -> None:
        """Make the tables of a new database, or refuse one that is not ours."""
        ...

    def settle(self) -> None:
        """All is made: from now on it must stay where it is."""
        ...

    def check_place(self) -> None:
        """An error where what is written now would not be found again."""
        ...

    def read(self) -> Connection:
        """A connection that sees what is committed now, and cannot write."""
        ...

    def read_where_written(self) -> Connection:
        """The same, and surely all that is committed: where there are replicas, one may be behind."""
        ...

    def wait_for_others(self, seconds: float) -> None:
        """How long the beginning of a transaction waits for another process that writes."""
        ...

    def is_busy(self, error: Exception) -> bool:
        """Whether another process is writing."""
        ...

    def is_conflict(self, error: Exception) -> bool:
        """Whether the statement of a job is at fault, and not the database."""
        ...

    def release(self) -> None:
        """Close the connection, and let others have the database."""
        ...
