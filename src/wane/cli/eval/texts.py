"""Help texts of the group `eval`."""

from __future__ import annotations

from typing import Final

EVAL: Final = """\
Run a benchmark with the agent, in one session or in isolated ones, and tell what the scores show.
"""

REPORT: Final = """\
Tell what the results of runs show, and what they cannot: scores with errors, one session against isolated ones.

It prints Markdown, and needs no key, no network and no Harbor. Runs may be in several folders, of any benchmarks,
models, strategies and budgets. One session through all tasks is held against isolated sessions of the same benchmark
and model: of the same strategy and budget, or else of the strategy none. The verdict is at the margin that the runs set
before their first trial.

Examples:
  wane eval report tb2-results
  wane eval report tb2-single tb2-isolated --html report.html
  wane eval report tb2-results --json

Exit codes:
  0    done, even if trials are missing (they are counted)
  1    a file cannot be read or written
  2    a folder holds no results, or a file of results is damaged
"""
