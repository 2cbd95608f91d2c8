"""Small observations by hand: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.simulator.shard import rows
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN, Table
from twin.engine.frames import Frame, FrameHeader
from twin.engine.shard_state import ShardState
from twin.rules.election.leader_changes import EpochEndsFrame
from twin.step import step
from twin.tables.broker_columns import BROKER_METRICS
from twin.tables.enums import (
    CLUSTER_WIDE,
    BatchKind,
    GroupState,
    GroupType,
    PendingUpload,
    ReplicaFlags,
    ReplicaSelector,
)
from twin.tables.observations import (
    BrokerMetricsFrame,
    BrokersFrame,
    ConfigsFrame,
    EpochsFrame,
    FetchesFrame,
    GroupOffsetsFrame,
    GroupsFrame,
    IsrChangesFrame,
    LoggedUncleanElectionsFrame,
    PartitionsFrame,
    PendingUploadLookupsFrame,
    ProblemsFrame,
    QuorumFrame,
    ReplicasFrame,
    SegmentsFrame,
    TruncatedLogsFrame,
)

NOW_MS = 1_800_000_000_000


@dataclass(frozen=True)
class Log:
    """The log of a replica, as the replica reports it."""

    end: int = 100
    local_start: int = 0
    start: int = 0
    size_bytes: int = 1_000
    started_ms: int = NOW_MS - 3_600_000
    first_batch: int = BatchKind.PLAIN
    last_tiered: int = UNKNOWN
    pending_upload: int = UNKNOWN
    reason: PendingUpload = PendingUpload.ABSENT
    pending_epoch: int = UNKNOWN
    last_stable: int = UNKNOWN
    high_watermark: int = UNKNOWN
    error: int = 0


@dataclass(frozen=True)
class Partition:
    """One partition; its first replica leads and all are in sync unless stated otherwise."""

    topic: str = "t"
    number: int = 0
    replicas: tuple[int, ...] = (1, 2, 3)
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader: int | None = None
    epoch: int = 1
    topic_id: bytes = b""
    logs: Mapping[int, Log] = field(default_factory=dict)
    log: Log = Log()
    silent: tuple[int, ...] = ()  # replicas that do not answer

    @property
    def id(self) -> bytes:
        return (self.topic_id or self.topic.encode()).ljust(16, b"\0")[:16]

    def flags(self) -> list[int]:
        isr = self.replicas if self.isr is None else self.isr
        marks = (
            (ReplicaFlags.IN_ISR, isr),
            (ReplicaFlags.IN_ELR, self.elr),
            (ReplicaFlags.LAST_KNOWN_ELR, self.last_known),
            (ReplicaFlags.OFFLINE, self.offline),
            (ReplicaFlags.ADDING, self.adding),
            (ReplicaFlags.REMOVING, self.removing),
        )
        return [sum(int(mark) for mark, who in marks if b in who) for b in self.replicas]


def partitions_frame(given: Sequence[Partition], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    return _frame(
        PartitionsFrame,
        at_ms,
        stamp,
        **_keys([(p.topic, p.id, p.number) for p in given]),
        leader=_ints([p.replicas[0] if p.leader is None else p.leader for p in given]),
        leader_epoch=_ints([p.epoch for p in given]),
        elr_known=np.ones(len(given), bool),
        replicas=[list(p.replicas) for p in given],
        replica_flags=[p.flags() for p in given],
    )


def replicas_frame(given: Sequence[Partition], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    answers = [(p, b, p.logs.get(b, p.log)) for p in given for b in p.replicas if b not in p.silent]
    return _frame(
        ReplicasFrame,
        at_ms,
        stamp,
        **_keys([(p.topic, p.id, p.number) for p, _, _ in answers]),
        broker=_ints([b for _, b, _ in answers]),
        log_start_offset=_ints([log.start for *_, log in answers]),
        local_log_start_offset=_ints([log.local_start for *_, log in answers]),
        log_end_offset=_ints([log.end for *_, log in answers]),
        last_tiered_offset=_ints([log.last_tiered for *_, log in answers]),
        pending_upload_offset=_ints([log.pending_upload for *_, log in answers]),
        pending_upload=_ints([int(log.reason) for *_, log in answers]),
        pending_upload_leader_epoch=_ints([log.pending_epoch for *_, log in answers]),
        last_stable_offset=_ints([log.last_stable for *_, log in answers]),
        high_watermark=_ints([log.high_watermark for *_, log in answers]),
        local_log_bytes=_ints([log.size_bytes for *_, log in answers]),
        local_start_timestamp_ms=_ints([log.started_ms for *_, log in answers]),
        local_start_batch=_ints([int(log.first_batch) for *_, log in answers]),
        error_code=_ints([log.error for *_, log in answers]),
    )


@dataclass(frozen=True)
class Fetch:
    """One completed fetch of a follower; by default it asked for all there was, at once."""

    arrived_ms: int
    offset: int = 100
    leader_end: int = 100
    estimate: int | None = None  # of the leader's end; as leader_end if not given
    took_ms: int = 1
    queue_ms: int = 0  # of that time, until a request handler took it
    broker: int = 2
    leader: int = 1
    epoch: int = 1
    start: int = 0
    error: int = 0
    part: Partition = Partition()
    high_watermark: int = UNKNOWN


def fetches_frame(given: Sequence[Fetch], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    return _frame(
        FetchesFrame,
        at_ms,
        stamp,
        **_keys([(f.part.topic, f.part.id, f.part.number) for f in given]),
        leader=_ints([f.leader for f in given]),
        broker=_ints([f.broker for f in given]),
        leader_epoch=_ints([f.epoch for f in given]),
        arrived_at_ms=_ints([f.arrived_ms for f in given]),
        completed_at_ms=_ints([f.arrived_ms + f.took_ms for f in given]),
        local_ms=_ints([0 for _ in given]),
        queue_ms=_ints([f.queue_ms for f in given]),
        remote_ms=_ints([f.took_ms - max(f.queue_ms, 0) for f in given]),
        fetch_offset=_ints([f.offset for f in given]),
        high_watermark=_ints([f.high_watermark for f in given]),
        log_start_offset=_ints([f.start for f in given]),
        leader_end_offset=_ints([f.leader_end for f in given]),
        leader_end_estimate_offset=_ints(
            [f.leader_end if f.estimate is None else f.estimate for f in given]
        ),
        error_code=_ints([f.error for f in given]),
        broker_epoch=_ints([1 for _ in given]),
    )


@dataclass(frozen=True)
class Moved:
    """A replica that left an ISR, or joined it, as a log reports."""

    at_ms: int
    left: bool = True
    broker: int = 2
    leader: int = 1
    caught_up_ms: int = UNKNOWN
    end: int = UNKNOWN
    leader_end: int = UNKNOWN
    part: Partition = Partition()


def isr_changes_frame(given: Sequence[Moved], at_ms: int = NOW_MS) -> Frame:
    return _frame(
        IsrChangesFrame,
        at_ms,
        {},
        **_keys([(m.part.topic, m.part.id, m.part.number) for m in given]),
        leader=_ints([m.leader for m in given]),
        broker=_ints([m.broker for m in given]),
        left=np.array([m.left for m in given], bool),
        at_ms=_ints([m.at_ms for m in given]),
        caught_up_at_ms=_ints([m.caught_up_ms for m in given]),
        log_end_offset=_ints([m.end for m in given]),
        leader_end_offset=_ints([m.leader_end for m in given]),
    )


def lookups_frame(part: Partition, given: Sequence[tuple[int, int, int]]) -> Frame:
    """(broker, time, answer) of followers that ask leader 1 for its pending uploads."""
    return _frame(
        PendingUploadLookupsFrame,
        NOW_MS,
        {},
        **_keys([(part.topic, part.id, part.number)] * len(given)),
        leader=_ints([1 for _ in given]),
        broker=_ints([broker for broker, *_ in given]),
        at_ms=_ints([at_ms for _, at_ms, _ in given]),
        pending_upload_offset=_ints([answer for *_, answer in given]),
    )


def broker_metrics_frame(given: Mapping[int, Mapping[str, float]], at_ms: int = NOW_MS) -> Frame:
    """Measurements by broker; those that are not named are absent."""
    return _frame(
        BrokerMetricsFrame,
        at_ms,
        {},
        broker=_ints(list(given)),
        measured_at_ms=_ints([at_ms for _ in given]),
        **{n: np.array([s.get(n, np.nan) for s in given.values()], float) for n in BROKER_METRICS},
    )


@dataclass(frozen=True)
class SegmentEvent:
    """An event of a remote segment; only the start of a copy has its offsets."""

    state: int
    name: str
    start: int = UNKNOWN
    end: int = UNKNOWN
    epochs: tuple[tuple[int, int], ...] = ()
    at_ms: int = NOW_MS


def segments_frame(
    part: Partition, given: Sequence[SegmentEvent], at_ms: int = NOW_MS, first_offset: int = 0
) -> Frame:
    """Events that stand one after the other in the remote log metadata."""
    return _frame(
        SegmentsFrame,
        at_ms,
        {},
        **_keys([(part.topic, part.id, part.number)] * len(given)),
        segment_id=[event.name.encode().ljust(16) for event in given],
        state=_ints([event.state for event in given]),
        metadata_offset=_ints(range(first_offset, first_offset + len(given))),
        event_at_ms=_ints([event.at_ms for event in given]),
        start_offset=_ints([event.start for event in given]),
        end_offset=_ints([event.end for event in given]),
        log_bytes=_ints([event.end - event.start + 1 for event in given]),
        leader_epochs=[[epoch for epoch, _ in event.epochs] for event in given],
        epoch_start_offsets=[[offset for _, offset in event.epochs] for event in given],
    )


def epochs_frame(part: Partition, epochs: Sequence[tuple[int, int]], at_ms: int = NOW_MS) -> Frame:
    return _frame(
        EpochsFrame,
        at_ms,
        {},
        **_keys([(part.topic, part.id, part.number)] * len(epochs)),
        leader_epoch=_ints([epoch for epoch, _ in epochs]),
        start_offset=_ints([offset for _, offset in epochs]),
    )


def epoch_ends_frame(
    part: Partition, prev_epoch: int, end: int, at_ms: int = NOW_MS, found_epoch: int = 0
) -> Frame:
    """The new leader's answer: the records of that leader epoch end at that offset of its log."""
    return _frame(
        EpochEndsFrame,
        at_ms,
        {},
        **_keys([(part.topic, part.id, part.number)]),
        leader_epoch=_ints([part.epoch]),
        prev_epoch=_ints([prev_epoch]),
        found_epoch=_ints([found_epoch]),
        end_offset=_ints([end]),
    )


def truncated_logs_frame(
    part: Partition, broker: int, end: int, to_offset: int, at_ms: int
) -> Frame:
    """A broker logged after its start that it truncates the partition's log."""
    return _frame(
        TruncatedLogsFrame,
        at_ms,
        {},
        **_keys([(part.topic, part.id, part.number)]),
        broker=_ints([broker]),
        at_ms=_ints([at_ms]),
        end_offset=_ints([end]),
        to_offset=_ints([to_offset]),
    )


def logged_unclean_election_frame(
    part: Partition, broker: int, leader_epoch: int, at_ms: int
) -> Frame:
    """A controller logged that it elected a leader uncleanly."""
    return _frame(
        LoggedUncleanElectionsFrame,
        at_ms,
        {},
        **_keys([(part.topic, part.id, part.number)]),
        broker=_ints([broker]),
        leader_epoch=_ints([leader_epoch]),
        at_ms=_ints([at_ms]),
    )


@dataclass(frozen=True)
class Group:
    """A group of consumers and the offsets that it committed."""

    name: str = "g"
    offsets: Sequence[tuple[Partition, int]] = ()
    members: int = 1
    state: int = GroupState.STABLE
    read_ms: int | None = None  # the frame's time if not given; UNKNOWN: they could not be read
    assigned: int = 1
    rack: str = ""
    left_out: int = 0

    def read_at_ms(self, at_ms: int) -> int:
        return at_ms if self.read_ms is None else self.read_ms


def groups_frame(given: Sequence[Group], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    return _frame(
        GroupsFrame,
        at_ms,
        stamp,
        group=[g.name for g in given],
        group_type=_ints([GroupType.CONSUMER for _ in given]),
        group_state=_ints([g.state for g in given]),
        coordinator=_ints([1 for _ in given]),
        members=_ints([g.members for g in given]),
        read_at_ms=_ints([g.read_at_ms(at_ms) for g in given]),
        offsets_left_out=_ints([g.left_out for g in given]),
    )


def group_offsets_frame(given: Sequence[Group], at_ms: int = NOW_MS, **stamp: Any) -> Frame:
    read = [(g, p, offset) for g in given for p, offset in g.offsets]
    return _frame(
        GroupOffsetsFrame,
        at_ms,
        stamp,
        **_keys([(p.topic, p.id, p.number) for _, p, _ in read]),
        group=[g.name for g, *_ in read],
        committed_offset=_ints([offset for *_, offset in read]),
        read_at_ms=_ints([g.read_at_ms(at_ms) for g, *_ in read]),
        assigned=_ints([g.assigned for g, *_ in read]),
        rack=[g.rack for g, *_ in read],
    )


def brokers_frame(
    ids: Sequence[int] = (1, 2, 3), at_ms: int = NOW_MS, *, fenced: Sequence[int] = (),
    silent: Sequence[int] = (), slow: Sequence[int] = (), unlisted: Sequence[int] = (),
    has_racks: bool = True, selector: int = ReplicaSelector.RACK_AWARE,
    last_tiered_fetch: Mapping[int, int] | None = None,
    lag_time_max_ms: Mapping[int, int] | None = None,
    settings: Mapping[str, Mapping[int, int]] | None = None,
    capacity: Mapping[int, tuple[int, ...]] | None = None,
    kafka_versions: Mapping[int, str] | None = None, **stamp: Any,
) -> Frame:  # fmt: skip
    """Brokers as Kafka 4.0 lists them; of those ``unlisted`` an assignment alone tells.

    ``settings``: what it leads by, by column and broker.
    ``capacity``: bytes a second in, and out, and a percentage of the peak, by broker.
    """
    n, own, lags = len(ids), last_tiered_fetch or {}, lag_time_max_ms or {}
    limits = [[*(capacity or {}).get(i, ()), UNKNOWN, UNKNOWN, UNKNOWN][:3] for i in ids]
    return _frame(
        BrokersFrame, at_ms, stamp,
        broker=_ints(ids),
        rack=[
            f"az-{'abc'[(i - 1) % 3]}" if has_racks and i not in unlisted else "" for i in ids
        ],
        host=["" if i in unlisted else f"127.0.0.1:{19_090 + i}" for i in ids],
        fenced=_ints([UNKNOWN if i in unlisted else int(i in fenced) for i in ids]),
        listed=np.array([i not in unlisted for i in ids], bool),
        answered=np.array([i not in (*silent, *unlisted) for i in ids], bool),
        answered_in_ms=_ints([2_000 if i in slow else 5 for i in ids]),
        log_dir_total_bytes=_ints([10**9] * n),
        log_dir_usable_bytes=_ints([10**8] * n),
        replica_selector=_ints([int(selector)] * n),
        follower_last_tiered_fetch=_ints([own.get(i, UNKNOWN) for i in ids]),
        lag_time_max_ms=_ints([lags.get(i, UNKNOWN) for i in ids]),
        **{name: _ints([by_broker.get(i, UNKNOWN) for i in ids])
           for name, by_broker in (settings or {}).items()},
        capacity_bytes_in_per_s=_ints([into for into, *_ in limits]),
        capacity_bytes_out_per_s=_ints([out for _, out, _ in limits]),
        capacity_peak_percent=_ints([percent for *_, percent in limits]),
        kafka_version=[(kafka_versions or {}).get(i, "") for i in ids],
    )  # fmt: skip


def quorum_frame(
    voters: Sequence[int] = (1, 2, 3), at_ms: int = NOW_MS, active: int = 1, *,
    caught_up_at_ms: Mapping[int, int] | None = None, ends: Mapping[int, int] | None = None,
    **stamp: Any,
) -> Frame:  # fmt: skip
    """The controller quorum, whose voters are all caught up but for those that are given."""
    caught_up, end = caught_up_at_ms or {}, ends or {}
    return _frame(
        QuorumFrame, at_ms, stamp,
        node=_ints(voters), is_active=np.array([v == active for v in voters], bool),
        log_end_offset=_ints([end.get(v, 100) for v in voters]),
        caught_up_at_ms=_ints([caught_up.get(v, at_ms) for v in voters]),
    )  # fmt: skip


def configs_frame(
    topics: Mapping[str, Mapping[str, int]] | None = None, at_ms: int = NOW_MS, **cluster: int
) -> Frame:
    """Cluster-wide values as keywords, a topic's own by name."""
    named = {CLUSTER_WIDE: {"replica_lag_time_max_ms": 30_000, **cluster}, **(topics or {})}
    columns: dict[str, Any] = {
        c.name: _ints([values.get(c.name, c.fill) for values in named.values()])
        for c in ConfigsFrame.columns
        if c.name != "topic"
    }
    return _frame(ConfigsFrame, at_ms, {}, topic=list(named), **columns)


def a_state(
    *parts: Partition, at_ms: int = NOW_MS, fenced: Sequence[int] = (), silent: Sequence[int] = (),
    topics: Mapping[str, Mapping[str, int]] | None = None, since: ShardState | None = None,
    brokers: Sequence[int] = (1, 2, 3, 4, 5), has_racks: bool = True,
    selector: int = ReplicaSelector.RACK_AWARE,
    own_last_tiered_fetch: Mapping[int, int] | None = None,
    own_lag_time_max_ms: Mapping[int, int] | None = None,
    own_settings: Mapping[str, Mapping[int, int]] | None = None,
    capacity: Mapping[int, tuple[int, ...]] | None = None, **cluster: int,
) -> ShardState:  # fmt: skip
    """The state after one whole cycle that reports these partitions.

    The racks of brokers 1, 2, 3, 4, ... are az-a, az-b, az-c, az-a, ...: 1 and 4 share one.
    """
    given = parts or (Partition(),)
    frames = [
        brokers_frame(
            brokers,
            at_ms,
            fenced=fenced,
            silent=silent,
            has_racks=has_racks,
            selector=selector,
            last_tiered_fetch=own_last_tiered_fetch,
            lag_time_max_ms=own_lag_time_max_ms,
            settings=own_settings,
            capacity=capacity,
        ),
        configs_frame(topics, at_ms, **cluster),
        partitions_frame(given, at_ms),
        replicas_frame(given, at_ms),
    ]
    return step(since or empty(), frames, at_ms)[0]


def empty(cluster: str = "c", shard: int = 0, shards: int = 1) -> ShardState:
    """A shard before anything was observed, with all built-in rules."""
    return ShardState.empty(CATALOG, cluster, shard, shards)


def problems_frame(
    problems: Sequence[tuple[str, int, str, str]], at_ms: int = NOW_MS, **stamp: Any
) -> Frame:
    """Problems as source, broker, error and text."""
    source, broker, error, text = zip(*problems, strict=True) if problems else ((), (), (), ())
    return _frame(
        ProblemsFrame, at_ms, stamp,
        source=list(source), broker=_ints(broker), error=list(error), text=list(text),
    )  # fmt: skip


def _frame(table: type[Table], at_ms: int, stamp: Mapping[str, Any], /, **columns: Any) -> Frame:
    header = {"cluster": "c", "shard": 0, "shards": 1, "cycle": at_ms % 1_000_000, **stamp}
    return Frame(
        FrameHeader(kind=table.kind, observed_at_ms=at_ms, **header), rows(table, **columns)
    )


def _keys(keys: Sequence[tuple[str, bytes, int]]) -> dict[str, Any]:
    import pyarrow as pa

    topics = list(dict.fromkeys((topic, topic_id) for topic, topic_id, _ in keys))
    index = pa.array([topics.index((t, i)) for t, i, _ in keys], pa.int32())
    return {
        "topic": pa.DictionaryArray.from_arrays(
            index, pa.array([t for t, _ in topics], pa.string())
        ),
        "topic_id": pa.DictionaryArray.from_arrays(
            index, pa.array([i for _, i in topics], pa.binary(16))
        ),
        "partition": _ints([number for *_, number in keys]),
    }


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)
