"""The address that the proxy listens on, and the URL of its provider."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from wane.core.errors import ConfigError

DEFAULT_PORT: Final = 8484

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HIDDEN: Final = "***"
_VERSION: Final = re.compile(r"v\d{1,2}(?:(?:alpha|beta)\d{0,2})?")
# The path segments of the APIs of providers and gateways.
_WORDS: Final = """anthropic api audio backend-api batches beta chat codex coding compat compatible-mode completions
    content conversations count_tokens deployments embeddings engines event_logging files gateway images inference
    input_items input_tokens internal litellm llm messages metrics models moderations oauth ollama openai organizations
    paas proxy responses router search serverless status stream usage wane ~***"""
_PLAIN: Final = frozenset(_WORDS.split())


def is_loopback(host: str) -> bool:
    """Whether a host name or IP address is loopback; nothing is resolved. Without brackets or port."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


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
            ConfigError: for anything else.
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
        number = int(port) if port.isdecimal() and port.isascii() else DEFAULT_PORT if not port else -1
        if not 0 <= number <= 65_535 or not _is_host(host):
            raise ConfigError(f"the address {text!r} is not understood; write HOST:PORT, such as 127.0.0.1:8484")
        return cls("127.0.0.1" if host == "localhost" else host, number)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """Its base URL on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://{bracketed(host)}:{self.port}"

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


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
        shown = _shown(text)
        example = "write a base URL, such as https://api.anthropic.com"
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError:
            raise ConfigError(f"the upstream {shown!r} is not understood; {example}") from None
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not _is_host(parts.hostname):
            raise ConfigError(f"the upstream {shown!r} is not understood; {example}")
        if parts.username is not None or parts.password is not None:
            raise ConfigError(f"the upstream {shown!r} holds a user or password; keys belong into the client")
        if parts.query or parts.fragment or not parts.path.isascii() or not parts.path.isprintable():
            raise ConfigError(f"the upstream {shown!r} has more than a path behind the host; {example}")
        if any(c.isspace() for c in parts.path):
            raise ConfigError(f"the upstream {shown!r} has a space in it; {example}")
        host = parts.hostname.encode("idna").decode() if not parts.hostname.isascii() else parts.hostname
        return cls(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def netloc(self) -> str:
        """Host and port as in the header `Host`."""
        host = bracketed(self.host)
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The URL without its path."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(self.host)

    def target(self, path: bytes) -> bytes:
        """Return the request target for a client's path and query.

        A client's base URL may end with the version that the prefix ends with or not; it is not doubled.
        """
        prefix = self.prefix.encode()
        version = prefix[prefix.rfind(b"/") :]
        if version[:2] == b"/v" and version[2:].isdigit() and path.startswith(version + b"/"):
            path = path[len(version) :]
        return prefix + path

    def __str__(self) -> str:
        return self.origin + shown_path(self.prefix)


def shown_path(path: str) -> str:
    """Return a path with stars in place of each segment that could be a key."""
    secret = secrets_of(path)
    return "/".join(_HIDDEN if part in secret else part for part in path.split("/"))


def secrets_of(path: str) -> set[str]:
    """Return the segments of a path that could be keys: those of no known API."""
    return {part for part in path.split("/") if part and part not in _PLAIN and not _VERSION.fullmatch(part)}


def bracketed(host: str) -> str:
    """Return a host as in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_host(text: str) -> bool:
    return bool(text) and not any(c.isspace() or not c.isprintable() or c in "/?#@[]\\%" for c in text)


def _shown(text: str) -> str:
    """Mask what may be secret in a URL, even a malformed one: user and password, path, query, fragment."""
    scheme, mark, rest = text.strip().rpartition("://")
    head, at, tail = re.split(r"[?#]", rest, maxsplit=1)[0].rpartition("@")
    host, slash, path = tail.partition("/")
    return f"{scheme}{mark}{_HIDDEN + at if head else at}{host}{slash}{shown_path(path)}"
