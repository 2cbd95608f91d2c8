from __future__ import annotations

from streaming.bus.record import Record
from streaming.cli.tail import lines
from twin.engine import frames
from twin.engine.frames import Frame, FrameHeader
from twin.tables.observations import BrokersFrame

AT_MS = 1_800_000_000_000


def frame(**more: int | bool) -> bytes:
    header = FrameHeader("brokers", "prod", 3, 16, AT_MS, 17, **more)  # type: ignore[arg-type]
    return frames.encode(Frame(header, BrokersFrame.schema().empty_table()))


def record(value: bytes | None, key: bytes | None = b"prod/3") -> Record:
    return Record("t", 1, 42, key, value, AT_MS)


def test_a_frame_is_one_line_with_kind_shard_rows_age_and_size() -> None:
    value = frame()
    (line,) = lines(record(value), "observations", AT_MS + 2_500)
    assert line == (
        "2027-01-15T08:00:00Z 1:42 prod/3 brokers          0 rows cycle 17 2.5 s old "
        f"{len(value) / 1_000:.1f} kB"
    )


def test_a_message_of_several_frames_is_several_lines() -> None:
    shown = list(lines(record(frame() + frame()), "snapshots", AT_MS))
    assert len(shown) == 2
    assert all(line.endswith("kB together") for line in shown)


def test_parts_and_incomplete_frames_say_so() -> None:
    (line,) = lines(record(frame(part=1, parts=3, complete=False)), "observations", AT_MS)
    assert line.endswith("part 2 of 3 incomplete")


def test_what_cannot_be_read_says_why() -> None:
    (line,) = lines(record(b"junk"), "observations", AT_MS)
    assert "prod/3 unreadable: bytes: " in line


def test_a_tombstone_is_a_removal() -> None:
    (line,) = lines(record(None), "snapshots", AT_MS)
    assert line == "2027-01-15T08:00:00Z 1:42 prod/3 removed"


def test_an_event_is_its_sentence() -> None:
    value = b'{"at_ms": 1800000000000, "cluster": "prod", "kind": "leader_moved", "text": "a-0 is"}'
    (line,) = lines(record(value), "events", AT_MS)
    assert line == "2027-01-15T08:00:00Z prod leader_moved: a-0 is"


def test_an_event_that_is_none_is_shown_as_it_is() -> None:
    for value in (b"junk", b"[]", b"{}", b'{"at_ms": "x", "cluster": 1, "kind": 1, "text": 1}'):
        (line,) = lines(record(value), "events", AT_MS)
        assert "unreadable: b'" in line
