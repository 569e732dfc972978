"""Assistant messages of Chat Completions: built from deltas, and the texts of several rounds joined and split again."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from wane.proxy import jsons
from wane.proxy.wire.base import Message, OwnCall, Round
from wane.proxy.wire.openai import token_usage, unmarked
from wane.proxy.wire.reply import parsed

REASONING_TEXTS: Final = ("reasoning_content", "reasoning")
"""Keys of reasoning as text."""

REASONING_LISTS: Final = ("reasoning_details", "thinking_blocks")
"""Keys of reasoning in parts with signatures, as routers give it."""

TEXTS: Final = ("content", *REASONING_TEXTS)
"""Keys of texts that continue from round to round."""

_WORDS: Final = ("text", "summary", "data", "thinking", "signature")
_KNOWN: Final = frozenset({"index", "id", "type", "function", "custom"})
_FUNCTION: Final = "function"

Content: TypeAlias = Any
"""A message's content: text, a list of parts, or None."""

_SEPARATOR: Final = "\n\n"  # between the text of one round and that of the next

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", None})

_Parts: TypeAlias = list[dict[str, Any]]


class Call:
    """A tool call that is being received.

    Attributes:
        index: the provider's index of it; None if it gives none.
        id: its id; empty if none was received yet.
        kind: `function` or `custom`.
        name: the tool's name.
        arguments: the model's arguments, as text.
        extras: fields that vendors add, such as signatures of reasoning.
        own: whether it calls one of the proxy's own tools; None while its name is incomplete.
        waits: whether pieces of it are held back until then.
    """

    __slots__ = ("arguments", "extras", "id", "index", "kind", "name", "own", "waits")

    def __init__(self, index: object) -> None:
        self.index = index if isinstance(index, int) else None
        self.id = ""
        self.kind = _FUNCTION
        self.name = ""
        self.arguments = ""
        self.extras: dict[str, Any] = {}
        self.own: bool | None = None
        self.waits = False

    def take(self, entry: Mapping[str, Any], own: Container[str], prefixes: Container[str]) -> None:
        """Take in a piece of the call.

        Args:
            entry: an entry of a delta's `tool_calls`.
            own: names of the proxy's own tools.
            prefixes: the prefixes of these names.
        """
        if not self.id and isinstance(entry.get("id"), str):
            self.id = entry["id"]
        if isinstance(entry.get("type"), str) and entry["type"]:
            self.kind = entry["type"]
        body = entry.get(self.kind)
        if isinstance(body, Mapping):
            name = body.get("name")
            # Some services repeat the name in every piece.
            if isinstance(name, str) and name != self.name:
                self.name += name
            self.arguments += _raw(body.get("arguments", body.get("input")))
        self.extras.update({key: value for key, value in entry.items() if key not in _KNOWN and value is not None})
        if self.own is None and self.kind == _FUNCTION and self.name in own:
            self.own = True
        elif self.own is None:
            certain = self.kind != _FUNCTION or (self.name and (self.arguments or self.name not in prefixes))
            self.own = False if certain else None

    def whole(self) -> dict[str, Any]:
        """Return the call in the form of a message."""
        written = "arguments" if self.kind == _FUNCTION else "input"
        body = {"name": self.name, written: self.arguments}
        return {"id": self.id, "type": self.kind, self.kind: body, **self.extras}


class Draft:
    """The assistant's message of one round that is being received.

    Args:
        own: names of the proxy's own tools.

    Attributes:
        calls: the calls, in order.
        finish: the `finish_reason`; None if none was received yet.
    """

    def __init__(self, own: frozenset[str]) -> None:
        self.calls: list[Call] = []
        self.finish: str | None = None
        self._own = own
        self._prefixes = frozenset(name[:end] for name in own for end in range(1, len(name)))
        self._fields: dict[str, Any] = {}

    def take(self, delta: Mapping[str, Any], *, whole: bool = False) -> list[Call]:
        """Take in a delta, or with `whole` a message; return the call that each entry of its calls is about."""
        for key in (*TEXTS, "refusal"):
            value = delta.get(key)
            if value and isinstance(value, str | list):
                self._fields[key] = _grown(self._fields.get(key), value)
        for key in REASONING_LISTS:
            entries = delta.get(key)
            for entry in entries if isinstance(entries, list) else ():
                self._detail(self._fields.setdefault(key, []), entry, whole=whole)
        if isinstance(delta.get("audio"), Mapping):
            self._fields["audio"] = {**self._fields.get("audio", {}), **delta["audio"]}
        calls = []
        for entry in entries_of(delta):
            call = None if whole else self._call_of(entry)
            if call is None:
                call = Call(entry.get("index"))
                self.calls.append(call)
            call.take(entry, self._own, self._prefixes)
            calls.append(call)
        return calls

    def settle(self) -> None:
        """Treat calls whose name stayed incomplete as the client's."""
        for call in self.calls:
            call.own = bool(call.own)

    def round(self, seed: str, usage: Any) -> Round:
        """Return the completed round; own calls that were cut off are left out.

        Args:
            seed: seed of the ids for calls without one.
            usage: the usage that the provider reported.
        """
        self.settle()
        complete = self.finish not in ("length", "content_filter", "error")
        for number, call in enumerate(self.calls):
            call.id = call.id or "call_" + blake2b(f"{seed}:{number}".encode(), digest_size=12).hexdigest()
        calls = [call for call in self.calls if complete or not call.own or parsed(call.arguments) is not None]
        own = tuple(OwnCall(call.id, call.name, call.arguments) for call in calls if call.own)
        message: Message = {"role": "assistant", "content": None, **self._fields}
        if calls:
            message["tool_calls"] = [call.whole() for call in calls]
        elif message["content"] is None and "refusal" not in message:
            message["content"] = ""
        return Round(message, own, len(calls) - len(own), complete, token_usage(usage, "prompt", "completion"))

    def _call_of(self, entry: Mapping[str, Any]) -> Call | None:
        """The call that a piece continues; None if it starts a new one.

        Some services send no index, and a whole call in each piece; others give all calls the same index.
        """
        index, call_id = entry.get("index"), entry.get("id")
        known = [call for call in self.calls if not isinstance(index, int) or call.index == index]
        if not known:
            return None
        last, body = known[-1], entry.get("function")
        named = isinstance(body, Mapping) and bool(body.get("name"))
        if call_id and last.id and call_id != last.id and named:
            return None
        if not isinstance(index, int) and not call_id and named and last.name:
            return None
        return last

    @staticmethod
    def _detail(entries: list[Any], entry: Any, *, whole: bool) -> None:
        last = entries[-1] if entries and not whole else None
        if not isinstance(entry, Mapping) or not isinstance(last, Mapping) or not _goes_on(last, entry):
            entries.append(entry)
            return
        more = {key: value for key, value in entry.items() if value is not None}
        for key in _WORDS:
            if isinstance(last.get(key), str) and isinstance(more.get(key), str):
                more[key] = last[key] + more[key]
        entries[-1] = {**last, **more}


def entries_of(delta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a delta or a message."""
    calls = delta.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def merged(rounds: Sequence[Round]) -> Message:
    """Return the client's message for the messages of several rounds: without own calls."""
    messages, own = [each.message for each in rounds], {call.id for each in rounds for call in each.own}
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


def shifted(entries: Sequence[Any], by: int) -> list[Any]:
    """Return entries of a list of reasoning with their indexes shifted."""
    return [{**entry, "index": entry["index"] + by} if by and _is_indexed(entry) else entry for entry in entries]


def next_index(entries: object) -> int:
    """Return the next index after some entries; 0 if none has an index."""
    indexed = [entry["index"] for entry in entries if _is_indexed(entry)] if isinstance(entries, list) else []
    return max(indexed, default=-1) + 1


def joint(before: str, after: str) -> str:
    """Return the separator between the texts of two rounds: empty if there is white space already, or one is empty."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return ""
    return _SEPARATOR


def text_of(content: Content) -> str:
    """Return the text of a content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part if isinstance(part, str) else _text(part) or "" for part in parts)


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
    return [part for content in some for part in _as_parts(content)]


def shares(content: Content, recorded: Sequence[Content]) -> tuple[list[Content], bool]:
    """Split a content that a client sent for all rounds into each round's share.

    Args:
        content: the client's content.
        recorded: the contents of the rounds.

    Returns:
        The shares, None for a round without one, and whether the client changed the text: everything from the first
        change on is then the last round's share.
    """
    if content == joined(recorded):
        return list(recorded), False
    found: list[Content] = [None] * len(recorded)
    parts = _as_parts(content)
    missed = False
    for number, own in enumerate(recorded[:-1]):
        text = text_of(own)
        taken = _take(parts, text) or _take(parts, text.strip())
        if taken is None:
            missed = missed or bool(text)
            continue
        following = next(filter(None, map(text_of, recorded[number + 1 :])), "")
        found[number], parts = _like(content, taken[0]), _after_joint(taken[1], joint(text, following))
    found[-1] = _like(content, parts) if any(_text(part) != "" for part in parts) else None
    return found, missed and found[-1] is not None


def list_shares(entries: object, recorded: Sequence[object]) -> list[list[Any] | None]:
    """Split a list that a client sent, such as `reasoning_details`, into each round's share.

    Args:
        entries: the client's list.
        recorded: the lists of the rounds. An entry's `index` has no meaning outside its round.
    """
    rest = list(entries) if isinstance(entries, list) else []
    found: list[list[Any] | None] = []
    for own in recorded:
        mine = list(own) if isinstance(own, list) else []
        same = bool(mine) and [_plain(each) for each in rest[: len(mine)]] == [_plain(each) for each in mine]
        found.append(mine if same else None)
        rest = rest[len(mine) :] if same else rest
    if rest and found:
        found[-1] = [*(found[-1] or ()), *rest]
    return found


def _grown(before: Content, piece: Content) -> Content:
    """A text with its next piece; if either is a list of parts, a list."""
    if before is None:
        return piece
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    return [*_as_parts(before), *_as_parts(piece)]


def _chained(lists: Sequence[Any]) -> list[Any]:
    chained: list[Any] = []
    for entries in lists:
        if isinstance(entries, list):
            chained += shifted(entries, next_index(chained))
    return chained


def _is_indexed(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("index"), int)


def _goes_on(last: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether an entry is the next piece of the last one."""
    if last.get("type") != entry.get("type") or last.get("index") != entry.get("index"):
        return False
    other = last.get("id") and entry.get("id") and last["id"] != entry["id"]
    return not (other or last.get("signature"))


def _raw(value: object) -> str:
    if isinstance(value, str):
        return value
    # Some servers send the object instead of its text.
    return "" if value is None else jsons.dumps(value).decode()


def _plain(entry: object) -> object:
    return {k: v for k, v in entry.items() if k != "index"} if isinstance(entry, Mapping) else entry


def _text(part: object) -> str | None:
    """The text of a part; None for other kinds of parts."""
    if not isinstance(part, Mapping) or part.get("type") not in _TEXT_TYPES:
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def _as_parts(content: Content) -> _Parts:
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
    taken: _Parts = []
    for number, part in enumerate(parts):
        own = _text(part)
        if own is None:
            return None
        if len(own) > len(text):
            if not own.startswith(text):
                return None
            # A cache marker applies to everything before it, so it stays at the end.
            taken.append({**unmarked(part), "text": text})
            return taken, [{**part, "text": own[len(text) :]}, *parts[number + 1 :]]
        if not text.startswith(own):
            return None
        taken.append(part)
        text = text[len(own) :]
        if not text:
            return taken, parts[number + 1 :]
    return None


def _after_joint(parts: _Parts, between: str) -> _Parts:
    taken = _take(parts, between)
    return parts if taken is None else taken[1]
