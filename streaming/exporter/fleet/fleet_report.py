"""The report over all clusters: as plain data, as Markdown, and as a page that stands alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from streaming.exporter.answers import RefusedError
from streaming.exporter.endpoint import Runs, endpoint
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.routes.history import FROM
from streaming.exporter.routes.report import (
    CONSOLE,
    FORMAT,
    ReportFormat,
    SpanBegin,
    document_answer,
)
from streaming.exporter.schemas import ref
from streaming.exporter.view_source import ViewSource, wall_clock_ms
from streaming.history.moment import Moment, moment, time_text
from streaming.history.report.fleet import fleet_report, in_span, unknown
from streaming.history.report.fleet_model import ClusterInSpan, FleetReport
from streaming.history.report.writing.fleet_document import fleet_document, rendered_fleet
from streaming.history.report.writing.markdown import markdown
from streaming.runtime.errors import UserError
from streaming.runtime.threads.workers import Workers

PATIENCE_S: Final = 30.0
"""How long the events of one cluster may take to be read; then nothing is known of it."""

_WORKERS: Final = Workers(PATIENCE_S, at_once=1)
"""Clusters one after the other. One whose archive does not answer is not asked twice meanwhile."""


@endpoint(
    "/api/v1/report",
    "[which clusters had which incident](history.md#report-over-a-fleet) between two moments, "
    "worst first, and whose forecasts were off",
    schema=ref("FleetReport"),
    form=FleetReport,
    tool="fleet_report",
    not_for_tool=(FORMAT,),
    text=lambda data: markdown(fleet_document(msgspec.convert(data, FleetReport)), "").splitlines(),
    of_state=False,
    runs=Runs.OF_PAST,
)
def report(
    clusters: ServedClusters,
    *,
    from_: SpanBegin,
    to: Annotated[Moment | None, moment("where it ends; now by default")] = None,
    format_: ReportFormat = "json",
) -> FleetReport | Response:
    """The report of a span, in one of its formats."""
    now_ms = wall_clock_ms()
    from_ms, to_ms = from_.at_ms(now_ms), now_ms if to is None else to.at_ms(now_ms)
    if from_ms > to_ms:
        raise RefusedError(f"{FROM}: {time_text(from_ms)} is after {time_text(to_ms)}", 400)
    made = fleet_report(_each(clusters, from_ms, to_ms), from_ms, to_ms)
    if format_ == "json":
        return made
    return document_answer(rendered_fleet(made, format_, CONSOLE), format_, made.begin_ms)


def _each(clusters: ServedClusters, from_ms: int, to_ms: int) -> list[ClusterInSpan]:
    """What happened to each; an error of one is one of it alone."""
    found: dict[str, ClusterInSpan] = {}

    def look(source: ViewSource) -> None:
        past, catalog = source.past, source.catalog
        found[source.cluster] = in_span(past, catalog, source.cluster, from_ms, to_ms)

    tasks: dict[str, Callable[[], None]] = {
        each.cluster: partial(look, each) for each in clusters.sources
    }
    for name, error in _WORKERS.run(tasks).items():
        if not isinstance(error, UserError | TimeoutError):
            raise error
        found[name] = unknown(name, str(error))
    return [found[name] for name in tasks]
