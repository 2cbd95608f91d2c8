"""Where a consumer is sent (brokers 1..5 are in az-a, az-b, az-c, az-a, az-b)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_fleet
from twin.fleet import Fleet
from twin.rules.risks import Risk
from twin.rules.selection import (
    cold_reads,
    high_watermark,
    out_of_range,
    preferred_read_replica,
    windows,
)
from twin.tables import NO_BROKER, UNKNOWN, OutOfRange

TIERED = {"t": {"remote_storage": 1}}
WARM, COLD = Log(end=1_000, local_start=100), Log(end=1_000, local_start=900)


def read(part: Partition, rack: str, offset: int, *, tier_aware: bool = False) -> int:
    fleet = a_fleet(part, topics=TIERED)
    asked = np.array([offset])
    return int(preferred_read_replica(fleet, rack, asked, NOW_MS, tier_aware=tier_aware)[0])


class TestPreferredReadReplica:
    def test_a_follower_in_the_rack_of_the_consumer_serves(self):
        assert read(Partition(), "az-b", 50) == 2

    def test_the_leader_serves_its_own_rack_and_racks_nobody_is_in(self):
        assert read(Partition(replicas=(1, 4, 2)), "az-a", 50) == 1
        assert read(Partition(replicas=(1, 2)), "az-c", 50) == 1
        assert read(Partition(), "elsewhere", 50) == 1

    def test_of_two_in_the_rack_the_one_with_more_serves_and_else_the_higher_id(self):
        assert read(Partition(replicas=(1, 2, 5), logs={2: Log(end=101)}), "az-b", 50) == 2
        assert read(Partition(replicas=(1, 2, 5)), "az-b", 50) == 5

    @pytest.mark.parametrize(
        ("isr", "log", "offset"),
        [
            ((1, 3), Log(), 50),  # out of the ISR
            ((1, 2), Log(end=40), 50),  # does not have it yet
            ((1, 2), Log(start=60), 50),  # does not have it any more
            ((1, 2), Log(end=UNKNOWN), 50),  # nobody knows
        ],
    )
    def test_who_cannot_have_the_offset_is_no_candidate(self, isr, log, offset):
        assert read(Partition(isr=isr, logs={2: log}), "az-b", offset) == 1

    def test_without_a_leader_nobody_serves(self):
        assert read(Partition(leader=-1), "az-b", 50) == NO_BROKER

    def test_a_cold_follower_is_chosen_by_kafka_and_comes_last_when_tiers_count(self):
        part = Partition(logs={2: COLD}, log=WARM)
        assert read(part, "az-b", 500) == 2
        assert read(part, "az-b", 500, tier_aware=True) == 1
        assert read(part, "az-b", 950, tier_aware=True) == 2

    def test_where_only_a_follower_elsewhere_is_warm_it_serves(self):
        part = Partition(logs={3: WARM}, log=COLD)
        assert read(part, "az-b", 500, tier_aware=True) == 3

    def test_where_nobody_is_warm_the_choice_is_kafkas(self):
        assert read(Partition(log=COLD), "az-b", 500, tier_aware=True) == 2


def cold(part: Partition, **config) -> tuple[int, int, int]:
    fleet = a_fleet(part, topics=config.get("topics", TIERED))
    found = cold_reads(fleet, NOW_MS)
    return int(found.start_offset[0]), int(found.end_offset[0]), int(found.broker[0])


class TestColdReads:
    def test_the_window_ends_where_the_chosen_replica_has_it_on_disk(self):
        assert cold(Partition(logs={2: COLD}, log=WARM)) == (100, 900, 2)

    def test_the_widest_window_over_the_racks_is_told(self):
        colder = Log(end=1_000, local_start=950)
        assert cold(Partition(logs={2: COLD, 3: colder}, log=WARM)) == (100, 950, 3)

    def test_what_is_below_a_log_start_is_no_part_of_it(self):
        late_start = Log(end=1_000, start=200, local_start=900)
        assert cold(Partition(logs={2: late_start}, log=WARM)) == (200, 900, 2)

    @pytest.mark.parametrize(
        "part",
        [
            Partition(log=COLD),  # all alike
            Partition(isr=(1, 3), logs={2: COLD}, log=WARM),  # cold, and nobody is sent there
            Partition(leader=-1, logs={2: COLD}, log=WARM),
        ],
    )
    def test_there_is_none(self, part):
        assert cold(part) == (UNKNOWN, UNKNOWN, NO_BROKER)

    def test_a_cold_leader_that_consumers_stay_with_counts_as_well(self):
        part = Partition(replicas=(1, 4), logs={1: COLD}, log=WARM)
        assert cold(part) == (100, 900, 1)

    def test_only_tiered_topics_read_from_remote_storage(self):
        part = Partition(logs={2: COLD}, log=WARM)
        assert cold(part, topics={"t": {"remote_storage": 0}}) == (UNKNOWN, UNKNOWN, NO_BROKER)

    def test_it_is_a_column_of_the_fleet(self):
        fleet = a_fleet(Partition(logs={2: COLD}, log=WARM), topics=TIERED)
        assert fleet.cold_read_records.tolist() == [800]
        assert fleet.risks_seen[0] & Risk.COLD_READ_REPLICA

    @given(
        local=st.lists(st.integers(0, 100), min_size=3, max_size=3),
        start=st.lists(st.integers(0, 20), min_size=3, max_size=3),
        end=st.lists(st.integers(100, 110), min_size=3, max_size=3),
    )
    def test_inside_the_window_a_consumer_is_sent_to_a_cold_replica_for_no_need(
        self, local, start, end
    ):
        logs = {
            b: Log(end=end[b - 1], start=start[b - 1], local_start=max(local[b - 1], start[b - 1]))
            for b in (1, 2, 3)
        }
        fleet = a_fleet(Partition(logs=logs), topics=TIERED)
        found = cold_reads(fleet, NOW_MS)
        for offset in range(int(found.start_offset[0]), int(found.end_offset[0])):
            sent = sent_cold(fleet, offset)
            assert int(found.broker[0]) in sent
        if found.broker[0] == NO_BROKER:
            common = range(max(start), min(end))
            assert not any(sent_cold(fleet, offset) for offset in common)


def sent_cold(fleet: Fleet, offset: int) -> list[int]:
    """Cold brokers that consumers of some rack are sent to though a warm one could serve."""
    asked = np.array([offset])
    found = []
    for rack in ("az-a", "az-b", "az-c"):
        stock, aware = (
            int(preferred_read_replica(fleet, rack, asked, NOW_MS, tier_aware=tiers)[0])
            for tiers in (False, True)
        )
        local = dict(zip(fleet.broker[0].tolist(), fleet.local_log_start_offset[0].tolist(),
                         strict=True))  # fmt: skip
        if local[stock] > offset >= local[aware]:
            found.append(stock)
    return found


class TestWindows:
    def window(self, part: Partition, case: OutOfRange, broker: int = 2) -> tuple[int, int]:
        fleet = a_fleet(part)
        lower, upper = windows(fleet)[case]
        slot = fleet.broker[0].tolist().index(broker)
        assert bool(out_of_range(fleet)[0, slot] & case) == (upper[0, slot] > lower[0, slot])
        return int(lower[0, slot]), int(upper[0, slot])

    def test_the_high_watermark_is_estimated_by_the_lowest_log_end_of_the_isr(self):
        part = Partition(logs={2: Log(end=90), 3: Log(end=80)}, isr=(1, 2))
        assert high_watermark(a_fleet(part)).tolist() == [90]

    def test_records_that_are_not_committed_yet(self):
        part = Partition(logs={2: Log(end=100), 3: Log(end=90)})
        assert self.window(part, OutOfRange.UNCOMMITTED) == (90, 100)

    def test_committed_records_that_an_out_of_sync_replica_does_not_have(self):
        part = Partition(logs={2: Log(end=60)}, isr=(1, 3))
        assert self.window(part, OutOfRange.UNAVAILABLE) == (60, 100)

    def test_a_log_start_above_the_leaders(self):
        assert self.window(Partition(logs={2: Log(start=7)}), OutOfRange.TOO_SMALL) == (0, 7)

    def test_beyond_the_log_end_and_not_committed(self):
        part = Partition(logs={2: Log(end=60), 3: Log(end=90)}, isr=(1, 3))
        assert self.window(part, OutOfRange.TOO_LARGE) == (90, 100)

    def test_the_leader_offline_replicas_and_unknown_offsets_have_none(self):
        lagging = Partition(logs={2: Log(end=60)}, isr=(1, 3), offline=(2,))
        assert self.window(lagging, OutOfRange.UNAVAILABLE) == (0, 0)
        assert self.window(Partition(logs={2: Log(start=7)}), OutOfRange.TOO_SMALL, 1) == (0, 0)
        unknown = Partition(logs={2: Log(end=UNKNOWN)}, isr=(1, 3))
        assert self.window(unknown, OutOfRange.UNAVAILABLE) == (0, 0)

    def test_only_windows_of_committed_records_are_a_risk(self):
        in_flight = a_fleet(Partition(logs={2: Log(end=101)}, log=Log(end=100)))
        assert not in_flight.risks_seen[0] & Risk.OUT_OF_RANGE_WINDOW
        lagging = a_fleet(Partition(logs={2: Log(end=60)}, isr=(1, 3)))
        assert lagging.risks_seen[0] & Risk.OUT_OF_RANGE_WINDOW
