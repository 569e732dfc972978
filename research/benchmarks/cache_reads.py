"""The table of simulated cache reads in docs/lab/cache.md.

    python research/benchmarks/cache_reads.py SESSION...

`wane lab validate` gives the same figures, and lists the outliers.
"""

from __future__ import annotations

from frame import parser_of_sessions, print_table, recorded_sessions
from wane.lab.recorded_session import RecordedSession
from wane_research.validation import Validation, validate

COLUMNS = (
    *("session", "model", "calls", "recorded reads", "simulated", "mean error, tokens", "of input"),
    *("without outliers", "within 5%", "outliers"),
)


def row(validation: Validation) -> list[str]:
    outliers = [f"{count} {kind}" for kind, count in validation.outliers.items()]
    cells = [validation.name, validation.model, f"{len(validation.rows)}"]
    cells += [f"{validation.recorded:,}", f"{validation.simulated:,}", f"{validation.mean_error:,.0f}"]
    cells += [f"{validation.mean_share:.2%}", f"{validation.mean_share_of_kept:.2%}", f"{validation.close:.1%}"]
    return [*cells, ", ".join(outliers) or "none"]


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    print_table(COLUMNS, (row(validate(session)) for session in sessions if reads_cache(session)), words=2)


def reads_cache(session: RecordedSession) -> bool:
    return any(call.usage and call.usage.cache_read for call in session.calls)


if __name__ == "__main__":
    main()
