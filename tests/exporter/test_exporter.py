"""The exposition: every family of the table, nothing unknown as a number, risks always."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import subprocess
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer, at_scrape
from streaming.exporter.own_metrics import OWN
from streaming.exporter.view_source import ViewSource
from streaming.exporter.web_application import application
from streaming.lab.screen import draw
from streaming.runtime.config import ExporterConfig
from tests.builders import (
    NOW_MS,
    Fetch,
    Group,
    Log,
    Moved,
    Partition,
    SegmentEvent,
    a_state,
    broker_metrics_frame,
    configs_frame,
    empty,
    epochs_frame,
    fetches_frame,
    group_offsets_frame,
    groups_frame,
    isr_changes_frame,
    partitions_frame,
    problems_frame,
    quorum_frame,
    segments_frame,
)
from tests.log_dir_frames import Directory, failed, log_dirs_frame, replica_dirs_frame
from tests.reading import is_of_few
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.cluster_step import empty_cluster, reports, step_cluster
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_state import ShardState
from twin.step import count_skipped, step, step_segments
from twin.tables.broker_columns import BROKER_METRICS
from twin.tables.enums import PendingUpload, SegmentState

MIB = 1 << 20
METRICS = (*OWN, *CATALOG.all_metrics)
OF_FEW = {
    "kafka_twin_partition_cold_read_records",
    "kafka_twin_partition_highest_remote_offset",
    "kafka_twin_partition_isr_shrinks_recent",
    "kafka_twin_partition_orphan_bytes",
    "kafka_twin_partition_remote_log_bytes",
    "kafka_twin_replica_catch_up_progress_ratio",
    "kafka_twin_replica_catch_up_records_per_second",
    "kafka_twin_replica_catch_up_stuck",
    "kafka_twin_replica_catch_up_time_left_seconds",
    "kafka_twin_replica_catch_up_time_to_lead_seconds",
}
"""Metrics of few partitions or replicas, of which the full store has some."""


def a_store(*shards: ShardState) -> SnapshotStore:
    store = SnapshotStore(CATALOG, "c", shards[0].shards)
    for state in shards:
        written_ms = state.observed_at_ms + 700
        store.take_snapshot(f"c/{state.shard}".encode(), codec.encode(state), written_ms)
    store.publish()
    return store


def exposition(store: SnapshotStore, **config) -> str:
    rendered = Renderer(CATALOG, "c", ExporterConfig(**config)).render(store.view)
    return b"".join([*at_scrape("c", rendered, NOW_MS + 1_000), *rendered.blocks]).decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (s.name, tuple(sorted((k, v) for k, v in s.labels.items() if k != "cluster"))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def value(text: str, name: str, **labels: object) -> float | None:
    wanted = tuple(sorted((k, str(v)) for k, v in labels.items()))
    return samples(text).get((f"kafka_twin_{name}", wanted))


def catching_up(topic: str, log: Log, leader: Log = Log()) -> Partition:
    return Partition(
        topic, replicas=(3, 1), leader=1, isr=(1,), adding=(3,), logs={1: leader, 3: log}
    )


def a_busy_store() -> SnapshotStore:
    """Three partitions: one in order, one whose next leader is cold, one that is offline."""
    state = a_state(
        Partition("warm", log=Log(size_bytes=2 * MIB, last_tiered=5, pending_upload=6)),
        Partition("cold", replicas=(4, 5, 2), logs={5: Log(local_start=1, size_bytes=10)},
                  log=Log(size_bytes=2 * MIB)),
        Partition("lost", leader=-1, isr=(), elr=(2,)),
        eligible_local_log_bytes=MIB, min_insync_replicas=2, elr_enabled=1,
    )  # fmt: skip
    return with_events(state)


def a_full_store() -> SnapshotStore:
    """A shard that has a bit of everything, after two cycles."""
    measured = dict.fromkeys(BROKER_METRICS, 0.5) | {"remote_copy_lag_bytes": 1e12}
    tiered = {
        "remote_storage": 1,
        "copies_disabled": 0,
        "retention_ms": 86_400_000,
        "retention_bytes": -1,
    }
    at_once = {"upload_delay_ms": 0, "upload_delay_bytes": 0, "segment_bytes": MIB}
    config = {"eligible_local_log_bytes": MIB, "eligible_local_log_ms": 86_400_000,
              "min_insync_replicas": 2, "elr_enabled": 1,
              "last_tiered_fetch": 1, "own_last_tiered_fetch": {1: 1},
              "own_settings": {"default_min_isr": {1: 2, 2: 2}},
              "capacity": dict.fromkeys(range(1, 6), (1_000, 1_000)),
              "topics": {"idle": tiered, "late": tiered, "written": tiered | at_once}}  # fmt: skip
    idle = Log(end=50, local_start=50, last_tiered=49, reason=PendingUpload.ALL_TIERED)
    stuck = catching_up("idle", Log(end=0), idle)
    late = Partition("late", logs={2: Log(local_start=90)})
    first = a_state(
        Partition("warm", log=Log(end=10, size_bytes=2 * MIB)), catching_up("moves", Log(end=40)),
        stuck, late, Partition("moved"), Partition("written", log=Log(end=60, last_tiered=49)),
        at_ms=NOW_MS - 5_000, **config,
    )  # fmt: skip
    readers = [Group("reader", [(late, 100)], rack="az-a"), Group("replay", [(late, 10)])]
    first, _ = step(first, in_groups(readers, NOW_MS - 5_000), NOW_MS - 5_000)
    old = Log(size_bytes=2 * MIB, local_start=20, last_tiered=25, pending_upload=26, last_stable=90)
    state = a_state(
        Partition("warm", log=old),  # begins beyond what the twin saw, and claims to be old
        Partition("cold", replicas=(4, 5, 2), logs={5: Log(local_start=1, size_bytes=10)},
                  log=Log(size_bytes=2 * MIB)),
        Partition("lost", leader=-1, isr=(), elr=(2,)),
        catching_up("moves", Log(end=60)), stuck, replace(late, isr=(1, 2)),
        Partition("moved", leader=2, isr=(2, 3), epoch=2),
        Partition("written", log=Log(end=100, last_tiered=89)), since=first, **config,
    )  # fmt: skip
    denied = ("log dirs", 2, "ClusterAuthorizationFailed", "DESCRIBE on the cluster is missing")
    fills = Directory(2, total=100 * MIB, usable=MIB)
    disks = [Directory(1, 0), Directory(1, 1, volume=0), fills, failed(4), Directory(5)]
    cycle = [*in_groups(readers, NOW_MS), problems_frame([denied]), quorum_frame(),
             log_dirs_frame(disks), replica_dirs_frame([(stuck, 1, 0)])]  # fmt: skip
    state, _ = step(state, cycle, NOW_MS)
    copied = [
        SegmentEvent(SegmentState.COPY_STARTED, "s", 0, 20, ((0, 0),)),
        SegmentEvent(SegmentState.COPY_FINISHED, "s"),
    ]
    tier = [epochs_frame(late, [(0, 0)]), segments_frame(late, copied)]
    state, _, _ = step_segments(state, {}, tier)
    # And what brokers report of themselves and of their followers, in logs and numbers.
    left = Moved(NOW_MS, broker=2, leader=4, caught_up_ms=NOW_MS - 3_000, part=Partition("cold"))
    fetched = Fetch(NOW_MS - 3_100, broker=2, leader=4, part=Partition("cold"))
    events = [fetches_frame([fetched]), isr_changes_frame([left]),
              broker_metrics_frame({1: measured})]  # fmt: skip
    state, _ = step(state, events, NOW_MS)
    store = with_events(count_skipped(state, ["from_elsewhere"]))
    own, _ = step_cluster(empty_cluster(CATALOG, "c", 1), reports(state))
    assert store.take_snapshot(b"c/cluster", codec.encode(own))
    store.publish()
    return store


def in_groups(given: list[Group], at_ms: int) -> list[Frame]:
    """The frames of a collector that reads these groups."""
    return [groups_frame(given, at_ms), group_offsets_frame(given, at_ms)]


def with_events(state: ShardState) -> SnapshotStore:
    """A store with the state, some events, and a snapshot that was refused."""
    store = a_store(state)
    store.take_event(b'{"id":"1","kind":"leader_moved","cluster":"c"}')
    refused = b'{"id":"2","kind":"observation_refused","cluster":"c","reason":"bytes"}'
    store.take_event(refused)
    store.take_event(refused)
    store.take_snapshot(b"c/0", b"garbage")
    store.annotations.update(posted=1)
    store.publish()
    return store


def test_every_family_of_the_catalog_is_served_and_no_other():
    families = {f.name for f in text_string_to_metric_families(exposition(a_full_store()))}
    declared = {m.series_name.removesuffix("_total") for m in METRICS}
    assert families <= declared
    assert declared - families <= {m.series_name for m in METRICS if is_of_few(m)} - OF_FEW


def test_it_says_how_long_a_cycle_takes_to_arrive_and_how_large_the_state_is():
    first = a_state(at_ms=NOW_MS - 5_000)
    text = exposition(a_store(a_state(since=first)))
    assert value(text, "cycle_seconds") == 5
    assert value(text, "end_to_end_latency_seconds") == 0.7
    assert value(text, "state_bytes") == len(codec.encode(a_state(since=first)))
    assert value(exposition(a_store(first)), "cycle_seconds") is None


def test_broker_metrics_are_served_in_base_units_and_absent_ones_not_at_all():
    measured = broker_metrics_frame({1: {"fetch_follower_p99_ms": 500.0}, 2: {}})
    text = exposition(a_store(step(a_state(), [measured], NOW_MS)[0]))
    assert value(text, "broker_fetch_follower_p99_seconds", broker=1, rack="az-a") == 0.5
    assert value(text, "broker_metrics_age_seconds", broker=2, rack="az-b") == 0
    assert not [k for k in samples(text) if "broker_remote_" in k[0]]


def test_the_part_of_a_brokers_upload_lag_that_may_be_in_open_segments_is_apart():
    log = Log(end=200, size_bytes=2_000, last_tiered=99, pending_upload=100)
    tiered = {"remote_storage": 1, "copies_disabled": 0, "segment_bytes": 400}
    text = exposition(a_store(a_state(Partition(log=log), topics={"t": tiered})))
    assert value(text, "broker_upload_lag_bytes", broker=1, rack="az-a") == 1_000
    assert value(text, "broker_upload_lag_open_bytes", broker=1, rack="az-a") == 400


def test_every_series_has_exactly_the_labels_of_the_catalog():
    names = {m.series_name: {"cluster", *m.label_names} for m in METRICS}
    for family in text_string_to_metric_families(exposition(a_full_store())):
        for sample in family.samples:
            assert set(sample.labels) == names[sample.name], sample.name


@pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not on the PATH; it is in Debian's package prometheus",
)
def test_promtool_finds_nothing_to_say():
    for granularity in ("cluster", "topic", "partition"):
        text = exposition(a_busy_store(), granularity=granularity)
        judged = subprocess.run(
            ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert (judged.returncode, judged.stdout, judged.stderr) == (0, b"", b"")


def test_the_numbers_are_the_states():
    text = exposition(a_busy_store())
    at = {"topic": "cold", "partition": 0}
    assert value(text, "partitions") == 3
    assert value(text, "partitions_offline") == 1
    assert value(text, "partition_leader", **at) == 4
    assert value(text, "partition_next_leader", rule="kafka", **at) == 5
    assert value(text, "partition_next_leader", rule="kip1303", **at) == 2
    loss = {"broker": 4, "rack": "az-a"}
    for rule, coverage in (("kafka", "cold"), ("kip1303", "warm")):
        at_loss = loss | {"rule": rule, "outcome": "clean", "coverage": coverage}
        assert value(text, "broker_loss_partitions", **at_loss) == 1
    replica = {"broker": 5, "rack": "az-b", **at}
    assert value(text, "replica_election_eligible", **replica) == 0
    assert value(text, "replica_local_log_bytes", **replica) == 10
    assert value(text, "replica_local_log_span_seconds", **replica) == 3_600
    assert value(text, "broker_cold_replicas", broker=5, rack="az-b") == 1


def test_no_leader_is_a_value_and_what_is_unknown_is_left_out():
    text = exposition(a_busy_store())
    at = {"topic": "lost", "partition": 0}
    assert value(text, "partition_leader", **at) == -1
    assert value(text, "partition_log_end_offset", **at) is None
    assert value(text, "partition_last_tiered_offset", topic="warm", partition=0) == 5
    assert value(text, "partition_last_tiered_offset", topic="cold", partition=0) is None
    assert not [line for line in text.splitlines() if line.endswith(" -1") and "leader" not in line]


def test_an_event_that_comes_twice_is_counted_once():
    text = exposition(a_busy_store())
    assert value(text, "observations_refused_total", reason="bytes") == 1
    assert value(text, "snapshots_refused_total", reason="bytes") == 1


def test_losing_a_broker_counts_partitions_it_would_leave_under_min_isr():
    state = a_state(
        Partition(replicas=(1, 2)), Partition("u", replicas=(1, 2, 3)), min_insync_replicas=2
    )
    text = exposition(a_store(state))
    counts = [
        value(text, "broker_loss_under_min_isr_partitions", broker=b, rack=r)
        for b, r in ((1, "az-a"), (3, "az-c"))
    ]
    assert counts == [1, 0]


def test_a_topic_that_is_deleted_takes_its_series_along():
    state = a_state(Partition("a"), Partition("b"))
    store = a_store(state)
    assert 'topic="a"' in exposition(store)
    later = NOW_MS + 5_000
    after, _ = step(state, [partitions_frame([Partition("b")], later)], later)
    store.take_snapshot(b"c/0", codec.encode(after))
    store.publish()
    assert 'topic="a"' not in exposition(store)


@pytest.mark.parametrize("granularity", ["cluster", "topic"])
def test_a_partition_at_risk_is_served_at_any_granularity(granularity):
    text = exposition(a_busy_store(), granularity=granularity)
    assert value(text, "partition_leader", topic="lost", partition=0) == -1
    assert value(text, "partition_leader", topic="warm", partition=0) is None


def test_a_partition_at_risk_is_served_beyond_the_cap_and_what_is_left_out_is_counted():
    store = a_busy_store()
    text, whole = exposition(store, max_series=0), exposition(store)
    at_risk = {"risk": "partition_offline", "severity": "page"}
    assert value(text, "partition_at_risk", topic="lost", partition=0, **at_risk) == 1
    assert value(text, "partition_leader", topic="warm", partition=0) is None
    exported, dropped = series_of_partitions(text), value(text, "series_dropped_total")
    assert {labels["topic"] for labels in exported} == {"lost", "cold"}
    assert dropped > 0
    assert len(exported) + dropped == len(series_of_partitions(whole))


@pytest.mark.parametrize("max_series", [0, 1, 40, 1_000, 2_345, 10**6])
def test_the_cap_holds_and_exported_and_dropped_series_are_all_there_are(max_series):
    shard = SimulatedShard(Shape(topics=2, partitions=50, cold_share=0), cluster="c")
    state, _ = step(empty("c"), shard.observe(NOW_MS), NOW_MS)
    store = a_store(state)
    whole = len(series_of_partitions(exposition(store, max_series=10**9)))
    text = exposition(store, max_series=max_series)
    exported, dropped = len(series_of_partitions(text)), value(text, "series_dropped_total")
    assert exported <= max_series
    assert exported + dropped == whole
    assert value(text, "exporter_series") == exported
    assert exported > min(max_series, whole) - 2 * whole / 100  # no room for one more partition


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_where_too_many_are_at_risk_the_worst_are_served_and_what_is_cut_is_counted(share):
    shard = SimulatedShard(Shape(topics=4, partitions=50, cold_share=0.4), cluster="c", seed=3)
    state = empty("c")
    for number in range(5):
        if number == 1:
            shard.lose(1)
            shard.lose(2)
        at_ms = NOW_MS + number * 60_000
        state, _ = step(state, shard.observe(at_ms), at_ms)
    store = a_store(state)
    whole = exposition(store, max_series=0, max_series_at_risk=10**9)
    worst = worst_severities(whole)
    assert {"page", "warn"} <= set(worst.values())
    at_risk = len(series_of_partitions(whole))
    most = int(at_risk * share)
    text = exposition(store, max_series=0, max_series_at_risk=most)
    served = {(labels["topic"], labels["partition"]) for labels in series_of_partitions(text)}
    exported = len(series_of_partitions(text))
    assert most - 100 < exported <= most
    cut = {of: value(text, "series_cut", level=of) for of in SEVERITIES}
    assert exported + sum(cut.values()) == at_risk
    assert value(whole, "series_cut", level="healthy") == value(text, "series_cut", level="healthy")
    ranks = [SEVERITIES.index(worst[each]) for each in served]
    for level in SEVERITIES[: max(ranks, default=0)]:  # worse than some that are served
        assert cut[level] == 0


SEVERITIES = ("page", "warn", "info")


def worst_severities(text: str) -> dict[tuple[str, str], str]:
    """The severity of the worst open risk of each partition at risk."""
    worst: dict[tuple[str, str], str] = {}
    for (name, pairs), is_open in samples(text).items():
        labels = dict(pairs)
        if name == "kafka_twin_partition_at_risk" and is_open:
            key = labels["topic"], labels["partition"]
            found = (worst.get(key, "info"), labels["severity"])
            worst[key] = min(found, key=SEVERITIES.index)
    return worst


def series_of_partitions(text: str) -> list[dict[str, str]]:
    """Labels of each series that the cap counts: those of partitions and of replicas."""
    return [dict(labels) for _, labels in samples(text) if "partition" in dict(labels)]


def test_it_is_up_only_while_every_shard_is_fresh():
    one, two = (
        step(empty("c", n, 2), [partitions_frame([Partition()], shard=n, shards=2)], NOW_MS)[0]
        for n in (0, 1)
    )
    assert "1 of 2 shards" in a_store(one).view.why_not_up(NOW_MS)
    store = SnapshotStore(CATALOG, "c", 2)
    for shard in (one, two):
        store.take_snapshot(b"c/%d" % shard.shard, codec.encode(shard))
    view = store.publish(NOW_MS + 1_000)
    assert view.why_not_up(NOW_MS) == ""
    assert "16 s old" in view.why_not_up(NOW_MS + 16_001)
    assert view.why_not_up(NOW_MS + 16_000) == ""
    rendered = Renderer(CATALOG, "c", ExporterConfig()).render(view)
    fresh, stale = (
        b"".join(at_scrape("c", rendered, NOW_MS + ms)).decode() for ms in (7_000, 17_000)
    )
    assert value(fresh, "observation_age_seconds") == 7
    assert (value(fresh, "up"), value(stale, "up")) == (1, 0)
    assert 'sentence="Nothing is known of any broker yet."' in fresh
    assert 'sentence="The twin is not up, and nothing is known now; last known state: Not' in stale


def test_it_is_not_up_while_a_clock_that_was_ahead_keeps_newer_observations_out():
    view = a_store(a_state()).view
    assert view.why_not_up(NOW_MS - 60_000) == ""
    assert "60 s ahead" in view.why_not_up(NOW_MS - 60_000 - 1)


def test_a_snapshot_of_another_number_of_shards_is_refused():
    store = SnapshotStore(CATALOG, "c", 4)
    store.take_snapshot(b"c/0", codec.encode(a_state()))
    assert store.publish().snapshots_refused == {"shards": 1}


def test_an_older_snapshot_never_replaces_a_newer_one():
    store = a_store(a_state(at_ms=NOW_MS + 1))
    store.take_snapshot(b"c/0", codec.encode(a_state(at_ms=NOW_MS)))
    assert store.publish().observed_at_ms == NOW_MS + 1


# ---------------------------------------------------------------- over HTTP


def a_client(store: SnapshotStore, now_ms: int = NOW_MS + 1_000) -> TestClient:
    rendered = Renderer(CATALOG, "c", ExporterConfig()).render(store.view)
    source = ViewSource(CATALOG, "c", lambda: rendered, lambda: now_ms)
    source.events.close()  # the test client waits for the end of an answer
    return TestClient(application(source))


def test_metrics_come_plain_or_zipped():
    client = a_client(a_busy_store())
    plain = client.get("/metrics", headers={"accept-encoding": "identity"})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    with client.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as zipped:
        assert gzip.decompress(b"".join(zipped.iter_raw())) == plain.content


def test_health_says_why_not():
    assert a_client(a_busy_store()).get("/healthz").status_code == 200
    nothing_read = a_client(SnapshotStore(CATALOG, "c", 2)).get("/healthz")
    assert (nothing_read.status_code, nothing_read.text) == (503, "no snapshot has been read yet\n")


def test_an_exporter_that_is_not_fresh_stays_ready_and_alive_to_say_why():
    nothing_read = a_client(SnapshotStore(CATALOG, "c", 2))
    for path, text in (
        ("/-/ready", "ready; not fresh: no snapshot has been read yet\n"),
        ("/-/healthy", "alive\n"),
    ):
        answer = nothing_read.get(path)
        assert (answer.status_code, answer.text) == (200, text)


def test_the_api_writes_unknown_as_null_and_how_old_a_fact_is():
    client = a_client(a_busy_store())
    listed = client.get("/api/v1/partitions", params={"at_risk": "true"}).json()
    assert listed["total"] == 2
    one_risk = {"risk": "partition_offline", "at_risk": "true"}
    listed = client.get("/api/v1/partitions", params=one_risk).json()
    assert [p["topic"] for p in listed["partitions"]] == ["lost"]
    cold = client.get("/api/v1/partitions/cold/0").json()
    assert cold["next_leaders"]["kafka"] == {"leader": 5, "outcome": "clean", "coverage": "cold"}
    assert cold["risks"] == ["next_leader_cold"]
    assert cold["replicas"][1]["coverage"] == "cold"
    assert cold["replicas"][0]["last_tiered_offset"] is None
    assert cold["age_seconds"] == 1.0
    assert client.get("/api/v1/partitions/nobody/0").status_code == 404


def test_a_wrong_question_gets_one_clear_line():
    client = a_client(a_busy_store())
    for asked, why in (
        ({"broker": "x"}, "broker: 'x' is not a number"),
        ({"offset": "²"}, "offset: '²' is not a number"),
        ({"limit": "-1"}, "limit: '-1' is not a number"),
        ({"at_risk": "maybe"}, "at_risk: 'maybe' is neither true nor false"),
        ({"colour": "red"}, "colour: there is no such parameter"),
        ({"limit": "100000"}, "limit: at most 1000"),
        ({"risk": "rain"}, f"risk: 'rain' is none of {', '.join(CATALOG.risk_names)}"),
        ([("broker", "1"), ("broker", "2")], "broker: it is given twice"),
    ):
        answer = client.get("/api/v1/partitions", params=asked)
        assert (answer.status_code, answer.json()) == (400, {"error": why})


def test_the_worst_of_those_at_risk_come_first_on_every_page():
    at_min_isr = [Partition("t", n, isr=(1, 2)) for n in range(3)]
    lost = Partition("t", 3, leader=-1, isr=())
    first = a_state(*at_min_isr, min_insync_replicas=2)
    others = [replace(p, topic="u") for p in (*at_min_isr, lost)]
    frame = partitions_frame(others, shard=1, shards=2)
    config = configs_frame(min_insync_replicas=2)
    config = replace(config, header=replace(config.header, shard=1, shards=2))
    second, _ = step(empty("c", 1, 2), [config, frame], NOW_MS)
    client = a_client(a_store(replace(first, shards=2), second))
    pages = [
        client.get("/api/v1/partitions", params={"at_risk": "true", "limit": 1, "offset": n}).json()
        for n in range(8)
    ]
    assert {page["total"] for page in pages} == {7}
    names = [f"{p['topic']}-{p['partition']}" for page in pages for p in page["partitions"]]
    assert names == ["u-3", "t-0", "t-1", "t-2", "u-0", "u-1", "u-2"]


def test_paging_reaches_every_partition_once():
    shard = SimulatedShard(Shape(topics=3, partitions=10), cluster="c")
    state, _ = step(empty("c"), shard.observe(NOW_MS), NOW_MS)
    client = a_client(a_store(state))
    pages = [
        client.get("/api/v1/partitions", params={"limit": 7, "offset": offset}).json()
        for offset in range(0, 30, 7)
    ]
    listed = [(p["topic"], p["partition"]) for page in pages for p in page["partitions"]]
    assert len(listed) == len(set(listed)) == 30


def test_brokers_say_what_losing_them_would_do():
    brokers = a_client(a_busy_store()).get("/api/v1/brokers").json()["brokers"]
    losses = next(b for b in brokers if b["broker"] == 4)["loss_partitions"]
    assert losses["kafka"]["clean"]["cold"] == losses["kip1303"]["clean"]["warm"] == 1


def test_before_the_first_snapshot_the_api_knows_nothing_and_says_so():
    client = a_client(SnapshotStore(CATALOG, "c", 2))
    summary = client.get("/api/v1/summary").json()
    assert (summary["up"], summary["observed_at_ms"]) == (False, None)
    assert summary["partitions"] is None
    assert client.get("/api/v1/partitions").json() == {"total": 0, "partitions": []}
    assert client.get("/api/v1/brokers").json() == {"brokers": []}
    assert "kafka_twin_partitions" not in client.get("/metrics").text


def test_before_the_first_snapshot_the_demo_has_a_screen():
    client = a_client(SnapshotStore(CATALOG, "c", 2))
    summary, brokers, risky = (
        client.get(f"/api/v1/{what}").json() for what in ("summary", "brokers", "partitions")
    )
    text = draw(summary, brokers["brokers"], risky, "http://e", None, "home", "b:1", "twin")
    assert "NOT UP: no snapshot has been read yet" in text
    assert text.count("  -  ") == 5


def test_every_partition_of_a_large_shard_is_served_with_all_its_series():
    shard = SimulatedShard(Shape(topics=20, partitions=100, brokers=30), cluster="c")
    state, _ = step(empty("c"), shard.observe(NOW_MS), NOW_MS)
    text = exposition(a_store(state), max_series=10**7)
    assert text.count("\n") > 2_000 * 35


def test_shards_that_did_not_change_are_not_rendered_again():
    one, two = (
        step(empty("c", n, 2), [partitions_frame([Partition()], shard=n, shards=2)], NOW_MS)[0]
        for n in (0, 1)
    )
    store, renderer = a_store(one, two), Renderer(CATALOG, "c", ExporterConfig())
    first = renderer.render(store.view).blocks
    later = NOW_MS + 5_000
    frame = partitions_frame([Partition(leader=2)], later, shard=1, shards=2)
    store.take_snapshot(b"c/1", codec.encode(step(two, [frame], later)[0]))
    second = renderer.render(store.publish()).blocks
    of_shards = [block for block in first if b'partition="0"' in block]
    kept = [block for block in of_shards if any(block is each for each in second)]
    assert 0 < len(kept) == len(of_shards) / 2


def test_labels_that_are_kept_from_scrape_to_scrape_follow_the_racks_of_brokers():
    renderer, metric = Renderer(CATALOG, "c", ExporterConfig()), "broker_leaders"
    state, rendered = empty("c"), []
    for at_ms, has_racks in ((NOW_MS, True), (NOW_MS + 5_000, True), (NOW_MS + 10_000, False)):
        state = a_state(at_ms=at_ms, has_racks=has_racks, since=state)
        rendered.append(b"".join(renderer.render(a_store(state).view).blocks).decode())
    assert value(rendered[0], metric, broker=1, rack="az-a") == 1
    assert value(rendered[1], metric, broker=1, rack="az-a") == 1
    assert value(rendered[2], metric, broker=1, rack="") == 1
    assert "az-a" not in rendered[2]


def snapshots_of_a_simulated_shard() -> Iterator[bytes]:
    """One a cycle, while records are written."""
    shard, state = SimulatedShard(Shape(topics=4, partitions=10), 3), empty("sim")
    for at_ms in count(NOW_MS, 5_000):
        shard.traffic(5_000)
        state, _ = step(state, shard.observe(at_ms), at_ms)
        yield codec.encode(state)


def test_memory_stays_flat_while_the_view_changes_from_scrape_to_scrape():
    """Each scrape follows a new cycle, as in life; shares of both encodings."""
    # Allocations are traced while the exporter works, not while states are made for it.
    snapshots = list(islice(snapshots_of_a_simulated_shard(), 40))
    store, renderer = SnapshotStore(CATALOG, "sim", 1), Renderer(CATALOG, "sim", ExporterConfig())
    kept: list[int] = []
    tracemalloc.start()
    try:
        for scrape, snapshot in enumerate(snapshots):
            store.take_snapshot(b"sim/0", snapshot)
            rendered = renderer.render(store.publish())
            assert gzip.decompress(rendered.gzipped_after(b"")) == b"".join(rendered.blocks)
            del rendered
            if scrape % 10 == 9:
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # One view that is not given back is 15 kB of arrays and 60 kB of text, 20 of them 1.5 MB.
    assert kept[-1] - kept[1] < 100_000, kept
