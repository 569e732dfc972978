"""The page of `wane doctor`: the calls of each session in time, and where the provider's cache broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from wane.lab.cache.paid_again import Examination, totals_by_cause
from wane.lab.discover import AGENTS
from wane.lab.names import JOURNAL
from wane.lab.report.page import DOCTOR, render, to_json, write_page
from wane.rewrites import SMALLEST, Cause, say_cost

_DRAWN: Final = 60
"""Sessions on a page, at most: those that lost most."""


def write_doctor_report(path: str | Path, examinations: Sequence[Examination], *, contents: bool = True) -> None:
    """Write examined sessions as a page.

    Args:
        path: path of the HTML file.
        examinations: the sessions, each with what it paid again.
        contents: whether the page holds titles and names of sessions.

    Raises:
        OSError: if it cannot be written.
    """
    known = [examination for examination in examinations if examination.compared]
    rewrites = [rewrite for examination in known for rewrite in examination.rewrites]
    priced = [rewrite for rewrite in rewrites if rewrite.dollars is not None]
    causes = []
    totals = totals_by_cause(rewrites)
    for cause, total in sorted(totals.items(), key=lambda entry: entry[1].weight, reverse=True):
        row = {"cause": cause, "label": cause.label, "hint": cause.hint, "times": total.requests}
        causes.append({**row, "tokens": total.tokens, "dollars": total.dollars, "cost": say_cost({cause: total})})
    certainty: Counter[str] = Counter()
    for rewrite in rewrites:
        certainty[rewrite.explanation.certainty] += rewrite.tokens
    largest = sorted((entry for entry in known if entry.rewrites), key=lambda entry: -entry.tokens)
    drawn = largest[:_DRAWN]
    data = {
        "total": {
            "times": len(rewrites),
            "compared": sum(examination.compared for examination in known),
            "without": sum(examination.without_usage for examination in known),
            "tokens": sum(rewrite.tokens for rewrite in rewrites),
            "at_most": Cause.COMPACTION in totals,
            "cost": say_cost(totals),
            "priced": len(priced),
            "priced_tokens": sum(rewrite.tokens for rewrite in priced),
        },
        "smallest": SMALLEST,
        "causes": causes,
        "certainty": dict(certainty),
        "sessions": [_session(examination, number, contents) for number, examination in enumerate(drawn)],
        "more": len(examinations) - len(drawn),
    }
    write_page(Path(path), render("Where the cache broke", to_json(data), *DOCTOR))


def _session(examination: Examination, number: int, contents: bool) -> dict[str, Any]:
    session = examination.session
    usages = [call.usage for call in session.calls]
    breaks = []
    for rewrite in examination.rewrites:
        why = rewrite.explanation
        breaks.append(
            {
                "call": rewrite.call,
                "at": rewrite.at,
                "tokens": rewrite.tokens,
                "dollars": rewrite.dollars,
                "cause": why.cause,
                "certainty": why.certainty,
                "evidence": why.evidence if contents else "",
            }
        )
    return {
        "number": number,
        "title": (session.title or session.name) if contents else f"Session {number + 1}",
        "source": AGENTS.get(session.agent or session.source, "Wane" if session.source == JOURNAL else session.source),
        "input": [usage.total_input if usage else 0 for usage in usages],
        "read": [usage.cache_read if usage else 0 for usage in usages],
        "cost": say_cost(totals_by_cause(examination.rewrites)),
        "breaks": breaks,
    }
