"""The metric names and labels of kafka_exporter, so that dashboards and alerts made for it work.

Like those of kafka_exporter, they have no label ``cluster``. Values follow its conventions where
those differ: if a group has committed offsets of some partitions of a topic, the others have offset
and lag -1, and the sum of offsets counts that -1; the lag of a group whose offset lies beyond the
log end is negative. Unknown values have no series, nor have sums of nothing known. ``granularity``
and ``max_series`` do not apply: dashboards made for kafka_exporter need all of its series.

Source: danielqsj/kafka_exporter, version 1.9: README.md and ``collect`` in kafka_exporter.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from streaming.bus.view import ClusterView
from streaming.exporter.metrics.series import escaped
from twin.arrays import keys
from twin.declarations.table import NO_BROKER, UNKNOWN, Array
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupMoves, signed_lags
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.replication.high_watermark import HighWatermarks
from twin.tables.state import (
    Assignment,
    Brokers,
    GroupOffsets,
    Groups,
    PartitionIndex,
    Partitions,
    Topics,
)


class Name(NamedTuple):
    """A metric of kafka_exporter, which is a gauge."""

    help: str
    labels: tuple[str, ...] = ()


_TOPIC: Final = ("topic",)
_PARTITION: Final = ("partition", "topic")
_GROUP_TOPIC: Final = ("consumergroup", "topic")
_GROUP_PARTITION: Final = ("consumergroup", "partition", "topic")

NAMES: Final[Mapping[str, Name]] = {
    "kafka_brokers": Name("Brokers that are not fenced."),
    "kafka_broker_info": Name("1 for each broker that is not fenced.", ("address", "id")),
    "kafka_topic_partitions": Name("Partitions of the topic.", _TOPIC),
    "kafka_topic_partition_current_offset": Name("High watermark of the partition.", _PARTITION),
    "kafka_topic_partition_oldest_offset": Name("Log start offset of the leader.", _PARTITION),
    "kafka_topic_partition_in_sync_replica": Name("Replicas in the ISR.", _PARTITION),
    "kafka_topic_partition_leader": Name("Broker id of the leader.", _PARTITION),
    "kafka_topic_partition_leader_is_preferred": Name(
        "1 if the first assigned replica leads.", _PARTITION
    ),
    "kafka_topic_partition_replicas": Name("Assigned replicas.", _PARTITION),
    "kafka_topic_partition_under_replicated_partition": Name(
        "1 if a replica is not in the ISR.", _PARTITION
    ),
    "kafka_consumergroup_current_offset": Name(
        "Committed offset, -1 if the group has none.", _GROUP_PARTITION
    ),
    "kafka_consumergroup_current_offset_sum": Name(
        "Sum of kafka_consumergroup_current_offset.", _GROUP_TOPIC
    ),
    "kafka_consumergroup_lag": Name(
        "Records behind the high watermark, negative if the log ends before the committed offset; "
        "-1 without an offset.",
        _GROUP_PARTITION,
    ),
    "kafka_consumergroup_lag_sum": Name(
        "Records behind the high watermarks, the sum of the lags that are known.", _GROUP_TOPIC
    ),
    "kafka_consumergroup_members": Name("Members of the group.", ("consumergroup",)),
}
"""Every metric by its name, in the order in which they are served."""

_ALL_GROUPS_SHARD: Final = 0

Lines = Mapping[str, bytes]
"""The series of each name, as text."""


@dataclass(slots=True)
class KafkaExporterNames:
    """Renders these names; keeps the text of shards that stay the same."""

    _kept: dict[int, tuple[ShardState, Lines]] = field(default_factory=dict)

    def render(self, view: ClusterView) -> Iterator[bytes]:
        """The blocks of an exposition."""
        states = [shard.state for shard in view.shards]
        self._kept = {state.shard: (state, self._of_shard(state)) for state in states}
        texts = [_of_cluster(view), *(lines for _, lines in self._kept.values())]
        for name, declared in NAMES.items():
            bodies = [body for lines in texts if (body := lines.get(name))]
            if bodies:
                yield f"# HELP {name} {declared.help}\n# TYPE {name} gauge\n".encode()
                yield from bodies

    def _of_shard(self, state: ShardState) -> Lines:
        kept = self._kept.get(state.shard)
        if kept is not None and kept[0] is state:
            return kept[1]
        return {**_of_topics(state), **_of_groups(state)}


def _of_cluster(view: ClusterView) -> Lines:
    if view.newest is None:
        return {}
    brokers = view.newest[Brokers]
    is_up = brokers.listed & (brokers.fenced != 1)
    info = "".join(
        f'kafka_broker_info{{address="{escaped(host)}",id="{broker}"}} 1\n'
        for broker, host in zip(brokers.broker[is_up].tolist(), brokers.host[is_up], strict=True)
    )
    count = f"kafka_brokers {int(is_up.sum())}\n"
    return {"kafka_brokers": count.encode(), "kafka_broker_info": info.encode()}


# ---------------------------------------------------------------- topics


def _of_topics(state: ShardState) -> Lines:
    index, partitions, roles = state[PartitionIndex], state[Partitions], state[Roles]
    topics = [escaped(name) for name in state[Topics].topic.tolist()]
    counts = np.bincount(index.topic_index, minlength=len(topics))
    labels = [
        f'{{partition="{number}",topic="{topics[topic]}"}}'
        for topic, number in zip(index.topic_index.tolist(), index.partition.tolist(), strict=True)
    ]
    leader, replicas = partitions.leader, partitions.assigned
    in_sync = (roles.in_isr & roles.is_assigned).sum(axis=1)
    is_led = leader != NO_BROKER
    first = state[Assignment].broker[:, :1]  # no column where there is no partition
    is_preferred = is_led & (first == leader[:, None]).any(axis=1)
    high_watermark = state[HighWatermarks].high_watermark
    oldest = state[Leaders].log_start_offset
    everywhere = np.ones(len(leader), bool)
    families: Mapping[str, tuple[Array, Array]] = {
        "current_offset": (high_watermark, high_watermark != UNKNOWN),
        "oldest_offset": (oldest, oldest != UNKNOWN),
        "in_sync_replica": (in_sync, everywhere),
        "leader": (leader, is_led),
        "leader_is_preferred": (is_preferred.astype(np.int8), everywhere),
        "replicas": (replicas, everywhere),
        "under_replicated_partition": ((in_sync < replicas).astype(np.int8), everywhere),
    }
    lines = {
        f"kafka_topic_partition_{name}": _lines(
            f"kafka_topic_partition_{name}", labels, values, is_known
        )
        for name, (values, is_known) in families.items()
    }
    by_topic = [f'{{topic="{topic}"}}' for topic in topics]
    name = "kafka_topic_partitions"
    return {name: _lines(name, by_topic, counts, counts > 0), **lines}


# ---------------------------------------------------------------- groups


def _of_groups(state: ShardState) -> Lines:
    groups = state[Groups]
    names = [escaped(name) for name in groups.group.tolist()]
    lines = _of_group_offsets(state, names)
    if state.shard == _ALL_GROUPS_SHARD:
        members = "kafka_consumergroup_members"
        labels = [f'{{consumergroup="{name}"}}' for name in names]
        lines[members] = _lines(members, labels, groups.members, groups.members != UNKNOWN)
    return lines


def _of_group_offsets(state: ShardState, names: Sequence[str]) -> dict[str, bytes]:
    pairs = _group_partitions(state)
    topics = [escaped(name) for name in state[Topics].topic.tolist()]
    number = state[PartitionIndex].partition[pairs.row]
    labels = [
        f'{{consumergroup="{names[group]}",partition="{p}",topic="{topics[topic]}"}}'
        for group, topic, p in zip(
            pairs.group.tolist(), pairs.topic.tolist(), number.tolist(), strict=True
        )
    ]
    has_lag = (pairs.committed == UNKNOWN) | pairs.has_lag
    start = pairs.start
    offset_sum, lag_sum, known_lags = (
        np.add.reduceat(values, start) if len(start) else start
        for values in (
            pairs.committed,
            np.where(pairs.has_lag, pairs.lag, 0),
            pairs.has_lag.astype(np.int64),
        )
    )
    summed = [
        f'{{consumergroup="{names[group]}",topic="{topics[topic]}"}}'
        for group, topic in zip(
            pairs.group[start].tolist(), pairs.topic[start].tolist(), strict=True
        )
    ]
    families = {
        "current_offset": (labels, pairs.committed, np.ones(len(labels), bool)),
        "current_offset_sum": (summed, offset_sum, np.ones(len(summed), bool)),
        "lag": (labels, pairs.lag, has_lag),
        "lag_sum": (summed, lag_sum, known_lags > 0),
    }
    return {
        f"kafka_consumergroup_{name}": _lines(f"kafka_consumergroup_{name}", *family)
        for name, family in families.items()
    }


@dataclass(frozen=True, slots=True)
class _GroupPartitions:
    """Groups and all partitions of the topics that they consume, by group, topic, number. [N]."""

    group: Array
    topic: Array
    row: Array  # of the partition
    committed: Array
    lag: Array
    has_lag: Array
    start: Array  # [K] where each group and topic begins


def _group_partitions(state: ShardState) -> _GroupPartitions:
    """A group consumes a topic if it has committed an offset of any partition of it."""
    offsets, topic_index = state[GroupOffsets], state[PartitionIndex].topic_index
    has = offsets.committed_offset != UNKNOWN
    row, group = offsets.row[has], offsets.group_index[has]
    consumed = np.unique(keys.pack(group, topic_index[row]))
    of_group, of_topic = keys.unpack(consumed)
    first, stop = (np.searchsorted(topic_index, of_topic, side) for side in ("left", "right"))
    count = stop - first
    start = np.cumsum(count) - count
    every_row = np.repeat(first - start, count) + np.arange(int(count.sum()))
    every_group = np.repeat(of_group, count)
    place = keys.find_sorted(keys.pack(row, group), keys.pack(every_row, every_group))
    lag, is_known = signed_lags(state[GroupMoves], state[Leaders], state[HighWatermarks])
    return _GroupPartitions(
        group=every_group,
        topic=np.repeat(of_topic, count),
        row=every_row,
        committed=np.append(offsets.committed_offset[has], UNKNOWN)[place],
        lag=np.append(lag[has], UNKNOWN)[place],
        has_lag=np.append(is_known[has], False)[place],
        start=start,
    )


def _lines(name: str, labels: Sequence[str], values: Array, is_known: Array) -> bytes:
    """The known values as lines of the text format."""
    samples: Any = zip(labels, values.tolist(), is_known.tolist(), strict=True)
    return "".join(f"{name}{label} {value}\n" for label, value, has in samples if has).encode()
