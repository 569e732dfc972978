"""What the tests of conversations share."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.formats.convert import to_anthropic, to_gemini, to_pydantic_ai, to_responses
from tests.strategies import sessions
from wane import ContextWindow, Kind, Policy
from wane.conversation import Adapter, Conversation
from wane.conversation.events import Event
from wane.formats import Part, Transcript, get_format

Session = list[dict[str, Any]]


@dataclass(frozen=True)
class Dialect:
    """A format, and how to write a session of chat messages in it."""

    name: str
    write: Callable[[Session], list[Any]]

    def __str__(self) -> str:
        return self.name


DIALECTS = (
    Dialect("openai", lambda messages: messages),
    Dialect("anthropic", to_anthropic),
    Dialect("openai_responses", to_responses),
    Dialect("gemini", to_gemini),
    Dialect("pydantic_ai", to_pydantic_ai),
)


every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


class Plain:
    """A format of somebody else's, which takes apart and puts together, and no more."""

    name = "plain"

    def __init__(self) -> None:
        openai = get_format("openai")
        self.parts, self.keep = openai.parts, openai.keep


class Told(Adapter[Any]):
    """Usage as a host's messages tell it: by the ordinal of the answer, in an order that is drawn."""

    def __init__(self, messages: Sequence[Any], usages: Sequence[int]) -> None:
        self._usages: dict[int, int] = {}
        if usages:
            for number, message in enumerate(messages):
                self._usages[id(message)] = usages[number % len(usages)]

    def usage(self, message: Any) -> int:
        return self._usages.get(id(message), 0)


class Log(list[Event]):
    """A listener that keeps what it is told."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer_message(text: str | None = None, *calls: tuple[str, str, object]) -> dict[str, Any]:
    """An answer in a chat, with calls as (id, tool, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    for call_id, tool, arguments in calls:
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function = {"name": tool, "arguments": written}
        message.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
    return message


def result(call_id: str, text: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def turns(count: int) -> Session:
    """Turns of the user, each with a long answer."""
    session: Session = []
    for number in range(count):
        session += [user(f"Turn {number}."), answer_message("x" * 400)]
    return session


def place_results(session: Session) -> Session:
    """The session with every result right after the message that made its call, as providers want it."""
    results = {message["tool_call_id"]: message for message in session if message["role"] == "tool"}
    written: Session = []
    for message in session:
        if message["role"] != "tool":
            calls = {call["id"]: call for call in message.get("tool_calls") or ()}  # each id once, as providers want it
            written.append({**message, "tool_calls": [*calls.values()]} if calls else message)
            for call in calls.values():
                late = {"role": "tool", "tool_call_id": call["id"], "content": "late"}
                written.append(results.get(call["id"], late))
    return written


@st.composite
def histories(draw: st.DrawFn, *, tasks: bool = False) -> Session:
    """Sessions of chat messages in which every call is answered at once; the model may know of tasks (R17)."""
    return place_results(draw(sessions(tasks=tasks)))


def is_answer(name: str, message: Any) -> bool:
    return is_from_model(get_format(name).parts(message))


def is_from_model(parts: Sequence[Part]) -> bool:
    """Whether a model made these parts of a message."""
    return any(part.kind in (Kind.TEXT, Kind.REASONING, Kind.CALL) for part in parts)


def fresh(messages: Sequence[Any]) -> list[Any]:
    """Equal messages that are other objects, as read from somewhere else."""
    return copy.deepcopy(list(messages))


def window_after(name: str, messages: Sequence[Any], budget: int, policy: Policy, usage: Adapter[Any]) -> ContextWindow:
    """The window of a loop that does nothing but call the core: what a conversation must come to."""
    format_ = get_format(name)
    window, transcript = ContextWindow(budget, policy), Transcript(format_)
    for message in messages:
        if is_answer(name, message):
            window.fit()
            if usage.usage(message) >= 0.5 * counted_tokens(window):
                window.observe(usage.usage(message))
        window.extend(transcript.append(message))
    window.fit()
    return window


def counted_tokens(window: ContextWindow) -> float:
    """What the request that just went out holds by our own count."""
    state = window.export()["accounting"]
    return float(state["items"] + state["overhead"])


def live(conversation: Conversation[Any], messages: Sequence[Any], known: int = 0) -> None:
    """Ingest a history step by step as a run makes it grow, with a request ahead of each answer and one at the end."""
    for stop in range(known, len(messages)):
        if is_from_model(conversation.format.parts(messages[stop])):
            conversation.host.ingest(messages[:stop])
            conversation.request()
        conversation.host.ingest(messages[: stop + 1])
    conversation.host.ingest(messages)
    conversation.request()


def standing(conversation: Conversation[Any]) -> dict[str, Any]:
    """All that makes two conversations the same."""
    view = conversation.request().view
    return {
        "window": json.loads(json.dumps(conversation.window.export())),
        "view": parts_of(conversation, view),
        "episodes": [(e.name, e.type, e.level, e.closed, e.spans) for e in conversation.episodes],
        "tokens": conversation.tokens,
        "evicted": conversation.evicted,
    }


def parts_of(conversation: Conversation[Any], messages: Sequence[Any]) -> list[Part]:
    return [part for message in messages for part in conversation.format.parts(message)]
