"""What people reported of Kafka and of tools around it, each as what the twin says of it.

The number after a repository is an issue or a pull request on GitHub; AK is apache/kafka.
"""

from __future__ import annotations

from dataclasses import replace

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    group_offsets_frame,
    groups_frame,
)
from tests.reading import conditions, open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.groups.moves import GroupLags
from twin.rules.replication.isr import IsrSizes
from twin.step import step
from twin.tables.enums import BatchKind, PendingUpload

DAY_MS = 86_400_000
PLAIN = {
    "compacted": 0, "remote_storage": 0, "retention_ms": DAY_MS, "segment_ms": DAY_MS,
    "retention_bytes": -1, "segment_bytes": 1 << 20,
}  # fmt: skip
TIERED = PLAIN | {
    "remote_storage": 1, "copies_disabled": 0, "tiered_compacted": 0, "local_retention_ms": 60_000,
    "local_retention_bytes": 10_000, "upload_delay_ms": 0, "upload_delay_bytes": 0,
    "segment_bytes": 1_000,
}  # fmt: skip


def cycles(*parts: Partition, topic: dict[str, int] = PLAIN, since: ShardState | None = None):
    """The state after a cycle for each of those, five seconds apart."""
    for part in parts:
        at_ms = NOW_MS if since is None else since.observed_at_ms + 5_000
        since = a_state(part, since=since, at_ms=at_ms, topics={"t": topic})
    assert since is not None
    return since


def read_by(state: ShardState, part: Partition, *offsets: int) -> ShardState:
    """The state after a cycle for each offset that a stable group has committed there."""
    for offset in offsets:
        state = cycles(part, since=state)
        at_ms = state.observed_at_ms
        groups = [Group(offsets=[(part, offset)])]
        frames = [groups_frame(groups, at_ms), group_offsets_frame(groups, at_ms)]
        state, _ = step(state, frames, at_ms)
    return state


def group_risks(state: ShardState) -> set[str]:
    return {name for name in conditions(state) if name.startswith("consumer")}


def test_a_group_without_an_offset_in_a_partition_has_no_lag_there():
    """kafka-lag-exporter 45, kafka_exporter 28: it was the whole log."""
    part = Partition(log=Log(end=1_234_234))
    state = read_by(cycles(part), part, UNKNOWN)
    assert state[GroupLags].lag_records.tolist() == [UNKNOWN]
    assert group_risks(state) == set()


def test_an_idle_topic_that_retention_has_emptied_hurts_no_group_that_had_read_it():
    """kafka-lag-exporter 37: the lag grew by an order of magnitude."""
    part = Partition(log=Log(end=100, start=100, local_start=100, size_bytes=0))
    state = read_by(cycles(Partition(), part), part, 100, 100)
    assert state[GroupLags].lag_records.tolist() == [0]
    assert group_risks(state) == set()


def test_a_group_that_commits_while_the_log_is_read_has_no_negative_lag():
    """kafka_exporter 437, prometheus-kafka-consumer-group-exporter 21: autoscalers broke on it."""
    part = Partition(log=Log(end=100, high_watermark=100))
    state = read_by(cycles(part), part, 90, 103)
    assert state[GroupLags].lag_records.tolist() == [0]
    assert group_risks(state) == set()


def test_a_marker_of_a_transaction_at_the_end_of_an_emptied_log_is_no_lost_record():
    """Burrow 701: the group stands before the marker for ever, and retention passes it."""
    emptied = Log(end=101, start=101, local_start=101, size_bytes=0, first_batch=UNKNOWN)
    part = Partition(log=emptied)
    before = Partition(log=Log(end=101, start=90, local_start=90, first_batch=BatchKind.CONTROL))
    state = read_by(cycles(before, part), part, 100, 100)
    assert "consumer_loses_records" not in group_risks(state)


def test_a_new_leader_that_has_not_learnt_what_is_uploaded_is_not_late():
    """AK 22737 (KAFKA-20732): its -5 is -1 until its first task has run."""
    log = Log(end=100_000, last_tiered=99_990, size_bytes=100_000, pending_upload=99_991,
              reason=PendingUpload.KNOWN)  # fmt: skip
    learns = replace(log, last_tiered=UNKNOWN, pending_upload=0)
    led = Partition(leader=2, epoch=2, log=learns)
    state = cycles(Partition(log=log), Partition(log=log), *[led] * 6, topic=TIERED)
    assert "upload_lag_vs_local_retention" not in open_risks(state)
    knows = replace(led, log=log)
    state = cycles(*[knows] * 12, topic=TIERED, since=state)
    assert "upload_lag_vs_local_retention" not in open_risks(state)


def test_a_replica_that_a_reassignment_adds_makes_nothing_under_replicated():
    """AK 7361 (KIP-352)."""
    part = Partition(replicas=(1, 2, 3, 4), adding=(4,), isr=(1, 2, 3), logs={4: Log(end=10)})
    state = a_state(part, min_insync_replicas=2)
    assert (state[IsrSizes].size.tolist(), state[IsrSizes].expected.tolist()) == ([3], [3])
    assert conditions(state).isdisjoint({"at_min_isr", "under_min_isr", "no_clean_successor"})


def test_a_replica_out_of_sync_that_never_deletes_what_is_uploaded_is_named():
    """fluss 623: nobody tells it what is uploaded, so it keeps all of it."""
    uploaded = Log(end=100_000, local_start=99_000, last_tiered=99_990, size_bytes=1_000)
    keeps = replace(uploaded, local_start=0, size_bytes=100_000)
    part = Partition(isr=(1, 2), log=uploaded, logs={3: keeps})
    assert "kept_beyond_retention" in conditions(cycles(part, topic=TIERED))
    assert "kept_beyond_retention" not in conditions(cycles(replace(part, logs={}), topic=TIERED))


def test_a_replica_that_its_broker_never_made_is_stuck():
    """AK 15230 (KAFKA-14616): under-replicated until the broker is restarted."""
    made = Partition(isr=(1, 2), logs={3: Log(end=UNKNOWN, error=3)})
    state = cycles(*[made] * 130)
    assert "bootstrap_stuck" in open_risks(state)


def test_a_broker_that_comes_back_with_an_empty_volume_is_no_clean_successor():
    """redpanda 22801."""
    part = Partition(isr=(1,), logs={2: Log(end=0), 3: Log(end=0)})
    state = cycles(Partition(), part)
    assert "no_clean_successor" in conditions(state)


def test_a_follower_that_waits_for_its_leader_to_know_the_tier_is_not_stuck_at_once():
    """AK 20201 (KAFKA-19523): it retries for a moment after each change of the leader."""
    leads = Log(end=100_000, local_start=50_000, last_tiered=99_990, size_bytes=50_000,
                pending_upload=99_991, reason=PendingUpload.KNOWN)  # fmt: skip
    part = Partition(isr=(1, 2), log=leads, logs={3: Log(end=0, size_bytes=0)})
    assert "bootstrap_stuck" not in open_risks(cycles(*[part] * 12, topic=TIERED))
    assert "bootstrap_stuck" in open_risks(cycles(*[part] * 14, topic=TIERED))
