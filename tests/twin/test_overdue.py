"""Local logs against the retention that should bound them."""

from dataclasses import replace

import pytest

from tests.builders import NOW_MS, Log, Partition, a_state
from tests.cycles import listed_frames
from tests.reading import computed, conditions
from twin.rules.tiering.overdue import Overdue
from twin.step import step
from twin.tables.enums import PendingUpload

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
PLAIN = {
    "compacted": 0, "remote_storage": 0, "copies_disabled": 0,
    "retention_ms": DAY_MS, "retention_bytes": -1, "segment_ms": HOUR_MS, "segment_bytes": 1_000,
    "local_retention_ms": DAY_MS, "local_retention_bytes": -1,
    "upload_delay_ms": 0, "upload_delay_bytes": 0,
}  # fmt: skip
TIERED = PLAIN | {"remote_storage": 1, "local_retention_ms": HOUR_MS}
UPLOADED = {"end": 1_000, "last_tiered": 989, "size_bytes": 1_000}


def is_overdue(log: Log, settings: dict[str, int]) -> bool:
    state = a_state(Partition(replicas=(1,), log=log), topics={"t": settings})
    [[overdue]] = state[Overdue].is_overdue.tolist()
    assert ("kept_beyond_retention" in conditions(state)) == overdue
    return overdue


@pytest.mark.parametrize(
    ("hours", "overdue"), [(25, False), (27, False), (28, True), (24 * 30, True)]
)
def test_a_log_is_older_than_retention_by_more_than_a_segment(hours, overdue):
    assert is_overdue(Log(started_ms=NOW_MS - hours * HOUR_MS), PLAIN) == overdue


@pytest.mark.parametrize(("size", "overdue"), [(6_000, False), (6_600, False), (6_601, True)])
def test_a_log_is_larger_than_retention_by_more_than_a_segment(size, overdue):
    settings = PLAIN | {"retention_bytes": 5_000}
    assert is_overdue(Log(size_bytes=size), settings) == overdue
    state = a_state(Partition(log=Log(size_bytes=size)), topics={"t": settings})
    beyond = computed(state, "kafka_twin_partition_overdue_bytes")
    assert beyond.values.tolist() == pytest.approx([3.0] if overdue else [])


def test_uploaded_but_not_deleted_from_disk():
    """Aiven 596, KAFKA-19425: local retention of an hour, and 30 days are on disk."""
    old = NOW_MS - 30 * DAY_MS
    assert is_overdue(Log(**UPLOADED, started_ms=old), TIERED | {"retention_ms": 90 * DAY_MS})


def test_what_is_not_uploaded_is_not_overdue():
    old, settings = NOW_MS - 30 * DAY_MS, TIERED | {"retention_ms": 90 * DAY_MS}
    nothing = Log(end=1_000, reason=PendingUpload.NOTHING_TIERED, started_ms=old)
    assert not is_overdue(nothing, settings)
    by_size = settings | {"local_retention_bytes": 1_000}
    late = Log(end=1_000, last_tiered=99, local_start=90, size_bytes=9_100)
    assert not is_overdue(late, by_size)
    assert is_overdue(Log(end=1_000, last_tiered=989, local_start=90, size_bytes=9_100), by_size)


@pytest.mark.parametrize("started_ms", [0, NOW_MS + 3 * HOUR_MS, -1])
def test_a_timestamp_that_cannot_be_says_nothing_of_the_age(started_ms):
    assert not is_overdue(Log(started_ms=started_ms), PLAIN)


def test_a_segment_whose_timestamps_are_in_the_future_is_not_deleted_before_then():
    """KAFKA-13421: 28 hours is what a log may have, of which a day is retention."""
    assert is_overdue(Log(started_ms=NOW_MS + 4 * HOUR_MS), PLAIN)
    assert not is_overdue(Log(started_ms=NOW_MS + 4 * HOUR_MS), PLAIN | {"retention_ms": -1})


@pytest.mark.parametrize("started_ms", [-1, 0, NOW_MS + 29 * HOUR_MS])
def test_what_is_there_for_longer_than_retention_is_overdue_whatever_its_timestamp(started_ms):
    part = Partition(replicas=(1,), log=Log(end=500, started_ms=started_ms))
    state, at_ms = a_state(part, topics={"t": PLAIN}), NOW_MS
    for hours, start, overdue in ((27, 0, False), (28, 0, True), (29, 500, False)):
        at_ms = NOW_MS + hours * HOUR_MS
        log = Log(end=900, start=start, local_start=start, started_ms=started_ms)
        later = replace(part, log=log)
        frames = listed_frames([later], at_ms)
        state, _ = step(state, frames, at_ms)
        assert state[Overdue].is_overdue.tolist() == [[overdue]], hours


@pytest.mark.parametrize(
    "settings", [{"compacted": 1}, {"compacted": -1}, {"retention_ms": -1}, {"segment_ms": -1}]
)
def test_without_a_limit_that_is_known_nothing_is_overdue(settings):
    assert not is_overdue(Log(started_ms=NOW_MS - 30 * DAY_MS), PLAIN | settings)


def test_a_log_of_a_replica_that_does_not_answer_becomes_no_older():
    """Its broker is away for a month; nothing is known of what it would have deleted."""
    part = Partition(replicas=(1, 2), log=Log(started_ms=NOW_MS - 20 * HOUR_MS))
    state, at_ms = a_state(part, topics={"t": PLAIN}), NOW_MS + 30 * DAY_MS
    away = replace(part, silent=(2,), logs={1: Log(end=900, start=800, local_start=800,
                                                   started_ms=at_ms - HOUR_MS)})  # fmt: skip
    frames = listed_frames([away], at_ms)
    state, _ = step(state, frames, at_ms)
    assert state[Overdue].is_overdue.tolist() == [[False, False]]


GIB = 1 << 30
BUSY = TIERED | {
    "segment_ms": 7 * DAY_MS,
    "segment_bytes": GIB,
    "retention_ms": 30 * DAY_MS,
}
PER_S = 1_000  # records, 1 GiB of them an hour


def at_an_even_rate(
    log: Log, cycles: int = 3, rate: int = PER_S, **settings: int
) -> tuple[bool, ...]:
    """Whether each of two replicas is overdue, of a partition that is written at that rate."""
    state = None
    for k in range(cycles):
        uploaded = {"end": log.end + 5 * rate * k, "last_tiered": log.end - 3_000_000}
        part = Partition(replicas=(1, 2), log=replace(log, **uploaded))
        state = a_state(part, topics={"t": BUSY | settings}, since=state, at_ms=NOW_MS + 5_000 * k)
    assert state is not None
    return tuple(state[Overdue].is_overdue[0].tolist())


def written_for(days: float) -> Log:
    """All that was written at that rate, from that many days ago."""
    records = int(days * 86_400) * PER_S
    size = int(days * 24 * GIB)
    return Log(end=records, local_start=1, size_bytes=size, started_ms=NOW_MS - int(days * DAY_MS))


@pytest.mark.parametrize(
    ("days", "overdue"), [(2 / 24, False), (2.5 / 24, False), (5, True), (7.5, True), (30, True)]
)
def test_segments_that_fill_within_an_hour_do_not_wait_for_segment_ms(days, overdue):
    """AK 22873: local retention of an hour, all uploaded, and the default segment.ms of 7 days."""
    assert at_an_even_rate(written_for(days)) == (overdue, overdue)


def test_a_log_that_an_import_filled_says_nothing_of_when_its_first_segment_was_full():
    """Idle for six days, and 50 GiB within an hour: its first segment may be an hour old."""
    imported = replace(written_for(6), size_bytes=50 * GIB)
    assert at_an_even_rate(imported, rate=1) == (False, False)  # it is over
    assert at_an_even_rate(imported, rate=10 * PER_S) == (False, False)  # it goes on


def test_a_segment_that_never_fills_may_last_for_segment_ms():
    slow = Log(end=6 * 86_400, local_start=1, size_bytes=100_000, started_ms=NOW_MS - 6 * DAY_MS)
    settings = {"local_retention_ms": DAY_MS}
    state = None
    for k in range(3):
        log = replace(slow, end=slow.end + 5 * k, last_tiered=slow.end - 1)
        state = a_state(
            Partition(log=log), topics={"t": BUSY | settings}, since=state, at_ms=NOW_MS + 5_000 * k
        )
    assert state is not None
    assert not state[Overdue].is_overdue.any()


NO_TIMES = Log(end=50_000, local_start=1, size_bytes=50 * GIB, started_ms=-1, last_tiered=49_000)
MINUTE_MS = 60_000


def looked_at(*looks: tuple[int, Log], **settings: int) -> bool:
    """Whether a replica is overdue after those logs, so many minutes after the first."""
    state = a_state(Partition(replicas=(1,), log=looks[0][1]), topics={"t": BUSY | settings})
    for minutes, log in looks:
        part, at_ms = Partition(replicas=(1,), log=log), NOW_MS + minutes * MINUTE_MS
        state, _ = step(state, listed_frames([part], at_ms), at_ms)
    return bool(state[Overdue].is_overdue[0, 0])


@pytest.mark.parametrize(
    ("minutes", "log", "overdue"),
    [
        (81, NO_TIMES, False),
        (82, NO_TIMES, True),
        (82, replace(NO_TIMES, local_start=49_500), False),  # the rest is in one segment
        (82, replace(NO_TIMES, last_tiered=500), False),  # the rest is not uploaded
    ],
)
def test_without_readable_timestamps_what_was_there_before_retention_fills_one_segment_at_most(
    minutes, log, overdue
):
    """50 GiB uploaded, beyond an hour of local retention: known after an hour, not after 8 days."""
    assert looked_at((0, NO_TIMES), (minutes, log)) == overdue
    assert not looked_at((0, NO_TIMES), (minutes, log), local_retention_ms=-1)


def test_a_cleaner_that_dies_long_after_the_twin_began_to_look_is_found_without_timestamps():
    """10 GiB an hour, of which an hour is kept; after six hours nothing is deleted any more."""

    def at(minutes: int, kept_from: int) -> tuple[int, Log]:
        end, start = (100 * minute + 10_000 for minute in (minutes, kept_from))
        size = (end - start) * 10 * GIB // 6_000
        return minutes, replace(
            NO_TIMES, end=end, local_start=start, size_bytes=size, last_tiered=end - 1
        )

    healthy = [at(minutes, minutes - 60) for minutes in range(0, 361, 10)]
    for number in range(2, len(healthy)):
        assert not looked_at(*healthy[:number])
    stands = [at(minutes, 300) for minutes in range(370, 541, 10)]
    assert not looked_at(*healthy, *stands[:2])
    assert looked_at(*healthy, *stands)


def test_a_log_that_became_shorter_has_no_older_end():
    """Its offsets are of other records since."""
    short = replace(NO_TIMES, end=40_000, last_tiered=39_000)
    assert not looked_at((0, NO_TIMES), (82, short))
    assert not looked_at((0, NO_TIMES), (82, short), (163, short))
    assert looked_at((0, NO_TIMES), (82, short), (164, short), (165, short))


BOTH = PLAIN | {"compacted": 1, "tiered_compacted": 0, "retention_bytes": GIB,
                "segment_bytes": 1 << 28}  # fmt: skip


@pytest.mark.parametrize(("size", "overdue"), [(GIB, False), (2 * GIB, True), (100 * GIB, True)])
def test_a_log_that_is_compacted_and_bounded_is_larger_than_retention_bytes(size, overdue):
    """cleanup.policy=compact,delete: the cleaner deletes by retention, too (KIP-71)."""
    assert is_overdue(Log(size_bytes=size), BOTH) == overdue


def test_the_age_of_a_compacted_log_says_nothing_of_its_retention():
    """A key of long ago stays in a segment that compaction has joined with newer ones."""
    assert not is_overdue(Log(size_bytes=GIB, started_ms=NOW_MS - 60 * DAY_MS), BOTH)


@pytest.mark.parametrize(
    "settings",
    [{"retention_bytes": -1}, {"tiered_compacted": 1, "remote_storage": -1}, {"compacted": -1}],
)
def test_a_compacted_log_without_a_size_or_with_a_tier_is_not_judged(settings):
    assert not is_overdue(Log(size_bytes=100 * GIB), BOTH | settings)
