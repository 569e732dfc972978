"""What Claude Code records of its requests, since some version before 2.1.332, and of what all of them cost.

- `api-request-shape`: a system prompt and tools, named by a hash.
- `api-request`: a request: the hash of its shape, its parameters, its breakpoints, and its messages as hashes: the
  first `keep` of those of the request `base`, and the `tail` behind them. Lines of an answer name it in `requestRef`.
- `api-request-blob`: a message that no other line holds as it was sent.
- `prompt_snapshot`, an attachment: the system prompt and the tools, where no shape is recorded.
- `cost-state`: what the session has used up to here, by model. It also has the calls that are in no other line:
  summaries, titles, and what the tools for the web ask a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from wane.core import chars
from wane.formats.fields import compact
from wane.lab.readers.building.values import count, items, mapping, objects, text
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedRequest, RecordedSession

_UNCACHED: Final = frozenset({"betas", "max_tokens", "metadata", "stop_sequences", "temperature", "top_k", "top_p"})
"""Parameters on which no cache depends."""


@dataclass(frozen=True, slots=True)
class _Shape:
    tools: dict[str, str]
    system: tuple[str, ...]
    tokens: int


def _digest(value: object) -> str:
    return blake2b(compact(value).encode(errors="replace"), digest_size=8).hexdigest()


@dataclass(slots=True)
class RequestLog:
    """The requests that a file records, by id."""

    _shapes: dict[str, _Shape] = field(default_factory=dict)
    _requests: dict[str, RecordedRequest] = field(default_factory=dict)

    _snapshot: int | None = None

    @property
    def overhead(self) -> int | None:
        """Tokens of the first system prompt with its tools; None if none is recorded."""
        return next((shape.tokens for shape in self._shapes.values()), self._snapshot)

    def take_snapshot(self, attached: Mapping[str, Any]) -> None:
        """Take a `prompt_snapshot`: the prompt, and in later ones the tools; the largest of a file counts."""
        tools = [mapping(tool.get("schema")) for tool in objects(attached.get("tools"))]
        words = "\n\n".join(map(text, items(attached.get("systemPrompt"))))
        self._snapshot = max(self._snapshot or 0, chars(words) + (chars(compact(tools)) if tools else 0))

    def get(self, name: str) -> RecordedRequest | None:
        """Return a request; None if it is not recorded."""
        return self._requests.get(name)

    def take(self, data: Mapping[str, Any]) -> None:
        """Take a line of a file."""
        kind = data.get("type")
        if kind == "api-request-shape":
            shape = mapping(data.get("shape"))
            system, tools = items(shape.get("system")), objects(shape.get("tools"))
            words = "".join(text(mapping(block).get("text")) for block in system)
            self._shapes[text(data.get("shapeHash"))] = _Shape(
                {text(tool.get("name")): _digest(tool) for tool in tools},
                tuple(map(_digest, system)),
                chars(words) + (chars(compact(tools)) if tools else 0),
            )
        elif kind == "api-request":
            base = self._requests.get(text(data.get("base")))
            kept = base.messages[: count(data.get("keep")) or 0] if base else ()
            tail = tuple(map(text, items(data.get("tail"))))
            known = self._shapes.get(text(data.get("shapeHash")))
            parameters = mapping(data.get("params"))
            self._requests[text(data.get("id"))] = RecordedRequest(
                kept + tail,
                None if known is None else known.tools,
                () if known is None else known.system,
                {name: compact(value) for name, value in parameters.items() if name not in _UNCACHED},
                bool(data.get("cacheControl")),
            )


def unlisted_calls(
    session: RecordedSession, state: Mapping[str, Any], before: Iterable[str], at: float | None
) -> list[ModelCall]:
    """Return what a `cost-state` has beyond a session's calls, a sum for each model.

    If the sums are less than the calls, as after a fork, nothing is known.

    Args:
        session: the session with those of its sub-agents.
        state: the line.
        before: the ids of the session's own calls ahead of it.
        at: when it was written, in seconds since 1970 UTC.
    """
    known = set(before)
    listed = [call for call in (*session.calls, *session.abandoned) if call.id in known]
    waiting = list(session.sidechains)
    while waiting:
        side = waiting.pop()
        waiting += side.sidechains
        listed += [call for call in side.calls if call.at is None or at is None or call.at <= at]
    for call in tuple(listed):
        listed += call.samplings
    sums: list[ModelCall] = []
    for model, used in mapping(state.get("modelUsage")).items():
        total = mapping(used)
        names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
        rest = [count(total.get(name)) or 0 for name in names]
        hour = count(total.get("cacheCreationEphemeral1hInputTokens")) or 0
        for call in listed:
            if call.model == model and call.usage is not None:
                usage = call.usage
                tokens = (usage.input, usage.cache_read, usage.cache_write, usage.output or 0)
                rest = [left - counted for left, counted in zip(rest, tokens, strict=True)]
                hour -= usage.cache_write_hour
        if min(rest) >= 0 and sum(rest[:3]) > 0:
            usage = CallUsage(rest[0], rest[1], rest[2], rest[3], min(max(0, hour), rest[2]))
            sums.append(ModelCall(0, 0, usage, at, model))
    return sums
