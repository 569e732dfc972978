"""Calls without a result yet, own ones and the host's, in a conversation given message by message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from wane.conversation.calls import Call
from wane.conversation.pairing import OpenCalls
from wane.conversation.view import writing
from wane.core import Kind
from wane.formats.base import Format, MessageT, Part
from wane.formats.writing import WritingFormat


@dataclass(frozen=True, slots=True)
class Due(Generic[MessageT]):
    """A call of an own tool without a result yet.

    Attributes:
        part: the call.
        verdict: the verdict's text, if it is a `delimiter` call.
        write: makes the message with its result from a text.
    """

    part: Part
    verdict: str
    write: Callable[[str], MessageT]


class WaitingCalls(Generic[MessageT]):
    """Calls without a result yet, own ones separate from the host's.

    Args:
        format: the messages' format.
    """

    def __init__(self, format: Format[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._due: list[Due[MessageT]] = []
        self._hosts: list[Call[MessageT]] = []

    def hosts(self, open_calls: OpenCalls) -> list[Call[MessageT]]:
        """Return the calls that the host must answer, in order."""
        self._hosts = [call for call in self._hosts if call.id in open_calls]
        return list(self._hosts)

    def note(
        self,
        message: MessageT,
        parts: Sequence[Part],
        verdicts: Sequence[str | None],
        open_calls: OpenCalls,
        own: Collection[str],
    ) -> list[Call[MessageT]]:
        """Take in the calls of an answer; return the host's calls.

        Args:
            message: the answer.
            parts: its parts.
            verdicts: for each part, the verdict's text if it is a `delimiter` call.
            open_calls: the calls without a result yet.
            own: names of own tools.
        """
        hosts: list[Call[MessageT]] = []
        for position, (part, verdict) in enumerate(zip(parts, verdicts, strict=True)):
            # A call answered within its message was run by the provider.
            if part.kind is not Kind.CALL or part.call_id not in open_calls:
                continue
            if part.tool in own:
                self._due.append(Due(part, verdict or "", self._writer(message, position)))
            elif not isinstance(self._format, WritingFormat) or self._format.awaits(message, position):
                write = self._writer(message, position)
                hosts.append(Call(part.tool or "", part.arguments or "", part.call_id, write))
        self._hosts += hosts
        return hosts

    def answered(self, parts: Sequence[Part]) -> None:
        """Forget own calls whose results come with the history."""
        ids = {part.call_id for part in parts if part.kind is Kind.RESULT}
        if ids:
            self._due = [due for due in self._due if due.part.call_id not in ids]

    def due(self) -> Iterator[Due[MessageT]]:
        """Yield the own calls without a result, in order, each once."""
        while self._due:
            yield self._due.pop(0)

    def forget(self) -> None:
        """Forget all calls, because another history is taken in."""
        self._due, self._hosts = [], []

    def _writer(self, message: MessageT, position: int) -> Callable[[str], MessageT]:
        return lambda text: writing(self._format, "a result").result(message, position, text)
