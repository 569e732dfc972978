"""Where a command finds sessions: in a directory, or in a database that proxies share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from wane.cli.failure import need_proxy
from wane.core.errors import SessionNotFoundError
from wane.journal import default_root
from wane.journal.store import matching_ids
from wane.proxy.store import open_store
from wane.proxy.store.stores import Store

T = TypeVar("T")

STORE_VARIABLE: Final = "WANE_PROXY_STORE"
"""Environment variable with the store, for a URL that contains a password."""


def where_of(store: str | None) -> str:
    """Return where the sessions are: a directory, a URL, or `disk`."""
    return store or os.environ.get(STORE_VARIABLE) or "disk"


def directory_of(where: str) -> Path | None:
    """Return the directory with the sessions; None if they are in a database."""
    if "://" in where:
        return None
    return default_root(os.environ) if where == "disk" else Path(where).expanduser()


def with_store(where: str, work: Callable[[Store], Awaitable[T]], *, part: str = "a store of the proxy") -> T:
    """Run `work` with a store of the proxy, and return its result; `part` says what needs the store."""
    need_proxy(part)

    async def main() -> T:
        store = open_store(where)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def id_in_store(name: str, ids: Iterable[str]) -> str:
    """Return the id of a stored session by its beginning."""
    matches = matching_ids(name, ids)
    if len(matches) != 1:
        raise SessionNotFoundError(f"{len(matches) or 'no'} sessions have an id that begins with {name!r}")
    return matches.pop()
