"""Finds the API of a request by the end of its path, because clients and gateways add all sorts of prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wane.proxy.agents.known import AGENTS
from wane.proxy.http import headers
from wane.proxy.server.settings import ReportedUsage
from wane.proxy.wire.anthropic.protocol import AnthropicWire
from wane.proxy.wire.base import Wire
from wane.proxy.wire.chat.protocol import OpenAIChatWire
from wane.proxy.wire.responses.protocol import OpenAIResponsesWire
from wane.proxy.wire.usage import Tally, latest, summed

Wires = Mapping[str, Wire]
"""The protocols by name: `anthropic`, `openai` and `openai_responses`."""

COMPACTING: Final = tuple(prefix for agent in AGENTS for prefix in agent.user_agents)
"""Beginnings of `user-agent` of agents that compact their context by the usage that a reply reports."""

# Suffix of the path, name of the wire, and whether the request only counts tokens.
_SUFFIXES: Final = (
    ("/messages", "anthropic", False),
    ("/chat/completions", "openai", False),
    ("/responses", "openai_responses", False),
    ("/messages/count_tokens", "anthropic", True),
    ("/responses/input_tokens", "openai_responses", True),
)


@dataclass(frozen=True, slots=True)
class Api:
    """The API of a request.

    Attributes:
        wire: its protocol.
        counts: whether the request only counts tokens and asks no model.
    """

    wire: Wire
    counts: bool


def find(wires: Wires, method: str, path: str) -> Api | None:
    """Return the API of a request; None if it is none of the three."""
    if method != "POST":
        return None
    for suffix, name, counts in _SUFFIXES:
        if path.endswith(suffix) and name in wires:
            return Api(wires[name], counts)
    return None


def wire_for_errors(wires: Wires, path: str, sent: headers.Headers) -> Wire | None:
    """Return the wire whose error format the client of any path expects; None if there are no wires."""
    if "/messages" in path or headers.first(sent, b"anthropic-version") is not None:
        return wires.get("anthropic") or next(iter(wires.values()), None)
    return wires.get("openai") or next(iter(wires.values()), None)


def tally_for(usage: ReportedUsage, sent: headers.Headers) -> Tally:
    """Return the function that combines the usage of several rounds for the client.

    Args:
        usage: the setting; `auto` depends on the client.
        sent: the headers of the client's request, which name it.
    """
    if usage == "auto":
        client = (headers.first(sent, b"user-agent") or b"").decode("latin-1")
        usage = "last" if client.startswith(COMPACTING) else "sum"
    return summed if usage == "sum" else latest


def known_wires() -> dict[str, Wire]:
    """Return all protocols that the proxy supports, by name."""
    wires: tuple[Wire, ...] = (AnthropicWire(), OpenAIChatWire(), OpenAIResponsesWire())
    return {wire.name: wire for wire in wires}
