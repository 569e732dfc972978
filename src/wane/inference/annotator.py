"""Infers episodes from tool calls, for sessions and models that mark none. `docs/lab/inference.md` has the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from wane.core import DELIMITER, Added, ContextWindow, EpisodeType, Item, Kind, Mark
from wane.formats.message_format import Part
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity, Judgement
from wane.tools.paths import FileMap
from wane.tools.plans import AgentPlan
from wane.words import TYPES

# With a smaller budget, the usual limits would hold more than a third of it.
_SMALL_BUDGET: Final = 40_000
_HINT_LENGTH: Final = 32
_MOST_HINTS: Final = 6


@dataclass(frozen=True, slots=True)
class EpisodeBounds:
    """Where one inferred episode ends and the next begins.

    Attributes:
        episode: tokens after which an episode ends at its next call; an open episode is evicted last.
        drift_calls: exploring calls on files not its own that an act may make before an exploration begins.
        drift_tokens: tokens that such calls may hold.
        dependencies: tokens that the explorations of one act's dependencies may hold together; a single one may hold
            more. None of them is removed before the act.
    """

    episode: int = 6_000
    drift_calls: int = 2
    drift_tokens: int = 1_500
    dependencies: int = 8_000

    @classmethod
    def of(cls, budget: int) -> EpisodeBounds:
        """Return limits for a budget: lower for a small one, so that protected episodes do not fill it.

        Args:
            budget: tokens that the view may hold.
        """
        usual, share = cls(), min(1.0, budget / _SMALL_BUDGET)
        return replace(
            usual,
            episode=int(usual.episode * share),
            drift_tokens=int(usual.drift_tokens * share),
            dependencies=int(usual.dependencies * share),
        )


@dataclass(slots=True)
class _Stretch:
    """What the annotator knows about an inferred episode.

    Attributes:
        number: its number in order of start.
        own: files that an act changed, or read while it was not drifting.
        drift_calls: exploring calls on other files since the act last changed something.
        drift_tokens: tokens of such calls.
        hints: what it looked at, for people.
    """

    number: int
    name: str
    type: EpisodeType
    dependencies: tuple[str, ...] = ()
    tokens: int = 0
    own: FileMap[bool] = field(default_factory=FileMap)
    drift_calls: int = 0
    drift_tokens: int = 0
    hints: dict[str, None] = field(default_factory=dict)


class Annotator:
    """Decides, item by item and without looking ahead, where episodes begin and end.

    It is deterministic and fast: it judges each call by the call's own arguments. Once the agent marks its work itself,
    `stop` ends the inference for good: the agent is the authority (the paper's Principle 2).
    """

    def __init__(self, limits: EpisodeBounds | None = None) -> None:
        self.limits = limits or EpisodeBounds()
        self.stopped = False
        # The agent's plan, and its entry in progress if the plan has changed since the last user turn.
        self._plan = AgentPlan()
        self._entry = ""
        self._hints: set[str] = set()  # what stands behind the numbers in the names so far
        self._count = 0
        self._open: _Stretch | None = None
        # The type of the last episode since the last user turn, and the dependencies of the last act.
        self._last: EpisodeType | None = None
        self._carried: tuple[str, ...] = ()
        # The closed explorations, in order; those since the last act; by file, the last exploration that read it.
        self._explored: dict[str, _Stretch] = {}
        self._since: list[str] = []
        self._readers: FileMap[str] = FileMap()
        # By id of a call without a result yet: its episode, and whether it drifts.
        self._calls: dict[str, tuple[_Stretch, bool]] = {}

    def stop(self) -> None:
        """End the inference for good because the agent marks its work itself."""
        self.stopped = True
        self._open = None
        self._calls.clear()

    def add(self, item: Item, part: Part, recorded: Sequence[Mark] | None = None) -> Sequence[Mark]:
        """Take in the next item of the history with its content, and return the marks right ahead of it, in order.

        Args:
            item: the item.
            part: its content.
            recorded: the marks that were recorded there; None to infer them.
        """
        if self.stopped:
            return recorded or ()
        judgement = None
        if item.kind is Kind.CALL and part.tool != DELIMITER:
            judgement = judge_call(part.tool or "", part.arguments)
            if self._plan.read(part.tool or "", part.arguments):
                self._entry = self._plan.current
        drifts = judgement is not None and self._drifts(judgement)
        if recorded is None:
            marks: Sequence[Mark] = self._infer(item, judgement, drifts=drifts)
        else:
            marks = recorded
            for mark in marks:
                if mark.action == "start":
                    self._start(mark)
                else:
                    self._close()
        if item.kind is Kind.USER:
            self._last = None
            self._entry = ""
        drifts = drifts and not marks
        if judgement is not None and self._open is not None:
            self._note(judgement, self._open, drifts=drifts)
        self._weigh(item, drifts=drifts)
        return marks

    def add_to(self, window: ContextWindow, item: Item, part: Part, recorded: Sequence[Mark] | None = None) -> Added:
        """Take in the next item of the history, and add it to a window with the marks ahead of it.

        It stops for good at the first accepted `delimiter` call. The other arguments are those of `add`.

        Raises:
            HistoryError: as `ContextWindow.add` does, including marks that cannot be made.
        """
        added = window.add(item, self.add(item, part, recorded))
        if added.verdict is not None and added.verdict.accepted:
            self.stop()
        return added

    # Where episodes begin and end

    def _infer(self, item: Item, judgement: Judgement | None, *, drifts: bool) -> list[Mark]:
        """End the open episode and start another one, if the item demands it; return the marks."""
        if judgement is None:
            return self._end() if item.kind is Kind.USER else []
        type_ = self._next(judgement, drifts=drifts)
        if type_ is None:
            return []
        marks = self._end()
        name = f"{TYPES[type_.value]}-{self._count + 1}"
        hint = _short(self._entry or judgement.hint)
        if self._entry and hint in self._hints:  # one entry of a plan, several episodes: say where they part
            hint = _short(": ".join(filter(None, (judgement.hint, self._entry))))
        if hint:
            name = f"{name}:{hint}"
        dependencies = self._dependencies(judgement) if type_ is EpisodeType.ACT else ()
        start = Mark("start", name, type_, dependencies)
        self._start(start)
        return [*marks, start]

    def _next(self, judgement: Judgement, *, drifts: bool) -> EpisodeType | None:
        """Return the type of the episode that a call begins; None if it begins none."""
        current = self._open
        activity = judgement.activity
        if activity is Activity.NEUTRAL:
            return None
        if current is None:
            return self._opening(activity)
        limits = self.limits
        full = current.tokens > limits.episode
        if current.type is EpisodeType.EXPL:
            if activity is Activity.ACT:
                return EpisodeType.ACT
            return EpisodeType.EXPL if full else None
        drifted = current.drift_calls >= limits.drift_calls or current.drift_tokens >= limits.drift_tokens
        if drifts and (full or drifted):
            return EpisodeType.EXPL
        # An act goes on if it depends on the explorations that read the files that the call will change.
        required = self._readers_of(path for path in judgement.writes if path not in current.own)
        builds_elsewhere = activity is Activity.ACT and not required.issubset(current.dependencies)
        if full or builds_elsewhere:
            return EpisodeType.ACT
        return None

    def _opening(self, activity: Activity) -> EpisodeType:
        """Return the type of the episode that a call begins while none is open."""
        if activity is Activity.ACT:
            return EpisodeType.ACT
        if activity is Activity.VERIFY:
            return self._last or EpisodeType.ACT
        return EpisodeType.EXPL

    def _drifts(self, judgement: Judgement) -> bool:
        """Whether a call explores something other than the files of the open act."""
        current = self._open
        if current is None or current.type is EpisodeType.EXPL or judgement.activity is not Activity.EXPLORE:
            return False
        return not judgement.reads or not all(path in current.own for path in judgement.reads)

    def _readers_of(self, paths: Iterable[str]) -> set[str]:
        """Return the names of the explorations that last read some files."""
        readers = {self._readers.get(path) for path in paths}
        return {name for name in readers if name is not None}

    def _end(self) -> list[Mark]:
        """Close the open episode; return its mark, if there is one."""
        current = self._open
        if current is None:
            return []
        description = _description(list(current.hints)) if current.type is EpisodeType.EXPL else None
        self._close()
        return [Mark("end", current.name, current.type, description=description)]

    def _dependencies(self, judgement: Judgement) -> tuple[str, ...]:
        """Return the dependencies of an act that begins with a call, in order of start.

        These are the explorations that last read the files it changes, and the explorations since the last act, the
        latest first, until they are too large together. If there are none, the act takes over the previous act's
        dependencies, or else the latest exploration.
        """
        readers = [self._explored[name] for name in self._readers_of(judgement.writes) if name in self._explored]
        readers.sort(key=attrgetter("number"), reverse=True)
        candidates = [stretch.name for stretch in readers]
        candidates += reversed(self._since)
        if not candidates:
            candidates = list(self._carried) or list(self._explored)[-1:]
        chosen: list[_Stretch] = []
        remaining = self.limits.dependencies
        for name in dict.fromkeys(candidates):
            remaining -= self._explored[name].tokens
            if not chosen or remaining >= 0:
                chosen.append(self._explored[name])
        return tuple(stretch.name for stretch in sorted(chosen, key=attrgetter("number")))

    # State

    def _start(self, mark: Mark) -> None:
        self._count += 1
        self._open = _Stretch(self._count, mark.name, mark.type, mark.dependencies)
        self._last = mark.type
        self._hints.add(mark.name.partition(":")[2])
        if mark.type is EpisodeType.ACT:
            self._carried = mark.dependencies
            self._since = []

    def _close(self) -> None:
        current, self._open = self._open, None
        if current is None:
            return
        current.own = FileMap()
        current.hints.clear()
        if current.type is EpisodeType.EXPL:
            self._explored[current.name] = current
            self._since.append(current.name)

    def _note(self, judgement: Judgement, current: _Stretch, *, drifts: bool) -> None:
        if current.type is EpisodeType.EXPL:
            for path in judgement.reads:
                self._readers[path] = current.name
            if judgement.activity is not Activity.NEUTRAL and len(current.hints) <= _MOST_HINTS:
                current.hints[_short(judgement.hint)] = None
            return
        if judgement.activity is Activity.ACT:
            current.drift_calls = 0
            current.drift_tokens = 0
        if drifts:
            current.drift_calls += 1
        for path in judgement.files:
            current.own[path] = True

    def _weigh(self, item: Item, *, drifts: bool) -> None:
        """Count an item's tokens for its episode; a result belongs to the episode of its call (R4)."""
        owner = self._open
        if item.kind is Kind.RESULT:
            owner, drifts = self._calls.pop(item.call_id or "", (None, False))
        elif item.kind is Kind.CALL and owner is not None and item.call_id is not None:
            self._calls[item.call_id] = (owner, drifts)
        if owner is not None and item.kind not in (Kind.USER, Kind.SYSTEM) and not item.standing:
            owner.tokens += item.tokens
            if drifts:
                owner.drift_tokens += item.tokens


def _short(text: str) -> str:
    """Return a hint for use in a name: one short line of printable characters."""
    for char in set(text):
        if not char.isprintable():
            text = text.replace(char, " ")
    line = " ".join(text.split())
    return line if len(line) <= _HINT_LENGTH else f"{line[: _HINT_LENGTH - 1]}…"


def _description(hints: Sequence[str]) -> str:
    text = ", ".join(hint for hint in hints[:_MOST_HINTS] if hint)
    if not text:
        return "(inferred)"
    ellipsis = ", ..." if len(hints) > _MOST_HINTS else ""
    return f"(inferred) looked at: {text}{ellipsis}"


def is_annotated(parts: Iterable[Part]) -> bool:
    """Whether the agent marked its work in a history: one of its `delimiter` calls was accepted (R3)."""
    return any(verdict.accepted for verdict in ContextWindow().foresee(_marks(parts)))


def has_tasks(parts: Iterable[Part]) -> bool:
    """Whether the agent grouped its episodes in tasks (R17); see `is_annotated`."""
    return any(verdict.type is EpisodeType.TASK for verdict in ContextWindow(tasks=True).foresee(_marks(parts)))


def _marks(parts: Iterable[Part]) -> Iterator[str | None]:
    return (part.arguments for part in parts if part.kind is Kind.CALL and part.tool == DELIMITER)
