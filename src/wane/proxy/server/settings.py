"""What the server is told once, when it starts."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from wane.core.errors import ConfigError
from wane.proxy.http.address import Address, UpstreamUrl

MAX_BODY: Final = 128 * 1024 * 1024
"""Bytes that a model request may have unless told otherwise; no provider takes as many."""

ReportedUsage = Literal["auto", "sum", "last"]
"""What clients are told of the usage of a reply that took several rounds: the sum, or that of the last round.

The sum is what was used. But some clients take what a reply reports for the size of their context, and compact it by
themselves once it is large: with `auto`, those that are known for it are told of the last round, all others the sum.
"""

SHORTEST_TOKEN: Final = 16
"""Characters that a token must have at least: it is all that keeps strangers out."""

# It also stands in paths, so it must look the same there.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the server waits, in seconds.

    Attributes:
        connect: for a connection to the provider.
        read: for the provider's next byte; a model may think for minutes before its first.
        write: for the provider to take more of a request.
        pool: for a free connection, of which there is no limit.
        head: for a client to send the head of a request.
        body: for a client to send a whole model request, or the next piece of anything else.
        client: for a client to take more of its reply.
        grace: for open requests to end once the server is told to stop.
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
        token: what clients must show; None asks for nothing, which is for loopback only.
        strict: answer with an error when Wane fails, instead of sending the request as it came.
        usage: what clients are told of the usage of several rounds.
        max_body: bytes that a model request may have, decoded.
        timeouts: how long it waits.
        max_cost: dollars that managed requests may cost until no model is asked any more; None for no limit.

    Raises:
        ConfigError: for an address that is not loopback's without a token, a token that cannot be one, a size below
            1, and an upstream that is the proxy itself.
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
            raise ConfigError(f"the most to spend is {self.max_cost:g} dollars; it must be above 0")
        if self.max_body < 1:
            raise ConfigError(f"the largest body is {self.max_body} bytes; it must be at least 1")
        if self.listen.port and _same_place(self.listen, self.upstream):
            raise ConfigError(f"the upstream {self.upstream} is the proxy itself; give the provider's address")


def _check_token(token: str) -> None:
    # The token itself is never told.
    if not _TOKEN.fullmatch(token):
        raise ConfigError("the token may hold letters, digits and . _ ~ - only, as it may stand in a URL")
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
