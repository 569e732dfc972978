"""Tool calls: open calls, calls for the host to run, and the answers to calls of Wane's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic

from wane.conversation.adapter import Prepared
from wane.conversation.history import MessageHistory
from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError
from wane.formats.fields import shown_text
from wane.formats.message_format import Format, MessageT, Part, writes, writing

NOT_A_CALL: Final = (
    "Error: `delimiter` marks the conversation, so it works only as a tool call of its own in a message."
)
"""Answer to a call that is not in the model's latest answer."""

NO_VERDICTS: Final[Mapping[str, Any]] = {"by_id": {}, "left": []}
"""The export of empty `Verdicts`."""


@dataclass(frozen=True, slots=True)
class Call(Generic[MessageT]):
    """A call of a tool.

    Attributes:
        name: the tool's name.
        arguments: its arguments, usually the raw JSON text that the model wrote.
        id: the provider's id of the call; None if the framework does not give it.
    """

    name: str
    arguments: Any = ""
    id: str | None = None
    _write: Callable[[object], MessageT] | None = field(default=None, repr=False, compare=False)

    def result(self, output: object) -> MessageT:
        """Return the message that answers the call, to be appended to the conversation.

        Args:
            output: the tool's output: text as it is, and so a list of contents of the provider's own, such as images
                or references to tools; anything else as JSON.

        Raises:
            ConfigError: for a call that no conversation returned.
        """
        if self._write is None:
            raise ConfigError(f"the call of {self.name!r} is not from a conversation, so it has no result message")
        return self._write(output)

    @property
    def raw(self) -> str:
        """The arguments as JSON text."""
        return shown_text(self.arguments)


def calls_of(format: Format[MessageT], messages: Iterable[MessageT]) -> list[Call[MessageT]]:  # noqa: A002
    """Return the calls of an answer, in order, for `Host.foresee`."""
    calls: list[Call[MessageT]] = []
    for message in messages:
        parts = [part for part in format.parts(message) if part.kind is Kind.CALL]
        calls += [Call(part.tool or "", part.arguments or "", part.call_id) for part in parts]
    return calls


@dataclass(slots=True)
class _Verdict:
    """The verdict on one `delimiter` call of an answer."""

    position: int
    id: str | None
    arguments: str
    text: str


class Verdicts:
    """The verdicts on the `delimiter` calls of the latest answer, found by id, arguments or order.

    A verdict found by arguments or order is given only once, also across threads.

    Attributes:
        foreseen: whether that answer is not in the history yet.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._forget_answer()

    def _forget_answer(self) -> None:
        self._answer: list[_Verdict] = []  # all verdicts on the latest answer
        self._unused: dict[int, _Verdict] = {}  # by position, those that `find` may still give
        self.foreseen = False
        self._ahead: list[str] = []  # arguments of its `delimiter` calls, if so
        self._ids: set[str] = set()  # ids of all its calls, if so

    def take(self, parts: Sequence[Part], texts: Iterable[str | None], open_calls: Collection[str]) -> None:
        """Take in an answer that is in the history now.

        Args:
            parts: its parts.
            texts: for each part, the verdict's text if it is a `delimiter` call.
            open_calls: ids of all calls without a result.
        """
        verdicts: list[_Verdict] = []
        for part, text in zip(parts, texts, strict=True):
            if text is not None:
                verdicts.append(_Verdict(len(verdicts), part.call_id, normalise_arguments(part.arguments), text))
        unused = {verdict.position: verdict for verdict in verdicts}
        if self.foreseen and [v.arguments for v in verdicts] == [v.arguments for v in self._answer]:
            # The answer is the foreseen one: what was given for it is not given again.
            unused = {position: verdict for position, verdict in unused.items() if position in self._unused}
        self._by_id = {call_id: text for call_id, text in self._by_id.items() if call_id in open_calls}
        self._by_id |= {v.id: v.text for v in verdicts if v.id is not None}
        self._forget_answer()
        self._answer = verdicts
        self._unused = unused

    def foresee(self, calls: Sequence[Call[Any]], judge: Callable[[list[str]], list[str]]) -> None:
        """Judge the calls of an answer that is not in the history yet; call it again for more calls of that answer.

        Args:
            calls: all its calls, in order.
            judge: returns the verdicts' texts for the next `delimiter` calls, from their raw arguments.
        """
        if not self.foreseen:
            self._forget_answer()
            self.foreseen = bool(calls)
        judged_ids = {v.id for v in self._answer if v.id is not None}
        new = [call for call in calls if call.id is None or call.id not in judged_ids]
        marks = [call for call in new if call.name == DELIMITER]
        earlier = len(self._ahead)
        self._ahead += [call.raw for call in marks]
        texts = judge(self._ahead)[earlier:]
        for call, text in zip(marks, texts, strict=True):
            verdict = _Verdict(len(self._answer), call.id, normalise_arguments(call.raw), text)
            self._answer.append(verdict)
            self._unused[verdict.position] = verdict
            if verdict.id is not None:
                self._by_id[verdict.id] = verdict.text
        self._ids.update(call.id for call in new if call.id is not None)

    def forget_foreseen(self) -> None:
        """Forget a foreseen answer, because it never arrived and another request is made."""
        if self.foreseen:
            self._forget_answer()

    def knows(self, call_id: str) -> bool:
        """Whether a call of this id was judged, or foreseen."""
        return call_id in self._by_id or call_id in self._ids

    def find(self, call: Call[Any]) -> str:
        """Return the answer to a call."""
        if call.id is not None and call.id in self._by_id:
            for verdict in self._answer:
                if verdict.id == call.id:
                    self._unused.pop(verdict.position, None)
            return self._by_id[call.id]
        if call.id is not None and self._by_id:
            return NOT_A_CALL
        unused = list(self._unused.values())
        arguments = normalise_arguments(call.raw)
        same_arguments = [verdict for verdict in unused if verdict.arguments == arguments]
        for verdict in same_arguments or unused:
            # Another thread may have taken it.
            if self._unused.pop(verdict.position, None) is not None:
                return verdict.text
        return NOT_A_CALL

    def export(self) -> dict[str, Any]:
        """Return the verdicts that may still be given, as JSON data."""
        rows = [[v.position, v.id, v.arguments, v.text] for v in self._unused.values()]
        return {"by_id": dict(self._by_id), "left": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `export` returned."""
        self._by_id = dict(state["by_id"])
        self._answer = [_Verdict(*row) for row in state["left"]]
        self._unused = {verdict.position: verdict for verdict in self._answer}


def normalise_arguments(raw: str | None) -> str:
    """Return arguments in a normal form: frameworks reorder them, and pass missing ones as null."""
    try:
        value = json.loads(raw or "")
    except (ValueError, RecursionError):
        return (raw or "").strip()
    if isinstance(value, dict):
        value = {key: entry for key, entry in value.items() if entry is not None}
    return json.dumps(value, sort_keys=True)


class WaitingCalls(Generic[MessageT]):
    """Own calls without a result, which the conversation answers itself.

    Attributes:
        calls: the calls in order, each with the verdict's text if it is a `delimiter` call.
    """

    def __init__(self, format: Format[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self.calls: list[tuple[Call[MessageT], str | None]] = []

    def note(
        self,
        answer: Prepared[MessageT],
        texts: Iterable[str | None],
        open_calls: Collection[str],
        own: Collection[str],
    ) -> None:
        """Take in the own calls of an answer.

        Args:
            answer: the answer.
            texts: for each of its parts, the verdict's text if it is a `delimiter` call.
            open_calls: ids of all calls without a result.
            own: names of the own tools.
        """
        for position, (part, text) in enumerate(zip(answer.parts, texts, strict=True)):
            # A call answered within its message was run by the provider.
            if part.kind is Kind.CALL and part.tool in own and part.call_id in open_calls:
                self.calls.append((_call(self._format, answer.message, position, part), text))

    def take_over(self, calls: Iterable[Call[MessageT]], results: Iterable[Part]) -> None:
        """Take over own calls with their results from the history that this one branches off.

        Args:
            calls: the calls.
            results: results of that history. If several have the id of a call, the first counts.
        """
        texts: dict[str | None, str] = {}
        for part in results:
            texts.setdefault(part.call_id, part.text)
        self.calls += [(call, texts[call.id]) for call in calls if call.id in texts]

    def forget_answered(self, parts: Sequence[Part]) -> None:
        """Forget own calls whose results the host gives."""
        ids = {part.call_id for part in parts if part.kind is Kind.RESULT}
        if ids:
            self.calls = [(call, text) for call, text in self.calls if call.id not in ids]

    def take_open(self, open_calls: Collection[str]) -> Iterator[tuple[Call[MessageT], str | None]]:
        """Yield the own calls without a result, in order, each once; with the verdict's text for a `delimiter` call."""
        while self.calls:
            call, text = self.calls[0]
            if call.id in open_calls:
                yield call, text
            del self.calls[0]  # not before it is answered


def find_open_calls(history: MessageHistory[MessageT], first: int = 0) -> list[Call[MessageT]]:
    """Return the calls from a message on that have no result yet, in order, except those that the provider runs.

    Args:
        history: the history.
        first: the message's number.
    """
    remaining = history.engine.window.open_calls
    format_, messages = history.format, history.transcript.messages
    latest_first: list[Call[MessageT]] = []
    for number in range(len(messages) - 1, first - 1, -1):
        if not remaining:
            break
        for position, part in reversed([*enumerate(history.parts_of(number))]):
            # If an id is reused, the earlier call was answered first.
            if part.kind is Kind.CALL and part.call_id in remaining:
                remaining[part.call_id] -= 1
                if not remaining[part.call_id]:
                    del remaining[part.call_id]
                if not writes(format_) or format_.awaits(messages[number], position):
                    latest_first.append(_call(format_, messages[number], position, part))
    return latest_first[::-1]


def _call(format: Format[MessageT], message: MessageT, position: int, part: Part) -> Call[MessageT]:  # noqa: A002
    return Call(part.tool or "", part.arguments or "", part.call_id, partial(_result, format, message, position))


def _result(format: Format[MessageT], message: MessageT, position: int, output: object) -> MessageT:  # noqa: A002
    writer = writing(format, "a result")
    if isinstance(output, str):
        return writer.result(message, position, output)
    contents = writer.read_contents(output)
    text = json.dumps(output, ensure_ascii=False, default=str) if contents is None else ""
    return writer.result(message, position, contents or text)
