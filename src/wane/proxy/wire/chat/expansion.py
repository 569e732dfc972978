"""One message of Chat Completions for several rounds: joined for the client, and split into the rounds again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.formats.openai import REASONING_LISTS, REASONING_TEXTS, says_something
from wane.proxy.wire.base import AnsweredRound, Message, Round
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

    Texts are split by the recorded texts of the rounds; from the first change on they belong to the last round.
    Calls are recognised by id.
    """
    if not rounds:
        return [message]
    parts = _parts_of(message, rounds)
    calls = _calls_of(message, rounds)
    edited = any(changed for _, changed in parts.values())
    history: list[Message] = []
    for number, round_ in enumerate(rounds):
        last = number == len(rounds) - 1
        share = {key: shares[number] for key, (shares, _) in parts.items() if shares[number]}
        fields = _other_fields(message if last else round_.message)
        has_client_calls = any(not _is_own(call, round_) for call in calls[number])
        if share or has_client_calls or edited or (last and fields):
            sent = _kept_message(round_.message, share, calls[number], fields)
        else:
            # The client has kept nothing of the round, so it is sent as recorded.
            sent = round_.message
        if says_something(sent):
            history += [sent, *round_.results]
    return history or [message]


def _parts_of(message: Message, rounds: Sequence[AnsweredRound]) -> dict[str, tuple[Sequence[Any], bool]]:
    """Return each round's share of each text or list, by key, and whether the client has changed it."""
    recorded = {key: [round_.message.get(key) for round_ in rounds] for key in _SHARED}
    shares: dict[str, tuple[Sequence[Any], bool]] = {key: _shares(message.get(key), recorded[key]) for key in TEXTS}
    return shares | {key: (_list_shares(message.get(key), recorded[key]), False) for key in REASONING_LISTS}


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


def _shares(content: Content, recorded: Sequence[Content]) -> tuple[list[Content], bool]:
    """Split a content that a client sent for all rounds into each round's share.

    Returns:
        The shares, None for a round without one, and whether the client changed the text: everything from the first
        change on is then the last round's share.
    """
    if content == joined(recorded):
        return list(recorded), False
    shares: list[Content] = [None] * len(recorded)
    parts = as_parts(content)
    missed = False
    for number, own in enumerate(recorded[:-1]):
        text = text_of(own)
        split = _take(parts, text) or _take(parts, text.strip())
        if split is None:
            missed = missed or bool(text)
            continue
        following = next(filter(None, map(text_of, recorded[number + 1 :])), "")
        shares[number], parts = _like(content, split[0]), _after_joint(split[1], joint(text, following))
    shares[-1] = _like(content, parts) if any(_text(part) != "" for part in parts) else None
    return shares, missed and shares[-1] is not None


def _list_shares(entries: object, recorded: Sequence[object]) -> list[list[Any] | None]:
    """Split a list that a client sent, such as `reasoning_details`, into each round's share.

    Args:
        entries: the client's list.
        recorded: the lists of the rounds. An entry's `index` has no meaning outside its round.
    """
    remaining = list(entries) if isinstance(entries, list) else []
    shares: list[list[Any] | None] = []
    for recorded_entries in recorded:
        own_entries = list(recorded_entries) if isinstance(recorded_entries, list) else []
        same = bool(own_entries) and [_plain(entry) for entry in remaining[: len(own_entries)]] == [
            _plain(entry) for entry in own_entries
        ]
        shares.append(own_entries if same else None)
        remaining = remaining[len(own_entries) :] if same else remaining
    if remaining and shares:
        shares[-1] = [*(shares[-1] or ()), *remaining]
    return shares


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


def _plain(entry: object) -> object:
    return {k: v for k, v in entry.items() if k != "index"} if isinstance(entry, Mapping) else entry


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


def _take(parts: _Parts, text: str) -> tuple[_Parts, _Parts] | None:
    """Split a content after a text; None if it does not begin with the text."""
    if not text:
        return None
    beginning: _Parts = []
    for number, part in enumerate(parts):
        own = _text(part)
        if own is None:
            return None
        if len(own) > len(text):
            if not own.startswith(text):
                return None
            # A cache marker applies to everything before it, so it stays at the end.
            beginning.append({**unmarked(part), "text": text})
            return beginning, [{**part, "text": own[len(text) :]}, *parts[number + 1 :]]
        if not text.startswith(own):
            return None
        beginning.append(part)
        text = text[len(own) :]
        if not text:
            return beginning, parts[number + 1 :]
    return None


def _after_joint(parts: _Parts, between: str) -> _Parts:
    split = _take(parts, between)
    return parts if split is None else split[1]
