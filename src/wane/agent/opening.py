"""Creates or resumes a session: its model, context, permissions, servers and journal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage, ModelRequest

from wane.account import Account
from wane.agent.approval.permissions import Approver, Permissions, refuse
from wane.agent.approval.rules import FILE, RememberedRules, Rule
from wane.agent.config import Settings, user_file
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT
from wane.agent.project import project_of
from wane.agent.recorder import Recorder
from wane.agent.tools import mcp
from wane.agent.tools.mcp import Servers
from wane.conversation import Conversation
from wane.core import parse_budget
from wane.core.errors import JournalError
from wane.formats.frameworks.pydantic_ai import PydanticAIFormat
from wane.inference import is_annotated
from wane.integrations.pydantic_ai import new_conversation
from wane.journal import (
    ConfigRecord,
    Journal,
    MessageRecord,
    NoteRecord,
    Record,
    SessionStore,
)
from wane.journal.reader import open_session, read_header_of
from wane.journal.records import settings_after
from wane.strategies.base import traits

if TYPE_CHECKING:
    from pydantic_ai.models import Model

AGENT_NOTE = "agent"
"""Topic of the note that names the model that answers from here on."""

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
    """The parts of a session; `config` has the settings that a resumed one had."""

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
    recorder = _recorder(conversation, journal)
    recorder.config()
    record_model(recorder, config.settings, model)
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
        directory=config.cwd,
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


def record_model(recorder: Recorder, settings: Settings, model: Model) -> None:
    """Record the model that answers from here on."""
    recorder.note(AGENT_NOTE, model=_name_of(settings, model))


def _resume(journal: Journal, config: SessionConfig) -> SessionParts:
    records = journal.contents.records
    recorded, model_name = settings_after(records), _noted_model(records)
    config = replace(config, settings=_resumed_settings(config, recorded, model_name))
    warnings: tuple[str, ...] = ()
    recorded_messages = _FORMAT.load([record.message for record in records if isinstance(record, MessageRecord)])
    parts = (part for message in recorded_messages for part in _FORMAT.parts(message))
    if config.settings.context.annotate == "infer" and is_annotated(parts):
        # Where the model has marked episodes, its marks count.
        config = replace(config, settings=config.settings.changed(annotate="model"))
        warnings = ("The model marked episodes in this session itself and keeps doing so; none are inferred.",)
    model, conversation = _model_and_conversation(config.settings)
    conversation.log.follow(records)
    recorder = _recorder(conversation, journal)
    permissions, (servers, unused) = permissions_of(config), servers_of(config)
    recorder.config(unless=recorded)
    if model_name != _name_of(config.settings, model):
        record_model(recorder, config.settings, model)
    return SessionParts(config, model, conversation, recorder, journal, permissions, servers, (*warnings, *unused))


def _model_and_conversation(settings: Settings) -> tuple[Model, Conversation[ModelMessage]]:
    model = resolve_model(settings.model or default_model(os.environ))
    bounded = traits(settings.context.strategy).bounded
    context = replace(
        settings.context,
        budget=parse_budget(settings.budget, window=model.context_window),
        strategy=settings.context.strategy if bounded else "cwl",  # it has one too, but does not manage
        manage=bounded,
    )
    return model, new_conversation(settings=context)


def _recorder(conversation: Conversation[ModelMessage], journal: Journal | None) -> Recorder:
    requests = (message for message in reversed(conversation.messages) if isinstance(message, ModelRequest))
    return Recorder(
        journal,
        conversation,
        account=Account.of(journal.contents.records if journal else ()),
        # They are recorded only where they changed.
        instructions=next((request.instructions for request in requests if request.instructions is not None), None),
    )


def _resumed_settings(config: SessionConfig, recorded: ConfigRecord, model: str | None) -> Settings:
    """The recorded settings of a session, except those that the user chose for this start."""
    settings, values = config.settings, dict[str, Any]()
    if recorded.strategy:
        values = {"budget": recorded.budget, "strategy": recorded.strategy}
        values |= {"annotate": recorded.annotate, "tasks": recorded.tasks}
        if traits(recorded.strategy).policy is None:
            values["policy"] = recorded.policy
    if model is not None and (settings.model is None or isinstance(settings.model, str)):
        values["model"] = model  # not in place of a model object: the recorded name may not resolve to it
    return settings.changed(**{name: value for name, value in values.items() if name not in config.chosen})


def _noted_model(records: Sequence[Record]) -> str | None:
    """The model that a session was recorded with last."""
    notes = [record.data for record in records if isinstance(record, NoteRecord) and record.topic == AGENT_NOTE]
    name = notes[-1].get("model") if notes else None
    return name if isinstance(name, str) else None


def _name_of(settings: Settings, model: Model) -> str:
    """The model as the user named it: `openai-chat:x` is not the `openai:x` of the model's id."""
    return settings.model if isinstance(settings.model, str) else model.model_id
