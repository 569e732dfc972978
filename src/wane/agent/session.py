"""One session: an agent, its context and its journal, for any number of tasks.

The core under every way of using the agent: the interactive chat, print mode and the demo drive it alike.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pydantic_ai import CancellationToken, RunContext, UsageLimits, capture_run_messages
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import BinaryContent, ModelRequest, UserContent, UserPromptPart

from wane.agent.assembly import build_agent
from wane.agent.costs import Totals, budget_tokens
from wane.agent.events import OnEvent, SessionEvent, Spent, Warned
from wane.agent.images import media_type
from wane.agent.models import resolve_model
from wane.agent.options import BY_EPISODE
from wane.agent.saving.checkpoint import Checkpoint, CostLimitError
from wane.agent.saving.interrupted import closed
from wane.agent.saving.opening import Opened, SessionConfig, begin, go_on, note_agent
from wane.agent.streaming import forward
from wane.agent.tools.toolset import coding_tools
from wane.agent.turn import Outcome, TurnResult, explain
from wane.conversation.events import Event, UsageObserved
from wane.core import ContextWindow, Episode, FitReport
from wane.core.errors import JournalError
from wane.integrations.sendable import encodable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from pydantic_ai.messages import AgentStreamEvent, ModelMessage
    from pydantic_ai.models import Model

_Said: TypeAlias = "str | Sequence[UserContent]"

__all__ = ["AgentSession", "Outcome", "SessionConfig", "TurnResult"]


class AgentSession:
    """A coding agent at work in a directory. Make one with `create` or `resume`; close it when done.

    Attributes:
        cwd: directory that the agent works in.
        settings: how it works.
        model: the model that answers.
        conversation: its context.
        journal: its session file; None if it keeps none.
        history: all messages so far.
        permissions: what it may do unasked.
        servers: its MCP servers.
        warnings: what the user should know about this start, as sentences.
    """

    def __init__(self, opened: Opened) -> None:
        # Pydantic AI's greeting is for those who develop with it.
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
        config = opened.config
        self.cwd = config.cwd
        self.settings = config.settings
        self.model = opened.model
        self.conversation = opened.conversation
        self.journal = opened.journal
        self.history: list[ModelMessage] = []
        tools = coding_tools(config.cwd, opened.conversation.budget)
        repaired = opened.journal.repaired if opened.journal else None
        self.warnings = [warning for warning in (repaired, tools.warning, *opened.warnings) if warning]
        self._recorder = opened.recorder
        self._checkpoint = Checkpoint(opened.recorder, config.settings.cost_limit)
        self._on_event: OnEvent | None = None
        self._token: CancellationToken | None = None
        self.servers = opened.servers
        self._told = self.totals
        self._notes: list[ModelMessage] = []
        self.conversation.listeners.append(self._tell)
        self.permissions = opened.permissions
        self.permissions.warn = self._warn
        self._agent = build_agent(config.cwd, tools, self.conversation, self._checkpoint, self.permissions)
        self._settle(self.conversation.messages)

    # Beginning and end

    @classmethod
    def create(cls, config: SessionConfig) -> Self:
        """Begin a session.

        Raises:
            ModelError: for a model that cannot be used: unknown, or without a key.
            ConfigError: for a budget that is a share of a window that is not known.
            MissingExtraError: if the model's client is not installed.
            JournalError: if the session cannot be written.
        """
        return cls._of(begin(config))

    @classmethod
    def resume(cls, path: Path, config: SessionConfig) -> Self:
        """Go on with a session: the same view, and the settings that it had unless `config.chosen` names them.

        Raises:
            JournalError: if it cannot be opened or does not replay; see `Journal.open`.
            ModelError: as `create` does.
            ConfigError: as `create` does.
            MissingExtraError: as `create` does.
        """
        return cls._of(go_on(path, config))

    @classmethod
    def _of(cls, opened: Opened) -> Self:
        try:
            return cls(opened)
        except BaseException:
            if opened.journal is not None:
                opened.journal.close()
            raise

    def close(self) -> None:
        """Let go of the journal and the servers. A session in which nothing was said leaves no file.

        Closing twice is allowed.
        """
        self.servers.stop()
        if self.journal is None:
            return
        self.journal.close()
        if not self.conversation.length:
            for path in (self.journal.path, self.journal.path.with_name(f"{self.journal.path.name}.lock")):
                path.unlink(missing_ok=True)

    # What it knows

    @property
    def id(self) -> str | None:
        """The session's id, by which it can be resumed; None if it keeps no journal."""
        return self.journal.header.id if self.journal else None

    @property
    def window(self) -> ContextWindow:
        """The context window."""
        return self.conversation.window

    @property
    def tokens(self) -> int:
        """What the view holds, in tokens."""
        return self.conversation.tokens

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes so far, in order of start."""
        return self.conversation.episodes

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

    async def connect(self) -> None:
        """Start the MCP servers ahead of the first turn, which would do it too."""
        await self.servers.start(self.permissions.warn)

    async def run(self, prompt: str, on_event: OnEvent | None = None, images: Sequence[Path] = ()) -> TurnResult:
        """Do a task. Whatever happens on the way, what has happened stays in the history and the journal.

        Args:
            prompt: the user's words.
            on_event: told what happens, as it happens.
            images: image files that the model sees after the words.

        Raises:
            asyncio.CancelledError: if the caller's own task was cancelled; the history is in order then, too.
        """
        if self._token is not None:
            raise RuntimeError("a turn is going on; a session does one thing at a time")
        # Standard input and a terminal hand over bytes that are no text as what no request could carry.
        prompt = encodable(prompt)
        before = self.totals
        self._on_event, self._token = on_event, CancellationToken()
        try:
            await self.connect()
            outcome, output, error = await self._turn(_content(prompt, images), self._token)
        finally:
            self._on_event = self._token = None
        return TurnResult(outcome, output, error, self.totals.minus(before))

    def note(self, text: str) -> None:
        """Have the model read a text ahead of the user's next words: marked as a notice (R15), it can be evicted."""
        self._notes.append(ModelRequest([UserPromptPart(encodable(text))]))

    def cancel(self) -> None:
        """Stop the turn that is going on, from any thread; the session stays."""
        if self._token is not None:
            self._token.cancel()

    def set_model(self, spec: str | Model) -> None:
        """Have another model answer from the next turn on.

        Raises:
            ModelError: if it cannot be used.
            ConfigError: if its window is not known and the budget is a share of it.
            MissingExtraError: if its client is not installed.
        """
        model = resolve_model(spec)
        budget = budget_tokens(self.settings.budget, model)
        self.settings = replace(self.settings, model=spec)
        self.model = model
        note_agent(self._recorder, self.settings, model)
        if budget != self.conversation.budget:
            self.conversation.budget = budget
            self._recorder.config()

    def set_budget(self, budget: str | int) -> None:
        """Change what the view may hold, from the next model call on.

        Raises:
            ConfigError: for a budget that cannot work.
        """
        self.conversation.budget = budget_tokens(budget, self.model)
        self.settings = replace(self.settings, budget=budget)
        self._recorder.config()

    def manage(self, on: bool) -> None:
        """Switch the eviction by episode on or off, from the next turn on; any other strategy ends.

        What was evicted stays out of the view (R14); while it is off, nothing more is.
        """
        if self.conversation.strategy not in BY_EPISODE:
            self.conversation.strategy = "cwl"
        self.conversation.manage = on
        self.settings = replace(self.settings, strategy="cwl" if on else "none")
        note_agent(self._recorder, self.settings, self.model)
        self._recorder.config()

    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self.conversation.recall(name, offset)

    # How it does it

    async def _turn(self, prompt: _Said, token: CancellationToken) -> tuple[Outcome, str, str | None]:
        notes, self._notes = self._notes, []
        with capture_run_messages() as captured:
            try:
                self._checkpoint.check_cost()
                # One tool after the other, so that an edit is there when the test that follows it runs.
                with self._agent.parallel_tool_call_execution_mode("sequential"):
                    result = await self._agent.run(
                        prompt,
                        model=self.model,
                        toolsets=self.servers.toolsets,
                        message_history=[*self.history, *notes],
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
                return self._stopped(captured, Outcome.FAILED, explain(error, self.model))

    def _stopped(self, history: Sequence[ModelMessage], outcome: Outcome, error: str) -> tuple[Outcome, str, str]:
        # A run that was stopped before it began has no messages.
        if len(history) >= len(self.history):
            try:
                self._settle(history)
            except JournalError as unwritten:
                return Outcome.FAILED, "", error if str(unwritten) in error else f"{error}; {unwritten}"
        return outcome, "", error

    def _settle(self, history: Sequence[ModelMessage]) -> None:
        """Take in what a turn has left, closed so that the next request is valid, and have it on the disk."""
        self.history = closed(history)
        self.conversation.ingest(self.history)
        self._recorder.flush()

    async def _stream(self, _ctx: RunContext[Any], stream: AsyncIterable[AgentStreamEvent]) -> None:
        await forward(stream, self._emit)

    def _tell(self, event: Event) -> None:
        self._emit(event)
        if self.totals != self._told:
            self._told = self.totals
            view = event.input_tokens if isinstance(event, UsageObserved) else self.conversation.tokens
            self._emit(Spent(self.totals, view, self.conversation.budget))

    def _warn(self, text: str) -> None:
        if self._on_event is None:
            self.warnings.append(text)
        else:
            self._emit(Warned(text))

    def _emit(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)


def _content(prompt: str, images: Sequence[Path]) -> _Said:
    """What the user says: words, and after them the images, each with its path."""
    content: list[UserContent] = [prompt]
    for path in images:
        if (kind := media_type(path)) is not None:
            content += [f"[{path}]", BinaryContent(path.read_bytes(), media_type=kind)]
    return content if images else prompt
