"""Which path is whose API: clients and gateways put all sorts of prefixes before them."""

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
"""How agents call themselves that compact their context by the usage that a reply reports."""

# Suffix of the path, name of the wire, and whether it counts tokens only.
_SUFFIXES: Final = (
    ("/messages", "anthropic", False),
    ("/chat/completions", "openai", False),
    ("/responses", "openai_responses", False),
    ("/messages/count_tokens", "anthropic", True),
    ("/responses/input_tokens", "openai_responses", True),
)


@dataclass(frozen=True, slots=True)
class Api:
    """What a path asks for.

    Attributes:
        wire: its protocol.
        counts: whether tokens are to be counted, and no model is asked.
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


def speaker(wires: Wires, path: str, sent: headers.Headers) -> Wire | None:
    """Return the wire in whose shape a client of any path expects its errors; None if no wire is known."""
    if "/messages" in path or headers.first(sent, b"anthropic-version") is not None:
        return wires.get("anthropic") or next(iter(wires.values()), None)
    return wires.get("openai") or next(iter(wires.values()), None)


def tally_for(usage: ReportedUsage, sent: headers.Headers) -> Tally:
    """Return what makes the usage that a client is told of a reply that took several rounds.

    Args:
        usage: what clients are told of it.
        sent: the headers of the client's request, which tell whose it is.
    """
    if usage == "auto":
        client = (headers.first(sent, b"user-agent") or b"").decode("latin-1")
        usage = "last" if client.startswith(COMPACTING) else "sum"
    return summed if usage == "sum" else latest


def known_wires() -> dict[str, Wire]:
    """Return all the protocols that the proxy knows."""
    wires: tuple[Wire, ...] = (AnthropicWire(), OpenAIChatWire(), OpenAIResponsesWire())
    return {wire.name: wire for wire in wires}
