"""A log directory without room: what Kafka does with it and with its broker, and the way back.

NO_ROOM_RELEASES has other Kafka releases than that of the local cluster, such as 3.9.1.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
from kafka import TopicPartition

from streaming.lab.local_cluster import ClusterError, LocalCluster
from tests.cluster.broker_client import TOPIC_RESOURCE, BrokerClient
from tests.cluster.small_volumes import (
    FIRST,
    RECORD_BYTES,
    Twin,
    Volume,
    failed,
    place,
    small_volumes,
    written,
)
from tests.cluster.watching import watching
from tests.versions.releases import OWN, Release
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

VERSIONS: Final = os.environ.get("NO_ROOM_RELEASES", OWN).split(",")
TOPICS: Final = ("first", "second")
"""Each is in a directory of its own; the first directory has the metadata log as well."""

SIZES_MB: Final = {(FIRST, 0): 40, (FIRST, 1): 30}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_full_directory_is_offline_and_the_last_one_ends_its_broker(
    version: str, tmp_path: Path
) -> None:
    with small_volumes(tmp_path / "cluster", SIZES_MB, Release(version).folder) as cluster:
        client, volumes = BrokerClient(cluster), list(SIZES_MB)
        second = volumes[1]
        for (broker, number), topic in zip(volumes, TOPICS, strict=True):
            place(cluster, broker, number, topic, 0)
            client.create(topic, [[broker]], {"segment.bytes": str(1 << 20)})
        with watching(cluster.bootstrap) as watch:
            twin = Twin(watch)
            twin.look()
            assert twin.opened("log_dir_failed") == []
            with written(cluster.bootstrap, {TopicPartition("second", 0): 6.0}):
                until(lambda: failed(cluster, volumes) == second, 60, "no directory has failed")
            until(lambda: client.routed(1)["second", 0] == -1, 30, "its replicas have a leader")
            assert client.routed(1)["first", 0] == FIRST, "the broker goes on"

            def says_it() -> bool:
                twin.look()
                return twin.opened("log_dir_failed") == [FIRST]

            until(says_it, 30, "the twin does not say that it has failed")
            # A directory that is out of use is not cleaned either.
            used = _used_bytes(cluster, 1)
            client.configure(TOPIC_RESOURCE, "second", retention_ms="1000")
            with written(cluster.bootstrap, {TopicPartition("first", 0): 6.0}):
                until(lambda: _ended(cluster), 60, "the broker goes on without a directory")
            assert _used_bytes(cluster, 1) == used
        held = _log_bytes(cluster)
        client.configure(TOPIC_RESOURCE, "second", retention_ms="-1")
        for volume in volumes:  # neither has room, then the second has none
            with pytest.raises(ClusterError, match="died while it started") as refused:
                cluster.start([FIRST])
            print(f"\n{version}, {volume}: {refused.value}")
            _grow(cluster, volume)
        cluster.start([FIRST])
        until(lambda: {client.routed(1)[t, 0] for t in TOPICS} == {FIRST}, 30, "no leader")
        # A record that was half written is cut off.
        back = _log_bytes(cluster)
        assert all(back[topic] > held[topic] - RECORD_BYTES for topic in TOPICS)


def _grow(cluster: LocalCluster, volume: Volume) -> None:
    path, options = (
        cluster.layout.disks(volume[0])[volume[1]],
        f"remount,size={2 * SIZES_MB[volume]}m",
    )
    subprocess.run(["mount", "-o", options, path], check=True)


def _ended(cluster: LocalCluster) -> bool:
    return any(node.id == FIRST and node.state == "stopped" for node in cluster.status())


def _used_bytes(cluster: LocalCluster, number: int) -> int:
    volume = os.statvfs(cluster.layout.disks(FIRST)[number])
    return (volume.f_blocks - volume.f_bfree) * volume.f_frsize


def _log_bytes(cluster: LocalCluster) -> dict[str, int]:
    """Of each topic."""
    folders = zip(cluster.layout.disks(FIRST), TOPICS, strict=True)
    return {
        topic: sum(path.stat().st_size for path in (disk / f"{topic}-0").glob("*.log"))
        for disk, topic in folders
    }
