"""What a pass that leaves room costs and keeps (R22), at four budgets, beside compaction and the paper's policy.

    python research/benchmarks/room.py SESSION… [--half first|second] [--price NAME]

Every second session, by name, is in the first half, on which the values were chosen. Sessions of fewer than 60 model
calls or of fewer than 90,000 tokens are left out. Deterministic.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, geometric_mean

from frame import parser_of_sessions, print_table, recorded_sessions
from wane import Policy
from wane.lab.counting import count
from wane.lab.figures import Totals
from wane.lab.replaying.engine import Job
from wane.lab.replaying.replay import Pricing, Subject
from wane.strategies.base import Settings

BUDGETS = (30_000, 50_000, 80_000, 120_000)
OURS = "`Policy()`"
STRICT = "`Policy(min_room=0)`"
POLICIES = {
    OURS: Policy(),
    STRICT: Policy(min_room=0.0),
    "`Policy(min_room=0.3)`": Policy(min_room=0.3),
    "`Policy(min_room=0.5)`": Policy(min_room=0.5),
    "`Policy(low_water=0.3)`": Policy(low_water=0.3),
    "`Policy(low_water=0.5)`": Policy(low_water=0.5),
    "`Policy(guard=0.2)`": Policy(guard=0.2),
    "`Policy(guard=0.6)`": Policy(guard=0.6),
}
COLUMNS = (
    "budget",
    "",
    "cost / none",
    "with fetching, / compact",
    "recall",
    "grounding",
    "mean view",
    "dearest / none",
)


def main() -> None:
    command = parser_of_sessions(__doc__)
    command.add_argument("--half", choices=("first", "second"), default="second", help="which sessions")
    command.add_argument("--price", default="anthropic:claude-opus-4-6", help="the model whose prices count")
    arguments = command.parse_args()
    subjects: list[Subject] = []
    for session in sorted(recorded_sessions(arguments.sessions), key=lambda session: session.name):
        material = count(session)
        if len(session.calls) >= 60 and material.overhead + sum(item.tokens for item in material.items) >= 90_000:
            subjects.append(Subject.of(material))
    chosen = subjects[0::2] if arguments.half == "first" else subjects[1::2]
    pricing = Pricing.of(arguments.price)

    def replayed(strategy: str, budget: int, policy: Policy) -> list[Totals]:
        settings = Settings(budget, policy=policy, annotate="infer")
        totals: list[Totals] = []
        for subject in chosen:
            window = subject.material.session.window or pricing.prices.window
            totals.append(Job(0, strategy, replace(settings, window=window), pricing).run(subject).totals)
        return totals

    none = replayed("none", BUDGETS[-1], Policy())
    print(f"{len(chosen)} sessions, {sum(run.calls for run in none):,} calls, {arguments.price}\n")

    def rows() -> list[list[str]]:
        table: list[list[str]] = []
        for budget in BUDGETS:
            runs = {name: replayed("cwl", budget, policy) for name, policy in POLICIES.items()}
            runs |= {name: replayed(name, budget, Policy()) for name in ("paper", "compact")}
            compact = [run.full_cost for run in runs["compact"]]
            for name, totals in runs.items():
                ratios = [run.dollars / base.dollars for run, base in zip(totals, none, strict=True)]
                beside = [run.full_cost / other for run, other in zip(totals, compact, strict=True)]
                table.append(
                    [
                        f"{budget // 1000}k",
                        name,
                        f"{geometric_mean(ratios):.3f}",
                        f"{geometric_mean(beside):.3f}",
                        f"{fmean(run.loss.reference_recall for run in totals):.3f}",
                        f"{fmean(run.loss.edit_grounding for run in totals):.3f}",
                        f"{fmean(run.mean_view for run in totals) / 1000:.1f}k",
                        f"{max(ratios):.2f}",
                    ]
                )
        return table

    print_table(COLUMNS, rows(), words=2)


if __name__ == "__main__":
    main()
