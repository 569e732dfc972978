"""Lines of Claude Code transcripts, reduced to the content of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from wane.core import Kind
from wane.formats.answers import request_iteration
from wane.formats.fields import objects_in
from wane.formats.message_format import Part
from wane.formats.notices import CLAUDE_CODE_PERSON, is_notice
from wane.lab.readers.building.content import Answer, Content, content
from wane.lab.readers.building.values import count, items, mapping, seconds, text, usage_of
from wane.lab.recorded_session import CallUsage
from wane.prices import SEARCH_FEE, tier_in
from wane.rewrites import explain_reported

SYNTHETIC: Final = "<synthetic>"
"""The model of answers that Claude Code writes itself, such as "No response requested."; no request carries them."""

SIDECHAIN: Final = "sidechain"
"""The sub-agent of lines that do not name theirs, as in older versions."""

# Beginnings of a person's commands, which make no title.
_COMMANDS: Final = ("<command-name>", "<command-message>", "<bash-input>", "<user-memory-input>")
_PROMPT: Final = "<command-message>"
"""The beginning of a command whose prompt is the next entry."""

# Attachments that the model does not see, or whose content is not recorded.
_NOT_SENT: Final = frozenset(
    {
        "already_read_file",
        "command_permissions",
        "dynamic_skill",
        "goal_status",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_system_message",
        "prompt_snapshot",
        "structured_output",
    }
)
_TOLD_AFTER: Final = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events whose hook output goes to the model."""

_UNCHANGED: Final = "File unchanged since last read."
"""What stands for a file that is read again, in newer versions: the earlier result still holds it."""

# Fields that hold an attachment's text.
_WORDS: Final = frozenset(
    {"content", "text", "snippet", "prompt", "planContent", "stdout", "message", "addedLines", "addedBlocks", "files"}
    | {"memories", "skills", "file", "blockingError"}
)


class What(Enum):
    """The kind of a line."""

    USER = "user"
    ANSWER = "answer"
    BOUNDARY = "boundary"
    SUMMARY = "summary"
    QUEUED = "queued"
    CLEARING = "clearing"
    """Claude Code cleared old results from the view."""
    LINK = "link"
    """A line that no request holds; others may follow it in the tree."""


# Python 3.11 takes five times as long to look up a member of an enumeration as a name.
ANSWER: Final = What.ANSWER
LINK: Final = What.LINK
USER: Final = What.USER
_RESULT: Final = Kind.RESULT


class TranscriptLine:
    """A line. Most lines have few of its attributes, and set no others: a dataclass would set all of them.

    Attributes:
        line: its number.
        id: its uuid.
        parent: the uuid of the line that it follows; None for a root.
        side: for a line of a sub-agent, the agent's id; None for the session itself.
        time: when it was recorded, as in the file.
        what: its kind.
        turn: for `USER` and `QUEUED`, the user turn; for `SUMMARY`, the summary.
        typed: whether a person wrote at least a part of the turn, and not as a command.
        results: for `USER`, the results.
        parts: for a turn, the person's words and the harness's.
        message_id: for `ANSWER`, the ids of its message and request, which all lines of a model call share.
        answer: for `ANSWER`, this line's part of it.
        usage: for `ANSWER`, the recorded usage of the call: of the pass that read the request.
        samplings: for `ANSWER`, the usages of what else was sampled for it, each with its model if that is another.
        finished: for `ANSWER`, whether the line says why the answer ended; then its usage is final.
        model: for `ANSWER`, the model.
        version: for `ANSWER`, the version of Claude Code.
        request: for `ANSWER`, the id of its `api-request`; empty if none was recorded.
        effort: for `ANSWER`, how much the model was to think; empty if it was not recorded.
        cleared: for `CLEARING`, the ids of the calls whose results left the view.
        tokens_before: for `BOUNDARY`, tokens of the view before the compaction.
        first_kept: for `BOUNDARY`, the uuid of the first line that stayed in view.
    """

    what = What.LINK
    turn: Content | None = None
    typed = False
    results: Sequence[Part] = ()
    parts: Sequence[Part] = ()
    message_id = ""
    answer: Answer | None = None
    usage: CallUsage | None = None
    samplings: Sequence[tuple[str | None, CallUsage]] = ()
    finished = False
    model: str | None = None
    version = ""
    request = ""
    effort = ""
    cleared: Sequence[str] = ()
    tokens_before: int | None = None
    first_kept: str | None = None

    def __init__(self, line: int, id: str, parent: str | None, side: str | None, time: object) -> None:  # noqa: A002
        self.line = line
        self.id = id
        self.parent = parent
        self.side = side
        self.time = time

    @property
    def at(self) -> float | None:
        """When it was recorded, in seconds since 1970 UTC; None if that is unknown."""
        return seconds(self.time)


class UsageReader:
    """Reads the usages of answers. The lines of an answer repeat them, so each is compared with the one before."""

    def __init__(self) -> None:
        self._reported: tuple[Mapping[str, Any], Mapping[str, Any]] = {}, {}
        self._usages: tuple[CallUsage | None, list[tuple[str | None, CallUsage]]] = None, []

    def read(
        self, data: Mapping[str, Any], diagnostics: Mapping[str, Any]
    ) -> tuple[CallUsage | None, list[tuple[str | None, CallUsage]]]:
        """Return what `_usages` returns."""
        if self._reported != (data, diagnostics):
            self._reported, self._usages = (data, diagnostics), _usages(data, diagnostics)
        return self._usages


def fill(
    entry: TranscriptLine, data: Mapping[str, Any], usages: UsageReader | None = None, *, prompted: bool = False
) -> None:
    """Fill in the content of a line if a request carried it; if not, the entry stays a link.

    A line is `prompted` if it follows a command whose prompt it is; see `is_prompt_command`.
    """
    kind = text(data.get("type"))
    if kind == "user":
        _user(entry, data, prompted=prompted)
    elif kind == "assistant":
        entry.version, entry.request = text(data.get("version")), text(data.get("requestRef"))
        entry.effort = text(data.get("effort"))
        _answer(entry, mapping(data.get("message")), text(data.get("requestId")), usages or UsageReader())
    elif kind == "attachment":
        _attachment(entry, data)
    elif kind == "system":
        _system(entry, data)


def is_prompt_command(turn: Content) -> bool:
    """Return whether a turn is a command whose prompt is the next entry."""
    return turn.text.lstrip().startswith(_PROMPT)


def _user(entry: TranscriptLine, data: Mapping[str, Any], *, prompted: bool) -> None:
    blocks = _blocks(mapping(data.get("message")))
    if data.get("isCompactSummary"):
        entry.what, entry.turn = What.SUMMARY, content(blocks)
        return
    if data.get("isVisibleInTranscriptOnly"):
        return
    entry.what = USER
    results: list[Part] = []
    written: list[object] = []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            results.append(_result(block))
        else:
            written.append(block)
    entry.results = results
    if written or not results:
        # The prompt of a person's command is the person's, though the harness wrote it; a tool's never is.
        meta = data.get("isMeta") and (data.get("sourceToolUseID") or not prompted)
        _turn(entry, written, notice=bool(meta) or _origin(data) != CLAUDE_CODE_PERSON)
        entry.typed &= bool(written) and not data.get("isMeta")


def _turn(entry: TranscriptLine, blocks: Sequence[object], *, notice: bool) -> None:
    """Fill in a turn: a notice for each block of the harness, and a user part for each run of other blocks."""
    entry.what, entry.turn = What.USER, content(list(blocks))
    parts: list[Part] = []
    words: list[Content] = []  # the person's, since the last notice
    for block in map(content, blocks):
        if notice or (not block.extra_tokens and is_notice(block.text)):
            if words:
                parts.append(Content.join_contents(words).part(Kind.USER))
                words = []
            parts.append(block.part(Kind.NOTICE))
        else:
            words.append(block)
    if words or not parts:
        parts.append(Content.join_contents(words).part(Kind.USER))
    entry.parts = parts
    persons = [part.text for part in parts if part.kind is Kind.USER]
    entry.typed = bool(persons) and not persons[0].lstrip().startswith(_COMMANDS)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    value = message.get("content")
    return [value] if isinstance(value, str) else items(value)


def _origin(data: Mapping[str, Any]) -> str:
    """Return the kind of a turn's author; a person if none is recorded."""
    return text(mapping(data.get("origin")).get("kind")) or CLAUDE_CODE_PERSON


def _answer(entry: TranscriptLine, message: Mapping[str, Any], request: str, usages: UsageReader) -> None:
    entry.model = text(message.get("model")) or None
    if entry.model == SYNTHETIC:
        return
    entry.what = ANSWER
    # Not every server behind Claude Code gives each answer its own id.
    entry.message_id = f"{text(message.get('id')) or entry.id} {request}"
    entry.answer = Answer()
    for block in _blocks(message):
        _add(entry.answer, block)
    entry.usage, entry.samplings = usages.read(mapping(message.get("usage")), mapping(message.get("diagnostics")))
    entry.finished = bool(message.get("stop_reason"))


def _add(answer: Answer, block: object) -> None:
    data = mapping(block)
    kind = text(data.get("type"))
    if kind.endswith("tool_use"):
        answer.call(data.get("id"), data.get("name"), data.get("input"))
    elif kind.endswith("tool_result"):  # of a tool that Anthropic runs
        answer.parts.append(_result(data))
    elif kind in ("thinking", "redacted_thinking"):
        seal = text(data.get("signature")) or text(data.get("data"))
        answer.reasoning(text(data.get("thinking")), seal, signed=bool(seal))
    else:
        answer.text(content([block]))


def _result(block: Mapping[str, Any]) -> Part:
    output = content(block.get("content"))
    nothing = bool(block.get("is_error")) or output.text.startswith(_UNCHANGED)
    return output.part(_RESULT, call_id=text(block.get("tool_use_id")), shows_nothing=nothing)


def _usages(
    data: Mapping[str, Any], diagnostics: Mapping[str, Any]
) -> tuple[CallUsage | None, list[tuple[str | None, CallUsage]]]:
    """Return the usage of the pass that read the request, with all its model's output, and what else was sampled."""
    tier, iterations = tier_in(data), objects_in(data.get("iterations"))
    first = request_iteration(iterations) if len(iterations) > 1 else None
    usage = _usage(data if first is None else {**first, "output_tokens": data.get("output_tokens")})
    if usage is None:
        return None, []
    samplings: list[tuple[str | None, CallUsage]] = []
    for iteration in iterations if first is not None else []:
        sampled = None if iteration is first else _usage(iteration)
        if sampled is not None:
            own = iteration.get("type") in ("message", "fallback_message")
            sampled = replace(sampled, tier=tier, output=0 if own else sampled.output)
            samplings.append((text(iteration.get("model")) or None, sampled))
    miss = text(mapping(diagnostics.get("cache_miss_reason")).get("type"))
    fees = (count(mapping(data.get("server_tool_use")).get("web_search_requests")) or 0) * SEARCH_FEE
    if tier or miss or fees:
        # Spelled out: `replace` takes four times as long, and each call has a usage.
        tokens = usage.input, usage.cache_read, usage.cache_write, usage.output, usage.cache_write_hour
        usage = CallUsage(*tokens, tier, explain_reported(miss) if miss else None, fees)
    return usage, samplings


def _usage(data: Mapping[str, Any]) -> CallUsage | None:
    return usage_of(
        data.get("input_tokens"),
        read=data.get("cache_read_input_tokens"),
        written=data.get("cache_creation_input_tokens"),
        hour=mapping(data.get("cache_creation")).get("ephemeral_1h_input_tokens"),
        output=data.get("output_tokens"),
        apart=True,
    )


def _attachment(entry: TranscriptLine, data: Mapping[str, Any]) -> None:
    attached = mapping(data.get("attachment"))
    turn = _read_attachment(attached, data.get("rendered"))
    if not turn:
        return
    prompt = attached.get("type") == "queued_command" and attached.get("commandMode", "prompt") == "prompt"
    entry.what = What.USER
    entry.turn = turn
    entry.typed = prompt and _origin(attached) == CLAUDE_CODE_PERSON and not attached.get("isMeta")
    # An image that a person attached is theirs; the text of a file is the harness's.
    persons = entry.typed or not turn.text
    entry.parts = [turn.part(Kind.USER if persons else Kind.NOTICE)]


def _read_attachment(attached: Mapping[str, Any], rendered: object) -> Content:
    """Return the text of an attachment for the model; empty if there is none.

    Args:
        attached: the attachment.
        rendered: the messages made from it, which newer versions of Claude Code record. Older versions wrap the text in
            a sentence or two that they do not record.
    """
    if isinstance(rendered, list) and rendered:
        return Content.join_contents(content(mapping(message).get("content", message)) for message in rendered)
    kind = text(attached.get("type"))
    if kind in _NOT_SENT or (kind == "hook_success" and text(attached.get("hookEvent")) not in _TOLD_AFTER):
        return Content("")
    if kind == "queued_command":
        return content(attached.get("prompt"))
    if kind == "file" and mapping(mapping(attached.get("content")).get("file")).get("base64"):
        return content([{"type": "image", "data": mapping(attached["content"]["file"])["base64"]}])
    return Content("\n".join(_words(attached)))


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in items(value):
            yield from _words(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key in _WORDS:
                yield from _words(entry)


def _system(entry: TranscriptLine, data: Mapping[str, Any]) -> None:
    subtype = text(data.get("subtype"))
    if subtype == "compact_boundary":
        about = mapping(data.get("compactMetadata"))
        entry.what = What.BOUNDARY
        entry.parent = entry.parent or text(data.get("logicalParentUuid")) or None
        entry.tokens_before = count(about.get("preTokens"))
        uuids = items(mapping(about.get("preservedMessages")).get("uuids"))
        head = text(mapping(about.get("preservedSegment")).get("headUuid"))
        entry.first_kept = head or text(next(iter(uuids), None)) or None
    elif subtype == "microcompact_boundary":
        about = mapping(data.get("microcompactMetadata"))
        entry.what = What.CLEARING
        entry.cleared = tuple(map(text, items(about.get("compactedToolIds"))))
        entry.tokens_before = count(about.get("preTokens"))
    elif subtype == "local_command" and data.get("content"):
        _turn(entry, [data["content"]], notice=False)
        entry.typed = False


def read_queued(data: Mapping[str, Any]) -> str:
    """Return a message that a person queued while the agent worked; empty for one of the harness."""
    written = content(data.get("content")).text
    return "" if written.startswith(('{"task_id"', "<task-notification>")) else written


def entry_of(line: int, data: Mapping[str, Any], last: str | None) -> TranscriptLine:
    """Return the entry of a line, without its content; `last` is the entry that it follows if it names no parent."""
    name, parent = data.get("uuid"), data.get("parentUuid", last)
    if not isinstance(name, str) or not name:
        name = f"line {line}"
    if not isinstance(parent, str) or not parent:
        parent = None
    side = (text(data.get("agentId")) or SIDECHAIN) if data.get("isSidechain") else None
    return TranscriptLine(line, name, parent, side, data.get("timestamp"))
