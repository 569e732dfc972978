"""Several conversations, identified by their content, for hosts that do not name them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol

from wane.conversation.calls import NO_VERDICTS, Call, calls_of
from wane.conversation.conversation import Conversation
from wane.formats.base import MessageT

KEPT_STATES: Final = 8
"""States kept of one conversation, by default."""


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

    def find(self, digests: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the state of the first of these digests that is known."""
        known = next((digest for digest in digests if digest in self._states), None)
        if known is None:
            return None
        self._states.move_to_end(known)
        return self._states[known]

    def put(self, state: Mapping[str, Any]) -> None:
        """Store a state by its `digest`."""
        self._states[state["digest"]] = state
        self._states.move_to_end(state["digest"])
        if len(self._states) > self._limit:
            self._states.popitem(last=False)

    def drop(self, digest: str) -> None:
        """Delete a state."""
        self._states.pop(digest, None)


class Conversations(Generic[MessageT]):
    """Finds the conversation that a history continues, or begins a new one.

    Args:
        make: makes a conversation.
        limit: the most conversations in memory; the least recently used one is dropped first.
        states: where `save` stores states, so that another process continues with the same view; None for memory only.
        kept: states kept of one conversation; with more, a history may continue from an earlier message.
    """

    def __init__(
        self,
        make: Callable[[], Conversation[MessageT]],
        limit: int = 100,
        states: States | None = None,
        *,
        kept: int = KEPT_STATES,
    ) -> None:
        self._make = make
        self._limit = limit
        self._kept = kept
        self._states: States = StatesInMemory() if states is None else states
        self._all: list[Conversation[MessageT]] = []  # the latest last
        self._saved: dict[int, deque[str]] = {}  # by the id of each, digests of its states

    def __len__(self) -> int:
        return len(self._all)

    def of(self, history: Sequence[Any]) -> Conversation[MessageT]:
        """Return the conversation of a history, after it took in the history.

        It is the one that shares most of the history and has nothing else. If the history leaves a known one after an
        answer, it gets a branch, because both may continue. If the same history comes again while its answer is
        awaited, it gets a conversation of its own.

        Raises:
            FormatError: for a message of another format.
            HistoryError: for a message that no provider would accept.
        """
        other = self._make()
        messages = other.read(history)
        shared, conversation = self._nearest(messages)
        if conversation is not None and shared < conversation.length:
            conversation = conversation.branch(shared)
        elif state := self._states.find((conversation or other).digests(messages)):
            conversation = other if other.restore(state, messages) else conversation
        if conversation is None:
            conversation = other
        elif conversation is not other and not conversation.ingest(messages).added and conversation.asked:
            state = {**conversation.state(), "verdicts": NO_VERDICTS}  # they belong to the awaited answer
            conversation = other if other.restore(state, messages) else conversation
        conversation.ingest(messages)
        self._all = [each for each in self._all if each is not conversation][-self._limit + 1 :]
        self._all.append(conversation)
        return conversation

    def answering(self, call: Call[Any]) -> Conversation[MessageT] | None:
        """Return the conversation whose latest answer made a call, by the call's id; None if none did."""
        return next((each for each in reversed(self._all) if each.made(call)), None)

    def save(self, conversation: Conversation[MessageT]) -> None:
        """Store the state of a conversation, once its latest request was answered."""
        state = conversation.state()
        self._states.put(state)
        saved = self._saved.setdefault(id(conversation), deque())
        if state["digest"] not in saved:
            saved.append(state["digest"])
        if len(saved) > self._kept:
            self._states.drop(saved.popleft())
        known = set(map(id, self._all))
        self._saved = {key: digests for key, digests in self._saved.items() if key in known}

    def _nearest(self, messages: Sequence[MessageT]) -> tuple[int, Conversation[MessageT] | None]:
        """The conversation that shares most with a history, and how many messages."""
        rows = [(each.shares(messages), each) for each in self._all]
        most = max((shared for shared, _ in rows), default=0)
        if not most:
            return 0, None
        best = [each for shared, each in rows if shared == most]
        # Prefer those with nothing else, and of these the one that made the calls that come next.
        best = [each for each in best if each.length == most] or best
        if len(best) > 1:
            calls = calls_of(best[0].format, messages[most : most + 1])
            best = [each for each in best if any(map(each.made, calls))] or best
        return most, best[-1]
