"""The report over a fleet as a document. All texts are plain, as those of a cluster's report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import quote

from streaming.history.moment import time_text
from streaming.history.report.fleet_model import ClusterInSpan, FleetReport
from streaming.history.report.writing.markdown import markdown
from streaming.history.report.writing.page import page
from streaming.history.report.writing.parts import (
    UNKNOWN,
    Document,
    Item,
    Section,
    TextTable,
    plain,
)
from streaming.runtime.quantities import duration_text
from twin.arrays.plain import counted

MOST_RISKS: Final = 5
MOST_CLUSTERS: Final = 200
"""Sections and rows; the JSON has all."""


def rendered_fleet(report: FleetReport, form: Literal["md", "html"], console: str) -> str:
    """The report in Markdown or HTML.

    Args:
        report: as it was made, or as an exporter sent it.
        form: the format.
        console: URL of the fleet's page, with a slash at its end.
    """
    told = fleet_document(report)
    return markdown(told, console) if form == "md" else page(told, console, "")


def fleet_document(report: FleetReport) -> Document:
    """The report in the order in which it is read."""
    shown = report.clusters[:MOST_CLUSTERS]
    known = [each for each in shown if not each.why_unknown]
    hurt = [each for each in known if each.incidents or each.risks]
    return Document(
        f"What happened to {counted(len(report.clusters), 'cluster')}",
        f"{time_text(report.begin_ms)} to {time_text(report.end_ms)}",
        [
            _in_short(report),
            _table(shown),
            _forecasts(known),
            *(_cluster(each) for each in hurt),
            *_unknown([each for each in shown if each.why_unknown]),
        ],
    )


def _in_short(report: FleetReport) -> Section:
    each = report.clusters
    hurt = [one for one in each if one.severity in ("critical", "warning")]
    items = [
        f"{len(hurt)} of {counted(len(each), 'cluster')} had risks that warn or page somebody"
        + (f", {plain(hurt[0].cluster)} the worst." if hurt else ".")
    ]
    off = sum(one.judged.wrong for one in each if one.judged is not None)
    wrong = sum(1 for one in each if one.judged is not None and one.judged.wrong)
    items.append(
        f"{counted(off, 'prediction was', 'predictions were')} wrong, in "
        f"{counted(wrong, 'cluster')}."
        if off
        else "No prediction of who leads next was wrong."
    )
    if missing := sum(1 for one in each if one.why_unknown):
        items.append(f"Of {counted(missing, 'cluster')} nothing is known.")
    if len(each) > MOST_CLUSTERS:
        items.append(f"The first {MOST_CLUSTERS} are shown; the JSON has all.")
    return Section("In short", items=[Item(text) for text in items])


def _table(clusters: Sequence[ClusterInSpan]) -> Section:
    rows = [
        (
            plain(each.cluster), each.severity, _number(each.incidents_in_all),
            ", ".join(plain(risk.risk) for risk in each.risks[:MOST_RISKS])
            or (UNKNOWN if each.why_unknown else "none"),
        )
        for each in clusters
    ]  # fmt: skip
    header = ("cluster", "severity", "incidents", "risks")
    return Section("Clusters, worst first", table=TextTable(header, rows))


def _forecasts(clusters: Sequence[ClusterInSpan]) -> Section:
    title = "Whose forecasts were off"
    judged = [(each, each.judged) for each in clusters if each.judged is not None]
    some = [(each, of) for each, of in judged if of.right or of.wrong or of.not_judged]
    if not some:
        return Section(title, ["No leader changed as had been predicted, or otherwise."])
    some.sort(key=lambda pair: (-pair[1].wrong, pair[0].cluster))
    rows = [
        (plain(each.cluster), str(of.right), str(of.wrong), str(of.not_judged)) for each, of in some
    ]
    header = ("cluster", "right", "wrong", "not judged")
    return Section(title, ["Who leads next, as it was predicted for each change of a leader."],
                   table=TextTable(header, rows))  # fmt: skip


def _cluster(each: ClusterInSpan) -> Section:
    below = f"clusters/{quote(each.cluster, safe='')}/"
    items = [Item("the report of the whole span", path=each.report)]
    for incident in each.incidents:
        more = f", worst {plain(incident.worst)}" if incident.worst else ""
        note = f"{counted(incident.effects, 'effect')}{more}"
        items.append(
            Item(plain(incident.cause.text), incident.cause.at_ms, note=note,
                 path=incident.report)
        )  # fmt: skip
    left_out = (each.incidents_in_all or 0) - len(each.incidents)
    if left_out:
        items.append(Item(counted(left_out, "more incident")))
    if each.without_cause:
        items.append(Item(f"{counted(each.without_cause, 'happening')} without a known cause"))
    for risk in each.risks[:MOST_RISKS]:
        still = f", {risk.still_open} still open" if risk.still_open else ""
        times, lasted = counted(risk.opened, "time"), duration_text(risk.open_s)
        name = f"{plain(risk.risk)} ({risk.severity})"
        items.append(Item(f"{name}: opened {times}, for {lasted} together{still}"))
    items += [Item(plain(text)) for text in each.not_known]
    return Section(plain(each.cluster), items=items, path=below)


def _unknown(clusters: Sequence[ClusterInSpan]) -> Sequence[Section]:
    items = [Item(f"{plain(each.cluster)}: {plain(each.why_unknown)}") for each in clusters]
    return [Section("Of which nothing is known", items=items)] if items else []


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
