"""What a report says of disks that fill while remote storage is away, and how far forecasts were
off."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest

from streaming.history.capsules.saving import Recorded
from streaming.history.replay import Replay
from streaming.history.report.making import report_of
from streaming.history.report.model import Report
from streaming.history.report.writing.document import document
from streaming.history.report.writing.markdown import markdown
from streaming.history.timeline import Timeline, timeline_of
from streaming.query.event_rows import changed
from tests.builders import NOW_MS
from tests.history.recorded import RecordedPast, message
from tests.log_dir_frames import Directory, failed
from tests.twin.disks.stage import GB, HOUR_S, MB, TIERED, Growing, cycles
from twin.builtin import CATALOG
from twin.engine.changes import changes
from twin.proposals import PROPOSALS

AWAY_S = 2_400
FREE_GB = 6.0
FULL_S = AWAY_S + HOUR_S + 6_000
"""Until then nothing grows: what was uploaded before is deleted for another hour. 1 MB/s fills 6 GB
in 6 000 s."""


def volume(after_s: float, parts, *, fails: bool, freed_s: float = float("inf")) -> list[Directory]:
    [log] = [part.log.size_bytes for part in parts]
    first = 3_600 * MB
    free = max(round(FREE_GB * GB) - (log - first), 0) + (500 * GB if after_s >= freed_s else 0)
    large = Directory(2, 0, 500 * GB, 400 * GB, replicas=log)
    if fails and not free:
        return [failed(1, 0), large]
    return [Directory(1, 0, 500 * GB, free, replicas=log), large]


@cache
def report(
    until_s: int = FULL_S + 600, *, fails: bool = True, freed_s: float = float("inf")
) -> Report:
    part = Growing("orders", age_s=2 * HOUR_S, keeps_s=HOUR_S, uploaded_until_s=AWAY_S)
    configs = {"orders": TIERED | {"local_retention_ms": 3_600_000, "segment_bytes": 10 * MB}}

    def of(after_s: float) -> Growing:
        # What is not uploaded is not deleted.
        return replace(part, keeps_s=max(HOUR_S, after_s - AWAY_S))

    messages = []
    for after_s in range(0, until_s + 1, 60):
        disks = partial(volume, fails=fails, freed_s=freed_s)
        [(frames, _)] = cycles([of(after_s)], disks, configs, [after_s])
        messages.append((0, message(frames)))
    recorded = Recorded("c", 1, messages, [], tuple(PROPOSALS))
    return report_of(
        RecordedPast(replace(recorded, events=events_of(recorded))), CATALOG, "c",
        NOW_MS, NOW_MS + 1_000 * until_s,
    )  # fmt: skip


def events_of(recorded: Recorded) -> list[bytes]:
    """As the query writes them, of the shard and of the cluster's own."""
    timeline = timeline_of(recorded.messages, "c", 1, CATALOG.observations)
    reads = [[(shard, partial(bytes, sent)) for shard, sent in each] for each in timeline.messages]
    replay = Replay(CATALOG, "c", 1, Timeline(timeline.cycles, reads), {})
    found: list[bytes] = []
    for index in range(1, len(timeline.cycles)):
        was, now = replay.states(index - 1), replay.states(index)
        pairs = [(was.shards[0].state, now.shards[0].state), (was.cluster, now.cluster)]
        found += [changed(each)[1] for one, other in pairs for each in changes(one, other)]
    return found


def after_s(at_ms: int | None) -> float:
    assert at_ms is not None
    return (at_ms - NOW_MS) / 1_000


def test_when_uploads_stopped_who_was_paged_and_that_it_went_on():
    [outage] = report().remote_storage
    assert after_s(outage.since_ms) == AWAY_S
    assert AWAY_S < after_s(outage.found_at_ms) <= after_s(outage.paged_at_ms) <= AWAY_S + 300
    assert outage.until_ms is None
    assert outage.brokers == [1]
    assert outage.most_waiting_bytes == pytest.approx((FULL_S + 600 - AWAY_S) * MB, rel=0.02)


def test_when_a_disk_was_full_and_how_far_it_was_foretold():
    [disk] = report().disks
    assert (disk.broker, disk.log_dir) == (1, "/disks/0")
    assert disk.end in ("full", "failed")
    assert after_s(disk.end_at_ms) == pytest.approx(FULL_S, abs=60)
    assert AWAY_S < after_s(disk.began_at_ms) <= after_s(disk.paged_at_ms) < AWAY_S + 900
    said = {each.when: each for each in disk.foretold}
    assert said["paged"].off_s == pytest.approx(0, abs=0.05 * (FULL_S - AWAY_S))
    assert any("was full, 2 h" in line for line in report().summary)
    assert said["half_way"].off_s == pytest.approx(0, abs=120)


def test_the_outage_is_the_cause_and_the_failed_directory_follows_from_it():
    found = report()
    [incident] = [
        each for each in found.incidents if each.cause.kind == "risk_opened/remote_storage_failing"
    ]
    kinds = {each.line.kind for each in incident.effects}
    assert {"risk_opened/disk_full_soon", "disk_full", "risk_opened/log_dir_failed"} <= kinds
    assert found.no_cause == []


def test_a_disk_that_was_freed_was_not_full():
    freed_s = FULL_S - 3_000
    [disk] = report(until_s=FULL_S, fails=False, freed_s=freed_s).disks
    assert disk.end == "freed"
    assert after_s(disk.end_at_ms) == pytest.approx(freed_s, abs=120)
    assert {each.off_s for each in disk.foretold} == {None}


def test_where_nothing_fills_there_is_no_section():
    found = report(until_s=AWAY_S)
    assert (found.disks, found.remote_storage) == ([], [])
    titles = [each.title for each in document(found).sections]
    assert not any("isk" in title for title in titles)


def test_the_section_says_it_in_words():
    text = markdown(document(report()), "")
    assert "Remote storage that took no uploads" in text
    assert "broker 1, /disks/0: full" in text
    assert "when somebody was paged" in text
