"""Brokers and the whole cluster as plain data for the JSON API.

The catalog declares the fields: columns, and the metrics of a level. Unknown is null. Every object
has the time at which it was observed, and its age.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypedDict

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.span import Span
from streaming.questions.single_loss import SingleLoss, single_loss
from twin.arrays import plain
from twin.declarations.declare import Metric
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Column
from twin.engine.catalog import Catalog
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.risks import OpenRisks
from twin.engine.shard_reports import ReportIndex, missing_reports
from twin.engine.shard_state import ShardState
from twin.questions.local_log import topics_with_thresholds
from twin.rules.tiering.coverage import LeastLocalLog
from twin.tables.state import (
    BrokerMetrics,
    Brokers,
    Configs,
    Problems,
)
from twin.totals import Samples, Totals

_OF_RISKS: Final = ("partitions_at_risk", "brokers_at_risk", "at_risk")
"""Metrics of risks, which have fields of their own."""


class RiskCount(TypedDict):
    """How many partitions have a risk; null before anything was observed."""

    partitions: float | None
    severity: str
    meaning: str


class ClusterRisk(TypedDict):
    """Whether a risk of brokers or of the cluster is open; null while that is unknown."""

    open: bool | None
    brokers: list[int] | None
    severity: str
    meaning: str


class ClusterFacts(TypedDict):
    """Facts about a cluster beside its metrics."""

    cluster: str
    up: bool
    why_not_up: str | None
    observations_arrive: bool | None
    not_live: str | None
    past: Span | None
    observations_refused: int
    problems: int | None
    at_risk: int | None
    loss: SingleLoss
    cold_replicas: float | None
    thresholds: LeastLocalLog | None
    topics_with_thresholds: int | None
    election_rules: dict[str, str]  # their titles by name, Kafka's first
    risks: dict[str, RiskCount]
    cluster_risks: dict[str, ClusterRisk]
    shards_not_reported: int | None


def brokers(view: ClusterView, now_ms: int) -> dict[str, Any]:
    """Every broker that is or may be registered: its data, and the effect of losing it."""
    state = view.newest
    if state is None:
        return {"brokers": []}
    listed = state[Brokers]
    plain_columns = {
        c.name: plain.column_values(c, getattr(listed, c.name)) for c in broker_columns()
    }
    sums = by_first_label(state.catalog, view.totals, "broker")
    return {
        "brokers": [
            {
                **{name: values[row] for name, values in plain_columns.items()},
                "rack": listed.rack[row] or None,
                "host": listed.host[row] or None,
                "kafka_version": listed.kafka_version[row] or None,
                **sums.get(str(broker), {}),
                "risks": broker_risks(view, broker),
                "metrics": _broker_metrics(state[BrokerMetrics], broker),
                **observed(int(listed.answered_at_ms[row]), now_ms),
            }
            for row, broker in enumerate(listed.broker.tolist())
        ]
    }


def broker_risks(view: ClusterView, broker: int) -> list[str] | None:
    """The open risks of a broker, the worst first; None while a risk is unknown."""
    if view.cluster is None:
        return None
    names = [risk.name for risk in view.cluster.catalog.risks if risk.per == "broker"]
    return view.cluster[ClusterRisks].of_broker(broker, names)


def broker_columns() -> list[Column]:
    """The columns that are fields of a broker; times are left out, since its age has them."""
    return [c for c in Brokers.columns if c.name not in ("listed_at_ms", "answered_at_ms")]


def summary(
    catalog: Catalog, cluster: str, view: ClusterView, now_ms: int,
    own_topics: Collection[str] = (), not_live: str = "", past: Span | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The cluster at a glance; counts are null before anything was observed.

    ``own_topics`` are the twin's topics, if the bus is on the watched cluster. ``not_live`` says
    what is shown instead of the present, and ``past`` has the moments that can be asked about.
    """
    why_not_up = "; ".join(filter(None, (not_live, view.why_not_up(now_ms))))
    totals, is_known = view.totals, bool(view.shards)

    def if_known(count: Any) -> Any:
        return count if is_known else None

    counts = {}
    for metric in summed_metrics(catalog, "cluster"):
        samples = totals[metric.series_name]
        counts[metric.name] = if_known(nested(samples) if samples or metric.labels else None)
    bits = [shard.state[OpenRisks].bits for shard in view.shards]
    cold = sum(totals["kafka_twin_broker_cold_replicas"].values())
    own = sum(topics_with_thresholds(shard.state) for shard in view.shards)
    listed = view.with_problems
    facts: ClusterFacts = {
        "cluster": cluster,
        "up": not why_not_up,
        "why_not_up": why_not_up or None,
        "observations_arrive": view.bus.observations_arrive,
        "not_live": not_live or None,
        "past": past,
        "observations_refused": sum(view.refused.values()),
        "problems": None if listed is None else len(listed[Problems].broker),
        "at_risk": if_known(sum(int((each != 0).sum()) for each in bits)),
        "loss": single_loss(view, own_topics),
        "cold_replicas": if_known(cold),
        "thresholds": _cluster_thresholds(view.newest),
        "topics_with_thresholds": if_known(own),
        "election_rules": dict(catalog.election_rules),
        "risks": partition_risks(catalog, view),
        "cluster_risks": cluster_risks(catalog, view.cluster),
        "shards_not_reported": shards_not_reported(view.cluster),
    }
    racks = by_first_label(catalog, totals, "rack")
    return {**facts, **counts, "racks": racks, **observed(view.observed_at_ms, now_ms)}


def partition_risks(catalog: Catalog, view: ClusterView) -> dict[str, RiskCount]:
    """The risks of partitions, by name; the worst first."""
    at_risk = view.totals["kafka_twin_partitions_at_risk"]
    return {
        risk.name: {
            "partitions": at_risk.get((risk.name, risk.severity), 0) if view.shards else None,
            "severity": risk.severity,
            "meaning": risk.sentence,
        }
        for risk in catalog.risks
    }


def cluster_risks(catalog: Catalog, own: ShardState | None) -> dict[str, ClusterRisk]:
    """The risks of cluster rules, by name. A risk of the cluster as a whole has no brokers."""
    risks: dict[str, ClusterRisk] = {}
    for risk in catalog.cluster.risks:
        brokers = None if own is None else own[ClusterRisks].brokers(risk.name)
        risks[risk.name] = {
            "open": None if brokers is None else bool(brokers),
            "brokers": brokers if risk.per == "broker" else None,
            "severity": risk.severity,
            "meaning": risk.sentence,
        }
    return risks


def open_cluster_risks(catalog: Catalog, own: ShardState | None) -> dict[str, list[int]]:
    """The open risks of cluster rules, the worst first, with the brokers that have each."""
    risks = cluster_risks(catalog, own)
    return {name: risk["brokers"] or [] for name, risk in risks.items() if risk["open"]}


def shards_not_reported(own: ShardState | None) -> int | None:
    """Shards without a recent report: until all have one, findings of cluster rules are unknown."""
    if own is None:
        return None
    cycle = Cycle(own.observed_at_ms, own.prev_observed_at_ms, UNKNOWN)
    return missing_reports(own[ReportIndex], cycle)


def _cluster_thresholds(newest: ShardState | None) -> LeastLocalLog | None:
    """The cluster-wide thresholds; None before anything was observed."""
    if newest is None:
        return None
    configs = newest[Configs]
    least_ms = configs.cluster_wide("eligible_local_log_ms")
    least_bytes = configs.cluster_wide("eligible_local_log_bytes")
    return {
        "local_log_ms": least_ms if least_ms > 0 else None,
        "local_log_bytes": least_bytes if least_bytes > 0 else None,
    }


def answering(view: ClusterView) -> str:
    """``host:port`` of a broker that answers the twin; empty if none does."""
    if view.newest is None:
        return ""
    brokers = view.newest[Brokers]
    hosts = brokers.host[brokers.answered]
    return next((str(host) for host in hosts if host), "")


def observed(at_ms: int, now_ms: int) -> dict[str, Any]:
    """The time of the observation, and its age."""
    if at_ms == UNKNOWN:
        return {"observed_at_ms": None, "age_seconds": None}
    return {"observed_at_ms": at_ms, "age_seconds": max(now_ms - at_ms, 0) / 1000}


def nested(samples: Mapping[tuple[str, ...], float]) -> Any:
    """Samples as objects nested by label; a number if they have no labels."""
    if () in samples:
        return samples[()]
    tree: dict[str, Any] = {}
    for labels, value in samples.items():
        place = tree
        for label in labels[:-1]:
            place = place.setdefault(label, {})
        place[labels[-1]] = value
    return tree


def summed_metrics(catalog: Catalog, level: str) -> list[Metric]:
    """The metrics of a level that are fields of its objects in the API.

    Metrics that only repeat a broker's report are left out, and those of risks, which have separate
    fields.
    """
    return [
        metric
        for metric in catalog.all_metrics
        if metric.level == level
        and metric.combine != "newest"
        and metric.name not in _OF_RISKS
        and metric.compute is not None
    ]


def by_first_label(catalog: Catalog, totals: Totals, level: str) -> dict[str, dict[str, Any]]:
    """The metrics of that level by broker or rack, then by name."""
    by_label: dict[str, dict[str, Any]] = {}
    for metric in summed_metrics(catalog, level):
        apart: dict[str, Samples] = {}
        for labels, value in totals[metric.series_name].items():
            apart.setdefault(labels[0], {})[labels[1:]] = value
        for first, samples in apart.items():
            by_label.setdefault(first, {})[metric.name] = nested(samples)
    return by_label


def _broker_metrics(metrics: BrokerMetrics, broker: int) -> dict[str, Any] | None:
    """The metrics of one broker's JMX exporter; null means absent."""
    row = np.flatnonzero(metrics.broker == broker)
    if not len(row):
        return None
    return {
        c.name: plain.column_values(c, getattr(metrics, c.name)[row])[0]
        for c in metrics.columns
        if c.name != "broker"
    }
