"""Reports of estimates as files that need nothing else: CSV, SVG, HTML. Written by hand."""

from rknntui.cost_report.report import REPORTS, Kind, judged, report_text

__all__ = ["REPORTS", "Kind", "judged", "report_text"]
