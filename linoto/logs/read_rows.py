"""The rows of files, one by one: for what the statistics of a log cannot answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b, file_digest
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import text_of
from linoto.core.features.recipe import Recipe
from linoto.core.hints import nearest
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import check_arms
from linoto.logs.asked import asked_for
from linoto.logs.metrics import check_metric
from linoto.logs.notation import Notation
from linoto.logs.queries import (
    Columns,
    ResultColumns,
    RowRange,
    fetch_rows,
    introduce_arms,
    refuse_bad_row,
)
from linoto.logs.rows import Rows, check_recipe
from linoto.logs.tables import Connection, StagedFile, refuse_rejected, source_name
from linoto.logs.where import open_rows


def read_rows(
    source: Any,
    *,
    reward: str,
    item: str | None = None,
    arms: ArmTable | None = None,
    recipe: Recipe | None = None,
    propensity: str | None = None,
    candidates: str | None = None,
    id: str | None = None,
    time: str | None = None,
    metrics: Sequence[str] = (),
    where: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    skip_bad: bool = False,
) -> Rows:
    """The rows of files (a path, a glob, a list of paths) or of a pandas, polars or Arrow table.

    With the `recipe` of this or of an earlier log they have their contexts, and its items are the arms.
    `candidates` is a column with the arms that could be played in each row: a list, or words between bars as
    in A|C|D; where it is empty, as in an export, every arm could. In the order of `time` where it is named.
    Without an `id` column a row of a file is known by what the file holds and its place in it: the same file
    gives the same ids under any name, in any folder. A row of a table is not known at all. The first bad row
    is a ValueError that names it; with `skip_bad` such rows are left out, and counted in `left_out`.
    `metrics` are columns of numbers besides the reward, which may lack a value. `item`, `arms`, `where`,
    `decimal` and `thousands` are those of `read_log`.
    """
    check_arms(arms)
    if recipe is not None:
        check_recipe(recipe)
    named = Columns(
        reward=reward,
        item=item,
        propensity=propensity,
        time=time,
        id=id,
        candidates=candidates,
        metrics=tuple(metrics),
        notation=Notation(decimal, thousands),
    )
    asked = asked_for(recipe)
    columns = asked.complete(named)
    for metric in metrics:
        check_metric(metric, columns)
    with open_rows(source, columns, where) as (connection, files, notes):
        known = asked.listed(arms)
        if known is None:
            place = source_name(source)
            known = asked.find_arms(connection, files, str(item), place, skip_bad=skip_bad).arms
        introduce_arms(connection, known.names)
        values = fetch_columns(connection, files, columns, known.names, skip_bad=skip_bad)
    rows = Rows(
        arms=values["arm"],
        rewards=values["reward"],
        k=len(known.names),
        propensities=values.get("propensity"),
        ids=values.get("id"),
        names=known.names,
        recipe=recipe,
        context={field: values[sql] for field, (sql, _) in columns.fields().items()},
        candidates=values.get("candidates"),
        metrics={name: as_values(values[f"m{place}"]) for place, name in enumerate(columns.metrics)},
        left_out=sum(file.rows + file.rejected for file in files) - len(values["arm"]),
        notes=notes,
    )
    return rows if time is None else rows.take(np.argsort(values["time"], kind="stable"))


def fetch_columns(
    connection: Connection,
    files: Sequence[StagedFile],
    columns: Columns,
    names: Sequence[str],
    *,
    skip_bad: bool,
) -> ResultColumns:
    """The good rows of all files, by column; with ids where rows can be told apart, and what was on offer."""
    whole = [RowRange.whole(file, columns) for file in files]
    found = [fetch_good_rows(connection, rows, names, skip_bad=skip_bad) for rows in whole]
    numbers = [part.pop("row") for part in found]
    values = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    if not values["arm"].size:
        raise ValueError(f"{files[0].name} must have at least one usable row, got none")
    if columns.candidates is not None:
        texts = values["candidates"].tolist()
        values["candidates"] = read_candidates(texts, values["arm"], columns.candidates, names)
    if columns.id is None and (known := places(files, numbers)) is not None:
        values["id"] = np.array(known)
    return values


def fetch_good_rows(
    connection: Connection, rows: RowRange, names: Sequence[str], *, skip_bad: bool
) -> ResultColumns:
    """Rows of a file, by column; the first bad one is refused, unless they are left out."""
    found = fetch_rows(connection, rows)
    good = np.ma.getmaskarray(found.pop("kind"))
    if not skip_bad:
        if not good.all():
            refuse_bad_row(connection, rows, names)
        refuse_rejected([rows.file])
    return {role: with_none(column[good]) for role, column in found.items()}


def as_values(column: npt.NDArray[Any]) -> Floats:
    """Values of a metric, NaN where there is none."""
    return np.asarray(column, dtype=np.float64)  # None becomes NaN


def with_none(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column with None where it is masked."""
    missing = np.ma.getmaskarray(column)
    if not missing.any():
        return np.asarray(column)
    words = np.ma.getdata(column).astype(object)
    words[missing] = None
    return words


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


# -- what could be played ---------------------------------------------------------------------------------


def read_candidates(texts: Sequence[str | None], arms: Ints, column: str, names: Sequence[str]) -> Bools:
    """(n, k) which arms could be played, all where nothing is said; each row must have the one that was."""
    places = {name: place for place, name in enumerate(names)}
    known: dict[str | None, Bools] = {None: np.ones(len(names), dtype=np.bool_)}
    for text in texts:
        if text is not None and text not in known:
            mask = np.zeros(len(names), dtype=np.bool_)
            for word in words_of(text):
                if word not in places:
                    hint = nearest(word, names)
                    raise ValueError(
                        f"column {column!r}: the candidates must be among the {len(names)} arms, "
                        f"got {word!r}{hint}"
                    )
                mask[places[word]] = True
            known[text] = mask
    found = np.array([known[text] for text in texts])
    played = found[np.arange(len(arms)), arms]
    if not played.all():
        row = int((~played).argmax())
        raise ValueError(
            f"row {row + 1}, column {column!r}: the candidates must have the item that was played, "
            f"{names[arms[row]]!r}, got {texts[row]!r}"
        )
    return found


def words_of(text: str) -> Iterator[str]:
    """The words of a list in JSON, or between bars."""
    try:
        listed = json.loads(text) if text.startswith("[") else text.split("|")
    except ValueError:
        listed = text.split("|")
    return (text_of(word).strip() for word in listed)
