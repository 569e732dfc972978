"""Events of the OpenHands SDK that a model is shown, one message to an answer.

An answer with several calls is several events, which `llm_response_id` holds together; here it is one message, the
tuple of these events. Every other event is a message by itself.

| event | item of Wane |
|---|---|
| `SystemPromptEvent` | system |
| `MessageEvent` of the user, the summary of an earlier condenser | user, or a notice |
| `MessageEvent` of the environment, such as a hook's | notice |
| `MessageEvent` of the agent | reasoning, text |
| `ActionEvent`s of one answer | reasoning, text, a call for each |
| `ObservationEvent`, `UserRejectObservation`, `AgentErrorEvent` | result |

Needs the `openhands` extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wane.core import Kind
from wane.core.errors import FormatError, MissingExtraError
from wane.formats.base import Located, NativeFormat, Part, couple_reasoning, turn_part
from wane.formats.openai import NON_TEXT_TOKENS
from wane.formats.values import sealed_tokens, type_name

try:
    from openhands.sdk import ImageContent, TextContent
    from openhands.sdk import Message as ModelMessage
    from openhands.sdk.event import (
        ActionEvent,
        AgentErrorEvent,
        CondensationSummaryEvent,
        LLMConvertibleEvent,
        MessageEvent,
        SystemPromptEvent,
    )
    from openhands.sdk.event.llm_convertible import ObservationBaseEvent
except ImportError as error:
    raise MissingExtraError("wane.formats.frameworks.openhands", "openhands") from error

Message: TypeAlias = tuple[LLMConvertibleEvent, ...]
"""The events of one answer, or one other event."""

_NO_REASONING: Final[Mapping[str, Any]] = {
    "reasoning_content": None,
    "thinking_blocks": [],
    "responses_reasoning_item": None,
}


class OpenHandsFormat(NativeFormat[Message]):
    """Events of the OpenHands SDK."""

    name = "openhands"

    def located(self, message: Message) -> list[Located[int]]:
        """Take a message apart, as the table at the top of this module says; each part with the position of its event.

        Raises:
            FormatError: for an event that no model is shown.
        """
        first = message[0]
        if isinstance(first, ActionEvent) or _is_agents(first):
            return _answer(message)
        if not isinstance(first, LLMConvertibleEvent):
            raise FormatError(f"an event must be one that a model is shown, found {type_name(first)}")
        text, extra = _text_of(first)
        if isinstance(first, ObservationBaseEvent):
            return [(0, Part(Kind.RESULT, text, call_id=first.tool_call_id, extra_tokens=extra))]
        if isinstance(first, SystemPromptEvent):
            return [(0, Part(Kind.SYSTEM, text))]
        if first.source != "user" and not isinstance(first, CondensationSummaryEvent):
            return [(0, Part(Kind.NOTICE, text, extra_tokens=extra))]
        return [(0, turn_part(text, extra))]

    def keep(self, message: Message, positions: Sequence[int]) -> Message:
        """Return the message with only some of its parts. The first of its events tells what the answer told."""
        located = self.located(message)
        kinds = {located[position][1].kind for position in positions}
        calls = [message[located[position][0]] for position in positions if located[position][1].kind is Kind.CALL]
        update = {} if Kind.REASONING in kinds else dict(_NO_REASONING)
        first = message[0]
        if not isinstance(first, ActionEvent):
            assert isinstance(first, MessageEvent)
            if Kind.TEXT not in kinds:
                update["content"] = []
            return (first.model_copy(update={"llm_message": first.llm_message.model_copy(update=update)}),)
        fields = {name: getattr(first, name) for name in _NO_REASONING} | update
        thought = list(first.thought) if Kind.TEXT in kinds else []
        if calls:
            return (calls[0].model_copy(update={**fields, "thought": thought}), *calls[1:])
        answer = ModelMessage(role="assistant", content=thought, **fields)
        return (MessageEvent(id=first.id, source="agent", llm_message=answer, llm_response_id=first.llm_response_id),)

    def read(self, data: Sequence[Any]) -> list[Message]:
        """Return the messages of events, one to an answer.

        The result of a call that is malformed may stand between the calls of its answer. It goes behind them, where
        providers want it.
        """
        messages: list[Message] = []
        places: dict[str, int] = {}
        for event in data:
            if isinstance(event, tuple):
                messages.append(event)
            elif isinstance(event, ActionEvent) and event.llm_response_id in places:
                messages[places[event.llm_response_id]] += (event,)
            else:
                if isinstance(event, ActionEvent):
                    places[event.llm_response_id] = len(messages)
                messages.append((event,))
        return messages

    def wire(self, messages: Sequence[Message]) -> list[Any]:
        """Return the events of messages."""
        return [event for message in messages for event in message]

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Any:
        """Return the definition of a tool, as the SDK sends it."""
        return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(schema)}}

    def turn(self, text: str) -> Message:
        """Return a message of the user."""
        return (MessageEvent(source="user", llm_message=ModelMessage(role="user", content=[TextContent(text=text)])),)

    def result(self, message: Message, position: int, text: str) -> Message:
        """Return the message that answers a call."""
        call = self.parts(message)[position]
        return (AgentErrorEvent(tool_name=call.tool or "", tool_call_id=call.call_id or "", error=text),)

    def cleared(self, message: Message, position: int, text: str) -> Message:  # noqa: ARG002 - it has one part
        """Return a message with a text in place of a result's content."""
        event = message[0]
        assert isinstance(event, ObservationBaseEvent)
        return (AgentErrorEvent(id=event.id, tool_name=event.tool_name, tool_call_id=event.tool_call_id, error=text),)


def _is_agents(event: object) -> bool:
    return isinstance(event, MessageEvent) and event.llm_message.role == "assistant"


def _answer(message: Message) -> list[Located[int]]:
    first = message[0]
    answer: Any = first.llm_message if isinstance(first, MessageEvent) else first
    parts = list(_reasoning(answer))
    signed = any(not hasattr(block, "signature") or block.signature for block in answer.thinking_blocks or ())
    named = answer.responses_reasoning_item is not None
    sealed = {0: named} if parts and (signed or named) else {}
    content = answer.content if isinstance(first, MessageEvent) else answer.thought
    if text := "\n".join(entry.text for entry in content if isinstance(entry, TextContent)):
        parts.append(Part(Kind.TEXT, text))
    located = [(0, part) for part in parts]
    for location, event in enumerate(message):
        if isinstance(event, ActionEvent):
            raw = event.tool_call.arguments
            located.append((location, Part(Kind.CALL, call_id=event.tool_call_id, tool=event.tool_name, arguments=raw)))
    return couple_reasoning(located, sealed)


def _reasoning(answer: Any) -> Iterator[Part]:
    """The reasoning of an answer as one part: the SDK tells it several times, for different providers."""
    blocks, item = answer.thinking_blocks or (), answer.responses_reasoning_item
    text = answer.reasoning_content or "\n".join(getattr(block, "thinking", "") for block in blocks)
    if item is not None:
        text = text or "\n".join([*item.summary, *(item.content or ())])
    if text or blocks or item is not None:
        seals = [getattr(block, "data", "") for block in blocks] + ([item.encrypted_content] if item else [])
        extra = 0 if text else max(1, sum(sealed_tokens(seal, 0) for seal in seals))
        yield Part(Kind.REASONING, text, extra_tokens=extra)


def _text_of(event: LLMConvertibleEvent) -> tuple[str, int]:
    """The text of an event, and the estimate for its images."""
    content = event.to_llm_message().content
    texts = [entry.text for entry in content if isinstance(entry, TextContent)]
    images = sum(len(entry.image_urls) for entry in content if isinstance(entry, ImageContent))
    return "\n".join(texts), images * NON_TEXT_TOKENS
