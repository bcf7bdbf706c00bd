"""The quick reader of npz files reads what `zipfile` reads, and leaves everything else to it."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from linoto.core.codec import pack
from linoto.core.npz import read_members, stored_members

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "empty": np.zeros((0, 4)), "b.c": np.array([True, False])}


def by_zipfile(blob: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(blob)) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_it_reads_what_numpy_writes() -> None:
    blob = pack({"format": 1}, ARRAYS)
    found = stored_members(blob)
    assert found is not None and found == (0, by_zipfile(blob)) == read_members(blob)
    assert set(found[1]) == {"header.npy", *(f"{name}.npy" for name in ARRAYS)}
    begins, members = read_members(b"before" + blob)  # a part of something longer
    assert begins == 6 and members == found[1]


@pytest.mark.parametrize("how", ["compressed", "with a comment"])
def test_what_numpy_would_not_write_is_left_to_the_library(how: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if how == "compressed" else 0) as file:
        file.writestr("a.npy", b"some bytes" * 9)
        file.comment = b"" if how == "compressed" else b"mine"
    assert stored_members(buffer.getvalue()) is None
    assert read_members(buffer.getvalue()) == (0, {"a.npy": b"some bytes" * 9})


def test_a_damaged_file_is_refused_or_read_as_it_was() -> None:
    """Every bit once: what the quick reader takes has every byte of every member, under its name."""
    blob = pack({}, ARRAYS)
    whole = by_zipfile(blob)
    for place in range(len(blob)):
        damaged = bytearray(blob)
        damaged[place] ^= 1 << place % 8
        found = stored_members(bytes(damaged))
        assert found is None or found[1] == whole, place
    for length in range(len(blob)):
        assert stored_members(blob[:length]) is None
