"""The gate against real brokers: what it calls safe harms nobody, what it calls unsafe would."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from kafka import KafkaAdminClient

from streaming.bus import bus_topics, record
from streaming.bus.reader import Reader
from streaming.bus.view import SnapshotStore
from streaming.cli.main import main
from streaming.lab.local_cluster import LocalCluster
from streaming.questions.gate.restart import RestartVerdict, judge
from streaming.runtime.config import BusConfig, ClusterConfig, Config, GateConfig
from streaming.runtime.deadline import Deadline
from tests.builders import Partition, a_state
from tests.cluster.broker_client import await_agreement, await_in_sync
from tests.cluster.test_whatif import write
from tests.cluster.watching import Watch, assert_agrees, environment_of, watching
from tests.twin.test_gate import quorum
from tests.waiting import until
from twin.builtin import CATALOG
from twin.engine import codec
from twin.questions.gate import Reason, Terms

pytestmark = pytest.mark.cluster

TOPIC = "gate-orders"


@pytest.fixture(scope="module")
def watch(cluster: LocalCluster) -> Iterator[Watch]:
    """A twin of three combined nodes with a topic that can do without one of them."""
    await_in_sync(cluster)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
        spec = {"num_partitions": 6, "replication_factor": 3,
                "configs": {"min.insync.replicas": "2"}}  # fmt: skip
        admin.create_topics({TOPIC: spec}, timeout_ms=20_000, wait_for_metadata=True)
    with watching(cluster.bootstrap) as twin:
        until(lambda: TOPIC in twin.look().topic_names(), 30, "the twin does not know the topic")
        yield twin


def verdict(watch: Watch, broker: int) -> RestartVerdict:
    """The gate's answer for what the twin sees now; topics of other tests may have one replica."""
    store = SnapshotStore(CATALOG, watch.state.cluster, 1)
    store.take_snapshot(record.key(watch.state.cluster, 0), codec.encode(watch.look()))
    allowed = frozenset({Reason.ONE_REPLICA, Reason.NO_SPARE_REPLICA})
    return judge(store.publish(), [broker], Terms(allowed=allowed), time.time_ns() // 1_000_000)


def against(answer: RestartVerdict) -> set[Reason]:
    return {Reason(given["meaning"]) for given in answer.reasons}


def mine(answer: RestartVerdict) -> dict[Reason, list[str]]:
    """The reasons that name the test's topic, a broker or a controller."""
    return {
        Reason(given["meaning"]): names
        for given in answer.reasons
        if (names := [n for n in given["names"] if n.startswith((TOPIC, "broker", "controller"))])
    }


def test_a_restart_that_is_called_safe_harms_no_partition_and_the_next_one_must_wait(
    cluster: LocalCluster, watch: Watch
) -> None:
    await_in_sync(cluster)
    until(lambda: not mine(verdict(watch, 3)), 30, "a cluster in order is not safe")
    cluster.term(3)
    try:
        after = await_agreement(cluster, lost=[3])
        mine_after = {key: state for key, state in after.items() if key[0] == TOPIC}
        assert len(mine_after) == 6
        assert all(state.leader != -1 and len(state.isr) == 2 for state in mine_after.values())
        assert_agrees(watch.look(), after)
        reasons = mine(verdict(watch, 2))
        assert {Reason.BROKER_OUT, Reason.BROKER_NOT_IN_SYNC, Reason.UNDER_MIN_ISR} <= set(reasons)
        assert len(reasons[Reason.UNDER_MIN_ISR]) == 6
        until(
            lambda: Reason.QUORUM in against(verdict(watch, 2)),
            30,
            "two of three controllers are left, and the gate gives one of them away",
        )
        assert Reason.QUORUM not in against(verdict(watch, 3))
    finally:
        cluster.start()
        await_in_sync(cluster)
    until(lambda: not mine(verdict(watch, 2)), 60, "it does not become safe again")


def ask(config: Config, *arguments: str) -> Result:
    """The answer of ``gate restart``."""
    return call(config, "gate", "restart", *arguments)


def call(config: Config, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment_of(config))


def of_events(config: Config) -> list[dict[str, Any]]:
    """All that is in the topic of events."""
    topic = bus_topics.topics(config).events
    with Reader(config, [topic], "beginning") as reader:
        return [json.loads(each.value or b"") for each in reader.to_end(Deadline.after_s(60))]


def test_the_command_answers_from_the_bus_with_its_exit_code(cluster: LocalCluster) -> None:
    config = Config(
        cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix="gate", shards=1, replication_factor=1),
    )
    nothing = ask(config, "--broker", "1")
    assert (nothing.exit_code, nothing.output.count("\n")) == (2, 1)
    bus_topics.ensure_topics(config)

    def written(*parts: Partition) -> None:
        state = a_state(*parts, at_ms=time.time_ns() // 1_000_000, brokers=(1, 2, 3))
        write(config, state.with_tables(quorum(0, 0, 0)))

    written(Partition(), Partition("single", replicas=(1,)))
    unsafe = ask(config, "--broker", "1", "--json")
    assert unsafe.exit_code == 1
    assert [each["reason"] for each in json.loads(unsafe.output)["reasons"]] == ["one_replica"]
    safe = ask(config, "--broker", "1", "--allow-rf1")
    assert (safe.exit_code, safe.output.splitlines()[0]) == (0, "broker 1: safe to restart")
    assert of_events(config) == []
    recording = msgspec.structs.replace(config, gate=GateConfig(record=True))
    assert ask(recording, "--broker", "1").exit_code == 1
    [event] = of_events(config)
    assert event["text"] == (
        "somebody asked whether broker 1 may be restarted: unsafe: one_replica (1)"
    )
    assert (event["kind"], event["broker"], event["cluster"]) == ("restart_judged", 1, "c")
    unknown = ask(config, "--broker", "77")
    assert unknown.exit_code == 2
    assert "there is no broker 77; brokers are 1, 2, 3" in unknown.output


def test_a_plan_and_whether_all_are_in_sync_come_from_the_bus_too(cluster: LocalCluster) -> None:
    config = Config(
        cluster=ClusterConfig(name="c", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix="gate-plan", shards=1, replication_factor=1),
    )
    bus_topics.ensure_topics(config)
    assert call(config, "plan", "roll").exit_code == 2  # no snapshot

    def written(*parts: Partition, ago_ms: int = 0) -> None:
        at_ms = time.time_ns() // 1_000_000 - ago_ms
        state = a_state(*parts, at_ms=at_ms, brokers=(1, 2, 3))
        write(config, state.with_tables(quorum(0, 0, 0)))

    written(Partition(), ago_ms=600_000)
    stale = call(config, "plan", "roll")
    assert stale.exit_code == 2
    assert stale.output.startswith("no plan: the newest observation is")

    written(Partition())
    every = call(config, "plan", "roll", "--json")
    assert every.exit_code == 0
    assert [b["brokers"] for b in json.loads(every.output)["batches"]] == [[2], [3], [1]]
    first = call(config, "plan", "roll", "--next", "--broker", "3", "--broker", "1")
    assert (first.exit_code, first.stdout) == (0, "3\n")
    assert call(config, "gate", "in-sync").exit_code == 0
    later = call(config, "gate", "in-sync", "--since", "now")
    assert later.exit_code == 2
    assert "has not observed the whole cluster since that time" in later.output

    written(Partition(isr=(1, 2)))
    behind = call(config, "gate", "in-sync")
    assert (behind.exit_code, behind.output.splitlines()[0]) == (1, "not every broker is in sync")
    some = call(config, "plan", "roll", "--next", "--broker", "1")
    assert (some.exit_code, some.stdout) == (1, "")
    assert "not now: broker 1, unsafe to restart" in some.stderr
