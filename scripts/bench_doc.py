"""Make the tables of research/docs/bench.md: recordings, columns, and who measured which figure when.

    python scripts/bench_doc.py research/docs/bench.md            write them
    python scripts/bench_doc.py --check research/docs/bench.md    exit with 1 if they are out of date

The results are the files of `wane lab bench --output` in research/benchmarks/results/.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from generated import write_or_check
from wane.lab.best_budget import frontier
from wane_research.bench.results import COLUMNS, Result, Row, read_result
from wane_research.bench.sources import load_sources
from wane_research.cli.lab.bench import cells

RESULTS = Path(__file__).parents[1] / "research" / "benchmarks" / "results"
BEGIN = "<!-- Made by scripts/bench_doc.py; run `make docs` to update it. -->\n"


def document(page: str, results: Sequence[Result]) -> str:
    """Return the page with present tables."""
    head, _, _ = page.partition(BEGIN)
    return "\n".join([head + BEGIN, *recordings(), *columns(), *runs(results), *figures(results)])


def recordings() -> Iterator[str]:
    """Yield the table of recordings."""
    yield "## Recordings\n\n| repository | licence | commit | what | files |\n|---|---|---|---|--:|"
    for source in load_sources():
        link = f"[{source.repository}](https://github.com/{source.repository})"
        files = len(source.recordings)
        yield f"| {link} | {source.licence} | `{source.commit[:12]}` | {source.about} | {files} |"
    yield ""


def columns() -> Iterator[str]:
    """Yield the table of columns."""
    yield "## Columns\n\n| column | meaning, and what it leaves out | better |\n|---|---|---|"
    for column in COLUMNS:
        yield f"| {column.name} | {column.help} | {column.better} |"
    yield ""


def runs(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table of results: who measured when, with what."""
    yield "## Results\n\n| date | who | with | recordings | model calls | tokens |\n|---|---|---|--:|--:|--:|"
    for result in results:
        used = ", ".join(f"{name} {version}" for name, version in result.versions.items())
        calls = sum(recording["calls"] for recording in result.recordings)
        tokens = sum(recording["tokens"] for recording in result.recordings)
        origin = (result.date, result.author, f"{used}, Python {result.python}", f"{len(result.recordings)}")
        yield f"| {' | '.join(origin)} | {calls:,} | {tokens:,} |"
    yield ""


def figures(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table of all figures, by budget and strategy, with who measured each when.

    A star marks the frontier of all results of the same recordings.
    """
    names = [column.name for column in COLUMNS]
    yield f"| budget | strategy | {' | '.join(names)} | who, when |\n|--:|---|{'--:|' * len(names)}---|"
    rows = [(row, result) for result in results for row in result.rows]
    budgets = sorted({row.budget or 0 for row, _ in rows})
    best: list[Row] = []
    for same in by_recordings(results):
        best += frontier(same, lambda row: row.figures.cost, lambda row: row.figures.recall)
    measured: dict[str, list[str]] = {}
    for budget in budgets:
        for row, result in rows:
            if (row.budget or 0) == budget:
                tokens = f"{budget:,}" if budget else ""
                mark = r" \*" if row in best else ""
                line = " | ".join((tokens, f"`{row.strategy}`{mark}", *cells(row, result.values(row))))
                # The same figures, measured by others or again.
                measured.setdefault(line, []).append(f"{result.author}, {result.date}")
    for line, who in measured.items():
        yield f"| {line} | {'; '.join(dict.fromkeys(who))} |"
    yield ""


def by_recordings(results: Sequence[Result]) -> Iterator[list[Row]]:
    """Yield the rows of the results of the same recordings."""
    rows: dict[frozenset[str], list[Row]] = {}
    for result in results:
        rows.setdefault(frozenset(entry["sha256"] for entry in result.recordings), []).extend(result.rows)
    yield from rows.values()


def main(args: list[str]) -> int:
    """Write the tables, or check them."""
    path = Path(args[-1])
    page = path.read_text(encoding="utf-8")
    results = sorted(map(read_result, RESULTS.glob("*.json")), key=lambda result: (result.date, result.author))
    return write_or_check(path, document(page, results), args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
