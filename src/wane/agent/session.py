"""One session: an agent, its context and its journal, for any number of tasks.

The core under every way of using the agent: the interactive chat, print mode and the demo drive it alike.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic_ai import Agent, CancellationToken, RunContext, UsageLimits, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage, ModelRequest
from pydantic_ai_harness.compaction import SlidingWindowCompaction

from wane.agent.approval import Approvals, Approver, refuse
from wane.agent.checkpoint import Checkpoint, CostLimitError
from wane.agent.config import Settings
from wane.agent.costs import Totals, budget_tokens
from wane.agent.events import OnEvent, SessionEvent, Spent, forward
from wane.agent.git import GitStatus
from wane.agent.guard import ExplorationGuard
from wane.agent.interrupted import closed
from wane.agent.models import default_model, resolve_model
from wane.agent.prompt import system_prompt
from wane.agent.recorder import Recorder
from wane.agent.tools import coding_tools, repo_instructions
from wane.core import ContextWindow, Episode, FitReport
from wane.core.errors import JournalError
from wane.formats.base import Transcript
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.events import Event, UsageObserved
from wane.integrations.pydantic_ai import ContextLifecycle, Tracker
from wane.journal import Journal, Replay, SessionStore, UsageRecord, replay

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from pydantic_ai.messages import AgentStreamEvent
    from pydantic_ai.models import Model

_FORMAT = PydanticAIFormat()


class Outcome(StrEnum):
    """How a turn ended."""

    DONE = "done"
    INTERRUPTED = "interrupted"
    COST_LIMIT = "cost_limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What became of one task.

    Attributes:
        outcome: how it ended.
        output: the model's answer; "" unless it is done.
        error: for an end that was not wished for, what happened, for people.
        spent: tokens and dollars of this turn.
    """

    outcome: Outcome
    output: str
    error: str | None
    spent: Totals


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What a session needs to know.

    Attributes:
        cwd: directory that the agent works in.
        settings: how it works.
        store: where its journal goes; None keeps none.
        ask: asks the user to approve commands and file changes; not used with `Settings.yolo`.
        chosen: names of the settings that the user chose for this start. When a session is resumed, these
            replace what it had, and all others stay as they were.
    """

    cwd: Path
    settings: Settings = field(default_factory=Settings)
    store: SessionStore | None = None
    ask: Approver = refuse
    chosen: frozenset[str] = frozenset()


class AgentSession:
    """A coding agent at work in a directory. Make one with `create` or `resume`; close it when done.

    Attributes:
        cwd: directory that the agent works in.
        settings: how it works.
        model: the model that answers.
        tracker: its context.
        history: all messages so far.
        warnings: what the user should know about this start, as sentences.
    """

    def __init__(self, config: SessionConfig, model: Model, tracker: Tracker, recorder: Recorder) -> None:
        # Pydantic AI's greeting is for those who develop with it.
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
        self.cwd = config.cwd
        self.settings = config.settings
        self.model = model
        self.tracker = tracker
        self.history: list[ModelMessage] = []
        self.warnings: list[str] = []
        self.journal: Journal | None = None
        self._recorder = recorder
        self._checkpoint = Checkpoint(recorder, config.settings.cost_limit)
        self._on_event: OnEvent | None = None
        self._token: CancellationToken | None = None
        tracker.listeners.append(self._tell)
        self._agent = self._build(config.ask)

    # Beginning and end

    @classmethod
    def create(cls, config: SessionConfig) -> Self:
        """Begin a session.

        Raises:
            ConfigError: for settings that cannot work: no key, an unknown model, a share of an unknown window.
            MissingExtraError: if the model's client is not installed.
            JournalError: if the session cannot be written.
        """
        settings = config.settings
        model = resolve_model(settings.model or default_model(os.environ))
        tracker = _tracker(settings, budget_tokens(settings.budget, model))
        journal = None
        if config.store is not None:
            journal = config.store.create(config.cwd, message_format=_FORMAT.name)
        return cls._begun(config, model, tracker, journal, None)

    @classmethod
    def resume(cls, path: Path, config: SessionConfig) -> Self:
        """Go on with a session: the same view, and the settings that it had unless `config.chosen` names them.

        Raises:
            JournalError: if it cannot be opened or does not replay; see `Journal.open`.
            ConfigError: as `create` does.
            MissingExtraError: as `create` does.
        """
        journal = Journal.open(path)
        try:
            return cls._resumed(journal, config)
        except BaseException:
            journal.close()
            raise

    @classmethod
    def _resumed(cls, journal: Journal, config: SessionConfig) -> Self:
        header = journal.header
        if header.format != _FORMAT.name:
            raise JournalError(
                f"the session {journal.path} holds {header.format} messages, and the agent needs {_FORMAT.name}"
            )
        transcript: Transcript[ModelMessage] = Transcript(_FORMAT)
        replayed = replay(journal.found.records, lambda data: transcript.append(_FORMAT.load([dict(data)])[0]))
        config = replace(config, settings=_as_it_was(config, journal, replayed))
        settings = config.settings
        model = resolve_model(settings.model or default_model(os.environ))
        tracker = _tracker(settings, budget_tokens(settings.budget, model))
        window = replayed.window
        window.budget, window.policy = tracker.window.budget, tracker.window.policy
        window.set_tool_classes(settings.tool_classes)
        tracker.restore(window, transcript.messages, replayed.episodes)
        return cls._begun(config, model, tracker, journal, replayed)

    @classmethod
    def _begun(
        cls, config: SessionConfig, model: Model, tracker: Tracker, journal: Journal | None, replayed: Replay | None
    ) -> Self:
        records = journal.found.records if journal else ()
        recorder = Recorder(
            journal,
            tracker,
            totals=_spent(records),
            instructions=_instructions(tracker.transcript.messages),
            tool_classes=config.settings.tool_classes,
        )
        session = cls(config, model, tracker, recorder)
        session.journal = journal
        if journal is not None and journal.repaired:
            session.warnings.append(journal.repaired)
        if replayed is not None:
            session._restore(replayed)
        recorder.config()
        recorder.note("agent", model=_spec(config.settings, model), strategy=config.settings.strategy)
        recorder.flush()
        return session

    def _restore(self, replayed: Replay) -> None:
        for annotation in replayed.unrecorded:
            assert self.journal is not None
            self.journal.append(annotation)
        self._settle(self.tracker.transcript.messages)

    def close(self) -> None:
        """Let go of the journal. Closing twice is allowed."""
        if self.journal is not None:
            self.journal.close()

    # What it knows

    @property
    def id(self) -> str | None:
        """The session's id, by which it can be resumed; None if it keeps no journal."""
        return self.journal.header.id if self.journal else None

    @property
    def window(self) -> ContextWindow:
        """The context window."""
        return self.tracker.window

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes so far, in order of start."""
        return self.tracker.episodes

    @property
    def totals(self) -> Totals:
        """What the session has spent, over all its starts."""
        return self._recorder.totals

    @property
    def running(self) -> bool:
        """Whether a turn is going on."""
        return self._token is not None

    def next_pass(self) -> FitReport:
        """Return what the next pass would take of what the view holds now, on a copy: nothing is changed.

        A pass that is not due yet is taken to come when the view has grown to the budget, so that it frees
        as many tokens as lie between the budget and the pass's target.
        """
        window = ContextWindow.restore(self.window.export())
        tokens, budget = window.tokens, window.budget
        if tokens <= budget:
            target = tokens - (budget - window.policy.target(budget))
            window.budget = max(1, tokens - 1)
            low_water = min(1.0, max(target / window.budget, 1e-9))
            window.policy = replace(window.policy, low_water=low_water)
        return window.fit()

    # What it does

    async def run(self, prompt: str, on_event: OnEvent | None = None) -> TurnResult:
        """Do a task. Whatever happens on the way, what has happened stays in the history and the journal.

        Args:
            prompt: the user's words.
            on_event: told what happens, as it happens.

        Raises:
            asyncio.CancelledError: if the caller's own task was cancelled; the history is in order then, too.
        """
        if self._token is not None:
            raise RuntimeError("a turn is going on; a session does one thing at a time")
        before = self.totals
        self._on_event, self._token = on_event, CancellationToken()
        try:
            outcome, output, error = await self._turn(prompt, self._token)
        finally:
            self._on_event = self._token = None
        return TurnResult(outcome, output, error, self.totals.minus(before))

    def cancel(self) -> None:
        """Stop the turn that is going on, from any thread; the session stays."""
        if self._token is not None:
            self._token.cancel()

    def set_model(self, spec: str | Model) -> None:
        """Have another model answer from the next turn on.

        Raises:
            ConfigError: if it cannot be used, or its window is not known and the budget is a share of it.
            MissingExtraError: if its client is not installed.
        """
        model = resolve_model(spec)
        budget = budget_tokens(self.settings.budget, model)
        self.settings = replace(self.settings, model=spec)
        self.model = model
        self._recorder.note("agent", model=_spec(self.settings, model), strategy=self.settings.strategy)
        if budget != self.window.budget:
            self.window.budget = budget
            self._recorder.config()

    def set_budget(self, budget: str | int) -> None:
        """Change what the view may hold, from the next model call on.

        Raises:
            ConfigError: for a budget that cannot work.
        """
        self.window.budget = budget_tokens(budget, self.model)
        self.settings = replace(self.settings, budget=budget)
        self._recorder.config()

    def manage(self, on: bool) -> None:
        """Switch the management of the context on or off, from the next turn on.

        What was evicted stays out of the view (R14); while it is off, nothing more is.
        """
        self.tracker.manage = on
        self.settings = replace(self.settings, strategy="cwl" if on else "none")
        self._recorder.config()

    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self.tracker.recall(name, offset)

    # How it does it

    async def _turn(self, prompt: str, token: CancellationToken) -> tuple[Outcome, str, str | None]:
        with capture_run_messages() as captured:
            try:
                self._checkpoint.check_cost()
                with self._agent.parallel_tool_call_execution_mode("sequential"):
                    result = await self._agent.run(
                        prompt,
                        model=self.model,
                        message_history=self.history,
                        usage_limits=UsageLimits(request_limit=None),
                        cancellation_token=token,
                        event_stream_handler=self._stream,
                    )
                self._settle(result.all_messages())
                return Outcome.DONE, result.output, None
            except RunCancelled as cancelled:
                return self._stopped(cancelled.all_messages(), Outcome.INTERRUPTED, "interrupted")
            except asyncio.CancelledError as cancelled:
                stopped = RunCancelled.from_cancellation(cancelled)
                self._stopped(stopped.all_messages() if stopped else captured, Outcome.INTERRUPTED, "interrupted")
                raise
            except CostLimitError as error:
                return self._stopped(captured, Outcome.COST_LIMIT, str(error))
            except Exception as error:
                # Whatever went wrong ends the turn, not the session.
                return self._stopped(captured, Outcome.FAILED, explain(error))

    def _stopped(
        self, history: Sequence[ModelMessage], outcome: Outcome, error: str
    ) -> tuple[Outcome, str, str | None]:
        # A run that was stopped before it began has no messages.
        if len(history) >= len(self.history):
            try:
                self._settle(history)
            except JournalError as unwritten:
                return Outcome.FAILED, "", f"{error}; {unwritten}" if str(unwritten) not in error else error
        return outcome, "", error

    def _settle(self, history: Sequence[ModelMessage]) -> None:
        """Take in what a turn has left, closed so that the next request is valid, and have it on the disk."""
        self.history = closed(history)
        self.tracker.sync(self.history)
        self._recorder.flush()

    async def _stream(self, _ctx: RunContext[Any], stream: AsyncIterable[AgentStreamEvent]) -> None:
        await forward(stream, self._emit)

    def _tell(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, UsageObserved):
            self._emit(Spent(self.totals, self.window.tokens, self.window.budget))

    def _emit(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _build(self, ask: Approver) -> Agent[None, str]:
        settings = self.settings
        tools = coding_tools(self.cwd, self.window.budget)
        if tools.warning:
            self.warnings.append(tools.warning)
        capabilities: list[AbstractCapability[Any]] = [
            ExplorationGuard(self.tracker),
            Approvals(None if settings.yolo else ask),
            *tools.capabilities,
            ContextLifecycle(tracker=self.tracker, recall=settings.recall),
            *self._truncation(),
            Caching(),
            GitStatus(self.cwd),
            self._checkpoint,
        ]
        prompt = system_prompt(grep=tools.search, list_files=tools.listing, repo_context=repo_instructions(self.cwd))
        # No limit on retries: every failed call costs a model call, which the user can stop and limit by its cost.
        return Agent(name="wane", instructions=prompt, capabilities=capabilities, retries={"tools": 1_000_000})

    def _truncation(self) -> list[AbstractCapability[Any]]:
        if self.settings.strategy != "truncate":
            return []
        window = self.window
        keep = int(window.policy.target(window.budget))
        return [SlidingWindowCompaction(max_tokens=window.budget, keep_tokens=keep)]


def explain(error: BaseException) -> str:
    """Return an error for people, on one line, with its kind where the words alone do not tell."""
    text = " ".join(str(error).split())
    known = type(error).__module__.partition(".")[0] in ("wane", "pydantic_ai")
    return text if known and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _tracker(settings: Settings, budget: int) -> Tracker:
    return Tracker(budget, settings.policy, tool_classes=settings.tool_classes, manage=settings.strategy == "cwl")


def _as_it_was(config: SessionConfig, journal: Journal, replayed: Replay) -> Settings:
    """The settings that a session had, with those on top that the user chose for this start."""
    settings = config.settings
    was: dict[str, Any] = {}
    if replayed.config is not None:
        was |= {"budget": replayed.config.budget, "policy": replayed.config.policy}
        was["strategy"] = "cwl" if replayed.config.managed else "none"
    for record in journal.found.records:
        if record.kind == "note" and getattr(record, "topic", "") == "agent":
            was |= _agent_note(getattr(record, "data", {}))
    if replayed.config is not None and replayed.config.managed:
        was["strategy"] = "cwl"
    if settings.model is not None and not isinstance(settings.model, str):
        was.pop("model", None)  # it has no name by which it could be found again
    return replace(settings, **{name: value for name, value in was.items() if name not in config.chosen})


def _spec(settings: Settings, model: Model) -> str:
    """The model as it was asked for: `openai-chat:x` is not the same as the `openai:x` that answers."""
    return settings.model if isinstance(settings.model, str) else model.model_id


def _agent_note(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in ("model", "strategy") if isinstance(data.get(name), str)}


def _spent(records: Sequence[object]) -> Totals:
    totals = Totals()
    for record in records:
        if isinstance(record, UsageRecord):
            totals = totals.plus(record)
    return totals


def _instructions(messages: Sequence[ModelMessage]) -> str | None:
    """The instructions on record, which stand where they changed."""
    said = (message.instructions for message in reversed(messages) if isinstance(message, ModelRequest))
    return next((text for text in said if text is not None), None)
