"""Logs whose rows hold their own features: X'X and X'y, streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from linoto.core.kernels import Floats
from linoto.engines import map_cells
from linoto.logs.tables import (
    Piece,
    as_number,
    check_whole,
    connected,
    copy_rows,
    is_text,
    quoted,
    readable,
    scan,
    stage,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

STRETCH = 2**18  # rows of a part at least
CHUNK = 2**15  # rows held at once
BLOCK = 512  # rows multiplied at once: BLAS keeps such products on one thread


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """X'X, X'y and y'y of a log whose rows hold their own features."""

    gram: Floats  # (d, d)
    moment: Floats  # (d,)
    reward_squares: float
    rows: int


class Stretch(NamedTuple):
    """Some row groups of a Parquet file: what one thread multiplies."""

    name: str  # of what the user gave
    path: str
    groups: tuple[int, ...]
    first: int  # its first row


def read_moments(source: Any, *, features: Sequence[str], reward: str, jobs: int | None = None) -> Moments:
    """Stream feature columns into X'X and X'y: the same bits for any number of threads."""
    names = [*features, reward]
    wanted = {f"feature {name!r}": name for name in features} | {"reward": reward}
    total = np.zeros((len(names), len(names)))
    with TemporaryDirectory(prefix="linoto-") as folder, connected() as connection:
        pieces = [
            as_numbers(connection, piece, names, Path(folder))
            for piece in stage(connection, source, wanted, Path(folder))
        ]
        stretches = [stretch for piece in pieces for stretch in cut_stretches(piece)]
        for product in map_cells(partial(multiply_stretch, names), stretches, jobs=jobs):
            total += product
    return Moments(
        gram=total[:-1, :-1].copy(),
        moment=total[:-1, -1].copy(),
        reward_squares=float(total[-1, -1]),
        rows=sum(piece.rows for piece in pieces),
    )


def as_numbers(connection: Connection, piece: Piece, names: Sequence[str], folder: Path) -> Piece:
    """The piece itself, or where a column is text, a copy that holds numbers; NULL where there is none."""
    check_whole(piece)
    types = dict(piece.types)
    if not any(is_text(types[name]) for name in names):
        return piece
    columns = ", ".join(f"{as_number(piece, name)} AS {quoted(name)}" for name in dict.fromkeys(names))
    copy = str(folder / f"{Path(piece.path).stem}.numbers.parquet")
    with readable(piece.name, piece.kind):
        copy_rows(connection, f"SELECT {columns} FROM {scan(piece.path)}", copy)
    return piece._replace(path=copy)


def cut_stretches(piece: Piece) -> list[Stretch]:
    """Consecutive row groups, at least STRETCH rows of them: fixed by the file."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(piece.path)
    stretches: list[Stretch] = []
    groups: list[int] = []
    first = rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= STRETCH or group == metadata.num_row_groups - 1:
            stretches.append(Stretch(piece.name, piece.path, tuple(groups), first))
            first, rows, groups = first + rows, 0, []
    return stretches


def multiply_stretch(names: Sequence[str], stretch: Stretch) -> Floats:
    """Z'Z of some row groups, Z the features and the reward.

    By pyarrow: DuckDB holds a whole row group of all columns at once. With `pre_buffer` so would pyarrow.
    """
    from pyarrow import ArrowException, parquet

    total, row = np.zeros((len(names), len(names))), stretch.first
    try:
        with parquet.ParquetFile(stretch.path, pre_buffer=False, buffer_size=2**16) as file:
            columns = list(dict.fromkeys(names))
            batches = file.iter_batches(CHUNK, row_groups=stretch.groups, columns=columns, use_threads=False)
            for chunk in fixed_chunks((batch.select(list(names)) for batch in batches), len(names)):
                product = multiply(chunk)
                if not np.isfinite(product).all():
                    refuse_values(chunk, row, names, stretch.name)
                total += product
                row += chunk.shape[1]
    except (ArrowException, OSError):
        raise ValueError(f"{stretch.name} cannot be read as Parquet: it is damaged") from None
    return total


def refuse_values(chunk: Floats, row: int, names: Sequence[str], where: str) -> None:
    """Name the first value that is missing, no number, or infinite; or all are too large."""
    wrong = np.argwhere(~np.isfinite(chunk.T))
    if not wrong.size:
        raise ValueError(f"{where}: values are too large to be squared and summed")
    at, column = wrong[0]
    raise ValueError(f"{where}, row {row + at + 1}, column {names[column]!r}: must be a finite number")


def fixed_chunks(batches: Iterable[Any], width: int) -> Iterator[Floats]:
    """(width, CHUNK) arrays from Arrow batches of any size; the last one may be shorter."""
    chunk, filled = np.empty((width, CHUNK)), 0
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        taken = 0
        while taken < batch.num_rows:
            size = min(batch.num_rows - taken, CHUNK - filled)
            for i, column in enumerate(columns):
                chunk[i, filled : filled + size] = column[taken : taken + size]
            filled, taken = filled + size, taken + size
            if filled == CHUNK:
                yield chunk
                filled = 0
    if filled:
        yield chunk[:, :filled]


def multiply(chunk: Floats) -> Floats:
    """Z'Z of a chunk (width, n). Blocks are added in order; the left factor lacks a row, because NumPy's path
    for X'X is slow on some BLAS."""
    width, n = chunk.shape
    whole = n - n % BLOCK
    blocks = chunk[:, :whole].reshape(width, -1, BLOCK).transpose(1, 0, 2)
    rest = chunk[:, whole:]
    product = np.empty((width, width))
    product[:-1] = (blocks[:, :-1] @ blocks.transpose(0, 2, 1)).sum(axis=0) + rest[:-1] @ rest.T
    product[-1, :-1] = product[:-1, -1]
    product[-1, -1] = np.square(chunk[-1]).sum()  # not a dot product, which BLAS may share among threads
    return product
