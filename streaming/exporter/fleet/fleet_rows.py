"""The fleet at a glance: a row a cluster, worst first.

What follows from a view is computed once while it is the newest; only what the clock changes is
computed for each call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TypedDict

import structlog

from streaming.bus.view import ClusterView
from streaming.exporter.fleet.horizons import Horizon, disk_horizon, tier_horizon
from streaming.exporter.fleet.kafka_versions import kafka_version_of
from streaming.exporter.fleet.worst_thing import (
    SEVERITY_OF,
    Known,
    Severity,
    WorstThing,
    not_up,
    worst_thing,
)
from streaming.exporter.view_source import ViewSource
from streaming.exporter.views import cluster as cluster_views
from streaming.questions.headline.worst_losses import (
    WorstBroker,
    WorstRack,
    worst_broker,
    worst_rack,
)
from streaming.questions.single_loss import single_loss
from twin.declarations.table import UNKNOWN
from twin.rules.election.predictions import Result
from twin.tables.state import Brokers
from twin.totals import Totals

log = structlog.get_logger("exporter")


class TrackRecord(TypedDict):
    """Leader changes by how they had been predicted; overtaken and unforeseen ones are not
    judged."""

    right: int
    wrong: int
    not_judged: int


class FleetRow(TypedDict):
    """One cluster. What is not known is null, and what is not ``up`` is as it was known last.

    ``sentence`` is the worst true thing about the cluster, and ``severity`` how bad that is.
    ``risks``: by severity and name, the partitions or brokers that have each open risk; 1 for a
    risk of the cluster as a whole. ``loss`` and ``rack_loss`` are about the worst broker and rack;
    null where each broker can be lost, and where there are no two racks; ``can_lose`` says whether
    any one broker can be lost. ``disk_full_at_ms`` and ``tier_full_at_ms``: the earliest time at
    which a disk is full, as things are and if remote storage is away from now on; the forecasts
    beside them say why there is none. ``kafka_version`` is that of the brokers that are listed,
    from the lowest to the highest where they differ.
    """

    cluster: str
    labels: Mapping[str, str]
    sentence: str
    severity: Severity
    up: bool
    why_not_up: str | None
    observed_at_ms: int | None
    age_ms: int | None
    risks: Mapping[str, Mapping[str, int]] | None
    can_lose: bool | None
    loss: WorstBroker | None
    rack_loss: WorstRack | None
    disk_full_at_ms: int | None
    disk_forecast: str
    tier_full_at_ms: int | None
    tier_forecast: str
    track: TrackRecord | None
    brokers: int | None
    partitions: int | None
    kafka_version: str | None


class Fleet(TypedDict):
    """All clusters, the worst first, and the values of each label."""

    clusters: Sequence[FleetRow]
    labels: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class _OfView:
    """What follows from a view alone."""

    view: ClusterView
    worst: WorstThing
    risks: Mapping[str, Mapping[str, int]] | None
    can_lose: bool | None
    loss: WorstBroker | None
    rack_loss: WorstRack | None
    disk: Horizon
    tier: Horizon
    track: TrackRecord | None
    brokers: int | None
    partitions: int | None
    kafka_version: str | None

    def still_holds(self, view: ClusterView) -> bool:
        """Whether nothing newer was observed: what was learned of the bus changes none of it."""
        kept = self.view
        return (
            kept.cluster is view.cluster
            and len(kept.shards) == len(view.shards)
            and all(map(is_, kept.shards, view.shards))
        )


class FleetRows:
    """Makes the rows of all clusters, and keeps what follows from their newest views."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[ViewSource, _OfView]] = {}

    def fleet(self, sources: Iterable[ViewSource]) -> Fleet:
        """All rows, the worst first, then by name."""
        with self._lock:  # who asks at the same time waits for these, and computes nothing
            kept = {each.cluster: (each, self._of_view(each)) for each in sources}
            self._kept = kept
        pairs = [_row(source, of_view) for source, of_view in kept.values()]
        pairs.sort(key=lambda pair: (pair[0].rank, -pair[0].weight, pair[1]["cluster"]))
        rows = [row for _, row in pairs]
        return {"clusters": rows, "labels": _labels(rows)}

    def _of_view(self, source: ViewSource) -> _OfView:
        view = source.view
        before, of_view = self._kept.get(source.cluster, (None, None))
        if before is source and of_view is not None and of_view.still_holds(view):
            return of_view
        try:
            return _of_view(source, view)
        except Exception as error:  # of one cluster, that of a plugin perhaps: others have rows
            log.exception("a cluster has no row", cluster=source.cluster)
            return _not_judged(view, f"{type(error).__name__}: {error}")


def _row(source: ViewSource, of_view: _OfView) -> tuple[WorstThing, FleetRow]:
    why, now_ms = source.why_not_up, source.now_ms()
    observed_at_ms = of_view.view.observed_at_ms
    is_observed = observed_at_ms != UNKNOWN
    worst = not_up(why) if why else of_view.worst
    return worst, {
        "cluster": source.cluster,
        "labels": source.labels,
        "sentence": worst.sentence,
        "severity": worst.severity,
        "up": not why,
        "why_not_up": why or None,
        "observed_at_ms": observed_at_ms if is_observed else None,
        "age_ms": max(now_ms - observed_at_ms, 0) if is_observed else None,
        "risks": of_view.risks,
        "can_lose": of_view.can_lose,
        "loss": of_view.loss,
        "rack_loss": of_view.rack_loss,
        "disk_full_at_ms": of_view.disk.at_ms,
        "disk_forecast": of_view.disk.forecast,
        "tier_full_at_ms": of_view.tier.at_ms,
        "tier_forecast": of_view.tier.forecast,
        "track": of_view.track,
        "brokers": of_view.brokers,
        "partitions": of_view.partitions,
        "kafka_version": of_view.kafka_version,
    }


def _of_view(source: ViewSource, view: ClusterView) -> _OfView:
    totals, newest = view.totals, view.newest
    loss = single_loss(view, source.own_topics)
    can, cannot = loss["can_be_lost"], loss["cannot_be_lost"]
    known = Known(
        source.catalog,
        view,
        cluster_views.partition_risks(source.catalog, view),
        cluster_views.cluster_risks(source.catalog, view.cluster),
        loss,
        worst_broker(totals, cannot),
        worst_rack(view),
    )
    return _OfView(
        view=view,
        worst=worst_thing(known) if newest else not_up("nothing was observed yet"),
        risks=_risks(known) if newest else None,
        can_lose=not cannot if can or cannot else None,
        loss=known.worst_broker,
        rack_loss=known.worst_rack,
        disk=disk_horizon(view.cluster),
        tier=tier_horizon(view.cluster),
        track=_track(totals) if newest else None,
        brokers=int(newest[Brokers].listed.sum()) if newest else None,
        partitions=int(totals.value("kafka_twin_partitions")) if newest else None,
        kafka_version=kafka_version_of(newest[Brokers]) if newest else None,
    )


def _not_judged(view: ClusterView, why: str) -> _OfView:
    """Nothing but that there is no row, and why."""
    return _OfView(
        view=view, worst=not_up(f"this cluster cannot be judged: {why}"), risks=None, can_lose=None,
        loss=None, rack_loss=None, disk=disk_horizon(None), tier=tier_horizon(None), track=None,
        brokers=None, partitions=None, kafka_version=None,
    )  # fmt: skip


def _risks(known: Known) -> Mapping[str, Mapping[str, int]]:
    """Open risks by severity and name, with how many partitions or brokers have each."""
    risks: dict[str, dict[str, int]] = {severity: {} for severity in SEVERITY_OF.values()}
    for name, of_cluster in known.cluster_risks.items():
        if of_cluster["open"]:
            brokers = of_cluster["brokers"]
            risks[SEVERITY_OF[of_cluster["severity"]]][name] = len(brokers) if brokers else 1
    for name, of_partitions in known.risks.items():
        if of_partitions["partitions"]:
            count = int(of_partitions["partitions"])
            risks[SEVERITY_OF[of_partitions["severity"]]][name] = count
    return risks


def _track(totals: Totals) -> TrackRecord:
    counts: Counter[str] = Counter()
    for (_, result), count in totals["kafka_twin_predictions_total"].items():
        counts[result] += int(count)
    right, wrong = (counts.pop(each.name.lower(), 0) for each in (Result.RIGHT, Result.WRONG))
    return {"right": right, "wrong": wrong, "not_judged": counts.total()}


def _labels(rows: Iterable[FleetRow]) -> Mapping[str, Sequence[str]]:
    values: dict[str, list[str]] = {}
    for name, value in sorted({pair for row in rows for pair in row["labels"].items()}):
        values.setdefault(name, []).append(value)
    return values
