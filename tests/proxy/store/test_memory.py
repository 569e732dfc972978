"""No store: everything works, and nothing stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxy.store.support import add, files, found, new_root, note
from wane.journal import new_header
from wane.proxy.store import open_store
from wane.proxy.store.stores import SessionBusyError, SessionLog, StoreError, new_id


async def test_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANE_SESSION_DIR", str(tmp_path / "sessions"))
    store, root = open_store(None), new_root()
    assert not store.persistent
    log = await store.create(root, "openai")
    assert log.header.format == "openai"
    for number in range(2):
        assert list(await add(log, note(number))) == []
    assert (await found(store, root)) == []
    for attempt in (store.open(log.id), store.read(log.id)):
        with pytest.raises(StoreError, match=r"this proxy stores none"):
            await attempt
    await log.close()
    await store.close()
    assert files(tmp_path) == []


async def test_one_request_at_a_time() -> None:
    log = SessionLog(new_header(new_id(new_root()), cwd=Path.cwd(), message_format="openai"), wait=0.05)
    async with log.hold():
        with pytest.raises(SessionBusyError, match="another request of this process"):
            await add(log, note(1))
    await add(log, note(1))
