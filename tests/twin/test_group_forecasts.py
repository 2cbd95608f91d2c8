"""How long groups of consumers have until retention overtakes them, and the risks of that."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import NOW_MS, Group, Log, Partition, brokers_frame
from tests.reading import open_risks
from tests.twin.test_groups import COLD, HOUR_MS, ROUND_MS, cycle
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.group_forecasts import GroupForecasts
from twin.rules.groups.moves import GroupLags
from twin.rules.groups.usage import IN_USE_MS
from twin.rules.partitions.growth import Growth
from twin.rules.tiering.timestamps import SuspectTimestamps
from twin.rules.tiering.warm_up import NEVER
from twin.step import step
from twin.tables.enums import BatchKind, GroupState
from twin.totals import cluster_totals, shard_totals

DAY_MS = 86_400_000


def running(
    committed: int, group_rate: int, *, local_span_s: int = 1_000, tiered_to: int = 10**6,
    members: int = 1, size_bytes: int = 10_000, idle: bool = False, **configs: int,
) -> ShardState:  # fmt: skip
    """10 records a second are appended; 10 000 were, in ``local_span_s``. The group was read twice.

    Its committed offset now is ``committed``. A record is a byte, a segment is full in 100 s.
    """
    then_ms, state = NOW_MS - ROUND_MS, None
    configs = {"segment_ms": 600_000, "segment_bytes": 1_000, **configs}
    for at_ms, end, offset in (
        (then_ms, 10_000 if idle else 9_700, committed - group_rate * 30),
        (NOW_MS, 10_000, committed),
    ):
        log = Log(end=end, local_start=0, started_ms=NOW_MS - local_span_s * 1_000,
                  last_tiered=tiered_to, size_bytes=size_bytes)  # fmt: skip
        part = Partition(log=log)
        state = cycle(Group(offsets=[(part, offset)], members=members), parts=(part,), since=state,
                      at_ms=at_ms, **configs)  # fmt: skip
    assert state is not None
    return state


def until(state: ShardState) -> tuple[float, float]:
    table = state[GroupForecasts]
    return float(table.until_remote_s[0]), float(table.until_loss_s[0])


@pytest.mark.parametrize(
    ("committed", "rate", "seconds"),
    [
        (5_000, 0, 500.0),  # its next record is 500 s old, and kept for 1 000 s
        (5_000, 5, 1_000.0),  # it moves half as fast as the log
        (5_000, 10, NEVER),
        (5_000, 20, NEVER),
        (1_000, 0, 100.0),
        (10_000, 0, NEVER),  # nothing is left to read
    ],
)
def test_seconds_until_the_local_log_no_longer_has_its_records(committed, rate, seconds):
    remote, loss = until(running(committed, rate, local_retention_ms=1_000_000))
    assert remote == pytest.approx(seconds)
    assert loss > remote or loss == NEVER


def test_by_size_the_log_end_pushes_out_what_is_too_much():
    """A record is a byte: 6 000 are kept, the group has 5 000 in front of it, 10 come a second."""
    configs = {"local_retention_ms": UNKNOWN, "local_retention_bytes": 6_000}
    assert until(running(5_000, 0, **configs))[0] == pytest.approx(100.0)
    assert until(running(5_000, 5, **configs))[0] == pytest.approx(200.0)
    assert until(running(5_000, 10, **configs))[0] == NEVER


def test_the_sooner_of_two_limits_holds():
    configs = {"local_retention_ms": 1_000_000, "local_retention_bytes": 6_000}
    assert until(running(5_000, 0, **configs))[0] == pytest.approx(100.0)


def test_what_is_not_uploaded_stays_as_long_as_the_oldest_record_has():
    configs = {"local_retention_ms": 600_000}
    assert until(running(5_000, 0, tiered_to=6_000, **configs))[0] == pytest.approx(100.0)
    assert until(running(5_000, 0, tiered_to=4_000, **configs))[0] == pytest.approx(500.0)


def test_while_remote_storage_is_away_retention_deletes_nothing_that_is_not_uploaded():
    """KAFKA-19952: the local log has outlived retention.ms, since it waits for its uploads."""
    away = {"local_span_s": 2_000, "retention_ms": 1_000_000, "local_retention_ms": 600_000}
    assert until(running(5_000, 0, tiered_to=6_000, **away))[1] == 0.0
    assert np.isnan(until(running(5_000, 0, tiered_to=4_000, **away))[1])
    assert group_risks(running(5_000, 0, tiered_to=4_000, **away)) == set()
    assert until(running(5_000, 0, tiered_to=4_000, copies_disabled=1, **away))[1] == 0.0


def test_seconds_until_retention_deletes_what_it_has_not_read():
    assert until(running(5_000, 0, retention_ms=2_000_000))[1] == pytest.approx(1_500.0)
    assert until(running(5_000, 0, retention_ms=400_000))[1] == 0.0
    assert until(running(5_000, 0, retention_ms=UNKNOWN))[1] == NEVER


def test_the_records_of_an_idle_log_may_all_be_as_old_as_the_first():
    assert until(running(5_000, 0, idle=True, retention_ms=1_200_000))[1] == pytest.approx(200.0)


@pytest.mark.parametrize(("rate", "seconds"), [(10, 200.0), (20, 200.0), (30, NEVER)])
def test_a_group_that_has_read_all_before_is_not_overtaken(rate, seconds):
    """Nothing is written: 5 000 records are left to read, and they are kept for 200 s."""
    state = running(5_000, rate, idle=True, retention_ms=1_200_000)
    assert until(state)[1] == pytest.approx(seconds)


def test_a_group_whose_offsets_are_no_longer_read_is_taken_to_go_on_for_a_minute():
    """300 records further, it has 4 700 in front of it: 1 300 until there are 6 000."""
    state = running(5_000, 5, local_retention_ms=UNKNOWN, local_retention_bytes=6_000)
    at_ms = NOW_MS + 3_600_000
    state = step(state, [brokers_frame((1, 2, 3), at_ms, selector=0)], at_ms)[0]
    assert until(state)[0] == pytest.approx(260.0)


def test_a_log_is_idle_once_its_moving_average_has_died_away():
    state = running(5_000, 0, retention_ms=1_800_000)
    assert state[GroupLags].lag_s.tolist() == pytest.approx([500.0])
    assert until(state)[1] == pytest.approx(1_300.0)  # its next record is 500 s old
    part = Partition(log=Log(end=10_000, started_ms=NOW_MS - 1_000_000, size_bytes=10_000))
    for _ in range(60):
        at_ms = state.observed_at_ms + 5_000
        state = cycle(
            parts=(part,), since=state, at_ms=at_ms, is_read=False, retention_ms=1_800_000
        )
    assert state[Growth].appended_records_per_s.tolist() == [0]
    assert np.isnan(state[GroupLags].lag_s).all()
    assert until(state)[1] == pytest.approx(500.0)  # it may be as old as the first: 1 300 s


def test_a_time_is_unknown_while_a_number_is_that_it_depends_on():
    assert np.isnan(until(cycle(Group(offsets=[(Partition(), 50)])))[1])  # its rate
    assert np.isnan(until(running(5_000, 0, retention_ms=-2))).all()


def test_without_tiering_nothing_is_read_remotely():
    assert until(running(5_000, 0, remote_storage=0))[0] == NEVER


def test_a_group_below_the_log_start_has_lost_records():
    part = Partition(log=Log(start=60, local_start=60))
    assert until(cycle(Group(offsets=[(part, 50)]), parts=(part,))) == (0.0, 0.0)


# ---------------------------------------------------------------- risks


def later(state: ShardState, cycles: int = 12) -> ShardState:
    """Cycles in which nothing changes."""
    for _ in range(cycles):
        at_ms = state.observed_at_ms + 5_000
        state = step(state, [brokers_frame((1, 2, 3), at_ms, selector=0)], at_ms)[0]
    return state


def group_risks(state: ShardState) -> set[str]:
    return {name for name in open_risks(later(state)) if name.startswith("consumer")}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"local_retention_ms": 1_450_000}, set()),  # in 950 s, 60 of which pass
        ({"local_retention_ms": 1_200_000}, {"consumer_falls_off_local_log"}),
        (
            {"local_retention_ms": 1_200_000, "retention_ms": 2_000_000},
            {"consumer_falls_off_local_log", "consumer_loses_records"},
        ),
        ({"local_retention_ms": 2_000_000, "retention_ms": 5_000_000}, set()),
    ],
)
def test_a_group_that_falls_back_is_a_risk_of_its_partition(configs, expected):
    assert group_risks(running(5_000, 0, **configs)) == expected


def test_a_group_that_reads_remotely_is_a_risk_of_its_partition():
    assert group_risks(cycle(Group(offsets=[(COLD, 30)]), parts=(COLD,))) == {
        "consumer_reads_remote"
    }


def test_a_group_that_lost_records_is_a_risk_of_its_partition():
    part = Partition(log=Log(start=60, local_start=60))
    state = cycle(Group(offsets=[(part, 50)]), parts=(part,), retention_ms=HOUR_MS)
    assert group_risks(state) == {"consumer_loses_records"}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (BatchKind.TRANSACTIONAL, {}),
        (BatchKind.CONTROL, {}),
        (UNKNOWN, {}),
        (BatchKind.PLAIN, {"compacted": 1}),
        (BatchKind.PLAIN, {"retention_ms": -1}),  # deleted by request
    ],
)
def test_offsets_that_may_be_no_records_are_a_warning_and_no_page(kind, config):
    part = Partition(log=Log(start=60, local_start=60, first_batch=kind))
    config = {"retention_ms": HOUR_MS} | config
    state = cycle(Group(offsets=[(part, 50)]), parts=(part,), **config)
    assert group_risks(state) == {"consumer_may_lose_records"}


def test_a_log_that_retention_has_emptied_is_what_it_was_seen_to_be():
    """Its own first batch is gone; and a transaction that was seen once stays known."""

    def after(*kinds: int) -> set[str]:
        state = None
        for i, kind in enumerate((*kinds, UNKNOWN)):
            part = Partition(log=Log(start=60, local_start=60, first_batch=kind))
            at = {} if state is None else {"since": state}
            group = Group(offsets=[(part, 50)])
            state = cycle(
                group, parts=(part,), at_ms=NOW_MS + i * 5_000, retention_ms=HOUR_MS, **at
            )
        assert state is not None
        return group_risks(state)

    assert after(BatchKind.PLAIN) == {"consumer_loses_records"}
    assert after(BatchKind.TRANSACTIONAL, BatchKind.PLAIN) == {"consumer_may_lose_records"}
    assert after() == {"consumer_may_lose_records"}


@pytest.mark.parametrize("started_ms", [0, 86_400_000, NOW_MS - 40 * 86_400_000])
def test_one_odd_timestamp_is_not_the_age_of_a_log(started_ms):
    """librdkafka 1238: the first record is of January 1970, all others are of today."""
    config = {"retention_ms": DAY_MS, "segment_ms": DAY_MS, "local_retention_ms": DAY_MS}
    span_s = (NOW_MS - started_ms) // 1_000
    state = running(5_000, 0, local_span_s=span_s, **config)
    assert np.isnan(until(state)).all()
    assert group_risks(state) == set()
    assert state[SuspectTimestamps].timestamp_suspect.all()


def test_a_group_that_nobody_uses_any_more_is_no_risk():
    gone = Group(offsets=[(COLD, 30)], members=0, state=GroupState.EMPTY)
    assert group_risks(cycle(gone, parts=(COLD,))) == set()


def test_a_group_whose_members_all_stopped_is_a_risk_for_a_day():
    state = running(5_000, 5, members=0, retention_ms=1_000_000, local_retention_ms=UNKNOWN)
    assert "consumer_loses_records" in group_risks(state)
    at_ms = NOW_MS + IN_USE_MS + 1
    state = step(state, [brokers_frame((1, 2, 3), at_ms, selector=0)], at_ms)[0]
    assert state[GroupLags].in_use.tolist() == [False]


def test_of_the_times_of_a_group_the_shortest_holds_in_all_shards():
    state = running(5_000, 0, local_retention_ms=1_000_000)
    other = running(7_000, 0, local_retention_ms=1_000_000)
    sums = cluster_totals(CATALOG, [shard_totals(state), shard_totals(other)])
    assert sums["kafka_twin_group_until_remote_seconds"]["g",] == pytest.approx(500.0)
    assert sums["kafka_twin_group_lag_records"] == {("g",): 8_000}
