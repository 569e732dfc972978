"""The report of an evaluation: as a page, as Markdown and as JSON. It needs nothing but the results."""

from wane_research.evaluation.report.building import Report, report
from wane_research.evaluation.report.markdown import to_markdown
from wane_research.evaluation.report.page import write_page

__all__ = ["Report", "report", "to_markdown", "write_page"]
