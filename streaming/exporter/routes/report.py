"""The report of a span of the past: as plain data, as Markdown, and as a page that stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streaming.exporter.endpoint import Endpoint, Runs, Values
from streaming.exporter.moments import refusing
from streaming.exporter.routes.history import FROM, REFUSALS, TO, between, past_of
from streaming.exporter.schemas import ref
from streaming.exporter.source import ViewSource
from streaming.history.moments import moment, time_text
from streaming.history.report.making import report_of
from streaming.history.report.model import Report
from streaming.history.report.writing.document import document
from streaming.history.report.writing.markdown import markdown
from streaming.history.report.writing.render import FORMATS, rendered
from streaming.history.report.writing.style import STYLE_HASH
from streaming.questions.parameters import InputParameter, one_of

FORMAT: Final = "format"

_CONSOLE: Final = "../../"
"""From the path of a report; relative, so that a proxy may put all of it into a folder."""

_PARAMETERS: Final[Mapping[str, InputParameter]] = {
    FROM: moment("where the span begins, a [moment](history.md#ask-about-a-moment)", required=True),
    TO: moment("where it ends; the newest moment of the past by default"),
    FORMAT: one_of(
        "`json`, `md` (Markdown) or `html` (a page that stands alone); `json` by default",
        {each: each for each in FORMATS},
        default="json",
    ),
}

_MEDIA_TYPES: Final = {"md": "text/markdown", "html": "text/html"}

_PAGE_POLICY: Final = (
    f"default-src 'none'; style-src {STYLE_HASH}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page has its style in itself, and nothing else may run or be loaded."""


def endpoints(source: ViewSource) -> list[Endpoint]:
    """The endpoint of this file."""

    def report(_: Request, values: Values) -> Any:
        past = past_of(source)
        from_ms, to_ms = between(source, past, values)
        with refusing(FROM):
            made = report_of(past, source.catalog, source.cluster, from_ms, to_ms)
        form = values[FORMAT]
        if form == "json":
            return made
        headers = {"Content-Security-Policy": _PAGE_POLICY} if form == "html" else {}
        if form == "md":
            name = f"report-{time_text(made.begin_ms)[:19].replace(':', '')}.md"
            headers["Content-Disposition"] = f'inline; filename="{name}"'
        text = rendered(made, form, _CONSOLE)
        return Response(text, headers=headers, media_type=_MEDIA_TYPES[form])

    return [
        Endpoint(
            path="/api/v1/report",
            tool="report",
            not_for_tool=(FORMAT,),
            summary="[what happened](history.md#report) between two moments of the past, and why",
            answer=report,
            schema=ref("Report"),
            parameters=_PARAMETERS,
            of_state=False,
            text=_sentences,
            refusals=REFUSALS,
            runs=Runs.OF_PAST,
        )
    ]


def _sentences(data: Any) -> list[str]:
    """The report as lines of Markdown, for an agent."""
    made = msgspec.convert(data, Report)
    return markdown(document(made), "").splitlines()
