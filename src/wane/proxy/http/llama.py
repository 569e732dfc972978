"""Asks a llama-server whether its model's chat template shows tools.

Where it does not, tools vanish from requests without a word, so a model never sees `delimiter`. A llama-server says so
at `/props` (seen in llama.cpp b10434); no other server is known to.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import httpcore2

from wane.core.errors import ConfigError
from wane.proxy.http.network import Network
from wane.proxy.http.upstream import HTTP_ERRORS, environment_proxy
from wane.proxy.settings import UpstreamUrl

_PATIENCE: Final = 2.0  # seconds; a server that is still loading its model answers at once, with 503


async def shows_tools(upstream: UpstreamUrl) -> bool | None:
    """Return whether a server's chat template shows tools to its model; None if it does not say.

    Only a server without TLS is asked: a llama-server is one's own, and providers have no such path.
    """
    if upstream.scheme != "http":
        return None
    prefix = upstream.prefix.removesuffix("/v1")
    try:
        # As each request later goes: by the same proxy of the environment, if by any.
        way = environment_proxy(upstream)
        async with (
            asyncio.timeout(_PATIENCE),
            httpcore2.AsyncConnectionPool(proxy=way, network_backend=Network()) as pool,
        ):
            answer = await pool.request("GET", f"{upstream.origin}{prefix}/props")
        properties: Any = json.loads(answer.content) if answer.status == 200 else None
    except (*HTTP_ERRORS, ConfigError, ValueError, OSError, RecursionError):
        return None
    abilities = properties.get("chat_template_caps") if isinstance(properties, dict) else None
    known = abilities.get("supports_tools") if isinstance(abilities, dict) else None
    return known if isinstance(known, bool) else None
