"""Sessions of Kimi Code (MoonshotAI/kimi-code): `wire.jsonl`, JSON Lines of `{type, …, time}`, a file for each agent.

The lines named `context.*` are what the model saw: messages, and the events of a step, which is one model call.
`agent.message.appended` has all of it once more, and the usage of a call stands in three lines: of those in
`usage.record` the ones that belong to no step are a summary's. The model is named in `llm.request`; in `usage.record`
stands what the user calls it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from wane.core import Kind, chars
from wane.formats.fields import compact
from wane.formats.message_format import Part
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.json_lines import name_abandoned, records
from wane.lab.readers.building.values import count, drop_latest, mapping, objects, seconds, text
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "kimi-code"
TITLE: Final = "Kimi Code"
PLACES: Final = (Place("KIMI_CODE_HOME", ".kimi-code", ("sessions/*/*/agents/main/wire.jsonl",)),)

_MAIN: Final = "main"
_FAMILIES: Final = frozenset(
    {
        *("agent", "config", "context_size", "cron", "forked", "full_compaction", "goal", "llm", "mcp", "metadata"),
        *("micro_compaction", "permission", "plan_mode", "profile", "skill", "swarm_mode", "task", "tools", "turn"),
        "usage",
    }
)
"""First words of the types of lines that add nothing to the model's context."""
_Line = tuple[int, Mapping[str, Any]]


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are lines of Kimi Code."""
    lines = [mapping(value) for value in head]
    if any(line.get("type") == "metadata" and "protocol_version" in line for line in lines):
        return True
    return any(text(line.get("type")).startswith("context.append_") for line in lines)


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn; the working directory stands in another file."""
    for line in lines:
        if line.get("type") == "turn.prompt" and (words := content(line.get("input")).text.strip()):
            return words, None
    return "", None


def read(path: Path) -> list[RecordedSession]:
    """Return the session of an agent, with those of its sub-agents beside it (see `LineReader`)."""
    folder = path.parent.parent if path.parent.parent.name == "agents" else None
    name = path.stem if folder is None else folder.parent.name
    if folder is not None and path.parent.name != _MAIN:
        name = f"{name}/{path.parent.name}"
    builder = SessionBuilder(name, NAME)
    lines = list(records(path, builder.problems))
    if not recognises([data for _, data in lines]):
        return []
    if folder is not None:
        with suppress(OSError, ValueError):
            builder.cwd = text(mapping(json.loads((folder.parent / "state.json").read_bytes())).get("cwd")) or None
    _Assembly(builder).run(_without_undone(lines, builder))
    session = builder.build()
    if folder is not None and path.parent.name == _MAIN:
        for file in sorted(folder.glob("*/wire.jsonl")):
            if file != path:
                for side in read(file):
                    side.path = str(file)
                    session.sidechains.append(side)
    return [session]


def _without_undone(lines: Sequence[_Line], builder: SessionBuilder) -> list[_Line]:
    """Return the lines without the turns that the user took back."""
    kept: list[_Line] = []
    for line, data in lines:
        if data.get("type") != "context.undo":
            kept.append((line, data))
            continue
        turns = [index for index, (_, earlier) in enumerate(kept) if _is_turn(earlier)]
        number = min(count(data.get("count")) or 1, len(turns))
        undone = kept[turns[-number] :] if number else []
        del kept[len(kept) - len(undone) :]
        ends = [mapping(earlier.get("event")) for _, earlier in undone]
        calls = [ModelCall(0, 0, _usage(event.get("usage"))) for event in ends if event.get("type") == "step.end"]
        if undone:
            seen = [number for number, earlier in undone if text(earlier.get("type")).startswith("context.")]
            name_abandoned(seen, builder.problems, calls)
    return kept


def _is_turn(data: Mapping[str, Any]) -> bool:
    message = mapping(data.get("message"))
    origin = text(mapping(message.get("origin")).get("kind")) or "user"
    return data.get("type") == "context.append_message" and message.get("role") == "user" and origin == "user"


def _usage(value: object) -> CallUsage | None:
    """Return a usage; `inputOther` is what the cache had nothing to do with."""
    used = mapping(value)
    names = ("inputOther", "inputCacheRead", "inputCacheCreation")
    fresh, read_tokens, written = (count(used.get(name)) or 0 for name in names)
    usage = CallUsage(fresh, read_tokens, written, count(used.get("output")))
    return usage if usage.total_input else None


class _Assembly:
    def __init__(self, builder: SessionBuilder) -> None:
        self._builder = builder
        self._answer: Answer | None = None  # that of the step at work
        self._line = 0  # where it began
        self._results: list[tuple[str, object, object]] = []  # by call, the output, and whether it is an error
        self._made = ModelCall(0, 0)  # the request of the step
        self._unclaimed: list[ModelCall] = []  # usages of no step so far

    def run(self, lines: Iterable[_Line]) -> None:
        for line, data in lines:
            kind = text(data.get("type"))
            if kind == "context.append_loop_event":
                self._step(line, mapping(data.get("event")), data)
            elif kind == "context.append_message":
                self._end_step(None, data)
                self._message(line, mapping(data.get("message")))
            elif kind in ("context.apply_compaction", "context.clear"):
                self._end_step(None, data)
                self._compact(data)
            elif kind == "usage.record":
                at, model = seconds(data.get("time")), self._made.model
                self._unclaimed.append(ModelCall(0, 0, _usage(data.get("usage")), at, model, id=f"{at}" if at else ""))
            elif kind == "llm.request":
                model, provider = text(data.get("model")) or None, text(data.get("provider"))
                self._made = ModelCall(0, 0, None, None, model, provider)
                self._builder.effort = text(data.get("thinkingEffort")) or self._builder.effort
            elif kind == "llm.tools_snapshot":
                self._builder.system_tokens = chars(compact(data.get("tools")))
            elif kind == "profile.bind" and (prompt := text(data.get("systemPrompt"))):
                self._builder.add(Part(Kind.SYSTEM, prompt))
            elif kind.partition(".")[0] not in _FAMILIES:
                self._builder.problems.add(line, f"a line of the unknown type {kind!r}")
        self._end_step(None, {})
        self._name_asides()

    def _step(self, line: int, event: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind == "step.begin":
            self._end_step(None, data)
            self._answer, self._line = Answer(), line
        elif kind == "tool.result":
            result = mapping(event.get("result"))
            self._results.append((text(event.get("toolCallId")), result.get("output"), result.get("isError")))
        elif kind == "step.end":
            self._end_step(event, data)
        elif kind in ("content.part", "tool.call"):
            answer = self._answer = self._answer or Answer()
            part = mapping(event.get("part"))
            if kind == "tool.call":
                answer.call(event.get("toolCallId"), event.get("name"), event.get("args"))
            elif part.get("type") == "think":
                answer.reasoning(text(part.get("think")), part.get("encrypted"), signed=bool(part.get("encrypted")))
            else:
                answer.text(content([part]))
        else:
            self._builder.problems.add(line, f"an event of the unknown type {kind!r}")

    def _end_step(self, end: Mapping[str, Any] | None, data: Mapping[str, Any]) -> None:
        """End the model call; `end` is the event that says so, None if the step broke off."""
        answer, self._answer = self._answer, None
        if answer is not None:
            usage = _usage(mapping(end).get("usage"))
            drop_latest(self._unclaimed, usage)
            if answer.parts or usage is not None:  # else the request failed
                self._builder.settle(line=self._line)
                self._builder.answer(
                    answer.couple_parts(),
                    usage=usage,
                    at=seconds(data.get("time")),
                    model=self._made.model,
                    provider=self._made.provider,
                    line=self._line,
                    id=text(mapping(end).get("uuid")),
                )
        for call_id, output, failed in self._results:
            self._builder.result(call_id, content(output), failed=failed)
        self._results.clear()

    def _message(self, line: int, message: Mapping[str, Any]) -> None:
        role, turn = message.get("role"), content(message.get("content"))
        origin = text(mapping(message.get("origin")).get("kind")) or "user"
        if role == "user":
            self._builder.settle()
            self._builder.user(turn, notice=origin != "user")
        elif role == "system":
            self._builder.add(turn.part(Kind.SYSTEM))
        elif role == "tool":
            self._builder.result(text(message.get("toolCallId")), turn, line=line)
        elif role == "assistant":
            answer = Answer()
            for part in objects(message.get("content")):
                if part.get("type") == "think":
                    answer.reasoning(text(part.get("think")))
                else:
                    answer.text(content([part]))
            for call in objects(message.get("toolCalls")):
                answer.call(call.get("id"), call.get("name"), call.get("arguments"))
            self._builder.settle(line=line)
            self._builder.answer(answer.couple_parts(), line=line)
        else:
            self._builder.problems.add(line, f"a message of the unknown role {role!r}")

    def _compact(self, data: Mapping[str, Any]) -> None:
        self._builder.settle()
        # What the model saw: the summary with words of Kimi Code's around it.
        around, summary = text(data.get("contextSummary")), data.get("summary")
        written = content(summary.get("content") if isinstance(summary, dict) else summary)
        # The user's messages stay beside the summary, but none of what was between them.
        self._builder.compaction(
            around if written.text in around else Content.join_contents([Content(around), written]).text,
            tokens_before=count(data.get("tokensBefore")),
            tokens_after=count(data.get("tokensAfter")),
            at=seconds(data.get("time")),
        )
        self._name_asides()

    def _name_asides(self) -> None:
        for made in self._unclaimed:
            if made.usage is not None:
                self._builder.aside(made)
        self._unclaimed.clear()
