"""The words of a report: verdicts, and the limits of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wane_research.evaluation.report.rows import Compared, Row
from wane_research.evaluation.statistics import Verdict, detectable

VERDICTS: dict[Verdict, str] = {
    "equivalent": "equal within the margin",
    "better": "better",
    "worse": "worse",
    "not worse": "not worse by more than the margin",
    "undecided": "undecided",
}
"""The verdicts in a few words."""


def verdict_of(compared: Compared) -> str:
    """Return the verdict of a comparison in words."""
    own, isolated = compared.uncounted
    if compared.verdict is None:
        return f"none: {100 * own:.1f} % not counted, and {100 * isolated:.1f} % in isolation"
    return f"{VERDICTS[compared.verdict]} (±{points(compared.difference.margin)})"


def points(share: float) -> str:
    """Return a difference of scores in points, to a tenth."""
    return f"{100 * share:.1f}"


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit of the data about some arms.

    Attributes:
        of: the arms, in words.
        text: a few sentences.
    """

    of: str
    text: str


def cannot_show(rows: Sequence[Row]) -> Iterator[Limits]:
    """Yield the limits of the data: first those of all arms of a protocol, then those of single arms."""
    by_arm = {
        row.arm: [*_of_score(row), *(_of_difference(row, row.compared) if row.compared else ()), *_of_drift(row)]
        for row in rows
    }
    for protocol in ("isolated", "single"):
        alike = {arm: sentences for arm, sentences in by_arm.items() if arm.protocol == protocol}
        if len(alike) > 1:
            first = next(iter(alike.values()))
            common = [text for text in first if all(text in sentences for sentences in alike.values())]
            for sentences in alike.values():
                sentences[:] = [text for text in sentences if text not in common]
            if common:
                yield Limits(f"All arms, {protocol}", " ".join(common))
    for arm, sentences in by_arm.items():
        budget = "no budget" if arm.budget is None else f"{arm.budget:,} tokens"
        if sentences:
            yield Limits(
                f"{arm.benchmark}, {arm.model}, {arm.strategy_text} at {budget}, {arm.protocol}", " ".join(sentences)
            )


def _of_score(row: Row) -> Iterator[str]:
    score = row.score
    if score.tasks < (row.benchmark_tasks or 0):
        yield f"The score is of {row.tasks_text} tasks of the benchmark, and not of the whole benchmark."
    if score.by_run is None:
        yield "With one run, it is not known how far runs lie apart."
    elif (again := score.by_run.interval(score.value)).width:
        yield f"For these tasks, run again, the score is known to ±{points(again.width / 2)} points."
    if score.by_task is None:
        yield "With one task, nothing is known of others."
    elif row.interval is not None:
        yield f"For other tasks of this kind, the score is known to ±{points(row.interval.width / 2)} points."


def _of_difference(row: Row, compared: Compared) -> Iterator[str]:
    apart = compared.difference
    wide = apart.interval()
    if wide is None:
        yield "The difference to isolated sessions has no error that could be told."
        return
    errors = [error for error in (apart.by_task, apart.by_run) if error is not None]
    yield (
        f"With n = {row.score.runs}, differences to isolated sessions under {points(wide.width / 2)} points cannot be "
        f"told from chance, and a true difference of {points(max(map(detectable, errors)))} points is found in four of "
        "five such experiments."
    )
    if (narrow := apart.interval(0.9)) is not None and narrow.width / 2 >= apart.margin:
        yield f"At a margin of {points(apart.margin)} points, even equal arms could not be shown equal by so few runs."
    if apart.by_run is None:
        yield "Trials of one session depend on each other, which one run cannot show: the error is rather too small."


def _of_drift(row: Row) -> Iterator[str]:
    if row.arm.protocol != "single" or row.score.tasks < 2:
        return
    if row.drift is None:
        same = "One run has one order" if row.score.runs == 1 else "Every run has the same order"
        yield f"{same}, so a loss towards the end cannot be told from hard tasks there."
    elif row.drift.error is not None:
        half = row.drift.error.interval(0).width / 2
        yield f"A drift of less than {points(half)} points in ten tasks cannot be told from chance."
