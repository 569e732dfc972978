"""What commands ask a running proxy: its status, as `/wane/status` gives it."""

from __future__ import annotations

import json
from contextlib import suppress
from socket import inet_aton, inet_ntoa
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import OpenerDirector, ProxyHandler, build_opener

from wane.proxy.head import is_loopback

TIMEOUT: Final = 1.0
"""Seconds; the agent asks again soon."""


def proxy_status(base: str) -> dict[str, Any]:
    """Return the status of a proxy.

    Raises:
        ValueError: if this is no such URL, or the answer is not JSON.
        OSError: if it does not answer.
    """
    with opener_for(base).open(f"{base.rstrip('/')}/wane/status", timeout=TIMEOUT) as answer:
        status: dict[str, Any] = json.load(answer)
    return status


def opener_for(base: str) -> OpenerDirector:
    """Return what asks a proxy.

    Raises:
        ValueError: if this is no HTTP URL.
    """
    if not base.startswith(("http://", "https://")):
        raise ValueError("not an HTTP URL")
    # The URL may hold a token. One for a proxy on this machine must not go through an HTTP proxy of the environment.
    host = urlsplit(base).hostname or ""
    with suppress(OSError):
        host = inet_ntoa(inet_aton(host))  # in any spelling that the system takes, such as `127.1`
    direct = is_loopback(host) or host in ("0.0.0.0", "::")  # noqa: S104 - where to connect, not where to listen
    return build_opener(ProxyHandler({} if direct else None))
