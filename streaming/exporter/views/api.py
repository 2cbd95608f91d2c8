"""Partitions, brokers and the whole cluster as plain data for the JSON API.

The catalog declares the fields: the columns of tables with an ``api`` name, the API fields, and the
metrics. Unknown is null. Every object has the time at which it was observed, and its age.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

import numpy as np

from streaming.bus.view import ClusterView
from streaming.history.span import Span
from streaming.questions.parameters import (
    DEFAULT_ROWS,
    limit,
    number,
    offset,
    one_of,
    text,
    yes_or_no,
)
from streaming.questions.single_loss import SingleLoss, single_loss
from streaming.runtime.kafka.uuids import uuid_text
from twin.arrays import plain
from twin.declarations.declare import Metric
from twin.declarations.signature import Cycle
from twin.declarations.table import UNKNOWN, Bool, Column, PartitionTable, ReplicaTable, Rows, Table
from twin.engine.catalog import Catalog
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.risks import OpenRisks
from twin.engine.shard_reports import ReportIndex, missing_reports
from twin.engine.shard_state import ShardState
from twin.questions.whatif import brokers_in
from twin.questions.whatif_settings import topics_with_thresholds
from twin.rules.election.redundancy import Redundancy, Spare
from twin.rules.tiering.coverage import LeastLocalLog
from twin.tables.state import (
    Assignment,
    BrokerMetrics,
    Brokers,
    Configs,
    PartitionIndex,
    Partitions,
    Problems,
    Replicas,
    Topics,
)
from twin.totals import Samples, Totals

ALL_RISKS: Final = -1
"""As a filter: any risk."""

_NO_RISK: Final = np.int64(1) << 62
"""For sorting: after every risk."""


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


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A selection of partitions."""

    topic: Annotated[str, text("partitions of this topic")] = ""
    partition: Annotated[int, number("partitions of this number")] = UNKNOWN
    search: Annotated[
        str,
        text(
            "partitions whose topic's name contains this, or whose own name (`orders-1`) does, in "
            "upper or lower case"
        ),
    ] = ""
    broker: Annotated[int, number("partitions that have a replica on this broker")] = UNKNOWN
    rack: Annotated[str, text("partitions that have a replica on a broker of this rack")] = ""
    at_risk: Annotated[bool, yes_or_no("partitions that have any risk")] = False
    risk: Annotated[
        int,
        one_of(
            "partitions that have this risk, by its name in the [runbook](runbook.md)",
            lambda catalog: {name: 1 << bit for bit, name in enumerate(catalog.risk_names)},
        ),
    ] = 0
    redundancy: Annotated[
        int,
        one_of(
            "partitions that can do without one replica, or cannot",
            {each.name.lower(): int(each) for each in Spare},
        ),
    ] = UNKNOWN
    sort: Annotated[str, one_of("`worst`: those with the worst risk first", {"worst": "worst"})] = (
        ""
    )
    limit: Annotated[int, limit("partitions")] = DEFAULT_ROWS
    offset: Annotated[int, offset("partitions")] = 0

    @property
    def risks(self) -> int:
        """The bits of risks of which a partition must have one; 0 if it need not."""
        return self.risk or (ALL_RISKS if self.at_risk else 0)

    def matching(self, state: ShardState) -> Rows:
        """[N] the matching rows of a shard."""
        index = state[PartitionIndex]
        matches = np.ones(state.partitions, bool)
        if self.topic:
            matches &= (state[Topics].topic == self.topic)[index.topic_index]
        if self.partition != UNKNOWN:
            matches &= index.partition == self.partition
        if self.search:
            matches &= _named_like(state, self.search)
        if self.broker != UNKNOWN:
            matches &= _has_replica_on(state, [self.broker])
        if self.rack:
            matches &= _has_replica_on(state, brokers_in(state, [self.rack]))
        if self.redundancy != UNKNOWN:
            matches &= state[Redundancy].redundancy == self.redundancy
        if self.risks:
            matches &= (state[OpenRisks].bits & self.risks) != 0
        return np.flatnonzero(matches)


def _named_like(state: ShardState, text: str) -> Bool:
    """[P] whether the name of the topic or of the partition (``orders-1``) contains the text."""
    text, index = text.lower(), state[PartitionIndex]
    topics = [name.lower() for name in state[Topics].topic.tolist()]
    matches = np.array([text in name for name in topics], bool)[index.topic_index]
    topic, dash, number = text.rpartition("-")
    if dash and number.isascii() and number.isdecimal():
        # "orders-1" is the beginning of orders-1, orders-10, orders-11 and so on.
        ends = np.array([name.endswith(topic) for name in topics], bool)[index.topic_index]
        numbered = [str(each).startswith(number) for each in index.partition[ends].tolist()]
        matches[np.flatnonzero(ends)[numbered]] = True
    return matches


def _has_replica_on(state: ShardState, brokers: Sequence[int]) -> Bool:
    """[P] whether one of the assigned replicas is on one of those brokers."""
    assigned = np.arange(state.slots) < state[Partitions].assigned[:, None]
    has_replica = np.zeros(state.partitions, bool)
    has_replica |= (np.isin(state[Assignment].broker, brokers) & assigned).any(axis=1)
    return has_replica


def partitions(view: ClusterView, selection: PartitionFilter, now_ms: int) -> dict[str, Any]:
    """A page of the matching partitions, and the number of all matching ones.

    They are in the order of shard, topic and number. With a filter or sort order by risk, the worst
    risk comes first.
    """
    states = [shard.state for shard in view.shards]
    matching = [selection.matching(state) for state in states]
    total = sum(map(len, matching))
    if not total:
        return {"total": 0, "partitions": []}
    row = np.concatenate(matching)
    shard = np.repeat(np.arange(len(states)), [len(rows) for rows in matching])
    first, last = selection.offset, selection.offset + selection.limit
    page = np.arange(total)[first:last]
    if selection.risks or selection.sort:
        bits = [state[OpenRisks].bits[rows] for state, rows in zip(states, matching, strict=True)]
        risks = np.concatenate(bits)
        # The lowest bit is the risk that a person would act on first.
        worst = np.where(risks == 0, _NO_RISK, risks & -risks)
        page = np.argsort(worst, kind="stable")[first:last]
    by_place: dict[int, dict[str, Any]] = {}
    for shard_number in np.unique(shard[page]).tolist():
        here = page[shard[page] == shard_number]
        by_place |= zip(
            here.tolist(), partition_objects(states[shard_number], row[here], now_ms), strict=True
        )
    return {"total": total, "partitions": [by_place[place] for place in page.tolist()]}


def partition_objects(state: ShardState, rows: Rows, now_ms: int) -> list[dict[str, Any]]:
    """The objects of those rows. Tables on demand are computed for these rows only."""
    if not len(rows):
        return []
    page = state.take(rows)
    index, described_at_ms = page[PartitionIndex], page[Partitions].described_at_ms
    ids = page[Topics].topic_id[index.topic_index]
    objects: list[dict[str, Any]] = [
        {"topic": topic, "topic_id": uuid_text(topic_id), "partition": number}
        for topic, topic_id, number in zip(
            page.topic_names().tolist(), ids.tolist(), index.partition.tolist(), strict=True
        )
    ]
    for table in api_tables(page.catalog, PartitionTable):
        _add(objects, table.api or "", _columns(page[table]))
    names = page.catalog.risk_names
    for partition, bits in zip(objects, page[OpenRisks].bits.tolist(), strict=True):
        partition["risks"] = [name for number, name in enumerate(names) if bits >> number & 1]
    for field in page.catalog.api_fields:
        for partition, value in zip(objects, page.call(field.values, field.reads), strict=True):
            partition[field.name] = value
    for row, (partition, replicas) in enumerate(zip(objects, _replicas(page, now_ms), strict=True)):
        if described_at_ms[row] == UNKNOWN:
            partition["leader"] = None  # -1 would mean that there is none
        partition["replicas"] = replicas
        partition |= observed(int(described_at_ms[row]), now_ms)
    return objects


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
    risks: dict[str, RiskCount] = {
        risk.name: {
            "partitions": if_known(
                totals.value("kafka_twin_partitions_at_risk", risk.name, risk.severity)
            ),
            "severity": risk.severity,
            "meaning": risk.sentence,
        }
        for risk in catalog.risks
    }
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
        "risks": risks,
        "cluster_risks": _cluster_risks(catalog, view.cluster),
        "shards_not_reported": shards_not_reported(view.cluster),
    }
    racks = by_first_label(catalog, totals, "rack")
    return {**facts, **counts, "racks": racks, **observed(view.observed_at_ms, now_ms)}


def _cluster_risks(catalog: Catalog, own: ShardState | None) -> dict[str, ClusterRisk]:
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
    risks = _cluster_risks(catalog, own)
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


# ---------------------------------------------------------------- inside


def api_tables(catalog: Catalog, kind: type[Table]) -> list[type[Any]]:
    """The tables of that kind that have columns in the API."""
    tables = (*catalog.stored, *catalog.on_demand)
    return [table for table in tables if issubclass(table, kind) and table.api is not None]


def _columns(table: PartitionTable | ReplicaTable, at: Any = slice(None)) -> dict[str, list[Any]]:
    """The fields of a table for those rows or replicas; each flag is a separate field."""
    fields: dict[str, list[Any]] = {}
    for c in table.columns:
        if c.in_api:
            values = getattr(table, c.name)[at]
            fields |= plain.flag_values(c, values) or {c.name: plain.column_values(c, values)}
    return fields


def _add(objects: list[dict[str, Any]], name: str, columns: dict[str, list[Any]]) -> None:
    """Add the columns as fields of the objects; a name a.b is a field b of the nested object a."""
    path = name.split(".") if name else ()
    for row, target in enumerate(objects):
        place = target
        for part in path:
            place = place.setdefault(part, {})
        for column, values in columns.items():
            place[column] = values[row]


def _replicas(page: ShardState, now_ms: int) -> list[list[dict[str, Any]]]:
    """The assigned replicas of each row, in assignment order."""
    row, slot = np.nonzero(np.arange(page.slots) < page[Partitions].assigned[:, None])
    brokers = page[Assignment].broker[row, slot].tolist()
    objects: list[dict[str, Any]] = [{"broker": broker} for broker in brokers]
    for table in api_tables(page.catalog, ReplicaTable):
        _add(objects, table.api or "", _columns(page[table], (row, slot)))
    sampled_at_ms = page[Replicas].sampled_at_ms[row, slot].tolist()
    dated = (
        each | observed(at_ms, now_ms) for each, at_ms in zip(objects, sampled_at_ms, strict=True)
    )
    return plain.by_partition(row, dated, page.partitions)


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
