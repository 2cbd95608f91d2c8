"""The state of one shard: everything the twin holds of its partitions, as arrays.

Rows are partitions, sorted by topic and number; columns are replica slots in assignment order, so
slot 0 is the preferred replica. A slot without a replica holds NO_BROKER. Slots from ``assigned``
on are guests: replicas that answered before any listing named them.

A ``Fleet`` is a value: functions return a new one. Its field names are the columns of the
``fleet.*`` tables. ``encode`` and ``decode`` turn it into a message and back; the same bytes are
Spark's state and the snapshot that consumers read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from twin import frames, tables
from twin.frames import Frame, FrameRefused, Stamp
from twin.sparse import (
    SPARSE,
    Departures,
    Fetches,
    Joins,
    Lineage,
    Pending,
    Shrinks,
    Sparse,
    Starts,
)
from twin.tables import CLUSTER_WIDE, NO_BROKER, NOT_SET, UNKNOWN, Slot

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """[T] the topics of the shard, sorted by name and id."""

    topic: Array  # str
    topic_id: Array  # 16 bytes


@dataclass(frozen=True, slots=True, eq=False)
class Configs:
    """[C] one row a configured topic, sorted by name; CLUSTER_WIDE is among the names."""

    topic: Array
    min_insync_replicas: Array
    unclean_leader_election: Array
    remote_storage: Array
    compacted: Array
    local_retention_ms: Array
    local_retention_bytes: Array
    eligible_local_log_ms: Array
    eligible_local_log_bytes: Array
    replica_lag_time_max_ms: Array
    elr_enabled: Array
    last_tiered_fetch: Array
    configured_at_ms: Array


@dataclass(frozen=True, slots=True, eq=False)
class Brokers:
    """[B] the registered brokers, sorted by id."""

    broker: Array
    rack: Array
    host: Array
    fenced: Array
    answered: Array
    answered_in_ms: Array
    log_dir_total_bytes: Array
    log_dir_usable_bytes: Array
    listed_at_ms: Array
    answered_at_ms: Array
    silent_since_ms: Array
    silent_until_ms: Array


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """[S] what brokers with a JMX exporter measure themselves, sorted by id."""

    broker: Array
    measured_at_ms: Array
    value: Array  # [S, len(tables.SIGNALS)], NaN: absent

    def of(self, name: str) -> Array:
        """[S] one signal."""
        column: Array = self.value[:, tables.SIGNALS.index(name)]
        return column


@dataclass(frozen=True, slots=True)
class Listing:
    """How far the listing of the newest cycle has come: partitions disappear when it is whole."""

    at_ms: int = UNKNOWN
    parts_seen: frozenset[int] = frozenset()
    whole_at_ms: int = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """All of one shard. Shapes: [P] partitions, [P, R] partitions and replica slots."""

    cluster: str
    shard: int
    shards: int
    observed_at_ms: int  # newest cycle seen, UNKNOWN before the first
    cycle: int
    before_at_ms: int  # the cycle before it
    listing: Listing
    topics: Topics
    configs: Configs
    brokers: Brokers
    signals: Signals
    pending: Pending
    joins: Joins
    shrinks: Shrinks
    fetches: Fetches
    departures: Departures
    starts: Starts
    lineage: Lineage
    # [P]
    topic_index: Array
    partition: Array
    listed_at_ms: Array
    described_at_ms: Array
    leader: Array
    leader_epoch: Array
    elr_known: Array
    assigned: Array
    leader_before: Array
    leader_end_before_offset: Array
    leader_end_before_at_ms: Array
    next_leader_kafka: Array
    next_leader_kip1303: Array
    next_outcome_kafka: Array
    next_outcome_kip1303: Array
    appended_per_s: Array
    appended_before_per_s: Array
    anchor_offset: Array
    anchor_at_ms: Array
    election: Array
    cold_read_records: Array
    risks: Array
    risks_seen: Array
    risks_before: Array
    # [P, R]
    broker: Array
    slot: Array
    slot_before: Array
    sampled_at_ms: Array
    log_start_offset: Array
    local_log_start_offset: Array
    log_end_offset: Array
    last_tiered_offset: Array
    pending_upload_offset: Array
    pending_upload: Array
    local_log_bytes: Array
    local_start_timestamp_ms: Array
    error_code: Array
    caught_up_at_ms: Array
    caught_up_before_ms: Array
    in_sync: Array
    coverage: Array
    out_of_range: Array

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def slots(self) -> int:
        """R, the widest assignment of the shard, guests included."""
        return int(self.broker.shape[1])

    @property
    def present(self) -> Array:
        """[P, R] the slot holds an assigned replica."""
        present: Array = np.arange(self.slots) < self.assigned[:, None]
        return present

    @property
    def leads(self) -> Array:
        """[P, R] the slot of the leader; no slot where there is none."""
        leads: Array = (self.broker == self.leader[:, None]) & (self.broker != NO_BROKER)
        return leads

    def among(self, rows: Array) -> Array:
        """[P] the row is one of those."""
        among = np.zeros(len(self), bool)
        among[rows] = True
        return among

    def marked(self, mark: Slot) -> Array:
        """[P, R] the controller marks the replica so."""
        marked: Array = (self.slot & np.uint8(mark)) != 0
        return marked

    def of_leader(self, table: Array) -> Array:
        """[P] the leader's value of a [P, R] table, UNKNOWN where no slot leads."""
        row, seat = _seats(self)
        value = np.full(len(self), UNKNOWN, table.dtype)
        value[row] = table[row, seat]
        return value

    def topic_names(self) -> Array:
        """[P] the topic of each row."""
        return self.topics.topic[self.topic_index]

    def setting(self, name: str) -> int:
        """A cluster-wide value, as the column's fill where nobody told."""
        row = np.flatnonzero(self.configs.topic == CLUSTER_WIDE)
        if not len(row):
            return int(_FILL_CONFIGS[name])
        return int(getattr(self.configs, name)[row[0]])

    def topic_setting(self, name: str) -> Array:
        """[P] a topic's value; the cluster-wide one where the topic does not override it."""
        if not len(self.topics.topic):
            return np.zeros(0, np.int64)
        default = self.setting(name)
        names = self.configs.topic
        row = np.searchsorted(names, self.topics.topic) if len(names) else np.zeros(0, np.intp)
        value = np.full(len(self.topics.topic), default, np.int64)
        if len(names):
            row = np.minimum(row, len(names) - 1)
            told = names[row] == self.topics.topic
            value[told] = getattr(self.configs, name)[row[told]]
        not_set = NOT_SET if _FILL_CONFIGS[name] == NOT_SET else UNKNOWN
        return np.where(value == not_set, default, value)[self.topic_index]


_last_seats: tuple[Array, Array, tuple[Array, Array]] | None = None


def _seats(fleet: Fleet) -> tuple[Array, Array]:
    """[N] rows that have a leader among their replicas, and its slot.

    Every rule asks, most of them several times, so the answer for the arrays asked about last is
    kept: a quarter of a cycle's time otherwise.
    """
    global _last_seats
    known = _last_seats
    if known is not None and known[0] is fleet.broker and known[1] is fleet.leader:
        return known[2]
    row, seat = np.nonzero(fleet.leads)
    _last_seats = fleet.broker, fleet.leader, (row, seat)
    return row, seat


def empty(cluster: str, shard: int, shards: int) -> Fleet:
    """A shard nobody has told anything about."""
    rows: dict[str, Any] = {name: kind.none() for name, kind in SPARSE.items()}
    rows |= {name: blank(_PARTITION[name], 0) for name in PARTITION_COLUMNS}
    rows |= {name: blank(_REPLICA[name], (0, 1)) for name in REPLICA_COLUMNS}
    return Fleet(
        cluster=cluster,
        shard=shard,
        shards=shards,
        observed_at_ms=UNKNOWN,
        cycle=UNKNOWN,
        before_at_ms=UNKNOWN,
        listing=Listing(),
        topics=Topics(np.zeros(0, object), np.zeros(0, object)),
        configs=Configs(*(blank(c, 0) for c in tables.FLEET_CONFIGS.columns)),
        brokers=Brokers(*(blank(c, 0) for c in tables.FLEET_BROKERS.columns)),
        signals=Signals(
            np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros((0, len(tables.SIGNALS)))
        ),
        **rows,
    )


def rearranged(fleet: Fleet, rows: Array) -> dict[str, Any]:
    """Everything of partitions with their rows picked by index; -1 makes a blank row."""
    made = rows < 0
    to = np.full(len(fleet), UNKNOWN, np.intp)
    to[rows[~made]] = np.flatnonzero(~made)
    columns: dict[str, Any] = {name: getattr(fleet, name).moved(to) for name in SPARSE}
    for name in (*PARTITION_COLUMNS, *REPLICA_COLUMNS):
        old = getattr(fleet, name)
        if made.any():
            column = _PARTITION.get(name) or _REPLICA[name]
            new = blank(column, (len(rows), *old.shape[1:]))
            new[~made] = old[rows[~made]]
        else:
            new = old[rows]
        columns[name] = new
    return columns


def widened(fleet: Fleet, slots: int) -> Fleet:
    """The fleet with at least that many replica slots."""
    if fleet.slots >= slots:
        return fleet
    more: dict[str, Any] = {}
    for name in REPLICA_COLUMNS:
        old = getattr(fleet, name)
        more[name] = blank(_REPLICA[name], (len(fleet), slots))
        more[name][:, : fleet.slots] = old
    return replace(fleet, **more)


def encode(fleet: Fleet) -> bytes:
    """The fleet as one message: a frame a table, back to back; empty sparse tables are left out."""
    return frames.join(frames.encode(frame) for frame in _frames(fleet, 0, 1))


def encode_parts(fleet: Fleet, limit_bytes: int = frames.MAX_FRAME_BYTES) -> list[bytes]:
    """The fleet in as many messages as keep each below the limit, each with its own rows.

    A topic's rows may stand in two parts; brokers and configs are repeated in each.
    """
    parts, encoded = 1, [encode(fleet)]
    while max(map(len, encoded)) > limit_bytes and parts < len(fleet):
        parts = max(parts + 1, -(-parts * max(map(len, encoded)) // limit_bytes))
        cuts = np.array_split(np.arange(len(fleet)), parts)
        encoded = [
            frames.join(
                map(frames.encode, _frames(replace(fleet, **rearranged(fleet, rows)), i, parts))
            )
            for i, rows in enumerate(cuts)
        ]
    return encoded


def decode(message: bytes) -> Fleet:
    """The fleet of a message.

    Raises:
        FrameRefused: as ``frames.decode``, or ``rows`` when the tables do not fit each other.
    """
    by_kind = {frame.stamp.kind: frame for frame in frames.decode(message)}
    needed = tables.STATE.keys() - {f"fleet.{name}" for name in SPARSE}
    if not needed <= by_kind.keys() <= tables.STATE.keys():
        raise FrameRefused("kind", f"a fleet has {sorted(needed)}, got {sorted(by_kind)}")
    stamp = by_kind["fleet.partitions"].stamp
    columns = {
        kind: {name: to_numpy(frame.rows.column(name)) for name in frame.rows.column_names}
        for kind, frame in by_kind.items()
    }
    cluster, partitions = columns["fleet.cluster"], columns["fleet.partitions"]
    used = partitions.pop("slots_used")
    replicas = columns["fleet.replicas"]
    if (
        int(used.sum(dtype=np.int64)) != len(replicas["broker"])
        or len(cluster["listed_at_ms"]) != 1
    ):
        raise FrameRefused("rows", f"{int(used.sum())} replicas announced, not the ones sent")
    rows: dict[str, Any] = {
        name: kind(**columns[f"fleet.{name}"]) if f"fleet.{name}" in columns else kind.none()
        for name, kind in SPARSE.items()
    }
    if any((sparse.row < 0).any() or (sparse.row >= len(used)).any() for sparse in rows.values()):
        raise FrameRefused("rows", "a row speaks of a partition that is not there")
    rows |= partitions
    rows |= {name: _matrix(replicas[name], used, _REPLICA[name]) for name in REPLICA_COLUMNS}
    bits = int.from_bytes(cluster["listed_parts"][0], "little")
    return Fleet(
        cluster=stamp.cluster,
        shard=stamp.shard,
        shards=stamp.shards,
        observed_at_ms=stamp.observed_at_ms,
        cycle=stamp.cycle,
        before_at_ms=int(cluster["before_at_ms"][0]),
        listing=Listing(
            at_ms=int(cluster["listed_at_ms"][0]),
            parts_seen=frozenset(i for i in range(bits.bit_length()) if bits >> i & 1),
            whole_at_ms=int(cluster["listing_whole_at_ms"][0]),
        ),
        topics=Topics(**columns["fleet.topics"]),
        configs=Configs(**columns["fleet.configs"]),
        brokers=Brokers(**columns["fleet.brokers"]),
        signals=signals_of(columns["fleet.signals"]),
        **rows,
    )


def signals_of(columns: dict[str, Array]) -> Signals:
    """The columns of a table of signals."""
    value = np.stack([columns[name] for name in tables.SIGNALS], axis=1)
    return Signals(columns["broker"], columns["measured_at_ms"], value)


def to_numpy(column: pa.ChunkedArray) -> Array:
    """An Arrow column as numpy; text and ids become Python objects, one a distinct value."""
    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        values = np.array([*array.dictionary.to_pylist(), None], object)[:-1]
        return values[array.indices.to_numpy(zero_copy_only=False)]  # type: ignore[no-any-return]
    if pa.types.is_binary(array.type):
        return np.array([*array.to_pylist(), None], object)[:-1]
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def to_arrow(column: tables.Column, values: Array) -> pa.Array:
    """The inverse of ``to_numpy``, in exactly the declared type."""
    kind = column.dtype
    if pa.types.is_dictionary(kind):
        return pa.array(values.tolist(), kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_binary(kind):
        return pa.array(values.tolist(), kind)
    return pa.array(values, kind)


def blank(column: tables.Column, shape: int | tuple[int, ...]) -> Array:
    """An array of the column's type that holds what a row holds before anyone told."""
    kind = column.dtype
    if pa.types.is_dictionary(kind) or pa.types.is_binary(kind):
        return np.full(shape, column.fill, object)
    return np.full(shape, column.fill, kind.to_pandas_dtype())


def _frames(fleet: Fleet, part: int, parts: int) -> list[Frame]:
    used = fleet.broker != NO_BROKER
    bits = sum(1 << i for i in fleet.listing.parts_seen)
    of_kind: dict[str, dict[str, Array]] = {
        "fleet.cluster": {
            "listed_at_ms": np.array([fleet.listing.at_ms], np.int64),
            "listed_parts": np.array([bits.to_bytes((bits.bit_length() + 7) // 8, "little"), None],
                                     object)[:-1],
            "listing_whole_at_ms": np.array([fleet.listing.whole_at_ms], np.int64),
            "before_at_ms": np.array([fleet.before_at_ms], np.int64),
        },
        "fleet.topics": _plain(fleet.topics),
        "fleet.configs": _plain(fleet.configs),
        "fleet.brokers": _plain(fleet.brokers),
        "fleet.signals": {
            "broker": fleet.signals.broker,
            "measured_at_ms": fleet.signals.measured_at_ms,
            **dict(zip(tables.SIGNALS, fleet.signals.value.T, strict=True)),
        },
        "fleet.partitions": {
            **{name: getattr(fleet, name) for name in PARTITION_COLUMNS},
            "slots_used": used.sum(axis=1).astype(np.uint8),
        },
        "fleet.replicas": {
            name: (
                getattr(fleet, name).ravel() if used.all() else getattr(fleet, name)[used]
            )
            for name in REPLICA_COLUMNS
        },
        **{
            f"fleet.{name}": _plain(getattr(fleet, name))
            for name in SPARSE
            if len(getattr(fleet, name))
        },
    }  # fmt: skip
    return [
        Frame(
            Stamp(
                kind=kind,
                cluster=fleet.cluster,
                shard=fleet.shard,
                shards=fleet.shards,
                observed_at_ms=fleet.observed_at_ms,
                cycle=fleet.cycle,
                part=part,
                parts=parts,
            ),
            pa.table(
                [to_arrow(c, of_kind[kind][c.name]) for c in table.columns], schema=table.schema
            ),
        )
        for kind, table in tables.STATE.items()
        if kind in of_kind
    ]


def _plain(table: Topics | Configs | Brokers | Sparse) -> dict[str, Array]:
    return {field.name: getattr(table, field.name) for field in fields(table)}


def _matrix(flat: Array, used: Array, column: tables.Column) -> Array:
    """[P, R] from the flat rows of ``used[p]`` replicas each."""
    slots = max(int(used.max(initial=0)), 1)
    if len(flat) == len(used) * slots:
        return flat.reshape(len(used), slots)
    matrix = blank(column, (len(used), slots))
    matrix[np.arange(slots) < used[:, None]] = flat
    return matrix


_PARTITION: Final = {c.name: c for c in tables.FLEET_PARTITIONS.columns if c.name != "slots_used"}
_REPLICA: Final = {c.name: c for c in tables.FLEET_REPLICAS.columns}
_FILL_CONFIGS: Final = {c.name: c.fill for c in tables.FLEET_CONFIGS.columns}

PARTITION_COLUMNS: Final = tuple(_PARTITION)
"""Names of the [P] fields."""

REPLICA_COLUMNS: Final = tuple(_REPLICA)
"""Names of the [P, R] fields."""
