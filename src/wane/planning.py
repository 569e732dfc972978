"""The dry run: what a pass over a recorded session would evict, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wane.core import ContextWindow, Counter, Episode, FitReport, Kind, Pinned, Policy, ToolClass, chars
from wane.core.errors import ConfigError, FormatError, HistoryError
from wane.counters import get_counter
from wane.formats import Format, Transcript, detect_format, get_format


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a dry run.

    Attributes:
        report: what the pass did, step by step.
        episodes: all episodes, in order of start, as they are after the pass.
        visible: indexes of the items that stay, over the whole session in R1's order.
        messages: the view, in the input's format.
        pinned: tokens that no pass could take, by what holds them.
        item_tokens: tokens of every item of the session.
        item_kinds: what every item of the session is.
    """

    report: FitReport
    episodes: tuple[Episode, ...]
    visible: tuple[int, ...]
    messages: list[Any]
    pinned: Pinned
    item_tokens: tuple[int, ...]
    item_kinds: tuple[Kind, ...]
    _format: Format[Any]

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
                "pinned": self.pinned.total,
            },
            "steps": [
                {
                    "episode": step.episode,
                    "level": step.level.value,
                    "tokens_before": step.tokens_before,
                    "tokens_after": step.tokens_after,
                }
                for step in report.steps
            ],
            "episodes": [_episode_dict(episode) for episode in self.episodes],
            "visible": list(self.visible),
            "messages": self._format.dump(self.messages),
        }


def plan(
    messages: Sequence[Any],
    *,
    budget: int,
    policy: Policy | None = None,
    format: str = "openai",  # noqa: A002 - the word for it everywhere else
    counter: str | Counter = "chars",
    tool_classes: Mapping[str, ToolClass | str] | None = None,
) -> Plan:
    """Run one pass over a whole session, and say what it would evict. Nothing is changed.

    Args:
        messages: the session, oldest message first. For `openai` a list of chat messages; for
            `anthropic` one of Messages API messages; for `openai_responses` one of input items; for
            `pydantic_ai` one of `ModelMessage` or their JSON data; `auto` recognises JSON data.
        budget: tokens that the view may hold.
        policy: what to evict, and how far; `Policy()` if None, `Policy.paper()` for the paper's.
        format: one of `wane.formats.FORMAT_NAMES`, or `auto`.
        counter: `chars`, `tiktoken`, or a function from text to tokens.
        tool_classes: classes of tools by name, on top of the defaults.

    Raises:
        ConfigError: for a budget, policy, counter or tool class that cannot work.
        FormatError: for messages of another format.
        HistoryError: for a session that no provider would accept, such as a result without its call.
        MissingExtraError: for a format or counter whose extra is not installed.
    """
    window = ContextWindow(budget, policy, tool_classes=tool_classes)
    if isinstance(messages, tuple):
        messages = list(messages)
    chosen = detect_format(messages) if format == "auto" else get_format(format)
    transcript = Transcript(chosen, _counter(counter))
    episodes: list[Episode] = []
    tokens: list[int] = []
    kinds: list[Kind] = []
    for number, message in enumerate(chosen.load(messages)):
        try:
            items = transcript.append(message)
            added = window.extend(items)
        except (FormatError, HistoryError) as error:
            raise type(error)(f"message {number}: {error}") from None
        episodes += [entry.opened for entry in added if entry.opened]
        tokens += [item.tokens for item in items]
        kinds += [item.kind for item in items]
    report = window.fit()
    visible = window.visible
    return Plan(
        report=report,
        episodes=tuple(episodes),
        visible=tuple(visible),
        messages=transcript.view(visible),
        pinned=window.pinned,
        item_tokens=tuple(tokens),
        item_kinds=tuple(kinds),
        _format=chosen,
    )


def _counter(counter: object) -> Counter:
    if isinstance(counter, str):
        return get_counter(counter)
    if not callable(counter):
        raise ConfigError(f"counter is {counter!r}; it must be the name of one, or a function from text to tokens")
    return counter


def _episode_dict(episode: Episode) -> dict[str, Any]:
    return {
        "name": episode.name,
        "type": episode.type.value,
        "implicit": episode.implicit,
        "closed": episode.closed,
        "removed": episode.removed,
        "level": episode.level.value,
        "dependencies": list(episode.dependencies),
        "tokens": episode.tokens,
    }


__all__ = ["Plan", "chars", "plan"]
