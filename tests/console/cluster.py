"""Clusters to look at: a small one in which everything happens, and one of 100 000 partitions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from starlette.types import ASGIApp

from streaming.bus.view import ClusterView, SnapshotStore
from streaming.exporter.metrics.exposition import Exposition
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.runtime.config import AccessConfig
from tests.builders import (
    Group,
    Log,
    Partition,
    SegmentEvent,
    a_state,
    empty,
    epochs_frame,
    group_offsets_frame,
    groups_frame,
    partitions_frame,
    problems_frame,
    segments_frame,
)
from tests.exporter.serving import served
from tests.exporter.test_events import Bus
from tests.log_dir_frames import Directory, failed, log_dirs_frame, replica_dirs_frame
from tests.simulator.shard import Shape, SimulatedShard
from tests.twin.disks.stage import PLAIN, TIERED, Growing, cycles
from tests.twin.test_gate import quorum
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.step import step, step_segments
from twin.tables.enums import GroupState, PendingUpload, SegmentState
from twin.tables.state import Brokers

BROKERS = (1, 2, 3, 4, 5, 6)
"""In racks az-a, az-b and az-c in turn."""

LARGE_SHARDS = 16
LARGE_PARTITIONS = 100_000
GIB, MIB = 1 << 30, 1 << 20

CLUSTER = "prod-eu"

HAPPENED: Final = (
    ("broker_fenced", "broker 2 was fenced: it leads nothing", False),
    ("leader_moved", "ledger-0 is led by 3, was 2", True),
    (
        "prediction_judged",
        "ledger-0: leader 2 was lost; broker 3 leads, broker 3 was predicted",
        True,
    ),
    (
        "risk_opened",
        "ledger-0: the leader is cold: it holds too little local log, and reads older records from "
        "remote storage",
        True,
    ),
)

ODD_NAME = "Every.Legal_Character-" + "0" * 40 + ".azAZ09._-"
ODD_GROUP = "any/\u00e4\u2603 'group'? <b>&amp;</b> #1 %2F \\ \"q\""
"""Kafka takes any text as the name of a group."""

OUT_OF_SYNC: Final = ("returns", "moving", "retired")
"""Topics of which a replica is not in the ISR."""

DAY_MS: Final = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Shown:
    """The answers of an exporter; tests change them while a page is open."""

    view: ClusterView = field(default_factory=ClusterView)
    bus: Bus = field(default_factory=Bus)
    clock_ahead_ms: int = 0
    stands_at_ms: int = 0  # the exporter's time, if it is to stand still
    access: AccessConfig = field(default_factory=AccessConfig)

    def app(self) -> ASGIApp:
        source = ViewSource(
            CATALOG, CLUSTER, lambda: Exposition(self.view),
            lambda: self.stands_at_ms or now_ms() + self.clock_ahead_ms, self.bus.log,
        )  # fmt: skip
        return application(source, access=self.access)

    def happen(self) -> None:
        """What the events topic may hold of a broker that was lost."""
        for kind, text, of_partition in HAPPENED:
            where = {"topic": "ledger", "partition": 0} if of_partition else {"broker": 2}
            self.bus.report(kind=kind, text=text, at_ms=now_ms(), **where)

    def show(
        self, *states: ShardState, of_cluster: bool = False, own: ShardState | None = None
    ) -> None:
        """Serve those shards from now on; with what they report of the cluster, if asked for.

        ``own``: the cluster's own shard, where more than the newest reports is in it.
        """
        store = SnapshotStore(CATALOG, CLUSTER, states[0].shards)
        for state in states:
            message = codec.encode(replace(state, cluster=CLUSTER))
            assert store.take_snapshot(f"{CLUSTER}/{state.shard}".encode(), message)
        if of_cluster and own is None:
            own = empty_cluster(CATALOG, states[0].cluster, states[0].shards)
            own, _ = step_cluster(own, [frame for state in states for frame in reports(state)])
        if own is not None:
            message = codec.encode(replace(own, cluster=CLUSTER))
            assert store.take_snapshot(f"{CLUSTER}/cluster".encode(), message)
        self.view = store.publish()


@contextmanager
def serving(shown: Shown) -> Iterator[str]:
    """The URL of an exporter that serves it."""
    with served(shown.app(), shown.bus.log) as url:
        yield url


def _log(end: int, local_start: int, tiered: int, minutes: int, size_bytes: int) -> Log:
    tiered = min(tiered, end)
    return Log(
        end=end, local_start=local_start, last_tiered=tiered - 1, pending_upload=tiered,
        reason=PendingUpload.KNOWN, size_bytes=size_bytes,
        started_ms=now_ms() - minutes * 60_000,
    )  # fmt: skip


def small(
    *, leader_of_ledger: int = 2, judged: bool = True, fenced: tuple[int, ...] = (),
    in_sync: bool = False, at_ms: int | None = None,
) -> ShardState:  # fmt: skip
    """Six brokers in three racks; the ledger's next leader is cold, scratch has one replica.

    In some partitions a replica is out of sync, unless ``in_sync`` leaves these out.
    """
    configs = {
        topic: {"remote_storage": int(topic == "ledger"), "retention_ms": 7 * DAY_MS,
                "retention_bytes": UNKNOWN, "local_retention_ms": 5 * 3_600_000,
                "local_retention_bytes": UNKNOWN}
        for topic in ("orders", "payments", "ledger", "scratch", ODD_NAME)
    }  # fmt: skip
    config = {"eligible_local_log_ms": 3_600_000} if judged else {}
    state, at_ms = empty(), now_ms() if at_ms is None else at_ms
    for before_ms, end in ((5_000, 2_980), (0, 3_000)):
        parts = [
            replace(part, offline=tuple(set(part.replicas) & set(fenced)))
            for part in _parts(leader_of_ledger, end)
            if not (in_sync and part.topic in OUT_OF_SYNC)
        ]
        state = a_state(
            *parts, at_ms=at_ms - before_ms, brokers=BROKERS, fenced=fenced, since=state,
            topics=configs, min_insync_replicas=1, elr_enabled=1, **config,
        )  # fmt: skip
        groups = _groups(parts, end)
        read_ms = at_ms - before_ms
        read = [groups_frame(groups, read_ms), group_offsets_frame(groups, read_ms)]
        state, _ = step(state, read, read_ms)
    known = replace(state[Brokers], kafka_version=np.full(len(BROKERS), "4.1", object))
    state = state.with_tables(quorum(0, 0, 0), known)
    ledger = next(part for part in parts if part.topic == "ledger")
    copied = [
        event
        for i, epochs in enumerate(
            (((5, 0),), ((5, 744), (6, 1_200)), ((6, 1_488),), ((6, 2_232), (7, 2_400)))
        )
        for event in (
            SegmentEvent(SegmentState.COPY_STARTED, f"s{i}", i * 744, i * 744 + 743, epochs,
                         at_ms=at_ms - (5 - i) * 600_000),
            SegmentEvent(SegmentState.COPY_FINISHED, f"s{i}", at_ms=at_ms - (5 - i) * 590_000),
        )
    ]  # fmt: skip
    frames = [
        epochs_frame(ledger, [(5, 0), (6, 1_200), (7, 2_400)], at_ms),
        segments_frame(ledger, copied, at_ms),
    ]
    return step_segments(state, {}, frames)[0]


def _parts(leader_of_ledger: int, end: int) -> list[Partition]:
    """All partitions, written up to that offset."""
    warm, older = _log(end, 864, 2_976, 240, 2 * GIB), _log(end, 700, 2_976, 300, 3 * GIB)
    cold = _log(end, 2_960, 2_976, 3, GIB // 64)
    return [
        *(_spread("orders", i, (1, 4, 2, 3, 6), warm) for i in range(6)),
        *(_spread("payments", i, (3, 6, 1, 5, 2), warm) for i in range(4)),
        *(_spread("clicks", i, (5, 2, 4, 6), warm) for i in range(8)),
        *(_spread("audit", i, (3, 4, 6, 5), warm) for i in range(2)),
        *(_spread("__consumer_offsets", i, BROKERS, warm) for i in range(50)),
        Partition("ledger", 0, (2, 3, 1), leader=leader_of_ledger, epoch=7, log=warm,
                  logs={3: cold, 1: older}),
        Partition("returns", 0, (4, 5, 6), isr=(4, 5), log=warm),
        Partition("moving", 0, (1, 5, 3), isr=(1, 5), adding=(3,), log=warm,
                  logs={3: Log(end=0, size_bytes=0)}),
        Partition("retired", 0, (3, 2, 4), isr=(3,), elr=(2,), log=warm),
        Partition("scratch", 0, (2,), log=warm),
        Partition(ODD_NAME, 0, (1, 2, 3), log=warm),
    ]  # fmt: skip


def _groups(parts: list[Partition], end: int) -> list[Group]:
    """Groups that are near the log end, far behind it, on remote storage, and alone."""
    [ledger], [scratch], [odd] = (
        [part for part in parts if part.topic == topic] for topic in ("ledger", "scratch", ODD_NAME)
    )
    shop = [part for part in parts if part.topic in ("orders", "payments")]
    read = end - 3_000
    return [
        Group("billing-etl", [(ledger, 900 + read)]),
        Group("search-index", [(ledger, 2_600 + read)]),
        Group("live-dashboard", [(ledger, 2_995 + read)]),
        Group("replay", [(ledger, 300 + read)]),
        Group("audit-export", [(scratch, 2_900)]),
        Group("shop", [(part, end - 10 * i) for i, part in enumerate(shop)], members=3),
        Group(ODD_GROUP, [(odd, 2_400)], members=0, state=GroupState.EMPTY),
    ]


def _spread(topic: str, number: int, brokers: tuple[int, ...], log: Log) -> Partition:
    """A partition on three of those brokers, beginning with another one each."""
    first = number % len(brokers)
    turned = brokers[first:] + brokers[:first]
    return Partition(topic, number, turned[:3], log=log)


def large(groups: int = 0) -> list[ShardState]:
    """100 000 partitions of 2 000 topics on 30 brokers, and so many groups that read all of it."""
    shape = Shape(
        topics=LARGE_PARTITIONS // LARGE_SHARDS // 50, partitions=50, brokers=30, groups=groups
    )
    states, at_ms = [], now_ms()
    for number in range(LARGE_SHARDS):
        shard = SimulatedShard(shape, 1, CLUSTER, number, LARGE_SHARDS)
        began = ShardState.empty(CATALOG, CLUSTER, number, LARGE_SHARDS)
        states.append(step(began, shard.observe(at_ms), at_ms)[0])
    return states


def with_problems(problems: Sequence[tuple[str, int, str, str]]) -> ShardState:
    """The same, and what the collector could not find out: source, broker, error, text."""
    state = small()
    return step(state, [problems_frame(problems, state.observed_at_ms)], state.observed_at_ms)[0]


def with_disks() -> ShardState:
    """The same on brokers with two disks: one of them has failed, and two are one volume."""
    state = small()
    at_ms, tib = state.observed_at_ms, 1024 * GIB
    disks = [
        Directory(broker, number, 2 * tib, usable, replicas=held, volume=volume)
        for broker, number, usable, held, volume in (
            (1, 0, 1_400 * GIB, 520 * GIB, 0),
            (1, 1, 1_400 * GIB, 90 * GIB, 0),
            (3, 0, 150 * GIB, 1_700 * GIB, 0),
            (3, 1, 1_200 * GIB, 800 * GIB, 1),
            *((broker, 0, 1_000 * GIB, 900 * GIB, 0) for broker in (2, 4, 5, 6)),
        )
    ]
    disks[-1] = replace(disks[-1], future=60 * GIB, unassigned=30 * GIB)
    ledger, payments = (
        next(part for part in _parts(2, 3_000) if part.topic == topic)
        for topic in ("ledger", "payments")
    )
    where = [(ledger, 2, 1), (ledger, 3, 0), (payments, 3, 1)]
    frames = [log_dirs_frame([*disks, failed(2, 1)], at_ms), replica_dirs_frame(where, at_ms)]
    state, _ = step(state, frames, at_ms)
    offline = [
        replace(part, offline=(2,)) if part.topic in ("ledger", "scratch") else part
        for part in _parts(3, 3_000)
    ]
    return step(state, [partitions_frame(offline, at_ms + 1)], at_ms + 1)[0]


FILLS: Final = tuple(range(0, 1_200, 120))
"""Seconds of the cycles in which disks fill."""


def with_forecasts() -> tuple[ShardState, ShardState]:
    """A shard and the cluster's own, after some cycles in which disks have filled.

    Broker 1 will be full within hours; of broker 2 more is written than its logs explain; broker 3
    has tiered logs, and nothing of it is in sight.
    """
    orders = PLAIN | {"retention_ms": 7 * DAY_MS}
    ledger = TIERED | {"local_retention_ms": 3_600_000}
    parts = [
        Growing("orders", mb_per_s=4, age_s=86_400, replicas=(1, 2)),
        Growing("payments", mb_per_s=1, age_s=86_400, replicas=(1, 2)),
        Growing("ledger", mb_per_s=2, age_s=7_200, keeps_s=3_600, replicas=(3, 4)),
    ]
    free, unexplained = {1: 50 * GIB, 2: 700 * GIB, 3: 80 * GIB, 4: 900 * GIB}, 12 * MIB
    at_first: dict[int, int] = {}

    def disks(after_s: float, now: Sequence[Partition]) -> list[Directory]:
        found = []
        for broker, usable in free.items():
            logs = sum(part.log.size_bytes for part in now if broker in part.replicas)
            hidden = round(after_s * unexplained) if broker == 2 else 0
            taken = logs + hidden - at_first.setdefault(broker, logs)
            found.append(Directory(broker, 0, 2_048 * GIB, usable - taken, replicas=logs + hidden))
        return found

    state, own = empty(), empty_cluster(CATALOG, "c", 1)
    configs = {"orders": orders, "payments": orders, "ledger": ledger}
    for frames, at_ms in cycles(parts, disks, configs, FILLS):
        state, _ = step(state, frames, at_ms)
        own, _ = step_cluster(own, reports(state))
    return state, own
