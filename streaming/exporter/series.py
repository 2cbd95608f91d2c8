"""Per-partition and per-replica series of one fleet as lines of text, fast.

Label text is made once for a set of partitions and kept while it stays; numbers become text in
bulk. The official client takes 7 us a sample, this takes a fraction of one, and says the same
(prometheus_client's own parser reads it in the tests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.fleet import Array, Fleet
from twin.rules import upload
from twin.rules.balance import seconds_to_eligible
from twin.rules.bootstrap import bootstrap
from twin.rules.coverage import held_bytes, span_ms, timestamp_suspect
from twin.rules.joining import active, progress, seconds_left, seconds_to_lead
from twin.rules.replication import lag_records
from twin.rules.risks import RULES, isr_size
from twin.tables import UNKNOWN, Coverage, Slot
from twin.totals import FEATURE

LEADER_OFFSETS = (
    "log_start_offset", "local_log_start_offset", "log_end_offset", "last_tiered_offset",
    "pending_upload_offset",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Labels:
    """Label text of chosen rows: [N] of partitions, and of their replicas in slot order."""

    rows: Array
    partition: list[str]
    replica: list[str]
    place: Array  # [M] flat place of each replica in the fleet's [P, R] tables


def escaped(value: str) -> str:
    """A label value as the text format wants it."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def labels_of(fleet: Fleet, rows: Array) -> Labels:
    """Label text of those rows."""
    cluster = escaped(fleet.cluster)
    racks = dict(zip(fleet.brokers.broker.tolist(), fleet.brokers.rack.tolist(), strict=True))
    names = [escaped(name) for name in fleet.topics.topic.tolist()]
    partition = [
        f'cluster="{cluster}",topic="{names[topic]}",partition="{number}"'
        for topic, number in zip(
            fleet.topic_index[rows].tolist(), fleet.partition[rows].tolist(), strict=True
        )
    ]
    row, slot = np.nonzero(fleet.present[rows])
    tails = {
        broker: f',broker="{broker}",rack="{escaped(racks.get(broker, ""))}"'
        for broker in np.unique(fleet.broker).tolist()
    }
    brokers = fleet.broker[rows][row, slot].tolist()
    replica = [
        partition[i] + tails[broker] for i, broker in zip(row.tolist(), brokers, strict=True)
    ]
    return Labels(rows, partition, replica, rows[row] * fleet.slots + slot)


def same_labels(one: Fleet, other: Fleet) -> bool:
    """The two have the same partitions, replicas and racks, so the same label text."""
    return (
        np.array_equal(one.topics.topic, other.topics.topic)
        and np.array_equal(one.topic_index, other.topic_index)
        and np.array_equal(one.partition, other.partition)
        and np.array_equal(one.assigned, other.assigned)
        and np.array_equal(one.broker, other.broker)
        and np.array_equal(one.brokers.broker, other.brokers.broker)
        and np.array_equal(one.brokers.rack, other.brokers.rack)
    )


def partition_series(fleet: Fleet, labels: Labels) -> Iterator[tuple[str, list[str]]]:
    """(metric, lines) of every per-partition family; unknown values are left out."""
    rows, text = labels.rows, labels.partition
    described = fleet.described_at_ms[rows] != UNKNOWN
    elr = (fleet.marked(Slot.IN_ELR) & fleet.present).sum(axis=1)[rows]
    values: dict[str, Array] = {
        "leader_epoch": _or_unknown(fleet.leader_epoch[rows], described),
        "isr_size": _or_unknown(isr_size(fleet)[rows], described),
        "elr_size": _or_unknown(elr, described & fleet.elr_known[rows]),
        "replicas": _or_unknown(fleet.assigned[rows], described),
    }
    values["upload_lag_records"] = upload.lag_records(fleet)[rows]
    for name in LEADER_OFFSETS:
        values[name] = fleet.of_leader(getattr(fleet, name))[rows]
    # A missing leader is a value: that there is none is known.
    yield _family("partition_leader", text, fleet.leader[rows], described)
    for name, value in values.items():
        yield _family(f"partition_{name}", text, value, value != UNKNOWN)
    rate, lag_bytes = fleet.appended_per_s[rows], upload.lag_bytes(fleet)[rows]
    yield _family("partition_appended_records_per_second", text, rate, rate != UNKNOWN)
    yield _family("partition_upload_lag_bytes", text, lag_bytes, ~np.isnan(lag_bytes))
    cold = fleet.cold_read_records[rows]
    yield _family("partition_cold_read_records", text, cold, cold > 0)
    left = np.bincount(fleet.shrinks.row, minlength=len(fleet))[rows]
    yield _family("partition_isr_shrinks_recent", text, left, left > 0)
    for name in ("remote_bytes", "orphan_bytes", "highest_remote_offset"):
        value = np.full(len(fleet), UNKNOWN, np.int64)
        value[fleet.lineage.row] = getattr(fleet.lineage, name)
        metric = "remote_log_bytes" if name == "remote_bytes" else name
        yield _family(f"partition_{metric}", text, value[rows], value[rows] != UNKNOWN)
    yield from _joins_of_partitions(fleet, labels)
    lines = []
    for rule in ("kafka", "kip1303"):
        tail = [f'{label},rule="{rule}"' for label in text]
        value = getattr(fleet, f"next_leader_{rule}")[rows]
        lines += _family("partition_next_leader", tail, value, described)[1]
    yield "kafka_twin_partition_next_leader", lines
    lines = []
    for risk in RULES:
        holds = (fleet.risks[rows] & risk.risk) != 0
        if holds.any():
            tail = [f'{label},risk="{risk.name}",severity="{risk.severity}"' for label in text]
            lines += _family("partition_at_risk", tail, holds.astype(np.int8), holds)[1]
    yield "kafka_twin_partition_at_risk", lines


def _joins_of_partitions(fleet: Fleet, labels: Labels) -> Iterator[tuple[str, list[str]]]:
    starts: list[str] = []
    records: list[str] = []
    for feature in FEATURE:
        found = bootstrap(fleet, feature == "on")
        tail = [f'{label},feature="{feature}"' for label in labels.partition]
        start, copied = found.start_offset[labels.rows], found.records[labels.rows]
        starts += _family("partition_join_start_offset", tail, start, start != UNKNOWN)[1]
        records += _family("partition_join_records", tail, copied, copied != UNKNOWN)[1]
    yield "kafka_twin_partition_join_start_offset", starts
    yield "kafka_twin_partition_join_records", records


def replica_series(fleet: Fleet, labels: Labels, now_ms: int) -> Iterator[tuple[str, list[str]]]:
    """(metric, lines) of every per-replica family."""
    place, text = labels.place, labels.replica

    def of(table: Array) -> Array:
        return table.ravel()[place]

    described = np.repeat(fleet.described_at_ms != UNKNOWN, fleet.slots)[place]
    caught_up = of(fleet.caught_up_at_ms)
    span = of(span_ms(fleet, now_ms))
    eligible = (of(fleet.coverage) != Coverage.THIN).astype(np.int8)
    values: dict[str, Array] = {
        "log_start_offset": of(fleet.log_start_offset),
        "local_log_start_offset": of(fleet.local_log_start_offset),
        "log_end_offset": of(fleet.log_end_offset),
        "local_log_bytes": of(held_bytes(fleet)),
        "in_isr": _or_unknown(of(fleet.marked(Slot.IN_ISR)).astype(np.int8), described),
        "in_sync": of(fleet.in_sync),
        "election_eligible": eligible,
        "lag_records": of(lag_records(fleet)),
    }
    for name, value in values.items():
        yield _family(f"replica_{name}", text, value, value != UNKNOWN)
    suspect = of(timestamp_suspect(fleet, now_ms))
    yield _family("replica_timestamp_suspect", text, suspect.astype(np.int8), suspect)
    eligible_in = of(seconds_to_eligible(fleet, now_ms))
    yield _family("replica_eligible_in_seconds", text, eligible_in, ~np.isnan(eligible_in))
    yield from _joins_of_replicas(fleet, labels, now_ms)
    yield _family("replica_local_log_span_seconds", text, span / 1000, span != UNKNOWN)
    age = np.maximum(now_ms - caught_up, 0)
    yield _family("replica_caught_up_age_seconds", text, age / 1000, caught_up != UNKNOWN)


def _joins_of_replicas(
    fleet: Fleet, labels: Labels, now_ms: int
) -> Iterator[tuple[str, list[str]]]:
    """Few replicas are joining: their labels are looked up one by one."""
    of = active(fleet)
    seat = (fleet.broker[of.row] == of.broker[:, None]).argmax(axis=1)
    place = of.row.astype(np.int64) * fleet.slots + seat
    at = np.searchsorted(labels.place, place)
    shown = np.flatnonzero(np.isin(place, labels.place))
    text = [labels.replica[i] for i in at[shown].tolist()]
    values = {
        "join_progress_ratio": progress(fleet, of),
        "join_seconds_left": seconds_left(fleet, of),
        "join_seconds_to_lead": seconds_to_lead(fleet, of, now_ms),
        "join_records_per_second": np.where(of.records_per_s < 0, np.nan, of.records_per_s),
    }
    for name, value in values.items():
        yield _family(f"replica_{name}", text, value[shown], ~np.isnan(value[shown]))
    stuck = (of.stuck != UNKNOWN)[shown]
    yield _family("replica_join_stuck", text, stuck.astype(np.int8), stuck)


def series_per_row(fleet: Fleet) -> int:
    """How many series a partition of this fleet has at the most."""
    return 24 + 13 * fleet.slots


def _or_unknown(value: Array, known: Array) -> Array:
    return np.where(known, value.astype(np.int64), UNKNOWN)


def _family(name: str, labels: Iterable[str], values: Array, known: Array) -> tuple[str, list[str]]:
    metric = f"kafka_twin_{name}"
    numbers: list[Any] = values.tolist()
    if values.dtype.kind == "f" and np.isposinf(values).any():
        numbers = ["+Inf" if number == np.inf else number for number in numbers]
    if known.all():
        pairs: Iterable[tuple[str, Any]] = zip(labels, numbers, strict=True)
    else:
        pairs = (
            (label, value)
            for label, value, told in zip(labels, numbers, known.tolist(), strict=True)
            if told
        )
    return metric, [f"{metric}{{{label}}} {value}\n" for label, value in pairs]
