"""The members of a team as a running proxy knows them, and the limits of each.

Requests a minute are limited by a bucket that all processes of a store take from. It holds as many requests as the
limit allows a minute, and fills again evenly. The store only has the time at which it is full again (the generic cell
rate algorithm).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from wane.proxy.head import RefusedError
from wane.proxy.spending.allowances import Allowance
from wane.proxy.store.stores import Store, StoreError
from wane.proxy.team.audit import AuditLog
from wane.proxy.team.members import OPERATOR, Member, Team

_LOGGER: Final = logging.getLogger("wane.proxy")

RATES: Final = "rate"
"""Kind of the documents with the bucket of a member."""

FRESH: Final = 1.0
"""Seconds for which the members are not read again, so that a revoked token may still be admitted."""

_REPEAT: Final = 60.0  # seconds in which the log notes refusals of one kind only once
_MINUTE: Final = 60.0
_LEAST: Final = 1e-6  # the shortest time to wait, in seconds


class Roster:
    """The members of a store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.log = AuditLog(store)
        self._store = store
        self._clock = clock
        self._team = Team(store)
        self._members: Mapping[str, Member] | None = None
        self._read = float("-inf")
        self._reading = asyncio.Lock()
        self._allowances: dict[str, Allowance] = {}
        self._shown: set[tuple[str, str]] = set()
        self._refused: dict[tuple[str, int], float] = {}

    async def members(self) -> Mapping[str, Member]:
        """Return the members by name; if the store cannot be reached, those that were read last.

        Raises:
            StoreError: if none were read yet.
        """
        async with self._reading:
            if self._clock() - self._read >= FRESH:
                try:
                    self._members = await self._team.members()
                except StoreError as error:
                    if self._members is None:
                        raise
                    _LOGGER.warning("the names and tokens are not up to date: %s", error)
                self._read = self._clock()
        assert self._members is not None
        return self._members

    async def holder(self, token: bytes) -> Member | None:
        """Return the member who has a token; None for an unknown or revoked one.

        Raises:
            RefusedError: if the members cannot be read.
        """
        try:
            members = await self.members()
        except StoreError as error:
            raise RefusedError(503, f"the tokens cannot be read: {error}") from error
        digest = sha256(token).digest()
        # The token is compared with all of them, so that the time taken tells nothing about them.
        matches = [member for member in members.values() if compare_digest(digest, bytes.fromhex(member.digest))]
        return matches[0] if matches else None

    def allowance(self, member: Member) -> Allowance:
        """Return a member's allowance, with the present limit."""
        limits = member.limits
        allowance = self._allowances.get(member.name)
        if allowance is None:
            allowance = Allowance(self._store, limits.max_cost, limits.cost_period, owner=member.name)
            self._allowances[member.name] = allowance
        allowance.allow(limits.max_cost, limits.cost_period)
        return allowance

    async def take_request(self, member: Member) -> None:
        """Count a request of a member.

        Raises:
            RefusedError: if the member has sent too many in the last minute, or they cannot be counted.
        """
        allowed = member.limits.requests
        if allowed is None:
            return
        try:
            wait = await wait_before(self._store, member.name, allowed)
        except StoreError as error:
            raise RefusedError(503, f"the requests of {member.name} cannot be counted: {error}") from error
        if wait:
            raise RefusedError(
                429, f"{member.name} may send {allowed:,} requests a minute; try again in {wait} s", retry_after=wait
            )

    async def note_begun(self, name: str, session: str) -> None:
        """Note a new session of a member; an empty name stands for the operator."""
        await self.log.note(name or OPERATOR, "session begun", session)

    async def note_refused(self, name: str, status: int, why: str) -> None:
        """Note a refused request, unless a similar one was noted within the last minute.

        An empty name stands for the operator, and `?` for a request without a valid token.
        """
        now = self._clock()
        self._refused = {key: at for key, at in self._refused.items() if now - at < _REPEAT}
        if (name, status) not in self._refused:
            self._refused[name, status] = now
            await self.log.note(name or OPERATOR, "refused", why)

    async def note_shown(self, name: str, sessions: list[str]) -> None:
        """Note the sessions on a status page that a member has read, except those that this process noted before."""
        fresh = [session for session in sessions if (name, session) not in self._shown]
        if fresh:
            self._shown |= {(name, session) for session in fresh}
            await self.log.note(name or OPERATOR, "sessions shown", " ".join(fresh))


async def wait_before(store: Store, name: str, requests: int, clock: Callable[[], float] = time.time) -> int:
    """Take a request from a bucket; return 0, or the whole seconds to wait if the bucket is empty.

    Raises:
        StoreError: if the store cannot be reached.
    """
    interval = _MINUTE / requests
    wait = 0.0

    def take_lease(document: str | None) -> str | None:
        nonlocal wait
        now = clock()
        try:
            stored = float(document or 0)
        except ValueError:
            stored = 0.0
        # If another machine's clock is ahead, the bucket must not be closed for longer than it takes to fill.
        full_at = min(max(stored, now), now + _MINUTE)
        wait = full_at + interval - _MINUTE - now
        return document if wait > _LEAST else repr(full_at + interval)

    await store.change_document(RATES, name, take_lease, "the number of requests")
    return math.ceil(wait) if wait > _LEAST else 0
