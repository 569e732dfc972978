"""The report as Markdown: tables and sentences, without the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from wane.strategies.registry import traits
from wane_research.evaluation.report.building import BUDGET, MODEL, PaperRow, Report
from wane_research.evaluation.report.marking import MarkingEffect
from wane_research.evaluation.report.rows import CONTEXT, TOKENS, WORK, Row, points, verdict_of
from wane_research.evaluation.results import Arm, Run, Total
from wane_research.evaluation.statistics import Interval

_NONE = "-"
_OF_SCORES = (
    "Shares in percent, errors and differences in points. The verdict takes the wider of two intervals: over tasks, "
    "paired, and over runs. Only trials that count are in a score: those ended by the provider or the environment do "
    "not."
)
_OF_TOOK = (
    "Calls, tokens, dollars, passes and requests are means of a run. ≥: trials that are missing or have no known "
    "figure are left out. Seconds are means of the trials in which the agent worked, without those lost to a provider "
    "that failed."
)
_OF_MARKING = (
    "Arms that differ only in who marks episodes, paired by task; means of a trial. An interval is the wider of two, "
    "over tasks and over runs, and all hold together at 95 %. Would find: the smallest true difference that an "
    "experiment like this finds in four of five cases. Repeated reads: exploring calls that repeat an earlier one of "
    "the task, with nothing changed in between. Only a model leaves episodes without end: inference and a host end "
    "theirs."
)
_OF_PAPER = (
    f"{MODEL}, {BUDGET:,} tokens; no variance was published. Chance: how far apart two equal arms of that size land in "
    "95 of 100 cases, by the spread of the trials here."
)


def to_markdown(report: Report) -> str:
    blocks = [
        "# Evaluation",
        "## Scores",
        _table(_ARM + _SCORE, ([*_arm(row), *_score(row)] for row in report.rows)),
        _OF_SCORES,
        *_steps(report.rows),
        "## What it took",
        _table(_ARM + _TOOK, ([*_arm(row), *_took(row)] for row in report.rows)),
        _OF_TOOK,
    ]
    if marked := [row for row in report.rows if row.annotations and traits(row.arm.strategy).marked]:
        blocks += [
            "## How the agent marked its work",
            _table(_ARM + _MARKED, ([*_arm(row), *_mark_cells(row)] for row in marked)),
        ]
    if report.marking:
        blocks += ["## What marking does", _table(_MARKING, map(_marking, report.marking)), _OF_MARKING]
    blocks += [
        "## The paper's rows",
        _table(_PAPER, map(_paper, report.paper)),
        _OF_PAPER,
        "## What this cannot show",
        _list(f"**{limits.of}**: {limits.text}" for limits in report.cannot),
        "## Runs",
        _list(_runs(report.runs)),
    ]
    if report.remarks:
        blocks += ["## Remarks", _list(report.remarks)]
    return "\n\n".join(blocks) + "\n"


_ARM = ("Benchmark", "Model", "Strategy", "Budget", "Protocol")
_SCORE = (
    *("Tasks x runs", "Score", "SE, tasks", "SE, runs", "95 %", "To isolated", "95 %", "Verdict", "Drift in 10 tasks"),
    *("pass@k", "pass^k", "Errors", "Not counted"),
)
_TOOK = (
    *("Calls", "Input", "Cached", "Output", "Cost", "Broken off", "Seconds a task", "Passes", "Evicted", "Peak view"),
    *("Over budget", "Read again"),
)
_MARKED = (
    *("Marks", "Refused", "Episodes", "Calls each", "Outside", "Undeclared", "Explorations repeated", "Recalls"),
    *("Held by descriptions", "Overflows"),
)
_MARKING = (
    *("Benchmark", "Model", "Strategy", "Budget", "Protocol", "Marks by", "Against", "Measure", "Tasks", "Mean"),
    *("Other mean", "Difference", "95 %, all together", "Verdict", "Would find"),
)
_PAPER = ("Benchmark", "Tasks x runs", "Single session", "Isolated", "Difference", "Chance")


def _arm(row: Row) -> list[str]:
    arm = row.arm
    return [arm.benchmark, arm.model, arm.strategy_text, _budget(arm), arm.protocol]


def _budget(arm: Arm) -> str:
    return "no budget" if arm.budget is None else f"{arm.budget:,}"


def _score(row: Row) -> Iterator[str]:
    score = row.score
    yield f"{row.tasks_text} x {score.runs:,}"
    yield f"{100 * score.value:.2f}"
    for error in (score.by_task, score.by_run):
        yield _NONE if error is None else f"{100 * error.se:.2f}"
    yield _interval(row.interval)
    if row.compared is None:
        yield from [_NONE] * 3
    else:
        apart, to = row.compared.difference, row.compared.to
        differs = replace(to, protocol=row.arm.protocol) != row.arm
        against = f" (of {to.strategy_text} at {_budget(to)})" if differs else ""
        yield f"{100 * apart.value:+.2f}{against}"
        yield _interval(apart.interval(), signed=True)
        yield verdict_of(row.compared)
    if row.drift is None or row.drift.error is None:
        yield _NONE
    else:
        yield f"{100 * row.drift.slope:+.2f} ({_interval(row.drift.error.interval(row.drift.slope), signed=True)})"
    most = max(row.passed, default=1)
    if most > 1:
        yield from [f"{100 * share:.1f} (k = {most})" for share in row.passed[most]]
    else:
        yield from [_NONE] * 2
    yield _counts(row.errors) or "none"
    yield _counts(row.uncounted) or "none"


def _steps(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the section of steps: a row for each step of a task of several steps, a column for each arm."""
    stepped = [row for row in rows if row.steps]
    if not stepped:
        return
    rewards: dict[tuple[str, str, str], dict[Arm, str]] = {}
    for row in stepped:
        for step in row.steps:
            rewards.setdefault((row.arm.benchmark, step.task, step.step), {})[row.arm] = f"{step.reward:.3g}"
    models = {row.arm.model for row in stepped}
    first = 1 if len(models) > 1 else 2
    heads = ["Benchmark", "Task", "Step", *(", ".join(_arm(row)[first:]) for row in stepped)]
    lines: list[list[str]] = []
    for names, by_arm in rewards.items():
        cells = [by_arm.get(row.arm, _NONE) for row in stepped]
        lines.append([*names, *cells])
    yield "## Steps"
    yield _table(heads, lines)
    yield "Mean rewards of the steps of a task, from 0 to 1."


def _took(row: Row) -> Iterator[str]:
    for name in TOKENS:
        yield _bound(row.per_run(row.took[name]), ",.0f")
    yield _bound(row.per_run(row.cost), ",.2f", "$")
    yield _bound(row.per_run(row.abandoned), ",.2f", "$") if row.abandoned.of else _NONE
    some = f" ({row.timed:,} of {row.score.trials:,})" if row.timed < row.score.trials else ""
    yield _NONE if row.seconds is None else f"{row.seconds:,.0f}{some}"
    for name in CONTEXT:
        if name == "peak_view":
            yield _bound(row.took[name], ",.0f")
        elif name not in WORK:
            form = ",.1f" if name in ("passes", "over_budget", "read_again") else ",.0f"
            yield _bound(row.per_run(row.took[name]), form)


def _bound(total: Total, form: str, unit: str = "") -> str:
    """Return a figure, with ≥ if it leaves trials out."""
    if total.unknown:
        return _NONE
    mark = "" if total.exact is not None else "≥"
    return f"{mark}{unit}{total.at_least:{form}}"


def _mark_cells(row: Row) -> Iterator[str]:
    figures = row.annotations
    assert figures is not None
    yield f"{figures.marks:,}"
    yield _counts(figures.refused) or "none"
    yield f"{figures.episodes:,}"
    yield _NONE if figures.calls_per_episode is None else f"{figures.calls_per_episode:.1f}"
    yield _percent(figures.outside_share)
    yield f"{figures.acts_undeclared:,} of {figures.acts_on_files:,}"
    yield f"{figures.explorations_repeated:,}"
    yield f"{figures.recalls:,}"
    yield _percent(figures.held_share)
    yield f"{figures.overflows:,} of {figures.passes:,}"


def _marking(effect: MarkingEffect) -> list[str]:
    arm, interval = effect.arm, effect.interval
    return [
        *(arm.benchmark, arm.model, arm.strategy, _budget(arm), arm.protocol),
        *(arm.annotate or "model", effect.to.annotate or "model", effect.measure, f"{effect.tasks:,}"),
        *(f"{effect.value:,.2f}", f"{effect.other:,.2f}", f"{effect.value - effect.other:+,.2f}"),
        _NONE if interval is None else f"{interval.low:+,.2f} to {interval.high:+,.2f}",
        "differs" if effect.told_apart else "not told apart",
        _NONE if effect.detectable is None else f"±{effect.detectable:,.2f}",
    ]


def _paper(row: PaperRow) -> list[str]:
    published = row.published
    return [
        published.title,
        f"{_NONE if published.tasks is None else published.tasks} x {published.runs}",
        f"{100 * published.single:.2f}",
        f"{100 * published.isolated:.2f}",
        f"{100 * (published.single - published.isolated):+.2f}",
        _NONE if row.chance is None else f"±{points(row.chance)}",
    ]


def _runs(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
        order = "the order given" if run.seed is None else f"order of seed {run.seed}"
        arm = run.arm
        yield (
            f"{arm.benchmark}, {arm.model}, {arm.strategy_text}, {arm.protocol}, run {run.run}: "
            f"{run.created:%Y-%m-%d}, {order}, margin {points(run.margin)} points{f'; {versions}' if versions else ''}"
        )
    for line in dict.fromkeys(run.new_environment for run in runs):
        yield f'Told of a new environment: "{line}"' if line else "Not told of a new environment."


def _interval(interval: Interval | None, *, signed: bool = False) -> str:
    if interval is None:
        return _NONE
    form = "+.1f" if signed else ".1f"
    return f"{100 * interval.low:{form}} to {100 * interval.high:{form}}"


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items(), key=lambda pair: -pair[1]))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines: list[str] = []
    for row in (heads, ["---"] * len(heads), *rows):
        cells = [" ".join(text.replace("|", "\\|").split()) for text in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines) or "Nothing."
