"""The servers that all tests of the stores share, each started when the first test needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.store.servers import Postgres, Redis, run_server
from tests.proxy.store.support import Place


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    yield from run_server(Redis())


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    yield from run_server(Postgres())


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    if kind == "disk":
        directory: Path = request.getfixturevalue("tmp_path") / "sessions"
        return Place(kind, str(directory))
    server = request.getfixturevalue({"redis": "redis_server", "postgresql": "postgres_server"}[kind])
    return Place(kind, server.url, server)


DATABASES = [pytest.param(kind, marks=pytest.mark.full) for kind in ("redis", "postgresql")]


@pytest.fixture(params=["disk", *DATABASES])
def place(request: pytest.FixtureRequest) -> Place:
    """A store of each kind, one after the other."""
    return place_of(request.param, request)


@pytest.fixture(params=DATABASES)
def shared(request: pytest.FixtureRequest) -> Place:
    """A store of each kind that several processes can use."""
    return place_of(request.param, request)
