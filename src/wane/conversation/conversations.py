"""Several conversations, identified by their content, for hosts that do not name them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol

from wane.conversation.calls import NO_VERDICTS, Call, calls_of
from wane.conversation.conversation import Conversation
from wane.core.errors import HistoryError
from wane.formats.base import MessageT, is_answer

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
        stored_digest = next((digest for digest in digests if digest in self._states), None)
        if stored_digest is None:
            return None
        self._states.move_to_end(stored_digest)
        return self._states[stored_digest]

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
        limit: the most conversations in memory besides those whose answer is awaited; the least recently used one is
            dropped first.
        states: where `save` stores states, so that another process continues with the same view; None for memory only.
        kept: states kept of one conversation; with more, a history may continue from an earlier message.
        on_unreadable: called with the error of a stored state that cannot be read. The history is enough to go on.
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
        """Return the conversation of a history, after it took in the history.

        It is the one that shares most of the history and has nothing else. If the history leaves a known one after an
        answer, or goes on without the answer that it awaits, it gets a branch, because both may continue. If the same
        history comes again while its answer is awaited, it gets a conversation of its own.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for a message that no provider would accept.
        """
        fresh = self._make()
        messages = fresh.host.read(history)
        shared, cached = self._nearest(messages)
        if cached is not None and _leaves(messages, shared, cached.conversation):
            cached.ended = True  # it may be dropped; if its answer does come, `answered` brings it back
            cached = _CachedConversation(cached.conversation.branch(shared))
        elif state := self._states.find((cached.conversation if cached else fresh).host.digests(messages)):
            restored = self._restored(fresh, state, messages)
            cached = _CachedConversation(fresh, deque([state["digest"]])) if restored else cached
        if cached is None:
            cached = _CachedConversation(fresh)
        conversation = cached.conversation
        if conversation is not fresh and not conversation.host.ingest(messages).added and conversation.asked:
            state = {**conversation.state(), "verdicts": NO_VERDICTS}  # they belong to the awaited answer
            cached = _CachedConversation(fresh) if fresh.restore(state, messages) else cached
        cached.conversation.host.ingest(messages)
        cached.ended = False
        self._use(cached)
        return cached.conversation

    def answered(
        self, conversation: Conversation[MessageT], calls: Sequence[Call[Any]], answer: Sequence[object]
    ) -> None:
        """Judge the calls of an answer that is not in the history yet; see `Host.foresee`.

        Args:
            conversation: whose answer it is.
            calls: all its calls, in order.
            answer: objects of the host by which `answering` knows it again.
        """
        conversation.host.foresee(calls)
        cached = self._cached(conversation)
        cached.answer, cached.ended = answer, not calls

    def answering(self, call: Call[Any], made_by: object) -> Conversation[MessageT] | None:
        """Return the conversation whose latest answer made a call; None if that cannot be told for sure.

        Args:
            call: the call.
            made_by: an object that `answered` was given. If it is not known, the call's id must be enough: some servers
                number the calls of each conversation alike.
        """
        for cached in reversed(self._all):
            if any(made_answer is made_by for made_answer in cached.answer):
                return cached.conversation
        makers = [cached.conversation for cached in self._all if cached.conversation.host.made(call)]
        return makers[0] if len(makers) == 1 else None

    def save(self, conversation: Conversation[MessageT]) -> None:
        """Store the state of a conversation, once its latest request was answered."""
        state, cached = conversation.state(), self._cached(conversation)
        self._states.put(state)
        if state["digest"] not in cached.states:
            cached.states.append(state["digest"])
        if len(cached.states) > self._kept:
            self._states.drop(cached.states.popleft())

    def _restored(
        self, conversation: Conversation[MessageT], state: Mapping[str, Any], messages: Sequence[Any]
    ) -> bool:
        try:
            return conversation.restore(state, messages)
        except HistoryError as error:
            if self._on_unreadable is not None:
                self._on_unreadable(error)
            return False

    def _cached(self, conversation: Conversation[MessageT]) -> _CachedConversation[MessageT]:
        entry = next((cached for cached in self._all if cached.conversation is conversation), None)
        cached = entry or _CachedConversation(conversation)
        self._use(cached)
        return cached

    def _use(self, cached: _CachedConversation[MessageT]) -> None:
        """Make a conversation the latest, also one that was dropped while its answer was awaited."""
        others = [entry for entry in self._all if entry is not cached]
        idle = [entry for entry in others if not entry.busy]
        gone = idle[: max(0, len(others) + 1 - self._limit)]
        # An answer that is awaited may never come.
        staying = [entry for entry in others if entry not in gone][1 - _MOST_BUSY * self._limit :]
        self._all = [*staying, cached]

    def _nearest(self, messages: Sequence[MessageT]) -> tuple[int, _CachedConversation[MessageT] | None]:
        """The conversation that shares most with a history, and how many messages."""
        rows = [(cached.conversation.host.shares(messages), cached) for cached in self._all]
        most = max((shared for shared, _ in rows), default=0)
        if not most:
            return 0, None
        best = [cached for shared, cached in rows if shared == most]
        # Prefer those with nothing else, and of these the one that made the calls that come next.
        best = [cached for cached in best if cached.conversation.length == most] or best
        if len(best) > 1:
            calls = calls_of(best[0].conversation.format, messages[most : most + 1])
            best = [cached for cached in best if any(map(cached.conversation.host.made, calls))] or best
        return most, best[-1]


def _leaves(messages: Sequence[MessageT], shared: int, conversation: Conversation[MessageT]) -> bool:
    """Whether a history leaves a conversation after the first messages, or does not have the answer that it awaits."""
    if shared < conversation.length:
        return True
    coming = messages[shared : shared + 1]
    # A message without parts is an empty answer (`Format.parts`).
    parts = [part for message in coming for part in conversation.format.parts(message)]
    return conversation.asked and bool(parts) and not is_answer(parts)
