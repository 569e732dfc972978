"""The report as one HTML page, which draws itself from its data and fetches nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from wane.lab.report.page import SHARED, STYLES, render, to_json
from wane.lab.report.page import write_page as write
from wane.strategies.registry import STRATEGY_NAMES, traits
from wane_research.evaluation.report.building import Report
from wane_research.evaluation.report.rows import VERDICTS
from wane_research.evaluation.results import Total

_PAGE: Final = files("wane_research.evaluation.report") / "page"
_SCRIPTS: Final = tuple(_PAGE / f"{name}.js" for name in ("columns", "tables", "scores", "sessions", "main"))


def write_page(path: Path, report: Report) -> None:
    data = report.to_dict()
    data["title"] = "Evaluation"
    data["facts"] = _facts(report)
    data["verdicts"] = VERDICTS
    data["annotated"] = sorted(name for name in STRATEGY_NAMES if traits(name).marked)
    page = render(data["title"], to_json(data), (*SHARED, *_SCRIPTS), (*STYLES, _PAGE / "evaluation.css"))
    write(path, page)


def _facts(report: Report) -> list[tuple[str, Any]]:
    rows = report.rows
    tokens = sum((row.took["input_tokens"] for row in rows), Total())
    input_tokens = f"{tokens.at_least:,}"
    if tokens.unknown:
        input_tokens = "unknown"
    elif tokens.exact is None:
        input_tokens = f"at least {input_tokens}"
    return [
        ("Benchmarks", ", ".join(dict.fromkeys(row.arm.benchmark for row in rows))),
        ("Models", ", ".join(dict.fromkeys(row.arm.model for row in rows))),
        ("Trials", f"{sum(row.score.trials for row in rows):,}"),
        ("Input tokens", input_tokens),
        ("Cost", sum((row.cost for row in rows), Total()).describe()),
    ]
