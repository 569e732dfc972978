"""The dry run: what a pass over a recorded session would evict, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from wane.budgets import AutoBudget, TunedBudget, choose_budget, is_auto
from wane.conversation.context import ContextSettings
from wane.conversation.engine import Engine
from wane.conversation.views import messages_of
from wane.core import (
    Counter,
    Episode,
    FitReport,
    Item,
    Kind,
    Mark,
    Pinned,
    Policy,
    Room,
    Step,
    ToolClass,
    chars,
    parse_budget,
    parse_window,
)
from wane.core.errors import ConfigError, HistoryError
from wane.core.items import read_tool_classes
from wane.counters import get_counter
from wane.formats import Part, StoredFormat, Transcript, detect_format, get_format
from wane.formats.fields import check_each
from wane.formats.message_format import is_native
from wane.formats.vocabulary import as_data
from wane.strategies.strategy import AnnotateChoice, Fitted, Slot, choose_annotator


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a dry run.

    Attributes:
        report: what the pass did, step by step; `report.explain()` says it in sentences.
        episodes: all episodes, in order of start, as they are after the pass.
        inferred: whether episodes were inferred from tool calls because the agent marked none.
        visible: indexes of the items that stay, in the session's order (R1).
        view: the same items, with the index of evicted content (`report.index`) as a substitute in its place.
        pinned: tokens that no pass could take, by what holds them.
        room: the budget, and the tokens of it that no pass may ever take.
        item_tokens: tokens of every item of the session.
        item_kinds: kind of every item of the session.
        messages: the messages of the view, in the input's format; empty if there were only items.
        auto_budget: the budget that `auto` chose, with its reason; None if the budget was given.
    """

    report: FitReport
    episodes: tuple[Episode, ...]
    inferred: bool
    visible: tuple[int, ...]
    view: tuple[Slot, ...]
    pinned: Pinned
    room: Room
    item_tokens: tuple[int, ...]
    item_kinds: tuple[Kind, ...]
    messages: list[Any]
    auto_budget: AutoBudget | None = None
    _format: StoredFormat[Any] | None = None

    @property
    def annotation(self) -> str:
        """Who marked the episodes: `agent`, `host` if the program around it marked any (R18), or `inferred`."""
        if self.inferred:
            return "inferred"
        if any(episode.host for episode in self.episodes):
            return "host"
        return "agent"

    @property
    def satisfied(self) -> bool:
        """Whether the view is at or under the budget."""
        return self.report.satisfied

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able data; `docs/library.md` describes the fields."""
        report = self.report
        return {
            "satisfied": report.satisfied,
            "tokens": {
                "before": report.tokens_before,
                "after": report.tokens_after,
                "budget": report.budget,
                "budget_used": report.budget_used,
                "pinned": self.pinned.total,
            },
            "room": self.room.to_dict(),
            "steps": [_step_dict(step) for step in report.steps],
            "annotation": self.annotation,
            "episodes": [_episode_dict(episode) for episode in self.episodes],
            "visible": list(self.visible),
            "index": None if report.index is None else asdict(report.index),
            "auto_budget": None if self.auto_budget is None else asdict(self.auto_budget),
            "messages": self._format.dump(self.messages) if self._format else None,
        }


def plan(
    messages: Sequence[Any],
    *,
    budget: int | str,
    policy: Policy | None = None,
    format: str | StoredFormat[Any] = "auto",  # noqa: A002 - the word for it everywhere else
    counter: str | Counter = "chars",
    overhead: int = 0,
    tool_classes: Mapping[str, ToolClass | str] | None = None,
    annotate: AnnotateChoice = "auto",
    tasks: bool = False,
    marks: Mapping[int, tuple[Mark, ...]] | None = None,
    window: int | str | None = None,
    tuned: TunedBudget | None = None,
) -> Plan:
    """Run one pass over a whole session, and return what it would evict. Nothing is changed.

    Args:
        messages: the session, oldest message first: for `openai` chat messages, for `anthropic` messages of the
            Messages API, for `openai_responses` input items, for `gemini` contents, for `pydantic_ai` `ModelMessage`
            objects or their JSON data; `auto` detects the format.
        budget: tokens that the view may hold: a number, or text such as `"80k"`; `"auto"` chooses one.
        policy: what to evict, and how far; `Policy()` if None, `Policy.paper()` for the paper's.
        format: one of `wane.formats.FORMAT_NAMES`, `auto`, or a format with settings of its own, such as
            `OpenAIFormat(demands_reasoning=False)`.
        counter: `chars`, `tiktoken`, or a function from text to tokens.
        overhead: tokens that every request carries besides the messages (tool definitions, a separate system prompt).
        tool_classes: classes of tools by name, on top of the defaults.
        annotate: where episodes come from: `model`, the agent's own `delimiter` calls; `infer`, inferred from its
            tool calls; `auto`, the marks of the program around the agent if there are any, else the agent's own if one
            was accepted, else inferred.
        tasks: whether the agent may have grouped its episodes in tasks (R17).
        marks: marks of the program around the agent (R18), by index of the item after them.
        window: tokens of the model's window, beyond which no pass works (R22); None if unknown.
        tuned: what the user's own recordings recommend, for the budget `auto`; None without any.

    Raises:
        ConfigError: for a budget, policy, counter, tool class or `annotate` that cannot work.
        FormatError: for messages of another or an unknown format, such as the lines of an agent's session file.
        HistoryError: for a session that no provider would accept, such as a result without its call.
        MissingExtraError: for a format or counter whose extra is not installed.
    """
    if isinstance(messages, (list, tuple)):
        messages = [as_data(message) for message in messages]
    if isinstance(counter, str):
        counter = get_counter(counter)
    if not callable(counter):
        raise ConfigError(f"counter is {counter!r}; it must be a counter's name, or a function from text to tokens")
    if isinstance(format, str):
        chosen = detect_format(messages) if format == "auto" else get_format(format)
    else:
        chosen = format
    transcript = Transcript(chosen, counter)
    transcript.person_calls.set_tool_classes(read_tool_classes(tool_classes))
    loaded = chosen.load(messages)
    if is_native(chosen):
        check_each(loaded, chosen.check)
    pairs = [pair for message in loaded for pair in transcript.take(message)]
    planned = plan_items(
        pairs,
        budget=budget,
        policy=policy,
        counter=counter,
        overhead=overhead,
        tool_classes=tool_classes,
        annotate=annotate,
        tasks=tasks,
        marks=marks,
        window=window,
        tuned=tuned,
    )
    return replace(planned, messages=messages_of(transcript, planned.view, "cwl")[0], _format=chosen)


def plan_items(
    history: Sequence[tuple[Item, Part]],
    *,
    budget: int | str,
    policy: Policy | None = None,
    counter: Counter = chars,
    overhead: int = 0,
    tool_classes: Mapping[str, ToolClass | str] | None = None,
    annotate: AnnotateChoice = "auto",
    tasks: bool = False,
    marks: Mapping[int, tuple[Mark, ...]] | None = None,
    window: int | str | None = None,
    tuned: TunedBudget | None = None,
) -> Plan:
    """Run one pass over the items of a session; see `plan`.

    Args:
        history: the items with their content, oldest first.
        budget: tokens that the view may hold.
        policy: what to evict, and how far.
        counter: counts the tokens of the index of evicted content.
        overhead: tokens that every request carries besides the items (system prompt, tool definitions).
        tool_classes: classes of tools by name, on top of the defaults.
        annotate: where episodes come from.
        tasks: whether the agent may have grouped its episodes in tasks (R17).
        marks: marks of the program around the agent (R18), by index of the item after them.
        window: tokens of the model's window; None if unknown.
        tuned: what the user's own recordings recommend, for the budget `auto`; None without any.

    Raises:
        ConfigError: for a budget, policy, tool class or `annotate` that cannot work.
        HistoryError: for a session that no provider would accept.
    """
    if annotate not in get_args(AnnotateChoice):
        raise ConfigError(f"annotate is {annotate!r}; it must be one of: {', '.join(get_args(AnnotateChoice))}")
    marks = marks or {}
    annotator = choose_annotator(annotate, (part for _, part in history), marks)
    window = None if window is None else parse_window(window)
    auto = is_auto(budget)
    settings = ContextSettings(
        choose_budget(window=window, tuned=tuned).tokens if auto else parse_budget(budget, exact=True),
        overhead,
        window=window,
        policy=policy or Policy(),
        tool_classes=tool_classes,
        annotate=annotator,
        tasks=tasks,
        counter=counter,
    )
    engine = Engine(settings)
    for index, (item, part) in enumerate(history):
        recorded = marks.get(index, ()) if annotator == "host" else None
        try:
            engine.add(item, part, recorded)
        except HistoryError as error:
            raise HistoryError(f"message {item.message}: {error}") from None
    chosen = None
    if auto:
        chosen = choose_budget(window=window, fixed=engine.window.room.fixed, tuned=tuned)
        engine.window.budget = chosen.tokens
    fitted = engine.fit()
    assert isinstance(fitted, Fitted)
    assert fitted.report is not None
    return Plan(
        report=fitted.report,
        episodes=tuple(engine.episodes),
        inferred=any(episode.inferred for episode in engine.episodes),
        visible=tuple(engine.window.visible),
        view=tuple(fitted.view),
        pinned=engine.window.pinned,
        room=engine.window.room,
        item_tokens=tuple(item.tokens for item, _ in history),
        item_kinds=tuple(item.kind for item, _ in history),
        messages=[],
        auto_budget=chosen,
    )


def _step_dict(step: Step) -> dict[str, Any]:
    return {
        "episode": step.episode,
        "level": step.level.value,
        "tokens_before": step.tokens_before,
        "tokens_after": step.tokens_after,
    }


def _episode_dict(episode: Episode) -> dict[str, Any]:
    return {
        "name": episode.name,
        "type": episode.type.value,
        "implicit": episode.implicit,
        "closed": episode.closed,
        "removed": episode.removed,
        "level": episode.level.value,
        "dependencies": list(episode.dependencies),
        "task": None if episode.task is None else episode.task.name,
        "abandoned": episode.abandoned,
        "tokens": episode.tokens,
    }
