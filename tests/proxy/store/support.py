"""What the stores' tests share: stores of every kind, and processes that use them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wane.journal import NoteRecord, Record
from wane.proxy.store import open_store
from wane.proxy.store.database import TIMEOUTS, DatabaseStore, DatabaseTimeouts, parse_location
from wane.proxy.store.stores import SessionBusyError, SessionDigests, SessionLog, Sought, Store


@dataclass(frozen=True)
class Place:
    """Where a store of one kind keeps its sessions.

    Attributes:
        kind: `disk`, `redis` or `postgresql`.
        where: as a user names it.
        server: the database's.
    """

    kind: str
    where: str
    server: Any = None

    @property
    def shared(self) -> bool:
        """Whether several processes can have a session open."""
        return self.kind != "disk"

    def store(self) -> Store:
        return open_store(self.where)


def database_at(where: str, timeouts: DatabaseTimeouts = TIMEOUTS) -> DatabaseStore:
    """A store with other timeouts, or for its single steps."""
    location = parse_location(where)
    if where.startswith("postgresql"):
        from wane.proxy.store.postgres import PostgresStore

        return PostgresStore(location, timeouts=timeouts)
    from wane.proxy.store.redis import RedisStore

    return RedisStore(location, timeouts=timeouts)


def new_root() -> str:
    return secrets.token_hex(12)


def note(number: int, **data: Any) -> NoteRecord:
    return NoteRecord(topic=str(number), data=data)


def head_of(root: str) -> str:
    """The head of all sessions of a root to which something was added."""
    return f"{root}{'0' * 8}"


async def add(log: SessionLog, *records: Record, keys: Sequence[str] = ()) -> Sequence[Record]:
    """Hold a session, add to it, sync it, and return what was new of others."""
    async with log.hold() as new:
        await log.append(records, SessionDigests(head_of(log.id[:24]), keys))
    await log.sync()
    return new


async def found(store: Store, root: str, *keys: str) -> list[str]:
    """The ids of a root's sessions that have the first known of some keys, or of all if no keys are given."""
    openings = () if keys else ("-", head_of(root))
    return [match.id for match in (await store.find(root, Sought(keys, openings))).sessions]


async def add_anew(store: Store, session_id: str, *records: Record) -> int:
    """Open a session, add to it and let it go, at once after others; return how many records it had."""
    while True:
        try:
            log = await store.open(session_id)
        except SessionBusyError:
            continue
        try:
            return len(await add(log, *records))
        finally:
            await log.close()


def topics(records: Sequence[Record]) -> list[str]:
    return [record.topic for record in records if isinstance(record, NoteRecord)]


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())
