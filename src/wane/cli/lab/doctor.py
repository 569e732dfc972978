"""`wane doctor`: which requests paid again for what the provider had cached, and why."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from wane.cli import failure
from wane.cli.lab.arguments import sessions_here
from wane.cli.lab.common import (
    cache_folder,
    check_report,
    gathered_from,
    keep_prices,
    print_figures,
    print_json,
    print_lines,
    problem_lines,
    round_tokens,
)
from wane.cli.lab.lab_commands import DoctorOptions
from wane.cli.terminal.progress import Bar
from wane.cli.terminal.text import count_noun, first_few, local_time, printable, say, write_json
from wane.lab.cache.examining import ExaminedSession, Examiner
from wane.lab.cache.paid_again import Examination, Rewrite, totals_by_cause
from wane.lab.file_store import FileStore
from wane.lab.names import JOURNAL
from wane.lab.readers import Gathered
from wane.lab.recorded_session import RecordedSession
from wane.money import dollars, share
from wane.rewrites import SMALLEST, Cause, CauseTotals, Certainty, merged_totals, say_cost
from wane.words import PURPOSES

_PROXY: Final = "http://127.0.0.1:8484"
_LARGEST: Final = 10
"""Rewrites to list without --full."""
_DIFF_LINES: Final = 6
"""Lines of a difference to show without --full."""


def run_doctor(options: DoctorOptions) -> int:
    if options.live is not None:
        return _run_live(options)
    check_report(options.report)
    names = options.sessions or [path for path, _ in sessions_here(Path.cwd())]
    if not options.sessions:
        say(f"{count_noun(len(names), 'session')} of this directory, of any agent")
    store = FileStore(None if options.afresh else cache_folder(os.environ, Path.home()) / "doctor.sqlite")
    keep_prices()
    with Bar() as bar, Examiner(store, options.format, options.max_unpacked, options.workers) as examiner:
        gathered = gathered_from(names, options, bar, sidechains=True, reader=examiner)
    gathered, copies = _without_copies(gathered)
    examinations = [
        entry.session.examination for entry in gathered.recordings if isinstance(entry.session, ExaminedSession)
    ]
    if options.as_json:
        print_json({"sessions": [examination.to_dict() for examination in examinations]}, gathered)
    else:
        print_lines([PURPOSES["doctor"], ""])
        if copies:
            print_lines([f"{count_noun(copies, 'session')} left out: Wane's proxy recorded the same requests."])
        _print(examinations, gathered, full=options.full)
    if options.report is not None:
        from wane.lab.report import write_doctor_report

        write_doctor_report(options.report, examinations, contents=not options.redact)
    return failure.OK


def _without_copies(gathered: Gathered) -> tuple[Gathered, int]:
    """Return recordings without those of agents whose requests all went through Wane's proxy, and their number.

    The proxy's recording of these requests says more, and both together would count them twice.
    """
    proxied: Counter[tuple[int | None, ...]] = Counter()
    for entry in gathered.recordings:
        if entry.session.source == JOURNAL:
            proxied += _usages(entry.session)
    distinct = []
    for entry in gathered.recordings:
        usages = _usages(entry.session)
        if entry.session.source == JOURNAL or not usages or not usages <= proxied:
            distinct.append(entry)
    return replace(gathered, recordings=tuple(distinct)), len(gathered.recordings) - len(distinct)


def _usages(session: RecordedSession) -> Counter[tuple[int | None, ...]]:
    """Return how often each usage was reported in a session."""
    usages = [call.usage for call in session.calls if call.usage is not None and not call.inherited]
    return Counter((usage.total_input, usage.cache_read, usage.cache_write, usage.output) for usage in usages)


def _run_live(options: DoctorOptions) -> int:
    if options.sessions or options.full or options.report or options.format != "auto":
        raise failure.UsageError(
            "--live asks a running proxy for causes: give no SESSION, --full, --report or --format with it"
        )
    from wane.cli.running_proxy import proxy_status

    base = options.live or os.environ.get("WANE_PROXY_URL") or _PROXY
    try:
        sessions = proxy_status(base)["sessions"]
    except (OSError, ValueError, LookupError):
        # Not the address itself, which may hold a token.
        raise failure.InputError(
            "no proxy answers there; start wane proxy, or give its address: wane doctor --live http://127.0.0.1:8484"
        ) from None
    totals = merged_totals(entry["rewritten"] for entry in sessions)
    if options.as_json:
        write_json({"sessions": [{"name": entry["id"], "rewritten": entry["rewritten"]} for entry in sessions]})
        return failure.OK
    requests = sum(entry["requests"] for entry in sessions)
    print_lines([f"{count_noun(len(sessions), 'session')} in memory, with {count_noun(requests, 'request')}.", ""])
    if totals:
        _print_causes(totals)
        print_lines(["wane doctor SESSION has each request, with what changed."], style="dim")
    else:
        print_lines([f"No request paid again for more than {SMALLEST:,} tokens that were cached."])
    return failure.OK


def _print(examinations: Sequence[Examination], gathered: Gathered, *, full: bool) -> None:
    rewrites = [(examination, rewrite) for examination in examinations for rewrite in examination.rewrites]
    print_lines([*_read_lines(examinations, gathered), ""])
    if not rewrites:
        if any(examination.compared for examination in examinations):
            print_lines([f"No request paid again for more than {SMALLEST:,} tokens that were cached."])
        return
    _print_causes(totals_by_cause(rewrite for _, rewrite in rewrites))
    rewrites.sort(key=lambda entry: -entry[1].tokens)
    _print_rewrites(rewrites if full else rewrites[:_LARGEST], full=full)
    if len(rewrites) > _LARGEST and not full:
        print_lines([f"{len(rewrites) - _LARGEST:,} more; --full lists all of them."], style="dim")


def _read_lines(examinations: Sequence[Examination], gathered: Gathered) -> list[str]:
    """Return lines on what was compared, and on what could not be compared."""
    known = [examination for examination in examinations if examination.compared]
    others = [examination for examination in examinations if not examination.compared]
    single = sum(entry.requests + entry.without_usage <= 1 for entry in others)
    unknown = [entry.session.name for entry in others if entry.requests + entry.without_usage > 1]
    compared = f"{count_noun(sum(entry.compared for entry in known), 'request')} compared with the one before"
    lines = [f"{count_noun(len(known), 'session')}, those of sub-agents included: {compared}."]
    if again := sum(len(entry.rewrites) for entry in known):
        tokens = round_tokens(sum(entry.tokens for entry in known))
        rewrites = [rewrite for entry in known for rewrite in entry.rewrites]
        fewer = any(rewrite.explanation.cause is Cause.COMPACTION for rewrite in rewrites)  # its summary is new
        most = "at most " if fewer else ""
        lines.append(
            f"{count_noun(again, 'request')} paid again for {most}{tokens} tokens that the provider had cached."
        )
    recording = [entry for entry in known if entry.written]
    written = sum(entry.written for entry in recording)
    rewritten = sum(entry.tokens for entry in recording)
    if rewritten:
        most = f"at most {round_tokens(rewritten)} ({share(min(1.0, rewritten / written))}) were written again"
        where = f", in the {len(recording)} of {count_noun(len(known), 'session')} that recorded writes"
        where = where if len(recording) < len(known) else ""
        lines.append(f"Of the {round_tokens(written)} tokens written to a cache, {most}{where}.")
    if without := sum(entry.without_usage for entry in known):
        lines.append(f"{count_noun(without, 'call')} recorded no usage: what was paid again there is not known.")
    if single:
        lines.append(f"Nothing to compare in {count_noun(single, 'session')} of a single request.")
    if unknown:
        sessions = count_noun(len(unknown), "session")
        lines.append(f"Not known for {sessions} that recorded no cache reads: {first_few(unknown, 3)}.")
    skipped = [f"skipped: {printable(file.why)}" for file in gathered.unread]
    return [*lines, *problem_lines(entry.session for entry in examinations), *skipped]


def _print_causes(totals: Mapping[Cause, CauseTotals]) -> None:
    largest_first = sorted(totals.items(), key=lambda entry: entry[1].weight, reverse=True)
    everything = sum(total.tokens for total in totals.values())
    rows: list[list[str]] = []
    for cause, total in largest_first:
        known_by = ", ".join(sorted(certainty for certainty in total.certainty if certainty != Certainty.UNKNOWN))
        extra = say_cost({cause: total}) or "-"
        cells = (f"{total.requests:,}", round_tokens(total.tokens), share(total.tokens / everything), extra)
        rows.append([cause.label, *cells, known_by or "-"])
    print_figures(["cause", "requests", "tokens", "share", "dollars more", "known by"], rows, ["known by", "share"])
    priced = sum(total.priced for total in totals.values())
    requests = sum(total.requests for total in totals.values())
    print_lines([""])
    if 0 < priced < requests:
        over = f"for {priced:,} of the {count_noun(requests, 'request')}"
        print_lines([f"{say_cost(totals)} in all, {over}: no price is known for the others."])
    print_lines([_certainty_line(totals, everything), ""])
    print_lines(f"{cause.label}: {cause.advice}" for cause, _ in largest_first)
    print_lines([""])


def _certainty_line(totals: Mapping[Cause, CauseTotals], everything: int) -> str:
    """Return a line on how many of the tokens have a known cause."""
    tokens: Counter[Certainty] = Counter()
    for total in totals.values():
        tokens.update(total.certainty)
    known = tokens[Certainty.RECORDED] + tokens[Certainty.REPORTED]
    parts = [f"The cause is recorded or reported for {share(known / everything)} of these tokens"]
    if inferred := tokens[Certainty.INFERRED]:
        parts.append(f"inferred for {share(inferred / everything)}")
    if unknown := tokens[Certainty.UNKNOWN]:
        parts.append(f"not known for {share(unknown / everything)}")
    return f"{', '.join(parts)}."


def _print_rewrites(rewrites: Sequence[tuple[Examination, Rewrite]], *, full: bool) -> None:
    print_lines(["All of them:" if full else "The largest:"])
    for examination, rewrite in rewrites:
        when = "" if rewrite.time is None else f", {local_time(rewrite.time)}"
        start = f"{printable(examination.session.name)}, call {rewrite.call + 1:,}{when}"
        cost = "" if rewrite.dollars is None else f", {dollars(rewrite.dollars)} more"
        tokens = f"{rewrite.tokens:,} of {rewrite.cached:,} cached tokens again{cost}"
        why = rewrite.explanation
        print_lines([f"  {start}: {tokens}. {why.cause.label}: {printable(why.evidence)}"])
        lines = why.diff.splitlines()
        most = len(lines) if full else _DIFF_LINES
        print_lines(f"    {printable(line)}" for line in lines[:most])
        if len(lines) > most:
            print_lines([f"    … {len(lines) - most:,} more lines; --full shows them"], style="dim")
