"""Laws of logs that are read from where they are: streams of Arrow, databases, files elsewhere."""

from __future__ import annotations

import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from linoto import Query, evaluate, read_log, read_rows
from linoto.cli import main
from linoto.logs.databases import check_schema
from linoto.logs.remote import why_not_fetched
from linoto.logs.tables import load_httpfs, new_database

COLUMNS: dict[str, Any] = {"item": "variant", "reward": "ordered", "numeric": ["age"]}


def orders(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "note": ["a|b"] * rows,
            "variant": rng.choice(["old", "new", "ünusual"], rows),
            "ordered": rng.integers(0, 2, rows),
            "age": rng.normal(40, 10, rows).round(3),
            "propensity": 1 / 3,
        }
    )


def in_sqlite(table: pd.DataFrame, folder: Path) -> str:
    with sqlite3.connect(folder / "shop.db") as connection:
        table.to_sql("orders", connection, index=False)
    connection.close()
    return f"sqlite:///{folder / 'shop.db'}"


def query(table: pd.DataFrame, folder: Path) -> Any:
    return Query(in_sqlite(table, folder), "SELECT * FROM orders ORDER BY rowid")


def dataset(table: pd.DataFrame, folder: Path) -> Any:
    pq.write_table(pa.table(table), folder / "orders.parquet")
    return ds.dataset(folder / "orders.parquet")


def relation(table: pd.DataFrame, folder: Path) -> Any:
    return duckdb.from_arrow(pa.table(table))


def small_batches(table: pd.DataFrame, folder: Path) -> Any:
    return pa.table(table).to_reader(max_chunksize=17)


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "a reader of batches": small_batches,
    "a dataset": dataset,
    "a relation of DuckDB": relation,
    "polars": lambda table, folder: pl.from_pandas(table),
    "a query": query,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_wherever_rows_are_the_log_has_the_same_bits(kind: str, tmp_path: Path) -> None:
    table = orders()
    expected = read_log(table, **COLUMNS)
    found = read_log(SOURCES[kind](table, tmp_path), **COLUMNS)
    assert found.rows == 500
    assert found.arms.names == expected.arms.names
    np.testing.assert_array_equal(found.offline.reward_sums, expected.offline.reward_sums)
    np.testing.assert_array_equal(found.moments.gram, expected.moments.gram)
    np.testing.assert_array_equal(found.moments.reward_vector, expected.moments.reward_vector)


def test_a_query_can_be_read_again_and_a_stream_once(tmp_path: Path) -> None:
    asked = query(orders(), tmp_path)
    log = read_log(asked, item="variant", reward="ordered")
    rows = read_rows(asked, item="variant", reward="ordered", propensity="propensity")
    assert rows.k == log.offline.pulls.size == 3
    assert evaluate(rows, "new", methods=["ips"])[0].value > 0
    stream = small_batches(orders(), tmp_path)
    read_log(stream, item="variant", reward="ordered")
    with pytest.raises(ValueError, match="the RecordBatchReader must have at least one row, got none"):
        read_log(stream, item="variant", reward="ordered")


def test_what_a_database_refuses_is_one_sentence_without_a_password(tmp_path: Path) -> None:
    url = in_sqlite(orders(3), tmp_path)
    with pytest.raises(ValueError, match=r"^the query to sqlite:.* failed: .*no such table: none$"):
        read_log(Query(url, "SELECT * FROM none"), item="variant", reward="ordered")
    with pytest.raises(ValueError, match=r"reward must be a column of the query to sqlite:.*did you mean"):
        read_log(Query(url, "SELECT * FROM orders"), item="variant", reward="orderd")
    with pytest.raises(ValueError, match=r"must be asked for rows: give linoto\.Query\(url, sql\)"):
        read_log(url, item="variant", reward="ordered")
    asked = Query("postgresql://me:secret@127.0.0.1:1/shop?password=hidden", "SELECT 1")
    with pytest.raises(
        ValueError, match=r"^the query to postgresql://me@127\.0\.0\.1:1/shop failed"
    ) as refused:
        read_log(asked, item="variant", reward="ordered")
    for shown in (str(refused.value), str(asked), repr(asked)):
        assert "secret" not in shown
        assert "hidden" not in shown


def test_a_stream_that_breaks_off_says_why(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from pa.table(orders()).to_batches()
        raise OSError("the warehouse went to sleep")

    stream = pa.RecordBatchReader.from_batches(pa.table(orders()).schema, broken())
    with pytest.raises(ValueError, match=r"^the RecordBatchReader broke off: the warehouse went to sleep$"):
        read_log(stream, item="variant", reward="ordered")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
    rows = endless + "SELECT 'a' AS variant, CASE WHEN i < 90000 THEN i ELSE json('{') END AS ordered FROM n"
    asked = Query(in_sqlite(orders(3), tmp_path), rows)
    with pytest.raises(ValueError, match=r"^the query to sqlite:.* broke off: .*malformed JSON"):
        read_log(asked, item="variant", reward="ordered")


@pytest.mark.parametrize(
    "url",
    [
        "postgersql://me:s3cret@127.0.0.1:1/shop",  # mistyped
        "postgresql:/me:s3cret@127.0.0.1:1/shop",
        "host=127.0.0.1 password=s3cret",
        "postgresql://me:s3cret/x@y@127.0.0.1:1/shop",  # not escaped
        "postgresql://me:x@s3cret@127.0.0.1:1/shop",
        "postgresql://me:12/s3cret@127.0.0.1:1/shop",
        "postgresql://127.0.0.1:1/shop?user=me&passWORD=s3cret",
        "postgresql://127.0.0.1:1/shop?password=x@s3cret",
    ],
)
def test_no_command_shows_a_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):  # where it is a matter of usage
        main(["audit", url, "--query", "SELECT 1", "--item", "variant", "--reward", "ordered"])
    printed = capsys.readouterr()
    assert "linoto" in printed.err
    assert "s3cret" not in printed.out + printed.err


def test_what_a_driver_would_misread_is_refused(tmp_path: Path) -> None:
    missing = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(ValueError, match=r"none\.db must be a file that is there, got none"):
        read_log(Query(missing, "SELECT 1"), item="variant", reward="ordered")
    assert not (tmp_path / "none.db").exists()
    url = in_sqlite(orders(3), tmp_path)
    with pytest.raises(ValueError, match="must be a query, got a statement that returns no columns"):
        read_log(Query(url, "CREATE TABLE other (a)"), item="variant", reward="ordered")
    money = pa.schema([pa.field("price", pa.int64(), metadata={"ADBC:postgresql:typname": "money"})])
    with pytest.raises(ValueError, match=r"column 'price' of type money, .*: cast it to numeric"):
        check_schema(Query(url, "SELECT 1"), money)
    with pytest.raises(ValueError, match=r"^source must be a path, .* got Series$"):
        read_log(orders().variant, item="variant", reward="ordered")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("orders.db", "url must be that of a database"),
        ("mysql://x/y", "url must begin with one of postgresql, .*, got 'mysql'"),
        ("sqlit:///x", "got 'sqlit': did you mean 'sqlite'"),
    ],
)
def test_what_is_no_database_is_refused_before_it_is_asked(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Query(url, "SELECT 1")


def test_a_driver_that_is_not_installed_is_named() -> None:
    with pytest.raises(ImportError, match="needs its driver: pip install adbc-driver-flightsql"):
        read_log(Query("flightsql://warehouse", "SELECT 1"), item="variant", reward="ordered")


def test_commands_ask_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, table = in_sqlite(orders(), tmp_path), tmp_path / "orders.csv"
    orders().to_csv(table, index=False)
    columns = ["--item", "variant", "--reward", "ordered", "--json"]
    main(["audit", str(table), *columns])
    expected = capsys.readouterr().out.replace(str(table), "").replace("orders.csv", "")
    main(["audit", url, "--query", "SELECT * FROM orders ORDER BY rowid", *columns])
    assert capsys.readouterr().out.replace(url, "").replace("shop.db", "") == expected
    for words in ([url], [str(table), "--query", "SELECT 1"]):
        with pytest.raises(SystemExit):
            main(["audit", *words, *columns])
        assert "--query must be said where LOG is the URL of a database" in capsys.readouterr().err


def test_a_file_elsewhere_needs_an_extension_that_is_named(tmp_path: Path) -> None:
    """DuckDB looks for extensions in the home folder, which is empty here."""
    code = "import linoto; linoto.read_log('s3://user:key@bucket/x.parquet?sig=1', item='a', reward='b')"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "ValueError: reading s3://bucket/x.parquet needs DuckDB's extension httpfs: install"
    )


def has_httpfs() -> bool:
    try:
        with new_database() as connection:
            load_httpfs(connection, "https://localhost")
    except ValueError:
        return False
    return True


@pytest.mark.skipif(not has_httpfs(), reason="DuckDB's extension httpfs is not installed")
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_elsewhere_give_the_same_log(kind: str, tmp_path: Path) -> None:
    table, folder = orders(), tmp_path / "served"
    folder.mkdir()
    write: dict[str, Callable[[Path], Any]] = {
        "parquet": table.to_parquet,
        "csv": lambda path: table.to_csv(path, index=False),
        "jsonl": lambda path: table.to_json(path, orient="records", lines=True),
    }
    write[kind](folder / f"orders.{kind}")
    with serving(folder) as place:
        found = read_log(f"{place}/orders.{kind}", **COLUMNS)
    expected = read_log(folder / f"orders.{kind}", **COLUMNS)
    np.testing.assert_array_equal(found.moments.gram, expected.moments.gram)
    assert found.source == f"{place}/orders.{kind}"


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[str]:
    """A server of these files, with TLS where it has a certificate: its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(not has_httpfs(), reason="DuckDB's extension httpfs is not installed")
def test_a_certificate_of_ones_own_is_trusted_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders().to_csv(tmp_path / "orders.csv", index=False)
    certificate = Path(__file__).parents[1] / "data" / "tls" / "first.crt"
    with serving(tmp_path, certificate) as place:
        with pytest.raises(ValueError, match=r"/orders.csv cannot be fetched: .*certificate.* SSL_CERT_FILE"):
            read_log(f"{place}/orders.csv?signature=secret", **COLUMNS)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert read_log(f"{place}/orders.csv", **COLUMNS).source == f"{place}/orders.csv"
        with pytest.raises(ValueError, match="certificate"):  # it is for another name
            read_log(f"{place}/orders.csv".replace("127.0.0.1", "localhost"), **COLUMNS)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            "IO Error: Could not connect to server error for HTTP HEAD to 'https://a/x?sig=1'",
            "Could not connect to server",
        ),
        (
            'HTTP Error: Unable to connect to URL "https://a/x?sig=1": 404 (Not Found).',
            "Unable to connect to URL it 404 (Not Found)",
        ),
        (
            "IO Error: SSL peer certificate was not OK error for HTTP GET to 'https://a/x?sig=1'\n\nLINE 1",
            "SSL peer certificate was not OK; SSL_CERT_FILE may name the certificate of an authority of your "
            "own",
        ),
    ],
)
def test_what_kept_a_file_from_being_fetched_is_said_without_its_address(error: str, why: str) -> None:
    assert why_not_fetched(error) == why
