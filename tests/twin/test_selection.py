"""Where a consumer is sent (brokers 1..5 are in az-a, az-b, az-c, az-a, az-b)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, epoch_ends_frame
from tests.examples import examples
from tests.reading import computed, conditions
from twin.declarations.signature import parameters
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.brokers.racks import rack_names
from twin.rules.partitions.leaders import Leaders, Roles
from twin.rules.reading.cold_reads import ColdReads, ReadsCold
from twin.rules.reading.out_of_range import LogOffsets, OutOfRange, OutOfRangeWindows, windows
from twin.rules.reading.selection import (
    LeaderSelectors,
    SelectorViews,
    candidates_at,
    is_warm_at,
    read_replicas,
    replica_views,
    select,
    select_warm,
)
from twin.rules.replication.high_watermark import HighWatermarks
from twin.step import step
from twin.tables.enums import ReplicaSelector
from twin.tables.state import Assignment, Brokers, Replicas

TIERED = {"t": {"remote_storage": 1}}
WARM, COLD = Log(end=1_000, local_start=100), Log(end=1_000, local_start=900)


def read(part: Partition, rack: str, offset: int, *, tier_aware: bool = False) -> int:
    return sent_to(a_state(part, topics=TIERED), rack, offset, tier_aware=tier_aware)


def sent_to(state: ShardState, rack: str, offset: int, *, tier_aware: bool) -> int:
    """The broker to which a consumer of that rack is sent for that offset."""
    names, offsets = rack_names(state[Brokers]), np.array([offset])
    place = names.index(rack) if rack in names else UNKNOWN
    replicas, roles = state[Replicas], state[Roles]
    views = replica_views(state[Assignment], replicas, roles, state[SelectorViews])
    candidates = candidates_at(offsets, replicas, roles)
    if tier_aware:
        return int(select_warm(views, candidates, is_warm_at(offsets, replicas), place)[0])
    return int(select(views, candidates, place)[0])


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
            ((1, 2), Log(end=UNKNOWN), 50),  # its log end is unknown
        ],
    )
    def test_a_replica_that_cannot_have_the_offset_is_no_candidate(self, isr, log, offset):
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


def cold(part: Partition, **config) -> list[tuple[int, int, int]]:
    """Start, end and broker of each window: at most one a partition."""
    reads = a_state(part, topics=config.get("topics", TIERED))[ColdReads]
    columns = reads.start_offset, reads.end_offset, reads.broker
    return list(zip(*(column.tolist() for column in columns), strict=True))


class TestReplicaSelector:
    """Without a selector nobody is sent anywhere; what a custom class does is unknown."""

    PART = Partition(logs={2: COLD}, log=WARM)

    def state(self, selector: int) -> ShardState:
        return a_state(self.PART, topics=TIERED, selector=selector)

    @pytest.mark.parametrize(
        ("selector", "reads_cold", "windows"),
        [
            (ReplicaSelector.RACK_AWARE, 1, 1),
            (ReplicaSelector.LEADER, 0, 0),
            (ReplicaSelector.CUSTOM, UNKNOWN, 0),
            (UNKNOWN, UNKNOWN, 0),
        ],
    )
    def test_cold_reads_are_judged_under_rack_aware_selection_alone(
        self, selector, reads_cold, windows
    ):
        state = self.state(selector)
        assert state[ReadsCold].reads_cold.tolist() == [reads_cold]
        assert len(state[ColdReads]) == windows
        assert ("cold_read_replica" in conditions(state)) is bool(windows)
        unknown = computed(state, "kafka_twin_partitions_cold_read_unknown")
        assert unknown == int(reads_cold == UNKNOWN)

    def test_the_selector_of_the_leader_decides(self):
        state = self.state(ReplicaSelector.CUSTOM)
        brokers = state[Brokers]
        of_leader = np.where(brokers.broker == 1, ReplicaSelector.LEADER, brokers.replica_selector)
        state = state.with_tables(replace(brokers, replica_selector=of_leader))
        assert state[LeaderSelectors].replica_selector.tolist() == [ReplicaSelector.LEADER]
        counts = computed(state, "kafka_twin_partitions_by_replica_selector")
        assert {key[0]: n for key, n in counts.items() if n} == {"leader": 1}

    def test_a_partition_without_a_leader_has_no_selector(self):
        state = a_state(Partition(leader=-1), topics=TIERED)
        assert state[LeaderSelectors].replica_selector.tolist() == [UNKNOWN]
        assert state[ReadsCold].reads_cold.tolist() == [UNKNOWN]

    def test_a_topic_that_is_not_tiered_reads_nothing_from_remote_storage(self):
        for selector, expected in ((ReplicaSelector.CUSTOM, 0), (UNKNOWN, UNKNOWN)):
            state = a_state(self.PART, topics={"t": {"remote_storage": 0}}, selector=selector)
            assert state[ReadsCold].reads_cold.tolist() == [expected]

    @pytest.mark.parametrize(
        ("selector", "oldest"),
        [(ReplicaSelector.RACK_AWARE, 2), (ReplicaSelector.LEADER, 1), (UNKNOWN, None)],
    )
    def test_the_api_says_to_whom_consumers_of_a_rack_are_sent(self, selector, oldest):
        part = Partition(logs={2: Log(end=1_000, start=50, local_start=900)}, log=WARM)
        state = a_state(part, topics=TIERED, selector=selector)
        [sent] = read_replicas(
            state[Assignment], state[Replicas], state[Roles], state[SelectorViews],
            state[Leaders], state[HighWatermarks], state[Brokers], state[LeaderSelectors],
        )  # fmt: skip
        assert sent["az-b"]["oldest_on_disk"] == oldest
        assert sent["az-b"]["oldest_on_disk_tier_aware"] == 1
        assert sent[""]["newest"] == (None if selector == UNKNOWN else 1)


class TestColdReads:
    def test_without_racks_a_cold_leader_sends_everybody_to_remote_storage(self):
        part = Partition(logs={1: COLD}, log=WARM)
        state = a_state(part, topics=TIERED, has_racks=False)
        reads = state[ColdReads]
        window = [int(values[0]) for values in (reads.broker, reads.start_offset, reads.end_offset)]
        assert window == [1, 100, 900]
        assert "cold_read_replica" in conditions(state)

    def test_without_racks_nobody_is_sent_to_a_cold_follower(self):
        part = Partition(logs={2: COLD}, log=WARM)
        assert not len(a_state(part, topics=TIERED, has_racks=False)[ColdReads])

    def test_the_window_ends_where_the_chosen_replica_has_it_on_disk(self):
        assert cold(Partition(logs={2: COLD}, log=WARM)) == [(100, 900, 2)]

    def test_it_is_the_widest_window_over_the_racks(self):
        colder = Log(end=1_000, local_start=950)
        assert cold(Partition(logs={2: COLD, 3: colder}, log=WARM)) == [(100, 950, 3)]

    def test_what_is_below_a_log_start_is_no_part_of_it(self):
        late_start = Log(end=1_000, start=200, local_start=900)
        assert cold(Partition(logs={2: late_start}, log=WARM)) == [(200, 900, 2)]

    @pytest.mark.parametrize(
        "part",
        [
            Partition(log=COLD),  # all alike
            Partition(isr=(1, 3), logs={2: COLD}, log=WARM),  # cold, and nobody is sent there
            Partition(leader=-1, logs={2: COLD}, log=WARM),
        ],
    )
    def test_there_is_none(self, part):
        assert cold(part) == []

    def test_a_cold_leader_that_consumers_stay_with_counts_as_well(self):
        part = Partition(replicas=(1, 4), logs={1: COLD}, log=WARM)
        assert cold(part) == [(100, 900, 1)]

    def test_only_tiered_topics_read_from_remote_storage(self):
        part = Partition(logs={2: COLD}, log=WARM)
        assert cold(part, topics={"t": {"remote_storage": 0}}) == []

    def test_its_records_are_counted_and_are_a_risk(self):
        state = a_state(Partition(logs={2: COLD}, log=WARM), topics=TIERED)
        counted = computed(state, "kafka_twin_partition_cold_read_records")
        assert (counted.row.tolist(), counted.values.tolist()) == ([0], [800])
        assert "cold_read_replica" in conditions(state)

    @examples(100)
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
        state = a_state(Partition(logs=logs), topics=TIERED)
        reads = state[ColdReads]
        if not len(reads):
            common = range(max(start), min(end))
            assert not any(sent_cold(state, offset) for offset in common)
            return
        for offset in range(int(reads.start_offset[0]), int(reads.end_offset[0])):
            assert int(reads.broker[0]) in sent_cold(state, offset)


def sent_cold(state: ShardState, offset: int) -> list[int]:
    """Cold brokers that consumers of some rack are sent to though a warm one could serve."""
    brokers = state[Assignment].broker[0].tolist()
    local = dict(zip(brokers, state[Replicas].local_log_start_offset[0].tolist(), strict=True))
    cold_brokers = []
    for rack in ("az-a", "az-b", "az-c"):
        stock, aware = (sent_to(state, rack, offset, tier_aware=tiers) for tiers in (False, True))
        if local[stock] > offset >= local[aware]:
            cold_brokers.append(stock)
    return cold_brokers


class TestWindows:
    def window(self, part: Partition, case: OutOfRange, broker: int = 2) -> tuple[int, int]:
        state = a_state(part)
        tables = LogOffsets(**state.arguments(parameters(LogOffsets)))
        [window] = [bounds for each, *bounds in windows(tables) if each is case]
        lower, upper, holds = np.broadcast_arrays(*window)
        slot = state[Assignment].broker[0].tolist().index(broker)
        cases = state[OutOfRangeWindows].out_of_range[0, slot]
        assert bool(cases & case) == holds[0, slot]
        return (int(lower[0, slot]), int(upper[0, slot])) if holds[0, slot] else (0, 0)

    def test_the_high_watermark_is_estimated_by_the_lowest_log_end_of_the_isr(self):
        part = Partition(logs={2: Log(end=90), 3: Log(end=80)}, isr=(1, 2))
        assert a_state(part)[HighWatermarks].high_watermark.tolist() == [90]

    def test_records_that_are_not_committed_yet(self):
        part = Partition(logs={2: Log(end=100), 3: Log(end=90)})
        assert self.window(part, OutOfRange.UNCOMMITTED) == (90, 100)

    def test_committed_records_that_an_out_of_sync_replica_does_not_have(self):
        part = Partition(logs={2: Log(end=60)}, isr=(1, 3))
        assert self.window(part, OutOfRange.UNAVAILABLE) == (61, 101)

    def test_a_log_start_above_the_leaders(self):
        assert self.window(Partition(logs={2: Log(start=7)}), OutOfRange.TOO_SMALL) == (0, 7)

    def test_beyond_the_log_end_and_not_committed(self):
        part = Partition(logs={2: Log(end=60), 3: Log(end=90)}, isr=(1, 3))
        assert self.window(part, OutOfRange.TOO_LARGE) == (91, 101)

    def test_the_leader_offline_replicas_and_unknown_offsets_have_none(self):
        lagging = Partition(logs={2: Log(end=60)}, isr=(1, 3), offline=(2,))
        assert self.window(lagging, OutOfRange.UNAVAILABLE) == (0, 0)
        assert self.window(Partition(logs={2: Log(start=7)}), OutOfRange.TOO_SMALL, 1) == (0, 0)
        unknown = Partition(logs={2: Log(end=UNKNOWN)}, isr=(1, 3))
        assert self.window(unknown, OutOfRange.UNAVAILABLE) == (0, 0)

    def test_the_api_lists_follower_case_offsets_and_error(self):
        part = Partition(logs={2: Log(start=7, end=60), 3: Log(end=90)}, isr=(1, 3))
        state = a_state(part)
        [field] = [f for f in state.catalog.api_fields if f.name == "out_of_range_windows"]
        [listed] = state.call(field.values, field.reads)
        error = "OFFSET_OUT_OF_RANGE"
        assert [tuple(window.values()) for window in listed] == [
            (2, "unavailable", 61, 91, error),
            (2, "too_small", 0, 7, error),
            (2, "too_large", 91, 101, error),
            (3, "too_large", 91, 101, error),
        ]

    def test_an_unclean_election_leaves_no_window_for_what_it_lost(self):
        """Leader 1 had 500 records and was the ISR; 2 had 300, and leads once 1 is gone."""
        logs = {1: Log(end=500), 2: Log(end=300), 3: Log(end=300)}
        before = a_state(Partition(isr=(1,), logs=logs))
        assert "out_of_range_window" in conditions(before)
        gone = {"offline": (1,), "silent": (1,), "logs": logs}
        leaderless = Partition(isr=(1,), leader=-1, epoch=2, **gone)
        state = a_state(leaderless, at_ms=NOW_MS + 5_000, since=before)
        assert "out_of_range_window" not in conditions(state)
        elected = Partition(isr=(2,), leader=2, epoch=3, **gone)
        at_ms = NOW_MS + 10_000
        state = a_state(elected, at_ms=at_ms, since=state)
        state, _ = step(state, [epoch_ends_frame(elected, 1, 300, at_ms)], at_ms)
        assert "records_lost" in conditions(state)
        assert "out_of_range_window" not in conditions(state)

    @pytest.mark.parametrize(
        ("selector", "is_risk"),
        [
            (ReplicaSelector.LEADER, False),
            (ReplicaSelector.RACK_AWARE, True),
            (ReplicaSelector.CUSTOM, True),
            (UNKNOWN, True),
        ],
    )
    def test_a_window_is_a_risk_unless_all_consumers_read_from_the_leader(self, selector, is_risk):
        part = Partition(logs={2: Log(end=60)}, isr=(1, 3))
        state = a_state(part, selector=selector)
        assert ("out_of_range_window" in conditions(state)) == is_risk
        assert self.window(part, OutOfRange.UNAVAILABLE) == (61, 101)

    def test_only_windows_of_committed_records_are_a_risk(self):
        in_flight = a_state(Partition(logs={2: Log(end=101)}, log=Log(end=100)))
        assert "out_of_range_window" not in conditions(in_flight)
        lagging = a_state(Partition(logs={2: Log(end=60)}, isr=(1, 3)))
        assert "out_of_range_window" in conditions(lagging)
