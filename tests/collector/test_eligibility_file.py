"""Thresholds change while the collector runs (KIP-1303)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from streaming.bus.shards import with_shards
from streaming.checks.cluster_checks import of_cluster
from streaming.collector.cycle.collector import Collector
from streaming.collector.settings.eligibility_file import EligibilityFile
from streaming.collector.wire.connections import BrokerConnections
from streaming.runtime.config import ClusterConfig, Config, EligibilityConfig
from streaming.runtime.configuration.loading import load
from streaming.runtime.stop import on_hangup_signal
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.waiting import AMPLE_MS
from twin.tables.enums import NOT_SET
from twin.tables.observations import ConfigsFrame

MS = "leader.election.eligible.local.log.ms"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    topics = {name: Topic({0: Partition([1])}) for name in ("a", "b")}
    with fake_cluster(World(topics=topics), [1]) as one:
        yield one


class Asker:
    """Collects cycles with a configuration file; local_log_ms by topic, as far as it was sent."""

    def __init__(self, cluster: FakeCluster, path: Path) -> None:
        self.path = path
        config = with_shards(load(path), 2)
        patient = msgspec.structs.replace(config.collector, deadline_ms=AMPLE_MS)
        config = msgspec.structs.replace(config, collector=patient)
        self.file = EligibilityFile(path, config.eligibility)
        self.brokers = BrokerConnections(cluster.bootstrap, {}, AMPLE_MS)
        self.collector = Collector(config, self.brokers, eligibility=self.file)

    def __call__(self) -> dict[str, int]:
        observation = self.collector.observe()
        assert observation is not None
        tables = observation.rows(ConfigsFrame)
        rows = [row for table in tables for row in table.to_pylist()]
        return {row["topic"]: row["eligible_local_log_ms"] for row in rows}


@pytest.fixture
def ask(cluster: FakeCluster, tmp_path: Path) -> Iterator[Asker]:
    path = tmp_path / "twin.toml"
    path.write_text("[eligibility]\nlocal_log_ms = 1000\n")
    asker = Asker(cluster, path)
    yield asker
    asker.brokers.close()


def test_a_changed_file_holds_from_the_next_cycle_on_in_every_shard(ask: Asker) -> None:
    assert ask() == {"": 1_000, "a": NOT_SET, "b": NOT_SET}
    assert ask() == {}
    ask.path.write_text(
        "[eligibility]\nlocal_log_ms = 2000\n[[eligibility.topics]]\nname = 'b'\nlocal_log_ms = 7\n"
    )
    assert ask() == {"": 2_000, "a": NOT_SET, "b": 7}
    assert ask() == {}


def test_a_file_that_was_replaced_counts_as_changed(ask: Asker) -> None:
    """As editors and Kubernetes do it: the new file takes the place of the old."""
    ask()
    other = ask.path.with_suffix(".new")
    other.write_text("[eligibility]\nlocal_log_ms = 2000\n")
    other.replace(ask.path)
    assert ask()[""] == 2_000


def test_a_change_elsewhere_in_the_file_sends_nothing(ask: Asker) -> None:
    ask()
    ask.path.write_text("[cluster]\nname = 'other'\n[eligibility]\nlocal_log_ms = 1000\n")
    assert ask() == {}


@pytest.mark.parametrize("text", ["[eligibility\n", "[eligibility]\nlocal_log_ms = 'much'\n"])
def test_what_cannot_be_used_is_a_problem_and_the_thresholds_stay(ask: Asker, text: str) -> None:
    ask()
    ask.path.write_text(text)
    assert ask() == {}
    [problem] = [p for p in ask.collector.problems if p.source == "thresholds"]
    assert str(ask.path) in problem.text
    assert problem.text.endswith("the thresholds read before stay")
    ask.path.write_text("[eligibility]\nlocal_log_ms = 3000\n")
    assert ask()[""] == 3_000
    assert not [p for p in ask.collector.problems if p.source == "thresholds"]


def test_contradicting_patterns_do_not_stop_a_running_collector(ask: Asker) -> None:
    ask()
    sections = "".join(
        f"[[eligibility.topics]]\npattern = '{pattern}'\nlocal_log_ms = {ms}\n"
        for pattern, ms in (("a.*", 5), (".*a", 6))
    )
    ask.path.write_text(sections)
    assert ask() == {"": -1, "a": NOT_SET, "b": NOT_SET}
    assert any(p.error == "ContradictingPatterns" for p in ask.collector.problems)


def test_sighup_reads_a_file_that_seems_unchanged(ask: Asker) -> None:
    ask()
    stat = ask.path.stat()
    ask.path.write_text("[eligibility]\nlocal_log_ms = 2000\n")  # as long as before
    os.utime(ask.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert ask() == {}
    with on_hangup_signal(ask.file.request):
        os.kill(os.getpid(), signal.SIGHUP)
    assert ask()[""] == 2_000


def test_without_a_file_nothing_changes() -> None:
    file = EligibilityFile(None, EligibilityConfig())
    file.request()
    assert file.read() is None


# ---------------------------------------------------------------- a Kafka that has the settings


def test_thresholds_of_brokers_and_topics_win_where_kafka_has_them(
    cluster: FakeCluster, ask: Asker
) -> None:
    ask.path.write_text(
        "[eligibility]\nlocal_log_ms = 2000\n[[eligibility.topics]]\nname = 'b'\nlocal_log_ms = 7\n"
    )
    world = cluster.world
    world.broker_configs[MS] = world.defaults[MS] = "600000"
    world.topics["a"].configs[MS] = "9"
    assert ask() == {"": 600_000, "a": 9, "b": NOT_SET}


def test_check_says_whether_anything_is_judged(cluster: FakeCluster) -> None:
    def verdict(**eligibility: int) -> str:
        config = Config(
            cluster=ClusterConfig(bootstrap=cluster.bootstrap),
            eligibility=EligibilityConfig(**eligibility),
        )
        [line] = [str(f) for f in of_cluster(config) if "KIP-1303" in str(f)]
        return line

    assert verdict(local_log_bytes=5) == "ok: threshold of KIP-1303 for all topics"
    assert verdict().startswith("missing: threshold of KIP-1303; set one in twin.toml")
    cluster.world.topics["a"].configs[MS] = "9"
    assert verdict() == "ok: threshold of KIP-1303 for 1 topic, the others are not judged"
