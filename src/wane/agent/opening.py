"""Creates or resumes a session: its model, context, permissions, servers and journal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wane.account import Account
from wane.agent.approval.permission_rules import FILE, RememberedRules, Rule
from wane.agent.approval.permissions import Approver, Permissions, refuse
from wane.agent.approval.readonly import Surroundings
from wane.agent.config import AgentSettings, user_file
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT
from wane.agent.project import project_of
from wane.agent.recorder import Recorder
from wane.agent.repositories import RepositoryGuard, quiet_environment
from wane.agent.rewind import accounts_left
from wane.agent.sandbox.own_git import OwnGit
from wane.agent.sandbox.wall import Confinement, Sandbox, find_sandbox
from wane.agent.search_path import shield_path, users_environment
from wane.agent.tools import mcp
from wane.agent.tools.mcp import Servers
from wane.budgets import choose_budget, is_auto
from wane.conversation import Conversation
from wane.core import parse_budget
from wane.core.errors import ConfigError, JournalError
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.inference import is_annotated
from wane.integrations.pydantic_ai import new_conversation
from wane.journal import ConfigRecord, Journal, MessageRecord, NoteRecord, Record, SessionStore
from wane.journal.reader import open_session, read_header_of
from wane.journal.records import settings_after
from wane.prices import price_step
from wane.strategies.registry import traits
from wane.tuned import usable_tuned

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
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
        ask: asks the user to approve commands and file changes; not used with `AgentSettings.yolo`.
        chosen: names of the settings that the user chose for this start. A resumed session takes these from `settings`
            and keeps its own for the rest.
        elsewhere: what was spent in the sessions that the user went back or forward from, by their ids; it counts for
            the cost limit. A resumed session has those that it was noted to have, too.
    """

    cwd: Path
    settings: AgentSettings = field(default_factory=AgentSettings)
    store: SessionStore | None = None
    ask: Approver = refuse
    chosen: frozenset[str] = frozenset()
    elsewhere: Mapping[str, Account] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What `prepare` hands over to `AgentSession`; `config` has the settings that a resumed session had."""

    config: SessionConfig
    model: Model
    conversation: Conversation[ModelMessage]
    recorder: Recorder
    journal: Journal | None
    permissions: Permissions
    servers: Servers
    sandbox: Sandbox
    warnings: list[str]


def prepare(config: SessionConfig, path: Path | None = None) -> SessionParts:
    """Prepare a new session, or the one at a path. Raises as `AgentSession.create` and `resume` do."""
    shield_path(os.environ, config.cwd)
    environ = quiet_environment(users_environment(os.environ))
    sandbox = _sandbox(config)
    guard = RepositoryGuard(config.cwd, environ, ask=OwnGit(sandbox, environ).ask)
    permissions = Permissions(
        ask=config.ask,
        yolo=config.settings.yolo,
        allow=list(map(Rule.read, config.settings.allow)),
        deny=list(map(Rule.read, config.settings.deny)),
        remembered=RememberedRules(user_file(os.environ).with_name(FILE), project_of(config.cwd)),
        surroundings=Surroundings(config.cwd, environ, guard.reads),
        repository=guard,
        sandboxed=sandbox.in_force,
    )
    servers, warnings = _servers(config)
    if not sandbox.in_force and config.settings.sandbox != "off":
        warnings = [*warnings, sandbox.describe()]
    journal = None if path is None else _open(path)
    try:
        records = journal.contents.records if journal else ()
        recorded, model_name = settings_after(records), _noted_model(records)
        settings = _resumed_settings(config, recorded, model_name)
        if settings.context.annotate == "infer" and _is_annotated(records):
            # Where the model has marked episodes, its marks count.
            settings = settings.replace(annotate="model")
            note = "The model marked episodes in this session itself and keeps doing so; none are inferred."
            warnings = [note, *warnings]
        model = resolve_model(settings.model or default_model(os.environ))
        bounded = traits(settings.context.strategy).bounded
        window = settings.context.window or model.context_window
        auto = is_auto(settings.budget)
        tuned = usable_tuned(os.environ, warnings.append) if auto else None
        chosen = choose_budget(window=window, tuned=tuned).tokens
        context = replace(
            settings.context,
            auto=auto,
            tuned=tuned,
            budget=chosen if auto else parse_budget(settings.budget, window=window),
            price_step=price_step(name_of(settings, model)) if auto else None,
            strategy=settings.context.strategy if bounded else "cwl",  # it has one too, but does not manage
            manage=bounded,
            window=window,
        )
        conversation = new_conversation(settings=context)
        conversation.log.follow(records)
        if journal is None and config.store is not None:
            journal = config.store.create(config.cwd, message_format=AGENT_FORMAT)
        elsewhere = {**accounts_left(records), **config.elsewhere}
        recorder = Recorder(journal, conversation, sum(elsewhere.values(), Account()))
        recorder.config(unless=recorded)
        if model_name != name_of(settings, model):
            record_model(recorder, settings, model)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    config = replace(config, settings=settings, elsewhere=elsewhere)
    return SessionParts(config, model, conversation, recorder, journal, permissions, servers, sandbox, warnings)


def _sandbox(config: SessionConfig) -> Sandbox:
    """The sandbox of a session.

    Raises:
        ConfigError: if commands that the user allows are to run in one, and none can hold them.
    """
    mode = config.settings.sandbox
    sandbox = find_sandbox(config.cwd, os.environ, mode)
    if mode != "all":
        return sandbox
    if sandbox.kind in (Confinement.BUBBLEWRAP, Confinement.SEATBELT):
        return replace(sandbox, holds_allowed=True, network=config.settings.sandbox_network)
    reason = sandbox.reason or "Landlock can confine what reads, and not what writes"
    raise ConfigError(f'the setting sandbox is "all", but nothing can hold what you allow: {reason}; use "reads"')


def _open(path: Path) -> Journal:
    # Opening a journal may wait for its lock and repair it, so another program's is refused before that.
    with open_session(path) as stream:
        header, _ = read_header_of(stream, path)
    if header.format != AGENT_FORMAT:
        raise JournalError(
            f"the session {header.id} is not the agent's own: it holds {header.format} messages, as a proxy keeps them"
            f" for its clients. To go on with it, resume it in the client that began it; wane show {header.id} shows it"
        )
    return Journal.open(path)


def _servers(config: SessionConfig) -> tuple[Servers, list[str]]:
    """The MCP servers, and a warning if the project has some that are not used."""
    own = user_file(os.environ).with_name(mcp.USER_FILE)
    named = [config.cwd / Path(path).expanduser() for path in config.settings.mcp]
    files = [*([own] if own.is_file() else []), *named]
    offered = config.cwd / mcp.PROJECT_FILE
    unused = offered.is_file() and not any(file.resolve() == offered.resolve() for file in files)
    warning = f"The project's MCP servers are not used; --mcp {mcp.PROJECT_FILE} uses them."
    return Servers(list(dict.fromkeys(files))), [warning] if unused else []


def _is_annotated(records: Sequence[Record]) -> bool:
    messages = _FORMAT.load([record.message for record in records if isinstance(record, MessageRecord)])
    return is_annotated(part for message in messages for part in _FORMAT.parts(message))


def record_model(recorder: Recorder, settings: AgentSettings, model: Model) -> None:
    """Record the model that answers from here on."""
    recorder.note(AGENT_NOTE, model=name_of(settings, model))


def _resumed_settings(config: SessionConfig, recorded: ConfigRecord, model: str | None) -> AgentSettings:
    """The recorded settings of a session, except those that the user chose for this start."""
    settings, values = config.settings, dict[str, Any]()
    if recorded.strategy:
        values = {"budget": recorded.budget, "strategy": recorded.strategy}
        values |= {"annotate": recorded.annotate, "tasks": recorded.tasks}
        if traits(recorded.strategy).policy is None:
            values["policy"] = recorded.policy
    if model is not None and (settings.model is None or isinstance(settings.model, str)):
        values["model"] = model  # not in place of a model object: the recorded name may not resolve to it
    return settings.replace(**{name: value for name, value in values.items() if name not in config.chosen})


def _noted_model(records: Sequence[Record]) -> str | None:
    """The model that a session was recorded with last."""
    notes = [record.data for record in records if isinstance(record, NoteRecord) and record.topic == AGENT_NOTE]
    name = notes[-1].get("model") if notes else None
    return name if isinstance(name, str) else None


def name_of(settings: AgentSettings, model: Model) -> str:
    """The model as the user named it: `openai-chat:x` is not the `openai:x` of the model's id."""
    return settings.model if isinstance(settings.model, str) else model.model_id
