"""Reports: single HTML files that need no network and no server (docs/lab/report.md)."""

from wane.lab.report.broken_cache import write_doctor_report
from wane.lab.report.page import SIZE_LIMIT, TEXT_LIMIT
from wane.lab.report.reports import page_of_journal, write_report, write_sweep_report, write_tune_report, write_view
from wane.lab.report.simulating import Simulated

__all__ = [
    "SIZE_LIMIT",
    "TEXT_LIMIT",
    "Simulated",
    "page_of_journal",
    "write_doctor_report",
    "write_report",
    "write_sweep_report",
    "write_tune_report",
    "write_view",
]
