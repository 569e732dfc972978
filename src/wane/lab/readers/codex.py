"""Sessions of Codex (openai/codex): rollout files, JSON Lines of `{timestamp, type, payload}`.

Codex records items of OpenAI's Responses in the order of its history, and each model call's usage as an event after the
call. The items up to that event, or up to the results of its tool calls, are the output of one model call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from wane.core import Kind
from wane.core.errors import FormatError
from wane.core.light import light_dataclass
from wane.formats.fields import compact, raw_text, sealed_tokens
from wane.formats.message_format import Part
from wane.formats.openai_responses import SEAL, is_harness_made, part_of
from wane.lab.readers.building.builder import SessionBuilder
from wane.lab.readers.building.content import Content, content, couple_items, image_tokens
from wane.lab.readers.building.json_lines import DAMAGED, Problems, name_abandoned, plain_path, records
from wane.lab.readers.building.values import count, mapping, objects, seconds, text, usage_of
from wane.lab.readers.kin import ids_of
from wane.lab.readers.places import Place
from wane.lab.recorded_session import CallUsage, ModelCall, RecordedSession

NAME: Final = "codex"
TITLE: Final = "Codex"
PLACES: Final = (
    Place(
        "CODEX_HOME",
        ".codex",
        (
            "sessions/**/rollout-*.jsonl",
            "sessions/**/rollout-*.jsonl.zst",
            "archived_sessions/**/rollout-*.jsonl",
            "archived_sessions/**/rollout-*.jsonl.zst",
        ),
    ),
)

_LINES: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# Codex's own state, which no request carries.
_ASIDE: Final = frozenset(
    {
        "ghost_snapshot",
        "inter_agent_communication_metadata",
        "session_state",
        "token_usage_record",
        "turn_context",
        "world_state",
    }
)
_ABORTED: Final = "aborted"
"""The result that Codex sends for a call without one (`context_manager/normalize.rs`)."""
_CHARACTERS_PER_TOKEN: Final = 4
_ITEMS: Final = frozenset(
    {
        "additional_tools",
        "agent_message",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "context_compaction",
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
        "ghost_snapshot",
        "image_generation_call",
        "local_shell_call",
        "message",
        "other",
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""Known item types. The items of a compaction repeat its line; snapshots are Codex's own."""


@light_dataclass(frozen=True, slots=True)
class _Output:
    """Output of the model; with the result, if the provider ran the call itself."""

    parts: tuple[Part, ...]


@light_dataclass(frozen=True, slots=True)
class _Cost:
    """The usage of a model call, from the event after it, and an id of the call that copies of the event share."""

    usage: CallUsage
    reasoning: int
    id: str


@dataclass(frozen=True, slots=True)
class _Compacted:
    """A compaction with its summary, which is empty if OpenAI's servers wrote it encrypted.

    The model also saw the user turns again, which are in the history already: those that are recorded in `messages`, or
    all of them where an older version recorded none.
    """

    summary: str
    messages: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of a session's own work, after a copy of the history of another session."""


@dataclass(frozen=True, slots=True)
class _Effort:
    """How much the model is to think from here on."""

    name: str


@light_dataclass(frozen=True, slots=True)
class _RolloutLine:
    """A step of a session, with its line, the current model and provider; a `Part` did not come from the model.

    `time` is when it was recorded, as in the file.
    """

    line: int | None
    time: object
    what: Part | _Output | _Cost | _Compacted | _Begun | _Effort
    model: str | None = None
    provider: str = ""

    @property
    def at(self) -> float | None:
        """When it was recorded, in seconds since 1970 UTC; None if that is unknown."""
        return seconds(self.time)

    @property
    def is_turn(self) -> bool:
        """Whether it is a message to the agent, from a person or from an agent that set its task."""
        return isinstance(self.what, Part) and self.what.kind is Kind.USER


def recognises(head: Sequence[object]) -> bool:
    """Return whether the first JSON values of a file are lines of a rollout, in today's form or the first one."""
    lines = [mapping(value) for value in head]
    if any(line.get("type") in _LINES and isinstance(line.get("payload"), dict) for line in lines):
        return True
    return bool(lines) and "type" not in lines[0] and {"id", "timestamp", "instructions"} <= lines[0].keys()


def read(path: Path) -> list[RecordedSession]:
    """Return the session of a rollout file (see `LineReader`); none if the file holds nothing of Codex."""
    builder = SessionBuilder(plain_path(path).stem, NAME)
    collected = _Collected(builder)
    for line, data in records(path, builder.problems):
        collected.take(line, data)
    if not collected.recognised:
        return []
    _Assembly(builder, collected.instructions + _steps_before(path, collected) + collected.steps).run()
    session = builder.build()
    session.id, session.parent = collected.id, collected.parent
    return [session]


def about(lines: Iterable[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Return the user's first turn and the working directory."""
    cwd: str | None = None
    for data in lines:
        payload = mapping(data.get("payload")) or data
        if data.get("type") in ("session_meta", "turn_context"):
            cwd = cwd or text(payload.get("cwd")) or None
        elif payload.get("type") == "user_message":
            return text(payload.get("message")), cwd
        elif payload.get("type") == "message":
            part = _part_of_item(payload)
            if isinstance(part, Part) and part.kind is Kind.USER:
                return part.text, cwd
    return "", cwd


def _steps_before(path: Path, collected: _Collected) -> list[_RolloutLine]:
    """Return the steps ahead of a fork or a revert, which its file does not hold but refers to."""
    steps = list[_RolloutLine]()
    base = collected.base
    path = path.resolve()
    files = {path}
    while base:
        rollout = text(base.get("thread_id"))
        try:
            file = _file_of(rollout, path)
            if file in files:
                raise FormatError("the rollouts refer to each other")
            base, earlier, unread = _base_steps(file, base.get("end_ordinal_exclusive"))
        except (FormatError, *DAMAGED) as error:
            what = f"the beginning of this session, in the rollout {rollout!r}, is missing: {error}"
            collected.problems.add(1, what, unread=True)
            break
        if unread:
            what = f"{unread} lines of the rollout {rollout!r}, with the beginning of this session, cannot be read"
            collected.problems.add(1, what, unread=True)
        files.add(file)
        steps = earlier + steps
    return [*steps, _RolloutLine(None, None, _Begun())] if steps else []


def _base_steps(file: Path, stop: object) -> tuple[Mapping[str, Any], list[_RolloutLine], int]:
    """Return the base of a rollout, its own steps before a line, and the number of unreadable lines."""
    end = count(stop)
    if end is None:
        raise FormatError(f"it ends before line {stop!r}, which is not a line number")
    problems = Problems()
    earlier = _Collected(SessionBuilder(plain_path(file).stem, NAME))
    for line, data in records(file, problems):
        ordinal = count(data.get("ordinal"))
        if (line - 1 if ordinal is None else ordinal) < end:
            earlier.take(line, data)
    return earlier.base, [replace(step, line=None) for step in earlier.steps], problems.unread


def _file_of(rollout: str, beside: Path) -> Path:
    """Return the file of a rollout: in the folder of another one, or in any of Codex's folders by date.

    Raises:
        FormatError: if there is none.
    """
    folders = [beside.parent]
    if len(beside.parents) > 4 and all(folder.name.isdecimal() for folder in beside.parents[:3]):
        folders += [beside.parents[4] / "sessions", beside.parents[4] / "archived_sessions", beside.parents[3]]
    for folder in folders:
        for file in sorted(folder.rglob(f"rollout-*{escape(rollout)}.jsonl*")):
            if rollout and plain_path(file).suffix == ".jsonl" and file.is_file():
                return file
    raise FormatError("the rollout was not found")


class _Collected:
    """Collects the steps of a session, without those that were rolled back."""

    def __init__(self, builder: SessionBuilder) -> None:
        self.instructions: list[_RolloutLine] = []
        self.steps: list[_RolloutLine] = []
        self.base: Mapping[str, Any] = {}  # the rollout that holds the history before it, and where that ends
        self.recognised = False
        self.problems = builder.problems
        self._builder = builder
        self._model: str | None = None
        self._provider = ""
        self._turn = ""
        self._made = 0  # model calls of the turn
        self._totals: object = None
        self._has_meta = False
        self._begins_at: int | None = None  # ordinal of the first line after a copy of the parent's history
        self.id = ""
        self.parent = ""

    def take(self, line: int, data: Mapping[str, Any]) -> None:
        kind, at = text(data.get("type")), data.get("timestamp")
        payload = mapping(data.get("payload"))
        if self._begins_at is not None and (count(data.get("ordinal")) or 0) >= self._begins_at:
            self._begins_at = None
            self._add(line, at, _Begun())
        if kind == "response_item":
            # The summary of a compaction by the client itself; the line of the compaction has it again.
            if mapping(data.get("metadata")).get("compaction_output") is not True:
                self._item(line, at, payload)
        elif kind == "event_msg":
            self._event(line, at, payload)
        elif kind == "session_meta":
            self._meta(line, payload)
        elif kind == "compacted":
            self._add(line, at, _Compacted(text(payload.get("message")), _messages_of(payload)))
        elif kind == "turn_context":
            self._model = text(payload.get("model")) or self._model
            turn = text(payload.get("turn_id"))
            if turn != self._turn:
                self._turn, self._made = turn, 0
            self._builder.cwd = self._builder.cwd or text(payload.get("cwd")) or None
            self._add(line, at, _Effort(text(payload.get("effort"))))
        elif not payload and kind in _ITEMS:
            self._item(line, at, data)  # the first version of the format had bare items
        elif not kind and ("instructions" in data or "record_type" in data):
            self._meta(line, data)
        elif kind not in _ASIDE:
            self.problems.add(line, f"a line of the unknown type {kind!r}")

    def _add(self, line: int, at: object, what: Any) -> None:
        self.steps.append(_RolloutLine(line, at, what, self._model, self._provider))
        self.recognised = True

    def _meta(self, line: int, payload: Mapping[str, Any]) -> None:
        self.recognised = True
        if self._has_meta:
            return  # a fork repeats the header of its origin
        self._has_meta = True
        self.id, self.parent = ids_of({"type": "session_meta", "payload": payload})
        self._begins_at = count(payload.get("subagent_history_start_ordinal"))
        self.base = mapping(payload.get("history_base"))
        self._provider = text(payload.get("model_provider"))
        self._builder.cwd = text(payload.get("cwd")) or None
        instructions = payload.get("base_instructions")
        written = text(instructions) or text(mapping(instructions).get("text"))
        if written:
            self.instructions.append(_RolloutLine(line, None, Part(Kind.SYSTEM, written)))

    def _item(self, line: int, at: object, payload: Mapping[str, Any]) -> None:
        kind = text(payload.get("type"))
        part = _part_of_item(payload)
        if isinstance(part, Part) and part.kind is Kind.SYSTEM and self._is_repeated(part):
            return
        if part is not None:
            self._add(line, at, part)
        elif kind not in _ITEMS:
            self.problems.add(line, f"an item of the unknown type {kind!r}")

    def _is_repeated(self, part: Part) -> bool:
        """Whether a message repeats the instructions in the header, as version 0.171 records them."""
        return not self.steps and any(step.what == part for step in self.instructions)

    def _event(self, line: int, at: object, payload: Mapping[str, Any]) -> None:
        """Take usage and rollbacks from events; all else in them repeats the items."""
        kind = text(payload.get("type"))
        self.recognised = True
        if kind == "token_count":
            self._cost(line, at, mapping(payload.get("info")))
        elif kind == "thread_rolled_back":
            self._roll_back(count(payload.get("num_turns")) or 0)
        elif kind == "user_message":
            self._builder.entitle(text(payload.get("message")))

    def _cost(self, line: int, at: object, info: Mapping[str, Any]) -> None:
        self._builder.window = count(info.get("model_context_window")) or self._builder.window
        last, totals = mapping(info.get("last_token_usage")), info.get("total_token_usage")
        usage = usage_of(
            last.get("input_tokens"),
            read=last.get("cached_input_tokens"),
            written=last.get("cache_write_input_tokens"),
            output=last.get("output_tokens"),
        )
        # Codex repeats the event when limits change. After a compaction it only estimates the new context.
        if usage is not None and (totals is None or totals != self._totals):
            self._totals = totals
            self._made += 1
            call = f"{self._turn}/{self._made}" if self._turn else ""
            self._add(line, at, _Cost(usage, count(last.get("reasoning_output_tokens")) or 0, call))

    def _roll_back(self, turns: int) -> None:
        starts = [index for index, step in enumerate(self.steps) if step.is_turn]
        if turns and starts:
            start = starts[-min(turns, len(starts))]
            undone = self.steps[start:]
            calls = [
                ModelCall(0, 0, step.what.usage, step.at, step.model, self._provider)
                for step in undone
                if isinstance(step.what, _Cost)
            ]
            name_abandoned((step.line for step in undone if step.line is not None), self.problems, calls)
            del self.steps[start:]


class _Assembly:
    """Assembles the steps into a session: the output up to a usage is one model call."""

    def __init__(self, builder: SessionBuilder, steps: Sequence[_RolloutLine]) -> None:
        self._builder = builder
        self._steps = steps
        self._output: list[_RolloutLine] = []
        self._after: list[_RolloutLine] = []  # items between the output and its cost
        parts = [step.what for step in steps if isinstance(step.what, Part)]
        self._coming = {part.call_id or "" for part in parts if part.kind is Kind.RESULT}

    def run(self) -> None:
        for step in self._steps:
            if isinstance(step.what, _Cost):
                self._flush(step.what, step)
            elif isinstance(step.what, _Output):
                if self._after:
                    self._flush(None)
                self._output.append(step)
            elif isinstance(step.what, _Begun):
                self._flush(None)
                self._builder.note_branch()
            elif isinstance(step.what, _Compacted):
                self._flush(None)
                self._builder.settle(_ABORTED, coming=self._coming)
                quoted = self._builder.user_texts if step.what.messages is None else step.what.messages
                self._builder.compaction(
                    step.what.summary, tokens_before=self._builder.context, at=step.at, quoted=quoted
                )
            elif self._output:
                self._after.append(step)
            else:
                self._take(step)
        self._flush(None)

    def _flush(self, cost: _Cost | None, event: _RolloutLine | None = None) -> None:
        """End the model call. A cost without output is that of a summary, which is no part of the history."""
        if cost is not None:
            self._builder.context = cost.usage.total_input + (cost.usage.output or 0)
        if self._output:
            self._builder.settle(_ABORTED, coming=self._coming)
            last = self._output[-1]
            parts = couple_items(_with_reasoning(self._output, cost))
            self._builder.answer(
                parts,
                usage=cost.usage if cost else None,
                at=last.at,
                model=last.model,
                line=self._output[0].line,
                provider=last.provider,
                id=cost.id or _digest(parts, cost.usage) if cost else "",
            )
        elif cost is not None and event is not None:
            self._builder.aside(ModelCall(0, 0, cost.usage, event.at, event.model, event.provider))
        for step in self._after:
            self._take(step)
        self._output.clear()
        self._after.clear()

    def _take(self, step: _RolloutLine) -> None:
        if isinstance(step.what, _Effort):
            self._builder.effort = step.what.name
        if not isinstance(step.what, Part):
            return
        if step.what.kind in (Kind.USER, Kind.NOTICE):
            self._builder.settle(_ABORTED, coming=self._coming)
        if step.is_turn:
            self._builder.clear_reasoning()
        self._builder.add(step.what, line=step.line)


def _digest(parts: Sequence[Part], usage: CallUsage) -> str:
    """Return an id of a call whose turn has none: a fork copies its content and usage, but dates them anew."""
    content = repr([(part.call_id, part.text, part.arguments) for part in parts])
    return sha256(f"{content} {usage}".encode(errors="replace")).hexdigest()


def _with_reasoning(output: Sequence[_RolloutLine], cost: _Cost | None) -> list[Part]:
    """Return the parts of a call's output. Reasoning is encrypted, so the call's usage gives its size."""
    parts: list[Part] = []
    for step in output:
        if isinstance(step.what, _Output):
            parts += step.what.parts
    positions = [position for position, part in enumerate(parts) if part.kind is Kind.REASONING]
    if cost is not None and positions:
        share, remainder = divmod(cost.reasoning, len(positions))
        for number, position in enumerate(positions):
            tokens = share + 1 if number < remainder else share
            visible = -(-len(parts[position].text) // _CHARACTERS_PER_TOKEN)
            parts[position] = replace(parts[position], extra_tokens=max(0, tokens - visible))
    return [part for part in parts if part.kind is not Kind.REASONING or part.text or part.extra_tokens]


def _part_of_item(item: Mapping[str, Any]) -> Part | _Output | None:
    """Return an item of OpenAI's Responses as a part or output; None if it is not in the history."""
    match item.get("type"):
        case "message":
            return _message(item)
        case "agent_message":
            return part_of({**item, "content": content(item.get("content")).text})
        case "additional_tools":
            return Part(Kind.SYSTEM, compact(item.get("tools")))
        case "reasoning":
            words = Content.join_contents([content(item.get("summary")), content(item.get("content"))]).text
            extra = sealed_tokens(item.get("encrypted_content"), SEAL)
            return _Output((Part(Kind.REASONING, words, extra_tokens=extra),))
        case "function_call" | "custom_tool_call":
            space, name = text(item.get("namespace")), text(item.get("name"))
            return _call(item, f"{space}.{name}" if space else name, item.get("arguments", item.get("input")))
        case "tool_search_call":
            return _call(item, "tool_search", item.get("arguments"))
        case "local_shell_call":
            return _call(item, "local_shell", item.get("action"))
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            if isinstance(output, dict):  # as in older versions, with whether the tool succeeded
                output = output.get("content_items") or output.get("content", output)
            return content(output).part(Kind.RESULT, call_id=text(item.get("call_id")))
        case "tool_search_output":
            result = Part(Kind.RESULT, compact(item.get("tools")), call_id=text(item.get("call_id")))
            return _Output((result,)) if item.get("execution") == "server" else result
        case "web_search_call":
            return _run_by_provider(item, "web_search", raw_text(item.get("action")), 0)
        case "image_generation_call":
            tokens = image_tokens(item.get("result")) if item.get("result") else 0
            return _run_by_provider(item, "image_generation", text(item.get("revised_prompt")), tokens)
    return None


def _message(item: Mapping[str, Any]) -> Part | _Output:
    body, role = content(item.get("content")), item.get("role")
    if role == "assistant":
        return _Output((body.part(Kind.TEXT),) if body else ())
    if is_harness_made(item):
        return body.part(Kind.NOTICE, system=role != "user")
    return body.part(Kind.USER if role == "user" else Kind.SYSTEM)


def _messages_of(compacted: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the user's messages in the history that replaces the one before; None if it was not recorded."""
    if not isinstance(compacted.get("replacement_history"), list):
        return None
    items = objects(compacted["replacement_history"])
    return tuple(content(item.get("content")).text for item in items if item.get("role") == "user")


def _call(item: Mapping[str, Any], tool: str, arguments: object) -> _Output:
    call_id = text(item.get("call_id")) or text(item.get("id"))
    return _Output((Part(Kind.CALL, call_id=call_id, tool=tool, arguments=raw_text(arguments)),))


def _run_by_provider(item: Mapping[str, Any], tool: str, written: str, extra: int) -> _Output:
    """Return a call that the provider ran itself; its output is not recorded."""
    call_id = text(item.get("id")) or tool
    call = Part(Kind.CALL, call_id=call_id, tool=tool, arguments=written)
    return _Output((call, Part(Kind.RESULT, call_id=call_id, extra_tokens=extra)))
