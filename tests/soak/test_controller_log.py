"""The controllers' log of a real cluster, read by Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from streaming.lab.local_cluster import LocalCluster, free_base_port
from tests.cluster.broker_client import await_agreement
from tests.soak import controller_log


@pytest.mark.cluster
def test_the_log_has_the_leader_that_a_lost_broker_leaves(tmp_path: Path) -> None:
    two = LocalCluster(
        tmp_path, nodes=1, brokers=1, base_port=free_base_port(),
        settings={"remote.log.storage.system.enable": "false"},
    )  # fmt: skip
    with two:
        with KafkaAdminClient(bootstrap_servers=two.bootstrap) as admin:
            admin.create_topics(
                {"pair": {"assignments": {0: [2, 1]}, "configs": {}}}, wait_for_metadata=True
            )
        two.kill(2)
        await_agreement(two, lost=[2])
    log = controller_log.read(two.layout)
    assert log.first_leader["pair", 0] == 2
    change = next(change for change in log.changes["pair", 0] if change.moves_leader)
    assert (change.old_leader, change.new_leader) == (2, 1)
    assert "isr" in change.fields
