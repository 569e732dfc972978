"""Tool calls: those without a result, those for the host to run, and the answers to calls of Wane's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic

from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError
from wane.formats.base import Format, MessageT, Part, writes, writing
from wane.formats.values import shown_text

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
    _write: Callable[[str], MessageT] | None = field(default=None, repr=False, compare=False)

    def result(self, output: object) -> MessageT:
        """Return the message that answers the call, to be appended to the conversation.

        Args:
            output: the tool's output: text as it is, anything else as JSON.

        Raises:
            ConfigError: for a call that no conversation returned.
        """
        if self._write is None:
            raise ConfigError(f"the call of {self.name!r} is not from a conversation, so it has no result message")
        return self._write(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str))

    @property
    def raw(self) -> str:
        """The arguments as JSON text."""
        return shown_text(self.arguments)


def calls_of(format: Format[MessageT], messages: Iterable[MessageT]) -> list[Call[MessageT]]:  # noqa: A002
    """Return the calls of an answer, in order, for `Host.foresee`."""
    parts = (part for message in messages for part in format.parts(message))
    return [Call(part.tool or "", part.arguments or "", part.call_id) for part in parts if part.kind is Kind.CALL]


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
    """

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._left: dict[int, _Verdict] = {}
        self._answer: list[_Verdict] = []  # all of the latest answer
        self._foreseen = False  # whether that answer is not in the history yet
        self._ahead: list[Any] = []  # arguments of its `delimiter` calls
        self._ids: set[str] = set()  # ids of all its calls

    def taken(self, parts: Sequence[Part], texts: Iterable[str | None], open_calls: Collection[str]) -> None:
        """Take in an answer that is in the history now.

        Args:
            parts: its parts.
            texts: for each part, the verdict's text if it is a `delimiter` call.
            open_calls: ids of all calls without a result.
        """
        marks = [(part, text) for part, text in zip(parts, texts, strict=True) if text is not None]
        verdicts = [
            _Verdict(position, part.call_id, normalised(part.arguments), text)
            for position, (part, text) in enumerate(marks)
        ]
        same = self._foreseen and [v.arguments for v in verdicts] == [v.arguments for v in self._answer]
        used = [v.position not in self._left for v in self._answer] if same else [False] * len(verdicts)
        self._by_id = {call_id: text for call_id, text in self._by_id.items() if call_id in open_calls}
        self._by_id |= {v.id: v.text for v in verdicts if v.id is not None}
        self._answer = verdicts
        self._left = {v.position: v for v, gone in zip(verdicts, used, strict=True) if not gone}
        self._foreseen, self._ahead, self._ids = False, [], set()

    def foresee(self, calls: Sequence[Call[Any]], judge: Callable[[list[str]], list[str]]) -> None:
        """Judge the calls of an answer that is not in the history yet; call it again for more of the same answer.

        Args:
            calls: all its calls, in order.
            judge: returns the verdicts' texts for the next `delimiter` calls, from their raw arguments.
        """
        if not self._foreseen:
            self._answer, self._left, self._foreseen = [], {}, bool(calls)
        judged_ids = {v.id for v in self._answer if v.id is not None}
        new = [call for call in calls if call.id is None or call.id not in judged_ids]
        marks = [call.raw for call in new if call.name == DELIMITER]
        texts = iter(judge([*self._ahead, *marks])[len(self._ahead) :])
        self._ahead += marks
        for call in new:
            if call.name == DELIMITER:
                verdict = _Verdict(len(self._answer), call.id, normalised(call.raw), next(texts))
                self._answer.append(verdict)
                self._left[verdict.position] = verdict
                if verdict.id is not None:
                    self._by_id[verdict.id] = verdict.text
            if call.id is not None:
                self._ids.add(call.id)

    def dropped(self) -> None:
        """Forget the foreseen answer, because it never arrived and another request is made."""
        if self._foreseen:
            self._answer, self._left, self._foreseen, self._ahead, self._ids = [], {}, False, [], set()

    def knows(self, call_id: str) -> bool:
        """Whether a call of this id was judged, or foreseen."""
        return call_id in self._by_id or call_id in self._ids

    def find(self, call: Call[Any]) -> str:
        """Return the answer to a call."""
        if call.id is not None and call.id in self._by_id:
            for verdict in self._answer:
                if verdict.id == call.id:
                    self._left.pop(verdict.position, None)
            return self._by_id[call.id]
        if call.id is not None and self._by_id:
            return NOT_A_CALL
        unused, arguments = list(self._left.values()), normalised(call.raw)
        for verdict in [v for v in unused if v.arguments == arguments] or unused:
            # Another thread may have taken it.
            if self._left.pop(verdict.position, None) is not None:
                return verdict.text
        return NOT_A_CALL

    def export(self) -> dict[str, Any]:
        """Return the verdicts that are left, as JSON data."""
        rows = [[v.position, v.id, v.arguments, v.text] for v in self._left.values()]
        return {"by_id": dict(self._by_id), "left": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `export` returned."""
        self._by_id = dict(state["by_id"])
        self._answer = [_Verdict(*row) for row in state["left"]]
        self._left = {verdict.position: verdict for verdict in self._answer}


def normalised(raw: str | None) -> str:
    """Return arguments in normal form: frameworks reorder them, and pass missing ones as null."""
    try:
        value = json.loads(raw or "")
    except (ValueError, RecursionError):
        return (raw or "").strip()
    if isinstance(value, dict):
        value = {key: entry for key, entry in value.items() if entry is not None}
    return json.dumps(value, sort_keys=True)


class WaitingCalls(Generic[MessageT]):
    """Own calls without a result yet, which the conversation answers itself."""

    def __init__(self, format: Format[MessageT]) -> None:  # noqa: A002 - the field's word
        self._format = format
        self._own: list[tuple[Call[MessageT], str | None]] = []

    @property
    def ids(self) -> list[str | None]:
        """The ids of the calls, in order."""
        return [call.id for call, _ in self._own]

    def note(
        self,
        message: MessageT,
        parts: Sequence[Part],
        texts: Iterable[str | None],
        open_calls: Collection[str],
        own: Collection[str],
    ) -> None:
        """Take in the own calls of an answer."""
        for position, (part, text) in enumerate(zip(parts, texts, strict=True)):
            # A call answered within its message was run by the provider.
            if part.kind is Kind.CALL and part.tool in own and part.call_id in open_calls:
                self._own.append((_call(self._format, message, position, part), text))

    def take_over(self, calls: Iterable[Call[MessageT]], results: Iterable[Part]) -> None:
        """Take over own calls with their results, from a history from which this one branches.

        Args:
            calls: the calls.
            results: the results of that history. If several have the id of a call, the first counts.
        """
        texts: dict[str | None, str] = {}
        for part in results:
            texts.setdefault(part.call_id, part.text)
        self._own += [(call, texts[call.id]) for call in calls if call.id in texts]

    def answered(self, parts: Sequence[Part]) -> None:
        """Forget own calls whose results come with the history."""
        ids = {part.call_id for part in parts if part.kind is Kind.RESULT}
        if ids:
            self._own = [(call, text) for call, text in self._own if call.id not in ids]

    def own(self, open_calls: Collection[str]) -> Iterator[tuple[Call[MessageT], str | None]]:
        """Yield the own calls without a result, in order, each once; with the verdict's text for a `delimiter` call."""
        while self._own:
            call, text = self._own[0]
            if call.id in open_calls:
                yield call, text
            del self._own[0]  # not before it is answered


def still_open(
    format: Format[MessageT],  # noqa: A002 - the field's word
    messages: Sequence[MessageT],
    open_calls: Mapping[str, int],
    first: int = 0,
) -> list[Call[MessageT]]:
    """Return the calls of a history that have no result yet, in order, except those that the provider runs."""
    remaining, open_in_order = dict(open_calls), list[Call[MessageT]]()
    for number in range(len(messages) - 1, first - 1, -1):
        if not remaining:
            break
        message = messages[number]
        for position, part in reversed([*enumerate(format.parts(message))]):
            # If an id is reused, the earlier call was answered first.
            if part.kind is Kind.CALL and part.call_id in remaining:
                remaining[part.call_id] -= 1
                if not remaining[part.call_id]:
                    del remaining[part.call_id]
                if not writes(format) or format.awaits(message, position):
                    open_in_order.append(_call(format, message, position, part))
    return open_in_order[::-1]


def _call(format: Format[MessageT], message: MessageT, position: int, part: Part) -> Call[MessageT]:  # noqa: A002
    return Call(part.tool or "", part.arguments or "", part.call_id, partial(_result, format, message, position))


def _result(format: Format[MessageT], message: MessageT, position: int, text: str) -> MessageT:  # noqa: A002
    return writing(format, "a result").result(message, position, text)
