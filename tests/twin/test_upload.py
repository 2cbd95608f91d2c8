"""Uploads against local retention."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders import NOW_MS, Log, Partition, a_state, replicas_frame
from tests.reading import conditions, open_risks
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.rules.tiering.tier_states import TierState, TierStates
from twin.rules.tiering.upload import UploadLag
from twin.step import step
from twin.tables.enums import NOT_SET, UNLIMITED, PendingUpload
from twin.totals import shard_totals

TIERED = {"remote_storage": 1, "copies_disabled": 0, "upload_delay_ms": 0, "upload_delay_bytes": 0}


def test_the_lag_counts_what_lies_beyond_the_last_tiered_offset():
    parts = [
        Partition(number=0, log=Log(end=100, last_tiered=89, size_bytes=1_000)),
        Partition(number=1, log=Log(end=100, last_tiered=99)),
        Partition(number=2, log=Log(end=100, last_tiered=UNKNOWN)),
    ]
    lag = a_state(*parts, topics={"t": TIERED})[UploadLag]
    assert lag.upload_lag_records.tolist() == [10, 0, UNKNOWN]
    assert lag.upload_lag_bytes[0] == 100
    assert np.isnan(lag.upload_lag_bytes[2])


def test_where_all_is_uploaded_and_nothing_is_on_disk_no_byte_waits():
    log = Log(end=100, local_start=100, last_tiered=99, size_bytes=0)
    lag = a_state(Partition(log=log), topics={"t": TIERED})[UploadLag]
    assert (lag.upload_lag_records.tolist(), lag.upload_lag_bytes.tolist()) == ([0], [0.0])


def lag_by_broker(*parts: Partition) -> dict[tuple[str, ...], float]:
    state = a_state(*parts, topics={"t": TIERED})
    return dict(shard_totals(state)["kafka_twin_broker_upload_lag_bytes"])


def test_a_broker_has_the_known_lag_of_what_it_leads_and_no_lag_where_none_is_known():
    """Before Kafka 3.9 none is: that is not the same as 0."""
    without_answer, uploading = (
        Log(last_tiered=UNKNOWN),
        Log(end=100, last_tiered=89, size_bytes=1_000),
    )
    assert lag_by_broker(Partition(log=without_answer)) == {}
    parts = [
        Partition(number=0, log=without_answer),
        Partition(number=1, log=uploading),
        Partition(number=2, replicas=(2, 1), log=Log(end=100, last_tiered=99)),
        Partition(number=3, replicas=(3, 1), log=without_answer),
    ]
    assert lag_by_broker(*parts) == {("1",): 100, ("2",): 0}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"local_retention_bytes": 1_000}, True),  # 90 records of 10 B: exactly 0.9 of it
        ({"local_retention_bytes": 1_001}, False),
        ({"local_retention_ms": 5_000}, True),  # 20 records a second: 90 are 4.5 s
        ({"local_retention_ms": 5_001}, False),
        ({"local_retention_bytes": 1_000, "remote_storage": 0}, False),
        ({}, False),
        # The segment that is written is not uploaded: no lag that fits into it is late.
        ({"local_retention_bytes": 1_000, "segment_bytes": 818}, True),  # 81.8 of 90 records
        ({"local_retention_bytes": 1_000, "segment_bytes": 819}, False),
        ({"local_retention_bytes": 1_000, "segment_bytes": 9_999, "segment_ms": 4_090}, True),
        ({"local_retention_bytes": 1_000, "segment_bytes": 9_999, "segment_ms": 4_100}, False),
        # Uploads wait, by age or by bytes, whichever comes first: 81.8 records may.
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_090}, True),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_100}, False),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 5_000, "upload_delay_bytes": 818}, True),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 5_000, "upload_delay_bytes": 819}, False),
        ({"local_retention_ms": 5_000, "upload_delay_ms": 4_090, "segment_bytes": 10}, False),
        # As late as local retention lets them, and no segment ever by neither.
        ({"local_retention_bytes": 1_000, "upload_delay_bytes": 1_000}, False),
        ({"local_retention_bytes": 1_000, "upload_delay_ms": -1, "upload_delay_bytes": -1}, False),
    ],
)
def test_what_waits_for_upload_is_held_against_local_retention(config, expected):
    def log(end: int) -> Partition:
        return Partition(log=Log(end=end, last_tiered=109, size_bytes=end * 10))

    at_once = {"upload_delay_ms": 0, "upload_delay_bytes": 0}
    if config.keys() & at_once.keys():
        at_once = {"upload_delay_ms": UNLIMITED, "upload_delay_bytes": UNLIMITED}
    topics = {"t": TIERED | at_once | config}
    state, _ = step(
        a_state(log(100), topics=topics),
        [replicas_frame([log(200)], NOW_MS + 5_000)],
        NOW_MS + 5_000,
    )
    assert ("upload_lag_vs_local_retention" in conditions(state)) == expected


STARTED = Log(end=129_000, size_bytes=129_000, reason=PendingUpload.KNOWN, pending_upload=0)
SMALL = TIERED | {"local_retention_ms": 60_000, "local_retention_bytes": 10_000}


def written(log: Log, **config: int) -> ShardState:
    """A partition at 200 records a second, for two minutes of cycles."""
    state = None
    for after_ms in range(0, 120_001, 5_000):
        records = after_ms // 5
        part = Partition(log=replace(log, end=log.end + records))
        at = {} if state is None else {"since": state}
        state = a_state(part, topics={"t": SMALL | config}, at_ms=NOW_MS + after_ms, **at)
    assert state is not None
    return state


def test_uploads_that_never_worked_are_late_by_the_whole_log():
    state = written(STARTED)
    assert state[TierStates].tier_state.tolist() == [TierState.NOTHING_UPLOADED]
    assert state[UploadLag].upload_lag_records.tolist() == [153_000]
    assert "upload_lag_vs_local_retention" in open_risks(state)
    totals = shard_totals(state)["kafka_twin_broker_upload_lag_bytes"]
    assert totals[("1",)] == 153_000 * 129_000 // 153_000


GIB, MINUTE_MS, DAY_MS = 1 << 30, 60_000, 86_400_000
BY_TIME = TIERED | {
    "local_retention_ms": 10 * MINUTE_MS,
    "local_retention_bytes": UNLIMITED,
    "segment_ms": 7 * DAY_MS,
    "segment_bytes": GIB,
}
NEVER_UPLOADED = Log(
    end=20_000_000, size_bytes=20 * GIB, started_ms=UNKNOWN, reason=PendingUpload.NOTHING_TIERED
)


def idle_for(minutes: float, log: Log, **config: int) -> ShardState:
    """The state of a partition that nobody writes, after that time."""
    state = None
    for at_ms in (NOW_MS, NOW_MS + 5_000, NOW_MS + int(minutes * MINUTE_MS)):
        since = {} if state is None else {"since": state}
        topics = {"t": BY_TIME | config}
        state = a_state(Partition(log=log), topics=topics, at_ms=at_ms, **since)
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("minutes", "log", "config", "late"),
    [
        pytest.param(1, {"started_ms": NOW_MS - 2 * DAY_MS}, {}, True, id="two days old"),
        pytest.param(1, {"started_ms": NOW_MS - MINUTE_MS}, {}, False, id="just written"),
        pytest.param(8.9, {}, {}, False, id="seen for less than local retention"),
        pytest.param(9.1, {}, {}, True, id="seen for local retention, whatever its timestamps"),
        pytest.param(30, {"size_bytes": GIB}, {}, False, id="all is in the segment written last"),
        pytest.param(30, {"size_bytes": UNKNOWN}, {}, False, id="of unknown size"),
        pytest.param(30, {}, {"segment_bytes": UNKNOWN}, False, id="of unknown segments"),
        pytest.param(30, {}, {"local_retention_ms": UNLIMITED}, False, id="kept for ever"),
        pytest.param(30, {}, {"upload_delay_ms": 20 * MINUTE_MS, "upload_delay_bytes": -1}, True,
                     id="longer than uploads wait"),
        pytest.param(30, {}, {"upload_delay_ms": 40 * MINUTE_MS, "upload_delay_bytes": -1}, False,
                     id="uploads wait on purpose"),
        pytest.param(30, {"last_tiered": 19_900_000, "pending_upload": 19_900_001,
                          "reason": PendingUpload.KNOWN, "local_start": 1}, {}, False,
                     id="all but the last segment is uploaded"),
    ],
)  # fmt: skip
def test_an_idle_topic_of_which_nothing_was_ever_uploaded_fills_the_disk(
    minutes, log, config, late
):
    """KAFKA-19425, Aiven 481: 20 GiB, and local retention by time alone."""
    state = idle_for(minutes, replace(NEVER_UPLOADED, **log), **config)
    assert ("upload_lag_vs_local_retention" in conditions(state)) == late


def test_before_kafka_4_2_a_leader_says_of_uploads_only_that_there_are_none():
    log = replace(STARTED, reason=PendingUpload.NOTHING_TIERED, pending_upload=UNKNOWN)
    state = a_state(Partition(log=log), topics={"t": SMALL})
    assert state[UploadLag].upload_lag_records.tolist() == [129_000]


def test_copies_that_are_disabled_on_purpose_are_not_late():
    state = written(replace(STARTED, last_tiered=99), copies_disabled=1)
    assert state[TierStates].tier_state.tolist() == [TierState.COPIES_DISABLED]
    assert state[UploadLag].upload_lag_records.tolist() == [UNKNOWN]
    assert open_risks(state).isdisjoint({"upload_lag_vs_local_retention", "tier_disorder"})


def test_records_that_were_deleted_by_request_are_not_waiting_for_their_upload():
    log = Log(end=60_000, local_start=50_000, start=50_000, last_tiered=99, size_bytes=10_000)
    state = a_state(Partition(log=log), topics={"t": TIERED})
    assert state[TierStates].tier_state.tolist() == [TierState.BEGINS_AGAIN]
    assert state[UploadLag].upload_lag_records.tolist() == [10_000]


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ({}, TierState.UPLOADED),
        ({"upload_delay_ms": UNLIMITED, "upload_delay_bytes": UNLIMITED}, TierState.DELAYED),
        ({"upload_delay_ms": NOT_SET, "upload_delay_bytes": 0}, TierState.UPLOADED),
        ({"remote_storage": 0}, TierState.NOT_TIERED),
    ],
)
def test_what_uploads_do_follows_from_the_settings(config, state):
    part = Partition(log=Log(last_tiered=50))
    tiered = a_state(part, topics={"t": TIERED | config})
    assert tiered[TierStates].tier_state.tolist() == [state]
    name = state.name.lower()
    assert shard_totals(tiered)["kafka_twin_partitions_by_tier_state"][(name,)] == 1


def test_a_leader_that_does_not_say_what_is_tiered_is_unknown():
    assert a_state(topics={"t": TIERED})[TierStates].tier_state.tolist() == [UNKNOWN]


UPLOADING = Log(last_tiered=50, pending_upload=51, reason=PendingUpload.KNOWN)
UNREAD = Partition(log=UPLOADING)


def judged_of_the_tier(
    state: ShardState,
) -> tuple[list[int], list[int], dict[tuple[str, ...], float]]:
    totals = shard_totals(state)
    return (
        state[TierStates].tier_state.tolist(),
        state[UploadLag].upload_lag_records.tolist(),
        dict(totals["kafka_twin_broker_upload_lag_bytes"]),
    )


@pytest.mark.parametrize("log", [UPLOADING, replace(UPLOADING, last_tiered=UNKNOWN), Log()])
@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, id="settings that nobody could read"),
        pytest.param(
            TIERED | {"remote_storage": UNKNOWN, "compacted": 1, "tiered_compacted": 1},
            id="tiered and compacted",
        ),
        pytest.param(TIERED | {"copies_disabled": UNKNOWN}, id="whether copies are disabled"),
    ],
)
def test_nothing_is_said_of_the_uploads_of_a_topic_whose_settings_do_not_tell(log, config):
    state = a_state(Partition(log=log), topics={"t": config} if config else None)
    assert judged_of_the_tier(state) == ([UNKNOWN], [UNKNOWN], {})
    assert shard_totals(state)["kafka_twin_partitions_by_tier_state"][("unknown",)] == 1


def test_a_delay_that_nobody_could_read_is_not_a_delay_without_a_limit():
    unread = TIERED | {"upload_delay_ms": NOT_SET, "upload_delay_bytes": NOT_SET}
    [[state], [lag], _] = judged_of_the_tier(a_state(UNREAD, topics={"t": unread}))
    assert (state, lag) == (UNKNOWN, 49)  # what is uploaded, the leader says
    waits = TIERED | {"upload_delay_ms": UNLIMITED, "upload_delay_bytes": NOT_SET}
    assert judged_of_the_tier(a_state(UNREAD, topics={"t": waits}))[0] == [UNKNOWN]
