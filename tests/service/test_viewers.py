"""A role that sees the numbers of loops, and nowhere who asked."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from helpers.loops import decide, reward
from helpers.loops_with_contexts import create
from helpers.service_process import FakeClock, opened
from litestar.testing import TestClient

from linoto.service.loops.explanations import explain
from linoto.service.storage import tokens
from linoto.service.storage.database import open_database
from linoto.service.web.access import create_token

PERSON, KEY = "Atlantis", "visit-4711"


def texts(answer: Any) -> str:
    """An answer as text, also where it is a file."""
    if "parquet" in answer.headers["content-type"]:
        return str(pq.read_table(io.BytesIO(answer.content)).to_pylist())
    return str(answer.text)


def test_no_route_tells_a_viewer_who_asked(tmp_path: Path) -> None:
    """Every route that the description lists and that reads; a reader finds it in some of them."""
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service)
        made = decide(service, key=KEY, context={"age": 31.25, "country": PERSON})
        reward(service, made.decision_id, 1.0)
        secrets = {
            role: service.store.write_sync(lambda c, role=role: create_token(c, role, role, 0.0))
            for role in ("viewer", "reader")
        }
        service.store.write_sync(service.access.refresh)
        with TestClient(service.app, base_url="http://127.0.0.1") as http:
            bearers = {role: {"authorization": f"Bearer {secret}"} for role, secret in secrets.items()}
            paths = http.get("/v1/openapi.json", headers=bearers["reader"]).json()["paths"]
            urls = [
                path.format(name="loop", decision_id=made.decision_id)
                for path, ways in paths.items()
                if "get" in ways
            ]
            urls += ["/metrics", f"/v1/loops/loop/decisions?key={KEY}", f"/v1/decisions?key={KEY}"]
            told, refused = [], []
            for url in urls:
                seen, all_of_it = (http.get(url, headers=bearers[role]) for role in ("viewer", "reader"))
                assert not any(word in texts(seen) for word in (PERSON, KEY, "31.25")), url
                if any(word in texts(all_of_it) for word in (PERSON, KEY, "31.25")):
                    told.append(url)
                if seen.status_code == 403:
                    refused.append(url)
        assert len(told) >= 5, "lists, explanations, exports, and two ways to look for a key"
        assert refused == [
            url for url in urls if url.endswith(("/spec", "/v1/decisions")) or "key=" in url
        ], "everything else is shown, without who asked"


def test_a_viewer_is_shown_the_reasons_that_name_nobody(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service)
        made = decide(service, context={"age": 31, "country": "DE"})
        token = service.store.write_sync(lambda c: create_token(c, "v", "viewer", 0.0))
        service.store.write_sync(service.access.refresh)
        with TestClient(service.app, base_url="http://127.0.0.1") as http:
            bearer = {"authorization": f"Bearer {token}"}
            why = http.get(f"/v1/loops/loop/decisions/{made.decision_id}", headers=bearer).json()
            assert why["context"] is None and why["because"] == [] and "DE" not in str(why["reasons"])
            assert why["reasons"][0].startswith("The policy wanted to play")
            refused = http.post("/v1/loops/loop/decide", headers=bearer, json={})
            assert refused.status_code == 403 and "needs the role writer" in refused.text


def test_a_viewer_is_told_that_who_asked_is_hidden_and_not_that_small_parts_add_up(tmp_path: Path) -> None:
    """The arm is expected to earn more because of the country, which this role must not see."""
    with opened(tmp_path / "x.sqlite", clock=FakeClock()) as service:
        create(service)
        loop = service.loops.get("loop")
        made = [decide(service, context={"age": 31, "country": place}) for place in ("DE", "NO") * 3]
        told = []
        for one in made:
            seen, whole = (
                service.store.read_database(
                    lambda c, one=one, all=all: explain(c, loop, one.decision_id, all)
                )
                for all in (False, True)
            )
            assert "many small parts" not in str(seen.reasons)
            assert "is not shown to this role" in seen.reasons[-1]
            assert "not shown to this role" not in str(whole.reasons)
            told += [seen.reasons for line in whole.reasons if "because of country" in line]
        assert told and all(" more than C, current practice." in str(reasons) for reasons in told)


def test_a_database_that_knew_three_roles_learns_the_fourth_and_keeps_its_tokens(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with open_database(path, create=True) as connection:
        create_token(connection, "shop", "writer", 0.0, 5.0)
    older = sqlite3.connect(path)
    (made,) = older.execute("SELECT sql FROM sqlite_schema WHERE name = 'tokens'").fetchone()
    older.executescript(
        "ALTER TABLE tokens RENAME TO t;" + made.replace("'viewer', ", "") + ";"
        "INSERT INTO tokens SELECT * FROM t; DROP TABLE t;"
    )
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        older.execute("INSERT INTO tokens VALUES ('v', 'viewer', x'00', 0, NULL, NULL)")
    older.close()
    for _ in range(2):  # the second time nothing is left to do
        with open_database(path, create=True) as connection:
            assert next(row[:2] for row in tokens.all_tokens(connection)) == ("shop", "writer")
    with open_database(path) as connection:
        create_token(connection, "board", "viewer", 1.0)
        assert [row[:2] for row in tokens.all_tokens(connection)] == [("shop", "writer"), ("board", "viewer")]
