"""Several clusters in one collector: they come, go and change, and none waits for another."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka.protocol.producer import ProduceRequest

from streaming.cli.main import main
from streaming.collector.cycle.metrics import CycleMetrics
from streaming.collector.fleet import polled
from streaming.collector.fleet.division import PLACES, places_of, require_one_bus
from streaming.collector.fleet.phases import begun_s_ago
from streaming.collector.fleet.program import PolledClusters
from streaming.collector.own_metrics import OWN
from streaming.lab.local_cluster import free_base_port
from streaming.runtime.config import BusConfig, ClusterConfig, CollectorConfig, Config, ConfigError
from streaming.runtime.configuration.following import Followed
from streaming.runtime.deadline import Deadline
from streaming.runtime.exposition.application import Registry
from streaming.runtime.program_metrics import served
from tests.collector.fake_broker import FakeCluster, Partition, Topic, World, fake_cluster
from tests.scraping import Scraped, assert_declared, scrape
from tests.waiting import patient_ms, until

NAMES = ("orders", "pay", "stock")
REPORTED = (*NAMES, "broken")

HANGS_MS = patient_ms(2_000)
"""Longer than a cluster is waited for, and not much longer than a test."""


class Fleet:
    """Clusters with equal names of topics and brokers, a bus, and a collector of all."""

    def __init__(self, folder: Path, bus: FakeCluster, clusters: dict[str, FakeCluster]) -> None:
        self.bus, self.clusters = bus, clusters
        self.path, self.folder = folder / "twin.toml", folder / "clusters"
        self.folder.mkdir()
        deadline_ms = patient_ms(500)
        self.path.write_text(
            f'[bus]\nbootstrap = "{bus.bootstrap}"\n'
            f"[collector]\ninterval_ms = 200\ndeadline_ms = {deadline_ms}\n"
            f'[health]\nfolder = "{folder}"\n[fleet]\nfolder = "clusters"\n'
        )
        for name, cluster in clusters.items():
            self.write(name, cluster.bootstrap)
        self.polled = PolledClusters()

    def write(self, name: str, bootstrap: str, more: str = "") -> None:
        new = self.folder / f"{name}.new"
        new.write_text(f'bootstrap = "{bootstrap}"\n[bus]\nshards = 1\n{more}')
        new.rename(self.folder / f"{name}.toml")

    def follow(self, followed: Followed) -> None:
        followed.look()
        self.polled.follow(followed.configs, followed.why_not)

    def observations(self, name: str) -> int:
        """How many messages about the cluster the bus has taken."""
        return sum(
            topic.name == f"kafka-twin.{name}.observations"
            for broker in self.bus.brokers.values()
            for request in broker.asked_of(ProduceRequest)
            for topic in request.topic_data
        )

    def goes_on(self, *names: str) -> None:
        """Wait until the bus has taken two more observations of each."""
        before = {name: self.observations(name) for name in names}
        until(lambda: all(self.observations(n) >= before[n] + 2 for n in names))

    def asked(self, name: str) -> int:
        return sum(len(broker.asked) for broker in self.clusters[name].brokers.values())


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        kinds = ("observations", "snapshots", "events")
        topics = {f"kafka-twin.{n}.{k}": Topic({0: Partition([1])}) for n in NAMES for k in kinds}
        bus = stack.enter_context(fake_cluster(World(topics=topics), [1]))
        clusters = {
            name: stack.enter_context(
                fake_cluster(World(topics={"orders": Topic({0: Partition([1, 2])})}), [1, 2])
            )
            for name in NAMES
        }
        fleet = Fleet(tmp_path, bus, clusters)
        yield fleet
        fleet.polled.end(Deadline.after_s(60))
        until(lambda: not _left_behind(), HANGS_MS / 1_000)


def _left_behind() -> list[threading.Thread]:
    """Threads of clusters that hang: they end at their deadline."""
    return [each for each in threading.enumerate() if each.name.startswith("cluster ")]


def test_each_cluster_is_polled_and_a_silent_one_delays_no_other(fleet: Fleet) -> None:
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    fleet.follow(Followed(fleet.path, {}))
    fleet.goes_on("orders", "stock")
    assert fleet.observations("pay") == 0
    until(lambda: fleet.polled.why_unhealthy().startswith("pay: cluster.bootstrap 127.0.0.1:"))
    fleet.goes_on("orders", "stock")


def test_a_cluster_whose_bus_is_gone_delays_no_other(fleet: Fleet) -> None:
    fleet.write("pay", fleet.clusters["pay"].bootstrap, 'bootstrap = "127.0.0.1:1"\n')
    fleet.follow(Followed(fleet.path, {}))
    fleet.goes_on("orders", "stock")
    until(lambda: fleet.polled.why_unhealthy().startswith("pay: bus 127.0.0.1:1: "))
    fleet.goes_on("orders", "stock")


def test_a_cluster_comes_and_goes_and_the_others_are_not_touched(fleet: Fleet) -> None:
    (fleet.folder / "stock.toml").rename(fleet.folder / "later")
    followed = Followed(fleet.path, {})
    fleet.follow(followed)
    fleet.goes_on("orders", "pay")
    kept = fleet.polled.clusters["orders"]
    fleet.write("stock", fleet.clusters["stock"].bootstrap)
    fleet.follow(followed)
    fleet.goes_on("stock")
    (fleet.folder / "pay.toml").unlink()
    fleet.follow(followed)
    until(lambda: (fleet.follow(followed), {*fleet.polled.clusters})[1] == {"orders", "stock"})
    at_the_end = fleet.asked("pay")
    fleet.goes_on("orders", "stock")
    assert fleet.asked("pay") == at_the_end
    assert fleet.polled.clusters["orders"] is kept


def test_a_changed_cluster_is_begun_anew_and_changed_thresholds_are_given_to_it(
    fleet: Fleet,
) -> None:
    followed = Followed(fleet.path, {})
    fleet.follow(followed)
    fleet.goes_on(*NAMES)
    before = {name: fleet.polled.clusters[name] for name in NAMES}
    here = {name: fleet.clusters[name].bootstrap for name in NAMES}
    fleet.write("orders", here["orders"], "[eligibility]\nlocal_log_ms = 5\n")
    fleet.write("pay", here["pay"], "[collector]\ninterval_ms = 300\n")
    until(lambda: (fleet.follow(followed), fleet.polled.clusters["pay"] is not before["pay"])[1])
    fleet.goes_on(*NAMES)
    assert fleet.polled.clusters["orders"] is before["orders"]
    assert fleet.polled.clusters["stock"] is before["stock"]
    assert fleet.polled.clusters["orders"].thresholds.read() is None  # its cycle has read it
    fleet.write("orders", here["orders"], "[eligibility]\nlocal_log_ms = 'much'\n")
    fleet.follow(followed)
    [problem] = fleet.polled.clusters["orders"].thresholds.problems
    assert "orders" in problem.text
    assert problem.text.endswith("what was read before stays")
    fleet.write("orders", here["orders"])
    fleet.follow(followed)
    assert not fleet.polled.clusters["orders"].thresholds.problems


def test_a_cluster_that_hangs_is_begun_anew_when_its_file_is_mended(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polled, "END_WITHIN_S", 1.0)
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    hangs = f"[collector]\ndeadline_ms = {HANGS_MS}\n"
    fleet.write("pay", fleet.clusters["pay"].bootstrap, hangs)
    followed = Followed(fleet.path, {})
    fleet.follow(followed)
    fleet.goes_on("orders")
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = False
    before = fleet.polled.clusters["pay"]
    fleet.write("pay", fleet.clusters["pay"].bootstrap)
    until(lambda: (fleet.follow(followed), fleet.polled.clusters.get("pay") is not before)[1])
    fleet.goes_on("pay")


def test_a_cluster_that_comes_back_is_polled_after_a_pause(fleet: Fleet) -> None:
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    fleet.polled = PolledClusters(again_after_s=0.2)
    fleet.follow(Followed(fleet.path, {}))
    until(fleet.polled.why_unhealthy)
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = False
    fleet.goes_on(*NAMES)
    until(lambda: not fleet.polled.why_unhealthy())


def test_series_are_by_cluster_and_go_with_it(fleet: Fleet) -> None:
    followed = Followed(fleet.path, {})
    port = free_base_port(span=1)

    def clusters_of(scraped: Scraped, name: str) -> set[str]:
        return {labels["cluster"] for labels, _ in scraped.series(f"collector_{name}")}

    with served(fleet.polled.registry, "127.0.0.1", port, "x", fleet.polled.why_unhealthy):
        fleet.follow(followed)
        fleet.goes_on(*NAMES)
        scraped = scrape(port)
        assert_declared(scraped, OWN)
        assert clusters_of(scraped, "cycles_total") == {*NAMES}
        (fleet.folder / "pay.toml").unlink()
        until(lambda: (fleet.follow(followed), {*fleet.polled.clusters})[1] == {"orders", "stock"})
        scraped = scrape(port)
        for name in ("cycles_total", "problems", "cycle_duration_seconds_bucket", "build_info"):
            assert clusters_of(scraped, name) == {"orders", "stock"}
    assert {cluster for _, cluster in fleet.polled.registry.native} == {"orders", "stock"}


def test_durations_of_each_cluster_are_counted_for_themselves() -> None:
    registry = Registry()
    slow, fast = (CycleMetrics(name, 1_000, registry) for name in ("slow", "fast"))
    slow.cycle_ended((), 9.0)
    fast.cycle_ended((), 0.01)
    deltas = {cluster: each.buckets() for (_, cluster), each in registry.native.items()}
    assert deltas["slow"].deltas == deltas["fast"].deltas == [1]
    assert deltas["slow"].spans != deltas["fast"].spans


def test_what_hangs_does_not_keep_the_program_from_ending(fleet: Fleet) -> None:
    """As a process, which SIGTERM ends although a broker never answers."""
    fleet.write("pay", fleet.clusters["pay"].bootstrap, "[collector]\ndeadline_ms = 3600000\n")
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    program = subprocess.Popen(
        [sys.executable, "-m", "streaming", "--config", str(fleet.path), "collector"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        fleet.goes_on("orders", "stock")
        program.terminate()
        _, errors = program.communicate(timeout=120)
    finally:
        program.kill()
    assert program.returncode == 0
    assert "left behind" in errors
    assert "clusters=pay" in errors


# ---------------------------------------------------------------- when cycles begin


def config(name: str, shards: int = 1, interval_ms: int = 5_000) -> Config:
    return Config(
        cluster=ClusterConfig(name=name),
        bus=BusConfig(shards=shards),
        collector=CollectorConfig(interval_ms=interval_ms),
    )


def test_small_clusters_are_polled_close_together_and_large_ones_apart() -> None:
    def phases(shards: int) -> list[float]:
        at_s = 1e9 + 4.999
        return sorted(begun_s_ago(config(f"c{n}", shards), at_s) for n in range(50))

    small, large = phases(1), phases(2)
    assert 0.3 < small[-1] - small[0] < 0.5
    assert 4 < large[-1] - large[0] < 5
    assert len({*small}) == 50


def test_the_place_of_a_cluster_does_not_depend_on_when_it_is_begun() -> None:
    begins = {
        round((now_s - begun_s_ago(config("orders"), now_s)) % 5, 6)
        for now_s in (1e9, 1e9 + 0.1, 1e9 + 3.3, 1e9 + 4.99)
    }
    assert len(begins) == 1


# ---------------------------------------------------------------- kafka-twin check


def test_check_has_a_line_of_each_cluster_the_worst_first(fleet: Fleet) -> None:
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    (fleet.folder / "broken.toml").write_text("bootstrap = 5\n")
    ran = CliRunner().invoke(main, ["--config", str(fleet.path), "check"])
    assert ran.exit_code == 1
    lines = [line for line in ran.output.splitlines() if line.partition(":")[0] in REPORTED]
    assert [line.partition(":")[0] for line in lines] == ["broken", "pay", "orders", "stock"]
    assert lines[0].startswith("broken: cannot run: missing: ")
    assert lines[1].startswith("pay: cannot run: missing: cluster.bootstrap 127.0.0.1:")
    assert all(": can run, but goes without " in line for line in lines[2:])
    assert "2 of 4 clusters can be run" in ran.output.splitlines()[-1]


def test_check_of_one_of_them_is_the_whole_report(fleet: Fleet) -> None:
    ran = CliRunner().invoke(main, ["--config", str(fleet.path), "check", "--cluster", "orders"])
    assert "ok: cluster orders at " in ran.output
    assert "the twin can run" in ran.output.splitlines()[-1]


def test_a_cluster_whose_check_does_not_end_holds_no_other(fleet: Fleet) -> None:
    """As a process, which ends although one of its threads does not."""
    within_s = patient_ms(5_000) / 1_000
    fleet.write("pay", fleet.clusters["pay"].bootstrap, "[collector]\ndeadline_ms = 3600000\n")
    for broker in fleet.clusters["pay"].brokers.values():
        broker.silent = True
    code = (
        "from streaming.checks import fleet_checks\n"
        f"fleet_checks._WITHIN_S, fleet_checks._DEADLINES = {within_s}, 0\n"
        "from streaming.cli.main import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "--config", str(fleet.path), "check"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=2 * within_s + 60)
    late = f"an end of the check within {within_s:.0f} s"
    assert ran.stdout.splitlines()[0] == f"pay: cannot run: missing: {late} -> everything"


# ---------------------------------------------------------------- several collectors


@pytest.mark.parametrize("collectors", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("clusters", [1, 2, 3, 20, 23, 150])
def test_collectors_divide_clusters_evenly(clusters: int, collectors: int) -> None:
    places = places_of({f"cluster-{n}" for n in range(clusters)})
    each = PLACES // collectors
    counts = [sum(place // each == n for place in places.values()) for n in range(collectors)]
    assert sum(counts) == clusters
    assert max(counts) - min(counts) <= 1


def test_few_clusters_change_places_when_one_comes() -> None:
    names = {f"cluster-{n}" for n in range(100)}
    before, after = places_of(names), places_of({*names, "another"})
    half = PLACES // 2
    assert sum(before[name] // half != after[name] // half for name in names) <= 1


def test_clusters_that_share_no_bus_cannot_be_divided() -> None:
    here, there = (
        Config(cluster=ClusterConfig(name=name), bus=BusConfig(bootstrap=bus))
        for name, bus in (("orders", "a:1"), ("pay", "b:1"))
    )
    require_one_bus([here, here])
    for configs in ([here, there], [config("orders")]):
        with pytest.raises(ConfigError, match=r"^fleet.collector_group: .*set bus.bootstrap"):
            require_one_bus(configs)
