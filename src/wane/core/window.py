"""The context window: the core's public class, which ties protocol, graph, view and accounting together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Final

from wane.core.delimiter import Absence, DelimiterProtocol, Verdict
from wane.core.episodes import REMOVE_RANK, Choice, Episode, EpisodeGraph, EpisodeType, Level, OpenCall
from wane.core.errors import ConfigError, HistoryError, UnknownEpisodeError
from wane.core.eviction import Eviction
from wane.core.fixed import FixedItems
from wane.core.items import ASSISTANT, DEFAULT_TOOL_CLASSES, DELIMITER, Item, Kind, ToolClass, read_tool_classes
from wane.core.light import light_dataclass
from wane.core.marks import Mark
from wane.core.opened import OpenEpisodes
from wane.core.pass_report import EvictedIndex, FitReport, Pinned, Step
from wane.core.policy import DEFAULT_BUDGET, Policy, check_policy, parse_budget, parse_window
from wane.core.room import Room, budget_used
from wane.core.standing import Load, StandingItems
from wane.core.view import Accounting, MessageStarts, View, VisibleMessage
from wane.core.window_state import export_parts, restore_parts

_DESCRIPTION_RANK: Final = Level.DESCRIPTION.rank
_ARTIFACT_RANK: Final = Level.ARTIFACT.rank
_CLASS_RANK: Final = {
    ToolClass.BULK: Level.BULK.rank,
    ToolClass.ARTIFACT: _ARTIFACT_RANK,
    ToolClass.DURABLE: REMOVE_RANK,
    ToolClass.PERSON: _ARTIFACT_RANK,  # as long as nobody has answered
}

IMPLICIT_TOKENS: Final = 8_000
"""An implicit episode that holds this many tokens closes ahead of the next assistant message (R5)."""

STATE_VERSION: Final = 9
"""Version of the data that `ContextWindow.export` returns."""

IndexWriter = Callable[[Sequence[Step], int], EvictedIndex | None]
"""Writes the index of evicted content for a pass (R20), given its trace and the tokens that the index may hold."""


@dataclass(frozen=True, slots=True)
class Marked:
    """Outcome of the host's marks.

    Attributes:
        opened: the episodes and tasks that they opened, in order.
        closed: the episodes and tasks that they closed, in order; implicit ones included.
    """

    opened: tuple[Episode, ...] = ()
    closed: tuple[Episode, ...] = ()


@light_dataclass(frozen=True, slots=True)
class Added:
    """Outcome of adding one item.

    Attributes:
        index: the item's index in the history.
        episode: the episode that it belongs to; None for system and user items, and for notices that count as such.
            A start or end of a task belongs to the task (R17).
        verdict: for a `delimiter` call, whether it was accepted and what to tell the model.
        opened: the episode or task that it opened, if any.
        closed: the episode or task that it closed, if any; implicit ones included. The end of a task closes unmarked
            work, too.
        marks: the marks that were made right ahead of it.
        marked: what the host's marks among them did.
    """

    index: int
    episode: Episode | None = None
    verdict: Verdict | None = None
    opened: Episode | None = None
    closed: Episode | None = None
    marks: tuple[Mark, ...] = ()
    marked: Marked = Marked()


class ContextWindow:
    """Decides, item by item, what the next model call should see. Sans I/O.

    The window keeps no content: the caller keeps the history, and the window refers to its items by index. `add` costs
    O(1) amortised, `fit` O(log n) per episode that it touches plus the items that it removes.

    Args:
        budget: tokens that the view may hold: a number, or text such as `"80k"`.
        policy: what a pass evicts, and how far; `Policy()` by default.
        overhead: tokens that every request carries besides the items (system prompt, tool definitions).
        tool_classes: classes of tools by name, on top of `DEFAULT_TOOL_CLASSES`.
        tasks: whether the agent may group its episodes in tasks (R17).
        window: tokens of the model's window, beyond which no pass works (R22); None if unknown.

    Attributes:
        accounting: the tokens of the view.

    Raises:
        ConfigError: for a budget, a window or an overhead that cannot work, a policy of another type, or an unknown
            tool class.
    """

    def __init__(
        self,
        budget: int | str = DEFAULT_BUDGET,
        policy: Policy | None = None,
        *,
        overhead: int = 0,
        tool_classes: Mapping[str, ToolClass | str] | None = None,
        tasks: bool = False,
        window: int | None = None,
    ) -> None:
        self._budget = parse_budget(budget, exact=True)
        self.window = window
        self._graph = EpisodeGraph()
        self.policy = Policy() if policy is None else policy
        self._classes = read_tool_classes(tool_classes)
        self._protocol = DelimiterProtocol(tasks=tasks)
        self.accounting = Accounting()
        self.overhead = overhead
        self._view = View(self.accounting)
        self._standing = StandingItems()
        self._eviction = Eviction(self._graph, self._view, self.accounting, self._standing)
        self._count = 0
        self._held = FixedItems(self._graph, self._view)
        # Its tokens and members, which each turn asks for.
        self._fixed, self._fixed_members = self._held.tokens, self._held.members
        self._open = OpenEpisodes(self._graph, self._view, self._protocol)
        self._calls: dict[str, list[OpenCall]] = {}
        self._answered_in: int | None = None  # the message of the latest result
        self._starts = MessageStarts()
        self._index: EvictedIndex | None = None

    def __repr__(self) -> str:
        live = len(self._graph.live)
        return (
            f"<ContextWindow: {self.tokens:,} of {self._budget:,} tokens, {len(self._view.tokens):,} of "
            f"{self._count:,} items in view, {live:,} {'episode' if live == 1 else 'episodes'}>"
        )

    # What the window shows

    @property
    def budget(self) -> int:
        """Tokens that the view may hold."""
        return self._budget

    @budget.setter
    def budget(self, budget: int | str) -> None:
        self._budget = parse_budget(budget, exact=True)

    @property
    def budget_used(self) -> int:
        """Tokens that the view may hold now: more than were set where what is fixed leaves too little (R22)."""
        return budget_used(self._budget, self._fixed_tokens(), self._policy.min_room, self._window)

    @property
    def window(self) -> int | None:
        """Tokens of the model's window; None if unknown. May be changed between passes."""
        return self._window

    @window.setter
    def window(self, tokens: int | None) -> None:
        self._window = None if tokens is None else parse_window(tokens)

    @property
    def policy(self) -> Policy:
        """What a pass evicts, and how far; may be changed between passes."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = check_policy(policy)
        self._graph.arrange(policy)

    @property
    def tasks(self) -> bool:
        """Whether the agent may start tasks (R17); may be changed between items."""
        return self._protocol.tasks

    @tasks.setter
    def tasks(self, tasks: bool) -> None:
        self._protocol.tasks = tasks

    @property
    def overhead(self) -> int:
        """Tokens that every request carries besides the items."""
        return self.accounting.overhead

    @overhead.setter
    def overhead(self, tokens: int) -> None:
        if not 0 <= tokens < inf:
            raise ConfigError(f"overhead is {tokens} tokens; it must be at least 0")
        self.accounting.overhead = tokens

    @property
    def tokens(self) -> int:
        """Tokens of the next request, anchored to the provider's last report."""
        return self.accounting.total

    @property
    def item_count(self) -> int:
        """Number of items in the history."""
        return self._count

    @property
    def open_calls(self) -> dict[str, int]:
        """Number of calls without a result, by id. A provider may reuse an id even before its call is answered."""
        return {call_id: len(waiting) for call_id, waiting in self._calls.items()}

    def shows(self, index: int) -> bool:
        """Whether an item is in the view."""
        return index in self._view.tokens

    @property
    def visible(self) -> list[int]:
        """Indexes of the items to send, in the history's order."""
        return list(self._view.tokens)

    @property
    def active(self) -> Episode | None:
        """The annotated episode, started and not ended, to which the next item belongs."""
        return self._open.active

    @property
    def task(self) -> Episode | None:
        """The innermost open task (R17) around the next item."""
        return self._open.task

    @property
    def open(self) -> list[Episode]:
        """All annotated episodes that were started and not ended; several only if the host marks (R18)."""
        return self._open.episodes

    @property
    def open_marks(self) -> list[Episode]:
        """The annotated episodes and tasks that were started and not ended, in order of start."""
        return list(self._open.annotated.values())

    @property
    def episodes(self) -> list[Episode]:
        """The live episodes and tasks, in order of start; removed ones are not kept (the paper's section 5)."""
        return list(self._graph.live.values())

    @property
    def index(self) -> EvictedIndex | None:
        """The index of evicted content that requests show; None if there is none (R20)."""
        return self._index

    @property
    def latest(self) -> int:
        """Index of the latest assistant message's first item; -1 if there is none."""
        return self._graph.latest_message

    @property
    def described(self) -> list[Episode]:
        """The removed explorations and tasks whose closing pair is still in view (R11)."""
        return list(self._graph.described.values())

    @property
    def started(self) -> int:
        """Number of episodes and tasks that were ever started, implicit episodes included."""
        return self._graph.started

    @property
    def pinned(self) -> Pinned:
        """Tokens that no pass may take now, by what holds them (R13). Overflow (R16) may still take some of them."""
        graph, view, fixed, opened = self._graph, self._view, self._fixed, self.open
        unsettled = 0
        for episode in graph.unsettled.values():
            if not (episode in opened or episode.is_task or graph.exempt(episode)):
                unsettled += episode.tokens
        waiting = {index for index, owner in view.held.items() if owner.removed}
        held = sum(view.tokens[index] for index in waiting.difference(self._fixed_members))
        needed = sum(episode.tokens for episode in graph.find_needed().values())
        kept = sum(episode.tokens for episode in graph.live.values() if episode.settled and episode.choice == "keep")
        scaled = self.accounting.scale
        return Pinned(
            overhead=self.accounting.beside,
            system=scaled(fixed[Kind.SYSTEM]),
            user=scaled(fixed[Kind.USER]),
            notices=scaled(fixed[Kind.NOTICE]),
            loaded=scaled(fixed[Kind.CALL]),
            prologue=scaled(graph.prologue_tokens),
            active=scaled(sum(episode.tokens for episode in opened)),
            active_name=", ".join(str(episode.name) for episode in opened) or None,
            unsettled=scaled(unsettled),
            needed=scaled(held + needed),
            descriptions=scaled(self._eviction.kept_descriptions(self.policy, self._fixed_members)),
            tasks=scaled(sum(task.tokens for task in graph.tasks.values())),
            kept=scaled(kept),
        )

    @property
    def room(self) -> Room:
        """The budget, and the tokens of it that no pass may ever take (R22). O(1), besides a prologue that stays."""
        scaled, fixed = self.accounting.scale, self._fixed
        return Room(
            self._budget,
            self.accounting.beside + scaled(fixed[Kind.SYSTEM]),
            scaled(fixed[Kind.USER]),
            scaled(fixed[Kind.NOTICE]),
            scaled(fixed[Kind.CALL]),
            scaled(self._graph.prologue_tokens),
            self._window,
            self._policy.min_room,
        )

    @property
    def fixed_head(self) -> int:
        """Number of leading items in view that no pass may ever take (R22): a pass leaves this prefix as it is.

        It takes as long as these items are many.
        """
        view, graph = self._view, self._graph
        for position, index in enumerate(view.tokens):
            # Results are not asked about: they stay with their calls, which come first.
            if index in self._fixed_members or not (index in view.messages or index in view.notices):
                continue
            owner = graph.find_owner(index) if self._policy.prologue == "whole" else None
            if owner is None or not graph.exempt(owner):
                return position
        return len(view.tokens)

    @property
    def notices(self) -> dict[int, int]:
        """Tokens of the notices in view, by the number of the episode that they belong to (R15)."""
        by_episode: dict[int, int] = {}
        for index, number in self._view.notices.items():
            by_episode[number] = by_episode.get(number, 0) + self.accounting.scale(self._view.tokens[index])
        return by_episode

    def members(self, name: str) -> tuple[range, ...]:
        """Return the indexes of all items of an annotated episode, evicted or not, for a recall.

        Raises:
            UnknownEpisodeError: if no episode of that name was started.
        """
        if episode := self._graph.find(name):
            return tuple(range(first, stop) for first, stop in episode.spans)
        if spans := self._graph.archive.get(name):
            return tuple(range(first, stop) for first, stop in spans)
        latest = list(self._protocol.started)[-12:]
        known_episodes = f"episodes so far: {', '.join(latest)}" if latest else "no episode has been started"
        raise UnknownEpisodeError(f"no episode is named {name!r}; {known_episodes}")

    def absence(self, name: str) -> Absence:
        """Return how much of an annotated episode has left the view, apart from its description (R9) and reasoning."""
        episode = self._graph.find(name)
        if episode is None:
            return "all" if name in self._graph.archive else "none"
        members: list[Sequence[int]]
        if episode.rank > Level.REASONING.rank:
            members = [range(first, stop) for first, stop in episode.spans]
        else:
            # Its reasoning may be gone, and overflow may have taken more of it before it settled (R16).
            members = [indexes for rank, indexes in episode.buckets.items() if rank > Level.REASONING.rank]
        complete = all(self.shows(index) for indexes in members for index in indexes)
        return "none" if complete else "some"

    def foresee(self, arguments: Iterable[str | None]) -> list[Verdict]:
        """Judge `delimiter` calls as if they came next, in this order, without changing anything.

        Args:
            arguments: the raw JSON arguments of each call.
        """
        ahead = self._protocol.copy()
        return [ahead.judge(raw, self.absence) for raw in arguments]

    # Changes

    def set_tool_classes(self, tool_classes: Mapping[str, ToolClass | str] | None) -> None:
        """Set the tool classes for items to come; items in the history keep theirs (R14).

        Args:
            tool_classes: classes of tools by name, on top of `DEFAULT_TOOL_CLASSES`.

        Raises:
            ConfigError: for an unknown tool class.
        """
        self._classes = read_tool_classes(tool_classes)

    def add(self, item: Item, marks: Sequence[Mark] = ()) -> Added:
        """Take in the next item of the history.

        Args:
            item: the item.
            marks: starts and ends of episodes right ahead of it, and changes of scope.

        Raises:
            HistoryError: for a result without an open call, a call without an id or a tool, a negative
                count, a need that points nowhere, a value of the wrong type, or a mark that cannot be made.
                The window is then unchanged.
        """
        self._check(item)
        if marks and marks[0].host:
            marked = self.mark(marks)
            added = self.add(item)
            self._open.describing = None
            return replace(added, marks=tuple(marks), marked=marked)
        if marks:
            self._open.check(marks)
        index = self._count
        self._count += 1
        closed = self._note_message(item, index)
        for mark in marks:
            ended = self._open.mark(mark)
            closed = closed or ended
        added = self._take(item, index)
        if not marks and closed is None:
            return added
        opened = added.opened
        if marks and marks[-1].action == "start":
            opened = self._open.active
        return replace(added, opened=opened, closed=closed or added.closed, marks=tuple(marks))

    def mark(self, marks: Sequence[Mark]) -> Marked:
        """Make marks right after the latest item, as a host does (R18). The next model call follows them.

        Raises:
            HistoryError: for a mark that cannot be made. The window is then unchanged.
        """
        self._open.check(marks)
        opened, closed = list[Episode](), list[Episode]()
        for mark in marks:
            if (episode := self._open.mark(mark)) is not None:
                closed.append(episode)
            if mark.action == "start":
                opened.append(self._open.annotated[mark.name])
        return Marked(tuple(opened), tuple(closed))

    def choose(self, number: int, choice: Choice) -> Episode:
        """Put a person's choice for a live episode in force, in place of an earlier one (R23); return the episode.

        Args:
            number: its number.
            choice: `keep`, and no pass takes anything of it; `drop`, and the next pass takes all of it, once it is
                eligible, even if none is due; or nothing.

        Raises:
            UnknownEpisodeError: for a number that no live episode has.
            ConfigError: for a task, or another choice.
        """
        given: object = choice
        if given not in ("", "keep", "drop"):
            raise ConfigError(f"choice is {given!r}; it must be 'keep', 'drop' or empty")
        episode = self._graph.live.get(number)
        if episode is None:
            raise UnknownEpisodeError(f"episode {number} is not in view, so nothing can be chosen for it")
        if episode.is_task:
            raise ConfigError(f"{episode.name!r} is a task: choose for the episodes in it")
        self._graph.choose(episode, choice)
        return episode

    def extend(self, items: Iterable[Item]) -> list[Added]:
        """Take in several items, as if they were added one by one."""
        return [self.add(item) for item in items]

    def fit(self, *, cold: bool = False, write_index: IndexWriter | None = None) -> FitReport:
        """Run a pass if one is due, before a model call (R10).

        A budget that cannot be met is reported, not raised: the caller decides.

        Args:
            cold: the provider's cache has expired, so a policy with `evict_when_cold` may evict down to low water
                early.
            write_index: writes the index of evicted content for a pass that evicted something; None for no index.
        """
        accounting, policy = self.accounting, self.policy
        before = accounting.total
        fixed = self._fixed_tokens()
        budget = budget_used(self._budget, fixed, policy.min_room, self._window)
        due = before > budget or (cold and policy.evict_when_cold and before > budget * policy.low_water)
        ran = due or bool(self._graph.find_leaving())
        trace = self._pass(budget, fixed, write_index, due=due) if ran else ()
        accounting.mark_sent()
        after = accounting.total
        return FitReport(
            ran=ran,
            trace=trace,
            tokens_before=before,
            tokens_after=after,
            budget=self._budget,
            budget_used=budget,
            overflowed=ran and self._eviction.overflowed,
            pinned=self.pinned if after > budget else None,
            policy=policy,
            index=self._index,
            room=self.room if budget > self._budget else None,
        )

    def _fixed_tokens(self) -> int:
        """Tokens that no pass may ever take: `Room.fixed`, without the time to make one."""
        fixed, ratio = self._fixed, self.accounting.ratio
        system = max(0, self.accounting.beside + round(fixed[Kind.SYSTEM] * ratio))
        stated = round(fixed[Kind.USER] * ratio) + round(fixed[Kind.NOTICE] * ratio) + round(fixed[Kind.CALL] * ratio)
        return system + stated + round(self._graph.prologue_tokens * ratio)

    def _pass(self, budget: int, fixed: int, write_index: IndexWriter | None, *, due: bool) -> tuple[Step, ...]:
        """Run a pass, and replace the index of what has left the view."""
        accounting, policy = self.accounting, self.policy
        index = self._index
        self._show(None)
        limit = policy.index_limit(budget)
        trace = self._eviction.run(policy, budget, fixed, limit, due=due)
        # It may not be over its share by either count, the provider's or that of its writer.
        room = min(limit, int(min(limit, budget - accounting.total) / accounting.ratio))
        if write_index is not None and any(step.removed for step in trace):
            index = write_index(trace, room) if room > 0 else None
        # The last index may have been written under another budget, and be too large now.
        if index is not None and index.tokens <= room:
            self._show(index)
        return trace

    def _show(self, index: EvictedIndex | None) -> None:
        self._index = index
        self.accounting.index = 0 if index is None else index.tokens

    def apply(self, trace: Iterable[Step], index: EvictedIndex | None = None) -> None:
        """Repeat a recorded pass in place of `fit`, whatever the policy and the budget are now (R14).

        Args:
            trace: `FitReport.trace` of the recorded pass.
            index: its `FitReport.index`.

        Raises:
            HistoryError: if it does not fit this history; do not use the window after that.
        """
        self._eviction.redo(trace)
        self._show(index)
        self.accounting.mark_sent()

    def observe(self, input_tokens: int) -> None:
        """Anchor the accounting to the provider's count of the last request.

        The last request is the view as of the latest `fit` or `apply`. What changed since counts by its estimate times
        the ratio of reported to estimated tokens.

        Args:
            input_tokens: all input tokens, cached ones included; 0 or less is ignored.
        """
        self.accounting.observe(input_tokens)

    def export(self) -> dict[str, Any]:
        """Return the whole state as JSON-able data."""
        calls: list[list[Any]] = []
        for call_id, waiting in self._calls.items():
            calls += [[call_id, call.owner.number, call.rank, call.index] for call in waiting]
        return {
            "version": STATE_VERSION,
            "budget": self.budget,
            "window": self.window,
            "policy": asdict(self.policy),
            "tool_classes": {name: cls.value for name, cls in self._classes.items()},
            "accounting": asdict(self.accounting),
            "index": None if self._index is None else asdict(self._index),
            "tasks": self.tasks,
            "started": dict(self._protocol.started),
            **export_parts(self._graph, self._eviction, self._view, self._standing, self._open),
            "count": self._count,
            "fixed": {kind.value: tokens for kind, tokens in self._fixed.items()},
            "fixed_members": [[index, kind.value] for index, kind in self._fixed_members.items()],
            "calls": calls,
            "message": [self._graph.latest_message, self._starts.ordinal, self._starts.growing],
            "answered": [self._answered_in, [list(pair) for pair in self._view.answered.items()]],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ContextWindow:
        """Return the window that `export` described.

        Raises:
            ConfigError: if this version did not write the state, or it is damaged.
        """
        if state.get("version") != STATE_VERSION:
            raise ConfigError(f"state has version {state.get('version')!r}; this Wane reads version {STATE_VERSION}")
        try:
            window = cls(
                state["budget"],
                Policy(**state["policy"]),
                tool_classes=state["tool_classes"],
                tasks=state["tasks"],
                window=state["window"],
            )
            window._restore(state)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise ConfigError(f"the state is damaged: {error!r}") from error
        return window

    # Internals

    def _restore(self, state: Mapping[str, Any]) -> None:
        for name, value in state["accounting"].items():
            setattr(self.accounting, name, value)
        if state["index"] is not None:
            self._index = EvictedIndex(**state["index"])
        restore_parts(self._graph, self._eviction, self._view, self._standing, self._open, state)
        self._protocol.started.update(state["started"])
        self._count = state["count"]
        self._fixed.update((Kind(kind), tokens) for kind, tokens in state["fixed"].items())
        self._fixed_members.update((index, Kind(kind)) for index, kind in state["fixed_members"])
        for call_id, owner, rank, index in state["calls"]:
            self._calls.setdefault(call_id, []).append(OpenCall(self._graph.live[owner], rank, index))
        self._graph.latest_message, self._starts.ordinal, self._starts.growing = state["message"]
        self._answered_in, pairs = state["answered"]
        self._view.answered.update(pairs)

    def _check(self, item: Item) -> None:
        # A plain string equals a Kind but is not one.
        if item.kind.__class__ is not Kind:
            raise HistoryError(f"item {self._count} has the kind {item.kind!r}; it must be a Kind, such as Kind.USER")
        if not 0 <= item.tokens < inf:
            raise HistoryError(f"item {self._count} has {item.tokens} tokens; a count is a number of at least 0")
        if item.kind is Kind.CALL:
            if item.call_id is None or not item.tool:
                raise HistoryError(f"item {self._count} is a call without a call_id or a tool name")
            arguments: object = item.arguments
            if arguments is not None and not isinstance(arguments, str):
                raise HistoryError(f"item {self._count} has arguments that are not text; give the model's JSON")
        if item.needs and any(offset == 0 or self._count + offset < 0 for offset in item.needs):
            raise HistoryError(f"item {self._count} needs {item.needs}; offsets point at other items")
        if item.needed_by and not all(-self._count <= offset < 0 for offset in item.needed_by):
            raise HistoryError(f"item {self._count} is needed by {item.needed_by}; offsets point at earlier items")
        if (item.person or item.loads) and item.kind is not Kind.RESULT:
            raise HistoryError(f"item {self._count} is a {item.kind.value}; only a result is a person's or loads tools")
        if (item.loads or item.withdraws) and _names_by_text(item.loads, item.withdraws):
            raise HistoryError(f"item {self._count} names tools by a text; give a tuple of their names")
        if item.kind is Kind.RESULT and (item.call_id is None or item.call_id not in self._calls):
            raise HistoryError(
                f"item {self._count} is a result for the call {item.call_id!r}, but no open call before it "
                "has that id: it is an orphan, or the call was answered already"
            )

    def _note_message(self, item: Item, index: int) -> Episode | None:
        """Track assistant messages: when one begins, the model has seen all that came before it (R6).

        Returns:
            The implicit episode that closes ahead of it because it is full (R5), if any.
        """
        if not self._starts.begins(item):
            return None
        self._view.latest = VisibleMessage()
        self._graph.message_started(index)
        implicit = self._open.implicit
        if implicit is None or implicit.size < IMPLICIT_TOKENS:
            return None
        return self._open.close_implicit()

    def _take(self, item: Item, index: int) -> Added:
        if item.withdraws:
            self._release_loads(self._standing.withdraw(item.withdraws))
        self._view.enter(index, item.tokens)
        if item.message is None or item.message != self._answered_in:
            self._view.answered.clear()
        shows = self._view.tokens
        if item.needs:
            needed = [index + offset for offset in item.needs]
            self._view.couple(index, [target for target in needed if target > index or target in shows])
        for offset in item.needed_by:
            if index + offset in shows:
                self._view.couple(index + offset, [index])
        if item.kind is Kind.RESULT:
            return self._add_result(item, index)
        if item.kind in ASSISTANT:
            self._view.join_message(index, reasoning=item.kind is Kind.REASONING)
            added = self._add_work(item, index)
            if self._fixed_members:
                self._held.follow(index)
            return added
        answered = self._graph.latest_message >= 0
        if item.kind is Kind.NOTICE and not item.standing and (answered or self._open.active):
            added = self._add_work(item, index)
            assert added.episode is not None
            self._view.notices[index] = added.episode.number
            return added
        self._fixed[item.kind] += item.tokens
        if item.needs and item.kind is Kind.USER:
            self._fixed_members[index] = Kind.USER
        if item.standing and answered:
            stands_in = self._open.active or self._open.implicit or self._graph.latest_episode
            assert stands_in is not None
            for earlier, episode in self._standing.enter(index, item.standing, stands_in):
                self._release_notice(earlier, episode)
        if item.kind is not Kind.USER:
            return Added(index)
        return Added(index, closed=self._open.close_implicit())

    def _release_notice(self, index: int, episode: Episode) -> None:
        """Make a notice that is no longer in force one of the episode that it stood in (R15)."""
        self._view.notices[index] = episode.number
        episode.admit(index)
        tokens = self._view.tokens[index]
        self._fixed[Kind.NOTICE] -= tokens
        episode.tokens += tokens
        self._release([index], episode, _ARTIFACT_RANK)
        if episode.removed:
            self._graph.archive_spans(episode)

    def _release_loads(self, loads: Iterable[Load]) -> None:
        """Make calls and results whose tools are no longer offered ordinary members of their episodes (R15)."""
        ended: list[int] = []
        for load in loads:
            ended += (load.call, load.result)
            self._release([load.call, load.result], load.owner, load.rank)
        if ended:
            standing = [index for load in self._standing.loads for index in (load.call, load.result)]
            self._held.release(ended, standing)

    def _release(self, indexes: list[int], episode: Episode, rank: int) -> None:
        if episode.rank >= rank or episode.is_task:
            for index in indexes:
                self._standing.overdue[index] = episode, rank
        else:
            episode.release(indexes, rank)

    def _add_work(self, item: Item, index: int) -> Added:
        verdict = None
        if item.kind is Kind.CALL and item.tool == DELIMITER:
            verdict = self._protocol.judge(item.arguments, self.absence)
            if verdict.accepted:
                return self._add_boundary(item, index, verdict)
        owner, opened = self._open.owner()
        rank = self._rank(item, owner, verdict)
        self._enter(owner, item, index, rank)
        ends = owner.loose
        if item.kind is Kind.TEXT:
            ends = owner.texts
        elif item.kind is Kind.CALL and rank == REMOVE_RANK:
            ends = owner.durable
        # Overflow takes nothing of a task (R17).
        if not owner.is_task:
            ends[index] = None if item.kind is Kind.CALL else index
        return Added(index, owner, verdict, opened)

    def _add_boundary(self, item: Item, index: int, verdict: Verdict) -> Added:
        """Take in an accepted `delimiter` call: the first or the last call of an episode (R4) or a task (R17)."""
        if verdict.action == "start":
            assert verdict.type is not None
            opened, closed = self._open.start(verdict.name, verdict.type, verdict.dependencies)
            self._enter(opened, item, index, REMOVE_RANK)
            return Added(index, opened, verdict, opened, closed)
        if verdict.type is EpisodeType.TASK:
            task = self._open.close_to_task()
            self._enter(task, item, index, _DESCRIPTION_RANK)
            self._open.end_task(verdict.description, abandoned=verdict.abandoned)
            return Added(index, task, verdict, closed=task)
        assert verdict.name is not None
        episode = self._open.annotated[verdict.name]
        rank = _DESCRIPTION_RANK if verdict.type is EpisodeType.EXPL else REMOVE_RANK
        self._enter(episode, item, index, rank)
        self._open.end(episode, verdict.description)
        return Added(index, episode, verdict, closed=episode)

    def _add_result(self, item: Item, index: int) -> Added:
        assert item.call_id is not None
        waiting = self._calls[item.call_id]
        call = waiting.pop(0)
        if not waiting:
            del self._calls[item.call_id]
        self._view.pair(call.index, index)
        self._answered_in = item.message
        owner = call.owner
        owner.enter(index, item.tokens, call.rank)
        for ends in (owner.loose, owner.durable):
            if call.index in ends:
                ends[call.index] = index
        owner.open_calls -= 1
        if self._fixed_members:
            self._held.follow(index)
        if item.person or item.loads:
            owner.hold((call.index, index))
            self._held.hold((call.index, index), Kind.USER if item.person else Kind.CALL)
            if not item.person:
                self._standing.loads.append(Load(owner, call.rank, call.index, index, set(item.loads)))
        if owner.complete:
            self._graph.note_complete(owner)
        return Added(index, owner)

    def _rank(self, item: Item, owner: Episode, verdict: Verdict | None) -> int:
        """Return the rank of the level that takes an item (R9)."""
        if item.kind is Kind.REASONING and owner.type is EpisodeType.EXPL:
            return Level.REASONING.rank
        if item.kind is Kind.NOTICE:
            return _ARTIFACT_RANK
        if item.kind is not Kind.CALL:
            return REMOVE_RANK
        if verdict is not None:
            return Level.BULK.rank  # a rejected `delimiter` call is an ordinary bulk call (R3)
        assert item.tool is not None
        name = item.tool.lower()
        tool_class = self._classes.get(name) or item.tool_class or DEFAULT_TOOL_CLASSES.get(name, ToolClass.ARTIFACT)
        return _CLASS_RANK[tool_class]

    def _enter(self, owner: Episode, item: Item, index: int, rank: int) -> None:
        owner.enter(index, item.tokens, rank)
        self._graph.latest_episode = owner
        if item.kind in ASSISTANT:
            owner.latest = self._graph.latest_message
        if item.kind is Kind.CALL:
            assert item.call_id is not None
            self._calls.setdefault(item.call_id, []).append(OpenCall(owner, rank, index))
            owner.open_calls += 1


def _names_by_text(*names: object) -> bool:
    return any(isinstance(tools, str) for tools in names)
