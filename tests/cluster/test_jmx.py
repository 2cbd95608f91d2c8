"""Brokers' own metrics, from the agent that the local cluster starts, against what was done."""

from __future__ import annotations

import io
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from kafka import KafkaConsumer, TopicPartition

from streaming.checks import check
from streaming.collector.cycle.collector import Collector
from streaming.collector.cycle.observation import ObservationEncoder
from streaming.collector.sources.jmx import MetricsSource
from streaming.collector.wire.connections import BrokerConnections
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from streaming.runtime.deadline import Deadline
from tests.cluster.broker_client import EARLIEST_LOCAL, LATEST_TIERED, BrokerClient
from tests.cluster.topics import TIERED, produce
from tests.waiting import PATIENCE, patience, until
from twin.engine import frames
from twin.tables.broker_columns import BROKER_METRICS

pytestmark = pytest.mark.cluster

TOPIC: Final = "measured"
LEADER, FOLLOWER, EMPTY = 2, 3, 1
RECORDS: Final = 400
BETWEEN_SCRAPES_S: Final = 0.5

ONLY_AFTER: Final = {
    "fetch_consumer_p99_ms": "a consumer's fetch since the scrape before",
    "remote_read_mean_ms": "a read from remote storage since the scrape before",
}
"""Signals that an idle tiered broker does not report, and what has to happen first."""

BYTES: Final = re.compile(r"bytes_(in|out)_per_s$")

RATIOS: Final = ("request_handlers_idle_ratio", "remote_reader_idle_ratio")

MAGIC_AT: Final = 16
"""Of a batch of records, in bytes from its start."""

Row = Mapping[str, Any]


def config(cluster: LocalCluster) -> Config:
    urls = {str(broker): url for broker, url in cluster.layout.metrics_urls.items()}
    # Topics that others left may lose old records while those are asked: a remote read.
    section = CollectorConfig(metrics_urls=urls, include_topics=TOPIC)
    return Config(
        cluster=ClusterConfig(name="real", bootstrap=cluster.bootstrap),
        bus=BusConfig(shards=2, prefix="jmx-bus"),
        collector=section,
    )


class Rows:
    """The rows of metrics that the collector sends, as their reader decodes them.

    Each cycle has a scrape of its own: a rate is of the time since the scrape before, so a scrape
    that no cycle takes would hide what happened.
    """

    def __init__(
        self, settings: Config, brokers: BrokerConnections, metrics: MetricsSource
    ) -> None:
        self.collector, self.metrics = Collector(settings, brokers, metrics), metrics

    def next(self) -> dict[int, Row]:
        """The rows of the next cycle that has any, by broker; every shard gets the same."""
        deadline = Deadline.after_s(PATIENCE * 20)
        while True:
            time.sleep(BETWEEN_SCRAPES_S)
            self.metrics.read_now()
            observation = self.collector.observe()
            assert observation is not None, self.collector.problems
            observed = [
                frame
                for _, message in ObservationEncoder().encode(observation)
                for frame in frames.decode(message).frames
            ]
            tables = [f.rows.to_pylist() for f in observed if f.header.kind == "broker_metrics"]
            if tables:
                assert len(tables) == 2
                assert str(tables[0]) == str(tables[1])  # NaN is not equal to itself
                return {row["broker"]: row for row in tables[0]}
            assert not deadline.is_over, self.collector.problems

    def until(self, holds: Callable[[dict[int, Row]], bool], seconds: float = 30) -> dict[int, Row]:
        """The first rows for which it holds."""
        deadline = Deadline.after_s(PATIENCE * seconds)
        while not holds(rows := self.next()):
            assert not deadline.is_over, rows
        return rows


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> BrokerClient:
    """A topic most of whose records are only remote, and that nothing is done to any more."""
    broker_client = BrokerClient(cluster)
    broker_client.create(TOPIC, [[LEADER, FOLLOWER]], TIERED | {"local.retention.bytes": "20000"})
    produce(cluster, TOPIC, RECORDS)

    def settled() -> bool:
        """All full segments are remote, and as few are on disk as may be: two, of 16 records."""
        offsets = [broker_client.offsets_by_kind(broker, TOPIC, 0) for broker in (LEADER, FOLLOWER)]
        return all(
            0 < RECORDS - o[EARLIEST_LOCAL] <= 40 and RECORDS - o[LATEST_TIERED] <= 20
            for o in offsets
        )

    until(settled, 60)
    return broker_client


@pytest.fixture
def rows(cluster: LocalCluster, client: BrokerClient) -> Iterator[Rows]:
    settings = config(cluster)
    with (
        BrokerConnections(cluster.bootstrap, {}, settings.collector.deadline_ms) as brokers,
        MetricsSource(settings.collector, background=False) as metrics,
    ):
        yield Rows(settings, brokers, metrics)


def absent(row: Row) -> set[str]:
    return {name for name in BROKER_METRICS if math.isnan(row[name])}


def test_an_idle_tiered_broker_reports_every_signal_but_those_that_need_an_event(
    rows: Rows,
) -> None:
    def all_reported(latest: dict[int, Row]) -> bool:
        # On a busy machine a broker may be late with the answer to a scrape.
        is_whole = set(latest) == {1, 2, 3} and rows.collector.problems == ()
        return is_whole and not absent(latest[LEADER]) - ONLY_AFTER.keys()

    # The second scrape has the rates; the handlers' ratio is reported after 5 s.
    latest = rows.until(all_reported)
    row = latest[LEADER]
    assert "remote_read_mean_ms" in absent(row)
    assert all(0 <= row[name] < math.inf for name in set(BROKER_METRICS) - absent(row))
    # Kafka's meters divide by 5 s what they first counted, which may be up to 10 s of idling.
    assert all(0 < row[name] < 2 for name in RATIOS), {name: row[name] for name in RATIOS}
    # Its follower waits half a second for records that do not come, and the leader does nothing.
    assert 400 < row["fetch_follower_p99_ms"] < 60_000
    worked_ms = row["fetch_follower_local_p99_ms"] + row["fetch_follower_queue_p99_ms"]
    # On a busy machine the leader waits for a core while it works.
    assert worked_ms < row["fetch_follower_p99_ms"] - 400 / patience()
    assert row["remote_copy_lag_bytes"] == row["remote_copy_lag_segments"] == 0
    # The twin's topics and its own fetches are bytes; nobody writes to this one.
    quiet = [n for n in BROKER_METRICS if n.endswith("_per_s") and not BYTES.search(n)]
    assert {name: row[name] for name in quiet} == dict.fromkeys(quiet, 0.0)


def test_a_partition_that_the_log_cleaner_gives_up_is_counted(
    cluster: LocalCluster, rows: Rows
) -> None:
    """The first batch is of a format that no Kafka has."""
    topic = "cannot-be-cleaned"
    BrokerClient(cluster).create(
        topic,
        [[EMPTY]],
        {
            "cleanup.policy": "compact",
            "internal.segment.bytes": "16384",
            "min.cleanable.dirty.ratio": "0.01",
        },
    )
    before = rows.until(lambda latest: set(latest) == {1, 2, 3})
    assert [before[b]["uncleanable_partitions"] for b in (1, 2, 3)] == [0, 0, 0]
    produce(cluster, topic, 100)
    log = cluster.layout.disks(EMPTY)[0] / f"{topic}-0" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(MAGIC_AT)
        file.write(b"\x09")
    latest = rows.until(lambda latest: latest.get(EMPTY, {}).get("uncleanable_partitions") == 1, 90)
    assert latest[EMPTY]["log_cleaner_dead_threads"] == 0
    assert latest[LEADER]["uncleanable_partitions"] == 0


def test_old_offsets_show_as_remote_reads_of_the_leader_and_of_nobody_else(
    cluster: LocalCluster, rows: Rows
) -> None:
    rows.until(lambda latest: all(latest[b]["remote_fetch_requests_per_s"] == 0 for b in latest))
    partition = TopicPartition(TOPIC, 0)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        read = 0
        while read < RECORDS // 2:
            read += sum(len(records) for records in consumer.poll(2_000).values())
    # A broker counts a read when it begins, and its time when it ends: perhaps a row later.
    latest = rows.until(
        lambda latest: (
            latest[LEADER]["remote_fetch_requests_per_s"] > 0
            and "remote_read_mean_ms" not in absent(latest[LEADER])
        )
    )
    assert latest[LEADER]["remote_fetch_bytes_per_s"] > 1_000
    assert latest[LEADER]["remote_fetch_errors_per_s"] == 0
    assert 0 < latest[LEADER]["remote_read_mean_ms"] < 5_000
    assert latest[LEADER]["fetch_consumer_p99_ms"] > 0
    for other in (FOLLOWER, EMPTY):
        assert latest[other]["remote_fetch_requests_per_s"] == 0
        assert "remote_read_mean_ms" in absent(latest[other])
    rows.until(
        lambda latest: (
            latest[LEADER]["remote_fetch_requests_per_s"] == 0
            and "remote_read_mean_ms" in absent(latest[LEADER])
        )
    )


def test_a_follower_that_starts_at_the_tier_shows_as_a_build_of_its_own(
    client: BrokerClient, rows: Rows
) -> None:
    rows.until(lambda latest: latest[EMPTY]["aux_state_builds_per_s"] == 0)
    client.reassign(TOPIC, 0, [LEADER, FOLLOWER, EMPTY])
    latest = rows.until(lambda latest: latest[EMPTY]["aux_state_builds_per_s"] > 0)
    assert latest[LEADER]["aux_state_builds_per_s"] == 0
    rows.until(lambda latest: latest[LEADER]["isr_expands_per_s"] == 0)


def test_a_broker_that_is_gone_has_no_row_and_counts_from_0_when_it_is_back(
    cluster: LocalCluster, rows: Rows
) -> None:
    rows.until(lambda latest: not math.isnan(latest[EMPTY]["isr_shrinks_per_s"]))
    cluster.kill(EMPTY)
    try:

        def is_refused(latest: dict[int, Row]) -> bool:
            """A connection that was open at that moment has another cause, for one row."""
            refused = ("metrics", EMPTY, "ConnectionRefused")
            return EMPTY not in latest and refused in {p.cause for p in rows.collector.problems}

        rows.until(is_refused)
    finally:
        cluster.start()
    latest = rows.until(lambda latest: latest.get(EMPTY, {}).get("isr_shrinks_per_s") == 0)
    # It has built two auxiliary states before it was killed, and none since.
    assert latest[EMPTY]["aux_state_builds_per_s"] == 0
    assert ("metrics", EMPTY) not in {p.place for p in rows.collector.problems}


def test_check_says_whose_metrics_are_there_and_what_goes_without(cluster: LocalCluster) -> None:
    settings = config(cluster)
    settings.collector.metrics_urls["3"] = "http://127.0.0.1:1/metrics"
    out = io.StringIO()
    assert check(settings, out)
    for broker in (1, 2):
        url = cluster.layout.metrics_urls[broker]
        assert f"ok: metrics of broker {broker} at {url}, by the rules deploy/jmx/kafka.yml\n" in (
            out.getvalue()
        )
    wanted = "missing: metrics of broker 3: http://127.0.0.1:1/metrics: Connection refused -> "
    assert wanted in out.getvalue()
