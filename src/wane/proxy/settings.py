"""Settings of a proxy, fixed when it starts: addresses, limits of the server, and how contexts are managed."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from wane.core.errors import ConfigError
from wane.proxy.head import HIDDEN, is_loopback, shown_path

DEFAULT_PORT: Final = 8484

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        host: a name or an IP address, without brackets.
        port: the port; 0 for any free one.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an address, such as `127.0.0.1:8484`, `localhost`, `:8484`, `[::1]:8484` or `8484`.

        Raises:
            ConfigError: for any other text.
        """
        stripped = text.strip()
        host, colon, port = stripped.rpartition(":")
        if stripped.isdecimal():
            host, port = "", stripped
        elif not colon or stripped.endswith("]"):
            host, port = stripped, ""
        if not host.startswith("[") and ":" in host:
            raise ConfigError(f"the address {text!r} is not understood; write an IPv6 address as [::1]:{DEFAULT_PORT}")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        port = port or str(DEFAULT_PORT)
        if not (port.isdecimal() and port.isascii() and int(port) <= 65_535 and _is_host(host)):
            raise ConfigError(f"the address {text!r} is not understood; write HOST:PORT, such as 127.0.0.1:8484")
        return cls("127.0.0.1" if host == "localhost" else host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """Its base URL on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://{bracket_host(host)}:{self.port}"

    def __str__(self) -> str:
        return f"{bracket_host(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class UpstreamUrl:
    """The base URL of a provider.

    Attributes:
        scheme: `http` or `https`.
        host: a name or an IP address, without brackets.
        port: the port; by default the scheme's.
        prefix: the path before that of each request, without a trailing slash; empty for none. Some gateways put keys
            into it, so it is only shown masked.
    """

    scheme: str
    host: str
    port: int
    prefix: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a base URL, such as `https://api.anthropic.com` or `https://openrouter.ai/api/v1`.

        Raises:
            ConfigError: for anything else, such as a URL with a password, a query or a fragment.
        """
        masked = _mask_url(text)
        example = f"write a base URL, such as {_likely_url(text.strip()) or 'https://api.anthropic.com'}"
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError:
            raise ConfigError(f"the upstream {masked!r} is not understood; {example}") from None
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not _is_host(parts.hostname):
            raise ConfigError(f"the upstream {masked!r} is not understood; {example}")
        if parts.username is not None or parts.password is not None:
            raise ConfigError(f"the upstream {masked!r} has a user or password; keys belong in the client")
        if parts.query or parts.fragment or not parts.path.isascii() or not parts.path.isprintable():
            raise ConfigError(f"the upstream {masked!r} has more than a path after the host; {example}")
        if " " in parts.path:
            raise ConfigError(f"the upstream {masked!r} has a space in it; {example}")
        host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        return cls(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def netloc(self) -> str:
        """Host and port as in the header `Host`."""
        host = bracket_host(self.host)
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The URL without its path."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return self.origin + shown_path(self.prefix)


def bracket_host(host: str) -> str:
    """Return a host as in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_host(text: str) -> bool:
    return bool(text) and not any(c.isspace() or not c.isprintable() or c in "/?#@[]\\%" for c in text)


def _likely_url(text: str) -> str:
    """Return the base URL that was meant by a host without `https://`; empty if the text is none, or has secrets."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if "://" in text or not _is_host(host) or _mask_url(text) != text:
        return ""
    if is_loopback(host):
        return f"http://{text}" if parts.path else f"http://{text}/v1"
    return f"https://{text}" if port or "." in host else ""


def _mask_url(text: str) -> str:
    """Mask the parts of a URL, even a malformed one, that may be secret: user and password, path, query, fragment."""
    scheme, mark, address = text.strip().rpartition("://")
    head, at, tail = re.split(r"[?#]", address, maxsplit=1)[0].rpartition("@")
    host, slash, path = tail.partition("/")
    return f"{scheme}{mark}{HIDDEN + at if head else at}{host}{slash}{shown_path(path)}"


MAX_BODY: Final = 128 * 1024 * 1024
"""The most bytes of a model request by default; no provider accepts so many."""

ReportedUsage = Literal["auto", "sum", "last"]
"""The usage reported to clients for a reply that took several rounds: the sum, or that of the last round.

The sum is the true usage. But some agents take the reported usage for the size of their context, and compact it when it
is large: with `auto`, Claude Code, Codex and pi get the usage of the last round, and all others the sum.
"""

CostPeriod = Literal["run", "day", "month", "total"]
"""The period of a cost limit: the run of this process, or a day or a month (UTC) or all time of a store."""

COST_PERIODS: Final[Mapping[CostPeriod, str]] = {
    "run": "in this run",
    "day": "a day (UTC)",
    "month": "a month (UTC)",
    "total": "in all",
}
"""The periods in words."""

SHORTEST_TOKEN: Final = 16
"""The fewest characters of a token, which is the only protection against strangers."""

# These characters need no encoding in paths.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class ServerTimeouts:
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
        max_cost: dollars that model requests may cost; after that, no model is asked. None for no limit.
        cost_period: the period of `max_cost`.
        shadow: pass every request on as it is, and only record the sessions.
        fallback: a second provider, to ask while the first is down; None for none.
        fallback_key: the key for the second provider, in place of the clients' keys; None to pass those on.
        team: admit only the members of the store's team, each with a token of their own.

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
    timeouts: ServerTimeouts = field(default_factory=ServerTimeouts)
    max_cost: float | None = None
    cost_period: CostPeriod = "total"
    shadow: bool = False
    fallback: UpstreamUrl | None = None
    fallback_key: str | None = field(default=None, repr=False)
    team: bool = False

    def __post_init__(self) -> None:
        if self.token is not None:
            # The errors never contain the token itself.
            if not _TOKEN.fullmatch(self.token):
                raise ConfigError(
                    "the token may have only letters, digits and . _ ~ -, because it may be part of a URL"
                )
            if len(self.token) < SHORTEST_TOKEN:
                raise ConfigError(f"the token has {len(self.token)} characters; it must have at least {SHORTEST_TOKEN}")
        elif not (self.listen.is_loopback or self.team):
            raise ConfigError(
                f"{self.listen} can be reached from other machines; set a token (WANE_PROXY_TOKEN or --token), admit"
                " a team (--team), or listen on 127.0.0.1"
            )
        if self.max_cost is not None and not 0 < self.max_cost < math.inf:
            raise ConfigError(f"the cost limit is {self.max_cost:g} dollars; it must be a number above 0")
        if self.max_body < 1:
            raise ConfigError(f"the largest body is {self.max_body} bytes; it must be at least 1")
        for upstream in (self.upstream, self.fallback):
            if upstream is not None and _is_proxy(self.listen, upstream):
                raise ConfigError(f"the upstream {upstream} is the proxy itself; give the provider's address")
        if self.fallback == self.upstream:
            raise ConfigError(f"the fallback {self.fallback} is the upstream itself; give another provider's address")
        if self.fallback_key is not None:
            if self.fallback is None:
                raise ConfigError("there is a key for a fallback, but no fallback; give the address of one")
            if not re.fullmatch("[!-~]+", self.fallback_key):
                raise ConfigError(
                    "the key of the fallback may have only letters, digits and punctuation, without spaces"
                )


def _is_proxy(listen: Address, upstream: UpstreamUrl) -> bool:
    """Return whether an upstream is the server that listens on an address."""
    if not listen.port or listen.port != upstream.port:
        return False
    if listen.host == upstream.host:
        return True
    try:
        anywhere = ipaddress.ip_address(listen.host).is_unspecified
    except ValueError:
        anywhere = False
    return upstream.is_loopback and (anywhere or listen.is_loopback)
