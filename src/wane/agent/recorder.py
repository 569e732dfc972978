"""Writes a session's journal from the events of its conversation, and keeps to its cost limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_core import to_json
from typing_extensions import override

from wane.account import Account
from wane.agent.faults import BrokenAnswerError, Patience, check_whole
from wane.conversation.events import (
    BudgetChosen,
    EpisodeChosen,
    Event,
    HistoryForked,
    HistoryReplaced,
    MessageTaken,
    OverheadChanged,
    PassRan,
    Reminded,
    StrategyActed,
    UsageObserved,
)
from wane.core.errors import JournalError, WaneError
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.journal import (
    ChoiceRecord,
    ConfigRecord,
    Journal,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Receipts,
    Record,
    ReminderRecord,
    StrategyRecord,
    UsageRecord,
    spent_note,
)
from wane.journal.records import Layer
from wane.money import dollars
from wane.prices import TokenUsage, cost_of

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.usage import UsageBase

    from wane.conversation import Conversation


class Recorder:
    """Writes a conversation's events to a journal, if there is one, and adds up what model calls cost.

    A record that cannot be written waits, and so do all that come after it, so that the order on disk is the order of
    events. `flush` tries again and raises; a session calls it before each model call.

    Attributes:
        account: what the session's model calls took, and those of `spent` before.
        unpriced: whether a whole answer of this start has no known cost.
    """

    def __init__(
        self, journal: Journal | None, conversation: Conversation[ModelMessage], spent: Account | None = None
    ) -> None:
        records = journal.contents.records if journal else ()
        self.account = Account.of(records) + (spent or Account())
        self.unpriced = False
        self._journal = journal
        self._conversation = conversation
        # Each request carries all instructions. They seldom change, so they are recorded only where they do.
        requests = (message for message in reversed(conversation.messages) if isinstance(message, ModelRequest))
        instructions = (request.instructions for request in requests)
        self._instructions = next((text for text in instructions if text is not None), None)
        self._format = PydanticAIFormat()
        self._receipts = Receipts()
        self._receipts.follow(records)
        self._waiting: deque[Record] = deque()
        self._broken: str | None = None
        self._observed: object = None  # the latest response whose usage was taken as the size of the view
        conversation.listeners.append(self._record)

    def config(self, *, unless: ConfigRecord | None = None) -> None:
        """Record the settings that hold from here on, unless they equal an earlier record's."""
        record = self._conversation.log.config
        if record != unless:
            self._add(record)

    def note(self, topic: str, **data: Any) -> None:
        """Record something that does not change the view, such as a model switch."""
        self._add(NoteRecord(topic, data))

    def record_request(self, body: bytes, url: str, layer: Layer = "http") -> None:
        """Record a request that is about to be sent; see `RequestRecord`."""
        if self._journal is not None:
            self._add(self._receipts.of(body, url, layer=layer))

    def record_spending(self, usage: UsageBase, model: str) -> None:
        """Record a model call whose usage says nothing about the view, such as one for a summary."""
        record = usage_record(usage, model, items=0, input_tokens=usage.input_tokens)
        self.account += Account.of([record])
        self.unpriced = self.unpriced or record.cost is None
        self._add(spent_note(record))

    def check_whole(self, model_name: str, answer: ModelResponse) -> None:
        """Check that an answer has come to its end, as `faults.check_whole` does, and record it if it has not."""
        try:
            check_whole(model_name, answer)
        except BrokenAnswerError:
            self.broke_off(answer)
            raise

    def broke_off(self, answer: ModelResponse) -> None:
        """Record a call whose answer broke off, with the usage reported so far; its cost is not known."""
        record = _call_record(replace(answer, state="interrupted"), 0, answer.usage.input_tokens)
        self.account += Account.of([record])
        self._add(spent_note(record))

    def _record_call(self, message: ModelResponse, items: int, tokens: int) -> None:
        record = _call_record(message, items, tokens)
        self.account += Account.of([record])
        self.unpriced = self.unpriced or (message.state != "interrupted" and record.cost is None)
        self._add(record)

    def flush(self) -> None:
        """Write the waiting records and sync the file to disk.

        Raises:
            JournalError: if a record cannot be written; it keeps waiting.
        """
        self._write()
        if self._broken is not None:
            raise JournalError(self._broken)
        if self._journal is not None:
            self._journal.commit()

    def _record(self, event: Event) -> None:
        match event:
            case MessageTaken(message, _, _, added):
                if isinstance(message, ModelResponse) and message is not self._observed:
                    # There was no report, or the conversation did not trust it as the size of the view.
                    self._record_call(
                        message, self._conversation.window.item_count - len(added), message.usage.input_tokens
                    )
                self._add(MessageRecord.of(self._dump_message(message), added))
            case UsageObserved(tokens, items, ModelResponse() as message):
                self._observed = message
                self._record_call(message, items, tokens)
            case PassRan(report, items):
                self._add(PassRecord.of(report, items))
            case StrategyActed(strategy, items, done) if done is not None:
                self._add(StrategyRecord(items, strategy, dict(done)))
            case Reminded(text, items):
                self._add(ReminderRecord(items, text))
            case EpisodeChosen(episode):
                self._add(ChoiceRecord(episode.number, episode.choice))
            case OverheadChanged() | BudgetChosen():
                self.config()
            case HistoryForked() | HistoryReplaced():
                # A journal only grows. Nothing in the agent rewrites the history, so this is a bug, here or in a
                # capability. What is on disk stays valid.
                self._broken = "the history was rewritten, so the session cannot be recorded further; start a new one"

    def _add(self, record: Record) -> None:
        if self._journal is None or self._broken is not None:
            return
        self._waiting.append(record)
        self._receipts.follow((record,))
        with suppress(JournalError):  # `flush` raises it, where the turn can end
            self._write()

    def _write(self) -> None:
        while self._journal is not None and self._waiting:
            self._journal.append(self._waiting[0])
            self._waiting.popleft()

    def _dump_message(self, message: ModelMessage) -> Mapping[str, Any]:
        if isinstance(message, ModelRequest):
            if message.instructions == self._instructions:
                message = replace(message, instructions=None)
            elif message.instructions is not None:
                self._instructions = message.instructions
        dumped: Mapping[str, Any] = self._format.dump([message])[0]
        return dumped


def usage_record(usage: UsageBase, model: str, *, items: int, input_tokens: int) -> UsageRecord:
    """Return the record of a call of `provider:model`; its cost is what the provider says, or else the price list."""
    reported = TokenUsage(
        input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
    )
    if usage.cost is not None:
        cost: float | None = float(usage.cost)
    else:
        cost = cost_of(reported, model) if input_tokens else None
    return UsageRecord(
        items=items,
        input_tokens=input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_hour_tokens=usage.cache_write_1h_tokens,
        cost=cost,
        model=model,
    )


def _call_record(answer: ModelResponse, items: int, tokens: int) -> UsageRecord:
    model = ":".join(filter(None, (answer.provider_name, answer.model_name)))
    record = usage_record(answer.usage, model, items=items, input_tokens=tokens)
    # The output of an answer that broke off is not reported.
    return replace(record, cost=None) if answer.state == "interrupted" else record


class CostLimitError(WaneError):
    """The session has reached its cost limit and makes no further model call."""


class EqualRoundsError(WaneError):
    """The agent makes the same calls with the same results again and again, because the window cannot hold these."""


EQUAL_ROUNDS: Final = 10
"""Rounds in a row of one turn that an earlier one equals, while the window thrashes, before the turn is ended."""


@dataclass
class Checkpoint(AbstractCapability[Any]):
    """The capability next to a model call: ends a turn that goes nowhere or costs too much, and syncs the journal."""

    recorder: Recorder
    conversation: Conversation[ModelMessage]
    cost_limit: float | None
    patience: Patience
    _rounds: set[bytes] = field(default_factory=set)
    _equal: int = 0

    def begin(self) -> None:
        """Begin a turn. Raises as `check_cost` does."""
        self._rounds.clear()
        self._equal = 0
        self.patience.begin()
        self.check_cost()

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Let the call proceed, or end the turn with an error, such as that the journal cannot be written."""
        self.check_cost()
        if not self.patience.tries:  # else it is the same round again
            self.check_progress()
        await asyncio.to_thread(self.recorder.flush)
        if not watch(request_context.model):
            self.recorder.record_request(handed_over(request_context), "", "model")
        self.patience.begin_call()
        return request_context

    @override
    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Take the answer if it is whole."""
        self.recorder.check_whole(request_context.model.model_name, response)
        self.patience.end_call()
        return response

    def check_progress(self) -> None:
        """Check that the latest calls of the turn or their results are new.

        Raises:
            EqualRoundsError: if those of EQUAL_ROUNDS rounds were not, while the window thrashes.
        """
        digest = blake2b(digest_size=8)  # of the latest answer's calls and their results
        for message in self.conversation.messages[-2:]:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    digest.update(f"{part.tool_name} {part.args_as_json_str()}".encode("utf-8", "surrogatepass"))
                elif isinstance(part, ToolReturnPart):
                    digest.update(part.model_response_str().encode("utf-8", "surrogatepass"))
        round_ = digest.digest()
        thrashing = self.conversation.thrashing
        self._equal = self._equal + 1 if round_ in self._rounds and thrashing is not None else 0
        self._rounds.add(round_)
        if thrashing is not None and self._equal >= EQUAL_ROUNDS:
            raise EqualRoundsError(
                f"the last {self._equal} rounds made calls that had been made before, with the same results."
                f" {thrashing.warning}"
            )

    def check_cost(self) -> None:
        """Check that a model call may be made.

        Raises:
            CostLimitError: if the limit is reached, or an unknown price makes it impossible to tell. Answers that broke
                off, whose cost nobody tells, count as much as the others on average.
        """
        if self.cost_limit is None:
            return
        account = self.recorder.account
        if self.recorder.unpriced:
            raise CostLimitError(
                f"the cost limit of {dollars(self.cost_limit)} cannot be kept, because the model's price is not known;"
                " start without -l/--cost-limit, or choose another model"
            )
        if account.estimate >= self.cost_limit:
            raise CostLimitError(
                f"the cost limit of {dollars(self.cost_limit)} is reached: {'' if account.complete else 'about '}"
                f"{dollars(account.estimate)} were spent. Nothing is lost; go on with a higher -l/--cost-limit"
            )


OnRequest = Callable[[bytes, str], None]
"""Gets the body of a request, and where it goes, without a query, which may hold a key."""

_on_request: ContextVar[OnRequest | None] = ContextVar("on_request", default=None)


@contextmanager
def seeing(on_request: OnRequest) -> Iterator[None]:
    """See the requests of watched models that are made in this context. Sessions may share a model."""
    token = _on_request.set(on_request)
    try:
        yield
    finally:
        _on_request.reset(token)


def watch(model: Model) -> bool:
    """Watch a model's HTTP client; return False if the model shows none."""
    client: Any = getattr(model, "client", None)  # OpenAI's, Anthropic's or Google's
    http = getattr(client, "_client", None) or getattr(
        getattr(client, "_api_client", None), "_async_httpx_client", None
    )
    hooks = getattr(http, "event_hooks", None)
    if not isinstance(hooks, dict):
        return False
    if _report_sent not in hooks["request"]:
        hooks["request"].append(_report_sent)
    return True


def handed_over(context: ModelRequestContext) -> bytes:
    """Return all that a model is asked, as JSON: what is known of the request if its HTTP client does not show it."""
    request = {
        "model": context.model.model_id,
        "messages": ModelMessagesTypeAdapter.dump_python(context.messages, mode="json"),
        "settings": context.model_settings,
        "parameters": context.model_request_parameters,
    }
    return to_json(request, serialize_unknown=True)


async def _report_sent(request: Any) -> None:
    on_request = _on_request.get()
    if on_request is not None and (body := await request.aread()):
        url = request.url
        on_request(body, f"{url.scheme}://{url.netloc.decode()}{url.path}")
