"""Rows from lines of brokers' logs."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streaming.tap.broker_log import BrokerLogParser
from streaming.tap.broker_tap import BrokerTap
from streaming.tap.isr_changes import SETTLED_MS
from streaming.tap.log_lines import InvalidLineError, parse
from streaming.tap.sessions import REPORT_IDLE_EVERY_MS, SLOW_MS, FetchRow
from streaming.tap.sources import FileSource
from tests.tap.lines import (
    FOLLOWS,
    SAMPLE,
    SHRINK,
    SHRUNK,
    T0_MS,
    TOPIC_ID,
    UTC_ZONE,
    alter,
    fetch,
    opening,
    request_line,
    stamped,
)
from twin.declarations.table import UNKNOWN


def parsed(*lines: bytes) -> BrokerLogParser:
    parser = BrokerLogParser(1, UTC_ZONE)
    for line in lines:
        parser.feed(line)
    parser.flush()
    return parser


def fetches_of(rows: list[FetchRow], partition: int) -> list[tuple[int, int, int]]:
    """(arrival, fetch offset, leader end offset) of each fetch of a partition."""
    return [
        (r.arrived_at_ms - T0_MS, r.fetch_offset, r.leader_end_offset)
        for r in rows
        if r.partition == partition
    ]


class TestFetchSessions:
    def test_a_full_fetch_that_waited_proves_the_end_of_every_partition(self):
        log = parsed(opening(T0_MS + 500, {0: 40, 1: 7}, waited_ms=499.6))
        assert fetches_of(log.fetches, 0) == [(0, 40, 40)]
        assert fetches_of(log.fetches, 1) == [(0, 7, 7)]
        row = log.fetches[0]
        assert (row.topic, row.broker, row.broker_epoch, row.leader_epoch) == (TOPIC_ID, 2, 9, 1)
        assert row.remote_ms == 500

    def test_an_empty_fetch_reports_every_partition_of_its_session(self):
        log = parsed(opening(T0_MS, {0: 40, 1: 7}), fetch(T0_MS + 5_000, waited_ms=499.6))
        assert fetches_of(log.fetches, 0)[-1] == (4_500, 40, 40)
        assert fetches_of(log.fetches, 1)[-1] == (4_500, 7, 7)

    def test_a_fetch_that_gets_records_at_once_proves_no_log_end_of_their_partition(self):
        log = parsed(opening(T0_MS, {0: 40, 1: 7}, gets={0: {"recordsSizeInBytes": 99}}))
        assert fetches_of(log.fetches, 0) == [(0, 40, UNKNOWN)]
        assert fetches_of(log.fetches, 1) == [(0, 7, 7)], "the others had none"

    def test_a_fetch_that_waited_for_its_records_proves_the_log_end(self):
        log = parsed(
            opening(T0_MS + 100, {0: 40}, gets={0: {"recordsSizeInBytes": 99}}, waited_ms=99.6)
        )
        assert fetches_of(log.fetches, 0) == [(0, 40, 40)]

    def test_the_next_fetch_shows_where_records_ended_if_the_response_had_room(self):
        for size, estimate in ((99, 43), (1 << 20, UNKNOWN)):
            log = parsed(
                opening(T0_MS, {0: 40}, gets={0: {"recordsSizeInBytes": size}}),
                fetch(T0_MS + 9, {0: 43}, waited_ms=4.6),
            )
            assert [r.leader_end_offset for r in log.fetches] == [UNKNOWN, 43]
            assert [r.leader_end_estimate_offset for r in log.fetches] == [estimate, 43]

    def test_a_full_response_proves_nothing_about_partitions_that_are_not_in_it(self):
        log = parsed(opening(T0_MS, {0: 40, 1: 7}, gets={0: {"recordsSizeInBytes": 10 << 20}}))
        assert fetches_of(log.fetches, 1) == [(0, 7, UNKNOWN)]

    def test_a_follower_that_waits_for_more_than_a_byte_proves_nothing(self):
        log = parsed(opening(T0_MS + 500, {0: 40}, waited_ms=499.6, min_bytes=2))
        assert fetches_of(log.fetches, 0) == [(0, 40, UNKNOWN)]

    def test_the_last_fetch_before_a_partition_moves_is_reported(self):
        log = parsed(
            opening(T0_MS, {0: 40, 1: 7}),
            fetch(T0_MS + 200, waited_ms=99.6),
            fetch(T0_MS + 300, {0: 41}, waited_ms=49.6),
        )
        assert fetches_of(log.fetches, 0) == [(0, 40, 40), (100, 40, 40), (250, 41, 41)]
        assert fetches_of(log.fetches, 1) == [(0, 7, 7), (250, 7, 7)], (
            "reported when due, and at the end"
        )

    def test_idle_partitions_are_reported_now_and_then(self):
        beats = [fetch(T0_MS + 500 * i, waited_ms=499.6) for i in range(1, 41)]
        log = parsed(opening(T0_MS, {0: 40}), *beats)
        assert len(fetches_of(log.fetches, 0)) <= 20_000 / REPORT_IDLE_EVERY_MS + 2
        assert fetches_of(log.fetches, 0)[-1] == (19_500, 40, 40)

    def test_a_slow_fetch_is_reported_although_a_quick_one_follows(self):
        took_ms = 500 + SLOW_MS + 0.0
        log = parsed(
            opening(T0_MS, {0: 40}),
            fetch(T0_MS + 2_000, waited_ms=took_ms),
            fetch(T0_MS + 2_010, waited_ms=5.0),
        )
        assert (500, 40, 40) in fetches_of(log.fetches, 0)

    def test_a_session_whose_beginning_was_not_read_has_a_partition_once_it_moves(self):
        log = parsed(fetch(T0_MS, waited_ms=9.6), fetch(T0_MS + 20, {1: 8}, waited_ms=9.6))
        assert fetches_of(log.fetches, 0) == []
        assert fetches_of(log.fetches, 1) == [(10, 8, 8)]

    def test_partitions_removed_from_a_session_are_not_reported_any_more(self):
        log = parsed(opening(T0_MS, {0: 40}), fetch(T0_MS + 9_000, forgets=[0], waited_ms=9.6))
        assert fetches_of(log.fetches, 0) == [(0, 40, 40)]

    def test_a_new_session_of_the_same_fetcher_ends_the_old_one(self):
        log = parsed(
            opening(T0_MS, {0: 40}),
            opening(T0_MS + 100, {1: 8}, session=8),
            fetch(T0_MS + 9_000, session=8, waited_ms=9.6),
        )
        assert fetches_of(log.fetches, 0) == [(0, 40, 40)]
        assert fetches_of(log.fetches, 1)[-1] == (8_990, 8, 8)

    def test_fetches_without_a_session_are_reported(self):
        log = parsed(opening(T0_MS, {0: 40}, session=0), opening(T0_MS + 9, {0: 41}, session=0))
        assert fetches_of(log.fetches, 0) == [(0, 40, 40), (9, 41, 41)]

    def test_a_refused_session_is_over_and_errors_of_partitions_are_reported(self):
        failed = opening(T0_MS, {0: 40}, gets={0: {"errorCode": 6}})
        refused = fetch(T0_MS + 9_000, error=70)
        log = parsed(failed, refused, fetch(T0_MS + 9_100, waited_ms=9.6))
        assert [(r.error_code, r.leader_end_offset) for r in log.fetches] == [(6, UNKNOWN)]

    def test_a_flushed_fetch_is_reported_again_once_the_end_of_its_records_shows(self):
        log = parsed(opening(T0_MS, {0: 40}, gets={0: {"recordsSizeInBytes": 69}}))
        log.feed(fetch(T0_MS + 9_000, {0: 41}, waited_ms=9.6))
        ends = [(r.fetch_offset, r.leader_end_estimate_offset) for r in log.fetches]
        assert ends[:2] == [(40, UNKNOWN), (40, 41)]

    def test_skipped_lines_end_all_sessions(self):
        log = BrokerLogParser(1, UTC_ZONE)
        log.feed(opening(T0_MS, {0: 40}))
        log.reset_sessions()
        log.feed(fetch(T0_MS + 9_000, waited_ms=9.6))
        log.flush()
        assert fetches_of(log.fetches, 0) == [(0, 40, 40)]

    def test_fetches_of_consumers_and_controllers_are_skipped(self):
        consumer = opening(T0_MS, {0: 40}, follower=-1)
        controller = opening(T0_MS, {0: 40}, topic="AAAAAAAAAAAAAAAAAAAAAQ")
        assert parsed(consumer, controller).row_count == 0


class TestIsrChanges:
    def test_a_leader_logs_the_state_of_a_replica_that_it_removes(self):
        log = parsed(
            stamped(T0_MS, SHRINK, "INFO", "kafka.cluster.Partition"),
            stamped(T0_MS + 9, SHRUNK, "INFO", "kafka.cluster.Partition"),
        )
        assert [m._asdict() for m in log.isr_changes] == [
            {
                "topic": "orders-eu",
                "partition": 3,
                "leader": 4,
                "leader_epoch": UNKNOWN,
                "broker": 5,
                "left": True,
                "at_ms": T0_MS,
                "caught_up_at_ms": 1_795_189_766_308,
                "log_end_offset": 619,
                "leader_end_offset": 622,
            }
        ]

    def test_several_replicas_are_removed_at_once(self):
        line = SHRINK.replace(
            "766308).", "766308) (brokerId: 6, endOffset: -1, lastCaughtUpTimeMs: 0)."
        )
        log = parsed(stamped(T0_MS, line), stamped(T0_MS + 9, SHRUNK))
        assert [m.broker for m in log.isr_changes] == [5, 6]

    def test_a_leader_that_follows_another_by_then_has_shrunk_in_vain(self):
        follows = FOLLOWS.replace("orders-eu-1", "orders-eu-3")
        log = parsed(stamped(T0_MS, SHRINK), stamped(T0_MS + 700, follows))
        log.settle()
        assert log.isr_changes == []

    @pytest.mark.parametrize(
        "later",
        [
            FOLLOWS,  # of other partitions
            SHRUNK.replace("-3 ", "-2 "),  # of another partition
            SHRUNK.replace("ISR updated", "Log loaded"),
        ],
    )
    def test_a_leader_that_read_the_new_isr_elsewhere_logs_none_and_is_believed(self, later: str):
        log = parsed(stamped(T0_MS, SHRINK), stamped(T0_MS + SETTLED_MS - 1, later))
        assert log.isr_changes == []
        log.feed(stamped(T0_MS + SETTLED_MS, FOLLOWS))
        assert [(m.at_ms, m.broker) for m in log.isr_changes] == [(T0_MS, 5)]

    def test_a_leader_that_has_its_next_isr_agreed_to_had_this_one_too(self):
        log = parsed(
            stamped(T0_MS, SHRINK),
            stamped(T0_MS + 500, SHRUNK.replace("to 4 (under-min-isr)", "to 4,5 ")),
        )
        assert [(m.at_ms, m.broker, m.left) for m in log.isr_changes] == [(T0_MS, 5, True)]

    def test_at_the_end_of_a_log_what_a_leader_proposed_is_believed(self):
        log = parsed(stamped(T0_MS, SHRINK))
        log.settle()
        log.settle()
        assert [m.broker for m in log.isr_changes] == [5]

    def test_a_later_proposal_takes_the_place_of_one_in_vain(self):
        later = SHRINK.replace("endOffset: 619", "endOffset: 700")
        log = parsed(
            stamped(T0_MS, SHRINK), stamped(T0_MS + 9_000, later), stamped(T0_MS + 9_009, SHRUNK)
        )
        assert [(m.at_ms - T0_MS, m.log_end_offset) for m in log.isr_changes] == [(9_000, 700)]

    def test_what_was_proposed_before_skipped_lines_is_forgotten(self):
        log = parsed(stamped(T0_MS, SHRINK))
        log.reset_sessions()
        log.feed(stamped(T0_MS + 9, SHRUNK))
        log.settle()
        assert log.isr_changes == []

    def test_changes_follow_from_the_isr_of_the_partition_epoch_before(self):
        log = parsed(
            alter(T0_MS, (1, 2, 3), 4), alter(T0_MS + 9, (1, 2), 5), alter(T0_MS + 19, (1, 3), 6)
        )
        assert [(m.at_ms - T0_MS, m.broker, m.left) for m in log.isr_changes] == [
            (7, 3, True),
            (17, 2, True),
            (17, 3, False),
        ]
        assert {(m.leader, m.leader_epoch) for m in log.isr_changes} == {(1, 4)}

    def test_there_is_no_change_if_the_partition_epoch_before_is_unknown(self):
        log = parsed(alter(T0_MS, (1, 2, 3), 4), alter(T0_MS + 9, (1,), 7))
        assert log.isr_changes == []

    def test_a_refused_change_is_no_change(self):
        log = parsed(
            alter(T0_MS, (1, 2, 3), 4),
            alter(T0_MS + 9, (1,), 5, error=1),
            alter(T0_MS + 19, (1, 2), 5),
        )
        assert [m.broker for m in log.isr_changes] == [3]


def list_offsets(timestamp: int, follower: int = 3) -> bytes:
    request = {
        "replicaId": follower,
        "topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "timestamp": timestamp}]}],
    }
    response = {
        "topics": [
            {"name": "t", "partitions": [{"partitionIndex": 0, "errorCode": 0, "offset": 36}]}
        ]
    }
    return request_line(T0_MS, 2, request, response, localTimeMs=2.0)


def loads(topic_id: str = "") -> bytes:
    line = (
        f"Completed load of Log(dir=/data/orders-eu-3, {topic_id}topic=orders-eu, partition=3, "
        "highWatermark=70, lastStableOffset=70, logStartOffset=0, logEndOffset=123) with 2 "
        "segments, local-log-start-offset 0 and log-end-offset 123 in 15ms (1/1 completed in /data)"
    )
    return stamped(T0_MS, line, "INFO", "kafka.log.LogManager")


def truncates(to_offset: int, at_ms: int = T0_MS + 700) -> bytes:
    line = f"[UnifiedLog partition=orders-eu-3, dir=/data] Truncating to offset {to_offset}"
    return stamped(at_ms, line, "INFO", "org.apache.kafka.storage.internals.log.UnifiedLog")


FOLLOWS_3 = stamped(T0_MS + 600, FOLLOWS.replace("orders-eu-1", "orders-eu-3"))


@pytest.mark.parametrize("topic_id", ["topicId=RPOWk3QKQPSrm98jloIX7Q, ", ""])
def test_a_broker_that_starts_logs_where_a_log_ended_and_to_where_it_is_truncated(topic_id: str):
    log = parsed(loads(topic_id), FOLLOWS_3, truncates(70))
    assert log.truncated_logs == [("orders-eu", 3, T0_MS + 700, 123, 70)]
    assert log.invalid_lines == {}


def test_a_truncation_without_a_load_or_later_ones_say_nothing_of_the_log_end():
    log = parsed(truncates(70), loads(), FOLLOWS_3, truncates(123), truncates(100))
    assert log.truncated_logs == []


def test_a_follower_that_has_appended_does_not_truncate_what_it_loaded():
    """It followed one leader, and truncates when it follows the next."""
    assert parsed(loads(), FOLLOWS_3, FOLLOWS_3, truncates(70)).truncated_logs == []


def test_loads_before_skipped_lines_are_forgotten():
    log = parsed(loads(), FOLLOWS_3)
    log.reset_sessions()
    log.feed(truncates(70))
    assert log.truncated_logs == []


def test_lines_of_that_form_without_an_offset_are_counted():
    log = parsed(
        stamped(T0_MS, "Completed load of Log(dir=/data/orders-eu-3) with 2 segments"),
        stamped(T0_MS, "[Log of mine] Truncating to offset 7"),
    )
    assert log.invalid_lines == {"load": 1, "truncation": 1}


UNCLEAN = (
    "[QuorumController id=3] UNCLEAN partition change for orders-eu-3 with topic ID "
    "apSdkDAmQQik34yTHM5ATQ: isr: [4] -> [5], leader: {old} -> 5, leaderRecoveryState: RECOVERED "
    "-> RECOVERING, leaderEpoch: 0 -> 1, partitionEpoch: 1 -> 2"
)
CONTROL = "org.apache.kafka.controller.ReplicationControlManager"


WITHOUT_ID = re.compile(r" with topic ID \S+(?=: )")


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("old", [4, -1])
def test_a_controller_logs_which_leader_it_elected_uncleanly(old: int, has_id: bool):
    line = UNCLEAN.format(old=old)
    log = parsed(stamped(T0_MS, line if has_id else WITHOUT_ID.sub("", line), "INFO", CONTROL))
    assert log.unclean_elections == [("orders-eu", 3, 5, 1, T0_MS)]
    assert log.invalid_lines == {}


CLEAN_CHANGES = {
    "the leader was lost before it had recovered": (
        "leader: 5 -> -1, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3"
    ),
    "it returned, still the ISR": "leader: -1 -> 5, leaderEpoch: 2 -> 3, partitionEpoch: 3 -> 4",
    "a replica was added meanwhile": (
        "replicas: [4, 5] -> [4, 5, 6], addingReplicas: [] -> [6], partitionEpoch: 2 -> 3"
    ),
    "a member of the ISR took over": (
        "isr: [5, 15] -> [15], leader: 5 -> 15, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3"
    ),
    "the ELR had it (3.9 calls it unclean)": (
        "isr: [] -> [5], leader: -1 -> 5, leaderEpoch: 2 -> 3, elr: [4, 5] -> [4], "
        "lastKnownElr: [6] -> [], partitionEpoch: 3 -> 4"
    ),
}


@pytest.mark.parametrize("changes", CLEAN_CHANGES.values(), ids=CLEAN_CHANGES)
def test_changes_of_a_leader_that_has_not_recovered_are_no_elections(changes: str):
    line = UNCLEAN.split("isr: ")[0] + changes
    log = parsed(stamped(T0_MS, line, "INFO", CONTROL))
    assert (log.unclean_elections, log.invalid_lines) == ([], {})


@pytest.mark.parametrize(
    "changes",
    [
        "isr: [5] -> [4], leader: 5 -> 4, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3",
        "isr: [] -> [4], leader: -1 -> 4, leaderEpoch: 1 -> 2, lastKnownElr: [4] -> [], "
        "partitionEpoch: 2 -> 3",
        "isr: [14, 40] -> [4], leader: 40 -> 4, leaderEpoch: 1 -> 2, elr: [44] -> [], "
        "partitionEpoch: 2 -> 3",
    ],
)
def test_a_second_unclean_election_before_the_leader_has_recovered_is_known(changes: str):
    line = UNCLEAN.split("isr: ")[0] + changes
    log = parsed(stamped(T0_MS, line, "INFO", CONTROL))
    assert log.unclean_elections == [("orders-eu", 3, 4, 2, T0_MS)]


def test_an_unclean_change_of_another_form_is_counted():
    line = UNCLEAN.format(old=4).replace("orders-eu-3", "orders-eu")
    log = parsed(stamped(T0_MS, line, "INFO", CONTROL))
    assert (log.unclean_elections, log.invalid_lines) == ([], {"election": 1})


def test_a_followers_lookup_of_the_earliest_pending_upload_is_a_row():
    log = parsed(list_offsets(-6), list_offsets(-1), list_offsets(-6, follower=-2))
    assert [tuple(start) for start in log.pending_upload_lookups] == [("t", 0, 3, T0_MS - 2, 36, 0)]


def of_kafka_2_8(at_ms: int) -> bytes:
    """The fields of its FetchResponse.json that differ from later ones."""
    line = fetch(at_ms, {0: 100}, gets={0: {"errorCode": 0}})
    before, response, rest = line.partition(b'"response":')
    return (
        before
        + response
        + rest.replace(b'"partitions"', b'"partitionResponses"').replace(
            b'"partitionIndex"', b'"partition"'
        )
    )


def test_that_kafka_is_too_old_is_logged_once(tmp_path: Path):
    path = tmp_path / "request.log"
    tap = BrokerTap(BrokerLogParser(4, UTC_ZONE), [FileSource(path, from_beginning=True)])
    with capture_logs() as logged, path.open("ab", buffering=0) as written:
        for at_ms in (T0_MS, T0_MS + 1):
            written.write(of_kafka_2_8(at_ms) + b"\n")
            tap.read()
    [line] = [line for line in logged if line["event"] == "unavailable"]
    assert line["what"] == "request log of broker 4"
    assert line["why"].startswith("the broker is older than Kafka 3.0")
    assert tap.parser.invalid_lines == {"kafka_before_3_0": 2}


class TestInvalidLines:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (request_line(T0_MS, 1, "", {}, remoteTimeMs=1.0), "request"),
            (fetch(T0_MS, {0: 1})[:-200], "json"),
            (fetch(T0_MS, {0: 1}).replace(b'"fetchOffset":1', b'"fetchOffset":"x"'), "json"),
            (fetch(T0_MS, {0: 1}).replace(b"[20", b"[xx"), "timestamp"),
            (stamped(T0_MS, SHRINK).replace(b"endOffset", b"end"), "shrink"),
            (stamped(T0_MS, SHRUNK).replace(b"to 4", b"to ?"), "isr"),
            (of_kafka_2_8(T0_MS), "kafka_before_3_0"),
        ],
    )
    def test_they_are_counted_by_reason(self, line: bytes, reason: str):
        log = parsed(line)
        assert log.invalid_lines == {reason: 1}
        assert log.row_count == 0

    @given(st.binary(max_size=300))
    def test_no_bytes_raise_an_error(self, line: bytes):
        parsed(line, b"[2026-11-20 15:37:58,809] Completed request:" + line)
        parsed(SHRINK.encode()[:50], SHRUNK.encode()[:50])

    @given(st.randoms(use_true_random=False))
    def test_damaged_lines_of_a_real_broker_raise_no_error(self, chance: random.Random):
        lines = SAMPLE.read_bytes().splitlines()
        line = bytearray(chance.choice(lines))
        for _ in range(chance.randint(1, 5)):
            line[chance.randrange(len(line))] = chance.randrange(256)
        del line[chance.randrange(len(line)) :]
        parsed(bytes(line), chance.choice(lines))

    def test_a_line_without_its_time_is_invalid(self):
        line = stamped(T0_MS, SHRINK)
        content = parse(line, UTC_ZONE)
        assert content is not None
        assert content[0] == T0_MS
        with pytest.raises(InvalidLineError):
            parse(line[3:], UTC_ZONE)


class TestTheLogOfARealBroker:
    def test_its_lines_give_the_expected_rows(self):
        log = parsed(*SAMPLE.read_bytes().splitlines())
        assert log.lines == 167
        assert log.invalid_lines == {"request": 4}, (
            "the broker parsed them before its log was enabled"
        )
        assert [
            (s.topic, s.broker, s.pending_upload_offset) for s in log.pending_upload_lookups
        ] == [("t5", 3, 36)] * 2
        assert {r.error_code for r in log.fetches} == {0, 100, 109}
        proved = [r for r in log.fetches if r.leader_end_offset != UNKNOWN]
        assert all(r.leader_end_offset == r.fetch_offset for r in proved)
        assert all(r.completed_at_ms >= r.arrived_at_ms for r in log.fetches)

    def test_the_same_lines_give_the_same_rows(self):
        lines = SAMPLE.read_bytes().splitlines()
        one, other = parsed(*lines), parsed(*lines)
        assert (one.fetches, one.isr_changes, one.pending_upload_lookups) == (
            other.fetches,
            other.isr_changes,
            other.pending_upload_lookups,
        )
