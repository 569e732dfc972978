"""Why a provider's cached prefix was paid again: the causes, and the comparison of two requests that finds one.

A provider caches the beginning of a request and charges less for it if the next request begins the same way. Who holds
both requests compares them here; who holds only a recording infers a cause (`wane.lab.cache.rewrites`).
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

SMALLEST: Final = 1_024
"""Tokens that a rewrite must exceed to count: the steps of the providers' caches hide smaller ones."""

CACHE_NOTE: Final = "cache"
"""Topic of a journal's note on a request that paid again, ahead of its usage: an `Explanation`, and the tokens."""

_CONTROL: Final = b'"cache_control"'
_HOUR: Final = b'"ttl":"1h"'
_INSTRUCTING: Final = ("system", "developer")
_SYSTEM: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_SETTINGS: Final = ("thinking", "tool_choice", "reasoning", "reasoning_effort", "output_config", "prompt_cache_key")
"""Settings that a provider's cache depends on besides model, tools and system prompt."""
_DIFF: Final = 300
"""Characters of a difference to show."""


Dumps = Callable[[object], bytes]
"""Writes a value as JSON."""


def _dumps(value: object) -> bytes:
    # As compact as other writers: a message with a breakpoint is written here, and by them without one.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class Cause(StrEnum):
    """Why a prefix was paid again."""

    IDLE = "idle"
    MODEL = "model"
    TOOLS = "tools"
    SYSTEM = "system"
    SETTINGS = "settings"
    HEAD = "head"
    MESSAGES = "messages"
    COMPACTION = "compaction"
    EVICTION = "eviction"
    BREAKPOINTS = "breakpoints"
    REASONING = "reasoning"
    ROUTING = "routing"
    UPSTREAM = "upstream"
    UNEXPLAINED = "unexplained"

    @property
    def advice(self) -> str:
        """What it means, and what to do about it."""
        return _ADVICE[self]


_ADVICE: Final = {
    Cause.IDLE: "the cache had expired. A longer lifetime costs more for each write; a pass or a compaction right "
    "after a long pause costs nothing extra.",
    Cause.MODEL: "each model has a cache of its own. Switch models between sessions, or in a sub-agent.",
    Cause.TOOLS: "the tools changed. Connect MCP servers before the first request, and keep tools in one order.",
    Cause.SYSTEM: "the system prompt changed. Keep times, ids and status out of it.",
    Cause.SETTINGS: "a setting changed on which the cache depends, such as thinking. Keep it for a whole session.",
    Cause.HEAD: "nothing was read, not even the system prompt, though the recording shows no change: the system "
    "prompt, the tools or the settings changed, which it does not hold, or the provider lost its entry. Look for a "
    "time or an id in the system prompt, and for restarts.",
    Cause.MESSAGES: "a message in the middle or at the beginning changed, or a setting that the cache of the messages "
    "depends on, such as thinking.",
    Cause.COMPACTION: "the agent replaced its history by a summary, which rewrites all that follows the tools.",
    Cause.EVICTION: "Wane evicted content. A lower low-water mark makes passes rarer.",
    Cause.BREAKPOINTS: "the request asks for no caching (cache_control), so nothing is read. Set breakpoints.",
    Cause.REASONING: "the API of this model leaves out the reasoning of earlier turns once the user speaks.",
    Cause.ROUTING: "the provider answered from a machine that had an older state. OpenAI asks for one "
    "prompt_cache_key for each session.",
    Cause.UPSTREAM: "the provider was down, so another one answered, which has a cache of its own.",
    Cause.UNEXPLAINED: "no change is known, and the end of the read fits no known rule.",
}


class Certainty(StrEnum):
    """How a cause is known: the provider named it, the event is recorded, or the end of the read implies it."""

    REPORTED = "reported"
    RECORDED = "recorded"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a prefix was paid again.

    Attributes:
        cause: the cause.
        certainty: how it is known.
        evidence: what was compared, in words.
    """

    cause: Cause
    certainty: Certainty
    evidence: str

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON-able data."""
        return {"cause": self.cause, "certainty": self.certainty, "evidence": self.evidence}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Explanation | None:
        """Return what `to_dict` wrote; None if it is something else."""
        try:
            return cls(Cause(data["cause"]), Certainty(data["certainty"]), str(data["evidence"]))
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class SentPrefix:
    """All of a request that a provider's cache depends on.

    Attributes:
        model: its model.
        tools: its tools by name, in order, each with a digest.
        system: the system prompt, as text.
        settings: the settings that caches depend on, by name, as JSON.
        messages: digests of its messages, without cache breakpoints.
        marked: whether it has cache breakpoints.
        hour: whether any of them asks for a lifetime of an hour.
    """

    model: str
    tools: tuple[tuple[str, bytes], ...]
    system: str
    settings: tuple[tuple[str, str], ...]
    messages: tuple[bytes, ...]
    marked: bool
    hour: bool

    @classmethod
    def of(cls, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], dumps: Dumps = _dumps) -> SentPrefix:
        """Return the prefix of a request.

        Args:
            body: the request.
            messages: the messages in it.
            dumps: writes a value as JSON, the same each time.
        """
        first = messages[:1] if messages and messages[0].get("role") in _INSTRUCTING else ()
        system = [message.get("content") for message in first] + [body[name] for name in _SYSTEM if name in body]
        marks = set[bytes]()
        digests = []
        for value in (*messages, *system):
            data = dumps(value)  # one at a time: a request may have a hundred megabytes
            marks.update(mark for mark in (_CONTROL, _HOUR) if mark in data)
            digests.append(_digest(data))
        return cls(
            str(body.get("model", "")),
            tuple((_tool_name(tool), _digest(dumps(tool))) for tool in _list(body.get("tools"))),
            "\n".join(_spoken(entry, dumps) for entry in system),
            tuple((name, _plain(body[name], dumps)) for name in _SETTINGS if name in body),
            tuple(digests[: len(messages)]),
            _CONTROL in marks,
            marks == {_CONTROL, _HOUR},
        )

    def explain(self, before: SentPrefix, *, evicted: bool) -> Explanation:
        """Return why this request could not read all that was cached of the one before.

        Args:
            before: the request before.
            evicted: whether a pass of Wane ran for this request.
        """
        if self.model != before.model:
            return _recorded(Cause.MODEL, f"the model was {before.model}, and is {self.model}")
        if self.tools != before.tools:
            return _recorded(Cause.TOOLS, _tool_changes(before.tools, self.tools))
        if self.system != before.system:
            return _recorded(Cause.SYSTEM, _first_change(before.system, self.system))
        for name in _SETTINGS:
            was, value = dict(before.settings).get(name), dict(self.settings).get(name)
            if was != value:
                return _recorded(Cause.SETTINGS, f"{name} was {was or 'not set'}, and is {value or 'not set'}")
        if before.marked and not self.marked:
            return _recorded(Cause.BREAKPOINTS, "the request has no cache_control, and the one before had")
        for number, digest in enumerate(before.messages):
            if self.messages[number : number + 1] != (digest,):
                cause = Cause.EVICTION if evicted else Cause.MESSAGES
                of = f"message {number + 1} of the {len(before.messages)} sent before is not the same"
                return _recorded(cause, of)
        what = f"model, tools, system prompt, settings and all {len(before.messages)} messages are the same as before"
        return Explanation(Cause.UNEXPLAINED, Certainty.UNKNOWN, what)


def _recorded(cause: Cause, evidence: str) -> Explanation:
    return Explanation(cause, Certainty.RECORDED, evidence)


def _tool_changes(before: Sequence[tuple[str, bytes]], after: Sequence[tuple[str, bytes]]) -> str:
    """Say which tools came, went or changed."""
    old, new = dict(before), dict(after)
    changes = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    words = [f"{what}: {', '.join(names)}" for what, names in changes.items() if names]
    return f"tools {'; '.join(words)}" if words else "the same tools in another order"


def _first_change(before: str, after: str) -> str:
    """Show the first difference of two texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    shown = " ".join(changes) or "line ends"
    return f"the system prompt changed: {shown[:_DIFF]}{'…' if len(shown) > _DIFF else ''}"


def _digest(data: bytes) -> bytes:
    """Return a digest of JSON without its cache breakpoints."""
    if _CONTROL in data:
        data = _dumps(_unmarked(json.loads(data)))
    return hashlib.blake2b(data, digest_size=12).digest()


def _plain(value: object, dumps: Dumps) -> str:
    """Return a text as it is, and any other value as JSON without cache breakpoints."""
    return value if isinstance(value, str) else _dumps(_unmarked(json.loads(dumps(value)))).decode()


def _spoken(value: Any, dumps: Dumps) -> str:
    """Return the text of a system prompt, which may be in blocks."""
    blocks = value.get("parts", value) if isinstance(value, Mapping) else value
    texts = [block.get("text") for block in _list(blocks) if isinstance(block, Mapping)]
    if texts and all(isinstance(text, str) for text in texts):
        return "\n".join(map(str, texts))
    return _plain(value, dumps)


def _unmarked(value: Any) -> Any:
    """Return JSON data without cache breakpoints."""
    if isinstance(value, Mapping):
        return {key: _unmarked(entry) for key, entry in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(entry) for entry in value]
    return value


def _tool_name(tool: Any) -> str:
    """Return the name of a tool's definition in any API; its type if it has none."""
    if not isinstance(tool, Mapping):
        return ""
    function = tool.get("function")
    named = function if isinstance(function, Mapping) else tool
    return str(named.get("name") or tool.get("type") or ", ".join(tool))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
