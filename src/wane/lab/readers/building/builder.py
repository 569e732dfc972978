"""Builds a recorded session part by part, and keeps the promises of `RecordedSession`.

Each result comes after its call, no call has two results, and no two calls have the same id. Recordings break all three
promises: a session is cut in the middle, a provider numbers its calls from 0 in every answer, a crash leaves a result
without its call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from wane.core import Kind, chars
from wane.core.errors import FormatError
from wane.core.items import ASSISTANT
from wane.formats.message_format import Format, NativeFormat, Part, PersonCalls, in_history, is_answer
from wane.formats.vocabulary import LEAVE_OUT
from wane.journal.titles import better_title
from wane.lab.readers.building.content import Content, keeps_text, part_of_size
from wane.lab.readers.building.json_lines import Problems
from wane.lab.readers.building.values import first_words, sound
from wane.lab.recorded_session import (
    CallUsage,
    Compaction,
    ModelCall,
    RecordedEviction,
    RecordedRequest,
    RecordedSession,
)

# Python 3.11 takes five times as long to look up a member of an enumeration as a name.
_CALL: Final = Kind.CALL
_RESULT: Final = Kind.RESULT
_TURNS: Final = frozenset({Kind.USER, Kind.NOTICE})
_OUTPUT: Final = (Kind.TEXT, Kind.REASONING)
"""A tuple, because comparing is quicker than hashing a member of an enumeration."""

UNKNOWN_TOOL: Final = "unknown"
"""The tool of a call whose name was lost."""


class SessionBuilder:
    """Builds one recorded session, and notes what it leaves out in `problems`, which the caller may share.

    A `whole` session keeps all of its text even where only figures are read (`figures_alone`).
    """

    def __init__(self, name: str, source: str, problems: Problems | None = None, *, whole: bool = False) -> None:
        self.problems = Problems() if problems is None else problems
        self.title = ""
        self.cwd: str | None = None
        self.effort = self.version = ""  # of the calls to come
        self.system_tokens: int | None = None
        self.window: int | None = None
        self.context: int | None = None  # tokens of the last call's request and output
        self._inherited = 0  # calls
        self._session = RecordedSession(sound(name), source)
        self._message = -1
        self._said = False  # whether a model has said anything
        self._person_calls = PersonCalls()
        self._keeps_text = whole or keeps_text()
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}  # how often an id was changed
        self._open: dict[str, list[str]] = {}  # by recorded id, the calls without a result, oldest first
        self._answered: set[str] = set()  # recorded ids

    @property
    def position(self) -> int:
        """Number of parts so far, which is the index of the next one."""
        return len(self._session.parts)

    @property
    def user_texts(self) -> list[str]:
        """Texts of the user turns so far."""
        return [part.text for part in self._session.parts if part.kind is Kind.USER]

    @property
    def unanswered(self) -> list[str]:
        """Ids, as recorded, of the calls without a result."""
        return [recorded for recorded, ids in self._open.items() for _ in ids]

    def note_persons(self, calls: Iterable[str]) -> None:
        """Note calls whose results, which are still to come, a person gave (R21)."""
        self._person_calls.told.update(calls)

    def user(self, content: Content, *, notice: bool = False) -> None:
        """Append a user turn, or a notice if the harness wrote it (R15)."""
        self.add(content.part(Kind.NOTICE if notice else Kind.USER))

    def result(self, call_id: str, output: Content, *, failed: object = False, line: int | None = None) -> bool:
        """Append the result of a call, given by its id as recorded; see `add`.

        A call that `failed`, by whatever the recording has for it, shows nothing.
        """
        return self.add(output.part(Kind.RESULT, call_id=call_id, shows_nothing=bool(failed)), line=line)

    def add(self, part: Part, *, line: int | None = None) -> bool:
        """Append a part that no model wrote (system, user, notice or result) as a message of its own.

        Before the first answer, a notice in the system's place is a system item. A result that no call waits for is
        left out and noted as a problem with its line. Returns whether the part was appended.
        """
        if part.kind in ASSISTANT:
            raise ValueError(f"a {part.kind} part belongs to a model call; give it to answer()")
        self._message += 1
        return self._append(in_history([part], answered=self._said) if part.system else [part], line) > 0

    def message(self, parts: Sequence[Part], *, line: int | None = None) -> int:
        """Append a message that no model wrote, and return the position of its first part.

        No provider takes a user turn after a call without its result, so such calls are settled before it.
        """
        if any(part.kind in (Kind.USER, Kind.NOTICE) for part in parts):
            self.settle(line=line, coming={part.call_id or "" for part in parts if part.kind is Kind.RESULT})
        first = self.position
        for part in parts:
            self.add(part, line=line)
        return first

    def answer(
        self,
        parts: Sequence[Part],
        *,
        usage: CallUsage | None = None,
        at: float | None = None,
        model: str | None = None,
        line: int | None = None,
        provider: str = "",
        cost: float | None = None,
        assumed: str = "",
        id: str = "",  # noqa: A002 - the field's word
        samplings: Sequence[tuple[str | None, CallUsage]] = (),
        request: RecordedRequest | None = None,
        further: bool = False,
        inherited: bool = False,
    ) -> None:
        """Append the whole output of one model call, in order.

        It may also hold results of tools that the provider ran, and system parts, such as a provider's replacement for
        everything before. The arguments are those of `ModelCall`; problems name the `line`. Each of `samplings`
        has a usage, and a model unless that is the same.
        """
        self._message += 1
        first = self.position
        for part in parts:
            if part.kind in _TURNS:
                raise ValueError("a user part is no output of a model; give it to add()")
            if part.kind is _CALL:
                # An earlier call with the same id can no longer get its result.
                self._open.pop(part.call_id or "", None)
        self._append(parts, line)
        self._said = self._said or is_answer(parts)
        if usage is not None:
            self.context = usage.total_input + (usage.output or 0)
        sampled_too = [
            ModelCall(first, first, sampled, at, other or model, provider, False, None, id)
            for other, sampled in samplings
        ]
        about = self.effort, self.version, tuple(sampled_too), request, assumed, further
        call = ModelCall(first, self.position, usage, at, model, provider, inherited, cost, id, *about)
        self._session.calls.append(call)

    def compaction(
        self,
        summary: str,
        *,
        first_kept: int | None = None,
        tokens_before: int | None = None,
        tokens_after: int | None = None,
        at: float | None = None,
        quoted: Sequence[str] = (),
    ) -> None:
        """Note that the recording agent compacted its context here; see `Compaction`."""
        first_kept = self.position if first_kept is None else min(max(first_kept, 0), self.position)
        self._session.compactions.append(
            Compaction(
                self.position, sound(summary), first_kept, tokens_before, at, tokens_after, tuple(map(sound, quoted))
            )
        )

    def eviction(self, removed: Sequence[int], client: str, *, at: float | None = None) -> None:
        """Note that a client evicted parts from its view here, given by their indexes; see `RecordedEviction`."""
        freed = sum(self._session.parts[index].tokens(chars) for index in removed)
        before = self.context or 0
        self._session.evictions.append(
            RecordedEviction(self.position, tuple(removed), before, max(0, before - freed), at, client=client)
        )

    def aside(self, call: ModelCall) -> None:
        """Note a model call that wrote a summary, whose parts are not in the history."""
        self._session.asides.append(replace(call, first=self.position, stop=self.position))

    def note_branch(self, waiting: int = 0) -> None:
        """Note that the session branches off here: its calls so far, and `waiting` more, count for another one."""
        self._inherited = len(self._session.calls) + waiting

    def name_unknown(self, message: Any, message_format: Format[Any], line: int | None, where: str = "") -> None:
        """Note content of a message, read by its parts, that its format does not know: only its size is estimated."""
        if not isinstance(message_format, NativeFormat):
            return
        try:
            message_format.check(message, adds_fields=True)
        except FormatError as error:
            self.problems.add(line, f"{where}{str(error).removesuffix(LEAVE_OUT)}", "content of an unknown kind")

    def clear_reasoning(self) -> None:
        """Note that later requests hold none of the reasoning so far; see `RecordedSession.reasoning_cleared`."""
        session = self._session
        since = max(session.reasoning_cleared, default=0)
        if any(part.kind is Kind.REASONING for part in session.parts[since:]):
            session.reasoning_cleared.append(self.position)

    def settle(self, text: str | None = None, *, line: int | None = None, coming: Collection[str] = ()) -> None:
        """Give every call without a result the one that the harness sent in its place.

        Args:
            text: the text of that result, such as "aborted". If None, the text is unknown: the result is empty, and
                noted as a problem.
            line: line of the message before which the result is missing.
            coming: ids, as recorded, of calls whose result comes later.
        """
        for recorded in self.unanswered if self._open else ():
            if recorded in coming:
                continue
            if text is None:
                self.problems.add(line, f"no result of the call {recorded!r}; taken as empty", "no result of a call")
            self.result(recorded, Content(text or ""))

    def entitle(self, words: str) -> None:
        """Take the user's words as the title, unless there is one; one that is a client's command gives way."""
        self.title = better_title(self.title, words if words.strip() else "") or ""

    def sidechain(self, session: RecordedSession) -> None:
        """Add the session of a sub-agent."""
        self._session.sidechains.append(session)

    def build(self) -> RecordedSession:
        """Return the finished session."""
        session = self._session
        turns = (part.text for part in session.parts if part.kind is Kind.USER and part.text.strip())
        session.title = first_words(sound(self.title or reduce(better_title, turns, None) or ""))
        session.cwd = None if self.cwd is None else sound(self.cwd)
        session.system_tokens = self.system_tokens
        session.problems = self.problems.list_sorted()
        session.window = self.window
        session.abandoned = list(self.problems.abandoned)
        session.unread = self.problems.unread
        for number, call in enumerate(session.calls[: self._inherited]):
            session.calls[number] = replace(call, inherited=True)
        return session

    def _append(self, parts: Sequence[Part], line: int | None) -> int:
        """Append the parts of one message, and return how many were accepted."""
        if not self._keeps_text:
            return self._append_sizes(parts, line)
        accepted: dict[int, Part] = {}
        for number, part in enumerate(self._person_calls.mark([*parts])):
            if part.kind is _CALL:
                recorded = part.call_id or ""
                call_id = self._unique(sound(recorded))
                self._open.setdefault(recorded, []).append(call_id)
                accepted[number] = self._take(part if part.tool else replace(part, tool=UNKNOWN_TOOL), call_id)
            elif part.kind is not _RESULT:
                accepted[number] = self._take(part, None)
            elif (answered := self._call_of(part, line)) is not None:
                accepted[number] = self._take(part, answered)
        if len(accepted) < len(parts):
            accepted = _with_needs(accepted)
        self._session.parts += accepted.values()
        self._session.messages += [self._message] * len(accepted)
        return len(accepted)

    def _append_sizes(self, parts: Sequence[Part], line: int | None) -> int:
        """Append parts as `_append` does, but results and output of a model by their size (`figures_alone`)."""
        accepted: list[Part] = []
        for part in parts:
            kind, text = part.kind, part.text
            if kind is _CALL:
                recorded, text = part.call_id or "", f"{part.tool or UNKNOWN_TOOL}{part.arguments or ''}"
                self._open.setdefault(recorded, []).append(recorded)
            elif kind is _RESULT:
                if self._call_of(part, line) is None:
                    continue
            elif kind not in _OUTPUT:
                accepted.append(self._take(part, None))
                continue
            # Half a surrogate pair is as long as what would stand in its place.
            accepted.append(part_of_size(kind, chars(text) + part.extra_tokens))
        self._session.parts += accepted
        self._session.messages += [self._message] * len(accepted)
        return len(accepted)

    def _take(self, part: Part, call_id: str | None) -> Part:
        """Return the part with text that any request can carry, and with its call's id in this session."""
        strings = (part.text, part.tool or "", part.arguments or "")
        if part.call_id == call_id and all(map(str.isascii, strings)):
            return part
        return replace(
            part,
            text=sound(part.text),
            call_id=call_id,
            tool=None if part.tool is None else sound(part.tool),
            arguments=None if part.arguments is None else sound(part.arguments),
        )

    def _call_of(self, part: Part, line: int | None) -> str | None:
        """Return the id of the call that a result answers, or None."""
        recorded = part.call_id or ""
        waiting = self._open.get(recorded)
        if waiting:
            call_id = waiting.pop(0)
            if not waiting:
                del self._open[recorded]
            self._answered.add(recorded)
            return call_id
        if recorded in self._answered:
            self.problems.add(line, f"a second result of the call {recorded!r}", "a second result of a call")
        else:
            self.problems.add(line, f"a result of the unknown call {recorded!r}", "a result of an unknown call")
        return None

    def _unique(self, call_id: str) -> str:
        unique = call_id
        while not unique or unique in self._ids:
            number = self._numbers[call_id] = self._numbers.get(call_id, 1 if call_id else 0) + 1
            unique = f"{call_id or 'call'}#{number}"
        self._ids.add(unique)
        return unique


def builders(name: str, sources: Sequence[str], problems: Problems) -> list[SessionBuilder]:
    """Return a builder for each session of a file, given their formats; several sessions are numbered from 1.

    The first session reports the problems of the file.
    """
    if len(sources) == 1:
        return [SessionBuilder(name, sources[0], problems)]
    numbered = [SessionBuilder(f"{name}-{number}", source) for number, source in enumerate(sources, start=1)]
    numbered[0].problems = problems
    return numbered


def _with_needs(accepted: dict[int, Part]) -> dict[int, Part]:
    """Return the accepted parts of a message with the offsets of their needs adapted (R12)."""
    positions = {number: position for position, number in enumerate(accepted)}
    adapted: dict[int, Part] = {}
    for number, part in accepted.items():
        needed = [positions[number + offset] for offset in part.needs if number + offset in positions]
        adapted[number] = replace(part, needs=tuple(position - positions[number] for position in needed))
    return adapted
