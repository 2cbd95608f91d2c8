"""Groups of consumers: how far behind they are, where they read, and where they would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.asking import partition_object
from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    broker_metrics_frame,
    configs_frame,
    empty,
    epoch_ends_frame,
    group_offsets_frame,
    groups_frame,
)
from tests.cycles import cycle_frames
from tests.examples import examples
from tests.reading import conditions
from tests.simulator.shard import Shape, SimulatedShard
from twin.builtin import CATALOG
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.questions import whatif
from twin.questions.whatif_groups import hurt_by_loss, together
from twin.rules.groups.group_forecasts import GroupForecasts
from twin.rules.groups.loss import GroupsIfLeaderLost
from twin.rules.groups.moves import GroupLags, GroupMoves
from twin.rules.groups.reads import GroupReads, GroupServers, ReadsFrom
from twin.step import step
from twin.tables.enums import ReplicaSelector
from twin.tables.state import GroupOffsets, Groups
from twin.totals import Totals, cluster_totals, shard_totals

ROUND_MS = 30_000
HOUR_MS = 3_600_000
TIERED = {"remote_storage": 1, "local_retention_ms": HOUR_MS, "retention_ms": 24 * HOUR_MS,
          "retention_bytes": UNKNOWN, "local_retention_bytes": UNKNOWN}  # fmt: skip


def cycle(
    *groups: Group, parts: tuple[Partition, ...] = (Partition(),), since: ShardState | None = None,
    at_ms: int = NOW_MS, selector: int = ReplicaSelector.LEADER, is_read: bool = True,
    **configs: int,
) -> ShardState:  # fmt: skip
    """The state after a whole cycle, in which these groups were read."""
    frames = [
        *cycle_frames(parts, at_ms, ids=(1, 2, 3), selector=selector),
        configs_frame({part.topic: {"compacted": 0, **TIERED, **configs} for part in parts}, at_ms),
    ]
    if is_read:
        frames += [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)]
    return step(since or empty(), frames, at_ms)[0]


def at(end: int, part: Partition = Partition(), **log: int) -> Partition:
    """The partition with that log end, 1 000 records of it on each disk."""
    local = {"local_start": max(end - 1_000, 0), **log}
    return Partition(part.topic, part.number, part.replicas, log=Log(end=end, **local))


def totals(state: ShardState) -> Totals:
    return cluster_totals(CATALOG, [shard_totals(state)])


# ---------------------------------------------------------------- lag and rate


def test_lag_is_what_is_committed_by_the_isr_and_not_read():
    part = Partition(logs={1: Log(end=120), 2: Log(end=100), 3: Log(end=110)})
    assert cycle(Group(offsets=[(part, 70)]), parts=(part,))[GroupLags].lag_records.tolist() == [30]


def test_a_group_that_has_read_all_has_no_lag():
    state = cycle(Group(offsets=[(Partition(), 100)]))
    assert state[GroupLags].lag_records.tolist() == [0]
    assert state[GroupLags].lag_s.tolist() == [0.0]


def test_an_offset_beyond_the_log_end_is_no_negative_lag():
    assert cycle(Group(offsets=[(Partition(), 150)]))[GroupLags].lag_records.tolist() == [0]


def test_without_a_committed_offset_all_is_unknown():
    state = cycle(Group(offsets=[(Partition(), UNKNOWN)]))
    assert state[GroupLags].lag_records.tolist() == [UNKNOWN]
    assert state[GroupReads].reads_from.tolist() == [UNKNOWN]
    assert np.isnan(state[GroupForecasts].until_loss_s).all()
    assert totals(state)["kafka_twin_group_lag_records"] == {}


def test_lag_stays_as_it_was_read_while_the_log_grows():
    """The group has moved on too; how far is known when its offsets are read again."""
    state = cycle(Group(offsets=[(Partition(), 70)]))
    state = cycle(parts=(at(500),), since=state, at_ms=NOW_MS + 5_000, is_read=False)
    assert state[GroupLags].lag_records.tolist() == [30]
    state = cycle(
        Group(offsets=[(Partition(), 450)]), parts=(at(500),), since=state, at_ms=NOW_MS + 10_000
    )
    assert state[GroupLags].lag_records.tolist() == [50]


def test_lag_in_seconds_is_by_the_append_rate():
    state = cycle(Group(offsets=[(Partition(), 0)]), parts=(at(1_000),))
    state = cycle(Group(offsets=[(Partition(), 300)]), parts=(at(1_300),), since=state,
                  at_ms=NOW_MS + ROUND_MS)  # fmt: skip
    assert state[GroupLags].lag_s.tolist() == pytest.approx([100.0])  # 1 000 records at 10/s


def test_the_rate_is_a_moving_average_over_reads_and_not_over_cycles():
    state = cycle(Group(offsets=[(Partition(), 0)]), parts=(at(1_000),))
    assert state[GroupMoves].records_per_s.tolist() == [UNKNOWN]
    for offset, expected in ((300, 10.0), (900, 13.0), (900, 9.1)):
        at_ms = state.observed_at_ms
        state = cycle(parts=(at(1_000),), since=state, at_ms=at_ms + 5_000, is_read=False)
        state = cycle(Group(offsets=[(Partition(), offset)]), parts=(at(1_000),), since=state,
                      at_ms=at_ms + ROUND_MS)  # fmt: skip
        assert state[GroupMoves].records_per_s.tolist() == pytest.approx([expected])


def test_the_rate_of_a_group_that_has_long_stood_still_is_zero():
    state = cycle(Group(offsets=[(Partition(), 0)]))
    for offset in (30, *[30] * 40):
        state = cycle(Group(offsets=[(Partition(), offset)]), since=state,
                      at_ms=state.observed_at_ms + ROUND_MS)  # fmt: skip
    assert state[GroupMoves].records_per_s.tolist() == [0.0]


def test_the_rate_of_a_group_that_was_reset_begins_anew():
    state = cycle(Group(offsets=[(Partition(), 90)]))
    for at_ms, offset, expected in ((1, 10, UNKNOWN), (2, 40, 1.0)):
        state = cycle(
            Group(offsets=[(Partition(), offset)]), since=state, at_ms=NOW_MS + at_ms * ROUND_MS
        )
        assert state[GroupMoves].records_per_s.tolist() == [expected]
        assert state[GroupMoves].moved_at_ms.tolist() == [NOW_MS + at_ms * ROUND_MS]


def test_rates_stay_with_their_groups_when_others_come_and_go():
    part = Partition()
    state = cycle(Group("b", [(part, 0)]), Group("c", [(part, 50)]))
    state = cycle(
        Group("a", [(part, 10)]), Group("c", [(part, 80)]), since=state, at_ms=NOW_MS + ROUND_MS
    )
    assert state[Groups].group.tolist() == ["a", "c"]
    assert state[GroupMoves].records_per_s.tolist() == [UNKNOWN, 1.0]


# ---------------------------------------------------------------- where it reads


COLD = Partition(
    logs={1: Log(local_start=40, size_bytes=600), 2: Log(local_start=90), 3: Log(local_start=0)}
)


def reads(offset: int, part: Partition = COLD, rack: str = "", **more: int) -> tuple[int, int, int]:
    state = cycle(Group(offsets=[(part, offset)], rack=rack), parts=(part,), **more)
    table = state[GroupReads]
    broker = int(state[GroupServers].broker[0])
    return broker, int(table.reads_from[0]), int(table.remote_records[0])


@pytest.mark.parametrize(
    ("offset", "source", "records"),
    [(39, ReadsFrom.REMOTE, 1), (40, ReadsFrom.DISK, 0), (100, ReadsFrom.DISK, 0)],
)
def test_what_the_leader_has_on_disk_is_read_from_there(offset, source, records):
    assert reads(offset) == (1, source, records)


def test_without_tiering_all_that_is_not_deleted_is_on_disk():
    assert reads(39, remote_storage=0) == (1, ReadsFrom.DISK, 0)


def test_what_is_below_the_log_start_is_read_nowhere():
    part = Partition(log=Log(start=20, local_start=40))
    assert reads(19, part) == (1, ReadsFrom.NOWHERE, UNKNOWN)
    assert reads(20, part) == (1, ReadsFrom.REMOTE, 20)


CUT = Partition(log=Log(start=10, end=90))


def after_a_truncation(offset: int, *, reads: int) -> ShardState:
    """A group at that offset, whose log ended at 100, and then at 90; its offset is read so often
    since the log is shorter."""
    state = cycle(Group(offsets=[(Partition(), offset)]))
    for n in range(1, reads + 1):
        at_ms = NOW_MS + n * ROUND_MS
        state = cycle(Group(offsets=[(CUT, offset)]), parts=(CUT,), since=state, at_ms=at_ms)
        state = cycle(parts=(CUT,), since=state, at_ms=at_ms + 5_000, is_read=False)
    return state


@pytest.mark.parametrize(
    ("offset", "source", "lag"),
    [(98, ReadsFrom.AHEAD, UNKNOWN), (91, ReadsFrom.AHEAD, UNKNOWN), (90, ReadsFrom.DISK, 0)],
)
def test_a_group_beyond_the_end_of_a_log_that_was_cut_is_ahead(offset, source, lag):
    state = after_a_truncation(offset, reads=1)
    assert state[GroupReads].reads_from.tolist() == [source]
    assert state[GroupLags].lag_records.tolist() == [lag]
    is_ahead = source == ReadsFrom.AHEAD
    assert ("consumer_ahead_of_log" in conditions(state)) == is_ahead
    partition = partition_object(state)
    [group] = partition["groups"]
    ends = {"earliest": 10, "latest": 90, "diverging": None}  # no leader was elected meanwhile
    assert group["reset_to"] == (ends if is_ahead else None)
    assert not (is_ahead and (group["never_lost"] or group["never_remote"]))


@pytest.mark.parametrize(
    ("epoch_ends", "diverging"),
    [((80,), 80), ((95, 80), None)],
    ids=["a loss", "two losses, of which one is the group's"],
)
def test_a_consumer_that_knows_its_epoch_goes_on_where_the_first_record_is_lost(
    epoch_ends, diverging
):
    state = cycle(Group(offsets=[(Partition(), 100)]))
    for n, end in enumerate(epoch_ends, start=1):
        at_ms = NOW_MS + n * ROUND_MS
        log = Log(start=10, end=end + 3)
        cut = Partition(leader=1 + n % 2, isr=(1 + n % 2,), epoch=1 + n, log=log)
        state = cycle(Group(offsets=[(cut, 100)]), parts=(cut,), since=state, at_ms=at_ms)
        state, _ = step(state, [epoch_ends_frame(cut, n, end, at_ms)], at_ms)
    state = cycle(parts=(cut,), since=state, at_ms=at_ms + 5_000, is_read=False)
    partition = partition_object(state)
    assert len(partition["records_lost"]) == len(epoch_ends)
    assert partition["groups"][0]["reset_to"]["diverging"] == diverging


def test_an_offset_that_moved_since_the_log_end_was_sampled_is_not_ahead():
    """The log has grown since the sample, and the group has read on."""
    state = cycle(Group(offsets=[(Partition(), 100)]))
    state = cycle(Group(offsets=[(Partition(), 120)]), since=state, at_ms=NOW_MS + ROUND_MS)
    assert state[GroupReads].reads_from.tolist() == [ReadsFrom.DISK]
    state = cycle(since=state, at_ms=NOW_MS + ROUND_MS + 5_000, is_read=False)
    assert state[GroupReads].reads_from.tolist() == [ReadsFrom.DISK]


@pytest.mark.parametrize(("isr", "source"), [((1,), ReadsFrom.AHEAD), ((1, 2), ReadsFrom.DISK)])
def test_the_loss_of_a_leader_leaves_groups_ahead_if_its_successor_lacks_what_they_read(
    isr, source
):
    """Of two samples of replicas in sync the lower one proves nothing."""
    part = Partition(replicas=(1, 2), isr=isr, logs={1: Log(end=100), 2: Log(end=90)})
    settings = {"unclean_leader_election": 1, "min_insync_replicas": 1}
    state = cycle(Group(offsets=[(part, 95)]), parts=(part,), **settings)
    assert state[GroupsIfLeaderLost].reads_from.tolist() == [source]
    [*hurt] = together([hurt_by_loss(state, [1], whatif.lose(state, [1]))])
    assert [each.ahead for each in hurt] == ([1] if source == ReadsFrom.AHEAD else [])


def test_nobody_serves_a_partition_without_a_leader():
    offline = Partition(leader=UNKNOWN, log=Log())
    assert reads(39, offline) == (UNKNOWN, ReadsFrom.NOBODY, UNKNOWN)


@pytest.mark.parametrize(
    ("rack", "broker", "records"), [("az-a", 1, 0), ("az-b", 2, 50), ("az-c", 3, 0), ("", 1, 0)]
)
def test_a_consumer_reads_from_the_replica_of_its_rack(rack, broker, records):
    read = reads(40, rack=rack, selector=ReplicaSelector.RACK_AWARE)
    assert (read[0], read[2]) == (broker, records)


@pytest.mark.parametrize("rack", ["az-b", ""])
def test_without_a_selector_racks_do_not_matter(rack):
    assert reads(40, rack=rack) == (1, ReadsFrom.DISK, 0)


@pytest.mark.parametrize("selector", [ReplicaSelector.CUSTOM, UNKNOWN])
def test_where_a_custom_selector_sends_a_consumer_is_unknown(selector):
    assert reads(39, selector=selector) == (UNKNOWN, UNKNOWN, UNKNOWN)


# ---------------------------------------------------------------- if the leader is lost


def test_a_cold_successor_makes_its_consumers_read_remotely_unless_kip_1303_moves_it_back():
    state = cycle(Group(offsets=[(COLD, 50)]), parts=(COLD,), eligible_local_log_bytes=500)
    cold_log = Partition(logs={**COLD.logs, 2: Log(end=100, local_start=90, size_bytes=100)})
    state = cycle(Group(offsets=[(cold_log, 50)]), parts=(cold_log,), eligible_local_log_bytes=500)
    for table, broker, records in (
        (GroupsIfLeaderLost, 2, 40),
        (GroupsIfLeaderLost.under("kip1303"), 3, 0),
    ):
        then = state[table]
        assert (then.broker.tolist(), then.remote_records.tolist()) == ([broker], [records])
        assert then.remote_bytes.tolist() == [records * 10.0]  # 600 bytes for 60 records
    bytes_by_broker = totals(state)["kafka_twin_broker_loss_remote_read_bytes"]
    assert bytes_by_broker["1", "kafka"] == 400
    assert bytes_by_broker["1", "kip1303"] == bytes_by_broker["2", "kafka"] == 0


READS = {"remote_read_mean_ms": 100.0, "remote_fetch_requests_per_s": 2.0,
         "remote_fetch_bytes_per_s": 200.0}  # fmt: skip
"""A read takes 100 ms and brings 100 bytes: a thread reads 1 000 bytes a second."""


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ({2: READS}, 0.4),
        ({3: READS}, 0.4),  # as another broker reads
        ({2: READS, 3: READS | {"remote_read_mean_ms": 900.0}}, 0.4),
        ({2: READS | {"remote_fetch_requests_per_s": 0.0}}, None),
        ({}, None),
    ],
)
def test_how_long_reads_take_after_a_loss_is_as_brokers_measure_them(measured, expected):
    state = cycle(Group(offsets=[(COLD, 50)]), parts=(COLD,))
    if measured:
        state = step(state, [broker_metrics_frame(measured)], NOW_MS)[0]
    seconds = totals(state)["kafka_twin_broker_loss_remote_read_seconds"]
    assert seconds.get(("1", "kafka")) == (pytest.approx(expected) if expected else None)
    assert seconds["2", "kafka"] == 0  # nothing would be read


def test_as_many_reads_run_at_once_as_consumers_wait_for_one():
    many = [Group(f"g{i}", [(COLD, 50)]) for i in range(20)]
    state = step(cycle(*many, parts=(COLD,)), [broker_metrics_frame({2: READS})], NOW_MS)[0]
    seconds = totals(state)["kafka_twin_broker_loss_remote_read_seconds"]
    assert seconds["1", "kafka"] == pytest.approx(20 * 0.4 / 10)


def test_what_is_read_remotely_anyway_is_no_cost_of_a_loss():
    state = cycle(Group(offsets=[(COLD, 30)]), parts=(COLD,))
    then = state[GroupsIfLeaderLost]
    assert then.remote_records.tolist() == [60]
    assert then.more_remote_bytes.tolist() == [500.0]  # 10 of them it reads remotely now


def test_nobody_serves_what_nobody_leads():
    alone = Partition(replicas=(1,))
    then = cycle(Group(offsets=[(alone, 30)]), parts=(alone,))[GroupsIfLeaderLost]
    assert then.reads_from.tolist() == [ReadsFrom.NOBODY]
    assert then.remote_records.tolist() == [UNKNOWN]


def test_a_consumer_in_the_rack_of_a_follower_stays_there():
    state = cycle(
        Group(offsets=[(COLD, 40)], rack="az-c"), parts=(COLD,), selector=ReplicaSelector.RACK_AWARE
    )
    assert state[GroupsIfLeaderLost].broker.tolist() == [3]
    assert state[GroupsIfLeaderLost].remote_records.tolist() == [0]


def test_a_consumer_in_the_rack_of_the_lost_leader_reads_from_the_next():
    state = cycle(
        Group(offsets=[(COLD, 40)], rack="az-a"), parts=(COLD,), selector=ReplicaSelector.RACK_AWARE
    )
    assert state[GroupsIfLeaderLost].broker.tolist() == [2]


# ---------------------------------------------------------------- sums


def test_numbers_of_groups_are_put_together_by_group_and_by_topic():
    parts = (Partition("a"), Partition("a", 1), Partition("b"))
    state = cycle(
        Group("f", [(parts[0], 90), (parts[1], 80), (parts[2], 100)]),
        Group("g", [(parts[0], 95)]),
        parts=parts,
    )
    sums = totals(state)
    assert sums["kafka_twin_group_lag_records"] == {("f",): 30, ("g",): 5}
    assert sums["kafka_twin_group_topic_lag_records"] == {
        ("f", "a"): 30,
        ("f", "b"): 0,
        ("g", "a"): 5,
    }
    assert sums["kafka_twin_groups"] == {(): 2}


def test_offsets_that_the_collector_left_out_are_counted_once():
    """Shard 0 has a row of every group, other shards of some."""
    states = [cycle(Group("f", left_out=3), Group("g", left_out=4)), cycle(Group("g", left_out=4))]
    sums = cluster_totals(CATALOG, list(map(shard_totals, states)))
    assert sums["kafka_twin_group_offsets_left_out"] == {(): 7}


# ---------------------------------------------------------------- for all inputs


@examples(40)
@given(seed=st.integers(0, 10**6), cycles=st.integers(1, 5), groups=st.integers(1, 4))
def test_every_row_is_what_its_own_numbers_say(seed, cycles, groups):
    """The same, one row at a time and in plain words."""
    shard = SimulatedShard(Shape(topics=2, partitions=3, cold_share=0.4, groups=groups), seed)
    state = empty("sim")
    for frames in shard.run(cycles, NOW_MS):
        state, _ = step(state, frames, frames[0].header.observed_at_ms)
    offsets, lags, now = state[GroupOffsets], state[GroupLags], state[GroupReads]
    then, forecasts = state[GroupsIfLeaderLost], state[GroupForecasts]
    for i in range(len(offsets)):
        committed, end = int(offsets.committed_offset[i]), int(state[GroupMoves].end_offset[i])
        expected = UNKNOWN if end == UNKNOWN else max(end - committed, 0)
        assert lags.lag_records[i] == expected
        for table in (now, then):
            is_remote = table.reads_from[i] == ReadsFrom.REMOTE
            assert is_remote == (table.remote_records[i] > 0)
        assert (then.broker[i] == UNKNOWN) == (then.reads_from[i] == ReadsFrom.NOBODY)
        remote_s, loss_s = forecasts.until_remote_s[i], forecasts.until_loss_s[i]
        assert not remote_s < 0
        assert not loss_s < 0
        if now.reads_from[i] == ReadsFrom.REMOTE and expected:
            assert remote_s == 0
        # Local retention is the shorter one here.
        assert not remote_s > loss_s
