"""Asks a llama-server whether its model's chat template shows tools.

Where it does not, tools vanish from requests without a word, so a model never sees `delimiter`. A llama-server says so
at `/props` (seen in llama.cpp b10434); no other server is known to.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx2

from wane.proxy.http.upstream import environment_proxy
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
        way = httpx2.AsyncHTTPTransport(verify=False, proxy=environment_proxy(upstream))
        async with asyncio.timeout(_PATIENCE), httpx2.AsyncClient(transport=way, trust_env=False) as client:
            answer = await client.get(f"{upstream.origin}{prefix}/props")
        properties: Any = answer.json() if answer.status_code == 200 else None
    except (httpx2.HTTPError, ValueError, ImportError, OSError, RecursionError):
        return None
    abilities = properties.get("chat_template_caps") if isinstance(properties, dict) else None
    known = abilities.get("supports_tools") if isinstance(abilities, dict) else None
    return known if isinstance(known, bool) else None
