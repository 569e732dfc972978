"""`wane eval report`: what the results of runs show."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.lab.common import check_report
from wane.evaluation.report import report, to_markdown, write_page
from wane.evaluation.results import ResultsError


def run_report(places: Sequence[Path], html: str | None = None, as_json: bool = False) -> int:
    """Print a report, and return the exit code.

    Raises:
        InputError: if a folder holds no results, or none that can be read.
        OSError: if a file cannot be read, or the page cannot be written.
    """
    check_report(html)
    try:
        found = report(places)
    except ResultsError as error:
        raise InputError(str(error)) from error
    if not found.rows:
        raise InputError(f"there is nothing to report: no trial has ended in {', '.join(map(str, places))}")
    sys.stdout.write(f"{json.dumps(found.to_dict(), allow_nan=False)}\n" if as_json else to_markdown(found))
    if html is not None:
        # Last, so that a full disk does not cost the user the tables.
        write_page(Path(html), found)
    return failure.OK
