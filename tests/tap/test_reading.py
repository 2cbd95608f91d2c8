"""What lines of brokers' logs tell."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.tap.lines import LineRefused, read
from streaming.tap.reading import Reading
from streaming.tap.sessions import IDLE_EVERY_MS, SLOW_MS, Row
from tests.tap.lines import (
    SAMPLE,
    SHRINK,
    T0_MS,
    TOPIC_ID,
    UTC_ZONE,
    alter,
    fetch,
    opening,
    request_line,
    stamped,
)
from twin.tables import UNKNOWN


def reading(*lines: bytes) -> Reading:
    made = Reading(1, UTC_ZONE)
    for line in lines:
        made.take(line)
    made.rest()
    return made


def of(rows: list[Row], partition: int) -> list[tuple[int, int, int]]:
    """(arrived, offset, leader end) of a partition."""
    return [(r.arrived_at_ms - T0_MS, r.fetch_offset, r.leader_end_offset)
            for r in rows if r.partition == partition]  # fmt: skip


class TestFetchSessions:
    def test_a_full_fetch_that_waited_proves_the_end_of_every_partition(self):
        told = reading(opening(T0_MS + 500, {0: 40, 1: 7}, waited_ms=499.6))
        assert of(told.fetches, 0) == [(0, 40, 40)]
        assert of(told.fetches, 1) == [(0, 7, 7)]
        row = told.fetches[0]
        assert (row.topic, row.broker, row.broker_epoch, row.leader_epoch) == (TOPIC_ID, 2, 9, 1)
        assert row.remote_ms == 500

    def test_an_empty_fetch_speaks_of_all_partitions_of_its_session(self):
        told = reading(opening(T0_MS, {0: 40, 1: 7}), fetch(T0_MS + 5_000, waited_ms=499.6))
        assert of(told.fetches, 0)[-1] == (4_500, 40, 40)
        assert of(told.fetches, 1)[-1] == (4_500, 7, 7)

    def test_records_that_were_there_at_once_prove_nothing_of_their_partition(self):
        told = reading(opening(T0_MS, {0: 40, 1: 7}, gets={0: {"recordsSizeInBytes": 99}}))
        assert of(told.fetches, 0) == [(0, 40, UNKNOWN)]
        assert of(told.fetches, 1) == [(0, 7, 7)], "the others had none"

    def test_records_that_came_while_it_waited_prove_it(self):
        told = reading(opening(T0_MS + 100, {0: 40}, gets={0: {"recordsSizeInBytes": 99}},
                               waited_ms=99.6))  # fmt: skip
        assert of(told.fetches, 0) == [(0, 40, 40)]

    def test_the_next_fetch_shows_where_they_ended_if_the_answer_had_room(self):
        for size, estimate in ((99, 43), (1 << 20, UNKNOWN)):
            told = reading(opening(T0_MS, {0: 40}, gets={0: {"recordsSizeInBytes": size}}),
                           fetch(T0_MS + 9, {0: 43}, waited_ms=4.6))  # fmt: skip
            assert [r.leader_end_offset for r in told.fetches] == [UNKNOWN, 43]
            assert [r.leader_end_estimate_offset for r in told.fetches] == [estimate, 43]

    def test_a_full_answer_says_nothing_of_who_is_not_in_it(self):
        told = reading(opening(T0_MS, {0: 40, 1: 7}, gets={0: {"recordsSizeInBytes": 10 << 20}}))
        assert of(told.fetches, 1) == [(0, 7, UNKNOWN)]

    def test_a_follower_that_waits_for_more_than_a_byte_proves_nothing(self):
        told = reading(opening(T0_MS + 500, {0: 40}, waited_ms=499.6, min_bytes=2))
        assert of(told.fetches, 0) == [(0, 40, UNKNOWN)]

    def test_before_a_partition_moves_its_last_fetch_is_told(self):
        told = reading(
            opening(T0_MS, {0: 40, 1: 7}),
            fetch(T0_MS + 200, waited_ms=99.6),
            fetch(T0_MS + 300, {0: 41}, waited_ms=49.6),
        )
        assert of(told.fetches, 0) == [(0, 40, 40), (100, 40, 40), (250, 41, 41)]
        assert of(told.fetches, 1) == [(0, 7, 7), (250, 7, 7)], "told when due, and at the end"

    def test_idle_partitions_are_told_of_now_and_then(self):
        beats = [fetch(T0_MS + 500 * i, waited_ms=499.6) for i in range(1, 41)]
        told = reading(opening(T0_MS, {0: 40}), *beats)
        assert len(of(told.fetches, 0)) <= 20_000 / IDLE_EVERY_MS + 2
        assert of(told.fetches, 0)[-1] == (19_500, 40, 40)

    def test_a_fetch_that_took_long_is_told_of_though_a_quick_one_follows(self):
        took_ms = 500 + SLOW_MS + 0.0
        told = reading(
            opening(T0_MS, {0: 40}),
            fetch(T0_MS + 2_000, waited_ms=took_ms),
            fetch(T0_MS + 2_010, waited_ms=5.0),
        )
        assert (500, 40, 40) in of(told.fetches, 0)

    def test_a_session_whose_beginning_was_not_seen_knows_a_partition_once_it_moves(self):
        told = reading(fetch(T0_MS, waited_ms=9.6), fetch(T0_MS + 20, {1: 8}, waited_ms=9.6))
        assert of(told.fetches, 0) == []
        assert of(told.fetches, 1) == [(10, 8, 8)]

    def test_forgotten_partitions_are_not_told_of_any_more(self):
        told = reading(opening(T0_MS, {0: 40}), fetch(T0_MS + 9_000, forgets=[0], waited_ms=9.6))
        assert of(told.fetches, 0) == [(0, 40, 40)]

    def test_a_new_session_of_the_same_fetcher_ends_the_old_one(self):
        told = reading(opening(T0_MS, {0: 40}), opening(T0_MS + 100, {1: 8}, session=8),
                       fetch(T0_MS + 9_000, session=8, waited_ms=9.6))  # fmt: skip
        assert of(told.fetches, 0) == [(0, 40, 40)]
        assert of(told.fetches, 1)[-1] == (8_990, 8, 8)

    def test_a_leader_that_grants_no_session_is_understood(self):
        told = reading(opening(T0_MS, {0: 40}, session=0), opening(T0_MS + 9, {0: 41}, session=0))
        assert of(told.fetches, 0) == [(0, 40, 40), (9, 41, 41)]

    def test_a_refused_session_is_over_and_errors_of_partitions_are_told(self):
        failed = opening(T0_MS, {0: 40}, gets={0: {"errorCode": 6}})
        refused = fetch(T0_MS + 9_000, error=70)
        told = reading(failed, refused, fetch(T0_MS + 9_100, waited_ms=9.6))
        assert [(r.error_code, r.leader_end_offset) for r in told.fetches] == [(6, UNKNOWN)]

    def test_what_a_quiet_leader_answered_is_told_again_once_its_end_shows(self):
        made = reading(opening(T0_MS, {0: 40}, gets={0: {"recordsSizeInBytes": 69}}))
        made.take(fetch(T0_MS + 9_000, {0: 41}, waited_ms=9.6))
        ends = [(r.fetch_offset, r.leader_end_estimate_offset) for r in made.fetches]
        assert ends[:2] == [(40, UNKNOWN), (40, 41)]

    def test_missing_lines_end_all_sessions(self):
        made = Reading(1, UTC_ZONE)
        made.take(opening(T0_MS, {0: 40}))
        made.missed()
        made.take(fetch(T0_MS + 9_000, waited_ms=9.6))
        made.rest()
        assert of(made.fetches, 0) == [(0, 40, 40)]

    def test_consumers_and_controllers_are_passed_over(self):
        consumer = opening(T0_MS, {0: 40}, follower=-1)
        controller = opening(T0_MS, {0: 40}, topic="AAAAAAAAAAAAAAAAAAAAAQ")
        assert reading(consumer, controller).waiting == 0


class TestIsrs:
    def test_the_leaders_own_word(self):
        told = reading(stamped(T0_MS, SHRINK, "INFO", "kafka.cluster.Partition"))
        assert [m._asdict() for m in told.moves] == [
            {"topic": "orders-eu", "partition": 3, "leader": 4, "leader_epoch": UNKNOWN,
             "broker": 5, "left": True, "at_ms": T0_MS, "caught_up_at_ms": 1_795_189_766_308,
             "log_end_offset": 619, "leader_end_offset": 622}
        ]  # fmt: skip

    def test_several_replicas_left_at_once(self):
        line = SHRINK.replace("766308).", "766308) (brokerId: 6, endOffset: -1, "
                                           "lastCaughtUpTimeMs: 0).")  # fmt: skip
        assert [m.broker for m in reading(stamped(T0_MS, line)).moves] == [5, 6]

    def test_who_left_and_joined_follows_from_the_state_before(self):
        told = reading(alter(T0_MS, (1, 2, 3), 4), alter(T0_MS + 9, (1, 2), 5),
                       alter(T0_MS + 19, (1, 3), 6))  # fmt: skip
        assert [(m.at_ms - T0_MS, m.broker, m.left) for m in told.moves] == [
            (7, 3, True), (17, 2, True), (17, 3, False)
        ]  # fmt: skip
        assert {(m.leader, m.leader_epoch) for m in told.moves} == {(1, 4)}

    def test_a_state_that_something_else_changed_meanwhile_tells_nothing(self):
        told = reading(alter(T0_MS, (1, 2, 3), 4), alter(T0_MS + 9, (1,), 7))
        assert told.moves == []

    def test_a_refused_change_is_none(self):
        told = reading(alter(T0_MS, (1, 2, 3), 4), alter(T0_MS + 9, (1,), 5, error=1),
                       alter(T0_MS + 19, (1, 2), 5))  # fmt: skip
        assert [m.broker for m in told.moves] == [3]


def asked(timestamp: int, follower: int = 3) -> bytes:
    request = {"replicaId": follower, "topics": [{"name": "t", "partitions": [
        {"partitionIndex": 0, "timestamp": timestamp}]}]}  # fmt: skip
    response = {"topics": [{"name": "t", "partitions": [
        {"partitionIndex": 0, "errorCode": 0, "offset": 36}]}]}  # fmt: skip
    return request_line(T0_MS, 2, request, response, localTimeMs=2.0)


def test_a_follower_that_asks_where_the_tier_ends_begins_there():
    told = reading(asked(-6), asked(-1), asked(-6, follower=-2))
    assert [tuple(start) for start in told.starts] == [("t", 0, 3, T0_MS - 2, 36, 0)]


class TestLinesThatCannotBeRead:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (request_line(T0_MS, 1, "", {}, remoteTimeMs=1.0), "request"),
            (fetch(T0_MS, {0: 1})[:-200], "json"),
            (fetch(T0_MS, {0: 1}).replace(b'"fetchOffset":1', b'"fetchOffset":"x"'), "json"),
            (fetch(T0_MS, {0: 1}).replace(b"[20", b"[xx"), "timestamp"),
            (stamped(T0_MS, SHRINK).replace(b"endOffset", b"end"), "shrink"),
        ],
    )
    def test_they_are_counted_by_reason(self, line: bytes, reason: str):
        told = reading(line)
        assert told.refused == {reason: 1}
        assert told.waiting == 0

    @given(st.binary(max_size=300))
    def test_no_bytes_break_the_reading(self, line: bytes):
        reading(line, b"[2026-11-20 15:37:58,809] Completed request:" + line, SHRINK.encode()[:50])

    @given(st.randoms(use_true_random=False))
    def test_damaged_lines_of_a_real_broker_do_not_either(self, chance: random.Random):
        lines = SAMPLE.read_bytes().splitlines()
        line = bytearray(chance.choice(lines))
        for _ in range(chance.randint(1, 5)):
            line[chance.randrange(len(line))] = chance.randrange(256)
        del line[chance.randrange(len(line)) :]
        reading(bytes(line), chance.choice(lines))

    def test_a_zone_moves_the_time(self):
        line = stamped(T0_MS, SHRINK)
        found = read(line, UTC_ZONE)
        assert found is not None
        assert found[0] == T0_MS
        with pytest.raises(LineRefused):
            read(line[3:], UTC_ZONE)


class TestARealBrokersLog:
    def test_what_it_tells_is_known(self):
        told = reading(*SAMPLE.read_bytes().splitlines())
        assert told.lines == 167
        assert told.refused == {"request": 4}, "parsed before the log was switched on"
        assert [(s.topic, s.broker, s.pending_upload_offset) for s in told.starts] == [
            ("t5", 3, 36)
        ] * 2
        assert {r.error_code for r in told.fetches} == {0, 100, 109}
        proved = [r for r in told.fetches if r.leader_end_offset != UNKNOWN]
        assert all(r.leader_end_offset == r.fetch_offset for r in proved)
        assert all(r.completed_at_ms >= r.arrived_at_ms for r in told.fetches)

    def test_the_same_lines_give_the_same_rows(self):
        lines = SAMPLE.read_bytes().splitlines()
        one, other = reading(*lines), reading(*lines)
        assert (one.fetches, one.moves, one.starts) == (other.fetches, other.moves, other.starts)
