"""The default policy, chosen on half of the recorded sessions and judged on the other half.

    python research/benchmarks/policy.py ../shared/sessions fit       # the grid that it was chosen from
    python research/benchmarks/policy.py ../shared/sessions summary   # docs/decisions/default-policy.md
    python research/benchmarks/policy.py ../shared/sessions report    # the same, and each case against all others

Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from statistics import geometric_mean

from clairvoyant import Bound, BoundJob
from frame import parser_of_folder, print_table, recorded_sessions, table_head, table_row
from wane import Policy
from wane.lab.counting import count
from wane.lab.readers import join
from wane.lab.replaying.jobs import Job, Processes
from wane.lab.replaying.over import REASONS
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.strategy_replay import Pricing, Subject
from wane.strategies.strategy import StrategySettings

BUDGETS = (50_000, 80_000, 120_000)
PRICES = ("anthropic:claude-sonnet-4-5", "openai:gpt-5.2")
LOW_WATERS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
GUARDS = (0.1, 0.2, 0.3, 0.5, 0.7)
RIVALS = ("truncate", "compact", "clear-tools")
UNINDEXED = Policy(
    index_share=0
)  # an order is judged by what it keeps, so nothing here leaves an index (`core/index.py`)

HARNESS = "ohmyposh"
"""Sessions with this name hold much text that the harness put into the user's role, so they are a set of their own."""


@dataclass(frozen=True)
class Contender:
    """A strategy with its settings."""

    name: str
    strategy: str
    policy: Policy = UNINDEXED
    low_water: float | None = None
    bound: Bound | None = None

    def job(self, subject: int, budget: int, pricing: Pricing) -> Job:
        settings = StrategySettings(budget, policy=self.policy, low_water=self.low_water, annotate="infer")
        if self.bound is not None:
            return BoundJob(subject, self.strategy, settings, pricing, label=self.name, bound=self.bound)
        return Job(subject, self.strategy, settings, pricing, label=self.name)


OURS = Contender("**`Policy()`**", "cwl")
BOUNDS = (
    Contender("at its passes: the oldest call first", "cwl", bound=Bound("call", "oldest")),
    Contender("clairvoyant: the episode needed latest first", "cwl", bound=Bound("episode", "latest")),
    Contender("clairvoyant: the call needed latest first", "cwl", bound=Bound("call", "latest")),
    Contender("clairvoyant: the call with the fewest needs a token first", "cwl", bound=Bound("call", "fewest")),
)
RIVALS_BY_LOW_WATER = tuple(Contender(f"{name} {low}", name, low_water=low) for name in RIVALS for low in LOW_WATERS)
LISTED = (
    OURS,
    *BOUNDS,
    *(Contender(f"`Policy(guard={guard})`", "cwl", replace(UNINDEXED, guard=guard)) for guard in GUARDS),
    *(Contender(name, name) for name in ("paper", "truncate", "compact", "clear-tools", "none")),
)


@dataclass(frozen=True)
class Row:
    """The figures of a contender. Each session has the same weight."""

    name: str
    cost: float  # relative to `paper`, geometric mean
    of_none: float  # relative to never evicting, geometric mean
    refetched: float  # like `cost`, with the price of fetching evicted content again in both
    view: float  # mean tokens of a request
    recall: float  # reference recall
    recall_at_best: float  # the same if each summary were the best of its length
    grounding: float  # edit grounding
    users: float  # share of the user's turns that were never missing
    breaks: float  # prefix breaks per 100 calls
    over: float  # share of all requests that were over the budget
    why: Counter[str]  # these requests, by what filled them

    def line(self) -> str:
        recall = f"{self.recall:.3f}"
        if self.recall_at_best - self.recall >= 0.0005:
            recall += f" to {self.recall_at_best:.3f}"
        cells = [self.name, f"{self.cost:.3f}", f"{self.of_none:.3f}", f"{self.refetched:.3f}"]
        cells += [f"{self.view / 1000:.1f}k", recall, f"{self.grounding:.3f}"]
        cells += [f"{self.users:.2f}", f"{self.breaks:.1f}", f"{self.over:.1%}"]
        return table_row(cells)


COLUMNS = (
    *("", "cost / paper", "cost / none", "with re-reading", "mean view", "reference recall", "edit grounding"),
    *("user turns intact", "breaks per 100", "over budget"),
)
HEAD = table_head(COLUMNS, words=1)
BETWEEN = ("cost", "of_none", "refetched", "view", "recall", "recall_at_best", "grounding", "users", "breaks")


def sets(folder: Path) -> dict[str, list[Subject]]:
    """Return the sessions by set.

    Every second one is in the first half. The Terminal-Bench runs are joined into one session for each half. Sessions
    with much text of the harness are in neither.
    """
    runs = recorded_sessions([folder / "terminal-bench-2"])
    sessions = [join(runs[0::2], "terminal-bench even"), join(runs[1::2], "terminal-bench odd")]
    sessions += recorded_sessions(folder / agent for agent in ("claude-code", "codex", "pi"))
    halved: list[Subject] = []
    apart: list[Subject] = []
    for session in sessions:
        chosen = apart if session.name.startswith(HARNESS) else halved
        chosen.append(Subject.of(count(session)))
    return {"first half": halved[0::2], "second half": halved[1::2], "much harness text": apart}


def fitting(subjects: Sequence[Subject], budget: int) -> list[Subject]:
    """Return the sessions whose fixed overhead leaves at least half of the budget."""
    return [subject for subject in subjects if subject.material.overhead <= budget / 2]


def count_sessions(subjects: Sequence[Subject]) -> str:
    calls = sum(len(subject.material.session.calls) for subject in subjects)
    return f"{len(subjects)} {'session' if len(subjects) == 1 else 'sessions'}, {calls:,} calls"


def measure(
    subjects: Sequence[Subject], contenders: Sequence[Contender], budget: int, price: str
) -> dict[str, list[Totals]]:
    """Return totals by contender, session by session."""
    pricing, numbers = Pricing.of(price), range(len(subjects))
    jobs = [contender.job(number, budget, pricing) for contender in contenders for number in numbers]
    done = {(job.label, job.subject): result.totals for job, result in Processes().run(subjects, jobs)}
    totals: dict[str, list[Totals]] = {}
    for contender in contenders:
        totals[contender.name] = [done[contender.name, number] for number in numbers]
    return totals


def rows(measured: dict[str, list[Totals]]) -> dict[str, Row]:
    """Return the means over sessions by contender; `paper` and `none` must be among them."""
    paper, none = measured["paper"], measured["none"]
    return {name: _row(name, totals, paper, none) for name, totals in measured.items()}


def _row(name: str, totals: Sequence[Totals], paper: Sequence[Totals], none: Sequence[Totals]) -> Row:
    def ratio(base: Sequence[Totals], figure: Callable[[Totals], float]) -> float:
        return geometric_mean([figure(one) / figure(other) for one, other in zip(totals, base, strict=True)])

    def mean(figure: Callable[[Totals], float]) -> float:
        return sum(map(figure, totals)) / len(totals)

    why = sum((run.over for run in totals), Counter[str]())
    return Row(
        name,
        cost=ratio(paper, lambda run: run.dollars),
        of_none=ratio(none, lambda run: run.dollars),
        refetched=ratio(paper, lambda run: run.dollars + run.reread_cost),
        view=mean(lambda run: run.mean_view),
        recall=mean(lambda run: run.loss.reference_recall),
        recall_at_best=mean(lambda run: run.loss.reference_recall_at_best),
        grounding=mean(lambda run: run.loss.edit_grounding),
        users=mean(lambda run: run.loss.user_turns_intact),
        breaks=mean(lambda run: 100 * run.prefix_breaks / run.calls),
        over=why.total() / sum(run.calls for run in totals),
        why=why,
    )


def rivals_at_view(rivals: Sequence[str], by_name: dict[str, Row], view: float) -> list[Row]:
    """Return the rivals that have low waters on both sides of a mean view, at that view."""
    at_view = [rival_at_view(rival, by_name, view) for rival in rivals]
    return [row for row in at_view if row is not None]


def rival_at_view(rival: str, by_name: dict[str, Row], view: float) -> Row | None:
    """Return a rival at a mean view, interpolated between the low waters on either side."""
    curve = sorted((row for name, row in by_name.items() if name.startswith(f"{rival} ")), key=lambda row: row.view)
    for low, high in pairwise(curve):
        if low.view <= view <= high.view:
            share = (view - low.view) / (high.view - low.view) if high.view > low.view else 0.0
            between: dict[str, float] = {}
            for name in BETWEEN:
                least = getattr(low, name)
                between[name] = least + share * (getattr(high, name) - least)
            return replace(low, name=f"{rival}, at the view of `Policy()`", **between, over=max(low.over, high.over))
    return None


@dataclass(frozen=True)
class Case:
    """A set of sessions at a budget and a price."""

    name: str  # the set's name
    subjects: Sequence[Subject]
    budget: int
    price: str
    rows: dict[str, Row]  # the means of each contender
    floor: tuple[float, float]  # least cost that keeps the user's turns, relative to `paper` and to never evicting


def cases(name: str, subjects: Sequence[Subject], contenders: Sequence[Contender]) -> Iterator[Case]:
    """Yield the set at each budget and price at which a session fits."""
    for price, budget in product(PRICES, BUDGETS):
        chosen = fitting(subjects, budget)
        if chosen:
            measured = measure(chosen, contenders, budget, price)
            floor = _floor(measured["paper"]), _floor(measured["none"])
            yield Case(name, chosen, budget, price, rows(measured), floor)


def _floor(runs: Sequence[Totals]) -> float:
    return geometric_mean([run.floor / run.dollars for run in runs])


SUMMARISED = (
    *(OURS, *BOUNDS, Contender("paper", "paper"), Contender("none", "none")),
    *(Contender(f"compact {low}", "compact", low_water=low) for low in LOW_WATERS),
)
"""What the summary needs."""

SUMMARY = (
    *("", "cost / none", "`compact`", "mean view", "recall", "`compact`", "clairvoyant", "grounding", "`compact`"),
    *("clairvoyant", "over budget"),
)


def summary(case: Case) -> list[str]:
    """Return a line with the default, `compact` at its mean view, and the clairvoyant orders."""
    ours = case.rows[OURS.name]
    same = rival_at_view("compact", case.rows, ours.view)
    best = [case.rows[bound.name] for bound in BOUNDS if bound.name.startswith("clairvoyant")]
    return [
        f"{case.name}, {case.budget // 1000}k, {case.price.split(':')[0]}",
        f"{ours.of_none:.3f}",
        f"{same.of_none:.3f}" if same else "",
        f"{ours.view / 1000:.1f}k",
        f"{ours.recall:.3f}",
        f"{same.recall:.3f} to {same.recall_at_best:.3f}" if same else "",
        f"{max(row.recall for row in best):.3f}",
        f"{ours.grounding:.3f}",
        f"{same.grounding:.3f}" if same else "",
        f"{max(row.grounding for row in best):.3f}",
        f"{ours.over:.1%}",
    ]


def report(case: Case) -> None:
    ours = case.rows[OURS.name]
    print(f"\n### {case.name}: τ = {case.budget:,}, {case.price}, {count_sessions(case.subjects)}\n\n{HEAD}")
    for contender in LISTED:
        print(case.rows[contender.name].line())
    paper, none = case.floor
    unknown = " |" * (len(COLUMNS) - 3)
    print(f"| (no strategy that keeps the user's turns can cost less) | {paper:.3f} | {none:.3f} |{unknown}")
    for row in rivals_at_view(RIVALS, case.rows, ours.view):
        print(row.line())
    reasons = ", ".join(f"{reason} {ours.why[reason]:,}" for reason in REASONS if ours.why[reason])
    if ours.over:
        print(f"\n`Policy()` is over the budget at {ours.why.total():,} calls, filled by: {reasons}.")
    else:
        print("\n`Policy()` is never over the budget.")


def grid() -> list[Contender]:
    """Return the settings from which the default was chosen."""
    around = list(product((0.35, 0.4, 0.45, 0.5, 0.55, 0.6), (0.3, 0.35, 0.4, 0.45, 0.5, 0.6)))
    few = list(product((0.4, 0.5), (0.3, 0.4, 0.5)))
    settings = [("", UNINDEXED, low, guard) for low, guard in around]
    settings += [(", no guard", UNINDEXED, low, 0.0) for low in (0.4, 0.5, 0.7)]
    settings += [(", order paper", replace(UNINDEXED, order="paper"), low, guard) for low, guard in few]
    settings += [(", not when cold", replace(UNINDEXED, evict_when_cold=False), low, guard) for low, guard in few]
    contenders: list[Contender] = []
    for name, base, low, guard in settings:
        policy = replace(base, low_water=low, guard=guard)
        contenders.append(Contender(f"low water {low}, guard {guard}{name}", "cwl", policy))
    return contenders


def fit(subjects: Sequence[Subject]) -> None:
    """Print the grid, and the settings that cost no more than the default, keep no less, and differ."""
    base, tried = [Contender(name, name) for name in ("paper", "none")], grid()
    for budget in BUDGETS:
        chosen = fitting(subjects, budget)
        by_name = rows(measure(chosen, [OURS, *base, *BOUNDS, *tried, *RIVALS_BY_LOW_WATER], budget, PRICES[0]))
        print(f"\n### τ = {budget:,}, {PRICES[0]}, {count_sessions(chosen)}\n\n{HEAD}")
        for row in sorted(by_name.values(), key=lambda row: row.cost):
            print(row.line())
        better = [setting.name for setting in tried if dominates(by_name[setting.name], by_name[OURS.name])]
        print(f"\nBetter than `Policy()` in one and worse in none: {'; '.join(better) or 'nothing'}.")


def dominates(row: Row, other: Row) -> bool:
    mine = (-row.cost, row.recall, row.grounding)
    theirs = (-other.cost, other.recall, other.grounding)
    return mine != theirs and all(one >= two for one, two in zip(mine, theirs, strict=True))


def main() -> None:
    command = parser_of_folder(__doc__)
    command.add_argument(
        "what", choices=("fit", "summary", "report"), help="the grid on the first half, or a line for each case, or all"
    )
    arguments = command.parse_args()
    by_set = sets(arguments.sessions)
    if arguments.what == "fit":
        fit(by_set["first half"])
        return
    measured: list[Case] = []
    contenders = SUMMARISED if arguments.what == "summary" else [*LISTED, *RIVALS_BY_LOW_WATER]

    def summaries() -> Iterator[list[str]]:
        for name, subjects in by_set.items():
            for case in cases(name, subjects, contenders):
                measured.append(case)
                yield summary(case)

    print_table(SUMMARY, summaries(), words=1)
    for case in measured:
        if arguments.what == "report" and case.name != "first half":
            report(case)


if __name__ == "__main__":
    main()
