"""A report over the clusters of a fleet, as plain data. Null is unknown, and never zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from streaming.history.report.model import Line

Severity = Literal["critical", "warning", "info", "ok", "unknown"]


@dataclass(frozen=True, slots=True)
class OpenedRisk:
    """A risk that opened in the span, or was open when it began."""

    risk: str
    severity: Severity
    opened: Annotated[int, Meta(description="times that it opened, of all partitions and brokers")]
    open_s: Annotated[float, Meta(description="for how long, of all of them together")]
    still_open: Annotated[int, Meta(description="of them, those that were open at the end")]


@dataclass(frozen=True, slots=True)
class Judged:
    """How predictions of who leads next turned out."""

    right: int
    wrong: int
    not_judged: Annotated[
        int, Meta(description="overtaken by something else, or they could not be foreseen")
    ]


@dataclass(frozen=True, slots=True)
class IncidentInSpan:
    """A cause, how much followed from it, and the worst of that."""

    cause: Line
    effects: int
    worst: Annotated[str, Meta(description="the worst risk that followed; empty if none did")]
    report: Annotated[str, Meta(description="path of the cluster's own report of it")]


@dataclass(frozen=True, slots=True)
class ClusterInSpan:
    """What happened to one cluster."""

    cluster: str
    severity: Annotated[Severity, Meta(description="of the worst risk; `unknown` without a past")]
    why_unknown: Annotated[str, Meta(description="why nothing is known; empty if something is")]
    begin_ms: Annotated[int | None, Meta(description="where its past within the span begins")]
    end_ms: int | None
    incidents: Annotated[list[IncidentInSpan], Meta(description="the worst of them first")]
    incidents_in_all: int | None
    without_cause: Annotated[int | None, Meta(description="happenings without a known cause")]
    risks: Annotated[list[OpenedRisk], Meta(description="the worst first")]
    judged: Judged | None
    not_known: list[str]
    report: Annotated[str, Meta(description="path of the cluster's own report of the span")]


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What happened to each cluster between two moments."""

    begin_ms: int
    end_ms: int
    clusters: Annotated[list[ClusterInSpan], Meta(description="worst first")]
