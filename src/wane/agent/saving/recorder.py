"""From what happens in a session to its journal, in the journal's order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

from wane.agent.costs import Totals, usage_record
from wane.conversation.events import (
    Event,
    HistoryForked,
    HistoryReplaced,
    MessageTaken,
    OverheadChanged,
    PassRan,
    StrategyActed,
    UsageObserved,
)
from wane.core.errors import JournalError
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.journal import (
    SPENT_NOTE,
    AnnotationRecord,
    ConfigRecord,
    Journal,
    MarkedMessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    StrategyRecord,
    model_calls,
)
from wane.journal.codec import encode
from wane.strategies.base import ANNOTATED

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

    from wane.conversation import Conversation


class Recorder:
    """Listens to a conversation, writes its journal and adds up what was spent.

    A record that cannot be written is kept, and with it all that come after it: the order on disk is the
    order of events, whatever fails. `flush` tries again and raises; a session does so before each model call.

    Args:
        journal: where to write; None keeps nothing.
        conversation: whose events it listens to.
        totals: what was spent before.
        instructions: the instructions that the journal's last request was sent with.
        tool_classes: the user's tool classes, for the settings on record.
    """

    def __init__(
        self,
        journal: Journal | None,
        conversation: Conversation[ModelMessage],
        *,
        totals: Totals | None = None,
        instructions: str | None = None,
        tool_classes: Mapping[str, str] | None = None,
    ) -> None:
        self.totals = totals or Totals()
        self._journal = journal
        self._conversation = conversation
        self._instructions = instructions
        self._tool_classes = dict(tool_classes or {})
        self._format = PydanticAIFormat()
        self._waiting: deque[Record] = deque()
        self._broken: str | None = None
        self._observed: object = None  # the latest answer whose usage anchors the count
        conversation.listeners.append(self._take)

    def config(self, *, unless: ConfigRecord | None = None) -> None:
        """Record the settings that are in force from here on, unless they are those of a record that is there."""
        conversation, window = self._conversation, self._conversation.window
        record = ConfigRecord(
            budget=window.budget,
            policy=window.policy,
            tool_classes=self._tool_classes,
            overhead=window.overhead,
            managed=conversation.manage and conversation.strategy in ANNOTATED,
        )
        if unless is None or record != replace(unless, at=None):
            self._add(record)

    def note(self, topic: str, **data: Any) -> None:
        """Record what does not change the view, such as a model switch."""
        self._add(NoteRecord(topic, data))

    def spent(self, usage: RequestUsage, model: str) -> None:
        """Record what a model call took that tells nothing of the view, such as one for a summary."""
        record = usage_record(usage, model, items=0, input_tokens=usage.input_tokens)
        self.totals = self.totals.plus(record)
        data = encode(record)
        self.note(SPENT_NOTE, **{name: data[name] for name in data if name not in ("at", "items")})

    def flush(self) -> None:
        """Write what is waiting and have it on the disk.

        Raises:
            JournalError: if it cannot be written; it is kept.
        """
        self._drain()
        if self._broken is not None:
            raise JournalError(self._broken)
        if self._journal is not None:
            self._journal.commit()

    def _take(self, event: Event) -> None:
        match event:
            case MessageTaken(message, _, _, added):
                if isinstance(message, ModelResponse) and message is not self._observed and message.usage.input_tokens:
                    self.spent(message.usage, _model_of(message))  # a report that is not believed
                self._add(MarkedMessageRecord.of(self._dumped(message), added))
                for annotation in map(AnnotationRecord.of, added):
                    if annotation is not None:
                        self._add(annotation)
            case UsageObserved(tokens, items, ModelResponse() as message):
                record = usage_record(message.usage, _model_of(message), items=items, input_tokens=tokens)
                self._observed, self.totals = message, self.totals.plus(record)
                self._add(record)
            case PassRan(report, items):
                self._add(PassRecord.of(report, items))
            case StrategyActed(strategy, items, done) if done is not None:
                self._add(StrategyRecord(items, strategy, dict(done)))
            case OverheadChanged():
                self.config()
            case HistoryForked() | HistoryReplaced():
                # A journal only grows. Nothing in the agent rewrites its history, so this is a fault of ours or of a
                # capability; what is on disk stays right.
                self._broken = "the history was rewritten, so the session cannot be recorded further; start a new one"

    def _add(self, record: Record) -> None:
        if self._journal is None or self._broken is not None:
            return
        self._waiting.append(record)
        with suppress(JournalError):  # `flush` says so, where it can end the turn
            self._drain()

    def _drain(self) -> None:
        while self._journal is not None and self._waiting:
            self._journal.append(self._waiting[0])
            self._waiting.popleft()

    def _dumped(self, message: ModelMessage) -> Mapping[str, Any]:
        # Each request says the whole instructions, which seldom change: on record they stand where they do.
        if isinstance(message, ModelRequest):
            if message.instructions == self._instructions:
                message = replace(message, instructions=None)
            elif message.instructions is not None:
                self._instructions = message.instructions
        dumped: Mapping[str, Any] = self._format.dump([message])[0]
        return dumped


def spent_before(records: Iterable[Record]) -> Totals:
    """Return what the model calls of a session took, by its records."""
    totals = Totals()
    for record in model_calls(records):
        totals = totals.plus(record)
    return totals


def _model_of(response: ModelResponse) -> str:
    """The model that answered, as `provider:model`."""
    return ":".join(filter(None, (response.provider_name, response.model_name)))
