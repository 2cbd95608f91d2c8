"""A report in the format that somebody asked for."""

from __future__ import annotations

from typing import Final, Literal

from streaming.history.report.model import Report
from streaming.history.report.writing.document import document
from streaming.history.report.writing.markdown import markdown
from streaming.history.report.writing.page import page
from streaming.history.report.writing.pictures import pictures

Format = Literal["md", "html", "json"]
FORMATS: Final[tuple[Format, ...]] = ("md", "html", "json")


def rendered(report: Report, form: Literal["md", "html"], console: str) -> str:
    """The report in Markdown or HTML.

    Args:
        report: as it was made, or as an exporter sent it.
        form: the format.
        console: URL of the console to which times lead, with a slash at its end.
    """
    told = document(report)
    if form == "md":
        return markdown(told, console)
    return page(told, console, pictures(report, told))
