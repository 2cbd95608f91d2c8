"""Records that elections lose on real brokers, while producers write and count."""

from __future__ import annotations

import shutil
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streaming.exporter.views.partitions import partition_objects
from streaming.lab.local_cluster import LocalCluster
from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.encode import Deployment, RowCounts, messages
from streaming.tap.sources import FileSource
from streaming.tap.topic_ids import Topic
from tests.cluster.broker_client import BrokerClient, await_in_sync
from tests.cluster.watching import Watch, keys, watching
from tests.waiting import until
from twin.builtin import CATALOG
from twin.engine import frames
from twin.tables.state import Topics

pytestmark = [pytest.mark.cluster, pytest.mark.losses]

UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
ACKS_1: Final = {"unclean.leader.election.enable": "false", "min.insync.replicas": "1"}
PARTITIONS: Final = range(5)
PER_S: Final = 20
"""Records a second of each partition."""

FROZEN_S: Final = 3
"""A broker is fenced, and out of all ISRs, after 9 s."""

_HEADER: Final = struct.Struct(">qi")
_LAST_OFFSET_DELTA: Final = slice(23, 27)


class Writers:
    """Write numbered records with acks=1, and keep what each leader acknowledged where."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster, self.topic = cluster, topic
        self._stop = threading.Event()
        self._next = 0
        self.acked: list[tuple[int, int, bytes]] = []  # partition, offset, value

    def write(self) -> None:
        """Until ``stop``; what is not acknowledged is not written again."""
        producer = KafkaProducer(
            bootstrap_servers=self._cluster.bootstrap, acks=1, linger_ms=0, retries=0,
            enable_idempotence=False, request_timeout_ms=2_000, delivery_timeout_ms=3_000,
            max_block_ms=2_000, metadata_max_age_ms=1_000,
        )  # fmt: skip
        while not self._stop.wait(1 / PER_S):
            for n in PARTITIONS:
                self._next += 1
                value = b"%d" % self._next
                with suppress(KafkaError):
                    sent = producer.send(self.topic, value, partition=n)
                    sent.add_callback(
                        lambda meta, v=value: self.acked.append((meta.partition, meta.offset, v))
                    )
        with suppress(KafkaError):
            producer.close(timeout=5)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write meanwhile."""
        self._stop.clear()
        thread = threading.Thread(target=self.write)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


def end_on_disk(cluster: LocalCluster, broker: int, topic: str, number: int) -> int:
    """The log end offset of a broker that does not run, from the batches of its segments."""
    end = 0
    for path in (cluster.layout.disks(broker)[0] / f"{topic}-{number}").glob("*.log"):
        content, at = path.read_bytes(), 0
        while at + 61 <= len(content):
            base, length = _HEADER.unpack_from(content, at)
            if length <= 0 or at + 12 + length > len(content):
                break
            delta = int.from_bytes(content[at:][_LAST_OFFSET_DELTA], "big")
            end, at = max(end, base + delta + 1), at + 12 + length
    return end


def first_lost(cluster: LocalCluster, writers: Writers, number: int, before: int) -> int:
    """The first offset, of those acknowledged before the fault, that holds another record now."""
    tp = TopicPartition(writers.topic, number)
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap)) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        consumer.seek_to_beginning(tp)
        now: dict[int, bytes] = {}
        while consumer.position(tp) < end:
            for records in consumer.poll(1_000).values():
                now |= {record.offset: record.value for record in records}
    acked = {o: v for n, o, v in writers.acked[:before] if n == number}
    return min(offset for offset, value in acked.items() if now.get(offset) != value)


def log_ends(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """The log end offset of each partition's leader."""
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap)) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, n) for n in PARTITIONS])
    return {tp.partition: end for tp, end in ends.items()}


class Tap:
    """Parses the lines that a broker logs from now on into frames."""

    def __init__(self, cluster: LocalCluster, broker: int) -> None:
        self._source = FileSource(cluster.layout.folder(broker) / "server.log")
        self._parser = BrokerLogParser(broker)
        self.invalid_lines = self._parser.invalid_lines

    def give(self, watch: Watch) -> None:
        """Let the twin take in what there is."""
        for line in self._source.lines():
            self._parser.feed(line)
        topics = watch.state[Topics]
        ids = dict(zip(topics.topic.tolist(), topics.topic_id.tolist(), strict=True))

        def resolve(name: str) -> Topic | None:
            return Topic(name, ids[name]) if name in ids else None

        counts = RowCounts(Counter(), Counter())
        for _, message in messages(Deployment("real", 1), self._parser, resolve, counts):
            watch.take(frames.decode(message, CATALOG.observations).frames)


def shown(watch: Watch, topic: str) -> dict[int, dict[str, Any]]:
    """The partitions of a topic by number, as the API has them."""
    rows = np.array([i for i, (name, _) in enumerate(keys(watch.state)) if name == topic])
    objects = partition_objects(watch.state, rows, watch.state.observed_at_ms)
    return {part["partition"]: part for part in objects}


def losses(watch: Watch, topic: str) -> dict[int, dict[str, Any]]:
    """The newest loss of each partition that has one."""
    watch.look()
    return {n: p["records_lost"][-1] for n, p in shown(watch, topic).items() if p["records_lost"]}


def restart_with_tap(five: LocalCluster, watch: Watch, topic: str) -> dict[int, dict[str, Any]]:
    """Start broker 4 while its log is read; the losses once their ends are logged."""
    tap = Tap(five, 4)
    five.start([4])

    def ended() -> dict[int, dict[str, Any]] | None:
        tap.give(watch)
        found = losses(watch, topic)
        ends = [loss["end_is_exact"] for loss in found.values()]
        return found if len(ends) == len(PARTITIONS) and all(ends) else None

    return until(ended, 60, "the ends of the losses are not known")


@pytest.fixture
def five(five_brokers: LocalCluster) -> Iterator[LocalCluster]:
    yield five_brokers
    for node in five_brokers.status():
        if node.state == "paused":
            five_brokers.resume(node.id)
    five_brokers.start()
    await_in_sync(five_brokers)


@contextmanager
def watched(
    five: LocalCluster, topic: str, config: dict[str, str]
) -> Iterator[tuple[BrokerClient, Watch, Writers]]:
    """A new topic whose partitions broker 4 leads and 5 follows, and who writes to it."""
    client = BrokerClient(five)
    client.create(topic, [[4, 5]] * len(PARTITIONS), config)
    with watching(five.bootstrap) as watch:
        until(lambda: watch.look() and len(shown(watch, topic)) == len(PARTITIONS))
        yield client, watch, Writers(five, topic)


def test_an_unclean_election_loses_what_the_twin_says(five: LocalCluster) -> None:
    """5 is frozen out of the ISR; 4 is killed while it is written; 5 is elected and written."""
    topic = "lost-unclean"
    with watched(five, topic, UNCLEAN) as (client, watch, writers):
        with writers.running():
            until(lambda: watch.look() and len(writers.acked) > 200)
            five.pause(5)
            until(lambda: watch.look() and client.partition(1, topic).isr == {4}, 60)
            seen = len(writers.acked)
            until(lambda: watch.look() and len(writers.acked) > seen + 200)
            five.kill(4)
            before = len(writers.acked)
            five.resume(5)
            found = until(
                lambda: len(it := losses(watch, topic)) == len(PARTITIONS) and it,
                60,
                "the twin knows of no loss",
            )
        ends = {n: end_on_disk(five, 4, topic, n) for n in PARTITIONS}
        for n, loss in found.items():
            assert (loss["cause"], loss["start_is_exact"]) == ("unclean", True)
            assert loss["start_offset"] == first_lost(five, writers, n, before)
            assert loss["end_offset"] <= ends[n]
            # A cycle of this test takes far less than a second on a quiet machine.
            assert ends[n] - loss["end_offset"] <= 10 * PER_S
            [away] = shown(watch, topic)[n]["truncations"]
            assert (away["broker"], away["to_offset"]) == (4, loss["start_offset"])
        found = restart_with_tap(five, watch, topic)
        assert {n: loss["end_offset"] for n, loss in found.items()} == ends


@pytest.mark.parametrize("tapped", [False, True])
def test_an_unclean_election_that_follows_the_shrink_within_a_cycle(
    five: LocalCluster, tapped: bool
) -> None:
    """Nobody polls between the shrink and the election. What is lost was acknowledged by all."""
    topic = f"lost-within-a-cycle-{tapped}".lower()
    with (
        watched(five, topic, UNCLEAN) as (client, watch, _),
        closing(KafkaProducer(bootstrap_servers=five.bootstrap, acks="all")) as all_,
        closing(
            KafkaProducer(bootstrap_servers=five.bootstrap, acks=1, enable_idempotence=False)
        ) as one,
    ):
        write(all_, topic, 50)
        taps = [Tap(five, node.id) for node in five.status()]  # who controls is not known
        five.pause(5)
        write(one, topic, 1)  # the answer that a fetch of before the pause waits for has this
        write(one, topic, 20)
        watch.look()
        until(lambda: all(client.partition(1, topic, n).isr == {4} for n in PARTITIONS), 60)
        write(all_, topic, 30)
        five.kill(4)
        five.resume(5)
        until(lambda: all(client.partition(1, topic, n).leader == 5 for n in PARTITIONS), 60)
        found = until(
            lambda: len(it := losses(watch, topic)) == len(PARTITIONS) and it,
            60,
            "the twin knows of no loss",
        )
        if tapped:
            for tap in taps:
                tap.give(watch)
            found = losses(watch, topic)
        starts = log_ends(five, topic)  # nobody writes to 5
        assert set(starts.values()) <= {50, 51}
        for n, loss in found.items():
            assert (loss["start_offset"], loss["start_is_exact"]) == (starts[n], True)
            assert 71 <= loss["end_offset"] <= 101
            assert loss["acknowledged"] in ("possible", "certain")
            assert shown(watch, topic)[n]["unclean_elections"] or not tapped
            assert loss["cause"] == "unclean" or not tapped
        if tapped:
            stop_and_start_the_only_replica(five, client, topic)
            for tap in taps:
                tap.give(watch)
                assert not tap.invalid_lines
            after = shown(watch, topic)
            assert [len(after[n]["unclean_elections"]) for n in PARTITIONS] == [1] * 5


def stop_and_start_the_only_replica(five: LocalCluster, client: BrokerClient, topic: str) -> None:
    """Its controllers call both changes unclean, since 5 never recovered. Neither is."""
    five.kill(5)
    until(lambda: all(client.partition(1, topic, n).leader == -1 for n in PARTITIONS), 60)
    five.start([5])
    until(lambda: all(client.partition(1, topic, n).leader == 5 for n in PARTITIONS), 60)


def write(producer: KafkaProducer, topic: str, count: int) -> None:
    """So many records into each partition, each acknowledged as the producer asks for."""
    sent = [producer.send(topic, b"x", partition=n) for n in PARTITIONS for _ in range(count)]
    for future in sent:
        future.get(30)


def test_a_clean_failover_loses_what_the_old_leaders_log_says(five: LocalCluster) -> None:
    """5 is frozen for less than a session; 4 is killed meanwhile with records of its own."""
    topic = "lost-acks-1"
    with watched(five, topic, ACKS_1) as (client, watch, writers):
        with writers.running():
            until(lambda: watch.look() and len(writers.acked) > 200)
            five.pause(5)
            time.sleep(FROZEN_S)
            five.kill(4)
            before = len(writers.acked)
            five.resume(5)
            until(lambda: watch.look() and client.partition(1, topic).leader == 5, 60)
        ends = {n: end_on_disk(five, 4, topic, n) for n in PARTITIONS}
        found = restart_with_tap(five, watch, topic)
        for n, loss in found.items():
            assert (loss["cause"], loss["start_is_exact"]) == ("acks_1", True)
            assert loss["start_offset"] == first_lost(five, writers, n, before)
            assert loss["end_offset"] == ends[n]


def test_a_leader_that_comes_back_with_an_empty_disk_has_lost_all(five: LocalCluster) -> None:
    topic, client = "lost-disk", BrokerClient(five)
    client.create(topic, [[4]], {"min.insync.replicas": "1"})
    with closing(KafkaProducer(bootstrap_servers=five.bootstrap, acks="all")) as producer:
        for n in range(500):
            producer.send(topic, b"%d" % n, partition=0)
        producer.flush(30)
    with watching(five.bootstrap) as watch:
        until(lambda: (watch.look() and shown(watch, topic))[0]["replicas"][0]["log_end_offset"])
        five.stop([4])
        shutil.rmtree(five.layout.disks(4)[0] / f"{topic}-0")
        watch.look()
        five.start([4])
        loss = until(lambda: losses(watch, topic).get(0), 60, "the twin knows of no loss")
        assert (loss["start_offset"], loss["end_offset"]) == (0, 500)
        assert (loss["cause"], loss["start_is_exact"]) == ("shorter_log", True)
