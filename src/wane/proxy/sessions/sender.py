"""Who sent a request: the agent and its sessions' ids, by the headers of the agents that Wane knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wane.proxy.http.head import Headers, first

_LONGEST_ID: Final = 64
_CLAUDE_CODE: Final = ("claude-cli/",)
_CODEX: Final = ("codex_", "codex-")
_COMPACTING: Final = (*_CLAUDE_CODE, *_CODEX, "GeminiCLI", "pi (", "pi/")
"""Beginnings of the header `user-agent` of agents that compact their context by the usage of a reply."""

_PI: Final = {"Anthropic/JS": b"anthropic-dangerous-direct-browser-access", "OpenAI/JS": b"session_id"}
"""Headers of pi before 0.84, which names only the provider's SDK. Other programs rarely send them."""

# `user_…_account_…_session_ID`, or JSON with `"session_id": "ID"`.
_SESSION: Final = re.compile(r"session(?:_id)?[\"\s:_]+([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request, as far as its client tells.

    Attributes:
        session: the client's own id of the session, which its sub-agents share; empty if it tells none.
        agent: its id of the sub-agent; empty for the main agent, and if it tells none.
        parent: its id of the sub-agent that started this one; empty if the main agent did.
    """

    session: str = ""
    agent: str = ""
    parent: str = ""

    @property
    def starter(self) -> Sender:
        """The agent that started this sub-agent."""
        return Sender(self.session, self.parent)

    def is_other(self, other: Sender) -> bool:
        """Whether another request is from another agent of the same client's session."""
        return bool(self.session) and self.session == other.session and self.agent != other.agent


NOBODY: Final = Sender()
"""The sender of a request whose client tells nothing."""


def sender_of(sent: Headers, body: Mapping[str, Any]) -> Sender:
    """Return who sent a request."""
    client = _text(sent, b"user-agent")
    if client.startswith(_CLAUDE_CODE):
        # Versions before the header have the session's id in the body.
        session = _id(sent, b"x-claude-code-session-id") or _session_in(body.get("metadata"))
        return Sender(session, _id(sent, b"x-claude-code-agent-id"), _id(sent, b"x-claude-code-parent-agent-id"))
    if client.startswith(_CODEX):
        # Each agent is a thread, and the session has the id of the main one.
        session, thread = _id(sent, b"session-id"), _id(sent, b"thread-id")
        parent = _id(sent, b"x-codex-parent-thread-id")
        return Sender(session, "" if thread == session else thread, "" if parent == session else parent)
    return NOBODY


def compacts(sent: Headers) -> bool:
    """Whether a request is of an agent that compacts its context by the usage of a reply."""
    client = _text(sent, b"user-agent")
    beside = _PI.get(client.partition(" ")[0])
    return client.startswith(_COMPACTING) or (beside is not None and first(sent, beside) is not None)


def _session_in(metadata: object) -> str:
    match = _SESSION.search(str(metadata.get("user_id"))) if isinstance(metadata, dict) else None
    return match[1] if match else ""


def _text(sent: Headers, name: bytes) -> str:
    return (first(sent, name) or b"").decode("latin-1")


def _id(sent: Headers, name: bytes) -> str:
    return _text(sent, name)[:_LONGEST_ID]
