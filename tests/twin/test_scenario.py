"""What if: losses, thresholds, an empty broker, another local retention."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_fleet
from tests.simulator.shard import Shape, SimulatedShard
from twin import fleet as fleets
from twin import scenario
from twin.fleet import Fleet
from twin.rules.election import LossOutcome
from twin.step import step
from twin.tables import NO_BROKER, UNKNOWN, PendingUpload

MIB = 1 << 20
HOUR_MS = 3_600_000
TIERED = {"t": {"remote_storage": 1}}
SAFETY = {LossOutcome.CLEAN_WARM: 0, LossOutcome.CLEAN_THIN: 0}
"""How much log a safe leader has is no matter of safety."""


def a_shard(seed: int) -> Fleet:
    fleet = fleets.empty("sim", 0, 1)
    for frames in SimulatedShard(Shape(topics=3, partitions=12), seed).run(4, NOW_MS):
        fleet, _ = step(fleet, frames, frames[0].stamp.observed_at_ms)
    return fleet


class TestLose:
    def test_losing_one_broker_is_what_the_fleet_predicts_of_its_leaders(self):
        fleet = a_shard(3)
        for broker in fleet.brokers.broker.tolist():
            found = scenario.lose(fleet, [broker])
            led = fleet.leader[found.row] == broker
            rows = found.row[led]
            assert (fleet.leader == broker).sum() == led.sum()
            assert found.leaders.kafka[led].tolist() == fleet.next_leader_kafka[rows].tolist()
            assert found.leaders.kip1303_outcome[led].tolist() == (
                fleet.next_outcome_kip1303[rows].tolist()
            )

    def test_two_at_once_skip_the_successor_that_is_lost_as_well(self):
        found = scenario.lose(a_fleet(Partition()), [1, 2])
        assert (found.leaders.kafka.tolist(), found.isr.tolist()) == ([3], [1])
        assert found.offline.tolist() == [False]

    def test_all_of_them_take_it_offline(self):
        found = scenario.lose(a_fleet(Partition()), [1, 2, 3])
        assert found.leaders.kafka.tolist() == [NO_BROKER]
        assert found.offline.all()

    def test_a_leader_that_is_not_lost_stays_and_only_a_short_isr_is_told(self):
        fleet = a_fleet(Partition(), min_insync_replicas=2)
        assert len(scenario.lose(fleet, [3]).row) == 0
        found = scenario.lose(fleet, [2, 3])
        assert (found.leaders.kafka.tolist(), found.under_min_isr.tolist()) == ([1], [True])

    def test_a_broker_that_holds_nothing_is_missed_by_nobody(self):
        assert len(scenario.lose(a_fleet(Partition()), [5]).row) == 0

    def test_a_rack_is_its_brokers(self):
        assert scenario.brokers_in(a_fleet(), ["az-a", "az-c"]) == [1, 3, 4]

    @settings(max_examples=60)
    @given(
        seed=st.integers(0, 50), lost=st.sets(st.integers(1, 6), max_size=5),
        more=st.sets(st.integers(1, 6), max_size=3), elr=st.booleans(), unclean=st.booleans(),
    )  # fmt: skip
    def test_losing_more_is_never_safer(self, seed, lost, more, elr, unclean):
        fleet = a_shard(seed)
        configs = replace(
            fleet.configs,
            elr_enabled=fleet.configs.elr_enabled * 0 + int(elr),
            unclean_leader_election=fleet.configs.unclean_leader_election * 0 + int(unclean),
        )
        assert_never_safer(replace(fleet, configs=configs), lost, lost | more)

    @settings(max_examples=200)
    @given(
        marks=st.lists(st.sampled_from(["isr", "elr", "out"]), min_size=4, max_size=4),
        offline=st.sets(st.integers(1, 4)), fenced=st.sets(st.integers(1, 4)),
        leader=st.sampled_from([1, 2, 3, 4, NO_BROKER]), least=st.integers(1, 4),
        last=st.sets(st.integers(1, 4), max_size=1), elr=st.booleans(), unclean=st.booleans(),
        lost=st.sets(st.integers(1, 4)), more=st.sets(st.integers(1, 4)),
    )  # fmt: skip
    def test_losing_more_is_never_safer_also_in_states_that_no_controller_would_leave(
        self, marks, offline, fenced, leader, least, last, elr, unclean, lost, more
    ):
        named = {mark: tuple(b for b in (1, 2, 3, 4) if marks[b - 1] == mark) for mark in marks}
        part = Partition(
            replicas=(1, 2, 3, 4), isr=named.get("isr", ()), elr=named.get("elr", ()),
            last_known=tuple(last), offline=tuple(offline), leader=leader,
        )  # fmt: skip
        fleet = a_fleet(
            part, fenced=tuple(fenced), min_insync_replicas=least, elr_enabled=int(elr),
            unclean_leader_election=int(unclean),
        )  # fmt: skip
        assert_never_safer(fleet, lost, lost | more)

    def test_a_replica_that_is_fenced_already_does_not_keep_the_isr_from_being_empty(self):
        part = Partition(isr=(1, 2), elr=(3,), offline=(2,))
        fleet = a_fleet(part, elr_enabled=1, min_insync_replicas=3)
        found = scenario.lose(fleet, [1])
        assert found.leaders.kafka.tolist() == [3]
        assert found.leaders.kafka_outcome.tolist() == [LossOutcome.ELR]
        assert found.isr.tolist() == [1]  # who is elected from the ELR is the ISR then


def assert_never_safer(fleet: Fleet, fewer: set[int], more: set[int]) -> None:
    few, many = (outcomes(fleet, brokers) for brokers in (fewer, more))
    assert all(few.get(row, 0) <= worse for row, worse in many.items())
    assert set(few) <= set(many)


def outcomes(fleet: Fleet, brokers: set[int]) -> dict[int, int]:
    """How unsafe each partition is that loses its leader."""
    found = scenario.lose(fleet, brokers)
    return {
        int(row): SAFETY.get(LossOutcome(int(outcome)), int(outcome))
        for row, outcome in zip(found.row, found.leaders.kafka_outcome, strict=True)
    }


class TestThresholds:
    def asked(self, ms: int = UNKNOWN, size: int = UNKNOWN) -> scenario.Eligibility:
        warm, thin = Log(size_bytes=2 * MIB), Log(size_bytes=10, started_ms=NOW_MS - 1_000)
        part = Partition(logs={1: thin}, log=warm)
        return scenario.eligibility(a_fleet(part, topics=TIERED), ms, size, NOW_MS)

    def test_a_threshold_that_is_off_leaves_all_as_it_is(self):
        found = self.asked()
        assert (found.thin_replicas, found.moved_leaders) == (0, 0)
        assert dict(found.leaders_by_rack) == {"az-a": 1, "az-b": 0, "az-c": 0}

    @pytest.mark.parametrize("by", [{"size": MIB}, {"ms": HOUR_MS // 2}])
    def test_a_thin_leader_moves_once_leaders_are_balanced(self, by):
        found = self.asked(**by)
        assert (found.thin_replicas, found.thin_leaders, found.moved_leaders) == (1, 1, 1)
        assert dict(found.leaders_by_rack) == {"az-a": 0, "az-b": 1, "az-c": 0}
        assert found.rack_skew == 3

    def test_shards_add_up(self):
        one = self.asked(size=MIB)
        both = one + one
        assert (both.thin_replicas, dict(both.leaders_by_rack)["az-b"]) == (2, 2)

    @given(low=st.integers(1, 4 * MIB), more=st.integers(0, MIB))
    def test_a_higher_threshold_never_has_fewer_thin_replicas(self, low, more):
        found = [self.asked(size=size).thin_replicas for size in (low, low + more)]
        assert found == sorted(found)

    def test_it_can_be_asked_where_no_cluster_wide_value_is_known(self):
        fleet = a_fleet(Partition(log=Log(size_bytes=10)))
        bare = replace(fleet, configs=fleets.empty("c", 0, 1).configs)
        assert scenario.eligibility(bare, UNKNOWN, MIB, NOW_MS).thin_replicas == 3


LOG = Log(end=1_000, local_start=500, size_bytes=5_000, last_tiered=899, pending_upload=900,
          reason=PendingUpload.KNOWN)  # fmt: skip
IDLE = Log(end=50, local_start=50, size_bytes=0, last_tiered=49, reason=PendingUpload.ALL_TIERED)


class TestRejoin:
    def test_an_empty_broker_copies_less_with_the_feature(self):
        parts = [Partition(number=0, log=LOG), Partition(number=1, log=IDLE),
                 Partition(number=2, replicas=(4, 5))]  # fmt: skip
        fleet = a_fleet(*parts, topics=TIERED)
        found = scenario.rejoin(fleet, 2, scenario.held_by(fleet, 2))
        assert (found.partitions, found.cannot_start, found.unknown) == (2, 1, 0)
        assert (found.records_on, found.records_off) == (100, 500)
        assert (found.bytes_on, found.bytes_off) == (1_000, 5_000)
        assert dict(found.paths) == {"from_pending_upload": 1, "stuck_idle": 1}
        assert (found + found).partitions == 4

    def test_it_copies_from_the_next_leader_what_it_led(self):
        fleet = a_fleet(Partition(log=LOG, logs={2: replace(LOG, end=990)}), topics=TIERED)
        found = scenario.rejoin(fleet, 1, scenario.held_by(fleet, 1))
        assert found.records_on == 90

    def test_what_nobody_else_holds_has_no_source(self):
        fleet = a_fleet(Partition(replicas=(1,), log=LOG), topics=TIERED)
        found = scenario.rejoin(fleet, 1, scenario.held_by(fleet, 1))
        assert (found.partitions, found.without_source, found.unknown) == (1, 1, 0)
        assert (found.records_on, found.bytes_off, found.paths) == (0, 0.0, ())

    @given(factors=st.lists(st.integers(1, 5), min_size=1, max_size=30), brokers=st.integers(5, 9))
    def test_a_newcomers_share_is_even_and_meets_no_partition_twice(self, factors, brokers):
        parts = [
            Partition(number=number, replicas=tuple(range(1, factor + 1)))
            for number, factor in enumerate(factors)
        ]
        share = scenario.fair_share(a_fleet(*parts), brokers)
        assert len(share) == sum(factors) // (brokers + 1)
        assert len(set(share.tolist())) == len(share)


class TestLocalRetention:
    HELD = Log(size_bytes=4 * MIB, started_ms=NOW_MS - 4 * HOUR_MS)

    def kept(self, ms: int = UNKNOWN, size: int = UNKNOWN, **config: int) -> scenario.Kept:
        cluster = {"eligible_local_log_bytes": 2 * MIB, **config}
        fleet = a_fleet(Partition(log=self.HELD), topics=TIERED, **cluster)
        return scenario.kept(scenario.with_local_retention(fleet, ms, size, NOW_MS))

    def test_less_time_frees_disk_and_makes_replicas_thin(self):
        assert self.kept().thin == 0
        found = self.kept(ms=HOUR_MS)
        assert (found.replicas, found.thin, found.bytes) == (3, 3, 3 * MIB)
        assert found.longest_span_ms == HOUR_MS

    def test_fewer_bytes_shorten_the_span_as_well(self):
        threshold = {"eligible_local_log_bytes": UNKNOWN, "eligible_local_log_ms": 2 * HOUR_MS}
        assert self.kept(size=2 * MIB, **threshold).thin == 0  # exactly at the threshold
        assert self.kept(size=2 * MIB - 1, **threshold).thin == 3

    def test_more_than_there_is_changes_nothing_now(self):
        assert self.kept(ms=8 * HOUR_MS).bytes == 12 * MIB

    def test_who_is_thin_for_good_need_not_be_under_a_longer_retention(self):
        part = Partition(log=Log(started_ms=NOW_MS - 1_000))
        fleet = a_fleet(
            part, eligible_local_log_ms=2 * HOUR_MS,
            topics={"t": {"remote_storage": 1, "local_retention_ms": HOUR_MS}},
        )  # fmt: skip
        longer = scenario.with_local_retention(fleet, 3 * HOUR_MS, UNKNOWN, NOW_MS)
        found = [scenario.kept(of) for of in (fleet, longer)]
        assert [one.thin for one in found] == [3, 3]
        assert [one.thin_for_good for one in found] == [3, 0]

    def test_only_tiered_topics_keep_less(self):
        fleet = a_fleet(Partition(log=self.HELD))
        changed = scenario.with_local_retention(fleet, HOUR_MS, UNKNOWN, NOW_MS)
        assert changed.local_log_bytes.tolist() == fleet.local_log_bytes.tolist()
        assert scenario.kept(changed).replicas == 0

    def test_how_far_a_log_can_reach_back_depends_on_how_fast_it_grows(self):
        def after(seconds: int, end: int, since: Fleet | None = None) -> Fleet:
            part = Partition(log=Log(end=end, size_bytes=end * 1_000))
            return a_fleet(part, at_ms=NOW_MS + seconds * 1_000, since=since, topics=TIERED)

        grows = after(10, 200, after(0, 100))  # 10 records of 1 kB a second
        limited = scenario.with_local_retention(grows, UNKNOWN, 600_000, grows.observed_at_ms)
        assert scenario.longest_span_ms(limited).tolist() == [60_000]
        both = scenario.with_local_retention(grows, 5_000, 600_000, grows.observed_at_ms)
        assert scenario.longest_span_ms(both).tolist() == [5_000]

    @pytest.mark.parametrize(("size", "span"), [(UNKNOWN, np.inf), (MIB, np.nan)])
    def test_a_span_has_no_limit_or_nobody_can_tell(self, size, span):
        fleet = a_fleet(Partition(), topics=TIERED)  # one cycle gives no rate
        changed = scenario.with_local_retention(fleet, UNKNOWN, size, NOW_MS)
        np.testing.assert_equal(scenario.longest_span_ms(changed), [span])

    def test_shards_add_up(self):
        one = self.kept(ms=HOUR_MS)
        none = scenario.kept(fleets.empty("c", 0, 1))
        assert none + one + one == replace(one, replicas=6, thin=6, bytes=6 * MIB,
                                           thin_for_good=2 * one.thin_for_good)  # fmt: skip
