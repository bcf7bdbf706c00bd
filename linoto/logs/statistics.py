"""A log from the rows that `linoto log sql` gave: what a warehouse summed up becomes what `read_log` finds.

Rows are blocks of the log with the same item, levels and half. Of each the sums of products of centred
numbers are known; features of a recipe are (number - mean) / scale, so their products are polynomials of
them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.cells import level_of, text_of
from linoto.core.features.columns import Category, Numeric, Spread
from linoto.core.features.recipe import Recipe
from linoto.core.hints import nearest
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import arms_named
from linoto.logs.asked import AskedArms, asked_for
from linoto.logs.databases import Query
from linoto.logs.feature_sums import Found, HalfSums, Seen, SumPlan, gather
from linoto.logs.features import LoggedContexts
from linoto.logs.queries import KEPT_UNKNOWN, MISSING, UNKNOWN, ResultColumns, fetch_table
from linoto.logs.statement import METRIC, PART, REWARD, Factors, Question
from linoto.logs.sums import RewardEnds, by_arm, kept_ends, sums_equal_squares
from linoto.logs.tables import is_path, kind_of, open_source, refuse_rejected, source_name
from linoto.logs.text_files import read_header, read_keys
from linoto.logs.usual_crosses import borne_out

KNOWN_PARTS = ("rows", "low", "high")
NEITHER = "reward must be the column of what was earned, got None and no statistics by `linoto log sql`"
STRAIGHT = "numbers count by straight lines: sums do not tell whether curves would be likelier, rows would"
UNHALVED = (
    "crosses are judged by all rows together: with --time there are halves, which must foretell each other"
)


def is_statistics(source: Any) -> bool:
    """Whether a file has the column that only such rows have; a query is asked when it is read."""
    if isinstance(source, Query):
        return True
    if not is_path(source) or not Path(source).is_file():
        return False
    kind = kind_of(Path(source))
    if kind == "Parquet":
        import pyarrow.parquet as parquet

        return PART in parquet.read_schema(source).names
    return PART in (
        read_keys(Path(source)) if kind == "JSON lines" else read_header(Path(source), None).names
    )


def read_blocks(source: Any) -> Blocks:
    """The rows that a warehouse gave."""
    where = source_name(source)
    with open_source(source, None) as (connection, files):
        refuse_rejected(files)
        if any(PART not in file.types for file in files):
            raise ValueError(NEITHER)
        table: dict[str, list[Any]] = {}
        for file in files:
            for name in file.types:
                as_id = name == "item" or name.startswith("level")
                (values,) = fetch_table(connection, file, [name], name if as_id else "")
                table.setdefault(name, []).extend(values)
    return Blocks.of(table, where)


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """The rows that came back, and what was asked."""

    question: Question
    source: str
    parts: Sequence[str]
    table: dict[str, list[Any]]
    recipe: Recipe | None = None  # that was learned already; None: it is made of the columns

    @classmethod
    def of(cls, table: dict[str, list[Any]], where: str) -> Blocks:
        """The rows in a table, of which one says what was asked."""
        parts = [str(part) for part in table[PART]]
        headers = {part for part in parts if part.startswith("{")}
        try:
            (header,) = headers
            question = Question.from_header(header)
            missing = [name for name in question.names if name not in table]
        except (ValueError, TypeError, KeyError, json.JSONDecodeError) as error:
            told = (
                str(error) if "format" in str(error) else f"got {len(headers)} rows that say what was asked"
            )
            raise ValueError(
                f"{where} must hold all rows of one statement by `linoto log sql`: {told}"
            ) from None
        if missing:
            raise ValueError(f"{where} must have all columns of its statement, got no {missing[0]!r}")
        return cls(question=question, source=where, parts=parts, table=table)

    @property
    def rewards(self) -> Blocks:
        """The same without rows about guardrails."""
        prefixes = tuple(METRIC.format(place) for place in range(len(self.question.metrics)))
        stay = [place for place, part in enumerate(self.parts) if not part.startswith(prefixes or "\0")]
        return self.only(stay)

    def values(self, place: int, recipe: Recipe | None) -> Blocks:
        """The rows about one of the guardrails, its values as rewards; `recipe` is that of the log."""
        prefix = METRIC.format(place)
        some = self.only([at for at, part in enumerate(self.parts) if part.startswith(prefix)])
        return replace(
            some,
            parts=[part.removeprefix(prefix) for part in some.parts],
            question=self.question.about(self.question.metrics[place]),
            recipe=recipe,
        )

    def at(self, part: str) -> list[int]:
        """The places of the rows of a kind."""
        return [place for place, name in enumerate(self.parts) if name == part]

    def column(self, name: str, part: str = "rows") -> list[Any]:
        """A column of the rows of a kind."""
        values = self.table[name]
        return [values[place] for place in self.at(part)]

    def numbers(self, name: str, part: str = "rows") -> Floats:
        """The same as numbers; NaN where there is none."""
        return np.array([np.nan if value is None else float(value) for value in self.column(name, part)])

    @cached_property
    def sums(self) -> dict[Factors, Floats]:
        """(b,) of each product, in each block; of those without a row there is none."""
        return {factors: self.numbers(f"s{place}") for place, factors in enumerate(self.question.factors)}

    @property
    def rows(self) -> Floats:
        """(b,) how many rows each block has."""
        return self.sums[()]

    @cached_property
    def bad(self) -> Counter[str]:
        """Rows that cannot be used, by what is wrong with them."""
        counts = Counter[str]()
        for place, part in enumerate(self.parts):
            if part not in KNOWN_PARTS and not part.startswith("{"):
                counts[part] += int(float(self.table["s0"][place]))  # in CSV others write 3 as 3.0
        return counts

    # -- the log ------------------------------------------------------------------------------------------

    def log(self, arms: ArmTable | None, *, skip_bad: bool) -> dict[str, Any]:
        """What `Log` is made of."""
        q, names = self.question, self.column("item")
        bad, notes = Counter(self.bad), tuple[str, ...]()
        if not names:
            value = f" with a value in {q.reward!r}" if bad[MISSING] else ""
            raise ValueError(f"{self.source} must have at least one usable row{value}, got none")
        if arms is None:
            total = int(self.rows.sum())
            arms, notes = arms_named(set(names), total, q.item, self.source, skip_bad=skip_bad)
        places = {name: place for place, name in enumerate(arms.names)}
        unknown = Counter[str]()
        for name, count in zip(names, self.rows, strict=True):
            if name not in places:
                unknown[name] += int(count)
        if unknown:
            bad[UNKNOWN] += unknown.total()
        refused = Counter({kind: count for kind, count in bad.items() if kind != MISSING})
        if refused and not skip_bad:
            self.refuse_bad(refused, unknown, arms)
        known = np.array([name in places for name in names])
        some = self.chosen(known)
        at = np.array([places[name] for name in some.column("item")], dtype=np.int64)
        return some.found(arms, at, bad, unknown, notes)

    def refuse_bad(self, bad: Counter[str], unknown: Counter[str], arms: ArmTable) -> None:
        """Name what is wrong with most rows."""
        kind, count = bad.most_common(1)[0]
        first = unknown.most_common(1)[0][0] if kind == UNKNOWN else ""
        hint = f" {first!r}{nearest(first, arms.names)}" if first else ""
        if kind in (f"missing {name}" for name in self.question.numeric):
            hint = " (linoto log sql --missing feature gives such rows a feature)"
        raise ValueError(f"{self.source} must have good rows only, got {count:,} with: {kind}{hint}")

    def chosen(self, kept: Bools) -> Blocks:
        """The same with some of the blocks."""
        dropped = {place for place, good in zip(self.at("rows"), kept, strict=True) if not good}
        return self.only([place for place in range(len(self.parts)) if place not in dropped])

    def only(self, stay: Sequence[int]) -> Blocks:
        """The same with some of the rows that came back."""
        table = {name: [values[place] for place in stay] for name, values in self.table.items()}
        return replace(self, parts=[self.parts[place] for place in stay], table=table)

    def found(
        self, arms: ArmTable, at: Ints, bad: Counter[str], unknown: Counter[str], notes: tuple[str, ...]
    ) -> dict[str, Any]:
        """The same for blocks whose arms are known."""
        q, k = self.question, len(arms.names)
        if not at.size:
            raise ValueError(f"{self.source} must have at least one usable row, got none")
        late = self.numbers("late").astype(np.int64)
        names = {"pulls": (), "sum": (REWARD,), "square": (REWARD, REWARD)}
        sums: ResultColumns = {"late": late, "arm": at} | {name: self.sums[of] for name, of in names.items()}
        if q.propensity is not None:
            sums |= {name: self.numbers(name) for name in ("inverse", "inverse_square")}
            sums |= {"low": self.numbers("low_chance"), "high": self.numbers("high_chance")}
            sums["weighed"] = self.rows
        early, late_half, propensities = by_arm(sums, k)
        contexts, more = self.contexts(arms, at, late)
        if q.where is not None:
            more = (*more, f"where {q.where} was said when it was summed up")
        low, high = self.numbers("low"), self.numbers("high")
        binary = sums_equal_squares(early) and sums_equal_squares(late_half)
        return {
            "arms": arms,
            "early": early,
            "late": late_half,
            "contexts": contexts,
            "rows": int(self.rows.sum()) + bad.total(),
            "bad": dict(sorted(bad.items())),
            "unknown": dict(unknown.most_common(KEPT_UNKNOWN)),
            "extent": (float(low.min()), float(high.max())),
            "split": self.split(),
            "propensities": None if q.propensity is None else propensities,
            "ends": None if binary else self.ends(at, k),
            "notes": (*notes, *more),
            "source": self.source,
        }

    def ends(self, at: Ints, k: int) -> RewardEnds:
        """The rewards at either end, and the ends of each arm."""
        most = kept_ends(int(self.rows.sum()))
        found = []
        for part, sign in (("low", 1), ("high", -1)):
            values, counts = self.numbers(part, part), self.numbers("s0", part)
            order = np.argsort(sign * values, kind="stable")
            found.append(np.repeat(values[order], counts[order].astype(np.int64).clip(0, most))[:most])
        lowest, highest = (np.full(k, end) for end in (np.inf, -np.inf))
        np.minimum.at(lowest, at, self.numbers("low"))
        np.maximum.at(highest, at, self.numbers("high"))
        return RewardEnds(found[0], found[1], lowest, highest)

    def split(self) -> str:
        """What early and late mean."""
        time = self.question.time
        if time is None:
            return "nothing: its statement was given no time"
        cut = self.column("cut")[0]
        if isinstance(cut, str):
            try:
                cut = float(cut)
            except ValueError:
                cut = datetime.fromisoformat(cut.removesuffix(" UTC"))
        if isinstance(cut, datetime):
            return f"{time} before {cut:%Y-%m-%d %H:%M:%S} UTC"
        if isinstance(cut, date):
            return f"{time} before {cut:%Y-%m-%d} 00:00:00 UTC"
        return f"{time} before {text_of(cut)}"

    # -- contexts -----------------------------------------------------------------------------------------

    def contexts(self, arms: ArmTable, at: Ints, late: Ints) -> tuple[LoggedContexts | None, tuple[str, ...]]:
        """The recipe of these columns and the moments of its features, and what was noticed."""
        q = self.question
        asked = asked_for(
            None,
            arms,
            numeric=q.numeric,
            categories=q.categories,
            crosses=q.crosses,
            min_count=q.min_count,
            missing=q.missing,
        )
        if isinstance(asked, AskedArms):
            return None, ()
        asked = asked if self.recipe is None else asked_for(self.recipe)
        seen = Seen({name: (self.spread(place),) for place, name in enumerate(q.numeric)})
        seen |= {name: self.counted(place) for place, name in enumerate(q.categories)}
        made = asked.made(seen, q.item, arms, int(self.rows.sum()))
        plan = SumPlan(recipe=made.recipe)
        asked.check_size(plan, self.source)
        codes = self.codes(plan, at)
        halves = (plan.moments(self.half(plan, codes, late == half)) for half in (0, 1))
        found, more = borne_out(made, LoggedContexts(made.recipe, *halves))
        if made.usual and found.recipe.crosses:
            more += (STRAIGHT,) * bool(q.numeric) + (UNHALVED,) * (q.time is None)
        return found, (*asked.notes(seen, int(self.rows.sum())), *more)

    def words(self, place: int) -> list[str | None]:
        """A level of a column in each block; None: without a value."""
        return [None if word is None else level_of(word) for word in self.column(f"level{place}")]

    def counted(self, place: int) -> Counter[str | None]:
        """Rows of each level."""
        counts = Counter[str | None]()
        for word, rows in zip(self.words(place), self.rows, strict=True):
            counts[word] += int(rows)
        return counts

    def centre(self, place: int) -> float:
        """The mean that was taken off a column of numbers; 0 where all of them are missing."""
        return float(np.nan_to_num(self.numbers(f"mean{place}")[0]))

    def filled(self, place: int) -> Bools:
        """(b,) whether a block has a number in a column: all of its rows have one, or none."""
        if not self.question.gone:
            return np.ones(self.rows.size, dtype=np.bool_)
        return np.asarray(self.numbers(self.question.gone[place]) == 0)

    def spread(self, place: int) -> Spread:
        """What a column of numbers is like."""
        size, away = float(self.rows[self.filled(place)].sum()), float(self.sums[(f"z{place}",)].sum())
        if not size:
            return Spread()
        squares = float(self.sums[(f"z{place}", f"z{place}")].sum()) - away * away / size
        ends = float(self.numbers(f"least{place}").min()), float(self.numbers(f"most{place}").max())
        return Spread(size, self.centre(place) + away / size, max(squares, 0.0), *ends)

    def codes(self, plan: SumPlan, at: Ints) -> dict[str, Ints]:
        """(b,) the place of the level of each block, by what its column is called in a plan."""
        found = {"item": at}
        for sql, column in plan.in_sql.values():
            if isinstance(column, Category) and column.name in self.question.categories:
                words = self.words(self.question.categories.index(column.name))
                found[sql] = np.array([column.code(word) for word in words], dtype=np.int64)
        return found

    def half(self, plan: SumPlan, codes: dict[str, Ints], chosen: Bools) -> HalfSums:
        """The sums that a plan asks for, of the blocks of a half."""
        found: Found = {}
        for keys, products in plan.queries.items():
            groups, which = np.zeros((1, 0), dtype=np.int64), np.zeros(int(chosen.sum()), dtype=np.int64)
            if keys:
                given = np.column_stack([codes[key][chosen] for key in keys])
                groups, which = np.unique(given, axis=0, return_inverse=True)
            found[keys] = {key: groups[:, place] for place, key in enumerate(keys)}
            for place, factors in enumerate(products):
                total = np.zeros(len(groups))
                np.add.at(total, which.reshape(-1), self.product(plan, factors)[chosen])
                found[keys][f"s{place}"] = total
        return gather(found, plan)

    def product(self, plan: SumPlan, factors: Factors) -> Floats:
        """(b,) sums of a product of features: of (z + centre - mean) / scale, multiplied out.

        Where a number is missing its feature is 0, and the next one 1: all rows of a block are alike in that.
        """
        numbers = [(sql, column) for sql, column in plan.in_sql.values() if isinstance(column, Numeric)]
        columns = {f"{sql}_{place}": (column, bool(place)) for sql, column in numbers for place in (0, 1)}
        terms: dict[Factors, float] = {(): 1.0}
        kept = np.ones(self.rows.size, dtype=np.bool_)
        for name in factors:
            if name == REWARD:
                terms = {tuple(sorted((*known, REWARD))): weight for known, weight in terms.items()}
                continue
            column, missing = columns[name]
            place = self.question.numeric.index(column.name)
            kept &= self.filled(place) != missing
            if missing:
                continue
            grown: defaultdict[Factors, float] = defaultdict(float)
            for known, weight in terms.items():
                grown[tuple(sorted((*known, f"z{place}")))] += weight / column.scale
                grown[known] += weight * (self.centre(place) - column.mean) / column.scale
            terms = dict(grown)
        found = sum((weight * self.sums[known] for known, weight in terms.items()), np.zeros(self.rows.size))
        return np.where(kept, found, 0.0)
