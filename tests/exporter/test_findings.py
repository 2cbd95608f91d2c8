"""What the API tells of single partitions beyond samples: joins, reads, KIP-501."""

from typing import Any

import numpy as np
import pytest

from streaming.exporter.partitions import partition_rows
from tests.builders import NOW_MS, Fetch, Log, Partition, a_fleet, fetches_frame
from twin.fleet import Fleet
from twin.step import step
from twin.tables import PendingUpload

TIERED = {"t": {"remote_storage": 1, "compacted": 0}}
WARM = Log(end=1_000, local_start=0, size_bytes=1_000_000)
COLD = Log(end=1_000, local_start=900, size_bytes=100_000, pending_upload=950, last_tiered=949,
           reason=PendingUpload.KNOWN)  # fmt: skip


def of(fleet: Fleet) -> dict[str, Any]:
    [told] = partition_rows(fleet, np.array([0]), NOW_MS)
    return told


def test_an_empty_follower_is_told_what_kip1023_saves_and_how_long_it_copies():
    told = of(a_fleet(Partition(log=COLD), topics=TIERED, last_tiered_fetch=1))["empty_follower"]
    assert told["kip1023_on"]["records"] == 50
    assert told["kip1023_off"]["records"] == 100
    assert told["kip1023_saves_share"] == 0.5
    assert told["kip1023_off"]["bytes_estimated"] == 100_000
    assert told["kip1023_off"]["seconds_at_50_mib_a_second"] == pytest.approx(100_000 / (50 << 20))


def test_what_is_unknown_saves_nothing_that_anybody_knows():
    told = of(a_fleet(Partition(silent=(1,))))["empty_follower"]
    assert told["kip1023_saves_share"] is None
    assert told["kip1023_on"]["seconds_at_50_mib_a_second"] is None


def test_each_rack_is_told_whom_its_consumers_are_sent_to():
    """Broker 1 leads in az-a; 2 in az-b has little on disk, 3 in az-c all of it."""
    told = of(a_fleet(Partition(logs={1: WARM, 2: COLD, 3: WARM}), topics=TIERED))["read_replicas"]
    names = ("newest", "oldest_on_disk", "oldest_on_disk_tier_aware")
    sent_to = {rack: tuple(of[name] for name in names) for rack, of in told.items()}
    assert sent_to == {"az-a": (1, 1, 1), "az-b": (2, 2, 1), "az-c": (3, 3, 3)}
    assert of(a_fleet(Partition(silent=(1, 2, 3))))["read_replicas"] == {}


def test_in_sync_three_ways_side_by_side():
    """The leader took 59 s over a fetch of all there was; Kafka counts from before it."""
    fleet = a_fleet(Partition(logs={1: Log(end=200)}))
    assert of(fleet)["kip501"] == {"hands_over_to": None, "hands_over_to_thin": None}
    slow = [Fetch(NOW_MS - 61_000), Fetch(NOW_MS - 60_000, leader_end=150, took_ms=59_000)]
    told = of(step(fleet, [fetches_frame(slow)], NOW_MS)[0])
    ways = [(r["broker"], r["in_sync"], r["in_sync_kip501"]) for r in told["replicas"]]
    assert ways == [(1, True, True), (2, False, True), (3, None, None)]
    assert told["kip501"]["hands_over_to"] == 2
