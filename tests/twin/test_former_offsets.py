"""A topic that was deleted and made anew under its name, and the groups that had offsets in it."""

from dataclasses import replace

import numpy as np

from tests.builders import (
    NOW_MS,
    Group,
    Log,
    Partition,
    a_state,
    configs_frame,
    group_offsets_frame,
    groups_frame,
)
from tests.cycles import cycle_frames
from tests.reading import open_risks
from twin.builtin import CATALOG
from twin.engine.codec import decode, encode
from twin.ingest.groups import FORMER_STAYS_MS
from twin.rules.groups.former import RECENT_MS, FormerReads
from twin.step import step
from twin.tables.state import FormerOffsets

CYCLE_MS = 5_000
OLD = Partition(log=Log(end=100))
OTHER = Partition("x")


def anew(end, start=0):
    """The partition of the new topic, whose log has those offsets."""
    return replace(OLD, topic_id=b"new", log=Log(start=start, end=end))


class Life:
    """Cycles of a cluster, and what was reported in them."""

    def __init__(self, committed=50):
        self.at_ms, self.events = NOW_MS, []
        self.state = a_state(OLD, OTHER)
        self.passes(OLD, committed=committed)

    def passes(self, *listed, committed=None, after_ms=CYCLE_MS):
        """A cycle with those partitions, and with the offset of the group billing in the first."""
        self.at_ms += after_ms
        frames = [
            *cycle_frames([*listed, OTHER], self.at_ms, ids=(1, 2, 3, 4, 5)),
            configs_frame(None, self.at_ms),
        ]
        if committed is not None:
            billing = [Group("billing", [(listed[0], committed)])]
            frames += [groups_frame(billing, self.at_ms), group_offsets_frame(billing, self.at_ms)]
        self.state, events = step(self.state, frames, self.at_ms)
        self.events += events
        return self

    def texts(self, kind):
        return [event.text for event in self.events if event.kind == kind]


def test_a_topic_that_is_away_for_a_while_before_it_is_made_anew_is_another_topic():
    life = Life().passes().passes().passes()
    assert life.texts("partition_deleted") == ["t-0 was deleted"]
    life.passes(anew(end=10))
    assert life.texts("partition_created") == [
        "t-0 was created: another topic of that name; "
        "offsets that billing committed are of the old one"
    ]


def test_a_topic_that_is_missing_in_one_listing_is_the_same_topic():
    life = Life().passes().passes(OLD, committed=50)
    assert life.texts("partition_created") == ["t-0 was created"]
    assert not len(life.state[FormerReads])
    assert "consumer_skips_records" not in open_risks(life.state)


def test_a_group_that_waits_beyond_the_end_of_the_new_log_skips_nothing_yet():
    life = Life().passes().passes(anew(end=10), committed=50)
    for _ in range(10):
        life.passes(anew(end=10), committed=50)
    assert open_risks(life.state) & {"consumer_ahead_of_log", "consumer_skips_records"} == {
        "consumer_ahead_of_log"
    }
    assert life.texts("group_skips_records") == []


def test_a_group_that_goes_on_where_the_new_log_has_outgrown_its_offset_skips_records():
    life = Life().passes().passes(anew(end=10), committed=50)
    life.passes(anew(end=200)).passes(anew(end=210), committed=60)
    assert life.texts("group_skips_records") == [
        "t-0: billing goes on at offset 50, which it committed to the former topic of that name: "
        "it skips up to 50 records"
    ]
    assert "consumer_skips_records" in open_risks(life.state)
    life.passes(anew(end=220), committed=70)  # told once, and still so
    assert len(life.texts("group_skips_records")) == 1
    assert "consumer_skips_records" in open_risks(life.state)


def test_what_a_group_committed_after_the_last_reading_is_of_the_former_topic_too():
    life = Life(committed=50).passes().passes(anew(end=10), committed=80)
    for end in (20, 30, 40):
        life.passes(anew(end=end), committed=80)
    assert list(life.state[FormerReads].former_offset) == [80]
    life.passes(anew(end=200), committed=90)
    assert life.texts("group_skips_records")[0].endswith("it skips up to 80 records")


def test_a_group_at_the_end_of_a_busy_new_topic_skips_nothing():
    """Its offset may be read a moment after the log end, and be beyond it by that alone."""
    life = Life(committed=50).passes()
    for end in range(100, 1_000, 100):
        life.passes(anew(end=end), committed=end + 20)
    assert life.texts("group_skips_records") == []
    assert not len(life.state[FormerReads])


def test_a_group_that_moved_between_two_readings_has_skipped_as_well():
    life = Life().passes().passes(anew(end=10), committed=50)
    life.passes(anew(end=200), committed=120)
    assert len(life.texts("group_skips_records")) == 1


def test_deleted_records_of_the_new_log_are_not_skipped_by_the_group():
    life = Life().passes().passes(anew(end=200, start=30), committed=50)
    assert life.texts("group_skips_records")[0].endswith("it skips up to 20 records")
    assert Life().passes().passes(anew(end=200, start=50), committed=50).events[-1].kind != (
        "group_skips_records"
    )


def test_a_group_that_is_reset_or_begins_anew_skips_nothing():
    for committed in (0, 10, 51):
        life = Life().passes().passes(anew(end=200), committed=committed)
        assert life.texts("group_skips_records") == []
        assert not len(life.state[FormerReads])
    reset = Life().passes().passes(anew(end=10), committed=50)
    reset.passes(anew(end=200), committed=0).passes(anew(end=200), committed=90)
    assert reset.texts("group_skips_records") == []


def test_the_risk_closes_an_hour_later():
    life = Life().passes().passes(anew(end=200), committed=50)
    assert "consumer_skips_records" in open_risks(life.state)
    life.passes(anew(end=200), committed=60, after_ms=RECENT_MS)
    assert "consumer_skips_records" in open_risks(life.state)
    life.passes(anew(end=200), committed=60)
    assert "consumer_skips_records" not in open_risks(life.state)
    assert len(life.texts("group_skips_records")) == 1


def test_a_leader_that_does_not_answer_makes_nothing_of_it():
    silent = replace(anew(end=10), leader=-1, offline=(1, 2, 3))
    life = Life().passes().passes(silent, committed=50)
    assert life.texts("group_skips_records") == []
    life.passes(replace(anew(end=200), epoch=2), committed=60)
    assert len(life.texts("group_skips_records")) == 1


def test_former_offsets_outlive_a_checkpoint_and_are_forgotten_after_a_week():
    life = Life().passes()
    life.state = decode(encode(life.state), CATALOG).state
    assert list(life.state[FormerOffsets].group) == ["billing"]
    assert np.array_equal(life.state[FormerOffsets].committed_offset, [50])
    assert list(Life().passes(after_ms=FORMER_STAYS_MS).state[FormerOffsets].group) == ["billing"]
    life.passes(after_ms=FORMER_STAYS_MS)
    assert not len(life.state[FormerOffsets].group)


def test_a_topic_that_is_deleted_twice_is_compared_with_the_newest():
    life = Life().passes().passes(anew(end=90), committed=80).passes()
    third = replace(anew(end=200), topic_id=b"third")
    life.passes(third, committed=80)
    assert life.texts("group_skips_records") == [
        "t-0: billing goes on at offset 80, which it committed to the former topic of that name: "
        "it skips up to 80 records"
    ]
