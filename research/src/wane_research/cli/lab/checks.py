"""`wane lab validate`: the simulated cache against recorded reads. `wane lab annotations`: how well agents marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from wane.cli import failure
from wane.cli.lab.common import figure_table, gathered_from, print_lines, problem_lines, round_tokens
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, plain_console, printable, write_json
from wane.lab.counting import count
from wane.lab.readers import Recording
from wane.money import share
from wane_research.annotations import Annotations, annotations_of
from wane_research.cli.lab.commands import AnnotationsOptions, ValidateOptions
from wane_research.validation import Validation, validate

VALIDATE_NOTES: Final = (
    "read: tokens read from the cache, as recorded and as simulated. error: mean error of a call's read, as a share of "
    "its input; rest: the same without the calls that differ. within 5%: calls whose read is right to within 5% of "
    "their input. differ: all other calls. For these the provider read nothing, the head (system prompt and tools), "
    "the content of an earlier request, more than expected, or something else."
)


def run_validate(options: ValidateOptions) -> int:
    with Bar() as bar:
        gathered = gathered_from(options.sessions, options, bar, sidechains=True)
        silent = [recording for recording in gathered.recordings if not _reads(recording)]
        reading = [recording for recording in gathered.recordings if _reads(recording)]
        done = [validate(recording.session) for recording in bar.over("Simulating", reading)]
    if not done:
        raise failure.InputError("no session recorded its cache reads, so there is nothing to compare with")
    if options.as_json:
        left_out = [{"name": recording.session.name, "path": recording.path} for recording in silent]
        write_json({"sessions": [validation.to_dict() for validation in done], "left_out": left_out})
        return failure.OK
    _print_validation(done, options.outliers)
    if silent:
        print_lines([f"{count_noun(len(silent), 'session')} left out: they record no cache reads."])
    print_lines(["", VALIDATE_NOTES], "dim")
    return failure.OK


def _print_validation(done: Sequence[Validation], outliers: bool) -> None:
    table = figure_table("session", "calls", "read", "simulated", "error", "rest", "within 5%", "differ")
    for validation in done:
        reads = (f"{len(validation.rows):,}", round_tokens(validation.recorded), round_tokens(validation.simulated))
        errors = (f"{validation.mean_share:.2%}", f"{validation.mean_share_of_kept:.2%}", share(validation.close))
        table.add_row(printable(validation.name), *reads, *errors, f"{sum(validation.outliers.values()):,}")
    plain_console().print(table)
    recorded = sum(validation.recorded for validation in done)
    simulated = sum(validation.simulated for validation in done)
    calls = count_noun(sum(len(validation.rows) for validation in done), "call")
    differ: Counter[str] = Counter()
    for validation in done:
        differ += Counter(validation.outliers)
    instead = ", ".join(f"{what} {count:,}" for what, count in sorted(differ.items())) or "none"
    off = f" ({simulated / recorded - 1:+.1%})" if recorded else ""
    total = f"In all, {calls} that read {round_tokens(recorded)} tokens; simulated {round_tokens(simulated)}{off}."
    print_lines(["", total, f"Calls that differ, by what the provider read instead: {instead}."])
    if outliers:
        for validation in done:
            _print_outliers(validation)


def _print_outliers(validation: Validation) -> None:
    print_lines(["", printable(validation.name)])
    for row in validation.rows:
        if row.outlier:
            read = f"read {row.recorded:,} of {row.input:,}, not {row.simulated:,}"
            print_lines([f"  call {row.call}: {read}: {row.outlier}"])


def _reads(recording: Recording) -> bool:
    return any(call.usage and call.usage.cache_read for call in recording.session.calls)


ANNOTATIONS_NOTES: Final = (
    "marks: calls of delimiter; refused: marks that were refused. episodes: episodes that the agent marked. calls: "
    "mean tool calls of an episode. outside: share of the agent's work, in tokens, outside any episode. unlinked: acts "
    "that do not declare an exploration on which they rest, of all acts that edit a file read in one before. again: "
    "results fetched again after they had left the view. held: share of the identifiers first shown by an exploration "
    "and used by later calls that its description holds. overflow: passes that had to evict unfinished work."
)


def run_annotations(options: AnnotationsOptions) -> int:
    with Bar() as bar:
        gathered = gathered_from(options.sessions, options, bar, sidechains=options.sidechains)
        recordings = gathered.recordings
        each = [annotations_of(count(recording.session)) for recording in bar.over("Reading marks", recordings)]
        done = list(zip(recordings, each, strict=True))
    if not done:
        raise failure.InputError("there is nothing to count: no model was called in these sessions")
    total = sum((figures for _, figures in done), Annotations())
    if options.as_json:
        left_out = [{"path": file.path, "why": file.why} for file in gathered.unread]
        sessions: list[dict[str, Any]] = []
        for recording, figures in done:
            origin = {"name": recording.session.name, "path": recording.path, "parent": recording.parent}
            sessions.append(origin | figures.to_dict())
        write_json({"sessions": sessions, "total": total.to_dict(), "unread": left_out})
        return failure.OK
    _print_annotations(done, total)
    if gathered.unread:
        print_lines([f"{count_noun(len(gathered.unread), 'file')} skipped: {gathered.unread[0].why}"])
    return failure.OK


def _print_annotations(done: Sequence[tuple[Recording, Annotations]], total: Annotations) -> None:
    print_lines(problem_lines(recording.session for recording, _ in done))
    table = figure_table(
        "session", "marks", "refused", "episodes", "calls", "outside", "unlinked", "again", "held", "overflow"
    )
    for recording, figures in done:
        table.add_row(printable(recording.session.name), *_annotation_cells(figures))
    if len(done) > 1:
        table.add_row("all", *_annotation_cells(total))
    plain_console().print(table)
    print_lines(["", *_sentences(total)])
    print_lines(["", ANNOTATIONS_NOTES], "dim")


def _annotation_cells(figures: Annotations) -> Iterator[str]:
    yield f"{figures.marks:,}"
    yield f"{figures.refused.total():,}"
    yield f"{figures.episodes:,}"
    yield "-" if figures.calls_per_episode is None else f"{figures.calls_per_episode:.1f}"
    yield _share(figures.outside_share)
    yield f"{figures.acts_undeclared:,}/{figures.acts_on_files:,}"
    yield f"{figures.read_again:,}"
    yield _share(figures.held_share)
    yield f"{figures.overflows:,}"


def _sentences(figures: Annotations) -> Iterator[str]:
    """Yield sentences on the figures that have no column, unless they are 0."""
    if not figures.marked:
        yield f"No episode was marked in {count_noun(figures.sessions, 'session')}."
        return
    yield (
        f"{count_noun(figures.explorations, 'exploration')} and {count_noun(figures.acts, 'act')}, which declare "
        f"{count_noun(figures.declared, 'exploration')}; {figures.unended:,} without an end. The longest has "
        f"{count_noun(figures.most_calls, 'tool call')}."
    )
    if figures.refused:
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in figures.refused.most_common())
        yield f"Refused marks: {kinds}."
    if figures.descriptions_needed:
        yield (
            f"Of {count_noun(figures.descriptions, 'description')}, {figures.descriptions_needed:,} should hold "
            f"identifiers that were used later, and {figures.descriptions_holding:,} do: {figures.held:,} of "
            f"{count_noun(figures.needed, 'identifier')}."
        )
    if figures.read_again or figures.recalls:
        again = (
            f"{count_noun(figures.read_again, 'result')}, in {count_noun(figures.explorations_repeated, 'exploration')}"
        )
        yield f"Fetched again: {again}. Calls of recall: {figures.recalls:,}."
    if figures.overflows:
        tokens = f"{round_tokens(figures.overflow_tokens)} tokens of it"
        yield f"Passes that had to evict unfinished work: {figures.overflows:,} of {figures.passes:,}, {tokens}."


def _share(value: float | None) -> str:
    return "-" if value is None else share(value)
