"""A small cluster of a Kafka release with topics of several kinds, and the twin of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import BROKER_RESOURCE, BrokerClient, Key
from tests.cluster.conftest import STILL
from tests.cluster.watching import Watch, watching
from tests.versions.releases import Release
from tests.versions.tools import Described, Tools
from tests.waiting import until

LOST: Final = 2
"""The broker that is killed."""

_BEHIND: Final = 3
"""The broker whose replicas of some topics cannot keep up."""

SETTINGS: Final = {
    **STILL,
    "broker.session.timeout.ms": "6000",  # and not 9 s until a killed broker is fenced
    "replica.lag.time.max.ms": "6000",  # and not 30 s until a slow follower leaves the ISR
}
_ROUND: Final = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
_TIERED: Final = {"remote.storage.enable": "true", "min.insync.replicas": "2"}
_THROTTLED: Final = {
    "min.insync.replicas": "1",
    "follower.replication.throttled.replicas": f"0:{_BEHIND}",
}
_BEHIND_TOPICS: Final = ("versions-behind", "versions-behind-unclean")
_LARGE_BYTES: Final = 900_000
_LARGE_RECORDS: Final = 10
_RECORDS: Final = 60


def _topics(release: Release, with_behind: bool) -> dict[str, dict[str, Any]]:
    """Topics by name, as the admin client takes them."""
    topics: dict[str, dict[str, Any]] = {
        "versions-plain": {
            "assignments": _ROUND | {3: [2, 1, 3], 4: [3, 2, 1], 5: [1, 3, 2]},
            "configs": {"min.insync.replicas": "2"},
        },
        "versions-min1": {"assignments": _ROUND, "configs": {"min.insync.replicas": "1"}},
        "versions-single": {"assignments": {0: [1], 1: [2], 2: [3]}},
        "versions-pair": {
            "assignments": {0: [2, 3], 1: [3, 1], 2: [1, 2]},
            "configs": {"min.insync.replicas": "2"},
        },
        "versions-compacted": {"assignments": _ROUND, "configs": {"cleanup.policy": "compact"}},
    }
    if release.has_tiers:
        small = _TIERED | release.small_segments
        topics |= {
            "versions-tiered": {
                "assignments": _ROUND,
                "configs": small | {"local.retention.bytes": "40000"},
            },
            # Everything of it goes to remote storage: nothing is left on disk.
            "versions-idle": {
                "assignments": {0: [2, 1, 3]},
                "configs": small | {"local.retention.ms": "2000"},
            },
        }
    if with_behind:
        unclean = {"unclean.leader.election.enable": "true"}
        configs = dict(zip(_BEHIND_TOPICS, (_THROTTLED, _THROTTLED | unclean), strict=True))
        topics |= {
            name: {"assignments": {0: [LOST, _BEHIND]}, "configs": each}
            for name, each in configs.items()
        }
    return topics


class Stage:
    """A running cluster, the twin of it, and Kafka's own tools."""

    def __init__(self, cluster: LocalCluster, tools: Tools, watch: Watch, release: Release) -> None:
        self.cluster = cluster
        self.tools = tools
        self.watch = watch
        self.release = release

    def prepare(self, with_behind: bool = True) -> None:
        """Create the topics and fill them; wait until they are tiered.

        Args:
            with_behind: some partitions have one replica out of sync on a broker that is alive.
        """
        topics = _topics(self.release, with_behind)
        client, nodes = BrokerClient(self.cluster), self.cluster.layout.ids
        # A broker that has just started may not know of the others yet.
        until(
            lambda: all(client.listed(node) == set(nodes) for node in nodes),
            30,
            "not every broker knows all others",
        )
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
            admin.create_topics(topics, timeout_ms=20_000, wait_for_metadata=True)
        until(
            lambda: set(topics) <= {topic for topic, _ in self.tools.partitions()},
            30,
            "the topics are not there",
        )
        self._fill([topic for topic in topics if topic not in _BEHIND_TOPICS], topics)
        if with_behind:
            self._throttle("1")
            until(self._fall_behind, 90)
        if self.release.has_tiers:
            until(self._is_tiered, 60, "the topics are not in remote storage", pause_s=0.5)

    def _fill(self, names: Sequence[str], topics: Mapping[str, Mapping[str, Any]]) -> None:
        with KafkaProducer(bootstrap_servers=self.cluster.bootstrap, acks="all") as producer:
            for topic in names:
                for number in topics[topic]["assignments"]:
                    for turn in range(_RECORDS + 10 * number):
                        key = str(turn).encode()
                        producer.send(topic, bytes(1_000), key, partition=number)
                producer.flush(60)  # so that a batch is about one topic, and segments are closed

    def _fall_behind(self) -> bool:
        """Have a broker miss records, and start it again with a throttle; it is out of sync then.

        A follower in the ISR is never throttled, so it has to leave that first. It may copy all
        before it has read its throttle, and then it is in sync.
        """
        self.cluster.term(_BEHIND)
        with KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap,
            acks=1,
            enable_idempotence=False,
            max_request_size=2 * _LARGE_BYTES,
        ) as producer:
            for topic in _BEHIND_TOPICS:
                for _ in range(_LARGE_RECORDS):
                    producer.send(topic, bytes(_LARGE_BYTES), partition=0)
            producer.flush(60)
        self.cluster.start([_BEHIND])
        self.await_in_sync(but=_BEHIND_TOPICS)
        described = self.tools.partitions()
        return all(described[topic, 0].isr == {LOST} for topic in _BEHIND_TOPICS)

    def finalize(self) -> None:
        """Raise metadata.version to what all brokers support, the last step of an upgrade."""
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
            _, highest = admin.describe_features()["metadata.version"]["supported"]
            admin.update_features({"metadata.version": highest})

    def _throttle(self, bytes_per_s: str) -> None:
        client = BrokerClient(self.cluster)
        client.configure(
            BROKER_RESOURCE, str(_BEHIND), follower_replication_throttled_rate=bytes_per_s
        )

    def _is_tiered(self) -> bool:
        kinds = self.release.offset_kinds
        watched = [("versions-idle", 0), *(("versions-tiered", number) for number in _ROUND)]
        start = self.tools.offsets(kinds["local_log_start_offset"], watched)
        end = self.tools.offsets(kinds["log_end_offset"], watched)
        return start[watched[0]] == end[watched[0]] and all(start[key] > 0 for key in watched)

    # Faults and changes

    def leaders_after(self, lost: int) -> dict[Key, Described]:
        """The partitions once all running brokers agree that a broker leads none."""
        client = BrokerClient(self.cluster)
        running = [node for node in self.cluster.layout.ids if node != lost]

        def moved() -> bool:
            first, *others = [client.routed(node) for node in running]
            return lost not in first.values() and all(other == first for other in others)

        until(moved, 60, f"broker {lost} is still a leader")
        return self.tools.partitions()

    def restore(self) -> None:
        """Start the lost broker again, and wait until every replica is in sync."""
        self._throttle("1000000000")
        self.cluster.start([LOST])
        self.await_in_sync()

    def await_in_sync(self, but: Collection[str] = ()) -> None:
        """Wait until every replica of every partition is in sync, those of some topics aside."""

        def in_sync() -> bool:
            described = self.tools.partitions().items()
            return all(p.isr == set(p.replicas) for (topic, _), p in described if topic not in but)

        until(in_sync, 90, "not every replica is in sync", pause_s=0.5)

    def check(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run ``kafka-twin check`` as a user does."""
        config = folder / "twin.toml"
        config.write_text(
            f'[cluster]\nname = "v"\nbootstrap = "{self.cluster.bootstrap}"\n'
            "[eligibility]\nlocal_log_ms = 600000\n"
        )
        command = [str(Path(sys.executable).parent / "kafka-twin"), "--config", str(config)]
        return subprocess.run(
            [*command, "check"], capture_output=True, text=True, timeout=120, cwd=folder
        )


def cluster_of(release: Release, home: Path) -> LocalCluster:
    """Three nodes of a release, not started."""
    return LocalCluster(
        home, base_port=free_base_port(), settings=SETTINGS | dict(release.settings),
        metrics=False, release=release.folder,
    )  # fmt: skip


@contextmanager
def stage(cluster: LocalCluster, release: Release) -> Iterator[Stage]:
    """The tools of a release, and a twin, for a cluster that runs."""
    with (
        Tools(release.tools(cluster.jars()), cluster.bootstrap) as tools,
        watching(cluster.bootstrap) as watch,
    ):
        yield Stage(cluster, tools, watch, release)
