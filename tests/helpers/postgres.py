"""A PostgreSQL server of our own: a cluster in a folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
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
FOLLOWERS = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"


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
        self.make()
        self.process = self.start()

    def make(self) -> None:
        """Its files."""
        self.call("initdb", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", "linoto", "--no-sync")

    def call(self, program: str, *words: str) -> None:
        """One of its programs, about its files."""
        command = as_its_user(str(self.bin / program), "-D", str(self.data), *words)
        subprocess.run(command, check=True, capture_output=True)

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

    def kill(self) -> None:
        """As a machine that is gone: all its processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
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


class Standby(Cluster):
    """A second server that follows a first one, and may be told to take its place."""

    def __init__(self, folder: Path, primary: Cluster, *, synchronous: bool) -> None:
        self.primary = primary
        super().__init__(folder, primary.bin)
        if synchronous:  # a commit waits until it is here, too
            primary.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.psql("postgres", "SELECT pg_reload_conf()")
        wanted, end = "sync" if synchronous else "async", time.monotonic() + 60
        while primary.psql("postgres", FOLLOWERS).stdout.strip() != wanted:
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.05)

    def make(self) -> None:
        """Those of the first one."""
        source = ("-h", str(self.primary.folder), "-U", "linoto")
        self.call("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "--no-sync", *source)

    def stop_following(self) -> None:
        """What is committed from now on is not here."""
        self.psql("postgres", "ALTER SYSTEM SET primary_conninfo = ''")
        self.psql("postgres", "SELECT pg_reload_conf()")
        while self.primary.psql("postgres", FOLLOWERS).stdout.strip():
            time.sleep(0.05)

    def promote(self) -> None:
        """Be the one that writes."""
        self.call("pg_ctl", "promote", "-w")

    def both(self, address: Address) -> Address:
        """A database of the first one, wherever it can be written."""
        return Address(f"{address.url},{self.folder}&target_session_attrs=read-write")


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
    with folder_in_memory() as folder:
        server = Cluster(folder, bin)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.stop()


@contextmanager
def standby_of(primary: Cluster, *, synchronous: bool) -> Iterator[Standby]:
    """A server that follows another one."""
    with folder_in_memory() as folder:
        server = Standby(folder, primary, synchronous=synchronous)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    root = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="linoto-pg-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
