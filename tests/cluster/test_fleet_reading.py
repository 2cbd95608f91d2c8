"""One exporter reads several clusters from one bus, and none delays or breaks another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streaming.bus import bus_topics
from streaming.bus.connection import BusError, settings
from streaming.exporter.fleet.followed_clusters import FollowedClusters
from streaming.exporter.fleet.served_clusters import ServedClusters
from streaming.exporter.intake import bus_reading
from streaming.exporter.intake.bus_reading import BusReading
from streaming.exporter.intake.cluster_reading import ClusterReading
from streaming.lab.local_cluster import LocalCluster
from streaming.runtime.config import BusConfig, ClusterConfig, Config
from streaming.runtime.configuration.following import Followed
from tests.exporter.fleet.views import a_view
from tests.waiting import until
from twin.engine import codec

pytestmark = pytest.mark.cluster


def configured(brokers: LocalCluster, prefix: str, name: str) -> Config:
    return Config(
        cluster=ClusterConfig(name=name),
        bus=BusConfig(
            bootstrap=brokers.bootstrap, prefix=f"{prefix}.{name}", shards=1, replication_factor=3
        ),
    )


def write(config: Config, value: bytes | None = None) -> None:
    """Write a snapshot of the cluster, or what is none."""
    bus_topics.ensure_topics(config)
    name = config.cluster.name
    value = codec.encode(a_view(name).states[0]) if value is None else value
    with closing(KafkaProducer(**settings(config), acks="all")) as producer:
        producer.send(bus_topics.topics(config).snapshots, value, f"{name}/0".encode()).get(60)


@contextmanager
def reading(*clusters: ClusterReading) -> Iterator[BusReading]:
    bus = BusReading()
    for each in clusters:
        bus.put(each)
    bus.start()
    try:
        yield bus
    finally:
        bus.stop()


def is_read(cluster: ClusterReading, times: int = 1) -> bool:
    return cluster.view.snapshots_read >= times


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"fleet-{abs(hash(request.node.name))}"


def test_a_cluster_that_comes_is_read_and_the_others_go_on_from_where_they_are(cluster, prefix):
    orders, payments = (
        ClusterReading(configured(cluster, prefix, name)) for name in ("orders", "payments")
    )
    write(orders.config)
    with reading(orders) as bus:
        until(lambda: is_read(orders))
        write(payments.config)
        bus.put(payments)
        until(lambda: is_read(payments))
        write(orders.config)
        until(lambda: is_read(orders, times=2))
        assert orders.view.snapshots_read == 2, "nothing was read again"
        bus.drop(payments)
        write(payments.config)
        write(orders.config)
        until(lambda: is_read(orders, times=3))
        assert payments.view.snapshots_read == 1


def test_a_cluster_that_breaks_is_tried_again_alone(cluster, prefix, monkeypatch):
    class Breaking(ClusterReading):
        breaks = 2

        def take(self, polled, reader):
            if polled and self.breaks:
                self.breaks -= 1
                raise ValueError("a bug")
            super().take(polled, reader)

    monkeypatch.setattr(bus_reading, "BROKEN_PAUSE_S", 1.0)
    orders = ClusterReading(configured(cluster, prefix, "orders"))
    broken = Breaking(configured(cluster, prefix, "broken"))
    for each in (orders, broken):
        write(each.config)
    with reading(orders, broken):
        until(lambda: is_read(orders))
        until(lambda: "ValueError: a bug" in broken.why_broken or is_read(broken))
        until(lambda: is_read(broken))
        assert (broken.why_broken, orders.why_broken) == ("", "")
        assert orders.view.snapshots_read == 1


def test_those_whom_one_keeps_from_being_read_are_read_apart(cluster, prefix):
    """The client of the bus raises for all, and does not say of which topic that is."""

    class Culprit(ClusterReading):
        def take(self, polled, reader):
            if polled:
                raise BusError("Not authorized")

    orders = ClusterReading(configured(cluster, prefix, "orders"))
    culprit = Culprit(configured(cluster, prefix, "culprit"))
    write(culprit.config)
    write(orders.config)
    others: list[BusReading] = []

    def set_apart(readings):
        for each in readings:
            others.append(BusReading())
            others[-1].put(each)
            others[-1].start()

    bus = BusReading(set_apart=set_apart)
    for each in (culprit, orders):
        bus.put(each)
    bus.start()
    try:
        until(lambda: others)
        until(lambda: is_read(orders))
        until(lambda: culprit.why_broken == "Not authorized")
        assert len(bus.wanted) == len(others[0].wanted) == 1
    finally:
        for each in (bus, *others):
            each.stop()


def test_a_cluster_whose_topics_are_made_anew_is_read_anew(cluster, prefix):
    orders, payments = (
        ClusterReading(configured(cluster, prefix, name)) for name in ("orders", "payments")
    )
    for each in (orders, payments):
        write(each.config)
    with reading(orders, payments), closing(KafkaAdminClient(**settings(orders.config))) as admin:
        until(lambda: is_read(orders) and is_read(payments))
        before = _topic_ids(admin, payments)
        admin.delete_topics([*bus_topics.topics(payments.config)])
        until(lambda: len(_topic_ids(admin, payments) - before) == len(before))
        write(payments.config)
        until(lambda: is_read(payments, times=2))
        assert orders.view.snapshots_read == 1


def _topic_ids(admin: KafkaAdminClient, reading: ClusterReading) -> set[str]:
    """Of the topics of a cluster that are there: others once the reading has made them anew."""
    described = admin.describe_topics([*bus_topics.topics(reading.config)])
    return {str(topic["topic_id"]) for topic in described if topic["error_code"] == 0}


def test_what_one_cluster_cannot_use_is_counted_for_it_alone(cluster, prefix):
    orders, payments = (
        ClusterReading(configured(cluster, prefix, name)) for name in ("orders", "payments")
    )
    write(orders.config)
    write(payments.config, b"no snapshot")
    with reading(orders, payments):
        until(lambda: is_read(orders))
        until(lambda: payments.view.snapshots_refused)
        assert not orders.view.snapshots_refused


def test_a_bus_that_is_gone_delays_no_other(cluster, prefix, tmp_path):
    """And clusters come and go with the file."""
    path: Path = tmp_path / "twin.toml"
    common = f'[bus]\nbootstrap = "{cluster.bootstrap}"\nprefix = "{prefix}"\nshards = 1\n'
    orders = '[clusters.orders]\nlabels = {env = "prod"}\n'
    gone = '[clusters.gone.bus]\nbootstrap = "127.0.0.1:1"\n'
    path.write_text(common + orders + gone)
    followed, clusters = Followed(path, {}), ServedClusters()
    write(followed.configs["orders"])
    following = FollowedClusters(followed, clusters)
    following.begin()
    following.start()
    try:
        until(lambda: clusters.source("orders").view.shards)
        assert clusters.source("orders").labels == {"env": "prod"}
        until(lambda: not clusters.source("gone").view.bus.answers)
        source = clusters.source("orders")
        path.write_text(common + orders + "[clusters.added]\n")
        until(lambda: [each.cluster for each in clusters.sources] == ["orders", "added"])
        assert clusters.source("orders") is source, "it did not change"
        write(followed.configs["added"])
        until(lambda: clusters.source("added").view.shards)
    finally:
        following.stop()
