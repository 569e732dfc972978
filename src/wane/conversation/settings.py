"""The settings and tools of a conversation, and how to look things up in its past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from wane.conversation import past
from wane.conversation.request import DELIMITER_TOOL, RECALL_ALONE, RECALL_TOOL, Tool
from wane.conversation.timeline import Setup, Timeline
from wane.core import Episode, Policy, ToolClass, parse_budget
from wane.core.errors import ConfigError
from wane.core.guidance import guidance
from wane.core.policy import check_policy
from wane.formats.base import Format, MessageT
from wane.formats.writing import writing
from wane.journal.records import ConfigRecord
from wane.strategies.base import traits
from wane.strategies.fold import FOLDING

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound="ConversationSettings[Any]")


def serialised(method: Callable[Concatenate[_C, _P], _R]) -> Callable[Concatenate[_C, _P], _R]:
    """Have the calls of a method wait until another thread's call of such a method has ended."""

    @wraps(method)
    def call(self: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return call


class ConversationSettings(Generic[MessageT]):
    """The settings and tools of a conversation, and lookups in its past; `Conversation` adds what goes in and out.

    Attributes:
        format: the messages' format.
    """

    format: Format[MessageT]
    _lock: AbstractContextManager[bool]
    _setup: Setup[MessageT]
    _line: Timeline[MessageT]
    _recalls: bool  # whether the model gets the tool `recall` under every strategy

    # For the model

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools whose calls the conversation answers."""
        if not self.manage:
            return ()
        return (DELIMITER_TOOL,) * self.delimits + (RECALL_TOOL,) * (self._recalls or self.searches)

    @property
    def tools(self) -> list[Any]:
        """Definitions of its tools in the provider's form; send them with every request, besides the host's own.

        Raises:
            ConfigError: for a format that writes no tools; see `own_tools`.
        """
        return [
            writing(self.format, "a tool").tool(tool.name, tool.description, tool.schema) for tool in self.own_tools
        ]

    @property
    def instructions(self) -> str:
        """Text about these tools for the system prompt; empty if there are none."""
        if not self.own_tools:
            return ""
        if not self.delimits:
            return RECALL_ALONE
        leaving = FOLDING if self.strategy == "fold" else None
        return guidance(self.policy, recall=self._recalls, leaving=leaving)

    @property
    def delimits(self) -> bool:
        """Whether the model marks its work, by the tool `delimiter`."""
        return self.manage and self._setup.settings.marked

    @property
    def searches(self) -> bool:
        """Whether the strategy makes the model search evicted content, so that it always gets the tool `recall`."""
        return self.manage and traits(self.strategy).searches

    @property
    def reminds(self) -> bool:
        """Whether a request may carry a reminder at all."""
        return self.searches or (self.delimits and self._setup.settings.remind_at is not None)

    # What can be looked up

    @property
    @serialised
    def view(self) -> list[MessageT]:
        """The messages of the next request if nothing more is evicted."""
        return self._line.view.read(self._line.engine.view)[0]

    @property
    def episodes(self) -> Sequence[Episode]:
        """All episodes so far, including removed ones, in order of start."""
        return self._line.engine.episodes

    @property
    def evicted(self) -> int:
        """Tokens of the history that are not in view."""
        return self._line.engine.evicted

    @serialised
    def recall(self, name: str, offset: int = 0) -> str:
        """Return a page of an episode's exact content, evicted or not.

        Args:
            name: name of the episode.
            offset: first character of the page.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        return self._line.archive.read(name, offset)

    @serialised
    def search(self, pattern: str, offset: int = 0) -> str:
        """Return exact excerpts around a pattern in the history, evicted or not, with their places.

        Args:
            pattern: text, or a regular expression that is matched line by line.
            offset: number of places to skip.

        Raises:
            ConfigError: for an empty pattern.
        """
        if not pattern:
            raise ConfigError("the pattern of a search is empty")
        return self._line.archive.find(pattern, offset)

    # Settings that may be changed between requests

    @property
    def config(self) -> ConfigRecord:
        """All settings that are in force, as a record for a journal."""
        return self._setup.settings.record(self._line.engine.overhead)

    @property
    def strategy(self) -> str:
        """How the budget is kept.

        A new strategy starts with the whole history, except what it evicted itself before (R14).
        """
        return self._setup.settings.strategy

    @strategy.setter
    @serialised
    def strategy(self, strategy: str) -> None:
        if strategy != self.strategy:
            setup = replace(self._setup, settings=replace(self._setup.settings, strategy=strategy))
            self._line, self._setup = past.under(self._line, setup), setup

    @property
    def budget(self) -> int:
        """Tokens that the view may hold."""
        return self._setup.settings.budget

    @budget.setter
    @serialised
    def budget(self, budget: int | str) -> None:
        self._setup.change(budget=parse_budget(budget))
        self._line.configure()

    @property
    def policy(self) -> Policy:
        """What a pass evicts, and how far. Anything but a `Policy` raises `ConfigError`."""
        return self._line.engine.window.policy

    @policy.setter
    @serialised
    def policy(self, policy: Policy) -> None:
        before = self.policy
        self._setup.change(policy=check_policy(policy))
        if self._setup.settings.policy.index_share and not before.index_share:
            # The index tells of what left before, too.
            self._line = past.under(self._line, self._setup)
        self._line.configure()

    @property
    def manage(self) -> bool:
        """Whether anything may leave the view. If not, new messages stay and the model gets no tools."""
        return self._setup.settings.manage

    @manage.setter
    def manage(self, manage: bool) -> None:
        self._setup.change(manage=manage)
        self._line.configure()

    @serialised
    def set_tool_classes(self, tool_classes: Mapping[str, ToolClass | str] | None) -> None:
        """Set the tool classes of calls to come; see `ContextWindow.set_tool_classes`.

        Raises:
            ConfigError: for an unknown tool class.
        """
        self._setup.change(tool_classes=tool_classes)
        self._line.engine.window.set_tool_classes(tool_classes)
        self._line.configure()
