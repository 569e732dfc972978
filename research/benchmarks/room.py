"""What a pass that leaves room costs and keeps (R22), at four budgets, beside compaction and the paper's policy.

    python research/benchmarks/room.py SESSIONS --half first --fit     # the values that were tried, at one price list
    python research/benchmarks/room.py SESSIONS --half second          # docs/decisions/default-policy.md
    python research/benchmarks/room.py SESSIONS --half second --price openai:gpt-5.4

Every second session, by name, is in the first half, on which the values were chosen. Sessions of fewer than 60 model
calls or of fewer than 90,000 tokens are left out. With --store, finished replays are kept in a file, so that a command
that was stopped goes on; they count only for the code that made them. Deterministic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from statistics import fmean, geometric_mean

from clairvoyant import Bound, BoundJob
from frame import parser_of_sessions, print_table, recorded_sessions
from wane import Policy
from wane.lab.counting import count
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.strategies.strategy import StrategySettings
from wane_research.bench.running import code_digest

BUDGETS = (30_000, 50_000, 80_000, 120_000)
KEEPS_MORE = 0.1
"""Recall that makes up for a cost above that of the paper's policy."""

OURS = "**`Policy()`**"
OWN = Policy()
BEFORE = Policy(min_room=0.4, low_water=0.4)


@dataclass(frozen=True)
class Contender:
    """A strategy with its policy."""

    name: str
    strategy: str = "cwl"
    policy: Policy = OWN
    bound: Bound | None = None

    def job(self, budget: int, window: int | None, pricing: Pricing) -> Job:
        settings = StrategySettings(budget, policy=self.policy, annotate="infer", window=window)
        if self.bound is not None:
            return BoundJob(0, self.strategy, settings, pricing, bound=self.bound)
        return Job(0, self.strategy, settings, pricing)


NONE = Contender("none", "none")
PAPER = Contender("`paper`", "paper")
COMPACT = Contender("`compact`", "compact")
LISTED = (
    Contender(OURS),
    Contender("before: `min_room=0.4, low_water=0.4`", policy=BEFORE),
    PAPER,
    COMPACT,
)
BOUNDS = (
    Contender("clairvoyant: the call needed latest first", bound=Bound("call", "latest")),
    Contender("clairvoyant: the call with the fewest needs a token first", bound=Bound("call", "fewest")),
)


TRIED = (
    *(Contender(f"`min_room={share}`", policy=replace(BEFORE, min_room=share)) for share in (0.0, 0.3, 0.5, 0.6, 0.8)),
    *(Contender(f"`low_water={share}`", policy=replace(BEFORE, low_water=share)) for share in (0.2, 0.3, 0.5)),
    *(Contender(f"`guard={share}`", policy=replace(BEFORE, guard=share)) for share in (0.0, 0.2, 0.6)),
    *(Contender(f"`index_share={share}`", policy=replace(BEFORE, index_share=share)) for share in (0.01, 0.03, 0.05)),
    Contender("`min_room=0.5, low_water=0.3`", policy=replace(BEFORE, min_room=0.5, low_water=0.3)),
    Contender("`Policy(index_share=0.03)`", policy=replace(OWN, index_share=0.03)),
)
"""The values that were tried; what is not named is as in BEFORE."""


@dataclass(frozen=True)
class Figures:
    """What a replay cost and kept."""

    cost: float  # dollars
    full: float  # dollars, with what is fetched again
    recall: float
    grounding: float
    view: float  # mean tokens of a request


class Store:
    """Finished replays, in a file of lines if there is one; a line that was cut off is ignored."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._code = code_digest()
        self._known: dict[tuple[str, ...], Figures] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else ():
            try:
                entry = json.loads(line)
                self._known[tuple(entry["key"])] = Figures(**entry["figures"])
            except (ValueError, KeyError, TypeError):
                continue

    def figures(self, subject: Subject, contender: Contender, budget: int, pricing: Pricing) -> Figures:
        """Return the figures of a replay, which runs if they are not known."""
        session = subject.material.session
        what = (contender.strategy, str(astuple(contender.policy)), str(contender.bound))
        key = (self._code, session.name, str(len(session.parts)), *what, str(budget), pricing.prices.name)
        if key not in self._known:
            job = contender.job(budget, session.window or pricing.prices.window, pricing)
            totals = job.run(subject).totals
            loss = totals.loss
            done = Figures(
                totals.dollars, totals.full_cost, loss.reference_recall, loss.edit_grounding, totals.mean_view
            )
            self._known[key] = done
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps({'key': key, 'figures': asdict(done)})}\n")
        return self._known[key]


COLUMNS = (
    *("budget", "", "cost / none", "with fetching, / `compact`", "recall", "grounding", "mean view", "dearest / none"),
    "dearer than `paper`, and keep less than ten points more",
)


def rows(
    budget: int, runs: Mapping[Contender, Sequence[Figures]], none: Sequence[Figures], listed: Sequence[Contender]
) -> Iterator[list[str]]:
    """Yield the lines of a budget. Each session counts the same."""
    for contender in listed:
        beside_none: list[float] = []
        beside_compact: list[float] = []
        dearer = 0
        for own, whole, paper, compact in zip(runs[contender], none, runs[PAPER], runs[COMPACT], strict=True):
            beside_none.append(own.cost / whole.cost)
            beside_compact.append(own.full / compact.full)
            dearer += own.full > paper.full and own.recall < paper.recall + KEEPS_MORE
        yield [
            f"{budget // 1000}k",
            contender.name,
            f"{geometric_mean(beside_none):.3f}",
            f"{geometric_mean(beside_compact):.3f}",
            f"{fmean(run.recall for run in runs[contender]):.3f}",
            f"{fmean(run.grounding for run in runs[contender]):.3f}",
            f"{fmean(run.view for run in runs[contender]) / 1000:.1f}k",
            f"{max(beside_none):.2f}",
            "" if contender is PAPER else f"{dearer}",
        ]
    ours = runs[listed[0]]
    unfetched = [own.cost / other.full for own, other in zip(ours, runs[COMPACT], strict=True)]
    yield [f"{budget // 1000}k", "if nothing were fetched again", "", f"{geometric_mean(unfetched):.3f}", *[""] * 5]


def main() -> None:
    command = parser_of_sessions(__doc__)
    command.add_argument("--half", choices=("first", "second", "both"), default="second", help="which sessions")
    command.add_argument("--price", default="anthropic:claude-opus-4-6", help="the model whose prices count")
    command.add_argument("--fit", action="store_true", help="the values that were tried, not the others")
    command.add_argument("--bounds", action="store_true", help="also orders that know the future")
    command.add_argument("--store", type=Path, help="a file that keeps finished replays")
    arguments = command.parse_args()
    subjects: list[Subject] = []
    for session in sorted(recorded_sessions(arguments.sessions), key=lambda session: session.name):
        material = count(session)
        if len(session.calls) >= 60 and material.overhead + sum(item.tokens for item in material.items) >= 90_000:
            subjects.append(Subject.of(material))
    if arguments.half != "both":
        subjects = subjects[0::2] if arguments.half == "first" else subjects[1::2]
    pricing, store = Pricing.of(arguments.price), Store(arguments.store)
    none = [store.figures(subject, NONE, BUDGETS[-1], pricing) for subject in subjects]
    calls = sum(len(subject.material.session.calls) for subject in subjects)
    print(f"{len(subjects)} sessions, {calls:,} calls, {arguments.price}\n")

    listed = (*LISTED, *(BOUNDS if arguments.bounds else ()))
    if arguments.fit:
        listed = (*LISTED, *TRIED)

    def table() -> Iterator[list[str]]:
        for budget in BUDGETS:
            runs: dict[Contender, list[Figures]] = {}
            for contender in listed:
                runs[contender] = [store.figures(subject, contender, budget, pricing) for subject in subjects]
            yield from rows(budget, runs, none, listed)

    print_table(COLUMNS, table(), words=2)


if __name__ == "__main__":
    main()
