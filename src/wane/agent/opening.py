"""Beginning a session, or going on with one: model, context and journal, ready to work."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic_ai.messages import ModelMessage, ModelRequest

from wane.agent.approval import Approver, refuse
from wane.agent.config import Settings
from wane.agent.costs import Totals, budget_tokens
from wane.agent.keeping import SUMMARY_NOTE, bring_back, keeper_for, summary_record
from wane.agent.models import default_model, resolve_model
from wane.agent.options import AGENT_FORMAT, ANNOTATED, Strategy
from wane.agent.recorder import Recorder
from wane.core.errors import HistoryError, JournalError
from wane.formats.base import Transcript
from wane.formats.pydantic_ai import PydanticAIFormat
from wane.integrations.pydantic_ai import Tracker
from wane.journal import ConfigRecord, Journal, NoteRecord, Record, Replay, SessionStore, UsageRecord, replay
from wane.journal.reader import open_session, read_header_of

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from wane.integrations.keeper import Keeper

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
        tracker: its context, with all that has happened so far.
        recorder: writes the journal.
        journal: where; None keeps none.
        keeper: keeps the context, where it is not kept by episodes.
        warnings: what the user should know, as sentences.
    """

    config: SessionConfig
    model: Model
    tracker: Tracker
    recorder: Recorder
    journal: Journal | None
    keeper: Keeper | None = None
    warnings: tuple[str, ...] = ()


def begin(config: SessionConfig) -> Opened:
    """Begin a session; the errors are those of `AgentSession.create`."""
    model, tracker = _model_and_tracker(config.settings)
    journal = None
    if config.store is not None:
        journal = config.store.create(config.cwd, message_format=_FORMAT.name)
    keeper = keeper_for(config.settings, tracker)
    opened = Opened(config, model, tracker, _recorder(config, tracker, journal), journal, keeper)
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
    model, tracker = _model_and_tracker(config.settings)
    window = replayed.window
    window.budget, window.policy = tracker.window.budget, tracker.window.policy
    window.set_tool_classes(config.settings.tool_classes)
    tracker.restore(
        window,
        transcript.messages,
        replayed.episodes,
        replayed.marks,
        budgets=replayed.budgets,
        overflows=replayed.overflows,
    )
    warnings: tuple[str, ...] = ()
    if tracker.annotate == "infer" and not tracker.inferring:
        # The agent is the authority on structure, and has used it.
        tracker.annotate = "model"
        config = replace(config, settings=replace(config.settings, annotate="model"))
        warnings = ("The model has marked episodes in this session itself, so it goes on to; none are inferred.",)
    keeper = _keeper(config, tracker, records, replayed, noted)
    opened = Opened(config, model, tracker, _recorder(config, tracker, journal), journal, keeper, warnings)
    for annotation in replayed.unrecorded:
        journal.append(annotation)
    opened.recorder.config(unless=replayed.config)
    if noted != _note(config.settings, model):
        note_agent(opened.recorder, config.settings, model)
    return opened


def _keeper(
    config: SessionConfig, tracker: Tracker, records: Sequence[Record], replayed: Replay, noted: Mapping[str, str]
) -> Keeper | None:
    keeper = keeper_for(config.settings, tracker)
    before = "none" if replayed.config is None else _strategy(replayed.config, noted)
    try:
        bring_back(keeper, tracker, records, before)
    except HistoryError as error:
        raise JournalError(f"the session does not replay: {error}") from error
    return keeper


def _model_and_tracker(settings: Settings) -> tuple[Model, Tracker]:
    model = resolve_model(settings.model or default_model(os.environ))
    budget = budget_tokens(settings.budget, model)
    managed = settings.strategy in ANNOTATED
    tracker = Tracker(
        budget,
        settings.eviction,
        tool_classes=settings.tool_classes,
        remind_at=settings.remind_at,
        manage=managed,
        annotate=settings.annotate,
    )
    return model, tracker


def _recorder(config: SessionConfig, tracker: Tracker, journal: Journal | None) -> Recorder:
    return Recorder(
        journal,
        tracker,
        totals=_spent(journal.found.records if journal else ()),
        instructions=_instructions(tracker.transcript.messages),
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


def _spent(records: Sequence[Record]) -> Totals:
    totals = Totals()
    for record in records:
        if isinstance(record, UsageRecord):
            totals = totals.plus(record)
        elif isinstance(record, NoteRecord) and record.topic == SUMMARY_NOTE:
            totals = totals.plus(summary_record(record.data))
    return totals


def _instructions(messages: Sequence[ModelMessage]) -> str | None:
    """The instructions on record, which stand where they changed."""
    said = (message.instructions for message in reversed(messages) if isinstance(message, ModelRequest))
    return next((text for text in said if text is not None), None)
