"""The fleet at a glance: a row a cluster, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from streaming.exporter.view_source import ViewSource
from twin.declarations.table import UNKNOWN


class FleetRow(TypedDict):
    """One cluster. What is not known is null."""

    cluster: str
    labels: Mapping[str, str]
    up: bool
    why_not_up: str
    age_ms: int | None


class Fleet(TypedDict):
    """All clusters, and the values of each label."""

    clusters: Sequence[FleetRow]
    labels: Mapping[str, Sequence[str]]


def fleet(sources: Iterable[ViewSource]) -> Fleet:
    """The row of each cluster, those that are not up first, then by name."""
    rows = sorted(map(row, sources), key=lambda each: (each["up"], each["cluster"]))
    pairs = sorted({pair for each in rows for pair in each["labels"].items()})
    labels: dict[str, list[str]] = {}
    for name, value in pairs:
        labels.setdefault(name, []).append(value)
    return {"clusters": rows, "labels": labels}


def row(source: ViewSource) -> FleetRow:
    """The row of a cluster."""
    why, observed_at_ms = source.why_not_up, source.view.observed_at_ms
    age_ms = None if observed_at_ms == UNKNOWN else source.now_ms() - observed_at_ms
    return {
        "cluster": source.cluster,
        "labels": source.labels,
        "up": not why,
        "why_not_up": why,
        "age_ms": age_ms,
    }
