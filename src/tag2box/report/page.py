"""`ReportContent` as one HTML page: no script, no other file, no request."""

from tag2box.detection.html import render_template
from tag2box.report.content import ReportContent
from tag2box.report.thumbnails import AFTER, BEFORE, DETECTED, MINED


def render_page(content: ReportContent) -> str:
    """The page; every name in it is escaped, since tags and file names are anyone's text."""
    colors = {"before": BEFORE, "after": AFTER, "detected": DETECTED, "mined": MINED}
    return render_template("tag2box.report", "page.html.j2", report=content, colors=colors)
