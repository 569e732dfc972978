"""The user's turns in the history of a session: where each begins, and what happened in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from wane.formats.notices import is_notice


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A turn of the user's.

    Attributes:
        words: the user's words; the output of a command of theirs is not among them (R15).
        first: number of its first message: that of the words, or of such output right ahead of them.
        messages: its messages.
    """

    words: str
    first: int
    messages: Sequence[ModelMessage]


def turns_of(history: Sequence[ModelMessage]) -> list[UserTurn]:
    """Return the user's turns, in order."""
    begins: list[tuple[int, str]] = []
    for number, message in enumerate(history):
        words = _words_of(message)
        if words is not None:
            begins.append((_with_notices(history, number), words))
    turns: list[UserTurn] = []
    for at, (first, words) in enumerate(begins):
        stop = begins[at + 1][0] if at + 1 < len(begins) else len(history)
        turns.append(UserTurn(words, first, history[first:stop]))
    return turns


def _words_of(message: ModelMessage) -> str | None:
    """Return the user's words in a message; None if it has no turn of theirs."""
    if not isinstance(message, ModelRequest):
        return None
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            text = next((text for text in content if isinstance(text, str) and text.strip()), "")
            if not is_notice(text):
                return text
    return None


def _with_notices(history: Sequence[ModelMessage], number: int) -> int:
    """Return the number of the first of the notices that stand right ahead of a message; its own if there are none."""
    while number and all(isinstance(part, UserPromptPart) for part in history[number - 1].parts):
        earlier = history[number - 1]
        if not isinstance(earlier, ModelRequest) or _words_of(earlier) is not None:
            break
        number -= 1
    return number
