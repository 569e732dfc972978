"""Whether an act should declare single reads instead of whole explorations (docs/decisions/finer-dependencies.md).

    python research/benchmarks/finer_dependencies.py ../shared/sessions

Acts are bursts of edits (bursts.py), and rest on what edit grounding counts. They declare nothing, the explorations, or
the reads alone. Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import attrgetter
from statistics import geometric_mean, mean

from bursts import Burst, DeclaredJob, Edges, bursts
from frame import parser_of_folder, table_head, table_row
from paired import Curve, Figures, at_views, gap, interval, points, policies
from policy import PRICES, counted, fitting, sets
from wane import Policy
from wane.core import EpisodeType
from wane.lab.replaying.engine import Job, Processes
from wane.lab.replaying.replay import Pricing, Subject
from wane.strategies.base import Settings

BUDGETS = (50_000, 80_000)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
SEEDS = 3
GRAINS: tuple[Edges, ...] = ("whole", "only")
FIGURES = (attrgetter("grounding"), attrgetter("recall"))


@dataclass(frozen=True, slots=True)
class Way:
    """What acts declare."""

    edges: Edges | None  # the grain; None for the episodes and dependencies that are inferred today
    share: float = 0.0  # share of the dependencies that are wrong

    @property
    def name(self) -> str:
        return self.edges or "inferred"

    def jobs(self, subject: int, budget: int, policy: Policy) -> list[Job]:
        """Its replays of one session, one for each draw of what is wrong."""
        settings = Settings(budget, policy=policy, annotate="infer")
        pricing = Pricing.of(PRICES[0])
        if self.edges is None:
            return [Job(subject, "cwl", settings, pricing)]
        seeds = range(SEEDS if self.share else 1)
        return [
            DeclaredJob(subject, "cwl", settings, pricing, edges=self.edges, share=self.share, seed=seed)
            for seed in seeds
        ]


NONE, TODAY = Way("none"), Way(None)
WAYS = (NONE, TODAY, *(Way(edges, share) for edges, share in product(GRAINS, SHARES)))


def measure(subjects: Sequence[Subject], budget: int, workers: int) -> dict[Way, list[Curve]]:
    """Return the curve of each session, by way."""
    jobs: list[Job] = []
    keys: list[tuple[Way, int, float]] = []
    for way, number, (low, policy) in product(WAYS, range(len(subjects)), policies().items()):
        for job in way.jobs(number, budget, policy):
            jobs.append(replace(job, label=str(len(jobs))))
            keys.append((way, number, low))
    figures: dict[tuple[Way, int, float], list[Figures]] = {}
    for job, result in Processes(workers).run(subjects, jobs):
        figures.setdefault(keys[int(job.label)], []).append(Figures.of(result.totals))
    curves: dict[Way, list[Curve]] = {way: [{} for _ in subjects] for way in WAYS}
    for (way, number, low), drawn in figures.items():
        curves[way][number][low] = Figures.averaged(drawn)
    return curves


def structure(subjects: Sequence[Subject]) -> None:
    """Print what acts rest on."""
    resting: list[Burst] = []
    acts = episodes = needed = whole = alone = 0
    for subject in subjects:
        marked = bursts(subject)
        acting = [episode for episode in marked if episode.type is EpisodeType.ACT]
        acts, episodes = acts + len(acting), episodes + len(marked)
        needed += sum(len(subject.index.needed_reads(call)) for call in range(len(subject.material.session.calls)))
        for act in filter(attrgetter("rests_on"), acting):
            resting.append(act)
            whole += sum(_weight(subject, range(marked[it].first, marked[it].stop)) for it in act.rests_on)
            alone += sum(_weight(subject, reads) + _calls_of(subject, reads) for reads in act.rests_on.values())
    reads_of_each = [sum(map(len, act.rests_on.values())) for act in resting]
    print(f"{counted(subjects)}: {episodes:,} episodes, {acts:,} of them acts")
    print(f"- acts that rest on reads of earlier explorations: {len(resting):,}")
    print(f"- explorations of each: {mean(len(act.rests_on) for act in resting):.2f}, reads: {mean(reads_of_each):.2f}")
    print(
        f"- tokens of these explorations: {whole:,}; of these reads with their calls: {alone:,} ({whole / alone:.1f})"
    )
    print(f"- edits of files that had been read before: {needed:,}")


def _weight(subject: Subject, items: Iterable[int]) -> int:
    return sum(subject.material.items[index].tokens for index in items)


def _calls_of(subject: Subject, results: Iterable[int]) -> int:
    return _weight(subject, (subject.index.partner[result] for result in results))


HEAD = """
| declared | wrong | edit grounding | reference recall | cost | grounding less none | recall less none | \
grounding less whole | recall less whole | over budget |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def table(curves: Mapping[Way, list[Curve]]) -> None:
    """Print the means over sessions at the mean views of acts that declare nothing."""
    base = curves[NONE]
    read_off = {way: _read_off(of_way, base) for way, of_way in curves.items()}
    print(HEAD)
    for way, own in read_off.items():
        costs = [one.dollars / other.dollars for one, other in zip(own, read_off[NONE], strict=True)]
        whole = read_off[Way("whole", way.share)] if way.edges == "only" else None
        cells = [
            way.name,
            f"{way.share:.0%}",
            f"{mean(session.grounding for session in own):.3f}",
            f"{mean(session.recall for session in own):.3f}",
            f"{geometric_mean(costs):.3f}",
            *(points(interval(own, read_off[NONE], figure)) for figure in FIGURES),
            *(points(interval(own, whole, figure)) if whole else "" for figure in FIGURES),
            f"{sum(session.over for session in own):.1f}",
        ]
        print(table_row(cells))

    gaps = [gap(own, other) for of_way in curves.values() for own, other in zip(of_way, base, strict=True)]
    missing = sum(map(bool, gaps))
    print(
        f"\n{missing} of {len(gaps)} curves miss the view at which they are read, by {max(gaps):,.0f} tokens at most."
    )


def _read_off(curves: Sequence[Curve], base: Sequence[Curve]) -> list[Figures]:
    return [at_views(own, other) for own, other in zip(curves, base, strict=True)]


def sessions(subjects: Sequence[Subject], curves: Mapping[Way, list[Curve]]) -> None:
    """Print the grounding and recall of each session with right dependencies."""
    ways = [NONE, TODAY, *(Way(edges) for edges in GRAINS)]
    read_off = [_read_off(curves[way], curves[NONE]) for way in ways]
    names = [way.name for way in ways]
    columns = [f"grounding: {names[0]}", *names[1:], f"recall: {names[0]}", *names[1:]]
    print("", table_head(["session", "edits", "mean view", *columns], words=1), sep="\n")
    for number, subject in enumerate(subjects):
        edits = sum(len(subject.index.needed_reads(call)) for call in range(len(subject.material.session.calls)))
        cells = [subject.material.session.name, f"{edits}", f"{read_off[0][number].view / 1000:.1f}k"]
        cells += [f"{own[number].grounding:.3f}" for own in read_off] + [
            f"{own[number].recall:.3f}" for own in read_off
        ]
        print(table_row(cells))


def main() -> None:
    command = parser_of_folder(__doc__)
    command.add_argument("--workers", type=int, default=1, help="processes to use")
    options = command.parse_args()
    subjects = [subject for group in sets(options.sessions).values() for subject in group]
    structure(subjects)
    for budget in BUDGETS:
        chosen = fitting(subjects, budget)
        print(f"\n### τ = {budget:,}, {PRICES[0]}, {counted(chosen)}", flush=True)
        curves = measure(chosen, budget, options.workers)
        table(curves)
        sessions(chosen, curves)


if __name__ == "__main__":
    main()
