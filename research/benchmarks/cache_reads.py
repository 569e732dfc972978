"""How well cache reads are simulated, as a table.

    python research/benchmarks/cache_reads.py SESSION...

`wane lab validate` gives the same figures with their outliers. The table in docs/lab/cache.md comes from here.
"""

from __future__ import annotations

from frame import parser_of_sessions, recorded_sessions
from wane_research.validation import validate


def main() -> None:
    sessions = recorded_sessions(parser_of_sessions(__doc__).parse_args().sessions)
    print(
        "| session | model | calls | recorded reads | simulated | mean error, tokens | of input | without outliers "
        "| within 5% | outliers |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|---|")
    for session in sessions:
        if not any(call.usage and call.usage.cache_read for call in session.calls):
            continue
        it = validate(session)
        outliers = ", ".join(f"{count} {what}" for what, count in it.outliers.items()) or "none"
        print(
            f"| {it.name} | {it.model} | {len(it.rows)} | {it.recorded:,} | {it.simulated:,} | {it.mean_error:,.0f} "
            f"| {it.mean_share:.2%} | {it.mean_share_of_kept:.2%} | {it.close:.1%} | {outliers} |"
        )


if __name__ == "__main__":
    main()
