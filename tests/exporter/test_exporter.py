"""What is served: every family of the table, nothing unknown as a number, risks always."""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import subprocess
import time
import tracemalloc
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from streaming.bus.view import STALE_AFTER_MS, View
from streaming.exporter.api import application
from streaming.exporter.metrics import Renderer, at_scrape, zipped
from streaming.runtime.config import Exporter
from tests.builders import (
    NOW_MS,
    Fetch,
    Log,
    Moved,
    Partition,
    Told,
    a_fleet,
    configs_frame,
    epochs_frame,
    fetches_frame,
    isr_changes_frame,
    partitions_frame,
    segments_frame,
    signals_frame,
)
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.metrics import BY_NAME, METRICS
from twin.rules.risks import BY_NAME as RISKS
from twin.step import step, step_archive
from twin.tables import SIGNALS, PendingUpload, SegmentState

MIB = 1 << 20


def a_view(*shards: Fleet) -> View:
    view = View("c", shards[0].shards)
    for fleet in shards:
        written_ms = fleet.observed_at_ms + 700
        view.take_snapshot(f"c/{fleet.shard}".encode(), fleets.encode(fleet), written_ms)
    view.publish()
    return view


def exposition(view: View, **config) -> str:
    picture = view.picture
    blocks = Renderer("c", Exporter(**config)).render(picture).blocks
    return (at_scrape("c", picture, NOW_MS + 1_000) + b"".join(blocks)).decode()


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (s.name, tuple(sorted((k, v) for k, v in s.labels.items() if k != "cluster"))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def value(text: str, name: str, **labels: object) -> float | None:
    wanted = tuple(sorted((k, str(v)) for k, v in labels.items()))
    return samples(text).get((f"kafka_twin_{name}", wanted))


def joining(topic: str, log: Log, leader: Log = Log()) -> Partition:
    return Partition(topic, replicas=(3, 1), leader=1, isr=(1,), adding=(3,),
                     logs={1: leader, 3: log})  # fmt: skip


def a_busy_view() -> View:
    """Three partitions: one in order, one whose next leader is thin, one that is offline."""
    fleet = a_fleet(
        Partition("warm", log=Log(size_bytes=2 * MIB, last_tiered=5, pending_upload=6)),
        Partition("thin", replicas=(4, 5, 2), logs={5: Log(size_bytes=10)},
                  log=Log(size_bytes=2 * MIB)),
        Partition("lost", leader=-1, isr=(), elr=(2,)),
        eligible_local_log_bytes=MIB, min_insync_replicas=2, elr_enabled=1,
    )  # fmt: skip
    return told_of(fleet)


def a_full_view() -> View:
    """A fleet that has a bit of everything, after two cycles."""
    tiered = {"remote_storage": 1}
    config = {"eligible_local_log_bytes": MIB, "eligible_local_log_ms": 86_400_000,
              "min_insync_replicas": 2, "elr_enabled": 1,
              "last_tiered_fetch": 1, "topics": {"idle": tiered, "cold": tiered}}  # fmt: skip
    idle = Log(end=50, local_start=50, last_tiered=49, reason=PendingUpload.ALL_TIERED)
    stuck = joining("idle", Log(end=0), idle)
    cold = Partition("cold", logs={2: Log(local_start=90)})
    first = a_fleet(
        Partition("warm", log=Log(end=10, size_bytes=2 * MIB)), joining("moves", Log(end=40)),
        stuck, cold, at_ms=NOW_MS - 5_000, **config,
    )  # fmt: skip
    old = Log(size_bytes=2 * MIB, local_start=20, last_tiered=25, pending_upload=26)
    fleet = a_fleet(
        Partition("warm", log=old),  # begins beyond what the twin saw, and claims to be old
        Partition("thin", replicas=(4, 5, 2), logs={5: Log(size_bytes=10)},
                  log=Log(size_bytes=2 * MIB)),
        Partition("lost", leader=-1, isr=(), elr=(2,)),
        joining("moves", Log(end=60)), stuck, replace(cold, isr=(1, 2)),
        since=first, **config,
    )  # fmt: skip
    copied = [Told(SegmentState.COPY_STARTED, "s", 0, 20, ((0, 0),)),
              Told(SegmentState.COPY_FINISHED, "s")]  # fmt: skip
    tier = [epochs_frame(cold, [(0, 0)]), segments_frame(cold, copied)]
    fleet, _, _ = step_archive(fleet, {}, tier)
    # And what brokers tell of themselves and of their followers, in logs and numbers.
    left = Moved(NOW_MS, broker=2, leader=4, caught_up_ms=NOW_MS - 3_000, part=Partition("thin"))
    fetched = Fetch(NOW_MS - 3_100, broker=2, leader=4, part=Partition("thin"))
    events = [fetches_frame([fetched]), isr_changes_frame([left]),
              signals_frame({1: dict.fromkeys(SIGNALS, 0.5)})]  # fmt: skip
    fleet, _ = step(fleet, events, NOW_MS)
    return told_of(fleet)


def told_of(fleet: Fleet) -> View:
    """A view of the fleet that has heard of events, and refused a snapshot."""
    view = a_view(fleet)
    view.take_event(b'{"id":"1","kind":"leader_moved","cluster":"c"}')
    refused = b'{"id":"2","kind":"observation_refused","cluster":"c","reason":"bytes"}'
    view.take_event(refused)
    view.take_event(refused)
    view.take_snapshot(b"c/0", b"garbage")
    view.annotations.update(posted=1)
    view.publish()
    return view


def test_every_family_of_the_table_is_served_and_no_other():
    families = {f.name for f in text_string_to_metric_families(exposition(a_full_view()))}
    assert families == {m.name.removesuffix("_total") for m in METRICS}


def test_it_says_how_long_a_cycle_takes_to_be_told_and_how_large_the_state_is():
    first = a_fleet(at_ms=NOW_MS - 5_000)
    text = exposition(a_view(a_fleet(since=first)))
    assert value(text, "cycle_seconds") == 5
    assert value(text, "told_after_seconds") == 0.7
    assert value(text, "state_bytes") == len(fleets.encode(a_fleet(since=first)))
    assert value(exposition(a_view(first)), "cycle_seconds") is None


def test_signals_are_served_in_base_units_and_absent_ones_not_at_all():
    fleet = step(a_fleet(), [signals_frame({1: {"fetch_follower_p99_ms": 500.0}, 2: {}})],
                 NOW_MS)[0]  # fmt: skip
    text = exposition(a_view(fleet))
    assert value(text, "broker_fetch_follower_p99_seconds", broker=1, rack="az-a") == 0.5
    assert value(text, "broker_metrics_age_seconds", broker=2, rack="az-b") == 0
    assert not [k for k in samples(text) if "broker_remote_" in k[0]]


def test_the_twins_upload_lag_stands_beside_the_brokers():
    log = Log(end=100, size_bytes=1_000, last_tiered=49, pending_upload=50)
    told = signals_frame({1: {"remote_copy_lag_bytes": 400.0}})
    text = exposition(a_view(step(a_fleet(Partition(log=log)), [told], NOW_MS)[0]))
    assert value(text, "broker_upload_lag_bytes", broker=1, rack="az-a") == 500
    assert value(text, "metric_disagreement", broker=1, metric="upload_lag_bytes") == 100


def test_every_series_has_exactly_the_labels_of_the_table():
    for family in text_string_to_metric_families(exposition(a_full_view())):
        for sample in family.samples:
            assert set(sample.labels) == {"cluster", *BY_NAME[sample.name].labels}, sample.name


@pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"),
    reason="promtool is not on the PATH; it is in Debian's package prometheus",
)
def test_promtool_finds_nothing_to_say():
    for granularity in ("cluster", "topic", "partition"):
        text = exposition(a_busy_view(), granularity=granularity)
        judged = subprocess.run(
            ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=30,
            check=False,
        )  # fmt: skip
        assert (judged.returncode, judged.stdout, judged.stderr) == (0, b"", b"")


def test_the_numbers_are_the_fleets():
    text = exposition(a_busy_view())
    at = {"topic": "thin", "partition": 0}
    assert value(text, "partitions") == 3
    assert value(text, "partitions_offline") == 1
    assert value(text, "partition_leader", **at) == 4
    assert value(text, "partition_next_leader", rule="kafka", **at) == 5
    assert value(text, "partition_next_leader", rule="kip1303", **at) == 2
    loss = {"broker": 4, "rack": "az-a"}
    assert value(text, "broker_loss_partitions", rule="kafka", outcome="clean_thin", **loss) == 1
    assert value(text, "broker_loss_partitions", rule="kip1303", outcome="clean_warm", **loss) == 1
    replica = {"broker": 5, "rack": "az-b", **at}
    assert value(text, "replica_election_eligible", **replica) == 0
    assert value(text, "replica_local_log_bytes", **replica) == 10
    assert value(text, "replica_local_log_span_seconds", **replica) == 3_600
    assert value(text, "broker_thin_replicas", broker=5, rack="az-b") == 1


def test_no_leader_is_a_value_and_what_is_unknown_is_left_out():
    text = exposition(a_busy_view())
    at = {"topic": "lost", "partition": 0}
    assert value(text, "partition_leader", **at) == -1
    assert value(text, "partition_log_end_offset", **at) is None
    assert value(text, "partition_last_tiered_offset", topic="warm", partition=0) == 5
    assert value(text, "partition_last_tiered_offset", topic="thin", partition=0) is None
    assert not [line for line in text.splitlines() if line.endswith(" -1") and "leader" not in line]


def test_an_event_told_twice_is_counted_once():
    text = exposition(a_busy_view())
    assert value(text, "observations_refused_total", reason="bytes") == 1
    assert value(text, "snapshots_refused_total", reason="bytes") == 1


def test_losing_a_broker_counts_partitions_it_would_leave_under_min_isr():
    fleet = a_fleet(Partition(replicas=(1, 2)), Partition("u", replicas=(1, 2, 3)),
                    min_insync_replicas=2)  # fmt: skip
    text = exposition(a_view(fleet))
    counts = [
        value(text, "broker_loss_under_min_isr_partitions", broker=b, rack=r)
        for b, r in ((1, "az-a"), (3, "az-c"))
    ]
    assert counts == [1, 0]


def test_a_topic_that_is_deleted_takes_its_series_along():
    fleet = a_fleet(Partition("a"), Partition("b"))
    view = a_view(fleet)
    assert 'topic="a"' in exposition(view)
    later = NOW_MS + 5_000
    after, _ = step(fleet, [partitions_frame([Partition("b")], later)], later)
    view.take_snapshot(b"c/0", fleets.encode(after))
    view.publish()
    assert 'topic="a"' not in exposition(view)


@pytest.mark.parametrize("granularity", ["cluster", "topic"])
def test_a_partition_at_risk_is_served_at_any_granularity(granularity):
    text = exposition(a_busy_view(), granularity=granularity)
    assert value(text, "partition_leader", topic="lost", partition=0) == -1
    assert value(text, "partition_leader", topic="warm", partition=0) is None


def test_a_partition_at_risk_is_served_beyond_the_cap_and_what_is_left_out_is_counted():
    text = exposition(a_busy_view(), max_series=0)
    assert (
        value(text, "partition_at_risk", topic="lost", partition=0, risk="offline", severity="page")
        == 1
    )
    assert value(text, "partition_leader", topic="warm", partition=0) is None
    assert value(text, "series_dropped_total") == 24 + 13 * 3


def test_the_cap_holds():
    shard = SimulatedShard(Shape(topics=2, partitions=50, cold_share=0), cluster="c")
    fleet, _ = step(fleets.empty("c", 0, 1), shard.observe(NOW_MS), NOW_MS)
    text = exposition(a_view(fleet), max_series=1_000)
    lines = [x for x in text.splitlines() if 'partition="' in x]
    assert 500 < len(lines) <= 1_000


def test_it_is_up_only_while_every_shard_is_fresh():
    one, two = (step(fleets.empty("c", s, 2), [], NOW_MS)[0] for s in (0, 1))
    frame = partitions_frame([Partition()], shard=0, shards=2)
    one, _ = step(one, [frame], NOW_MS)
    view = a_view(one)
    assert "1 of 2 shards" in view.picture.why_not_up(NOW_MS)
    two, _ = step(two, [partitions_frame([Partition()], shard=1, shards=2)], NOW_MS)
    view.take_snapshot(b"c/1", fleets.encode(two))
    picture = view.publish()
    assert picture.why_not_up(NOW_MS) == ""
    assert "s old" in picture.why_not_up(NOW_MS + STALE_AFTER_MS + 1)
    assert value(at_scrape("c", picture, NOW_MS + 7_000).decode(), "observation_age_seconds") == 7


def test_it_is_not_up_while_a_clock_that_was_ahead_keeps_newer_observations_out():
    picture = a_view(a_fleet()).picture
    assert picture.why_not_up(NOW_MS - STALE_AFTER_MS) == ""
    assert "60 s ahead" in picture.why_not_up(NOW_MS - STALE_AFTER_MS - 1)


def test_a_snapshot_of_another_number_of_shards_is_refused():
    view = View("c", 4)
    view.take_snapshot(b"c/0", fleets.encode(a_fleet()))
    assert view.publish().snapshots_refused == {"shards": 1}


def test_an_older_snapshot_never_replaces_a_newer_one():
    new = a_fleet(at_ms=NOW_MS + 1)
    view = a_view(new)
    view.take_snapshot(b"c/0", fleets.encode(a_fleet(at_ms=NOW_MS)))
    assert view.publish().observed_at_ms == NOW_MS + 1


# ---------------------------------------------------------------- over HTTP


def a_client(view: View) -> TestClient:
    rendered = Renderer("c", Exporter()).render(view.picture)
    return TestClient(application("c", lambda: rendered, lambda: NOW_MS + 1_000))


def test_metrics_come_plain_or_zipped():
    client = a_client(a_busy_view())
    plain = client.get("/metrics", headers={"accept-encoding": "identity"})
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    with client.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as zipped:
        assert gzip.decompress(b"".join(zipped.iter_raw())) == plain.content


def test_health_says_why_not():
    assert a_client(a_busy_view()).get("/healthz").status_code == 200
    empty = a_client(View("c", 2)).get("/healthz")
    assert (empty.status_code, empty.text) == (503, "no snapshot has been read yet\n")


def test_the_api_tells_unknown_as_null_and_how_old_a_fact_is():
    client = a_client(a_busy_view())
    told = client.get("/api/v1/partitions", params={"at_risk": "true"}).json()
    assert told["total"] == 2
    told = client.get("/api/v1/partitions", params={"risk": "offline", "at_risk": "true"}).json()
    assert [p["topic"] for p in told["partitions"]] == ["lost"]
    thin = client.get("/api/v1/partitions/thin/0").json()
    assert thin["if_leader_lost"]["kafka"] == {"leader": 5, "outcome": "clean_thin"}
    assert thin["risks"] == ["next_leader_thin"]
    assert thin["replicas"][1]["coverage"] == "thin"
    assert thin["replicas"][0]["last_tiered_offset"] is None
    assert thin["age_seconds"] == 1.0
    assert client.get("/api/v1/partitions/nobody/0").status_code == 404


def test_a_wrong_question_gets_one_clear_line():
    client = a_client(a_busy_view())
    for asked, why in (
        ({"broker": "x"}, "broker: 'x' is not a number"),
        ({"offset": "²"}, "offset: '²' is not a number"),
        ({"limit": "-1"}, "limit: '-1' is not a number"),
        ({"at_risk": "maybe"}, "at_risk: 'maybe' is neither true nor false"),
        ({"colour": "red"}, "colour: there is no such parameter"),
        ({"limit": "100000"}, "limit: at most 1000"),
        ({"risk": "rain"}, f"risk: 'rain' is none of {', '.join(RISKS)}"),
        ([("broker", "1"), ("broker", "2")], "broker: it is given twice"),
    ):
        answer = client.get("/api/v1/partitions", params=asked)
        assert (answer.status_code, answer.json()) == (400, {"error": why})


def test_the_worst_of_those_at_risk_come_first_on_every_page():
    told = [Partition("t", n, isr=(1, 2)) for n in range(3)]  # at min ISR
    lost = Partition("t", 3, leader=-1, isr=())
    first = a_fleet(*told, min_insync_replicas=2)
    frame = partitions_frame([replace(p, topic="u") for p in (*told, lost)], shard=1, shards=2)
    config = configs_frame(min_insync_replicas=2)
    config = replace(config, stamp=replace(config.stamp, shard=1, shards=2))
    second, _ = step(fleets.empty("c", 1, 2), [config, frame], NOW_MS)
    client = a_client(a_view(replace(first, shards=2), second))
    pages = [
        client.get("/api/v1/partitions", params={"at_risk": "true", "limit": 1, "offset": n}).json()
        for n in range(8)
    ]
    assert {page["total"] for page in pages} == {7}
    names = [f"{p['topic']}-{p['partition']}" for page in pages for p in page["partitions"]]
    assert names == ["u-3", "t-0", "t-1", "t-2", "u-0", "u-1", "u-2"]


def test_paging_reaches_every_partition_once():
    shard = SimulatedShard(Shape(topics=3, partitions=10), cluster="c")
    fleet, _ = step(fleets.empty("c", 0, 1), shard.observe(NOW_MS), NOW_MS)
    client = a_client(a_view(fleet))
    seen = [
        (p["topic"], p["partition"])
        for offset in range(0, 30, 7)
        for p in client.get("/api/v1/partitions", params={"limit": 7, "offset": offset}).json()[
            "partitions"
        ]
    ]
    assert len(seen) == len(set(seen)) == 30


def test_brokers_tell_what_losing_them_would_do():
    told = a_client(a_busy_view()).get("/api/v1/brokers").json()["brokers"]
    four = next(b for b in told if b["broker"] == 4)
    assert four["loss"]["kafka"]["clean_thin"] == four["loss"]["kip1303"]["clean_warm"] == 1


def test_before_the_first_snapshot_the_api_knows_nothing_and_says_so():
    client = a_client(View("c", 2))
    told = client.get("/api/v1/summary").json()
    assert (told["up"], told["partitions"], told["observed_at_ms"]) == (False, None, None)
    assert client.get("/api/v1/partitions").json() == {"total": 0, "partitions": []}
    assert client.get("/api/v1/brokers").json() == {"brokers": []}
    assert "kafka_twin_partitions" not in client.get("/metrics").text


def test_the_page_is_served():
    page = a_client(a_busy_view()).get("/")
    assert "If this broker went now" in page.text


def test_a_scrape_of_twenty_thousand_partitions_takes_less_than_a_second_of_work():
    shard = SimulatedShard(Shape(topics=20, partitions=1_000, brokers=30), cluster="c")
    fleet, _ = step(fleets.empty("c", 0, 1), shard.observe(NOW_MS), NOW_MS)
    rendered = Renderer("c", Exporter(max_series=10**7)).render(a_view(fleet).picture)
    client = TestClient(application("c", lambda: rendered, lambda: NOW_MS))
    for encoding in ("identity", "gzip"):
        # CPU time: other work on the machine says nothing of ours, nor does unpacking, which is the
        # scraper's. The bench prints seconds.
        began = time.process_time()
        asked = {"accept-encoding": encoding}
        with client.stream("GET", "/metrics", headers=asked) as answer:
            sent = b"".join(answer.iter_raw())
        assert time.process_time() - began < 1.0
        body = gzip.decompress(sent) if encoding == "gzip" else sent
        assert body.count(b"\n") > 20_000 * 35


def test_memory_stays_flat_over_200_scrapes_of_a_picture_that_changes():
    """Each scrape follows a new cycle, as in life; shares of both encodings."""
    shard = SimulatedShard(Shape(topics=4, partitions=10), 3)
    fleet, view, renderer = fleets.empty("sim", 0, 1), View("sim", 1), Renderer("sim", Exporter())
    kept: list[int] = []
    tracemalloc.start()
    try:
        for scrape in range(200):
            at_ms = NOW_MS + scrape * 5_000
            shard.traffic(5_000)
            fleet, _ = step(fleet, shard.observe(at_ms), at_ms)
            view.take_snapshot(b"sim/0", fleets.encode(fleet))
            blocks = renderer.render(view.publish()).blocks
            assert gzip.decompress(zipped(blocks)) == b"".join(blocks)
            del blocks
            if scrape % 20 == 19:
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # One picture that is not given back is 15 kB of arrays and 60 kB of text.
    assert kept[-1] - kept[2] < 1_000_000, kept
