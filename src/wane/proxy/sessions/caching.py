"""Tells what a session's requests paid again although the provider had cached it, and why.

A provider caches a request by its prefix, so each request is compared with the one before to see what changed there.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from wane.caches import describe_pause, rules_for
from wane.journal import NoteRecord
from wane.prices import TokenUsage, at_tier, prices_of
from wane.proxy import jsons
from wane.proxy.wire.openai_shared import MARKERS
from wane.proxy.wire.wire import Wire
from wane.rewrites import CACHE_NOTE, SMALLEST, Cause, CauseTotals, Certainty, Explanation

_LOOKBACK: Final = 20
"""Positions that Anthropic checks from each breakpoint, itself included; a run of calls or results is one position."""

_LIFETIMES: Final = {b'"ttl":"1h"': 3_600.0, b'"ttl":"12h"': 43_200.0}
"""Seconds that a cache lives, by how requests to Anthropic and OpenAI ask for that."""
_SETTINGS: Final = (
    "thinking",
    "tool_choice",
    "reasoning",
    "reasoning_effort",
    "output_config",
    "prompt_cache_key",
    "text",
    "response_format",
    "verbosity",
    "service_tier",
    "speed",
)
"""Settings that a provider's cache depends on besides model, tools and system prompt."""
_NESTING: Final = ("content", "items", "output")  # fields with blocks, or with the items of a message


def lifetime_of(wire: Wire, body: Mapping[str, Any]) -> float:
    """Return how long the provider keeps what a request writes to its cache, in seconds.

    Only the system prompt and the tools are searched for a lifetime that the request asks for, not the messages.
    """
    beginning = jsons.dumps([*(body[name] for name in wire.system if name in body), body.get("tools")])
    return _lifetime(body, _longest_lifetime(beginning))


def _lifetime(body: Mapping[str, Any], asked: float) -> float:
    """Return the same, given the seconds that system prompt and tools ask for; 0 for none."""
    asked = max(asked, _longest_lifetime(jsons.dumps(body.get("prompt_cache_options"))))
    return asked or rules_for("", str(body.get("model", ""))).lifetime


def _longest_lifetime(data: bytes) -> float:
    """Return the longest lifetime that a part of a request asks for, in seconds; 0 for none."""
    return max((seconds for words, seconds in _LIFETIMES.items() if words in data), default=0.0)


class SentMessage(NamedTuple):  # made for each message of a request
    """What a provider's cache depends on of one message.

    Attributes:
        digest: a digest of it without cache breakpoints.
        is_answer: whether it is the model's.
        positions: how many positions it has; each block is one, but a run of calls or of results is one too.
        marked: the positions of Anthropic's breakpoints in it, from 1.
        lifetime: seconds that a breakpoint in it asks for; 0 for none.
    """

    digest: bytes
    is_answer: bool
    positions: int
    marked: tuple[int, ...]
    lifetime: float

    @classmethod
    def of(cls, message: Mapping[str, Any], digest: bytes) -> SentMessage:
        """Return it for a message whose digest is known."""
        last = ""
        count = 0
        marked = []
        for block in _list(message.get("content")):
            is_block = isinstance(block, dict)
            kind = str(block.get("type")) if is_block else ""
            continues_run = kind == last and kind.endswith(("tool_use", "tool_result"))
            if not continues_run:
                count += 1
            last = kind
            if is_block and block.get("cache_control"):
                marked.append(count)
        kind = str(message.get("type"))
        is_answer = message.get("role") in ("assistant", "model") or kind == "reasoning" or kind.endswith("_call")
        lifetime = _longest_lifetime(jsons.dumps(message)) if _carries_breakpoint(message) else 0.0
        return cls(digest, is_answer, max(count, 1), tuple(marked), lifetime)


@dataclass(frozen=True, slots=True)
class SentPrefix:
    """The parts of a request that a provider's cache depends on.

    Attributes:
        model: its model.
        tools: its tools in order: their names, and their definitions as JSON.
        system: the system prompt, as text.
        settings: the settings that caches depend on, by name, as JSON.
        messages: digests of its messages, without cache breakpoints.
        answers: for each message, whether it is the model's.
        breakpoints: for each cache breakpoint of Anthropic's, how many positions of the messages it covers.
        lifetime: seconds that the provider keeps what the request writes to its cache: the time that a breakpoint or
            the whole request asks for, or else the provider's time for the model.
    """

    model: str
    tools: tuple[tuple[str, str], ...]
    system: str
    settings: tuple[tuple[str, str], ...]
    messages: tuple[bytes, ...]
    answers: tuple[bool, ...]
    breakpoints: tuple[int, ...]
    lifetime: float

    @classmethod
    def of(
        cls, wire: Wire, body: Mapping[str, Any], messages: Sequence[SentMessage], first: Mapping[str, Any]
    ) -> SentPrefix:
        """Return the prefix of a request.

        Args:
            wire: its protocol.
            body: its body.
            messages: its messages.
            first: the first of them, which may be the system prompt; empty for none.
        """
        system = [body[name] for name in wire.system if name in body]
        if first.get("role") in ("system", "developer"):
            system.insert(0, first.get("content"))
        beginning = _Beginning.of(jsons.dumps([system, body.get("tools")]))
        breakpoints = [0] if beginning.marked else []
        lifetime = _lifetime(body, beginning.lifetime)
        covered = 0
        for message in messages:
            if message.marked:
                breakpoints += [covered + position for position in message.marked]
            lifetime = max(lifetime, message.lifetime)
            covered += message.positions
        return cls(
            model=str(body.get("model", "")),
            tools=beginning.tools,
            system=beginning.system,
            settings=tuple((name, _plain(body[name])) for name in _SETTINGS if name in body),
            messages=tuple([message.digest for message in messages]),
            answers=tuple([message.is_answer for message in messages]),
            breakpoints=tuple(breakpoints),
            lifetime=lifetime,
        )

    def explain(self, before: SentPrefix, *, evicted: bool) -> Explanation:
        """Return why this request could not read all of the cache of the one before.

        `evicted` says whether Wane changed the view for this request.
        """
        if self.model != before.model:
            return _explain_recorded(Cause.MODEL, f"the model was {before.model}, and is {self.model}")
        if self.tools != before.tools:
            return _changed_tools(before.tools, self.tools)
        if self.system != before.system:
            return _explain_recorded(Cause.SYSTEM, "the system prompt changed", _diff(before.system, self.system))
        old = dict(before.settings)
        new = dict(self.settings)
        for name in _SETTINGS:
            if old.get(name) != new.get(name):
                change = f"{name} was {old.get(name) or 'not set'}, and is {new.get(name) or 'not set'}"
                return _explain_recorded(Cause.SETTINGS, change)
        if before.breakpoints and not self.breakpoints:
            return _explain_recorded(Cause.BREAKPOINTS, "the request has no cache_control, and the one before had")
        for number, digest in enumerate(before.messages):
            if self.messages[number : number + 1] != (digest,):
                what = f"message {number + 1} of the {len(before.messages)} sent before is not the same"
                if evicted:
                    return _explain_recorded(Cause.EVICTION, what)
                # A client that only changes a message in the middle sends the answers after it again.
                if number and not any(self.answers[number:]):
                    return _explain_recorded(Cause.BRANCH, f"{what}, and no answer follows it")
                return _explain_recorded(Cause.MESSAGES, what)
        return self._lost_breakpoint(before) or Explanation(
            Cause.UNEXPLAINED,
            Certainty.UNKNOWN,
            f"model, tools, system prompt, settings and all {len(before.messages)} messages are the same as before",
        )

    def _lost_breakpoint(self, before: SentPrefix) -> Explanation | None:
        """Return the explanation if no breakpoint reaches the end of the cached prefix of the request before."""
        end = max(before.breakpoints, default=0)
        if not end:
            return None
        distances = [position - end for position in self.breakpoints if position >= end]
        if not distances:
            where = "no breakpoint is at or after it"
        elif min(distances) >= _LOOKBACK:
            where = f"the first breakpoint after it is {min(distances)} blocks on"
        else:
            return None
        return _explain_recorded(
            Cause.BREAKPOINTS, f"the cached prefix ended {end} blocks into the messages, and {where}"
        )


@dataclass(frozen=True, slots=True)
class RewrittenPrefix:
    """The part of a request that was paid again although the provider had cached it with the one before.

    Attributes:
        tokens: its tokens, at most.
        dollars: what they cost more than reading them from the cache; None if the model's price is unknown.
        explanation: why they were paid again.
    """

    tokens: int
    dollars: float | None
    explanation: Explanation

    def note(self) -> NoteRecord:
        """Return the record of it, which precedes that of the request's usage."""
        return NoteRecord(CACHE_NOTE, {**self.explanation.to_dict(), "tokens": self.tokens})


@dataclass(frozen=True, slots=True)
class AnsweredPrefix:
    """The prefix of a request that was answered, with its usage as the provider reported it.

    Attributes:
        upstream: the second provider's address if that one answered, because the first was down; else empty.
        reported: the provider's own word for why it could not read its cache; empty if it gave none.
    """

    prefix: SentPrefix
    usage: TokenUsage
    at: datetime
    upstream: str = ""
    reported: str = ""

    @property
    def cached(self) -> int:
        """Tokens of it that the provider has cached; without reported writes, the input less a step of the cache."""
        read = self.usage.cache_read
        written = self.usage.cache_write
        return read + written if written else max(read, self.usage.input - SMALLEST)


@dataclass(slots=True)
class CacheWatch:
    """Compares each request of a session with the one before. The first request in a process is compared with none.

    Attributes:
        totals: what was paid again so far in this process, by cause.
        passes: how often the strategy has changed the view; count each change before its request.
    """

    totals: dict[Cause, CauseTotals] = field(default_factory=dict)
    passes: int = 0
    _before: dict[tuple[str, str], tuple[AnsweredPrefix, int]] = field(default_factory=dict)  # by upstream and model
    _caches: bool = False
    _last: tuple[str, str] = ("", "")
    _head: int = 0  # the fewest tokens that a request has read: about the prefix that other sessions share

    def take_answer(self, answer: AnsweredPrefix) -> RewrittenPrefix | None:
        """Take in a request that was answered; return what it paid again, if anything."""
        usage, prefix = answer.usage, answer.prefix
        if usage.input <= 0:
            return None
        key = (answer.upstream, prefix.model)
        before, passes = self._before.get(key) or self._before.get(self._last) or (None, 0)
        # Other models and providers keep their caches, but only the last request of each counts.
        self._before[key] = (answer, self.passes)
        self._last = key
        self._caches |= usage.cache_read + usage.cache_write > 0
        self._head = min(usage.cache_read or usage.input, self._head or usage.input)
        if before is None or not self._caches:
            return None
        tokens = min(before.cached, usage.input) - usage.cache_read
        if tokens <= SMALLEST:
            return None
        explanation = answer.prefix.explain(before.prefix, evicted=passes != self.passes)
        explanation = self._beyond(before, answer, explanation).with_report(answer.reported)
        prices = prices_of(at_tier(prefix.model, usage.tier))
        dollars = None if prices is None else prices.repeated_cost(tokens, usage.use, answer.at)
        total = self.totals.setdefault(explanation.cause, CauseTotals())
        total.add(explanation.certainty, tokens, dollars)
        return RewrittenPrefix(tokens, dollars, explanation)

    @property
    def lifetime(self) -> float | None:
        """Seconds that the provider keeps the cache of the latest request; None before the first in this process."""
        latest = self._before.get(self._last)
        return None if latest is None else latest[0].prefix.lifetime

    def branch(self) -> CacheWatch:
        """Return the watch for a fork of the session: it knows the requests so far, and has paid nothing yet."""
        return replace(self, totals={}, _before=dict(self._before))

    def _beyond(self, before: AnsweredPrefix, answer: AnsweredPrefix, change: Explanation) -> Explanation:
        """Return another explanation if there is a better one than a change of the request.

        Such as that another upstream has answered, or that the cache has expired.
        """
        lifetime = before.prefix.lifetime
        seconds = (answer.at - before.at).total_seconds()
        if answer.upstream != before.upstream:
            cause = Cause.UPSTREAM
            evidence = f"{answer.upstream or 'the first upstream'} answered, which has a cache of its own"
        elif seconds >= lifetime and answer.usage.cache_read <= self._head + SMALLEST:
            cause = Cause.IDLE
            evidence = describe_pause(seconds, lifetime)
        else:
            return change
        if change.cause is not Cause.UNEXPLAINED:
            evidence += f"; besides, {change.evidence}"
        return _explain_recorded(cause, evidence, change.diff)

    def to_dict(self) -> Mapping[str, Any]:
        """Return the totals as JSON-able data, by cause."""
        return {cause: total.to_dict() for cause, total in self.totals.items()}


class _Beginning(NamedTuple):
    """What is ahead of the messages of a request.

    Attributes:
        tools: see `SentPrefix`.
        system: likewise.
        marked: whether it has a breakpoint.
        lifetime: seconds that a breakpoint in it asks for; 0 for none.
    """

    tools: tuple[tuple[str, str], ...]
    system: str
    marked: bool
    lifetime: float

    @classmethod
    @lru_cache(maxsize=64)  # most requests of all sessions of a client have the same
    def of(cls, data: bytes) -> _Beginning:
        """Describe the system prompts and the tools of a request, which are the two elements of JSON data."""
        system, tools = jsons.loads(data)
        return cls(
            # A text that several of these share is in memory once.
            tuple((_tool_name(tool), sys.intern(_plain(tool))) for tool in _tools(tools)),
            sys.intern("\n".join(map(_system_text, system))),
            any(mark.encode() in data for mark in MARKERS),
            _longest_lifetime(data),
        )


def _explain_recorded(cause: Cause, evidence: str, diff: str = "") -> Explanation:
    return Explanation(cause, Certainty.RECORDED, evidence, diff)


def _changed_tools(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> Explanation:
    """Explain which tools were added, removed or changed."""
    old = dict(before)
    new = dict(after)
    changes = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    words = [f"{change}: {', '.join(names)}" for change, names in changes.items() if names]
    diffs = [
        f" {name}\n{_diff(_indent_definition(old[name]), _indent_definition(new[name]))}" for name in changes["changed"]
    ]
    evidence = f"tools {'; '.join(words)}" if words else "the same tools in another order"
    return _explain_recorded(Cause.TOOLS, evidence, _cut("\n".join(diffs)))


def _diff(before: str, after: str) -> str:
    """Return the lines in which two texts differ."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return _cut("\n".join(line for line in lines if not line.startswith(("---", "+++", "@@"))))


def _cut(text: str) -> str:
    return text if len(text) <= 4_000 else f"{text[:4_000]}…"


def _indent_definition(definition: str) -> str:
    return json.dumps(json.loads(definition), indent=1, ensure_ascii=False)


def _plain(value: object) -> str:
    """Return a text as it is, and any other value as JSON without cache breakpoints."""
    return value if isinstance(value, str) else jsons.dumps(_without_breakpoints(value)).decode()


def _system_text(value: Any) -> str:
    """Return the text of a system prompt, which may be in blocks."""
    blocks = value.get("parts", value) if isinstance(value, Mapping) else value
    texts = [block.get("text") for block in _list(blocks) if isinstance(block, Mapping)]
    if texts and all(isinstance(text, str) for text in texts):
        return "\n".join(map(str, texts))
    return _plain(value)


def _without_breakpoints(value: Any) -> Any:
    """Return JSON data without cache breakpoints."""
    if isinstance(value, Mapping):
        return {key: _without_breakpoints(entry) for key, entry in value.items() if key not in MARKERS}
    if isinstance(value, list):
        return [_without_breakpoints(entry) for entry in value]
    return value


def _carries_breakpoint(entry: Mapping[str, Any]) -> bool:
    """Return whether a message, an item or a block has a cache breakpoint, on itself or on a block of it."""
    if not MARKERS.isdisjoint(entry):
        return True
    for name in _NESTING:
        inner = entry.get(name)
        if isinstance(inner, list):
            for block in inner:
                if isinstance(block, dict) and _carries_breakpoint(block):
                    return True
    return False


def _tools(tools: object) -> Iterator[Any]:
    """Yield the definitions of tools, which Gemini groups."""
    for tool in _list(tools):
        group = tool.get("functionDeclarations") if isinstance(tool, Mapping) else None
        yield from _list(group) or [tool]


def _tool_name(tool: Any) -> str:
    """Return the name of a tool's definition in any API; its type if it has none."""
    if not isinstance(tool, Mapping):
        return ""
    function = tool.get("function")
    named = function if isinstance(function, Mapping) else tool
    return str(named.get("name") or tool.get("type") or ", ".join(tool))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
