"""Reports: single HTML files that need no network and no server (docs/lab/report.md)."""

from wane.lab.report.headline import Simulated
from wane.lab.report.page import SIZE_LIMIT, TEXT_LIMIT
from wane.lab.report.reports import write_report, write_sweep_report, write_view

__all__ = ["SIZE_LIMIT", "TEXT_LIMIT", "Simulated", "write_report", "write_sweep_report", "write_view"]
