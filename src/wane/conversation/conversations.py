"""Several conversations, told apart by their content, for hosts that give them no ids."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol

from wane.conversation.conversation import Conversation
from wane.conversation.tool_calls import NO_VERDICTS, Call, calls_of
from wane.core.errors import HistoryError
from wane.formats.message_format import MessageT, is_answer

KEPT_STATES: Final = 8
"""States kept of one conversation, by default."""

_MOST_BUSY: Final = 10  # times the limit


class States(Protocol):
    """Stores states of conversations by the digests of their histories."""

    def find(self, digests: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the state of the first of these digests that is known."""
        ...

    def put(self, state: Mapping[str, Any]) -> None:
        """Store a state by its `digest`."""
        ...

    def drop(self, digest: str) -> None:
        """Delete a state."""
        ...


class StatesInMemory:
    """Stores states in memory.

    Args:
        limit: the most states; the least recently used one is deleted first.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self._limit = limit
        self._states: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def find(self, digests: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the state of the first of these digests that is known."""
        for digest in digests:
            if digest in self._states:
                self._states.move_to_end(digest)
                return self._states[digest]
        return None

    def put(self, state: Mapping[str, Any]) -> None:
        """Store a state by its `digest`."""
        self._states[state["digest"]] = state
        self._states.move_to_end(state["digest"])
        if len(self._states) > self._limit:
            self._states.popitem(last=False)

    def drop(self, digest: str) -> None:
        """Delete a state."""
        self._states.pop(digest, None)


@dataclass(eq=False, slots=True)
class _CachedConversation(Generic[MessageT]):
    """A conversation in memory.

    Attributes:
        conversation: the conversation.
        states: digests of its states, oldest first.
        answer: the host's objects of its latest answer.
        ended: whether that answer calls no tool.
    """

    conversation: Conversation[MessageT]
    states: deque[str] = field(default_factory=deque)
    answer: Sequence[object] = ()
    ended: bool = False

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited, or the results of its calls."""
        return self.conversation.asked and not self.ended


class Conversations(Generic[MessageT]):
    """Finds the conversation that a history continues, or begins a new one.

    Args:
        make: makes a conversation.
        limit: the most conversations in memory besides those that wait for an answer; the least recently used one is
            dropped first.
        states: where `save` stores states, so that another process continues with the same view; None for memory only.
        kept: number of states kept of one conversation; with more, a history may continue from an earlier message.
        on_unreadable: called with the error for a stored state that cannot be read. The history is enough to go on.
    """

    def __init__(
        self,
        make: Callable[[], Conversation[MessageT]],
        limit: int = 100,
        states: States | None = None,
        *,
        kept: int = KEPT_STATES,
        on_unreadable: Callable[[HistoryError], object] | None = None,
    ) -> None:
        self._make = make
        self._on_unreadable = on_unreadable
        self._limit = limit
        self._kept = kept
        self._states: States = StatesInMemory() if states is None else states
        self._all: list[_CachedConversation[MessageT]] = []  # the latest last

    def __len__(self) -> int:
        return len(self._all)

    def of(self, history: Sequence[Any]) -> Conversation[MessageT]:
        """Take in a history, and return its conversation.

        That is the conversation that shares most of the history and has nothing else. A history that leaves a known one
        after an answer, or goes on without the answer that is awaited, gets a branch, because both may continue. A
        history that comes again while its answer is awaited gets a conversation of its own.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for a message that no provider would accept.
        """
        fresh = self._make()
        messages = fresh.host.read(history)
        shared, cached = self._nearest(messages)
        if cached is not None and _leaves(messages, shared, cached.conversation):
            cached.ended = True  # it may be dropped; if its answer does come, `judge_answer` brings it back
            cached = _CachedConversation(cached.conversation.branch(shared))
        else:
            nearest = fresh if cached is None else cached.conversation
            stored = self._states.find(nearest.host.digests(messages))
            if stored is not None and self._restore(fresh, stored, messages):
                cached = _CachedConversation(fresh, deque([stored["digest"]]))
        if cached is None:
            cached = _CachedConversation(fresh)
        conversation = cached.conversation
        if conversation is not fresh and not conversation.host.ingest(messages).added and conversation.asked:
            state = {**conversation.state(), "verdicts": NO_VERDICTS}  # they belong to the awaited answer
            if fresh.restore(state, messages):
                cached = _CachedConversation(fresh)
        cached.conversation.host.ingest(messages)
        cached.ended = False
        self._use(cached)
        return cached.conversation

    def judge_answer(
        self, conversation: Conversation[MessageT], calls: Sequence[Call[Any]], answer: Sequence[object]
    ) -> None:
        """Judge the calls of an answer that is not in the history yet; see `Host.foresee`.

        Args:
            conversation: the answer's conversation.
            calls: all calls of the answer, in order.
            answer: objects of the host by which `answering` recognises the answer.
        """
        conversation.host.foresee(calls)
        cached = self._find_cached(conversation)
        cached.answer = answer
        cached.ended = not calls

    def answering(self, call: Call[Any], made_by: object) -> Conversation[MessageT] | None:
        """Return the conversation whose latest answer made a call; None if that is uncertain.

        Args:
            call: the call.
            made_by: an object that was passed to `judge_answer`. If it is unknown, only the call's id counts,
                which is not always enough: some servers number the calls of each conversation alike.
        """
        for cached in reversed(self._all):
            if any(made_answer is made_by for made_answer in cached.answer):
                return cached.conversation
        makers = [cached.conversation for cached in self._all if cached.conversation.host.has_made(call)]
        return makers[0] if len(makers) == 1 else None

    def save(self, conversation: Conversation[MessageT]) -> None:
        """Store the state of a conversation, once its latest request was answered."""
        state = conversation.state()
        cached = self._find_cached(conversation)
        self._states.put(state)
        if state["digest"] not in cached.states:
            cached.states.append(state["digest"])
        if len(cached.states) > self._kept:
            self._states.drop(cached.states.popleft())

    def _restore(self, conversation: Conversation[MessageT], state: Mapping[str, Any], messages: Sequence[Any]) -> bool:
        try:
            return conversation.restore(state, messages)
        except HistoryError as error:
            if self._on_unreadable is not None:
                self._on_unreadable(error)
            return False

    def _find_cached(self, conversation: Conversation[MessageT]) -> _CachedConversation[MessageT]:
        cached = _CachedConversation(conversation)
        for entry in self._all:
            if entry.conversation is conversation:
                cached = entry
        self._use(cached)
        return cached

    def _use(self, cached: _CachedConversation[MessageT]) -> None:
        """Make a conversation the latest, even one that was dropped while it waited for an answer."""
        others = [entry for entry in self._all if entry is not cached]
        idle = [entry for entry in others if not entry.busy]
        dropped = idle[: max(0, len(others) + 1 - self._limit)]
        staying = [entry for entry in others if entry not in dropped]
        # An answer may never come, so that the number of busy conversations is limited, too.
        self._all = [*staying[1 - _MOST_BUSY * self._limit :], cached]

    def _nearest(self, messages: Sequence[MessageT]) -> tuple[int, _CachedConversation[MessageT] | None]:
        """Return the number of messages that a history shares with the nearest conversation, and that conversation."""
        rows = [(cached.conversation.host.shares(messages), cached) for cached in self._all]
        most = max((shared for shared, _ in rows), default=0)
        if not most:
            return 0, None
        best = [cached for shared, cached in rows if shared == most]
        # Prefer conversations with nothing else, and among these the one that made the calls that come next.
        exact = [cached for cached in best if cached.conversation.length == most]
        best = exact or best
        if len(best) > 1:
            calls = calls_of(best[0].conversation.format, messages[most : most + 1])
            makers = [cached for cached in best if any(map(cached.conversation.host.has_made, calls))]
            best = makers or best
        return most, best[-1]


def _leaves(messages: Sequence[MessageT], shared: int, conversation: Conversation[MessageT]) -> bool:
    """Whether a history leaves a conversation after the shared messages, or lacks the answer that it waits for."""
    if shared < conversation.length:
        return True
    if not conversation.asked or shared == len(messages):
        return False
    parts = conversation.format.parts(messages[shared])
    # A message without parts is an empty answer (`Format.parts`).
    return bool(parts) and not is_answer(parts)
