"""The bus on real brokers."""

from __future__ import annotations

import io
import threading
import time

import msgspec
import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from streaming.bus import bus_topics, record
from streaming.bus.connection import BusError
from streaming.bus.observed import observations
from streaming.bus.reader import Reader, Since
from streaming.bus.record import Record
from streaming.bus.sender import Sender
from streaming.bus.shards import with_known_shards, with_shards_of_snapshots
from streaming.checks import check
from streaming.checks.bus import of_bus
from streaming.cli.tail import tail
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import (
    SHARDS_BY_SIZE,
    BusConfig,
    ClusterConfig,
    CollectorConfig,
    Config,
    EligibilityConfig,
)
from streaming.runtime.deadline import Deadline
from tests.waiting import until
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader
from twin.tables.observations import BrokersFrame

pytestmark = pytest.mark.cluster


@pytest.fixture
def config(cluster: LocalCluster, request: pytest.FixtureRequest) -> Config:
    """A bus of its own for each test."""
    return Config(
        cluster=ClusterConfig(name="real", bootstrap=cluster.bootstrap),
        bus=BusConfig(prefix=f"bus-{abs(hash(request.node.name))}", shards=4, replication_factor=3),
    )


def frame(shard: int, shards: int = 4, at_ms: int = 1_000, cluster: str = "real") -> bytes:
    stamp = FrameHeader("brokers", cluster, shard, shards, at_ms, 1)
    return frames.encode(Frame(stamp, BrokersFrame.schema().empty_table()))


def read_all(reader: Reader, count: int) -> list[Record]:
    records: list[Record] = []

    def all_there() -> bool:
        records.extend(reader.poll(200))
        return len(records) >= count

    until(all_there)
    return records


def test_topics_are_described_as_soon_as_a_broker_knows_them(config: Config) -> None:
    """Right after their creation a broker may not know them: their replicas are not "none"."""
    creator = threading.Timer(1, bus_topics.ensure_topics, [config])
    creator.start()
    try:
        described = bus_topics.describe_topics(config)
    finally:
        creator.join()
    assert list(described) == list(bus_topics.topics(config))
    replicas = [len(p["replica_nodes"]) for t in described.values() for p in t["partitions"]]
    assert replicas == [3] * 12


def test_topics_are_created_once_by_many_at_a_time(config: Config) -> None:
    errors: list[BaseException] = []

    def create() -> None:
        try:
            bus_topics.ensure_topics(config)
        except BusError as error:
            errors.append(error)

    creators = [threading.Thread(target=create) for _ in range(4)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    assert errors == []
    bus_topics.ensure_topics(config)
    described = bus_topics.describe_topics(config)
    assert [len(t["partitions"]) for t in described.values()] == [4, 4, 4]
    snapshots = ConfigResource(ConfigResourceType.TOPIC, bus_topics.topics(config).snapshots)
    with KafkaAdminClient(bootstrap_servers=config.cluster.bootstrap) as admin:
        # Each request may go to a broker that does not know the topic yet.
        until(lambda: "compact" in str(admin.describe_configs([snapshots])), 20, "it is not")


def test_a_topic_that_cannot_be_created_is_one_line(config: Config) -> None:
    many = Config(cluster=config.cluster, bus=BusConfig(prefix="bus-rf", replication_factor=9))
    with pytest.raises(BusError, match=r"^bus topic bus-rf\.\w+: cannot be created: ") as refusal:
        bus_topics.ensure_topics(many)
    assert "\n" not in str(refusal.value)


def test_messages_of_a_key_are_read_in_the_order_they_were_sent(config: Config) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with Sender(config) as sender:
        for i in range(200):
            sender.send(topic, record.key("real", i % 4), str(i).encode())
        sender.flush(10_000)
        assert sender.failures == 0
    with Reader(config, [topic], "beginning") as reader:
        records = read_all(reader, 200)
        assert reader.caught_up()
    assert len(records) == 200
    for shard in range(4):
        mine = [int(r.value or b"") for r in records if r.key == record.key("real", shard)]
        assert mine == list(range(shard, 200, 4))


def test_a_reader_starts_at_the_end_or_a_number_of_records_before_it(config: Config) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).events
    with Sender(config) as sender:
        for i in range(10):
            sender.send(topic, b"one key", str(i).encode())
        sender.flush(10_000)
        with Reader(config, [topic], 3) as last, Reader(config, [topic], "end") as end:
            assert end.caught_up()
            sender.send(topic, b"one key", b"new")
            sender.flush(10_000)
            assert [r.value for r in read_all(last, 4)] == [b"7", b"8", b"9", b"new"]
            assert [r.value for r in read_all(end, 1)] == [b"new"]


def test_what_was_observed_in_a_span_is_read_while_the_bus_goes_on(config: Config) -> None:
    """Whoever fills a gap of the archive does not read on to an end that moves away."""
    bus_topics.ensure_topics(config)
    topic, key, minute_ms = bus_topics.topics(config).observations, record.key("real", 1), 60_000
    written_ms = [int(time.time() * 1_000) - n * minute_ms for n in range(30, 0, -1)]
    with Sender(config) as sender:
        producer = sender._producer
        for at_ms in written_ms:
            producer.send(topic, key=key, value=str(at_ms).encode(), timestamp_ms=at_ms)
        sender.flush(10_000)
    start, to_ms = Since(written_ms[10]), written_ms[15] + minute_ms // 2
    with Reader(config, [topic], start, Since(to_ms)) as reader:
        ends = [end for begin, end in reader.ranges(topic).values() if end > begin]
        assert ends == [16]
    found = observations(config, written_ms[12], written_ms[14])
    assert found == [(1, str(at_ms).encode()) for at_ms in written_ms[11:15]]


def test_a_topic_that_is_not_there_is_said(config: Config) -> None:
    with pytest.raises(BusError, match=r"there is no topic .*collector creates it") as refusal:
        Reader(config, [bus_topics.topics(config).events], "end")
    assert refusal.value.topic_missing


def test_a_reader_waits_until_the_broker_that_it_asks_knows_a_new_topic(config: Config) -> None:
    creator = threading.Timer(0.3, bus_topics.ensure_topics, [config])
    creator.start()
    try:
        with Reader(config, [bus_topics.topics(config).events], "end", known_within_s=60) as reader:
            assert reader.poll(100) == []
    finally:
        creator.join()


def test_a_reader_says_that_its_topic_has_vanished(config: Config) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).events

    def vanished() -> BusError | None:
        try:
            reader.poll(100)
        except BusError as error:
            return error
        return None

    with Reader(config, [topic], "end") as reader:
        assert vanished() is None
        with KafkaAdminClient(bootstrap_servers=config.cluster.bootstrap) as admin:
            admin.delete_topics([topic])
        error = until(vanished, 30, "it is silent")
    assert error is not None
    assert error.topic_missing


def test_another_number_of_shards_than_recorded_is_refused(config: Config) -> None:
    assert bus_topics.recorded_shards(config) is None
    bus_topics.check_shards(config)
    bus_topics.ensure_topics(config)
    assert bus_topics.recorded_shards(config) is None
    topic = bus_topics.topics(config).observations
    with Sender(config) as sender:
        sender.send(topic, record.key("real", 0), frame(0, shards=8, at_ms=1_000))
        sender.send(topic, record.key("real", 1), frame(1, shards=4, at_ms=2_000))
        sender.send(topic, record.key("other", 1), frame(1, shards=9, at_ms=9_000, cluster="other"))
        sender.send(topic, record.key("real", 2), b"junk")
        sender.flush(10_000)
    assert bus_topics.recorded_shards(config) == 4
    bus_topics.check_shards(config)
    five = Config(cluster=config.cluster, bus=BusConfig(prefix=config.bus.prefix, shards=5))
    with pytest.raises(BusError, match=r"bus.shards is 5, .* written with 4: set bus.shards = 4"):
        bus_topics.check_shards(five)


def test_a_number_of_shards_that_is_not_set_is_the_recorded_one(config: Config) -> None:
    is_open = Config(
        cluster=config.cluster, bus=BusConfig(prefix=config.bus.prefix, shards=SHARDS_BY_SIZE)
    )
    bus_topics.ensure_topics(is_open)
    assert with_known_shards(is_open) is None
    with Sender(is_open) as sender:
        names = bus_topics.topics(is_open)
        sender.send(names.observations, record.key("real", 0), frame(0, shards=4, at_ms=1_000))
        sender.flush(10_000)
        known = with_known_shards(is_open)
        assert known is not None
        assert known.bus.shards == 4
        # Readers may have no right to read observations, and there is no snapshot yet.
        assert with_shards_of_snapshots(is_open) is None
        sender.send(names.snapshots, record.key("real", 0), frame(0, shards=4, at_ms=1_000))
        sender.flush(10_000)
        assert with_shards_of_snapshots(is_open) == known


def test_a_full_buffer_is_refused_and_counted(config: Config) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with Sender(config, buffer_bytes=1_000) as sender:
        with pytest.raises(BusError, match="send buffer, which is full"):
            sender.send(topic, b"k", bytes(2_000))
        assert sender.failures == 1
        sender.send(topic, b"k", b"small")
        sender.flush(10_000)


def test_a_message_too_large_is_one_line(config: Config) -> None:
    bus_topics.ensure_topics(config)
    with (
        Sender(config) as sender,
        pytest.raises(BusError, match=r"observations: .*larger") as refusal,
    ):
        sender.send(bus_topics.topics(config).observations, b"k", bytes(2_000_000))
    assert "\n" not in str(refusal.value)


def test_sender_and_reader_outlive_a_broker_that_is_killed_and_returns(
    whole: LocalCluster, config: Config
) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with (
        Sender(config, give_up_ms=90_000) as sender,
        Reader(config, [topic], "end") as reader,
    ):
        whole.kill(2)
        sent = 0
        deadline = Deadline.after_s(60)
        while sent < 40:
            for shard in range(4):
                sender.send(topic, record.key("real", shard), str(sent).encode())
                sent += 1
            try:
                sender.flush(20_000)
            except BusError:
                assert not deadline.is_over
        assert sender.failures == 0
        received: set[int] = set()

        def all_there() -> bool:
            received.update(int(r.value or b"") for r in reader.poll(300))
            return received == set(range(40))  # a retry may repeat one

        until(all_there, 60)
        whole.start()
        sender.send(topic, b"k", b"40")
        sender.flush(60_000)

        def the_last_too() -> bool:
            received.update(int(r.value or b"") for r in reader.poll(300))
            return 40 in received

        until(the_last_too, 60)


def test_a_flush_that_takes_too_long_says_how_much_waits(
    whole: LocalCluster, config: Config
) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with Sender(config) as sender:
        sender.send(topic, b"k", b"first")
        sender.flush(10_000)
        whole.pause(1)
        whole.pause(2)
        for i in range(8):
            sender.send(topic, str(i).encode(), bytes(1_000))
        with pytest.raises(BusError, match=r"\d+ bytes wait after 500 ms"):
            sender.flush(500)
        whole.resume(1)
        whole.resume(2)
        sender.flush(30_000)


def test_a_sender_sends_again_after_messages_expired_while_the_bus_was_away(
    whole: LocalCluster, config: Config
) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with Sender(config, give_up_ms=3_000) as sender, Reader(config, [topic], "end") as reader:
        sender.send(topic, b"k", b"before")
        sender.flush(10_000)
        for node in (1, 2, 3):
            whole.pause(node)
        sender.send(topic, b"k", b"lost")
        errors: list[str] = []

        def given_up() -> bool:
            try:
                sender.flush(500)
            except BusError as error:
                errors.append(str(error))
            return sender.failures == 1

        until(given_up)
        assert errors[-1].startswith("1 message was not sent: bus topic")
        for node in (1, 2, 3):
            whole.resume(node)
        sender.send(topic, b"k", b"after")

        def taken() -> bool:
            try:
                sender.flush(2_000)
            except BusError:
                sender.send(topic, b"k", b"after")
                return False
            return True

        until(taken)
        # A paused broker may take what waited in its socket when it wakes, early or late.
        received: list[bytes | None] = []

        def arrived() -> bool:
            received.extend(record.value for record in reader.poll(200))
            return b"after" in received

        until(arrived)
        assert received[0] == b"before"


def test_check_finds_everything_there(config: Config, cluster: LocalCluster) -> None:
    out = io.StringIO()
    urls = {str(broker): url for broker, url in cluster.layout.metrics_urls.items()}
    config = msgspec.structs.replace(
        config,
        collector=CollectorConfig(metrics_urls=urls, interval_ms=30_000, deadline_ms=25_000),
        eligibility=EligibilityConfig(
            local_log_bytes=1
        ),  # other tests leave topics that keep little
    )
    assert check(config, out)
    *lines, verdict = out.getvalue().splitlines()
    assert verdict == "the twin can run"
    assert lines[0].startswith(f"ok: cluster real at {config.cluster.bootstrap}: 3 brokers")
    assert all(line.startswith(("ok: ", "source ")) for line in lines), lines
    sources = [line for line in lines if line.startswith("source ")]
    assert all(": asked and answered" in line or ": not tried: " in line for line in sources)
    assert any("can be written to" in line for line in lines)


def test_check_without_a_cluster_says_so_and_fails() -> None:
    out = io.StringIO()
    nowhere = ClusterConfig(bootstrap="127.0.0.1:1", client={"bootstrap_timeout_ms": 500})
    assert not check(Config(cluster=nowhere), out)
    assert out.getvalue().startswith("missing: cluster.bootstrap 127.0.0.1:1: cannot be reached")


def test_tail_prints_frames_from_the_beginning(config: Config) -> None:
    bus_topics.ensure_topics(config)
    topic = bus_topics.topics(config).observations
    with Sender(config) as sender:
        for shard in range(4):
            sender.send(topic, record.key("real", shard), frame(shard))
        sender.flush(10_000)
    out = io.StringIO()
    tail(config, "observations", "beginning", 4, out)
    lines = out.getvalue().splitlines()
    assert sorted(line.split()[2] for line in lines) == [f"real/{s}" for s in range(4)]
    assert all(" brokers " in line and "0 rows" in line for line in lines)


@pytest.mark.parametrize("replicas", [1, 2])
def test_check_says_that_a_bus_of_single_replicas_stops_with_a_broker(
    cluster: LocalCluster, replicas: int
) -> None:
    config = Config(
        cluster=ClusterConfig(bootstrap=cluster.bootstrap),
        bus=BusConfig(
            prefix=f"copies-{replicas}", shards=2, partitions=2, replication_factor=replicas
        ),
    )
    lines = [str(each) for each in of_bus(config) if "one replica" in str(each)]
    assert bool(lines) == (replicas == 1)
    for line in lines:
        assert line.startswith("missing: 6 bus partitions have one replica, of topics copies-1.")
        assert line.endswith("set bus.replication_factor = 3")
