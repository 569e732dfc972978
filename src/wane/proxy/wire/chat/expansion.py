"""One message of Chat Completions for several rounds: joined for the client, and split into the rounds again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.formats.openai import REASONING_LISTS, REASONING_TEXTS, says_something
from wane.proxy import jsons
from wane.proxy.wire.base import AnsweredRound, Message, Round
from wane.proxy.wire.blocks import Block, PieceReader, placed
from wane.proxy.wire.openai import unmarked
from wane.proxy.wire.reply import joint

TEXTS: Final = ("content", *REASONING_TEXTS)
"""Keys of texts that continue from round to round."""

_SHARED = (*TEXTS, *REASONING_LISTS)

Content: TypeAlias = Any
"""A message's content: text, a list of parts, or None."""

_SEPARATOR: Final = "\n\n"  # between the text of one round and that of the next

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", None})

_Parts: TypeAlias = list[dict[str, Any]]


def entries_of(delta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a delta or a message."""
    calls = delta.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def merged(rounds: Sequence[Round]) -> Message:
    """Return the client's message for the messages of several rounds: without own calls."""
    messages, own = [round_.message for round_ in rounds], {call.id for round_ in rounds for call in round_.own}
    result: Message = {"role": "assistant", "content": joined([message.get("content") for message in messages])}
    elsewhere = {*result, *REASONING_TEXTS, *REASONING_LISTS, "tool_calls"}
    result |= {key: value for key, value in messages[-1].items() if key not in elsewhere}
    for key in REASONING_TEXTS:
        if text := joined([message.get(key) for message in messages]):
            result[key] = text
    for key in REASONING_LISTS:
        if entries := _chained([message.get(key) for message in messages]):
            result[key] = entries
    calls = [call for message in messages for call in entries_of(message) if call.get("id") not in own]
    if calls:
        return {**result, "tool_calls": calls}
    if result["content"] is None and not result.get("refusal"):
        result["content"] = ""
    return result


def joined(contents: Sequence[Content]) -> Content:
    """Return the contents of all rounds as one: text, or a list of parts if one of them is a list.

    None if no round has content.
    """
    some = [content for content in contents if content]
    if all(isinstance(content, str) for content in some):
        text = ""
        for content in some:
            text += joint(text, content) + content
        return text or None
    return [part for content in some for part in as_parts(content)]


def shifted(entries: Sequence[Any], by: int) -> list[Any]:
    """Return entries of a list of reasoning with their indexes shifted."""
    return [{**entry, "index": entry["index"] + by} if by and _is_indexed(entry) else entry for entry in entries]


def next_index(entries: object) -> int:
    """Return the next index after some entries; 0 if none has an index."""
    indexed = [entry["index"] for entry in entries if _is_indexed(entry)] if isinstance(entries, list) else []
    return max(indexed, default=-1) + 1


def expanded(message: Message, rounds: Sequence[AnsweredRound]) -> list[Message]:
    """Return the provider's messages that a client's assistant message stands for, as `Wire.expand` does.

    The parts of each text and list are recognised by themselves (`placed`), and calls by their ids. A round of which
    the client sent nothing back stays as it was.
    """
    if not rounds:
        return [message]
    shares = {key: _shares(message.get(key), [round_.message.get(key) for round_ in rounds]) for key in _SHARED}
    calls = _calls_of(message, rounds)
    history: list[Message] = []
    for number, round_ in enumerate(rounds):
        last = number == len(rounds) - 1
        share = {key: of_rounds[number] for key, of_rounds in shares.items() if of_rounds[number]}
        has_client_calls = any(not _is_own(call, round_) for call in calls[number])
        fields = _other_fields(message if last else round_.message)
        sent = round_.message
        if share or has_client_calls or (last and fields):
            sent = _kept_message(sent, share, calls[number], fields)
        if says_something(sent):
            history += [sent, *round_.results]
    return history or [message]


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


def _kept_message(
    recorded: Message, share: Mapping[str, Any], calls: Sequence[dict[str, Any]], fields: Mapping[str, Any]
) -> Message:
    """Return a round's message as the client has kept it."""
    message: Message = {"role": "assistant", "content": None, **fields, **share}
    if "content" not in share:
        content = recorded.get("content")
        message["content"] = content if not text_of(content) else None
    return {**message, "tool_calls": list(calls)} if calls else message


def _other_fields(message: Message) -> dict[str, Any]:
    """The fields that a client sent besides texts and calls, such as a refusal."""
    return {key: value for key, value in message.items() if key not in (*_SHARED, "tool_calls", "role") and value}


def _shares(content: Content, recorded: Sequence[Content]) -> list[Content]:
    """Split what a client sent for all rounds into each round's share; None for a round without one."""
    if content == joined(recorded):
        return list(recorded)
    visible = [((n, at), part) for n, of_round in enumerate(recorded) for at, part in enumerate(as_parts(of_round))]
    shares: list[_Parts] = [[] for _ in recorded]
    for (number, _), part in placed(as_parts(content), visible, len(recorded) - 1, _PARTS):
        shares[number].append(part)
    return [_like(content, parts) if parts else None for parts in shares]


class _PartReader(PieceReader):
    def text(self, block: Block) -> str:
        return (_text(block) or "").strip()

    def keys(self, block: Block) -> Sequence[object]:
        # The index of an entry of reasoning has no meaning outside its round.
        plain = {key: value for key, value in unmarked(block).items() if key != "index"}
        return () if self.text(block) else [jsons.dumps(plain)]

    def restored(self, block: Block, original: Block) -> Block:
        same = self.text(block) == self.text(original)
        return {**block, **{key: original[key] for key in ("text", "index") if same and key in original}}


_PARTS: Final = _PartReader()


def text_of(content: Content) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part if isinstance(part, str) else _text(part) or "" for part in parts)


def _chained(lists: Sequence[Any]) -> list[Any]:
    chained: list[Any] = []
    for entries in lists:
        if isinstance(entries, list):
            chained += shifted(entries, next_index(chained))
    return chained


def _is_indexed(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("index"), int)


def _text(part: object) -> str | None:
    """The text of a part; None for other kinds of parts."""
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_TYPES:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def as_parts(content: Content) -> _Parts:
    """Return a content as a list of parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def _like(content: Content, parts: _Parts) -> Content:
    return "".join(part["text"] for part in parts) if isinstance(content, str) else parts
