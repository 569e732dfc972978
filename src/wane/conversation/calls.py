"""Tool calls: those without a result, those for the host to run, and the answers to calls of Wane's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from wane.conversation.view import writing
from wane.core import DELIMITER, Kind
from wane.core.errors import ConfigError, HistoryError
from wane.formats.base import Format, MessageT, Part
from wane.formats.writing import WritingFormat

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
        if isinstance(self.arguments, str):
            return self.arguments
        return "" if self.arguments is None else json.dumps(self.arguments, ensure_ascii=False, default=str)


def calls_of(format: Format[MessageT], messages: Iterable[MessageT]) -> list[Call[MessageT]]:  # noqa: A002
    """Return the calls of an answer, in order, for `Conversation.foresee`."""
    parts = (part for message in messages for part in format.parts(message))
    return [Call(part.tool or "", part.arguments or "", part.call_id) for part in parts if part.kind is Kind.CALL]


class OpenCalls:
    """Calls without a result yet, by id. An id may be reused, even before its call is answered.

    Args:
        counts: number of open calls by id.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._counts

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def copy(self) -> OpenCalls:
        """Return an independent copy."""
        return OpenCalls(self._counts)

    def pair(self, parts: Iterable[Part]) -> None:
        """Take in calls and results, in their order.

        Raises:
            HistoryError: for a result that answers no open call.
        """
        for part in parts:
            if part.call_id is None:
                continue
            if part.kind is Kind.CALL:
                self._counts[part.call_id] = self._counts.get(part.call_id, 0) + 1
            elif part.kind is Kind.RESULT:
                self._close(part.call_id)

    def answering(self, parts: Sequence[Part]) -> list[int]:
        """Take in calls and results; return the positions of all parts except results that answer no open call."""
        kept = []
        for position, part in enumerate(parts):
            if part.kind is not Kind.RESULT or part.call_id in self._counts:
                self.pair([part])
                kept.append(position)
        return kept

    def _close(self, call_id: str) -> None:
        left = self._counts.get(call_id, 0)
        if not left:
            raise HistoryError(
                f"a result answers the call {call_id!r}, but no open call before it has that id: it is an orphan, or "
                "the call was answered already"
            )
        if left == 1:
            del self._counts[call_id]
        else:
            self._counts[call_id] = left - 1


@dataclass(slots=True)
class _Verdict:
    """The verdict on one `delimiter` call of an answer.

    Attributes:
        position: position among the answer's calls.
        id: the call's id.
        arguments: its arguments in normal form.
        text: the tool result for the model.
    """

    position: int
    id: str | None
    arguments: str
    text: str


class Verdicts:
    """The verdicts on the `delimiter` calls of the latest answer, found by id, position, arguments or order.

    A verdict found by arguments or order is given only once, also across threads.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._left: dict[int, _Verdict] = {}
        self._answer: list[_Verdict] = []  # all of the latest answer
        self._foreseen = 0  # calls of an answer that is not in the history yet
        self._ahead: list[Any] = []  # arguments of its `delimiter` calls
        self._ids: set[str] = set()  # ids of all its calls

    def taken(
        self,
        judged: Iterable[tuple[int, str | None, str | None, str]],
        open_ids: Iterable[str],
        *,
        more: bool = False,
    ) -> None:
        """Take in the `delimiter` calls of an answer that is in the history now.

        Args:
            judged: for each its position among the answer's calls, its id, its raw arguments, and the verdict's text.
            open_ids: ids of calls without a result.
            more: whether these belong to the same answer as the last ones.
        """
        if more:
            at = len(self._answer)
            judged = [
                *((v.position, v.id, v.arguments, v.text) for v in self._answer),
                *((at + n, *it[1:]) for n, it in enumerate(judged)),
            ]
        verdicts = [_Verdict(at, id_, _normalised(raw), text) for at, id_, raw, text in judged]
        same = [v.arguments for v in verdicts] == [v.arguments for v in self._answer] and self._foreseen > 0
        given = [v.position not in self._left for v in self._answer] if same else [False] * len(verdicts)
        self._by_id = {id_: self._by_id[id_] for id_ in open_ids if id_ in self._by_id}
        self._by_id |= {v.id: v.text for v in verdicts if v.id is not None}
        self._answer = verdicts
        self._left = {v.position: v for v, gone in zip(verdicts, given, strict=True) if not gone}
        self._foreseen, self._ahead, self._ids = 0, [], set()

    def foresee(self, calls: Sequence[Call[Any]], judge: Callable[[list[str]], list[str]]) -> None:
        """Judge the calls of an answer that is not in the history yet; call it again for more of the same answer.

        Args:
            calls: all its calls, in order.
            judge: returns the verdicts' texts for the next `delimiter` calls, from their raw arguments.
        """
        if not self._foreseen:
            self._answer, self._left = [], {}
        known = {v.id for v in self._answer if v.id is not None}
        new = [call for call in calls if call.id is None or call.id not in known]
        marks = [call.raw for call in new if call.name == DELIMITER]
        texts = iter(judge([*self._ahead, *marks])[len(self._ahead) :])
        self._ahead += marks
        for call in new:
            if call.name == DELIMITER:
                verdict = _Verdict(self._foreseen, call.id, _normalised(call.raw), next(texts))
                self._answer.append(verdict)
                self._left[verdict.position] = verdict
                if verdict.id is not None:
                    self._by_id[verdict.id] = verdict.text
            self._foreseen += 1
            if call.id is not None:
                self._ids.add(call.id)

    def dropped(self) -> None:
        """Forget the foreseen answer, because it never arrived and another request is made."""
        if self._foreseen:
            self._answer, self._left, self._foreseen, self._ahead, self._ids = [], {}, 0, [], set()

    def knows(self, call_id: str) -> bool:
        """Whether a call of this id was judged, or foreseen."""
        return call_id in self._by_id or call_id in self._ids

    def find(self, call: Call[Any], position: int | None = None) -> str:
        """Return the answer to a call."""
        known = call.id is not None and call.id in self._by_id
        named = [v for v in self._answer if (v.id == call.id if known else v.position == position)]
        for verdict in named:
            self._left.pop(verdict.position, None)
        if known:
            return self._by_id[call.id or ""]
        if named:
            return named[0].text
        if call.id is not None and self._by_id:
            return NOT_A_CALL
        left, normalised = list(self._left.values()), _normalised(call.raw)
        for verdict in [v for v in left if v.arguments == normalised] or left:
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


def _normalised(raw: str | None) -> str:
    """Arguments in normal form: frameworks reorder them, and pass missing ones as null."""
    try:
        value = json.loads(raw or "")
    except (ValueError, RecursionError):
        return (raw or "").strip()
    if isinstance(value, dict):
        value = {key: entry for key, entry in value.items() if entry is not None}
    return json.dumps(value, sort_keys=True)


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
