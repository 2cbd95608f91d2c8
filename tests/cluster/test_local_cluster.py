"""The local cluster: what was started runs, what was killed is gone, and nothing is left behind."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from streaming.lab import commands, processes
from streaming.lab.local_cluster import ClusterError, LocalCluster, NodeStatus, free_base_port
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.releases]


def states(cluster: LocalCluster) -> list[str]:
    return [node.state for node in cluster.status()]


def test_every_node_runs_in_a_rack_of_its_own_and_accepts_clients(whole: LocalCluster) -> None:
    nodes = whole.status()
    assert [n.id for n in nodes] == [1, 2, 3]
    assert [n.rack for n in nodes] == ["az-a", "az-b", "az-c"]
    assert {n.state for n in nodes} == {"running"}
    assert whole.bootstrap == ",".join(f"127.0.0.1:{n.port}" for n in nodes)
    for node in nodes:
        with socket.create_connection(("127.0.0.1", node.port), 5):
            pass


def test_every_port_is_below_those_lent_to_outgoing_connections(whole: LocalCluster) -> None:
    ports = [port for node in whole.layout.ids for port in whole.layout.listens_on(node)]
    assert len(set(ports)) == 9
    assert max(ports) < 32_768
    assert all(not processes.is_free(port) for port in ports)


def test_another_process_finds_the_cluster_by_its_home(whole: LocalCluster) -> None:
    assert LocalCluster.open(whole.home).status() == whole.status()


def test_eligible_leader_replicas_are_on(whole: LocalCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=whole.bootstrap)
    features = admin.describe_features()
    admin.close()
    assert features["eligible.leader.replicas.version"]["finalized"] == (1, 1)


def test_segments_of_a_tiered_topic_land_in_the_remote_folder(whole: LocalCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=whole.bootstrap)
    configs = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "16384",
        "local.retention.bytes": "16384",
    }
    admin.create_topics([NewTopic("tiered", 1, 3, topic_configs=configs)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=whole.bootstrap)
    for _ in range(60):
        producer.send("tiered", bytes(1_000), partition=0)
    producer.close(timeout=30)

    def tiered() -> list[Path]:
        return list(whole.home.glob("remote/kafka-tiered-storage/tiered-0-*/*.log"))

    until(lambda: len(tiered()) >= 2, 60, "no segment was tiered")


def test_a_paused_node_keeps_its_process_and_goes_on_when_resumed(whole: LocalCluster) -> None:
    pid = whole.status()[1].pid
    whole.pause(2)
    assert states(whole) == ["running", "paused", "running"]
    assert whole.status()[1].pid == pid
    whole.resume(2)
    assert states(whole) == ["running"] * 3


def test_a_killed_node_is_gone_at_once_and_comes_back_alone(whole: LocalCluster) -> None:
    before = whole.status()
    whole.kill(3)
    after = whole.status()
    assert after[:2] == before[:2]
    assert after[2] == NodeStatus(3, None, before[2].port, "az-c", "stopped")
    with pytest.raises(ProcessLookupError):
        os.kill(before[2].pid or 0, 0)  # reaped: not even a zombie
    with pytest.raises(ClusterError, match="node 3 is not running"):
        whole.kill(3)

    whole.start()
    again = whole.status()
    assert again[:2] == before[:2]
    assert again[2].state == "running"
    assert again[2].pid != before[2].pid


def test_a_paused_node_can_be_shut_down(whole: LocalCluster) -> None:
    whole.pause(1)
    whole.term(1)
    assert states(whole) == ["stopped", "running", "running"]


def test_a_node_that_does_not_exist_is_refused_by_number(whole: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="there is no node 7; ids are 1 to 3"):
        whole.pause(7)


def test_the_command_line_shows_and_freezes_nodes(whole: LocalCluster) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(commands.cluster, [*arguments, "--home", str(whole.home)])
        assert result.exit_code == 0, result.output
        return result.output

    run("pause", "2")
    status = json.loads(run("status", "--json"))
    assert status["bootstrap"] == whole.bootstrap
    assert status["nodes"][1] == {
        "id": 2,
        "pid": whole.status()[1].pid,
        "port": whole.layout.port(2),
        "rack": "az-b",
        "state": "paused",
    }
    run("resume", "2")
    assert " 2  running  " in run("status")
    assert "running already" in run("start")


def test_both_broker_only_nodes_can_be_lost_at_once(five_brokers: LocalCluster) -> None:
    five_brokers.kill(4)
    five_brokers.kill(5)
    assert states(five_brokers) == ["running"] * 3 + ["stopped"] * 2
    five_brokers.start()  # the controllers still have a majority, or it would let nobody in
    assert states(five_brokers) == ["running"] * 5


def test_a_cluster_cannot_change_what_its_disks_say(whole: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="cannot become --nodes 5 --brokers 0"):
        LocalCluster(whole.home, nodes=5, base_port=whole.layout.base_port).start()
    with pytest.raises(ClusterError, match="nodes 1, 2, 3 run on base port"):
        LocalCluster(whole.home, base_port=whole.layout.base_port + 100).start()


def test_a_single_node_starts_stops_keeps_its_data_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    base = free_base_port()
    with LocalCluster(home, nodes=1, base_port=base) as single:
        pid = single.status()[0].pid
        disk = (home / "node1/data/meta.properties").read_text()
    assert states(single) == ["stopped"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)
    assert all(processes.is_free(port) for port in range(base, base + 40))
    assert (home / "node1/data/meta.properties").read_text() == disk
    single.wipe()
    assert not home.exists()


def test_a_node_that_dies_at_start_says_why_and_takes_the_others_with_it(tmp_path: Path) -> None:
    wrong = {"replica.selector.class": "no.such.Selector"}
    local = LocalCluster(tmp_path, nodes=1, base_port=free_base_port(), settings=wrong)
    with pytest.raises(ClusterError, match=r"node 1 died .*no\.such\.Selector.*server\.log"):
        local.start()
    assert states(local) == ["stopped"]
    assert LocalCluster.open(tmp_path).layout.settings == {}


def test_a_setting_that_kafka_refuses_is_named(tmp_path: Path) -> None:
    local = LocalCluster(
        tmp_path, nodes=1, base_port=free_base_port(), settings={"num.io.threads": "none"}
    )
    with pytest.raises(ClusterError, match=r"cannot format node 1: .*num\.io\.threads"):
        local.start()


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    base = free_base_port()
    with socket.create_server(("127.0.0.1", base + 12)):
        local = LocalCluster(tmp_path, base_port=base)
        with pytest.raises(ClusterError, match=f"port {base + 12}, where node 2 would listen"):
            local.start()
    assert list(tmp_path.iterdir()) == []
