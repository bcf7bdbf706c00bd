"""Where these tests keep their databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.folders import shared_folder, tmp_path
from helpers.postgres import Cluster, cluster

from linoto.service.storage.places import Place

__all__ = ["any_place", "place", "postgres", "shared_folder", "tmp_path"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server of our own."""
    with cluster() as server:
        yield server


def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty database of the engine that is asked for."""
    if request.param == "sqlite":
        yield tmp_path / "x.sqlite"
        return
    server: Cluster = request.getfixturevalue("postgres")
    address = server.database()
    yield address
    server.drop(address)


place = pytest.fixture(new_place, name="place", params=["sqlite", "postgres"])
# Of most laws the second engine is left to make test-slow.
any_place = pytest.fixture(
    new_place, name="any_place", params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)]
)
