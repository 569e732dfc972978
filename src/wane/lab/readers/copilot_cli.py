"""Sessions of GitHub Copilot CLI: `events.jsonl`, JSON Lines of `{type, data, id, timestamp, parentId, agentId?}`.

The types of the events are those of Copilot's own SDK (`@github/copilot-sdk`, `session-events`). Version 1.0.102
records the usage of each call ahead of its answer (`session.usage_record`), with all input in `inputTokens`; its `cost`
counts premium requests, not dollars. Older versions record the output alone, and sums at the end (`session.shutdown`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wane.core import Kind
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.json_lines import name_abandoned, records
from wane.lab.readers.building.values import count, items, mapping, objects, seconds, text, usage_of
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "copilot-cli"
TITLE: Final = "GitHub Copilot CLI"
PLACES: Final = (Place("COPILOT_HOME", ".copilot", ("session-state/*/events.jsonl", "session-state/*.jsonl")),)

_FAMILIES: Final = (
    *("abort", "assistant", "auto_mode_switch", "capabilities", "command", "commands", "elicitation", "exit_plan_mode"),
    *("extension_context", "external_tool", "factory", "hook", "mcp", "mcp_app", "model", "pending_messages"),
    *("permission", "sampling", "session", "session_limits_exhausted", "skill", "subagent", "system", "tool"),
    *("tool_search", "ui", "user", "user_input"),
)
"""First words of the types of events."""

_TELLING: Final = ("session.", "user.", "assistant.", "hook.", "tool.", "system.")

_Event = tuple[int, Mapping[str, Any]]


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are events of Copilot CLI."""
    return any(
        isinstance(line.get("data"), dict) and "parentId" in line and str(line.get("type")).startswith(_TELLING)
        for line in map(mapping, head)
    )


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a file (see `LineReader`); none if the file holds nothing of Copilot."""
    name = path.parent.name if path.stem == "events" else path.stem
    builder = SessionBuilder(name, NAME)
    events = _events(records(path, builder.problems), builder)
    if not events:
        return []
    usages = _usages(event for _, event in events)
    session = _Assembly(builder, usages)
    agents: dict[str, _Assembly] = {}
    for line, event in events:
        agent = text(event.get("agentId")) or text(mapping(event.get("data")).get("parentToolCallId"))
        assembly = session if not agent else agents.setdefault(agent, _Assembly(SessionBuilder(agent, NAME), usages))
        assembly.take(line, event)
    for assembly in agents.values():
        side = assembly.end()
        if side.parts:
            builder.sidechain(side)
        else:  # all of it is of unknown kinds
            for problem in side.problems:
                builder.problems.add(problem.line, problem.what)
    recorded = session.end()
    for call in usages.values():  # of no answer: such a call wrote a summary or a title
        builder.aside(call)
    if not any(call.usage and call.usage.total_input for call in recorded.calls):
        recorded.totals = _totals(event for _, event in events)
    return [recorded]


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn and the working directory."""
    cwd: str | None = None
    for line in lines:
        data = mapping(line.get("data"))
        if line.get("type") == "session.start":
            cwd = text(mapping(data.get("context")).get("cwd")) or None
        elif line.get("type") == "user.message" and not _is_harness_made(data):
            return text(data.get("content")), cwd
    return "", cwd


def _events(lines: Iterable[_Event], builder: SessionBuilder) -> list[_Event]:
    """Return the events without those that the user rewound."""
    events: list[_Event] = []
    for line, event in lines:
        if event.get("type") == "session.snapshot_rewind":
            back = mapping(event.get("data")).get("upToEventId")
            ids = [earlier.get("id") for _, earlier in events]
            undone = events[ids.index(back) :] if back in ids else []
            lines_undone = [number for number, message in undone if text(message.get("type")).endswith(".message")]
            usages = _usages(message for _, message in undone)
            calls = [_call(message, usages) for _, message in undone if _begins_answer(message)]
            name_abandoned(lines_undone, builder.problems, calls)
            del events[len(events) - len(undone) :]
        elif text(event.get("type")).partition(".")[0] in _FAMILIES:
            events.append((line, event))
        else:
            builder.problems.add(line, f"an event of the unknown type {event.get('type')!r}")
    return events


def _begins_answer(event: Mapping[str, Any]) -> bool:
    """Whether an event is the first message of a model call."""
    return event.get("type") == "assistant.message" and not count(mapping(event.get("data")).get("chunkIndex"))


def _usages(events: Iterable[Mapping[str, Any]]) -> dict[str, ModelCall]:
    """Return the calls whose usage was recorded, by the provider's id."""
    calls: dict[str, ModelCall] = {}
    for event in events:
        if event.get("type") == "session.usage_record":
            used = mapping(mapping(event.get("data")).get("usage"))
            name = text(used.get("apiCallId")) or text(event.get("id"))
            at = seconds(event.get("timestamp"))
            calls[name] = ModelCall(0, 0, _usage(used), at, text(used.get("model")) or None)
    return calls


def _usage(used: Mapping[str, Any]) -> CallUsage | None:
    return usage_of(
        used.get("inputTokens"),
        read=used.get("cacheReadTokens"),
        written=used.get("cacheWriteTokens"),
        output=used.get("outputTokens"),
    )


def _call(event: Mapping[str, Any], usages: dict[str, ModelCall]) -> ModelCall:
    """Return the model call of an answer, and take its usage out of `usages`; of older versions it is the output."""
    data = mapping(event.get("data"))
    at, model = seconds(event.get("timestamp")), text(data.get("model")) or None
    recorded = usages.pop(text(data.get("apiCallId")), None)
    if recorded is not None:
        return replace(recorded, at=at, model=model or recorded.model)
    output = count(data.get("outputTokens"))
    return ModelCall(0, 0, None if output is None else CallUsage(0, output=output), at, model)


def _totals(events: Iterable[Mapping[str, Any]]) -> list[tuple[ModelCall, int]]:
    """Return the sums at the end of a session, by model: each time that it was resumed has sums of its own."""
    totals: list[tuple[ModelCall, int]] = []
    for event in events:
        if event.get("type") == "session.shutdown":
            for model, metrics in mapping(mapping(event.get("data")).get("modelMetrics")).items():
                usage = _usage(mapping(mapping(metrics).get("usage")))
                number = count(mapping(mapping(metrics).get("requests")).get("count")) or 0
                if usage is not None:
                    totals.append((ModelCall(0, 0, usage, seconds(event.get("timestamp")), model), number))
    return totals


def _is_harness_made(data: Mapping[str, Any]) -> bool:
    """Whether a message in the user's role is from a skill, another agent or Copilot itself."""
    return bool(data.get("isAutopilotContinuation")) or text(data.get("source")) not in ("", "user")


class _Assembly:
    def __init__(self, builder: SessionBuilder, usages: dict[str, ModelCall]) -> None:
        self._builder = builder
        self._usages = usages  # those without an answer so far
        self._has_prompt = False
        self._answer: list[_Event] = []  # the messages of one model call

    def take(self, line: int, event: Mapping[str, Any]) -> None:
        kind, data = text(event.get("type")), mapping(event.get("data"))
        if kind == "assistant.message":
            if _begins_answer(event):
                self._flush()
            self._answer.append((line, event))
        elif kind == "tool.execution_complete":
            self._flush()
            if not data.get("isUserRequested"):  # a model called it
                result, error = mapping(data.get("result")), mapping(data.get("error"))
                output = content(result.get("content")) or content(error.get("message"))
                media = content(items(result.get("binaryResultsForLlm"))).extra_tokens
                output = Content(output.text, output.extra_tokens + media)
                failed = error or data.get("success") is False
                self._builder.result(text(data.get("toolCallId")), output, failed=failed, line=line)
        elif kind in ("user.message", "system.message", "system.notification"):
            self._flush()
            self._add_turn(kind, data)
        elif kind == "session.compaction_complete" and data.get("success"):
            self._flush()
            self._builder.settle()
            before, at = count(data.get("preCompactionTokens")), seconds(event.get("timestamp"))
            self._builder.compaction(text(data.get("summaryContent")), tokens_before=before, at=at)
        elif kind == "session.context_cleared":
            self._flush()
            self._builder.settle()
            self._builder.compaction(text(data.get("initialMessage")), at=seconds(event.get("timestamp")))
        elif kind == "session.truncation" and (removed := count(data.get("messagesRemovedDuringTruncation"))):
            self._builder.problems.add(line, f"{removed} messages left the context here; which ones is not recorded")
        elif kind == "session.shutdown":
            tools, prompt = count(data.get("toolDefinitionsTokens")) or 0, count(data.get("systemTokens")) or 0
            self._builder.system_tokens = tools + (0 if self._has_prompt else prompt) or self._builder.system_tokens
        elif kind == "session.usage_record":
            tools = count(mapping(data.get("usage")).get("toolTokenCount")) or 0
            self._builder.system_tokens = max(tools, self._builder.system_tokens or 0) or None
            self._builder.effort = text(mapping(data.get("usage")).get("reasoningEffort")) or self._builder.effort
        elif kind in ("session.start", "session.resume"):
            self._builder.version = text(data.get("copilotVersion")) or self._builder.version
            self._builder.cwd = text(mapping(data.get("context")).get("cwd")) or self._builder.cwd

    def end(self) -> RecordedSession:
        self._flush()
        return self._builder.build()

    def _add_turn(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "system.message":
            self._builder.add(content(data.get("content")).part(Kind.SYSTEM))
            self._has_prompt = True
            return
        notice = kind == "system.notification" or _is_harness_made(data)
        words = content(data.get("content"))
        if not notice:
            self._builder.entitle(words.text)
        self._builder.settle()
        # The text for the model has the time and reminders around the user's words.
        self._builder.user(content(data.get("transformedContent")) or words, notice=notice)

    def _flush(self) -> None:
        if not self._answer:
            return
        self._builder.settle()
        line, first = self._answer[0]
        answer = Answer()
        for _, event in self._answer:
            data = mapping(event.get("data"))
            seal = data.get("reasoningOpaque")
            answer.reasoning(text(data.get("reasoningText")), seal or data.get("encryptedContent"), signed=bool(seal))
            answer.text(content(data.get("content")))
            for call in objects(data.get("toolRequests")):
                answer.call(call.get("toolCallId"), call.get("name"), call.get("arguments"))
        made = _call(first, self._usages)
        self._builder.answer(answer.couple_parts(), usage=made.usage, at=made.at, model=made.model, line=line)
        self._answer.clear()
