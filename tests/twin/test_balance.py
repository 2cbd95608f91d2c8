"""The balance of leaders in KIP-1303's order (brokers 1..5 are in az-a, b, c, a, b)."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from tests.builders import NOW_MS, Log, Partition, a_state, replicas_frame
from tests.reading import computed
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.proposals.kip1303 import Kip1303Leadership, LeadershipFlags
from twin.rules.brokers.racks import is_out_of_rack
from twin.rules.election.balance import BalancedLeaders
from twin.rules.partitions.growth import IDLE_RECORDS_PER_S, Growth, RecordSizes
from twin.rules.partitions.topic_configs import TopicConfigs
from twin.rules.tiering.timestamps import SuspectTimestamps
from twin.rules.tiering.warm_up import NEVER, WarmUp, is_unreachable
from twin.step import step
from twin.tables.enums import NOT_SET, UNLIMITED
from twin.tables.state import Assignment, Brokers, Partitions

MIB = 1 << 20
LATER_MS = NOW_MS + 5_000
COLD, WARM = Log(local_start=1, size_bytes=1), Log(size_bytes=2 * MIB)
BY_BYTES = {"eligible_local_log_bytes": MIB}


def with_cold(*brokers: int, **more) -> Partition:
    return Partition(logs=dict.fromkeys(brokers, COLD), log=WARM, **more)


def flags(part: Partition, **more) -> int:
    return int(a_state(part, **BY_BYTES, **more)[Kip1303Leadership].flags[0])


class TestLeadership:
    def test_without_a_cold_replica_there_is_no_flag(self):
        assert flags(with_cold()) == 0

    def test_a_cold_replica_0_makes_the_balancer_a_noop(self):
        assert flags(with_cold(1, leader=2)) == LeadershipFlags.BALANCER_NOOP

    def test_a_cold_leader_is_moved_away_when_a_warm_one_can_lead(self):
        assert flags(with_cold(1)) == 0

    def test_a_cold_leader_stays_when_the_first_in_the_order_cannot_lead(self):
        """Sorted order is 2, 3, 1: 2 is out of the ISR, and a valid leader is kept before 3."""
        assert flags(with_cold(1, isr=(1, 3))) == LeadershipFlags.COLD_LEADER_KEPT

    def test_a_cold_leader_that_is_first_in_the_order_is_not_kept_by_it(self):
        assert flags(with_cold(1, 2, 3)) == 0

    def test_a_balancer_that_moves_nothing_anyway_is_not_counted(self):
        assert flags(with_cold(1, leader=2, isr=(2, 3))) == 0

    def test_a_partition_without_a_leader_has_none(self):
        assert flags(with_cold(1, leader=-1)) == 0

    def test_it_is_worked_out_for_many_at_once(self):
        parts = [with_cold(1, number=0, leader=2), with_cold(number=1),
                 with_cold(1, number=2, isr=(1, 3))]  # fmt: skip
        assert a_state(*parts, **BY_BYTES)[Kip1303Leadership].flags.tolist() == [2, 0, 1]


def test_balanced_leaders_differ_only_where_replica_0_is_cold():
    state = a_state(with_cold(1, leader=2), with_cold(number=1), **BY_BYTES)
    assert state[BalancedLeaders].leader.tolist() == [1, 1]
    assert state[BalancedLeaders.under("kip1303")].leader.tolist() == [2, 1]


def test_out_of_rack_is_judged_by_the_racks_of_leader_and_replica_0():
    def out_of_rack(state: ShardState) -> list[bool]:
        return is_out_of_rack(state[Partitions], state[Assignment], state[Brokers]).tolist()

    near, far = Partition(replicas=(1, 4), leader=4), Partition(number=1, leader=2)
    assert out_of_rack(a_state(near, far)) == [False, True]
    assert out_of_rack(a_state(far, brokers=())) == [False]


class TestSecondsUntilWarm:
    def seconds(self, log: Log, later: Log | None = None, **config: int) -> float:
        kept = {"local_retention_ms": UNLIMITED, "local_retention_bytes": UNLIMITED}
        topics = {"t": {"remote_storage": 1} | kept | config}
        state = a_state(Partition(replicas=(1,), log=log), topics=topics)
        if later is not None:
            frame = replicas_frame([Partition(replicas=(1,), log=later)], LATER_MS)
            state, _ = step(state, [frame], LATER_MS)
        return float(state[WarmUp].warm_in_s[0, 0])

    YOUNG = Log(local_start=1, started_ms=NOW_MS - 9_000)

    def test_a_warm_replica_is_there(self):
        assert (
            self.seconds(Log(local_start=1, started_ms=NOW_MS - 9_000), eligible_local_log_ms=9_000)
            == 0
        )

    def test_a_span_grows_with_the_clock(self):
        assert (
            self.seconds(
                Log(local_start=1, started_ms=NOW_MS - 9_000), eligible_local_log_ms=60_000
            )
            == 51
        )

    def test_a_span_beyond_local_retention_is_never_reached(self):
        config = {"eligible_local_log_ms": 60_000, "local_retention_ms": 30_000}
        assert self.seconds(self.YOUNG, **config) == NEVER

    def test_retention_equal_to_the_threshold_is_enough(self):
        config = {"eligible_local_log_ms": 60_000, "local_retention_ms": 60_000}
        assert self.seconds(self.YOUNG, **config) == 51

    @pytest.mark.parametrize("unread", ["local_retention_ms", "local_retention_bytes"])
    def test_without_local_retention_that_could_be_read_nobody_knows_when(self, unread):
        """Unlimited is another value than unknown."""
        first = Log(end=901, local_start=1, size_bytes=9_000, started_ms=NOW_MS - 1_000)
        later = replace(first, end=1_001, size_bytes=10_000)
        on = {
            "local_retention_ms": "eligible_local_log_ms",
            "local_retention_bytes": "eligible_local_log_bytes",
        }[unread]
        assert self.seconds(first, later, **{on: 60_000}) > 0
        assert math.isnan(self.seconds(first, later, **{on: 60_000, unread: NOT_SET}))

    def test_bytes_grow_at_the_rate_of_the_partition(self):
        """Records of 10 B, 100 of them in 5 s: 200 B/s, and 40 000 B are missing."""
        first = Log(end=901, local_start=1, size_bytes=9_000)
        later = Log(end=1_001, local_start=1, size_bytes=10_000)
        assert self.seconds(first, later, eligible_local_log_bytes=50_000) == pytest.approx(200)

    def test_an_idle_partition_never_reaches_bytes(self):
        idle = Log(end=1_001, local_start=1, size_bytes=10_000)
        assert self.seconds(idle, idle, eligible_local_log_bytes=50_000) == NEVER

    def test_before_a_rate_is_known_the_answer_is_unknown(self):
        assert math.isnan(
            self.seconds(Log(local_start=1, size_bytes=10), eligible_local_log_bytes=50_000)
        )

    def test_the_sooner_of_two_conditions_counts(self):
        first = Log(end=901, local_start=1, size_bytes=9_000, started_ms=NOW_MS - 1_000)
        later = Log(end=1_001, local_start=1, size_bytes=10_000, started_ms=NOW_MS - 1_000)
        both = {"eligible_local_log_bytes": 50_000, "eligible_local_log_ms": 16_000}
        assert self.seconds(first, later, **both) == pytest.approx(10)

    EMPTY = Log(end=50, local_start=50, started_ms=UNKNOWN, size_bytes=0)
    KEPT_SHORTLY: ClassVar = {"eligible_local_log_ms": 60_000, "local_retention_ms": 30_000}

    def test_an_empty_log_lacks_nothing_that_is_younger_than_the_last_append(self):
        written = replace(self.EMPTY, end=40, local_start=40)
        assert self.seconds(written, self.EMPTY, eligible_local_log_ms=60_000) == 60

    def test_an_empty_log_that_is_written_to_never_spans_more_than_local_retention(self):
        written = replace(self.EMPTY, end=40, local_start=40)
        assert self.seconds(written, self.EMPTY, **self.KEPT_SHORTLY) == NEVER

    def test_it_is_unknown_when_an_empty_log_was_written_last(self):
        assert math.isnan(self.seconds(self.EMPTY, self.EMPTY, eligible_local_log_ms=60_000))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"eligible_local_log_ms": 9, "local_retention_ms": 8}, True),
        ({"eligible_local_log_ms": 9, "local_retention_ms": 9}, False),
        ({"eligible_local_log_ms": 9}, False),
        ({"eligible_local_log_ms": 9, "local_retention_ms": 8, "remote_storage": 0}, False),
        (
            {"eligible_local_log_ms": 9, "local_retention_ms": 8, "eligible_local_log_bytes": 5},
            False,
        ),
        ({}, False),
    ],
)
def test_a_threshold_is_unreachable_when_no_condition_can_be_met(config, expected):
    state = a_state(topics={"t": {"remote_storage": 1} | config})
    assert is_unreachable(state[TopicConfigs]).tolist() == [expected]


def test_a_span_longer_than_the_log_can_have_existed_is_suspect():
    """At 100 the twin looked first, so what begins at 150 was written since; it says an hour."""

    def after(log: Log) -> ShardState:
        first = a_state(Partition(replicas=(1,), log=Log(end=100)))
        frame = replicas_frame([Partition(replicas=(1,), log=log)], LATER_MS)
        return step(first, [frame], LATER_MS)[0]

    hour_ago, now = NOW_MS - 3_600_000, LATER_MS - 1_000
    for log, expected in (
        (Log(end=200, local_start=150, started_ms=hour_ago), True),
        (Log(end=200, local_start=150, started_ms=now), False),
        (Log(end=200, local_start=99, started_ms=hour_ago), False),
        (Log(end=200, local_start=200, started_ms=UNKNOWN), False),
        (Log(end=200, local_start=150, started_ms=UNKNOWN), False),
    ):
        assert after(log)[SuspectTimestamps].timestamp_suspect[0, 0] == expected


class TestGrowth:
    def grown(self, *ends: int) -> ShardState:
        state = a_state(Partition(log=Log(end=ends[0], size_bytes=ends[0] * 10)))
        for end in ends[1:]:
            at_ms = state.observed_at_ms + 5_000
            log = Log(end=end, size_bytes=end * 10)
            state, _ = step(state, [replicas_frame([Partition(log=log)], at_ms)], at_ms)
        return state

    def rate(self, *ends: int) -> list[float]:
        return self.grown(*ends)[Growth].appended_records_per_s.tolist()

    def test_one_sample_is_no_rate(self):
        assert self.rate(100) == [UNKNOWN]

    def test_two_samples_are(self):
        assert self.rate(100, 200) == [20]

    def test_a_burst_is_evened_out(self):
        assert self.rate(100, 200, 800) == pytest.approx([20 + 0.3 * 100])

    def test_an_idle_partition_has_a_rate_of_zero(self):
        assert self.rate(100, 100) == [0]

    def test_an_average_that_has_died_away_is_zero(self):
        """It lowers to 0.7 of itself in each interval without a record: 3.2e-4, 2.2e-4 a second."""
        for idle, expected in ((31, [pytest.approx(20 * 0.7**31)]), (32, [0.0]), (200, [0.0])):
            assert self.rate(100, 200, *[200] * idle) == expected
        assert 20 * 0.7**32 < IDLE_RECORDS_PER_S < 20 * 0.7**31

    def test_the_first_record_after_a_long_time_gives_a_rate_again(self):
        assert self.rate(100, 200, *[200] * 40, 201) == pytest.approx([0.3 * 0.2])

    def test_a_leader_that_is_truncated_keeps_the_average(self):
        assert self.rate(100, 200, 150) == [20]

    def test_a_record_has_the_size_of_the_local_log_over_its_records(self):
        assert self.grown(100)[RecordSizes].bytes_per_record.tolist() == [10]
        unknown = a_state(Partition(log=Log(size_bytes=UNKNOWN)))
        assert math.isnan(unknown[RecordSizes].bytes_per_record[0])


def test_the_reports_kip1303_would_add_have_bounds():
    """100 records in 5 s: one report in 5 s at the least, 20 a second at the most."""
    first = a_state(with_cold(2), Partition(number=1, log=WARM), **BY_BYTES)
    grown = [with_cold(2), Partition(number=1, log=Log(end=200, size_bytes=2 * MIB))]
    state, _ = step(first, [replicas_frame(grown, LATER_MS)], LATER_MS)
    parts = [state.take(np.array([row])) for row in (0, 1)]
    reports = [computed(part, "kafka_twin_kip1303_reports_per_second") for part in parts]
    assert [each[("every_change_min",)] for each in reports] == [0, 3_600 // 5]
    assert [each[("every_change_max",)] for each in reports] == [0, 3_600 * 20]
    # The partition of the cold replica is idle.
    assert [each[("crossings",)] for each in reports] == [0, 0]
