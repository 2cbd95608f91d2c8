"""KIP-1303's election on a stock Kafka: by the order of replicas that ``plan order`` applies.

The case of a cold leader: an almost empty replica is in sync and stands before a full one. Kafka
elects it, and consumers of old records then wait for remote storage.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from streaming.bus import bus_topics
from streaming.bus.reader import Reader
from streaming.bus.record import key
from streaming.bus.view import ClusterView, SnapshotStore
from streaming.cli.main import main
from streaming.lab.local_cluster import LocalCluster
from streaming.lab.remote_reading import local_start, read_from, remote_fetches
from streaming.plans import journal
from streaming.plans.lock import SESSION_MS, WatchLock
from streaming.plans.plan import PlanError
from streaming.plans.watch import WatchOptions, watch
from streaming.runtime.config import BusConfig, ClusterConfig, Config, TopicThreshold
from tests.cluster.broker_client import (
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    BrokerClient,
    await_in_sync,
)
from tests.cluster.test_whatif import write
from tests.cluster.topics import TIERED, produce
from tests.cluster.watching import Watch, environment_of, keys, watching
from tests.waiting import until
from twin.builtin import CATALOG
from twin.engine import codec
from twin.questions.local_log import of_topic
from twin.rules.election.next_leader import NextLeaders
from twin.rules.tiering.coverage import Coverage

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

TOPIC: Final = "plan-order"
RECORDS: Final = 8_000
SEGMENTS: Final = TIERED | {
    "internal.segment.bytes": "102400",
    "local.retention.bytes": "2097152",
    "min.insync.replicas": "1",
}
ENOUGH_BYTES: Final = 1_000_000
LEADER, WARM, COLD = 1, 2, 3
AS_IT_IS, PLANNED = (LEADER, COLD, WARM), (LEADER, WARM, COLD)


@pytest.fixture(scope="module")
def watched(cluster: LocalCluster, client: BrokerClient) -> Iterator[Watch]:
    """A twin of a partition whose second replica has next to nothing on its disk."""
    client.create(TOPIC, [[LEADER, WARM]], SEGMENTS)
    produce(cluster, TOPIC, RECORDS)

    def uploads_ended() -> bool:
        offset = client.offsets_by_kind(LEADER, TOPIC, 0)
        return 0 < offset[EARLIEST_LOCAL] < offset[LATEST_TIERED] > offset[LATEST] - 200

    until(uploads_ended, 60)
    client.reassign(TOPIC, 0, AS_IT_IS)
    until(lambda: client.partition(1, TOPIC).isr == {1, 2, 3}, 60, "not all are in sync")
    with watching(
        cluster.bootstrap, TopicThreshold(name=TOPIC, local_log_bytes=ENOUGH_BYTES)
    ) as twin:
        yield twin


@pytest.fixture
def config(cluster: LocalCluster, request: pytest.FixtureRequest) -> Config:
    """A bus of its own for each test."""
    made = Config(
        cluster=ClusterConfig(name="real", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=request.node.name, shards=1, replication_factor=1),
    )
    bus_topics.ensure_topics(made)
    return made


def run(config: Config, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["plan", *arguments], env=environment_of(config))
    print(done.output)
    return done


def successor(twin: Watch) -> tuple[int, Coverage]:
    """The twin's next leader of the partition, and whether it is warm."""
    state = twin.look()
    row = keys(state).index((TOPIC, 0))
    following = state[NextLeaders]
    return int(following.leader[row]), Coverage(int(following.coverage[row]))


def led_by(client: BrokerClient, broker: int) -> bool:
    return client.partition(2, TOPIC).leader == broker


def ordered(client: BrokerClient, replicas: tuple[int, ...]) -> bool:
    return client.partition(2, TOPIC).replicas == replicas


def fetches_after_a_crash(
    cluster: LocalCluster, client: BrokerClient, first: int, elected: int
) -> int:
    """Kill the leader; read from an offset on. The remote fetches of all brokers for that."""
    cluster.kill(LEADER)
    try:
        until(lambda: not led_by(client, LEADER), 60, "nobody took over")
        assert led_by(client, elected)
        alive = [f"127.0.0.1:{node.port}" for node in cluster.status() if node.state == "running"]
        before = remote_fetches(cluster.layout.metrics_urls, TOPIC)
        assert read_from(alive, TOPIC, first) == RECORDS - first
        return remote_fetches(cluster.layout.metrics_urls, TOPIC) - before
    finally:
        cluster.start()
        await_in_sync(cluster)
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
            admin.elect_leaders(0, {TOPIC: [0]})
        until(lambda: led_by(client, LEADER), 30, "the preferred leader is not back")


def test_the_planned_order_makes_kafka_elect_the_warm_replica_and_saves_every_remote_fetch(
    cluster: LocalCluster, client: BrokerClient, watched: Watch, config: Config, tmp_path: Path
) -> None:
    first = local_start(cluster.bootstrap, TOPIC)
    assert client.offset(COLD, TOPIC, 0, EARLIEST_LOCAL) > first
    until(lambda: successor(watched) == (COLD, Coverage.COLD), 30, "another successor is predicted")
    before = fetches_after_a_crash(cluster, client, first, elected=COLD)
    assert before > 10
    until(lambda: successor(watched) == (COLD, Coverage.COLD), 30, "another successor is predicted")
    epoch = client.partition(2, TOPIC).epoch

    write(config, watched.look())
    printed = run(config, "order", "--out", str(tmp_path / "printed"))
    assert printed.exit_code == 0, printed.output
    assert ordered(client, AS_IT_IS)
    done = run(config, "order", "--apply", "--out", str(tmp_path / "plan"))
    assert done.exit_code == 0, done.output
    assert "1 partition changed: plan-order-0" in done.output
    # It asked one broker whether it was done; the others learn it a moment later.
    until(lambda: ordered(client, PLANNED), 10, "the order is not as planned")
    planned = client.partition(2, TOPIC)
    assert (planned.leader, planned.epoch) == (LEADER, epoch)

    until(lambda: successor(watched) == (WARM, Coverage.WARM), 30, "it predicts no warm successor")
    after = fetches_after_a_crash(cluster, client, first, elected=WARM)
    print(f"remote fetches for {RECORDS - first} old records: {before} before, {after} after")
    assert after == 0

    write(config, watched.look())
    again = run(config, "order", "--apply", "--out", str(tmp_path / "again"))
    assert again.exit_code == 0, again.output
    assert "0 of " in again.output
    restored = run(config, "restore", str(tmp_path / "plan" / journal.FILE))
    assert restored.exit_code == 0, restored.output
    until(lambda: ordered(client, AS_IT_IS), 10, "the order is not restored")
    assert "nothing is left" in run(config, "restore", str(tmp_path / "plan" / journal.FILE)).output


def view_of(twin: Watch) -> ClusterView:
    """The newest observation as readers of the bus have it."""
    store = SnapshotStore(CATALOG, twin.state.cluster, 1)
    store.take_snapshot(key(twin.state.cluster, 0), codec.encode(twin.look()))
    return store.publish()


def test_a_watch_keeps_the_order_and_gives_the_original_back_when_all_are_warm(
    cluster: LocalCluster, client: BrokerClient, watched: Watch, config: Config, tmp_path: Path
) -> None:
    await_in_sync(cluster)
    assert ordered(client, AS_IT_IS)
    terms, stop, lines = (
        WatchOptions(preferred=False, per_minute=50, every_s=0.5),
        threading.Event(),
        [],
    )

    def work() -> None:
        watch(config, tmp_path, terms, lambda: view_of(watched), stop, lines.append)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: ordered(client, PLANNED), 30, "the order is not kept")
        elsewhere = tmp_path / "another-machine"
        with pytest.raises(PlanError, match="another plan order --watch runs: kafka-twin-plan-"):
            watch(config, elsewhere, terms, lambda: view_of(watched), stop, lines.append)
        client.configure(2, TOPIC, local_retention_bytes="20971520")
        produce(cluster, TOPIC, 1_200)  # the cold one has the newest records, so it gets warm
        until(lambda: ordered(client, AS_IT_IS), 60, "it is not restored")
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
    events = []
    with Reader(config, [bus_topics.topics(config).events], "beginning") as reader:
        until(lambda: events.extend(reader.poll(500)) or len(events) >= 2, 20, "no events")
    written = [json.loads(record.value or b"") for record in events]
    assert [(e["kind"], e["before"], e["after"]) for e in written] == [
        ("replicas_reordered", list(AS_IT_IS), list(PLANNED)),
        ("replicas_restored", list(PLANNED), list(AS_IT_IS)),
    ]
    assert journal.read(tmp_path / journal.FILE)[1] == {}


def test_of_two_watches_that_start_at_once_one_goes_on(config: Config) -> None:
    with WatchLock(config) as first:
        time.sleep(SESSION_MS / 1_000 + 2)  # it stays in the group while it does something else
        with pytest.raises(PlanError, match="another plan order --watch runs"):
            WatchLock(config)
        with KafkaConsumer(
            bus_topics.topics(config).events, group_id=bus_topics.watch_group(config),
            client_id="later", bootstrap_servers=config.cluster.bootstrap, enable_auto_commit=False,
        ) as second:  # fmt: skip
            holders = until(lambda: holding(config, first, second), 60)
        assert len(holders) == 1
    with WatchLock(config) as later:
        later.check()


def holding(config: Config, first: WatchLock, second: KafkaConsumer) -> list[str]:
    """The locks that hold, once two members are in the group; each asks Kafka as it goes on."""
    second.poll(timeout_ms=200)
    has_second = TopicPartition(bus_topics.topics(config).events, 0) in second.assignment()
    try:
        first.check()
    except PlanError:
        return ["second"] if has_second else []
    return ["first", "second"] if has_second else ["first"] if second.assignment() else []


def test_a_broker_is_demoted_evenly_and_gets_its_leaderships_back(
    cluster: LocalCluster, client: BrokerClient, config: Config, tmp_path: Path
) -> None:
    topic = "plan-demote"

    def whole() -> bool:
        return all(p.is_in_sync for p in client.partitions(2, [topic]).values())

    client.create(topic, [[1, 2, 3]] * 6, {})
    until(whole, 30)
    with watching(cluster.bootstrap) as twin:
        until(lambda: topic in twin.look().topic_names(), 30, "the twin does not know the topic")
        write(config, of_topic(twin.look(), topic))
    done = run(config, "demote", "--broker", "1", "--apply", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output

    def led() -> Counter[int]:
        return Counter(p.leader for p in client.partitions(2, [topic]).values())

    until(lambda: led() == {2: 3, 3: 3}, 10, "leaders are not spread evenly")
    assert all(p.replicas[-1] == 1 for p in client.partitions(2, [topic]).values())
    until(whole, 30)
    restored = run(config, "restore", str(tmp_path / "out" / journal.FILE))
    assert restored.exit_code == 0, restored.output
    until(lambda: led() == {1: 6}, 10, "the leaderships are not back")
    assert {p.replicas for p in client.partitions(2, [topic]).values()} == {(1, 2, 3)}
