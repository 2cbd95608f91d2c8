"""Replicas on their way into the ISR."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, empty
from tests.cycles import cycle_frames, listed_frames
from tests.examples import examples
from tests.reading import computed, open_risks
from twin.declarations.table import UNKNOWN
from twin.engine import codec
from twin.engine.shard_state import ShardState
from twin.rules.isr.isr_shrinks import IsrShrinks
from twin.rules.isr.isr_verdicts import Verdict
from twin.rules.replication.catch_up_estimates import CatchUpEstimates, LeadEstimates, is_late
from twin.rules.replication.catching_up import CatchingUp, StuckReason, is_stuck
from twin.rules.tiering.bootstrap import BootstrapPath, FollowerFeatures
from twin.step import step
from twin.tables.enums import PendingUpload
from twin.tables.state import Partitions

INTERVAL_MS = 5_000
LEADER = Log(end=1_000, local_start=600, last_tiered=899, pending_upload=900)


def joins(log: Log, leader: Log = LEADER, **more) -> Partition:
    """Broker 3 is being added to a partition that 1 leads."""
    return Partition(
        replicas=(3, 1), leader=1, isr=(1,), adding=(3,), logs={1: leader, 3: log}, **more
    )


def watched(
    *parts: Partition,
    topic: Mapping[str, int] | None = None,
    own: Mapping[int, int] | None = None,
    **config: int,
) -> ShardState:
    """The state after a cycle for each; ``own``: which brokers have KIP-1023's feature on."""
    topics = {"t": {"remote_storage": 1, **(topic or {})}}
    config = {"last_tiered_fetch": 1, **config}
    state = a_state(parts[0], topics=topics, own_last_tiered_fetch=own, **config)
    for part in parts[1:]:
        at_ms = state.observed_at_ms + INTERVAL_MS
        frames = cycle_frames(
            [part], at_ms, ids=range(1, 6), silent=part.silent, last_tiered_fetch=own
        )
        state, _ = step(state, frames, at_ms)
    return state


def only(state: ShardState) -> CatchingUp:
    """The one replica that is catching up."""
    table = state[CatchingUp]
    assert len(table) == 1
    return table


def seconds_left(state: ShardState) -> list[float]:
    return state[CatchUpEstimates].seconds_left.tolist()


def seconds_to_lead(state: ShardState) -> list[float]:
    return state[LeadEstimates].seconds_to_lead.tolist()


def stuck(state: ShardState) -> list[bool]:
    return is_stuck(state[CatchingUp], state[Partitions]).tolist()


def late(state: ShardState) -> list[bool]:
    tables = state[CatchingUp], state[CatchUpEstimates], state[Partitions]
    return is_late(*tables, state.judged_at_ms).tolist()


def test_a_follower_in_the_isr_and_one_on_a_dead_broker_are_not_catching_up():
    assert len(a_state(Partition())[CatchingUp]) == 0
    assert len(a_state(Partition(isr=(1, 2), offline=(3,)))[CatchingUp]) == 0


def test_the_path_shows_in_where_the_local_log_begins():
    new = joins(Log(end=0))
    for local, path in (
        (900, BootstrapPath.FROM_PENDING_UPLOAD),
        (600, BootstrapPath.FROM_LOCAL_START),
        (0, BootstrapPath.FROM_ZERO),
    ):
        rows = only(watched(new, joins(Log(end=950, local_start=local))))
        assert (rows.path[0], rows.start_offset[0]) == (path, local)
    assert only(watched(new)).path.tolist() == [UNKNOWN]


def test_a_replica_that_had_records_catches_up_from_its_first_sampled_end():
    rows = only(a_state(Partition(isr=(1, 2), logs={3: Log(end=40)})))
    assert (rows.path[0], rows.start_offset[0]) == (UNKNOWN, 40)


@pytest.mark.parametrize(
    ("pending", "path"),
    [(UNKNOWN, BootstrapPath.FROM_LOCAL_START), (9_500, BootstrapPath.FROM_PENDING_UPLOAD)],
)
def test_a_replica_that_ends_below_its_leaders_local_log_starts_anew(pending, path):
    """KIP-1023, case 2.2: it has records, and the next one is in remote storage alone."""
    leader = Log(end=20_000, local_start=8_000)
    start = 8_000 if pending == UNKNOWN else pending
    back = Partition(replicas=(1, 3), isr=(1,), logs={1: leader, 3: Log(end=5_000)})
    joined = replace(back, logs={1: leader, 3: Log(end=start + 1_000, local_start=start)})
    state = watched(back, joined)
    row = only(state)
    assert (row.path.tolist(), row.start_offset.tolist()) == ([path], [start])
    assert row.records_per_s.tolist() == [200]
    assert state[CatchUpEstimates].progress.tolist() == [pytest.approx(1_000 / (20_000 - start))]
    assert seconds_left(state) == [pytest.approx((20_000 - start - 1_000) / 200)]


def test_a_replica_whose_first_segments_are_deleted_goes_on():
    leader = Log(end=20_000, local_start=8_000)
    back = Partition(replicas=(1, 3), isr=(1,), logs={1: leader, 3: Log(end=9_000)})
    later = replace(back, logs={1: leader, 3: Log(end=10_000, local_start=8_000)})
    row = only(watched(back, later))
    assert (row.path.tolist(), row.start_offset.tolist()) == ([UNKNOWN], [9_000])


def test_progress_rate_and_time_left():
    """It starts at 900 of 1000, and copies 25 in 5 s: 5 a second, 50 are left."""
    state = watched(joins(Log(end=925, local_start=900)), joins(Log(end=950, local_start=900)))
    assert state[CatchUpEstimates].progress.tolist() == [0.5]
    assert only(state).records_per_s.tolist() == [5]
    assert seconds_left(state) == [10]


def test_the_rate_of_a_replica_that_has_long_stood_still_is_zero():
    copies = [joins(Log(end=end, local_start=900)) for end in (925, 950, *[950] * 40)]
    assert only(watched(*copies)).records_per_s.tolist() == [0.0]


def test_what_is_written_meanwhile_has_to_be_copied_too():
    """The leader grows by 50 in 5 s, twice what the replica gains: it never gets there."""
    grown = replace(LEADER, end=1_050)
    state = watched(
        joins(Log(end=925, local_start=900)), joins(Log(end=950, local_start=900), grown)
    )
    assert seconds_left(state) == [math.inf]


def test_one_look_is_no_rate():
    state = watched(joins(Log(end=925, local_start=900)))
    assert math.isnan(seconds_left(state)[0])


@pytest.mark.parametrize(
    ("least_bytes", "seconds"), [(-1, 10), (300, 10), (500, 20), (math.inf, math.inf)]
)
def test_it_leads_once_it_has_caught_up_and_holds_enough(least_bytes, seconds):
    """It gains 5 records a second on a leader that writes 5, at 2.5 bytes each; 50 are left.

    It holds 125 bytes of the 250 it will have to copy by then, and grows by 12.5 a second.
    """
    kept = {"local_retention_bytes": 1_000}
    config = {"eligible_local_log_bytes": 2_000 if least_bytes == math.inf else least_bytes}
    state = watched(
        joins(Log(end=900, local_start=900, size_bytes=0), replace(LEADER, end=975)),
        joins(Log(end=950, local_start=900, size_bytes=125)),
        topic=kept,
        **config,
    )
    assert seconds_to_lead(state) == [seconds]


def test_when_it_leads_is_unknown_before_it_has_a_rate():
    state = watched(joins(Log(end=925, local_start=900)), eligible_local_log_bytes=300)
    assert math.isnan(seconds_to_lead(state)[0])


def test_the_stuck_idle_partition_is_flagged_at_the_second_look_and_cleared_by_one_record():
    idle = Log(
        end=1_000, local_start=1_000, last_tiered=999, size_bytes=0, reason=PendingUpload.ALL_TIERED
    )
    part = joins(Log(end=0), idle)
    assert stuck(watched(part)) == [False]
    state = watched(part, part)
    assert only(state).stuck.tolist() == [StuckReason.STUCK_IDLE]
    assert "bootstrap_stuck" in open_risks(state)
    written = replace(idle, end=1_001, pending_upload=1_000, reason=PendingUpload.KNOWN)
    freed = joins(Log(end=1_001, local_start=1_000), written)
    assert "bootstrap_stuck" not in open_risks(watched(part, part, freed))


def test_an_added_replica_that_waits_for_an_upload_is_told_when_copies_are_disabled():
    """KIP-950: the tier ends below the log start, and there is no next upload."""
    ended = Log(end=1_000, start=600, local_start=600, last_tiered=499, pending_upload=600,
                reason=PendingUpload.KNOWN, size_bytes=4_000)  # fmt: skip
    part = joins(Log(end=0), ended)
    for disabled, reason in ((0, StuckReason.BELOW_LOG_START), (1, StuckReason.COPIES_DISABLED)):
        state = watched(part, part, topic={"copies_disabled": disabled})
        assert only(state).stuck.tolist() == [reason]
        assert "bootstrap_stuck" in open_risks(state)
        counts = computed(state, "kafka_twin_replicas_stuck")
        assert counts[(reason.name.lower(),)] == 1


def test_the_followers_own_setting_decides_where_it_starts():
    """Everything is tiered and nobody writes: a follower that asks for -6 alone is stuck at it."""
    idle = replace(LEADER, end=1_000, local_start=1_000, last_tiered=999, pending_upload=UNKNOWN,
                   reason=PendingUpload.ALL_TIERED)  # fmt: skip
    part = joins(Log(end=0), idle)
    for cluster_wide in (0, 1, UNKNOWN):
        for own, reason in ((1, StuckReason.STUCK_IDLE), (0, UNKNOWN)):
            state = watched(part, part, own={1: 1 - own, 3: own}, last_tiered_fetch=cluster_wide)
            assert only(state).stuck.tolist() == [reason]
            assert state[FollowerFeatures].last_tiered_fetch[0].tolist() == [own, 1 - own]
    unread = watched(part, part, last_tiered_fetch=1)
    assert only(unread).stuck.tolist() == [StuckReason.STUCK_IDLE], "the cluster's stands for it"


def test_without_an_explanation_it_takes_ten_seconds():
    half = joins(Log(end=950, local_start=900))
    assert stuck(watched(half, half)) == [False]
    state = watched(half, half, half)
    assert only(state).stuck.tolist() == [StuckReason.UNEXPLAINED]


def test_a_follower_that_a_slow_leader_removed_waits_for_it_and_is_not_stuck():
    logs = {1: Log(end=1_000), 2: Log(end=950), 3: Log(end=950)}
    whole, alone = Partition(logs=logs), Partition(logs=logs, isr=(1,))
    both = watched(whole, alone, alone, alone)  # both followers leave at once: the leader is slow
    assert both[IsrShrinks].verdict.tolist() == [Verdict.SLOW_LEADER] * 2
    assert stuck(both) == [False]
    one = replace(whole, isr=(1, 3))
    # One alone: the follower is slow, unless the leader still works on its fetch.
    assert stuck(watched(whole, *[one] * 3)) == [False]
    assert stuck(watched(whole, *[one] * 14)) == [True]


def test_a_silent_broker_is_named_as_the_reason_and_pages_by_its_own_risk():
    half = joins(Log(end=950, local_start=900))
    for silent, reason in ((3, StuckReason.BROKER_SILENT), (1, StuckReason.LEADER_SILENT)):
        gone = replace(half, silent=(silent,))
        state = watched(half, gone, gone)
        assert only(state).stuck.tolist() == [reason]
        assert stuck(state) == [False]


def test_a_replica_that_has_everything_is_not_stuck():
    whole = joins(Log(end=1_000, local_start=900))
    assert stuck(watched(whole, whole, whole, whole)) == [False]


def test_an_hour_to_go_after_a_minute_is_late():
    slow = [
        joins(Log(end=900 + i, local_start=900), replace(LEADER, end=50_000)) for i in range(14)
    ]
    state = watched(*slow[:12])
    assert late(state) == [False]
    state = watched(*slow)
    assert late(state) == [True]


def test_a_replica_that_joined_is_remembered_for_one_cycle():
    half = joins(Log(end=950, local_start=900))
    done = replace(half, isr=(1, 3), adding=())
    state = watched(half, done)
    assert (len(state[CatchingUp]), len(state.of_before(CatchingUp))) == (0, 1)
    assert len(watched(half, done, done).of_before(CatchingUp)) == 0


def test_rows_follow_their_partition_when_others_come_before_it():
    half = joins(Log(end=950, local_start=900), topic="t")
    state = watched(half)
    at_ms = NOW_MS + INTERVAL_MS
    both = [Partition("a"), half]
    state, _ = step(state, listed_frames(both, at_ms), at_ms)
    assert (only(state).row[0], only(state).since_ms[0]) == (1, NOW_MS)


REPLICA = st.builds(
    joins,
    st.builds(Log, end=st.integers(0, 4), local_start=st.integers(0, 2)),
    st.builds(Log, end=st.integers(3, 6), local_start=st.integers(0, 3),
              last_tiered=st.integers(UNKNOWN, 4), pending_upload=st.integers(UNKNOWN, 5),
              reason=st.sampled_from(PendingUpload)),
)  # fmt: skip


@examples(100)
@given(st.lists(REPLICA, min_size=1, max_size=5), st.booleans(), st.randoms())
def test_the_frames_of_a_cycle_give_the_same_state_in_any_order(
    cycles: list[Partition], added: bool, rng: random.Random
):
    whole = single = empty()
    for i, cycle in enumerate(cycles):
        part = cycle if added else replace(cycle, adding=())
        at_ms = NOW_MS + i * INTERVAL_MS
        frames = cycle_frames([part], at_ms, ids=range(1, 6))
        whole, _ = step(whole, frames, at_ms)
        for frame in rng.sample(frames, 3):
            single, _ = step(single, [frame], at_ms)
    assert codec.encode(whole) == codec.encode(single)
    assert len(whole[CatchingUp]) == 1
