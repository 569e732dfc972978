"""Arguments and options of the group `eval`, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wane.cli.flags import Flag

REPORT: Final = (
    Flag(("DIR...",), "places", "Folders with results, at any depth.", "DIR...", Path, repeatable=True),
    Flag(("--html",), "html", "Also write the report as one HTML page that needs no network.", "FILE"),
    Flag(("--json",), "as_json", "Print JSON instead of Markdown."),
)
