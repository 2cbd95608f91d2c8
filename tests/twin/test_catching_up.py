"""Replicas on their way into the ISR."""

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    NOW_MS,
    Log,
    Partition,
    a_fleet,
    brokers_frame,
    partitions_frame,
    replicas_frame,
)
from twin import fleet as fleets
from twin.fleet import Fleet
from twin.rules.joining import active, late, progress, seconds_left, seconds_to_lead, stuck
from twin.rules.risks import Risk
from twin.sparse import Joins
from twin.step import step
from twin.tables import UNKNOWN, JoinPath, PendingUpload, StuckReason

INTERVAL_MS = 5_000
LEADER = Log(end=1_000, local_start=600, last_tiered=899, pending_upload=900)


def joining(log: Log, leader: Log = LEADER, **more) -> Partition:
    """Broker 3 is being added to a partition that 1 leads."""
    return Partition(replicas=(3, 1), leader=1, isr=(1,), adding=(3,), logs={1: leader, 3: log},
                     **more)  # fmt: skip


def watched(*parts: Partition, topic: Mapping[str, int] | None = None, **config: int) -> Fleet:
    """The fleet after a cycle for each."""
    topics = {"t": {"remote_storage": 1, **(topic or {})}}
    fleet = a_fleet(parts[0], topics=topics, last_tiered_fetch=1, **config)
    for part in parts[1:]:
        at_ms = fleet.observed_at_ms + INTERVAL_MS
        frames = [brokers_frame(range(1, 6), at_ms, silent=part.silent),
                  partitions_frame([part], at_ms), replicas_frame([part], at_ms)]  # fmt: skip
        fleet, _ = step(fleet, frames, at_ms)
    return fleet


def row(fleet: Fleet) -> Joins:
    table = active(fleet)
    assert len(table) == 1
    return table


def test_a_follower_in_the_isr_and_one_on_a_dead_broker_are_not_joining():
    assert len(active(a_fleet(Partition()))) == 0
    assert len(active(a_fleet(Partition(isr=(1, 2), offline=(3,))))) == 0


def test_the_path_shows_in_where_the_local_log_begins():
    empty = joining(Log(end=0))
    for local, path in ((900, JoinPath.FROM_PENDING_UPLOAD), (600, JoinPath.FROM_LOCAL_START),
                        (0, JoinPath.FROM_ZERO)):  # fmt: skip
        fleet = watched(empty, joining(Log(end=950, local_start=local)))
        assert (row(fleet).path[0], row(fleet).start_offset[0]) == (path, local)
    assert row(watched(empty)).path.tolist() == [UNKNOWN]


def test_a_replica_that_had_records_is_catching_up_from_where_it_was_seen():
    back = Partition(isr=(1, 2), logs={3: Log(end=40)})
    fleet = a_fleet(back)
    assert (row(fleet).path[0], row(fleet).start_offset[0]) == (UNKNOWN, 40)


def test_progress_rate_and_time_left():
    """It starts at 900 of 1000, and copies 25 in 5 s: 5 a second, 50 are left."""
    fleet = watched(joining(Log(end=925, local_start=900)), joining(Log(end=950, local_start=900)))
    of = row(fleet)
    assert progress(fleet, of).tolist() == [0.5]
    assert of.records_per_s.tolist() == [5]
    assert seconds_left(fleet, of).tolist() == [10]


def test_what_is_written_meanwhile_has_to_be_copied_too():
    """The leader grows by 50 in 5 s, twice what the replica gains: it never gets there."""
    grown = replace(LEADER, end=1_050)
    fleet = watched(
        joining(Log(end=925, local_start=900)), joining(Log(end=950, local_start=900), grown)
    )
    assert seconds_left(fleet, row(fleet)).tolist() == [math.inf]


def test_one_look_is_no_rate():
    fleet = watched(joining(Log(end=925, local_start=900)))
    assert math.isnan(seconds_left(fleet, row(fleet))[0])


@pytest.mark.parametrize(
    ("least_bytes", "seconds"), [(-1, 10), (300, 10), (500, 20), (math.inf, math.inf)]
)
def test_it_leads_once_it_has_caught_up_and_holds_enough(least_bytes, seconds):
    """It gains 5 records a second on a leader that writes 5, at 2.5 bytes each; 50 are left.

    It holds 125 bytes of the 250 it will have to copy by then, and grows by 12.5 a second.
    """
    kept = {"local_retention_bytes": 1_000}
    config = {"eligible_local_log_bytes": 2_000 if least_bytes == math.inf else least_bytes}
    fleet = watched(
        joining(Log(end=900, local_start=900, size_bytes=0), replace(LEADER, end=975)),
        joining(Log(end=950, local_start=900, size_bytes=125)),
        topic=kept, **config,
    )  # fmt: skip
    assert seconds_to_lead(fleet, row(fleet), fleet.observed_at_ms).tolist() == [seconds]


def test_nobody_can_tell_when_it_leads_before_it_has_a_rate():
    fleet = watched(joining(Log(end=925, local_start=900)), eligible_local_log_bytes=300)
    assert math.isnan(seconds_to_lead(fleet, row(fleet), fleet.observed_at_ms)[0])


def test_the_stuck_idle_partition_is_flagged_at_the_second_look_and_cleared_by_one_record():
    idle = Log(end=1_000, local_start=1_000, last_tiered=999, size_bytes=0,
               reason=PendingUpload.ALL_TIERED)  # fmt: skip
    part = joining(Log(end=0), idle)
    assert not stuck(watched(part)).any()
    fleet = watched(part, part)
    assert row(fleet).stuck.tolist() == [StuckReason.STUCK_IDLE]
    assert fleet.risks[0] & Risk.BOOTSTRAP_STUCK
    written = replace(idle, end=1_001, pending_upload=1_000, reason=PendingUpload.KNOWN)
    freed = joining(Log(end=1_001, local_start=1_000), written)
    assert not watched(part, part, freed).risks[0] & Risk.BOOTSTRAP_STUCK


def test_without_an_explanation_it_takes_ten_seconds():
    half = joining(Log(end=950, local_start=900))
    assert not stuck(watched(half, half)).any()
    fleet = watched(half, half, half)
    assert row(fleet).stuck.tolist() == [StuckReason.UNEXPLAINED]


def test_a_silent_broker_is_named_as_the_reason():
    half = joining(Log(end=950, local_start=900))
    for silent, reason in ((3, StuckReason.BROKER_SILENT), (1, StuckReason.LEADER_SILENT)):
        gone = replace(half, silent=(silent,))
        assert row(watched(half, gone, gone)).stuck.tolist() == [reason]


def test_a_replica_that_has_everything_is_not_stuck():
    whole = joining(Log(end=1_000, local_start=900))
    assert not stuck(watched(whole, whole, whole, whole)).any()


def test_an_hour_to_go_after_a_minute_is_late():
    slow = [joining(Log(end=900 + i, local_start=900), replace(LEADER, end=50_000))
            for i in range(14)]  # fmt: skip
    fleet = watched(*slow[:12])
    assert not late(fleet, fleet.observed_at_ms).any()
    fleet = watched(*slow)
    assert late(fleet, fleet.observed_at_ms).all()


def test_who_joined_is_forgotten_with_the_next_cycle():
    half = joining(Log(end=950, local_start=900))
    done = replace(half, isr=(1, 3), adding=())
    fleet = watched(half, done)
    assert (len(active(fleet)), len(fleet.joins)) == (0, 1)
    assert len(watched(half, done, done).joins) == 0


def test_rows_speak_of_the_partition_also_when_others_come_before_it():
    half = joining(Log(end=950, local_start=900), topic="t")
    fleet = watched(half)
    at_ms = NOW_MS + INTERVAL_MS
    both = [Partition("a"), half]
    fleet, _ = step(fleet, [partitions_frame(both, at_ms), replicas_frame(both, at_ms)], at_ms)
    assert (row(fleet).row[0], row(fleet).since_ms[0]) == (1, NOW_MS)


REPLICA = st.builds(
    joining,
    st.builds(Log, end=st.integers(0, 4), local_start=st.integers(0, 2)),
    st.builds(Log, end=st.integers(3, 6), local_start=st.integers(0, 3),
              last_tiered=st.integers(UNKNOWN, 4), pending_upload=st.integers(UNKNOWN, 5),
              reason=st.sampled_from(PendingUpload)),
)  # fmt: skip


@given(st.lists(REPLICA, min_size=1, max_size=5), st.booleans(), st.randoms())
def test_the_frames_of_a_cycle_say_the_same_in_any_order(
    cycles: list[Partition], added: bool, rng: random.Random
):
    whole = single = fleets.empty("c", 0, 1)
    for i, cycle in enumerate(cycles):
        part = cycle if added else replace(cycle, adding=())
        at_ms = NOW_MS + i * INTERVAL_MS
        frames = [brokers_frame(range(1, 6), at_ms), partitions_frame([part], at_ms),
                  replicas_frame([part], at_ms)]  # fmt: skip
        whole, _ = step(whole, frames, at_ms)
        for frame in rng.sample(frames, 3):
            single, _ = step(single, [frame], at_ms)
    assert fleets.encode(whole) == fleets.encode(single)
    assert len(active(whole)) == 1
