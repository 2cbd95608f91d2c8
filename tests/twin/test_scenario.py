"""What if: losses, thresholds, an empty broker, another local retention."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NOW_MS, Log, Partition, a_fleet
from twin import fleet as fleets
from twin import scenario
from twin.fleet import Fleet
from twin.rules.election import LossOutcome
from twin.simulate import Shape, SimulatedShard
from twin.step import step
from twin.tables import NO_BROKER, UNKNOWN

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

    @settings(max_examples=60, deadline=None)
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
        fleet = replace(fleet, configs=configs)
        few, many = (outcomes(fleet, brokers) for brokers in (lost, lost | more))
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


def test_an_empty_broker_copies_less_with_the_feature():
    from twin.tables import PendingUpload

    log = Log(end=1_000, local_start=500, size_bytes=5_000, last_tiered=899, pending_upload=900,
              reason=PendingUpload.KNOWN)  # fmt: skip
    idle = Log(end=50, local_start=50, size_bytes=0, last_tiered=49,
               reason=PendingUpload.ALL_TIERED)  # fmt: skip
    parts = [Partition(number=0, log=log), Partition(number=1, log=idle),
             Partition(number=2, replicas=(4, 5))]  # fmt: skip
    found = scenario.rejoin(a_fleet(*parts, topics=TIERED), 2)
    assert (found.partitions, found.cannot_start, found.unknown) == (2, 1, 0)
    assert (found.records_on, found.records_off) == (100, 500)
    assert (found.bytes_on, found.bytes_off) == (1_000, 5_000)
    assert dict(found.paths) == {"from_pending_upload": 1, "stuck_idle": 1}
    assert (found + found).partitions == 4


def test_less_retention_frees_disk_and_makes_replicas_thin():
    part = Partition(log=Log(size_bytes=4 * MIB, started_ms=NOW_MS - 4 * HOUR_MS))
    fleet = a_fleet(part, topics=TIERED, eligible_local_log_bytes=2 * MIB)
    found = scenario.retain(fleet, HOUR_MS, UNKNOWN, NOW_MS)
    assert (found.thin_before, found.thin_after) == (0, 3)
    assert (found.bytes_before, found.bytes_after) == (12 * MIB, 3 * MIB)
    assert scenario.retain(fleet, 8 * HOUR_MS, UNKNOWN, NOW_MS).bytes_after == 12 * MIB
    assert scenario.retain(fleet, UNKNOWN, MIB, NOW_MS).bytes_after == 3 * MIB
    untiered = a_fleet(part, eligible_local_log_bytes=2 * MIB)
    assert scenario.retain(untiered, HOUR_MS, UNKNOWN, NOW_MS).replicas == 0
