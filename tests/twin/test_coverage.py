"""Replicas that hold enough local log to lead (KIP-1303)."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_state, configs_frame, empty
from tests.cycles import cycle_frames
from tests.reading import computed
from twin.declarations.table import UNKNOWN
from twin.engine.shard_state import ShardState
from twin.proposals.kip1303 import Kip1303Eligibility
from twin.rules.election.balance import BalancedLeaders
from twin.rules.election.next_leader import NextLeaders
from twin.rules.tiering.coverage import Coverage, LocalLog, ReplicaCoverage
from twin.rules.tiering.timestamps import PRODUCER_CLOCK_SKEW_MS, SuspectTimestamps
from twin.rules.tiering.warm_up import WarmUp
from twin.step import step

TEN_MINUTES_MS = 600_000
MIB = 1 << 20


def covered(log: Log, *, topics=None, **thresholds) -> Coverage:
    state = a_state(Partition(replicas=(1,), log=log), topics=topics, **thresholds)
    return Coverage(state[ReplicaCoverage].coverage[0, 0])


def spanning(ms: int, **more) -> Log:
    return Log(local_start=1, started_ms=NOW_MS - ms, **more)


def test_without_a_threshold_nobody_is_judged():
    assert covered(spanning(1, size_bytes=1)) is Coverage.NOT_JUDGED
    state = a_state(Partition(log=spanning(1, size_bytes=1)))
    assert state[NextLeaders].coverage.tolist() == [Coverage.NOT_JUDGED]
    assert computed(state, "kafka_twin_replicas_coverage_not_judged") == 3
    assert set(computed(state, "kafka_twin_replica_election_eligible").ravel()) == {UNKNOWN}
    assert np.isnan(computed(state, "kafka_twin_replica_warm_in_seconds")).all()


def test_a_topic_without_a_threshold_is_not_judged_beside_one_that_has_one():
    parts = (Partition("judged", log=spanning(1)), Partition("other", log=spanning(1)))
    state = a_state(*parts, topics={"judged": {"eligible_local_log_ms": TEN_MINUTES_MS}})
    assert state[ReplicaCoverage].coverage[:, 0].tolist() == [Coverage.COLD, Coverage.NOT_JUDGED]
    assert computed(state, "kafka_twin_replicas_coverage_not_judged") == 3


@pytest.mark.parametrize("off", [-1, 0])
def test_zero_and_minus_one_switch_a_condition_off(off):
    assert covered(spanning(1), eligible_local_log_ms=off) is Coverage.NOT_JUDGED


@pytest.mark.parametrize(
    ("held_ms", "expected"),
    [
        (TEN_MINUTES_MS - 1, Coverage.COLD),
        (TEN_MINUTES_MS, Coverage.WARM),
        (TEN_MINUTES_MS + 1, Coverage.WARM),
    ],
)
def test_a_span_exactly_at_the_threshold_is_enough(held_ms, expected):
    assert covered(spanning(held_ms), eligible_local_log_ms=TEN_MINUTES_MS) is expected


@pytest.mark.parametrize(("held", "expected"), [(MIB - 1, Coverage.COLD), (MIB, Coverage.WARM)])
def test_bytes_exactly_at_the_threshold_are_enough(held, expected):
    assert covered(Log(local_start=1, size_bytes=held), eligible_local_log_bytes=MIB) is expected


def test_either_condition_is_enough():
    both = {"eligible_local_log_ms": TEN_MINUTES_MS, "eligible_local_log_bytes": MIB}
    assert covered(spanning(1, size_bytes=2 * MIB), **both) is Coverage.WARM
    assert covered(spanning(TEN_MINUTES_MS, size_bytes=1), **both) is Coverage.WARM
    assert covered(spanning(1, size_bytes=1), **both) is Coverage.COLD


def test_an_unknown_number_makes_a_replica_assumed_eligible():
    assert (
        covered(Log(local_start=1, started_ms=UNKNOWN), eligible_local_log_ms=TEN_MINUTES_MS)
        is Coverage.ASSUMED
    )


def test_one_known_failure_does_not_settle_it_while_the_other_is_unknown():
    log = spanning(1, size_bytes=UNKNOWN)
    both = {"eligible_local_log_ms": TEN_MINUTES_MS, "eligible_local_log_bytes": MIB}
    assert covered(log, **both) is Coverage.ASSUMED


EMPTY = Log(end=50, local_start=50, started_ms=UNKNOWN, size_bytes=UNKNOWN)


def test_an_empty_local_log_is_known_to_hold_nothing():
    state = a_state(Partition(replicas=(1,), log=EMPTY))
    local = state[LocalLog]
    assert local.local_log_span_ms[0, 0] == local.held_bytes[0, 0] == 0
    assert covered(EMPTY, eligible_local_log_bytes=1) is Coverage.COLD


WHOLE = Log(started_ms=NOW_MS - 1_000, size_bytes=1)


@pytest.mark.parametrize(
    ("log", "config"),
    [
        pytest.param(spanning(1_000, size_bytes=1), {"remote_storage": 0}, id="not tiered"),
        pytest.param(spanning(1_000, size_bytes=1), {"compacted": 1}, id="compacted"),
        pytest.param(WHOLE, {"remote_storage": 1}, id="its whole log is on disk"),
        pytest.param(WHOLE, {}, id="whether it is tiered is unknown"),
        pytest.param(replace(WHOLE, start=7, local_start=7), {"remote_storage": 1}, id="cut"),
        pytest.param(replace(EMPTY, start=50), {"remote_storage": 1}, id="no record"),
        pytest.param(
            Log(end=0, size_bytes=0, started_ms=UNKNOWN), {"remote_storage": 1}, id="never written"
        ),
    ],
)
@pytest.mark.parametrize(
    "threshold",
    [{"eligible_local_log_ms": TEN_MINUTES_MS}, {"eligible_local_log_bytes": MIB}],
)
def test_a_replica_that_lacks_nothing_is_warm_however_young_and_small(log, config, threshold):
    assert covered(log, topics={"t": config}, **threshold) is Coverage.WARM


def test_the_threshold_decides_about_a_replica_that_lacks_records_of_a_tiered_topic():
    topics = {"t": {"remote_storage": 1}}
    by_time = {"eligible_local_log_ms": TEN_MINUTES_MS}
    assert covered(spanning(1_000), topics=topics, **by_time) is Coverage.COLD
    assert covered(spanning(TEN_MINUTES_MS), topics=topics, **by_time) is Coverage.WARM


@pytest.mark.parametrize("unknown", [{"start": UNKNOWN}, {"local_start": UNKNOWN}])
def test_a_replica_whose_start_is_unknown_is_not_called_cold(unknown):
    log = replace(spanning(1_000), **unknown)
    assert covered(log, eligible_local_log_ms=TEN_MINUTES_MS) is Coverage.ASSUMED


def idle(*ends: int, minutes: int = 1, **config: int) -> Coverage:
    """Coverage after cycles with these ends of a log that local retention has emptied."""
    state = None
    for i, end in enumerate(ends):
        part = Partition(replicas=(1,), log=replace(EMPTY, end=end, local_start=end))
        at_ms = NOW_MS + i * minutes * 60_000
        state = a_state(part, at_ms=at_ms, since=state, **config)
    return Coverage(state[ReplicaCoverage].coverage[0, 0])


def test_an_empty_local_log_is_warm_once_nothing_was_appended_for_the_threshold():
    by_time = {"eligible_local_log_ms": TEN_MINUTES_MS}
    appended = [40, *[50] * 10]
    assert idle(*appended, **by_time) is Coverage.COLD
    assert idle(*appended, 50, **by_time) is Coverage.WARM
    assert idle(*appended, 50, 51, **by_time) is Coverage.COLD


def test_before_the_twin_has_watched_for_so_long_it_is_unknown_whether_records_are_missing():
    by_time = {"eligible_local_log_ms": TEN_MINUTES_MS}
    assert idle(*[50] * 10, **by_time) is Coverage.ASSUMED
    assert idle(*[50] * 11, **by_time) is Coverage.WARM


def test_an_idle_partition_still_misses_a_threshold_of_bytes():
    assert idle(*[50] * 20, eligible_local_log_bytes=MIB) is Coverage.COLD


@pytest.mark.parametrize(
    ("ahead_ms", "expected"),
    [
        (PRODUCER_CLOCK_SKEW_MS, (Coverage.COLD, False)),
        (PRODUCER_CLOCK_SKEW_MS + 1, (Coverage.ASSUMED, True)),
        (24 * 3_600_000, (Coverage.ASSUMED, True)),
    ],
)
def test_a_first_record_that_is_dated_in_the_future_says_nothing_and_is_suspect(ahead_ms, expected):
    state = a_state(
        Partition(replicas=(1,), log=spanning(-ahead_ms)), eligible_local_log_ms=TEN_MINUTES_MS
    )
    found = Coverage(state[ReplicaCoverage].coverage[0, 0])
    assert (found, bool(state[SuspectTimestamps].timestamp_suspect[0, 0])) == expected
    assert (state[LocalLog].local_log_span_ms[0, 0] == UNKNOWN) == expected[1]


@pytest.mark.parametrize(
    ("config", "eligible"), [({"remote_storage": 1}, 0), ({}, 0), ({"remote_storage": 0}, 1)]
)
def test_kip_1303_itself_looks_at_the_thresholds_of_tiered_topics_alone(config, eligible):
    """A replica with the whole log on disk is warm, and KIP-1303 elects it last all the same."""
    state = a_state(
        Partition(logs={1: WHOLE}), topics={"t": config}, eligible_local_log_ms=TEN_MINUTES_MS
    )
    assert state[ReplicaCoverage].coverage[0, 0] == Coverage.WARM
    assert state[Kip1303Eligibility].eligible_kip1303[0].tolist() == [eligible, 1, 1]
    assert state[BalancedLeaders.under("kip1303")].leader[0] == (1 if eligible else 2)


def test_a_topics_own_threshold_wins_and_can_switch_the_feature_off():
    cold = spanning(1_000)
    for own, expected in ((500, Coverage.WARM), (5_000, Coverage.COLD), (-1, Coverage.NOT_JUDGED)):
        topics = {"t": {"eligible_local_log_ms": own}}
        assert covered(cold, topics=topics, eligible_local_log_ms=TEN_MINUTES_MS) is expected


def test_a_topic_that_overrides_nothing_inherits():
    assert (
        covered(spanning(1_000), topics={"t": {}}, eligible_local_log_ms=TEN_MINUTES_MS)
        is Coverage.COLD
    )


@given(
    held=st.integers(0, 100),
    held_bytes=st.integers(-1, 100),
    low=st.integers(1, 50),
    more=st.integers(0, 50),
)
def test_a_higher_threshold_never_makes_a_cold_replica_warm(held, held_bytes, low, more):
    log = spanning(held, size_bytes=held_bytes)
    at_low, at_high = (
        covered(log, eligible_local_log_ms=t, eligible_local_log_bytes=t) for t in (low, low + more)
    )
    assert not (at_low is Coverage.COLD and at_high is not Coverage.COLD)


def test_coverage_moves_with_the_clock_alone():
    young = Partition(replicas=(1,), log=spanning(1_000))
    first = a_state(young, eligible_local_log_ms=TEN_MINUTES_MS)
    later = a_state(
        young, at_ms=NOW_MS + TEN_MINUTES_MS, since=first, eligible_local_log_ms=TEN_MINUTES_MS
    )
    verdicts = [state[ReplicaCoverage].coverage[0, 0] for state in (first, later)]
    assert verdicts == [Coverage.COLD, Coverage.WARM]


class TestAReplicaThatDoesNotAnswer:
    """Replica 3 had a minute of log when it answered last; the others go on for 40 minutes."""

    TIERED: ClassVar = {"remote_storage": 1, "compacted": 0, "eligible_local_log_ms": 1_800_000}

    def part(self, k: int, *, away: bool) -> Partition:
        end, at_ms = 200_000 + k * 1_000, NOW_MS + k * 30_000
        leads = Log(end=end, local_start=end - 100_000, started_ms=at_ms - 3_000_000)
        young = replace(leads, local_start=198_000, started_ms=NOW_MS - 60_000)
        return Partition(
            isr=(1, 2) if away else (1, 2, 3), offline=(3,) if away else (), log=leads,
            logs={3: young}, silent=(3,) if away else (),
        )  # fmt: skip

    def cycles(self, count: int, *, away: bool) -> tuple[ShardState, list[str]]:
        state, said = empty(), []
        for k in range(count):
            at_ms, is_away = NOW_MS + k * 30_000, away and k > 0
            part, who = self.part(k, away=is_away), (3,) if is_away else ()
            frames = [*cycle_frames([part], at_ms, ids=(1, 2, 3), silent=who, fenced=who),
                      configs_frame({"t": self.TIERED}, at_ms)]  # fmt: skip
            state, changes = step(state, frames, at_ms)
            said += [change.text for change in changes if "local log to lead" in change.text]
        return state, said

    def test_a_broker_that_is_down_does_not_become_warm_by_the_clock(self):
        state, said = self.cycles(80, away=True)
        assert state[ReplicaCoverage].coverage[0].tolist() == [
            Coverage.WARM,
            Coverage.WARM,
            Coverage.COLD,
        ]
        assert [text for text in said if "replica 3" in text and "enough" in text] == []
        assert state[LocalLog].local_log_span_ms[0, 2] == 60_000
        assert np.isnan(state[WarmUp].warm_in_s[0, 2])

    def test_one_that_answers_does(self):
        state, said = self.cycles(80, away=False)
        assert state[ReplicaCoverage].coverage[0, 2] == Coverage.WARM
        assert [text for text in said if "replica 3 holds enough" in text]

    def test_a_log_of_a_broker_that_is_down_does_not_outlive_its_retention(self):
        """What retention would have deleted meanwhile makes its timestamp no odder."""
        kept = {"remote_storage": 0, "compacted": 0, "retention_ms": 600_000, "segment_ms": 1}
        part = Partition(replicas=(1, 2), log=Log(started_ms=NOW_MS - 60_000))
        state, at_ms = a_state(part, topics={"t": kept}), NOW_MS + 86_400_000
        new = {1: Log(end=900, start=800, local_start=800, started_ms=at_ms - 60_000)}
        away = replace(part, silent=(2,), logs=new)
        state = a_state(away, topics={"t": kept}, since=state, at_ms=at_ms, silent=(2,))
        assert state[SuspectTimestamps].timestamp_suspect.tolist() == [[False, False]]
