"""Groups of consumers on a real cluster, and what the twin knows of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from streaming.collector.sources.groups import GroupSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime import config, jars
from tests.cluster.broker_client import Key
from tests.cluster.watching import Watch, keys
from tests.versions.tools import GroupOffset, GroupStatus
from twin.engine.shard_state import ShardState
from twin.rules.partitions.leaders import Roles
from twin.tables.enums import GroupState
from twin.tables.state import GroupOffsets, Groups, Replicas

_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"

GroupKey = tuple[str, str, int]  # group, topic and partition


@contextmanager
def consuming(
    classpath: Sequence[Path], bootstrap: str, topic: str, group: str, **settings: str
) -> Iterator[None]:
    """Kafka's own consumer, which reads from the beginning and stays; dots in names are ``_``."""
    options = {"auto.commit.interval.ms": "200"}
    options |= {name.replace("_", "."): value for name, value in settings.items()}
    command = [
        jars.java(), "-Xmx96m", *jars.QUICK_START, "-Dlog4j2.level=OFF",
        "-cp", os.pathsep.join(map(str, classpath)), _CONSUMER,
        "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning",
    ]  # fmt: skip
    for name, value in options.items():
        command += ["--command-property", f"{name}={value}"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()  # it leaves its group
        try:
            child.wait(200)
        finally:
            child.kill()


def commit(bootstrap: str, group: str, offsets: Mapping[Key, int], metadata: str = "") -> None:
    """Commit offsets as a consumer does that assigns itself: its group has no members."""
    placed = {
        TopicPartition(*key): OffsetAndMetadata(offset, metadata, -1)
        for key, offset in offsets.items()
    }
    with KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign(list(placed))
        consumer.commit(placed)


@contextmanager
def watching_groups(bootstrap: str, source: type[GroupSource] = GroupSource) -> Iterator[Watch]:
    """A twin of the cluster in one shard that reads groups when it is asked."""
    settings = config.Config(
        cluster=config.ClusterConfig(name="real", bootstrap=bootstrap),
        bus=config.BusConfig(shards=1),
    )
    with (
        BrokerConnections(bootstrap, {}, settings.collector.deadline_ms) as brokers,
        source(settings, brokers.client_id, background=False) as groups,
    ):
        watch = Watch(settings, brokers, groups)
        watch.look()
        yield watch


def offsets_of(state: ShardState) -> dict[GroupKey, GroupOffset]:
    """Offsets and lags of all groups as the twin has them, in the words of Kafka's tool."""
    offsets, replicas = state[GroupOffsets], state[Replicas]
    leader_slot = state[Roles].is_leader.argmax(axis=1)
    names, partitions = state[Groups].group, keys(state)
    rows: dict[GroupKey, GroupOffset] = {}
    for row, group, committed, assigned in zip(
        offsets.row.tolist(), offsets.group_index.tolist(), offsets.committed_offset.tolist(),
        offsets.assigned.tolist(), strict=True,
    ):  # fmt: skip
        end = int(replicas.log_end_offset[row, leader_slot[row]])
        rows[(names[group], *partitions[row])] = GroupOffset(
            committed=committed if committed >= 0 else None,
            log_end=end,
            lag=end - committed if committed >= 0 else None,
            has_member=assigned == 1,
        )
    return rows


def states_of(state: ShardState) -> dict[str, GroupStatus]:
    """Coordinator, state and members of all groups as the twin has them."""
    groups = state[Groups]
    return {
        name: GroupStatus(coordinator, _kafka_name(GroupState(value)), members)
        for name, coordinator, value, members in zip(
            groups.group.tolist(), groups.coordinator.tolist(), groups.group_state.tolist(),
            groups.members.tolist(), strict=True,
        )
    }  # fmt: skip


def _kafka_name(state: GroupState) -> str:
    return state.name.title().replace("_", "")
