"""Both clients: an export is a complete file, or there is none."""

from __future__ import annotations

import errno
import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_service import AnyClient, answer, scripted

from linoto import AsyncClient, Client


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1234",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n1234\r\n",
    ],
)
def test_an_export_is_complete_or_not_there(kind: Any, head: bytes, tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    file.write_bytes(b"old")
    answers = (head, head, head, answer(200, b"123456789"))
    with scripted(*answers) as script, AnyClient(kind, script.url, retries=1) as client:
        with pytest.raises(ConnectionError, match="no answer"):
            client.export("loop", file)
        assert file.read_bytes() == b"old"
        assert client.export("loop", file) == file
    assert file.read_bytes() == b"123456789"
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_is_not_held_in_memory(kind: Any, tmp_path: Path) -> None:
    piece, pieces = b"x" * 2**20, 64

    def large() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        for _ in range(pieces):
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    with scripted(large()) as script, AnyClient(kind, script.url) as client:
        tracemalloc.start()
        try:
            file = client.export("loop", tmp_path / "log.parquet")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert file.stat().st_size == pieces * len(piece)
    assert peak < 8 * len(piece)


def test_a_full_disk_is_an_error_at_once(kind: Any, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with scripted(answer(200, b"x" * 2**20)) as script, AnyClient(kind, script.url) as client:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, limits[1]))
        try:
            with pytest.raises(OSError, match=r"cannot write .*log\.parquet") as failed:
                client.export("loop", tmp_path / "log.parquet")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert failed.value.errno == errno.EFBIG and client.pauses == []
    assert list(tmp_path.iterdir()) == []


def test_an_export_follows_links_and_replaces_only_files(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.parquet"
    link.symlink_to(tmp_path / "real" / "log.parquet")
    with scripted(answer(200, b"new")) as script, AnyClient(kind, script.url) as client:
        assert client.export("loop", link) == link
        assert link.is_symlink() and (tmp_path / "real" / "log.parquet").read_bytes() == b"new"
        with pytest.raises(ValueError, match="path must be a file"):
            client.export("loop", tmp_path / "real")
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            client.export("loop", tmp_path / "nowhere" / "log.parquet")
    assert len(script.heads) == 1
