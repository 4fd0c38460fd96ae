"""Reports: a record as one self-contained page."""

from qddot.report.page import report_page, require_plotly, write_report

__all__ = ["report_page", "require_plotly", "write_report"]
