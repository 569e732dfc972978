"""Weaves rounds back into the assistant message that a client of Chat Completions sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wane.proxy.wire.base import Message, WovenRound
from wane.proxy.wire.chat.message import REASONING_LISTS, TEXTS, entries_of
from wane.proxy.wire.openai.texts import list_shares, shares, text_of

_SHARED = (*TEXTS, *REASONING_LISTS)


def weave(message: Message, rounds: Sequence[WovenRound]) -> list[Message]:
    """Return the messages that a client's message stands for; see `Wire.weave`.

    Texts are split by the recorded texts of the rounds; from the first change on they belong to the last round. Calls
    are recognised by id.
    """
    if not rounds:
        return [message]
    parts = _parts_of(message, rounds)
    calls = _calls_of(message, rounds)
    edited = any(changed for _, changed in parts.values())
    history: list[Message] = []
    for number, woven in enumerate(rounds):
        last = number == len(rounds) - 1
        mine = {key: found[number] for key, (found, _) in parts.items() if found[number]}
        rest = _rest(message if last else woven.message)
        theirs = any(not _is_own(call, woven) for call in calls[number])
        if mine or theirs or edited or (last and rest):
            kept = _made(woven.message, mine, calls[number], rest)
        else:
            # The client has kept nothing of the round, so it is sent as recorded.
            kept = woven.message
        if says_something(kept):
            history += [kept, *woven.results]
    return history or [message]


def _parts_of(message: Message, rounds: Sequence[WovenRound]) -> dict[str, tuple[Sequence[Any], bool]]:
    """Return each round's share of each text or list, by key, and whether the client has changed it."""
    found: dict[str, tuple[Sequence[Any], bool]] = {}
    for key in _SHARED:
        recorded = [woven.message.get(key) for woven in rounds]
        value = message.get(key)
        if key in TEXTS:
            found[key] = shares(value, recorded) if value else ([None] * len(rounds), False)
        else:
            found[key] = list_shares(value, recorded), False
    return found


def _calls_of(message: Message, rounds: Sequence[WovenRound]) -> list[list[dict[str, Any]]]:
    """Return each round's calls: own ones as recorded, the client's as it sent them."""
    sent = {call.get("id"): call for call in entries_of(message)}
    found: list[list[dict[str, Any]]] = []
    for woven in rounds:
        calls: list[dict[str, Any]] = []
        for call in entries_of(woven.message):
            if _is_own(call, woven):
                calls.append(call)
            elif (theirs := sent.pop(call.get("id"), None)) is not None:
                calls.append(theirs)
        found.append(calls)
    found[-1] += sent.values()
    return found


def _is_own(call: Mapping[str, Any], woven: WovenRound) -> bool:
    return any(result.get("tool_call_id") == call.get("id") for result in woven.results)


def _made(
    recorded: Message, mine: Mapping[str, Any], calls: Sequence[dict[str, Any]], rest: Mapping[str, Any]
) -> Message:
    """Return a round's message as the client has kept it."""
    message: Message = {"role": "assistant", "content": None, **rest, **mine}
    if "content" not in mine:
        content = recorded.get("content")
        message["content"] = content if not text_of(content) else None
    return {**message, "tool_calls": list(calls)} if calls else message


def _rest(message: Message) -> dict[str, Any]:
    """The fields that a client sent besides texts and calls, such as a refusal."""
    return {key: value for key, value in message.items() if key not in (*_SHARED, "tool_calls", "role") and value}


def says_something(message: Message) -> bool:
    """Whether an assistant's message has content that a provider accepts; reasoning alone is not enough."""
    return bool(message.get("content") or message.get("tool_calls") or message.get("refusal") or message.get("audio"))
