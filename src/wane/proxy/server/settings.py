"""Settings of the server, fixed when it starts."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from wane.core.errors import ConfigError
from wane.proxy.http.address import Address, UpstreamUrl

MAX_BODY: Final = 128 * 1024 * 1024
"""Bytes that a model request may have by default; no provider accepts as many."""

ReportedUsage = Literal["auto", "sum", "last"]
"""The usage reported to clients for a reply that took several rounds: the sum, or that of the last round.

The sum is what was used. But some agents take the reported usage for the size of their context, and compact it once it
is large: with `auto`, Claude Code, Codex and pi get the last round's usage, and all others the sum.
"""

SHORTEST_TOKEN: Final = 16
"""Least number of characters of a token, the only protection against strangers."""

# These characters stand unencoded in paths.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the server waits, in seconds.

    Attributes:
        connect: for a connection to the provider.
        read: for the provider's next byte; a model may think for minutes before its first.
        write: for the provider to read more of a request.
        pool: for a free connection; their number is not limited.
        head: for a client to send the head of a request.
        body: for a client to send a whole model request, or the next piece of any other.
        client: for a client to read more of its reply.
        grace: for open requests to finish once the server stops.
    """

    connect: float = 10.0
    read: float = 600.0
    write: float = 60.0
    pool: float = 60.0
    head: float = 30.0
    body: float = 120.0
    client: float = 600.0
    grace: float = 3.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not 0 <= getattr(self, name) <= 86_400 * 7:
                raise ConfigError(f"the timeout {name} is {getattr(self, name)} seconds; it must be from 0 to a week")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the server listens, and how it treats requests.

    Attributes:
        upstream: the provider.
        listen: where it listens.
        token: the token that clients must send; None for none, which is allowed on loopback only.
        strict: answer with an error if Wane fails, instead of passing the request on unchanged.
        usage: the usage reported to clients for several rounds.
        max_body: bytes that a model request may have, decoded.
        timeouts: how long it waits.
        max_cost: dollars that managed requests may cost; then no model is asked any more. None for no limit.

    Raises:
        ConfigError: for an address other than loopback without a token, a malformed token, a limit that cannot work,
            or an upstream that is the proxy itself.
    """

    upstream: UpstreamUrl
    listen: Address
    token: str | None = field(default=None, repr=False)
    strict: bool = False
    usage: ReportedUsage = "auto"
    max_body: int = MAX_BODY
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_cost: float | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            _check_token(self.token)
        elif not self.listen.is_loopback:
            raise ConfigError(
                f"{self.listen} can be reached from other machines; set a token (WANE_PROXY_TOKEN or --token), or"
                " listen on 127.0.0.1"
            )
        if self.max_cost is not None and not self.max_cost > 0:
            raise ConfigError(f"the cost limit is {self.max_cost:g} dollars; it must be above 0")
        if self.max_body < 1:
            raise ConfigError(f"the largest body is {self.max_body} bytes; it must be at least 1")
        if self.listen.port and _same_place(self.listen, self.upstream):
            raise ConfigError(f"the upstream {self.upstream} is the proxy itself; give the provider's address")


def _check_token(token: str) -> None:
    # The errors never contain the token itself.
    if not _TOKEN.fullmatch(token):
        raise ConfigError("the token may have only letters, digits and . _ ~ -, because it may be part of a URL")
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"the token has {len(token)} characters; it must have at least {SHORTEST_TOKEN}")


def _same_place(listen: Address, upstream: UpstreamUrl) -> bool:
    if listen.port != upstream.port:
        return False
    if listen.host == upstream.host:
        return True
    try:
        anywhere = ipaddress.ip_address(listen.host).is_unspecified
    except ValueError:
        anywhere = False
    return upstream.is_loopback and (anywhere or listen.is_loopback)
