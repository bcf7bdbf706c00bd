"""Arms by file: the features of very many arms, stored once by what they hold, and shared by loops.

What is stored is one .npy file in Fortran's order, with the names of the arms after it where they have some,
under its SHA-256: the same arms are stored once, and what is read back can be checked. Its parts are rows;
the row of part 0 says how many there are and is written last, so that a file is there as a whole or not at
all.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Annotated, Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.cells import has_controls, in_one_spacing
from linoto.core.names import Names, Numbered
from linoto.core.validation import check_finite
from linoto.logs.arm_files import ArrayLayout, encoded, layout_of, names_after
from linoto.service.errors import Refused, invalid
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection

PART = 1 << 20  # bytes of a row
MOST_BYTES = 1_000_000_000  # of a file
MOST_ARMS = 10_000_000
LONGEST_NAME = 200  # characters of the name of an arm
NOT_THERE = "features must be those of a file that was uploaded (POST /v1/features), got {!r}"
DAMAGED = (
    "the features {} are damaged: their bytes are not those that were stored; send the same file again, "
    "which replaces them (POST /v1/features, or `linoto create` with it while no server runs): the next "
    "start reads their loops again"
)


class Head(msgspec.Struct):
    """Of a file that is complete."""

    arms: int
    features: int
    parts: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


@dataclass(frozen=True, eq=False)
class StoredArms:
    """The arms of a file, in memory once however many loops have them: nobody can change them."""

    sha256: str
    blob: bytes
    features: Floats  # (k, d) in the blob
    names: Names

    @property
    def head(self) -> Head:
        """What the row of part 0 says."""
        k, d = self.features.shape
        return Head(k, d, -(-len(self.blob) // PART))

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """The bytes in pieces, numbered from 1."""
        for number, start in enumerate(range(0, len(self.blob), PART), 1):
            yield number, self.blob[start : start + PART]


KNOWN: WeakValueDictionary[str, StoredArms] = WeakValueDictionary()  # those that some loop in memory has


def arms_of_file(features: npt.NDArray[Any], names: Names) -> StoredArms:
    """Arms (k, d) as they would be stored, or a refusal of more than a file may have."""
    check_limits(features, names)
    file = io.BytesIO()
    np.save(file, np.asfortranarray(features), allow_pickle=False)
    if not isinstance(names, Numbered):
        np.save(file, encoded(names), allow_pickle=False)
    blob = file.getvalue()
    return opened(blob, sha256(blob).hexdigest())


def check_limits(features: npt.NDArray[Any], names: Names) -> None:
    """Refuse too many arms, names that are too long, and what takes too many bytes."""
    check_count(len(features))
    width = 0
    check_lengths(names)
    if not isinstance(names, Numbered):
        check_names(names)
        width = max(len(name.encode()) for name in names)
    size = features.nbytes + width * len(names)
    if size > MOST_BYTES:
        raise invalid(f"arms by file must take at most {MOST_BYTES} bytes with their names, got {size}")


def check_lengths(names: Names) -> None:
    """Refuse names that are too long."""
    longest = "" if isinstance(names, Numbered) else max(names, key=len)
    if len(longest) > LONGEST_NAME:
        got = f"one of {len(longest)}, which begins with {longest[:40]!r}"
        raise invalid(f"names of arms must have at most {LONGEST_NAME} characters, got {got}")


def check_names(names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Refuse new names, beside others that are there, which a log of the loop could not be read with."""
    for name in names:
        if has_controls(name):
            raise invalid(f"names of arms must have no control characters or line ends, got {name!r}")
        if not name.strip():
            raise invalid(f"names of arms must be more than spaces, got {name!r}")
    mine = {in_one_spacing(name): name for name in names}
    for name in chain(names, others):
        first = mine.get(in_one_spacing(name), name)
        if first != name:
            raise invalid(f"names of arms must not differ in spaces only, got {name!r} and {first!r}")


def check_count(k: int) -> None:
    """Refuse too many arms."""
    if k > MOST_ARMS:
        raise invalid(f"a file must have at most {MOST_ARMS} arms, got {k}")


def read_upload(body: bytes) -> StoredArms:
    """The arms of a file that was sent, or a refusal that says what it must be."""
    file = io.BytesIO(body)
    try:
        layout = layout_of(file, "the body")
        check_count(layout.shape[0])  # before names are made, which take 16 times their bytes
        names = names_after(file, layout.shape[0], "the body")
        features = features_in(body, layout)
        check_finite(features)
    except ValueError as error:
        raise invalid(str(error)) from error
    return arms_of_file(features, names)


def arms_in(blob: bytes) -> tuple[npt.NDArray[Any], Names]:
    """(k, d) the features in the bytes of a file, and the names of the arms."""
    file = io.BytesIO(blob)
    layout = layout_of(file, "the file")
    return features_in(blob, layout), names_after(file, layout.shape[0], "the file", stored=True)


def features_in(blob: bytes, layout: ArrayLayout) -> npt.NDArray[Any]:
    """(k, d) the features alone."""
    k, d = layout.shape
    flat = np.frombuffer(blob, layout.kind, k * d, layout.place)
    return flat.reshape(layout.shape, order="F" if layout.by_columns else "C")


def opened(blob: bytes, digest: str) -> StoredArms:
    """The arms of a file as it is stored, with its hash; those in memory already where there are the same."""
    known = KNOWN.get(digest)
    if known is None:
        known = KNOWN[digest] = StoredArms(digest, blob, *arms_in(blob))
    return known


# -- in a database


def find(connection: Connection, digest: str | None) -> StoredArms | None:
    """The arms of a file, checked; None for the arms of a loop that has none by file."""
    known = KNOWN.get(digest or "")
    return find_stored(connection, digest) if known is None else known


def find_stored(connection: Connection, digest: str | None) -> StoredArms | None:
    """The same for a new loop: what is stored is checked though another loop has it in memory."""
    return None if digest is None else opened(read(connection, digest), digest)


def read(connection: Connection, digest: str) -> bytes:
    """The bytes of a file as they are stored, checked."""
    head = sql.features_head(connection, digest)
    if head is None:
        raise invalid(NOT_THERE.format(digest))
    try:
        parts = msgspec.json.decode(head, type=Head).parts
    except ValueError:
        raise invalid(DAMAGED.format(digest)) from None
    if sql.count_parts(connection, digest, parts) != parts:  # a damaged head may say any number
        raise invalid(DAMAGED.format(digest))
    blob = b"".join(sql.features_part(connection, digest, part) for part in range(1, parts + 1))
    if sha256(blob).hexdigest() != digest:
        raise invalid(DAMAGED.format(digest))
    return blob


def find_damaged(connection: Connection) -> Iterator[str]:
    """What to say of each file that is damaged, whether a loop has it or not."""
    for digest in [digest for digest, part in sql.features_keys(connection) if part == 0]:
        try:
            read(connection, digest)
        except Refused as error:
            yield error.message


def known_arms(digest: str) -> StoredArms:
    """The arms of a file that somebody here has."""
    known = KNOWN.get(digest)
    if known is None:
        raise invalid(NOT_THERE.format(digest))
    return known


def put(connection: Connection, arms: StoredArms, at: float) -> None:
    """Store a file, unless it is there, in one transaction with what else is in it."""
    try:
        read(connection, arms.sha256)
    except Refused:  # it is not there, or damaged
        for number, body in arms.parts():
            sql.put_features(connection, (arms.sha256, number, body, at))
        finish(connection, arms, at)


def finish(connection: Connection, arms: StoredArms, at: float) -> None:
    """Say that a file is complete; refuse where a part of it was deleted since it was put."""
    if not sql.hold_parts(connection, arms.sha256, arms.head.parts, at):
        raise Refused(503, "pruned", "parts of the file were pruned while it was sent: send it again")
    sql.put_features(connection, (arms.sha256, 0, msgspec.json.encode(arms.head), at))
