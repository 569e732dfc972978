"""OpenAI Chat Completions, also spoken by most other services: POST /v1/chat/completions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wane.conversation.request import Tool
from wane.formats.message_format import order_of
from wane.formats.openai import REASONING_LISTS, OpenAIFormat, says_something
from wane.formats.roles import NeighbourJoiner, mend_own_calls
from wane.proxy import jsons
from wane.proxy.wire.blocks import Block, PieceReader, place_blocks
from wane.proxy.wire.chat.chat_reply import (
    TEXTS,
    Content,
    StreamedChat,
    WholeChat,
    as_parts,
    entries_of,
    join_contents,
    merge_rounds,
)
from wane.proxy.wire.openai_shared import OpenAIWire, strip_markers, without_markers
from wane.proxy.wire.wire import (
    AnsweredRound,
    Body,
    ClientReply,
    Correction,
    Equipped,
    Message,
    OwnCall,
    Round,
    Rounds,
    SentHistory,
    ViewMessage,
    has_neighbours,
)

_SYSTEM: Final = ("system", "developer")
# As servers say it that take a string alone.
_NO_PARTS: Final = re.compile(rb"string|sequence|list|array", re.IGNORECASE)
_FIXED: Final = ("tools", "response_format")
_SHARED: Final = (*TEXTS, *REASONING_LISTS)
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", None})


class OpenAIChatWire(OpenAIWire):
    """The Chat Completions protocol, with the additions of compatible services."""

    name = provider = "openai"
    paths = re.compile(r"/chat/completions/*\Z")
    format = OpenAIFormat()

    def why_unmanaged(self, body: Body) -> str | None:
        messages, tools = body.get("messages"), body.get("tools")
        if not isinstance(messages, list) or not messages:
            return "it has no messages"
        if not self.tools(body):
            return "it uses legacy functions instead of tools" if body.get("functions") else "it has no tools"
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            return "its tools are malformed"
        if body.get("functions"):
            return "it uses legacy functions"
        if body.get("n") not in (None, 1):
            return f"it asks for {body['n']} answers"
        modalities = body.get("modalities")
        if isinstance(modalities, list) and "audio" in modalities:
            return "it asks for sound"
        return None

    def tools(self, body: Body) -> frozenset[str]:
        tools = body.get("tools")
        return frozenset(filter(None, map(_tool_name, tools))) if isinstance(tools, list) else frozenset()

    def fixed_data(self, equipped: Equipped) -> object:
        """Return what every request carries besides its messages, as JSON data: tools, and the format of answers.

        Also the guidance, which is in the messages but is not an item of the history.
        """
        fixed = {key: equipped.body[key] for key in _FIXED if equipped.body.get(key)}
        return {**fixed, "guidance": equipped.guidance} if equipped.guidance else fixed

    def canonical(self, message: Message) -> object:
        return without_markers(message)

    def equip(self, body: Body, tools: Sequence[Tool], guidance: str) -> Equipped:
        """Return a body with own tools after the client's, and guidance after its system messages.

        Streams are always asked to report usage, because token counts depend on it.
        """
        equipped = self._with_tools(body, tools)
        if body.get("stream"):
            equipped["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        equipped["messages"] = _add_guidance(body["messages"], guidance)
        return Equipped(equipped, guidance)

    def with_messages(
        self,
        equipped: Equipped,
        view: Sequence[ViewMessage],
        history: Sequence[Message],
    ) -> Body:
        """Return a body with the messages of a view in place of its own, and with its guidance.

        Messages of which eviction left only reasoning are dropped, because providers refuse them. Neighbours of one
        role are joined where the history had none (R12b).
        """
        roles = (message.get("role") for message in history)
        if isinstance(view, SentHistory) and not has_neighbours(roles, "assistant"):
            messages = [*history]
        else:
            joiner = NeighbourJoiner(self.format, order_of(equipped.body["messages"], self.format.speaker))
            for shown in view:
                message = shown.message
                if shown.sent or self.format.is_sent(message):
                    joiner.add(message if shown.sent else mend_own_calls(message))
                else:
                    joiner.leave_out(message)
            messages = joiner.joined
        return {**equipped.body, "messages": _add_guidance(messages, equipped.guidance)}

    def add_note(self, body: Body, text: str) -> Body:
        """Return a body with a note at the end of its last message: as a part of its own, or behind a tool's text.

        It is not a separate message: Mistral's API and some models' chat templates refuse a user's message after a
        tool's, and two messages of one role. Words of a user stay a text of their own. A tool's are not made a part:
        fewer servers take parts there.
        """
        *before, last = body["messages"]
        if last.get("role") == "assistant":
            return body
        content = last.get("content")
        spoken = isinstance(content, str) and last.get("role") != "tool"
        parts = as_parts(content) if spoken else content
        return {**body, "messages": [*before, {**last, "content": _append_text(parts, text)}]}

    def correction(self, status: int, error: bytes, body: Body, sent: Body) -> Correction | None:
        """Return the correction for refused reasoning, or for a server that takes no parts: without the note."""
        correction = super().correction(status, error, body, sent)
        if correction is not None or status not in (400, 422) or not _has_part(body, sent):
            return correction
        return _without_part if _NO_PARTS.search(error) else None

    def expand(self, message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
        # The parts of each text and list are recognised by themselves (`place_blocks`), and calls by their ids. A round
        # of which the client sent nothing back stays as it was.
        if not rounds:
            return [message]
        shares = {}
        for key in _SHARED:
            shares[key] = _shares(message.get(key), [round_.message.get(key) for round_ in rounds])
        calls = _calls_of(message, rounds)
        history: list[Message] = []
        for number, round_ in enumerate(rounds):
            last = number == len(rounds) - 1
            share = {key: of_rounds[number] for key, of_rounds in shares.items() if of_rounds[number]}
            has_client_calls = any(not _is_own(call, round_) for call in calls[number])
            # What the client sent besides texts and calls, such as a refusal.
            others = (message if last else round_.message).items()
            fields = {key: value for key, value in others if key not in (*_SHARED, "tool_calls", "role") and value}
            sent = round_.message
            if share or has_client_calls or (last and fields):
                recorded = sent.get("content")
                sent = {"role": "assistant", "content": None, **fields, **share}
                if "content" not in share and not text_of(recorded):
                    sent["content"] = recorded
                if calls[number]:
                    sent["tool_calls"] = calls[number]
            if says_something(sent):
                history += [sent, *round_.results]
            elif last:
                # It may part two turns of the user, as it does in the client's history.
                history.append({**sent, "content": sent.get("content") or ""})
        return history or [message]

    def visible(self, rounds: Sequence[Round]) -> Message:
        return merge_rounds(rounds)

    def results(self, answers: Sequence[tuple[OwnCall, str]]) -> tuple[Message, ...]:
        return tuple({"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answers)

    def reply(self, body: Body, own: frozenset[str], *, sums: bool = True) -> ClientReply:
        rounds = Rounds(own, ("id", "created", "model"), sums=sums)
        if not body.get("stream"):
            return WholeChat(rounds)
        options = body.get("stream_options")
        return StreamedChat(rounds, wants_usage=bool(isinstance(options, Mapping) and options.get("include_usage")))

    def _seal(self, entry: object) -> int | None:
        if not isinstance(entry, Mapping):
            return None
        reasoning = [entry[key] for key in REASONING_LISTS if entry.get(key)]
        return hash(jsons.dumps(reasoning)) if reasoning else None

    def _without(self, body: Body, seals: set[int]) -> Body:
        messages: list[Message] = []
        for message in body["messages"]:
            if self._seal(message) in seals:
                message = {key: value for key, value in message.items() if key not in REASONING_LISTS}  # noqa: PLW2901
            messages.append(message)
        return {**body, "messages": messages}


def _calls_of(message: Message, rounds: Sequence[AnsweredRound]) -> list[list[dict[str, Any]]]:
    """Return each round's calls: own ones as recorded, the client's as it sent them."""
    sent = {call.get("id"): call for call in entries_of(message)}
    by_round: list[list[dict[str, Any]]] = []
    for round_ in rounds:
        calls: list[dict[str, Any]] = []
        for call in entries_of(round_.message):
            if _is_own(call, round_):
                calls.append(call)
            elif (client_call := sent.pop(call.get("id"), None)) is not None:
                calls.append(client_call)
        by_round.append(calls)
    by_round[-1] += sent.values()
    return by_round


def _is_own(call: Mapping[str, Any], round_: AnsweredRound) -> bool:
    return any(result.get("tool_call_id") == call.get("id") for result in round_.results)


def _shares(content: Content, recorded: Sequence[Content]) -> list[Content]:
    """Split what a client sent for all rounds into each round's share; None for a round without one."""
    if content == join_contents(recorded):
        return list(recorded)
    visible = [((n, at), part) for n, of_round in enumerate(recorded) for at, part in enumerate(as_parts(of_round))]
    shares: list[list[dict[str, Any]]] = [[] for _ in recorded]
    for (number, _), part in place_blocks(as_parts(content), visible, len(recorded) - 1, _PARTS):
        shares[number].append(part)
    if isinstance(content, str):
        return [_text_of(parts) or None for parts in shares]
    return [parts or None for parts in shares]


def _text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    return "".join(part["text"] for part in parts)


class _PartReader(PieceReader):
    def text(self, block: Block) -> str:
        return (_text(block) or "").strip()

    def keys(self, block: Block) -> Sequence[object]:
        # The index of an entry of reasoning has no meaning outside its round.
        plain = {key: value for key, value in strip_markers(block).items() if key != "index"}
        return () if self.text(block) else [jsons.dumps(plain)]

    def restore_block(self, block: Block, original: Block) -> Block:
        same = self.text(block) == self.text(original)
        return {**block, **{key: original[key] for key in ("text", "index") if same and key in original}}


_PARTS: Final = _PartReader()


def text_of(content: Content) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part if isinstance(part, str) else _text(part) or "" for part in parts)


def _text(part: object) -> str | None:
    """The text of a part; None for other kinds of parts."""
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_TYPES:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def _add_guidance(messages: Sequence[Message], guidance: str) -> list[Message]:
    if not guidance:
        return list(messages)
    lead = 0
    while lead < len(messages) and messages[lead].get("role") in _SYSTEM:
        lead += 1
    if not lead:
        return [{"role": "system", "content": guidance}, *messages]
    # Not a separate message: some models' chat templates refuse a second system message.
    last = messages[lead - 1]
    return [*messages[: lead - 1], {**last, "content": _append_text(last.get("content"), guidance)}, *messages[lead:]]


def _has_part(body: Body, sent: Body) -> bool:
    """Whether the last message has a note as a part beside words that the client sent as a string."""
    last, own = _last(body), _last(sent)
    return isinstance(last.get("content"), list) and last == {**own, "content": last["content"]} != own


def _last(body: Body) -> Message:
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last if isinstance(last, dict) else {}


def _without_part(body: Body, sent: Body) -> Body:
    if not _has_part(body, sent):
        return body
    return {**body, "messages": [*body["messages"][:-1], sent["messages"][-1]]}


def _append_text(content: Any, text: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if content else text


def _tool_name(tool: object) -> str | None:
    """The name of a tool that the client runs; None for one that the provider runs."""
    if not isinstance(tool, Mapping):
        return None
    kind = str(tool.get("type", "function"))
    body = tool.get(kind) if kind in ("function", "custom") else None
    name = body.get("name") if isinstance(body, Mapping) else None
    return name if isinstance(name, str) else None
