"""The example script restarts five brokers under load; and what it prevents on a bad day."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from streaming.bus import bus_topics
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from tests.cluster.broker_client import (
    TOPIC_RESOURCE,
    BrokerClient,
    await_agreement,
    await_in_sync,
)
from tests.cluster.conftest import STILL, running
from tests.cluster.rolling import LiveTwin, Observer, Producer, Reader, RemoteReads
from tests.cluster.topics import TIERED, produce
from tests.deploy.test_examples import job_calls
from tests.waiting import until
from twin.tables.state import ControllerQuorum

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.losses]

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "deploy/examples"
TWIN: Final = [sys.executable, "-m", "streaming"]
ORDERS, LEDGER = "orders", "ledger"
TOPICS: Final = {ORDERS: 10, LEDGER: 5}
HISTORY_RECORDS: Final = 200
LITTLE_BYTES: Final = 20_000  # of HISTORY_RECORDS * 1000 in each partition
MIN_ISR: Final = 2
REFUSED: Final = "NotEnoughReplicasError"


@pytest.fixture(scope="module")
def five(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Three nodes and two brokers. Each partition has replicas on three; no two sets are alike.

    Other tests leave partitions with one replica on their clusters, which no restart can spare.
    """
    home = tmp_path_factory.mktemp("roll")
    local = LocalCluster(home, brokers=2, base_port=free_base_port(), settings=STILL)
    with running(local, request.session):
        await_in_sync(local)
        client = BrokerClient(local)
        min_isr = {"min.insync.replicas": str(MIN_ISR)}
        client.create(ORDERS, spread(TOPICS[ORDERS]), min_isr)
        client.create(LEDGER, spread(TOPICS[LEDGER]), {**TIERED, **min_isr})
        for number in range(TOPICS[LEDGER]):
            produce(local, LEDGER, HISTORY_RECORDS, partition=number)
        yield local


def spread(partitions: int) -> list[list[int]]:
    return [
        [(first + step * gap) % 5 + 1 for step in range(3)]
        for first, gap in ((n % 5, 1 + n // 5) for n in range(partitions))
    ]


@pytest.fixture(scope="module")
def twin(five: LocalCluster) -> Iterator[LiveTwin]:
    """A twin whose snapshots are on a bus on the same brokers."""
    config = Config(
        cluster=ClusterConfig(name="real", bootstrap=five.bootstrap),
        bus=BusConfig(prefix="roll", shards=1, partitions=1, replication_factor=3),
    )
    bus_topics.ensure_topics(config)
    with LiveTwin(config=config) as live:
        until(lambda: live.cycles > 2 or live.failure, 60, "the twin does not begin")
        yield live


def environment(five: LocalCluster) -> dict[str, str]:
    return {
        **os.environ,
        "KAFKA_TWIN": shlex.join(TWIN),
        "KAFKA_TWIN_CLUSTER_NAME": "real",
        "KAFKA_TWIN_CLUSTER_BOOTSTRAP": five.bootstrap,
        "KAFKA_TWIN_BUS_PREFIX": "roll",
        "KAFKA_TWIN_BUS_SHARDS": "1",
    }


def roll(
    five: LocalCluster, *brokers: int, command: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """The example script, as a user calls it."""
    return subprocess.run(
        [EXAMPLES / "rolling-restart.sh", command, *map(str, brokers)],
        env={**environment(five), **more},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def restart(five: LocalCluster) -> str:
    """The command that a user gives: it ends when clients can connect to the broker again."""
    cluster, home = shlex.join([*TWIN, "cluster"]), f"--home {shlex.quote(str(five.home))}"
    return f"{cluster} term {home} $BROKER && {cluster} start {home} --only $BROKER"


def test_a_roll_by_the_script_costs_no_producer_and_no_reader_anything(
    five: LocalCluster, twin: LiveTwin
) -> None:
    await_in_sync(five)
    assert twin.state is not None
    quorum = twin.state[ControllerQuorum]
    [active] = quorum.node[quorum.is_active].tolist()
    with (
        Observer(cluster=five, topics=TOPICS, min_isr=MIN_ISR) as observer,
        RemoteReads(cluster=five, topic=LEDGER) as remote,
        Reader(cluster=five, topic=LEDGER, partitions=TOPICS[LEDGER]) as reader,
        Producer(cluster=five, topics=TOPICS, has_retries=True) as producer,
    ):
        until(lambda: producer.written and reader.records and observer.looks, 30, "no load")
        done = roll(five, 1, 2, 3, 4, 5, command=restart(five), WAIT="5m")
    assert done.returncode == 0, done.stderr
    order = [int(line.split()[-1]) for line in done.stdout.splitlines()
             if line.startswith("restarting broker")]  # fmt: skip
    assert sorted(order) == [1, 2, 3, 4, 5]
    assert order[-1] == active
    assert producer.errors == {}
    assert observer.offline == observer.under_min_isr == set()
    # It looked closely: every partition was seen with each of its three replicas away, in turn.
    assert set(observer.fewest.values()) == {MIN_ISR}
    assert len(observer.fewest) == sum(TOPICS.values())
    assert reader.records > sum(TOPICS.values()) * HISTORY_RECORDS
    assert remote.count() == 0
    assert_counts(five)


def assert_counts(five: LocalCluster) -> None:
    """The same reader is counted once leaders hold less on their disks: it is not 0 by mistake."""
    client = BrokerClient(five)
    client.configure(TOPIC_RESOURCE, LEDGER, local_retention_bytes=str(LITTLE_BYTES))
    with (
        RemoteReads(cluster=five, topic=LEDGER) as remote,
        Reader(cluster=five, topic=LEDGER, partitions=TOPICS[LEDGER]),
    ):
        until(lambda: remote.requests > 0, 60, "the brokers count no read from remote storage")


def test_ansible_restarts_the_hosts_that_it_is_given_in_the_order_of_the_plan(
    five: LocalCluster, twin: LiveTwin, tmp_path: Path
) -> None:
    await_in_sync(five)
    done = tmp_path / "done"
    commands = {
        5: f"echo 5 >>{done}",  # not every restart has to be a real one
        4: f"BROKER=4; {restart(five)} && echo 4 >>{done}",
        3: f"echo 3 >>{done}",
    }
    hosts = {
        f"kafka-{broker}": {"broker_id": broker, "kafka_restart_command": command}
        for broker, command in commands.items()
    }
    shared = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "kafka_twin": shlex.join(TWIN),
        "kafka_twin_wait": "5m",
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"kafka": {"hosts": hosts, "vars": shared}}))
    played = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "--inventory", inventory,
         "--limit", "kafka-4,kafka-5", EXAMPLES / "rolling-restart.yml"],
        env={**environment(five), "ANSIBLE_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout
    assert done.read_text().split() == ["4", "5"]


@pytest.mark.parametrize("container", ["gate", "in-sync"])
def test_the_job_of_kubernetes_asks_what_the_twin_can_answer(
    five: LocalCluster, twin: LiveTwin, container: str
) -> None:
    call = [*TWIN, *job_calls()[container]]
    done = subprocess.run(
        call, env=environment(five), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("broker 3: safe to restart", "every broker is in sync"))


def test_on_a_bad_day_the_script_restarts_nobody_and_a_restart_by_force_refuses_writes(
    five: LocalCluster, twin: LiveTwin, tmp_path: Path
) -> None:
    await_in_sync(five)
    five.kill(4)
    try:
        await_agreement(five, lost=[4])
        shared = {  # with broker 5 away as well, one replica of these is left
            key
            for key, state in BrokerClient(five).partitions(1, list(TOPICS)).items()
            if {4, 5} <= set(state.replicas)
        }
        touched = tmp_path / "touched"
        refused = roll(five, 5, command=f"touch {touched}", WAIT="5s")
        assert refused.returncode == 1
        assert "not restarted: 5" in refused.stderr
        [reason] = [line for line in refused.stderr.splitlines() if "would have fewer" in line]
        named = {name for name in map("{0[0]}-{0[1]}".format, shared) if name in reason}
        assert len(named) == min(len(shared), 5)
        assert "other brokers are out: broker 4" in refused.stderr
        assert not touched.exists()

        with (
            Observer(cluster=five, topics=TOPICS, min_isr=MIN_ISR) as observer,
            Producer(cluster=five, topics=TOPICS, has_retries=False) as producer,
        ):
            five.term(5)
            until(lambda: producer.errors[REFUSED], 30, "every write succeeds")
        assert observer.under_min_isr == shared
    finally:
        five.start()
    await_in_sync(five)
