"""A session: an agent, its context and its journal, for any number of tasks.

The chat, print mode and the demo all drive it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic_ai import CancellationToken, ModelSettings, RunContext, UsageLimits, capture_run_messages
from pydantic_ai.exceptions import ModelTimeoutError, RunCancelled
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

from wane.account import Account
from wane.agent.approval.capability import AskingToolset
from wane.agent.assembly import Phases, build_agent, settings_for
from wane.agent.faults import SILENCE, Patience, fault_of
from wane.agent.models import explain, resolve_model
from wane.agent.opening import SessionConfig, SessionParts, name_of, prepare, record_model
from wane.agent.options import AGENT_FORMAT
from wane.agent.prompts import Prompt, answer_open_calls, event_of, has_begun, with_images
from wane.agent.recorder import Checkpoint, CostLimitError, EqualRoundsError, seeing
from wane.agent.rewind import FileHistory, changed_files, fork_of, note_on_left, put_back, records_before
from wane.agent.tools.toolset import coding_tools
from wane.agent.turn_events import OnEvent, Outcome, SessionEvent, Spent, TurnResult, Waiting, Warned
from wane.agent.user_turns import UserTurn, turns_of
from wane.budgets import AutoBudget, choose_budget, is_auto, parse_budget_or_auto
from wane.conversation.events import BudgetChosen, Event, ThrashingBegan, UsageObserved
from wane.core import ContextWindow, Episode, FitReport, Room, exact_budget
from wane.core.errors import ConfigError, JournalError
from wane.formats.pydantic_ai import encodable
from wane.journal import FORK_NOTE, NoteRecord
from wane.journal.reader import read
from wane.journal.records import FILE_NOTE, LEFT_NOTE
from wane.prices import price_step
from wane.refusals import SHRINKS, fitting_budget, provider_message
from wane.strategies.registry import traits
from wane.tuned import usable_tuned

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from pydantic_ai.messages import AgentStreamEvent, ModelMessage
    from pydantic_ai.models import Model

    from wane.agent.faults import Fault
    from wane.agent.rewind import KeptFile, Restored
    from wane.journal import Record

__all__ = ["AgentSession", "Outcome", "SessionConfig", "TurnResult"]


class AgentSession:
    """A coding agent that works in a directory. Make one with `create` or `resume`, and close it when done.

    Attributes:
        cwd: directory that the agent works in.
        settings: how it works.
        model: the model that answers.
        conversation: its context.
        journal: its session file; None if it keeps none.
        history: all messages so far.
        permissions: what it may do without asking.
        servers: its MCP servers.
        sandbox: where commands run that nobody allowed.
        warnings: what the user should know about this start, as sentences.
        silence: seconds after which a model call fails if nothing more comes of its answer.
    """

    def __init__(self, parts: SessionParts) -> None:
        # Pydantic AI greets its developers, not the users of their programs.
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
        config = parts.config
        self.cwd = config.cwd
        self.settings = config.settings
        self.model = parts.model
        self.conversation = parts.conversation
        self.journal = parts.journal
        self.history: list[ModelMessage] = []
        tools = coding_tools(
            config.cwd,
            parts.conversation.settings.budget,
            sandbox=parts.sandbox,
            is_inert=parts.permissions.refuses_repository,
        )
        repaired = parts.journal.repaired if parts.journal else None
        self.warnings = [warning for warning in (repaired, tools.warning, *parts.warnings) if warning]
        self._recorder = parts.recorder
        settings = config.settings
        limit = None if settings.time_limit is None else settings.time_limit * 60
        longest = None if settings.patience is None else settings.patience * 60
        self._patience = Patience(longest, limit, self._expire)
        self._checkpoint = Checkpoint(parts.recorder, self.conversation, settings.cost_limit, self._patience)
        self.silence = SILENCE
        self.auto_budget: AutoBudget | None = None
        self._expired = False
        self._shrunk = 0
        self._on_event: OnEvent | None = None
        self._token: CancellationToken | None = None
        self.servers = parts.servers
        self.sandbox = parts.sandbox
        self._reported = self.account
        self._cramped_at: int | None = None  # the latest budget of which the user was warned
        self._notes: list[ModelMessage] = []
        self.conversation.listeners.append(self._on_lifecycle)
        self.permissions = parts.permissions
        self.permissions.warn = self._warn
        self._phases = Phases(self.conversation)
        self._config = config
        self._files = FileHistory(parts.recorder)
        self._agent = build_agent(
            config.cwd,
            tools,
            self.conversation,
            self._checkpoint,
            self.permissions,
            self._phases,
            parts.sandbox,
            self._files,
        )
        self._finish_turn(self.conversation.messages)
        if is_auto(self.settings.budget) and self.history:
            self.set_budget(self.settings.budget)  # a resumed session that had another budget
        self._check_room()

    @classmethod
    def create(cls, config: SessionConfig) -> Self:
        """Create a session.

        Raises:
            ModelError: for a model that is unknown or has no key.
            ConfigError: for a budget that is a share of an unknown window, or a file of settings that cannot be used.
            MissingExtraError: if the model's client is not installed.
            JournalError: if the journal cannot be written.
        """
        return cls._of(prepare(config))

    @classmethod
    def resume(cls, path: Path, config: SessionConfig) -> Self:
        """Resume a session with the view that it had. It keeps its settings, except those that `config.chosen` names.

        Raises:
            JournalError: if the journal cannot be opened or does not replay; see `Journal.open`.
            ModelError: see `create`.
            ConfigError: see `create`.
            MissingExtraError: see `create`.
        """
        return cls._of(prepare(config, path))

    @classmethod
    def _of(cls, parts: SessionParts) -> Self:
        try:
            return cls(parts)
        except BaseException:
            if parts.journal is not None:
                parts.journal.close()
            raise

    def close(self) -> None:
        """Close the journal and stop the servers. A session without messages leaves no file.

        It may be closed more than once.
        """
        self.servers.stop()
        if self.journal is None:
            return
        self.journal.close()
        if not self.conversation.length:
            for path in (self.journal.path, self.journal.path.with_name(f"{self.journal.path.name}.lock")):
                path.unlink(missing_ok=True)

    @property
    def id(self) -> str | None:
        """The id with which it can be resumed; None if it keeps no journal."""
        return self.journal.header.id if self.journal else None

    @property
    def window(self) -> ContextWindow:
        """The context window."""
        return self.conversation.window

    @property
    def tokens(self) -> int:
        """Tokens in the view."""
        return self.conversation.tokens

    @property
    def room(self) -> Room | None:
        """The room that the budget leaves for the work, in the model's window; None if no budget is kept."""
        return self.conversation.room

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes so far, in order of start."""
        return self.conversation.episodes

    @property
    def account(self) -> Account:
        """Tokens and cost of the session, over all its starts, and of those in `elsewhere`."""
        return self._recorder.account

    @property
    def elsewhere(self) -> Mapping[str, Account]:
        """What was spent in the sessions that the user went back or forward from to come here, by their ids."""
        return self._config.elsewhere

    def next_pass(self) -> FitReport:
        """Return what the next pass would evict from the present view. Nothing is changed.

        If no pass is due, the preview is of one that frees as many tokens as a pass at the budget would: those between
        the budget and the pass's target.
        """
        window = ContextWindow.restore(self.window.export())
        tokens, budget = window.tokens, window.budget_used
        if tokens <= budget:
            target = tokens - (budget - budget * window.policy.low_water)
            window.budget = max(1, tokens - 1)
            low_water = min(1.0, max(target / window.budget, 1e-9))
            window.policy = replace(window.policy, low_water=low_water, min_room=0.0)
        return window.fit()

    async def connect(self) -> None:
        """Start the MCP servers. Otherwise the first turn does."""
        await self.servers.start(self.permissions.warn)

    async def run(self, prompt: str, on_event: OnEvent | None = None, images: Sequence[Path] = ()) -> TurnResult:
        """Do a task. However it ends, the history and the journal hold what happened.

        Args:
            prompt: the user's words.
            on_event: called with each event.
            images: image files that the model sees after the words.

        Raises:
            RuntimeError: if a turn is running.
            asyncio.CancelledError: if the caller's task was cancelled. The history is valid then, too.
        """
        if self._token is not None:
            raise RuntimeError("a turn is running; a session does one task at a time")
        # Bytes from a terminal that are not UTF-8 arrive as lone surrogates, which no request can carry.
        prompt = encodable(prompt)
        before = self.account
        self._on_event, self._token = on_event, CancellationToken()
        try:
            await self.connect()
            await self.permissions.ask_about_repository()
            with seeing(self._recorder.record_request), self._phases.turn():
                ended = await self._turn(with_images(prompt, images), self._token)
        finally:
            self._patience.end()
            self._on_event = self._token = None
        return replace(ended, spent=self.account.minus(before), waited=self._patience.lost)

    def note(self, text: str) -> None:
        """Put a text before the user's next words. It is marked as a notice (R15), so it can be evicted."""
        self._notes.append(ModelRequest([UserPromptPart(encodable(text))]))

    def cancel(self) -> None:
        """Stop the running turn, from any thread. The session stays usable."""
        if self._token is not None:
            self._token.cancel()

    def set_model(self, spec: str | Model) -> None:
        """Change the model, from the next turn on.

        Raises:
            ModelError: if it cannot be used.
            ConfigError: if the budget is a share of the window, and the model's window is unknown.
            MissingExtraError: if its client is not installed.
        """
        model = resolve_model(spec)
        window = self.settings.context.window or model.context_window
        budget = self._budget_of(self.settings.budget, window, model)
        self.settings = replace(self.settings, model=spec)
        self.model = model
        record_model(self._recorder, self.settings, model)
        if (budget, window) != (self.conversation.settings.budget, self.conversation.settings.window):
            self.conversation.change(budget=exact_budget(budget), window=window)
            self._recorder.config()

    def set_budget(self, budget: str | int) -> None:
        """Change the budget, from the next model call on.

        Raises:
            ConfigError: for a budget that is malformed or too small.
        """
        window = self.settings.context.window or self.model.context_window
        self.auto_budget = None
        self.conversation.change(budget=exact_budget(self._budget_of(budget, window, self.model)))
        self.settings = replace(self.settings, budget=budget)
        self._recorder.config()
        self._check_room()

    def _budget_of(self, budget: str | int, window: int | None, model: Model) -> int:
        """Return the tokens of a budget as a user writes it."""
        tokens = parse_budget_or_auto(budget, window=window)
        if tokens is not None:
            return tokens
        self.auto_budget = choose_budget(
            window=window,
            step=price_step(name_of(self.settings, model)),
            fixed=self.window.room.fixed,
            tuned=usable_tuned(os.environ, self._warn),
        )
        return self.auto_budget.tokens

    def manage(self, on: bool) -> None:
        """Switch eviction by episode on or off, from the next turn on. Any other strategy ends.

        What was evicted stays out of the view (R14). While eviction is off, nothing more is evicted.
        """
        strategy = "paper" if self.conversation.settings.strategy == "paper" else "cwl"
        self.conversation.change(strategy=strategy, manage=on)
        self.settings = self.settings.replace(strategy=strategy if on else "none")
        self._recorder.config()

    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, whether it was evicted or not.

        Raises:
            UnknownEpisodeError: if no episode has that name.
        """
        return self.conversation.recall(name, offset)

    def search(self, pattern: str, offset: int = 0) -> str:
        """Return excerpts around a pattern in the session, evicted or not; see `Conversation.search`.

        Raises:
            ConfigError: for an empty pattern.
        """
        return self.conversation.search(pattern, offset)

    # Going back and forward

    @property
    def turns(self) -> list[UserTurn]:
        """The user's turns so far, in order."""
        return turns_of(self.conversation.messages)

    def files_since(self, turn: UserTurn) -> list[KeptFile]:
        """Return what is known of the files that the agent's file tools changed from a turn on."""
        records = self._read_saved()
        return changed_files(records[len(records_before(records, turn.first)) :])

    def go_back(self, turn: UserTurn, files: bool = False) -> tuple[AgentSession, Restored]:
        """Return a new session as this one was before a turn, and what became of the files. This one is closed.

        Args:
            turn: the turn, one of `turns`.
            files: whether to put back the files that the agent's file tools have changed from that turn on.

        Raises:
            ConfigError: if this session is not saved.
            JournalError: if the journal cannot be read, or another one cannot be written.
        """
        records, store = self._read_saved(), self._config.store
        if store is None or self.journal is None:
            raise _unsaved_error()
        before = records_before(records, turn.first)
        changed = changed_files(records[len(before) :]) if files else []
        copy = store.create(self.cwd, message_format=AGENT_FORMAT)
        try:
            for record in (*before, NoteRecord(FORK_NOTE, {"session": self.journal.header.id, "messages": turn.first})):
                copy.append(record)
            copy.commit()
        finally:
            copy.close()
        return self._changed_to(copy.path, changed)

    def go_forward(self, files: bool = False) -> tuple[AgentSession, Restored]:
        """Return the session that this one went back from, whole, and what became of the files. This one is closed.

        Args:
            files: whether to put the files that were changed since, by going back too, to what they were then.

        Raises:
            ConfigError: if it did not go back.
            JournalError: if the journal cannot be read.
        """
        records, store = self._read_saved(), self._config.store
        left = fork_of(records)
        if left is None or store is None:
            raise ConfigError("there is nothing ahead: this session did not go back from another one")
        session_id, position = left
        return self._changed_to(store.find(session_id), changed_files(records[position:]) if files else [])

    def _changed_to(self, path: Path, files: Sequence[KeptFile]) -> tuple[AgentSession, Restored]:
        """Go over to another session file, put files back, and note that there."""
        accounts = dict(self.elsewhere)
        if self.id is not None:
            accounts[self.id] = self.account.minus(sum(accounts.values(), Account()))
        accounts.pop(read(path).header.id, None)  # its calls are counted there
        config = replace(self._config, settings=self.settings, chosen=frozenset(), elsewhere=accounts)
        other = AgentSession.resume(path, config)
        other._recorder.note(LEFT_NOTE, **note_on_left(accounts))
        restored = put_back(self.cwd, files)
        for note in restored.notes:
            other._recorder.note(FILE_NOTE, **note)
        other._recorder.flush()
        self.close()
        return other, restored

    def _read_saved(self) -> Sequence[Record]:
        """The records of the session, as they are on the disk."""
        if self.journal is None:
            raise _unsaved_error()
        self._recorder.flush()
        return read(self.journal.path).records

    async def _turn(self, prompt: Prompt, token: CancellationToken) -> TurnResult:
        notes, self._notes = self._notes, []
        history: list[ModelMessage] = [*self.history, *notes]
        pending: Prompt | None = prompt
        self._expired, self._shrunk = False, 0
        self._files.begin()
        try:
            self._checkpoint.begin()
        except CostLimitError as error:
            return TurnResult(Outcome.COST_LIMIT, "", str(error))
        while True:
            with capture_run_messages() as captured:
                try:
                    return await self._ask(pending, history, token)
                except RunCancelled as cancelled:
                    return self._interrupt_turn(cancelled.all_messages())
                except asyncio.CancelledError as cancelled:
                    stopped = RunCancelled.from_cancellation(cancelled)
                    self._interrupt_turn(stopped.all_messages() if stopped else captured)
                    raise
                except CostLimitError as error:
                    return self._stop_turn(captured, Outcome.COST_LIMIT, str(error))
                except EqualRoundsError as error:
                    return self._stop_turn(captured, Outcome.FAILED, str(error))
                except Exception as error:
                    # Any error ends the turn, not the session.
                    failed = error
            if (ended := await self._recover(failed, captured, token)) is not None:
                return ended
            if captured:
                history, pending = self._without_broken(captured), None

    async def _ask(
        self, prompt: Prompt | None, history: Sequence[ModelMessage], token: CancellationToken
    ) -> TurnResult:
        """Let the agent work on a prompt, or go on where the history ends."""
        self._patience.run()
        # In order, so that an edit is made before the test that follows it runs.
        with self._agent.parallel_tool_call_execution_mode("sequential"):
            result = await self._agent.run(
                prompt,
                model=self.model,
                toolsets=[AskingToolset(tools, self.permissions) for tools in self.servers.toolsets],
                message_history=history,
                usage_limits=UsageLimits(request_limit=None),
                cancellation_token=token,
                event_stream_handler=self._stream,
                model_settings=ModelSettings(first_event_timeout=self.silence, **settings_for(self.model)),
            )
        self._finish_turn(result.all_messages())
        return TurnResult(Outcome.DONE, result.output, None)

    async def _recover(
        self, error: Exception, captured: Sequence[ModelMessage], token: CancellationToken
    ) -> TurnResult | None:
        """Wait until a failed model call can be made again; return how the turn ended if it cannot."""
        explanation = explain(error, self.model)
        fault = fault_of(error, captured[-1] if captured else None)
        if fault is None:
            return self._stop_turn(captured, Outcome.FAILED, explanation)
        wait = self._patience.fail_call(fault)
        if fault.kind == "context" and self._shrink(error):
            return None
        if fault.kind != "outage":
            return self._stop_turn(captured, Outcome.PROVIDER, explanation, fault)
        if wait is None:
            tries = self._patience.tries
            given_up = f"{explanation}; given up after {tries} failed calls" if tries > 1 else explanation
            return self._stop_turn(captured, Outcome.PROVIDER, given_up, fault)
        self._emit(Waiting(explanation, wait, self._patience.tries))
        try:
            await self._patience.wait(wait, lambda: token.cancelled)
        except asyncio.CancelledError:
            self._interrupt_turn(captured)
            raise
        return self._interrupt_turn(captured) if token.cancelled else None

    def _shrink(self, error: Exception) -> bool:
        """Lower the budget to what the provider takes; return whether the call can be tried again."""
        conversation = self.conversation
        message = provider_message(getattr(error, "body", None))
        budget = fitting_budget(message, conversation.tokens)
        if budget is None:
            self._warn(
                f"the provider refuses a view of {conversation.tokens:,} tokens by Wane's count with {message!r}: what"
                " fills its window is not counted in the view, such as a file or an image. The budget stays"
            )
            return False
        if (
            not conversation.settings.manage
            or not traits(conversation.settings.strategy).bounded
            or self._shrunk == SHRINKS
            or budget < 1
        ):
            return False
        self._shrunk += 1
        self._warn(
            f"the provider takes no view of {conversation.tokens:,} tokens; from here on it holds at most {budget:,}"
        )
        # What the provider takes is the window, as far as it can be known: no pass may work beyond it (R22).
        set_before = conversation.settings.budget
        conversation.change(budget=exact_budget(min(budget, set_before)), window=budget)
        self._recorder.config()
        return True

    def _without_broken(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """The messages without a last answer that broke off, whose call is recorded."""
        answer = messages[-1]
        if not isinstance(answer, ModelResponse):
            return list(messages)
        if has_begun(answer):
            self._recorder.broke_off(answer)
        return list(messages[:-1])

    def _expire(self) -> None:
        self._expired = True
        self.cancel()

    def _interrupt_turn(self, history: Sequence[ModelMessage]) -> TurnResult:
        if self._expired:
            message = f"the time limit of {self.settings.time_limit:g} minutes is reached. Nothing is lost"
            return self._stop_turn(history, Outcome.TIME_LIMIT, message)
        return self._stop_turn(history, Outcome.INTERRUPTED, "interrupted")

    def _stop_turn(
        self, history: Sequence[ModelMessage], outcome: Outcome, error: str, fault: Fault | None = None
    ) -> TurnResult:
        if history and isinstance(history[-1], ModelResponse) and not has_begun(history[-1]):
            history = history[:-1]
        # A run that was stopped before it began has no messages.
        if len(history) >= len(self.history):
            try:
                self._finish_turn(history)
            except JournalError as unwritten:
                problem = error if str(unwritten) in error else f"{error}; {unwritten}"
                return TurnResult(Outcome.FAILED, "", problem)
        return TurnResult(outcome, "", error, fault=fault)

    def _finish_turn(self, history: Sequence[ModelMessage]) -> None:
        """Take in the history of a turn, valid for the next request, and write the journal to disk."""
        self.history = answer_open_calls(history)
        self.conversation.host.ingest(self.history)
        self._recorder.flush()

    async def _stream(self, _ctx: RunContext[Any], stream: AsyncIterable[AgentStreamEvent]) -> None:
        events = aiter(stream)
        while True:
            try:
                # A connection that is kept alive by pings never times out. Tools may take as long as they need.
                async with asyncio.timeout(self.silence if self._patience.calling else None):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                silent = f"nothing came for {self.silence:g} seconds"
                raise ModelTimeoutError(self.model.model_name, silent, phase="read", in_stream=True) from error
            self._patience.heard()
            if (translated := event_of(event)) is not None:
                self._emit(translated)

    def _on_lifecycle(self, event: Event) -> None:
        if isinstance(event, BudgetChosen):
            self.auto_budget = event.budget
        self._emit(event)
        self._check_room()
        if isinstance(event, ThrashingBegan):
            self._warn(event.thrashing.warning)
        if self.account != self._reported:
            self._reported = self.account
            view = event.input_tokens if isinstance(event, UsageObserved) else self.conversation.tokens
            self._emit(Spent(self.account, view, self.conversation.window.budget_used))

    def _check_room(self) -> None:
        """Say once for each budget if it leaves too little room, or another is used for that reason (R22)."""
        room = self.room
        if room is not None and room.remark and room.budget != self._cramped_at:
            self._cramped_at = room.budget
            self._warn(room.remark)

    def _warn(self, text: str) -> None:
        if self._on_event is None:
            self.warnings.append(text)
        else:
            self._emit(Warned(text))

    def _emit(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)


def _unsaved_error() -> ConfigError:
    return ConfigError("there is no way back in a session that is not saved; start without --no-session")
