"""Beginning a session, or going on with one: model, context and journal, ready to work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic_ai.messages import ModelMessage, ModelRequest

from wane.agent.approval.permissions import Approver, Permissions, refuse
from wane.agent.approval.remembered import FILE, Remembered, project_of
from wane.agent.approval.rules import Rule
from wane.agent.config import Settings, user_file
from wane.agent.costs import budget_tokens
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT, Strategy
from wane.agent.saving.recorder import Recorder, spent_before
from wane.agent.tools import mcp
from wane.agent.tools.mcp import Servers
from wane.conversation import Conversation
from wane.core import DEFAULT_BUDGET, Mark, Policy
from wane.core.errors import HistoryError, JournalError
from wane.formats.base import Transcript
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import new_conversation
from wane.journal import (
    AnnotationRecord,
    ConfigRecord,
    Journal,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    Replay,
    SessionStore,
    StrategyRecord,
    UsageRecord,
    replay,
)
from wane.journal.reader import open_session, read_header_of
from wane.strategies.base import ANNOTATED

if TYPE_CHECKING:
    from pydantic_ai.models import Model

AGENT_NOTE = "agent"
"""Topic of the note that says which model and strategy a session works with."""

_FORMAT = PydanticAIFormat()


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


@dataclass(frozen=True, slots=True)
class Opened:
    """What a session is made of.

    Attributes:
        config: what it was asked for; when resumed, with the settings that it had.
        model: the model that answers.
        conversation: its context, with all that has happened so far.
        recorder: writes the journal.
        journal: where; None keeps none.
        permissions: what it may do unasked.
        servers: its MCP servers.
        warnings: what the user should know, as sentences.
    """

    config: SessionConfig
    model: Model
    conversation: Conversation[ModelMessage]
    recorder: Recorder
    journal: Journal | None
    permissions: Permissions
    servers: Servers
    warnings: tuple[str, ...] = ()


def begin(config: SessionConfig) -> Opened:
    """Begin a session; the errors are those of `AgentSession.create`."""
    permissions, (servers, warnings) = permissions_of(config), servers_of(config)
    model, conversation = _model_and_conversation(config.settings)
    journal = None
    if config.store is not None:
        journal = config.store.create(config.cwd, message_format=_FORMAT.name)
    recorder = _recorder(config, conversation, journal)
    opened = Opened(config, model, conversation, recorder, journal, permissions, servers, warnings)
    opened.recorder.config()
    note_agent(opened.recorder, config.settings, model)
    return opened


def go_on(path: Path, config: SessionConfig) -> Opened:
    """Go on with a session; the errors are those of `AgentSession.resume`."""
    _check_own(path)
    journal = Journal.open(path)
    try:
        return _go_on(journal, config)
    except BaseException:
        journal.close()
        raise


def permissions_of(config: SessionConfig) -> Permissions:
    """Return what a session may do unasked, by its settings and what the user allowed in this project before.

    Raises:
        ConfigError: if what was allowed before cannot be read.
    """
    settings = config.settings
    return Permissions(
        ask=config.ask,
        yolo=settings.yolo,
        allow=list(map(Rule.read, settings.allow)),
        deny=list(map(Rule.read, settings.deny)),
        remembered=Remembered(user_file(os.environ).with_name(FILE), project_of(config.cwd)),
    )


def servers_of(config: SessionConfig) -> tuple[Servers, tuple[str, ...]]:
    """Return a session's MCP servers, and what the user should know about those that it does not use.

    Raises:
        ConfigError: if a file with servers cannot be used.
        MissingExtraError: if there are servers, but not the extra.
    """
    own = user_file(os.environ).with_name(mcp.USER_FILE)
    named = [config.cwd / Path(path).expanduser() for path in config.settings.mcp]
    files = [*([own] if own.is_file() else []), *named]
    offered = config.cwd / mcp.PROJECT_FILE
    unused = offered.is_file() and not any(file.resolve() == offered.resolve() for file in files)
    told = f"The project's MCP servers are not used; --mcp {mcp.PROJECT_FILE} uses them."
    return Servers(list(dict.fromkeys(files))), (told,) if unused else ()


def note_agent(recorder: Recorder, settings: Settings, model: Model) -> None:
    """Record which model and strategy a session works with from here on, and who marks its episodes."""
    recorder.note(AGENT_NOTE, **_note(settings, model))


def _check_own(path: Path) -> None:
    """Refuse a session of another agent's before it is opened, which may wait for a lock or repair it."""
    with open_session(path) as stream:
        header, _ = read_header_of(stream, path)
    if header.format != AGENT_FORMAT:
        raise JournalError(
            f"the session {header.id} is not the agent's own: it holds {header.format} messages, as a proxy keeps them"
            f" for its clients. To go on with it, resume it in the client that began it; wane show {header.id} shows it"
        )


def _go_on(journal: Journal, config: SessionConfig) -> Opened:
    transcript: Transcript[ModelMessage] = Transcript(_FORMAT)
    records = journal.found.records
    replayed = replay(records, lambda data: transcript.append(_FORMAT.load([dict(data)])[0]))
    noted = _noted(records)
    config = replace(config, settings=_as_it_was(config, replayed, noted))
    warnings: tuple[str, ...] = ()
    marked = replayed.unrecorded or any(isinstance(record, AnnotationRecord) for record in records)
    if config.settings.annotate == "infer" and marked:
        # The agent is the authority on structure, and has used it.
        config = replace(config, settings=replace(config.settings, annotate="model"))
        warnings = ("The model has marked episodes in this session itself, so it goes on to; none are inferred.",)
    model, conversation = _model_and_conversation(config.settings)
    try:
        _redo(conversation, records, transcript.messages, replayed.marks)
    except HistoryError as error:
        raise JournalError(f"the session does not replay: {error}") from error
    conversation.budget = budget_tokens(config.settings.budget, model)
    conversation.manage = config.settings.strategy != "none"
    conversation.set_tool_classes(config.settings.tool_classes)
    recorder = _recorder(config, conversation, journal)
    servers, unused = servers_of(config)
    opened = Opened(
        config, model, conversation, recorder, journal, permissions_of(config), servers, (*warnings, *unused)
    )
    for annotation in replayed.unrecorded:
        journal.append(annotation)
    opened.recorder.config(unless=replayed.config)
    if noted != _note(config.settings, model):
        note_agent(opened.recorder, config.settings, model)
    return opened


def _redo(
    conversation: Conversation[ModelMessage],
    records: Sequence[Record],
    messages: Sequence[ModelMessage],
    marks: Mapping[int, tuple[Mark, ...]],
) -> None:
    """Have a conversation go on where the records end, under its own strategy.

    What a strategy left out stays out whenever it is chosen again. A strategy that is new to the session, or comes
    after another one, begins with all else that has happened; so does eviction by episode.

    Raises:
        HistoryError: if a record does not fit the history.
    """
    coming, config, noted = iter(messages), ConfigRecord(DEFAULT_BUDGET, Policy()), dict[str, str]()
    for record in records:
        match record:
            case MessageRecord():
                conversation.retake(next(coming), marks)
            case PassRecord(trace=trace, overflowed=overflowed):
                conversation.redo(trace, strategy="cwl", overhead=config.overhead, overflowed=overflowed)
            case StrategyRecord(strategy=strategy, done=done):
                conversation.redo(done, strategy=strategy, overhead=config.overhead)
            case UsageRecord(input_tokens=tokens):
                strategy = _kept_by(_strategy(config, noted))
                conversation.redo(strategy=strategy, overhead=config.overhead, input_tokens=tokens)
            case NoteRecord(topic=topic) if topic == AGENT_NOTE:
                noted = _noted([record])
            case ConfigRecord():
                config, conversation.budget, conversation.manage = record, record.budget, record.managed
                conversation.set_tool_classes(record.tool_classes)


def _kept_by(strategy: str) -> str:
    """The strategy of a conversation: with `none`, nothing is managed."""
    return "cwl" if strategy == "none" else strategy


def _model_and_conversation(settings: Settings) -> tuple[Model, Conversation[ModelMessage]]:
    model = resolve_model(settings.model or default_model(os.environ))
    conversation = new_conversation(
        budget_tokens(settings.budget, model),
        policy=settings.eviction,
        strategy=_kept_by(settings.strategy),
        annotate=settings.annotate,
        recall=settings.recall,
        remind_at=settings.remind_at,
        tool_classes=settings.tool_classes,
        manage=settings.strategy != "none",
    )
    return model, conversation


def _recorder(config: SessionConfig, conversation: Conversation[ModelMessage], journal: Journal | None) -> Recorder:
    return Recorder(
        journal,
        conversation,
        totals=spent_before(journal.found.records if journal else ()),
        instructions=_instructions(conversation.messages),
        tool_classes=config.settings.tool_classes,
    )


def _as_it_was(config: SessionConfig, replayed: Replay, noted: Mapping[str, str]) -> Settings:
    """The settings that a session had, with those on top that the user chose for this start."""
    was: dict[str, Any] = dict(noted)
    if (record := replayed.config) is not None:
        was |= {"budget": record.budget, "strategy": _strategy(record, noted)}
        if was["strategy"] != "paper":  # which has its own
            was["policy"] = record.policy
    settings = config.settings
    if settings.model is not None and not isinstance(settings.model, str):
        was.pop("model", None)  # a model without a name cannot be found again by one
    return replace(settings, **{name: value for name, value in was.items() if name not in config.chosen})


def _strategy(record: ConfigRecord, noted: Mapping[str, str]) -> str:
    strategy = noted.get("strategy", "none")
    if record.managed:
        return strategy if strategy in ANNOTATED else "cwl"
    return strategy if strategy in get_args(Strategy) and strategy not in ANNOTATED else "none"


def _noted(records: Sequence[Record]) -> dict[str, str]:
    notes = [record.data for record in records if isinstance(record, NoteRecord) and record.topic == AGENT_NOTE]
    data = notes[-1] if notes else {}
    # Sessions from before there was a choice were marked by their models.
    noted = {"annotate": "model", **data}
    return {name: value for name in ("model", "strategy", "annotate") if isinstance(value := noted.get(name), str)}


def _note(settings: Settings, model: Model) -> dict[str, str]:
    return {"model": _spec(settings, model), "strategy": settings.strategy, "annotate": settings.annotate}


def _spec(settings: Settings, model: Model) -> str:
    """The model as it was asked for: `openai-chat:x` is not the same as the `openai:x` that answers."""
    return settings.model if isinstance(settings.model, str) else model.model_id


def _instructions(messages: Sequence[ModelMessage]) -> str | None:
    """The instructions on record, which stand where they changed."""
    said = (message.instructions for message in reversed(messages) if isinstance(message, ModelRequest))
    return next((text for text in said if text is not None), None)
