"""Where an empty follower starts (KIP-1023).

``SCENARIOS`` are the facts of those tests of Kafka's AbstractFetcherThreadTest whose names begin
with testEmptyFollowerFetch and testLastTieredOffset: the leader's offsets and where its follower
ends up. Their leader is a stand-in that answers otherwise than a broker does, so each row also says
what a broker of Kafka 4.3.1 does, as measured: it never answers with its log end, and a follower
cannot start at the log start unless remote storage holds the offset before it.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Log, Partition, a_state
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.tiering.bootstrap import (
    Bootstrap,
    BootstrapOff,
    BootstrapOn,
    BootstrapPath,
    copy_seconds,
    follower_start_offset,
    saved_share,
)
from twin.tables.enums import PendingUpload

ZERO, LOCAL = BootstrapPath.FROM_ZERO, BootstrapPath.FROM_LOCAL_START
PENDING = BootstrapPath.FROM_PENDING_UPLOAD
NOTHING, LEARNING = BootstrapPath.NOTHING_TIERED_YET, BootstrapPath.LEADER_LEARNING
IDLE, BELOW = BootstrapPath.STUCK_IDLE, BootstrapPath.BELOW_LOG_START
NO = UNKNOWN
RETRY = UNKNOWN

# name, tiered, feature, log start, local start, pending upload, log end -> start offset in Kafka's
# test (RETRY: it fails and tries again), path and start offset on a real broker
SCENARIOS = [
    ("DisabledLogStartZero", 0, 0, 0, 0, NO, 200, 0, ZERO, 0),
    ("DisabledLogStartNonZero", 0, 0, 10, 10, NO, 200, 10, LOCAL, 10),
    ("EnabledLogStartZeroNoLocalDeletions", 1, 0, 0, 0, NO, 200, 0, ZERO, 0),
    ("EnabledLogStartZeroLocalDeletions", 1, 0, 0, 100, NO, 200, 100, LOCAL, 100),
    ("EnabledLogStartNonZeroNoLocalDeletions", 1, 0, 10, 10, NO, 200, 10, LOCAL, 10),
    ("EnabledLogStartNonZeroLocalDeletions", 1, 0, 10, 100, NO, 200, 100, LOCAL, 100),
    ("EnabledLogStartZeroAllLocalDeleted", 1, 0, 0, 151, NO, 151, 151, LOCAL, 151),
    ("EnabledLogStartNonZeroAllLocalDeleted", 1, 0, 10, 151, NO, 151, 151, LOCAL, 151),
    ("EmptyLeaderLog", 1, 1, 0, 0, NO, 0, 0, ZERO, 0),
    ("NoSegmentsUploaded", 1, 1, 0, 0, NO, 200, 0, ZERO, 0),
    ("PartialUploadOnNewLeader", 1, 1, 0, 10, NO, 200, RETRY, LEARNING, NO),
    ("SlowPartialUpload", 1, 1, 0, 10, 10, 200, 10, PENDING, 10),
    ("FastPartialUpload", 1, 1, 0, 10, 150, 200, 150, PENDING, 150),
    ("FullUploadCompleted", 1, 1, 0, 10, 200, 200, 200, IDLE, NO),
    ("InactiveLeaderFullUploadOnNewLeader", 1, 1, 0, 200, NO, 200, RETRY, LEARNING, NO),
    ("InactiveLeaderFullUpload", 1, 1, 0, 200, 200, 200, 200, IDLE, NO),
    ("EmptyLeaderLogNonZeroLSOOnNewLeader", 1, 1, 10, 10, NO, 10, 10, NOTHING, NO),
    ("EmptyLeaderLogStaleUploadOffset", 1, 1, 10, 10, 5, 10, 10, BELOW, NO),
    ("NonZeroLSOOnNewLeader", 1, 1, 10, 10, NO, 200, 10, NOTHING, NO),
    ("NonZeroLSOStaleUploadOffset", 1, 1, 10, 10, 5, 200, 10, BELOW, NO),
    ("SlowUploadNoLocalDeletion", 1, 1, 10, 10, 10, 200, 10, BELOW, NO),
    ("FastUploadNoLocalDeletion", 1, 1, 10, 10, 150, 200, 150, PENDING, 150),
    # All is tiered and all is local: where the remote segments end decides, and no answer says.
    ("FullUploadNoLocalDeletion", 1, 1, 10, 10, 200, 200, 200, UNKNOWN, NO),
    ("PartialUploadOnNewLeaderNonZeroLSO", 1, 1, 10, 100, NO, 200, RETRY, LEARNING, NO),
    ("PartialUploadAndStaleUploadOffset", 1, 1, 10, 100, 5, 200, 100, BELOW, NO),
    ("SlowUploadNonZeroLSO", 1, 1, 10, 100, 100, 200, 100, PENDING, 100),
    ("FastUploadNonZeroLSO", 1, 1, 10, 100, 150, 200, 150, PENDING, 150),
    ("FullUploadNonZeroLSO", 1, 1, 10, 100, 200, 200, 200, IDLE, NO),
    ("InactiveLeaderFullUploadNonZeroLSOOnNewLeader", 1, 1, 10, 200, NO, 200, RETRY, LEARNING, NO),
    ("InactiveLeaderStaleUploadNonZeroLSO", 1, 1, 10, 200, 5, 200, 200, BELOW, NO),
    ("InactiveLeaderFullUploadNonZeroLSO", 1, 1, 10, 200, 200, 200, 200, IDLE, NO),
    # A local start below the log start: no broker answers so, and there is nothing to predict.
    ("StaleLocalLogOffsetNewLeader", 1, 1, 10, 5, NO, 200, RETRY, None, None),
    ("StaleLocalLogOffsetSlowUpload", 1, 1, 10, 5, 10, 200, 10, None, None),
    ("StaleLocalLogOffsetFastUpload", 1, 1, 10, 5, 150, 200, 150, None, None),
    ("StaleLocalLogOffsetFullUpload", 1, 1, 10, 5, 200, 200, 200, None, None),
    # As FastUploadNoLocalDeletion, and remote storage fails: it tries again, and then succeeds.
    ("RetryableRemoteStorageException", 1, 1, 10, 10, 150, 200, 150, PENDING, 150),
]


def a_leader(
    start: int, local: int, pending: int, end: int, tiered: int = 1, **more: int
) -> ShardState:
    """A partition whose leader answers as a broker does."""
    answered = max(pending, start)  # UnifiedLog does not answer below its log start
    is_known = pending != UNKNOWN
    if is_known and answered >= end:
        answer, reason = UNKNOWN, PendingUpload.ALL_TIERED  # ReplicaManager suppresses its log end
    elif is_known:
        answer, reason = answered, PendingUpload.KNOWN
    elif local == start and start < end:
        answer, reason = start, PendingUpload.KNOWN
    else:
        answer = UNKNOWN
        reason = PendingUpload.LEARNING if local > start else PendingUpload.NOTHING_TIERED
    last_tiered = pending - 1 if is_known else UNKNOWN
    log = Log(end, local, start, 10 * (end - local), last_tiered=last_tiered, pending_upload=answer,
              reason=reason)  # fmt: skip
    return a_state(Partition(log=log), topics={"t": {"remote_storage": tiered} | more})


def bootstrap(state: ShardState, on: bool) -> Bootstrap:
    return state[BootstrapOn] if on else state[BootstrapOff]


@pytest.mark.parametrize(
    ("tiered", "feature", "start", "local", "pending", "end", "kafka", "path", "begins"),
    [row[1:] for row in SCENARIOS],
    ids=[row[0] for row in SCENARIOS],
)
class TestScenarios:
    def test_the_follower_decides_as_in_kafkas_own_test(
        self, tiered, feature, start, local, pending, end, kafka, path, begins
    ):
        if not (tiered and feature and end) or local == 0:
            # Without the feature it goes to the local start.
            state = a_leader(start, local, pending, end, tiered)
            assert bootstrap(state, bool(feature)).start_offset.tolist() == [kafka]
            return
        # Their leader answers no lower than its local start.
        answer = UNKNOWN if pending == UNKNOWN else max(pending, start, local)
        decided = follower_start_offset(*(np.array([v]) for v in (answer, start, local)))
        assert decided.tolist() == [kafka]

    def test_a_real_broker_is_predicted(
        self, tiered, feature, start, local, pending, end, kafka, path, begins
    ):
        if path is None:
            assert local < start
            return
        predicted = bootstrap(a_leader(start, local, pending, end, tiered), bool(feature))
        assert (predicted.path[0], predicted.start_offset[0]) == (path, begins)


def test_there_are_as_many_scenarios_as_in_kafkas_test():
    assert len(SCENARIOS) == len({row[0] for row in SCENARIOS}) == 36


def test_a_compacted_topic_and_one_that_is_not_tiered_never_use_the_feature():
    for state in (a_leader(0, 10, 150, 200, compacted=1), a_leader(0, 10, 150, 200, tiered=0)):
        assert bootstrap(state, True).path.tolist() == [LOCAL]


@pytest.mark.parametrize(
    ("pending", "path"), [(400, BELOW), (NO, NOTHING)], ids=["tier ends below", "nothing tiered"]
)
def test_with_copies_disabled_there_is_no_upload_to_wait_for(pending, path):
    """KIP-950: nobody uploads any more, so what waits for an upload waits for a person."""
    waits, ended = (a_leader(600, 600, pending, 1_000, copies_disabled=c) for c in (0, 1))
    assert bootstrap(waits, True).path.tolist() == [path]
    assert bootstrap(ended, True).path.tolist() == [BootstrapPath.COPIES_DISABLED]
    assert bootstrap(ended, True).start_offset.tolist() == [UNKNOWN]
    assert bootstrap(ended, False).path.tolist() == [LOCAL]


def test_with_copies_disabled_a_leader_never_learns_what_is_tiered_by_itself():
    """RLMCopyTask tells it, and is not started."""
    learns, never = (a_leader(0, 10, NO, 200, copies_disabled=c) for c in (0, 1))
    assert bootstrap(learns, True).path.tolist() == [LEARNING]
    assert bootstrap(never, True).path.tolist() == [BootstrapPath.COPIES_DISABLED]


def test_with_copies_disabled_what_is_tiered_still_spares_a_follower_the_copy():
    ended = a_leader(0, 10, 150, 200, copies_disabled=1)
    assert bootstrap(ended, True).path.tolist() == [PENDING]


def test_what_it_costs_and_what_the_feature_spares():
    state = a_leader(0, 100, 180, 200)
    on, off = bootstrap(state, True), bootstrap(state, False)
    assert (on.records[0], off.records[0]) == (20, 100)
    assert (on.bytes_estimate[0], off.bytes_estimate[0]) == (200, 1_000)
    assert saved_share(on, off)[0] == 0.8
    assert copy_seconds(on, 50).tolist() == [4]
    with pytest.raises(ValueError, match="bytes_per_second is 0"):
        copy_seconds(on, 0)


def test_what_was_not_observed_stays_unknown():
    silent = a_state(Partition(silent=(1,)))
    answer = bootstrap(silent, True)
    assert [answer.path[0], answer.start_offset[0], answer.records[0]] == [UNKNOWN] * 3
    assert math.isnan(answer.bytes_estimate[0])
    old_broker = Partition(log=Log(end=200, local_start=10, reason=PendingUpload.ABSENT))
    state = a_state(old_broker, topics={"t": {"remote_storage": 1}})
    assert bootstrap(state, True).path.tolist() == [UNKNOWN]


@given(
    start=st.integers(0, 50), local=st.integers(0, 50), tiered=st.integers(-1, 120),
    end=st.integers(0, 60), on=st.booleans(),
)  # fmt: skip
def test_it_starts_within_the_log_and_the_feature_never_copies_more(start, local, tiered, end, on):
    local = max(start, local)
    end = max(end, local)
    pending = UNKNOWN if tiered < 0 else min(tiered, end)
    state = a_leader(start, local, pending, end)
    answer, off = bootstrap(state, on), bootstrap(state, False)
    if answer.start_offset[0] != UNKNOWN:
        assert start <= answer.start_offset[0] <= end
        # A tier that ends below the local start is a gap that no log has.
        if pending == UNKNOWN or pending >= local:
            assert answer.records[0] <= off.records[0]
