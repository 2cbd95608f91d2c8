"""What the API shows of single partitions beyond samples: bootstrap, reads, KIP-501."""

from typing import Any

import numpy as np
import pytest

from streaming.exporter.api_views import partition_objects
from tests.builders import NOW_MS, Fetch, Log, Partition, a_state, fetches_frame
from twin.state import ShardState
from twin.step import step
from twin.tables.enums import PendingUpload

TIERED = {"t": {"remote_storage": 1, "compacted": 0}}
WARM = Log(end=1_000, local_start=0, size_bytes=1_000_000)
COLD = Log(end=1_000, local_start=900, size_bytes=100_000, pending_upload=950, last_tiered=949,
           reason=PendingUpload.KNOWN)  # fmt: skip


def shown(state: ShardState) -> dict[str, Any]:
    """The object of the only partition."""
    [found] = partition_objects(state, np.array([0]), NOW_MS)
    return found


def test_an_empty_follower_shows_what_kip1023_saves_and_how_long_it_copies():
    found = shown(a_state(Partition(log=COLD), topics=TIERED, last_tiered_fetch=1))["bootstrap"]
    assert found["kip1023_on"]["records"] == 50
    assert found["kip1023_off"]["records"] == 100
    assert found["saved_share"] == 0.5
    assert found["kip1023_off"]["bytes_estimate"] == 100_000
    assert found["kip1023_off"]["seconds_at_50_mib_per_s"] == pytest.approx(100_000 / (50 << 20))


def test_what_is_unknown_saves_nothing_that_anybody_knows():
    found = shown(a_state(Partition(silent=(1,))))["bootstrap"]
    assert found["saved_share"] is None
    assert found["kip1023_on"]["seconds_at_50_mib_per_s"] is None


def test_each_rack_shows_where_its_consumers_are_sent():
    """Broker 1 leads in az-a; 2 in az-b has little on disk, 3 in az-c all of it."""
    state = a_state(Partition(logs={1: WARM, 2: COLD, 3: WARM}), topics=TIERED)
    offsets = ("newest", "oldest_on_disk", "oldest_on_disk_tier_aware")
    sent_to = {
        rack: tuple(brokers[name] for name in offsets)
        for rack, brokers in shown(state)["read_replicas"].items()
    }
    assert sent_to == {"az-a": (1, 1, 1), "az-b": (2, 2, 1), "az-c": (3, 3, 3)}
    assert shown(a_state(Partition(silent=(1, 2, 3))))["read_replicas"] == {}


def test_in_sync_three_ways_side_by_side():
    """The leader took 59 s over a fetch of all there was; Kafka counts from before it."""
    state = a_state(Partition(logs={1: Log(end=200)}))
    assert shown(state)["next_leader_kip501"] == {"leader": None, "is_cold": None}
    slow = [Fetch(NOW_MS - 61_000), Fetch(NOW_MS - 60_000, leader_end=150, took_ms=59_000)]
    found = shown(step(state, [fetches_frame(slow)], NOW_MS)[0])
    ways = [(r["broker"], r["in_sync"], r["in_sync_kip501"]) for r in found["replicas"]]
    assert ways == [(1, True, True), (2, False, True), (3, None, None)]
    assert found["next_leader_kip501"]["leader"] == 2
