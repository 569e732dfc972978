"""Creates or resumes a session: its model, context, permissions, servers and journal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic_ai.messages import ModelMessage, ModelRequest

from wane.account import Account
from wane.agent.approval.permissions import Approver, Permissions, refuse
from wane.agent.approval.rules import FILE, RememberedRules, Rule
from wane.agent.config import Settings, user_file
from wane.agent.costs import budget_tokens
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT, Strategy
from wane.agent.project import project_of
from wane.agent.recorder import Recorder
from wane.agent.tools import mcp
from wane.agent.tools.mcp import Servers
from wane.conversation import Conversation
from wane.core import DEFAULT_BUDGET, Policy, exact_budget
from wane.core.errors import JournalError
from wane.formats.frameworks.pydantic_ai import PydanticAIFormat
from wane.inference import is_annotated
from wane.integrations.pydantic_ai import new_conversation
from wane.journal import (
    ConfigRecord,
    Journal,
    MessageRecord,
    NoteRecord,
    PassRecord,
    Record,
    SessionStore,
    StrategyRecord,
    UsageRecord,
)
from wane.journal.following import follow
from wane.journal.reader import open_session, read_header_of
from wane.strategies.base import ANNOTATED

if TYPE_CHECKING:
    from pydantic_ai.models import Model

AGENT_NOTE = "agent"
"""Topic of the note that names a session's model, strategy and who marks its episodes."""

_FORMAT = PydanticAIFormat()


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The configuration of a session.

    Attributes:
        cwd: directory that the agent works in.
        settings: how it works.
        store: where its journal is kept; None keeps none.
        ask: asks the user to approve commands and file changes; not used with `Settings.yolo`.
        chosen: names of the settings that the user chose for this start. A resumed session takes these from `settings`
            and keeps its own for the rest.
    """

    cwd: Path
    settings: Settings = field(default_factory=Settings)
    store: SessionStore | None = None
    ask: Approver = refuse
    chosen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts of a session.

    Attributes:
        config: its configuration; for a resumed session, with the settings that it had.
        model: the model that answers.
        conversation: its context, with the whole history so far.
        recorder: writes the journal.
        journal: its journal; None if it keeps none.
        permissions: what it may do without asking.
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


def create(config: SessionConfig) -> SessionParts:
    """Create a session. Raises as `AgentSession.create` does."""
    permissions, (servers, warnings) = permissions_of(config), servers_of(config)
    model, conversation = _model_and_conversation(config.settings)
    journal = None
    if config.store is not None:
        journal = config.store.create(config.cwd, message_format=_FORMAT.name)
    recorder = _recorder(config, conversation, journal)
    recorder.config()
    record_agent(recorder, config.settings, model)
    return SessionParts(config, model, conversation, recorder, journal, permissions, servers, warnings)


def resume(path: Path, config: SessionConfig) -> SessionParts:
    """Resume a session. Raises as `AgentSession.resume` does."""
    # Opening a journal may wait for its lock and repair it, so another program's is refused before that.
    with open_session(path) as stream:
        header, _ = read_header_of(stream, path)
    if header.format != AGENT_FORMAT:
        raise JournalError(
            f"the session {header.id} is not the agent's own: it holds {header.format} messages, as a proxy keeps them"
            f" for its clients. To go on with it, resume it in the client that began it; wane show {header.id} shows it"
        )
    journal = Journal.open(path)
    try:
        return _resume(journal, config)
    except BaseException:
        journal.close()
        raise


def permissions_of(config: SessionConfig) -> Permissions:
    """Return a session's permissions, by its settings and the rules remembered for its project.

    Raises:
        ConfigError: if the remembered rules cannot be read.
    """
    settings = config.settings
    return Permissions(
        ask=config.ask,
        yolo=settings.yolo,
        allow=list(map(Rule.read, settings.allow)),
        deny=list(map(Rule.read, settings.deny)),
        remembered=RememberedRules(user_file(os.environ).with_name(FILE), project_of(config.cwd)),
    )


def servers_of(config: SessionConfig) -> tuple[Servers, tuple[str, ...]]:
    """Return a session's MCP servers, and a warning if the project has some that are not used.

    Raises:
        ConfigError: if a file with servers cannot be used.
        MissingExtraError: if there are servers, but the extra is not installed.
    """
    own = user_file(os.environ).with_name(mcp.USER_FILE)
    named = [config.cwd / Path(path).expanduser() for path in config.settings.mcp]
    files = [*([own] if own.is_file() else []), *named]
    offered = config.cwd / mcp.PROJECT_FILE
    unused = offered.is_file() and not any(file.resolve() == offered.resolve() for file in files)
    warning = f"The project's MCP servers are not used; --mcp {mcp.PROJECT_FILE} uses them."
    return Servers(list(dict.fromkeys(files))), (warning,) if unused else ()


def record_agent(recorder: Recorder, settings: Settings, model: Model) -> None:
    """Record the model and the strategy that hold from here on, and who marks episodes."""
    recorder.note(AGENT_NOTE, **_agent_note(settings, model))


def _resume(journal: Journal, config: SessionConfig) -> SessionParts:
    records = journal.found.records
    messages = _FORMAT.load([record.message for record in records if isinstance(record, MessageRecord)])
    recorded = next((record for record in reversed(records) if isinstance(record, ConfigRecord)), None)
    noted = _noted(records)
    config = replace(config, settings=_resumed_settings(config, recorded, noted))
    warnings: tuple[str, ...] = ()
    parts = (part for message in messages for part in _FORMAT.parts(message))
    if config.settings.annotate == "infer" and is_annotated(parts):
        # Where the model has marked episodes, its marks count.
        config = replace(config, settings=replace(config.settings, annotate="model"))
        warnings = ("The model marked episodes in this session itself and keeps doing so; none are inferred.",)
    model, conversation = _model_and_conversation(config.settings)
    _replay_into(conversation, records, messages)
    conversation.budget = exact_budget(budget_tokens(config.settings.budget, model))
    conversation.manage = config.settings.strategy != "none"
    conversation.set_tool_classes(config.settings.tool_classes)
    recorder = _recorder(config, conversation, journal)
    permissions, (servers, unused) = permissions_of(config), servers_of(config)
    recorder.config(unless=recorded)
    if noted != _agent_note(config.settings, model):
        record_agent(recorder, config.settings, model)
    return SessionParts(config, model, conversation, recorder, journal, permissions, servers, (*warnings, *unused))


def _replay_into(
    conversation: Conversation[ModelMessage], records: Sequence[Record], messages: Iterable[ModelMessage]
) -> None:
    """Replay the records into a conversation, which then continues under its own strategy.

    What a strategy left out stays out whenever that strategy is chosen again. A strategy that is new to the session
    starts with everything else in view.

    Raises:
        JournalError: if a record does not fit the history.
    """
    coming, config, noted = iter(messages), ConfigRecord(DEFAULT_BUDGET, Policy()), dict[str, str]()

    def take(record: Record) -> None:
        nonlocal config, noted
        match record:
            case MessageRecord():
                conversation.retake(next(coming), record.marks_at)
            case PassRecord(trace=trace, overflowed=overflowed):
                conversation.redo(trace, strategy="cwl", overhead=config.overhead, overflowed=overflowed)
            case StrategyRecord(strategy=strategy, done=done):
                conversation.redo(done, strategy=strategy, overhead=config.overhead)
            case UsageRecord(input_tokens=tokens):
                strategy = _conversation_strategy(_recorded_strategy(config, noted))
                conversation.redo(strategy=strategy, overhead=config.overhead, input_tokens=tokens)
            case NoteRecord(topic=topic) if topic == AGENT_NOTE:
                noted = _noted([record])
            case ConfigRecord():
                config, conversation.budget, conversation.manage = record, record.budget, record.managed
                conversation.set_tool_classes(record.tool_classes)

    follow(records, take, lambda: conversation.window.item_count)


def _conversation_strategy(strategy: str) -> str:
    """The conversation's strategy. With `none` it has one too, but does not manage."""
    return "cwl" if strategy == "none" else strategy


def _model_and_conversation(settings: Settings) -> tuple[Model, Conversation[ModelMessage]]:
    model = resolve_model(settings.model or default_model(os.environ))
    conversation = new_conversation(
        exact_budget(budget_tokens(settings.budget, model)),
        policy=settings.eviction,
        strategy=_conversation_strategy(settings.strategy),
        annotate=settings.annotate,
        recall=settings.recall,
        remind_at=settings.remind_at,
        tool_classes=settings.tool_classes,
        manage=settings.strategy != "none",
    )
    return model, conversation


def _recorder(config: SessionConfig, conversation: Conversation[ModelMessage], journal: Journal | None) -> Recorder:
    requests = (message for message in reversed(conversation.messages) if isinstance(message, ModelRequest))
    return Recorder(
        journal,
        conversation,
        account=Account.of(journal.found.records if journal else ()),
        # They are recorded only where they changed.
        instructions=next((each.instructions for each in requests if each.instructions is not None), None),
        tool_classes=config.settings.tool_classes,
    )


def _resumed_settings(config: SessionConfig, record: ConfigRecord | None, noted: Mapping[str, str]) -> Settings:
    """The recorded settings of a session, except those that the user chose for this start."""
    recorded: dict[str, Any] = dict(noted)
    if record is not None:
        recorded |= {"budget": record.budget, "strategy": _recorded_strategy(record, noted)}
        if recorded["strategy"] != "paper":  # whose policy is fixed
            recorded["policy"] = record.policy
    settings = config.settings
    if settings.model is not None and not isinstance(settings.model, str):
        recorded.pop("model", None)  # a model object is kept: the recorded name may not resolve to it
    return replace(settings, **{name: value for name, value in recorded.items() if name not in config.chosen})


def _recorded_strategy(record: ConfigRecord, noted: Mapping[str, str]) -> str:
    strategy = noted.get("strategy", "none")
    if record.managed:
        return strategy if strategy in ANNOTATED else "cwl"
    return strategy if strategy in get_args(Strategy) and strategy not in ANNOTATED else "none"


def _noted(records: Sequence[Record]) -> dict[str, str]:
    """The content of the latest note about the agent."""
    notes = [record.data for record in records if isinstance(record, NoteRecord) and record.topic == AGENT_NOTE]
    # Notes without `annotate` are from sessions in which the model marked its episodes.
    noted = {"annotate": "model", **(notes[-1] if notes else {})}
    return {name: value for name in ("model", "strategy", "annotate") if isinstance(value := noted.get(name), str)}


def _agent_note(settings: Settings, model: Model) -> dict[str, str]:
    # The model as the user named it: `openai-chat:x` is not the `openai:x` of the model's id.
    spec = settings.model if isinstance(settings.model, str) else model.model_id
    return {"model": spec, "strategy": settings.strategy, "annotate": settings.annotate}
