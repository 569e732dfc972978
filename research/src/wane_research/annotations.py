"""How well an agent marked its own work, from its recorded sessions.

The figures count marking that costs something under the semantics. A refused call is a wasted call. Work outside
episodes leaves no description behind (R5). If an act does not declare a dependency, the exploration that it rests on
may leave too early (R7). Only the description of an exploration stays, so content that it lacks must be fetched again.
An episode without an end makes the view overflow (R16). `research/docs/annotations.md` defines each figure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, Final

from wane.conversation.tool_calls import normalise_arguments
from wane.core import RECALL, Added, ContextWindow, Episode, EpisodeType, Kind, Level
from wane.core.policy import MAX_BUDGET
from wane.formats.message_format import Part
from wane.lab.counting import Material
from wane.lab.loss.need_index import Index, touched_files
from wane.lab.recorded_session import RecordedSession
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity
from wane.tools.paths import FileMap

_AGENTS: Final = frozenset({Kind.TEXT, Kind.REASONING, Kind.CALL, Kind.RESULT})


@dataclass(frozen=True, slots=True)
class Annotations:
    """How an agent marked its work. `+` adds up several sessions."""

    sessions: int = 0  # number of sessions
    marked: int = 0  # sessions in which at least one mark was accepted
    model_calls: int = 0
    marks: int = 0  # calls of `delimiter`
    refused: Counter[str] = field(default_factory=Counter)  # refused marks, by reason
    explorations: int = 0  # episodes that explore
    acts: int = 0  # episodes that act
    unended: int = 0  # episodes without an end
    calls: int = 0  # tool calls, marks not counted
    calls_outside: int = 0  # tool calls outside any episode
    tokens: int = 0  # tokens of the agent's work, tool results included
    tokens_outside: int = 0  # tokens of such work outside any episode
    most_calls: int = 0  # tool calls of the longest episode
    declared: int = 0  # dependencies that acts declared
    acts_on_files: int = 0  # acts that edit a file read in an exploration before
    acts_undeclared: int = 0  # those that neither read such a file themselves nor declare an exploration that did
    read_again: int = 0  # results fetched again after they had left the view
    recalls: int = 0  # calls of `recall`
    explorations_repeated: int = 0  # explorations that fetched at least one such result again
    descriptions: int = 0  # explorations that ended with a description
    descriptions_needed: int = 0  # explorations among them that first showed identifiers that later calls used
    descriptions_holding: int = 0  # such descriptions with at least one of these identifiers
    needed: int = 0  # these identifiers, each once per exploration
    held: int = 0  # identifiers among them in the exploration's description
    passes: int = 0  # passes that the session recorded
    overflows: int = 0  # passes that had to evict unfinished work, or content that it needs (R16)
    overflow_tokens: int = 0  # tokens of both that they evicted

    def __add__(self, other: Annotations) -> Annotations:
        names = [attribute.name for attribute in fields(self)]
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Annotations(**{**sums, "most_calls": max(self.most_calls, other.most_calls)})

    @property
    def episodes(self) -> int:
        return self.explorations + self.acts

    @property
    def refused_share(self) -> float | None:
        """Share of the marks that were refused; None if there were none."""
        return _share(self.refused.total(), self.marks)

    @property
    def calls_per_episode(self) -> float | None:
        """Mean tool calls of an episode; None if there were none."""
        return _share(self.calls - self.calls_outside, self.episodes)

    @property
    def outside_share(self) -> float | None:
        """Share of the agent's work, in tokens, that is outside any episode; None if there was none."""
        return _share(self.tokens_outside, self.tokens)

    @property
    def undeclared_share(self) -> float | None:
        """`acts_undeclared` as a share of `acts_on_files`; None if there were none."""
        return _share(self.acts_undeclared, self.acts_on_files)

    @property
    def holding_share(self) -> float | None:
        """`descriptions_holding` as a share of `descriptions_needed`; None if there were none."""
        return _share(self.descriptions_holding, self.descriptions_needed)

    @property
    def held_share(self) -> float | None:
        """Share of the identifiers needed later that descriptions hold; None if there were none."""
        return _share(self.held, self.needed)

    def to_dict(self) -> dict[str, Any]:
        data = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        data["refused"] = dict(sorted(self.refused.items()))
        derived = "episodes refused_share calls_per_episode outside_share undeclared_share holding_share held_share"
        return data | {name: getattr(self, name) for name in derived.split()}


def annotations_of(material: Material) -> Annotations:
    """Return how the agent of a session marked its work.

    Episodes are those that the agent marked: none are inferred.
    """
    return _Reading(material).figures()


def read_again(session: RecordedSession) -> int:
    """Return how many results an agent fetched again after they had left the view."""
    fetches = _Fetches(session)
    return sum(fetches.again(at, part) for at, part in enumerate(session.parts) if part.kind is Kind.CALL)


class _Fetches:
    """What the exploring calls of a session fetched so far."""

    def __init__(self, session: RecordedSession) -> None:
        self._calls: dict[tuple[str, str], list[str | None]] = {}  # by call, the ids of earlier ones like it
        self._results = {part.call_id: at for at, part in enumerate(session.parts) if part.kind is Kind.RESULT}
        self._left = _positions_left(session)

    def again(self, index: int, part: Part) -> bool:
        """Add a call. Return True if it repeats an earlier call whose results have all left the view."""
        if part.tool == RECALL or judge_call(part.tool or "", part.arguments).activity is not Activity.EXPLORE:
            return False
        earlier = self._calls.setdefault((part.tool or "", normalise_arguments(part.arguments)), [])
        results = [self._results[call_id] for call_id in earlier if call_id in self._results]
        earlier.append(part.call_id)
        answered = [result for result in results if result < index]
        return bool(answered) and all(self._left.get(result, index + 1) <= index for result in answered)


class _Reading:
    """Goes through a session once, item by item, with the verdicts and episodes of a window."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._session = material.session
        self._sums: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._own_calls: Counter[int] = Counter()  # by number of an episode
        self._owners: list[Episode | None] = []  # by item, its episode if the agent marked it
        self._named: list[Episode] = []
        self._ended: dict[int, int] = {}  # by number of an episode, the item that ended it
        self._readers: FileMap[list[Episode]] = FileMap()  # by file, the episodes that read it
        self._rests: dict[int, list[bool]] = {}  # by number of an act, whether it knows where it read each file
        self._fetches = _Fetches(self._session)
        self._repeating: set[int] = set()  # numbers of explorations that fetched something again

    def figures(self) -> Annotations:
        window = ContextWindow(MAX_BUDGET)
        for index, part in enumerate(self._session.parts):
            self._take(index, part, window.add(self._material.items[index]))
        described = self._measure_descriptions()
        evictions = self._session.evictions
        overflow_tokens = 0
        for eviction in evictions:
            overflow_tokens += sum(step.freed for step in eviction.steps if step.level == Level.OVERFLOW)
        explorations = sum(episode.type is EpisodeType.EXPL for episode in self._named)
        return Annotations(
            sessions=1,
            marked=int(bool(self._named)),
            model_calls=len(self._session.calls),
            refused=self._refused,
            explorations=explorations,
            acts=len(self._named) - explorations,
            unended=sum(episode.number not in self._ended for episode in self._named),
            most_calls=max(self._own_calls.values(), default=0),
            declared=sum(len(episode.dependencies) for episode in self._named),
            acts_on_files=len(self._rests),
            acts_undeclared=sum(not all(accounted) for accounted in self._rests.values()),
            explorations_repeated=len(self._repeating),
            descriptions=len(described),
            descriptions_needed=sum(needed > 0 for needed, _ in described),
            descriptions_holding=sum(holding > 0 for _, holding in described),
            needed=sum(needed for needed, _ in described),
            held=sum(holding for _, holding in described),
            passes=len(evictions),
            overflows=sum(eviction.overflowed for eviction in evictions),
            overflow_tokens=overflow_tokens,
            **self._sums,
        )

    def _take(self, index: int, part: Part, added: Added) -> None:
        owner = added.episode
        if owner is not None and owner.implicit:
            owner = None
        self._owners.append(owner)
        if part.kind in _AGENTS:
            tokens = self._material.items[index].tokens
            self._sums["tokens"] += tokens
            if owner is None:
                self._sums["tokens_outside"] += tokens
        if added.verdict is not None:
            self._sums["marks"] += 1
            if added.verdict.refusal is not None:
                self._refused[added.verdict.refusal] += 1
            elif owner is not None and added.verdict.action == "start":
                self._named.append(owner)
            elif owner is not None:
                self._ended[owner.number] = index
        elif part.kind is Kind.CALL:
            self._take_call(index, part, owner)

    def _take_call(self, index: int, part: Part, owner: Episode | None) -> None:
        self._sums["calls"] += 1
        if owner is None:
            self._sums["calls_outside"] += 1
        else:
            self._own_calls[owner.number] += 1
        if part.tool == RECALL:
            self._sums["recalls"] += 1
            return
        if self._fetches.again(index, part):
            self._sums["read_again"] += 1
            if owner is not None and owner.type is EpisodeType.EXPL:
                self._repeating.add(owner.number)
        files = touched_files(part)
        if owner is not None and owner.type is EpisodeType.ACT:
            for path in files.edited:
                self._edits(path, owner)
        if owner is not None:
            for path in files.read:
                readers = self._readers.get(path)
                if readers is None:
                    self._readers[path] = readers = []
                readers.append(owner)

    def _edits(self, path: str, act: Episode) -> None:
        """Note whether an act accounts for a file: it read the file itself, or declares an episode that did."""
        readers = self._readers.get(path) or []
        if any(reader.type is EpisodeType.EXPL for reader in readers):
            accounted = any(reader is act or reader.name in act.dependencies for reader in readers)
            self._rests.setdefault(act.number, []).append(accounted)

    def _measure_descriptions(self) -> list[tuple[int, int]]:
        """Return, for each description, how many identifiers it should hold, and how many of them it holds.

        It should hold those that its exploration was first to show and that later calls used.
        """
        index = Index(self._session, [item.tokens for item in self._material.items])
        needed: dict[int, set[int]] = {}
        for number, call in enumerate(self._session.calls):
            for word, _ in index.uses(number):
                first = index.postings[word][0]
                owner = self._owners[first]
                if owner is None or not index.is_result[first]:
                    continue
                if self._ended.get(owner.number, call.first) < call.first:
                    needed.setdefault(owner.number, set()).add(word)
        described = []
        for episode in self._named:
            if episode.description is not None:
                words = needed.get(episode.number, set())
                described.append((len(words), len(words & index.holds(episode.description))))
        return described


def _positions_left(session: RecordedSession) -> dict[int, int]:
    """Return, for each item that left the view, the number of items before it left."""
    positions: dict[int, int] = {}
    for eviction in session.evictions:
        for item in eviction.removed:
            positions.setdefault(item, eviction.position)
    for compaction in session.compactions:
        for item in range(compaction.first_kept):
            positions[item] = min(compaction.position, positions.get(item, compaction.position))
    return positions


def _share(part: float, total: float) -> float | None:
    return part / total if total else None
