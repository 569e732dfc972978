"""Whether an act should declare single reads instead of whole explorations (docs/decisions/finer-dependencies.md).

    python research/benchmarks/finer_dependencies.py ../shared/sessions

Acts are bursts of edits with known dependencies. An act begins with a call that changes something, and ends at the next
call that explores, at the user's next turn, or at 6,000 tokens. Between acts are explorations. The reads on which an
act rests are those that `wane.lab.loss` counts for edit grounding. They are taken from the rest of the recording: an
agent that declares them before its edits would know what it is about to edit. Acts declare nothing, whole explorations,
or only the reads. Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from operator import attrgetter
from random import Random
from statistics import geometric_mean, mean
from typing import Literal

from frame import OwnJob, parser_of_folder, table_head, table_row
from paired import Curve, Figures, at_views, curves_of, gap, interval, points
from policy import PRICES, count_sessions, fitting, sets
from wane import Policy
from wane.core import Added, ContextWindow, EpisodeType, Item, Kind, Mark
from wane.formats.message_format import Part
from wane.inference import Annotator, EpisodeBounds
from wane.lab.loss.need_index import NONE
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.strategies.strategy import Strategy, StrategySettings
from wane.strategies.window_strategy import WindowStrategy
from wane.tools.calls import judge_call
from wane.tools.judgement import Activity

LATEST = 8  # number of latest explorations from which a wrong name is drawn: as many as the tool's errors list

Edges = Literal["none", "whole", "only"]
"""What an act declares: nothing, whole explorations, or only the reads on which it rests."""


@dataclass(slots=True)
class Burst:
    """An episode."""

    number: int  # its place in the order of starts
    type: EpisodeType  # whether it explores or acts
    first: int  # its first item
    stop: int = -1  # the item before which it ends
    edits: list[int] = field(default_factory=list)  # its calls that change something
    reads: list[int] = field(default_factory=list)  # results of its calls that explore
    # For an act, by number of an exploration, the results in it on which the act's edits rest
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
        type_ = None if activity is None else _begun_type(activity, current, full=tokens > EpisodeBounds().episode)
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


def _begun_type(activity: Activity, current: Burst | None, *, full: bool) -> EpisodeType | None:
    """Return the type of the episode that a call begins; None if it begins none."""
    if activity is Activity.ACT:
        type_ = EpisodeType.ACT
    elif activity is Activity.EXPLORE or (current is None and activity is not Activity.NEUTRAL):
        type_ = EpisodeType.EXPL
    else:
        return None
    if current is not None and current.type is type_ and not full:
        return None
    return type_


def _note(current: Burst, index: int, activity: Activity | None, result: int) -> None:
    if activity is Activity.ACT:
        current.edits.append(index)
    elif activity is Activity.EXPLORE and result != NONE:
        current.reads.append(result)


def _rest(episodes: Sequence[Burst], subject: Subject) -> None:
    """Note what each act rests on: the latest reads of its files, if an earlier exploration made them."""
    index = subject.index
    owners = _owners(episodes, len(subject.material.items))
    for number, call in enumerate(subject.material.session.calls):
        acting: set[int] = set()
        for item in range(call.first, call.stop):
            if owners[item] != NONE and item in episodes[owners[item]].edits:
                acting.add(owners[item])
        for read in index.needed_reads[number]:
            owner = owners[index.partner[read]]
            if owner == NONE or episodes[owner].type is not EpisodeType.EXPL:
                continue
            for act in (episodes[acting_number] for acting_number in sorted(acting)):
                if owner < act.number:
                    reads = act.rests_on.setdefault(owner, [])
                    if read not in reads and read < act.first:
                        reads.append(read)


def _owners(episodes: Sequence[Burst], items: int) -> list[int]:
    owners = [NONE] * items
    for episode in episodes:
        owners[episode.first : episode.stop] = [episode.number] * (episode.stop - episode.first)
    return owners


def mistaken(episodes: Sequence[Burst], share: float, seed: int) -> dict[int, dict[int, list[int]]]:
    """Return, by number of an act, what it declares if it gets a share of its dependencies wrong.

    A wrong exploration is drawn from the latest others, with as many reads. The same seed draws the same for any grain,
    and what is wrong at a small share is also wrong at a larger one.
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

    `only` couples the calls of an act with the reads that it declares (R12): these leave with the last call of the act,
    and the rest of the exploration leaves in its turn. A seed selects the share of dependencies that are wrong.
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
            exchanges: list[int] = []
            for reads in declared[act.number].values():
                for read in reads:
                    exchanges += [partner[read], read]
            for item in range(act.first, act.stop):
                if exchanges and items[item].kind is Kind.CALL:
                    needs[item] = exchanges
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
    share: float = 0.0  # share of wrong dependencies
    seed: int = 0  # selects the wrong ones

    def start(self, subject: Subject, settings: StrategySettings) -> Strategy:
        annotator = Declared(subject, self.edges, self.share, self.seed)
        return WindowStrategy(self.label, settings, settings.policy, annotator)


BUDGETS = (50_000, 80_000)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
SEEDS = 3
GRAINS: tuple[Edges, ...] = ("whole", "only")
FIGURES = (attrgetter("grounding"), attrgetter("recall"))


@dataclass(frozen=True, slots=True)
class Way:
    """What acts declare."""

    edges: Edges | None  # the grain; None for inferred episodes and dependencies
    share: float = 0.0  # share of wrong dependencies

    @property
    def name(self) -> str:
        return self.edges or "inferred"

    def jobs(self, budget: int, subject: int, policy: Policy) -> list[Job]:
        """Return the replays of one session, one for each seed."""
        settings = StrategySettings(budget, policy=policy, annotate="infer")
        pricing = Pricing.of(PRICES[0])
        if self.edges is None:
            return [Job(subject, "cwl", settings, pricing)]
        job = DeclaredJob(subject, "cwl", settings, pricing, edges=self.edges, share=self.share)
        seeds = SEEDS if self.share else 1
        return [replace(job, seed=seed) for seed in range(seeds)]


NOTHING, TODAY = Way("none"), Way(None)
WAYS = (NOTHING, TODAY, *(Way(edges, share) for edges, share in product(GRAINS, SHARES)))


def structure(subjects: Sequence[Subject]) -> None:
    """Print on what acts rest."""
    explorations_of_each: list[int] = []
    reads_of_each: list[int] = []
    acts = episodes = needed = whole = alone = 0
    for subject in subjects:
        marked = bursts(subject)
        episodes += len(marked)
        acts += sum(episode.type is EpisodeType.ACT for episode in marked)
        needed += edits_of_read_files(subject)
        for act in marked:
            if not act.rests_on:
                continue
            explorations_of_each.append(len(act.rests_on))
            reads_of_each.append(sum(map(len, act.rests_on.values())))
            for number, reads in act.rests_on.items():
                whole += _weight(subject, range(marked[number].first, marked[number].stop))
                alone += _weight(subject, reads) + _weight(subject, (subject.index.partner[read] for read in reads))
    print(f"{count_sessions(subjects)}: {episodes:,} episodes, {acts:,} of them acts")
    print(f"- acts that rest on reads of earlier explorations: {len(reads_of_each):,}")
    print(f"- explorations of each: {mean(explorations_of_each):.2f}, reads: {mean(reads_of_each):.2f}")
    print(
        f"- tokens of these explorations: {whole:,}; of these reads with their calls: {alone:,} ({whole / alone:.1f})"
    )
    print(f"- edits of files that had been read before: {needed:,}")


def edits_of_read_files(subject: Subject) -> int:
    return sum(len(subject.index.needed_reads[call]) for call in range(len(subject.material.session.calls)))


def _weight(subject: Subject, items: Iterable[int]) -> int:
    return sum(subject.material.items[index].tokens for index in items)


COLUMNS = (
    *("declared", "wrong", "edit grounding", "reference recall", "cost", "grounding less none", "recall less none"),
    *("grounding less whole", "recall less whole", "over budget"),
)


def table(curves: Mapping[Way, list[Curve]]) -> None:
    """Print the means over sessions at the mean views of acts that declare nothing."""
    base = curves[NOTHING]
    read_off = {way: _read_off(of_way, base) for way, of_way in curves.items()}
    print("", table_head(COLUMNS, words=1), sep="\n")
    for way, own in read_off.items():
        costs = [one.dollars / other.dollars for one, other in zip(own, read_off[NOTHING], strict=True)]
        less_none = [points(interval(own, read_off[NOTHING], figure)) for figure in FIGURES]
        less_whole = ["", ""]
        if way.edges == "only":
            whole = read_off[Way("whole", way.share)]
            less_whole = [points(interval(own, whole, figure)) for figure in FIGURES]
        cells = [
            way.name,
            f"{way.share:.0%}",
            f"{mean(session.grounding for session in own):.3f}",
            f"{mean(session.recall for session in own):.3f}",
            f"{geometric_mean(costs):.3f}",
            *less_none,
            *less_whole,
            f"{sum(session.over for session in own):.1f}",
        ]
        print(table_row(cells))

    gaps: list[float] = []
    for of_way in curves.values():
        gaps += [gap(own, other) for own, other in zip(of_way, base, strict=True)]
    missing = sum(map(bool, gaps))
    print(
        f"\n{missing} of {len(gaps)} curves miss the view at which they are read, by {max(gaps):,.0f} tokens at most."
    )


def _read_off(curves: Sequence[Curve], base: Sequence[Curve]) -> list[Figures]:
    return [at_views(own, other) for own, other in zip(curves, base, strict=True)]


def sessions(subjects: Sequence[Subject], curves: Mapping[Way, list[Curve]]) -> None:
    """Print the grounding and recall of each session with right dependencies."""
    ways = [NOTHING, TODAY, *(Way(edges) for edges in GRAINS)]
    read_off = [_read_off(curves[way], curves[NOTHING]) for way in ways]
    names = [way.name for way in ways]
    columns = [f"grounding: {names[0]}", *names[1:], f"recall: {names[0]}", *names[1:]]
    print("", table_head(["session", "edits", "mean view", *columns], words=1), sep="\n")
    for number, subject in enumerate(subjects):
        view = f"{read_off[0][number].view / 1000:.1f}k"
        cells = [subject.material.session.name, f"{edits_of_read_files(subject)}", view]
        cells += [f"{own[number].grounding:.3f}" for own in read_off]
        cells += [f"{own[number].recall:.3f}" for own in read_off]
        print(table_row(cells))


def main() -> None:
    by_set = sets(parser_of_folder(__doc__).parse_args().sessions)
    subjects = [subject for group in by_set.values() for subject in group]
    structure(subjects)
    for budget in BUDGETS:
        chosen = fitting(subjects, budget)
        print(f"\n### τ = {budget:,}, {PRICES[0]}, {count_sessions(chosen)}", flush=True)
        curves = curves_of(chosen, {way: partial(way.jobs, budget) for way in WAYS})
        table(curves)
        sessions(chosen, curves)


if __name__ == "__main__":
    main()
