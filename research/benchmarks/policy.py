"""The default policy, chosen on half of the recorded sessions and judged on the other half.

    python research/benchmarks/policy.py ../shared/sessions fit       # the grid that it was chosen from
    python research/benchmarks/policy.py ../shared/sessions report    # docs/decisions/default-policy.md, in short first

Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from statistics import geometric_mean

from clairvoyant import Bound, BoundJob
from frame import parser_of_folder, recorded_sessions, table_head, table_row
from wane import Policy
from wane.lab.counting import count
from wane.lab.figures import Totals
from wane.lab.readers import join
from wane.lab.replaying.engine import Job, Processes
from wane.lab.replaying.over import REASONS
from wane.lab.replaying.replay import Pricing, Subject
from wane.strategies.base import Settings

BUDGETS = (50_000, 80_000, 120_000)
PRICES = ("anthropic:claude-sonnet-4-5", "openai:gpt-5.2")
LOW_WATERS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
GUARDS = (0.1, 0.2, 0.3, 0.5, 0.7)
RIVALS = ("truncate", "compact", "clear-tools")
UNINDEXED = Policy(index_share=0)  # an order is judged by what it keeps, so nothing here leaves an index (index.py)

HARNESS = "ohmyposh"
"""Sessions of this name hold much text that the harness put into the user's role: a set of their own."""


@dataclass(frozen=True)
class Contender:
    """A strategy with its settings."""

    name: str
    strategy: str
    policy: Policy = UNINDEXED
    low_water: float | None = None
    bound: Bound | None = None

    def job(self, subject: int, budget: int, pricing: Pricing) -> Job:
        settings = Settings(budget, policy=self.policy, low_water=self.low_water, annotate="infer")
        if self.bound is not None:
            return BoundJob(subject, self.strategy, settings, pricing, label=self.name, bound=self.bound)
        return Job(subject, self.strategy, settings, pricing, label=self.name)


OURS = Contender("**`Policy()`**", "cwl")
BOUNDS = tuple(
    Contender(name, "cwl", bound=bound)
    for name, bound in {
        "at its passes: the oldest call first": Bound("call", "oldest"),
        "clairvoyant: the episode needed latest first": Bound("episode", "latest"),
        "clairvoyant: the call needed latest first": Bound("call", "latest"),
        "clairvoyant: the call with the fewest needs a token first": Bound("call", "fewest"),
    }.items()
)


@dataclass(frozen=True)
class Row:
    """What a contender came to, each session counting the same."""

    name: str
    cost: float  # against `paper`, geometric mean
    of_none: float  # against never evicting, likewise
    refetched: float  # the same, with the price of fetching again what was needed and gone in both
    view: float  # mean tokens of a request
    recall: float  # reference recall
    recall_at_best: float  # the same, were summaries to hold the best that fits into them
    grounding: float  # edit grounding
    users: float  # share of the user's turns that were never missing
    breaks: float  # prefix breaks per 100 calls
    over: float  # share of the requests that were over the budget, out of all of them
    why: Counter[str]  # these requests, by what filled them

    def line(self) -> str:
        recall = f"{self.recall:.3f}"
        if self.recall_at_best - self.recall >= 0.0005:
            recall += f" to {self.recall_at_best:.3f}"
        cells = [
            self.name,
            f"{self.cost:.3f}",
            f"{self.of_none:.3f}",
            f"{self.refetched:.3f}",
            f"{self.view / 1000:.1f}k",
            recall,
            f"{self.grounding:.3f}",
            f"{self.users:.2f}",
            f"{self.breaks:.1f}",
            f"{self.over:.1%}",
        ]
        return table_row(cells)


COLUMNS = (
    "",
    "cost / paper",
    "cost / none",
    "with re-reading",
    "mean view",
    "reference recall",
    "edit grounding",
    "user turns intact",
    "breaks per 100",
    "over budget",
)
HEAD = table_head(COLUMNS, words=1)


def sets(folder: Path) -> dict[str, list[Subject]]:
    """The sessions by what they are for.

    Every second one is in the first half; the Terminal-Bench runs make one session a half. Sessions with much text of
    the harness are in neither.
    """
    runs = recorded_sessions([folder / "terminal-bench-2"])
    sessions = [join(runs[0::2], "terminal-bench even"), join(runs[1::2], "terminal-bench odd")]
    sessions += recorded_sessions(folder / agent for agent in ("claude-code", "codex", "pi"))
    halved = [Subject.of(count(it)) for it in sessions if not it.name.startswith(HARNESS)]
    apart = [Subject.of(count(it)) for it in sessions if it.name.startswith(HARNESS)]
    return {"first half": halved[0::2], "second half": halved[1::2], "much harness text": apart}


def measure(
    subjects: Sequence[Subject], contenders: Sequence[Contender], budget: int, price: str
) -> dict[str, list[Totals]]:
    """Totals by contender, session by session."""
    pricing = Pricing.of(price)
    jobs = [contender.job(number, budget, pricing) for contender in contenders for number in range(len(subjects))]
    done = {(job.label, job.subject): result.totals for job, result in Processes().run(subjects, jobs)}
    return {it.name: [done[it.name, number] for number in range(len(subjects))] for it in contenders}


def rows(measured: dict[str, list[Totals]]) -> dict[str, Row]:
    """The means over sessions, by contender; `paper` and `none` must be among them."""
    return {name: row(name, totals, measured["paper"], measured["none"]) for name, totals in measured.items()}


def row(name: str, totals: Sequence[Totals], paper: Sequence[Totals], none: Sequence[Totals]) -> Row:
    why = sum((it.over for it in totals), Counter[str]())
    return Row(
        name,
        ratio(totals, paper, lambda it: it.dollars),
        ratio(totals, none, lambda it: it.dollars),
        ratio(totals, paper, lambda it: it.dollars + it.reread_cost),
        mean(it.mean_view for it in totals),
        mean(it.loss.reference_recall for it in totals),
        mean(it.loss.reference_recall_at_best for it in totals),
        mean(it.loss.edit_grounding for it in totals),
        mean(it.loss.user_turns_intact for it in totals),
        mean(100 * it.prefix_breaks / it.calls for it in totals),
        why.total() / sum(it.calls for it in totals),
        why,
    )


def ratio(totals: Sequence[Totals], base: Sequence[Totals], figure: Callable[[Totals], float]) -> float:
    return geometric_mean([figure(one) / figure(other) for one, other in zip(totals, base, strict=True)])


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


BETWEEN = ("cost", "of_none", "refetched", "view", "recall", "recall_at_best", "grounding", "users", "breaks")


def at_view(name: str, rows: Iterable[Row], view: float) -> Row | None:
    """What a strategy comes to at a mean view, between those of its low waters that lie on either side."""
    ordered = sorted(rows, key=lambda it: it.view)
    for one, other in pairwise(ordered):
        if one.view <= view <= other.view:
            share = (view - one.view) / (other.view - one.view) if other.view > one.view else 0.0
            pairs = {it: (getattr(one, it), getattr(other, it)) for it in BETWEEN}
            between = {it: low + share * (high - low) for it, (low, high) in pairs.items()}
            return replace(one, name=name, **between, over=max(one.over, other.over))
    return None


def fitting(subjects: Sequence[Subject], budget: int) -> list[Subject]:
    """The sessions whose fixed overhead leaves half of the budget at least."""
    return [subject for subject in subjects if subject.material.overhead <= budget / 2]


@dataclass(frozen=True)
class Case:
    """A set of sessions at a budget and a price."""

    name: str  # the set's name
    subjects: Sequence[Subject]
    budget: int
    price: str
    found: dict[str, Row]  # the means of each contender
    floor: tuple[float, float]  # the least cost that keeps the user's turns, against `paper` and against never evicting


LISTED = (
    OURS,
    *BOUNDS,
    *(Contender(f"`Policy(guard={it})`", "cwl", replace(UNINDEXED, guard=it)) for it in GUARDS),
    *(Contender(it, it) for it in ("paper", "truncate", "compact", "clear-tools", "none")),
)


def cases(name: str, subjects: Sequence[Subject]) -> Iterable[Case]:
    """The set at each budget and price, where there is a session that fits."""
    for price, budget in product(PRICES, BUDGETS):
        chosen = fitting(subjects, budget)
        if chosen:
            measured = measure(chosen, [*LISTED, *rivals()], budget, price)
            paper, none = (
                geometric_mean([it.floor / it.dollars for it in measured[base]]) for base in ("paper", "none")
            )
            yield Case(name, chosen, budget, price, rows(measured), (paper, none))


def report(case: Case) -> None:
    """The default against the others."""
    found = case.found
    print(f"\n### {case.name}: τ = {case.budget:,}, {case.price}, {counted(case.subjects)}\n\n{HEAD}")
    for contender in LISTED:
        print(found[contender.name].line())
    unknown = " |" * (len(COLUMNS) - 3)
    paper, none = case.floor
    print(f"| (no strategy that keeps the user's turns can cost less) | {paper:.3f} | {none:.3f} |{unknown}")
    for rival in RIVALS:
        same = rival_at_view(rival, found, found[OURS.name].view)
        if same:
            print(same.line())
    print(f"\n{reasons(found[OURS.name])}")


def rival_at_view(rival: str, found: dict[str, Row], view: float) -> Row | None:
    """A rival at the mean view of the default, by its low waters; as it is usually set, it keeps another share."""
    curve = [it for name, it in found.items() if name.startswith(f"{rival} ")]
    return at_view(f"{rival}, at the view of `Policy()`", curve, view)


def rivals() -> list[Contender]:
    """The rivals at each low water."""
    return [Contender(f"{it} {low}", it, low_water=low) for it in RIVALS for low in LOW_WATERS]


def counted(subjects: Sequence[Subject]) -> str:
    """How many sessions, and their calls."""
    calls = sum(len(it.material.session.calls) for it in subjects)
    return f"{len(subjects)} {'session' if len(subjects) == 1 else 'sessions'}, {calls:,} calls"


def reasons(it: Row) -> str:
    """Why requests were over the budget."""
    if not it.over:
        return "`Policy()` is never over the budget."
    told = ", ".join(f"{reason} {it.why[reason]:,}" for reason in REASONS if it.why[reason])
    return f"`Policy()` is over the budget at {it.why.total():,} calls, filled by: {told}."


SUMMARY = (
    "",
    "cost / none",
    "`compact`",
    "mean view",
    "recall",
    "`compact`",
    "clairvoyant",
    "grounding",
    "`compact`",
    "clairvoyant",
    "over budget",
)


def summary(case: Case) -> None:
    """The default in a line, beside `compact` at its mean view and the clairvoyant orders."""
    found = case.found
    ours = found[OURS.name]
    same = rival_at_view("compact", found, ours.view)
    best = [found[it.name] for it in BOUNDS if it.name.startswith("clairvoyant")]
    cells = [
        f"{case.name}, {case.budget // 1000}k, {case.price.split(':')[0]}",
        f"{ours.of_none:.3f}",
        f"{same.of_none:.3f}" if same else "",
        f"{ours.view / 1000:.1f}k",
        f"{ours.recall:.3f}",
        f"{same.recall:.3f} to {same.recall_at_best:.3f}" if same else "",
        f"{max(it.recall for it in best):.3f}",
        f"{ours.grounding:.3f}",
        f"{same.grounding:.3f}" if same else "",
        f"{max(it.grounding for it in best):.3f}",
        f"{ours.over:.1%}",
    ]
    print(table_row(cells), flush=True)


def grid() -> list[Contender]:
    """The settings that the default was chosen from."""
    around, wide = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6), (0.3, 0.35, 0.4, 0.45, 0.5, 0.6)
    few, some = (0.4, 0.5), (0.3, 0.4, 0.5)
    settings = {
        "": [Policy(low_water=low, guard=guard) for low, guard in product(around, wide)],
        ", no guard": [Policy(low_water=low, guard=0.0) for low in (*few, 0.7)],
        ", order paper": [Policy("paper", low_water=low, guard=guard) for low, guard in product(few, some)],
        ", not when cold": [
            Policy(evict_when_cold=False, low_water=low, guard=guard) for low, guard in product(few, some)
        ],
    }
    return [
        Contender(f"low water {policy.low_water}, guard {policy.guard}{name}", "cwl", replace(policy, index_share=0))
        for name, policies in settings.items()
        for policy in policies
    ]


def fit(subjects: Sequence[Subject]) -> None:
    """The grid that the default was chosen from, and what of it is better than the default in one and worse in none."""
    base = [Contender(it, it) for it in ("paper", "none")]
    tried = grid()
    for price, budget in product(PRICES[:1], BUDGETS):
        chosen = fitting(subjects, budget)
        found = rows(measure(chosen, [OURS, *base, *BOUNDS, *tried, *rivals()], budget, price))
        print(f"\n### τ = {budget:,}, {price}, {counted(chosen)}\n\n{HEAD}")
        for entry in sorted(found.values(), key=lambda it: it.cost):
            print(entry.line())
        better = [it.name for it in tried if dominates(found[it.name], found[OURS.name])]
        print(f"\nBetter than `Policy()` in one and worse in none: {'; '.join(better) or 'nothing'}.")


def dominates(it: Row, other: Row) -> bool:
    """Whether it costs no more, recalls no less and grounds no fewer edits, and is not the same in all of it."""
    mine = (-it.cost, it.recall, it.grounding)
    theirs = (-other.cost, other.recall, other.grounding)
    return mine != theirs and all(one >= two for one, two in zip(mine, theirs, strict=True))


def main() -> None:
    command = parser_of_folder(__doc__)
    command.add_argument("what", choices=("fit", "report"), help="the grid on the first half, or the figures on all")
    arguments = command.parse_args()
    found = sets(arguments.sessions)
    if arguments.what == "fit":
        fit(found["first half"])
        return
    print(table_head(SUMMARY, words=1))
    made: list[Case] = []
    for name, subjects in found.items():
        for case in cases(name, subjects):
            summary(case)
            made.append(case)
    for case in made:
        if case.name != "first half":
            report(case)


if __name__ == "__main__":
    main()
