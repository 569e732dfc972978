"""The front of a conversation for a framework that keeps the history and runs the tools."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic

from wane.conversation.alignment import Change
from wane.conversation.calls import Call, WaitingCalls
from wane.conversation.common import Common, answer_within, back_to, serialised
from wane.conversation.events import HistoryForked, HistoryReplaced
from wane.conversation.scopes import stamp
from wane.core import DELIMITER, RECALL
from wane.formats.base import MessageT, writes
from wane.recall import answer
from wane.strategies.host import Scope


class Host(Generic[MessageT]):
    """Takes in the history that a framework keeps, and answers own calls that the framework runs as tools.

    Get it from `Conversation.host`.
    """

    def __init__(self, common: Common[MessageT]) -> None:
        self._common = common

    @property
    def owner(self) -> object:
        """The object whose scopes concern the conversation (`wane.conversation.scopes`)."""
        return self._common.owner

    @owner.setter
    def owner(self, owner: object) -> None:
        self._common.owner = owner

    @property
    def persons(self) -> set[str]:
        """Ids of calls whose results a person gave (R21), as the framework says; add an id before its result comes in.

        Conversations may share the set.
        """
        return self._common.setup.persons

    @persons.setter
    def persons(self, call_ids: set[str]) -> None:
        self._common.setup.persons = call_ids
        self._common.line.transcript.person_calls.told = call_ids

    @property
    def marks(self) -> bool:
        """Whether the program marks episodes (R18)."""
        return self._common.line.engine.host is not None

    @property
    def worker(self) -> Scope | None:
        """The episode or task of the agent that asks the model; it lasts until another agent asks (R18)."""
        return self._common.worker

    @worker.setter
    def worker(self, scope: Scope | None) -> None:
        self._common.worker = scope

    @property
    def stamp(self) -> list[dict[str, Any]] | None:
        """The scopes of the latest request as JSON data, for its answer to carry; None if the program marks nothing.

        An adapter whose framework merges histories puts it in the answer, and reads it by `Adapter.scopes`.
        """
        return stamp(self._common.asked_in) if self.marks else None

    def read(self, data: Sequence[Any]) -> Sequence[MessageT]:
        """Return the messages of the host's data, which for `openai_responses` may be a flat list of items."""
        return self._common.setup.read(data)

    @serialised
    def ingest(self, history: Sequence[Any]) -> Change:
        """Take in what is new in a whole history.

        The history may continue the known one, or an earlier message of it (a fork, a changed message), and then
        evictions up to that message persist. It may also be another history. The conversation does not answer its own
        calls here: the framework runs the tools, and they call `answer`.

        Raises:
            FormatError: for a message of another format; nothing is changed then.
            HistoryError: for a message that no provider would accept; nothing is changed then.
        """
        common = self._common
        messages = common.setup.read(history)
        common.hosted = True
        alignment = common.known.align(messages)
        line = common.line
        length = len(line.transcript.messages)
        shared = common.known.taken(alignment.kept)
        fresh = alignment.fresh
        if shared < length:
            line, shared = back_to(line, shared, common.setup)
            fresh = fresh if shared else messages
        prepared = line.prepare(fresh, check=True, first=len(messages) - len(fresh))
        for number, message in common.known.renewed(alignment):
            if number < shared:
                line.renew(number, message)
        common.known.accept(messages, alignment, prepared)
        if line is not common.line:
            common.line = line
            common.waiting = WaitingCalls(common.format)
            common.digest.forget()
            common.setup.events.append(HistoryForked(shared) if shared else HistoryReplaced())
        for ready in prepared:
            if ready is not None:
                common.take(ready)
        common.tell()
        return Change(shared, length - shared, len(fresh))

    @serialised
    def shares(self, history: Sequence[Any]) -> int:
        """Return how many first messages a history shares with the conversation's; 0 if no answer is among them."""
        known = self._common.known
        shared = known.taken(known.align(self._common.setup.read(history)).kept)
        return shared if answer_within(self._common.line, shared) else 0

    @serialised
    def digests(self, history: Sequence[Any]) -> list[str]:
        """Return the digests (`state()["digest"]`) of the beginnings of a history that continues the conversation's.

        Returns:
            One digest for each message after the known ones, that of the longest beginning first.
        """
        common = self._common
        messages, known = common.setup.read(history), common.line.transcript.messages
        common.digest.of(known, len(known))  # computed once for all known messages
        digest = copy(common.digest)
        digests = [digest.of(messages, count) for count in range(len(known) + 1, len(messages) + 1)]
        return digests[::-1]

    @property
    def alternating(self) -> bool:
        """Whether turns of the user and answers without calls take turns in the whole history (R12b)."""
        return self._common.line.transcript.alternating

    def wire(
        self, view: Sequence[MessageT], reminder: str | None = None, *, alternating: bool | None = None
    ) -> list[Any]:
        """Return the messages of a request in the provider's form.

        Args:
            view: the messages, of the format.
            reminder: a note to the model at their end.
            alternating: whether roles take turns in all that a request without eviction would hold, which they then
                do here (R12b); None to go by the history.
        """
        format_ = self._common.format
        if not writes(format_):
            return list(view)
        if alternating is None:
            alternating = self.alternating
        messages = format_.join_roles(view) if alternating else list(view)
        if reminder is not None:
            messages = format_.with_note(messages, reminder, alternating=alternating)
        return format_.wire(messages)

    # Own calls

    @serialised
    def made(self, call: Call[Any]) -> bool:
        """Whether a call belongs to the latest answer, foreseen or in the history, by its id."""
        common = self._common
        return call.id is not None and (common.verdicts.knows(call.id) or call.id in common.window.open_calls)

    @serialised
    def foresee(self, calls: Sequence[Call[Any]]) -> None:
        """Judge the own calls of an answer that is not in the history yet, as they will be judged there.

        Args:
            calls: all calls of the answer, in order: `Call(name, arguments, id)`. The answer may come in several parts,
                with a call of this method for each.
        """
        common = self._common

        def judge(arguments: Sequence[str]) -> list[str]:
            recalls = common.settings.recall
            return [verdict.answer(recall=recalls) for verdict in common.window.foresee(arguments)]

        common.verdicts.foresee(calls, judge)

    @serialised
    def answer(self, call: Call[Any]) -> str:
        """Return the result of an own call of the latest answer, foreseen or in the history. A bad call raises nothing.

        The verdict on a `delimiter` call is found by the call's id; without an id, by its arguments, or else as the
        next one in order. By arguments or order, each verdict is given only once, also across threads.

        Args:
            call: its name, its arguments as text or as the framework parsed them, and its id if known.
        """
        if call.name == RECALL:
            return answer(call.raw, self._common.line.archive)
        if call.name != DELIMITER:
            return f"Error: {call.name!r} is not a tool of this conversation; the program that offers it must run it."
        return self._common.verdicts.find(call)
