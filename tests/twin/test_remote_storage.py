"""Whether remote storage takes uploads, as a person would say it.

A segment is what is written in a minute, unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.builders import NOW_MS, Log, Partition, broker_metrics_frame, configs_frame
from tests.cycles import cycle_frames, each_own
from tests.twin.disks.stage import RECORD, TIERED
from twin.cluster_rules.remote_storage import RemoteStorage
from twin.declarations.table import NO_BROKER, UNKNOWN
from twin.engine.cluster_risks import ClusterRisks
from twin.engine.shard_state import ShardState
from twin.tables.enums import PendingUpload
from twin.totals import shard_totals

CYCLE_S = 30
PER_S = 10  # records
AWAY_S = 300
"""Remote storage goes away so many seconds after the first cycle, where it does."""

LAST_S = 780
NEVER_S = 10**9


@dataclass(frozen=True)
class Uploading:
    """A partition that is written evenly; each segment is uploaded as soon as it is closed."""

    topic: str = "t"
    leader: int = 1
    segment_s: int = 60
    away_s: int = NEVER_S
    back_s: int = NEVER_S
    stops_s: int = NEVER_S  # nobody writes from then on
    takes_s: int = 0  # for a segment; 0: no time
    uploads_at_all: bool = True
    stable_until_s: int = NEVER_S  # a transaction is open since then
    own: Mapping[str, int] = field(default_factory=dict)

    def uploaded_s(self, after_s: int) -> int:
        """Up to where its log was uploaded then, in seconds of its writes."""
        until_s = after_s if after_s >= self.back_s else min(after_s, self.away_s)
        closed = min(until_s, self.stops_s, self.stable_until_s) // self.segment_s
        if self.takes_s:
            closed = min(closed, until_s // self.takes_s)
        return closed * self.segment_s

    def at(self, after_s: int) -> Partition:
        """The partition so many seconds after the first cycle."""
        end = min(after_s, self.stops_s) * PER_S
        tiered = self.uploaded_s(after_s) * PER_S - 1 if self.uploads_at_all else -1
        stable = min(end, self.stable_until_s * PER_S)
        is_empty = self.uploads_at_all and tiered == UNKNOWN
        log = Log(
            end=end, size_bytes=end * RECORD, last_tiered=tiered, last_stable=stable,
            reason=PendingUpload.NOTHING_TIERED if is_empty else PendingUpload.ABSENT,
        )  # fmt: skip
        others = [broker for broker in (1, 2, 3) if broker != self.leader]
        return Partition(self.topic, 0, (self.leader, *others), log=log)

    def configs(self) -> dict[str, int]:
        size = self.segment_s * PER_S * RECORD
        return TIERED | {"segment_bytes": size} | dict(self.own)


def states(
    parts: Sequence[Uploading],
    seconds: int = LAST_S,
    shards: int = 1,
    measured: Mapping[int, Mapping[str, float]] | None = None,
    from_s: int = 0,
) -> list[tuple[int, ShardState]]:
    """The cluster's own shard after each cycle."""
    cycles: list[Any] = []
    for after_s in range(from_s, seconds + 1, CYCLE_S):
        at_ms = NOW_MS + 1_000 * after_s
        now = [part.at(after_s) for part in parts]
        frames = [
            *cycle_frames(now, at_ms),
            configs_frame({part.topic: part.configs() for part in parts}, at_ms),
            broker_metrics_frame(measured or {}, at_ms),
        ]
        cycles.append((frames, at_ms))
    states = each_own(cycles, sorted(part.topic for part in parts), shards)
    return [
        ((at_ms - NOW_MS) // 1_000, state) for (_, at_ms), state in zip(cycles, states, strict=True)
    ]


def is_open(state: ShardState) -> bool:
    return state[ClusterRisks].brokers("remote_storage_failing") == [NO_BROKER]


def open_times(parts: Sequence[Uploading], **how: Any) -> list[int]:
    """The seconds at which the risk is open."""
    return [after_s for after_s, state in states(parts, **how) if is_open(state)]


def of_broker(state: ShardState, broker: int = 1) -> dict[str, Any]:
    table = state[RemoteStorage]
    [row] = (table.broker == broker).nonzero()[0].tolist()
    return {c.name: getattr(table, c.name)[row] for c in table.columns}


def away(topic: str = "t", **how: Any) -> Uploading:
    return Uploading(topic, away_s=AWAY_S, **how)


@pytest.mark.parametrize("shards", [1, 4, 25])
def test_remote_storage_is_away_for_all_topics_and_is_one_finding(shards):
    parts = [away(f"t{i}", leader=1 + i % 2, segment_s=60 + 20 * i) for i in range(6)]
    found = states(parts, shards=shards)
    times = [after_s for after_s, state in found if is_open(state)]
    assert times, "it is found"
    assert AWAY_S + 120 <= times[0] <= AWAY_S + 360
    assert times[-1] == LAST_S, "it goes on"
    _, state = found[-1]
    assert state[ClusterRisks].brokers("remote_storage_failing") == [NO_BROKER]
    assert AWAY_S - 60 <= (state[RemoteStorage].failing_since_ms() - NOW_MS) / 1_000 <= AWAY_S


def test_with_one_tiered_partition_it_is_found_as_well():
    found = states([away()])
    _, state = found[-1]
    assert is_open(state)
    said = of_broker(state)
    assert said["since_ms"] == NOW_MS + 1_000 * AWAY_S
    assert said["stuck"] == said["judged"] == 1
    assert said["stuck_bytes"] == (LAST_S - AWAY_S) * PER_S * RECORD


def test_nothing_is_said_while_uploads_come():
    assert open_times([Uploading(), Uploading("u", 2, segment_s=300)]) == []


@pytest.mark.parametrize("takes_s", [90, 120, 180])
def test_uploads_that_are_slow_but_advance_are_not_away(takes_s):
    assert open_times([Uploading(takes_s=takes_s)], seconds=1_200) == []


def test_one_broken_topic_among_many_is_not_remote_storage():
    others = [Uploading(f"t{i}", segment_s=60 + 10 * i) for i in range(10)]
    assert open_times([away("broken"), *others], seconds=1_200) == []


def test_one_broken_topic_is_not_remote_storage_while_another_uploads_now_and_then():
    assert open_times([away("broken"), Uploading("u", segment_s=600)], seconds=2_000) == []


def test_a_topic_that_is_hardly_written_does_not_hide_it():
    """Its segment takes a week to fill, so its silence proves nothing, nor the opposite."""
    times = open_times([away(), Uploading("rare", segment_s=604_800)], seconds=1_600)
    assert times
    assert 900 <= times[0] - AWAY_S <= 1_260


def test_an_idle_cluster_says_nothing_of_remote_storage():
    found = states([away(stops_s=AWAY_S - 20)], seconds=1_500)
    assert not any(is_open(state) for _, state in found)
    assert of_broker(found[-1][1])["takes_no_uploads"] == UNKNOWN


def test_copies_that_are_disabled_on_purpose_are_not_called_away():
    assert open_times([away(own={"copies_disabled": 1})]) == []


def test_uploads_that_are_delayed_on_purpose_are_not_called_away():
    delay = {"upload_delay_ms": 120_000, "upload_delay_bytes": -1}
    assert open_times([away(own=delay)]) == []


def test_records_that_an_open_transaction_holds_are_not_called_away():
    assert open_times([Uploading(stable_until_s=AWAY_S)]) == []


def test_before_kafka_3_9_nobody_knows():
    found = states([away(uploads_at_all=False)])
    assert not any(is_open(state) for _, state in found)


def test_it_is_over_soon_after_an_upload_is_seen():
    back_s = AWAY_S + 400
    times = open_times([away(back_s=back_s), away("u", back_s=back_s)], seconds=900)
    assert times[0] < back_s <= times[-1] <= back_s + 80


def test_it_goes_on_when_producers_stop_since_their_disks_are_full():
    assert open_times([away(stops_s=AWAY_S + 400)], seconds=1_200)[-1] == 1_200


def test_a_twin_that_starts_during_the_outage_says_since_when():
    found = states([away()], from_s=600, seconds=1_100)
    _, state = found[-1]
    assert is_open(state)
    assert of_broker(state)["since_ms"] == pytest.approx(NOW_MS + 1_000 * AWAY_S, abs=30_000)


def test_one_broker_that_cannot_upload_is_told_from_the_others():
    parts = [away(), away("u"), Uploading("v", 2), Uploading("w", 3)]
    found = states(parts)
    _, state = found[-1]
    assert is_open(state)
    assert state[RemoteStorage].broker[state[RemoteStorage].failing()].tolist() == [1]
    stopped = shard_totals(state).samples["kafka_twin_uploads_stopped_seconds"]
    assert stopped == {("1",): LAST_S - AWAY_S, ("2",): 0, ("3",): 0}


@pytest.mark.parametrize(
    ("measured", "copies", "reads", "deletions"),
    [
        pytest.param({}, -1, -1, -1, id="no exporter"),
        pytest.param({"remote_copy_errors_per_s": 0.1}, 1, -1, -1, id="copies fail"),
        pytest.param({"remote_delete_errors_per_s": 0.1}, -1, -1, 1, id="deletions fail"),
        pytest.param({"remote_delete_errors_per_s": 0.0}, -1, -1, -1, id="no deletion is due"),
        pytest.param(
            {"remote_fetch_errors_per_s": 0.0, "remote_fetch_requests_per_s": 0.0}, -1, -1, -1,
            id="nobody reads",
        ),
        pytest.param(
            {"remote_fetch_errors_per_s": 0.0, "remote_fetch_requests_per_s": 2.0}, -1, 0, -1,
            id="reads succeed",
        ),
        pytest.param(
            {"remote_copy_errors_per_s": 0.1, "remote_fetch_errors_per_s": 0.5,
             "remote_fetch_requests_per_s": 2.0, "remote_delete_errors_per_s": 0.2}, 1, 1, 1,
            id="all fails",
        ),
    ],
)  # fmt: skip
def test_the_operations_that_fail_are_those_that_brokers_measure(
    measured, copies, reads, deletions
):
    _, state = states([away()], measured={1: measured})[-1]
    said = of_broker(state)
    assert is_open(state)
    assert (said["copies_fail"], said["reads_fail"]) == (copies, reads)
    assert said["deletions_fail"] == deletions


def test_the_most_that_a_broker_uploaded_is_known_while_it_uploads_less():
    parts = [Uploading(), Uploading("u", stops_s=AWAY_S)]
    _, state = states(parts, seconds=AWAY_S)[-1]
    assert of_broker(state)["fastest_bytes_per_s"] == pytest.approx(2 * PER_S * RECORD, rel=0.05)
    _, state = states(parts)[-1]
    assert of_broker(state)["fastest_bytes_per_s"] == pytest.approx(2 * PER_S * RECORD, rel=0.05)
