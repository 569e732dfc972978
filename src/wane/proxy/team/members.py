"""The names that a proxy admits, each with limits and a token, of which only the digest is stored."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Self

from wane.core.errors import ConfigError
from wane.proxy.settings import CostPeriod
from wane.proxy.store.stores import Store, StoreError

MEMBERS: Final = "member"
"""Kind of the documents about names."""

OPERATOR: Final = "operator"
"""The name of whoever has the proxy's own token, WANE_PROXY_TOKEN; no member can have it."""

PREFIX: Final = "wane_"
"""The beginning of all tokens of names, by which scanners of leaked secrets can find them."""

MOST_REQUESTS: Final = 100_000
"""The most requests a minute that a limit may allow."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PERIODS: Final = ("day", "month", "total")


@dataclass(frozen=True, slots=True)
class MemberLimits:
    """The limits of a name, over all processes of a store.

    Attributes:
        max_cost: dollars; None for no limit.
        cost_period: the period of `max_cost`.
        requests: requests to a model a minute; None for no limit.

    Raises:
        ConfigError: for a limit that cannot work.
    """

    max_cost: float | None = None
    cost_period: CostPeriod = "day"
    requests: int | None = None

    def __post_init__(self) -> None:
        if self.max_cost is not None and not 0 < self.max_cost < float("inf"):
            raise ConfigError(f"the cost limit is {self.max_cost:g} dollars; it must be above 0")
        if self.cost_period not in _PERIODS:
            raise ConfigError(f"the cost limit is for {self.cost_period!r}; it must be for a day, a month or total")
        if self.requests is not None and not 1 <= self.requests <= MOST_REQUESTS:
            raise ConfigError(f"the limit is {self.requests} requests a minute; it must be from 1 to {MOST_REQUESTS:,}")


@dataclass(frozen=True, slots=True)
class Member:
    """A name, with its token and limits.

    Attributes:
        name: the name.
        digest: SHA-256 of its token in hexadecimal; empty once the token is revoked.
        since: when the token was made or revoked, in UTC.
        limits: its limits.
    """

    name: str
    digest: str
    since: datetime
    limits: MemberLimits = MemberLimits()

    @classmethod
    def read(cls, name: str, document: str) -> Self:
        """Return the member in a document.

        Raises:
            StoreError: if `write` did not make it.
        """
        try:
            data: dict[str, Any] = json.loads(document)
            bytes.fromhex(data["digest"])
            return cls(name, data["digest"], datetime.fromisoformat(data["since"]), MemberLimits(**data["limits"]))
        except (ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
            raise StoreError(f"the record of the name {name!r} cannot be read: {type(error).__name__}") from error

    def write(self) -> str:
        """Return the member as a document."""
        return json.dumps({"digest": self.digest, "since": self.since.isoformat(), "limits": asdict(self.limits)})


def digest_of(token: bytes) -> str:
    """Return the digest of a token. It has no salt, because a token is 256 random bits."""
    return sha256(token).hexdigest()


def checked_name(name: str) -> str:
    """Return a name if it is safe in keys, logs and terminals.

    Raises:
        ConfigError: if it is not, or is reserved.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"the name {name!r:.80} must be 1 to 64 letters, digits and . _ @ -, and begin with a letter or digit"
        )
    if name.lower() == OPERATOR:
        raise ConfigError(f"the name {OPERATOR} stands for whoever has WANE_PROXY_TOKEN; choose another one")
    return name


class Team:
    """The names of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def members(self) -> Mapping[str, Member]:
        """Return all members by name, in order.

        Raises:
            StoreError: if they cannot be read.
        """
        documents = await self._store.documents(MEMBERS)
        return {name: Member.read(name, documents[name]) for name in sorted(documents)}

    async def add(self, name: str, limits: MemberLimits | None = None) -> str:
        """Make a token for a name, and return it; it can never be read again.

        A name whose token was revoked keeps its sessions and spend, and its limits unless others are given.

        Raises:
            ConfigError: for a malformed name, or one that has a token.
            StoreError: if it cannot be stored.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        digest = digest_of(token.encode())

        def add_member(member: Member | None) -> Member:
            if member is None:
                return Member(name, digest, datetime.now(UTC), limits or MemberLimits())
            if member.digest not in ("", digest):
                raise ConfigError(f"{name} has a token; revoke it first (wane proxy tokens revoke {name})")
            return Member(name, digest, datetime.now(UTC), limits or member.limits)

        await self._change(checked_name(name), add_member)
        return token

    async def revoke(self, name: str) -> None:
        """Revoke the token of a name. Its sessions, spend and limits stay.

        Raises:
            ConfigError: if the name has no token.
            StoreError: if it cannot be stored.
        """

        def revoke_member(member: Member | None) -> Member:
            if member is None or not member.digest:
                raise ConfigError(f"{name} has no token; wane proxy tokens lists the names")
            return replace(member, digest="", since=datetime.now(UTC))

        await self._change(name, revoke_member)

    async def limit(self, name: str, limits: MemberLimits) -> None:
        """Replace the limits of a name.

        Raises:
            ConfigError: if there is no such name.
            StoreError: if they cannot be stored.
        """

        def limit_member(member: Member | None) -> Member:
            if member is None:
                raise ConfigError(f"there is no name {name!r:.80}; wane proxy tokens lists them")
            return replace(member, limits=limits)

        await self._change(name, limit_member)

    async def _change(self, name: str, change: Callable[[Member | None], Member]) -> None:
        def change_member(document: str | None) -> str:
            return change(None if document is None else Member.read(name, document)).write()

        await self._store.change_document(MEMBERS, name, change_member, f"the record of {name}")
