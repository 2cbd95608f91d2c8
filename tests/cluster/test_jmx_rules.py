"""A broker whose JMX exporter has the rules of others: the same signals, as far as they are there.

The rules here name series as Strimzi's and those of jmx_exporter's examples do. The exporter reads
its rules again when the file changes, so both sets are of the same process.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest

from streaming.checks import check
from streaming.collector.scraping.metric_names import OWN as OWN_NAMES
from streaming.collector.scraping.metric_names import Rules
from streaming.collector.scraping.signals import Scrape, Served, served, signals_of
from streaming.lab.local_cluster import LocalCluster, free_base_port
from streaming.runtime import jars
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config
from tests.cluster.broker_client import BrokerClient
from tests.cluster.topics import TIERED, produce
from tests.waiting import until
from twin.tables.broker_columns import BROKER_METRICS

pytestmark = pytest.mark.cluster

OWN: Final = Path(__file__).parents[2] / "deploy" / "jmx" / "kafka.yml"

BY_BEAN: Final = r"""
lowercaseOutputName: true
rules:
  - {pattern: 'kafka\.(\w+)<type=(\w+), name=(\w+)Percent><>MeanRate', name: kafka_$1_$2_$3_percent}
  - pattern: 'kafka\.(\w+)<type=(UNSEEN\w+), name=(\w+)PerSec, (\w+)=([^,]+)><>Count'
    name: kafka_$1_$2_$3_total
    type: COUNTER
    labels: {"$4": "$5"}
  - pattern: 'kafka\.(\w+)<type=(UNSEEN\w+), name=(\w+)PerSec><>Count'
    name: kafka_$1_$2_$3_total
    type: COUNTER
  - pattern: 'kafka\.(\w+)<type=(\w+), name=([\w-]+), (\w+)=([^,]+)><>Value'
    name: kafka_$1_$2_$3
    labels: {"$4": "$5"}
  - {pattern: 'kafka\.(\w+)<type=(\w+), name=(\w+)><>Value', name: kafka_$1_$2_$3}
  - pattern: 'kafka\.(\w+)<type=(UNSEEN\w+), name=(\w+), (\w+)=([^,]+)><>Count'
    name: kafka_$1_$2_$3_count
    type: COUNTER
    labels: {"$4": "$5"}
  - pattern: 'kafka\.(\w+)<type=(UNSEEN\w+), name=(\w+)><>Count'
    name: kafka_$1_$2_$3_count
    type: COUNTER
  - pattern: 'kafka\.(\w+)<type=(UNSEEN\w+), name=(\w+), (\w+)=([^,]+)><>(\d+)thPercentile'
    name: kafka_$1_$2_$3
    labels: {"$4": "$5", quantile: "0.$6"}
"""

OF_READERS: Final = {"remote_reader_queue_size", "remote_reader_idle_ratio", "remote_read_mean_ms"}
OF_REQUESTS: Final = {
    "fetch_follower_p99_ms",
    "fetch_follower_local_p99_ms",
    "fetch_follower_queue_p99_ms",
    "fetch_consumer_p99_ms",
}

QUEUE: Final = "kafka_request_queue_size"
IDLE: Final = "kafka_request_handlers_idle_ratio"
"""A mean since the start by their rules: it is computed from the time."""

CHANGES: Final = itertools.count(1)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of rules that the broker's exporter reads."""
    path = tmp_path_factory.mktemp("rules") / "rules.yml"
    shutil.copy(OWN, path)
    return path


@pytest.fixture(scope="module")
def broker(rules: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker with a tiered topic, at which nothing happens any more."""
    [agent] = jars.ensure("jmx")
    with LocalCluster(
        tmp_path_factory.mktemp("broker"), nodes=1, base_port=free_base_port(), metrics=False,
        java_opts=(f"-javaagent:{agent}=127.0.0.1:{{port}}:{rules}",),
    ) as cluster:  # fmt: skip
        BrokerClient(cluster).create("measured", [[1]], TIERED)
        produce(cluster, "measured", 200)
        yield cluster


def url(broker: LocalCluster) -> str:
    return f"http://127.0.0.1:{broker.layout.agent_port(1)}/metrics"


def scraped(broker: LocalCluster, path: Path, rules: str) -> Served:
    """What the broker serves by those rules."""
    path.write_text(rules)
    later_s = time.time() + 10 * next(CHANGES)
    os.utime(path, (later_s, later_s))  # the exporter looks at the time of the file alone
    return served(httpx2.get(url(broker), trust_env=False, timeout=200).text)


@pytest.mark.parametrize("unseen", ["", "(?!RequestMetrics)"])
def test_what_is_served_by_other_rules_is_what_ours_serve(
    broker: LocalCluster, rules: Path, unseen: str
) -> None:
    theirs_text = BY_BEAN.replace("UNSEEN", unseen)
    same: set[object] = set()

    def equal() -> tuple[Served, Served] | None:
        texts = (OWN.read_text(), theirs_text, OWN.read_text())
        ours, theirs, later = (scraped(broker, rules, text) for text in texts)
        both = ours.samples.keys() & theirs.samples.keys() & later.samples.keys()
        # On a busy machine a scrape takes seconds, and counters count meanwhile.
        for key in both:
            least, most = sorted((ours.samples[key], later.samples[key]))
            if least <= theirs.samples[key] <= most:
                same.add(key)
        return (ours, theirs) if len(both) > 15 and both <= same else None

    ours, theirs = until(equal)
    assert (ours.rules, theirs.rules) == ({Rules.OWN}, {Rules.BY_BEAN})
    before = Scrape(0.0, theirs.samples)

    def with_idle_time() -> dict[str, float] | None:
        now = Scrape(time.monotonic() - began_s, scraped(broker, rules, theirs_text).samples)
        found = signals_of(now, before)
        return found if not math.isnan(found["request_handlers_idle_ratio"]) else None

    began_s = time.monotonic()
    found = until(with_idle_time)
    # Where nobody has fetched meanwhile, quantiles are of nothing.
    absent = {name for name in BROKER_METRICS if math.isnan(found[name])}
    assert OF_READERS | (OF_REQUESTS if unseen else set()) <= absent <= OF_READERS | OF_REQUESTS
    assert 0 < found["request_handlers_idle_ratio"] <= 1
    lacking = {key[0] for key in ours.samples.keys() - theirs.samples.keys()}
    of_requests = {name for name in OWN_NAMES if name.startswith("kafka_request")} - {QUEUE}
    of_readers = {name for name in OWN_NAMES if name.startswith("kafka_remote_read")}
    assert lacking == of_readers | (of_requests if unseen else {IDLE})


@pytest.mark.parametrize("lower", ["false", "true"])
def test_without_rules_the_same_series_are_read(
    broker: LocalCluster, rules: Path, lower: str
) -> None:
    """The names that Amazon MSK serves."""
    text = f"lowercaseOutputName: {lower}\n"

    same: set[object] = set()

    def equal() -> Served | None:
        texts = (OWN.read_text(), text, OWN.read_text())
        ours, theirs, later = (scraped(broker, rules, each) for each in texts)
        read = {key for key in ours.samples if key[-1] != "0.50"}  # the median is for Prometheus
        assert read <= theirs.samples.keys()
        for key in read:
            least, most = sorted((ours.samples[key], later.samples[key]))
            if least <= theirs.samples[key] <= most:
                same.add(key)
        return theirs if read <= same else None

    assert until(equal).rules == {Rules.DEFAULT}


def test_check_names_the_rules(broker: LocalCluster, rules: Path) -> None:
    config = Config(
        cluster=ClusterConfig(name="real", bootstrap=broker.bootstrap),
        bus=BusConfig(shards=1, prefix="rules-bus", replication_factor=1),
        collector=CollectorConfig(metrics_url=url(broker)),
    )
    for text, by in (
        (OWN.read_text(), Rules.OWN),
        (BY_BEAN.replace("UNSEEN", ""), Rules.BY_BEAN),
        ("{}", Rules.DEFAULT),
    ):
        scraped(broker, rules, text)
        out = io.StringIO()
        check(config, out)
        assert f"ok: metrics of broker 1 at {url(broker)}, by {by.value}\n" in out.getvalue()
