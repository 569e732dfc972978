"""Episodes from bursts of edits, whose dependencies are known: for the experiment on finer dependencies.

An act begins with a call that changes something, and ends at the next call that explores, at the user's next turn, or
once it holds 6,000 tokens; what lies between acts is exploration. The reads that an act rests on are those that
`wane.lab.loss` counts for edit grounding. They are found with the rest of the recording at hand, as an agent that
declares them ahead of its edits would know what it is about to edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from own_job import OwnJob
from wane.core import Added, ContextWindow, EpisodeType, Item, Kind, Mark
from wane.formats.base import Part
from wane.inference import Annotator, Limits
from wane.lab.loss.index import NONE
from wane.lab.replaying.replay import Subject
from wane.strategies.base import Settings, Strategy
from wane.strategies.window import WindowStrategy
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity

LATEST = 8  # explorations from which a wrong name is drawn: as many as the tool's errors list

Edges = Literal["none", "whole", "only"]
"""What an act declares: nothing, whole explorations, or the reads of them that it rests on."""


@dataclass(slots=True)
class Burst:
    """An episode."""

    number: int  # its place in the order of starts
    type: EpisodeType  # whether it explores or acts
    first: int  # its first item
    stop: int = -1  # the item ahead of which it ends
    edits: list[int] = field(default_factory=list)  # its calls that change something
    reads: list[int] = field(default_factory=list)  # results of its calls that explore
    # For an act, by number of an exploration, the results of it that the act's edits rest on
    rests_on: dict[int, list[int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.type.value}-{self.number}"


def bursts(subject: Subject) -> list[Burst]:
    """Return the episodes of a session, with what each act rests on."""
    episodes: list[Burst] = []
    current: Burst | None = None
    tokens = 0
    for index, (item, part) in enumerate(zip(subject.material.items, subject.material.session.parts, strict=True)):
        if item.kind is Kind.USER and current is not None:
            current.stop, current = index, None
        activity = judge_call(part.tool or "", part.arguments).activity if item.kind is Kind.CALL else None
        type_ = None if activity is None else _begun(activity, current, full=tokens > Limits().episode)
        if type_ is not None:
            if current is not None:
                current.stop = index
            current, tokens = Burst(len(episodes), type_, index), 0
            episodes.append(current)
        if current is not None:
            tokens += item.tokens
            _note(current, index, activity, subject.index.partner[index])
    if current is not None:
        current.stop = len(subject.material.items)
    _rest(episodes, subject)
    return episodes


def _begun(activity: Activity, current: Burst | None, *, full: bool) -> EpisodeType | None:
    """The type of the episode that a call begins; None if it begins none."""
    if activity is Activity.ACT:
        type_ = EpisodeType.ACT
    elif activity is Activity.EXPLORE or (current is None and activity is not Activity.NEUTRAL):
        type_ = EpisodeType.EXPL
    else:
        return None
    return None if current is not None and current.type is type_ and not full else type_


def _note(current: Burst, index: int, activity: Activity | None, result: int) -> None:
    if activity is Activity.ACT:
        current.edits.append(index)
    elif activity is Activity.EXPLORE and result != NONE:
        current.reads.append(result)


def _rest(episodes: Sequence[Burst], subject: Subject) -> None:
    """Note what each act rests on: the latest reads of its files, where an earlier exploration made them."""
    index, owners = subject.index, _owners(episodes, len(subject.material.items))
    for number, call in enumerate(subject.material.session.calls):
        numbers = {owners[item] for item in range(call.first, call.stop) if owners[item] != NONE}
        acts = [episodes[owner] for owner in sorted(numbers)]
        acts = [act for act in acts if any(call.first <= edit < call.stop for edit in act.edits)]
        for read in index.needed_reads(number):
            owner = owners[index.partner[read]]
            for act in acts:
                if owner != NONE and owner < act.number and episodes[owner].type is EpisodeType.EXPL:
                    reads = act.rests_on.setdefault(owner, [])
                    if read not in reads and read < act.first:
                        reads.append(read)


def _owners(episodes: Sequence[Burst], items: int) -> list[int]:
    owners = [NONE] * items
    for episode in episodes:
        owners[episode.first : episode.stop] = [episode.number] * (episode.stop - episode.first)
    return owners


def mistaken(episodes: Sequence[Burst], share: float, seed: int) -> dict[int, dict[int, list[int]]]:
    """Return, by number of an act, what it declares if it mistakes a share of its dependencies.

    In place of a right exploration stands one drawn from the latest others, with as many of its reads. The same seed
    draws the same for any grain, and what is wrong at a small share is wrong at a larger one too.
    """
    declared: dict[int, dict[int, list[int]]] = {}
    for act in episodes:
        explorations = [other for other in episodes[: act.number] if other.type is EpisodeType.EXPL]
        others = [other for other in explorations if other.number not in act.rests_on]
        own = declared.setdefault(act.number, {})
        for number, reads in act.rests_on.items():
            random = Random(f"{seed} {act.number} {number}")
            if random.random() >= share:
                own[number] = reads
            elif others:
                other = random.choice(others[-LATEST:])
                own[other.number] = random.sample(other.reads, min(len(reads), len(other.reads)))
    return declared


class Declared(Annotator):
    """Marks these episodes, with dependencies of one grain.

    `only` couples the calls of an act with the reads that it declares (R12): these leave with the last of the act, and
    the rest of the exploration leaves when it is its turn.

    Args:
        subject: the session.
        edges: the grain.
        share: share of the dependencies that are wrong.
        seed: which are, and what stands in their place.
    """

    def __init__(self, subject: Subject, edges: Edges, share: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        episodes = bursts(subject)
        declared = mistaken(episodes, share, seed)
        self._marks: dict[int, list[Mark]] = {}
        self._needs: Mapping[int, list[int]] = {}
        for episode in episodes:
            names = tuple(episodes[number].name for number in sorted(declared[episode.number]))
            start = Mark("start", episode.name, episode.type, names if edges == "whole" else ())
            self._marks.setdefault(episode.first, []).append(start)
            end = Mark("end", episode.name, episode.type, description="")
            # The user's turn ends an episode, and the next one may begin at any later item.
            self._marks.setdefault(episode.stop, []).insert(0, end)
        if edges == "only":
            self._needs = self._couplings(subject, episodes, declared)

    def _couplings(
        self, subject: Subject, episodes: Sequence[Burst], declared: Mapping[int, Mapping[int, Sequence[int]]]
    ) -> dict[int, list[int]]:
        partner, items = subject.index.partner, subject.material.items
        needs: dict[int, list[int]] = {}
        for act in episodes:
            reads = [read for targets in declared[act.number].values() for read in targets]
            exchanges = [item for read in reads for item in (partner[read], read)]
            calls = [item for item in range(act.first, act.stop) if items[item].kind is Kind.CALL]
            needs.update((call, exchanges) for call in calls if exchanges)
        return needs

    def add_to(self, window: ContextWindow, item: Item, part: Part, recorded: Sequence[Mark] | None = None) -> Added:
        """Add the next item of the history with the marks ahead of it."""
        del part, recorded
        index = window.item_count
        needed = [target - index for target in self._needs.get(index, ()) if window.shows(target)]
        if needed:
            item = replace(item, needs=(*item.needs, *needed))
        return window.add(item, self._marks.get(index, ()))


@dataclass(frozen=True, slots=True)
class DeclaredJob(OwnJob):
    """A replay of the default with these episodes in place of inferred ones."""

    edges: Edges = "none"  # the grain of dependencies
    share: float = 0.0  # share of them that are wrong
    seed: int = 0  # which are

    def start(self, subject: Subject, settings: Settings) -> Strategy:
        annotator = Declared(subject, self.edges, self.share, self.seed)
        return WindowStrategy(self.label, settings, settings.policy, annotator)
