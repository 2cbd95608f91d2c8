"""What happened to the clusters of a fleet between two moments: of events alone.

A report of one cluster steps through its cycles, of which it takes two thousand. A week of many
clusters has millions: here their events are read, and each incident leads to the cluster's own
report of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from streaming.history.moment import time_text
from streaming.history.past import Past
from streaming.history.report.causes import links
from streaming.history.report.fleet_model import (
    ClusterInSpan,
    FleetReport,
    IncidentInSpan,
    Judged,
    OpenedRisk,
    Severity,
)
from streaming.history.report.happenings import Happening, Place, read
from streaming.history.report.incidents import told
from streaming.history.report.model import Incident
from streaming.runtime.errors import UserError
from twin.arrays.plain import counted
from twin.engine.catalog import Catalog

MOST_INCIDENTS: Final = 20
"""Of a cluster; its own reports have all."""

SEVERITIES: Final[Mapping[str, Severity]] = {"page": "critical", "warn": "warning", "info": "info"}

_WORST_FIRST: Final[Sequence[Severity]] = ("critical", "warning", "unknown", "info", "ok")
"""What is unknown may be bad; what warns is."""

_AROUND_MS: Final = 60_000
_LONGEST_MS: Final = 1_800_000
"""Of the span of an incident's own report."""

_OPENED: Final = "risk_opened/"
_CLOSED: Final = "risk_closed/"


@dataclass(frozen=True, slots=True)
class _Known:
    """The risks that a catalog has: severity and rank, the worst 1."""

    severity: Mapping[str, Severity]
    rank: Mapping[str, int]

    @classmethod
    def of(cls, catalog: Catalog) -> _Known:
        return cls(
            {each.name: SEVERITIES[each.severity] for each in catalog.all_risks},
            {each.name: each.rank for each in catalog.all_risks},
        )

    def order(self, risk: str) -> tuple[int, int]:
        """Worst first; a risk of a package that is not installed last."""
        severity = _WORST_FIRST.index(self.severity.get(risk, "info"))
        return severity, self.rank.get(risk, 1 << 30)


def fleet_report(clusters: Sequence[ClusterInSpan], from_ms: int, to_ms: int) -> FleetReport:
    """The report over clusters, worst first."""

    def order(each: ClusterInSpan) -> tuple[int, int, float, str]:
        worst = [risk for risk in each.risks if risk.severity == each.severity]
        harm = sum(risk.open_s for risk in worst)
        return (_WORST_FIRST.index(each.severity), -(each.incidents_in_all or 0), -harm,
                each.cluster)  # fmt: skip

    return FleetReport(from_ms, to_ms, sorted(clusters, key=order))


def in_span(
    past: Past | None, catalog: Catalog, cluster: str, from_ms: int, to_ms: int
) -> ClusterInSpan:
    """What happened to one cluster; a past that is missing or broken is said.

    Args:
        past: where its events are; None if nothing is kept.
        catalog: the rules that made them.
        cluster: its name.
        from_ms: where the span begins.
        to_ms: where it ends.
    """
    try:
        if past is None:
            return unknown(cluster, "no past of it is kept: archive.path is not set")
        begin_ms, end_ms = max(from_ms, past.span.begin_ms), min(to_ms, past.span.end_ms)
        if begin_ms > end_ms:
            has = f"{time_text(past.span.begin_ms)} to {time_text(past.span.end_ms)}"
            return unknown(cluster, f"its past is from {has}")
        # An event of the first moment is one of the span.
        events = read(past.events(begin_ms, end_ms), begin_ms - 1, end_ms)
    except UserError as error:
        return unknown(cluster, str(error))
    known = _Known.of(catalog)
    timeline = told(events.happenings, links(events.happenings, 0), {})
    worst = sorted(timeline.incidents, key=lambda each: _order(each, known))
    risks = _risks(events.happenings, known, begin_ms, end_ms)
    judged = Counter(e.name for e in events.happenings if e.kind == "prediction_judged")
    not_known = []
    if begin_ms > from_ms:
        not_known.append(f"its past begins at {time_text(begin_ms)}")
    if end_ms < to_ms:
        not_known.append(f"its past ends at {time_text(end_ms)}")
    if events.is_cut:
        not_known.append(f"the events were cut after {events.total}")
    if events.unreadable:
        not_known.append(f"{counted(events.unreadable, 'event')} could not be read")
    return ClusterInSpan(
        cluster,
        risks[0].severity if risks else "ok",
        "",
        begin_ms,
        end_ms,
        [_shown(each, known, cluster, begin_ms, end_ms) for each in worst[:MOST_INCIDENTS]],
        len(worst),
        sum(line.count for line in timeline.no_cause),
        risks,
        Judged(judged["right"], judged["wrong"],
               judged.total() - judged["right"] - judged["wrong"]),
        not_known,
        report_path(cluster, begin_ms, end_ms),
    )  # fmt: skip


def report_path(cluster: str, from_ms: int, to_ms: int) -> str:
    """The path of a cluster's own report, below the fleet's page."""
    span = urlencode({"from": time_text(from_ms), "to": time_text(to_ms), "format": "html"})
    return f"clusters/{quote(cluster, safe='')}/api/v1/report?{span}"


def unknown(cluster: str, why: str) -> ClusterInSpan:
    """A cluster of which nothing is known, and why."""
    return ClusterInSpan(cluster, "unknown", why, None, None, [], None, None, [], None, [], "")


def _order(incident: Incident, known: _Known) -> tuple[tuple[int, int], int, int]:
    """Worst first, then what most followed from, then the newest."""
    worst = min(map(known.order, _risks_of(incident)), default=known.order(""))
    return worst, -_effects(incident), -incident.cause.at_ms


def _risks_of(incident: Incident) -> list[str]:
    kinds = (each.line.kind for each in incident.effects)
    return [kind.removeprefix(_OPENED) for kind in kinds if kind.startswith(_OPENED)]


def _effects(incident: Incident) -> int:
    return sum(each.line.count for each in incident.effects)


def _shown(
    incident: Incident, known: _Known, cluster: str, begin_ms: int, end_ms: int
) -> IncidentInSpan:
    ends = [incident.cause.until_ms, *(each.line.until_ms for each in incident.effects)]
    begin_ms = max(begin_ms, incident.cause.at_ms - _AROUND_MS)
    end_ms = min(end_ms, max(ends) + _AROUND_MS, begin_ms + _LONGEST_MS)
    return IncidentInSpan(
        incident.cause,
        _effects(incident),
        min(_risks_of(incident), key=known.order, default=""),
        report_path(cluster, begin_ms, end_ms),
    )


def _risks(
    happenings: Sequence[Happening], known: _Known, begin_ms: int, end_ms: int
) -> list[OpenedRisk]:
    """By risk, how often it opened and for how long it was open.

    One that closed without having opened was open when the span began.
    """
    since: dict[tuple[str, Place, int], int] = {}
    opened, open_ms, still = Counter[str](), Counter[str](), Counter[str]()
    for each in happenings:
        action, slash, risk = each.kind.partition("/")
        key = risk, each.place, each.broker
        if not slash:
            continue
        if f"{action}/" == _OPENED:
            opened[risk] += 1
            since.setdefault(key, each.at_ms)
        elif f"{action}/" == _CLOSED:
            open_ms[risk] += each.at_ms - since.pop(key, begin_ms)
    for (risk, _, _), at_ms in since.items():
        open_ms[risk] += end_ms - at_ms
        still[risk] += 1
    names = sorted(opened.keys() | open_ms.keys(), key=known.order)
    return [
        OpenedRisk(name, known.severity.get(name, "info"), opened[name], open_ms[name] / 1_000,
                   still[name])
        for name in names
    ]  # fmt: skip
