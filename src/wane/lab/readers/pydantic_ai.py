"""Messages of Pydantic AI, as `ModelMessagesTypeAdapter` or `result.all_messages_json()` write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from wane.core import chars
from wane.core.errors import FormatError
from wane.formats import StoredFormat, get_format
from wane.lab.readers.building.builder import SessionBuilder, builders
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import usage_of
from wane.lab.readers.documents import RecordedChat, Value, chats
from wane.lab.recorded_session import CallUsage, RecordedSession

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse

NAME: Final = "pydantic_ai"
TITLE: Final = "Pydantic AI"

# Pydantic AI sets these on a response whose usage is a sum over several requests.
_NAMESPACE: Final = "__pydantic_ai__"
_SUMMED: Final = ("context_input_tokens", "initial_input_tokens")


def recognises(head: Sequence[object]) -> bool:
    """Return whether JSON values are messages of Pydantic AI, or lists of them."""
    return bool(chats([(None, value) for value in head], _is_message))


def sessions(values: Sequence[Value], name: str, problems: Problems) -> list[RecordedSession]:
    """Return the message lists among JSON values, each as a session; see `DocumentReader`."""
    file_chats = chats(values, _is_message)
    if not file_chats:
        raise FormatError("it holds no messages of Pydantic AI: objects with kind and parts, in a list or one per line")
    numbered = zip(file_chats, builders(name, [NAME] * len(file_chats), problems), strict=True)
    return [_session(chat, builder) for chat, builder in numbered]


def _session(chat: RecordedChat, builder: SessionBuilder) -> RecordedSession:
    message_format: StoredFormat[ModelMessage] = get_format(NAME)
    for number, (line, entry) in enumerate(chat.messages):
        try:
            for message in message_format.load([entry]):
                parts = message_format.parts(message)
                if message.kind == "response":
                    # If a time is missing, the library sets the time of reading.
                    timed = isinstance(entry, dict) and entry.get("timestamp") is not None
                    at = message.timestamp.timestamp() if timed else None
                    builder.settle(line=line)
                    builder.answer(parts, usage=_usage(message), at=at, model=message.model_name, line=line)
                    continue
                if message.instructions and builder.system_tokens is None:
                    builder.system_tokens = chars(message.instructions)
                builder.message(parts, line=line)
        except FormatError as error:
            # The format counts within its input, which is one message.
            what = str(error).removeprefix("message 0: ")
            where = "" if line else f"message {number}: "
            builder.problems.add(line, f"{where}{what}", "a message that cannot be read", unread=True)
    return builder.build()


def _usage(response: ModelResponse) -> CallUsage | None:
    """Return the reported usage; None if there is none, or only a sum over several requests."""
    marks = (response.metadata or {}).get(_NAMESPACE)
    if isinstance(marks, dict) and any(key in marks for key in _SUMMED):
        return None
    usage = response.usage
    return usage_of(
        usage.input_tokens,
        read=usage.cache_read_tokens,
        written=usage.cache_write_tokens,
        hour=usage.cache_write_1h_tokens,
        output=usage.output_tokens or None,
    )


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") in ("request", "response") and "parts" in value
