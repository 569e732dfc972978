"""Which session started a sub-agent's: by what its client tells, or else by the prompt of a call.

It is kept in documents of the store, because another process may get the sub-agent's first request. Nothing is guessed:
if two sessions may have started a sub-agent, none is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from wane.journal.records import UNKNOWN_PARENT
from wane.proxy import jsons
from wane.proxy.sessions.sender import Sender
from wane.proxy.store.base import Store, StoreError

_LOGGER: Final = logging.getLogger("wane.proxy")
_KEPT: Final = timedelta(days=7)
_TIDIED: Final = timedelta(hours=1)

AGENTS: Final = "agent"
"""Kind of the documents about sub-agents."""

_Row: TypeAlias = tuple[str, str]
"""The id of a session, and the id that its client has for it."""


class Parentage:
    """The sessions of agents and the prompts that they handed over, for the sessions of one owner.

    A store that fails makes a parent unknown, and nothing worse.

    Args:
        store: the store of the sessions.
        owner: their owner.
    """

    def __init__(self, store: Store, owner: str = "") -> None:
        self._store, self._owner = store, owner
        self._tidied = datetime.now(UTC)

    async def met(self, sender: Sender, session_id: str) -> None:
        """Note the session of an agent, if its client tells ids."""
        if sender.session:
            await self._changed(self._agent(sender), lambda _: [(session_id, sender.session)])

    async def handed_over(self, sender: Sender, session_id: str, prompts: Iterable[str]) -> None:
        """Note the prompts of a session's calls that start sub-agents."""
        for prompt in prompts:
            await self._changed(self._prompt(prompt), lambda rows: [*rows, (session_id, sender.session)])

    async def parent(self, sender: Sender, texts: Sequence[str]) -> str:
        """Return the id of the session that started a new one; empty if none did, as far as is known.

        Args:
            sender: who sent its first request.
            texts: the prompts that this request may hold.

        Returns:
            The id; `UNKNOWN_PARENT` for a sub-agent, by its client's word, whose parent's session is not known.
        """
        if sender.agent:
            rows = await self._changed(self._agent(sender.starter), lambda rows: rows)
            return rows[0][0] if rows else UNKNOWN_PARENT
        for text in texts:
            if session_id := await self._claimed(self._prompt(text), sender):
                return session_id
        return ""

    async def tidy(self) -> None:
        """Delete what is a week old, once an hour."""
        now = datetime.now(UTC)
        if now - self._tidied < _TIDIED:
            return
        self._tidied = now
        try:
            for name, document in (await self._store.documents(AGENTS)).items():
                if now - _read(document)[0] > _KEPT:
                    await self._store.replace_document(AGENTS, name, document, None)
        except StoreError as error:
            _LOGGER.warning("what is known of sub-agents is not tidied up: %s", error)

    async def _claimed(self, name: str, sender: Sender) -> str:
        """Take the call with a prompt, which starts one sub-agent only; empty if there is none, or it is ambiguous."""
        claimed = ""

        def taken(rows: list[_Row]) -> list[_Row]:
            nonlocal claimed
            fitting = [row for row in rows if row[1] == sender.session]
            claimed = fitting[0][0] if len({row[0] for row in fitting}) == 1 else ""
            if claimed:
                rows.remove(fitting[0])
            return rows

        await self._changed(name, taken)
        return claimed

    async def _changed(self, name: str, change: Callable[[list[_Row]], list[_Row]]) -> list[_Row]:
        """Change the rows of a document, and return them; none if the store fails."""

        def changed(before: str | None) -> str | None:
            rows = change(_read(before)[1])
            if before is not None and rows == _read(before)[1]:
                return before
            return self._written(rows) if rows else None

        try:
            return _read(await self._store.change_document(AGENTS, name, changed, "what is known of sub-agents"))[1]
        except StoreError as error:
            _LOGGER.warning("which session started a sub-agent's is not known: %s", error)
            return []

    def _agent(self, sender: Sender) -> str:
        return self._name("agent", sender.session, sender.agent)

    def _prompt(self, prompt: str) -> str:
        return self._name("prompt", prompt)

    def _written(self, rows: Sequence[_Row]) -> str:
        data = {"at": datetime.now(UTC).isoformat(), "owner": self._owner, "sessions": rows}
        return jsons.dumps(data).decode()

    def _name(self, *what: str) -> str:
        return blake2b(jsons.dumps([self._owner, *what]), digest_size=16).hexdigest()


def _read(document: str | None) -> tuple[datetime, list[_Row]]:
    """When a document was written, and its rows; old and empty if it cannot be read."""
    try:
        data: dict[str, Any] = jsons.loads((document or "").encode())
        return datetime.fromisoformat(data["at"]), [(str(row[0]), str(row[1])) for row in data["sessions"]]
    except (ValueError, LookupError, TypeError):
        return datetime.min.replace(tzinfo=UTC), []
