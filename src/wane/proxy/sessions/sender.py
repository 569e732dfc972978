"""Tells who sent a request, by the headers of the agents that Wane knows, and which session started a sub-agent.

The client's own ids decide, or else the prompt of a call. Nothing is guessed: if two sessions may have started a
sub-agent, none is named.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from wane.journal.records import UNKNOWN_PARENT
from wane.proxy import jsons
from wane.proxy.head import Headers, first
from wane.proxy.settings import ReportedUsage
from wane.proxy.store.stores import Store, StoreError
from wane.tools.calls import bare_name, fields_of

_LOGGER: Final = logging.getLogger("wane.proxy")

AGENTS: Final = "agent"
"""Kind of the documents about sub-agents."""

_CLAUDE_CODE: Final = ("claude-cli/",)
_CODEX: Final = ("codex_", "codex-")
_CODEX_TURN: Final = b"x-codex-turn-metadata"
"""A header of Codex, which names the editor and not itself in `user-agent` where one runs it as a server (0.166.0)."""

_NAMED: Final = {
    "claude-code": _CLAUDE_CODE,
    "codex": _CODEX,
    "gemini-cli": ("GeminiCLI",),
    "pi": ("pi (", "pi/"),
    "opencode": ("opencode/",),
    "qwen-code": ("QwenCode/",),
    "kimi-code": ("kimi-code-cli/",),
}
"""By agent, the beginnings of the header `user-agent`; all of them compact when a reply reports high usage."""

_NAMELESS: Final = (
    ("codex", "", _CODEX_TURN),
    ("pi", "Anthropic/JS ", b"anthropic-dangerous-direct-browser-access"),  # before 0.84
    ("pi", "OpenAI/JS ", b"session_id"),
    ("copilot-cli", "Anthropic/JS ", b"x-initiator"),  # 1.0.102
    ("copilot-cli", "OpenAI/JS ", b"x-initiator"),
    ("mistral-vibe", "python-httpx/", b"x-affinity"),  # 3.0.2, with Mistral's API or another
    ("mistral-vibe", "mistral-client-python/", b"x-affinity"),
)
"""Such agents that do not name themselves, each with a header that other programs rarely send."""

# `user_…_account_…_session_ID`, or JSON with `"session_id": "ID"`.
_SESSION: Final = re.compile(r"session(?:_id)?[\"\s:_]+([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

_PROMPTS: Final = {
    "agent": ("prompt",),  # Claude Code, Qwen Code, Kimi Code
    "task": ("prompt",),  # Claude Code before 2.1.63, OpenCode, Copilot CLI
    "invoke_agent": ("prompt",),  # Gemini CLI
    "spawn_agent": ("message", "task"),  # Codex; Cline
    "subagent": ("task",),  # pi, by the extension among its examples
    "delegate": ("task",),
}
"""By tool that starts sub-agents, the arguments that may hold the prompt."""

_LISTS: Final = ("tasks", "chain")
"""Arguments with a list of further calls, each with the prompt of a sub-agent of its own."""

_WRAPPINGS: Final = (
    re.compile(r".*<objective>\n(.*)\n</objective>", re.DOTALL),  # Gemini CLI's codebase_investigator (0.61.0)
    re.compile(r"Task: (.*)", re.DOTALL),  # pi
    re.compile(r"<current_datetime>[^<]*</current_datetime>(.*)", re.DOTALL),  # Copilot CLI (1.0.102)
)
"""How some clients wrap the prompt in the sub-agent's first message."""

_Row: TypeAlias = tuple[str, str]
"""The id of a session, and the id that its client has for it."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a request, as far as its client says.

    Attributes:
        session: the client's own id of the session, which its sub-agents share; empty if it sends none.
        agent: its id of the sub-agent; empty for the main agent, or if it sends none.
        parent: its id of the sub-agent that started this one; empty if the main agent did.
        compacts: whether the request is one of the client's own compaction, by what the client says of it. Most show it
            only by their prompt, which ends the request.
        client: the client, by the format of its sessions (`wane.lab.names`); empty if it is not known.
    """

    session: str = ""
    agent: str = ""
    parent: str = ""
    compacts: bool = field(default=False, compare=False)
    client: str = field(default="", compare=False)

    def is_other(self, other: Sender) -> bool:
        """Return whether another request is from another agent of the same client's session."""
        return bool(self.session) and self.session == other.session and self.agent != other.agent

    def sums_usage(self, usage: ReportedUsage) -> bool:
        """Return whether to report the usage of all rounds of a reply, and not that of the last round.

        With `auto`, agents that compact their context when a reply reports high usage get that of the last round.
        """
        return usage == "sum" or (usage == "auto" and not self.client)


NOBODY: Final = Sender()
"""The sender of a request whose client sends no ids."""


def sender_of(sent: Headers, body: Mapping[str, Any]) -> Sender:
    """Return the sender of a request, by its headers and its body."""
    client = _text(sent, b"user-agent")
    if client.startswith(_CLAUDE_CODE):
        session = _id(sent, b"x-claude-code-session-id")
        metadata = body.get("metadata")
        if not session and isinstance(metadata, dict):
            # Versions before the header have the session's id in the body.
            match = _SESSION.search(str(metadata.get("user_id")))
            session = match[1] if match else ""
        agent, parent = _id(sent, b"x-claude-code-agent-id"), _id(sent, b"x-claude-code-parent-agent-id")
        # Versions since 2.1.33x say so to gateways that ask for it.
        compacts = _text(sent, b"x-claude-code-request-class") == "compaction" or bool(
            first(sent, b"x-claude-code-compaction")
        )
        return Sender(session, agent, parent, compacts, "claude-code")
    turn = _text(sent, _CODEX_TURN)
    if turn or client.startswith(_CODEX):
        # Each agent is a thread, and the session has the id of the main one.
        session = _id(sent, b"session-id")
        thread = _id(sent, b"thread-id")
        parent = _id(sent, b"x-codex-parent-thread-id")
        return Sender(
            session,
            "" if thread == session else thread,
            "" if parent == session else parent,
            fields_of(turn).get("request_kind") == "compaction",
            "codex",
        )
    return Sender(client=client_of(sent))


def client_of(sent: Headers) -> str:
    """Return the agent that sent a request, by the format of its sessions; empty if it is none that is known."""
    name = _text(sent, b"user-agent")
    for agent, beginnings in _NAMED.items():
        if name.startswith(beginnings):
            return agent
    for agent, library, header in _NAMELESS:
        if name.startswith(library) and first(sent, header) is not None:
            return agent
    return ""


def _text(sent: Headers, name: bytes) -> str:
    return (first(sent, name) or b"").decode("latin-1")


def _id(sent: Headers, name: bytes) -> str:
    return _text(sent, name)[:64]


def prompts_of(tool: str, arguments: str | None) -> list[str]:
    """Return the prompts of the sub-agents that a call starts, stripped; none if it starts none."""
    names = _PROMPTS.get(bare_name(tool))
    if names is None:
        return []
    fields = fields_of(arguments)
    calls: list[Any] = [fields]
    for name in _LISTS:
        if isinstance(fields.get(name), list):
            calls += fields[name]
    values: list[Any] = []
    for call in calls:
        if isinstance(call, dict):
            values += [call.get(name) for name in names]
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]


def handed_over(text: str) -> list[str]:
    """Return the prompts that a sub-agent's first message may hold: the text, stripped, and what it wraps."""
    text = text.strip()
    matches = [wrapping.fullmatch(text) for wrapping in _WRAPPINGS]
    wrapped = [match[1].strip() for match in matches if match is not None]
    return [prompt for prompt in (text, *wrapped) if prompt]


class Parentage:
    """The sessions of agents and the prompts that they handed over, for the sessions of one owner.

    They are documents of the store, because another process may get the sub-agent's first request. If the store fails,
    parents are unknown, and nothing else happens.
    """

    def __init__(self, store: Store, owner: str = "") -> None:
        self._store, self._owner = store, owner
        self._tidied = datetime.now(UTC)

    async def note_session(self, sender: Sender, session_id: str) -> None:
        """Note the session of an agent, if its client sends ids."""
        if sender.session:
            name = self._name("agent", sender.session, sender.agent)
            await self._change_rows(name, lambda _: [(session_id, sender.session)])

    async def handed_over(self, sender: Sender, session_id: str, prompts: Iterable[str]) -> None:
        """Note the prompts of a session's calls that start sub-agents."""
        for prompt in prompts:
            name = self._name("prompt", prompt)
            await self._change_rows(name, lambda rows: [*rows, (session_id, sender.session)])

    async def parent(self, sender: Sender, texts: Sequence[str]) -> str:
        """Return the id of the session that started a new one.

        Args:
            sender: the sender of the new session's first request.
            texts: the user's texts in this request, which may hold a prompt.

        Returns:
            The id; `UNKNOWN_PARENT` if the client says that it is a sub-agent whose parent's session is not known;
            empty for all others.
        """
        if sender.agent:
            rows = await self._change_rows(self._name("agent", sender.session, sender.parent), lambda rows: rows)
            return rows[0][0] if rows else UNKNOWN_PARENT
        prompts: list[str] = []
        for text in texts:
            prompts += handed_over(text)
        for prompt in prompts:
            claimed = ""

            def claim(rows: list[_Row]) -> list[_Row]:
                """Take a call with this prompt, which starts one sub-agent only, unless several sessions made one."""
                nonlocal claimed
                claimed = ""
                callers = {session_id for session_id, client_session in rows if client_session == sender.session}
                if len(callers) == 1:
                    claimed = callers.pop()
                    rows.remove((claimed, sender.session))
                return rows

            await self._change_rows(self._name("prompt", prompt), claim)
            if claimed:
                return claimed
        return ""

    async def tidy(self) -> None:
        """Delete what is a week old, once an hour."""
        now = datetime.now(UTC)
        if now - self._tidied < timedelta(hours=1):
            return
        self._tidied = now
        try:
            for name, document in (await self._store.documents(AGENTS)).items():
                if now - _read(document)[0] > timedelta(days=7):
                    await self._store.replace_document(AGENTS, name, document, None)
        except StoreError as error:
            _LOGGER.warning("what is known of sub-agents is not tidied up: %s", error)

    async def _change_rows(self, name: str, change: Callable[[list[_Row]], list[_Row]]) -> list[_Row]:
        """Change the rows of a document, and return them; return none if the store fails."""

        def change_document(before: str | None) -> str | None:
            rows = change(_read(before)[1])
            if before is not None and rows == _read(before)[1]:
                return before
            data = {"at": datetime.now(UTC).isoformat(), "owner": self._owner, "sessions": rows}
            return jsons.dumps(data).decode() if rows else None

        try:
            return _read(
                await self._store.change_document(AGENTS, name, change_document, "what is known of sub-agents")
            )[1]
        except StoreError as error:
            _LOGGER.warning("the session that started a sub-agent is not known: %s", error)
            return []

    def _name(self, *what: str) -> str:
        return blake2b(jsons.dumps([self._owner, *what]), digest_size=16).hexdigest()


def _read(document: str | None) -> tuple[datetime, list[_Row]]:
    """Return when a document was written, and its rows; a document that cannot be read is old and has none."""
    try:
        data: dict[str, Any] = jsons.loads((document or "").encode())
        return datetime.fromisoformat(data["at"]), [(str(row[0]), str(row[1])) for row in data["sessions"]]
    except (ValueError, LookupError, TypeError):
        return datetime.min.replace(tzinfo=UTC), []
