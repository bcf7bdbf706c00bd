"""`linoto log sql`: the statement that a warehouse runs, so that a log need not leave it."""

from __future__ import annotations

import argparse

from linoto.cli.log_options import add_context, add_guardrails, read_columns, read_crosses
from linoto.cli.usage import Commands, Parser, add_command, described

DIALECTS = ("bigquery", "snowflake", "postgres", "spark", "duckdb")  # as in linoto.logs.dialects

DESCRIPTION = """\
Print one statement that sums a log up where it is. A warehouse runs it, and returns a row for each
item (with --time for each half, with --category for each combination of levels, with --missing
feature for each of numbers that are there) however many rows there are. Save them as Parquet or
CSV: `linoto audit FILE` reads them like the log itself, and so does linoto.read_log(FILE) in
Python. Nothing is run here, and nothing is written there.

TABLE is the name of a table, as the warehouse takes it, or a query: rewards must be numbers in it."""

EXAMPLES = """\
  linoto log sql shop.orders --dialect bigquery --item variant --reward ordered --time day
  linoto log sql "SELECT *, CAST(bought AS INT) AS y FROM visits" --dialect spark \\
    --item banner --reward y --numeric age --category country
  linoto audit postgresql://analyst@warehouse/shop --query \\
    "$(linoto log sql orders --dialect postgres --item variant --reward ordered)\""""


def add_log(commands: Commands) -> None:
    """`linoto log`."""
    log = described(
        commands,
        "log",
        "a log that stays where it is: the statement that sums it up in a warehouse",
        "  linoto log sql shop.orders --dialect bigquery --item variant --reward ordered",
    )
    actions = log.add_subparsers(title="actions", required=True, metavar="ACTION", parser_class=Parser)
    sql = add_command(
        actions,
        "sql",
        help="print the one statement whose rows `linoto audit` reads",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    sql.add_argument("table", metavar="TABLE", help="a table of the warehouse, or a query in quotes")
    sql.add_argument("--dialect", required=True, choices=DIALECTS, help="the SQL of which warehouse")
    sql.add_argument("--item", required=True, metavar="COL", help="column with what was played")
    sql.add_argument("--reward", required=True, metavar="COL", help="column with what it earned, a number")
    sql.add_argument("--propensity", metavar="COL", help="column: how likely the item was")
    sql.add_argument(
        "--time", metavar="COL", help="column that says what is early (default: nothing is compared)"
    )
    sql.add_argument(
        "--where", metavar="ROWS", help="rows to read, as in \"month >= 6 and country = 'NO'\" (default: all)"
    )
    add_context(sql, foreign=False)
    add_guardrails(sql)
    sql.set_defaults(run=run_sql, refuse=sql.error)


def run_sql(arguments: argparse.Namespace) -> None:
    """`linoto log sql`."""
    from linoto.logs.dialects import dialect_of
    from linoto.logs.statement import Question, refuse_columns, statement_of

    a = arguments
    refuse_columns(read_columns(a))
    question = Question(
        table=a.table,
        reward=a.reward,
        item=a.item,
        propensity=a.propensity,
        time=a.time,
        where=a.where,
        numeric=a.numeric,
        categories=a.category,
        crosses=read_crosses(a),
        min_count=a.min_count or 1,
        guardrails=a.guardrail or (),
        missing=a.missing or "refuse",
    )
    print(statement_of(question, dialect_of(a.dialect)))
