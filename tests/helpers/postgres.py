"""A PostgreSQL server of our own: a cluster in a folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from linoto.service.storage.places import Address

REQUIRED = os.environ.get("TEST_POSTGRES") == "required"
MEMORY = Path("/dev/shm")
NUMBERS = count(1)


@cache
def programs() -> Path | None:
    """The folder of its programs, which Debian keeps off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def as_its_user(*words: str) -> list[str]:
    """A command as somebody who may run the server, which refuses to be run by root."""
    return ["runuser", "-u", "postgres", "--", *words] if os.getuid() == 0 else list(words)


def name_of(address: Address) -> str:
    """Of a database of ours."""
    return address.url.partition("@/")[2].partition("?")[0]


class Cluster:
    """A server with databases for tests."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self.folder, self.bin = folder, bin
        self.data = folder / "data"
        if os.getuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(folder, account.pw_uid, account.pw_gid)
        options = (
            "-D",
            str(self.data),
            "-U",
            "linoto",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        subprocess.run(as_its_user(str(bin / "initdb"), *options), check=True, capture_output=True)
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """The server itself, until it takes connections."""
        settings = ("-c", "listen_addresses=", "-c", "track_commit_timestamp=on")
        words = as_its_user(
            str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.folder), *settings
        )
        with (self.folder / "log").open("ab") as log:  # Ctrl-C is for who started it, who stops it then
            process = subprocess.Popen(words, stderr=log, stdout=log, start_new_session=True)
        self.process = process
        end = time.monotonic() + 60
        while self.psql("postgres", "SELECT 1").returncode:
            assert process.poll() is None and time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)
        return process

    def stop(self) -> None:
        """At once, as by a power failure of its own: what was committed is found again."""
        pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 3)  # SIGQUIT: an immediate shutdown
        self.process.wait()

    def psql(self, database: str, statement: str) -> subprocess.CompletedProcess[str]:
        """Whatever somebody else does in a database."""
        words = [str(self.bin / "psql"), "-h", str(self.folder), "-U", "linoto", "-d", database]
        return subprocess.run(
            [*words, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", statement], capture_output=True, text=True
        )

    def database(self) -> Address:
        """A new database."""
        name = f"test{next(NUMBERS)}"
        made = self.psql("postgres", f"CREATE DATABASE {name} TEMPLATE template0")
        assert made.returncode == 0, made.stderr
        return Address(f"postgresql://linoto@/{name}?host={self.folder}")

    def drop(self, address: Address) -> None:
        """Make room."""
        self.psql("postgres", f"DROP DATABASE IF EXISTS {name_of(address)} WITH (FORCE)")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A server, or a loud word that there is none."""
    bin = programs()
    if bin is None:
        reason = "PostgreSQL is not installed (Debian: apt-get install postgresql): its tests did NOT run"
        print(reason, file=sys.stderr)
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    root = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="linoto-pg-", dir=root, ignore_cleanup_errors=True) as folder:
        server = Cluster(Path(folder), bin)
        try:
            yield server
        finally:
            server.stop()
