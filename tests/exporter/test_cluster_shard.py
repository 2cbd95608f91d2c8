"""The cluster's own shard on the bus: it is no shard of partitions, and its findings are served."""

from __future__ import annotations

from functools import cache

from streaming.bus import record
from streaming.bus.view import SnapshotStore
from streaming.exporter.metrics.exposition import Renderer
from streaming.exporter.views import cluster as cluster_views
from streaming.runtime.config import ExporterConfig
from tests.scope import played, reported
from tests.twin.test_cluster_rules import CYCLE, NOW_MS, TOPICS, WHOLE, cycles, stepped
from twin.engine import codec
from twin.engine.frames import Frame
from twin.engine.shard_reports import CLUSTER

SHARDS = 4


@cache
def reports() -> list[list[Frame]]:
    return reported(WHOLE, list(cycles()), SHARDS, TOPICS)


def a_store(cycle: int = 5, of_cluster: int = 5) -> SnapshotStore:
    """The shards after some cycles, and the cluster's own after others."""
    store = SnapshotStore(WHOLE, "sim", SHARDS)
    for shard in range(SHARDS):
        mine = frozenset(TOPICS[shard::SHARDS])
        state = played(WHOLE, list(cycles())[: cycle + 1], shard, SHARDS, mine)
        assert store.take_snapshot(record.key("sim", shard), codec.encode(state))
    own, _ = stepped(reports()[: of_cluster + 1], SHARDS)
    assert store.take_snapshot(record.key("sim", CLUSTER), codec.encode(own))
    return store


def test_the_cluster_s_own_shard_is_no_shard_of_partitions():
    view = a_store().publish()
    assert [shard.state.shard for shard in view.shards] == [*range(SHARDS)]
    assert view.why_not_up(view.observed_at_ms) == ""
    assert view.cluster is not None
    assert view.observed_at_ms == NOW_MS + 5 * CYCLE


def test_its_metrics_and_risks_are_served():
    view = a_store().publish()
    assert view.totals.value("kafka_twin_led") == 50
    text = b"".join(Renderer(WHOLE, "sim", ExporterConfig()).render(view).blocks).decode()
    assert 'kafka_twin_brokers_at_risk{cluster="sim",risk="leads_much",severity="warn"} ' in text
    summary = cluster_views.summary(WHOLE, "sim", view, NOW_MS)
    assert summary["shards_not_reported"] == 0
    assert summary["led"] == 50
    assert summary["cluster_risks"]["leaderless"] == {
        "open": False, "brokers": None, "severity": "warn", "meaning": "it is leaderless"
    }  # fmt: skip
    at_risk = summary["cluster_risks"]["leads_much"]["brokers"]
    assert at_risk
    brokers = cluster_views.brokers(view, NOW_MS)["brokers"]
    assert {b["broker"]: b["risks"] for b in brokers} == {
        b: ["leads_much"] if b in at_risk else [] for b in range(1, 6)
    }
    assert all(b["leads"] > 0 for b in brokers if b["broker"] in at_risk)


def test_its_findings_are_unknown_before_it_has_a_snapshot_and_once_that_is_a_minute_behind():
    def is_known(store: SnapshotStore) -> bool:
        view = store.publish()
        summary = cluster_views.summary(WHOLE, "sim", view, NOW_MS)
        [*risks] = {b["risks"] is None for b in cluster_views.brokers(view, NOW_MS)["brokers"]}
        is_null = summary["cluster_risks"]["leaderless"]["open"] is None
        assert is_null is (summary["led"] is None) is (summary["shards_not_reported"] is None)
        assert risks == [is_null]
        return not is_null

    assert is_known(a_store(of_cluster=3))
    store = a_store()
    for late_ms, known in ((60_000, True), (60_001, False)):
        late = played(WHOLE, list(cycles(count=1, at_ms=NOW_MS + 5 * CYCLE + late_ms)), 0, SHARDS,
                      frozenset(TOPICS[::SHARDS]))  # fmt: skip
        assert store.take_snapshot(record.key("sim", 0), codec.encode(late))
        assert is_known(store) is known
    empty = SnapshotStore(WHOLE, "sim", SHARDS)
    empty.take_snapshot(record.key("sim", 0), codec.encode(late))
    assert not is_known(empty)


def test_a_snapshot_of_it_for_another_number_of_shards_or_under_another_key_is_refused():
    own, _ = stepped(reports(), SHARDS)
    other = SnapshotStore(WHOLE, "sim", 25)
    assert not other.take_snapshot(record.key("sim", CLUSTER), codec.encode(own))
    assert other.publish().snapshots_refused == {"shards": 1}
    store = SnapshotStore(WHOLE, "sim", SHARDS)
    assert not store.take_snapshot(b"sim/0", codec.encode(own))
    assert store.publish().cluster is None
