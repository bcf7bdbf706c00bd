"""Logged rows, and which of them built what: rows that built a warm start cannot also judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.data import Offline, as_arms, as_floats, check_count, choose, is_number
from linoto.features import ArmTable
from linoto.kernels import Bools, Floats, Ints
from linoto.logs import read_log
from linoto.tables import Piece, as_number, as_text, as_time, connected, quoted, readable, scan, stage

Ids = Sequence[Any] | npt.NDArray[Any]  # what tells one row from another: 17 and "17" are the same row


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

    def __len__(self) -> int:
        return int(self.arms.size)

    @property
    def offline(self) -> Offline:
        """These rows as what every policy starts from."""
        return Offline.from_rows(self.arms, self.rewards, k=self.k)

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
    digests = b"".join(blake2b(str(row).encode(), digest_size=8).digest() for row in ids)
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
    choose("by", by, ("id", "order"))
    if not is_number(share) or not 0 < share < 1:
        raise ValueError(f"share must be in (0, 1), got {share!r}")
    known = rows.numbered()
    if by == "order":
        first = np.arange(len(rows)) < round(share * len(rows))
    else:
        first = hashed(np.asarray(known.ids)) < share * 2.0**64
    if first.all() or not first.any():
        raise ValueError(f"rows must fill both parts, got {len(rows)} for a share of {share:g}")
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
    arms: ArmTable,
    propensity: str | None = None,
    id: str | None = None,
    time: str | None = None,
) -> Rows:
    """The rows of files (a path, a glob, a list of paths) or of a pandas, polars or Arrow table.

    In the order of `time` where it is named. Without an `id` column a row of a file is known by its place in
    it, so that the same file read again gives the same ids; a row of a table is not known at all. The first
    bad row is a ValueError that names it.
    """
    read_log(source, action=action, reward=reward, arms=arms, propensity=propensity, time=time)  # or raise
    given = {"action": action, "reward": reward, "propensity": propensity, "id": id, "time": time}
    wanted = {role: name for role, name in given.items() if name is not None}
    with TemporaryDirectory(prefix="linoto-") as folder, connected() as connection:
        pieces = stage(connection, source, wanted, Path(folder))
        found = [fetch(connection, piece, wanted) for piece in pieces]
    values = {role: np.concatenate([part[role] for part in found]) for role in wanted}
    ids = values.get("id")
    if id is None and all(piece.kind != "a table" for piece in pieces):
        ids = np.array([f"{Path(p.name).resolve()}:{row}" for p in pieces for row in range(p.rows)])
    place = {name: arm for arm, name in enumerate(arms.names)}
    rows = Rows(
        arms=np.array([place[name] for name in values["action"]]),
        rewards=values["reward"],
        k=len(arms.names),
        propensities=values.get("propensity"),
        ids=ids,
    )
    return rows if time is None else rows.take(np.argsort(values["time"], kind="stable"))


def fetch(connection: Any, piece: Piece, wanted: Mapping[str, str]) -> dict[str, npt.NDArray[Any]]:
    """The wanted columns of a piece, by role, in the order of its rows: ids as text, the rest as numbers."""
    readers = {"reward": as_number, "propensity": as_number, "time": as_time}
    parts = [
        f"{readers[role](piece, name) if role in readers else as_text(quoted(name), piece, name)} AS {role}"
        for role, name in wanted.items()
    ]
    query = f"SELECT {', '.join(parts)} FROM {scan(piece.path)} ORDER BY file_row_number"
    with readable(piece.name, piece.kind):
        found = {
            role: np.ma.asarray(column) for role, column in connection.execute(query).fetchnumpy().items()
        }
    for role, name in wanted.items():
        missing = np.ma.getmaskarray(found[role])
        if missing.any():
            raise ValueError(
                f"{piece.name}, row {missing.argmax() + 1}, column {name!r}: the {role} is missing"
            )
    return {role: np.asarray(column) for role, column in found.items()}


# -- checks -----------------------------------------------------------------------------------------------


def as_propensities(value: Any, n: int, k: int) -> Floats:
    """(n,) probabilities of what was chosen."""
    if isinstance(value, str):
        choose("propensities", value, ("uniform",))
        return np.full(n, 1 / k)
    propensities = as_floats("propensities", value, ndim=1)
    check_length("propensities", propensities, n)
    wrong = (propensities <= 0) | (propensities > 1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"propensities must be in (0, 1], got {propensities[row]:g} in row {row}")
    return propensities


def as_ids(value: Ids, n: int) -> npt.NDArray[Any]:
    """(n,) texts that all differ."""
    ids = np.asarray([str(row) for row in value])
    check_length("ids", ids, n)
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"ids must differ from row to row, got {str(values[counts > 1][0])!r} twice")
    return ids


def check_length(name: str, values: npt.NDArray[Any], n: int) -> None:
    """Refuse a column of another length."""
    if values.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} rows, got shape {values.shape}")
