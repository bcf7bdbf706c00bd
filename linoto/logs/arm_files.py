"""Files of very many arms: arrays that are mapped and not read, and columns of numbers without lists."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.names import Names, Numbered
from linoto.core.validation import MANY_ARMS
from linoto.logs.arms import ArmTable, Column, Encoding, named_features, names_of
from linoto.logs.queries import FLOATS, Place, fetch_numbers, fetch_table, some_lengths
from linoto.logs.tables import Connection, StagedFile
from linoto.logs.values import check_columns

ARRAY = ".npy"
NUMBERS = {*FLOATS, *(f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE"))}
NUMBERS |= {"INTEGER", "UINTEGER"}  # DuckDB's types of columns that are read as arrays
MADE = "an array of arms by features as numpy.save writes it"
SLICE = 1 << 14  # names that numpy converts at once: no other thread runs meanwhile, 11 ms


def is_array_file(source: Any) -> bool:
    """Whether arms are in a file of numpy."""
    return isinstance(source, str | Path) and str(source).lower().endswith(ARRAY)


def read_array_file(path: Path, *, intercept: bool, arm_effects: bool | None) -> ArmTable:
    """The arms of an .npy file: a row of features for each, and a second array of names, if it has one.

    Without names they are the numbers of rows from 0. Without an intercept the file is mapped, not read.
    """
    features, names = open_array_file(path)
    if intercept:
        features = with_constant(features)
    columns = tuple(Column(name=name) for name in named_features("feature", features.shape[1] - intercept))
    try:
        encoding = Encoding(columns=columns, intercept=intercept)
        arms = ArmTable(names=names, features=features, encoding=encoding)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if arm_effects is None:
        return arms.with_effects_where_needed()
    return arms.with_effects() if arm_effects else arms


class ArrayLayout(NamedTuple):
    """Where the features lie in a file of arms."""

    shape: tuple[int, int]  # (k, d)
    by_columns: bool  # whether columns come first
    kind: np.dtype[Any]
    place: int  # of the first number


def layout_of(file: BinaryIO, where: str) -> ArrayLayout:
    """What a file of arms says before its numbers; then it is where names may begin. Refuse what is none."""
    with saying_what_it_must_be(where):
        shape, by_columns, kind = described(file)
        place = file.tell()
        end = place + shape[0] * shape[1] * kind.itemsize
        if file.seek(0, 2) < end:
            raise ValueError("got a part of one")
        file.seek(end)
    return ArrayLayout(shape, by_columns, kind, place)


def names_after(file: BinaryIO, k: int, where: str, *, stored: bool = False) -> Names:
    """The names of k arms after their features: those of a second array, or numbers.

    Those that are `stored` were taken once, by what was refused then.
    """
    place = file.tell()
    if file.seek(0, 2) == place:
        return Numbered(k)
    file.seek(place)
    with saying_what_it_must_be(where):
        texts = read_names(file, k)
    return names_of(texts, "names", where, stored=stored)


@contextmanager
def saying_what_it_must_be(where: str) -> Iterator[None]:
    """Whatever is wrong with the form of a file, begin with what it must be."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where} must be {MADE}, {error}") from None


def open_array_file(path: Path) -> tuple[npt.NDArray[Any], Names]:
    """(k, d) the features, mapped for reading, and the names."""
    try:
        with path.open("rb") as file:
            shape, by_columns, kind, place = layout_of(file, str(path))
            names = names_after(file, shape[0], str(path))
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read: {error.strerror}") from None
    order = "F" if by_columns else "C"
    features = np.memmap(path, kind, "r", place, shape, order)  # type: ignore[call-overload]
    return features, names


def described(file: BinaryIO) -> tuple[tuple[int, int], bool, np.dtype[Any]]:
    """(shape, whether columns come first, type) of the array that begins here; refuse what is no arms."""
    shape, by_columns, kind = read_header(file)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"got one of shape {shape}")
    if kind not in (np.dtype("<f4"), np.dtype("<f8")):
        raise ValueError(f"in little-endian float32 or float64, got {kind}")
    return (shape[0], shape[1]), by_columns, kind


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether columns come first, type) of whatever array begins here."""
    numpy = np.lib.format
    try:
        version = numpy.read_magic(file)
        read = numpy.read_array_header_1_0 if version == (1, 0) else numpy.read_array_header_2_0
        shape, by_columns, kind = read(file)
    except Exception:  # it is parsed as Python, which fails in many ways: TokenError, RecursionError, ...
        raise ValueError("got something else") from None
    if version[0] > 3 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("got something else")
    return shape, by_columns, kind


def read_names(file: BinaryIO, k: int) -> list[str]:
    """The names of k arms as texts, from the second array of a file, which begins here and ends it."""
    try:
        shape, _, kind = read_header(file)
    except ValueError as error:
        raise ValueError(f"and names of arms as a second one, {error} after it") from None
    if shape != (k,) or kind.kind not in "USiu":
        raise ValueError(f"and {k} names as a second one, got {kind} of shape {shape}")
    content = file.read()
    if len(content) != k * kind.itemsize or not content:
        raise ValueError(f"and {k} names as a second one, got {len(content)} bytes of {kind}")
    names = np.frombuffer(content, kind)
    try:
        if kind.kind == "U" and np.frombuffer(content, f"{kind.byteorder}u4").max() > sys.maxunicode:
            raise ValueError  # numpy would make text of it that cannot be read again
        return decoded(names)
    except ValueError:
        raise ValueError("and names of arms as a second one, got one that is not Unicode text") from None


def decoded(names: npt.NDArray[Any]) -> list[str]:
    """(k,) names as texts; ValueError where one is not Unicode text."""
    texts = list[str]()
    for start in range(0, len(names), SLICE):
        some = names[start : start + SLICE]
        found = (np.char.decode(some, "utf-8") if names.dtype.kind == "S" else some.astype(str)).tolist()
        "".join(found).encode()  # half a pair of surrogates cannot be stored
        texts += found
    return texts


def encoded(names: Sequence[str]) -> npt.NDArray[np.bytes_]:
    """(k,) names in UTF-8, all of them as wide as the longest."""
    made = np.empty(len(names), f"S{max(len(name.encode()) for name in names)}")
    for start in range(0, len(names), SLICE):
        made[start : start + SLICE] = np.char.encode(np.array(names[start : start + SLICE]), "utf-8")
    return made


def with_constant(features: npt.NDArray[Any]) -> Floats:
    """(k, d + 1) the same with a constant first, in the same type."""
    made = np.empty((features.shape[0], features.shape[1] + 1), features.dtype, order="F")
    made[:, 0] = 1.0
    made[:, 1:] = features
    return made


# -- tables -----------------------------------------------------------------------------------------------


def fetch_columns(
    connection: Connection,
    files: Sequence[StagedFile],
    names: Sequence[str],
    id: str = "",
    words: Sequence[str] = (),
) -> dict[str, Sequence[Any]]:
    """Columns of all files; one of them as ids are written, where it is named.

    Those of numbers are arrays where there are very many rows, but for integers that may be `words`; of a
    list in each row, every place is a column.
    """
    many = sum(file.rows for file in files) >= MANY_ARMS
    for file in files:
        check_columns({name: name for name in names}, list(file.types), file.name)
    kinds = {name: {file.types[name] for file in files} for name in names if name != id}
    lists = {name for name, found in kinds.items() if all(map(is_list, found))}
    arrays: dict[str, Place] = {
        name: (name, None)
        for name, found in kinds.items()
        if many and found <= (FLOATS if name in words else NUMBERS)
    }
    plain = [name for name in names if name not in lists and name not in arrays]
    table: dict[str, Any] = {**fetch_arrays(connection, files, arrays)}
    parts = [fetch_table(connection, file, plain, id) for file in files] if plain else []
    for place, name in enumerate(plain):
        table[name] = list(chain.from_iterable(part[place] for part in parts))
    found = dict[str, Sequence[Any]]()
    for name in names:
        found |= fetch_vectors(connection, files, name) if name in lists else {name: table[name]}
    return found


def is_list(kind: str) -> bool:
    """Whether DuckDB says that a column has a list of numbers in each row."""
    return kind.endswith("]") and kind.count("[") == 1 and kind.partition("[")[0] in NUMBERS


def fetch_arrays(
    connection: Connection, files: Sequence[StagedFile], columns: dict[str, Place]
) -> dict[str, Any]:
    """(k,) the numbers of some columns of all files, each under its name."""
    if not columns:
        return {}
    parts = [fetch_numbers(connection, file, list(columns.values())) for file in files]
    return {name: np.concatenate([part[at] for part in parts]) for at, name in enumerate(columns)}


def fetch_vectors(connection: Connection, files: Sequence[StagedFile], name: str) -> dict[str, Any]:
    """A column of lists as one column for each place, which must be there in every row."""
    widths = {width for file in files for width in some_lengths(connection, file, name)}
    if len(widths) != 1 or None in widths or 0 in widths:
        got = " and ".join("none" if width is None else f"{width}" for width in sorted(widths, key=str))
        where = f"{files[0].name}, column {name!r}"
        raise ValueError(f"{where}: must have as many numbers in every row, got {got}")
    labels = named_features(name, int(widths.pop() or 0))
    return fetch_arrays(connection, files, {label: (name, place) for place, label in enumerate(labels)})
