"""Deletes everything that belongs to a name, except its events in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from wane.core.errors import ConfigError
from wane.proxy import jsons
from wane.proxy.sessions.sender import AGENTS
from wane.proxy.store.ledger import LEDGER
from wane.proxy.store.stores import WORKERS, SessionBusyError, Store, StoredSession, StoreError
from wane.proxy.team.members import MEMBERS, Member
from wane.proxy.team.roster import RATES

_SETTLED: Final = 2.0  # seconds for which a revoked token may still begin sessions


async def delete_sessions(store: Store, name: str) -> tuple[Sequence[StoredSession], int]:
    """Delete the sessions of a name; return the deleted ones, and the number of those that a process has open.

    Raises:
        ConfigError: if there is no such name, or it has a token.
        StoreError: if the store cannot be reached.
    """
    document = await store.document(MEMBERS, name)
    if document is None:
        raise ConfigError(f"there is no name {name!r:.80}; wane proxy tokens lists them")
    member = Member.read(name, document)
    if member.digest:
        raise ConfigError(f"{name} has a token; revoke it first (wane proxy tokens revoke {name})")
    await asyncio.sleep(max(0.0, _SETTLED - (datetime.now(UTC) - member.since).total_seconds()))
    deleted: list[StoredSession] = []
    busy = 0
    for session in await store.unwritten(0):
        try:
            if (await store.header(session.id)).owner == name:
                await store.delete(session.id)
                deleted.append(session)
        except SessionBusyError:
            busy += 1
        except StoreError:
            # A session that is gone has been deleted, or has expired, in the meantime.
            if any(remaining.id == session.id for remaining in await store.unwritten(0)):
                raise
    return deleted, busy


async def delete_name(store: Store, name: str) -> None:
    """Delete the spend, requests, limits and sub-agents of a name, and published figures of its sessions.

    Raises:
        StoreError: if the store cannot be reached.
    """
    for kind in (LEDGER, RATES, MEMBERS):
        await store.change_document(kind, name, lambda _: None, f"the record of {name}")
    for digest, document in (await store.documents(AGENTS)).items():
        if jsons.loads(document.encode()).get("owner") == name:
            await store.replace_document(AGENTS, digest, document, None)
    # Running processes publish their figures again, without the sessions of a revoked token.
    for process, document in (await store.documents(WORKERS)).items():
        sessions = jsons.loads(document.encode()).get("sessions", ())
        if any(session.get("owner") == name for session in sessions):
            await store.replace_document(WORKERS, process, document, None)
