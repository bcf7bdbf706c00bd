"""Logged rows, and which of them built what: rows that built a warm start cannot also judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import text_of
from linoto.core.offline import Offline
from linoto.core.validation import as_arms, as_floats, check_choice, check_count, exact, is_number
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import check_arms, find_arms
from linoto.logs.notation import Notation
from linoto.logs.row_queries import (
    Columns,
    ResultColumns,
    RowRange,
    fetch_rows,
    introduce_arms,
    refuse_bad_row,
)
from linoto.logs.tables import Connection, StagedFile, refuse_rejected, source_name
from linoto.logs.where import open_rows

Ids = Sequence[Any] | npt.NDArray[Any]  # what tells one row from another: 17, 17.0 and "17" are the same row


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Logged decisions one by one. `propensities="uniform"` is short for 1/k everywhere.

    >>> rows = Rows(arms=[0, 1, 1], rewards=[1.0, 0.0, 1.0], k=2, propensities="uniform")
    >>> len(rows), rows.offline.pulls.tolist()
    (3, [1, 2])
    """

    arms: Ints  # (n,)
    rewards: Floats  # (n,)
    k: int
    propensities: Floats | Literal["uniform"] | None = None  # (n,) of the logged arms, in (0, 1]
    ids: Ids | None = None  # (n,) all different
    names: Sequence[str] | None = None  # (k,) of the arms, for messages

    def __post_init__(self) -> None:
        check_count("k", self.k)
        arms = as_arms("arms", self.arms, self.k)
        if arms.size == 0:
            raise ValueError("arms must hold at least one row, got none")
        rewards = as_floats("rewards", self.rewards, ndim=1)
        check_length("rewards", rewards, arms.size)
        object.__setattr__(self, "arms", arms)
        object.__setattr__(self, "rewards", rewards)
        if self.propensities is not None:
            object.__setattr__(self, "propensities", as_propensities(self.propensities, arms.size, self.k))
        if self.ids is not None:
            object.__setattr__(self, "ids", as_ids(self.ids, arms.size))
        if self.names is not None and len(self.names) != self.k:
            raise ValueError(f"names must be one for each of the {self.k} arms, got {len(self.names)}")

    def __len__(self) -> int:
        return int(self.arms.size)

    def name(self, arm: int) -> str:
        """An arm as messages call it."""
        return f"arm {arm}" if self.names is None else f"arm {self.names[arm]!r}"

    @property
    def offline(self) -> Offline:
        """These rows as what every policy starts from."""
        return Offline.from_rows(self.arms, self.rewards, k=self.k)

    @property
    def all_certain(self) -> bool:
        """Whether every propensity is 1: such rows say nothing of any other policy."""
        return self.propensities is not None and bool((np.asarray(self.propensities) == 1).all())

    @property
    def fingerprint(self) -> Fingerprint:
        """Which rows these are."""
        if self.ids is None:
            raise ValueError("ids must be given to tell rows apart, got None: give ids=, or use split")
        return Fingerprint.of(self.ids)

    def take(self, chosen: npt.NDArray[Any]) -> Rows:
        """Some of the rows: a mask or positions."""
        return replace(
            self,
            arms=self.arms[chosen],
            rewards=self.rewards[chosen],
            propensities=None if self.propensities is None else np.asarray(self.propensities)[chosen],
            ids=None if self.ids is None else np.asarray(self.ids)[chosen],
        )

    def numbered(self) -> Rows:
        """These rows with their ids, or where they have none with their positions in exactly this log."""
        if self.ids is not None:
            return self
        digest = blake2b(self.arms.tobytes() + self.rewards.tobytes(), digest_size=8).hexdigest()
        return replace(self, ids=[f"{digest}:{i}" for i in range(len(self))])


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Which rows built something: 64 bits of each row's id. Fingerprints of parts merge with `|`.

    >>> Fingerprint.of(["a", "b"]).shares(["b", "c"]).tolist()
    [True, False]
    """

    hashes: npt.NDArray[np.uint64]  # (n,) sorted, distinct

    @classmethod
    def of(cls, ids: Ids) -> Fingerprint:
        """Of rows with these ids."""
        return cls(np.unique(hashed(ids)))

    def __or__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(np.union1d(self.hashes, other.hashes))

    def shares(self, ids: Ids) -> Bools:
        """(n,) which of these rows are among them."""
        return np.isin(hashed(ids), self.hashes)


@dataclass(frozen=True, kw_only=True, eq=False)
class WarmStart:
    """Statistics of a log, and which rows they came from: for logs too large to keep as rows."""

    offline: Offline
    fingerprint: Fingerprint


def hashed(ids: Ids) -> npt.NDArray[np.uint64]:
    """(n,) 64 bits of each id, the same on every machine."""
    digests = b"".join(blake2b(text_of(row).encode(), digest_size=8).digest() for row in ids)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def split(rows: Rows, *, share: float = 0.5, by: Literal["id", "order"] = "id") -> tuple[Rows, Rows]:
    """Two disjoint parts of a log: rows to build a warm start from, and rows to judge it by.

    By "id", a row's side follows from its id alone: the same on every machine, for every order and every part
    of the log. By "order", the first rows build and the later ones judge.

    >>> rows = Rows(arms=[0, 1] * 50, rewards=[0.0, 1.0] * 50, k=2)
    >>> warm, held_out = split(rows, by="order")
    >>> len(warm), bool(warm.fingerprint.shares(held_out.ids).any())
    (50, False)
    """
    check_choice("by", by, ("id", "order"))
    if not is_number(share) or not 0 < share < 1:
        raise ValueError(f"share must be in (0, 1), got {share!r}")
    known = rows.numbered()
    if by == "order":
        first = np.arange(len(rows)) < round(share * len(rows))
    else:
        first = hashed(np.asarray(known.ids)) < share * 2.0**64
    if first.all() or not first.any():
        raise ValueError(f"rows must fill both parts, got {len(rows)} for a share of {exact(share)}")
    return known.take(first), known.take(~first)


def check_disjoint(rows: Rows, warm_start: Rows | WarmStart | None) -> None:
    """Refuse to judge by rows that built the warm start: they would repeat what it already believes."""
    if warm_start is None:
        return
    if not isinstance(warm_start, Rows | WarmStart):
        got = type(warm_start).__name__
        raise ValueError(f"warm_start must be Rows or a WarmStart, to say which rows built it, got {got}")
    if rows.ids is None:
        raise ValueError(
            "ids must be given where there is a warm start, to show that these rows did not build it, "
            "got None: give ids=, or use split"
        )
    both = warm_start.fingerprint.shares(rows.ids)
    if both.any():
        first = str(np.asarray(rows.ids)[both.argmax()])
        raise ValueError(
            f"rows must not be among those that built the warm start, got {both.sum()} of {len(rows)} "
            f"that are, the first with id {first!r}"
        )


# -- from files -------------------------------------------------------------------------------------------


def read_rows(
    source: Any,
    *,
    action: str,
    reward: str,
    arms: ArmTable | None = None,
    propensity: str | None = None,
    id: str | None = None,
    time: str | None = None,
    where: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
) -> Rows:
    """The rows of files (a path, a glob, a list of paths) or of a pandas, polars or Arrow table.

    In the order of `time` where it is named. Without an `id` column a row of a file is known by what the file
    holds and its place in it: the same file gives the same ids under any name, in any folder. A row of a
    table is not known at all. The first bad row is a ValueError that names it. `arms`, `where`, `decimal` and
    `thousands` are those of `read_log`.
    """
    check_arms(arms)
    notation = Notation(decimal, thousands)
    columns = Columns(
        action=action, reward=reward, propensity=propensity, time=time, id=id, notation=notation
    )
    with open_rows(source, columns, where) as (connection, files, _):
        if arms is None:
            arms, _ = find_arms(connection, files, action, source_name(source))
        introduce_arms(connection, arms.names)
        found = [fetch_good_rows(connection, RowRange.whole(file, columns), arms.names) for file in files]
    numbers = [part.pop("row") for part in found]
    values = {role: np.concatenate([part[role] for part in found]) for role in found[0]}
    rows = Rows(
        arms=values["arm"],
        rewards=values["reward"],
        k=len(arms.names),
        propensities=values.get("propensity"),
        ids=places(files, numbers) if id is None else values["id"],
        names=arms.names,
    )
    return rows if time is None else rows.take(np.argsort(values["time"], kind="stable"))


def fetch_good_rows(connection: Connection, rows: RowRange, names: Sequence[str]) -> ResultColumns:
    """Rows of a file, by column; the first bad one is refused."""
    found = fetch_rows(connection, rows)
    if not np.ma.getmaskarray(found.pop("kind")).all():
        refuse_bad_row(connection, rows, names)
    refuse_rejected([rows.file])
    return {role: np.asarray(column) for role, column in found.items()}


def places(files: Sequence[StagedFile], numbers: Sequence[npt.NDArray[Any]]) -> list[str] | None:
    """(n,) each row's file, by what it holds, and its place in it; None for the rows of a table."""
    if any(file.kind == "a table" for file in files):
        return None
    known: dict[str, StagedFile] = {}
    for file in files:
        digest = digest_of(file.name)
        if digest in known:
            raise ValueError(
                f"{file.name} must hold other rows than {known[digest].name}, got the same file twice: "
                "give it once, or name an id column"
            )
        known[digest] = file
    return [f"{digest}:{row}" for digest, rows in zip(known, numbers, strict=True) for row in rows]


def digest_of(path: str) -> str:
    """What a file holds, in 64 bits."""
    with open(path, "rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=8)).hexdigest()


# -- checks -----------------------------------------------------------------------------------------------


def as_propensities(value: Any, n: int, k: int) -> Floats:
    """(n,) probabilities of what was chosen."""
    if isinstance(value, str):
        check_choice("propensities", value, ("uniform",))
        return np.full(n, 1 / k)
    propensities = as_floats("propensities", value, ndim=1)
    check_length("propensities", propensities, n)
    wrong = (propensities <= 0) | (propensities > 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"propensities must be in (0, 1], got {exact(propensities[row])} in row {row}")
    return propensities


def as_ids(value: Ids, n: int) -> npt.NDArray[Any]:
    """(n,) texts that all differ."""
    ids = np.asarray([text_of(row) for row in value])
    check_length("ids", ids, n)
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"ids must differ from row to row, got {str(values[counts > 1][0])!r} twice")
    return ids


def check_length(name: str, values: npt.NDArray[Any], n: int) -> None:
    """Refuse a column of another length."""
    if values.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} rows, got shape {values.shape}")
