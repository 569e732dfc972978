"""Whether the agent's plan should bound inferred episodes (R19, docs/decisions/plan-as-marks.md).

    python research/benchmarks/plan_as_marks.py ../shared/sessions

Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from statistics import geometric_mean
from typing import ClassVar

from frame import OwnJob, parser_of_folder, print_table, recorded_sessions, table_head, table_row
from paired import Figures, at_views, curves_of, gap, interval, points, policies
from policy import PRICES, count_sessions
from wane import Policy
from wane.core import ContextWindow, EpisodeType, Item, Kind, Mark
from wane.core.policy import MAX_BUDGET
from wane.inference import Annotator, EpisodeBounds
from wane.lab.counting import count
from wane.lab.replaying.jobs import Job
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.strategies.strategy import Strategy, StrategySettings
from wane.strategies.window_strategy import WindowStrategy
from wane.tools.judgement import Judgement
from wane.tools.plans import IN_PROGRESS, AgentPlan

AGENTS = ("claude-code", "codex", "copilot-cli", "pi", "terminal-bench-2")
BUDGETS = (80_000, 120_000)
DONE = "completed"
GIVEN_UP = (None, "cancelled", "deleted")
COLUMNS = (
    *("changes", "entries", "starts", "completed", "dropped", "left", "at once", "episodes", "named by an entry"),
    "without the limit",
)


class BoundedByPlan(Annotator):
    """Ends the open episode when the entry in progress of the agent's plan changes, or none is left in progress."""

    def __init__(self, limits: EpisodeBounds | None = None) -> None:
        super().__init__(limits)
        self._bound = ""

    def _infer(self, item: Item, judgement: Judgement | None, *, drifts: bool) -> list[Mark]:
        if self._plan.current == self._bound:
            return super()._infer(item, judgement, drifts=drifts)
        self._bound = self._plan.current
        return self._end()


class TasksOfPlan(BoundedByPlan):
    """Makes a task (R17) of the current entry. The task is abandoned if the entry is given up while current."""

    def __init__(self, limits: EpisodeBounds | None = None) -> None:
        super().__init__(limits)
        self._task = ""
        self._tasks = 0

    def _infer(self, item: Item, judgement: Judgement | None, *, drifts: bool) -> list[Mark]:
        earlier = self._bound
        marks = super()._infer(item, judgement, drifts=drifts)
        if self._bound == earlier:
            return marks
        if self._task:
            statuses = {entry.text: entry.status for entry in self._plan.entries.values()}
            abandoned = statuses.get(earlier) in GIVEN_UP
            marks.append(Mark("end", self._task, EpisodeType.TASK, description=earlier, abandoned=abandoned))
            self._task = ""
        if self._bound:
            self._tasks += 1
            self._task = f"task-{self._tasks}:{self._bound}"
            marks.append(Mark("start", self._task, EpisodeType.TASK))
        return marks


@dataclass(frozen=True, slots=True)
class BoundedJob(OwnJob):
    """A replay of the default with episodes bounded by the plan."""

    annotator: ClassVar[type[Annotator]] = BoundedByPlan

    def start(self, subject: Subject, settings: StrategySettings) -> Strategy:  # noqa: ARG002 - for any session
        return WindowStrategy("cwl", settings, settings.policy, self.annotator(EpisodeBounds.of(settings.budget)))


@dataclass(frozen=True, slots=True)
class TasksJob(BoundedJob):
    """The same with tasks."""

    annotator: ClassVar[type[Annotator]] = TasksOfPlan


WAYS: Mapping[str, type[Job]] = {"inferred": Job, "bounded by the plan": BoundedJob, "tasks of the plan": TasksJob}


def fates(subject: Subject) -> Counter[str]:
    """Return the number of entries in a session's plans, and of those with each fate."""
    plan = AgentPlan()
    fate: dict[str, str] = {}
    totals: Counter[str] = Counter()
    for part in subject.material.session.parts:
        if part.kind is not Kind.CALL or not plan.read(part.tool or "", part.arguments):
            continue
        totals["changes"] += 1
        entries = plan.entries.values()
        current = sum(entry.status == IN_PROGRESS for entry in entries)
        totals["at once"] = max(totals["at once"], current)
        for text in fate.keys() - {entry.text for entry in entries}:
            if fate[text] != DONE:
                fate[text] = "dropped"
        for entry in entries:
            if entry.status == IN_PROGRESS and fate.get(entry.text) != IN_PROGRESS:
                totals["started"] += 1
            fate[entry.text] = entry.status
    return totals + Counter({"entries": len(fate)}) + Counter(fate.values())


def count_named(subject: Subject) -> list[str]:
    """Return counts as text: inferred episodes, those named by an entry, and those begun while an entry was current."""
    window, annotator = ContextWindow(MAX_BUDGET), Annotator()
    names: list[str] = []
    episodes = during = 0
    for item, part in zip(subject.material.items, subject.material.session.parts, strict=True):
        opened = annotator.add_to(window, item, part).opened
        if opened is not None and opened.inferred:
            episodes += 1
            if annotator._plan.current:
                during += 1
            if annotator._entry:
                names.append(annotator._entry)
    return [f"{episodes}", f"{len(names)} ({len(set(names))} entries)", f"{during}"]


def table_of_plans(subjects: Sequence[Subject]) -> list[Subject]:
    """Print the figures of plans, and return the sessions that have one."""
    planned = [subject for subject in subjects if fates(subject)["entries"]]
    print(f"{len(planned)} of {count_sessions(subjects)} hold a plan\n")
    print_table(["session", *COLUMNS], map(cells_of_plan, planned), words=1)
    return planned


def cells_of_plan(subject: Subject) -> list[str]:
    fate = fates(subject)
    fate["left"] = fate["pending"] + fate[IN_PROGRESS]
    names = ("changes", "entries", "started", DONE, "dropped", "left", "at once")
    return [subject.material.session.name, *(f"{fate[name]}" for name in names), *count_named(subject)]


def table(subjects: Sequence[Subject], budget: int) -> None:
    """Print the ways at a budget: session by session as they are, and the difference at the same mean view."""
    pricing = Pricing.of(PRICES[0])

    def jobs(kind: type[Job], number: int, policy: Policy) -> list[Job]:
        return [kind(number, "cwl", StrategySettings(budget, policy=policy, annotate="infer"), pricing)]

    curves = curves_of(subjects, {way: partial(jobs, kind) for way, kind in WAYS.items()})
    print(f"\n### τ = {budget:,}, {PRICES[0]}, {count_sessions(subjects)}\n")
    figures = ["dollars", "mean view", "reference recall", "edit grounding", "over budget"]
    print(table_head(["session", "episodes", *figures], words=2))
    for number, subject in enumerate(subjects):
        for way, of_way in curves.items():
            own = of_way[number][0.5]
            cells = [subject.material.session.name, way, f"{own.dollars:.3f}", f"{own.view / 1000:.1f}k"]
            print(table_row([*cells, f"{own.recall:.3f}", f"{own.grounding:.3f}", f"{own.over:.0f}"]))
    inferred, bounded, tasks = curves.values()
    differing = replays = 0
    largest = 0.0
    for own, other in zip(tasks, bounded, strict=True):
        for low in policies():
            replays += 1
            differing += own[low] != other[low]
            largest = max(
                largest, abs(own[low].recall - other[low].recall), abs(own[low].grounding - other[low].grounding)
            )
    print(f"\nTasks differ from bounds in {differing} of {replays} replays,", end=" ")
    print(f"in recall and grounding by {100 * largest:.1f} points at most.")
    print("\nBounded less inferred, mean over sessions with its 95 % interval:")
    difference("as they are", [curve[0.5] for curve in bounded], [curve[0.5] for curve in inferred])
    same = [at_views(own, other) for own, other in zip(bounded, inferred, strict=True)]
    difference("at the same mean view", same, [at_views(own, own) for own in inferred])
    missed = max(gap(own, other) for own, other in zip(bounded, inferred, strict=True))
    print(f"- sessions miss that view by {missed:,.0f} tokens at most", flush=True)


def difference(condition: str, bounded: Sequence[Figures], inferred: Sequence[Figures]) -> None:
    recall = points(interval(bounded, inferred, attrgetter("recall")))
    grounding = points(interval(bounded, inferred, attrgetter("grounding")))
    ratio = geometric_mean([one.dollars / other.dollars for one, other in zip(bounded, inferred, strict=True)])
    print(f"- {condition}: recall {recall}, grounding {grounding} points; cost {ratio:.3f} of inferred", flush=True)


def main() -> None:
    folder = parser_of_folder(__doc__).parse_args().sessions
    recorded = recorded_sessions(folder / agent for agent in AGENTS)
    planned = table_of_plans([Subject.of(count(session)) for session in recorded])
    for budget in BUDGETS:
        table(planned, budget)


if __name__ == "__main__":
    main()
