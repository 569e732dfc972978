"""What a user may name as a store, and that no password is shown of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wane.core.errors import ConfigError
from wane.proxy.store import open_store
from wane.proxy.store.database import DatabaseStore, parse_location
from wane.proxy.store.disk import DiskStore
from wane.proxy.store.stores import MemoryStore, StoreError

SECRET = "hunter2-hunter2"


def test_a_store_is_what_its_name_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert isinstance(open_store(None), MemoryStore)
    assert repr(open_store("disk")) == f"DiskStore({str(tmp_path / 'sessions')!r})"
    for directory in (str(tmp_path), str(tmp_path / "new"), "./new", "here", "~/sessions-of-the-proxy"):
        assert isinstance(open_store(directory), DiskStore)
    assert list(tmp_path.iterdir()) == [tmp_path / "here"]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (f"redis://user:{SECRET}@cache.example:6380/3?prefix=p", "redis://cache.example:6380/3"),
        (f"rediss://:{SECRET}@[::1]:6380", "rediss://[::1]:6380"),
        (f"unix:///run/redis.sock?db=1&password={SECRET}", "unix:///run/redis.sock"),
        (f"postgresql://user:{SECRET}@one:5432,two:5433/wane?sslmode=require", "postgresql://one:5432,two:5433/wane"),
        (f"postgres://db.example/wane?user=me&password={SECRET}", "postgres://db.example/wane"),
        ("postgresql:///wane?host=/run/postgresql", "postgresql:///wane"),
        (f"redis://cache.example/{SECRET}", "redis://cache.example/***"),
        (f"postgresql://db.example/{SECRET.upper()}?sslpassword={SECRET}", "postgresql://db.example/***"),
    ],
)
def test_a_database_is_not_connected_to_yet_and_shown_without_secrets(where: str, shown: str) -> None:
    store = open_store(where)
    assert isinstance(store, DatabaseStore)
    kind = "PostgresStore" if where.startswith("postgres") else "RedisStore"
    assert repr(store) == f"{kind}({shown!r})"
    assert SECRET not in repr(parse_location(where))


@pytest.mark.parametrize(
    "where",
    [
        "",
        "memory",
        "redis",
        "sessions",
        "no-such-user/\0",
        __file__,
        "~no-such-user-here/sessions",
        f"mysql://user:{SECRET}@host/db",
        f"http://user:{SECRET}@host",
        f"redis:/user:{SECRET}@host",
        f"redis://:{SECRET}",
        f"redis://:a@{SECRET}@host",
        f"redis://:a/{SECRET}@host",
        f"redis://:a?{SECRET}@host",
        f"redis://:a#{SECRET}@host",
        f"redis://:{SECRET}@host:port",
        f"redis://:{SECRET}@[::1",
        f"redis://:{SECRET}@host/0?no_such_option=1",
        f"redis://:{SECRET}@host/0?max_connections=many",
        f"redis://:{SECRET}@host/0?prefix=*",
        f"redis://:{SECRET}@host/0?prefix",
        f"postgresql://user:{SECRET}@host/db?no_such_option=1",
        f"postgresql://user:%zz{SECRET}@host/db",
        f"postgresql://user:{SECRET}@host:port/db",
    ],
)
def test_what_names_no_store_is_refused_without_showing_secrets(where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(where)
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value)
    assert "store" in str(caught.value)


@pytest.mark.parametrize(("module", "url"), [("redis", "redis://host"), ("psycopg", "postgresql://host")])
def test_a_missing_extra_is_named(module: str, url: str) -> None:
    code = f"""
import sys
sys.modules[{module!r}] = None
from wane.core.errors import MissingExtraError
from wane.proxy.store import open_store
open_store(None), open_store("disk")
try:
    open_store({url!r})
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extra = {"redis": "redis", "psycopg": "postgresql"}[module]
    assert f'the store {url} needs the "{extra}" extra' in done.stdout


@pytest.mark.parametrize(
    "url",
    [
        f"redis://me:{SECRET}@127.0.0.1:1/0",
        f"postgresql://me:{SECRET}@127.0.0.1:1/wane?sslpassword={SECRET}",
        f"postgresql://127.0.0.1:1/{SECRET}",
    ],
)
async def test_a_database_that_cannot_be_reached_is_told_when_it_is_asked_for(url: str) -> None:
    store = open_store(url)
    with pytest.raises(StoreError) as caught:
        await store.check()
    await store.close()
    assert f"the store {parse_location(url).name} does not work" in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await open_store(str(tmp_path / "new")).check()
    await open_store(None).check()
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    with pytest.raises(StoreError, match=f"{tmp_path / 'file'} is not a writable directory"):
        await open_store(str(tmp_path / "file" / "new")).check()


def test_settings_of_ours_are_taken_out_of_the_url() -> None:
    location = parse_location("redis://:a%40b@host/0?socket_timeout=2&prefix=me")
    assert location.url == "redis://:a%40b@host/0?socket_timeout=2"
    assert location.prefix == "me"
    assert location.without_secrets("no a@b,\n  nor a%40b") == "no ***, nor ***"
