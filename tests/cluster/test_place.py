"""``plan place`` on real brokers: before it a rack takes partitions with it, and after it none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from streaming.bus import bus_topics
from streaming.cli.main import main
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.cluster.broker_client import BrokerClient
from tests.cluster.test_whatif import write
from tests.cluster.topics import produce
from tests.cluster.watching import environment_of, watching
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

TOPIC: Final = "placed"
PLACES: Final = ([2, 5], [5, 2], [1, 4], [4, 1], [2, 5], [1, 4])
RACK: Final = (2, 5)
"""Brokers 1 and 4 are in one rack, 2 and 5 in another. Of the controllers, 1 and 3 are left."""


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[LocalCluster]:
    """Five brokers in three racks."""
    base = free_base_port(40)
    with LocalCluster(tmp_path / "cluster", 3, 2, base, racks=3) as cluster:
        yield cluster


def plan(config: Config, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["plan", *arguments], env=environment_of(config))
    print(done.output)
    return done


def test_after_the_planned_moves_no_partition_goes_with_its_rack(
    racks: LocalCluster, tmp_path: Path
) -> None:
    client = BrokerClient(racks)
    client.create(TOPIC, PLACES, {"min.insync.replicas": "1"})
    produce(racks, TOPIC, 600)
    config = Config(
        cluster=ClusterConfig(name="real", bootstrap=racks.bootstrap),
        bus=BusConfig(shards=1, replication_factor=3),
    )
    bus_topics.ensure_topics(config)
    with watching(racks.bootstrap) as twin:
        twin.look()
        write(config, twin.look())
        done = plan(config, "place", "--out", str(tmp_path / "out"))
        assert done.exit_code == 0
        # Kafka's own topics may share racks as well: some brokers joined after they were made.
        assert "are harmed more by the loss of a rack than 3 racks require" in done.output

        proposal = tmp_path / "out" / "reassignment.json"
        judged = plan(config, "judge", str(proposal))
        assert judged.exit_code == 0
        assert "The proposal is better: one rack" in judged.output
        moved = json.loads(proposal.read_text())["partitions"]
        assert {(TOPIC, n) for n in range(len(PLACES))} <= {
            (each["topic"], each["partition"]) for each in moved
        }
        for each in moved:
            client.reassign(each["topic"], each["partition"], each["replicas"])

        def moves_ended() -> bool:
            return all(
                client.partition(1, each["topic"], each["partition"]).isr == set(each["replicas"])
                for each in moved
            )

        until(moves_ended, 60)
        write(config, twin.look())
        assert "No partition is harmed more by the loss of a rack" in plan(config, "place").output
        # The way back is worse, and says so by its exit code.
        back = plan(config, "judge", str(tmp_path / "out" / "restore.json"))
        assert back.exit_code == 1
        assert "The proposal is worse: one rack" in back.output

    for broker in RACK:
        racks.kill(broker)

    def led_by_others() -> bool:
        leaders = {client.partition(1, TOPIC, number).leader for number in range(len(PLACES))}
        return leaders <= {1, 3, 4}

    until(led_by_others, 60, "a partition went with its rack")
