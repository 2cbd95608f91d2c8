"""The report of a span of the past: as plain data, as Markdown, and as a page that stands alone."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from starlette.responses import Response

from streaming.exporter.endpoint import endpoint
from streaming.exporter.moments import refusing
from streaming.exporter.routes.history import FROM, OF_PAST, between, past_of
from streaming.exporter.schemas import ref
from streaming.exporter.view_source import ViewSource
from streaming.history.moment import Moment, moment, time_text
from streaming.history.report.making import report_of
from streaming.history.report.model import Report
from streaming.history.report.writing.document import document
from streaming.history.report.writing.markdown import markdown
from streaming.history.report.writing.render import FORMATS, rendered
from streaming.history.report.writing.style import STYLE_HASH
from streaming.questions.parameters import one_of

FORMAT: Final = "format"

CONSOLE: Final = "../../"
"""From the path of a report; relative, so that a proxy may put all of it into a folder."""

SpanBegin = Annotated[
    Moment, moment("where the span begins, a [moment](history.md#ask-about-a-moment)")
]
ReportFormat = Annotated[
    Literal["md", "html", "json"],
    one_of(
        "`json`, `md` (Markdown) or `html` (a page that stands alone); `json` by default",
        {each: each for each in FORMATS},
    ),
]

_MEDIA_TYPES: Final = {"md": "text/markdown", "html": "text/html"}

_PAGE_POLICY: Final = (
    f"default-src 'none'; style-src {STYLE_HASH}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page has its style in itself, and nothing else may run or be loaded."""


@endpoint(
    "/api/v1/report",
    "[what happened](history.md#report) between two moments of the past, and why",
    schema=ref("Report"),
    form=Report,
    tool="report",
    not_for_tool=(FORMAT,),
    text=lambda data: markdown(document(msgspec.convert(data, Report)), "").splitlines(),
    **OF_PAST,
)
def report(
    source: ViewSource,
    *,
    from_: SpanBegin,
    to: Annotated[
        Moment | None, moment("where it ends; the newest moment of the past by default")
    ] = None,
    format_: ReportFormat = "json",
) -> Report | Response:
    """The report of a span, in one of its formats."""
    past = past_of(source)
    from_ms, to_ms = between(source, past, from_, to)
    with refusing(FROM):
        made = report_of(past, source.catalog, source.cluster, from_ms, to_ms)
    if format_ == "json":
        return made
    return document_answer(rendered(made, format_, CONSOLE), format_, made.begin_ms)


def document_answer(text: str, form: Literal["md", "html"], begin_ms: int) -> Response:
    """A report in Markdown or HTML; ``begin_ms`` is where its span begins."""
    headers = {"Content-Security-Policy": _PAGE_POLICY} if form == "html" else {}
    if form == "md":
        name = f"report-{time_text(begin_ms)[:19].replace(':', '')}.md"
        headers["Content-Disposition"] = f'inline; filename="{name}"'
    return Response(text, headers=headers, media_type=_MEDIA_TYPES[form])
