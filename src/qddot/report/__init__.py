"""Reports: a record as one self-contained page."""

from qddot.report.page import report_page, write_report

__all__ = ["report_page", "write_report"]
